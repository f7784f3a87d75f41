//! Overrides: corrections of groups by people, kept apart from the trees. docs/internals/overrides.md specifies them.

mod change;
mod groups;
mod repair;
mod restamp;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Root;

pub use change::OverrideChange;
use groups::{MergedRoots, Pins};
pub use restamp::{ResolvedBy, ResolvedDocument, Restamp, RestampPass};
use restamp::{read_all, write_all};
use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::Durable;

/// Most overrides of a forest; people add them one by one.
pub const MAX_OVERRIDES: usize = 1 << 16;

/// Most late merges, undone ones included.
pub const MAX_LATE_MERGES: usize = 1 << 12;

/// Limit of their encoded size with the pending restamps, in bytes: every snapshot of a forest contains all of them,
/// and every change of those of a shared forest sends all of them.
pub const MOST_BYTES: usize = 16 << 20;

/// One correction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Override {
    /// Merges these groups.
    Merge {
        /// The root that all of them show.
        winner: Root,
        /// The others.
        losers: Vec<Root>,
    },
    /// Documents with these texts belong to that root.
    Pin {
        /// Hashes of whole texts.
        texts: Vec<Fingerprint>,
        /// The root.
        root: Root,
    },
    /// A merge added by the forest, for two trees that a later document agrees with.
    LateMerge {
        /// The root that both show.
        winner: Root,
        /// The other.
        loser: Root,
    },
    /// The forest does not merge these groups by itself. Replaces a [`Override::LateMerge`] that a person has undone.
    Apart {
        /// A root of each.
        roots: [Root; 2],
    },
}

/// The overrides in force, and the groups that follow from them.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    entries: BTreeMap<u64, Override>,
    /// The next number: higher than that of any override so far.
    next: u64,
    /// Numbers of the late merges, and of the overrides that replace undone ones.
    late_merges: BTreeSet<u64>,
    groups: MergedRoots,
    pins: Pins,
    /// Pending restamps of stored documents, by the number of the override that was added or undone.
    unfinished: BTreeMap<u64, Arc<Restamp>>,
    /// How many of them select documents by text.
    by_texts: usize,
    /// Roots of completed restamps, kept while a restamp by texts is pending: a document with such a text may still
    /// show one of them.
    carried: BTreeSet<Root>,
    /// Encoded size of overrides and restamps, in bytes.
    bytes: usize,
}

/// Equality of overrides and pending restamps. Completed restamps that are still kept may differ after a restart,
/// which is harmless.
impl PartialEq for Overrides {
    fn eq(&self, other: &Overrides) -> bool {
        let of = |overrides: &Overrides| (overrides.next, overrides.entries.len(), overrides.unfinished.len());
        of(self) == of(other) && self.entries == other.entries && self.unfinished == other.unfinished
    }
}

impl Eq for Overrides {}

impl Overrides {
    /// The number of the next override; `None` at the limit. Late merges have a limit of their own.
    pub fn next_number(&self) -> Option<u64> {
        (self.entries.len() < MAX_OVERRIDES + MAX_LATE_MERGES).then_some(self.next)
    }

    /// Whether one more late merge fits.
    pub fn has_room_for_late_merge(&self) -> bool {
        self.late_merges.len() < MAX_LATE_MERGES
    }

