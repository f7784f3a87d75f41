//! What the process did lately: a sample every few seconds, for an hour. For people who look at the page; whoever wants more
//! collects the metrics.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::RwLock;

use crate::forest::ForestStats;
use crate::telemetry::Counters;
use crate::time::Millis;

/// Between two samples.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// The most samples: an hour.
const MOST: usize = 361;

/// Counters and sizes at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HistorySample {
    /// When it was taken, in milliseconds since 1970.
    pub at: i64,
    /// Documents stamped since the start.
    pub stamped: u64,
    /// Of them, those that joined a tree that was there.
    pub joined: u64,
    /// Trees of all forests.
    pub roots: u64,
    /// Memory of all forests, in bytes.
    pub memory: u64,
    /// How long the first write that groups are not counted for has waited, in milliseconds; `None`: nobody counts.
    pub lag: Option<u64>,
}

impl HistorySample {
    /// A sample of now. `lag`: of counting, if it is on.
    pub(crate) fn of(
        now: Millis,
        counters: &Counters,
        forests: &[(String, ForestStats)],
        lag: Option<Duration>,
    ) -> HistorySample {
        let sum =
            |of: fn(&ForestStats) -> usize| forests.iter().map(|(_, stats)| of(stats) as u64).sum();
        HistorySample {
            at: now.0,
            stamped: counters.documents_stamped.get(),
            joined: counters.documents_joined.get(),
            roots: sum(|stats| stats.roots),
            memory: sum(|stats| stats.memory_bytes),
            lag: lag.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// The last samples, oldest first. Written by one task, read by whoever opens the overview.
#[derive(Debug, Default)]
pub(crate) struct History(RwLock<VecDeque<HistorySample>>);

impl History {
    /// Adds a sample; the oldest goes where there is no room.
    pub(crate) fn add(&self, sample: HistorySample) {
        let mut samples = self.0.write();
        if samples.len() == MOST {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// All of them.
    pub(crate) fn samples(&self) -> Vec<HistorySample> {
        self.0.read().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept() {
        let history = History::default();
        for at in 0..1_000 {
            history.add(HistorySample {
                at,
                ..HistorySample::default()
            });
        }
        let samples = history.samples();
        assert_eq!(samples.len(), MOST);
        assert_eq!(samples.last().unwrap().at, 999);
        assert!(samples.windows(2).all(|pair| pair[0].at + 1 == pair[1].at));
    }
}
