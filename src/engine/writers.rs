//! Verified writers: callers from whom the cluster has accepted a write of a route lately. The right to write is the
//! cluster's knowledge, so entries expire.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::RequestContext;
use crate::time::Millis;

/// How long after its last accepted write a caller is known.
const KNOWN_FOR: Millis = Millis(10 * 60_000);

/// Pairs that are remembered: some megabytes.
const REMEMBERED: usize = 1 << 16;

/// The verified writers.
#[derive(Debug)]
pub(super) struct Writers {
    /// Time of the last accepted write by caller hash and route; route `None`: any.
    known: Mutex<HashMap<(u64, Option<usize>), Millis>>,
    /// The permit for text work of unverified writers, one at a time.
    turns: Arc<Semaphore>,
}

/// How far the writer of a request is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriterTrust {
    /// The documents cannot be refused.
    Owner,
    /// The cluster has recently accepted writes of the caller, on each of the routes.
    Verified,
    /// It has not: the documents leave no trace before it does.
    Unverified,
}

/// An unverified writer's turn, held until its last clone is dropped: jobs hold one, since they outlive the client.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Default for Writers {
    fn default() -> Writers {
        Writers { known: Mutex::default(), turns: Arc::new(Semaphore::new(1)) }
    }
}

impl Writers {
    /// Whether this caller is verified for a route: the cluster has lately accepted its write to any index of the
    /// route.
    pub(super) fn knows(&self, caller: u64, route: usize, now: Millis) -> bool {
        self.is_known((caller, Some(route)), now)
    }

    /// Whether the cluster has lately accepted any write of this caller.
    pub(super) fn knows_any(&self, caller: u64, now: Millis) -> bool {
        self.is_known((caller, None), now)
    }

    fn is_known(&self, pair: (u64, Option<usize>), now: Millis) -> bool {
        let known = self.known.lock();
        let last = known.get(&pair);
        last.is_some_and(|&last| now.0.saturating_sub(last.0) < KNOWN_FOR.0)
    }

    /// Returns the trust in the writer of documents of these routes.
    pub(super) fn trust(&self, routes: impl Iterator<Item = usize>, context: RequestContext) -> WriterTrust {
        let Some(caller) = context.caller else {
            return WriterTrust::Owner;
        };
        let mut known = None;
        for route in routes {
            if known == Some(route) {
                continue;
            }
            if !self.knows(caller, route, context.now) {
                return WriterTrust::Unverified;
            }
            known = Some(route);
        }
        WriterTrust::Verified
    }

    /// Waits for the turn of an unverified writer.
    pub(super) async fn turn(&self) -> Turn {
        let permit = self.turns.clone().acquire_owned().await;
        Turn { _permit: permit.ok().map(Arc::new) }
    }

    /// The cluster has accepted a write.
    pub(super) fn accepted(&self, caller: u64, route: usize, now: Millis) {
        let mut known = self.known.lock();
        if known.len() + 2 > REMEMBERED && !known.contains_key(&(caller, Some(route))) {
            known.retain(|_, last| now.0.saturating_sub(last.0) < KNOWN_FOR.0);
            // So many at once are no users of a cluster: the newer ones stay, if that is enough.
            if known.len() + 2 > REMEMBERED {
                known.retain(|_, last| now.0.saturating_sub(last.0) < KNOWN_FOR.0 / 8);
            }
            if known.len() + 2 > REMEMBERED {
                known.clear();
            }
        }
        known.insert((caller, Some(route)), now);
        known.insert((caller, None), now);
    }

    /// The cluster has denied a write.
    pub(super) fn denied(&self, caller: u64, route: usize) {
        let mut known = self.known.lock();
        known.remove(&(caller, Some(route)));
        known.remove(&(caller, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_known_for_a_while_where_it_has_written() {
        let writers = Writers::default();
        let (at, later) = (Millis(5), Millis(5 + KNOWN_FOR.0));
        assert!(!writers.knows(1, 7, at));
        writers.accepted(1, 7, at);
        assert!(writers.knows(1, 7, Millis(later.0 - 1)));
        assert!(!writers.knows(1, 7, later), "too long ago");
        assert!(!writers.knows(1, 8, at), "another route");
        assert!(!writers.knows(2, 7, at), "another caller");
        assert!(writers.knows_any(1, at) && !writers.knows_any(2, at));
        writers.denied(1, 7);
        assert!(!writers.knows(1, 7, at) && !writers.knows_any(1, at));
    }

    #[test]
    fn callers_without_number_take_no_memory_without_bound() {
        let writers = Writers::default();
        for caller in 0..3 * REMEMBERED as u64 {
            writers.accepted(caller, 0, Millis(1));
            assert!(writers.knows(caller, 0, Millis(1)));
        }
        assert!(writers.known.lock().len() <= REMEMBERED);
    }
}
