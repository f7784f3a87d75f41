//! What every forest answers, wherever it is kept: in this process ([`local`](super::local)), or shared by several.
//!
//! A write takes two phases. Its documents are placed before it is forwarded, and settled when the cluster has
//! answered. Between the two nobody holds anything but [`Rollback`] handles, which name nodes in a way that any process
//! understands.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::local::RecoveryPass;
use super::overrides::{Override, Overrides, ResolvedDocument, RestampPass};
use super::{Decision, ForestStats, LateMergeLog, NearNode, Rollback, Root, TreeNotice, TreeView};
use crate::fingerprint::Fingerprint;
use crate::method::{Features, Measure, Refusal, Stage, Tallies, TallyEntry};
use crate::text::boilerplate::PendingSentences;
use crate::time::Millis;

/// A forest as the engine sees it.
///
/// A question is put when the method is called, not when its answer is first polled, and is worked off to its end even
/// if the answer is dropped: documents whose placements nobody waits for are withdrawn again, or not placed if it is
/// not their turn yet.
pub trait ForestPort: Debug + Send + Sync {
    /// Finds or makes the place of each document, one after the other: their order is the order of placement. As many
    /// replies come back, in the same order.
    fn place(&self, batch: Batch) -> PortFuture<Placements>;

    /// The same, which gives the documents back as they came where the engine that keeps the forest cannot take
    /// anything just now ([`Unavailable::is_store_unavailable`]), so that they can be placed elsewhere.
    fn place_or_return(&self, batch: Batch) -> PortFuture<PlacementsOrBatch<Batch>> {
        let placed = self.place(batch);
        Box::pin(async move { placed.await.map(Ok) })
    }

    /// A view of the forest for one request whose documents must leave no trace before the cluster has accepted them.
    fn dry_placement(&self) -> Box<dyn DryPlacement>;

    /// Tells at `now` what became of documents that were placed provisionally, all of one request.
    /// A node goes when the last placement that uses it is refused, or was of unknown outcome for long enough.
    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> PortFuture<SettleReport>;

    /// Takes in documents that are stored with their roots ([`PlacementDocument::given`]), in the order in which they
    /// came. The recovery goes from call to call; `over`: no more will come.
    fn recover(
        &self,
        documents: Vec<PlacementDocument>,
        recovery: RecoveryPass,
        over: bool,
    ) -> PortFuture<RecoveryPass>;

    /// Takes back, of at most `budget` placements, those whose outcome has been unknown for so long that no retry is to
    /// be expected.
    fn forget_unknown(&self, now: Millis, budget: usize) -> PortFuture<SettleReport>;

    /// What would happen to a document; nothing is changed.
    fn check(&self, document: PlacementDocument) -> PortFuture<CheckReply>;

    /// A tree by its root.
    fn tree(&self, root: Root) -> PortFuture<Option<TreeView>>;

    /// Somebody says this about groups; documents of a pin show these roots. Answers the number of the word when it is
    /// safe; `None`: there are as many, or as many bytes of them, as a forest remembers.
    fn add_override(&self, word: Override, shown: Vec<Root>) -> PortFuture<Option<u64>>;

    /// Takes a word back. Answers what it was when that is safe.
    fn undo_override(&self, number: u64) -> PortFuture<Option<Override>>;

    /// Stored documents obey the words that this pass was for, as far as it is still what is to be done for them.
    fn restamped(&self, done: RestampPass) -> PortFuture<()>;

    /// What was said and not taken back, as it is now. To be held briefly: a change has to copy what somebody holds.
    fn overrides(&self) -> PortFuture<Arc<Overrides>>;

    /// Hears what was said through other processes. Answers the number of the last change of words that this one has
    /// heard of; where nobody shares the forest that is none, 0.
    fn refresh_overrides(&self) -> PortFuture<u64> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// All documents that this process has on its way were given their roots by words up to this change, or by later
    /// ones. To be said again and again: a process that does not is believed to be gone.
    fn acknowledge_overrides(&self, _heard: u64) -> PortFuture<Acknowledged> {
        Box::pin(std::future::ready(Ok(Acknowledged::ALONE)))
    }

    /// Groups that may be one.
    fn late(&self) -> PortFuture<LateMergeLog>;

    /// Its size and totals.
    fn stats(&self) -> PortFuture<ForestStats>;

    /// Lets up to `budget` nodes go that are before the window at `now`, oldest first, and answers how many went.
    fn expire(&self, now: Millis, budget: usize) -> PortFuture<usize>;

    /// Sets how many bytes its nodes may take: beyond it the oldest arrivals go before the window's end.
    fn set_memory_limit(&self, bytes: usize) -> PortFuture<()>;

    /// Writes what waits for the disk: the process ends. Waits for it; nothing is to be placed any more.
    fn close(&self) {}

    /// Why nothing can be placed here any more, if that is so. Never waits.
    fn unavailable(&self) -> Option<Unavailable>;
}

