//! Forests of short texts that several processes share by a Redis: names of nodes in one log, and a mirror of it in
//! each process.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use spinney::fingerprint::Fingerprint;
use spinney::forest::document::{DocumentTime, PlacementDocument};
use spinney::forest::port::{ForestPort, ItemOutcome};
use spinney::forest::shared::keys::{Command, Followed, Key, KeyKind, KeyOp, Lifetime, StoreReply};
use spinney::forest::shared::{SharedForest, SharedSettings};
use spinney::forest::{Decision, Root};
use spinney::hash::splitmix64;
use spinney::method::{Attributes, Features, Method, Short, WIDE, Workspace};
use spinney::text::Fields;
use spinney::time::Millis;

use super::{Threads, info, place, race, settle, store};
use crate::common::redis::Redis;

/// One of several processes' forests of short texts.
fn forest(redis: &Redis, seed: u64) -> SharedForest<Short> {
    let settings = SharedSettings { window: Some(Millis(24 * 3_600_000)), max_tree: None, evidence_bytes: 0 };
    let of = ("names", "of short texts");
    let (threads, keys) = (Arc::new(Threads), store(redis));
    SharedForest::new(of, settings, (), (), threads, keys, seed << 32).with_distance(WIDE).unwrap()
}

/// A short text of a number, and the same with another last word for each version, whose fingerprint is so many bits
/// from it.
fn document(number: u64, version: u64, bits: u32) -> PlacementDocument {
    let word = |n: u64| format!("{:x}", splitmix64(number << 8 | n) >> 24);
    let mut words: Vec<String> = (0..8).map(word).collect();
    if version > 0 {
        words.push(format!("v{version}"));
    }
    let read = |words: &[String]| {
        let fields = Fields { title: None, body: &[&words.join(" ")] };
        let method: Method = "short".parse().unwrap();
        method.read_with(&fields, Attributes::default(), &mut Workspace::default())
    };
    let (own, first) = (read(&words), read(words.get(..8).unwrap()));
    let (Some(Features::Short(mut own)), Some(Features::Short(first))) = (own, first) else {
        panic!("it is no short text");
    };
    let print = first.prints.fingerprints[0].0;
    let flips = (0..u64::from(bits)).map(|n| splitmix64(number ^ version << 32 ^ n << 40) % 64);
    let flipped = flips.fold(print, |flipped, bit| flipped ^ 1 << bit);
    own.prints.fingerprints = vec![Fingerprint(flipped)];
    PlacementDocument {
        features: Some(Features::Short(own)),
        when: DocumentTime::At(Millis(i64::MAX)),
        title: None,
        given: None,
    }
}

/// What a page says: whether it is from the beginning, whether it is to the end, the last entry, names and their steps.
type Page = (bool, bool, Followed, Vec<(u64, u32)>);

