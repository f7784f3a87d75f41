//! State shared by all requests.

use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedMutexGuard, Semaphore, watch};
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use crate::access::{Access, Door, DoorError};
use crate::backfill::{FirstStatus, Restamping, SweepStatus};
use crate::chance::{self, secret_key};
use crate::clock;
use crate::cluster::{self, ClientError, Signer};
use crate::config::{OnRedisFailure, OnUnstamped, RestrictedReaders, ServeLimits, ServeOptions};
use crate::counts::Counts;
use crate::docid::DocIds;
use crate::engine::{Engine, EngineError, ReaderFields, RequestContext, Unavailable};
use crate::forest::shared::keys::RedisClient;
use crate::groups::{KeywordForms, ListCache, ReaderPermits};
use crate::history::History;
use crate::http::budget::Budget;
use crate::http::{ProxyError, caller};
use crate::recovery;
use crate::redis::{EvictsKeys, TcpRedis};
use crate::shutdown::{InFlight, Writes};
use crate::telemetry::{AccessLog, AccessLogError, Metrics, loggable};

/// Bytes of large responses that readers have not received yet: in total, and the percentage for one client.
pub(crate) const ANSWERS: usize = 256 << 20;
const ANSWERS_OF_ONE: u8 = 50;

/// Reads the configuration again, puts into effect what may change, and returns its options.
pub(crate) type Reload = Box<dyn FnMut(&Arc<AppState>) -> anyhow::Result<Vec<&'static str>> + Send>;

/// The turn to read it: one at a time. `None` before the first start is over.
pub(crate) type ReloadTurn = OwnedMutexGuard<Option<Reload>>;

/// State shared by all requests. Created by the server, used by the proxy and the own endpoints.
pub(crate) struct AppState {
    /// The routes and their forests.
    pub engine: Arc<Engine>,
    /// The search cluster.
    pub cluster: cluster::Client,
    /// Credentials of the service user as a header.
    pub service: HeaderMap,
    /// Changed groups for counting.
    pub counts: Counts,
    /// Budget of write requests in bytes.
    pub budget: Arc<Budget>,
    /// Limits, which may change.
    limits: RwLock<ServeLimits>,
    /// The configuration once routes were added: the background tasks begin anew with it.
    pub with_more_routes: watch::Sender<Option<Arc<ServeOptions>>>,
    /// Reads the configuration again.
    reload: Arc<tokio::sync::Mutex<Option<Reload>>>,
    /// The access log, if there is one.
    pub access_log: Option<Arc<AccessLog>>,
    /// Metrics.
    pub metrics: Metrics,
    /// Who may send requests.
    pub door: Door,
    /// Whether groups may be changed by hand.
    pub overrides: bool,
    /// Requests in flight.
    pub in_flight: InFlight,
    /// Tokens of open client connections.
    pub connections: TaskTracker,
    /// Start of serving.
    pub started: Instant,
    /// Address for sniffing clients, if configured.
    pub publish_address: Option<String>,
    /// Serialises writes of unverified writers.
    pub unverified_writers: Arc<Semaphore>,
    /// Cache of lists of groups.
    pub lists: ListCache,
    /// Aggregatable medium fields by index.
    pub keyword_forms: KeywordForms,
    /// Permits of readers.
    pub readers: ReaderPermits,
    /// Budget of unread responses.
    pub answers: Arc<Budget>,
    /// The docId service, if configured.
    pub docids: Option<DocIds>,
    /// What happens to writes that cannot be stamped.
    pub unstamped: OnUnstamped,
    /// Whether readers may be restricted to some documents of an index.
    pub restricted_readers: RestrictedReaders,
    /// Samples for the overview page.
    pub history: History,
    /// Key of caller hashes, so that they cannot be forged.
    pub callers: RandomState,
    /// Callers whom the cluster has let see the state.
    pub monitors: Mutex<HashSet<u64>>,
    /// State of the sweep.
    pub swept: SweepStatus,
    /// Writes in flight.
    pub writes: Writes,
    /// State of restamping.
    pub restamping: Restamping,
    /// State of the task that keeps one first document in each group.
    pub firsts: FirstStatus,
    /// State of catching up at the start.
    pub recovery: recovery::RecoveryStatus,
    /// Salt of roots and request ids of this process.
    nonce: u64,
    requests: AtomicU64,
    unavailable_logged: AtomicBool,
}

