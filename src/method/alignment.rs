//! Aligns two texts token by token: runs of one that occur in the other, and the differences between the runs.
//!
//! The later text is walked through once. A run that occurs in the earlier text is followed as far as both agree;
//! where they diverge, both are scanned a few tokens ahead for the next agreement (`AHEAD`), and the skipped part is
//! a *place* with different content. If there is none, the next run is looked up in the whole earlier text, by a
//! table of its short runs. So a moved paragraph is found, and the work is a bounded number of steps per token for
//! any texts.

use std::ops::Range;

use crate::text::tokens::{CHARACTER, HASH, MOST, NUMBER, ONE_LETTER};

/// So many words of both are looked ahead for the next place at which they agree.
const AHEAD: usize = 8;
/// Places of a short run in the earlier text that are tried.
const TRIED: usize = 8;
/// Words of a short run, and characters.
const RUN_OF_WORDS: usize = 3;
const RUN_OF_CHARACTERS: usize = 5;
/// Tokens at the head of a text in which differing numbers are ignored: the date of a page.
const HEAD: usize = 12;
/// So many characters are two words at most.
const USAGE: usize = 4;
/// Other places that are remembered, to see which come again.
const REMEMBERED: usize = 32;

/// Of a character as much as of so many words.
const CHARACTER_IN_WORDS: f32 = 0.6;

const BUCKETS: usize = 1 << 11;
const NONE: u16 = u16::MAX;

/// The words of one text: of its title, and of its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlignedTokens<'a> {
    pub(crate) title: &'a [u16],
    pub(crate) body: &'a [u16],
}

/// Differences between two texts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Differences {
    /// Common tokens in words; characters count by the usual length of a word.
    pub words: f32,
    /// Share of the common part in the text that has less outside of it.
    pub most: f32,
    /// The same of the other text.
    pub least: f32,
    /// Places with different numbers.
    pub numbers: u16,
    /// Places where words of one title stand against words of the other.
    pub names: u16,
    /// Places that repeat an earlier replacement.
    pub repeated: u16,
    /// Other places with different content.
    pub others: u16,
    /// Places where a letter or a character is another one: typing errors.
    pub typos: u16,
    /// Places where the one text has something more, and where the texts go on elsewhere.
    pub breaks: u16,
}

impl Differences {
    /// Aligns a text with an earlier one.
    pub(crate) fn of(earlier: AlignedTokens<'_>, later: AlignedTokens<'_>) -> Differences {
        let within = |words: &'_ [u16]| words.len().min(MOST);
        let earlier = AlignedTokens { body: &earlier.body[..within(earlier.body)], ..earlier };
        let later = AlignedTokens { body: &later.body[..within(later.body)], ..later };
        Alignment::new(earlier, later).walk()
    }
}

/// The short runs of a text by their hashes.
struct RunTable<'a> {
    words: &'a [u16],
    heads: [u16; BUCKETS],
    next: [u16; MOST],
}

impl<'a> RunTable<'a> {
    fn new(words: &'a [u16]) -> RunTable<'a> {
        let mut table = RunTable { words, heads: [NONE; BUCKETS], next: [NONE; MOST] };
        // From behind, so that of equal ones the first is met first.
        for at in (0..words.len()).rev() {
            if let Some(run) = run_at(words, at) {
                let head = &mut table.heads[bucket(run)];
                table.next[at] = std::mem::replace(head, at as u16);
            }
        }
        table
    }

    /// Position of a run: the first at or behind `from`, else the first.
    fn find(&self, run: &[u16], from: usize) -> Option<usize> {
        let mut at = self.heads[bucket(run)];
        let mut first = None;
        for _ in 0..TRIED {
            if at == NONE {
                break;
            }
            let place = usize::from(at);
            if run_at(self.words, place) == Some(run) {
                if place >= from {
                    return Some(place);
                }
                first = first.or(Some(place));
            }
            at = self.next[place];
        }
        first
    }
}

fn run_at(words: &[u16], at: usize) -> Option<&[u16]> {
    let first = *words.get(at)?;
    let len = match is_character(first) {
        true => RUN_OF_CHARACTERS,
        false => RUN_OF_WORDS,
    };
    words.get(at..at + len)
}

fn bucket(run: &[u16]) -> usize {
    let hash = run.iter().fold(0u32, |hash, &word| (hash ^ u32::from(word)).wrapping_mul(0x9E37_79B1).rotate_left(13));
    (hash.wrapping_mul(0x85EB_CA6B) >> 21) as usize
}

fn is_number(word: u16) -> bool {
    word & NUMBER != 0
}

fn is_character(word: u16) -> bool {
    word & (NUMBER | CHARACTER) == CHARACTER
}

/// One walk.
struct Alignment<'a> {
    earlier: AlignedTokens<'a>,
    later: AlignedTokens<'a>,
    /// Built when it is first asked.
    table: Option<RunTable<'a>>,
    /// Words of the earlier text that were met, a bit each.
    met: [u64; MOST.div_ceil(64)],
    matched: usize,
    /// Hashes of earlier replacements.
    remembered: [u32; REMEMBERED],
    count: usize,
    found: Differences,
}

