//! `GET /_spinney/_ready`: whether writes should come here.

use hyper::{HeaderMap, Response, StatusCode};
use serde_json::json;

use super::ANSWER_BYTES;
use crate::engine::Unavailable;
use crate::http::Body;
use crate::http::json::json;
use crate::state::AppState;

/// Any node answers here, and any user may ask.
const ROOT: &str = "/";

/// Ready unless the process drains, a forest is out of service, or no node answers; 401 and 403 are answers.
pub(super) async fn ready(state: &AppState, caller: &HeaderMap) -> Response<Body> {
    match why_not(state, caller).await {
        None => json(StatusCode::OK, &json!({"status": "ready"})),
        Some(reason) => json(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not ready", "reason": reason})),
    }
}

async fn why_not(state: &AppState, caller: &HeaderMap) -> Option<&'static str> {
    if state.in_flight.is_draining() {
        return Some("stopping");
    }
    if let Some(unavailable) = state.engine.forests().unavailable() {
        // The caller may be anonymous, so only the log names the forest and the reason.
        state.engine_failed(&unavailable);
        return Some(match unavailable {
            Unavailable::Away { .. } => "a forest cannot be reached where it is kept",
            _ => "a forest is out of service after an internal error",
        });
    }
    match state.cluster.ping(caller, ROOT, ANSWER_BYTES).await {
        Ok(status) if !status.is_server_error() => None,
        Ok(_) => Some("the cluster answers with errors"),
        Err(_) => Some("the cluster cannot be reached"),
    }
}
