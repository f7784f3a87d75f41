//! Whether several sidecars that share a Redis decide as one alone does, and whether copies that they get at the same
//! moment get one root. Run by `scripts/bench sidecars`; `scripts/bench --help` says what is measured and how.

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
    pub mod pairs;
    pub mod random;
    pub mod redis;
    pub mod stats;
    pub mod words;
}

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::Parser;
use futures_executor::block_on;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use spinney::config::{OnRedisFailure, RawRoute, Route};
use spinney::engine::{Engine, RequestContext, Resolution};
use spinney::forest::shared::keys::RedisClient;
use spinney::hash::HashKey;
use spinney::redis::{Address, TcpRedis};
use spinney::time::Millis;

use support::documents::Documents;
use support::pairs::{Pairs, compare};
use support::random::Random;
use support::redis;
use support::stats::rounded;

#[derive(Parser)]
#[command(about = "Run by scripts/bench sidecars", disable_help_subcommand = true)]
struct Options {
    /// Documents, one JSON object a line
    files: Vec<PathBuf>,
    /// A Redis that is there, as for serve --forest-store
    #[arg(long)]
    store: Option<String>,
    /// Nodes of Redis that are started: one alone, or a cluster of masters
    #[arg(long, default_value_t = 3)]
    masters: usize,
    /// Number of processes that share it
    #[arg(long, default_value_t = 3)]
    sidecars: usize,
    /// Documents of a bulk
    #[arg(long, default_value_t = 100)]
    bulk: usize,
    /// Which bulk goes to whom
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Labelled pairs: two ids a line, with tabs between them
    #[arg(long)]
    pairs: Vec<PathBuf>,
    /// Stories of which copies are sent at the same moment
    #[arg(long, default_value_t = 10_000)]
    stories: usize,
    /// 500 stories, and the first 1,000 documents of each file
    #[arg(long)]
    quick: bool,
    /// A folder for the nodes
    #[arg(long)]
    work: PathBuf,
    /// Cargo's own flag
    #[arg(long, hide = true)]
    bench: bool,
}

/// One process's part: an engine, with connections of its own.
struct Sidecar(Arc<Engine>);

/// What is read of a document: before, its id; afterwards, its root.
#[derive(Deserialize)]
struct Document {
    id: Option<String>,
    cluster_root: Option<String>,
}

/// The writer, whom the cluster knows.
const CALLER: u64 = 7;

fn route(forest: &str) -> Route {
    let raw = "text_field = ['content']\ntitle_field = 'title'";
    let raw = format!("{raw}\nforest = '{forest}'");
    let raw: RawRoute = toml::from_str(&raw).unwrap();
    raw.any_index().validate("sidecars").unwrap()
}

/// A number that no other run has.
fn nonce() -> u64 {
    // The standard library seeds every RandomState from the system's randomness.
    RandomState::new().build_hasher().finish()
}

#[expect(clippy::disallowed_methods, reason = "a shared forest goes by the engine's time")]
fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Millis(since.as_millis() as i64)
}

impl Sidecar {
    fn local(forest: &str) -> Sidecar {
        let engine = Engine::new(&[route(forest)], "cluster_", 1, HashKey::FIXED);
        Sidecar(Arc::new(engine.unwrap())).introduced()
    }

    fn sharing(forest: &str, store: &Address) -> Sidecar {
        let keys = TcpRedis::new(store.clone(), None).unwrap();
        let keys: Arc<dyn RedisClient> = Arc::new(keys);
        let engine = Engine::shared(&[route(forest)], "cluster_", 1, HashKey::FIXED, &keys, OnRedisFailure::Refuse);
        let sidecar = Sidecar(Arc::new(engine.unwrap()));
        // The cluster has to be ready, and the functions to be loaded.
        let until = Instant::now() + Duration::from_secs(30);
        while block_on(sidecar.0.forests().stats()).is_err() {
            assert!(Instant::now() < until, "the Redis does not answer");
            std::thread::yield_now();
        }
        sidecar.introduced()
    }

    /// The first bulk of a writer whom nobody knows is placed twice: not this one's.
    fn introduced(self) -> Sidecar {
        let line = format!("{{\"content\":\"nobody else writes {:x}\"}}", nonce());
        self.write(&[line.as_bytes()]);
        self
    }