    /// Approximate encoded size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes + 8 * self.carried.len()
    }

    /// Late merges without effect: the loser's tree is gone (by `is_alive`), no other override names that root, and
    /// all stored documents are restamped. Living trees have the same answers without them.
    pub fn outlived(&self, is_alive: impl Fn(Root) -> bool) -> Vec<u64> {
        let mut named: HashMap<Root, u32> = HashMap::new();
        for root in self.entries.values().flat_map(Override::roots) {
            *named.entry(root).or_default() += 1;
        }
        let gone = self.entries.iter().filter(|(number, correction)| {
            let Some(root) = correction.late_merge_loser() else {
                return false;
            };
            !is_alive(root) && named.get(&root) == Some(&1) && !self.unfinished.contains_key(number)
        });
        gone.map(|(&number, _)| number).collect()
    }

    /// Removes these overrides, which have no effect any more.
    pub fn forget(&mut self, numbers: &[u64]) {
        let mut named = Vec::new();
        for number in numbers {
            named.extend(self.detach(*number));
        }
        self.rebuild_groups(named);
    }

    /// Sets or removes the override of this number.
    pub fn set(&mut self, number: u64, correction: Option<Override>) {
        self.next = self.next.max(number.saturating_add(1));
        if self.entries.get(&number) == correction.as_ref() {
            return;
        }
        let mut named = self.detach(number);
        let Some(correction) = correction else {
            return self.rebuild_groups(named);
        };
        let last = self.entries.keys().next_back();
        // Where another one had this number, its groups are to be taken apart.
        let is_last = named.is_empty() && last.is_none_or(|&last| last < number);
        self.bytes += correction.bytes();
        if correction.is_late_merge() {
            self.late_merges.insert(number);
        }
        if let Override::Pin { texts, root } = &correction {
            for &text in texts {
                self.pins.add(text, number, *root);
            }
        }
        // The common case: no group of earlier overrides changes.
        if is_last {
            self.merge(number, &correction);
        } else if correction.is_merge() {
            named.extend(correction.roots());
        }
        self.entries.insert(number, correction.clone());
        if !is_last {
            let mut merges = self.groups.take_apart(named);
            if correction.is_merge() {
                merges.insert(number);
            }
            self.merge_all(merges);
        }
    }

    /// Removes an override without rebuilding the groups; returns the roots that it names for that.
    fn detach(&mut self, number: u64) -> Vec<Root> {
        let Some(correction) = self.entries.remove(&number) else {
            return Vec::new();
        };
        self.bytes -= correction.bytes();
        self.late_merges.remove(&number);
        match &correction {
            Override::Pin { texts, .. } => {
                for &text in texts {
                    self.pins.remove(text, number);
                }
                Vec::new()
            }
            Override::Apart { .. } => Vec::new(),
            Override::Merge { .. } | Override::LateMerge { .. } => correction.roots(),
        }
    }

    /// Rebuilds the groups of these roots from the overrides in force.
    fn rebuild_groups(&mut self, named: Vec<Root>) {
        let merges = self.groups.take_apart(named);
        self.merge_all(merges);
    }

    fn merge_all(&mut self, merges: BTreeSet<u64>) {
        for number in merges {
            if let Some(correction) = self.entries.get(&number).cloned() {
                self.merge(number, &correction);
            }
        }
    }

    fn merge(&mut self, number: u64, correction: &Override) {
        match correction {
            Override::Merge { winner, losers } => {
                self.groups.merge(number, *winner, losers.iter().copied());
            }
            Override::LateMerge { winner, loser } => self.groups.merge(number, *winner, [*loser]),
            Override::Pin { .. } | Override::Apart { .. } => {}
        }
    }

    /// The override of this number.
    pub fn get(&self, number: u64) -> Option<&Override> {
        self.entries.get(&number)
    }

    /// The overrides, ordered by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &Override)> {
        self.entries.iter().map(|(&number, correction)| (number, correction))
    }

    /// The overrides from this number on.
    pub fn iter_from(&self, number: u64) -> impl Iterator<Item = (u64, &Override)> {
        let entries = self.entries.range(number..);
        entries.map(|(&number, correction)| (number, correction))
    }

    /// The root that is answered for a document with this text in the tree of this root.
    pub fn shown_root(&self, text: Fingerprint, tree: Root) -> Root {
        // Nearly every forest is without overrides.
        if self.entries.is_empty() {
            return tree;
        }
        self.group(self.pins.root(text).unwrap_or(tree))
    }

    /// The root that documents of this tree show.
    pub fn group(&self, root: Root) -> Root {
        self.groups.shown(root)
    }

    /// The pairs of groups that the forest does not merge, the smaller root first.
    pub fn kept_apart(&self) -> impl Iterator<Item = (Root, Root)> {
        let late_merges = self.late_merges.iter().filter_map(|number| self.entries.get(number));
        late_merges.filter_map(|correction| match correction {
            Override::Apart { roots } => {
                let [one, other] = roots.map(|root| self.group(root));
                Some((one.min(other), one.max(other)))
            }
            _ => None,
        })
    }

    /// Whether an override pins this text.
    pub fn is_pinned(&self, text: Fingerprint) -> bool {
        self.pins.root(text).is_some()
    }

    /// The roots that are replaced by another one.
    pub fn losers(&self) -> impl Iterator<Item = Root> {
        self.groups.replaced().map(|(loser, _)| loser)
    }

    /// This root and all roots that are merged with it.
    pub fn merged_with(&self, root: Root) -> Vec<Root> {
        let mut all = self.groups.merged_with(root);
        all.sort_unstable();
        all
    }
}

