//! What a document sees of the forest before anything changes: near trees, the proofs' verdicts, the winner.

use super::slab::Kind;
use super::{Forest, Root};
use crate::fingerprint::Fingerprint;
use crate::hamming::NodeId;
use crate::method::{Proof, Query, Refusal};
use crate::time::Millis;
use std::cmp::Reverse;

/// What a document sees. Node numbers are valid until the forest changes.
pub(super) struct Sight {
    /// The tree that the document was placed in before.
    pub(super) known: Option<NodeId>,
    /// Near trees whose proof agrees.
    pub(super) candidates: Vec<NodeId>,
    /// Near trees whose proof does not.
    pub(super) refused: Vec<(Root, Refusal)>,
    /// The fingerprint that decided, where they are looked up in turn.
    pub(super) by: Option<Fingerprint>,
    /// The document's fingerprints that have no node within k, as far as they were looked up.
    pub(super) lonely: Vec<Fingerprint>,
}

/// What is to be done with a document.
pub(super) enum Plan {
    Refresh(NodeId),
    Join(NodeId),
    /// Grow a tree from this fingerprint.
    Grow(Fingerprint),
    /// No fingerprint can become a root.
    Outside,
}

/// How many hashes of the text are tried for a root of its own. One is enough but for a wide k, where the balls around
/// the roots can fill the whole space.
pub(super) const ROOT_TRIES: usize = 64;

impl<P: Proof> Forest<P> {
    /// Looks without touching anything.
    pub(super) fn look(&self, sketch: &Query<'_, P>, horizon: Millis) -> Sight {
        let mut sight = Sight {
            known: self.known(sketch, horizon),
            candidates: Vec::new(),
            refused: Vec::new(),
            by: None,
            lonely: Vec::new(),
        };
        if sight.known.is_some() {
            if P::IN_TURN {
                let mut own = sketch.fingerprints.iter().copied();
                sight.by = own.find(|&own| self.tree_of(own, horizon) == sight.known);
            }
            return sight;
        }
        let mut roots = Vec::new();
        for &fingerprint in sketch.fingerprints {
            let before = roots.len();
            self.index.near(fingerprint, |id, _, _| {
                if let Some(root) = self.live_root(id, horizon)
                    && !roots.get(before..).is_some_and(|seen| seen.contains(&root))
                {
                    roots.push(root);
                }
            });
            if roots.len() == before {
                sight.lonely.push(fingerprint);
            } else if P::IN_TURN {
                let found = roots.get(before..).unwrap_or_default();
                if found
                    .iter()
                    .any(|&root| self.verdict(sketch, root, 1).is_ok())
                {
                    sight.by = Some(fingerprint);
                    break;
                }
            }
        }
        roots.sort_unstable();
        for tree in roots.chunk_by(|a, b| a == b) {
            let Some(&root) = tree.first() else { continue };
            match self.verdict(sketch, root, tree.len()) {
                Ok(()) => sight.candidates.push(root),
                Err(refusal) => sight.refused.push((self.name(root), refusal)),
            }
        }
        sight
    }

    /// Decides by what was seen.
    pub(super) fn plan(&self, sketch: &Query<'_, P>, sight: &Sight, horizon: Millis) -> Plan {
        if let Some(root) = sight.known {
            return Plan::Refresh(root);
        }
        if let Some(winner) = self.winner(&sight.candidates, horizon) {
            return Plan::Join(winner);
        }
        match sight.lonely.first() {
            Some(&fingerprint) => Plan::Grow(fingerprint),
            None => self.plan_by_whole(sketch, horizon),
        }
    }