fn page(bytes: &[u8]) -> Page {
    let number = |from: usize, to: usize| {
        let bytes = bytes[from..to].iter();
        bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let end = Followed { number: number(1, 9), mark: number(9, 13) as u32 };
    let (mut names, mut at) = (Vec::new(), 13);
    while at < bytes.len() {
        let (count, step) = (number(at, at + 2) as usize, number(at + 2, at + 6) as u32);
        at += 6;
        names.extend((0..count).map(|n| (number(at + 8 * n, at + 8 * n + 8), step)));
        at += 8 * count;
    }
    (bytes[0] & 1 != 0, bytes[0] & 2 != 0, end, names)
}

#[test]
fn a_log_of_names_is_written_and_read() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        let store = store(&redis);
        let run = |what: KeyOp| {
            let key = Key { forest: 1, fingerprint: Fingerprint(0), kind: KeyKind::Log };
            let replies = block_on(store.run(vec![Command { key, what }])).unwrap();
            replies.into_iter().next().unwrap()
        };
        let name = |names: &[u64], step, mark, most| {
            let what = KeyOp::Name {
                names: names.iter().copied().map(Fingerprint).collect(),
                step,
                mark,
                kept: Some(80),
                most,
                life: Lifetime::For(Duration::from_secs(60)),
            };
            match run(what) {
                StoreReply::Number(names) => names,
                other => panic!("{other:?}"),
            }
        };
        let follow = |after: Followed, bytes| match run(KeyOp::Follow { after, bytes }) {
            StoreReply::Bytes(bytes) => page(&bytes),
            other => panic!("{other:?}"),
        };
        let none = Followed::default();
        assert_eq!(follow(none, 99), (true, true, none, vec![]));
        assert_eq!(name(&[5, 6], 1, !0, 1_000), 2);
        assert_eq!(name(&[u64::MAX], 2, 0, 1_000), 3);
        let first = (vec![(5, 1), (6, 1)], Followed { number: 2, mark: !0 });
        let end = Followed { number: 3, mark: 0 };
        let all = vec![(5, 1), (6, 1), (u64::MAX, 2)];
        assert_eq!(follow(none, 99), (true, true, end, all.clone()));
        assert_eq!(follow(first.1, 99), (false, true, end, vec![(u64::MAX, 2)]));
        assert_eq!(follow(end, 99), (false, true, end, vec![]));
        // Another mark, or no such entry: the log is another one.
        for after in [(3, 1), (9, 0), (1, 0)] {
            let after = Followed { number: after.0, mark: after.1 };
            assert_eq!(follow(after, 99), (true, true, end, all.clone()));
        }
        // In parts of 64 entries at least, to the present end.
        for n in 0..200 {
            name(&[n], 3, n as u32, 1_000);
        }
        let (mut after, mut pages, mut names) = (none, 0, Vec::new());
        loop {
            let (is_new, is_all, end, more) = follow(after, 1);
            assert_eq!(is_new, after == none);
            names.extend(more);
            (after, pages) = (end, pages + 1);
            if is_all {
                break;
            }
        }
        assert_eq!((pages, names.len(), after.number), (4, 203, 203));
        // What is over goes, four entries at a time; what is of a later step than all others does not make the others
        // go.
        assert_eq!(name(&[7], 83, 7, 1_000), 204 - 3);
        assert_eq!(follow(after, 99), (false, true, Followed { number: 204, mark: 7 }, vec![(7, 83)]));
        assert_eq!(name(&[8], 83, 8, 1_000), 202);
        assert_eq!(name(&[9], 84, 8, 1_000), 203 - 4);
        // So do the first of too many.
        assert_eq!(name(&[10], 83, 8, 198), 198);
        let after_a_gap = Followed { number: 3, mark: 0 };
        assert!(follow(after_a_gap, 1 << 20).0);
        assert_eq!(run(KeyOp::Clear), StoreReply::Number(1));
        assert_eq!(run(KeyOp::Clear), StoreReply::Number(0));
        assert_eq!(follow(end, 99), (true, true, none, vec![]));
    }
}

#[test]
fn near_short_texts_that_come_at_once_get_one_root() {
    const STORIES: u64 = 600;
    for redis in [Redis::start(), Redis::cluster(3)] {
        for processes in [2, 3] {
            // At most ten bits from each other.
            let near = |story: u64, process: u64| document(story ^ processes << 30, process, 5 * process.min(1) as u32);
            let found = race(processes, STORIES, |process| forest(&redis, process + 1), near);
            let roots: HashSet<Root> = found.iter().map(|&(_, root)| root).collect();
            assert_eq!(roots.len(), STORIES as usize);
        }
        // One that begins now knows them all, by texts that nobody has seen.
        let late = forest(&redis, 9);
        let placed = place(&late, (0..50).map(|n| document(n ^ 3 << 30, 9, 4)).collect());
        let is_joined = |decision| matches!(decision, Decision::Joined { .. });
        assert!(placed.iter().all(|placed| is_joined(placed.decision)));
        let shared = block_on(late.stats()).unwrap().shared.unwrap();
        assert!(shared.names > 1_200 && shared.mirror_bytes > 0, "{shared:?}");
    }
}

