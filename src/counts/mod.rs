//! Counting: the sizes of all groups of two or more are counted in the background and kept in a roots index
//! (`cluster/roots.rs`), which gives readers the order of groups. `docs/internals/counts.md` has its states, and why
//! it heals.
//!
//! ```text
//! proxy --note: roots--> dirty groups
//!                           | seal: the writes to an index, once they are visible
//!                           v
//!  counter: count the roots --------------------> entries (absolute, versioned by the time of the count)
//!           ranges of keys ---> differences ----> entries
//! ```
//!
//! `throttle`, `ranges`, `entry` and `dirty_groups` are pure; `searcher` and `store` talk to the cluster; `counter` is
//! the task.

mod counter;
mod dirty_groups;
mod entry;
mod error;
mod index_state;
#[cfg(test)]
mod model_tests;
mod ranges;
mod reconcile;
mod searcher;
mod status;
mod store;
mod throttle;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::operator::Operator;
use crate::index_pattern::fits;
use counter::Counter;
use dirty_groups::{DirtyGroups, DirtyLimits};

pub(crate) use counter::SLICE;
pub(crate) use dirty_groups::IndexWrites;
pub(crate) use ranges::{KeyRange, RangeParts};
pub(crate) use reconcile::{Findings, Mode, ReconcilePass, SOON};
pub(crate) use searcher::{Searcher, StampFields, refresh_interval};
pub(crate) use status::{CountState, CountStatus};
pub(crate) use store::TEMPLATE;
pub(crate) use throttle::{COUNTING, ROLLING, backoff, rest_after};

/// The counter hurries once in this time at most.
const HURRIES: Duration = Duration::from_secs(5);
/// Time after which every search sees written entries: twice the refresh interval of a roots index.
const VISIBLE: Duration = Duration::from_secs(2);

/// The interface of counting for writes and `_stats`; the task runs by itself ([`Counts::start`]).
#[derive(Debug, Default)]
pub(crate) struct Counts {
    shared: Option<Arc<Shared>>,
}

/// State shared by the task and the requests.
#[derive(Debug)]
struct Shared {
    dirty: Mutex<DirtyGroups>,
    /// The indices that are kept true.
    standings: RwLock<HashMap<String, Standing>>,
    status: Mutex<CountStatus>,
    /// Wakes the task for a reader that waits for the latest writes.
    hurry: Notify,
    /// When [`hurry`](Self::hurry) was last called.
    hurried: Mutex<Option<Instant>>,
    /// Whether names of indices may mean other indices than before: they are discovered again.
    has_new_names: AtomicBool,
}

/// How far the entries of an index are.
#[derive(Debug, Default)]
struct Standing {
    /// All of it was compared once.
    has_passed: bool,
    /// When entries were last written.
    written: Option<Instant>,
    /// Some are missing for good, as far as the last comparison has found out: the cluster does not take them.
    has_refused: bool,
    is_failing: bool,
}

/// The truth of an index's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Counting is off.
    Unknown,
    /// The first count is running: entries are missing.
    Unfinished,
    /// The counts lag behind the writes. `is_failing`: and will for some time.
    Late {
        /// Counting fails.
        is_failing: bool,
    },
    /// They agree with the documents.
    True,
}

impl Shared {
    /// Waits until an instant, unless a reader waits for counts. Returns whether one does.
    #[expect(clippy::disallowed_methods, reason = "what keeps counting to its part of the time")]
    async fn pause(&self, until: Instant) -> bool {
        tokio::select! {
            biased;
            () = tokio::time::sleep(until.saturating_duration_since(Instant::now())) => false,
            () = self.hurry.notified() => true,
        }
    }

    /// An index is kept true from now on, or is another one than it was.
    fn is_new(&self, index: &str) {
        let new = Standing::default();
        self.standings.write().insert(index.to_owned(), new);
    }

    fn change(&self, index: &str, change: impl FnOnce(&mut Standing)) {
        if let Some(standing) = self.standings.write().get_mut(index) {
            change(standing);
        }
    }

    fn has_passed(&self, index: &str) {
        self.change(index, |of| of.has_passed = true);
    }

    fn writes_entries(&self, index: &str) {
        let now = Instant::now();
        self.change(index, |of| of.written = Some(now));
    }

    fn has_refused(&self, index: &str, has_refused: bool) {
        self.change(index, |of| of.has_refused = has_refused);
    }

    fn is_failing(&self, index: &str, is_failing: bool) {
        self.change(index, |of| of.is_failing = is_failing);
    }

    fn entries(&self, index: &str) -> Entries {
        let standings = self.standings.read();
        let Some(standing) = standings.get(index) else {
            return Entries::Unfinished;
        };
        let dirty = self.dirty.lock();
        if !standing.has_passed || dirty.is_marked(index) {
            return Entries::Unfinished;
        }
        let is_visible = standing.written.is_none_or(|at| at.elapsed() >= VISIBLE);
        let waits = dirty.waits_for(index, |name| standings.contains_key(name)) || self.has_new_names.load(Relaxed);
        match standing.is_failing || standing.has_refused {
            false if is_visible && !waits => Entries::True,
            is_failing => Entries::Late { is_failing },
        }
    }
}

