//! Redis for shared forests: Redis 7 or Valkey, standalone, with Sentinel or as a cluster.
//!
//! Commands of a request are split by node, and each node receives its part as one pipeline over its single
//! connection; a future per command would cost ten times as much. Redirections are followed, and what may be
//! done twice is sent again. Every wait is bounded: afterwards Redis is reported as unavailable.

mod address;
mod boilerplate_sync;
mod connections;
mod error_hints;
mod eviction;
mod pipeline;
mod registry;
mod sent;
mod single_key;
mod slots;
#[cfg(test)]
mod tests;
mod unusable;

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::runtime::{Builder, Handle, Runtime};
use tracing::{info, warn};

use crate::clock;
use crate::forest::shared::keys::{
    Agreement, Command, Evictions, Extent, Key, KeySample, RedisClient, RedisFuture, RedisUnavailable, RoundFuture,
    ScanPosition, SyncEntries, SyncEntry, SyncPosition, agreement, other_fields, other_settings, too_many_forests,
    warn_of_earlier,
};
use crate::text_fields::{FieldRecord, RoutedFields};
use crate::time::Millis;
pub use address::{Address, AddressError};
use connections::Connections;
pub use eviction::EvictsKeys;
pub(crate) use eviction::KEEP_KEYS;
use sent::SentCommands;

/// How long a Redis may take for the commands of one step, nodes that have moved included.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of the check whether a Redis that was away is back.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the check for evictions and lost registrations.
const WATCH: Duration = Duration::from_secs(30);
/// Interval of the log message about a full Redis.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// Longest credible time between arrival and placement of a document, in milliseconds.
const WAITED: i64 = 10_000;

/// The arrival of a document with this time.
pub(crate) fn arrival_at(now: Millis, claimed: Millis) -> Millis {
    Millis(claimed.0.clamp(now.0.saturating_sub(WAITED), now.0))
}

/// A Redis that is reached over TCP: standalone, with Sentinel or a cluster.
pub struct TcpRedis {
    /// Its own runtime, so that any thread may call.
    runtime: Option<Runtime>,
    handle: Handle,
    shared: Arc<RedisInner>,
}

/// The state of a node, as it reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeState {
    /// Its number among the nodes.
    pub(crate) name: String,
    pub(crate) version: String,
    /// Which keys it drops when its memory is full.
    pub(crate) policy: String,
    /// Bytes that it may use; 0 for no limit.
    pub(crate) maxmemory: u64,
    /// Bytes that it uses.
    pub(crate) used: u64,
    /// Keys that it has evicted since its start.
    pub(crate) evicted: u64,
    /// Whether it persists every write.
    pub(crate) is_persistent: bool,
}

struct RedisInner {
    made: Instant,
    link: Connections,
    away: Mutex<Option<RedisUnavailable>>,
    /// Evictions, as last checked.
    evictions: Mutex<Option<Evictions>>,
    /// Number of connections made until the last check.
    checked_at: AtomicU64,
    /// Last log message about a full Redis.
    full_logged: Mutex<Option<Instant>>,
    /// Log text for the behaviour while it is away.
    meanwhile: Mutex<&'static str>,
}

impl TcpRedis {
    /// A Redis that need not be there yet. `ca`: PEM file of the only authority to trust, with TLS.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate, or the system gives no threads.
    pub fn new(address: Address, ca: Option<&Path>) -> io::Result<TcpRedis> {
        let ca = ca.map(authority).transpose()?;
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("redis").enable_all().build()?;
        Ok(TcpRedis {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            shared: Arc::new(RedisInner {
                made: Instant::now(),
                link: Connections::new(address, ca),
                away: Mutex::new(None),
                evictions: Mutex::default(),
                checked_at: AtomicU64::new(0),
                full_logged: Mutex::new(None),
                meanwhile: Mutex::new("nothing is placed"),
            }),
        })
    }

    /// Connects, so that an unreachable Redis or a refused login is logged before the first request, and starts the
    /// checks for evictions. A Redis that is away is no error, nor one that does not say.
    ///
    /// # Errors
    /// If a node evicts keys.
    pub async fn begin(&self) -> Result<(), EvictsKeys> {
        let shared = self.shared.clone();
        let looked = self.handle.spawn(async move {
            let evicts = match shared.wait(shared.link.is_there()).await {
                Ok(()) => shared.check_evictions().await,
                Err(_) => None,
            };
            tokio::spawn(shared.watch());
            evicts
        });
        // No answer comes only where the runtime is being dropped.
        looked.await.ok().flatten().map_or(Ok(()), Err)
    }

