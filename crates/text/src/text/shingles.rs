//! The overlapping runs of characters or words (shingles) by which two texts are compared, and the smallest of their
//! hashes (min-wise sampling in its bottom-k form: Broder, "On the resemblance and containment of documents", 1997).

use super::numbers::Number;
use super::sentence_key::SentenceKey;
use super::tokens::TokenRow;
use super::work_counter;

/// How many of the smallest hashes of a document are kept. More than are used, because those of sentences that turn out
/// to be boilerplate are left out later.
pub(crate) const MIN_HASHES: usize = 32;

/// Candidates that are collected before the smallest are picked out.
const MAX_CANDIDATES: usize = 1024;
/// Hashes that are picked from a text at first: more than are kept, as some may be equal.
const PICKED: u64 = 2 * MIN_HASHES as u64;

/// Most bytes that the buffers retain between documents.
const MAX_RETAINED: usize = 1 << 20;

/// Shorter sentences, in letters, are never boilerplate.
pub(super) const SHORTEST: u32 = 8;

/// Bins of the minima of a document: see [`Minima`].
pub(crate) const BINS: usize = 96;

/// The smallest window of each of 96 equal parts of their range.
pub(crate) type Minima = [u32; BINS];

/// Shingles of one document, and everything else that is read in the same pass.
///
/// Memory is proportional to the size of the document: `Budget`.
#[derive(Debug, Clone, Default)]
pub struct Shingles {
    /// One hash a window, in the order of the text.
    pub shingle_hashes: Vec<u32>,
    pub(crate) sentences: Vec<SentenceShingles>,
    /// The numbers with their contexts; those of one context in the order of the text.
    pub(crate) numbers: Vec<Number>,
    /// The smallest distinct hashes of windows that are long enough to be rare, in ascending order.
    pub(crate) min_hashes: Vec<MinHash>,
    /// Hashes of the latest long windows, of which the smallest are yet to be picked.
    candidates: Vec<u64>,
    /// The part beyond the budget.
    rest: Option<Box<Rest>>,
    budget: Budget,
    /// Tokens at the beginning of the text for the alignment check, and where those of each of `sentences` end.
    pub(super) row: TokenRow,
    /// A hash of all tokens in their order.
    pub(crate) whole: u64,
    /// The numbers of tokens that are single characters, and that are words or numbers.
    pub(crate) characters: usize,
    pub(crate) words: usize,
}

/// Limits of what is stored per document. Plain text needs less: two bytes per window, nine per sentence that can be
/// boilerplate. Only texts of characters that decompose into many, such as `㌖`, and lists of nothing but numbers
/// exceed it; so memory is below six times the size of any text.
#[derive(Debug, Clone, Copy, Default)]
struct Budget {
    windows: usize,
    sentences: usize,
    numbers: usize,
}

impl Budget {
    /// The budget for a text of this size in bytes, markup included.
    fn of(raw: usize) -> Budget {
        Budget { windows: 256 + raw / 2, sentences: 64 + raw / 8, numbers: 64 + raw / 8 }
    }
}

/// The sentences beyond the budget: never boilerplate, and so all one.
#[derive(Debug, Clone)]
struct Rest {
    minima: Minima,
    windows: usize,
}

/// One sentence of a document that is long enough to be boilerplate, or a run of sentences that are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentenceShingles {
    /// A hash of the tokens: punctuation and spaces do not change it. Of a run how many sentences it has.
    hash: u64,
    /// Letters and digits; the highest bit is that of a run.
    letters: u32,
    /// Where its windows end in `Shingles::shingle_hashes`; they begin where those of the sentence before end.
    pub end: u32,
}

const RUN: u32 = 1 << 31;

impl SentenceShingles {
    /// `letters`: at least [`SHORTEST`].
    pub(super) fn long(hash: u64, letters: u32, end: u32) -> SentenceShingles {
        let letters = letters.min(RUN - 1);
        SentenceShingles { hash, letters, end }
    }

    fn short(letters: u32, end: u32) -> SentenceShingles {
        SentenceShingles { hash: 1, letters: RUN | letters, end }
    }

    fn is_run(self) -> bool {
        self.letters & RUN != 0
    }

    /// The hash of a sentence that may be boilerplate.
    pub(crate) fn hash(self) -> Option<u64> {
        (!self.is_run()).then_some(self.hash)
    }

    /// Letters and digits.
    pub(crate) fn letters(self) -> u32 {
        self.letters & !RUN
    }

