//! One simulated process: the real engine, proxy and background tasks on a simulated disk or Redis.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use spinney::config::ServeOptions;
use spinney::engine::{EngineError, PortStorage, SnapshotPass, StoreTasks};
use spinney::forest::local::{Copied, Executor};
use spinney::parts;
use spinney::store::disk::Disk;
use spinney::store::{Durability, JournalWriter, Lsn, Replay, Store, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::world::{World, pass};

/// Bytes that a pipe holds.
const PIPE: usize = 64 << 10;
/// Interval of removing expired nodes.
pub(super) const EXPIRY_TICK: Duration = Duration::from_secs(10);
/// How long a graceful stop waits for requests in flight.
const GRACE: Duration = Duration::from_secs(60);

/// Whether a process still runs. What it has begun may only go on as long as it does.
#[derive(Clone, Default)]
pub(super) struct Life(CancellationToken);

impl Life {
    pub(super) fn end(&self) {
        self.0.cancel();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.is_cancelled()
    }

    pub(super) async fn ended(&self) {
        self.0.cancelled().await;
    }
}

/// Runs jobs some time later, in any order.
struct LaterExecutor {
    world: Arc<World>,
    life: Life,
}

impl Executor for LaterExecutor {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        let (world, life) = (self.world.clone(), self.life.clone());
        // Without a runtime the simulation is over.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            world.pause(1).await;
            if !life.has_ended() {
                job();
            }
        });
    }
}

/// The writer of a store.
type StoreWriter = (Weak<Store>, Arc<Mutex<JournalWriter>>);

/// Writes journals and snapshots, step by step.
pub(super) struct LaterStoreTasks {
    world: Arc<World>,
    life: Life,
    disk: Disk,
    /// How often a snapshot is written, in milliseconds.
    snapshots: u64,
    /// Whether batches are durable before they are synced.
    is_lazy: bool,
    writers: Mutex<Vec<StoreWriter>>,
}

impl LaterStoreTasks {
    fn writer_of(&self, store: &Weak<Store>) -> Option<Arc<Mutex<JournalWriter>>> {
        let writers = self.writers.lock();
        writers.iter().find(|(of, _)| of.ptr_eq(store)).map(|(_, writer)| writer.clone())
    }

    /// Does all that is due. A disk on which the power has failed ends the process.
    fn write(&self, writer: &Mutex<JournalWriter>, begun: Instant) {
        while !self.life.has_ended() && writer.lock().step_at(begun + self.world.elapsed()) {
            self.world.count("journal writes", 1);
            if self.disk.has_ended() {
                self.life.end();
            }
        }
    }

    fn write_all(&self, begun: Instant) {
        let writers: Vec<_> = self.writers.lock().iter().map(|(_, writer)| writer.clone()).collect();
        writers.iter().for_each(|writer| self.write(writer, begun));
    }
}

/// So that a trait of the engine can be implemented for what the simulation keeps.
struct SharedTasks(Arc<LaterStoreTasks>, Instant);

impl StoreTasks for SharedTasks {
    fn begin(&self, replay: Replay) -> Result<Arc<Store>, StoreError> {
        let work = Arc::new(Notify::new());
        let told = work.clone();
        let (store, writer) = replay.into_parts(Some(Box::new(move || told.notify_one())))?;
        let (store, writer) = (Arc::new(store), Arc::new(Mutex::new(writer)));
        let (tasks, begun) = (self.0.clone(), self.1);
        tasks.writers.lock().push((Arc::downgrade(&store), writer.clone()));
        let kept = store.clone();
        tokio::spawn(async move {
            while !tasks.life.has_ended() {
                tokio::select! {
                    biased;
                    () = tasks.life.ended() => return,
                    () = work.notified() => {}
                }
                tasks.world.pause(5).await;
                tasks.write(&writer, begun);
                if !tasks.is_lazy {
                    continue;
                }
                // It gathers, and syncs later. What comes meanwhile wakes nobody.
                let mut left = 4_u32;
                while left > 0 || (kept.status().queued > 0 && !tasks.life.has_ended()) {
                    tasks.world.pause(1_000).await;
                    tasks.write(&writer, begun);
                    left = left.saturating_sub(1);
                }
            }
        });
        Ok(store)
    }

    fn reads_ahead(&self) -> bool {
        false
    }

    fn keep_snapshots(&self, forest: &str, store: Weak<Store>, copied: &Arc<dyn Copied>) {
        let (tasks, begun, copied) = (self.0.clone(), self.1, copied.clone());
        let forest = forest.to_owned();
        tokio::spawn(async move {
            let mut last = Lsn(0);
            loop {
                tasks.world.pause(2 * tasks.snapshots).await;
                if tasks.life.has_ended() {
                    return;
                }
                let Some(held) = store.upgrade() else { return };
                let appended = held.status().appended;
                if appended == last {
                    continue;
                }
                last = appended;
                let installed = snapshot(&tasks, begun, &store, &held, &*copied).await;
                tasks.world.trace(|| format!("snapshot of {forest}: {installed:?}"));
                tasks.world.count("snapshots", u64::from(installed == Some(true)));
            }
        });
    }
}

