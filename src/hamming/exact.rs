//! The index for equal fingerprints: one table, one look-up.
//!
//! ```text
//!  fingerprint --keyed bijection--> mixed 64 | shard 10 | where its home is in the shard |
//!  slot 16 bytes                    | mixed 64 | root 32 | tick 32 |     the fingerprint is the mixed one, undone
//!  shard        a b . c d e . f     sorted by mixed, with gaps; no entry before its home, no gap between the two
//! ```
//!
//! Linear probing with the entries kept in order (Amble and Knuth, "Ordered hash tables", The Computer Journal 17(2), 1974).
//! The home follows from the mixed value by a multiplication, so it grows with it, and the order of the homes and of the
//! entries is one. A look-up ends where the entries become larger, found or not: with nine of ten slots filled it reads about
//! five, which are one cache line or two. A new entry moves those behind it up to the next gap, a removed one lets them come
//! back. Growing is one pass in order.
//!
//! The mixed values are spread by a secret, so all shards and all parts of them are filled alike, whatever the fingerprints.

use super::index::{Entry, Full};
use super::pages::{Pages, rung_above};
use crate::fingerprint::Fingerprint;
use crate::hash::{HashKey, Permutation};
use crate::steps;

const SHARD_BITS: u32 = 10;
/// Slots of a page: 4 KiB.
const PAGE: usize = 256;
/// The slots of the smallest shard that has any.
const SMALL: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Slot {
    mixed: u64,
    entry: Entry,
}

impl Slot {
    /// The largest value ends every look-up.
    const EMPTY: Slot = Slot {
        mixed: u64::MAX,
        entry: Entry::NONE,
    };

    fn is_empty(&self) -> bool {
        self.entry.is_none()
    }
}

/// All entries, by the mixed value of their fingerprints. See the module for its shape.
#[derive(Debug)]
pub(super) struct ExactTable {
    permutation: Permutation,
    shards: Vec<Shard>,
    len: usize,
    /// The places of a sweep: the homes of all shards, and the shards without any.
    places: usize,
    /// The smallest mixed value that this round of the sweep has not looked at.
    swept: u64,
}

impl ExactTable {
    pub(super) const PORTIONS: usize = 1 << SHARD_BITS;

    pub(super) fn new(secret: HashKey) -> Self {
        let shards = (0..Self::PORTIONS).map(Shard::new);
        ExactTable {
            permutation: secret.permutation(),
            shards: shards.collect(),
            len: 0,
            places: Self::PORTIONS,
            swept: 0,
        }
    }

