//! Methods with a distance: near fingerprints have different keys.

use spinney_text::method::StrictFeatures;

use super::*;
use crate::shared::keys::KeyKind;
use crate::shared::layout::read_bucket;

const K: Distance = Distance(3);

pub(super) fn process(memory: &InMemoryRedis, seed: u64) -> SharedForest<Strict> {
    let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree: None, founder_token_bytes: 0 };
    let of = ("test", "k=3");
    let (threads, keys) = (Arc::new(Threads), Arc::new(memory.clone()));
    SharedForest::new(
        ForestSetup { name: of.0, identity: of.1, settings, thresholds: (), learned: () },
        threads,
        keys,
        seed << 32,
    )
    .with_distance(SharedDistance::new(K).unwrap())
}

pub(super) fn document(fingerprint: u64, now: i64) -> ForestDocument {
    let fingerprint = Fingerprint(fingerprint);
    let features = StrictFeatures { fingerprints: vec![fingerprint], whole: fingerprint };
    at(Features::Strict(features), now)
}

/// A fingerprint with so many bits of it turned over.
fn flipped(fingerprint: u64, bits: u64, seed: u64) -> u64 {
    (0..bits).fold(fingerprint, |flipped, n| flipped ^ 1 << (splitmix64(seed << 8 | n) % 64))
}

/// Every living node is found by its buckets, and no two roots are near each other.
fn check_near(memory: &InMemoryRedis, forest: &SharedForest<Strict>) {
    check_laws_of::<()>(memory);
    let nodes = memory.nodes();
    let buckets: BTreeMap<Fingerprint, Vec<Fingerprint>> = memory
        .of_kind(KeyKind::Bucket)
        .into_iter()
        .map(|(key, bytes)| (key.fingerprint, read_bucket(&bytes).unwrap()))
        .collect();
    let mut roots: Vec<Fingerprint> = Vec::new();
    for (key, bytes, _) in &nodes {
        for bucket in forest.inner.blocks.buckets(key.fingerprint) {
            let names = buckets.get(&bucket).map(Vec::as_slice).unwrap_or_default();
            assert!(names.contains(&key.fingerprint), "{} is lost", key.fingerprint);
        }
        if let Some(NodeValue::<()>::Root(_)) = NodeValue::read(bytes) {
            roots.push(key.fingerprint);
        }
    }
    for (at, one) in roots.iter().enumerate() {
        for other in &roots[..at] {
            assert!(one.distance(*other) > K, "{one} and {other}");
        }
    }
}

#[test]
fn near_fingerprints_are_decided_as_in_a_local_forest() {
    let settings = crate::Settings { k: K, window: Some(Millis(WINDOW)), key: HashKey::FIXED };
    let threads = Arc::new(Threads);
    let local = crate::local::LocalForest::<Strict>::new("test", settings, (), (), threads);
    let local = local.unwrap();
    let memory = InMemoryRedis::default();
    let processes = [1, 2, 3].map(|seed| process(&memory, seed));
    let (mut joined, mut all) = (0, 0);
    for bulk in 0..60_u64 {
        let documents = || -> Vec<ForestDocument> {
            let each = (0..12).map(|n| {
                let random = splitmix64(bulk * 100 + n);
                let story = splitmix64(random % 40);
                document(flipped(story, random >> 32 & 3, random >> 8), bulk as i64)
            });
            each.collect()
        };
        let placed = place(&local, documents());
        let expected: Vec<(Root, Decision)> = placed.iter().map(|placed| (placed.root, placed.decision)).collect();
        settle(&local, placed, ItemOutcome::Accepted);
        let forest = &processes[splitmix64(bulk) as usize % 3];
        let placed = place(forest, documents());
        let decided: Vec<(Root, Decision)> = placed.iter().map(|placed| (placed.root, placed.decision)).collect();
        assert_eq!(decided, expected, "{bulk}");
        let is_joined = |(_, decision): &&(Root, Decision)| matches!(decision, Decision::Joined { .. });
        joined += decided.iter().filter(is_joined).count();
        all += decided.len();
        settle(forest, placed, ItemOutcome::Accepted);
        check_near(&memory, forest);
    }
    assert!(joined * 4 > all, "{joined} of {all}");
    let stats = block_on(processes[0].stats()).unwrap().shared.unwrap();
    assert!(stats.commands < 50 * stats.documents, "{stats:?}");
}

/// The roots of each story when so many processes send it at the same moment, each as another fingerprint.
fn race_of_fingerprints(
    memory: &InMemoryRedis,
    processes: u64,
    version: impl Fn(u64, u64) -> u64 + Sync,
) -> Vec<HashSet<Root>> {
    race(processes, 8, |seed| process(memory, seed), |story, process| document(version(splitmix64(story), process), 1))
}

#[test]
fn near_ones_that_come_at_once_get_one_root() {
    for processes in [2, 3] {
        let memory = InMemoryRedis::default();
        // At most two bits apart, in halves and blocks of their own.
        let version = |story: u64, process: u64| match process {
            0 => story,
            n => story ^ 1 << (story % 32 + 20 * (n - 1)),
        };
        let roots = race_of_fingerprints(&memory, processes, version);
        let split = roots.iter().filter(|roots| roots.len() > 1).count();
        assert_eq!(split, 0, "{processes}");
        check_near(&memory, &process(&memory, 9));
    }
}

#[test]
fn of_a_chain_that_comes_at_once_no_two_roots_are_near() {
    let memory = InMemoryRedis::default();
    // The first and the last are six bits apart: two roots are right where the one in the middle is none.
    let version = |story: u64, process: u64| story ^ ((1 << (3 * process)) - 1) << (story % 50);
    let roots = race_of_fingerprints(&memory, 3, version);
    assert!(roots.iter().all(|roots| roots.len() <= 2), "{roots:?}");
    check_near(&memory, &process(&memory, 9));
}

#[test]
fn what_lives_on_is_named_as_long() {
    let memory = InMemoryRedis::default();
    let forest = process(&memory, 1);
    // A root and a leaf, which come again and again.
    for n in 0..40 {
        let now = n * WINDOW / 8;
        let placed = place(&forest, vec![document(7, now), document(6, now)]);
        assert_eq!(placed[0].root, root(7));
        assert_eq!(placed[1].root, root(7));
        settle(&forest, placed, ItemOutcome::Accepted);
        check_near(&memory, &forest);
    }
    let near = place(&forest, vec![document(3, 5 * WINDOW)]);
    assert_eq!(near[0].root, root(7));
    // With the last node go the names, too.
    memory.advance(8 * WINDOW);
    assert!(memory.nodes().is_empty());
    assert!(memory.of_kind(KeyKind::Bucket).is_empty());
}

fn root(fingerprint: u64) -> Root {
    Root(Fingerprint(fingerprint))
}
