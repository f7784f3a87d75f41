use proptest::prelude::*;

use super::*;
use crate::text::shingler::tests::read;

fn differences(one: &str, other: &str) -> Differences {
    let (one, other) = (read(one), read(other));
    let words = |body| AlignedTokens { title: &[], body };
    Differences::of(words(one.row()), words(other.row()))
}

const GRANT: &str = "The ministry announced today that the fire brigade of Harrowgate will receive $38,071 for breathing apparatus. \
    The money comes from the programme for rural brigades. The brigade of Harrowgate had applied in spring, and the municipality pays the rest.";

#[test]
fn a_text_and_itself() {
    let same = differences(GRANT, GRANT);
    assert_eq!((same.most, same.least), (1.0, 1.0));
    assert_eq!(Differences { words: 0.0, most: 0.0, least: 0.0, ..same }, Differences::default());
    assert_eq!(same.words as usize, read(GRANT).row().len());
}

#[test]
fn places_are_told_apart() {
    let form = GRANT.replace("Harrowgate", "Pellbrook").replace("38,071", "117,400");
    let found = differences(GRANT, &form);
    assert_eq!((found.numbers, found.others, found.repeated), (1, 1, 1), "{found:?}");
    let notation = GRANT.replace("38,071", "38 071").replace("brigades", "brigade's");
    let found = differences(GRANT, &notation);
    assert_eq!((found.numbers, found.others, found.typos), (0, 0, 0), "{found:?}");
    let typed = GRANT.replace("money", "mony").replace("receive", "recieve").replace("spring", "sprang");
    let found = differences(GRANT, &typed);
    assert_eq!((found.numbers, found.others, found.typos), (0, 0, 2), "{found:?}");
}

#[test]
fn more_on_one_side_is_a_break_at_most() {
    let framed = format!("Home News Sport Weather. {GRANT} Subscribe to our newsletter.");
    let found = differences(GRANT, &framed);
    assert_eq!((found.most, found.breaks, found.others), (1.0, 0, 0), "{found:?}");
    let (first, second) = GRANT.split_at(GRANT.find("The money").unwrap());
    let moved = differences(GRANT, &format!("{second} {first}"));
    assert!(moved.least > 0.95 && moved.breaks == 1, "{moved:?}");
}

#[test]
fn names_of_the_titles_are_told() {
    let (one, other) = (read("Grant for Harrowgate"), read("Grant for Pellbrook"));
    let (old, new) = (read(GRANT), read(&GRANT.replace("Harrowgate", "Pellbrook")));
    let earlier = AlignedTokens { title: one.row(), body: old.row() };
    let later = AlignedTokens { title: other.row(), body: new.row() };
    assert_eq!(Differences::of(earlier, later).names, 2);
}

/// Whether two words that differ so much differ in one letter.
fn is_one_letter(apart: u16) -> bool {
    ONE_LETTER[usize::from(apart) / 64] >> (apart % 64) & 1 == 1
}

/// What is told of two texts that have this and that in the same place, behind so many words that both have.
fn told(behind: u16, one: &[u16], other: &[u16]) -> Differences {
    let (head, tail): (Vec<u16>, Vec<u16>) = ((0..behind).collect(), (500..506).collect());
    let (old, new) = ([&head, one, &tail].concat(), [&head, other, &tail].concat());
    let words = |body| AlignedTokens { title: &[], body };
    Differences { words: 0.0, most: 0.0, least: 0.0, ..Differences::of(words(&old), words(&new)) }
}

#[test]
fn each_kind_of_place_counts_as_what_it_is() {
    let near = (1..HASH).find(|&apart| is_one_letter(apart)).unwrap();
    let is_far = |apart: &u16| !is_one_letter(*apart) && !is_one_letter(HASH + 1 - apart);
    let far = (1..HASH).find(is_far).unwrap();
    let word = 1_000;
    let (number, character) = (NUMBER | 7, CHARACTER | 7);
    let none = Differences::default();
    let other = Differences { others: 1, ..none };
    let typo = Differences { typos: 1, ..none };
    assert_eq!(told(20, &[word], &[word + far]), other);
    assert_eq!(told(20, &[word + near], &[word]), typo);
    assert_eq!(told(20, &[word], &[600, word - 600]), none, "one word in two");
    assert_eq!(told(20, &[word], &[]), Differences { breaks: 1, ..none });
    assert_eq!(told(20, &[], &[word]), Differences { breaks: 1, ..none });
    assert_eq!(told(20, &[number], &[number + 1]), Differences { numbers: 1, ..none });
    assert_eq!(told(20, &[word, number], &[number, word + far]), other, "the same number, and other words");
    assert_eq!(told(20, &[number, number + 1], &[number + 1, number]), none, "the same numbers");
    assert_eq!(told(20, &[word, number], &[number, number + 1]), other, "one more number");
    assert_eq!(told(20, &[number, number + 1], &[word, number]), other, "one number fewer");
    assert_eq!(told(20, &[number, word], &[number, word - 600, 600]), none);
    assert_eq!(told(20, &[number], &[word]), other);
    assert_eq!(told(20, &[character], &[character + 1]), typo);
    assert_eq!(told(20, &[character, character], &[character + 1, character + 2]), other);
    assert_eq!(told(20, &[character], &[character + 1, character + 2]), other);
    assert_eq!(told(20, &[character], &[word]), typo);
    // Sums that differ by a letter, of more than words.
    let minus_near = HASH + 1 - near;
    assert_eq!(told(20, &[character, word + near], &[word]), other);
    assert_eq!(told(20, &[word + near], &[character, word]), other);
    assert_eq!(told(20, &[near], &[number]), other);
    assert_eq!(told(20, &[number], &[minus_near]), other);
}

