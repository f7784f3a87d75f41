//! How much of a server's bulk rate is left behind spinney, beside nginx. Run by `scripts/bench bulk`, which starts the
//! server on another core; `scripts/bench --help` says what is measured and how.

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
    pub mod answers;
    pub mod documents;
    pub mod http;
    pub mod load;
    pub mod peers;
    pub mod process;
    pub mod random;
    pub mod run;
    pub mod stats;
    pub mod words;
}

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use clap::Parser;
use hyper::Method;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use spinney::config::RawRoute;
use spinney::engine::{Engine, RequestContext, Write};
use spinney::hash::HashKey;
use spinney::time::Millis;

use support::answers;
use support::documents::Documents;
use support::http::{self, Connection};
use support::load::{self, BULK};
use support::peers::{self, Proxy};
use support::run::{progress_bar, until_stopped};
use support::stats::{median, quantile, rounded};

/// Seeds of what is counted, of the bulks that warm a process up, and of the bulks whose latency is measured.
const SEED: u64 = 1;
const WARM_SEED: u64 = 2;
const LATENCY_SEED: u64 = 3;
const IN_FLIGHT: usize = 6;
/// The round before the first is a fifth as long as the others, but not shorter than this, if they are not.
const WARM_UP_BULKS: usize = 20;
/// Bulks that go uncounted to every process right before its clock starts.
const WARM_BULKS: usize = 6;

#[derive(Parser)]
#[command(about = "Run by scripts/bench bulk", disable_help_subcommand = true)]
struct Options {
    /// Documents of every load, a multiple of 1,000
    #[arg(long)]
    docs: Option<usize>,
    /// Rounds that count
    #[arg(long)]
    rounds: Option<usize>,
    #[arg(long, default_value = "verified")]
    method: String,
    /// A small run: 10,000 documents, 2 rounds
    #[arg(long)]
    quick: bool,
    /// The server, as http://host:port
    #[arg(long)]
    upstream: String,
    #[arg(long)]
    nginx: PathBuf,
    #[arg(long, default_value = env!("CARGO_BIN_EXE_spinney"))]
    spinney: PathBuf,
    /// A folder for logs and configurations
    #[arg(long)]
    work: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Direct,
    Spinney,
    /// Directly, with the stamps that spinney would write in the documents already: what they cost the server.
    Stamped,
    Nginx,
    /// Through spinney with a directory for its forest, whose answers wait for the disk.
    Batch,
    /// The same with answers that wait for nothing.
    Unsynced,
    /// Through spinney in memory, which signs what it sends.
    Signed,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Spinney => "spinney",
            Way::Stamped => "stamped",
            Way::Nginx => "nginx",
            Way::Batch => "batch",
            Way::Unsynced => "unsynced",
            Way::Signed => "signed",
        }
    }

    fn is_spinney(self) -> bool {
        matches!(self, Way::Spinney | Way::Batch | Way::Unsynced | Way::Signed)
    }

    fn writes_stamps(self) -> bool {
        self.is_spinney() || self == Way::Stamped
    }
}

const WAYS: [Way; 7] = [Way::Direct, Way::Spinney, Way::Stamped, Way::Signed, Way::Batch, Way::Nginx, Way::Unsynced];

/// The ways of a round in an order that changes from round to round: each is in every place, and none always follows
/// the same other one.
fn order(round: usize) -> [Way; 7] {
    let mut order = WAYS;
    order.rotate_left(round / 2 % WAYS.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Cargo runs benchmarks with nothing but its own flag.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        eprintln!("this benchmark needs a server: run scripts/bench bulk");
        return ExitCode::SUCCESS;
    }
    until_stopped(run(Options::parse())).await
}