    /// How many sentences of the text this is.
    pub(crate) fn count(self) -> usize {
        self.hash().map_or(self.hash as usize, |_| 1)
    }
}

/// One of the smallest hashes of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinHash {
    pub hash: u64,
    /// Index in `Shingles::sentences`, past its end for the part beyond the budget; during the pass, of its window.
    pub sentence: u32,
}

impl Shingles {
    /// No document; the buffers are filled by [`Shingles::read`].
    pub fn new() -> Shingles {
        Shingles::default()
    }

    /// How many shingles the document has: its length as far as this method is concerned.
    pub fn len(&self) -> usize {
        self.shingle_hashes.len() + self.rest.as_ref().map_or(0, |rest| rest.windows)
    }

    /// Whether the document has no shingle.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Letters and digits of the sentences that are kept apart.
    pub(crate) fn letters(&self) -> u32 {
        let letters = self.sentences.iter().map(|sentence| sentence.letters());
        letters.fold(0, u32::saturating_add)
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        self.shingle_hashes.capacity() * size_of::<u32>()
            + self.sentences.capacity() * size_of::<SentenceShingles>()
            + self.numbers.capacity() * size_of::<Number>()
            + self.min_hashes.capacity() * size_of::<MinHash>()
            + self.candidates.capacity() * size_of::<u64>()
            + self.row.heap_bytes()
            + self.rest.as_ref().map_or(0, |_| size_of::<Rest>())
    }

    /// Minima of the part beyond the budget, and its number of windows.
    pub(crate) fn rest(&self) -> Option<(&Minima, usize)> {
        let rest = self.rest.as_ref()?;
        Some((&rest.minima, rest.windows))
    }

    /// Removes the document, and keeps its memory unless that is very much. The next one has so many bytes.
    pub(crate) fn clear(&mut self, raw: usize) {
        if self.heap_bytes() > MAX_RETAINED {
            *self = Shingles::default();
        }
        self.shingle_hashes.clear();
        self.sentences.clear();
        self.numbers.clear();
        self.min_hashes.clear();
        self.candidates.clear();
        self.row.clear(raw);
        self.rest = None;
        self.budget = Budget::of(raw);
        self.whole = 0;
        self.characters = 0;
        self.words = 0;
    }

    /// The first words of the text.
    pub(crate) fn row(&self) -> &[u16] {
        &self.row.words
    }

    /// Truncates the row.
    pub(crate) fn shorten_row(&mut self, words: usize) {
        self.row.words.truncate(words);
    }

    /// Where the tokens of each of `sentences` end, as far as they are kept, with its key if it may be boilerplate.
    pub(crate) fn row_of_sentences(&self) -> impl Iterator<Item = (Option<SentenceKey>, u16)> + Clone {
        self.row.sentence_ends().map(|(place, end)| {
            let sentence = self.sentences.get(place as usize);
            let hash = sentence.filter(|sentence| sentence.letters() >= SHORTEST).and_then(|sentence| sentence.hash());
            (hash.map(SentenceKey::of), end)
        })
    }

    /// Adds a window of the sentence that is being read.
    #[inline]
    pub(super) fn add_window(&mut self, window: u32) {
        if self.rest.is_none() && self.shingle_hashes.len() < self.budget.windows {
            self.shingle_hashes.push(window);
        } else {
            self.add_to_rest(window);
        }
    }

    /// From here on sentences join the part beyond the budget.
    #[cold]
    fn add_to_rest(&mut self, window: u32) {
        let rest = self.rest.get_or_insert_with(|| Box::new(Rest { minima: [u32::MAX; BINS], windows: 0 }));
        fill(&mut rest.minima, &[window]);
        rest.windows += 1;
    }

