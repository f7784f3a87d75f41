//! What people say about groups: stored documents follow, later ones obey, whatever happens in the middle; and taking
//! it back makes it never said.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::random::Random;
use crate::common::twin::{stats_now, text};
use crate::common::wire::{Answer, Request};
use crate::common::{self, Server, Spinney, Waiting, root_of, unique_index};
use crate::counts::Scene;
use crate::restart::{DataDir, arguments};

/// A document of a story: the same sentences, and a few words of its own at the end.
pub fn article(story: usize, version: usize) -> Value {
    let sentences = (0..15).map(|n| text(1_000 + story * 20 + n));
    let story = sentences.collect::<Vec<_>>().join(". ");
    let end = text(50_000 + version);
    let end: Vec<&str> = end.split(' ').take(3).collect();
    json!({"content": format!("{story}. {}.", end.join(" "))})
}

pub fn bulk<'d>(spinney: &str, index: &str, documents: impl IntoIterator<Item = (&'d str, Value)>) {
    let lines = documents.into_iter().map(|(id, source)| {
        let action = json!({"index": {"_id": id}});
        format!("{action}\n{source}\n")
    });
    let path = format!("/{index}/_bulk?refresh=true");
    let answer = Request::bulk(&path, lines.collect::<String>()).to(spinney);
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

pub fn ask(spinney: &str, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Request::json(method, &format!("/_spinney/{path}"), body).to(spinney)
}

/// Adds an override, and returns its number.
pub fn say(spinney: &str, path: &str, body: &Value) -> u64 {
    let answer = ask(spinney, "POST", path, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let said = answer.json();
    said["override"].as_u64().unwrap_or_else(|| panic!("{said}"))
}

pub fn take_back(spinney: &str, index: &str, number: u64) {
    let answer = ask(spinney, "DELETE", &format!("{index}/_overrides/{number}"), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["taken_back"]["override"], number);
}

pub fn listed_overrides(spinney: &str, index: &str) -> Value {
    let answer = ask(spinney, "GET", &format!("{index}/_overrides"), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits until stored documents follow all that was said.
pub async fn followed(spinney: &str, index: &str) {
    let waiting = Waiting::until("stored documents follow");
    while listed_overrides(spinney, index)["restamping"]["overrides"] != json!([]) {
        waiting.pause().await;
    }
}

/// The roots of all documents, by id.
pub async fn roots(server: &Server, index: &str) -> BTreeMap<String, String> {
    server.refresh(index).await;
    let documents = server.documents(index).await;
    let roots = documents.iter().map(|(id, source)| {
        let root = root_of(source).unwrap_or_else(|| panic!("{id}: {source}"));
        (id.clone(), root.to_owned())
    });
    roots.collect()
}

/// Which documents are together.
fn groups(roots: &BTreeMap<String, String>) -> Vec<Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, root) in roots {
        groups.entry(root).or_default().push(id);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort();
    groups
}

async fn merge_split_and_pin(upstream: &str) {
    let scene = Scene::new(upstream, "overrides", 2).await;
    let spinney = &scene.spinney.url;
    let holds = async |what: &'static str| scene.holds(what).await;
    said_and_undone(&scene.server, &scene.index, [spinney, spinney], holds).await;
    scene.end().await;
}

/// Says everything that can be said to one spinney, writes by another one, and takes it all back. `holds`: what else
/// has to be so.
pub async fn said_and_undone(
    server: &Server,
    index: &str,
    [spinney, writer]: [&str; 2],
    holds: impl AsyncFn(&'static str),
) {
    let all = ["a1", "a2", "a3", "b1", "b2", "c1"];
    let story = |id: &str| usize::from(id.as_bytes()[0] - b'a');
    let document = |id: &str| article(story(id), id[1..].parse().unwrap());
    bulk(writer, index, all.map(|id| (id, document(id))));
    let before = roots(server, index).await;
    let sources = server.documents(index).await;
    assert_eq!(groups(&before), [vec!["a1", "a2", "a3"], vec!["b1", "b2"], vec!["c1"]]);
    let root = |id: &str| before[id].clone();
    let now = async || roots(server, index).await;

    // Two groups are one.
    let merge = json!({"roots": [root("a1"), root("b1")]});
    let merged = say(spinney, &format!("{index}/_merge"), &merge);
    followed(spinney, index).await;
    let together = now().await;
    assert_eq!(groups(&together), [vec!["a1", "a2", "a3", "b1", "b2"], vec!["c1"]]);
    assert_eq!(together["b1"], root("a1"));
    holds("after a merge").await;
    // Nothing else of the documents has changed.
    common::assert_same_documents(&sources, &server.documents(index).await);
    let again = ask(spinney, "POST", &format!("{index}/_merge"), &merge).json();
    assert_eq!((&again["result"], &again["override"]), (&json!("noop"), &Value::Null));
    // Later documents obey, the forest does not change by it.
    bulk(writer, index, [("b3", article(1, 3))]);
    assert_eq!(now().await["b3"], root("a1"));

    // One of them is something else: with all that have its text.
    bulk(writer, index, [("b2-copy", document("b2"))]);
    let split = say(spinney, &format!("{index}/_split"), &json!({"ids": ["b2"]}));
    followed(spinney, index).await;
    let apart = now().await;
    assert_eq!(groups(&apart), [vec!["a1", "a2", "a3", "b1", "b3"], vec!["b2", "b2-copy"], vec!["c1"]]);
    bulk(writer, index, [("b2", document("b2")), ("b4", article(1, 4))]);
    let written = now().await;
    assert_eq!((&written["b2"], &written["b4"]), (&apart["b2"], &root("a1")));

    // Another one belongs to them.
    let pin = json!({"ids": ["c1"], "root": root("b1")});
    let pinned = say(spinney, &format!("{index}/_pin"), &pin);
    followed(spinney, index).await;
    assert_eq!(now().await["c1"], root("a1"));
    holds("after a split and a pin").await;

    let listed = listed_overrides(spinney, index);
    let kinds: Vec<&Value> = listed["overrides"].as_array().unwrap().iter().map(|w| &w["kind"]).collect();
    assert_eq!(kinds, ["merge", "pin", "pin"]);
    assert_eq!(listed["overrides"][0]["losers"], json!([root("b1")]));

    // Taken back, one after the other.
    take_back(spinney, index, merged);
    followed(spinney, index).await;
    let unmerged = now().await;
    for id in ["b1", "b3", "b4"] {
        assert_eq!(unmerged[id], root("b1"), "{id}");
    }
    assert_eq!(unmerged["c1"], root("b1"), "a pin goes with the root that it names");
    assert_eq!(unmerged["b2"], apart["b2"]);
    take_back(spinney, index, split);
    take_back(spinney, index, pinned);
    followed(spinney, index).await;
    let after = now().await;
    for id in all {
        assert_eq!(after[id], before[id], "{id}");
    }
    holds("after everything was taken back").await;
    assert_eq!(listed_overrides(spinney, index)["overrides"], json!([]));
    refusals(spinney, index, &root("a1"));
}

fn refusals(spinney: &str, index: &str, root: &str) {
    let none = "00000000000000ab";
    bulk(spinney, index, [("empty", json!({"content": ""}))]);
    for (method, path, body, status) in [
        ("DELETE", "_overrides/99", Value::Null, 404),
        ("DELETE", "_overrides/x", Value::Null, 400),
        ("GET", "_overrides/1", Value::Null, 405),
        ("POST", "_overrides", json!({}), 405),
        ("GET", "_merge", Value::Null, 405),
        ("POST", "_merge", json!({"roots": [root]}), 400),
        ("POST", "_merge", json!({"roots": [root, none]}), 404),
        ("POST", "_merge", json!({"roots": [root, "b"]}), 400),
        ("POST", "_merge", json!({"roots": [root, none], "more": 1}), 400),
        ("POST", "_merge", json!([]), 400),
        ("POST", "_split", json!({"ids": []}), 400),
        ("POST", "_split", json!({"ids": ["nobody"]}), 404),
        ("POST", "_split", json!({"ids": ["empty"]}), 400),
        ("POST", "_pin", json!({"ids": ["a1"], "root": none}), 404),
    ] {
        let answer = ask(spinney, method, &format!("{index}/{path}"), &body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.text());
    }
    for (path, status) in [("news-*/_overrides", 400), ("other/_overrides", 404)] {
        let answer = ask(spinney, "GET", path, &Value::Null);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    assert_eq!(listed_overrides(spinney, index)["overrides"], json!([]));
}

#[tokio::test]
async fn groups_are_merged_split_and_pinned() {
    merge_split_and_pin(&common::opensearch()).await;
}

#[tokio::test]
async fn groups_are_merged_split_and_pinned_on_elasticsearch() {
    merge_split_and_pin(&common::elasticsearch()).await;
}

/// Said while the cluster cannot be written to in spinney's own name, and followed by the next process.
#[tokio::test]
async fn a_word_survives_kill_9_and_is_followed_by_the_next_process() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let (index, dir) = (unique_index("overrides-killed"), DataDir::new("overrides-killed"));
    super::backfill::create_mapped(&server, &index).await;
    // With a path, no other node stands in for it.
    let nobody = ["--service-url", "http://127.0.0.1:1/away"];
    let mut spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &nobody));
    let documents = [("a", article(1, 1)), ("b", article(2, 2)), ("c", article(2, 3))];
    bulk(&spinney.url, &index, documents);
    let before = roots(&server, &index).await;
    let merge = json!({"roots": [before["a"], before["b"]]});
    say(&spinney.url, &format!("{index}/_merge"), &merge);
    let split = say(&spinney.url, &format!("{index}/_split"), &json!({"ids": ["c"]}));
    let waiting = Waiting::until("the refusal is told");
    while stats_now(&spinney.url)["restamping"]["state"] != "failing" {
        waiting.pause().await;
    }
    let stats = stats_now(&spinney.url);
    assert_eq!(stats["restamping"]["stamped"], 0, "{stats}");
    assert_eq!(roots(&server, &index).await, before);
    spinney.kill9();
    // What is written while nobody is there, and in the next process, follows as well.
    let mut spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &[]));
    followed(&spinney.url, &index).await;
    let after = roots(&server, &index).await;
    assert_eq!((&after["a"], &after["b"]), (&before["a"], &before["a"]));
    assert!(after["c"] != before["c"] && after["c"] != before["a"], "{after:?}");
    bulk(&spinney.url, &index, [("d", article(2, 9)), ("c", article(2, 3))]);
    let written = roots(&server, &index).await;
    assert_eq!((&written["d"], &written["c"]), (&before["a"], &after["c"]));
    assert_eq!(listed_overrides(&spinney.url, &index)["overrides"].as_array().unwrap().len(), 2);
    // Taking it back survives, too.
    take_back(&spinney.url, &index, split);
    followed(&spinney.url, &index).await;
    spinney.kill9();
    let spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &[]));
    assert_eq!(listed_overrides(&spinney.url, &index)["overrides"].as_array().unwrap().len(), 1);
    assert_eq!(roots(&server, &index).await["c"], before["a"]);
    server.delete_index(&index).await;
}

