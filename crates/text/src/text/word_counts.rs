//! Document frequencies of words, learned while running: a changed word that is rare tells more than one that every
//! text has. A word is known by the 14 bits of its token, so that a table of 16,384 counters serves every language; two
//! words that share one count as one, which changes the frequency of a rare word little and of a frequent one not at
//! all.
//!
//! Each document teaches a quarter of its words, which quarter depends on its text alone: frequencies are compared with
//! each other, and never with the number of documents. Nothing here depends on time or chance.

use super::tokens::{HASH, NUMBER};

/// Counters, one for each value of a token's hash: 32 KB.
const COUNTERS: usize = HASH as usize + 1;
/// A document teaches the words of one of so many parts.
const PARTS: u16 = 4;
/// Words of one document that are counted, so that a long one does not outweigh many short ones.
const COUNTED: usize = 256;

/// How many documents have each word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordCounts {
    counters: Vec<u16>,
}

impl Default for WordCounts {
    fn default() -> WordCounts {
        WordCounts { counters: vec![0; COUNTERS] }
    }
}

impl WordCounts {
    /// Four counters each: the state as whole words.
    pub const WORDS: usize = COUNTERS / 4;

    /// The words of a text that are counted: hashes, ascending, each once. `whole` is the hash of the text.
    pub(crate) fn counted(tokens: &[u16], whole: u64) -> Vec<u16> {
        let part = (whole >> 48) as u16 % PARTS;
        let mut found = [0u64; COUNTERS / 64 / PARTS as usize];
        // For every token of every founder: without a branch that hangs on the text.
        for token in tokens {
            let is_counted = token & (NUMBER | (PARTS - 1)) == part;
            let place = usize::from((token & HASH) / PARTS);
            if let Some(some) = found.get_mut(place / 64) {
                *some |= u64::from(is_counted) << (place % 64);
            }
        }
        let mut words = Vec::with_capacity((tokens.len() / 2).min(COUNTED));
        for (at, mut rest) in (0u16..).zip(found) {
            while rest != 0 && words.len() < COUNTED {
                words.push(PARTS * (64 * at + rest.trailing_zeros() as u16) + part);
                rest &= rest - 1;
            }
        }
        words
    }

    /// Counts each of these words once more. All counters are halved before one overflows.
    pub fn count(&mut self, words: &[u16]) {
        for &word in words {
            let Some(counter) = self.counters.get_mut(usize::from(word)) else {
                continue;
            };
            *counter += 1;
            if *counter == u16::MAX {
                self.counters.iter_mut().for_each(|counter| *counter /= 2);
            }
        }
    }

    /// How many of the documents that teach it have this token's word.
    pub(crate) fn of(&self, token: u16) -> u16 {
        self.counters.get(usize::from(token & HASH)).copied().unwrap_or_default()
    }

    /// Four counters of the [state](WordCounts::WORDS).
    pub fn word(&self, at: usize) -> u64 {
        let four = self.counters.as_chunks::<4>().0.get(at).copied().unwrap_or_default();
        four.iter().rev().fold(0, |word, &counter| word << 16 | u64::from(counter))
    }

    /// Merges four counters of another table: the larger count stays.
    pub fn put(&mut self, at: usize, word: u64) {
        if let Some(four) = self.counters.as_chunks_mut::<4>().0.get_mut(at) {
            for (place, counter) in (0..).zip(four) {
                *counter = (*counter).max((word >> (16 * place)) as u16).min(u16::MAX - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counters_are_halved_before_they_overflow() {
        let mut counts = WordCounts::default();
        (0..u16::MAX - 1).for_each(|_| counts.count(&[7]));
        counts.count(&[9, 9]);
        assert_eq!((counts.of(7), counts.of(9)), (u16::MAX - 1, 2));
        counts.count(&[7]);
        assert_eq!((counts.of(7), counts.of(9)), (u16::MAX / 2, 1));
        counts.put(1, u64::MAX);
        counts.count(&[7]);
        assert_eq!(counts.of(7), u16::MAX / 2);
    }

    #[test]
    fn a_document_teaches_a_bounded_part_of_its_words() {
        let tokens: Vec<u16> = (0..4_000).rev().chain([NUMBER | 4, 8, 8]).collect();
        let counted = |count: u16, part: u64| {
            let tokens: Vec<u16> = tokens.iter().copied().filter(|token| token & HASH < count).collect();
            WordCounts::counted(&tokens, part << 48)
        };
        for part in 0..4 {
            let expected: Vec<u16> = (0..COUNTED as u16).map(|n| 4 * n + part as u16).collect();
            assert_eq!(counted(4_000, part), expected);
            let all = 4 * COUNTED as u16;
            assert_eq!(
                [all, all + 4, all - 4].map(|count| counted(count, part).len()),
                [COUNTED, COUNTED, COUNTED - 1]
            );
        }
        let mut all = (0..4).map(|part| counted(100, part)).collect::<Vec<_>>().concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<u16>>());
        assert_eq!(WordCounts::counted(&[NUMBER | 4, 8, 8, 4], 0), [4, 8]);
    }

    proptest! {
        #[test]
        fn the_state_is_restored(words in prop::collection::vec(0u16..=HASH, 0..200)) {
            let (mut counts, mut again) = (WordCounts::default(), WordCounts::default());
            counts.count(&words);
            (0..WordCounts::WORDS).for_each(|at| again.put(at, counts.word(at)));
            prop_assert_eq!(again, counts);
        }
    }
}
