//! The limit of memory.

use super::*;

#[test]
fn the_oldest_go_first_where_there_is_no_room() {
    let mut forest = forest_of::<()>(0, NEVER);
    let spread = |n: u64| Fingerprint(spinney_text::hash::mix64(n));
    forest.set_memory_limit(400_000);
    for n in 0..20_000 {
        place(&mut forest, spread(n).0, n as i64);
    }
    let stats = forest.stats();
    assert!((2_000..=8_000).contains(&stats.nodes), "{stats:?}");
    assert!(stats.memory_bytes <= 1_200_000, "{stats:?}");
    assert_eq!(stats.nodes + stats.evicted_total as usize, 20_000);
    // In their order: what is there came last.
    let oldest = 20_000 - stats.nodes as u64;
    for n in 0..20_000 {
        let stays = forest.root_of(spread(n)).is_some();
        assert_eq!(stays, n >= oldest, "{n} of those from {oldest}");
    }
    // More room: nothing goes any more.
    forest.set_memory_limit(usize::MAX);
    place(&mut forest, spread(9_999).0, 9_999);
    assert_eq!(forest.stats().nodes, stats.nodes + 1);
}
