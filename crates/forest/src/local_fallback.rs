//! The local fallback of a shared forest.
//!
//! While Redis is away, documents are placed in a forest of this process and
//! [marked](super::port::RootAssignment::is_local_fallback) until a sweep places them again. The fallback forest keeps
//! its nodes for the next outage; they expire with their window. The mark is an explicit null in `cluster_root`: sweeps
//! look for it, and an update cannot leave the old root in place.

use std::sync::Arc;

use super::document::ForestDocument;
use super::overrides::{Override, Overrides, RestampPass};
use super::port::{
    Batch, BatchReply, CheckReply, DryPlacement, ForestPort, NotPlaced, PlaceHandle, PortHandle, SettleReport,
    Settlement, Unavailable,
};
use super::{ForestStats, LateMergeLog, Rollback, Root, TreeView};
use crate::DocumentHash;
use crate::time::Millis;

/// A shared forest with a local one for the time while Redis is away.
///
/// The fallback's part of an operation begins when the handle is polled, once Redis did not take it: of a handle that
/// is dropped before, nothing is placed.
#[derive(Debug)]
pub struct LocalFallback {
    shared: Arc<dyn ForestPort>,
    local: Arc<dyn ForestPort>,
}

impl LocalFallback {
    /// `shared`, and `local` while Redis [cannot take anything](Unavailable::is_redis_unavailable).
    pub fn new(shared: Arc<dyn ForestPort>, local: Arc<dyn ForestPort>) -> LocalFallback {
        LocalFallback { shared, local }
    }

    /// Asks the shared forest, and the other one if that is away.
    fn either<T: Send + 'static>(
        &self,
        ask: impl Fn(&dyn ForestPort) -> PortHandle<T> + Send + 'static,
    ) -> PortHandle<T> {
        let (asked, local) = (ask(&*self.shared), self.local.clone());
        PortHandle::of(async move {
            match asked.await {
                Err(error) if error.is_redis_unavailable() => ask(&*local).await,
                answer => answer,
            }
        })
    }
}

/// The placements of the shared forest or, if it returns the documents unplaced, those of the fallback, marked.
fn or_local<D: Send + 'static>(
    asked: PlaceHandle<D>,
    local: impl FnOnce(D) -> PlaceHandle<D> + Send + 'static,
) -> PlaceHandle<D> {
    PortHandle::of(async move {
        match asked.await {
            Err(NotPlaced { documents: Some(documents), .. }) => local(documents).await.map(marked),
            placed => placed,
        }
    })
}

fn marked(mut placements: BatchReply) -> BatchReply {
    for placed in placements.replies.iter_mut().filter_map(|r| r.placed.as_mut()) {
        placed.is_local_fallback = true;
    }
    placements
}

impl ForestPort for LocalFallback {
    fn place(&self, batch: Batch) -> PlaceHandle<Batch> {
        let (asked, local) = (self.shared.place(batch), self.local.clone());
        or_local(asked, move |batch| local.place(batch))
    }

    fn dry_placement(&self) -> Box<dyn DryPlacement> {
        Box::new(FallbackDryPlacement {
            shared: self.shared.dry_placement(),
            local: Arc::from(self.local.dry_placement()),
        })
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> PortHandle<SettleReport> {
        let (local, shared): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|settlement| matches!(settlement.ticket.rollback, Rollback::Nodes(_)));
        let settle_in = |port: &dyn ForestPort, batch: Vec<Settlement>| match batch.is_empty() {
            true => PortHandle::ready(Ok(SettleReport::default())),
            false => port.settle(batch, now),
        };
        both(settle_in(&*self.local, local), settle_in(&*self.shared, shared))
    }

    fn forget_unknown(&self, now: Millis, budget: usize) -> PortHandle<SettleReport> {
        both(self.local.forget_unknown(now, budget), self.shared.forget_unknown(now, budget))
    }

    fn check(&self, document: ForestDocument) -> PortHandle<CheckReply> {
        self.either(move |port| port.check(document.clone()))
    }

    fn firsts(&self, roots: Vec<Root>) -> PortHandle<Vec<DocumentHash>> {
        self.shared.firsts(roots)
    }

    fn set_firsts(&self, firsts: Vec<(Root, DocumentHash)>) -> PortHandle<()> {
        self.shared.set_firsts(firsts)
    }

    fn tree(&self, root: Root) -> PortHandle<Option<TreeView>> {
        self.either(move |port| port.tree(root))
    }

    fn add_override(&self, correction: Override, shown: Vec<Root>) -> PortHandle<Option<u64>> {
        self.shared.add_override(correction, shown)
    }

    fn undo_override(&self, number: u64) -> PortHandle<Option<Override>> {
        self.shared.undo_override(number)
    }

    fn restamped(&self, done: RestampPass) -> PortHandle<()> {
        self.shared.restamped(done)
    }

    fn overrides(&self) -> PortHandle<Arc<Overrides>> {
        self.shared.overrides()
    }

    fn late_merges(&self) -> PortHandle<LateMergeLog> {
        self.shared.late_merges()
    }

    fn stats(&self) -> PortHandle<ForestStats> {
        self.shared.stats()
    }

    fn unavailable(&self) -> Option<Unavailable> {
        match self.shared.unavailable() {
            None | Some(Unavailable::Away { .. }) => self.local.unavailable(),
            unavailable => unavailable,
        }
    }
}

/// The sum of two reports.
fn both(local: PortHandle<SettleReport>, shared: PortHandle<SettleReport>) -> PortHandle<SettleReport> {
    PortHandle::of(async move {
        let (local, shared) = (local.await?, shared.await?);
        Ok(SettleReport {
            withdrawn: local.withdrawn + shared.withdrawn,
            learned: local.learned + shared.learned,
            notices: [local.notices, shared.notices].concat(),
            merged: local.merged + shared.merged,
        })
    })
}

/// The dry placement of one request in both forests.
struct FallbackDryPlacement {
    shared: Box<dyn DryPlacement>,
    local: Arc<dyn DryPlacement>,
}

impl DryPlacement for FallbackDryPlacement {
    fn place(&self, documents: Vec<ForestDocument>) -> PlaceHandle<Vec<ForestDocument>> {
        let (asked, local) = (self.shared.place(documents), self.local.clone());
        or_local(asked, move |documents| local.place(documents))
    }
}
