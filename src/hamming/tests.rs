use super::*;
use crate::hash::{mix32, splitmix64};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What the index must do, in the plainest way: a list that is read from end to end.
#[derive(Default)]
struct Naive(BTreeMap<u32, u64>);

impl Naive {
    fn near(&self, query: u64, k: u32) -> Vec<(u32, u64, u32)> {
        let all = self
            .0
            .iter()
            .map(|(&id, &code)| (id, code, (code ^ query).count_ones()));
        all.filter(|&(_, _, distance)| distance <= k).collect()
    }
}

fn near(index: &HammingIndex, query: u64) -> Vec<(u32, u64, u32)> {
    let mut found = Vec::new();
    index.near(Fingerprint(query), |id, fingerprint, distance| {
        found.push((id.0, fingerprint.0, distance.0));
    });
    // Not deduplicated: a node that is visited twice must be seen by the comparison.
    found.sort_unstable();
    found
}

fn index(k: u32) -> HammingIndex {
    keyed(k, HashKey::FIXED)
}

fn keyed(k: u32, key: HashKey) -> HammingIndex {
    HammingIndex::new(Distance(k), key).unwrap()
}

fn assert_same(index: &HammingIndex, naive: &Naive, query: u64) {
    assert_eq!(
        near(index, query),
        naive.near(query, index.k),
        "near {query:016x}, k = {}",
        index.k
    );
    let held = index
        .find(Fingerprint(query))
        .and_then(|id| naive.0.get(&id.0));
    assert_eq!(
        held.copied(),
        naive.0.values().find(|&&code| code == query).copied()
    );
}

/// Flips `flips` bits of a code, the same ones for the same seed.
fn flipped(code: u64, flips: u32, seed: u64) -> u64 {
    let mut code = code;
    let mut seed = seed;
    for _ in 0..flips {
        seed = splitmix64(seed);
        code ^= 1 << (seed % 64);
    }
    code
}

/// Distributions that hurt: spread, clusters of near codes, one half shared by all, few bits in use.
fn code() -> impl Strategy<Value = u64> {
    let centre = (0..5_u64).prop_map(splitmix64);
    prop_oneof![
        1 => any::<u64>(),
        4 => (centre, 0..=9_u32, any::<u64>()).prop_map(|(code, flips, seed)| flipped(code, flips, seed)),
        2 => (0..500_u64).prop_map(|low| 0xdead_beef_0000_0000 | low),
        2 => (0..500_u64).prop_map(|high| (high << 32) | 0x1234_5678),
        1 => (0..64_u32).prop_map(|bit| 1 << bit),
        1 => prop_oneof![Just(0), Just(u64::MAX)],
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32, u64),
    /// Removes what is stored under this number, or tries to.
    Remove(u32),
    /// Tries to remove another fingerprint than the one that is stored.
    RemoveWrong(u32, u64),
    Near(u64),
}

fn step(ids: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..ids, code()).prop_map(|(id, code)| Step::Insert(id, code)),
        3 => (0..ids).prop_map(Step::Remove),
        1 => (0..ids, code()).prop_map(|(id, code)| Step::RemoveWrong(id, code)),
        2 => code().prop_map(Step::Near),
    ]
}

