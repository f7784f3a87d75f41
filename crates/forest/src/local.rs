//! A forest in this process: its trees and its learned text behind one lock.
//!
//! A thread that serves connections does not wait for the lock: jobs go to an [`Executor`], except that a few documents
//! are placed and settled on the calling thread while the lock is free, since handing them over and back takes longer
//! than the work. A job that panics may leave the trees half changed; it takes the forest out of service, and no later
//! job sees that state.

mod dry_placement;
mod recovery;
mod state;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use spinney_text::method::{MethodKind, Proof};

use super::document::ForestDocument;
use super::overrides::{Override, Overrides, RestampPass};
use super::port::{
    Batch, BatchReply, CheckReply, Commit, DryPlacement, ForestPort, LocalPort, PlaceHandle, PortHandle, SettleReport,
    Settlement, Unavailable,
};
use super::promise::Promise;
use super::recovery::RecoveryPass;
use super::undo_guard::UndoGuard;
use super::{
    DocumentHash, ForestError, ForestStats, LateMergeLog, LateMerges, Portions, Root, Settings, StoredStats, TreeView,
};
use crate::time::Millis;
use dry_placement::LocalDryPlacement;

pub use state::{ForestState, RETRY_WINDOW, StateChange};

/// Runs jobs on threads of its own; each to its end, in any order.
pub trait Executor: Send + Sync {
    /// Hands a job over. It does not panic.
    fn run(&self, job: Box<dyn FnOnce() + Send>);

    /// Whether short jobs may run on the calling thread instead.
    fn spares_short_jobs(&self) -> bool {
        false
    }
}

/// Where the changes of a forest go that are to survive the process. Batches are numbered from 1.
pub trait Journal: std::fmt::Debug + Send + Sync {
    /// Appends a batch of changes; returns its number. Never waits.
    fn append(&self, batch: Vec<u8>) -> u64;
    /// Fails the journal, because a batch does not decode; returns the number of that batch, which never becomes
    /// durable.
    fn refuse(&self, reason: &str) -> u64;
    /// Whether [`wait_for_room`](Journal::wait_for_room) would not wait.
    fn has_room(&self) -> bool;
    /// Completes when this batch and all before it are durable.
    fn durable(&self, batch: u64) -> PortHandle<()>;
    /// Waits until more may be appended. Not with a lock.
    ///
    /// # Errors
    /// When that will not be.
    fn wait_for_room(&self) -> Result<(), Unavailable>;
    /// Flushes queued batches; returns when they are durable.
    fn close(&self);
    /// The failure after which nothing can be placed any more.
    fn failure(&self) -> Option<Unavailable>;
    /// How it is.
    fn status(&self) -> StoredStats;
}

/// A forest that can be copied while it changes.
pub trait Copied: Send + Sync {
    /// The first section, written before the journal is rotated for the copy.
    ///
    /// # Errors
    /// If the forest is out of service.
    fn begin(&self) -> Result<(u8, Vec<u8>), Unavailable>;
    /// The next portion; none if that was all.
    ///
    /// # Errors
    /// When the forest cannot be asked any more.
    fn next(&self, portions: &mut Portions) -> Result<Option<(u8, Vec<u8>)>, Unavailable>;
    /// Applies changes of another forest of the same kind, as encoded by [`StateChange::write`]. They go to no journal.
    ///
    /// # Errors
    /// When the forest cannot be asked any more, or they are of another kind.
    fn replay(&self, changes: &[u8]) -> Result<(), Unavailable>;
    /// Adds the learned text of another forest of the same kind, in portions. They are not written to a journal.
    ///
    /// # Errors
    /// If the forest is out of service.
    fn learn(&self, portions: &[Vec<u8>]) -> Result<(), Unavailable>;
}

/// A forest in this process.
pub struct LocalForest<F: MethodKind> {
    shared: Arc<LocalInner<F>>,
    executor: Arc<dyn Executor>,
}

struct LocalInner<F: MethodKind> {
    name: String,
    /// One lock for trees and learned text: what is boilerplate depends on the order in which documents were placed.
    /// A batch holds it while it is placed, some microseconds a document; it is never held across an await.
    state: Mutex<ForestState<F>>,
    poisoned: OnceLock<String>,
    journal: Option<Arc<dyn Journal>>,
    /// The last batch that was appended to it, changed with the lock held.
    appended: AtomicU64,
}

/// Documents placed under one acquisition of the lock, so that other requests are not blocked for long.
const CHUNK: usize = 64;

/// Most documents of a short job, which may run on the caller's thread: some microseconds each.
const SHORT_JOB: usize = 16;

