//! The read set: values read from a shared forest, with the planned changes of a request on top. The placement rules
//! decide on its view. Pure: a key that is asked for and was not read is noted as missing; the caller reads it and
//! asks again.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::method::{Durable, FeatureQuery, FounderTokens, Proof, Refusal, Tallies};

use super::keys::FoundingToken;
use super::layout::{Calendar, LeafValue, NodeValue, RootValue};
use super::lsh_buckets::LshBuckets;
use crate::batch_plan::BatchPlan;
use crate::candidates::PriorClaim;
use crate::change::Change;
use crate::placement::RuleOutcome;
use crate::planned_view::PlannedTrees;
use crate::time::Millis;
use crate::{DocumentHash, NearNode, Root};

/// A value and its node.
#[derive(Debug, Clone)]
pub(super) struct ReadValue<P> {
    pub(super) bytes: Vec<u8>,
    pub(super) node: NodeValue<P>,
}

/// Founder tokens with the nonce of their founding.
type StoredTokens = (FoundingToken, FounderTokens);

/// The values that were read. A key that is absent was not read.
#[derive(Debug)]
pub(super) struct ReadValues<P> {
    nodes: HashMap<Fingerprint, Option<ReadValue<P>>>,
    /// Unreadable values: they count as absent, and are replaced by the node that is written there.
    unreadable: HashMap<Fingerprint, Vec<u8>>,
    /// Keys with foreign values: they count as absent, and cannot become nodes.
    unusable: HashSet<Fingerprint>,
    founder_tokens: HashMap<Fingerprint, Option<StoredTokens>>,
    /// Entries of buckets.
    buckets: HashMap<Fingerprint, Vec<Fingerprint>>,
}

/// Keys to be read before a decision.
#[derive(Debug, Default)]
pub(super) struct MissingKeys {
    pub(super) nodes: BTreeSet<Fingerprint>,
    pub(super) founder_tokens: BTreeSet<Fingerprint>,
    pub(super) buckets: BTreeSet<Fingerprint>,
}

impl MissingKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.founder_tokens.is_empty() && self.buckets.is_empty()
    }
}

impl<P> Default for ReadValues<P> {
    fn default() -> Self {
        ReadValues {
            nodes: HashMap::new(),
            unreadable: HashMap::new(),
            unusable: HashSet::new(),
            founder_tokens: HashMap::new(),
            buckets: HashMap::new(),
        }
    }
}

impl<P: Durable> ReadValues<P> {
    /// Sets the present value of a key. Returns whether it has changed.
    pub(super) fn put(&mut self, fingerprint: Fingerprint, bytes: Option<Vec<u8>>) -> bool {
        let was_usable = !self.unusable.remove(&fingerprint);
        if was_usable && self.nodes.contains_key(&fingerprint) && self.value(fingerprint) == bytes.as_deref() {
            return false;
        }
        self.unreadable.remove(&fingerprint);
        let kept = bytes.and_then(|bytes| match NodeValue::read(&bytes) {
            Some(node) => Some(ReadValue { node, bytes }),
            None => {
                self.unreadable.insert(fingerprint, bytes);
                None
            }
        });
        self.nodes.insert(fingerprint, kept);
        true
    }

    /// Notes that no node can be at a key.
    pub(super) fn put_unusable(&mut self, fingerprint: Fingerprint) {
        self.put(fingerprint, None);
        self.unusable.insert(fingerprint);
    }

    /// Whether no node can be at a key.
    pub(super) fn is_unusable(&self, fingerprint: Fingerprint) -> bool {
        self.unusable.contains(&fingerprint)
    }

