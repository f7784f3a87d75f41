//! One table by one half of the codes: half -> the nodes that have it, and the nodes that have nearly the same.

use spinney_text::hash::HashKey;
use spinney_text::work_counter;

use super::ball;
use super::bucket::{Bucket, PLACES};
use super::buckets::Buckets;
use super::kernel;
use super::overflow::Overflow;
use super::position::{Layout, Probe, SHOWN, SHOWN_BITS, Side, Sought, masks};
use super::shards::Shards;
use super::slab::{Slab, Slot};
use super::spread::{self, Spread};

/// Larger tables have many shards; up to this size all nodes of a shard are moved at once.
const ONE_SHARD: usize = 80_000;
const SHARD_BITS: u32 = 10;
/// Largest fill of the buckets, in percent. Then one bucket of fifty is full.
const FULL: usize = 70;
/// Target fill after a table was shrunk, in percent.
const USUAL: usize = 60;
const SPARSE: usize = 30;
/// Probes up to this many flips are kept ready.
const READY_FLIPS: u32 = 3;

/// Whether a probe may find something in its bucket; false is certain. Reads one cache line.
#[inline(always)]
pub(super) fn may_find(bucket: &Bucket, sought: Sought, probe: Probe) -> bool {
    work_counter::add(1);
    may_hold(bucket, sought.at(probe).tag(), probe.left) | bucket.has_spilled()
}

/// Whether a bucket may have a tag within `left` flips of this one; no false negatives.
#[inline(always)]
fn may_hold(bucket: &Bucket, tag: u16, left: u32) -> bool {
    match left {
        0 => bucket.may_hold(|held| held == tag),
        1 => bucket.may_hold(|held| {
            let difference = held ^ tag;
            difference & (difference.wrapping_sub(1) | !SHOWN) == 0
        }),
        _ => true,
    }
}

/// All nodes by one half. It finds those whose half is within a radius.
#[derive(Debug)]
pub(super) struct Table {
    layout: Layout,
    radius: u32,
    /// The probes with few flips, those with fewest first.
    ready: Vec<Probe>,
    shards: Shards<Bucket>,
    /// Overflow of each shard.
    beside: Vec<Option<Box<Overflow>>>,
    /// Nodes in buckets.
    held: usize,
    /// Insertions and removals since a shard was moved.
    unmoved: usize,
}

impl Table {
    pub(super) fn new(side: Side, radius: u32, secret: HashKey) -> Self {
        let layout = Layout { side, spread: Spread::new(secret), secret: secret.derived(1) };
        let weights = 0..=radius.min(READY_FLIPS);
        let ready = weights.flat_map(|weight| layout.probes(weight, radius));
        Table {
            ready: ready.collect(),
            layout,
            radius,
            shards: Shards::new(0),
            beside: vec![None],
            held: 0,
            unmoved: 0,
        }
    }

    /// How many bits of the half this table is keyed by are set.
    #[inline]
    pub(super) fn weight(&self, code: u64) -> u32 {
        self.layout.side.half(code).count_ones()
    }

    pub(super) fn radius(&self) -> u32 {
        self.radius
    }

    #[inline]
    pub(super) fn sought(&self, code: u64) -> Sought {
        self.layout.sought(code)
    }

    /// The number of probes.
    pub(super) fn probe_count(&self) -> u64 {
        ball::size_in(spread::BITS, self.radius)
    }

    /// The probes that cover the radius: precomputed ones, and those with more flips.
    #[inline]
    pub(super) fn probes(&self) -> (&[Probe], impl Iterator<Item = Probe>) {
        let weights = READY_FLIPS + 1..=self.radius;
        let others = weights.flat_map(|weight| self.layout.probes(weight, self.radius));
        (&self.ready, others)
    }

    #[inline]
    fn bucket(&self, sought: Sought) -> Option<&Bucket> {
        self.shards.scaled(sought.image, spread::BITS)
    }

    /// The overflow of a bucket, if it has any.
    #[inline]
    fn beside(&self, bucket: &Bucket, sought: Sought) -> Option<&Overflow> {
        if !bucket.has_spilled() {
            return None;
        }
        let beside = self.beside.get(sought.shard(self.shards.bits()))?;
        beside.as_deref()
    }

