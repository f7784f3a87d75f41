//! `spinney inspect`: what is stored, in a directory or in the Redis that several spinneys share.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::bar::Bar;
use super::print;
use crate::engine::{CarryTold, Inspected, inspect, inspect_shared};
use crate::forest::shared::keys::KeyStore;
use crate::keystore::{Address, RedisStore};
use crate::time::format_date;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory that was given to serve as --data-dir; no spinney may be running on it (ask a running one at
    /// /_spinney/_stats). Or the URL that was given as --forest-store: all of it is read, which those that run may notice
    #[arg(value_name = "DIR|URL", env = "SPINNEY_DATA_DIR")]
    data_dir: PathBuf,
    /// PEM file of the authority that signed the certificates of a forest store; only it is trusted then
    #[arg(long, env = "SPINNEY_FOREST_STORE_CA", value_name = "FILE")]
    forest_store_ca: Option<PathBuf>,
    /// How many of the largest clusters are listed
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// One JSON object a line and forest
    #[arg(long)]
    json: bool,
}

/// Prints what is stored in a directory.
///
/// # Errors
/// When it is in use, or something in it cannot be read.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let store = args.data_dir.to_str().map(Address::parse);
    if let Some(Ok(address)) = store {
        let ca = args.forest_store_ca.as_deref();
        let keys = RedisStore::new(address, ca.map(std::fs::read).transpose()?)?;
        let keys: Arc<dyn KeyStore> = Arc::new(keys);
        let bar = Arc::new(Bar::of("keys", "read")?);
        let told: Arc<CarryTold> = {
            let bar = bar.clone();
            Arc::new(move |forest, done, total| bar.tell(forest, done, total))
        };
        let forests = inspect_shared(&keys, args.top, &told);
        bar.clear();
        print_all(args, &forests?, "the forest store");
        return Ok(());
    }
    ensure!(
        args.data_dir.is_dir(),
        "{} is no directory: give the one that serve has as --data-dir",
        args.data_dir.display()
    );
    let bar = ProgressBar::no_length();
    // Only where somebody looks at it: it hides itself where standard error is no terminal.
    bar.set_style(ProgressStyle::with_template(
        "{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}",
    )?);
    let shown = bar.clone();
    let forests = inspect(&args.data_dir, args.top, &move |forest, progress| {
        shown.set_message(forest.to_owned());
        shown.set_length(progress.total);
        shown.set_position(progress.done);
    });
    bar.finish_and_clear();
    print_all(args, &forests?, &args.data_dir.display().to_string());
    Ok(())
}

fn print_all(args: &Args, forests: &[Inspected], place: &str) {
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

fn as_json(forest: &Inspected) -> Value {
    let summary = &forest.summary;
    let settings: serde_json::Map<String, Value> = forest
        .identity
        .settings()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let sizes = summary.sizes.iter();
    let sizes: Vec<Value> = sizes
        .map(|(up_to, trees)| json!({"up_to": up_to, "trees": trees}))
        .collect();
    let largest = summary.largest.iter().map(|size| {
        json!({"root": size.root.to_string(), "documents": size.documents, "titles": size.titles})
    });
    json!({
        "forest": forest.identity.forest(),
        "settings": settings,
        "nodes": summary.nodes,
        "roots": summary.roots,
        "memory_bytes": summary.memory_bytes,
        "stored_bytes": forest.bytes,
        "torn_bytes": forest.torn,
        "oldest": summary.arrivals.map(|(oldest, _)| format_date(oldest)),
        "newest": summary.arrivals.map(|(_, newest)| format_date(newest)),
        "boilerplate": (!forest.is_shared).then_some(forest.boilerplate),
        "furniture_trees": summary.furniture_trees,
        "tree_sizes": sizes,
        "largest": largest.collect::<Vec<Value>>(),
    })
}

fn show(forest: &Inspected) {
    let summary = &forest.summary;
    let settings: Vec<String> = forest
        .identity
        .settings()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    print(format_args!(
        "forest {} ({})",
        forest.identity.forest(),
        settings.join(", ")
    ));
    let row = |name: &str, value: String| print(format_args!("  {name:<22}{value}"));
    row(
        "nodes",
        format!("{}, {} of them roots", summary.nodes, summary.roots),
    );
    row(
        "bytes",
        match forest.is_shared {
            true => format!("{} in the forest store, all that it has", forest.bytes),
            false => format!(
                "{} stored, {} in memory",
                forest.bytes, summary.memory_bytes
            ),
        },
    );
    if forest.torn > 0 {
        row(
            "torn end",
            format!("{} bytes, cut off at the next start", forest.torn),
        );
    }
    if let Some((oldest, newest)) = summary.arrivals {
        row(
            "arrivals",
            format!("{} to {}", format_date(oldest), format_date(newest)),
        );
    }
    if !forest.is_shared {
        row("boilerplate", format!("{} sentences", forest.boilerplate));
    }
    row("furniture", format!("{} clusters", summary.furniture_trees));
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
        print(format_args!(
            "  {:<22}{:>9}  {:>6}",
            size.root.to_string(),
            size.documents,
            size.titles
        ));
    }
}
