//! Retries of requests that fail for the moment.

use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_pause_is_twice_as_long() {
        let begun = tokio::time::Instant::now();
        let mut backoff = Backoff::new(4);
        let mut attempts = 1;
        while backoff.wait().await {
            attempts += 1;
        }
        assert_eq!((attempts, begun.elapsed()), (4, FIRST_PAUSE * 7));
        assert!(!Backoff::new(1).wait().await);
    }
}
