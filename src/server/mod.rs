//! Connections: accepted, served over HTTP/1.1 with or without TLS, and drained at the end. Each request goes to the own
//! endpoints or to the proxy; whatever goes wrong there becomes a response here.

mod head_timeout;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::{Instrument, debug, error, info, warn};

use crate::config::ServeOptions;
use crate::http::tls::{self, TlsError};
use crate::http::{Body, ProxyError};
use crate::proxy::router::{self, Target};
use crate::state::{self, AppState, StateError};
use crate::{api, proxy, shutdown};
use head_timeout::{HEAD_TIMEOUT, head_timeout};

/// How often expired nodes are removed while nobody writes, and how many at once.
const EXPIRY_TICK: Duration = Duration::from_millis(100);
const EXPIRY_BUDGET: usize = 2_000;

/// How many of those ticks pass between two looks for a forest that is full.
const EVICTION_TICKS: u64 = 50;

/// How many headers a request may have: the servers bound the bytes of a head only, and 16 KiB hold no more.
const MAX_HEADERS: usize = 4096;

const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait when the system gives no more connections: those in use come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the process cannot serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The certificate or key of our own side.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// What requests share cannot be made.
    #[error(transparent)]
    State(#[from] StateError),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
}

/// Serves until a signal, then drains what is in flight. `ready` gets the address once connections are accepted.
///
/// # Errors
/// When the address cannot be bound or TLS material cannot be read.
#[expect(
    clippy::disallowed_methods,
    reason = "exit: a second signal means at once, and nothing here needs its destructor"
)]
pub(crate) async fn serve(
    config: ServeOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let tls = config.tls.as_ref().map(tls::server).transpose()?;
    let acceptor = tls.map(TlsAcceptor::from);
    let cannot_listen = |source| ServeError::Listen {
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let state = Arc::new(AppState::new(&config)?);
    info!(%address, upstream = ?config.upstream, routes = config.routes.len(), "listening");
    if config.routes.is_empty() {
        warn!(
            "no route is configured, so nothing is stamped: give --index, or [[route]] tables in the file"
        );
    }
    if let Err(reason) = state.engine.limit_memory(config.forest_memory).await {
        state.engine_failed(&reason);
    }
    ready(address);

    tokio::spawn(expire(state.clone()));
    let accepting = tokio::spawn(accept(listener, acceptor, state.clone()));
    let signal = shutdown::signal().await.map_err(ServeError::Signals)?;
    info!(signal, in_flight = state.in_flight.count(), "stopping");
    // Whoever asks a second time does not want to wait.
    let cut_off = tokio::select! {
        cut_off = state.in_flight.drain(config.grace) => cut_off,
        again = shutdown::signal() => {
            let signal = again.map_err(ServeError::Signals)?;
            warn!(signal, in_flight = state.in_flight.count(), "stopping at once");
            std::process::exit(130);
        }
    };
    accepting.abort();
    if cut_off > 0 {
        warn!(
            requests = cut_off,
            "the grace period ended before these requests did"
        );
    }
    info!("stopped");
    Ok(())
}

/// Says once that documents are forgotten before their window ends.
async fn warn_of_eviction(state: &AppState) -> bool {
    let forests = state.engine.stats().await.unwrap_or_default();
    let full = forests.iter().find(|(_, stats)| stats.evicted_total > 0);
    if let Some((forest, stats)) = full {
        warn!(
            forest,
            nodes = stats.nodes,
            "the forest is full: what came longest ago is forgotten before its window ends; give it more with --forest-memory, or a shorter window"
        );
    }
    full.is_some()
}

async fn expire(state: Arc<AppState>) {
    let mut tick = tokio::time::interval(EXPIRY_TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut ticks, mut warned) = (0_u64, false);
    loop {
        tick.tick().await;
        ticks += 1;
        if !warned && ticks.is_multiple_of(EVICTION_TICKS) {
            warned = warn_of_eviction(&state).await;
        }
        let now = state::now();
        if let Err(reason) = state.engine.expire(now, EXPIRY_BUDGET).await {
            state.engine_failed(&reason);
        }
        match state.engine.forget_unknown(now, EXPIRY_BUDGET).await {
            Ok(withdrawn) => {
                state.metrics.counters.nodes_withdrawn.inc_by(withdrawn);
            }
            Err(reason) => drop(state.engine_failed(&reason)),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing signals when a file descriptor comes free again"
)]
async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<AppState>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely.
                error!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (state, acceptor) = (state.clone(), acceptor.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, state).await {
                debug!(%peer, %error, "connection ended");
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    state: Arc<AppState>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    match acceptor {
        None => serve_http(TokioIo::new(stream), state).await?,
        Some(acceptor) => {
            let handshake = acceptor.accept(stream);
            let stream = tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, handshake).await??;
            serve_http(TokioIo::new(stream), state).await?;
        }
    }
    Ok(())
}

async fn serve_http<T>(stream: T, state: Arc<AppState>) -> hyper::Result<()>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (timer, stream) = head_timeout(stream);
    let mut http = http1::Builder::new();
    http.timer(timer)
        .header_read_timeout(HEAD_TIMEOUT)
        .preserve_header_case(true)
        .max_headers(MAX_HEADERS)
        .auto_date_header(false);
    let service = service_fn(move |request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(respond(&state, request).await) }
    });
    http.serve_connection(stream, service).await
}

