//! A load on several sidecars in the middle of which something breaks, and what became of its stories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::backfill::create_mapped;
use crate::common::{self, Server, Spinney, Waiting};
use crate::restart::{document, foretold};

/// Of each story: a report and a reprint of it, in turns, each to the next sidecar.
const COPIES: usize = 4;
/// Documents of a bulk.
const BULK: usize = 20;

/// One document: the story, and the how manieth of it.
type Copy = (usize, usize);

/// What is written, and to where.
pub struct Stand {
    pub server: Server,
    pub client: Client,
    pub index: String,
    stories: usize,
}

/// Writers at work, one for each sidecar.
pub struct Load {
    all: usize,
    stored: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<()>>,
}

/// What is stored of the stories.
#[derive(Debug, Default)]
pub struct Seen {
    pub documents: usize,
    /// Documents that have no root, or one that is marked as of one process alone.
    pub marked: usize,
    /// Stories that have more than one root.
    pub apart: usize,
    /// Of these, those of which copies of the very same text do.
    pub texts_apart: usize,
}

impl Stand {
    /// `SPINNEY_FAULT_STORIES` makes it larger (`scripts/bench sidecars --faults`).
    pub async fn new(name: &str) -> Stand {
        let upstream = common::opensearch();
        let stories = std::env::var("SPINNEY_FAULT_STORIES").ok();
        let stand = Stand {
            server: Server::new(&upstream),
            client: common::http(),
            index: format!("shared-{name}-{}", common::unique_index("a")),
            stories: stories.map_or(200, |stories| stories.parse().expect("a number")),
        };
        create_mapped(&stand.server, &stand.index).await;
        stand
    }

    pub fn serve(&self, store: &str, more: &[&str]) -> Spinney {
        let base = ["--upstream", self.server.url(), "--counts", "off"];
        let index = ["--index", &self.index];
        let route = ["--text-field", "content", "--title-field", "title"];
        let shared = ["--forest-store", store];
        Spinney::start(&[&base[..], &index, &route, &shared, more].concat())
    }

    /// Begins to write all stories. The copies of one are so far apart that a quarter of all are on their way at a
    /// time. A writer whose sidecar does not take a bulk goes to the next one.
    pub async fn load(&self, sidecars: &[Spinney]) -> Load {
        // Of a writer whom a sidecar does not know the first documents are placed when they are stored already: two
        // that come to two sidecars at the same moment do not see each other.
        for (at, sidecar) in sidecars.iter().enumerate() {
            let to = (self.client.clone(), sidecar.url.clone(), self.index.clone());
            write_until_stored(to, vec![(self.stories + at, 0)]).await;
        }
        let mut copies: Vec<Copy> =
            (0..self.stories).flat_map(|story| (0..COPIES).map(move |copy| (story, copy))).collect();
        copies.sort_by_key(|(story, copy)| (story + copy * self.stories / 4, *copy));
        let all = copies.len() + sidecars.len();
        let stored = Arc::new(AtomicUsize::new(sidecars.len()));
        let urls: Vec<String> = sidecars.iter().map(|sidecar| sidecar.url.clone()).collect();
        let writers = (0..urls.len()).map(|writer| {
            let own = copies.iter().copied();
            let own = own.filter(|(story, copy)| (story + copy) % urls.len() == writer);
            let own: Vec<Copy> = own.collect();
            let (client, index, urls) = (self.client.clone(), self.index.clone(), urls.clone());
            let stored = stored.clone();
            tokio::spawn(async move {
                for bulk in own.chunks(BULK) {
                    let waiting = Waiting::until("a bulk is stored");
                    let mut sidecar = writer;
                    while !write(&client, &urls[sidecar], &index, bulk).await {
                        sidecar = (sidecar + 1) % urls.len();
                        waiting.pause().await;
                    }
                    stored.fetch_add(bulk.len(), SeqCst);
                }
            })
        });
        Load { all, writers: writers.collect(), stored }
    }

    /// What is stored; what the load has written, unless copies were added.
    pub async fn seen(&self) -> Seen {
        self.server.refresh(&self.index).await;
        let documents = self.server.documents(&self.index).await;
        let mut roots: BTreeMap<usize, BTreeSet<(usize, String)>> = BTreeMap::new();
        let mut seen = Seen { documents: documents.len(), ..Seen::default() };
        for (id, source) in &documents {
            let (story, copy) = id.split_once('-').unwrap();
            let text = copy.parse::<usize>().unwrap() % 2;
            let Some(root) = source["cluster_root"].as_str() else {
                seen.marked += 1;
                continue;
            };
            let of = roots.entry(story.parse().unwrap()).or_default();
            of.insert((text, root.to_owned()));
        }
        for of in roots.values() {
            let distinct: BTreeSet<&String> = of.iter().map(|(_, root)| root).collect();
            let texts: BTreeSet<usize> = of.iter().map(|(text, _)| *text).collect();
            seen.apart += usize::from(distinct.len() > 1);
            seen.texts_apart += usize::from(of.len() > texts.len());
        }
        seen
    }

    /// Every document was stored once.
    pub async fn is_whole(&self, load: Load) -> Seen {
        let all = load.all;
        for writer in load.writers {
            writer.await.unwrap();
        }
        let seen = self.seen().await;
        assert_eq!(seen.documents, all, "every document is stored, and once");
        seen
    }

