//! Every change of a forest as a value. A forest changes by applying these and in no other way, so the same changes
//! applied to a forest of the same history give the same forest: to a journal that is replayed, or to another store.

use super::node::NodeRef;
use super::slab::Kind;
use super::{Forest, Root};
use crate::fingerprint::Fingerprint;
use crate::hamming::NodeId;
use crate::method::{Count, Proof};
use crate::time::Millis;

/// One change of a forest. Arrivals that it sets are the clock's time.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<P> {
    /// Time went on: the clock is `now`.
    Tick {
        /// Later than the clock was.
        now: Millis,
    },
    /// A new root, used by one placement.
    AddRoot {
        /// The root.
        node: NodeRef,
        /// What it keeps of its founder.
        proof: P,
    },
    /// A new leaf, used by one placement.
    AddLeaf {
        /// The leaf.
        node: NodeRef,
        /// The root of its tree.
        root: Root,
    },
    /// One more placement uses a node; it has arrived again.
    Use {
        /// The node.
        node: NodeRef,
    },
    /// A node arrives, and its root with it: the document that uses it was accepted.
    Arrive {
        /// The node.
        node: NodeRef,
    },
    /// A root has arrived again, because one of its leaves has.
    Refresh {
        /// The root.
        root: Root,
    },
    /// A document that was placed in a tree was accepted.
    Count {
        /// The root of the tree.
        root: Root,
        /// What it counts for.
        count: Count,
    },
    /// One placement fewer uses a node.
    Release {
        /// The node.
        node: NodeRef,
    },
    /// A node that no placement uses goes.
    Withdraw {
        /// A leaf, or a root without living leaves.
        node: NodeRef,
    },
    /// The node with the oldest arrival goes, because that is before the window.
    Expire {
        /// The node.
        node: NodeRef,
    },
    /// The node with the oldest arrival goes, because there is no room for all.
    Evict {
        /// The node.
        node: NodeRef,
    },
}

impl<P: Proof> Forest<P> {
    /// Applies a change that another forest, or this one in an earlier life, has made. Answers whether it changed
    /// anything: one that fits nothing here (its node has gone, or there is no room) is passed over.
    pub fn apply(&mut self, change: &Change<P>) -> bool {
        match change {
            Change::Tick { now } => {
                let later = *now > self.clock;
                self.clock = self.clock.max(*now);
                later
            }
            Change::AddRoot { node, proof } => self.add_root(*node, proof),
            Change::AddLeaf { node, root } => self.add_leaf(*node, *root),
            Change::Use { node } => match self.find(*node) {
                None => false,
                Some(id) => {
                    self.slab.touch(id, self.clock);
                    self.slab.add_reference(id);
                    true
                }
            },
            Change::Arrive { node } => match self.find(*node) {
                None => false,
                Some(id) => {
                    self.slab.touch(id, self.clock);
                    // After its leaf: no root stands before one of its leaves.
                    if let Kind::Leaf { root, .. } = self.slab.node(id).kind {
                        self.slab.touch(root, self.clock);
                    }
                    true
                }
            },
            Change::Refresh { root } => match self.index.find(root.0) {
                None => false,
                Some(id) => {
                    self.slab.touch(id, self.clock);
                    true
                }
            },
            Change::Count { root, count } => self.apply_count(*root, *count),
            Change::Release { node } => {
                let found = self.find(*node);
                found.is_some_and(|id| self.slab.drop_reference(id))
            }
            Change::Withdraw { node } => match self.find(*node) {
                None => false,
                Some(id) => {
                    self.detach_expired_leaves(id, self.cutoff(self.clock));
                    self.remove(id);
                    self.withdrawn_total += 1;
                    true
                }
            },
            Change::Expire { node } => {
                let gone = self.remove_oldest(*node);
                self.expired_total += u64::from(gone);
                gone
            }
            Change::Evict { node } => {
                let gone = self.remove_oldest(*node);
                self.evicted_total += u64::from(gone);
                gone
            }
        }
    }

    /// From now on every change is taken down, for [`take_changes`](Forest::take_changes).
    pub fn record(&mut self) {
        self.recorded.get_or_insert_default();
    }

    /// The changes since they were last taken, in their order; none where nobody asked to [`record`](Forest::record)
    /// them.
    pub fn take_changes(&mut self) -> Vec<Change<P>> {
        self.recorded
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Whether this very node is still here.
    pub fn holds(&self, node: NodeRef) -> bool {
        self.find(node).is_some()
    }

    /// The node, if it is still the one of its fingerprint.
    pub(super) fn find(&self, node: NodeRef) -> Option<NodeId> {
        let id = self.index.find(node.fingerprint)?;
        (self.slab.node(id).generation == node.generation).then_some(id)
    }

    fn add_root(&mut self, node: NodeRef, proof: &P) -> bool {
        self.give_way(node.fingerprint);
        let proof = self.proofs.keep(proof.clone());
        let added = self.slab.add_root(node, self.clock, proof);
        match added {
            Some(id) => {
                self.index.insert(node.fingerprint, id);
                self.next = node.generation.next();
            }
            None => self.proofs.release(proof),
        }
        added.is_some()
    }

    fn add_leaf(&mut self, node: NodeRef, root: Root) -> bool {
        let Some(root) = self.index.find(root.0) else {
            return false;
        };
        self.give_way(node.fingerprint);
        let added = self.slab.add_leaf(node, self.clock, root);
        if let Some(id) = added {
            self.index.insert(node.fingerprint, id);
            self.next = node.generation.next();
        }
        added.is_some()
    }

    /// Lets an expired node of this fingerprint, which was not removed yet, leave the index to a new one. It stays in
    /// the slab until its turn, because it may be a root that has leaves still.
    fn give_way(&mut self, fingerprint: Fingerprint) {
        if let Some(id) = self.index.find(fingerprint) {
            self.index.remove(fingerprint, id);
        }
    }

    /// Removes this node if it is the oldest.
    fn remove_oldest(&mut self, node: NodeRef) -> bool {
        let oldest = self.slab.oldest();
        let found = oldest.filter(|&id| self.slab.node_ref(id) == node);
        if let Some(id) = found {
            self.remove(id);
        }
        found.is_some()
    }

    /// Removes a node from everything. A root must have no leaves.
    fn remove(&mut self, id: NodeId) {
        // A node that gave way to a new one of the same fingerprint has left the index before.
        self.index.remove(self.slab.node(id).fingerprint, id);
        if let Kind::Root { proof, tally, .. } = self.slab.remove(id) {
            self.proofs.release(proof);
            self.unwatch(id, tally);
        }
    }

    /// Takes the expired leaves of a root out of its tree; they wait alone for their removal.
    pub(super) fn detach_expired_leaves(&mut self, root: NodeId, cutoff: Millis) {
        loop {
            let oldest = self.slab.leaves(root).next();
            let Some((leaf, _)) = oldest.filter(|(_, leaf)| leaf.arrival < cutoff) else {
                return;
            };
            self.slab.detach(leaf);
        }
    }
}
