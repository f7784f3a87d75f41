//! Documents with an indeterminate outcome, after a broken connection or a timeout. If they are stored and never sent
//! again, the forest would forget them; so the index is searched.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::forests::Forests;
use super::placed::{HeldDocuments, Resolution, outcome};
use super::{Engine, RecoverySource, Unavailable};
use crate::config::Clock;
use crate::forest::port::ItemOutcome;
use crate::time::Millis;

/// Indeterminate requests: since when each forest has one.
#[derive(Debug, Default)]
pub(super) struct Indeterminate {
    /// By number of the forest: when the first of them arrived.
    since: Mutex<BTreeMap<usize, Millis>>,
    came: Notify,
}

/// A forest whose knowledge of the index may be incomplete.
#[derive(Debug, Clone)]
pub struct Gap {
    /// How to recover it.
    pub source: RecoverySource,
    /// Time before which everything is known.
    pub since: Millis,
}

impl Indeterminate {
    /// Records which forests have documents with an indeterminate outcome. Those of unverified writers had no effect
    /// and are skipped: a caller without rights must not cause searches.
    pub(super) fn note(&self, forests: &Forests, placed: &HeldDocuments, resolution: &Resolution) {
        let is_own = |forest: usize| forests.entries.get(forest).is_some_and(|it| !it.is_shared());
        let held = placed.held.iter();
        let held = held.filter(|held| held.deferred.is_none() && is_own(held.forest));
        let mut unknown =
            held.filter(|held| outcome(&placed.ops, held.item, resolution).0 == ItemOutcome::Unknown).peekable();
        // The usual case, which needs no lock.
        if unknown.peek().is_none() {
            return;
        }
        {
            let mut all = self.since.lock();
            for held in unknown {
                let since = all.entry(held.forest).or_insert(held.clock);
                *since = (*since).min(held.clock);
            }
        }
        self.came.notify_one();
    }
}

impl Engine {
    /// Waits until some outcome is indeterminate.
    pub async fn indeterminate(&self) {
        self.settler.unanswered.came.notified().await;
    }

    /// Takes the forests that may be incomplete, each once, except those without a clock.
    ///
    /// # Errors
    /// When a forest is not available.
    pub async fn take_gaps(&self) -> Result<Vec<Gap>, Unavailable> {
        let taken = std::mem::take(&mut *self.settler.unanswered.since.lock());
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut gaps = Vec::new();
        for source in self.sources().await? {
            let since = source.forests().filter_map(|forest| taken.get(&forest).copied()).min();
            if let Some(since) = since.filter(|_| source.clock != Clock::None) {
                gaps.push(Gap { source, since });
            }
        }
        Ok(gaps)
    }
}
