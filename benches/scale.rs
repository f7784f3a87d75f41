//! How a shared forest grows: simulated conflicts of sidecars that meet one story at once, and skew over the slots of a
//! cluster. Run by `scripts/bench scale`; `scripts/bench --help` says what is simulated and what is computed.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures"
)]
#![allow(dead_code, reason = "what benchmarks share, of which each uses a part")]

mod support {
    pub mod random;
    pub mod stats;
}

use clap::{Parser, ValueEnum};
use serde_json::json;

use support::random::Random;
use support::stats::{quantile, rounded};

/// The busiest time of a day, by its mean.
const PEAK: f64 = 2.0;
/// Documents that one sidecar reads and places in a second.
const SIDECAR: f64 = 15_000.0;
/// Documents of a bulk, at most, and how long a writer gathers them, at most.
const BULK: f64 = 1_000.0;
const GATHERED: f64 = 1.0;
/// From look to confirmation: the round trips, and each document, in seconds.
const TRIPS: f64 = 0.003;
const EACH: f64 = 26e-6;
/// Commands of a document; of a bulk's round trips the widest has this share of them.
const KEYS: f64 = 16.4;
const WIDEST: f64 = 0.55;
/// Documents a second that a core of Redis places; half of it is for peaks and for failover.
const CORE: f64 = 35_000.0;
const BUSY: f64 = 0.5;
/// Bytes of a document, and of a master.
const DOCUMENT: f64 = 570.0;
const MASTER: f64 = 32e9;
/// Masters that a cluster may have, as its own documentation says.
const MASTERS: f64 = 1_000.0;
const SLOTS: u64 = 16_384;
/// A story that so large a part of all documents is of.
const HOT: f64 = 0.01;

#[derive(Parser)]
#[command(about = "Run by scripts/bench scale", disable_help_subcommand = true)]
struct Options {
    /// Days that a document is kept
    #[arg(long, default_value_t = 30)]
    window: u32,
    /// A tenth of the stories and of the bulks
    #[arg(long)]
    quick: bool,
    /// Cargo's own flag
    #[arg(long, hide = true)]
    bench: bool,
}

/// When the copies of a story come.
#[derive(Clone, Copy, ValueEnum)]
enum Copies {
    /// From a second to three days after it, each order of magnitude as likely as the next.
    Calm,
    /// Half of them within some ten seconds.
    Burst,
    /// All of them within a tenth of a second.
    Storm,
}