async fn run(options: Options) -> anyhow::Result<()> {
    let docs = options.docs.unwrap_or(if options.quick { 10_000 } else { 200_000 });
    let rounds = options.rounds.unwrap_or(if options.quick { 2 } else { 8 });
    let latency_pairs = if options.quick { 30 } else { 300 };
    ensure!(docs > 0 && docs.is_multiple_of(BULK), "--docs must be a multiple of {BULK}");
    ensure!(rounds > 0, "--rounds must be at least 1");

    let upstream = http::authority(&options.upstream)?.to_owned();
    peers::setup(&options.spinney, &options.work, &options.upstream)?;
    let nginx = peers::nginx(&options.nginx, &options.work, &upstream).await?;
    eprintln!("making {docs} documents");
    let bodies = load::bulks(&mut Documents::new(SEED, None), docs / BULK);
    let bytes: usize = bodies.iter().map(Bytes::len).sum();
    eprintln!("{:.0} MB, {} bytes a document", bytes as f64 / 1e6, bytes / docs);

    let bench = Bench {
        stamped: stamped(&bodies, &options.method)?,
        bodies,
        warm: load::bulks(&mut Documents::new(WARM_SEED, None), WARM_BULKS),
        upstream,
        upstream_url: options.upstream,
        nginx: nginx.authority.clone(),
        spinney: options.spinney,
        work: options.work,
        method: options.method,
    };
    // The server compiles its hot paths while it is first used: nothing of this is counted.
    let warm_up = bench.bodies.len().div_ceil(5).max(WARM_UP_BULKS);
    for way in WAYS {
        let first = bench.bodies(way).iter().take(warm_up).cloned().collect();
        bench.measure(way, "warm-up", &first).await?;
    }
    let mut results = Results::default();
    for round in 0..rounds {
        for way in order(round) {
            let label = format!("round {}/{rounds}", round + 1);
            let measured = bench.measure(way, &label, bench.bodies(way)).await?;
            results.of(way).push(measured.docs_per_s);
            if way == Way::Spinney {
                results.cpu.extend(measured.cpu_s_per_1000_docs);
                let peak_rss_mb = measured.peak_rss_mb.unwrap_or(0.0);
                results.peak_rss_mb = results.peak_rss_mb.max(peak_rss_mb);
            }
        }
    }
    let (direct, proxied) = bench.latencies(latency_pairs).await?;
    results.report(&bench.method, docs, &direct, &proxied);
    Ok(())
}

/// The same bulks with the stamps that an empty forest of this method writes.
fn stamped(bodies: &[Bytes], method: &str) -> anyhow::Result<Arc<[Bytes]>> {
    let options = json!({
        "index": ["*"], "text_field": ["content"], "title_field": "title", "method": method,
    });
    let route = serde_json::from_value::<RawRoute>(options)?.validate("bench")?;
    let engine = Arc::new(Engine::new(&[route], "cluster_", 0, HashKey::FIXED)?);
    let now = jiff::Timestamp::now().as_millisecond();
    let stamp = |(unique, body): (u64, &Bytes)| -> anyhow::Result<Bytes> {
        let call = RequestContext { now: Millis(now), latest: Millis(now), unique, caller: None };
        let write = Write::Bulk { index: Some("bench".into()) };
        let stamped = engine.parse_and_stamp(body.clone(), write, call);
        let (splice, _) = futures_executor::block_on(stamped)?.into_parts();
        let mut out = Vec::with_capacity(splice.len(body.len()));
        splice.write_to(body, &mut out);
        Ok(out.into())
    };
    (0..).zip(bodies).map(stamp).collect()
}

struct Bench {
    bodies: Arc<[Bytes]>,
    stamped: Arc<[Bytes]>,
    warm: Arc<[Bytes]>,
    upstream: String,
    upstream_url: String,
    nginx: String,
    spinney: PathBuf,
    work: PathBuf,
    method: String,
}

/// One load; the last two are spinney's alone.
struct Measured {
    docs_per_s: f64,
    cpu_s_per_1000_docs: Option<f64>,
    peak_rss_mb: Option<f64>,
}

impl Bench {
    fn bodies(&self, way: Way) -> &Arc<[Bytes]> {
        match way {
            Way::Stamped => &self.stamped,
            _ => &self.bodies,
        }
    }

    /// Every load through spinney meets a new process: its forest starts empty, as it does with the others.
    async fn start_spinney(&self, way: Way) -> anyhow::Result<Proxy> {
        let dir = self.work.join("forests");
        let path = dir.to_string_lossy().into_owned();
        let stored = |durability| vec!["--data-dir", path.as_str(), "--durability", durability];
        let more = match way {
            Way::Batch => stored("batch"),
            Way::Unsynced => stored("none"),
            Way::Signed => vec!["--upstream-auth", "sigv4", "--aws-region", "eu-central-1"],
            _ => Vec::new(),
        };
        // Nothing is found again: every load begins with an empty forest.
        let _ = std::fs::remove_dir_all(&dir);
        peers::spinney(&self.spinney, Path::new(&self.work), &self.upstream_url, &self.method, &more).await
    }

