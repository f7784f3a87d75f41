//! Placing a document, and taking a placement back.

use super::slab::Kind;
use super::verify::{Plan, Sight};
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

/// The nodes that a placement rests on. It is valid for the forest that gave it, and harmless when they are gone.
#[derive(Debug, Default)]
pub struct Rollback {
    holds: Vec<Hold>,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    id: NodeId,
    birth: u32,
}

/// The document's own nodes in the tree it is answered with, as they are found or made.
struct Own {
    rollback: Rollback,
    added: Option<Millis>,
    /// Some fingerprint has its node elsewhere, or none.
    scattered: bool,
}

impl<P: Proof> Forest<P> {
    /// Finds or makes the nodes of a document and answers its root. `now` is the document's time; one before the
    /// clock counts as the clock.
    ///
    /// The document had its nodes: they and the root are refreshed. Otherwise it joins the best of the near trees
    /// whose proof agrees (most children, then earliest added, then smaller fingerprint): fingerprints without a node
    /// become leaves, those that have one elsewhere keep it. Otherwise its first fingerprint without a near node
    /// founds a tree, and the others without one become leaves; or else the hash of its text founds one.
    ///
    /// Only nodes in the tree that is answered are refreshed: a tree lives as long as documents are given its root.
    pub fn place(&mut self, sketch: &Query<'_, P>, now: Millis) -> Placement {
        // Twice what this placement can create, so that a backlog shrinks while documents come in.
        self.expire(now, 2 * (sketch.take.min(sketch.fingerprints.len()) + 1));
        let horizon = self.horizon(now);
        let sight = self.look(sketch, horizon);
        if sight.candidates.len() > 1 {
            for &candidate in &sight.candidates {
                self.drop_dead_leaves(candidate, horizon);
            }
        }
        let plan = self.plan(sketch, &sight, horizon);
        let (root, decision, own) = match plan {
            Plan::Refresh(root) => (
                self.name(root),
                Decision::Refreshed,
                self.refresh(sketch, root),
            ),
            Plan::Join(root) => {
                let candidates = sight.candidates.len();
                (
                    self.name(root),
                    Decision::Joined { candidates },
                    self.join(sketch, root),
                )
            }
            Plan::Grow(fingerprint) => {
                let own = self.grow(sketch, fingerprint, &sight);
                (Root(fingerprint), Decision::NewRoot, own)
            }
            Plan::Outside => (Root(sketch.whole), Decision::Outside, Own::new()),
        };
        Placement {
            root,
            node_added: own.added.unwrap_or(self.clock),
            decision: if own.rollback.holds.is_empty() {
                Decision::Outside
            } else {
                decision
            },
            by: sight.by,
            refused: sight.refused,
            rollback: own.rollback,
        }
    }

    /// Takes back what a placement did, after its item definitely failed, and answers how many nodes went. A node goes
    /// when the last placement that rests on it is withdrawn, a root only when it has no leaf besides; so the outcome
    /// does not depend on the order in which the items of a bulk are settled. Arrivals stay as they are. Nodes that
    /// expired meanwhile are left to expiry, and later nodes of the same fingerprint are not touched.
    pub fn withdraw(&mut self, rollback: Rollback) -> usize {
        let horizon = self.horizon(self.clock);
        for &Hold { id, birth } in &rollback.holds {
            if self.slab.holds(id, birth) {
                let node = self.slab.node_mut(id);
                if node.uses != u32::MAX {
                    node.uses = node.uses.saturating_sub(1);
                }
            }
        }
        let mut gone = 0;
        for &Hold { id, birth } in &rollback.holds {
            if self.slab.holds(id, birth) {
                gone += self.bury_unused(id, horizon);
            }
        }
        self.withdrawn_total += gone as u64;
        gone
    }

    /// Removes a live node that nobody uses, and then its root if nobody uses that.
    fn bury_unused(&mut self, id: NodeId, horizon: Millis) -> usize {
        let node = self.slab.node(id);
        if node.uses > 0 || node.arrival < horizon {
            return 0;
        }
        match node.kind {
            Kind::Leaf { root, .. } => {
                self.bury(id);
                1 + self.bury_unused(root, horizon)
            }
            Kind::Root { .. } if self.live_children(id, horizon) == 0 => {
                self.drop_dead_leaves(id, horizon);
                self.bury(id);
                1
            }
            _ => 0,
        }
    }

    fn refresh(&mut self, sketch: &Query<'_, P>, root: NodeId) -> Own {
        let mut own = Own::new();
        for &fingerprint in sketch.fingerprints {
            self.hold_own(fingerprint, root, &mut own);
        }
        if !sketch.fingerprints.contains(&sketch.whole) {
            self.hold_own(sketch.whole, root, &mut own);
        }
        if own.rollback.holds.is_empty() {
            self.hold(root, &mut own);
        }
        self.slab.touch(root, self.clock);
        own
    }

