//! Processes that come and go, and what becomes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use spinney::config::OnRedisFailure;
use spinney::engine::{EngineError, PortStorage};
use spinney::forest::Root;
use spinney::forest::shared::keys::RedisClient;
use spinney::store::StoreError;
use spinney::store::disk::{Disk, Fault};

use super::documents::Story;
use super::network::Network;
use super::plan::{ForestStorage, SimulationPlan};
use super::process::{EXPIRY_TICK, Kept, Life, Process};
use super::redis::{Connections, SimRedis};
use super::upstream::Upstream;
use super::world::{World, pass};

/// Indices of one route, which share a forest, and one without a route.
pub(super) const INDICES: [&str; 3] = ["news-1", "news-2", "other"];

/// Whether documents of an index are stamped.
pub(super) fn is_routed(index: &str) -> bool {
    index.starts_with("news-")
}

/// A document by index and id.
pub(super) type DocumentAddress = (&'static str, String);

/// A state that a document may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Absent,
    /// With the text of a story, by number.
    Story(usize),
}

/// What is known of one document.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// What it may be: one state, or several where outcomes are unknown.
    pub(super) may_be: Vec<Content>,
    /// The write that the cluster accepted and that made it what it is, if that is known.
    pub(super) written: Option<Written>,
}

/// One write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) sent: i64,
    pub(super) answered: i64,
    /// Whether its process had seen a write of this writer accepted before.
    pub(super) is_verified: bool,
}

/// What writers have done with a story.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    /// When it was refused first, and when its process takes back what was refused last.
    pub(super) refused_at: i64,
    pub(super) taken_back_at: i64,
}

/// What was written and said, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) stories: Vec<Story>,
    pub(super) sent: BTreeMap<usize, Sent>,
    /// When each request was sent and answered.
    pub(super) requests: Vec<(i64, i64)>,
    pub(super) documents: BTreeMap<DocumentAddress, Known>,
    /// When items were refused.
    pub(super) refusals: Vec<i64>,
    /// Groups that are one, by the number of the override.
    pub(super) merges: BTreeMap<u64, (Root, Root)>,
    /// Roots that an override was asked for, whether it came to be and is in force or not.
    pub(super) corrected: BTreeSet<Root>,
    /// When a process last started without anything of what is stored.
    pub(super) forgotten: i64,
    /// When processes were killed or stopped.
    pub(super) ends: Vec<i64>,
    /// When Redis was away.
    pub(super) redis_away: Vec<Range<i64>>,
    /// Those after which a process served before it had read what the index has: the cluster had not answered in the
    /// time that a start waits.
    pub(super) late_catch_ups: BTreeSet<i64>,
    /// When a disk may have taken no more: its process is out of service until all faults have ended.
    pub(super) dying_disks: Vec<Range<i64>>,
    /// Whether a disk has been made to fail since all faults last ended.
    has_failing_disk: bool,
}

/// Longer than `--durability none` gathers what it writes, in milliseconds.
const GATHERED: i64 = 2_000;

impl Records {
    /// Whether a process was killed so soon after this answer that it may have been lost with `--durability none`, and
    /// - the refusal of an item as well: what that item had founded is nowhere then, and what has joined it is taken
    ///   for foreign;
    /// - or the next start served before the index had told of the document: another copy may have come first.
    pub(super) fn may_have_lost_founder(&self, written: &Written) -> bool {
        let is_lost = |at: i64, end: i64| (end - GATHERED..=end).contains(&at);
        let is_unknown = |end: &i64| {
            self.late_catch_ups.contains(end) || self.refusals.iter().any(|&refusal| is_lost(refusal, *end))
        };
        self.ends.iter().any(|end| is_lost(written.answered, *end) && is_unknown(end))
    }

    /// Whether another story differs in capitals alone. The two have one hash and, because sentences end elsewhere,
    /// other fingerprints: if the later one takes the hash as its root, the earlier one is looked up there from then on.
    pub(super) fn has_twin(&self, story: usize) -> bool {
        let one = &self.stories[story];
        let is_twin = |other: &Story| {
            other.title == one.title && other.body != one.body && other.body.to_uppercase() == one.body.to_uppercase()
        };
        self.stories.iter().any(is_twin)
    }

