//! A secret linear map that spreads words over the buckets.

use spinney_text::hash::HashKey;

/// The number of bits of the words.
pub(super) const BITS: u32 = 25;

/// An invertible linear map of words of [`BITS`] bits over GF(2): the image of a word is the exclusive or of the images
/// of its bits. So a word with a bit flipped goes where the word does, with the image of that bit flipped, and all
/// neighbours of a word cost one look-up and one operation each. Random linear maps spread sets of words nearly as
/// evenly as random functions do (Alon, Dietzfelbinger, Miltersen, Petrank and Tardos, "Linear hash functions", JACM
/// 46(5), 1999), and invertible ones never let two words collide in all bits.
pub(super) struct Spread {
    /// The images of all words that have bits in one byte only, by that byte.
    bytes: Box<[[u32; 256]; 4]>,
}

impl Spread {
    pub(super) fn new(secret: HashKey) -> Self {
        let mut random = secret.random(0);
        let mut images = [0_u32; BITS as usize];
        // The images up to here, reduced to a basis in which no two have the same highest bit.
        let mut basis: Vec<u32> = Vec::new();
        for image in &mut images {
            loop {
                *image = (random.next_u64() >> (64 - BITS)) as u32;
                let rest = basis.iter().fold(*image, |rest, base| rest.min(rest ^ base));
                if rest != 0 {
                    basis.push(rest);
                    basis.sort_unstable_by(|a, b| b.cmp(a));
                    break;
                }
            }
        }
        let mut bytes = Box::new([[0; 256]; 4]);
        for (byte, table) in bytes.iter_mut().enumerate() {
            for (value, place) in table.iter_mut().enumerate() {
                let bits = (0..8).filter(|bit| value >> bit & 1 == 1);
                let images = bits.filter_map(|bit| images.get(byte * 8 + bit));
                *place = images.fold(0, |sum, image| sum ^ image);
            }
        }
        Spread { bytes }
    }

    /// The image of a word.
    #[inline]
    pub(super) fn image(&self, word: u32) -> u32 {
        let [a, b, c, d] = word.to_le_bytes();
        self.bytes[0][a as usize] ^ self.bytes[1][b as usize] ^ self.bytes[2][c as usize] ^ self.bytes[3][d as usize]
    }
}

/// Does not show the secret.
impl std::fmt::Debug for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spread")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_linear_and_invertible_for_every_secret() {
        for seed in 0..50 {
            let spread = Spread::new(HashKey::FIXED.derived(seed));
            let words = (0..100).map(|i| (spinney_text::hash::splitmix64(i) >> (64 - BITS)) as u32);
            for word in words {
                assert!(spread.image(word) < 1 << BITS);
                for bit in 0..BITS {
                    let flipped = spread.image(word) ^ spread.image(1 << bit);
                    assert_eq!(spread.image(word ^ 1 << bit), flipped);
                }
            }
        }
        let spread = Spread::new(HashKey::FIXED);
        let mut seen = vec![false; 1 << BITS];
        for word in 0..1 << BITS {
            let seen = &mut seen[spread.image(word) as usize];
            assert!(!std::mem::replace(seen, true));
        }
    }

    #[test]
    fn depends_on_all_of_the_secret() {
        let image = |key: HashKey| Spread::new(key).image(1);
        let key = HashKey::new(3, 5);
        assert_ne!(image(key), image(HashKey::new(5, 5)));
        assert_ne!(image(key), image(HashKey::new(3, 6)));
        assert_ne!(image(key), image(HashKey::new(1 << 63 | 3, 5)));
    }
}