    /// The state of each node, as it reports it. Blocks until it has.
    ///
    /// # Errors
    /// When one is away or refuses.
    pub(crate) fn node_states(&self) -> Result<Vec<NodeState>, RedisUnavailable> {
        self.handle.block_on(self.shared.wait(self.shared.link.states()))
    }

    /// Sets the log text for the behaviour while it is away.
    pub fn when_away(self, meanwhile: &'static str) -> TcpRedis {
        *self.shared.meanwhile.lock() = meanwhile;
        self
    }
}

impl RedisInner {
    /// Waits for a reply with a timeout, and records an outage.
    async fn wait<T>(
        self: &Arc<Self>,
        answer: impl Future<Output = Result<T, RedisUnavailable>>,
    ) -> Result<T, RedisUnavailable> {
        if let Some(away) = self.away.lock().clone() {
            return Err(away);
        }
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let answer = answer.unwrap_or_else(|_| {
            let waited = PATIENCE.as_secs();
            Err(RedisUnavailable::of(format!("no answer within {waited} s")))
        });
        if let Err(away) = &answer {
            // Where not all of it is refused, it is available.
            match away.extent {
                Extent::All => self.set_away(away),
                Extent::Memory { .. } => self.is_full(away),
                Extent::Key => {}
            }
        }
        self.check_after_connecting();
        answer
    }

    /// Says so, and not again for a while.
    fn is_full(&self, why: &RedisUnavailable) {
        let mut claimed = self.full_logged.lock();
        if claimed.is_none_or(|claimed| claimed.elapsed() >= SAY_AGAIN) {
            *claimed = Some(Instant::now());
            drop(claimed);
            let meanwhile = *self.meanwhile.lock();
            let redis = self.link.address();
            warn!(%redis, reason = %why, "the Redis of the shared forests has no room: {meanwhile}");
        }
    }

    fn set_away(self: &Arc<Self>, why: &RedisUnavailable) {
        let mut away = self.away.lock();
        if away.is_some() {
            return;
        }
        *away = Some(why.clone());
        drop(away);
        let meanwhile = *self.meanwhile.lock();
        warn!(redis = %self.link.address(), reason = %why, "the Redis of the shared forests is away: {meanwhile}");
        let shared = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(CHECK_INTERVAL).await;
                let answer = tokio::time::timeout(PATIENCE, shared.link.is_there()).await;
                if let Ok(Ok(())) = answer {
                    break;
                }
            }
            *shared.away.lock() = None;
            info!(redis = %shared.link.address(), "the Redis of the shared forests is back");
        });
    }
}

/// The authority of a file.
fn authority(path: &Path) -> io::Result<Vec<u8>> {
    let unreadable = |what: String| {
        let (path, kind) = (path.display(), io::ErrorKind::InvalidData);
        io::Error::new(kind, format!("{path}: {what}"))
    };
    let pem = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let mut certificates = CertificateDer::pem_slice_iter(&pem);
    match certificates.next() {
        Some(Ok(_)) => Ok(pem),
        Some(Err(error)) => Err(unreadable(error.to_string())),
        None => Err(unreadable("it holds no certificate in PEM form".into())),
    }
}

/// Pause before retrying a Redis that was not ready, since it sends no notification.
#[expect(clippy::disallowed_methods, reason = "a pause between two looks at another process")]
fn sleep(time: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(time)
}

impl RedisClient for TcpRedis {
    fn run(&self, commands: Vec<Command>) -> RoundFuture {
        let (shared, sent) = (self.shared.clone(), Arc::new(SentCommands::of(commands.len())));
        let marks = sent.clone();
        let answer = self.on_runtime(async move { shared.wait(shared.link.run(&commands, &marks)).await });
        Box::pin(async move { answer.await.map_err(|why| sent.end(why)) })
    }

