//! One table by one half of the codes: half -> the nodes that have it, and the nodes that have nearly the same.

use super::ball;
use super::bucket::Bucket;
use super::buckets::Buckets;
use super::slab::{Slab, Slot};
use super::spread::{self, Spread};
use crate::hash::HashKey;
use crate::steps;

/// The bits of a half that tags show as they are, so that flips of them are found by comparing; the others are its word,
/// which is spread over the buckets. More of them would mean fewer probes, and more nodes whose word is one.
const SHOWN_BITS: u32 = 32 - spread::BITS;
const SHOWN: u16 = (1 << SHOWN_BITS) - 1;
/// Tables grow shard by shard, so that no insertion pays for moving all of them.
const SHARD_BITS: u32 = 12;
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// What is left of a word's image to choose a bucket of the shard by.
const CHOICE_BITS: u32 = spread::BITS - SHARD_BITS;
/// More buckets than this in a shard would never be chosen.
pub(super) const MAX_BUCKETS: usize = 1 << CHOICE_BITS;
/// Probes up to this many flips are kept ready.
const READY_FLIPS: u32 = 3;

/// Which half a table is keyed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    High,
    Low,
}

impl Side {
    #[inline]
    fn half(self, code: u64) -> u32 {
        match self {
            Side::High => (code >> 32) as u32,
            Side::Low => code as u32,
        }
    }

    #[inline]
    fn other(self, code: u64) -> u32 {
        match self {
            Side::High => code as u32,
            Side::Low => (code >> 32) as u32,
        }
    }
}

/// Flips of a word, and what they do to its image.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probe {
    flips: u32,
    image: u32,
    /// How many flips of shown bits the radius leaves.
    left: u32,
}

/// A half as the table sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    pub(super) half: u32,
    pub(super) other: u32,
    image: u32,
}

impl Sought {
    #[inline]
    fn at(self, probe: Probe) -> Sought {
        Sought {
            half: self.half ^ probe.flips << SHOWN_BITS,
            image: self.image ^ probe.image,
            ..self
        }
    }

    #[inline]
    fn shard(self) -> usize {
        (self.image >> CHOICE_BITS) as usize
    }

    /// The bucket of so many; the order of the images.
    #[inline]
    pub(super) fn bucket(self, buckets: usize) -> usize {
        ((self.image as usize & ((1 << CHOICE_BITS) - 1)) * buckets) >> CHOICE_BITS
    }

    /// The shown bits of the half, and behind them the last bits of the image: with 16 buckets or more, those that the choice
    /// of the bucket leaves open. So equal tags of a bucket mean equal halves, and before that nearly always.
    #[inline]
    pub(super) fn tag(self) -> u16 {
        (self.image as u16) << SHOWN_BITS | self.half as u16 & SHOWN
    }
}

/// What decides where a node of a table stands.
#[derive(Debug)]
pub(super) struct Layout {
    side: Side,
    spread: Spread,
    /// That of the overflow maps.
    pub(super) secret: HashKey,
}

impl Layout {
    #[inline]
    pub(super) fn sought(&self, code: u64) -> Sought {
        Sought {
            other: self.side.other(code),
            ..self.sought_half(self.side.half(code))
        }
    }

    #[inline]
    pub(super) fn sought_half(&self, half: u32) -> Sought {
        Sought {
            half,
            other: 0,
            image: self.spread.image(half >> SHOWN_BITS),
        }
    }

    #[inline]
    pub(super) fn other(&self, code: u64) -> u32 {
        self.side.other(code)
    }

    /// The probes with so many flips for a radius.
    fn probes(&self, weight: u32, radius: u32) -> impl Iterator<Item = Probe> {
        masks(spread::BITS, weight).map(move |flips| Probe {
            flips,
            image: self.spread.image(flips),
            left: radius - weight,
        })
    }
}

/// The words of so many bits with exactly `weight` of them set.
fn masks(bits: u32, weight: u32) -> impl Iterator<Item = u32> {
    ball::masks(weight).take_while(move |mask| mask >> bits == 0)
}

/// Whether a bucket may hold this tag with so many flips of shown bits; false is certain.
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
    shards: Vec<Buckets>,
    /// The probes with few flips, those with fewest first.
    ready: Vec<Probe>,
}