impl<F: MethodKind> LocalForest<F> {
    /// A forest without nodes, with the learned text `learned`.
    ///
    /// # Errors
    /// As [`ForestState::new`].
    pub fn new(
        name: impl Into<String>,
        settings: Settings,
        thresholds: <F::Proof as Proof>::Thresholds,
        learned: F::Learned,
        executor: Arc<dyn Executor>,
    ) -> Result<LocalForest<F>, ForestError> {
        let state = ForestState::new(settings, thresholds, learned)?;
        Ok(LocalForest::of(name.into(), state, executor, None))
    }

    /// A forest in this state, which is stored nowhere.
    pub fn with_state(name: impl Into<String>, state: ForestState<F>, executor: Arc<dyn Executor>) -> LocalForest<F> {
        LocalForest::of(name.into(), state, executor, None)
    }

    /// A forest whose changes from now on go to a journal.
    pub fn with_journal(
        name: impl Into<String>,
        mut state: ForestState<F>,
        executor: Arc<dyn Executor>,
        journal: Arc<dyn Journal>,
    ) -> LocalForest<F> {
        state.record();
        LocalForest::of(name.into(), state, executor, Some(journal))
    }

    fn of(
        name: String,
        state: ForestState<F>,
        executor: Arc<dyn Executor>,
        journal: Option<Arc<dyn Journal>>,
    ) -> LocalForest<F> {
        LocalForest {
            shared: Arc::new(LocalInner {
                name,
                state: Mutex::new(state),
                poisoned: OnceLock::new(),
                journal,
                appended: AtomicU64::new(0),
            }),
            executor,
        }
    }

    /// The forest as the source of a snapshot.
    pub fn copied(&self) -> Arc<dyn Copied> {
        self.shared.clone()
    }

    /// Sets the budget for founder tokens, in bytes; to be called before anything is placed.
    pub fn with_founder_tokens(self, bytes: usize) -> LocalForest<F> {
        self.shared.state.lock().forest.set_founder_token_bytes(bytes);
        self
    }

    /// Sets how late merges are handled.
    pub fn with_late_merges(self, mode: LateMerges) -> LocalForest<F> {
        self.shared.state.lock().set_late_merges(mode);
        self
    }

    /// Sets the size limit of a tree, in documents.
    pub fn with_max_tree(self, documents: Option<u32>) -> LocalForest<F> {
        self.shared.state.lock().forest.set_max_tree(documents);
        self
    }

    /// Runs a job with the lock held.
    fn with<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut ForestState<F>, Duration) -> T + Send + 'static,
    ) -> PortHandle<T> {
        run(&self.shared, &self.executor, |shared| shared.with(job), |_, _| ())
    }

    /// Runs a job under the lock, and returns its result when its changes are durable.
    fn with_safe<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut ForestState<F>) -> T + Send + 'static,
    ) -> PortHandle<T> {
        self.safe(self.with(move |state, _| job(state)))
    }

    /// Returns the result of a job when its changes are durable.
    fn safe<T: Send + 'static>(&self, done: PortHandle<T>) -> PortHandle<T> {
        let shared = self.shared.clone();
        PortHandle::of(async move {
            let done = done.await?;
            shared.durable().await?;
            Ok(done)
        })
    }

    /// Runs a job on the calling thread if it is short and the lock is free, else as [`run`] does.
    fn run_short<T: Send + 'static>(
        &self,
        documents: usize,
        job: impl FnOnce(&LocalInner<F>) -> Result<T, Unavailable> + Send + 'static,
        unwanted: impl FnOnce(&LocalInner<F>, T) + Send + 'static,
    ) -> PortHandle<T> {
        if documents > SHORT_JOB || !self.executor.spares_short_jobs() || !self.shared.is_free() {
            return run(&self.shared, &self.executor, job, unwanted);
        }
        let (shared, executor) = (self.shared.clone(), self.executor.clone());
        let given = caught(|| job(&shared)).flatten();
        let given = given.map(|answer| guarded(answer, shared, executor, unwanted));
        PortHandle::of(async move { given?.take().ok_or(Unavailable::Stopped) })
    }
}

/// A job's result; if it is dropped, `unwanted` runs with it. A drop must not wait for the lock.
fn guarded<F: MethodKind, T: Send + 'static>(
    answer: T,
    shared: Arc<LocalInner<F>>,
    executor: Arc<dyn Executor>,
    unwanted: impl FnOnce(&LocalInner<F>, T) + Send + 'static,
) -> UndoGuard<T> {
    UndoGuard::new(answer, move |answer| executor.run(Box::new(move || unwanted(&shared, answer))))
}

