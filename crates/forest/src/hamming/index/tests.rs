//! One suite for both kinds of index, against what they must do in the plainest way.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use spinney_text::hash::splitmix64;

use super::*;

/// Flips `flips` bits of a code at most, the same ones for the same seed.
fn flipped(code: u64, flips: u32, seed: u64) -> u64 {
    let mut code = code;
    let mut seed = seed;
    for _ in 0..flips {
        seed = splitmix64(seed);
        code ^= 1 << (seed % 64);
    }
    code
}

/// Distributions that hurt. Most depend on the secret that the index is made with, which no client could: mixed values
/// that are neighbours in the exact table.
fn code() -> impl Strategy<Value = Code> {
    let centre = (0..5_u64).prop_map(splitmix64);
    prop_oneof![
        1 => any::<u64>().prop_map(Code::Plain),
        3 => (centre, 0..=9_u32, any::<u64>())
            .prop_map(|(code, flips, seed)| Code::Plain(flipped(code, flips, seed))),
        // One high half, one low half, one word and all the bits that tags show.
        1 => (0..500_u64).prop_map(|low| Code::Plain(0xdead_beef_0000_0000 | low)),
        1 => (0..500_u64).prop_map(|high| Code::Plain((high << 32) | 0x1234_5678)),
        2 => (0..128_u64, 0..20_u64)
            .prop_map(|(shown, low)| Code::Plain(0xcafe_ba00_0000_0000 | shown << 32 | low << 20)),
        1 => (0..64_u32).prop_map(|bit| Code::Plain(1 << bit)),
        1 => prop_oneof![Just(0), Just(u64::MAX)].prop_map(Code::Plain),
        // One shard, and in it: all, one home, the first, the last.
        3 => any::<u64>().prop_map(|any| Code::Mixed(any >> 10 | 7 << 54)),
        2 => (0..300_u64).prop_map(|near| Code::Mixed(7 << 54 | 1 << 52 | near)),
        1 => (0..40_u64).prop_map(Code::Mixed),
        1 => (0..40_u64).prop_map(|back| Code::Mixed(u64::MAX - back)),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Code {
    Plain(u64),
    /// What the exact table goes by.
    Mixed(u64),
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Code, u32, u32),
    Remove(Code),
    /// Removes the stored fingerprint that is so far in, or the first.
    RemoveStored(u16),
    SetTick(Code, u32),
    Near(Code),
    /// A budget, and what is not kept: ticks of this remainder.
    Sweep(usize, u32),
    /// Reads some portions on.
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (code(), 0..9_u32, 0..8_u32).prop_map(|(code, root, tick)| Step::Insert(code, root, tick)),
        1 => code().prop_map(Step::Remove),
        4 => any::<u16>().prop_map(Step::RemoveStored),
        1 => (code(), 0..8_u32).prop_map(|(code, tick)| Step::SetTick(code, tick)),
        3 => code().prop_map(Step::Near),
        1 => (0..3_000_usize, 0..30_u32).prop_map(|(budget, tick)| Step::Sweep(budget, tick)),
        1 => (1..900_usize).prop_map(Step::Read),
    ]
}

/// What was met on a way through all entries, and what was there all the time.
#[derive(Default)]
struct Way {
    steady: BTreeSet<u64>,
    met: Vec<u64>,
    gone: usize,
}

struct Twin {
    index: NodeIndex,
    secret: HashKey,
    naive: BTreeMap<u64, Entry>,
    read: Way,
    swept: Way,
    rounds: usize,
}

impl Twin {
    fn new(k: u32, secret: HashKey) -> Twin {
        Twin {
            index: NodeIndex::new(Distance(k), secret).unwrap(),
            secret,
            naive: BTreeMap::new(),
            read: Way::default(),
            swept: Way::default(),
            rounds: 0,
        }
    }

    fn code(&self, code: Code) -> u64 {
        match code {
            Code::Plain(code) => code,
            Code::Mixed(mixed) => self.secret.permutation().unmix(mixed),
        }
    }

    fn insert(&mut self, code: u64, entry: Entry) {
        let replaced = self.index.insert(Fingerprint(code), entry);
        assert_eq!(replaced, Ok(self.naive.insert(code, entry)));
    }

    fn remove(&mut self, code: u64) {
        assert_eq!(self.index.remove(Fingerprint(code)), self.naive.remove(&code));
        self.read.steady.remove(&code);
        self.swept.steady.remove(&code);
    }

    fn assert_near(&self, query: u64) {
        let k = self.index.distance().0;
        let mut found = Vec::new();
        self.index.near(Fingerprint(query), |fingerprint, distance, entry| {
            found.push((fingerprint.0, distance.0, entry.root, entry.tick));
        });
        // Not deduplicated: what is visited twice must be seen by the comparison.
        found.sort_unstable();
        let all = self.naive.iter();
        let expected = all.map(|(&code, entry)| {
            let distance = (code ^ query).count_ones();
            (code, distance, entry.root, entry.tick)
        });
        let expected: Vec<_> = expected.filter(|&(_, distance, ..)| distance <= k).collect();
        assert_eq!(found, expected, "near {query:016x}, k = {k}");
        let held = self.index.get(Fingerprint(query));
        assert_eq!(held, self.naive.get(&query).copied());
    }

