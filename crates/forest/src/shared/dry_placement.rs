//! Dry placement in a shared forest: documents see the forest and each other, and change nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use spinney_text::method::MethodKind;

use super::SharedForest;
use super::round::Answer;
use crate::Rollback;
use crate::batch_plan::BatchPlan;
use crate::document::ForestDocument;
use crate::port::{
    BatchReply, Commit, DocumentReply, DryPlacement, EarlierDocuments, NotPlaced, PlaceHandle, PortHandle,
};

/// One request's view of a shared forest.
pub(super) struct SharedDryPlacement<F: MethodKind> {
    forest: SharedForest<F>,
    /// Uncontended: a request places one batch at a time.
    own: Arc<Mutex<Own<F>>>,
}

/// State visible to the request only.
struct Own<F: MethodKind> {
    plans: BatchPlan<F::Proof>,
    earlier: EarlierDocuments,
}

impl<F: MethodKind> SharedDryPlacement<F> {
    pub(super) fn new(forest: SharedForest<F>) -> SharedDryPlacement<F> {
        SharedDryPlacement {
            forest,
            own: Arc::new(Mutex::new(Own { plans: BatchPlan::default(), earlier: EarlierDocuments::default() })),
        }
    }
}

impl<F: MethodKind> DryPlacement for SharedDryPlacement<F> {
    fn place(&self, documents: Vec<ForestDocument>) -> PlaceHandle<Vec<ForestDocument>> {
        let (inner, own) = (self.forest.inner.clone(), self.own.clone());
        let placed = self.forest.plain(async move {
            let (plans, mut earlier) = {
                let own = own.lock();
                (own.plans.clone(), own.earlier.clone())
            };
            let work = inner.arrivals(documents, &earlier);
            let round = match inner.decide(work, vec![earlier.clone()], plans, true).await {
                Ok(round) => round,
                Err((error, work)) if error.is_redis_unavailable() => {
                    let documents = work.into_iter().map(|work| work.document);
                    return Ok(Err(NotPlaced { reason: error, documents: Some(documents.collect()) }));
                }
                Err((error, _)) => return Err(error),
            };
            let mut replies = Vec::with_capacity(round.work.len());
            for (work, answer) in round.work.into_iter().zip(round.answers) {
                let placed = match answer {
                    Answer::Fate(fate) => {
                        let (rollback, commit) = (Rollback::Nothing, Commit::Provisional);
                        let (placed, ticket, _) = inner.placed(&work, *fate, rollback, commit, &mut earlier);
                        earlier.time = work.now.map(|_| placed.clock).or(earlier.time);
                        earlier.tallies.add(ticket.root.0, ticket.count);
                        Some(placed)
                    }
                    Answer::None | Answer::Unread | Answer::Waits(_) => None,
                };
                replies.push(DocumentReply { now: work.now, placed });
            }
            *own.lock() = Own { plans: round.plans, earlier };
            let overrides = inner.known_overrides.known().overrides().clone();
            Ok(Ok(BatchReply { replies, overrides, ..BatchReply::default() }))
        });
        PortHandle::of(async move { placed.await? })
    }
}
