//! Samples of the last hour for the overview page. Longer histories are a metrics system's task.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::RwLock;

use crate::forest::ForestStats;
use crate::telemetry::Counters;
use crate::time::Millis;

/// Interval of samples.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// Number of samples kept: an hour.
const MOST: usize = 361;

/// Counters and sizes at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HistorySample {
    /// When it was taken, in milliseconds since 1970.
    pub at: i64,
    /// Documents stamped since the start.
    pub stamped: u64,
    /// Stamped documents that joined an existing tree.
    pub joined: u64,
    /// Trees of all forests.
    pub roots: u64,
    /// Memory of all forests, in bytes.
    pub memory: u64,
    /// Age of the oldest uncounted write in milliseconds; `None` if counting is off.
    pub lag: Option<u64>,
}

impl HistorySample {
    /// Samples the present. `lag`: that of counting, if it is on.
    pub(crate) fn of(
        now: Millis,
        counters: &Counters,
        forests: &[(String, ForestStats)],
        lag: Option<Duration>,
    ) -> HistorySample {
        let sum = |of: fn(&ForestStats) -> usize| forests.iter().map(|(_, stats)| of(stats) as u64).sum();
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

/// Ring of samples, the oldest first. Written by one task, read by the overview page.
#[derive(Debug, Default)]
pub(crate) struct History(RwLock<VecDeque<HistorySample>>);

impl History {
    /// Adds a sample, dropping the oldest if necessary.
    pub(crate) fn add(&self, sample: HistorySample) {
        let mut samples = self.0.write();
        if samples.len() == MOST {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns all samples.
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
            history.add(HistorySample { at, ..HistorySample::default() });
        }
        let samples = history.samples();
        assert_eq!(samples.len(), MOST);
        assert_eq!(samples.last().unwrap().at, 999);
        assert!(samples.windows(2).all(|pair| pair[0].at + 1 == pair[1].at));
    }
}
