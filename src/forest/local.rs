//! The forest of one process: its trees and what it has learned, behind one lock.
//!
//! Nothing waits for the lock on a thread that serves connections: every job goes to an [`Executor`]. A job that panics
//! may leave the trees half changed, so it takes the forest out of service; nobody sees that state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use parking_lot::Mutex;

use super::port::{
    Answer, Check, CheckReply, CheckedFingerprint, CheckedTree, Document, Outcome, Placed,
    Placements, Port, Reply, Settled, Settlement, Unavailable, When,
};
use super::{
    Change, Decision, Forest, ForestError, Near, Rollback, Root, Settings, Stats, TreeView,
};
use crate::method::{Family, Measure, Proof, Refusal};
use crate::time::Millis;

/// Runs jobs on threads of its own; each to its end, in any order.
pub trait Executor: Send + Sync {
    /// Hands a job over. It does not panic.
    fn run(&self, job: Box<dyn FnOnce() + Send>);
}

/// A forest in this process.
pub struct Local<F: Family> {
    shared: Arc<Shared<F>>,
    executor: Arc<dyn Executor>,
}

struct Shared<F: Family> {
    name: String,
    /// One lock for trees and boilerplate: what is boilerplate depends on the order in which documents were placed. A
    /// batch holds it for as long as it takes to place, some microseconds a document; nobody awaits with it.
    state: Mutex<State<F>>,
    poisoned: OnceLock<String>,
}

/// Trees and what was learned: pure, documents in and places out.
#[derive(Debug)]
pub struct State<F: Family> {
    forest: Forest<F::Proof>,
    learned: F::Learned,
    /// The changes since they were last taken; `None` where nobody wants to know.
    recorded: Option<Vec<StateChange<F::Proof>>>,
}

/// One change of a forest with what it has learned.
#[derive(Debug, Clone, PartialEq)]
pub enum StateChange<P> {
    /// Of its trees.
    Tree(Change<P>),
    /// A document that founded a tree taught it these sentences.
    Learn {
        /// Hashes of sentences.
        hashes: Vec<u64>,
    },
}

impl<F: Family> Local<F> {
    /// A forest that knows nothing but what is `learned` from the start.
    ///
    /// # Errors
    /// As [`Forest::new`].
    pub fn new(
        name: impl Into<String>,
        settings: Settings,
        thresholds: <F::Proof as Proof>::Thresholds,
        learned: F::Learned,
        executor: Arc<dyn Executor>,
    ) -> Result<Local<F>, ForestError> {
        Ok(Local {
            shared: Arc::new(Shared {
                name: name.into(),
                state: Mutex::new(State::new(settings, thresholds, learned)?),
                poisoned: OnceLock::new(),
            }),
            executor,
        })
    }

    /// Runs a job with the lock held.
    fn with<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut State<F>, Duration) -> T + Send + 'static,
    ) -> Answer<T> {
        self.with_or(job, |_, _| ())
    }

    /// Runs a job with the lock held, and another with its answer where nobody waits for that any more: the request was
    /// dropped.
    fn with_or<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut State<F>, Duration) -> T + Send + 'static,
        unwanted: impl FnOnce(&mut State<F>, T) + Send + 'static,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let shared = self.shared.clone();
        self.executor.run(Box::new(move || {
            if let Err(Ok(answer)) = done.send(shared.with(job)) {
                let _ = shared.with(|state, _| unwanted(state, answer));
            }
        }));
        Box::pin(async move { answer.await.unwrap_or(Err(Unavailable::Stopped)) })
    }
}

impl<F: Family> Shared<F> {
    fn with<T>(&self, job: impl FnOnce(&mut State<F>, Duration) -> T) -> Result<T, Unavailable> {
        let asked = Instant::now();
        let mut state = self.state.lock();
        let waited = asked.elapsed();
        if let Some(unavailable) = self.unavailable() {
            return Err(unavailable);
        }
        // Unwind safe: nobody gets at the state once a job has panicked.
        catch_unwind(AssertUnwindSafe(|| job(&mut state, waited))).map_err(|panic| {
            let reason = self.poisoned.get_or_init(|| panic_message(&*panic));
            Unavailable::Poisoned {
                forest: self.name.clone(),
                reason: reason.clone(),
            }
        })
    }

