//! The second phase of a write: what the cluster did with the documents that were placed.

use std::sync::Arc;

use hyper::StatusCode;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span, debug, info, warn};

use super::counted;
use crate::clock;
use crate::engine::{Placed, Resolution};
use crate::forest::{Notice, TreeSize};
use crate::shutdown::{InFlightGuard, WriteGuard};
use crate::state::AppState;

/// Documents that were placed and not yet settled. Settling is a task of its own, since it waits for forests; the request
/// is in flight until it ends, whoever still waits for it.
///
/// Dropped before [`PlacementGuard::mark_sent`], it takes the documents' nodes back; dropped after it, the outcome is
/// unknown and they stay for a while.
pub(super) struct PlacementGuard {
    state: Arc<AppState>,
    in_flight: InFlightGuard,
    /// Until it is settled, nobody knows which roots the cluster has stored.
    writing: Option<WriteGuard>,
    placed: Option<Box<Placed>>,
    /// What the path of the request names.
    index: Option<String>,
    sent: bool,
}

impl PlacementGuard {
    /// Guards the documents of a request.
    pub(super) fn new(
        state: Arc<AppState>,
        in_flight: InFlightGuard,
        writing: WriteGuard,
        placed: Placed,
    ) -> PlacementGuard {
        PlacementGuard {
            state,
            in_flight,
            writing: Some(writing),
            placed: Some(Box::new(placed)),
            index: None,
            sent: false,
        }
    }

    /// The same, of a request whose path names this index.
    pub(super) fn of_index(mut self, index: Option<String>) -> PlacementGuard {
        self.index = index;
        self
    }

    /// Whether nobody knows the writer.
    pub(super) fn is_of_stranger(&self) -> bool {
        self.placed.as_deref().is_some_and(Placed::is_of_stranger)
    }

    /// From now on the cluster may have seen the documents.
    pub(super) fn mark_sent(&mut self) {
        self.sent = true;
    }

    /// Begins to settle and returns the task that does it: it goes on if nobody waits for it.
    pub(super) fn settle(mut self, resolution: Resolution) -> Option<JoinHandle<()>> {
        self.spawn(resolution)
    }

    /// The cluster saw nothing: takes the documents' nodes back.
    pub(super) async fn roll_back(self) {
        finished(self.settle(Resolution::NotSent)).await;
    }

    /// Settles by the status of a response that does not speak of single items.
    pub(super) async fn settle_by_status(self, status: StatusCode) {
        finished(self.settle(Resolution::Status(status.as_u16()))).await;
    }

    /// Settles, and waits until that is done.
    pub(super) async fn settle_and_wait(self, resolution: Resolution) {
        finished(self.settle(resolution)).await;
    }

    /// The connection broke after the documents had been sent.
    pub(super) async fn leave_unknown(self) {
        finished(self.settle(Resolution::Unknown)).await;
    }

    fn spawn(&mut self, resolution: Resolution) -> Option<JoinHandle<()>> {
        let placed = self.placed.take()?;
        // Without a runtime the process ends, and the forests with it.
        let runtime = Handle::try_current().ok()?;
        let (state, in_flight) = (self.state.clone(), self.in_flight.clone());
        let (index, writing) = (self.index.take(), self.writing.take());
        let settling = async move {
            counted::note(&state, index.as_deref(), &placed, &resolution);
            settle(&state, *placed, resolution).await;
            drop((writing, in_flight));
        };
        Some(runtime.spawn(settling.instrument(Span::current())))
    }
}

impl Drop for PlacementGuard {
    fn drop(&mut self) {
        let resolution = if self.sent {
            Resolution::Unknown
        } else {
            Resolution::NotSent
        };
        self.spawn(resolution);
    }
}

/// Waits for a settling task.
async fn finished(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        // A panic in it has been logged by the panic hook; the response goes out all the same.
        let _ = task.await;
    }
}

/// Says once of a tree what its readers should know before they see it.
fn report(forest: &str, notice: Notice) {
    let (Notice::Furniture(tree) | Notice::Large(tree) | Notice::Full(tree)) = notice;
    let what = match notice {
        Notice::Furniture(_) => {
            "a cluster is what stands around articles, and no text of theirs: it takes no other document"
        }
        Notice::Large(_) => "a cluster has become large",
        Notice::Full(_) => {
            "a cluster has as many documents as max-tree allows: it takes no text that is not in it"
        }
    };
    let TreeSize {
        root,
        documents,
        titles,
    } = tree;
    warn!(forest, %root, documents, titles, "{what}");
}

async fn settle(state: &AppState, placed: Placed, resolution: Resolution) {
    let counters = &state.metrics.counters;
    if let Resolution::Items(outcome) = &resolution
        && !placed.is_answered_by(outcome)
    {
        counters.responses_unmatched.inc();
        debug!(
            items = outcome.items,
            "the response does not name every item"
        );
    }
    match state.engine.settle(placed, resolution, clock::now()).await {
        Ok(settled) => {
            if settled.learned > 0 {
                counters.sentences_learned.inc_by(settled.learned);
                info!(
                    sentences = settled.learned,
                    "sentences have become boilerplate"
                );
            }
            counters.items_failed.inc_by(settled.failed);
            counters.nodes_withdrawn.inc_by(settled.withdrawn);
            counters.documents_not_kept.inc_by(settled.not_kept);
            for (forest, notice) in settled.notices {
                report(&forest, notice);
            }
        }
        // The client gets the cluster's answer to what has been sent.
        Err(unavailable) => drop(state.engine_failed(&unavailable)),
    }
}
