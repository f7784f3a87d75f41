//! The placement query: fingerprints of a document, and the proof that is compared with roots.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use super::Refusal;
use super::aligned_tokens::LearnedView;
use super::differences::Differences;
use crate::fingerprint::Fingerprint;
use crate::hash::mix32;

/// A proof: a few bytes at each root by which a candidate is verified. Comparing with the root, never with a leaf,
/// bounds drift: there are no chains.
pub trait Proof: Clone {
    /// Whether fingerprints are looked up one after the other until one finds a tree that the document may join.
    /// Otherwise all of them bring candidates.
    const IN_TURN: bool = false;
    /// Whether a founder also adds leaves for fingerprints near trees that refused it: with only one fingerprint it
    /// could not be found again otherwise.
    const CROWDED: bool = false;
    /// Whether the proofs of two roots show that their trees are one.
    const TELLS_OF_ROOTS: bool = false;
    /// Most candidates near one fingerprint: the nearest, then those with the smallest fingerprints. Bounds the work
    /// for a document where a crowd is no accident.
    const CANDIDATES: usize = usize::MAX;
    /// Thresholds of comparisons, the same for a whole forest.
    type Thresholds: Copy + Default + Debug + Send + Sync;

    /// Compares by alignment: the [tokens](FeatureQuery::tokens) of this document with those of the root's founder, by
    /// the learned text of the forest. `laid` caches their differences, which are the same for every root of that
    /// founder and expensive.
    ///
    /// # Errors
    /// As [`agrees`](Proof::agrees).
    fn agrees_by(
        &self,
        (_tokens, _learned): (&[u16], LearnedView<'_>),
        (root, _founders): (&Self, &[u16]),
        shared: usize,
        thresholds: Self::Thresholds,
        _laid: &Cell<Option<Differences>>,
    ) -> Result<(), Refusal> {
        self.agrees(root, shared, thresholds)
    }

    /// Whether a root with this proof was founded by the text with this hash; never where the proof does not keep it.
    fn is_of_text(&self, _whole: Fingerprint) -> bool {
        false
    }

    /// The number of titles, of this document and of the root, that the text has nothing of: a sign of page chrome.
    fn foreign_titles(&self, _root: &Self) -> usize {
        0
    }

    /// Whether a document with this proof may join the tree whose root has the other one. `shared` is how many of the
    /// document's fingerprints are near a node of that tree; all of them count when the text itself was placed there.
    /// Must be `Ok` for a proof and itself on any thresholds, so that a document that comes again finds its own tree.
    ///
    /// # Errors
    /// The reason why it may not.
    fn agrees(&self, root: &Self, shared: usize, thresholds: Self::Thresholds) -> Result<(), Refusal>;

    /// Bytes of memory held besides the value itself.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// The figures behind the verdict, for display. `laid`: the differences by which [`agrees_by`](Proof::agrees_by)
    /// decided, if it aligned the texts.
    fn measure(&self, _root: &Self, _shared: usize, _: Self::Thresholds, _laid: Option<Differences>) -> Measure {
        Measure::None
    }
}

/// Measurement of a proof.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// No proof was compared.
    None,
    /// Method `verified`, decided by proofs: similarity from 0 to 1, that of the titles if both texts have one, and
    /// numbers in the same places.
    Proof {
        /// Estimated share of the phrases in either text that both have.
        similarity: f32,
        /// Required value.
        needed: f32,
        /// The similarity of the titles.
        titles: Option<f32>,
        /// Places with the same number.
        same: usize,
        /// Places with different numbers.
        different: usize,
    },
    /// Of the method `verified`, where the alignment check decided.
    Alignment {
        /// Estimated share of the phrases in either text that both have.
        similarity: f32,
        /// The differences that decided.
        differences: Differences,
    },
    /// Of short texts: how many letters differ, if no more than are allowed.
    Edits(Option<usize>),
}

/// No proof: under the strict rules near is enough.
impl Proof for () {
    type Thresholds = ();

