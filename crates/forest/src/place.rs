//! Placing a document, and taking a placement back.

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::method::{FeatureQuery, FounderTokens, Proof, Refusal};

use super::candidates::PriorClaim;
use super::change::Change;
use super::node::NodeRef;
use super::placement::{self, RuleView};
use super::roots::RootNumber;
use super::ticket::Rollback;
use super::ticks::Tick;
use super::{DocumentHash, Forest, Root};
use crate::time::Millis;

/// Most evictions of founder tokens for one insertion.
const EVICTED: usize = 64;

/// The result of placing a document.
#[derive(Debug)]
pub struct Placement {
    /// The tree it belongs to.
    pub root: Root,
    /// When its text first arrived; `None` if it is known and did not found the tree.
    pub arrived: Option<Millis>,
    /// When its tree was founded.
    pub founded: Millis,
    /// How the root was found.
    pub decision: Decision,
    /// The fingerprint that found the tree, for methods that look fingerprints up one after the other.
    pub by: Option<Fingerprint>,
    /// The near trees it was not let into, and why; in no particular order.
    pub refused: Vec<(Root, Refusal)>,
    /// The other candidates that would have accepted it.
    pub others: Vec<Root>,
    /// Whether it joins the tree in doubt: much of its text replaces other text.
    pub is_doubtful: bool,
    /// The document's contribution to the statistics of its tree once it is accepted; for [`Forest::count`].
    pub sign: u8,
    /// To be given to [`Forest::settle`] if the document's item was stored, and to [`Forest::withdraw`] if it
    /// definitely was not.
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
    /// It has a root but no node: every node number is in use, or k is so large that every possible root is near
    /// another one.
    Outside,
}

impl Decision {
    /// Whether the document's tree was there before it.
    pub(super) fn finds_a_tree(self) -> bool {
        matches!(self, Decision::Refreshed | Decision::Joined { .. })
    }
}

impl<P: Proof> Forest<P> {
    /// Finds or creates the nodes of a document and returns its root. `now` is the document's time; a time before the
    /// clock counts as the clock. The rules are those of `placement.rs`.
    pub fn place(&mut self, query: &FeatureQuery<'_, P>, now: Millis) -> Placement {
        self.place_given(query, now, None)
    }

    /// Places a document that has a prior assignment from a forest that knew less: it keeps that root unless its text
    /// is known elsewhere or another tree is in the way.
    pub(super) fn place_given(
        &mut self,
        query: &FeatureQuery<'_, P>,
        now: Millis,
        given: Option<PriorClaim<'_>>,
    ) -> Placement {
        self.advance(now);
        self.place_at(query, now, given)
    }

    /// Places a document at its stored root, unless another tree has its text or the root cannot be placed. The clock
    /// has been advanced to `now` already.
    pub(super) fn place_stored(
        &mut self,
        query: &FeatureQuery<'_, P>,
        now: Millis,
        claim: PriorClaim<'_>,
    ) -> Placement {
        self.place_at(query, now, Some(claim))
    }

    /// The tree in which a document was placed before, if it was.
    pub(super) fn known(&self, query: &FeatureQuery<'_, P>) -> Option<Root> {
        let view = self.view(query, self.ticks.floor());
        placement::known(query, &view.seen, self.thresholds)
    }

    /// Whether any node of a document was created by documents that the cluster has not accepted yet.
    pub(super) fn is_in_flight(&self, query: &FeatureQuery<'_, P>) -> bool {
        let nodes = query.fingerprints.iter().chain([&query.whole]);
        nodes.copied().any(|node| self.in_flight.node(node).is_some())
    }

    /// The first document of a living tree.
    pub(super) fn first(&self, root: Root) -> DocumentHash {
        let number = self.root_number(root, self.ticks.floor());
        number.map_or(DocumentHash::UNKNOWN, |number| self.roots.first(number))
    }

    /// Sets the first document of a tree. Returns whether it is another one than before.
    pub(super) fn set_first(&mut self, root: Root, first: DocumentHash) -> bool {
        self.first(root) != first && self.commit(Change::First { root, first })
    }

    /// Whether this root has a living tree.
    pub(super) fn has_tree(&self, root: Root) -> bool {
        self.root_number(root, self.ticks.floor()).is_some()
    }

