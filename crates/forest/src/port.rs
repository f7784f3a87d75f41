//! The port of a forest: the operations of every implementation, [local](super::local) or shared.
//!
//! A write has two phases. Its documents are placed before it is forwarded, and settled after the cluster has
//! answered. In between the caller holds only [`Ticket`]s.

use std::collections::HashSet;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Lesson, Measure, OwnTokens, Refusal, Stage, Tallies};
use spinney_text::text::boilerplate::PendingSentences;

use super::document::ForestDocument;
use super::overrides::{Override, Overrides, ResolvedDocument, RestampPass};
use super::recovery::RecoveryPass;
use super::{Decision, DocumentHash, ForestStats, LateMergeLog, NearNode, Root, Ticket, TreeNotice, TreeView};
use crate::time::Millis;

/// A forest as the engine sees it.
///
/// A method does its work when it is called, not when its future is first polled, and completes it even if the future
/// is dropped: documents whose placements are dropped are withdrawn, or not placed if they are still queued.
pub trait ForestPort: Debug + Send + Sync {
    /// Finds or creates the node of each document, in the order of the batch. As many replies come back, in the same
    /// order.
    fn place(&self, batch: Batch) -> PlaceHandle<Batch>;

    /// A view of the forest for one request whose documents must leave no trace before the cluster has accepted them.
    fn dry_placement(&self) -> Box<dyn DryPlacement>;

    /// Reports at `now` the outcome of documents that were placed provisionally, all of one request. A node is
    /// removed when the last placement that uses it is refused, or has had an unknown outcome for long enough.
    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> PortHandle<SettleReport>;

    /// Withdraws placements whose outcome has been unknown for longer than clients retry, at most `budget` of them.
    fn forget_unknown(&self, now: Millis, budget: usize) -> PortHandle<SettleReport>;

    /// Checks a document without placing it.
    fn check(&self, document: ForestDocument) -> PortHandle<CheckReply>;

    /// The first documents of trees, in their order; unknown of trees that are not there.
    fn firsts(&self, roots: Vec<Root>) -> PortHandle<Vec<DocumentHash>>;

    /// Remembers the first documents of trees, as they are stored. Trees that are not there are passed over.
    fn set_firsts(&self, firsts: Vec<(Root, DocumentHash)>) -> PortHandle<()>;

    /// A tree by its root.
    fn tree(&self, root: Root) -> PortHandle<Option<TreeView>>;

    /// Adds an override; documents of a pin show the roots `shown`. Returns its number once it is durable; `None` if
    /// the number or size of overrides is at its limit.
    fn add_override(&self, correction: Override, shown: Vec<Root>) -> PortHandle<Option<u64>>;

    /// Removes an override. Returns it once the removal is durable.
    fn undo_override(&self, number: u64) -> PortHandle<Option<Override>>;

    /// Reports that stored documents follow the overrides of this pass, as far as its tasks are still current.
    fn restamped(&self, done: RestampPass) -> PortHandle<()>;

    /// The overrides in force. To be held briefly: a change has to copy what a caller holds.
    fn overrides(&self) -> PortHandle<Arc<Overrides>>;

    /// Groups that may be one.
    fn late_merges(&self) -> PortHandle<LateMergeLog>;

    /// Its size and totals.
    fn stats(&self) -> PortHandle<ForestStats>;

    /// The error that every placement would have, if it is known. Never waits.
    fn unavailable(&self) -> Option<Unavailable>;
}

/// Operations that only a local forest has.
pub trait LocalPort: Send + Sync {
    /// Recovers documents that are stored with their roots ([`ForestDocument::given`]), in arrival order. The recovery
    /// goes from call to call; `over`: no more will come.
    fn recover(&self, documents: Vec<ForestDocument>, recovery: RecoveryPass, over: bool) -> PortHandle<RecoveryPass>;

    /// Removes up to `budget` nodes that have expired at `now`, oldest first; returns how many.
    fn expire(&self, now: Millis, budget: usize) -> PortHandle<usize>;

    /// Sets how many bytes its nodes may take: beyond it the oldest arrivals go before the window's end.
    fn set_memory_limit(&self, bytes: usize) -> PortHandle<()>;

