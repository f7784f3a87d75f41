//! What unverified writers and verified writers leave behind.

use serde_json::json;

use super::*;
use crate::engine::Resolution;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;

const CALLER: u64 = 5;

fn from(caller: u64, now: i64) -> RequestContext {
    RequestContext { caller: Some(caller), ..call(now) }
}

/// The roots that the documents of a bulk got, and what is to be settled.
fn send(engine: &Arc<Engine>, body: &str, context: RequestContext) -> (Vec<String>, HeldDocuments) {
    let stamped = stamp(engine, body, Some("news-1"), context);
    let (lines, placed) = written(body, stamped);
    let roots = lines.iter().filter_map(|line| line["cluster_root"].as_str());
    (roots.map(str::to_owned).collect(), placed)
}

fn accepted(items: usize) -> Resolution {
    answered(vec![json!({"index": {"status": 201}}); items].into())
}

fn settle(engine: &Arc<Engine>, placed: HeldDocuments, resolution: Resolution) {
    wait(engine.settle(placed, resolution, Millis(0))).unwrap();
}

#[test]
fn a_stranger_leaves_nothing_before_the_cluster_has_accepted_it() {
    let body = index("1", &json!({"content": LONG}))
        + &index("2", &json!({"content": OTHER}))
        + &index("3", &json!({"content": LONG}));
    for (resolution, left) in [
        (Resolution::Unknown, 0),
        (Resolution::NotSent, 0),
        (Resolution::Status(302), 0),
        (Resolution::Status(401), 0),
        (Resolution::Status(503), 0),
        (answered(json!([])), 0),
        (answered(vec![json!({"index": {"status": 403, "error": {}}}); 3].into()), 0),
        (
            answered(json!([
                {"index": {"status": 201}},
                {"index": {"status": 400, "error": {}}},
                {"index": {"status": 201}},
            ])),
            1,
        ),
        (accepted(3), 2),
    ] {
        let engine = engine(&[route(json!({}))]);
        let shown = format!("{resolution:?}");
        let (roots, placed) = send(&engine, &body, from(CALLER, 0));
        assert_eq!(nodes(&engine), 0, "{shown}");
        // It sees its own documents.
        assert_eq!(roots[0], roots[2]);
        assert_ne!(roots[0], roots[1]);
        settle(&engine, placed, resolution);
        assert_eq!(nodes(&engine), left, "{shown}");
        let again = index("9", &json!({"content": LONG}));
        let (later, _) = send(&engine, &again, call(1));
        assert_eq!(later[0], roots[0], "the root that was stamped: {shown}");
    }
}

/// Neither knows of the other, and the text gives both one new root: whoever counts groups must be told of it.
#[test]
fn unverified_with_one_text_at_the_same_moment_are_a_group() {
    let engine = engine(&[route(json!({}))]);
    let (first, second) = (index("1", &json!({"content": LONG})), index("2", &json!({"content": LONG})));
    let (roots, one) = send(&engine, &first, from(CALLER, 0));
    let (same, other) = send(&engine, &second, from(CALLER + 1, 0));
    assert_eq!(roots, same);
    let told = accepted(1);
    let joined = |placed: &HeldDocuments| placed.joined(&told).count();
    assert_eq!((joined(&one), joined(&other)), (1, 1));
}

/// Seen: counted as it was placed as if, and once more when it was placed.
#[test]
fn a_document_of_an_unverified_writer_is_counted_once() {
    let engine = engine(&[route(json!({}))]);
    for writer in 0..3 {
        let body = index(&writer.to_string(), &json!({"content": LONG}));
        let (roots, placed) = send(&engine, &body, from(CALLER + writer, 0));
        settle(&engine, placed, accepted(1));
        let root = u64::from_str_radix(&roots[0], 16).unwrap();
        let tree = wait(engine.tree("news-1", Root(Fingerprint(root)))).unwrap();
        let (_, tree) = tree.unwrap();
        assert_eq!(u64::from(tree.documents), writer + 1);
    }
}