/// It may be closed for good: nothing waits for it.
#[tokio::test]
async fn a_closed_index_is_named_and_follows_a_merge_once_it_is_open() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let (name, dir) = (unique_index("overrides-closed"), DataDir::new("overrides-closed"));
    let (open, closed, pattern) = (format!("{name}-1"), format!("{name}-2"), format!("{name}-*"));
    super::backfill::create_mapped(&server, &open).await;
    super::backfill::create_mapped(&server, &closed).await;
    let spinney = Spinney::start(&arguments(&upstream, &pattern, dir.path(), &[]));
    bulk(&spinney.url, &open, [("a", article(1, 1)), ("b", article(2, 2))]);
    bulk(&spinney.url, &closed, [("c", article(2, 3))]);
    let before = roots(&server, &open).await;
    let turn = async |what: &str| {
        let path = format!("/{closed}/{what}?wait_for_active_shards=1");
        let (status, answer) = server.request(Method::POST, &path, None).await;
        assert!(status.is_success(), "{answer}");
    };
    turn("_close").await;
    say(&spinney.url, &format!("{open}/_merge"), &json!({"roots": [before["a"], before["b"]]}));
    followed(&spinney.url, &open).await;
    assert_eq!(roots(&server, &open).await["b"], before["a"]);
    spinney.log_line("the closed index", |line| line.contains("closed index") && line.contains(&closed));
    turn("_open").await;
    let waiting = Waiting::until("its document follows");
    while roots(&server, &closed).await["c"] != before["a"] {
        waiting.pause().await;
    }
    server.delete_index(&open).await;
    server.delete_index(&closed).await;
}

