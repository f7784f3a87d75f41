//! Groups that follow from overrides: which roots are one, and which texts are pinned.
//!
//! The cost of adding or undoing an override is linear in what it names and in the group that it changes, never in
//! all of them.

use std::collections::{BTreeSet, HashMap};

use spinney_text::fingerprint::Fingerprint;
use spinney_text::work_counter;

use crate::Root;

/// Disjoint sets of roots, each with the root that it shows and the merges that made it.
#[derive(Debug, Clone, Default)]
pub(super) struct MergedRoots {
    /// The set of each root that a merge names.
    set_of: HashMap<Root, u64>,
    sets: HashMap<u64, Set>,
    /// The next number: higher than that of any set so far.
    next: u64,
}

#[derive(Debug, Clone)]
struct Set {
    shown: Root,
    roots: Vec<Root>,
    /// The numbers of the merges that name its roots, in no particular order.
    merges: Vec<u64>,
}

impl MergedRoots {
    fn set(&self, root: Root) -> Option<&Set> {
        self.sets.get(self.set_of.get(&root)?)
    }

    /// The root that is shown in place of this one.
    pub(super) fn shown(&self, root: Root) -> Root {
        self.set(root).map_or(root, |set| set.shown)
    }

    /// This root and all that are one with it, in no particular order.
    pub(super) fn merged_with(&self, root: Root) -> Vec<Root> {
        self.set(root).map_or(vec![root], |set| set.roots.clone())
    }

    /// Replaced roots, each with the root that is shown instead.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (Root, Root)> {
        self.sets.values().flat_map(|set| {
            let roots = set.roots.iter().filter(|&&root| root != set.shown);
            roots.map(|&root| (root, set.shown))
        })
    }

    /// Applies a merge on top of all earlier merges of these roots. Each root changes its set as often as the logarithm
    /// of how many there are.
    pub(super) fn merge(&mut self, number: u64, winner: Root, losers: impl IntoIterator<Item = Root>) {
        let mut set = self.set_with(winner);
        for loser in losers {
            let other = self.set_with(loser);
            if other != set {
                set = self.join(set, other);
            }
        }
        work_counter::add(1);
        if let Some(set) = self.sets.get_mut(&set) {
            set.merges.push(number);
        }
    }

    /// The set of a root; a new one if it is in none.
    fn set_with(&mut self, root: Root) -> u64 {
        if let Some(&set) = self.set_of.get(&root) {
            return set;
        }
        let number = self.next;
        self.next += 1;
        self.set_of.insert(root, number);
        let set = Set { shown: root, roots: vec![root], merges: Vec::new() };
        self.sets.insert(number, set);
        number
    }

    /// Joins two sets, the smaller one into the larger one. Both show the winner's root.
    fn join(&mut self, winner: u64, loser: u64) -> u64 {
        let size = |set| self.sets.get(set).map_or(0, |set: &Set| set.roots.len());
        let (small, large) = match size(&winner) < size(&loser) {
            true => (winner, loser),
            false => (loser, winner),
        };
        let shown = self.sets.get(&winner).map(|set| set.shown);
        let Some(gone) = self.sets.remove(&small) else {
            return large;
        };
        work_counter::add(gone.roots.len() + gone.merges.len());
        for &root in &gone.roots {
            self.set_of.insert(root, large);
        }
        if let Some(set) = self.sets.get_mut(&large) {
            set.shown = shown.unwrap_or(set.shown);
            set.roots.extend(gone.roots);
            // As it is with the roots: the smaller list goes to the larger one.
            let mut merges = gone.merges;
            if merges.len() > set.merges.len() {
                std::mem::swap(&mut merges, &mut set.merges);
            }
            set.merges.extend(merges);
        }
        large
    }

    /// Takes the sets of these roots apart. Gives the merges that had made them, which are to be made again, in their
    /// order.
    pub(super) fn take_apart(&mut self, roots: impl IntoIterator<Item = Root>) -> BTreeSet<u64> {
        let mut merges = BTreeSet::new();
        for root in roots {
            let set = self.set_of.get(&root).copied();
            let Some(set) = set.and_then(|set| self.sets.remove(&set)) else {
                continue;
            };
            work_counter::add(set.roots.len() + set.merges.len());
            for root in &set.roots {
                self.set_of.remove(root);
            }
            merges.extend(set.merges);
        }
        merges
    }
}

/// Texts and the roots that they are pinned to: by the pin of the highest number.
#[derive(Debug, Clone, Default)]
pub(super) struct Pins {
    latest: HashMap<Fingerprint, (u64, Root)>,
    /// Of texts that are pinned more than once, the earlier pins by their numbers.
    earlier: HashMap<Fingerprint, Vec<(u64, Root)>>,
}

impl Pins {
    /// The root that a text is pinned to.
    pub(super) fn root(&self, text: Fingerprint) -> Option<Root> {
        self.latest.get(&text).map(|&(_, root)| root)
    }

    /// Adds a pin of a text.
    pub(super) fn add(&mut self, text: Fingerprint, number: u64, root: Root) {
        let pin = (number, root);
        let Some(latest) = self.latest.get_mut(&text) else {
            self.latest.insert(text, pin);
            return;
        };
        // A pin may name a text twice.
        if latest.0 == number {
            return;
        }
        let before = match latest.0 < number {
            true => std::mem::replace(latest, pin),
            false => pin,
        };
        let earlier = self.earlier.entry(text).or_default();
        if let Err(at) = earlier.binary_search_by_key(&before.0, |&(number, _)| number) {
            earlier.insert(at, before);
        }
    }

    /// Removes the pin of this number of a text.
    pub(super) fn remove(&mut self, text: Fingerprint, number: u64) {
        let is_latest = self.latest.get(&text).is_some_and(|pin| pin.0 == number);
        let Some(earlier) = self.earlier.get_mut(&text) else {
            if is_latest {
                self.latest.remove(&text);
            }
            return;
        };
        if is_latest {
            match earlier.pop() {
                Some(before) => drop(self.latest.insert(text, before)),
                None => drop(self.latest.remove(&text)),
            }
        } else if let Ok(at) = earlier.binary_search_by_key(&number, |&(number, _)| number) {
            earlier.remove(at);
        }
        if earlier.is_empty() {
            self.earlier.remove(&text);
        }
    }
}
