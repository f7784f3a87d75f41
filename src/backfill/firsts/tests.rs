//! Against a cluster that is made up: whatever is stored, and whatever fails meanwhile, each group gets one first
//! document, the earliest, and what is right is left alone.

mod world;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::config::{RawRoute, Route};
use crate::engine::{RequestContext, Resolution, Write};
use crate::hash::HashKey;
use crate::time::Millis;
use world::{INDICES, Stored, World};

struct Scene {
    world: Arc<Mutex<World>>,
    engine: Arc<Engine>,
    operator: Operator,
    restamping: Restamping,
    status: FirstStatus,
    routes: RouteTable,
}

impl Scene {
    /// A forest of two routes.
    fn new(world: World) -> Scene {
        let route = |pattern: &str| -> Route {
            let raw = json!({"index": [pattern], "method": "longest", "forest": "f", "text_field": ["content"]});
            let raw: RawRoute = serde_json::from_value(raw).unwrap();
            raw.validate("route").unwrap()
        };
        let engine = Engine::new(&[route("news-*"), route("wire")], "cluster_", 2, HashKey::FIXED).unwrap();
        let world = Arc::new(Mutex::new(world));
        let of = world.clone();
        let operator = Operator::of_model(move |method, target, body| of.lock().answer(method.as_str(), target, body));
        let routes = engine.routes().table();
        Scene {
            world,
            engine: Arc::new(engine),
            operator,
            restamping: Restamping::default(),
            status: FirstStatus::default(),
            routes,
        }
    }

    /// Lets it work for some time, which goes by a quarter of a second whenever everything else has had a turn.
    async fn work(&self, time: Duration) {
        let keeper = FirstKeeper {
            status: &self.status,
            restamping: &self.restamping,
            engine: &self.engine,
            operator: &self.operator,
            routes: &self.routes,
            shared_forests: Vec::new(),
        };
        let until = Instant::now() + time;
        let watch = async {
            while Instant::now() < until {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                // Behind what the forest's threads have to do.
                self.engine.forests().stats().await.unwrap();
                tokio::time::advance(Duration::from_millis(250)).await;
            }
        };
        tokio::select! {
            biased;
            () = keeper.run() => {}
            () = watch => {}
        }
    }
}

fn hit(id: &str) -> StoredHit {
    StoredHit {
        index: "news-1".into(),
        id: id.into(),
        routing: None,
        seq_no: 1,
        term: 1,
        source: bytes::Bytes::new(),
        place: None,
    }
}

/// Two scans, and two looks.
const LONG: Duration = Duration::from_secs(90);