/// Answers one request; whatever goes wrong becomes a response.
async fn respond(state: &Arc<AppState>, request: Request<Incoming>) -> Response<Body> {
    let began = Instant::now();
    state.metrics.counters.requests.inc();
    let opaque_id = request.headers().get("x-opaque-id").cloned();
    let span = tracing::info_span!(
        "request",
        id = %state.request_id(opaque_id.as_ref()),
        method = %request.method(),
        path = request.uri().path(),
    );
    let response = async move {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        // The own endpoints answer while the process drains too: liveness and readiness are asked for then.
        let (result, ours) = match router::classify(&method, &path) {
            Target::Own(endpoint) => (api::handle(state, endpoint, request).await, true),
            target => (proxy::handle(state, target, request).await, false),
        };
        let draining = state.in_flight.is_draining();
        let failed = result.is_err();
        let mut response = result.unwrap_or_else(|error| {
            record(state, &error);
            error.response()
        });
        if ours || failed {
            mark_as_ours(state, &mut response, opaque_id);
        }
        if draining {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
    .instrument(span)
    .await;
    state.metrics.observe_request(began.elapsed());
    response
}

/// Gives a response of our own what every response of the cluster has: the client's id of the request, and the header
/// that the Elasticsearch clients check.
fn mark_as_ours(state: &AppState, response: &mut Response<Body>, opaque_id: Option<HeaderValue>) {
    let headers = response.headers_mut();
    if let Some(id) = opaque_id {
        headers.insert("x-opaque-id", id);
    }
    if state.cluster.is_elasticsearch() {
        headers.insert(
            "x-elastic-product",
            HeaderValue::from_static("Elasticsearch"),
        );
    }
}

/// Counts and logs an error.
fn record(state: &AppState, error: &ProxyError) {
    use ProxyError as E;
    let counters = &state.metrics.counters;
    match error {
        E::OverBudget { .. } | E::LargerThanBudget { .. } => {
            counters.refused_over_budget.inc();
        }
        E::Stopping => {
            counters.refused_stopping.inc();
        }
        E::Unreachable(_) => {
            counters.upstream_unreachable.inc();
        }
        E::Broken(_) => {
            counters.upstream_broken.inc();
        }
        _ => {}
    }
    match error {
        // What the client does wrong, and what comes with every stop.
        E::NoEndpoint(_)
        | E::GetOnly
        | E::PostOnly
        | E::NotOneIndex(_)
        | E::NoRoute(_)
        | E::UnsupportedBody
        | E::BadDocument(_)
        | E::NotShown(_)
        | E::Stopping => debug!(reason = %error, "refused"),
        // Logged once, where it was found.
        E::ForestUnavailable { .. } | E::Internal => debug!(reason = %error, "failed"),
        _ => warn!(reason = %error, "refused"),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::{Method, StatusCode};
    use serde_json::Value;

    use super::*;
    use crate::http::full;

    /// One request over a connection of its own.
    async fn ask(state: &Arc<AppState>, method: Method, path: &str, body: &'static str) -> Answer {
        let (client, server) = tokio::io::duplex(64 << 10);
        tokio::spawn(serve_http(TokioIo::new(server), state.clone()));
        let connecting = hyper::client::conn::http1::handshake(TokioIo::new(client));
        let (mut sender, connection) = connecting.await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/x-ndjson")
            .body(full(body))
            .unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            retry_after: parts.headers.contains_key("retry-after"),
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    struct Answer {
        status: StatusCode,
        retry_after: bool,
        body: Value,
    }

    const BULK: &str = "{\"index\":{}}\n{\"content\":\"A sentence that is long enough.\"}\n";

    #[tokio::test]
    async fn writers_and_probes_learn_of_a_forest_out_of_service() {
        let state = AppState::out_of_service();
        for (method, path, body) in [
            (Method::POST, "/news-1/_bulk", BULK),
            (Method::PUT, "/news-1/_doc/1", "{\"content\":\"a b c d e\"}"),
        ] {
            let answer = ask(&state, method, path, body).await;
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
            let error = &answer.body["error"];
            assert_eq!(error["type"], "spinney_forest_unavailable_exception");
            let reason = error["reason"].as_str().unwrap();
            assert!(reason.contains("'news-*'"), "{reason}");
            assert!(!reason.contains("secret"), "{reason}");
            assert!(!answer.retry_after);
        }
        let ready = ask(&state, Method::GET, "/_spinney/_ready", "").await;
        assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            ready.body["reason"],
            "a forest is out of service after an internal error"
        );
        let alive = ask(&state, Method::GET, "/_spinney/_health", "").await;
        assert_eq!(alive.status, StatusCode::OK);
        // What needs no forest goes on to the cluster, which is not there.
        for (method, path, body) in [
            (Method::GET, "/news-1/_search", ""),
            (Method::POST, "/logs-1/_bulk", BULK),
            (
                Method::POST,
                "/news-1/_bulk",
                "{\"delete\":{\"_id\":\"1\"}}\n",
            ),
        ] {
            let answer = ask(&state, method, path, body).await;
            let kind = &answer.body["error"]["type"];
            assert_eq!(kind, "spinney_upstream_unreachable_exception", "{path}");
        }
        assert_eq!(state.in_flight.count(), 0);
    }

    #[tokio::test]
    async fn what_was_not_sent_leaves_no_node() {
        let state = AppState::for_test();
        let answer = ask(&state, Method::POST, "/news-1/_bulk", BULK).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(state.metrics.counters.documents_stamped.get(), 1);
        assert_eq!(state.nodes().await, 0);
        assert_eq!(state.budget.used(), 0);
    }
}
