//! The alignment check of `verified`: a document that is similar enough to a root is aligned with the founder's
//! tokens, and the differences decide.
//!
//! Similarity alone cannot tell a reprint from a form that was filled in again, since both share most phrases. A
//! reprint differs in few long pieces, or in letters; a form in many short places with numbers and names. So each
//! kind of place has a cost, and the allowed cost grows with the length of the text.

use super::Refusal;
use super::alignment::{AlignedTokens, Differences};
use crate::text::tokens::MOST;

/// Cost of a place with different numbers.
const NUMBERS: f32 = 2.0;
/// Cost of a place where a name of one title replaces one of the other.
const NAMES: f32 = 3.0;
/// Cost of a repeated replacement.
const REPEATED: f32 = 2.0;
/// Cost of any other replacement.
const OTHERS: f32 = 1.0;
/// Of more on one side only, and of a part that was moved.
const BREAKS: f32 = 0.3;
/// Cost per hundred words if the texts have nothing in common.
const MISSING: f32 = 3.0;
/// Allowed cost per hundred words.
const ALLOWED: f32 = 2.0;
/// Minimum length in words for the allowed cost: one place in a few words proves little.
const SHORTEST: f32 = 80.0;

/// A text that is less similar than this joins only for a reason.
const DOUBT: f32 = 0.6;
/// Reasons: so much of one text is in the other, or of both.
const CONTAINED: f32 = 0.9;
const IN_COMMON: f32 = 0.5;

/// A text that has fewer words in common with another needs so much of one of them to be in the other, if their titles
/// are not alike.
const FEW: f32 = 100.0;
const NEARLY_ALL: f32 = 0.86;
const SAME_TITLE: f32 = 0.5;

/// Allowed shortfall of the proof's estimate where nearly everything is in both texts: numbers in other notations.
pub(super) const OTHER_NOTATION: f32 = 0.2;
const SAME_WORDS: f32 = 0.8;

/// The words of a title that are kept.
const TITLE: usize = 24;
/// The most that [`write()`] puts down: the number of words of the title, these, and those of the body.
pub(super) const MOST_TOKENS: usize = 1 + TITLE + MOST;

/// Encodes founder tokens: the number of title tokens, these, and the body's.
pub(super) fn write<'a>(title: &[u16], body: impl Iterator<Item = &'a [u16]>, out: &mut Vec<u16>) {
    let title = title.get(..TITLE).unwrap_or(title);
    out.clear();
    out.reserve(MOST_TOKENS);
    out.push(title.len() as u16);
    out.extend_from_slice(title);
    body.for_each(|words| out.extend_from_slice(words));
    out.truncate(MOST_TOKENS);
}

/// Inverse of [`write()`]; `None` if empty.
pub(super) fn read(tokens: &[u16]) -> Option<AlignedTokens<'_>> {
    let (&title, rest) = tokens.split_first()?;
    let (title, body) = rest.split_at_checked(usize::from(title))?;
    (!body.is_empty()).then_some(AlignedTokens { title, body })
}

impl Differences {
    /// Cost per hundred words.
    pub fn cost(&self) -> f32 {
        // Typing errors change letters and words alike.
        let others = REPEATED * f32::from(self.repeated) + OTHERS * f32::from(self.others);
        let others = (others - f32::from(self.typos)).max(0.0);
        let cost = NUMBERS * f32::from(self.numbers)
            + NAMES * f32::from(self.names)
            + others
            + BREAKS * f32::from(self.breaks);
        100.0 * cost / self.words.max(SHORTEST) + MISSING * (1.0 - self.most)
    }

    /// Whether nearly all of both texts is in both.
    pub(super) fn are_few(&self) -> bool {
        self.least >= SAME_WORDS
    }

