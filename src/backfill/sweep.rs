//! Sweeps: a serving spinney periodically stamps documents of its routes' indices that have no stamp.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::BackfillError;
use super::bulk_sink::BulkSink;
use super::discovery::{RouteIndices, discover_route, put_fields};
use super::run::{Backfill, BackfillOptions, BackfillOutcome};
use crate::cluster::operator::Operator;
use crate::engine::RouteTable;
use crate::telemetry::Sample;

/// Documents of a bulk, few enough not to delay those of other writers.
const BATCH: usize = 500;

/// Status of sweeps, shared with its readers.
#[derive(Debug)]
pub(crate) struct SweepStatus {
    /// The pause between two sweeps; `None`: sweeps are off.
    pub(crate) every: Option<Duration>,
    status: Mutex<SweepState>,
}

#[derive(Debug, Clone)]
struct SweepState {
    state: &'static str,
    reason: String,
    /// Everything written before this time has a stamp.
    complete_until: Instant,
    passes: u64,
    errors: u64,
    /// Unstamped documents that the last pass has found, and has left.
    found: u64,
    left: u64,
    outcome: BackfillOutcome,
}

impl SweepStatus {
    /// The status before the first sweep.
    pub(crate) fn new(every: Option<Duration>) -> SweepStatus {
        SweepStatus {
            every,
            status: Mutex::new(SweepState {
                state: "waiting",
                reason: String::new(),
                complete_until: Instant::now(),
                passes: 0,
                errors: 0,
                found: 0,
                left: 0,
                outcome: BackfillOutcome::default(),
            }),
        }
    }

    /// As in `_stats`; `None`: sweeps are off.
    pub(crate) fn shown(&self) -> Option<Value> {
        let every = self.every?;
        let status = self.status.lock().clone();
        Some(json!({
            "state": status.state,
            "reason": status.reason,
            "every_s": every.as_secs_f64(),
            "lag_s": status.complete_until.elapsed().as_secs_f64(),
            "looks": status.passes,
            "found": status.found,
            "left": status.left,
            "stamped": status.outcome.stamped,
            "by_others": status.outcome.by_others,
            "failed": status.outcome.failed,
            "failures": status.outcome.failures,
            "errors": status.errors,
        }))
    }

    /// The metrics; empty if sweeps are off.
    pub(crate) fn metrics(&self) -> Vec<Sample> {
        let Some(every) = self.every else {
            return Vec::new();
        };
        let status = self.status.lock().clone();
        vec![
            Sample::gauge(
                "sweep_lag_seconds",
                "Seconds since the begin of the last look that left no document without a stamp",
                status.complete_until.elapsed().as_secs(),
            ),
            Sample::gauge("sweep_interval_seconds", "Pause between two passes, as --sweep says", every.as_secs()),
            Sample::gauge("sweep_found", "Documents without a stamp that the last look has found", status.found),
            Sample::gauge("sweep_left", "Of them, those that have no stamp yet", status.left),
            Sample::counter("sweep_stamped", "Documents that passes have stamped", status.outcome.stamped),
            Sample::counter("sweep_failed", "Times that a document could not be stamped", status.outcome.failed),
            Sample::counter("sweep_errors", "Looks that were broken off", status.errors),
        ]
    }

    fn begin(&self) {
        let mut status = self.status.lock();
        status.state = "looking";
        status.passes += 1;
    }

    fn end(&self, begun: Instant, found: u64, outcome: BackfillOutcome, trouble: Option<&BackfillError>) {
        let mut status = self.status.lock();
        (status.found, status.left) = (found, outcome.left);
        (status.state, status.reason) = ("waiting", String::new());
        if let Some(error) = trouble {
            (status.state, status.reason) = ("failing", error.to_string());
            status.errors += 1;
        } else if outcome.left == 0 {
            status.complete_until = begun;
        }
        // The first failures of the last look, not of all.
        status.outcome.failures.clear();
        status.outcome.add(outcome);
    }
}

