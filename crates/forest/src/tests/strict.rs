//! The placement rules with one fingerprint and no proof: winners, window, withdrawal.

use super::*;

#[test]
fn joins_by_a_sibling_and_not_only_by_the_root() {
    let mut forest = forest(NEVER);
    assert_eq!(place(&mut forest, 0, 1).decision, Decision::NewRoot);
    let leaf = place(&mut forest, 0b111, 2);
    assert_eq!((leaf.root, leaf.decision), (root(0), Decision::Joined { candidates: 1 }));
    // Six bits from the root, three from the leaf.
    assert_eq!(place(&mut forest, 0b11_1111, 3).root, root(0));
    assert_eq!(place(&mut forest, 0b11_1111 | 0b1111 << 10, 4).root, root(0b11_1111 | 0b1111 << 10));
    assert_eq!(forest.tree(root(0)).unwrap().children, 2);
    assert_eq!(forest.tree(root(0b111)), None);
}

#[test]
fn the_same_document_keeps_its_root_and_its_date() {
    let mut forest = forest(NEVER);
    place(&mut forest, 0, 10);
    let first = place(&mut forest, 1, 20);
    let again = place(&mut forest, 1, 30);
    assert_eq!(again.decision, Decision::Refreshed);
    assert_eq!((again.root, again.arrived), (first.root, None));
    // It founded its tree.
    assert_eq!(place(&mut forest, 0, 30).arrived, Some(Millis(10)));
    assert_eq!(rows(&forest), [(1, 0, 30), (0, 0, 30)]);
    let tree = forest.tree(root(0)).unwrap();
    assert_eq!((tree.added, tree.arrival), (Millis(10), Millis(30)));
}

/// Two roots six apart; what lies three from both contests them.
const LEFT: u64 = 0;
const RIGHT: u64 = 0b11_1111;
const BETWEEN: u64 = 0b00_0111;

#[test]
fn most_children_win() {
    let mut forest = forest(NEVER);
    place(&mut forest, LEFT, 1);
    place(&mut forest, RIGHT, 2);
    place(&mut forest, RIGHT | 1 << 20, 3);
    let between = place(&mut forest, BETWEEN, 4);
    assert_eq!((between.root, between.decision), (root(RIGHT), Decision::Joined { candidates: 2 }));
    // The losing tree stays as it was.
    assert_eq!(forest.tree(root(LEFT)).unwrap().arrival, Millis(1));
    assert_eq!(forest.root_of(Fingerprint(LEFT)), Some(root(LEFT)));
}

#[test]
fn then_the_earliest_added_wins() {
    let mut forest = forest(NEVER);
    place(&mut forest, RIGHT, 1);
    place(&mut forest, LEFT, 2);
    place(&mut forest, LEFT, 3);
    assert_eq!(place(&mut forest, BETWEEN, 4).root, root(RIGHT));
}

#[test]
fn then_the_smaller_fingerprint_wins() {
    let mut forest = forest(NEVER);
    place(&mut forest, RIGHT, 1);
    place(&mut forest, LEFT, 1);
    assert_eq!(place(&mut forest, BETWEEN, 1).root, root(LEFT));
}

#[test]
fn a_node_lives_as_long_as_the_window_and_no_longer() {
    let mut forest = forest(Some(Millis(100)));
    place(&mut forest, 0, 1_000);
    assert_eq!(place(&mut forest, 1, 1_100).root, root(0));
    // Both were refreshed at 1,100.
    assert_eq!(place(&mut forest, 2, 1_200).root, root(0));
    assert_eq!(place(&mut forest, 4, 1_301).root, root(4));
    assert_eq!(forest.root_of(Fingerprint(0)), None);
}

#[test]
fn only_living_children_count_in_a_contest() {
    let mut forest = forest(Some(Millis(100)));
    place(&mut forest, LEFT, 0);
    for bit in 20..40 {
        place(&mut forest, LEFT | 1 << bit, 0);
    }
    place(&mut forest, LEFT, 90);
    place(&mut forest, RIGHT, 91);
    place(&mut forest, RIGHT | 1 << 20, 92);
    // At 150 the twenty leaves of the left have expired. Most of them are not removed yet.
    let between = place(&mut forest, BETWEEN, 150);
    let dead = forest.stats().dead_nodes;
    assert_eq!(between.root, root(RIGHT));
    assert_eq!(forest.tree(root(LEFT)).unwrap().children, 0);
    assert_eq!(forest.expire(Millis(150), usize::MAX), dead);
    assert_eq!(rows(&forest).len(), 4);
}

