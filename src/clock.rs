//! The system clock, read at the edge only: pure modules get the time as an argument. It is the system's, but does not
//! follow a jump at once: a clock that shows next year for a second, while somebody mends it, must not make every
//! forest forget all that it holds, nor remember everything for a year.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::time::Millis;

/// A larger step than this, in milliseconds, is a jump: it is followed when the system's clock has shown it for
/// [`DOUBTED_FOR`].
pub(crate) const JUMP: u64 = 60_000;

/// How long a jump is doubted.
const DOUBTED_FOR: Duration = Duration::from_secs(600);

/// How far in the future a document's own date may be, in milliseconds: clocks and time zones are imprecise.
pub(crate) const SKEW: i64 = 24 * 3_600_000;

static CLOCK: Mutex<Clock> = Mutex::new(Clock::new(u64::MAX));

/// The time now.
pub(crate) fn now() -> Millis {
    #[cfg(feature = "simulation")]
    if let Some(system) = crate::system::current() {
        return system.now();
    }
    let system = system();
    CLOCK.lock().read(Instant::now(), system)
}

/// The time of the system clock.
#[expect(clippy::disallowed_methods, reason = "this is the edge that reads the clock")]
pub(crate) fn system() -> Millis {
    #[cfg(feature = "simulation")]
    if let Some(system) = crate::system::current() {
        return system.now();
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// From now on a jump of more than `most` milliseconds is followed only when it is [confirmed](confirm); one of less
/// than [`JUMP`], too.
pub(crate) fn doubt_jumps_of(most: u64) {
    CLOCK.lock().most = most;
}

/// Continues the time from `shown`, until the system clock is confirmed.
pub(crate) fn go_on_from(shown: Millis) {
    CLOCK.lock().go_on_from(Instant::now(), shown);
}

/// Whether [`now`] deviates from the system clock, which is not confirmed.
pub(crate) fn is_doubted() -> bool {
    let _ = now();
    CLOCK.lock().last.is_some_and(|last| last.doubted.is_some())
}

/// The system's clock is right.
pub(crate) fn confirm() {
    CLOCK.lock().last = None;
}

/// The latest credible date at a time.
pub(crate) fn latest_at(now: Millis) -> Millis {
    Millis(now.0.saturating_add(SKEW))
}

/// The last reading.
#[derive(Debug)]
pub(crate) struct Clock {
    last: Option<Reading>,
    /// A jump of more milliseconds is never followed without a confirmation.
    most: u64,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    shown: Millis,
    /// Since when the system's clock has been elsewhere.
    doubted: Option<Instant>,
}

impl Clock {
    pub(crate) const fn new(most: u64) -> Clock {
        Clock { last: None, most }
    }

    /// The credible time at an instant at which the system clock reads `system`.
    pub(crate) fn read(&mut self, at: Instant, system: Millis) -> Millis {
        let mut reading = Reading { at, shown: system, doubted: None };
        if let Some(last) = self.last {
            let passed = at.saturating_duration_since(last.at).as_millis();
            let expected = last.shown.0.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
            let jump = system.0.abs_diff(expected);
            if jump > JUMP.min(self.most) {
                let doubted = last.doubted.unwrap_or(at);
                if jump > self.most || at.saturating_duration_since(doubted) < DOUBTED_FOR {
                    reading.shown = Millis(expected);
                    reading.doubted = Some(doubted);
                }
            }
        }
        self.last = Some(reading);
        reading.shown
    }

    fn go_on_from(&mut self, at: Instant, shown: Millis) {
        self.last = Some(Reading { at, shown, doubted: Some(at) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_followed_when_it_has_lasted() {
        const YEAR: i64 = 365 * 86_400_000;
        for jump in [YEAR, -YEAR] {
            let start = Instant::now();
            let at = |seconds: u64| start + Duration::from_secs(seconds);
            let right = |seconds: i64| Millis(1_795_251_000_000 + seconds * 1_000);
            let wrong = |seconds: i64| Millis(right(seconds).0 + jump);
            let mut clock = Clock::new(u64::MAX);
            assert_eq!(clock.read(at(0), right(0)), right(0));
            // It is set a little, as it is all the time.
            assert_eq!(clock.read(at(10), right(11)), right(11));
            assert_eq!(clock.read(at(20), right(20)), right(20));
            // It jumps and comes back.
            assert_eq!(clock.read(at(30), wrong(30)), right(30));
            assert_eq!(clock.read(at(500), wrong(500)), right(500));
            assert_eq!(clock.read(at(600), right(600)), right(600));
            // It jumps and stays.
            assert_eq!(clock.read(at(700), wrong(700)), right(700));
            assert_eq!(clock.read(at(1_299), wrong(1_299)), right(1_299));
            assert_eq!(clock.read(at(1_300), wrong(1_300)), wrong(1_300));
            assert_eq!(clock.read(at(1_310), wrong(1_310)), wrong(1_310));
        }
    }

    /// Of a window of a day: a jump of more is not followed, however long it lasts.
    #[test]
    fn a_jump_over_a_window_waits_to_be_confirmed() {
        const DAY: i64 = 86_400_000;
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let right = |seconds: i64| Millis(1_795_251_000_000 + seconds * 1_000);
        for (jump, is_followed) in [(DAY, true), (DAY + 1, false), (-DAY, true), (-DAY - 1, false)] {
            let mut clock = Clock::new(DAY as u64);
            let wrong = |seconds: i64| Millis(right(seconds).0 + jump);
            assert_eq!(clock.read(at(0), right(0)), right(0));
            assert_eq!(clock.read(at(10), wrong(10)), right(10));
            let believed = if is_followed { wrong(700) } else { right(700) };
            assert_eq!(clock.read(at(700), wrong(700)), believed);
            // A start goes on from what is stored.
            let mut clock = Clock::new(DAY as u64);
            clock.go_on_from(at(0), right(0));
            assert_eq!(clock.read(at(10), wrong(10)), right(10));
            assert_eq!(clock.read(at(700), wrong(700)), believed);
            // And when it is mended it is believed at once.
            assert_eq!(clock.read(at(710), right(710)), if is_followed { wrong(710) } else { right(710) });
        }
    }
}