    /// The placement rules hold: another copy of each story, sent to all of these at the same moment, gets one root,
    /// and they foretell the same.
    pub async fn holds_the_law(&self, sidecars: &[&Spinney]) {
        let first = COPIES;
        let stories: Vec<usize> = (0..self.stories).collect();
        for bulk in stories.chunks(BULK) {
            let racers = sidecars.iter().enumerate().map(|(at, sidecar)| {
                // All of the same text, under names of their own.
                let copies = bulk.iter().map(|&story| (story, first + 2 * at)).collect();
                let to = (self.client.clone(), sidecar.url.clone(), self.index.clone());
                tokio::spawn(write_until_stored(to, copies))
            });
            for racer in racers.collect::<Vec<_>>() {
                racer.await.unwrap();
            }
        }
        self.server.refresh(&self.index).await;
        let mut stored = self.server.documents(&self.index).await;
        for story in 0..self.stories {
            let ids = (0..sidecars.len()).map(|at| format!("{story}-{}", first + 2 * at));
            let sources = ids.map(|id| stored.remove(&id).expect("it was stored"));
            let roots = sources.map(|source| common::root_of(&source).map(str::to_owned));
            let roots: BTreeSet<Option<String>> = roots.collect();
            assert!(roots.len() == 1 && !roots.contains(&None), "{story}: {roots:?}");
            let root = roots.into_iter().flatten().next();
            for sidecar in sidecars.iter().filter(|_| story % 10 == 0) {
                let n = number((story, first));
                let said = foretold(&self.client, &sidecar.url, &self.index, n).await;
                assert_eq!(Some(said), root, "{story}");
            }
        }
    }

    /// Documents that this sidecar has placed alone.
    pub async fn placed_alone(&self, sidecar: &Spinney) -> usize {
        let metrics = self.client.get(format!("{}/_spinney/_metrics", sidecar.url));
        let metrics = metrics.send().await.unwrap().text().await.unwrap();
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("spinney_documents_local_fallback_total "));
        count.expect("the metric").parse().unwrap()
    }

    /// Waits until a sweep has put right every document that is marked.
    pub async fn swept(&self) -> Seen {
        let waiting = Waiting::until("every document has a root that all share");
        let marked = json!({"query": {"bool": {"must_not": {"exists": {"field": "cluster_root"}}}}});
        let path = format!("/{}/_count", self.index);
        loop {
            self.server.refresh(&self.index).await;
            let count = self.server.request(Method::POST, &path, Some(marked.clone()));
            if count.await.1["count"] == 0 {
                return self.seen().await;
            }
            waiting.pause().await;
        }
    }

    /// Marks everything that is stored as if it had been placed alone, and lets a spinney of its own sweep it.
    pub async fn stamped_again(&self, store: &str) -> Seen {
        let documents = self.server.documents(&self.index).await;
        let lines = documents.keys().map(|id| {
            let action = json!({"update": {"_id": id}});
            format!("{action}\n{}\n", json!({"doc": {"cluster_root": null}}))
        });
        let marked = self
            .client
            .post(format!("{}/{}/_bulk", self.server.url(), self.index))
            .header("content-type", "application/x-ndjson")
            .body(lines.collect::<String>())
            .send();
        let marked: Value = marked.await.unwrap().json().await.unwrap();
        assert_eq!(marked["errors"], false, "{marked}");
        self.server.refresh(&self.index).await;
        let sweeper = self.serve(store, &["--sweep", "200ms"]);
        let seen = self.swept().await;
        drop(sweeper);
        seen
    }

    pub async fn end(self) {
        self.server.delete_index(&self.index).await;
    }
}

impl Load {
    /// Waits until this part of all documents is stored.
    pub async fn has_stored(&self, part: f64) {
        let waiting = Waiting::until("a part of the load is stored");
        while (self.stored.load(SeqCst) as f64) < part * self.all as f64 {
            waiting.pause().await;
        }
    }

    /// What is broken now is broken under load.
    pub fn goes_on(&self) {
        let stored = self.stored.load(SeqCst);
        assert!(stored < self.all, "all was over before");
    }
}

/// One line for each fault: `scripts/bench sidecars --faults` gathers them.
#[expect(clippy::print_stdout, reason = "a figure, for whoever asks to see it")]
pub fn tell(fault: &str, seen: &Seen, more: &[(&str, usize)]) {
    let mut line = json!({
        "bench": "sidecars", "part": "faults", "fault": fault, "docs": seen.documents,
        "apart": seen.apart, "same_text_apart": seen.texts_apart,
    });
    for (name, value) in more {
        line[name] = json!(value);
    }
    println!("{line}");
}

fn number((story, copy): Copy) -> usize {
    3 * story + 1 + copy % 2
}

async fn write_until_stored((client, url, index): (Client, String, String), copies: Vec<Copy>) {
    let waiting = Waiting::until("a bulk is stored");
    while !write(&client, &url, &index, &copies).await {
        waiting.pause().await;
    }
}

/// Whether all of a bulk was stored.
async fn write(client: &Client, url: &str, index: &str, copies: &[Copy]) -> bool {
    let lines = copies.iter().map(|&(story, copy)| {
        let action = json!({"index": {"_id": format!("{story}-{copy}")}});
        format!("{action}\n{}\n", document(number((story, copy))))
    });
    let sent = client
        .post(format!("{url}/{index}/_bulk"))
        .header("content-type", "application/x-ndjson")
        .body(lines.collect::<String>())
        .send();
    let Ok(answer) = sent.await else { return false };
    let answer: Value = answer.json().await.unwrap_or_default();
    answer["errors"] == false
}