    /// The tree of this root keeps the proof of this document instead of the one that it has.
    pub(super) fn found_again(&mut self, root: Root, query: &FeatureQuery<'_, P>) {
        let number = self.root_number(root, self.ticks.floor());
        if let Some(added) = number.and_then(|number| Some(self.roots.get(number)?.added())) {
            let first = self.first(root);
            self.commit(Change::AddRoot { fingerprint: root.0, added, proof: query.proof.clone() });
            self.set_first(root, first);
            if !query.tokens.is_empty() {
                let tokens = query.tokens.into();
                self.commit(Change::FounderTokens { root, tokens });
            }
        }
    }

    /// [`place_given`](Forest::place_given) for a document with its own date, which counts when the cluster has
    /// accepted the document ([`arrive`](Forest::arrive)): until then it comes at the clock, and nothing expires or is
    /// left out by its date.
    pub(super) fn place_provisionally(
        &mut self,
        query: &FeatureQuery<'_, P>,
        given: Option<PriorClaim<'_>>,
    ) -> Placement {
        self.place_given(query, self.clock(), given)
    }

    /// Advances the clock to `now`, and refreshes the nodes that a placement uses and their roots.
    pub fn arrive(&mut self, rollback: &Rollback, now: Millis) {
        self.advance(now);
        for &node in rollback.nodes() {
            let known = self.in_flight.node(node.fingerprint);
            let is_this = known.is_none_or(|known| known == node);
            if is_this && self.living(node.fingerprint).is_none() {
                self.revive(node.fingerprint);
            }
            let entry = self.living(node.fingerprint).filter(|_| is_this);
            if let Some(entry) = entry {
                let fingerprint = node.fingerprint;
                let root = self.name(RootNumber(entry.root));
                self.commit(Change::Use { fingerprint });
                // A leaf's root with it: no root dies before one of its leaves.
                if root.0 != fingerprint {
                    self.commit(Change::Refresh { root });
                }
            }
        }
    }

    /// A node of an accepted document lives again, and its root. It has died meanwhile if the clock went on by more
    /// than the window, by the dates of documents that came with it, or because it stood nowhere before the first date.
    fn revive(&mut self, fingerprint: Fingerprint) {
        let record = self.index.get(fingerprint);
        let number = record.map(|entry| RootNumber(entry.root));
        let record = number.and_then(|number| Some((self.roots.get(number)?, self.roots.first(number))));
        let Some((record, first)) = record else { return };
        let (root, added) = (record.fingerprint, record.added());
        let is_free = self.living(root).is_none() && !self.has_root_within_k(root, self.ticks.floor());
        if is_free {
            let proof = record.proof.clone();
            let tokens = self.founder_tokens.get(root).map(FounderTokens::from);
            self.commit(Change::AddRoot { fingerprint: root, added, proof });
            self.set_first(Root(root), first);
            if let Some(tokens) = tokens {
                let root = Root(root);
                self.commit(Change::FounderTokens { root, tokens });
            }
        }
        if root != fingerprint {
            let root = Root(root);
            self.commit(Change::AddLeaf { fingerprint, root });
        }
    }

    /// Settles an accepted document: the nodes that its placement uses stay, even if other users of them are refused.
    pub fn settle(&mut self, rollback: &Rollback) {
        for &node in rollback.nodes() {
            self.in_flight.settled(node);
        }
    }

    /// Prefetches the nodes of these fingerprints, best called while the document before the one before theirs is
    /// placed. Affects nothing but time.
    pub fn prefetch_nodes(&self, fingerprints: &[Fingerprint]) {
        self.index.prefetch(fingerprints);
    }

    /// Prefetches the trees of these nodes, after [their nodes](Forest::prefetch_nodes), while the document before
    /// theirs is placed. Affects nothing but time.
    pub fn prefetch_trees(&self, fingerprints: &[Fingerprint]) {
        // Where near nodes are looked for, finding one costs as much as it saves.
        if self.index.distance() > Distance(0) {
            return;
        }
        for &fingerprint in fingerprints {
            if let Some(entry) = self.index.get(fingerprint) {
                self.roots.prefetch(RootNumber(entry.root));
            }
        }
    }

