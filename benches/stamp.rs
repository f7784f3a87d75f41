//! How fast one core stamps: `spinney stamp`, from NDJSON on its input to NDJSON on its output. Run by
//! `scripts/bench stamp`; `scripts/bench --help` says what is measured and how.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures, and its progress beside them"
)]

mod support {
    pub mod documents;
    pub mod process;
    pub mod random;
    pub mod run;
    pub mod stats;
    pub mod words;
}

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use serde::Deserialize;
use serde_json::json;

use support::documents::{Documents, Language};
use support::process::{Process, log_tail, output, peak_rss_mb};
use support::run::{progress_bar, until_stopped};
use support::stats::{median, rounded};

const SEED: u64 = 4;
const METHODS: [&str; 4] = ["verified", "longest", "full", "sentences:3"];
/// The input is at least this long, so that reading the dictionaries at the start counts for little.
const INPUT_BYTES: u64 = 250_000_000;
const QUICK_INPUT_BYTES: u64 = 20_000_000;

#[derive(Parser)]
#[command(about = "Run by scripts/bench stamp", disable_help_subcommand = true)]
struct Options {
    /// This method alone instead of all
    #[arg(long)]
    method: Option<String>,
    /// NDJSON to stamp instead of generated documents
    #[arg(long)]
    input: Option<PathBuf>,
    #[arg(long)]
    rounds: Option<usize>,
    /// A small run: 20 MB a language, 1 round
    #[arg(long)]
    quick: bool,
    #[arg(long, default_value = env!("CARGO_BIN_EXE_spinney"))]
    spinney: PathBuf,
    /// The core that spinney runs on
    #[arg(long)]
    cpu: usize,
    /// A folder for inputs and logs
    #[arg(long)]
    work: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Cargo runs benchmarks with nothing but its own flag.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        eprintln!("this benchmark needs a core of its own: run scripts/bench stamp");
        return ExitCode::SUCCESS;
    }
    until_stopped(run(Options::parse())).await
}

/// What `spinney stamp --stats` says on the last line of its standard error.
#[derive(Deserialize, Clone, Copy)]
struct Stats {
    documents: u64,
    nodes: u64,
}

/// A file to stamp.
struct Input {
    lang: String,
    path: PathBuf,
    bytes: u64,
}

/// One method on one input.
struct Case<'a> {
    method: &'a str,
    input: &'a Input,
    seconds: Vec<f64>,
    peak_rss_mb: f64,
    docs: u64,
    nodes_per_doc: f64,
}

async fn run(options: Options) -> anyhow::Result<()> {
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 5 });
    ensure!(rounds > 0, "--rounds must be at least 1");
    let wanted = if options.quick { QUICK_INPUT_BYTES } else { INPUT_BYTES };
    let methods: Vec<&str> = options.method.as_deref().map_or(METHODS.to_vec(), |method| vec![method]);
    let inputs = match &options.input {
        Some(path) => vec![repeated(path, wanted, &options.work)?],
        None => vec![
            generated(Language::Chinese, wanted, &options.work)?,
            generated(Language::English, wanted, &options.work)?,
        ],
    };
    let runner = Runner { spinney: options.spinney, cpu: options.cpu, work: options.work };
    let bar = progress_bar(methods.len() * inputs.len() * (rounds + 1), "runs", String::new());
    let mut cases = Vec::new();
    for method in methods {
        for input in &inputs {
            // The first pass is not timed. It meets every document once, also of an input that is repeated when timed,
            // where all but the first repetition would find their nodes made.
            bar.set_message(format!("first pass, {method} {}", input.lang));
            let once = options.input.as_deref().unwrap_or(&input.path);
            let Stats { documents, nodes } = runner.stamp(method, once).await?.stats;
            ensure!(documents > 0, "{} holds no documents", once.display());
            let nodes_per_doc = nodes as f64 / documents as f64;
            cases.push(Case { method, input, seconds: Vec::new(), peak_rss_mb: 0.0, docs: 0, nodes_per_doc });
            bar.inc(1);
        }
    }
    let count = cases.len();
    for round in 0..rounds {
        for turn in 0..count {
            let case = &mut cases[(round + turn) % count];
            let label = format!("round {}/{rounds}, {} {}", round + 1, case.method, case.input.lang);
            bar.set_message(label.clone());
            let stamped = runner.stamp(case.method, &case.input.path).await?;
            case.seconds.push(stamped.elapsed.as_secs_f64());
            case.peak_rss_mb = case.peak_rss_mb.max(stamped.peak_rss_mb);
            case.docs = stamped.stats.documents;
            bar.inc(1);
            let mb_per_s = case.input.bytes as f64 / 1e6 / stamped.elapsed.as_secs_f64();
            bar.suspend(|| eprintln!("{label}: {mb_per_s:.1} MB/s"));
        }
    }
    bar.finish_and_clear();
    cases.iter().for_each(report);
    Ok(())
}

