//! What a document sees of this forest, as the law asks for it.

use std::collections::BTreeMap;

use super::law::{self, Outcome, Question, Verdict};
use super::seen::{HashSpot, OwnNode, Seen, SeenTree, Spot, TreeIndex};
use super::slab::Kind;
use super::{Forest, Root};
use crate::fingerprint::{Distance, Fingerprint};
use crate::hamming::NodeId;
use crate::method::{Proof, Query};
use crate::time::Millis;

/// One look at a forest: nothing changes while it lives. Nodes that expired before the cutoff are not there.
pub(super) struct Look<'f, 'q, P: Proof> {
    forest: &'f Forest<P>,
    query: &'q Query<'q, P>,
    cutoff: Millis,
    pub(super) seen: Seen<'f, P>,
    /// The roots of [`Seen::trees`], and in which of the lists in [`Seen::near`] each stands last, counted from 1.
    roots: Vec<(NodeId, usize)>,
    /// The places of the roots.
    places: BTreeMap<NodeId, TreeIndex>,
    /// How many lists there are.
    lists: usize,
    /// A buffer: the nodes near a fingerprint.
    nodes: Vec<(Distance, Fingerprint, NodeId)>,
}

impl<P: Proof> Forest<P> {
    /// Looks at what the document has itself: its own nodes, and the trees it may have founded.
    pub(super) fn look<'f, 'q>(
        &'f self,
        query: &'q Query<'q, P>,
        cutoff: Millis,
    ) -> Look<'f, 'q, P> {
        let mut look = Look {
            forest: self,
            query,
            cutoff,
            seen: Seen::new(),
            roots: Vec::new(),
            places: BTreeMap::new(),
            lists: 0,
            nodes: Vec::new(),
        };
        look.own_nodes();
        look
    }

    /// The root of a fingerprint's own node, if it has one that is alive.
    pub(super) fn tree_of(&self, fingerprint: Fingerprint, cutoff: Millis) -> Option<NodeId> {
        self.index
            .find(fingerprint)
            .and_then(|id| self.live_root(id, cutoff))
    }

    pub(super) fn name(&self, root: NodeId) -> Root {
        Root(self.slab.node(root).fingerprint)
    }

    pub(super) fn proof_at(&self, root: NodeId) -> Option<&P> {
        match self.slab.node(root).kind {
            Kind::Root { proof, .. } => self.proofs.get(proof),
            _ => None,
        }
    }
}

impl<P: Proof> Look<'_, '_, P> {
    fn own_nodes(&mut self) {
        self.seen.whole = self.own_node(self.query.whole);
        // Where nothing further away is near, what is near a fingerprint is its own node.
        let exact = self.forest.index.distance() == Distance(0);
        for &fingerprint in self.query.fingerprints {
            let own = self.own_node(fingerprint);
            let near = exact.then(|| {
                let from = self.seen.near.len();
                self.seen.near.extend(own.map(|own| own.tree));
                from..self.seen.near.len()
            });
            self.seen.fingerprints.push(Spot { own, near });
        }
        for &fingerprint in self.query.known_by {
            let tree = self.tree_founded_by(fingerprint);
            self.seen.known_by.push(tree);
        }
    }

    /// Looks at what the law asked for.
    fn answer(&mut self, question: Question) {
        match question {
            Question::Near(these) => {
                for at in these {
                    self.near(at, |_, _, _| ());
                }
            }
            Question::Children(trees) => {
                for tree in trees {
                    self.count_children(tree);
                }
            }
            Question::Hash(hash) => {
                let spot = HashSpot {
                    own: self.own_node(hash).map(|own| own.tree),
                    has_root_within_k: self.has_root_within_k(hash),
                };
                self.seen.hashes.push(spot);
            }
        }
    }

    /// What the law decides, which is shown what it asks for.
    pub(super) fn decide(&mut self) -> Outcome {
        loop {
            match law::decide(self.query, &self.seen, self.forest.thresholds) {
                Verdict::Ask(question) => self.answer(question),
                Verdict::Decided(outcome) => return outcome,
            }
        }
    }

    /// Looks at the trees near one fingerprint of the query, nearest nodes first and no more trees than the proof allows
    /// ([`Proof::CANDIDATES`]), and shows `each` node up to there.
    pub(super) fn near(
        &mut self,
        at: usize,
        mut each: impl FnMut(Fingerprint, Distance, TreeIndex),
    ) {
        let Some(&fingerprint) = self.query.fingerprints.get(at) else {
            return;
        };
        let from = self.seen.near.len();
        let forest = self.forest;
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        forest.index.near(fingerprint, |id, near, distance| {
            if let Some(root) = forest.live_root(id, self.cutoff) {
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

    /// The roots of the trees whose children were counted.
    pub(super) fn counted(&self) -> Vec<NodeId> {
        let trees = self.seen.trees.iter().zip(&self.roots);
        let counted = trees.filter(|(tree, _)| tree.children.is_some());
        counted.map(|(_, &(root, _))| root).collect()
    }

    fn count_children(&mut self, tree: TreeIndex) {
        if let (Some(&(root, _)), Some(seen)) =
            (self.roots.get(tree), self.seen.trees.get_mut(tree))
        {
            seen.children = Some(self.forest.live_children(root, self.cutoff));
        }
    }

    fn own_node(&mut self, fingerprint: Fingerprint) -> Option<OwnNode> {
        let id = self.forest.index.find(fingerprint)?;
        let root = self.forest.live_root(id, self.cutoff)?;
        Some(OwnNode {
            tree: self.tree(root),
            generation: self.forest.slab.node(id).generation,
        })
    }

    /// The tree of which a fingerprint is the root.
    fn tree_founded_by(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let mut own = self.query.fingerprints.iter();
        if let Some(at) = own.position(|&own| own == fingerprint) {
            let own = self.seen.fingerprints.get(at)?.own?;
            let root = self.seen.trees.get(own.tree)?.root;
            return (root.0 == fingerprint).then_some(own.tree);
        }
        let id = self.forest.index.find(fingerprint)?;
        (self.forest.live_root(id, self.cutoff) == Some(id)).then(|| self.tree(id))
    }

    fn has_root_within_k(&self, fingerprint: Fingerprint) -> bool {
        let (forest, mut found) = (self.forest, false);
        forest.index.near(fingerprint, |id, _, _| {
            found |= forest.live_root(id, self.cutoff) == Some(id);
        });
        found
    }

    /// The place of a tree among those that were met.
    fn tree(&mut self, root: NodeId) -> TreeIndex {
        if let Some(&known) = self.places.get(&root) {
            return known;
        }
        self.places.insert(root, self.roots.len());
        let node = self.forest.slab.node(root);
        self.roots.push((root, 0));
        self.seen.trees.push(SeenTree {
            root: self.forest.name(root),
            generation: node.generation,
            added: node.added,
            children: None,
            proof: self.forest.proof_at(root),
            closed: self.forest.closed(root, self.query.earlier),
        });
        self.roots.len() - 1
    }
}
