//! What all requests share.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use crate::access::Access;
use crate::backfill::{Restamping, SweepStatus};
use crate::clock;
use crate::cluster::{self, ClientError};
use crate::config::{RestrictedReaders, ServeOptions};
use crate::counts::Counts;
use crate::docid::DocIds;
use crate::engine::{Engine, EngineError, ReaderFields, RequestContext, Unavailable};
use crate::forest::shared::keys::KeyStore;
use crate::groups::{KeywordForms, ListCache, ReaderPermits};
use crate::hash::{self, HashKey};
use crate::history::History;
use crate::http::budget::Budget;
use crate::http::{ProxyError, caller};
use crate::recovery;
use crate::redis::RedisStore;
use crate::shutdown::{InFlight, Writes};
use crate::telemetry::Metrics;

/// Characters of a client's own id of a request that the log shows.
const REQUEST_ID_CHARS: usize = 128;

/// Bytes of large answers that all readers together have not taken yet, and the hundredth of them that one client may
/// leave.
pub(crate) const ANSWERS: usize = 256 << 20;
const ANSWERS_OF_ONE: u8 = 50;

/// What all requests share. The proxy and the own endpoints take it; the server makes it.
pub(crate) struct AppState {
    /// Stamps documents.
    pub engine: Arc<Engine>,
    /// The search cluster.
    pub cluster: cluster::Client,
    /// The credentials of the service user, as a request has them.
    pub service: HeaderMap,
    /// Gets to know which groups have changed.
    pub counts: Counts,
    /// Bytes of write requests that may be held.
    pub budget: Arc<Budget>,
    /// How long the body of a write may take.
    pub body_timeout: Duration,
    /// How long a client may send nothing, between two requests or in the middle of one that is relayed.
    pub idle_timeout: Duration,
    /// What `_stats` and `_metrics` show.
    pub metrics: Metrics,
    /// Requests being answered.
    pub in_flight: InFlight,
    /// Connections of clients, each a token of this.
    pub connections: TaskTracker,
    /// When the process began to serve.
    pub started: Instant,
    /// The address that sniffing clients are to read, if any.
    pub publish_address: Option<String>,
    /// Whose turn it is among unverified writers to send a write to the cluster.
    pub unverified_writers: Arc<Semaphore>,
    /// Lists of groups that readers page through.
    pub lists: ListCache,
    /// What indices call the medium of a document.
    pub keyword_forms: KeywordForms,
    /// Whose turn it is among readers.
    pub readers: ReaderPermits,
    /// Bytes of large answers that readers have not taken yet.
    pub answers: Arc<Budget>,
    /// The service of docIds, if there is one.
    pub docids: Option<DocIds>,
    /// Whether some readers do not see every document of an index.
    pub restricted_readers: RestrictedReaders,
    /// What the overview of the page plots.
    pub history: History,
    /// Keys the hashes of callers, so that nobody can make one that is known.
    pub callers: RandomState,
    /// How far the search for documents without a stamp is.
    pub swept: SweepStatus,
    /// Writes on their way to the cluster.
    pub writes: Writes,
    /// How far stored documents obey what people say about groups.
    pub restamping: Restamping,
    /// What was found at the start that the stored forests did not know.
    pub recovery: recovery::RecoveryStatus,
    /// Makes roots and request ids of this process differ from those of any other.
    nonce: u64,
    requests: AtomicU64,
    unavailable_logged: AtomicBool,
}

/// Why a state cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// Routes, fields or forests.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Nodes or certificates.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// The engine of shared forests.
    #[error("cannot use the forest store")]
    ForestStore(#[from] std::io::Error),
}

/// The engine with its forests where they are to be kept.
fn engine(config: &ServeOptions) -> Result<Engine, StateError> {
    let (routes, prefix, threads) = (&config.routes, &config.prefix, config.threads);
    let key = HashKey::secret();
    let Some(store) = &config.forest_store else {
        let storage = config.storage.as_ref();
        return Ok(Engine::stored(routes, prefix, threads, key, storage)?);
    };
    let keys = RedisStore::new(store.address.clone(), store.ca.as_deref())?
        .when_away(store.on_loss.told());
    keys.look();
    let keys: Arc<dyn KeyStore> = Arc::new(keys);
    let on_loss = store.on_loss;
    Ok(Engine::shared(
        routes, prefix, threads, key, &keys, on_loss,
    )?)
}

impl AppState {
    /// The state of a process that has served nothing yet.
    ///
    /// # Errors
    /// When routes or TLS material cannot be used.
    pub(crate) fn new(config: &ServeOptions) -> Result<AppState, StateError> {
        Ok(AppState {
            engine: Arc::new(engine(config)?.with_stamps(config.stamp)),
            cluster: cluster::Client::new(
                &config.upstream,
                config.upstream_ca.as_deref(),
                config.upstream_identity.as_ref(),
                config.limits.upstream_timeout,
            )?,
            service: {
                let credentials = config.service_url.credentials.clone().into_iter();
                credentials.map(|value| (AUTHORIZATION, value)).collect()
            },
            counts: Counts::new(config.counts && !config.routes.is_empty()),
            budget: Budget::new(config.budget, config.limits.client_share),
            body_timeout: config.limits.body_timeout,
            idle_timeout: config.limits.idle_timeout,
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
            restricted_readers: config.restricted_readers,
            history: History::default(),
            callers: RandomState::new(),
            swept: SweepStatus::new(config.sweep),
            writes: Writes::default(),
            restamping: Restamping::default(),
            recovery: recovery::RecoveryStatus::default(),
            nonce: hash::nonce(),
            requests: AtomicU64::new(0),
            unavailable_logged: AtomicBool::new(false),
        })
    }

