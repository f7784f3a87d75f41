//! Numbers as evidence that two similar texts differ.
//!
//! Reports from templates differ in their numbers only, while a reprint keeps its numbers.
//!
//! A number is compared only with the number in the same place of the other text. A place is identified by its
//! context, the two words before it and the one behind it, so that an added or dropped paragraph makes no difference.
//! A fixed number of contexts is kept, those with the smallest hashes, so that two texts with the same contexts keep
//! the same ones.

/// A number of a text, with its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// Hash of the words around it.
    pub context: u32,
    /// Hash of the number.
    pub value: u32,
    /// Index of the number's sentence in `Shingles::sentences`; beyond the end for a sentence that is not listed there.
    pub sentence: u32,
}

/// How many numbers of a document are kept.
pub(crate) const MAX_NUMBERS: usize = 10;

/// Number of clear places below which unclear ones count too. A clear place has one number, an unclear one several
/// different numbers: bulletins and price lists have hardly any clear ones.
const FEW_CLEAR_PLACES: usize = 3;

/// Bits of the value in a kept number; the upper 11 bits are the context.
const VALUE_BITS: u32 = 5;

/// Least share of differing numbers that refuses a document, in per cent of the numbers in the same places.
const REFUSED_SHARE: usize = 15;

/// The numbers of a document that are kept, in ascending order of their contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NumberSample {
    numbers: [u16; MAX_NUMBERS],
    len: u8,
}

/// Result of comparing two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Places with the same number on both sides.
    pub same: usize,
    /// Places with different numbers.
    pub different: usize,
}

impl Comparison {
    /// Whether so many numbers differ that the texts are two of one template.
    pub fn refuses(self) -> bool {
        self.different * 100 >= REFUSED_SHARE * (self.same + self.different) && self.different > 0
    }
}

impl NumberSample {
    /// Samples the numbers of a document. Sorts `numbers` by place, keeping the order of the text within a place. A
    /// place with several different numbers is weak evidence, because a dropped paragraph removes some of them: only
    /// the first counts, and only if the text has few other places.
    pub(crate) fn of(numbers: &mut [Number]) -> NumberSample {
        numbers.sort_by_key(|number| number.context);
        let clear = |place: &[Number]| place.windows(2).all(|two| matches!(two, [a, b] if a.value == b.value));
        let places = || numbers.chunk_by(|a, b| a.context == b.context);
        let few = places().filter(|place| clear(place)).take(FEW_CLEAR_PLACES).count() < FEW_CLEAR_PLACES;
        let mut sample = NumberSample::default();
        for place in places().filter(|place| few || clear(place)) {
            let Some(first) = place.first() else { continue };
            let context = (first.context >> (16 + VALUE_BITS)) as u16;
            let value = (first.value >> (32 - VALUE_BITS)) as u16;
            if !sample.push(context << VALUE_BITS | value) {
                break;
            }
        }
        sample
    }

    /// Inverse of [`words`](NumberSample::words). Extra words are ignored.
    pub(crate) fn from_words(words: impl Iterator<Item = u16>) -> NumberSample {
        let mut sample = NumberSample::default();
        for word in words {
            sample.push(word);
        }
        sample
    }

    /// The packed numbers and their count.
    pub(crate) fn parts(self) -> ([u16; MAX_NUMBERS], u8) {
        (self.numbers, self.len)
    }

    /// Inverse of [`parts`](NumberSample::parts).
    pub(crate) fn of_parts(numbers: [u16; MAX_NUMBERS], len: u8) -> NumberSample {
        NumberSample { numbers, len }
    }