    fn place_at(&mut self, query: &FeatureQuery<'_, P>, at: Millis, claim: Option<PriorClaim<'_>>) -> Placement {
        self.sweep_some();
        self.evict();
        let floor = self.ticks.floor_at(at);
        let mut changes = std::mem::take(&mut self.planned);
        let mut view = self.view(query, floor);
        view.give(claim);
        let mut outcome = view.decide();
        let wide = placement::with_all_fingerprints(query, &outcome);
        let query = wide.as_ref().unwrap_or(query);
        if wide.is_some() {
            view = self.view_with(query, floor, view.into_laid());
            view.give(claim);
            outcome = view.decide();
        }
        placement::changes(query, &view.seen, &outcome, self.ticks.clock(), &mut changes);
        let unseen = match query.tokens.is_empty() {
            true => 0,
            false => view.seen.without_founder_tokens(),
        };
        drop(view);
        self.unseen_total += unseen as u64;
        let sign = match outcome.decision {
            Decision::Joined { .. } => self.sign(query, outcome.root),
            _ => 0,
        };
        let mut nodes = Vec::with_capacity(changes.len());
        let now = self.clock().max(at);
        for change in changes.drain(..) {
            let (fingerprint, is_new) = match &change {
                Change::AddRoot { fingerprint, .. } | Change::AddLeaf { fingerprint, .. } => (Some(*fingerprint), true),
                Change::Use { fingerprint } => (Some(*fingerprint), false),
                _ => (None, false),
            };
            if self.commit(change)
                && let Some(fingerprint) = fingerprint
            {
                nodes.push(match is_new {
                    true => self.in_flight.made(fingerprint),
                    false => self.in_flight.used(fingerprint),
                });
            }
        }
        self.planned = changes;
        Placement {
            root: outcome.root,
            arrived: outcome.arrived(now),
            founded: outcome.founded.unwrap_or(now),
            // The forest is full: the document has no node.
            decision: if nodes.is_empty() { Decision::Outside } else { outcome.decision },
            by: outcome.by,
            refused: outcome.refused,
            others: outcome.others,
            is_doubtful: outcome.is_doubtful,
            sign,
            rollback: Rollback::Nodes(nodes),
        }
    }

    pub(super) fn has_root_within_k(&self, fingerprint: Fingerprint, floor: Tick) -> bool {
        let mut found = false;
        self.index.near(fingerprint, |near, _, entry| {
            let root = self.tree_of_entry(entry, floor);
            found |= root.is_some_and(|root| self.is_root(near, root));
        });
        found
    }

    /// Undoes a placement whose item has definitely failed, and returns the number of removed nodes. A node is
    /// removed when the last placement that uses it is withdrawn, a root only when it has no leaf; the outcome
    /// therefore does not depend on the order in which the items of a bulk are settled. Arrivals stay as they are.
    /// Nodes that expired meanwhile are left to expiry, and later nodes of the same fingerprint are not touched.
    pub fn withdraw(&mut self, rollback: &Rollback) -> usize {
        for &node in rollback.nodes() {
            self.in_flight.released(node);
        }
        let nodes = rollback.nodes().iter();
        nodes.map(|&node| self.withdraw_unused(node)).sum()
    }

    /// Removes a live node without users, and then its root if that has none.
    fn withdraw_unused(&mut self, node: NodeRef) -> usize {
        if !self.in_flight.is_unused(node) {
            return 0;
        }
        let fingerprint = node.fingerprint;
        let Some(entry) = self.living(fingerprint) else {
            self.in_flight.gone(fingerprint);
            return 0;
        };
        let root = RootNumber(entry.root);
        if !self.is_root(fingerprint, root) {
            let root = self.name(root).0;
            self.commit(Change::Withdraw { fingerprint });
            let root = self.in_flight.node(root);
            return 1 + root.map_or(0, |root| self.withdraw_unused(root));
        }
        if self.roots.living_leaves(root, self.ticks.floor()) > 0 {
            return 0;
        }
        self.commit(Change::Withdraw { fingerprint });
        1
    }

    /// Applies a change and records it. Returns whether anything changed.
    pub(super) fn commit(&mut self, change: Change<P>) -> bool {
        let done = self.apply(&change);
        let is_founder_tokens = matches!(change, Change::FounderTokens { .. });
        if done {
            self.note(change);
        }
        if done && is_founder_tokens {
            self.evict_founder_tokens();
        }
        done
    }

    /// Records a change that was applied, after the position of the clock.
    pub(super) fn note(&mut self, change: Change<P>) {
        self.note_clock();
        if let Some(recorded) = &mut self.recorded {
            recorded.push(change);
        }
    }

    /// Evicts the oldest founder tokens while the budget is exceeded, each by a change of its own, so that a replica
    /// needs to know no limit.
    fn evict_founder_tokens(&mut self) {
        // With another limit than before there may be much.
        for _ in 0..EVICTED {
            let Some(root) = self.founder_tokens.evict() else {
                return;
            };
            self.note(Change::no_founder_tokens(root));
        }
    }
}
