//! The second phase: what the cluster's answer takes back.

use super::Engine;
use crate::bulk::{Op, Outcome};
use crate::forest::Rollback;

/// The nodes that the documents of a request rest on, by item.
#[derive(Debug, Default)]
pub struct Placed {
    /// The operation of every item: an answer that tells of others cannot be matched.
    pub(super) ops: Vec<Op>,
    pub(super) held: Vec<Held>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) item: usize,
    pub(super) forest: usize,
    pub(super) rollback: Rollback,
}

/// What is known of the outcome of a request.
#[derive(Debug)]
pub enum Resolution {
    /// Timeout, broken connection, filtered response: the nodes stay.
    Unknown,
    /// The whole request was refused, or never sent.
    Refused,
    /// The items of a bulk response.
    Items(Outcome),
}

/// What settling did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    pub failed: u64,
    pub withdrawn: u64,
}

impl Placed {
    /// Whether an answer tells of exactly the items of the request.
    pub fn is_answered_by(&self, outcome: &Outcome) -> bool {
        outcome.answers(self.ops.iter().copied())
    }
}

impl Engine {
    /// The second phase: withdraws the nodes of items that definitely failed.
    pub(super) fn settle_now(&self, placed: Placed, resolution: &Resolution) -> Settled {
        let mut settled = Settled::default();
        let status = |outcome: &Outcome, item: usize| {
            let found = outcome
                .failed
                .binary_search_by_key(&item, |&(at, _)| at)
                .ok()?;
            outcome.failed.get(found).map(|&(_, status)| status)
        };
        let failed = |item: usize| match resolution {
            Resolution::Unknown => false,
            Resolution::Refused => true,
            Resolution::Items(outcome) => status(outcome, item).is_some_and(is_definite),
        };
        if let Resolution::Items(outcome) = resolution {
            if !placed.is_answered_by(outcome) {
                return settled;
            }
            // A delete of what is not there answers 404 and is no failure.
            let writes = outcome
                .failed
                .iter()
                .filter(|(at, _)| placed.ops.get(*at) != Some(&Op::Delete));
            settled.failed = writes.count() as u64;
        }
        for Held {
            item,
            forest,
            rollback,
        } in placed.held
        {
            if failed(item)
                && let Some((_, forest)) = self.forests.get(forest)
            {
                settled.withdrawn += forest.lock().withdraw(rollback) as u64;
            }
        }
        settled
    }
}

/// A 4xx is the server's last word on an item; a 5xx (a timeout, a lost shard) is not.
fn is_definite(status: u16) -> bool {
    (400..500).contains(&status) && status != 408
}
