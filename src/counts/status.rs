//! Status of the counting task.

use std::time::Duration;

use super::store::StoreReport;

/// The state of counting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CountState {
    /// The cluster has not been reached yet.
    #[default]
    Starting,
    /// As it should.
    Counting,
    /// The cluster does not let it.
    Refused,
    /// The cluster is away, or too busy.
    Unreachable,
    /// Something else is wrong.
    Failing,
}

impl CountState {
    /// Its name in `_stats`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CountState::Starting => "starting",
            CountState::Counting => "counting",
            CountState::Refused => "refused",
            CountState::Unreachable => "unreachable",
            CountState::Failing => "failing",
        }
    }
}

/// State and figures since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountStatus {
    /// Its state.
    pub state: CountState,
    /// Why it does not go as it should.
    pub reason: Option<String>,
    /// Indices that are kept true.
    pub indices: u64,
    /// Indices that have been compared as a whole.
    pub reconciled: u64,
    /// Dirty roots that were counted.
    pub roots_counted: u64,
    /// Written and removed entries.
    pub kept: StoreReport,
    /// Time spent asking the cluster.
    pub busy: Duration,
    /// Failures.
    pub errors: u64,
}

impl CountStatus {
    /// Enters a state; returns whether it has changed.
    pub(super) fn enter(&mut self, state: CountState, reason: Option<&str>) -> bool {
        let is_new = self.state != state;
        self.state = state;
        self.reason = reason.map(str::to_owned);
        is_new
    }
}
