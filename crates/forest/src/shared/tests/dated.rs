//! Forests whose documents have dates of their own.

use super::*;
use crate::shared::keys::KeyKind;

const STEP: i64 = WINDOW / 64;

fn dated(memory: &InMemoryRedis, seed: u64) -> SharedForest<Verified> {
    let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree: None, founder_token_bytes: 1 << 20 };
    let of = ("test", "k=0 clock=field");
    let (similarity, learned) = (Similarity::default(), LearnedText::default());
    let (threads, keys) = (Arc::new(Threads), Arc::new(memory.clone()));
    let seed = seed << 32;
    SharedForest::new(
        ForestSetup { name: of.0, identity: of.1, settings, thresholds: similarity, learned },
        threads,
        keys,
        seed,
    )
    .dated()
}

fn claimed(number: u64, version: u64, date: i64) -> ForestDocument {
    ForestDocument { when: DocumentTime::Claimed(Millis(date)), ..at(story(number, version), 0) }
}

/// Dates that mostly go on, sometimes come late, and now and then leap over more than a window.
fn dates() -> impl FnMut() -> i64 {
    let (mut state, mut now) = (7, 1_600_000_000_000 / STEP * STEP);
    move || {
        state = splitmix64(state);
        match state % 100 {
            0 => now += 66 * STEP,
            1..10 => return now - (state >> 16) as i64 % 90 * STEP,
            _ => now += (state >> 16) as i64 % 2 * STEP,
        }
        now
    }
}

#[test]
fn dates_decide_as_in_a_local_forest() {
    let local = local();
    let memory = InMemoryRedis::default();
    let processes = [1, 2, 3].map(|seed| dated(&memory, seed));
    let mut date = dates();
    let (mut known, mut again) = (HashSet::new(), 0);
    for bulk in 0..80_u64 {
        let count = if bulk == 0 { 1 } else { 10 };
        let numbers: Vec<(u64, u64, i64)> = (0..count)
            .map(|n| splitmix64(bulk * 100 + n))
            // Two versions of a story: of three, one may agree with two trees, and then the children decide, which a
            // shared forest counts by the window.
            .map(|random| (random % 60, random >> 32 & 1, date()))
            .collect();
        let documents = || -> Vec<ForestDocument> {
            let each = numbers.iter();
            each.map(|&(number, version, date)| claimed(number, version, date)).collect()
        };
        let seen = |placed: &[RootAssignment]| -> Vec<(Root, Decision, Millis)> {
            placed.iter().map(|placed| (placed.root, placed.decision, placed.clock)).collect()
        };
        let placed = place(&local, documents());
        let expected = seen(&placed);
        settle(&local, placed, ItemOutcome::Accepted);
        let forest = &processes[splitmix64(bulk) as usize % 3];
        let placed = place(forest, documents());
        assert_eq!(seen(&placed), expected, "{bulk}");
        settle(forest, placed, ItemOutcome::Accepted);
        let clocks = [&local as &dyn ForestPort, forest].map(|forest| {
            let stats = block_on(forest.stats());
            stats.unwrap().clock
        });
        assert_eq!(clocks[0], clocks[1]);
        for (root, decision, _) in expected {
            // A story whose tree is over founds one again, under the same root.
            again += usize::from(!known.insert(root) && decision == Decision::NewRoot);
        }
    }
    assert!(again > 20, "{again}");
}

#[test]
fn a_refused_date_counts_for_nobody() {
    let memory = InMemoryRedis::default();
    let [one, other] = [1, 2].map(|seed| dated(&memory, seed));
    let root = |forest: &SharedForest<Verified>, date| {
        let placed = place(forest, vec![claimed(1, 0, date)]);
        let found = (placed[0].root, placed[0].decision);
        settle(forest, placed, ItemOutcome::Refused);
        found
    };
    settle(&one, place(&one, vec![claimed(1, 0, 5)]), ItemOutcome::Accepted);
    let far = place(&other, vec![claimed(2, 0, 90 * WINDOW)]);
    assert_eq!(far[0].clock, Millis(90 * WINDOW), "its own stamp has it");
    assert_eq!(root(&one, 6).1, Decision::Refreshed);
    settle(&other, far, ItemOutcome::Refused);
    assert_eq!(root(&other, 7).1, Decision::Refreshed);
    // Accepted, it counts for all.
    let far = place(&other, vec![claimed(2, 0, 90 * WINDOW)]);
    settle(&other, far, ItemOutcome::Accepted);
    assert_eq!(root(&one, 8).1, Decision::NewRoot);
}

