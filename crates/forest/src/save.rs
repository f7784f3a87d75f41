//! A copy of a forest in portions, written while the forest changes.
//!
//! A copy taken portion by portion is no state that ever existed: a later portion contains changes that an earlier
//! one does not. The changes since it was begun make it exact, because each is absolute for its fingerprint. Sums of
//! a tree (its leaves, their ages) are not written; they are recomputed after reading.
//!
//! ```text
//! section 1, first:            | clock 8 | current tick 4 | floor 4 | moments | secret of the index 16 | nodes 8 |
//! section 2, trees:            of each | number 4 | root 8 | added 8 | statistics 17 | proof |
//! section 3, nodes:            of each | fingerprint 8 | number of its tree 4 | tick 4 |
//! section 8, first documents that are known: of each | number 4 | root 8 | first 4 |
//! section 6, founder tokens:   of each | root 8 | tokens 4 | of each 2 |
//! section 4, learned text:     | lsn 8 | of the kind | pending lessons, only if there are any |
//! section 7, only if there are any: overrides, as in overrides.rs
//! section 5, last:             | clock 8 | current tick 4 | floor 4 | moments 4 | of each: tick 4, time 8 |
//! ```

use std::collections::{HashMap, HashSet};

use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::HashKey;
use spinney_text::method::{Durable, MethodKind, Proof, TreeTally};

use super::codec::name_of;
use super::local::{ForestState, StateChange};
use super::overrides::Overrides;
use super::pending_lessons::PendingLessons;
use super::roots::RootNumber;
use super::ticks::{Tick, TickStart, Ticks};
use super::{DocumentHash, Forest};
use crate::hamming::Entry;
use crate::time::Millis;

/// Sections of a copy.
pub(super) const BEGIN: u8 = 1;
pub(super) const TREES: u8 = 2;
pub(super) const NODES: u8 = 3;
const LEARNED: u8 = 4;
const END: u8 = 5;
const FOUNDER_TOKENS: u8 = 6;
const OVERRIDES: u8 = 7;
const FIRSTS: u8 = 8;

/// Why bytes are not a state of this forest. The part before them has been taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind}, {at} bytes in, is none of such a forest")]
pub struct Unreadable {
    /// Where it begins, in bytes.
    pub at: usize,
    /// The kind of the record.
    pub kind: String,
}

/// The name of a section, for messages about an unreadable part.
fn section_name(section: u8) -> String {
    let name = match section {
        BEGIN => "times at the beginning",
        TREES => "trees",
        NODES => "nodes",
        LEARNED => "what was learned",
        END => "times at the end",
        FOUNDER_TOKENS => "founder tokens",
        OVERRIDES => "overrides",
        FIRSTS => "first documents",
        _ => "unknown to this version",
    };
    format!("section {section} ({name})")
}

/// How far a copy is.
#[derive(Debug, Default)]
pub struct Portions {
    phase: Phase,
    at: usize,
}

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    #[default]
    Trees,
    Nodes,
    Firsts,
    FounderTokens,
    Learned,
    Overrides,
    End,
    Over,
}

impl Portions {
    fn go_to(&mut self, phase: Phase) {
        *self = Portions { phase, at: 0 };
    }
}

impl<F: MethodKind> ForestState<F> {
    /// The first section, written before the journal is rotated for the copy.
    pub fn begin_copy(&self) -> (u8, Vec<u8>) {
        let forest = self.forest();
        let mut out = Vec::new();
        forest.ticks.write_times(&mut out);
        forest.ticks.write_moments(&mut out);
        // With the same secret, the nodes come in the order of the table.
        for number in forest.index.secret().parts() {
            number.write(&mut out);
        }
        (forest.index.len() as u64).write(&mut out);
        (BEGIN, out)
    }

