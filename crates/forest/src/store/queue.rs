//! State shared by callers and the writer thread: queued batches and waiters.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::directory::Directory;
use super::error::StoreFailure;
use super::format::{BatchHead, RecordHead};
use super::{Durability, Lsn, Status};

/// Queued bytes above which callers have to wait.
pub(super) const ROOM: usize = 64 << 20;
/// Bytes that are written at once, unless one batch is longer.
const AT_ONCE: usize = 8 << 20;
/// [`Durability::None`]: bytes or time after which gathered batches are written.
const GATHERED: usize = 256 << 10;
const GATHERING: Duration = Duration::from_secs(1);
/// The journal is at least this much longer before a snapshot is worth while.
pub(super) const SNAPSHOT_AFTER: u64 = 64 << 20;

/// Reports the result of a writer job to its waiter.
pub(super) type Done = mpsc::Sender<Result<(), Arc<io::Error>>>;
type Waiter = oneshot::Sender<Result<(), StoreFailure>>;

/// One job of the writer; they are done in their order.
pub(super) enum Job {
    Batch(Vec<u8>),
    /// Instead of a batch: all before it is written, and nothing after it.
    Refused(StoreFailure),
    /// The next batch begins a new segment.
    NewSegment(Done),
    /// Syncs everything before it, whatever the durability.
    Sync(Done),
}

/// Next work of the writer.
#[derive(Default)]
pub(super) struct NextWork {
    pub(super) jobs: Vec<Job>,
    /// Of its batches, heads and payloads.
    pub(super) bytes: usize,
    /// All is to be synced in the end.
    pub(super) sync: bool,
    /// Whether it is the last job.
    pub(super) last: bool,
}

/// Deadlines of waiting work.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// [`Durability::None`]: when gathered batches are written.
    pub(super) write: Option<Instant>,
    /// [`Durability::Interval`]: when written batches are synced.
    pub(super) sync: Option<Instant>,
}

/// How far the journal is.
#[derive(Debug, Clone, Copy)]
pub(super) struct DurablePosition {
    pub(super) written: Lsn,
    pub(super) synced: Lsn,
}

/// Called when a writer has something to do.
pub type OnWork = Box<dyn Fn() + Send + Sync>;

/// One store, as its handle, its writer and its snapshots see it. The lock is held for a push or a take, never while
/// anything is written.
pub(super) struct StoreShared {
    pub(super) directory: Directory,
    /// The checksum of the identity.
    pub(super) identity: u64,
    pub(super) durability: Durability,
    queue: Mutex<Queue>,
    /// The writer waits here.
    work: Condvar,
    /// Signals free capacity to waiting callers.
    room: Condvar,
    /// Called when a writer that no thread runs has something to do.
    on_work: Option<OnWork>,
}

pub(super) struct Queue {
    jobs: VecDeque<Job>,
    /// Queued jobs other than batches, whose callers wait.
    urgent: usize,
    /// Bytes of batches that are not written yet, those with the writer among them.
    bytes: usize,
    /// Urgent jobs that the writer has taken.
    taken: usize,
    pub(super) next: Lsn,
    reached: DurablePosition,
    waiters: BTreeMap<Lsn, Vec<Waiter>>,
    pub(super) failure: Option<StoreFailure>,
    /// The first batch that never becomes durable, with the failure. The writer fails when it has come so far.
    refused: Option<(Lsn, StoreFailure)>,
    stopping: bool,
    /// Bytes of all batches since the beginning of the journal.
    pub(super) journal: u64,
    pub(super) snapshot: Snapshots,
}

/// Decides when a snapshot pays, by bytes of journal.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// One is being written.
    pub(super) running: bool,
    /// Where the last one begins.
    pub(super) begins: u64,
    /// How long the last one is.
    pub(super) len: u64,
    /// Not earlier than here: one has failed.
    pub(super) not_before: u64,
}

impl Snapshots {
    /// Whether a snapshot is due for a journal of this length.
    pub(super) fn is_due(&self, journal: u64) -> bool {
        let since = journal - self.begins;
        !self.running && journal >= self.not_before && since > SNAPSHOT_AFTER.max(self.len / 2)
    }
}

