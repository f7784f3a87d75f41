//! A summary of a forest for people.

use std::cmp::Reverse;

use spinney_text::method::Proof;

use super::roots::RootNumber;
use super::ticks::Tick;
use super::{Forest, TreeSize};
use crate::time::Millis;

/// A forest at a glance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes that are alive.
    pub nodes: usize,
    /// Roots among them.
    pub roots: usize,
    /// Bytes of memory that it takes when it is loaded.
    pub memory_bytes: usize,
    /// The oldest and the newest arrival.
    pub arrivals: Option<(Millis, Millis)>,
    /// Histogram of tree sizes: an upper bound, and how many trees are above the bound before it and at most this one.
    pub sizes: Vec<(u32, usize)>,
    /// The largest trees, largest first.
    pub largest: Vec<TreeSize>,
    /// Trees of page chrome.
    pub page_chrome_trees: usize,
}

impl<P: Proof> Forest<P> {
    /// Summarises all trees. `top`: how many of the largest are listed.
    pub fn summary(&self, top: usize) -> Summary {
        let stats = self.stats();
        let mut summary = Summary {
            nodes: stats.nodes,
            roots: stats.roots,
            memory_bytes: stats.memory_bytes,
            page_chrome_trees: stats.page_chrome_trees,
            ..Summary::default()
        };
        for (_, entry) in self.index.iter() {
            let tick = Tick(entry.tick);
            if tick.is_from(self.ticks.floor()) {
                let at = self.ticks.time(tick);
                let (first, last) = summary.arrivals.unwrap_or((at, at));
                summary.arrivals = Some((first.min(at), last.max(at)));
            }
        }
        let mut chunk = 0;
        while let Some(records) = self.roots.chunk(chunk) {
            let numbers: Vec<RootNumber> = records.map(|(number, _)| number).collect();
            for number in numbers.into_iter().filter(|&number| self.is_living(number)) {
                if let Some(size) = self.size(number) {
                    summary.add(size, top);
                }
            }
            chunk += 1;
        }
        summary
    }
}

impl Summary {
    /// Counts a tree.
    pub(super) fn add(&mut self, size: TreeSize, top: usize) {
        let step = size.documents.max(1).checked_next_power_of_two();
        let step = step.unwrap_or(u32::MAX);
        match self.sizes.binary_search_by_key(&step, |&(up_to, _)| up_to) {
            Ok(at) => {
                if let Some((_, trees)) = self.sizes.get_mut(at) {
                    *trees += 1;
                }
            }
            Err(at) => self.sizes.insert(at, (step, 1)),
        }
        let rank = |size: &TreeSize| (Reverse(size.documents), size.root);
        let at = self.largest.partition_point(|other| rank(other) < rank(&size));
        if at < top {
            self.largest.insert(at, size);
            self.largest.truncate(top);
        }
    }
}
