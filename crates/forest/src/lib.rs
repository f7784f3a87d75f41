//! A forest: equivalence classes of fingerprints as trees of height at most 2.
//!
//! Invariants, at any moment:
//! 1. the height of every tree is at most 2;
//! 2. every fingerprint has exactly one node, root or leaf;
//! 3. any two roots are more than k apart;
//! 4. every leaf was placed by a document of which a fingerprint was then within k of the root or of a leaf of its
//!    tree, or which brought the tree's root itself.
//!
//! Documents of one and of several fingerprints follow the same rules. With one fingerprint and the proof `()` they are
//! the strict rules to the letter: the fourth line then says "the leaf itself was within k of its root or a sibling".
//!
//! The forest is a pure, single-threaded state: documents and `now` in, roots out; its owner locks it.
//! [`place`](Forest::place) first lets a few expired nodes go (`window.rs`). Then the placement rules decide
//! (`placement.rs`, which knows no forest) by the candidate view of this one (`candidate_view.rs`), and the decision is
//! applied as changes, each a value (`change.rs`). The index holds the nodes: a fingerprint, the number of its tree,
//! and when it arrived (`ticks.rs`). `roots.rs` holds the record of each tree, `tree_stats.rs` their sizes,
//! `in_flight.rs` the nodes that can still be withdrawn; `view.rs` has all queries. Overrides (`overrides.rs`) are kept
//! apart from all of it.

mod batch_plan;
mod candidate_view;
mod candidates;
mod change;
mod codec;
pub mod document;
mod first;
mod founder_tokens;
pub mod hamming;
mod in_flight;
pub mod index_pattern;
mod late_merges;
pub mod local;
mod local_fallback;
mod node;
pub mod overrides;
mod pending_lessons;
mod place;
mod placement;
mod planned_view;
pub mod port;
pub mod progress;
mod promise;
mod recovery;
mod roots;
mod save;
pub mod shared;
mod sparse_map;
pub mod store;
mod summary;
#[cfg(test)]
mod tests;
pub mod text_fields;
mod ticket;
mod ticks;
pub mod time;
mod tree_stats;
mod undo_guard;
mod view;
mod window;

pub use change::Change;
pub use first::DocumentHash;
pub use founder_tokens::FOUNDER_TOKEN_BYTES;
pub use late_merges::{LateMergeLog, LateMerges, Suggestion};
pub use local_fallback::LocalFallback;
pub use node::{Generation, NodeRef};
pub use place::{Decision, Placement};
pub use recovery::{Recovered, RecoveryPass};
pub use save::{Portions, Restoring, Unreadable};
pub use summary::Summary;
pub use ticket::{Rollback, Ticket};
pub use ticks::{Tick, TickStart};
pub use tree_stats::{TreeNotice, TreeSize};
pub use view::{
    ForestCheck, ForestStats, FounderTokenStats, LateMergeStats, NearNode, NearTree, NodeView, StoredStats, TreeView,
};

use std::fmt;

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::HashKey;
use spinney_text::method::{Proof, TreeTally};
use thiserror::Error;

use crate::hamming::{Entry, HammingError, NodeIndex};
use crate::time::Millis;
use founder_tokens::FounderTokenCache;
use in_flight::InFlightPlacements;
use roots::Roots;
use sparse_map::SparseMap;
use ticks::Ticks;
use tree_stats::WatchedTrees;

/// The fingerprint of a node without a parent; it names a tree, that is, a cluster of similar documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root(pub Fingerprint);

/// 16 lower-case hex digits.
impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The settings of a forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Fingerprints at most this far apart are near.
    pub k: Distance,
    /// Lifetime of a node after its arrival; `None`: nothing expires.
    pub window: Option<Millis>,
    /// The key of its hash tables; no result depends on it.
    pub key: HashKey,
}

