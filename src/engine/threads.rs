//! The threads for text work and for the forests' locks.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use futures_channel::oneshot;
use tracing::{Span, error};

use super::Unavailable;
use crate::forest::local::{Executor, caught, panic_message};

/// Whether the caller of a job still waits for it.
pub(super) struct JobWaiter(Weak<()>);

impl JobWaiter {
    pub(super) fn is_so(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Runs jobs on the calling thread.
pub(super) struct Inline;

impl Executor for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

/// A pool of threads. Parallel iterators inside a job use all of them.
pub(super) struct TextThreads(Jobs);

/// Where jobs run.
enum Jobs {
    Pool(rayon::ThreadPool),
    /// Wherever the owner of the engine runs them.
    Executor(Arc<dyn Executor>),
}

impl Jobs {
    /// Whether short jobs may run on the calling thread. An executor schedules all of them itself.
    fn spares_short_jobs(&self) -> bool {
        matches!(self, Jobs::Pool(_))
    }

    fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        match self {
            Jobs::Pool(pool) => pool.spawn(job),
            Jobs::Executor(executor) => executor.run(Box::new(job)),
        }
    }
}

impl TextThreads {
    /// `count`: 0 means all cores.
    pub(super) fn new(count: usize) -> Result<TextThreads, rayon::ThreadPoolBuildError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|n| format!("text-{n}")).build()?;
        Ok(TextThreads(Jobs::Pool(pool)))
    }

    /// No threads: jobs run where the executor runs them.
    pub(super) fn on(executor: Arc<dyn Executor>) -> TextThreads {
        TextThreads(Jobs::Executor(executor))
    }

    /// A quarter of the cores for readers; the operating system shares the processor.
    pub(super) fn for_readers() -> Result<TextThreads, rayon::ThreadPoolBuildError> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(cores.div_ceil(4))
            .thread_name(|n| format!("reader-{n}"))
            .build()?;
        Ok(TextThreads(Jobs::Pool(pool)))
    }

    /// Runs a job that can check whether its result is still wanted.
    pub(super) async fn run_wanted<T: Send + 'static>(
        &self,
        job: impl FnOnce(&JobWaiter) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let waiting = Arc::new(());
        let wanted = JobWaiter(Arc::downgrade(&waiting));
        let given = self.run(move || job(&wanted)).await;
        drop(waiting);
        given
    }

    /// Runs a short job on the calling thread, others as [`TextThreads::run_wanted`] does.
    pub(super) async fn run_short<T: Send + 'static>(
        &self,
        is_short: bool,
        job: impl FnOnce(&JobWaiter) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        if !is_short || !self.0.spares_short_jobs() {
            return self.run_wanted(job).await;
        }
        let waiting = Arc::new(());
        let wanted = JobWaiter(Arc::downgrade(&waiting));
        // Unwind safe: everything the job owned is dropped.
        caught(|| job(&wanted))
    }

    /// Runs a job to its end and waits for its result.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        // Log entries of the job belong to the request.
        let span = Span::current();
        let (done, given) = oneshot::channel();
        self.0.spawn(move || {
            let _in_request = span.enter();
            // Unwind safe: everything the job owned is dropped.
            let given = caught(job);
            // The client may have disconnected.
            let _ = done.send(given);
        });
        given.await.unwrap_or(Err(Unavailable::Stopped))
    }
}

impl Executor for TextThreads {
    fn spares_short_jobs(&self) -> bool {
        self.0.spares_short_jobs()
    }

    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.spawn(move || {
            // A panic that left this thread would end the process.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                error!(reason = panic_message(&*panic), "a job on a forest panicked");
            }
        });
    }
}
