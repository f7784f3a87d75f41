//! The engine over the real rooms: what a body becomes, and what an answer takes back.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::bulk::ResponseScanner;
use crate::config::RawRoute;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::forest::overrides::Override;
use crate::forest::shared::memory::InMemoryRedis;

mod check;
mod fields;
mod first_documents;
mod methods;
mod older;
mod out_of_service;
mod producers;
mod recover;
mod salvage;
mod standing;

const LONG: &str =
    "the harbour bridge was closed to traffic this morning after engineers found cracks in two of its piers";
const OTHER: &str =
    "the national orchestra will open its autumn season with a concert of works that nobody has heard before";

#[expect(clippy::needless_pass_by_value, reason = "reads better with json!")]
fn route(options: Value) -> Route {
    let mut all = json!({"index": ["news-*"], "text_field": ["content"], "title_field": "title", "method": "longest"});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    serde_json::from_value::<RawRoute>(all).unwrap().validate("route").unwrap()
}

fn engine(routes: &[Route]) -> Arc<Engine> {
    Arc::new(Engine::new(routes, "cluster_", 2, HashKey::FIXED).unwrap())
}

/// One that writes full stamps.
fn full_engine(routes: &[Route]) -> Arc<Engine> {
    let engine = Engine::new(routes, "cluster_", 2, HashKey::FIXED).unwrap();
    Arc::new(engine.with_stamps(StampForm::Full))
}

/// Waits for an answer of the engine, whose work is done by threads of its own.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    futures_executor::block_on(answer)
}

fn stamp(engine: &Arc<Engine>, body: &str, index: Option<&str>, context: RequestContext) -> Stamped {
    let write = Write::Bulk { index: index.map(Into::into) };
    wait(engine.parse_and_stamp(body.to_owned().into(), write, context)).unwrap()
}

fn call(now: i64) -> RequestContext {
    RequestContext { now: Millis(now), latest: Millis(i64::MAX), unique: 7, caller: None }
}

fn written(body: &str, stamped: Stamped) -> (Vec<Value>, HeldDocuments) {
    let (splice, placed) = stamped.into_parts();
    let chunks: Vec<Bytes> = splice.chunks(Bytes::copy_from_slice(body.as_bytes()), 64).collect();
    let text = String::from_utf8(chunks.concat()).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), placed)
}

fn bulk(engine: &Arc<Engine>, body: &str, now: i64) -> (Vec<Value>, HeldDocuments, StampTally) {
    let stamped = stamp(engine, body, Some("news-1"), call(now));
    let tally = stamped.tally();
    let (lines, placed) = written(body, stamped);
    (lines, placed, tally)
}

impl Engine {
    /// The cluster has lately accepted what this caller wrote by the first route.
    pub(crate) fn know_writer(&self, caller: u64, now: Millis) {
        self.settler.writers.accepted(caller, 0, now);
    }
}

/// The same from a writer whose documents the cluster may refuse yet.
fn bulk_of_writer(engine: &Arc<Engine>, body: &str, now: i64) -> (Vec<Value>, HeldDocuments) {
    const WRITER: u64 = 3;
    engine.know_writer(WRITER, Millis(now));
    let context = RequestContext { caller: Some(WRITER), ..call(now) };
    written(body, stamp(engine, body, Some("news-1"), context))
}

fn index(id: &str, source: &Value) -> String {
    format!("{}\n{source}\n", json!({"index": {"_id": id}}))
}

#[expect(clippy::needless_pass_by_value, reason = "reads better with json!")]
fn answered(items: Value) -> Resolution {
    let mut scanner = ResponseScanner::default();
    scanner.push(json!({"took": 1, "errors": true, "items": items}).to_string().as_bytes());
    Resolution::Items(scanner.finish())
}

fn nodes(engine: &Arc<Engine>) -> usize {
    wait(engine.forests().stats()).unwrap().into_iter().map(|(_, stats)| stats.nodes).sum()
}

