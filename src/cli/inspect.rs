//! `spinney inspect`: what is stored.

use std::path::PathBuf;

use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::print;
use crate::engine::{Inspected, inspect};
use crate::time::format_date;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory that was given to serve as --data-dir; no spinney may be running on it (ask a running one at
    /// /_spinney/_stats)
    #[arg(value_name = "DIR", env = "SPINNEY_DATA_DIR")]
    data_dir: PathBuf,
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
    let forests = forests?;
    if forests.is_empty() {
        print(format_args!("{} has no forest", args.data_dir.display()));
    }
    for forest in &forests {
        if args.json {
            print(as_json(forest));
        } else {
            show(forest);
        }
    }
    Ok(())
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
        "boilerplate": forest.boilerplate,
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
        format!(
            "{} stored, {} in memory",
            forest.bytes, summary.memory_bytes
        ),
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
    row("boilerplate", format!("{} sentences", forest.boilerplate));
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
