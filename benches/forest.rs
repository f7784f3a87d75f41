//! How fast documents of the default method are placed, and what each takes in memory. Run by `scripts/bench forest`;
//! `scripts/bench --help` says what is measured and how.

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
    pub mod own;
    pub mod random;
    pub mod reprints;
    pub mod stats;
    pub mod words;
}

use std::ops::Range;
use std::process::Command;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use serde_json::json;
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::{Decision, Forest, Settings};
use spinney::hash::{HashKey, splitmix64};
use spinney::method::{FeatureQuery, Founder, TallyEntry};
use spinney::time::Millis;

use support::own::{resident, spent};
use support::reprints::{Text, document, pool};
use support::stats::{quantile, rounded};

/// Documents in a millisecond of the forest's time.
const PER_MS: u64 = 400;
/// Documents that are known together.
const BULK: u64 = 1_000;
/// Of so many times one is kept for the quantiles.
const KEPT: u64 = 16;

#[derive(Parser)]
#[command(about = "Run by scripts/bench forest", disable_help_subcommand = true)]
struct Options {
    /// Documents that are placed
    #[arg(long, default_value_t = 20_000_000)]
    docs: u64,
    /// The method; the default one alone
    #[arg(long, default_value = "verified")]
    method: String,
    /// 1,000,000 documents
    #[arg(long)]
    quick: bool,
    /// One phase alone
    #[arg(long, value_enum)]
    phase: Option<Phase>,
    /// Cargo's own flag
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Phase {
    Fill,
    Edge,
}

#[derive(Default)]
struct RootAssignment {
    joined: u64,
    /// Processor time.
    seconds: f64,
    micros: Vec<f64>,
    longest: f64,
}

/// A document that waits for its turn.
struct Waiting {
    n: u64,
    prints: Vec<Fingerprint>,
    whole: Fingerprint,
    founder: Founder,
}

impl Waiting {
    fn new(n: u64, texts: &[Text]) -> Waiting {
        let mut prints = Vec::with_capacity(8);
        let (whole, base) = document(n, texts, &mut prints);
        Waiting { n, prints, whole, founder: texts[base].founder.of_text(whole) }
    }
}

fn place(forest: &mut Forest<Founder>, texts: &[Text], numbers: Range<u64>) -> RootAssignment {
    let mut placed = RootAssignment::default();
    let total = numbers.end - numbers.start;
    let (mut bulk, mut next) = (Vec::new(), numbers.start);
    while next < numbers.end {
        let end = numbers.end.min(next + BULK);
        bulk.clear();
        bulk.extend((next..end).map(|n| Waiting::new(n, texts)));
        let begun = spent();
        place_bulk(forest, &bulk, &mut placed);
        placed.seconds += spent() - begun;
        next = end;
        eprint!("\rforest: {} of {total} documents", next - numbers.start);
    }
    eprintln!();
    placed
}

/// As the forest of a running process places the documents of a bulk.
fn place_bulk(forest: &mut Forest<Founder>, bulk: &[Waiting], placed: &mut RootAssignment) {
    for (at, waiting) in bulk.iter().enumerate() {
        let query = FeatureQuery {
            fingerprints: &waiting.prints,
            whole: waiting.whole,
            known_by: &waiting.prints,
            proof: &waiting.founder,
            take: 4,
            known_by_whole: false,
            more: &[],
            tokens: &[],
            learned: Default::default(),
            earlier: None,
        };
        let begun = Instant::now();
        if let Some(next) = bulk.get(at + 1) {
            forest.prefetch_trees(&next.prints);
            forest.prefetch_trees(&[next.whole]);
        }
        if let Some(later) = bulk.get(at + 2) {
            forest.prefetch_nodes(&later.prints);
            forest.prefetch_nodes(&[later.whole]);
        }
        let placement = forest.place(&query, Millis((waiting.n / PER_MS) as i64));
        let count = TallyEntry { title: None, sign: placement.sign };
        forest.count(placement.root, count);
        forest.settle(&placement.rollback);
        let micros = begun.elapsed().as_secs_f64() * 1e6;
        placed.longest = placed.longest.max(micros);
        if waiting.n.is_multiple_of(KEPT) {
            placed.micros.push(micros);
        }
        placed.joined += u64::from(matches!(placement.decision, Decision::Joined { .. }));
    }
}

fn main() {
    let options = Options::parse();
    if options.bench && std::env::args().len() <= 2 {
        eprintln!("this benchmark needs a core of its own: run scripts/bench forest");
        return;
    }
    assert_eq!(options.method, "verified", "only the default method is measured");
    let docs = if options.quick { 1_000_000 } else { options.docs };
    if let Some(phase) = options.phase {
        return measure(phase, docs);
    }
    // Each in a process of its own: what one gave back would not be what the other takes.
    for phase in Phase::value_variants() {
        let name = phase.to_possible_value().expect("no phase is hidden");
        let program = std::env::current_exe().expect("a program knows where it is");
        let status = Command::new(program).args(["--docs", &docs.to_string(), "--phase", name.get_name()]).status();
        assert!(status.expect("it starts again").success());
    }
}

fn measure(phase: Phase, docs: u64) {
    let texts = pool();
    let window = match phase {
        Phase::Fill => None,
        Phase::Edge => Some(docs / 2 / PER_MS),
    };
    let settings = Settings {
        k: Distance(0),
        window: window.map(|window| Millis(window as i64)),
        key: HashKey::new(splitmix64(1), 2),
    };
    let before = resident();
    let mut forest = Forest::<Founder>::new(settings).unwrap();
    // At the edge the first half fills the window; from then on every placement lets what came before it go.
    let first = window.map_or(0, |_| docs / 2);
    if first > 0 {
        place(&mut forest, &texts, 0..first);
    }
    let placed = place(&mut forest, &texts, first..docs);
    let stats = forest.stats();
    let kept = window.map_or(docs, |_| docs / 2);
    let held = resident().saturating_sub(before);
    let line = json!({
        "bench": "forest",
        "store": "local",
        "method": "verified",
        "phase": phase.to_possible_value().expect("no phase is hidden").get_name(),
        "docs": kept,
        "placements_per_s": ((docs - first) as f64 / placed.seconds).round(),
        "bytes_per_doc": rounded(held as f64 / kept as f64, 1),
        "bytes_per_doc_told": rounded(stats.memory_bytes as f64 / kept as f64, 1),
        "nodes_per_doc": rounded(stats.nodes as f64 / kept as f64, 3),
        "joined": rounded(placed.joined as f64 / (docs - first) as f64, 3),
        "place_p50_us": rounded(quantile(&placed.micros, 0.5), 2),
        "place_p99_us": rounded(quantile(&placed.micros, 0.99), 2),
        "place_max_us": rounded(placed.longest, 1),
    });
    println!("{line}");
}
