use spinney_text::hash::splitmix64;
use spinney_text::work_counter;

use super::super::ball;
use super::*;

fn index(k: u32, secret: HashKey) -> NearIndex {
    let mut index = NearIndex::new(k, secret);
    index.use_tables();
    index
}

fn insert(index: &mut NearIndex, code: u64) {
    let entry = Entry { root: 1, tick: 1 };
    assert!(index.insert(Fingerprint(code), entry, true).is_ok());
}

fn near(index: &NearIndex, query: u64) -> Vec<u64> {
    let mut found = Vec::new();
    index.near(Fingerprint(query), |code, _, _| found.push(code.0));
    found.sort_unstable();
    found
}

fn flipped(code: u64, flips: u32, seed: u64) -> u64 {
    (0..u64::from(flips)).fold(code, |code, i| code ^ 1 << (splitmix64(seed ^ i << 40) % 64))
}

/// All of these share a half with thousands; the other halves are what `other` makes of a counter.
fn shared_half(k: u32, nodes: u64, other: impl Fn(u64) -> u64) {
    let mut index = index(k, HashKey::FIXED);
    let mut codes: Vec<u64> = (0..nodes)
        .map(|i| (0xfeed << 32) | (other(i) & 0xffff_ffff))
        // And the mirror image, so that both tables have a crowd.
        .flat_map(|code| [code, code.rotate_left(32)])
        .collect();
    codes.sort_unstable();
    codes.dedup();
    for &code in &codes {
        insert(&mut index, code);
    }
    let check = |index: &NearIndex, codes: &[u64]| {
        for i in 0..40 {
            let code = (0xfeed << 32) | (other(i) & 0xffff_ffff);
            for flips in 0..=k + 1 {
                for query in [code, code.rotate_left(32)] {
                    let query = flipped(query, flips, i);
                    let expected = codes.iter().filter(|&code| (code ^ query).count_ones() <= k);
                    assert!(near(index, query).iter().eq(expected), "k = {k}, {query:016x}");
                }
            }
        }
    };
    check(&index, &codes);
    let (stay, go): (Vec<u64>, Vec<u64>) = codes.iter().partition(|&&code| splitmix64(code).is_multiple_of(16));
    for &code in &go {
        assert!(index.remove(Fingerprint(code)).is_some());
    }
    check(&index, &stay);
    let full = index.memory_bytes();
    // Some come back, so that a list becomes a crowd again.
    for &code in go.iter().take(1_000) {
        insert(&mut index, code);
        assert_eq!(index.get(Fingerprint(code)), Some(Entry { root: 1, tick: 1 }));
    }
    for &code in stay.iter().chain(go.iter().take(1_000)) {
        assert!(index.remove(Fingerprint(code)).is_some());
    }
    assert_eq!(index.len(), 0);
    assert!(index.memory_bytes() < full);
    assert!(near(&index, 0xfeed << 32).is_empty());
}

#[test]
fn many_nodes_of_one_half_are_searched_exactly() {
    for k in [1, 2, 3, 5] {
        shared_half(k, 3_000, |i| i);
        shared_half(k, 3_000, splitmix64);
        shared_half(k, 3_000, |i| i / 40);
    }
}

/// So many that their crowd has many maps, and becomes one again.
#[test]
fn a_very_large_crowd_is_searched_exactly() {
    shared_half(3, 40_000, splitmix64);
}

/// The inverse of the table's map is public but for the secret. Without it all of these would stand in one bucket.
#[test]
fn crafted_fingerprints_cost_what_others_cost() {
    let cost = |code: &dyn Fn(u32) -> u64, key: HashKey| {
        work_counter::count(|| {
            let mut index = index(3, key);
            for i in 0..4_000 {
                insert(&mut index, code(i));
            }
            for i in 0..4_000 {
                index.near(Fingerprint(code(i) ^ 1 << (i % 64)), |_, _, _| ());
            }
            for i in 0..4_000 {
                assert!(index.remove(Fingerprint(code(i))).is_some());
            }
        })
    };
    let random = |i: u32| splitmix64(u64::from(i));
    let low = |i: u32| random(i) & 0xffff_ffff;
    // What a fixed map of bits would put together: counters in any part of the word.
    let heaps: [&dyn Fn(u32) -> u64; 4] = [
        &|i| u64::from(i) << 39 | low(i),
        &|i| u64::from(i) << 52 | low(i),
        &|i| u64::from(i).reverse_bits() | low(i),
        &|i| u64::from(i * 0x1001) << 39 | low(i),
    ];
    for key in [HashKey::FIXED, HashKey::new(1 << 40 | 3, 9), HashKey::FIXED.derived(8)] {
        let usual = cost(&random, key);
        for heap in heaps {
            for crafted in [cost(heap, key), cost(&|i| heap(i).rotate_left(32), key)] {
                assert!(crafted < 2 * usual, "{crafted} steps, for others {usual}");
            }
        }
    }
}

