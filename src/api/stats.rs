//! `GET /_spinney/_stats` and `GET /_spinney/_metrics`.

use serde_json::{Map, Value, json};

use crate::counts::{CountState, Progress};
use crate::forest::port::Unavailable;
use crate::forest::shared::SharedStats;
use crate::forest::shared::keys::Evictions;
use crate::forest::{ForestStats, StoredStats, TreeSize};
use crate::http::ProxyError;
use crate::state::AppState;
use crate::telemetry::{Kind, Sample, Samples};

/// State of the process as JSON. A forest that is out of service has no figures; `unavailable` gives the reason.
pub(super) async fn stats(state: &AppState) -> Value {
    let counters: Map<_, _> =
        state.metrics.counters.all().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let refusals: Map<_, _> =
        state.metrics.refusals().map(|(reason, count)| (reason.as_str().to_owned(), count.into())).collect();
    let mut stats = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": state.started.elapsed().as_secs(),
        "stopping": state.in_flight.is_draining(),
        "requests_in_flight": state.in_flight.count(),
        "connections": state.connections.len(),
        "budget": {"bytes": state.budget.capacity(), "used_bytes": state.budget.used()},
        "recovery": state.recovery.shown(),
        "counters": counters,
        "refusals": refusals,
    });
    if let Some(progress) = state.counts.progress() {
        stats["counts"] = progress.json();
        stats["firsts"] = state.firsts.shown();
    }
    if let Some(swept) = state.swept.shown() {
        stats["sweep"] = swept;
    }
    stats["restamping"] = state.restamping.shown();
    let mut forests = Map::new();
    for (name, one) in state.engine.forests().each_stats().await {
        match one {
            Ok(one) => {
                forests.insert(name, forest(&one));
            }
            Err(unavailable) => stats["unavailable"] = state.engine_failed(&unavailable).to_string().into(),
        }
    }
    stats["forests"] = forests.into();
    stats
}

fn forest(stats: &ForestStats) -> Value {
    json!({
        "nodes": stats.nodes,
        "roots": stats.roots,
        "expired": stats.expired_total,
        "withdrawn": stats.withdrawn_total,
        "evicted": stats.evicted_total,
        "memory_bytes": stats.memory_bytes,
        "founder_tokens": {
            "trees": stats.founder_tokens.trees,
            "bytes": stats.founder_tokens.bytes,
            "evicted": stats.founder_tokens.evicted_total,
            "missing": stats.founder_tokens.missing_total,
        },
        "late_merges": {
            "suggested": stats.late_merges.suggested,
            "applied": stats.late_merges.applied_total,
            "no_room": stats.late_merges.no_room_total,
        },
        "largest_tree": stats.largest.as_ref().map(tree),
        "page_chrome_trees": stats.page_chrome_trees,
        "page_chrome": stats.page_chrome.iter().map(tree).collect::<Vec<Value>>(),
        "stored": stats.stored.as_ref().map(stored),
        "shared": stats.shared.as_ref().map(shared),
    })
}

fn shared(shared: &SharedStats) -> Value {
    json!({
        "documents": shared.documents,
        "commands": shared.commands,
        "round_trips": shared.round_trips,
        "conflicts": shared.conflicts,
        "unreadable": shared.unreadable,
        "sampled_keys": shared.sampled,
        "keys": shared.keys,
    })
}

fn stored(stored: &StoredStats) -> Value {
    json!({
        "waiting_batches": stored.waiting_batches,
        "waiting_bytes": stored.waiting_bytes,
        "journal_bytes": stored.journal_bytes,
        "snapshot_bytes": stored.snapshot_bytes,
        "failed": stored.has_failed,
    })
}

fn tree(size: &TreeSize) -> Value {
    json!({
        "root": size.root.to_string(),
        "documents": size.documents,
        "titles": size.titles,
    })
}

/// Adds the samples of stored forests; `failed`: forests out of service after a disk failure.
fn add_stored(samples: &mut Samples, forests: &[(String, ForestStats)], failed: &[String]) {
    let stored =
        |(name, stats): &'_ (String, ForestStats)| Some((name.clone(), stats.stored.as_ref()?.has_failed.into()));
    let failures: Vec<(String, u64)> =
        forests.iter().filter_map(stored).chain(failed.iter().map(|name| (name.clone(), 1))).collect();
    samples.add_by_forest(
        Kind::Gauge,
        "store_failed",
        "Whether the disk has failed, so that nothing more is stored",
        failures.iter().map(|(name, value)| (name.as_str(), *value)),
    );
    let mut each = |name, help, value: fn(&StoredStats) -> u64| {
        let stored = forests.iter().filter_map(|(name, stats)| {
            let stored = stats.stored.as_ref()?;
            Some((name.as_str(), value(stored)))
        });
        samples.add_by_forest(Kind::Gauge, name, help, stored);
    };
    each("store_waiting_bytes", "Bytes of changes on their way to the disk", |s| s.waiting_bytes);
    each("store_journal_bytes", "Bytes of changes since the last snapshot, which a start replays", |s| s.journal_bytes);
    each("store_snapshot_bytes", "Bytes of the last snapshot", |s| s.snapshot_bytes);
}

