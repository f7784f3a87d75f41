//! Many writers at once.

use std::path::Path;
use std::sync::Barrier;

use super::*;
use crate::config::{OnFailure, OnUnreadable, Storage};
use crate::forest::Change;
use crate::forest::local::StateChange;
use crate::store::{DataDir, Durability, Store, StoredRecord};

const PRODUCERS: u64 = 8;
const BULKS: u64 = 6;
const BULK: u64 = 100;

/// A document that brings its own fingerprint: few others have it, and many are within 3 bits of it, of other producers
/// too, while some of the same story are farther away.
fn document(producer: u64, n: u64) -> (u64, String) {
    let number = n * PRODUCERS + producer;
    let story = crate::hash::splitmix64(number % 150);
    let mut fingerprint = story;
    for turn in 0..1 + number % 2 {
        fingerprint ^= 1 << (crate::hash::splitmix64(number * 3 + turn) % 64);
    }
    let source = json!({"print": format!("{fingerprint:016x}")});
    (fingerprint, index(&number.to_string(), &source))
}

fn route_of_prints() -> Route {
    route(json!({"method": "field:print", "k": 3, "window": "none"}))
}

/// Fingerprints in the order in which the journal says that they came, each once.
fn order(dir: &Path) -> Vec<u64> {
    let data_dir = DataDir::lock(dir).unwrap();
    let identity = data_dir.forests().unwrap().remove(0);
    let mut replay = Store::open(&data_dir, &identity, Durability::None).unwrap();
    let mut order = Vec::new();
    while let Some(record) = replay.next().unwrap() {
        let StoredRecord::Batch { mut payload, .. } = record else {
            continue;
        };
        while let Some(change) = StateChange::<()>::read(&mut payload) {
            if let StateChange::Tree(Change::AddRoot { fingerprint, .. } | Change::AddLeaf { fingerprint, .. }) = change
            {
                order.push(fingerprint.0);
            }
        }
    }
    order
}

/// The root that each document got, by its fingerprint.
fn roots(lines: &[Value]) -> impl Iterator<Item = (u64, String)> {
    let sources = lines.iter().skip(1).step_by(2);
    sources.map(|source| {
        let print = source["print"].as_str().unwrap();
        let root = source["cluster_root"].as_str().unwrap();
        (u64::from_str_radix(print, 16).unwrap(), root.to_owned())
    })
}

#[test]
fn eight_producers_get_what_some_order_would_have_given() {
    let dir = std::env::temp_dir().join(format!("spinney-producers-{}", std::process::id()));
    let storage = Storage {
        data_dir: dir.clone(),
        durability: Durability::None,
        on_failure: OnFailure::Refuse,
        on_unreadable: OnUnreadable::Refuse,
    };
    let routes = [route_of_prints()];
    let stored = Engine::stored(&routes, "cluster_", 2, HashKey::FIXED, Some(&storage));
    let stored = Arc::new(stored.unwrap());
    let gate = Barrier::new(PRODUCERS as usize);
    let (engine, gate) = (&stored, &gate);
    let given: Vec<(u64, String)> = std::thread::scope(|scope| {
        let produce = |producer: u64| {
            move || {
                gate.wait();
                let mut given = Vec::new();
                for at in 0..BULKS {
                    let numbers = at * BULK..(at + 1) * BULK;
                    let body: String = numbers.map(|n| document(producer, n).1).collect();
                    let (lines, placed) = bulk_of_writer(engine, &body, 1_000);
                    given.extend(roots(&lines));
                    let accepted = (0..BULK).map(|_| json!({"index": {"status": 201}}));
                    let accepted = answered(accepted.collect());
                    wait(engine.settle(placed, accepted, Millis(1_000))).unwrap();
                }
                given
            }
        };
        let producers: Vec<_> = (0..PRODUCERS).map(|producer| scope.spawn(produce(producer))).collect();
        let given = producers.into_iter().map(|given| given.join().unwrap());
        given.flatten().collect()
    });
    engine.forests().close();
    drop(stored);

    // The same documents by one producer, in the order in which the forest has taken them.
    let order = order(&dir);
    std::fs::remove_dir_all(&dir).unwrap();
    let alone = super::engine(&routes);
    let mut expected = std::collections::BTreeMap::new();
    for fingerprint in order {
        let source = json!({"print": format!("{fingerprint:016x}")});
        let (lines, placed) = bulk_of_writer(&alone, &index("1", &source), 1_000);
        expected.extend(roots(&lines));
        let accepted = answered(json!([{"index": {"status": 201}}]));
        wait(alone.settle(placed, accepted, Millis(1_000))).unwrap();
    }
    let trees: std::collections::BTreeSet<_> = expected.values().collect();
    assert!(trees.len() < expected.len() / 4, "few join: {}", trees.len());
    for (fingerprint, root) in given {
        assert_eq!(expected.get(&fingerprint), Some(&root), "{fingerprint:016x}");
    }
}
