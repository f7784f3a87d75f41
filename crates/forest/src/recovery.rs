//! State and counts of a recovery, from call to call.

use std::collections::HashSet;
use std::vec::IntoIter;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::Features;

use super::document::{DocumentTime, ForestDocument};

/// Most documents of one timestamp, and most bytes of their features.
const GROUP: usize = 4096;
const GROUP_BYTES: usize = 64 << 20;

/// Counts of recovered documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Documents that were read.
    pub documents: u64,
    /// Documents that were placed.
    pub placed: u64,
    /// Documents, placed or known, in another tree than their stored one: that tree has their text, or the fingerprint
    /// of their root.
    pub elsewhere: u64,
    /// Documents that the forest had already.
    pub known: u64,
    /// Documents without usable text.
    pub without_text: u64,
    /// Documents that were skipped, because their roots cannot be of this forest.
    pub foreign: u64,
}

impl Recovered {
    /// Adds the counts of another forest.
    pub fn add(&mut self, other: Recovered) {
        self.documents += other.documents;
        self.placed += other.placed;
        self.elsewhere += other.elsewhere;
        self.known += other.known;
        self.without_text += other.without_text;
        self.foreign += other.foreign;
    }
}

/// State of a recovery between two batches.
#[derive(Debug, Default)]
pub struct RecoveryPass {
    /// Documents of the latest timestamp, of which more may follow.
    waiting: Vec<ForestDocument>,
    waiting_bytes: usize,
    /// Roots of trees with the proof of a document that cannot have founded them.
    pub(super) unproved: HashSet<Fingerprint>,
    pub(super) passes_known: bool,
    /// Whether documents are skipped whose roots cannot be of this forest.
    pub(super) leaves_out_foreign: bool,
    /// Whether the clock stops before any living node expires.
    pub(super) keeps_living: bool,
    /// Documents of the last timestamp whose founders were not read yet; skipped unless these follow.
    orphans: Vec<ForestDocument>,
    orphan_bytes: usize,
    pub(super) recovered: Recovered,
}

impl RecoveryPass {
    #[cfg(test)]
    pub(super) const GROUP: usize = GROUP;

    /// A recovery into a forest that may have the documents already: known ones change nothing.
    pub fn of_the_rest() -> RecoveryPass {
        RecoveryPass { passes_known: true, ..RecoveryPass::default() }
    }

    /// A catch-up: documents are skipped whose roots cannot be of this forest. `is_dated`: their times are dates of
    /// their own, which must not expire nodes of the forest; otherwise arrival times.
    pub fn of_the_missed(is_dated: bool) -> RecoveryPass {
        RecoveryPass { leaves_out_foreign: true, keeps_living: is_dated, ..RecoveryPass::of_the_rest() }
    }

    /// The counts so far.
    pub fn recovered(&self) -> Recovered {
        Recovered { foreign: self.recovered.foreign + self.orphans.len() as u64, ..self.recovered }
    }

    /// Keeps a document whose founder may follow with the same timestamp.
    pub(super) fn add_orphan(&mut self, document: ForestDocument) {
        let bytes = document.features.as_ref().map_or(0, Features::heap_bytes);
        if self.orphans.len() < GROUP && self.orphan_bytes + bytes <= GROUP_BYTES {
            self.orphan_bytes += bytes;
            self.orphans.push(document);
        } else {
            self.recovered.foreign += 1;
        }
    }

    /// Those that were kept of this moment.
    pub(super) fn take_orphans(&mut self, of: DocumentTime) -> Vec<ForestDocument> {
        self.orphan_bytes = 0;
        let mut orphans = std::mem::take(&mut self.orphans);
        let before = orphans.len();
        orphans.retain(|orphan| orphan.when == of);
        self.recovered.foreign += (before - orphans.len()) as u64;
        orphans
    }

    /// The documents of the next timestamp, once it is complete.
    pub(super) fn next_group(
        &mut self,
        documents: &mut IntoIter<ForestDocument>,
        over: bool,
    ) -> Option<Vec<ForestDocument>> {
        while let Some(document) = documents.as_slice().first() {
            let is_other = |first: &ForestDocument| first.when != document.when;
            let is_over = self.waiting.first().is_some_and(is_other);
            if is_over || self.waiting.len() >= GROUP || self.waiting_bytes >= GROUP_BYTES {
                return self.take_group();
            }
            let features = document.features.as_ref();
            self.waiting_bytes += features.map_or(0, Features::heap_bytes);
            self.waiting.extend(documents.next());
        }
        if over { self.take_group() } else { None }
    }

    fn take_group(&mut self) -> Option<Vec<ForestDocument>> {
        self.waiting_bytes = 0;
        let group = std::mem::take(&mut self.waiting);
        Some(group).filter(|group| !group.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_forests_are_added_one_by_one() {
        let counts = |factor| Recovered {
            documents: factor,
            placed: 2 * factor,
            elsewhere: 3 * factor,
            known: 4 * factor,
            without_text: 5 * factor,
            foreign: 6 * factor,
        };
        let mut sum = Recovered::default();
        sum.add(counts(1));
        sum.add(counts(10));
        assert_eq!(sum, counts(11));
    }
}
