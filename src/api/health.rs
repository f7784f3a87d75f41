//! `GET /_spinney/_ready`: whether the process takes writes.

use hyper::{HeaderMap, Response, StatusCode};
use serde_json::json;

use super::ANSWER_BYTES;
use crate::engine::Unavailable;
use crate::http::Body;
use crate::http::json::json;
use crate::state::AppState;

/// A path that any node serves to any user.
const ROOT: &str = "/";

/// Ready unless the process drains, a forest is out of service or has other settings, or no node responds; 401 and 403
/// count as responses.
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
            _ => "a forest is out of service: the log says why, and spinney has to be restarted",
        });
    }
    if let Err(other @ Unavailable::Unsupported { .. }) = state.engine.forests().check_settings().await {
        state.engine_failed(&other);
        return Some("a forest is kept with other settings or fields than those of this process");
    }
    match state.cluster.ping(caller, ROOT, ANSWER_BYTES).await {
        Ok(status) if !status.is_server_error() => None,
        Ok(_) => Some("the cluster answers with errors"),
        Err(_) => Some("the cluster cannot be reached"),
    }
}