    fn sweep(&mut self, budget: usize, out: u32) {
        if self.swept.gone == 0 {
            self.swept.steady = self.naive.keys().copied().collect();
            self.rounds = 0;
        }
        self.rounds = self.rounds.max(self.index.round());
        let mut met = Vec::new();
        let removed = self.index.sweep(budget, |fingerprint, entry| {
            met.push((fingerprint.0, entry));
            entry.tick != out
        });
        let mut gone = 0;
        for &(code, entry) in &met {
            assert_eq!(self.naive.get(&code), Some(&entry), "met {code:016x}");
            self.swept.met.push(code);
            if entry.tick == out {
                self.naive.remove(&code);
                self.read.steady.remove(&code);
                self.swept.steady.remove(&code);
                gone += 1;
            }
        }
        assert_eq!(removed, gone);
        self.swept.gone += budget;
        // Twice, because the places that were passed may be fewer now, and others more.
        if self.swept.gone > 2 * self.rounds {
            let way = std::mem::take(&mut self.swept);
            let met: BTreeSet<u64> = way.met.into_iter().collect();
            assert!(way.steady.is_subset(&met), "a round left some out");
        }
    }

    fn read(&mut self, portions: usize) {
        if self.read.gone == 0 {
            self.read.steady = self.naive.keys().copied().collect();
        }
        for _ in 0..portions {
            let met = &mut self.read.met;
            self.index.portion(self.read.gone, |fingerprint, entry| {
                assert_eq!(self.naive.get(&fingerprint.0), Some(&entry));
                met.push(fingerprint.0);
            });
            self.read.gone += 1;
            if self.read.gone == self.index.portions() {
                let mut way = std::mem::take(&mut self.read);
                way.met.retain(|code| way.steady.contains(code));
                way.met.sort_unstable();
                assert!(way.met.iter().eq(&way.steady), "not each once");
                return;
            }
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Insert(code, root, tick) => self.insert(self.code(code), Entry { root, tick }),
            Step::Remove(code) => self.remove(self.code(code)),
            Step::RemoveStored(far) => {
                let far = usize::from(far) % self.naive.len().max(1);
                if let Some(&code) = self.naive.keys().nth(far) {
                    self.remove(code);
                }
            }
            Step::SetTick(code, tick) => {
                let code = self.code(code);
                let held = self.naive.get_mut(&code);
                let held = held.map(|entry| entry.tick = tick).is_some();
                assert_eq!(self.index.set_tick(Fingerprint(code), tick), held);
            }
            Step::Near(code) => self.assert_near(self.code(code)),
            Step::Sweep(budget, out) => self.sweep(budget, out),
            Step::Read(portions) => self.read(portions),
        }
        assert_eq!(self.index.len(), self.naive.len());
        assert_eq!(self.index.is_empty(), self.naive.is_empty());
    }

