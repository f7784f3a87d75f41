use super::*;
use crate::hash::splitmix64;
use crate::steps;

fn insert(table: &mut ExactTable, code: u64) {
    let entry = Entry { root: 1, tick: 1 };
    assert_eq!(table.insert(Fingerprint(code), entry, true), Ok(None));
}

fn assert_ordered(table: &ExactTable) {
    let order = table.order();
    let mut len = 0;
    for shard in 0..table.shards.len() {
        let slots = table.shards.get(shard);
        let mut last = None;
        let mut gap = 0;
        for (at, slot) in slots.iter().enumerate() {
            if slot.is_empty() {
                gap = at + 1;
                continue;
            }
            assert_eq!(order.shard(slot.mixed), shard);
            assert!(last < Some(slot.mixed), "not in order");
            let home = order.home(slot.mixed, slots.len());
            assert!(
                gap <= home && home <= at,
                "a gap between home {home} and {at}"
            );
            last = Some(slot.mixed);
            len += 1;
        }
    }
    assert_eq!(len + table.spilled.len(), table.len);
}

#[test]
fn entries_stay_in_order_without_gaps_before_them() {
    let mut table = ExactTable::new(HashKey::new(5, 6));
    let codes: Vec<u64> = (0..400_000).map(splitmix64).collect();
    for (i, &code) in codes.iter().enumerate() {
        insert(&mut table, code);
        if i % 10_000 == 0 {
            assert_ordered(&table);
        }
    }
    for (i, &code) in codes.iter().enumerate() {
        assert!(table.remove(Fingerprint(code)).is_some());
        assert!(table.get(Fingerprint(code)).is_none());
        if i % 10_000 == 0 {
            assert_ordered(&table);
            let mut others = codes.iter().skip(i + 1);
            assert!(others.all(|&code| table.get(Fingerprint(code)).is_some()));
        }
    }
}

/// The mixer is public. Without a secret all of these would have one home.
#[test]
fn crafted_fingerprints_cost_what_others_cost() {
    let known = HashKey::FIXED.permutation();
    let cost = |code: &dyn Fn(u64) -> u64, key: HashKey| {
        steps::count(|| {
            let mut table = ExactTable::new(key);
            for i in 0..20_000 {
                insert(&mut table, code(i));
            }
            for i in 0..20_000 {
                assert!(table.get(Fingerprint(code(i))).is_some());
                assert!(table.get(Fingerprint(code(i) ^ 1 << 63)).is_none());
            }
            for i in 0..20_000 {
                assert!(table.remove(Fingerprint(code(i))).is_some());
            }
        })
    };
    for key in [
        HashKey::new(3, 9),
        HashKey::new(1 << 40 | 3, 9),
        HashKey::FIXED.derived(8),
    ] {
        let usual = cost(&splitmix64, key);
        let heaps: [&dyn Fn(u64) -> u64; 4] = [&|i| known.unmix(i), &|i| i, &|i| i << 40, &|i| {
            i.reverse_bits() >> 1
        }];
        for heap in heaps {
            let crafted = cost(heap, key);
            assert!(crafted < 2 * usual, "{crafted} steps, for others {usual}");
        }
    }
}

#[test]
fn keeps_its_memory_while_entries_come_and_go() {
    let mut table = ExactTable::new(HashKey::FIXED);
    for i in 0..1_000_000 {
        insert(&mut table, splitmix64(i));
    }
    let each = table.memory_bytes() as f64 / 1e6;
    assert!(each < 24.0, "{each} bytes an entry");
    let full = table.memory_bytes();
    for i in 0..300_000 {
        assert!(table.remove(Fingerprint(splitmix64(i))).is_some());
    }
    assert!(
        table.memory_bytes() > full * 9 / 10,
        "{} of {full}",
        table.memory_bytes()
    );
    for i in 300_000..700_000 {
        assert!(table.remove(Fingerprint(splitmix64(i))).is_some());
    }
    assert!(
        table.memory_bytes() < full * 6 / 10,
        "{} of {full}",
        table.memory_bytes()
    );
}