    /// Flushes queued changes to the disk before the process ends. Nothing is placed afterwards.
    fn close(&self);
}

/// A handle on a placement that has begun: as [`PortHandle`], with the documents where there are no placements.
pub type PlaceHandle<D> = PortHandle<BatchReply, NotPlaced<D>>;

/// Why documents were not placed.
#[derive(Debug)]
pub struct NotPlaced<D> {
    /// The reason.
    pub reason: Unavailable,
    /// The documents, returned for another forest to place if Redis [is
    /// unavailable](Unavailable::is_redis_unavailable).
    pub documents: Option<D>,
}

impl<D> From<Unavailable> for NotPlaced<D> {
    fn from(reason: Unavailable) -> NotPlaced<D> {
        NotPlaced { reason, documents: None }
    }
}

impl<D> From<NotPlaced<D>> for Unavailable {
    fn from(not_placed: NotPlaced<D>) -> Unavailable {
        not_placed.reason
    }
}

/// A handle on an operation that has begun at the call, as a `JoinHandle` of tokio is one on a task.
///
/// It resolves to the result. Dropping it does not end the operation; see [`ForestPort`].
#[must_use = "the result says whether the operation was done"]
pub struct PortHandle<T, E = Unavailable>(Pin<Box<dyn Future<Output = Result<T, E>> + Send>>);

impl<T, E> PortHandle<T, E> {
    /// A handle on an operation that has begun and whose result `result` waits for.
    pub fn of(result: impl Future<Output = Result<T, E>> + Send + 'static) -> PortHandle<T, E> {
        PortHandle(Box::pin(result))
    }
}

impl<T: Send + 'static, E: Send + 'static> PortHandle<T, E> {
    /// A handle on an operation that is done.
    pub fn ready(result: Result<T, E>) -> PortHandle<T, E> {
        PortHandle::of(std::future::ready(result))
    }
}

impl<T, E> Future for PortHandle<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        self.0.as_mut().poll(context)
    }
}

/// Why a forest cannot serve an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A panic in the middle of a change left it half changed.
    #[error("the forest '{forest}' is out of service after an internal error ({reason}): restart spinney")]
    Poisoned {
        /// Its name.
        forest: String,
        /// The message of the panic.
        reason: String,
    },
    /// The disk has failed: changes would be lost at the next start.
    #[error("the forest '{forest}' is out of service: {reason}")]
    NotStored {
        /// Its name.
        forest: String,
        /// What failed, and what to do.
        reason: String,
    },
    /// Redis does not respond; retrying may help.
    #[error("the forest '{forest}' cannot be reached: {reason}")]
    Away {
        /// Its name.
        forest: String,
        /// What failed.
        reason: String,
    },
    /// Redis has no memory for new keys.
    #[error("the forest '{forest}' has no room where it is kept: {reason}")]
    Full {
        /// Its name.
        forest: String,
        /// Redis' message, and the way out.
        reason: String,
        /// Whether it has all that it has said before.
        is_all_there: bool,
    },
    /// Other processes were faster again and again. Nothing was changed, and a later try may do it.
    #[error("the forest '{forest}' was changed by others all the time: {reason}")]
    Overtaken {
        /// Its name.
        forest: String,
        /// What the other processes changed.
        reason: String,
    },
    /// The forest cannot do that, now or later.
    #[error("the forest '{forest}' does not take that: {reason}")]
    Unsupported {
        /// Its name.
        forest: String,
        /// The reason, and the way out.
        reason: String,
    },
    /// A job on the threads for text work, or on a forest, panicked.
    #[error("the work failed ({0})")]
    Panicked(String),
    /// The threads that do the work are stopping.
    #[error("spinney is stopping")]
    Stopped,
}

impl Unavailable {
    /// Whether Redis is away or full: then a local fallback may place documents.
    pub fn is_redis_unavailable(&self) -> bool {
        matches!(self, Unavailable::Away { .. } | Unavailable::Full { .. })
    }
}

