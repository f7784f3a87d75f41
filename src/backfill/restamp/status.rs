//! Status of restamping.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::backfill::override_progress::OverrideProgress;
use crate::telemetry::Sample;

/// Status of restamping, and the signal that wakes its task.
#[derive(Debug, Default)]
pub(crate) struct Restamping {
    pub(super) wake: Notify,
    pub(super) status: Mutex<RestampState>,
    /// Progress of the processes that share forests.
    all_obey: OverrideProgress,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RestampState {
    pub(super) is_working: bool,
    /// Why it does not go on; empty: it does.
    reason: String,
    /// Overrides that stored documents may not follow yet.
    pub(super) waiting: u64,
    pub(super) stamped: u64,
    pub(super) errors: u64,
    /// Closed indices that the log has named, behind the numbers of their routes.
    pub(super) closed: BTreeSet<(usize, String)>,
    /// Forests with indices that are not closed any more.
    pub(super) opened: BTreeSet<String>,
}

impl RestampState {
    fn state(&self) -> &'static str {
        match (self.reason.is_empty(), self.is_working) {
            (false, _) => "failing",
            (true, true) => "stamping",
            (true, false) => "waiting",
        }
    }
}

impl Restamping {
    /// Reports an override.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(in crate::backfill) fn all_acknowledged(&self) -> &OverrideProgress {
        &self.all_obey
    }

    /// Whether it is this process that has the stored documents of a forest follow. `shared`: the shared forests.
    pub(in crate::backfill) fn leads(&self, forest: &str, shared: &[String]) -> bool {
        let is_shared = shared.iter().any(|shared| shared == forest);
        !is_shared || self.all_obey.of(forest).is_some_and(|acknowledged| acknowledged.is_first)
    }

    /// How far the jobs are.
    pub(super) fn report_trouble(&self, is_working: bool, trouble: Option<&str>) {
        let mut status = self.status.lock();
        status.is_working = is_working;
        status.reason = trouble.unwrap_or_default().to_owned();
    }

    /// The state that readers of the index see; the reason of a failure is shown in `_stats` only.
    pub(crate) fn state(&self) -> &'static str {
        self.status.lock().state()
    }

    /// As `_stats` shows it.
    pub(crate) fn shown(&self) -> Value {
        let status = self.status.lock().clone();
        json!({
            "state": status.state(),
            "reason": status.reason,
            "waiting": status.waiting,
            "stamped": status.stamped,
            "errors": status.errors,
        })
    }

    /// Names, help and values of the metrics.
    pub(crate) fn metrics(&self) -> [Sample; 3] {
        let status = self.status.lock();
        [
            Sample::gauge("overrides_waiting", "Overrides that stored documents may not follow yet", status.waiting),
            Sample::counter(
                "restamped",
                "Stored documents that got another root, because somebody has said so",
                status.stamped,
            ),
            Sample::counter(
                "restamp_errors",
                "Times that stored documents could not be given another root",
                status.errors,
            ),
        ]
    }
}