/// Writes a snapshot in portions between which the forest changes. Answers whether it counts; `None`: the process has
/// ended.
async fn snapshot(
    tasks: &LaterStoreTasks,
    begun: Instant,
    of: &Weak<Store>,
    store: &Store,
    copied: &dyn Copied,
) -> Option<bool> {
    let Ok(mut pass) = SnapshotPass::begin(store, copied) else { return Some(false) };
    let mut writer = loop {
        tasks.world.pause(20).await;
        if tasks.life.has_ended() {
            return None;
        }
        match pass.next(copied) {
            Ok(Ok(next)) => pass = next,
            Ok(Err(writer)) => break writer,
            Err(_) => return Some(false),
        }
    };
    let sealed = writer.seal();
    tasks.world.pause(20).await;
    // What it waits for is written: nothing else runs meanwhile.
    if let Some(writer) = tasks.writer_of(of) {
        tasks.write(&writer, begun);
    }
    if tasks.life.has_ended() {
        return None;
    }
    let installed = writer.install(&sealed).is_ok();
    if tasks.disk.has_ended() {
        tasks.life.end();
    }
    Some(installed)
}

/// Where a process keeps its forests.
pub(super) enum Kept {
    Disk(Disk),
    Redis(PortStorage),
}

/// A process that serves.
pub(super) struct Process {
    pub(super) number: usize,
    pub(super) life: Life,
    pub(super) product: parts::Process,
    world: Arc<World>,
    stores: Option<(Arc<LaterStoreTasks>, Instant)>,
    /// Writers of whom it has seen a stamped document accepted.
    pub(super) verified: Mutex<BTreeSet<u64>>,
}

/// The answer to a request; none if the connection broke.
pub(super) type Reply = Option<(StatusCode, Bytes)>;

impl Process {
    /// Starts as `spinney serve` does.
    ///
    /// # Errors
    /// Those of the start.
    pub(super) async fn start(
        world: &Arc<World>,
        number: usize,
        life: Life,
        config: &ServeOptions,
        (kept, snapshots): (Kept, u64),
    ) -> Result<Process, EngineError> {
        let executor: Arc<dyn Executor> = Arc::new(LaterExecutor { world: world.clone(), life: life.clone() });
        let begun = Instant::now() - world.elapsed();
        let mut stores = None;
        let kept = match (kept, &config.storage) {
            (Kept::Disk(disk), Some(storage)) => {
                let tasks = LaterStoreTasks {
                    world: world.clone(),
                    life: life.clone(),
                    disk: disk.clone(),
                    snapshots,
                    is_lazy: storage.durability != Durability::Batch,
                    writers: Mutex::default(),
                };
                let tasks = Arc::new(tasks);
                stores = Some((tasks.clone(), begun));
                PortStorage::Stored(storage.clone(), disk.files(), Arc::new(SharedTasks(tasks, begun)))
            }
            (Kept::Redis(kept), _) => kept,
            (Kept::Disk(_), None) => unreachable!("the configuration names a directory"),
        };
        let product = parts::Process::start(config, &executor, &kept, EXPIRY_TICK).await?;
        let world = world.clone();
        Ok(Process { number, life, product, world, stores, verified: Mutex::default() })
    }

    /// Sends a request on a connection of its own.
    pub(super) async fn ask(&self, writer: u64, method: &str, target: &str, body: Bytes) -> Reply {
        let life = self.life.clone();
        tokio::select! {
            biased;
            () = life.ended() => None,
            reply = self.exchange(writer, method, target, body) => reply,
        }
    }

    async fn exchange(&self, writer: u64, method: &str, target: &str, body: Bytes) -> Reply {
        self.world.pause(1).await;
        let (near, far) = tokio::io::duplex(PIPE);
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, writer as u8));
        let serving = self.product.serve(TokioIo::new(far), address);
        let life = self.life.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = life.ended() => {}
                _ = serving => {}
            }
        });
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.ok()?;
        let connection = tokio::spawn(connection);
        let kind = if target.ends_with("_bulk") { "application/x-ndjson" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, "spinney")
            .header(CONTENT_TYPE, kind)
            .header(AUTHORIZATION, format!("Basic {writer}"))
            .body(Full::new(body))
            .unwrap();
        let response = sender.send_request(request).await.ok()?;
        let status = response.status();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        connection.abort();
        Some((status, body))
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        self.life.end();
        self.product.kill();
    }

    /// Ends it as a signal does: requests in flight complete. Answers how many did not.
    pub(super) async fn stop(&self) -> usize {
        let left = self.product.stop(GRACE).await;
        if let Some((stores, begun)) = &self.stores {
            stores.write_all(*begun);
        }
        self.life.end();
        // What it has begun sees that.
        pass(Duration::from_millis(10)).await;
        left
    }
}
