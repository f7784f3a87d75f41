//! The result of stamping a request body: its edits, placements and counts.

use std::time::Duration;

use super::placed::HeldDocuments;
use super::{Explanation, Unstamped};
use crate::bulk::Splice;
use crate::forest::Root;
use crate::method::Stage;
use crate::method::{Reasons, Refusal};

/// Most refusals kept per document for the log; all are counted.
const KEPT: usize = 8;

/// Most unstamped documents kept for the log; all are counted.
const MAX_UNSTAMPED: usize = 16;

/// Counts of the documents of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StampTally {
    /// Documents with a stamp.
    pub stamped: u64,
    /// Stamped documents without usable text.
    pub without_text: u64,
    /// Documents of routed indices that are forwarded without a stamp.
    pub unstamped: u64,
    /// Documents that joined an existing tree.
    pub joined: u64,
    /// Documents that the local fallback placed, because Redis was away.
    pub local_fallback: u64,
}

/// A stamped body: edits over the original bytes, and the nodes that are to be settled.
#[derive(Debug, Default)]
pub struct Stamped {
    pub(super) splice: Splice,
    pub(super) placed: HeldDocuments,
    pub(super) tally: StampTally,
    pub(super) learned: Vec<String>,
    pub(super) stages: Vec<(usize, Stage)>,
    pub(super) refused: Vec<RefusedTree>,
    pub(super) reasons: Reasons,
    /// `None` if not requested.
    pub(super) explanations: Option<Vec<Explanation>>,
    pub(super) unstamped_documents: Vec<UnstampedDocument>,
    /// The first unstamped document that a server may store. `unstamped_documents` may lack it, since that keeps the
    /// first few of all.
    pub(super) may_be_stored: Option<UnstampedDocument>,
    pub(super) waited: Duration,
}

/// A candidate that refused a document, which therefore founded a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefusedTree {
    /// Index of the document's item in the body.
    pub item: usize,
    /// Root of the tree that the document founded.
    pub root: Root,
    /// Root of the candidate.
    pub tree: Root,
    /// Why the candidate refused the document.
    pub refusal: Refusal,
}

/// A document of a routed index that is forwarded unstamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnstampedDocument {
    /// Index of the document's item in the body.
    pub item: usize,
    /// Why the document has no stamp.
    pub reason: Unstamped,
}

impl StampTally {
    /// Adds the counts of another request.
    pub fn add(&mut self, other: StampTally) {
        self.stamped += other.stamped;
        self.without_text += other.without_text;
        self.unstamped += other.unstamped;
        self.joined += other.joined;
        self.local_fallback += other.local_fallback;
    }
}

impl Stamped {
    /// Counts of the documents.
    pub fn tally(&self) -> StampTally {
        self.tally
    }

    /// The stage that found each document's tree, by item; for the method `staged`.
    pub fn stages(&self) -> &[(usize, Stage)] {
        &self.stages
    }

    /// The candidates that refused founders, in the order of items; the first few of each founder.
    pub fn refused(&self) -> &[RefusedTree] {
        &self.refused
    }

    /// Number of candidates that refused founders, by reason.
    pub fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// Sentences that these documents turned into boilerplate: cleaned, in the order in which they became it.
    pub fn learned(&self) -> &[String] {
        &self.learned
    }

    /// The first few unstamped documents of routed indices, in the order of items.
    pub fn unstamped_documents(&self) -> &[UnstampedDocument] {
        &self.unstamped_documents
    }

    /// The first document that a server may store without a stamp.
    pub fn may_be_stored(&self) -> Option<&UnstampedDocument> {
        self.may_be_stored.as_ref()
    }

    /// Explanations of documents with usable text, in the order of placement; empty unless requested by
    /// [`Engine::with_explanations`](super::Engine::with_explanations).
    pub fn explanations(&self) -> &[Explanation] {
        self.explanations.as_deref().unwrap_or_default()
    }

    /// How long the documents waited for their forests.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Records a document that is forwarded unstamped.
    pub(super) fn leave(&mut self, item: usize, reason: Unstamped) {
        self.tally.unstamped += 1;
        if self.may_be_stored.is_none() && reason.may_be_stored() {
            self.may_be_stored = Some(UnstampedDocument { item, reason: reason.clone() });
        }
        if self.unstamped_documents.len() < MAX_UNSTAMPED {
            self.unstamped_documents.push(UnstampedDocument { item, reason });
        }
    }

    /// Takes the placements to settle.
    pub fn take_placed(&mut self) -> HeldDocuments {
        std::mem::take(&mut self.placed)
    }

    /// Splits into the edits of the body, and the placements to settle.
    pub fn into_parts(self) -> (Splice, HeldDocuments) {
        (self.splice, self.placed)
    }

    /// Records the candidates that refused the founder of `root`.
    pub(super) fn refuse(&mut self, item: usize, root: Root, refused: &[(Root, Refusal)]) {
        for &(_, refusal) in refused {
            self.reasons.add(refusal.reason());
        }
        let kept = refused.iter().take(KEPT).map(|&(tree, refusal)| RefusedTree { item, root, tree, refusal });
        self.refused.extend(kept);
    }
}
