//! Resolves names that match no route to routed indices: date math, aliases and data streams.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use tracing::warn;

use crate::cluster::Denied;
use crate::engine::{Parsed, resolve_date};
use crate::http::query::decode_segment;
use crate::state::AppState;
use crate::time::Millis;

/// Resolves index names that may be aliases of routed indices. If the cluster does not know the caller, or denies the
/// request of an unverified one, the other names are not asked about.
pub(super) async fn resolve(state: &AppState, (caller, headers): (u64, &HeaderMap), parsed: &mut Parsed, now: Millis) {
    let unrouted: Vec<String> = parsed.unrouted().map(Into::into).collect();
    let asking = async {
        for name in unrouted {
            match resolve_name(state, caller, headers, &name, now).await {
                Ok(Some(index)) => parsed.resolve_alias(state.engine.routes(), &name, &index),
                Ok(None) => {}
                Err(denied) if stops_resolving(state, caller, denied, now) => return,
                Err(_) => {}
            }
        }
    };
    // A slow cluster is not waited for: the other names stay unresolved.
    let _ = tokio::time::timeout(ASK_TIMEOUT, asking).await;
}

/// Whether no further names are resolved for the caller after this denial.
fn stops_resolving(state: &AppState, caller: u64, denied: Denied, now: Millis) -> bool {
    denied.is_of_caller() || !state.engine.has_written(caller, now)
}

/// Routes unrouted indices of a backfill's bulk by a route's alias or data stream, if the cluster confirms them to the
/// writer. `names`: as in [`BACKFILL`](crate::http::headers::BACKFILL). Stops as [`resolve`] does.
pub(super) async fn resolve_backfill_names(
    state: &AppState,
    (caller, headers): (u64, &HeaderMap),
    names: &HeaderValue,
    parsed: &mut Parsed,
    now: Millis,
) {
    let unrouted: Vec<String> = parsed.unrouted().map(Into::into).collect();
    if unrouted.is_empty() {
        return;
    }
    let names = names.to_str().unwrap_or_default().split(',').map(str::trim);
    let asking = async {
        for name in names.map(decode_segment).take(MAX_BACKFILL_NAMES) {
            if !state.engine.routes().has(&name) {
                continue;
            }
            let behind = match state.cluster.indices_behind(headers, &name).await {
                Ok(behind) => behind.into_indices(),
                Err(denied) if stops_resolving(state, caller, denied, now) => return,
                Err(_) => continue,
            };
            for index in unrouted.iter().filter(|index| behind.contains(index)) {
                parsed.resolve_alias(state.engine.routes(), index, &name);
            }
        }
    };
    let _ = tokio::time::timeout(ASK_TIMEOUT, asking).await;
}

/// Most names that are resolved for a bulk of a backfill.
const MAX_BACKFILL_NAMES: usize = 64;

/// Time limit for resolving all names of a write.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest name in bytes: the servers allow 255, and date math may be longer before it is resolved.
const LONGEST_NAME: usize = 1024;

/// Resolves a name to a routed index, if there is one.
pub(super) async fn index_behind(
    state: &AppState,
    caller: u64,
    headers: &HeaderMap,
    name: &str,
    now: Millis,
) -> Option<String> {
    let asked = resolve_name(state, caller, headers, name, now).await;
    asked.ok().flatten()
}

/// As [`index_behind`], with an error if the cluster denies the caller.
async fn resolve_name(
    state: &AppState,
    caller: u64,
    headers: &HeaderMap,
    name: &str,
    now: Millis,
) -> Result<Option<String>, Denied> {
    if name.len() > LONGEST_NAME {
        return Ok(None);
    }
    let index = if name.starts_with('<') {
        let resolved = resolve_date(name, now);
        if resolved.is_none() {
            warn_of_date(name);
        }
        resolved
    } else {
        state.cluster.write_index(caller, headers, name, now).await?
    };
    Ok(index.filter(|index| state.engine.routes().has(index)))
}

/// Warns, once in a process, that date math in a name is not understood.
fn warn_of_date(name: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Relaxed) {
        warn!(
            name,
            "the date in the name of an index is not understood here: its documents pass unstamped; let writers use an \
             alias"
        );
    }
}
