//! Queries on the forest. What has expired at the clock is invisible, whether or not it has been removed.

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::method::{Differences, FeatureQuery, LearnedView, OwnTokens, Proof, Refusal};

use super::late_merges::founders_agree;
use super::placement::{self, RuleView};
use super::roots::TreeRecord;
use super::shared::SharedStats;
use super::ticks::Tick;
use super::{Decision, Forest, Root, TreeSize};
use crate::time::Millis;

/// A stored fingerprint near another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearNode {
    /// The stored fingerprint.
    pub fingerprint: Fingerprint,
    /// Its distance from the queried fingerprint.
    pub distance: Distance,
    /// The root of its tree.
    pub root: Root,
}

/// One tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeView {
    /// The number of its leaves.
    pub children: u32,
    /// Documents placed in it, repeated ones included.
    pub documents: u32,
    /// Estimated number of different titles; saturates at 250.
    pub titles: u32,
    /// Why the tree accepts no further documents, if it does not.
    pub closed: Option<Refusal>,
    /// When its root was added.
    pub added: Millis,
    /// When it was last added to or looked up.
    pub arrival: Millis,
}

/// One node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeView<'a, P = ()> {
    /// The node's fingerprint.
    pub fingerprint: Fingerprint,
    /// Its root; itself if it is one.
    pub root: Root,
    /// When it was made, at a root.
    pub added: Option<Millis>,
    /// When it was last added to or looked up, to within a 65,536th of the window.
    pub arrival: Millis,
    /// The proof, at a root.
    pub proof: Option<&'a P>,
}

/// The result of checking a document, without placing it.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestCheck {
    /// The tree it would belong to.
    pub root: Root,
    /// How that root would be found.
    pub decision: Decision,
    /// For every fingerprint, in the document's order, the nodes within k, nearest first.
    pub near: Vec<Vec<NearNode>>,
    /// As [`Placement::by`](super::Placement::by).
    pub by: Option<Fingerprint>,
    /// The near trees, by root. A tree that the document was placed in before wins, whatever their proofs say.
    pub trees: Vec<NearTree>,
    /// Tokens of the document that the founders of these trees do not have.
    pub own: Vec<(Root, OwnTokens)>,
}

/// A tree near a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearTree {
    /// Its name.
    pub root: Root,
    /// How many of the document's fingerprints have a near node in it.
    pub shared: usize,
    /// Whether the proof at its root agrees with the document's.
    pub verdict: Result<(), Refusal>,
    /// The differences of the texts, if they were aligned.
    pub laid: Option<Differences>,
}

/// Size of a forest, and counters of removed nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestStats {
    /// The clock: the latest time so far; `None` before the first.
    pub clock: Option<Millis>,
    /// Nodes that are alive.
    pub nodes: usize,
    /// Roots among these.
    pub roots: usize,
    /// Dead nodes whose memory was not swept up yet.
    pub dead_nodes: usize,
    /// Nodes that expired.
    pub expired_total: u64,
    /// Nodes that were withdrawn.
    pub withdrawn_total: u64,
    /// Nodes evicted before the end of the window, because of the size limit.
    pub evicted_total: u64,
    /// Bytes of memory held, an estimate.
    pub memory_bytes: usize,
    /// The tree with the most documents; `None` while none has many.
    pub largest: Option<TreeSize>,
    /// Trees of page chrome, which are closed.
    pub page_chrome_trees: usize,
    /// The largest of them.
    pub page_chrome: Vec<TreeSize>,
    /// Founder tokens.
    pub founder_tokens: FounderTokenStats,
    /// Trees that were found to be one.
    pub late_merges: LateMergeStats,
    /// Durable state, of a forest with a data directory.
    pub stored: Option<StoredStats>,
    /// Commands sent to Redis, of a shared forest.
    pub shared: Option<SharedStats>,
}

/// Founder tokens of a forest, for alignment checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FounderTokenStats {
    /// Trees with founder tokens.
    pub trees: usize,
    /// Bytes that it takes.
    pub bytes: usize,
    /// Trees whose founder tokens were evicted.
    pub evicted_total: u64,
    /// Candidates without founder tokens, over all placements.
    pub missing_total: u64,
}

