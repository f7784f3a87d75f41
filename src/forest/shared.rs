//! The forest for many threads.

use super::{Forest, Millis, Placement, Proof, Sketch, Ticket};
use parking_lot::{Mutex, MutexGuard};

/// A thin lock around a [`Forest`]. A mutex and not a reader-writer lock, because every placement writes and nobody
/// holds it for longer than a bulk takes to be placed.
#[derive(Debug)]
pub struct SharedForest<P: Proof = ()>(Mutex<Forest<P>>);

impl<P: Proof> SharedForest<P> {
    /// Shares a forest.
    pub fn new(forest: Forest<P>) -> Self {
        SharedForest(Mutex::new(forest))
    }

    /// Places the documents of a bulk in their order, under one lock: nothing of another bulk comes in between. The
    /// iterator runs under the lock, so it should only hand out what is ready.
    pub fn place_all<'a>(
        &self,
        documents: impl IntoIterator<Item = (Sketch<'a, P>, Millis)>,
    ) -> Vec<Placement>
    where
        P: 'a,
    {
        let mut forest = self.0.lock();
        documents
            .into_iter()
            .map(|(sketch, now)| forest.place(&sketch, now))
            .collect()
    }

    /// Withdraws the placements whose items failed and answers how many nodes went.
    pub fn withdraw_all(&self, tickets: impl IntoIterator<Item = Ticket>) -> usize {
        let mut forest = self.0.lock();
        tickets
            .into_iter()
            .map(|ticket| forest.withdraw(ticket))
            .sum()
    }

    /// One background tick of [`Forest::expire`].
    pub fn expire(&self, now: Millis, budget: usize) -> usize {
        self.0.lock().expire(now, budget)
    }

    /// The forest itself, for placements that need more than an iterator. Nobody else gets at it until the guard goes.
    pub fn lock(&self) -> MutexGuard<'_, Forest<P>> {
        self.0.lock()
    }

    /// Reads the forest under the lock.
    pub fn read<R>(&self, read: impl FnOnce(&Forest<P>) -> R) -> R {
        read(&self.0.lock())
    }
}