/// From nothing but the index: what was said is forgotten, and what came of it stays.
#[tokio::test]
async fn a_forest_that_is_rebuilt_keeps_the_groups_and_not_the_words() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let (index, dir) = (unique_index("overrides-rebuilt"), DataDir::new("overrides-rebuilt"));
    super::backfill::create_mapped(&server, &index).await;
    let spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &[]));
    let documents = [("a", article(1, 1)), ("b", article(2, 2)), ("c", article(2, 3))];
    bulk(&spinney.url, &index, documents);
    let before = roots(&server, &index).await;
    say(&spinney.url, &format!("{index}/_merge"), &json!({"roots": [before["a"], before["b"]]}));
    say(&spinney.url, &format!("{index}/_split"), &json!({"ids": ["c"]}));
    followed(&spinney.url, &index).await;
    let after = roots(&server, &index).await;
    drop(spinney);
    let other = DataDir::new("overrides-rebuilt-2");
    let args = arguments(&upstream, &index, other.path(), &["--recover-at-start"]);
    let spinney = Spinney::start(&args);
    assert_eq!(listed_overrides(&spinney.url, &index)["overrides"], json!([]));
    let same = [("c", article(2, 3)), ("b", article(2, 2)), ("a", article(1, 1))];
    bulk(&spinney.url, &index, same);
    assert_eq!(roots(&server, &index).await, after);
    server.delete_index(&index).await;
}

