//! Writes that go on while Redis is away.

use std::collections::HashSet;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::backfill::create_mapped;
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, Waiting};
use crate::restart::{document, send, stats, stored_roots};

#[tokio::test]
async fn while_redis_is_away_documents_get_roots_alone_that_a_sweep_puts_right() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-alone-{}", common::unique_index("a"));
    create_mapped(&server, &index).await;
    let url = redis.url();
    let more = ["--forest-store", &url, "--on-redis-failure", "local"];
    let route = ["--text-field", "content", "--title-field", "title"];
    let base = ["--upstream", &upstream, "--index", &index, "--counts", "off"];
    let sweep = ["--sweep", "200ms"];
    let spinney = Spinney::start(&[&base[..], &route, &more, &sweep].concat());
    // Every third document is a reprint of the one before it.
    let numbers = |rest: usize| (0..60).filter(move |n| n % 3 == rest).collect::<Vec<_>>();
    for part in [&numbers(0)[..1], &numbers(1)] {
        let stored = send(&client, &spinney.url, &index, part).await.unwrap();
        assert_eq!(stored.len(), part.len());
    }
    let before = stored_roots(&server, &index).await;

    let shown = |path: String| client.get(format!("{}/_spinney/{path}", spinney.url)).send();
    let similar = || async { shown(format!("{index}/_similar/0")).await.unwrap().json::<Value>().await.unwrap() };
    let mut found = similar().await;
    assert!(found["forest"].take().is_object(), "{found}");

    redis.freeze(true);
    // Documents are the cluster's: readers miss what the forest says, and nothing else.
    let mut alone = similar().await;
    (found["took"], alone["took"]) = (json!(0), json!(0));
    assert_eq!(alone, found);
    let page = shown(format!("ui/{index}/group/{}", before[&0])).await.unwrap();
    assert_eq!(page.status(), StatusCode::SEE_OTHER);
    let reprints = numbers(2);
    let stored = send(&client, &spinney.url, &index, &reprints).await.unwrap();
    assert_eq!(stored.len(), reprints.len());
    // One that was there before gets a new text: its old root must not stay.
    let update = client
        .post(format!("{}/{index}/_update/1", spinney.url))
        .json(&json!({"doc": {"content": document(300)["content"], "title": document(300)["title"]}}))
        .send();
    assert_eq!(update.await.unwrap().status(), StatusCode::OK);
    let ready = client.get(format!("{}/_spinney/_ready", spinney.url));
    assert_eq!(ready.send().await.unwrap().status(), StatusCode::OK);
    let metrics = client.get(format!("{}/_spinney/_metrics", spinney.url));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    let alone = reprints.len() + 1;
    for line in [format!("spinney_documents_local_fallback_total {alone}"), "spinney_forest_store_away 1".to_owned()] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    spinney.log_line("what is done without Redis is said", |line| {
        line.contains("is away: documents get roots of this process alone")
    });
    server.refresh(&index).await;
    let documents = server.documents(&index).await;
    let own = |n: usize| &documents[&n.to_string()];
    let mut keys = HashSet::new();
    for &n in &reprints {
        // Readers who collapse see it by itself: it is not one of all that have no key.
        assert!(own(n)["cluster_root"].is_null(), "{}", own(n));
        assert!(own(n)["cluster_arrival"].is_string(), "{}", own(n));
        assert!(keys.insert(own(n)["cluster_key"].as_i64().unwrap()));
    }
    assert!(own(1)["cluster_root"].is_null() && own(1)["cluster_key"].is_i64());
    // Nobody stamps it again while that would only mark it again.
    let adopted = client
        .post(format!("{}/{index}/_bulk", spinney.url))
        .header("content-type", "application/x-ndjson")
        .header("x-spinney-backfill", "-")
        .body(format!("{}\n{}\n", json!({"update": {"_id": "2"}}), json!({"doc": document(2)})))
        .send();
    assert_eq!(adopted.await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);

    redis.freeze(false);
    let waiting = Waiting::until("everything has a root that all share");
    loop {
        let sweep = stats(&client, &spinney.url).await["sweep"].take();
        if sweep["stamped"].as_u64() >= Some(alone as u64) && sweep["left"] == 0 {
            break;
        }
        waiting.pause().await;
    }
    let after = stored_roots(&server, &index).await;
    assert_eq!(after.len(), 41);
    for &n in &reprints {
        assert_eq!(after[&n], before[&(n - 1)], "document {n}");
    }
    assert_ne!(after[&1], before[&1]);
    let documents = server.documents(&index).await;
    for source in documents.values() {
        let root = u64::from_str_radix(source["cluster_root"].as_str().unwrap(), 16).unwrap();
        assert_eq!(source["cluster_key"], json!(root.cast_signed()));
    }
    let log = spinney.end_and_log();
    assert!(log.contains("the Redis of the shared forests is back"), "{log}");
    server.delete_index(&index).await;
}