    /// Whether a document of an unverified writer was on its way beside other requests.
    pub(super) fn was_unseen(&self, written: &Written) -> bool {
        let is_beside = |&&(sent, answered): &&(i64, i64)| sent <= written.answered && written.sent <= answered;
        // One of them is its own.
        !written.is_verified && self.requests.iter().filter(is_beside).count() > 1
    }

    /// Whether a document of an unverified writer was accepted when Redis was away, and a process ended before it can
    /// have placed it.
    pub(super) fn was_postponed_to_the_end(&self, written: &Written) -> bool {
        let loses = |away: &Range<i64>| {
            let waits = written.answered..=away.end.saturating_add(EXPIRY_TICK.as_millis() as i64);
            let was_away = away.start <= written.answered && written.sent <= away.end;
            was_away && self.ends.iter().any(|end| waits.contains(end))
        };
        !written.is_verified && self.redis_away.iter().any(loses)
    }
}

/// All of a simulation.
pub(super) struct Scene {
    pub(super) world: Arc<World>,
    network: Arc<Network>,
    pub(super) plan: SimulationPlan,
    pub(super) upstream: Arc<Upstream>,
    disk: Disk,
    redis: Arc<SimRedis>,
    slots: Vec<Mutex<Option<Arc<Process>>>>,
    boots: AtomicU64,
    pub(super) records: Mutex<Records>,
    /// What is wrong.
    wrong: Mutex<Option<String>>,
}

impl Scene {
    pub(super) fn new(world: &Arc<World>, network: Arc<Network>, plan: SimulationPlan) -> Arc<Scene> {
        let upstream = Upstream::new(plan.faults, plan.is_elasticsearch);
        INDICES.iter().for_each(|index| upstream.cluster.lock().create_index(index));
        Arc::new(Scene {
            world: world.clone(),
            network,
            upstream,
            disk: Disk::new(world.next_u64()),
            redis: SimRedis::new(plan.redis_losses),
            slots: (0..plan.processes).map(|_| Mutex::new(None)).collect(),
            boots: AtomicU64::new(0),
            records: Mutex::default(),
            wrong: Mutex::new(None),
            plan,
        })
    }

    /// Something does not hold.
    pub(super) fn fail(&self, what: String) {
        self.world.trace(|| format!("WRONG: {what}"));
        self.wrong.lock().get_or_insert(what);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.wrong.lock().is_some()
    }

    pub(super) fn take_wrong(&self) -> Option<String> {
        self.wrong.lock().take()
    }

    /// Those that serve.
    pub(super) fn processes(&self) -> Vec<Arc<Process>> {
        let living = self.slots.iter().filter_map(|slot| slot.lock().clone());
        living.filter(|process| !process.life.has_ended()).collect()
    }

    /// One of those that serve.
    pub(super) fn process(&self) -> Option<Arc<Process>> {
        let processes = self.processes();
        (!processes.is_empty()).then(|| self.world.pick(&processes).clone())
    }

    /// Starts all that do not serve.
    pub(super) async fn start_all(&self) {
        for number in 0..self.slots.len() {
            let serves = self.slots[number].lock().as_ref().is_some_and(|process| !process.life.has_ended());
            if !serves {
                self.start(number).await;
            }
        }
    }

