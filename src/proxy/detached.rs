//! Work that continues without its caller.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tracing::{Instrument, Span};

/// A future that continues as a task if it is dropped before its end. While it is awaited, it needs no task, and wakes
/// no other thread.
pub(super) struct Detached<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>)
where
    T: Send + 'static;

/// The payload of a panic, which the hook has logged.
pub(super) type Panicked = Box<dyn Any + Send>;

impl<T: Send + 'static> Detached<T> {
    /// Log entries of the work belong to the current span.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Detached<T> {
        Detached(Some(Box::pin(work.instrument(Span::current()))))
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Panicked>> {
        let Some(work) = &mut self.0 else {
            return Poll::Pending;
        };
        // Unwind safe: a future that has panicked is dropped, and never polled again.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        let done = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => Ok(done),
            Err(panic) => Err(panic),
        };
        self.0 = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_goes_on_without_its_waiter() {
        for polls_first in [false, true] {
            let (open, gate) = oneshot::channel::<u8>();
            let (done, given) = oneshot::channel();
            let mut work = Detached::new(async move { done.send(gate.await).unwrap() });
            if polls_first {
                let is_pending = poll_fn(|cx| Poll::Ready(Pin::new(&mut work).poll(cx).is_pending()));
                assert!(is_pending.await);
            }
            drop(work);
            open.send(7).unwrap();
            assert_eq!(given.await.unwrap(), Ok(7), "{polls_first}");
        }
    }

    #[tokio::test]
    async fn a_waiter_gets_the_result_and_the_panic() {
        assert_eq!(Detached::new(async { 3 }).await.ok(), Some(3));
        let dropped = Arc::new(Mutex::new(false));
        struct Noted(Arc<Mutex<bool>>);
        impl Drop for Noted {
            fn drop(&mut self) {
                *self.0.lock() = true;
            }
        }
        let noted = Noted(dropped.clone());
        let panics = Detached::new(async move {
            let _noted = noted;
            panic!("the test says so")
        });
        let panicked: Result<(), _> = panics.await;
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"the test says so"));
        assert!(*dropped.lock());
    }
}
