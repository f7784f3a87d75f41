//! Limits concurrent readers, and those that hold large responses of the cluster.
//!
//! Readers with small responses run concurrently up to a limit. A reader whose responses turn out to be large
//! continues exclusively: the others of its kind queue in order of arrival. So the memory of readers is bounded, and
//! a queued reader holds nothing that another one needs.

use std::sync::Arc;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Readers that are answered at once.
const AT_ONCE: usize = 32;

/// Concurrent readers with large responses.
const LARGE_AT_ONCE: usize = 1;

/// Bytes of a response that a reader may hold without the permit.
pub(crate) const SMALL: usize = 1 << 20;

/// All turns of a process.
#[derive(Debug, Clone)]
pub(crate) struct ReaderPermits {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for ReaderPermits {
    fn default() -> ReaderPermits {
        ReaderPermits { all: Arc::new(Semaphore::new(AT_ONCE)), large: Arc::new(Semaphore::new(LARGE_AT_ONCE)) }
    }
}

/// The permit of one request, released when it is dropped.
#[derive(Debug)]
pub(crate) struct ReaderPermit {
    turns: ReaderPermits,
    begun: OnceCell<Option<OwnedSemaphorePermit>>,
    large: OnceCell<Option<OwnedSemaphorePermit>>,
}

impl ReaderPermit {
    /// A permit that is not acquired yet.
    pub(crate) fn new(turns: &ReaderPermits) -> ReaderPermit {
        ReaderPermit { turns: turns.clone(), begun: OnceCell::new(), large: OnceCell::new() }
    }

    /// Waits until it begins, if it has not.
    pub(crate) async fn begin(&self) {
        let begin = async || self.turns.all.clone().acquire_owned().await.ok();
        self.begun.get_or_init(begin).await;
    }

    /// Acquires the permit for large responses, which then holds for any number of them.
    pub(crate) async fn large(&self) {
        let large = async || self.turns.large.clone().acquire_owned().await.ok();
        self.large.get_or_init(large).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(future).as_mut().poll(&mut context) == Poll::Ready(())
    }

    #[test]
    fn so_many_are_answered_at_once_and_one_more_waits() {
        let turns = ReaderPermits::default();
        let mut held: Vec<ReaderPermit> = (0..AT_ONCE).map(|_| ReaderPermit::new(&turns)).collect();
        assert!(held.iter().all(|turn| is_ready(turn.begin())));
        // Asked again, it has begun.
        assert!(is_ready(held[0].begin()));
        let next = ReaderPermit::new(&turns);
        assert!(!is_ready(next.begin()));
        held.pop();
        assert!(is_ready(next.begin()));
    }

    #[test]
    fn one_holds_large_answers_and_another_one_waits() {
        let turns = ReaderPermits::default();
        let [one, other] = [(); 2].map(|()| ReaderPermit::new(&turns));
        assert!(is_ready(one.large()) && is_ready(one.large()));
        assert!(!is_ready(other.large()));
        assert!(is_ready(other.begin()), "with small ones it goes on");
        drop(one);
        assert!(is_ready(other.large()));
    }
}
