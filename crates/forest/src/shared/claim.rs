//! Claims planned placements: the steps after reading, each one round trip for all documents of a request.
//!
//! Founders write before they read, so of two that found the same tree at least one sees the other. A tree is
//! confirmed and killed at one key, so only one of the two happens. A joiner pins the root before it inserts a leaf.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FounderTokens, MethodKind};

use super::SharedInner;
use super::keys::{FoundingToken, KeyKind, KeyOp, Lifetime, PinNonce, RedisReply, RoundFailed};
use super::layout::{LEASE, LeafValue, NodeValue, RootValue, write_founder_tokens};
use super::round::{Answer, ClaimOutcome, PlacementRound, RecheckQuery};
use crate::port::Unavailable;
use crate::ticket::{SharedNodes, UsedLeaf};
use crate::time::Millis;
use crate::{Rollback, Root, Ticket};

/// A tree that documents of the request join or found.
pub(super) struct ClaimedTree<P> {
    pub(super) root: Root,
    pub(super) token: FoundingToken,
    /// Documents, by their places in the round; the founder first.
    pub(super) documents: Vec<usize>,
    /// New leaves, and whose they are.
    pub(super) leaves: Vec<NewLeaf>,
    /// Existing leaves whose expiry is extended, with their values and documents.
    pub(super) refreshed: Vec<(Fingerprint, LeafValue, usize)>,
    /// Existing leaves of a dated forest, with their documents: extended when these are accepted.
    pub(super) used: Vec<(UsedLeaf, usize)>,
    /// That of the pin of its root.
    pub(super) nonce: PinNonce,
    /// Whether the root exists with an earlier step, and is to be extended.
    pub(super) is_due: bool,
    /// Number of documents that its root is pinned for.
    pub(super) counted: usize,
    /// Documents that restart although the tree stays.
    pub(super) restarting: HashSet<usize>,
    pub(super) founding: Option<TreeFounding<P>>,
    pub(super) state: TreeClaim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeClaim {
    /// Its root exists or is to be claimed.
    Open,
    /// Its documents are placed.
    Done,
    /// Its documents restart.
    Restarts,
}

/// State of founding a tree.
pub(super) struct TreeFounding<P> {
    pub(super) value: RootValue<P>,
    /// The dead value that it replaces.
    pub(super) before: Option<Vec<u8>>,
    pub(super) founder_tokens: Option<FounderTokens>,
    pub(super) question: RecheckQuery<P>,
}

pub(super) struct NewLeaf {
    pub(super) fingerprint: Fingerprint,
    pub(super) document: usize,
    pub(super) before: Option<Vec<u8>>,
    pub(super) is_own: bool,
    /// Whether it is the hash of the document's text.
    pub(super) is_text: bool,
}

impl<P> ClaimedTree<P> {
    /// Whether a document of it is the one that founds it.
    pub(super) fn is_founder(&self, document: usize) -> bool {
        self.founding.is_some() && self.documents.first() == Some(&document)
    }

    /// Whether a leaf is claimed only after the recheck of its document. Were the hash of a text claimed with the other
    /// leaves, a copy could know itself by it that has to begin again for one of those.
    pub(super) fn is_claimed_after_recheck(&self, leaf: &NewLeaf) -> bool {
        leaf.is_text && !self.is_founder(leaf.document)
    }

    /// The number of documents that do not restart.
    pub(super) fn standing(&self) -> usize {
        self.documents.len() - self.restarting.len()
    }

    /// Adds this leaf to the founder's, unless it is among them.
    pub(super) fn expect_leaf(&mut self, fingerprint: Fingerprint, before: Option<&[u8]>) {
        if self.leaves.iter().any(|leaf| leaf.fingerprint == fingerprint) {
            return;
        }
        let Some(&document) = self.documents.first() else { return };
        let before = before.map(<[u8]>::to_vec);
        self.leaves.push(NewLeaf { fingerprint, document, before, is_own: false, is_text: true });
    }

