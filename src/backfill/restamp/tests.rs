//! Against a cluster that is made up: with any subset of routes, indices and documents failing in any way, all other
//! documents follow, and what was said about them is done; when nothing fails any more, all do.

#![expect(clippy::disallowed_methods, reason = "who may say something is not what is tested here")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration as RealDuration;

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::config::{RawRoute, Route};
use crate::forest::overrides::{Override, Restamp};
use crate::hash::HashKey;
use crate::index_pattern::fits;
use crate::time::Millis;

/// What of an index fails, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Each of its documents is refused.
    Writes(u16),
    /// A bulk that has one of its documents is refused as a whole.
    Bulks(u16),
    /// It cannot be read.
    Reads(u16),
    /// Nobody answers about it.
    Silent,
}

#[derive(Debug)]
struct Stored {
    root: Root,
    seq_no: u64,
}

#[derive(Debug, Default)]
struct World {
    indices: BTreeMap<String, BTreeMap<String, Stored>>,
    /// By an index; a pattern cannot be asked about.
    faults: BTreeMap<String, Fault>,
    /// Documents that are not taken, and such that change so often meanwhile.
    refused: BTreeSet<String>,
    changing: BTreeMap<String, u32>,
    /// Indices that do not store the whole source.
    partial: BTreeSet<String>,
    closed: BTreeSet<String>,
    points: BTreeSet<u64>,
    opened: u64,
}

type Answer = Option<(u16, Value)>;

fn error(status: u16) -> Answer {
    Some((status, json!({"error": {"type": "made_up", "reason": "made up"}})))
}

