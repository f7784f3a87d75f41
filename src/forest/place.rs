//! Placing a document, and taking a placement back.

use super::change::Change;
use super::law::{self, Outcome};
use super::node::NodeRef;
use super::{Forest, Root};
use crate::fingerprint::Fingerprint;
use crate::hamming::NodeId;
use crate::method::{Proof, Query, Refusal};
use crate::time::Millis;

/// What came of a document.
#[derive(Debug)]
pub struct Placement {
    /// The tree it belongs to.
    pub root: Root,
    /// When the oldest of the document's own nodes in that tree was added: the same for the same text that comes
    /// again within the window.
    pub node_added: Millis,
    /// How the root was found.
    pub decision: Decision,
    /// The fingerprint by which the tree was found, if the document's are looked up in turn and one of them found it.
    pub by: Option<Fingerprint>,
    /// The near trees it was not let into, and why; in no particular order.
    pub refused: Vec<(Root, Refusal)>,
    /// What the document counts for at its tree when it is accepted: for [`Forest::count`].
    pub sign: u8,
    /// To be given to [`Forest::withdraw`] if the document's item definitely failed, or else dropped.
    pub rollback: Rollback,
}

/// How a document's root was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The document had its nodes already; their arrival is refreshed.
    Refreshed,
    /// It founds a tree.
    NewRoot,
    /// It joined the winner of this many near trees whose proof agrees.
    Joined {
        /// At least 1.
        candidates: usize,
    },
    /// It has a root but no node: every node number is taken, or k is so wide that no place for a root is left.
    Outside,
}

/// The nodes that a placement uses, by name: each counts one reference for it. Harmless when they are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollback {
    nodes: Vec<NodeRef>,
}

impl Rollback {
    /// The nodes, in the order in which they were found or made.
    pub fn nodes(&self) -> &[NodeRef] {
        &self.nodes
    }
}

impl<P: Proof> Forest<P> {
    /// Finds or makes the nodes of a document and answers its root. `now` is the document's time; one before the
    /// clock counts as the clock. What the law decides: see `law.rs`.
    pub fn place(&mut self, query: &Query<'_, P>, now: Millis) -> Placement {
        if now > self.clock {
            self.commit(Change::Tick { now });
        }
        self.place_at(query, now)
    }

    /// The same for a document whose time is its own word, which counts when the cluster has accepted the document
    /// ([`arrive`](Forest::arrive)): until then it comes at the clock, and nothing expires or is left out by its date.
    pub fn place_provisionally(&mut self, query: &Query<'_, P>) -> Placement {
        self.place_at(query, self.clock)
    }

    /// The clock goes to `now`, and the nodes that a placement uses arrive there, with their roots.
    pub fn arrive(&mut self, rollback: &Rollback, now: Millis) {
        if now > self.clock {
            self.commit(Change::Tick { now });
        }
        for &node in &rollback.nodes {
            self.commit(Change::Arrive { node });
        }
    }

    fn place_at(&mut self, query: &Query<'_, P>, at: Millis) -> Placement {
        // Twice what this placement can create, so that a backlog shrinks while documents come in.
        let due = 2 * (query.take.min(query.fingerprints.len()) + 1);
        self.expire(self.clock, due);
        self.evict(due);
        let cutoff = self.cutoff(at);
        let mut changes = std::mem::take(&mut self.planned);
        let mut look = self.look(query, cutoff);
        let outcome = look.decide();
        law::changes(query, &look.seen, &outcome, self.next, &mut changes);
        // Expired leaves that were passed over in a count need not be passed over in the next one.
        for contestant in look.counted() {
            self.detach_expired_leaves(contestant, cutoff);
        }
        let sign = match outcome.decision {
            Decision::Joined { .. } => self.sign(query, outcome.root),
            _ => 0,
        };
        let mut rollback = Rollback::default();
        let mut added: Option<Millis> = None;
        for change in changes.drain(..) {
            let used = match &change {
                Change::AddRoot { node, .. } | Change::AddLeaf { node, .. } => {
                    Some((*node, self.clock))
                }
                Change::Use { node } => {
                    self.find(*node).map(|id| (*node, self.slab.node(id).added))
                }
                _ => None,
            };
            if self.commit(change)
                && let Some((node, since)) = used
            {
                added = Some(added.map_or(since, |earliest| earliest.min(since)));
                rollback.nodes.push(node);
            }
        }
        self.planned = changes;
        Placement {
            root: outcome.root,
            node_added: added.unwrap_or(self.clock.max(at)),
            // There was no room for a node.
            decision: if rollback.nodes.is_empty() {
                Decision::Outside
            } else {
                outcome.decision
            },
            by: outcome.by,
            refused: outcome.refused,
            sign,
            rollback,
        }
    }

