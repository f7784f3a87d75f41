//! The store and all processes at one moment, and every step that may come next. The processes run the code of
//! [`SharedForest`] itself: their commands stop at a desk, and a step does one of them.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use super::super::super::*;
use super::super::LeafValue;
use super::super::at;
use super::scenarios::{Faults, Scenario};
use super::scripted::{self, Scripted, ScriptedProof};
use crate::fingerprint::Distance;
use crate::forest::document::DocumentTime;
use crate::forest::port::{ItemOutcome, Placed};
use crate::forest::shared::keys::{KeySample, ScanPosition, StoreFuture, SyncEntries, SyncEntry};
use crate::forest::shared::layout::STEPS;
use crate::forest::shared::memory::InMemoryStore;

/// Milliseconds of a step, and of the window.
pub(super) const STEP: i64 = 1_000;
pub(super) const WINDOW: i64 = STEPS * STEP;

/// A job of a process.
type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the commands of one process wait to be done.
#[derive(Debug)]
pub(super) struct Desk {
    store: InMemoryStore,
    /// The time of all processes, in milliseconds.
    time: Arc<AtomicI64>,
    state: Mutex<DeskState>,
}

#[derive(Default)]
struct DeskState {
    jobs: Vec<Job>,
    pipelines: Vec<PendingPipeline>,
    /// A hash of all that it was ever told, which decides all that it does.
    heard: u64,
    sent: u64,
    pauses: u32,
    is_crashed: bool,
}

impl fmt::Debug for DeskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeskState").field("pauses", &self.pauses).finish_non_exhaustive()
    }
}

struct PendingPipeline {
    number: u64,
    commands: Vec<Command>,
    replies: Vec<Option<StoreReply>>,
    done: oneshot::Sender<Vec<StoreReply>>,
}

impl DeskState {
    fn hear(&mut self, what: impl Hash) {
        self.heard = hash((self.heard, what));
    }

