//! The forest of one process: its trees and what it has learned, behind one lock.
//!
//! Nothing waits for the lock on a thread that serves connections: every job goes to an [`Executor`]. A job that panics
//! may leave the trees half changed, so it takes the forest out of service; nobody sees that state.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use parking_lot::{Mutex, MutexGuard};

use super::law;
use super::port::{
    Answer, Batch, Check, CheckReply, CheckedFingerprint, CheckedTree, Commit, Document, Earlier,
    Outcome, Placed, Placements, Port, Rehearsal, Reply, Settled, Settlement, Unavailable, When,
};
use super::{
    Change, Decision, Forest, ForestError, Near, Rollback, Root, Settings, Stats, TreeView,
};
use crate::method::{Count, Family, Lesson, Measure, Proof, Query, Refusal};
use crate::text::boilerplate::Taught;
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
    /// Placements of unknown outcome, and when they are taken back, in that order.
    unknown: VecDeque<(Millis, Rollback)>,
    /// The changes since they were last taken; `None` where nobody wants to know.
    recorded: Option<Vec<StateChange<F::Proof>>>,
}

/// How long the nodes of a document whose outcome nobody knows stay for a retry to find: longer than clients wait between
/// retries, and too short to collect others' documents.
pub const RETRY_WINDOW: Millis = Millis(60_000);

/// Documents of one request that teach: one request must not make the table forget what all others have taught.
const TEACHERS: usize = 1_000;

/// Documents that are placed while the lock is held once: others get their turn in between.
const CHUNK: usize = 64;

/// One change of a forest with what it has learned.
#[derive(Debug, Clone, PartialEq)]
pub enum StateChange<P> {
    /// Of its trees.
    Tree(Change<P>),
    /// Documents that founded a tree taught it these sentences, each once.
    Learn {
        /// Hashes of sentences.
        hashes: Vec<u64>,
        /// How many documents.
        founders: u64,
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

    /// The same forest, in which a tree may have so many documents.
    pub fn with_max_tree(self, documents: Option<u32>) -> Local<F> {
        self.shared.state.lock().forest.set_max_tree(documents);
        self
    }

    /// Runs a job with the lock held.
    fn with<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut State<F>, Duration) -> T + Send + 'static,
    ) -> Answer<T> {
        self.run(|shared| shared.with(job), |_, _| ())
    }

    /// Runs a job, and another with its answer where nobody waits for that any more: the request was dropped.
    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shared<F>) -> Result<T, Unavailable> + Send + 'static,
        unwanted: impl FnOnce(&Shared<F>, T) + Send + 'static,
    ) -> Answer<T> {
        run(&self.shared, &self.executor, job, unwanted)
    }
}

fn run<F: Family, T: Send + 'static>(
    shared: &Arc<Shared<F>>,
    executor: &Arc<dyn Executor>,
    job: impl FnOnce(&Shared<F>) -> Result<T, Unavailable> + Send + 'static,
    unwanted: impl FnOnce(&Shared<F>, T) + Send + 'static,
) -> Answer<T> {
    let (done, answer) = oneshot::channel();
    let (shared, again) = (shared.clone(), executor.clone());
    executor.run(Box::new(move || {
        let given = job(&shared).map(|answer| Parcel {
            answer: Some(answer),
            unwanted: Some(Box::new(move |answer| {
                // Where it is dropped, nobody must wait for the lock.
                again.run(Box::new(move || unwanted(&shared, answer)));
            })),
        });
        // If nobody waits any more, it comes back and is dropped here.
        let _ = done.send(given);
    }));
    Box::pin(async move {
        match answer.await {
            Ok(given) => given.and_then(|parcel| parcel.take().ok_or(Unavailable::Stopped)),
            Err(_) => Err(Unavailable::Stopped),
        }
    })
}

/// An answer on its way: if nobody takes it, wherever it is dropped, it is undone.
struct Parcel<T> {
    answer: Option<T>,
    unwanted: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T> Parcel<T> {
    fn take(mut self) -> Option<T> {
        self.unwanted = None;
        self.answer.take()
    }
}

impl<T> Drop for Parcel<T> {
    fn drop(&mut self) {
        if let (Some(answer), Some(unwanted)) = (self.answer.take(), self.unwanted.take()) {
            unwanted(answer);
        }
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
        let done = catch_unwind(AssertUnwindSafe(|| job(&mut state, waited)));
        if let Err(panic) = &done {
            self.poisoned.get_or_init(|| panic_message(&**panic));
        }
        // Whoever waits is next: a thread that places chunk after chunk would keep the lock for itself.
        MutexGuard::unlock_fair(state);
        done.map_err(|panic| {
            let reason = self.poisoned.get_or_init(|| panic_message(&*panic));
            Unavailable::Poisoned {
                forest: self.name.clone(),
                reason: reason.clone(),
            }
        })
    }