/// A look at an absent key ends after a few slots however full the table is.
#[test]
fn absent_keys_are_known_after_a_few_slots() {
    let mut table = ExactTable::new(HashKey::FIXED);
    for i in 0..1_000_000 {
        insert(&mut table, splitmix64(i));
    }
    let looks = 100_000;
    let cost = steps::count(|| {
        for i in 0..looks {
            assert!(table.get(Fingerprint(splitmix64(2_000_000 + i))).is_none());
        }
    });
    assert!(cost < 6 * looks as usize, "{cost} steps for {looks}");
}

/// An insertion moves the entries of one shard at most, whenever it comes, once there are many.
#[test]
fn no_insertion_waits_for_all_entries() {
    let mut table = ExactTable::new(HashKey::FIXED);
    let mut cost = |i| steps::count(|| insert(&mut table, splitmix64(i)));
    let one_shard = (0..300_000).map(&mut cost).max().unwrap();
    assert!(one_shard < ONE_SHARD * 5 / 2, "{one_shard} steps");
    let many_shards = (300_000..1_000_000).map(&mut cost).max().unwrap();
    assert!(many_shards < 1_500, "{many_shards} steps");
}

/// More of them have the last home than there is room for behind it. No client can know such values.
#[test]
fn values_that_crowd_at_the_end_find_room() {
    let mut table = ExactTable::new(HashKey::FIXED);
    let code = |i: u64| HashKey::FIXED.permutation().unmix(u64::MAX - i);
    for i in 0..100 {
        insert(&mut table, code(i));
        assert_ordered(&table);
    }
    for i in 0..100 {
        assert!(table.remove(Fingerprint(code(i))).is_some());
        assert_ordered(&table);
    }
}

/// Among many shards chance fills one before the others. Nothing of it is lost, and nothing waits for all to be moved.
#[test]
fn what_finds_no_room_is_spilled_and_found() {
    let mut table = ExactTable::new(HashKey::FIXED);
    for i in 0..400_000 {
        insert(&mut table, splitmix64(i));
    }
    assert!(table.shards.len() > 1);
    // All of them in the last places of the last shard.
    let code = |i: u64| HashKey::FIXED.permutation().unmix(u64::MAX - 1 - i);
    let crowd = 300;
    let cost = (0..crowd).map(|i| steps::count(|| insert(&mut table, code(i))));
    let most = cost.max().unwrap();
    assert!(most < 1_500, "{most} steps");
    assert!(!table.spilled.is_empty(), "all of them found room");
    assert_ordered(&table);
    let prints = || (0..crowd).map(|i| Fingerprint(code(i)));
    for (tick, print) in prints().enumerate() {
        assert!(table.get(print).is_some());
        table.get_mut(print).unwrap().tick = tick as u32;
        let entry = Entry {
            root: 2,
            tick: tick as u32,
        };
        let before = table.insert(print, entry, true).unwrap().unwrap();
        assert_eq!((before.root, before.tick), (1, tick as u32));
    }
    let all: std::collections::BTreeSet<u64> = table.iter().map(|(print, _)| print.0).collect();
    assert_eq!((all.len(), table.len()), (400_300, 400_300));
    let mut met = 0;
    for portion in 0..ExactTable::PORTIONS {
        table.portion(portion, |print, _| {
            assert!(all.contains(&print.0));
            met += 1;
        });
    }
    assert_eq!(met, 400_300);
    // A round of the sweep meets them too.
    let spilled = table.spilled.len();
    assert!(spilled > 20);
    let mut swept = 0;
    let round = table.round();
    table.sweep(round + 1, |_, entry| {
        swept += usize::from(entry.root == 2);
        entry.root != 2 || entry.tick % 2 == 0
    });
    assert!(swept >= crowd as usize, "{swept} were met");
    assert_eq!(table.len(), 400_150);
    for (tick, print) in prints().enumerate() {
        assert_eq!(table.get(print).is_some(), tick % 2 == 0);
        assert_eq!(table.remove(print).is_some(), tick % 2 == 0);
    }
    assert_eq!(table.len(), 400_000);
    assert_ordered(&table);
}

