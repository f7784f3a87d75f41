//! The process' budget of bytes in flight, with a limited share for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::error::ProxyError;

/// Largest body a cluster accepts by default (`http.max_content_length`).
const LARGEST_BODY: usize = 100 << 20;

/// The budget of bytes of write requests in memory. Totals are atomics; the lock protects the shares of clients.
#[derive(Debug)]
pub(crate) struct Budget {
    capacity: AtomicUsize,
    used: AtomicUsize,
    /// Percentage for one client, if that admits a body as large as the cluster accepts.
    percent: AtomicU8,
    /// The largest body: a client may hold one even if its share is smaller.
    largest_body: AtomicUsize,
    /// Bytes held, by client.
    clients: Mutex<HashMap<IpAddr, Arc<AtomicUsize>>>,
}

/// Bytes taken from a [`Budget`] for one request; they go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    client: IpAddr,
    held_by_client: Arc<AtomicUsize>,
    bytes: usize,
    /// What could be held, in total and by one client, when its request began: what was legal then may come later.
    could: (usize, usize),
}

impl Budget {
    /// An unused budget; `percent`: the share of each client.
    pub(crate) fn new(capacity: usize, percent: u8) -> Arc<Budget> {
        Arc::new(Budget {
            capacity: AtomicUsize::new(capacity),
            used: AtomicUsize::new(0),
            percent: AtomicU8::new(percent),
            largest_body: AtomicUsize::new(LARGEST_BODY),
            clients: Mutex::default(),
        })
    }

    /// Sets both from now on; what is held stays.
    pub(crate) fn resize(&self, capacity: usize, percent: u8) {
        self.capacity.store(capacity, Relaxed);
        self.percent.store(percent, Relaxed);
    }

    /// Bytes that may be used.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Relaxed)
    }

    /// Bytes that are used.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Sets the largest body that the cluster accepts.
    pub(crate) fn expect_bodies_of(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.largest_body.store(bytes, Relaxed);
    }

    /// An empty reservation, which grows as a body arrives.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Reservation {
        Reservation {
            budget: self.clone(),
            client,
            held_by_client: self.clients.lock().entry(client).or_default().clone(),
            bytes: 0,
            could: (self.capacity(), self.allowed()),
        }
    }

    /// Bytes that one client may hold of bodies that are still arriving.
    fn allowed(&self) -> usize {
        let (capacity, percent) = (self.capacity(), usize::from(self.percent.load(Relaxed)));
        // In this order: a budget need not be a hundredfold to be shared, and must not overflow.
        let share = capacity / 100 * percent + capacity % 100 * percent / 100;
        share.max(self.largest_body.load(Relaxed)).min(capacity)
    }

    /// Whether a body of this size can be held at all.
    ///
    /// # Errors
    /// [`ProxyError::LargerThanBudget`], [`ProxyError::LargerThanShare`].
    pub(crate) fn could_hold(&self, wanted: usize) -> Result<(), ProxyError> {
        Self::could_hold_in((self.capacity(), self.allowed()), wanted)
    }

    fn could_hold_in((budget, allowed): (usize, usize), wanted: usize) -> Result<(), ProxyError> {
        if wanted > budget {
            return Err(ProxyError::LargerThanBudget { wanted, budget });
        }
        if wanted > allowed {
            return Err(ProxyError::LargerThanShare { wanted, allowed });
        }
        Ok(())
    }
}

impl Reservation {
    /// Makes the reservation at least `bytes` large, for a body that is still coming. Never waits: the client knows
    /// best when to come back, and two that wait for each other's bytes would wait for ever.
    ///
    /// # Errors
    /// When it can never fit ([`Budget::could_hold`]), or does not fit now: [`ProxyError::OverShare`],
    /// [`ProxyError::OverBudget`]. The reservation stays as it was.
    pub(crate) fn receive(&mut self, bytes: usize) -> Result<(), ProxyError> {
        Budget::could_hold_in(self.could(), bytes)?;
        self.take(bytes, false)
    }