    /// The next portion; none if that was all. `lsn`: the last batch of changes that was appended to the journal.
    pub fn next_portion(&self, portions: &mut Portions, lsn: u64) -> Option<(u8, Vec<u8>)> {
        let forest = self.forest();
        let mut out = Vec::new();
        let at = portions.at;
        portions.at += 1;
        match portions.phase {
            Phase::Trees => {
                // Before the nodes: a node whose tree is not here belongs to one that came later.
                if forest.write_trees(at, &mut out) {
                    return Some((TREES, out));
                }
                portions.go_to(Phase::Nodes);
                self.next_portion(portions, lsn)
            }
            Phase::Nodes if at < forest.index.portions() => {
                forest.index.portion(at, |fingerprint, entry| {
                    fingerprint.write(&mut out);
                    entry.root.write(&mut out);
                    entry.tick.write(&mut out);
                });
                Some((NODES, out))
            }
            Phase::Nodes => {
                portions.go_to(Phase::Firsts);
                self.next_portion(portions, lsn)
            }
            Phase::Firsts => {
                if forest.write_firsts(at, &mut out) {
                    return Some((FIRSTS, out));
                }
                portions.go_to(Phase::FounderTokens);
                self.next_portion(portions, lsn)
            }
            Phase::FounderTokens => {
                // The next portion begins at the number of the next entry.
                if let Some(next) = forest.founder_tokens.write(at as u64, &mut out) {
                    portions.at = next as usize;
                    return Some((FOUNDER_TOKENS, out));
                }
                portions.go_to(Phase::Learned);
                self.next_portion(portions, lsn)
            }
            Phase::Learned => {
                portions.go_to(Phase::Overrides);
                lsn.write(&mut out);
                self.learned().write(&mut out);
                if !self.pending.is_empty() {
                    self.pending.write(&mut out);
                }
                Some((LEARNED, out))
            }
            Phase::Overrides => {
                portions.go_to(Phase::End);
                if self.overrides().next_number() == Some(0) {
                    return self.next_portion(portions, lsn);
                }
                self.overrides().write(&mut out);
                Some((OVERRIDES, out))
            }
            Phase::End => {
                portions.go_to(Phase::Over);
                forest.ticks.write_times(&mut out);
                forest.ticks.write_moments(&mut out);
                Some((END, out))
            }
            Phase::Over => None,
        }
    }
}

impl<P: Proof + Durable> Forest<P> {
    /// Writes one chunk of trees; false beyond the last chunk.
    fn write_trees(&self, chunk: usize, out: &mut Vec<u8>) -> bool {
        let Some(records) = self.roots.chunk(chunk) else {
            return false;
        };
        for (number, record) in records {
            number.0.write(out);
            record.fingerprint.write(out);
            record.added().0.write(out);
            self.tally(number).unwrap_or_default().write(out);
            record.proof.write(out);
        }
        true
    }
}

impl<P: Proof> Forest<P> {
    /// Writes the known first documents of one chunk of trees; false beyond the last chunk.
    fn write_firsts(&self, chunk: usize, out: &mut Vec<u8>) -> bool {
        let Some(records) = self.roots.chunk(chunk) else {
            return false;
        };
        for (number, record) in records {
            let first = self.roots.first(number);
            if first != DocumentHash::UNKNOWN {
                number.0.write(out);
                record.fingerprint.write(out);
                first.0.write(out);
            }
        }
        true
    }
}

impl Ticks {
    fn write_times(&self, out: &mut Vec<u8>) {
        self.clock().0.write(out);
        self.current().0.write(out);
        self.floor().0.write(out);
    }

    fn write_moments(&self, out: &mut Vec<u8>) {
        (self.moments().count() as u32).write(out);
        for moment in self.moments() {
            moment.tick.0.write(out);
            moment.at.0.write(out);
        }
    }
}

/// The clock of a snapshot.
#[derive(Debug, Clone, Copy)]
struct SavedClock {
    now: TickStart,
    floor: Tick,
}

impl SavedClock {
    fn read(bytes: &mut &[u8]) -> Option<SavedClock> {
        let at = Millis(i64::read(bytes)?);
        let tick = Tick(u32::read(bytes)?);
        let floor = Tick(u32::read(bytes)?);
        Some(SavedClock { now: TickStart { tick, at }, floor })
    }
}

/// Restores a state: first the snapshot, then the changes since it was begun.
#[derive(Debug)]
pub struct Restoring<F: MethodKind> {
    state: ForestState<F>,
    numbers: TreeNumbers,
    /// The clock at the end of the snapshot.
    end: Option<SavedClock>,
    /// The last batch whose lessons the copy has.
    learned: u64,
    /// The copy has been reckoned up.
    complete: bool,
    /// Whether the clock has been set.
    has_begun: bool,
    /// Parts may be missing.
    salvages: bool,
    /// Bytes that the copy has at most; 0 if that is not known.
    bytes: u64,
}

