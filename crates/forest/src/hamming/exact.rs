//! The index for equal fingerprints: one table, one look-up.
//!
//! ```text
//!  fingerprint --keyed bijection--> mixed 64 | shard 11 | where its home is in the shard |
//!  slot 16 bytes                    | mixed 64 | root 32 | tick 32 |     the fingerprint is the mixed one, undone
//!  shard        a b . c d e . f     sorted by mixed, with gaps; no entry before its home, no gap between the two
//! ```
//!
//! Linear probing with the entries kept in order (Amble and Knuth, "Ordered hash tables", The Computer Journal 17(2),
//! 1974). The home follows from the mixed value by a multiplication, so it grows with it, and the order of the homes
//! and of the entries is one. A look-up ends where the entries become larger, found or not: with nine of ten slots
//! filled it reads about five, which are one cache line or two. A new entry moves those behind it up to the next gap, a
//! removed one lets them come back. Growing is one pass in order (`ordered.rs`, `shards.rs`).
//!
//! The mixed values are spread by a secret, so all shards and all parts of them are filled alike, whatever the
//! fingerprints. A small table is one shard; a large one has many and grows by one after the other, so no insertion
//! waits for all of them. Where chance gives one shard so many that the last ones find no gap, these few are spilled
//! into a map until the table has grown.

use std::collections::BTreeMap;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::{HashKey, Permutation};
use spinney_text::work_counter;

use super::entry::{Entry, Full};
use super::ordered::{Order, Slot};
use super::shards::Shards;

const SHARD_BITS: u32 = 11;
/// Most entries in one shard: moving them takes well under 5 ms.
const ONE_SHARD: usize = 1 << 18;
/// Longest displacement in a shard after shrinking; about three times what chance makes it.
const FARTHEST: usize = 128;
/// The slots of a table that has any.
const SMALL: usize = 16;

/// All entries, by the mixed value of their fingerprints. See the module for its shape.
#[derive(Debug)]
pub(super) struct ExactTable {
    permutation: Permutation,
    shards: Shards<Slot>,
    /// Entries that did not fit into their shard, by mixed value; mostly none. Only where there are many shards.
    spilled: BTreeMap<u64, Entry>,
    len: usize,
    /// Insertions and removals since a shard was moved.
    unmoved: usize,
    /// Changes until shrinking is tried again.
    shrinks_in: usize,
    /// How many entries each shard has, those that it spilled too.
    lens: Vec<u32>,
    /// The smallest mixed value that this round of the sweep has not visited.
    swept: u64,
}

impl ExactTable {
    pub(super) const PORTIONS: usize = 1 << SHARD_BITS;

    pub(super) fn new(secret: HashKey) -> Self {
        ExactTable {
            permutation: secret.permutation(),
            shards: Shards::new(0),
            spilled: BTreeMap::new(),
            len: 0,
            unmoved: 0,
            shrinks_in: 0,
            lens: vec![0],
            swept: 0,
        }
    }

    /// An empty table with capacity for `len` entries, to be inserted by ascending mixed value.
    pub(super) fn for_copy(secret: HashKey, len: usize) -> Self {
        let mut table = ExactTable::new(secret);
        let bits = if len > ONE_SHARD { SHARD_BITS } else { 0 };
        // In a table that has to grow, the first ones would be one long row.
        table.rebuild(bits, places_for((len + len / 8).div_ceil(1 << bits), 1 << bits));
        table.shrinks_in = len;
        table
    }

