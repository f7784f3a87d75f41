//! Late merges: trees that are candidates to be one, because a later document was found to agree with both.
//!
//! - **Candidates.** An accepted document with a new text that joins the tree *t* by proof suggests each other open
//!   tree *o* (the first four) that would have accepted it as well, if *o* has an accepted document. Pinned texts
//!   suggest none.
//! - **Agreement.** Each founder is checked against the other's tree with one fingerprint in common, the strictest
//!   case, in both directions; likewise every live root of one group with every one of the other (64 pairs at most).
//!   Results for the last 10,000 pairs are cached until another override is added.
//! - **Override.** It merges the trees *t* and *o*, not their groups, so that undoing another override leaves no
//!   unchecked pair. If the overrides changed since the check, the pair is checked again.
//! - **Removal.** With every 64th late merge obsolete ones are removed: the loser's tree has expired, no other override
//!   names it, and stored documents follow.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};

use spinney_text::method::{LearnedView, Proof};

use super::overrides::Overrides;
use super::{LateMergeStats, Root};

/// Pairs of groups that are remembered; those that were met first go first.
const MOST_PAIRS: usize = 10_000;

/// Most pairs of trees that are aligned before two groups are taken for one; larger groups are not.
const MOST_COMPARED: usize = 64;

/// Most trees of two groups that are compared in a shared forest, expired ones included.
const MOST_READ: usize = 1_024;

/// Number of late merges after which overrides without effect are removed.
const FORGET_EVERY: u64 = 64;

/// How late merges are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LateMerges {
    /// They are not detected.
    Off,
    /// They are shown to people.
    #[default]
    Suggest,
    /// They are merged.
    Apply,
}

/// Two groups that may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suggestion {
    /// The one whose root would stay.
    pub winner: Root,
    /// The other.
    pub loser: Root,
    /// Documents that agree with both.
    pub documents: u64,
}

/// Late merges found since the start. Lost with the process: the pairs are found again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LateMergeLog {
    /// Groups that may be one, those that were met first in front.
    pub suggestions: Vec<Suggestion>,
    /// Merges that were applied.
    pub applied: u64,
    /// Merges that did not fit into the overrides any more.
    pub no_room: u64,
}

impl LateMergeLog {
    /// The late merges as counts.
    pub(super) fn stats(&self) -> LateMergeStats {
        LateMergeStats { suggested: self.suggestions.len(), applied_total: self.applied, no_room_total: self.no_room }
    }
}

/// Whether the groups of two trees may be merged: they are two groups, and no override separates them.
pub(super) fn may_be_one(overrides: &Overrides, tree: Root, other: Root) -> bool {
    let pair = pair(overrides.group(tree), overrides.group(other));
    pair.0 != pair.1 && overrides.kept_apart().all(|apart| apart != pair)
}

/// The trees that have to be compared before these two groups are merged, including those that are gone; `None`: they
/// are too many, and the merge is only suggested.
pub(super) fn trees_of(overrides: &Overrides, tree: Root, other: Root) -> Option<Vec<Root>> {
    let all: Vec<Root> = [tree, other].into_iter().flat_map(|root| overrides.merged_with(root)).collect();
    (all.len() <= MOST_READ).then_some(all)
}

/// Whether two trees have the same text, by the proofs and tokens of their founders: each would join the other's tree
/// with one shared fingerprint.
pub(super) fn founders_agree<P: Proof>(
    one: (&P, &[u16]),
    other: (&P, &[u16]),
    thresholds: P::Thresholds,
    learned: LearnedView<'_>,
) -> bool {
    let agrees = |(own, tokens): (&P, &[u16]), root: (&P, &[u16])| {
        own.agrees_by((tokens, learned), root, 1, thresholds, &Cell::new(None)).is_ok()
    };
    agrees(one, other) && agrees(other, one)
}

/// Whether all living trees of two groups agree pairwise, so that no third tree connects them; `None` if one of the two
/// has expired. `agree`: whether two trees do, `None` if one of them is gone.
pub(super) fn are_one(
    overrides: &Overrides,
    (tree, other): (Root, Root),
    is_alive: impl Fn(Root) -> bool,
    agree: impl Fn(Root, Root) -> Option<bool>,
) -> Option<bool> {
    if !agree(tree, other)? {
        return Some(false);
    }
    let living = |root| {
        let group = overrides.merged_with(root).into_iter();
        group.filter(|&root| is_alive(root))
    };
    let others: Vec<Root> = living(other).collect();
    let ones: Vec<Root> = living(tree).collect();
    let mut pairs = ones.iter().flat_map(|&one| others.iter().map(move |&other| (one, other)));
    let few = ones.len() * others.len() <= MOST_COMPARED;
    Some(few && pairs.all(|(one, other)| agree(one, other) != Some(false)))
}

