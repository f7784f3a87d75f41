//! Each alert of `packaging/prometheus-rules.yaml` by the fault that it is about: a process is brought into it, its
//! metrics are read before and with it, and Prometheus' own evaluator says which expressions of that file hold. With
//! the fault those of the alerts that are named here do, and before it none does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use futures_executor::block_on;
use memchr::memmem;
use reqwest::Method;
use serde_json::{Value, json};
use spinney::fingerprint::Fingerprint;
use spinney::forest::Root;
use spinney::forest::overrides::{MAX_LATE_MERGES, Override};
use spinney::forest::port::ForestPort;

use crate::backfill::{create_mapped, load};
use crate::common::fake::{self, Fake, Received, Reply};
use crate::common::gate::Gate;
use crate::common::redis::Redis;
use crate::common::twin::{article, only_forest, start, stats_now};
use crate::common::wire::{Request, Wire};
use crate::common::{self, Server, Spinney, scratch, unique_index, wait_until};
use crate::overrides::{self, ask, bulk, followed, roots, say, torn};
use crate::shared::forest_of;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/prometheus-rules.yaml");

/// What a Prometheus has read of one process, a minute after the other.
struct Watch {
    url: String,
    /// Name and expression of each alert.
    alerts: Vec<(String, String)>,
    scrapes: Vec<BTreeMap<String, String>>,
}

impl Watch {
    /// Of a process that has just done what it is for.
    fn begin(spinney: &str) -> Watch {
        let rules = fs::read_to_string(RULES).unwrap();
        let values = |key: &str| {
            let values = rules.lines().filter_map(|line| line.trim_start().strip_prefix(key));
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let (names, expressions) = (values("- alert: "), values("expr: "));
        assert_eq!(names.len(), expressions.len());
        let alerts = names.into_iter().zip(expressions).collect();
        let mut watch = Watch { url: spinney.to_owned(), alerts, scrapes: Vec::new() };
        watch.scrape();
        watch
    }

    /// Reads the metrics once more.
    fn scrape(&mut self) {
        // Redis may be away, and a process that is gone answers nothing.
        let answer = Wire::try_connect(&self.url).map(|mut wire| Request::get("/_spinney/_metrics").on(&mut wire));
        let answer = answer.ok().filter(|answer| answer.status == 200);
        let mut samples =
            BTreeMap::from([("up{job=\"spinney\"}".to_owned(), usize::from(answer.is_some()).to_string())]);
        let text = answer.map(|answer| answer.text()).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        samples.extend(lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.to_owned())
        }));
        self.scrapes.push(samples);
    }

    /// The last metrics are those with the fault: exactly these alerts' expressions hold, and none held before.
    fn fires(mut self, expected: &[&str]) {
        self.scrape();
        for name in expected {
            assert!(self.alerts.iter().any(|(alert, _)| alert == name), "no such alert: {name}");
        }
        let last = self.scrapes.len() - 1;
        let used = |series: &str| {
            let name = series.split('{').next().unwrap();
            self.alerts.iter().any(|(_, expression)| expression.contains(name))
        };
        let series: BTreeSet<&String> =
            self.scrapes.iter().flatten().map(|(series, _)| series).filter(|s| used(s)).collect();
        let input: Vec<Value> = series
            .into_iter()
            .map(|series| {
                let values = self.scrapes.iter().map(|scrape| scrape.get(series).map_or("stale", String::as_str));
                json!({"series": series, "values": values.collect::<Vec<_>>().join(" ")})
            })
            .collect();
        let asked = (0..=last).flat_map(|minute| {
            self.alerts.iter().map(move |(alert, expression)| {
                let holds = minute == last && expected.contains(&alert.as_str());
                let one = json!([{"labels": "{}", "value": 1}]);
                let samples = if holds { one } else { json!([]) };
                // The name tells which one it was, where it is not as expected.
                let expression = format!("count({expression}) > bool 0 # {alert}");
                json!({"expr": expression, "eval_time": format!("{minute}m"), "exp_samples": samples})
            })
        });
        // JSON is YAML.
        let asked: Vec<Value> = asked.collect();
        let test = json!({"tests": [{"interval": "1m", "input_series": input, "promql_expr_test": asked}]});
        let file = scratch("alerts");
        fs::write(&file, test.to_string()).unwrap();
        let told = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
        let told = told.expect("promtool is missing: apt-get install prometheus");
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{expected:?}: {said}\n{input:#?}");
        fs::remove_file(file).unwrap();
    }
}

