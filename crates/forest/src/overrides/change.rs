//! Changes of overrides: added, undone, followed. Every change is idempotent. All implementations of a forest change
//! overrides by these functions.

use std::sync::Arc;

use spinney_text::fingerprint::Fingerprint;

use super::{MOST_BYTES, Override, Overrides, ResolvedDocument, Restamp, RestampPass};
use crate::Root;

/// One change of a forest's overrides. Idempotent, also on a later state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideChange {
    /// An override was added or undone.
    Add {
        /// The number of the override.
        number: u64,
        /// `None`: it is taken back.
        correction: Option<Override>,
    },
    /// These overrides have no effect any more.
    Remove {
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// Stored documents have to be restamped for an override, or have been.
    Restamp {
        /// The number of the override.
        number: u64,
        /// `None`: they do.
        restamp: Option<Restamp>,
    },
}

impl Overrides {
    /// Makes a change that was made before, here or elsewhere.
    pub fn apply(&mut self, change: &OverrideChange) {
        match change {
            OverrideChange::Add { number, correction } => self.set(*number, correction.clone()),
            OverrideChange::Remove { numbers } => self.forget(numbers),
            OverrideChange::Restamp { number, restamp } => {
                self.set_restamp(*number, restamp.clone());
            }
        }
    }

    /// Adds an override. `shown`: the roots that documents of a pin show. Returns its number and the changes; `None`
    /// at the limit of number or size.
    pub fn add(&mut self, correction: Override, shown: &[Root]) -> Option<(u64, Vec<OverrideChange>)> {
        let number = self.next_number()?;
        let restamp = self.restamp_of(&correction, shown);
        // Late merges are small and limited in number.
        let bytes = self.bytes() + correction.bytes() + restamp.bytes();
        if bytes > MOST_BYTES && !correction.is_late_merge() {
            return None;
        }
        Some((number, self.change(number, Some(correction), restamp)))
    }

    /// Undoes an override. Returns it, if there is one of this number, and the changes. An undone late merge is
    /// replaced by [`Override::Apart`], or the forest would add it again.
    pub fn undo(&mut self, number: u64) -> Option<(Override, Vec<OverrideChange>)> {
        let correction = self.get(number)?.clone();
        let restamp = self.restamp_without(number, &correction);
        let remains = match correction {
            Override::LateMerge { winner, loser } => Some(Override::Apart { roots: [loser, winner] }),
            _ => None,
        };
        Some((correction, self.change(number, remains, restamp)))
    }

    /// Marks the tasks of a pass as done, as far as they are still current. Returns the changes.
    pub fn restamped(&mut self, done: &RestampPass) -> Vec<OverrideChange> {
        if self.is_outdated(done) {
            return Vec::new();
        }
        let is_this =
            |(number, restamp): &&(u64, Arc<Restamp>)| self.unfinished.get(number).is_some_and(|of| of == restamp);
        let done = done.override_numbers().iter().filter(is_this);
        let changes = done.map(|&(number, _)| OverrideChange::Restamp { number, restamp: None });
        let changes: Vec<OverrideChange> = changes.collect();
        changes.iter().for_each(|change| self.apply(change));
        changes
    }

    /// The root that a stored document with this text should have, which the forest places in this tree. `is_known`:
    /// the forest knows the text, or one that agrees with it.
    pub fn resolve(&self, text: Fingerprint, tree: Root, is_known: bool) -> ResolvedDocument {
        let is_known = is_known || self.is_pinned(text);
        ResolvedDocument { text, answer: is_known.then(|| self.shown_root(text, tree)) }
    }

