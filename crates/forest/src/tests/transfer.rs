//! A forest that is carried into a Redis and back is the same forest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_executor::block_on;
use spinney_text::hash::splitmix64;
use spinney_text::method::{
    Attributes, Features, LearnedText, Method, MethodKind, Similarity, Strict, StrictFeatures, Verified, Workspace,
};
use spinney_text::text::Fields;

use super::super::document::{DocumentTime, ForestDocument};
use super::super::port::{Batch, ForestPort, ItemOutcome, RootAssignment};
use super::super::shared::memory::InMemoryRedis;
use super::super::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings, Transfer, TransferReport};
use super::super::{Decision, Portions, Restoring};
use super::*;
use crate::local::{Copied, Executor, ForestState, LocalForest};
use crate::overrides::Override;
use crate::progress::ReportProgress;

const WINDOW: Millis = Millis(64 * 60_000);

struct Inline;

impl Executor for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

fn shared(redis: &InMemoryRedis) -> SharedForest<Verified> {
    let settings = SharedSettings { window: Some(WINDOW), max_tree: None, founder_token_bytes: 1 << 20 };
    SharedForest::new(
        ForestSetup {
            name: "test",
            identity: "a test",
            settings,
            thresholds: Similarity::default(),
            learned: LearnedText::default(),
        },
        Arc::new(Inline),
        Arc::new(redis.clone()),
        1,
    )
}

fn settings() -> Settings {
    Settings { k: Distance(0), window: Some(WINDOW), key: HashKey::FIXED }
}

fn local() -> LocalForest<Verified> {
    let (similarity, learned) = (Similarity::default(), LearnedText::default());
    LocalForest::new("test", settings(), similarity, learned, Arc::new(Inline)).unwrap()
}

/// Every third is a reprint of the one before it with another end, that comes later.
fn story(number: usize, at: Millis) -> ForestDocument {
    let of = if number % 3 == 2 { number - 1 } else { number };
    let word = |n: usize| format!("{:x}", (of * 101 + n + 1).wrapping_mul(0x9e37_79b9_7f4a));
    let words: Vec<String> = (0..60).map(word).collect();
    let mut text: Vec<String> = words.chunks(12).map(|words| words.join(" ")).collect();
    text.push(format!("printed by the paper of place {}", ["ash", "elm", "oak"][number % 3]));
    let fields = Fields { title: None, body: &[&text.join(". ")] };
    let method = Method::Verified;
    ForestDocument {
        features: method.read_with(&fields, Attributes::default(), &mut Workspace::default()),
        when: DocumentTime::At(at),
        title: Some(number as u32),
        id: Default::default(),
        given: None,
    }
}

/// One arrives a minute.
fn place(forest: &dyn ForestPort, numbers: std::ops::Range<usize>, at: Option<Millis>) -> Vec<RootAssignment> {
    let arrival = |number: usize| at.unwrap_or(Millis(60_000 * (number as i64 + 1)));
    let batch = Batch { documents: numbers.map(|number| story(number, arrival(number))).collect(), ..Batch::default() };
    let replies = block_on(forest.place(batch)).unwrap().replies;
    let placed = replies.into_iter().map(|reply| reply.placed.unwrap());
    placed.collect()
}

fn settle(forest: &dyn ForestPort, placed: Vec<RootAssignment>) {
    let settlements = placed.into_iter().filter_map(|placed| placed.settled(ItemOutcome::Accepted));
    block_on(forest.settle(settlements.collect(), Millis(0))).unwrap();
}

fn state_of<F: MethodKind>(copied: &dyn Copied, empty: ForestState<F>) -> ForestState<F> {
    let mut restoring = Restoring::<F>::new(empty);
    let (section, bytes) = copied.begin().unwrap();
    restoring.part(section, &bytes).unwrap();
    let mut portions = Portions::default();
    while let Some((section, bytes)) = copied.next(&mut portions).unwrap() {
        restoring.part(section, &bytes).unwrap();
    }
    restoring.finish()
}

