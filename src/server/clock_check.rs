//! The clock check: it suspends a clock that would expire a whole forest.
//!
//! Such a clock is not used before the cluster's clock agrees with it. Nodes expire by the clock of this machine, and
//! a forest's clock never goes back: a start with a clock that is years ahead would expire all nodes at once and for
//! good. So it would in a forest with the clock of a date field, because dates are accepted up to the machine's clock.
//! Redis keeps nodes of shared forests until a moment by its own clock: a machine's clock that is a window behind would
//! store nodes that have expired already.
//!
//! The cluster is asked for its time if the machine's clock is more than a window ahead of the latest stored arrival or
//! of the clock of Redis, or is behind one of them, and if it jumps that far while spinney runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::clock::{self, JUMP};
use crate::cluster::operator::Operator;
use crate::config::Clock;
use crate::engine::{Engine, RecoverySource};
use crate::time::Millis;

/// Window assumed for a forest without one: a larger jump of the clock is an error.
const NO_WINDOW: Millis = Millis(30 * 24 * 3_600_000);
/// The first and the longest pause between two requests for the cluster's time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Checks the clock before anything is placed or expires; the returned future continues the check while spinney runs.
pub(crate) async fn begin(
    engine: &Arc<Engine>,
    sources: &[RecoverySource],
    service: Operator,
) -> impl Future<Output = ()> + use<> {
    let window = sources.iter().map(|source| source.window.unwrap_or(NO_WINDOW)).min().unwrap_or(NO_WINDOW);
    clock::doubt_jumps_of(window.0.unsigned_abs());
    let seen: Vec<_> = sources.iter().map(|source| (&source.clock, source.seen)).collect();
    if let Some((seen, lead)) = latest_seen(&seen) {
        compare_with(seen, lead, window);
    }
    let mut shared = RedisClockCheck { engine: engine.clone(), window, is_compared: false };
    shared.compare().await;
    watch(service, shared)
}

/// The latest time that the forests have seen, and its lead: how far it may be ahead of this machine's clock. Arrivals
/// were read from a clock and take precedence; dates are claims of documents, perhaps of an archive, and count only
/// without any arrival.
fn latest_seen(forests: &[(&Clock, Option<Millis>)]) -> Option<(Millis, i64)> {
    let latest = |is_counted: fn(&Clock) -> bool| {
        forests.iter().filter(|(clock, _)| is_counted(clock)).filter_map(|&(_, seen)| seen).max()
    };
    let arrival = latest(|clock| *clock == Clock::Arrival).map(|seen| (seen, 0));
    arrival.or_else(|| latest(|clock| matches!(clock, Clock::Field(_))).map(|seen| (seen, clock::SKEW)))
}

/// Continues the time from `seen` if the clock of this machine is doubtful.
fn compare_with(seen: Millis, lead: i64, window: Millis) {
    if is_doubtful(clock::system(), seen, lead, window) {
        clock::go_on_from(seen);
    }
}

/// The comparison with the clock of Redis, by which nodes of shared forests expire.
struct RedisClockCheck {
    engine: Arc<Engine>,
    window: Millis,
    is_compared: bool,
}

impl RedisClockCheck {
    /// Compares this machine's clock with that of Redis, once. While Redis is away it does nothing, and the next call
    /// tries again.
    async fn compare(&mut self) {
        if self.is_compared {
            return;
        }
        if let Ok(shown) = self.engine.forests().redis_time().await {
            self.is_compared = true;
            if let Some(shown) = shown {
                compare_with(shown, 0, self.window);
            }
        }
    }
}

/// Whether `now` would expire a whole forest whose latest time is `seen`, or is too far behind `seen`.
fn is_doubtful(now: Millis, seen: Millis, lead: i64, window: Millis) -> bool {
    let ahead = now.0.saturating_sub(seen.0);
    ahead > window.0 || ahead < -lead.saturating_add(i64::try_from(JUMP).unwrap_or(i64::MAX))
}

/// Asks the cluster for its time whenever this machine's clock is doubted.
async fn watch(service: Operator, mut shared: RedisClockCheck) {
    let (mut pause, mut logged) = (FIRST_PAUSE, None);
    loop {
        shared.compare().await;
        if !clock::is_doubted() {
            (pause, logged) = (FIRST_PAUSE, None);
            tokio::time::sleep_until(Instant::now() + FIRST_PAUSE).await;
            continue;
        }
        let found = compare(&service).await;
        match found {
            ClockComparison::Agrees => {
                clock::confirm();
                info!("the clock of this machine agrees with the cluster's, and is believed");
                continue;
            }
            _ if logged == Some(found) => {}
            ClockComparison::Differs => error!(
                "the clock of this machine is not believed: it is far from the latest arrival that is stored, or from \
                 the clock of Redis, or has jumped, and the cluster's clock shows another time. Time goes on from \
                 there until the two agree, and nothing expires by this clock: run an NTP client on both"
            ),
            ClockComparison::Unknown => warn!(
                "the clock of this machine is not believed before the cluster's has been asked: it is far from the \
                 latest arrival that is stored, or from the clock of Redis, or has jumped. Time goes on from there \
                 until GET /_cat/health is answered, for which the user of --service-url needs \
                 cluster:monitor/health. If the clock is right, all that is stored is older than the window, and the \
                 data directory may as well be moved away"
            ),
        }
        logged = Some(found);
        tokio::time::sleep_until(Instant::now() + pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Result of comparing this machine's clock with the cluster's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockComparison {
    Agrees,
    Differs,
    Unknown,
}

async fn compare(service: &Operator) -> ClockComparison {
    match service.epoch().await {
        Some(epoch) if clock::system().0.abs_diff(epoch.0) <= JUMP => ClockComparison::Agrees,
        Some(_) => ClockComparison::Differs,
        None => ClockComparison::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_believed_before_dates() {
        let (arrival, none, date) = (Clock::Arrival, Clock::None, Clock::Field("published".into()));
        let at = |millis| Some(Millis(millis));
        for (forests, expected) in [
            (vec![(&arrival, at(5)), (&arrival, at(7)), (&date, at(3))], Some((Millis(7), 0))),
            (vec![(&date, at(9)), (&arrival, at(5))], Some((Millis(5), 0))),
            (vec![(&arrival, None), (&date, at(3)), (&date, at(4))], Some((Millis(4), clock::SKEW))),
            (vec![(&none, at(9)), (&arrival, None)], None),
            (vec![], None),
        ] {
            assert_eq!(latest_seen(&forests), expected, "{forests:?}");
        }
    }

    #[test]
    fn a_clock_is_doubted_that_would_empty_a_forest() {
        let seen = Millis(1_795_251_000_000);
        let window = Millis(86_400_000);
        for lead in [0, clock::SKEW] {
            for (ahead, doubtful) in [
                (0, false),
                (window.0, false),
                (window.0 + 1, true),
                (10 * 365 * window.0, true),
                (-60_000 - lead, false),
                (-60_001 - lead, true),
                (i64::MIN, true),
            ] {
                let now = Millis(seen.0.saturating_add(ahead));
                assert_eq!(is_doubtful(now, seen, lead, window), doubtful, "{ahead} of {lead}");
            }
        }
    }
}
