//! The simulated cluster on the network: slow, refusing, away, and silent about what it has done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cluster::{Answered, SimCluster};
use super::world::{World, pass};

/// Ends the ids of documents that no mapping takes.
pub(super) const BROKEN: &str = "-broken";

/// How often each fault happens, in thousandths of requests or items.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// The connection breaks before anything is done.
    pub(super) lost_before: u64,
    /// It breaks after all is done.
    pub(super) lost_after: u64,
    /// All of it is refused with 429 or 503.
    pub(super) refused: u64,
    /// One item of a write is refused with 429.
    pub(super) busy: u64,
    /// The answer takes half a minute.
    pub(super) slow: u64,
}

pub(super) struct Upstream {
    pub(super) cluster: Mutex<SimCluster>,
    pub(super) faults: Faults,
    pub(super) is_elasticsearch: bool,
    is_down: AtomicBool,
    down: Notify,
    /// The second of the last refresh.
    refreshed: AtomicI64,
}

impl Upstream {
    pub(super) fn new(faults: Faults, is_elasticsearch: bool) -> Arc<Upstream> {
        let mut cluster = SimCluster::new();
        cluster.opensearch = !is_elasticsearch;
        Arc::new(Upstream {
            cluster: Mutex::new(cluster),
            faults,
            is_elasticsearch,
            is_down: AtomicBool::new(false),
            down: Notify::new(),
            refreshed: AtomicI64::new(0),
        })
    }

    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Relaxed)
    }

    /// Returns when it goes down, which cuts all connections.
    pub(super) async fn goes_down(&self) {
        self.down.notified().await;
    }

    /// No node can be reached until it is up again; points in time are lost.
    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Relaxed);
        if is_down {
            self.cluster.lock().lose_points();
            self.down.notify_waiters();
        }
    }

    /// Makes writes visible that were made before the last second ended, as the refresh interval does.
    fn refresh(&self, cluster: &mut SimCluster, now: i64) {
        let second = now / 1_000;
        if self.refreshed.swap(second, Relaxed) < second {
            cluster.refresh(now);
        }
    }

    /// Answers a request; `None`: the connection breaks.
    pub(super) async fn answer(&self, world: &World, method: &str, target: &str, body: &[u8]) -> Option<Answered> {
        world.pause(3).await;
        if world.fails(self.faults.lost_before) {
            world.count("connections broken before the write", 1);
            world.trace(|| format!("cluster: {method} {target} is lost"));
            return None;
        }
        if world.fails(self.faults.refused) {
            let status = *world.pick(&[429, 503]);
            world.count("requests refused", 1);
            world.trace(|| format!("cluster: {method} {target} {status}"));
            let kind = "es_rejected_execution_exception";
            let body = format!(r#"{{"error":{{"type":"{kind}","reason":"too busy"}},"status":{status}}}"#);
            return Some(Answered { status, body: body.into_bytes() });
        }
        let is_write = target.contains("_bulk") || target.contains("/_doc") || target.contains("/_update");
        let mut busy = 0;
        let answered = {
            let mut refuse = |_: &str, id: &str| {
                if id.ends_with(BROKEN) {
                    return Some(400);
                }
                let is_busy = is_write && world.fails(self.faults.busy);
                busy += u64::from(is_busy);
                is_busy.then_some(429)
            };
            let mut cluster = self.cluster.lock();
            self.refresh(&mut cluster, world.time());
            cluster.answer(world.time(), method, target, body, &mut refuse)
        };
        world.count("items refused", busy);
        world.count("requests", 1);
        let is_lost = world.fails(self.faults.lost_after);
        world.trace(|| {
            let end = if is_lost { ", and the answer is lost" } else { "" };
            format!("cluster: {method} {target} {}{end}", answered.status)
        });
        if is_lost {
            world.count("answers lost", 1);
            return None;
        }
        if world.fails(self.faults.slow) {
            world.count("slow answers", 1);
            pass(Duration::from_secs(30)).await;
        }
        world.pause(3).await;
        Some(answered)
    }
}