/// Trees that were found to be one, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LateMergeStats {
    /// Pairs of groups that are suggested to people.
    pub suggested: usize,
    /// Pairs that were merged.
    pub applied_total: u64,
    /// Pairs that were not merged because the limit of overrides was reached.
    pub no_room_total: u64,
}

/// How a forest is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredStats {
    /// Batches of changes that are queued for the disk.
    pub waiting_batches: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Bytes of changes since the last snapshot, which a start has to replay.
    pub journal_bytes: u64,
    /// Bytes of the last snapshot; 0 if there is none.
    pub snapshot_bytes: u64,
    /// Whether the disk has failed and nothing more is stored.
    pub has_failed: bool,
}

impl<P: Proof> Forest<P> {
    /// Whether two trees have the same text, by the proofs and tokens of their founders: each would join the other's
    /// tree with one shared fingerprint. `None` if one of them is gone, or no accepted document uses it.
    pub(super) fn roots_agree(&self, one: Root, other: Root, learned: LearnedView<'_>) -> Option<bool> {
        let floor = self.ticks.floor();
        let kept = |root: Root| {
            if self.in_flight.node(root.0).is_some() {
                return None;
            }
            let proof = self.proof_at(self.root_number(root, floor)?)?;
            Some((proof, self.founder_tokens.get(root.0).unwrap_or_default()))
        };
        Some(founders_agree(kept(one)?, kept(other)?, self.thresholds, learned))
    }

    /// The root of a fingerprint that has a node.
    pub fn root_of(&self, fingerprint: Fingerprint) -> Option<Root> {
        let root = self.tree_of(fingerprint, self.ticks.floor())?;
        Some(self.name(root))
    }

    /// All nodes within k of a fingerprint, nearest first, then by fingerprint.
    pub fn near(&self, fingerprint: Fingerprint) -> Vec<NearNode> {
        self.near_at(fingerprint, self.clock())
    }

    /// The same as [`place`](Forest::place) would see it at `now`.
    pub fn near_at(&self, fingerprint: Fingerprint, now: Millis) -> Vec<NearNode> {
        let floor = self.ticks.floor_at(now);
        let mut near = Vec::new();
        self.index.near(fingerprint, |fingerprint, distance, entry| {
            if let Some(root) = self.tree_of_entry(entry, floor) {
                let root = self.name(root);
                near.push(NearNode { fingerprint, distance, root });
            }
        });
        near.sort_unstable_by_key(|near| (near.distance, near.fingerprint));
        near
    }

    /// The tree of a root.
    pub fn tree(&self, root: Root) -> Option<TreeView> {
        self.tree_at(root, self.clock())
    }

    /// The same as [`place`](Forest::place) would see it at `now`.
    pub fn tree_at(&self, root: Root, now: Millis) -> Option<TreeView> {
        let floor = self.ticks.floor_at(now);
        let entry = self.index.get(root.0)?;
        let number = self.root_number(root, floor)?;
        let (record, size) = (self.roots.get(number)?, self.size(number));
        Some(TreeView {
            children: self.roots.living_leaves(number, floor),
            documents: size.map_or(0, |size| size.documents),
            titles: size.map_or(0, |size| size.titles),
            closed: self.closed(number, None),
            added: record.added(),
            arrival: self.ticks.time(Tick(entry.tick)),
        })
    }

    /// The proof at a root.
    pub fn proof(&self, root: Root) -> Option<&P> {
        self.proof_at(self.root_number(root, self.ticks.floor())?)
    }

    /// Calls `each` with the root of every node within k of a fingerprint, once for each node.
    pub fn roots_near(&self, fingerprint: Fingerprint, mut each: impl FnMut(Root)) {
        let floor = self.ticks.floor();
        self.index.near(fingerprint, |_, _, entry| {
            if let Some(root) = self.tree_of_entry(entry, floor) {
                each(self.name(root));
            }
        });
    }

