//! A process and the desk at which its commands stop: a step of the search does one of them.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use super::super::super::*;
use super::people::Corrected;
use crate::shared::keys::{KeySample, RedisFuture, RoundFailed, RoundFuture, ScanPosition, SyncEntries, SyncEntry};
use crate::shared::memory::InMemoryRedis;
use crate::text_fields::FieldRecord;

/// A job of a process.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the commands of one process wait to be done.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) store: InMemoryRedis,
    /// The time of all processes, in milliseconds.
    pub(super) time: Arc<AtomicI64>,
    pub(super) meeting: Arc<Meeting>,
    pub(super) state: Mutex<DeskState>,
}

/// Where commands of one process may meet those of another. The others are done as soon as they are sent: in which
/// order, nobody sees.
#[derive(Debug)]
pub(super) struct Meeting {
    /// Buckets of more than one fingerprint.
    pub(super) buckets: HashSet<Fingerprint>,
    pub(super) has_people: bool,
}

impl Meeting {
    fn is_at(&self, key: &Key) -> bool {
        match key.kind {
            KeyKind::Node | KeyKind::Clock | KeyKind::Sweep => true,
            KeyKind::Bucket => self.buckets.contains(&key.fingerprint),
            KeyKind::Overrides | KeyKind::Acknowledgements => self.has_people,
            KeyKind::FounderTokens => false,
        }
    }
}

#[derive(Default)]
pub(super) struct DeskState {
    pub(super) jobs: Vec<Job>,
    pub(super) pipelines: Vec<PendingPipeline>,
    /// Bulks that the cluster has not answered yet.
    pub(super) writes: Vec<oneshot::Sender<()>>,
    /// Bulks that are settled.
    pub(super) settled: u64,
    /// By what name it acknowledges overrides.
    pub(super) registered: Option<u64>,
    /// A hash of all that it was ever told, which decides all that it does.
    pub(super) received: u64,
    sent: u64,
    pub(super) pauses: u32,
    is_crashed: bool,
}

impl fmt::Debug for DeskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeskState").field("pauses", &self.pauses).finish_non_exhaustive()
    }
}

pub(super) struct PendingPipeline {
    pub(super) number: u64,
    commands: Vec<Command>,
    pub(super) replies: Vec<Option<RedisReply>>,
    done: oneshot::Sender<Vec<RedisReply>>,
}

impl DeskState {
    pub(super) fn receive(&mut self, what: impl Hash) {
        self.received = hash((self.received, what));
    }

    /// Hands over the replies of pipelines that are done.
    fn hand_over(&mut self) {
        let is_done = |pipeline: &mut PendingPipeline| pipeline.replies.iter().all(Option::is_some);
        let done: Vec<PendingPipeline> = self.pipelines.extract_if(.., is_done).collect();
        for pipeline in done {
            let replies: Vec<RedisReply> = pipeline.replies.into_iter().flatten().collect();
            self.receive((pipeline.number, &replies));
            let _ = pipeline.done.send(replies);
        }
    }
}

pub(super) fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Desk {
    /// The cluster stores a bulk, some time.
    pub(super) async fn written(&self) {
        let (done, written) = oneshot::channel();
        self.state.lock().writes.push(done);
        let _ = written.await;
    }
}

impl RedisClient for Desk {
    fn run(&self, commands: Vec<Command>) -> RoundFuture {
        let mut state = self.state.lock();
        let (done, answer) = oneshot::channel();
        if !state.is_crashed {
            let at_once = |command: &Command| (!self.meeting.is_at(&command.key)).then(|| self.store.run_one(command));
            let replies = commands.iter().map(at_once).collect();
            for command in &commands {
                if let KeyOp::Acknowledge { process, .. } = command.what {
                    state.registered = Some(process);
                }
            }
            let number = state.sent;
            state.sent += 1;
            state.pipelines.push(PendingPipeline { number, commands, replies, done });
            state.hand_over();
        }
        let crashed = || RoundFailed::of(RedisUnavailable::of("it has crashed"));
        Box::pin(async move { answer.await.map_err(|_| crashed()) })
    }

    fn enroll(&self, name: &str, identity: &str) -> RedisFuture<Result<u8, String>> {
        self.store.enroll(name, identity)
    }

    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> RedisFuture<()> {
        self.store.declare(name, identity, fields)
    }

