//! The second phase: what the cluster's answer takes back.

use std::sync::Arc;

use super::{Engine, Unavailable};
use crate::bulk::{self, Op};
use crate::forest::Rollback;
use crate::forest::port::{Outcome, Settlement};

/// The nodes that the documents of a request use, by item. To be given to [`Engine::settle`].
#[derive(Debug, Default)]
pub struct Placed {
    /// The operation of every item: an answer that tells of others cannot be matched.
    ops: Vec<Op>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    item: usize,
    forest: usize,
    rollback: Rollback,
}

/// What is known of the outcome of a request.
#[derive(Debug)]
pub enum Resolution {
    /// Timeout, broken connection, filtered response: the nodes stay.
    Unknown,
    /// The whole request was refused, or never sent.
    Refused,
    /// The items of a bulk response.
    Items(bulk::Outcome),
}

/// What settling did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// Items that the cluster refused, for now or for good.
    pub failed: u64,
    /// Nodes that went.
    pub withdrawn: u64,
}

impl Placed {
    pub(super) fn of(ops: Vec<Op>) -> Placed {
        Placed {
            ops,
            held: Vec::new(),
        }
    }

    pub(super) fn hold(&mut self, item: usize, forest: usize, rollback: Rollback) {
        self.held.push(Held {
            item,
            forest,
            rollback,
        });
    }

    /// Whether an answer tells of exactly the items of the request.
    pub fn is_answered_by(&self, outcome: &bulk::Outcome) -> bool {
        outcome.answers(self.ops.iter().copied())
    }

    /// What became of one item.
    fn outcome(&self, item: usize, resolution: &Resolution) -> Outcome {
        let items = match resolution {
            Resolution::Unknown => return Outcome::Unknown,
            Resolution::Refused => return Outcome::Refused,
            Resolution::Items(items) => items,
        };
        match items.failed.binary_search_by_key(&item, |&(at, _)| at) {
            Err(_) => Outcome::Accepted,
            Ok(found) => {
                let status = items.failed.get(found).map(|&(_, status)| status);
                if status.is_some_and(is_definite) {
                    Outcome::Refused
                } else {
                    Outcome::Unknown
                }
            }
        }
    }

    /// How many items an answer says have failed.
    fn failed(&self, resolution: &Resolution) -> u64 {
        let Resolution::Items(items) = resolution else {
            return 0;
        };
        // A delete of what is not there answers 404 and is no failure.
        let writes = items.failed.iter();
        let writes = writes.filter(|(at, _)| self.ops.get(*at) != Some(&Op::Delete));
        writes.count() as u64
    }
}

impl Engine {
    /// The second phase: tells the forests what became of the documents of a request.
    ///
    /// # Errors
    /// When a forest cannot be asked any more; the others were told.
    pub async fn settle(
        self: &Arc<Self>,
        placed: Placed,
        resolution: Resolution,
    ) -> Result<Settled, Unavailable> {
        let resolution = match resolution {
            Resolution::Items(items) if !placed.is_answered_by(&items) => Resolution::Unknown,
            known => known,
        };
        let mut settled = Settled {
            failed: placed.failed(&resolution),
            withdrawn: 0,
        };
        let mut failure = None;
        for answer in self.tell(placed, &resolution) {
            match answer.await {
                Ok(told) => settled.withdrawn += told.withdrawn,
                Err(unavailable) => failure = Some(unavailable),
            }
        }
        failure.map_or(Ok(settled), Err)
    }

    /// Withdraws documents for whose outcome nobody waits.
    pub(super) fn withdraw(&self, placed: Placed) {
        if !placed.held.is_empty() {
            // A forest works off what it is told even if the answer is dropped.
            drop(self.tell(placed, &Resolution::Refused));
        }
    }

    fn tell(
        &self,
        mut placed: Placed,
        resolution: &Resolution,
    ) -> Vec<crate::forest::port::Answer<crate::forest::port::Settled>> {
        let mut batches: Vec<Vec<Settlement>> = self.forests.iter().map(|_| Vec::new()).collect();
        for held in std::mem::take(&mut placed.held) {
            if let Some(batch) = batches.get_mut(held.forest) {
                batch.push(Settlement {
                    outcome: placed.outcome(held.item, resolution),
                    rollback: held.rollback,
                });
            }
        }
        let told = self.forests.iter().zip(batches);
        let told = told.filter(|(_, batch)| !batch.is_empty());
        told.map(|(entry, batch)| entry.port.settle(batch))
            .collect()
    }
}

/// A 4xx is the server's last word on an item; a 5xx (a timeout, a lost shard) is not.
fn is_definite(status: u16) -> bool {
    (400..500).contains(&status) && status != 408
}
