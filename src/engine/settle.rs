//! The second phase: applies the cluster's response to placed documents.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Unavailable;
use super::forests::Forests;
use super::indeterminate::Indeterminate;
use super::placed::{PlacedDocuments, Resolution, outcome};
use super::writers::Writers;
use crate::forest::TreeNotice;
use crate::forest::document::PlacementDocument;
use crate::forest::port::{self, Batch, ForestPort, ItemOutcome};
use crate::time::Millis;

/// The effect of settling a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettledRequest {
    /// Items that the cluster refused, for now or for good.
    pub failed: u64,
    /// Nodes that went.
    pub withdrawn: u64,
    /// Sentences that became boilerplate.
    pub learned: u64,
    /// Accepted documents of unverified writers that the forest does not know, because they were evicted.
    pub not_kept: u64,
    /// Groups that their forests have made one.
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

/// The second phase: what becomes of placed documents once the cluster has answered.
pub(super) struct Settler {
    pub(super) forests: Arc<Forests>,
    pub(super) writers: Arc<Writers>,
    pub(super) unanswered: Indeterminate,
    /// A forest has made groups one.
    pub(super) merged: Notify,
}

impl Settler {
    /// The second phase: reports to the forests at `now` the outcomes of the documents of a request.
    ///
    /// # Errors
    /// When a forest is not available; the others were informed.
    pub(super) async fn settle(
        &self,
        mut placed: PlacedDocuments,
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
        let (late, not_kept) = self.late(&mut placed, &resolution);
        settled.not_kept = not_kept;
        let mut failure = None;
        for (forest, answer) in self.forests.settle(placed, &resolution, now) {
            match answer.await {
                Ok(report) => settled.add(forest, report),
                Err(unavailable) => failure = Some(unavailable),
            }
        }
        for (entry, documents) in self.forests.entries.iter().zip(late) {
            if documents.is_empty() {
                continue;
            }
            match place_accepted(&*entry.port, documents, now).await {
                Ok(report) => settled.add(&entry.name, report),
                Err(unavailable) => failure = Some(unavailable),
            }
        }
        if settled.merged > 0 {
            self.merged.notify_one();
        }
        failure.map_or(Ok(settled), Err)
    }

    /// Takes down where the caller may write.
    fn note_writers(&self, placed: &PlacedDocuments, resolution: &Resolution, now: Millis) {
        let Some(caller) = placed.caller else { return };
        // Neighbours mostly have the same route and fare alike.
        let mut noted = None;
        for held in &placed.held {
            let (outcome, status) = outcome(&placed.ops, held.item, resolution);
            if noted == Some((held.route, outcome, status)) {
                continue;
            }
            match (outcome, status) {
                (ItemOutcome::Accepted, _) => self.writers.accepted(caller, held.route, now),
                (_, Some(401 | 403)) => self.writers.denied(caller, held.route),
                _ => continue,
            }
            noted = Some((held.route, outcome, status));
        }
    }

    /// Takes the accepted deferred placements, by forest; also returns how many were evicted.
    fn late(&self, placed: &mut PlacedDocuments, resolution: &Resolution) -> (Vec<Vec<PlacementDocument>>, u64) {
        let mut late: Vec<Vec<PlacementDocument>> = self.forests.entries.iter().map(|_| Vec::new()).collect();
        let mut not_kept = 0;
        let PlacedDocuments { ops, held, .. } = placed;
        for held in held {
            let Some(waiting) = held.late.take() else {
                continue;
            };
            if outcome(ops, held.item, resolution).0 != ItemOutcome::Accepted {
                continue;
            }
            match (waiting.take(), late.get_mut(held.forest)) {
                (Some(mut document), Some(late)) => {
                    document.given = Some(held.root);
                    late.push(document);
                }
                _ => not_kept += 1,
            }
        }
        (late, not_kept)
    }
}

/// Places documents that the cluster has accepted.
async fn place_accepted(
    port: &dyn ForestPort,
    documents: Vec<PlacementDocument>,
    now: Millis,
) -> Result<port::SettleReport, Unavailable> {
    let batch = Batch { documents, ..Batch::default() };
    let replies = port.place(batch).await?.replies.into_iter();
    let accepted = replies.filter_map(|reply| reply.placed?.settled(ItemOutcome::Accepted));
    port.settle(accepted.collect(), now).await
}