impl Override {
    /// Whether it is a late merge, or replaces an undone one.
    fn is_late_merge(&self) -> bool {
        matches!(self, Override::LateMerge { .. } | Override::Apart { .. })
    }

    /// The losing root of a late merge, or of the override that replaces it.
    pub(crate) fn late_merge_loser(&self) -> Option<Root> {
        match self {
            Override::LateMerge { loser: root, .. } | Override::Apart { roots: [root, _] } => Some(*root),
            Override::Merge { .. } | Override::Pin { .. } => None,
        }
    }

    /// Whether it merges groups.
    fn is_merge(&self) -> bool {
        matches!(self, Override::Merge { .. } | Override::LateMerge { .. })
    }

    /// Encoded size with its number, in bytes.
    fn bytes(&self) -> usize {
        let others = match self {
            Override::Merge { losers, .. } => losers.len(),
            Override::Pin { texts, .. } => texts.len(),
            Override::LateMerge { .. } | Override::Apart { .. } => 1,
        };
        8 + 1 + 8 + 4 + 8 * others
    }

    /// Appends the encoding, as [`Durable`] of an optional override does.
    fn write_all(&self, out: &mut Vec<u8>) {
        let (kind, root): (u8, Root) = match self {
            Override::Merge { winner, .. } => (1, *winner),
            Override::Pin { root, .. } => (2, *root),
            Override::LateMerge { winner, .. } => (3, *winner),
            Override::Apart { roots: [root, _] } => (4, *root),
        };
        out.push(kind);
        root.0.write(out);
        match self {
            Override::Merge { losers, .. } => write_all(losers.iter().map(|loser| loser.0), out),
            Override::Pin { texts, .. } => write_all(texts.iter().copied(), out),
            Override::LateMerge { loser, .. } => write_all([loser.0].into_iter(), out),
            Override::Apart { roots: [_, other] } => write_all([other.0].into_iter(), out),
        }
    }

    /// The roots that it names.
    fn roots(&self) -> Vec<Root> {
        match self {
            Override::Merge { winner, losers } => losers.iter().chain(std::iter::once(winner)).copied().collect(),
            Override::LateMerge { winner, loser } => vec![*winner, *loser],
            Override::Apart { roots } => roots.to_vec(),
            Override::Pin { root, .. } => vec![*root],
        }
    }
}

/// One override or none: `| kind 1: 0 none, 1 merge, 2 pin, 3 late, 4 apart | root 8 | how many 4 | of 8 each |`
impl Override {
    /// Appends the encoding.
    pub(super) fn write_some(some: Option<&Override>, out: &mut Vec<u8>) {
        match some {
            None => out.push(0),
            Some(correction) => correction.write_all(out),
        }
    }

    /// Decodes it and removes its bytes from the front; `None` if they are not one.
    pub(super) fn read_some(bytes: &mut &[u8]) -> Option<Option<Override>> {
        let kind = u8::read(bytes)?;
        if kind == 0 {
            return Some(None);
        }
        let root = Root(Fingerprint::read(bytes)?);
        let others = read_all(bytes)?;
        let other = || others.first().copied().map(Root);
        Some(Some(match kind {
            3 => Override::LateMerge { winner: root, loser: other()? },
            4 => Override::Apart { roots: [root, other()?] },
            1 => Override::Merge { winner: root, losers: others.into_iter().map(Root).collect() },
            2 => Override::Pin { texts: others, root },
            _ => return None,
        }))
    }
}

