//! Slab of all nodes of an index: a node's number is its slot for as long as it is stored.

use std::collections::BTreeSet;

use super::entry::Entry;
use super::kernel;

/// Slots of a chunk, 4 MiB. A slab grows slot by slot and chunk by chunk, and moves nothing.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 18;
/// Slots of a block, which is contiguous in memory.
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 12;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) code: u64,
    /// In an empty slot the tick is the next empty one of the chunk.
    pub(super) entry: Entry,
}

#[derive(Debug)]
struct Chunk {
    slots: Vec<Slot>,
    /// The first empty slot, if any.
    free: u32,
    used: u32,
}

impl Chunk {
    const BARE: Chunk = Chunk { slots: Vec::new(), free: NONE, used: 0 };
}

#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Chunk>,
    /// Chunks with free slots, and chunks without memory.
    open: BTreeSet<u32>,
    bare: BTreeSet<u32>,
    len: usize,
    slots: usize,
}

impl Slab {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of slots, including empty ones.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The stored slot of a number.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Slot> {
        let chunk = self.chunks.get((id >> CHUNK_BITS) as usize)?;
        let slot = chunk.slots.get(id as usize % CHUNK)?;
        (!slot.entry.is_none()).then_some(slot)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Slot> {
        let chunk = self.chunks.get_mut((id >> CHUNK_BITS) as usize)?;
        let slot = chunk.slots.get_mut(id as usize % CHUNK)?;
        (!slot.entry.is_none()).then_some(slot)
    }

    /// Stores a node; returns its number, `None` if every number is in use.
    pub(super) fn add(&mut self, code: u64, entry: Entry) -> Option<u32> {
        // The first chunk with a free slot, so that later ones become empty as the index shrinks.
        let number = match self.open.first() {
            Some(&number) => number,
            None => self.open_chunk()?,
        };
        let chunk = self.chunks.get_mut(number as usize)?;
        let at = match chunk.free {
            NONE => {
                chunk.slots.push(Slot { code, entry });
                self.slots += 1;
                chunk.slots.len() as u32 - 1
            }
            at => {
                let slot = chunk.slots.get_mut(at as usize)?;
                chunk.free = slot.entry.tick;
                *slot = Slot { code, entry };
                at
            }
        };
        chunk.used += 1;
        if chunk.used as usize == CHUNK {
            self.open.remove(&number);
        }
        self.len += 1;
        Some(number << CHUNK_BITS | at)
    }

    fn open_chunk(&mut self) -> Option<u32> {
        let number = match self.bare.pop_first() {
            Some(number) => number,
            None => {
                let number = self.chunks.len() as u32;
                if number >> (u32::BITS - CHUNK_BITS) != 0 {
                    return None;
                }
                self.chunks.push(Chunk::BARE);
                number
            }
        };
        let chunk = self.chunks.get_mut(number as usize)?;
        // Memory is only committed when it is written; a small slab must not take a huge page.
        chunk.slots.reserve_exact(CHUNK);
        if number > 0 {
            kernel::ask_for_large_pages(chunk.slots.spare_capacity_mut());
        }
        self.open.insert(number);
        Some(number)
    }

    /// Empties a slot.
    pub(super) fn remove(&mut self, id: u32) -> Option<Slot> {
        let number = id >> CHUNK_BITS;
        let chunk = self.chunks.get_mut(number as usize)?;
        let slot = chunk.slots.get_mut(id as usize % CHUNK)?;
        if slot.entry.is_none() {
            return None;
        }
        let removed = *slot;
        slot.entry = Entry { tick: chunk.free, ..Entry::NONE };
        chunk.free = id % CHUNK as u32;
        if chunk.used as usize == CHUNK {
            self.open.insert(number);
        }
        chunk.used -= 1;
        self.len -= 1;
        // The last open chunk stays, or a node that comes and goes would make and free it every time.
        if chunk.used == 0 && self.open.len() > 1 {
            self.slots -= chunk.slots.len();
            *chunk = Chunk::BARE;
            self.open.remove(&number);
            self.bare.insert(number);
        }
        Some(removed)
    }

