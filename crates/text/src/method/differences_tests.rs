use proptest::prelude::*;

use super::super::aligned_tokens::{LONGER, Sentences, TokensHead, own_line};
use super::*;
use crate::method::{LearnedText, Lesson};
use crate::text::sentence_key::SentenceKey;
use crate::text::tokens::{CHARACTER, NUMBER};

/// One text: title, sentences with the number of their key, 0 for none.
#[derive(Debug, Clone, Default)]
struct Text {
    head: TokensHead,
    title: Vec<u16>,
    entries: Vec<[u16; 3]>,
    body: Vec<u16>,
}

impl Text {
    fn new(body: Vec<u16>) -> Text {
        Text { body, ..Text::default() }
    }

    fn titled(mut self, title: &[u16]) -> Text {
        self.title = title.to_vec();
        self
    }

    /// The same with more tokens behind it, which are the sentence with this hash.
    fn sentence(mut self, tokens: &[u16], hash: u64) -> Text {
        if self.entries.is_empty() {
            self.entries.push(Sentences::entry(self.body.len() as u16, None));
        }
        self.body.extend_from_slice(tokens);
        self.entries.push(Sentences::entry(self.body.len() as u16, Some(SentenceKey::of(hash))));
        self
    }

    fn tokens(&self) -> AlignedTokens<'_> {
        let sentences = Sentences(&self.entries);
        AlignedTokens { head: self.head, title: &self.title, sentences, body: &self.body }
    }
}

fn row(from: u16, len: usize) -> Vec<u16> {
    (from..).take(len).collect()
}

fn between(old: &Text, new: &Text) -> Differences {
    Differences::of(old.tokens(), new.tokens(), LearnedView::default())
}

/// What two texts tell that have this and that in the same place among 40 words that both have.
fn told(one: &[u16], other: &[u16]) -> Differences {
    let text = |own: &[u16]| Text::new([&row(0, 20), own, &row(100, 20)].concat());
    between(&text(one), &text(other))
}

const WORD: u16 = 5_000;
/// Another word, and not one with a typing error.
const OTHER: u16 = 7_001;
const N: u16 = NUMBER | 7;

#[test]
fn a_text_and_itself_differ_in_nothing() {
    let text = Text::new(row(0, 40)).titled(&row(900, 5));
    let expected = Differences {
        words: 40.0,
        most: 1.0,
        least: 1.0,
        common_facts: 40,
        alike: Some(1.0),
        ..Differences::default()
    };
    assert_eq!(between(&text, &text), expected);
}

#[test]
fn only_what_stands_against_something_tells() {
    let more = told(&[], &row(6_000, 30));
    assert_eq!((more.numbers, more.own_facts, more.titles, more.replaced, more.most), (0.0, 0.0, 0, 0.0, 1.0));
    assert!(more.least < 0.6);
    let changed = told(&[WORD], &[OTHER]);
    assert_eq!((changed.own_facts, changed.replaced), (1.0, 0.0));
}

