//! What a Redis holds at the edge of a window: no more after many of them than after the first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::port::{ForestPort, ItemOutcome};
use spinney::forest::shared::keys::{KeyKind, RedisClient, ScanPosition};
use spinney::forest::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings};
use spinney::hash::splitmix64;
use spinney::method::{
    Attributes, Features, LearnedText, Method, MethodKind, Proof, Similarity, Strict, StrictFeatures, Verified,
    Workspace,
};
use spinney::text::Fields;
use spinney::time::Millis;

use super::{Threads, place, settle, store};
use crate::common::redis::Redis;
use crate::common::wait_until;

/// Of arrivals, which Redis' own clock tells, and of dates.
const WINDOW: Millis = Millis(640);
/// Steps in a window.
const STEPS: u64 = 64;
const BULK: u64 = 10;

/// Keys that a document makes which no other one is near: at most four nodes and its evidence; or one node, and its
/// names.
const KEYS: u64 = 5;
const NEAR_KEYS: u64 = 11;
/// Those of no document: the lessons, the clock, what a bucket more or less.
const OTHERS: u64 = 12;

fn of_texts(number: u64) -> Features {
    let word = |n: u64| format!("{:x}", splitmix64(number.wrapping_mul(1_000) ^ n) >> 40);
    let words: Vec<String> = (0..60).map(word).collect();
    let text: Vec<String> = words.chunks(12).map(|words| words.join(" ")).collect();
    let fields = Fields { title: None, body: &[&text.join(". ")] };
    let method = Method::Verified;
    let features = method.read_with(&fields, Attributes::default(), &mut Workspace::default());
    features.unwrap()
}

fn of_fingerprints(number: u64) -> Features {
    let fingerprint = Fingerprint(splitmix64(number));
    Features::Strict(StrictFeatures { fingerprints: vec![fingerprint], whole: fingerprint })
}

fn forest<F: MethodKind>(
    store: &Arc<dyn RedisClient>,
    name: &str,
    thresholds: <F::Proof as Proof>::Thresholds,
    learned: F::Learned,
) -> SharedForest<F> {
    let settings = SharedSettings { window: Some(WINDOW), max_tree: None, founder_token_bytes: 64 << 20 };
    let (of, threads) = ((name, "weeks"), Arc::new(Threads));
    let (store, seed) = (store.clone(), 1 << 32);
    SharedForest::new(ForestSetup { name: of.0, identity: of.1, settings, thresholds, learned }, threads, store, seed)
}

/// Living keys of a forest.
fn keys(store: &dyn RedisClient, name: &str, counts: impl Fn(KeyKind) -> bool) -> u64 {
    let forests = block_on(store.forests()).unwrap();
    let number = forests.iter().find(|(known, ..)| known == name).unwrap().1;
    let (mut keys, mut place) = (Vec::new(), Some(ScanPosition::default()));
    while let Some(at) = place {
        let (more, next) = block_on(store.keys(number, at)).unwrap();
        keys.extend(more.into_iter().filter(|key| counts(key.kind)));
        place = next;
    }
    keys.sort_unstable();
    keys.dedup();
    keys.len() as u64
}

/// Places and settles new documents, and one that comes all the time.
fn come(forest: &dyn ForestPort, bulk: u64, features: fn(u64) -> Features, when: DocumentTime) {
    let numbers = (bulk * BULK..(bulk + 1) * BULK).chain([u64::MAX >> 20]);
    let documents = numbers.map(|number| ForestDocument {
        features: Some(features(number)),
        when,
        title: None,
        id: Default::default(),
        given: None,
    });
    let placed = place(forest, documents.collect());
    settle(forest, placed, ItemOutcome::Accepted);
}

/// Documents arrive for six windows and more.
fn arrive(store: &dyn RedisClient, name: &str, forest: &dyn ForestPort, each: u64, of: fn(u64) -> Features) {
    let window = Duration::from_millis(WINDOW.0.cast_unsigned());
    // A root lives for three steps more than a window, the one in which it arrived is not over yet, and clocks have
    // milliseconds.
    let life = window + window * 5 / STEPS as u32;
    let mut came: Vec<Instant> = Vec::new();
    let (mut counted, mut windows) = (Instant::now(), 0);
    loop {
        let now = DocumentTime::At(Millis(i64::MAX));
        come(forest, came.len() as u64, of, now);
        came.push(Instant::now());
        if counted.elapsed() < window {
            continue;
        }
        (counted, windows) = (Instant::now(), windows + 1);
        let living = |came: &&Instant| counted.duration_since(**came) < life;
        let living = came.iter().filter(living).count() as u64 * BULK;
        let there = keys(store, name, |_| true);
        let most = each * (living + 1) + OTHERS;
        assert!(there <= most, "{name}: {there} keys for {living} documents");
        let all = came.len() as u64 * BULK;
        // Until it tells something.
        if windows >= 6 && all > 3 * living {
            return;
        }
        assert!(windows < 60, "{name}: {living} of {all} documents");
    }
}

/// Documents have dates of eight windows.
fn say_dates(store: &dyn RedisClient, name: &str, forest: &dyn ForestPort, each: u64, of: fn(u64) -> Features) {
    const BULKS: u64 = 10;
    for bulk in 0..8 * BULKS {
        let date = bulk as i64 * WINDOW.0 / BULKS as i64;
        come(forest, bulk, of, DocumentTime::Claimed(Millis(date)));
        if bulk % BULKS == BULKS - 1 {
            // Nodes go when they are over by an eighth of the window, names by a half.
            let most = each * (BULK * BULKS * 14 / 8 + 1) + OTHERS;
            let nodes = |kind| matches!(kind, KeyKind::Node | KeyKind::Bucket);
            wait_until("what is over goes", || {
                // Whoever comes sees to it.
                come(forest, bulk, of, DocumentTime::Claimed(Millis(date)));
                keys(store, name, nodes) <= most
            });
        }
    }
}

#[test]
fn weeks_leave_no_more_than_one() {
    let redis = Redis::start();
    let store = store(&redis);
    std::thread::scope(|scope| {
        let texts = |name| {
            let (similarity, learned) = (Similarity::default(), LearnedText::default());
            forest::<Verified>(&store, name, similarity, learned)
        };
        let near =
            |name| forest::<Strict>(&store, name, (), ()).with_distance(SharedDistance::new(Distance(3)).unwrap());
        let (of_arrivals, of_dates) = (texts("arrivals"), texts("dates").dated());
        let (near_arrivals, near_dates) = (near("near"), near("near dates").dated());
        let store = &*store;
        scope.spawn(move || arrive(store, "arrivals", &of_arrivals, KEYS, of_texts));
        scope.spawn(move || arrive(store, "near", &near_arrivals, NEAR_KEYS, of_fingerprints));
        scope.spawn(move || say_dates(store, "dates", &of_dates, KEYS, of_texts));
        let near_dates = move || say_dates(store, "near dates", &near_dates, NEAR_KEYS, of_fingerprints);
        scope.spawn(near_dates);
    });
}