/// Fingerprint, root, documents, and whether there is founder tokens, of all nodes.
fn rows_of(copied: &dyn Copied) -> Vec<(Fingerprint, Root, u32, bool)> {
    let empty = ForestState::new(settings(), Similarity::default(), LearnedText::default());
    let state = state_of::<Verified>(copied, empty.unwrap());
    let forest = state.forest();
    let row = |node: NodeView<'_, _>| {
        let documents = forest.tree(node.root).unwrap().documents;
        let has_founder_tokens = forest.founder_tokens.get(node.root.0).is_some();
        (node.fingerprint, node.root, documents, has_founder_tokens)
    };
    let mut rows: Vec<_> = forest.nodes().into_iter().map(row).collect();
    rows.sort_unstable();
    rows
}

fn silent() -> Arc<ReportProgress<'static>> {
    Arc::new(|_| ())
}

#[test]
fn a_forest_goes_into_redis_and_comes_back() {
    let (own, redis) = (local(), InMemoryRedis::default());
    let placed = place(&own, 0..60, None);
    let roots: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
    assert!((2..60).step_by(3).all(|n| roots[n] == roots[n - 1]));
    settle(&own, placed);
    let merge = Override::Merge { winner: roots[0], losers: vec![roots[3]] };
    block_on(own.add_override(merge, Vec::new())).unwrap().unwrap();
    redis.advance(60_000 * 60);
    let sharing = shared(&redis);
    assert!(block_on(Transfer::is_empty(&sharing)).unwrap());
    let most = Arc::new(AtomicU64::new(0));
    let told = most.clone();
    let told: Arc<ReportProgress<'static>> = Arc::new(move |progress| {
        assert!(progress.done <= progress.total);
        told.fetch_max(progress.done, Relaxed);
    });
    let rows = rows_of(&*own.copied());
    let carried = block_on(sharing.fill(own.copied(), told)).unwrap();
    let all = TransferReport { nodes: rows.len() as u64, roots: 40, skipped: 0, boilerplate: 0 };
    assert_eq!((carried, most.load(Relaxed)), (all, all.nodes));
    assert!(!block_on(Transfer::is_empty(&sharing)).unwrap());
    // Again: what stands there stays.
    let again = block_on(sharing.fill(own.copied(), silent())).unwrap();
    assert_eq!((again.nodes, again.skipped), (0, all.nodes));
    let summary = block_on(sharing.summary(3, silent())).unwrap();
    assert_eq!((summary.nodes, summary.roots), (rows.len(), 40));
    assert_eq!(summary.sizes, [(1, 20), (2, 20)]);
    assert_eq!(summary.largest.len(), 3);

    let back = local();
    let poured = block_on(sharing.import(back.copied(), silent())).unwrap();
    assert_eq!(poured, all);
    assert_eq!(rows_of(&*back.copied()), rows);
    // What people have said comes along, with what is to be stamped anew.
    let said = block_on(own.overrides()).unwrap();
    assert_eq!((said.iter().count(), said.unfinished().count()), (1, 1));
    assert_eq!(block_on(sharing.overrides()).unwrap(), said);
    assert_eq!(block_on(back.overrides()).unwrap(), said);
    // Whoever comes again is known in both, and what is new is not.
    for forest in [&sharing as &dyn ForestPort, &back] {
        let now = Some(Millis(60_000 * 60));
        let placed = place(forest, 0..61, now);
        let found: Vec<Root> = placed[..60].iter().map(|placed| placed.root).collect();
        assert_eq!(found, roots);
        assert!(placed[..60].iter().all(|p| p.decision == Decision::Refreshed));
        assert_eq!(placed[60].decision, Decision::NewRoot);
    }
    assert!(block_on(sharing.clear()).unwrap() > all.nodes);
    assert!(block_on(Transfer::is_empty(&sharing)).unwrap());
}