    /// Records the reply to the claim of a leaf.
    pub(super) fn claimed(&mut self, leaf: usize, reply: &RedisReply, value: &[u8]) {
        let is_own = has_put(reply, value);
        let is_of_tree = match reply {
            RedisReply::Bytes(there) => self.has(there),
            // Nobody has that key: the document does without.
            RedisReply::Unusable => return,
            RedisReply::Nothing | RedisReply::Number(_) => false,
        };
        let Some(leaf) = self.leaves.get_mut(leaf) else {
            return;
        };
        leaf.is_own |= is_own;
        let document = leaf.document;
        if !is_own && !is_of_tree && !self.is_founder(document) {
            self.restarting.insert(document);
        }
    }

    /// Whether a stored value is a leaf of this tree.
    fn has(&self, there: &[u8]) -> bool {
        match NodeValue::<()>::read(there) {
            Some(NodeValue::Leaf(leaf)) => leaf.root == self.root && leaf.token == self.token,
            _ => false,
        }
    }
}

impl<F: MethodKind> SharedInner<F> {
    /// Claims the placements of a round. One outcome for each of its documents.
    pub(super) async fn claim(self: &Arc<Self>, round: &PlacementRound<F>) -> Result<Vec<ClaimOutcome>, Unavailable> {
        let now = round.work.iter().map(|work| work.at).max();
        let now = now.max(self.dated_clock()).unwrap_or(Millis(0));
        let mut trees = self.trees(round, now);
        let rechecked = async {
            self.claim_roots(&mut trees, now).await?;
            self.claim_leaves(&mut trees, now).await?;
            self.recheck(&mut trees, round, now).await
        };
        if let Err(error) = rechecked.await {
            self.abandon(&trees, &error, |tree| tree.counted);
            return Err(error);
        }
        if let Err((error, kept)) = self.withdraw_claims(&trees, now).await {
            self.abandon(&trees, &error, |tree| match kept.contains(&tree.root) {
                true => tree.counted,
                // Those that restart are released, as far as is known.
                false => tree.standing(),
            });
            return Err(error);
        }
        Ok(self.claimed(round, &trees, now))
    }

    /// Withdraws the trees of a round that failed, once Redis can be asked: its documents are placed elsewhere, or not
    /// at all. A root that was not confirmed ends with its lease. `uses`: placements that a root was confirmed or
    /// pinned for.
    ///
    /// Unless all of Redis is there, what the round has joined keeps a use more: the pin may be lost in the failover
    /// that has ended the round, and its release would take the root of another document.
    fn abandon(
        &self,
        trees: &[ClaimedTree<F::Proof>],
        why: &Unavailable,
        uses: impl Fn(&ClaimedTree<F::Proof>) -> usize,
    ) {
        let is_there = matches!(why, Unavailable::Full { is_all_there: true, .. });
        let standing = trees.iter().filter(|tree| {
            let is_released = tree.founding.is_some() || is_there;
            is_released && tree.counted > 0 && tree.state != TreeClaim::Restarts
        });
        self.withdraw_later(standing.flat_map(|tree| {
            let own = tree.leaves.iter().filter(|leaf| leaf.is_own);
            let mut leaves: Vec<Fingerprint> = own.map(|leaf| leaf.fingerprint).collect();
            let of_use = move |_| {
                let leaves = std::mem::take(&mut leaves);
                Ticket::to_withdraw(SharedNodes { leaves, ..SharedNodes::of(tree.root, tree.token) })
            };
            (0..uses(tree)).map(of_use)
        }));
    }

    /// Claims, and does no more.
    #[cfg(test)]
    pub(super) async fn claim_and_crash(self: &Arc<Self>, round: &PlacementRound<F>) -> Result<(), Unavailable> {
        let now = Millis(0);
        let mut trees = self.trees(round, now);
        self.claim_roots(&mut trees, now).await?;
        self.claim_leaves(&mut trees, now).await
    }