    fn fields(&self, name: &str) -> RedisFuture<FieldRecord> {
        self.store.fields(name)
    }

    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> RedisFuture<Result<(), String>> {
        self.store.agree_on_fields(name, fields)
    }

    fn forests(&self) -> RedisFuture<Vec<(String, u8, String)>> {
        self.store.forests()
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> RedisFuture<(Vec<Key>, Option<ScanPosition>)> {
        let all = self.store.nodes().iter().map(|(key, ..)| *key).collect::<Vec<_>>();
        self.state.lock().receive(&all);
        self.store.keys(forest, place)
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> RedisFuture<SyncEntries> {
        self.store.sync_entries(forest, lesson, from)
    }

    fn remove_sync_entries(&self, forest: u8) -> RedisFuture<()> {
        self.store.remove_sync_entries(forest)
    }

    fn size(&self) -> RedisFuture<(usize, usize)> {
        self.store.size()
    }

    fn sample(&self, forest: u8, seed: u64) -> RedisFuture<KeySample> {
        self.store.sample(forest, seed)
    }

    fn spawn(&self, job: Job) {
        let mut state = self.state.lock();
        if state.is_crashed {
            // What it holds may spawn again when it is dropped.
            drop(state);
            return drop(job);
        }
        state.jobs.push(job);
    }

    /// Any time may pass between two commands, so none has to pass here.
    fn pause(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.state.lock().pauses += 1;
        Box::pin(std::future::ready(()))
    }

    fn arrival(&self, claimed: Millis) -> Millis {
        let at = self.time.load(Relaxed) + claimed.0;
        self.state.lock().receive(at);
        Millis(at)
    }

    fn now(&self) -> Millis {
        Millis(0)
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn away(&self) -> Option<RedisUnavailable> {
        None
    }
}

/// Runs jobs where they are given: they are of microseconds.
pub(super) struct AtOnce;

impl Executor for AtOnce {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

#[derive(Default)]
pub(super) struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// One process.
pub(super) struct Process {
    pub(super) desk: Arc<Desk>,
    pub(super) tasks: Vec<Job>,
    pub(super) corrected: Arc<Corrected>,
    /// What it could read when it last acknowledged overrides.
    pub(super) read: u64,
    pub(super) woken: Arc<Woken>,
    pub(super) is_crashed: bool,
}

impl Process {
    /// Goes on until it waits for replies.
    pub(super) fn go_on(&mut self) {
        let waker = Waker::from(self.woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            self.woken.0.store(false, Relaxed);
            let new = std::mem::take(&mut self.desk.state.lock().jobs);
            self.tasks.extend(new);
            let running = self.tasks.len();
            self.tasks.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
            // Another one may have waited for one that has ended.
            if self.tasks.len() == running && self.desk.state.lock().jobs.is_empty() && !self.woken.0.load(Relaxed) {
                return;
            }
        }
    }

    pub(super) fn crash(&mut self) {
        self.is_crashed = true;
        let pipelines = {
            let mut state = self.desk.state.lock();
            state.is_crashed = true;
            std::mem::take(&mut state.pipelines)
        };
        // Nobody reads why: the tasks go first.
        drop(std::mem::take(&mut self.tasks));
        drop(std::mem::take(&mut self.desk.state.lock().jobs));
        drop(std::mem::take(&mut self.desk.state.lock().writes));
        drop(pipelines);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_crashed || self.tasks.is_empty()
    }
}

impl DeskState {
    /// The commands that wait, in the order in which they were sent.
    pub(super) fn waiting(&self) -> Vec<&Command> {
        let each = self.pipelines.iter().flat_map(|of| of.commands.iter().zip(&of.replies));
        each.filter(|(_, reply)| reply.is_none()).map(|(command, _)| command).collect()
    }

    /// The answer to a waiting command is lost, and it is sent again.
    pub(super) fn send_again(&mut self, place: usize) {
        let each = self.pipelines.iter_mut().flat_map(|of| of.commands.iter_mut().zip(&of.replies));
        let mut waiting = each.filter(|(_, reply)| reply.is_none());
        waiting.nth(place).unwrap().0.what.send_again();
    }

    pub(super) fn reply(&mut self, place: usize, with: RedisReply) {
        let mut open = self.pipelines.iter_mut().flat_map(|of| &mut of.replies).filter(|reply| reply.is_none());
        *open.nth(place).unwrap() = Some(with);
        self.hand_over();
    }
}
