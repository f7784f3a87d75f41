//! Stored documents are taken in at the time that they came, and at none that is to come.

use super::*;
use crate::engine::{Intake, StoredDocument};

const NOW: i64 = 1_000_000;
/// How far in the future a document's own date may lie.
const SKEW: i64 = 24 * 3_600_000;

#[test]
fn no_arrival_is_later_than_now_and_no_root_another_methods() {
    for (clock, latest) in [("arrival", NOW), ("field:published", NOW + SKEW)] {
        let routes = [route(json!({"clock": clock}))];
        let body = index("a", &json!({"content": LONG}));
        let (lines, _) = bulk_of_writer(&engine(&routes), &body, NOW);
        let own = lines[1]["cluster_root"].as_str().unwrap();
        for (arrival, root, seen) in [
            (latest - 1, own, Some(Millis(latest - 1))),
            (latest, own, Some(Millis(latest))),
            (latest + 1, own, Some(Millis(latest))),
            (latest, "00000000000000ff", None),
        ] {
            let engine = engine(&routes);
            let source = wait(engine.sources()).unwrap().remove(0);
            let mut recovering = engine.recover(source, Intake::Missed, Millis(NOW));
            let stored = StoredDocument {
                index: "news-1".into(),
                id: "1".into(),
                source: json!({"content": LONG, "cluster_root": root}).to_string().into(),
                arrival: Some(Millis(arrival)),
            };
            wait(recovering.add(vec![stored])).unwrap();
            let found = wait(recovering.finish()).unwrap();
            assert_eq!(
                (found.placed, found.foreign),
                match root == own {
                    true => (1, 0),
                    false => (0, 1),
                }
            );
            let clock = wait(engine.sources()).unwrap()[0].seen;
            assert_eq!(clock.filter(|at| at.0 > 0), seen, "{root}");
        }
    }
}

#[test]
fn the_first_of_a_group_is_known_again_from_the_index() {
    let engine = engine(&[route(json!({}))]);
    let (lines, _) = bulk_of_writer(&super::engine(&[route(json!({}))]), &index("a", &json!({"content": LONG})), NOW);
    let stored = |id: &str, first: bool, at: i64| StoredDocument {
        index: "news-1".into(),
        id: id.into(),
        source: json!({"content": LONG, "cluster_root": lines[1]["cluster_root"], "cluster_first": first})
            .to_string()
            .into(),
        arrival: Some(Millis(at)),
    };
    let source = wait(engine.sources()).unwrap().remove(0);
    let mut recovering = engine.recover(source, Intake::All, Millis(NOW));
    wait(recovering.add(vec![stored("a", false, NOW - 2), stored("b", true, NOW - 1)])).unwrap();
    wait(recovering.finish()).unwrap();
    let body = index("a", &json!({"content": LONG})) + &index("b", &json!({"content": LONG}));
    let (lines, ..) = bulk(&engine, &body, NOW);
    assert_eq!([&lines[1]["cluster_first"], &lines[3]["cluster_first"]], [false, true]);
}