#[test]
fn reprints_in_one_bulk_share_the_root_of_the_first() {
    let engine = full_engine(&[route(json!({}))]);
    let body = index("1", &json!({"content": format!("By A. Reporter. {LONG}.")}))
        + &index("2", &json!({"content": OTHER}))
        + &index("3", &json!({"content": format!("{LONG}. All rights reserved.")}));
    let (lines, _, tally) = bulk(&engine, &body, 1_000);
    assert_eq!(lines[1]["cluster_root"], lines[5]["cluster_root"]);
    assert_ne!(lines[1]["cluster_root"], lines[3]["cluster_root"]);
    assert_eq!(lines[1]["cluster_root"], lines[1]["cluster_hash"]);
    assert_eq!(lines[1]["cluster_arrival"], "1970-01-01T00:00:01.000Z");
    let root = u64::from_str_radix(lines[1]["cluster_root"].as_str().unwrap(), 16).unwrap();
    assert_eq!(lines[1]["cluster_key"], root as i64);
    assert_eq!(tally, StampTally { stamped: 3, without_text: 0, unstamped: 0, joined: 1, local_fallback: 0 });
}

#[test]
fn only_routed_indices_are_touched() {
    let engine = engine(&[route(json!({}))]);
    let body = format!(
        "{}\n{}\n{}\n{}\n",
        json!({"index": {"_index": "logs-1"}}),
        json!({"content": LONG}),
        json!({"index": {"_index": "news-2"}}),
        json!({"content": LONG}),
    );
    let stamped = stamp(&engine, &body, None, call(0));
    let (lines, _) = written(&body, stamped);
    assert_eq!(lines[1], json!({"content": LONG}));
    assert!(lines[3]["cluster_root"].is_string());
}

#[test]
fn a_document_without_text_has_a_root_of_its_own_that_stays() {
    let engine = full_engine(&[route(json!({}))]);
    let body =
        index("1", &json!({"content": ""})) + &index("2", &json!({"content": " <br> "})) + "{\"index\":{}}\n{}\n";
    let (lines, _, tally) = bulk(&engine, &body, 0);
    let roots: std::collections::BTreeSet<_> =
        [1, 3, 5].iter().map(|&at| lines[at]["cluster_root"].as_str().unwrap().to_owned()).collect();
    assert_eq!(roots.len(), 3);
    assert_eq!(tally.without_text, 3);
    assert!(lines[1].get("cluster_hash").is_none());
    assert_eq!(nodes(&engine), 0, "they stand outside the forest");
    let (again, _, _) = bulk(&engine, &body, 5);
    assert_eq!(again[1]["cluster_root"], lines[1]["cluster_root"]);
}

/// Its root is reckoned from its id, and an override names it like any other.
#[test]
fn a_merge_holds_for_documents_without_text() {
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let routes = [route(json!({}))];
    let shared = Engine::shared(&routes, "cluster_", 2, HashKey::FIXED, &keys, OnRedisFailure::Refuse);
    for engine in [engine(&routes), Arc::new(shared.unwrap())] {
        let body = index("1", &json!({"content": ""})) + &index("2", &json!({"content": ""}));
        let roots_from = |caller| {
            let stamped = stamp(&engine, &body, Some("news-1"), RequestContext { caller, ..call(0) });
            let (lines, _) = written(&body, stamped);
            let root = |line: &Value| u64::from_str_radix(line["cluster_root"].as_str().unwrap(), 16).unwrap();
            [1, 3].map(|at| Root(Fingerprint(root(&lines[at]))))
        };
        let before = roots_from(None);
        let [loser, winner] = before;
        assert_ne!(loser, winner);
        let merge = Override::Merge { winner, losers: vec![loser] };
        let number = wait(engine.forests.entries[0].port.add_override(merge, Vec::new())).unwrap().unwrap();
        // One that cannot be refused, and one that the cluster has not accepted anything of.
        for caller in [None, Some(5)] {
            assert_eq!(roots_from(caller), [winner; 2], "{caller:?}");
        }
        let empty = Bytes::from_static(b"{}");
        let checked = wait(engine.check(empty, "news-1".into(), Some("1".into()), call(0))).unwrap();
        assert_eq!(checked.root, Some(winner), "as it is foretold");
        wait(engine.forests.entries[0].port.undo_override(number)).unwrap();
        assert_eq!(roots_from(None), before);
    }
}