    /// The fields of an index, as it stands in the caller's path.
    pub(crate) async fn reader_fields(&self, caller: &HeaderMap, raw_index: &str) -> ReaderFields {
        let hash = caller::caller(&self.callers, caller, None);
        let (engine, cluster, now) = (&self.engine, &self.cluster, clock::now());
        let fields = self
            .keyword_forms
            .fields(engine, cluster, (hash, caller), raw_index, now);
        fields.await
    }

    /// What decides who may see what a forest knows, and change its groups.
    pub(crate) fn access(&self) -> Access<'_> {
        Access {
            engine: &self.engine,
            cluster: &self.cluster,
            service: &self.service,
        }
    }

    /// What the log calls a request: the id that the client gave it, as far as a log can show it, or one of our own.
    pub(crate) fn request_id(&self, opaque_id: Option<&HeaderValue>) -> String {
        match opaque_id {
            Some(id) if !id.is_empty() => loggable(id.as_bytes()),
            _ => format!(
                "{:08x}-{}",
                self.nonce as u32,
                self.requests.fetch_add(1, Relaxed)
            ),
        }
    }

    /// What the engine needs to know of a request that came now.
    pub(crate) fn request_context(&self, caller: u64) -> RequestContext {
        let now = clock::now();
        RequestContext {
            now,
            latest: clock::latest_at(now),
            unique: self.unique(),
            caller: Some(caller),
        }
    }

    /// Logs at error level why the engine could not do its work, once for a forest that is out of service, and says what
    /// the client reads: not what a panic said, which may quote somebody's document.
    pub(crate) fn engine_failed(&self, reason: &Unavailable) -> ProxyError {
        match reason {
            Unavailable::Poisoned { forest, .. } | Unavailable::NotStored { forest, .. } => {
                if !self.unavailable_logged.swap(true, Relaxed) {
                    error!(%reason, "writes are refused");
                }
                ProxyError::ForestUnavailable {
                    forest: forest.clone(),
                }
            }
            // Whoever is away is said to be once, by the module that asks it.
            Unavailable::Away { forest, reason } => {
                debug!(forest, reason, "a write is refused");
                ProxyError::ForestAway {
                    forest: forest.clone(),
                }
            }
            // The same.
            Unavailable::Full { forest, reason } => {
                debug!(forest, reason, "a write is refused");
                ProxyError::ForestFull {
                    forest: forest.clone(),
                }
            }
            Unavailable::Overtaken { forest, .. } => {
                warn!("{reason}: the request is refused");
                ProxyError::ForestBusy {
                    forest: forest.clone(),
                }
            }
            Unavailable::Unsupported { forest, .. } => {
                error!("{reason}: the request is refused");
                ProxyError::ForestUnsupported {
                    forest: forest.clone(),
                }
            }
            Unavailable::Panicked(_) => {
                error!("{reason}: please report this as a bug");
                ProxyError::Internal
            }
            Unavailable::Stopped => ProxyError::Stopping,
        }
    }

    /// A number that no other request of any process has.
    pub(crate) fn unique(&self) -> u64 {
        let count = self.requests.fetch_add(1, Relaxed);
        xxhash_rust::xxh3::xxh3_64_with_seed(&count.to_le_bytes(), self.nonce)
    }
}

/// An id that somebody else chose, for a log line: short, and without what could end the field that it stands in and begin
/// another one.
fn loggable(id: &[u8]) -> String {
    let shown = |&byte: &u8| {
        let plain = byte.is_ascii_graphic() && !b"\"\\={}".contains(&byte);
        if plain { char::from(byte) } else { '_' }
    };
    id.iter().take(REQUEST_ID_CHARS).map(shown).collect()
}

#[cfg(test)]
impl AppState {
    /// A state with one thread for text work and a route for `news-*` with the method `longest`. No cluster is there.
    pub(crate) fn for_test() -> Arc<AppState> {
        Arc::new(AppState::unshared())
    }

    /// The same, with forests that are out of service.
    pub(crate) fn out_of_service() -> Arc<AppState> {
        let mut state = AppState::unshared();
        let engine = Arc::into_inner(state.engine).unwrap().out_of_service();
        state.engine = Arc::new(engine);
        Arc::new(state)
    }

    fn unshared() -> AppState {
        let options = r#"
            upstream = ["http://127.0.0.1:1"]
            threads = 1
            [[route]]
            index = ["news-*"]
            method = "longest"
        "#;
        let config = toml::from_str::<crate::config::RawServeOptions>(options)
            .unwrap()
            .validate()
            .unwrap();
        AppState::new(&config).unwrap()
    }

    /// How many nodes the forests have.
    pub(crate) async fn nodes(&self) -> usize {
        let forests = self.engine.stats().await.unwrap();
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
        assert_eq!(
            named(forged.as_bytes()),
            "x_method_DELETE_path__/__:_stopped___[2J"
        );
        assert_eq!(named(&[b'a'; 5000]).len(), REQUEST_ID_CHARS);
        let own = [state.request_id(None), named(b""), state.request_id(None)];
        assert!(
            own[0] != own[1] && own[1] != own[2] && own[0] != own[2],
            "{own:?}"
        );
    }
}
