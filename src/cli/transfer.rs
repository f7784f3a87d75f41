//! `spinney transfer`: copies forests between a data directory and a Redis that several spinneys share.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use futures_executor::block_on;
use indicatif::HumanCount;

use super::bar::Bar;
use super::{print, print_error};
use crate::chance::secret_key;
use crate::config::{OnFailure, OnRedisFailure, OnUnreadable, RawTransferOptions, Storage, TransferOptions};
use crate::engine::Engine;
use crate::forest::shared::keys::RedisClient;
use crate::progress::ReportProgress;
use crate::redis::TcpRedis;
use crate::store::Durability;

/// Help text after the options. Each paragraph is one line, which clap wraps.
const AFTER_HELP: &str = "\
One spinney keeps its forests in a directory (serve --data-dir); several that are to answer the same root for the same story keep them in \
a Redis (serve --forest-store). This command copies them from the one place to the other, so that going over to it forgets nothing: \
stop every spinney, move, and start with the other option. What it copies from stays as it is.

Give the options of the routes with which serve runs, or --config FILE, its file: method and window say what a forest is, and how long \
each fingerprint has left.

One thing stays behind: what is older than the window.

It refuses a forest store that has something of a forest already; --replace removes that first. A directory that holds a forest \
is never written over. An interrupted move into Redis is begun again with --replace; into a directory nothing is there until all \
of it is.

Examples:
  spinney transfer --from /var/lib/spinney --to redis://127.0.0.1:6379 --config spinney.toml
  spinney transfer --from redis://127.0.0.1:6379 --to /var/lib/spinney --index 'news-*' --window 30d
  spinney inspect redis://127.0.0.1:6379";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TransferArgs {
    /// Remove these forests from the forest store, and then move
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    options: RawTransferOptions,
}

/// Copies the forests in the requested direction.
///
/// # Errors
/// If the options are wrong, the destination has a forest already, or source or destination cannot be read or written.
pub(super) fn run(args: TransferArgs) -> anyhow::Result<()> {
    let TransferOptions { serve, dir, is_from_dir } = args.options.validate()?;
    ensure!(
        !serve.routes.is_empty(),
        "no route: give --index and the other options of serve, or its file with --config"
    );
    let store = serve.forest_store.context("there is no forest store")?;
    let keys = TcpRedis::new(store.address, store.ca.as_deref())?;
    let keys: Arc<dyn RedisClient> = Arc::new(keys);
    let (routes, prefix, threads) = (&serve.routes, &serve.prefix, serve.threads);
    let key = secret_key();
    let shared = Engine::shared(routes, prefix, threads, key, &keys, OnRedisFailure::Refuse)?;
    let begun = Instant::now();
    let bar = Arc::new(Bar::of("fingerprints", "moved")?);
    let report: Arc<ReportProgress<'static>> = {
        let bar = bar.clone();
        Arc::new(move |progress| bar.set(progress))
    };
    let transferred = if is_from_dir {
        ensure!(dir.is_dir(), "{} is no directory: give the one that serve has as --data-dir", dir.display());
        // Read-only: a missing forest is not created.
        let none = Engine::new(routes, prefix, 1, key)?;
        let held = none.forests().stored_forests(&dir)?;
        drop(none);
        ensure!(
            !held.is_empty(),
            "{} holds none of the forests of these routes: are the options those of serve?",
            dir.display()
        );
        let storage = Storage {
            data_dir: dir.clone(),
            durability: Durability::None,
            on_failure: OnFailure::Refuse,
            on_unreadable: OnUnreadable::Refuse,
        };
        let routes: Vec<_> = routes.iter().filter(|route| held.contains(&route.forest)).cloned().collect();
        let local = Engine::for_import(&routes, prefix, threads, key, &storage)?;
        block_on(local.forests().import(shared.forests(), &held, args.replace, &report))
    } else {
        let local = Engine::new(routes, prefix, threads, key)?;
        block_on(local.forests().export(shared.forests(), &dir, &report))
    };
    bar.clear();
    for (forest, transferred) in transferred? {
        print(format_args!(
            "forest {forest}: {} fingerprints moved, {} of them roots; {} stayed behind, older than the window or \
             without a tree; {} sentences known as boilerplate",
            HumanCount(transferred.nodes),
            HumanCount(transferred.roots),
            HumanCount(transferred.skipped),
            HumanCount(transferred.boilerplate)
        ));
    }
    print_error(format_args!("spinney: moved in {:.1} s", begun.elapsed().as_secs_f32()));
    Ok(())
}