    /// Those of a document's fingerprints at which a node can be.
    pub(super) fn usable<'a>(&self, fingerprints: &'a [Fingerprint]) -> Cow<'a, [Fingerprint]> {
        match fingerprints.iter().any(|&fingerprint| self.is_unusable(fingerprint)) {
            true => fingerprints.iter().copied().filter(|&fingerprint| !self.is_unusable(fingerprint)).collect(),
            false => Cow::Borrowed(fingerprints),
        }
    }

    /// The value of a key, node or not.
    pub(super) fn value(&self, fingerprint: Fingerprint) -> Option<&[u8]> {
        let kept = self.kept(fingerprint).map(|kept| &kept.bytes);
        kept.or_else(|| self.unreadable.get(&fingerprint)).map(Vec::as_slice)
    }

    /// Whether a key holds something that is no node.
    pub(super) fn is_unreadable(&self, fingerprint: Fingerprint) -> bool {
        self.unreadable.contains_key(&fingerprint)
    }

    pub(super) fn put_founder_tokens(&mut self, root: Fingerprint, founder_tokens: Option<StoredTokens>) {
        self.founder_tokens.insert(root, founder_tokens);
    }

    pub(super) fn put_bucket(&mut self, bucket: Fingerprint, names: Vec<Fingerprint>) {
        self.buckets.insert(bucket, names);
    }

    pub(super) fn has_founder_tokens(&self, root: Fingerprint) -> bool {
        self.founder_tokens.contains_key(&root)
    }

    pub(super) fn has_node(&self, fingerprint: Fingerprint) -> bool {
        self.nodes.contains_key(&fingerprint)
    }

    pub(super) fn kept(&self, fingerprint: Fingerprint) -> Option<&ReadValue<P>> {
        self.nodes.get(&fingerprint)?.as_ref()
    }

    pub(super) fn leaf(&self, fingerprint: Fingerprint) -> Option<LeafValue> {
        match self.kept(fingerprint)?.node {
            NodeValue::Leaf(leaf) => Some(leaf),
            NodeValue::Root(_) => None,
        }
    }

    pub(super) fn root(&self, fingerprint: Fingerprint) -> Option<&RootValue<P>> {
        match &self.kept(fingerprint)?.node {
            NodeValue::Root(root) => Some(root),
            NodeValue::Leaf(_) => None,
        }
    }

    /// The root of the tree in which a fingerprint has a node. A leaf whose root has gone, or has another token, is
    /// none; nor is a node that is over. A tree that is not confirmed never is: its founder would not notice.
    pub(super) fn tree_of(&self, fingerprint: Fingerprint, calendar: Calendar) -> Option<Root> {
        let is_over = |root: &RootValue<P>, step| root.is_confirmed && calendar.is_over(step);
        match &self.kept(fingerprint)?.node {
            NodeValue::Root(root) => (!is_over(root, root.step)).then_some(Root(fingerprint)),
            NodeValue::Leaf(leaf) => {
                let root = self.root(leaf.root.0)?;
                let is_dead = is_over(root, root.step) || is_over(root, leaf.step);
                (root.token == leaf.token && !is_dead).then_some(leaf.root)
            }
        }
    }

    /// The roots that have nodes here, as they were read.
    pub(super) fn roots(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        let kept = self.nodes.iter();
        kept.filter_map(|(&fingerprint, kept)| match kept.as_ref()?.node {
            NodeValue::Root(_) => Some(fingerprint),
            NodeValue::Leaf(_) => None,
        })
    }
}

/// The decision on a document, and the claims that it needs.
#[derive(Debug)]
pub(super) struct DecidedDocument {
    pub(super) outcome: RuleOutcome,
    /// Its new nodes, the root first if it founds a tree.
    pub(super) new: Vec<Fingerprint>,
    /// Existing nodes that it uses.
    pub(super) used: Vec<Fingerprint>,
    /// The document's contribution to the page-chrome statistics of its tree.
    pub(super) sign: u8,
    /// Candidate trees without founder tokens.
    pub(super) without_founder_tokens: usize,
    /// All of its fingerprints were looked up.
    pub(super) used_all_fingerprints: bool,
}

/// The outcome of a query.
#[derive(Debug)]
pub(super) enum QueryOutcome {
    /// Another read is needed first.
    Unread,
    /// The trees of these roots accept the document, and are still provisional.
    Waits(Vec<Root>),
    Decided(DecidedDocument),
}

/// A decision and its changes.
pub(super) struct PlannedDecision<P> {
    pub(super) outcome: RuleOutcome,
    pub(super) changes: Vec<Change<P>>,
    pub(super) sign: u8,
    pub(super) without_founder_tokens: usize,
    pub(super) used_all_fingerprints: bool,
}

/// The read set with the plans of a request.
#[derive(Debug)]
pub(super) struct ReadSet<'r, P: Proof> {
    pub(super) read: &'r ReadValues<P>,
    pub(super) plans: BatchPlan<P>,
    pub(super) thresholds: P::Thresholds,
    pub(super) calendar: Calendar,
    pub(super) max_tree: Option<u32>,
    blocks: &'r LshBuckets,
    /// Whether provisional trees count as candidates.
    pub(super) joins_all: bool,
    hidden: HashSet<FoundingToken>,
    missing: RefCell<MissingKeys>,
}

impl<'r, P: Proof + Durable> ReadSet<'r, P> {
    pub(super) fn new(
        read: &'r ReadValues<P>,
        plans: BatchPlan<P>,
        thresholds: P::Thresholds,
        calendar: Calendar,
        (max_tree, blocks): (Option<u32>, &'r LshBuckets),
    ) -> ReadSet<'r, P> {
        ReadSet {
            read,
            plans,
            thresholds,
            calendar,
            max_tree,
            blocks,
            joins_all: false,
            hidden: HashSet::new(),
            missing: RefCell::default(),
        }
    }

    /// The missing keys.
    pub(super) fn into_missing(self) -> (MissingKeys, BatchPlan<P>) {
        (self.missing.into_inner(), self.plans)
    }

    pub(super) fn is_missing(&self) -> bool {
        !self.missing.borrow().is_empty()
    }

