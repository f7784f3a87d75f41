//! Sums of letters, by which words are known.

use super::HASH;

/// What each letter of ASCII adds to its word.
const LETTERS: [u16; 128] = {
    let mut letters = [0; 128];
    let mut c = 0;
    while c < 128 {
        letters[c as usize] = letter(c);
        c += 1;
    }
    letters
};

/// What a letter adds to its word.
pub(super) const fn letter(c: u32) -> u16 {
    let mut x = (c as u64).wrapping_add(0x0123_4567).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x >> 40) as u16 & HASH
}

/// The sum of eight letters or digits; zeros add nothing.
#[inline(always)]
pub(in crate::text) fn sum_of(eight: u64) -> u16 {
    const EACH: u64 = 0x0001_0001_0001_0001;
    // Small letters, of which the fifth and the sixth bit are set, as most words are of nothing else: two at a time.
    if (eight ^ eight >> 1) & (0x2020 * EACH) == 0 {
        let pairs = eight & (0x001F * EACH) | eight >> 3 & (0x03E0 * EACH);
        let sum = |at: u32| PAIRS[usize::from((pairs >> (16 * at)) as u16 & 0x03FF)];
        let (first, last) = (sum(0).wrapping_add(sum(1)), sum(2).wrapping_add(sum(3)));
        return first.wrapping_add(last);
    }
    let letters = eight.to_le_bytes().map(|b| BYTES[usize::from(b)]);
    letters.iter().fold(0, |sum, &letter| sum.wrapping_add(letter))
}

/// [`LETTERS`] for every byte but zero, which is no letter.
static BYTES: [u16; 256] = {
    let mut bytes = [0; 256];
    let mut b = 1;
    while b < 128 {
        bytes[b] = LETTERS[b];
        b += 1;
    }
    bytes
};

/// The sums of two small letters, of which five bits each are the index; zeros are no letters.
static PAIRS: [u16; 1 << 10] = {
    let mut pairs = [0; 1 << 10];
    let mut pair = 0;
    while pair < 1 << 10 {
        let (one, other) = (pair & 0x1F, pair >> 5);
        let one = if one == 0 { 0 } else { LETTERS[0x60 | one] };
        let other = if other == 0 { 0 } else { LETTERS[0x60 | other] };
        pairs[pair] = one.wrapping_add(other);
        pair += 1;
    }
    pairs
};

/// What an `s` adds to its word.
pub(super) const S: u16 = LETTERS[b's' as usize];