/// Placements, or why there are none and what was to be placed.
pub type PlacementsOrBatch<T, P = Placements> = Result<P, (Unavailable, T)>;

/// What a forest answers, when it has.
pub type PortFuture<T> = Pin<Box<dyn Future<Output = Result<T, Unavailable>> + Send>>;

/// A forest that cannot be asked any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A panic in the middle of a change left it half changed.
    #[error("the forest '{forest}' is out of service after an internal error ({reason}): restart spinney")]
    Poisoned {
        /// Its name.
        forest: String,
        /// What the panic said.
        reason: String,
    },
    /// Nothing can be stored any more: what came since would be forgotten at the next start.
    #[error("the forest '{forest}' is out of service: {reason}")]
    NotStored {
        /// Its name.
        forest: String,
        /// What failed, and what to do.
        reason: String,
    },
    /// The engine that keeps the forest for several processes cannot be asked. That may pass.
    #[error("the forest '{forest}' cannot be reached: {reason}")]
    Away {
        /// Its name.
        forest: String,
        /// What failed.
        reason: String,
    },
    /// The engine that keeps the forest for several processes has no room for what is new.
    #[error("the forest '{forest}' has no room where it is kept: {reason}")]
    Full {
        /// Its name.
        forest: String,
        /// What it said, and what to do.
        reason: String,
    },
    /// Other processes were faster again and again. Nothing was changed, and a later try may do it.
    #[error("the forest '{forest}' was changed by others all the time: {reason}")]
    Overtaken {
        /// Its name.
        forest: String,
        /// What they do.
        reason: String,
    },
    /// The forest cannot do that, now or later.
    #[error("the forest '{forest}' does not take that: {reason}")]
    Unsupported {
        /// Its name.
        forest: String,
        /// Why, and what to do.
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
    /// Whether the engine that keeps the forest cannot take anything just now: then a process may go on for itself.
    pub fn is_store_unavailable(&self) -> bool {
        matches!(self, Unavailable::Away { .. } | Unavailable::Full { .. })
    }
}

/// The documents of one request, or a part of them. Nobody has a copy of them: what is read of a text is large.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order in which they are to be placed.
    pub documents: Vec<PlacementDocument>,
    /// When they count.
    pub commit: Commit,
    /// What the documents of the same request that came before them have left.
    pub earlier: EarlierDocuments,
}

/// What the documents of one request know of those before them, and nobody else yet.
#[derive(Debug, Clone, Default)]
pub struct EarlierDocuments {
    /// What they have taught.
    pub(super) taught: PendingSentences,
    /// What they count for at their trees.
    pub(super) tallies: Tallies,
    /// When the last of them came that had a time.
    pub(super) time: Option<Millis>,
}

/// When documents count: for the clock, and for what becomes boilerplate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Commit {
    /// At once, each for itself: nobody could refuse them.
    AtOnce,
    /// When they are settled.
    #[default]
    Provisional,
}

/// Documents placed as if by themselves: they see the forest and each other, and nothing of them is seen.
pub trait DryPlacement: Send + Sync {
    /// What [`ForestPort::place`] would answer, with handles that name nothing. To be asked again after the answer
    /// came.
    fn place(&self, documents: Vec<PlacementDocument>) -> PortFuture<Placements>;

    /// The same, which gives the documents back as [`ForestPort::place_or_return`] does.
    fn place_or_return(
        &self,
        documents: Vec<PlacementDocument>,
    ) -> PortFuture<PlacementsOrBatch<Vec<PlacementDocument>>> {
        let placed = self.place(documents);
        Box::pin(async move { placed.await.map(Ok) })
    }
}

/// One document to place.
#[derive(Debug, Clone)]
pub struct PlacementDocument {
    /// What its method read; `None` if that was nothing usable. Such a document only has a time.
    pub features: Option<Features>,
    /// When it comes.
    pub when: DocumentTime,
    /// A number for its title that other titles mostly do not have, if it has one.
    pub title: Option<u32>,
    /// The root that it was given in a dry placement, and that is stored with it: it gets it again, unless its text is
    /// known elsewhere by then.
    pub given: Option<Root>,
}

/// When a document comes to the forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentTime {
    /// At this time; before the clock counts as the clock.
    At(Millis),
    /// At this time, as it says itself.
    Claimed(Millis),
    /// When the one before it came; where there was none, time stands still for it.
    AsBefore,
    /// Time stands still: nothing expires.
    Still,
}

/// The replies to a batch.
#[derive(Debug, Default)]
pub struct Placements {
    /// One for each document, in their order.
    pub replies: Vec<PlacementReply>,
    /// How long the batch waited for others to be done with the forest.
    pub waited: Duration,
    /// What the documents of the request have left up to now.
    pub earlier: EarlierDocuments,
}