/// Bytes of a node in a copy.
const NODE_BYTES: u64 = 16;

/// Nodes that are fetched together.
const GROUP: usize = 64;

/// In place of the number of a tree that was not written.
const NO_TREE: u32 = u32::MAX;

/// Numbers of one piece.
const PIECE: usize = 1 << 10;

/// The numbers of the trees as they were written, and as they are now. In pieces, so that a record takes memory for
/// numbers near its own alone, whatever number it has.
#[derive(Debug, Default)]
struct TreeNumbers(Vec<Box<[u32]>>);

impl TreeNumbers {
    fn set(&mut self, stored: u32, now: RootNumber) {
        let (piece, at) = (stored as usize / PIECE, stored as usize % PIECE);
        if piece >= self.0.len() {
            self.0.resize_with(piece + 1, Box::default);
        }
        if let Some(numbers) = self.0.get_mut(piece) {
            if numbers.is_empty() {
                *numbers = [NO_TREE; PIECE].into();
            }
            if let Some(place) = numbers.get_mut(at) {
                *place = now.0;
            }
        }
    }

    fn get(&self, stored: u32) -> Option<u32> {
        let (piece, at) = (stored as usize / PIECE, stored as usize % PIECE);
        self.0.get(piece)?.get(at).copied().filter(|&number| number != NO_TREE)
    }
}

impl<F: MethodKind> Restoring<F> {
    /// Over an empty state.
    pub fn new(state: ForestState<F>) -> Restoring<F> {
        Restoring {
            state,
            numbers: TreeNumbers::default(),
            end: None,
            learned: 0,
            complete: false,
            has_begun: false,
            salvages: false,
            bytes: 0,
        }
    }

    /// Allocates memory for the nodes that the snapshot announces, if they fit into this many bytes.
    pub fn of_bytes(self, bytes: u64) -> Restoring<F> {
        Restoring { bytes, ..self }
    }

    /// As [`new`](Self::new), for a copy with missing parts: the remainder is made a consistent state.
    pub fn salvaging(state: ForestState<F>) -> Restoring<F> {
        Restoring { salvages: true, ..Restoring::new(state) }
    }

    /// Reads a part of the copy.
    ///
    /// # Errors
    /// [`Unreadable`]: it is of another kind of forest, or of a later version.
    pub fn part(&mut self, section: u8, whole: &[u8]) -> Result<(), Unreadable> {
        let mut rest = whole;
        let bytes = &mut rest;
        let read = match section {
            BEGIN => self.read_begin(bytes),
            TREES => self.read_trees(bytes),
            NODES => self.read_nodes(bytes),
            FIRSTS => self.read_firsts(bytes),
            FOUNDER_TOKENS => self.state.forest_mut().founder_tokens.read(bytes),
            LEARNED => self.read_learned(bytes),
            OVERRIDES => Overrides::read(bytes).map(|overrides| self.state.set_overrides(overrides)),
            END => self.read_end(bytes),
            _ => None,
        };
        match read.filter(|()| bytes.is_empty()) {
            Some(()) => Ok(()),
            None => Err(Unreadable { at: whole.len() - bytes.len(), kind: section_name(section) }),
        }
    }

    /// Reads a batch of changes.
    ///
    /// # Errors
    /// As [`part`](Restoring::part).
    pub fn batch(&mut self, lsn: u64, mut bytes: &[u8]) -> Result<(), Unreadable> {
        let whole = bytes.len();
        self.complete();
        // As with the nodes of a copy.
        let mut group = Vec::with_capacity(GROUP);
        let mut unreadable = None;
        while !bytes.is_empty() && unreadable.is_none() {
            while group.len() < GROUP && !bytes.is_empty() {
                let begin = bytes;
                let Some(change) = StateChange::read(&mut bytes) else {
                    unreadable = begin.first().map(|&kind| Unreadable { at: whole - begin.len(), kind: name_of(kind) });
                    break;
                };
                if let StateChange::Tree(change) = &change {
                    let index = &self.state.forest().index;
                    index.prefetch(change.subject().as_slice());
                }
                group.push(change);
            }
            for change in group.drain(..) {
                let is_lesson =
                    matches!(change, StateChange::Learn(_) | StateChange::Pending { .. } | StateChange::Taught(_));
                if !is_lesson || lsn > self.learned {
                    self.state.apply(&change);
                }
            }
        }
        unreadable.map_or(Ok(()), Err)
    }

