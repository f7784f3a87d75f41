//! The door: accepts connections, tells writes from everything else, and passes both on.

pub mod answer;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod headers;
mod patient;
mod relay;
pub(crate) mod router;
mod settle;
mod sniff;
mod tell;
pub mod threads;
mod tls;
mod upstream;
mod write;

pub use tls::client as client_tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::{Instrument, debug, error, info, warn};

use crate::api;
use crate::config::ServeOptions;
use crate::engine::{Engine, RequestContext};
use crate::shutdown::Flight;
use crate::telemetry::Counters;
use crate::time::Millis;
use answer::{Body, Refusal};
use budget::Budget;
use router::Target;
use upstream::Upstream;

/// How often expired nodes are removed while nobody writes, and how many at once.
const EXPIRY_TICK: Duration = Duration::from_millis(100);
const EXPIRY_BUDGET: usize = 2_000;

/// How far in the future, in milliseconds, a document's own date may lie: clocks differ and zones are mistaken.
const CLOCKS_DIFFER: i64 = 24 * 3_600_000;

/// How many headers a request may have: the servers bound the bytes of a head only, and 16 KiB hold no more.
const MAX_HEADERS: usize = 4096;

/// What every connection shares.
pub struct Proxy {
    pub engine: Arc<Engine>,
    pub upstream: Upstream,
    pub budget: Arc<Budget>,
    pub counters: Arc<Counters>,
    pub flight: Arc<Flight>,
    pub started: Instant,
    publish_address: Option<String>,
    /// Makes roots and request ids of this process differ from those of any other.
    nonce: u64,
    requests: AtomicU64,
}

/// Serves until a signal, then lands what is in flight. `ready` is told the address once connections are accepted.
///
/// # Errors
/// When the address cannot be bound or TLS material cannot be read.
pub async fn serve(config: ServeOptions, ready: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let acceptor = config
        .tls
        .as_ref()
        .map(tls::server)
        .transpose()?
        .map(TlsAcceptor::from);
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    let counters = Arc::new(Counters::default());
    let proxy = Arc::new(Proxy {
        engine: Arc::new(Engine::new(&config.routes, &config.prefix, config.threads)?),
        upstream: Upstream::new(&config)?,
        budget: Budget::new(config.budget),
        counters,
        flight: Arc::default(),
        started: Instant::now(),
        publish_address: config.publish_address.clone(),
        nonce: nonce(),
        requests: AtomicU64::new(0),
    });
    info!(%address, upstream = ?config.upstream, routes = config.routes.len(), "listening");
    if config.routes.is_empty() {
        warn!(
            "no route is configured, so nothing is stamped: give --index, or [[route]] tables in the file"
        );
    }
    ready(address);

    tokio::spawn(expire(proxy.clone()));
    let accepting = tokio::spawn(accept(listener, acceptor, proxy.clone()));
    let signal = crate::shutdown::signal().await?;
    info!(signal, in_flight = proxy.flight.in_flight(), "stopping");
    // Whoever asks a second time does not want to wait.
    let lost = tokio::select! {
        lost = proxy.flight.land(config.grace) => lost,
        again = crate::shutdown::signal() => {
            warn!(signal = again?, in_flight = proxy.flight.in_flight(), "stopping at once");
            std::process::exit(130);
        }
    };
    accepting.abort();
    if lost > 0 {
        warn!(
            requests = lost,
            "the grace period ended before these requests did"
        );
    }
    info!("stopped");
    Ok(())
}

async fn expire(proxy: Arc<Proxy>) {
    let mut tick = tokio::time::interval(EXPIRY_TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        proxy.engine.expire(now(), EXPIRY_BUDGET);
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, proxy: Arc<Proxy>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: those in use come back.
                error!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (proxy, acceptor) = (proxy.clone(), acceptor.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, proxy).await {
                debug!(%peer, %error, "connection ended");
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    proxy: Arc<Proxy>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(600))
        .preserve_header_case(true)
        .max_headers(MAX_HEADERS)
        .auto_date_header(false);
    let service = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
    });
    match acceptor {
        None => http.serve_connection(TokioIo::new(stream), service).await?,
        Some(acceptor) => {
            let stream =
                tokio::time::timeout(Duration::from_secs(10), acceptor.accept(stream)).await??;
            http.serve_connection(TokioIo::new(stream), service).await?;
        }
    }
    Ok(())
}

