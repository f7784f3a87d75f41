//! The counter against a cluster that is made up, in time that is made up: with any subset of names, indices and
//! entries failing in any way, all others are counted; when nothing fails any more, all are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::dirty_groups::IndexWrites;
use super::entry::root_of;
use super::{CountState, Counts, Entries, StampFields};
use crate::cluster::operator::Operator;
use crate::cluster::roots::roots_index;
use crate::index_pattern::fits;

/// How something fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Denied,
    Busy,
    Broken,
    Missing,
    Silent,
}

/// What fails: all that is asked about it, or a part of that.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    All,
    Settings,
    Searches,
    Entries,
}

#[derive(Debug, Default)]
struct World {
    /// Documents by index and id, each with the key of its root.
    indices: BTreeMap<String, BTreeMap<String, i64>>,
    /// The index that an alias means.
    aliases: BTreeMap<String, String>,
    /// How often an index was deleted and made again.
    made: BTreeMap<String, u32>,
    /// Entries by index and id.
    entries: BTreeMap<String, BTreeMap<String, (Value, i64)>>,
    /// By a name, a pattern or an index.
    faults: BTreeMap<String, (Of, Fault)>,
    /// Keys of entries that are not taken.
    refused: BTreeSet<i64>,
    asked: u64,
}

type Answer = Option<(u16, Value)>;

fn error(status: u16) -> Answer {
    Some((status, json!({"error": {"type": "made_up", "reason": "made up"}})))
}

fn found(answer: Value) -> Answer {
    Some((200, answer))
}

fn hits(hits: &[Value]) -> Value {
    json!({"timed_out": false, "_shards": {"failed": 0}, "hits": {"hits": hits}})
}

impl World {
    fn fault(&self, name: &str, of: Of) -> Option<Answer> {
        let (what, fault) = self.faults.get(name)?;
        (*what == of || *what == Of::All).then(|| match fault {
            Fault::Denied => error(403),
            Fault::Busy => error(503),
            Fault::Broken => error(400),
            Fault::Missing => error(404),
            Fault::Silent => None,
        })
    }

