//! The tokens of a text for alignment: sixteen bits a token, equal for different spellings of the same.
//!
//! ```text
//! word       | 0 | 0 | sum of its letters, of 14 bits |
//! character  | 0 | 1 | hash, 14 bits |
//! number     | 1 | 0 |...| digits 2 | up to three digits, 10 bits |
//! ```
//!
//! A number is cut into groups of three digits from its end, and at the signs inside it, so that `1,224,254`, `1 224
//! 254`, `1.224.254` and `1224254` are the same three; a magnitude is written out (`$1.3 million`, `130万`), and so is a
//! number in words or Chinese numerals (`second`, `九十八`) or a month beside a number. Of a word the letters are added
//! up: words that were run together or torn apart have the sum of their parts, and one letter more, less or other is
//! one of a few hundred differences. Letters that change places change nothing.

mod alphabet;
mod numerals;
mod reader;
mod spans;
mod sums;

pub(crate) use alphabet::Alphabet;
use numerals::is_plain;
pub(crate) use numerals::{is_weekday, is_whole_group};
use reader::{RUNS, TokenReader, end_word};
pub(crate) use spans::each_word;
use sums::letter;
pub(super) use sums::sum_of;

/// Most tokens of a text.
pub(crate) const MOST: usize = 2000;

/// The bit of a number.
pub(crate) const NUMBER: u16 = 0x8000;
/// The bit of a character of a script without spaces.
pub(crate) const CHARACTER: u16 = 0x4000;
/// The bits of the hash of a word or character.
pub(crate) const HASH: u16 = 0x3FFF;

/// The tokens of a text, read along with the pass of the shingler.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenRow {
    /// At most [`MOST`] when a sentence has ended.
    pub(super) words: Vec<u16>,
    /// The number of tokens at the end of each sentence that began within the limit.
    ends: Vec<u16>,
    /// The offset up to which the sentence is read; `usize::MAX` at the limit.
    at: usize,
    /// Whether the sentence began within the limit.
    is_open: bool,
}

impl TokenRow {
    /// Begins a new text of this size in bytes, markup included.
    pub(super) fn clear(&mut self, raw: usize) {
        self.words.clear();
        self.ends.clear();
        // No more than it can have: doubling would keep twice as much.
        self.words.reserve_exact((raw / 3).min(MOST) + RUNS);
    }

    /// The number of tokens at the end of each sentence, with the sentence's place.
    pub(super) fn sentence_ends(&self) -> impl Iterator<Item = (u32, u16)> + Clone {
        (0u32..).zip(self.ends.iter().copied())
    }

