//! Bit mixers: cheap functions from a word to a word that spread every bit of the input over all of the output. They are
//! part of what is stored (fingerprints, proofs), so none of them may ever change. Where a table in memory goes by values
//! that strangers choose, a [`HashKey`] comes before the mixer.

/// 2^64 divided by the golden ratio, made odd: the step of SplitMix64, and the usual factor of multiplicative hashing
/// (Knuth, "The Art of Computer Programming", volume 3, section 6.4).
pub(crate) const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 15 with the
/// constants of Stafford's variant 13): a small generator of 64-bit numbers. The same seed, which is the value inside,
/// gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number of the sequence.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_RATIO);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A hash of a 64-bit value: the first number that [`SplitMix64`] gives for this seed. Different values have different
/// hashes.
pub fn splitmix64(value: u64) -> u64 {
    SplitMix64(value).next_u64()
}

/// The factor of [`mix64`].
const MIX64: u64 = 0xd6e8_feb8_6659_fd93;

/// Spreads the bits of a 64-bit value: two rounds of xor-shift and multiply (degski's mixer, see Wellons, "Prospecting
/// for Hash Functions", 2018). A bijection that maps 0 to 0.
#[inline(always)]
pub(crate) fn mix64(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(MIX64);
    x ^= x >> 32;
    x = x.wrapping_mul(MIX64);
    x ^ (x >> 32)
}

/// One round of [`mix64`]: 32 well spread bits of a 64-bit value.
#[inline(always)]
pub(crate) fn mix64_to_32(x: u64) -> u32 {
    ((x ^ x >> 32).wrapping_mul(MIX64) >> 32) as u32
}

/// Spreads the bits of a 32-bit value: `lowbias32` (Wellons, "Prospecting for Hash Functions", 2018). A bijection that
/// maps 0 to 0.
#[inline]
pub(crate) fn mix32(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// The secret of a table in memory. Who does not know it cannot choose values that fall into one place of the table: the
/// mixers above are public and can be inverted. It decides where things stand and never what is answered, so the same
/// documents have the same stamps under every key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    factor: u64,
    term: u64,
}

impl HashKey {
    /// The same for everybody: for tests, replays, and documents that are one's own.
    pub const FIXED: HashKey = HashKey::new(GOLDEN_RATIO, 0);

    /// A key of two numbers, which for a secret one must be random. Who makes forests for strangers' documents draws them.
    pub const fn new(factor: u64, term: u64) -> HashKey {
        HashKey {
            factor: factor | 1,
            term,
        }
    }

    /// Another key for another table, as secret as this one.
    pub fn derived(self, table: u64) -> HashKey {
        let mut random = SplitMix64(self.factor ^ splitmix64(self.term ^ table));
        HashKey::new(random.next_u64(), random.next_u64())
    }

    /// 32 bits of a 32-bit value, well spread. Multiply-shift (Dietzfelbinger, "Universal hashing and k-wise independent
    /// random variables via integer arithmetic without primes", STACS 1996): over all keys any two values fall anywhere
    /// independently of each other. The mixer behind it takes away what order the multiplication leaves in counters.
    #[inline]
    pub(crate) fn hash32(self, x: u32) -> u32 {
        let product = u64::from(x).wrapping_mul(self.factor);
        mix32((product.wrapping_add(self.term) >> 32) as u32)
    }
}

/// Does not show the secret.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers for the seed 1234567, as other implementations give them.
    #[test]
    fn splitmix64_is_the_published_one() {
        let mut random = SplitMix64(1_234_567);
        let first = [(); 3].map(|()| random.next_u64());
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, published);
        assert_eq!(splitmix64(1_234_567), published[0]);
    }

    /// What is stored goes by these values.
    #[test]
    fn mixers_stay_as_they_are() {
        assert_eq!(mix64(0), 0);
        assert_eq!(mix64(1), 0x4179_b061_e0c0_e0d0);
        assert_eq!(mix64_to_32(1), 0xd6e8_feb8);
        assert_eq!(mix32(0), 0);
        assert_eq!(mix32(1), 0x6889_90c0);
    }
}