    /// Finds or plans the place of a document at a time.
    pub(super) fn place(
        &mut self,
        query: &FeatureQuery<'_, P>,
        now: Millis,
        claim: Option<PriorClaim<'_>>,
    ) -> QueryOutcome {
        let concluded = self.foresee(query, now, claim);
        let PlannedDecision { outcome, changes, sign, without_founder_tokens, used_all_fingerprints } = match concluded
        {
            Some(Ok(concluded)) => concluded,
            Some(Err(waits)) => return QueryOutcome::Waits(waits),
            None => return QueryOutcome::Unread,
        };
        let (mut new, mut used) = (Vec::new(), Vec::new());
        for change in changes {
            if let Change::Use { fingerprint } = change {
                used.push(fingerprint);
            }
            new.extend(self.plans.add(change));
        }
        QueryOutcome::Decided(DecidedDocument {
            outcome,
            new,
            used,
            sign,
            without_founder_tokens,
            used_all_fingerprints,
        })
    }

    /// Leaves the trees of these tokens out: they are the request's own.
    pub(super) fn without(mut self, own: HashSet<FoundingToken>) -> Self {
        self.hidden = own;
        self
    }

    /// The root of the tree in which a fingerprint has a node.
    pub(super) fn tree_of(&self, fingerprint: Fingerprint) -> Option<Root> {
        if let Some(&root) = self.plans.nodes.get(&fingerprint) {
            // Of a tree that is there, what an earlier part of the request has read is not at hand any more.
            if !self.plans.trees.contains_key(&root) && !self.read.has_node(root.0) {
                self.missing.borrow_mut().nodes.insert(root.0);
            }
            return Some(root);
        }
        if !self.read.has_node(fingerprint) {
            self.missing.borrow_mut().nodes.insert(fingerprint);
            return None;
        }
        let root = self.read.tree_of(fingerprint, self.calendar)?;
        let token = self.read.root(root.0)?.token;
        (!self.hidden.contains(&token)).then_some(root)
    }

    /// The nodes within the distance, nearest first, then by fingerprint; and their trees.
    pub(super) fn near(&self, of: Fingerprint) -> Vec<NearNode> {
        let mut near: Vec<(Distance, Fingerprint)> = Vec::new();
        let k = self.blocks.k();
        let mut add = |fingerprint: Fingerprint| {
            let distance = of.distance(fingerprint);
            if distance <= k {
                near.push((distance, fingerprint));
            }
        };
        add(of);
        for bucket in self.blocks.buckets(of) {
            match self.read.buckets.get(&bucket) {
                Some(names) => names.iter().copied().for_each(&mut add),
                None => {
                    self.missing.borrow_mut().buckets.insert(bucket);
                }
            }
        }
        if k > Distance(0) {
            self.plans.nodes.keys().copied().for_each(&mut add);
        }
        self.living(near)
    }

    /// Whether the tree of a root is one that another process is founding.
    pub(super) fn is_provisional(&self, root: Root) -> bool {
        !self.joins_all
            && !self.plans.trees.contains_key(&root)
            && self.read.root(root.0).is_some_and(|root| !root.is_confirmed)
    }

    /// The founder tokens of a tree.
    pub(super) fn founder_tokens(&self, root: Root) -> Option<&[u16]> {
        if let Some(own) = self.plans.trees.get(&root) {
            return own.founder_tokens.as_deref();
        }
        match self.read.founder_tokens.get(&root.0) {
            Some(Some((token, tokens))) => {
                let own = self.read.root(root.0)?.token;
                (own == *token).then_some(&**tokens)
            }
            Some(None) => None,
            None => {
                self.missing.borrow_mut().founder_tokens.insert(root.0);
                None
            }
        }
    }

    /// Why a tree accepts no new documents, if it does not.
    pub(super) fn closed(&self, root: Root, earlier: Option<&Tallies>) -> Option<Refusal> {
        if self.is_provisional(root) {
            // A tree that is not confirmed accepts no documents; `waits` distinguishes it from a full one.
            return Some(Refusal::Full);
        }
        let mut tally = self.read.root(root.0).map(RootValue::tally).unwrap_or_default();
        if let Some(more) = earlier.and_then(|earlier| earlier.of(root.0)) {
            tally.add_all(more);
        }
        tally.closed(self.max_tree)
    }

    /// The first document of a tree.
    pub(super) fn first(&self, root: Root) -> DocumentHash {
        let planned = self.plans.trees.get(&root).map(|own| own.first);
        planned.or_else(|| Some(self.read.root(root.0)?.first)).unwrap_or_default()
    }

    pub(super) fn children(&self, root: Root, now: Millis) -> u32 {
        let kept = self.read.root(root.0).filter(|_| !self.plans.trees.contains_key(&root));
        let kept = kept.map_or(0, |kept| kept.living_children(self.calendar, now));
        kept + self.plans.children(root)
    }
}