/// What no secret helps against: all share a half, so one look-up meets them all. The crowds bound it.
#[test]
fn a_shared_half_costs_no_more_than_all_codes_within_the_distance() {
    let most = ball::size(3) + 32 * ball::size(2);
    let mut index = index(3, HashKey::FIXED);
    // The halves around a query that a look-up goes through, each with as many nodes as it takes to be dearest.
    let mut nodes = 0;
    for mask in (0..=1).flat_map(ball::masks) {
        let crowd = 4 * ball::size(3 - mask.count_ones()) + 200;
        for _ in 0..crowd {
            insert(&mut index, u64::from(mask) << 32 | splitmix64(nodes) & 0xffff_ffff);
            nodes += 1;
        }
    }
    let cost = work_counter::count(|| index.near(Fingerprint(0), |_, _, _| ())) as u64;
    assert!(cost <= most + 2_000, "{cost} steps for {nodes} nodes");
    assert!(cost > most / 2, "{cost} steps: the test misses the case");
}

/// One word with all its shown bits, and as many nodes of each half as are not a crowd: what is dearest beside the
/// crowds.
#[test]
fn a_shared_word_costs_no_more_than_its_bucket_and_the_lists_of_nine_halves() {
    let mut index = index(3, HashKey::FIXED);
    for half in 0..128 {
        for other in 0..15 {
            insert(&mut index, (0xabc_d000 | half) << 32 | splitmix64(half << 8 | other) >> 32);
        }
    }
    let query = Fingerprint(0xabc_d005 << 32 | 99);
    let cost = work_counter::count(|| index.near(query, |_, _, _| ()));
    assert!(cost <= 52 + 31 + 9 * 16 + 10, "{cost} steps");
    assert!(cost > 100, "{cost} steps: the test misses the case");
}

#[test]
fn removing_does_not_go_through_the_nodes_of_a_half() {
    let mut index = index(3, HashKey::FIXED);
    let codes: Vec<u64> = (0..20_000).map(|i| 0xfeed << 32 | splitmix64(i) >> 32).collect();
    for &code in &codes {
        insert(&mut index, code);
    }
    let cost = work_counter::count(|| {
        for &code in &codes {
            assert!(index.remove(Fingerprint(code)).is_some());
        }
    });
    assert!(cost < 20_000 * 60, "{cost} steps");
}

fn takes_45_bytes_a_node(nodes: u64) {
    let uniform = splitmix64 as fn(u64) -> u64;
    let clusters = |i: u64| flipped(splitmix64(i / 30), 1 + (i % 3) as u32, i);
    for (name, code) in [("uniform", uniform), ("clusters", clusters)] {
        let mut index = index(3, HashKey::FIXED);
        for i in 0..nodes {
            insert(&mut index, code(i));
        }
        let each = index.memory_bytes() as f64 / index.len() as f64;
        assert!(each <= 45.0, "{name}: {each} bytes a node");
    }
}

#[test]
fn keeps_within_45_bytes_a_node() {
    takes_45_bytes_a_node(150_000);
}

fn random(i: u64) -> u64 {
    splitmix64(i)
}

/// Two thousand words, so that most nodes are beside their buckets.
fn words(i: u64) -> u64 {
    (splitmix64(i % 2_000) << 39) | (splitmix64(i) & 0x7f_ffff_ffff)
}

/// All share a half.
fn crowd(i: u64) -> u64 {
    (0xfeed << 32) | splitmix64(i) >> 32
}

