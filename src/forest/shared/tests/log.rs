//! Methods with a wide distance: names stand in a log, and every process has a mirror of it.

use super::*;
use crate::forest::shared::keys::KeyKind;
use crate::hash::HashKey;
use crate::method::{Short, ShortFeatures, ShortText, StrictFeatures, WIDE};

fn process(memory: &InMemoryStore, seed: u64) -> SharedForest<Short> {
    process_with(memory, seed, Some(Millis(WINDOW)))
}

fn process_with(memory: &InMemoryStore, seed: u64, window: Option<Millis>) -> SharedForest<Short> {
    let settings = SharedSettings { window, max_tree: None, evidence_bytes: 0 };
    let of = ("test", "k=10");
    let (threads, keys) = (Arc::new(Threads), Arc::new(memory.clone()));
    SharedForest::new(of, settings, (), (), threads, keys, seed << 32).with_distance(WIDE).unwrap()
}

fn alone() -> crate::forest::local::LocalForest<Short> {
    let settings = crate::forest::Settings { k: WIDE, window: Some(Millis(WINDOW)), key: HashKey::FIXED };
    crate::forest::local::LocalForest::new("test", settings, (), (), Arc::new(Threads)).unwrap()
}

fn document(print: u64, text: &str, now: i64) -> PlacementDocument {
    let features = ShortFeatures {
        prints: StrictFeatures {
            fingerprints: vec![Fingerprint(print)],
            whole: Fingerprint(xxhash_rust::xxh3::xxh3_64(text.as_bytes())),
        },
        text: ShortText::of_letters(text),
    };
    at(Features::Short(features), now)
}

/// Forty letters that belong to a number.
fn letters(number: u64) -> String {
    let letter = |n| char::from(b'a' + (splitmix64(number << 16 | n) % 26) as u8);
    (0..40).map(letter).collect()
}

/// A fingerprint with so many bits of it turned over.
fn flipped(print: u64, bits: u64, seed: u64) -> u64 {
    (0..bits).fold(print, |flipped, n| flipped ^ 1 << (splitmix64(seed << 8 | n) % 64))
}

/// A version of a story: a few of its bits and letters are others. So many stories stand around one fingerprint.
fn version(story: u64, random: u64, crowd: u64, now: i64) -> PlacementDocument {
    let around = splitmix64(story / crowd);
    let own = flipped(around, if crowd > 1 { 3 } else { 0 }, story);
    let bits = random % 4;
    let mut text = letters(story).into_bytes();
    for n in 0..(random >> 8) % 12 {
        let at = splitmix64(random ^ n) as usize % text.len();
        text[at] = b'a' + (splitmix64(random ^ n << 8) % 26) as u8;
    }
    let print = flipped(own, bits, random >> 16);
    document(print, &String::from_utf8(text).unwrap(), now)
}

/// Every living node is named in the log, and no two roots are near each other.
fn check_named(memory: &InMemoryStore) {
    check_laws_of::<ShortText>(memory);
    let named: HashSet<Fingerprint> = memory.names().into_iter().collect();
    let mut roots: Vec<Fingerprint> = Vec::new();
    for (key, bytes, _) in memory.nodes() {
        assert!(named.contains(&key.fingerprint), "{} is lost", key.fingerprint);
        if let Some(NodeValue::<ShortText>::Root(_)) = NodeValue::read(&bytes) {
            roots.push(key.fingerprint);
        }
    }
    for (at, one) in roots.iter().enumerate() {
        for other in &roots[..at] {
            assert!(one.distance(*other) > WIDE, "{one} and {other}");
        }
    }
}

type Seen = Vec<(Root, Decision, Vec<(Root, crate::method::Refusal)>)>;

fn seen(placed: &[Placed]) -> Seen {
    let each = placed.iter().map(|placed| {
        let mut refused = placed.refused.clone();
        if placed.decision == Decision::Refreshed {
            // Where a text is known, nobody asks what else is near it; a shared forest has read it all the same.
            refused.clear();
        }
        refused.sort_unstable_by_key(|(root, _)| *root);
        (placed.root, placed.decision, refused)
    });
    each.collect()
}