    /// Bucket of a probe, which is being prefetched.
    #[inline]
    pub(super) fn fetch(&self, sought: Sought, probe: Probe) -> &Bucket {
        let bucket = self.bucket(sought.at(probe)).unwrap_or(&Bucket::EMPTY);
        kernel::prefetch(bucket);
        bucket
    }

    /// Visits the nodes whose half differs from the query's by the flips of the probe plus up to the rest of the
    /// radius in shown bits; in a crowd only those whose other half is within the rest of the distance `k`. Visited
    /// nodes may still be further away than k.
    pub(super) fn visit(&self, slab: &Slab, sought: Sought, probe: Probe, k: u32, mut visit: impl FnMut(&Slot)) {
        let sought = sought.at(probe);
        let Some(bucket) = self.bucket(sought) else {
            return;
        };
        let tag = sought.tag();
        if may_hold(bucket, tag, probe.left) {
            let is_sought = |held: u16| {
                let difference = held ^ tag;
                difference & !SHOWN == 0 && difference.count_ones() <= probe.left
            };
            for slot in bucket.nodes(is_sought).filter_map(|id| slab.get(id)) {
                work_counter::add(1);
                // In a small table another word may have the same tag; its nodes are found by other probes.
                if (self.layout.side.half(slot.code) ^ sought.half) >> SHOWN_BITS == 0 {
                    visit(slot);
                }
            }
        }
        let Some(overflow) = self.beside(bucket, sought) else {
            return;
        };
        let rest = k.saturating_sub(self.radius - probe.left);
        for shown in (0..=probe.left).flat_map(|weight| masks(SHOWN_BITS, weight)) {
            let budget = rest.saturating_sub(shown.count_ones());
            overflow.visit(sought.half ^ shown, sought.other, budget, |id| {
                work_counter::add(1);
                slab.get(id).into_iter().for_each(&mut visit);
            });
        }
    }

    /// The node of a code.
    #[inline]
    pub(super) fn find(&self, slab: &Slab, code: u64) -> Option<u32> {
        work_counter::add(1);
        let sought = self.sought(code);
        let bucket = self.bucket(sought)?;
        let tag = sought.tag();
        let is_it = |&id: &u32| {
            work_counter::add(1);
            slab.get(id).is_some_and(|slot| slot.code == code)
        };
        let found = bucket.nodes(|held| held == tag).find(is_it);
        if found.is_some() {
            return found;
        }
        let overflow = self.beside(bucket, sought)?;
        let mut found = None;
        overflow.visit(sought.half, sought.other, 0, |id| {
            found = found.or(Some(id).filter(is_it));
        });
        found
    }

    /// One shard, to change it.
    fn buckets<'a>(&'a mut self, slab: &'a Slab, shard: usize) -> Option<Buckets<'a>> {
        Some(Buckets {
            layout: &self.layout,
            slab,
            bits: self.shards.bits(),
            buckets: self.shards.get_mut(shard),
            beside: self.beside.get_mut(shard)?,
            held: &mut self.held,
        })
    }

    /// Puts a node, which the slab holds already, into this table.
    pub(super) fn insert(&mut self, slab: &Slab, code: u64, id: u32) {
        self.resize(slab, 1);
        let sought = self.layout.sought(code);
        if let Some(mut buckets) = self.buckets(slab, sought.shard(self.shards.bits())) {
            buckets.put(sought, id);
        }
    }

    /// Takes out a node that [`Self::insert`] put here. The slab may have forgotten it.
    pub(super) fn remove(&mut self, slab: &Slab, code: u64, id: u32) {
        let sought = self.layout.sought(code);
        if let Some(mut buckets) = self.buckets(slab, sought.shard(self.shards.bits())) {
            buckets.remove(sought, id);
        }
        self.resize(slab, 0);
    }

