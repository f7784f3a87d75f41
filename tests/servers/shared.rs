//! Forests that several processes share by a Redis: what the engine does with single keys, forests that race each other, and
//! several sidecars in front of one search server.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Barrier};

use futures_executor::block_on;
use reqwest::StatusCode;
use serde_json::{Value, json};
use spinney::fingerprint::Fingerprint;
use spinney::forest::local::Executor;
use spinney::forest::port::{Batch, Document, Outcome, Placed, Port, When};
use spinney::forest::shared::keys::{
    Command, Heard, Key, KeyStore, Kind, Lesson, Life, Place, Reply, Token, What,
};
use spinney::forest::shared::{Shared, SharedSettings};
use spinney::forest::{Decision, Root};
use spinney::keystore::{Address, RedisStore};
use spinney::method::{
    Attributes, Count, LearnedText, Method, Similarity, Tally, Verified, Workspace,
};
use spinney::text::Fields;
use spinney::time::Millis;

use crate::adopt::create_mapped;
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, Waiting};
use crate::restart::{document, foretold, send, stats, stored_roots};

struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

fn store(redis: &Redis) -> Arc<dyn KeyStore> {
    let address = Address::parse(&redis.url()).unwrap();
    Arc::new(RedisStore::new(address, None).unwrap())
}

/// One of several processes' forests.
fn forest(redis: &Redis, seed: u64) -> Shared<Verified> {
    let settings = SharedSettings {
        window: Some(Millis(3_600_000)),
        max_tree: None,
        evidence_bytes: 64 << 20,
    };
    let (similarity, learned) = (Similarity::default(), LearnedText::default());
    let of = ("race", "a race");
    Shared::new(
        of,
        settings,
        similarity,
        learned,
        Arc::new(Threads),
        store(redis),
        seed << 32,
    )
}

fn story(number: usize) -> Document {
    let written = document(number);
    let fields = Fields {
        title: written["title"].as_str(),
        body: &[written["content"].as_str().unwrap()],
    };
    let method = Method::Verified;
    Document {
        features: method.read_with(&fields, Attributes::default(), &mut Workspace::default()),
        when: When::At(Millis(i64::MAX)),
        title: None,
        given: None,
    }
}

fn place(forest: &dyn Port, documents: Vec<Document>) -> Vec<Placed> {
    let batch = Batch {
        documents,
        ..Batch::default()
    };
    let replies = block_on(forest.place(batch)).unwrap().replies;
    replies
        .into_iter()
        .map(|reply| reply.placed.unwrap())
        .collect()
}

fn settle(forest: &dyn Port, placed: Vec<Placed>, outcome: Outcome) {
    let settled = placed.into_iter().map(|placed| placed.settled(outcome));
    let batch = settled.collect();
    block_on(forest.settle(batch, Millis(0))).unwrap();
}

