//! The records of trees, by number: founder, arrivals of the leaves, proof. A leaf is only its entry in the index,
//! which holds this number.

use std::fmt::Debug;

use smallvec::SmallVec;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::Proof;
use spinney_text::work_counter;

use super::first::DocumentHash;
use super::sparse_map::SparseMap;
use super::ticks::Tick;
use crate::hamming::prefetch;
use crate::time::Millis;

/// Records of one chunk: memory grows by chunks, and records never move.
const CHUNK: usize = 1 << 10;

/// In place of the index of statistics: no accepted document, or one.
pub(super) const UNCOUNTED: u32 = u32::MAX;
pub(super) const FOUNDED: u32 = u32::MAX - 1;
/// In place of the number of leaves: they arrived at several times.
const SEVERAL: u32 = u32::MAX;

/// The number of a tree; valid while it has a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RootNumber(pub(super) u32);

/// One tree.
#[derive(Debug)]
pub(super) struct TreeRecord<P> {
    pub(super) fingerprint: Fingerprint,
    /// Index of its statistics, from its second document on; [`UNCOUNTED`] or [`FOUNDED`] before.
    pub(super) tally: u32,
    /// Nodes in the index that have its number, dead ones too: while there is one the number stays taken.
    attached: u32,
    leaves: Leaves,
    added: FoundedAt,
    pub(super) proof: P,
}

/// When a tree was founded, in 48 bits: the years from -2490 to 6429.
#[derive(Debug, Clone, Copy)]
struct FoundedAt([u16; 3]);

impl FoundedAt {
    /// The time of a clock that never advanced.
    const NEVER: i64 = -(1 << 47);

    fn new(at: Millis) -> FoundedAt {
        let at = at.0.clamp(Self::NEVER, -1 - Self::NEVER);
        FoundedAt([at as u16, (at >> 16) as u16, (at >> 32) as u16])
    }

    fn at(self) -> Millis {
        let [low, middle, high] = self.0;
        let at = i64::from(high as i16) << 32 | i64::from(middle) << 16 | i64::from(low);
        Millis(if at == Self::NEVER { i64::MIN } else { at })
    }
}

impl<P> TreeRecord<P> {
    /// When it was founded.
    pub(super) fn added(&self) -> Millis {
        self.added.at()
    }
}

/// How many leaves of a tree arrived when. Dead ones may be among them.
#[derive(Debug, Clone, Copy)]
struct Leaves {
    /// Their tick, or where their ticks are.
    tick: u32,
    count: u32,
}

/// Ticks and how many leaves arrived in each, in the order of the ticks.
type LeafAges = SmallVec<[(Tick, u32); AGES]>;

/// Two times need no memory of their own: most trees have no more.
const AGES: usize = 2;

/// Records in one cache line.
const A_LINE: usize = 8;

/// All trees that have a node.
#[derive(Debug)]
pub(super) struct Roots<P> {
    chunks: Vec<Vec<TreeRecord<P>>>,
    /// The first documents of the trees, chunk by chunk: in a record they would take twice as much.
    firsts: Vec<Box<[DocumentHash]>>,
    free: Vec<u32>,
    /// The leaves of trees whose leaves did not all arrive in one tick.
    ages: SparseMap<LeafAges>,
    ages_bytes: usize,
    /// Heap bytes of the proofs, including those of removed trees whose records have not been reused.
    proof_bytes: usize,
}

impl<P: Proof> Roots<P> {
    pub(super) fn new() -> Roots<P> {
        Roots {
            chunks: Vec::new(),
            firsts: Vec::new(),
            free: Vec::new(),
            ages: SparseMap::new(),
            ages_bytes: 0,
            proof_bytes: 0,
        }
    }

    pub(super) fn get(&self, number: RootNumber) -> Option<&TreeRecord<P>> {
        let number = number.0 as usize;
        self.chunks.get(number / CHUNK)?.get(number % CHUNK)
    }

    /// Brings a record into the cache; nothing depends on it but time.
    pub(super) fn prefetch(&self, number: RootNumber) {
        if let Some(record) = self.get(number) {
            prefetch(record);
            // It is longer than a line.
            prefetch(&record.proof);
        }
    }

    pub(super) fn get_mut(&mut self, number: RootNumber) -> Option<&mut TreeRecord<P>> {
        let number = number.0 as usize;
        self.chunks.get_mut(number / CHUNK)?.get_mut(number % CHUNK)
    }

    /// The number that a new tree would get; none if all are taken.
    fn next(&self) -> Option<u32> {
        if let Some(&free) = self.free.last() {
            return Some(free);
        }
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let last = self.chunks.last().map_or(0, Vec::len);
        u32::try_from(full + last).ok().filter(|&number| number < u32::MAX - 2)
    }

