//! A start takes in documents that were indexed but not stored, because the process before was killed.

use std::collections::HashSet;
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
use crate::engine::{Intake, Recovered, RecoverySource};
use crate::recovery::{
    Extent, ForestStatus, RecoveryError, RecoveryReader, before_window, log_progress, take_in_salvaged,
};
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

/// Begins to take in documents that were indexed but not stored, and waits for a moment. While the cluster does not
/// answer, it continues in the background.
pub(crate) async fn begin(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) {
    let Some(storage) = config.storage.as_ref().filter(|_| !config.routes.is_empty()) else {
        return;
    };
    let reader = match RecoveryReader::new(config, service.clone(), None) {
        Ok(reader) => reader,
        Err(error) => {
            warn!(%error, "nobody looks for documents that are indexed and not stored");
            return;
        }
    };
    let margin = config.limits.upstream_timeout.unwrap_or(NO_TIMEOUT).saturating_add(SETTLED_WITHIN);
    let margin = Millis(i64::try_from(margin.as_millis()).unwrap_or(i64::MAX));
    let catching_up = CatchUp { state: state.clone(), reader, dir: storage.data_dir.clone(), margin };
    let (over, is_over) = oneshot::channel();
    tokio::spawn(catching_up.run(over));
    if tokio::time::timeout(PATIENCE, is_over).await.is_err() {
        info!("there is more to catch up: that goes on while documents are served");
    }
}

/// The result of reading the indices of a forest.
pub(super) struct TakenIn {
    /// `None`: no index could be read.
    pub(super) recovered: Option<Recovered>,
    /// Indices to be tried again.
    pub(super) unreadable: Vec<UnreadableIndex>,
}

/// Takes in the documents of a forest that are indexed since then and not known. `begun` is called before they are
/// read. `found` is the log's message if there were any.
pub(super) async fn take_in(
    state: &AppState,
    reader: &RecoveryReader,
    source: &RecoverySource,
    since: Option<Millis>,
    begun: impl FnOnce(),
    found: &'static str,
) -> Result<TakenIn, RecoveryError> {
    let (source, readable) = reader.readable(source, since).await?;
    let unreadable = readable.unreadable;
    if !readable.overview.has_index {
        return Ok(TakenIn { recovered: None, unreadable });
    }
    begun();
    let extent = Extent {
        source: source.clone(),
        all: readable.overview,
        read: readable.overview,
        since,
        unreadable: Vec::new(),
    };
    let engine = &state.engine;
    let recovering = engine.recover(source.clone(), Intake::Missed, clock::now());
    let recovered = reader.read(&extent, recovering, &log_progress()).await?;
    if recovered.placed > 0 {
        info!(
            forest = source.forest,
            read = recovered.documents,
            caught_up = recovered.placed,
            elsewhere = recovered.elsewhere,
            "{found}"
        );
    }
    Ok(TakenIn { recovered: Some(recovered), unreadable })
}

/// Warns of indices that cannot be read, once of each.
pub(super) fn warn_of(forest: &str, unreadable: &[UnreadableIndex], warned: &mut HashSet<(String, String)>) {
    for UnreadableIndex { name, reason } in unreadable {
        if warned.insert((forest.to_owned(), name.clone())) {
            let reason = reason.with_advice();
            warn!(
                forest,
                index = name,
                reason,
                "an index cannot be read, and is tried again: until then its documents may be unknown. The others are \
                 read"
            );
        }
    }
}