#[test]
fn single_keys_are_changed_as_the_protocol_needs_it() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        let store = store(&redis);
        let run = |key: u64, what: What| {
            let key = Key {
                forest: 1,
                fingerprint: Fingerprint(key),
                kind: Kind::Node,
            };
            let replies = block_on(store.run(vec![Command { key, what }])).unwrap();
            replies.into_iter().next().unwrap()
        };
        let life = Life::Endless;
        let claim = |value: &[u8]| What::Claim {
            value: value.to_vec(),
            life,
        };
        let swap = |before: &[u8], value: &[u8], or_nothing| What::Swap {
            before: before.to_vec(),
            or_nothing,
            value: value.to_vec(),
            life: Life::For(std::time::Duration::from_secs(60)),
        };
        assert_eq!(run(1, What::Get), Reply::Nothing);
        assert_eq!(run(1, claim(b"a\0\r\n")), Reply::Nothing);
        assert_eq!(run(1, claim(b"b")), Reply::Bytes(b"a\0\r\n".to_vec()));
        assert_eq!(run(1, swap(b"b", b"c", true)), Reply::Number(0));
        assert_eq!(run(1, swap(b"a\0\r\n", b"c", false)), Reply::Number(1));
        assert_eq!(
            run(1, swap(b"a\0\r\n", b"c", false)),
            Reply::Number(1),
            "again"
        );
        assert_eq!(run(2, swap(b"x", b"y", false)), Reply::Number(0));
        assert_eq!(run(2, swap(b"x", b"y", true)), Reply::Number(1));
        let remove = |value: &[u8]| What::Remove {
            value: value.to_vec(),
        };
        assert_eq!(run(1, remove(b"a")), Reply::Number(0));
        assert_eq!(run(1, remove(b"c")), Reply::Number(1));
        assert_eq!(run(1, What::Get), Reply::Nothing);

        // A confirmed root: | 1 | token 3 | added 6 | step, uses, pins, children, before | proof |
        let token = Token(0x0A0B0C);
        let root = |state: u8, numbers: [u16; 5], rest: &[u8]| {
            let mut bytes = vec![state, 0x0A, 0x0B, 0x0C, 0, 0, 0, 0, 0, 9];
            bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            bytes.extend(rest);
            bytes
        };
        let pin = |token, step, uses| What::Pin {
            token,
            uses,
            children: 2,
            step,
            life: Life::For(std::time::Duration::from_secs(60)),
        };
        let get = |key| match run(key, What::Get) {
            Reply::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        run(3, claim(&root(0, [70, 1, 0, 5, 1], b"proof")));
        assert_eq!(run(3, pin(token, 70, 1)), Reply::Nothing, "not confirmed");
        run(4, claim(&root(1, [70, 1, 65_535, 5, 1], b"proof")));
        assert_eq!(
            run(4, pin(Token(7), 70, 1)),
            Reply::Nothing,
            "of another token"
        );
        assert_eq!(run(4, pin(token, 70, 1)), Reply::Number(0));
        assert_eq!(get(4), root(1, [70, 2, 0, 7, 1], b"proof"));
        // In the next window the children are those of the one before; then they are forgotten.
        assert_eq!(run(4, pin(token, 130, 3)), Reply::Number(1));
        assert_eq!(get(4), root(1, [130, 5, 1, 2, 7], b"proof"));
        assert_eq!(run(4, pin(token, 300, 1)), Reply::Number(2));
        assert_eq!(get(4), root(1, [300, 6, 2, 2, 0], b"proof"));
        // A late one changes no time.
        assert_eq!(run(4, pin(token, 299, 1)), Reply::Number(3));
        assert_eq!(get(4), root(1, [300, 7, 3, 4, 0], b"proof"));

        let mut tally = Tally::default();
        for (title, sign) in [(5, 0), (6, 1), (7, 2)] {
            tally.add(Count {
                title: Some(title),
                sign,
            });
        }
        let count = |tally| What::Count { token, tally };
        assert_eq!(run(4, count(tally)), Reply::Nothing);
        let counted = get(4);
        assert_eq!((counted[0], counted.len()), (2, 25 + 17));
        assert_eq!(counted[20..24], [4, 0, 0, 0], "the founder counts");
        assert_eq!(
            (counted[32], counted[33..37].to_vec()),
            (3, vec![7, 0, 0, 0])
        );
        assert_eq!(counted[37..], *b"proof");
        run(4, count(tally));
        let counted = get(4);
        assert_eq!(
            (counted[20], counted[32]),
            (7, 3),
            "the last sign was the same title"
        );

        let release = |uses| What::Release { token, uses };
        assert_eq!(run(4, release(6)), Reply::Number(3));
        assert_eq!(run(4, release(1)), Reply::Number(-1));
        assert_eq!(run(4, release(1)), Reply::Nothing);
        assert_eq!(run(4, What::Get), Reply::Nothing);

        let lesson = |bytes: &[u8], most| {
            let bytes = bytes.to_vec();
            let life = Some(Millis(60_000));
            Some(Lesson { bytes, most, life })
        };
        let hear = |lesson, after| block_on(store.lessons(3, lesson, after)).unwrap();
        let none = Heard::default();
        assert_eq!(hear(None, none), (vec![], true));
        let (first, is_all) = hear(lesson(b"a\0\r\n", 100), none);
        assert_eq!(
            (first.len(), first[0].1.as_slice(), is_all),
            (1, &b"a\0\r\n"[..], true)
        );
        let (second, _) = hear(lesson(b"b", 100), first[0].0);
        assert_eq!((second.len(), second[0].1.as_slice()), (1, &b"b"[..]));
        assert_eq!(hear(None, none).0, [first, second.clone()].concat());
        assert_eq!(hear(None, second[0].0), (vec![], true));
        assert_eq!(
            block_on(store.lessons(4, None, none)).unwrap(),
            (vec![], true)
        );
        // The oldest go, in lumps; what is too much for one answer comes in several.
        let lump = vec![7; 4_000];
        for _ in 0..300 {
            hear(lesson(&lump, 280), second[0].0);
        }
        let (heard, is_all) = hear(None, none);
        assert!(!is_all && heard.len() == 256 && heard[0].1 == lump);
        let (rest, is_all) = hear(None, heard[255].0);
        assert!(is_all && rest.len() < 45, "{}", rest.len());

        // All keys of a forest, and of no other, whatever its number means in a pattern.
        for forest in [b'*', b'?', b'[', b'\\', 7] {
            let commands = (0..300).map(|n| Command {
                key: Key {
                    forest,
                    fingerprint: Fingerprint(n),
                    kind: if n % 3 == 0 {
                        Kind::Evidence
                    } else {
                        Kind::Node
                    },
                },
                what: claim(b"x"),
            });
            block_on(store.run(commands.collect())).unwrap();
        }
        for forest in [b'*', b'?', b'[', b'\\', 7, 8] {
            let (mut found, mut place) = (HashSet::new(), Some(Place::default()));
            while let Some(at) = place {
                let (keys, next) = block_on(store.keys(forest, at)).unwrap();
                assert!(keys.iter().all(|key| key.forest == forest));
                found.extend(keys);
                place = next;
            }
            assert_eq!(found.len(), if forest == 8 { 0 } else { 300 });
        }

        let enroll = |name: &str, of: &str| block_on(store.enroll(name, of)).unwrap();
        let news = enroll("news", "k=0").unwrap();
        assert_eq!(enroll("news", "k=0"), Ok(news));
        let wires = enroll("wires", "k=0").unwrap();
        assert_ne!(wires, news);
        let forests = block_on(store.forests()).unwrap();
        let expected = [("news", news), ("wires", wires)];
        assert_eq!(
            forests,
            expected.map(|(name, n)| (name.into(), n, "k=0".into()))
        );
        let other = enroll("news", "k=0 method=sentences:3").unwrap_err();
        assert!(other.contains("(k=0)"), "{other}");
    }
}