    fn unavailable(&self) -> Option<Unavailable> {
        let reason = self.poisoned.get()?;
        Some(Unavailable::Poisoned {
            forest: self.name.clone(),
            reason: reason.clone(),
        })
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".into())
}

impl<F: Family> Port for Local<F> {
    fn place(&self, batch: Vec<Document>) -> Answer<Placements> {
        let place = |state: &mut State<F>, waited| Placements {
            replies: batch
                .into_iter()
                .map(|document| state.place(document))
                .collect(),
            waited,
        };
        // Nobody will settle what nobody has waited for.
        self.with_or(place, |state, unwanted| {
            let replies = unwanted.replies.into_iter();
            let placed = replies.filter_map(|reply| reply.placed);
            state.withdraw(placed.map(|placed| placed.rollback));
        })
    }

    fn settle(&self, batch: Vec<Settlement>) -> Answer<Settled> {
        if batch.iter().all(|s| s.outcome != Outcome::Refused) {
            return Box::pin(std::future::ready(Ok(Settled::default())));
        }
        self.with(move |state, _| state.settle(batch))
    }

    fn check(&self, document: Document) -> Answer<CheckReply> {
        self.with(move |state, _| state.check(document))
    }

    fn tree(&self, root: Root) -> Answer<Option<TreeView>> {
        self.with(move |state, _| state.forest.tree(root))
    }

    fn stats(&self) -> Answer<Stats> {
        self.with(|state, _| state.forest.stats())
    }

    fn expire(&self, now: Millis, budget: usize) -> Answer<usize> {
        self.with(move |state, _| state.forest.expire(now, budget))
    }

    fn unavailable(&self) -> Option<Unavailable> {
        self.shared.unavailable()
    }
}

impl<F: Family> State<F> {
    /// A state without trees.
    ///
    /// # Errors
    /// As [`Forest::new`].
    pub fn new(
        settings: Settings,
        thresholds: <F::Proof as Proof>::Thresholds,
        learned: F::Learned,
    ) -> Result<State<F>, ForestError> {
        Ok(State {
            forest: Forest::new(settings)?.with_thresholds(thresholds),
            learned,
            recorded: None,
        })
    }

    /// From now on every change is taken down, for [`take_changes`](State::take_changes).
    pub fn record(&mut self) {
        self.forest.record();
        self.recorded.get_or_insert_default();
    }

    /// The changes since they were last taken, in their order; none where nobody asked to [`record`](State::record)
    /// them.
    pub fn take_changes(&mut self) -> Vec<StateChange<F::Proof>> {
        self.collect_changes();
        self.recorded
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn collect_changes(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            let trees = self.forest.take_changes().into_iter();
            recorded.extend(trees.map(StateChange::Tree));
        }
    }

    /// Applies a change that another forest, or this one in an earlier life, has made.
    pub fn apply(&mut self, change: &StateChange<F::Proof>) {
        match change {
            StateChange::Tree(change) => {
                self.forest.apply(change);
            }
            StateChange::Learn { hashes } => {
                F::learn(&mut self.learned, hashes);
            }
        }
    }

    /// What it has learned.
    pub fn learned(&self) -> &F::Learned {
        &self.learned
    }

    /// Its trees.
    pub fn forest(&self) -> &Forest<F::Proof> {
        &self.forest
    }

    /// Finds or makes the place of a document.
    pub fn place(&mut self, document: Document) -> Reply {
        let now = self.time(document.when);
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| self.place_features(features, now));
        Reply { now, placed }
    }

    fn place_features(&mut self, features: &mut F::Features, now: Option<Millis>) -> Placed {
        let at = now.unwrap_or(Millis(0));
        let Self {
            forest, learned, ..
        } = self;
        let mut placement = F::ask(features, learned, |query| forest.place(query, at));
        let mut became = Vec::new();
        if placement.decision == Decision::NewRoot {
            let root = placement.root;
            self.add_refused_by_boilerplate(features, root, &mut placement.refused);
            became = self.learn(features);
        }
        Placed {
            root: placement.root,
            decision: placement.decision,
            node_added: placement.node_added,
            clock: self.forest.clock(),
            stage: placement.by.and_then(|by| F::stage(features, by)),
            in_turn: placement.by.is_some(),
            refused: placement.refused,
            learned: became,
            rollback: placement.rollback,
        }
    }

    /// Adds the trees that the document would have met, had the sentences that they share not become boilerplate.
    fn add_refused_by_boilerplate(
        &self,
        features: &F::Features,
        own: Root,
        refused: &mut Vec<(Root, Refusal)>,
    ) {
        for fingerprint in F::left_out(features, &self.learned).fingerprints {
            self.forest.roots_near(fingerprint, |root| {
                if root != own && !refused.iter().any(|&(tree, _)| tree == root) {
                    refused.push((root, Refusal::Boilerplate));
                }
            });
        }
    }

