//! Forests that several processes share by a Redis, of near fingerprints and of documents with dates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::Decision;
use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::port::{ForestPort, ItemOutcome};
use spinney::forest::shared::keys::{Command, FoundingToken, Key, KeyKind, KeyOp, Lifetime, PinNonce, RedisReply};
use spinney::forest::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings};
use spinney::hash::splitmix64;
use spinney::method::{Features, Strict, StrictFeatures};
use spinney::time::Millis;

use super::{Threads, info, place, race, settle, store};
use crate::common::redis::Redis;

/// One of several processes' forests, in which fingerprints of three bits' difference are near.
pub(super) fn forest(redis: &Redis, window: i64, seed: u64) -> SharedForest<Strict> {
    let settings = SharedSettings { window: Some(Millis(window)), max_tree: None, founder_token_bytes: 0 };
    let of = ("near", "of near fingerprints");
    let (threads, keys) = (Arc::new(Threads), store(redis));
    SharedForest::new(
        ForestSetup { name: of.0, identity: of.1, settings, thresholds: (), learned: () },
        threads,
        keys,
        seed << 32,
    )
    .with_distance(SharedDistance::new(Distance(3)).unwrap())
}

fn document(fingerprint: u64, when: DocumentTime) -> ForestDocument {
    let fingerprint = Fingerprint(fingerprint);
    ForestDocument {
        features: Some(Features::Strict(StrictFeatures { fingerprints: vec![fingerprint], whole: fingerprint })),
        when,
        title: None,
        id: Default::default(),
        given: None,
    }
}

/// By Redis' clock.
const NOW: DocumentTime = DocumentTime::At(Millis(i64::MAX));

