//! `spinney inspect`: shows stored forests, in a directory or in Redis, and how two groupings of stored documents
//! differ.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::backfill::routes_of;
use super::bar::Bar;
use super::connection::SpinneyFlags;
use super::print;
use crate::backfill::{self, Compared, GroupChanges};
use crate::bulk::StampNames;
use crate::engine::{InspectedForest, inspect, inspect_shared};
use crate::forest::shared::keys::RedisClient;
use crate::progress::{Progress, ReportProgress};
use crate::redis::{Address, TcpRedis};
use crate::text_fields::FieldsRefused;
use crate::time::format_date;

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
With --compare, documents are read from the cluster that have two stamps: that of the running spinney, and one with fields of another prefix, \
of a spinney with other settings that stamps beside it. It says how many documents would have other company. Nothing is changed; \
docs/adopting.md has the steps from one method to another and back. 150 bytes of memory a document.

Examples:
  spinney inspect spinney-data
  spinney inspect --compare cluster_ --spinney-url http://127.0.0.1:9202 --index 'news-*'";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InspectArgs {
    /// The directory that was given to serve as --data-dir; no spinney may be running on it (ask a running one at
    /// /_spinney/_stats). Or the URL that was given as --forest-store: all of it is read, which those that run may
    /// notice
    #[arg(
        value_name = "DIR|URL",
        env = "SPINNEY_DATA_DIR",
        hide_env_values = true,
        required_unless_present = "compare"
    )]
    data_dir: Option<PathBuf>,
    /// PEM file of the authority that signed the certificates of a forest store; only it is trusted then
    #[arg(long, env = "SPINNEY_FOREST_STORE_CA", value_name = "FILE")]
    forest_store_ca: Option<PathBuf>,
    /// Compare two groupings of stored documents: the stamp with fields of this prefix, and that of the running spinney
    #[arg(long, value_name = "PREFIX")]
    compare: Option<String>,
    #[command(flatten)]
    spinney: SpinneyFlags,
    /// With --compare, the index, an alias of indices, or a pattern [default: all indices of spinney's routes]
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// How many of the largest clusters are listed
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// One JSON object a line and forest
    #[arg(long)]
    json: bool,
}

/// Prints the forests of a directory, or how two groupings differ.
///
/// # Errors
/// When the directory is in use or cannot be read; when spinney cannot be reached, or refuses.
pub(super) fn run(args: &InspectArgs) -> anyhow::Result<()> {
    if let Some(prefix) = &args.compare {
        return tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(compare(args, prefix));
    }
    let data_dir = args.data_dir.as_deref();
    let data_dir = data_dir.context("give the directory that serve has as --data-dir")?;
    // A URL may have a secret in it: it is never taken for a directory, whose name is repeated.
    let store = data_dir.to_str().filter(|text| text.contains("://"));
    if let Some(address) = store.map(Address::parse).transpose()? {
        let keys = TcpRedis::new(address, args.forest_store_ca.as_deref())?;
        let keys: Arc<dyn RedisClient> = Arc::new(keys);
        let bar = Arc::new(Bar::of("keys", "read")?);
        let report: Arc<ReportProgress<'static>> = {
            let bar = bar.clone();
            Arc::new(move |progress| bar.set(progress))
        };
        let forests = inspect_shared(&keys, args.top, &report);
        bar.clear();
        print_all(args, &forests?, "the forest store");
        return Ok(());
    }
    ensure!(data_dir.is_dir(), "{} is no directory: give the one that serve has as --data-dir", data_dir.display());
    let bar = ProgressBar::no_length();
    // It hides itself where standard error is no terminal.
    bar.set_style(ProgressStyle::with_template("{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}")?);
    let shown = bar.clone();
    let forests = inspect(data_dir, args.top, &move |forest, progress| {
        shown.set_message(forest.to_owned());
        shown.set_length(progress.total);
        shown.set_position(progress.done);
    });
    bar.finish_and_clear();
    print_all(args, &forests?, &data_dir.display().to_string());
    Ok(())
}

fn print_all(args: &InspectArgs, forests: &[InspectedForest], place: &str) {
    if forests.is_empty() {
        print(format_args!("{place} has no forest"));
    }
    for forest in forests {
        if args.json {
            print(as_json(forest));
        } else {
            show(forest);
        }
    }
}