    /// Learns from a document that founded a tree. Answers which of its sentences became boilerplate.
    fn learn(&mut self, features: &F::Features) -> Vec<usize> {
        let lesson = F::lesson(features);
        let became = F::learn(&mut self.learned, &lesson.hashes).into_iter();
        let became = became.filter_map(|at| lesson.sentences.get(at).copied());
        let became = became.collect();
        if self.recorded.is_some() {
            self.collect_changes();
            let hashes = lesson.hashes;
            self.recorded
                .get_or_insert_default()
                .push(StateChange::Learn { hashes });
        }
        became
    }

    /// Takes back what was refused.
    pub fn settle(&mut self, batch: Vec<Settlement>) -> Settled {
        let refused = batch.into_iter().filter(|s| s.outcome == Outcome::Refused);
        self.withdraw(refused.map(|s| s.rollback))
    }

    fn withdraw(&mut self, rollbacks: impl Iterator<Item = Rollback>) -> Settled {
        let withdrawn = rollbacks.map(|rollback| self.forest.withdraw(&rollback) as u64);
        Settled {
            withdrawn: withdrawn.sum(),
        }
    }

    /// What [`place`](State::place) would do.
    pub fn check(&mut self, document: Document) -> CheckReply {
        let now = self.time(document.when);
        let at = now.unwrap_or(Millis(0));
        let mut features = document.features;
        match features.as_mut().and_then(F::features) {
            None => CheckReply { now, check: None },
            Some(features) => CheckReply {
                now: now.map(|at| self.forest.clock().max(at)),
                check: Some(self.check_features(features, at)),
            },
        }
    }

    fn check_features(&mut self, features: &mut F::Features, at: Millis) -> Check {
        let Self {
            forest, learned, ..
        } = self;
        let (check, measures) = F::ask(features, learned, |query| {
            let check = forest.check(query, at);
            let measures = check.trees.iter().map(|tree| {
                let proof = forest.proof(tree.root);
                let thresholds = forest.thresholds();
                proof.map_or(Measure::None, |root| {
                    query.proof.measure(root, tree.shared, thresholds)
                })
            });
            let measures: Vec<Measure> = measures.collect();
            let asked = query.fingerprints.to_vec();
            ((check, asked), measures)
        });
        let (check, asked) = check;
        let left_out = F::left_out(features, learned);

        let mut fingerprints: Vec<CheckedFingerprint> = asked
            .into_iter()
            .zip(check.near)
            .map(|(fingerprint, near)| CheckedFingerprint {
                fingerprint,
                stage: F::stage(features, fingerprint),
                left_out: false,
                near,
            })
            .collect();
        let mut trees: Vec<CheckedTree> = Vec::new();
        for (tree, measure) in check.trees.iter().zip(measures) {
            trees.extend(forest.tree_at(tree.root, at).map(|view| CheckedTree {
                root: tree.root,
                view,
                shared: tree.shared,
                verdict: tree.verdict,
                measure,
            }));
        }
        for &fingerprint in &left_out.fingerprints {
            let near = forest.near_at(fingerprint, at);
            add_hidden(forest, &near, check.root, at, &mut trees);
            fingerprints.push(CheckedFingerprint {
                fingerprint,
                stage: None,
                left_out: true,
                near,
            });
        }
        trees.sort_by_key(|tree| (tree.root != check.root, tree.verdict.is_err(), tree.root));
        Check {
            root: check.root,
            decision: check.decision,
            stage: check.by.and_then(|by| F::stage(features, by)),
            fingerprints,
            trees,
            boilerplate: left_out.sentences,
        }
    }

    /// The time of a document; `None` where time stands still.
    fn time(&self, when: When) -> Option<Millis> {
        match when {
            When::At(at) => Some(at),
            When::AsBefore => Some(self.forest.clock()).filter(|clock| *clock > Millis(i64::MIN)),
            When::Still => None,
        }
    }
}

/// Adds the trees that only boilerplate leads to.
fn add_hidden<P: Proof>(
    forest: &Forest<P>,
    near: &[Near],
    own: Root,
    at: Millis,
    trees: &mut Vec<CheckedTree>,
) {
    for root in near.iter().map(|near| near.root) {
        if root == own || trees.iter().any(|tree| tree.root == root) {
            continue;
        }
        trees.extend(forest.tree_at(root, at).map(|view| CheckedTree {
            root,
            view,
            shared: 0,
            verdict: Err(Refusal::Boilerplate),
            measure: Measure::None,
        }));
    }
}

impl<F: Family> std::fmt::Debug for Local<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = &self.shared;
        let mut shown = f.debug_struct("Local");
        shown
            .field("name", &shared.name)
            .field("state", &*shared.state.lock());
        shown.field("poisoned", &shared.poisoned).finish()
    }
}
