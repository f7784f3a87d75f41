//! Boilerplate learned while running: a sentence that keeps appearing in documents of different trees (a copyright
//! notice, a disclaimer, a menu, the remains of a script) says nothing about the text around it and is left out.
//!
//! Counted are the documents that *found* a tree: a reprint brings its sentences again because it is a reprint. One
//! that joins a tree in doubt whether house text is all that the two share counts for the sentences that are known. The
//! counts stand in a table of fixed size, one cache line a bucket:
//!
//! ```text
//! bucket = 8 entries of 64 bits: | tag 40 | epoch 16 | count 8 |
//! ```
//!
//! A full bucket evicts its least counted entry, so what is seen once gives way to what is seen again. Counts halve
//! with every epoch in which the sentence was not seen. Nothing here depends on time or chance: the same documents in
//! the same order leave the same table.

use std::collections::HashMap;

use super::sentence_key::{SentenceKey, TAG_SHIFT};
use super::shingles::{SHORTEST, Shingles};

/// Entries in a bucket: one cache line.
const WAYS: usize = 8;
/// Buckets of the table: 4 MB, half a million sentences.
const BUCKETS: usize = 1 << 16;
/// Founding documents in an epoch.
const EPOCH: u64 = 1 << 16;

/// A sentence is boilerplate from this count on.
const LEARNED: u64 = 4;
/// The count of a sentence that was seeded: it does not decay.
const SEEDED: u64 = 255;
/// Sentences of one document that are counted, so that one huge document does not empty the table.
const COUNTED: usize = 1024;

/// Least letters of a text outside boilerplate; with fewer, all of it counts.
const LEFT: u64 = 20;

/// Where the title of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Titled {
    /// There is none, or it cannot represent the text.
    No,
    /// Among its sentences.
    Within,
    /// In its own field: it represents the text if nothing else is left.
    Beside,
}

/// Counts of sentences, in bounded memory that is allocated at once.
#[derive(Debug)]
pub struct Boilerplate {
    entries: Vec<u64>,
    founded: u64,
}

impl Default for Boilerplate {
    fn default() -> Boilerplate {
        Boilerplate::new()
    }
}

/// Sentences of documents that founded a tree and that the cluster has not accepted yet. They count for later
/// documents of the same request only.
#[derive(Debug, Clone, Default)]
pub struct PendingSentences(HashMap<SentenceKey, u64>);

impl PendingSentences {
    /// Counts the sentences of a document that has founded a tree.
    pub fn add(&mut self, hashes: &[u64]) {
        for &hash in hashes {
            *self.0.entry(SentenceKey::of(hash)).or_default() += 1;
        }
    }

    /// How many of its documents have a sentence.
    pub(crate) fn count(&self, key: SentenceKey) -> u64 {
        // Most documents are of a request that has taught nothing.
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&key).copied().unwrap_or_default()
    }
}

/// Which sentences of one document are left out as boilerplate.
#[derive(Debug, Clone, Default)]
pub struct BoilerplateMask {
    /// By place in `Shingles::sentences`; it counts only while `count` is above 0.
    excluded: Vec<bool>,
    /// The numbers of the excluded ones in the document.
    numbers: Vec<usize>,
    count: usize,
    /// Too little is left to be a text.
    all: bool,
    /// Letters that are not excluded.
    left: u64,
}

impl BoilerplateMask {
    /// Letters of the sentences that are not left out.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Whether nearly the whole text is excluded and a title can represent it.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// How many sentences are left out as boilerplate.
    pub fn excluded_count(&self) -> usize {
        self.count
    }

    /// The sentences that are left out, by their numbers in the document.
    pub fn excluded(&self) -> impl Iterator<Item = usize> + '_ {
        let excluded = self.numbers.iter().take(self.count);
        excluded.copied()
    }

    /// Whether the sentence of this place in `Shingles::sentences` counts.
    pub(crate) fn keeps(&self, sentence: u32) -> bool {
        self.count == 0 || self.excluded.get(sentence as usize) != Some(&true)
    }
}

impl Boilerplate {
    /// Entries of its table.
    pub const ENTRIES: usize = BUCKETS * WAYS;

    /// Nothing is known yet.
    pub fn new() -> Boilerplate {
        Boilerplate { entries: vec![0; BUCKETS * WAYS], founded: 0 }
    }

