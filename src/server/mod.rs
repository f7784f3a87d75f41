//! The server: dispatches requests to own endpoints or the proxy, and renders their errors as responses. Connections
//! are accepted, served over HTTP/1.1 with or without TLS (`accept`), and drained at the end.

mod accept;
mod added_routes;
mod background;
mod catch_up;
mod clock_check;
mod connections;
mod head_timeout;
mod indeterminate;
mod loopback;
mod record;
mod service_manager;
mod tasks;
mod warnings;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Method, Request, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tracing::{Instrument, info, warn};

use crate::cluster::operator::{Operator, OperatorError};
use crate::config::ServeOptions;
use crate::endpoints::{self, ApiEndpoint, Endpoint, EndpointRow, MatchedEndpoint};
use crate::http::canonical::canonical;
use crate::http::tls::{self, TlsError};
use crate::http::{Body, ProxyError, body};
use crate::proxy::router::{self, RequestKind};
use crate::recovery::RecoveryError;
use crate::shutdown::{Hangups, Signals};
use crate::state::{AppState, Reload, StateError};
use crate::telemetry::{AccessLog, Line};
use crate::traces::TraceSpan;
use crate::{api, proxy, recovery, ui};
use accept::Listener;
use record::record;
use warnings::warn_of_config;
pub(crate) use {
    accept::serve_connection, added_routes::AddedRoutes, catch_up::begin as begin_catching_up, tasks::Tasks,
};

/// How long a shutdown waits for points in time to be closed.
const CLOSING: Duration = Duration::from_secs(2);

/// The endpoint that the admin listener has under `/metrics` too.
const METRICS_PATH: &str = "/_spinney/_metrics";

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
    /// The shared state cannot be created.
    #[error(transparent)]
    State(#[from] StateError),
    /// The service client cannot be created.
    #[error(transparent)]
    Service(#[from] OperatorError),
    /// The forests cannot be rebuilt.
    #[error("the forests are to be recovered before anything is served (--recover-at-start)")]
    Recovery(#[source] RecoveryError),
    /// There is nothing to sign requests with.
    #[error("cannot sign requests for AWS: {0}")]
    Signer(String),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
}

/// Serves until a signal, then drains requests in flight. `ready` receives the addresses once connections are
/// accepted: that of the main listener, and that of the admin listener if there is one. `reload` is called at SIGHUP, and
/// by a request to the admin listener.
///
/// # Errors
/// When an address cannot be bound or TLS material cannot be read.
#[expect(
    clippy::disallowed_methods,
    reason = "exit: a second signal means at once, and nothing here needs its destructor"
)]
pub(crate) async fn serve(
    config: ServeOptions,
    ready: impl FnOnce(SocketAddr, Option<SocketAddr>),
    reload: Reload,
) -> Result<(), ServeError> {
    // Before anything that takes its time: without a handler a signal ends the process.
    let hangups = Hangups::install().map_err(ServeError::Signals)?;
    let acceptor = |client_ca| -> Result<Option<TlsAcceptor>, TlsError> {
        let config = config.tls.as_ref().map(|identity| tls::server(identity, client_ca)).transpose()?;
        Ok(config.map(TlsAcceptor::from))
    };
    let (main_acceptor, admin_acceptor) = (acceptor(config.client_ca.as_deref())?, acceptor(None)?);
    let (listener, address) = listen(config.listen).await?;
    let admin = match config.admin_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    if config.recover_at_start {
        recovery::at_start(&config).await.map_err(ServeError::Recovery)?;
    }
    let service = Operator::of_service(&config)?;
    service.check_signer().await.map_err(ServeError::Signer)?;
    let state = Arc::new(AppState::new(&config).await?);
    let admin_address = admin.as_ref().map(|(_, address)| *address);
    info!(
        %address,
        admin_address = admin_address.map(tracing::field::display),
        upstream = ?config.upstream,
        routes = config.routes.len(),
        max_connections = config.limits.connections,
        "listening"
    );
    warn_of_config(&config);
    if let Err(reason) = state.engine.forests().limit_memory(config.forest_memory).await {
        state.engine_failed(&reason);
    }
    let mut clock = check_clock(&state, &service).await;
    catch_up::begin(0, &state, &config, &service).await;
    // Installed before readiness is reported, because a stop may follow at once.
    let mut signals = Signals::install().map_err(ServeError::Signals)?;
    let mut with_more_routes = state.with_more_routes.subscribe();
    *state.reload_turn().await = Some(reload);
    hangups.each({
        let state = state.clone();
        move || {
            let state = state.clone();
            async move {
                let turn = state.reload_turn().await;
                // It says in the log what came of it. A file may be slow.
                let _ = tokio::task::spawn_blocking(move || drop(state.reload(turn))).await;
            }
        }
    });
    ready(address, admin_address);
    service_manager::ready();

    let mut tasks = Tasks::start(&state, &config, &service, tasks::EXPIRY_TICK);
    let main = Listener::main(main_acceptor);
    let accepting = tokio::spawn(accept::accept(listener, main, state.clone()));
    if let Some((listener, _)) = admin {
        tokio::spawn(accept::accept(listener, Listener::admin(admin_acceptor), state.clone()));
    }
    let signal = loop {
        tokio::select! {
            biased;
            signal = signals.next() => break signal.map_err(ServeError::Signals)?,
            Ok(()) = with_more_routes.changed() => {
                let Some(config) = with_more_routes.borrow_and_update().clone() else { continue };
                clock.abort();
                clock = check_clock(&state, &service).await;
                tasks.with_more_routes(&state, &config, &service).await;
            }
        }
    };
    service_manager::stopping();
    info!(signal, in_flight = state.in_flight.count(), "stopping");
    tasks.send_no_more();
    // A second signal ends the wait.
    let cut_off = tokio::select! {
        biased;
        cut_off = state.in_flight.drain(state.limits().grace) => cut_off,
        again = signals.next() => {
            let signal = again.map_err(ServeError::Signals)?;
            warn!(signal, in_flight = state.in_flight.count(), "stopping at once");
            std::process::exit(130);
        }
    };
    accepting.abort();
    clock.abort();
    tasks.end().await;
    service.settle(CLOSING).await;
    if cut_off > 0 {
        warn!(requests = cut_off, "the grace period ended before these requests did");
    }
    let engine = state.engine.clone();
    // A panic in it has been logged by the panic hook.
    let _ = tokio::task::spawn_blocking(move || {
        engine.forests().close();
        state.access_log.iter().for_each(|log| log.close());
    })
    .await;
    info!("stopped");
    Ok(())
}

