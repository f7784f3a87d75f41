//! What the log says once of a configuration, or of a forest that is full.

use tracing::warn;

use crate::config::{AwsService, OnRedisFailure, RedisOptions, ServeOptions};
use crate::state::AppState;

/// Logs settings that are valid and probably not intended.
pub(super) fn warn_of_config(config: &ServeOptions) {
    if let Some(reason) = config.limits.too_many_connections(config.routes.len()) {
        warn!("{reason}");
    }
    if config.sigv4.as_ref().is_some_and(|sigv4| sigv4.service == AwsService::Aoss) {
        warn!(
            "OpenSearch Serverless: groups are not counted, the clock of this machine is not compared with the \
             cluster's, what was written becomes visible within a minute, and collections of time series take no ids, \
             so no document of theirs is stamped later or follows an override; this was not tried with the service \
             itself"
        );
    }
    let is_kept = config.storage.is_some() || config.forest_store.is_some();
    if !is_kept && !config.routes.is_empty() {
        warn!(
            "the forests are in memory alone: after a restart no document is known; give a directory with --data-dir"
        );
    }
    let falls_back = |store: &RedisOptions| store.on_loss == OnRedisFailure::Local;
    if config.forest_store.as_ref().is_some_and(falls_back) && config.sweep.is_none() {
        warn!(
            "documents that get roots while the forest store is away keep them until a spinney with --sweep puts them \
             right, and this one has none"
        );
    }
    if config.routes.is_empty() {
        warn!("no route is configured, so nothing is stamped: give --index, or [[route]] tables in the file");
    }
}

/// Says once that documents are forgotten before their window ends. Redis of a shared forest forgets nothing, and
/// is not asked.
pub(super) async fn warn_of_eviction(state: &AppState) -> bool {
    let forests = state.engine.forests().own_stats().await.unwrap_or_default();
    let full = forests.iter().find(|(_, stats)| stats.evicted_total > 0);
    if let Some((forest, stats)) = full {
        warn!(
            forest,
            nodes = stats.nodes,
            "the forest is full: what came longest ago is forgotten before its window ends; give it more with \
             --forest-memory, or a shorter window"
        );
    }
    full.is_some()
}
