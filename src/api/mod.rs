//! Own endpoints under `/_spinney/`. Those that show anything ask the cluster first, with the caller's own credentials.

mod body;
mod check;
mod health;
mod read;
mod stats;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::http::json::{json, with_type};
use crate::http::{Body, ProxyError, full};
use crate::state::AppState;
use crate::telemetry::METRICS_TYPE;

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
    let consent = state
        .cluster
        .get_as(request.headers(), CONSENT, ANSWER_BYTES);
    let consent = consent.await?;
    if !consent.status().is_success() {
        return Ok(consent.map(full));
    }
    if !is_health(consent.body()) {
        return Err(ProxyError::NotTheCluster("GET /_cluster/health"));
    }
    if endpoint == "/_stats" {
        return Ok(json(StatusCode::OK, &stats::stats(state).await));
    }
    let metrics = stats::metrics(state).await;
    Ok(with_type(StatusCode::OK, METRICS_TYPE, metrics?))
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