#[tokio::test(start_paused = true)]
async fn one_of_several_stays_and_one_of_none_is_elected() {
    let mut world = World::default();
    let (yes, no) = (Some(true), Some(false));
    // 1: right, though its first was sent again. 2: two, in two routes. 3: none; the earliest is in the other route.
    // 4: none, and one of before there was the field. 5: none says anything.
    for (index, id, of) in [
        ("news-1", "11", (1, yes, 30)),
        ("wire", "12", (1, no, 20)),
        ("wire", "21", (2, yes, 10)),
        ("news-2", "22", (2, yes, 20)),
        ("news-1", "31", (3, no, 20)),
        ("wire", "32", (3, no, 10)),
        ("news-1", "41", (4, None, 10)),
        ("news-1", "42", (4, no, 20)),
        ("news-1", "51", (5, None, 10)),
    ] {
        world.put(index, id, of);
    }
    let scene = Scene::new(world);
    scene.work(LONG).await;
    let world = scene.world.lock();
    let expected = [(1, vec!["11"]), (2, vec!["21"]), (3, vec!["32"]), (4, vec!["41"]), (5, vec![])];
    assert_eq!(world.firsts(), BTreeMap::from(expected));
    assert_eq!(world.written, 3);
    let status = scene.status.shown();
    assert_eq!((&status["elected"], &status["cleared"], &status["errors"]), (&json!(2), &json!(1), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_while_an_index_cannot_be_searched() {
    let mut world = World { unread: Some("wire".into()), ..World::default() };
    world.put("news-1", "copy", (1, Some(false), 20));
    world.put("wire", "first", (1, Some(true), 10));
    let scene = Scene::new(world);
    scene.work(LONG).await;
    assert_eq!(scene.world.lock().written, 0);
    let status = scene.status.shown();
    assert!(status["state"] == "failing" && status["reason"].as_str().unwrap().contains("503"), "{status}");
    scene.world.lock().unread = None;
    scene.work(LONG).await;
    assert_eq!(scene.world.lock().written, 0);
    assert_eq!(scene.status.shown()["state"], "searching");
}

#[tokio::test(start_paused = true)]
async fn what_takes_no_writes_is_neither_cleared_nor_elected() {
    let mut world = World { blocked: BTreeSet::from(["wire".to_owned()]), ..World::default() };
    // 1: the later one cannot be cleared. 2: the earliest cannot be elected. 3: none can.
    for (index, id, of) in [
        ("news-1", "11", (1, Some(true), 10)),
        ("wire", "12", (1, Some(true), 20)),
        ("wire", "21", (2, Some(false), 10)),
        ("news-1", "22", (2, Some(false), 20)),
        ("wire", "31", (3, Some(false), 10)),
    ] {
        world.put(index, id, of);
    }
    let scene = Scene::new(world);
    scene.work(LONG).await;
    let world = scene.world.lock();
    assert_eq!(world.firsts(), BTreeMap::from([(1, vec!["12"]), (2, vec!["22"]), (3, vec![])]));
    assert_eq!(world.written, 2);
    // Nor is it tried.
    assert_eq!(scene.status.shown()["refused"], 0);
}

#[tokio::test(start_paused = true)]
async fn an_index_of_another_mapping_is_left_out_and_one_without_its_source_is_not_written() {
    for (mapping, expected) in [
        // The document there cannot be cleared, so it stays.
        (json!({"_source": {"excludes": ["vector"]}}), [(1, vec!["12"]), (2, vec!["22"])]),
        (json!({"_source": {"enabled": false}}), [(1, vec!["12"]), (2, vec!["22"])]),
        // It is as if it were not there.
        (json!({"properties": {"cluster_first": {"type": "long"}}}), [(1, vec!["11", "12"]), (2, vec!["22"])]),
        (
            json!({"properties": {"cluster_key": {"type": "long", "doc_values": false}}}),
            [(1, vec!["11", "12"]), (2, vec!["22"])],
        ),
    ] {
        let mut world = World { mappings: json!({"wire": {"mappings": mapping}}), ..World::default() };
        for (index, id, of) in [
            ("news-1", "11", (1, Some(true), 10)),
            ("wire", "12", (1, Some(true), 20)),
            ("wire", "21", (2, Some(false), 10)),
            ("news-1", "22", (2, Some(false), 20)),
        ] {
            world.put(index, id, of);
        }
        let scene = Scene::new(world);
        scene.work(LONG).await;
        assert_eq!(scene.world.lock().firsts(), BTreeMap::from(expected), "{mapping}");
        let left_out = scene.status.shown()["left_out"].to_string();
        assert_eq!(left_out.contains("wire: the field"), mapping.get("properties").is_some(), "{left_out}");
    }
}

/// Those of before there was the field, and those that an update made while nobody knew the first one.
#[tokio::test(start_paused = true)]
async fn the_earliest_is_elected_whether_it_says_that_it_is_not_the_first_or_nothing() {
    let mut world = World::default();
    for (id, of) in [("1", (1, None, 10)), ("2", (1, None, 20)), ("3", (1, Some(false), 30))] {
        world.put("news-1", id, of);
    }
    let scene = Scene::new(world);
    scene.work(LONG).await;
    let world = scene.world.lock();
    assert_eq!(world.firsts()[&1], ["1"]);
    // The others say now that they are not, by which they are found when this one is deleted.
    let flags: Vec<_> = world.documents.values().map(|of| of.first).collect();
    assert_eq!(flags, [Some(true), Some(false), Some(false)]);
}

#[tokio::test(start_paused = true)]
async fn copies_that_say_nothing_are_found_when_the_first_is_deleted() {
    let mut world = World::default();
    for (id, of) in [("1", (1, Some(true), 10)), ("2", (1, None, 20)), ("3", (1, None, 30))] {
        world.put("news-1", id, of);
    }
    let scene = Scene::new(world);
    let root = Root(Fingerprint(1));
    scene.work(Duration::from_secs(1)).await;
    scene.engine.note_unsure_firsts("f", std::iter::once(root));
    scene.work(LONG).await;
    assert_eq!(scene.world.lock().firsts()[&1], ["1"]);
    scene.world.lock().documents.remove(&("news-1".into(), "1".into()));
    // Past spinney: the scan finds it.
    scene.work(LONG).await;
    assert_eq!(scene.world.lock().firsts()[&1], ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_cannot_be_updated_is_passed_over() {
    let refused = [("wire", "12"), ("wire", "21"), ("news-1", "41")].map(|(index, id)| (index.into(), id.into()));
    let mut world = World { refused: BTreeSet::from(refused), ..World::default() };
    // 1: the later one cannot be cleared. 2: the earliest cannot be elected. 3: its id is refused in another index. 4:
    // the copy in another index has the same id, and can.
    for (index, id, of) in [
        ("news-1", "11", (1, Some(true), 10)),
        ("wire", "12", (1, Some(true), 20)),
        ("wire", "21", (2, Some(false), 10)),
        ("news-1", "22", (2, Some(false), 20)),
        ("news-1", "12", (3, Some(false), 10)),
        ("wire", "21b", (3, Some(false), 20)),
        ("news-1", "41", (4, Some(false), 10)),
        ("wire", "41", (4, Some(false), 20)),
    ] {
        world.put(index, id, of);
    }
    let scene = Scene::new(world);
    scene.work(LONG).await;
    let world = scene.world.lock();
    let expected = [(1, vec!["12"]), (2, vec!["22"]), (3, vec!["12"]), (4, vec!["41"])];
    assert_eq!(world.firsts(), BTreeMap::from(expected));
    drop(world);
    let mut work = ForestWork::new("f".into());
    let hit = |n: usize| hit(&n.to_string());
    (0..MOST_REFUSED).for_each(|n| assert!(work.refuse(&hit(n))));
    assert!(!work.is_refused(&hit(MOST_REFUSED)) && work.is_refused(&hit(0)) && work.refused.len() == MOST_REFUSED);
    assert!(work.refuse(&hit(MOST_REFUSED)) && work.refused.len() == 1);
}

/// A busy cluster shows writes later than its refresh interval says.
#[tokio::test(start_paused = true)]
async fn what_searches_do_not_see_yet_is_made_visible_before_another_is_elected() {
    let mut world = World::default();
    world.put("news-1", "2", (1, Some(false), 20));
    let early = Stored { key: 1, first: Some(false), arrival: 10, seq_no: 1 };
    world.late.insert(("wire".into(), "1".into()), early);
    let scene = Scene::new(world);
    scene.work(LONG).await;
    let world = scene.world.lock();
    assert_eq!((world.firsts(), world.written), (BTreeMap::from([(1, vec!["1"])]), 1));
}

#[tokio::test(start_paused = true)]
async fn an_index_whose_searches_return_few_documents_hides_no_others() {
    for window in [2, 500] {
        let mut world = World { window, ..World::default() };
        for (id, of) in [
            ("11", (1, Some(true), 10)),
            ("12", (1, Some(true), 20)),
            ("13", (1, Some(true), 30)),
            ("21", (2, Some(false), 10)),
            ("31", (3, Some(false), 10)),
            // The earliest of both groups fill a search for two documents.
            ("41", (4, Some(true), 10)),
            ("42", (4, Some(true), 40)),
            ("51", (5, Some(true), 11)),
            ("52", (5, Some(true), 41)),
        ] {
            world.put("news-1", id, of);
        }
        let scene = Scene::new(world);
        scene.work(LONG * 2).await;
        let expected =
            BTreeMap::from([(1, vec!["11"]), (2, vec!["21"]), (3, vec!["31"]), (4, vec!["41"]), (5, vec!["51"])]);
        assert_eq!(scene.world.lock().firsts(), expected, "{window}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_before_its_first_stamp_hides_no_others() {
    let unmapped = ["news-2", "wire"].map(str::to_owned);
    let mut world = World { unmapped: unmapped.into(), ..World::default() };
    world.put("news-1", "1", (1, Some(false), 10));
    let scene = Scene::new(world);
    scene.work(LONG).await;
    assert_eq!(scene.world.lock().firsts()[&1], ["1"]);
    assert_eq!(scene.status.shown()["errors"], 0);
}

#[test]
fn a_failure_of_one_forest_is_not_over_when_another_goes_on() {
    let status = FirstStatus::default();
    assert!(status.failed("a", "away") && status.failed("b", "away") && !status.failed("a", "away"));
    status.succeeded("b");
    assert_eq!((&status.shown()["state"], &status.shown()["reason"]), (&json!("failing"), &json!("away")));
    status.succeeded("a");
    assert_eq!((&status.shown()["state"], &status.shown()["reason"]), (&json!("searching"), &json!("")));
}

#[tokio::test(start_paused = true)]
async fn a_contested_group_is_written_less_and_less() {
    let mut world = World { deaf: true, ..World::default() };
    world.put("news-1", "1", (1, Some(false), 10));
    let scene = Scene::new(world);
    scene.work(LONGEST_WAIT).await;
    // After 8, 16, 32 … seconds: the ninth after 34 minutes more.
    let written = scene.world.lock().written;
    assert!((6..=9).contains(&written), "{written}");
    assert!(scene.status.shown()["contested"].as_u64().unwrap() > 10);
    scene.world.lock().deaf = false;
    scene.work(LONG).await;
    assert_eq!(scene.world.lock().firsts()[&1], ["1"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_same_flag_waits_and_no_longer_than_an_hour() {
    let flagged = |id: &str, first| Flagged { key: 1, hit: hit(id), first };
    let (one, other) = (flagged("1", true), flagged("2", true));
    let mut work = ForestWork::new("f".into());
    for _ in 0..40 {
        work.repaired(1, &one);
    }
    assert_eq!(work.repaired[&1].wait, LONGEST_WAIT);
    // Another document is another repair, and so is the other flag.
    assert!(!work.may_repair(1, &one) && work.may_repair(1, &other) && work.may_repair(1, &flagged("1", false)));
    tokio::time::advance(LONGEST_WAIT * 2 - Duration::from_millis(1)).await;
    work.repaired(1, &one);
    assert_eq!(work.repaired[&1].wait, LONGEST_WAIT);
    tokio::time::advance(LONGEST_WAIT * 2).await;
    work.repaired(1, &one);
    assert_eq!(work.repaired[&1].wait, FIRST_WAIT * 2);
    tokio::time::advance(FIRST_WAIT * 2 - Duration::from_millis(1)).await;
    assert!(!work.may_repair(1, &one));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(work.may_repair(1, &one));
    work.repaired(1, &other);
    assert_eq!(work.repaired[&1].wait, FIRST_WAIT * 2);
    (0..MOST as i64 + 2).for_each(|key| work.repaired(key, &one));
    assert!(work.repaired.len() <= MOST);
}

#[tokio::test(start_paused = true)]
async fn the_forest_remembers_what_is_stored() {
    let scene = Scene::new(World::default());
    let context = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: 1, caller: None };
    let text = "It was a bright cold day in April, and the clocks were striking thirteen when he came home at last.";
    let body = format!("{}\n{}\n", json!({"index": {"_id": "a"}}), json!({"content": text}));
    let write = Write::Bulk { index: Some("news-1".into()) };
    let stamped = scene.engine.parse_and_stamp(body.into(), write, context).await.unwrap();
    let (_, placed) = stamped.into_parts();
    let root = placed.first_root().unwrap();
    scene.engine.settle(placed, Resolution::Status(200), Millis(0)).await.unwrap();
    let firsts = async || scene.engine.forests().firsts("f", vec![root]).await.unwrap();
    assert_eq!(firsts().await, [DocumentHash::of_byte(0, "a")]);
    let key = root.0.0.cast_signed();
    scene.world.lock().put("wire", "b", (key, Some(true), 10));
    // Notes are taken from the first look on.
    for expected in [DocumentHash::of("wire", "b"), DocumentHash::VACANT] {
        scene.work(Duration::from_secs(1)).await;
        scene.engine.note_unsure_firsts("f", std::iter::once(root));
        scene.work(LONG).await;
        assert_eq!(firsts().await, [expected]);
        scene.world.lock().documents.clear();
    }
}

#[derive(Debug, Clone)]
struct Document {
    index: usize,
    key: i64,
    first: Option<bool>,
    arrival: i64,
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    let first = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    let one = (0..INDICES.len(), -3..4_i64, first, 0..5_i64);
    let one = one.prop_map(|(index, key, first, arrival)| Document { index, key, first, arrival });
    prop::collection::vec(one, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Each group whose documents have the field, at least one of them, has one first document; a single one that was
    /// there stays, of several the earliest does, of none the earliest becomes it; then nothing is written any more.
    #[test]
    fn each_group_has_one_first_document(all in documents()) {
        let mut world = World::default();
        for (at, Document { index, key, first, arrival }) in all.iter().enumerate() {
            world.put(INDICES[*index], &format!("{at:02}"), (*key, *first, *arrival));
        }
        let before = world.documents.clone();
        let scene = Scene::new(world);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(scene.work(LONG));
        let written = scene.world.lock().written;
        runtime.block_on(scene.work(LONG));
        let world = scene.world.lock();
        prop_assert_eq!(world.written, written);
        for (key, firsts) in world.firsts() {
            let group = before.iter().filter(|(_, of)| of.key == key);
            let is_flagged = group.clone().any(|(_, of)| of.first.is_some());
            let had: Vec<_> = group.clone().filter(|(_, of)| of.first == Some(true)).collect();
            let of = if had.is_empty() { group.collect::<Vec<_>>() } else { had };
            let best = of.iter().min_by_key(|((index, id), of)| (of.arrival, index.clone(), id.clone()));
            let expected: Vec<&str> = best.iter().filter(|_| is_flagged).map(|((_, id), _)| &**id).collect();
            prop_assert_eq!(firsts, expected, "{}", key);
        }
    }
}
