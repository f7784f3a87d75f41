//! Fingerprints for the strict rules: one simhash or hash of words per document.

use xxhash_rust::xxh3::Xxh3Default;

use super::simhash::Simhash;
use crate::fingerprint::Fingerprint;
use crate::text::{Sentence, Text, Token, rarity, words};

/// Weight of each occurrence of a word in the simhash. Stop words weigh nothing if there is anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// Its level, 1 to 5.
    Levels,
    /// 1: plain term frequency.
    Tf,
    /// How rare it is in general, 1 to 18. Document frequencies that were learned while running would give
    /// a text another fingerprint when it comes again; so this is a fixed table, see [`rarity`].
    TfIdf,
}

/// Fingerprints of a document for the strict rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrictFeatures {
    /// At least one; the first becomes the root if the document founds a tree.
    pub fingerprints: Vec<Fingerprint>,
    /// Exact hash (XXH3) of the whole cleaned text.
    pub whole: Fingerprint,
}

impl StrictFeatures {
    /// Bytes of memory held, besides the value itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.fingerprints.capacity() * size_of::<Fingerprint>()
    }

    /// The fingerprints as plain numbers.
    pub(super) fn hashes(&self) -> Vec<u64> {
        self.fingerprints.iter().map(|fingerprint| fingerprint.0).collect()
    }
}

/// Simhash of the words of some sentences. Stop words count only where there is nothing else.
pub(super) fn of_words<'t>(sentences: impl IntoIterator<Item = &'t str>, weights: Weights) -> Fingerprint {
    let weight = |word: &Token<'_>| match weights {
        Weights::Levels => word.level,
        Weights::Tf => 1,
        Weights::TfIdf => rarity(word),
    };
    let mut sums = Simhash::new();
    let mut stop_words = Simhash::new();
    let mut nothing_else = true;
    for sentence in sentences {
        words(sentence, |word| {
            if !word.stop_word {
                nothing_else = false;
                sums.add(word.hash, weight(&word));
            } else if nothing_else {
                stop_words.add(word.hash, weight(&word));
            }
        });
    }
    if nothing_else { stop_words.finish() } else { sums.finish() }
}

/// One hash of the letters and digits of the `count` longest sentences, of equals the first, in the order of the text.
/// Punctuation and spaces do not matter.
pub(super) fn of_longest(text: &Text<'_>, count: usize) -> Fingerprint {
    let mut ranges: Vec<&Sentence> = text.ranges().iter().collect();
    if ranges.len() > count {
        // Stable: of equally long sentences the first stays in front.
        ranges.sort_by_key(|range| std::cmp::Reverse(range.letters));
        ranges.truncate(count);
        ranges.sort_by_key(|range| range.start);
    }
    let mut hasher = Xxh3Default::new();
    for range in ranges {
        for run in text.sentence(range).split(|c: char| !c.is_alphanumeric()) {
            hasher.update(run.as_bytes());
        }
        hasher.update(b"\n");
    }
    Fingerprint(hasher.digest())
}