/// Checks the clock for the routes of now, and goes on with that in the background.
async fn check_clock(state: &AppState, service: &Operator) -> JoinHandle<()> {
    let sources = state.engine.sources().await.unwrap_or_default();
    tokio::spawn(clock_check::begin(&state.engine, &sources, service.clone()).await)
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let cannot_listen = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, address))
}

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Everything.
    Everything,
    /// Everything that spinney asks of itself.
    Loopback,
    /// Probes and monitors, on a listener of their own.
    Admin,
    /// Beyond the limit: only probes are answered, so that an orchestrator does not restart a busy process.
    TooMany,
}

impl Purpose {
    /// Whether connections for it have an endpoint.
    fn has(self, row: &EndpointRow) -> bool {
        match self {
            Purpose::Everything | Purpose::Loopback => !row.is_only_administrative(),
            Purpose::Admin => row.is_administrative(),
            Purpose::TooMany => row.is_monitored(),
        }
    }
}

/// Handles one request; an error becomes a response.
async fn respond(state: &Arc<AppState>, purpose: Purpose, request: Request<Incoming>) -> Response<Body> {
    let began = Instant::now();
    let trace = &TraceSpan::accept(&request);
    state.metrics.counters.requests.inc();
    let opaque_id = request.headers().get("x-opaque-id").cloned();
    let id = state.request_id(opaque_id.as_ref());
    let span = tracing::info_span!(
        "request",
        %id,
        method = %request.method(),
        path = request.uri().path(),
    );
    // It is written also if the client goes before there is a response.
    let entry = state.access_log.as_ref().map(|log| AccessLog::begin(log, Line::of(&request, &id), began));
    let (endpoint, response) = async move {
        let mut request = request;
        let canonical = match state.cluster.signs() {
            true => canonical(request.uri()).map(|uri| *request.uri_mut() = uri),
            false => Ok(()),
        };
        let method = request.method().clone();
        let path = match (purpose, request.uri().path()) {
            // Where Prometheus looks for metrics, if nobody says otherwise.
            (Purpose::Admin, "/metrics") => METRICS_PATH,
            (_, path) => path,
        };
        let path = path.to_owned();
        let is_wanted = |found: &MatchedEndpoint<'_>| {
            let is_docid = found.row.endpoint == Endpoint::Api(ApiEndpoint::DocId);
            !is_docid || state.docids.is_some()
        };
        let found = endpoints::find(&path).filter(is_wanted);
        let target = router::classify(&method, &path);
        let endpoint = endpoint(found.as_ref(), &target);
        // The own endpoints answer while the process drains too: liveness and readiness are asked for then.
        let refused = match &canonical {
            Err(reason) => Err(ProxyError::NotSignable(reason)),
            Ok(()) => admit(state, purpose, found.as_ref(), &request).await,
        };
        let (result, ours) = match (purpose, found) {
            _ if method == Method::CONNECT => (refuse(request, ProxyError::NoTunnel), true),
            _ if let Err(error) = refused => (refuse(request, error), true),
            (Purpose::Everything | Purpose::Loopback, Some(found)) => {
                (own(state, purpose, &found, request).await, true)
            }
            (_, Some(found)) if purpose.has(found.row) => (own(state, purpose, &found, request).await, true),
            (Purpose::Everything | Purpose::Loopback, None) => match target {
                RequestKind::Own(_) => (refuse(request, ProxyError::NoEndpoint(path.clone())), true),
                target => (proxy::handle(state, target, request, trace).await, false),
            },
            (Purpose::Admin, _) => (refuse(request, ProxyError::NotAdmin(path.clone())), true),
            (Purpose::TooMany, _) => (refuse(request, ProxyError::TooManyConnections), true),
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
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        (endpoint, response)
    }
    .instrument(span)
    .await;
    state.metrics.observe_response(endpoint, response.status(), began.elapsed());
    trace.status(response.status());
    match entry {
        Some(entry) => entry.follow(response),
        None => response,
    }
}