    fn agrees(&self, (): &(), _: usize, (): ()) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The placement query of a document.
#[derive(Debug, Clone, Copy)]
pub struct FeatureQuery<'a, P = ()> {
    /// The document's fingerprints, the most telling first.
    pub fingerprints: &'a [Fingerprint],
    /// All fingerprints, beginning with these: looked up if an alignment check refuses all candidates, since two texts
    /// of one form share their first ones. Empty where there are no more.
    pub more: &'a [Fingerprint],
    /// Hash of the whole text. Identifies the document where its fingerprints alone would not find its root again,
    /// and is the root where no fingerprint can be. Under the strict rules it is the only fingerprint.
    pub whole: Fingerprint,
    /// Fingerprints that identify the founder of a tree again: they do not depend on boilerplate, unlike
    /// `fingerprints`. Empty where the proof does not keep the text ([`Proof::is_of_text`]).
    pub known_by: &'a [Fingerprint],
    /// Proof that is compared with near roots, and kept if the document founds a tree.
    pub proof: &'a P,
    /// Founder tokens for [`Proof::agrees_by`], stored separately for a while if the document founds a tree. As many as
    /// the method's alignment takes at most; may be empty.
    pub tokens: &'a [u16],
    /// The learned text for the comparison of tokens.
    pub learned: LearnedView<'a>,
    /// How many nodes the fingerprints may take in the document's tree, at least 1: existing nodes first, then new
    /// ones in order. The others are only looked up.
    pub take: usize,
    /// Whether only the hash of the text identifies an earlier placement: other texts may share all fingerprints.
    pub known_by_whole: bool,
    /// Tallies of earlier documents of the same request.
    pub earlier: Option<&'a Tallies>,
}

/// Tally of a tree: its documents, their titles, and signs of page chrome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct TreeTally {
    /// Documents including repeated ones, saturating.
    pub documents: u32,
    /// A bit per title, by its hash: the number of titles is estimated from the set bits.
    titles: u64,
    /// Signs that it is page chrome.
    signs: u8,
    /// The title that was the last sign.
    last: u32,
}

/// One document that counts at its tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TallyEntry {
    /// The number of its title.
    pub title: Option<u32>,
    /// How much of a sign it is that the tree is page chrome, 0 to [`TreeTally::PAGE_CHROME`].
    pub sign: u8,
}

impl TreeTally {
    /// The sum of signs from which on a tree is page chrome.
    pub const PAGE_CHROME: u8 = 8;
    /// The sign of a short page whose text has nothing of its own title nor of the founder's.
    pub const BOTH_FOREIGN: u8 = 4;
    /// Weight where the text has something of the founder's title.
    pub const OWN_FOREIGN: u8 = 2;
    /// The sign of other documents.
    pub const FOREIGN: u8 = 1;

    /// One document, whose title is not known.
    pub fn of_founder() -> TreeTally {
        TreeTally { documents: 1, ..TreeTally::default() }
    }

    /// Counts one document.
    pub fn add(&mut self, count: TallyEntry) {
        self.documents = self.documents.saturating_add(1);
        let Some(title) = count.title else { return };
        self.titles |= 1 << (mix32(title) % 64);
        if count.sign > 0 && (self.signs == 0 || self.last != title) {
            self.signs = self.signs.saturating_add(count.sign).min(Self::PAGE_CHROME);
            self.last = title;
        }
    }

    /// Adds a later tally.
    pub fn add_all(&mut self, other: &TreeTally) {
        self.documents = self.documents.saturating_add(other.documents);
        self.titles |= other.titles;
        if other.signs > 0 {
            self.signs = self.signs.saturating_add(other.signs).min(Self::PAGE_CHROME);
            self.last = other.last;
        }
    }

    /// Documents, titles, signs and the last sign, to be written down.
    pub fn parts(&self) -> (u32, u64, u8, u32) {
        (self.documents, self.titles, self.signs, self.last)
    }

    /// Inverse of [`parts`](TreeTally::parts).
    pub fn of_parts(documents: u32, titles: u64, signs: u8, last: u32) -> TreeTally {
        TreeTally { documents, titles, signs, last }
    }

    /// Estimated number of different titles, without the founder's; 250 means 250 or more.
    pub fn titles(&self) -> u32 {
        // Linear counting (Whang, Vander-Zanden and Taylor, 1990).
        let free = f64::from(self.titles.count_zeros().max(1)) / 64.0;
        let estimate = -64.0 * free.ln();
        // A sign has another title than the founder.
        (estimate.round() as u32 + u32::from(self.signs > 0)).min(250)
    }

    /// Whether it is a tree of page chrome.
    pub fn is_page_chrome(&self) -> bool {
        self.signs >= Self::PAGE_CHROME
    }

    /// Why a tree with this tally admits no new documents, if so. `most`: its largest size.
    pub fn closed(&self, most: Option<u32>) -> Option<Refusal> {
        let documents = self.documents;
        if self.is_page_chrome() {
            Some(Refusal::PageChrome)
        } else if most.is_some_and(|most| documents >= most) {
            Some(Refusal::Full)
        } else {
            None
        }
    }