fn report(case: &Case) {
    let seconds = median(&case.seconds);
    let line = json!({
        "bench": "stamp",
        "method": case.method,
        "lang": case.input.lang,
        "docs": case.docs,
        "mb_per_s": rounded(case.input.bytes as f64 / 1e6 / seconds, 2),
        "docs_per_s": rounded(case.docs as f64 / seconds, 1),
        "nodes_per_doc": rounded(case.nodes_per_doc, 4),
        "peak_rss_mb": rounded(case.peak_rss_mb, 1),
    });
    println!("{line}");
}

struct Runner {
    spinney: PathBuf,
    cpu: usize,
    work: PathBuf,
}

struct Stamped {
    elapsed: Duration,
    peak_rss_mb: f64,
    stats: Stats,
}

impl Runner {
    /// Runs `spinney stamp` once, from its start to its end, on one core and with one thread.
    async fn stamp(&self, method: &str, input: &Path) -> anyhow::Result<Stamped> {
        let log = self.work.join("stamp.log");
        let mut command = Command::new("taskset");
        command.arg("-c").arg(self.cpu.to_string()).arg(&self.spinney);
        command.args(["stamp", "--stats", "--threads", "1", "--method", method]);
        command.args(["--id-field", "id", "--title-field", "title", "--text-field", "content"]);
        command.stdin(File::open(input).with_context(|| format!("cannot read {}", input.display()))?);
        // The output is written but goes nowhere: a disk would be measured otherwise.
        command.stdout(Stdio::null()).stderr(output(&log)?);
        let started = Instant::now();
        // taskset turns into spinney, so this is spinney's own process.
        let mut process = Process::start(&mut command)?;
        let mut peak = 0.0;
        let status = loop {
            if let Some(status) = process.child.try_wait()? {
                break status;
            }
            // A process that has ended no longer tells its peak: the last look is at most 5 ms older.
            peak = peak_rss_mb(process.child.id()).unwrap_or(peak);
            #[expect(clippy::disallowed_methods, reason = "samples the memory of a running process")]
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let elapsed = started.elapsed();
        ensure!(status.success(), "spinney stamp --method {method} ended with {status}:\n{}", log_tail(&log));
        let said = fs::read_to_string(&log)?;
        let stats = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let stats =
            stats.with_context(|| format!("spinney stamp --stats ended without its counts:\n{}", log_tail(&log)))?;
        Ok(Stamped { elapsed, peak_rss_mb: peak, stats })
    }
}

/// Writes generated documents of one language into the work folder.
fn generated(language: Language, wanted: u64, work: &Path) -> anyhow::Result<Input> {
    eprintln!("making {} MB of documents, {}", wanted / 1_000_000, language.code());
    let path = work.join(format!("{}.ndjson", language.code()));
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let mut documents = Documents::new(SEED, Some(language));
    let mut line = Vec::new();
    let mut bytes = 0;
    while bytes < wanted {
        line.clear();
        documents.write_next(&mut line);
        file.write_all(&line)?;
        bytes += line.len() as u64;
    }
    file.flush()?;
    Ok(Input { lang: language.code().to_owned(), path, bytes })
}

/// Writes a given file into the work folder as often as it takes to be long enough.
fn repeated(given: &Path, wanted: u64, work: &Path) -> anyhow::Result<Input> {
    let mut once = fs::read(given).with_context(|| format!("cannot read {}", given.display()))?;
    ensure!(!once.is_empty(), "{} is empty", given.display());
    if !once.ends_with(b"\n") {
        once.push(b'\n');
    }
    let path = work.join("input.ndjson");
    let mut file = File::create(&path)?;
    let mut bytes = 0;
    while bytes < wanted {
        file.write_all(&once)?;
        bytes += once.len() as u64;
    }
    Ok(Input { lang: "input".to_owned(), path, bytes })
}
