//! Own endpoints under `/_spinney/`, and the service of docIds where it is wanted. Those that show anything ask the cluster first, with the caller's own credentials.

mod body;
mod check;
mod docid;
mod health;
mod read;
mod stats;

use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::http::json::{json, with_type};
use crate::http::{Body, ProxyError, full};
use crate::state::AppState;
use crate::telemetry::METRICS_TYPE;

pub(crate) use docid::{handle as handle_docid, is_asked as is_docid};

/// Who may read the cluster's health may read spinney's state.
const CONSENT: &str = "/_cluster/health";

/// Those that probes and monitors ask; `_check` takes documents besides, readers have theirs.
const MONITORED: [&str; 4] = ["/_health", "/_ready", "/_stats", "/_metrics"];

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
    if !MONITORED.contains(&endpoint) {
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
    if let Some(denied) = denied(state, request.headers()).await? {
        return Ok(denied);
    }
    if endpoint == "/_stats" {
        return Ok(json(StatusCode::OK, &stats::stats(state).await));
    }
    let metrics = stats::metrics(state).await;
    Ok(with_type(StatusCode::OK, METRICS_TYPE, metrics?))
}

/// The cluster's own answer when it does not show its health to this caller.
async fn denied(
    state: &AppState,
    caller: &HeaderMap,
) -> Result<Option<Response<Body>>, ProxyError> {
    let answer = state.cluster.get_as(caller, CONSENT, ANSWER_BYTES).await?;
    if !answer.status().is_success() {
        return Ok(Some(answer.map(full)));
    }
    match is_health(answer.body()) {
        true => Ok(None),
        false => Err(ProxyError::NotTheCluster("GET /_cluster/health")),
    }
}

/// Whether a path under `/_spinney` is one that probes and monitors ask.
pub(crate) fn is_monitored(path: &str) -> bool {
    MONITORED.contains(&path.trim_end_matches('/'))
}

/// Whether this is a cluster's health. Only that is consent: a page of something between spinney and the cluster is none.
fn is_health(body: &[u8]) -> bool {
    let Ok(Value::Object(health)) = serde_json::from_slice(body) else {
        return false;
    };
    let text = |key: &str| health.get(key).and_then(Value::as_str);
    let nodes = health.get("number_of_nodes").and_then(Value::as_u64);
    text("cluster_name").is_some()
        && matches!(text("status"), Some("green" | "yellow" | "red"))
        && nodes.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_s_health() {
        let health =
            br#"{"cluster_name":"c","status":"yellow","timed_out":false,"number_of_nodes":1}"#;
        assert!(is_health(health));
        for other in [
            &b""[..],
            b"<html>It works!</html>",
            b"{}",
            b"[]",
            b"{\"status\":\"green\"}",
            b"{\"status\":\"ok\",\"cluster_name\":\"c\",\"number_of_nodes\":1}",
        ] {
            assert!(!is_health(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