    /// The result that [`place`](Forest::place) would have at `now`; changes nothing.
    pub fn check(&self, query: &FeatureQuery<'_, P>, now: Millis) -> ForestCheck {
        let outcome = self.view(query, self.ticks.floor_at(now)).decide();
        let wide = placement::with_all_fingerprints(query, &outcome);
        let query = wide.as_ref().unwrap_or(query);
        let mut view = self.view(query, self.ticks.floor_at(now));
        let mut near = Vec::with_capacity(query.fingerprints.len());
        for at in 0..query.fingerprints.len() {
            let mut nodes = Vec::new();
            view.near(at, |fingerprint, distance, tree| {
                nodes.push((distance, fingerprint, tree));
            });
            nodes.sort_unstable();
            near.push(nodes);
        }
        let outcome = view.decide();
        let trees = &view.seen.trees;
        let name = |tree: usize| trees.get(tree).map_or(outcome.root, |tree| tree.root);
        let verdicts = placement::verdicts(query, &view.seen, self.thresholds).into_iter();
        let near_tree = |(tree, shared, verdict): (usize, usize, _)| {
            let laid = trees.get(tree).and_then(|tree| tree.laid.get());
            NearTree { root: name(tree), shared, verdict, laid }
        };
        let mut near_trees: Vec<NearTree> = verdicts.map(near_tree).collect();
        near_trees.sort_unstable_by_key(|tree| tree.root);
        let nearest = |(distance, fingerprint, tree)| NearNode { fingerprint, distance, root: name(tree) };
        let near = near.into_iter().map(|nodes| nodes.into_iter().map(nearest).collect());
        ForestCheck {
            root: outcome.root,
            decision: outcome.decision,
            near: near.collect(),
            by: outcome.by,
            trees: near_trees,
            own: placement::own_tokens(query, &view.seen, &outcome),
        }
    }

    /// All nodes, newest arrival first and roots before leaves: every root precedes its leaves. All of them are
    /// collected for it.
    pub fn nodes(&self) -> Vec<NodeView<'_, P>> {
        let floor = self.ticks.floor();
        let living = self.index.iter().filter_map(|(fingerprint, entry)| {
            let number = self.tree_of_entry(entry, floor)?;
            let is_root = self.is_root(fingerprint, number);
            let record = self.roots.get(number).filter(|_| is_root);
            Some(NodeView {
                fingerprint,
                root: self.name(number),
                added: record.map(TreeRecord::added),
                arrival: self.ticks.time(Tick(entry.tick)),
                proof: record.map(|record| &record.proof),
            })
        });
        let mut nodes: Vec<NodeView<'_, P>> = living.collect();
        nodes.sort_unstable_by_key(|node| (std::cmp::Reverse(node.arrival), node.added.is_none(), node.fingerprint));
        nodes
    }

    /// Size and totals.
    pub fn stats(&self) -> ForestStats {
        let (page_chrome_trees, page_chrome) = self.page_chrome();
        let living = self.ticks.living();
        ForestStats {
            clock: Some(self.clock()).filter(|clock| clock.0 > i64::MIN),
            largest: self.largest(),
            page_chrome_trees,
            page_chrome,
            nodes: living.nodes,
            roots: living.roots,
            dead_nodes: self.ticks.dead_nodes(),
            expired_total: self.expired_total,
            withdrawn_total: self.withdrawn_total,
            evicted_total: self.evicted_total,
            memory_bytes: self.memory_bytes(),
            founder_tokens: FounderTokenStats {
                trees: self.founder_tokens.len(),
                bytes: self.founder_tokens.bytes(),
                evicted_total: self.founder_tokens.evicted_total(),
                missing_total: self.unseen_total,
            },
            late_merges: LateMergeStats::default(),
            stored: None,
            shared: None,
        }
    }

    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.roots.memory_bytes()
            + self.ticks.memory_bytes()
            + self.tallies.memory_bytes()
            + self.in_flight.memory_bytes()
            + self.founder_tokens.bytes()
    }
}