/// A cluster that takes all documents.
fn cluster() -> Fake {
    Fake::start(|request| Reply::Bytes(taken(request)))
}

/// The answer to a bulk whose documents are all stored.
fn taken(request: &Received) -> Vec<u8> {
    let documents = memmem::find_iter(&request.body, b"{\"index\":").count().max(1);
    let items = vec!["{\"index\":{\"_id\":\"a\",\"status\":201}}"; documents].join(",");
    fake::json(200, "", &format!("{{\"took\":1,\"errors\":false,\"items\":[{items}]}}"))
}

fn write() -> Request {
    Request::bulk("/news-x/_bulk", article("a", 1))
}

/// A process whose metrics are read when it has begun, and when it has done some work.
fn at_work(spinney: &str) -> Watch {
    let mut watch = Watch::begin(spinney);
    let answer = write().to(spinney);
    assert_eq!(answer.status, 200, "{}", answer.text());
    watch.scrape();
    watch
}

#[test]
fn down() {
    let cluster = cluster();
    let mut spinney = start(&cluster.url, &[]);
    let watch = at_work(&spinney.url);
    spinney.kill9();
    watch.fires(&["SpinneyDown"]);
}

/// The process runs, but the cluster does not let the user of the scrape job read its health.
#[test]
fn down_for_who_may_not_see_it() {
    let is_refused = Arc::new(AtomicBool::new(false));
    let refused = Arc::clone(&is_refused);
    let cluster = Fake::in_any_health(move |request| match request.target() {
        "/_cluster/health" if refused.load(SeqCst) => Reply::Bytes(fake::json(403, "", "{}")),
        "/_cluster/health" => Reply::Bytes(fake::json(200, "", fake::HEALTH)),
        _ => Reply::Bytes(taken(request)),
    });
    let spinney = start(&cluster.url, &[]);
    let watch = at_work(&spinney.url);
    is_refused.store(true, SeqCst);
    watch.fires(&["SpinneyDown"]);
}

/// It is gone, or does not answer.
#[test]
fn cluster_unreachable() {
    let never = Request::bulk("/news-x/_bulk?never", article("b", 2));
    // Connections end with each answer, or they would outlive the listener.
    let cluster = Fake::start(|request| Reply::Last(taken(request)));
    let spinney = start(&cluster.url, &[]);
    let watch = at_work(&spinney.url);
    drop(cluster);
    wait_until("the cluster is gone", || never.to(&spinney.url).status == 503);
    watch.fires(&["SpinneyClusterUnreachable"]);

    let (gate, cluster) = holding(|request| request.target().ends_with("?never"));
    let spinney = start(&cluster.url, &["--upstream-timeout", "1s"]);
    let watch = at_work(&spinney.url);
    assert_eq!(never.to(&spinney.url).status, 504);
    watch.fires(&["SpinneyClusterUnreachable"]);
    gate.open();
}

/// A cluster that takes all documents, these not before the gate is open.
fn holding(holds: impl Fn(&Received) -> bool + Send + Sync + 'static) -> (Arc<Gate>, Fake) {
    let gate = Gate::closed();
    let held = Arc::clone(&gate);
    let cluster = Fake::start(move |request| {
        if holds(request) {
            held.pass();
        }
        Reply::Bytes(taken(request))
    });
    (gate, cluster)
}

