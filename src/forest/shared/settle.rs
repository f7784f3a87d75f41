//! What became of placed documents: those that were refused let go of their trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::SharedInner;
use super::keys::{FoundingToken, KeyOp, StoreReply};
use crate::fingerprint::Fingerprint;
use crate::forest::local::RETRY_WINDOW;
use crate::forest::port::{ItemOutcome, SettleReport, Settlement, Unavailable};
use crate::forest::{Generation, NodeRef, Rollback, Root};
use crate::method::{MethodKind, TallyEntry, TreeTally};
use crate::time::Millis;

/// What a placement rests on, as its rollback names it: the root with its token and whether the document founded it,
/// and its leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacementHandle {
    pub(super) root: Root,
    pub(super) token: FoundingToken,
    pub(super) has_founded: bool,
    /// In a dated forest, the step in which its new nodes were made.
    pub(super) placed: Option<u32>,
    /// Its root is of an earlier step.
    pub(super) is_due: bool,
    /// Leaves that it brought.
    pub(super) leaves: Vec<Fingerprint>,
    /// In a dated forest, leaves that were there.
    pub(super) used: Vec<UsedLeaf>,
}

/// A leaf that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsedLeaf {
    pub(super) leaf: Fingerprint,
    /// It is of an earlier step than the document.
    pub(super) is_due: bool,
}

/// Beside the token at the root.
const FOUNDED: u32 = 1 << 24;
const DUE: u32 = 1 << 25;
/// The next node is none, but a step.
const DATED: u32 = 1 << 26;
/// Beside the token at a leaf.
const USED: u32 = 1 << 24;

fn flag(is_set: bool, flag: u32) -> u32 {
    if is_set { flag } else { 0 }
}

impl PlacementHandle {
    pub(super) fn into_rollback(self) -> Rollback {
        let node = |fingerprint, generation| NodeRef { fingerprint, generation: Generation(generation) };
        let token = self.token.0;
        let flags = flag(self.has_founded, FOUNDED) | flag(self.is_due, DUE) | flag(self.placed.is_some(), DATED);
        let mut nodes = Vec::with_capacity(2 + self.leaves.len() + self.used.len());
        nodes.push(node(self.root.0, token | flags));
        let step = |step: u32| node(Fingerprint(u64::from(step)), 0);
        nodes.extend(self.placed.map(step));
        nodes.extend(self.leaves.iter().map(|&leaf| node(leaf, token)));
        let used = |used: &UsedLeaf| token | USED | flag(used.is_due, DUE);
        nodes.extend(self.used.iter().map(|leaf| node(leaf.leaf, used(leaf))));
        Rollback::of(nodes)
    }

    /// `None`: nothing rests on anything.
    pub(super) fn of(rollback: &Rollback) -> Option<PlacementHandle> {
        let (root, mut leaves) = rollback.nodes().split_first()?;
        let has = |flag| root.generation.0 & flag != 0;
        let mut placed = None;
        if has(DATED) {
            let (step, rest) = leaves.split_first()?;
            (placed, leaves) = (Some(step.fingerprint.0 as u32), rest);
        }
        let (used, leaves): (Vec<&NodeRef>, Vec<&NodeRef>) =
            leaves.iter().partition(|leaf| leaf.generation.0 & USED != 0);
        let used =
            used.into_iter().map(|used| UsedLeaf { leaf: used.fingerprint, is_due: used.generation.0 & DUE != 0 });
        Some(PlacementHandle {
            root: Root(root.fingerprint),
            token: FoundingToken(root.generation.0 & (FOUNDED - 1)),
            has_founded: has(FOUNDED),
            placed,
            is_due: has(DUE),
            leaves: leaves.into_iter().map(|leaf| leaf.fingerprint).collect(),
            used: used.collect(),
        })
    }
}

impl<F: MethodKind> SharedInner<F> {
    pub(super) async fn settle(
        self: &Arc<Self>,
        batch: Vec<Settlement>,
        now: Millis,
    ) -> Result<SettleReport, Unavailable> {
        let (mut refused, mut accepted, mut lessons) = (Vec::new(), Vec::new(), Vec::new());
        let (mut arrived, mut met) = (Vec::new(), Vec::new());
        for settlement in batch {
            match settlement.outcome {
                ItemOutcome::Accepted => {
                    let claimed = settlement.claimed.filter(|_| self.calendar.is_dated);
                    arrived.extend(claimed.map(|at| (settlement.rollback.clone(), at)));
                    met.push((settlement.counted.0, settlement.others));
                    accepted.push((settlement.rollback, settlement.counted.1));
                    lessons.extend(settlement.lesson);
                }
                ItemOutcome::Refused => refused.push(settlement.rollback),
                ItemOutcome::Unknown => {
                    let due = Millis(now.0.saturating_add(RETRY_WINDOW.0));
                    self.unknown.lock().push_back((due, settlement.rollback));
                }
            }
        }
        let counted = async {
            self.arrive(arrived).await?;
            self.count(accepted.into_iter()).await
        };
        let counted = counted.await;
        // Whatever became of the others: nobody else takes these back.
        let withdrawn = self.withdraw(refused).await;
        counted?;
        let mut settled = withdrawn?;
        settled.learned = self.teach(lessons).await?;
        // Trees of documents that were refused have gone.
        settled.merged = self.meet(met).await?;
        Ok(settled)
    }

