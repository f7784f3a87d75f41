//! How nodes within a distance are found by names of buckets. A fingerprint is cut into blocks; two that differ in at
//! most k bits have some of their blocks in common, and for each choice of so many blocks there is a table whose
//! buckets are named by 20 of their bits. A node has an entry in one bucket of each table. A lookup reads one bucket of
//! each; it flips no bits, which would take ten times as many reads (Manku, Jain and Das Sarma, "Detecting
//! Near-Duplicates for Web Crawling", WWW 2007, section 3).
//!
//! ```text
//! k   blocks  in common  tables
//! 1      2        1         2
//! 2      3        1         3
//! 3      5        2        10
//! 4      6        2        15
//! ```
//!
//! Nobody removes entries with a tree. A writer drops those of its bucket whose step ended more than a window and 3
//! steps before. A living node is entered anew once a step. A bucket has 1,024 entries; then the oldest goes, and its
//! node is found by the other tables. After a lost entry, too, some do not find a node, until an equal document enters
//! it anew.
//!
//! With k = 3 entries take 1.4 KB a node of a small forest, 1 KB at 10^6 nodes and 0.25 KB at 10^7 (calculated). An
//! entry costs Redis 4 µs in a bucket of one, 9 of 20, 57 of 200.

use spinney_text::fingerprint::{Distance, Fingerprint};
use thiserror::Error;

/// A distance that LSH buckets find: at most 4 bits.
///
/// For a wider one the tables would be many and their buckets full: each look would read a good part of the forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedDistance(Distance);

/// The distance is above [`SharedDistance::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("looks for texts up to {0} bits apart, and a forest on Redis finds up to {max}", max = SharedDistance::MAX.0)]
pub struct DistanceTooLarge(u32);

impl SharedDistance {
    /// Only equal fingerprints are near.
    pub const EQUAL: SharedDistance = SharedDistance(Distance(0));
    /// The largest distance.
    pub const MAX: Distance = Distance(4);

    /// Validates a distance of a shared forest.
    ///
    /// # Errors
    /// [`DistanceTooLarge`] above [`Self::MAX`].
    pub fn new(k: Distance) -> Result<SharedDistance, DistanceTooLarge> {
        match k > SharedDistance::MAX {
            true => Err(DistanceTooLarge(k.0)),
            false => Ok(SharedDistance(k)),
        }
    }
}

/// Bits in the name of a bucket besides its table: with more there is a key for nearly every name, with fewer many
/// names in a bucket.
const NAME_BITS: u32 = 20;

/// The tables of one distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LshBuckets {
    k: Distance,
    /// The bits that name the buckets of each table. None where only equal fingerprints are near.
    masks: Vec<u64>,
}

impl LshBuckets {
    pub(super) fn new(SharedDistance(k): SharedDistance) -> LshBuckets {
        let (blocks, common) = match k.0 {
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

    /// The names of the buckets of a fingerprint, one of each table.
    pub(super) fn buckets(&self, of: Fingerprint) -> impl Iterator<Item = Fingerprint> + '_ {
        let masks = self.masks.iter().zip(0_u64..);
        masks.map(move |(&mask, table)| Fingerprint(table << 32 | gathered(of.0, mask)))
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

    fn buckets(k: u32) -> LshBuckets {
        LshBuckets::new(SharedDistance::new(Distance(k)).unwrap())
    }

    #[test]
    fn a_distance_is_at_most_four() {
        assert_eq!(SharedDistance::new(Distance(4)), Ok(SharedDistance(Distance(4))));
        let refused = SharedDistance::new(Distance(5)).unwrap_err();
        assert_eq!(refused.to_string(), "looks for texts up to 5 bits apart, and a forest on Redis finds up to 4");
    }

    #[test]
    fn there_are_as_many_tables_as_it_says() {
        let tables = [0, 1, 2, 3, 4].map(|k| buckets(k).masks.len());
        assert_eq!(tables, [0, 2, 3, 10, 15]);
        for k in 1..=4 {
            let masks = buckets(k).masks;
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
            let blocks = buckets(k);
            let (one, other) = (Fingerprint(one), Fingerprint(other));
            let mut pairs = blocks.buckets(one).zip(blocks.buckets(other));
            prop_assert!(pairs.any(|(one, other)| one == other));
            let names: std::collections::BTreeSet<_> = blocks.buckets(one).collect();
            prop_assert_eq!(names.len(), blocks.masks.len());
        }
    }
}
