//! What unverified writers can do to those who use a spinney: how long honest requests wait beside each attack, how
//! much memory it takes, and what it leaves behind. Run by `scripts/attack`, which starts a secured server;
//! `scripts/attack --help` says what is measured and how.

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
    #![allow(dead_code, reason = "each program uses a part of it")]
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

mod attacks {
    pub mod cases;
    pub mod probes;
    pub mod requests;
    pub mod scene;
    pub mod texts;
    pub mod upstream;
}

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Parser;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use attacks::cases::{CASES, Case, INDEX, to_join};
use attacks::probes::{HONEST, Phase, Place, Probes, Times, credentials};
use attacks::requests::{Attacker, Caller, pause, send_all};
use attacks::scene::{Home, Memory, Spinney};
use attacks::upstream;
use support::answers;
use support::documents::Documents;
use support::http::Connection;
use support::load;
use support::run::unless_stopped;
use support::stats::{quantile, rounded};

/// The longest that a case may take; what hangs for longer is an error.
const CASE_PATIENCE: Duration = Duration::from_secs(600);

/// What the writer's first bulks take is not counted.
const WARM_BULKS: u32 = 2;

#[derive(Parser)]
#[command(about = "Run by scripts/attack", disable_help_subcommand = true)]
struct Options {
    /// These cases alone
    #[arg(long = "case")]
    cases: Vec<String>,
    /// A small run: one short phase of quiet and one of each attack
    #[arg(long)]
    quick: bool,
    /// The secured server, as https://host:port
    #[arg(long)]
    upstream: String,
    /// PEM file of its certificate authority
    #[arg(long)]
    ca: PathBuf,
    #[arg(long, default_value = env!("CARGO_BIN_EXE_spinney"))]
    spinney: PathBuf,
    /// A folder for logs
    #[arg(long)]
    work: PathBuf,
}

/// How long, and how often in turns.
struct Pace {
    rounds: usize,
    phase: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Cargo runs benchmarks with nothing but its own flag.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        eprintln!("this benchmark needs a server: run scripts/attack");
        return ExitCode::SUCCESS;
    }
    match unless_stopped(run(Options::parse())).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("attack: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases. False: one of them has left something behind.
async fn run(options: Options) -> anyhow::Result<bool> {
    for name in &options.cases {
        let known = CASES.iter().any(|case| case.name == name);
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        ensure!(known, "there is no case {name}: {}", names.join(", "));
    }
    let pace = match options.quick {
        true => Pace { rounds: 1, phase: Duration::from_millis(900) },
        false => Pace { rounds: 3, phase: Duration::from_secs(6) },
    };
    let home = Home { spinney: options.spinney, work: options.work, upstream: options.upstream, authority: options.ca };
    let made_up = upstream::start().await?;
    let is_chosen = |case: &&Case| options.cases.is_empty() || options.cases.iter().any(|name| name == case.name);
    let mut leaves_nothing = true;
    for case in CASES.iter().filter(is_chosen) {
        let ran = tokio::time::timeout(CASE_PATIENCE, run_case(case, &home, made_up, &pace));
        match ran.await {
            Ok(ran) => leaves_nothing &= ran?,
            Err(_) => bail!("{} took more than {CASE_PATIENCE:?}", case.name),
        }
    }
    Ok(leaves_nothing)
}

/// Runs one case and prints its line. False: it has left something behind.
async fn run_case(case: &Case, home: &Home, made_up: SocketAddr, pace: &Pace) -> anyhow::Result<bool> {
    let name = case.name;
    eprintln!("{name}: prepares");
    let attackers = (case.attackers)();
    let spinney = Spinney::start(home, name, None, case.options, case.files).await?;
    spinney.delete(INDEX).await?;
    spinney.create(INDEX).await?;
    let small = format!("/{INDEX}/_doc/small");
    let document = json!({"n": 1});
    spinney.ask(Caller::Admin, Method::PUT, &small, &document).await?;
    write_joining(&spinney, false).await?;
    let waits = beside(name, &spinney, &attackers, pace).await?;
    write_joining(&spinney, true).await?;
    let joins = has_joined(&spinney).await?;
    let stored = Stored { unstamped: spinney.unstamped(INDEX).await?, unread: unread(&spinney, home).await? };
    let left = spinney.memory().await?;
    let peak_rss_mb = spinney.proxy.peak_rss_mb()?;
    let refused = refuse_in_all_ways(case, home, made_up).await?;
    let honest = replay(case, home, made_up, waits.taken).await?;
    let relayed = match case.is_relayed {
        true => Some(beside_relayed(case, home, &attackers, pace).await?),
        false => None,
    };
    spinney.delete(INDEX).await?;

    let left = Memory {
        nodes: left.nodes - honest.nodes + refused.nodes,
        learned: left.learned - honest.learned + refused.learned,
    };
    if !joins {
        eprintln!("{name}: a document did not join the one that it is a reprint of");
    }
    println!("{}", line(name, &waits, relayed.as_ref(), peak_rss_mb, left, stored));
    Ok(joins && left == Memory::default() && stored == Stored::default())
}

/// What an attack has left in the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stored {
    /// Documents without a stamp.
    unstamped: u64,
    /// Questions of readers that get no answer.
    unread: u64,
}

