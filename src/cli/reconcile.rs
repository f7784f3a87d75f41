//! `spinney reconcile`: the counts of an index's groups, compared with the index itself.

use indicatif::{ProgressBar, ProgressStyle};

use super::connection::ClusterFlags;
use super::print;
use crate::bulk::StampNames;
use crate::counts::{Findings, Mode, ReconcilePass, SOON, Searcher, StampFields};

#[derive(clap::Args)]
pub(super) struct ReconcileArgs {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The index, an alias of indices, or a pattern; several with commas
    #[arg(long, value_name = "NAME")]
    index: String,
    /// Tell the difference and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Compares, and mends unless it is a dry run.
///
/// # Errors
/// When there is no such index, or the cluster cannot be reached or refuses something.
pub(super) fn run(args: &ReconcileArgs) -> anyhow::Result<()> {
    use anyhow::Context;
    StampNames::new(&args.cluster.prefix).context("prefix")?;
    let operator = args.cluster.operator()?;
    let searcher = Searcher::new(operator, StampFields::new(&args.cluster.prefix));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(reconcile(args, &searcher))
}

async fn reconcile(args: &ReconcileArgs, searcher: &Searcher) -> anyhow::Result<()> {
    let indices = searcher.documented(&args.index).await?;
    if indices.is_empty() {
        anyhow::bail!("there is no index '{}'", args.index);
    }
    let mode = match args.dry_run {
        true => Mode::Tell,
        false => Mode::Mend,
    };
    for index in indices {
        let mut pass = ReconcilePass::begin(searcher, &index, SOON).await?;
        let bar = bar(u64::from(pass.ranges()), &index);
        while pass.step(searcher, mode).await? {
            bar.inc(1);
        }
        bar.finish_and_clear();
        print(summary(&index, pass.findings(), mode));
    }
    Ok(())
}

fn bar(ranges: u64, index: &str) -> ProgressBar {
    let template = "{msg} {bar:40} {pos}/{len} ranges, {eta} left";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(ranges).with_message(index.to_owned());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn summary(index: &str, found: &Findings, mode: Mode) -> String {
    let Findings { groups, missing, wrong, superfluous, kept } = found;
    let done = match mode {
        Mode::Tell => "nothing was changed".to_owned(),
        Mode::Mend => {
            let mut done = format!("{} written, {} removed", kept.written, kept.removed);
            if kept.overtaken > 0 {
                done += &format!(", {} counted later by others", kept.overtaken);
            }
            done
        }
    };
    format!("{index}: {groups} groups; entries: {missing} missing, {wrong} wrong, {superfluous} superfluous; {done}")
}