    fn answer(&mut self, method: &str, target: &str, body: &[u8]) -> Answer {
        self.asked += 1;
        let path = target.split('?').next().unwrap();
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let json = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method, &*segments) {
            ("GET", [names, "_settings"]) => self.settings(names),
            ("GET", [index, "_count"]) => {
                if let Some(answer) = self.fault(index, Of::Searches) {
                    return answer;
                }
                let documents = self.documents(index).map(BTreeMap::len);
                documents.map_or(error(404), |count| found(json!({ "count": count })))
            }
            ("POST", [index, "_search"]) => match index.strip_prefix(&roots_index("")) {
                Some(of) => self.search_entries(of, &json()),
                None => {
                    if let Some(answer) = self.fault(index, Of::Searches) {
                        return answer;
                    }
                    let documents = self.documents(index);
                    documents.map_or(error(404), |all| found(search(all, &json())))
                }
            },
            ("PUT", [roots]) => {
                let of = roots.strip_prefix(&roots_index("")).unwrap();
                if let Some(answer) = self.fault(of, Of::Entries) {
                    return answer;
                }
                self.entries.entry(of.to_owned()).or_default();
                found(json!({}))
            }
            ("POST", [roots, "_mget"]) => {
                let of = roots.strip_prefix(&roots_index("")).unwrap();
                let Some(entries) = self.entries.get(of) else {
                    return error(404);
                };
                let docs = json()["ids"].as_array().cloned().unwrap_or_default();
                let docs =
                    docs.iter().map(|id| json!({"_id": id, "found": entries.contains_key(id.as_str().unwrap())}));
                found(json!({"docs": docs.collect::<Vec<_>>()}))
            }
            ("POST", [roots, "_bulk"]) => {
                let of = roots.strip_prefix(&roots_index("")).unwrap().to_owned();
                self.fault(&of, Of::Entries).unwrap_or_else(|| self.write(&of, body))
            }
            _ => panic!("{method} {path}"),
        }
    }

    /// The documents of an index or alias.
    fn documents(&self, name: &str) -> Option<&BTreeMap<String, i64>> {
        self.indices.get(self.aliases.get(name).map_or(name, String::as_str))
    }

    fn settings(&self, names: &str) -> Answer {
        let mut answer = serde_json::Map::new();
        for name in names.split(',') {
            if let Some(answer) = self.fault(name, Of::Settings) {
                return answer;
            }
            let of_roots = name.strip_prefix(&roots_index(""));
            let entries = of_roots.filter(|of| self.entries.contains_key(*of));
            let documents = self.indices.keys().filter(|index| fits(name, index));
            let meant = self.aliases.get(name).map(String::as_str);
            let all = documents.map(String::as_str).chain(entries.map(|_| name)).chain(meant);
            for index in all {
                let uuid = format!("{index}-{}", self.made.get(index).unwrap_or(&0));
                let uuid = json!({"settings": {"index": {"uuid": uuid, "refresh_interval": "1s"}}});
                answer.insert(index.to_owned(), uuid);
            }
        }
        found(Value::Object(answer))
    }

    fn search_entries(&self, of: &str, body: &Value) -> Answer {
        if let Some(answer) = self.fault(of, Of::Entries) {
            return answer;
        }
        let Some(entries) = self.entries.get(of) else {
            return error(404);
        };
        let range = &body["query"]["bool"]["filter"][0]["range"]["cluster_key"];
        let (first, last) = (range["gte"].as_i64().unwrap(), range["lte"].as_i64().unwrap());
        let mut found_: Vec<(i64, Value)> = Vec::new();
        for (id, (source, version)) in entries {
            let key = source["cluster_key"].as_i64().unwrap();
            if (first..=last).contains(&key) {
                found_.push((key, json!({"_id": id, "_version": version, "_source": source, "sort": [key]})));
            }
        }
        found_.sort_by_key(|(key, _)| *key);
        let found_: Vec<Value> = found_.into_iter().map(|(_, hit)| hit).collect();
        found(hits(&found_))
    }

    fn write(&mut self, of: &str, body: &[u8]) -> Answer {
        let entries = self.entries.entry(of.to_owned()).or_default();
        let text = std::str::from_utf8(body).unwrap();
        let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let mut items = Vec::new();
        while let Some(action) = lines.next() {
            let (op, meta) = action.as_object().unwrap().iter().next().unwrap();
            let id = meta["_id"].as_str().unwrap();
            let status = match &**op {
                "delete" => match entries.remove(id) {
                    Some(_) => 200,
                    None => 404,
                },
                _ => {
                    let source = lines.next().unwrap();
                    let key = source["cluster_key"].as_i64().unwrap();
                    if self.refused.contains(&key) {
                        400
                    } else {
                        let version = meta["version"].as_i64().unwrap();
                        entries.insert(id.to_owned(), (source, version));
                        200
                    }
                }
            };
            items.push(json!({op: {"status": status, "error": {"reason": "made up"}}}));
        }
        found(json!({ "items": items }))
    }

    /// What the entries of an index are to be: groups of two or more.
    fn naive(&self, index: &str) -> BTreeMap<i64, u64> {
        let mut groups: BTreeMap<i64, u64> = BTreeMap::new();
        for key in self.indices[index].values() {
            *groups.entry(*key).or_default() += 1;
        }
        groups.retain(|key, n| *n >= 2 && !self.refused.contains(key));
        groups
    }

    fn counted(&self, index: &str) -> BTreeMap<i64, u64> {
        let entries = self.entries.get(index).into_iter().flatten();
        let entry = |(_, (source, _)): (&String, &(Value, i64))| {
            (source["cluster_key"].as_i64().unwrap(), source["n"].as_u64().unwrap())
        };
        entries.map(entry).collect()
    }
}

