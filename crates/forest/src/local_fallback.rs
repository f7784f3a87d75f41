//! The local fallback of a shared forest.
//!
//! While Redis is away, documents are placed in a forest of this process and marked ([`Placed::is_alone`](super::port::Placed::is_alone)) until a
//! sweep places them again. The fallback forest keeps its nodes for the next outage; they expire with their window.

use std::sync::Arc;

use super::document::PlacementDocument;
use super::overrides::{Override, Overrides, RestampPass};
use super::port::{
    Batch, CheckReply, DryPlacement, ForestPort, NotPlaced, PlaceFuture, Placements, PortFuture, SettleReport,
    Settlement, Unavailable,
};
use super::{ForestStats, LateMergeLog, Rollback, Root, TreeView};
use crate::time::Millis;

/// Two forests of the same kind.
#[derive(Debug)]
pub struct LocalFallback {
    shared: Arc<dyn ForestPort>,
    alone: Arc<dyn ForestPort>,
}

impl LocalFallback {
    /// `shared`, and `alone` while its engine [cannot take anything](Unavailable::is_store_unavailable).
    pub fn new(shared: Arc<dyn ForestPort>, alone: Arc<dyn ForestPort>) -> LocalFallback {
        LocalFallback { shared, alone }
    }

    /// Asks the shared forest, and the other one if that is away.
    fn either<T: Send + 'static>(
        &self,
        ask: impl Fn(&dyn ForestPort) -> PortFuture<T> + Send + 'static,
    ) -> PortFuture<T> {
        let (asked, alone) = (ask(&*self.shared), self.alone.clone());
        Box::pin(async move {
            match asked.await {
                Err(error) if error.is_store_unavailable() => ask(&*alone).await,
                answer => answer,
            }
        })
    }
}

/// What was asked for or, where its documents come back, the placements of the fallback, marked.
fn or_alone<D: Send + 'static>(
    asked: PlaceFuture<D>,
    alone: impl FnOnce(D) -> PlaceFuture<D> + Send + 'static,
) -> PlaceFuture<D> {
    Box::pin(async move {
        match asked.await {
            Err(NotPlaced { documents: Some(documents), .. }) => alone(documents).await.map(marked),
            placed => placed,
        }
    })
}

fn marked(mut placements: Placements) -> Placements {
    for placed in placements.replies.iter_mut().filter_map(|r| r.placed.as_mut()) {
        placed.is_alone = true;
    }
    placements
}

impl ForestPort for LocalFallback {
    fn place(&self, batch: Batch) -> PlaceFuture<Batch> {
        let (asked, alone) = (self.shared.place(batch), self.alone.clone());
        or_alone(asked, move |batch| alone.place(batch))
    }

    fn dry_placement(&self) -> Box<dyn DryPlacement> {
        Box::new(FallbackDryPlacement {
            shared: self.shared.dry_placement(),
            alone: Arc::from(self.alone.dry_placement()),
        })
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> PortFuture<SettleReport> {
        let (alone, shared): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|settlement| matches!(settlement.ticket.rollback, Rollback::Nodes(_)));
        let settle_in = |port: &dyn ForestPort, batch: Vec<Settlement>| match batch.is_empty() {
            true => Box::pin(std::future::ready(Ok(SettleReport::default()))),
            false => port.settle(batch, now),
        };
        both(settle_in(&*self.alone, alone), settle_in(&*self.shared, shared))
    }

    fn forget_unknown(&self, now: Millis, budget: usize) -> PortFuture<SettleReport> {
        both(self.alone.forget_unknown(now, budget), self.shared.forget_unknown(now, budget))
    }

    fn check(&self, document: PlacementDocument) -> PortFuture<CheckReply> {
        self.either(move |port| port.check(document.clone()))
    }

    fn tree(&self, root: Root) -> PortFuture<Option<TreeView>> {
        self.either(move |port| port.tree(root))
    }

    fn add_override(&self, correction: Override, shown: Vec<Root>) -> PortFuture<Option<u64>> {
        self.shared.add_override(correction, shown)
    }

    fn undo_override(&self, number: u64) -> PortFuture<Option<Override>> {
        self.shared.undo_override(number)
    }

    fn restamped(&self, done: RestampPass) -> PortFuture<()> {
        self.shared.restamped(done)
    }

    fn overrides(&self) -> PortFuture<Arc<Overrides>> {
        self.shared.overrides()
    }

    fn late(&self) -> PortFuture<LateMergeLog> {
        self.shared.late()
    }

    fn stats(&self) -> PortFuture<ForestStats> {
        self.shared.stats()
    }

    fn unavailable(&self) -> Option<Unavailable> {
        match self.shared.unavailable() {
            None | Some(Unavailable::Away { .. }) => self.alone.unavailable(),
            unavailable => unavailable,
        }
    }
}

/// The sum of two reports.
fn both(alone: PortFuture<SettleReport>, shared: PortFuture<SettleReport>) -> PortFuture<SettleReport> {
    Box::pin(async move {
        let (alone, shared) = (alone.await?, shared.await?);
        Ok(SettleReport {
            withdrawn: alone.withdrawn + shared.withdrawn,
            learned: alone.learned + shared.learned,
            notices: [alone.notices, shared.notices].concat(),
            merged: alone.merged + shared.merged,
        })
    })
}

/// One request's view of both.
struct FallbackDryPlacement {
    shared: Box<dyn DryPlacement>,
    alone: Arc<dyn DryPlacement>,
}

impl DryPlacement for FallbackDryPlacement {
    fn place(&self, documents: Vec<PlacementDocument>) -> PlaceFuture<Vec<PlacementDocument>> {
        let (asked, alone) = (self.shared.place(documents), self.alone.clone());
        or_alone(asked, move |documents| alone.place(documents))
    }
}
