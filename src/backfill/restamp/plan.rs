//! The plan of restamping: jobs, each retried by itself.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::MOST_ROOTS;
use crate::backfill::BackfillError;
use crate::forest::Root;
use crate::forest::overrides::{Overrides, Restamp, RestampPass};

/// A job: one restamp pass of a forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) forest: String,
    /// Overrides with their restamps; empty: all of them, at the start.
    pub(super) overrides: Vec<(u64, Arc<Restamp>)>,
}

/// Pending restamps by forest and number.
pub(super) type Unfinished = BTreeMap<String, BTreeMap<u64, Arc<Restamp>>>;

impl Job {
    /// The pass of the job by the present overrides.
    pub(super) fn pass(&self, overrides: &Overrides) -> RestampPass {
        match self.overrides.is_empty() {
            true => overrides.pass_for_all(),
            false => overrides.pass_for(self.overrides.clone()),
        }
    }
}

/// A job in progress.
pub(super) struct Task {
    pub(super) job: Job,
    /// In-flight documents of the time before; `None`: they have arrived.
    pub(super) before: Option<InFlightBefore>,
    /// When the next pass begins, and the pause after it if documents remain.
    pub(super) next: Instant,
    pub(super) pause: Duration,
    /// Why documents do not follow.
    pub(super) trouble: Option<String>,
}

/// All documents that were in flight at some moment.
pub(super) type InFlightBefore = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The documents that a pass has not restamped.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// Documents that changed concurrently, or could not be written.
    pub(super) documents: u64,
    /// The roots that they show.
    roots: HashSet<Root>,
    /// Some documents could not be read, so their roots are unknown.
    unread: bool,
    /// Why they could not.
    pub(super) trouble: Option<String>,
}

impl Remaining {
    pub(super) fn add(&mut self, shown: Root) {
        self.documents += 1;
        self.roots.insert(shown);
    }

    pub(super) fn unread(&mut self, error: &BackfillError) {
        self.unread = true;
        self.trouble = Some(error.to_string());
    }

    pub(super) fn unwritten(&mut self, shown: impl Iterator<Item = Root>, error: &BackfillError) {
        shown.for_each(|root| self.add(root));
        self.trouble = Some(error.to_string());
    }

    /// Whether no document is left.
    pub(super) fn is_clear(&self) -> bool {
        !self.unread && self.documents == 0
    }

    /// Whether no document is left that an override affects.
    pub(super) fn is_clear_of(&self, restamp: &Restamp) -> bool {
        // By their texts, documents with any root of the job may be meant.
        match restamp.needs_texts() {
            true => self.is_clear(),
            false => !self.unread && !restamp.roots.iter().any(|root| self.roots.contains(root)),
        }
    }
}

/// All jobs of this process.
#[derive(Default)]
pub(super) struct RestampPlan {
    pub(super) tasks: Vec<Task>,
    /// Forests that this process has restamped since it leads: in-flight documents of its predecessor may have arrived
    /// after that one's jobs.
    pub(super) started: HashSet<String>,
    /// When it is asked again which indices are closed.
    pub(super) closed_again: Option<Instant>,
    /// The error of a forest.
    pub(super) trouble: Option<String>,
    /// The error that was logged last.
    pub(super) reported: Option<String>,
}

impl RestampPlan {
    pub(super) fn last_error(&self) -> Option<&str> {
        let of_tasks = self.tasks.iter().filter_map(|task| task.trouble.as_deref());
        self.trouble.as_deref().into_iter().chain(of_tasks).next()
    }

    /// When the next job is due, if that is known.
    pub(super) fn next(&self) -> Option<Instant> {
        let ready = self.tasks.iter().filter(|task| task.before.is_none());
        ready.map(|task| task.next).min()
    }

    /// Returns when the earlier in-flight documents of a job have arrived.
    pub(super) async fn ended(&mut self) {
        std::future::poll_fn(|cx| {
            let mut has_ended = false;
            for task in &mut self.tasks {
                let before = task.before.as_mut();
                if before.is_some_and(|before| before.as_mut().poll(cx).is_ready()) {
                    task.before = None;
                    task.next = Instant::now();
                    has_ended = true;
                }
            }
            if has_ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Removes this restamp from those to be started; returns whether it was still pending.
pub(super) fn take(to_do: &mut BTreeMap<u64, Arc<Restamp>>, number: u64, restamp: &Arc<Restamp>) -> bool {
    let is_it = to_do.get(&number).is_some_and(|of| of == restamp);
    if is_it {
        to_do.remove(&number);
    }
    is_it
}

/// Joins the overrides of one forest into one pass: late merges come in numbers, and where texts are needed the
/// documents of all pending overrides are read anyway.
pub(super) fn together(to_do: Unfinished) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (forest, overrides) in to_do {
        let job = |overrides| Job { forest: forest.clone(), overrides };
        let (by_texts, by_root): (Vec<_>, Vec<_>) =
            overrides.into_iter().partition(|(_, restamp)| restamp.needs_texts());
        let (mut some, mut roots) = (Vec::new(), 0);
        for (number, restamp) in by_root {
            let more = restamp.roots.len();
            if roots + more > MOST_ROOTS && !some.is_empty() {
                jobs.push(job(std::mem::take(&mut some)));
                roots = 0;
            }
            roots += more;
            some.push((number, restamp));
        }
        let rest = [some, by_texts].into_iter();
        jobs.extend(rest.filter(|overrides| !overrides.is_empty()).map(job));
    }
    jobs
}