fn search(documents: &BTreeMap<String, i64>, body: &Value) -> Value {
    let filter = &body["query"]["bool"]["filter"][0];
    let is_wanted = |key: &i64| match filter["terms"]["cluster_root"].as_array() {
        Some(roots) => roots.contains(&json!(root_of(*key))),
        None => {
            let range = &filter["range"]["cluster_key"];
            range["gte"].as_i64().unwrap() <= *key && *key <= range["lte"].as_i64().unwrap()
        }
    };
    let mut groups: BTreeMap<i64, u64> = BTreeMap::new();
    for key in documents.values().filter(|key| is_wanted(key)) {
        *groups.entry(*key).or_default() += 1;
    }
    let buckets = groups.into_iter().filter(|(_, n)| *n >= 2);
    let bucket = |(key, n)| json!({"key": key, "doc_count": n, "last": {"value": 7.0}});
    let buckets: Vec<Value> = buckets.map(bucket).collect();
    let mut answer = hits(&[]);
    answer["aggregations"] = json!({"groups": {"doc_count_error_upper_bound": 0, "buckets": buckets}});
    answer
}

/// A counter of a world.
struct Scene {
    world: Arc<Mutex<World>>,
    counts: Counts,
    running: Option<super::Running>,
}

impl Scene {
    fn new(world: World) -> Scene {
        let world = Arc::new(Mutex::new(world));
        let of = world.clone();
        let operator = Operator::of_model(move |method, target, body| of.lock().answer(method.as_str(), target, body));
        let counts = Counts::new(true);
        let patterns = ["news-*".to_owned(), "other".to_owned()];
        let running = counts.start(operator, StampFields::new("cluster_"), &patterns);
        Scene { world, counts, running }
    }

    /// Time passes.
    async fn pass(&self, minutes: u64) {
        tokio::time::sleep_until(Instant::now() + Duration::from_secs(60 * minutes)).await;
    }

    /// Documents of an index come or move, and somebody says so.
    fn write(&self, name: &str, index: &str, documents: &[(u8, i64)]) {
        let documents: Vec<(u8, Option<i64>)> = documents.iter().map(|&(id, key)| (id, Some(key))).collect();
        self.change(name, index, &documents);
    }

    /// The same, or documents go, where there is no key. Nobody knows which groups they have left.
    fn change(&self, name: &str, index: &str, documents: &[(u8, Option<i64>)]) {
        let mut world = self.world.lock();
        let Some(all) = world.indices.get_mut(index) else {
            return;
        };
        let mut roots = Vec::new();
        for &(id, key) in documents {
            let id = format!("d{id}");
            match key {
                Some(key) => {
                    all.insert(id, key);
                    roots.push(key.cast_unsigned());
                }
                None => drop(all.remove(&id)),
            }
        }
        drop(world);
        let written = IndexWrites { index: name, roots: &roots, ..IndexWrites::default() };
        self.counts.note(std::iter::once(written));
    }

    /// A query has changed documents of all that a name stands for.
    fn by_query(&self, name: &str) {
        let whole = IndexWrites { index: name, whole: true, ..IndexWrites::default() };
        self.counts.note(std::iter::once(whole));
    }

    fn is_counted(&self, index: &str) -> bool {
        let world = self.world.lock();
        world.counted(index) == world.naive(index)
    }

    fn assert_counted(&self, index: &str) {
        let world = self.world.lock();
        assert_eq!(world.counted(index), world.naive(index), "{index}");
        drop(world);
        assert_eq!(self.counts.entries(index), Entries::True, "{index}");
    }

    /// Ends the counter.
    async fn end(self) {
        self.running.unwrap().stop().await;
    }
}

