//! `spinney backfill`: the documents of existing indices get their stamps.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use hyper::Method;
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use serde_json::Value;

use super::bar::Bar;
use super::connection::SpinneyFlags;
use super::{print, print_error};
use crate::backfill::{
    self, Backfill, BackfillOptions, BackfillOutcome, FlagOutcome, RouteIndices, flag_firsts, put_fields,
};
use crate::cluster::operator::Operator;
use crate::config::AuthFlags;
use crate::engine::RouteTable;
use crate::progress::{Progress, ReportProgress};
use crate::shutdown;

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
It is a writer like any other: it reads the documents without a stamp from the cluster, in the order of the route's clock (or its time \
field, or as they were written), and sends their fields through the running spinney as updates that only apply to a document that has not \
changed since. Everything else of a document stays as it is. Which indices, fields and forests there are, it learns from \
spinney; the fields of the stamp that an index does not map yet are mapped first.

Documents that an earlier version has stamped learn which one is the first of its group; that one may be in another index of the same \
forest.

What is stamped is not read again: end it at any time, and begin again. Documents that are written meanwhile are stamped on their way. \
Until it is complete, a search that collapses on the root should leave out the documents without one: docs/adopting.md has the steps.

With one slice (the default), documents are placed one after the other in their order, so that the result is that of writing them anew. \
With more it is faster, and which of two similar documents comes first is chance.

The credentials of the URLs need the privileges to read and write the indices, to put their mapping, and to monitor the cluster.

Exit codes: 0 when every document has a stamp; 1 for an error; 2 for arguments that are not understood; 3 when some documents could not be \
stamped; 130 when interrupted.

Examples:
  spinney backfill --dry-run
  spinney backfill --spinney-url http://127.0.0.1:9201 --index 'news-2025-*' --rate 2000";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct BackfillArgs {
    #[command(flatten)]
    spinney: SpinneyFlags,
    #[command(flatten)]
    auth: AuthFlags,
    /// URL of a cluster node to read from, which may contain credentials [default: through spinney]
    #[arg(long, env = "SPINNEY_SERVICE_URL", value_name = "URL", hide_env_values = true)]
    service_url: Option<String>,
    /// The index, an alias of indices, or a pattern; several with commas [default: all indices of spinney's routes]
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// Only documents that this query finds, as the cluster's own JSON: {"range":{"published":{"gte":"2025-01-01"}}}
    #[arg(long, value_name = "JSON")]
    query: Option<String>,
    /// Documents that are stamped in a second at most, to leave the cluster to others [default: as many as go]
    #[arg(long, value_name = "DOCS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Parts of the indices that are stamped beside each other, in no order among them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    slices: u32,
    /// Documents of one bulk request
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    bulk_docs: u32,
    /// Begin even if the disks seem to have no room for it
    #[arg(long)]
    ignore_disk: bool,
    /// Only say how many documents have no stamp, what would be mapped, and how long it may take
    #[arg(long)]
    dry_run: bool,
}

/// Stamps documents without a stamp.
///
/// # Errors
/// When spinney or the cluster cannot be reached or refuses, or an index cannot be backfilled.
pub(super) fn run(args: &BackfillArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(backfill(args));
    // Work on other threads does not delay the exit.
    runtime.shutdown_background();
    code
}

/// The indices of a route that need backfill.
struct Work {
    target: RouteIndices,
    unstamped: u64,
    /// Stamped ones that do not say whether they are the first of their group.
    unflagged: u64,
}

async fn backfill(args: &BackfillArgs) -> anyhow::Result<ExitCode> {
    let query = args.query.as_deref().map(serde_json::from_str::<Value>);
    let query = query.transpose().context("--query is no JSON")?;
    let door = args.spinney.spinney()?;
    let cluster = match &args.service_url {
        Some(url) => Some(args.spinney.cluster(url, &args.auth)?),
        None => None,
    };
    let reader = cluster.as_ref().unwrap_or(&door);
    let routes = routes_of(&door).await?;
    let targets = backfill::discover(reader, &routes, args.index.as_deref(), query.as_ref()).await?;
    let mut work = Vec::new();
    for target in targets {
        let (unstamped, unflagged) = prepare(args, reader, &target).await?;
        work.push(Work { target, unstamped, unflagged });
    }
    let total: u64 = work.iter().map(|work| work.unstamped + work.unflagged).sum();
    if args.dry_run || total == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let options = BackfillOptions { slices: args.slices, rate: args.rate, batch: args.bulk_docs as usize };
    let begun = Instant::now();
    let bar = Bar::new(total, "done")?;
    let report_progress = |progress: Progress<'_>| bar.set(progress);
    let done = tokio::select! {
        biased;
        done = do_all((reader, &door), &routes, &work, &options, &report_progress) => done?,
        _ = shutdown::signal() => {
            bar.clear();
            print_error("spinney: interrupted; what is stamped is stamped, begin again for the rest");
            return Ok(ExitCode::from(130));
        }
    };
    bar.clear();
    Ok(report(&done, begun.elapsed()))
}

