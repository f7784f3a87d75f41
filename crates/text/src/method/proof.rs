//! The proof of the `verified` method: a sketch of the founder's text, kept at the root.
//!
//! ```text
//! | length 1 | title 4 | minima 24: 96 of 2 bits | numbers: 0..=10 of 2 bytes, little endian, ascending |
//! ```
//!
//! The minima estimate the Jaccard similarity of the two sets of shingles: one-permutation hashing (Li, Owen and Zhang,
//! "One Permutation Hashing", NIPS 2012) makes the 96 of them with one hash a shingle, optimal densification
//! (Shrivastava, "Optimal Densification for Fast and Accurate Minwise Hashing", ICML 2017) fills the bins that a short
//! text leaves empty, and of each two bits are kept (Li and König, "b-Bit Minwise Hashing", WWW 2010).

use super::title::TitleSketch;
use super::{Refusal, Similarity};
use crate::hash::mix64;
use crate::text::boilerplate::BoilerplateMask;
use crate::text::numbers::{Comparison, MAX_NUMBERS, NumberSample};
use crate::text::shingles::{BINS, Minima, Shingles, fill};

/// Bits kept of each of the 96 minima.
const BITS: usize = 2;
/// Words of 64 bits that the minima take.
const WORDS: usize = BINS * BITS / 64;

/// Bytes of an encoded proof before its numbers.
const FIXED_BYTES: usize = 1 + 4 + WORDS * 8;
/// Least shingles of a long text. A shorter one of characters may be page chrome, and is compared by title as well.
const LONG_TEXT: f32 = 75.0;
/// Similarity that a text of only a headline needs: half of its words are common to many.
const HEADLINE: f32 = 0.8;
/// A text of fewer shingles without a title joins only equal texts.
const EQUAL_TEXT_BELOW: f32 = 8.0;

/// The longest proof, in bytes.
const MAX_BYTES: usize = FIXED_BYTES + 2 * MAX_NUMBERS;

/// Proof of a document; each root keeps that of its founder.
///
/// Packed, because there are tens of millions of roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(2))]
pub struct TextProof {
    title: TitleSketch,
    minima: [u64; WORDS],
    numbers: [u16; MAX_NUMBERS],
    /// How many of `numbers` are in use.
    numbers_len: u8,
    /// Number of shingles, up to 127, and whether most tokens are characters.
    length: Length,
}

/// Number of shingles and kind of tokens: | most are characters 1 bit | shingles 7 bits |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Length(u8);

impl Length {
    const CHARACTERS: u8 = 0x80;

    fn new(shingles: usize, characters: bool) -> Length {
        let shingles = u8::try_from(shingles).map_or(0x7F, |n| n.min(0x7F));
        Length(shingles | if characters { Length::CHARACTERS } else { 0 })
    }

    /// Number of shingles, up to 127.
    fn shingles(self) -> f32 {
        f32::from(self.0 & !Length::CHARACTERS)
    }

    /// Whether a text of this length may be page chrome. Text in words that is as short has its title in it.
    fn may_be_page_chrome(self) -> bool {
        self.is_in_characters() && self.shingles() < LONG_TEXT
    }

    /// Whether most tokens are characters.
    fn is_in_characters(self) -> bool {
        self.0 & Length::CHARACTERS != 0
    }
}

/// Error of bytes that are no proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a proof has {FIXED_BYTES} to {MAX_BYTES} bytes and an odd number of them, this one has {0}")]
pub struct InvalidProof(usize);

impl TextProof {
    /// The longest proof, in bytes.
    pub(super) const MAX_BYTES: usize = MAX_BYTES;

