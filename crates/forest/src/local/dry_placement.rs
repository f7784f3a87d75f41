//! Dry placement in a local forest: documents see the forest and each other, and change nothing.

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::Mutex;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FeatureQuery, MethodKind, Proof, TallyEntry};

use super::state::add_refused;
use super::{CHUNK, Executor, ForestState, LocalInner, run};
use crate::batch_plan::BatchPlan;
use crate::candidates::CandidateTree;
use crate::document::{DocumentTime, ForestDocument};
use crate::hamming::{Entry, NodeIndex};
use crate::placement::{self, RuleOutcome, RuleView};
use crate::planned_view::{PlannedTrees, PlannedView};
use crate::port::{BatchReply, DocumentReply, DryPlacement, EarlierDocuments, PlaceHandle, PortHandle, RootAssignment};
use crate::roots::{RootNumber, TreeRecord};
use crate::ticks::Tick;
use crate::time::Millis;
use crate::{Change, Decision, Forest, NearNode, Root};

/// One request's view of a forest in this process.
pub(super) struct LocalDryPlacement<F: MethodKind> {
    shared: Arc<LocalInner<F>>,
    executor: Arc<dyn Executor>,
    /// Uncontended: a request asks one question at a time.
    own: Arc<Mutex<Option<Own<F>>>>,
}

/// State that only the request itself sees.
struct Own<F: MethodKind> {
    plan: LocalPlan<F::Proof>,
    earlier: EarlierDocuments,
}

/// The planned changes of one request to a forest in this process.
struct LocalPlan<P> {
    plan: BatchPlan<P>,
    /// The index of its nodes.
    index: NodeIndex,
    /// The clock as the documents of the request would have moved it.
    clock: Millis,
}

/// A forest and the plan of a request, at the time of a document.
struct LocalTrees<'a, P: Proof> {
    forest: &'a Forest<P>,
    own: &'a LocalPlan<P>,
    floor: Tick,
}

impl<P: Proof> LocalPlan<P> {
    /// Plans the place of a document at a time. Answers how much of a sign of page chrome it is, too.
    fn place(&mut self, query: &FeatureQuery<'_, P>, forest: &Forest<P>, at: Millis) -> (RuleOutcome, u8) {
        let (outcome, sign, changes) = LocalTrees::of(forest, self, at).foresee(query, at);
        for change in changes {
            if let Some(node) = self.plan.add(change) {
                // It is full only with more nodes than a request can bring.
                let _ = self.index.insert(node, Entry { root: 0, tick: 0 });
            }
        }
        (outcome, sign)
    }
}

impl<'a, P: Proof> LocalTrees<'a, P> {
    fn of(forest: &'a Forest<P>, own: &'a LocalPlan<P>, at: Millis) -> LocalTrees<'a, P> {
        LocalTrees { forest, own, floor: forest.ticks.floor_at(at) }
    }

    /// The placement that a document would get: decision, sign of page chrome, and changes.
    fn foresee(&self, query: &FeatureQuery<'_, P>, at: Millis) -> (RuleOutcome, u8, Vec<Change<P>>) {
        let mut view = PlannedView::of(self, query, at);
        let mut outcome = view.decide();
        let wide = placement::with_all_fingerprints(query, &outcome);
        if let Some(wide) = &wide {
            view = PlannedView::of(self, wide, at);
            outcome = view.decide();
        }
        let mut changes = Vec::new();
        placement::changes(view.query, &view.seen, &outcome, at, &mut changes);
        let sign = self.sign(view.query, &outcome);
        (outcome, sign, changes)
    }

    fn number(&self, root: Root) -> Option<RootNumber> {
        self.forest.root_number(root, self.floor)
    }
}

impl<P: Proof> PlannedTrees<P> for LocalTrees<'_, P> {
    fn tree_of(&self, fingerprint: Fingerprint) -> Option<Root> {
        let own = self.own.plan.nodes.get(&fingerprint).copied();
        own.or_else(|| Some(self.forest.name(self.forest.tree_of(fingerprint, self.floor)?)))
    }

    fn near(&self, of: Fingerprint) -> Vec<NearNode> {
        let mut near = Vec::new();
        for index in [&self.forest.index, &self.own.index] {
            index.near(of, |fingerprint, distance, _| near.push((distance, fingerprint)));
        }
        self.living(near)
    }

    fn candidate(&self, root: Root, query: &FeatureQuery<'_, P>, _: Millis) -> CandidateTree<'_, P> {
        let own = self.own.plan.trees.get(&root);
        let stored = self.number(root).filter(|_| own.is_none());
        let record = stored.and_then(|number| self.forest.roots.get(number));
        let added = own.map(|own| own.added).or_else(|| record.map(TreeRecord::added));
        let children = stored.map_or(0, |number| self.forest.roots.living_leaves(number, self.floor));
        CandidateTree {
            root,
            added: added.unwrap_or(Millis(0)),
            children: Some(children + self.own.plan.children(root)),
            proof: own.map(|own| &own.proof).or_else(|| record.map(|record| &record.proof)),
            founder_tokens: match (query.tokens, own) {
                ([], _) => None,
                (_, Some(own)) => own.founder_tokens.as_deref(),
                (_, None) => self.forest.founder_tokens.get(root.0),
            },
            verdict: Cell::default(),
            laid: Cell::default(),
            closed: match stored {
                Some(number) => self.forest.closed(number, query.earlier),
                None => self.forest.closed_by(root, query.earlier),
            },
        }
    }

    fn proof(&self, root: Root) -> Option<&P> {
        match self.own.plan.trees.get(&root) {
            Some(own) => Some(&own.proof),
            None => self.forest.proof_at(self.number(root)?),
        }
    }

    fn thresholds(&self) -> P::Thresholds {
        self.forest.thresholds()
    }
}

