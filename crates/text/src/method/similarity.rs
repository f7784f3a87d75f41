//! The similarity that `verified` requires between a document and the founder of a tree.

use std::str::FromStr;

/// Default for long texts. A reprint with a fifth of its words changed and a paragraph dropped has more, a second
/// report of the same event less. Windows of words suffer more from a changed letter than windows of characters, so a
/// text in words needs less.
const CHARACTERS: f32 = 0.43;
const WORDS: f32 = 0.36;
/// Requirement for texts of at most `SHORT` shingles, interpolated between `SHORT` and `LONG`: in a short text a few
/// common phrases are a large share.
const SHORT_TEXT: f32 = 0.65;
const SHORT: f32 = 20.0;
const LONG: f32 = 100.0;
/// Fingerprints are exact where the minima estimate: texts that are similar enough nearly always share two or more of
/// them. One that was found by a single fingerprint needs so much more.
const SINGLE: f32 = 0.06;
/// How much less similarity texts with equal titles need, and how much more those with disjoint titles.
const TITLES: f32 = 0.06;

/// Required Jaccard similarity of the shingles of long texts in characters, 0 to 1. All other requirements derive
/// from it and keep their order: texts in words need 0.07 less; short texts need a value between it and 1, in the
/// proportion of the defaults (0.65 over 0.43). Nothing needs more than 1, which an equal text has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similarity(f32);

/// A number that cannot be a similarity.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("must be a ratio from 0 (one fingerprint in common is enough) to 1 (nothing but copies)")]
pub struct InvalidSimilarity;

impl Default for Similarity {
    fn default() -> Similarity {
        Similarity(CHARACTERS)
    }
}

/// Reads a ratio.
impl FromStr for Similarity {
    type Err = String;

    fn from_str(text: &str) -> Result<Similarity, String> {
        let ratio = text.parse().map_err(|_| "use a ratio from 0 to 1, such as 0.43")?;
        Similarity::new(ratio).map_err(|error| error.to_string())
    }
}

impl Similarity {
    /// Creates a similarity.
    ///
    /// # Errors
    /// When the number is not from 0 to 1.
    pub fn new(ratio: f32) -> Result<Similarity, InvalidSimilarity> {
        if (0.0..=1.0).contains(&ratio) { Ok(Similarity(ratio)) } else { Err(InvalidSimilarity) }
    }

    /// The allowed differences of aligned texts relative to the default: 1 at the default similarity, 0 at 1, unlimited
    /// at 0.
    pub(super) fn allowance(self) -> f32 {
        // Exactly 1 for the default.
        if self.0 == CHARACTERS { 1.0 } else { (1.0 - self.0) / self.0 * CHARACTERS / (1.0 - CHARACTERS) }
    }

    /// The number itself, 0 to 1.
    pub fn share(self) -> f32 {
        self.0
    }

    /// The similarity that two texts need, by the number of shingles of the shorter one. `characters`: most of its
    /// tokens are characters. `shared`: fingerprints with a near node in the other's tree. `titles`: similarity of the
    /// titles, 0 to 1, if both have one.
    pub fn needed(self, shingles: f32, characters: bool, shared: usize, titles: Option<f32>) -> f32 {
        // Relative to the default, so that the default gives exactly the constants.
        let more = self.0 - CHARACTERS;
        let long = if characters { self.0 } else { (WORDS + more).max(0.0) };
        let short = SHORT_TEXT + more * (1.0 - SHORT_TEXT) / (1.0 - CHARACTERS);
        let shortness = ((LONG - shingles) / (LONG - SHORT)).clamp(0.0, 1.0);
        let single = if shared < 2 { SINGLE } else { 0.0 };
        let titles = titles.map_or(0.0, |alike| TITLES * (1.0 - 2.0 * alike));
        (long + (short - long) * shortness + single + titles).clamp(0.0, 1.0)
    }
}

/// The number as in options.
impl std::fmt::Display for Similarity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(share: f32) -> Similarity {
        Similarity::new(share).unwrap()
    }

    #[test]
    fn the_default_needs_what_the_constants_say() {
        let needed = |shingles, characters, shared| Similarity::default().needed(shingles, characters, shared, None);
        assert_eq!(needed(127.0, true, 2), CHARACTERS);
        assert_eq!(needed(127.0, false, 2), WORDS);
        assert_eq!(needed(127.0, false, 1), WORDS + SINGLE);
        assert_eq!(needed(20.0, false, 2), SHORT_TEXT);
        assert_eq!(needed(0.0, true, 9), SHORT_TEXT);
        let half = needed(60.0, true, 2);
        assert_eq!(half, CHARACTERS + (SHORT_TEXT - CHARACTERS) * 0.5);
    }

    #[test]
    fn only_ratios_are_similarities() {
        for wrong in [-0.01, 1.01, f32::NAN, f32::INFINITY, 43.0] {
            assert!(Similarity::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            Similarity::new(43.0).unwrap_err().to_string(),
            "must be a ratio from 0 (one fingerprint in common is enough) to 1 (nothing but copies)"
        );
        assert_eq!(of(0.43), Similarity::default());
        assert_eq!(Similarity::default().to_string(), "0.43");
    }

    #[test]
    fn what_may_differ_follows_the_similarity() {
        assert_eq!(Similarity::default().allowance(), 1.0);
        assert_eq!(of(1.0).allowance(), 0.0);
        assert_eq!(of(0.0).allowance(), f32::INFINITY);
        assert!(of(0.42).allowance() > 1.0 && of(0.44).allowance() < 1.0);
    }

    proptest! {
        /// A law of the forest: a document that comes again finds its own tree, so nothing needs more than the same
        /// text has.
        #[test]
        fn a_need_can_be_met(
            share in 0f32..=1.0,
            shingles in 0u8..128,
            characters: bool,
            shared in 0usize..9,
            titles in prop::option::of(0f32..=1.0),
        ) {
            let needed = of(share).needed(f32::from(shingles), characters, shared, titles);
            prop_assert!((0.0..=1.0).contains(&needed), "{needed}");
        }

        #[test]
        fn more_similarity_and_shorter_texts_need_more(
            (low, high) in (0f32..=1.0, 0f32..=1.0), shingles in 0u8..127, characters: bool, shared in 0usize..9,
        ) {
            let (low, high) = (of(low.min(high)), of(low.max(high)));
            let shingles = f32::from(shingles);
            let needed = |need: Similarity, shingles| need.needed(shingles, characters, shared, None);
            prop_assert!(needed(low, shingles) <= needed(high, shingles) + 1e-6);
            prop_assert!(needed(low, shingles) >= needed(low, shingles + 1.0) - 1e-6);
        }
    }
}