    /// The state.
    pub fn finish(mut self) -> ForestState<F> {
        self.complete();
        if let Some(end) = self.end {
            let forest = self.state.forest_mut();
            if end.now.at > forest.clock() {
                forest.ticks.begin(end.now);
            }
        }
        let ForestState { forest, pending, .. } = &mut self.state;
        pending.retain(|root| forest.has_tree(root));
        // Counters are of this process.
        forest.expired_total = 0;
        forest.withdrawn_total = 0;
        forest.evicted_total = 0;
        self.state
    }

    fn read_begin(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let times = SavedClock::read(bytes)?;
        self.stand_at(times);
        self.read_moments(bytes)?;
        // Copies of earlier versions end here.
        if !bytes.is_empty() {
            let secret = HashKey::new(u64::read(bytes)?, u64::read(bytes)?);
            let nodes = u64::read(bytes)?;
            if nodes > 0 && nodes <= self.bytes / NODE_BYTES {
                self.state.forest_mut().index.expect_copy(secret, nodes as usize);
            }
        }
        Some(())
    }

    fn stand_at(&mut self, times: SavedClock) {
        let forest = self.state.forest_mut();
        forest.ticks.stand_at(times.now, times.floor);
        self.has_begun = true;
    }

    fn read_trees(&mut self, left: &mut &[u8]) -> Option<()> {
        while !left.is_empty() {
            let mut record = *left;
            let bytes = &mut record;
            let number = u32::read(bytes)?;
            let fingerprint = Fingerprint::read(bytes)?;
            let added = Millis(i64::read(bytes)?);
            let tally = TreeTally::read(bytes)?;
            let proof = <F::Proof as Durable>::read(bytes)?;
            *left = record;
            let forest = self.state.forest_mut();
            let root = forest.roots.add(fingerprint, added, proof)?;
            forest.put_tally(root, tally);
            self.numbers.set(number, root);
        }
        Some(())
    }

    fn read_nodes(&mut self, left: &mut &[u8]) -> Option<()> {
        // Where a node belongs is anywhere in memory: it is fetched while others are put in their places.
        let mut group = Vec::with_capacity(GROUP);
        while !left.is_empty() {
            let mut record = *left;
            let bytes = &mut record;
            let fingerprint = Fingerprint::read(bytes)?;
            let stored = u32::read(bytes)?;
            let tick = u32::read(bytes)?;
            *left = record;
            if let Some(root) = self.numbers.get(stored) {
                self.state.forest().index.prefetch(&[fingerprint]);
                group.push((fingerprint, Entry { root, tick }));
            }
            if group.len() == GROUP || left.is_empty() {
                let index = &mut self.state.forest_mut().index;
                for (fingerprint, entry) in group.drain(..) {
                    index.insert(fingerprint, entry).ok()?;
                }
            }
        }
        Some(())
    }

    fn read_firsts(&mut self, bytes: &mut &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let (stored, root) = (u32::read(bytes)?, Fingerprint::read(bytes)?);
            let first = DocumentHash(u32::read(bytes)?);
            let forest = self.state.forest_mut();
            let number = self.numbers.get(stored).map(RootNumber);
            // The number may have become that of another tree since the trees were written.
            if let Some(number) = number.filter(|&number| forest.is_root(root, number)) {
                forest.roots.set_first(number, first);
            }
        }
        Some(())
    }

    fn read_learned(&mut self, bytes: &mut &[u8]) -> Option<()> {
        self.learned = u64::read(bytes)?;
        *self.state.learned_mut() = <F::Learned as Durable>::read(bytes)?;
        if !bytes.is_empty() {
            self.state.pending = PendingLessons::read(bytes)?;
        }
        Some(())
    }

    fn read_end(&mut self, bytes: &mut &[u8]) -> Option<()> {
        self.end = Some(SavedClock::read(bytes)?);
        self.read_moments(bytes)
    }

    fn read_moments(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let ticks = &mut self.state.forest_mut().ticks;
        for _ in 0..u32::read(bytes)? {
            let tick = Tick(u32::read(bytes)?);
            let at = Millis(i64::read(bytes)?);
            ticks.know(TickStart { tick, at });
        }
        Some(())
    }

    #[cfg(test)]
    pub(super) fn number_bytes(&self) -> usize {
        let pieces = self.numbers.0.iter().map(|piece| size_of_val(&**piece));
        self.numbers.0.capacity() * size_of::<Box<[u32]>>() + pieces.sum::<usize>()
    }

    /// Recomputes the state that a snapshot does not contain.
    fn complete(&mut self) {
        if !std::mem::replace(&mut self.complete, true) {
            self.numbers = TreeNumbers::default();
            if self.salvages {
                self.mend();
            }
            let forest = self.state.forest_mut();
            forest.reckon();
            forest.forget_orphans();
        }
    }
}