    /// Hands over the replies of pipelines that are done.
    fn hand_over(&mut self) {
        let is_done = |pipeline: &mut PendingPipeline| pipeline.replies.iter().all(Option::is_some);
        let done: Vec<PendingPipeline> = self.pipelines.extract_if(.., is_done).collect();
        for pipeline in done {
            let replies: Vec<StoreReply> = pipeline.replies.into_iter().flatten().collect();
            self.hear((pipeline.number, &replies));
            let _ = pipeline.done.send(replies);
        }
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Others meet at these keys; what is done to the rest concerns nobody's placement.
fn meets_others(command: &Command) -> bool {
    matches!(command.key.kind, KeyKind::Node | KeyKind::Bucket | KeyKind::Clock | KeyKind::Sweep)
}

impl KeyStore for Desk {
    fn run(&self, commands: Vec<Command>) -> StoreFuture<Vec<StoreReply>> {
        let mut state = self.state.lock();
        let (done, answer) = oneshot::channel();
        if !state.is_crashed {
            let at_once = |command: &Command| (!meets_others(command)).then(|| self.store.run_one(command));
            let replies = commands.iter().map(at_once).collect();
            let number = state.sent;
            state.sent += 1;
            state.pipelines.push(PendingPipeline { number, commands, replies, done });
            state.hand_over();
        }
        Box::pin(async move { answer.await.map_err(|_| StoreUnavailable::of("it has crashed")) })
    }

    fn enroll(&self, name: &str, identity: &str) -> StoreFuture<Result<u8, String>> {
        self.store.enroll(name, identity)
    }

    fn forests(&self) -> StoreFuture<Vec<(String, u8, String)>> {
        self.store.forests()
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> StoreFuture<(Vec<Key>, Option<ScanPosition>)> {
        let all = self.store.nodes().iter().map(|(key, ..)| *key).collect::<Vec<_>>();
        self.state.lock().hear(&all);
        self.store.keys(forest, place)
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, after: SyncPosition) -> StoreFuture<SyncEntries> {
        self.store.sync_entries(forest, lesson, after)
    }

    fn remove_sync_entries(&self, forest: u8) -> StoreFuture<()> {
        self.store.remove_sync_entries(forest)
    }

    fn size(&self) -> StoreFuture<(usize, usize)> {
        self.store.size()
    }

    fn sample(&self, forest: u8, seed: u64) -> StoreFuture<KeySample> {
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
        self.state.lock().hear(at);
        Millis(at)
    }

    fn now(&self) -> Millis {
        Millis(0)
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn away(&self) -> Option<StoreUnavailable> {
        None
    }
}

/// Runs jobs where they are given: they are of microseconds.
struct AtOnce;

impl Executor for AtOnce {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// One process.
struct Process {
    desk: Arc<Desk>,
    tasks: Vec<Job>,
    woken: Arc<Woken>,
    is_crashed: bool,
}

impl Process {
    /// Goes on until it waits for replies.
    fn go_on(&mut self) {
        let waker = Waker::from(self.woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            self.woken.0.store(false, Relaxed);
            let new = std::mem::take(&mut self.desk.state.lock().jobs);
            self.tasks.extend(new);
            self.tasks.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
            if self.desk.state.lock().jobs.is_empty() && !self.woken.0.load(Relaxed) {
                return;
            }
        }
    }

    fn crash(&mut self) {
        self.is_crashed = true;
        let pipelines = {
            let mut state = self.desk.state.lock();
            state.is_crashed = true;
            std::mem::take(&mut state.pipelines)
        };
        // Nobody reads why: the tasks go first.
        drop(std::mem::take(&mut self.tasks));
        drop(std::mem::take(&mut self.desk.state.lock().jobs));
        drop(pipelines);
    }

    fn is_over(&self) -> bool {
        self.is_crashed || self.tasks.is_empty()
    }
}

/// What the client of an accepted document was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Told {
    pub(super) root: Root,
    pub(super) token: Option<FoundingToken>,
    /// The time of its placement.
    pub(super) time: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The next command of a process, by its place among those that wait.
    Do(usize, usize),
    /// It is done, and its reply is lost.
    DoneUnheard(usize, usize),
    /// Its reply does not come in time, and it may be done at any time after.
    Delayed(usize, usize),
    /// What was delayed is done.
    Late,
    Crash(usize),
    /// A window's time goes on.
    Tick,
    Expire(Key),
    /// A write that no replica had.
    Vanish(Key),
}

/// See the module.
pub(super) struct World<'s> {
    scenario: &'s Scenario,
    pub(super) store: InMemoryStore,
    time: Arc<AtomicI64>,
    processes: Vec<Process>,
    late: Option<Command>,
    left: Faults,
    /// Whether a write was lost by the store itself.
    pub(super) has_lost: bool,
    pub(super) told: Arc<Mutex<Vec<Option<Told>>>>,
    /// Of refused documents that are not settled yet.
    gates: Vec<(usize, oneshot::Sender<()>)>,
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(Process::crash);
    }
}

/// A forest of a process.
pub(super) fn forest(scenario: &Scenario, desk: Arc<Desk>, seed: u64) -> SharedForest<Scripted> {
    let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree: None, founder_token_bytes: 0 };
    let forest = SharedForest::new(("model", ""), settings, (), (), Arc::new(AtOnce), desk, (seed + 1) << 32);
    // Who has waited once may end the tree of another.
    forest.inner.turns.0.lock().first_pause = Duration::from_secs(1);
    let forest = forest.with_distance(SharedDistance::new(Distance(scenario.k)).unwrap());
    if scenario.is_dated { forest.dated() } else { forest }
}

/// A document of a scenario.
pub(super) fn document(scenario: &Scenario, doc: usize) -> PlacementDocument {
    let text = &scenario.docs[doc];
    let is_apart = |&&(one, other): &&(usize, usize)| one == doc || other == doc;
    let others = scenario.apart.iter().filter(is_apart).map(|&(one, other)| if one == doc { other } else { one });
    let apart = others.fold(0, |apart, other| apart | 1 << scenario.docs[other].text);
    let features = scripted::features(text.prints, text.whole, text.text, apart, text.take);
    let mut document = at(features, i64::from(text.rank));
    if scenario.is_dated {
        document.when = DocumentTime::Claimed(Millis(i64::from(text.rank) * STEP));
    }
    document
}

/// Sends the bulks of one process: each is placed, accepted by the cluster, and settled.
async fn send(
    scenario: Scenario,
    bulks: Vec<Vec<usize>>,
    forest: Arc<SharedForest<Scripted>>,
    time: Arc<AtomicI64>,
    told: Arc<Mutex<Vec<Option<Told>>>>,
    mut until: Option<oneshot::Receiver<()>>,
) {
    for bulk in bulks {
        let documents = bulk.iter().map(|&doc| document(&scenario, doc)).collect();
        let now = time.load(Relaxed);
        let Ok(placements) = forest.place(Batch { documents, ..Batch::default() }).await else {
            continue;
        };
        let placed = placements.replies.into_iter().map(|reply| reply.placed.unwrap());
        let mut settled = Vec::new();
        for (doc, placed) in bulk.into_iter().zip(placed) {
            let outcome = match scenario.docs[doc].refused {
                true => ItemOutcome::Refused,
                false => ItemOutcome::Accepted,
            };
            if outcome == ItemOutcome::Accepted {
                told.lock()[doc] = Some(tell(&placed, now));
            }
            settled.extend(placed.settled(outcome));
        }
        if let Some(until) = until.take() {
            let _ = until.await;
        }
        let _ = forest.settle(settled, Millis(0)).await;
    }
}

fn tell(placed: &Placed, time: i64) -> Told {
    let ticket = placed.ticket.as_ref();
    let token = ticket.and_then(|ticket| Some(ticket.rollback.shared()?.token));
    Told { root: placed.root, token, time }
}

impl<'s> World<'s> {
    pub(super) fn new(scenario: &'s Scenario, left: Faults) -> World<'s> {
        let mut world = World::without_processes(scenario, left);
        for (at, bulks) in scenario.bulks.iter().enumerate() {
            let bulks = bulks.iter().map(|bulk| bulk.to_vec()).collect();
            world.start(at, bulks, None);
        }
        world
    }

    /// With the trees that are there from the beginning, and nobody who sends anything.
    pub(super) fn without_processes(scenario: &'s Scenario, left: Faults) -> World<'s> {
        let mut world = World {
            scenario,
            store: InMemoryStore::default(),
            time: Arc::default(),
            processes: Vec::new(),
            late: None,
            left,
            has_lost: false,
            told: Arc::new(Mutex::new(vec![None; scenario.docs.len()])),
            gates: Vec::new(),
        };
        for &founder in scenario.trees {
            world.start(20 + founder, vec![vec![founder]], None);
            world.drain();
        }
        world.processes.clear();
        world
    }

    /// Starts a process.
    fn start(&mut self, seed: usize, bulks: Vec<Vec<usize>>, until: Option<oneshot::Receiver<()>>) {
        let desk = Desk { store: self.store.clone(), time: self.time.clone(), state: Mutex::default() };
        let desk = Arc::new(desk);
        let forest = Arc::new(forest(self.scenario, desk.clone(), seed as u64));
        let told = self.told.clone();
        let task = send(*self.scenario, bulks, forest, self.time.clone(), told, until);
        let mut process = Process { desk, tasks: vec![Box::pin(task)], woken: Arc::default(), is_crashed: false };
        process.go_on();
        self.processes.push(process);
    }

    /// Does all that waits, in order.
    fn drain(&mut self) {
        let has_more = |process: &Process| !process.desk.state.lock().pipelines.is_empty();
        while let Some(at) = self.processes.iter().position(has_more) {
            self.execute(at, 0);
            self.processes[at].go_on();
        }
    }

    /// A number that stands for it.
    pub(super) fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (key, bytes, until) in self.values() {
            (key, bytes, until).hash(&mut hasher);
        }
        for process in &self.processes {
            let state = process.desk.state.lock();
            (process.is_crashed, process.tasks.len()).hash(&mut hasher);
            if process.is_over() {
                continue;
            }
            state.heard.hash(&mut hasher);
            for pipeline in &state.pipelines {
                (pipeline.number, &pipeline.replies).hash(&mut hasher);
            }
        }
        (self.time.load(Relaxed), self.has_lost, self.left, &*self.told.lock()).hash(&mut hasher);
        if let Some(late) = &self.late {
            format!("{late:?}").hash(&mut hasher);
        }
        hasher.finish()
    }

    fn values(&self) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        let kinds = [KeyKind::Node, KeyKind::Bucket, KeyKind::Clock, KeyKind::Sweep];
        let mut values: Vec<_> = kinds.into_iter().flat_map(|kind| self.store.with_expiry(kind)).collect();
        values.sort_unstable();
        values
    }

