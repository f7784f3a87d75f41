//! One shard of a table while it is changed: its buckets, and the nodes that found theirs full.

use spinney_text::work_counter;

use super::bucket::Bucket;
use super::overflow::{Crowd, Overflow};
use super::position::{Layout, Sought};
use super::slab::Slab;

pub(super) struct Buckets<'a> {
    pub(super) layout: &'a Layout,
    pub(super) slab: &'a Slab,
    /// The number of shards is two to this.
    pub(super) bits: u32,
    pub(super) buckets: &'a mut [Bucket],
    pub(super) beside: &'a mut Option<Box<Overflow>>,
    /// Counts the nodes in buckets.
    pub(super) held: &'a mut usize,
}

impl Buckets<'_> {
    fn bucket(&mut self, sought: Sought) -> Option<&mut Bucket> {
        let at = sought.bucket(self.bits, self.buckets.len());
        self.buckets.get_mut(at)
    }

    fn beside(&mut self) -> &mut Overflow {
        let empty = || Box::new(Overflow::new(self.layout.secret));
        self.beside.get_or_insert_with(empty)
    }

    /// Inserts a node of the slab into its bucket, or into the overflow.
    pub(super) fn put(&mut self, sought: Sought, id: u32) {
        work_counter::add(1);
        let Some(bucket) = self.bucket(sought) else {
            return;
        };
        if bucket.push(sought.tag(), id) {
            *self.held += 1;
            return;
        }
        bucket.spill();
        let (layout, slab) = (self.layout, self.slab);
        self.beside().insert(sought.half, id, |id| slab.get(id).map_or(0, |slot| layout.other(slot.code)));
    }

    pub(super) fn put_id(&mut self, id: u32) {
        if let Some(slot) = self.slab.get(id) {
            self.put(self.layout.sought(slot.code), id);
        }
    }

    /// Inserts a crowd into the overflow.
    pub(super) fn put_crowd(&mut self, half: u32, crowd: Box<Crowd>) {
        let sought = self.layout.sought_half(half);
        if let Some(bucket) = self.bucket(sought) {
            bucket.spill_many();
            self.beside().take_over(half, crowd);
        }
    }

    /// Takes a node out, which the slab may have forgotten.
    pub(super) fn remove(&mut self, sought: Sought, id: u32) {
        work_counter::add(1);
        let Some(bucket) = self.bucket(sought) else {
            return;
        };
        if bucket.remove(sought.tag(), id) {
            *self.held -= 1;
            return;
        }
        let Some(beside) = self.beside.as_mut() else {
            return;
        };
        if beside.remove(sought.half, id, sought.other) {
            if beside.is_empty() {
                *self.beside = None;
            }
            if let Some(bucket) = self.bucket(sought) {
                bucket.unspill();
            }
        }
    }

    /// Moves the nodes of another bucket array's shard here.
    pub(super) fn take_all(&mut self, shard: usize, from: &[Bucket]) {
        for (at, bucket) in from.iter().enumerate() {
            work_counter::add(1);
            for (tag, id) in bucket.all() {
                // Nearly always the tag tells where the node belongs, without a look at the node.
                let place = Sought::place(self.bits, from.len(), shard, at, tag);
                let place = place.map(|sought| sought.bucket(self.bits, self.buckets.len()));
                let bucket = place.and_then(|place| self.buckets.get_mut(place));
                if bucket.is_some_and(|bucket| bucket.push(tag, id)) {
                    work_counter::add(1);
                    *self.held += 1;
                } else {
                    self.put_id(id);
                }
            }
        }
    }
}
