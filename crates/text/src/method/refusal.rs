//! Why a document may not join a tree although it is near.

use std::fmt;

/// Why a document did not join a near tree, with the figures of the comparison: small and `Copy`, so that an unread
/// refusal costs nothing. `Display` is for people.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refusal {
    /// The texts overlap too little. Both figures from 0 to 1.
    Proof {
        /// The similarity of the two texts.
        similarity: f32,
        /// How much would have to be.
        needed: f32,
    },
    /// The texts are alike but for their numbers.
    Numbers {
        /// Places with the same number on both sides.
        same: usize,
        /// Places with different numbers.
        different: usize,
    },
    /// The alignment check: numbers differ in so many places that the texts are two of one form.
    OtherNumbers {
        /// Places with other numbers.
        different: usize,
        /// Words that both texts have.
        words: usize,
    },
    /// Alignment check: names of one text were replaced in the other.
    Names {
        /// Places with other names.
        places: usize,
        /// Words that both texts have.
        words: usize,
    },
    /// The alignment check: each text has rare words that the other does not have.
    Facts {
        /// How many, of the text that has fewer.
        own: usize,
        /// Rare words that both texts have.
        common: usize,
    },
    /// The alignment check: each text has too little of the other.
    Part {
        /// The larger ratio of one text that is in the other, 0 to 1.
        most: f32,
        /// The smaller one.
        least: f32,
    },
    /// The near fingerprint is boilerplate that unrelated texts share.
    Boilerplate,
    /// Short texts under different titles that they have nothing of.
    Titles,
    /// The tree is page chrome: navigation and notices instead of an article.
    PageChrome,
    /// The tree has as many documents as one may have.
    Full,
    /// Too far from the root for a text this short: more letters differ than are allowed for the longer of the two.
    Radius {
        /// Letters of the longer text.
        letters: usize,
        /// How many of them may differ.
        allowed: usize,
    },
}

/// A refusal without its figures, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// [`Refusal::Proof`].
    Proof,
    /// [`Refusal::Numbers`] and [`Refusal::OtherNumbers`].
    Numbers,
    /// [`Refusal::Boilerplate`].
    Boilerplate,
    /// [`Refusal::Titles`].
    Titles,
    /// [`Refusal::Page chrome`].
    PageChrome,
    /// [`Refusal::Full`].
    Full,
    /// [`Refusal::Radius`].
    Radius,
    /// [`Refusal::Names`].
    Names,
    /// [`Refusal::Facts`].
    Facts,
    /// [`Refusal::Part`].
    Part,
}

/// How often each reason occurred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasons([u64; Reason::ALL.len()]);

impl Refusal {
    /// Whether the texts were laid side by side for it.
    pub fn is_of_alignment_check(self) -> bool {
        matches!(
            self,
            Refusal::OtherNumbers { .. } | Refusal::Names { .. } | Refusal::Facts { .. } | Refusal::Part { .. }
        )
    }

    /// The reason without its figures.
    pub fn reason(self) -> Reason {
        match self {
            Refusal::Proof { .. } => Reason::Proof,
            Refusal::Numbers { .. } | Refusal::OtherNumbers { .. } => Reason::Numbers,
            Refusal::Names { .. } => Reason::Names,
            Refusal::Facts { .. } => Reason::Facts,
            Refusal::Part { .. } => Reason::Part,
            Refusal::Boilerplate => Reason::Boilerplate,
            Refusal::Titles => Reason::Titles,
            Refusal::PageChrome => Reason::PageChrome,
            Refusal::Full => Reason::Full,
            Refusal::Radius { .. } => Reason::Radius,
        }
    }
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 10] = [
        Reason::Proof,
        Reason::Numbers,
        Reason::Boilerplate,
        Reason::Titles,
        Reason::PageChrome,
        Reason::Full,
        Reason::Radius,
        Reason::Names,
        Reason::Facts,
        Reason::Part,
    ];

    /// Its name in logs, metrics and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Proof => "proof",
            Reason::Numbers => "numbers",
            Reason::Boilerplate => "boilerplate",
            Reason::Titles => "titles",
            Reason::PageChrome => "page_chrome",
            Reason::Full => "full",
            Reason::Radius => "radius",
            Reason::Names => "names",
            Reason::Facts => "facts",
            Reason::Part => "part",
        }
    }
}

impl Reasons {
    /// Counts one refusal.
    pub fn add(&mut self, reason: Reason) {
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// Every reason with its count, in the order of [`Reason::ALL`].
    pub fn all(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.0)
    }
}

/// Formats reason and figures: `numbers: 2 of 7 numbers in the same places differ`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.reason().as_str())?;
        match self {
            Refusal::Proof { similarity, needed } => {
                write!(f, "the similarity is {similarity:.2}, needed is {needed:.2}")
            }
            Refusal::Numbers { same, different } => {
                let all = same + different;
                write!(f, "{different} of {all} numbers in the same places differ")
            }
            Refusal::OtherNumbers { different, words } => {
                write!(f, "others stand in {different} places of {words} words that are the same")
            }
            Refusal::Names { places, words } => {
                write!(f, "{places} names differ in {words} words that are the same")
            }
            Refusal::Facts { own, common } => {
                write!(f, "each text has {own} rare words that the other has not, and both have {common}")
            }
            Refusal::Part { most, least } => {
                write!(f, "of the one text {most:.2} is in the other, of the other {least:.2}")
            }
            Refusal::Boilerplate => f.write_str("only sentences that are boilerplate are near"),
            Refusal::Titles => f.write_str("so few words under another title are not the same text"),
            Refusal::PageChrome => f.write_str("what stands under many titles is no text of any of them"),
            Refusal::Full => f.write_str("the tree has as many documents as max-tree allows"),
            Refusal::Radius { letters, allowed } => {
                write!(f, "more than {allowed} of {letters} letters differ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_as_people_read_them() {
        let proof = Refusal::Proof { similarity: 0.206, needed: 0.43 };
        let numbers = Refusal::Numbers { same: 5, different: 2 };
        let radius = Refusal::Radius { letters: 27, allowed: 5 };
        for (refusal, text) in [
            (proof, "proof: the similarity is 0.21, needed is 0.43"),
            (numbers, "numbers: 2 of 7 numbers in the same places differ"),
            (Refusal::Boilerplate, "boilerplate: only sentences that are boilerplate are near"),
            (radius, "radius: more than 5 of 27 letters differ"),
        ] {
            assert_eq!(refusal.to_string(), text);
        }
    }

    #[test]
    fn each_reason_is_counted_by_itself() {
        let mut reasons = Reasons::default();
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            (0..=at).for_each(|_| reasons.add(reason));
        }
        let counts: Vec<_> = reasons.all().map(|(r, n)| (r.as_str(), n)).collect();
        let expected = [
            ("proof", 1),
            ("numbers", 2),
            ("boilerplate", 3),
            ("titles", 4),
            ("page_chrome", 5),
            ("full", 6),
            ("radius", 7),
            ("names", 8),
            ("facts", 9),
            ("part", 10),
        ];
        assert_eq!(counts, expected);
    }
}
