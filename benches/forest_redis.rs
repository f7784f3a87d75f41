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
    pub mod weeks;
    pub mod words;
}

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Parser;
use futures_executor::block_on;
use serde_json::json;
use spinney::fingerprint::Fingerprint;
use spinney::forest::Decision;
use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::local::Executor;
use spinney::forest::port::{Batch, ForestPort, ItemOutcome};
use spinney::forest::shared::keys::RedisClient;
use spinney::forest::shared::{ForestSetup, SharedForest, SharedSettings};
use spinney::method::{FeatureQuery, Features, Founder, MethodKind, StrictFeatures};
use spinney::redis::{Address, TcpRedis};
use spinney::text::boilerplate::PendingSentences;
use spinney::time::Millis;

use support::redis;
use support::reprints::{BACK, Text, document_within, pool};
use support::stats::{quantile, rounded};
use support::weeks;

/// Documents of a bulk.
const BULK: u64 = 1_000;

#[derive(Parser)]
#[command(about = "Run by scripts/bench forest --store redis", disable_help_subcommand = true)]
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
    /// Bulks in flight: through one forest of this process, and through as many as if each were another process's
    #[arg(long, default_value_t = 1)]
    in_flight: usize,
    /// Documents of each bulk in flight
    #[arg(long, default_value_t = BULK)]
    bulk: u64,
    /// Weeks of arrivals and of dates at the edge of a window of one week
    #[arg(long, default_value_t = 0)]
    weeks: u64,
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

