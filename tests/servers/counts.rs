//! The sizes of groups, counted in the background: when the counter says that nothing waits, the roots index is what a
//! naive count of all documents gives, whatever was written, moved, deleted, refused or broken off.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use spinney::time::parse_date;

use crate::common::fake::{self, Fake, Reply};
use crate::common::random::Random;
use crate::common::twin::{self, text};
use crate::common::wire::Request;
use crate::common::{self, SearchServer, Server, Spinney, Waiting, on_each_server, root_of, unique_index};

/// Key, number of documents, latest arrival.
type Entries = BTreeMap<i64, (u64, i64)>;

const IDS: usize = 80;
const STORIES: usize = 25;

/// An index whose groups are counted, and a spinney in front of it.
pub struct Scene {
    pub server: Server,
    pub index: String,
    data_dir: PathBuf,
    pub spinney: Spinney,
}

impl Scene {
    pub async fn new(upstream: &str, label: &str, shards: u32) -> Scene {
        let server = Server::new(upstream);
        let index = unique_index(label);
        let body = json!({
            "settings": {"number_of_shards": shards, "number_of_replicas": 0},
            "mappings": {"properties": {
                "content": {"type": "text"}, "n": {"type": "integer"}, "medium": {"type": "keyword"},
                "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
            }},
        });
        server.create_index(&index, body).await;
        let data_dir = common::scratch(label);
        let spinney = start(upstream, &index, &data_dir);
        Scene { server, index, data_dir, spinney }
    }

    fn roots_index(&self) -> String {
        format!("spinney-roots-{}", self.index)
    }

    /// Sends a request to spinney, which must succeed.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = Request::json(method, path, body.to_string()).to(&self.spinney.url);
        assert!(answer.status < 300, "{path}: {}", answer.text());
        answer.json()
    }

    /// Random writes of all kinds, some of which the cluster refuses.
    fn stream(&self, random: &mut Random, bulks: usize) {
        for _ in 0..bulks {
            let mut bulk = String::new();
            for _ in 0..random.between(1, 30) {
                let (id, story) = (random.below(IDS), random.below(STORIES));
                // Few stories are in many documents.
                let story = random.below(story + 1);
                let source = json!({"content": text(story), "n": story, "medium": format!("m{}", id % 7)});
                match random.below(10) {
                    0 => bulk += &format!("{}\n", json!({"delete": {"_id": format!("d{id}")}})),
                    1 => {
                        let refused = json!({"content": text(story), "n": "many"});
                        bulk += &format!("{}\n{refused}\n", json!({"index": {}}));
                    }
                    2 | 3 => {
                        let action = json!({"update": {"_id": format!("d{id}")}});
                        bulk += &format!("{action}\n{}\n", json!({"doc": source, "doc_as_upsert": true}));
                    }
                    4 => bulk += &format!("{}\n{source}\n", json!({"create": {}})),
                    _ => {
                        let action = json!({"index": {"_id": format!("d{id}")}});
                        bulk += &format!("{action}\n{source}\n");
                    }
                }
            }
            let query = random.pick(&["", "?filter_path=took", "?refresh=true", "?pretty"]);
            let path = format!("/{}/_bulk{query}", self.index);
            let answer = Request::bulk(&path, bulk).to(&self.spinney.url);
            assert_eq!(answer.status, 200, "{}", answer.text());
            let id = random.below(IDS);
            match random.below(6) {
                0 => {
                    let path = format!("/{}/_doc/d{id}", self.index);
                    let answer = Request::json("DELETE", &path, "").to(&self.spinney.url);
                    assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
                }
                1 => {
                    let source = json!({"content": text(random.below(STORIES)), "n": 1});
                    self.send("PUT", &format!("/{}/_doc/d{id}", self.index), &source);
                }
                _ => {}
            }
        }
    }

    /// Waits until the counter says that nothing waits.
    async fn settled(&self) {
        let waiting = Waiting::until("all groups have been counted");
        while !is_settled(&self.spinney) {
            waiting.pause().await;
        }
    }

    /// What the roots index is to be.
    async fn naive(&self) -> Entries {
        self.server.refresh(&self.index).await;
        let mut all: Entries = BTreeMap::new();
        for source in self.server.documents(&self.index).await.values() {
            let Some(root) = root_of(source) else {
                continue;
            };
            let key = u64::from_str_radix(root, 16).unwrap().cast_signed();
            let arrival = source["cluster_arrival"].as_str().unwrap();
            let arrival = parse_date(arrival).unwrap().0;
            let (n, last) = all.entry(key).or_insert((0, arrival));
            *n += 1;
            *last = arrival.max(*last);
        }
        all.retain(|_, (n, _)| *n >= 2);
        all
    }

    /// What the roots index is.
    async fn entries(&self) -> Entries {
        let roots = self.roots_index();
        if self.server.count(&roots).await == 0 {
            // None was needed, or made.
            let path = format!("/{roots}/_refresh?ignore_unavailable=true");
            self.server.request(Method::POST, &path, None).await;
        } else {
            self.server.refresh(&roots).await;
        }
        let (status, _) = self.server.request(Method::GET, &format!("/{roots}"), None).await;
        if !status.is_success() {
            return Entries::new();
        }
        let documents = self.server.documents(&roots).await;
        let entry = |(id, source): (&String, &Value)| {
            let key = source["cluster_key"].as_i64().unwrap();
            assert_eq!(*id, key.to_string());
            root_of(source).unwrap();
            (key, (source["n"].as_u64().unwrap(), source["last"].as_i64().unwrap()))
        };
        documents.iter().map(entry).collect()
    }

    /// Once nothing waits, the entries are what they are to be.
    pub async fn holds(&self, when: &str) {
        self.settled().await;
        let (entries, naive) = (self.entries().await, self.naive().await);
        assert_eq!(entries, naive, "{when}");
        assert!(!naive.is_empty(), "{when}: there is nothing to compare");
    }

    /// Runs `spinney reconcile` and gives its line.
    fn reconcile(&self, more: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_spinney"))
            .args(["reconcile", "--upstream", self.server.url(), "--index", &self.index])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub async fn end(mut self) {
        self.spinney.kill9();
        let _ = std::fs::remove_dir_all(&self.data_dir);
        self.server.delete_index(&self.index).await;
        let path = format!("/{}?ignore_unavailable=true", self.roots_index());
        self.server.request(Method::DELETE, &path, None).await;
    }
}