impl World {
    fn answer(&mut self, method: &str, target: &str, body: &[u8]) -> Answer {
        let path = target.split('?').next().unwrap();
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method, &*segments) {
            ("GET", ["_resolve", "index", pattern]) => match self.faults.get(*pattern) {
                Some(Fault::Silent) => None,
                Some(Fault::Writes(status) | Fault::Bulks(status) | Fault::Reads(status)) => error(*status),
                None => {
                    let is_closed = target.ends_with("?expand_wildcards=closed");
                    let found = self.indices.keys().filter(|index| fits(pattern, index));
                    let found = found.filter(|index| self.closed.contains(*index) == is_closed);
                    let attributes = json!([if is_closed { "closed" } else { "open" }]);
                    let found = found.map(|index| json!({"name": index, "attributes": attributes}));
                    Some((200, json!({"indices": found.collect::<Vec<_>>()})))
                }
            },
            // What is asked beside a name that cannot be resolved.
            ("GET", [name, "_search"]) => match self.faults.get(*name) {
                Some(Fault::Silent) => None,
                Some(Fault::Writes(status) | Fault::Bulks(status) | Fault::Reads(status)) => error(*status),
                None => Some((200, json!({}))),
            },
            ("POST", [_, "_refresh"]) => Some((200, json!({}))),
            ("GET", [names, "_mapping"]) => {
                let partial = names.split(',').filter(|name| self.partial.contains(*name));
                let mapping = json!({"mappings": {"_source": {"excludes": ["vector"]}}});
                let all: serde_json::Map<_, _> = partial.map(|name| (name.to_owned(), mapping.clone())).collect();
                Some((200, all.into()))
            }
            ("POST", [names, "_pit"]) => {
                for name in names.split(',') {
                    match self.faults.get(name) {
                        Some(Fault::Reads(status)) => return error(*status),
                        Some(Fault::Silent) => return None,
                        _ => {}
                    }
                }
                self.opened += 1;
                self.points.insert(self.opened);
                Some((200, json!({"id": self.opened.to_string()})))
            }
            ("DELETE", ["_pit"]) => {
                let body: Value = serde_json::from_slice(body).unwrap();
                self.points.remove(&body["id"].as_str().unwrap().parse().unwrap());
                Some((200, json!({})))
            }
            ("POST", ["_search"]) => self.search(&serde_json::from_slice(body).unwrap()),
            ("POST", ["_bulk"]) => self.bulk(std::str::from_utf8(body).unwrap()),
            _ => panic!("{method} {path}"),
        }
    }

    fn search(&self, body: &Value) -> Answer {
        let filters = &body["query"]["bool"]["filter"];
        let (indices, roots) = (&filters[0]["terms"]["_index"], &filters[1]["terms"]["cluster_root"]);
        let is_in = |list: &Value, text: &str| list.as_array().unwrap().contains(&json!(text));
        let mut hits = Vec::new();
        for (index, documents) in &self.indices {
            for (id, stored) in documents {
                let root = stored.root.to_string();
                if is_in(indices, index) && is_in(roots, &root) {
                    hits.push(json!({
                        "_index": index, "_id": id, "_seq_no": stored.seq_no, "_primary_term": 1,
                        "_source": {"cluster_root": root}, "sort": [stored.seq_no, id],
                    }));
                }
            }
        }
        let answer = json!({"timed_out": false, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}});
        Some((200, answer))
    }

    fn bulk(&mut self, lines: &str) -> Answer {
        let mut lines = lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let (mut items, mut written) = (Vec::new(), Vec::new());
        while let Some(action) = lines.next() {
            let (meta, doc) = (action["update"].clone(), lines.next().unwrap());
            let [index, id] = ["_index", "_id"].map(|of| meta[of].as_str().unwrap().to_owned());
            let stored = &self.indices[&index][&id];
            let changing = self.changing.get_mut(&id);
            let mut status = match self.faults.get(&index) {
                Some(Fault::Bulks(status)) => return error(*status),
                Some(Fault::Silent) => return None,
                Some(Fault::Writes(status)) => *status,
                _ if self.refused.contains(&id) => 400,
                _ if meta["if_seq_no"] != stored.seq_no => 409,
                _ => 200,
            };
            if let Some(times) = changing.filter(|times| status == 200 && **times > 0) {
                *times -= 1;
                status = 409;
            }
            if status == 200 {
                written.push((index, id, doc["doc"]["cluster_root"].as_str().unwrap().to_owned()));
            }
            items.push(
                json!({"update": {"status": status, "result": "updated", "error": {"type": "x", "reason": "made up"}}}),
            );
        }
        for (index, id, root) in written {
            let stored = self.indices.get_mut(&index).unwrap().get_mut(&id).unwrap();
            stored.root = Root(Fingerprint::written(&root, true).unwrap());
            stored.seq_no += 1;
        }
        Some((200, json!({ "items": items })))
    }
}

fn root(number: u8) -> Root {
    Root(Fingerprint(u64::from(number) + 1))
}

/// Two forests of two routes each; the last route matches names of the first.
fn engine() -> Arc<Engine> {
    let route = |pattern: &str, forest: &str| -> Route {
        let raw = json!({"index": [pattern], "method": "longest", "forest": forest});
        let raw: RawRoute = serde_json::from_value(raw).unwrap();
        raw.validate("route").unwrap()
    };
    let routes = [route("news-*", "a"), route("wire", "a"), route("blog-*", "b"), route("*-1", "b")];
    Arc::new(Engine::new(&routes, "cluster_", 2, HashKey::FIXED).unwrap())
}

const INDICES: [&str; 5] = ["news-1", "news-2", "wire", "blog-1", "blog-2"];

struct Scene {
    world: Arc<Mutex<World>>,
    engine: Arc<Engine>,
    operator: Operator,
    shared: Restamping,
    writes: Writes,
    counts: Counts,
    routes: RouteTable,
}