/// A bulk that does not fit beside another, and one that never does.
#[test]
fn writes_refused() {
    let large = |bytes: usize| {
        let source = json!({"content": "word ".repeat(bytes / 5)});
        Request::bulk("/news-x/_bulk", format!("{{\"index\":{{}}}}\n{source}\n"))
    };
    let cluster = cluster();
    let spinney = start(&cluster.url, &["--budget", "1MiB", "--client-share", "100%"]);
    let watch = at_work(&spinney.url);
    assert_eq!(large(2 << 20).to(&spinney.url).status, 413);
    watch.fires(&["SpinneyWritesRefused"]);
    let watch = at_work(&spinney.url);
    // What has come of a body is held until the rest is there.
    let mut busy = Wire::connect(&spinney.url);
    let body = large(600_000).bytes();
    let (begin, rest) = body.split_at(body.len() - 1);
    busy.send(begin);
    wait_until("it is held", || stats_now(&spinney.url)["budget"]["used_bytes"].as_u64() > Some(500_000));
    assert_eq!(large(600_000).to(&spinney.url).status, 429);
    watch.fires(&["SpinneyWritesRefused"]);
    busy.send(rest);
    assert_eq!(busy.last_answer(false).status, 200);
}

#[test]
fn connections_refused() {
    let (gate, cluster) = holding(|request| request.target().ends_with("?held"));
    // One that was closed is a connection until the other end is read: some may be left of the start.
    let spinney = start(&cluster.url, &["--max-connections", "16"]);
    let watch = at_work(&spinney.url);
    let mut busy = Vec::new();
    wait_until("all connections are taken", || {
        let mut one = Wire::connect(&spinney.url);
        one.send(&Request::bulk("/news-x/_bulk?held", article("b", 2)).bytes());
        busy.push(one);
        write().to(&spinney.url).status == 503
    });
    gate.wait_for(1);
    watch.fires(&["SpinneyConnectionsRefused"]);
    gate.open();
    busy.swap_remove(0).last_answer(false);
}

/// All that the runbook names, passed on or refused.
#[test]
fn bodies_not_understood() {
    let cluster = cluster();
    let utf16: Vec<u8> = article("a", 1).trim_end().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let kind = |kind: &str, body: &[u8]| write().without("content-type").header("Content-Type", kind).body(body);
    let packed = |coding: &str| write().header("Content-Encoding", coding);
    for (policy, status) in [("pass", 200), ("refuse", 400)] {
        let spinney = start(&cluster.url, &["--unstamped", policy]);
        for unread in [
            kind("application/smile", b":)\n\0"),
            kind("application/cbor", b"\xbf\xff"),
            kind("application/yaml", b"---\na: b\n"),
            write().body(&utf16),
            packed("zstd"),
            packed("br"),
            Request::bulk("/news-x/_bulk/stream", article("a", 1)),
            write().body("{\"index\":{\"_id\":\n{}\n"),
        ] {
            let watch = at_work(&spinney.url);
            let answer = unread.to(&spinney.url);
            assert_eq!(answer.status, status, "{} {}", unread.describe(), answer.text());
            watch.fires(&["SpinneyBodiesNotUnderstood"]);
        }
    }
}

#[test]
fn forest_evicted() {
    let cluster = cluster();
    let spinney = start(&cluster.url, &["--forest-memory", "1MiB"]);
    let watch = at_work(&spinney.url);
    let mut from = 0;
    wait_until("the forest is full", || {
        let documents: String = (from..from + 2_000).map(|n| article("a", n)).collect();
        from += 2_000;
        assert_eq!(Request::bulk("/news-x/_bulk", documents).to(&spinney.url).status, 200);
        only_forest(&stats_now(&spinney.url))["evicted"] != 0
    });
    watch.fires(&["SpinneyForestEvicted"]);
}

// ---- faults that need a real cluster ----