    /// The planned changes by tree.
    fn trees(&self, round: &PlacementRound<F>, now: Millis) -> Vec<ClaimedTree<F::Proof>> {
        let PlacementRound { answers, read, plans, .. } = round;
        let mut trees: Vec<ClaimedTree<F::Proof>> = Vec::new();
        let mut places: HashMap<Root, usize> = HashMap::new();
        let fates = answers.iter().enumerate();
        let fates = fates.filter_map(|(at, answer)| match answer {
            Answer::Fate(fate) => Some((at, fate)),
            _ => None,
        });
        for (at, fate) in fates {
            let decided = &fate.decided;
            let root = decided.outcome.root;
            if decided.new.is_empty() && decided.used.is_empty() {
                continue;
            }
            let dead = |fingerprint| read.value(fingerprint).map(<[u8]>::to_vec);
            let place = *places.entry(root).or_insert_with(|| {
                trees.push(self.claimed_tree(root, &fate.question, round, now));
                trees.len() - 1
            });
            let Some(tree) = trees.get_mut(place) else {
                continue;
            };
            tree.documents.push(at);
            let leaves = decided.new.iter().filter(|&&node| node != root.0);
            tree.leaves.extend(leaves.map(|&fingerprint| NewLeaf {
                fingerprint,
                document: at,
                before: dead(fingerprint),
                is_own: false,
                is_text: fingerprint == fate.question.whole,
            }));
            for &fingerprint in decided.used.iter().filter(|&&used| used != root.0) {
                let step = self.calendar.leaf_step(now);
                let old =
                    read.leaf(fingerprint).filter(|leaf| leaf.step != step && !plans.nodes.contains_key(&fingerprint));
                if self.calendar.is_dated {
                    let is_due = old.is_some();
                    let leaf = fingerprint;
                    tree.used.push((UsedLeaf { leaf, is_due }, at));
                    continue;
                }
                let mut known = tree.refreshed.iter();
                if !known.any(|&(known, ..)| known == fingerprint) {
                    let old = old.map(|leaf| (fingerprint, leaf, at));
                    tree.refreshed.extend(old);
                }
            }
        }
        trees
    }

    /// A tree without documents yet; `question`: of its founder, if the request founds it.
    fn claimed_tree(
        &self,
        root: Root,
        question: &RecheckQuery<F::Proof>,
        round: &PlacementRound<F>,
        now: Millis,
    ) -> ClaimedTree<F::Proof> {
        let founding = round.plans.trees.get(&root).map(|own| TreeFounding {
            value: RootValue {
                is_confirmed: false,
                token: self.new_token(),
                added: own.added,
                step: self.calendar.step(now),
                is_dated: self.calendar.is_dated,
                uses: 0,
                nonce: 0,
                children: 0,
                before: 0,
                tally: None,
                first: own.first,
                proof: own.proof.clone(),
            },
            before: round.read.value(root.0).map(<[u8]>::to_vec),
            founder_tokens: own.founder_tokens.clone(),
            question: question.clone(),
        });
        let kept = round.read.root(root.0).filter(|_| founding.is_none());
        let is_due = kept.is_some_and(|kept| kept.step != self.calendar.step(now));
        let read = kept.map_or(0, |kept| kept.nonce);
        let kept = kept.map(|kept| kept.token);
        let token = founding.as_ref().map(|founding| founding.value.token);
        ClaimedTree {
            root,
            token: token.or(kept).unwrap_or(FoundingToken(0)),
            documents: Vec::new(),
            leaves: Vec::new(),
            refreshed: Vec::new(),
            used: Vec::new(),
            nonce: PinNonce::after(read, self.random()),
            is_due,
            counted: 0,
            restarting: HashSet::new(),
            founding,
            state: TreeClaim::Open,
        }
    }

    pub(super) fn leaf(&self, tree: &ClaimedTree<F::Proof>, now: Millis) -> Vec<u8> {
        let leaf = self.calendar.leaf(tree.root, tree.token, now);
        leaf.bytes()
    }