fn add_shared(samples: &mut Samples, forests: &[(String, ForestStats)]) {
    let mut each = |name, help, value: fn(&SharedStats) -> u64| {
        let shared = forests.iter().filter_map(|(name, stats)| {
            let shared = stats.shared.as_ref()?;
            Some((name.as_str(), value(shared)))
        });
        samples.add_by_forest(Kind::Counter, name, help, shared);
    };
    each("shared_documents", "Documents placed in the shared forest", |s| s.documents);
    each("shared_commands", "Commands to the Redis that keeps it, each on one key", |s| s.commands);
    each("shared_round_trips", "Times that it was asked and waited for", |s| s.round_trips);
    each("shared_conflicts", "Placements that began again because another process was faster or not done", |s| {
        s.conflicts
    });
    each("shared_unreadable", "Values that were no such value as this version writes, and counted as absent", |s| {
        s.unreadable
    });
}

/// How far counting in the background is.
fn add_counts(samples: &mut Samples, progress: &Progress) {
    let Progress { dirty_groups, reconciling, unscanned: _, lag, status } = progress;
    let is_well = status.state == CountState::Counting;
    let errors = "Times that the cluster could not be asked, or refused";
    for sample in [
        Sample::gauge(
            "counts_up",
            "Whether groups are counted: 1, or 0 if the cluster refuses or is away",
            u64::from(is_well),
        ),
        Sample::gauge(
            "counts_lag_seconds",
            "Seconds since the first write whose groups have not been counted, rounded up",
            lag.as_secs() + u64::from(lag.subsec_nanos() > 0),
        ),
        Sample::gauge("counts_dirty_groups", "Roots that wait to be counted", *dirty_groups),
        Sample::gauge(
            "counts_reconciling_indices",
            "Indices that wait to be compared with their entries as a whole",
            *reconciling,
        ),
        Sample::counter("counts_entries_written", "Entries of roots indices that were written", status.kept.written),
        Sample::counter("counts_entries_removed", "Entries of roots indices that were removed", status.kept.removed),
        Sample::counter("counts_errors", errors, status.errors),
    ] {
        samples.add(sample);
    }
    samples.add_seconds("counts_busy_seconds", "Time in which the cluster counted for spinney", status.busy);
}