    /// Whether two texts of this similarity, with titles so much alike if both have one, that differ in this are the
    /// same text.
    ///
    /// # Errors
    /// Why they are not.
    pub fn judge(&self, similarity: f32, titles: Option<f32>) -> Result<(), Refusal> {
        let has_reason = self.most >= CONTAINED || self.least >= IN_COMMON;
        // If all that two short texts share is their ending, each has other content of its own.
        let is_rest = self.words < FEW && self.most < NEARLY_ALL;
        let is_titled = titles.is_some_and(|alike| alike >= SAME_TITLE);
        if (similarity < DOUBT && !has_reason) || (is_rest && !is_titled) {
            return Err(Refusal::Part { most: self.most, least: self.least });
        }
        if self.cost() <= ALLOWED {
            return Ok(());
        }
        let words = self.words as usize;
        let names = self.names + self.repeated;
        let of = |count: u16, price: f32| f32::from(count) * price;
        let numbers = of(self.numbers, NUMBERS);
        let named = of(self.names, NAMES) + of(self.repeated, REPEATED);
        let places = self.numbers + names + self.others + self.breaks;
        Err(if self.numbers > 0 && numbers >= named && self.numbers >= self.others {
            let different = usize::from(self.numbers);
            Refusal::OtherNumbers { different, words }
        } else if names > 0 && names >= self.others {
            let places = usize::from(names);
            Refusal::Names { places, words }
        } else {
            let places = usize::from(places);
            Refusal::Scattered { places, words }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOTHING: Differences = Differences {
        words: 200.0,
        most: 1.0,
        least: 1.0,
        numbers: 0,
        names: 0,
        repeated: 0,
        others: 0,
        typos: 0,
        breaks: 0,
    };

    fn reason(differences: Differences, similarity: f32) -> Option<&'static str> {
        let refusal = differences.judge(similarity, None).err()?;
        Some(refusal.reason().as_str())
    }

    #[test]
    fn what_stands_in_many_places_decides() {
        let of = |change: fn(&mut Differences)| {
            let mut differences = NOTHING;
            change(&mut differences);
            reason(differences, 0.8)
        };
        assert_eq!(of(|_| ()), None);
        assert_eq!(of(|d| d.numbers = 2), None);
        assert_eq!(of(|d| d.numbers = 3), Some("numbers"));
        assert_eq!(of(|d| d.names = 2), Some("names"));
        assert_eq!(of(|d| d.others = 5), Some("scattered"));
        assert_eq!(of(|d| (d.others, d.typos) = (5, 20)), None);
        assert_eq!(of(|d| d.repeated = 3), Some("names"));
        assert_eq!(of(|d| (d.others, d.numbers) = (3, 1)), Some("scattered"));
    }

    #[test]
    fn each_place_has_its_cost_per_hundred_words() {
        let of = |change: fn(&mut Differences)| {
            let mut differences = NOTHING;
            change(&mut differences);
            differences.cost()
        };
        let is = |cost: f32, expected: f32| assert!((cost - expected).abs() < 1e-4, "{cost} {expected}");
        is(of(|_| ()), 0.0);
        is(of(|d| d.numbers = 3), 1.5 * NUMBERS);
        is(of(|d| d.names = 3), 1.5 * NAMES);
        is(of(|d| d.repeated = 3), 1.5 * REPEATED);
        is(of(|d| d.others = 3), 1.5 * OTHERS);
        is(of(|d| d.breaks = 3), 1.5 * BREAKS);
        is(of(|d| (d.repeated, d.others, d.typos) = (1, 3, 2)), (REPEATED + 3.0 * OTHERS - 2.0) / 2.0);
        is(of(|d| (d.others, d.typos, d.breaks) = (1, 3, 2)), BREAKS);
        is(of(|d| d.most = 0.5), 0.5 * MISSING);
        is(of(|d| (d.numbers, d.words) = (2, 20.0)), 200.0 * NUMBERS / SHORTEST);
    }

    #[test]
    fn little_similarity_needs_a_reason() {
        let part = Differences { most: 0.7, least: 0.4, ..NOTHING };
        assert_eq!(reason(part, 0.55), Some("part"));
        assert_eq!(reason(part, 0.65), None);
        assert_eq!(reason(Differences { most: 0.95, ..part }, 0.55), None);
        assert_eq!(reason(Differences { least: 0.6, ..part }, 0.55), None);
    }

    #[test]
    fn two_notices_over_one_disclaimer_are_two() {
        let rest = Differences { words: 50.0, most: 0.8, least: 0.8, ..NOTHING };
        assert_eq!(reason(rest, 0.8), Some("part"));
        assert!(rest.judge(0.8, Some(1.0)).is_ok());
        assert_eq!(reason(Differences { words: 150.0, ..rest }, 0.8), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            title in prop::collection::vec(any::<u16>(), 0..40),
            body in prop::collection::vec(any::<u16>(), 0..40),
        ) {
            let mut tokens = vec![7; 3];
            let (first, second) = body.split_at(body.len() / 2);
            write(&title, [first, second].into_iter(), &mut tokens);
            let words = read(&tokens);
            prop_assert_eq!(words.is_some(), !body.is_empty());
            if let Some(words) = words {
                prop_assert_eq!(words.body, body.as_slice());
                prop_assert_eq!(words.title, title.get(..TITLE).unwrap_or(&title));
            }
        }

        #[test]
        fn any_tokens_are_read_or_not(tokens in prop::collection::vec(any::<u16>(), 0..40)) {
            let _ = read(&tokens);
        }
    }
}
