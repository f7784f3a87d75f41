//! Outlier detection: when a node is passed over, and when it is back.
//!
//! ```text
//!             FAILURES in a row, no connection, or a probe without an answer
//!   in use  ---------------------------------------------------------------->  ejected for FIRST_EJECTION,
//!      ^                                                                        twice as long each time,
//!      |   an answer to the probe that follows, or to any request               MAX_EJECTION at most
//!      +----------------------------------------------------------------------------+
//! ```
//!
//! This is the failure accrual of Linkerd, and the consecutive failures of local origin of Envoy's outlier detection.
//! An answer is a success, whatever its status, since the node speaks. 502, 503 and 504 are neither success nor
//! failure: they may speak of the whole cluster (a block, a shard that is away), which ejecting one node does not help,
//! or of a node that is dead behind a load balancer. Ejections have no jitter: what ends one is a single HEAD.

use std::time::Duration;

use hyper::StatusCode;

/// Failures in a row that eject a node to which connections can be made. Each may have cost a client a write, while a
/// single one may be a connection that something on the way has closed.
const FAILURES: u32 = 3;

/// The first ejection of a node.
pub(super) const FIRST_EJECTION: Duration = Duration::from_secs(5);

/// The longest ejection.
const MAX_EJECTION: Duration = Duration::from_secs(60);

/// The health of a node. Times are since the start of the client.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Health {
    /// In a row.
    failures: u32,
    /// Ejections since the last response to a request.
    ejections: u32,
    /// When a probe may end the ejection.
    ejected_until: Option<Duration>,
    is_probed: bool,
}

/// Whether a status shows that the node is healthy. See above.
pub(super) fn is_answer(status: StatusCode) -> bool {
    !matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

impl Health {
    /// Whether it is passed over while another node is not.
    pub(super) fn is_ejected(&self) -> bool {
        self.ejected_until.is_some()
    }

    /// A request was answered.
    pub(super) fn answered(&mut self) {
        *self = Health::default();
    }

    /// A request was not answered: its connection broke, or its time was up.
    pub(super) fn failed(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            self.unreachable(now);
        }
    }

    /// No connection could be made. Only a probe prolongs an ejection: of requests, many may fail for one reason.
    pub(super) fn unreachable(&mut self, now: Duration) {
        if !self.is_ejected() {
            self.eject(now);
        }
    }

    /// Whether the ejection time has elapsed, so that the caller probes the node.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        self.ejected_until.is_some_and(|until| until <= now) && !std::mem::replace(&mut self.is_probed, true)
    }

    /// Whether a node in use that keeps a request waiting is to be probed by the caller.
    pub(super) fn is_doubtful(&mut self) -> bool {
        !self.is_ejected() && !std::mem::replace(&mut self.is_probed, true)
    }

    /// The end of a probe. It counts for nothing if requests were answered meanwhile.
    pub(super) fn probed(&mut self, answered: bool, now: Duration) {
        if !std::mem::take(&mut self.is_probed) {
            return;
        }
        match answered {
            false => self.eject(now),
            true if self.is_ejected() => {
                self.ejected_until = None;
                // What a HEAD gets through may fail with writes: one more failure is enough.
                self.failures = FAILURES - 1;
            }
            true => {}
        }
    }

    fn eject(&mut self, now: Duration) {
        let doubled = 2_u32.saturating_pow(self.ejections);
        self.ejections = self.ejections.saturating_add(1);
        self.ejected_until = Some(now + FIRST_EJECTION.saturating_mul(doubled).min(MAX_EJECTION));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;
    const TICK: Duration = Duration::from_millis(1);

    fn failed(times: u32) -> Health {
        let mut health = Health::default();
        (0..times).for_each(|_| health.failed(START));
        health
    }

    #[test]
    fn failures_in_a_row_eject() {
        assert!(!failed(FAILURES - 1).is_ejected());
        assert!(failed(FAILURES).is_ejected());
        assert!(failed(FAILURES + 1).is_ejected());
        let mut interrupted = failed(FAILURES - 1);
        interrupted.answered();
        interrupted.failed(START);
        assert!(!interrupted.is_ejected());
    }

    #[test]
    fn a_node_without_connections_is_ejected_at_once() {
        let mut health = Health::default();
        health.unreachable(START);
        assert!(health.is_ejected());
    }

    #[test]
    fn one_probe_is_due_when_the_time_is_up() {
        let mut health = failed(FAILURES);
        assert!(!health.is_due(FIRST_EJECTION - TICK));
        assert!(health.is_due(FIRST_EJECTION));
        assert!(!health.is_due(FIRST_EJECTION + TICK), "it is being made");
        assert!(health.is_ejected(), "until it is answered");
        health.probed(true, FIRST_EJECTION);
        assert!(!health.is_ejected());
    }

    #[test]
    fn ejections_become_longer_up_to_a_limit() {
        let mut health = failed(FAILURES);
        let (mut now, mut longest) = (START, START);
        for n in 0..40 {
            let expected = FIRST_EJECTION.saturating_mul(2_u32.saturating_pow(n)).min(MAX_EJECTION);
            assert!(!health.is_due(now + expected - TICK), "{n}");
            now += expected;
            assert!(health.is_due(now), "{n}");
            health.probed(false, now);
            longest = longest.max(expected);
        }
        assert_eq!(longest, MAX_EJECTION);
        assert!(FIRST_EJECTION < MAX_EJECTION);
    }

    #[test]
    fn requests_that_fail_do_not_prolong_an_ejection() {
        let mut health = failed(FAILURES);
        for _ in 0..FAILURES {
            health.failed(FIRST_EJECTION - TICK);
            health.unreachable(FIRST_EJECTION - TICK);
        }
        assert!(health.is_due(FIRST_EJECTION));
    }

    #[test]
    fn a_node_back_from_an_ejection_has_one_failure_left() {
        let mut health = failed(FAILURES);
        assert!(health.is_due(FIRST_EJECTION));
        health.probed(true, FIRST_EJECTION);
        health.failed(FIRST_EJECTION);
        assert!(health.is_ejected());
        assert!(!health.is_due(FIRST_EJECTION * 3 - TICK), "twice as long");
        assert!(health.is_due(FIRST_EJECTION * 3));
        health.answered();
        assert_eq!(health, Health::default());
    }

    #[test]
    fn a_doubtful_node_is_probed_once_at_a_time() {
        let mut health = Health::default();
        assert!(health.is_doubtful());
        assert!(!health.is_doubtful(), "it is being made");
        health.probed(true, START);
        assert_eq!(health, Health::default());
        assert!(health.is_doubtful());
        health.probed(false, START);
        assert!(health.is_ejected());
        assert!(!health.is_doubtful(), "its time is not up");
        // A request that is answered says more than a probe that is not.
        let mut health = Health::default();
        assert!(health.is_doubtful());
        health.answered();
        health.probed(false, START);
        assert!(!health.is_ejected());
    }

    #[test]
    fn which_answers_say_that_a_node_is_well() {
        let silent: Vec<u16> = (100..600).filter(|&code| !is_answer(StatusCode::from_u16(code).unwrap())).collect();
        assert_eq!(silent, [502, 503, 504]);
    }
}
