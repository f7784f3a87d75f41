//! Simhash: weighted features -> one fingerprint, so that texts with nearly the same features get nearly the same bits.
//! M. Charikar, "Similarity estimation techniques from rounding algorithms" (STOC 2002), section 3.

use crate::fingerprint::Fingerprint;

/// Adds up features. A bit of the result is set where the weights of the features that have it outweigh the rest.
///
/// The 64 counters are kept as 8 words of 8 one-byte counters each, to which a feature is added with one table look-up
/// and one multiplication a byte; they are emptied into wide counters before a byte can overflow.
#[derive(Debug, Clone)]
pub(super) struct Simhash {
    /// Counter `j` of word `i` belongs to bit `8 i + j`.
    narrow: [u64; 8],
    /// Weight that `narrow` holds at most in one counter.
    held: u32,
    wide: [u64; 64],
    total: u64,
}

/// One byte of 0 or 1 for each bit of the index, bit 0 lowest.
const SPREAD: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte] |= ((byte as u64 >> bit) & 1) << (8 * bit);
            bit += 1;
        }
        byte += 1;
    }
    table
};

impl Default for Simhash {
    fn default() -> Simhash {
        Simhash { narrow: [0; 8], held: 0, wide: [0; 64], total: 0 }
    }
}

impl Simhash {
    /// No feature yet.
    pub(super) fn new() -> Simhash {
        Simhash::default()
    }

    /// Adds a feature's hash `weight` times.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, weight: u8) {
        let weight = u32::from(weight);
        if self.held + weight > 255 {
            self.empty();
        }
        self.held += weight;
        self.total += u64::from(weight);
        for (counters, byte) in self.narrow.iter_mut().zip(hash.to_le_bytes()) {
            *counters += SPREAD[usize::from(byte)] * u64::from(weight);
        }
    }

    fn empty(&mut self) {
        let narrow = self.narrow.iter().flat_map(|counters| counters.to_le_bytes());
        for (wide, count) in self.wide.iter_mut().zip(narrow) {
            *wide += u64::from(count);
        }
        self.narrow = [0; 8];
        self.held = 0;
    }

    /// The fingerprint: a bit is 1 where its sum (weights with the bit minus weights without it) is above 0.
    pub(super) fn finish(mut self) -> Fingerprint {
        self.empty();
        let mut bits = 0;
        for (bit, &count) in self.wide.iter().enumerate() {
            bits |= u64::from(2 * count > self.total) << bit;
        }
        Fingerprint(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fingerprint of features given as (hash, weight).
    fn simhash(features: impl IntoIterator<Item = (u64, u8)>) -> Fingerprint {
        let mut sums = Simhash::new();
        for (hash, weight) in features {
            sums.add(hash, weight);
        }
        sums.finish()
    }

    /// The definition, bit by bit.
    fn naive(features: &[(u64, u8)]) -> Fingerprint {
        let mut v = [0i64; 64];
        for &(hash, weight) in features {
            for (bit, sum) in v.iter_mut().enumerate() {
                if hash >> bit & 1 == 1 {
                    *sum += i64::from(weight);
                } else {
                    *sum -= i64::from(weight);
                }
            }
        }
        Fingerprint((0..64).filter(|&bit| v[bit] > 0).fold(0, |bits, bit| bits | 1 << bit))
    }

    /// 100101 with weight 4 and 101011 with weight 5 add up to `9 -9 1 -1 1 9`.
    #[test]
    fn the_sum_of_two() {
        assert_eq!(simhash([(0b100101, 4), (0b101011, 5)]), Fingerprint(0b101011));
        assert_eq!(simhash([(0b100101, 3), (0b101011, 5)]), Fingerprint(0b101011));
    }

    #[test]
    fn nothing_and_ties_are_zero() {
        assert_eq!(simhash([]), Fingerprint(0));
        assert_eq!(simhash([(u64::MAX, 0)]), Fingerprint(0));
        assert_eq!(simhash([(0xF0, 2), (0x0F, 2)]), Fingerprint(0));
        assert_eq!(simhash([(42, 1)]), Fingerprint(42));
    }

    proptest! {
        #[test]
        fn agrees_with_the_seed(features in prop::collection::vec((any::<u64>(), any::<u8>()), 0..200)) {
            prop_assert_eq!(simhash(features.iter().copied()), naive(&features));
        }

        #[test]
        fn the_order_of_features_does_not_matter(
            mut features in prop::collection::vec((any::<u64>(), 1..=5u8), 0..400),
        ) {
            let forwards = simhash(features.iter().copied());
            features.reverse();
            prop_assert_eq!(simhash(features), forwards);
        }
    }
}