    pub(super) fn nodes(&self) -> Vec<(Root, NodeValue<ScriptedProof>)> {
        let nodes = self.store.nodes().into_iter();
        nodes.map(|(key, bytes, _)| (Root(key.fingerprint), NodeValue::read(&bytes).unwrap())).collect()
    }

    pub(super) fn time(&self) -> i64 {
        self.time.load(Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.processes.iter().all(Process::is_over)
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.processes.iter().any(|process| process.is_crashed)
    }

    /// Whether a document was tried too often to go on with it.
    pub(super) fn is_cut(&self) -> bool {
        self.processes.iter().any(|process| process.desk.state.lock().pauses >= self.scenario.attempts)
    }

    /// Every step that may come next.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let busy = self.processes.iter().filter(|process| !process.is_over()).count();
        let any_fault = self.late.is_some() || self.left != Faults::default();
        for (at, process) in self.processes.iter().enumerate() {
            if process.is_over() {
                continue;
            }
            if self.left.crashes > 0 {
                steps.push(Step::Crash(at));
            }
            let state = process.desk.state.lock();
            let waiting = state.waiting();
            // The commands of one who is alone have no other order to be seen in; of three processes each keeps to
            // its order, which bounds the search.
            let in_order = busy == 1 && !any_fault || self.processes.len() > 2;
            for (place, command) in waiting.iter().enumerate().take(if in_order { 1 } else { usize::MAX }) {
                steps.push(Step::Do(at, place));
                if self.left.losses > 0 && command.what != KeyOp::Get {
                    steps.push(Step::DoneUnheard(at, place));
                    if self.late.is_none() {
                        steps.push(Step::Delayed(at, place));
                    }
                }
            }
        }
        if self.late.is_some() {
            steps.push(Step::Late);
        }
        if self.left.ticks > 0 && busy > 0 {
            steps.push(Step::Tick);
        }
        if busy > 0 {
            for (key, bytes, until) in self.store.nodes() {
                if self.left.expiries > 0 && self.may_expire(key, &bytes, until) {
                    steps.push(Step::Expire(key));
                }
                if self.left.vanishes > 0 {
                    steps.push(Step::Vanish(key));
                }
            }
        }
        steps
    }

