//! Own endpoints under `/_spinney/`, and the service of docIds where it is wanted. Those that show anything ask the cluster first, with the caller's own credentials.

mod body;
mod check;
mod docid;
mod health;
mod read;
mod stats;
mod words;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::http::json::{json, with_type};
use crate::http::{Body, ProxyError, full};
use crate::state::AppState;
use crate::telemetry::METRICS_TYPE;

pub(crate) use docid::{handle as handle_docid, is_asked as is_docid};

/// Those that probes and monitors ask; `_check` takes documents besides, readers have theirs.
const MONITORED: [&str; 4] = ["/_health", "/_ready", "/_stats", "/_metrics"];

/// What adopters of stored documents ask.
const ROUTES: &str = "/_routes";

/// The most bytes of the cluster's answer when it is asked on a caller's behalf.
const ANSWER_BYTES: usize = 1 << 20;

/// Answers `/_spinney{path}`.
///
/// # Errors
/// When there is no such endpoint or the cluster cannot be asked.
pub(crate) async fn handle(
    state: &AppState,
    path: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let endpoint = path.trim_end_matches('/');
    if let Some(index) = check::index_of(endpoint) {
        return check::handle(state, index, request).await;
    }
    if let Some(target) = read::target_of(endpoint) {
        return read::handle(state, &target, request).await;
    }
    if let Some(target) = words::target_of(endpoint) {
        return words::handle(state, target, request).await;
    }
    if !MONITORED.contains(&endpoint) && endpoint != ROUTES {
        return Err(ProxyError::NoEndpoint(format!("/_spinney{path}")));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Err(ProxyError::GetOnly);
    }
    match endpoint {
        "/_health" => return Ok(json(StatusCode::OK, &json!({"status": "alive"}))),
        "/_ready" => return Ok(health::ready(state, request.headers()).await),
        _ => {}
    }
    if let Some(refused) = state.cluster.refuses_health(request.headers()).await? {
        return Ok(refused.map(full));
    }
    if endpoint == "/_stats" {
        return Ok(json(StatusCode::OK, &stats::stats(state).await));
    }
    if endpoint == ROUTES {
        let engine = &state.engine;
        let routes = json!({"prefix": engine.prefix(), "routes": engine.adopted_routes()});
        return Ok(json(StatusCode::OK, &routes));
    }
    let metrics = stats::metrics(state).await;
    Ok(with_type(StatusCode::OK, METRICS_TYPE, metrics?))
}

/// Whether a path under `/_spinney` is one that probes and monitors ask.
pub(crate) fn is_monitored(path: &str) -> bool {
    MONITORED.contains(&path.trim_end_matches('/'))
}
