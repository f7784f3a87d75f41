//! Statistics of trees: the documents and different titles of each, and which trees are closed. A document counts
//! only after the cluster has accepted it.

use std::collections::BTreeSet;

use spinney_text::method::{Proof, Refusal, Tallies, TallyEntry, TreeTally};

use super::change::Change;
use super::roots::{FOUNDED, RootNumber, UNCOUNTED};
use super::ticks::Tick;
use super::{Forest, Root};

/// Documents from which on a tree is kept in the list of large trees.
const LARGE: u32 = 64;
/// Documents from which on a tree is reported, and again after each tenfold growth.
const REPORTED: u32 = 1_000;
/// The most trees that a report lists.
const LISTED: usize = 100;

/// A tree and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeSize {
    /// Its root.
    pub root: Root,
    /// Documents placed in it, repeated ones included.
    pub documents: u32,
    /// Estimated number of different titles; saturates at 250.
    pub titles: u32,
}

/// A change of a tree's state that operators want to see in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeNotice {
    /// The tree was recognised as page chrome, and is closed.
    PageChrome(TreeSize),
    /// It has become large.
    Large(TreeSize),
    /// The tree has reached its size limit, and is closed.
    Full(TreeSize),
}

/// The trees that are watched. Bounded: a large one needs many documents, one of page chrome several trees.
#[derive(Debug, Default)]
pub(super) struct WatchedTrees {
    large: BTreeSet<RootNumber>,
    page_chrome: BTreeSet<RootNumber>,
    /// Notices that have not been taken yet.
    notices: Vec<TreeNotice>,
}

impl<P: Proof> Forest<P> {
    /// Sets the size limit of trees, in documents: a tree at its limit accepts known documents only.
    pub fn set_max_tree(&mut self, documents: Option<u32>) {
        self.max_tree = documents;
    }

    /// Counts a document that was placed in the tree of this root, and that was accepted.
    pub fn count(&mut self, root: Root, count: TallyEntry) {
        let number = self.root_number(root, self.ticks.floor());
        let Some(before) = number.and_then(|number| self.tally(number)) else {
            return;
        };
        let mut tally = before;
        if before == TreeTally::default() {
            tally = TreeTally::of_founder();
        } else {
            tally.add(count);
        }
        if self.commit(Change::Count { root, tally }) {
            self.add_notice(root, &before, &tally);
        }
    }

    /// Adds a notice if the tree has changed its state.
    fn add_notice(&mut self, root: Root, before: &TreeTally, after: &TreeTally) {
        let size = TreeSize::of(root, after);
        let notices = &mut self.watched.notices;
        if after.is_page_chrome() && !before.is_page_chrome() {
            notices.push(TreeNotice::PageChrome(size));
        }
        if self.max_tree == Some(after.documents) && before.documents < after.documents {
            notices.push(TreeNotice::Full(size));
        } else if is_step(after.documents) && before.documents < after.documents {
            notices.push(TreeNotice::Large(size));
        }
        // Bounded, where nobody takes them.
        notices.truncate(LISTED);
    }

    /// Takes the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<TreeNotice> {
        std::mem::take(&mut self.watched.notices)
    }

    /// How much of a sign it is of page chrome if a document joins the tree of this root.
    pub(super) fn sign(&self, query: &spinney_text::method::FeatureQuery<'_, P>, root: Root) -> u8 {
        let number = self.root_number(root, self.ticks.floor());
        let kept = number.and_then(|number| self.proof_at(number));
        let foreign = kept.map_or(0, |kept| query.proof.foreign_titles(kept));
        TreeTally::sign(foreign, query.known_by_whole)
    }

    /// Has an eye on a tree that has become large, or one of page chrome.
    pub(super) fn watch(&mut self, root: RootNumber, before: &TreeTally, after: &TreeTally) {
        if after.documents >= LARGE && before.documents < LARGE {
            self.watched.large.insert(root);
        }
        if after.is_page_chrome() && !before.is_page_chrome() {
            self.watched.page_chrome.insert(root);
        }
    }

    /// Why a tree accepts no further documents, if it does not. `earlier`: counts of the document's own request.
    pub(super) fn closed(&self, root: RootNumber, earlier: Option<&Tallies>) -> Option<Refusal> {
        self.closed_at(self.tally(root)?, self.name(root), earlier)
    }

    /// As [`closed`](Self::closed) for a tree that only the request's own documents were counted for.
    pub(super) fn closed_by(&self, root: Root, earlier: Option<&Tallies>) -> Option<Refusal> {
        self.closed_at(TreeTally::default(), root, earlier)
    }

    fn closed_at(&self, mut tally: TreeTally, root: Root, earlier: Option<&Tallies>) -> Option<Refusal> {
        if let Some(more) = earlier.and_then(|earlier| earlier.of(root.0)) {
            tally.add_all(more);
        }
        tally.closed(self.max_tree)
    }

    /// Removes a tree.
    pub(super) fn unwatch(&mut self, root: RootNumber, tally: u32) {
        if self.tallies.get(tally).is_none() {
            return;
        }
        self.tallies.release(tally);
        self.watched.large.remove(&root);
        self.watched.page_chrome.remove(&root);
    }

    pub(super) fn tally(&self, root: RootNumber) -> Option<TreeTally> {
        match self.roots.get(root)?.tally {
            UNCOUNTED => Some(TreeTally::default()),
            FOUNDED => Some(TreeTally::of_founder()),
            tally => self.tallies.get(tally).copied(),
        }
    }

    pub(super) fn is_living(&self, root: RootNumber) -> bool {
        let entry = self.index.get(self.name(root).0);
        let living = |tick| Tick(tick).is_from(self.ticks.floor());
        entry.is_some_and(|entry| entry.root == root.0 && living(entry.tick))
    }

    pub(super) fn size(&self, root: RootNumber) -> Option<TreeSize> {
        Some(TreeSize::of(self.name(root), &self.tally(root)?))
    }

    /// The tree with the most documents, if any has many.
    pub(super) fn largest(&self) -> Option<TreeSize> {
        let large = self.watched.large.iter();
        let large = large.filter(|&&root| self.is_living(root));
        large.filter_map(|&id| self.size(id)).max_by_key(|size| (size.documents, size.root))
    }

    /// The number of page-chrome trees, and the largest of them.
    pub(super) fn page_chrome(&self) -> (usize, Vec<TreeSize>) {
        let trees = self.watched.page_chrome.iter();
        let trees = trees.filter(|&&root| self.is_living(root));
        let mut trees: Vec<TreeSize> = trees.filter_map(|&id| self.size(id)).collect();
        let all = trees.len();
        trees.sort_unstable_by_key(|size| (std::cmp::Reverse(size.documents), size.root));
        trees.truncate(LISTED);
        (all, trees)
    }
}

impl TreeSize {
    pub(super) fn of(root: Root, tally: &TreeTally) -> TreeSize {
        TreeSize { root, documents: tally.documents, titles: tally.titles() }
    }
}

/// 1,000, 10,000, …
fn is_step(documents: u32) -> bool {
    let step = std::iter::successors(Some(REPORTED), |step| step.checked_mul(10));
    step.take_while(|&step| step <= documents).any(|step| step == documents)
}