/// The state as OpenMetrics text. Of a forest that is out of service there is nothing but that.
///
/// # Errors
/// As [`Metrics::encode`](crate::telemetry::Metrics::encode).
pub(super) async fn metrics(state: &AppState) -> Result<String, ProxyError> {
    let mut samples = Samples::default();
    samples.add(Sample::gauge("uptime_seconds", "Seconds since the start", state.started.elapsed().as_secs()));
    samples.add(Sample::gauge("requests_in_flight", "Requests being answered", state.in_flight.count() as u64));
    samples.add(Sample::gauge("connections", "Connections of clients", state.connections.len() as u64));
    samples.add(Sample::gauge("budget_bytes", "Budget of bytes in flight", state.budget.capacity() as u64));
    samples.add(Sample::gauge("budget_used_bytes", "Bytes of write requests held", state.budget.used() as u64));
    if let Some(log) = &state.access_log {
        let help = "Lines of the access log that were not written, because its disk is too slow";
        samples.add(Sample::counter("access_log_dropped", help, log.dropped()));
    }
    if let Some(progress) = state.counts.progress() {
        add_counts(&mut samples, &progress);
    }
    let of_tasks = state.restamping.metrics().into_iter().chain(state.firsts.metrics()).chain(state.swept.metrics());
    of_tasks.for_each(|sample| samples.add(sample));
    if let Some(is_away) = state.engine.forests().redis_is_away() {
        samples.add(Sample::gauge(
            "forest_store_away",
            "Whether the Redis that keeps the shared forests is away",
            is_away.into(),
        ));
    }
    if let Some(Evictions { is_on, keys }) = state.engine.forests().store_evictions() {
        samples.add(Sample::gauge(
            "forest_store_evicts",
            "Whether that Redis removes keys when its memory is full",
            is_on.into(),
        ));
        samples.add(Sample::counter(
            "forest_store_evicted_keys",
            "Keys that it has removed so since its start, of anybody",
            keys,
        ));
    }
    let (mut forests, mut failed) = (Vec::new(), Vec::new());
    for (name, stats) in state.engine.forests().each_stats().await {
        match stats {
            Ok(stats) => forests.push((name, stats)),
            Err(Unavailable::Poisoned { .. } | Unavailable::NotStored { .. }) => failed.push(name),
            // Redis is away, which has a metric of its own.
            Err(_) => {}
        }
    }
    let mut each = |kind, name, help, value: fn(&ForestStats) -> u64| {
        let values = forests.iter().map(|(name, stats)| (name.as_str(), value(stats)));
        samples.add_by_forest(kind, name, help, values);
    };
    let (now, counted) = (Kind::Gauge, Kind::Counter);
    each(now, "forest_nodes", "Fingerprints remembered", |s| s.nodes as u64);
    each(now, "forest_roots", "Trees: clusters of similar documents", |s| s.roots as u64);
    each(now, "forest_memory_bytes", "Memory of the forest", |s| s.memory_bytes as u64);
    each(now, "forest_founder_tokens_bytes", "Text of founders, kept for second looks", |s| {
        s.founder_tokens.bytes as u64
    });
    each(
        counted,
        "forest_founder_tokens_missing",
        "How often a document met a near tree whose text had gone, and only the proof decided",
        |s| s.founder_tokens.missing_total,
    );
    each(now, "forest_late_merges_suggested", "Pairs of clusters that may be one, suggested to people", |s| {
        s.late_merges.suggested as u64
    });
    each(
        counted,
        "forest_late_merges_applied",
        "Pairs of clusters that were made one, because a document agrees with both",
        |s| s.late_merges.applied_total,
    );
    each(
        counted,
        "forest_late_merges_no_room",
        "Pairs of clusters that were left apart, because the limit of overrides was reached",
        |s| s.late_merges.no_room_total,
    );
    each(counted, "forest_evicted", "Nodes that went before the window's end, for want of memory", |s| s.evicted_total);
    each(now, "forest_largest_tree_documents", "Documents that came to the largest tree, once it has many", |s| {
        s.largest.map_or(0, |tree| tree.documents.into())
    });
    each(now, "forest_largest_tree_titles", "About how many different titles they have; 250 stands for more", |s| {
        s.largest.map_or(0, |tree| tree.titles.into())
    });
    each(now, "forest_page_chrome_trees", "Trees of what stands around articles, which take nobody any more", |s| {
        s.page_chrome_trees as u64
    });
    if !failed.is_empty() || forests.iter().any(|(_, stats)| stats.stored.is_some()) {
        add_stored(&mut samples, &forests, &failed);
    }
    if forests.iter().any(|(_, stats)| stats.shared.is_some()) {
        add_shared(&mut samples, &forests);
    }
    state.metrics.encode(&samples).map_err(|_| ProxyError::Internal)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What alerts about lags go by: nobody counts here, and nobody sweeps.
    #[tokio::test(start_paused = true)]
    async fn lags_grow_while_nothing_is_done() {
        let state = AppState::for_test();
        state.counts.note_everything();
        for line in ["spinney_counts_lag_seconds 0\n", "spinney_sweep_lag_seconds 0\n"] {
            assert!(metrics(&state).await.unwrap().contains(line), "{line}");
        }
        tokio::time::advance(Duration::from_secs(4_801)).await;
        let text = metrics(&state).await.unwrap();
        for line in [
            "spinney_counts_lag_seconds 4801\n",
            "spinney_sweep_lag_seconds 4801\n",
            "spinney_sweep_interval_seconds 600\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[tokio::test]
    async fn a_forest_out_of_service_is_in_the_metrics() {
        let state = AppState::out_of_service();
        let text = metrics(&state).await.unwrap();
        assert!(text.contains("spinney_store_failed{forest=\"news-*\"} 1\n"), "{text}");
        assert!(text.contains("spinney_upstream_unreachable_total 0\n"), "{text}");
        let told = stats(&state).await;
        assert_eq!(told["forests"], json!({}));
        assert!(told["unavailable"].is_string(), "{told}");
        let text = metrics(&AppState::for_test()).await.unwrap();
        assert!(
            !text.contains("spinney_store_failed{") && text.contains("spinney_forest_nodes{forest=\"news-*\"} 0\n"),
            "{text}"
        );
    }
}
