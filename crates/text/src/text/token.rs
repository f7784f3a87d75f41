//! Hashes of words, and which words are numbers.

use xxhash_rust::xxh3::xxh3_64;

/// XXH3 (64 bits): the hash of a segmented word, the feature that simhash adds up.
#[inline]
pub(super) fn word_hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

/// FNV-1a (64 bits): character by character, for numbers, of which separators are left out, and for words with other
/// letters than those of ASCII.
pub(super) const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
pub(super) const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

/// Seed and factor for words of ASCII letters, which are hashed eight letters at a time.
pub(super) const WORD_SEED: u64 = 0x9AE1_6A3B_2F90_404F;
const WORD_FACTOR: u64 = 0xE703_7ED1_A0B4_28DB;

/// One step of the hash of a word of ASCII letters: the folded product of wyhash (Wang Yi, 2019), which lets every bit
/// in reach every bit out.
#[inline(always)]
pub(super) fn wyhash_step(hash: u64, eight: u64) -> u64 {
    let product = u128::from(hash ^ eight) * u128::from(WORD_FACTOR);
    product as u64 ^ (product >> 64) as u64
}

/// A word of at most eight letters as `Lanes` has it.
const fn eight(word: &[u8]) -> u64 {
    let mut value = 0;
    let mut at = 0;
    while at < word.len() {
        value |= (word[at] as u64) << (8 * at);
        at += 1;
    }
    value
}

/// Small numbers that English spells out. `one` is left out: it is a pronoun as often.
const NUMERALS: [u64; 11] = [
    eight(b"two"),
    eight(b"three"),
    eight(b"four"),
    eight(b"five"),
    eight(b"six"),
    eight(b"seven"),
    eight(b"eight"),
    eight(b"nine"),
    eight(b"ten"),
    eight(b"eleven"),
    eight(b"twelve"),
];

/// A table of them in which each has a slot of its own, and the factor that makes it so.
const SPELLED: (u64, [u64; 32]) = {
    let mut factor = WORD_FACTOR;
    loop {
        let mut slots = [0; 32];
        let mut placed = 0;
        while placed < NUMERALS.len() {
            let slot = (NUMERALS[placed].wrapping_mul(factor) >> 59) as usize;
            if slots[slot] != 0 {
                break;
            }
            slots[slot] = NUMERALS[placed];
            placed += 1;
        }
        if placed == NUMERALS.len() {
            break (factor, slots);
        }
        factor = factor.wrapping_mul(WORD_FACTOR) | 1;
    }
};

/// Whether a word is a number spelled out; `eight` is its first letters, zeros behind its end.
#[inline(always)]
pub(super) fn is_numeral(eight: u64) -> bool {
    let (factor, slots) = &SPELLED;
    slots[(eight.wrapping_mul(*factor) >> 59) as usize] == eight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_numeral_has_its_slot_and_no_other_word_one() {
        assert!(NUMERALS.into_iter().all(is_numeral));
        for word in ["one", "tens", "to", "seventh", "twelves", "thirteen", "fou"] {
            assert!(!is_numeral(eight(word.as_bytes().get(..8).unwrap_or(word.as_bytes()))), "{word}");
        }
    }

    #[test]
    fn words_are_spread() {
        let words = (0..10_000u64).map(|n| wyhash_step(WORD_SEED, n));
        let mut low: Vec<u64> = words.map(|hash| hash & 0xFFFF_FFFF).collect();
        low.sort_unstable();
        low.dedup();
        assert!(low.len() > 9_990, "{}", low.len());
    }
}