    /// One load into a fresh index, checked after the clock has stopped; the index is deleted then.
    async fn measure(&self, way: Way, label: &str, bodies: &Arc<[Bytes]>) -> anyhow::Result<Measured> {
        let spinney = if way.is_spinney() { Some(self.start_spinney(way).await?) } else { None };
        let authority = match (&spinney, way) {
            (Some(proxy), _) => &proxy.authority,
            (None, Way::Nginx) => &self.nginx,
            (None, _) => &self.upstream,
        };
        let index = format!("bench-{}", way.name());
        let warm_index = format!("bench-warm-{}", way.name());
        self.create(&warm_index).await?;
        load::load(authority, &format!("/{warm_index}/_bulk"), &self.warm, IN_FLIGHT, &ProgressBar::hidden()).await?;
        self.delete(&warm_index).await?;
        self.create(&index).await?;
        #[expect(clippy::disallowed_methods, reason = "lets the server come to rest before the clock starts")]
        tokio::time::sleep(Duration::from_millis(300)).await;

        let bar = progress_bar(bodies.len(), "bulks", format!("{label} {}", way.name()));
        let cpu_before = spinney.as_ref().map(Proxy::cpu_seconds).transpose()?;
        let loaded = load::load(authority, &format!("/{index}/_bulk"), bodies, IN_FLIGHT, &bar).await?;
        let cpu_after = spinney.as_ref().map(Proxy::cpu_seconds).transpose()?;
        bar.finish_and_clear();

        let docs = bodies.len() * BULK;
        answers::check(&loaded.answers, BULK)?;
        let roots = self.check_index(&index, docs, way).await?;
        self.delete(&index).await?;
        let docs_per_s = docs as f64 / loaded.elapsed.as_secs_f64();
        let found = roots.map_or(String::new(), |roots| format!(", about {roots} roots"));
        eprintln!("{label}: {:7} {docs_per_s:8.0} documents/s{found}", way.name());
        Ok(Measured {
            docs_per_s,
            cpu_s_per_1000_docs: cpu_before.zip(cpu_after).map(|(before, after)| (after - before) * 1e3 / docs as f64),
            peak_rss_mb: spinney.as_ref().map(Proxy::peak_rss_mb).transpose()?,
        })
    }

    /// Every document must be there once, and every one with a root where stamps are written. Answers with the number
    /// of roots.
    async fn check_index(&self, index: &str, docs: usize, way: Way) -> anyhow::Result<Option<u64>> {
        self.ask(Method::POST, &format!("/{index}/_refresh"), &Value::Null).await?;
        let counted = self.ask(Method::GET, &format!("/{index}/_count"), &Value::Null).await?;
        ensure!(counted["count"] == docs, "{index} holds {} documents instead of {docs}", counted["count"]);
        let query = json!({
            "size": 0,
            "track_total_hits": true,
            "query": {"exists": {"field": "cluster_root"}},
            "aggs": {"roots": {"cardinality": {"field": "cluster_key", "precision_threshold": 40_000}}},
        });
        let found = self.ask(Method::POST, &format!("/{index}/_search"), &query).await?;
        let stamped = &found["hits"]["total"]["value"];
        let expected = if way.writes_stamps() { docs } else { 0 };
        ensure!(*stamped == expected, "{index} holds {stamped} stamped documents instead of {expected}");
        Ok(if way.writes_stamps() { found["aggregations"]["roots"]["value"].as_u64() } else { None })
    }

    /// One bulk at a time, in turns directly and through spinney: the two lists of latencies in milliseconds.
    async fn latencies(&self, pairs: usize) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
        let spinney = self.start_spinney(Way::Spinney).await?;
        let authorities = [&self.upstream, &spinney.authority];
        let mut connections = Vec::new();
        let mut paths = Vec::new();
        for (authority, way) in authorities.into_iter().zip([Way::Direct, Way::Spinney]) {
            let index = format!("bench-latency-{}", way.name());
            self.create(&index).await?;
            let mut connection = Connection::open(authority).await?;
            for body in self.warm.iter() {
                connection.bulk(&format!("/{index}/_bulk"), body.clone()).await?;
            }
            connections.push(connection);
            paths.push(format!("/{index}/_bulk"));
        }
        let mut documents = Documents::new(LATENCY_SEED, None);
        let mut latencies = [Vec::new(), Vec::new()];
        let mut answers = Vec::new();
        let bar = progress_bar(pairs, "bulks", "latency, one bulk in flight".to_owned());
        for pair in 0..pairs {
            let body = load::bulks(&mut documents, 1)[0].clone();
            for turn in 0..2 {
                let side = (pair + turn) % 2;
                let started = Instant::now();
                let answer = connections[side].bulk(&paths[side], body.clone()).await?;
                latencies[side].push(started.elapsed().as_secs_f64() * 1e3);
                answers.push(answer);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        answers::check(&answers, BULK)?;
        for path in paths {
            self.delete(path.trim_start_matches('/').trim_end_matches("/_bulk")).await?;
        }
        let [direct, proxied] = latencies;
        Ok((direct, proxied))
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        http::json(&self.upstream, method, path, body).await
    }

    /// One shard, no copies, no refresh while the load runs; the stamp's fields come from the template of `spinney
    /// setup`.
    async fn create(&self, index: &str) -> anyhow::Result<()> {
        let keyword = json!({"type": "keyword"});
        let text = json!({"type": "text"});
        let definition = json!({
            "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"},
            "mappings": {"properties": {
                "id": keyword, "title": text, "content": text, "url": keyword, "media": keyword,
                "published_at": {"type": "date"}, "lang": keyword, "comments": {"type": "integer"},
            }},
        });
        self.ask(Method::PUT, &format!("/{index}"), &definition).await?;
        Ok(())
    }