impl<'a> Alignment<'a> {
    fn new(earlier: AlignedTokens<'a>, later: AlignedTokens<'a>) -> Alignment<'a> {
        Alignment {
            earlier,
            later,
            table: None,
            met: [0; MOST.div_ceil(64)],
            matched: 0,
            remembered: [0; REMEMBERED],
            count: 0,
            found: Differences::default(),
        }
    }

    fn walk(mut self) -> Differences {
        let (old, new) = (self.earlier.body, self.later.body);
        let (mut i, mut j) = (0, 0);
        // Whether the words before `i` and `j` are a run that both have.
        let mut joined = false;
        while i < new.len() {
            if joined {
                let run = in_common(&old[j..], &new[i..]);
                if run > 0 {
                    mark(&mut self.met, j..j + run);
                    self.matched += run;
                    (i, j) = (i + run, j + run);
                    continue;
                }
                if let Some((more, less)) = ahead(&old[j..], &new[i..]) {
                    self.place(&old[j..j + less], &new[i..i + more]);
                    (i, j) = (i + more, j + less);
                    continue;
                }
            }
            let run = run_at(new, i);
            match run.and_then(|run| self.find(run, j)) {
                Some(at) => {
                    self.found.breaks += 1;
                    (j, joined) = (at, true);
                }
                None => {
                    i += 1;
                    joined = false;
                }
            }
        }
        self.sum_up()
    }

    /// Position of a run in the earlier text: the first at or behind `from`, else the first.
    fn find(&mut self, run: &[u16], from: usize) -> Option<usize> {
        let earlier = self.earlier.body;
        // Most texts begin alike, and many need no table.
        if from == 0 && run_at(earlier, 0) == Some(run) {
            return Some(0);
        }
        let table = self.table.get_or_insert_with(|| RunTable::new(earlier));
        table.find(run, from)
    }

    fn sum_up(self) -> Differences {
        let (old, new) = (self.earlier.body.len(), self.later.body.len());
        let met: u32 = self.met.iter().map(|bits| bits.count_ones()).sum();
        let ratio = |of: f32, all: usize| of / all.max(1) as f32;
        let (old, new) = (ratio(met as f32, old), ratio(self.matched as f32, new));
        let words = self.later.body.iter().filter(|word| is_character(**word));
        let characters = ratio(words.count() as f32, self.later.body.len());
        let unit = 1.0 - characters * (1.0 - CHARACTER_IN_WORDS);
        Differences {
            words: unit * (met as f32 + self.matched as f32) / 2.0,
            most: old.max(new),
            least: old.min(new),
            // The first run is no break.
            breaks: self.found.breaks.saturating_sub(1),
            ..self.found
        }
    }

    /// Here the one text has this and the other that, and both go on alike.
    fn place(&mut self, old: &[u16], new: &[u16]) {
        let found = &mut self.found;
        if old.is_empty() || new.is_empty() {
            found.breaks += 1;
            return;
        }
        let characters = old.iter().chain(new).any(|word| is_character(*word));
        let apart = sum(old).wrapping_sub(sum(new)) & HASH;
        let are_words = !characters && has_words(old) && has_words(new);
        if numbers(old).next().is_some() && numbers(new).next().is_some() {
            if !is_within(old, new) && !is_within(new, old) {
                if self.matched >= HEAD.min(self.later.body.len() / 10) {
                    found.numbers += 1;
                }
                return;
            }
            if !characters && apart == 0 {
                return;
            }
        }
        if characters && old.len() == 1 && new.len() == 1 {
            found.typos += 1;
            return;
        }
        let is_of_title = |words: &[u16], own: &[u16], other: &[u16]| {
            let mut words = words.iter().filter(|word| !is_number(**word));
            words.any(|word| own.contains(word) && !other.contains(word))
        };
        let (title, others) = (self.earlier.title, self.later.title);
        if are_words && apart == 0 {
            return;
        }
        // A few characters are one word, and the others its name elsewhere: `软件`, `软体`.
        let longer = old.len().max(new.len());
        let is_usage = |most| characters && longer <= most;
        if !is_usage(USAGE / 2) && is_of_title(old, title, others) && is_of_title(new, others, title) {
            found.names += 1;
        } else if are_words && ONE_LETTER[usize::from(apart) / 64] >> (apart % 64) & 1 == 1 {
            found.typos += 1;
            return;
        } else if self.remembered[..self.count].contains(&key(old, new)) {
            found.repeated += u16::from(!is_usage(USAGE));
        } else {
            found.others += 1;
        }
        if self.count < REMEMBERED {
            self.remembered[self.count] = key(old, new);
            self.count += 1;
        }
    }
}

