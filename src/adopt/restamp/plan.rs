//! What is to be done so that stored documents follow: jobs, each tried again by itself.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::MOST_ROOTS;
use crate::adopt::AdoptError;
use crate::forest::Root;
use crate::forest::words::{By, Restamp};

/// Stored documents of one forest that are to be stamped anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) forest: String,
    /// The words, and what each asks for; none: all of them, at the start.
    pub(super) numbers: Vec<(u64, Restamp)>,
    pub(super) restamp: Restamp,
}

/// What a word asks for: its forest, its number, and which documents.
pub(super) type ToDo = (String, u64, Restamp);

impl Job {
    fn words(&self) -> impl Iterator<Item = ToDo> {
        let numbers = self.numbers.iter();
        numbers.map(|(number, restamp)| (self.forest.clone(), *number, restamp.clone()))
    }
}

/// A job that has been begun.
pub(super) struct Task {
    pub(super) job: Job,
    /// What was on its way before that; none: it has ended.
    pub(super) before: Option<Before>,
    /// When the documents are gone through again, and how long after that if some are left.
    pub(super) next: Instant,
    pub(super) pause: Duration,
    /// Why documents do not follow.
    pub(super) trouble: Option<String>,
}

/// All that was on its way to the cluster at some moment.
pub(super) type Before = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What one way through the documents of a job has left.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Documents that have changed meanwhile, or could not be written.
    pub(super) documents: u64,
    /// The roots that they show.
    roots: HashSet<Root>,
    /// Some could not even be looked at: nobody knows which roots they show.
    unread: bool,
    /// Why they could not.
    pub(super) trouble: Option<String>,
}

impl Left {
    pub(super) fn add(&mut self, shown: Root) {
        self.documents += 1;
        self.roots.insert(shown);
    }

    pub(super) fn unread(&mut self, error: &AdoptError) {
        self.unread = true;
        self.trouble = Some(error.to_string());
    }

    /// Whether no document is left that a word is about.
    pub(super) fn is_clear_of(&self, restamp: &Restamp) -> bool {
        let is_left = |root: &Root| self.roots.contains(root);
        // By their texts, documents with any root of the job may be meant.
        let is_left = match restamp.by {
            By::Root => restamp.roots.iter().any(is_left),
            By::Texts(_) | By::Trees => self.documents > 0,
        };
        !self.unread && !is_left
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
    pub(super) fn trouble(&self) -> Option<&str> {
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
            if has_ended {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// What has not been begun.
pub(super) fn new_ones(words: Vec<ToDo>, begun: &[Task]) -> Vec<ToDo> {
    let known: Vec<ToDo> = begun.iter().flat_map(|task| task.job.words()).collect();
    let new = words.into_iter().filter(|word| !known.contains(word));
    new.collect()
}

/// Words of one forest that need no texts are followed in one way through the documents: a forest says many at once.
pub(super) fn together(words: Vec<ToDo>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (forest, number, restamp) in words {
        let takes = |job: &&mut Job| {
            let is_of_roots = |of: &Restamp| of.by == By::Root;
            job.forest == forest
                && is_of_roots(&job.restamp)
                && is_of_roots(&restamp)
                && job.restamp.roots.len() + restamp.roots.len() <= MOST_ROOTS
        };
        match jobs.last_mut().filter(takes) {
            Some(job) => {
                job.restamp.roots.extend(&restamp.roots);
                job.numbers.push((number, restamp));
            }
            None => jobs.push(Job {
                forest,
                numbers: vec![(number, restamp.clone())],
                restamp,
            }),
        }
    }
    jobs
}