impl Scene {
    /// Every index has a document of each of six roots.
    fn new(faults: BTreeMap<String, Fault>) -> Scene {
        let mut world = World { faults, ..World::default() };
        for index in INDICES {
            let documents = (0..6).map(|number| {
                let stored = Stored { root: root(number), seq_no: u64::from(number) };
                (format!("{index}-{number}"), stored)
            });
            world.indices.insert(index.to_owned(), documents.collect());
        }
        let world = Arc::new(Mutex::new(world));
        let of = world.clone();
        let operator = Operator::of_model(move |method, target, body| of.lock().answer(method.as_str(), target, body));
        let engine = engine();
        let routes = engine.routes().table();
        Scene {
            world,
            operator,
            routes,
            engine,
            shared: Restamping::default(),
            writes: Writes::default(),
            counts: Counts::new(false),
        }
    }

    async fn merge(&self, index: &str, winner: u8, loser: u8) {
        let correction = Override::Merge { winner: root(winner), losers: vec![root(loser)] };
        self.engine.add_override(index, correction, Vec::new()).await.unwrap().unwrap();
        self.shared.wake();
    }

    /// Restamps until something is so. Time goes by a quarter of a second whenever everything else has had a turn.
    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let restamper = Restamper {
            shared: &self.shared,
            engine: &self.engine,
            operator: &self.operator,
            writes: &self.writes,
            counts: &self.counts,
            routes: &self.routes,
            shared_forests: Vec::new(),
            context: &|| RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: 1, caller: None },
        };
        let begun = std::time::Instant::now();
        let watch = async {
            while !is_so().await {
                let world = || format!("{what}: {:?} {:?}", self.shared.shown(), self.world.lock());
                assert!(begun.elapsed() < RealDuration::from_secs(60), "{}", world());
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                tokio::time::advance(Duration::from_millis(250)).await;
            }
        };
        tokio::select! {
            biased;
            () = restamper.run() => {}
            () = watch => {}
        }
    }

    /// Overrides that wait, with the roots that they are about.
    async fn unfinished(&self, forest: &str) -> Vec<Arc<Restamp>> {
        let overrides = self.engine.forests().overrides_of(forest).await.unwrap();
        overrides.unfinished().map(|(_, restamp)| restamp.clone()).collect()
    }

    /// Whether every document of an index shows what is answered for it, but for those that are refused.
    async fn follows(&self, index: &str) -> bool {
        let forest = if index.starts_with("blog") { "b" } else { "a" };
        let overrides = self.engine.forests().overrides_of(forest).await.unwrap();
        let world = self.world.lock();
        let mut documents = world.indices[index].iter();
        documents.all(|(id, stored)| world.refused.contains(id) || stored.root == overrides.group(stored.root))
    }

    async fn is_done(&self) -> bool {
        if self.shared.state() != "waiting" {
            return false;
        }
        for index in INDICES {
            if !self.follows(index).await {
                return false;
            }
        }
        self.unfinished("a").await.is_empty() && self.unfinished("b").await.is_empty()
    }

    async fn end(self) {
        self.operator.settle(Duration::from_secs(600)).await;
        assert_eq!(self.world.lock().points, BTreeSet::new());
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_that_takes_no_writes_holds_nobody_up() {
    let scene = Scene::new(BTreeMap::from([("news-1".to_owned(), Fault::Writes(403))]));
    // Of the first root the blocked index has none.
    scene.world.lock().indices.get_mut("news-1").unwrap().remove("news-1-1");
    scene.merge("news-1", 0, 1).await;
    scene.merge("news-1", 2, 3).await;
    scene.merge("blog-1", 2, 3).await;
    scene
        .until("all others follow", async || {
            let others = ["news-2", "wire", "blog-1", "blog-2"];
            let mut all = true;
            for index in others {
                all &= scene.follows(index).await;
            }
            let waiting = scene.unfinished("a").await;
            all && waiting.len() == 1 && waiting[0].roots.contains(&root(3)) && scene.unfinished("b").await.is_empty()
        })
        .await;
    let shown = scene.shared.shown();
    assert_eq!(shown["state"], "failing", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("news-1"), "{shown}");
    assert!(!scene.follows("news-1").await);
    scene.world.lock().faults.clear();
    scene.until("the rest follows", async || scene.is_done().await).await;
    assert_eq!(scene.shared.shown()["waiting"], 0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_index_without_its_whole_source_is_not_written() {
    let scene = Scene::new(BTreeMap::new());
    scene.world.lock().partial.insert("news-1".to_owned());
    scene.merge("news-1", 0, 1).await;
    scene
        .until("the others follow", async || {
            let others = scene.follows("news-2").await && scene.follows("wire").await;
            others && scene.unfinished("a").await.is_empty()
        })
        .await;
    assert!(scene.world.lock().indices["news-1"].values().any(|stored| stored.root == root(1)));
    assert!(scene.shared.shown()["errors"].as_u64().unwrap() > 0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_index_is_named_holds_nobody_up_and_follows_once_it_is_open() {
    let scene = Scene::new(BTreeMap::new());
    scene.world.lock().closed.insert("news-1".to_owned());
    scene.merge("news-1", 0, 1).await;
    let is_open = Cell::new(false);
    scene
        .until("it follows once it is open again", async || {
            let others = scene.follows("news-2").await && scene.unfinished("a").await.is_empty();
            if others && !is_open.replace(true) {
                assert!(!scene.follows("news-1").await);
                let closed = scene.shared.status.lock().closed.clone();
                assert_eq!(closed, BTreeSet::from([(0, "news-1".to_owned())]));
                scene.world.lock().closed.clear();
                // A pattern of that forest fits the name, too.
                scene.merge("blog-1", 0, 1).await;
            }
            is_open.get() && scene.follows("news-1").await && scene.follows("blog-1").await
        })
        .await;
    assert!(scene.shared.status.lock().closed.is_empty());
    scene.end().await;
}

fn faults() -> impl Strategy<Value = BTreeMap<String, Fault>> {
    let name = prop::sample::select(vec!["news-1", "news-2", "wire", "blog-1", "blog-2", "news-*"]);
    let status = prop::sample::select(vec![400_u16, 403, 404, 429, 503]);
    let fault = prop_oneof![
        status.clone().prop_map(Fault::Writes),
        status.clone().prop_map(Fault::Bulks),
        status.prop_map(Fault::Reads),
        Just(Fault::Silent),
    ];
    prop::collection::btree_map(name.prop_map(str::to_owned), fault, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_fails_keeps_no_other_document_from_following(
        faults in faults(), merges in prop::collection::vec((0_usize..5, 0_u8..6, 0_u8..6), 1..6),
        refused in prop::collection::btree_set((0_usize..5, 0_u8..6), 0..3),
        changing in prop::collection::btree_map((0_usize..5, 0_u8..6), 1_u32..5, 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let id = |(index, number): (usize, u8)| format!("{}-{number}", INDICES[index]);
        runtime.block_on(async {
            let scene = Scene::new(faults.clone());
            scene.world.lock().refused = refused.into_iter().map(id).collect();
            scene.world.lock().changing = changing.into_iter().map(|(at, times)| (id(at), times)).collect();
            for (index, winner, loser) in merges.into_iter().filter(|(_, a, b)| a != b) {
                // Two that are one already need no other override.
                let correction = Override::Merge { winner: root(winner), losers: vec![root(loser)] };
                scene.engine.add_override(INDICES[index], correction, Vec::new()).await.unwrap();
            }
            scene.until("all others follow", async || {
                let mut all = true;
                for index in INDICES {
                    let is_hidden = index.starts_with("news") && faults.contains_key("news-*");
                    all &= is_hidden || faults.contains_key(index) || scene.follows(index).await;
                }
                all
            }).await;
            scene.world.lock().faults.clear();
            scene.world.lock().refused.clear();
            scene.shared.wake();
            scene.until("all follow", async || scene.is_done().await).await;
            scene.end().await;
        });
    }
}
