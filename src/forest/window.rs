//! The clock of the forest and what it lets go.
//!
//! The clock is the latest `now` that was ever seen: a document that is dated earlier arrives at the clock, so that
//! arrivals never go backwards and the list of nodes stays sorted. A node is alive as long as its arrival is at most
//! the window before the clock. From the moment it is not, it is never matched, refreshed or a candidate, and no
//! root counts it as a child, whether or not it was removed yet.
//!
//! A document that brings its own date moves the clock when the cluster has accepted it, not before: one date must not
//! empty a window. Until then it comes at the clock.
//!
//! Removal is spread. Every placement removes at most twice as many due nodes as it could create, oldest arrival
//! first, and [`Forest::expire`] removes up to a given number. The number of children that decides a contest is exact
//! nevertheless: the leaves of a root are sorted by arrival, so in a contest the expired ones at the old end are left out
//! of the count, and then taken out of the tree. So each leaf is passed over once in its life, and only trees that contest
//! are looked at.

use super::Forest;
use super::change::Change;
use super::slab::Kind;
use crate::hamming::NodeId;
use crate::method::Proof;
use crate::time::Millis;

/// A node with its places in the index: what `memory_bytes` comes to by node, growth included, in large forests.
const NODE_BYTES: usize = 144;

impl<P: Proof> Forest<P> {
    /// The latest time that was seen; [`i64::MIN`] before anything was.
    pub fn clock(&self) -> Millis {
        self.clock
    }

    /// Lets up to `budget` expired nodes go, oldest arrival first, and answers how many went: for a tick between
    /// placements. A `now` before the clock counts as the clock.
    pub fn expire(&mut self, now: Millis, budget: usize) -> usize {
        if now > self.clock {
            self.commit(Change::Tick { now });
        }
        let cutoff = self.cutoff(now);
        let mut gone = 0;
        while gone < budget {
            let oldest = self.slab.oldest();
            let Some(oldest) = oldest.filter(|&id| self.slab.node(id).arrival < cutoff) else {
                break;
            };
            let node = self.slab.node_ref(oldest);
            self.commit(Change::Expire { node });
            gone += 1;
        }
        gone
    }

    /// Lets up to `budget` nodes go, oldest arrival first, as long as there are more than the limit of memory allows.
    pub(super) fn evict(&mut self, budget: usize) {
        for _ in 0..budget {
            if self.live_bytes() <= self.memory_limit {
                return;
            }
            let Some(oldest) = self.slab.oldest() else {
                return;
            };
            let node = self.slab.node_ref(oldest);
            self.commit(Change::Evict { node });
        }
    }

    /// Bytes that the nodes take which are there; what is allocated for more of them is on top.
    fn live_bytes(&self) -> usize {
        self.slab.len() * NODE_BYTES + self.slab.roots() * size_of::<P>()
    }

    /// The earliest arrival that is alive at `now`, or at the clock if that is later.
    pub(super) fn cutoff(&self, now: Millis) -> Millis {
        let clock = self.clock.max(now).0;
        Millis(
            self.window
                .map_or(i64::MIN, |window| clock.saturating_sub(window.0)),
        )
    }

    /// The root of a node, if the node is alive.
    #[inline]
    pub(super) fn live_root(&self, id: NodeId, cutoff: Millis) -> Option<NodeId> {
        let node = self.slab.node(id);
        if node.arrival < cutoff {
            return None;
        }
        match node.kind {
            Kind::Root { .. } => Some(id),
            Kind::Leaf { root, .. } => Some(root),
            Kind::Detached | Kind::Free { .. } => None,
        }
    }

    /// The number of leaves of a root that are alive.
    pub(super) fn live_children(&self, root: NodeId, cutoff: Millis) -> u32 {
        let Kind::Root { children, .. } = self.slab.node(root).kind else {
            return 0;
        };
        let dead = self
            .slab
            .leaves(root)
            .take_while(|(_, leaf)| leaf.arrival < cutoff);
        children - dead.count() as u32
    }
}