/// Queues a job on the executor; if its handle was dropped, `unwanted` gets the result.
fn run<F: MethodKind, T: Send + 'static>(
    shared: &Arc<LocalInner<F>>,
    executor: &Arc<dyn Executor>,
    job: impl FnOnce(&LocalInner<F>) -> Result<T, Unavailable> + Send + 'static,
    unwanted: impl FnOnce(&LocalInner<F>, T) + Send + 'static,
) -> PortHandle<T> {
    let (done, answer) = Promise::new(format!("a job of the forest '{}'", shared.name));
    let (shared, again) = (shared.clone(), executor.clone());
    executor.run(Box::new(move || {
        let given = job(&shared).map(|answer| guarded(answer, shared, again, unwanted));
        // If the receiver has gone, the result comes back and is dropped here.
        done.answer(given);
    }));
    PortHandle::of(async move {
        match answer.await {
            Ok(given) => given.and_then(|parcel| parcel.take().ok_or(Unavailable::Stopped)),
            Err(_) => Err(Unavailable::Stopped),
        }
    })
}

impl<F: MethodKind> LocalInner<F> {
    /// Whether the lock is free and no job is queued.
    fn is_free(&self) -> bool {
        !self.state.is_locked() && self.journal.as_ref().is_none_or(|journal| journal.has_room())
    }

    fn with<T>(&self, job: impl FnOnce(&mut ForestState<F>, Duration) -> T) -> Result<T, Unavailable> {
        let asked = Instant::now();
        let mut state = self.state.lock();
        let waited = asked.elapsed();
        if let Some(unavailable) = self.unavailable() {
            return Err(unavailable);
        }
        // Unwind safe: the state is not reachable after a job has panicked.
        let done = catch_unwind(AssertUnwindSafe(|| job(&mut state, waited)));
        if let Err(panic) = &done {
            self.poisoned.get_or_init(|| panic_message(&**panic));
        }
        if done.is_ok() {
            self.append(&mut state);
        }
        // A fair unlock: a thread that places chunk after chunk would otherwise keep the lock for itself.
        MutexGuard::unlock_fair(state);
        done.map_err(|panic| {
            let reason = self.poisoned.get_or_init(|| panic_message(&*panic));
            Unavailable::Poisoned { forest: self.name.clone(), reason: reason.clone() }
        })
    }

    /// Appends the recorded changes to the journal.
    fn append(&self, state: &mut ForestState<F>) {
        let Some(journal) = &self.journal else { return };
        let changes = state.take_changes();
        if changes.is_empty() {
            return;
        }
        let appended = match StateChange::batch(&changes) {
            Ok(batch) => journal.append(batch),
            Err(error) => journal.refuse(&error.to_string()),
        };
        self.appended.store(appended, Relaxed);
    }

    /// Completes when all changes until now are durable.
    fn durable(&self) -> PortHandle<()> {
        match &self.journal {
            Some(journal) => journal.durable(self.appended.load(Relaxed)),
            None => PortHandle::ready(Ok(())),
        }
    }

    /// Places documents in their order, a chunk at a time.
    fn place_all(
        &self,
        documents: Vec<ForestDocument>,
        commit: Commit,
        placements: &mut BatchReply,
    ) -> Result<(), Unavailable> {
        let mut documents = documents.into_iter();
        while !documents.as_slice().is_empty() {
            if let Some(journal) = &self.journal {
                journal.wait_for_room()?;
            }
            self.with(|state, waited| {
                placements.waited += waited;
                for _ in 0..CHUNK {
                    let Some(document) = documents.next() else {
                        break;
                    };
                    state.prefetch(documents.as_mut_slice());
                    let reply = state.place_by(document, commit, &mut placements.earlier);
                    placements.replies.push(reply);
                }
                placements.overrides = state.overrides().clone();
            })?;
        }
        Ok(())
    }

    fn unavailable(&self) -> Option<Unavailable> {
        let Some(reason) = self.poisoned.get() else {
            return self.journal.as_ref().and_then(|journal| journal.failure());
        };
        Some(Unavailable::Poisoned { forest: self.name.clone(), reason: reason.clone() })
    }
}

/// The result of a job, or the panic in it. Unwind safe only for a job whose state is not used afterwards.
pub fn caught<T>(job: impl FnOnce() -> T) -> Result<T, Unavailable> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|panic| Unavailable::Panicked(panic_message(&*panic)))
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".into())
}

