//! Redis and all processes at one moment, and every step that may come next. The processes run the code of
//! [`SharedForest`] itself.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use spinney_text::fingerprint::Distance;

use super::super::super::*;
use super::super::LeafValue;
use super::super::at;
use super::desk::{AtOnce, Desk, Job, Meeting, Process, hash};
use super::people::{Corrected, Index};
use super::scenarios::{Faults, Scenario};
use super::scripted::{self, Scripted, ScriptedProof};
use crate::document::DocumentTime;
use crate::port::{ItemOutcome, RootAssignment};
use crate::shared::layout::STEPS;
use crate::shared::memory::InMemoryRedis;

/// Milliseconds of a step, and of the window.
pub(super) const STEP: i64 = 1_000;
pub(super) const WINDOW: i64 = STEPS * STEP;

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
    DoneReplyLost(usize, usize),
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
    /// The cluster stores a bulk, by its place among those of a process.
    Write(usize, usize),
    /// A process reads and acknowledges overrides.
    Tell(usize),
}

impl Step {
    /// The process that goes on with it.
    pub(super) fn process(self) -> Option<usize> {
        match self {
            Step::Do(at, _)
            | Step::DoneReplyLost(at, _)
            | Step::Delayed(at, _)
            | Step::Write(at, _)
            | Step::Tell(at) => Some(at),
            Step::Late | Step::Crash(_) | Step::Tick | Step::Expire(_) | Step::Vanish(_) => None,
        }
    }
}

/// See the module.
pub(super) struct World<'s> {
    scenario: &'s Scenario,
    pub(super) store: InMemoryRedis,
    time: Arc<AtomicI64>,
    meeting: Arc<Meeting>,
    processes: Vec<Process>,
    late: Option<Command>,
    left: Faults,
    /// Whether a write was lost by Redis itself.
    pub(super) has_lost: bool,
    pub(super) told: Arc<Mutex<Vec<Option<Told>>>>,
    pub(super) index: Arc<Mutex<Index>>,
    /// Roots that had gone when a document of theirs was accepted: a leap of the clock had put an end to them.
    pub(super) missed: BTreeSet<Root>,
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
    let forest = SharedForest::new(
        ForestSetup { name: "model", identity: "", settings, thresholds: (), learned: () },
        Arc::new(AtOnce),
        desk,
        (seed + 1) << 32,
    );
    // Who has waited once may end the tree of another.
    forest.inner.turns.0.lock().first_pause = Duration::from_secs(1);
    let forest = forest.with_distance(SharedDistance::new(Distance(scenario.k)).unwrap());
    if scenario.is_dated { forest.dated() } else { forest }
}

