//! The second phase: applies the cluster's response to placed documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Unavailable;
use super::deferred::{DeferredClaim, DeferredPlacements};
use super::forests::Forests;
use super::indeterminate::Indeterminate;
use super::index_names::IndexNames;
use super::placed::{HeldDocuments, Resolution, outcome};
use super::unsure_firsts::UnsureFirsts;
use super::writers::Writers;
use crate::forest::TreeNotice;
use crate::forest::document::ForestDocument;
use crate::forest::port::{self, Batch, ForestPort, ItemOutcome, NotPlaced};
use crate::time::Millis;

/// The effect of settling a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettledRequest {
    /// Items that the cluster refused, for now or for good.
    pub failed: u64,
    /// Nodes that were withdrawn.
    pub withdrawn: u64,
    /// Sentences that became boilerplate.
    pub learned: u64,
    /// Accepted documents that were not placed, because their deferred placements were evicted.
    pub not_kept: u64,
    /// Late merges.
    pub merged: u64,
    /// Changes in the state of trees, with the names of their forests.
    pub notices: Vec<(String, TreeNotice)>,
}

impl SettledRequest {
    fn add(&mut self, forest: &str, report: port::SettleReport) {
        self.withdrawn += report.withdrawn;
        self.learned += report.learned;
        self.merged += report.merged;
        let notices = report.notices.into_iter();
        self.notices.extend(notices.map(|notice| (forest.to_owned(), notice)));
    }
}

/// The second phase of a write: settles placed documents by the cluster's response.
pub(super) struct Settler {
    pub(super) forests: Arc<Forests>,
    pub(super) writers: Arc<Writers>,
    pub(super) unanswered: Indeterminate,
    /// Deferred placements of unverified writers.
    pub(super) deferred: DeferredPlacements,
    /// Those that the cluster has accepted and whose forest was away since, by number of the forest.
    pub(super) postponed: Mutex<Vec<(usize, DeferredClaim)>>,
    /// Held during deferred placements: later writes of the same documents wait.
    pub(super) placing: tokio::sync::Mutex<()>,
    /// A forest has made groups one.
    pub(super) merged: Notify,
    /// Groups whose first document is to be looked for.
    pub(super) unsure: UnsureFirsts,
    /// Which index each name means.
    pub(super) names: Arc<IndexNames>,
}

impl Settler {
    /// The second phase: reports to the forests at `now` the outcomes of the documents of a request.
    ///
    /// # Errors
    /// When a forest is not available; the others were informed.
    pub(super) async fn settle(
        &self,
        mut placed: HeldDocuments,
        resolution: Resolution,
        now: Millis,
    ) -> Result<SettledRequest, Unavailable> {
        let resolution = match resolution {
            Resolution::Items(items) if !placed.is_answered_by(&items) => Resolution::Unknown,
            known => known,
        };
        let mut settled = SettledRequest { failed: placed.failed(&resolution), ..SettledRequest::default() };
        self.note_writers(&placed, &resolution, now);
        self.unanswered.note(&self.forests, &placed, &resolution);
        self.unsure.note(&placed, &resolution);
        self.names.note(&placed, &resolution);
        let firsts = placed.new_firsts(&resolution);
        let (deferred, not_kept) = Self::deferred(&mut placed, &resolution);
        settled.not_kept = not_kept;
        let mut failure = None;
        for (forest, answer) in self.forests.settle(placed, &resolution, now) {
            match answer.await {
                Ok(report) => settled.add(forest, report),
                Err(unavailable) => failure = Some(unavailable),
            }
        }
        for (forest, firsts) in firsts {
            if let Some(entry) = self.forests.entries.get(forest)
                && let Err(unavailable) = entry.port.set_firsts(firsts).await
            {
                failure = Some(unavailable);
            }
        }
        failure = self.place_all(deferred, now, &mut settled).await.or(failure);
        self.finish(settled, failure)
    }

    /// Whether accepted documents are to be placed whose forest was away and is back.
    pub(super) fn has_postponed(&self) -> bool {
        let waits = self.placing.try_lock().is_err() || !self.postponed.lock().is_empty();
        waits && self.forests.redis_is_away() == Some(false)
    }

