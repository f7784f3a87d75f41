//! Late merges in a shared forest: an accepted document that agrees with two live trees suggests that they are one.
//! The founders are read from Redis; the rules are those of `late_merges.rs` of this crate.

use std::collections::{BTreeSet, HashMap};

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FounderTokens, LearnedView, MethodKind, Proof};

use super::SharedInner;
use super::keys::{FoundingToken, KeyKind, KeyOp, RedisReply};
use super::layout::{NodeValue, read_founder_tokens};
use super::overrides::{ChangeOutcome, OverrideTable};
use crate::late_merges::{LateMerges, are_one, founders_agree, may_be_one, trees_of};
use crate::overrides::{Override, Overrides};
use crate::port::Unavailable;
use crate::{LateMergeLog, LateMergeStats, Root};

/// Pairs that are judged for the documents of one request, whose client waits for it. Others are met again by later
/// documents.
const MOST_JUDGED: u32 = 64;
/// Most attempts to judge two groups while the overrides change.
const TRIES: u32 = 3;

/// Proofs and founder tokens of live trees.
struct FounderCache<P>(HashMap<Root, (P, FounderTokens)>);

impl<P: Proof> FounderCache<P> {
    fn agree(&self, (one, other): (Root, Root), thresholds: P::Thresholds, learned: LearnedView<'_>) -> Option<bool> {
        let kept = |root| {
            let (proof, tokens): &(P, FounderTokens) = self.0.get(&root)?;
            Some((proof, &**tokens))
        };
        Some(founders_agree(kept(one)?, kept(other)?, thresholds, learned))
    }
}

impl<F: MethodKind> SharedInner<F> {
    /// Considers late merges of trees whose accepted documents agree with other trees. Answers how many groups were
    /// made one.
    pub(super) async fn consider_late_merges(&self, met: Vec<(Root, Vec<Root>)>) -> Result<u64, Unavailable> {
        let mode = self.merge_candidates.lock().mode;
        if mode == LateMerges::Off || !F::Proof::TELLS_OF_ROOTS {
            return Ok(0);
        }
        let (mut merged, mut room) = (0, MOST_JUDGED);
        for (tree, others) in met {
            for other in others {
                merged += u64::from(self.meet_one((tree, other), mode, &mut room).await?);
            }
        }
        Ok(merged)
    }

    /// Considers one late merge; returns whether it was added.
    async fn meet_one(
        &self,
        (tree, other): (Root, Root),
        mode: LateMerges,
        room: &mut u32,
    ) -> Result<bool, Unavailable> {
        let mut is_met = false;
        for _ in 0..TRIES {
            let known = self.known_overrides.known();
            if !may_be_one(known.overrides(), tree, other) {
                return Ok(false);
            }
            let judged = {
                let mut merge_candidates = self.merge_candidates.lock();
                merge_candidates.set_override_version(known.version());
                match is_met {
                    true => None,
                    false => merge_candidates.known(tree, other),
                }
            };
            is_met = true;
            let agree = match judged {
                Some(agree) => agree,
                None if *room == 0 => return Ok(false),
                None => {
                    *room -= 1;
                    let Some(agree) = self.judge(&known, tree, other).await? else {
                        return Ok(false);
                    };
                    self.merge_candidates.lock().judged(tree, other, agree);
                    agree
                }
            };
            if !agree || mode != LateMerges::Apply {
                return Ok(false);
            }
            match self.merge_late(&known, tree, other).await? {
                ChangeOutcome::Done(_) => return Ok(true),
                ChangeOutcome::Nothing => return Ok(false),
                // Overrides have changed since it was judged.
                ChangeOutcome::Overtaken => {}
            }
        }
        Ok(false)
    }

    /// Whether all living trees of the two groups agree; `None` if one of the two has expired.
    async fn judge(&self, known: &OverrideTable, tree: Root, other: Root) -> Result<Option<bool>, Unavailable> {
        let Some(trees) = trees_of(known.overrides(), tree, other) else {
            return Ok(Some(false));
        };
        let founders = self.founders(trees).await?;
        let learned = self.learned.lock();
        let agree = |one, other| founders.agree((one, other), self.thresholds, F::view(&learned));
        let is_alive = |root| founders.0.contains_key(&root);
        Ok(are_one(known.overrides(), (tree, other), is_alive, agree))
    }