/// Name of what a request asks for in the metrics; they know few.
fn endpoint(found: Option<&MatchedEndpoint<'_>>, target: &RequestKind<'_>) -> &'static str {
    match (found, target) {
        (Some(found), _) => found.row.path,
        (None, RequestKind::Bulk { .. } | RequestKind::BulkStream { .. }) => "_bulk",
        (None, RequestKind::Document { .. }) => "_doc",
        (None, RequestKind::Own(_)) => "/_spinney",
        (None, RequestKind::Relay) => "relay",
    }
}

/// Lets a request pass where its caller may send it; probes always pass.
///
/// # Errors
/// Why it may not.
async fn admit(
    state: &AppState,
    purpose: Purpose,
    found: Option<&MatchedEndpoint<'_>>,
    request: &Request<Incoming>,
) -> Result<(), ProxyError> {
    let is_probe = found
        .is_some_and(|found| matches!(found.row.endpoint, Endpoint::Api(ApiEndpoint::Health | ApiEndpoint::Ready)));
    match is_probe || purpose == Purpose::Loopback {
        true => Ok(()),
        false => {
            let is_main = matches!(purpose, Purpose::Everything | Purpose::TooMany);
            state.door.admit(request, is_main, found.is_some()).await
        }
    }
}

/// Handles an endpoint of the table, or says that it is the admin listener's.
async fn own(
    state: &Arc<AppState>,
    purpose: Purpose,
    found: &MatchedEndpoint<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    if let Some(error) = found.row.refuses(request.method().as_str()) {
        return refuse(request, error);
    }
    if !purpose.has(found.row) {
        return refuse(request, ProxyError::OnlyAdmin);
    }
    match found.row.endpoint {
        Endpoint::Api(endpoint) => api::handle(state, endpoint, purpose == Purpose::Admin, found, request).await,
        Endpoint::Page(endpoint) => ui::handle(state, endpoint, found, request).await,
    }
}

/// Refuses a request without reading its body.
fn refuse(request: Request<Incoming>, error: ProxyError) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    body::discard(body, &parts.headers);
    Err(error)
}

/// Adds the headers that every response of the cluster has: `X-Opaque-Id`, and the product header that Elasticsearch
/// clients check.
fn mark_as_ours(state: &AppState, response: &mut Response<Body>, opaque_id: Option<HeaderValue>) {
    let headers = response.headers_mut();
    if let Some(id) = opaque_id {
        headers.insert("x-opaque-id", id);
    }
    if state.cluster.is_elasticsearch() {
        headers.insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    }
}

#[cfg(test)]
mod tests {
    mod unstamped;

    use std::net::{IpAddr, Ipv4Addr};

    use http_body_util::BodyExt;
    use hyper::StatusCode;
    use hyper_util::rt::TokioIo;
    use serde_json::Value;

    use super::*;
    use crate::http::{ClientAddress, full};