#[test]
fn the_title_stands_in_for_a_missing_text() {
    let engine = engine(&[route(json!({}))]);
    let body = index("1", &json!({"title": LONG})) + &index("2", &json!({"title": "x", "content": LONG}));
    let (lines, ..) = bulk(&engine, &body, 0);
    assert_eq!(lines[1]["cluster_root"], lines[3]["cluster_root"]);
}

#[test]
fn the_same_update_gives_the_same_stamp_later() {
    for engine in [engine, full_engine] {
        updated_twice(&engine(&[route(json!({}))]));
    }
}

fn updated_twice(engine: &Arc<Engine>) {
    let update = format!("{}\n{}\n", json!({"update": {"_id": "1"}}), json!({"doc": {"content": LONG}}));
    let (first, ..) = bulk(engine, &update, 1_000);
    let (second, ..) = bulk(engine, &update, 9_000);
    // What changed would defeat detect_noop; what is not there stays as it is in the stored document.
    let mut kept = first[1]["doc"].clone();
    kept.as_object_mut().unwrap().remove("cluster_arrival");
    assert_eq!(second[1]["doc"], kept);
    assert!(first[1]["doc"]["cluster_root"].is_string());
    assert!(first[1].get("cluster_root").is_none());
}

#[test]
fn updates_without_text_and_scripts_are_left_alone() {
    let engine = engine(&[route(json!({}))]);
    for source in [
        json!({"doc": {"views": 3}}),
        json!({"script": "ctx._source.views++"}),
        json!({"doc": {"views": 3}, "doc_as_upsert": true}),
    ] {
        let body = format!("{}\n{source}\n", json!({"update": {"_id": "1"}}));
        let (lines, _, tally) = bulk(&engine, &body, 0);
        assert_eq!(lines[1], source);
        assert_eq!(tally.unstamped, 1);
    }
    let source = json!({"script": "ctx._source.views++", "upsert": {"content": LONG}});
    let (lines, ..) = bulk(&engine, &format!("{}\n{source}\n", json!({"update": {"_id": "1"}})), 0);
    assert!(lines[1]["upsert"]["cluster_root"].is_string());
}

#[test]
fn updates_of_adopted_documents_are_stamped_as_the_documents_would_be() {
    let sources = [json!({"content": LONG, "title": "a"}), json!({"title": "without a text"}), json!({})];
    let lines = |adopted: bool| {
        let engine = engine(&[route(json!({}))]);
        let body: String = (0..)
            .zip(&sources)
            .map(|(n, source)| match adopted {
                true => format!("{}\n{}\n", json!({"update": {"_id": n.to_string()}}), json!({ "doc": source })),
                false => index(&n.to_string(), source),
            })
            .collect();
        let (bytes, write) = (Bytes::from(body.clone()), Write::Bulk { index: Some("news-1".into()) });
        let stamping = async {
            let mut parsed = engine.parse(bytes.clone(), write, call(5), Turn::default()).await?;
            if adopted {
                parsed.updates_are_whole();
            }
            engine.stamp(bytes, parsed, call(5)).await
        };
        let (lines, _) = written(&body, wait(stamping).unwrap());
        lines
    };
    let (indexed, adopted) = (lines(false), lines(true));
    for n in [1, 3, 5] {
        assert!(indexed[n]["cluster_root"].is_string(), "{indexed:?}");
        assert!(indexed[n]["cluster_arrival"].is_string(), "{indexed:?}");
        assert_eq!(indexed[n], adopted[n]["doc"]);
    }
}

