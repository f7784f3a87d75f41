//! The view of a forest together with the planned nodes of a request.

use std::collections::HashMap;

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::method::{FeatureQuery, Proof, Refusal, TreeTally};

use super::candidates::{
    CandidateTree, Candidates, FingerprintMatches, InlineVec, PriorAssignment, PriorClaim, RootSlot, TreeIndex,
};
use super::placement::{self, ReadRequest, RuleOutcome, RuleStep, RuleView};
use super::{Decision, NearNode, Root};
use crate::time::Millis;

/// The trees of a forest and those of a request, read as one.
pub(super) trait PlannedTrees<P: Proof> {
    /// The root of the tree in which a fingerprint has a node.
    fn tree_of(&self, fingerprint: Fingerprint) -> Option<Root>;

    /// The nodes within the distance, nearest first, then by fingerprint.
    fn near(&self, of: Fingerprint) -> Vec<NearNode>;

    /// The living nodes among these, in the order of [`near`](PlannedTrees::near), possibly repeated.
    fn living(&self, mut near: Vec<(Distance, Fingerprint)>) -> Vec<NearNode> {
        near.sort_unstable();
        near.dedup();
        let living = near.into_iter().filter_map(|(distance, fingerprint)| {
            let root = self.tree_of(fingerprint)?;
            Some(NearNode { fingerprint, distance, root })
        });
        living.collect()
    }

    /// A tree as a candidate that is not compared with the document yet.
    fn candidate(&self, root: Root, query: &FeatureQuery<'_, P>, now: Millis) -> CandidateTree<'_, P>;

    /// The proof at a root.
    fn proof(&self, root: Root) -> Option<&P>;

    fn thresholds(&self) -> P::Thresholds;

    /// Whether the tree of a root is one that another process is founding.
    fn is_provisional(&self, _root: Root) -> bool {
        false
    }

    /// Whether a node can be at a fingerprint.
    fn is_usable(&self, _fingerprint: Fingerprint) -> bool {
        true
    }

    /// How much of a sign a placement is that its tree is page chrome.
    fn sign(&self, query: &FeatureQuery<'_, P>, outcome: &RuleOutcome) -> u8 {
        match outcome.decision {
            Decision::Joined { .. } => {
                let foreign = self.proof(outcome.root).map_or(0, |kept| query.proof.foreign_titles(kept));
                TreeTally::sign(foreign, query.known_by_whole)
            }
            _ => 0,
        }
    }
}

/// The view of one document.
pub(super) struct PlannedView<'p, 'q, P: Proof, T> {
    trees: &'p T,
    pub(super) query: &'q FeatureQuery<'q, P>,
    now: Millis,
    pub(super) seen: Candidates<'p, P>,
    /// The trees of [`Candidates::trees`], each with the position (from 1) of the last list in [`Candidates::near`]
    /// that has it.
    places: HashMap<Root, (TreeIndex, usize)>,
}

impl<'p, 'q, P: Proof, T: PlannedTrees<P>> PlannedView<'p, 'q, P, T> {
    pub(super) fn of(trees: &'p T, query: &'q FeatureQuery<'q, P>, now: Millis) -> PlannedView<'p, 'q, P, T> {
        let mut view = PlannedView { trees, query, now, seen: Candidates::new(), places: HashMap::new() };
        view.seen.whole = view.own_node(query.whole);
        for (&fingerprint, list) in query.fingerprints.iter().zip(1..) {
            let own = view.own_node(fingerprint);
            let near = view.near_trees(fingerprint, list);
            view.seen.fingerprints.push(FingerprintMatches { own, near: Some(near) });
        }
        for &fingerprint in query.known_by {
            let tree = view.tree_founded_by(fingerprint);
            view.seen.known_by.push(tree);
        }
        view
    }

    /// Adds the trees near a fingerprint to [`Candidates::near`], no more of them than the proof allows.
    fn near_trees(&mut self, fingerprint: Fingerprint, list: usize) -> std::ops::Range<usize> {
        let from = self.seen.near.len();
        for near in self.trees.near(fingerprint) {
            if self.seen.near.len() - from == P::CANDIDATES {
                break;
            }
            let tree = self.tree(near.root);
            let listed = self.places.get_mut(&near.root).map(|(_, listed)| std::mem::replace(listed, list));
            if listed != Some(list) {
                self.seen.near.push(tree);
            }
        }
        from..self.seen.near.len()
    }

    /// Adds the prior assignment of the document to the view.
    pub(super) fn give(&mut self, claim: Option<PriorClaim<'_>>) {
        let Some(PriorClaim { root, stored, reserved }) = claim else {
            return;
        };
        self.seen.given = Some(PriorAssignment {
            root,
            tree: self.tree_founded_by(root.0),
            is_free: self.own_node(root.0).is_none() && self.may_be_root(root.0),
            stored,
        });
        if let Some(reserved) = reserved {
            let others = self.query.fingerprints.iter().filter(|&&own| own != root.0);
            let reserved: InlineVec<Fingerprint> = others.filter(|own| reserved.contains(own)).copied().collect();
            self.seen.reserved = reserved.into_vec();
        }
    }

    /// The trees that are not confirmed and on which the decision hangs.
    pub(super) fn waits(&self, outcome: &RuleOutcome) -> Vec<Root> {
        if self.trees.is_provisional(outcome.root) {
            return vec![outcome.root];
        }
        if outcome.decision != Decision::NewRoot {
            return Vec::new();
        }
        let refused = outcome.refused.iter();
        let agree = refused.filter(|&&(root, why)| why == Refusal::Full && self.trees.is_provisional(root));
        agree.map(|&(root, _)| root).collect()
    }

    /// Whether a root may be at a fingerprint that has no node: it can be written, and no root is within k.
    fn may_be_root(&self, fingerprint: Fingerprint) -> bool {
        let mut near = self.trees.near(fingerprint).into_iter();
        self.trees.is_usable(fingerprint) && !near.any(|near| near.root.0 == near.fingerprint)
    }

    fn own_node(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.trees.tree_of(fingerprint)?;
        Some(self.tree(root))
    }

    /// The tree whose root is this fingerprint.
    fn tree_founded_by(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.trees.tree_of(fingerprint)?;
        (root.0 == fingerprint).then(|| self.tree(root))
    }

    /// The place of a tree among those that were met.
    fn tree(&mut self, root: Root) -> TreeIndex {
        let new = self.seen.trees.len();
        let (place, _) = *self.places.entry(root).or_insert((new, 0));
        if place == new {
            self.seen.trees.push(self.trees.candidate(root, self.query, self.now));
        }
        place
    }
}

impl<P: Proof, T: PlannedTrees<P>> RuleView<P> for PlannedView<'_, '_, P, T> {
    fn step(&self) -> RuleStep {
        placement::decide(self.query, &self.seen, self.trees.thresholds())
    }

    fn answer(&mut self, question: ReadRequest) {
        match question {
            ReadRequest::Hash(hash) => {
                let slot = RootSlot { own: self.own_node(hash), may_be_root: self.may_be_root(hash) };
                self.seen.hashes.push(slot);
            }
            // They are in the view from the start.
            ReadRequest::Near(_) | ReadRequest::Children(_) => {}
        }
    }
}