    /// Grows a reservation for a request that has arrived completely. Stamping is short, so the only request of a
    /// client may use all that is free.
    ///
    /// # Errors
    /// As [`Reservation::receive`].
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), ProxyError> {
        let (budget, _) = self.could();
        if bytes > budget {
            return Err(ProxyError::LargerThanBudget { wanted: bytes, budget });
        }
        self.take(bytes, true)
    }

    fn could(&self) -> (usize, usize) {
        let (budget, allowed) = self.could;
        (budget.max(self.budget.capacity()), allowed.max(self.budget.allowed()))
    }

    fn take(&mut self, bytes: usize, whole: bool) -> Result<(), ProxyError> {
        let wanted = bytes.saturating_sub(self.bytes);
        let (budget, allowed) = (self.budget.capacity(), self.budget.allowed());
        let is_allowed = |held: usize| {
            let sum = held.checked_add(wanted)?;
            let is_only_one = held == self.bytes;
            (sum <= allowed || whole && is_only_one).then_some(sum)
        };
        if let Err(used) = self.held_by_client.fetch_update(Relaxed, Relaxed, is_allowed) {
            return Err(ProxyError::OverShare { used, allowed, wanted });
        }
        let fits = |used: usize| used.checked_add(wanted).filter(|&sum| sum <= budget);
        match self.budget.used.fetch_update(Relaxed, Relaxed, fits) {
            Ok(_) => {
                self.bytes += wanted;
                Ok(())
            }
            Err(used) => {
                self.held_by_client.fetch_sub(wanted, Relaxed);
                Err(ProxyError::OverBudget { used, budget, wanted })
            }
        }
    }

    /// How large it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
        self.held_by_client.fetch_sub(self.bytes, Relaxed);
        let mut clients = self.budget.clients.lock();
        // Two references are the map's and this one; others are created under the lock.
        if Arc::strong_count(&self.held_by_client) == 2 {
            clients.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    /// A budget whose share counts also where it is small.
    fn budget(capacity: usize, percent: u8) -> Arc<Budget> {
        let budget = Budget::new(capacity, percent);
        budget.expect_bodies_of(1);
        budget
    }

    fn reserve(budget: &Arc<Budget>, client: IpAddr, bytes: usize) -> Result<Reservation, ProxyError> {
        let mut reservation = budget.enter(client);
        reservation.receive(bytes)?;
        Ok(reservation)
    }

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100, 50);
        let mut first = reserve(&budget, A, 60).unwrap();
        assert!(matches!(reserve(&budget, B, 41), Err(ProxyError::OverBudget { used: 60, wanted: 41, .. })));
        assert!(matches!(reserve(&budget, B, 101), Err(ProxyError::LargerThanBudget { .. })));
        assert!(first.grow_to(101).is_err());
        first.grow_to(100).unwrap();
        first.grow_to(50).unwrap();
        assert_eq!((budget.used(), first.bytes()), (100, 100));
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(budget.clients.lock().is_empty());
    }

    /// A body that was legal when it began can be sent again, and so it is not called too large.
    #[test]
    fn a_budget_that_shrinks() {
        let budget = budget(1000, 100);
        let mut held = reserve(&budget, A, 500).unwrap();
        budget.resize(400, 50);
        assert!(matches!(held.receive(600), Err(ProxyError::OverShare { .. } | ProxyError::OverBudget { .. })));
        assert!(matches!(held.grow_to(700), Err(ProxyError::OverShare { .. } | ProxyError::OverBudget { .. })));
        assert!(matches!(reserve(&budget, B, 401), Err(ProxyError::LargerThanBudget { budget: 400, .. })));
        assert!(matches!(reserve(&budget, B, 1), Err(ProxyError::OverBudget { .. })));
        drop(held);
        drop(reserve(&budget, B, 200).unwrap());
        budget.resize(2000, 100);
        assert!(reserve(&budget, B, 2000).is_ok() && budget.used() == 0);
    }

    #[test]
    fn a_client_holds_no_more_than_its_share() {
        let budget = budget(1000, 50);
        let mut first = reserve(&budget, A, 300).unwrap();
        assert!(matches!(
            reserve(&budget, A, 201),
            Err(ProxyError::OverShare { used: 300, allowed: 500, wanted: 201 })
        ));
        // What was refused is not held, and another client has a share of its own.
        let second = reserve(&budget, A, 200).unwrap();
        let other = reserve(&budget, B, 500).unwrap();
        assert!(first.receive(301).is_err());
        assert!(matches!(reserve(&budget, B, 1), Err(ProxyError::OverShare { .. })));
        drop((second, other));
        first.receive(500).unwrap();
        assert!(matches!(first.receive(501), Err(ProxyError::LargerThanShare { wanted: 501, allowed: 500 })));
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(budget.clients.lock().is_empty());
    }

    #[test]
    fn one_body_as_large_as_the_cluster_takes_is_always_allowed() {
        let budget = Budget::new(LARGEST_BODY + 1000, 10);
        drop(reserve(&budget, A, LARGEST_BODY).unwrap());
        assert!(reserve(&budget, A, LARGEST_BODY + 1).is_err());
        budget.expect_bodies_of(u64::MAX);
        drop(reserve(&budget, A, LARGEST_BODY + 1000).unwrap());
        assert!(matches!(reserve(&budget, A, LARGEST_BODY + 1001), Err(ProxyError::LargerThanBudget { .. })));
    }

    #[test]
    fn the_only_request_of_a_client_is_stamped_in_all_that_there_is() {
        let budget = budget(1000, 50);
        let mut whole = reserve(&budget, A, 400).unwrap();
        let second = reserve(&budget, A, 1).unwrap();
        assert!(matches!(whole.grow_to(600), Err(ProxyError::OverShare { .. })));
        drop(second);
        whole.grow_to(600).unwrap();
        let other = reserve(&budget, B, 300).unwrap();
        assert!(matches!(whole.grow_to(701), Err(ProxyError::OverBudget { .. })));
        drop(other);
        whole.grow_to(1000).unwrap();
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let budget = budget(1000, 40);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, thread % 3));
                let budget = &budget;
                scope.spawn(move || {
                    for n in 1..2000 {
                        let taken = reserve(budget, client, n % 400);
                        assert!(budget.used() <= 1000);
                        drop(taken);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
        assert!(budget.clients.lock().is_empty());
    }
}