#[tokio::test]
async fn counts_behind() {
    let (upstream, index) = (common::opensearch(), unique_index("alert-counts"));
    let server = Server::new(&upstream);
    create_mapped(&server, &index).await;
    let spinney = Spinney::start(&["--upstream", &upstream, "--index", &index, "--counts", "on"]);
    let copy = |id| bulk(&spinney.url, &index, [(id, overrides::article(1, 1))]);
    copy("a");
    copy("b");
    let counts = || stats_now(&spinney.url)["counts"].take();
    wait_until("the group is counted", || counts()["state"] == "counting" && counts()["entries_written"] != 0);
    let watch = Watch::begin(&spinney.url);
    let kept = format!("/spinney-roots-{index}/_settings");
    let block = json!({"index.blocks.write": true});
    let (status, answer) = server.request(Method::PUT, &kept, Some(block)).await;
    assert!(status.is_success(), "{answer}");
    copy("c");
    wait_until("the cluster takes no entries", || counts()["state"] != "counting");
    watch.fires(&["SpinneyCountsBehind"]);
    for name in [&index, &format!("spinney-roots-{index}")] {
        server.delete_index(name).await;
    }
}

#[tokio::test]
async fn sweep_behind() {
    let (upstream, index) = (common::opensearch(), unique_index("alert-sweep"));
    let server = Server::new(&upstream);
    let (mapped, unmapped) = (format!("{index}-a"), format!("{index}-b"));
    create_mapped(&server, &mapped).await;
    let pattern = format!("{index}-*");
    let args = ["--upstream", &upstream, "--index", &pattern, "--text-field", "content", "--sweep", "200ms"];
    let spinney = Spinney::start(&args);
    let sweep = |what: &str, holds: fn(&Value) -> bool| {
        wait_until(what, || holds(&stats_now(&spinney.url)["sweep"]));
    };
    load(&upstream, &mapped, 0..3).await;
    server.refresh(&mapped).await;
    sweep("what passed by is stamped", |sweep| sweep["stamped"] == 3 && sweep["left"] == 0);
    let watch = Watch::begin(&spinney.url);
    let mappings = json!({"properties": {"cluster_root": {"type": "text"}}});
    server.create_index(&unmapped, json!({ "mappings": mappings })).await;
    load(&upstream, &unmapped, 0..3).await;
    server.refresh(&unmapped).await;
    sweep("some are left", |sweep| sweep["left"] == 3);
    watch.fires(&["SpinneySweepBehind"]);
    for name in [&mapped, &unmapped] {
        server.delete_index(name).await;
    }
}

/// Groups are merged whose documents are in two indices, one of which takes no writes.
#[tokio::test]
async fn restamp_failing() {
    let (upstream, index) = (common::opensearch(), unique_index("alert-restamp"));
    let server = Server::new(&upstream);
    let names = ["a", "b"].map(|part| format!("{index}-{part}"));
    let pattern = format!("{index}-*");
    let spinney = Spinney::start(&["--upstream", &upstream, "--index", &pattern, "--text-field", "content"]);
    for name in &names {
        create_mapped(&server, name).await;
        bulk(&spinney.url, name, [1, 2, 3].map(|story| (["1", "2", "3"][story - 1], overrides::article(story, 1))));
    }
    let before = roots(&server, &names[0]).await;
    let merge = |one: &str, other: &str| {
        say(&spinney.url, &format!("{}/_merge", names[0]), &json!({"roots": [before[one], before[other]]}))
    };
    // An override that is followed is no fault.
    let mut watch = Watch::begin(&spinney.url);
    merge("1", "2");
    followed(&spinney.url, &names[0]).await;
    wait_until("nothing waits", || stats_now(&spinney.url)["restamping"]["waiting"] == 0);
    watch.scrape();
    let block = json!({"index.blocks.write": true});
    server.request(Method::PUT, &format!("/{}/_settings", names[1]), Some(block)).await;
    merge("1", "3");
    wait_until("documents do not follow", || stats_now(&spinney.url)["restamping"]["errors"] != 0);
    watch.fires(&["SpinneyRestampFailing"]);
    for name in &names {
        server.delete_index(name).await;
    }
}

// ---- shared forests ----

fn sharing(upstream: &str, index: &str, redis: &Redis, more: &[&str]) -> Spinney {
    let url = redis.url();
    let base = ["--upstream", upstream, "--index", index, "--text-field", "content", "--forest-store", &url];
    Spinney::start(&[&base[..], more].concat())
}

