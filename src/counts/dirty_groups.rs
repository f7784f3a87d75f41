//! Dirty groups: roots of documents that were written and not counted yet, by index. Bounded; noting a write is a few
//! look-ups under a short lock.
//!
//! ```text
//! writes --note--> gathering --seal--> one generation in progress, until it is settled
//! ```
//!
//! An index has at most one generation in progress; later writes gather for the next one. What exceeds the limits is
//! not lost: the index is marked, and counted as a whole.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::time::Instant;

use crate::bulk::DocumentChange;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirtyLimits {
    /// Touched roots of all indices.
    pub roots: usize,
    /// Documents that were replaced or deleted, of all indices.
    pub ids: usize,
    /// Indices.
    pub indices: usize,
}

impl DirtyLimits {
    /// About 20 MB, if ids are 40 bytes long.
    pub(super) const DEFAULT: DirtyLimits = DirtyLimits { roots: 500_000, ids: 100_000, indices: 2_000 };
}

/// Most witnesses: documents whose visibility shows that writes before them are visible.
const WITNESSES: usize = 320;
/// Witnesses of each write but the latest: its last documents, since its response may have arrived before that of
/// another write whose documents were visible earlier. Of the latest write all known documents: no later one covers
/// them, in whatever shards they are.
const OF_A_WRITE: usize = 16;

/// Writes to one index since the last seal.
#[derive(Debug, Default)]
pub(super) struct DirtyGeneration {
    /// Roots that documents joined.
    pub roots: HashSet<u64>,
    /// Ids of documents that were replaced or deleted: their old roots have to be counted, too.
    pub replaced: Vec<String>,
    /// The documents written last. When searches see them, they see the rest.
    pub witnesses: VecDeque<DocumentChange>,
    /// How many of these, at the end, are of the latest write.
    latest: usize,
    /// The whole index is to be counted.
    pub whole: bool,
    /// When the first of it was written.
    pub since: Option<Instant>,
    /// When the last of it was written that has no witness.
    pub unproven: Option<Instant>,
}

impl DirtyGeneration {
    /// Adds the last documents of a write.
    fn add_witnesses(&mut self, last: &[&DocumentChange]) {
        let begin = self.witnesses.len() - self.latest;
        let others = self.latest.saturating_sub(OF_A_WRITE);
        self.witnesses.drain(begin..begin + others);
        self.latest = last.len();
        self.witnesses.extend(last.iter().map(|&seen| seen.clone()));
        let too_many = self.witnesses.len().saturating_sub(WITNESSES);
        self.witnesses.drain(..too_many);
        self.latest = self.latest.min(self.witnesses.len());
    }
}

/// The writes of a request to one index.
#[derive(Debug, Default)]
pub(crate) struct IndexWrites<'w> {
    /// An index, alias or pattern.
    pub index: &'w str,
    /// Roots that documents joined.
    pub roots: &'w [u64],
    /// Ids of documents that were replaced or deleted; an empty one is not known.
    pub replaced: &'w [&'w str],
    /// The last documents of the write, with the cluster's response.
    pub witnesses: &'w [&'w DocumentChange],
    /// Whether more has changed than is listed.
    pub whole: bool,
}

/// All indices.
#[derive(Debug)]
pub(super) struct DirtyGroups {
    limits: DirtyLimits,
    gathering: HashMap<String, DirtyGeneration>,
    /// The generations that are being counted.
    in_hand: HashMap<String, SealedGeneration>,
    /// Indices that are being compared as a whole, or wait for it.
    marked: HashSet<String>,
    roots: usize,
    ids: usize,
    /// Whether all indices are to be counted as a whole, including those beyond the limit.
    everything: Option<Instant>,
}

/// State of a generation in progress.
#[derive(Debug)]
struct SealedGeneration {
    since: Option<Instant>,
    roots: usize,
    whole: bool,
}

/// How much waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DirtyBacklog {
    /// Roots.
    pub roots: usize,
    /// Since when; `None`: nothing waits.
    pub since: Option<Instant>,
    /// Indices that are being compared as a whole, or wait for it.
    pub marked: usize,
}

impl DirtyGroups {
    pub(super) fn new(limits: DirtyLimits) -> DirtyGroups {
        DirtyGroups {
            limits,
            gathering: HashMap::new(),
            in_hand: HashMap::new(),
            marked: HashSet::new(),
            roots: 0,
            ids: 0,
            everything: None,
        }
    }

