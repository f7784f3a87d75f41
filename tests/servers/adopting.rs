//! The recipe of `docs/adopting.md` for a new mapping: its shell blocks, as they stand, beside a writer that goes on
//! from before the first to after the last. Only addresses and names are the test's own. (`scripts/adopting` runs the
//! steps for an index that keeps its mapping.)

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::common::{self, Server, Spinney, Waiting, root_of, unique_index, unstamped};
use crate::restart::DataDir;

/// Documents that were there before spinney.
const DOCUMENTS: usize = 2_000;

/// The text of document `n`, with a date.
fn document(n: usize) -> Value {
    let mut document = crate::restart::document(n);
    document["published"] = json!(format!("2026-01-01T{:02}:{:02}:{:02}Z", n / 3600, n / 60 % 60, n % 60));
    document
}

/// What the writer does in its turn `n`: a new version of a document, one that has the text of another, or a new copy.
fn change(n: usize) -> (String, Value) {
    let (id, text) = match n % 3 {
        0 => ((n * 7 % DOCUMENTS).to_string(), n * 7 % DOCUMENTS),
        1 => ((n * 11 % DOCUMENTS).to_string(), n * 13 % DOCUMENTS),
        _ => (format!("new-{n}"), n * 17 % DOCUMENTS),
    };
    let mut source = document(text);
    source["turn"] = json!(n);
    (id, source)
}

/// A writer that never pauses. The next write begins when the last one is acknowledged.
struct Writer {
    /// URL and name of the index that it writes to. Locked during a write.
    index: Arc<Mutex<String>>,
    turns: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    /// The newest version of each document.
    newest: JoinHandle<BTreeMap<String, Value>>,
}

impl Writer {
    fn start(index: String, mut newest: BTreeMap<String, Value>) -> Writer {
        let index = Arc::new(Mutex::new(index));
        let (turns, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (to, done, stop) = (index.clone(), turns.clone(), is_over.clone());
        let newest = tokio::spawn(async move {
            let client = common::http();
            while !stop.load(SeqCst) {
                let (id, source) = change(done.load(SeqCst));
                let index = to.lock().await;
                let sent = client.put(format!("{index}/_doc/{id}")).json(&source).send().await.unwrap();
                assert!(sent.status().is_success(), "{index} {id}: {}", sent.text().await.unwrap());
                drop(index);
                newest.insert(id, source);
                done.fetch_add(1, SeqCst);
            }
            newest
        });
        Writer { index, turns, is_over, newest }
    }

    /// From the next write on.
    async fn write_to(&self, index: String) {
        *self.index.lock().await = index;
    }

    async fn go_on_for(&self, turns: usize) {
        let (until, waiting) = (self.turns.load(SeqCst) + turns, Waiting::until("the writer has gone on"));
        while self.turns.load(SeqCst) < until {
            assert!(!self.newest.is_finished(), "the writer has failed");
            waiting.pause().await;
        }
    }

    async fn stop(self) -> BTreeMap<String, Value> {
        self.is_over.store(true, SeqCst);
        self.newest.await.unwrap()
    }
}

/// The shell blocks of a section, with other addresses and names.
fn blocks(heading: &str, names: &[(&str, &str)]) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/adopting.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("\n```sh\n").skip(1).map(|block| block.split("\n```").next().unwrap());
    let adapted =
        blocks.map(|block| names.iter().fold(block.to_owned(), |block, (name, own)| block.replace(name, own)));
    adapted.collect()
}

