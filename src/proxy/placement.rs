//! Second phase of a write: settling placed documents by the cluster's response.

use std::sync::Arc;

use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tracing::{debug, info, warn};

use super::counted;
use super::detached::Detached;
use crate::clock;
use crate::engine::{HeldDocuments, Resolution, SettledRequest, Unavailable};
use crate::forest::{TreeNotice, TreeSize};
use crate::shutdown::{InFlightGuard, WriteGuard};
use crate::state::AppState;
use crate::traces::TraceSpan;

/// Most postponed documents that one write places before its own.
const POSTPONED: usize = 2_000;

/// Placed documents that are not settled yet. Settling waits for forests, and goes on without a client; the request
/// stays in flight until it ends.
///
/// Dropped before [`SettleGuard::mark_sent`], it withdraws the documents' nodes; dropped after that, the outcome
/// is indeterminate and they stay for a while.
pub(super) struct SettleGuard {
    state: Arc<AppState>,
    in_flight: InFlightGuard,
    /// Held until settled: only then it is known which roots the cluster has stored.
    writing: Option<WriteGuard>,
    /// The turn of an unverified writer, held until its documents are placed.
    turn: Option<OwnedSemaphorePermit>,
    placed: Option<Box<HeldDocuments>>,
    /// Index in the path of the request.
    index: Option<String>,
    trace: TraceSpan,
    sent: bool,
}

impl SettleGuard {
    /// Guards the documents of a request.
    pub(super) fn new(
        state: Arc<AppState>,
        in_flight: InFlightGuard,
        writing: WriteGuard,
        placed: HeldDocuments,
    ) -> SettleGuard {
        SettleGuard {
            state,
            in_flight,
            writing: Some(writing),
            turn: None,
            placed: Some(Box::new(placed)),
            index: None,
            trace: TraceSpan::default(),
            sent: false,
        }
    }

    /// Sets the index of the request's path.
    pub(super) fn of_index(mut self, index: Option<String>) -> SettleGuard {
        self.index = index;
        self
    }

    /// Sets the turn of an unverified writer.
    pub(super) fn in_turn(mut self, turn: Option<OwnedSemaphorePermit>) -> SettleGuard {
        self.turn = turn;
        self
    }

    /// Sets the span of the request, which lasts until the documents are settled.
    pub(super) fn in_trace(mut self, trace: TraceSpan) -> SettleGuard {
        self.trace = trace;
        self
    }

    /// Whether the writer is unverified.
    pub(super) fn is_of_unverified_writer(&self) -> bool {
        self.placed.as_deref().is_some_and(HeldDocuments::is_of_unverified_writer)
    }

    /// From now on the cluster may have seen the documents.
    pub(super) fn mark_sent(&mut self) {
        self.sent = true;
    }

    /// Settles; continues if the returned future is dropped.
    pub(super) fn settle(mut self, resolution: Resolution) -> Detached<()> {
        self.settling(resolution)
    }

    /// Withdraws the documents: nothing was sent to the cluster.
    pub(super) async fn roll_back(self) {
        self.settle_and_wait(Resolution::NotSent).await;
    }

    /// Settles by the status of a response without items.
    pub(super) async fn settle_by_status(self, status: StatusCode) {
        self.settle_and_wait(Resolution::Status(status.as_u16())).await;
    }

    /// Settles, and waits until that is done.
    pub(super) async fn settle_and_wait(self, resolution: Resolution) {
        // A panic in it has been logged by the panic hook; the response goes out all the same.
        let _ = self.settle(resolution).await;
    }

    /// Marks the outcome as indeterminate: the connection broke after sending.
    pub(super) async fn leave_unknown(self) {
        self.settle_and_wait(Resolution::Unknown).await;
    }

    fn settling(&mut self, resolution: Resolution) -> Detached<()> {
        let placed = self.placed.take();
        let (state, in_flight) = (self.state.clone(), self.in_flight.clone());
        let (index, held) = (self.index.take(), (self.writing.take(), self.turn.take()));
        let trace = std::mem::take(&mut self.trace);
        Detached::new(async move {
            if let Some(placed) = placed {
                counted::note(&state, index.as_deref(), &placed, &resolution);
                settle(&state, *placed, resolution, &trace).await;
            }
            // In this order: once nothing is in flight, the spans have ended.
            drop((trace, held, in_flight));
        })
    }
}

impl Drop for SettleGuard {
    fn drop(&mut self) {
        if self.placed.is_some() {
            let resolution = if self.sent { Resolution::Unknown } else { Resolution::NotSent };
            drop(self.settling(resolution));
        }
    }
}

/// Logs a notice about a tree once.
fn report(forest: &str, notice: TreeNotice) {
    let (TreeNotice::PageChrome(tree) | TreeNotice::Large(tree) | TreeNotice::Full(tree)) = notice;
    let what = match notice {
        TreeNotice::PageChrome(_) => {
            "a cluster is what stands around articles, and no text of theirs: it takes no other document"
        }
        TreeNotice::Large(_) => "a cluster has become large",
        TreeNotice::Full(_) => "a cluster has as many documents as max-tree allows: it takes no text that is not in it",
    };
    let TreeSize { root, documents, titles } = tree;
    warn!(forest, %root, documents, titles, "{what}");
}

async fn settle(state: &AppState, placed: HeldDocuments, resolution: Resolution, trace: &TraceSpan) {
    let counters = &state.metrics.counters;
    if let Resolution::Items(outcome) = &resolution
        && !placed.is_answered_by(outcome)
    {
        counters.responses_unmatched.inc();
        debug!(items = outcome.items, "the response does not name every item");
    }
    let settled = trace.step("settle", state.engine.settle(placed, resolution, clock::now())).await;
    if let Ok(settled) = &settled {
        trace.count("spinney.documents.refused", settled.failed);
    }
    note_settled(state, settled);
}

/// Places accepted documents whose forest was away; continues if the returned future is dropped.
pub(super) async fn place_postponed(state: &Arc<AppState>) {
    let state = state.clone();
    let placing = async move {
        note_settled(&state, state.engine.place_postponed(clock::now(), POSTPONED).await);
    };
    // The panic hook has logged a panic, and the forests refuse to go on.
    drop(Detached::new(placing).await);
}

/// Counts and logs the result of settling.
pub(crate) fn note_settled(state: &AppState, settled: Result<SettledRequest, Unavailable>) {
    let counters = &state.metrics.counters;
    match settled {
        Ok(settled) => {
            if settled.learned > 0 {
                counters.sentences_learned.inc_by(settled.learned);
                info!(sentences = settled.learned, "sentences have become boilerplate");
            }
            counters.items_failed.inc_by(settled.failed);
            counters.nodes_withdrawn.inc_by(settled.withdrawn);
            counters.documents_not_kept.inc_by(settled.not_kept);
            for (forest, notice) in settled.notices {
                report(&forest, notice);
            }
        }
        // The client gets the cluster's response to the write all the same.
        Err(unavailable) => drop(state.engine_failed(&unavailable)),
    }
}