    /// How a document would be placed; nothing is changed.
    pub(super) fn foresee(&self, query: &Query<'_, P>, at: Millis) -> Outcome {
        self.look(query, self.cutoff(at)).decide()
    }

    /// The document's fingerprints that have no node within k at this time, in their order.
    pub(super) fn isolated(&self, query: &Query<'_, P>, at: Millis) -> Vec<Fingerprint> {
        let mut look = self.look(query, self.cutoff(at));
        for place in 0..query.fingerprints.len() {
            look.near(place, |_, _, _| ());
        }
        look.seen.isolated(query).collect()
    }

    /// Whether a root is within k of a fingerprint at this time.
    pub(super) fn has_root_near(&self, fingerprint: Fingerprint, at: Millis) -> bool {
        let (cutoff, mut found) = (self.cutoff(at), false);
        self.index.near(fingerprint, |id, _, _| {
            found |= self.live_root(id, cutoff) == Some(id);
        });
        found
    }

    /// When the oldest of the document's own nodes in this tree was added, if it has one.
    pub(super) fn node_added(&self, query: &Query<'_, P>, root: Root) -> Option<Millis> {
        let own = query.fingerprints.iter().chain([&query.whole]);
        let own = own.filter_map(|&fingerprint| self.index.find(fingerprint));
        let in_tree = own.filter(|&id| {
            let tree = self.live_root(id, self.cutoff(self.clock));
            tree.is_some_and(|tree| self.name(tree) == root)
        });
        in_tree.map(|id| self.slab.node(id).added).min()
    }

    /// Takes back what a placement did, after its item definitely failed, and answers how many nodes went. A node goes
    /// when the last placement that uses it is withdrawn, a root only when it has no leaf besides; so the outcome
    /// does not depend on the order in which the items of a bulk are settled. Arrivals stay as they are. Nodes that
    /// expired meanwhile are left to expiry, and later nodes of the same fingerprint are not touched.
    pub fn withdraw(&mut self, rollback: &Rollback) -> usize {
        let cutoff = self.cutoff(self.clock);
        for &node in &rollback.nodes {
            self.commit(Change::Release { node });
        }
        let mut gone = 0;
        for &node in &rollback.nodes {
            if let Some(id) = self.find(node) {
                gone += self.withdraw_unused(id, cutoff);
            }
        }
        gone
    }

    /// Removes a live node that nobody uses, and then its root if nobody uses that.
    fn withdraw_unused(&mut self, id: NodeId, cutoff: Millis) -> usize {
        let node = self.slab.node(id);
        if node.references > 0 || node.arrival < cutoff {
            return 0;
        }
        let named = self.slab.node_ref(id);
        match self.live_root(id, cutoff) {
            Some(root) if root != id => {
                self.commit(Change::Withdraw { node: named });
                1 + self.withdraw_unused(root, cutoff)
            }
            Some(_) if self.live_children(id, cutoff) == 0 => {
                self.commit(Change::Withdraw { node: named });
                1
            }
            _ => 0,
        }
    }

    /// Applies a change and takes it down for who wants to know. Answers whether it changed anything.
    pub(super) fn commit(&mut self, change: Change<P>) -> bool {
        let done = self.apply(&change);
        if done && let Some(recorded) = &mut self.recorded {
            recorded.push(change);
        }
        done
    }
}
