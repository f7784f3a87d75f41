//! What the counting task says of itself.

use std::time::Duration;

use super::keep::Kept;

/// How counting goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not asked the cluster yet.
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

impl State {
    /// Its name in `_stats`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Counting => "counting",
            State::Refused => "refused",
            State::Unreachable => "unreachable",
            State::Failing => "failing",
        }
    }
}

/// State and figures since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// How it goes.
    pub state: State,
    /// Why it does not go as it should.
    pub reason: Option<String>,
    /// Indices that are kept true.
    pub indices: u64,
    /// Indices that have been compared as a whole.
    pub reconciled: u64,
    /// Roots that were counted because something had been written.
    pub roots_counted: u64,
    /// What was done to entries.
    pub kept: Kept,
    /// Time spent asking the cluster.
    pub busy: Duration,
    /// Failures.
    pub errors: u64,
}

impl Status {
    /// Takes a state; answers whether it is another one than before.
    pub(super) fn enter(&mut self, state: State, reason: Option<&str>) -> bool {
        let is_new = self.state != state;
        self.state = state;
        self.reason = reason.map(str::to_owned);
        is_new
    }
}