    pub(super) fn secret(&self) -> HashKey {
        self.permutation.key
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn order(&self) -> Order {
        Order { bits: self.shards.bits() }
    }

    #[inline]
    pub(super) fn get(&self, fingerprint: Fingerprint) -> Option<Entry> {
        let mixed = self.permutation.mix(fingerprint.0);
        let order = self.order();
        let slots = self.shards.get(order.shard(mixed));
        match slots.get(order.seek(slots, mixed)) {
            Some(slot) if slot.holds(mixed) => Some(slot.entry),
            _ if self.spilled.is_empty() => None,
            _ => self.spilled.get(&mixed).copied(),
        }
    }

    pub(super) fn get_mut(&mut self, fingerprint: Fingerprint) -> Option<&mut Entry> {
        let mixed = self.permutation.mix(fingerprint.0);
        let order = self.order();
        let slots = self.shards.get_mut(order.shard(mixed));
        match slots.get_mut(order.seek(slots, mixed)) {
            Some(slot) if slot.holds(mixed) => Some(&mut slot.entry),
            _ => self.spilled.get_mut(&mixed),
        }
    }

    pub(super) fn insert(&mut self, fingerprint: Fingerprint, entry: Entry, room: bool) -> Result<Option<Entry>, Full> {
        let mixed = self.permutation.mix(fingerprint.0);
        let order = self.order();
        let slots = self.shards.get_mut(order.shard(mixed));
        let at = order.seek(slots, mixed);
        if let Some(held) = slots.get_mut(at).filter(|held| held.holds(mixed)) {
            return Ok(Some(std::mem::replace(&mut held.entry, entry)));
        }
        if let Some(held) = self.spilled.get_mut(&mixed) {
            return Ok(Some(std::mem::replace(held, entry)));
        }
        if !room {
            return Err(Full);
        }
        let slot = Slot { mixed, entry };
        if !order.insert(slots, at, slot) {
            match self.shards.len() {
                1 => self.enlarge_for(slot),
                _ => {
                    self.spilled.insert(mixed, entry);
                }
            }
        }
        // Behind it, because a table of one shard that is moved is counted anew.
        if let Some(len) = self.lens.get_mut(order.shard(mixed)) {
            *len += 1;
        }
        self.len += 1;
        self.resize();
        Ok(None)
    }

    pub(super) fn remove(&mut self, fingerprint: Fingerprint) -> Option<Entry> {
        let mixed = self.permutation.mix(fingerprint.0);
        let order = self.order();
        let slots = self.shards.get_mut(order.shard(mixed));
        let at = order.seek(slots, mixed);
        let entry = match slots.get(at).filter(|slot| slot.holds(mixed)) {
            Some(slot) => {
                let entry = slot.entry;
                order.remove(slots, at);
                entry
            }
            None => self.spilled.remove(&mixed)?,
        };
        self.removed(order.shard(mixed));
        Some(entry)
    }

    /// Accounts for a removed entry of this shard.
    fn removed(&mut self, shard: usize) {
        if let Some(len) = self.lens.get_mut(shard) {
            *len -= 1;
        }
        self.len -= 1;
        self.resize();
    }

    /// Begins to resize: to larger shards when full, to smaller ones when less than half full. And goes on with it, a
    /// shard at a time.
    fn resize(&mut self) {
        self.shrinks_in = self.shrinks_in.saturating_sub(1);
        let (shards, places) = (self.shards.len(), self.shards.usual_places());
        if !self.shards.is_moving() {
            let full = shards * room(places, shards);
            // That one shard spills is chance; in a table that is half empty it would be somebody's secret.
            let has_spilled = !self.spilled.is_empty() && self.len > full / 2;
            if self.len > full || has_spilled {
                if shards == 1 && self.len > ONE_SHARD {
                    let each = (self.len + self.len / 8) >> SHARD_BITS;
                    return self.rebuild(SHARD_BITS, places_for(each, 1 << SHARD_BITS));
                }
                let more = places + places / 8 + SMALL / shards;
                // The room that chance needs grows by steps: not every larger shard has more for others.
                let needed = places_for(self.len.div_ceil(shards), shards);
                self.shards.begin(more.max(needed));
            } else if self.len * 2 < shards * places && self.shrinks_in == 0 {
                let Some(fewer) = self.fewer_places() else {
                    return;
                };
                self.shards.begin(fewer);
            } else {
                return;
            }
        }
        self.unmoved += 1;
        // All of them while one of 64 entries comes or goes.
        if shards == 1 || self.unmoved > self.len / (64 * shards) {
            self.unmoved = 0;
            self.move_next();
        }
    }

    /// The capacity of smaller shards, if all entries fit into them.
    fn fewer_places(&mut self) -> Option<usize> {
        let (shards, places) = (self.shards.len(), self.shards.usual_places());
        // Some more than there are, because some more may come until all are moved. And never so few that there is room
        // for none: they would grow again at once.
        let each = (self.len + self.len / 8).div_ceil(shards).max(1);
        let fewer = places_for(each, shards).max(SMALL);
        // In the middle of a sweep the shards in front of it have more than the others. Whether one shard alone has
        // room shows when it is moved.
        work_counter::add(shards);
        let most = self.lens.iter().max().copied().unwrap_or_default();
        let fits = shards == 1 || most as usize <= fewer - fewer / 16;
        if fewer + fewer / 8 >= places || !fits {
            self.shrink_later();
            return None;
        }
        Some(fewer)
    }

    /// Postpones shrinking, because the entries would not fit. The next try costs as much, so some of the entries come
    /// or go before it.
    fn shrink_later(&mut self) {
        self.shrinks_in = self.shards.sum(|places| places) / 16;
    }

    /// Moves the next shard. What finds no room there is spilled, and what was spilled before finds it now, most
    /// likely.
    fn move_next(&mut self) {
        let (order, shard) = (self.order(), self.shards.next());
        let is_only = self.shards.len() == 1;
        let mut left = Vec::new();
        let moved = self.shards.advance(Slot::EMPTY, |from, to| {
            // What a sweep has not come to yet would be one long row, which every look-up and every change goes
            // through.
            let farthest = match is_only && to.len() < from.len() {
                true => FARTHEST,
                false => usize::MAX,
            };
            order.move_all(from, to, farthest, |slot| {
                // Of one shard it is enough to know that there is any.
                if left.is_empty() || !is_only {
                    left.push(slot);
                }
            });
            left.is_empty() || !is_only
        });
        if !moved {
            // Chance gave it too many for the smaller size, or a sweep has not come to all of them yet.
            self.shards.cancel();
            self.shrink_later();
            return;
        }
        if !self.spilled.is_empty() {
            let slots = self.shards.get_mut(shard);
            let spilled = self.spilled.extract_if(order.range(shard), |&mixed, &mut entry| {
                let slot = Slot { mixed, entry };
                order.insert(slots, order.seek(slots, mixed), slot)
            });
            spilled.for_each(drop);
        }
        work_counter::add(left.len());
        let left = left.into_iter().map(|slot: Slot| (slot.mixed, slot.entry));
        self.spilled.extend(left);
    }

    /// Stores an entry in a table of one shard without a free slot behind its home.
    fn enlarge_for(&mut self, slot: Slot) {
        loop {
            let order = self.order();
            let places = self.shards.usual_places();
            self.rebuild(order.bits, places + places / 8 + SMALL);
            let slots = self.shards.get_mut(order.shard(slot.mixed));
            if order.insert(slots, order.seek(slots, slot.mixed), slot) {
                return;
            }
        }
    }

    /// Moves all entries at once.
    fn rebuild(&mut self, bits: u32, places: usize) {
        let order = Order { bits };
        let mut places = places;
        loop {
            let mut shards = Shards::filled(bits, places, Slot::EMPTY);
            let mut lens = vec![0; shards.len()];
            if order.fill(&mut shards, &mut lens, self.slots()) {
                (self.shards, self.lens) = (shards, lens);
                return;
            }
            places += places / 8 + 1;
        }
    }

    /// Every stored slot, in order.
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let shards = (0..self.shards.len()).flat_map(|shard| self.shards.get(shard));
        shards.filter(|slot| !slot.is_empty())
    }