/// A shrunken table that has no room for one entry more than chance allows must not be tried again with the next removal.
#[test]
fn a_change_costs_a_constant_however_often_a_table_grows_and_shrinks() {
    let one_shard = ONE_SHARD as u64;
    for (most, secrets) in [
        (10, 64),
        (100, 64),
        (1_000, 32),
        (10_000, 8),
        (100_000, 2),
        (one_shard, 1),
        (one_shard + 1, 1),
        (1_000_000, 1),
    ] {
        for secret in 0..secrets {
            let mut table = ExactTable::new(HashKey::new(secret, most));
            let (mut first, mut next, mut changes, mut longest) = (0, 0, 0, 0);
            let mut change = |table: &mut ExactTable, to: u64| {
                let mut cost = 0;
                while table.len() as u64 != to {
                    changes += 1;
                    let steps = if to < table.len() as u64 {
                        first += 1;
                        steps::count(|| {
                            assert!(table.remove(Fingerprint(splitmix64(first))).is_some());
                        })
                    } else {
                        next += 1;
                        steps::count(|| insert(table, splitmix64(next)))
                    };
                    longest = longest.max(steps);
                    cost += steps;
                }
                cost
            };
            let mut cost =
                change(&mut table, most) + change(&mut table, 0) + change(&mut table, most);
            // Back and forth, on the way down past every threshold.
            let mut len = most;
            while len > 1 {
                cost += change(&mut table, len - len.div_ceil(8));
                cost += change(&mut table, len - len.div_ceil(16));
                cost += change(&mut table, len - len.div_ceil(8));
                len -= len.div_ceil(8);
            }
            assert!(
                cost < 128 * changes,
                "{cost} steps of {changes} changes with {most}"
            );
            assert!(longest < 8 * ONE_SHARD, "{longest} steps with {most}");
        }
    }
}

/// In the middle of a round what was swept is sparser than the rest, so the rest may find no room in a smaller table.
#[test]
fn sweeping_costs_a_constant_for_each_place_however_much_goes() {
    let one_shard = ONE_SHARD as u64;
    for (most, secrets) in [
        (10, 16),
        (1_000, 16),
        (30_000, 4),
        (one_shard, 1),
        (one_shard + 1, 1),
        (1_000_000, 1),
    ] {
        for (secret, percent) in
            (0..secrets).flat_map(|secret| [10, 50, 90, 100].map(|percent| (secret, percent)))
        {
            let mut table = ExactTable::new(HashKey::new(secret, most));
            (0..most).for_each(|number| insert(&mut table, splitmix64(number)));
            let (round, mut next) = (table.round(), most);
            let dead = |fingerprint: Fingerprint| splitmix64(fingerprint.0) % 100 < percent;
            let (mut swept, mut cost, mut longest, mut most_spilled) = (0, 0, 0, 0);
            while swept < 2 * round {
                swept += 64;
                let steps = steps::count(|| {
                    table.sweep(64, |fingerprint, _| !dead(fingerprint));
                    insert(&mut table, splitmix64(next));
                });
                next += 1;
                longest = longest.max(steps);
                cost += steps;
                most_spilled = most_spilled.max(table.spilled.len());
            }
            let told = format!("{most}, of which {percent} in 100 go");
            assert!(
                cost < 64 * (swept + 100),
                "{cost} steps for {swept} places with {told}"
            );
            assert!(
                longest < 8 * ONE_SHARD,
                "{longest} steps at once with {told}"
            );
            assert!(
                most_spilled <= most as usize / 1000,
                "{most_spilled} spilled with {told}"
            );
            assert_ordered(&table);
        }
    }
}
