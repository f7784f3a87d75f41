//! The view of a read set for one document, and the decisions that follow from it.

use std::cell::Cell;

use super::read_set::{PlannedDecision, ReadSet};
use crate::fingerprint::Fingerprint;
use crate::forest::candidates::{
    CandidateTree, Candidates, FingerprintMatches, InlineVec, PriorAssignment, PriorClaim, RootSlot, TreeIndex,
};
use crate::forest::placement::{self, PlacementPlan, PlacementQuestion, PlacementView, RuleStep};
use crate::forest::{Decision, Root};
use crate::method::{Differences, Durable, PlacementQuery, Proof, Refusal};
use crate::planted::planted;
use crate::time::Millis;

/// The view of a read set for one document.
pub(super) struct ReadSetView<'p, 'r, 'q, P: Proof> {
    read_set: &'p ReadSet<'r, P>,
    pub(super) query: &'q PlacementQuery<'q, P>,
    now: Millis,
    pub(super) seen: Candidates<'p, P>,
}

impl<'p, 'r, 'q, P: Proof + Durable> ReadSetView<'p, 'r, 'q, P> {
    pub(super) fn of(
        read_set: &'p ReadSet<'r, P>,
        query: &'q PlacementQuery<'q, P>,
        now: Millis,
    ) -> ReadSetView<'p, 'r, 'q, P> {
        let mut view = ReadSetView { read_set, query, now, seen: Candidates::new() };
        let is_provisional = || read_set.tree_of(query.whole).is_some_and(|root| read_set.is_provisional(root));
        if !planted!(ConfirmedFirst) || !is_provisional() {
            view.seen.whole = view.own_node(query.whole);
        }
        for &fingerprint in query.fingerprints {
            let own = view.own_node(fingerprint);
            let from = view.seen.near.len();
            for near in read_set.near(fingerprint) {
                let tree = view.tree(near.root);
                let known = view.seen.near.get(from..).unwrap_or_default();
                if !known.contains(&tree) {
                    view.seen.near.push(tree);
                }
            }
            let near = Some(from..view.seen.near.len());
            view.seen.fingerprints.push(FingerprintMatches { own, near });
        }
        for &fingerprint in query.known_by {
            let tree = view.tree_founded_by(fingerprint);
            view.seen.known_by.push(tree);
        }
        view
    }

    /// Looks at the root that the document was given.
    pub(super) fn give(&mut self, claim: Option<PriorClaim<'_>>) {
        let Some(PriorClaim { root, stored, reserved }) = claim else {
            return;
        };
        self.seen.given = Some(PriorAssignment {
            root,
            tree: self.tree_founded_by(root.0),
            is_free: self.own_node(root.0).is_none() && !self.has_root_within_k(root.0),
            stored,
        });
        if let Some(reserved) = reserved {
            let others = self.query.fingerprints.iter().filter(|&&own| own != root.0);
            let reserved: InlineVec<Fingerprint> = others.filter(|own| reserved.contains(own)).copied().collect();
            self.seen.reserved = reserved.into_vec();
        }
    }

    /// The trees that are not confirmed and on which the decision hangs.
    pub(super) fn waits(&self, outcome: &PlacementPlan) -> Vec<Root> {
        if self.read_set.is_provisional(outcome.root) {
            return vec![outcome.root];
        }
        if outcome.decision != Decision::NewRoot {
            return Vec::new();
        }
        let refused = outcome.refused.iter();
        let agree = refused.filter(|&&(root, why)| why == Refusal::Full && self.read_set.is_provisional(root));
        agree.map(|&(root, _)| root).collect()
    }

    fn has_root_within_k(&self, fingerprint: Fingerprint) -> bool {
        let mut near = self.read_set.near(fingerprint).into_iter();
        near.any(|near| near.root.0 == near.fingerprint)
    }

    fn own_node(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.read_set.tree_of(fingerprint)?;
        Some(self.tree(root))
    }

    /// The tree of which a fingerprint is the root.
    fn tree_founded_by(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.read_set.tree_of(fingerprint)?;
        if planted!(ConfirmedFirst) && self.read_set.is_provisional(root) {
            return None;
        }
        (root.0 == fingerprint).then(|| self.tree(root))
    }

    fn tree(&mut self, root: Root) -> TreeIndex {
        if let Some(known) = self.seen.trees.iter().position(|tree| tree.root == root) {
            return known;
        }
        let read_set = self.read_set;
        let kept = read_set.read.root(root.0);
        let own = read_set.plans.trees.get(&root);
        let added = own.map(|own| own.added).or_else(|| kept.map(|kept| kept.added));
        self.seen.trees.push(CandidateTree {
            root,
            added: added.unwrap_or(Millis(0)),
            children: Some(read_set.children(root, self.now)),
            proof: read_set.proof(root),
            founder_tokens: match self.query.tokens {
                [] => None,
                _ => read_set.founder_tokens(root),
            },
            verdict: Cell::default(),
            laid: Cell::<Option<Differences>>::default(),
            closed: read_set.closed(root, self.query.earlier),
        });
        self.seen.trees.len() - 1
    }
}

