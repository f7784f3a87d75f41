//! Status of the task.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::telemetry::Sample;

/// Most indices that are named.
const NAMED: usize = 10;

/// What the task has done since the start.
#[derive(Debug, Default)]
pub(crate) struct FirstStatus(Mutex<State>);

#[derive(Debug, Clone, Default)]
struct State {
    /// The forests in which it does not go on, and why.
    reasons: BTreeMap<String, String>,
    waiting: u64,
    searched: u64,
    elected: u64,
    cleared: u64,
    contested: u64,
    refused: u64,
    scans: u64,
    errors: u64,
    /// Indices that are not searched, with the reasons, by forest.
    left_out: BTreeMap<String, Vec<String>>,
}

impl FirstStatus {
    pub(super) fn waiting(&self, groups: usize) {
        self.0.lock().waiting = groups as u64;
    }

    pub(super) fn searched(&self, groups: usize, contested: u64) {
        let mut state = self.0.lock();
        state.searched += groups as u64;
        state.contested += contested;
    }

    pub(super) fn written(&self, first: bool) {
        let mut state = self.0.lock();
        match first {
            true => state.elected += 1,
            false => state.cleared += 1,
        }
    }

    pub(super) fn refused(&self) {
        self.0.lock().refused += 1;
    }

    pub(super) fn scanned(&self) {
        self.0.lock().scans += 1;
    }

    /// Sets the indices of a forest that are not searched. Returns whether there are others than before.
    pub(super) fn leaves_out(&self, forest: &str, left_out: &[String]) -> bool {
        let mut state = self.0.lock();
        let before = state.left_out.insert(forest.to_owned(), left_out.to_vec()).unwrap_or_default();
        before != left_out && !left_out.is_empty()
    }

    pub(super) fn succeeded(&self, forest: &str) {
        self.0.lock().reasons.remove(forest);
    }

    /// Counts a failure. Returns whether it is another one than the last of this forest.
    pub(super) fn failed(&self, forest: &str, reason: &str) -> bool {
        let mut state = self.0.lock();
        state.errors += 1;
        let before = state.reasons.insert(forest.to_owned(), reason.to_owned());
        before.is_none_or(|before| before != reason)
    }

    /// As `_stats` shows it.
    pub(crate) fn shown(&self) -> Value {
        let state = self.0.lock().clone();
        json!({
            "state": if state.reasons.is_empty() { "searching" } else { "failing" },
            "reason": state.reasons.values().next().map_or("", String::as_str),
            "waiting": state.waiting,
            "searched": state.searched,
            "elected": state.elected,
            "cleared": state.cleared,
            "contested": state.contested,
            "refused": state.refused,
            "scans": state.scans,
            "errors": state.errors,
            "left_out": state.left_out.values().flatten().take(NAMED).collect::<Vec<_>>(),
        })
    }

    /// The metrics.
    pub(crate) fn metrics(&self) -> [Sample; 3] {
        let state = self.0.lock();
        [
            Sample::counter("firsts_elected", "Stored documents that became the first of their group", state.elected),
            Sample::counter(
                "firsts_cleared",
                "Stored documents that are not the first of their group any more",
                state.cleared,
            ),
            Sample::counter("firsts_errors", "Failed searches for groups without one first document", state.errors),
        ]
    }
}