#[test]
fn numbers_at_the_head_are_its_date() {
    let numbers = |behind| told(behind, &[NUMBER | 1], &[NUMBER | 2]).numbers;
    // A tenth of a short text, and at most the head.
    assert_eq!([33, 3, 4].map(numbers), [1, 1, 1]);
    let (old, new): (Vec<u16>, Vec<u16>) = ((0..200).collect(), (0..200).collect());
    let at = |place: usize| {
        let (mut old, mut new) = (old.clone(), new.clone());
        (old[place], new[place]) = (NUMBER | 1, NUMBER | 2);
        let words = |body| AlignedTokens { title: &[], body };
        Differences::of(words(&old), words(&new)).numbers
    };
    assert_eq!([HEAD - 1, HEAD].map(at), [0, 1]);
}

#[test]
fn a_replacement_that_comes_again_is_repeated() {
    let (word, apart) = (1_000, (1..HASH).find(|&apart| !is_one_letter(apart)).unwrap());
    let between = [300, 301, 302];
    let thrice = |one: &[u16]| [one, &between, one, &between, one].concat();
    let found = |one: &[u16], other: &[u16]| {
        let found = told(20, &thrice(one), &thrice(other));
        (found.others, found.repeated)
    };
    assert_eq!(found(&[word], &[word + apart]), (1, 2));
    let characters = |from: u16, len: u16| (from..from + len).map(|n| CHARACTER | n).collect::<Vec<_>>();
    // So few are a usage, which says nothing when it comes again.
    assert_eq!(found(&characters(0, 4), &characters(50, 4)), (1, 0));
    assert_eq!(found(&characters(0, 5), &characters(50, 5)), (1, 2));
    // What stands for another word is another replacement.
    let is_far = |of: u16| !is_one_letter(1_000u16.wrapping_sub(of) & HASH);
    let stead = (2_000..3_000).find(|&of| is_far(of) && is_far(of - 1)).unwrap();
    let two = told(20, &[&[1_000], &between[..], &[1_001]].concat(), &[&[stead], &between[..], &[stead]].concat());
    assert_eq!((two.others, two.repeated), (2, 0));
    // Another one of the same words in another order is another one.
    let two = told(
        20,
        &[&[word], &between[..], &[word + apart]].concat(),
        &[&[word + apart], &between[..], &[word]].concat(),
    );
    assert_eq!((two.others, two.repeated), (2, 0));
}

#[test]
fn names_of_titles_are_longer_than_a_usage() {
    let characters = |from: u16, len: u16| (from..from + len).map(|n| CHARACTER | n).collect::<Vec<_>>();
    let names = |title: &[u16], one: &[u16], other_title: &[u16], other: &[u16]| {
        let (head, tail): (Vec<u16>, Vec<u16>) = ((0..20).collect(), (500..506).collect());
        let (old, new) = ([&head, one, &tail].concat(), [&head, other, &tail].concat());
        let (old, new) = (AlignedTokens { title, body: &old }, AlignedTokens { title: other_title, body: &new });
        Differences::of(old, new).names
    };
    for (len, expected) in [(2, 0), (3, 1)] {
        let (one, other) = (characters(0, len), characters(50, len));
        assert_eq!(names(&one, &one, &other, &other), expected, "{len}");
        assert_eq!(names(&one, &one, &[], &other), 0, "it is in one title alone");
        let both = [one.clone(), other.clone()].concat();
        assert_eq!(names(&both, &one, &both, &other), 0, "it is in both titles");
    }
    let one = [NUMBER | 1, 1_000];
    assert_eq!(names(&one, &one, &[NUMBER | 1, 3_000], &[NUMBER | 1, 3_000]), 1);
    assert_eq!(names(&[NUMBER | 1], &one, &[NUMBER | 2], &[3_000]), 0, "a number is no name");
}

