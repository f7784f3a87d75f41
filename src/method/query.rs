//! What the forest is asked with: the fingerprints of a document, and the proof by which it is compared with a root.

use std::fmt::Debug;

use super::Refusal;
use crate::fingerprint::Fingerprint;

/// A few bytes kept at each root by which a candidate is verified before it joins. Comparing with the root, never with
/// a leaf, bounds drift: there are no chains.
pub trait Proof: Clone {
    /// The document's fingerprints are looked up in turn, and the first that finds a tree it may join decides; the
    /// others are not asked. Otherwise all of them bring candidates.
    const IN_TURN: bool = false;
    /// A document that founds a tree also makes those of its fingerprints leaves that are near another tree whose
    /// proof refused it: it could not be found again otherwise where it has only one.
    const CROWDED: bool = false;
    /// Of the trees near one fingerprint the nearest are candidates, at most so many; of equally near ones those with the
    /// smallest fingerprints. Bounds the work for a document where a crowd is no accident.
    const CANDIDATES: usize = usize::MAX;
    /// What proofs are held against besides each other: the same for all of a forest.
    type Thresholds: Copy + Default + Debug + Send + Sync;

    /// Whether a root with this proof was founded by the text with this hash; never where the proof does not keep it.
    fn is_of_text(&self, _whole: Fingerprint) -> bool {
        false
    }

    /// Whether a document with this proof may join the tree whose root has the other one. `shared` is how many of the
    /// document's fingerprints are near a node of that tree; all of them count when the text itself was placed there.
    /// Must be `Ok` for a proof and itself on any thresholds, so that a document that comes again finds its own tree.
    ///
    /// # Errors
    /// The reason why it may not.
    fn agrees(
        &self,
        root: &Self,
        shared: usize,
        thresholds: Self::Thresholds,
    ) -> Result<(), Refusal>;

    /// The figures behind the verdict, for people.
    fn measure(&self, _root: &Self, _shared: usize, _: Self::Thresholds) -> Measure {
        Measure::None
    }
}

/// What a proof found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// There is no proof, or it was not asked.
    None,
    /// Of the method `verified`: similarity from 0 to 1, that of the titles if both texts have one, and numbers in the
    /// same places.
    Text {
        /// Estimated share of the phrases in either text that both have.
        similarity: f32,
        /// What is needed of it.
        needed: f32,
        /// The same share of the titles.
        titles: Option<f32>,
        /// Places with the same number.
        same: usize,
        /// Places with different numbers.
        different: usize,
    },
    /// Of short texts: how many letters differ, if no more than are allowed.
    Edits(Option<usize>),
}

/// No proof, the strict law: near is enough.
impl Proof for () {
    type Thresholds = ();

    fn agrees(&self, (): &(), _: usize, (): ()) -> Result<(), Refusal> {
        Ok(())
    }
}

/// What the forest is told of a document.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a, P = ()> {
    /// The document's fingerprints, the most telling first.
    pub fingerprints: &'a [Fingerprint],
    /// A hash of the whole text. It stands for the document itself where its fingerprints alone would not find its
    /// root again, and is the root where none of them can be. Under the strict law it is the one fingerprint.
    pub whole: Fingerprint,
    /// Fingerprints by which the founder of a tree is known again: the same whenever its text comes, whatever is left
    /// out of `fingerprints` by then. Empty where the proof does not keep the text ([`Proof::is_of_text`]).
    pub known_by: &'a [Fingerprint],
    /// What the near roots' proofs are compared with; kept if the document founds a tree.
    pub proof: &'a P,
    /// How many nodes the fingerprints may have in the document's tree because of it, at least 1: those that stand
    /// there first, then new ones in their order. The others are only looked up.
    pub take: usize,
}

impl<'a> Query<'a> {
    /// The document of the strict law: one fingerprint, no proof.
    pub fn strict(fingerprint: &'a Fingerprint) -> Self {
        Query {
            fingerprints: std::slice::from_ref(fingerprint),
            whole: *fingerprint,
            known_by: &[],
            proof: &(),
            take: 1,
        }
    }
}