/// Sweeps periodically, for ever. `reader` asks in spinney's own name, `door` is its own; while `is_shut`, it would
/// stamp nothing.
pub(crate) async fn sweep<D: BulkSink>(
    swept: &SweepStatus,
    reader: &Operator,
    door: &D,
    routes: &RouteTable,
    is_shut: impl Fn() -> bool,
) {
    let Some(every) = swept.every else { return };
    loop {
        tokio::time::sleep_until(Instant::now() + every).await;
        if is_shut() {
            debug!("the look for documents without a stamp waits for the forests");
            continue;
        }
        let begun = Instant::now();
        swept.begin();
        let SweepOutcome { found, outcome, trouble } = sweep_once(reader, door, routes).await;
        if let Some(error) = &trouble {
            warn!(%error, "looking for documents without a stamp was broken off in some indices");
        }
        if outcome.left > 0 {
            warn!(
                found,
                stamped = outcome.stamped,
                left = outcome.left,
                failures = ?outcome.failures,
                "documents without a stamp were found, and some could not be stamped"
            );
        } else if found > 0 {
            info!(
                found,
                stamped = outcome.stamped,
                by_others = outcome.by_others,
                "documents without a stamp were found and stamped"
            );
        } else if trouble.is_none() {
            debug!("every document has a stamp");
        }
        swept.end(begun, found, outcome, trouble.as_ref());
    }
}

/// The result of one sweep.
#[derive(Default)]
struct SweepOutcome {
    /// Documents without a stamp.
    found: u64,
    outcome: BackfillOutcome,
    /// The error of indices that were not swept completely.
    trouble: Option<BackfillError>,
}

/// Stamps unstamped documents in all indices of the routes. A failing route or index does not prevent the others.
async fn sweep_once<D: BulkSink>(reader: &Operator, door: &D, routes: &RouteTable) -> SweepOutcome {
    let mut all = SweepOutcome::default();
    for at in 0..routes.routes.len() {
        let target = match discover_route(reader, routes, at).await {
            Ok(surveyed) => {
                all.trouble = surveyed.failed.or(all.trouble);
                surveyed.target
            }
            Err(error) => {
                all.trouble = Some(error);
                None
            }
        };
        let Some(target) = target else { continue };
        let mut found = 0;
        match sweep_indices(reader, door, target.clone(), &mut found).await {
            Ok(outcome) => {
                all.found += found;
                all.outcome.add(outcome);
                continue;
            }
            Err(error) => debug!(%error, "the indices of a route are looked at one by one"),
        }
        for one in target.per_index() {
            let mut found = 0;
            let outcome = sweep_indices(reader, door, one, &mut found).await;
            all.found += found;
            all.outcome.add(outcome.unwrap_or_else(|error| {
                let mut unstamped = BackfillOutcome { left: found, ..BackfillOutcome::default() };
                match error {
                    BackfillError::Mapping { index, fault } => unstamped.failures.push(format!("{index}: {fault}")),
                    error => all.trouble = Some(error),
                }
                unstamped
            }));
        }
    }
    all
}

/// Stamps what has no stamp in some indices. `found`: the number of those documents, once it is known.
async fn sweep_indices<D: BulkSink>(
    reader: &Operator,
    door: &D,
    mut target: RouteIndices,
    found: &mut u64,
) -> Result<BackfillOutcome, BackfillError> {
    target.find_order(reader).await?;
    *found = target.count_unstamped(reader).await?;
    if *found == 0 {
        return Ok(BackfillOutcome::default());
    }
    for (index, fields) in target.missing_fields(reader).await? {
        put_fields(reader, &index, &fields).await?;
        info!(index, "the fields of the stamp are mapped");
    }
    let options = BackfillOptions { slices: 1, rate: None, batch: BATCH };
    Backfill::new(reader, door, &target, &options, &|_| {}).run(*found).await
}
