//! Names under which writers know an index that has a route, though the name itself fits none: a date in it, or an alias.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::HeaderMap;
use tracing::warn;

use crate::engine::Engine;
use crate::state::AppState;
use crate::time::Millis;

/// The index of a route that a name stands for, if it stands for one.
pub(super) async fn index_behind(
    state: &AppState,
    caller: u64,
    headers: &HeaderMap,
    name: &str,
    now: Millis,
) -> Option<String> {
    let index = if name.starts_with('<') {
        let resolved = Engine::resolve_date(name, now);
        if resolved.is_none() {
            warn_of_date(name);
        }
        resolved?
    } else {
        state
            .cluster
            .write_index(caller, headers, name, now)
            .await?
    };
    state.engine.routes(&index).then_some(index)
}

/// Says once that a name is not understood.
fn warn_of_date(name: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Relaxed) {
        warn!(
            name,
            "the date in the name of an index is not understood here: its documents pass unstamped; let writers use an alias"
        );
    }
}