    /// Finds the boilerplate of a document, from the table and from what its own request has `taught`. Overwrites
    /// `mask` and learns nothing. If nearly nothing would be left, nothing is excluded, unless the title can
    /// represent the document.
    pub fn find(&self, shingles: &Shingles, taught: &PendingSentences, titled: Titled, mask: &mut BoilerplateMask) {
        mask.excluded.clear();
        mask.numbers.clear();
        mask.count = 0;
        mask.all = false;
        let (mut left, mut number) = (0u64, 0);
        for sentence in &shingles.sentences {
            let long = sentence.hash().filter(|_| sentence.letters() >= SHORTEST);
            let out = long.is_some_and(|hash| self.contains(hash, taught));
            mask.excluded.push(out);
            if out {
                mask.numbers.push(number);
                mask.count += 1;
            } else {
                left += u64::from(sentence.letters());
            }
            number += sentence.count();
        }
        mask.left = left;
        let needed = match titled {
            Titled::Within => u64::from(SHORTEST),
            Titled::No | Titled::Beside => LEFT,
        };
        // The part beyond the budget is long, and never boilerplate.
        if left < needed && shingles.rest().is_none() {
            mask.all = titled == Titled::Beside && mask.count > 0;
            if !mask.all {
                mask.count = 0;
            }
        }
    }

    /// The sentences of a document that are counted: hash, ascending, and number in the document, each hash once.
    pub fn counted(shingles: &Shingles) -> Vec<(u64, usize)> {
        let mut next = 0;
        let long = shingles.sentences.iter().filter_map(|sentence| {
            let number = next;
            next += sentence.count();
            let hash = sentence.hash().filter(|_| sentence.letters() >= SHORTEST)?;
            Some((hash, number))
        });
        let mut counted: Vec<_> = long.take(COUNTED).collect();
        counted.sort_unstable();
        counted.dedup_by_key(|&mut (hash, _)| hash);
        counted
    }

    /// Counts the sentences, each once, of this many documents that have founded a tree. Those that became boilerplate
    /// by it are returned, as places in `hashes`.
    pub fn count_all(&mut self, hashes: &[u64], founders: u64) -> Vec<usize> {
        self.founded += founders;
        let counted = hashes.iter().enumerate();
        let learned = counted.filter(|&(_, &hash)| self.count(hash));
        learned.map(|(at, _)| at).collect()
    }

    /// Makes the sentences of a text boilerplate for ever: a list that a user keeps.
    pub fn seed(&mut self, shingles: &Shingles) {
        for hash in shingles.sentences.iter().filter_map(|sentence| sentence.hash()) {
            let entry = Entry::new(hash, self.epoch(), SEEDED);
            let slot = self.slot(hash);
            if let Some(place) = self.entries.get_mut(slot) {
                *place = entry.0;
            }
        }
    }

    /// The whole state: how many documents have founded a tree, and the table.
    pub fn state(&self) -> (u64, &[u64]) {
        (self.founded, &self.entries)
    }

    /// The state that `state` gave; `None` if the table is not of the size of this version.
    pub fn restore(founded: u64, entries: Vec<u64>) -> Option<Boilerplate> {
        (entries.len() == BUCKETS * WAYS).then_some(Boilerplate { entries, founded })
    }

    /// Merges an entry of another table's [state](Self::state), after `founded` trees. In an empty table it keeps its
    /// position; otherwise it competes as if it had been counted here.
    pub fn put(&mut self, founded: u64, place: usize, entry: u64) {
        self.founded = self.founded.max(founded);
        let epoch = self.epoch();
        let from = place / WAYS * WAYS;
        let Some(bucket) = self.entries.get_mut(from..from + WAYS) else {
            return;
        };
        let is_same = |other: u64| other >> TAG_SHIFT == entry >> TAG_SHIFT && other != 0;
        let same = bucket.iter().position(|&other| is_same(other));
        let own = Some(place - from).filter(|&way| bucket.get(way) == Some(&0));
        let least = || (0..WAYS).min_by_key(|&way| bucket.get(way).map(|&other| Entry(other).priority(epoch)));
        let way = same.or(own).or_else(least).unwrap_or_default();
        if let Some(there) = bucket.get_mut(way)
            && Entry(*there).priority(epoch) < Entry(entry).priority(epoch)
        {
            *there = entry;
        }
    }

    /// How many sentences are boilerplate.
    pub fn known(&self) -> usize {
        let epoch = self.epoch();
        let known = |entry: &&u64| **entry != 0 && Entry(**entry).count_at(epoch) >= LEARNED;
        self.entries.iter().filter(known).count()
    }

    fn epoch(&self) -> u64 {
        (self.founded / EPOCH) & EPOCH_MASK
    }

    fn bucket(hash: u64) -> usize {
        (hash as usize % BUCKETS) * WAYS
    }

    fn contains(&self, hash: u64, taught: &PendingSentences) -> bool {
        let from = Self::bucket(hash);
        let bucket = self.entries.get(from..from + WAYS).unwrap_or_default();
        let found = bucket.iter().find(|&&entry| Entry(entry).is(hash));
        let known = found.map_or(0, |&entry| Entry(entry).count_at(self.epoch()));
        known + taught.count(SentenceKey::of(hash)) >= LEARNED
    }

