//! Weeks of documents at the edge of a window of one week: what a Redis holds at the end of each.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use serde_json::json;
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::Decision;
use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::port::{Batch, ForestPort, ItemOutcome};
use spinney::forest::shared::keys::RedisClient;
use spinney::forest::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings};
use spinney::hash::splitmix64;
use spinney::method::{Features, MethodKind, Strict, StrictFeatures};
use spinney::time::Millis;

use super::redis::Node;
use super::reprints::story;
use super::stats::rounded;
use crate::{Inline, Read, read};

const BULK: u64 = 500;
/// How long a week of arrivals takes: the window is the engine's own.
const WEEK: Duration = Duration::from_secs(6);
/// A week of dates.
const DATES: i64 = 7 * 86_400_000;
/// How much more than at the end of the second week there may be at the end of the best of the last three: Redis
/// removes what has expired in bursts.
const FLAT: f64 = 1.08;

/// What is run.
struct Run {
    weeks: u64,
    /// Documents of a week.
    docs: u64,
    is_dated: bool,
    k: u32,
}

/// All clocks and both ways to find near fingerprints, each with a Redis of its own. Fails where anything grows.
pub fn all(weeks: u64, is_quick: bool, start: impl Fn() -> (Vec<Node>, Arc<dyn RedisClient>)) -> ExitCode {
    let docs = if is_quick { 6_000 } else { 24_000 };
    let back = docs / 2;
    let mut is_flat = true;
    for (k, is_dated) in [(0, false), (0, true), (3, false), (3, true)] {
        let run = Run { weeks, docs, is_dated, k };
        let (nodes, keys) = start();
        is_flat &= match k {
            0 => run.go::<Read>(Default::default(), (), &nodes, &keys, |n| read(back, n)),
            _ => run.go::<Strict>((), (), &nodes, &keys, |n| near(back, n)),
        };
    }
    ExitCode::from(u8::from(!is_flat))
}

/// One fingerprint, a bit or two from that of its story.
fn near(back: u64, n: u64) -> ForestDocument {
    let bit = |salt: u64| 1 << (splitmix64(n ^ salt << 50) % 64);
    let of = story(n, back);
    let own = if of == n { 0 } else { bit(1) | bit(2) };
    let fingerprint = Fingerprint(splitmix64(of) ^ own);
    ForestDocument {
        features: Some(Features::Strict(StrictFeatures { fingerprints: vec![fingerprint], whole: fingerprint })),
        when: DocumentTime::Still,
        title: None,
        id: Default::default(),
        given: None,
    }
}

impl Run {
    fn go<F: MethodKind>(
        &self,
        thresholds: <F::Proof as spinney::method::Proof>::Thresholds,
        learned: F::Learned,
        nodes: &[Node],
        keys: &Arc<dyn RedisClient>,
        document: impl Fn(u64) -> ForestDocument,
    ) -> bool {
        let window = match self.is_dated {
            true => Millis(DATES),
            false => Millis(WEEK.as_millis() as i64),
        };
        let settings = SharedSettings { window: Some(window), max_tree: None, founder_token_bytes: 0 };
        let clock = if self.is_dated { "field" } else { "arrival" };
        let name = format!("weeks-{clock}-{}", self.k);
        let (threads, keys) = (Arc::new(Inline), keys.clone());
        let of = (name.as_str(), "weeks");
        let forest = SharedForest::<F>::new(
            ForestSetup { name: of.0, identity: of.1, settings, thresholds, learned },
            threads,
            keys,
            1 << 32,
        );
        let k = SharedDistance::new(Distance(self.k)).expect("a distance of a shared forest");
        let mut forest = forest.with_distance(k);
        if self.is_dated {
            forest = forest.dated();
        }
        let held = || -> (f64, u64) {
            let each = nodes.iter().map(|node| node.info("memory", "used_memory"));
            let memory = each.sum();
            let shared = block_on(forest.stats()).unwrap().shared.unwrap();
            (memory, shared.keys)
        };
        let (empty, _) = held();
        let mut due = Instant::now();
        let bulks = self.docs / BULK;
        let (mut second, mut grown) = ((0.0, 0.0), Vec::new());
        for week in 0..self.weeks {
            let (mut joined, mut most, mut late) = (0, 0, Duration::ZERO);
            for bulk in 0..bulks {
                if !self.is_dated {
                    let (next, now) = (due + WEEK / bulks as u32, Instant::now());
                    late = late.max(now.saturating_duration_since(next));
                    // What came late is not caught up: in a week never come more documents than in another one.
                    due = next.max(now);
                    wait_for(due);
                }
                joined += self.place(&forest, (week * bulks + bulk) * BULK, &document);
                if bulk % (bulks / 12) == 0 {
                    most = most.max(held().1);
                }
            }
            let (memory, keys) = held();
            let memory = memory - empty;
            // The first one fills the window.
            if week < 2 {
                second = (memory, keys as f64);
            }
            let (more_memory, more_keys) = (memory / second.0, keys as f64 / second.1);
            grown.push(more_memory.max(more_keys));
            let stale = nodes.iter().map(|node| node.info("stats", "expired_stale_perc"));
            let line = json!({
                "bench": "forest",
                "store": "redis",
                "phase": "weeks",
                "clock": clock,
                "k": self.k,
                "week": week + 1,
                "docs": self.docs,
                "joined": rounded(joined as f64 / self.docs as f64, 3),
                "keys": keys,
                "keys_most": most.max(keys),
                "memory_mb": rounded(memory / 1e6, 2),
                "keys_to_week_2": rounded(more_keys, 3),
                "memory_to_week_2": rounded(more_memory, 3),
                "expired_and_there_percent": rounded(stale.fold(0.0, f64::max), 2),
                "late_ms": late.as_millis() as u64,
            });
            println!("{line}");
        }
        grown.iter().rev().take(3).any(|&grown| grown < FLAT)
    }

    /// Places and settles a bulk, and answers how many joined.
    fn place<F: MethodKind>(
        &self,
        forest: &SharedForest<F>,
        from: u64,
        document: impl Fn(u64) -> ForestDocument,
    ) -> u64 {
        let documents = (from..from + BULK).map(|n| ForestDocument {
            when: match self.is_dated {
                true => DocumentTime::Claimed(Millis(n as i64 * DATES / self.docs as i64)),
                false => DocumentTime::At(Millis(i64::MAX)),
            },
            ..document(n)
        });
        let batch = Batch { documents: documents.collect(), ..Batch::default() };
        let replies = block_on(forest.place(batch)).unwrap().replies;
        let placed: Vec<_> = replies.into_iter().filter_map(|r| r.placed).collect();
        let joined = placed.iter().filter(|placed| placed.decision != Decision::NewRoot);
        let joined = joined.count() as u64;
        let settled = placed.into_iter().filter_map(|p| p.settled(ItemOutcome::Accepted));
        block_on(forest.settle(settled.collect(), Millis(0))).unwrap();
        joined
    }
}

/// Waits for a moment.
#[expect(clippy::disallowed_methods, reason = "documents come at a steady rate, whatever the engine does")]
fn wait_for(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}