/// How long the honest waited.
struct Waits {
    bulks: Times,
    relay: Times,
    health: Times,
    /// Bulks that the honest writer sent.
    taken: u32,
}

/// Lets quiet and attack take turns, beside somebody honest.
async fn beside(name: &str, spinney: &Spinney, attackers: &[Attacker], pace: &Pace) -> anyhow::Result<Waits> {
    let place =
        Place { authority: spinney.proxy.authority.clone(), admin: spinney.admin.clone(), index: INDEX.to_owned() };
    let probes = Probes::start(&place)?;
    let warm = Instant::now();
    while probes.taken.load(SeqCst) < WARM_BULKS {
        ensure!(
            warm.elapsed() < Duration::from_secs(60),
            "{name}: the honest writer is not served even without an attack"
        );
        pause(Duration::from_millis(10)).await;
    }
    for round in 1..=pace.rounds {
        eprintln!("{name}: round {round}/{}", pace.rounds);
        probes.phases.begin(Phase::Quiet);
        pause(pace.phase).await;
        probes.phases.begin(Phase::Attack);
        // On threads of their own, and gone with them.
        let crowd = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let address = spinney.address()?;
        for (number, attacker) in attackers.iter().enumerate() {
            crowd.spawn(attacker.clone().attack(address, number));
        }
        pause(pace.phase).await;
        probes.phases.begin(Phase::Pause);
        crowd.shutdown_background();
        // Those of the writer and of the relayed client.
        if !spinney.calms_down(2).await {
            eprintln!("{name}: half a minute after the attack, spinney is still busy with it");
        }
    }
    let times = [&probes.bulks, &probes.relay, &probes.health].map(Arc::clone);
    let taken = probes.end().await?;
    let [bulks, relay, health] = times.map(|times| times.lock().clone());
    Ok(Waits { bulks, relay, health, taken })
}

/// The same through a spinney without a route for that index: it buffers, reads and places nothing, so what the honest
/// wait there is the cluster's and the machine's.
async fn beside_relayed(case: &Case, home: &Home, attackers: &[Attacker], pace: &Pace) -> anyhow::Result<Waits> {
    let name = format!("{}-relayed", case.name);
    let spinney = Spinney::start_for("unrouted-*", home, &name, None, case.options, case.files).await?;
    spinney.delete(INDEX).await?;
    spinney.create(INDEX).await?;
    beside(&name, &spinney, attackers, pace).await
}

fn line(name: &str, waits: &Waits, relayed: Option<&Waits>, peak_rss_mb: f64, left: Memory, stored: Stored) -> Value {
    let Waits { bulks, relay, health, .. } = waits;
    eprintln!("{name}: {} bulks in the quiet, {} beside the attack", bulks.quiet.len(), bulks.attack.len());
    let at = |times: &[f64], share| rounded(quantile(times, share), 1);
    json!({
        "bench": "attack",
        "case": name,
        "honest_p50_ms": at(&bulks.attack, 0.50),
        "honest_p99_ms": at(&bulks.attack, 0.99),
        "quiet_p99_ms": at(&bulks.quiet, 0.99),
        "relay_p99_ms": at(&relay.attack, 0.99),
        "quiet_relay_p99_ms": at(&relay.quiet, 0.99),
        "health_p99_ms": at(&health.attack, 0.99),
        "unstamped_p99_ms": relayed.map(|waits| at(&waits.bulks.attack, 0.99)),
        "quiet_unstamped_p99_ms": relayed.map(|waits| at(&waits.bulks.quiet, 0.99)),
        "peak_rss_mb": rounded(peak_rss_mb, 1),
        "nodes_left": left.nodes,
        "learned_left": left.learned,
        "unstamped_left": stored.unstamped,
        "unread_left": stored.unread,
    })
}

