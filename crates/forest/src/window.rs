//! The clock of the forest and expiry.
//!
//! The clock is the latest `now` of any call: a document that is dated earlier arrives at the clock, so that arrivals
//! never go backwards. A node is alive while its arrival is at most one window before the clock. After that it is
//! never matched, refreshed or a candidate, and no root counts it as a child, whether or not its memory has been
//! swept up. A root never expires before its leaves: refreshing a leaf refreshes its root.
//!
//! A document with a date of its own moves the clock when the cluster has accepted it, not before: one date must not
//! empty a window. Until then it arrives at the clock.
//!
//! Sweeping is incremental: every placement visits a few slots of the index in turn, and [`Forest::expire`] more of
//! them, continuing where the last one ended. No result depends on it.

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Proof, TreeTally};

use super::change::Change;
use super::roots::{RootNumber, TreeRecord};
use super::ticks::Tick;
use super::{DocumentHash, Forest};
use crate::hamming::Entry;
use crate::time::Millis;

/// Slots that a placement sweeps while there are dead nodes: a round ends before the dead nodes grow by another
/// twentieth.
const SWEPT: usize = 96;
/// Slots of one step of the sweep, and the fewest of a call of [`Forest::expire`].
const STEP: usize = 1_024;
/// A node with its place in the index, growth included, in large forests.
const NODE_BYTES: usize = 19;

impl<P: Proof> Forest<P> {
    /// The clock: the latest time so far; [`i64::MIN`] before the first.
    pub fn clock(&self) -> Millis {
        self.ticks.clock()
    }

    /// Advances the clock to `now`, if that is later. Where nothing dies of it, it is taken down with the next change
    /// only: a forest to which nothing happens has nothing to store.
    pub(super) fn advance(&mut self, now: Millis) {
        let Some(moment) = self.ticks.due(now) else { return };
        let expired = self.expired_total;
        self.apply(&Change::Begin(moment));
        self.begun = Some(moment);
        if self.expired_total > expired {
            self.note_clock();
        }
    }

    /// Records the position of the clock.
    pub(super) fn note_clock(&mut self) {
        if let (Some(moment), Some(recorded)) = (self.begun.take(), &mut self.recorded) {
            recorded.push(Change::Begin(moment));
        }
    }

    /// The latest time at which no living node expires; `None` without a window.
    pub(super) fn all_live_until(&self) -> Option<Millis> {
        self.ticks.all_live_until()
    }

    /// Sweeps up to `budget` dead nodes between placements; returns how many. It looks at no more places than as many
    /// placements would, however few of them are dead nodes. A `now` before the clock counts as the clock.
    pub fn expire(&mut self, now: Millis, budget: usize) -> usize {
        if now > self.clock() {
            self.advance(now);
        }
        let mut gone = 0;
        let mut places = STEP.max(SWEPT.saturating_mul(budget));
        while gone < budget && places > 0 && self.ticks.dead_nodes() > 0 {
            // No more than may go: a dead node that is passed over waits for another round.
            let step = places.min(STEP).min(budget - gone);
            gone += self.sweep(step, budget - gone);
            places -= step;
        }
        gone
    }

    /// A placement's share of the sweeping.
    pub(super) fn sweep_some(&mut self) {
        if self.ticks.dead_nodes() > 0 {
            self.sweep(SWEPT, SWEPT);
        }
    }

    /// Visits `places` slots of the index and removes up to `most` dead nodes.
    fn sweep(&mut self, places: usize, most: usize) -> usize {
        let floor = self.ticks.floor();
        let mut dead: Vec<(Fingerprint, Entry)> = std::mem::take(&mut self.swept);
        self.index.sweep(places, |fingerprint, entry| {
            let stays = Tick(entry.tick).is_from(floor) || dead.len() == most;
            if !stays {
                dead.push((fingerprint, entry));
            }
            stays
        });
        // Their trees are anywhere.
        for (_, entry) in &dead {
            self.roots.prefetch(RootNumber(entry.root));
        }
        let gone = dead.len();
        for (fingerprint, entry) in dead.drain(..) {
            // When a node is swept up is no change, so that its founder tokens goes is one.
            if self.is_root(fingerprint, RootNumber(entry.root)) && self.founder_tokens.remove(fingerprint) {
                self.note(Change::no_founder_tokens(fingerprint));
            }
            self.left(fingerprint, entry);
        }
        self.swept = dead;
        gone
    }

    /// Evicts the oldest ticks while the number of nodes exceeds the limit.
    pub(super) fn evict(&mut self) {
        while self.living_bytes() > self.memory_limit {
            let Some(floor) = self.ticks.next_floor() else {
                return;
            };
            self.commit(Change::Evict { floor });
        }
    }

    /// Bytes of the living nodes; capacity beyond them is not included.
    fn living_bytes(&self) -> usize {
        let living = self.ticks.living();
        living.nodes * NODE_BYTES
            + living.roots * (size_of::<TreeRecord<P>>() + size_of::<DocumentHash>() + size_of::<TreeTally>() / 2)
            + self.roots.proof_bytes_of(living.roots)
    }

    /// Sets how many bytes the nodes may take. Beyond it the oldest arrivals go before their window ends, in their
    /// order.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
        // A node alone takes no less than its place.
        self.ticks.set_capacity(bytes / (2 * NODE_BYTES));
    }

    /// The number of a tree whose root is alive.
    pub(super) fn root_number(&self, root: super::Root, floor: Tick) -> Option<RootNumber> {
        let entry = self.index.get(root.0)?;
        let number = self.tree_of_entry(entry, floor)?;
        self.is_root(root.0, number).then_some(number)
    }

    /// The tree of a node, if the node is alive.
    #[inline]
    pub(super) fn tree_of_entry(&self, entry: Entry, floor: Tick) -> Option<RootNumber> {
        Tick(entry.tick).is_from(floor).then_some(RootNumber(entry.root))
    }
}