#[test]
fn keys_of_dates_and_names_are_changed_as_the_protocol_needs_it() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        let store = store(&redis);
        let run = |kind: KeyKind, what: KeyOp| {
            let key = Key { forest: 1, fingerprint: Fingerprint(5), kind };
            let replies = block_on(store.run(vec![Command { key, what }])).unwrap();
            replies.into_iter().next().unwrap()
        };
        let get = |kind| match run(kind, KeyOp::Get) {
            RedisReply::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        let life = Lifetime::For(Duration::from_secs(60));

        // It only goes forward, also from before 1970.
        for (to, shown) in [(-5, -5), (-7, -5), (1 << 44, 1 << 44), (9, 1 << 44)] {
            let to = Millis(to);
            assert_eq!(run(KeyKind::Clock, KeyOp::Advance { to }), RedisReply::Number(shown));
        }
        assert_eq!(get(KeyKind::Clock), (1_i64 << 44).to_string().into_bytes());

        let token = FoundingToken(0x0A_0B_0C);
        // | 1 | token 3 | added 6 | step, uses, nonce, children, before | proof | upper half of the step |
        let root = |[step, uses, children, before]: [u16; 4], nonce: u16, upper: u16| {
            let mut bytes = vec![1, 0x0A, 0x0B, 0x0C, 0, 0, 0, 0, 0, 9];
            for number in [step, uses, nonce, children, before] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.extend(b"proof");
            bytes.extend(upper.to_be_bytes());
            bytes
        };
        let put = |value: Vec<u8>| KeyOp::Put { value, life };
        run(KeyKind::Node, put(root([70, 1, 5, 1], 0, 3)));
        for is_sent_again in [false, true] {
            let hold = KeyOp::Hold { token, uses: 2, children: 3, nonce: PinNonce { number: 1, is_sent_again } };
            assert_eq!(run(KeyKind::Node, hold), RedisReply::Number(1));
            assert_eq!(get(KeyKind::Node), root([70, 3, 8, 1], 1, 3));
        }
        let arrive = |token, step| KeyOp::Arrive { token, step, life };
        let at = |upper: u32, lower: u32| upper << 16 | lower;
        assert_eq!(run(KeyKind::Node, arrive(FoundingToken(7), at(3, 71))), RedisReply::Number(0));
        // The same and an earlier one change nothing, whatever their lower halves.
        for step in [at(3, 70), at(2, 65_000)] {
            assert_eq!(run(KeyKind::Node, arrive(token, step)), RedisReply::Number(1));
            assert_eq!(get(KeyKind::Node), root([70, 3, 8, 1], 1, 3));
        }
        assert_eq!(run(KeyKind::Node, arrive(token, at(3, 130))), RedisReply::Number(1));
        assert_eq!(get(KeyKind::Node), root([130, 3, 0, 8], 1, 3));
        assert_eq!(run(KeyKind::Node, arrive(token, at(9, 1))), RedisReply::Number(1));
        assert_eq!(get(KeyKind::Node), root([1, 3, 0, 0], 1, 9));

        let leaf = |root: u64, step: u32| {
            let mut bytes = root.to_be_bytes().to_vec();
            bytes.extend(token.bytes());
            bytes.extend(step.to_be_bytes());
            bytes
        };
        let touch = |value: Vec<u8>| KeyOp::Touch { value, life };
        let remove = |root| KeyOp::RemoveLeaf { root: Fingerprint(root), token };
        assert_eq!(run(KeyKind::Node, touch(leaf(7, 9))), RedisReply::Number(0), "a root");
        assert_eq!(run(KeyKind::Node, remove(7)), RedisReply::Number(0));
        run(KeyKind::Node, put(leaf(7, at(1, 5))));
        assert_eq!(run(KeyKind::Node, touch(leaf(8, at(9, 9)))), RedisReply::Number(0));
        assert_eq!(run(KeyKind::Node, touch(leaf(7, at(0, 9)))), RedisReply::Number(1));
        assert_eq!(get(KeyKind::Node), leaf(7, at(1, 5)));
        assert_eq!(run(KeyKind::Node, touch(leaf(7, at(2, 0)))), RedisReply::Number(1));
        assert_eq!(get(KeyKind::Node), leaf(7, at(2, 0)));
        assert_eq!(run(KeyKind::Node, remove(8)), RedisReply::Number(0));
        assert_eq!(run(KeyKind::Node, remove(7)), RedisReply::Number(1));
        assert_eq!(run(KeyKind::Node, remove(7)), RedisReply::Number(0));
        assert_eq!(run(KeyKind::Node, touch(leaf(7, 1))), RedisReply::Number(1), "put back");

        let enter = |name: u64, step| KeyOp::Enter { fingerprint: Fingerprint(name), step, life };
        let names = || -> Vec<(u64, u8)> {
            let bytes = get(KeyKind::Bucket);
            let (entries, rest) = bytes.as_chunks::<9>();
            assert!(rest.is_empty());
            let name = |entry: &[u8; 9]| u64::from_be_bytes(*entry.first_chunk().unwrap());
            entries.iter().map(|entry| (name(entry), entry[8])).collect()
        };
        for (name, step, count) in [(1, 250, 1), (2, 255, 2), (1, 3, 2), (!0, 4, 3)] {
            assert_eq!(run(KeyKind::Bucket, enter(name, step)), RedisReply::Number(count));
        }
        assert_eq!(names(), [(2, 255), (1, 3), (!0, 4)]);
        // Of a window and three steps ago, and one that is older.
        assert_eq!(run(KeyKind::Bucket, enter(5, 67)), RedisReply::Number(3));
        assert_eq!(names(), [(1, 3), (!0, 4), (5, 67)]);
        for name in 100..1_300 {
            run(KeyKind::Bucket, enter(name, 68));
        }
        let names = names();
        assert_eq!((names.len(), names[1_023]), (1_024, (1_299, 68)));
    }
}

