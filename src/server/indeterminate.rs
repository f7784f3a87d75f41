//! Searches the index for documents whose outcome is indeterminate: the connection broke, or the cluster timed out.
//! Their nodes stay until then; otherwise they would be withdrawn after `RETRY_WINDOW`, although the documents may be
//! stored and never be sent again.
//!
//! Nodes of an indeterminate outcome stay 60 s. Five seconds after the first, and after thirty more, the index is read
//! from its arrival on, and what is stored counts. This needs a clock and a `--service-url` that may search. Unverified
//! writers do not trigger it; shared forests do without it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::scan::UnreadableIndex;
use crate::engine::Gap;
use crate::recovery::{RecoveryError, RecoveryReader, Retries};
use crate::state::AppState;
use crate::time::Millis;

/// Delay between an indeterminate request and the search for its documents.
const SOON: Duration = Duration::from_secs(5);
/// Pause before each second search, for a slow cluster. Both are over before the nodes are withdrawn.
const AGAIN: Duration = Duration::from_secs(30);
/// Longest pause between two searches in an index that cannot be read.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Margin before the first indeterminate document within which others are read, in milliseconds.
const BEFORE: i64 = 1_000;

/// Searches the index for indeterminate documents.
pub(super) struct IndeterminateWatcher {
    pub(super) state: Arc<AppState>,
    pub(super) reader: RecoveryReader,
}

impl IndeterminateWatcher {
    /// Does not end.
    pub(super) async fn run(self) {
        // Gaps that were looked at once, and indices that could not be read.
        let mut open: Vec<Gap> = Vec::new();
        let mut retries = Retries::new(
            "documents of which the cluster has not told whether they are stored stay unknown until it lets them be \
             read",
            "documents of which the cluster has not told whether they are stored stay unknown",
            false,
        );
        let mut pause = AGAIN;
        loop {
            if open.is_empty() {
                self.state.engine.indeterminate().await;
                sleep(SOON).await;
            } else {
                sleep(pause).await;
            }
            let new = match self.state.engine.take_gaps().await {
                Ok(new) => new,
                Err(reason) => {
                    self.state.engine_failed(&reason);
                    return;
                }
            };
            pause = if new.is_empty() { (pause * 2).min(LONGEST_PAUSE) } else { AGAIN };
            let mut next = new.clone();
            for mut gap in joined(open, new) {
                let outcome = self.search_indeterminate(&gap).await;
                if retries.is_left(&mut gap.source, outcome) {
                    next = joined(next, vec![gap]);
                }
            }
            open = next;
        }
    }

    /// Returns the indices to be searched again.
    async fn search_indeterminate(&self, gap: &Gap) -> Result<Vec<UnreadableIndex>, RecoveryError> {
        let since = Millis(gap.since.0.saturating_sub(BEFORE));
        let extent = self.reader.extent(&gap.source, Some(since)).await?;
        if extent.has_index {
            let found = "documents are stored of which the cluster had not told that";
            let recovered = self.reader.take_in_missed(&extent, found).await?;
            self.state.recovery.resolved(&gap.source.forest, recovered);
        }
        Ok(extent.unreadable)
    }
}

/// Each forest once, from the earliest time on, with the indices of both.
fn joined(mut gaps: Vec<Gap>, more: Vec<Gap>) -> Vec<Gap> {
    for gap in more {
        let same = |known: &&mut Gap| known.source.forest == gap.source.forest;
        match gaps.iter_mut().find(same) {
            Some(known) => {
                known.since = known.since.min(gap.since);
                for index in gap.source.indices {
                    if !known.source.indices.contains(&index) {
                        known.source.indices.push(index);
                    }
                }
            }
            None => gaps.push(gap),
        }
    }
    gaps
}

async fn sleep(pause: Duration) {
    tokio::time::sleep_until(Instant::now() + pause).await;
}
