//! A start takes in documents that were indexed but not stored, because the process before was killed.
//!
//! It reads from the forest's clock on, less `--upstream-timeout` (`none`: an hour) and a minute, and waits for at most
//! 10 s, or three attempts (3 s) without an answer. Unreadable indices and absent clusters are retried with pauses of
//! up to 30 s. Documents are added; nothing in the forest changes:
//!
//! - A known document keeps its root. A stored root that is a leaf here displaces none (`elsewhere`).
//! - A new one is taken in if the forest has its tree, or it or another of its request may have founded that; others
//!   have another method, fields or text (`foreign`). A salvaged forest takes all.
//! - With `clock = "field:…"` time advances only as far as nothing alive expires; with the machine's clock no arrival
//!   is later than now.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::clock;
use crate::cluster::operator::Operator;
use crate::cluster::scan::UnreadableIndex;
use crate::config::{Clock, ServeOptions};
use crate::engine::{Recovered, RecoverySource};
use crate::recovery::{Extent, ForestStatus, RecoveryError, RecoveryReader, Retries, before_window};
use crate::state::AppState;
use crate::time::Millis;

/// Most time between the upstream timeout of a request and its settlement.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// The assumed upstream timeout if none is set.
const NO_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Longest wait of a start before it serves; the rest is recovered while it serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// Searches that a start waits for within its [`PATIENCE`] while the cluster does not answer, so that one lost response
/// does not let unknown near-duplicates found trees.
const SEARCHES: usize = 3;
/// The pauses between two searches while the cluster does not answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Begins to take in documents that were indexed but not stored, for the forests of the routes from number `first` on,
/// and waits for a moment. While the cluster does not answer, it continues in the background.
pub(crate) async fn begin(first: usize, state: &Arc<AppState>, config: &ServeOptions, service: &Operator) {
    let Some(storage) = config.storage.as_ref().filter(|_| config.routes.len() > first) else {
        return;
    };
    let reader = RecoveryReader::new(state.engine.clone(), service.clone(), None);
    let margin = config.limits.upstream_timeout.unwrap_or(NO_TIMEOUT).saturating_add(SETTLED_WITHIN);
    let margin = Millis(i64::try_from(margin.as_millis()).unwrap_or(i64::MAX));
    let catching_up = CatchUp { state: state.clone(), reader, dir: storage.data_dir.clone(), margin, first };
    let (over, is_over) = oneshot::channel();
    tokio::spawn(catching_up.run(over));
    if tokio::time::timeout(PATIENCE, is_over).await.is_err() {
        info!("there is more to catch up: that goes on while documents are served");
    }
}

struct CatchUp {
    state: Arc<AppState>,
    reader: RecoveryReader,
    dir: PathBuf,
    /// Documents that arrived less than this before the last stored one may have been in flight.
    margin: Millis,
    /// Number of the first route; a route before has no forest of a later one.
    first: usize,
}

/// A forest that is not caught up yet.
struct Pending {
    /// With the indices that are still to be read.
    source: RecoverySource,
    /// The recovered documents of other indices.
    recovered: Recovered,
}

