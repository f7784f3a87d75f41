//! What is to be done so that stored documents follow: jobs, each tried again by itself.

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

/// Stored documents of one forest that are to be stamped anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) forest: String,
    /// The words, and what each asks for; none: all of them, at the start.
    pub(super) words: Vec<(u64, Arc<Restamp>)>,
}

/// What the words of each forest ask for, by its name and their numbers.
pub(super) type Unfinished = BTreeMap<String, BTreeMap<u64, Arc<Restamp>>>;

impl Job {
    /// A way through the documents as they are to be now.
    pub(super) fn pass(&self, words: &Overrides) -> RestampPass {
        match self.words.is_empty() {
            true => words.pass_for_all(),
            false => words.pass_for(self.words.clone()),
        }
    }
}

/// A job that has been begun.
pub(super) struct Task {
    pub(super) job: Job,
    /// What was on its way before that; none: it has ended.
    pub(super) before: Option<InFlightBefore>,
    /// When the documents are gone through again, and how long after that if some are left.
    pub(super) next: Instant,
    pub(super) pause: Duration,
    /// Why documents do not follow.
    pub(super) trouble: Option<String>,
}

/// All that was on its way to the cluster at some moment.
pub(super) type InFlightBefore = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What one way through the documents of a job has left.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// Documents that have changed meanwhile, or could not be written.
    pub(super) documents: u64,
    /// The roots that they show.
    roots: HashSet<Root>,
    /// Some could not even be looked at: nobody knows which roots they show.
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

    /// Whether no document is left.
    pub(super) fn is_clear(&self) -> bool {
        !self.unread && self.documents == 0
    }

    /// Whether no document is left that a word is about.
    pub(super) fn is_clear_of(&self, restamp: &Restamp) -> bool {
        // By their texts, documents with any root of the job may be meant.
        match restamp.needs_texts() {
            true => self.is_clear(),
            false => !self.unread && !restamp.roots.iter().any(|root| self.roots.contains(root)),
        }
    }
}

/// What goes on.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Forests whose documents were gone through since this process has them follow: what was under way when the last
    /// process ended may have come after its jobs.
    pub(super) started: HashSet<String>,
    /// Why a forest cannot say what is to be done.
    pub(super) trouble: Option<String>,
    /// What the log has said of all this.
    pub(super) told: Option<String>,
}

impl Plan {
    pub(super) fn last_error(&self) -> Option<&str> {
        let of_tasks = self.tasks.iter().filter_map(|task| task.trouble.as_deref());
        self.trouble.as_deref().into_iter().chain(of_tasks).next()
    }

    /// When the next job is to be done, if that is known.
    pub(super) fn next(&self) -> Option<Instant> {
        let ready = self.tasks.iter().filter(|task| task.before.is_none());
        ready.map(|task| task.next).min()
    }

    /// Returns when what was on its way before one of the jobs has ended.
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

/// Whether this is still to be done; then it is taken off what is to be begun.
pub(super) fn take(to_do: &mut BTreeMap<u64, Arc<Restamp>>, number: u64, restamp: &Arc<Restamp>) -> bool {
    let is_it = to_do.get(&number).is_some_and(|of| of == restamp);
    if is_it {
        to_do.remove(&number);
    }
    is_it
}

/// Words of one forest are followed in one way through the documents: a forest says many at once, and where texts are
/// needed, the documents of all words that wait are looked at anyway.
pub(super) fn together(to_do: Unfinished) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (forest, words) in to_do {
        let job = |words| Job { forest: forest.clone(), words };
        let (by_texts, by_root): (Vec<_>, Vec<_>) = words.into_iter().partition(|(_, restamp)| restamp.needs_texts());
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
        jobs.extend(rest.filter(|words| !words.is_empty()).map(job));
    }
    jobs
}
