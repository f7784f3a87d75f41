//! Slots in order: the shards of the table for equal fingerprints, as slices.

use std::ops::RangeInclusive;

use spinney_text::work_counter;

use super::entry::Entry;
use super::kernel;
use super::shards::Shards;

/// Slots that are compared at once.
const BLOCK: usize = 8;
/// Cache lines that are prefetched for a lookup: nine of ten lookups end within them.
const LINES: usize = 3;
const SLOTS_PER_LINE: usize = 64 / size_of::<Slot>();

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) mixed: u64,
    pub(super) entry: Entry,
}

impl Slot {
    /// An empty slot, whose largest value ends every lookup.
    pub(super) const EMPTY: Slot = Slot { mixed: u64::MAX, entry: Entry::NONE };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entry.is_none()
    }

    #[inline]
    pub(super) fn holds(&self, mixed: u64) -> bool {
        self.mixed == mixed && !self.is_empty()
    }
}

/// The home of a mixed value: its first bits select the shard, the others the slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) bits: u32,
}

impl Order {
    #[inline]
    pub(super) fn shard(self, mixed: u64) -> usize {
        // In two steps, because there may be no bits.
        (mixed >> 1 >> (63 - self.bits)) as usize
    }

    /// The smallest mixed value of a shard; wraps around after the last one.
    #[inline]
    pub(super) fn first(self, shard: usize) -> u64 {
        (shard as u64) << (63 - self.bits) << 1
    }

    /// Home slot of an entry.
    #[inline]
    pub(super) fn home(self, mixed: u64, slots: usize) -> usize {
        ((u128::from(mixed << self.bits) * homes(slots) as u128) >> 64) as usize
    }

    /// First slot from the home on that holds no smaller value: the position of the entry if it is stored, else where
    /// it belongs.
    #[inline]
    pub(super) fn seek(self, slots: &[Slot], mixed: u64) -> usize {
        let home = self.home(mixed, slots.len());
        let mut at = home;
        let (blocks, rest) = slots.get(home..).unwrap_or_default().as_chunks::<BLOCK>();
        for block in blocks {
            // Those that are smaller come first, so they can be counted. The end of a row cannot be foreseen, and a
            // branch at every slot would mostly be taken wrongly once.
            let smaller: usize = block.iter().map(|slot| usize::from(slot.mixed < mixed)).sum();
            at += smaller;
            if smaller < BLOCK {
                work_counter::add(at - home + 1);
                return at;
            }
        }
        at += rest.iter().filter(|slot| slot.mixed < mixed).count();
        work_counter::add(at - home + 1);
        at
    }

    /// Prefetches the slots that [`Self::seek`] reads, except in the longest runs.
    #[inline]
    pub(super) fn prefetch(self, slots: &[Slot], mixed: u64) {
        let home = self.home(mixed, slots.len());
        for line in 0..LINES {
            if let Some(slot) = slots.get(home + line * SLOTS_PER_LINE) {
                kernel::prefetch(slot);
            }
        }
    }

    /// Inserts an entry at the position returned by [`Self::seek`]. Returns false if there is no gap behind it.
    pub(super) fn insert(self, slots: &mut [Slot], at: usize, slot: Slot) -> bool {
        let rest = slots.get_mut(at..).unwrap_or_default();
        let Some(gap) = gap(rest) else {
            return false;
        };
        work_counter::add(gap + 1);
        let moved = rest.get_mut(..=gap).unwrap_or_default();
        moved.rotate_right(1);
        if let Some(first) = moved.first_mut() {
            *first = slot;
        }
        true
    }

    /// Empties a slot, and shifts displaced entries behind it one slot back.
    pub(super) fn remove(self, slots: &mut [Slot], at: usize) {
        let len = slots.len();
        let rest = slots.get(at + 1..).unwrap_or_default();
        let stays = |(place, slot): (usize, &Slot)| slot.is_empty() || self.home(slot.mixed, len) == at + 1 + place;
        let moved = rest.iter().enumerate().position(stays);
        let end = at + 1 + moved.unwrap_or(rest.len());
        work_counter::add(end - at);
        let closer = slots.get_mut(at..end).unwrap_or_default();
        closer.rotate_left(1);
        if let Some(last) = closer.last_mut() {
            *last = Slot::EMPTY;
        }
    }