#[test]
fn a_refused_item_takes_its_node_along_and_a_stored_one_does_not() {
    let engine = engine(&[route(json!({}))]);
    let body = index("1", &json!({"content": LONG})) + &index("2", &json!({"content": OTHER}));
    let (_, placed) = bulk_of_writer(&engine, &body, 0);
    assert_eq!(nodes(&engine), 2);
    let verdict = answered(json!([{"index": {"status": 201}}, {"index": {"status": 400, "error": {}}}]));
    assert_eq!(
        wait(engine.settle(placed, verdict, Millis(0))).unwrap(),
        SettledRequest { failed: 1, withdrawn: 1, learned: 0, ..SettledRequest::default() }
    );
    assert_eq!(nodes(&engine), 1);
}

#[test]
fn what_a_pipeline_drops_takes_its_node_along_and_an_update_without_a_change_does_not() {
    let engine = engine(&[route(json!({}))]);
    let update = json!({"doc": {"content": OTHER}, "doc_as_upsert": true});
    let body = index("1", &json!({"content": LONG})) + &format!("{}\n{update}\n", json!({"update": {"_id": "2"}}));
    let (_, placed) = bulk_of_writer(&engine, &body, 0);
    assert_eq!(nodes(&engine), 2);
    let dropped = answered(json!([
        {"index": {"result": "noop", "status": 200}},
        {"update": {"result": "noop", "status": 200}},
    ]));
    let settled = wait(engine.settle(placed, dropped, Millis(0))).unwrap();
    assert_eq!((settled.failed, settled.withdrawn), (0, 1));
    assert_eq!(nodes(&engine), 1);
    let (_, placed) = bulk_of_writer(&engine, &index("3", &json!({"content": LONG})), 0);
    wait(engine.settle(placed, Resolution::Unchanged, Millis(0))).unwrap();
    assert_eq!(nodes(&engine), 1);
}

#[test]
fn an_unknown_outcome_leaves_the_nodes_and_a_gap() {
    let engine = engine(&[route(json!({}))]);
    let body = index("1", &json!({"content": LONG}));
    for verdict in [
        Resolution::Unknown,
        answered(json!([])),
        answered(json!([{"index": {"error": {}}}])),
        answered(json!([{"create": {"status": 400}}])),
        answered(json!([{"index": {"status": 503}}])),
        answered(json!([{"index": {"status": 400}}, {"index": {"status": 400}}])),
    ] {
        let (_, placed, _) = bulk(&engine, &body, 0);
        let shown = format!("{verdict:?}");
        let settled = wait(engine.settle(placed, verdict, Millis(0))).unwrap();
        assert_eq!(settled.withdrawn, 0, "{shown}");
        assert_eq!(nodes(&engine), 1);
        assert_eq!(wait(engine.take_gaps()).unwrap().len(), 1, "{shown}");
    }
}

#[test]
fn a_refused_request_leaves_nothing_behind() {
    let engine = engine(&[route(json!({}))]);
    let body = index("1", &json!({"content": LONG})) + &index("2", &json!({"content": LONG}));
    let (_, placed) = bulk_of_writer(&engine, &body, 0);
    assert_eq!(wait(engine.settle(placed, Resolution::NotSent, Millis(0))).unwrap().withdrawn, 1);
    assert_eq!(nodes(&engine), 0);
}

#[test]
fn a_conflict_of_a_retry_keeps_the_node_of_the_first_try() {
    let engine = engine(&[route(json!({}))]);
    let body = format!("{}\n{}\n", json!({"create": {"_id": "1"}}), json!({"content": LONG}));
    let (first, lost, _) = bulk(&engine, &body, 0);
    wait(engine.settle(lost, Resolution::Unknown, Millis(0))).unwrap();
    let (second, placed, _) = bulk(&engine, &body, 1);
    assert_eq!(first[1]["cluster_root"], second[1]["cluster_root"]);
    wait(engine.settle(placed, answered(json!([{"create": {"status": 409}}])), Millis(0))).unwrap();
    assert_eq!(nodes(&engine), 1);
}