    /// The proof of a document without its boilerplate.
    pub(super) fn of(shingles: &mut Shingles, title: TitleSketch, mask: &BoilerplateMask) -> TextProof {
        let mut bins = [u32::MAX; BINS];
        let mut count = 0;
        let mut begin = 0;
        for (index, sentence) in (0u32..).zip(&shingles.sentences) {
            let end = sentence.end as usize;
            if mask.keeps(index) {
                let windows = shingles.shingle_hashes.get(begin..end).unwrap_or_default();
                count += windows.len();
                fill(&mut bins, windows);
            }
            begin = end;
        }
        if let Some((rest, windows)) = shingles.rest() {
            count += windows;
            fill(&mut bins, rest);
        }
        let numbers = if mask.excluded_count() == 0 {
            NumberSample::of(&mut shingles.numbers)
        } else {
            let mut numbers = shingles.numbers.clone();
            numbers.retain(|number| mask.keeps(number.sentence));
            NumberSample::of(&mut numbers)
        };
        let (numbers, numbers_len) = numbers.parts();
        TextProof {
            // A word weighs more than a character, here as in a window.
            length: Length::new(count, shingles.characters > 2 * shingles.words),
            title,
            minima: pack(&bins),
            numbers,
            numbers_len,
        }
    }

    /// Whether the texts join only if equal: one has no title, and one is very short.
    pub(super) fn needs_equal_text(&self, root: &TextProof) -> bool {
        let shorter = self.length.shingles().min(root.length.shingles());
        self.compare_titles(root).is_none() && shorter < EQUAL_TEXT_BELOW
    }

    /// The proof for a text that consists of its title only.
    pub(super) fn of_title_only(mut self) -> TextProof {
        self.title = self.title.title_only();
        self
    }

    /// Estimated Jaccard similarity of the shingles, 0 to 1; the standard error of long texts is 0.07.
    pub fn similarity(&self, other: &TextProof) -> f32 {
        let (own, others) = (self.minima, other.minima);
        let agreeing: u32 = own
            .iter()
            .zip(&others)
            .map(|(a, b)| {
                let different = a ^ b;
                let pairs = (different | different >> 1) & 0x5555_5555_5555_5555;
                64 / BITS as u32 - pairs.count_ones()
            })
            .sum();
        // Two minima of different shingles agree by chance once in four times.
        let chance = 1.0 / (1u32 << BITS) as f32;
        ((agreeing as f32 / BINS as f32 - chance) / (1.0 - chance)).max(0.0)
    }

    /// The similarity that a document of this proof needs to join `root`, where long texts need `long`. `shared` is how
    /// many of the fingerprints that the document offers have a near node in the tree of that root.
    pub fn needed(&self, root: &TextProof, shared: usize, long: Similarity) -> f32 {
        let shorter = self.length.shingles().min(root.length.shingles());
        let titles = self.compare_titles(root);
        if self.needs_equal_text(root) {
            return 1.0;
        }
        let needed = long.needed(shorter, self.length.is_in_characters(), shared, titles);
        if self.title.is_title_only() || root.title.is_title_only() { needed.max(HEADLINE) } else { needed }
    }

    /// The similarity to the root with the proof `root`, if the document may join its tree. `shared` and `long` as for
    /// [`needed`](TextProof::needed).
    ///
    /// # Errors
    /// [`Refusal`]: why the document may not join.
    pub fn agrees(&self, root: &TextProof, shared: usize, long: Similarity) -> Result<f32, Refusal> {
        let similarity = self.check_text(root, shared, long)?;
        let numbers = self.compare_numbers(root);
        if numbers.refuses() {
            let Comparison { same, different } = numbers;
            return Err(Refusal::Numbers { same, different });
        }
        Ok(similarity)
    }

    /// The similarity, if the texts agree in everything but perhaps the numbers.
    ///
    /// # Errors
    /// As [`agrees`](TextProof::agrees).
    pub(super) fn check_text(&self, root: &TextProof, shared: usize, long: Similarity) -> Result<f32, Refusal> {
        let (similarity, needed) = (self.similarity(root), self.needed(root, shared, long));
        if similarity < needed {
            return Err(Refusal::Proof { similarity, needed });
        }
        self.check_titles(root)?;
        Ok(similarity)
    }