/// Eight writers, and somebody who talks all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn laws_hold_among_eight_writers() {
    const STORIES: usize = 12;
    const WRITERS: usize = 8;
    let scene = Scene::new(&common::opensearch(), "overrides-writers", 2).await;
    let (server, spinney, index) = (&scene.server, &scene.spinney.url, &scene.index);
    let founders: Vec<String> = (0..STORIES).map(|story| format!("f{story}")).collect();
    let founding = founders.iter().enumerate();
    bulk(spinney, index, founding.map(|(story, id)| (&**id, article(story, 0))));
    let first = roots(server, index).await;
    let is_over = AtomicBool::new(false);
    let mut random = Random::new(11);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut random = Random::new(writer as u64);
                let mut rounds = 0;
                while rounds < 3 || !is_over.load(SeqCst) {
                    let documents: Vec<(String, Value)> = (0..5)
                        .map(|_| {
                            let (story, version) = (random.below(STORIES), random.below(20));
                            (format!("w{writer}-{}", random.below(60)), article(story, version))
                        })
                        .collect();
                    bulk(spinney, index, documents.iter().map(|(id, d)| (&**id, d.clone())));
                    rounds += 1;
                }
            });
        }
        let mut said = Vec::new();
        for _ in 0..30 {
            let root = |random: &mut Random| first[&format!("f{}", random.below(STORIES))].clone();
            let (one, other) = (root(&mut random), root(&mut random));
            let id = format!("f{}", random.below(STORIES));
            let (path, body) = match random.below(5) {
                0 | 1 => ("_merge", json!({"roots": [one, other]})),
                2 => ("_split", json!({"ids": [id]})),
                3 => ("_pin", json!({"ids": [id], "root": one})),
                _ => {
                    if let Some(number) = said.pop() {
                        take_back(spinney, index, number);
                    }
                    continue;
                }
            };
            let answer = ask(spinney, "POST", &format!("{index}/{path}"), &body);
            // A group whose last document has gone to another one is none.
            assert!(matches!(answer.status, 200 | 404), "{path}: {}", answer.text());
            said.extend(answer.json()["override"].as_u64());
        }
        is_over.store(true, SeqCst);
    });
    followed(spinney, index).await;
    // Every document shows what would be answered for it now.
    let stored = server.documents(index).await;
    let shown = roots(server, index).await;
    for (id, source) in &stored {
        let document = common::unstamped(source);
        let checked = ask(spinney, "POST", &format!("{index}/_check"), &document).json();
        assert_eq!(checked["root"], shown[id], "{id}: {checked}");
    }
    let said = listed_overrides(spinney, index)["overrides"].as_array().unwrap().len();
    assert!(said > 3 && groups(&shown).len() > 1, "{said}: {shown:?}");
    scene.holds("after all of it").await;
    scene.end().await;
}

