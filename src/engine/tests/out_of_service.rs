//! Forests that are out of service, for the tests of the rooms above.

use std::future::ready;
use std::sync::Arc;

use crate::engine::{Engine, Unavailable};
use crate::forest::local::Recovery;
use crate::forest::port::{
    Answer, Batch, CheckReply, Document, Placements, Port, Rehearsal, Settled, Settlement,
};
use crate::forest::words::{RestampPass, Word, Words};
use crate::forest::{Late, Root, Stats, TreeView};
use crate::time::Millis;

/// A forest after a panic in the middle of a change.
#[derive(Debug)]
struct OutOfService {
    name: String,
}

impl OutOfService {
    fn reason(&self) -> Unavailable {
        Unavailable::Poisoned {
            forest: self.name.clone(),
            reason: "somebody's secret document".into(),
        }
    }

    fn refuse<T: Send + 'static>(&self) -> Answer<T> {
        Box::pin(ready(Err(self.reason())))
    }
}

impl Port for OutOfService {
    fn place(&self, _: Batch) -> Answer<Placements> {
        self.refuse()
    }

    fn rehearsal(&self) -> Box<dyn Rehearsal> {
        Box::new(OutOfService {
            name: self.name.clone(),
        })
    }

    fn settle(&self, _: Vec<Settlement>, _: Millis) -> Answer<Settled> {
        self.refuse()
    }

    fn recover(&self, _: Vec<Document>, _: Recovery, _: bool) -> Answer<Recovery> {
        self.refuse()
    }

    fn forget_unknown(&self, _: Millis, _: usize) -> Answer<Settled> {
        self.refuse()
    }

    fn check(&self, _: Document) -> Answer<CheckReply> {
        self.refuse()
    }

    fn tree(&self, _: Root) -> Answer<Option<TreeView>> {
        self.refuse()
    }

    fn say(&self, _: Word, _: Vec<Root>) -> Answer<Option<u64>> {
        self.refuse()
    }

    fn take_back(&self, _: u64) -> Answer<Option<Word>> {
        self.refuse()
    }

    fn restamped(&self, _: RestampPass) -> Answer<()> {
        self.refuse()
    }

    fn words(&self) -> Answer<Arc<Words>> {
        self.refuse()
    }

    fn late(&self) -> Answer<Late> {
        self.refuse()
    }

    fn stats(&self) -> Answer<Stats> {
        self.refuse()
    }

    fn expire(&self, _: Millis, _: usize) -> Answer<usize> {
        self.refuse()
    }

    fn set_memory_limit(&self, _: usize) -> Answer<()> {
        self.refuse()
    }

    fn unavailable(&self) -> Option<Unavailable> {
        Some(self.reason())
    }
}

impl Rehearsal for OutOfService {
    fn place(&self, _: Vec<Document>) -> Answer<Placements> {
        self.refuse()
    }
}

impl Engine {
    /// The same engine after every forest has failed.
    pub(crate) fn out_of_service(mut self) -> Engine {
        for entry in &mut self.forests {
            entry.port = Arc::new(OutOfService {
                name: entry.name.clone(),
            });
        }
        self
    }
}