impl<F: MethodKind> LocalDryPlacement<F> {
    pub(super) fn new(shared: Arc<LocalInner<F>>, executor: Arc<dyn Executor>) -> LocalDryPlacement<F> {
        LocalDryPlacement { shared, executor, own: Arc::default() }
    }
}

impl<F: MethodKind> ForestState<F> {
    /// The result that [`place_by`](ForestState::place_by) would have; only `own` changes.
    fn place_dry(&mut self, document: ForestDocument, own: &mut Own<F>) -> DocumentReply {
        let Own { plan, earlier } = own;
        let now = self.time(document.when, earlier);
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| {
            let Self { forest, learned, .. } = self;
            // A date is the document's own word, and counts when the cluster has accepted it.
            let at = match document.when {
                DocumentTime::Claimed(_) | DocumentTime::AsBefore => forest.clock().max(plan.clock),
                DocumentTime::At(_) | DocumentTime::Still => {
                    forest.clock().max(plan.clock).max(now.unwrap_or(Millis(0)))
                }
            };
            plan.clock = at;
            let (foreseen, sign, text) = F::ask(features, learned, &earlier.taught, |query| {
                let query = &FeatureQuery { earlier: Some(&earlier.tallies), ..*query };
                let (foreseen, sign) = plan.place(query, forest, at);
                (foreseen, sign, query.whole)
            });
            let is_doubtful = foreseen.is_doubtful;
            if foreseen.decision == Decision::NewRoot {
                plan.plan.add(Change::First { root: foreseen.root, first: document.id });
            }
            let planned = plan.plan.trees.get(&foreseen.root).map(|tree| tree.first);
            let of_tree = planned.unwrap_or_else(|| self.forest.first(foreseen.root));
            let answer = self.overrides().shown_root(text, foreseen.root);
            let (first, fills_vacancy) =
                document.id.is_first_or_fills(of_tree, foreseen.decision, answer == foreseen.root);
            let mut placed = RootAssignment {
                root: foreseen.root,
                first,
                fills_vacancy,
                answer,
                decision: foreseen.decision,
                arrived: foreseen.arrived(at),
                founded: foreseen.founded.unwrap_or(at),
                clock: at.max(now.unwrap_or(Millis(0))),
                stage: foreseen.by.and_then(|by| F::stage(features, by)),
                in_turn: foreseen.by.is_some(),
                refused: foreseen.refused,
                learned: Vec::new(),
                is_local_fallback: false,
                ticket: None,
            };
            earlier.tallies.add(placed.root.0, TallyEntry { title: document.title, sign });
            if placed.decision == Decision::NewRoot {
                let trees = LocalTrees::of(&self.forest, plan, at);
                for fingerprint in F::left_out(features, &self.learned).fingerprints {
                    let near = trees.near(fingerprint).into_iter();
                    near.for_each(|near| add_refused(&mut placed.refused, placed.root, near.root));
                }
            }
            earlier.time = now.map(|_| placed.clock).or(earlier.time);
            earlier.fill(&mut placed);
            let lesson = self.lesson_in_doubt(features, is_doubtful, &earlier.taught);
            earlier.add_lessons(&lesson);
            if placed.decision == Decision::NewRoot {
                earlier.add_lessons([&F::lesson(features)]);
            }
            placed
        });
        DocumentReply { now, placed }
    }
}

impl<F: MethodKind> DryPlacement for LocalDryPlacement<F> {
    fn place(&self, documents: Vec<ForestDocument>) -> PlaceHandle<Vec<ForestDocument>> {
        let own = self.own.clone();
        let place_dry = move |shared: &LocalInner<F>| {
            let mut own = own.lock();
            let mut placements = BatchReply::default();
            let mut documents = documents.into_iter();
            while documents.len() > 0 {
                shared.with(|state, waited| {
                    placements.waited += waited;
                    let own = own.get_or_insert_with(|| Own {
                        plan: LocalPlan {
                            plan: BatchPlan::default(),
                            index: state.forest.index.empty(),
                            clock: Millis(i64::MIN),
                        },
                        earlier: EarlierDocuments::default(),
                    });
                    for document in documents.by_ref().take(CHUNK) {
                        let reply = state.place_dry(document, own);
                        placements.replies.push(reply);
                    }
                    placements.overrides = state.overrides().clone();
                })?;
            }
            Ok(placements)
        };
        let placed = run(&self.shared, &self.executor, place_dry, |_, _| ());
        PortHandle::of(async move { Ok(placed.await?) })
    }
}
