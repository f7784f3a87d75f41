//! Forests that are out of service, for the tests of the modules above.

use std::sync::Arc;

use crate::engine::Forests;
use crate::engine::forests::ForestEntry;
use crate::engine::{Engine, Unavailable};
use crate::forest::document::ForestDocument;
use crate::forest::overrides::{Override, Overrides, RestampPass};
use crate::forest::port::{
    Batch, CheckReply, DryPlacement, ForestPort, PlaceHandle, PortHandle, SettleReport, Settlement,
};
use crate::forest::{DocumentHash, ForestStats, LateMergeLog, Root, TreeView};
use crate::time::Millis;

/// A forest after a panic in the middle of a change.
#[derive(Debug)]
struct OutOfService {
    name: String,
}

impl OutOfService {
    fn reason(&self) -> Unavailable {
        Unavailable::Poisoned { forest: self.name.clone(), reason: "somebody's secret document".into() }
    }

    fn refuse<T: Send + 'static>(&self) -> PortHandle<T> {
        PortHandle::ready(Err(self.reason()))
    }
}

impl ForestPort for OutOfService {
    fn place(&self, _: Batch) -> PlaceHandle<Batch> {
        PortHandle::ready(Err(self.reason().into()))
    }

    fn dry_placement(&self) -> Box<dyn DryPlacement> {
        Box::new(OutOfService { name: self.name.clone() })
    }

    fn settle(&self, _: Vec<Settlement>, _: Millis) -> PortHandle<SettleReport> {
        self.refuse()
    }

    fn forget_unknown(&self, _: Millis, _: usize) -> PortHandle<SettleReport> {
        self.refuse()
    }

    fn check(&self, _: ForestDocument) -> PortHandle<CheckReply> {
        self.refuse()
    }

    fn tree(&self, _: Root) -> PortHandle<Option<TreeView>> {
        self.refuse()
    }

    fn firsts(&self, _: Vec<Root>) -> PortHandle<Vec<DocumentHash>> {
        self.refuse()
    }

    fn set_firsts(&self, _: Vec<(Root, DocumentHash)>) -> PortHandle<()> {
        self.refuse()
    }

    fn add_override(&self, _: Override, _: Vec<Root>) -> PortHandle<Option<u64>> {
        self.refuse()
    }

    fn undo_override(&self, _: u64) -> PortHandle<Option<Override>> {
        self.refuse()
    }

    fn restamped(&self, _: RestampPass) -> PortHandle<()> {
        self.refuse()
    }

    fn overrides(&self) -> PortHandle<Arc<Overrides>> {
        self.refuse()
    }

    fn late_merges(&self) -> PortHandle<LateMergeLog> {
        self.refuse()
    }

    fn stats(&self) -> PortHandle<ForestStats> {
        self.refuse()
    }

    fn unavailable(&self) -> Option<Unavailable> {
        Some(self.reason())
    }
}

impl DryPlacement for OutOfService {
    fn place(&self, _: Vec<ForestDocument>) -> PlaceHandle<Vec<ForestDocument>> {
        PortHandle::ready(Err(self.reason().into()))
    }
}

impl Engine {
    /// The same engine after every forest has failed.
    pub(crate) fn out_of_service(mut self) -> Engine {
        let entries = self
            .forests
            .entries
            .iter()
            .map(|entry| ForestEntry { port: Arc::new(OutOfService { name: entry.name.clone() }), ..entry.clone() });
        let forests = Arc::new(Forests { entries: entries.collect(), store: self.forests.store.clone() });
        self.placer.forests = forests.clone();
        self.settler.forests = forests.clone();
        Engine { forests, ..self }
    }
}