/// The task, and the way to stop it.
pub(crate) struct Running {
    task: JoinHandle<()>,
}

impl Running {
    /// Stops the task at once; the next start counts the remainder.
    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Counts {
    /// Counting that is on, or off.
    pub(crate) fn new(is_on: bool) -> Counts {
        let shared = || Shared {
            dirty: Mutex::new(DirtyGroups::new(DirtyLimits::DEFAULT)),
            standings: RwLock::default(),
            status: Mutex::default(),
            hurry: Notify::new(),
            hurried: Mutex::default(),
            has_new_names: AtomicBool::new(false),
        };
        Counts { shared: is_on.then(|| Arc::new(shared())) }
    }

    /// Begins to count the indices of these patterns. `None` if counting is off.
    pub(crate) fn start(&self, operator: Operator, fields: StampFields, patterns: &[String]) -> Option<Running> {
        let shared = self.shared.clone()?;
        let counter = Counter::new(Searcher::new(operator, fields), shared, patterns);
        Some(Running { task: tokio::spawn(counter.run()) })
    }

    /// Whether writes are recorded at all.
    pub(crate) fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether this index is kept true.
    pub(crate) fn knows(&self, index: &str) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.standings.read().contains_key(index))
    }

    /// Whether an index is kept true whose name fits this pattern.
    pub(crate) fn knows_any(&self, pattern: &str) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| {
            let standings = shared.standings.read();
            standings.keys().any(|index| fits(pattern, index))
        })
    }

    /// Something was written.
    pub(crate) fn note<'w>(&self, parts: impl Iterator<Item = IndexWrites<'w>>) {
        let Some(shared) = &self.shared else { return };
        let now = Instant::now();
        let mut dirty = shared.dirty.lock();
        for written in parts {
            dirty.note(&written, now);
        }
    }

    /// Reports that a reader waits for the latest writes: the task skips its present or next rest, once in [`HURRIES`].
    pub(crate) fn hurry(&self) {
        let Some(shared) = &self.shared else { return };
        let mut hurried = shared.hurried.lock();
        if hurried.is_none_or(|last| last.elapsed() >= HURRIES) {
            *hurried = Some(Instant::now());
            shared.hurry.notify_one();
        }
    }

    /// Notes a write to an unknown index.
    pub(crate) fn note_everything(&self) {
        if let Some(shared) = &self.shared {
            shared.dirty.lock().note_everything(Instant::now());
        }
    }

    /// Notes that indices or aliases were changed: a name may mean another index.
    pub(crate) fn note_names(&self) {
        if let Some(shared) = &self.shared {
            shared.has_new_names.store(true, Relaxed);
        }
    }

    /// The truth of an index's entries at this moment.
    pub(crate) fn entries(&self, index: &str) -> Entries {
        let shared = self.shared.as_ref();
        shared.map_or(Entries::Unknown, |shared| shared.entries(index))
    }

    /// How far counting is. `None` if it is off.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let shared = self.shared.as_ref()?;
        let waiting = shared.dirty.lock().waiting();
        let status = shared.status.lock().clone();
        let lag = waiting.since.map(|since| since.elapsed());
        Some(Progress {
            dirty_groups: waiting.roots as u64,
            reconciling: waiting.marked as u64,
            unscanned: waiting.changed as u64,
            lag: lag.unwrap_or_default(),
            status,
        })
    }
}

/// How far counting is.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    /// Roots that wait to be counted.
    pub dirty_groups: u64,
    /// Marked indices, which are compared before all others.
    pub reconciling: u64,
    /// Indices that were written to since their last comparison began.
    pub unscanned: u64,
    /// Age of the oldest uncounted write; zero if there is none.
    pub lag: Duration,
    /// The status of the task.
    pub status: CountStatus,
}

impl Progress {
    /// As `_stats` shows it.
    pub(crate) fn json(&self) -> Value {
        let status = &self.status;
        json!({
            "state": status.state.as_str(),
            "reason": status.reason,
            "lag_s": self.lag.as_secs_f64(),
            "dirty_groups": self.dirty_groups,
            "indices": status.indices,
            "reconciling": self.reconciling,
            "unscanned": self.unscanned,
            "reconciled": status.reconciled,
            "roots_counted": status.roots_counted,
            "entries_written": status.kept.written,
            "entries_removed": status.kept.removed,
            "entries_overtaken": status.kept.overtaken,
            "entries_refused": status.kept.refused,
            "busy_s": status.busy.as_secs_f64(),
            "errors": status.errors,
        })
    }
}
