//! The placement rules in the plainest way: a list of nodes that is read from end to end for everything, where what
//! expires is gone at once.

use spinney::fingerprint::Fingerprint;
use spinney::forest::{Decision, NodeView, Root};
use spinney::method::{FeatureQuery, Proof};
use spinney::time::Millis;
use std::cmp::Reverse;

pub struct Node<P> {
    pub fingerprint: Fingerprint,
    pub root: Fingerprint,
    pub added: i64,
    pub arrival: i64,
    /// The placements that rest on this node.
    users: Vec<usize>,
    proof: Option<P>,
}

pub struct Model<P> {
    k: u32,
    window: Option<i64>,
    pub clock: i64,
    pub nodes: Vec<Node<P>>,
    pub created: u64,
}

/// A node as both sides show it: fingerprint, root, when it was added if it is a root, arrival.
pub type Row = (Fingerprint, Fingerprint, Option<i64>, i64);

pub fn row<P>(node: &NodeView<'_, P>) -> Row {
    (node.fingerprint, node.root.0, node.added.map(|added| added.0), node.arrival.0)
}

impl<P: Proof> Model<P> {
    pub fn new(k: u32, window: Option<Millis>) -> Self {
        Model { k, window: window.map(|window| window.0), clock: i64::MIN, nodes: Vec::new(), created: 0 }
    }

    pub fn rows(&self) -> Vec<Row> {
        let row = |node: &Node<P>| {
            let added = (node.fingerprint == node.root).then_some(node.added);
            (node.fingerprint, node.root, added, node.arrival)
        };
        let mut rows: Vec<Row> = self.nodes.iter().map(row).collect();
        rows.sort_unstable();
        rows
    }

    pub fn advance(&mut self, now: i64) {
        self.clock = self.clock.max(now);
        if let Some(window) = self.window {
            self.nodes.retain(|node| self.clock - node.arrival <= window);
        }
    }

    fn get(&self, fingerprint: Fingerprint) -> Option<&Node<P>> {
        self.nodes.iter().find(|node| node.fingerprint == fingerprint)
    }

    pub fn root_of(&self, fingerprint: Fingerprint) -> Option<Fingerprint> {
        self.get(fingerprint).map(|node| node.root)
    }