impl<F: MethodKind> ForestPort for LocalForest<F> {
    fn place(&self, batch: Batch) -> PlaceHandle<Batch> {
        let documents = batch.documents.len();
        let place = move |shared: &LocalInner<F>| {
            let Batch { documents, commit, earlier } = batch;
            let mut placements = BatchReply { earlier, ..BatchReply::default() };
            let placed = shared.place_all(documents, commit, &mut placements);
            placed.map(|()| placements)
        };
        // A placement whose caller has gone is never settled.
        let placed = self.run_short(documents, place, |shared, unwanted| {
            let _ = shared.with(|state, _| {
                let replies = unwanted.replies.into_iter();
                let tickets = replies.filter_map(|reply| reply.placed?.ticket);
                state.withdraw(tickets)
            });
        });
        PortHandle::of(async move { Ok(placed.await?) })
    }

    fn dry_placement(&self) -> Box<dyn DryPlacement> {
        Box::new(LocalDryPlacement::new(self.shared.clone(), self.executor.clone()))
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> PortHandle<SettleReport> {
        if batch.is_empty() {
            return PortHandle::ready(Ok(SettleReport::default()));
        }
        // The outcome is reported when it is durable.
        self.safe(self.run_short(
            batch.len(),
            move |shared| shared.with(|state, _| state.settle(batch, now)),
            |_, _| (),
        ))
    }

    fn forget_unknown(&self, now: Millis, budget: usize) -> PortHandle<SettleReport> {
        self.with(move |state, _| state.forget_unknown(now, budget))
    }

    fn check(&self, document: ForestDocument) -> PortHandle<CheckReply> {
        self.with(move |state, _| state.check(document))
    }

    fn firsts(&self, roots: Vec<Root>) -> PortHandle<Vec<DocumentHash>> {
        self.with(move |state, _| roots.into_iter().map(|root| state.forest.first(root)).collect())
    }

    fn set_firsts(&self, firsts: Vec<(Root, DocumentHash)>) -> PortHandle<()> {
        // Not waited for on disk: after a crash they are found again.
        self.with(move |state, _| {
            for (root, first) in firsts {
                state.forest.set_first(root, first);
            }
        })
    }

    fn tree(&self, root: Root) -> PortHandle<Option<TreeView>> {
        self.with(move |state, _| state.forest.tree(root))
    }

    fn add_override(&self, correction: Override, shown: Vec<Root>) -> PortHandle<Option<u64>> {
        self.with_safe(move |state| state.add_override(correction, &shown))
    }

    fn undo_override(&self, number: u64) -> PortHandle<Option<Override>> {
        self.with_safe(move |state| state.undo_override(number))
    }

    fn restamped(&self, done: RestampPass) -> PortHandle<()> {
        self.with_safe(move |state| state.restamped(&done))
    }

    fn overrides(&self) -> PortHandle<Arc<Overrides>> {
        self.with(|state, _| state.overrides().clone())
    }

    fn late_merges(&self) -> PortHandle<LateMergeLog> {
        self.with(|state, _| state.late_merges())
    }

    fn stats(&self) -> PortHandle<ForestStats> {
        let stored = self.shared.journal.as_ref().map(|journal| journal.status());
        self.with(move |state, _| ForestStats { stored, late_merges: state.late_merge_stats(), ..state.forest.stats() })
    }

    fn unavailable(&self) -> Option<Unavailable> {
        self.shared.unavailable()
    }
}

impl<F: MethodKind> LocalPort for LocalForest<F> {
    fn recover(
        &self,
        documents: Vec<ForestDocument>,
        mut recovery: RecoveryPass,
        over: bool,
    ) -> PortHandle<RecoveryPass> {
        let recover = move |shared: &LocalInner<F>| {
            let mut documents = documents.into_iter();
            while let Some(group) = recovery.next_group(&mut documents, over) {
                if let Some(journal) = &shared.journal {
                    journal.wait_for_room()?;
                }
                shared.with(|state, _| state.recover(group, &mut recovery))?;
            }
            Ok(recovery)
        };
        run(&self.shared, &self.executor, recover, |_, _| ())
    }

    fn expire(&self, now: Millis, budget: usize) -> PortHandle<usize> {
        self.with(move |state, _| state.forest.expire(now, budget))
    }

    fn set_memory_limit(&self, bytes: usize) -> PortHandle<()> {
        self.with(move |state, _| state.forest.set_memory_limit(bytes))
    }