    fn assert_all(&mut self) {
        let stored: Vec<u64> = self.naive.keys().copied().take(60).collect();
        for code in stored {
            self.assert_near(code);
            self.assert_near(flipped(code, 2, code));
        }
        let mut all: Vec<_> = self.index.iter().map(|(code, entry)| (code.0, entry)).collect();
        all.sort_unstable_by_key(|&(code, _)| code);
        let naive: Vec<_> = self.naive.iter().map(|(&code, &entry)| (code, entry)).collect();
        assert_eq!(all, naive);
        while self.read.gone > 0 {
            self.read(1_000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn agrees_with_a_map_that_is_scanned(
        // Half of them is the exact index, and what most forests are made with.
        k in prop_oneof![Just(0), Just(3), 1..=16_u32],
        tables in any::<bool>(),
        secret in any::<(u64, u64)>(),
        steps in prop::collection::vec(step(), 1..2_500),
    ) {
        let mut twin = Twin::new(k, HashKey::new(secret.0, secret.1));
        if tables && k <= 7 {
            twin.index.use_tables();
        }
        for step in &steps {
            twin.run(step);
        }
        twin.assert_all();
    }
}

fn entry(root: u32) -> Entry {
    Entry { root, tick: root / 2 }
}

#[test]
fn grows_and_shrinks_through_many_shards() {
    // Some more than one shard has.
    for (k, most) in [(0, 290_000), (1, 85_000), (3, 85_000)] {
        let mut twin = Twin::new(k, HashKey::new(77, 5));
        let code = |i: u32| splitmix64(u64::from(i));
        for i in 0..most {
            twin.insert(code(i), entry(i));
        }
        twin.read(twin.index.portions());
        let full = twin.index.memory_bytes();
        for i in 0..100 {
            twin.assert_near(flipped(code(i * 97), i % 5, u64::from(i)));
        }
        for i in 0..most - 5_000 {
            twin.remove(code(i));
        }
        for i in 0..100 {
            twin.assert_near(flipped(code(most - 5_050 + i), i % 5, u64::from(i)));
        }
        twin.assert_all();
        let few = twin.index.memory_bytes();
        // The slots of a chunk stay.
        let fewer = if k == 0 { full / 4 } else { full * 6 / 10 };
        assert!(few < fewer, "k = {k}: {few} bytes of {full}");
        for i in most - 5_000..most {
            twin.remove(code(i));
        }
        twin.assert_all();
    }
}

/// In one round without a change between its parts nothing is left out and nothing is met twice.
#[test]
fn a_round_meets_every_entry_once() {
    for (k, budget) in [(0, 1), (0, 7), (0, 100_000), (3, 1), (3, 1_000)] {
        let mut twin = Twin::new(k, HashKey::FIXED);
        for i in 0..9_000 {
            twin.insert(splitmix64(i), entry(i as u32));
        }
        // Some chunks without slots.
        for i in 1_000..8_500 {
            twin.remove(splitmix64(i));
        }
        for _ in 0..3 {
            let mut met = Vec::new();
            let round = twin.index.round();
            let mut left = round;
            while left > 0 {
                let budget = budget.min(left);
                left -= budget;
                twin.index.sweep(budget, |fingerprint, _| {
                    met.push(fingerprint.0);
                    true
                });
            }
            assert_eq!(met.len(), 1_500, "k = {k}");
            met.sort_unstable();
            assert!(met.iter().eq(twin.naive.keys()));
        }
        // What a round removes does not make it longer. (It may make it shorter: fewer places for fewer entries.)
        let round = twin.index.round();
        let mut asked = 0;
        let removed = (0..round).map(|_| {
            twin.index.sweep(1, |_, entry| {
                asked += 1;
                entry.root % 3 == 0
            })
        });
        let removed: usize = removed.sum();
        twin.naive.retain(|_, entry| entry.root % 3 == 0);
        assert_eq!(removed, 1_500 - twin.naive.len());
        assert!((1_500..1_700).contains(&asked), "asked {asked} times");
        twin.assert_all();
    }
}

#[test]
fn answers_do_not_depend_on_the_secret() {
    let found = |k: u32, secret: u64| {
        let mut index = NodeIndex::new(Distance(k), HashKey::new(secret, secret)).unwrap();
        index.use_tables();
        for i in 0..3_000_u64 {
            let code = flipped(splitmix64(i / 10), 1 + (i % 4) as u32, i);
            index.insert(Fingerprint(code), entry(i as u32)).unwrap();
        }
        let near = (0..300).map(|i| {
            let mut found = Vec::new();
            index.near(Fingerprint(splitmix64(i)), |code, _, entry| {
                found.push((code.0, entry.root));
            });
            found.sort_unstable();
            found
        });
        near.collect::<Vec<_>>()
    };
    for k in [0, 2, 3] {
        assert_eq!(found(k, 1), found(k, 0x1234_5678_9abc));
    }
}

#[test]
fn refuses_a_distance_out_of_range() {
    assert!(NodeIndex::new(NodeIndex::MAX_DISTANCE, HashKey::FIXED).is_ok());
    let error = NodeIndex::new(Distance(17), HashKey::FIXED).unwrap_err();
    assert_eq!(error, HammingError::DistanceOutOfRange(17));
}

#[test]
fn refuses_what_it_cannot_hold() {
    for k in [0, 3] {
        let mut index = NodeIndex::new(Distance(k), HashKey::FIXED).unwrap();
        index.set_max_len(2);
        let none = Entry { root: u32::MAX, tick: 1 };
        assert_eq!(index.insert(Fingerprint(1), none), Err(Full));
        assert_eq!(index.insert(Fingerprint(1), entry(1)), Ok(None));
        assert_eq!(index.insert(Fingerprint(2), entry(2)), Ok(None));
        assert_eq!(index.insert(Fingerprint(3), entry(3)), Err(Full));
        assert_eq!(index.insert(Fingerprint(1), none), Err(Full));
        assert_eq!(index.insert(Fingerprint(2), entry(4)), Ok(Some(entry(2))));
        assert_eq!(index.get(Fingerprint(1)), Some(entry(1)));
        assert_eq!(index.get(Fingerprint(3)), None);
        assert_eq!(index.len(), 2);
        assert_eq!(index.remove(Fingerprint(1)), Some(entry(1)));
        assert_eq!(index.insert(Fingerprint(3), entry(3)), Ok(None));
        let empty = index.empty();
        assert!(empty.is_empty() && empty.distance() == Distance(k));
    }
}

#[test]
fn prefetching_changes_nothing() {
    for k in [0, 3] {
        let mut index = NodeIndex::new(Distance(k), HashKey::FIXED).unwrap();
        index.prefetch(&[Fingerprint(7)]);
        index.insert(Fingerprint(7), entry(1)).unwrap();
        index.prefetch(&[Fingerprint(7), Fingerprint(8)]);
        assert_eq!(index.get(Fingerprint(7)), Some(entry(1)));
    }
}