impl CatchUp {
    /// `first` is dropped when the start need not wait any longer.
    async fn run(self, first: oneshot::Sender<()>) {
        let mut first = Some(first);
        let sources = self.state.engine.sources().await.unwrap_or_default();
        let sources = sources.into_iter().filter(|source| source.first_route() >= self.first);
        let mut pending: Vec<Pending> = Vec::new();
        pending.extend(sources.map(|source| Pending { source, recovered: Recovered::default() }));
        let mut retries = Retries::new(
            "what was indexed and not stored is taken in as soon as the cluster lets it be read",
            "what was indexed and not stored stays unknown",
            true,
        );
        let mut pause = FIRST_PAUSE;
        for search in 1.. {
            let (mut again, mut is_waited_for) = (Vec::new(), false);
            for mut forest in pending {
                let outcome = self.forest(&mut forest).await;
                if let Err(error) = &outcome {
                    let is_away = error.is_away();
                    self.record(&forest, if is_away { "waiting" } else { "failed" }, 0, &[]);
                    // Of an empty forest there is nothing to be near to.
                    is_waited_for |= is_away && (forest.source.seen.is_some() || forest.source.is_salvaged);
                }
                if retries.is_left(&mut forest.source, outcome) {
                    again.push(forest);
                }
            }
            if search >= SEARCHES || !is_waited_for {
                drop(first.take());
            }
            if again.is_empty() {
                return;
            }
            pending = again;
            tokio::time::sleep_until(Instant::now() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Shows the state of a forest; `incomplete` in place of a final one while indices are to be tried again.
    fn record(&self, forest: &Pending, state: &'static str, unknown: u64, unreadable: &[UnreadableIndex]) {
        let reasons = unreadable.iter().map(|UnreadableIndex { name, reason }| (name.clone(), reason.with_advice()));
        let unreadable: Vec<_> = reasons.collect();
        let state = if unreadable.is_empty() { state } else { "incomplete" };
        let status = ForestStatus { state, recovered: forest.recovered, unknown, unreadable };
        self.state.recovery.set(&forest.source.forest, status);
    }

    /// Catches up with a forest. Answers the indices that are to be tried again.
    async fn forest(&self, forest: &mut Pending) -> Result<Vec<UnreadableIndex>, RecoveryError> {
        let source = &forest.source;
        let since = match source.seen.filter(|_| !source.is_salvaged) {
            // Without a clock the last documents are unknown.
            Some(_) if source.clock == Clock::None => {
                self.record(forest, "no clock", 0, &[]);
                return Ok(Vec::new());
            }
            Some(seen) => Some(self.first_unknown(source, seen)),
            // Any document may be unknown.
            None => None,
        };
        let extent = self.reader.extent(source, since).await?;
        if source.seen.is_none() && !source.is_salvaged {
            self.warn_of_unknown(forest, &extent);
            return Ok(extent.unreadable);
        }
        if !extent.has_index {
            if extent.unreadable.is_empty() {
                info!(forest = source.forest, indices = ?source.indices, "there is no such index: nothing to catch up");
            }
            self.record(forest, "no index", 0, &extent.unreadable);
            return Ok(extent.unreadable);
        }
        self.record(forest, "running", 0, &[]);
        let recovered = match source.is_salvaged {
            true => self.reader.take_in_rest(&extent).await?,
            false => {
                let found = "documents that were indexed and not stored are known now";
                self.reader.take_in_missed(&extent, found).await?
            }
        };
        forest.recovered.add(recovered);
        self.record(forest, "done", 0, &extent.unreadable);
        if recovered.foreign > 0 {
            let dir = self.dir.display();
            warn!(
                forest = forest.source.forest,
                indices = ?forest.source.indices,
                documents = recovered.foreign,
                "documents of the index are left out: the method of this forest cannot have given them the roots that they are \
                 stored with, so another one has, or other fields were read. To have them in the forest under these roots, stop \
                 spinney, move the folder of the forest in {dir} away, and run: spinney recover --upstream {} --data-dir {dir} with \
                 the options of the route",
                self.reader.operator.url(),
            );
        }
        Ok(extent.unreadable)
    }

    /// The arrival from which on documents may have been in flight when the last one was stored.
    fn first_unknown(&self, source: &RecoverySource, seen: Millis) -> Millis {
        let since = Millis(seen.0.saturating_sub(self.margin.0));
        let window = match source.clock {
            Clock::Arrival => before_window(Some(clock::now()), source.window),
            Clock::Field(_) | Clock::None => None,
        };
        window.map_or(since, |begin| begin.max(since))
    }

    /// Warns of stamped documents that an empty forest does not know.
    fn warn_of_unknown(&self, forest: &Pending, extent: &Extent) {
        self.record(forest, "empty", extent.read, &extent.unreadable);
        if extent.read > 0 {
            warn!(
                forest = forest.source.forest,
                documents = extent.read,
                "the index has stamped documents that the forest does not know, since {} has nothing of it: their \
                 near-duplicates will get other roots. Stop spinney and run: spinney recover --upstream {} --data-dir \
                 {} with the options of the route; or start it with --recover-at-start",
                self.dir.display(),
                self.reader.operator.url(),
                self.dir.display(),
            );
        }
    }
}