#[test]
fn the_common_part_counts_in_words_of_both() {
    let words: Vec<u16> = (0..20).collect();
    let characters: Vec<u16> = words.iter().map(|word| CHARACTER | word).collect();
    let of = |old: &[u16], new: &[u16]| {
        let words = |body| AlignedTokens { title: &[], body };
        let found = Differences::of(words(old), words(new));
        (found.words, found.most, found.least)
    };
    assert_eq!(of(&words, &words), (20.0, 1.0, 1.0));
    assert_eq!(of(&words, &words[..10]), (10.0, 1.0, 0.5));
    assert_eq!(of(&characters, &characters), (20.0 * CHARACTER_IN_WORDS, 1.0, 1.0));
    let mixed = [&words[..10], &characters[..10]].concat();
    assert_eq!(of(&mixed, &mixed), (20.0 * (1.0 + CHARACTER_IN_WORDS) / 2.0, 1.0, 1.0));
    assert_eq!(of(&words, &[]), (0.0, 0.0, 0.0));
    // What comes twice is met once.
    let twice = [&words[..], &words[..]].concat();
    assert_eq!(of(&words, &twice), (30.0, 1.0, 1.0));
}

#[test]
fn short_ends_that_differ_are_one_place() {
    let words = |from: u16, len: usize| (from..).take(len).collect::<Vec<u16>>();
    let ends = |old, new| ahead(&words(0, old), &words(100, new));
    assert_eq!(ends(AHEAD, AHEAD), Some((AHEAD, AHEAD)));
    assert_eq!(ends(1, 0), Some((0, 1)));
    assert_eq!([ends(AHEAD + 1, 1), ends(1, AHEAD + 1), ends(0, 1)], [None; 3]);
}

proptest! {
    #[test]
    fn the_nearest_place_ahead_is_found(
        old in prop::collection::vec(0u16..3, 0..14),
        new in prop::collection::vec(0u16..3, 0..14),
    ) {
        let skipped = (0..=AHEAD).flat_map(|more| (0..=AHEAD).map(move |less| (more, less)));
        let mut places: Vec<(usize, usize)> = skipped.collect();
        places.sort_by_key(|&(more, less)| (more + less, more));
        let agree = |&&(more, less): &&(usize, usize)| {
            let (Some(a), Some(b)) = (old.get(less..), new.get(more..)) else { return false };
            let both = a.len().min(b.len()).min(2);
            more + less > 0 && a[..both] == b[..both] && (both == 2 || both == 1 && a.len() == b.len())
        };
        let is_end = !old.is_empty() && old.len() <= AHEAD && new.len() <= AHEAD;
        let expected = places.iter().find(agree).copied().or(is_end.then_some((new.len(), old.len())));
        prop_assert_eq!(ahead(&old, &new), expected);
    }

    /// Whatever the words are: the ratios are ratios, and no word is met that the other text has not.
    #[test]
    fn runs_are_as_long_as_word_by_word(
        one in prop::collection::vec(0u16..2, 0..60),
        other in prop::collection::vec(0u16..2, 0..60),
    ) {
        let alike = one.iter().zip(&other).take_while(|(one, other)| one == other);
        prop_assert_eq!(in_common(&one, &other), alike.count());
        prop_assert_eq!(in_common(&one, &one), one.len());
    }

    #[test]
    fn a_range_is_marked_bit_by_bit(from in 0usize..200, len in 0usize..200) {
        let mut bits = [0u64; 7];
        mark(&mut bits, from..from + len);
        for at in 0..bits.len() * 64 {
            let is_set = bits[at / 64] >> (at % 64) & 1 == 1;
            prop_assert_eq!(is_set, (from..from + len).contains(&at), "{}", at);
        }
    }

    #[test]
    fn what_needs_no_table_is_what_the_table_says(
        body in prop::collection::vec(0u16..3, 0..60),
        other in prop::collection::vec(0u16..3, 0..60),
    ) {
        let words = |body| AlignedTokens { title: &[], body };
        for run in [&body, &other].into_iter().filter_map(|body| run_at(body, 0)) {
            let found = Alignment::new(words(&body), words(&other)).find(run, 0);
            prop_assert_eq!(found, RunTable::new(&body).find(run, 0));
        }
    }

    #[test]
    fn no_more_is_in_common_than_can_be(
        old in prop::collection::vec(prop_oneof![0u16..6, 0x4000u16..0x4004, 0x8400u16..0x8403], 0..120),
        new in prop::collection::vec(prop_oneof![0u16..6, 0x4000u16..0x4004, 0x8400u16..0x8403], 0..120),
    ) {
        let words = |body| AlignedTokens { title: &[], body };
        let found = Differences::of(words(&old), words(&new));
        let within = |some: &[u16], all: &[u16]| {
            let count = some.iter().filter(|word| all.contains(word)).count();
            count as f32 / some.len().max(1) as f32
        };
        prop_assert!(found.least >= 0.0 && found.least <= found.most);
        let (one, other) = (within(&old, &new), within(&new, &old));
        prop_assert!(found.most <= one.max(other) + 1e-6);
        prop_assert!(found.least <= one.min(other) + 1e-6 || found.least <= one.max(other) + 1e-6);
        if old == new && old.len() >= RUN_OF_CHARACTERS {
            prop_assert_eq!(found.others + found.numbers + found.names, 0);
        }
    }
}
