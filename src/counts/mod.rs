//! Similar counts that stay true: in the background, the sizes of all groups of two or more are counted and kept in a roots index
//! (`cluster/roots.rs`), from which readers take the order of groups. `docs/counts.md` says why it heals whatever happens.
//!
//! ```text
//! proxy --note: roots, replaced ids, witnesses--> touched
//!                                                    | seal: one generation of an index
//!  counter: a point in time that sees the witnesses  v
//!           old roots by the points before; count ----> entries (absolute, versioned by the time of the count)
//!           ranges of keys, in passing or as a whole ---> differences ---> entries
//! ```
//!
//! `duty`, `ranges`, `entry` and `touched` are pure; `searcher` and `keep` ask the cluster; `counter` is the task.

mod counter;
mod duty;
mod entry;
mod error;
mod keep;
mod ranges;
mod reconcile;
mod searcher;
mod status;
mod touched;
mod tracked;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::cluster::operator::Operator;
use counter::Counter;
use touched::{Limits, Touched};

pub(crate) use keep::TEMPLATE;
pub(crate) use reconcile::{Findings, Mode, Pass, SOON};
pub(crate) use searcher::{Fields, Searcher};
pub(crate) use status::{State, Status};
pub(crate) use touched::Written;

/// The counter hurries once in this time at most.
const HURRIES: Duration = Duration::from_secs(5);
/// How long a stop waits until the points in time are closed.
const CLOSING: Duration = Duration::from_secs(2);

/// What writes tell, and what `_stats` shows. Whoever counts is a task beside ([`Counts::start`]).
#[derive(Debug, Default)]
pub(crate) struct Counts {
    shared: Option<Arc<Shared>>,
}

/// What the task has in common with the requests.
#[derive(Debug)]
struct Shared {
    touched: Mutex<Touched>,
    /// The indices that are kept true.
    known: RwLock<HashSet<String>>,
    status: Mutex<Status>,
    /// Somebody waits for what was written last.
    hurry: Notify,
    /// When the counter was last asked to hurry.
    hurried: Mutex<Option<Instant>>,
}

/// The task, and the way to end it.
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    /// Ends the task where it stands: what it has not counted, the next start will. Takes [`CLOSING`] at most.
    pub(crate) async fn stop(mut self) {
        let _ = self.stop.send(true);
        if tokio::time::timeout(CLOSING, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Counts {
    /// Counting that is on, or off.
    pub(crate) fn new(is_on: bool) -> Counts {
        let shared = || Shared {
            touched: Mutex::new(Touched::new(Limits::DEFAULT)),
            known: RwLock::default(),
            status: Mutex::default(),
            hurry: Notify::new(),
            hurried: Mutex::default(),
        };
        Counts {
            shared: is_on.then(|| Arc::new(shared())),
        }
    }

    /// Begins to count the indices of these patterns. `None` if counting is off.
    pub(crate) fn start(
        &self,
        operator: Operator,
        fields: Fields,
        patterns: &[String],
    ) -> Option<Running> {
        let shared = self.shared.clone()?;
        let (stop, stopped) = watch::channel(false);
        let counter = Counter::new(Searcher::new(operator, fields), shared, patterns);
        let task = tokio::spawn(counter.run(stopped));
        Some(Running { stop, task })
    }

    /// It cannot even begin; writes go on as ever.
    pub(crate) fn cannot_start(&self, reason: &str) {
        if let Some(shared) = &self.shared {
            warn!(reason, "groups are not counted");
            shared.status.lock().enter(State::Failing, reason.into());
        }
    }

    /// Whether anybody wants to know of writes.
    pub(crate) fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether this index is kept true.
    pub(crate) fn knows(&self, index: &str) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.known.read().contains(index))
    }

    /// Something was written.
    pub(crate) fn note<'w>(&self, parts: impl Iterator<Item = Written<'w>>) {
        let Some(shared) = &self.shared else { return };
        let now = Instant::now();
        let mut touched = shared.touched.lock();
        for written in parts {
            touched.note(&written, now);
        }
    }

    /// A person waits for what was noted last: the counter does without the rest that it is in, or without its next one; once in
    /// [`HURRIES`], however much is said.
    pub(crate) fn hurry(&self) {
        let Some(shared) = &self.shared else { return };
        let mut last = shared.hurried.lock();
        if last.is_none_or(|last| last.elapsed() >= HURRIES) {
            *last = Some(Instant::now());
            shared.hurry.notify_one();
        }
    }

    /// Something was written, and nobody knows where.
    pub(crate) fn note_everything(&self) {
        if let Some(shared) = &self.shared {
            shared.touched.lock().note_everything(Instant::now());
        }
    }

    /// Whether entries may be older than the usual lag: counting fails, or a whole index is still to be compared.
    pub(crate) fn is_behind(&self) -> bool {
        let progress = self.progress();
        progress.is_some_and(|progress| {
            progress.status.state != State::Counting || progress.reconciling > 0
        })
    }

    /// How far counting is. `None` if it is off.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let shared = self.shared.as_ref()?;
        let waiting = shared.touched.lock().waiting();
        let status = shared.status.lock().clone();
        let lag = waiting.since.map(|since| since.elapsed());
        Some(Progress {
            touched_roots: waiting.roots as u64,
            reconciling: waiting.marked as u64,
            lag: lag.unwrap_or_default(),
            status,
        })
    }
}

/// How far counting is.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    /// Roots that wait to be counted.
    pub touched_roots: u64,
    /// Indices that are being compared as a whole, or wait for it.
    pub reconciling: u64,
    /// Since when the first of what waits has waited; zero: nothing waits.
    pub lag: Duration,
    /// What the task says.
    pub status: Status,
}

impl Progress {
    /// As `_stats` shows it.
    pub(crate) fn json(&self) -> Value {
        let status = &self.status;
        json!({
            "state": status.state.as_str(),
            "reason": status.reason,
            "lag_s": self.lag.as_secs_f64(),
            "touched_roots": self.touched_roots,
            "indices": status.indices,
            "reconciling": self.reconciling,
            "reconciled": status.reconciled,
            "roots_counted": status.roots_counted,
            "entries_written": status.kept.written,
            "entries_removed": status.kept.removed,
            "entries_overtaken": status.kept.overtaken,
            "busy_s": status.busy.as_secs_f64(),
            "errors": status.errors,
        })
    }
}