/// Errors of creating the state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// Invalid routes, fields or forests.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Invalid nodes or certificates.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// The file of callers.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// The file of the access log.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// Error of the forest store.
    #[error("cannot use the forest store")]
    Redis(#[from] std::io::Error),
    /// The forest store has a forest with other settings, or with texts of other fields.
    #[error("cannot use the forest store")]
    OtherForest(#[source] Unavailable),
    /// The forest store removes keys by itself.
    #[error("cannot use the forest store")]
    EvictsKeys(#[from] EvictsKeys),
}

/// The client of the shared forests' Redis, if configured, with the handling of its outages. Records nothing in Redis
/// yet.
async fn forest_store(config: &ServeOptions) -> Result<Option<(Arc<dyn RedisClient>, OnRedisFailure)>, StateError> {
    let Some(store) = &config.forest_store else {
        return Ok(None);
    };
    let keys = TcpRedis::new(store.address.clone(), store.ca.as_deref())?.when_away(store.on_loss.told());
    keys.begin().await?;
    Ok(Some((Arc::new(keys), store.on_loss)))
}

/// Creates the engine with its forest storage.
fn engine(config: &ServeOptions, store: Option<(Arc<dyn RedisClient>, OnRedisFailure)>) -> Result<Engine, StateError> {
    let (routes, prefix, threads) = (&config.routes, &config.prefix, config.threads);
    let key = secret_key();
    Ok(match store {
        Some((keys, on_loss)) => Engine::shared(routes, prefix, threads, key, &keys, on_loss)?,
        None => Engine::stored(routes, prefix, threads, key, config.storage.as_ref())?,
    })
}

impl AppState {
    /// Creates the state of a process that has served nothing yet.
    ///
    /// # Errors
    /// When routes or TLS material cannot be used, or the forest store evicts keys, or has a forest that was begun with
    /// other settings or fields.
    pub(crate) async fn new(config: &ServeOptions) -> Result<AppState, StateError> {
        let store = forest_store(config).await?;
        let state = AppState::with_engine(config, || engine(config, store))?;
        match state.engine.forests().check_settings().await {
            Err(other @ Unavailable::Unsupported { .. }) => Err(StateError::OtherForest(other)),
            // A Redis that is away is asked when it is back.
            _ => Ok(state),
        }
    }

    /// Creates the state with this engine. It is made last of what may fail: stored forests record the fields that it
    /// reads.
    pub(crate) fn with_engine(
        config: &ServeOptions,
        engine: impl FnOnce() -> Result<Engine, StateError>,
    ) -> Result<AppState, StateError> {
        let cluster = cluster::Client::new(
            &config.upstream,
            config.upstream_ca.as_deref(),
            config.upstream_identity.as_ref(),
            Signer::of(config.sigv4.as_ref()).as_ref(),
            config.limits.upstream_timeout,
        )?;
        Ok(AppState {
            engine: Arc::new(engine()?.with_stamps(config.stamp)),
            cluster,
            service: {
                let credentials = config.service_url.credentials.clone().into_iter();
                credentials.map(|value| (AUTHORIZATION, value)).collect()
            },
            door: Door::of(config)?,
            overrides: config.overrides,
            counts: Counts::new(config.counts && !config.routes.is_empty()),
            budget: Budget::new(config.limits.budget, config.limits.client_share),
            limits: RwLock::new(config.limits),
            with_more_routes: watch::Sender::default(),
            reload: Arc::default(),
            access_log: config.access_log.as_deref().map(AccessLog::open).transpose()?.map(Arc::new),
            metrics: Metrics::default(),
            in_flight: InFlight::default(),
            connections: TaskTracker::new(),
            started: Instant::now(),
            publish_address: config.publish_address.clone(),
            unverified_writers: Arc::new(Semaphore::new(1)),
            lists: ListCache::default(),
            keyword_forms: KeywordForms::default(),
            readers: ReaderPermits::default(),
            answers: Budget::new(ANSWERS, ANSWERS_OF_ONE),
            docids: config.docid_endpoint.as_deref().map(|index| {
                let route = config.routes.iter().find(|route| route.matches(index));
                DocIds::new(index, route.and_then(|route| route.window))
            }),
            unstamped: config.unstamped,
            restricted_readers: config.restricted_readers,
            history: History::default(),
            callers: RandomState::new(),
            monitors: Mutex::default(),
            swept: SweepStatus::new(config.sweep),
            writes: Writes::default(),
            restamping: Restamping::default(),
            firsts: FirstStatus::default(),
            recovery: recovery::RecoveryStatus::default(),
            nonce: chance::nonce(),
            requests: AtomicU64::new(0),
            unavailable_logged: AtomicBool::new(false),
        })
    }

    /// Fields of an index named as in the caller's path.
    pub(crate) async fn reader_fields(&self, caller: &HeaderMap, raw_index: &str) -> ReaderFields {
        let hash = self.caller(caller, None);
        let (engine, cluster, now) = (&self.engine, &self.cluster, clock::now());
        let fields = self.keyword_forms.fields(engine, cluster, (hash, caller), raw_index, now);
        fields.await
    }

    /// A hash of what the cluster may tell a caller by: nothing, where it sees spinney alone.
    pub(crate) fn caller(&self, headers: &HeaderMap, query: Option<&str>) -> u64 {
        match self.cluster.signs() {
            true => caller::caller(&self.callers, &HeaderMap::new(), None),
            false => caller::caller(&self.callers, headers, query),
        }
    }

    /// Limits as they are now.
    pub(crate) fn limits(&self) -> ServeLimits {
        *self.limits.read()
    }

    /// Other limits from now on. What is held or in flight stays.
    pub(crate) fn set_limits(&self, limits: ServeLimits) {
        *self.limits.write() = limits;
        self.budget.resize(limits.budget, limits.client_share);
        self.cluster.set_timeout(limits.upstream_timeout);
    }

    /// Waits until nobody else reads the configuration again.
    pub(crate) async fn reload_turn(&self) -> ReloadTurn {
        self.reload.clone().lock_owned().await
    }

    /// As [`reload_turn`](Self::reload_turn), without waiting.
    pub(crate) fn try_reload_turn(&self) -> Option<ReloadTurn> {
        self.reload.clone().try_lock_owned().ok()
    }

    /// Opens the access log again and puts into effect what has changed in the configuration and may change at run
    /// time. Returns the options that have changed. Blocks while files are read.
    ///
    /// # Errors
    /// The access log cannot be opened, the configuration is wrong, or something else has changed in it: nothing of it
    /// takes effect.
    pub(crate) fn reload(self: &Arc<Self>, mut turn: ReloadTurn) -> anyhow::Result<Vec<&'static str>> {
        let reload = turn.as_mut().ok_or_else(|| anyhow::anyhow!("it is not read at a start yet"))?;
        let reopened = self.access_log.as_ref().map_or(Ok(()), |log| log.reopen());
        let changed = reopened.map_err(anyhow::Error::from).and_then(|()| reload(self));
        match &changed {
            Ok(changed) => info!(changed = changed.join(", "), "the configuration was read again"),
            Err(reason) => warn!(reason = format!("{reason:#}"), "the configuration was read again, nothing changes"),
        }
        changed
    }

    /// Dependencies of authorisation.
    pub(crate) fn access(&self) -> Access<'_> {
        Access { engine: &self.engine, cluster: &self.cluster, service: &self.service, overrides: self.overrides }
    }

    /// Request id for the log: the client's, as far as it can be logged, or a new one.
    pub(crate) fn request_id(&self, opaque_id: Option<&HeaderValue>) -> String {
        match opaque_id {
            Some(id) if !id.is_empty() => loggable(id),
            _ => format!("{:08x}-{}", self.nonce as u32, self.requests.fetch_add(1, Relaxed)),
        }
    }

    /// Engine context of a request that arrives now.
    pub(crate) fn request_context(&self, caller: u64) -> RequestContext {
        let now = clock::now();
        RequestContext { now, latest: clock::latest_at(now), unique: self.unique(), caller: Some(caller) }
    }

    /// Logs an engine error, once per forest that is out of service, and returns the error for the client. Panic
    /// messages are not returned: they may quote documents.
    pub(crate) fn engine_failed(&self, reason: &Unavailable) -> ProxyError {
        match reason {
            Unavailable::Poisoned { forest, .. } | Unavailable::NotStored { forest, .. } => {
                if !self.unavailable_logged.swap(true, Relaxed) {
                    error!(%reason, "writes are refused");
                }
                ProxyError::ForestUnavailable { forest: forest.clone() }
            }
            // Redis logs its own outages.
            Unavailable::Away { forest, reason } => {
                debug!(forest, reason, "a write is refused");
                ProxyError::ForestAway { forest: forest.clone() }
            }
            // As above.
            Unavailable::Full { forest, reason, .. } => {
                debug!(forest, reason, "a write is refused");
                ProxyError::ForestFull { forest: forest.clone() }
            }
            Unavailable::Overtaken { forest, .. } => {
                warn!("{reason}: the request is refused");
                ProxyError::ForestBusy { forest: forest.clone() }
            }
            Unavailable::Unsupported { forest, .. } => {
                error!("{reason}: the request is refused");
                ProxyError::ForestUnsupported { forest: forest.clone() }
            }
            Unavailable::Panicked(_) => {
                error!("{reason}: please report this as a bug");
                ProxyError::Internal
            }
            Unavailable::Stopped => ProxyError::Stopping,
        }
    }

    /// A request number unique to this process.
    pub(crate) fn unique(&self) -> u64 {
        let count = self.requests.fetch_add(1, Relaxed);
        xxhash_rust::xxh3::xxh3_64_with_seed(&count.to_le_bytes(), self.nonce)
    }
}

