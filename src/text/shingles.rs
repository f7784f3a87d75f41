//! The overlapping runs of characters or words (shingles) by which two texts are compared, and the smallest of their
//! hashes (min-wise sampling in its bottom-k form: Broder, "On the resemblance and containment of documents", 1997).

use super::numbers::Number;
use super::steps;

/// How many of the smallest hashes of a document are kept. More than are used, because those of sentences that turn out
/// to be boilerplate are left out later.
const MIN_HASHES: usize = 32;

/// Candidates that are collected before the smallest are picked out.
const MAX_CANDIDATES: usize = 1024;
/// So many are picked out of a text at first: more than are kept, as some may be equal.
const PICKED: u64 = 2 * MIN_HASHES as u64;

/// Windows that a buffer may hold between documents: one huge document must not hold its memory for ever.
const MAX_RETAINED: usize = 1 << 20;

/// The shingles of one document, and what else is read from its text in the same pass.
#[derive(Debug, Clone, Default)]
pub struct Shingles {
    /// One hash a window, in the order of the text.
    pub(crate) windows: Vec<u32>,
    pub(crate) sentences: Vec<SentenceShingles>,
    /// The numbers with their contexts, in the order of the text.
    pub(crate) numbers: Vec<Number>,
    /// The smallest distinct hashes of windows that are long enough to be rare, in ascending order.
    pub(crate) min_hashes: Vec<MinHash>,
    /// Hashes of the latest long windows, of which the smallest are yet to be picked.
    candidates: Vec<u64>,
    /// A hash of all tokens in their order.
    pub(crate) whole: u64,
    /// How many of the tokens are single characters, and how many words or numbers.
    pub(crate) characters: usize,
    pub(crate) words: usize,
}

/// One sentence of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentenceShingles {
    /// A hash of the tokens: punctuation and spaces do not change it.
    pub hash: u64,
    /// Letters and digits.
    pub letters: u32,
    /// Where its windows end in `Shingles::windows`; they begin where those of the sentence before end.
    pub end: u32,
}

/// One of the smallest hashes of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinHash {
    pub hash: u64,
    /// Index of its sentence; while the text is being read, of its window.
    pub sentence: u32,
}

impl Shingles {
    /// No document; the buffers are filled by [`Shingles::read`].
    pub fn new() -> Shingles {
        Shingles::default()
    }

    /// How many shingles the document has: its length as far as this method is concerned.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether the document has no shingle.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Removes the document, and keeps its memory unless that is very much.
    pub(super) fn clear(&mut self) {
        if self.windows.capacity() > MAX_RETAINED {
            *self = Shingles::default();
        }
        self.windows.clear();
        self.sentences.clear();
        self.numbers.clear();
        self.min_hashes.clear();
        self.candidates.clear();
        self.whole = 0;
        self.characters = 0;
        self.words = 0;
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
        for min_hash in &mut self.min_hashes {
            let window = min_hash.sentence;
            let sentence = self
                .sentences
                .partition_point(|sentence| sentence.end <= window);
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
        let Shingles {
            windows,
            min_hashes,
            candidates,
            ..
        } = self;
        let first = windows.len().saturating_sub(candidates.len());
        for (window, &hash) in (first..).zip(candidates.iter()) {
            if hash <= limit {
                let sentence = u32::try_from(window).unwrap_or(u32::MAX);
                min_hashes.push(MinHash { hash, sentence });
            }
        }
        steps::add(candidates.len() + min_hashes.len());
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