/// The documents of one request, or a part of them. They are moved, never copied: their features are large.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order in which they are to be placed.
    pub documents: Vec<ForestDocument>,
    /// When they count.
    pub commit: Commit,
    /// State left by earlier documents of the same request.
    pub earlier: EarlierDocuments,
}

/// State that the documents of one request share before it is settled.
#[derive(Debug, Clone, Default)]
pub struct EarlierDocuments {
    /// Boilerplate lessons of these documents.
    pub(super) taught: PendingSentences,
    /// Their contributions to tree statistics.
    pub(super) tallies: Tallies,
    /// The time of the latest of them that has one.
    pub(super) time: Option<Millis>,
    /// The roots that dry placements assigned to them: other documents of the batch add no leaf at these fingerprints.
    pub(super) given: Arc<HashSet<Fingerprint>>,
    /// Trees whose vacancy one of them fills.
    pub(super) filled: HashSet<Root>,
}

impl EarlierDocuments {
    /// Of the documents of a request one fills the vacancy of a tree.
    pub(super) fn fill(&mut self, placed: &mut RootAssignment) {
        if placed.fills_vacancy && !self.filled.insert(placed.root) {
            (placed.first, placed.fills_vacancy) = (Some(false), false);
        }
    }

    /// Counts lessons for the documents that follow.
    pub(super) fn add_lessons<'l>(&mut self, lessons: impl IntoIterator<Item = &'l Lesson>) {
        lessons.into_iter().for_each(|lesson| self.taught.add(&lesson.sentences));
    }
}

impl Batch {
    /// Documents that the cluster has accepted with the roots that dry placements gave them.
    pub fn of_accepted(documents: Vec<ForestDocument>) -> Batch {
        let given = documents.iter().filter_map(|document| Some(document.given?.0)).collect();
        let earlier = EarlierDocuments { given: Arc::new(given), ..EarlierDocuments::default() };
        Batch { documents, earlier, ..Batch::default() }
    }
}

/// When documents count for the clock and for boilerplate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Commit {
    /// At once, one by one: there is no cluster that could refuse them.
    AtOnce,
    /// When they are settled.
    #[default]
    Provisional,
}

/// A dry placement: documents see the forest and each other, and change nothing.
pub trait DryPlacement: Send + Sync {
    /// The result that [`ForestPort::place`] would have, without tickets. One call at a time.
    fn place(&self, documents: Vec<ForestDocument>) -> PlaceHandle<Vec<ForestDocument>>;
}

/// The reply to a batch.
#[derive(Debug, Default)]
pub struct BatchReply {
    /// One for each document, in their order.
    pub replies: Vec<DocumentReply>,
    /// How long the batch waited for its turn.
    pub waited: Duration,
    /// State left by the request's documents so far.
    pub earlier: EarlierDocuments,
    /// The overrides that were applied, also for documents without features.
    pub overrides: Arc<Overrides>,
}

/// The placement of one document.
#[derive(Debug)]
pub struct DocumentReply {
    /// Its time; `None` if it does not advance the clock.
    pub now: Option<Millis>,
    /// Its root; `None` if it has no features for this forest.
    pub placed: Option<RootAssignment>,
}

/// The root of a placed document, and how it was found.
#[derive(Debug)]
pub struct RootAssignment {
    /// The tree it belongs to.
    pub root: Root,
    /// The root to be stamped: that of its tree, unless an override says otherwise.
    pub answer: Root,
    /// How the root was found.
    pub decision: Decision,
    /// Whether the document is the first one of its group; `None`: unknown.
    pub first: Option<bool>,
    /// It is the first one because no document of its group is stored any more ([`DocumentHash::VACANT`]): once it is
    /// accepted, the tree has to remember it.
    pub fills_vacancy: bool,
    /// When its text first arrived; `None` if it is known and did not found the tree.
    pub arrived: Option<Millis>,
    /// When its tree was founded.
    pub founded: Millis,
    /// The forest's clock after the placement.
    pub clock: Millis,
    /// The stage that found the tree, for the method `staged`.
    pub stage: Option<Stage>,
    /// Whether fingerprints were looked up one after the other and one of them found the tree; the remaining ones
    /// were not looked up.
    pub in_turn: bool,
    /// The candidates that refused it, and why; in no particular order.
    pub refused: Vec<(Root, Refusal)>,
    /// The sentences of the document, by their numbers in it, that became boilerplate with it; none where it counts
    /// when it is settled.
    pub learned: Vec<usize>,
    /// Whether the local fallback placed it, because Redis was away: the document is to be placed again.
    pub is_local_fallback: bool,
    /// For [`ForestPort::settle`]. None of a [dry placement](DryPlacement): it has left nothing to settle.
    pub ticket: Option<Ticket>,
}

