//! The index for distances k >= 1.
//!
//! A fingerprint is cut into two halves of 32 bits. If two fingerprints differ in at most k bits, then their high
//! halves differ in at most `k / 2` bits or their low halves in at most `k - k / 2 - 1` (the pigeonhole of Manku, Jain
//! and Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3, with flips of the query in place
//! of more tables). For k = 3 that is one flip in either half.
//!
//! ```text
//!  slab      16 bytes a node                 | code 64 | root 32 | tick 32 |     its number is its slot
//!  half      what the two tables go by       | word 25 | shown 7 |
//!  word   --secret linear map-->  image      | shard 10 | bucket of the shard and more 15 |
//!  bucket    three cache lines, 31 nodes     | 31 tags of 16 and two counts | 31 numbers of 32 |
//!  tag                                       | image, the last 9 bits | shown 7 |
//!  overflow  half -> nodes                   beside the buckets of a shard: the nodes that found their bucket full
//!  crowd     other half -> node              in the overflow: a half that more than 15 of them have
//! ```
//!
//! The nodes with one word stand in one bucket. So flips in the shown bits are found by comparing the tags of a bucket,
//! all at once, and only those in the word take a bucket each: 1 + 25 a table for k = 3, 52 cache lines in all. The tag
//! tells nearly always whether the half is the sought one, so for uniform fingerprints next to nothing is read in vain.
//!
//! Halves, not quarters, because skew is the danger and not number: fingerprints of real text share 16 bits often and
//! 32 bits rarely unless they are near. Where many do share a half or a word, the overflow bounds the work. Its nodes
//! are looked up by the whole half; and in a crowd, the nodes are gone through, or the possible other halves within the
//! distance are looked up one by one, whichever is less. So no distribution makes a query for k <= 3 look up more than
//! the 43,745 codes there are within distance 3, beside the 31 nodes of each of its buckets, or read more than a few
//! times as many; and removal never goes through the nodes of a half.
//!
//! Who brings fingerprints of his own (`field:`) can do two things. Choose words that fall into one bucket: against
//! that the words are spread by a secret ([`HashKey`]). And choose fingerprints that share halves, which no secret
//! hides, because they rightly stand together: then a query for k = 3 makes up to 44,834 look-ups in place of 52. The
//! answers stay exact.
//!
//! Nothing large is moved all at once: the shards of a table get a quarter more buckets one after the other
//! (`shards.rs`), and the slab grows by chunks. A small table is one shard.

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::HashKey;
use spinney_text::work_counter;

use super::bucket::Bucket;
use super::entry::{Entry, Full};
use super::position::{Probe, Side, Sought};
use super::slab::Slab;
use super::table::{Table, may_find};

/// One probe costs about as much as scanning this many slots of the slab.
const SLOTS_PER_PROBE: u64 = 8;
/// Probes of a table that wait for memory together: all those of radius 1, with a margin.
const GROUP: usize = 32;

/// All entries, and two tables that find them by half a fingerprint. See the module for its shape.
#[derive(Debug)]
pub(super) struct NearIndex {
    k: u32,
    secret: HashKey,
    slab: Slab,
    high: Table,
    low: Table,
    /// Largest slab, in slots, that is scanned: the tables would take longer.
    scanned: u64,
    /// The next slot of the sweep.
    swept: u32,
}

impl NearIndex {
    pub(super) const PORTIONS: usize = 4096;

    /// `k` is 1 to 16.
    pub(super) fn new(k: u32, secret: HashKey) -> Self {
        // Radius of the high halves, and of the low halves for pairs that the high half does not find.
        let high = k / 2;
        let low = k.saturating_sub(high + 1);
        let high = Table::new(Side::High, high, secret.derived(0));
        let low = Table::new(Side::Low, low, secret.derived(1));
        NearIndex {
            k,
            secret,
            slab: Slab::default(),
            scanned: (high.probe_count() + low.probe_count()) * SLOTS_PER_PROBE,
            high,
            low,
            swept: 0,
        }
    }

