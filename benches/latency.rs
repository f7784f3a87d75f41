//! What a quiet system adds to one write. Run by `scripts/bench latency`, which starts the server; `scripts/bench
//! --help` says what is measured and how.

#![allow(
    unreachable_pub,
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures, and its progress beside them; it needs a part of what is supported"
)]

mod support {
    pub mod answers;
    pub mod documents;
    pub mod http;
    pub mod peers;
    pub mod process;
    pub mod random;
    pub mod redis;
    pub mod run;
    pub mod stats;
    pub mod words;
}

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;
use bytes::Bytes;
use clap::Parser;
use hyper::{Method, StatusCode};
use serde_json::json;

use support::answers;
use support::documents::Documents;
use support::http::{self, Connection};
use support::peers::{self, Proxy};
use support::redis::{self, Node};
use support::run::{progress_bar, until_stopped};
use support::stats::{median, quantile, rounded};

const SEED: u64 = 1;
/// Turns that go uncounted: servers compile and caches fill.
const WARM_UP: usize = 60;
/// Documents of a request; one alone is sent as a document, not as a bulk.
const SIZES: [usize; 3] = [1, 10, 100];
/// Bytes that the disk's reference appends before it syncs: about the changes of one document.
const SYNCED_BYTES: usize = 512;

#[derive(Parser)]
#[command(about = "Run by scripts/bench latency", disable_help_subcommand = true)]
struct Options {
    /// Turns of each size that count
    #[arg(long)]
    rounds: Option<usize>,
    /// A small run: 30 turns
    #[arg(long)]
    quick: bool,
    /// The server, as http://host:port
    #[arg(long)]
    upstream: String,
    #[arg(long, default_value = env!("CARGO_BIN_EXE_spinney"))]
    spinney: PathBuf,
    /// Another spinney, measured in the same turns
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A folder for logs and forests
    #[arg(long)]
    work: PathBuf,
}

/// Where a spinney keeps its forest.
#[derive(Clone, Copy)]
enum Storage {
    Memory,
    Batch,
    Redis,
}

impl Storage {
    const ALL: [Storage; 3] = [Storage::Memory, Storage::Batch, Storage::Redis];

    fn name(self) -> &'static str {
        match self {
            Storage::Memory => "memory",
            Storage::Batch => "batch",
            Storage::Redis => "redis",
        }
    }
}

/// A way to the server: what it is called, its open connection, and the process in between.
struct Way {
    name: String,
    connection: Connection,
    index: String,
    _proxy: Option<Proxy>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Cargo runs benchmarks with nothing but its own flag.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        eprintln!("this benchmark needs a server: run scripts/bench latency");
        return ExitCode::SUCCESS;
    }
    until_stopped(run(Options::parse())).await
}

async fn run(options: Options) -> anyhow::Result<()> {
    let rounds = options.rounds.unwrap_or(if options.quick { 30 } else { 500 });
    let masters = redis::nodes(&options.work, 1);
    peers::setup(&options.spinney, &options.work, &options.upstream)?;
    let mut ways = vec![way(&options, "direct", None).await?];
    let binaries = [("", Some(&options.spinney)), ("_other", options.binary.as_ref())];
    for storage in Storage::ALL {
        for (suffix, binary) in binaries {
            let Some(binary) = binary else { continue };
            let name = format!("{}{suffix}", storage.name());
            let proxy = spinney(&options, binary, storage, &name, &masters).await?;
            ways.push(way(&options, &name, Some(proxy)).await?);
        }
    }
    let mut documents = Documents::new(SEED, None);
    for size in SIZES {
        measure(&mut ways, &mut documents, size, rounds, &options.work, &masters).await?;
    }
    Ok(())
}

async fn spinney(
    options: &Options,
    binary: &Path,
    storage: Storage,
    name: &str,
    masters: &[Node],
) -> anyhow::Result<Proxy> {
    let work = options.work.join(name);
    fs::create_dir_all(&work)?;
    let (directory, store) = (work.join("forests").to_string_lossy().into_owned(), redis::url(masters));
    let more = match storage {
        Storage::Memory => Vec::new(),
        Storage::Batch => vec!["--data-dir", directory.as_str(), "--durability", "batch"],
        Storage::Redis => vec!["--forest-store", store.as_str()],
    };
    peers::spinney(binary, &work, &options.upstream, "verified", &more).await
}