impl RootAssignment {
    /// The settlement of this placement with the item's outcome.
    pub fn settled(self, outcome: ItemOutcome) -> Option<Settlement> {
        self.ticket.map(|ticket| Settlement { ticket, outcome })
    }
}

/// The outcome of a placed document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The ticket of the placement.
    pub ticket: Ticket,
    /// The item's outcome at the cluster.
    pub outcome: ItemOutcome,
}

/// The cluster's outcome for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemOutcome {
    /// It is stored.
    Accepted,
    /// It is not, and never will be by this request.
    Refused,
    /// Unknown: the nodes stay for a while, for a retry to find.
    Unknown,
}

/// Progress of all processes of a shared forest in following overrides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// The override version that all processes follow, including their in-flight documents.
    pub by_all: u64,
    /// Whether this process is the oldest one, which restamps stored documents.
    pub is_first: bool,
}

/// The effect of settling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettleReport {
    /// Nodes that were withdrawn.
    pub withdrawn: u64,
    /// Sentences that became boilerplate.
    pub learned: u64,
    /// Changes in the state of trees.
    pub notices: Vec<TreeNotice>,
    /// Late merges that were added; their documents are to be restamped.
    pub merged: u64,
}

/// The result of checking a document.
#[derive(Debug)]
pub struct CheckReply {
    /// The time of its stamp, unless it has nodes already; `None` if it does not advance the clock.
    pub now: Option<Millis>,
    /// The result; `None` if the document has no place here.
    pub check: Option<CheckedDocument>,
    /// The overrides that were applied, as in [`BatchReply`].
    pub overrides: Arc<Overrides>,
}

/// Where a checked document would be placed, and why.
#[derive(Debug)]
pub struct CheckedDocument {
    /// The tree it would belong to.
    pub root: Root,
    /// The root that it would show.
    pub answer: Root,
    /// The root that a stored document with this text should have.
    pub resolved: ResolvedDocument,
    /// How that root would be found.
    pub decision: Decision,
    /// The stage that finds the tree, for the method `staged`.
    pub stage: Option<Stage>,
    /// The fingerprints in the order in which they are looked up, then those that are left out as boilerplate.
    pub fingerprints: Vec<CheckedFingerprint>,
    /// The trees near any of them: its own first, then those that would take the document, then those that refuse it.
    pub trees: Vec<CheckedTree>,
    /// The sentences of the document, by their numbers in it, that are boilerplate.
    pub boilerplate: Vec<usize>,
    /// Its tokens that the founder of its own tree, and that of the nearest refusing tree, do not have.
    pub own: Vec<(Root, OwnTokens)>,
}

/// One fingerprint of a document, with its near nodes.
#[derive(Debug)]
pub struct CheckedFingerprint {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Which stage it belongs to, for the method `staged`.
    pub stage: Option<Stage>,
    /// The fingerprint is of a boilerplate sentence: its near nodes are no candidates.
    pub left_out: bool,
    /// The nodes within k, nearest first.
    pub near: Vec<NearNode>,
}

/// A tree near a document.
#[derive(Debug)]
pub struct CheckedTree {
    /// Its name.
    pub root: Root,
    /// Its size and times.
    pub view: TreeView,
    /// How many of the document's fingerprints have a near node in it.
    pub shared: usize,
    /// Whether the proof at its root agrees with the document's, or why the tree is none for the document.
    pub verdict: Result<(), Refusal>,
    /// The proof's measure.
    pub measure: Measure,
}
