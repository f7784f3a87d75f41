//! A start takes in what is indexed and not stored, because the process before it was killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::clock;
use crate::cluster::operator::Operator;
use crate::config::{Clock, ServeOptions};
use crate::engine::{Intake, Recovered, Source};
use crate::recovery::{
    Extent, ForestStatus, Reader, RecoveryError, before_window, log_progress, take_in_salvaged,
};
use crate::state::AppState;
use crate::time::Millis;

/// Documents that arrived so long before the last one that is stored may still have been on their way, in milliseconds.
const MARGIN: i64 = 60_000;
/// How long a start waits for what it has missed; the rest is taken in while it serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pauses between two looks for a cluster that does not answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Begins to take in what is indexed and not stored, and waits for it for a moment. If the cluster does not answer that goes on
/// while spinney serves.
pub(super) async fn begin(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) {
    let Some(storage) = config
        .storage
        .as_ref()
        .filter(|_| !config.routes.is_empty())
    else {
        return;
    };
    let reader = match Reader::new(config, service.clone(), None) {
        Ok(reader) => reader,
        Err(error) => {
            warn!(%error, "nobody looks for documents that are indexed and not stored");
            return;
        }
    };
    let catching_up = CatchingUp {
        state: state.clone(),
        reader,
        dir: storage.data_dir.clone(),
    };
    let (over, is_over) = oneshot::channel();
    tokio::spawn(catching_up.run(over));
    if tokio::time::timeout(PATIENCE, is_over).await.is_err() {
        info!("there is more to catch up: that goes on while documents are served");
    }
}

/// Takes in what is indexed of a forest since then and not known; `None`: there is no index. `begun`: it is read now. `found` is what the
/// log says if there was anything.
pub(super) async fn take_in(
    state: &AppState,
    reader: &Reader,
    source: &Source,
    since: Option<Millis>,
    begun: impl FnOnce(),
    found: &'static str,
) -> Result<Option<Recovered>, RecoveryError> {
    let wanted = reader.wanted(source, since);
    wanted.refresh(&reader.operator).await;
    let read = wanted.overview(&reader.operator).await?;
    if !read.has_index {
        return Ok(None);
    }
    begun();
    let extent = Extent {
        source: source.clone(),
        all: read,
        read,
        since,
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
    Ok(Some(recovered))
}

struct CatchingUp {
    state: Arc<AppState>,
    reader: Reader,
    dir: PathBuf,
}

impl CatchingUp {
    /// `first` is dropped when nothing is to be waited for any more.
    async fn run(self, first: oneshot::Sender<()>) {
        let mut first = Some(first);
        let mut sources = self.state.engine.sources().await.unwrap_or_default();
        let mut pause = FIRST_PAUSE;
        loop {
            let mut away = Vec::new();
            for source in sources {
                match self.forest(&source).await {
                    Ok(()) => {}
                    Err(error) if error.is_away() => {
                        if first.is_some() {
                            warn!(forest = source.forest, %error,
                                "what was indexed and not stored is taken in as soon as the cluster answers");
                        }
                        self.say(&source, "waiting", Recovered::default(), 0);
                        away.push(source);
                    }
                    Err(error) => {
                        self.say(&source, "failed", Recovered::default(), 0);
                        warn!(forest = source.forest, error = %error.with_advice(),
                            "what was indexed and not stored stays unknown");
                    }
                }
            }
            drop(first.take());
            if away.is_empty() {
                return;
            }
            sources = away;
            tokio::time::sleep_until((Instant::now() + pause).into()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn say(&self, source: &Source, state: &'static str, recovered: Recovered, unknown: u64) {
        self.state.recovery.set(ForestStatus {
            forest: source.forest.clone(),
            state,
            recovered,
            unknown,
        });
    }

    async fn forest(&self, source: &Source) -> Result<(), RecoveryError> {
        if source.is_salvaged {
            return self.salvaged(source).await;
        }
        let Some(seen) = source.seen else {
            return self.look_for_stamps(source).await;
        };
        if source.clock == Clock::None {
            // Nothing tells which documents came last.
            self.say(source, "no clock", Recovered::default(), 0);
            return Ok(());
        }
        let mut since = Some(Millis(seen.0.saturating_sub(MARGIN)));
        if source.clock == Clock::Arrival {
            since = since.max(before_window(Some(clock::now()), source.window));
        }
        let begun = || self.say(source, "running", Recovered::default(), 0);
        let found = "documents that were indexed and not stored are known now";
        let taken_in = take_in(&self.state, &self.reader, source, since, begun, found).await?;
        let Some(recovered) = taken_in else {
            info!(forest = source.forest, indices = ?source.indices, "there is no such index: nothing to catch up");
            self.say(source, "no index", Recovered::default(), 0);
            return Ok(());
        };
        self.say(source, "done", recovered, 0);
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
        Ok(())
    }

    /// Takes in all that the index has of a forest of which a part did not read.
    async fn salvaged(&self, source: &Source) -> Result<(), RecoveryError> {
        let extent = self.reader.extent(source).await?;
        if !extent.all.has_index {
            self.say(source, "no index", Recovered::default(), 0);
            return Ok(());
        }
        self.say(source, "running", Recovered::default(), 0);
        let recovered = take_in_salvaged(&self.state.engine, &self.reader, &extent).await?;
        self.say(source, "done", recovered, 0);
        Ok(())
    }

    /// Warns of stamped documents that an empty forest does not know.
    async fn look_for_stamps(&self, source: &Source) -> Result<(), RecoveryError> {
        let extent = self.reader.extent(source).await?;
        let documents = extent.read.documents;
        self.say(source, "empty", Recovered::default(), documents);
        if documents > 0 {
            warn!(
                forest = source.forest,
                documents,
                "the index has stamped documents that the forest does not know, since {} has nothing of it: their near-duplicates will get other roots. Stop spinney and run: spinney recover --upstream {} --data-dir {} with the options of the route; or start it with --recover-at-start",
                self.dir.display(),
                self.reader.operator.url(),
                self.dir.display(),
            );
        }
        Ok(())
    }
}
