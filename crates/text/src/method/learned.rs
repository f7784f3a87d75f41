//! The learned text of a forest: its boilerplate sentences, and word frequencies.

use std::fmt::Debug;

use super::{Durable, VerifiedFeatures};
use crate::text::boilerplate::{Boilerplate, BoilerplateMask};
use crate::text::word_counts::WordCounts;
use crate::text::{Fields, Scratch};

/// Learned state of one forest. Separate from the trees, because it depends on the order of placements.
#[derive(Default)]
pub struct LearnedText {
    pub(super) boilerplate: Boilerplate,
    pub(super) words: WordCounts,
    /// Exclusions of the last document.
    pub(super) mask: BoilerplateMask,
}

impl Debug for LearnedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LearnedText { boilerplate, words: _, mask: _ } = self;
        boilerplate.fmt(f)
    }
}

/// The lesson of documents that found trees, or join one [in doubt](super::Differences::is_doubtful).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lesson {
    /// How many documents have founded trees with it.
    pub founders: u64,
    /// Hashes of their sentences, ascending, each once.
    pub sentences: Vec<u64>,
    /// A sample of the words of each of them.
    pub words: Vec<u16>,
}

impl Lesson {
    /// Reads a lesson of the first format, which has no words: | founders 8 | sentences 4 | their hashes, 8 each |
    pub fn read_without_words(bytes: &mut &[u8]) -> Option<Lesson> {
        let founders = u64::read(bytes)?;
        let sentences = u32::read(bytes)?;
        let sentences = (0..sentences).map(|_| u64::read(bytes)).collect::<Option<_>>()?;
        Some(Lesson { founders, sentences, words: Vec::new() })
    }

    /// One lesson of those of a request, of at most `most` founders: it counts each sentence once. A single writer must
    /// not turn others' text into boilerplate, nor push out what they have taught. `None` if there are none.
    pub fn of_request(lessons: Vec<Lesson>, most: usize) -> Option<Lesson> {
        let mut all = Lesson::default();
        for lesson in lessons.into_iter().take(most) {
            all.founders += lesson.founders;
            all.sentences.extend(lesson.sentences);
            all.words.extend(lesson.words);
        }
        all.sentences.sort_unstable();
        all.sentences.dedup();
        (all != Lesson::default()).then_some(all)
    }
}

/// | founders 8 | sentences 4 | their hashes, 8 each | words 4 | 2 each |
impl Durable for Lesson {
    fn write(&self, out: &mut Vec<u8>) {
        self.founders.write(out);
        (self.sentences.len() as u32).write(out);
        self.sentences.iter().for_each(|hash| hash.write(out));
        (self.words.len() as u32).write(out);
        self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let lesson = Lesson::read_without_words(bytes)?;
        let words = u32::read(bytes)?;
        let words = (0..words).map(|_| super::take(bytes).map(u16::from_le_bytes)).collect::<Option<_>>()?;
        Some(Lesson { words, ..lesson })
    }
}

impl LearnedText {
    /// Learns a lesson. Answers which of its sentences became boilerplate, by their places in it.
    pub fn learn(&mut self, lesson: &Lesson) -> Vec<usize> {
        self.words.count(&lesson.words);
        self.boilerplate.count_all(&lesson.sentences, lesson.founders)
    }

    /// Makes more sentences boilerplate: one or more a string.
    pub fn seed<'s>(&mut self, sentences: impl IntoIterator<Item = &'s str>) {
        let (mut reading, mut scratch) = (VerifiedFeatures::new(), Scratch::new());
        for sentence in sentences {
            let fields = Fields { title: None, body: &[sentence] };
            if reading.read(&mut scratch, &fields) {
                self.boilerplate.seed(reading.shingles());
            }
        }
    }

    /// Starts with known boilerplate: one or more sentences per string.
    pub fn seeded<'s>(sentences: impl IntoIterator<Item = &'s str>) -> LearnedText {
        let mut learned = LearnedText::default();
        learned.seed(sentences);
        learned
    }

    /// How many documents have founded trees, and all that is not 0 of the state: sentences by their places in the
    /// table, and behind them the counters of words.
    fn state(&self) -> (u64, impl Iterator<Item = (u32, u64)> + Clone + '_) {
        let (founded, entries) = self.boilerplate.state();
        let words = (0..WordCounts::WORDS).map(|at| self.words.word(at));
        let all = (0u32..).zip(entries.iter().copied().chain(words));
        (founded, all.filter(|&(_, entry)| entry != 0))
    }

    /// Adds an entry of another [state](LearnedText::state).
    fn put(&mut self, founded: u64, place: u32, entry: u64) {
        match (place as usize).checked_sub(Boilerplate::ENTRIES) {
            Some(word) => self.words.put(word, entry),
            None => self.boilerplate.put(founded, place as usize, entry),
        }
    }
}