/// Whoever may write may say something, and nobody else: the cluster's own answer says so.
#[tokio::test]
async fn who_may_not_write_says_nothing() {
    crate::secure::who_may_say_what().await;
}

/// A cluster that is read-only refuses overrides as it refuses writes.
#[tokio::test]
async fn an_index_that_takes_no_writes_takes_no_words() {
    let upstream = common::elasticsearch();
    let server = Server::new(&upstream);
    let index = unique_index("overrides-blocked");
    super::backfill::create_mapped(&server, &index).await;
    let spinney = Spinney::start(&["--upstream", &upstream, "--index", &index]);
    bulk(&spinney.url, &index, [("a", article(1, 1)), ("b", article(2, 2))]);
    let before = roots(&server, &index).await;
    let path = format!("/{index}/_settings");
    let block = json!({"index.blocks.write": true});
    server.request(Method::PUT, &path, Some(block)).await;
    let merge = json!({"roots": [before["a"], before["b"]]});
    let answer = ask(&spinney.url, "POST", &format!("{index}/_merge"), &merge);
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(answer.text().contains("cluster_block_exception"), "{}", answer.text());
    assert_eq!(listed_overrides(&spinney.url, &index)["overrides"], json!([]));
    server.delete_index(&index).await;
}

/// It was created and never written to, and knows no field at all: not even those of every document.
#[tokio::test]
async fn an_index_without_a_mapping_is_in_nobodys_way() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("overrides-unmapped");
    let (empty, both) = (format!("{index}-empty"), format!("{index}*"));
    super::backfill::create_mapped(&server, &index).await;
    let spinney = Spinney::start(&["--upstream", &upstream, "--index", &both]);
    bulk(&spinney.url, &index, [("a", article(1, 1)), ("b", article(2, 2))]);
    server.create_index(&empty, json!({})).await;
    let before = roots(&server, &index).await;
    let group = ask(&spinney.url, "GET", &format!("{both}/_roots/{}", before["b"]), &Value::Null);
    assert_eq!((group.status, &group.json()["total"]), (200, &json!(1)), "{}", group.text());
    say(&spinney.url, &format!("{index}/_merge"), &json!({"roots": [before["a"], before["b"]]}));
    followed(&spinney.url, &index).await;
    assert_eq!(roots(&server, &index).await["b"], before["a"]);
    for index in [&index, &empty] {
        server.delete_index(index).await;
    }
}