/// The way through this proxy, or direct, into an index of its own.
async fn way(options: &Options, name: &str, proxy: Option<Proxy>) -> anyhow::Result<Way> {
    let upstream = http::authority(&options.upstream)?;
    let index = format!("bench-{}", name.replace('_', "-"));
    let text = json!({"type": "text"});
    let definition = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"},
        "mappings": {"properties": {"title": text, "content": text}},
    });
    http::json(upstream, Method::PUT, &format!("/{index}"), &definition).await?;
    let authority = proxy.as_ref().map_or(upstream, |proxy| &proxy.authority);
    let connection = Connection::open(authority).await?;
    Ok(Way { name: name.to_owned(), connection, index, _proxy: proxy })
}

impl Way {
    /// Sends these documents, and answers how long that took, in milliseconds.
    async fn send(&mut self, body: &Bytes, size: usize) -> anyhow::Result<f64> {
        let began = Instant::now();
        if size == 1 {
            let path = format!("/{}/_doc", self.index);
            let (status, _) = self.connection.request(Method::POST, &path, "application/json", body.clone()).await?;
            let took = began.elapsed();
            ensure!(status == StatusCode::CREATED, "{path} answered {status}");
            return Ok(took.as_secs_f64() * 1e3);
        }
        let answer = self.connection.bulk(&format!("/{}/_bulk", self.index), body.clone()).await?;
        let took = began.elapsed();
        answers::check(&[answer], size)?;
        Ok(took.as_secs_f64() * 1e3)
    }
}

fn body(documents: &mut Documents, size: usize) -> Bytes {
    let mut body = Vec::new();
    for _ in 0..size {
        if size > 1 {
            body.extend_from_slice(b"{\"index\":{}}\n");
        }
        documents.write_next(&mut body);
    }
    body.into()
}

async fn measure(
    ways: &mut [Way],
    documents: &mut Documents,
    size: usize,
    rounds: usize,
    work: &Path,
    masters: &[Node],
) -> anyhow::Result<()> {
    let bar = progress_bar(WARM_UP + rounds, "turns", format!("requests of {size}"));
    let mut synced = File::create(work.join("synced"))?;
    let mut store = TcpStream::connect(("127.0.0.1", masters[0].port))?;
    store.set_nodelay(true)?;
    let mut took = vec![Vec::new(); ways.len()];
    let (mut syncs, mut trips) = (Vec::new(), Vec::new());
    let count = ways.len();
    for turn in 0..WARM_UP + rounds {
        let body = body(documents, size);
        // Each way comes first, last and behind each other one equally often.
        for place in 0..count {
            let at = if turn % 2 == 0 { turn / 2 + place } else { turn / 2 + count - place } % count;
            let ms = ways[at].send(&body, size).await?;
            if turn >= WARM_UP {
                took[at].push(ms);
            }
        }
        let began = Instant::now();
        synced.write_all(&[0; SYNCED_BYTES])?;
        synced.sync_data()?;
        let sync = began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        store.write_all(b"PING\r\n")?;
        store.read_exact(&mut [0; 7])?;
        if turn >= WARM_UP {
            syncs.push(sync);
            trips.push(began.elapsed().as_secs_f64() * 1e3);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let direct = &took[0];
    for (way, took) in ways.iter().zip(&took) {
        let added: Vec<f64> = took.iter().zip(direct).map(|(took, direct)| took - direct).collect();
        let added_quantile = |share| rounded(quantile(took, share) - quantile(direct, share), 3);
        let line = json!({
            "bench": "latency",
            "docs": size,
            "way": way.name,
            "turns": rounds,
            "p50_ms": rounded(median(took), 3),
            "p99_ms": rounded(quantile(took, 0.99), 3),
            "added_p50_ms": added_quantile(0.50),
            "added_p99_ms": added_quantile(0.99),
            "added_in_turn_p50_ms": rounded(median(&added), 3),
            "fsync_p50_ms": rounded(median(&syncs), 3),
            "round_trip_p50_ms": rounded(median(&trips), 3),
        });
        println!("{line}");
    }
    Ok(())
}