    /// Next slot on a round through the slab. The end of a partly filled chunk counts as a slot too.
    pub(super) fn behind(&self, id: u32) -> u32 {
        let next = id.wrapping_add(1);
        let number = (id >> CHUNK_BITS) as usize;
        let slots = self.chunks.get(number).map_or(0, |chunk| chunk.slots.len());
        if (id as usize % CHUNK) < slots {
            next
        } else if number + 1 < self.chunks.len() {
            ((number + 1) << CHUNK_BITS) as u32
        } else {
            0
        }
    }

    /// How many places a round has.
    pub(super) fn round(&self) -> usize {
        let is_full = |chunk: &&Chunk| chunk.slots.len() == CHUNK;
        let full = self.chunks.iter().filter(is_full).count();
        let last_full = self.chunks.last().as_ref().is_none_or(is_full);
        self.slots() + self.chunks.len() - full + usize::from(last_full)
    }

    /// The number of blocks that all nodes are in.
    pub(super) fn blocks(&self) -> usize {
        self.chunks.len() * (CHUNK / BLOCK)
    }

    /// The nodes of a block.
    pub(super) fn block(&self, number: usize) -> impl Iterator<Item = &Slot> {
        let chunk = self.chunks.get(number / (CHUNK / BLOCK));
        let slots = chunk.map(|chunk| chunk.slots.as_slice());
        let from = number % (CHUNK / BLOCK) * BLOCK;
        let slots = slots.unwrap_or_default().iter().skip(from).take(BLOCK);
        slots.filter(|slot| !slot.entry.is_none())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let slots = self.chunks.iter().flat_map(|chunk| &chunk.slots);
        slots.filter(|slot| !slot.entry.is_none())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots() * size_of::<Slot>() + self.chunks.capacity() * size_of::<Chunk>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tick: u32) -> Entry {
        Entry { root: 1, tick }
    }

    #[test]
    fn numbers_are_used_again_and_empty_chunks_go() {
        let mut slab = Slab::default();
        let nodes = 2 * CHUNK as u32 + 100;
        for i in 0..nodes {
            assert_eq!(slab.add(u64::from(i), entry(i)), Some(i));
        }
        assert_eq!(slab.round(), nodes as usize + 1);
        let full = slab.memory_bytes();
        let middle = CHUNK as u32..2 * CHUNK as u32;
        for i in middle.clone() {
            assert_eq!(slab.remove(i).unwrap().code, u64::from(i));
            assert!(slab.remove(i).is_none() && slab.get(i).is_none());
        }
        assert_eq!(slab.len(), CHUNK + 100);
        assert!(slab.memory_bytes() < full * 2 / 3);
        let mut place = 0;
        let mut met = 0;
        for _ in 0..slab.round() {
            met += usize::from(slab.get(place).is_some());
            place = slab.behind(place);
        }
        assert_eq!((met, place), (slab.len(), 0));
        assert_eq!(slab.iter().count(), slab.len());
        assert_eq!(slab.slots(), slab.len());
        let blocks = (0..slab.blocks()).map(|block| slab.block(block).count());
        assert_eq!(blocks.sum::<usize>(), slab.len());
        // The chunk that is there is filled before the one that is not.
        slab.remove(3);
        slab.remove(nodes - 1);
        assert_eq!(slab.add(7, entry(0)), Some(3));
        assert_eq!(slab.add(7, entry(0)), Some(nodes - 1));
        for _ in 100..CHUNK {
            slab.add(7, entry(0)).unwrap();
        }
        assert_eq!(slab.add(7, entry(0)), Some(CHUNK as u32));
        assert_eq!(slab.get(CHUNK as u32).unwrap().code, 7);
    }

    #[test]
    fn an_empty_slab_has_a_round_of_one_place() {
        let mut slab = Slab::default();
        assert_eq!((slab.round(), slab.behind(0)), (1, 0));
        slab.add(1, entry(1)).unwrap();
        assert_eq!((slab.round(), slab.behind(0), slab.behind(1)), (2, 1, 0));
        slab.remove(0).unwrap();
        assert_eq!((slab.round(), slab.len()), (2, 0));
    }
}