/// A part of 0..1, never 0.
fn part(random: &mut Random) -> f64 {
    ((random.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

impl Copies {
    fn delay(self, random: &mut Random) -> f64 {
        let calm = |random: &mut Random| 259_200_f64.powf(part(random));
        match self {
            Copies::Calm => calm(random),
            Copies::Burst if random.percent(50) => -10.0 * part(random).ln(),
            Copies::Burst => calm(random),
            Copies::Storm => 0.1 * part(random),
        }
    }
}

/// Copies of a story: none of most, so that three of ten documents are copies; few have very many.
fn copies(random: &mut Random) -> usize {
    if random.percent(15) { (part(random).powf(-1.0 / 1.5) as usize).min(10_000) } else { 0 }
}

/// The part of a day's load that a rate is at its peak.
struct Load {
    docs_per_s: f64,
    sidecars: usize,
    bulk: f64,
    /// How long a bulk takes to gather, and to be placed.
    gathered: f64,
    placed: f64,
    masters: f64,
}

impl Load {
    fn of(docs_per_day: f64, window: f64) -> Load {
        let docs_per_s = PEAK * docs_per_day / 86_400.0;
        let sidecars = (docs_per_s / SIDECAR).ceil().max(3.0);
        let each = docs_per_s / sidecars;
        let bulk = (each * GATHERED).clamp(1.0, BULK);
        let for_work = docs_per_s / (CORE * BUSY);
        let for_memory = docs_per_day * window * DOCUMENT / MASTER;
        Load {
            docs_per_s,
            sidecars: sidecars as usize,
            bulk,
            gathered: bulk / each,
            placed: TRIPS + EACH * bulk,
            masters: for_work.max(for_memory).ceil().max(3.0),
        }
    }

    /// The share of the documents that meet a tree which another sidecar is just founding, and are tried again.
    fn again(&self, copies_come: Copies, stories: usize) -> f64 {
        let mut random = Random::new(15);
        let (mut docs, mut again) = (0_u64, 0_u64);
        let mut starts: Vec<(f64, usize)> = Vec::new();
        for _ in 0..stories {
            let many = copies(&mut random);
            docs += 1 + many as u64;
            if many == 0 {
                continue;
            }
            starts.clear();
            for copy in 0..=many {
                let delay = if copy == 0 { 0.0 } else { copies_come.delay(&mut random) };
                let start = delay + self.gathered * part(&mut random);
                starts.push((start, random.below(self.sidecars)));
            }
            let first = starts.iter().copied().min_by(|one, other| one.0.total_cmp(&other.0));
            let Some((founded, by)) = first else { continue };
            let meets = |&&(start, of): &&(f64, usize)| of != by && start < founded + self.placed;
            again += starts.iter().filter(meets).count() as u64;
        }
        again as f64 / docs as f64
    }

    /// The keys of the fullest master by those of the mean one: in one bulk (the 99th percentile), and of all that is
    /// stored.
    fn skew(&self, bulks: usize) -> (f64, f64) {
        let masters = self.masters.min(MASTERS) as usize;
        let mut random = Random::new(16);
        let mut all = vec![0_u64; masters];
        let mut of_bulk = vec![0_u64; masters];
        let mut skews = Vec::with_capacity(bulks);
        let keys = (KEYS * self.bulk) as usize;
        let fullest = |counts: &[u64]| {
            let sum: u64 = counts.iter().sum();
            let most = counts.iter().max().copied().unwrap_or_default();
            most as f64 * counts.len() as f64 / sum.max(1) as f64
        };
        let mut left = bulks * (KEYS * BULK) as usize;
        while left > 0 {
            of_bulk.fill(0);
            for _ in 0..keys.max(1) {
                let slot = u64::from(crc16(&key(random.next()))) % SLOTS;
                let master = (slot * masters as u64 / SLOTS) as usize;
                of_bulk[master] += 1;
                all[master] += 1;
            }
            if skews.len() < 10_000 {
                skews.push(fullest(&of_bulk));
            }
            left = left.saturating_sub(keys.max(1));
        }
        (quantile(&skews, 0.99), fullest(&all))
    }
}

/// The key of a node: the number of the forest, and the fingerprint.
fn key(fingerprint: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&fingerprint.to_be_bytes());
    key
}

/// CRC-16/XMODEM, by which Redis Cluster tells slots.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let poly = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            crc << 1 ^ poly
        })
    })
}

fn main() {
    let options = Options::parse();
    assert_eq!(crc16(b"123456789"), 0x31C3, "the slots would be others");
    let (stories, bulks) = if options.quick { (100_000, 20) } else { (1_000_000, 200) };
    let window = f64::from(options.window);
    for exponent in 6..=10 {
        let docs_per_day = 10_f64.powi(exponent);
        let load = Load::of(docs_per_day, window);
        let (skew_bulk, skew_stored) = load.skew(bulks);
        let commands = load.docs_per_s * KEYS;
        let bulks_per_s = load.docs_per_s / load.bulk;
        let holds_hot = 1.0 - (1.0 - HOT).powf(load.bulk);
        for copies in Copies::value_variants() {
            let again = load.again(*copies, stories);
            let line = json!({
                "bench": "scale",
                "docs_per_day": docs_per_day,
                "copies": copies.to_possible_value().expect("none is hidden").get_name(),
                "window_days": options.window,
                "peak_docs_per_s": load.docs_per_s.round(),
                "sidecars": load.sidecars,
                "docs_per_bulk": load.bulk.round(),
                "again_per_million": rounded(again * 1e6, 1),
                "bulks_with_again": rounded(1.0 - (1.0 - again).powf(load.bulk), 4),
                "memory_gb": rounded(docs_per_day * window * DOCUMENT / 1e9, 1),
                "commands_per_s": commands.round(),
                "redis_cores": rounded(load.docs_per_s / CORE, 2),
                "masters": load.masters,
                "is_beyond": load.masters > MASTERS,
                "commands_per_node": rounded(KEYS * WIDEST * load.bulk / load.masters.min(MASTERS), 1),
                "skew_bulk_p99": rounded(skew_bulk, 2),
                "skew_stored": rounded(skew_stored, 3),
                "hottest_key_per_s": rounded(2.0 * bulks_per_s * holds_hot, 1),
            });
            println!("{line}");
        }
    }
}