#[test]
fn copies_that_come_at_once_get_one_root() {
    const STORIES: usize = 300;
    const BULK: usize = 100;
    for redis in [Redis::start(), Redis::cluster(3)] {
        for processes in [2, 3] {
            let first = processes * 10_000;
            let barrier = Barrier::new(processes);
            let mut found: HashMap<usize, HashSet<Root>> = HashMap::new();
            std::thread::scope(|scope| {
                let (barrier, redis) = (&barrier, &redis);
                let race = |process: usize| {
                    scope.spawn(move || {
                        let forest = forest(redis, process as u64 + 1);
                        let mut found = Vec::new();
                        for bulk in (first..first + STORIES).collect::<Vec<_>>().chunks(BULK) {
                            // Each in an order of its own.
                            let mut numbers = bulk.to_vec();
                            numbers.sort_by_key(|n| n.wrapping_mul(2 * process + 7_919) % 1_009);
                            barrier.wait();
                            let documents = numbers.iter().map(|&n| story(n)).collect();
                            let placed = place(&forest, documents);
                            found
                                .extend(numbers.iter().copied().zip(placed.iter().map(|p| p.root)));
                            settle(&forest, placed, Outcome::Accepted);
                        }
                        found
                    })
                };
                let racers: Vec<_> = (0..processes).map(race).collect();
                for (number, root) in racers.into_iter().flat_map(|racer| racer.join().unwrap()) {
                    found.entry(number).or_default().insert(root);
                }
            });
            let split: Vec<_> = found.iter().filter(|(_, roots)| roots.len() > 1).collect();
            let kind = if redis.is_cluster() {
                "a cluster"
            } else {
                "one node"
            };
            assert!(split.is_empty(), "{processes} on {kind}: {split:?}");
            assert_eq!(found.len(), STORIES);
        }
        // What is refused leaves as much as there was, but for evidence, and for the leaves of those that joined a tree that stays.
        let (keys, forest) = (redis.keys(), forest(&redis, 9));
        let placed = place(&forest, (50_000..50_100).map(story).collect());
        let (mut founded, mut stay) = (HashSet::new(), 0);
        for placed in &placed {
            match placed.decision {
                Decision::NewRoot => drop(founded.insert(placed.root)),
                _ if !founded.contains(&placed.root) => stay += placed.rollback.nodes().len(),
                _ => {}
            }
        }
        assert!(!founded.is_empty() && redis.keys() > keys);
        settle(&forest, placed, Outcome::Refused);
        let more = redis.keys() - keys;
        let most = founded.len() + stay;
        assert!(more <= most, "{more} more keys, {most} at most");
    }
}

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
        send(&client, &sidecar.url, &first, &[90_000])
            .await
            .unwrap();
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
        assert_eq!(
            foretold(&client, &sidecars[2].url, &first, n).await,
            roots[&n]
        );
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
        assert_eq!(
            foretold(&client, &sidecars[2].url, &first, n).await,
            roots[&n]
        );
    }

    // Without Redis nothing is written, and whoever writes is told to come again.
    drop(redis);
    let write = |url: String| {
        let (client, index) = (client.clone(), first.clone());
        async move {
            let body = format!(
                "{}\n{}\n",
                json!({"index": {"_id": "late"}}),
                document(5_000)
            );
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
    assert_eq!(
        told["error"]["type"],
        "spinney_forest_unavailable_exception"
    );
    assert_eq!(server.get(&first, "late").await, None);
    let ready = client.get(format!("{}/_spinney/_ready", sidecars[1].url));
    assert_eq!(
        ready.send().await.unwrap().status(),
        StatusCode::SERVICE_UNAVAILABLE
    );

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

#[tokio::test]
async fn while_redis_is_away_documents_get_roots_alone_that_a_sweep_puts_right() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-alone-{}", common::unique_index("a"));
    create_mapped(&server, &index).await;
    let url = redis.url();
    let more = ["--forest-store", &url, "--on-store-loss", "alone"];
    let route = ["--text-field", "content", "--title-field", "title"];
    let base = [
        "--upstream",
        &upstream,
        "--index",
        &index,
        "--counts",
        "off",
    ];
    let sweep = ["--sweep", "200ms"];
    let spinney = Spinney::start(&[&base[..], &route, &more, &sweep].concat());
    // Every third document is a reprint of the one before it.
    let numbers = |rest: usize| (0..60).filter(move |n| n % 3 == rest).collect::<Vec<_>>();
    for part in [&numbers(0)[..1], &numbers(1)] {
        let stored = send(&client, &spinney.url, &index, part).await.unwrap();
        assert_eq!(stored.len(), part.len());
    }
    let before = stored_roots(&server, &index).await;

    redis.freeze(true);
    let reprints = numbers(2);
    let stored = send(&client, &spinney.url, &index, &reprints)
        .await
        .unwrap();
    assert_eq!(stored.len(), reprints.len());
    // One that was there before gets a new text: its old root must not stay.
    let update = client
        .post(format!("{}/{index}/_update/1", spinney.url))
        .json(
            &json!({"doc": {"content": document(300)["content"], "title": document(300)["title"]}}),
        )
        .send();
    assert_eq!(update.await.unwrap().status(), StatusCode::OK);
    let ready = client.get(format!("{}/_spinney/_ready", spinney.url));
    assert_eq!(ready.send().await.unwrap().status(), StatusCode::OK);
    let metrics = client.get(format!("{}/_spinney/_metrics", spinney.url));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    let alone = reprints.len() + 1;
    for line in [
        format!("spinney_documents_alone_total {alone}"),
        "spinney_forest_store_away 1".to_owned(),
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
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
        .header("x-spinney-adopt", "-")
        .body(format!(
            "{}\n{}\n",
            json!({"update": {"_id": "2"}}),
            json!({"doc": document(2)})
        ))
        .send();
    assert_eq!(
        adopted.await.unwrap().status(),
        StatusCode::SERVICE_UNAVAILABLE
    );

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
    assert!(
        log.contains("the engine of the shared forests is back"),
        "{log}"
    );
    server.delete_index(&index).await;
}

/// Sends a bulk until all of it is stored, as a writer does who is told to come again.
async fn send_until_stored(client: &reqwest::Client, url: &str, index: &str, numbers: &[usize]) {
    let waiting = Waiting::until("a bulk is stored");
    while send(client, url, index, numbers)
        .await
        .map(|stored| stored.len())
        != Some(numbers.len())
    {
        waiting.pause().await;
    }
}

#[tokio::test]
async fn a_master_that_dies_in_the_middle_of_a_load_loses_no_document() {
    let (upstream, mut redis) = (common::opensearch(), Redis::replicated(3, 1));
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-failover-{}", common::unique_index("a"));
    let url = redis.url();
    let base = [
        "--upstream",
        &upstream,
        "--index",
        &index,
        "--counts",
        "off",
    ];
    let route = ["--text-field", "content", "--title-field", "title"];
    let serve = || Spinney::start(&[&base[..], &route, &["--forest-store", &url]].concat());
    let sidecars = [serve(), serve()];
    const DOCUMENTS: usize = 1_200;
    let writers = sidecars.iter().enumerate().map(|(part, sidecar)| {
        let (client, url, index) = (client.clone(), sidecar.url.clone(), index.clone());
        // Each sends every third story's reprint to the other's original.
        let own = (0..DOCUMENTS).filter(move |n| (n + n / 3) % 2 == part);
        let own: Vec<usize> = own.collect();
        tokio::spawn(async move {
            for bulk in own.chunks(20) {
                send_until_stored(&client, &url, &index, bulk).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let waiting = Waiting::until("some of the bulks have come");
    while server.get(&index, "120").await.is_none() {
        waiting.pause().await;
    }
    redis.kill_a_master();
    for writer in writers {
        writer.await.unwrap();
    }
    let roots = stored_roots(&server, &index).await;
    assert_eq!(
        roots.len(),
        DOCUMENTS,
        "every document is stored, with a root"
    );
    assert_eq!(server.count(&index).await, DOCUMENTS as u64, "and once");
    // What was not replicated yet may have put a story into two: never more than came within a moment.
    let apart = (0..DOCUMENTS).filter(|n| n % 3 == 2 && roots[n] != roots[&(n - 1)]);
    let apart: Vec<usize> = apart.collect();
    assert!(apart.len() <= 20, "{apart:?}");
    // Whoever is asked says the same, and a story that is written again is together.
    let again: Vec<usize> = (0..DOCUMENTS).collect();
    for (at, bulk) in again.chunks(100).enumerate() {
        send_until_stored(&client, &sidecars[at % 2].url, &index, bulk).await;
    }
    let roots = stored_roots(&server, &index).await;
    for n in [1, 2, 500, 700, 1_199] {
        for sidecar in &sidecars {
            assert_eq!(foretold(&client, &sidecar.url, &index, n).await, roots[&n]);
        }
    }
    assert_eq!(server.count(&index).await, DOCUMENTS as u64);
    drop(sidecars);
    server.delete_index(&index).await;
}

fn moved(args: &[&str]) -> (bool, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_spinney"))
        .args(args)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// One spinney with a directory, then two with a Redis, then one with a directory again: nothing is forgotten on the way.
#[tokio::test]
async fn a_forest_moves_into_redis_and_back() {
    let (upstream, redis) = (common::opensearch(), Redis::cluster(3));
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-moved-{}", common::unique_index("a"));
    let (from, to) = (common::scratch("moved-from"), common::scratch("moved-to"));
    let (url, from_dir, to_dir) = (redis.url(), from.to_str().unwrap(), to.to_str().unwrap());
    let base = ["--upstream", &upstream, "--counts", "off"];
    let route = [
        "--index",
        &index,
        "--text-field",
        "content",
        "--title-field",
        "title",
    ];
    let serve = |more: &[&str]| Spinney::start(&[&base[..], &route, more].concat());
    let first: Vec<usize> = (0..120).filter(|n| n % 3 != 2).collect();
    let reprints: Vec<usize> = (0..120).filter(|n| n % 3 == 2).collect();

    let mut alone = serve(&["--data-dir", from_dir]);
    for bulk in [&first[..1], &first] {
        send(&client, &alone.url, &index, bulk).await.unwrap();
    }
    let roots = stored_roots(&server, &index).await;
    let into = [
        &["move-forest", "--from", from_dir, "--to", &url][..],
        &route,
    ]
    .concat();
    let (done, said) = moved(&into);
    assert!(!done && said.contains("another process"), "{said}");
    assert_eq!(alone.terminate(), Some(0));
    let (done, said) = moved(&into);
    assert!(
        done && said.contains("of them roots; 0 stayed behind"),
        "{said}"
    );
    let (done, said) = moved(&into);
    assert!(
        !done && said.contains("--replace to remove it first"),
        "{said}"
    );
    let (done, said) = moved(&[&into[..], &["--replace"]].concat());
    assert!(done, "{said}");
    let (done, said) = moved(&["inspect", &url]);
    assert!(
        done && said.contains(&format!("forest {index} (method verified, k 0")),
        "{said}"
    );
    assert!(said.contains(", 80 of them roots"), "{said}");

    let sharing = [(); 2].map(|()| serve(&["--forest-store", &url]));
    for &n in &first {
        assert_eq!(
            foretold(&client, &sharing[n % 2].url, &index, n).await,
            roots[&n]
        );
    }
    for (spinney, bulk) in sharing.iter().zip([&reprints[..20], &reprints[20..]]) {
        for bulk in [&bulk[..1], bulk] {
            send(&client, &spinney.url, &index, bulk).await.unwrap();
        }
    }
    let roots = stored_roots(&server, &index).await;
    for n in &reprints {
        assert_eq!(roots[n], roots[&(n - 1)], "document {n}");
    }
    drop(sharing);

    let out = [&["move-forest", "--from", &url, "--to", to_dir][..], &route].concat();
    let (done, said) = moved(&out);
    assert!(done && said.contains("80 of them roots"), "{said}");
    let (done, said) = moved(&out);
    assert!(!done && said.contains("move its folder away"), "{said}");
    let again = serve(&["--data-dir", to_dir]);
    for (&n, root) in &roots {
        assert_eq!(&foretold(&client, &again.url, &index, n).await, root);
    }
    drop(again);
    server.delete_index(&index).await;
    for dir in [from, to] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_forest_that_cannot_be_shared_is_refused_in_words() {
    for (options, expected) in [
        (
            ["--k", "5"],
            "k is 5, and it finds fingerprints there that differ in at most 4 bits",
        ),
        (
            ["--method", "short"],
            "short texts are found at a distance of 10",
        ),
        (
            ["--data-dir", "somewhere"],
            "keeps the forests, and data_dir would too",
        ),
    ] {
        let more = [
            "--index",
            "shared-refused-*",
            "--forest-store",
            "redis://127.0.0.1:1",
        ];
        let args = [&more[..], &options[..]].concat();
        let refused = Spinney::try_start("127.0.0.1:0", &args).err().unwrap();
        assert!(refused.log.contains(expected), "{}", refused.log);
    }
}