    /// The founders of those of these trees that are live.
    async fn founders(&self, roots: Vec<Root>) -> Result<FounderCache<F::Proof>, Unavailable> {
        let mut commands: Vec<_> = roots.iter().map(|root| (KeyKind::Node, root.0, KeyOp::Get)).collect();
        let has_founder_tokens = self.has_founder_tokens();
        if has_founder_tokens {
            let founder_tokens = roots.iter();
            commands.extend(founder_tokens.map(|root| (KeyKind::FounderTokens, root.0, KeyOp::Get)));
        }
        commands.extend(self.read_clock());
        let mut replies = self.run_all(commands).await?;
        let nodes: Vec<Option<RedisReply>> = roots.iter().map(|_| replies.next()).collect();
        let mut founder_tokens: HashMap<Fingerprint, (FoundingToken, FounderTokens)> = HashMap::new();
        if has_founder_tokens {
            for root in &roots {
                if let Some(RedisReply::Bytes(bytes)) = replies.next() {
                    founder_tokens.extend(read_founder_tokens(&bytes).map(|of| (root.0, of)));
                }
            }
        }
        self.refresh_clock(replies.next());
        let calendar = self.calendar();
        let living = roots.into_iter().zip(nodes).filter_map(|(root, node)| {
            let Some(RedisReply::Bytes(bytes)) = node else {
                return None;
            };
            let NodeValue::Root(kept) = NodeValue::<F::Proof>::read(&bytes)? else {
                return None;
            };
            let is_there = kept.is_confirmed && !calendar.is_over(kept.step);
            let tokens = founder_tokens.remove(&root.0);
            let tokens = tokens.filter(|(token, _)| *token == kept.token);
            let tokens = tokens.map_or_else(|| FounderTokens::from(&[][..]), |(_, tokens)| tokens);
            is_there.then_some((root, (kept.proof, tokens)))
        });
        Ok(FounderCache(living.collect()))
    }

    /// Adds a late merge, if the overrides have not changed since it was judged. Returns its number, if there is
    /// room.
    async fn merge_late(
        &self,
        judged: &OverrideTable,
        tree: Root,
        other: Root,
    ) -> Result<ChangeOutcome<u64>, Unavailable> {
        let is_time = self.merge_candidates.lock().is_time_to_forget();
        let outlived = match is_time {
            true => self.outlived(judged.overrides()).await?,
            false => Vec::new(),
        };
        let (winner, loser) = (tree, other);
        let say = |overrides: &mut Overrides| {
            overrides.forget(&outlived);
            let correction = Override::LateMerge { winner, loser };
            let added = overrides.has_room_for_late_merge().then(|| overrides.add(correction, &[]))?;
            added.map(|(number, _)| number)
        };
        let only = Some(judged.version());
        let added = self.change_overrides_at(only, say).await?;
        let mut merge_candidates = self.merge_candidates.lock();
        match added {
            ChangeOutcome::Done(_) => merge_candidates.applied += 1,
            ChangeOutcome::Nothing => merge_candidates.no_room += 1,
            ChangeOutcome::Overtaken => {}
        }
        Ok(added)
    }

    /// Late merges without effect.
    async fn outlived(&self, overrides: &Overrides) -> Result<Vec<u64>, Unavailable> {
        let roots: BTreeSet<Root> =
            overrides.iter().filter_map(|(_, correction)| correction.late_merge_loser()).collect();
        let living = self.founders(roots.into_iter().collect()).await?;
        Ok(overrides.outlived(|root| living.0.contains_key(&root)))
    }

    /// Candidates that this process has met since its start, as far as they are still open.
    pub(super) fn late_merges(&self) -> LateMergeLog {
        self.merge_candidates.lock().late_merges(self.known_overrides.known().overrides())
    }

    pub(super) fn late_merge_stats(&self) -> LateMergeStats {
        self.late_merges().stats()
    }
}