fn run(index: &mut HammingIndex, naive: &mut Naive, step: &Step) {
    match *step {
        Step::Insert(id, code) => {
            let free = !naive.0.contains_key(&id);
            assert_eq!(index.insert(Fingerprint(code), NodeId(id)), free);
            naive.0.entry(id).or_insert(code);
        }
        Step::Remove(id) => {
            let held = naive.0.remove(&id);
            assert_eq!(index.fingerprint(NodeId(id)).map(|f| f.0), held);
            assert_eq!(
                index.remove(Fingerprint(held.unwrap_or(7)), NodeId(id)),
                held.is_some()
            );
        }
        Step::RemoveWrong(id, code) => {
            if naive.0.get(&id) != Some(&code) {
                assert!(!index.remove(Fingerprint(code), NodeId(id)));
            }
        }
        Step::Near(query) => assert_same(index, naive, query),
    }
    assert_eq!(index.len(), naive.0.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn agrees_with_a_scan_for_every_k(
        k in 0..=16_u32,
        tables in any::<bool>(),
        secret in any::<(u64, u64)>(),
        steps in prop::collection::vec(step(400), 1..1500),
    ) {
        let mut index = keyed(k, HashKey::new(secret.0, secret.1));
        if tables && k <= 7 {
            // A small index is scanned; here the tables must answer.
            index.probes = 0;
        }
        let mut naive = Naive::default();
        for step in &steps {
            run(&mut index, &mut naive, step);
        }
        let stored: Vec<u64> = naive.0.values().copied().take(60).collect();
        for code in stored {
            assert_same(&index, &naive, code);
        }
    }
}

/// All of these share a high half with thousands; the low halves are what `low` makes of a counter.
fn shared_half(k: u32, low: impl Fn(u64) -> u64) {
    let mut index = index(k);
    index.probes = 0;
    let mut naive = Naive::default();
    for i in 0..6000_u32 {
        let code = (0xfeed << 32) | (low(u64::from(i)) & 0xffff_ffff);
        // And the mirror image, so that both tables have an overflow map.
        let code = if i % 2 == 0 {
            code
        } else {
            code.rotate_left(32)
        };
        run(&mut index, &mut naive, &Step::Insert(i, code));
    }
    let check = |index: &HammingIndex, naive: &Naive| {
        for i in 0..40 {
            let code = (0xfeed << 32) | (low(i) & 0xffff_ffff);
            for flips in 0..=k + 1 {
                assert_same(index, naive, flipped(code, flips, i));
                assert_same(index, naive, flipped(code.rotate_left(32), flips, i));
            }
        }
    };
    check(&index, &naive);
    for i in 0..6000_u32 {
        if i % 16 != 0 {
            run(&mut index, &mut naive, &Step::Remove(i));
        }
    }
    check(&index, &naive);
    let full = index.memory_bytes();
    for i in 0..6000 {
        run(&mut index, &mut naive, &Step::Remove(i));
    }
    assert!(index.is_empty());
    assert!(index.memory_bytes() < full);
    assert_eq!(near(&index, 0xfeed << 32), []);
}

#[test]
fn many_nodes_of_one_half_are_searched_exactly() {
    for k in [0, 1, 2, 3, 5] {
        shared_half(k, |i| i);
        shared_half(k, splitmix64);
        shared_half(k, |i| i / 40);
    }
}

#[test]
fn grows_and_shrinks_through_many_shards() {
    let mut index = index(3);
    let mut naive = Naive::default();
    for i in 0..40_000_u32 {
        run(
            &mut index,
            &mut naive,
            &Step::Insert(i, splitmix64(u64::from(i))),
        );
    }
    for i in 0..200 {
        assert_same(
            &index,
            &naive,
            flipped(splitmix64(i * 97), (i % 5) as u32, i),
        );
    }
    for i in 0..39_000 {
        run(&mut index, &mut naive, &Step::Remove(i));
    }
    for i in 0..200 {
        assert_same(
            &index,
            &naive,
            flipped(splitmix64(38_900 + i), (i % 5) as u32, i),
        );
    }
}

/// The value that [`mix32`] makes this of.
fn unmixed(mut x: u32) -> u32 {
    let inverse = |factor: u32| {
        (0..5).fold(factor, |i, _| {
            i.wrapping_mul(2u32.wrapping_sub(factor.wrapping_mul(i)))
        })
    };
    x ^= x >> 16;
    x = x.wrapping_mul(inverse(0x846c_a68b));
    x ^= x >> 15 ^ x >> 30;
    x = x.wrapping_mul(inverse(0x7feb_352d));
    x ^ x >> 16
}

/// The mixer is public. Without a secret all of these would stand in one heap of one shard, or of one overflow map.
#[test]
fn crafted_fingerprints_cost_what_others_cost() {
    assert_eq!(mix32(unmixed(0x1234_5678)), 0x1234_5678);
    let cost = |code: &dyn Fn(u32) -> u64, key| {
        crate::steps::count(|| {
            let mut index = keyed(3, key);
            index.probes = 0;
            for i in 0..4_000 {
                index.insert(Fingerprint(code(i)), NodeId(i));
            }
            for i in 0..4_000 {
                index.near(Fingerprint(code(i) ^ 1 << (i % 64)), |_, _, _| ());
            }
            for i in 0..4_000 {
                index.remove(Fingerprint(code(i)), NodeId(i));
            }
        })
    };
    let random = |i: u32| splitmix64(u64::from(i));
    let heap = |i: u32| u64::from(unmixed(i)) << 32 | random(i) & 0xffff_ffff;
    let other_heap = |i: u32| heap(i).rotate_left(32);
    for key in [
        HashKey::FIXED,
        HashKey::new(1 << 40 | 3, 9),
        HashKey::FIXED.derived(8),
    ] {
        let usual = cost(&random, key);
        for crafted in [cost(&heap, key), cost(&other_heap, key)] {
            assert!(crafted < 2 * usual, "{crafted} steps, for others {usual}");
        }
    }
}

/// What no secret helps against: all share a half, so one look-up meets them all. The overflow map bounds it.
#[test]
fn a_shared_half_costs_no_more_than_all_codes_within_the_distance() {
    let most = ball::size(3) + 32 * ball::size(2);
    let mut index = index(3);
    index.probes = 0;
    // The halves around a query that a look-up goes through, each with as many nodes as it takes to be dearest.
    let mut id = 0;
    for mask in (0..=1).flat_map(ball::masks) {
        let nodes = 4 * ball::size(3 - mask.count_ones()) + 100;
        for _ in 0..nodes {
            let code = u64::from(mask) << 32 | splitmix64(u64::from(id)) & 0xffff_ffff;
            index.insert(Fingerprint(code), NodeId(id));
            id += 1;
        }
    }
    let cost = crate::steps::count(|| index.near(Fingerprint(0), |_, _, _| ()));
    assert!(cost as u64 <= most + 1_000, "{cost} steps for {id} nodes");
    assert!(
        cost as u64 > most / 2,
        "{cost} steps: the test misses the case"
    );
}

#[test]
fn keeps_within_64_bytes_a_node() {
    for (name, code) in [
        ("uniform", (|i| splitmix64(u64::from(i))) as fn(u32) -> u64),
        ("clusters", |i| {
            flipped(splitmix64(u64::from(i / 30)), 1 + i % 3, u64::from(i))
        }),
    ] {
        let mut index = index(3);
        let nodes = 300_000_u32;
        for i in 0..nodes {
            index.insert(Fingerprint(code(i)), NodeId(i));
        }
        let each = index.memory_bytes() / nodes as usize;
        assert!(each <= 64, "{name}: {each} bytes a node");
    }
}

#[test]
fn refuses_a_distance_out_of_range() {
    assert!(HammingIndex::new(Distance(16), HashKey::FIXED).is_ok());
    let error = HammingIndex::new(Distance(17), HashKey::FIXED).unwrap_err();
    assert_eq!(error, HammingError::DistanceOutOfRange(17));
    assert_eq!(
        error.to_string(),
        "distance k = 17 is out of range: choose one from 0 to 16"
    );
}

#[test]
fn refuses_a_number_it_cannot_hold() {
    let mut index = index(3);
    assert!(!index.insert(Fingerprint(1), NodeId(u32::MAX)));
    assert!(!index.insert(Fingerprint(1), NodeId(u32::MAX - 1)));
    assert!(!index.remove(Fingerprint(1), NodeId(u32::MAX)));
    assert_eq!(index.fingerprint(NodeId(u32::MAX)), None);
    assert!(index.is_empty());
}