#[test]
fn short_texts_are_decided_as_in_a_local_forest() {
    // Few stories, and crowds of more stories than are candidates.
    for (stories, crowd) in [(60, 1), (60, 5), (400, 200)] {
        let local = alone();
        let memory = InMemoryStore::default();
        let processes = [1, 2, 3].map(|seed| process(&memory, seed));
        let (mut joined, mut refused, mut all) = (0, 0, 0);
        for bulk in 0..40_u64 {
            let documents = || -> Vec<PlacementDocument> {
                let each = (0..12).map(|n| {
                    let random = splitmix64(bulk * 100 + n);
                    version(random % stories, random >> 16, crowd, bulk as i64)
                });
                each.collect()
            };
            let placed = place(&local, documents());
            let expected = seen(&placed);
            settle(&local, placed, ItemOutcome::Accepted);
            let forest = &processes[splitmix64(bulk) as usize % 3];
            let placed = place(forest, documents());
            let decided = seen(&placed);
            assert_eq!(decided, expected, "{stories} by {crowd}: {bulk}");
            settle(forest, placed, ItemOutcome::Accepted);
            check_named(&memory);
            let is_joined = |(_, decision, _): &&(_, Decision, _)| matches!(decision, Decision::Joined { .. });
            joined += decided.iter().filter(is_joined).count();
            refused += decided.iter().filter(|(.., why)| !why.is_empty()).count();
            all += decided.len();
        }
        assert!(joined * 8 > all, "{joined} of {all}");
        assert!(crowd == 1 || refused * 4 > all, "{refused} of {all}");
    }
}

#[test]
fn near_short_texts_that_come_at_once_get_one_root() {
    for processes in [2, 3] {
        let memory = InMemoryStore::default();
        // Up to five bits and a letter apart.
        let document = |story: u64, process: u64| {
            let print = flipped(splitmix64(story), 5 * process.min(1), story ^ process << 20);
            let mut text = letters(story).into_bytes();
            text[process as usize] = b'z';
            document(print, &String::from_utf8(text).unwrap(), 1)
        };
        let roots = race(processes, 8, |seed| process(&memory, seed), document);
        let split = roots.iter().filter(|roots| roots.len() > 1).count();
        assert_eq!(split, 0, "{processes}");
        check_named(&memory);
    }
}

fn root(fingerprint: u64) -> Root {
    Root(Fingerprint(fingerprint))
}

/// The root that a near text gets, if it joins one.
fn near(forest: &SharedForest<Short>, print: u64, story: u64, now: i64) -> Option<Root> {
    let mut text = letters(story);
    text.pop();
    let reply = block_on(forest.check(document(print, &text, now))).unwrap();
    let check = reply.check.unwrap();
    matches!(check.decision, Decision::Joined { .. }).then_some(check.root)
}

#[test]
fn what_lives_on_is_named_as_long_and_the_log_ends() {
    let memory = InMemoryStore::default();
    let forest = process(&memory, 1);
    let mut most = 0;
    for n in 0..400_u64 {
        let now = n as i64 * WINDOW / 32;
        // One that comes all the time, and a new one.
        let placed =
            place(&forest, vec![document(7, &letters(7), now), document(splitmix64(n), &letters(1_000 + n), now)]);
        assert_eq!(placed[0].root, root(7));
        settle(&forest, placed, ItemOutcome::Accepted);
        let named = memory.names();
        assert!(named.contains(&Fingerprint(7)), "{n}");
        // Nobody else has read the log.
        let late = process(&memory, 2 + n);
        assert_eq!(near(&late, 3, 7, now), Some(root(7)), "{n}");
        if n > 100 {
            most = most.max(named.len());
        }
    }
    // Of a window and a quarter there are forty, and the one that lives on is named eight times a window.
    assert!(most < 60, "{most}");
    let (names, _) = forest.inner.mirror.as_ref().unwrap().read().size();
    assert!(names < 60 + 260, "{names}");
}