    /// The kept numbers, each packed into a word of 16 bits.
    pub(crate) fn words(&self) -> &[u16] {
        self.numbers.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Adds a packed number. Returns false if the sample is full.
    fn push(&mut self, word: u16) -> bool {
        match self.numbers.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = word;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Compares the numbers in the same places. A full sample knows nothing of contexts above its last one, so the
    /// comparison ends there.
    pub(crate) fn compare(&self, other: &NumberSample) -> Comparison {
        let context = |word: &u16| word >> VALUE_BITS;
        let last = |sample: &NumberSample| match sample.words() {
            words @ [.., last] if words.len() == MAX_NUMBERS => context(last),
            _ => u16::MAX,
        };
        let limit = last(self).min(last(other));
        let (mut ours, mut theirs) = (self.words().iter().peekable(), other.words().iter().peekable());
        let mut comparison = Comparison::default();
        while let (Some(&a), Some(&b)) = (ours.peek(), theirs.peek()) {
            if context(a).min(context(b)) > limit {
                break;
            }
            match context(a).cmp(&context(b)) {
                std::cmp::Ordering::Less => {
                    ours.next();
                }
                std::cmp::Ordering::Greater => {
                    theirs.next();
                }
                std::cmp::Ordering::Equal => {
                    if a == b {
                        comparison.same += 1;
                    } else {
                        comparison.different += 1;
                    }
                    ours.next();
                    theirs.next();
                }
            }
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(context: u32, value: u32) -> Number {
        Number { context: context << (16 + VALUE_BITS), value: value << (32 - VALUE_BITS), sentence: 0 }
    }

    fn sample(numbers: &[(u32, u32)]) -> NumberSample {
        let mut numbers: Vec<Number> = numbers.iter().map(|&(c, v)| number(c, v)).collect();
        NumberSample::of(&mut numbers)
    }

    #[test]
    fn the_same_numbers_agree_whatever_was_added() {
        let a = sample(&[(1, 1), (2, 2), (3, 3)]);
        let b = sample(&[(9, 5), (3, 3), (1, 1), (2, 2), (7, 7)]);
        assert_eq!(a.compare(&b), Comparison { same: 3, different: 0 });
        assert!(!a.compare(&b).refuses());
    }

    #[test]
    fn a_template_with_other_numbers_is_refused() {
        let a = sample(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
        let b = sample(&[(1, 1), (2, 9), (3, 3), (4, 4)]);
        assert_eq!(a.compare(&b), Comparison { same: 3, different: 1 });
        assert!(a.compare(&b).refuses());
    }

    #[test]
    fn one_number_of_many_may_differ() {
        let a: Vec<(u32, u32)> = (0..8).map(|n| (n, 1)).collect();
        let mut b = a.clone();
        b[3].1 = 2;
        assert_eq!(sample(&a).compare(&sample(&b)), Comparison { same: 7, different: 1 });
        assert!(!sample(&a).compare(&sample(&b)).refuses());
    }

    #[test]
    fn texts_without_common_places_are_not_refused() {
        assert_eq!(sample(&[]).compare(&sample(&[(1, 1)])), Comparison::default());
        assert!(!sample(&[(1, 1)]).compare(&sample(&[(2, 2)])).refuses());
    }

    #[test]
    fn a_place_of_several_numbers_counts_where_there_are_few_others() {
        let others = [(2, 5), (3, 6), (4, 7)];
        let all = [&[(1, 1), (1, 2)], &others[..]].concat();
        assert_eq!(sample(&all), sample(&others));
        assert_eq!(sample(&all[..4]), sample(&[(1, 1), (2, 5), (3, 6)]));
        assert_eq!(sample(&[(1, 1), (1, 1)]), sample(&[(1, 1)]));
    }

    #[test]
    fn a_bulletin_that_says_everything_twice_is_refused_for_its_numbers() {
        let bulletin = |hogs, cattle| sample(&[(1, hogs), (2, hogs + 1), (1, cattle), (2, cattle + 1)]);
        let (monday, tuesday) = (bulletin(3, 7), bulletin(4, 9));
        assert!(!monday.compare(&monday).refuses());
        assert!(monday.compare(&tuesday).refuses());
    }

    #[test]
    fn beyond_a_full_sample_nothing_is_compared() {
        let full: Vec<(u32, u32)> = (0..40).map(|n| (2 * n, 1)).collect();
        let beyond = sample(&[(2 * 39, 2)]);
        assert_eq!(sample(&full).words().len(), MAX_NUMBERS);
        assert_eq!(sample(&full).compare(&beyond), Comparison::default());
    }

    proptest! {
        #[test]
        fn the_comparison_is_that_of_maps_and_has_no_sides(
            a in prop::collection::btree_map(0u32..2048, 0u32..32, 0..MAX_NUMBERS),
            b in prop::collection::btree_map(0u32..2048, 0u32..32, 0..MAX_NUMBERS),
        ) {
            let x = sample(&a.iter().map(|(&c, &v)| (c, v)).collect::<Vec<_>>());
            let y = sample(&b.iter().map(|(&c, &v)| (c, v)).collect::<Vec<_>>());
            let both = || a.iter().filter_map(|(c, v)| b.get(c).map(|w| v == w));
            let expected = Comparison {
                same: both().filter(|&same| same).count(),
                different: both().filter(|&same| !same).count(),
            };
            prop_assert_eq!(x.compare(&y), expected);
            prop_assert_eq!(y.compare(&x), expected);
            prop_assert_eq!(NumberSample::from_words(x.words().iter().copied()), x);
        }
    }
}