    pub(super) fn secret(&self) -> HashKey {
        self.permutation.key
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn shard(&self, mixed: u64) -> Option<&Shard> {
        self.shards.get(shard_of(mixed))
    }

    /// What stands where a fingerprint does or would stand.
    #[inline]
    fn slot(&self, mixed: u64) -> Option<&Slot> {
        let shard = self.shard(mixed)?;
        shard
            .slots
            .get(shard.seek(mixed))
            .filter(|slot| slot.mixed == mixed && !slot.is_empty())
    }

    #[inline]
    pub(super) fn get(&self, fingerprint: Fingerprint) -> Option<Entry> {
        self.slot(self.permutation.mix(fingerprint.0))
            .map(|slot| slot.entry)
    }

    pub(super) fn get_mut(&mut self, fingerprint: Fingerprint) -> Option<&mut Entry> {
        let mixed = self.permutation.mix(fingerprint.0);
        let shard = self.shards.get_mut(shard_of(mixed))?;
        let at = shard.seek(mixed);
        let slot = shard.slots.get_mut(at)?;
        (slot.mixed == mixed && !slot.is_empty()).then_some(&mut slot.entry)
    }

    pub(super) fn insert(
        &mut self,
        fingerprint: Fingerprint,
        entry: Entry,
        room: bool,
    ) -> Result<Option<Entry>, Full> {
        let mixed = self.permutation.mix(fingerprint.0);
        let shard = self.shards.get_mut(shard_of(mixed)).ok_or(Full)?;
        let at = shard.seek(mixed);
        if let Some(slot) = shard.slots.get_mut(at)
            && slot.mixed == mixed
            && !slot.is_empty()
        {
            return Ok(Some(std::mem::replace(&mut slot.entry, entry)));
        }
        if !room {
            return Err(Full);
        }
        let before = shard.places();
        shard.insert(at, Slot { mixed, entry });
        self.places += shard.places() - before;
        self.len += 1;
        Ok(None)
    }

    pub(super) fn remove(&mut self, fingerprint: Fingerprint) -> Option<Entry> {
        let mixed = self.permutation.mix(fingerprint.0);
        let shard = self.shards.get_mut(shard_of(mixed))?;
        let at = shard.seek(mixed);
        let slot = shard.slots.get(at)?;
        if slot.mixed != mixed || slot.is_empty() {
            return None;
        }
        let entry = slot.entry;
        let before = shard.places();
        shard.remove(at);
        shard.shrink();
        self.places -= before - shard.places();
        self.len -= 1;
        Some(entry)
    }

    /// Reads the homes without waiting for one after the other.
    pub(super) fn prefetch(&self, fingerprints: &[Fingerprint]) {
        let mut sum = 0;
        for fingerprint in fingerprints {
            let mixed = self.permutation.mix(fingerprint.0);
            if let Some(shard) = self.shard(mixed)
                && let Some(slot) = shard.slots.get(shard.home(mixed))
            {
                sum ^= slot.mixed;
            }
        }
        std::hint::black_box(sum);
    }

    pub(super) fn sweep(
        &mut self,
        budget: usize,
        mut keep: impl FnMut(Fingerprint, Entry) -> bool,
    ) -> usize {
        let mut left = budget;
        let mut removed = 0;
        while left > 0 {
            let number = shard_of(self.swept);
            let Some(shard) = self.shards.get_mut(number) else {
                break;
            };
            let before = shard.places();
            let permutation = self.permutation;
            let met = |mixed, entry| keep(Fingerprint(permutation.unmix(mixed)), entry);
            let part = shard.sweep(self.swept, &mut left, met);
            self.swept = part.next.unwrap_or_else(|| first_of(number + 1));
            self.places -= before - shard.places();
            removed += part.removed;
        }
        self.len -= removed;
        removed
    }

    pub(super) fn round(&self) -> usize {
        self.places
    }

    pub(super) fn portion(&self, number: usize, mut visit: impl FnMut(Fingerprint, Entry)) {
        let shard = self.shards.get(number);
        for slot in shard.into_iter().flat_map(Shard::entries) {
            visit(Fingerprint(self.permutation.unmix(slot.mixed)), slot.entry);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Fingerprint, Entry)> + '_ {
        let slots = self.shards.iter().flat_map(Shard::entries);
        slots.map(|slot| (Fingerprint(self.permutation.unmix(slot.mixed)), slot.entry))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let shards: usize = self
            .shards
            .iter()
            .map(|shard| shard.slots.memory_bytes())
            .sum();
        shards + self.shards.capacity() * size_of::<Shard>()
    }
}

#[inline]
fn shard_of(mixed: u64) -> usize {
    (mixed >> (64 - SHARD_BITS)) as usize
}

/// The smallest mixed value of a shard; behind the last one comes the first.
fn first_of(shard: usize) -> u64 {
    (shard as u64) << (64 - SHARD_BITS)
}

/// The entries of one part of the mixed values, in their order.
#[derive(Debug)]
struct Shard {
    slots: Pages<Slot, PAGE>,
    len: u32,
    number: u32,
}

/// What one part of a sweep came to.
struct Swept {
    removed: usize,
    /// Where to go on in this shard.
    next: Option<u64>,
}

impl Shard {
    fn new(number: usize) -> Self {
        Shard {
            slots: Pages::new(),
            len: 0,
            number: number as u32,
        }
    }

    /// How many places a sweep looks at here.
    fn places(&self) -> usize {
        homes(self.slots.len()).max(1)
    }

    fn entries(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !slot.is_empty())
    }

    /// Where an entry stands if nothing is in its way.
    #[inline]
    fn home(&self, mixed: u64) -> usize {
        home(mixed, homes(self.slots.len()))
    }

    /// The first place from the home on that holds no smaller value: here it stands if it is stored, and otherwise here it
    /// belongs.
    #[inline]
    fn seek(&self, mixed: u64) -> usize {
        let mut at = self.home(mixed);
        while let Some(rest) = self.slots.rest(at) {
            match rest.iter().position(|slot| slot.mixed >= mixed) {
                Some(passed) => {
                    steps::add(passed + 1);
                    return at + passed;
                }
                None => at += rest.len(),
            }
        }
        at
    }

    /// Puts a new entry where [`Self::seek`] says that it belongs, or grows and puts it there.
    fn insert(&mut self, at: usize, slot: Slot) {
        let crowded = (self.len as usize + 1) * 64 > self.slots.len() * 59;
        let gap = if crowded { None } else { self.gap(at) };
        let (at, gap) = match gap {
            Some(gap) => (at, gap),
            None => {
                let mut size = self.slots.len();
                // Twice at most but for very small shards: with more homes there are more gaps.
                loop {
                    size = self.size_above(size);
                    if let Some(found) = self.resized(size, slot.mixed) {
                        break found;
                    }
                }
            }
        };
        let mut carried = slot;
        let mut at = at;
        while let Some(places) = self.slots.rest_mut(at, gap + 1) {
            places.rotate_right(1);
            at += places.len();
            if let Some(first) = places.first_mut() {
                std::mem::swap(first, &mut carried);
            }
        }
        self.len += 1;
    }

    /// The first empty slot from a place on.
    fn gap(&self, from: usize) -> Option<usize> {
        let mut at = from;
        while let Some(rest) = self.slots.rest(at) {
            match rest.iter().position(Slot::is_empty) {
                Some(passed) => {
                    steps::add(passed + 1);
                    return Some(at + passed);
                }
                None => at += rest.len(),
            }
        }
        None
    }

