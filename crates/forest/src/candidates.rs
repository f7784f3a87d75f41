//! The candidates of a document as values: what the placement rules read of a forest, wherever it is stored.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

use smallvec::SmallVec;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Differences, FeatureQuery, Refusal};

use super::Root;
use crate::time::Millis;

/// A vector whose inline capacity suffices for most queries.
pub(super) type InlineVec<T> = SmallVec<[T; FEW]>;

const FEW: usize = 8;

/// The read set of one query: nodes and trees that are alive at the time of the read.
#[derive(Debug)]
pub(super) struct Candidates<'f, P> {
    /// For each fingerprint of the query, in its order.
    pub(super) fingerprints: InlineVec<FingerprintMatches>,
    /// The tree of the node of the hash of the whole text.
    pub(super) whole: Option<TreeIndex>,
    /// For each of [`FeatureQuery::known_by`]: the tree whose root it is.
    pub(super) known_by: InlineVec<Option<TreeIndex>>,
    /// The trees near the fingerprints; [`FingerprintMatches::near`] refers to them by index.
    pub(super) near: InlineVec<TreeIndex>,
    /// Every tree that was met, once.
    pub(super) trees: InlineVec<CandidateTree<'f, P>>,
    /// The prior assignment of the document, if it has one.
    pub(super) given: Option<PriorAssignment>,
    /// Fingerprints of the query that other documents will use as roots.
    pub(super) reserved: Vec<Fingerprint>,
    /// The slots of the text's hash, of the hash of that hash, and so on, as far as the rules have requested them.
    pub(super) hashes: Vec<RootSlot>,
}

/// Place of a tree in [`Candidates::trees`].
pub(super) type TreeIndex = usize;

/// The nodes of the forest at and near one fingerprint.
#[derive(Debug, Clone, Default)]
pub(super) struct FingerprintMatches {
    /// The tree of the node with exactly this fingerprint.
    pub(super) own: Option<TreeIndex>,
    /// The trees with a node within k, each once, as a range of [`Candidates::near`]; `None`: not read yet.
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
    /// The founder tokens, if they are available.
    pub(super) founder_tokens: Option<&'f [u16]>,
    /// The cached verdict of the proof, with the number of shared fingerprints it holds for: an alignment check is
    /// expensive.
    pub(super) verdict: Cell<Option<(usize, Result<(), Refusal>)>>,
    /// The differences between the two texts, as far as they have been aligned.
    pub(super) laid: Cell<Option<Differences>>,
    /// Why the tree accepts no further documents, if it is closed or at its size limit.
    pub(super) closed: Option<Refusal>,
}

/// A root that was assigned to a document before its placement, by a dry placement or in the index.
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

/// The prior root of a document, as its caller states it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriorClaim<'a> {
    pub(super) root: Root,
    /// `None`: a dry placement assigned it, and only the document's writer has seen it.
    pub(super) stored: Option<StoredRoot>,
    /// Roots whose trees are founded later: no leaf may take their fingerprints.
    pub(super) reserved: Option<&'a HashSet<Fingerprint>>,
}

impl<'a> PriorClaim<'a> {
    /// Of a document that was placed dryly. `given`: the roots of all documents of its request that were.
    pub(super) fn by_dry_placement(root: Root, given: &'a HashSet<Fingerprint>) -> Self {
        PriorClaim { root, stored: None, reserved: Some(given) }
    }
}

/// The properties of a root that is stored with a document in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredRoot {
    /// Whether the proof of its tree equals that of its founder, as far as can be determined; without a tree: whether
    /// the document may be the founder.
    pub(super) is_proved: bool,
    /// Whether its root may replace a leaf: a recovery places documents in another order than the original one.
    pub(super) goes_before_leaves: bool,
}

/// The state of the forest at a possible root.
#[derive(Debug, Clone, Copy)]
pub(super) struct RootSlot {
    /// The tree in which the hash has a node.
    pub(super) own: Option<TreeIndex>,
    /// It can be written, and no root is within k.
    pub(super) may_be_root: bool,
}

impl FingerprintMatches {
    /// Whether it was read and nothing is near.
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

    /// Candidate trees without founder tokens.
    pub(super) fn without_founder_tokens(&self) -> usize {
        let asked = self.trees.iter().filter(|tree| tree.verdict.get().is_some());
        asked.filter(|tree| tree.founder_tokens.is_none()).count()
    }

    /// The fingerprints of the query that have no node within k.
    pub(super) fn isolated<'a>(&'a self, query: &'a FeatureQuery<'_, P>) -> impl Iterator<Item = Fingerprint> + 'a {
        let spots = self.fingerprints.iter().zip(query.fingerprints);
        let isolated = spots.filter(|(spot, _)| spot.is_isolated());
        isolated.map(|(_, &fingerprint)| fingerprint)
    }
}