impl Proxy {
    /// Answers one request; whatever goes wrong becomes an answer.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        self.counters.requests.add(1);
        let opaque_id = request.headers().get("x-opaque-id").cloned();
        let span = tracing::info_span!(
            "request",
            id = %self.request_id(opaque_id.as_ref()),
            method = %request.method(),
            path = request.uri().path(),
        );
        async move {
            let result = match router::classify(request.method(), request.uri().path()) {
                // Liveness and readiness answer during a stop too.
                Target::Own(path) => {
                    let path = path.to_owned();
                    api::answer(&self, &path, request).await
                }
                target => {
                    let write = write::Write::of(target, &request, &self);
                    self.pass_on(write, request).await
                }
            };
            let stopping = self.flight.stopping();
            let mut response = result.unwrap_or_else(|refusal| {
                self.count(&refusal);
                let mut response = refusal.response();
                if let Some(id) = opaque_id {
                    response.headers_mut().insert("x-opaque-id", id);
                }
                self.sign(&mut response);
                response
            });
            if stopping {
                response
                    .headers_mut()
                    .insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
        .instrument(span)
        .await
    }

    async fn pass_on(
        self: &Arc<Self>,
        write: Option<write::Write>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let Some(passenger) = self.flight.board() else {
            self.counters.refused_stopping.add(1);
            return Err(Refusal::Stopping);
        };
        if let Some(write) = write {
            return write.pass_on(self.clone(), request, passenger).await;
        }
        if let Some(address) = &self.publish_address
            && sniff::asks_for_addresses(request.method(), request.uri().path())
        {
            return sniff::answer(&self.upstream, request, address).await;
        }
        relay::pass_on(&self.upstream, request, passenger).await
    }

    fn count(&self, refusal: &Refusal) {
        match refusal {
            Refusal::OverBudget { .. } | Refusal::LargerThanBudget { .. } => {
                self.counters.refused_over_budget.add(1)
            }
            Refusal::Unreachable(_) => self.counters.upstream_unreachable.add(1),
            Refusal::Broken(_) => self.counters.upstream_broken.add(1),
            _ => {}
        }
        match refusal {
            Refusal::NoEndpoint(_)
            | Refusal::GetOnly
            | Refusal::PostOnly
            | Refusal::NotOneIndex(_)
            | Refusal::NoRoute(_)
            | Refusal::NotJson
            | Refusal::BadDocument(_)
            | Refusal::NotShown(_)
            | Refusal::Stopping => {
                debug!(reason = %refusal, "refused")
            }
            Refusal::Internal => error!(reason = %refusal, "refused"),
            _ => warn!(reason = %refusal, "refused"),
        }
    }

    /// The Elasticsearch clients check this header on every answer.
    pub fn sign(&self, response: &mut Response<Body>) {
        if self.upstream.is_elasticsearch() {
            response.headers_mut().insert(
                "x-elastic-product",
                HeaderValue::from_static("Elasticsearch"),
            );
        }
    }

    fn request_id(&self, opaque_id: Option<&HeaderValue>) -> String {
        match opaque_id.and_then(|id| id.to_str().ok()) {
            Some(id) => id.to_owned(),
            None => format!(
                "{:08x}-{}",
                self.nonce as u32,
                self.requests.fetch_add(1, Relaxed)
            ),
        }
    }

    /// What the engine is told of a request that came now.
    pub fn call(&self) -> RequestContext {
        let now = now();
        RequestContext {
            now,
            latest: Millis(now.0.saturating_add(CLOCKS_DIFFER)),
            unique: self.unique(),
        }
    }

    /// A number that no other request of any process has.
    fn unique(&self) -> u64 {
        let count = self.requests.fetch_add(1, Relaxed);
        xxhash_rust::xxh3::xxh3_64_with_seed(&count.to_le_bytes(), self.nonce)
    }
}

/// The edge's clock; the pure rooms are told the time.
pub fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds every RandomState from the system's randomness.
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}
