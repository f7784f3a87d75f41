//! One shard of a table: its buckets, and the nodes that found theirs full.

use super::bucket::{Bucket, PLACES};
use super::overflow::Overflow;
use super::pages::{Pages, rung_above};
use super::slab::Slab;
use super::table::{Layout, MAX_BUCKETS, SHARDS, Sought};
use crate::steps;

/// Buckets of a page: 3 KiB.
const PAGE: usize = 16;
/// So much of the places is filled at most, in percent. Then one bucket of fifty is full.
const FULL: usize = 70;
/// What a table that becomes smaller fills.
const USUAL: usize = 60;
/// Below this it becomes smaller.
const SPARSE: usize = 30;

#[derive(Debug)]
pub(super) struct Buckets {
    buckets: Pages<Bucket, PAGE>,
    overflow: Option<Box<Overflow>>,
    /// Nodes in buckets.
    held: u32,
    number: u32,
}

impl Buckets {
    pub(super) fn new(number: usize) -> Self {
        Buckets {
            buckets: Pages::new(),
            overflow: None,
            held: 0,
            number: number as u32,
        }
    }

    #[inline]
    pub(super) fn bucket(&self, sought: Sought) -> Option<&Bucket> {
        self.buckets.get(sought.bucket(self.buckets.len()))
    }

    /// Where the nodes are that found a bucket full, if there are any.
    #[inline]
    pub(super) fn overflow(&self, of: &Bucket) -> Option<&Overflow> {
        self.overflow.as_deref().filter(|_| of.has_spilled())
    }

    pub(super) fn insert(&mut self, layout: &Layout, slab: &Slab, sought: Sought, id: u32) {
        if self.fill(self.load() + 1) > FULL && self.buckets.len() < MAX_BUCKETS {
            let phase = f64::from(self.number) / SHARDS as f64;
            // By about a quarter.
            let buckets = rung_above(self.buckets.len(), 3.0, phase);
            self.rebuild(layout, slab, buckets);
        }
        self.put(layout, slab, sought, id, self.buckets.len());
    }

    /// Puts a node where it stands among so many buckets.
    fn put(&mut self, layout: &Layout, slab: &Slab, sought: Sought, id: u32, buckets: usize) {
        let Some(bucket) = self.buckets.get_mut(sought.bucket(buckets)) else {
            return;
        };
        if bucket.push(sought.tag(), id) {
            self.held += 1;
            return;
        }
        bucket.spill();
        let empty = || Box::new(Overflow::new(layout.secret));
        let overflow = self.overflow.get_or_insert_with(empty);
        overflow.insert(sought.half, id, |id| {
            slab.get(id).map_or(0, |slot| layout.other(slot.code))
        });
    }

    pub(super) fn remove(&mut self, layout: &Layout, slab: &Slab, sought: Sought, id: u32) {
        let Some(bucket) = self.buckets.get_mut(sought.bucket(self.buckets.len())) else {
            return;
        };
        steps::add(1);
        if bucket.remove(sought.tag(), id) {
            self.held -= 1;
        } else if let Some(overflow) = &mut self.overflow
            && overflow.remove(sought.half, id, sought.other)
        {
            bucket.unspill();
            if overflow.is_empty() {
                self.overflow = None;
            }
        }
        if self.fill(self.load()) < SPARSE && self.buckets.len() > 1 {
            let buckets = self.load() * 100 / (PLACES * USUAL) + 1;
            if Pages::<Bucket, PAGE>::length(buckets) < self.buckets.len() {
                self.rebuild(layout, slab, buckets);
            }
        }
    }

    /// The nodes that more buckets would have room for.
    fn load(&self) -> usize {
        let beside = self.overflow.as_ref().map_or(0, |overflow| overflow.few());
        self.held as usize + beside
    }

    /// How much of the places so many nodes fill, in percent; more than all if there are none.
    fn fill(&self, nodes: usize) -> usize {
        (nodes * 100)
            .checked_div(self.buckets.len() * PLACES)
            .unwrap_or(usize::MAX)
    }

    /// Moves all nodes into another number of buckets. The buckets keep their order, so it is done in place.
    fn rebuild(&mut self, layout: &Layout, slab: &Slab, buckets: usize) {
        let buckets = Pages::<Bucket, PAGE>::length(buckets);
        let old = self.buckets.len();
        let mut beside = Vec::new();
        let mut crowds = Vec::new();
        if let Some(overflow) = &mut self.overflow {
            overflow.drain_few(|id| beside.push(id), |half| crowds.push(half));
        }
        self.held = 0;
        if buckets > old {
            // No node comes into a bucket before the one that it was in, so none into one that is still to be emptied.
            self.buckets.resize(buckets, Bucket::EMPTY);
            for at in (0..old).rev() {
                self.empty(layout, slab, at, buckets);
            }
        } else {
            // And here none into one behind it.
            for at in 0..old {
                self.empty(layout, slab, at, buckets);
            }
            self.buckets.resize(buckets, Bucket::EMPTY);
        }
        for id in beside {
            self.put_again(layout, slab, id, buckets);
        }
        for half in crowds {
            let sought = layout.sought_half(half);
            if let Some(bucket) = self.buckets.get_mut(sought.bucket(buckets)) {
                bucket.spill_many();
            }
        }
        self.overflow.take_if(|overflow| overflow.is_empty());
    }

    /// Moves the nodes of a bucket to where they stand among so many.
    fn empty(&mut self, layout: &Layout, slab: &Slab, at: usize, buckets: usize) {
        if let Some(bucket) = self.buckets.get_mut(at) {
            for id in std::mem::replace(bucket, Bucket::EMPTY).ids() {
                self.put_again(layout, slab, id, buckets);
            }
        }
    }

    fn put_again(&mut self, layout: &Layout, slab: &Slab, id: u32, buckets: usize) {
        steps::add(1);
        if let Some(slot) = slab.get(id) {
            self.put(layout, slab, layout.sought(slot.code), id, buckets);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let overflow = self.overflow.as_ref();
        self.buckets.memory_bytes() + overflow.map_or(0, |overflow| overflow.memory_bytes())
    }
}