#[test]
fn who_was_accepted_is_known_for_that_route_until_it_is_denied() {
    let engine = engine(&[route(json!({}))]);
    let (first, second) = (index("1", &json!({"content": LONG})), index("2", &json!({"content": OTHER})));
    let (_, placed) = send(&engine, &first, from(CALLER, 0));
    settle(&engine, placed, accepted(1));
    assert_eq!(nodes(&engine), 1);

    let (_, placed) = send(&engine, &second, from(CALLER, 1));
    assert_eq!(nodes(&engine), 2, "concurrent writers meet it");
    settle(&engine, placed, Resolution::Status(403));
    assert_eq!(nodes(&engine), 1);
    let (_, placed) = send(&engine, &second, from(CALLER, 2));
    assert_eq!(nodes(&engine), 1, "a stranger again");
    settle(&engine, placed, accepted(1));
    assert_eq!(nodes(&engine), 2);

    let third = index("3", &json!({"content": "Eleven tram drivers sang in the empty depot."}));
    let (_, placed) = send(&engine, &third, from(CALLER + 1, 3));
    assert_eq!(nodes(&engine), 2, "another caller");
    settle(&engine, placed, Resolution::Unknown);
    // Tomorrow's index has the same route.
    let tomorrow = third.replace("\"_id\"", "\"_index\":\"news-2\",\"_id\"");
    let (_, placed) = send(&engine, &tomorrow, from(CALLER, 3));
    assert_eq!(nodes(&engine), 3, "another index of the route");
    settle(&engine, placed, Resolution::NotSent);
}

#[test]
fn an_unverified_date_moves_no_clock() {
    let engine = engine(&[route(json!({"clock": "field:published_at", "window": "1d"}))]);
    let on = |day: u32, text: &str| {
        let date = format!("2020-01-{day:02}T00:00:00Z");
        index("1", &json!({"content": text, "published_at": date}))
    };
    let (_, placed) = send(&engine, &on(1, LONG), call(0));
    settle(&engine, placed, accepted(1));
    for resolution in [Resolution::Status(401), Resolution::Unknown] {
        let (_, placed) = send(&engine, &on(9, OTHER), from(CALLER, 0));
        settle(&engine, placed, resolution);
        assert_eq!(nodes(&engine), 1);
        let stamped = stamp(&engine, &on(1, LONG), Some("news-1"), call(0));
        assert_eq!(stamped.tally().joined, 1);
    }
}

fn shared_engine(on_loss: OnRedisFailure) -> (InMemoryRedis, Arc<Engine>) {
    let store = InMemoryRedis::default();
    let keys: Arc<dyn RedisClient> = Arc::new(store.clone());
    let routes = [route(json!({}))];
    (store, Arc::new(Engine::shared(&routes, "cluster_", 2, HashKey::FIXED, &keys, on_loss).unwrap()))
}

/// Found by the simulation: such a document was in no tree, and the next one of its text got another root.
#[test]
fn an_accepted_document_is_placed_once_its_forest_is_back() {
    for on_loss in [OnRedisFailure::Refuse, OnRedisFailure::Local] {
        let (store, engine) = shared_engine(on_loss);
        let body = index("1", &json!({"content": LONG})) + &index("2", &json!({"content": OTHER}));
        let (roots, placed) = send(&engine, &body, from(CALLER, 0));
        store.set_away(Some("it restarts"));
        wait(engine.settle(placed, accepted(2), Millis(0))).unwrap_err();
        // Not asked while it is away.
        assert!(!engine.has_postponed());
        assert_eq!(wait(engine.place_postponed(Millis(1), 9)).unwrap(), SettledRequest::default());
        store.set_away(None);
        assert!(engine.has_postponed());
        wait(engine.place_postponed(Millis(2), 1)).unwrap();
        assert_eq!(nodes_of(&store), 1, "no more than the budget: {on_loss:?}");
        wait(engine.place_postponed(Millis(2), 9)).unwrap();
        wait(engine.place_postponed(Millis(2), 9)).unwrap();
        assert_eq!((nodes_of(&store), engine.has_postponed()), (2, false), "each once: {on_loss:?}");
        let (again, _) = send(&engine, &body, from(CALLER + 1, 3));
        assert_eq!(again, roots, "{on_loss:?}");
    }
}

/// Its stamp says so, and a sweep will place it again: until then the process has to find it.
#[test]
fn an_accepted_document_of_the_fallback_stays_in_it() {
    let (store, engine) = shared_engine(OnRedisFailure::Local);
    store.set_away(Some("it restarts"));
    let body = index("1", &json!({"content": LONG}));
    let (roots, placed) = send(&engine, &body, from(CALLER, 0));
    settle(&engine, placed, accepted(1));
    let (again, _) = send(&engine, &body, from(CALLER + 1, 1));
    assert_eq!(again, roots);
    store.set_away(None);
    wait(engine.place_postponed(Millis(2), 9)).unwrap();
    assert_eq!(nodes_of(&store), 0);
}

fn nodes_of(store: &InMemoryRedis) -> usize {
    store.nodes().len()
}