#[test]
fn names_that_were_lost_are_missed_and_read_anew() {
    let memory = InMemoryStore::default();
    let [one, other] = [1, 2].map(|seed| process(&memory, seed));
    let put = |forest: &SharedForest<Short>, print: u64, story: u64| {
        let placed = place(forest, vec![document(print, &letters(story), 1)]);
        let root = placed[0].root;
        settle(forest, placed, ItemOutcome::Accepted);
        root
    };
    for n in 0..10 {
        assert_eq!(put(&one, splitmix64(n), n), root(splitmix64(n)));
    }
    // Both have read the tenth, which a failover undoes: of other processes it is missed by near texts, and found by
    // its own.
    assert_eq!(near(&other, splitmix64(9) ^ 1, 9, 1), Some(root(splitmix64(9))));
    memory.lose_names(1);
    let late = process(&memory, 3);
    assert_eq!(near(&late, splitmix64(9) ^ 1, 9, 1), None);
    assert_eq!(near(&late, splitmix64(8) ^ 1, 8, 1), Some(root(splitmix64(8))));
    assert_eq!(put(&late, splitmix64(9), 9), root(splitmix64(9)));
    // What is written in its place has its number: who has read the lost one reads everything again.
    assert_eq!(put(&late, splitmix64(20), 20), root(splitmix64(20)));
    for forest in [&one, &other] {
        for story in [3, 20] {
            let found = near(forest, splitmix64(story) ^ 6, story, 1);
            assert_eq!(found, Some(root(splitmix64(story))));
        }
    }
    // An engine that has forgotten its log.
    memory.lose_names(usize::MAX);
    assert_eq!(near(&late, splitmix64(20) ^ 1, 20, 1), Some(root(splitmix64(20))));
    assert_eq!(put(&late, splitmix64(30), 30), root(splitmix64(30)));
    assert_eq!(near(&one, splitmix64(30) ^ 1, 30, 1), Some(root(splitmix64(30))));
}

#[test]
fn texts_that_are_carried_there_are_found_by_near_ones() {
    let (own, memory) = (alone(), InMemoryStore::default());
    let documents = (0..20).map(|n| document(splitmix64(n), &letters(n), 1));
    settle(&own, place(&own, documents.collect()), ItemOutcome::Accepted);
    let [carrier, forest] = [1, 2].map(|seed| process(&memory, seed));
    let told = Arc::new(|_, _| ());
    let carried = block_on(Transfer::fill(&carrier, own.copied(), told)).unwrap();
    assert_eq!((carried.nodes, carried.behind), (20, 0));
    for n in 0..20 {
        let found = near(&forest, splitmix64(n) ^ 5, n, 1);
        assert_eq!(found, Some(root(splitmix64(n))));
    }
    block_on(Transfer::clear(&carrier)).unwrap();
    assert_eq!(memory.names(), []);
    assert_eq!(near(&forest, splitmix64(3) ^ 5, 3, 1), None);
}

#[test]
fn names_are_written_together() {
    let memory = InMemoryStore::default();
    let forest = process_with(&memory, 1, None);
    let documents = (0..2_500).map(|n| document(splitmix64(n), &letters(n), 1));
    let placed = place(&forest, documents.collect());
    settle(&forest, placed, ItemOutcome::Accepted);
    let shared = block_on(forest.stats()).unwrap().shared.unwrap();
    assert_eq!(shared.names, 2_500);
    assert!(shared.commands < 6 * 2_500, "{shared:?}");
    assert_eq!(memory.of_kind(KeyKind::Bucket), []);
    // Where nothing is over, what comes again is never named again.
    let again = (0..2_500).map(|n| document(splitmix64(n), &letters(n), 90 * WINDOW));
    let placed = place(&forest, again.collect());
    settle(&forest, placed, ItemOutcome::Accepted);
    assert_eq!(memory.names().len(), 2_500);
}

proptest! {
    /// Mirrors that read a log in parts, while names are written and lost, have all that is in it.
    #[test]
    fn a_mirror_has_what_the_log_has(
        steps in prop::collection::vec((0u8..8, any::<u64>(), 1usize..4), 1..80),
    ) {
        let memory = InMemoryStore::default();
        let forests = [1, 2].map(|seed| process_with(&memory, seed, None));
        let name = |forest: &SharedForest<Short>, names: &[u64]| {
            let mut commands = Vec::new();
            for &name in names {
                forest.inner.write_name(Fingerprint(name), Millis(0), true, &mut commands);
            }
            block_on(forest.inner.run_all(commands)).unwrap();
        };
        for (what, random, count) in steps {
            let forest = &forests[random as usize % 2];
            match what {
                0 => memory.lose_names(count),
                1..4 => {
                    let names: Vec<u64> = (0..count as u64).map(|n| splitmix64(random ^ n) % 4_096).collect();
                    name(forest, &names);
                }
                _ => {
                    block_on(forest.inner.follow()).unwrap();
                    let mirror = forest.inner.mirror.as_ref().unwrap().read();
                    let of = Fingerprint(random % 4_096);
                    let near: HashSet<Fingerprint> = mirror.near(of).into_iter().collect();
                    let expected = memory.names();
                    let mut expected = expected.iter().filter(|name| name.distance(of) <= WIDE);
                    prop_assert!(expected.all(|name| near.contains(name)));
                }
            }
        }
    }
}