    /// Small indexes are not scanned either.
    #[cfg(test)]
    pub(super) fn use_tables(&mut self) {
        self.scanned = 0;
    }

    pub(super) fn k(&self) -> u32 {
        self.k
    }

    pub(super) fn secret(&self) -> HashKey {
        self.secret
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    fn find(&self, fingerprint: Fingerprint) -> Option<u32> {
        self.high.find(&self.slab, fingerprint.0)
    }

    pub(super) fn get(&self, fingerprint: Fingerprint) -> Option<Entry> {
        let id = self.find(fingerprint)?;
        self.slab.get(id).map(|slot| slot.entry)
    }

    pub(super) fn get_mut(&mut self, fingerprint: Fingerprint) -> Option<&mut Entry> {
        let id = self.find(fingerprint)?;
        self.slab.get_mut(id).map(|slot| &mut slot.entry)
    }

    pub(super) fn insert(&mut self, fingerprint: Fingerprint, entry: Entry, room: bool) -> Result<Option<Entry>, Full> {
        if let Some(stored) = self.get_mut(fingerprint) {
            return Ok(Some(std::mem::replace(stored, entry)));
        }
        if !room {
            return Err(Full);
        }
        let id = self.slab.add(fingerprint.0, entry).ok_or(Full)?;
        self.high.insert(&self.slab, fingerprint.0, id);
        self.low.insert(&self.slab, fingerprint.0, id);
        Ok(None)
    }

    pub(super) fn remove(&mut self, fingerprint: Fingerprint) -> Option<Entry> {
        let id = self.find(fingerprint)?;
        self.remove_slot(id)
    }

    fn remove_slot(&mut self, id: u32) -> Option<Entry> {
        let removed = self.slab.remove(id)?;
        self.high.remove(&self.slab, removed.code, id);
        self.low.remove(&self.slab, removed.code, id);
        Some(removed.entry)
    }

    pub(super) fn near(&self, fingerprint: Fingerprint, mut visit: impl FnMut(Fingerprint, Distance, Entry)) {
        let (k, query) = (self.k, fingerprint.0);
        if self.slab.slots() as u64 <= self.scanned {
            for slot in self.slab.iter() {
                let distance = (slot.code ^ query).count_ones();
                if distance <= k {
                    visit(Fingerprint(slot.code), Distance(distance), slot.entry);
                }
            }
            return;
        }
        let (high, low) = (self.high.sought(query), self.low.sought(query));
        let ((high_ready, high_others), (low_ready, low_others)) = (self.high.probes(), self.low.probes());
        let (mut high_groups, mut low_groups) = (high_ready.chunks(GROUP), low_ready.chunks(GROUP));
        loop {
            let (high_group, low_group) = (high_groups.next(), low_groups.next());
            if high_group.is_none() && low_group.is_none() {
                break;
            }
            // Nearly every probe finds nothing and waits for memory. So all cache lines are prefetched first and then
            // compared, without a branch on the data.
            let (high_group, low_group) = (high_group.unwrap_or_default(), low_group.unwrap_or_default());
            let mut high_buckets = [&Bucket::EMPTY; GROUP];
            let mut low_buckets = [&Bucket::EMPTY; GROUP];
            fetch(&self.high, high, high_group, &mut high_buckets);
            fetch(&self.low, low, low_group, &mut low_buckets);
            let high_hits = gather(high, high_group, &high_buckets);
            let low_hits = gather(low, low_group, &low_buckets);
            for probe in high_hits.of(high_group) {
                self.visit_high(query, high, probe, &mut visit);
            }
            for probe in low_hits.of(low_group) {
                self.visit_low(query, low, probe, &mut visit);
            }
        }
        for probe in high_others {
            self.visit_high(query, high, probe, &mut visit);
        }
        for probe in low_others {
            self.visit_low(query, low, probe, &mut visit);
        }
    }

    #[inline]
    fn visit_high(
        &self,
        query: u64,
        sought: Sought,
        probe: Probe,
        visit: &mut impl FnMut(Fingerprint, Distance, Entry),
    ) {
        self.high.visit(&self.slab, sought, probe, self.k, |slot| {
            let distance = (slot.code ^ query).count_ones();
            if distance <= self.k {
                visit(Fingerprint(slot.code), Distance(distance), slot.entry);
            }
        });
    }

    #[inline]
    fn visit_low(
        &self,
        query: u64,
        sought: Sought,
        probe: Probe,
        visit: &mut impl FnMut(Fingerprint, Distance, Entry),
    ) {
        self.low.visit(&self.slab, sought, probe, self.k, |slot| {
            let difference = slot.code ^ query;
            let distance = difference.count_ones();
            // Pairs near by their high half were visited above.
            if distance <= self.k && self.high.weight(difference) > self.high.radius() {
                visit(Fingerprint(slot.code), Distance(distance), slot.entry);
            }
        });
    }

    /// Prefetches the buckets of the fingerprints themselves, where every lookup and change begins. Prefetching a
    /// lookup's other probes gains nothing: it waits for all of them together.
    pub(super) fn prefetch(&self, fingerprints: &[Fingerprint]) {
        for fingerprint in fingerprints {
            for table in [&self.high, &self.low] {
                table.fetch(table.sought(fingerprint.0), Probe::default());
            }
        }
    }

    pub(super) fn sweep(&mut self, budget: usize, mut keep: impl FnMut(Fingerprint, Entry) -> bool) -> usize {
        let mut removed = 0;
        for _ in 0..budget {
            work_counter::add(1);
            let id = self.swept;
            self.swept = self.slab.behind(id);
            if let Some(slot) = self.slab.get(id)
                && !keep(Fingerprint(slot.code), slot.entry)
            {
                self.remove_slot(id);
                removed += 1;
            }
        }
        removed
    }

    pub(super) fn round(&self) -> usize {
        self.slab.round()
    }

    pub(super) fn portion(&self, number: usize, mut visit: impl FnMut(Fingerprint, Entry)) {
        // A node stays in its slot, so in its block.
        for block in (number..self.slab.blocks()).step_by(Self::PORTIONS) {
            for slot in self.slab.block(block) {
                visit(Fingerprint(slot.code), slot.entry);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Fingerprint, Entry)> + '_ {
        let slots = self.slab.iter();
        slots.map(|slot| (Fingerprint(slot.code), slot.entry))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slab.memory_bytes() + self.high.memory_bytes() + self.low.memory_bytes()
    }
}

/// Asks for the buckets of a group of probes.
#[inline]
fn fetch<'a>(table: &'a Table, sought: Sought, probes: &[Probe], buckets: &mut [&'a Bucket; GROUP]) {
    for (place, &probe) in buckets.iter_mut().zip(probes) {
        *place = table.fetch(sought, probe);
    }
}

/// Which probes of a group may find something.
struct Hits {
    numbers: [u8; GROUP],
    len: usize,
}

impl Hits {
    fn of(&self, probes: &[Probe]) -> impl Iterator<Item = Probe> {
        let numbers = self.numbers.iter().take(self.len);
        numbers.filter_map(|&number| probes.get(usize::from(number)).copied())
    }
}

#[inline]
fn gather(sought: Sought, probes: &[Probe], buckets: &[&Bucket; GROUP]) -> Hits {
    let mut hits = Hits { numbers: [0; GROUP], len: 0 };
    for ((number, &probe), bucket) in (0..).zip(probes).zip(buckets) {
        if let Some(place) = hits.numbers.get_mut(hits.len) {
            *place = number;
        }
        hits.len += usize::from(may_find(bucket, sought, probe));
    }
    hits
}

#[cfg(test)]
mod tests;