    /// Writes a bulk, all of which is accepted. The roots, in the order of the lines.
    fn write(&self, lines: &[&[u8]]) -> Vec<u64> {
        let body = Bytes::from(lines.join(&b'\n'));
        let context = RequestContext { now: now(), latest: Millis(i64::MAX), unique: nonce(), caller: Some(CALLER) };
        let stamped = block_on(self.0.stamp_lines(body.clone(), context)).unwrap();
        let (splice, placed) = stamped.into_parts();
        block_on(self.0.settle(placed, Resolution::Status(200), now())).unwrap();
        let mut out = Vec::with_capacity(splice.len(body.len()));
        splice.write_to(&body, &mut out);
        let read = |line: &[u8]| {
            let document: Document = serde_json::from_slice(line).unwrap();
            let root = document.cluster_root.expect("every document is stamped");
            u64::from_str_radix(&root, 16).unwrap()
        };
        out.split(|&byte| byte == b'\n').map(read).collect()
    }
}

/// Sends bulks, each to the sidecar that `whose` says, one after the other. The roots, by document.
fn in_order(sidecars: &[Sidecar], lines: &[&[u8]], bulks: &[Bulk]) -> Vec<u64> {
    let mut roots = vec![0; lines.len()];
    for (done, bulk) in bulks.iter().enumerate() {
        let (from, to) = (bulk.from, bulk.to);
        roots[from..to].copy_from_slice(&sidecars[bulk.sidecar].write(&lines[from..to]));
        tell("in order", done + 1, bulks.len());
    }
    eprintln!();
    roots
}

/// The same with all sidecars at work at the same time. Also the order in which the bulks were answered.
fn at_once(sidecars: &[Sidecar], lines: &[&[u8]], bulks: &[Bulk]) -> (Vec<u64>, Vec<Bulk>) {
    let roots = Mutex::new(vec![0; lines.len()]);
    let answered = Mutex::new(Vec::new());
    let begin = Barrier::new(sidecars.len());
    std::thread::scope(|scope| {
        for (at, sidecar) in sidecars.iter().enumerate() {
            let (roots, answered, begin) = (&roots, &answered, &begin);
            scope.spawn(move || {
                begin.wait();
                for bulk in bulks.iter().filter(|bulk| bulk.sidecar == at) {
                    let (from, to) = (bulk.from, bulk.to);
                    let found = sidecar.write(&lines[from..to]);
                    roots.lock()[from..to].copy_from_slice(&found);
                    let mut answered = answered.lock();
                    answered.push(*bulk);
                    tell("at once", answered.len(), bulks.len());
                }
            });
        }
    });
    eprintln!();
    (roots.into_inner(), answered.into_inner())
}

/// Documents that are written together, and by whom.
#[derive(Clone, Copy)]
struct Bulk {
    from: usize,
    to: usize,
    sidecar: usize,
}

fn dealt(documents: usize, options: &Options) -> Vec<Bulk> {
    let mut random = Random::new(options.seed);
    let bulks = (0..documents).step_by(options.bulk.max(1));
    bulks
        .map(|from| Bulk {
            from,
            to: documents.min(from + options.bulk.max(1)),
            sidecar: random.below(options.sidecars),
        })
        .collect()
}

fn tell(what: &str, done: usize, of: usize) {
    if done.is_multiple_of(10) || done == of {
        eprint!("\rsidecars: {what}: {done} of {of}");
    }
}

