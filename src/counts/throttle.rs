//! Limits of the time spent counting, and retries of failed work.

use std::time::Duration;

use tokio::time::Instant;

use super::error::{CountError, Failure};

/// Of twenty parts of the time, counting takes one at most.
pub(crate) const COUNTING: u32 = 20;

/// Of fifty parts of the time, the rolling reconcile takes one at most.
pub(crate) const ROLLING: u32 = 50;

/// Longest pause after a piece of work. Work is measured by the clock: in a slow cluster a request of ten seconds is
/// waiting, and counts do not get better by three minutes of rest.
pub(super) const LONGEST: Duration = Duration::from_secs(20);

/// Consecutive failures after which other work is tried first.
const HOPELESS: u32 = 3;
const PATIENT: u32 = 7;

/// How long to rest after work of this length, so that work is at most one of `parts` of the time, and never begins
/// more often than once in `least`; [`LONGEST`] at most.
pub(crate) fn rest_after(work: Duration, parts: u32, least: Duration) -> Duration {
    let rest = work.saturating_mul(parts.saturating_sub(1)).min(LONGEST);
    rest.max(least.saturating_sub(work))
}

/// The wait after this many consecutive failures: doubling, at most a minute.
pub(crate) fn backoff(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6)).min(Duration::from_secs(60))
}

/// Retries of one kind of work, with growing pauses; independent of all others.
#[derive(Debug)]
pub(super) struct RetrySchedule {
    failures: u32,
    next: Instant,
    trouble: Option<(Failure, String)>,
}

impl RetrySchedule {
    /// A schedule without failures: the first attempt is due.
    pub(super) fn new(now: Instant) -> RetrySchedule {
        RetrySchedule { failures: 0, next: now, trouble: None }
    }

    /// When the next one may be made.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Whether the next one may be made.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// The last one was a success.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.trouble = None;
    }

    /// The last one was none.
    pub(super) fn failed(&mut self, now: Instant, error: &CountError) {
        self.next = now + backoff(self.failures);
        self.failures = self.failures.saturating_add(1);
        // A missing index was deleted, which is no failure.
        let kind = Some(error.kind()).filter(|&kind| kind != Failure::Missing);
        self.trouble = kind.map(|kind| (kind, error.to_string()));
    }

    /// Whether it keeps failing, not only because the cluster is away for a moment.
    pub(super) fn is_hopeless(&self, kind: Failure) -> bool {
        self.failures >= if kind == Failure::Away { PATIENT } else { HOPELESS }
    }

    /// No next one before this.
    pub(super) fn not_before(&mut self, instant: Instant) {
        self.next = self.next.max(instant);
    }

    /// The last failure, if it is to be reported to operators.
    pub(super) fn trouble(&self) -> Option<&(Failure, String)> {
        self.trouble.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rests_are_as_long_as_they_must_be() {
        let millis = Duration::from_millis;
        assert_eq!(rest_after(millis(200), COUNTING, millis(0)), millis(3800));
        assert_eq!(rest_after(millis(4), ROLLING, millis(250)), millis(246));
        assert_eq!(rest_after(millis(10), ROLLING, millis(250)), millis(490));
        assert_eq!(rest_after(Duration::MAX, COUNTING, millis(1)), LONGEST);
        let waits: Vec<u64> = (0..8).map(|failures| backoff(failures).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn what_fails_is_left_alone_for_longer_each_time() {
        let refused = |status: u64| CountError::Entry { status, reason: "no".into() };
        let start = Instant::now();
        let mut attempts = RetrySchedule::new(start);
        let mut now = start;
        for (nth, waits) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
            assert!(attempts.is_due(now));
            attempts.failed(now, &refused(503));
            assert_eq!(attempts.trouble().unwrap().0, Failure::Away);
            assert_eq!(attempts.is_hopeless(Failure::Other), nth >= 2, "{nth}");
            assert_eq!(attempts.is_hopeless(Failure::Away), nth >= 6, "{nth}");
            now += Duration::from_secs(waits);
            assert!(!attempts.is_due(now - Duration::from_millis(1)));
        }
        attempts.succeeded();
        assert!(attempts.trouble().is_none() && !attempts.is_hopeless(Failure::Other));
        // A deleted index is no failure, and is not retried at once.
        let gone = CountError::Cluster(crate::cluster::operator::OperatorError::Refused {
            status: 404,
            request: "GET /".into(),
            answer: String::new(),
        });
        attempts.failed(now, &gone);
        assert!(attempts.trouble().is_none() && !attempts.is_due(now));
    }

    proptest! {
        #[test]
        fn work_is_never_more_than_its_part(
            works in prop::collection::vec(0_u64..10_000_000, 1..50),
            parts in prop::sample::select(vec![COUNTING, ROLLING]),
        ) {
            let (mut worked, mut all) = (Duration::ZERO, Duration::ZERO);
            for micros in works {
                let work = Duration::from_micros(micros);
                let least = Duration::from_millis(250);
                let rest = rest_after(work, parts, least);
                prop_assert!(rest <= LONGEST && work + rest >= least);
                if rest < LONGEST {
                    worked += work;
                    all += work + rest;
                }
            }
            prop_assert!(worked * parts <= all);
        }
    }
}