fn start(upstream: &str, index: &str, data_dir: &std::path::Path) -> Spinney {
    Spinney::start(&[
        "--upstream",
        upstream,
        "--index",
        index,
        "--text-field",
        "content",
        "--data-dir",
        data_dir.to_str().unwrap(),
        "--counts",
        "on",
        "--log",
        "spinney=debug",
    ])
}

fn is_settled(spinney: &Spinney) -> bool {
    let counts = &twin::stats_now(&spinney.url)["counts"];
    assert_eq!(counts["errors"], 0, "{counts}");
    counts["state"] == "counting"
        && counts["lag_s"].as_f64() == Some(0.0)
        && counts["dirty_groups"] == 0
        && counts["reconciling"] == 0
        && counts["unscanned"] == 0
        && counts["indices"] == 1
}

#[tokio::test]
async fn entries_are_what_a_naive_count_gives() {
    as_a_naive_count(&common::opensearch(), "counts-os", 2).await;
}

#[tokio::test]
async fn entries_are_what_a_naive_count_gives_on_elasticsearch() {
    as_a_naive_count(&common::elasticsearch(), "counts-es", 3).await;
}

async fn as_a_naive_count(upstream: &str, label: &str, shards: u32) {
    let mut scene = Scene::new(upstream, label, shards).await;
    let mut random = Random::new(7);
    scene.settled().await;
    scene.stream(&mut random, 30);
    scene.holds("after many writes").await;
    // From now on the moves are found by the rolling scan alone.
    let reconciled = |scene: &Scene| twin::stats(&scene.spinney.url)["counts"]["reconciled"].clone();
    let before = reconciled(&scene);
    for round in 0..3 {
        moves(&scene, &mut random);
        scene.holds(&format!("after moves, round {round}")).await;
    }
    assert_eq!(reconciled(&scene), before, "no reconcile was needed");
    // The Elasticsearch that tests run has no module for it.
    if label == "counts-os" {
        let query = json!({"query": {"terms": {"medium": ["m1", "m2"]}}});
        // Flags of first documents are put right meanwhile.
        let path = format!("/{}/_delete_by_query?refresh=true&conflicts=proceed", scene.index);
        scene.send("POST", &path, &query);
        scene.holds("after a deletion by query").await;
    }
    // Killed in the middle.
    scene.stream(&mut random, 5);
    scene.spinney.kill9();
    scene.server.refresh(&scene.index).await;
    scene.spinney = start(upstream, &scene.index, &scene.data_dir);
    scene.holds("after a crash").await;
    scene.stream(&mut random, 5);
    scene.holds("after a crash and more writes").await;
    // Somebody deletes the roots index.
    scene.server.delete_index(&scene.roots_index()).await;
    moves(&scene, &mut random);
    scene.holds("after the roots index was deleted").await;
    let mapping = format!("/{}/_mapping", scene.roots_index());
    let (_, mapping) = scene.server.request(Method::GET, &mapping, None).await;
    let dynamic = mapping.pointer(&format!("/{}/mappings/dynamic", scene.roots_index()));
    assert_eq!(dynamic, Some(&json!("strict")), "{mapping}");
    dry_run(&mut scene).await;
    scene.end().await;
}