    /// How many distinct roots a sentence has been counted in.
    pub(crate) fn roots_of(&self, key: SentenceKey) -> u64 {
        let bucket = Self::bucket(u64::from(key.0));
        let bucket = self.entries.get(bucket..bucket + WAYS).unwrap_or_default();
        let found = bucket.iter().find(|&&entry| Entry(entry).has_key(key));
        found.map_or(0, |&entry| Entry(entry).count_at(self.epoch()))
    }

    /// Entry of a sentence: its own, else a free one, else the one with the least count, ties to the first.
    fn slot(&self, hash: u64) -> usize {
        let from = Self::bucket(hash);
        let bucket = self.entries.get(from..from + WAYS).unwrap_or_default();
        let priority = |entry: Entry| {
            if entry.is(hash) { (0, 0) } else { (1, entry.priority(self.epoch())) }
        };
        let best = bucket.iter().enumerate().min_by_key(|&(_, &entry)| priority(Entry(entry)));
        from + best.map_or(0, |(way, _)| way)
    }

    /// Counts one sentence; true if it became boilerplate just now.
    fn count(&mut self, hash: u64) -> bool {
        let (slot, epoch) = (self.slot(hash), self.epoch());
        let Some(place) = self.entries.get_mut(slot) else {
            return false;
        };
        let before = match Entry(*place) {
            entry if entry.is(hash) => entry.count_at(epoch),
            _ => 0,
        };
        let after = match before {
            SEEDED => SEEDED,
            count => (count + 1).min(SEEDED - 1),
        };
        *place = Entry::new(hash, epoch, after).0;
        before < LEARNED && after >= LEARNED
    }
}

const COUNT_BITS: u32 = 8;
/// The tag of the hash stands above both.
const EPOCH_BITS: u32 = TAG_SHIFT - COUNT_BITS;
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;