/// Why settings are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ForestError {
    /// The distance k cannot be indexed.
    #[error(transparent)]
    Distance(#[from] HammingError),
    /// A window of no time, or of less.
    #[error("a window of {} ms leaves no node alive: choose a positive one, or none", .0.0)]
    Window(Millis),
}

/// The hash table that this key is derived for; the index uses the numbers before it.
const IN_FLIGHT: u64 = 2;
const OF_FOUNDER_TOKENS: u64 = 3;

fn founder_tokens_key(index: &NodeIndex) -> HashKey {
    index.secret().derived(OF_FOUNDER_TOKENS)
}

/// The nodes of one forest, their index and their window. `P` is the proof kept at every root.
#[derive(Debug)]
pub struct Forest<P: Proof = ()> {
    index: NodeIndex,
    roots: Roots<P>,
    ticks: Ticks,
    in_flight: InFlightPlacements,
    tallies: SparseMap<TreeTally>,
    founder_tokens: FounderTokenCache,
    thresholds: P::Thresholds,
    /// Most nodes.
    max_nodes: usize,
    /// Bytes that the nodes may take.
    memory_limit: usize,
    /// Documents that a tree may have.
    max_tree: Option<u32>,
    watched: WatchedTrees,
    /// Nodes evicted before the end of the window, to stay within the memory limit.
    evicted_total: u64,
    expired_total: u64,
    withdrawn_total: u64,
    /// Candidate trees that had no founder tokens when a document was placed.
    unseen_total: u64,
    /// A buffer for the dead nodes that one step of the sweep finds.
    swept: Vec<(Fingerprint, Entry)>,
    /// A buffer for the changes of one placement.
    planned: Vec<Change<P>>,
    /// The changes since they were last taken; `None` unless recording is on.
    recorded: Option<Vec<Change<P>>>,
    /// The latest position of the clock, unless it was recorded already.
    begun: Option<TickStart>,
}

impl<P: Proof> Forest<P> {
    /// An empty forest.
    ///
    /// # Errors
    /// [`ForestError::Distance`] if k is above 16, [`ForestError::Window`] if the window is not positive.
    pub fn new(settings: Settings) -> Result<Self, ForestError> {
        if let Some(window) = settings.window.filter(|window| window.0 <= 0) {
            return Err(ForestError::Window(window));
        }
        let index = NodeIndex::new(settings.k, settings.key)?;
        let thresholds = P::Thresholds::default();
        Ok(Forest::over(index, thresholds, settings.window))
    }

    fn over(index: NodeIndex, thresholds: P::Thresholds, window: Option<Millis>) -> Self {
        let key = index.secret().derived(IN_FLIGHT);
        let of_founder_tokens = founder_tokens_key(&index);
        Forest {
            index,
            roots: Roots::new(),
            ticks: Ticks::new(window),
            in_flight: InFlightPlacements::new(key),
            tallies: SparseMap::new(),
            founder_tokens: FounderTokenCache::new(FOUNDER_TOKEN_BYTES, of_founder_tokens),
            thresholds,
            max_nodes: usize::MAX,
            memory_limit: usize::MAX,
            max_tree: None,
            watched: WatchedTrees::default(),
            evicted_total: 0,
            expired_total: 0,
            withdrawn_total: 0,
            unseen_total: 0,
            swept: Vec::new(),
            planned: Vec::new(),
            recorded: None,
            begun: None,
        }
    }

    /// Sets the thresholds of proofs. To be called before anything is placed: existing trees keep the documents that
    /// joined them.
    pub fn with_thresholds(self, thresholds: P::Thresholds) -> Self {
        Forest { thresholds, ..self }
    }

    /// Sets the budget for founder tokens, in bytes; to be called before anything is placed.
    pub fn set_founder_token_bytes(&mut self, bytes: usize) {
        self.founder_tokens = FounderTokenCache::new(bytes, founder_tokens_key(&self.index));
    }

    /// The thresholds against which proofs are compared.
    pub fn thresholds(&self) -> P::Thresholds {
        self.thresholds
    }
}