/// Runs a block and answers what it prints.
async fn run(block: &str, upstream: &str, spinney: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_spinney")).parent().unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-ec", block])
        .env("PATH", format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap()))
        .env("SPINNEY_UPSTREAM", upstream)
        .env("SPINNEY_URL", spinney)
        .env("no_proxy", "*");
    let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let [printed, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{block}\n{}\n{printed}\n{said}", output.status);
    printed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_mapping_while_a_writer_goes_on() {
    let upstream = common::opensearch();
    let (server, dir) = (Server::new(&upstream), DataDir::new("adopting"));
    let base = unique_index("adopting");
    let (old, new) = (format!("{base}-1"), format!("{base}-2"));
    let body = json!({
        // Searches, and with them the copy, see what the recipe makes visible.
        "settings": {"refresh_interval": "-1"},
        "mappings": {"properties": {
            "title": {"type": "text"}, "content": {"type": "text"}, "published": {"type": "date"},
        }},
        "aliases": {&base: {}},
    });
    server.create_index(&old, body).await;
    let documents: BTreeMap<String, Value> = (0..DOCUMENTS).map(|n| (n.to_string(), document(n))).collect();
    let lines: String =
        documents.iter().map(|(id, source)| format!("{}\n{source}\n", json!({"index": {"_id": id}}))).collect();
    let sent = common::http().post(format!("{upstream}/{old}/_bulk")).header("content-type", "application/x-ndjson");
    let answer: Value = sent.body(lines).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["errors"], false, "{answer}");

    let writer = Writer::start(format!("{}/{old}", server.url()), documents);
    writer.go_on_for(50).await;
    let names = [
        ("http://127.0.0.1:9200", server.url()),
        // A name that the end of this test knows.
        ("spinney setup ", &format!("spinney setup --name {base} ")),
        ("spinney-data", dir.path().to_str().unwrap()),
        ("news-*", &format!("{base}-*")),
        ("news-1", &old),
        ("news-2", &new),
        (r#""alias": "news""#, &format!(r#""alias": "{base}""#)),
    ];
    let blocks = blocks("A new mapping: a second index", &names);
    let [make, serve, close, refresh, copy, backfill, move_readers] = blocks.as_slice() else {
        panic!("the section has other blocks: {blocks:#?}");
    };
    let said = run(make, server.url(), "").await;
    assert!(said.contains("mapped cluster_root"), "{said}");
    let (serve, ready) = serve.split_once(" &\n").unwrap();
    let arguments = serve.strip_prefix("spinney serve ").unwrap().replace(['\'', '\\'], "");
    let arguments: Vec<&str> = arguments.split_whitespace().chain(["--upstream", server.url()]).collect();
    let spinney = Spinney::start(&arguments);
    run(&ready.replace("http://127.0.0.1:9201", &spinney.url), "", "").await;

    writer.write_to(format!("{}/{new}", spinney.url)).await;
    // Some of what is to be copied is there already, in a newer version.
    writer.go_on_for(100).await;
    run(close, "", "").await;
    let late = server.request(Method::PUT, &format!("/{old}/_doc/late"), Some(document(0))).await;
    assert_eq!(late.0, 403, "{}", late.1);
    run(refresh, "", "").await;
    let before = writer.turns.load(SeqCst);
    let copied: Value = serde_json::from_str(&run(copy, "", "").await).unwrap();
    let beside_copy = writer.turns.load(SeqCst) - before;
    assert_eq!(copied["failures"], json!([]), "{copied}");
    assert!(copied["created"].as_u64() > Some(0) && copied["version_conflicts"].as_u64() > Some(0), "{copied}");
    let before = writer.turns.load(SeqCst);
    let said = run(backfill, "", &spinney.url).await;
    let beside_backfill = writer.turns.load(SeqCst) - before;
    assert!(said.contains("; 0 have no stamp"), "{said}");
    assert!(beside_copy > 0 && beside_backfill > 0, "nothing was written beside {copied} and {said}");
    run(move_readers, "", "").await;
    writer.go_on_for(50).await;
    let newest = writer.stop().await;

    // What readers find behind their alias.
    server.refresh(&base).await;
    let stored = server.documents(&base).await;
    let [found, expected] = [&stored, &newest].map(|documents| documents.keys().collect::<BTreeSet<_>>());
    assert_eq!(found, expected, "a document is missing, or one too many");
    let mut roots: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, source) in &stored {
        assert_eq!(unstamped(source), newest[id], "{id} is not as it was written last");
        let text = source["content"].as_str().unwrap();
        roots.entry(text).or_default().insert(root_of(source).unwrap_or_else(|| panic!("{id} has no stamp")));
        *copies.entry(text).or_default() += 1;
    }
    let split: Vec<_> = roots.iter().filter(|(_, roots)| roots.len() > 1).collect();
    assert!(split.is_empty(), "copies of one text have several roots: {split:?}");
    let copied = copies.values().filter(|&&copies| copies > 1).count();
    let groups: BTreeSet<&&str> = roots.values().flatten().collect();
    // Every third document is a reprint of the one before.
    assert!(copied > 50 && groups.len() > DOCUMENTS / 2, "{copied} texts twice, {} groups", groups.len());
    let mapping = server.request(Method::GET, &format!("/{new}/_mapping"), None).await.1;
    assert_eq!(mapping[&new]["mappings"]["properties"]["content"]["analyzer"], "english", "{mapping}");

    for path in [format!("/{old}"), format!("/{new}"), format!("/_index_template/{base}")] {
        let (status, answer) = server.request(Method::DELETE, &path, None).await;
        assert!(status.is_success(), "{answer}");
    }
}
