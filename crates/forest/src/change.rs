//! Changes of a forest as values.
//!
//! A forest changes by applying these and in no other way. The same changes applied to a forest of the same history
//! yield the same forest: on replay of a journal, or in another store.
//!
//! What a change states about a fingerprint is absolute. Applied twice, or to a forest that has already seen later
//! changes, it is corrected by the last change of that fingerprint. A copy taken piece by piece while changes
//! continue is therefore made exact by the changes since it was begun.

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FounderTokens, Proof, TreeTally};

use super::roots::{FOUNDED, RootNumber, UNCOUNTED};
use super::ticks::{Tick, TickStart};
use super::{DocumentHash, Forest, Root};
use crate::hamming::Entry;
use crate::time::Millis;

/// One change of a forest. Nodes arrive in the tick that began last.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<P> {
    /// Advances the clock to this moment; nodes that arrive next belong to its tick. Nodes that are then outside the
    /// window are dead.
    Begin(TickStart),
    /// A new root, or another proof for an existing one.
    AddRoot {
        /// The root.
        fingerprint: Fingerprint,
        /// The clock.
        added: Millis,
        /// The founder's proof.
        proof: P,
    },
    /// The founder tokens of a tree. Empty: they are removed.
    FounderTokens {
        /// Its root.
        root: Root,
        /// Its tokens.
        tokens: FounderTokens,
    },
    /// The first document of a tree. A new root has an unknown one.
    First {
        /// Its root.
        root: Root,
        /// The document.
        first: DocumentHash,
    },
    /// A new leaf.
    AddLeaf {
        /// The leaf.
        fingerprint: Fingerprint,
        /// The root of its tree.
        root: Root,
    },
    /// Refreshes the arrival of a node that a document uses.
    Use {
        /// The node.
        fingerprint: Fingerprint,
    },
    /// Refreshes the arrival of a root, because one of its leaves was refreshed.
    Refresh {
        /// The root.
        root: Root,
    },
    /// The new statistics of a tree.
    Count {
        /// Its root.
        root: Root,
        /// All of it.
        tally: TreeTally,
    },
    /// Removes a node that no placement uses.
    Withdraw {
        /// A leaf, or a root without living leaves.
        fingerprint: Fingerprint,
    },
    /// The forest is at its size limit: nodes that arrived before this tick are dead.
    Evict {
        /// The first tick that stays.
        floor: Tick,
    },
}

impl<P> Change<P> {
    /// The change that removes the founder tokens of a root.
    pub(super) fn no_founder_tokens(root: Fingerprint) -> Self {
        let (root, tokens) = (Root(root), FounderTokens::from([].as_slice()));
        Change::FounderTokens { root, tokens }
    }

    /// The node that is to be found to apply it, if it is about one.
    pub(super) fn subject(&self) -> Option<Fingerprint> {
        match self {
            Change::AddRoot { fingerprint, .. }
            | Change::AddLeaf { fingerprint, .. }
            | Change::Use { fingerprint }
            | Change::Withdraw { fingerprint } => Some(*fingerprint),
            Change::Refresh { root }
            | Change::Count { root, .. }
            | Change::First { root, .. }
            | Change::FounderTokens { root, .. } => Some(root.0),
            Change::Begin(_) | Change::Evict { .. } => None,
        }
    }
}

impl<P: Proof> Forest<P> {
    /// Applies a change that another forest, or an earlier run of this one, has recorded. Returns whether anything
    /// changed: a change that does not apply (its node is gone, or the forest is full) is skipped.
    pub fn apply(&mut self, change: &Change<P>) -> bool {
        match change {
            Change::Begin(moment) => {
                let died = self.ticks.begin(*moment);
                self.expired_total += died.nodes as u64;
                true
            }
            Change::AddRoot { fingerprint, added, proof } => {
                let added = self.add_root(*fingerprint, *added, proof);
                if added {
                    // Whatever was kept, it was of another founder: that of this one comes with the next change.
                    self.founder_tokens.remove(*fingerprint);
                }
                added
            }
            Change::First { root, first } => match self.root_number(*root, self.ticks.floor()) {
                Some(number) => self.roots.set_first(number, *first),
                None => false,
            },
            Change::FounderTokens { root, tokens } if tokens.is_empty() => self.founder_tokens.remove(root.0),
            Change::FounderTokens { root, tokens } => {
                self.root_number(*root, self.ticks.floor()).is_some() && self.founder_tokens.put(root.0, tokens)
            }
            Change::AddLeaf { fingerprint, root } => self.add_leaf(*fingerprint, *root),
            Change::Use { fingerprint } => self.touch(*fingerprint),
            Change::Refresh { root } => self.touch(root.0),
            Change::Count { root, tally } => self.set_tally(*root, *tally),
            Change::Withdraw { fingerprint } => {
                let gone = self.remove(*fingerprint);
                self.withdrawn_total += u64::from(gone);
                gone
            }
            Change::Evict { floor } => {
                let died = self.ticks.raise(*floor);
                self.evicted_total += died.nodes as u64;
                true
            }
        }
    }

    /// Starts to record changes for [`take_changes`](Forest::take_changes).
    pub fn record(&mut self) {
        self.recorded.get_or_insert_default();
    }

