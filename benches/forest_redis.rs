//! How fast documents of the default method are placed in a forest that a Redis keeps, and what that costs it. Run by
//! `scripts/bench forest --store redis`; `scripts/bench --help` says what is measured and how.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures, and its progress beside them"
)]
#![allow(dead_code, reason = "what benchmarks share, of which each uses a part")]

mod support {
    pub mod documents;
    pub mod random;
    pub mod redis;
    pub mod reprints;
    pub mod stats;
    pub mod words;
}

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Parser;
use futures_executor::block_on;
use serde_json::json;
use spinney::fingerprint::Fingerprint;
use spinney::forest::Decision;
use spinney::forest::local::Executor;
use spinney::forest::port::{Batch, Document, Outcome, Port, When};
use spinney::forest::shared::{Shared, SharedSettings};
use spinney::keystore::{Address, RedisStore};
use spinney::method::{Family, Features, Founder, Query, StrictFeatures};
use spinney::text::boilerplate::Taught;
use spinney::time::Millis;

use support::redis;
use support::reprints::{Text, document, pool};
use support::stats::{quantile, rounded};

/// Documents of a bulk.
const BULK: u64 = 1_000;

#[derive(Parser)]
#[command(
    about = "Run by scripts/bench forest --store redis",
    disable_help_subcommand = true
)]
struct Options {
    /// Documents that are placed
    #[arg(long, default_value_t = 300_000)]
    docs: u64,
    /// Nodes of Redis: one alone, or a cluster of masters
    #[arg(long, default_value_t = 1)]
    masters: usize,
    /// The method; the default one alone
    #[arg(long, default_value = "verified")]
    method: String,
    /// 50,000 documents
    #[arg(long)]
    quick: bool,
    /// A folder for the nodes
    #[arg(long)]
    work: PathBuf,
    /// Cargo's own flag
    #[arg(long, hide = true)]
    bench: bool,
}

static TEXTS: OnceLock<Vec<Text>> = OnceLock::new();

/// Documents that have been read: their fingerprints, and last of these the number of their text.
#[derive(Debug)]
enum Read {}

impl Family for Read {
    type Features = StrictFeatures;
    type Proof = Founder;
    type Learned = ();

    fn features(features: &mut Features) -> Option<&mut StrictFeatures> {
        match features {
            Features::Strict(strict) => Some(strict),
            _ => None,
        }
    }

    fn ask<R>(
        strict: &mut StrictFeatures,
        (): &mut (),
        _: &Taught,
        ask: impl FnOnce(&Query<'_, Founder>) -> R,
    ) -> R {
        let (text, prints) = strict.fingerprints.split_last().unwrap();
        let text = &TEXTS.get().unwrap()[text.0 as usize];
        ask(&Query {
            fingerprints: prints,
            more: &[],
            whole: strict.whole,
            known_by: prints,
            proof: &text.founder.of_text(strict.whole),
            evidence: &[],
            take: 4,
            known_by_whole: false,
            earlier: None,
        })
    }
}

struct Inline;

impl Executor for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

/// Seconds of processor time that this process has taken.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let own = stat
        .split_ascii_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    let mut all = own.unwrap_or_default();
    if let Ok(tasks) = std::fs::read_dir("/proc/self/task") {
        all = tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
            .filter_map(|stat| stat.split_ascii_whitespace().next()?.parse::<f64>().ok())
            .sum();
    }
    all / 1e9
}

fn main() {
    let options = Options::parse();
    assert_eq!(
        options.method, "verified",
        "only the default method is measured"
    );
    let docs = if options.quick { 50_000 } else { options.docs };
    TEXTS.get_or_init(pool);
    let nodes = redis::nodes(&options.work, options.masters);
    let address = Address::parse(&redis::url(&nodes)).unwrap();
    let settings = SharedSettings {
        window: Some(Millis(30 * 86_400_000)),
        max_tree: None,
        evidence_bytes: 0,
    };
    let forest = Shared::<Read>::new(
        ("bench", "bench"),
        settings,
        Default::default(),
        (),
        Arc::new(Inline),
        Arc::new(RedisStore::new(address, None).unwrap()),
        1,
    );
    let total = |section: &str, name: &str| -> f64 {
        nodes.iter().map(|node| node.info(section, name)).sum()
    };
    let cpu = || total("cpu", "used_cpu_user") + total("cpu", "used_cpu_sys");
    // The cluster has to be ready, and the functions to be loaded.
    let ready = Instant::now() + Duration::from_secs(30);
    while block_on(forest.stats()).is_err() {
        assert!(Instant::now() < ready, "the nodes are not ready");
        std::thread::yield_now();
    }
    let (memory, redis_before, own_before) = (total("memory", "used_memory"), cpu(), spent());
    let (mut millis, mut joined) = (Vec::new(), 0_u64);
    let mut wall = Duration::ZERO;
    for bulk in 0..docs / BULK {
        let documents = (bulk * BULK..(bulk + 1) * BULK).map(read).collect();
        let begun = Instant::now();
        let batch = Batch {
            documents,
            ..Batch::default()
        };
        let replies = block_on(forest.place(batch)).unwrap().replies;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
        let placed = replies.into_iter().map(|reply| reply.placed.unwrap());
        let settle = placed.map(|placed| {
            joined += u64::from(matches!(placed.decision, Decision::Joined { .. }));
            placed.settled(Outcome::Accepted)
        });
        let settle = settle.collect();
        block_on(forest.settle(settle, Millis(0))).unwrap();
        wall += begun.elapsed();
        eprint!("\rforest: {} of {docs} documents", (bulk + 1) * BULK);
    }
    eprintln!();
    let stats = block_on(forest.stats()).unwrap();
    let shared = stats.shared.unwrap();
    let (redis, own) = (cpu() - redis_before, spent() - own_before);
    let thousands = docs as f64 / 1e3;
    let line = json!({
        "bench": "forest",
        "store": "redis",
        "method": "verified",
        "masters": options.masters,
        "docs": docs,
        "placements_per_s": (docs as f64 / wall.as_secs_f64()).round(),
        "placements_per_redis_core": (docs as f64 / redis).round(),
        "redis_cpu_ms_per_1000_docs": rounded(redis * 1e3 / thousands, 1),
        "client_cpu_ms_per_1000_docs": rounded(own * 1e3 / thousands, 1),
        "keys_per_doc": rounded(shared.commands as f64 / docs as f64, 2),
        "round_trips_per_bulk": rounded(shared.round_trips as f64 / (docs / BULK) as f64, 2),
        "nodes_per_doc": rounded(stats.nodes as f64 / docs as f64, 3),
        "bytes_per_doc": rounded((total("memory", "used_memory") - memory) / docs as f64, 1),
        "joined": rounded(joined as f64 / docs as f64, 3),
        "bulk_p50_ms": rounded(quantile(&millis, 0.5), 1),
        "bulk_p99_ms": rounded(quantile(&millis, 0.99), 1),
    });
    println!("{line}");
}

fn read(n: u64) -> Document {
    let mut fingerprints = Vec::with_capacity(9);
    let (whole, text) = document(n, TEXTS.get().unwrap(), &mut fingerprints);
    fingerprints.push(Fingerprint(text as u64));
    Document {
        features: Some(Features::Strict(StrictFeatures {
            fingerprints,
            whole,
        })),
        when: When::At(Millis(i64::MAX)),
        title: None,
        given: None,
    }
}
