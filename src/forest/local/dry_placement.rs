//! Documents placed as if by themselves: they see the forest of this process and each other, and leave nothing.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{CHUNK, Executor, ForestState, LocalInner, run};
use crate::fingerprint::Fingerprint;
use crate::forest::candidates::PriorClaim;
use crate::forest::document::PlacementDocument;
use crate::forest::placement;
use crate::forest::port::{DryPlacement, EarlierDocuments, PlaceFuture, Placed, PlacementReply, Placements};
use crate::forest::{Change, Decision, Forest, Root};
use crate::method::{MethodKind, PlacementQuery, Proof, TallyEntry};
use crate::time::Millis;

/// One request's view of a forest in this process.
pub(super) struct LocalDryPlacement<F: MethodKind> {
    shared: Arc<LocalInner<F>>,
    executor: Arc<dyn Executor>,
    /// Uncontended: a request asks one question at a time.
    own: Arc<Mutex<Option<Own<F>>>>,
}

/// State that only the request itself sees.
struct Own<F: MethodKind> {
    trees: OwnTrees<F::Proof>,
    earlier: EarlierDocuments,
}

/// The trees of one request's documents, each with the root that it will have among all others.
struct OwnTrees<P: Proof> {
    forest: Forest<P>,
    roots: HashMap<Root, Root>,
}

impl<P: Proof> OwnTrees<P> {
    /// Corrects a dry result by the documents of the same request that came before. Returns the document's
    /// contribution to the recognition of page chrome. A tree of the request counts before one of the forest, but
    /// both are remembered for the documents that follow.
    fn amend(
        &mut self,
        foreseen: &mut placement::PlacementPlan,
        query: &PlacementQuery<'_, P>,
        title: Option<u32>,
        others: &Forest<P>,
        at: Millis,
    ) -> u8 {
        let is_own = matches!(foreseen.decision, Decision::NewRoot | Decision::Outside);
        // What has a node among the others is no place here either: the document takes the next one there, which is no
        // place any more for the documents that follow.
        let free = |fingerprints: &[Fingerprint]| -> Vec<Fingerprint> {
            fingerprints.iter().copied().filter(|&fingerprint| !others.has_node(fingerprint, at)).collect()
        };
        let (fingerprints, more) = (free(query.fingerprints), free(query.more));
        let own = &PlacementQuery { fingerprints: &fingerprints, more: &more, earlier: None, ..*query };
        if is_own {
            // A tree of the request itself may refuse it.
            let (here, wide) = self.forest.foresee(own, at);
            let mut refused = [&foreseen.refused, &here.refused].into_iter();
            let alone = refused.any(|refused| placement::stands_alone(refused));
            foreseen.root = self.free_root(&wide, others, at, alone);
        }
        let mut sign = match foreseen.decision {
            Decision::Joined { .. } => others.sign(query, foreseen.root),
            _ => 0,
        };
        let joins =
            matches!(foreseen.decision, Decision::Joined { .. }).then(|| self.claim_on(foreseen.root, others, at));
        let placement = self.forest.place_given(own, at, joins);
        let count = TallyEntry { title, sign: placement.sign };
        self.forest.count(placement.root, count);
        let refused = placement.refused.iter();
        let refused = refused.filter_map(|(root, why)| Some((*self.roots.get(root)?, *why)));
        foreseen.refused.extend(refused);
        if placement.decision == Decision::NewRoot {
            self.roots.insert(placement.root, foreseen.root);
        } else if is_own && let Some(&root) = self.roots.get(&placement.root) {
            foreseen.root = root;
            foreseen.decision = placement.decision;
            foreseen.by = placement.by;
            sign = placement.sign;
        }
        sign
    }