    /// Places accepted documents whose forest was away, at most `budget` of them, once it is back.
    ///
    /// # Errors
    /// When a forest is not available; its documents wait on.
    pub(super) async fn place_postponed(&self, now: Millis, budget: usize) -> Result<SettledRequest, Unavailable> {
        let _placing = self.placing.lock().await;
        let mut settled = SettledRequest::default();
        let claims: Vec<_> = match self.forests.redis_is_away() {
            Some(false) => {
                let mut postponed = self.postponed.lock();
                let most = budget.min(postponed.len());
                postponed.drain(..most).collect()
            }
            _ => Vec::new(),
        };
        let mut deferred = AcceptedDocuments::new();
        for (forest, claim) in claims {
            match claim.take() {
                Some(document) => deferred.entry((forest, false)).or_default().push(document),
                None => settled.not_kept += 1,
            }
        }
        let failure = self.place_all(deferred, now, &mut settled).await;
        self.finish(settled, failure)
    }

    fn finish(&self, settled: SettledRequest, failure: Option<Unavailable>) -> Result<SettledRequest, Unavailable> {
        if settled.merged > 0 {
            self.merged.notify_one();
        }
        failure.map_or(Ok(settled), Err)
    }

    /// Takes down where the caller may write.
    fn note_writers(&self, placed: &HeldDocuments, resolution: &Resolution, now: Millis) {
        let Some(caller) = placed.caller else { return };
        // Neighbours mostly have the same route and fare alike.
        let mut noted = None;
        for (item, route) in placed.routed() {
            let (outcome, status) = outcome(&placed.ops, item, resolution);
            if noted == Some((route, outcome, status)) {
                continue;
            }
            match (outcome, status) {
                (ItemOutcome::Accepted, _) => self.writers.accepted(caller, route, now),
                (_, Some(401 | 403)) => self.writers.denied(caller, route),
                _ => continue,
            }
            noted = Some((route, outcome, status));
        }
    }

    /// Takes the accepted deferred placements; also returns how many were evicted.
    fn deferred(placed: &mut HeldDocuments, resolution: &Resolution) -> (AcceptedDocuments, u64) {
        let (mut deferred, mut not_kept) = (AcceptedDocuments::new(), 0);
        let HeldDocuments { ops, held, .. } = placed;
        for held in held {
            let Some(waiting) = held.deferred.take() else {
                continue;
            };
            if outcome(ops, held.item, resolution).0 != ItemOutcome::Accepted {
                continue;
            }
            match waiting.take() {
                Some(mut document) => {
                    document.given = Some(held.root);
                    deferred.entry((held.forest, held.is_local_fallback)).or_default().push(document);
                }
                None => not_kept += 1,
            }
        }
        (deferred, not_kept)
    }

    /// Places documents that the cluster has accepted; returns the last failure.
    async fn place_all(
        &self,
        deferred: AcceptedDocuments,
        now: Millis,
        settled: &mut SettledRequest,
    ) -> Option<Unavailable> {
        let mut failure = None;
        for ((forest, is_local_fallback), documents) in deferred {
            let Some(entry) = self.forests.entries.get(forest) else { continue };
            // A document whose stamp names no fallback is sought in the shared forest, and nowhere else.
            let port: &dyn ForestPort = match &entry.shared {
                Some(shared) if !is_local_fallback => &**shared,
                _ => &*entry.port,
            };
            match place_accepted(port, documents, now).await {
                Ok(report) => settled.add(&entry.name, report),
                Err(NotPlaced { reason, documents }) => {
                    let documents = documents.map(|batch| batch.documents).unwrap_or_default();
                    let claims = documents.into_iter().map(|document| (forest, self.deferred.keep(document)));
                    self.postponed.lock().extend(claims);
                    failure = Some(reason);
                }
            }
        }
        failure
    }
}

/// Documents of unverified writers that the cluster has accepted, by number of their forest, and whether their stamps
/// name its fallback.
type AcceptedDocuments = BTreeMap<(usize, bool), Vec<ForestDocument>>;

async fn place_accepted(
    port: &dyn ForestPort,
    documents: Vec<ForestDocument>,
    now: Millis,
) -> Result<port::SettleReport, NotPlaced<Batch>> {
    let replies = port.place(Batch::of_accepted(documents)).await?.replies.into_iter();
    let accepted = replies.filter_map(|reply| reply.placed?.settled(ItemOutcome::Accepted));
    Ok(port.settle(accepted.collect(), now).await?)
}