/// | founders 8 | entries of the table 4 | entries that are there 4 | of each: place 4, entry 8 |
///
/// The table of the first format has no words.
impl Durable for LearnedText {
    fn write(&self, out: &mut Vec<u8>) {
        let (founded, entries) = self.state();
        founded.write(out);
        (TABLE as u32).write(out);
        (entries.clone().count() as u32).write(out);
        for (place, entry) in entries {
            place.write(out);
            entry.write(out);
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let founded = u64::read(bytes)?;
        if ![TABLE, Boilerplate::ENTRIES].contains(&(u32::read(bytes)? as usize)) {
            return None;
        }
        let count = u32::read(bytes)?;
        let mut entries = vec![0; Boilerplate::ENTRIES];
        let mut words = WordCounts::default();
        for _ in 0..count {
            let (place, entry) = (u32::read(bytes)? as usize, u64::read(bytes)?);
            match place.checked_sub(Boilerplate::ENTRIES) {
                None => *entries.get_mut(place)? = entry,
                Some(word) if word < WordCounts::WORDS => words.put(word, entry),
                Some(_) => return None,
            }
        }
        let boilerplate = Boilerplate::restore(founded, entries)?;
        Some(LearnedText { boilerplate, words, mask: BoilerplateMask::default() })
    }
}

/// Entries of the table: sentences, and counters of words, four an entry.
const TABLE: usize = Boilerplate::ENTRIES + WordCounts::WORDS;

/// Entries of a portion: 12 KB.
const ENTRIES: usize = 1 << 10;

impl LearnedText {
    /// Encodes the state in portions: | founders 8 | of each entry: place 4, entry 8 |
    pub(super) fn portions(&self) -> Vec<Vec<u8>> {
        let (founded, entries) = self.state();
        let entries: Vec<(u32, u64)> = entries.collect();
        let portion = |entries: &[(u32, u64)]| {
            let mut out = Vec::with_capacity(8 + 12 * entries.len());
            founded.write(&mut out);
            for (place, entry) in entries {
                place.write(&mut out);
                entry.write(&mut out);
            }
            out
        };
        entries.chunks(ENTRIES).map(portion).collect()
    }

