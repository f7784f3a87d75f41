//! When the next request is due: after one that failed for the moment ([`Backoff`]), and at a wanted rate ([`Pace`]).

use std::time::Duration;

use tokio::time::Instant;

/// The pause before the second attempt.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Most attempts at a request: together more than a minute.
pub(crate) const ATTEMPTS: u32 = 9;

/// Pauses between the attempts of one request; each is twice as long as the one before.
#[derive(Debug)]
pub(crate) struct Backoff {
    pause: Duration,
    left: u32,
}

impl Backoff {
    /// A backoff of this many attempts, including the first.
    pub(crate) fn new(attempts: u32) -> Backoff {
        Backoff { pause: FIRST_PAUSE, left: attempts.saturating_sub(1) }
    }

    /// Waits until the next attempt is due. False at once, if the last attempt was made.
    #[expect(clippy::disallowed_methods, reason = "a busy cluster is not asked again at once")]
    pub(crate) async fn wait(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.pause).await;
        self.pause *= 2;
        true
    }
}

/// A number of documents a second, on average from the beginning on, that is not exceeded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    begun: Instant,
    rate: Option<u32>,
}

impl Pace {
    /// Begins now. `rate`: documents a second; `None`: as many as go.
    pub(crate) fn new(rate: Option<u32>) -> Pace {
        Pace { begun: Instant::now(), rate }
    }

    /// Waits until so many documents may be done.
    pub(crate) async fn wait(&self, done: u64) {
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(done as f64 / f64::from(rate.max(1)));
            tokio::time::sleep_until(self.begun + due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pace_counts_from_the_beginning() {
        let (begun, pace) = (Instant::now(), Pace::new(Some(100)));
        pace.wait(50).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(500));
        tokio::time::advance(Duration::from_secs(2)).await;
        pace.wait(200).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(2_500), "there is nothing to wait for");
        Pace::new(None).wait(u64::MAX).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(2_500));
    }

    #[tokio::test(start_paused = true)]
    async fn every_pause_is_twice_as_long() {
        let begun = Instant::now();
        let mut backoff = Backoff::new(4);
        let mut attempts = 1;
        while backoff.wait().await {
            attempts += 1;
        }
        assert_eq!((attempts, begun.elapsed()), (4, FIRST_PAUSE * 7));
        assert!(!Backoff::new(1).wait().await);
    }
}
