//! How long a restart takes: a process that has placed many documents is killed, and another one opens what it has
//! stored. Run by `scripts/bench restart`; `scripts/bench --help` says what is measured and how.

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
    pub mod stats;
    pub mod words;
}

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use futures_executor::block_on;
use serde_json::{Value, json};
use spinney::config::{OnFailure, OnUnreadable, RawRoute, Route, Storage};
use spinney::engine::{Engine, RequestContext, Resolution};
use spinney::hash::{HashKey, splitmix64};
use spinney::store::Durability;
use spinney::time::Millis;

use support::documents::Documents;
use support::own::resident;
use support::stats::rounded;

/// Documents that are known together.
const BULK: u64 = 1_000;
/// Bulks that are made ahead.
const AHEAD: usize = 4;

#[derive(Parser)]
#[command(about = "Run by scripts/bench restart", disable_help_subcommand = true)]
struct Options {
    /// Documents that are stored
    #[arg(long, default_value_t = 10_000_000)]
    docs: u64,
    /// Restarts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// 200,000 documents
    #[arg(long)]
    quick: bool,
    /// Where to store them
    #[arg(long)]
    work: Option<PathBuf>,
    /// One part alone
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Cargo's own flag
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Stores documents, and says when all are safe; then it waits for its end
    Write,
    /// Opens what is stored
    Open,
}

fn route() -> Route {
    let raw = json!({"title_field": "title", "window": "none"});
    let raw: RawRoute = serde_json::from_value(raw).expect("the options are known");
    raw.any_index().validate("bench").expect("the options are right")
}

fn open(work: &Path) -> Arc<Engine> {
    let storage = Storage {
        data_dir: work.join("data"),
        durability: Durability::Batch,
        on_failure: OnFailure::Refuse,
        on_unreadable: OnUnreadable::Refuse,
    };
    // As every process has one of its own: with the same one, the nodes would come in the order of the table.
    let id = u64::from(std::process::id());
    let key = HashKey::new(splitmix64(id), splitmix64(!id));
    Arc::new(Engine::stored(&[route()], "cluster_", 0, key, Some(&storage)).unwrap())
}

/// What is in the forest, and what the process holds.
fn figures(engine: &Engine) -> Value {
    let stats = block_on(engine.forests().stats()).unwrap().remove(0).1;
    json!({"nodes": stats.nodes, "roots": stats.roots, "memory_bytes": stats.memory_bytes, "resident": resident()})
}

fn write(work: &Path, docs: u64) {
    let engine = open(work);
    let (made, bulks) = mpsc::sync_channel::<Vec<u8>>(AHEAD);
    std::thread::spawn(move || {
        let mut documents = Documents::new(11, None);
        for _ in 0..docs / BULK {
            let mut bulk = Vec::new();
            (0..BULK).for_each(|_| documents.write_next(&mut bulk));
            if made.send(bulk).is_err() {
                return;
            }
        }
    });
    for (at, bulk) in bulks.into_iter().enumerate() {
        let context = RequestContext {
            now: Millis(at as i64 * 1_000),
            latest: Millis(i64::MAX),
            unique: at as u64,
            caller: None,
        };
        let (_, placed) = block_on(engine.stamp_lines(bulk.into(), context)).unwrap().into_parts();
        // Answered when it is safe.
        block_on(engine.settle(placed, Resolution::Status(200), context.now)).unwrap();
        eprint!("\rrestart: {} of {docs} documents", (at as u64 + 1) * BULK);
    }
    eprintln!();
    wait_for_the_end(&figures(&engine));
}

fn read(work: &Path) {
    let begun = Instant::now();
    let engine = open(work);
    let seconds = begun.elapsed().as_secs_f64();
    wait_for_the_end(&json!({"seconds": seconds, "figures": figures(&engine)}));
}

/// Whoever has started this kills it when it has read the line.
fn wait_for_the_end(told: &Value) {
    println!("{told}");
    loop {
        std::thread::park();
    }
}

fn files(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let sizes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => files(&entry.path()),
        false => entry.metadata().unwrap().len(),
    });
    sizes.sum()
}

fn main() {
    let options = Options::parse();
    if options.bench && std::env::args().len() <= 2 {
        eprintln!("this benchmark needs a folder: run scripts/bench restart");
        return;
    }
    let work = options.work.expect("--work is given");
    let docs = if options.quick { 200_000 } else { options.docs };
    match options.part {
        Some(Part::Write) => return write(&work, docs),
        Some(Part::Open) => return read(&work),
        None => {}
    }
    let program = std::env::current_exe().expect("a program knows where it is");
    let part = |part: &str| -> Value {
        let docs = docs.to_string();
        let mut command = Command::new(&program);
        command.args(["--docs", &docs, "--part", part, "--work"]).arg(&work);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts again");
        let mut told = String::new();
        let out = child.stdout.take().expect("it is piped");
        let read = BufReader::new(out).read_line(&mut told);
        // No warning, and no time to put anything in order.
        child.kill().and_then(|()| child.wait()).expect("it is ended");
        read.expect("it tells its figures");
        serde_json::from_str(&told).expect("it tells its figures")
    };
    let written = part("write");
    let stored = files(&work);
    for _ in 0..options.rounds {
        let opened = part("open");
        for figure in ["nodes", "roots"] {
            assert_eq!(opened["figures"][figure], written[figure], "{figure} after the restart");
        }
        let resident = opened["figures"]["resident"].as_f64().expect("it is told");
        let line = json!({
            "bench": "restart",
            "method": "verified",
            "docs": docs,
            "seconds": rounded(opened["seconds"].as_f64().expect("it is told"), 2),
            "stored_bytes_per_doc": rounded(stored as f64 / docs as f64, 1),
            "bytes_per_doc": rounded(resident / docs as f64, 1),
            "nodes": written["nodes"],
            "roots": written["roots"],
        });
        println!("{line}");
    }
}
