//! Dirty groups: roots of documents that were written and not counted yet, by index. Bounded; noting a write is a few
//! look-ups under a short lock.
//!
//! ```text
//! writes --note--> gathering --seal--> sealed --counted--> changed --compared--> nothing waits
//! ```
//!
//! Sealed writes are counted once searches see them; later writes gather meanwhile. A changed index is compared as a
//! whole, which finds the groups that documents have left. What exceeds the limits is not lost: its index is marked,
//! and compared before all others.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio::time::Instant;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirtyLimits {
    /// Touched roots of all indices.
    pub roots: usize,
    /// Indices.
    pub indices: usize,
}

impl DirtyLimits {
    /// About 20 MB.
    pub(super) const DEFAULT: DirtyLimits = DirtyLimits { roots: 500_000, indices: 2_000 };
}

/// Writes to one index that are not counted yet.
#[derive(Debug)]
struct UncountedWrites {
    /// Roots that documents joined.
    roots: HashSet<u64>,
    /// Whether they mark the index.
    whole: bool,
    /// The time of the first write.
    since: Instant,
    /// The time of the last write.
    until: Instant,
}

/// The writes of a request to one index. Their documents may have left groups as well.
#[derive(Debug, Default)]
pub(crate) struct IndexWrites<'w> {
    /// An index, alias or pattern.
    pub index: &'w str,
    /// Roots that documents joined.
    pub roots: &'w [u64],
    /// Whether documents may have joined other roots.
    pub whole: bool,
}

/// The dirty groups of all indices.
#[derive(Debug)]
pub(super) struct DirtyGroups {
    limits: DirtyLimits,
    gathering: HashMap<String, UncountedWrites>,
    /// Writes that are counted next, until all of their roots are.
    sealed: HashMap<String, UncountedWrites>,
    /// Marked indices, with the time of the last mark.
    marked: HashMap<String, Instant>,
    /// Indices that were written to, with the time at which the last writes had been counted.
    changed: HashMap<String, Instant>,
    /// The number of gathering roots.
    roots: usize,
    /// The time of the last write that marks all indices, including those beyond the limit.
    everything: Option<Instant>,
}

/// The backlog of counting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DirtyBacklog {
    /// Roots.
    pub roots: usize,
    /// Since when; `None`: nothing waits.
    pub since: Option<Instant>,
    /// Marked indices.
    pub marked: usize,
    /// Indices that were written to since their last comparison began.
    pub changed: usize,
}

impl DirtyGroups {
    pub(super) fn new(limits: DirtyLimits) -> DirtyGroups {
        DirtyGroups {
            limits,
            gathering: HashMap::new(),
            sealed: HashMap::new(),
            marked: HashMap::new(),
            changed: HashMap::new(),
            roots: 0,
            everything: None,
        }
    }

    /// Notes a write at `now`.
    pub(super) fn note(&mut self, written: &IndexWrites<'_>, now: Instant) {
        self.gather(written, now, now);
    }

    /// Notes writes that were made from `since` to `until`.
    fn gather(&mut self, written: &IndexWrites<'_>, since: Instant, until: Instant) {
        if !self.gathering.contains_key(written.index) {
            if self.gathering.len() >= self.limits.indices {
                self.note_everything(until);
                return;
            }
            let new = UncountedWrites { roots: HashSet::new(), whole: false, since, until };
            self.gathering.insert(written.index.to_owned(), new);
        }
        let Some(of) = self.gathering.get_mut(written.index) else {
            return;
        };
        (of.since, of.until) = (of.since.min(since), of.until.max(until));
        of.whole |= written.whole;
        for &root in written.roots {
            if self.roots >= self.limits.roots {
                of.whole |= !of.roots.contains(&root);
            } else if of.roots.insert(root) {
                self.roots += 1;
            }
        }
    }

    /// Notes a write to an unknown index.
    pub(super) fn note_everything(&mut self, now: Instant) {
        // The last time counts: all writes until then have to be visible.
        self.everything = self.everything.max(Some(now));
    }

