//! Writes in flight, and waiting for those that began before a moment, as a process does it.

use std::sync::{Arc, Weak};

use futures_channel::oneshot;
use parking_lot::Mutex;

/// Those that wait for one write; dropped with it.
type Waiters = Mutex<Vec<oneshot::Sender<()>>>;

/// Writes in flight.
#[derive(Debug, Default)]
pub(super) struct Writes(Mutex<Vec<Weak<Waiters>>>);

impl Writes {
    /// Enters a write, which ends when the guard is dropped.
    pub(super) fn enter(&self) -> Arc<Waiters> {
        let write = Arc::default();
        self.0.lock().push(Arc::downgrade(&write));
        write
    }

    /// Completes when all writes entered before this call have ended.
    pub(super) fn begun(&self) -> impl Future<Output = ()> + use<> {
        let mut writes = self.0.lock();
        writes.retain(|write| write.strong_count() > 0);
        let mut ends = Vec::new();
        for write in writes.iter().filter_map(Weak::upgrade) {
            let (waiter, end) = oneshot::channel();
            write.lock().push(waiter);
            ends.push(end);
        }
        async move {
            for end in ends {
                // The sender is dropped, never used.
                let _ = end.await;
            }
        }
    }
}
