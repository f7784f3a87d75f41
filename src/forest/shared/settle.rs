//! What became of placed documents: those that were refused let go of their trees.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::Inner;
use super::keys::{Reply, Token, What};
use super::layout::Leaf;
use crate::fingerprint::Fingerprint;
use crate::forest::local::RETRY_WINDOW;
use crate::forest::port::{Outcome, Settled, Settlement, Unavailable};
use crate::forest::{Generation, NodeRef, Rollback, Root};
use crate::method::{Count, Family, Tally};
use crate::time::Millis;

/// What a placement rests on, as its rollback names it: the root with its token and whether the document founded it, and its new
/// leaves with token and step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) root: Root,
    pub(super) token: Token,
    pub(super) has_founded: bool,
    /// Of its new leaves.
    pub(super) step: u8,
    /// Leaves that it brought.
    pub(super) leaves: Vec<Fingerprint>,
}

const FOUNDED: u32 = 1 << 24;

impl Handle {
    pub(super) fn into_rollback(self) -> Rollback {
        let node = |fingerprint, generation| NodeRef {
            fingerprint,
            generation: Generation(generation),
        };
        let root = self.root.0;
        let of_leaf = self.token.0 | u32::from(self.step) << 24;
        let founded = if self.has_founded { FOUNDED } else { 0 };
        let mut nodes = Vec::with_capacity(1 + self.leaves.len());
        nodes.push(node(root, self.token.0 | founded));
        nodes.extend(self.leaves.iter().map(|&leaf| node(leaf, of_leaf)));
        Rollback::of(nodes)
    }

    /// `None`: nothing rests on anything.
    pub(super) fn of(rollback: &Rollback) -> Option<Handle> {
        let (root, leaves) = rollback.nodes().split_first()?;
        Some(Handle {
            root: Root(root.fingerprint),
            token: Token(root.generation.0 & (FOUNDED - 1)),
            has_founded: root.generation.0 & FOUNDED != 0,
            step: leaves
                .first()
                .map_or(0, |leaf| (leaf.generation.0 >> 24) as u8),
            leaves: leaves.iter().map(|leaf| leaf.fingerprint).collect(),
        })
    }
}

impl<F: Family> Inner<F> {
    pub(super) async fn settle(
        &self,
        batch: Vec<Settlement>,
        now: Millis,
    ) -> Result<Settled, Unavailable> {
        let (mut refused, mut accepted, mut lessons) = (Vec::new(), Vec::new(), Vec::new());
        for settlement in batch {
            match settlement.outcome {
                Outcome::Accepted => {
                    accepted.push((settlement.rollback, settlement.counted.1));
                    lessons.extend(settlement.lesson);
                }
                Outcome::Refused => refused.push(settlement.rollback),
                Outcome::Unknown => {
                    let due = Millis(now.0.saturating_add(RETRY_WINDOW.0));
                    self.unknown.lock().push_back((due, settlement.rollback));
                }
            }
        }
        self.count(accepted.into_iter()).await?;
        let mut settled = self.withdraw(refused).await?;
        settled.learned = self.teach(lessons).await?;
        Ok(settled)
    }

    /// Counts accepted documents at their trees. The founder of a tree counts from the start.
    pub(super) async fn count(
        &self,
        accepted: impl Iterator<Item = (Rollback, Count)>,
    ) -> Result<(), Unavailable> {
        let mut counted: BTreeMap<(Root, Token), Tally> = BTreeMap::new();
        for (rollback, count) in accepted {
            if let Some(handle) = Handle::of(&rollback).filter(|handle| !handle.has_founded) {
                let tally = counted.entry((handle.root, handle.token)).or_default();
                tally.add(count);
            }
        }
        let counted = counted.into_iter();
        let commands = counted.map(|((root, token), tally)| (root.0, What::Count { token, tally }));
        self.run(commands.collect()).await.map(drop)
    }

    pub(super) async fn forget_unknown(
        &self,
        now: Millis,
        budget: usize,
    ) -> Result<Settled, Unavailable> {
        let due: Vec<Rollback> = {
            let mut unknown = self.unknown.lock();
            let due = unknown.partition_point(|&(due, _)| due <= now);
            let due = unknown.drain(..due.min(budget));
            due.map(|(_, rollback)| rollback).collect()
        };
        self.withdraw(due).await
    }

    /// Takes placements back: a root goes with the last one that rests on it, and with it what these documents brought. In a tree
    /// that stays their leaves stay too: somebody may have seen one and be about to join by it.
    pub(super) async fn withdraw(&self, rollbacks: Vec<Rollback>) -> Result<Settled, Unavailable> {
        let mut settled = Settled::default();
        let mut trees: BTreeMap<(Root, Token), Vec<Handle>> = BTreeMap::new();
        for handle in rollbacks.iter().filter_map(Handle::of) {
            let tree = trees.entry((handle.root, handle.token)).or_default();
            tree.push(handle);
        }
        let release = trees.iter().map(|(&(root, token), handles)| {
            let uses = u16::try_from(handles.len()).unwrap_or(u16::MAX);
            (root.0, What::Release { token, uses })
        });
        let replies = self.run(release.collect()).await?;
        let mut commands = Vec::new();
        for (((root, token), handles), reply) in trees.into_iter().zip(replies) {
            if reply != Reply::Number(-1) {
                continue;
            }
            settled.withdrawn += 1;
            for handle in handles {
                let leaf = Leaf {
                    root,
                    token,
                    step: handle.step,
                };
                let value = leaf.bytes();
                let leaves = handle.leaves.into_iter();
                commands.extend(leaves.map(|fingerprint| {
                    let value = value.clone();
                    (fingerprint, What::Remove { value })
                }));
            }
        }
        for reply in self.run(commands).await? {
            settled.withdrawn += u64::from(reply == Reply::Number(1));
        }
        self.counters
            .withdrawn
            .fetch_add(settled.withdrawn, Relaxed);
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
            step in any::<u8>(),
            leaves in prop::collection::vec(any::<u64>(), 0..5),
        ) {
            let handle = Handle {
                root: Root(Fingerprint(root)),
                token: Token(token),
                has_founded,
                step: if leaves.is_empty() { 0 } else { step },
                leaves: leaves.into_iter().map(Fingerprint).collect(),
            };
            prop_assert_eq!(Handle::of(&handle.clone().into_rollback()), Some(handle));
        }
    }
}