/// Keys, memory and processor time for a document: three of ten are near an earlier one. The log of a cluster is on one
/// master, which is what sets its limit.
#[test]
#[ignore = "a measurement"]
fn what_short_texts_cost() {
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    for (masters, count) in [(1, 20_000_u64), (3, 20_000), (1, 200_000)] {
        let redis = match masters {
            1 => Redis::start(),
            _ => Redis::cluster(masters),
        };
        let forest = forest(&redis, 1);
        place(&forest, vec![document(1 << 40, 0, 0)]);
        let sum = |section: &str, field: &str| info(&redis, section, field);
        let cpu = || sum("cpu", "used_cpu_user") + sum("cpu", "used_cpu_sys");
        let (memory, cpu_before) = (sum("memory", "used_memory"), cpu());
        let before = block_on(forest.stats()).unwrap().shared.unwrap();
        let (mut took, bulk_size) = (Duration::ZERO, 1_000);
        for bulk in (0..count).collect::<Vec<_>>().chunks(bulk_size) {
            let each = bulk.iter().map(|&number| match number % 10 {
                0..3 if number > 100 => {
                    let earlier = splitmix64(number) % number / 10 * 10 + 5;
                    document(earlier, number, (number % 6) as u32)
                }
                _ => document(number, 0, 0),
            });
            let documents = each.collect();
            let begun = Instant::now();
            let placed = place(&forest, documents);
            settle(&forest, placed, ItemOutcome::Accepted);
            took += begun.elapsed();
        }
        let used = (cpu() - cpu_before) / count as f64 * 1e6;
        let memory = (sum("memory", "used_memory") - memory) / count as f64;
        let after = block_on(forest.stats()).unwrap();
        let nodes = after.nodes as f64 / count as f64;
        let after = after.shared.unwrap();
        let commands = (after.commands - before.commands) as f64 / count as f64;
        let rounds = (after.round_trips - before.round_trips) as f64 * 1_000.0 / count as f64;
        println!(
            "{masters} masters, {count} documents: {commands:.1} keys, {nodes:.2} nodes and {memory:.0} bytes a document, {rounds:.1} round trips \
             a bulk of 1,000, {used:.1} µs of Redis a document ({:.0} a second of it), {:.0} documents a second, mirror: {} names, {:.1} bytes \
             each; load {}",
            1e6 / used,
            count as f64 / took.as_secs_f64(),
            after.names,
            after.mirror_bytes as f64 / after.names as f64,
            load().trim()
        );
    }
}

/// What one log takes, written and read as it is by many sidecars.
#[test]
#[ignore = "a measurement"]
fn what_a_log_takes() {
    for of_entry in [2_u64, 1_000] {
        let redis = Redis::start();
        let store = store(&redis);
        let key = Key { forest: 1, fingerprint: Fingerprint(0), kind: KeyKind::Log };
        let run = |what: Vec<KeyOp>| {
            let commands = what.into_iter().map(|what| Command { key, what });
            block_on(store.run(commands.collect())).unwrap()
        };
        let of_redis = |section: &str, field: &str| info(&redis, section, field);
        let cpu = || of_redis("cpu", "used_cpu_user") + of_redis("cpu", "used_cpu_sys");
        run(vec![KeyOp::Clear]);
        let (before, memory) = (cpu(), of_redis("memory", "used_memory"));
        let names = 1_000_000_u64;
        let entries: Vec<u64> = (0..names / of_entry).collect();
        for some in entries.chunks(100) {
            let each = some.iter().map(|&entry| KeyOp::Name {
                names: (0..of_entry).map(|n| Fingerprint(splitmix64(entry << 20 | n))).collect(),
                step: 1,
                mark: entry as u32,
                kept: Some(80),
                most: 1 << 26,
                life: Lifetime::For(Duration::from_secs(600)),
            });
            run(each.collect());
        }
        let (written, memory) = (cpu() - before, of_redis("memory", "used_memory") - memory);
        let (before, begun) = (cpu(), Instant::now());
        let (mut after, mut read, mut pages) = (Followed::default(), 0, 0);
        loop {
            let bytes = 1 << 20;
            let Some(StoreReply::Bytes(bytes)) = run(vec![KeyOp::Follow { after, bytes }]).pop() else {
                panic!("no page");
            };
            let (_, is_all, end, names) = page(&bytes);
            (after, read, pages) = (end, read + names.len(), pages + 1);
            if is_all {
                break;
            }
        }
        let took = begun.elapsed().as_secs_f64();
        let used = cpu() - before;
        println!(
            "entries of {of_entry}: {:.1} bytes a name, {:.2} µs of Redis to write one and {:.3} µs to read it; {read} \
             read in {pages} pages, {took:.2} s",
            memory / names as f64,
            written / names as f64 * 1e6,
            used / names as f64 * 1e6
        );
    }
}