    /// Weight of a joining document as a sign of page chrome, from [`Proof::foreign_titles`] and whether only the
    /// hash of its text identifies it.
    pub fn sign(foreign: usize, known_by_whole: bool) -> u8 {
        match (foreign, known_by_whole) {
            (0, _) => 0,
            (1, true) => Self::OWN_FOREIGN,
            (_, true) => Self::BOTH_FOREIGN,
            (_, false) => Self::FOREIGN,
        }
    }
}

/// Tallies of the documents of one request, by tree.
#[derive(Debug, Clone, Default)]
pub struct Tallies(BTreeMap<Fingerprint, TreeTally>);

impl Tallies {
    /// Counts a document at the tree of this root.
    pub fn add(&mut self, root: Fingerprint, count: TallyEntry) {
        self.0.entry(root).or_default().add(count);
    }

    /// Tally of a tree.
    pub fn of(&self, root: Fingerprint) -> Option<&TreeTally> {
        self.0.get(&root)
    }
}

impl<'a> FeatureQuery<'a> {
    /// Query under the strict rules: one fingerprint, no proof.
    pub fn strict(fingerprint: &'a Fingerprint) -> Self {
        FeatureQuery {
            fingerprints: std::slice::from_ref(fingerprint),
            more: &[],
            whole: *fingerprint,
            known_by: &[],
            proof: &(),
            tokens: &[],
            learned: LearnedView::default(),
            take: 1,
            known_by_whole: false,
            earlier: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn count(title: Option<u32>, sign: u8) -> TallyEntry {
        TallyEntry { title, sign }
    }

    #[test]
    fn signs_are_different_titles() {
        let mut tally = TreeTally::default();
        for (title, page_chrome) in [(1, false), (1, false), (2, true), (2, true)] {
            tally.add(count(Some(title), TreeTally::BOTH_FOREIGN));
            assert_eq!(tally.is_page_chrome(), page_chrome);
        }
        let mut tally = TreeTally::default();
        for title in 0..7 {
            tally.add(count(Some(title), TreeTally::FOREIGN));
            tally.add(count(Some(100), 0));
            tally.add(count(None, 0));
        }
        assert!(!tally.is_page_chrome());
        tally.add(count(Some(7), TreeTally::FOREIGN));
        assert!(tally.is_page_chrome());
        assert_eq!(tally.documents, 22);
    }

    #[test]
    fn titles_are_estimated_from_their_bits() {
        let titles = |bits: u32, signs| TreeTally::of_parts(9, (1u64 << bits) - 1, signs, 0).titles();
        // Without any, with few, of which as good as no two have one bit, and with half of them: 64 ln 2.
        assert_eq!([0, 1, 3, 32].map(|bits| titles(bits, 0)), [0, 1, 3, 44]);
        assert_eq!([0, 1, 3, 32].map(|bits| titles(bits, 1)), [1, 2, 4, 45]);
        assert_eq!(TreeTally::of_parts(9, u64::MAX, 1, 0).titles(), 250);
    }

    proptest! {
        /// Few titles are counted nearly exactly, and what is counted in two parts is what is counted at once.
        #[test]
        fn a_tally_as_the_naive_one(
            counts in prop::collection::vec((prop::option::of(0u32..40), 0u8..=4), 0..60),
            cut: prop::sample::Index,
        ) {
            let mut whole = TreeTally::default();
            let (mut first, mut second) = (TreeTally::default(), TreeTally::default());
            let cut = cut.index(counts.len() + 1);
            for (at, &(title, sign)) in counts.iter().enumerate() {
                whole.add(count(title, sign));
                let part = if at < cut { &mut first } else { &mut second };
                part.add(count(title, sign));
            }
            first.add_all(&second);
            prop_assert_eq!(whole.documents as usize, counts.len());
            prop_assert_eq!((first.documents, first.titles), (whole.documents, whole.titles));
            // A title on both sides of the cut may count twice.
            prop_assert!(first.is_page_chrome() || !whole.is_page_chrome());
            let titles: BTreeSet<u32> = counts.iter().filter_map(|&(title, _)| title).collect();
            let estimate = f64::from(whole.titles() - u32::from(whole.signs > 0));
            prop_assert!((estimate - titles.len() as f64).abs() <= 2.0 + titles.len() as f64 / 2.0, "{} for {}", estimate, titles.len());
        }
    }
}