/// Near fingerprints find those that were carried, by the names that go along.
#[test]
fn a_forest_with_a_distance_goes_there_and_back() {
    const K: Distance = Distance(3);
    let settings = Settings { k: K, ..settings() };
    let local = || LocalForest::<Strict>::new("test", settings, (), (), Arc::new(Inline)).unwrap();
    let (own, back, redis) = (local(), local(), InMemoryRedis::default());
    let sharing = |seed: u32| {
        let settings = SharedSettings { window: Some(WINDOW), max_tree: None, founder_token_bytes: 0 };
        let of = ("test", "k=3");
        let keys = Arc::new(redis.clone());
        SharedForest::<Strict>::new(
            ForestSetup { name: of.0, identity: of.1, settings, thresholds: (), learned: () },
            Arc::new(Inline),
            keys,
            u64::from(seed) << 32,
        )
        .with_distance(SharedDistance::new(K).unwrap())
    };
    // With so many bits turned over.
    let document = |story: u64, bits: u64| {
        let bit = |n: u64| 1 << (splitmix64(story << 8 | n) % 64);
        let whole = (0..bits).fold(splitmix64(story), |flipped, n| flipped ^ bit(n));
        let features = StrictFeatures { fingerprints: vec![Fingerprint(whole)], whole: Fingerprint(whole) };
        ForestDocument {
            features: Some(Features::Strict(features)),
            when: DocumentTime::At(Millis(60_000)),
            title: None,
            id: Default::default(),
            given: None,
        }
    };
    let placed_by = |forest: &dyn ForestPort, bits: u64| {
        let batch = Batch { documents: (0..50).map(|story| document(story, bits)).collect(), ..Batch::default() };
        let replies = block_on(forest.place(batch)).unwrap().replies;
        let placed = replies.into_iter().map(|reply| reply.placed.unwrap());
        placed.collect::<Vec<RootAssignment>>()
    };
    let roots: Vec<Root> = placed_by(&own, 0).iter().map(|placed| placed.root).collect();
    placed_by(&own, 1);
    redis.advance(60_000);
    let carried = block_on(sharing(1).fill(own.copied(), silent())).unwrap();
    let all = TransferReport { nodes: 100, roots: 50, skipped: 0, boilerplate: 0 };
    assert_eq!(carried, all);
    let summary = block_on(sharing(2).summary(1, silent())).unwrap();
    assert_eq!((summary.nodes, summary.roots), (100, 50));
    let poured = block_on(sharing(3).import(back.copied(), silent())).unwrap();
    assert_eq!(poured, all);
    for forest in [&sharing(4) as &dyn ForestPort, &back] {
        for (bits, is_known) in [(0, true), (1, true), (2, false)] {
            let placed = placed_by(forest, bits);
            let found: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
            assert_eq!(found, roots, "{bits}");
            let known = placed.iter().all(|p| p.decision == Decision::Refreshed);
            assert_eq!(known, is_known, "{bits}");
        }
    }
}

#[test]
fn what_is_older_than_the_window_stays_behind() {
    let (own, redis) = (local(), InMemoryRedis::default());
    settle(&own, place(&own, 0..30, None));
    let rows = rows_of(&*own.copied());
    // The first half has gone by now, and two steps more that roots are kept.
    redis.advance(WINDOW.0 + 60_000 * 18);
    let sharing = shared(&redis);
    let carried = block_on(sharing.fill(own.copied(), silent())).unwrap();
    assert!(carried.skipped > 0 && carried.nodes > 0, "{carried:?}");
    assert_eq!(carried.nodes + carried.skipped, rows.len() as u64);
    let back = local();
    let poured = block_on(sharing.import(back.copied(), silent())).unwrap();
    assert_eq!(poured.nodes, carried.nodes);
    let now = Some(Millis(WINDOW.0 + 60_000 * 18));
    let placed = place(&sharing, 0..30, now);
    assert_eq!(placed[0].decision, Decision::NewRoot);
    assert_eq!(placed[29].decision, Decision::Refreshed);
}