impl Queue {
    /// An empty queue for a journal that is synced up to the batch before `next`.
    pub(super) fn new(next: Lsn, journal: u64, snapshot: u64) -> Queue {
        let last = next.before();
        Queue {
            jobs: VecDeque::new(),
            urgent: 0,
            bytes: 0,
            taken: 0,
            next,
            reached: DurablePosition { written: last, synced: last },
            waiters: BTreeMap::new(),
            failure: None,
            refused: None,
            stopping: false,
            journal,
            snapshot: Snapshots { len: snapshot, ..Snapshots::default() },
        }
    }

    /// The failure that stopped the store.
    pub(super) fn failure(&self) -> Option<StoreFailure> {
        let refused = self.refused.as_ref().map(|(_, failure)| failure);
        self.failure.as_ref().or(refused).cloned()
    }

    /// The last batch that was appended.
    pub(super) fn last(&self) -> Lsn {
        self.next.before()
    }

    pub(super) fn push(&mut self, job: Job) {
        self.urgent += usize::from(!matches!(job, Job::Batch(_)));
        self.jobs.push_back(job);
    }

    fn durable(&self, durability: Durability) -> Lsn {
        match (durability, &self.failure) {
            (Durability::Batch, _) => self.reached.synced,
            (Durability::None, None) => self.last(),
            (Durability::Interval(_) | Durability::None, _) => self.reached.written,
        }
    }

    /// Returns the work due now, or the time until which to wait.
    fn poll(&mut self, durability: Durability, timers: &mut Timers, now: Instant) -> Result<NextWork, Option<Instant>> {
        let waiting = self.bytes - self.taken;
        let gathers = durability == Durability::None && self.urgent == 0 && waiting < GATHERED;
        let sync = timers.sync.is_some_and(|due| due <= now);
        let ready = if self.stopping {
            true
        } else if self.jobs.is_empty() {
            sync
        } else {
            let due = *timers.write.get_or_insert(now + GATHERING);
            !gathers || due <= now
        };
        if !ready {
            return Err(if self.jobs.is_empty() { timers.sync } else { timers.write });
        }
        timers.write = None;
        Ok(self.take(sync))
    }

    fn take(&mut self, sync: bool) -> NextWork {
        let mut work = NextWork::default();
        while work.bytes < AT_ONCE
            && let Some(job) = self.jobs.pop_front()
        {
            match &job {
                Job::Batch(payload) => work.bytes += BatchHead::LEN + payload.len(),
                Job::NewSegment(_) | Job::Sync(_) | Job::Refused(_) => self.urgent -= 1,
            }
            work.jobs.push(job);
        }
        self.taken = work.bytes;
        work.last = self.stopping && self.jobs.is_empty();
        work.sync = sync || work.last;
        work
    }
}