    /// Claims the roots of new trees provisionally, and pins existing ones.
    async fn claim_roots(&self, trees: &mut [ClaimedTree<F::Proof>], now: Millis) -> Result<(), Unavailable> {
        let commands = trees.iter().map(|tree| {
            let what = match &tree.founding {
                Some(founding) => {
                    let value = founding.value.bytes();
                    put(founding.before.clone(), value, Lifetime::For(LEASE))
                }
                // Its arrival is set when its documents are accepted.
                None if self.calendar.is_dated => KeyOp::Hold {
                    token: tree.token,
                    uses: small(tree.documents.len()),
                    children: small(tree.leaves.len()),
                    nonce: tree.nonce,
                },
                None => KeyOp::Pin {
                    token: tree.token,
                    uses: small(tree.documents.len()),
                    children: small(tree.leaves.len()),
                    nonce: tree.nonce,
                    step: self.calendar.step(now) as u16,
                    life: self.calendar.life(now, true),
                },
            };
            (KeyKind::Node, tree.root.0, what)
        });
        let mut commands: Vec<_> = commands.collect();
        // A root that lives longer is named longer.
        let pinned = |tree: &&ClaimedTree<F::Proof>| tree.is_due && !self.calendar.is_dated;
        for tree in trees.iter().filter(pinned) {
            self.enter(tree.root.0, now, &mut commands);
        }
        let replies = match self.run_round(commands).await {
            Ok(replies) => replies,
            Err(RoundFailed { why, pinned, .. }) => {
                for at in pinned {
                    if let Some(tree) = trees.get_mut(at) {
                        tree.counted = tree.documents.len();
                    }
                }
                return Err(why);
            }
        };
        for (tree, reply) in trees.iter_mut().zip(replies) {
            let is_there = match (&tree.founding, reply) {
                (Some(founding), reply) => has_put(&reply, &founding.value.bytes()),
                (None, reply) => matches!(reply, RedisReply::Number(_)),
            };
            match is_there {
                true if tree.founding.is_none() => tree.counted = tree.documents.len(),
                true => {}
                false => tree.state = TreeClaim::Restarts,
            }
        }
        Ok(())
    }

    /// Inserts the new leaves of confirmed trees. A leaf of a faster tree stays, and joiners that lose to it begin
    /// again: they might have joined that tree.
    async fn claim_leaves(&self, trees: &mut [ClaimedTree<F::Proof>], now: Millis) -> Result<(), Unavailable> {
        let (mut commands, mut more) = (Vec::new(), Vec::new());
        let life = self.life(now, false);
        for tree in trees.iter().filter(|tree| tree.state == TreeClaim::Open) {
            let value = self.leaf(tree, now);
            for leaf in tree.leaves.iter().filter(|leaf| !tree.is_claimed_after_recheck(leaf)) {
                let what = put(leaf.before.clone(), value.clone(), life);
                commands.push((KeyKind::Node, leaf.fingerprint, what));
                self.enter(leaf.fingerprint, now, &mut more);
            }
            for (fingerprint, leaf, _) in &tree.refreshed {
                // It may have gone since it was read.
                let what = put(Some(leaf.bytes()), value.clone(), life);
                commands.push((KeyKind::Node, *fingerprint, what));
                self.enter(*fingerprint, now, &mut more);
            }
            if tree.founding.is_some() {
                self.enter(tree.root.0, now, &mut more);
            }
            let tokens = tree.founding.as_ref().and_then(|f| f.founder_tokens.as_ref());
            if let Some(tokens) = tokens.filter(|_| self.has_founder_tokens()) {
                let value = write_founder_tokens(tree.token, tokens);
                let life = self.founder_tokens_life(value.len(), now);
                more.push((KeyKind::FounderTokens, tree.root.0, KeyOp::Put { value, life }));
            }
        }
        commands.extend(more);
        let mut replies = self.run_all(commands).await?;
        for tree in trees.iter_mut().filter(|tree| tree.state == TreeClaim::Open) {
            let value = self.leaf(tree, now);
            for at in 0..tree.leaves.len() {
                if tree.leaves.get(at).is_none_or(|leaf| tree.is_claimed_after_recheck(leaf)) {
                    continue;
                }
                let reply = replies.next().unwrap_or(RedisReply::Number(0));
                tree.claimed(at, &reply, &value);
            }
            for at in 0..tree.refreshed.len() {
                let reply = replies.next().unwrap_or(RedisReply::Number(0));
                let document = tree.refreshed.get(at).map(|&(_, _, document)| document);
                let is_lost = !has_put(&reply, &value);
                tree.restarting.extend(document.filter(|&at| is_lost && !tree.is_founder(at)));
            }
        }
        Ok(())
    }

    /// The value of a confirmed root, which others may join.
    pub(super) fn confirmed(&self, tree: &ClaimedTree<F::Proof>, now: Millis) -> Option<KeyOp> {
        let founding = tree.founding.as_ref()?;
        // The hashes of texts are claimed in the same round trip.
        let comes = |leaf: &NewLeaf| tree.is_claimed_after_recheck(leaf) && !tree.restarting.contains(&leaf.document);
        let own = tree.leaves.iter();
        let own = own.filter(|leaf| leaf.is_own || comes(leaf));
        let confirmed = RootValue {
            is_confirmed: true,
            uses: small(tree.standing()),
            children: small(own.count()),
            ..founding.value.clone()
        };
        Some(KeyOp::Confirm { token: tree.token, value: confirmed.bytes(), life: self.life(now, true) })
    }