    /// Notes a write at `now`.
    pub(super) fn note(&mut self, written: &IndexWrites<'_>, now: Instant) {
        let nothing = written.roots.is_empty() && written.replaced.is_empty() && !written.whole;
        if nothing {
            return;
        }
        if !self.gathering.contains_key(written.index) {
            if self.gathering.len() >= self.limits.indices {
                self.note_everything(now);
                return;
            }
            let new = DirtyGeneration::default();
            self.gathering.insert(written.index.to_owned(), new);
        }
        let Some(of) = self.gathering.get_mut(written.index) else {
            return;
        };
        of.since.get_or_insert(now);
        of.whole |= written.whole;
        for &root in written.roots {
            if self.roots >= self.limits.roots {
                of.whole |= !of.roots.contains(&root);
            } else if of.roots.insert(root) {
                self.roots += 1;
            }
        }
        for &id in written.replaced {
            if self.ids >= self.limits.ids || id.is_empty() {
                of.whole = true;
            } else {
                of.replaced.push(id.to_owned());
                self.ids += 1;
            }
        }
        match written.witnesses {
            [] => of.unproven = Some(now),
            witnesses => of.add_witnesses(witnesses),
        }
    }

    /// Notes a write to an unknown index.
    pub(super) fn note_everything(&mut self, now: Instant) {
        // The last time counts: everything until then has to be visible.
        self.everything = Some(now);
    }