#[test]
fn forest_store_away() {
    let (cluster, redis) = (cluster(), Redis::start());
    let spinney = sharing(&cluster.url, "news-*", &redis, &[]);
    let watch = at_work(&spinney.url);
    drop(redis);
    assert_eq!(Request::bulk("/news-x/_bulk", article("b", 2)).to(&spinney.url).status, 503);
    watch.fires(&["SpinneyForestStoreAway"]);
}

/// Somebody configures the Redis of the forests anew.
#[test]
fn forest_store_evicts() {
    let (cluster, redis) = (cluster(), Redis::start());
    let spinney = sharing(&cluster.url, "news-*", &redis, &[]);
    let watch = at_work(&spinney.url);
    redis.command("CONFIG SET maxmemory 100mb");
    redis.command("CONFIG SET maxmemory-policy allkeys-lru");
    // It is looked at with each new connection.
    redis.command("CLIENT KILL TYPE normal");
    wait_until("it is noticed", || {
        write().to(&spinney.url);
        let metrics = Request::get("/_spinney/_metrics").to(&spinney.url).text();
        metrics.contains("spinney_forest_store_evicts 1\n")
    });
    watch.fires(&["SpinneyForestStoreEvicts"]);
}

#[test]
fn shared_unreadable() {
    let (cluster, redis) = (cluster(), Redis::start());
    let spinney = sharing(&cluster.url, "news-*", &redis, &[]);
    let watch = at_work(&spinney.url);
    redis.command(
        "EVAL \"for _, key in ipairs(redis.call('KEYS', '*')) do if redis.call('TYPE', key).ok == 'string' then \
         redis.call('SET', key, 'no value of spinney') end end\" 0",
    );
    write().to(&spinney.url);
    watch.fires(&["SpinneySharedUnreadable"]);
}

/// Two sidecars get the same documents at the same moments, again and again.
#[test]
fn shared_conflicts() {
    let (cluster, redis) = (cluster(), Redis::start());
    let sidecars = [(); 2].map(|()| sharing(&cluster.url, "news-*", &redis, &[]));
    let [watch, _] = sidecars.each_ref().map(|sidecar| at_work(&sidecar.url));
    let mut from = 10;
    wait_until("they are in each other's way", || {
        let documents: String = (from..from + 500).map(|n| article("a", n)).collect();
        from += 500;
        thread::scope(|scope| {
            for sidecar in &sidecars {
                let bulk = Request::bulk("/news-x/_bulk", &documents);
                scope.spawn(move || assert_eq!(bulk.to(&sidecar.url).status, 200));
            }
        });
        let stats = stats_now(&sidecars[0].url);
        let shared = &only_forest(&stats)["shared"];
        5 * shared["conflicts"].as_u64().unwrap() > shared["documents"].as_u64().unwrap()
    });
    watch.fires(&["SpinneySharedConflicts"]);
}

/// As many late merges as there can be are in force.
#[tokio::test]
async fn late_merges_no_room() {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, index) = (Server::new(&upstream), unique_index("alert-late"));
    create_mapped(&server, &index).await;
    let serve = || sharing(&upstream, &index, &redis, &["--late-merges", "apply"]);
    let mut spinney = serve();
    bulk(&spinney.url, &index, [("one", torn(1)), ("other", torn(2))]);
    // Two that change overrides at a time are in each other's way, which is another fault.
    spinney.kill9();
    let forest = forest_of(&redis, &index);
    for n in 0..MAX_LATE_MERGES as u64 {
        let [winner, loser] = [2 * n, 2 * n + 1].map(|root| Root(Fingerprint(root)));
        let late = Override::LateMerge { winner, loser };
        // A busy machine may not have it answered in time.
        wait_until("it is said", || block_on(forest.add_override(late.clone(), Vec::new())).is_ok());
    }
    let spinney = serve();
    let watch = Watch::begin(&spinney.url);
    bulk(&spinney.url, &index, [("both", torn(0))]);
    wait_until("it finds no room", || {
        ask(&spinney.url, "GET", &format!("{index}/_merges"), &Value::Null).json()["no_room"] == 1
    });
    watch.fires(&["SpinneyLateMergesNoRoom"]);
    server.delete_index(&index).await;
}
