//! One budget of bytes in flight for the whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::error::ProxyError;

/// How many bytes of write requests are held, and how many may be. Lock-free: one counter.
#[derive(Debug)]
pub(crate) struct Budget {
    capacity: usize,
    used: AtomicUsize,
}

/// Bytes taken from a [`Budget`]; they go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of which nothing is used.
    pub(crate) fn new(capacity: usize) -> Arc<Budget> {
        Arc::new(Budget {
            capacity,
            used: AtomicUsize::new(0),
        })
    }

    /// Bytes that may be used.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that are used.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Takes `bytes`, or says why they cannot be had. Never waits: the client knows best when to come back.
    ///
    /// # Errors
    /// [`ProxyError::LargerThanBudget`] when it can never fit, [`ProxyError::OverBudget`] when it does not fit now.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, ProxyError> {
        let mut reservation = Reservation {
            budget: self.clone(),
            bytes: 0,
        };
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }
}

impl Reservation {
    /// Makes the reservation at least `bytes` large.
    ///
    /// # Errors
    /// As [`Budget::reserve`]; the reservation stays as it was.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), ProxyError> {
        let more = bytes.saturating_sub(self.bytes);
        let budget = self.budget.capacity;
        if bytes > budget {
            return Err(ProxyError::LargerThanBudget {
                wanted: bytes,
                budget,
            });
        }
        let fits = |used: usize| used.checked_add(more).filter(|&sum| sum <= budget);
        match self.budget.used.fetch_update(Relaxed, Relaxed, fits) {
            Ok(_) => {
                self.bytes += more;
                Ok(())
            }
            Err(used) => Err(ProxyError::OverBudget {
                used,
                budget,
                wanted: more,
            }),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(60).unwrap();
        assert!(matches!(
            budget.reserve(41),
            Err(ProxyError::OverBudget {
                used: 60,
                wanted: 41,
                ..
            })
        ));
        assert!(matches!(
            budget.reserve(101),
            Err(ProxyError::LargerThanBudget { .. })
        ));
        assert!(first.grow_to(101).is_err());
        first.grow_to(100).unwrap();
        first.grow_to(50).unwrap();
        assert_eq!(budget.used(), 100);
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 1..2000 {
                        let taken = budget.reserve(n % 400);
                        assert!(budget.used() <= 1000);
                        drop(taken);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
