//! The limit of memory.

use super::*;
use crate::forest::Change;

#[test]
fn the_oldest_go_first_where_there_is_no_room() {
    let mut forest = forest(NEVER);
    let spread = |n: u64| Fingerprint(crate::hash::mix64(n));
    forest.set_memory_limit(200_000);
    forest.record();
    let mut evicted = Vec::new();
    for n in 0..5_000 {
        place(&mut forest, spread(n).0, n as i64);
        let changes = forest.take_changes().into_iter();
        evicted.extend(changes.filter_map(|change| match change {
            Change::Evict { node } => Some(node.fingerprint),
            _ => None,
        }));
    }
    let stats = forest.stats();
    assert!((1_000..=1_400).contains(&stats.nodes), "{stats:?}");
    assert!(stats.memory_bytes <= 260_000, "{stats:?}");
    assert_eq!(stats.evicted_total as usize, evicted.len());
    assert_eq!(stats.nodes + evicted.len(), 5_000);
    let in_order: Vec<Fingerprint> = (0..evicted.len() as u64).map(spread).collect();
    assert_eq!(evicted, in_order);
    // More room: nothing goes any more.
    forest.set_memory_limit(usize::MAX);
    place(&mut forest, spread(9_999).0, 9_999);
    assert_eq!(forest.stats().nodes, stats.nodes + 1);
}
