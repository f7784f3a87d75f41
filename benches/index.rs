//! What the index of the nodes does: how fast it is filled, asked and changed, and what it takes of memory. Run by
//! `scripts/bench index`; `scripts/bench --help` says what is measured and how.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures, and its progress beside them"
)]

mod indexes {
    pub mod codes;
    pub mod data;
    pub mod figures;
    #[path = "../support/own.rs"]
    pub mod own;
}

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::hamming::{Entry, NodeIndex};
use spinney::hash::HashKey;

use indexes::codes::{self, Dist};
use indexes::data::{self, Data};
use indexes::figures::{Figures, LONGEST, is_exact, latency, rate};
use indexes::own::resident;

/// The documents whose fingerprints a writer's bulk asks for together.
const BATCH: usize = 16;
const NEAR: u32 = 3;

#[derive(Parser)]
#[command(about = "Run by scripts/bench index", disable_help_subcommand = true)]
struct Options {
    /// A folder for the fingerprints
    #[arg(long)]
    work: PathBuf,
    #[arg(long)]
    dist: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the fingerprints, and finds by scanning what is near some of them
    Make {
        #[arg(long)]
        nodes: usize,
        /// NDJSON with the texts of the real ones
        #[arg(long)]
        input: PathBuf,
    },
    /// Measures the index for one distance
    Measure {
        #[arg(long)]
        k: u32,
    },
}

fn main() -> ExitCode {
    // Cargo runs benchmarks with nothing but its own flag.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        eprintln!("this benchmark needs its fingerprints made first: run scripts/bench index");
        return ExitCode::SUCCESS;
    }
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    match &options.command {
        Command::Make { nodes, input } => {
            let dist: Dist =
                clap::ValueEnum::from_str(&options.dist, false).map_err(|error| anyhow::anyhow!("{error}"))?;
            make(dist, *nodes, input, &options.work)
        }
        Command::Measure { k } => {
            let figures = measure(*k, &options.work)?;
            println!("{}", figures.line(&options.dist));
            ensure!(figures.exact, "{} finds what a scan does not", figures.name);
            Ok(())
        }
    }
}

fn make(dist: Dist, nodes: usize, input: &Path, work: &Path) -> anyhow::Result<()> {
    let texts = match dist {
        Dist::Real => codes::of_texts(input)?,
        Dist::Uniform | Dist::Adversarial => Vec::new(),
    };
    eprintln!("making {nodes} fingerprints");
    let data = codes::make(dist, nodes, (nodes / 4).min(1_000_000), &texts);
    data.write(work)?;
    eprintln!("scanning them for what is near {} queries", data::CHECKED);
    for k in [0, NEAR] {
        data::write_truth(work, k, &codes::scan(&data, k))?;
    }
    Ok(())
}

fn measure(k: u32, work: &Path) -> anyhow::Result<Figures> {
    let name = match k {
        0 => "spinney exact".to_owned(),
        k => format!("spinney k={k}"),
    };
    let data = Data::read(work)?;
    // A key like those that are drawn, but every time the same.
    let key = HashKey::new(0x8c5a_96b3_2f1e_d947, 0x1d3b_79e5_0f42_a8c6);
    let mut index = NodeIndex::new(Distance(k), key)?;

    eprintln!("{name}: filling");
    let before = resident() as f64;
    let mut slowest = 0.0_f64;
    let insert_per_s = rate(&data.nodes, BATCH, f64::INFINITY, |codes| {
        for &code in codes {
            insert(&mut index, code);
        }
    });
    ensure!(index.len() == data.nodes.len(), "the index holds {} of {} nodes", index.len(), data.nodes.len());
    let bytes_per_node = (resident() as f64 - before) / index.len() as f64;
    let counted = index.memory_bytes() as f64 / index.len() as f64;
    eprintln!("{name}: {bytes_per_node:.2} bytes a node, {counted:.2} by its own account");

    eprintln!("{name}: looking up");
    let exact = is_exact(work, k, &data.queries, |query, found| {
        index.near(Fingerprint(query), |code, _, _| {
            *found = (found.0 + 1, found.1 ^ code.0);
        });
    })?;
    let mut met = 0_u64;
    let lookups_per_s_batched = rate(&data.queries, BATCH, LONGEST, |queries| {
        index.prefetch(&prints(queries));
        for query in prints(queries) {
            index.near(query, |_, _, _| met += 1);
        }
    });
    let lookup_us = latency(&data.queries, |query| {
        index.near(Fingerprint(query), |_, _, _| met += 1);
    });
    std::hint::black_box(met);

    eprintln!("{name}: placing");
    // What a forest does with a fingerprint: it looks for what is near, makes a node or refreshes the one there is, and
    // lets an old one go for every new one.
    let mut oldest = data.nodes.iter();
    let placements_per_s = rate(&data.arrivals, BATCH, LONGEST, |arrivals| {
        index.prefetch(&prints(arrivals));
        for arrival in prints(arrivals) {
            let started = Instant::now();
            let mut nearest = None;
            index.near(arrival, |_, distance, entry| {
                nearest = nearest.max(Some((Reverse(distance), entry.root)));
            });
            if let Some((Reverse(Distance(0)), _)) = nearest {
                index.set_tick(arrival, 2);
            } else {
                insert(&mut index, arrival.0);
                let old = oldest.next().map(|&old| Fingerprint(old));
                old.and_then(|old| index.remove(old));
            }
            slowest = slowest.max(started.elapsed().as_secs_f64());
        }
    });
    eprintln!("{name}: the slowest placement took {:.2} ms", slowest * 1e3);
    Ok(Figures {
        name,
        nodes: data.nodes.len(),
        insert_per_s,
        lookups_per_s_batched,
        lookup_us,
        placements_per_s: Some(placements_per_s),
        bytes_per_node,
        exact,
    })
}

fn prints(codes: &[u64]) -> Vec<Fingerprint> {
    codes.iter().map(|&code| Fingerprint(code)).collect()
}

fn insert(index: &mut NodeIndex, code: u64) {
    let entry = Entry { root: (code >> 40) as u32, tick: 1 };
    index.insert(Fingerprint(code), entry).expect("room");
}