    fn close(&self) {
        if let Some(journal) = &self.shared.journal {
            journal.close();
        }
    }
}

impl<F: MethodKind> Copied for LocalInner<F> {
    fn begin(&self) -> Result<(u8, Vec<u8>), Unavailable> {
        self.with(|state, _| state.begin_copy())
    }

    fn next(&self, portions: &mut Portions) -> Result<Option<(u8, Vec<u8>)>, Unavailable> {
        self.with(|state, _| state.next_portion(portions, self.appended.load(Relaxed)))
    }

    fn learn(&self, portions: &[Vec<u8>]) -> Result<(), Unavailable> {
        self.with(|state, _| {
            for portion in portions {
                F::add_portion(state.learned_mut(), portion);
            }
        })
    }

    fn replay(&self, mut changes: &[u8]) -> Result<(), Unavailable> {
        let is_read = self.with(|state, _| {
            while !changes.is_empty() {
                let Some(change) = StateChange::read(&mut changes) else {
                    return false;
                };
                state.apply(&change);
                // The other one had another limit, perhaps.
                while state.forest_mut().founder_tokens.evict().is_some() {}
            }
            true
        })?;
        match is_read {
            true => Ok(()),
            false => Err(Unavailable::NotStored {
                forest: self.name.clone(),
                reason: "changes of another kind of forest cannot be made in it".into(),
            }),
        }
    }
}

impl<F: MethodKind> std::fmt::Debug for LocalForest<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = &self.shared;
        let mut shown = f.debug_struct("Local");
        shown.field("name", &shared.name).field("state", &*shared.state.lock());
        shown.field("poisoned", &shared.poisoned).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::document::DocumentTime;
    use crate::port::ItemOutcome;
    use spinney_text::fingerprint::Distance;
    use spinney_text::hash::HashKey;
    use spinney_text::method::{Method, Strict, Workspace};
    use spinney_text::text::Fields;

    /// Keeps jobs, but for short ones.
    struct Kept(Mutex<mpsc::Sender<Box<dyn FnOnce() + Send>>>);

    impl Executor for Kept {
        fn run(&self, job: Box<dyn FnOnce() + Send>) {
            self.0.lock().send(job).unwrap();
        }

        fn spares_short_jobs(&self) -> bool {
            true
        }
    }

    fn documents(count: usize) -> Batch {
        let method: Method = "full".parse().unwrap();
        let fields = Fields { title: None, body: &["A text of which a fingerprint is taken."] };
        let features = method.read(&fields, &mut Workspace::default());
        let document = ForestDocument {
            features,
            when: DocumentTime::At(Millis(1)),
            title: None,
            id: Default::default(),
            given: None,
        };
        Batch { documents: vec![document; count], ..Batch::default() }
    }

    fn now<T>(future: &mut PlaceHandle<T>) -> Option<BatchReply> {
        match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(placements) => Some(placements.unwrap_or_else(|refused| panic!("{}", refused.reason))),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_few_documents_are_placed_on_the_calling_thread_while_the_lock_is_free() {
        let (kept, jobs) = mpsc::channel();
        let settings = Settings { window: None, k: Distance(3), key: HashKey::FIXED };
        let executor = Arc::new(Kept(Mutex::new(kept)));
        let forest = LocalForest::<Strict>::new("test", settings, (), (), executor).unwrap();
        let nodes = || forest.shared.state.lock().forest.stats().nodes;
        let placed = now(&mut forest.place(documents(SHORT_JOB))).unwrap();
        assert_eq!((placed.replies.len(), nodes(), jobs.try_iter().count()), (SHORT_JOB, 1, 0));

        // Of one that nobody waits for nothing stays.
        drop(forest.place(documents(1)));
        for job in jobs.try_iter() {
            job();
        }
        let settled = placed.replies.into_iter().filter_map(|reply| reply.placed?.settled(ItemOutcome::Refused));
        let report = futures_executor::block_on(forest.settle(settled.collect(), Millis(1))).unwrap();
        assert_eq!((report.withdrawn, nodes(), jobs.try_iter().count()), (1, 0, 0));

        let mut many = forest.place(documents(SHORT_JOB + 1));
        assert!(now(&mut many).is_none());
        jobs.try_recv().unwrap()();
        assert_eq!(now(&mut many).unwrap().replies.len(), SHORT_JOB + 1);

        // Somebody works here.
        let at_work = forest.shared.state.lock();
        let mut waits = forest.place(documents(1));
        assert!(now(&mut waits).is_none());
        drop(at_work);
        jobs.try_recv().unwrap()();
        assert_eq!(now(&mut waits).unwrap().replies.len(), 1);
    }
}
