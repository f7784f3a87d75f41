//! Own endpoints under `/_spinney/`, and the service of docIds where it is wanted. Those that show anything ask the
//! cluster first, with the caller's own credentials.

mod body;
mod check;
mod docid;
mod health;
mod overrides;
mod read;
mod stats;

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::json;

use crate::endpoints::{ApiEndpoint, MatchedEndpoint};
use crate::http::browser::is_of_own_page;
use crate::http::json::{json, with_type};
use crate::http::{Body, ProxyError, full};
use crate::state::AppState;
use crate::telemetry::METRICS_TYPE;
use overrides::Action;

/// Most callers that are cached as monitors.
const MOST_MONITORS: usize = 256;

/// Most bytes of the cluster's response to a request on a caller's behalf.
const ANSWER_BYTES: usize = 1 << 20;

/// Handles a request for one of the own endpoints. The method is one that it takes. `is_admin`: it came by the admin
/// listener, whose callers the operator has chosen.
///
/// # Errors
/// When the question is wrong or the cluster cannot be asked.
pub(crate) async fn handle(
    state: &Arc<AppState>,
    endpoint: ApiEndpoint,
    is_admin: bool,
    found: &MatchedEndpoint<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let MatchedEndpoint { index, name, .. } = *found;
    let what = match endpoint {
        ApiEndpoint::Health | ApiEndpoint::Ready | ApiEndpoint::Stats | ApiEndpoint::Metrics | ApiEndpoint::Routes => {
            return monitored(state, endpoint, is_admin, &request).await;
        }
        ApiEndpoint::Reload => return reload(state, &request).await,
        ApiEndpoint::DocId => return docid::handle(state, request).await,
        ApiEndpoint::Check => return check::handle(state, index, request).await,
        ApiEndpoint::Groups => return read::groups(state, index, request).await,
        ApiEndpoint::Similar => {
            let of = read::GroupSelector::Document(name);
            return read::members(state, index, of, request).await;
        }
        ApiEndpoint::Root => {
            let of = read::GroupSelector::Root(name);
            return read::members(state, index, of, request).await;
        }
        ApiEndpoint::Merge => Action::Merge,
        ApiEndpoint::Split => Action::Split,
        ApiEndpoint::Pin => Action::Pin,
        ApiEndpoint::Overrides => Action::List,
        ApiEndpoint::Suggestions => Action::Suggestions,
        ApiEndpoint::Undo => Action::Undo(name),
    };
    overrides::handle(state, index, what, request).await
}

/// Reads the configuration again. A page of another site may not ask for it.
///
/// # Errors
/// [`ProxyError::OtherSite`]; [`ProxyError::NotReloaded`] with the reason.
async fn reload(state: &Arc<AppState>, request: &Request<Incoming>) -> Result<Response<Body>, ProxyError> {
    is_of_own_page(request.headers())?;
    let turn = state.try_reload_turn().ok_or_else(|| ProxyError::NotReloaded("it is being read".into()))?;
    let state = state.clone();
    // A file may be slow.
    let changed = tokio::task::spawn_blocking(move || state.reload(turn)).await.map_err(|_| ProxyError::Internal)?;
    let changed = changed.map_err(|reason| ProxyError::NotReloaded(format!("{reason:#}")))?;
    Ok(json(StatusCode::OK, &json!({"changed": changed})))
}

/// The cluster's refusal of a caller who may not see the state. Metrics must tell that it is away, so that whoever got
/// them before gets them then as well.
async fn may_monitor(
    state: &AppState,
    endpoint: ApiEndpoint,
    headers: &HeaderMap,
) -> Result<Option<Response<Bytes>>, ProxyError> {
    let caller = state.caller(headers, None);
    let refused = state.cluster.refuses_health(headers).await;
    let mut monitors = state.monitors.lock();
    match refused {
        Ok(None) => {
            if monitors.len() >= MOST_MONITORS {
                monitors.clear();
            }
            monitors.insert(caller);
            Ok(None)
        }
        Ok(Some(refused)) => {
            // A cluster that is not well refuses nobody.
            if refused.status().is_client_error() {
                monitors.remove(&caller);
            } else if matches!(endpoint, ApiEndpoint::Metrics) && monitors.contains(&caller) {
                return Ok(None);
            }
            Ok(Some(refused))
        }
        Err(_) if matches!(endpoint, ApiEndpoint::Metrics) && monitors.contains(&caller) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Handles endpoints for probes, monitoring and backfills.
async fn monitored(
    state: &AppState,
    endpoint: ApiEndpoint,
    is_admin: bool,
    request: &Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    match endpoint {
        ApiEndpoint::Health => return Ok(json(StatusCode::OK, &json!({"status": "alive"}))),
        ApiEndpoint::Ready => return Ok(health::ready(state, request.headers()).await),
        _ => {}
    }
    if !is_admin && let Some(refused) = may_monitor(state, endpoint, request.headers()).await? {
        return Ok(refused.map(full));
    }
    match endpoint {
        ApiEndpoint::Stats => Ok(json(StatusCode::OK, &stats::stats(state).await)),
        ApiEndpoint::Routes => Ok(json(StatusCode::OK, &json!(state.engine.routes().table()))),
        _ => {
            let metrics = stats::metrics(state).await;
            Ok(with_type(StatusCode::OK, METRICS_TYPE, metrics?))
        }
    }
}
