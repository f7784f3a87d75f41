//! The second stage for short texts (seeds/000, 003): fingerprints of a few words lie far apart even where the texts
//! are nearly the same, so they only narrow the candidates, by a wider distance, and edit distance decides.

use rapidfuzz::distance::levenshtein;

use super::{Refusal, StrictFeatures};
use crate::fingerprint::Distance;
use crate::text::Text;

/// Texts of at most this many letters and digits are short: what a message of 140 characters holds (seeds/000).
const SHORT: usize = 140;
/// Fingerprints of short texts at most this far apart are compared: short texts that look alike are up to 10 bits apart
/// (seeds/000, which shows why as many are too many for long texts).
pub const WIDE: Distance = Distance(10);
/// One edit for so many letters of the longer text is allowed.
const LETTERS_AN_EDIT: usize = 5;
/// Nodes of a short text: its fingerprint, and the hash of the text where that had to become the root.
pub(crate) const TAKEN_SHORT: usize = 2;

/// The letters and digits of a short text. Its own proof: what it says is all there is to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortText(Box<str>);

/// What is known of a short document.
#[derive(Debug, Clone)]
pub struct ShortFeatures {
    /// Its fingerprint, and the hash of the text.
    pub prints: StrictFeatures,
    /// What other short texts are compared with.
    pub text: ShortText,
}

impl ShortText {
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

    /// How many letters must be changed, added or taken away to make one of the other; at most every fifth of the
    /// longer.
    ///
    /// # Errors
    /// [`Refusal::Radius`] if they are more.
    pub fn compare(&self, other: &ShortText) -> Result<usize, Refusal> {
        let letters = self.0.chars().count().max(other.0.chars().count());
        let allowed = letters / LETTERS_AN_EDIT;
        let args = levenshtein::Args::default().score_cutoff(allowed);
        levenshtein::distance_with_args(self.0.chars(), other.0.chars(), &args)
            .ok_or(Refusal::Radius { letters, allowed })
    }
}

impl super::Proof for ShortText {
    /// A short text has one fingerprint, and texts of other content near it are no accident.
    const CROWDED: bool = true;
    type Thresholds = ();

    fn agrees(&self, root: &ShortText, _: usize, (): ()) -> Result<(), Refusal> {
        self.compare(root).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::forest::{Decision, Forest, Placement, Settings};
    use crate::method::Query;
    use crate::time::Millis;

    fn place(forest: &mut Forest<ShortText>, print: u64, text: &str) -> Placement {
        let sketch = Query {
            fingerprints: &[Fingerprint(print)],
            whole: Fingerprint(xxhash_rust::xxh3::xxh3_64(text.as_bytes())),
            known_by: &[],
            proof: &ShortText(text.into()),
            take: TAKEN_SHORT,
        };
        forest.place(&sketch, Millis(0))
    }

    #[test]
    fn a_text_near_another_text_is_found_by_its_own_reprints() {
        let mut forest = Forest::new(Settings {
            k: WIDE,
            window: None,
        })
        .unwrap();
        let ferry = place(&mut forest, 0b0, "ferrycancelledbecauseofstorm").root;
        let other = place(&mut forest, 0b1, "choirwinsthesingingcontest");
        assert_eq!(other.decision, Decision::NewRoot);
        let refusal = Refusal::Radius {
            letters: 28,
            allowed: 5,
        };
        assert_eq!(other.refused, [(ferry, refusal)]);
        let reprint = place(&mut forest, 0b11, "choirwinsthesongcontest");
        assert_eq!(reprint.root, other.root);
        assert_eq!(
            place(&mut forest, 0b101, "ferrycanceledbecauseofastorm").root,
            ferry
        );
        // What comes again has its root, and brings no node.
        let nodes = forest.stats().nodes;
        assert_eq!(
            place(&mut forest, 0b1, "choirwinsthesingingcontest").root,
            other.root
        );
        assert_eq!(forest.stats().nodes, nodes);
        assert!(
            ferry.0.distance(other.root.0) > WIDE,
            "roots stay further apart than k"
        );
        // Withdrawn, it leaves nothing behind but what others rest on.
        let alone = place(&mut forest, 0b111, "nothingofthiswaseverheard");
        assert_eq!(forest.withdraw(alone.rollback), 2);
        assert_eq!(forest.stats().nodes, nodes);
    }
}