/// 0 is a free entry: a used one has a count.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    fn new(hash: u64, epoch: u64, count: u64) -> Entry {
        Entry(Self::tag(hash) << TAG_SHIFT | epoch << COUNT_BITS | count)
    }

    /// The bits of the hash that do not follow from the bucket.
    fn tag(hash: u64) -> u64 {
        hash >> TAG_SHIFT
    }

    fn is(self, hash: u64) -> bool {
        self.0 != 0 && self.0 >> TAG_SHIFT == Self::tag(hash)
    }

    /// Whether it is the entry of the key's sentence; false positives: 1 of 65,536.
    fn has_key(self, key: SentenceKey) -> bool {
        self.0 != 0 && (self.0 >> TAG_SHIFT) as u16 == (key.0 >> 16) as u16
    }

    fn epoch(self) -> u64 {
        self.0 >> COUNT_BITS & EPOCH_MASK
    }

    /// The count at `epoch`, which is not before the entry's.
    fn count_at(self, epoch: u64) -> u64 {
        let count = self.0 & ((1 << COUNT_BITS) - 1);
        let passed = epoch.wrapping_sub(self.epoch()) & EPOCH_MASK;
        if count == SEEDED { SEEDED } else { count >> passed.min(63) }
    }

    /// Eviction priority, the lowest first: the least count, ties to the one unseen for longest.
    fn priority(self, epoch: u64) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        let passed = epoch.wrapping_sub(self.epoch()) & EPOCH_MASK;
        (self.count_at(epoch) + 1) << EPOCH_BITS | (EPOCH_MASK - passed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shingles::SentenceShingles;
    use super::*;
    use proptest::prelude::*;

    impl Boilerplate {
        /// Learns the sentences of a founding document; returns those that became boilerplate, by their numbers in
        /// it.
        fn learn(&mut self, shingles: &Shingles) -> Vec<usize> {
            let counted = Self::counted(shingles).into_iter();
            let (hashes, sentences): (Vec<u64>, Vec<usize>) = counted.unzip();
            let learned = self.count_all(&hashes, 1).into_iter();
            learned.map(|at| sentences[at]).collect()
        }
    }

    fn shingles(sentences: &[(u64, u32)]) -> Shingles {
        let mut shingles = Shingles::new();
        shingles.sentences = sentences
            .iter()
            .map(|&(hash, letters)| SentenceShingles::long(crate::hash::mix64(hash + 1), letters, 0))
            .collect();
        shingles
    }

    fn found(boilerplate: &Boilerplate, of: &Shingles) -> Vec<bool> {
        let mut mask = BoilerplateMask::default();
        boilerplate.find(of, &PendingSentences::default(), Titled::No, &mut mask);
        (0..of.sentences.len()).map(|index| !mask.keeps(index as u32)).collect()
    }

    #[test]
    fn a_sentence_of_several_founders_is_left_out() {
        let mut boilerplate = Boilerplate::new();
        for document in 0..LEARNED {
            let text = shingles(&[(100 + document, 50), (7, 30)]);
            assert_eq!(found(&boilerplate, &text), [false, false]);
            let learned = boilerplate.learn(&text);
            assert_eq!(learned, if document + 1 == LEARNED { vec![1] } else { vec![] });
        }
        assert_eq!(found(&boilerplate, &shingles(&[(1, 50), (7, 30), (2, 50)])), [false, true, false]);
    }

    #[test]
    fn a_document_counts_a_sentence_once() {
        let mut boilerplate = Boilerplate::new();
        boilerplate.learn(&shingles(&[(7, 30), (7, 30), (7, 30), (7, 30), (7, 30)]));
        assert_eq!(found(&boilerplate, &shingles(&[(1, 50), (7, 30)])), [false, false]);
    }

    #[test]
    fn short_sentences_are_not_counted_and_a_text_of_boilerplate_is_kept() {
        let mut boilerplate = Boilerplate::new();
        for _ in 0..10 {
            boilerplate.learn(&shingles(&[(7, 30), (8, SHORTEST - 1)]));
        }
        assert_eq!(found(&boilerplate, &shingles(&[(1, 50), (8, SHORTEST - 1)])), [false, false]);
        assert_eq!(found(&boilerplate, &shingles(&[(7, 30)])), [false]);
        assert_eq!(found(&boilerplate, &shingles(&[(1, 19), (7, 30)])), [false, false]);
        assert_eq!(found(&boilerplate, &shingles(&[(1, 20), (7, 900)])), [false, true]);
    }

    #[test]
    fn counts_decay_and_seeds_do_not() {
        let mut boilerplate = Boilerplate::new();
        for _ in 0..LEARNED {
            boilerplate.learn(&shingles(&[(7, 30)]));
        }
        boilerplate.seed(&shingles(&[(9, 3)]));
        let text = shingles(&[(1, 50), (7, 30), (9, 30)]);
        assert_eq!(found(&boilerplate, &text), [false, true, true]);
        for _ in 0..2 * EPOCH {
            boilerplate.learn(&shingles(&[]));
        }
        assert_eq!(found(&boilerplate, &text), [false, false, true]);
        boilerplate.learn(&text);
        assert_eq!(found(&boilerplate, &text), [false, false, true]);
    }

    #[test]
    fn what_is_counted_most_stays_in_a_full_bucket() {
        let mut boilerplate = Boilerplate::new();
        let in_bucket = |tag: u64| {
            let mut text = shingles(&[(0, 30)]);
            text.sentences[0] = SentenceShingles::long((tag + 1) << TAG_SHIFT, 30, 0);
            text
        };
        boilerplate.learn(&in_bucket(0));
        boilerplate.learn(&in_bucket(0));
        for tag in 1..100 {
            boilerplate.learn(&in_bucket(tag));
        }
        boilerplate.learn(&in_bucket(0));
        assert_eq!(boilerplate.learn(&in_bucket(0)), [0]);
    }

    #[test]
    fn the_state_can_be_kept() {
        let mut boilerplate = Boilerplate::new();
        for _ in 0..LEARNED {
            boilerplate.learn(&shingles(&[(7, 30)]));
        }
        let (founded, entries) = boilerplate.state();
        let restored = Boilerplate::restore(founded, entries.to_vec());
        let text = shingles(&[(1, 50), (7, 30)]);
        assert_eq!(restored.map(|b| found(&b, &text)), Some(vec![false, true]));
        assert!(Boilerplate::restore(0, vec![0; 3]).is_none());
    }

    proptest! {
        /// With few sentences nothing is evicted, and the table is a map of counts.
        #[test]
        fn the_table_is_a_map_of_counts(
            documents in prop::collection::vec(prop::collection::vec(0u64..20, 0..8), 0..30),
        ) {
            let mut boilerplate = Boilerplate::new();
            let mut model = HashMap::<u64, u64>::new();
            for document in &documents {
                let mut sentences: Vec<(u64, u32)> = document.iter().map(|&hash| (hash, 30)).collect();
                boilerplate.learn(&shingles(&sentences));
                sentences.sort_unstable();
                sentences.dedup();
                for (hash, _) in sentences {
                    *model.entry(hash).or_default() += 1;
                }
            }
            for hash in 0..20 {
                let known = model.get(&hash).is_some_and(|&count| count >= LEARNED);
                prop_assert_eq!(found(&boilerplate, &shingles(&[(99, 50), (hash, 30)])), [false, known]);
            }
        }
    }
}