impl<F: MethodKind> Restoring<F> {
    /// Repairs what missing parts of the snapshot left inconsistent, before anything is counted.
    fn mend(&mut self) {
        let end = self.end;
        if let Some(times) = end.filter(|_| !self.has_begun) {
            self.stand_at(times);
        }
        let has_begun = self.has_begun;
        let forest = self.state.forest_mut();
        let newest = forest.mend();
        if !has_begun {
            // Where nothing tells the time, nodes of the changes are of one tick, too: they would not be counted.
            let now = TickStart { tick: newest.unwrap_or(forest.ticks.current()), at: forest.clock() };
            forest.ticks.stand_at(now, Tick(0));
        }
    }
}

impl<P: Proof> Forest<P> {
    /// Adds the missing root node of each tree, and removes the leaves of a tree whose root belongs to another one.
    /// Answers the tick in which a node arrived last.
    fn mend(&mut self) -> Option<Tick> {
        let mut newest: HashMap<u32, Tick> = HashMap::new();
        let mut last: Option<Tick> = None;
        for (_, entry) in self.index.iter() {
            let tick = Tick(entry.tick);
            let of_tree = newest.entry(entry.root).or_insert(tick);
            if tick.is_from(*of_tree) {
                *of_tree = tick;
            }
            if last.is_none_or(|last| tick.is_from(last)) {
                last = Some(tick);
            }
        }
        let mut without_place = HashSet::new();
        for (root, tick) in newest {
            let name = self.name(RootNumber(root)).0;
            match self.index.get(name) {
                Some(entry) if entry.root == root => {}
                None => {
                    let entry = Entry { root, tick: tick.0 };
                    let _ = self.index.insert(name, entry);
                }
                Some(_) => drop(without_place.insert(root)),
            }
        }
        if !without_place.is_empty() {
            let leaves = self.index.iter();
            let leaves = leaves.filter(|(_, entry)| without_place.contains(&entry.root));
            let leaves: Vec<Fingerprint> = leaves.map(|(leaf, _)| leaf).collect();
            for leaf in leaves {
                self.index.remove(leaf);
            }
        }
        last
    }

    /// Removes founder tokens whose root has no node: earlier versions kept them, and a snapshot may have those of a
    /// tree that was founded meanwhile and follows with the changes.
    fn forget_orphans(&mut self) {
        let is_orphan = |root: &Fingerprint| {
            let entry = self.index.get(*root);
            !entry.is_some_and(|entry| self.is_root(*root, RootNumber(entry.root)))
        };
        let orphans: Vec<Fingerprint> = self.founder_tokens.roots().filter(is_orphan).collect();
        for root in orphans {
            self.founder_tokens.remove(root);
        }
    }

    /// Recounts the nodes of each tree and of each tick.
    fn reckon(&mut self) {
        let floor = self.ticks.floor();
        let mut nodes = self.index.iter();
        let mut group = Vec::with_capacity(GROUP);
        loop {
            group.extend(nodes.by_ref().take(GROUP));
            if group.is_empty() {
                break;
            }
            for &(_, entry) in &group {
                self.roots.prefetch(RootNumber(entry.root));
            }
            for (fingerprint, entry) in group.drain(..) {
                let (root, tick) = (RootNumber(entry.root), Tick(entry.tick));
                let record = self.roots.get(root);
                let is_root = record.is_some_and(|record| record.fingerprint == fingerprint);
                self.roots.attach(root);
                self.ticks.know_tick(tick);
                self.ticks.add(tick, is_root);
                if !is_root {
                    self.roots.leaf_came(root, tick, floor);
                }
            }
        }
        drop(nodes);
        // Their nodes went while the copy was being made.
        for root in self.roots.unattached() {
            self.roots.attach(root);
            if let Some(tally) = self.roots.detach(root) {
                self.unwatch(root, tally);
            }
        }
    }
}