/// Writes over documents, so that they leave their groups.
fn moves(scene: &Scene, random: &mut Random) {
    for _ in 0..2 {
        let mut bulk = String::new();
        for _ in 0..10 {
            let (id, story) = (random.below(IDS), random.below(STORIES));
            match random.below(3) {
                0 => bulk += &format!("{}\n", json!({"delete": {"_id": format!("d{id}")}})),
                _ => {
                    let action = json!({"index": {"_id": format!("d{id}")}});
                    bulk += &format!("{action}\n{}\n", json!({"content": text(story), "n": story}));
                }
            }
        }
        let path = format!("/{}/_bulk", scene.index);
        let answer = Request::bulk(&path, bulk).to(&scene.spinney.url).json();
        assert_eq!(answer["errors"], false, "{answer}");
    }
}

/// A difference made by hand is told exactly, and mended.
async fn dry_run(scene: &mut Scene) {
    scene.spinney.kill9();
    let groups = scene.naive().await;
    let mut keys = groups.keys();
    let (lost, wrong) = (keys.next().unwrap(), keys.next().unwrap());
    let roots = scene.roots_index();
    let server = &scene.server;
    let path = |id: &str| format!("/{roots}/_doc/{id}");
    server.request(Method::DELETE, &path(&lost.to_string()), None).await;
    let root = |key: &i64| format!("{:016x}", key.cast_unsigned());
    let entry = |key: &i64| json!({"cluster_key": key, "cluster_root": root(key), "n": 99, "last": 0});
    for key in [wrong, &7] {
        let (status, answer) = server.request(Method::PUT, &path(&key.to_string()), Some(entry(key))).await;
        assert!(status.is_success(), "{answer}");
    }
    server.refresh(&roots).await;
    let told = |what: &str| format!("{}: {} groups; entries: {what}", scene.index, groups.len());
    let difference = "1 missing, 1 wrong, 1 superfluous";
    for _ in 0..2 {
        let expected = told(&format!("{difference}; nothing was changed"));
        assert_eq!(scene.reconcile(&["--dry-run"]), expected);
    }
    let expected = told(&format!("{difference}; 2 written, 1 removed"));
    assert_eq!(scene.reconcile(&[]), expected);
    assert_eq!(scene.entries().await, groups);
    let expected = told("0 missing, 0 wrong, 0 superfluous; nothing was changed");
    assert_eq!(scene.reconcile(&["--dry-run"]), expected);
}

on_each_server!(a_roots_index_that_cannot_be_read);

/// Readers get the order from the documents.
async fn a_roots_index_that_cannot_be_read(search_server: SearchServer) {
    let scene = Scene::new(&search_server.url(), "counts-odd", 1).await;
    let mut random = Random::new(11);
    scene.settled().await;
    scene.stream(&mut random, 6);
    scene.holds("before").await;
    let mut expected: Vec<u64> = scene.naive().await.values().map(|&(n, _)| n).collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let sizes = || {
        let path = format!("/_spinney/{}/_groups", scene.index);
        let answer = scene.send("POST", &path, &json!({"size": 100, "_source": false}));
        let groups = answer["groups"].as_array().unwrap();
        let sizes = groups.iter().map(|group| group["similar_count"].as_u64().unwrap());
        (sizes.take_while(|&n| n >= 2).collect::<Vec<u64>>(), answer["total"]["relation"].clone())
    };
    assert_eq!(sizes().0, expected);
    let roots = scene.roots_index();
    let (status, answer) = scene.server.request(Method::POST, &format!("/{roots}/_close"), None).await;
    assert!(status.is_success(), "{answer}");
    assert_eq!(sizes(), (expected.clone(), json!("eq")), "closed");
    // Of other types than the template has; the counter makes none of these.
    scene.server.delete_index(&roots).await;
    let properties = json!({"cluster_key": {"type": "keyword"}, "cluster_root": {"type": "keyword"},
        "n": {"type": "keyword"}, "last": {"type": "date"}});
    let body = json!({"settings": {"number_of_shards": 1}, "mappings": {"properties": properties}});
    scene.server.create_index(&roots, body).await;
    let entry = json!({"cluster_key": "7", "cluster_root": "0000000000000007", "n": "9", "last": 0});
    let path = format!("/{roots}/_doc/7?refresh=true");
    let (status, answer) = scene.server.request(Method::PUT, &path, Some(entry)).await;
    assert!(status.is_success(), "{answer}");
    assert_eq!(sizes(), (expected, json!("eq")), "of other types");
    // With the next count it is seen that it is another one.
    scene.stream(&mut random, 1);
    let waiting = Waiting::until("the counter says why it cannot count");
    loop {
        let counts = twin::stats_now(&scene.spinney.url)["counts"].clone();
        if counts["reason"].as_str().is_some_and(|reason| reason.contains("delete this index")) {
            break;
        }
        waiting.pause().await;
    }
    scene.end().await;
}

