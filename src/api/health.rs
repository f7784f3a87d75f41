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

async fn why_not(state: &AppState, caller: &HeaderMap) -> Option<String> {
    if state.in_flight.is_draining() {
        return Some("stopping".into());
    }
    let forest = match state.engine.forests().unavailable() {
        Some(unavailable) => Err(unavailable),
        None => state.engine.forests().check_settings().await,
    };
    if let Err(unavailable) = forest {
        state.engine_failed(&unavailable);
        // The caller may be anonymous, and what is wrong may quote documents: the log has it.
        match unavailable {
            Unavailable::Poisoned { forest, .. } | Unavailable::NotStored { forest, .. } => {
                return Some(format!(
                    "the forest '{forest}' is out of service: the log says why, and spinney has to be restarted"
                ));
            }
            Unavailable::Away { forest, .. } => {
                return Some(format!("the forest '{forest}' cannot be reached where it is kept: the log says why"));
            }
            Unavailable::Unsupported { forest, .. } => {
                return Some(format!(
                    "the forest '{forest}' cannot be kept with the settings and fields of this process: the log says \
                     why"
                ));
            }
            _ => {}
        }
    }
    match state.cluster.ping(caller, ROOT, ANSWER_BYTES).await {
        Ok(status) if !status.is_server_error() => None,
        Ok(status) => Some(format!("the cluster answers with errors: {status}")),
        Err(reason) => Some(reason.to_string()),
    }
}