    /// Moves all entries into empty slots; `left` gets those beyond the end or displaced by more than `farthest`.
    pub(super) fn move_all(self, from: &[Slot], to: &mut [Slot], farthest: usize, mut left: impl FnMut(Slot)) {
        work_counter::add(from.len());
        let mut next = 0;
        for slot in from.iter().filter(|slot| !slot.is_empty()) {
            if !self.append(to, &mut next, slot, farthest) {
                left(*slot);
            }
        }
    }

    /// The mixed values of a shard.
    pub(super) fn range(self, shard: usize) -> RangeInclusive<u64> {
        Order::between(self.first(shard), self.first(shard + 1))
    }

    /// The values from one on and before another; where that is none, to the end of all.
    pub(super) fn between(from: u64, before: u64) -> RangeInclusive<u64> {
        if before > from {
            from..=before - 1
        } else if before == 0 {
            from..=u64::MAX
        } else {
            // None: a range must not be empty where a map is asked for it.
            from..=from
        }
    }

    /// Appends an entry at or after the slot `next`.
    fn append(self, slots: &mut [Slot], next: &mut usize, slot: &Slot, farthest: usize) -> bool {
        let home = self.home(slot.mixed, slots.len());
        let at = home.max(*next);
        if at - home > farthest {
            return false;
        }
        *next = at + 1;
        slots.get_mut(at).map(|place| *place = *slot).is_some()
    }

    /// Fills a whole table from entries in order; `lens` counts those of each shard.
    pub(super) fn fill<'a>(
        self,
        shards: &mut Shards<Slot>,
        lens: &mut [u32],
        entries: impl Iterator<Item = &'a Slot>,
    ) -> bool {
        let (mut shard, mut next) = (0, 0);
        for slot in entries {
            work_counter::add(1);
            let number = self.shard(slot.mixed);
            if number != shard {
                (shard, next) = (number, 0);
            }
            if let Some(len) = lens.get_mut(shard) {
                *len += 1;
            }
            if !self.append(shards.get_mut(shard), &mut next, slot, usize::MAX) {
                return false;
            }
        }
        true
    }

    /// Visits the slots of a shard from a mixed value on and removes the entries that `keep` rejects. Returns how
    /// many were removed, and the value at which to continue.
    pub(super) fn sweep(
        self,
        slots: &mut [Slot],
        shard: usize,
        from: u64,
        budget: &mut usize,
        mut keep: impl FnMut(u64, Entry) -> bool,
    ) -> (usize, u64) {
        let homes = homes(slots.len());
        // A shard without slots is a place too: there may be many.
        *budget -= usize::from(homes == 0);
        let mut removed = 0;
        let mut at = self.seek(slots, from);
        while let Some(slot) = slots.get(at).copied() {
            work_counter::add(1);
            // Behind the last home there are few, and none behind a gap.
            if at < homes && *budget == 0 {
                let empty = slot.is_empty();
                let next = if empty { self.first_at(shard, at, homes) } else { slot.mixed };
                return (removed, next);
            }
            if !slot.is_empty() && !keep(slot.mixed, slot.entry) {
                // The slot is visited again: another entry may have moved into it, or it is empty now.
                self.remove(slots, at);
                removed += 1;
                continue;
            }
            *budget -= usize::from(at < homes);
            at += 1;
        }
        (removed, self.first(shard + 1))
    }

    /// Slots of a shard of this size as a sweep counts them.
    pub(super) fn swept_places(slots: usize) -> usize {
        homes(slots).max(1)
    }

    /// The smallest mixed value that is at home in a place.
    fn first_at(self, shard: usize, at: usize, homes: usize) -> u64 {
        let part = ((at as u128) << 64).div_ceil(homes as u128) as u64;
        self.first(shard) | part.div_ceil(1 << self.bits)
    }
}

/// The first empty slot. Where nearly all are taken it is some dozens away, so they are looked at by blocks.
#[inline]
fn gap(slots: &[Slot]) -> Option<usize> {
    let (blocks, _) = slots.as_chunks::<BLOCK>();
    let has_gap = |block: &[Slot; BLOCK]| block.iter().fold(false, |found, slot| found | slot.is_empty());
    let full = blocks.iter().position(has_gap).unwrap_or(blocks.len()) * BLOCK;
    let within = slots.get(full..)?.iter().position(Slot::is_empty)?;
    Some(full + within)
}

/// Number of home slots of a shard. The slots behind the last home take displaced entries: there is no wrap-around,
/// which would break the order.
#[inline]
fn homes(slots: usize) -> usize {
    let others = (slots / 16 + 1).min(64).max(slots / 256);
    slots - others.min(slots)
}