impl<P: Proof + Durable> PlacementView<P> for ReadSetView<'_, '_, '_, P> {
    fn step(&self) -> RuleStep {
        placement::decide(self.query, &self.seen, self.read_set.thresholds)
    }

    fn answer(&mut self, question: PlacementQuestion) {
        match question {
            PlacementQuestion::Hash(hash) => {
                let slot = RootSlot { own: self.own_node(hash), has_root_within_k: self.has_root_within_k(hash) };
                self.seen.hashes.push(slot);
            }
            // They are in the view from the start.
            PlacementQuestion::Near(_) | PlacementQuestion::Children(_) => {}
        }
    }
}

impl<P: Proof + Durable> ReadSet<'_, P> {
    /// The plan of a document, or the trees for which it has to wait; `None`: something has to be read first.
    pub(super) fn foresee(
        &self,
        query: &PlacementQuery<'_, P>,
        now: Millis,
        claim: Option<PriorClaim<'_>>,
    ) -> Option<Result<PlannedDecision<P>, Vec<Root>>> {
        let mut view = ReadSetView::of(self, query, now);
        view.give(claim);
        // Missing keys behind this document are noted, too.
        if self.is_missing() {
            return None;
        }
        let outcome = view.decide();
        let waits = view.waits(&outcome);
        let wide = placement::widened(query, &outcome).filter(|_| waits.is_empty());
        let concluded = match &wide {
            None => self.conclude(&view, outcome, waits, now, false),
            Some(wide) => {
                let mut view = ReadSetView::of(self, wide, now);
                view.give(claim);
                if self.is_missing() {
                    return None;
                }
                let outcome = view.decide();
                let waits = view.waits(&outcome);
                self.conclude(&view, outcome, waits, now, true)
            }
        };
        (!self.is_missing()).then_some(concluded)
    }

    /// The outcome of a decision, or the trees for which it has to wait.
    fn conclude(
        &self,
        view: &ReadSetView<'_, '_, '_, P>,
        outcome: PlacementPlan,
        waits: Vec<Root>,
        now: Millis,
        is_wide: bool,
    ) -> Result<PlannedDecision<P>, Vec<Root>> {
        if !waits.is_empty() {
            return Err(waits);
        }
        let query = view.query;
        let mut changes = Vec::new();
        placement::changes(query, &view.seen, &outcome, now, &mut changes);
        Ok(PlannedDecision {
            sign: match outcome.decision {
                Decision::Joined { .. } => self.sign(query, outcome.root),
                _ => 0,
            },
            without_founder_tokens: match query.tokens.is_empty() {
                true => 0,
                false => view.seen.without_founder_tokens(),
            },
            outcome,
            changes,
            is_wide,
        })
    }

    /// The trees that accept a document or have its text: what its founder checks again. `None`: something has to be
    /// read first.
    pub(super) fn agreeing(
        &self,
        query: &PlacementQuery<'_, P>,
        now: Millis,
        only_its_text: bool,
    ) -> Option<Vec<Root>> {
        let view = ReadSetView::of(self, query, now);
        if self.is_missing() {
            return None;
        }
        let mut agreeing: Vec<Root> = placement::known(query, &view.seen, self.thresholds).into_iter().collect();
        for (tree, _, verdict) in placement::verdicts(query, &view.seen, self.thresholds) {
            let Some(root) = view.seen.trees.get(tree).map(|tree| tree.root) else {
                continue;
            };
            if only_its_text {
                break;
            }
            if verdict.is_ok() || (verdict == Err(Refusal::Full) && self.is_provisional(root)) {
                agreeing.push(root);
            }
        }
        agreeing.sort_unstable();
        agreeing.dedup();
        Some(agreeing)
    }
}
