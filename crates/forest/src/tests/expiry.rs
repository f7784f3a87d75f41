//! What it costs when much of a forest expires: counted, so that no clock decides.

use spinney_text::hash::splitmix64;
use spinney_text::work_counter;

use super::*;

/// What 5 ms of work are in steps: see [`crate::steps`].
const FIVE_MS: usize = 180_000;

/// As long as it takes for 65,536 ticks of 4 ms.
const WINDOW: i64 = 4 << 16;

/// Places a document with these fingerprints, which takes a node for each.
fn place_all(forest: &mut Forest, fingerprints: &[Fingerprint], at: Option<i64>) -> Placement {
    let query = FeatureQuery {
        fingerprints,
        more: &[],
        whole: fingerprints[fingerprints.len() - 1],
        known_by: &[],
        proof: &(),
        tokens: &[],
        learned: Default::default(),
        take: fingerprints.len(),
        known_by_whole: false,
        earlier: None,
    };
    match at {
        Some(at) => forest.place(&query, Millis(at)),
        None => forest.place_provisionally(&query, None),
    }
}

/// What each placement and each turn of the sweep costs while so much of a forest expires at once.
fn longest(k: u32, percent: i64, is_dated: bool) -> usize {
    const NODES: i64 = 12_000;
    let mut forest: Forest = forest_of(k, Some(Millis(WINDOW)));
    let place = |forest: &mut Forest, number: i64, at: i64| {
        // Every third one is a leaf of one large tree; and of the others many have many documents.
        let own = Fingerprint(splitmix64(number as u64));
        let fingerprints = [Fingerprint(77), own];
        let fingerprints = &fingerprints[usize::from(number % 3 != 0)..];
        let mut root = None;
        let steps = work_counter::count(|| {
            let placed = place_all(forest, fingerprints, Some(at).filter(|_| !is_dated));
            if is_dated {
                forest.arrive(&placed.rollback, Millis(at));
            }
            forest.settle(&placed.rollback);
            root = Some(placed.root);
        });
        let mut tally = TreeTally::of_founder();
        tally.documents = 64;
        let root = root.unwrap();
        forest.apply(&Change::Count { root, tally });
        steps
    };
    for number in 0..NODES {
        place(&mut forest, number, number * WINDOW / NODES);
    }
    assert_eq!(forest.stats().nodes, NODES as usize + 1);
    let now = WINDOW + WINDOW * percent / 100;
    let mut longest = 0;
    for number in 0..500 {
        let at = now + number;
        longest = longest.max(place(&mut forest, NODES + number, at));
        if number % 100 == 0 {
            let steps = work_counter::count(|| assert!(forest.expire(Millis(at), 100) <= 100));
            longest = longest.max(steps);
        }
    }
    let stats = forest.stats();
    let expired = NODES * percent / 100;
    assert!(stats.expired_total.abs_diff(expired as u64) <= 400, "{stats:?}");
    // As time goes on some more die with each of them.
    assert!(stats.dead_nodes < 100, "{k}, {percent}: {stats:?}");
    longest
}

/// All of them are in one shard, and each is moved when the table becomes smaller: that is the most there is to do.
#[test]
fn a_placement_takes_less_than_5_ms_of_work_while_much_expires() {
    for k in [0, 3] {
        for percent in [10, 50, 100] {
            for is_dated in [false, true] {
                let longest = longest(k, percent, is_dated);
                let of = format!("k = {k}, {percent} of 100 expire, by dates: {is_dated}");
                assert!(longest < FIVE_MS / 3, "{longest} steps, {of}");
            }
        }
    }
}

/// A single dead node among many is looked for little by little.
#[test]
fn one_dead_node_costs_no_round_through_the_table() {
    for k in [0, 3] {
        let mut forest: Forest = forest_of(k, Some(Millis(100)));
        for number in 0..30_000 {
            place(&mut forest, splitmix64(number), if number == 0 { 0 } else { 50 });
        }
        let mut gone = forest.expire(Millis(101), 0);
        assert_eq!((gone, forest.stats().dead_nodes), (0, 1));
        let round = forest.index.round();
        let mut calls = 0;
        while gone == 0 {
            let steps = work_counter::count(|| gone = forest.expire(Millis(101), 5));
            // And finding the place to go on from, for each five of them.
            assert!(steps < 4 * 1_024, "{steps} steps, k = {k}");
            calls += 1;
            assert!(calls <= round / 1_024 + 1, "{calls} calls, k = {k}");
        }
        assert_eq!((gone, forest.stats().dead_nodes), (1, 0));
        // With more to remove there is more to look at.
        forest.expire(Millis(151), 0);
        let budget = 100;
        let steps = work_counter::count(|| gone = forest.expire(Millis(151), budget));
        assert_eq!(gone, budget);
        assert!(steps < 96 * 2 * budget, "{steps} steps, k = {k}");
    }
}

/// The clock alone is nothing to keep: it goes with the next change, or when a node dies of it, which one does on time
/// however often the clock went on.
#[test]
fn a_forest_to_which_nothing_happens_records_nothing() {
    let step = WINDOW >> 16;
    let mut forest: Forest = forest_of(0, Some(Millis(WINDOW)));
    let mut copy: Forest = forest_of(0, Some(Millis(WINDOW)));
    forest.record();
    let idle = |forest: &mut Forest, copy: &mut Forest, times: std::ops::Range<i64>| {
        let mut died = 0;
        for at in times {
            let before = forest.stats().expired_total;
            forest.expire(Millis(at), 100);
            let changes = forest.take_changes();
            assert!(changes.is_empty() || forest.stats().expired_total > before, "{at}: {changes:?}");
            changes.iter().for_each(|change| assert!(copy.apply(change)));
            assert_eq!(copy.stats().nodes, forest.stats().nodes);
            died += forest.stats().expired_total - before;
        }
        died
    };
    for (number, from, died) in [(1, 1_000, 0), (2, 1_001, 0), (3, 3_000, 0), (4, 3_000 + WINDOW - step, 2)] {
        assert_eq!(idle(&mut forest, &mut copy, from - 900..from), died);
        let placed = place_all(&mut forest, &[Fingerprint(number)], Some(from));
        forest.settle(&placed.rollback);
        for change in forest.take_changes() {
            copy.apply(&change);
        }
        assert_eq!(copy.clock(), Millis(from));
        assert_eq!(format!("{:?}", copy.nodes()), format!("{:?}", forest.nodes()));
    }
    let last = 3_000 + WINDOW - step;
    assert_eq!(idle(&mut forest, &mut copy, last..last + WINDOW + step), 2);
    assert_eq!(forest.stats().nodes, 0);
}
