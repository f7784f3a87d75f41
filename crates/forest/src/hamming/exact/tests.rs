use spinney_text::hash::splitmix64;
use spinney_text::work_counter;

use super::*;

/// So many that they are in many shards.
const MANY: u64 = ONE_SHARD as u64 * 9 / 8;

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
            assert!(gap <= home && home <= at, "a gap between home {home} and {at}");
            last = Some(slot.mixed);
            len += 1;
        }
        let spilled = table.spilled.range(order.range(shard)).count();
        let here = slots.iter().filter(|slot| !slot.is_empty()).count() + spilled;
        assert_eq!(here, table.lens[shard] as usize, "in shard {shard}");
    }
    assert_eq!(len + table.spilled.len(), table.len);
}

#[test]
fn entries_stay_in_order_without_gaps_before_them() {
    let mut table = ExactTable::new(HashKey::new(5, 6));
    let codes: Vec<u64> = (0..300_000).map(splitmix64).collect();
    for (i, &code) in codes.iter().enumerate() {
        insert(&mut table, code);
        if i % 30_000 == 0 {
            assert_ordered(&table);
        }
    }
    for (i, &code) in codes.iter().enumerate() {
        assert!(table.remove(Fingerprint(code)).is_some());
        assert!(table.get(Fingerprint(code)).is_none());
        if i % 30_000 == 0 {
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
        work_counter::count(|| {
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
    for key in [HashKey::new(3, 9), HashKey::new(1 << 40 | 3, 9), HashKey::FIXED.derived(8)] {
        let usual = cost(&splitmix64, key);
        let heaps: [&dyn Fn(u64) -> u64; 4] = [&|i| known.unmix(i), &|i| i, &|i| i << 40, &|i| i.reverse_bits() >> 1];
        for heap in heaps {
            let crafted = cost(heap, key);
            assert!(crafted < 2 * usual, "{crafted} steps, for others {usual}");
        }
    }
}

fn keeps_its_memory(most: u64, bytes: f64) {
    let mut table = ExactTable::new(HashKey::FIXED);
    for i in 0..most {
        insert(&mut table, splitmix64(i));
    }
    let each = table.memory_bytes() as f64 / most as f64;
    assert!(each < bytes, "{each} bytes an entry");
    let full = table.memory_bytes();
    for i in 0..most / 5 {
        assert!(table.remove(Fingerprint(splitmix64(i))).is_some());
    }
    assert!(table.memory_bytes() > full * 9 / 10, "{} of {full}", table.memory_bytes());
    for i in most / 5..most * 7 / 10 {
        assert!(table.remove(Fingerprint(splitmix64(i))).is_some());
    }
    assert!(table.memory_bytes() < full * 6 / 10, "{} of {full}", table.memory_bytes());
}

#[test]
fn keeps_its_memory_while_entries_come_and_go() {
    // Where a shard has few, chance needs more of its places.
    keeps_its_memory(340_000, 25.0);
}

/// A look at an absent key ends after a few slots however full the table is.
#[test]
fn absent_keys_are_known_after_a_few_slots() {
    let mut table = ExactTable::new(HashKey::FIXED);
    let looks = 20_000;
    for i in 0..300_000 {
        insert(&mut table, splitmix64(i));
        if i % 50_000 == 49_999 {
            let cost = work_counter::count(|| {
                for i in 0..looks {
                    assert!(table.get(Fingerprint(splitmix64(2_000_000 + i))).is_none());
                }
            });
            assert!(cost < 8 * looks as usize, "{cost} steps for {looks}");
        }
    }
}

/// An insertion moves the entries of one shard at most, whenever it comes, once there are many.
fn insertions_wait_for_one_shard(most: u64) {
    let mut table = ExactTable::new(HashKey::FIXED);
    let mut cost = |i| work_counter::count(|| insert(&mut table, splitmix64(i)));
    let one_shard = (0..300_000).map(&mut cost).max().unwrap();
    assert!(one_shard < ONE_SHARD * 5 / 2, "{one_shard} steps");
    let many_shards = (300_000..most).map(&mut cost).max().unwrap();
    assert!(many_shards < 1_500, "{many_shards} steps");
}

#[test]
fn no_insertion_waits_for_all_entries() {
    insertions_wait_for_one_shard(450_000);
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
    let cost = (0..crowd).map(|i| work_counter::count(|| insert(&mut table, code(i))));
    let most = cost.max().unwrap();
    assert!(most < 1_500, "{most} steps");
    assert!(!table.spilled.is_empty(), "all of them found room");
    assert_ordered(&table);
    let prints = || (0..crowd).map(|i| Fingerprint(code(i)));
    for (tick, print) in prints().enumerate() {
        assert!(table.get(print).is_some());
        table.get_mut(print).unwrap().tick = tick as u32;
        let entry = Entry { root: 2, tick: tick as u32 };
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

/// Changes of a table, with what each of them has cost.
struct Trial {
    table: ExactTable,
    next: u64,
    done: usize,
    cost: usize,
    longest: usize,
}

impl Trial {
    fn new(secret: u64, most: u64) -> Trial {
        Trial { table: ExactTable::new(HashKey::new(secret, most)), next: 0, done: 0, cost: 0, longest: 0 }
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut ExactTable) -> T) -> T {
        let mut answer = None;
        let steps = work_counter::count(|| answer = Some(change(&mut self.table)));
        self.done += 1;
        self.cost += steps;
        self.longest = self.longest.max(steps);
        answer.unwrap()
    }

    fn len(&self) -> u64 {
        self.table.len() as u64
    }

    fn insert(&mut self) {
        self.next += 1;
        let code = splitmix64(self.next);
        self.change(|table| insert(table, code));
    }

    fn remove(&mut self, code: Fingerprint) {
        self.change(|table| assert!(table.remove(code).is_some()));
    }

    fn fill(&mut self, to: u64) {
        while self.len() < to {
            self.insert();
        }
    }
}

/// A shrunken table that has no room for one entry more than chance allows must not be tried again with the next
/// removal.
fn grows_and_shrinks(most: u64, secrets: u64) {
    for secret in 0..secrets {
        let mut trial = Trial::new(secret, most);
        let mut first = 0;
        let mut change_to = |trial: &mut Trial, len: u64| {
            trial.fill(len);
            while trial.len() > len {
                first += 1;
                trial.remove(Fingerprint(splitmix64(first)));
            }
        };
        for len in [most, 0, most] {
            change_to(&mut trial, len);
        }
        // Back and forth, on the way down past every threshold.
        let mut len = most;
        while len > 1 {
            for part in [8, 16, 8] {
                change_to(&mut trial, len - len.div_ceil(part));
            }
            len -= len.div_ceil(8);
        }
        let Trial { done, cost, longest, .. } = trial;
        assert!(cost < 128 * done, "{cost} steps of {done} changes with {most}");
        assert!(longest < 3 * ONE_SHARD, "{longest} steps with {most}");
    }
}

#[test]
fn a_change_costs_a_constant_however_often_a_table_grows_and_shrinks() {
    for (most, secrets) in [(10, 64), (100, 64), (1_000, 16), (10_000, 4), (MANY, 1)] {
        grows_and_shrinks(most, secrets);
    }
}

/// Whatever comes and goes: all of it costs so much for each change and each place that was swept. Nobody who does not
/// know the secret can choose entries by where they stand; a sweep goes by it, a round at a time.
fn any_sequence(most: usize, secrets: u64, phases: usize) {
    const EACH: usize = 128;
    for secret in 0..secrets {
        let mut trial = Trial::new(secret, 7);
        let mut random = splitmix64(secret ^ most as u64);
        for phase in 0..phases {
            random = splitmix64(random);
            let places = trial.table.shards.sum(|places| places);
            let len = match (phase, random % 8) {
                (0, _) | (_, 2) => most,
                (_, 0) => 0,
                (_, 1) => 1 + most / 1_000,
                (_, 3) => (random >> 8) as usize % most,
                (_, 4) => (places / 2).saturating_sub((random >> 8) as usize % 3),
                (_, 5) => places / 2 + (random >> 8) as usize % 3,
                (_, 6) => places * 59 / 64,
                _ => places * 59 / 64 + 2,
            };
            let len = len.min(most) as u64;
            if (random >> 40).is_multiple_of(4) && len < trial.len() {
                let percent = [10, 50, 100][(random >> 48) as usize % 3];
                let dead = |code: Fingerprint| splitmix64(code.0 ^ random) % 100 < percent;
                for _ in 0..=trial.table.round() {
                    trial.change(|table| table.sweep(1, |code, _| !dead(code)));
                }
            } else {
                let mut victims: Vec<Fingerprint> = trial.table.iter().map(|(code, _)| code).collect();
                victims.sort_unstable_by_key(|code| splitmix64(code.0));
                while trial.len() > len {
                    trial.remove(victims.pop().unwrap());
                }
                trial.fill(len);
            }
            let Trial { done, cost, .. } = trial;
            assert!(cost < EACH * (done + SMALL), "{cost} steps for {done} changes, {phase}: to {len} of {most}");
        }
        let longest = trial.longest;
        assert!(longest < 3 * ONE_SHARD, "{longest} steps at once of {most}");
        assert_ordered(&trial.table);
    }
}

#[test]
fn no_sequence_of_changes_costs_more_than_a_constant_each() {
    for (most, secrets, phases) in [(10, 16, 60), (100, 16, 60), (1_000, 4, 60), (10_000, 1, 40), (MANY as usize, 1, 6)]
    {
        any_sequence(most, secrets, phases);
    }
}

/// What chance, or somebody's secret, puts at the end of a table fits no smaller one, however many go.
#[test]
fn a_smaller_size_without_room_is_not_tried_with_every_change() {
    let mut trial = Trial::new(1, 1);
    let last = trial.table.permutation;
    trial.fill(2_000);
    // Less than an eighth of any size is behind its last home.
    let crowd: Vec<_> = (0..7).map(|i| Fingerprint(last.unmix(u64::MAX - i))).collect();
    for &code in &crowd {
        trial.change(|table| insert(table, code.0));
    }
    for number in 1..=2_000 {
        trial.remove(Fingerprint(splitmix64(number)));
    }
    let places = trial.table.shards.usual_places();
    assert!(places > 5 * SMALL, "{places}");
    trial.cost = 0;
    for _ in 0..places {
        trial.remove(crowd[0]);
        trial.change(|table| insert(table, crowd[0].0));
    }
    let each = trial.cost / (2 * places);
    assert!(each < 50, "{each} steps a change with {places} places");
    assert_eq!(trial.table.shards.usual_places(), places);
    for &code in crowd.iter().skip(2) {
        trial.remove(code);
    }
    (0..places).for_each(|_| trial.insert_and_remove());
    assert_eq!(trial.table.shards.usual_places(), SMALL);
}

impl Trial {
    fn insert_and_remove(&mut self) {
        self.insert();
        self.remove(Fingerprint(splitmix64(self.next)));
    }
}

/// What is left of the entries decides how large a table is in the end, though nobody sweeps any further when the last
/// dead one has gone.
#[test]
fn a_table_becomes_smaller_though_a_sweep_has_stopped_anywhere() {
    for (most, begins) in [(10_000, 0), (10_000, 4_000), (MANY, 0), (MANY, 170_000)] {
        let mut trial = Trial::new(3, 3);
        trial.fill(most);
        let full = trial.table.memory_bytes();
        trial.table.sweep(begins, |_, _| true);
        let dead = |code: Fingerprint| splitmix64(code.0) % 100 < 90;
        let dead_ones = trial.table.iter().filter(|(code, _)| dead(*code)).count();
        let (mut gone, mut most_spilled) = (0, 0);
        while gone < dead_ones {
            gone += trial.change(|table| table.sweep(16, |code, _| !dead(code)));
            most_spilled = most_spilled.max(trial.table.spilled.len());
        }
        for _ in 0..most / 8 {
            trial.insert_and_remove();
            most_spilled = most_spilled.max(trial.table.spilled.len());
        }
        let left = trial.table.memory_bytes();
        let len = trial.len();
        assert!(left < full / 3, "{left} of {full} bytes with {len}, from {begins}");
        assert!(most_spilled as u64 <= most / 1_000, "{most_spilled} spilled, from {begins}");
        assert!(trial.longest < 3 * ONE_SHARD, "{} steps", trial.longest);
        assert_ordered(&trial.table);
    }
}

/// A large table that was emptied keeps many shards. They have no room for less than one entry each.
#[test]
fn a_table_of_many_shards_with_few_entries_comes_to_rest() {
    let mut trial = Trial::new(4, 4);
    trial.fill(MANY);
    for number in 1..=MANY {
        trial.remove(Fingerprint(splitmix64(number)));
    }
    let shards = trial.table.shards.len() as u64;
    assert!(shards > 1);
    for len in [0, 1, 10, 1_000, shards, shards + 1, 2 * shards + 1, 5 * shards, 10 * shards] {
        trial.fill(len);
        let rests = |trial: &Trial| !trial.table.shards.is_moving();
        for _ in 0..6 * shards {
            trial.insert_and_remove();
        }
        let places = trial.table.shards.usual_places();
        for _ in 0..3 * shards {
            trial.insert_and_remove();
            assert!(rests(&trial), "moves with {len} entries in {shards} times {places}");
        }
        assert_eq!(trial.table.shards.usual_places(), places, "{len}");
    }
    assert_ordered(&trial.table);
}

/// In the middle of a round what was swept is sparser than the rest, so the rest may find no room in a smaller table.
fn sweeping(most: u64, secrets: u64, percents: &[u64]) {
    for secret in 0..secrets {
        for &percent in percents {
            let mut table = ExactTable::new(HashKey::new(secret, most));
            (0..most).for_each(|number| insert(&mut table, splitmix64(number)));
            let (round, mut next) = (table.round(), most);
            let dead = |fingerprint: Fingerprint| splitmix64(fingerprint.0) % 100 < percent;
            let (mut swept, mut cost, mut longest, mut most_spilled) = (0, 0, 0, 0);
            while swept < 2 * round {
                swept += 64;
                let steps = work_counter::count(|| {
                    table.sweep(64, |fingerprint, _| !dead(fingerprint));
                    insert(&mut table, splitmix64(next));
                });
                next += 1;
                longest = longest.max(steps);
                cost += steps;
                most_spilled = most_spilled.max(table.spilled.len());
            }
            let told = format!("{most}, of which {percent} in 100 go");
            assert!(cost < 64 * (swept + 100), "{cost} steps for {swept} places with {told}");
            assert!(longest < 3 * ONE_SHARD, "{longest} steps at once with {told}");
            assert!(most_spilled <= most as usize / 1000, "{most_spilled} spilled with {told}");
            assert_ordered(&table);
        }
    }
}

#[test]
fn sweeping_costs_a_constant_for_each_place_however_much_goes() {
    sweeping(10, 16, &[10, 50, 90, 100]);
    sweeping(1_000, 8, &[10, 50, 90, 100]);
    sweeping(30_000, 2, &[10, 50, 90, 100]);
    sweeping(ONE_SHARD as u64, 1, &[90]);
    sweeping(MANY, 1, &[50, 100]);
}

/// The same with more entries than the gate has time for.
mod a_million {
    use super::*;

    #[test]
    fn keeps_its_memory_while_entries_come_and_go() {
        keeps_its_memory(1_000_000, 24.0);
    }

    #[test]
    fn no_insertion_waits_for_all_entries() {
        insertions_wait_for_one_shard(1_000_000);
    }

    #[test]
    fn a_change_costs_a_constant_however_often_a_table_grows_and_shrinks() {
        grows_and_shrinks(1_000_000, 1);
    }

    #[test]
    fn no_sequence_of_changes_costs_more_than_a_constant_each() {
        any_sequence(1_000_000, 1, 12);
    }

    #[test]
    fn sweeping_costs_a_constant_for_each_place_however_much_goes() {
        sweeping(1_000_000, 1, &[10, 50, 90, 100]);
    }
}

/// A copy in the order of the table, whose entries are stored behind each other.
#[test]
fn a_copy_costs_little_more_than_its_entries() {
    for entries in [1, 15, 16, 17, 1_000, ONE_SHARD as u64, ONE_SHARD as u64 + 1, MANY] {
        let mut table = ExactTable::new(HashKey::new(5, 6));
        (0..entries).for_each(|i| insert(&mut table, splitmix64(i)));
        let mut portions = Vec::new();
        (0..ExactTable::PORTIONS).for_each(|number| table.portion(number, |code, entry| portions.push((code, entry))));
        for expected in [entries, entries * 9 / 10, entries * 2] {
            let mut copy = ExactTable::for_copy(table.secret(), expected as usize);
            let cost = work_counter::count(|| {
                for &(code, entry) in &portions {
                    assert_eq!(copy.insert(code, entry, true), Ok(None));
                }
            });
            assert_ordered(&copy);
            assert!(copy.iter().eq(table.iter()), "{entries} of {expected}");
            // Probing where nine of ten places are taken, and the end of a table that others have come to meanwhile.
            assert!(cost < 40 * entries as usize + 1_000, "{entries} of {expected}: {cost}");
        }
    }
}
