//! How nodes within a distance are found by names of buckets. A fingerprint is cut into blocks; two that differ in at
//! most k bits have some of their blocks in common, and for each choice of so many blocks there is a table whose
//! buckets are named by them. A look reads one bucket of each table; it flips no bits, which would take ten times as
//! many reads (Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3).
//!
//! ```text
//! k   blocks  in common  tables
//! 1      2        1         2
//! 2      3        1         3
//! 3      5        2        10
//! 4      6        2        15
//! ```

use crate::fingerprint::{Distance, Fingerprint};

/// The largest distance: above it, tables are many and their buckets full, and names stand in a log
/// ([`mirror`](super::mirror)).
const MOST: Distance = Distance(4);

/// Bits in the name of a bucket besides its table: with more there is a key for nearly every name, with fewer many
/// names in a bucket.
const NAME_BITS: u32 = 20;

/// The tables of one distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LshBuckets {
    k: Distance,
    /// The bits that name the buckets of each table. None where only equal fingerprints are near, and where names stand
    /// in a log.
    masks: Vec<u64>,
}

impl LshBuckets {
    pub(super) fn new(k: Distance) -> LshBuckets {
        let (blocks, common) = match k.0 {
            _ if k > MOST => (0, 0),
            0 => (0, 0),
            1 | 2 => (k.0 + 1, 1),
            _ => (k.0 + 2, 2),
        };
        let block = |at: u32| {
            let (from, to) = (64 * at / blocks, 64 * (at + 1) / blocks);
            let bits = (NAME_BITS / common).min(to - from);
            ((1 << bits) - 1) << from
        };
        let masks = match common {
            0 => Vec::new(),
            1 => (0..blocks).map(block).collect(),
            _ => {
                let pairs = (0..blocks).flat_map(|one| (0..one).map(move |other| (one, other)));
                pairs.map(|(one, other)| block(one) | block(other)).collect()
            }
        };
        LshBuckets { k, masks }
    }

    pub(super) fn k(&self) -> Distance {
        self.k
    }

    /// Whether names stand in a log.
    pub(super) fn is_log(&self) -> bool {
        self.k > MOST
    }

    /// The names of the buckets of a fingerprint, one of each table. Where names stand in a log, its one bucket is what
    /// the mirror has near it, and has its own name.
    pub(super) fn buckets(&self, of: Fingerprint) -> impl Iterator<Item = Fingerprint> + '_ {
        let masks = self.masks.iter().zip(0_u64..);
        let tables = masks.map(move |(&mask, table)| Fingerprint(table << 32 | gathered(of.0, mask)));
        tables.chain(self.is_log().then_some(of))
    }
}

/// The bits of a mask, moved together.
fn gathered(bits: u64, mut mask: u64) -> u64 {
    let (mut gathered, mut place) = (0, 0);
    while mask != 0 {
        gathered |= (bits >> mask.trailing_zeros() & 1) << place;
        place += 1;
        mask &= mask - 1;
    }
    gathered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_are_as_many_tables_as_it_says() {
        let tables = [0, 1, 2, 3, 4].map(|k| LshBuckets::new(Distance(k)).masks.len());
        assert_eq!(tables, [0, 2, 3, 10, 15]);
        for k in 1..=4 {
            let masks = LshBuckets::new(Distance(k)).masks;
            assert!(masks.iter().all(|mask| (20..=22).contains(&mask.count_ones())));
        }
    }

    proptest! {
        #[test]
        fn near_ones_have_a_bucket_in_common(
            k in 1u32..5,
            one in any::<u64>(),
            flips in prop::collection::vec(0u32..64, 4),
        ) {
            let flips = flips.iter().take(k as usize);
            let other = flips.fold(one, |bits, flip| bits ^ 1 << flip);
            let blocks = LshBuckets::new(Distance(k));
            let (one, other) = (Fingerprint(one), Fingerprint(other));
            let mut pairs = blocks.buckets(one).zip(blocks.buckets(other));
            prop_assert!(pairs.any(|(one, other)| one == other));
            let names: std::collections::BTreeSet<_> = blocks.buckets(one).collect();
            prop_assert_eq!(names.len(), blocks.masks.len());
        }
    }
}