    /// Empties a slot, and lets those behind it that are not at home come one place closer.
    fn remove(&mut self, at: usize) {
        let mut end = at + 1;
        while self
            .slots
            .get(end)
            .is_some_and(|slot| !slot.is_empty() && self.home(slot.mixed) < end)
        {
            end += 1;
        }
        steps::add(end - at);
        let mut carried = Slot::EMPTY;
        while end > at {
            let start = at.max((end - 1) / PAGE * PAGE);
            if let Some(places) = self.slots.rest_mut(start, end) {
                places.rotate_left(1);
                if let Some(last) = places.last_mut() {
                    std::mem::swap(last, &mut carried);
                }
            }
            end = start;
        }
        self.len -= 1;
    }

    /// Gives back memory if less than half of it is in use: so a table whose entries come and go keeps what it has.
    fn shrink(&mut self) {
        let (len, mut size) = (self.len as usize, self.slots.len());
        if size <= SMALL || len * 2 >= size {
            return;
        }
        // As if it had grown to this.
        size =
            Pages::<Slot, PAGE>::length((len * 64 / 55).next_power_of_two().min(PAGE)).max(SMALL);
        while len * 64 > size * 55 {
            size = self.size_above(size);
        }
        while size < self.slots.len() && !self.rebuild(size) {
            size = self.size_above(size);
        }
    }

    /// The next size when a shard grows: by doublings within a page, and then by about an eighth.
    fn size_above(&self, size: usize) -> usize {
        if size < PAGE {
            return (size * 2).max(SMALL);
        }
        let phase = f64::from(self.number) / ExactTable::PORTIONS as f64;
        rung_above(size / PAGE, 6.0, phase) * PAGE
    }

    /// Takes another size, and answers where a new value belongs and the next gap behind it, if there is one.
    fn resized(&mut self, size: usize, mixed: u64) -> Option<(usize, usize)> {
        if !self.rebuild(size) {
            return None;
        }
        let at = self.seek(mixed);
        Some((at, self.gap(at)?))
    }

    /// Moves all entries to their places in another number of slots. False, and nothing changes, if they come out behind the
    /// end.
    fn rebuild(&mut self, size: usize) -> bool {
        let homes = homes(size);
        let mut end = 0;
        for slot in self.entries() {
            end = home(slot.mixed, homes).max(end) + 1;
        }
        if end > size {
            return false;
        }
        steps::add(self.slots.len());
        // First all to the front, then to the back, and from there each to its place. That is never behind where it
        // stands, because all that follow it have room in front of the end.
        let mut filled = 0;
        for at in 0..self.slots.len() {
            if let Some(slot) = self.take(at) {
                self.put(filled, slot);
                filled += 1;
            }
        }
        self.slots.resize(size, Slot::EMPTY);
        let moved = size - filled;
        for at in (0..filled).rev() {
            if let Some(slot) = self.take(at) {
                self.put(at + moved, slot);
            }
        }
        let mut next = 0;
        for at in moved..size {
            if let Some(slot) = self.take(at) {
                let place = home(slot.mixed, homes).max(next);
                self.put(place, slot);
                next = place + 1;
            }
        }
        true
    }

    fn take(&mut self, at: usize) -> Option<Slot> {
        let slot = self.slots.get_mut(at)?;
        let taken = std::mem::replace(slot, Slot::EMPTY);
        (!taken.is_empty()).then_some(taken)
    }

    fn put(&mut self, at: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    /// Looks at the places from a mixed value on, and removes what `keep` says no to.
    fn sweep(
        &mut self,
        from: u64,
        budget: &mut usize,
        mut keep: impl FnMut(u64, Entry) -> bool,
    ) -> Swept {
        let homes = homes(self.slots.len());
        // A shard without slots is a place too: there may be many.
        *budget -= usize::from(homes == 0);
        let mut removed = 0;
        let mut at = self.seek(from);
        let mut next = None;
        while let Some(slot) = self.slots.get(at).copied() {
            // Behind the last home there are few, and none behind a gap.
            if at < homes && *budget == 0 {
                next = Some(if slot.is_empty() {
                    self.first_at_home(at)
                } else {
                    slot.mixed
                });
                break;
            }
            if !slot.is_empty() && !keep(slot.mixed, slot.entry) {
                // The place is looked at again: another entry may have come to it, or it is empty and counts as such.
                self.remove(at);
                removed += 1;
                continue;
            }
            *budget -= usize::from(at < homes);
            at += 1;
        }
        self.shrink();
        Swept { removed, next }
    }

    /// The smallest mixed value that is at home in a place.
    fn first_at_home(&self, at: usize) -> u64 {
        let homes = homes(self.slots.len()) as u128;
        let part = ((at as u128) << 64).div_ceil(homes) as u64;
        first_of(self.number as usize) | part.div_ceil(1 << SHARD_BITS)
    }
}

/// How many of a shard's slots are homes. The others are behind the last home, for those who find it taken: there is no way
/// round to the front, which would end the order.
#[inline]
fn homes(slots: usize) -> usize {
    slots - (slots / 16 + 1).min(64).min(slots)
}

#[inline]
fn home(mixed: u64, homes: usize) -> usize {
    ((u128::from(mixed << SHARD_BITS) * homes as u128) >> 64) as usize
}

#[cfg(test)]
mod tests;