    /// Marks all these indices after a write to an unknown one; those beyond the limit at the next seal.
    pub(super) fn spread<'i>(&mut self, indices: impl Iterator<Item = &'i str>) {
        let Some(since) = self.everything.take() else {
            return;
        };
        for index in indices {
            let whole = IndexWrites { index, whole: true, ..IndexWrites::default() };
            self.note(&whole, since);
        }
    }

    /// The indices with dirty groups that are not being counted.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.gathering.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Whether documents are known that were written under a name: not only that something happened.
    pub(super) fn has_documents(&self, name: &str) -> bool {
        let of = self.gathering.get(name);
        of.is_some_and(|of| !of.roots.is_empty() || !of.replaced.is_empty())
    }

    /// Moves the writes under an alias or data stream to its indices. For some of them that is wrong, which costs a
    /// count and is harmless. Without indices the writes are forgotten.
    pub(super) fn move_to_indices(&mut self, name: &str, indices: &[&str]) {
        let Some(of) = self.gathering.remove(name) else {
            return;
        };
        self.forget(&of);
        let roots: Vec<u64> = of.roots.into_iter().collect();
        let replaced: Vec<&str> = of.replaced.iter().map(String::as_str).collect();
        for index in indices {
            let written = IndexWrites { index, roots: &roots, replaced: &replaced, witnesses: &[], whole: of.whole };
            if let Some(since) = of.since {
                self.note(&written, of.unproven.unwrap_or(since).max(since));
            }
        }
    }

    /// Discards the gathered writes of an index that cannot be counted at present; it will be counted as a whole.
    pub(super) fn give_up(&mut self, index: &str) {
        let Some(mut of) = self.gathering.remove(index) else {
            return;
        };
        self.forget(&of);
        of.roots = HashSet::new();
        of.replaced = Vec::new();
        of.whole = true;
        self.gathering.insert(index.to_owned(), of);
    }

    /// Whether an index is to be compared as a whole, now or soon.
    pub(super) fn is_marked(&self, index: &str) -> bool {
        let gathering = self.gathering.get(index);
        let in_hand = self.in_hand.get(index);
        self.everything.is_some()
            || self.marked.contains(index)
            || gathering.is_some_and(|of| of.whole)
            || in_hand.is_some_and(|of| of.whole)
    }

    /// Whether uncounted writes may concern an index, under its name or one that may resolve to it.
    pub(super) fn waits_for(&self, index: &str, is_index: impl Fn(&str) -> bool) -> bool {
        self.everything.is_some()
            || self.in_hand.contains_key(index)
            || self.gathering.keys().any(|name| name == index || !is_index(name))
    }

    /// Seals the gathered writes of an index as a generation. `None` if there are none.
    pub(super) fn seal(&mut self, index: &str) -> Option<DirtyGeneration> {
        let of = self.gathering.remove(index)?;
        self.forget(&of);
        let in_hand = SealedGeneration { since: of.since, roots: of.roots.len(), whole: of.whole };
        self.in_hand.insert(index.to_owned(), in_hand);
        Some(of)
    }

    /// Settles the generation of an index and marks the index or not, in one step.
    pub(super) fn settled(&mut self, index: &str, is_marked: bool) {
        self.in_hand.remove(index);
        self.mark(index, is_marked);
    }

    /// Whether an index is to be compared as a whole.
    pub(super) fn mark(&mut self, index: &str, is_marked: bool) {
        match is_marked {
            true => drop(self.marked.insert(index.to_owned())),
            false => drop(self.marked.remove(index)),
        }
    }

    /// The backlog, including generations that are being counted.
    pub(super) fn waiting(&self) -> DirtyBacklog {
        let gathering = self.gathering.values().map(|of| of.since);
        let in_hand = self.in_hand.values().map(|of| of.since);
        let in_hand_roots: usize = self.in_hand.values().map(|of| of.roots).sum();
        DirtyBacklog {
            roots: self.roots + in_hand_roots,
            since: gathering.chain(in_hand).fold(self.everything, earliest),
            marked: self.marked.len(),
        }
    }

    fn forget(&mut self, of: &DirtyGeneration) {
        self.roots = self.roots.saturating_sub(of.roots.len());
        self.ids = self.ids.saturating_sub(of.replaced.len());
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const FEW: DirtyLimits = DirtyLimits { roots: 5, ids: 3, indices: 2 };

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
        let replaced = IndexWrites { index: "a", replaced: &["1", "2", "3", "4"], ..IndexWrites::default() };
        dirty.note(&replaced, now);
        let a = dirty.seal("a").unwrap();
        assert!(a.whole && a.replaced.len() == 3);
        // The generation in progress does not count against the limit.
        dirty.note(&roots("b", &[9]), now);
        assert_eq!(dirty.gathering["b"].roots.len(), 1);
        dirty.note(&roots("c", &[9]), now);
        dirty.note(&roots("d", &[9]), now);
        assert_eq!(dirty.names(), ["b", "c"]);
        assert_eq!(dirty.everything, Some(now));
        dirty.seal("b");
        dirty.spread(["b", "c"].into_iter());
        assert!(dirty.gathering["b"].whole && dirty.gathering["c"].whole);
        assert_eq!(dirty.everything, None);
    }

    #[test]
    fn every_write_has_witnesses() {
        let seen = |write: u64, count: u64| -> Vec<DocumentChange> {
            let of = |at| DocumentChange {
                id: format!("{write}-{at}"),
                seq_no: write * 100 + at,
                ..DocumentChange::default()
            };
            (0..count).map(of).collect()
        };
        let mut dirty = DirtyGroups::new(DirtyLimits::DEFAULT);
        let writes = 40;
        for write in 0..writes {
            let seen = seen(write, 64);
            let witnesses: Vec<&DocumentChange> = seen.iter().collect();
            let written = IndexWrites { index: "a", roots: &[write], witnesses: &witnesses, ..IndexWrites::default() };
            dirty.note(&written, Instant::now());
        }
        let of = dirty.seal("a").unwrap();
        let of_write = |write: u64| {
            let mine = of.witnesses.iter().map(|seen| seen.seq_no);
            mine.filter(|seq_no| seq_no / 100 == write).collect::<Vec<u64>>()
        };
        let latest: Vec<u64> = seen(writes - 1, 64).iter().map(|seen| seen.seq_no).collect();
        assert_eq!(of_write(writes - 1), latest);
        for write in writes - 17..writes - 1 {
            let last: Vec<u64> = (48..64).map(|at| write * 100 + at).collect();
            assert_eq!(of_write(write), last);
        }
        assert_eq!(of.witnesses.len(), WITNESSES);
        assert!(of.unproven.is_none());
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
        dirty.note(&roots("a", &[]), at(0));
        assert_eq!(dirty.waiting(), DirtyBacklog::default());
        dirty.note(&roots("a", &[1, 2]), at(1));
        let a = dirty.seal("a").unwrap();
        dirty.note(&roots("a", &[2]), at(2));
        let waiting = dirty.waiting();
        assert_eq!((waiting.roots, waiting.since), (3, Some(at(1))));
        assert_eq!((a.roots.len(), a.unproven), (2, Some(at(1))));
        dirty.settled("a", true);
        let waiting = dirty.waiting();
        assert_eq!((waiting.roots, waiting.since), (1, Some(at(2))));
        dirty.seal("a").unwrap();
        dirty.settled("a", true);
        assert_eq!(dirty.waiting().marked, 1);
        dirty.mark("a", false);
        assert_eq!(dirty.waiting(), DirtyBacklog::default());
        assert!(dirty.seal("a").is_none());
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
        // What cannot be counted is discarded; whatever is in progress is known.
        dirty.give_up("a");
        dirty.give_up("nothing");
        assert_eq!((known(&dirty), dirty.roots), ((true, true), 1));
        let of = dirty.seal("a").unwrap();
        assert!(of.whole && of.roots.is_empty());
        assert_eq!(known(&dirty), (true, true));
        dirty.settled("a", true);
        assert_eq!(known(&dirty), (true, false));
        dirty.mark("a", false);
        assert_eq!(known(&dirty), (false, false));
        // A name may resolve to it.
        dirty.seal("b");
        dirty.note(&roots("alias", &[1]), now);
        assert_eq!(known(&dirty), (false, true));
        dirty.note_everything(now);
        assert_eq!(known(&dirty), (true, true));
    }

    #[test]
    fn a_name_stands_for_indices() {
        let now = Instant::now();
        let mut dirty = DirtyGroups::new(DirtyLimits::DEFAULT);
        let seen = DocumentChange::default();
        let written = IndexWrites { index: "alias", roots: &[1], replaced: &["x"], witnesses: &[&seen], whole: false };
        dirty.note(&written, now);
        dirty.move_to_indices("alias", &["a", "b"]);
        assert_eq!(dirty.names(), ["a", "b"]);
        for index in ["a", "b"] {
            let of = dirty.seal(index).unwrap();
            assert_eq!((of.roots.len(), of.replaced.len()), (1, 1));
            assert!(of.witnesses.is_empty() && of.unproven == Some(now));
            dirty.settled(index, false);
        }
        assert_eq!((dirty.roots, dirty.ids), (0, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Note(u8, Vec<u64>, u8),
        Seal(u8),
        Settled(u8),
        Rename(u8, u8),
        GiveUp(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = 0_u8..4;
        prop_oneof![
            4 => (index.clone(), prop::collection::vec(0_u64..12, 0..5), 0_u8..3)
                .prop_map(|(i, r, n)| Step::Note(i, r, n)),
            2 => index.clone().prop_map(Step::Seal),
            1 => index.clone().prop_map(Step::Settled),
            1 => (index.clone(), index.clone()).prop_map(|(a, b)| Step::Rename(a, b)),
            1 => index.prop_map(Step::GiveUp),
        ]
    }

    proptest! {
        /// Nothing is lost: every root is in a generation, or its index is marked, or every index is.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec(step(), 0..60)) {
            let now = Instant::now();
            let mut dirty = DirtyGroups::new(FEW);
            // The expected state of the indices at the end.
            let mut owed: HashMap<String, HashSet<u64>> = HashMap::new();
            let mut held: HashMap<String, DirtyGeneration> = HashMap::new();
            let name = |index: u8| format!("i{index}");
            for step in steps {
                match step {
                    Step::Note(index, of, ids) => {
                        let (index, ids) = (name(index), vec!["id"; ids.into()]);
                        let written = IndexWrites { index: &index, roots: &of, replaced: &ids, ..IndexWrites::default() };
                        dirty.note(&written, now);
                        owed.entry(index).or_default().extend(of);
                    }
                    Step::Seal(index) if !held.contains_key(&name(index)) => {
                        if let Some(of) = dirty.seal(&name(index)) {
                            held.insert(name(index), of);
                        }
                    }
                    Step::Settled(index) => {
                        if let Some(of) = held.remove(&name(index)) {
                            dirty.settled(&name(index), false);
                            let owed = owed.get_mut(&name(index)).unwrap();
                            owed.retain(|root| !of.whole && !of.roots.contains(root));
                        }
                    }
                    Step::Rename(a, b) if a != b && !held.contains_key(&name(a)) => {
                        dirty.move_to_indices(&name(a), &[&name(b)]);
                        let moved = owed.remove(&name(a)).unwrap_or_default();
                        owed.entry(name(b)).or_default().extend(moved);
                    }
                    Step::GiveUp(index) => dirty.give_up(&name(index)),
                    Step::Seal(_) | Step::Rename(..) => {}
                }
                prop_assert!(dirty.gathering.len() <= FEW.indices + 4);
                let counted: usize = dirty.gathering.values().map(|of| of.roots.len()).sum();
                prop_assert_eq!(dirty.roots, counted);
                let ids: usize = dirty.gathering.values().map(|of| of.replaced.len()).sum();
                prop_assert_eq!(dirty.ids, ids);
                for (index, roots) in &owed {
                    let all = [dirty.gathering.get(index), held.get(index)];
                    let known = |root: &u64| all.iter().flatten().any(|of| of.whole || of.roots.contains(root));
                    let is_kept = dirty.everything.is_some() || roots.iter().all(known);
                    prop_assert!(is_kept, "{index}: {roots:?} {dirty:?}");
                }
            }
        }
    }
}
