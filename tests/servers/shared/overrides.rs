//! What people say about groups, where several sidecars share a forest.

use serde_json::json;

use crate::backfill::create_mapped;
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, unique_index};
use crate::overrides::{article, bulk, followed, listed_overrides, roots, said_and_undone, say, take_back, torn};

/// A sidecar in front of one index.
fn sidecar(upstream: &str, index: &str, redis: &Redis, more: &[&str]) -> Spinney {
    let url = redis.url();
    let base = ["--upstream", upstream, "--index", index];
    let shared = ["--text-field", "content", "--forest-store", &url];
    let counts = ["--counts", "off"];
    Spinney::start(&[&base[..], &shared, &counts, more].concat())
}

#[tokio::test]
async fn what_is_said_to_one_sidecar_holds_for_all() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, index) = (Server::new(&upstream), unique_index("shared-overrides"));
    create_mapped(&server, &index).await;
    let [one, other] = [(); 2].map(|()| sidecar(&upstream, &index, &redis, &[]));
    said_and_undone(&server, &index, [&one.url, &other.url], async |_| {}).await;
    server.delete_index(&index).await;
}

/// The sidecar that is to have stored documents follow cannot, and is killed: another one does.
#[tokio::test]
async fn a_word_is_followed_by_another_sidecar_when_the_first_one_is_gone() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, index) = (Server::new(&upstream), unique_index("shared-overrides-killed"));
    create_mapped(&server, &index).await;
    // With a path, no other node stands in for it.
    let nobody = ["--service-url", "http://127.0.0.1:1/away"];
    let mut first = sidecar(&upstream, &index, &redis, &nobody);
    bulk(&first.url, &index, [("a", article(1, 1))]);
    let second = sidecar(&upstream, &index, &redis, &[]);
    bulk(&second.url, &index, [("b", article(2, 2)), ("c", article(2, 3))]);
    let before = roots(&server, &index).await;
    let merge = json!({"roots": [before["a"], before["b"]]});
    say(&second.url, &format!("{index}/_merge"), &merge);
    let split = json!({"ids": ["c"]});
    say(&first.url, &format!("{index}/_split"), &split);
    assert_eq!(roots(&server, &index).await, before);
    first.kill9();
    followed(&second.url, &index).await;
    let after = roots(&server, &index).await;
    assert_eq!((&after["a"], &after["b"]), (&before["a"], &before["a"]));
    assert!(after["c"] != before["c"] && after["c"] != before["a"], "{after:?}");
    // One that begins now knows all of it.
    let third = sidecar(&upstream, &index, &redis, &[]);
    bulk(&third.url, &index, [("d", article(2, 9)), ("c", article(2, 3))]);
    let written = roots(&server, &index).await;
    assert_eq!((&written["d"], &written["c"]), (&before["a"], &after["c"]));
    let listed = listed_overrides(&third.url, &index);
    assert_eq!(listed["overrides"].as_array().unwrap().len(), 2, "{listed}");
    server.delete_index(&index).await;
}

/// A story of which both trees live, as after a failover that has lost a leaf: an override heals it, and without one
/// the next document that agrees with both.
async fn healed(label: &str, mode: &str) {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, index) = (Server::new(&upstream), unique_index(label));
    create_mapped(&server, &index).await;
    let more = ["--late-merges", mode];
    let [one, other] = [(); 2].map(|()| sidecar(&upstream, &index, &redis, &more));
    bulk(&one.url, &index, [("one", torn(1))]);
    bulk(&other.url, &index, [("other", torn(2))]);
    let before = roots(&server, &index).await;
    assert_ne!(before["one"], before["other"]);
    if mode == "suggest" {
        let merge = json!({"roots": [before["one"], before["other"]]});
        say(&other.url, &format!("{index}/_merge"), &merge);
    }
    bulk(&one.url, &index, [("both", torn(0))]);
    followed(&one.url, &index).await;
    let listed = listed_overrides(&other.url, &index);
    let kind = if mode == "apply" { "late" } else { "merge" };
    assert_eq!(listed["overrides"][0]["kind"], kind, "{listed}");
    let winner = listed["overrides"][0]["winner"].as_str().unwrap();
    let after = roots(&server, &index).await;
    assert!(after.values().all(|root| root == winner), "{after:?}");
    // Taken back, they are apart again.
    take_back(&one.url, &index, 0);
    followed(&other.url, &index).await;
    let apart = roots(&server, &index).await;
    assert_eq!([&apart["one"], &apart["other"]], [&before["one"], &before["other"]]);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn a_story_in_two_is_healed_by_a_word() {
    healed("shared-overrides-torn", "suggest").await;
}

#[tokio::test]
async fn a_story_in_two_is_healed_by_a_later_document() {
    healed("shared-overrides-late", "apply").await;
}
