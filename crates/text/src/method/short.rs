//! The method for short texts: fingerprints within a large distance select candidates, and edit distance decides.

use rapidfuzz::distance::levenshtein;
use unicode_normalization::char::is_combining_mark;

use super::{Differences, Refusal, StrictFeatures};
use crate::fingerprint::Distance;
use crate::text::Text;

/// Largest short text in letters and digits: a message of 140 characters.
const SHORT: usize = 140;
/// The distance k of short texts: similar ones are up to 10 bits apart. For long texts that would join unrelated ones.
pub const SHORT_TEXT_DISTANCE: Distance = Distance(10);
/// Letters of the longer text for each edit that is allowed.
const LETTERS_AN_EDIT: usize = 5;
/// Near trees compared with a short text. Unrelated texts are near by accident, and a crowd of them would make each
/// document as expensive as all before it; the source of a copy is among the nearest.
pub const CANDIDATES: usize = 64;
/// Nodes of a short text: its fingerprint, and the hash of the text where that had to become the root.
pub const TAKEN_SHORT: usize = 2;

#[cfg(any(test, feature = "count-work"))]
thread_local! {
    /// How often two short texts were compared: that a document costs a bounded number of comparisons is counted, not
    /// timed.
    pub static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The letters and digits of a short text, as its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortText(Box<str>);

/// Features of a short document.
#[derive(Debug, Clone)]
pub struct ShortFeatures {
    /// Its fingerprint, and the hash of the text.
    pub prints: StrictFeatures,
    /// The text of the founder.
    pub text: ShortText,
}

impl ShortText {
    /// One that was kept.
    pub fn kept(letters: &str) -> ShortText {
        ShortText(letters.into())
    }

    /// `None` if the text is not short.
    pub fn of(text: &Text<'_>) -> Option<ShortText> {
        let letters: usize = text.ranges().iter().map(|range| range.letters).sum();
        if letters > SHORT {
            return None;
        }
        // Marks count in no sentence's length: a second bound, so that not even a text of marks is long.
        let kept = text.cleaned().chars().filter(|c| c.is_alphanumeric());
        let kept: String = kept.take(2 * SHORT).collect();
        Some(ShortText(kept.into()))
    }

    /// The letters and digits, at most 280 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The edit distance of two texts, at most a fifth of the letters of the longer one.
    ///
    /// # Errors
    /// [`Refusal::Radius`] if they are more.
    pub fn compare(&self, other: &ShortText) -> Result<usize, Refusal> {
        #[cfg(any(test, feature = "count-work"))]
        COMPARED.with(|compared| compared.set(compared.get() + 1));
        let (one, another) = (self.letters(), other.letters());
        let letters = one.len().max(another.len());
        let allowed = letters / LETTERS_AN_EDIT;
        let args = levenshtein::Args::default().score_cutoff(allowed);
        levenshtein::distance_with_args(one, another, &args).ok_or(Refusal::Radius { letters, allowed })
    }

    /// Each letter with its vowel signs, which are nearly half of the characters of some scripts: counted one by one,
    /// they would let twice as many letters differ.
    fn letters(&self) -> Vec<u64> {
        let mut letters: Vec<u64> = Vec::new();
        for c in self.0.chars() {
            match letters.last_mut() {
                Some(letter) if is_combining_mark(c) => *letter = letter.rotate_left(21) ^ u64::from(u32::from(c)),
                _ => letters.push(u64::from(u32::from(c))),
            }
        }
        letters
    }
}

impl super::Proof for ShortText {
    /// A short text has one fingerprint, and other texts are often near it.
    const CROWDED: bool = true;
    const CANDIDATES: usize = CANDIDATES;
    type Thresholds = ();

    fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    fn agrees(&self, root: &ShortText, _: usize, (): ()) -> Result<(), Refusal> {
        self.compare(root).map(drop)
    }

    fn measure(&self, root: &ShortText, _: usize, (): (), _: Option<Differences>) -> super::Measure {
        super::Measure::Edits(self.compare(root).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with every `step`-th letter made another one, its signs kept.
    fn changed(text: &str, step: usize, to: char) -> String {
        let mut letters = 0;
        text.chars()
            .map(|c| {
                letters += usize::from(!is_combining_mark(c));
                if letters % step == 0 && !is_combining_mark(c) { to } else { c }
            })
            .collect()
    }

    #[test]
    fn a_fifth_of_the_letters_may_differ_in_every_script() {
        for (text, to) in [
            ("thetowncouncilmeetsontuesdayeveninginthenewschool", 'z'),
            ("المجلسيجتمعيومالثلاثاءفيالمدرسهالجديده", 'ز'),
            ("नगरपरिषदकीबैठकमंगलवारशामकोनएविद्यालयमेंहोगी", 'झ'),
            ("สภาเมืองประชุมเย็นวันอังคารที่โรงเรียนใหม่", 'ฬ'),
            ("မြို့နယ်ကောင်စီသည်အင်္ဂါနေ့ညနေတွင်ကျောင်းသစ်၌အစည်းအဝေးကျင်းပမည်", 'ဠ'),
        ] {
            let short = |text: &str| ShortText::kept(&text.chars().filter(|c| c.is_alphanumeric()).collect::<String>());
            let compared = |step| short(text).compare(&short(&changed(text, step, to)));
            assert!(compared(6).is_ok(), "{text}");
            assert!(compared(4).is_err(), "{text}");
        }
        // A vowel sign more is one letter that differs.
        let (one, other) = (ShortText::kept("कमलनयन"), ShortText::kept("कमलानयन"));
        assert_eq!(one.compare(&other), Ok(1));
    }
}
