//! The forest of one process: its trees and what it has learned, behind one lock.
//!
//! Nothing waits for the lock on a thread that serves connections: every job goes to an [`Executor`]. A job that panics
//! may leave the trees half changed, so it takes the forest out of service; nobody sees that state.

mod rehearsal;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use parking_lot::{Mutex, MutexGuard};

use super::port::{
    Answer, Batch, Check, CheckReply, CheckedFingerprint, CheckedTree, Commit, Document, Earlier,
    Outcome, Placed, Placements, Port, Rehearsal, Reply, Settled, Settlement, Unavailable, When,
};
use super::{
    Change, Decision, Forest, ForestError, Near, Portions, Rollback, Root, Settings, Stats,
    TreeView,
};
use crate::method::{Count, Family, Lesson, Measure, Proof, Query, Refusal};
use crate::text::boilerplate::Taught;
use crate::time::Millis;
use rehearsal::LocalRehearsal;

/// Runs jobs on threads of its own; each to its end, in any order.
pub trait Executor: Send + Sync {
    /// Hands a job over. It does not panic.
    fn run(&self, job: Box<dyn FnOnce() + Send>);
}

/// Where the changes of a forest go that are to survive the process. Batches are numbered from 1.
pub trait Journal: std::fmt::Debug + Send + Sync {
    /// Puts a batch of changes at its end, and answers its number. Never waits.
    fn append(&self, batch: Vec<u8>) -> u64;
    /// Answers when the batch and all before it are safe.
    fn durable(&self, batch: u64) -> Answer<()>;
    /// Waits until more may be appended. Not with a lock.
    ///
    /// # Errors
    /// When that will not be.
    fn wait_for_room(&self) -> Result<(), Unavailable>;
    /// Writes what waits, and waits for that.
    fn close(&self);
    /// Why nothing is to be placed any more, if that is so.
    fn failure(&self) -> Option<Unavailable>;
}

/// A forest that can be copied while it goes on.
pub trait Copied: Send + Sync {
    /// What is written first, before the journal is told that a copy begins.
    ///
    /// # Errors
    /// When the forest cannot be asked any more.
    fn begin(&self) -> Result<(u8, Vec<u8>), Unavailable>;
    /// The next portion; none if that was all.
    ///
    /// # Errors
    /// When the forest cannot be asked any more.
    fn next(&self, portions: &mut Portions) -> Result<Option<(u8, Vec<u8>)>, Unavailable>;
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
    journal: Option<Arc<dyn Journal>>,
    /// The last batch that was appended to it, changed with the lock held.
    appended: AtomicU64,
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
        let state = State::new(settings, thresholds, learned)?;
        Ok(Local::of(name.into(), state, executor, None))
    }

    /// A forest whose changes from now on go to a journal.
    pub fn with_journal(
        name: impl Into<String>,
        mut state: State<F>,
        executor: Arc<dyn Executor>,
        journal: Arc<dyn Journal>,
    ) -> Local<F> {
        state.record();
        Local::of(name.into(), state, executor, Some(journal))
    }

    fn of(
        name: String,
        state: State<F>,
        executor: Arc<dyn Executor>,
        journal: Option<Arc<dyn Journal>>,
    ) -> Local<F> {
        Local {
            shared: Arc::new(Shared {
                name,
                state: Mutex::new(state),
                poisoned: OnceLock::new(),
                journal,
                appended: AtomicU64::new(0),
            }),
            executor,
        }
    }

    /// The same forest, to be copied.
    pub fn copied(&self) -> Arc<dyn Copied> {
        self.shared.clone()
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
        if done.is_ok() {
            self.append(&mut state);
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

    /// Gives the journal what has changed.
    fn append(&self, state: &mut State<F>) {
        let Some(journal) = &self.journal else { return };
        let changes = state.take_changes();
        if changes.is_empty() {
            return;
        }
        let mut batch = Vec::with_capacity(64 * changes.len());
        for change in &changes {
            change.write(&mut batch);
        }
        self.appended.store(journal.append(batch), Relaxed);
    }

    /// Answers when all that has changed until now is safe.
    fn durable(&self) -> Answer<()> {
        match &self.journal {
            Some(journal) => journal.durable(self.appended.load(Relaxed)),
            None => Box::pin(std::future::ready(Ok(()))),
        }
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
            if let Some(journal) = &self.journal {
                journal.wait_for_room()?;
            }
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
        let Some(reason) = self.poisoned.get() else {
            return self.journal.as_ref().and_then(|journal| journal.failure());
        };
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
        Box::new(LocalRehearsal::new(
            self.shared.clone(),
            self.executor.clone(),
        ))
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> Answer<Settled> {
        if batch.is_empty() {
            return Box::pin(std::future::ready(Ok(Settled::default())));
        }
        let settled = self.with(move |state, _| state.settle(batch, now));
        let shared = self.shared.clone();
        // The client is told when what it is told of is safe.
        Box::pin(async move {
            let settled = settled.await?;
            shared.durable().await?;
            Ok(settled)
        })
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

    fn close(&self) {
        if let Some(journal) = &self.shared.journal {
            journal.close();
        }
    }

    fn unavailable(&self) -> Option<Unavailable> {
        self.shared.unavailable()
    }
}

impl<F: Family> Copied for Shared<F> {
    fn begin(&self) -> Result<(u8, Vec<u8>), Unavailable> {
        self.with(|state, _| state.begin_copy())
    }

    fn next(&self, portions: &mut Portions) -> Result<Option<(u8, Vec<u8>)>, Unavailable> {
        self.with(|state, _| state.next_portion(portions, self.appended.load(Relaxed)))
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

    /// What it has learned, to add to it what is to be known from the start.
    pub fn learned_mut(&mut self) -> &mut F::Learned {
        &mut self.learned
    }

    pub(super) fn forest_mut(&mut self) -> &mut Forest<F::Proof> {
        &mut self.forest
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
        self.forest.give(document.given);
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| {
            let at = now.unwrap_or(Millis(0));
            let mut placed = self.place_features(features, document.title, at, claimed, earlier);
            earlier.time = now.map(|_| placed.clock).or(earlier.time);
            match commit {
                Commit::AtOnce => {
                    self.forest.count(placed.root, placed.count);
                    self.forest.settle(&placed.rollback);
                }
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
            arrived: placement.arrived,
            founded: self
                .forest
                .founded_at(placement.root)
                .unwrap_or(self.forest.clock().max(at)),
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
                    self.forest.settle(&settlement.rollback);
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
