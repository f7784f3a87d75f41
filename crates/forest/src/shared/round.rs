//! Values that travel between the steps of a placement: requests, documents, answers and claims.

use std::time::{Duration, Instant};

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FeatureQuery, LearnedView, Lesson, MethodKind, Proof, Stage};

use super::read_set::{DecidedDocument, MissingKeys, ReadValues};
use crate::DocumentHash;
use crate::batch_plan::BatchPlan;
use crate::document::ForestDocument;
use crate::port::{Batch, BatchReply, Commit, DocumentReply, EarlierDocuments, NotPlaced, Unavailable};
use crate::promise::Promise;
use crate::time::Millis;
use crate::undo_guard::UndoGuard;
use crate::{Rollback, Root};

/// The documents of a request that are being placed, or a part of them.
pub(super) struct PendingBatch {
    /// Unplaced documents. Before its first turn they are `documents`, and have no times.
    pub(super) work: Vec<DocumentInProgress>,
    pub(super) documents: Vec<ForestDocument>,
    /// Those that are placed; withdrawn if the others fail.
    pub(super) done: Vec<DocumentInProgress>,
    /// As requested.
    pub(super) commit: Commit,
    pub(super) earlier: EarlierDocuments,
    /// State of the request's earlier documents when they were queued.
    pub(super) came_with: EarlierDocuments,
    pub(super) replies: Vec<Option<DocumentReply>>,
    pub(super) attempt: u32,
    pub(super) pause: Duration,
    pub(super) begun: Instant,
    /// The receiver of the reply may have been dropped.
    pub(super) answer: BatchAnswer,
}

/// The promise to a request.
type BatchAnswer = Promise<Result<UndoGuard<BatchReply>, NotPlaced<Batch>>>;

impl PendingBatch {
    pub(super) fn len(&self) -> usize {
        self.work.len() + self.documents.len()
    }

    /// All of its documents, as they came.
    pub(super) fn into_batch(self) -> (Batch, BatchAnswer) {
        let mut work: Vec<DocumentInProgress> = self.done.into_iter().chain(self.work).collect();
        work.sort_by_key(|work| work.place);
        let documents = work.into_iter().map(|work| work.document);
        let batch = Batch {
            documents: documents.chain(self.documents).collect(),
            commit: self.commit,
            earlier: self.came_with,
        };
        (batch, self.answer)
    }
}

/// A document that is being placed.
pub(super) struct DocumentInProgress {
    /// Its request, by its place among those that are placed together.
    pub(super) request: usize,
    /// Its place in the request.
    pub(super) place: usize,
    pub(super) document: ForestDocument,
    /// The time in its reply.
    pub(super) now: Option<Millis>,
    /// When it arrives. It founds with this rank, however often it is tried.
    pub(super) at: Millis,
    /// Time that it has waited for other processes.
    pub(super) waited: Duration,
}

/// The query of a document, for the recheck.
#[derive(Debug, Clone)]
pub(super) struct RecheckQuery<P> {
    pub(super) fingerprints: Vec<Fingerprint>,
    pub(super) known_by: Vec<Fingerprint>,
    pub(super) whole: Fingerprint,
    pub(super) proof: P,
    pub(super) tokens: Vec<u16>,
    pub(super) take: usize,
    pub(super) known_by_whole: bool,
    /// Trees that refused it: the recheck does not see the request's own counts there.
    pub(super) refused: Vec<Root>,
    /// It has a prior assignment, which only its own text overrides.
    pub(super) is_given: bool,
}

impl<P> RecheckQuery<P> {
    pub(super) fn query<'a>(&'a self, learned: LearnedView<'a>) -> FeatureQuery<'a, P> {
        FeatureQuery {
            fingerprints: &self.fingerprints,
            more: &[],
            whole: self.whole,
            known_by: &self.known_by,
            proof: &self.proof,
            tokens: &self.tokens,
            learned,
            take: self.take,
            known_by_whole: self.known_by_whole,
            earlier: None,
        }
    }

    /// Whether the proof of a tree with this root will identify its founder: the document looks up that root.
    pub(super) fn is_told_by(&self, root: Root) -> bool
    where
        P: Proof,
    {
        self.known_by.contains(&root.0) && self.proof.is_of_text(self.whole)
    }

    /// All its fingerprints, once each.
    pub(super) fn asked(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        let all = self.fingerprints.iter().chain(&self.known_by);
        all.copied().chain([self.whole])
    }
}

/// The decision on one document.
pub(super) struct DocumentFate<P> {
    pub(super) decided: DecidedDocument,
    pub(super) question: RecheckQuery<P>,
    /// The lesson if it founds a tree.
    pub(super) lesson: Option<Lesson>,
    /// The lesson if it joins a tree in doubt.
    pub(super) lesson_in_doubt: Option<Lesson>,
    /// Whether it has the text that founded its tree.
    pub(super) may_teach: bool,
    pub(super) stage: Option<Stage>,
    /// The first document of its tree.
    pub(super) of_tree: DocumentHash,
}

/// Why documents were not placed, and those that have no place.
pub(super) type Failed = (Unavailable, Vec<DocumentInProgress>);

/// The result of one round of decisions.
pub(super) struct PlacementRound<F: MethodKind> {
    pub(super) work: Vec<DocumentInProgress>,
    /// One for each of `work`.
    pub(super) answers: Vec<Answer<F>>,
    pub(super) read: ReadValues<F::Proof>,
    pub(super) missing: MissingKeys,
    pub(super) plans: BatchPlan<F::Proof>,
}

pub(super) enum Answer<F: MethodKind> {
    /// It has no features.
    None,
    Unread,
    Waits(Vec<Root>),
    Fate(Box<DocumentFate<F::Proof>>),
}

/// The outcome of a document's claims.
#[derive(Debug, Default)]
pub(super) enum ClaimOutcome {
    /// Another process was faster.
    #[default]
    Again,
    /// It is placed.
    Holds(Rollback),
}
