//! Repair of shared overrides after Redis has lost a part of them.

use std::collections::HashSet;

use super::{Override, Overrides, Restamp};

impl Overrides {
    /// The overrides of Redis, completed by those that only `newer` still has.
    ///
    /// `newer` are those that a process knew before Redis lost a part. A lost override keeps its number if that is
    /// free; if the number has been given to another one, it gets the next.
    ///
    /// Overrides that were undone in Redis stay undone. A late merge that was undone in `newer` is undone, too; any
    /// other override that was undone there and is in Redis again stays in force. Stored documents may have followed
    /// lost overrides, so all of them are restamped.
    #[must_use]
    pub fn mended(&self, newer: &Overrides) -> Overrides {
        let mut overrides = self.clone();
        let mut moved = Vec::new();
        for (number, correction) in newer.iter() {
            match (self.get(number), correction) {
                (Some(here), correction) if here == correction => {}
                // A person has undone the late merge, which takes precedence.
                (Some(Override::Apart { .. }), Override::LateMerge { .. }) => {}
                (Some(Override::LateMerge { .. }), Override::Apart { .. }) => {
                    overrides.set(number, Some(correction.clone()));
                }
                (Some(_), correction) => moved.push(correction),
                (None, _) if number < self.next => {}
                (None, correction) => overrides.set(number, Some(correction.clone())),
            }
        }
        // Another process may have restored it already.
        let mut entries: HashSet<Override> = match moved.is_empty() {
            true => HashSet::new(),
            false => overrides.entries.values().cloned().collect(),
        };
        for correction in moved {
            let is_new = entries.insert(correction.clone());
            if let Some(number) = overrides.next_number().filter(|_| is_new) {
                overrides.set(number, Some(correction.clone()));
            }
        }
        let entries = overrides.entries.clone();
        for (number, correction) in entries {
            if matches!(correction, Override::Apart { .. }) {
                continue;
            }
            let mut restamp = overrides.restamp_of(&correction, &[]);
            if let Some(waiting) = overrides.unfinished.get(&number) {
                let Restamp { roots, by } = &**waiting;
                restamp.roots.extend(roots);
                restamp.roots.sort_unstable();
                restamp.roots.dedup();
                restamp.by = by.clone();
            }
            overrides.set_restamp(number, Some(restamp));
        }
        overrides
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use spinney_text::fingerprint::Fingerprint;

    fn root(number: u64) -> Root {
        Root(Fingerprint(number))
    }

    fn merge(winner: u64, loser: u64) -> Override {
        Override::Merge { winner: root(winner), losers: vec![root(loser)] }
    }

    #[test]
    fn what_was_lost_is_said_again() {
        let mut there = Overrides::default();
        there.add(merge(1, 2), &[]).unwrap();
        there.add(merge(3, 4), &[]).unwrap();
        let mut newer = there.clone();
        there.undo(0).unwrap();
        newer.add(merge(5, 6), &[]).unwrap();
        // The number is free.
        let mended = there.mended(&newer);
        assert_eq!(mended.get(0), None, "taken back");
        assert_eq!(mended.get(2), Some(&merge(5, 6)));
        let unfinished: Vec<u64> = mended.unfinished().map(|(number, _)| number).collect();
        assert_eq!(unfinished, [0, 1, 2]);
        // It is another override's.
        there.add(merge(7, 8), &[]).unwrap();
        let mended = there.mended(&newer);
        assert_eq!(mended.get(2), Some(&merge(7, 8)));
        assert_eq!(mended.get(3), Some(&merge(5, 6)));
        // Idempotent: a second process with the same overrides adds nothing.
        assert_eq!(mended.mended(&newer), mended);
    }

    #[test]
    fn a_person_stays_stronger() {
        let late_merges = Override::LateMerge { winner: root(1), loser: root(2) };
        let (mut entries, mut taken) = (Overrides::default(), Overrides::default());
        for overrides in [&mut entries, &mut taken] {
            overrides.add(late_merges.clone(), &[]).unwrap();
        }
        taken.undo(0).unwrap();
        let apart = taken.get(0).cloned();
        assert_eq!(entries.mended(&taken).get(0), apart.as_ref());
        assert_eq!(taken.mended(&entries).get(0), apart.as_ref());
    }
}