    /// Marks all these indices after a write to an unknown one; those beyond the limit at the next call.
    pub(super) fn spread<'i>(&mut self, indices: impl Iterator<Item = &'i str>) {
        let Some(written) = self.everything.take() else {
            return;
        };
        for index in indices {
            let whole = IndexWrites { index, whole: true, ..IndexWrites::default() };
            self.note(&whole, written);
        }
    }

    /// The names with writes that are not counted yet.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.gathering.keys().chain(self.sealed.keys()).cloned().collect()
    }

    /// Whether documents are known that joined groups under a name: not only that something happened.
    pub(super) fn has_documents(&self, name: &str) -> bool {
        self.gathering.get(name).is_some_and(|of| !of.roots.is_empty())
    }

    /// Moves the writes under an alias or data stream to its indices. For some of them that is wrong, which costs a
    /// count and is harmless. Without indices the writes are forgotten.
    pub(super) fn move_to_indices(&mut self, name: &str, indices: &[&str]) {
        let Some(of) = self.gathering.remove(name) else {
            return;
        };
        self.roots = self.roots.saturating_sub(of.roots.len());
        let roots: Vec<u64> = of.roots.into_iter().collect();
        for index in indices {
            self.gather(&IndexWrites { index, roots: &roots, whole: of.whole }, of.since, of.until);
        }
    }

    /// Removes a deleted index.
    pub(super) fn forget(&mut self, index: &str) {
        self.move_to_indices(index, &[]);
        self.sealed.remove(index);
        self.marked.remove(index);
        self.changed.remove(index);
    }

    /// Replaces the count of an index's writes, which fails, by a comparison.
    pub(super) fn give_up(&mut self, index: &str) {
        let gathering = self.gathering.get_mut(index);
        self.roots = self.roots.saturating_sub(gathering.as_ref().map_or(0, |of| of.roots.len()));
        for of in gathering.into_iter().chain(self.sealed.get_mut(index)) {
            (of.roots, of.whole) = (HashSet::new(), true);
        }
    }

    /// Whether an index is marked, also by writes that are not counted yet.
    pub(super) fn is_marked(&self, index: &str) -> bool {
        self.everything.is_some()
            || self.marked.contains_key(index)
            || self.gathering.get(index).is_some_and(|of| of.whole)
            || self.sealed.get(index).is_some_and(|of| of.whole)
    }

    /// Whether an index may have writes that are not counted and compared, under its name or one that may resolve to
    /// it.
    pub(super) fn waits_for(&self, index: &str, is_index: impl Fn(&str) -> bool) -> bool {
        self.everything.is_some()
            || self.sealed.contains_key(index)
            || self.changed.contains_key(index)
            || self.gathering.keys().any(|name| name == index || !is_index(name))
    }

    /// The next roots of an index to be counted, at most `most`, with the time of the last write. Seals the gathered
    /// writes, unless sealed ones wait. `None`: nothing waits.
    pub(super) fn seal(&mut self, index: &str, most: usize) -> Option<(Vec<u64>, Instant)> {
        if !self.sealed.contains_key(index) {
            let of = self.gathering.remove(index)?;
            self.roots = self.roots.saturating_sub(of.roots.len());
            self.sealed.insert(index.to_owned(), of);
        }
        let of = self.sealed.get(index)?;
        Some((of.roots.iter().copied().take(most).collect(), of.until))
    }

    /// Removes sealed roots that were counted; after the last one the index is changed. Returns whether roots are left.
    pub(super) fn counted(&mut self, index: &str, roots: &[u64], now: Instant) -> bool {
        let Some(of) = self.sealed.get_mut(index) else {
            return false;
        };
        for root in roots {
            of.roots.remove(root);
        }
        if !of.roots.is_empty() {
            return true;
        }
        let is_marked = of.whole;
        self.sealed.remove(index);
        self.changed.insert(index.to_owned(), now);
        if is_marked {
            self.mark(index, now);
        }
        false
    }

    /// Marks an index: it is compared before all others.
    pub(super) fn mark(&mut self, index: &str, now: Instant) {
        self.marked.insert(index.to_owned(), now);
    }

    /// Whether an index is marked, and the writes that marked it are visible.
    pub(super) fn has_visible_mark(&self, index: &str) -> bool {
        self.marked.contains_key(index)
    }

    /// Whether an index was written to since its last comparison began.
    pub(super) fn is_changed(&self, index: &str) -> bool {
        self.changed.contains_key(index)
    }

    /// Removes mark and change of an index that a comparison covers, which began at an instant.
    pub(super) fn compared(&mut self, index: &str, began: Instant) {
        for of in [&mut self.marked, &mut self.changed] {
            if of.get(index).is_some_and(|&at| at <= began) {
                of.remove(index);
            }
        }
    }

    /// The present backlog.
    pub(super) fn waiting(&self) -> DirtyBacklog {
        let since = self.gathering.values().chain(self.sealed.values()).map(|of| of.since);
        let sealed_roots: usize = self.sealed.values().map(|of| of.roots.len()).sum();
        DirtyBacklog {
            roots: self.roots + sealed_roots,
            since: since.chain(self.everything).min(),
            marked: self.marked.len(),
            changed: self.changed.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const FEW: DirtyLimits = DirtyLimits { roots: 5, indices: 2 };

    fn roots<'w>(index: &'w str, roots: &'w [u64]) -> IndexWrites<'w> {
        IndexWrites { index, roots, ..IndexWrites::default() }
    }

    #[test]
    fn what_finds_no_room_is_counted_as_a_whole() {
        let now = Instant::now();
        let mut dirty = DirtyGroups::new(FEW);
        dirty.note(&roots("a", &[1, 2, 3, 4, 5, 1]), now);
        // A known entry takes no further space.
        dirty.note(&roots("a", &[5]), now);
        assert!(!dirty.gathering["a"].whole);
        dirty.note(&roots("b", &[9]), now);
        assert!(dirty.gathering["b"].whole && dirty.gathering["b"].roots.is_empty());
        assert_eq!(dirty.seal("a", 10).unwrap().0.len(), 5);
        // The sealed writes do not count against the limit.
        dirty.note(&roots("b", &[9]), now);
        assert_eq!(dirty.gathering["b"].roots.len(), 1);
        dirty.note(&roots("c", &[9]), now);
        dirty.note(&roots("d", &[9]), now);
        assert!(dirty.names().iter().eq(["a", "b", "c"]));
        assert_eq!(dirty.everything, Some(now));
        dirty.seal("b", 10);
        dirty.spread(["b", "c"].into_iter());
        assert!(dirty.gathering["b"].whole && dirty.gathering["c"].whole);
        assert_eq!(dirty.everything, None);
    }

    #[test]
    fn lag_ends_when_all_has_been_counted() {
        let at = |seconds| start() + Duration::from_secs(seconds);
        fn start() -> Instant {
            static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
            *START.get_or_init(Instant::now)
        }
        let mut dirty = DirtyGroups::new(FEW);
        assert_eq!(dirty.waiting(), DirtyBacklog::default());
        // A document has left a group that is not known.
        dirty.note(&roots("a", &[]), at(0));
        dirty.note(&roots("a", &[1, 2]), at(1));
        let (some, until) = dirty.seal("a", 1).unwrap();
        dirty.note(&IndexWrites { index: "a", roots: &[2], whole: true }, at(2));
        let waiting = dirty.waiting();
        assert_eq!((waiting.roots, waiting.since), (3, Some(at(0))));
        assert_eq!((some.len(), until), (1, at(1)));
        assert!(dirty.counted("a", &some, at(3)));
        assert!(!dirty.is_changed("a"));
        let (others, until) = dirty.seal("a", 10).unwrap();
        assert_eq!((others.len(), until), (1, at(1)));
        assert_ne!(others, some);
        assert!(!dirty.counted("a", &others, at(3)));
        let waiting = dirty.waiting();
        assert_eq!((waiting.roots, waiting.since, waiting.marked, waiting.changed), (1, Some(at(2)), 0, 1));
        let (roots, _) = dirty.seal("a", 10).unwrap();
        dirty.counted("a", &roots, at(4));
        assert_eq!(dirty.waiting(), DirtyBacklog { marked: 1, changed: 1, ..DirtyBacklog::default() });
        // This comparison may have missed them.
        dirty.compared("a", at(3));
        assert!(dirty.has_visible_mark("a") && dirty.is_changed("a"));
        dirty.compared("a", at(4));
        assert_eq!(dirty.waiting(), DirtyBacklog::default());
        assert!(dirty.seal("a", 10).is_none());
    }

    #[test]
    fn what_readers_may_know_of_an_index() {
        let now = Instant::now();
        let mut dirty = DirtyGroups::new(FEW);
        let is_index = |name: &str| matches!(name, "a" | "b");
        let known = |dirty: &DirtyGroups| (dirty.is_marked("a"), dirty.waits_for("a", is_index));
        dirty.note(&roots("b", &[1]), now);
        assert_eq!(known(&dirty), (false, false));
        dirty.note(&roots("a", &[1]), now);
        assert_eq!(known(&dirty), (false, true));
        // Roots that cannot be counted are discarded.
        dirty.give_up("a");
        dirty.give_up("nothing");
        assert_eq!((known(&dirty), dirty.roots), ((true, true), 1));
        assert!(dirty.seal("a", 10).unwrap().0.is_empty());
        assert_eq!(known(&dirty), (true, true));
        dirty.counted("a", &[], now);
        assert_eq!(known(&dirty), (true, true));
        dirty.compared("a", now);
        assert_eq!(known(&dirty), (false, false));
        dirty.note(&roots("a", &[1]), now);
        dirty.seal("a", 10);
        dirty.give_up("a");
        assert_eq!((known(&dirty), dirty.has_visible_mark("a")), ((true, true), false));
        // Only what searches see is compared.
        assert_eq!(dirty.seal("a", 10), Some((vec![], now)));
        dirty.counted("a", &[], now);
        assert!(dirty.has_visible_mark("a"));
        dirty.forget("a");
        assert_eq!(known(&dirty), (false, false));
        // A name may resolve to it.
        dirty.seal("b", 10);
        dirty.note(&roots("alias", &[1]), now);
        assert_eq!(known(&dirty), (false, true));
        dirty.note_everything(now);
        assert_eq!(known(&dirty), (true, true));
    }

    #[test]
    fn a_name_resolves_to_indices() {
        let now = Instant::now();
        let mut dirty = DirtyGroups::new(DirtyLimits::DEFAULT);
        dirty.note(&roots("alias", &[1]), now);
        // Written later, and seen later.
        let later = now + Duration::from_secs(1);
        dirty.note(&roots("b", &[1]), later);
        dirty.move_to_indices("alias", &["a", "b"]);
        assert_eq!(dirty.waiting().since, Some(now));
        assert!(dirty.names().iter().eq(["a", "b"]));
        for (index, until) in [("a", now), ("b", later)] {
            assert_eq!(dirty.seal(index, 10), Some((vec![1], until)));
            dirty.counted(index, &[1], now);
        }
        assert_eq!(dirty.roots, 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Note(u8, Vec<u64>),
        Seal(u8),
        Counted(u8, usize),
        Rename(u8, u8),
        GiveUp(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = 0_u8..4;
        prop_oneof![
            4 => (index.clone(), prop::collection::vec(0_u64..12, 0..5)).prop_map(|(i, r)| Step::Note(i, r)),
            2 => index.clone().prop_map(Step::Seal),
            1 => (index.clone(), 1_usize..4).prop_map(|(i, most)| Step::Counted(i, most)),
            1 => (index.clone(), index.clone()).prop_map(|(a, b)| Step::Rename(a, b)),
            1 => index.prop_map(Step::GiveUp),
        ]
    }

    proptest! {
        /// Nothing is lost: every root waits to be counted, or its index or every one is marked.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec(step(), 0..60)) {
            let now = Instant::now();
            let mut dirty = DirtyGroups::new(FEW);
            // The expected state of the indices at the end.
            let mut owed: HashMap<String, HashSet<u64>> = HashMap::new();
            let name = |index: u8| format!("i{index}");
            for step in steps {
                match step {
                    Step::Note(index, of) => {
                        let index = name(index);
                        dirty.note(&roots(&index, &of), now);
                        owed.entry(index).or_default().extend(of);
                    }
                    Step::Seal(index) => drop(dirty.seal(&name(index), 1)),
                    Step::Counted(index, most) => {
                        let index = name(index);
                        if let Some((some, _)) = dirty.seal(&index, most) {
                            let is_whole = dirty.sealed[&index].whole;
                            let has_more = dirty.counted(&index, &some, now);
                            prop_assert!(has_more || dirty.is_changed(&index));
                            prop_assert!(has_more || dirty.has_visible_mark(&index) || !is_whole);
                            let gathering = dirty.gathering.get(&index);
                            let again = |root: &u64| gathering.is_some_and(|of| of.roots.contains(root));
                            let owed = owed.entry(index.clone()).or_default();
                            // A root that was written to again is owed again.
                            owed.retain(|root| !some.contains(root) || again(root));
                        }
                    }
                    Step::Rename(a, b) if a != b && !dirty.sealed.contains_key(&name(a)) => {
                        dirty.move_to_indices(&name(a), &[&name(b)]);
                        let moved = owed.remove(&name(a)).unwrap_or_default();
                        owed.entry(name(b)).or_default().extend(moved);
                    }
                    Step::GiveUp(index) => dirty.give_up(&name(index)),
                    Step::Rename(..) => {}
                }
                // What a mark covers is found by the comparison of that index: no rename takes it along.
                for (index, roots) in &mut owed {
                    let gathers = |root: &u64| dirty.gathering.get(index).is_some_and(|of| of.roots.contains(root));
                    roots.retain(|root| !dirty.has_visible_mark(index) || gathers(root));
                }
                prop_assert!(dirty.gathering.len() <= FEW.indices + 4);
                let counted: usize = dirty.gathering.values().map(|of| of.roots.len()).sum();
                prop_assert_eq!(dirty.roots, counted);
                for (index, roots) in &owed {
                    let waiting = [dirty.gathering.get(index), dirty.sealed.get(index)];
                    let waits = |root: &u64| waiting.iter().flatten().any(|of| of.roots.contains(root));
                    let is_kept = dirty.is_marked(index) || roots.iter().all(waits);
                    prop_assert!(is_kept, "{index}: {roots:?} {dirty:?}");
                }
            }
        }
    }
}
