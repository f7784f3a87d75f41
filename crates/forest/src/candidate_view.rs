//! The candidate view of a local forest: what the placement rules may see for one document.

use std::cell::Cell;
use std::collections::BTreeMap;

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::method::{Differences, FeatureQuery, Proof};

use super::candidates::{
    CandidateTree, Candidates, FingerprintMatches, InlineVec, PriorAssignment, PriorClaim, RootSlot, TreeIndex,
};
use super::placement::{self, ReadRequest, RuleStep, RuleView};
use super::roots::{RootNumber, TreeRecord};
use super::ticks::Tick;
use super::{Forest, Root};
use crate::time::Millis;

/// The view of a forest for one document. Nodes that expired before the floor are invisible.
pub(super) struct CandidateView<'f, 'q, P: Proof> {
    forest: &'f Forest<P>,
    query: &'q FeatureQuery<'q, P>,
    floor: Tick,
    pub(super) seen: Candidates<'f, P>,
    /// The trees of [`Candidates::trees`], each with the position (from 1) of the last list in [`Candidates::near`]
    /// that has it.
    roots: InlineVec<(RootNumber, usize)>,
    /// The indices of the trees by root, once a linear search would take too long.
    places: BTreeMap<RootNumber, TreeIndex>,
    /// The number of lists in [`Candidates::near`].
    lists: usize,
    /// Alignments that an earlier view of the same text computed.
    laid: Vec<(RootNumber, Differences)>,
    /// A buffer: the nodes near a fingerprint.
    nodes: Vec<(Distance, Fingerprint, RootNumber)>,
}

impl<P: Proof> Forest<P> {
    /// The view of a document: its own nodes and the trees that it may have founded.
    pub(super) fn view<'f, 'q>(&'f self, query: &'q FeatureQuery<'q, P>, floor: Tick) -> CandidateView<'f, 'q, P> {
        self.view_with(query, floor, Vec::new())
    }

    /// As [`view`](Self::view), with the alignments that an earlier view has computed.
    pub(super) fn view_with<'f, 'q>(
        &'f self,
        query: &'q FeatureQuery<'q, P>,
        floor: Tick,
        laid: Vec<(RootNumber, Differences)>,
    ) -> CandidateView<'f, 'q, P> {
        let mut view = CandidateView {
            forest: self,
            laid,
            query,
            floor,
            seen: Candidates::new(),
            roots: InlineVec::new(),
            places: BTreeMap::new(),
            lists: 0,
            nodes: Vec::new(),
        };
        view.own_nodes();
        view
    }

    /// The root of a fingerprint's own node, if it has one that is alive.
    pub(super) fn tree_of(&self, fingerprint: Fingerprint, floor: Tick) -> Option<RootNumber> {
        let entry = self.index.get(fingerprint)?;
        self.tree_of_entry(entry, floor)
    }

    /// The root of a tree that has a node.
    pub(super) fn name(&self, root: RootNumber) -> Root {
        let record = self.roots.get(root);
        Root(record.map_or(Fingerprint(0), |record| record.fingerprint))
    }

    pub(super) fn proof_at(&self, root: RootNumber) -> Option<&P> {
        self.roots.get(root).map(|record| &record.proof)
    }
}

impl<P: Proof> CandidateView<'_, '_, P> {
    /// The alignments of the document with the founders of these trees.
    pub(super) fn into_laid(self) -> Vec<(RootNumber, Differences)> {
        let trees = self.roots.iter().zip(&self.seen.trees);
        trees.filter_map(|(&(root, _), tree)| Some((root, tree.laid.get()?))).collect()
    }

    fn own_nodes(&mut self) {
        self.seen.whole = self.own_node(self.query.whole);
        // At distance 0 the only near node of a fingerprint is its own.
        let exact = self.forest.index.distance() == Distance(0);
        for &fingerprint in self.query.fingerprints {
            let own = self.own_node(fingerprint);
            let near = exact.then(|| {
                let from = self.seen.near.len();
                self.seen.near.extend(own);
                from..self.seen.near.len()
            });
            self.seen.fingerprints.push(FingerprintMatches { own, near });
        }
        for &fingerprint in self.query.known_by {
            let tree = self.tree_founded_by(fingerprint);
            self.seen.known_by.push(tree);
        }
    }

    /// Adds the prior assignment of the document to the view.
    pub(super) fn give(&mut self, claim: Option<PriorClaim<'_>>) {
        let Some(claim) = claim else { return };
        let PriorClaim { root, stored, .. } = claim;
        self.seen.given = Some(PriorAssignment {
            root,
            tree: self.tree_founded_by(root.0),
            is_free: self.may_take(root, stored.is_some_and(|stored| stored.goes_before_leaves))
                && !self.has_root_within_k(root.0),
            stored,
        });
        if let Some(reserved) = claim.reserved {
            let others = self.query.fingerprints.iter().filter(|&&own| own != root.0);
            let reserved = others.filter(|own| reserved.contains(own));
            self.seen.reserved = reserved.copied().collect();
        }
    }