/// Two texts that did not find each other though they agree, and a third that agrees with both: a few of its first
/// or its last words are another story's in the two.
pub fn torn(variant: u64) -> Value {
    const STORY: u64 = 156;
    let word = |at: u64| {
        let of = match variant {
            1 if (20..40).contains(&at) => 1_000_000 + STORY,
            2 if at >= 140 => 2_000_000 + STORY,
            _ => STORY,
        };
        let mut hash = (of * 1_000 + at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 32;
        format!("w{:x}", hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40)
    };
    let words: Vec<String> = (0..160).map(word).collect();
    json!({"content": words.join(" ")})
}

async fn late_merges(upstream: &str) {
    let server = Server::new(upstream);
    let (index, dir) = (unique_index("overrides-late"), DataDir::new("overrides-late"));
    super::backfill::create_mapped(&server, &index).await;
    let with = |mode| arguments(upstream, &index, dir.path(), &["--late-merges", mode]);
    let merges = |spinney: &Spinney| {
        let path = format!("{index}/_merges");
        let answer = ask(&spinney.url, "GET", &path, &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };

    // Suggested, and nothing is changed.
    let mut spinney = Spinney::start(&with("suggest"));
    bulk(&spinney.url, &index, [("one", torn(1)), ("other", torn(2))]);
    let before = roots(&server, &index).await;
    assert_ne!(before["one"], before["other"]);
    bulk(&spinney.url, &index, [("both", torn(0))]);
    let suggested = merges(&spinney);
    let pair = &suggested["suggestions"][0];
    assert_eq!(pair["documents"], 1, "{suggested}");
    let mut named = [&pair["roots"][0], &pair["roots"][1]].map(|r| r.as_str().unwrap().to_owned());
    let winner = named[0].clone();
    named.sort();
    let mut expected = ["one", "other"].map(|id| before[id].clone());
    expected.sort();
    assert_eq!(named, expected);
    assert_eq!(listed_overrides(&spinney.url, &index)["overrides"], json!([]));
    let page = ask(&spinney.url, "GET", &format!("ui/{index}/article/one"), &Value::Null);
    let other = format!("/group/{}\"", before["other"]);
    assert!(page.text().contains(&other), "{}", page.text());
    spinney.kill9();

    // Applied by the next process, which meets them again; stored documents follow.
    let mut spinney = Spinney::start(&with("apply"));
    let more = |n: usize| {
        let content = torn(0)["content"].as_str().unwrap().to_owned();
        json!({"content": format!("{content} more{n}")})
    };
    bulk(&spinney.url, &index, [("again", more(1))]);
    let waiting = Waiting::until("stored documents follow");
    loop {
        let now = roots(&server, &index).await;
        if now.values().all(|root| *root == winner) {
            break;
        }
        waiting.pause().await;
    }
    followed(&spinney.url, &index).await;
    let listed = listed_overrides(&spinney.url, &index);
    assert_eq!(listed["overrides"][0]["kind"], "late", "{listed}");
    assert_eq!(merges(&spinney)["suggestions"], json!([]));
    assert_eq!(merges(&spinney)["applied"], 1);

    // A person knows better, for good.
    take_back(&spinney.url, &index, 0);
    followed(&spinney.url, &index).await;
    let apart = roots(&server, &index).await;
    assert_eq!([&apart["one"], &apart["other"]], [&before["one"], &before["other"]]);
    spinney.kill9();
    let spinney = Spinney::start(&with("apply"));
    bulk(&spinney.url, &index, [("third", more(2))]);
    assert_eq!(merges(&spinney)["applied"], 0);
    assert_eq!(listed_overrides(&spinney.url, &index)["overrides"][0]["kind"], "apart");
    server.delete_index(&index).await;
}

#[tokio::test]
async fn groups_that_a_later_document_agrees_with_are_suggested_or_merged() {
    late_merges(&common::opensearch()).await;
}

#[tokio::test]
async fn groups_that_a_later_document_agrees_with_are_suggested_or_merged_on_elasticsearch() {
    late_merges(&common::elasticsearch()).await;
}