    /// The claim of a document that joins a tree of the others. The tree is one here, too, with its founder's proof and
    /// statistics: those who come after the document are compared with the founder, and not with the document.
    fn claim_on(&mut self, root: Root, others: &Forest<P>, at: Millis) -> PriorClaim<'static> {
        if !self.forest.has_tree(root)
            && let Some(proof) = others.proof(root)
        {
            self.forest.commit(Change::AddRoot { fingerprint: root.0, added: at, proof: proof.clone() });
            if let Some(tokens) = others.founder_tokens.get(root.0) {
                self.forest.commit(Change::FounderTokens { root, tokens: tokens.into() });
            }
            if let Some(tally) = others.tally_of(root) {
                self.forest.commit(Change::Count { root, tally });
            }
            self.roots.insert(root, root);
        }
        PriorClaim { root, stored: None, reserved: None }
    }

    /// A place for a root that is free here and among the others, as the placement rules look for one.
    fn free_root(&self, query: &PlacementQuery<'_, P>, others: &Forest<P>, at: Millis, alone: bool) -> Root {
        let here = self.forest.isolated(query, at);
        let there = others.isolated(query, at).into_iter();
        let mut free = there.filter(|fingerprint| here.contains(fingerprint));
        if let Some(first) = free.next().filter(|_| !alone) {
            return Root(first);
        }
        let mut hash = query.whole;
        for _ in 0..placement::ROOT_TRIES {
            let taken = self.roots.values().any(|&given| given == Root(hash));
            if !taken && !others.has_root_near(hash, at) && !self.forest.has_root_near(hash, at) {
                break;
            }
            hash = placement::rehashed(hash);
        }
        Root(hash)
    }
}

impl<F: MethodKind> LocalDryPlacement<F> {
    pub(super) fn new(shared: Arc<LocalInner<F>>, executor: Arc<dyn Executor>) -> LocalDryPlacement<F> {
        LocalDryPlacement { shared, executor, own: Arc::default() }
    }
}

impl<F: MethodKind> ForestState<F> {
    /// The result that [`place_by`](ForestState::place_by) would have; only `own` and `earlier` change. Rarely, a
    /// tree of the request's own gets another root than it would: whether a document is lost is asked of the forest and
    /// of the request's own trees, not of both together.
    fn place_dry(
        &mut self,
        document: PlacementDocument,
        own: &mut OwnTrees<F::Proof>,
        earlier: &mut EarlierDocuments,
    ) -> PlacementReply {
        let now = self.time(document.when, earlier);
        let at = now.unwrap_or(Millis(0));
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| {
            let Self { forest, learned, .. } = self;
            let clock = forest.clock().max(at);
            let (foreseen, sign, text) = F::ask(features, learned, &earlier.taught, |query| {
                let query = &PlacementQuery { earlier: Some(&earlier.tallies), ..*query };
                let (mut foreseen, query) = forest.foresee(query, at);
                let sign = own.amend(&mut foreseen, &query, document.title, forest, at);
                (foreseen, sign, query.whole)
            });
            let mut placed = Placed {
                root: foreseen.root,
                answer: self.overrides().shown_root(text, foreseen.root),
                decision: foreseen.decision,
                arrived: foreseen.arrived(clock),
                founded: foreseen.founded.unwrap_or(clock),
                clock,
                stage: foreseen.by.and_then(|by| F::stage(features, by)),
                in_turn: foreseen.by.is_some(),
                refused: foreseen.refused,
                learned: Vec::new(),
                is_alone: false,
                ticket: None,
            };
            earlier.tallies.add(placed.root.0, TallyEntry { title: document.title, sign });
            if placed.decision == Decision::NewRoot {
                self.add_refused_by_boilerplate(features, placed.root, &mut placed.refused);
            }
            earlier.time = now.map(|_| placed.clock).or(earlier.time);
            if placed.decision == Decision::NewRoot {
                earlier.taught.add(&F::lesson(features).sentences);
            }
            placed
        });
        PlacementReply { now, placed }
    }
}

impl<F: MethodKind> DryPlacement for LocalDryPlacement<F> {
    fn place(&self, documents: Vec<PlacementDocument>) -> PlaceFuture<Vec<PlacementDocument>> {
        let own = self.own.clone();
        let place_dry = move |shared: &LocalInner<F>| {
            let mut own = own.lock();
            let mut placements = Placements::default();
            let mut documents = documents.into_iter();
            while documents.len() > 0 {
                shared.with(|state, waited| {
                    placements.waited += waited;
                    let own = own.get_or_insert_with(|| Own {
                        trees: OwnTrees { forest: state.forest.empty(), roots: HashMap::new() },
                        earlier: EarlierDocuments::default(),
                    });
                    for document in documents.by_ref().take(CHUNK) {
                        let reply = state.place_dry(document, &mut own.trees, &mut own.earlier);
                        placements.replies.push(reply);
                    }
                    placements.overrides = state.overrides().clone();
                })?;
            }
            Ok(placements)
        };
        let placed = run(&self.shared, &self.executor, place_dry, |_, _| ());
        Box::pin(async move { Ok(placed.await?) })
    }
}
