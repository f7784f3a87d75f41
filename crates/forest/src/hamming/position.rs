//! Positions of nodes in a table: from half of a fingerprint to shard, bucket and tag.

use spinney_text::hash::HashKey;

use super::ball;
use super::spread::{self, Spread};

/// The bits of a half that tags contain unchanged, so that flips in them are found by comparison; the others select the
/// bucket. More of them would mean fewer probes, and more nodes whose word is one.
pub(super) const SHOWN_BITS: u32 = 32 - spread::BITS;
pub(super) const SHOWN: u16 = (1 << SHOWN_BITS) - 1;
/// The last bits of the image in a tag.
const TAG_IMAGE_BITS: u32 = u16::BITS - SHOWN_BITS;

/// Which half a table is keyed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    High,
    Low,
}

impl Side {
    #[inline]
    pub(super) fn half(self, code: u64) -> u32 {
        match self {
            Side::High => (code >> 32) as u32,
            Side::Low => code as u32,
        }
    }

    #[inline]
    pub(super) fn other(self, code: u64) -> u32 {
        match self {
            Side::High => code as u32,
            Side::Low => (code >> 32) as u32,
        }
    }
}

/// Bit flips of a word and their effect on its image.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probe {
    pub(super) flips: u32,
    pub(super) image: u32,
    /// How many flips of shown bits the radius leaves.
    pub(super) left: u32,
}

/// A half as the table sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    pub(super) half: u32,
    pub(super) other: u32,
    pub(super) image: u32,
}

impl Sought {
    #[inline]
    pub(super) fn at(self, probe: Probe) -> Sought {
        Sought { half: self.half ^ probe.flips << SHOWN_BITS, image: self.image ^ probe.image, ..self }
    }

    /// The shard, where the number of shards is two to `bits`.
    #[inline]
    pub(super) fn shard(self, bits: u32) -> usize {
        (self.image >> (spread::BITS - bits)) as usize
    }

    /// The bucket in a shard, in the order of the images.
    #[inline]
    pub(super) fn bucket(self, bits: u32, buckets: usize) -> usize {
        let width = spread::BITS - bits;
        ((self.image as usize & ((1 << width) - 1)) * buckets) >> width
    }

    /// The shown bits of the half, followed by the last bits of the image. So equal tags of a bucket mean equal halves,
    /// and in a small one nearly always.
    #[inline]
    pub(super) fn tag(self) -> u16 {
        (self.image as u16) << SHOWN_BITS | self.half as u16 & SHOWN
    }

    /// Information about the image that a slot's position implies, given the number of buckets.
    pub(super) fn place(bits: u32, buckets: usize, shard: usize, bucket: usize, tag: u16) -> Option<Sought> {
        let width = spread::BITS - bits;
        if buckets << TAG_IMAGE_BITS < 1 << width {
            return None;
        }
        let first = (bucket << width).div_ceil(buckets);
        let last_bits = (1 << TAG_IMAGE_BITS) - 1;
        let behind = usize::from(tag >> SHOWN_BITS).wrapping_sub(first) & last_bits;
        Some(Sought { half: 0, other: 0, image: (shard << width | (first + behind)) as u32 })
    }
}

/// Parameters that determine a node's position.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) side: Side,
    pub(super) spread: Spread,
    /// That of the overflow maps.
    pub(super) secret: HashKey,
}

impl Layout {
    #[inline]
    pub(super) fn sought(&self, code: u64) -> Sought {
        Sought { other: self.side.other(code), ..self.sought_half(self.side.half(code)) }
    }

    #[inline]
    pub(super) fn sought_half(&self, half: u32) -> Sought {
        Sought { half, other: 0, image: self.spread.image(half >> SHOWN_BITS) }
    }

    #[inline]
    pub(super) fn other(&self, code: u64) -> u32 {
        self.side.other(code)
    }

    /// The probes with `weight` flips for a radius.
    pub(super) fn probes(&self, weight: u32, radius: u32) -> impl Iterator<Item = Probe> {
        masks(spread::BITS, weight).map(move |flips| Probe {
            flips,
            image: self.spread.image(flips),
            left: radius - weight,
        })
    }
}

/// The words of `bits` bits with exactly `weight` set.
pub(super) fn masks(bits: u32, weight: u32) -> impl Iterator<Item = u32> {
    ball::masks(weight).take_while(move |mask| mask >> bits == 0)
}