    /// Whether both texts are long enough that a few phrases are a small share.
    pub(super) fn are_long(&self, root: &TextProof) -> bool {
        self.length.shingles().min(root.length.shingles()) >= LONG_TEXT
    }

    /// Whether the text consists of its title only.
    pub(super) fn is_title_only(&self) -> bool {
        self.title.is_title_only()
    }

    /// Refuses texts that may be page chrome under two foreign titles.
    ///
    /// # Errors
    /// [`Refusal::Titles`] if they may be page chrome.
    pub(super) fn check_titles(&self, root: &TextProof) -> Result<(), Refusal> {
        match self.length.may_be_page_chrome() && self.foreign_titles(root) == 2 {
            true => Err(Refusal::Titles),
            false => Ok(()),
        }
    }

    /// How similar the titles are, 0 to 1, if both texts have one.
    pub fn compare_titles(&self, root: &TextProof) -> Option<f32> {
        self.title.similarity(root.title)
    }

    /// How many of the two titles are foreign: their texts have nothing of them. 0 if the titles do not differ.
    pub(super) fn foreign_titles(&self, root: &TextProof) -> usize {
        let foreign = [self.title, root.title];
        let foreign = foreign.iter().filter(|title| title.is_foreign()).count();
        if self.title.differs(root.title) { foreign } else { 0 }
    }

    /// Compares the numbers in the same places.
    pub fn compare_numbers(&self, root: &TextProof) -> Comparison {
        self.numbers().compare(&root.numbers())
    }

    fn numbers(&self) -> NumberSample {
        NumberSample::of_parts(self.numbers, self.numbers_len)
    }

    /// The encoding: 29 bytes, and two for each of at most 10 numbers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_BYTES);
        bytes.push(self.length.0);
        bytes.extend_from_slice(&self.title.to_bytes());
        for word in self.minima {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for number in self.numbers().words() {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Inverse of [`TextProof::to_bytes`].
    ///
    /// # Errors
    /// Too few or too many bytes, or an incomplete number.
    pub fn from_bytes(bytes: &[u8]) -> Result<TextProof, InvalidProof> {
        let invalid = InvalidProof(bytes.len());
        let (&length, rest) = bytes.split_first().ok_or(invalid)?;
        let (&title, rest) = rest.split_first_chunk().ok_or(invalid)?;
        let (fixed, numbers) = rest.split_at_checked(WORDS * 8).ok_or(invalid)?;
        let (numbers, odd) = numbers.as_chunks::<2>();
        if numbers.len() > MAX_NUMBERS || !odd.is_empty() {
            return Err(invalid);
        }
        let mut minima = [0; WORDS];
        for (word, bytes) in minima.iter_mut().zip(fixed.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let numbers = numbers.iter().map(|number| u16::from_le_bytes(*number));
        let (numbers, numbers_len) = NumberSample::from_words(numbers).parts();
        Ok(TextProof { length: Length(length), title: TitleSketch::from_bytes(title), minima, numbers, numbers_len })
    }
}

/// Packs two bits of each minimum. An empty bin takes the minimum of another one; the order in which others are tried
/// depends on nothing but the bin, so that it is the same for every document.
fn pack(bins: &Minima) -> [u64; WORDS] {
    let mut words = [0u64; WORDS];
    if bins.iter().all(|&bin| bin == u32::MAX) {
        return words;
    }
    for (index, &own) in (0u64..).zip(bins) {
        let mut minimum = own;
        let mut attempt = 0;
        while minimum == u32::MAX {
            attempt += 1;
            let other = ((mix64(index << 32 | attempt) >> 32) * BINS as u64) >> 32;
            minimum = bins.get(other as usize).copied().unwrap_or(u32::MAX);
        }
        let code = mix64(u64::from(minimum)) >> 11 & ((1 << BITS) - 1);
        let at = index as usize * BITS;
        if let Some(word) = words.get_mut(at / 64) {
            *word |= code << (at % 64);
        }
    }
    words
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