    /// Begins or continues a resize, a shard at a time: to more buckets if `more` nodes would not fit, to fewer if most
    /// are empty.
    fn resize(&mut self, slab: &Slab, more: usize) {
        let (shards, places) = (self.shards.len(), self.shards.usual_places());
        if shards == 1 && slab.len() > ONE_SHARD {
            return self.divide(slab);
        }
        if !self.shards.is_moving() {
            let filled = (self.held + more) * 100;
            let all = shards * places * PLACES;
            let usual = self.held * 100 / (shards * PLACES * USUAL) + 1;
            if filled > FULL * all {
                self.shards.begin(places + (places / 4).max(1));
            } else if filled < SPARSE * all && usual < places {
                self.shards.begin(usual);
            } else {
                return;
            }
        }
        self.unmoved += 1;
        // All of them while one of 32 nodes comes or goes.
        if shards == 1 || self.unmoved > self.held / (32 * shards) {
            self.unmoved = 0;
            self.move_shard(slab);
        }
    }

    fn move_shard(&mut self, slab: &Slab) {
        let (bits, shard) = (self.shards.bits(), self.shards.next());
        let Some(beside) = self.beside.get_mut(shard) else {
            return;
        };
        let (nodes, crowds) = beside.take().map_or_else(Default::default, |beside| beside.into_parts());
        let (layout, held) = (&self.layout, &mut self.held);
        self.shards.advance(Bucket::EMPTY, |from, to| {
            *held -= from.iter().map(|bucket| bucket.all().count()).sum::<usize>();
            let mut to = Buckets { layout, slab, bits, buckets: to, beside, held };
            // Crowds are moved first; other nodes of their halves join them.
            for (half, crowd) in crowds {
                to.put_crowd(half, crowd);
            }
            to.take_all(shard, from);
            for id in nodes {
                to.put_id(id);
            }
            true
        });
    }

    /// Moves all nodes into many shards.
    fn divide(&mut self, slab: &Slab) {
        let places = self.held * 100 / ((PLACES * USUAL) << SHARD_BITS) + 1;
        let shards = Shards::filled(SHARD_BITS, places, Bucket::EMPTY);
        let beside = (0..shards.len()).map(|_| None).collect();
        let from = std::mem::replace(&mut self.shards, shards);
        let beside = std::mem::replace(&mut self.beside, beside);
        self.held = 0;
        let parts = beside.into_iter().flatten().map(|beside| beside.into_parts());
        for (nodes, crowds) in parts {
            for (half, crowd) in crowds {
                let shard = self.layout.sought_half(half).shard(SHARD_BITS);
                if let Some(mut to) = self.buckets(slab, shard) {
                    to.put_crowd(half, crowd);
                }
            }
            for id in nodes {
                self.put_id(slab, id);
            }
        }
        let buckets = (0..from.len()).flat_map(|shard| from.get(shard));
        for (_, id) in buckets.flat_map(Bucket::all) {
            self.put_id(slab, id);
        }
    }

    fn put_id(&mut self, slab: &Slab, id: u32) {
        let sought = slab.get(id).map(|slot| self.layout.sought(slot.code));
        let shard = sought.map_or(0, |sought| sought.shard(SHARD_BITS));
        if let Some(mut to) = self.buckets(slab, shard) {
            to.put_id(id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let beside = self.beside.iter().flatten().map(|beside| beside.memory_bytes());
        let listed = self.beside.capacity() * size_of::<Option<Box<Overflow>>>();
        self.shards.memory_bytes() + listed + beside.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place and the tag tell the image wherever they are said to.
    #[test]
    fn the_place_of_a_tag_tells_its_image() {
        for (bits, fewest) in [(0, 1 << 16), (SHARD_BITS, 64)] {
            for buckets in [fewest, fewest + 1, fewest * 3 / 2, 5 * fewest - 1] {
                for seed in 0..2_000 {
                    let random = spinney_text::hash::splitmix64(seed) as u32;
                    let sought = Sought { half: random.rotate_left(9), other: 0, image: random >> SHOWN_BITS };
                    let (shard, bucket) = (sought.shard(bits), sought.bucket(bits, buckets));
                    let told = Sought::place(bits, buckets, shard, bucket, sought.tag());
                    assert_eq!(told.map(|told| told.image), Some(sought.image));
                }
            }
            assert!(Sought::place(bits, fewest - 1, 0, 0, 0).is_none());
        }
    }
}
