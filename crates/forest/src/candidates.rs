//! What the placement rules see of a forest, as values: independent of where the forest is stored.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

use smallvec::SmallVec;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Differences, PlacementQuery, Refusal};

use super::Root;
use crate::time::Millis;

/// So many of a kind that most looks need no memory for them but their own.
pub(super) type InlineVec<T> = SmallVec<[T; FEW]>;

const FEW: usize = 8;

/// The read set of one query: nodes and trees that are alive at the time of the read.
#[derive(Debug)]
pub(super) struct Candidates<'f, P> {
    /// For each fingerprint of the query, in its order.
    pub(super) fingerprints: InlineVec<FingerprintMatches>,
    /// The tree of the node of the hash of the whole text.
    pub(super) whole: Option<TreeIndex>,
    /// For each of [`PlacementQuery::known_by`]: the tree of which it is the root.
    pub(super) known_by: InlineVec<Option<TreeIndex>>,
    /// The trees near the fingerprints; [`FingerprintMatches::near`] refers to them by index.
    pub(super) near: InlineVec<TreeIndex>,
    /// Every tree that was met, once.
    pub(super) trees: InlineVec<CandidateTree<'f, P>>,
    /// The root that the document was given already, if it was.
    pub(super) given: Option<PriorAssignment>,
    /// The fingerprints of the query that are to be roots of trees to come.
    pub(super) reserved: Vec<Fingerprint>,
    /// The places of the text's hash, of the hash of that hash, and so on, as far as they were asked for.
    pub(super) hashes: Vec<RootSlot>,
}

/// Place of a tree in [`Candidates::trees`].
pub(super) type TreeIndex = usize;

/// What the forest has at and near one fingerprint.
#[derive(Debug, Clone, Default)]
pub(super) struct FingerprintMatches {
    /// The tree of its own node.
    pub(super) own: Option<TreeIndex>,
    /// The trees with a node within k, each once, as a range of [`Candidates::near`]; `None`: not looked at yet.
    pub(super) near: Option<Range<usize>>,
}

/// A tree that was met.
#[derive(Debug)]
pub(super) struct CandidateTree<'f, P> {
    pub(super) root: Root,
    pub(super) added: Millis,
    /// `None`: not counted yet.
    pub(super) children: Option<u32>,
    /// The founder's proof. Every root has one.
    pub(super) proof: Option<&'f P>,
    /// More of its founder's text, if it is at hand.
    pub(super) founder_tokens: Option<&'f [u16]>,
    /// The verdict of the proof for so many fingerprints in common, cached: an alignment check is expensive.
    pub(super) verdict: Cell<Option<(usize, Result<(), Refusal>)>>,
    /// The differences between the two texts, as far as they have been aligned.
    pub(super) laid: Cell<Option<Differences>>,
    /// Why the tree accepts no further documents, if it is closed or at its size limit.
    pub(super) closed: Option<Refusal>,
}

/// A root that a document was given before it is placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriorAssignment {
    pub(super) root: Root,
    /// Its tree, if it has one.
    pub(super) tree: Option<TreeIndex>,
    /// Whether a root may be placed here: no node is at this fingerprint, and no root within k.
    pub(super) is_free: bool,
    /// The root is stored with the document, and is therefore kept.
    pub(super) stored: Option<StoredRoot>,
}

/// A root that a document has already, as it is brought to a forest.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriorClaim<'a> {
    pub(super) root: Root,
    /// `None`: a dry placement assigned it, and only the document's writer has seen it.
    pub(super) stored: Option<StoredRoot>,
    /// Roots of which the trees are still to come: no leaf may take their places.
    pub(super) reserved: Option<&'a HashSet<Fingerprint>>,
}

impl<'a> PriorClaim<'a> {
    /// Of a document that was placed dryly. `given`: the roots of all documents of its request that were.
    pub(super) fn by_dry_placement(root: Root, given: &'a HashSet<Fingerprint>) -> Self {
        PriorClaim { root, stored: None, reserved: Some(given) }
    }
}

/// What is known of a root that is stored with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredRoot {
    /// Whether the proof of its tree equals that of its founder, as far as can be determined; without a tree: whether
    /// the document may be the founder.
    pub(super) is_proved: bool,
    /// Its root may take the place of a leaf: the forest is made anew, and the leaf came in another order than it did.
    pub(super) goes_before_leaves: bool,
}

/// What the forest has at the place of a possible root.
#[derive(Debug, Clone, Copy)]
pub(super) struct RootSlot {
    /// The tree in which the hash has a node.
    pub(super) own: Option<TreeIndex>,
    /// It can be written, and no root is within k.
    pub(super) may_be_root: bool,
}

impl FingerprintMatches {
    /// Whether it was looked at and nothing is near.
    pub(super) fn is_isolated(&self) -> bool {
        self.near.as_ref().is_some_and(Range::is_empty)
    }
}

impl<P> Candidates<'_, P> {
    pub(super) fn new() -> Self {
        Candidates {
            fingerprints: InlineVec::new(),
            whole: None,
            known_by: InlineVec::new(),
            near: InlineVec::new(),
            trees: InlineVec::new(),
            given: None,
            reserved: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// Trees that were asked about the document and have no evidence.
    pub(super) fn without_founder_tokens(&self) -> usize {
        let asked = self.trees.iter().filter(|tree| tree.verdict.get().is_some());
        asked.filter(|tree| tree.founder_tokens.is_none()).count()
    }

    /// The fingerprints of the query that have no node within k.
    pub(super) fn isolated<'a>(&'a self, query: &'a PlacementQuery<'_, P>) -> impl Iterator<Item = Fingerprint> + 'a {
        let spots = self.fingerprints.iter().zip(query.fingerprints);
        let isolated = spots.filter(|(spot, _)| spot.is_isolated());
        isolated.map(|(_, &fingerprint)| fingerprint)
    }
}