#[test]
fn the_clock_never_goes_back() {
    let mut forest = forest(Some(Millis(100)));
    place(&mut forest, 0, 1_000);
    // A document that is dated long ago arrives at the clock, and is not born expired.
    let old = place(&mut forest, 1, -5_000);
    assert_eq!((old.root, old.arrived), (root(0), Some(Millis(1_000))));
    assert_eq!(rows(&forest), [(1, 0, 1_000), (0, 0, 1_000)]);
    assert_eq!(forest.expire(Millis(0), 10), 0);
    assert_eq!(forest.clock(), Millis(1_000));
}

#[test]
fn the_ends_of_time_are_times() {
    let mut forest = forest(Some(Millis(i64::MAX)));
    place(&mut forest, 0, i64::MIN);
    assert_eq!(place(&mut forest, 1, i64::MAX).root, root(1));
    assert_eq!(place(&mut forest, 2, i64::MIN).root, root(1));
    assert_eq!(forest.clock(), Millis(i64::MAX));
}

#[test]
fn a_jump_of_the_clock_is_cleared_up_little_by_little() {
    let mut forest = forest(Some(Millis(100)));
    for i in 0..1_000_u64 {
        place(&mut forest, i << 32, 0);
    }
    let mut before = 1_000;
    for i in 0..100_u64 {
        place(&mut forest, i << 20, 1_000_000);
        let stats = forest.stats();
        assert!(stats.nodes <= 100, "all that was there is dead at once");
        assert!(before <= stats.dead_nodes + 96 && stats.dead_nodes <= before);
        before = stats.dead_nodes;
    }
    assert!(rows(&forest).len() <= 100);
    assert_eq!(forest.expire(Millis(0), 7), 7.min(before));
    forest.expire(Millis(0), usize::MAX);
    assert_eq!(forest.stats().dead_nodes, 0);
    assert_eq!(forest.stats().expired_total, 1_000);
}

#[test]
fn an_expired_root_gives_way_before_its_leaves_are_gone() {
    let mut forest = forest(Some(Millis(100)));
    place(&mut forest, 0, 0);
    for bit in 0..40 {
        place(&mut forest, 1 << bit, 0);
    }
    let again = place(&mut forest, 0, 1_000);
    assert_eq!((again.decision, again.arrived), (Decision::NewRoot, Some(Millis(1_000))));
    assert_eq!(forest.tree(root(0)).unwrap().children, 0);
    assert_eq!(place(&mut forest, 1, 1_000).root, root(0));
    assert_eq!(rows(&forest), [(1, 0, 1_000), (0, 0, 1_000)]);
    forest.expire(Millis(1_000), usize::MAX);
    assert_eq!(rows(&forest), [(1, 0, 1_000), (0, 0, 1_000)]);
    assert_eq!(forest.stats().nodes, 2);
    assert_eq!(forest.stats().expired_total, 41);
}

#[test]
fn withdraws_what_a_placement_made() {
    let mut forest = forest(NEVER);
    let first = place(&mut forest, 0, 1);
    let second = place(&mut forest, 1, 2);
    assert_eq!(forest.withdraw(&second.rollback), 1);
    assert_eq!(rows(&forest), [(0, 0, 2)]);
    assert_eq!(forest.withdraw(&first.rollback), 1);
    assert_eq!(rows(&forest), []);
    assert_eq!(forest.stats().withdrawn_total, 2);
}

#[test]
fn does_not_withdraw_what_somebody_else_uses() {
    let mut forest = forest(NEVER);
    let maker = place(&mut forest, 0, 1);
    let user = place(&mut forest, 0, 2);
    assert_eq!(forest.withdraw(&maker.rollback), 0);
    let leaf = place(&mut forest, 1, 3);
    assert_eq!(forest.withdraw(&user.rollback), 0, "a root with a leaf is in use");
    assert_eq!(forest.withdraw(&leaf.rollback), 2, "its last user takes it along");
    assert_eq!(rows(&forest), []);
}