/// What one file is decided like by one alone, by several in order, and by several at once.
fn sameness(file: &Path, options: &Options, store: &Address) {
    let body = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines = body.split(|&byte| byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter(|line| !line.trim_ascii().is_empty()).collect();
    let most = if options.quick { 1_000 } else { usize::MAX };
    let lines = &lines[..lines.len().min(most)];
    let ids = lines.iter().map(|line| {
        let document: Document = serde_json::from_slice(line).expect("a line is a JSON object");
        document.id.unwrap_or_default()
    });
    let ids: Vec<String> = ids.collect();
    let labelled = Pairs::read(&options.pairs, &ids);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let bulks = dealt(lines.len(), options);
    let alone = |bulks: &[Bulk]| {
        let bulks: Vec<Bulk> = bulks.iter().map(|b| Bulk { sidecar: 0, ..*b }).collect();
        in_order(&[Sidecar::local("alone")], lines, &bulks)
    };
    let several = |part: &str| -> Vec<Sidecar> {
        let forest = format!("{part} {:x}", nonce());
        let each = (0..options.sidecars).map(|_| Sidecar::sharing(&forest, store));
        each.collect()
    };
    let one = alone(&bulks);
    let report = |how: &str, roots: &[u64], against: &[u64]| {
        let same = compare(against, roots, &labelled);
        let line = json!({
            "bench": "sidecars",
            "part": "sameness",
            "file": name,
            "docs": lines.len(),
            "how": how,
            "sidecars": options.sidecars,
            "bulk": options.bulk,
            "pairs": same.pairs,
            "labelled_pairs": labelled.len(),
            "only_alone": same.only_first,
            "only_shared": same.only_second,
            "same": rounded(same.share(), 6),
        });
        println!("{line}");
    };
    report("in order", &in_order(&several("order"), lines, &bulks), &one);
    let (roots, answered) = at_once(&several("at once"), lines, &bulks);
    report("at once", &roots, &one);
    let in_that_order = alone(&answered);
    report("at once, against one alone in that order", &roots, &in_that_order);
    report("one alone in that order, against in order", &in_that_order, &one);
}

/// Copies of every story to as many sidecars at the same moment. Answers how many roots there are too many.
fn race(copies: usize, options: &Options, store: &Address) -> usize {
    let stories = if options.quick { 500 } else { options.stories };
    let mut documents = Documents::new(options.seed, None);
    let mut line = Vec::new();
    let lines: Vec<Vec<u8>> = (0..stories)
        .map(|_| {
            line.clear();
            documents.write_next(&mut line);
            line.trim_ascii().to_vec()
        })
        .collect();
    let forest = format!("race {copies} {:x}", nonce());
    let sidecars = (0..copies).map(|_| Sidecar::sharing(&forest, store));
    let sidecars: Vec<Sidecar> = sidecars.collect();
    let (begin, done) = (Barrier::new(copies), AtomicUsize::new(0));
    let begun = Instant::now();
    let found: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let (begin, done, lines) = (&begin, &done, &lines);
        let each = sidecars.iter().map(|sidecar| {
            scope.spawn(move || {
                let write = |line: &Vec<u8>| {
                    begin.wait();
                    let root = sidecar.write(&[line])[0];
                    let done = done.fetch_add(1, Relaxed) + 1;
                    tell("race", done, copies * stories);
                    root
                };
                lines.iter().map(write).collect()
            })
        });
        let each: Vec<_> = each.collect();
        each.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    eprintln!();
    let seconds = begun.elapsed().as_secs_f64();
    let roots = |story: usize| found.iter().map(|roots| roots[story]).collect::<HashSet<_>>();
    let too_many: usize = (0..stories).map(|story| roots(story).len() - 1).sum();
    let again = sidecars.iter().map(|sidecar| {
        let stats = block_on(sidecar.0.forests().stats()).unwrap();
        let conflicts = stats.iter().filter_map(|(_, stats)| stats.shared);
        conflicts.map(|shared| shared.conflicts).sum::<u64>()
    });
    let again: u64 = again.sum();
    let line = json!({
        "bench": "sidecars",
        "part": "race",
        "copies": copies,
        "stories": stories,
        "roots_too_many": too_many,
        "again_per_document": rounded(again as f64 / (copies * stories) as f64, 3),
        "seconds": rounded(seconds, 1),
    });
    println!("{line}");
    too_many
}

fn main() -> ExitCode {
    let options = Options::parse();
    assert!(options.sidecars > 0, "--sidecars must be 1 or more");
    let nodes = match &options.store {
        Some(_) => Vec::new(),
        None => redis::nodes(&options.work, options.masters),
    };
    let url = options.store.clone().unwrap_or_else(|| redis::url(&nodes));
    let store = Address::parse(&url).expect("--store is the URL of a Redis");
    for file in &options.files {
        sameness(file, &options, &store);
    }
    let too_many: usize = [2, 3].map(|copies| race(copies, &options, &store)).iter().sum();
    match too_many {
        0 => ExitCode::SUCCESS,
        _ => {
            eprintln!("sidecars: copies that came at the same moment have different roots");
            ExitCode::FAILURE
        }
    }
}