    /// Takes the recorded changes in order; empty unless [`record`](Forest::record) was called.
    pub fn take_changes(&mut self) -> Vec<Change<P>> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The entry of a living node.
    pub(super) fn living(&self, fingerprint: Fingerprint) -> Option<Entry> {
        let entry = self.index.get(fingerprint)?;
        Tick(entry.tick).is_from(self.ticks.floor()).then_some(entry)
    }

    fn add_root(&mut self, fingerprint: Fingerprint, added: Millis, proof: &P) -> bool {
        if let Some(entry) = self.living(fingerprint)
            && self.is_root(fingerprint, RootNumber(entry.root))
        {
            // Where changes are applied again, its leaves come again with later ones.
            let number = RootNumber(entry.root);
            self.roots.found(number, added, proof.clone());
            return self.touch(fingerprint);
        }
        if self.is_full() {
            return false;
        }
        let number = self.roots.add(fingerprint, added, proof.clone());
        let Some(number) = number else { return false };
        self.store(fingerprint, number, true)
    }

    fn add_leaf(&mut self, fingerprint: Fingerprint, root: Root) -> bool {
        let Some(number) = self.root_number(root, self.ticks.floor()) else {
            return false;
        };
        if fingerprint == root.0 || self.is_full() {
            return false;
        }
        self.store(fingerprint, number, false)
    }

    fn is_full(&self) -> bool {
        self.ticks.living().nodes >= self.max_nodes
    }

    /// Stores a node of this tree, replacing any dead node of the same fingerprint that has not been swept up.
    fn store(&mut self, fingerprint: Fingerprint, root: RootNumber, is_root: bool) -> bool {
        let tick = self.ticks.current();
        let entry = Entry { root: root.0, tick: tick.0 };
        let Ok(replaced) = self.index.insert(fingerprint, entry) else {
            return false;
        };
        self.roots.attach(root);
        if let Some(replaced) = replaced {
            self.left(fingerprint, replaced);
        }
        self.ticks.add(tick, is_root);
        if !is_root {
            self.roots.leaf_came(root, tick, self.ticks.floor());
        }
        true
    }

    /// Moves a node to the current tick.
    fn touch(&mut self, fingerprint: Fingerprint) -> bool {
        let Some(entry) = self.living(fingerprint) else {
            return false;
        };
        let (before, tick) = (Tick(entry.tick), self.ticks.current());
        if before == tick {
            return true;
        }
        let root = RootNumber(entry.root);
        let is_root = self.is_root(fingerprint, root);
        self.index.set_tick(fingerprint, tick.0);
        self.ticks.remove(before, is_root);
        self.ticks.add(tick, is_root);
        if !is_root {
            self.roots.leaf_went(root, before, self.ticks.floor());
            self.roots.leaf_came(root, tick, self.ticks.floor());
        }
        true
    }

    /// Removes a node from everything, dead or alive. A root that is alive must have no leaves that are.
    fn remove(&mut self, fingerprint: Fingerprint) -> bool {
        let removed = self.index.remove(fingerprint);
        if let Some(entry) = removed {
            self.left(fingerprint, entry);
        }
        removed.is_some()
    }

    /// Accounts for a node that was removed from the index.
    pub(super) fn left(&mut self, fingerprint: Fingerprint, entry: Entry) {
        let (root, tick) = (RootNumber(entry.root), Tick(entry.tick));
        let is_root = self.is_root(fingerprint, root);
        self.ticks.remove(tick, is_root);
        if is_root {
            self.founder_tokens.remove(fingerprint);
        } else {
            self.roots.leaf_went(root, tick, self.ticks.floor());
        }
        self.in_flight.gone(fingerprint);
        if let Some(tally) = self.roots.detach(root) {
            self.unwatch(root, tally);
        }
    }

    /// Whether a fingerprint whose node is in this tree is its root.
    pub(super) fn is_root(&self, fingerprint: Fingerprint, root: RootNumber) -> bool {
        let record = self.roots.get(root);
        record.is_some_and(|record| record.fingerprint == fingerprint)
    }

    fn set_tally(&mut self, root: Root, tally: TreeTally) -> bool {
        let Some(number) = self.root_number(root, self.ticks.floor()) else {
            return false;
        };
        self.put_tally(number, tally)
    }

    /// Sets the statistics of a tree.
    pub(super) fn put_tally(&mut self, number: RootNumber, tally: TreeTally) -> bool {
        let Some(record) = self.roots.get_mut(number) else {
            return false;
        };
        // Most trees have one document, and its nodes say all that is counted of it.
        let before = record.tally;
        if before != FOUNDED && before != UNCOUNTED {
            if let Some(kept) = self.tallies.get_mut(before) {
                let was = std::mem::replace(kept, tally);
                self.watch(number, &was, &tally);
            }
            return true;
        }
        record.tally = if tally == TreeTally::default() {
            UNCOUNTED
        } else if tally == TreeTally::of_founder() {
            FOUNDED
        } else {
            self.tallies.keep(tally)
        };
        self.watch(number, &TreeTally::default(), &tally);
        true
    }
}