    /// Places documents in their order, a chunk at a time.
    fn place_all(
        &self,
        documents: Vec<Document>,
        commit: Commit,
        placements: &mut Placements,
    ) -> Result<(), Unavailable> {
        let mut documents = documents.into_iter();
        while documents.len() > 0 {
            self.with(|state, waited| {
                placements.waited += waited;
                for document in documents.by_ref().take(CHUNK) {
                    let reply = state.place_by(document, commit, &mut placements.earlier);
                    placements.replies.push(reply);
                }
            })?;
        }
        Ok(())
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
    fn place(&self, batch: Batch) -> Answer<Placements> {
        let place = move |shared: &Shared<F>| {
            let Batch {
                documents,
                commit,
                earlier,
            } = batch;
            let mut placements = Placements {
                earlier,
                ..Placements::default()
            };
            let placed = shared.place_all(documents, commit, &mut placements);
            placed.map(|()| placements)
        };
        // Nobody will settle what nobody has waited for.
        self.run(place, |shared, unwanted| {
            let _ = shared.with(|state, _| {
                let replies = unwanted.replies.into_iter();
                let placed = replies.filter_map(|reply| reply.placed);
                state.withdraw(placed.map(|placed| placed.rollback))
            });
        })
    }

    fn rehearsal(&self) -> Box<dyn Rehearsal> {
        Box::new(LocalRehearsal {
            shared: self.shared.clone(),
            executor: self.executor.clone(),
            own: Arc::default(),
        })
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> Answer<Settled> {
        if batch.is_empty() {
            return Box::pin(std::future::ready(Ok(Settled::default())));
        }
        self.with(move |state, _| state.settle(batch, now))
    }

    fn forget_unknown(&self, now: Millis, budget: usize) -> Answer<Settled> {
        self.with(move |state, _| state.forget_unknown(now, budget))
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

    fn set_memory_limit(&self, bytes: usize) -> Answer<()> {
        self.with(move |state, _| state.forest.set_memory_limit(bytes))
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
            unknown: VecDeque::new(),
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
            StateChange::Learn { hashes, founders } => {
                F::learn(&mut self.learned, hashes, *founders);
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

    /// Finds or makes the place of a document that counts at once.
    pub fn place(&mut self, document: Document) -> Reply {
        self.place_by(document, Commit::AtOnce, &mut Earlier::default())
    }

    /// Finds or makes the place of a document. Until it is settled, what it teaches counts for its own request only.
    pub fn place_by(&mut self, document: Document, commit: Commit, earlier: &mut Earlier) -> Reply {
        let now = self.time(document.when, earlier);
        let claimed = match (document.when, commit) {
            (When::Claimed(at), Commit::Provisional) => Some(at),
            _ => None,
        };
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| {
            let at = now.unwrap_or(Millis(0));
            let mut placed = self.place_features(features, document.title, at, claimed, earlier);
            earlier.time = now.map(|_| placed.clock).or(earlier.time);
            match commit {
                Commit::AtOnce => self.forest.count(placed.root, placed.count),
                Commit::Provisional => earlier.tallies.add(placed.root.0, placed.count),
            }
            if placed.decision == Decision::NewRoot {
                let lesson = F::lesson(features);
                match commit {
                    Commit::AtOnce => placed.learned = self.learn_at_once(lesson),
                    Commit::Provisional => {
                        earlier.taught.add(&lesson.hashes);
                        placed.lesson = Some(lesson.hashes);
                    }
                }
            }
            placed
        });
        Reply { now, placed }
    }

    fn place_features(
        &mut self,
        features: &mut F::Features,
        title: Option<u32>,
        at: Millis,
        claimed: Option<Millis>,
        earlier: &Earlier,
    ) -> Placed {
        let Self {
            forest, learned, ..
        } = self;
        let mut placement = F::ask(features, learned, &earlier.taught, |query| {
            let query = &Query {
                earlier: Some(&earlier.tallies),
                ..*query
            };
            match claimed {
                Some(_) => forest.place_provisionally(query),
                None => forest.place(query, at),
            }
        });
        if placement.decision == Decision::NewRoot {
            let root = placement.root;
            self.add_refused_by_boilerplate(features, root, &mut placement.refused);
        }
        Placed {
            root: placement.root,
            decision: placement.decision,
            node_added: placement.node_added,
            clock: self.forest.clock().max(at),
            stage: placement.by.and_then(|by| F::stage(features, by)),
            in_turn: placement.by.is_some(),
            refused: placement.refused,
            learned: Vec::new(),
            claimed,
            lesson: None,
            count: Count {
                title,
                sign: placement.sign,
            },
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
    fn learn_at_once(&mut self, lesson: Lesson) -> Vec<usize> {
        let became = self.learn(lesson.hashes, 1).into_iter();
        let became = became.filter_map(|at| lesson.sentences.get(at).copied());
        became.collect()
    }

    fn learn(&mut self, hashes: Vec<u64>, founders: u64) -> Vec<usize> {
        let became = F::learn(&mut self.learned, &hashes, founders);
        if self.recorded.is_some() {
            self.collect_changes();
            self.recorded
                .get_or_insert_default()
                .push(StateChange::Learn { hashes, founders });
        }
        became
    }

    /// Lets count what was accepted, takes back what was refused, and keeps for a while what may come again. All of it is
    /// of one request, and `now` is when its answer came.
    pub fn settle(&mut self, batch: Vec<Settlement>, now: Millis) -> Settled {
        let (mut refused, mut lessons) = (Vec::new(), Vec::new());
        let due = 2 * batch.len();
        for settlement in batch {
            match settlement.outcome {
                Outcome::Accepted => {
                    let (root, count) = settlement.counted;
                    self.forest.count(root, count);
                    if let Some(claimed) = settlement.claimed {
                        self.forest.arrive(&settlement.rollback, claimed);
                    }
                    lessons.extend(settlement.lesson);
                }
                Outcome::Refused => refused.push(settlement.rollback),
                Outcome::Unknown => {
                    let due = Millis(now.0.saturating_add(RETRY_WINDOW.0));
                    self.unknown.push_back((due, settlement.rollback));
                }
            }
        }
        let mut settled = self.withdraw(refused.into_iter());
        settled.learned = self.learn_from_request(lessons);
        self.forest.expire(self.forest.clock(), due);
        settled.notices = self.forest.take_notices();
        settled
    }

    /// One request counts each sentence once, however often it brings it, and no more than so many documents: one writer
    /// alone must not make boilerplate of what others write, nor make the others' forgotten.
    fn learn_from_request(&mut self, lessons: Vec<Vec<u64>>) -> u64 {
        let founders = lessons.len().min(TEACHERS);
        if founders == 0 {
            return 0;
        }
        let mut hashes: Vec<u64> = lessons.into_iter().take(founders).flatten().collect();
        hashes.sort_unstable();
        hashes.dedup();
        self.learn(hashes, founders as u64).len() as u64
    }

    /// Takes back up to `budget` placements whose outcome has been unknown for [`RETRY_WINDOW`].
    pub fn forget_unknown(&mut self, now: Millis, budget: usize) -> Settled {
        let due = self.unknown.partition_point(|&(due, _)| due <= now);
        let due: Vec<_> = self.unknown.drain(..due.min(budget)).collect();
        self.withdraw(due.into_iter().map(|(_, rollback)| rollback))
    }

    fn withdraw(&mut self, rollbacks: impl Iterator<Item = Rollback>) -> Settled {
        let withdrawn = rollbacks.map(|rollback| self.forest.withdraw(&rollback) as u64);
        Settled {
            withdrawn: withdrawn.sum(),
            ..Settled::default()
        }
    }

    /// What [`place_by`](State::place_by) would answer; only `own` and `earlier` change. Now and then a tree of the request's
    /// own gets another root than it would, because fewer of the document's fingerprints stand in its way here.
    fn rehearse(
        &mut self,
        document: Document,
        own: &mut OwnTrees<F::Proof>,
        earlier: &mut Earlier,
    ) -> Reply {
        let now = self.time(document.when, earlier);
        let at = now.unwrap_or(Millis(0));
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| {
            let Self {
                forest, learned, ..
            } = self;
            let clock = forest.clock().max(at);
            let (foreseen, node_added, sign) =
                F::ask(features, learned, &earlier.taught, |query| {
                    let query = &Query {
                        earlier: Some(&earlier.tallies),
                        ..*query
                    };
                    let mut foreseen = forest.foresee(query, at);
                    let sign = own.amend(&mut foreseen, query, document.title, forest, at);
                    let added = forest.node_added(query, foreseen.root);
                    (foreseen, added.unwrap_or(clock), sign)
                });
            let mut placed = Placed {
                root: foreseen.root,
                decision: foreseen.decision,
                node_added,
                clock,
                stage: foreseen.by.and_then(|by| F::stage(features, by)),
                in_turn: foreseen.by.is_some(),
                refused: foreseen.refused,
                learned: Vec::new(),
                claimed: None,
                lesson: None,
                count: Count {
                    title: document.title,
                    sign,
                },
                rollback: Rollback::default(),
            };
            earlier.tallies.add(placed.root.0, placed.count);
            if placed.decision == Decision::NewRoot {
                self.add_refused_by_boilerplate(features, placed.root, &mut placed.refused);
            }
            earlier.time = now.map(|_| placed.clock).or(earlier.time);
            if placed.decision == Decision::NewRoot {
                earlier.taught.add(&F::lesson(features).hashes);
            }
            placed
        });
        Reply { now, placed }
    }

    /// What [`place`](State::place) would do.
    pub fn check(&mut self, document: Document) -> CheckReply {
        let now = self.time(document.when, &Earlier::default());
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
        let (check, measures) = F::ask(features, learned, &Taught::default(), |query| {
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
    fn time(&self, when: When, earlier: &Earlier) -> Option<Millis> {
        match when {
            When::At(at) | When::Claimed(at) => Some(at),
            When::AsBefore => {
                let before = earlier.time.max(Some(self.forest.clock()));
                before.filter(|clock| *clock > Millis(i64::MIN))
            }
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

/// One request's view of a forest in this process.
struct LocalRehearsal<F: Family> {
    shared: Arc<Shared<F>>,
    executor: Arc<dyn Executor>,
    /// Nobody contends for it: the request asks one question at a time.
    own: Arc<Mutex<Option<Own<F>>>>,
}

/// What only the request itself sees.
struct Own<F: Family> {
    trees: OwnTrees<F::Proof>,
    earlier: Earlier,
}

/// The trees of one request's documents, each with the root that it will have among all others.
struct OwnTrees<P: Proof> {
    forest: Forest<P>,
    roots: HashMap<Root, Root>,
}

impl<P: Proof> OwnTrees<P> {
    /// Turns what the forest foresees for a document into what will come of it behind those of its request that came before.
    /// Answers how much of a sign the document is of furniture. What it joins there counts before what it joins here; but here, too, it stands for those that come after it.
    fn amend(
        &mut self,
        foreseen: &mut law::Outcome,
        query: &Query<'_, P>,
        title: Option<u32>,
        others: &Forest<P>,
        at: Millis,
    ) -> u8 {
        let is_own = matches!(foreseen.decision, Decision::NewRoot | Decision::Outside);
        if is_own {
            let alone = law::stands_alone(&foreseen.refused);
            foreseen.root = self.free_root(query, others, at, alone);
        }
        let mut sign = match foreseen.decision {
            Decision::Joined { .. } => others.sign(query, foreseen.root),
            _ => 0,
        };
        let own = &Query {
            earlier: None,
            ..*query
        };
        let placement = self.forest.place(own, at);
        let count = Count {
            title,
            sign: placement.sign,
        };
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

    /// A place for a root that is free here and among the others, as the law looks for one.
    fn free_root(&self, query: &Query<'_, P>, others: &Forest<P>, at: Millis, alone: bool) -> Root {
        let here = self.forest.isolated(query, at);
        let there = others.isolated(query, at).into_iter();
        let mut free = there.filter(|fingerprint| here.contains(fingerprint));
        if let Some(first) = free.next().filter(|_| !alone) {
            return Root(first);
        }
        let mut hash = query.whole;
        for _ in 0..law::ROOT_TRIES {
            let taken = self.roots.values().any(|&given| given == Root(hash));
            if !taken && !others.has_root_near(hash, at) && !self.forest.has_root_near(hash, at) {
                break;
            }
            hash = law::rehashed(hash);
        }
        Root(hash)
    }
}

impl<F: Family> Rehearsal for LocalRehearsal<F> {
    fn place(&self, documents: Vec<Document>) -> Answer<Placements> {
        let own = self.own.clone();
        let rehearse = move |shared: &Shared<F>| {
            let mut own = own.lock();
            let mut placements = Placements::default();
            let mut documents = documents.into_iter();
            while documents.len() > 0 {
                shared.with(|state, waited| {
                    placements.waited += waited;
                    let own = own.get_or_insert_with(|| Own {
                        trees: OwnTrees {
                            forest: state.forest.empty(),
                            roots: HashMap::new(),
                        },
                        earlier: Earlier::default(),
                    });
                    for document in documents.by_ref().take(CHUNK) {
                        let reply = state.rehearse(document, &mut own.trees, &mut own.earlier);
                        placements.replies.push(reply);
                    }
                })?;
            }
            Ok(placements)
        };
        run(&self.shared, &self.executor, rehearse, |_, _| ())
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