#[test]
fn the_documents_own_dates_make_the_time() {
    let engine = engine(&[route(json!({"clock": "field:published_at", "window": "1d"}))]);
    let at = |day: u32| json!({"content": LONG, "published_at": format!("2020-01-{day:02}T00:00:00Z")});
    let body = index("1", &at(1)) + &index("2", &json!({"content": OTHER})) + &index("3", &at(5));
    let (lines, ..) = bulk(&engine, &body, 1_795_251_000_000);
    assert_eq!(lines[1]["cluster_arrival"], "2020-01-01T00:00:00.000Z");
    assert_eq!(lines[3]["cluster_arrival"], "2020-01-01T00:00:00.000Z", "no date: when the one before it came");
    assert_eq!(lines[5]["cluster_arrival"], "2020-01-05T00:00:00.000Z");
    let one_from_2099 = json!({"content": "x y z", "published_at": "2099-01-01"});
    let capped = RequestContext { latest: Millis(1_578_182_400_000), ..call(0) };
    let body = index("4", &one_from_2099);
    stamp(&engine, &body, Some("news-1"), capped);
    let (lines, ..) = bulk(&engine, &index("5", &at(5)), 0);
    assert_eq!(lines[1]["cluster_arrival"], "2020-01-05T00:00:00.000Z", "the clock was not carried away");
}

#[test]
fn a_shared_forest_takes_distances_up_to_four() {
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let made = |options: Value| {
        let routes = [route(options)];
        let made = Engine::shared(&routes, "cluster_", 1, HashKey::FIXED, &keys, OnRedisFailure::Local);
        made.map(drop).map_err(|error| error.to_string())
    };
    for (method, k) in [("longest", 4), ("full", 3), ("verified", 0), ("staged", 4)] {
        assert_eq!(made(json!({"method": method, "k": k})), Ok(()), "{method}");
    }
    for (method, k, bits) in [("longest", 5, 5), ("short", 3, 10), ("short:longest", 3, 10)] {
        let error = made(json!({"method": method, "k": k})).unwrap_err();
        assert!(error.contains(&format!("looks for texts up to {bits} bits apart")), "{error}");
    }
}

#[test]
fn routes_may_share_a_forest() {
    let shared = |index: &str| route(json!({"index": [index], "forest": "all"}));
    let engine = engine(&[shared("a-*"), shared("b-*"), route(json!({"index": ["c-*"]}))]);
    let line = |index: &str| format!("{}\n{}\n", json!({"index": {"_index": index}}), json!({"content": LONG}));
    let body = line("a-1") + &line("b-1") + &line("c-1");
    let (lines, ..) = bulk(&engine, &body, 0);
    assert_eq!(lines[1]["cluster_root"], lines[3]["cluster_root"]);
    let sizes: Vec<usize> = wait(engine.forests().stats()).unwrap().into_iter().map(|(_, stats)| stats.nodes).collect();
    assert_eq!(sizes, [1, 1]);
}

#[test]
fn one_object_a_line() {
    let mut only = route(json!({"index": ["*"], "clock": "none"}));
    only.id_field = Some("id".into());
    let engine = engine(&[only]);
    let body =
        format!("{}\n\n{}\nnot json\n{}", json!({"content": LONG}), json!({"id": "7"}), json!({"content": LONG}));
    let stamped = wait(engine.stamp_lines(body.clone().into(), call(0))).unwrap();
    assert_eq!(stamped.tally(), StampTally { stamped: 3, without_text: 1, unstamped: 1, joined: 1, local_fallback: 0 });
    let (splice, _) = stamped.into_parts();
    let mut out = Vec::new();
    splice.write_to(body.as_bytes(), &mut out);
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = out.split('\n').collect();
    assert_eq!((lines.len(), lines[1], lines[3]), (5, "", "not json"));
    assert!(!out.contains("cluster_arrival"));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let body: String =
        (0..500).map(|n| index(&n.to_string(), &json!({"content": format!("{} {LONG}. Note {n}.", n % 50)}))).collect();
    let lines = |threads| {
        let engine = Engine::new(&[route(json!({}))], "cluster_", threads, HashKey::FIXED).unwrap();
        bulk(&Arc::new(engine), &body, 0).0
    };
    assert_eq!(lines(1), lines(4));
}

