//! Bit mixers: cheap functions that spread every bit of the input over all bits of the output. Stored values
//! (fingerprints, proofs) depend on them, so they must not change. Tables indexed by values that writers choose use a
//! [`HashKey`] before the mixer.

use std::hash::{BuildHasher, Hasher};

/// 2^64 divided by the golden ratio, made odd: the step of SplitMix64, and the usual factor of multiplicative hashing
/// (Knuth, "The Art of Computer Programming", volume 3, section 6.4).
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

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
pub fn mix64(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(MIX64);
    x ^= x >> 32;
    x = x.wrapping_mul(MIX64);
    x ^ (x >> 32)
}

/// Inverse of [`mix64`].
#[inline]
fn unmix64(mut x: u64) -> u64 {
    const INVERSE: u64 = inverse(MIX64);
    x ^= x >> 32;
    x = x.wrapping_mul(INVERSE);
    x ^= x >> 32;
    x = x.wrapping_mul(INVERSE);
    x ^ (x >> 32)
}

/// Multiplicative inverse of an odd factor modulo 2^64, by Newton's iteration, which doubles the number of correct
/// bits (Warren, "Hacker's Delight", second edition, section 10-16). The factor itself has three correct bits.
const fn inverse(factor: u64) -> u64 {
    let mut inverse = factor;
    let mut right = 3;
    while right < 64 {
        let error = 2_u64.wrapping_sub(factor.wrapping_mul(inverse));
        inverse = inverse.wrapping_mul(error);
        right *= 2;
    }
    inverse
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

/// Secret of an in-memory table. Without it, nobody can choose values that share a slot: the mixers are public and
/// invertible. It determines positions and never results, so stamps do not depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    factor: u64,
    term: u64,
}

impl HashKey {
    /// A fixed key for tests, replays and trusted documents.
    pub const FIXED: HashKey = HashKey::new(GOLDEN_RATIO, 0);

    /// Key from two numbers, which must be random for a secret key. Forests of a server use random ones.
    pub const fn new(factor: u64, term: u64) -> HashKey {
        HashKey { factor: factor | 1, term }
    }

    /// The two numbers from which [`new`](HashKey::new) makes this key.
    pub fn parts(self) -> [u64; 2] {
        [self.factor, self.term]
    }

    /// Derives an independent key for another table.
    pub fn derived(self, table: u64) -> HashKey {
        let mut random = self.random(table);
        HashKey::new(random.next_u64(), random.next_u64())
    }

    /// Derives numbers from the whole secret.
    pub fn random(self, table: u64) -> SplitMix64 {
        SplitMix64(self.factor ^ splitmix64(self.term ^ table))
    }

    /// 32 bits of a 32-bit value, well spread. Multiply-shift (Dietzfelbinger, "Universal hashing and k-wise
    /// independent random variables via integer arithmetic without primes", STACS 1996): over all keys any two values
    /// fall anywhere independently of each other. The mixer behind it takes away what order the multiplication leaves
    /// in counters.
    #[inline]
    pub fn hash32(self, x: u32) -> u32 {
        let product = u64::from(x).wrapping_mul(self.factor);
        mix32((product.wrapping_add(self.term) >> 32) as u32)
    }

    /// A bijection of the 64-bit values.
    pub fn permutation(self) -> Permutation {
        Permutation { key: self, inverse: inverse(self.factor) }
    }
}

/// Secret bijection of 64-bit values, invertible, so that a table indexed by the image need not store the value:
/// [`mix64`] after a secret multiplication and addition, as in [`HashKey::hash32`].
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    /// Its secret.
    pub key: HashKey,
    /// Inverse of the key's factor.
    inverse: u64,
}

impl Permutation {
    /// Image of a value.
    #[inline]
    pub fn mix(self, x: u64) -> u64 {
        mix64(x.wrapping_mul(self.key.factor).wrapping_add(self.key.term))
    }

    /// Value of an image.
    #[inline]
    pub fn unmix(self, image: u64) -> u64 {
        let product = unmix64(image).wrapping_sub(self.key.term);
        product.wrapping_mul(self.inverse)
    }
}

/// Secret hasher for maps with numeric keys; not for composite keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyedHasher {
    permutation: Permutation,
    hash: u64,
}

impl KeyedHasher {
    /// A hasher with this secret.
    pub fn new(key: HashKey) -> KeyedHasher {
        KeyedHasher { permutation: key.permutation(), hash: 0 }
    }
}

impl BuildHasher for KeyedHasher {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        *self
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.hash);
        self.write_u64(hash);
    }

    fn write_u64(&mut self, x: u64) {
        self.hash = self.permutation.mix(self.hash ^ x);
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// Hides the secret.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutations_are_undone(key in any::<(u64, u64)>(), x in any::<u64>()) {
            let permutation = HashKey::new(key.0, key.1).permutation();
            prop_assert_eq!(permutation.unmix(permutation.mix(x)), x);
            prop_assert_eq!(permutation.mix(permutation.unmix(x)), x);
            prop_assert_eq!(unmix64(mix64(x)), x);
        }
    }

    /// The first numbers for the seed 1234567, as other implementations give them.
    #[test]
    fn splitmix64_is_the_published_one() {
        let mut random = SplitMix64(1_234_567);
        let first = [(); 3].map(|()| random.next_u64());
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
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
