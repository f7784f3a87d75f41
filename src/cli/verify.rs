//! `spinney verify`: compares stored stamps with those of a running spinney.

use std::process::ExitCode;

use indicatif::HumanCount;

use super::backfill::routes_of;
use super::bar::Bar;
use super::connection::SpinneyFlags;
use super::{print, print_error};
use crate::backfill::{self, VerifyReport};
use crate::engine::{FieldUse, MissingField};
use crate::progress::Progress;

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
Documents are chosen by chance, and their texts shown to the running spinney, which says what would become of them if they were written now. \
Nothing is changed. A document whose text is older than the window is unknown to the forest, and no fault; one that would be in another \
tree was written past spinney with a stamp, changed without its text, or placed by another method. Fields of a route that none of some \
documents has are named, with those that could be meant. Exit codes: 0; 3 where documents would be in another tree, or have no field of \
the text; 1 for an error.

Examples:
  spinney verify
  spinney verify --spinney-url http://127.0.0.1:9201 --index news-2026 --sample 10000";

/// The explanation of unknown documents, and the remedy.
const UNKNOWN: &str = "documents that are unknown to the forest are no fault if they are older than its window. Others \
    were placed by a forest that is lost, or with other fields (--text-field): spinney recover with the options of \
    serve and an empty --data-dir makes the forest anew from the index, and every document keeps its root";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    spinney: SpinneyFlags,
    /// The index, an alias of indices, or a pattern; several with commas [default: all indices of spinney's routes]
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// Documents to look at, of each route
    #[arg(long, value_name = "N", default_value_t = 1000)]
    sample: usize,
    /// Chooses the documents: the same number, the same documents, as long as the index stays as it is
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Reports; changes nothing. Answers 3 where documents would be in another tree, or have no field of the text.
///
/// # Errors
/// When spinney cannot be reached or refuses.
pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(report(args))
}

async fn report(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let spinney = args.spinney.spinney()?;
    let routes = routes_of(&spinney).await?;
    let targets = backfill::discover(&spinney, &routes, args.index.as_deref(), None).await?;
    let mut all = VerifyReport::default();
    let (mut unstamped, mut unflagged) = (0, 0);
    let mut missing = Vec::new();
    for target in &targets {
        unstamped += target.count_unstamped(&spinney).await?;
        unflagged += target.count_unflagged(&spinney).await?;
        missing.extend(target.unfound_fields(&spinney).await?);
        let bar = Bar::new(args.sample as u64, "looked at")?;
        let report = |progress: Progress<'_>| bar.set(progress);
        let sample = (args.sample, args.seed);
        let verified = backfill::verify(&spinney, target, sample, &report).await?;
        bar.clear();
        all.add(verified);
    }
    for (count, what) in [
        (all.sampled, "documents with a stamp were looked at"),
        (all.same, "are known under the root of their stamp"),
        (all.would_join, "would join the tree of their stamp"),
        (all.without_text, "have no text to compare, and a root of their own"),
        (all.unknown, "are unknown to the forest"),
        (all.elsewhere, "would be in another tree"),
        (all.without_answer, "gave no answer"),
        (unstamped, "documents of these indices have no stamp"),
        (unflagged, "documents have a stamp that does not say which one is the first of its group"),
    ] {
        print(format_args!("{:>12} {what}", HumanCount(count).to_string()));
    }
    if all.unknown > 0 {
        print_error(format_args!("spinney: {UNKNOWN}"));
    }
    for named in &all.named {
        print_error(format_args!("spinney: {named}"));
    }
    for missing in &missing {
        print_error(format_args!("spinney: {missing}"));
    }
    let is_of_text = |missing: &MissingField| matches!(missing.field.used_for, FieldUse::Text | FieldUse::Fingerprint);
    Ok(match all.elsewhere > 0 || missing.iter().any(is_of_text) {
        true => ExitCode::from(3),
        false => ExitCode::SUCCESS,
    })
}