#[test]
fn bodies_that_are_no_bulks_are_not_understood() {
    let engine = engine(&[route(json!({}))]);
    for body in ["{\"index\":", "{\"index\":[]}\n{}\n", "[]\n"] {
        let write = Write::Bulk { index: Some("news-1".into()) };
        let error = wait(engine.parse_and_stamp(body.into(), write, call(0))).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("line "), "{body}: {told}");
    }
    for (op, body) in [(Op::Index, "[1]"), (Op::Create, ""), (Op::Update, "{\"doc\":1}")] {
        let write = Write::Document { op, index: "news-1".into(), id: None };
        let error = wait(engine.parse_and_stamp(body.into(), write, call(0))).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("the document is not understood: "), "{body}: {told}");
    }
    assert_eq!(nodes(&engine), 0);
}

/// Eight sentences of words that no other `seed` has.
fn article(seed: usize) -> String {
    let sentence = |n: usize| {
        let words = (0..14).map(|k| format!("w{}", (seed * 7919 + n * 131 + k * 17) % 99_991));
        format!("Also {}. ", words.collect::<Vec<_>>().join(" "))
    };
    (0..8).map(sentence).collect()
}

#[test]
fn verified_finds_reprints_and_says_what_it_went_by() {
    let engine = full_engine(&[route(json!({"method": "verified"}))]);
    let reprint = format!("By A. Reporter. {} More news below.", article(1));
    let body = index("1", &json!({"content": article(1)}))
        + &index("2", &json!({"content": article(2)}))
        + &index("3", &json!({"content": reprint}));
    let (lines, _, tally) = bulk(&engine, &body, 1_000);
    assert_eq!(lines[1]["cluster_root"], lines[5]["cluster_root"]);
    assert_ne!(lines[1]["cluster_root"], lines[3]["cluster_root"]);
    assert_eq!(tally.joined, 1);
    for at in [1, 3, 5] {
        assert!(lines[at]["cluster_hash"].as_array().unwrap().len() > 1);
        assert!(lines[at]["cluster_proof"].is_string());
    }
}

#[test]
fn verified_gives_the_same_text_the_same_stamp_whatever_was_learned_in_between() {
    let engine = full_engine(&[route(json!({"method": "verified"}))]);
    let footer = "All rights are reserved by the publisher of this page and by its partners. ";
    let update = |n: usize| {
        let doc = json!({"doc": {"content": format!("{}{footer}", article(n))}});
        format!("{}\n{doc}\n", json!({"update": {"_id": n.to_string()}}))
    };
    let (first, ..) = bulk(&engine, &update(0), 1_000);
    for n in 1..20 {
        bulk(&engine, &update(n), 2_000);
    }
    let (again, ..) = bulk(&engine, &update(0), 3_000);
    assert_eq!(first, again);
}

#[test]
fn verified_takes_back_what_a_refused_request_placed() {
    let engine = engine(&[route(json!({"method": "verified"}))]);
    let body: String = (0..10).map(|n| index(&n.to_string(), &json!({"content": article(n % 7)}))).collect();
    let (_, placed) = bulk_of_writer(&engine, &body, 0);
    assert!(nodes(&engine) >= 7);
    wait(engine.settle(placed, Resolution::NotSent, Millis(0))).unwrap();
    assert_eq!(nodes(&engine), 0);
}

#[test]
fn large_documents_are_read_in_batches_of_their_own() {
    let engine = engine(&[route(json!({"method": "verified"}))]);
    let long: String = (0..20_000).map(article).collect();
    assert!(long.len() > read::BATCH_BYTES);
    let body = index("1", &json!({"content": long}))
        + &index("2", &json!({"content": article(3)}))
        + &index("3", &json!({"content": long}));
    let (lines, ..) = bulk(&engine, &body, 0);
    assert_eq!(lines[1]["cluster_root"], lines[5]["cluster_root"]);
}