on_each_server!(an_alias_that_takes_the_name_of_an_index);

/// Seen: readers of the alias got `eq` with the numbers of the index that had the name before.
async fn an_alias_that_takes_the_name_of_an_index(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let names = ["a", "b"].map(|label| unique_index(&format!("counts-swap-{label}")));
    let [old, new] = &names;
    let spinney = Spinney::start(&["--upstream", &upstream, "--index", "news-counts-swap-*", "--counts", "on"]);
    let write = |index: &str, stories: std::ops::Range<usize>, copies: usize| {
        let document = |story| format!("{}\n{}\n", json!({"index": {}}), json!({"content": text(story)}));
        let bulk: String = stories.flat_map(|story| std::iter::repeat_n(document(story), copies)).collect();
        let answer = Request::bulk(&format!("/{index}/_bulk?refresh=true"), bulk).to(&spinney.url).json();
        assert_eq!(answer["errors"], false, "{answer}");
    };
    let read = |index: &str| {
        let path = format!("/_spinney/{index}/_groups");
        let answer = Request::json("POST", &path, json!({"size": 100}).to_string()).to(&spinney.url).json();
        let sizes = answer["groups"].as_array().unwrap().iter();
        let sizes: Vec<u64> = sizes.map(|group| group["similar_count"].as_u64().unwrap()).collect();
        (answer["total"].clone(), sizes)
    };
    for index in [old, new] {
        let properties = json!({"cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
            "cluster_arrival": {"type": "date"}});
        server.create_index(index, json!({"mappings": {"properties": properties}})).await;
    }
    write(old, 0..20, 2);
    write(new, 0..3, 2);
    let waiting = Waiting::until("both indices are counted");
    while read(old).0 != json!({"value": 20, "relation": "eq"}) || read(new).0 != json!({"value": 3, "relation": "eq"})
    {
        waiting.pause().await;
    }
    let swap = json!({"actions": [
        {"remove_index": {"index": old}}, {"add": {"index": new, "alias": old}},
    ]});
    let answer = Request::json("POST", "/_aliases", swap.to_string()).to(&spinney.url);
    assert_eq!(answer.status, 200, "{}", answer.text());
    write(old, 10..12, 3);
    let waiting = Waiting::until("the counter knows that the index is gone");
    loop {
        let (total, sizes) = read(old);
        if total["relation"] == "eq" {
            assert_eq!((&total["value"], &*sizes), (&json!(5), &[3, 3, 2, 2, 2][..]));
            break;
        }
        waiting.pause().await;
    }
    drop(spinney);
    for index in [new.clone(), format!("spinney-roots-{old}"), format!("spinney-roots-{new}")] {
        server.request(Method::DELETE, &format!("/{index}?ignore_unavailable=true"), None).await;
    }
}

#[tokio::test]
async fn without_rights_the_state_says_so_and_writes_go_on() {
    // Who has no credentials may do nothing.
    let cluster = Fake::start(|request| {
        let is_write = request.target().starts_with("/news-1/_doc/");
        Reply::Bytes(match is_write {
            true => fake::json(201, "", r#"{"_index":"news-1","_id":"1","_seq_no":1,"result":"created"}"#),
            false => {
                fake::json(403, "", r#"{"error":{"type":"security_exception","reason":"no permissions"},"status":403}"#)
            }
        })
    });
    let spinney = Spinney::start(&["--upstream", &cluster.url, "--index", "news-*", "--counts", "on"]);
    for _ in 0..3 {
        let source = json!({"content": text(1)}).to_string();
        let answer = Request::json("PUT", "/news-1/_doc/1", source).to(&spinney.url);
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let waiting = Waiting::until("the refusal is told");
    loop {
        let counts = twin::stats_now(&spinney.url)["counts"].clone();
        if counts["state"] == "refused" && counts["errors"].as_u64() >= Some(2) {
            let reason = counts["reason"].as_str().unwrap();
            assert!(reason.contains("403") && reason.contains("no permissions"), "{reason}");
            // What was written waits.
            assert!(counts["dirty_groups"].as_u64() >= Some(1), "{counts}");
            assert!(counts["lag_s"].as_f64() > Some(0.0), "{counts}");
            break;
        }
        waiting.pause().await;
    }
    let log = spinney.end_and_log();
    let warnings = log.lines().filter(|line| line.contains("groups are not counted"));
    assert_eq!(warnings.count(), 1, "{log}");
}