    async fn start(&self, number: usize) {
        if let Some(process) = self.take(number) {
            process.kill();
        }
        if self.plan.store == ForestStorage::Disk && self.disk.has_ended() {
            self.disk.lose_power();
        }
        let world = &self.world;
        let boot = self.boots.fetch_add(1, Relaxed);
        let (host, life) = (format!("p{number}-{boot}"), Life::default());
        self.network.attach(host.clone(), life.clone(), self.upstream.clone());
        let config = self.plan.options(&host);
        let kept = match self.plan.store {
            ForestStorage::Disk => Kept::Disk(self.disk.clone()),
            ForestStorage::Redis => {
                let (world, life, redis) = (world.clone(), life.clone(), self.redis.clone());
                let keys: Arc<dyn RedisClient> = Arc::new(Connections { world, life, redis });
                Kept::Redis(PortStorage::Shared(keys, OnRedisFailure::Refuse))
            }
        };
        let started = Process::start(world, number, life.clone(), &config, (kept, self.plan.snapshots)).await;
        match started {
            Ok(process) => {
                world.trace(|| format!("process {number} serves"));
                world.count("starts", 1);
                let recovery = process.product.recovered();
                let knows_nothing =
                    |forest: &serde_json::Value| forest["unknown_in_index"].as_u64().is_some_and(|unknown| unknown > 0);
                if recovery.as_object().is_some_and(|forests| forests.values().any(knows_nothing)) {
                    // Its disk failed before anything was on it: an operator is told to rebuild the forest.
                    world.trace(|| format!("process {number} knows nothing of what is stored"));
                    world.count("starts with nothing", 1);
                    self.records.lock().forgotten = world.time();
                }
                let is_unread = |forest: &serde_json::Value| {
                    forest["state"].as_str().is_some_and(|state| state == "running" || state == "waiting")
                };
                if recovery.as_object().is_some_and(|forests| forests.values().any(is_unread)) {
                    world.count("starts before the index was read", 1);
                    let mut records = self.records.lock();
                    let last = records.ends.last().copied();
                    records.late_catch_ups.extend(last);
                }
                *self.slots[number].lock() = Some(Arc::new(process));
            }
            Err(error) => {
                life.end();
                world.trace(|| format!("process {number} does not start: {error:?}"));
                world.count("failed starts", 1);
                if self.disk.has_ended() {
                    self.disk.lose_power();
                } else {
                    self.disk.kill();
                }
                let is_fault = matches!(&error, EngineError::Store(StoreError::Io { .. }));
                if !is_fault {
                    self.fail(format!("the forests cannot be opened: {error:?}"));
                }
            }
        }
    }

    /// A process that is about to end, whichever way. Without a failing disk no forest goes out of service: the next
    /// start would heal it, and nobody would know.
    fn take(&self, number: usize) -> Option<Arc<Process>> {
        let process = self.slots[number].lock().take()?;
        if let Some(unavailable) = process.product.engine().forests().unavailable()
            && !self.records.lock().has_failing_disk
        {
            self.fail(format!("no disk has failed: {unavailable}"));
        }
        Some(process)
    }

    /// Ends a process at once; `power`: that of the machine, too.
    pub(super) fn kill(&self, number: usize, power: bool) {
        let Some(process) = self.take(number) else { return };
        process.kill();
        self.records.lock().ends.push(self.world.time());
        self.world.count(if power { "power failures" } else { "kills" }, 1);
        if self.plan.store == ForestStorage::Disk {
            if power {
                self.disk.lose_power();
            } else {
                self.disk.kill();
            }
        }
    }

    /// Ends a process as a signal does.
    pub(super) async fn stop(&self, number: usize) {
        let Some(process) = self.take(number) else { return };
        let left = process.stop().await;
        self.records.lock().ends.push(self.world.time());
        self.world.count("stops", 1);
        if self.plan.store == ForestStorage::Disk {
            self.disk.kill();
        }
        if left > 0 && !self.disk.has_ended() {
            self.world.count("requests cut off by a stop", left as u64);
        }
    }

