//! The recheck: once a request's claims are stored, it reads those of other processes.

use std::collections::HashSet;
use std::sync::Arc;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Durable, LearnedView, MethodKind, Proof};

use super::SharedInner;
use super::claim::{ClaimedTree, TreeClaim, has_put, put};
use super::keys::{FoundingToken, KeyKind, KeyOp, RedisReply};
use super::layout::{Calendar, NodeValue};
use super::read_set::{MissingKeys, ReadSet, ReadValues};
use super::round::{Answer, PlacementRound, RecheckQuery};
use crate::batch_plan::BatchPlan;
use crate::port::Unavailable;
use crate::time::Millis;
use crate::{Decision, Root};

/// The next step of a founder after a recheck.
enum Next {
    Yield,
    Confirm,
    Go { kill: Vec<(Fingerprint, Vec<u8>)>, claim: Vec<(Fingerprint, Option<Vec<u8>>)> },
}

/// The purpose of a command.
#[derive(Clone, Copy)]
enum Done {
    Kill,
    Claim(usize, Fingerprint),
    /// Of a leaf of that place.
    Text(usize, usize),
    Confirm(usize),
}

/// The commands of one round trip of the recheck.
struct RecheckCommands {
    now: Millis,
    commands: Vec<(KeyKind, Fingerprint, KeyOp)>,
    /// What the first commands do, in their order.
    done: Vec<Done>,
    /// Entries of new nodes in their buckets, sent after the other commands.
    names: Vec<(KeyKind, Fingerprint, KeyOp)>,
}

impl<F: MethodKind> SharedInner<F> {
    /// Rechecks each founder until it yields to another tree, or all its claims are made and its tree is confirmed. A
    /// joiner checks for a tree that its own text has founded.
    pub(super) async fn recheck(
        self: &Arc<Self>,
        trees: &mut [ClaimedTree<F::Proof>],
        round: &PlacementRound<F>,
        now: Millis,
    ) -> Result<(), Unavailable> {
        let tokens: HashSet<FoundingToken> =
            trees.iter().filter(|tree| tree.founding.is_some()).map(|tree| tree.token).collect();
        let mut members = members(trees, round);
        loop {
            let founders = |at: &usize| trees.get(*at).is_some_and(|tree| tree.founding.is_some());
            let open: Vec<usize> = places(trees, TreeClaim::Open).into_iter().filter(founders).collect();
            if open.is_empty() && members.is_empty() {
                break;
            }
            let joining = std::mem::take(&mut members);
            let (next, read) = self.next_steps(trees, &open, &joining, &tokens, now).await?;
            let mut sent = RecheckCommands { now, commands: Vec::new(), done: Vec::new(), names: Vec::new() };
            // A joiner checks once, and then claims the hash of its text.
            for member in joining {
                let Some(tree) = trees.get_mut(member.tree) else {
                    continue;
                };
                if member.has_its_text_elsewhere(tree, &round.read, &read, &tokens, self.calendar()) {
                    tree.restarting.insert(member.document);
                } else {
                    self.claim_texts(tree, &member, &mut sent);
                }
            }
            for (at, next) in open.into_iter().zip(next) {
                if let Some(tree) = trees.get_mut(at) {
                    self.take_step(tree, at, next, &mut sent);
                }
            }
            let RecheckCommands { mut commands, done, names, .. } = sent;
            commands.extend(names);
            let replies = self.run_all(commands).await?;
            for (done, reply) in done.into_iter().zip(replies) {
                self.record_reply(trees, done, &reply, now);
            }
        }
        for tree in trees.iter_mut().filter(|tree| tree.founding.is_none()) {
            if tree.state == TreeClaim::Open {
                tree.state = TreeClaim::Done;
            }
        }
        Ok(())
    }

    /// Claims the leaves of a joiner's text that wait for its recheck.
    fn claim_texts(&self, tree: &ClaimedTree<F::Proof>, member: &JoiningDocument, sent: &mut RecheckCommands) {
        if tree.restarting.contains(&member.document) {
            return;
        }
        let leaves = tree.leaves.iter().enumerate();
        for (at, leaf) in leaves.filter(|(_, leaf)| leaf.document == member.document) {
            if tree.is_claimed_after_recheck(leaf) {
                let value = self.leaf(tree, sent.now);
                let what = put(leaf.before.clone(), value, self.life(sent.now, false));
                sent.commands.push((KeyKind::Node, leaf.fingerprint, what));
                self.enter(leaf.fingerprint, sent.now, &mut sent.names);
                sent.done.push(Done::Text(member.tree, at));
            }
        }
    }