    /// The tree the document was placed in before: that of the hash of its whole text, the one that its text founded,
    /// or the one in which all of its fingerprints have their nodes. [`place`](Forest::place) sees to it that one of
    /// the three is so, and because a node never changes its tree, a document that comes again always lands on the same
    /// root, whatever was placed in between.
    fn known(&self, sketch: &Query<'_, P>, horizon: Millis) -> Option<NodeId> {
        // The text itself is known: what its proof leaves out by now does not matter.
        if let Some(root) = self.tree_of(sketch.whole, horizon) {
            return Some(root);
        }
        if let Some(root) = self.founded(sketch, horizon) {
            return Some(root);
        }
        let agreeing = |root: &NodeId| {
            self.verdict(sketch, *root, sketch.fingerprints.len())
                .is_ok()
        };
        let mut trees = sketch
            .fingerprints
            .iter()
            .map(|&f| self.tree_of(f, horizon));
        let first = trees.next()??;
        trees
            .all(|root| root == Some(first))
            .then_some(first)
            .filter(agreeing)
    }

    /// The tree that the document's text founded, as far as its root is one of the fingerprints it is known by.
    fn founded(&self, sketch: &Query<'_, P>, horizon: Millis) -> Option<NodeId> {
        let mut own = sketch.known_by.iter();
        own.find_map(|&fingerprint| {
            let id = self.index.find(fingerprint)?;
            let Kind::Root { proof: number, .. } = self.slab.node(id).kind else {
                return None;
            };
            let kept = self.proofs.get(number)?;
            (kept.is_of_text(sketch.whole) && self.live_root(id, horizon).is_some()).then_some(id)
        })
    }

    /// The root of a fingerprint's own node, if it has one that is alive.
    pub(super) fn tree_of(&self, fingerprint: Fingerprint, horizon: Millis) -> Option<NodeId> {
        self.index
            .find(fingerprint)
            .and_then(|id| self.live_root(id, horizon))
    }

    /// The root with the most children, then the earliest added, then the smaller fingerprint.
    fn winner(&self, candidates: &[NodeId], horizon: Millis) -> Option<NodeId> {
        if let &[only] = candidates {
            return Some(only);
        }
        candidates.iter().copied().max_by_key(|&id| {
            let root = self.slab.node(id);
            (
                self.live_children(id, horizon),
                Reverse(root.added),
                Reverse(root.fingerprint),
            )
        })
    }

    /// The hash of the whole text as a root, where no other root is within k; hashed again as long as one is.
    fn plan_by_whole(&self, sketch: &Query<'_, P>, horizon: Millis) -> Plan {
        let mut hash = sketch.whole;
        for _ in 0..ROOT_TRIES {
            match self.tree_of(hash, horizon) {
                // Placed before, under this hash.
                Some(root)
                    if self
                        .verdict(sketch, root, sketch.fingerprints.len())
                        .is_ok() =>
                {
                    return Plan::Refresh(root);
                }
                Some(_) => {}
                None if self.has_root_within_k(hash, horizon) => {}
                None => return Plan::Grow(hash),
            }
            hash = rehashed(hash);
        }
        Plan::Outside
    }

    fn has_root_within_k(&self, fingerprint: Fingerprint, horizon: Millis) -> bool {
        let mut found = false;
        self.index.near(fingerprint, |id, _, _| {
            found |= self.live_root(id, horizon) == Some(id);
        });
        found
    }

    pub(super) fn verdict(
        &self,
        sketch: &Query<'_, P>,
        root: NodeId,
        shared: usize,
    ) -> Result<(), Refusal> {
        // Every root has one; with none there is nothing that could agree.
        let unproved = Refusal::Proof {
            similarity: 0.0,
            needed: 1.0,
        };
        let kept = self.proof_at(root).ok_or(unproved)?;
        sketch.proof.agrees(kept, shared, self.thresholds)
    }

    pub(super) fn proof_at(&self, root: NodeId) -> Option<&P> {
        match self.slab.node(root).kind {
            Kind::Root { proof, .. } => self.proofs.get(proof),
            _ => None,
        }
    }

    pub(super) fn name(&self, root: NodeId) -> Root {
        Root(self.slab.node(root).fingerprint)
    }
}

/// Another hash from a hash (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", figure 15).
pub(super) fn rehashed(hash: Fingerprint) -> Fingerprint {
    let mut z = hash.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Fingerprint(z ^ (z >> 31))
}