#[test]
fn a_rejected_bulk_leaves_nothing_in_whatever_order_it_is_settled() {
    for shift in 0..8 {
        for back in [false, true] {
            let mut forest = forest(NEVER);
            let kept = place(&mut forest, RIGHT, 0);
            let bulk = [0, 1, 0, 3, BETWEEN, RIGHT, 1 << 40, 7];
            let rollbacks = bulk.map(|fingerprint| place(&mut forest, fingerprint, 1).rollback);
            let mut rollbacks = Vec::from(rollbacks);
            rollbacks.rotate_left(shift);
            if back {
                rollbacks.reverse();
            }
            for rollback in rollbacks {
                forest.withdraw(&rollback);
            }
            assert_eq!(rows(&forest), [(RIGHT, RIGHT, 1)]);
            assert_eq!(forest.withdraw(&kept.rollback), 1);
        }
    }
}

#[test]
fn an_expired_leaf_does_not_keep_a_root_in_use() {
    let mut forest = forest(Some(Millis(100)));
    let maker = place(&mut forest, 0, 0);
    place(&mut forest, 1, 0);
    assert_eq!(forest.withdraw(&maker.rollback), 0);
    let last = place(&mut forest, 2, 90);
    // Time goes on and nothing is removed: the first leaf is dead and still there.
    forest.expire(Millis(150), 0);
    assert_eq!(forest.withdraw(&last.rollback), 2);
    assert_eq!(rows(&forest), []);
    assert_eq!((forest.stats().nodes, forest.stats().dead_nodes), (0, 1));
    assert_eq!(forest.expire(Millis(150), 10), 1);
}

#[test]
fn a_late_rollback_does_not_touch_a_later_node() {
    let mut forest = forest(Some(Millis(100)));
    let late = place(&mut forest, 0, 0);
    // Expired and removed; the same slot and the same fingerprint again.
    forest.expire(Millis(500), usize::MAX);
    place(&mut forest, 0, 500);
    assert_eq!(forest.withdraw(&late.rollback), 0);
    assert_eq!(rows(&forest), [(0, 0, 500)]);

    // Expired, not removed, and made again by somebody else.
    let late = place(&mut forest, 0, 550);
    for bit in 10..30 {
        place(&mut forest, 1 << bit, 550);
    }
    place(&mut forest, 0, 5_000);
    assert_eq!(forest.withdraw(&late.rollback), 0);
    assert_eq!(rows(&forest), [(0, 0, 5_000)]);

    // Withdrawn, and made again by somebody else.
    let first = place(&mut forest, 1 << 50, 5_001);
    assert_eq!(forest.withdraw(&first.rollback), 1);
    let second = place(&mut forest, 1 << 50, 5_002);
    assert_eq!(second.decision, Decision::Joined { candidates: 1 });
    assert_eq!(forest.withdraw(&second.rollback), 1);
}

#[test]
fn a_full_forest_answers_without_making_nodes() {
    let mut forest = forest(Some(Millis(100)));
    forest.max_nodes = 2;
    place(&mut forest, 0, 0);
    place(&mut forest, 1, 0);
    let near = place(&mut forest, 2, 50);
    assert_eq!((near.root, near.decision), (root(0), Decision::Outside));
    let far = place(&mut forest, u64::MAX, 50);
    assert_eq!((far.root, far.decision), (root(u64::MAX), Decision::Outside));
    assert_eq!(forest.withdraw(&far.rollback), 0);
    assert_eq!(place(&mut forest, 1, 60).decision, Decision::Refreshed);
    // Room again once something expired.
    assert_eq!(place(&mut forest, u64::MAX, 200).decision, Decision::NewRoot);
    assert_eq!(rows(&forest), [(u64::MAX, u64::MAX, 200)]);
}

#[test]
fn refuses_settings_that_cannot_be() {
    let settings = |k, window| {
        let settings = Settings { k: Distance(k), window, key: HashKey::FIXED };
        Forest::<()>::new(settings).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(settings(16, Some(Millis(1))), Ok(()));
    assert_eq!(settings(17, None), Err("distance k = 17 is out of range: choose one from 0 to 16".into()));
    let error = "a window of 0 ms leaves no node alive: choose a positive one, or none";
    assert_eq!(settings(3, Some(Millis(0))), Err(error.into()));
}

#[test]
fn keeps_within_120_bytes_a_node() {
    let mut forest = forest(NEVER);
    let nodes = 200_000_u64;
    for i in 0..nodes {
        place(&mut forest, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0);
    }
    let stats = forest.stats();
    let each = stats.memory_bytes / stats.nodes;
    assert!(each <= 120, "{each} bytes a node");
}
