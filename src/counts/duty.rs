//! How much of the time counting may take.

use std::time::Duration;

/// Of twenty parts of the time, counting takes one at most.
pub(super) const COUNTING: u32 = 20;

/// Of fifty parts of the time, the rolling reconcile takes one at most.
pub(super) const ROLLING: u32 = 50;

/// No rest is longer. Work is measured by the clock: in a cluster that lets everybody wait, a request of ten seconds is one of
/// waiting, and nobody's numbers become true by three minutes of rest.
pub(super) const LONGEST: Duration = Duration::from_secs(20);

/// How long to rest after work of this length, so that work is at most one of `parts` of the time, and never begins more
/// often than once in `least`; [`LONGEST`] at most.
pub(super) fn rest_after(work: Duration, parts: u32, least: Duration) -> Duration {
    let rest = work.saturating_mul(parts.saturating_sub(1)).min(LONGEST);
    rest.max(least.saturating_sub(work))
}

/// How long to wait after so many failures in a row: twice as long each time, a minute at most.
pub(super) fn backoff(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6)).min(Duration::from_secs(60))
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