    /// Removes the keys of abandoned trees, and of documents that restart.
    ///
    /// # Errors
    /// With the roots whose uses were certainly not released.
    async fn withdraw_claims(
        &self,
        trees: &[ClaimedTree<F::Proof>],
        now: Millis,
    ) -> Result<(), (Unavailable, HashSet<Root>)> {
        let mut commands = Vec::new();
        for tree in trees.iter().filter(|tree| tree.state == TreeClaim::Done) {
            let (token, uses) = (tree.token, small(tree.counted - tree.standing()));
            if uses > 0 {
                commands.push((tree.root.0, KeyOp::Release { token, uses }));
            }
        }
        let released: Vec<Root> = commands.iter().map(|&(root, _)| Root(root)).collect();
        for tree in trees.iter().filter(|tree| tree.state == TreeClaim::Restarts) {
            let Some(founding) = &tree.founding else {
                continue;
            };
            let value = founding.value.bytes();
            commands.push((tree.root.0, KeyOp::Remove { value }));
            for leaf in tree.leaves.iter().filter(|leaf| leaf.is_own) {
                let value = self.leaf(tree, now);
                commands.push((leaf.fingerprint, KeyOp::Remove { value }));
            }
        }
        let commands = commands.into_iter().map(|(node, what)| (KeyKind::Node, node, what)).collect();
        let Err(RoundFailed { why, not_run, .. }) = self.run_round(commands).await else {
            return Ok(());
        };
        Err((why, not_run.into_iter().filter_map(|at| released.get(at).copied()).collect()))
    }

    fn claimed(&self, round: &PlacementRound<F>, trees: &[ClaimedTree<F::Proof>], now: Millis) -> Vec<ClaimOutcome> {
        let fates = round.answers.iter();
        // One without a node has nothing to lose.
        let mut claimed: Vec<ClaimOutcome> = fates
            .map(|answer| match answer {
                Answer::Fate(fate) if fate.decided.new.is_empty() && fate.decided.used.is_empty() => {
                    ClaimOutcome::Holds(Rollback::default())
                }
                _ => ClaimOutcome::Again,
            })
            .collect();
        let placed = self.calendar.is_dated.then(|| self.calendar.step(now));
        for tree in trees.iter().filter(|tree| tree.state == TreeClaim::Done) {
            let standing = tree.documents.iter();
            for &document in standing.filter(|document| !tree.restarting.contains(document)) {
                // Leaves are removed only together with the root, when no document was placed by them.
                let own = tree.leaves.iter();
                let own = own.filter(|leaf| leaf.is_own && leaf.document == document);
                let nodes = SharedNodes {
                    root: tree.root,
                    token: tree.token,
                    has_founded: tree.is_founder(document),
                    placed,
                    is_due: tree.is_due,
                    leaves: own.map(|leaf| leaf.fingerprint).collect(),
                    used: tree.used.iter().filter(|&&(_, of)| of == document).map(|&(used, _)| used).collect(),
                };
                if let Some(claimed) = claimed.get_mut(document) {
                    *claimed = ClaimOutcome::Holds(Rollback::Shared(nodes.into()));
                }
            }
        }
        claimed
    }
}

/// The operation that puts a value into an empty key or over a dead value.
pub(super) fn put(before: Option<Vec<u8>>, value: Vec<u8>, life: Lifetime) -> KeyOp {
    match before {
        None => KeyOp::Claim { value, life },
        Some(before) => KeyOp::Swap { before, or_nothing: true, value, life },
    }
}

/// Whether a value was put, this time or before.
pub(super) fn has_put(reply: &RedisReply, value: &[u8]) -> bool {
    match reply {
        RedisReply::Nothing => true,
        RedisReply::Bytes(there) => there == value,
        RedisReply::Number(done) => *done == 1,
        RedisReply::Unusable => false,
    }
}

fn small(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