/// Stamps documents without a stamp, then has the others say whether they are the first of their group.
async fn do_all(
    (reader, door): (&Operator, &Operator),
    routes: &RouteTable,
    work: &[Work],
    options: &BackfillOptions,
    report: &ReportProgress<'_>,
) -> anyhow::Result<(BackfillOutcome, FlagOutcome)> {
    let (mut outcome, mut flagged) = (BackfillOutcome::default(), FlagOutcome::default());
    for Work { target, unstamped, .. } in work.iter().filter(|work| work.unstamped > 0) {
        let backfill = Backfill::new(reader, door, target, options, report);
        outcome.add(backfill.run(*unstamped).await?);
    }
    for Work { target, unflagged, .. } in work.iter().filter(|work| work.unflagged > 0) {
        let done = flag_firsts(reader, routes, target, options, (*unflagged, report)).await?;
        flagged.add(done);
    }
    Ok((outcome, flagged))
}

/// The route table of a running spinney.
pub(super) async fn routes_of(door: &Operator) -> anyhow::Result<RouteTable> {
    let routes = door.ask(Method::GET, "/_spinney/_routes", None).await;
    let routes = routes.with_context(|| format!("{} is to say what its routes are", door.url()))?;
    serde_json::from_value(routes)
        .with_context(|| format!("{} does not say what its routes are: is it a spinney of this version?", door.url()))
}

/// Adds missing mappings to the indices of a route. Returns the number of documents without a stamp, and that of
/// stamped ones that do not say whether they are the first of their group.
async fn prepare(args: &BackfillArgs, reader: &Operator, target: &RouteIndices) -> anyhow::Result<(u64, u64)> {
    let forest = &target.route.forest;
    let missing = target.missing_fields(reader).await?;
    let unstamped = target.count_unstamped(reader).await?;
    let unflagged = target.count_unflagged(reader).await?;
    let all = target.count_all(reader).await?;
    print_error(format_args!(
        "spinney: forest {forest}: {} of {} documents in {} have no stamp; read by {}",
        HumanCount(unstamped),
        HumanCount(all),
        shown(&target.indices),
        target.order.name(),
    ));
    if unflagged > 0 {
        print_error(format_args!(
            "spinney: forest {forest}: {} have a stamp that does not say which one is the first of its group",
            HumanCount(unflagged)
        ));
    }
    for (index, fields) in &missing {
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let names = names.join(", ");
        if args.dry_run {
            print_error(format_args!("spinney: {index}: would map {names}"));
        } else {
            put_fields(reader, index, fields)
                .await
                .with_context(|| format!("{index} does not map {names}, and that cannot be changed here"))?;
            print_error(format_args!("spinney: {index}: mapped {names}"));
        }
    }
    if let Some((index, setting)) = target.blocked(reader).await? {
        anyhow::bail!("{index} takes no writes ({setting}): remove that setting first");
    }
    let written = unstamped + unflagged;
    if written == 0 {
        return Ok((0, 0));
    }
    match target.space(reader, written, all).await {
        Some(space) if space.needed > space.free && !args.ignore_disk => anyhow::bail!(
            "updated documents stand twice on the disk for a while: that may take {}, and the nodes have {} to spare; \
             make room, or begin all the same with --ignore-disk",
            HumanBytes(space.needed),
            HumanBytes(space.free)
        ),
        Some(_) => {}
        None => print_error("spinney: the cluster does not say how much room its disks have"),
    }
    let estimate = match args.rate {
        Some(rate) => Some(f64::from(rate)),
        None => target.guess_rate(reader).await,
    };
    if let Some(rate) = estimate.filter(|_| args.dry_run) {
        print_error(format_args!(
            "spinney: forest {forest}: at {rate:.0} documents a second that takes {}{}",
            HumanDuration(Duration::from_secs_f64(written as f64 / rate)),
            match args.rate {
                Some(_) => "",
                None => " (a guess, from what indexing has taken these indices until now)",
            }
        ));
    }
    Ok((unstamped, unflagged))
}

/// A few names of many.
fn shown(indices: &[String]) -> String {
    const SHOWN: usize = 5;
    match indices.get(..SHOWN) {
        Some(first) if indices.len() > SHOWN => {
            format!("{} and {} more", first.join(", "), indices.len() - SHOWN)
        }
        _ => indices.join(", "),
    }
}

fn report((outcome, flagged): &(BackfillOutcome, FlagOutcome), took: Duration) -> ExitCode {
    let BackfillOutcome { stamped, by_others, gone, changed, failed, failures, left } = outcome;
    let mut line = format!("{} documents stamped", HumanCount(*stamped));
    for (count, what) in [
        (*by_others, "by others meanwhile"),
        (*gone, "deleted meanwhile"),
        (*changed, "changed meanwhile and read again"),
        (*failed, "failed"),
    ] {
        if count > 0 {
            line += &format!(", {} {what}", HumanCount(count));
        }
    }
    print(format_args!("{line}; {} have no stamp", HumanCount(*left)));
    if flagged.flagged > 0 || flagged.left > 0 {
        print(format_args!(
            "{} documents say now whether they are the first of their group; {} do not",
            HumanCount(flagged.flagged),
            HumanCount(flagged.left)
        ));
    }
    let rate = (*stamped + flagged.flagged) as f64 / took.as_secs_f64().max(0.001);
    print_error(format_args!("spinney: {:.1} s, {rate:.0} documents a second", took.as_secs_f64()));
    for failure in failures.iter().chain(&flagged.reason) {
        print_error(format_args!("spinney: {failure}"));
    }
    match *failed > 0 || *left > 0 || flagged.left > 0 {
        true => ExitCode::from(3),
        false => ExitCode::SUCCESS,
    }
}