/// What an engine that several share cannot forget it is not asked for, again and again.
#[test]
fn a_shared_forest_is_not_asked_what_it_has_forgotten() {
    let store = InMemoryRedis::default();
    let keys: Arc<dyn RedisClient> = Arc::new(store.clone());
    let routes = [route(json!({}))];
    let (key, on_loss) = (HashKey::FIXED, OnRedisFailure::Refuse);
    let shared = Engine::shared(&routes, "cluster_", 2, key, &keys, on_loss).unwrap();
    assert_eq!(wait(shared.forests.stats()).unwrap().len(), 1);
    // From now on every question fails.
    store.set_away(Some("nobody may ask"));
    wait(shared.forests.stats()).unwrap_err();
    assert_eq!(wait(shared.forests.own_stats()).unwrap().len(), 0);
    assert_eq!(wait(engine(&routes).forests.own_stats()).unwrap().len(), 1);
}

fn update(id: &str, source: &Value) -> String {
    format!("{}\n{source}\n", json!({"update": {"_id": id}}))
}

#[test]
fn the_document_that_founds_a_group_is_its_first_and_stays_it() {
    let engine = engine(&[route(json!({}))]);
    let (long, other) = (json!({"content": LONG}), json!({"content": OTHER}));
    let without_id = format!("{}\n{long}\n", json!({"index": {}}));
    let body = index("1", &long) + &index("2", &long) + &without_id + &index("3", &json!({"title": "x"}));
    let (lines, ..) = bulk(&engine, &body, 1_000);
    let firsts = |lines: &[Value]| {
        let sources = lines.iter().skip(1).step_by(2);
        sources.map(|source| source["cluster_first"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(firsts(&lines), [true, false, false, true]);
    let (lines, ..) = bulk(&engine, &(index("2", &long) + &index("1", &long)), 2_000);
    assert_eq!(firsts(&lines), [false, true]);
    // Out of its group, and into it.
    let (lines, ..) = bulk(&engine, &(index("1", &other) + &index("4", &other) + &index("1", &long)), 3_000);
    assert_eq!(firsts(&lines), [true, false, true]);
}

#[test]
fn an_update_leaves_the_flag_where_nothing_is_known() {
    let engine = engine(&[route(json!({}))]);
    let of_client = json!({"content": LONG, "cluster_first": true});
    bulk(&engine, &format!("{}\n{of_client}\n", json!({"index": {}})), 1_000);
    let doc = json!({"doc": of_client});
    let creates = json!({"doc": of_client, "doc_as_upsert": true});
    let upsert = json!({"script": "", "upsert": of_client});
    let body = update("1", &doc) + &update("1", &creates) + &update("1", &upsert) + &index("1", &of_client);
    let (lines, ..) = bulk(&engine, &body, 2_000);
    assert_eq!(lines[1]["doc"]["cluster_first"], Value::Null);
    assert_eq!(lines[3]["doc"]["cluster_first"], Value::Null);
    assert_eq!(lines[5]["upsert"]["cluster_first"], false);
    assert_eq!(lines[7]["cluster_first"], false);
}

#[test]
fn a_dropped_copy_leaves_the_first_of_its_group() {
    let engine = engine(&[route(json!({}))]);
    let long = json!({"content": LONG});
    let dropped = |id: &str, at| {
        let (lines, placed) = bulk_of_writer(&engine, &index(id, &long), at);
        let outcome = answered(json!([{"index": {"_index": "news-1", "_id": id, "status": 200, "result": "noop"}}]));
        wait(engine.settle(placed, outcome, Millis(at))).unwrap();
        lines[1]["cluster_first"].clone()
    };
    // Of a founder that was dropped nothing is left: the next copy is not dropped for it.
    assert_eq!(dropped("1", 1_000), true);
    assert_eq!(nodes(&engine), 0);
    let (lines, placed) = bulk_of_writer(&engine, &index("2", &long), 2_000);
    assert_eq!(lines[1]["cluster_first"], true);
    let stored = answered(json!([{"index": {"_index": "news-1", "_id": "2", "status": 201, "result": "created"}}]));
    wait(engine.settle(placed, stored, Millis(2_000))).unwrap();
    let before = nodes(&engine);
    assert_eq!([dropped("1", 3_000), dropped("2", 4_000)], [false, true]);
    assert_eq!(nodes(&engine), before);
}
