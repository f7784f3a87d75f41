//! Settles placed documents: accepted ones count, refused ones release their trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use spinney_text::method::{MethodKind, TallyEntry, TreeTally};

use super::SharedInner;
use super::keys::{FoundingToken, KeyKind, KeyOp, RedisReply, RoundFailed};
use crate::local::RETRY_WINDOW;
use crate::port::{ItemOutcome, SettleReport, Settlement, Unavailable};
use crate::ticket::Rollback;
use crate::time::Millis;
use crate::{Root, Ticket};

impl<F: MethodKind> SharedInner<F> {
    pub(super) async fn settle(
        self: &Arc<Self>,
        batch: Vec<Settlement>,
        now: Millis,
    ) -> Result<SettleReport, Unavailable> {
        let (mut refused, mut accepted, mut taught) = (Vec::new(), Vec::new(), Vec::new());
        let (mut arrived, mut met, mut in_doubt) = (Vec::new(), Vec::new(), Vec::new());
        for Settlement { ticket, outcome } in batch {
            match outcome {
                ItemOutcome::Accepted => {
                    let claimed = ticket.claimed.filter(|_| self.calendar.is_dated);
                    arrived.extend(claimed.map(|at| (ticket.rollback.clone(), at)));
                    met.push((ticket.root, ticket.others));
                    accepted.push((ticket.rollback, ticket.count));
                    in_doubt.extend(ticket.lesson);
                    if ticket.teaches {
                        taught.push(ticket.root);
                    }
                }
                ItemOutcome::Refused => refused.push(ticket),
                ItemOutcome::Unknown => {
                    let due = Millis(now.0.saturating_add(RETRY_WINDOW.0));
                    self.unknown.lock().push_back((due, ticket));
                }
            }
        }
        // Before any lesson is forgotten: one copy may be accepted and another one refused.
        let mut lessons = self.take_lessons(&taught);
        lessons.extend(in_doubt);
        let counted = async {
            self.arrive(arrived).await?;
            self.count(accepted.into_iter()).await
        };
        let counted = counted.await;
        // Whatever the outcome of the others: nobody else withdraws these.
        let withdrawn = self.withdraw(refused).await;
        counted?;
        let mut settled = withdrawn?;
        settled.learned = self.publish_lessons(lessons).await?;
        // Trees of documents that were refused have gone.
        settled.merged = self.consider_late_merges(met).await?;
        Ok(settled)
    }

    /// Counts accepted documents at their trees. The founder of a tree counts from the start.
    pub(super) async fn count(
        &self,
        accepted: impl Iterator<Item = (Rollback, TallyEntry)>,
    ) -> Result<(), Unavailable> {
        let mut counted: BTreeMap<(Root, FoundingToken), TreeTally> = BTreeMap::new();
        for (rollback, count) in accepted {
            if let Some(nodes) = rollback.shared().filter(|nodes| !nodes.has_founded) {
                let tally = counted.entry((nodes.root, nodes.token)).or_default();
                tally.add(count);
            }
        }
        let counted = counted.into_iter();
        let commands = counted.map(|((root, token), tally)| (root.0, KeyOp::Count { token, tally }));
        self.run(commands.collect()).await.map(drop)
    }

    pub(super) async fn forget_unknown(&self, now: Millis, budget: usize) -> Result<SettleReport, Unavailable> {
        let due: Vec<Ticket> = {
            let mut unknown = self.unknown.lock();
            let due = unknown.partition_point(|&(due, _)| due <= now);
            let due = unknown.drain(..due.min(budget));
            due.map(|(_, ticket)| ticket).collect()
        };
        self.withdraw(due).await
    }

    /// Withdraws placements: a root is removed with its last placement, together with the leaves of these documents.
    /// In a tree that stays the leaves stay, too: a concurrent joiner may have seen one.
    ///
    /// Those that Redis certainly has not released are kept for [`forget_unknown`](Self::forget_unknown). Commands that
    /// may have been run are not sent again: a second release would take a root from other documents.
    pub(super) async fn withdraw(&self, tickets: Vec<Ticket>) -> Result<SettleReport, Unavailable> {
        let mut settled = SettleReport::default();
        if tickets.is_empty() {
            return Ok(settled);
        }
        let can_be_asked = match self.keys.away() {
            Some(away) => Err(self.away(away)),
            None => self.number().await.map(drop),
        };
        if let Err(error) = can_be_asked {
            self.withdraw_later(tickets);
            return Err(error);
        }
        let mut trees: BTreeMap<(Root, FoundingToken), Vec<Ticket>> = BTreeMap::new();
        {
            let mut pending = self.pending.lock();
            for mut ticket in tickets {
                if std::mem::take(&mut ticket.teaches) {
                    pending.undone(ticket.root);
                }
                if let Some(nodes) = ticket.rollback.shared() {
                    trees.entry((nodes.root, nodes.token)).or_default().push(ticket);
                }
            }
        }
        let release = trees.iter().map(|(&(root, token), placements)| {
            let uses = u16::try_from(placements.len()).unwrap_or(u16::MAX);
            (KeyKind::Node, root.0, KeyOp::Release { token, uses })
        });
        let replies = match self.run_round(release.collect()).await {
            Ok(replies) => replies,
            Err(RoundFailed { why, not_run, .. }) => {
                let mut not_run = not_run.into_iter().peekable();
                let each = trees.into_values().enumerate();
                let kept = each.filter(|(at, _)| not_run.next_if_eq(at).is_some());
                self.withdraw_later(kept.flat_map(|(_, tickets)| tickets));
                return Err(why);
            }
        };
        let mut commands = Vec::new();
        for (((root, token), placements), reply) in trees.into_iter().zip(replies) {
            if reply != RedisReply::Number(-1) {
                continue;
            }
            settled.withdrawn += 1;
            for nodes in placements.iter().filter_map(|ticket| ticket.rollback.shared()) {
                let root = root.0;
                let leaves = nodes.leaves.iter();
                commands.extend(leaves.map(|&leaf| (leaf, KeyOp::RemoveLeaf { root, token })));
            }
        }
        for reply in self.run(commands).await? {
            settled.withdrawn += u64::from(reply == RedisReply::Number(1));
        }
        self.counters.withdrawn.fetch_add(settled.withdrawn, Relaxed);
        Ok(settled)
    }

    /// Keeps placements for [`forget_unknown`](Self::forget_unknown): they are due, and come before all that is due
    /// later.
    pub(super) fn withdraw_later(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let mut unknown = self.unknown.lock();
        for ticket in tickets {
            unknown.push_front((Millis(i64::MIN), ticket));
        }
    }
}