#[cfg(test)]
impl AppState {
    /// A state with one thread for text work and a route for `news-*` with the method `longest`. No cluster is there.
    pub(crate) fn for_test() -> Arc<AppState> {
        Arc::new(AppState::unshared())
    }

    /// A state whose forests are out of service.
    pub(crate) fn out_of_service() -> Arc<AppState> {
        let mut state = AppState::unshared();
        let engine = Arc::into_inner(state.engine).unwrap().out_of_service();
        state.engine = Arc::new(engine);
        Arc::new(state)
    }

    /// A state with this handling of writes that cannot be stamped.
    pub(crate) fn with_unstamped(unstamped: OnUnstamped) -> Arc<AppState> {
        Arc::new(AppState { unstamped, ..AppState::unshared() })
    }

    fn unshared() -> AppState {
        let options = r#"
            upstream = ["http://127.0.0.1:1"]
            threads = 1
            sweep = "10m"
            [[route]]
            index = ["news-*"]
            method = "longest"
        "#;
        let config = toml::from_str::<crate::config::RawServeOptions>(options).unwrap().validate().unwrap();
        futures_executor::block_on(AppState::new(&config)).unwrap()
    }

    /// How many nodes the forests have.
    pub(crate) async fn nodes(&self) -> usize {
        let forests = self.engine.forests().stats().await.unwrap();
        forests.iter().map(|(_, stats)| stats.nodes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_log_calls_a_request() {
        let state = AppState::for_test();
        let named = |id: &[u8]| state.request_id(Some(&HeaderValue::from_bytes(id).unwrap()));
        let kibana = "1f0e-9c;kibana:application:discover:";
        assert_eq!(named(kibana.as_bytes()), kibana);
        let forged = "x method=DELETE path=\"/\"}: stopped\t\u{e4}[2J";
        assert_eq!(named(forged.as_bytes()), "x_method_DELETE_path__/__:_stopped___[2J");
        assert_eq!(named(&[b'a'; 5000]).len(), crate::telemetry::LOGGABLE_CHARS);
        let own = [state.request_id(None), named(b""), state.request_id(None)];
        assert!(own[0] != own[1] && own[1] != own[2] && own[0] != own[2], "{own:?}");
    }
}