impl Table {
    pub(super) fn new(side: Side, radius: u32, secret: HashKey) -> Self {
        let layout = Layout {
            side,
            spread: Spread::new(secret),
            secret: secret.derived(1),
        };
        let ready = (0..=radius.min(READY_FLIPS)).flat_map(|weight| layout.probes(weight, radius));
        Table {
            ready: ready.collect(),
            layout,
            radius,
            shards: (0..SHARDS).map(Buckets::new).collect(),
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

    /// How many probes there are.
    pub(super) fn probe_count(&self) -> u64 {
        ball::size_in(spread::BITS, self.radius)
    }

    /// The probes that together find all within the radius: those that are kept ready, and with more flips the others.
    #[inline]
    pub(super) fn probes(&self) -> (&[Probe], impl Iterator<Item = Probe>) {
        let weights = READY_FLIPS + 1..=self.radius;
        let others = weights.flat_map(|weight| self.layout.probes(weight, self.radius));
        (&self.ready, others)
    }

    #[inline]
    fn bucket(&self, sought: Sought) -> Option<&Bucket> {
        self.shards.get(sought.shard())?.bucket(sought)
    }

    /// Reads the bucket of a probe, and answers something that depends on it.
    #[inline]
    pub(super) fn touch(&self, sought: Sought, probe: Probe) -> bool {
        let bucket = self.bucket(sought.at(probe));
        bucket.is_some_and(Bucket::has_spilled)
    }

    /// Whether a probe may find something; false is certain. Reads one cache line.
    #[inline]
    pub(super) fn may_find(&self, sought: Sought, probe: Probe) -> bool {
        steps::add(1);
        let sought = sought.at(probe);
        let Some(bucket) = self.bucket(sought) else {
            return false;
        };
        may_hold(bucket, sought.tag(), probe.left) | bucket.has_spilled()
    }

    /// Visits the nodes whose half is the sought one with the flips of the probe and as many others as the radius leaves, all in
    /// shown bits; and in a crowd only those whose other half is within the rest of the distance `k`. What is visited may still
    /// be further away than k.
    pub(super) fn visit(
        &self,
        slab: &Slab,
        sought: Sought,
        probe: Probe,
        k: u32,
        mut visit: impl FnMut(&Slot),
    ) {
        let sought = sought.at(probe);
        let Some(shard) = self.shards.get(sought.shard()) else {
            return;
        };
        let Some(bucket) = shard.bucket(sought) else {
            return;
        };
        let tag = sought.tag();
        if may_hold(bucket, tag, probe.left) {
            let is_sought = |held: u16| {
                let difference = held ^ tag;
                difference & !SHOWN == 0 && difference.count_ones() <= probe.left
            };
            for slot in bucket.nodes(is_sought).filter_map(|id| slab.get(id)) {
                steps::add(1);
                // Another word can have the same tag in a small table; what it finds is found by other probes.
                if (self.layout.side.half(slot.code) ^ sought.half) >> SHOWN_BITS == 0 {
                    visit(slot);
                }
            }
        }
        let Some(overflow) = shard.overflow(bucket) else {
            return;
        };
        let rest = k.saturating_sub(self.radius - probe.left);
        for shown in (0..=probe.left).flat_map(|weight| masks(SHOWN_BITS, weight)) {
            let budget = rest.saturating_sub(shown.count_ones());
            overflow.visit(sought.half ^ shown, sought.other, budget, |id| {
                steps::add(1);
                slab.get(id).into_iter().for_each(&mut visit);
            });
        }
    }

    /// The node of a code.
    #[inline]
    pub(super) fn find(&self, slab: &Slab, code: u64) -> Option<u32> {
        steps::add(1);
        let sought = self.sought(code);
        let shard = self.shards.get(sought.shard())?;
        let bucket = shard.bucket(sought)?;
        let tag = sought.tag();
        let is_it = |&id: &u32| {
            steps::add(1);
            slab.get(id).is_some_and(|slot| slot.code == code)
        };
        let found = bucket.nodes(|held| held == tag).find(is_it);
        let Some(overflow) = shard.overflow(bucket).filter(|_| found.is_none()) else {
            return found;
        };
        let mut found = None;
        overflow.visit(sought.half, sought.other, 0, |id| {
            found = found.or(Some(id).filter(is_it));
        });
        found
    }

    /// Puts a node, which the slab holds already, into this table.
    pub(super) fn insert(&mut self, slab: &Slab, code: u64, id: u32) {
        let sought = self.layout.sought(code);
        if let Some(shard) = self.shards.get_mut(sought.shard()) {
            shard.insert(&self.layout, slab, sought, id);
        }
    }

    /// Takes out a node that [`Self::insert`] put here. The slab may have forgotten it.
    pub(super) fn remove(&mut self, slab: &Slab, code: u64, id: u32) {
        let sought = self.layout.sought(code);
        if let Some(shard) = self.shards.get_mut(sought.shard()) {
            shard.remove(&self.layout, slab, sought, id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(Buckets::memory_bytes).sum();
        shards + self.shards.capacity() * size_of::<Buckets>()
    }
}