    /// Adds the commands of a founder's next step; `at`: its tree's place among those of the request.
    fn take_step(&self, tree: &mut ClaimedTree<F::Proof>, at: usize, next: Next, sent: &mut RecheckCommands) {
        let now = sent.now;
        match next {
            Next::Yield => tree.state = TreeClaim::Restarts,
            Next::Confirm => {
                let Some(confirmed) = self.confirmed(tree, now) else {
                    return;
                };
                tree.counted = tree.standing();
                sent.commands.push((KeyKind::Node, tree.root.0, confirmed));
                sent.done.push(Done::Confirm(at));
            }
            Next::Go { kill, claim } => {
                for (root, value) in kill {
                    sent.commands.push((KeyKind::Node, root, KeyOp::Remove { value }));
                    sent.done.push(Done::Kill);
                }
                for (fingerprint, before) in claim {
                    tree.expect_leaf(fingerprint, before.as_deref());
                    let value = self.leaf(tree, now);
                    let what = put(before, value, self.life(now, false));
                    sent.commands.push((KeyKind::Node, fingerprint, what));
                    self.enter(fingerprint, now, &mut sent.names);
                    sent.done.push(Done::Claim(at, fingerprint));
                }
            }
        }
    }

    /// Records the reply to a command of the recheck in its tree.
    fn record_reply(&self, trees: &mut [ClaimedTree<F::Proof>], done: Done, reply: &RedisReply, now: Millis) {
        let (Done::Text(at, _) | Done::Claim(at, _) | Done::Confirm(at)) = done else {
            return;
        };
        let Some(tree) = trees.get_mut(at) else {
            return;
        };
        match done {
            Done::Kill => {}
            Done::Text(_, leaf) => {
                let value = self.leaf(tree, now);
                tree.claimed(leaf, reply, &value);
            }
            Done::Claim(_, fingerprint) => {
                let is_own = has_put(reply, &self.leaf(tree, now));
                let mut leaves = tree.leaves.iter_mut();
                if let Some(leaf) = leaves.find(|leaf| leaf.fingerprint == fingerprint) {
                    leaf.is_own |= is_own;
                }
            }
            Done::Confirm(_) => {
                tree.state = match reply {
                    RedisReply::Number(1) => TreeClaim::Done,
                    _ => TreeClaim::Restarts,
                };
            }
        }
    }

    /// Reads the present state for these founders; returns their next steps, and the values.
    async fn next_steps(
        self: &Arc<Self>,
        trees: &[ClaimedTree<F::Proof>],
        open: &[usize],
        members: &[JoiningDocument],
        tokens: &HashSet<FoundingToken>,
        now: Millis,
    ) -> Result<(Vec<Next>, ReadValues<F::Proof>), Unavailable> {
        let mut read = ReadValues::default();
        let mut missing = MissingKeys::default();
        let asked = members.iter().flat_map(|member| &member.asked);
        missing.nodes.extend(asked);
        let mut rechecks = Vec::with_capacity(open.len());
        for tree in open.iter().filter_map(|&at| trees.get(at)) {
            let Some(founding) = &tree.founding else {
                continue;
            };
            let own = tree.leaves.iter().filter(|leaf| leaf.is_own);
            let mut own: HashSet<Fingerprint> = own.map(|leaf| leaf.fingerprint).collect();
            own.insert(tree.root.0);
            let asked = founding.question.asked();
            missing.nodes.extend(asked.filter(|asked| !own.contains(asked)));
            let near = founding.question.fingerprints.iter();
            let buckets = near.flat_map(|&near| self.blocks.buckets(near));
            missing.buckets.extend(buckets);
            let founder = tree.documents.first();
            let wanted = tree.leaves.iter();
            let wanted = wanted.filter(|leaf| !leaf.is_own && Some(&leaf.document) == founder);
            let wanted: Vec<Fingerprint> = wanted.map(|leaf| leaf.fingerprint).collect();
            rechecks.push(Recheck {
                question: founding.question.clone(),
                rank: (founding.value.added, tree.root),
                own,
                wanted,
                is_told: founding.question.is_told_by(tree.root),
            });
        }
        // Most founders own keys that nobody else has claimed.
        loop {
            self.fetch(&mut read, missing).await?;
            let tokens = tokens.clone();
            let (next, kept, read_again, more) = self
                .compute(move |inner| {
                    let mut read = read;
                    let (next, more) = inner.next(&rechecks, &mut read, &tokens, now);
                    (next, rechecks, read, more)
                })
                .await?;
            if more.is_empty() {
                return Ok((next, read_again));
            }
            (rechecks, read, missing) = (kept, read_again, more);
        }
    }

    fn next(
        &self,
        rechecks: &[Recheck<F::Proof>],
        read: &mut ReadValues<F::Proof>,
        tokens: &HashSet<FoundingToken>,
        now: Millis,
    ) -> (Vec<Next>, MissingKeys) {
        for own in rechecks.iter().flat_map(|recheck| &recheck.own) {
            // Nothing of the request's own is to be seen: of the others that it founds it has been decided already.
            if !read.has_node(*own) {
                read.put(*own, None);
            }
        }
        let thresholds = self.thresholds;
        let found_by = (self.settings.max_tree, &self.blocks);
        let read_set: ReadSet<'_, F::Proof> =
            ReadSet::new(read, BatchPlan::default(), thresholds, self.calendar(), found_by).without(tokens.clone());
        let learned = self.learned.lock();
        let next = rechecks.iter().map(|recheck| recheck.next(&read_set, F::view(&learned), now)).collect();
        let (missing, _) = read_set.into_missing();
        (next, missing)
    }
}

