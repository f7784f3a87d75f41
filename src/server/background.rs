//! What goes on beside requests in spinney's own name: counting groups, looking for documents without a stamp and for
//! those of which the cluster has told nothing, stamping anew those that people have spoken of.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tracing::warn;

use super::indeterminate::IndeterminateWatcher;
use super::loopback::Loopback;
use crate::backfill::{self, RouteTable};
use crate::cluster::operator::Operator;
use crate::config::{Route, ServeOptions};
use crate::counts::{Running, StampFields};
use crate::recovery::RecoveryReader;
use crate::state::AppState;

/// Begins to count groups in the background, if somebody wants that.
pub(super) fn count(state: &AppState, config: &ServeOptions, service: &Operator) -> Option<Running> {
    if !config.counts {
        return None;
    }
    let patterns = config.routes.iter().flat_map(Route::patterns);
    let patterns: Vec<String> = patterns.map(str::to_owned).collect();
    state.counts.start(service.clone(), StampFields::new(&config.prefix), &patterns)
}

/// Begins to look for documents without a stamp, if somebody wants that.
pub(super) fn sweep(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> Option<JoinHandle<()>> {
    state.swept.every?;
    let reader = service.clone();
    let door = Loopback { state: state.clone(), credentials: config.service_url.credentials.clone() };
    let routes = RouteTable { prefix: state.engine.prefix().to_owned(), routes: state.engine.backfill_routes() };
    let swept = state.clone();
    Some(tokio::spawn(async move {
        let is_shut = || swept.engine.store_is_away() == Some(true);
        backfill::sweep(&swept.swept, &reader, &door, &routes, is_shut).await;
    }))
}

/// Begins to let stored documents follow what people say about groups.
pub(super) fn restamp(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> Option<JoinHandle<()>> {
    if config.routes.is_empty() {
        return None;
    }
    let operator = service.clone();
    let routes = RouteTable { prefix: state.engine.prefix().to_owned(), routes: state.engine.backfill_routes() };
    let state = state.clone();
    Some(tokio::spawn(async move {
        let restamper = backfill::Restamper {
            shared: &state.restamping,
            engine: &state.engine,
            operator: &operator,
            writes: &state.writes,
            counts: &state.counts,
            routes: &routes,
            shared_forests: state.engine.forests_shared(),
            context: &|| state.request_context(0),
        };
        restamper.run().await;
    }))
}

/// Begins to tell those who share forests what this process obeys of what people say.
pub(super) fn obey(state: &Arc<AppState>, config: &ServeOptions) -> Option<JoinHandle<()>> {
    config.forest_store.as_ref()?;
    let state = state.clone();
    Some(tokio::spawn(async move {
        backfill::run(&state.restamping, &state.engine, &state.writes).await;
    }))
}

/// Begins to look for documents of which the cluster has not told whether they are stored.
pub(super) fn look(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> Option<JoinHandle<()>> {
    // What several processes keep is not rebuilt by one of them.
    if config.routes.is_empty() || config.forest_store.is_some() {
        return None;
    }
    let reader = match RecoveryReader::new(config, service.clone(), None) {
        Ok(reader) => reader,
        Err(error) => {
            warn!(%error, "nobody looks for documents of which the cluster has not told whether they are stored");
            return None;
        }
    };
    let state = state.clone();
    Some(tokio::spawn(IndeterminateWatcher { state, reader }.run()))
}