/// Writes one of the two documents of which the second must join the first.
async fn write_joining(spinney: &Spinney, is_second: bool) -> anyhow::Result<()> {
    bulk(spinney, to_join(is_second), 1).await
}

/// Writes a bulk as the honest writer does.
async fn bulk(spinney: &Spinney, body: bytes::Bytes, documents: usize) -> anyhow::Result<()> {
    let headers = credentials(Caller::Writer);
    let mut connection = Connection::open_with(&spinney.proxy.authority, headers).await?;
    let path = format!("/{INDEX}/_bulk");
    let sent = connection.request(Method::POST, &path, "application/x-ndjson", body);
    let (status, answer) = tokio::time::timeout(CASE_PATIENCE, sent).await??;
    ensure!(status == StatusCode::OK, "{path} answered {status}");
    answers::check(&[answer], documents)
}

/// Whether the second document has the root of the first.
async fn has_joined(spinney: &Spinney) -> anyhow::Result<bool> {
    Ok(spinney.root("first").await? == spinney.root("second").await?)
}

/// How many questions of those who may read get no answer: groups, the members of one, the pages, and whether stamps
/// are as the forest has it.
async fn unread(spinney: &Spinney, home: &Home) -> anyhow::Result<u64> {
    let root = spinney.root("first").await?;
    let mut unread = 0;
    for (method, path, body) in [
        (Method::POST, "_groups".to_owned(), json!({"size": 100})),
        (Method::POST, "_groups".to_owned(), json!({"size": 100, "sort": [{"similar_count": "desc"}]})),
        (Method::GET, "_similar/first".to_owned(), Value::Null),
        (Method::GET, format!("_roots/{root}"), Value::Null),
    ] {
        let path = format!("/_spinney/{INDEX}/{path}");
        unread += u64::from(!spinney.answers(Caller::Reader, method, &path, &body).await?);
    }
    for path in [String::new(), "/article/first".to_owned(), format!("/group/{root}")] {
        let path = format!("/_spinney/ui/{INDEX}{path}");
        unread += u64::from(!spinney.answers(Caller::Reader, Method::GET, &path, &Value::Null).await?);
    }
    Ok(unread + u64::from(!spinney.verifies(home)?))
}

/// What a second spinney remembers of unverified writers whom a made-up cluster has refused in all the ways that the
/// real one does not have.
async fn refuse_in_all_ways(case: &Case, home: &Home, made_up: SocketAddr) -> anyhow::Result<Memory> {
    let requests = (case.made_up)();
    if requests.is_empty() {
        return Ok(Memory::default());
    }
    eprintln!("{}: refused in all ways", case.name);
    let name = format!("{}-made-up", case.name);
    let spinney = Spinney::start(home, &name, Some(made_up), case.options, None).await?;
    send_all(&requests, spinney.address()?).await;
    ensure!(spinney.calms_down(0).await, "{name}: does not come to rest");
    spinney.memory().await
}

/// What a spinney remembers that only the honest writer has used.
async fn replay(case: &Case, home: &Home, made_up: SocketAddr, bulks: u32) -> anyhow::Result<Memory> {
    eprintln!("{}: the same {bulks} bulks without an attack", case.name);
    let name = format!("{}-replay", case.name);
    let spinney = Spinney::start(home, &name, Some(made_up), case.options, None).await?;
    write_joining(&spinney, false).await?;
    let mut documents = Documents::new(HONEST, None);
    for _ in 0..bulks {
        let body = load::bulks(&mut documents, 1)[0].clone();
        bulk(&spinney, body, load::BULK).await?;
    }
    write_joining(&spinney, true).await?;
    spinney.memory().await
}