#[test]
fn numbers_tell_where_both_texts_miss_the_others() {
    assert_eq!(told(&[N], &[N + 1]).numbers, 1.0);
    assert_eq!(told(&[N], &[WORD]).numbers, 0.0);
    assert_eq!(told(&[N, N + 1], &[N + 1, N]).numbers, 0.0, "the same in another order");
    assert_eq!(told(&[N], &[N, N + 1]).numbers, 0.0, "one more");
    let thousands = NUMBER | 3 << 10;
    let more = thousands | 150;
    for (one, other) in [
        (&[N][..], &[N, thousands][..]),
        (&[N, thousands], &[N, thousands, thousands]),
        (&[N], &[N, more]),
        (&[N], &[N, more, thousands]),
        (&[N, more], &[N, more, more]),
    ] {
        for found in [told(one, other), told(other, one)] {
            assert!((found.numbers - 1.0 / 3.0).abs() < 1e-6, "a thousand times as much: {found:?}");
        }
    }
    assert_eq!(told(&[WORD], &[WORD, more]).numbers, 0.0, "a group behind no number");
    assert_eq!(told(&[N], &[N, NUMBER | 2 << 10 | 15]).numbers, 0.0, "no group, but another number");
    // A number that stands elsewhere in the other text counts a third.
    let with =
        |own: u16, behind: u16| Text::new([&row(0, 20)[..], &[own], &row(100, 20), &[behind], &row(200, 9)].concat());
    let found = between(&with(N, N + 1), &with(N + 1, N + 1));
    assert!((found.numbers - 1.0 / 3.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn a_place_has_so_many_tokens() {
    let numbers = |len: usize| {
        let with = |number: u16, from: u16| [&[number][..], &row(from, len - 1)].concat();
        told(&with(N, 5_000), &with(N + 1, 9_000)).numbers
    };
    assert_eq!([LONGEST_PLACE, LONGEST_PLACE + 1].map(numbers), [1.0, 0.0]);
}

#[test]
fn a_piece_in_the_place_of_another_one_is_replaced() {
    let replaced = |len: usize| told(&row(5_000, len), &row(9_000, len + 3)).replaced;
    let piece = PIECE as usize;
    assert_eq!([piece - 1, piece].map(replaced), [0.0, PIECE]);
    assert_eq!(told(&row(5_000, piece - 1), &row(9_000, 50)).replaced, 0.0, "the shorter one counts");
}

#[test]
fn what_both_texts_open_with_is_told_apart() {
    let piece = |from: u16| row(from, PIECE as usize);
    let text = |opening: u16| Text::new([&piece(opening)[..], &row(0, 40)].concat());
    let found = between(&text(5_000), &text(9_000));
    assert_eq!((found.replaced, found.opening), (PIECE, PIECE));
    // Nor is it one where one of the texts has something before it.
    let later = Text::new([&[7_777][..], &row(0, 20), &piece(9_000), &row(20, 20)].concat());
    let earlier = Text::new([&row(0, 20)[..], &piece(5_000), &row(20, 20)].concat());
    let found = between(&earlier, &later);
    assert_eq!((found.replaced, found.opening), (PIECE, 0.0));
}

#[test]
fn a_rare_word_counts_less_in_a_piece_than_in_a_place() {
    let facts = |len: usize| told(&row(5_000, len), &row(9_000, len)).own_facts;
    assert_eq!(facts(LONGEST_PLACE), LONGEST_PLACE as f32);
    assert!((facts(LONGEST_PLACE + 1) - IN_A_PIECE * (LONGEST_PLACE + 1) as f32).abs() < 1e-4);
}

#[test]
fn a_word_of_one_title_against_one_of_the_other_is_a_name() {
    let text = |name: u16, title: &[u16]| Text::new([&row(0, 20)[..], &[name], &row(100, 20)].concat()).titled(title);
    let names = |one: &[u16], other: &[u16]| between(&text(WORD, one), &text(OTHER, other)).titles;
    assert_eq!(names(&[900, WORD], &[900, OTHER]), 1);
    assert_eq!(names(&[900, WORD], &[900, 901]), 0, "only one of them is of its title");
    assert_eq!(names(&[WORD, OTHER], &[WORD, OTHER]), 0, "both are of both");
    assert_eq!(names(&[], &[900, OTHER]), 0);
    // The same replacement is one, however often it comes.
    let twice = |name: u16| {
        Text::new([&row(0, 20)[..], &[name], &row(100, 20), &[name], &row(200, 9)].concat()).titled(&[900, name])
    };
    assert_eq!(between(&twice(WORD), &twice(OTHER)).titles, 1);
    // A first line used as title is no title.
    let line = |name: u16| {
        let title = [&row(300, 6)[..], &[name]].concat();
        Text::new([&title[..], &row(100, 30)].concat()).titled(&title)
    };
    assert_eq!(between(&line(WORD), &line(OTHER)).titles, 0);
    // One that was put before its text is.
    let before =
        |name: u16| Text { head: TokensHead { is_title_put_before: true, ..TokensHead::default() }, ..line(name) };
    assert_eq!(between(&before(WORD), &before(OTHER)).titles, 1);
}

#[test]
fn a_title_is_the_first_line_of_its_text_in_order() {
    let title = row(300, 7);
    let body = |from: usize, gap: &[u16]| [&title[from..], gap, &row(100, 30)].concat();
    assert_eq!(own_line(&title, &body(0, &[])), title.len() + LONGER);
    assert_eq!(own_line(&title, &body(1, &[])), title.len() + LONGER, "six of seven are 85 of 100");
    assert_eq!(own_line(&title, &body(2, &[])), 0);
    let turned: Vec<u16> = title.iter().rev().copied().collect();
    assert_eq!(own_line(&turned, &body(0, &[])), 0);
    assert_eq!(own_line(&[], &body(0, &[])), 0);
    assert_eq!(own_line(&title, &[]), 0);
}

#[test]
fn another_spelling_is_no_difference() {
    let near = (1..HASH).find(|&apart| Alphabet::Latin.is_one_letter(apart)).unwrap();
    for (one, other) in [
        (vec![WORD], vec![WORD + near]),
        (vec![WORD], vec![600, WORD - 600]),
        (vec![WORD, 601, OTHER], vec![WORD + near, 601, OTHER + near]),
    ] {
        let found = told(&one, &other);
        assert_eq!((found.own_facts, found.most, found.least), (0.0, 1.0, 1.0), "{one:?} {other:?}");
    }
    let respelt = |len: usize| {
        let one: Vec<u16> = (0..len as u16).map(|n| WORD + 400 * (n % 2) + n).collect();
        told(&one, &one.iter().map(|word| word + near).collect::<Vec<_>>()).own_facts
    };
    assert_eq!(respelt(MOST_RESPELT), 0.0);
    assert!(respelt(MOST_RESPELT + 1) > 0.0);
    assert!(told(&[CHARACTER | 1], &[CHARACTER | (1 + near)]).most < 1.0, "a character is no word");
}

#[test]
fn house_text_weighs_by_its_roots() {
    let house = row(1_000, 40);
    let of = |from: u16| Text::new(row(from, 10)).sentence(&house, 77);
    let known = |roots: u64| {
        let mut learned = LearnedText::default();
        (0..roots).for_each(|_| drop(learned.learn(&Lesson { founders: 1, sentences: vec![77], words: Vec::new() })));
        let (old, new) = (of(0), of(500));
        Differences::of(old.tokens(), new.tokens(), LearnedView::new(&learned.boilerplate, &learned.words))
    };
    let share = |roots: f32| (40.0 / roots) / (10.0 + 40.0 / roots);
    for (roots, counted) in [(0, 1.0), (1, 1.0), (2, 2.0), (MOST_ROOTS, 8.0), (MOST_ROOTS + 1, 8.0)] {
        let found = known(roots);
        assert!((found.most - share(counted)).abs() < 1e-6, "{roots} {found:?}");
        assert!((found.words - 40.0 / counted).abs() < 1e-4, "{roots} {found:?}");
    }
    // Of facts it has none.
    assert_eq!((known(1).common_facts, known(2).common_facts), (40, 0));
}

#[test]
fn sentences_keep_their_ends_and_keys() {
    let key = SentenceKey(0xABCD_1234);
    let entry = Sentences::entry(300, Some(key));
    assert_eq!((entry[0], Sentences::key(entry)), (300, Some(key)));
    assert_eq!(Sentences::key(Sentences::entry(300, None)), None);
}

proptest! {
    /// A changed word is not a changed fact: what stands in place of frequent words changes no number, no name and no
    /// rare word.
    #[test]
    fn swapping_in_frequent_words_never_changes_facts(
        places in prop::collection::btree_set(0usize..150, 0..60),
        synonyms in prop::collection::vec(0u16..40, 60),
    ) {
        // 200 words that are rare, and 300 frequent ones, of which 150 stand in the text.
        let mut learned = LearnedText::default();
        let frequent: Vec<u16> = (0..300u16).map(|n| 2_000 + 31 * n).collect();
        (0..9).for_each(|_| drop(learned.learn(&Lesson { founders: 1, sentences: Vec::new(), words: frequent.clone() })));
        let text = |swapped: bool| {
            let words = (0..150).flat_map(|at| {
                let is_swapped = swapped && places.contains(&at);
                let synonym = 150 + 3 * usize::from(synonyms[at % 60]);
                [12_000 + at as u16, frequent[if is_swapped { synonym } else { at }]]
            });
            Text::new(words.collect())
        };
        let (old, new) = (text(false), text(true));
        let found = Differences::of(old.tokens(), new.tokens(), LearnedView::new(&learned.boilerplate, &learned.words));
        prop_assert_eq!((found.own_facts, found.numbers, found.titles), (0.0, 0.0, 0));
    }

    /// Whatever the tokens are, the figures are what they say they are, the same from both sides but for the alignment.
    #[test]
    fn figures_are_within_their_bounds(
        old in prop::collection::vec(prop_oneof![0u16..6, 0x4000u16..0x4004, 0x8400u16..0x8403, any::<u16>()], 0..90),
        new in prop::collection::vec(prop_oneof![0u16..6, 0x4000u16..0x4004, 0x8400u16..0x8403, any::<u16>()], 0..90),
        entries in prop::collection::vec(any::<[u16; 3]>(), 0..6),
        title in prop::collection::vec(0u16..9, 0..6),
    ) {
        let old = Text { head: TokensHead::default(), title: title.clone(), entries, body: old };
        let new = Text::new(new).titled(&title);
        let found = between(&old, &new);
        prop_assert!(0.0 <= found.least && found.least <= found.most && found.most <= 1.0 + 1e-5);
        prop_assert!(found.words >= 0.0 && found.numbers >= 0.0 && found.own_facts >= 0.0 && found.replaced >= 0.0);
        prop_assert!(found.words <= old.body.len().max(new.body.len()) as f32);
        prop_assert_eq!(found.alike, (!title.is_empty()).then_some(1.0));
        let same = between(&new, &new);
        prop_assert_eq!((same.numbers, same.own_facts, same.titles, same.replaced), (0.0, 0.0, 0, 0.0));
    }

    #[test]
    fn the_median_is_the_middle_of_all(counts in prop::collection::vec(0u16..9, 1..40)) {
        let mut learned = LearnedText::default();
        let words = row(0, counts.len());
        for (&word, &count) in words.iter().zip(&counts) {
            let words = vec![word; usize::from(count)];
            drop(learned.learn(&Lesson { founders: 1, sentences: Vec::new(), words }));
        }
        let text = Text::new(words);
        let view = LearnedView::new(&learned.boilerplate, &learned.words);
        let found = LaterText::new(text.tokens(), view).twice_median;
        let mut sorted = counts.clone();
        sorted.sort_unstable();
        let middle = sorted[sorted.len() / 2] + sorted[(sorted.len() - 1) / 2];
        prop_assert_eq!(found, u32::from(middle));
    }
}