    /// Counts accepted documents at their trees. The founder of a tree counts from the start.
    pub(super) async fn count(
        &self,
        accepted: impl Iterator<Item = (Rollback, TallyEntry)>,
    ) -> Result<(), Unavailable> {
        let mut counted: BTreeMap<(Root, FoundingToken), TreeTally> = BTreeMap::new();
        for (rollback, count) in accepted {
            if let Some(handle) = PlacementHandle::of(&rollback).filter(|handle| !handle.has_founded) {
                let tally = counted.entry((handle.root, handle.token)).or_default();
                tally.add(count);
            }
        }
        let counted = counted.into_iter();
        let commands = counted.map(|((root, token), tally)| (root.0, KeyOp::Count { token, tally }));
        self.run(commands.collect()).await.map(drop)
    }

    pub(super) async fn forget_unknown(&self, now: Millis, budget: usize) -> Result<SettleReport, Unavailable> {
        let due: Vec<Rollback> = {
            let mut unknown = self.unknown.lock();
            let due = unknown.partition_point(|&(due, _)| due <= now);
            let due = unknown.drain(..due.min(budget));
            due.map(|(_, rollback)| rollback).collect()
        };
        self.withdraw(due).await
    }

    /// Takes placements back: a root goes with the last one that rests on it, and with it what these documents brought.
    /// In a tree that stays their leaves stay too: somebody may have seen one and be about to join by it.
    ///
    /// While the engine cannot be asked they are kept for [`forget_unknown`](Self::forget_unknown). What was sent is
    /// not sent again: done twice, it would take a root from documents that rest on it.
    pub(super) async fn withdraw(&self, rollbacks: Vec<Rollback>) -> Result<SettleReport, Unavailable> {
        let mut settled = SettleReport::default();
        if rollbacks.is_empty() {
            return Ok(settled);
        }
        let can_be_asked = match self.keys.away() {
            Some(away) => Err(self.away(away)),
            None => self.number().await.map(drop),
        };
        if let Err(error) = can_be_asked {
            let mut unknown = self.unknown.lock();
            // They are due, and come before all that is due later.
            for rollback in rollbacks {
                unknown.push_front((Millis(i64::MIN), rollback));
            }
            return Err(error);
        }
        let mut trees: BTreeMap<(Root, FoundingToken), Vec<PlacementHandle>> = BTreeMap::new();
        for handle in rollbacks.iter().filter_map(PlacementHandle::of) {
            let tree = trees.entry((handle.root, handle.token)).or_default();
            tree.push(handle);
        }
        let release = trees.iter().map(|(&(root, token), handles)| {
            let uses = u16::try_from(handles.len()).unwrap_or(u16::MAX);
            (root.0, KeyOp::Release { token, uses })
        });
        let replies = self.run(release.collect()).await?;
        let mut commands = Vec::new();
        for (((root, token), handles), reply) in trees.into_iter().zip(replies) {
            if reply != StoreReply::Number(-1) {
                continue;
            }
            settled.withdrawn += 1;
            for handle in handles {
                let root = root.0;
                let leaves = handle.leaves.into_iter();
                commands.extend(leaves.map(|leaf| (leaf, KeyOp::RemoveLeaf { root, token })));
            }
        }
        for reply in self.run(commands).await? {
            settled.withdrawn += u64::from(reply == StoreReply::Number(1));
        }
        self.counters.withdrawn.fetch_add(settled.withdrawn, Relaxed);
        Ok(settled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_handle_is_told_by_its_rollback(
            root in any::<u64>(),
            token in 1u32..1 << 24,
            has_founded in any::<bool>(),
            placed in prop::option::of(any::<u32>()),
            is_due in any::<bool>(),
            leaves in prop::collection::vec(any::<u64>(), 0..5),
            used in prop::collection::vec(any::<(u64, bool)>(), 0..5),
        ) {
            let handle = PlacementHandle {
                root: Root(Fingerprint(root)),
                token: FoundingToken(token),
                has_founded,
                placed,
                is_due,
                leaves: leaves.into_iter().map(Fingerprint).collect(),
                used: used
                    .into_iter()
                    .map(|(leaf, is_due)| UsedLeaf { leaf: Fingerprint(leaf), is_due })
                    .collect(),
            };
            prop_assert_eq!(PlacementHandle::of(&handle.clone().into_rollback()), Some(handle));
        }
    }
}