/// A document that joins a tree.
struct JoiningDocument {
    tree: usize,
    document: usize,
    /// Fingerprints that have no node in that tree.
    asked: Vec<Fingerprint>,
    whole: Fingerprint,
}

impl JoiningDocument {
    /// Whether another tree was founded with its text since the decision, which it must join. A tree that was there
    /// before has been decided against, and would be again: by boilerplate that is left out, or by more of its
    /// fingerprints, a text may lead to a tree that it once founded and that it is not known by.
    fn has_its_text_elsewhere<P: Proof + Durable>(
        &self,
        tree: &ClaimedTree<P>,
        before: &ReadValues<P>,
        read: &ReadValues<P>,
        own: &HashSet<FoundingToken>,
        calendar: Calendar,
    ) -> bool {
        let mut asked = self.asked.iter().filter(|&&asked| asked != tree.root.0);
        asked.any(|&asked| {
            let root = read.root(asked);
            let root = root.filter(|_| read.tree_of(asked, calendar).is_some());
            let was_there = |token| before.root(asked).is_some_and(|root| root.is_confirmed && root.token == token);
            root.is_some_and(|root| {
                root.proof.is_of_text(self.whole) && !own.contains(&root.token) && !was_there(root.token)
            })
        })
    }
}

/// The documents that join trees.
fn members<F: MethodKind>(trees: &[ClaimedTree<F::Proof>], round: &PlacementRound<F>) -> Vec<JoiningDocument> {
    let mut members = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        if tree.state != TreeClaim::Open {
            continue;
        }
        let held: HashSet<Fingerprint> =
            tree.leaves.iter().filter(|leaf| leaf.is_own).map(|leaf| leaf.fingerprint).collect();
        for &document in &tree.documents {
            let Some(Answer::Fate(fate)) = round.answers.get(document) else {
                continue;
            };
            let joins = match fate.decided.outcome.decision {
                Decision::Joined { .. } => true,
                // By the hash of its text it is known from now on.
                Decision::Refreshed => !fate.decided.new.is_empty(),
                Decision::NewRoot | Decision::Outside => false,
            };
            if !joins || tree.restarting.contains(&document) {
                continue;
            }
            let asked = fate.question.asked();
            let asked = asked
                .filter(|asked| !held.contains(asked) && !fate.decided.used.contains(asked) && *asked != tree.root.0);
            members.push(JoiningDocument { tree: at, document, asked: asked.collect(), whole: fate.question.whole });
        }
    }
    members
}

/// The recheck of one founder.
struct Recheck<P> {
    question: RecheckQuery<P>,
    /// The earlier one founds; of two of one moment, that of the smaller root.
    rank: (Millis, Root),
    own: HashSet<Fingerprint>,
    /// Nodes that it was to have and has not.
    wanted: Vec<Fingerprint>,
    /// Whether its root itself shows whose text has founded the tree.
    is_told: bool,
}

impl<P: Proof + Durable> Recheck<P> {
    fn next(&self, read_set: &ReadSet<'_, P>, learned: LearnedView<'_>, now: Millis) -> Next {
        let query = self.question.query(learned);
        let Some((agreeing, known)) = read_set.agreeing(&query, now, self.question.is_given) else {
            return Next::Confirm;
        };
        let mut kill = Vec::new();
        for root in agreeing {
            // A full tree refuses a text and has it, once another document of that text has come in.
            if self.question.refused.contains(&root) && known != Some(root) {
                continue;
            }
            let Some(kept) = read_set.read.kept(root.0) else {
                continue;
            };
            let NodeValue::Root(other) = &kept.node else {
                continue;
            };
            if other.is_confirmed || (other.added, root) < self.rank {
                return Next::Yield;
            }
            kill.push((root.0, kept.bytes.clone()));
        }
        let free = self.wanted.iter();
        let free = free.filter(|&&wanted| read_set.tree_of(wanted).is_none());
        let mut claim: Vec<Fingerprint> = free.copied().collect();
        // As where it is planned (`placement::changes`): if another tree has one of its fingerprints, nothing but the
        // hash of its text leads back here.
        let is_elsewhere = |wanted: &Fingerprint| *wanted != query.whole && read_set.tree_of(*wanted).is_some();
        let is_known = self.is_told || self.own.contains(&query.whole) || claim.contains(&query.whole);
        if !is_known && self.wanted.iter().any(is_elsewhere) && read_set.tree_of(query.whole).is_none() {
            claim.push(query.whole);
        }
        claim.retain(|&wanted| !read_set.read.is_unusable(wanted));
        let before = |wanted| read_set.read.value(wanted).map(<[u8]>::to_vec);
        let claim: Vec<_> = claim.into_iter().map(|wanted| (wanted, before(wanted))).collect();
        match kill.is_empty() && claim.is_empty() {
            true => Next::Confirm,
            false => Next::Go { kill, claim },
        }
    }
}

fn places<P>(trees: &[ClaimedTree<P>], state: TreeClaim) -> Vec<usize> {
    let each = trees.iter().enumerate();
    let those = each.filter(|(_, tree)| tree.state == state);
    those.map(|(at, _)| at).collect()
}