    /// Merges a portion of another state; unreadable entries are skipped.
    pub(super) fn add_portion(&mut self, mut bytes: &[u8]) {
        let bytes = &mut bytes;
        let Some(founded) = u64::read(bytes) else {
            return;
        };
        while let (Some(place), Some(entry)) = (u32::read(bytes), u64::read(bytes)) {
            self.put(founded, place, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The portions of a state that was written and read.
    fn again(learned: &LearnedText) -> Option<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        learned.write(&mut bytes);
        bytes.extend_from_slice(b"more");
        let mut rest = bytes.as_slice();
        let read = LearnedText::read(&mut rest)?;
        (rest == b"more").then(|| read.portions())
    }

    #[test]
    fn a_request_counts_each_sentence_once_and_a_bounded_number_of_founders() {
        let lesson = |sentence: u64| Lesson { founders: 1, sentences: vec![7, sentence], words: vec![3] };
        let all = |count: u64| Lesson::of_request((0..count).map(|n| lesson(100 + n)).collect(), 3).unwrap();
        assert_eq!(Lesson::of_request(Vec::new(), 3), None);
        assert_eq!(Lesson::of_request(vec![Lesson::default()], 3), None);
        let in_doubt = Lesson { sentences: vec![7], ..Lesson::default() };
        assert_eq!(Lesson::of_request(vec![in_doubt.clone()], 3), Some(in_doubt));
        assert_eq!(all(2), Lesson { founders: 2, sentences: vec![7, 100, 101], words: vec![3, 3] });
        for count in [3, 4] {
            assert_eq!(all(count), Lesson { founders: 3, sentences: vec![7, 100, 101, 102], words: vec![3; 3] });
        }
    }

    #[test]
    fn the_first_format_is_read() {
        let mut bytes = Vec::new();
        3u64.write(&mut bytes);
        1u32.write(&mut bytes);
        77u64.write(&mut bytes);
        let lesson = Lesson { founders: 3, sentences: vec![77], words: Vec::new() };
        assert_eq!(Lesson::read_without_words(&mut bytes.as_slice()), Some(lesson));
        let learned = |table: usize| {
            let mut bytes = Vec::new();
            5u64.write(&mut bytes);
            (table as u32).write(&mut bytes);
            0u32.write(&mut bytes);
            LearnedText::read(&mut bytes.as_slice()).map(|learned| learned.boilerplate.state().0)
        };
        assert_eq!([Boilerplate::ENTRIES, TABLE, TABLE + 1].map(learned), [Some(5), Some(5), None]);
    }

    #[test]
    fn counts_of_words_are_not_beyond_the_table() {
        let state = |place: usize| {
            let mut bytes = Vec::new();
            1u64.write(&mut bytes);
            (TABLE as u32).write(&mut bytes);
            1u32.write(&mut bytes);
            (place as u32).write(&mut bytes);
            5u64.write(&mut bytes);
            LearnedText::read(&mut bytes.as_slice()).is_some()
        };
        assert_eq!([state(TABLE - 1), state(TABLE)], [true, false]);
    }

    proptest! {
        /// What was learned is the same in an empty table, and beside what another one knew it is all there as long as
        /// there is room.
        #[test]
        fn what_was_learned_is_taken_over_in_portions(
            bulks in prop::collection::vec((prop::collection::vec(0u64..4_000, 0..400), 1u64..40_000), 0..12),
            others in prop::collection::vec(0u64..4_000, 0..50),
        ) {
            let hash = |n: u64| crate::hash::mix64(n + 1);
            let mut learned = LearnedText::default();
            for (numbers, founders) in bulks {
                let hashes: Vec<u64> = numbers.into_iter().map(hash).collect();
                let words = hashes.iter().map(|hash| (hash >> 50) as u16).collect();
                learned.learn(&Lesson { founders, sentences: hashes, words });
            }
            let portions = learned.portions();
            prop_assert!(portions.iter().all(|portion| portion.len() <= 8 + 12 * ENTRIES));
            let mut other = LearnedText::default();
            portions.iter().for_each(|portion| other.add_portion(portion));
            let there = |learned: &LearnedText| (learned.boilerplate.state().1.to_vec(), learned.words.clone());
            prop_assert!(there(&other) == there(&learned));
            prop_assert_eq!(again(&learned), Some(learned.portions()));
            if !portions.is_empty() {
                prop_assert_eq!(other.boilerplate.state().0, learned.boilerplate.state().0);
            }
            let mut knowing = LearnedText::default();
            let hashes: Vec<u64> = others.iter().copied().map(hash).collect();
            knowing.boilerplate.count_all(&hashes, 1);
            portions.iter().for_each(|portion| knowing.add_portion(portion));
            prop_assert!(knowing.boilerplate.known() >= learned.boilerplate.known());
            let entries = |learned: &LearnedText| there(learned).0.iter().filter(|entry| **entry != 0).count();
            prop_assert!(entries(&knowing) >= entries(&learned));
        }

        #[test]
        fn a_lesson_is_read_as_it_was_written(
            founders in any::<u64>(),
            sentences in prop::collection::vec(any::<u64>(), 0..20),
            words in prop::collection::vec(any::<u16>(), 0..20),
        ) {
            let lesson = Lesson { founders, sentences, words };
            let mut bytes = Vec::new();
            lesson.write(&mut bytes);
            bytes.push(9);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(Lesson::read(&mut rest), Some(lesson));
            prop_assert_eq!(rest, [9]);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Lesson::read(&mut bytes.as_slice());
            let _ = LearnedText::read(&mut bytes.as_slice());
            LearnedText::default().add_portion(&bytes);
        }
    }
}