impl StoreShared {
    pub(super) fn new(
        directory: Directory,
        identity: u64,
        durability: Durability,
        queue: Queue,
        on_work: Option<OnWork>,
    ) -> StoreShared {
        StoreShared {
            directory,
            identity,
            durability,
            queue: Mutex::new(queue),
            work: Condvar::new(),
            room: Condvar::new(),
            on_work,
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// The writer has something to do.
    pub(super) fn wake_writer(&self) {
        self.work.notify_one();
        if let Some(on_work) = &self.on_work {
            on_work();
        }
    }

    pub(super) fn append(&self, payload: Vec<u8>) -> Lsn {
        let mut queue = self.queue();
        let lsn = queue.next;
        queue.next = lsn.next();
        // The writer has stopped; `durable` reports why.
        if queue.failure.is_some() || queue.refused.is_some() {
            return lsn;
        }
        let bytes = BatchHead::LEN + payload.len();
        queue.bytes += bytes;
        queue.journal += bytes as u64;
        let was_empty = queue.jobs.is_empty();
        queue.push(Job::Batch(payload));
        // The writer knows already, or gathers.
        let wake = was_empty || queue.bytes - queue.taken >= GATHERED;
        drop(queue);
        if wake {
            self.wake_writer();
        }
        lsn
    }

    pub(super) fn refuse(&self, reason: &str) -> Lsn {
        let mut queue = self.queue();
        let lsn = queue.next;
        queue.next = lsn.next();
        if queue.failure.is_none() && queue.refused.is_none() {
            let failure = StoreFailure::Unreadable { reason: reason.to_owned() };
            queue.refused = Some((lsn, failure.clone()));
            queue.push(Job::Refused(failure));
            drop(queue);
            self.wake_writer();
        }
        lsn
    }

    pub(super) fn durable(&self, lsn: Lsn) -> oneshot::Receiver<Result<(), StoreFailure>> {
        let (waiter, answer) = oneshot::channel();
        let mut queue = self.queue();
        let refused = queue.refused.as_ref().filter(|(first, _)| lsn >= *first);
        if let Some((_, failure)) = refused {
            let _ = waiter.send(Err(failure.clone()));
        } else if lsn <= queue.durable(self.durability) {
            let _ = waiter.send(Ok(()));
        } else if let Some(failure) = &queue.failure {
            let _ = waiter.send(Err(failure.clone()));
        } else {
            queue.waiters.entry(lsn).or_default().push(waiter);
        }
        answer
    }

    pub(super) fn has_room(&self) -> bool {
        self.queue().bytes < ROOM
    }

    pub(super) fn wait_for_room(&self) -> Result<(), StoreFailure> {
        let mut queue = self.queue();
        loop {
            if let Some(failure) = queue.failure() {
                return Err(failure);
            }
            if queue.bytes < ROOM {
                return Ok(());
            }
            self.room.wait(&mut queue);
        }
    }

    /// Waits for something to do.
    pub(super) fn wait_for_work(&self, timers: &mut Timers) -> NextWork {
        let mut queue = self.queue();
        loop {
            match queue.poll(self.durability, timers, Instant::now()) {
                Ok(work) => return work,
                Err(Some(until)) => {
                    self.work.wait_until(&mut queue, until);
                }
                Err(None) => self.work.wait(&mut queue),
            }
        }
    }

    /// Returns the work due at this time without waiting.
    pub(super) fn work_at(&self, timers: &mut Timers, now: Instant) -> Option<NextWork> {
        self.queue().poll(self.durability, timers, now).ok()
    }

    /// Publishes the durable position to waiters, and that the writer holds `bytes` fewer.
    pub(super) fn publish(&self, reached: DurablePosition) {
        let mut queue = self.queue();
        queue.reached = reached;
        queue.bytes -= queue.taken;
        queue.taken = 0;
        let durable = queue.durable(self.durability);
        let later = queue.waiters.split_off(&durable.next());
        let woken = std::mem::replace(&mut queue.waiters, later);
        drop(queue);
        self.room.notify_all();
        for waiter in woken.into_values().flatten() {
            // A waiter that has gone needs no answer.
            let _ = waiter.send(Ok(()));
        }
    }

    /// Nothing is written any more.
    pub(super) fn fail(&self, failure: StoreFailure) {
        let mut queue = self.queue();
        let failure = queue.failure.get_or_insert(failure).clone();
        let jobs = std::mem::take(&mut queue.jobs);
        let woken = std::mem::take(&mut queue.waiters);
        queue.urgent = 0;
        queue.bytes = 0;
        queue.taken = 0;
        drop(queue);
        // Dropping the jobs tells their waiters.
        drop(jobs);
        self.room.notify_all();
        for waiter in woken.into_values().flatten() {
            let _ = waiter.send(Err(failure.clone()));
        }
    }

    /// The writer ends when all that is queued is done.
    pub(super) fn stop(&self) {
        self.queue().stopping = true;
        self.wake_writer();
    }

    pub(super) fn status(&self) -> Status {
        let queue = self.queue();
        Status {
            appended: queue.last(),
            durable: queue.durable(self.durability),
            queued: queue.bytes as u64,
            journal: queue.journal - queue.snapshot.begins,
            snapshot: queue.snapshot.len,
        }
    }
}