    /// A new tree without a node; none if every number is taken.
    pub(super) fn add(&mut self, fingerprint: Fingerprint, added: Millis, proof: P) -> Option<RootNumber> {
        let number = RootNumber(self.next()?);
        let record = TreeRecord {
            fingerprint,
            added: FoundedAt::new(added),
            tally: UNCOUNTED,
            attached: 0,
            leaves: Leaves { tick: 0, count: 0 },
            proof,
        };
        self.proof_bytes += record.proof.heap_bytes();
        if self.free.pop().is_some() {
            self.set_first(number, DocumentHash::UNKNOWN);
            if let Some(place) = self.get_mut(number) {
                let before = std::mem::replace(place, record);
                self.proof_bytes -= before.proof.heap_bytes();
            }
            // The next tree takes the next one of these, which is anywhere.
            if let Some(&next) = self.free.last() {
                self.prefetch(RootNumber(next));
            }
            return Some(number);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
            self.firsts.push(vec![DocumentHash::UNKNOWN; CHUNK].into());
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(record);
        }
        Some(number)
    }

    /// A tree was founded then, by whom this proof is.
    pub(super) fn found(&mut self, number: RootNumber, added: Millis, proof: P) {
        self.set_first(number, DocumentHash::UNKNOWN);
        let bytes = proof.heap_bytes();
        if let Some(record) = self.get_mut(number) {
            record.added = FoundedAt::new(added);
            let before = std::mem::replace(&mut record.proof, proof);
            self.proof_bytes = self.proof_bytes + bytes - before.heap_bytes();
        }
    }

    /// The first document of a tree.
    pub(super) fn first(&self, number: RootNumber) -> DocumentHash {
        let number = number.0 as usize;
        let first = self.firsts.get(number / CHUNK).and_then(|chunk| chunk.get(number % CHUNK));
        first.copied().unwrap_or_default()
    }

    /// Sets the first document of a tree. Returns whether it is another one than before.
    pub(super) fn set_first(&mut self, number: RootNumber, first: DocumentHash) -> bool {
        let number = number.0 as usize;
        let place = self.firsts.get_mut(number / CHUNK).and_then(|chunk| chunk.get_mut(number % CHUNK));
        place.is_some_and(|place| std::mem::replace(place, first) != first)
    }

