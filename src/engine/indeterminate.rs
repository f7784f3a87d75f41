//! Documents of which nobody has told whether they are stored: the connection broke, the cluster gave up. Whoever sent them may send
//! them again, and then nothing is lost; if not, and they are stored, the forest would forget them. So the index is looked at.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::settle::{PlacedDocuments, Resolution, outcome};
use super::{Engine, RecoverySource, Unavailable};
use crate::config::Clock;
use crate::forest::port::ItemOutcome;
use crate::time::Millis;

/// Since when each forest waits for an answer.
#[derive(Debug, Default)]
pub(super) struct Indeterminate {
    /// By number of the forest: when the first of them arrived.
    since: Mutex<BTreeMap<usize, Millis>>,
    came: Notify,
}

/// A forest that may not know what is stored.
#[derive(Debug, Clone)]
pub struct Gap {
    /// What tells of it.
    pub source: RecoverySource,
    /// What arrived earlier is known.
    pub since: Millis,
}

impl Engine {
    /// Takes down which forests have documents whose outcome nobody knows. Those of unverified writers had no effect and are not looked for: who
    /// may not write anything must not make the cluster be searched.
    pub(super) fn note_indeterminate(&self, placed: &PlacedDocuments, resolution: &Resolution) {
        let is_own = |forest: usize| self.forests.get(forest).is_some_and(|it| !it.is_shared());
        let held = placed.held.iter();
        let held = held.filter(|held| held.late.is_none() && is_own(held.forest));
        let mut unknown = held
            .filter(|held| outcome(&placed.ops, held.item, resolution).0 == ItemOutcome::Unknown)
            .peekable();
        // Nearly always; then nobody has to wait for the lock.
        if unknown.peek().is_none() {
            return;
        }
        {
            let mut all = self.unanswered.since.lock();
            for held in unknown {
                let since = all.entry(held.forest).or_insert(held.clock);
                *since = (*since).min(held.clock);
            }
        }
        self.unanswered.came.notify_one();
    }

    /// Answers when nobody knows what became of some documents.
    pub async fn indeterminate(&self) {
        self.unanswered.came.notified().await;
    }

    /// The forests that may not know what is stored, each once; not those whose documents have no time, of which nothing tells which came
    /// last.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn take_gaps(&self) -> Result<Vec<Gap>, Unavailable> {
        let taken = std::mem::take(&mut *self.unanswered.since.lock());
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut gaps = Vec::new();
        for source in self.sources().await? {
            let of_source = taken.iter().filter(|&(&forest, _)| source.is_of(forest));
            let since = of_source.map(|(_, &since)| since).min();
            if let Some(since) = since.filter(|_| source.clock != Clock::None) {
                gaps.push(Gap { source, since });
            }
        }
        Ok(gaps)
    }
}
