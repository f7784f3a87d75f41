//! Documents of which the cluster has not told whether they are stored, because the connection broke or it gave up, are looked for in
//! the index. Their nodes stand until then; without this they would be given up after a while (`RETRY_WINDOW`), although the documents
//! may be stored and nobody may send them again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use super::catch_up::take_in;
use crate::engine::Gap;
use crate::recovery::{Reader, RecoveryError};
use crate::state::AppState;
use crate::time::Millis;

/// So long after the first document without an answer the index is looked at: the cluster may still be busy with it.
const SOON: Duration = Duration::from_secs(5);
/// And so long after each look once more, for what the cluster was slow with. Both looks are over before the nodes are given up.
const AGAIN: Duration = Duration::from_secs(30);
/// Documents that arrived so long before the first one without an answer are read, too, in milliseconds.
const BEFORE: i64 = 1_000;

/// Looks for them.
pub(super) struct Watcher {
    pub(super) state: Arc<AppState>,
    pub(super) reader: Reader,
}

impl Watcher {
    /// Does not end.
    pub(super) async fn run(self) {
        // What was looked at once, and what the cluster could not be asked about.
        let mut open: Vec<Gap> = Vec::new();
        loop {
            if open.is_empty() {
                self.state.engine.unanswered().await;
                sleep(SOON).await;
            } else {
                sleep(AGAIN).await;
            }
            let new = match self.state.engine.take_gaps().await {
                Ok(new) => new,
                Err(reason) => {
                    self.state.engine_failed(&reason);
                    return;
                }
            };
            let mut next = new.clone();
            for gap in joined(open, new) {
                match self.look(&gap).await {
                    Ok(()) => {}
                    Err(error) if error.is_away() => next = joined(next, vec![gap]),
                    Err(error) => warn!(
                        forest = gap.source.forest, error = %error.with_advice(),
                        "documents of which the cluster has not told whether they are stored stay unknown"
                    ),
                }
            }
            open = next;
        }
    }

    async fn look(&self, gap: &Gap) -> Result<(), RecoveryError> {
        let source = &gap.source;
        let since = Some(Millis(gap.since.0.saturating_sub(BEFORE)));
        let found = "documents are stored of which the cluster had not told that";
        let taken_in = take_in(&self.state, &self.reader, source, since, || (), found).await?;
        if let Some(recovered) = taken_in {
            self.state.recovery.looked(&source.forest, recovered);
        }
        Ok(())
    }
}

/// Each forest once, from the earliest time on.
fn joined(mut gaps: Vec<Gap>, more: Vec<Gap>) -> Vec<Gap> {
    for gap in more {
        let same = |known: &&mut Gap| known.source.forest == gap.source.forest;
        match gaps.iter_mut().find(same) {
            Some(known) => known.since = known.since.min(gap.since),
            None => gaps.push(gap),
        }
    }
    gaps
}

async fn sleep(pause: Duration) {
    tokio::time::sleep_until((Instant::now() + pause).into()).await;
}