    async fn delete(&self, index: &str) -> anyhow::Result<()> {
        self.ask(Method::DELETE, &format!("/{index}"), &Value::Null).await?;
        Ok(())
    }
}

#[derive(Default)]
struct Results {
    direct: Vec<f64>,
    proxied: Vec<f64>,
    stamped: Vec<f64>,
    nginx: Vec<f64>,
    batch: Vec<f64>,
    unsynced: Vec<f64>,
    signed: Vec<f64>,
    cpu: Vec<f64>,
    peak_rss_mb: f64,
}

impl Results {
    fn of(&mut self, way: Way) -> &mut Vec<f64> {
        match way {
            Way::Direct => &mut self.direct,
            Way::Spinney => &mut self.proxied,
            Way::Stamped => &mut self.stamped,
            Way::Nginx => &mut self.nginx,
            Way::Batch => &mut self.batch,
            Way::Unsynced => &mut self.unsynced,
            Way::Signed => &mut self.signed,
        }
    }

    /// The ratio of two ways within each round, then the median: what changes from round to round drops out.
    fn ratio(of: &[f64], to: &[f64]) -> f64 {
        let ratios: Vec<_> = of.iter().zip(to).map(|(of, to)| of / to).collect();
        median(&ratios)
    }

    fn report(&self, method: &str, docs: usize, direct_ms: &[f64], proxied_ms: &[f64]) {
        let to_direct = |of| Self::ratio(of, &self.direct);
        let (ratio, nginx_ratio) = (to_direct(&self.proxied), to_direct(&self.nginx));
        let wanted = f64::min(0.95, nginx_ratio - 0.03);
        let verdict = if ratio >= wanted { "reached" } else { "missed" };
        eprintln!(
            "latency of a bulk, median: direct {:.1} ms, spinney {:.1} ms; ratio to direct: spinney {ratio:.4}, \
             documents that bring their stamps {:.4}, nginx {nginx_ratio:.4}; at least {wanted:.4} is wanted: {verdict}",
            median(direct_ms),
            median(proxied_ms),
            to_direct(&self.stamped),
        );
        let added = |share| rounded(quantile(proxied_ms, share) - quantile(direct_ms, share), 2);
        let line = json!({
            "bench": "bulk",
            "method": method,
            "docs": docs,
            "direct_docs_per_s": rounded(median(&self.direct), 1),
            "proxied_docs_per_s": rounded(median(&self.proxied), 1),
            "nginx_docs_per_s": rounded(median(&self.nginx), 1),
            "stamped_docs_per_s": rounded(median(&self.stamped), 1),
            "ratio": rounded(ratio, 4),
            "ratio_to_stamped": rounded(Self::ratio(&self.proxied, &self.stamped), 4),
            "ratio_batch_to_memory": rounded(Self::ratio(&self.batch, &self.proxied), 4),
            "ratio_batch_to_unsynced": rounded(Self::ratio(&self.batch, &self.unsynced), 4),
            "ratio_signed_to_memory": rounded(Self::ratio(&self.signed, &self.proxied), 4),
            "cpu_s_per_1000_docs": rounded(median(&self.cpu), 5),
            "peak_rss_mb": rounded(self.peak_rss_mb, 1),
            "added_p50_ms": added(0.50),
            "added_p99_ms": added(0.99),
        });
        println!("{line}");
    }
}