/// What came of one document.
#[derive(Debug)]
pub struct PlacementReply {
    /// Its time; `None` where time stands still.
    pub now: Option<Millis>,
    /// Its place; `None` if it has none here.
    pub placed: Option<Placed>,
}

/// The place of a document.
#[derive(Debug)]
pub struct Placed {
    /// The tree it belongs to.
    pub root: Root,
    /// The root that it is to show: that of its tree, unless somebody has said otherwise.
    pub answer: Root,
    /// How the root was found.
    pub decision: Decision,
    /// The other near trees that would have taken it.
    pub others: Vec<Root>,
    /// When its text first came; none if it came before, and is not the one that founded the tree.
    pub arrived: Option<Millis>,
    /// When its tree was founded.
    pub founded: Millis,
    /// The forest's clock when it had been placed.
    pub clock: Millis,
    /// The stage that found the tree, for the method `staged`.
    pub stage: Option<Stage>,
    /// Whether fingerprints were looked up in turn and one of them found the tree; what the others are near was not
    /// asked then.
    pub in_turn: bool,
    /// The near trees that it was not let into, and why; in no particular order.
    pub refused: Vec<(Root, Refusal)>,
    /// The sentences of the document, by their numbers in it, that became boilerplate with it; none where it counts
    /// when it is settled.
    pub learned: Vec<usize>,
    /// The time that it claims, which counts when it is accepted.
    pub claimed: Option<Millis>,
    /// The sentences, as hashes, that it teaches when it is accepted; `None` if it has founded no tree.
    pub lesson: Option<Vec<u64>>,
    /// What it counts for at its tree when it is accepted.
    pub count: TallyEntry,
    /// For [`ForestPort::settle`].
    pub rollback: Rollback,
    /// Whether the place is one of this process alone, because the forest that it shares was away: the document is to
    /// be placed again.
    pub is_alone: bool,
}

impl Placed {
    /// What became of it.
    pub fn settled(self, outcome: ItemOutcome) -> Settlement {
        Settlement {
            rollback: self.rollback,
            is_alone: self.is_alone,
            claimed: self.claimed,
            lesson: self.lesson,
            counted: (self.root, self.count),
            others: self.others,
            outcome,
        }
    }
}

/// What became of a placed document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Its nodes.
    pub rollback: Rollback,
    /// As it was placed: [`Placed::is_alone`].
    pub is_alone: bool,
    /// As it was placed: [`Placed::claimed`].
    pub claimed: Option<Millis>,
    /// As it was placed: [`Placed::lesson`].
    pub lesson: Option<Vec<u64>>,
    /// Its tree, and as it was placed: [`Placed::count`].
    pub counted: (Root, TallyEntry),
    /// As it was placed: [`Placed::others`].
    pub others: Vec<Root>,
    /// What the cluster did.
    pub outcome: ItemOutcome,
}

/// What the cluster did with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemOutcome {
    /// It is stored.
    Accepted,
    /// It is not, and never will be by this request.
    Refused,
    /// Nobody knows: the nodes stay for a while, for a retry to find.
    Unknown,
}

/// How those who share a forest obey what was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// The number of the last change of words that all of them obey, with all that is on its way.
    pub by_all: u64,
    /// Whether this process is the one that has been there longest: it has stored documents follow.
    pub is_first: bool,
}

impl Acknowledged {
    /// Where nobody shares it.
    pub const ALONE: Acknowledged = Acknowledged { by_all: u64::MAX, is_first: true };
}

/// What settling did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettleReport {
    /// Nodes that went.
    pub withdrawn: u64,
    /// Sentences that became boilerplate.
    pub learned: u64,
    /// What somebody should know of the trees.
    pub notices: Vec<TreeNotice>,
    /// Groups that the forest has made one: stored documents are to follow.
    pub merged: u64,
}

/// What would come of a document.
#[derive(Debug)]
pub struct CheckReply {
    /// The time that its stamp would have, unless it has nodes of its own; `None` where time stands still.
    pub now: Option<Millis>,
    /// What would happen; `None` if it has no place here.
    pub check: Option<CheckedDocument>,
}

/// What would happen to a document.
#[derive(Debug)]
pub struct CheckedDocument {
    /// The tree it would belong to.
    pub root: Root,
    /// The root that it would show.
    pub answer: Root,
    /// What a stored document with this text is to show.
    pub looked: ResolvedDocument,
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
}

/// One fingerprint of a document and what is near it.
#[derive(Debug)]
pub struct CheckedFingerprint {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Which stage it belongs to, for the method `staged`.
    pub stage: Option<Stage>,
    /// It belongs to a sentence that is boilerplate: what is near it is no candidate.
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
    /// How many of the fingerprints that are looked up have a near node in it.
    pub shared: usize,
    /// Whether the proof at its root agrees with the document's, or why the tree is none for the document.
    pub verdict: Result<(), Refusal>,
    /// What the proof found.
    pub measure: Measure,
}