/// The pairs of a forest.
#[derive(Debug, Default)]
pub(super) struct MergeCandidates {
    pub(super) mode: LateMerges,
    /// Pairs of trees, the smaller root first.
    met: HashMap<(Root, Root), MetPair>,
    queue: VecDeque<(Root, Root)>,
    /// Override version at which pairs were judged; a judgement of an earlier version may be stale.
    changes: u64,
    tried: u64,
    pub(super) applied: u64,
    pub(super) no_room: u64,
}

#[derive(Debug, Clone, Copy)]
struct MetPair {
    winner: Root,
    documents: u64,
    /// Whether the groups agree; computed once, since it is expensive.
    agree: bool,
    /// When it was judged, by [`MergeCandidates::changes`].
    changes: u64,
}

impl MergeCandidates {
    /// Invalidates judgements after an override was added or removed.
    pub(super) fn overrides_changed(&mut self) {
        self.changes += 1;
    }

    /// Sets the version of the overrides that the cached judgements are valid for.
    pub(super) fn set_override_version(&mut self, change: u64) {
        self.changes = change;
    }

    /// Whether overrides without effect are due to be removed.
    pub(super) fn is_time_to_forget(&mut self) -> bool {
        self.tried += 1;
        self.tried.is_multiple_of(FORGET_EVERY)
    }

    /// The cached judgement of two trees, if it is still valid.
    pub(super) fn known(&mut self, tree: Root, other: Root) -> Option<bool> {
        let met = self.met.get_mut(&pair(tree, other))?;
        met.documents += 1;
        (met.changes == self.changes).then_some(met.agree)
    }

    /// Whether the groups of the two agree.
    pub(super) fn judged(&mut self, tree: Root, other: Root, agree: bool) {
        let (pair, changes) = (pair(tree, other), self.changes);
        if let Some(met) = self.met.get_mut(&pair) {
            (met.agree, met.changes) = (agree, changes);
            return;
        }
        if self.met.len() >= MOST_PAIRS
            && let Some(oldest) = self.queue.pop_front()
        {
            self.met.remove(&oldest);
        }
        let met = MetPair { winner: tree, documents: 1, agree, changes };
        self.met.insert(pair, met);
        self.queue.push_back(pair);
    }

    /// The late merges since the start that are still valid.
    pub(super) fn late_merges(&self, overrides: &Overrides) -> LateMergeLog {
        let mut listed: HashSet<(Root, Root)> = overrides.kept_apart().collect();
        let suggestions = self.agreeing().filter_map(|met| {
            let (winner, loser) = (overrides.group(met.winner), overrides.group(met.loser));
            let is_open = winner != loser && listed.insert(pair(winner, loser));
            is_open.then_some(Suggestion { winner, loser, documents: met.documents })
        });
        LateMergeLog { suggestions: suggestions.collect(), applied: self.applied, no_room: self.no_room }
    }

    /// Those that agree, in the order in which they were met.
    fn agreeing(&self) -> impl Iterator<Item = Suggestion> {
        self.queue.iter().filter_map(|pair| {
            let met = self.met.get(pair).filter(|met| met.agree)?;
            let loser = if met.winner == pair.0 { pair.1 } else { pair.0 };
            Some(Suggestion { winner: met.winner, loser, documents: met.documents })
        })
    }
}

fn pair(one: Root, other: Root) -> (Root, Root) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_text::fingerprint::Fingerprint;

    fn root(number: u64) -> Root {
        Root(Fingerprint(number))
    }

    #[test]
    fn what_is_gone_is_looked_for_now_and_then() {
        let mut candidates = MergeCandidates::default();
        let times: Vec<u64> = (1..=2 * FORGET_EVERY).filter(|_| candidates.is_time_to_forget()).collect();
        assert_eq!(times, [FORGET_EVERY, 2 * FORGET_EVERY]);
    }

    #[test]
    fn a_pair_is_judged_once_and_the_oldest_go() {
        let mut candidates = MergeCandidates::default();
        assert_eq!(candidates.known(root(2), root(1)), None);
        candidates.judged(root(2), root(1), true);
        assert_eq!(candidates.known(root(1), root(2)), Some(true));
        candidates.judged(root(3), root(1), false);
        assert_eq!(candidates.known(root(3), root(1)), Some(false));
        let listed: Vec<Suggestion> = candidates.agreeing().collect();
        let first = Suggestion { winner: root(2), loser: root(1), documents: 2 };
        assert_eq!(listed, [first]);
        for number in 0..MOST_PAIRS as u64 - 1 {
            candidates.judged(root(10 + number), root(0), true);
        }
        // An override in between may change the judgement.
        candidates.overrides_changed();
        assert_eq!(candidates.known(root(3), root(1)), None);
        // One of the first two has gone.
        assert_eq!(candidates.met.len(), MOST_PAIRS);
        assert_eq!(candidates.agreeing().count(), MOST_PAIRS - 1);
        assert_eq!(candidates.queue.len(), MOST_PAIRS);
    }
}
