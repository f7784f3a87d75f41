//! A Redis that has as much memory as it may use.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use futures_executor::block_on;
use reqwest::StatusCode;
use spinney::fingerprint::Fingerprint;
use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::port::{Batch, ForestPort, ItemOutcome, Unavailable};
use spinney::method::{Features, StrictFeatures};
use spinney::time::Millis;

use super::near::forest;
use super::{place, settle};
use crate::backfill::create_mapped;
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, unique_index};
use crate::overrides::{article, bulk};

const DAY: i64 = 86_400_000;

fn document(fingerprint: u64) -> ForestDocument {
    let fingerprint = Fingerprint(fingerprint);
    ForestDocument {
        features: Some(Features::Strict(StrictFeatures { fingerprints: vec![fingerprint], whole: fingerprint })),
        when: DocumentTime::At(Millis(i64::MAX)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

#[test]
fn a_full_redis_takes_nothing_new_and_lets_go_of_what_is_taken_back() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        let forest = forest(&redis, DAY, 1);
        settle(&forest, place(&forest, vec![document(1)]), ItemOutcome::Accepted);
        let refused = place(&forest, vec![document(u64::MAX)]);
        let root = refused[0].root;
        assert!(block_on(forest.tree(root)).unwrap().is_some());
        redis.command_all("CONFIG SET maxmemory 1");
        let batch = || Batch { documents: vec![document(0xFF_0000)], ..Batch::default() };
        let error = block_on(forest.place(batch())).unwrap_err();
        let Unavailable::Full { reason, .. } = &error.reason else {
            panic!("{error:?}");
        };
        assert!(reason.contains("maxmemory"), "{reason}");
        // It is there: what needs no room is done.
        assert_eq!(forest.unavailable(), None);
        assert!(block_on(forest.tree(root)).unwrap().is_some());
        assert_eq!(block_on(forest.overrides()).unwrap().iter().len(), 0);
        settle(&forest, refused, ItemOutcome::Refused);
        assert!(block_on(forest.tree(root)).unwrap().is_none());
        redis.command_all("CONFIG SET maxmemory 0");
        assert_eq!(block_on(forest.place(batch())).unwrap().replies.len(), 1);
    }
}

#[test]
fn a_redis_that_evicts_keys_is_refused_at_the_start() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        redis.command("CONFIG SET maxmemory 1gb");
        redis.command("CONFIG SET maxmemory-policy allkeys-lru");
        let mut command = common::spinney_command();
        command.args(["serve", "--upstream", "http://127.0.0.1:1", "--index", "news-*", "--listen", "127.0.0.1:0"]);
        let mut started = command.args(["--forest-store", &redis.url()]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let lines = BufReader::new(started.stderr.take().unwrap()).lines().map_while(Result::ok);
        for line in lines.take_while(|line| !line.contains("listening")) {
            said += &line;
        }
        let _ = started.kill();
        assert_eq!(started.wait().unwrap().code(), Some(1), "{said}");
        assert!(said.contains("allkeys-lru") && said.contains("CONFIG SET maxmemory-policy noeviction"), "{said}");
    }
}

#[tokio::test]
async fn writers_are_told_that_redis_is_full_and_go_on_with_room() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, index) = (Server::new(&upstream), unique_index("shared-full"));
    create_mapped(&server, &index).await;
    let url = redis.url();
    let base = ["--upstream", &upstream, "--index", &index];
    let shared = ["--text-field", "content", "--forest-store", &url];
    let spinney = Spinney::start(&[&base[..], &shared, &["--counts", "off"]].concat());
    bulk(&spinney.url, &index, [("a", article(1, 1))]);
    redis.command_all("CONFIG SET maxmemory 1");
    let client = common::http();
    let write = client.put(format!("{}/{index}/_doc/b", spinney.url));
    let refused = write.json(&article(2, 1)).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let told = refused.text().await.unwrap();
    assert!(told.contains("has no room where it is kept"), "{told}");
    spinney
        .log_line("what Redis has said", |line| line.contains("has no room") && line.contains("raise its maxmemory"));
    redis.command_all("CONFIG SET maxmemory 0");
    bulk(&spinney.url, &index, [("b", article(2, 1))]);
    server.delete_index(&index).await;
}
