//! Checks documents without placing them, and resolves stored documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FeatureQuery, Measure, MethodKind, Proof, Refusal};
use spinney_text::text::boilerplate::PendingSentences;

use super::SharedInner;
use super::read_set::{MissingKeys, ReadSet, ReadValues};
use crate::batch_plan::BatchPlan;
use crate::document::ForestDocument;
use crate::overrides::ResolvedDocument;
use crate::placement::{self, RuleView};
use crate::planned_view::PlannedView;
use crate::port::{CheckReply, CheckedDocument, CheckedFingerprint, CheckedTree, EarlierDocuments, Unavailable};
use crate::time::Millis;
use crate::{Decision, Root};

impl<F: MethodKind> SharedInner<F> {
    pub(super) async fn check(self: Arc<Self>, document: ForestDocument) -> Result<CheckReply, Unavailable> {
        let known = self.overrides().await?;
        let nowhere = CheckReply { now: None, check: None, overrides: known.overrides().clone() };
        let mut work = self.arrivals(vec![document], &EarlierDocuments::default());
        let Some(work) = work.pop() else {
            return Ok(nowhere);
        };
        let (claimed, mut at) = (work.now, work.at);
        let mut now = claimed;
        let mut document = work.document;
        if document.features.as_mut().and_then(F::features).is_none() {
            return Ok(nowhere);
        }
        self.refresh_boilerplate().await?;
        let mut read = ReadValues::default();
        loop {
            let (check, kept, read_again, missing) = self
                .compute(move |inner| {
                    let (check, missing) = inner.check_by(&mut document, at, &read);
                    (check, document, read, missing)
                })
                .await?;
            if missing.is_empty() {
                return Ok(CheckReply { now, check, overrides: self.known_overrides.known().overrides().clone() });
            }
            (document, read) = (kept, read_again);
            self.fetch(&mut read, missing).await?;
            if self.calendar.is_dated {
                at = self.dated_arrival(claimed);
                now = claimed.map(|claimed| claimed.max(at));
            }
        }
    }

    fn check_by(
        &self,
        document: &mut ForestDocument,
        at: Millis,
        read: &ReadValues<F::Proof>,
    ) -> (Option<CheckedDocument>, MissingKeys) {
        let features = document.features.as_mut().and_then(F::features);
        let Some(features) = features else {
            return (None, MissingKeys::default());
        };
        let thresholds = self.thresholds;
        let found_by = (self.settings.max_tree, &self.blocks);
        let mut read_set: ReadSet<'_, F::Proof> =
            ReadSet::new(read, BatchPlan::default(), thresholds, self.calendar(), found_by);
        read_set.joins_all = true;
        let mut learned = self.learned.lock();
        let (mut check, asked) = F::ask(features, &mut learned, &PendingSentences::default(), |query| {
            let mut view = PlannedView::of(&read_set, query, at);
            let outcome = view.decide();
            match placement::with_all_fingerprints(query, &outcome) {
                Some(wide) => {
                    let mut view = PlannedView::of(&read_set, &wide, at);
                    let outcome = view.decide();
                    (self.checked(&read_set, &wide, &view, &outcome, at), wide.fingerprints.to_vec())
                }
                None => {
                    let asked = query.fingerprints.to_vec();
                    (self.checked(&read_set, query, &view, &outcome, at), asked)
                }
            }
        });
        let (by, left_out) = (check.1, F::left_out(features, &learned));
        let check = &mut check.0;
        check.stage = by.and_then(|by| F::stage(features, by));
        let all = asked.iter().map(|&fingerprint| (fingerprint, false));
        let hidden = left_out.fingerprints.iter().map(|&fingerprint| (fingerprint, true));
        for (fingerprint, is_hidden) in all.chain(hidden) {
            let near = read_set.near(fingerprint);
            let known: BTreeSet<Root> = check.trees.iter().map(|tree| tree.root).collect();
            for root in near.iter().map(|near| near.root).filter(|_| is_hidden) {
                let kept = read.root(root.0).filter(|_| !known.contains(&root));
                check.trees.extend(kept.map(|kept| CheckedTree {
                    root,
                    view: self.view(kept, at),
                    shared: 0,
                    verdict: Err(Refusal::Boilerplate),
                    measure: Measure::None,
                }));
            }
            check.fingerprints.push(CheckedFingerprint {
                fingerprint,
                stage: F::stage(features, fingerprint),
                left_out: is_hidden,
                near,
            });
        }
        let own = check.root;
        check.trees.sort_by_key(|tree| (tree.root != own, tree.verdict.is_err(), tree.root));
        check.boilerplate = left_out.sentences;
        let check = std::mem::replace(check, empty(own));
        (Some(check), read_set.into_missing().0)
    }

    /// The trees near a document.
    fn checked(
        &self,
        read_set: &ReadSet<'_, F::Proof>,
        query: &FeatureQuery<'_, F::Proof>,
        view: &PlannedView<'_, '_, F::Proof, ReadSet<'_, F::Proof>>,
        outcome: &placement::RuleOutcome,
        at: Millis,
    ) -> (CheckedDocument, Option<Fingerprint>) {
        let verdicts = placement::verdicts(query, &view.seen, self.thresholds);
        let trees = verdicts.into_iter().filter_map(|(tree, shared, verdict)| {
            let tree = view.seen.trees.get(tree)?;
            let root = tree.root;
            let kept = read_set.read.root(root.0)?;
            Some(CheckedTree {
                root,
                view: self.view(kept, at),
                shared,
                verdict,
                measure: query.proof.measure(&kept.proof, shared, self.thresholds, tree.laid.get()),
            })
        });
        let (known, is_known) = (self.known_overrides.known(), outcome.decision.finds_a_tree());
        let check = CheckedDocument {
            answer: known.overrides().shown_root(query.whole, outcome.root),
            decision: outcome.decision,
            trees: trees.collect(),
            resolved: known.overrides().resolve(query.whole, outcome.root, is_known),
            own: placement::own_tokens(query, &view.seen, outcome),
            ..empty(outcome.root)
        };
        (check, outcome.by)
    }
}

fn empty(root: Root) -> CheckedDocument {
    CheckedDocument {
        root,
        answer: root,
        resolved: ResolvedDocument { text: root.0, answer: None },
        decision: Decision::NewRoot,
        stage: None,
        fingerprints: Vec::new(),
        trees: Vec::new(),
        boilerplate: Vec::new(),
        own: Vec::new(),
    }
}