    fn change(&mut self, number: u64, correction: Option<Override>, restamp: Restamp) -> Vec<OverrideChange> {
        let changes = vec![
            OverrideChange::Add { number, correction },
            OverrideChange::Restamp { number, restamp: Some(restamp) },
        ];
        changes.iter().for_each(|change| self.apply(change));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_text::fingerprint::Fingerprint;
    use spinney_text::method::Durable;

    fn root(number: u64) -> Root {
        Root(Fingerprint(number))
    }

    /// Encoded size of changes in a journal.
    fn written(changes: &[OverrideChange]) -> usize {
        let mut out = Vec::new();
        for change in changes {
            match change {
                OverrideChange::Add { correction, .. } => Override::write_some(correction.as_ref(), &mut out),
                OverrideChange::Restamp { restamp, .. } => Restamp::write_some(restamp.as_ref(), &mut out),
                OverrideChange::Remove { numbers } => out.resize(out.len() + 8 * numbers.len(), 0),
            }
        }
        out.len()
    }

    /// A pin of a thousand texts, and the roots that they show.
    fn pin(number: u64) -> (Override, Vec<Root>) {
        let texts = (0..1_000).map(|n| Fingerprint(1_000_000 * number + n));
        let correction = Override::Pin { texts: texts.collect(), root: root(1 << 40 | number) };
        let shown = (0..1_000).map(|n| root(1_000_000 * number + n));
        (correction, shown.collect())
    }

    #[test]
    fn a_word_takes_what_it_names_however_many_wait() {
        let mut overrides = Overrides::default();
        for number in 0..40 {
            let (correction, shown) = pin(number);
            let (_, changes) = overrides.add(correction, &shown).unwrap();
            let bytes = written(&changes);
            assert!(bytes < 40_000, "{number}: {bytes} bytes");
        }
        let merge = Override::Merge { winner: root(1), losers: vec![root(2)] };
        for _ in 0..2 {
            let (_, changes) = overrides.add(merge.clone(), &[]).unwrap();
            assert!(written(&changes) < 100);
        }
        for number in 0..41 {
            let (_, changes) = overrides.undo(number).unwrap();
            let bytes = written(&changes);
            assert!(bytes < 40_000, "{number}: {bytes} bytes");
        }
    }

    #[test]
    fn a_word_looks_at_its_group_and_at_no_other_one() {
        let merge = |winner, loser| Override::Merge { winner: root(winner), losers: vec![root(loser)] };
        let mut overrides = Overrides::default();
        const MOST: u64 = super::super::MAX_OVERRIDES as u64;
        let entries = spinney_text::work_counter::count(|| {
            for number in 1..=MOST / 2 {
                // Chains and stars.
                overrides.add(merge(number / 2 * 2, number), &[]).unwrap();
                overrides.add(merge(0, number), &[]).unwrap();
            }
        });
        let logarithm = u64::from(MOST.ilog2()) as usize;
        assert!(entries < 4 * logarithm * MOST as usize, "{entries} steps");
        let taken = spinney_text::work_counter::count(|| drop(overrides.undo(7).unwrap()));
        assert!(taken < 8 * logarithm * MOST as usize, "{taken} steps");
        // Another group is none of its business.
        overrides.set(1 << 30, Some(merge(1 << 40, 1 << 41)));
        let other = spinney_text::work_counter::count(|| drop(overrides.undo(1 << 30).unwrap()));
        assert!(other < 10, "{other} steps");
    }

    #[test]
    fn a_forest_remembers_so_many_bytes() {
        let mut overrides = Overrides::default();
        let mut number = 0;
        while {
            let (correction, shown) = pin(number);
            overrides.add(correction, &shown).is_some()
        } {
            number += 1;
            assert!(overrides.bytes() <= MOST_BYTES);
        }
        let mut out = Vec::new();
        overrides.write(&mut out);
        assert!(out.len().abs_diff(overrides.bytes()) < 64, "{} bytes", out.len());
        let (correction, shown) = pin(number);
        let more = correction.bytes() + overrides.restamp_of(&correction, &shown).bytes();
        assert!(overrides.bytes() + more > MOST_BYTES);
        // At the limit, and one beyond it.
        let rest = MOST_BYTES - overrides.bytes();
        let fits = |texts: usize| Override::Pin {
            texts: (0..texts as u64).map(|n| Fingerprint(1 << 50 | n)).collect(),
            root: root(1),
        };
        let empty = fits(0).bytes() + overrides.restamp_of(&fits(0), &[]).bytes();
        // A text is encoded twice: in the override and in its restamp.
        let texts = (rest - empty) / 16;
        assert_eq!(overrides.clone().add(fits(texts + 1), &[]), None);
        overrides.add(fits(texts), &[]).unwrap();
        // It can always be undone, and a completed restamp frees its bytes.
        let (first, shown) = pin(0);
        assert!(overrides.clone().add(first.clone(), &shown).is_none());
        overrides.undo(0).unwrap();
        let unfinished = overrides.unfinished().map(|(n, of)| (n, of.clone())).collect();
        let pass = overrides.pass_for(unfinished);
        overrides.restamped(&pass);
        overrides.add(first, &shown).unwrap();
    }
}
