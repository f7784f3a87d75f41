//! A read set as the trees of a view, and the decisions that follow from it.

use std::cell::Cell;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Durable, FeatureQuery, Proof, Refusal};

use super::read_set::{PlannedDecision, ReadSet};
use crate::candidates::{CandidateTree, PriorClaim};
use crate::placement::{self, RuleOutcome, RuleView};
use crate::planned_view::{PlannedTrees, PlannedView};
use crate::time::Millis;
use crate::{NearNode, Root};

impl<P: Proof + Durable> PlannedTrees<P> for ReadSet<'_, P> {
    fn tree_of(&self, fingerprint: Fingerprint) -> Option<Root> {
        ReadSet::tree_of(self, fingerprint)
    }

    fn near(&self, of: Fingerprint) -> Vec<NearNode> {
        ReadSet::near(self, of)
    }

    fn candidate(&self, root: Root, query: &FeatureQuery<'_, P>, now: Millis) -> CandidateTree<'_, P> {
        let own = self.plans.trees.get(&root).map(|own| own.added);
        let added = own.or_else(|| self.read.root(root.0).map(|kept| kept.added));
        CandidateTree {
            root,
            added: added.unwrap_or(Millis(0)),
            children: Some(self.children(root, now)),
            proof: self.proof(root),
            founder_tokens: match query.tokens {
                [] => None,
                _ => self.founder_tokens(root),
            },
            verdict: Cell::default(),
            laid: Cell::default(),
            closed: self.closed(root, query.earlier),
        }
    }

    fn proof(&self, root: Root) -> Option<&P> {
        match self.plans.trees.get(&root) {
            Some(own) => Some(&own.proof),
            None => self.read.root(root.0).map(|root| &root.proof),
        }
    }

    fn thresholds(&self) -> P::Thresholds {
        self.thresholds
    }

    fn is_provisional(&self, root: Root) -> bool {
        ReadSet::is_provisional(self, root)
    }

    fn is_usable(&self, fingerprint: Fingerprint) -> bool {
        !self.read.is_unusable(fingerprint)
    }
}

impl<P: Proof + Durable> ReadSet<'_, P> {
    /// The plan of a document, or the trees for which it has to wait; `None`: something has to be read first.
    pub(super) fn foresee(
        &self,
        query: &FeatureQuery<'_, P>,
        now: Millis,
        claim: Option<PriorClaim<'_>>,
    ) -> Option<Result<PlannedDecision<P>, Vec<Root>>> {
        let mut view = PlannedView::of(self, query, now);
        view.give(claim);
        // Missing keys behind this document are noted, too.
        if self.is_missing() {
            return None;
        }
        let outcome = view.decide();
        let waits = view.waits(&outcome);
        let wide = placement::with_all_fingerprints(query, &outcome).filter(|_| waits.is_empty());
        let concluded = match &wide {
            None => self.conclude(&view, outcome, waits, now, false),
            Some(wide) => {
                let mut view = PlannedView::of(self, wide, now);
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
        view: &PlannedView<'_, '_, P, Self>,
        outcome: RuleOutcome,
        waits: Vec<Root>,
        now: Millis,
        used_all_fingerprints: bool,
    ) -> Result<PlannedDecision<P>, Vec<Root>> {
        if !waits.is_empty() {
            return Err(waits);
        }
        let query = view.query;
        let mut changes = Vec::new();
        placement::changes(query, &view.seen, &outcome, now, &mut changes);
        Ok(PlannedDecision {
            sign: self.sign(query, &outcome),
            without_founder_tokens: match query.tokens.is_empty() {
                true => 0,
                false => view.seen.without_founder_tokens(),
            },
            outcome,
            changes,
            used_all_fingerprints,
        })
    }

    /// The trees that accept a document or have its text, for the recheck of its founder; and of them the one that has
    /// it. `None`: something has to be read first.
    pub(super) fn agreeing(
        &self,
        query: &FeatureQuery<'_, P>,
        now: Millis,
        only_its_text: bool,
    ) -> Option<(Vec<Root>, Option<Root>)> {
        let view = PlannedView::of(self, query, now);
        if self.is_missing() {
            return None;
        }
        let known = placement::known(query, &view.seen, self.thresholds);
        let mut agreeing: Vec<Root> = known.into_iter().collect();
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
        Some((agreeing, known))
    }
}
