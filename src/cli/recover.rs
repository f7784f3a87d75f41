//! `spinney recover`: rebuilds the forests from the index.

use std::process::ExitCode;
use std::time::Instant;

use indicatif::HumanCount;

use super::bar::Bar;
use super::{print, print_error};
use crate::config::RawRecoverOptions;
use crate::progress::Progress;
use crate::recovery::{self, Extent, Rebuild, RecoveryError};
use crate::shutdown;

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
Every stamped document keeps its root: the text is read again, and placed under the root that stands in the index. Give \
the options of the route with which the documents were written (or --config FILE, the file of serve): with another method or \
other fields the texts have other fingerprints, and their near-duplicates will not find them. Stamps of either form \
will do. Documents that are older than the window are not read.

Until all is read and stored, nothing of it stands in the directory: an interrupted recovery is begun again. A forest that \
the directory holds already is left alone, if it reads as a whole; to rebuild it, move its folder away. Where a part \
of it does not read, the rest is taken with what the index has, and the old files are kept in a folder that begins \
with UNREADABLE. Documents that are written meanwhile are \
caught up by serve when it starts.

The credentials of the URL need the privileges to read the indices; and to refresh them, or what was written last may \
be missed.

Exit codes: 0 for success; 1 for an error; 2 for arguments that are not understood; 130 when interrupted.

Examples:
  spinney recover --upstream http://127.0.0.1:9200 --data-dir /var/lib/spinney --index 'news-*' --dry-run
  spinney recover --data-dir /var/lib/spinney --config spinney.toml --rate 5000";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RecoverArgs {
    /// Documents that are read in a second at most, to leave the cluster to others [default: as many as go]
    #[arg(long, value_name = "DOCS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Only say how many documents there are and how many would be read
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: RawRecoverOptions,
}

/// Rebuilds the forests.
///
/// # Errors
/// When the configuration is wrong, the directory holds them already, the cluster refuses, or they cannot be stored.
pub(super) fn run(args: RecoverArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.over_file()?.validate()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let dry_run = args.dry_run;
    let done = runtime.block_on(async {
        let mut salvaged = Vec::new();
        if !dry_run {
            salvaged = tokio::select! {
                biased;
                salvaged = recovery::salvage(&config, args.rate) => salvaged?,
                // The readable part is in place; the next start takes in the rest.
                _ = shutdown::signal() => return Ok(false),
            };
        }
        for (forest, recovered) in &salvaged {
            print(format_args!(
                "forest {forest}: a part did not read; {} documents read, {} known, {} placed, {} of them in \
                 another tree than their stamp says",
                HumanCount(recovered.documents),
                HumanCount(recovered.known),
                HumanCount(recovered.placed),
                HumanCount(recovered.elsewhere)
            ));
        }
        let rebuild = match Rebuild::new(&config, args.rate).await {
            Err(RecoveryError::Held { .. }) if !salvaged.is_empty() => return Ok(true),
            rebuild => rebuild?,
        };
        let extents = rebuild.extents().await?;
        for extent in &extents {
            print_error(extent_of(extent));
        }
        let documents: u64 = extents.iter().map(|extent| extent.read).sum();
        if dry_run || documents == 0 {
            return Ok(true);
        }
        let begun = Instant::now();
        let bar = Bar::new(documents, "read")?;
        let report = |progress: Progress<'_>| bar.set(progress);
        let recovered = tokio::select! {
            biased;
            recovered = rebuild.run(&extents, &report) => recovered,
            // The directory is still empty.
            _ = shutdown::signal() => return Ok(false),
        };
        bar.clear();
        for (forest, recovered) in recovered? {
            print(format_args!(
                "forest {forest}: {} documents read, {} placed, {} of them in another tree than their stamp says, {} \
                 without text",
                HumanCount(recovered.documents),
                HumanCount(recovered.placed),
                HumanCount(recovered.elsewhere),
                HumanCount(recovered.without_text)
            ));
        }
        print_error(format_args!("spinney: recovered in {:.1} s", begun.elapsed().as_secs_f32()));
        anyhow::Ok(true)
    });
    // Work on other threads does not delay the exit.
    runtime.shutdown_background();
    Ok(match done? {
        true => ExitCode::SUCCESS,
        false => {
            print_error("spinney: interrupted; nothing was stored");
            ExitCode::from(130)
        }
    })
}

fn extent_of(extent: &Extent) -> String {
    let (all, read) = (extent.all, extent.read);
    format!(
        "spinney: forest {}: {} stamped documents in {}, {} to be read{}",
        extent.source.forest,
        HumanCount(all),
        extent.source.indices.join(", "),
        HumanCount(read),
        if all > read { ", the others are older than the window" } else { "" }
    )
}