    /// Whether a root may be placed at this fingerprint: it has no node, or a leaf of a tree with several leaves. While
    /// a forest is restored from an index in another order than the original one, a document may bring a leaf to a
    /// place that a later document's stored root needs: a stored root goes before leaves.
    fn may_take(&mut self, root: Root, goes_before_leaves: bool) -> bool {
        (goes_before_leaves && self.query.fingerprints.len() > 1) || self.own_node(root.0).is_none()
    }

    /// Adds the trees near one fingerprint of the query, nearest nodes first, at most [`Proof::CANDIDATES`] of them.
    /// Calls `each` for every node that was read.
    pub(super) fn near(&mut self, at: usize, mut each: impl FnMut(Fingerprint, Distance, TreeIndex)) {
        let Some(&fingerprint) = self.query.fingerprints.get(at) else {
            return;
        };
        let from = self.seen.near.len();
        let forest = self.forest;
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        forest.index.near(fingerprint, |near, distance, entry| {
            if let Some(root) = forest.tree_of_entry(entry, self.floor) {
                nodes.push((distance, near, root));
            }
        });
        // The index has an order of its own, which hangs on the secret of its tables.
        nodes.sort_unstable();
        self.lists += 1;
        for &(distance, near, root) in &nodes {
            let tree = self.tree(root);
            if let Some((_, list)) = self.roots.get_mut(tree)
                && std::mem::replace(list, self.lists) != self.lists
            {
                if self.seen.near.len() - from == P::CANDIDATES {
                    break;
                }
                self.seen.near.push(tree);
            }
            each(near, distance, tree);
        }
        self.nodes = nodes;
        let to = self.seen.near.len();
        if let Some(spot) = self.seen.fingerprints.get_mut(at) {
            spot.near = Some(from..to);
        }
    }

    fn count_children(&mut self, tree: TreeIndex) {
        if let (Some(&(root, _)), Some(seen)) = (self.roots.get(tree), self.seen.trees.get_mut(tree)) {
            seen.children = Some(self.forest.roots.living_leaves(root, self.floor));
        }
    }

    fn own_node(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.forest.tree_of(fingerprint, self.floor)?;
        Some(self.tree(root))
    }

    /// The tree whose root is this fingerprint.
    fn tree_founded_by(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let mut own = self.query.fingerprints.iter();
        if let Some(at) = own.position(|&own| own == fingerprint) {
            let own = self.seen.fingerprints.get(at)?.own?;
            let root = self.seen.trees.get(own)?.root;
            return (root.0 == fingerprint).then_some(own);
        }
        let number = self.forest.root_number(Root(fingerprint), self.floor)?;
        Some(self.tree(number))
    }

    fn has_root_within_k(&self, fingerprint: Fingerprint) -> bool {
        self.forest.has_root_within_k(fingerprint, self.floor)
    }

    /// The alignment of the document with the founder of a tree, if an earlier view has computed it.
    fn laid(&self, root: RootNumber) -> Option<Differences> {
        let mut laid = self.laid.iter();
        laid.find(|&&(of, _)| of == root).map(|&(_, laid)| laid)
    }

    /// The place of a tree among those that were met.
    fn tree(&mut self, root: RootNumber) -> TreeIndex {
        let known = match self.roots.spilled() {
            true => self.places.get(&root).copied(),
            false => self.roots.iter().position(|&(known, _)| known == root),
        };
        if let Some(known) = known {
            return known;
        }
        self.roots.push((root, 0));
        if self.roots.spilled() {
            let listed = self.places.len();
            let new = self.roots.iter().zip(0..).skip(listed);
            self.places.extend(new.map(|(&(root, _), place)| (root, place)));
        }
        let record = self.forest.roots.get(root);
        self.seen.trees.push(CandidateTree {
            root: self.forest.name(root),
            added: record.map_or(Millis(0), TreeRecord::added),
            children: None,
            proof: record.map(|record| &record.proof),
            founder_tokens: match self.query.tokens {
                [] => None,
                _ => self.forest.founder_tokens.get(self.forest.name(root).0),
            },
            verdict: Cell::default(),
            laid: Cell::new(self.laid(root)),
            closed: self.forest.closed(root, self.query.earlier),
        });
        self.roots.len() - 1
    }
}

impl<P: Proof> RuleView<P> for CandidateView<'_, '_, P> {
    fn step(&self) -> RuleStep {
        placement::decide(self.query, &self.seen, self.forest.thresholds)
    }

    fn answer(&mut self, question: ReadRequest) {
        match question {
            ReadRequest::Near(these) => {
                for at in these {
                    self.near(at, |_, _, _| ());
                }
            }
            ReadRequest::Children(trees) => {
                for tree in trees {
                    self.count_children(tree);
                }
            }
            ReadRequest::Hash(hash) => {
                let spot = RootSlot { own: self.own_node(hash), may_be_root: !self.has_root_within_k(hash) };
                self.seen.hashes.push(spot);
            }
        }
    }
}