/// `| next number 8 | count 4 | of each: number 8, override | count 4 | of each: number 8, restamp |`
///
/// The last of the restamps may be the completed ones that are kept, under a number that no override has.
impl Durable for Overrides {
    fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.bytes() + 64);
        self.next.write(out);
        (self.entries.len() as u32).write(out);
        for (number, correction) in &self.entries {
            number.write(out);
            correction.write_all(out);
        }
        (self.restamps().count() as u32).write(out);
        for (number, restamp) in self.restamps() {
            number.write(out);
            restamp.write_all(out);
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Overrides> {
        let mut overrides = Overrides { next: u64::read(bytes)?, ..Overrides::default() };
        for _ in 0..u32::read(bytes)? {
            let number = u64::read(bytes)?;
            overrides.set(number, Some(Override::read_some(bytes)??));
        }
        for _ in 0..u32::read(bytes)? {
            let number = u64::read(bytes)?;
            overrides.set_restamp(number, Some(Restamp::read_some(bytes)??));
        }
        Some(overrides)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A naive model: a list of overrides, which are applied one after the other for each query.
    #[derive(Debug, Clone, Default)]
    struct OverrideModel(BTreeMap<u64, Override>);

    impl OverrideModel {
        fn answer(&self, text: u64, tree: u64) -> u64 {
            // More roots and texts than any override names.
            let mut labels: Vec<u64> = (0..ROOTS).collect();
            let mut pinned: Vec<Option<u64>> = vec![None; TEXTS as usize];
            for correction in self.0.values() {
                let mut join = |winner: &Root, loser: &Root| {
                    let (from, to) = (labels[loser.0.0 as usize], labels[winner.0.0 as usize]);
                    for label in labels.iter_mut().filter(|label| **label == from) {
                        *label = to;
                    }
                };
                match correction {
                    Override::Merge { winner, losers } => {
                        losers.iter().for_each(|loser| join(winner, loser));
                    }
                    Override::LateMerge { winner, loser } => join(winner, loser),
                    Override::Apart { .. } => {}
                    Override::Pin { texts, root } => {
                        for text in texts {
                            pinned[text.0 as usize] = Some(root.0.0);
                        }
                    }
                }
            }
            labels[pinned[text as usize].unwrap_or(tree) as usize]
        }
    }

    const ROOTS: u64 = 9;
    const TEXTS: u64 = 4;

    fn root(number: u64) -> Root {
        Root(Fingerprint(number))
    }

    #[derive(Debug, Clone)]
    enum Step {
        Say(Override),
        /// Some trees expire.
        Forget(Vec<bool>),
        /// Undoes one of the overrides.
        Undo(usize),
        /// Applies the last change again, as a replay does.
        Again,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let roots = || prop::collection::vec(0..ROOTS, 1..4);
        let merge = (0..ROOTS, roots()).prop_map(|(winner, losers)| Override::Merge {
            winner: root(winner),
            losers: losers.into_iter().map(root).collect(),
        });
        let pin = (prop::collection::vec(0..TEXTS, 1..3), 0..ROOTS).prop_map(|(texts, to)| Override::Pin {
            texts: texts.into_iter().map(Fingerprint).collect(),
            root: root(to),
        });
        let late_merges = (0..ROOTS, 0..ROOTS)
            .prop_map(|(winner, loser)| Override::LateMerge { winner: root(winner), loser: root(loser) });
        let apart = (0..ROOTS, 0..ROOTS).prop_map(|(one, other)| Override::Apart { roots: [root(one), root(other)] });
        let step = prop_oneof![
            4 => merge.prop_map(Step::Say),
            3 => late_merges.prop_map(Step::Say),
            1 => apart.prop_map(Step::Say),
            1 => prop::collection::vec(any::<bool>(), ROOTS as usize).prop_map(Step::Forget),
            2 => pin.prop_map(Step::Say),
            2 => any::<usize>().prop_map(Step::Undo),
            1 => Just(Step::Again),
        ];
        prop::collection::vec(step, 0..24)
    }

    /// As a journal has it.
    #[derive(Debug, Clone)]
    enum Done {
        Set(u64, Option<Override>),
        Forgotten(Vec<u64>),
    }

    impl Done {
        fn apply(&self, overrides: &mut Overrides) {
            match self {
                Done::Set(number, correction) => overrides.set(*number, correction.clone()),
                Done::Forgotten(numbers) => overrides.forget(numbers),
            }
        }
    }

    fn written(overrides: &Overrides) -> Overrides {
        let mut bytes = Vec::new();
        overrides.write(&mut bytes);
        let mut rest = &bytes[..];
        let read = Overrides::read(&mut rest).unwrap();
        assert!(rest.is_empty());
        read
    }

    proptest! {
        #[test]
        fn every_answer_is_the_models(steps in steps()) {
            let (mut overrides, mut model) = (Overrides::default(), OverrideModel::default());
            let mut journal: Vec<Done> = Vec::new();
            let mut copy = (0, Overrides::default());
            for (at, step) in steps.into_iter().enumerate() {
                let change = match step {
                    Step::Say(correction) => Some(Done::Set(overrides.next_number().unwrap(), Some(correction))),
                    Step::Forget(alive) => {
                        let is_alive = |root: Root| alive[root.0.0 as usize];
                        let numbers = overrides.outlived(is_alive);
                        let mut without = overrides.clone();
                        without.forget(&numbers);
                        for tree in (0..ROOTS).map(root).filter(|&tree| is_alive(tree)) {
                            for text in (0..TEXTS).map(Fingerprint) {
                                prop_assert_eq!(overrides.shown_root(text, tree), without.shown_root(text, tree));
                            }
                        }
                        Some(Done::Forgotten(numbers))
                    }
                    Step::Undo(which) => {
                        let numbers: Vec<u64> = model.0.keys().copied().collect();
                        let which = which.checked_rem(numbers.len());
                        which.map(|which| Done::Set(numbers[which], None))
                    }
                    Step::Again => journal.last().cloned(),
                };
                let Some(change) = change else { continue };
                change.apply(&mut overrides);
                match change.clone() {
                    Done::Set(number, Some(correction)) => drop(model.0.insert(number, correction)),
                    Done::Set(number, None) => drop(model.0.remove(&number)),
                    Done::Forgotten(numbers) => model.0.retain(|number, _| !numbers.contains(number)),
                }
                journal.push(change);
                if at == 7 {
                    copy = (journal.len() / 2, overrides.clone());
                }
                for tree in 0..ROOTS {
                    for text in 0..TEXTS {
                        let answer = overrides.shown_root(Fingerprint(text), root(tree));
                        prop_assert_eq!(answer, root(model.answer(text, tree)));
                        // Flat.
                        prop_assert_eq!(overrides.group(answer), answer);
                    }
                }
            }
            // From the journal alone, from a copy and the changes since some time before it, and from the bytes of
            // both.
            let mut replayed = Overrides::default();
            let mut restored = written(&copy.1);
            for (at, change) in journal.iter().enumerate() {
                if let Done::Set(_, correction) = change {
                    let mut bytes = Vec::new();
                    Override::write_some(correction.as_ref(), &mut bytes);
                    let read = Override::read_some(&mut &bytes[..]).unwrap();
                    prop_assert_eq!(&read, correction);
                }
                change.apply(&mut replayed);
                if at >= copy.0 {
                    change.apply(&mut restored);
                }
            }
            prop_assert_eq!(&replayed, &overrides);
            prop_assert_eq!(&restored, &overrides);
            prop_assert_eq!(&written(&overrides), &overrides);
        }
    }

    #[test]
    fn a_word_is_obeyed_and_undone() {
        let mut overrides = Overrides::default();
        let text = Fingerprint(77);
        let merge = |winner, loser| Override::Merge { winner: root(winner), losers: vec![root(loser)] };
        overrides.set(0, Some(merge(1, 2)));
        overrides.set(1, Some(merge(3, 1)));
        overrides.set(2, Some(Override::Pin { texts: vec![text], root: root(2) }));
        assert_eq!(overrides.shown_root(Fingerprint(5), root(2)), root(3));
        assert_eq!(overrides.shown_root(text, root(9)), root(3));
        // Added again with the roots exchanged: they are one group already.
        overrides.set(3, Some(merge(2, 3)));
        assert_eq!(overrides.group(root(3)), root(3));
        overrides.set(1, None);
        assert_eq!(overrides.shown_root(text, root(9)), root(1));
        assert_eq!(overrides.group(root(3)), root(1), "the third override applies now");
        overrides.set(0, None);
        assert_eq!(overrides.group(root(3)), root(2));
        overrides.set(3, None);
        overrides.set(2, None);
        assert_eq!(overrides.shown_root(text, root(9)), root(9));
        assert_eq!(overrides.next_number(), Some(4), "a number is not given twice");
    }

    #[test]
    fn what_is_no_word() {
        for bytes in [
            &[][..],
            &[1, 0, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255],
        ] {
            assert_eq!(Override::read_some(&mut &*bytes), None, "{bytes:?}");
        }
        let seen: BTreeSet<u64> = Overrides::default().iter().map(|(number, _)| number).collect();
        assert!(seen.is_empty());
    }
}
