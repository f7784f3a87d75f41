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
    pub mod random;
    pub mod stats;
    pub mod words;
}

use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::{Forest, Settings};
use spinney::hash::{HashKey, splitmix64};
use spinney::method::{Count, Founder, Offer, Query, VerifiedFeatures};
use spinney::text::boilerplate::{Boilerplate, BoilerplateMask, Taught};
use spinney::text::{Fields, Scratch};
use spinney::time::Millis;

use support::documents::Documents;
use support::stats::{quantile, rounded};

/// Texts that are read; all others are made of their fingerprints.
const POOL: usize = 20_000;
/// Documents in a millisecond of the forest's time.
const PER_MS: u64 = 400;
/// How far back the tree lies that a document joins, at most.
const BACK: u64 = 1_000_000;
/// One placement of so many is timed by itself.
const TIMED: u64 = 16;

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
    /// Cargo's own flag
    #[arg(long, hide = true)]
    bench: bool,
}

/// What a text gives to the forest.
struct Text {
    fingerprints: Vec<Fingerprint>,
    founder: Founder,
}

fn pool() -> Vec<Text> {
    let mut documents = Documents::new(4, None);
    let (mut features, mut scratch) = (VerifiedFeatures::new(), Scratch::new());
    let (boilerplate, mut mask) = (Boilerplate::new(), BoilerplateMask::default());
    let mut texts = Vec::with_capacity(POOL);
    while texts.len() < POOL {
        let mut line = Vec::new();
        documents.write_next(&mut line);
        let document: Value = serde_json::from_slice(&line).unwrap();
        let fields = Fields {
            title: document["title"].as_str(),
            body: &[document["content"].as_str().unwrap()],
        };
        if features.read(&mut scratch, &fields) {
            let offer = Offer::of(&mut features, &boilerplate, &Taught::default(), &mut mask);
            let query = offer.query();
            texts.push(Text {
                fingerprints: query.fingerprints.to_vec(),
                founder: *query.proof,
            });
        }
    }
    texts
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line
        .split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib * 1024
}

/// The fingerprints of document `n` and the hash of its text: three of ten are reprints of an earlier one with two of its
/// fingerprints changed.
fn document(n: u64, texts: &[Text], prints: &mut Vec<Fingerprint>) -> (Fingerprint, usize) {
    let joins = n > 1_000 && splitmix64(n) % 10 < 3;
    let of = match joins {
        true => n - 1 - splitmix64(!n) % n.min(BACK).saturating_sub(1).max(1),
        false => n,
    };
    let (base, salt) = ((of % POOL as u64) as usize, splitmix64(of / POOL as u64));
    prints.clear();
    let own = texts[base].fingerprints.iter();
    prints.extend(own.map(|print| Fingerprint(splitmix64(print.0 ^ salt))));
    if joins {
        for (place, print) in prints.iter_mut().enumerate() {
            if place % 4 == 1 {
                *print = Fingerprint(splitmix64(n ^ (place as u64) << 40));
            }
        }
    }
    (Fingerprint(splitmix64(n.wrapping_mul(3))), base)
}

struct Placed {
    joined: u64,
    seconds: f64,
    micros: Vec<f64>,
}

fn place(forest: &mut Forest<Founder>, texts: &[Text], numbers: std::ops::Range<u64>) -> Placed {
    let mut prints = Vec::with_capacity(8);
    let mut placed = Placed {
        joined: 0,
        seconds: 0.0,
        micros: Vec::new(),
    };
    let total = numbers.end - numbers.start;
    for n in numbers.clone() {
        let (whole, base) = document(n, texts, &mut prints);
        let founder = texts[base].founder.of_text(whole);
        let query = Query {
            fingerprints: &prints,
            whole,
            known_by: &prints,
            proof: &founder,
            take: 4,
            known_by_whole: false,
            earlier: None,
        };
        let begun = Instant::now();
        let placement = forest.place(&query, Millis((n / PER_MS) as i64));
        let count = Count {
            title: None,
            sign: placement.sign,
        };
        forest.count(placement.root, count);
        forest.settle(&placement.rollback);
        let took = begun.elapsed().as_secs_f64();
        placed.seconds += took;
        if n.is_multiple_of(TIMED) {
            placed.micros.push(took * 1e6);
        }
        placed.joined += u64::from(placement.root.0 != prints[0]);
        if (n - numbers.start).is_multiple_of((total / 10).max(1)) {
            eprint!("\rforest: {} of {total} documents", n - numbers.start);
        }
    }
    eprintln!();
    placed
}

fn main() {
    let options = Options::parse();
    if options.bench && std::env::args().len() <= 2 {
        eprintln!("this benchmark needs a core of its own: run scripts/bench forest");
        return;
    }
    assert_eq!(
        options.method, "verified",
        "only the default method is measured"
    );
    let docs = if options.quick {
        1_000_000
    } else {
        options.docs
    };
    let texts = pool();
    for (phase, window) in [("fill", None), ("edge", Some(docs / 2 / PER_MS))] {
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
            "method": options.method,
            "phase": phase,
            "docs": kept,
            "placements_per_s": ((docs - first) as f64 / placed.seconds).round(),
            "bytes_per_doc": rounded(held as f64 / kept as f64, 1),
            "bytes_per_doc_told": rounded(stats.memory_bytes as f64 / kept as f64, 1),
            "nodes_per_doc": rounded(stats.nodes as f64 / kept as f64, 3),
            "joined": rounded(placed.joined as f64 / (docs - first) as f64, 3),
            "place_p50_us": rounded(quantile(&placed.micros, 0.5), 2),
            "place_p99_us": rounded(quantile(&placed.micros, 0.99), 2),
            "place_max_us": rounded(quantile(&placed.micros, 1.0), 1),
        });
        println!("{line}");
        drop(forest);
    }
}