    /// Bytes of memory held, besides the value itself.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.words.capacity() + self.ends.capacity()) * size_of::<u16>()
    }

    /// A sentence begins.
    #[inline]
    pub(super) fn begin_sentence(&mut self) {
        self.is_open = self.words.len() < MOST;
        self.go_on(0);
    }

    /// Accepts a letter or digit at `at`, or an ASCII run of them up to `end`.
    #[inline]
    pub(super) fn pass(&mut self, sentence: &[u8], at: usize, end: usize) {
        self.at = self.at.max(at);
        while self.at < end {
            self.one(sentence);
        }
    }

    /// Accepts the non-ASCII character from `at` to `end`.
    #[inline]
    pub(super) fn pass_character(&mut self, sentence: &[u8], c: char, at: usize, end: usize) {
        if at < self.at || !is_plain(c) {
            return self.pass(sentence, at, end);
        }
        self.words.push(CHARACTER | letter(u32::from(c)));
        self.go_on(end);
    }

    /// Accepts an ASCII run of letters and digits from `at` to `end` that begins with a letter; `sum`: [`sum_of`] it.
    #[inline]
    pub(super) fn pass_run(&mut self, sentence: &[u8], at: usize, end: usize, sum: u16) {
        if at < self.at || sentence.get(end).is_some_and(|b| !b.is_ascii()) {
            return self.pass(sentence, at, end);
        }
        end_word(sentence, at..end, sum, true, &mut self.words);
        self.go_on(end);
    }

    /// Reads the next token.
    fn one(&mut self, sentence: &[u8]) {
        let mut reader = TokenReader::new(sentence, self.at, &mut self.words);
        reader.one();
        let at = reader.at;
        self.go_on(at);
    }

    #[inline]
    fn go_on(&mut self, at: usize) {
        self.at = if self.words.len() < MOST { at } else { usize::MAX };
    }

    /// Ends the sentence at this place of the text. One that joins the one before it ends where that does.
    pub(super) fn end_sentence(&mut self, place: u32) {
        self.words.truncate(MOST);
        if self.is_open {
            self.ends.truncate(place as usize);
            self.ends.push(self.words.len() as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::numerals::{CALENDAR, HAN, SPELLED, groups, month, numeral, weekday};
    use super::sums::letter;
    use super::*;
    use crate::text::fold::{Class, Tables};
    use crate::text::shingles::Shingles;
    use crate::text::{Fields, Scratch};
    use proptest::prelude::*;

    /// The words of a sentence, by themselves.
    fn read(sentence: &str, out: &mut Vec<u16>) {
        let mut at = 0;
        while at < sentence.len() && out.len() < MOST {
            let mut reader = TokenReader::new(sentence.as_bytes(), at, out);
            reader.one();
            at = reader.at;
        }
        out.truncate(MOST);
    }

    fn words(text: &str) -> Vec<u16> {
        let mut scratch = Scratch::new();
        let fields = Fields { title: None, body: &[text] };
        let mut out = Vec::new();
        if let Some(text) = scratch.read(&fields) {
            text.sentences().for_each(|sentence| read(sentence, &mut out));
        }
        out
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        for same in [
            &["$1,224,254", "$1 224 254", "1.224.254", "１，２２４，２５４", "1224254"][..],
            &["26.71", "26 71"],
            &["05/23/2007", "5 23 2007", "May 23, 2007", "may 23 2007"],
            &["$1.3 million", "1,300,000", "1 3 million", "130万", "1300000"],
            &["1.3亿", "130,000,000", "一亿三千万"],
            &["九十八", "98", "98th"],
            &["第二", "第2"],
            &["二〇〇八", "2008"],
            &["十八", "18"],
            &["twelve", "12", "twelfth"],
            &["三十五万", "35万", "350,000"],
            &["8.4", "8,4", "٨٫٤", "٨،٤"],
            &["twenty-five", "25", "двадцать пять"],
            &["thirty two", "32"],
            &["4ر646", "646.4", "٤ر٦٤٦"],
            &["८५", "85", "๘๕", "၈၅", "៨៥", "໘໕"],
            &["8,40 млрд", "8.4 миллиарда", "8 400 млн"],
            &["646.4 مليار", "4ر646 مليار"],
            &["3 lakh", "300,000"],
            &["10 тысяч", "10 тыс", "10000"],
            &["двенадцать", "12", "zwölf", "doce"],
            &["48 Millionen", "48 milyon", "48 juta", "48 triệu", "48 мільйонів", "48,000,000"],
            &["18,5 Mio", "18,5 Millionen", "18.5 mln", "18,500,000"],
            &["2,4 Mrd", "2,4 Milliarden", "2.4bn", "2,4 mld"],
            &["3万2000", "3万2千", "三万二千", "32,000", "3만2천", "3만 2천", "3만2000"],
            &["2兆5000億円", "2.5兆円", "2,500,000,000,000円"],
            &["3천420명", "3,420명"],
            &["4.2亿", "4亿2000万", "四亿二千万", "420,000,000"],
            &["3.5万", "3万5千", "三万五千", "35,000"],
            &["3.600 millones", "3600 millones", "3.600.000.000", "3.600 milioni", "3.600 Millionen"],
            &["1.224 million", "1,224,000", "1.224 millions"],
            &["2 miliardi", "2 milyar", "2 miliar", "2 bilhões", "2 billion"],
        ] {
            let first = words(same[0]);
            for other in same {
                assert_eq!(words(other), first, "{other}");
            }
        }
        for (one, other) in [
            ("98", "99"),
            ("九十八周年", "九十九周年"),
            ("第二次", "第三次"),
            ("1.3 million", "1.3 billion"),
            ("3.600 millones", "3,6 millones"),
            ("3.600 Millionen", "3,6 Millionen"),
            ("2,007", "2,070"),
            ("may", "5"),
            ("8.40", "8.04"),
            ("17.30", "17.3"),
            ("20 five", "25"),
            ("8.400", "8.4"),
            ("05.10.2024", "05.1.2024"),
            ("monday", "friday"),
            ("4亿2000万", "4亿2000"),
            ("3万5万", "8万"),
            ("3万2024年", "3万2千零24年"),
            ("3万2.5", "32,000.5"),
            ("3万", "3万2000"),
            ("3만 2000", "3만2000"),
            ("1万20000万", "20001万"),
            ("10 military men", "10 million men"),
            ("1,5", "15"),
            ("ss19", "ss21"),
            ("в2011", "в2014"),
            ("በ2011", "በ2014"),
        ] {
            assert_ne!(words(one), words(other), "{one} {other}");
        }
    }

    #[test]
    fn digits_behind_a_few_letters_are_a_number() {
        for (one, other) in [("rp10", "rp 10"), ("usd48", "usd 48"), ("в2011", "в 2011"), ("m25", "m 25")] {
            assert_eq!(words(one), words(other), "{one}");
        }
        // Behind more letters they are a part of a name.
        assert_eq!(words("yuan48").len(), 1);
        assert_eq!(words("x7k9q2").len(), 1);
    }

    #[test]
    fn other_spellings_of_words_are_the_same_or_near() {
        assert_eq!(words("the nation's"), words("the nations"));
        assert_eq!(words("the nation s"), words("the nation"));
        let sum = |text: &str| words(text).iter().fold(0u16, |sum, word| sum.wrapping_add(*word)) & HASH;
        assert_eq!(sum("bi-partisan"), sum("bipartisan"));
        let is_near = |one: &str, other: &str| {
            let apart = sum(one).wrapping_sub(sum(other)) & HASH;
            Alphabet::Latin.is_one_letter(apart)
        };
        for (one, other) in [("senator", "senatr"), ("council", "countil"), ("bridge", "bridgee")] {
            assert!(is_near(one, other), "{one} {other}");
        }
        assert!(!is_near("madison", "mobile"));
        assert!(!is_near("warren", "parma"));
    }

    #[test]
    fn every_number_in_words_is_known() {
        assert!(SPELLED.is_sorted_by_key(|(word, _)| word.as_bytes()));
        for (word, value) in SPELLED {
            assert_eq!(words(&format!("x {word} x")), words(&format!("x {value} x")), "{word}");
        }
        for word in CALENDAR {
            assert!(month(word.as_bytes()).is_some() || weekday(word.as_bytes()).is_some(), "{word}");
            let after = words(&format!("7 {word}"));
            assert!(after.len() == 2 && after[1] & NUMBER != 0, "{word}");
        }
    }

    #[test]
    fn a_day_of_the_week_is_a_date_and_no_number() {
        let day = words("on friday we");
        assert!(day.len() == 3 && day[1] & NUMBER != 0);
        assert!((0..10).all(|digit| !words(&digit.to_string()).contains(&day[1])));
    }

    #[test]
    fn plain_characters_are_those_that_the_reader_takes_one_by_one() {
        for c in ('\u{80}'..=char::MAX).filter(|&c| is_plain(c)) {
            let class = Tables::get().class(c);
            assert!(class == Class::Kana || class == Class::Han && numeral(c).is_none(), "{c}");
        }
        assert!(HAN.chain(['ひ', 'カ', 'ー']).filter(|&c| is_plain(c)).count() > 10_000);
    }

    #[test]
    fn numerals_that_are_no_number_stay_characters() {
        assert!(words("千万").iter().all(|word| word & NUMBER == 0));
        assert_eq!(words("百分之五").len(), 4);
        assert_eq!(words("一九九八年第一次").len(), 2 + 1 + 1 + 1 + 1);
    }

    /// Larger than any number: it saturates, wherever in the numeral the sum grows too large.
    #[test]
    fn a_numeral_of_any_length_has_a_value() {
        use numerals::{numeral, value_of};
        for text in ["一万亿亿十亿", "九千九百万亿亿亿亿", "一万亿亿万亿亿九", &"九".repeat(30), &"九千".repeat(30)]
        {
            let numerals: Vec<_> = text.chars().map(|c| (numeral(c).unwrap(), 0)).collect();
            let value = value_of(&numerals);
            assert!(value.is_none_or(|value| value > 9_000), "{text}: {value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_the_bound(text in "[a-z0-9 .,%一二十百万亿第次年é한\u{301}-]{0,300}", times in 1usize..40) {
            let long = text.repeat(times);
            prop_assert!(words(&long).len() <= MOST);
        }

        /// Whoever walks through the text for something else reads the same.
        #[test]
        fn what_is_read_in_passing_is_what_is_read_alone(
            pieces in prop::collection::vec(prop_oneof![
                8 => "[a-z]{1,12}", 2 => "[a-z0-9]{1,5}", 3 => "[0-9]{1,4}([., ][0-9]{1,3}){0,3}",
                1 => "(1|2\\.5|三十) ?(millions?|billion|thousand|万|亿|th|nd)", 2 => "[一二十百万亿第次年韩国é한ผ\u{301}]{1,6}",
                1 => "one|second|may|march|september|nation's|s", 2 => "[.,!?。，]",
            ], 0..60), spaces in prop::collection::vec(any::<bool>(), 60), times in 1usize..12,
        ) {
            let mut text = String::new();
            for (piece, space) in pieces.iter().zip(spaces) {
                text.push_str(piece);
                text.push_str(if space { " " } else { "" });
            }
            let text = text.repeat(times);
            let mut scratch = Scratch::new();
            let fields = Fields { title: None, body: &[&text] };
            let mut shingles = Shingles::new();
            if let Some(text) = scratch.read(&fields) {
                shingles.read(&text);
            }
            prop_assert_eq!(shingles.row(), words(&text));
        }

        #[test]
        fn a_sum_is_that_of_the_letters(word in "[a-z]{0,8}|[a-zA-Z0-9]{0,8}") {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word.as_bytes());
            let sum = word.bytes().fold(0u16, |sum, b| sum.wrapping_add(letter(u32::from(b))));
            prop_assert_eq!(sum_of(u64::from_le_bytes(eight)), sum);
        }

        #[test]
        fn groups_are_those_of_the_digits(value: u64) {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            groups(value, &mut one);
            read(&value.to_string(), &mut other);
            prop_assert_eq!(one, other);
        }
    }
}
