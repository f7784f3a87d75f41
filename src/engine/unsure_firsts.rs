//! Groups whose first document may be another one than the forest remembers, or none: settled writes note them, and
//! `backfill/firsts.rs` looks at what is stored.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::placed::{HeldDocuments, Resolution, is_dropped, outcome};
use crate::forest::Root;
use crate::forest::port::ItemOutcome;

/// The most groups that wait, and the most that are not noted again for now. The scan finds the others.
const MOST: usize = 100_000;

/// A group is noted once in this time: copies that a pipeline drops come as often as all others.
const ONCE_IN: Duration = Duration::from_mins(10);

/// The groups that wait to be looked at.
#[derive(Debug, Default)]
pub(super) struct UnsureFirsts {
    /// Whether the task runs that takes them.
    is_on: AtomicBool,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// By the number of their forest.
    waiting: HashSet<(usize, Root)>,
    /// Those that were noted since `begun`.
    lately: HashSet<(usize, Root)>,
    begun: Option<Instant>,
}

impl UnsureFirsts {
    /// Notes the groups of a settled request.
    pub(super) fn note(&self, placed: &HeldDocuments, resolution: &Resolution) {
        if !self.is_on.load(Relaxed) {
            return;
        }
        for held in &placed.held {
            let group = (held.forest, held.answer);
            let is_unsure = match outcome(&placed.ops, held.item, resolution).0 {
                // Of one whose index is not known, others of its id would seem to be it.
                ItemOutcome::Accepted => held.first.is_none_or(|first| first && held.id.is_of_any_index()),
                // What keeps its group alive may have no group in the index.
                _ if is_dropped(&placed.ops, held.item, resolution) => held.first != Some(true),
                // The vacancy is there again.
                ItemOutcome::Refused | ItemOutcome::Unknown => held.fills_vacancy,
            };
            if is_unsure {
                let mut noted = self.noted.lock();
                if held.fills_vacancy {
                    noted.lately.remove(&group);
                }
                noted.add(group);
            }
        }
    }

    /// Notes a group of a forest, whenever it was noted last.
    pub(super) fn note_again(&self, forest: usize, root: Root) {
        if self.is_on.load(Relaxed) {
            let mut noted = self.noted.lock();
            noted.lately.remove(&(forest, root));
            noted.add((forest, root));
        }
    }

    /// Takes those of one forest; from now on they are noted.
    pub(super) fn take(&self, forest: usize) -> Vec<Root> {
        self.is_on.store(true, Relaxed);
        let mut noted = self.noted.lock();
        noted.waiting.extract_if(|&(of, _)| of == forest).map(|(_, root)| root).collect()
    }
}

impl Noted {
    fn add(&mut self, group: (usize, Root)) {
        let now = Instant::now();
        if self.lately.len() >= MOST || self.begun.is_none_or(|begun| now.duration_since(begun) >= ONCE_IN) {
            self.lately.clear();
            self.begun = Some(now);
        }
        if self.waiting.len() < MOST && self.lately.insert(group) {
            self.waiting.insert(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    fn root(number: usize) -> Root {
        Root(Fingerprint(number as u64))
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_is_noted_once_in_ten_minutes() {
        let unsure = UnsureFirsts::default();
        let add = |number| unsure.noted.lock().add((0, root(number)));
        add(1);
        assert_eq!((unsure.take(1), unsure.take(0)), (vec![], vec![root(1)]));
        tokio::time::advance(ONCE_IN - Duration::from_millis(1)).await;
        add(1);
        assert_eq!(unsure.take(0), []);
        tokio::time::advance(Duration::from_millis(1)).await;
        add(1);
        assert_eq!(unsure.take(0), [root(1)]);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut noted = Noted::default();
        (0..=MOST).for_each(|number| noted.add((0, root(number))));
        assert_eq!((noted.waiting.len(), noted.lately.len()), (MOST, 0));
        assert!(!noted.waiting.contains(&(0, root(MOST))));
    }
}