    fn join(&mut self, sketch: &Query<'_, P>, root: NodeId) -> Own {
        let mut own = Own::new();
        for &fingerprint in sketch.fingerprints {
            self.hold_own(fingerprint, root, &mut own);
        }
        for &fingerprint in sketch.fingerprints {
            self.add_if_taken(fingerprint, root, sketch.take, &mut own);
        }
        self.finish(sketch, root, own)
    }

    fn grow(&mut self, sketch: &Query<'_, P>, fingerprint: Fingerprint, sight: &Sight) -> Own {
        let mut own = Own::new();
        self.give_way(fingerprint);
        let proof = self.proofs.keep(sketch.proof.clone());
        let Some(root) = self.slab.add_root(fingerprint, self.clock, proof) else {
            self.proofs.release(proof);
            return own;
        };
        self.index.insert(fingerprint, root);
        self.hold(root, &mut own);
        let leaves = if P::CROWDED {
            for &other in sketch.fingerprints {
                self.hold_own(other, root, &mut own);
            }
            sketch.fingerprints
        } else {
            own.scattered |= sight.lonely.len() < sketch.fingerprints.len();
            &sight.lonely
        };
        for &leaf in leaves.iter().filter(|&&leaf| leaf != fingerprint) {
            self.add_if_taken(leaf, root, sketch.take, &mut own);
        }
        // The root itself tells who founded it, so that most trees need no node for the whole text.
        if sketch.known_by.contains(&fingerprint) && sketch.proof.is_of_text(sketch.whole) {
            own.scattered = false;
        }
        self.finish(sketch, root, own)
    }

    /// Makes a fingerprint that has no node a leaf, while the document takes more nodes.
    fn add_if_taken(&mut self, fingerprint: Fingerprint, root: NodeId, take: usize, own: &mut Own) {
        let horizon = self.horizon(self.clock);
        if self.tree_of(fingerprint, horizon).is_some() {
            return;
        }
        if own.rollback.holds.len() < take {
            self.hold_or_add(fingerprint, root, own);
        } else {
            own.scattered = true;
        }
    }

    /// Sees to it that the document will be known again, and touches the root after its leaves.
    fn finish(&mut self, sketch: &Query<'_, P>, root: NodeId, mut own: Own) -> Own {
        if own.scattered && !sketch.fingerprints.contains(&sketch.whole) {
            self.hold_or_add(sketch.whole, root, &mut own);
        }
        self.slab.touch(root, self.clock);
        own
    }

    /// Holds the node of a fingerprint if it stands in this tree, or makes it a leaf if it has none.
    fn hold_or_add(&mut self, fingerprint: Fingerprint, root: NodeId, own: &mut Own) {
        if self.hold_own(fingerprint, root, own) {
            return;
        }
        self.give_way(fingerprint);
        match self.slab.add_leaf(fingerprint, self.clock, root) {
            Some(id) => {
                self.index.insert(fingerprint, id);
                self.hold(id, own);
            }
            None => own.scattered = true,
        }
    }

    /// Holds the node of a fingerprint if it stands in this tree; answers whether the fingerprint has a node at all.
    fn hold_own(&mut self, fingerprint: Fingerprint, root: NodeId, own: &mut Own) -> bool {
        let horizon = self.horizon(self.clock);
        let Some(id) = self.index.find(fingerprint) else {
            return false;
        };
        match self.live_root(id, horizon) {
            Some(tree) if tree == root => self.hold(id, own),
            Some(_) => own.scattered = true,
            None => return false,
        }
        true
    }

    /// Rests the placement on a node and refreshes it.
    fn hold(&mut self, id: NodeId, own: &mut Own) {
        if own.rollback.holds.iter().any(|hold| hold.id == id) {
            return;
        }
        self.slab.touch(id, self.clock);
        let node = self.slab.node_mut(id);
        node.uses = node.uses.saturating_add(1);
        let (birth, added) = (node.birth, node.added);
        own.added = Some(own.added.map_or(added, |earliest| earliest.min(added)));
        own.rollback.holds.push(Hold { id, birth });
    }

    /// Lets an expired node of this fingerprint, which was not removed yet, leave the index to a new one. It stays in
    /// the slab until its turn, because it may be a root that has leaves still.
    fn give_way(&mut self, fingerprint: Fingerprint) {
        if let Some(id) = self.index.find(fingerprint) {
            self.index.remove(fingerprint, id);
        }
    }
}

impl Own {
    fn new() -> Self {
        Own {
            rollback: Rollback::default(),
            added: None,
            scattered: false,
        }
    }
}