    fn roots_near(&self, fingerprint: Fingerprint) -> Vec<Fingerprint> {
        let near = |node: &&Node<P>| node.fingerprint.distance(fingerprint).0 <= self.k;
        let mut roots: Vec<_> = self.nodes.iter().filter(near).map(|node| node.root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    pub fn children(&self, root: Fingerprint) -> usize {
        let tree = self.nodes.iter().filter(|node| node.root == root);
        tree.count().saturating_sub(1)
    }

    fn winner(&self, candidates: &[Fingerprint]) -> Option<Fingerprint> {
        candidates.iter().copied().min_by_key(|&root| {
            let added = self.get(root).map(|node| node.added);
            (Reverse(self.children(root)), added, root)
        })
    }

    /// When the root was added, if this text founded the tree.
    fn founded(&self, query: &FeatureQuery<'_, P>, root: Fingerprint) -> Option<i64> {
        let node = self.get(root);
        let own = node.filter(|node| {
            let proof = node.proof.as_ref();
            root == query.whole || proof.is_some_and(|proof| proof.is_of_text(query.whole))
        });
        own.map(|node| node.added)
    }

    /// Refreshes a node, or makes it, for a placement.
    fn hold(&mut self, fingerprint: Fingerprint, root: Fingerprint, proof: Option<&P>, who: usize) {
        let clock = self.clock;
        let found = self.nodes.iter_mut().find(|node| node.fingerprint == fingerprint);
        if let Some(node) = found {
            assert_eq!(node.root, root);
            node.arrival = clock;
            node.users.push(who);
            return;
        }
        self.created += 1;
        self.nodes.push(Node {
            fingerprint,
            root,
            added: clock,
            arrival: clock,
            users: vec![who],
            proof: proof.cloned(),
        });
    }

    fn refresh_root(&mut self, root: Fingerprint) {
        let clock = self.clock;
        for node in self.nodes.iter_mut().filter(|node| node.fingerprint == root) {
            node.arrival = clock;
        }
    }

    /// The strict rules, line by line.
    pub fn place_strict(&mut self, f: Fingerprint, proof: &P, now: i64, who: usize) -> (Root, Decision, Option<i64>) {
        self.advance(now);
        let (root, decision) = if let Some(root) = self.root_of(f) {
            (root, Decision::Refreshed)
        } else {
            let roots = self.roots_near(f);
            let candidates = roots.len();
            match self.winner(&roots) {
                None => (f, Decision::NewRoot),
                Some(winner) => (winner, Decision::Joined { candidates }),
            }
        };
        let proof = (root == f).then_some(proof);
        self.hold(f, root, proof, who);
        self.refresh_root(root);
        let added = self.get(root).map(|node| node.added);
        let arrived = match decision {
            Decision::Refreshed => added.filter(|_| root == f),
            _ => Some(self.clock),
        };
        (Root(root), decision, arrived)
    }

    /// The verified rules, line by line.
    pub fn place_verified(
        &mut self,
        query: &FeatureQuery<'_, P>,
        now: i64,
        who: usize,
    ) -> (Root, Decision, Option<i64>) {
        self.advance(now);
        let own: Vec<_> = query.fingerprints.iter().map(|&f| self.root_of(f)).collect();
        let agrees = |model: &Self, root: Fingerprint| {
            let proof = model.get(root).and_then(|node| node.proof.as_ref());
            query.proof.agrees(proof.unwrap(), 1, P::Thresholds::default()).is_ok()
        };

        // The document was placed before.
        let by_whole = self.root_of(query.whole);
        let by_all = own[0].filter(|&root| own.iter().all(|&other| other == Some(root)) && agrees(self, root));
        let by_root = query.known_by.iter().copied().find(|&f| {
            let root = self.get(f).filter(|node| node.root == f);
            let proof = root.and_then(|node| node.proof.as_ref());
            proof.is_some_and(|proof| proof.is_of_text(query.whole))
        });
        if let Some(root) = by_whole.or(by_root).or(by_all) {
            let arrived = self.founded(query, root);
            self.refresh(query, root, who);
            return (Root(root), Decision::Refreshed, arrived);
        }

        let finds = |&f: &Fingerprint| self.roots_near(f).into_iter().any(|r| agrees(self, r));
        let decides = query.fingerprints.iter().copied().find(finds);
        let asked = match decides.filter(|_| P::IN_TURN) {
            Some(first) => vec![first],
            None => query.fingerprints.to_vec(),
        };
        let mut roots: Vec<_> = asked.iter().flat_map(|&f| self.roots_near(f)).collect();
        roots.sort_unstable();
        roots.dedup();
        let candidates: Vec<_> = roots.into_iter().filter(|&root| agrees(self, root)).collect();
        if let Some(winner) = self.winner(&candidates) {
            let candidates = candidates.len();
            self.extend(query, winner, query.fingerprints, who);
            return (Root(winner), Decision::Joined { candidates }, Some(self.clock));
        }

        let alone = |&f: &Fingerprint| self.roots_near(f).is_empty();
        let lonely: Vec<_> = query.fingerprints.iter().copied().filter(alone).collect();
        let root = match lonely.first() {
            Some(&first) => first,
            None => {
                let near_root =
                    |node: &Node<P>| node.fingerprint == node.root && node.root.distance(query.whole).0 <= self.k;
                if self.get(query.whole).is_some() || self.nodes.iter().any(near_root) {
                    // Where a hash of the text has no place: the harness sees to it that this is not reached.
                    panic!("the model does not hash again");
                }
                query.whole
            }
        };
        self.hold(root, root, Some(query.proof), who);
        let leaves = if P::CROWDED { query.fingerprints } else { &lonely };
        self.extend(query, root, leaves, who);
        (Root(root), Decision::NewRoot, Some(self.clock))
    }

    fn refresh(&mut self, query: &FeatureQuery<'_, P>, root: Fingerprint, who: usize) {
        for &f in query.fingerprints.iter().chain([&query.whole]) {
            if self.root_of(f) == Some(root) {
                self.hold(f, root, None, who);
            }
        }
        self.refresh_root(root);
    }

    /// Gives the tree those of these fingerprints that have no node, as many as the document takes, and the hash of the
    /// text if the document's fingerprints do not all stand in it.
    fn extend(&mut self, query: &FeatureQuery<'_, P>, root: Fingerprint, these: &[Fingerprint], who: usize) {
        for &f in these {
            let mut standing = query.fingerprints.to_vec();
            standing.retain(|&f| self.root_of(f) == Some(root));
            // The hash of the text is a node of the document too, where it had to be the root.
            standing.extend([query.whole].iter().filter(|&&whole| whole == root));
            standing.sort_unstable();
            standing.dedup();
            if self.root_of(f).is_none() && standing.len() < query.take {
                self.hold(f, root, None, who);
            }
        }
        let all_here = |model: &Self| query.fingerprints.iter().all(|&f| model.root_of(f) == Some(root));
        let founded = self.get(root).and_then(|node| node.proof.as_ref());
        let told = query.known_by.contains(&root) && founded.is_some_and(|proof| proof.is_of_text(query.whole));
        if !told && !all_here(self) && self.root_of(query.whole).is_none() {
            self.hold(query.whole, root, None, who);
        }
        self.refresh(query, root, who);
    }

    /// Takes a placement back: what rests on nobody goes, a root if it has no leaves.
    pub fn withdraw(&mut self, who: usize) -> usize {
        let mut touched = Vec::new();
        for node in &mut self.nodes {
            if node.users.contains(&who) {
                node.users.retain(|&user| user != who);
                touched.push(node.fingerprint);
            }
        }
        let roots: Vec<_> = touched.iter().filter_map(|&f| self.root_of(f)).collect();
        let mut gone = 0;
        for f in touched.iter().filter(|f| !roots.contains(f)).copied() {
            gone += self.remove_unused(f);
        }
        // A root that this placement did not touch goes too if its last leaf just went.
        for root in roots {
            if touched.contains(&root) || gone > 0 {
                gone += self.remove_unused(root);
            }
        }
        gone
    }

    fn remove_unused(&mut self, f: Fingerprint) -> usize {
        let Some(node) = self.get(f) else {
            return 0;
        };
        if !node.users.is_empty() || (node.root == f && self.children(f) > 0) {
            return 0;
        }
        self.nodes.retain(|node| node.fingerprint != f);
        1
    }
}