struct CatchUp {
    state: Arc<AppState>,
    reader: RecoveryReader,
    dir: PathBuf,
    /// Documents that arrived less than this before the last stored one may have been in flight.
    margin: Millis,
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
        let mut pending: Vec<Pending> = Vec::new();
        pending.extend(sources.into_iter().map(|source| Pending { source, recovered: Recovered::default() }));
        let mut warned = HashSet::new();
        let mut pause = FIRST_PAUSE;
        for search in 1.. {
            let (mut again, mut is_waited_for) = (Vec::new(), false);
            for mut forest in pending {
                match self.forest(&mut forest).await {
                    Ok(unreadable) if unreadable.is_empty() => {}
                    Ok(unreadable) => {
                        warn_of(&forest.source.forest, &unreadable, &mut warned);
                        let names = unreadable.into_iter().map(|index| index.name);
                        forest.source.indices = names.collect();
                        again.push(forest);
                    }
                    Err(error) if error.may_pass() => {
                        let is_new = warned.insert((forest.source.forest.clone(), String::new()));
                        if is_new {
                            warn!(forest = forest.source.forest, error = %error.with_advice(),
                                "what was indexed and not stored is taken in as soon as the cluster lets it be read");
                        }
                        let state = if error.is_away() { "waiting" } else { "failed" };
                        self.record(&forest, state, 0, &[]);
                        // Of an empty forest there is nothing to be near to.
                        is_waited_for |= error.is_away() && (forest.source.seen.is_some() || forest.source.is_salvaged);
                        again.push(forest);
                    }
                    Err(error) => {
                        self.record(&forest, "failed", 0, &[]);
                        warn!(forest = forest.source.forest, error = %error.with_advice(),
                            "what was indexed and not stored stays unknown");
                    }
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
        self.state.recovery.set(ForestStatus {
            forest: forest.source.forest.clone(),
            state: if unreadable.is_empty() { state } else { "incomplete" },
            recovered: forest.recovered,
            unknown,
            unreadable,
        });
    }

    /// Catches up with a forest. Answers the indices that are to be tried again.
    async fn forest(&self, forest: &mut Pending) -> Result<Vec<UnreadableIndex>, RecoveryError> {
        let source = forest.source.clone();
        if source.is_salvaged {
            return self.salvaged(forest).await;
        }
        let Some(seen) = source.seen else {
            return self.search_stamps(forest).await;
        };
        if source.clock == Clock::None {
            // Without a clock the last documents are unknown.
            self.record(forest, "no clock", 0, &[]);
            return Ok(Vec::new());
        }
        let mut since = Some(Millis(seen.0.saturating_sub(self.margin.0)));
        if source.clock == Clock::Arrival {
            since = since.max(before_window(Some(clock::now()), source.window));
        }
        let begun = || self.record(forest, "running", 0, &[]);
        let found = "documents that were indexed and not stored are known now";
        let taken_in = take_in(&self.state, &self.reader, &source, since, begun, found).await?;
        let TakenIn { recovered, unreadable } = taken_in;
        let Some(recovered) = recovered else {
            if unreadable.is_empty() {
                info!(forest = source.forest, indices = ?source.indices, "there is no such index: nothing to catch up");
            }
            self.record(forest, "no index", 0, &unreadable);
            return Ok(unreadable);
        };
        forest.recovered.add(recovered);
        self.record(forest, "done", 0, &unreadable);
        if recovered.foreign > 0 {
            let dir = self.dir.display();
            warn!(
                forest = source.forest,
                indices = ?source.indices,
                documents = recovered.foreign,
                "documents of the index are left out: the method of this forest cannot have given them the roots that they are \
                 stored with, so another one has, or other fields were read. To have them in the forest under these roots, stop \
                 spinney, move the folder of the forest in {dir} away, and run: spinney recover --upstream {} --data-dir {dir} with \
                 the options of the route",
                self.reader.operator.url(),
            );
        }
        Ok(unreadable)
    }

    /// Recovers a salvaged forest completely from the index.
    async fn salvaged(&self, forest: &mut Pending) -> Result<Vec<UnreadableIndex>, RecoveryError> {
        let extent = self.reader.extent(&forest.source).await?;
        if !extent.all.has_index {
            self.record(forest, "no index", 0, &extent.unreadable);
            return Ok(extent.unreadable);
        }
        self.record(forest, "running", 0, &[]);
        let recovered = take_in_salvaged(&self.state.engine, &self.reader, &extent).await?;
        forest.recovered.add(recovered);
        self.record(forest, "done", 0, &extent.unreadable);
        Ok(extent.unreadable)
    }

    /// Warns of stamped documents that an empty forest does not have.
    async fn search_stamps(&self, forest: &Pending) -> Result<Vec<UnreadableIndex>, RecoveryError> {
        let extent = self.reader.extent(&forest.source).await?;
        let documents = extent.read.documents;
        self.record(forest, "empty", documents, &extent.unreadable);
        if documents > 0 {
            warn!(
                forest = forest.source.forest,
                documents,
                "the index has stamped documents that the forest does not know, since {} has nothing of it: their \
                 near-duplicates will get other roots. Stop spinney and run: spinney recover --upstream {} --data-dir \
                 {} with the options of the route; or start it with --recover-at-start",
                self.dir.display(),
                self.reader.operator.url(),
                self.dir.display(),
            );
        }
        Ok(extent.unreadable)
    }
}
