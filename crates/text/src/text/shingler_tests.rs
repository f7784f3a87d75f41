use super::*;
use crate::text::{Fields, Scratch};
use proptest::prelude::*;

/// The shingles of a text as it comes.
pub(crate) fn read(text: &str) -> Shingles {
    let mut scratch = Scratch::new();
    let mut shingles = Shingles::new();
    let fields = Fields { title: None, body: &[text] };
    if let Some(text) = scratch.read(&fields) {
        shingles.read(&text);
    }
    shingles
}

fn values(text: &str) -> Vec<u32> {
    read(text).numbers.iter().map(|number| number.value).collect()
}

fn contexts(text: &str) -> Vec<u32> {
    read(text).numbers.iter().map(|number| number.context).collect()
}

#[test]
fn windows_are_five_characters_or_two_words() {
    assert_eq!(read("今天天气很好").len(), 2);
    assert_eq!(read("the quick brown fox").len(), 3);
    assert_eq!(read("新款iphone发布").len(), 3, "款iphone发, iphone发布 and the one before are wide enough");
    assert_eq!(read("好").len(), 1, "a short sentence is its own shingle");
    assert_eq!(read("").len(), 0);
    assert!(read("...").is_empty());
}

#[test]
fn a_comma_is_one_of_groups_or_of_decimals() {
    let whole = |text: &str| read(text).whole;
    assert_eq!(whole("it costs 1,234 euros"), whole("it costs 1234 euros"));
    assert_eq!(whole("it costs 8,4 euros"), whole("it costs 8.4 euros"));
    for (one, other) in [("5,5", "55"), ("5,55", "555"), ("1,5", "15"), ("1,2345", "12345")] {
        assert_ne!(whole(&format!("it costs {one} euros")), whole(&format!("it costs {other} euros")), "{one}");
    }
}

#[test]
fn windows_do_not_cross_sentences() {
    let both = read("今天天气很好，阳光灿烂。我们一起出去玩，带上午饭。");
    let one = read("今天天气很好，阳光灿烂。");
    assert_eq!(both.shingle_hashes[..one.len()], one.shingle_hashes[..]);
    assert_eq!(both.sentences[0], one.sentences[0]);
    assert_eq!(both.sentences[1].hash(), read("我们一起出去玩,带上午饭!").sentences[0].hash());
}

/// Sentences that are never boilerplate are kept as runs, and count all the same.
#[test]
fn short_sentences_are_one() {
    let shingles = read("Yes! No! Nobody knows for certain. Why? Well.");
    let sentences = shingles.sentences.iter();
    let seen: Vec<_> = sentences.map(|s| (s.count(), s.letters(), s.hash().is_some(), s.end)).collect();
    assert_eq!(seen, [(2, 5, false, 2), (1, 21, true, 5), (2, 7, false, 7)]);
    let mut mask = crate::text::boilerplate::BoilerplateMask::default();
    let mut boilerplate = crate::text::boilerplate::Boilerplate::new();
    boilerplate.seed(&read("Nobody knows for certain!"));
    let long = read("Yes! No! Nobody knows for certain. Why? Well. They will ask again tomorrow.");
    boilerplate.find(
        &long,
        &crate::text::boilerplate::PendingSentences::default(),
        crate::text::boilerplate::Titled::No,
        &mut mask,
    );
    assert_eq!(mask.excluded().collect::<Vec<_>>(), [2]);
    let counted = crate::text::boilerplate::Boilerplate::counted(&long);
    let mut numbers: Vec<usize> = counted.into_iter().map(|(_, number)| number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 5]);
}

/// What has no room of its own is still part of the document.
#[test]
fn beyond_the_budget_nothing_is_lost_but_the_sentences() {
    // Six characters in three bytes each time.
    let shingles = read(&"㌖".repeat(2_000));
    assert_eq!(shingles.len(), 12_000 - 4);
    assert!(shingles.shingle_hashes.is_empty() && shingles.sentences.is_empty());
    let (minima, windows) = shingles.rest().unwrap();
    assert_eq!(windows, shingles.len());
    assert!(minima.iter().any(|&minimum| minimum != u32::MAX));
    assert!(!shingles.min_hashes.is_empty());
    // A text that was within it is read as ever by the same buffers.
    let (mut scratch, mut again) = (Scratch::new(), shingles);
    let fields = Fields { title: None, body: &["A few words about the harbour, and then some more."] };
    again.read(&scratch.read(&fields).unwrap());
    let fresh = read(fields.body[0]);
    assert_eq!(
        (again.shingle_hashes, again.min_hashes, again.sentences),
        (fresh.shingle_hashes, fresh.min_hashes, fresh.sentences)
    );
}

