//! The nodes of an index in one slab: a node's number is its slot for as long as it is stored.

use super::index::Entry;
use std::collections::BTreeSet;

const CHUNK_BITS: u32 = 12;
/// Slots of a chunk, 64 KiB. A slab grows by one of them and moves nothing.
pub(super) const CHUNK: usize = 1 << CHUNK_BITS;

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) code: u64,
    /// In an empty slot the tick is the next empty one of the chunk.
    pub(super) entry: Entry,
}

#[derive(Debug, Default)]
struct Chunk {
    /// None, while nothing is stored here.
    slots: Box<[Slot]>,
    /// The first empty slot.
    free: u32,
    used: u32,
}

#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Chunk>,
    /// The chunks that have some empty slots, and those that have no slots.
    open: BTreeSet<u32>,
    bare: BTreeSet<u32>,
    len: usize,
}

impl Slab {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of chunks, bare ones too.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The number of chunks without slots.
    pub(super) fn bare(&self) -> usize {
        self.bare.len()
    }

    /// How many slots there are.
    pub(super) fn capacity(&self) -> usize {
        (self.chunks.len() - self.bare.len()) * CHUNK
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

    /// Stores a node and answers its number; none if every number is taken.
    pub(super) fn add(&mut self, code: u64, entry: Entry) -> Option<u32> {
        // The first chunk with room: so those further back become empty when there are fewer nodes.
        let number = match self.open.first() {
            Some(&number) => number,
            None => self.open_chunk()?,
        };
        let chunk = self.chunks.get_mut(number as usize)?;
        let at = chunk.free;
        let slot = chunk.slots.get_mut(at as usize)?;
        chunk.free = slot.entry.tick;
        *slot = Slot { code, entry };
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
                self.chunks.push(Chunk::default());
                number
            }
        };
        let empty = (1..=CHUNK as u32).map(|next| Slot {
            code: 0,
            entry: Entry {
                tick: next,
                ..Entry::NONE
            },
        });
        let chunk = self.chunks.get_mut(number as usize)?;
        *chunk = Chunk {
            slots: empty.collect(),
            free: 0,
            used: 0,
        };
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
        slot.entry = Entry {
            tick: chunk.free,
            ..Entry::NONE
        };
        chunk.free = id % CHUNK as u32;
        if chunk.used as usize == CHUNK {
            self.open.insert(number);
        }
        chunk.used -= 1;
        self.len -= 1;
        // The last open chunk stays, or a node that comes and goes would make and free it every time.
        if chunk.used == 0 && self.open.len() > 1 {
            *chunk = Chunk::default();
            self.open.remove(&number);
            self.bare.insert(number);
        }
        Some(removed)
    }

    /// The nodes of a chunk with their numbers.
    pub(super) fn chunk(&self, number: usize) -> impl Iterator<Item = (u32, &Slot)> {
        let slots = self
            .chunks
            .get(number)
            .into_iter()
            .flat_map(|chunk| &chunk.slots);
        let ids = (number << CHUNK_BITS) as u32..;
        ids.zip(slots).filter(|(_, slot)| !slot.entry.is_none())
    }

    /// Whether there are slots in the chunk of this number.
    pub(super) fn is_bare(&self, id: u32) -> bool {
        let chunk = self.chunks.get((id >> CHUNK_BITS) as usize);
        chunk.is_none_or(|chunk| chunk.slots.is_empty())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..self.chunks.len()).flat_map(|number| self.chunk(number))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.capacity() * size_of::<Slot>() + self.chunks.capacity() * size_of::<Chunk>()
    }
}
