//! A shard of a table: half -> the head of its chain, in open addressing with linear probing.

use crate::hash::HashKey;
use crate::steps;

/// End of a chain, and the head of an empty slot.
pub(super) const END: u32 = u32::MAX;
/// Tables grow shard by shard, so that no insertion pays for moving all of them.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 8;
/// Shards of fewer slots than this are not made smaller.
const SMALL: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Slot {
    key: u32,
    head: u32,
}

const EMPTY: Slot = Slot { key: 0, head: END };

/// An open-addressed table with linear probing: at most three quarters full, nothing marked as deleted.
#[derive(Debug, Default)]
pub(super) struct Shard {
    slots: Vec<Slot>,
    used: usize,
}

impl Shard {
    /// True if a look-up of this key has to read more than its first slot.
    #[inline]
    pub(super) fn is_home_taken(&self, hash: u32) -> bool {
        self.slots
            .get(self.home(hash))
            .is_some_and(|slot| slot.head != END)
    }

    /// The head of the chain in a slot that was found.
    #[inline]
    pub(super) fn head_at(&self, slot: usize) -> u32 {
        self.slots.get(slot).map_or(END, |slot| slot.head)
    }

    pub(super) fn head_at_mut(&mut self, slot: usize) -> Option<&mut u32> {
        self.slots.get_mut(slot).map(|slot| &mut slot.head)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.slots.capacity() * size_of::<Slot>()
    }

    /// Where a key begins to be looked for. The top bits of the hash chose the shard, the next ones choose this.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash << SHARD_BITS) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    pub(super) fn find(&self, key: u32, hash: u32) -> Option<usize> {
        let mut place = self.home(hash);
        // The wrap at the end happens at most once, because a table that has slots has an empty one.
        while !self.slots.is_empty() {
            steps::add(1);
            match self.slots.get(place) {
                Some(slot) if slot.head == END => return None,
                Some(slot) if slot.key == key => return Some(place),
                Some(_) => place += 1,
                None => place = 0,
            }
        }
        None
    }

    /// The head of a key's chain, [`END`] if the key is new; then the caller must fill it.
    pub(super) fn head_mut(&mut self, key: u32, secret: HashKey) -> Option<&mut u32> {
        let hash = secret.hash32(key);
        let place = match self.find(key, hash) {
            Some(place) => place,
            None => {
                if (self.used + 1) * 4 > self.slots.len() * 3 {
                    self.rebuild(self.used + self.used / 2 + 8, secret);
                }
                self.used += 1;
                self.claim(key, hash)
            }
        };
        self.head_at_mut(place)
    }

    /// Writes a new key into the first empty slot from its home on.
    fn claim(&mut self, key: u32, hash: u32) -> usize {
        let mut place = self.home(hash);
        loop {
            steps::add(1);
            match self.slots.get_mut(place) {
                Some(slot) if slot.head == END => {
                    slot.key = key;
                    return place;
                }
                Some(_) => place += 1,
                None => place = 0,
            }
        }
    }

    /// Empties a slot and moves what stood behind it forward, so that no probe ends too early.
    pub(super) fn vacate(&mut self, slot: usize, secret: HashKey) {
        let len = self.slots.len();
        let mut hole = slot;
        let mut place = slot;
        loop {
            steps::add(1);
            place = if place + 1 == len { 0 } else { place + 1 };
            let Some(&moved) = self.slots.get(place) else {
                break;
            };
            if moved.head == END {
                break;
            }
            let home = self.home(secret.hash32(moved.key));
            // It may move into the hole if its home is not in the round between hole and place.
            let stride = |from: usize, to: usize| {
                if to >= from {
                    to - from
                } else {
                    to + len - from
                }
            };
            if stride(home, place) >= stride(hole, place) {
                if let Some(slot) = self.slots.get_mut(hole) {
                    *slot = moved;
                }
                hole = place;
            }
        }
        if let Some(slot) = self.slots.get_mut(hole) {
            *slot = EMPTY;
        }
        self.used -= 1;
        if self.used * 8 < len && len > SMALL {
            self.rebuild(self.used * 2, secret);
        }
    }

    /// Moves all slots into a table with room for `keys` keys.
    fn rebuild(&mut self, keys: usize, secret: HashKey) {
        let len = if keys == 0 { 0 } else { keys * 4 / 3 + 1 };
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; len]);
        for slot in old.into_iter().filter(|slot| slot.head != END) {
            let place = self.claim(slot.key, secret.hash32(slot.key));
            if let Some(new) = self.slots.get_mut(place) {
                *new = slot;
            }
        }
    }
}

#[inline]
pub(super) fn shard_of(hash: u32) -> usize {
    (hash >> (32 - SHARD_BITS)) as usize
}