/// How many words two texts begin with alike.
fn in_common(one: &[u16], other: &[u16]) -> usize {
    let eights = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let whole = 8 * eights.take_while(|(one, other)| one == other).count();
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(one, other)| one == other).count()
}

/// Sets a range of bits.
fn mark(bits: &mut [u64], range: Range<usize>) {
    let mut at = range.start;
    while at < range.end {
        let some = (64 - at % 64).min(range.end - at);
        bits[at / 64] |= u64::MAX >> (64 - some) << (at % 64);
        at += some;
    }
}

/// Tokens of the later and the earlier text before the next two that both have, or before the end of both; the
/// fewest.
fn ahead(old: &[u16], new: &[u16]) -> Option<(usize, usize)> {
    for both in 1..=2 * AHEAD {
        for more in both.saturating_sub(AHEAD)..=both.min(AHEAD) {
            let less = both - more;
            let (Some(a), Some(b)) = (old.get(less..), new.get(more..)) else {
                continue;
            };
            match (a, b) {
                ([x, p, ..], [y, q, ..]) if x == y && p == q => return Some((more, less)),
                ([x], [y]) if x == y => return Some((more, less)),
                _ => {}
            }
        }
    }
    let is_end = !old.is_empty() && old.len() <= AHEAD && new.len() <= AHEAD;
    is_end.then_some((new.len(), old.len()))
}

fn numbers(words: &[u16]) -> impl Iterator<Item = u16> + '_ {
    words.iter().copied().filter(|word| is_number(*word))
}

fn has_words(words: &[u16]) -> bool {
    words.iter().any(|word| word & (NUMBER | CHARACTER) == 0)
}

/// Whether the other words have all of the numbers of these.
fn is_within(words: &[u16], others: &[u16]) -> bool {
    numbers(words).all(|number| others.contains(&number))
}

/// The sum of the letters of all words.
fn sum(words: &[u16]) -> u16 {
    let words = words.iter().filter(|word| *word & (NUMBER | CHARACTER) == 0);
    words.fold(0u16, |sum, word| sum.wrapping_add(*word)) & HASH
}

fn key(old: &[u16], new: &[u16]) -> u32 {
    let all = old.iter().chain(&[NONE]).chain(new);
    all.fold(1, |key: u32, &word| (key ^ u32::from(word)).wrapping_mul(0x9E37_79B1).rotate_left(15))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(told(20, &[number, word], &[number, word - 600, 600]), none);
        assert_eq!(told(20, &[number], &[word]), other);
        assert_eq!(told(20, &[character], &[character + 1]), typo);
        assert_eq!(told(20, &[character, character], &[character + 1, character + 2]), other);
        assert_eq!(told(20, &[character], &[character + 1, character + 2]), other);
        assert_eq!(told(20, &[character], &[word]), typo);
        assert_eq!(told(20, &[character, word], &[word + near]), other, "not words alone");
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

    proptest! {
        #[test]
        fn the_nearest_place_ahead_is_found(
            old in prop::collection::vec(0u16..3, 0..14),
            new in prop::collection::vec(0u16..3, 0..14),
        ) {
            let mut places: Vec<(usize, usize)> = (0..=AHEAD).flat_map(|more| (0..=AHEAD).map(move |less| (more, less))).collect();
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
}