async fn compare(args: &InspectArgs, prefix: &str) -> anyhow::Result<()> {
    let spinney = args.spinney.spinney()?;
    let routes = routes_of(&spinney).await?;
    ensure!(
        routes.prefix != prefix,
        "--compare {prefix}: that is the prefix of this spinney's own stamp; name the other one"
    );
    let names = StampNames::new(prefix)?;
    let targets = backfill::discover(&spinney, &routes, args.index.as_deref(), None).await?;
    let mut compared = Compared::default();
    for target in &targets {
        let total = target.count_all(&spinney).await?;
        let bar = Bar::new(total, "read")?;
        let report = |progress: Progress<'_>| bar.set(progress);
        backfill::compare(&spinney, target, &names, &mut compared, total, &report).await?;
        bar.clear();
    }
    let company = compared.group_changes();
    if args.json {
        print(company_as_json(&compared, &company));
        return Ok(());
    }
    let (first, second) = (names.root().to_owned(), format!("{}root", routes.prefix));
    let [before, after] = [0, 1].map(|at| {
        let count = |count: u64| HumanCount(count).to_string();
        format!("{} groups of two or more, with {} documents", count(company.groups[at]), count(company.grouped[at]))
    });
    print(format_args!("{first}: {before}"));
    print(format_args!("{second}: {after}"));
    for (count, what) in [
        (company.documents, "documents have both"),
        (company.same, "are together with the same documents"),
        (company.more, "are together with more"),
        (company.fewer, "are together with fewer"),
        (company.other, "have others come and some leave"),
        (compared.first_only, "documents have the first alone"),
        (compared.second_only, "documents have the second alone"),
        (compared.without, "documents have neither"),
    ] {
        print(format_args!("{:>12} {what}", HumanCount(count).to_string()));
    }
    Ok(())
}

fn company_as_json(compared: &Compared, company: &GroupChanges) -> Value {
    json!({
        "documents": company.documents,
        "groups": company.groups,
        "grouped": company.grouped,
        "same": company.same,
        "more": company.more,
        "fewer": company.fewer,
        "other": company.other,
        "first_only": compared.first_only,
        "second_only": compared.second_only,
        "without": compared.without,
    })
}

fn as_json(forest: &InspectedForest) -> Value {
    let summary = &forest.summary;
    let settings: serde_json::Map<String, Value> =
        forest.identity.settings().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let sizes = summary.sizes.iter();
    let sizes: Vec<Value> = sizes.map(|(up_to, trees)| json!({"up_to": up_to, "trees": trees})).collect();
    let largest = summary
        .largest
        .iter()
        .map(|size| json!({"root": size.root.to_string(), "documents": size.documents, "titles": size.titles}));
    json!({
        "forest": forest.identity.forest(),
        "settings": settings,
        "nodes": summary.nodes,
        "roots": summary.roots,
        "memory_bytes": summary.memory_bytes,
        "stored_bytes": forest.bytes,
        "torn_bytes": forest.torn,
        "unreadable": forest.unreadable,
        "unfinished": forest.fields.is_unfinished(),
        "fields": forest.fields.patterns().collect::<BTreeMap<_, _>>(),
        "oldest": summary.arrivals.map(|(oldest, _)| format_date(oldest)),
        "newest": summary.arrivals.map(|(_, newest)| format_date(newest)),
        "boilerplate": forest.boilerplate,
        "page_chrome_trees": summary.page_chrome_trees,
        "tree_sizes": sizes,
        "largest": largest.collect::<Vec<Value>>(),
    })
}

fn show(forest: &InspectedForest) {
    let summary = &forest.summary;
    let settings: Vec<String> = forest.identity.settings().map(|(key, value)| format!("{key} {value}")).collect();
    print(format_args!("forest {} ({})", forest.identity.forest(), settings.join(", ")));
    let row = |name: &str, value: String| print(format_args!("  {name:<22}{value}"));
    row("nodes", format!("{}, {} of them roots", summary.nodes, summary.roots));
    row(
        "bytes",
        match forest.is_shared {
            true => format!("{} in the forest store, all that it has", forest.bytes),
            false => format!("{} stored, {} in memory", forest.bytes, summary.memory_bytes),
        },
    );
    if forest.torn > 0 {
        row("torn end", format!("{} bytes, cut off at the next start", forest.torn));
    }
    for gap in &forest.unreadable {
        row("does not read", gap.clone());
    }
    if !forest.unreadable.is_empty() {
        let way = "spinney recover, or serve with --on-unreadable recover, goes on with the rest";
        row("", way.to_owned());
    }
    if forest.fields.is_unfinished() {
        row("unfinished", format!("it {}", FieldsRefused::Unfinished));
    }
    for (pattern, fields) in forest.fields.patterns() {
        row("texts of", format!("{pattern}, read from {fields}"));
    }
    if let Some((oldest, newest)) = summary.arrivals {
        row("arrivals", format!("{} to {}", format_date(oldest), format_date(newest)));
    }
    row("boilerplate", format!("{} sentences", forest.boilerplate));
    row("page_chrome", format!("{} clusters", summary.page_chrome_trees));
    print("  documents a cluster   clusters");
    let mut above = 0;
    for &(up_to, trees) in &summary.sizes {
        let range = match up_to - above {
            1 => up_to.to_string(),
            _ => format!("{} to {up_to}", above + 1),
        };
        print(format_args!("  {range:>20}  {trees}"));
        above = up_to;
    }
    if !summary.largest.is_empty() {
        print("  largest               documents  titles");
    }
    for size in &summary.largest {
        print(format_args!("  {:<22}{:>9}  {:>6}", size.root.to_string(), size.documents, size.titles));
    }
}