    /// A leaf goes when its window has passed, a confirmed root when all of its leaves have gone, a provisional one
    /// when its lease has run out, which is any time.
    fn may_expire(&self, key: Key, bytes: &[u8], until: Option<i64>) -> bool {
        let ends_within = |steps: i64| until.is_some_and(|until| until <= self.time() + steps * STEP);
        match NodeValue::<ScriptedProof>::read(bytes) {
            Some(NodeValue::Leaf(_)) => ends_within(2),
            Some(NodeValue::Root(root)) if root.is_confirmed => {
                let is_of = |leaf: LeafValue| (leaf.root, leaf.token) == (Root(key.fingerprint), root.token);
                let has_leaf =
                    self.nodes().iter().any(|(_, node)| matches!(node, NodeValue::Leaf(leaf) if is_of(*leaf)));
                ends_within(4) && !has_leaf
            }
            _ => true,
        }
    }

    pub(super) fn apply(&mut self, step: Step) {
        match step {
            Step::Do(at, place) => {
                self.execute(at, place);
                self.processes[at].go_on();
            }
            Step::DoneUnheard(at, place) => {
                self.left.losses -= 1;
                let command = self.processes[at].desk.state.lock().waiting()[place].clone();
                self.store.run_one(&command);
                self.is_unheard(at, place, &command);
            }
            Step::Delayed(at, place) => {
                self.left.losses -= 1;
                let command = self.processes[at].desk.state.lock().waiting()[place].clone();
                self.is_unheard(at, place, &command);
                self.late = Some(command);
            }
            Step::Late => {
                let late = self.late.take().unwrap();
                self.store.run_one(&late);
            }
            Step::Crash(at) => {
                self.left.crashes -= 1;
                self.processes[at].crash();
            }
            Step::Tick => {
                self.left.ticks -= 1;
                self.time.fetch_add(WINDOW, Relaxed);
            }
            Step::Expire(key) => {
                self.left.expiries -= 1;
                self.store.remove(&key);
            }
            Step::Vanish(key) => {
                self.left.vanishes -= 1;
                self.has_lost = true;
                self.store.remove(&key);
            }
        }
    }

