//! Several sidecars in front of one search server.

use std::collections::HashSet;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, Waiting};
use crate::restart::{document, foretold, send, stats, stored_roots};

#[tokio::test]
async fn sidecars_that_share_a_redis_give_the_same_roots() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, client) = (Server::new(&upstream), common::http());
    let indices = "shared-roots-*";
    let [first, second] = ["a", "b"].map(|part| {
        let unique = common::unique_index(part);
        format!("shared-roots-{unique}")
    });
    let (url, port) = (redis.url(), redis.port());
    let sidecar = || {
        Spinney::start(&[
            "--upstream",
            &upstream,
            "--index",
            indices,
            "--text-field",
            "content",
            "--title-field",
            "title",
            "--forest-store",
            &url,
        ])
    };
    let mut sidecars = [sidecar(), sidecar(), sidecar()];
    // The cluster has to know the writer before documents stand in a forest before they are accepted.
    for sidecar in &sidecars {
        send(&client, &sidecar.url, &first, &[90_000]).await.unwrap();
    }
    // The same documents by two, at the same moment.
    let numbers: Vec<usize> = (0..90).collect();
    let (one, other) = tokio::join!(
        send(&client, &sidecars[0].url, &first, &numbers),
        send(&client, &sidecars[1].url, &second, &numbers),
    );
    assert_eq!((one.unwrap().len(), other.unwrap().len()), (90, 90));
    let roots = stored_roots(&server, &first).await;
    let mut expected = roots.clone();
    expected.remove(&90_000);
    assert_eq!(stored_roots(&server, &second).await, expected);
    let distinct: HashSet<&String> = expected.values().collect();
    assert_eq!(distinct.len(), 60, "every third document is a reprint");
    // The third has seen none of them and knows them all.
    for n in [0, 44, 89] {
        assert_eq!(foretold(&client, &sidecars[2].url, &first, n).await, roots[&n]);
    }
    let shown = stats(&client, &sidecars[2].url).await;
    let shared = &shown["forests"][indices]["shared"];
    assert!(shared["round_trips"].as_u64() > Some(0), "{shown}");

    // One dies in the middle of its bulks: the others go on, and its writer's retry finds what it left.
    let numbers: Vec<usize> = (1_000..1_400).collect();
    let (dying, index) = (sidecars[0].url.clone(), first.clone());
    let writer = client.clone();
    let sending = tokio::spawn(async move {
        for bulk in (1_000..1_400).collect::<Vec<usize>>().chunks(50) {
            send(&writer, &dying, &index, bulk).await;
        }
    });
    let waiting = Waiting::until("some of the bulks have come");
    while server.get(&first, "1050").await.is_none() {
        waiting.pause().await;
    }
    sidecars[0].kill9();
    sending.await.unwrap();
    for bulk in numbers.chunks(100) {
        let stored = send(&client, &sidecars[1].url, &first, bulk).await.unwrap();
        assert_eq!(stored.len(), bulk.len());
    }
    let roots = stored_roots(&server, &first).await;
    for pair in numbers.iter().filter(|n| *n % 3 == 2) {
        assert_eq!(roots[pair], roots[&(pair - 1)], "document {pair}");
    }
    for n in [1_000, 1_199, 1_399] {
        assert_eq!(foretold(&client, &sidecars[2].url, &first, n).await, roots[&n]);
    }

    // Without Redis nothing is written, and whoever writes is told to come again.
    drop(redis);
    let write = |url: String| {
        let (client, index) = (client.clone(), first.clone());
        async move {
            let body = format!("{}\n{}\n", json!({"index": {"_id": "late"}}), document(5_000));
            let sent = client
                .post(format!("{url}/{index}/_bulk"))
                .header("content-type", "application/x-ndjson")
                .body(body)
                .send();
            sent.await.unwrap()
        }
    };
    let refused = write(sidecars[1].url.clone()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    let told: Value = refused.json().await.unwrap();
    assert_eq!(told["error"]["type"], "spinney_forest_unavailable_exception");
    assert_eq!(server.get(&first, "late").await, None);
    let ready = client.get(format!("{}/_spinney/_ready", sidecars[1].url));
    assert_eq!(ready.send().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);

    // It is back, and has forgotten everything.
    let _redis = Redis::start_at(port);
    let waiting = Waiting::until("the write is taken");
    while write(sidecars[1].url.clone()).await.status() != StatusCode::OK {
        waiting.pause().await;
    }
    assert!(server.get(&first, "late").await.is_some());
    for index in [&first, &second] {
        server.delete_index(index).await;
    }
}

#[test]
fn a_forest_that_cannot_be_shared_is_refused_in_words() {
    let args = ["--index", "shared-refused-*", "--forest-store", "redis://127.0.0.1:1", "--data-dir", "somewhere"];
    let refused = Spinney::try_start("127.0.0.1:0", &args).err().unwrap();
    let expected = "keeps the forests, and data_dir would too";
    assert!(refused.log.contains(expected), "{}", refused.log);
}