    fn enroll(&self, name: &str, identity: &str) -> RedisFuture<Result<u8, String>> {
        let shared = self.shared.clone();
        let (name, identity) = (name.to_owned(), identity.to_owned());
        self.on_runtime(async move {
            let enrolled = shared.wait(shared.link.enroll(&name, &identity)).await?;
            Ok(match enrolled {
                None => Err(too_many_forests()),
                Some((number, known)) => match agreement(&known, &identity) {
                    Agreement::Same => Ok(number),
                    Agreement::Earlier => {
                        warn_of_earlier(&name);
                        Ok(number)
                    }
                    Agreement::Other => Err(other_settings(&known, &identity)),
                },
            })
        })
    }

    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> RedisFuture<()> {
        let shared = self.shared.clone();
        let (name, identity, fields) = (name.to_owned(), identity.to_owned(), fields.clone());
        self.on_runtime(async move { shared.wait(shared.link.declare(&name, &identity, &fields)).await })
    }

    fn fields(&self, name: &str) -> RedisFuture<FieldRecord> {
        let (shared, name) = (self.shared.clone(), name.to_owned());
        self.on_runtime(async move {
            let none = FieldRecord::default();
            shared.wait(shared.link.replace_fields(&name, &none, &none)).await
        })
    }

    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> RedisFuture<Result<(), String>> {
        let (shared, name, fields) = (self.shared.clone(), name.to_owned(), fields.clone());
        self.on_runtime(async move {
            let agreed = shared.wait(shared.link.agree_on_fields(&name, &fields)).await?;
            Ok(agreed.map_err(|differ| other_fields(&differ)))
        })
    }

    fn forests(&self) -> RedisFuture<Vec<(String, u8, String)>> {
        let shared = self.shared.clone();
        self.on_runtime(async move { shared.wait(shared.link.forests()).await })
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> RedisFuture<(Vec<Key>, Option<ScanPosition>)> {
        let shared = self.shared.clone();
        self.on_runtime(async move { shared.wait(shared.link.keys(forest, place)).await })
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> RedisFuture<SyncEntries> {
        let shared = self.shared.clone();
        self.on_runtime(async move {
            let answer = shared.link.lessons(forest, lesson.as_ref(), from);
            shared.wait(answer).await
        })
    }

    fn remove_sync_entries(&self, forest: u8) -> RedisFuture<()> {
        let shared = self.shared.clone();
        self.on_runtime(async move { shared.wait(shared.link.forget_lessons(forest)).await })
    }

    fn size(&self) -> RedisFuture<(usize, usize)> {
        let shared = self.shared.clone();
        self.on_runtime(async move { shared.wait(shared.link.size()).await })
    }

    fn sample(&self, forest: u8, seed: u64) -> RedisFuture<KeySample> {
        let shared = self.shared.clone();
        self.on_runtime(async move { shared.wait(shared.link.sample(forest, seed)).await })
    }

    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(self.handle.spawn(job));
    }

    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let _on_runtime = self.handle.enter();
        Box::pin(sleep(time))
    }

    fn arrival(&self, claimed: Millis) -> Millis {
        arrival_at(clock::now(), claimed)
    }

    fn now(&self) -> Millis {
        clock::now()
    }

    fn redis_time(&self) -> RedisFuture<Option<Millis>> {
        let shared = self.shared.clone();
        self.on_runtime(async move { shared.wait(shared.link.time()).await.map(Some) })
    }

    fn uptime(&self) -> Duration {
        self.shared.made.elapsed()
    }

    fn away(&self) -> Option<RedisUnavailable> {
        self.shared.away.lock().clone()
    }

    fn evictions(&self) -> Evictions {
        self.shared.evictions.lock().unwrap_or_default()
    }
}

impl TcpRedis {
    /// Runs a future on the runtime, from any thread.
    fn on_runtime<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, RedisUnavailable>> + Send + 'static,
    ) -> RedisFuture<T> {
        let job = self.handle.spawn(job);
        Box::pin(async move {
            let ended = |_| Err(RedisUnavailable::of("spinney is stopping"));
            job.await.unwrap_or_else(ended)
        })
    }
}

impl Drop for TcpRedis {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped where nothing may wait.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for TcpRedis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("TcpRedis");
        shown.field("address", self.shared.link.address());
        shown.field("away", &*self.shared.away.lock()).finish()
    }
}