    /// Heap bytes of this many proofs of average size.
    pub(super) fn proof_bytes_of(&self, trees: usize) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let records = full + self.chunks.last().map_or(0, Vec::len);
        // Of most kinds of proofs that is nothing.
        (self.proof_bytes / records.max(1)) * trees
    }

    /// A node of the tree is in the index.
    pub(super) fn attach(&mut self, number: RootNumber) {
        if let Some(record) = self.get_mut(number) {
            record.attached += 1;
        }
    }

    /// A node of the tree has left the index. Answers its tally if that was the last one: the number is free then.
    pub(super) fn detach(&mut self, number: RootNumber) -> Option<u32> {
        let record = self.get_mut(number)?;
        record.attached = record.attached.saturating_sub(1);
        if record.attached > 0 {
            return None;
        }
        let (tally, leaves) = (record.tally, record.leaves);
        record.leaves = Leaves { tick: 0, count: 0 };
        self.forget_ages(leaves);
        self.free.push(number.0);
        Some(tally)
    }

    /// Adds a leaf that arrives in a tick, and forgets arrivals before the floor.
    pub(super) fn leaf_came(&mut self, number: RootNumber, tick: Tick, floor: Tick) {
        let Some(leaves) = self.get(number).map(|record| record.leaves) else {
            return;
        };
        let only = Tick(leaves.tick);
        let leaves = if leaves.count == SEVERAL {
            let Some(ages) = self.ages.get_mut(leaves.tick) else {
                return;
            };
            let before = ages.capacity();
            let dead = ages.partition_point(|(age, _)| !age.is_from(floor));
            work_counter::add(dead.min(1) * ages.len() / A_LINE + 1);
            ages.drain(..dead);
            let place = ages.partition_point(|(age, _)| !age.is_from(tick));
            match ages.get_mut(place).filter(|(age, _)| *age == tick) {
                Some((_, count)) => *count += 1,
                None => ages.insert(place, (tick, 1)),
            }
            self.ages_bytes = self.ages_bytes + bytes(ages.capacity()) - bytes(before);
            leaves
        } else if leaves.count == 0 || only == tick || !only.is_from(floor) {
            let same = if only == tick { leaves.count } else { 0 };
            Leaves { tick: tick.0, count: same + 1 }
        } else {
            let mut ages = LeafAges::from([(only, leaves.count), (tick, 1)]);
            ages.sort_unstable_by_key(|(age, _)| age.0.wrapping_sub(floor.0));
            self.ages_bytes += bytes(ages.capacity());
            Leaves { tick: self.ages.keep(ages), count: SEVERAL }
        };
        if let Some(record) = self.get_mut(number) {
            record.leaves = leaves;
        }
    }

    /// A leaf that arrived in this tick is no leaf any more, or arrives again. One that was forgotten changes nothing.
    pub(super) fn leaf_went(&mut self, number: RootNumber, tick: Tick, floor: Tick) {
        let Some(record) = self.get_mut(number) else {
            return;
        };
        let leaves = record.leaves;
        if leaves.count != SEVERAL {
            if leaves.tick == tick.0 {
                record.leaves.count = leaves.count.saturating_sub(1);
            }
            return;
        }
        let Some(ages) = self.ages.get_mut(leaves.tick) else {
            return;
        };
        // Dead ones go together when the next leaf comes, or with the last of them: a large tree has very many.
        if tick.is_from(floor) {
            let place = ages.partition_point(|(age, _)| !age.is_from(tick));
            if let Some((_, count)) = ages.get_mut(place).filter(|(age, _)| *age == tick) {
                *count -= 1;
                if *count == 0 {
                    work_counter::add((ages.len() - place) / A_LINE);
                    ages.remove(place);
                }
            }
        }
        let left = match ages.as_slice() {
            [] => (tick, 0),
            &[only] => only,
            [.., (last, _)] if !last.is_from(floor) => (tick, 0),
            _ => return,
        };
        self.forget_ages(leaves);
        if let Some(record) = self.get_mut(number) {
            let (Tick(tick), count) = left;
            record.leaves = Leaves { tick, count };
        }
    }

    fn forget_ages(&mut self, leaves: Leaves) {
        if leaves.count == SEVERAL
            && let Some(ages) = self.ages.get_mut(leaves.tick)
        {
            self.ages_bytes -= bytes(ages.capacity());
            *ages = LeafAges::new();
            self.ages.release(leaves.tick);
        }
    }

    /// The number of leaves that are alive.
    pub(super) fn living_leaves(&self, number: RootNumber, floor: Tick) -> u32 {
        let Some(record) = self.get(number) else {
            return 0;
        };
        let Leaves { tick, count } = record.leaves;
        if count != SEVERAL {
            return if Tick(tick).is_from(floor) { count } else { 0 };
        }
        let ages = self.ages.get(tick).map(SmallVec::as_slice).unwrap_or_default();
        let dead = ages.partition_point(|(age, _)| !age.is_from(floor));
        let living = ages.get(dead..).unwrap_or_default();
        living.iter().map(|(_, count)| count).sum()
    }

    /// The trees of one chunk that have nodes; `None` beyond the last chunk.
    pub(super) fn chunk(&self, chunk: usize) -> Option<impl Iterator<Item = (RootNumber, &TreeRecord<P>)>> {
        let first = u32::try_from(chunk * CHUNK).ok()?;
        let records = (first..).map(RootNumber).zip(self.chunks.get(chunk)?);
        Some(records.filter(|(_, record)| record.attached > 0))
    }

    /// The trees that have no node, where none was freed yet.
    pub(super) fn unattached(&self) -> Vec<RootNumber> {
        let all = (0u32..).map(RootNumber).zip(self.chunks.iter().flatten());
        let without = all.filter(|(_, record)| record.attached == 0);
        without.map(|(number, _)| number).collect()
    }

    /// Bytes allocated, and bytes in use by records.
    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * (size_of::<TreeRecord<P>>() + size_of::<DocumentHash>())
            + self.free.capacity() * size_of::<u32>()
            + self.ages.memory_bytes()
            + self.ages_bytes
            + self.proof_bytes
    }
}

/// Heap bytes of a list of ages.
fn bytes(capacity: usize) -> usize {
    match capacity {
        ..=AGES => 0,
        more => more * size_of::<(Tick, u32)>(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use spinney_text::method::Founder;

    #[test]
    fn a_record_of_the_default_method_is_small() {
        assert_eq!(size_of::<TreeRecord<Founder>>(), 88);
        assert!(size_of::<LeafAges>() <= 24);
    }

    proptest! {
        #[test]
        fn a_time_is_kept(at in (1 - (1i64 << 47))..(1 << 47)) {
            prop_assert_eq!(FoundedAt::new(Millis(at)).at(), Millis(at));
        }
    }

    #[test]
    fn times_beyond_all_dates() {
        assert_eq!(FoundedAt::new(Millis(i64::MIN)).at(), Millis(i64::MIN));
        assert_eq!(FoundedAt::new(Millis(i64::MAX)).at(), Millis((1 << 47) - 1));
    }
}