impl MethodKind for Read {
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
        _: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, Founder>) -> R,
    ) -> R {
        let (text, prints) = strict.fingerprints.split_last().unwrap();
        let text = &TEXTS.get().unwrap()[text.0 as usize];
        ask(&FeatureQuery {
            fingerprints: prints,
            more: &[],
            whole: strict.whole,
            known_by: prints,
            proof: &text.founder.of_text(strict.whole),
            tokens: &[],
            learned: Default::default(),
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
    let own = stat.split_ascii_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
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

fn main() -> ExitCode {
    let options = Options::parse();
    assert_eq!(options.method, "verified", "only the default method is measured");
    TEXTS.get_or_init(pool);
    if options.weeks > 0 {
        return weeks::all(options.weeks, options.quick, || start(&options));
    }
    let (nodes, keys) = start(&options);
    if options.in_flight > 1 {
        return in_flight(&options, &nodes, &keys);
    }
    one_by_one(&options, &nodes, &keys);
    ExitCode::SUCCESS
}

/// A Redis of its own.
fn start(options: &Options) -> (Vec<redis::Node>, Arc<dyn RedisClient>) {
    let nodes = redis::nodes(&options.work, options.masters);
    let address = Address::parse(&redis::url(&nodes)).unwrap();
    let keys: Arc<dyn RedisClient> = Arc::new(TcpRedis::new(address, None).unwrap());
    // The cluster has to be ready, and the functions to be loaded.
    let ready = Instant::now() + Duration::from_secs(30);
    while block_on(forest(&keys, "ready", 1).stats()).is_err() {
        assert!(Instant::now() < ready, "the nodes are not ready");
        std::thread::yield_now();
    }
    (nodes, keys)
}

/// A forest of a process.
fn forest(keys: &Arc<dyn RedisClient>, name: &str, seed: u64) -> SharedForest<Read> {
    let settings = SharedSettings { window: Some(Millis(30 * 86_400_000)), max_tree: None, founder_token_bytes: 0 };
    SharedForest::new(
        ForestSetup { name, identity: "bench", settings, thresholds: Default::default(), learned: () },
        Arc::new(Inline),
        keys.clone(),
        seed << 32,
    )
}

/// Seconds of processor time that Redis has taken.
fn cpu(nodes: &[redis::Node]) -> f64 {
    let each = nodes.iter();
    each.map(|node| node.info("cpu", "used_cpu_user") + node.info("cpu", "used_cpu_sys")).sum()
}

/// Places and settles a bulk, and answers how many joined.
fn bulk(forest: &SharedForest<Read>, documents: Vec<ForestDocument>, millis: &mut Vec<f64>) -> u64 {
    let begun = Instant::now();
    let batch = Batch { documents, ..Batch::default() };
    let replies = block_on(forest.place(batch)).unwrap().replies;
    millis.push(begun.elapsed().as_secs_f64() * 1e3);
    let mut joined = 0;
    let placed = replies.into_iter().map(|reply| reply.placed.unwrap());
    let settle = placed.filter_map(|placed| {
        joined += u64::from(matches!(placed.decision, Decision::Joined { .. }));
        placed.settled(ItemOutcome::Accepted)
    });
    let settle = settle.collect();
    block_on(forest.settle(settle, Millis(0))).unwrap();
    joined
}

/// Bulks of which reprints are mostly in flight with their originals, through one forest and through one each.
fn in_flight(options: &Options, nodes: &[redis::Node], keys: &Arc<dyn RedisClient>) -> ExitCode {
    let docs = if options.quick { 30_000 } else { 120_000 };
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..3 {
        for is_apart in [round % 2 == 0, round % 2 != 0] {
            let how = if is_apart { "apart" } else { "together" };
            let name = format!("{how}-{round}");
            let each = 1..=options.in_flight as u64;
            let mut forests: Vec<_> = each.map(|seed| forest(keys, &name, seed)).collect();
            forests.truncate(if is_apart { options.in_flight } else { 1 });
            let next = AtomicU64::new(0);
            let (redis_before, own_before, begun) = (cpu(nodes), spent(), Instant::now());
            let millis: Vec<f64> = std::thread::scope(|scope| {
                let writers = (0..options.in_flight).map(|writer| {
                    let (forest, next) = (&forests[writer % forests.len()], &next);
                    scope.spawn(move || {
                        let mut millis = Vec::new();
                        loop {
                            let from = next.fetch_add(1, Relaxed) * options.bulk;
                            if from >= docs {
                                break millis;
                            }
                            let read = |n| read(2 * BULK, round << 32 | n);
                            bulk(forest, (from..from + options.bulk).map(read).collect(), &mut millis);
                        }
                    })
                });
                let writers: Vec<_> = writers.collect();
                let millis = writers.into_iter().map(|writer| writer.join().unwrap());
                millis.flatten().collect()
            });
            let wall = begun.elapsed().as_secs_f64();
            let (redis, own) = (cpu(nodes) - redis_before, spent() - own_before);
            let each = forests.iter();
            let each = each.map(|forest| block_on(forest.stats()).unwrap().shared.unwrap());
            let (mut commands, mut trips, mut again) = (0, 0, 0);
            for stats in each {
                commands += stats.commands;
                trips += stats.round_trips;
                again += stats.conflicts;
            }
            rates[usize::from(is_apart)].push(docs as f64 / wall);
            let (docs, thousands) = (docs as f64, docs as f64 / 1e3);
            let line = json!({
                "bench": "forest",
                "store": "redis",
                "in_flight": options.in_flight,
                "bulk": options.bulk,
                "forests": how,
                "masters": options.masters,
                "docs": docs,
                "placements_per_s": (docs / wall).round(),
                "placements_per_redis_core": (docs / redis).round(),
                "client_cpu_ms_per_1000_docs": rounded(own * 1e3 / thousands, 1),
                "keys_per_doc": rounded(commands as f64 / docs, 2),
                "round_trips_per_bulk": rounded(trips as f64 / (docs / options.bulk as f64), 2),
                "again_per_doc": rounded(again as f64 / docs, 3),
                "bulk_p50_ms": rounded(quantile(&millis, 0.5), 1),
                "bulk_p99_ms": rounded(quantile(&millis, 0.99), 1),
            });
            println!("{line}");
        }
    }
    let ratios = rates[0].iter().zip(&rates[1]);
    let ratios: Vec<f64> = ratios.map(|(together, apart)| together / apart).collect();
    let ratio = rounded(quantile(&ratios, 0.5), 2);
    println!("{}", json!({"bench": "forest", "in_flight": options.in_flight, "ratio": ratio}));
    ExitCode::SUCCESS
}

/// One bulk after the other.
fn one_by_one(options: &Options, nodes: &[redis::Node], keys: &Arc<dyn RedisClient>) {
    let docs = if options.quick { 50_000 } else { options.docs };
    let forest = forest(keys, "bench", 1);
    let total = |section: &str, name: &str| -> f64 { nodes.iter().map(|node| node.info(section, name)).sum() };
    let memory = total("memory", "used_memory");
    let (redis_before, own_before) = (cpu(nodes), spent());
    let (mut millis, mut joined) = (Vec::new(), 0_u64);
    let mut wall = Duration::ZERO;
    for number in 0..docs / BULK {
        let documents = (number * BULK..(number + 1) * BULK).map(|n| read(BACK, n));
        let documents = documents.collect();
        let begun = Instant::now();
        joined += bulk(&forest, documents, &mut millis);
        wall += begun.elapsed();
        eprint!("\rforest: {} of {docs} documents", (number + 1) * BULK);
    }
    eprintln!();
    let stats = block_on(forest.stats()).unwrap();
    let shared = stats.shared.unwrap();
    let (redis, own) = (cpu(nodes) - redis_before, spent() - own_before);
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

fn read(back: u64, n: u64) -> ForestDocument {
    let mut fingerprints = Vec::with_capacity(9);
    let (whole, text) = document_within(back, n, TEXTS.get().unwrap(), &mut fingerprints);
    fingerprints.push(Fingerprint(text as u64));
    ForestDocument {
        features: Some(Features::Strict(StrictFeatures { fingerprints, whole })),
        when: DocumentTime::At(Millis(i64::MAX)),
        title: None,
        id: Default::default(),
        given: None,
    }
}