    /// The index in `sentences` for the next sentence, with this number of letters so far.
    pub(super) fn next_sentence(&self, letters: u32) -> u32 {
        let joins = letters < SHORTEST && self.sentences.last().is_some_and(|last| last.is_run());
        let place = self.sentences.len() - usize::from(joins && self.rest.is_none());
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// Ends a sentence: all windows since the previous one belong to it.
    pub(super) fn end_sentence(&mut self, hash: u64, letters: u32) {
        let begin = self.sentences.last().map_or(0, |last| last.end as usize);
        let end = u32::try_from(self.shingle_hashes.len()).unwrap_or(u32::MAX);
        if self.rest.is_none() {
            if letters < SHORTEST
                && let Some(run) = self.sentences.last_mut().filter(|last| last.is_run())
            {
                run.hash += 1;
                run.letters = RUN | (run.letters() + letters).min(RUN - 1);
                run.end = end;
                return;
            }
            if self.sentences.len() < self.budget.sentences {
                self.sentences.push(match letters < SHORTEST {
                    true => SentenceShingles::short(letters, end),
                    false => SentenceShingles::long(hash, letters, end),
                });
                return;
            }
        }
        // Here the budget ended, or it had before.
        let windows = std::mem::take(&mut self.shingle_hashes);
        for &window in windows.get(begin..).unwrap_or_default() {
            self.add_to_rest(window);
        }
        self.shingle_hashes = windows;
        self.shingle_hashes.truncate(begin);
    }

    /// Adds a number of the sentence that is being read.
    pub(super) fn add_number(&mut self, number: Number) {
        self.numbers.push(number);
        if self.numbers.len() >= 2 * self.budget.numbers {
            self.keep_numbers();
        }
    }

    /// Keeps the first number and the first different one of each context, and then the smallest contexts: a
    /// [`Sample`](super::numbers::NumberSample) needs no more.
    fn keep_numbers(&mut self) {
        work_counter::add(self.numbers.len());
        self.numbers.sort_by_key(|number| number.context);
        let mut place: Option<(u32, u32, bool)> = None;
        self.numbers.retain(|number| match &mut place {
            Some((context, first, several)) if *context == number.context => {
                let other = number.value != *first && !*several;
                *several |= other;
                other
            }
            _ => {
                place = Some((number.context, number.value, false));
                true
            }
        });
        if let Some(beyond) = self.numbers.get(self.budget.numbers) {
            let beyond = beyond.context;
            let kept = self.numbers.partition_point(|number| number.context < beyond);
            self.numbers.truncate(kept);
        }
    }

    /// Adds the hash of the window that was pushed last to the candidates.
    #[inline]
    pub(super) fn add_candidate(&mut self, hash: u64) {
        self.candidates.push(hash);
        if self.candidates.len() >= MAX_CANDIDATES {
            self.keep_smallest();
        }
    }

    /// Picks the last candidates, and finds the sentence of each that was kept.
    pub(super) fn finish(&mut self) {
        self.keep_smallest();
        if self.numbers.len() > self.budget.numbers {
            self.keep_numbers();
        }
        for min_hash in &mut self.min_hashes {
            let window = min_hash.sentence;
            let sentence = self.sentences.partition_point(|sentence| sentence.end <= window);
            min_hash.sentence = u32::try_from(sentence).unwrap_or(u32::MAX);
        }
    }

    /// Picks the smallest of the candidates and of those before. Of equal ones the first window's stays.
    fn keep_smallest(&mut self) {
        let candidates = self.candidates.len() as u64;
        let known = self.min_hashes.len();
        match self.min_hashes.last() {
            Some(last) if known == MIN_HASHES => self.pick(last.hash),
            // Hashes are spread evenly: this many, but for chance, are below.
            _ if candidates > 2 * PICKED => {
                self.pick(u64::MAX / candidates * PICKED);
                // Picked again they are equal ones, of which one stays.
                if self.min_hashes.len() < MIN_HASHES {
                    self.pick(u64::MAX);
                }
            }
            _ => self.pick(u64::MAX),
        }
        self.candidates.clear();
    }

    /// Adds the candidates that are not above `limit`, and keeps the smallest.
    fn pick(&mut self, limit: u64) {
        let first = self.len().saturating_sub(self.candidates.len());
        let Shingles { min_hashes, candidates, .. } = self;
        for (window, &hash) in (first..).zip(candidates.iter()) {
            if hash <= limit {
                let sentence = u32::try_from(window).unwrap_or(u32::MAX);
                min_hashes.push(MinHash { hash, sentence });
            }
        }
        work_counter::add(candidates.len() + min_hashes.len());
        min_hashes.sort_unstable_by_key(|min| min.hash);
        min_hashes.dedup_by(|later, kept| {
            let equal = later.hash == kept.hash;
            if equal {
                kept.sentence = kept.sentence.min(later.sentence);
            }
            equal
        });
        min_hashes.truncate(MIN_HASHES);
    }
}

/// The upper bits of a window say its bin, all of them its rank there.
#[inline]
pub(crate) fn fill(minima: &mut Minima, windows: &[u32]) {
    for &window in windows {
        let bin = (u64::from(window) * BINS as u64) >> 32;
        if let Some(minimum) = minima.get_mut(bin as usize) {
            *minimum = window.min(*minimum);
        }
    }
}