    /// A command whose reply is lost is sent again if that is harmless; of others a reply is assumed.
    fn is_unheard(&mut self, at: usize, place: usize, command: &Command) {
        if let Some(assumed) = command.what.reply_if_lost() {
            self.processes[at].desk.state.lock().reply(place, assumed);
            self.processes[at].go_on();
        }
    }

    fn execute(&mut self, at: usize, place: usize) {
        let mut state = self.processes[at].desk.state.lock();
        let command = state.waiting()[place].clone();
        let reply = self.store.run_one(&command);
        state.reply(place, reply);
    }

    /// A step in words, before it is done.
    pub(super) fn describe(&self, step: Step) -> String {
        let command = |at: usize, place: usize| {
            let command = self.processes[at].desk.state.lock().waiting()[place].clone();
            let what = format!("{:?}", command.what);
            let name = what.split([' ', '{']).next().unwrap_or_default().to_owned();
            format!("{name} {:?} {:x}", command.key.kind, command.key.fingerprint.0)
        };
        match step {
            Step::Do(at, place) => format!("{at}: {}", command(at, place)),
            Step::DoneUnheard(at, place) => format!("{at}: {}, and its reply is lost", command(at, place)),
            Step::Delayed(at, place) => format!("{at}: {} is delayed", command(at, place)),
            Step::Late => "what was delayed is done".to_owned(),
            Step::Crash(at) => format!("{at} crashes"),
            Step::Tick => "a window's time goes on".to_owned(),
            Step::Expire(key) => format!("{:x} expires", key.fingerprint.0),
            Step::Vanish(key) => format!("{:x} is lost", key.fingerprint.0),
        }
    }

    /// Places a document while nobody else does anything. One that will be refused is settled by
    /// [`withdraw`](World::withdraw).
    pub(super) fn place_alone(&mut self, doc: usize) {
        let (gate, until) = oneshot::channel();
        let is_refused = self.scenario.docs[doc].refused;
        self.start(20 + doc, vec![vec![doc]], is_refused.then_some(until));
        self.gates.push((doc, gate));
        self.drain();
    }

    /// Places a copy of a document while nobody else does anything, and answers the root that it is told.
    pub(super) fn ask_alone(&mut self, doc: usize) -> Option<Root> {
        let told = self.told.lock().clone();
        self.start(40 + doc, vec![vec![doc]], None);
        self.drain();
        let asked = std::mem::replace(&mut *self.told.lock(), told);
        asked[doc].map(|told| told.root)
    }

    pub(super) fn withdraw(&mut self, doc: usize) {
        self.gates.retain(|(of, _)| *of != doc);
        self.processes.iter_mut().for_each(Process::go_on);
        self.drain();
    }
}

impl DeskState {
    /// The commands that wait, in the order in which they were sent.
    fn waiting(&self) -> Vec<&Command> {
        let each = self.pipelines.iter().flat_map(|of| of.commands.iter().zip(&of.replies));
        each.filter(|(_, reply)| reply.is_none()).map(|(command, _)| command).collect()
    }

    fn reply(&mut self, place: usize, with: StoreReply) {
        let mut open = self.pipelines.iter_mut().flat_map(|of| &mut of.replies).filter(|reply| reply.is_none());
        *open.nth(place).unwrap() = Some(with);
        self.hand_over();
    }
}
