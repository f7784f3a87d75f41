//! The 32-bit words within a Hamming radius of a word.

/// All words with exactly `weight` bits set, `weight` at most 32, in ascending order: Gosper's hack (HAKMEM, item 175).
pub(super) fn masks(weight: u32) -> impl Iterator<Item = u32> {
    let first = (1_u64 << weight) - 1;
    std::iter::successors(Some(first), move |&mask| {
        if mask == 0 {
            return None;
        }
        let lowest = mask & mask.wrapping_neg();
        let ripple = mask + lowest;
        // Divided by the lowest bit, without a division.
        Some(ripple | (mask ^ ripple) >> 2 >> lowest.trailing_zeros())
    })
    .map_while(|mask| u32::try_from(mask).ok())
}

/// The number of 32-bit words within `radius` of a word, itself included.
pub(super) fn size(radius: u32) -> u64 {
    size_in(32, radius)
}

/// As [`size`], for words of fewer bits.
pub(super) fn size_in(bits: u32, radius: u32) -> u64 {
    let mut term = 1_u64;
    let mut sum = 1_u64;
    for i in 0..u64::from(radius.min(bits)) {
        term = term * (u64::from(bits) - i) / (i + 1);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn masks_are_all_words_of_a_weight() {
        for weight in 0..=4 {
            let all: Vec<u32> = masks(weight).collect();
            assert!(all.iter().all(|mask| mask.count_ones() == weight));
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
            let below = if weight == 0 { 0 } else { size(weight - 1) };
            assert_eq!(all.len() as u64, size(weight) - below);
        }
        assert_eq!(masks(32).collect::<Vec<_>>(), [u32::MAX]);
    }

    #[test]
    fn sizes_are_sums_of_binomials() {
        assert_eq!([0, 1, 2, 3].map(size), [1, 33, 33 + 496, 33 + 496 + 4960]);
        assert_eq!(size(32), 1 << 32);
        assert_eq!([0, 1, 2].map(|radius| size_in(25, radius)), [1, 26, 26 + 300]);
        assert_eq!(size_in(25, 32), 1 << 25);
    }
}
