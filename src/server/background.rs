//! Background tasks in spinney's own name: counting, sweep, restamping, override progress, indeterminate documents.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::indeterminate::IndeterminateWatcher;
use super::loopback::Loopback;
use crate::backfill;
use crate::cluster::operator::Operator;
use crate::config::{Route, ServeOptions};
use crate::counts::{Running, StampFields};
use crate::recovery::RecoveryReader;
use crate::state::AppState;

/// Starts counting, if it is on.
pub(super) fn count(state: &AppState, config: &ServeOptions, service: &Operator) -> Option<Running> {
    if !config.counts {
        return None;
    }
    let patterns = config.routes.iter().flat_map(Route::patterns);
    let patterns: Vec<String> = patterns.map(str::to_owned).collect();
    state.counts.start(service.clone(), StampFields::new(&config.prefix), &patterns)
}

/// Starts the sweep for documents without a stamp, if it is on.
pub(super) fn sweep(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> Option<JoinHandle<()>> {
    state.swept.every?;
    let reader = service.clone();
    let door = Loopback { state: state.clone(), credentials: config.service_url.credentials.clone() };
    let routes = state.engine.routes().table();
    let swept = state.clone();
    Some(tokio::spawn(async move {
        let is_shut = || swept.engine.forests().redis_is_away() == Some(true);
        backfill::sweep(&swept.swept, &reader, &door, &routes, is_shut).await;
    }))
}

/// Starts restamping: stored documents follow overrides.
pub(super) fn restamp(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> Option<JoinHandle<()>> {
    if config.routes.is_empty() {
        return None;
    }
    let operator = service.clone();
    let routes = state.engine.routes().table();
    let state = state.clone();
    Some(tokio::spawn(async move {
        let restamper = backfill::Restamper {
            shared: &state.restamping,
            engine: &state.engine,
            operator: &operator,
            writes: &state.writes,
            counts: &state.counts,
            routes: &routes,
            shared_forests: state.engine.forests().shared(),
            context: &|| state.request_context(0),
        };
        restamper.run().await;
    }))
}

/// Starts to keep one first document in each group, if what is stored is searched at all.
pub(super) fn keep_firsts(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> Option<JoinHandle<()>> {
    if !config.counts || config.routes.is_empty() {
        return None;
    }
    let operator = service.clone();
    let routes = state.engine.routes().table();
    let state = state.clone();
    Some(tokio::spawn(async move {
        let keeper = backfill::FirstKeeper {
            status: &state.firsts,
            restamping: &state.restamping,
            engine: &state.engine,
            operator: &operator,
            routes: &routes,
            shared_forests: state.engine.forests().shared(),
        };
        keeper.run().await;
    }))
}

/// Starts to acknowledge overrides of shared forests.
pub(super) fn acknowledge(state: &Arc<AppState>, config: &ServeOptions) -> Option<JoinHandle<()>> {
    config.forest_store.as_ref()?;
    let state = state.clone();
    Some(tokio::spawn(async move {
        backfill::run(&state.restamping, &state.engine, &state.writes).await;
    }))
}

/// Starts to search for documents with an indeterminate outcome.
pub(super) fn search_indeterminate(
    state: &Arc<AppState>,
    config: &ServeOptions,
    service: &Operator,
) -> Option<JoinHandle<()>> {
    // One process does not rebuild a forest that several share.
    if config.routes.is_empty() || config.forest_store.is_some() {
        return None;
    }
    let reader = RecoveryReader::new(state.engine.clone(), service.clone(), None);
    let state = state.clone();
    Some(tokio::spawn(IndeterminateWatcher { state, reader }.run()))
}
