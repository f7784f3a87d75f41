//! A graceful stop: what is in flight ends, what is new is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;

/// Counts the requests in flight and knows whether the process is stopping.
#[derive(Debug, Default)]
pub struct Flight {
    stopping: AtomicBool,
    requests: AtomicUsize,
    landed: Notify,
}

/// One request in flight; it ends when this is dropped.
#[derive(Debug)]
pub struct Passenger(Arc<Flight>);

impl Flight {
    /// Takes a request in, or `None` when the process is stopping.
    pub fn board(self: &Arc<Self>) -> Option<Passenger> {
        // Counted first and checked second: a stop that begins in between waits for this request.
        self.requests.fetch_add(1, SeqCst);
        let passenger = Passenger(self.clone());
        if self.stopping() {
            None
        } else {
            Some(passenger)
        }
    }

    pub fn stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    pub fn in_flight(&self) -> usize {
        self.requests.load(SeqCst)
    }

    /// Refuses new requests from now on and waits until all have ended, `grace` at most. Returns how many had not.
    pub async fn land(&self, grace: Duration) -> usize {
        self.stopping.store(true, SeqCst);
        let all_down = async {
            loop {
                let landed = self.landed.notified();
                tokio::pin!(landed);
                landed.as_mut().enable();
                if self.in_flight() == 0 {
                    return;
                }
                landed.await;
            }
        };
        let _ = tokio::time::timeout(grace, all_down).await;
        self.in_flight()
    }
}

impl Drop for Passenger {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, SeqCst) == 1 {
            self.0.landed.notify_waiters();
        }
    }
}

/// Waits for SIGTERM or SIGINT (Ctrl-C elsewhere than on Unix) and says which it was.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub async fn signal() -> std::io::Result<&'static str> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut term, mut int) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        Ok(tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = int.recv() => "SIGINT",
        })
    }
    #[cfg(not(unix))]
    {
        tokio::signal::ctrl_c().await?;
        Ok("Ctrl-C")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_what_is_in_flight() {
        let flight = Arc::new(Flight::default());
        let passenger = flight.board().unwrap();
        let landing = tokio::spawn({
            let flight = flight.clone();
            async move { flight.land(Duration::from_secs(30)).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(flight.board().is_none());
        assert!(!landing.is_finished());
        drop(passenger);
        assert_eq!(landing.await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_does_not_wait_for_ever() {
        let flight = Arc::new(Flight::default());
        let _stuck = flight.board().unwrap();
        assert_eq!(flight.land(Duration::from_secs(30)).await, 1);
    }
}