    /// Things that happen to processes, the cluster and Redis.
    pub(super) async fn events(self: Arc<Self>) {
        for _ in 0..self.plan.events {
            self.world.pause(20_000).await;
            let number = self.world.below(self.slots.len() as u64) as usize;
            let is_on_disk = self.plan.store == ForestStorage::Disk;
            match self.world.below(10) {
                2 if self.plan.is_durable() => {
                    self.world.trace(|| format!("the power of process {number} fails"));
                    self.kill(number, true);
                    self.start_again(number).await;
                }
                0..3 => {
                    self.world.trace(|| format!("process {number} is killed"));
                    self.kill(number, false);
                    self.start_again(number).await;
                }
                3 => {
                    self.world.trace(|| format!("process {number} is stopped"));
                    self.stop(number).await;
                    self.start_again(number).await;
                }
                4 if is_on_disk && self.plan.is_durable() => {
                    let fault = Fault::EndsAt(1 + self.world.below(20));
                    self.world.trace(|| format!("the disk: {fault:?}"));
                    self.fail_disk(fault);
                    self.records.lock().dying_disks.push(self.world.time()..i64::MAX);
                    self.world.pause(20_000).await;
                    self.start_again(number).await;
                }
                5 if is_on_disk => {
                    let at = 1 + self.world.below(20);
                    let fault = match self.world.below(3) {
                        0 => Fault::FullFrom(at),
                        1 => Fault::FailsAt(at, std::io::ErrorKind::Other),
                        _ => Fault::FailsAt(at, std::io::ErrorKind::StorageFull),
                    };
                    self.world.trace(|| format!("the disk: {fault:?}"));
                    self.world.count("disk faults", 1);
                    self.fail_disk(fault);
                    self.world.pause(20_000).await;
                    // Somebody looks after it, and starts it again.
                    self.kill(number, self.plan.is_durable() && self.world.happens(300));
                    self.start_again(number).await;
                }
                4..6 => {
                    self.world.trace(|| "Redis is away");
                    self.world.count("Redis away", 1);
                    self.redis.set_away(true);
                    self.records.lock().redis_away.push(self.world.time()..i64::MAX);
                    self.world.pause(10_000).await;
                    self.redis_is_back();
                }
                6..8 => {
                    self.world.trace(|| "the cluster is down");
                    self.world.count("cluster down", 1);
                    self.upstream.set_down(true);
                    self.world.pause(15_000).await;
                    self.upstream.set_down(false);
                }
                8 => {
                    let jump = *self.world.pick(&[-30_000, -5_000, 3_000, 50_000, 86_400_000]);
                    self.world.trace(|| format!("the clock jumps by {jump} ms"));
                    self.world.jump(jump);
                    self.world.pause(30_000).await;
                    self.world.jump(-jump);
                }
                _ => {
                    self.world.trace(|| "points in time are lost");
                    self.upstream.cluster.lock().lose_points();
                }
            }
        }
    }

    fn redis_is_back(&self) {
        self.redis.set_away(false);
        if let Some(away) = self.records.lock().redis_away.last_mut() {
            away.end = away.end.min(self.world.time());
        }
    }

    fn fail_disk(&self, fault: Fault) {
        self.disk.set(fault);
        self.records.lock().has_failing_disk = true;
    }

    async fn start_again(&self, number: usize) {
        self.world.pause(3_000).await;
        let serves = self.slots[number].lock().as_ref().is_some_and(|process| !process.life.has_ended());
        if !serves {
            self.start(number).await;
        }
    }

    /// Ends all faults; everything is there again.
    pub(super) async fn heal(&self) {
        self.world.calm(true);
        self.upstream.set_down(false);
        self.redis_is_back();
        if self.disk.has_ended() {
            self.kill(0, true);
        }
        self.disk.set(Fault::None);
        if let Some(dying) = self.records.lock().dying_disks.last_mut() {
            dying.end = dying.end.min(self.world.time());
        }
        // A process whose disk has failed serves no writes until it is started again.
        for number in 0..self.slots.len() {
            let process = self.slots[number].lock().clone();
            if process.is_some_and(|process| process.product.engine().forests().unavailable().is_some()) {
                self.kill(number, false);
            }
        }
        self.records.lock().has_failing_disk = false;
        for _ in 0..3 {
            self.start_all().await;
            if self.processes().len() == self.slots.len() {
                return;
            }
            pass(Duration::from_secs(1)).await;
        }
        self.fail("a process does not start although nothing fails".to_owned());
    }
}