    pub(super) fn prefetch(&self, fingerprints: &[Fingerprint]) {
        let order = self.order();
        for fingerprint in fingerprints {
            let mixed = self.permutation.mix(fingerprint.0);
            let slots = self.shards.get(order.shard(mixed));
            order.prefetch(slots, mixed);
        }
    }

    pub(super) fn sweep(&mut self, budget: usize, mut keep: impl FnMut(Fingerprint, Entry) -> bool) -> usize {
        let mut left = budget;
        let mut removed = 0;
        let permutation = self.permutation;
        while left > 0 {
            let order = self.order();
            let shard = order.shard(self.swept);
            let slots = self.shards.get_mut(shard);
            let met = |mixed, entry| keep(Fingerprint(permutation.unmix(mixed)), entry);
            let from = self.swept;
            let (mut gone, next) = order.sweep(slots, shard, from, &mut left, met);
            if !self.spilled.is_empty() {
                let met = Order::between(from, next);
                let dead = self
                    .spilled
                    .extract_if(met, |&mixed, &mut entry| !keep(Fingerprint(permutation.unmix(mixed)), entry));
                gone += dead.count();
            }
            self.swept = next;
            removed += gone;
            for _ in 0..gone {
                self.removed(shard);
            }
        }
        removed
    }

    pub(super) fn round(&self) -> usize {
        self.shards.sum(Order::swept_places)
    }

    pub(super) fn portion(&self, number: usize, mut visit: impl FnMut(Fingerprint, Entry)) {
        if number >= Self::PORTIONS {
            return;
        }
        let portions = Order { bits: SHARD_BITS };
        let (order, first) = (self.order(), portions.first(number));
        let slots = self.shards.get(order.shard(first));
        let entries = slots.iter().skip(order.seek(slots, first));
        let entries = entries.filter(|slot| !slot.is_empty());
        for slot in entries.take_while(|slot| portions.shard(slot.mixed) == number) {
            visit(Fingerprint(self.permutation.unmix(slot.mixed)), slot.entry);
        }
        for (&mixed, &entry) in self.spilled.range(portions.range(number)) {
            visit(Fingerprint(self.permutation.unmix(mixed)), entry);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Fingerprint, Entry)> + '_ {
        let stored = self.slots().map(|slot| (slot.mixed, slot.entry));
        let spilled = self.spilled.iter().map(|(&mixed, &entry)| (mixed, entry));
        stored.chain(spilled).map(|(mixed, entry)| (Fingerprint(self.permutation.unmix(mixed)), entry))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lens = self.lens.len() * size_of::<u32>();
        self.shards.memory_bytes() + lens + self.spilled.len() * 2 * size_of::<Slot>()
    }
}

/// The average number of entries at which shards of this capacity grow: nine tenths of it, or less if shards five
/// standard deviations above the average would overflow.
fn room(places: usize, shards: usize) -> usize {
    let most = places * 59 / 64;
    match shards {
        1 => most,
        _ => most.min(places.saturating_sub(5 * places.isqrt())),
    }
}

/// The capacity needed for this number of entries.
fn places_for(entries: usize, shards: usize) -> usize {
    let mut places = entries * 64 / 59 + 1;
    while room(places, shards) < entries {
        places += places / 16 + 1;
    }
    places
}

#[cfg(test)]
mod tests;
