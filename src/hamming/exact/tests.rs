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