#[test]
fn of_many_numbers_those_of_the_smallest_contexts_stay() {
    use crate::text::numbers::NumberSample;
    let random = |n| crate::hash::splitmix64(n) >> 32;
    let mut all: Vec<Number> = (0..5_000)
        .map(|n| Number { context: random(n % 900) as u32, value: random(n + 10_000) as u32 % 3, sentence: 0 })
        .collect();
    let mut shingles = read(&"a".repeat(16_000));
    shingles.numbers.clear();
    for &number in &all {
        shingles.add_number(number);
    }
    shingles.finish();
    assert!(shingles.numbers.len() <= 1_800, "two of each context");
    let (kept, whole) = (NumberSample::of(&mut shingles.numbers), NumberSample::of(&mut all));
    assert_eq!(kept, whole);
}

#[test]
fn punctuation_width_case_and_wrapping_change_nothing() {
    let a = read("Prices, he said, rose by 3.5% in May of 1,986 towns");
    let b = read("PRICES he  said\nrose by ３．５ in May (of) 1986 towns");
    assert_eq!((a.shingle_hashes, a.whole), (b.shingle_hashes, b.whole));
    assert_eq!(read("今天，天气很好").shingle_hashes, read("今天天氣「很好」").shingle_hashes);
}

#[test]
fn numbers_are_whole() {
    assert_eq!(values("1,234 3.5 1234").len(), 3);
    assert_eq!(values("1,234"), values("1234"));
    assert_ne!(values("3.5"), values("35"));
    assert_eq!(values("it grew 5. Then 6").len(), 2);
    assert_eq!(values("b2b 4g 2x").len(), 0, "letters and digits are a word");
    assert_eq!(values("共12例,累计3.5万").len(), 2);
    assert_eq!(values("１２"), values("12"));
}

#[test]
fn spelled_numbers_are_numbers() {
    assert_eq!(values("there were seven ships and twelve boats").len(), 2);
    assert_eq!(values("one twosome tension").len(), 0);
}

#[test]
fn the_context_is_what_stands_around() {
    let at = |text: &str| contexts(text)[0];
    assert_eq!(at("累计确诊12例"), at("全市累计确诊345例"));
    assert_ne!(at("累计确诊12例"), at("累计治愈12例"));
    assert_ne!(at("累计确诊12例"), at("累计确诊12人"));
    assert_eq!(at("prices fell to 3.5 dollars"), at("yesterday fell to 7 dollars"));
    assert_eq!(contexts("fell to 3"), contexts("fell to 4."), "nothing behind is a context too");
}

#[test]
fn min_hashes_are_the_smallest_and_distinct() {
    let text: String =
        (0..300).map(|n| format!("word{n} ")).chain(std::iter::once("word1 word2 word3 word4".into())).collect();
    let min_hashes = read(&text).min_hashes;
    assert_eq!(min_hashes.len(), 32);
    assert!(min_hashes.is_sorted_by(|a, b| a.hash < b.hash));
}

#[test]
fn a_letter_of_several_bytes_belongs_to_its_word() {
    assert_eq!(read("café noir").len(), 1);
    assert_ne!(read("café noir").shingle_hashes, read("caf noir").shingle_hashes);
    assert_eq!(read("москва сегодня вечером").len(), 2);
}

proptest! {
    /// The ring and the rolling hash against hashes of the tokens of each window.
    #[test]
    fn equal_windows_have_equal_hashes(words in prop::collection::vec("[a-e]{1,2}", 0..40), han in "[一二三四]{0,40}") {
        let shingles = read(&words.join(" "));
        let mut seen = std::collections::HashMap::new();
        if words.len() >= 2 {
            prop_assert_eq!(shingles.len(), words.len() - 1);
            for (pair, hash) in words.windows(2).zip(&shingles.shingle_hashes) {
                prop_assert_eq!(seen.entry(pair.to_vec()).or_insert(*hash), hash);
            }
            let distinct: std::collections::HashSet<_> = seen.values().collect();
            prop_assert_eq!(distinct.len(), seen.len());
        }
        let characters: Vec<char> = han.chars().collect();
        let shingles = read(&han);
        if characters.len() >= 5 {
            let mut seen = std::collections::HashMap::new();
            prop_assert_eq!(shingles.len(), characters.len() - 4);
            for (window, hash) in characters.windows(5).zip(&shingles.shingle_hashes) {
                prop_assert_eq!(seen.entry(window).or_insert(*hash), hash);
            }
        }
    }

    #[test]
    fn any_text_can_be_read(text in "\\PC{0,80}") {
        let shingles = read(&text);
        prop_assert_eq!(shingles.sentences.last().map_or(0, |s| s.end as usize), shingles.len());
    }
}