#[test]
fn near_ones_that_come_at_once_get_one_root() {
    const STORIES: u64 = 600;
    for redis in [Redis::start(), Redis::cluster(3)] {
        for processes in [2, 3] {
            // At most two bits from each other.
            let near = |story: u64, process: u64| {
                let own = if process == 0 { 0 } else { 1 << ((story % 32 + 20 * process) % 64) };
                document(splitmix64(story ^ processes << 50) ^ own, NOW)
            };
            let forest = |process| forest(&redis, 3_600_000, process + 1);
            let found = race(processes, STORIES, forest, near);
            assert_eq!(found.len(), STORIES as usize);
        }
        // Reckoned from a sample, of which most are names.
        let stats = block_on(forest(&redis, 3_600_000, 9).stats()).unwrap();
        let shared = stats.shared.unwrap();
        assert!(shared.sampled > 1_000 && shared.sampled <= shared.keys, "{shared:?}");
        let is_about = |found: usize, right: usize| found.abs_diff(right) * 2 < right;
        assert!(is_about(stats.roots, 1_200), "{}", stats.roots);
        assert!(is_about(stats.nodes, 3_000), "{}", stats.nodes);
    }
}

#[test]
fn dates_are_shared_and_what_is_over_goes() {
    let redis = Redis::cluster(3);
    let window = 64_000;
    let forests = [1, 2].map(|seed| forest(&redis, window, seed).dated());
    let at = |number: u64, date| document(splitmix64(number), DocumentTime::Claimed(Millis(date)));
    let mut most = 0;
    for n in 0..300_u64 {
        let date = n as i64 * window / 10;
        let forest = &forests[n as usize % 2];
        // One that comes all the time, a new one, and one that came when it was half as late.
        let mut documents = vec![at(7, date), at(1_000 + n, date)];
        documents.extend((n > 0 && n % 2 == 0).then(|| at(1_000 + n / 2, 0)));
        let placed = place(forest, documents);
        let decisions: Vec<Decision> = placed.iter().map(|placed| placed.decision).collect();
        let known = |is_known| {
            if is_known { Decision::Refreshed } else { Decision::NewRoot }
        };
        let mut expected = vec![known(n > 0), Decision::NewRoot];
        // Its own date does not count yet: it comes at the one before.
        expected.extend((n > 0 && n % 2 == 0).then(|| known(n <= 22)));
        assert_eq!(decisions, expected, "{n}");
        settle(forest, placed, ItemOutcome::Accepted);
        if n % 50 == 49 {
            let stats = block_on(forest.stats()).unwrap();
            assert_eq!(stats.clock, Some(Millis(date)));
            most = most.max(stats.nodes);
        }
    }
    assert!(most < 60, "{most} of 300");
}

/// Keys, memory and processor time for a document: three of ten are near an earlier one.
#[test]
#[ignore = "a measurement"]
fn what_near_fingerprints_cost() {
    for count in [20_000_u64, 200_000] {
        let redis = Redis::start();
        let forest = forest(&redis, 24 * 3_600_000, 1);
        place(&forest, vec![document(1, NOW)]);
        let cpu = || info(&redis, "cpu", "used_cpu_user") + info(&redis, "cpu", "used_cpu_sys");
        let (memory, cpu_before) = (info(&redis, "memory", "used_memory"), cpu());
        let before = block_on(forest.stats()).unwrap().shared.unwrap();
        let begun = Instant::now();
        for bulk in (0..count).collect::<Vec<_>>().chunks(1_000) {
            let each = bulk.iter().map(|&number| {
                let random = splitmix64(number);
                let fingerprint = match number % 10 {
                    0..3 if number > 100 => splitmix64(random % number / 10 * 10 + 5) ^ 1 << (random >> 58),
                    _ => random,
                };
                document(fingerprint, NOW)
            });
            let placed = place(&forest, each.collect());
            settle(&forest, placed, ItemOutcome::Accepted);
        }
        let took = begun.elapsed().as_secs_f64();
        let used = (cpu() - cpu_before) / count as f64 * 1e6;
        let memory = (info(&redis, "memory", "used_memory") - memory) / count as f64;
        let after = block_on(forest.stats()).unwrap().shared.unwrap();
        let commands = (after.commands - before.commands) as f64 / count as f64;
        let rounds = (after.round_trips - before.round_trips) as f64 * 1_000.0 / count as f64;
        println!(
            "{count} documents: {commands:.1} keys and {memory:.0} bytes a document, {rounds:.1} round trips a bulk of \
             1,000, {used:.1} µs of Redis a document ({:.0} a second of it), {:.0} documents a second",
            1e6 / used,
            count as f64 / took
        );
    }
}