fn world(indices: &[&str]) -> World {
    let documents = |at: usize| -> BTreeMap<String, i64> {
        let key = |id: usize| ((id * 7 + at) % 5) as i64 - 2;
        (0..12).map(|id| (format!("d{id}"), key(id))).collect()
    };
    let indices = indices.iter().enumerate();
    World { indices: indices.map(|(at, &index)| (index.to_owned(), documents(at))).collect(), ..World::default() }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_may_not_be_asked_about_is_dropped() {
    let mut of = world(&["news-1"]);
    for name in ["secret", "alias"] {
        of.faults.insert(name.into(), (Of::All, Fault::Denied));
    }
    of.faults.insert("_x".into(), (Of::All, Fault::Broken));
    let scene = Scene::new(of);
    scene.pass(1).await;
    scene.by_query("secret");
    scene.by_query("_x");
    scene.write("news-1", "news-1", &[(1, 9), (2, 9)]);
    scene.pass(1).await;
    scene.assert_counted("news-1");
    let progress = scene.counts.progress().unwrap();
    assert_eq!(progress.status.state, CountState::Counting);
    assert_eq!((progress.lag, progress.reconciling), (Duration::ZERO, 0));
    // Where documents of a route were written, somebody is told, and all else goes on.
    scene.write("alias", "news-1", &[(3, 9)]);
    scene.write("news-1", "news-1", &[(4, 9)]);
    scene.pass(1).await;
    scene.assert_counted("news-1");
    assert_eq!(scene.counts.progress().unwrap().status.state, CountState::Refused);
    scene.world.lock().faults.clear();
    scene.pass(2).await;
    assert_eq!(scene.counts.progress().unwrap().status.state, CountState::Counting);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_index_is_forgotten() {
    let scene = Scene::new(world(&["news-1", "news-2", "news-3"]));
    scene.pass(2).await;
    assert_eq!(scene.counts.progress().unwrap().status.indices, 3);
    for nth in 0..20 {
        scene.world.lock().indices.remove("news-2");
        scene.by_query("news-2");
        scene.pass(3).await;
        let progress = scene.counts.progress().unwrap();
        assert_eq!(progress.status.indices, 2, "{nth}");
        assert_eq!((progress.lag, progress.reconciling), (Duration::ZERO, 0));
        assert_eq!(progress.status.errors, 0);
        let again = world(&["news-1", "news-2"]).indices.remove("news-2").unwrap();
        scene.world.lock().indices.insert("news-2".into(), again);
        // At another moment of its round.
        let later = Instant::now() + Duration::from_millis(60_000 + nth * 773);
        tokio::time::sleep_until(later).await;
        scene.assert_counted("news-2");
    }
    scene.end().await;
}

/// Seen: `eq` with the numbers of the index that had the name before.
#[tokio::test(start_paused = true)]
async fn an_index_whose_name_an_alias_takes_is_forgotten() {
    for is_noted in [false, true] {
        let scene = Scene::new(world(&["news-1", "news-2"]));
        scene.pass(2).await;
        scene.assert_counted("news-1");
        {
            let mut world = scene.world.lock();
            world.indices.remove("news-1");
            world.aliases.insert("news-1".into(), "news-2".into());
        }
        let mut seconds = 31;
        if is_noted {
            scene.counts.note_names();
            assert_eq!(scene.counts.entries("news-1"), Entries::Late { is_failing: false });
            seconds = 3;
        }
        tokio::time::sleep_until(Instant::now() + Duration::from_secs(seconds)).await;
        assert_eq!(scene.counts.entries("news-1"), Entries::Unfinished, "{is_noted}");
        scene.pass(2).await;
        assert_eq!(scene.counts.progress().unwrap().status.indices, 1);
        scene.assert_counted("news-2");
        scene.end().await;
    }
}

/// An index behind an alias, of which the cluster says nothing any more, hides no new index of a route.
#[tokio::test(start_paused = true)]
async fn an_index_that_cannot_be_looked_up_hides_no_new_one() {
    let mut of = world(&["news-1", "behind"]);
    of.aliases.insert("other".into(), "behind".into());
    let scene = Scene::new(of);
    scene.pass(2).await;
    scene.assert_counted("behind");
    {
        let mut world = scene.world.lock();
        world.aliases.clear();
        world.faults.insert("behind".into(), (Of::Settings, Fault::Denied));
        let new = self::world(&["news-2"]).indices.remove("news-2").unwrap();
        world.indices.insert("news-2".into(), new);
    }
    scene.pass(2).await;
    scene.assert_counted("news-2");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_made_again_is_another_one() {
    let scene = Scene::new(world(&["news-1"]));
    scene.pass(2).await;
    scene.assert_counted("news-1");
    {
        let mut world = scene.world.lock();
        world.made.insert("news-1".into(), 1);
        world.indices.insert("news-1".into(), [("d1".to_owned(), 9), ("d2".to_owned(), 9)].into());
    }
    let until = Instant::now() + Duration::from_secs(40);
    while scene.counts.entries("news-1") == Entries::True {
        assert!(Instant::now() < until);
        tokio::time::sleep_until(Instant::now() + Duration::from_secs(1)).await;
    }
    scene.pass(1).await;
    scene.assert_counted("news-1");
    scene.end().await;
}

/// A name of 241 bytes has a roots index of 255, and a longer one can have none.
#[tokio::test(start_paused = true)]
async fn an_index_without_a_roots_index_is_not_counted() {
    let [most, beyond] = [241, 242].map(|bytes| format!("news-{}", "n".repeat(bytes - "news-".len())));
    assert_eq!(roots_index(&most).len(), 255);
    let scene = Scene::new(world(&[&most, &beyond]));
    scene.pass(2).await;
    for name in [&most, &beyond] {
        scene.write(name, name, &[(1, 9), (2, 9)]);
    }
    scene.pass(2).await;
    scene.assert_counted(&most);
    assert_eq!(scene.counts.entries(&beyond), Entries::Unfinished);
    let progress = scene.counts.progress().unwrap();
    assert_eq!((progress.status.state, progress.status.indices), (CountState::Counting, 1));
    assert_eq!((progress.lag, progress.reconciling), (Duration::ZERO, 0));
    scene.end().await;
}

/// Seen: its name was asked for once more, the failure took its mark away, and it was never counted as a whole.
#[tokio::test(start_paused = true)]
async fn an_index_that_was_found_is_not_asked_for_as_a_name() {
    for nth in 0..20 {
        let mut of = world(&["news-1", "other"]);
        of.faults.insert("news-*".into(), (Of::All, Fault::Denied));
        of.faults.insert("news-1".into(), (Of::All, Fault::Silent));
        let scene = Scene::new(of);
        scene.pass(1).await;
        scene.write("news-1", "news-1", &[(1, 9), (2, 9)]);
        // At another moment between two looks.
        scene.pass(5 + nth).await;
        scene.world.lock().faults = [("news-1".to_owned(), (Of::Settings, Fault::Missing))].into();
        scene.pass(20).await;
        scene.world.lock().faults.clear();
        scene.pass(20).await;
        scene.assert_counted("news-1");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_are_told_how_true_the_entries_are() {
    let mut of = world(&["news-1", "news-2"]);
    of.faults.insert("news-2".into(), (Of::Entries, Fault::Denied));
    let scene = Scene::new(of);
    assert_eq!(Counts::new(false).entries("news-1"), Entries::Unknown);
    assert_eq!(scene.counts.entries("news-1"), Entries::Unfinished);
    scene.pass(1).await;
    assert_eq!(scene.counts.entries("news-1"), Entries::True);
    // Another one's failures are not its own.
    assert_eq!(scene.counts.entries("news-2"), Entries::Unfinished);
    assert_eq!(scene.counts.entries("unknown"), Entries::Unfinished);
    scene.write("news-1", "news-1", &[(1, 9), (2, 9)]);
    assert_eq!(scene.counts.entries("news-1"), Entries::Late { is_failing: false });
    // As long as searches may not see what was written last, numbers are not exact.
    let mut seen = BTreeSet::new();
    let begun = Instant::now();
    while scene.counts.entries("news-1") != Entries::True {
        seen.insert(scene.is_counted("news-1"));
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep_until(Instant::now() + Duration::from_millis(100)).await;
    }
    assert_eq!(seen, BTreeSet::from([false, true]));
    scene.by_query("news-1");
    assert_eq!(scene.counts.entries("news-1"), Entries::Unfinished);
    scene.pass(1).await;
    assert_eq!(scene.counts.entries("news-1"), Entries::True);
    let denied = (Of::Searches, Fault::Denied);
    scene.world.lock().faults.insert("news-1".into(), denied);
    scene.write("news-1", "news-1", &[(3, 9)]);
    scene.pass(1).await;
    assert_ne!(scene.counts.entries("news-1"), Entries::True);
    scene.end().await;
}

/// Which group a document has left nobody knows: a comparison that began later, and of all ranges, finds it.
#[tokio::test(start_paused = true)]
async fn groups_that_documents_left_are_found_by_a_comparison() {
    let scene = Scene::new(world(&["news-1"]));
    scene.pass(1).await;
    let reconciled = scene.counts.progress().unwrap().status.reconciled;
    for (gone, is_failing) in [(0, false), (1, false), (2, true)] {
        scene.change("news-1", "news-1", &[(gone, None)]);
        if is_failing {
            scene.world.lock().faults.insert("news-1".into(), (Of::Entries, Fault::Broken));
            scene.pass(1).await;
            assert_eq!(scene.counts.entries("news-1"), Entries::Late { is_failing });
            scene.world.lock().faults.clear();
        }
        let (begun, mut was_wrong) = (Instant::now(), false);
        while scene.counts.entries("news-1") != Entries::True {
            was_wrong |= !scene.is_counted("news-1");
            assert!(begun.elapsed() < Duration::from_secs(if is_failing { 120 } else { 10 }));
            tokio::time::sleep_until(Instant::now() + Duration::from_millis(100)).await;
        }
        assert!(was_wrong);
        scene.assert_counted("news-1");
    }
    // It was not marked.
    assert_eq!(scene.counts.progress().unwrap().status.reconciled, reconciled);
    scene.end().await;
}

/// Documents of one of four indices that come, move and go.
fn documents() -> impl Strategy<Value = (usize, Vec<(u8, Option<i64>)>)> {
    let key = prop::option::weighted(0.8, -2_i64..4);
    (0_usize..4, prop::collection::vec((0_u8..14, key), 1..6))
}

fn faults() -> impl Strategy<Value = BTreeMap<String, (Of, Fault)>> {
    let name =
        prop::sample::select(vec!["news-1", "news-2", "news-3", "other", "news-*", "news-*,other", "alias", "secret"]);
    let of = prop::sample::select(vec![Of::All, Of::Settings, Of::Searches, Of::Entries]);
    let fault = prop::sample::select(vec![Fault::Denied, Fault::Busy, Fault::Broken, Fault::Missing, Fault::Silent]);
    prop::collection::btree_map(name.prop_map(str::to_owned), (of, fault), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_fails_keeps_nothing_else_from_being_counted(
        begin in faults(), later in faults(), refused in prop::collection::btree_set(-2_i64..3, 0..2),
        writes in prop::collection::vec(documents(), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let names = ["news-1", "news-2", "news-3", "other"];
            let mut of = world(&names);
            (of.faults, of.refused) = (begin.clone(), refused);
            // Without any look at the patterns nobody knows of an index before something is written to it.
            let scene = Scene::new(of);
            scene.pass(20).await;
            for faults in [&begin, &later] {
                scene.world.lock().faults = faults.clone();
                for (at, documents) in &writes {
                    scene.change(names[*at], names[*at], documents);
                    scene.by_query("secret");
                    scene.change("alias", names[*at], documents);
                }
                scene.pass(40).await;
                for name in names {
                    let is_found = |pattern: &str| !faults.contains_key(pattern) && !begin.contains_key(pattern);
                    let pattern = if name == "other" { "other" } else { "news-*" };
                    if is_found(name) && is_found(pattern) {
                        let world = scene.world.lock();
                        assert_eq!(world.counted(name), world.naive(name), "{name} {faults:?}");
                    }
                }
            }
            scene.world.lock().faults.clear();
            scene.world.lock().refused.clear();
            scene.pass(30).await;
            for name in names {
                scene.assert_counted(name);
            }
            let progress = scene.counts.progress().unwrap();
            assert_eq!(progress.status.state, CountState::Counting, "{:?}", progress.status);
            assert_eq!((progress.lag, progress.reconciling), (Duration::ZERO, 0));
            scene.end().await;
        });
    }
}