/// An insertion moves the nodes of one shard at most, whenever it comes, once there are many.
fn insertions_wait_for_one_shard(code: fn(u64) -> u64, nodes: u64) {
    let mut index = index(3, HashKey::FIXED);
    let mut cost = |i| work_counter::count(|| insert(&mut index, code(i)));
    let one_shard = (0..100_000).map(&mut cost).max().unwrap();
    assert!(one_shard < 300_000, "{one_shard} steps");
    let many_shards = (100_000..nodes).map(&mut cost).max().unwrap();
    assert!(many_shards < 6_000, "{many_shards} steps");
}

#[test]
fn no_insertion_waits_for_all_nodes() {
    insertions_wait_for_one_shard(random, 200_000);
    insertions_wait_for_one_shard(words, 150_000);
}

/// Whatever comes and goes, in whatever order: all of it costs so much for each change and each place that was swept.
fn any_sequence(name: &str, code: fn(u64) -> u64, most: usize, phases: usize) {
    const EACH: usize = 200;
    let mut index = index(3, HashKey::new(7, most as u64));
    let (mut next, mut done, mut cost, mut longest) = (0, 0, 0, 0);
    let mut random = splitmix64(most as u64);
    for phase in 0..phases {
        random = splitmix64(random);
        let len = match (phase, random % 6) {
            (0, _) | (_, 0) => most,
            (_, 1) => 0,
            (_, 2) => 1 + most / 1_000,
            (_, 3) => (random >> 8) as usize % most,
            (_, 4) => index.len() * 9 / 10,
            _ => index.len() * 11 / 10 + 1,
        }
        .min(most);
        let mut change = |steps| {
            cost += steps;
            longest = longest.max(steps);
            done += 1;
        };
        if (random >> 40).is_multiple_of(4) && len < index.len() {
            let percent = [10, 50, 100][(random >> 48) as usize % 3];
            let dead = |code: Fingerprint| splitmix64(code.0 ^ random) % 100 < percent;
            for _ in 0..=index.round() {
                change(work_counter::count(|| {
                    index.sweep(1, |code, _| !dead(code));
                }));
            }
        } else {
            let mut victims: Vec<Fingerprint> = index.iter().map(|(code, _)| code).collect();
            match random >> 32 & 3 {
                0 => victims.reverse(),
                1 => {}
                _ => victims.sort_unstable_by_key(|code| splitmix64(code.0)),
            }
            while index.len() > len {
                let code = victims.pop().unwrap();
                change(work_counter::count(|| {
                    assert!(index.remove(code).is_some());
                }));
            }
            while index.len() < len {
                next += 1;
                change(work_counter::count(|| insert(&mut index, code(next))));
            }
        }
        assert!(cost < EACH * (done + 16), "{cost} steps for {done} changes, {phase}: to {len} of {most}, {name}");
    }
    assert!(longest < 400_000, "{longest} steps at once of {most}, {name}");
}

#[test]
fn no_sequence_of_changes_costs_more_than_a_constant_each() {
    any_sequence("random", random, 10, 60);
    any_sequence("random", random, 1_000, 60);
    any_sequence("random", random, 80_001, 10);
    any_sequence("words", words, 1_000, 40);
    any_sequence("words", words, 90_000, 8);
    any_sequence("crowd", crowd, 30, 60);
    any_sequence("crowd", crowd, 40_000, 12);
}

/// The same with more nodes than the gate has time for.
mod a_million {
    use super::*;

    #[test]
    fn keeps_within_45_bytes_a_node() {
        takes_45_bytes_a_node(1_000_000);
    }

    #[test]
    fn no_insertion_waits_for_all_nodes() {
        insertions_wait_for_one_shard(random, 1_000_000);
        insertions_wait_for_one_shard(words, 300_000);
    }

    #[test]
    fn no_sequence_of_changes_costs_more_than_a_constant_each() {
        any_sequence("random", random, 1_000_000, 10);
        any_sequence("words", words, 300_000, 10);
    }
}

/// Nor does one into a crowd wait for all of the crowd.
#[test]
fn no_insertion_waits_for_a_whole_crowd() {
    let mut index = index(3, HashKey::FIXED);
    let cost = |i| work_counter::count(|| insert(&mut index, crowd(i)));
    let most = (0..100_000).map(cost).max().unwrap();
    assert!(most < 100_000, "{most} steps");
}