    /// One request over a connection of its own.
    async fn ask(state: &Arc<AppState>, method: Method, path: &str, body: &'static str) -> Answer {
        ask_as(state, CLIENT, Purpose::Everything, method, path, body).await
    }

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    async fn ask_as(
        state: &Arc<AppState>,
        client: IpAddr,
        purpose: Purpose,
        method: Method,
        path: &str,
        body: &'static str,
    ) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/x-ndjson");
        send(state, client, purpose, request.body(full(body)).unwrap()).await
    }

    async fn send(state: &Arc<AppState>, client: IpAddr, purpose: Purpose, request: Request<Body>) -> Answer {
        let client_address = ClientAddress(client);
        let (client, server) = tokio::io::duplex(64 << 10);
        let io = TokioIo::new(server);
        tokio::spawn(serve_connection(io, client_address, purpose, state.clone()));
        let connecting = hyper::client::conn::http1::handshake(TokioIo::new(client));
        let (mut sender, connection) = connecting.await.unwrap();
        tokio::spawn(connection);
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
        for (method, path, body) in
            [(Method::POST, "/news-1/_bulk", BULK), (Method::PUT, "/news-1/_doc/1", "{\"content\":\"a b c d e\"}")]
        {
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
            "the forest 'news-*' is out of service: the log says why, and spinney has to be restarted"
        );
        let alive = ask(&state, Method::GET, "/_spinney/_health", "").await;
        assert_eq!(alive.status, StatusCode::OK);
        // What needs no forest goes on to the cluster, which is not there.
        for (method, path, body) in [
            (Method::GET, "/news-1/_search", ""),
            (Method::POST, "/logs-1/_bulk", BULK),
            (Method::POST, "/news-1/_bulk", "{\"delete\":{\"_id\":\"1\"}}\n"),
        ] {
            let answer = ask(&state, method, path, body).await;
            let kind = &answer.body["error"]["type"];
            assert_eq!(kind, "spinney_upstream_unreachable_exception", "{path}");
        }
        assert_eq!(state.in_flight.count(), 0);
    }

    #[tokio::test]
    async fn a_client_that_holds_its_share_is_refused_and_another_is_not() {
        let state = AppState::for_test();
        let half = state.budget.capacity() / 2;
        let mut held = state.budget.enter(CLIENT);
        held.receive(half).unwrap();
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        for (client, status, kind) in
            [(CLIENT, 429, "spinney_over_budget_exception"), (other, 503, "spinney_upstream_unreachable_exception")]
        {
            let everything = Purpose::Everything;
            let answer = ask_as(&state, client, everything, Method::POST, "/news-1/_bulk", BULK);
            let answer = answer.await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.body["error"]["type"], kind);
            assert!(answer.retry_after);
        }
        assert_eq!(state.budget.used(), half);
        assert_eq!(state.metrics.counters.refused_over_budget.get(), 1);
    }

    #[tokio::test]
    async fn a_connection_too_many_and_one_for_probes_are_for_probes() {
        let state = AppState::for_test();
        for (purpose, path, status) in [
            (Purpose::TooMany, "/_spinney/_health", 200),
            (Purpose::TooMany, "/_spinney/_health/", 200),
            (Purpose::TooMany, "/_spinney/_none", 503),
            (Purpose::TooMany, "/news-1/_bulk", 503),
            (Purpose::Admin, "/_spinney/_health", 200),
            (Purpose::Admin, "/_spinney/news-1/_check", 404),
            (Purpose::Admin, "/_spinney", 404),
            (Purpose::Admin, "/news-1/_bulk", 404),
        ] {
            let answer = ask_as(&state, CLIENT, purpose, Method::GET, path, "").await;
            assert_eq!(answer.status, status, "{purpose:?} {path}");
        }
        assert_eq!(state.metrics.counters.connections_refused.get(), 2);
    }

    #[tokio::test]
    async fn what_the_admin_listener_has_alone_takes_its_methods_alone() {
        let state = AppState::for_test();
        for (method, status) in [(Method::POST, 404), (Method::GET, 405), (Method::TRACE, 405)] {
            assert_eq!(ask(&state, method.clone(), "/_spinney/_reload", "").await.status, status, "{method}");
        }
    }

    #[tokio::test]
    async fn the_configuration_is_read_once_at_a_time() {
        let state = AppState::for_test();
        let asked = async || ask_as(&state, CLIENT, Purpose::Admin, Method::POST, "/_spinney/_reload", "").await;
        let turn = state.reload_turn().await;
        assert!(asked().await.body.to_string().contains("it is being read"));
        drop(turn);
        assert!(asked().await.body.to_string().contains("it is not read at a start yet"));
    }

    /// Nobody reaches anything by a tunnel, and hyper has none to give.
    #[tokio::test]
    async fn there_are_no_tunnels() {
        let state = AppState::for_test();
        for purpose in [Purpose::Everything, Purpose::Admin, Purpose::TooMany] {
            let answer = ask_as(&state, CLIENT, purpose, Method::CONNECT, "inner:9200", "").await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(answer.body["error"]["type"], "spinney_no_endpoint_exception");
        }
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