#[test]
fn a_document_lives_on_when_the_clock_has_left_it_behind() {
    let memory = InMemoryRedis::default();
    let [one, other] = [1, 2].map(|seed| dated(&memory, seed));
    settle(&one, place(&one, vec![claimed(1, 0, 0)]), ItemOutcome::Accepted);
    let first = place(&one, vec![claimed(1, 1, 10)]);
    let root = first[0].root;
    // Somebody's date leaps over the window while it is on its way.
    let far = place(&other, vec![claimed(2, 0, 3 * WINDOW)]);
    settle(&other, far, ItemOutcome::Accepted);
    assert_eq!(block_on(one.tree(root)).unwrap(), None);
    settle(&one, first, ItemOutcome::Accepted);
    assert!(block_on(other.tree(root)).unwrap().is_some());
    let again = place(&other, vec![claimed(1, 1, 3 * WINDOW + 1)]);
    assert_eq!((again[0].root, again[0].decision), (root, Decision::Refreshed));
}

#[test]
fn what_is_over_goes_and_what_somebody_needs_stays() {
    let memory = InMemoryRedis::default();
    let forest = dated(&memory, 1);
    let mut most = 0;
    // Six windows of dates; no time goes by for Redis.
    for n in 0..120 {
        let date = n * WINDOW / 20;
        let placed = place(&forest, vec![claimed(n as u64, 0, date), claimed(1_000, 0, date)]);
        if n > 0 {
            assert_eq!(placed[1].decision, Decision::Refreshed);
        }
        settle(&forest, placed, ItemOutcome::Accepted);
        block_on(forest.inner.sweep(true)).unwrap();
        most = most.max(memory.nodes().len());
    }
    let living = memory.nodes().len();
    assert!(most <= living + 8, "{most}, {living}");
    check_laws(&memory);
    // It goes by itself when the clock has gone on by an eighth of the window.
    let sweeps = memory.of_kind(KeyKind::Sweep);
    assert_eq!(sweeps.len(), 1);
    let step = 119 * WINDOW / 20 / STEP;
    let begun = u32::from_be_bytes(sweeps[0].1.as_slice().try_into().unwrap());
    assert!((step - 9..=step).contains(&i64::from(begun)), "{begun} {step}");
}

/// A forest of near fingerprints whose documents have dates.
fn near(memory: &InMemoryRedis) -> SharedForest<Strict> {
    let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree: None, founder_token_bytes: 0 };
    let (threads, keys) = (Arc::new(Threads), Arc::new(memory.clone()));
    let of = ("near", "k=3 clock=field");
    let forest = SharedForest::new(
        ForestSetup { name: of.0, identity: of.1, settings, thresholds: (), learned: () },
        threads,
        keys,
        1 << 32,
    );
    forest.with_distance(SharedDistance::new(Distance(3)).unwrap()).dated()
}

#[test]
fn names_of_what_is_over_go() {
    let memory = InMemoryRedis::default();
    let forest = near(&memory);
    let come = |number: u64, date: i64| {
        let fingerprint = Fingerprint(splitmix64(number));
        let features = Features::Strict(spinney_text::method::StrictFeatures {
            fingerprints: vec![fingerprint],
            whole: fingerprint,
        });
        let document = ForestDocument { when: DocumentTime::Claimed(Millis(date)), ..at(features, 0) };
        let placed = place(&forest, vec![document]);
        let decision = placed[0].decision;
        settle(&forest, placed, ItemOutcome::Accepted);
        decision
    };
    for n in 0..320_i64 {
        // One that comes all the time, and one that never comes again.
        let known = come(7, n * WINDOW / 40);
        assert_eq!(known == Decision::NewRoot, n == 0);
        come(1_000 + n as u64, n * WINDOW / 40);
        // Steps of names have 8 bits: who goes through them more seldom than three windows takes some for new.
        if n % 20 == 19 {
            block_on(forest.inner.sweep(true)).unwrap();
        }
    }
    let (nodes, names) = (memory.nodes(), memory.of_kind(KeyKind::Bucket));
    // Those of a window, and of three steps more.
    assert!((40..=44).contains(&nodes.len()), "{}", nodes.len());
    let named: usize = names.iter().map(|(_, names)| names.len() / 9).sum();
    assert!((400..=470).contains(&named), "{named}");
    // What goes by itself goes twice in a window.
    for n in 320..480_i64 {
        come(1_000 + n as u64, n * WINDOW / 40);
        if n % 40 == 39 {
            wait_until(|| {
                come(1_000 + n as u64, n * WINDOW / 40);
                memory.of_kind(KeyKind::Bucket).len() <= 800
            });
        }
    }
    assert_eq!(come(7, 479 * WINDOW / 40), Decision::NewRoot, "it is over");
}