/// A document of a scenario.
pub(super) fn document(scenario: &Scenario, doc: usize) -> ForestDocument {
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

/// Sends the bulks of one process: each is placed, stored by the cluster, and settled.
async fn send(
    scenario: Scenario,
    bulks: Vec<Vec<usize>>,
    (desk, process): (Arc<Desk>, Arc<Corrected>),
    told: Arc<Mutex<Vec<Option<Told>>>>,
    mut until: Option<oneshot::Receiver<()>>,
) {
    let (forest, index) = (&process.forest, &process.index);
    for bulk in bulks {
        let documents = bulk.iter().map(|&doc| document(&scenario, doc)).collect();
        let now = desk.time.load(Relaxed);
        let (write, since) = (process.writes.enter(), index.lock().said());
        desk.state.lock().receive(since);
        let Ok(placements) = forest.place(Batch { documents, ..Batch::default() }).await else {
            continue;
        };
        let placed: Vec<_> = placements.replies.into_iter().map(|reply| reply.placed.unwrap()).collect();
        let text = |doc: usize| Fingerprint(scenario.docs[doc].whole);
        for (&doc, placed) in bulk.iter().zip(&placed) {
            index.lock().answered(doc, text(doc), placed.root, placed.answer, since);
        }
        if desk.meeting.has_people {
            desk.written().await;
        }
        let mut settled = Vec::new();
        for (doc, placed) in bulk.into_iter().zip(placed) {
            let outcome = match scenario.docs[doc].refused {
                true => ItemOutcome::Refused,
                false => ItemOutcome::Accepted,
            };
            if outcome == ItemOutcome::Accepted {
                told.lock()[doc] = Some(tell(&placed, now));
                index.lock().store(doc, text(doc), placed.root, placed.answer);
            }
            settled.extend(placed.settled(outcome));
        }
        if let Some(until) = until.take() {
            let _ = until.await;
        }
        let _ = forest.settle(settled, Millis(0)).await;
        drop(write);
        desk.state.lock().settled += 1;
    }
}

/// The buckets in which fingerprints of a scenario meet, and whether people correct groups.
fn meeting(scenario: &Scenario) -> Meeting {
    let prints: BTreeSet<u64> = scenario.docs.iter().flat_map(|text| text.prints.iter().copied()).collect();
    let blocks = LshBuckets::new(SharedDistance::new(Distance(scenario.k)).unwrap());
    let mut buckets: BTreeMap<Fingerprint, usize> = BTreeMap::new();
    for print in prints {
        for bucket in blocks.buckets(Fingerprint(print)) {
            *buckets.entry(bucket).or_default() += 1;
        }
    }
    let buckets: HashSet<Fingerprint> =
        buckets.into_iter().filter(|(_, of)| *of > 1).map(|(bucket, _)| bucket).collect();
    Meeting { buckets, has_people: !scenario.people.is_empty() }
}

fn tell(placed: &RootAssignment, time: i64) -> Told {
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
            if let Some(corrections) = scenario.people.get(at).filter(|corrections| !corrections.is_empty()) {
                let process = &mut world.processes[at];
                process.tasks.push(Box::pin(process.corrected.clone().correct(corrections)));
                process.go_on();
            }
        }
        world
    }

    /// With the trees that are there from the beginning, and nobody who sends anything.
    pub(super) fn without_processes(scenario: &'s Scenario, left: Faults) -> World<'s> {
        let mut world = World {
            scenario,
            store: InMemoryRedis::default(),
            time: Arc::default(),
            meeting: Arc::new(meeting(scenario)),
            processes: Vec::new(),
            late: None,
            left,
            has_lost: false,
            told: Arc::new(Mutex::new(vec![None; scenario.docs.len()])),
            index: Arc::default(),
            missed: BTreeSet::new(),
            gates: Vec::new(),
        };
        for &founder in scenario.trees {
            world.start(20 + founder, vec![vec![founder]], None);
            world.drain();
        }
        world.processes.clear();
        world.forget(None);
        world
    }

    /// Starts a process.
    fn start(&mut self, seed: usize, bulks: Vec<Vec<usize>>, until: Option<oneshot::Receiver<()>>) {
        let (store, time, meeting) = (self.store.clone(), self.time.clone(), self.meeting.clone());
        let desk = Arc::new(Desk { store, time, meeting, state: Mutex::default() });
        let forest = Arc::new(forest(self.scenario, desk.clone(), seed as u64));
        let corrected = Arc::new(Corrected::new(forest, self.index.clone()));
        let told = self.told.clone();
        let task = send(*self.scenario, bulks, (desk.clone(), corrected.clone()), told, until);
        let tasks: Vec<Job> = vec![Box::pin(task)];
        let mut process = Process { desk, tasks, corrected, read: 0, woken: Arc::default(), is_crashed: false };
        process.go_on();
        self.processes.push(process);
    }

    /// Does all that waits, in order.
    fn drain(&mut self) {
        let has_more = |process: &Process| {
            let state = process.desk.state.lock();
            !state.pipelines.is_empty() || !state.writes.is_empty()
        };
        while let Some(at) = self.processes.iter().position(has_more) {
            let is_waiting = !self.processes[at].desk.state.lock().pipelines.is_empty();
            self.apply(if is_waiting { Step::Do(at, 0) } else { Step::Write(at, 0) });
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
            if process.is_crashed || process.is_over() && !self.meeting.has_people {
                continue;
            }
            (state.received, state.writes.len(), process.read).hash(&mut hasher);
            for pipeline in &state.pipelines {
                (pipeline.number, &pipeline.replies).hash(&mut hasher);
            }
        }
        (self.time.load(Relaxed), self.has_lost, self.left, &*self.told.lock()).hash(&mut hasher);
        (&*self.index.lock(), &self.missed).hash(&mut hasher);
        if let Some(late) = &self.late {
            format!("{late:?}").hash(&mut hasher);
        }
        hasher.finish()
    }

    fn values(&self) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        let kinds = [KeyKind::Node, KeyKind::Bucket, KeyKind::Clock, KeyKind::Sweep];
        let people = [KeyKind::Overrides, KeyKind::Acknowledgements].into_iter().filter(|_| self.meeting.has_people);
        let kinds = kinds.into_iter().chain(people);
        let mut values: Vec<_> = kinds.flat_map(|kind| self.store.with_expiry(kind)).collect();
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
            if busy > 0 && self.may_tell(process) {
                steps.push(Step::Tell(at));
            }
            if process.is_over() {
                continue;
            }
            steps.extend((0..process.desk.state.lock().writes.len()).map(|place| Step::Write(at, place)));
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
                    steps.push(Step::DoneReplyLost(at, place));
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
            Step::DoneReplyLost(at, place) => {
                self.left.losses -= 1;
                let command = self.processes[at].desk.state.lock().waiting()[place].clone();
                self.run(&command);
                self.lose_reply(at, place, &command);
            }
            Step::Delayed(at, place) => {
                self.left.losses -= 1;
                let command = self.processes[at].desk.state.lock().waiting()[place].clone();
                self.lose_reply(at, place, &command);
                self.late = Some(command);
            }
            Step::Late => {
                let late = self.late.take().unwrap();
                self.run(&late);
            }
            Step::Crash(at) => {
                self.left.crashes -= 1;
                self.processes[at].crash();
                let registered = self.processes[at].desk.state.lock().registered;
                registered.iter().for_each(|&registered| self.forget(Some(registered)));
            }
            Step::Write(at, place) => {
                let mut state = self.processes[at].desk.state.lock();
                let write = state.writes.remove(place);
                state.receive(("written", place));
                drop(state);
                let _ = write.send(());
                self.processes[at].go_on();
            }
            Step::Tell(at) => {
                let read = self.to_read(&self.processes[at]);
                let process = &mut self.processes[at];
                process.read = read;
                process.desk.state.lock().receive(("tells", read));
                process.tasks.push(Box::pin(process.corrected.clone().tell()));
                process.go_on();
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
    fn lose_reply(&mut self, at: usize, place: usize, command: &Command) {
        let mut state = self.processes[at].desk.state.lock();
        let Some(assumed) = command.what.reply_if_unknown() else {
            return state.send_again(place);
        };
        state.reply(place, assumed);
        drop(state);
        self.processes[at].go_on();
    }

    fn execute(&mut self, at: usize, place: usize) {
        let command = self.processes[at].desk.state.lock().waiting()[place].clone();
        let reply = self.run(&command);
        self.processes[at].desk.state.lock().reply(place, reply);
    }

    fn run(&mut self, command: &Command) -> RedisReply {
        let reply = self.store.run_one(command);
        if matches!(command.what, KeyOp::Arrive { .. }) && reply == RedisReply::Number(0) {
            self.missed.insert(Root(command.key.fingerprint));
        }
        if self.meeting.has_people {
            self.index.lock().record(&self.store);
        }
        reply
    }

    /// A process that is gone is not waited for any longer; `None`: nor is any other.
    fn forget(&mut self, registered: Option<u64>) {
        for (key, text) in self.store.of_kind(KeyKind::Acknowledgements) {
            let text = String::from_utf8(text).unwrap();
            let is_gone = |line: &str| registered.is_none_or(|gone| line.starts_with(&format!("{gone} ")));
            let left: String = text.lines().filter(|line| !is_gone(line)).map(|line| format!("{line}\n")).collect();
            match left.is_empty() {
                true => self.store.remove(&key),
                false => self.store.overwrite(key, left.as_bytes()),
            }
        }
    }

    /// What a process that acknowledges overrides finds: where it has found the same before, nothing comes of it.
    fn to_read(&self, process: &Process) -> u64 {
        let settled = process.desk.state.lock().settled;
        let kinds = [KeyKind::Overrides, KeyKind::Acknowledgements];
        hash((settled, kinds.map(|kind| self.store.of_kind(kind))))
    }

    fn may_tell(&self, process: &Process) -> bool {
        let may_read = self.meeting.has_people && !process.is_crashed;
        let is_at_rest = || !process.corrected.is_telling.load(Relaxed);
        may_read
            && is_at_rest()
            && !self.store.of_kind(KeyKind::Overrides).is_empty()
            && process.read != self.to_read(process)
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
            Step::DoneReplyLost(at, place) => format!("{at}: {}, and its reply is lost", command(at, place)),
            Step::Delayed(at, place) => format!("{at}: {} is delayed", command(at, place)),
            Step::Late => "what was delayed is done".to_owned(),
            Step::Write(at, _) => format!("{at}: a bulk is stored"),
            Step::Tell(at) => format!("{at}: acknowledges overrides"),
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

    /// Places a copy of a document while nobody else does anything, and answers what it is told.
    pub(super) fn ask_alone(&mut self, doc: usize) -> Option<Told> {
        let told = self.told.lock().clone();
        self.start(40 + doc, vec![vec![doc]], None);
        self.drain();
        let asked = std::mem::replace(&mut *self.told.lock(), told);
        asked[doc]
    }

    pub(super) fn withdraw(&mut self, doc: usize) {
        self.gates.retain(|(of, _)| *of != doc);
        self.processes.iter_mut().for_each(Process::go_on);
        self.drain();
    }
}
