//! Segments cleaned text into words. Chinese by jieba, scripts with spaces by their runs, kana and other scripts
//! without spaces by pairs of characters.

use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::fold::{Class, Tables};
use super::stop_words::is_stop_word;
use super::token::word_hash;
use super::work_counter;

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'t> {
    /// The word in the cleaned text.
    pub text: &'t str,
    /// XXH3 (64 bits) of the text: the feature that fingerprints are made of.
    pub hash: u64,
    /// Weight level of the word, 1..=5. Longer words are rarer: a Chinese word of one, two, three
    /// and more characters has level 1, 4, 5; a word of other scripts of up to 2, 4, 6, 8 and more letters has level
    /// 1, 2, 3, 4, 5; a number with its measure word has 3; pairs of kana have 1.
    pub level: u8,
    /// Whether it is a stop word.
    pub stop_word: bool,
}

static JIEBA: LazyLock<Jieba> = LazyLock::new(Jieba::new);

/// Loads the dictionary that cuts Chinese into words, some 0.1 s and 30 MB: only for methods that need words.
pub fn load_dictionary() {
    LazyLock::force(&JIEBA);
    is_stop_word(0);
}

/// Chinese characters segmented at once. It bounds the memory of the segmenter on text without punctuation.
const LONGEST_RUN: usize = 4096;

/// Calls `each` with every word of `text`, in order.
pub(super) fn words<'t>(text: &'t str, mut each: impl FnMut(Token<'t>)) {
    let tables = Tables::get();
    let mut runs = LetterRuns { tables, text, at: 0 };
    // A number whose measure word may follow.
    let mut number: Option<&'t str> = None;
    while let Some((class, run)) = runs.next() {
        work_counter::add(run.len());
        match class {
            Class::Han => chinese(text, run, number.take(), &mut each),
            _ => {
                if let Some(number) = number.take() {
                    each(word(number));
                }
                match class {
                    Class::Word if run.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',')) => {
                        number = Some(run);
                    }
                    Class::Word | Class::Hangul => each(word(run)),
                    _ => pairs(run, &mut each),
                }
            }
        }
        // A measure word directly follows its number.
        if !runs.touches_han()
            && let Some(number) = number.take()
        {
            each(word(number));
        }
    }
}

/// The words of a run of Chinese characters. A number directly before the run and a single character at its head are
/// one word: `51区`, `9架`, `30日`.
fn chinese<'t>(text: &'t str, run: &'t str, number: Option<&'t str>, each: &mut impl FnMut(Token<'t>)) {
    let mut number = number;
    let mut rest = run;
    while !rest.is_empty() {
        let cut = rest.char_indices().nth(LONGEST_RUN).map_or(rest.len(), |(at, _)| at);
        let (part, behind) = rest.split_at_checked(cut).unwrap_or((rest, ""));
        work_counter::add(part.len());
        for token in JIEBA.cut(part, false) {
            let token = token.word;
            let chinese = chinese_word(token);
            match number.take() {
                Some(number) if chinese.level == 1 && !is_particle(token) => {
                    each(measured(text, number, token));
                }
                Some(number) => {
                    each(word(number));
                    each(chinese);
                }
                None => each(chinese),
            }
        }
        rest = behind;
    }
}

/// Single characters that never measure a number.
fn is_particle(token: &str) -> bool {
    matches!(
        token,
        "的" | "了" | "和" | "与" | "及" | "或" | "是" | "在" | "至" | "到" | "比" | "而" | "为" | "以" | "由"
    )
}

fn chinese_word(text: &str) -> Token<'_> {
    let level = match text.len().div_ceil(3) {
        0 | 1 => 1,
        2 => 4,
        _ => 5,
    };
    with_level(text, level)
}

/// Words in the corpus that the dictionary of jieba was counted in: the sum of its frequencies.
const CORPUS: f64 = 60_101_967.0;

/// How rare a word is in general, 1..=18: the logarithm of its inverse frequency, in place of the inverse document
/// frequency of tf-idf, which is only defined for a collection that does not change. For Chinese words the frequency is
/// that of jieba's dictionary. No such list is at hand for other words, so they go by their level: 5, 7, 9, 11, 13.
pub fn rarity(word: &Token<'_>) -> u8 {
    let tables = Tables::get();
    let chinese = word.text.chars().all(|c| matches!(tables.class(c), Class::Han | Class::Mark));
    if !chinese {
        return 3 + 2 * word.level;
    }
    let frequency = JIEBA.suggest_freq(word.text).max(1);
    // At most ln(60 million), about 18.
    (CORPUS / frequency as f64).ln().round().clamp(1.0, 18.0) as u8
}

/// `number` and `measure` are adjacent in `text`.
fn measured<'t>(text: &'t str, number: &'t str, measure: &str) -> Token<'t> {
    let start = number.as_ptr() as usize - text.as_ptr() as usize;
    let both = text.get(start..start + number.len() + measure.len()).unwrap_or(number);
    Token { text: both, hash: word_hash(both), level: 3, stop_word: false }
}

/// A word of a script with spaces.
fn word(text: &str) -> Token<'_> {
    let level = match text.chars().count() {
        0..=2 => 1,
        3..=4 => 2,
        5..=6 => 3,
        7..=8 => 4,
        _ => 5,
    };
    with_level(text, level)
}

fn with_level(text: &str, level: u8) -> Token<'_> {
    let hash = word_hash(text);
    Token { text, hash, level, stop_word: is_stop_word(hash) }
}

/// Pairs of neighbouring characters; a single character is itself.
fn pairs<'t>(run: &'t str, each: &mut impl FnMut(Token<'t>)) {
    let mut each = |text: &'t str| {
        each(Token { text, hash: word_hash(text), level: 1, stop_word: false });
    };
    let ends = run.char_indices().skip(2).map(|(at, _)| at).chain([run.len()]);
    for ((start, _), end) in run.char_indices().zip(ends) {
        each(run.get(start..end).unwrap_or_default());
    }
}

/// Iterates over runs of letters of one kind.
struct LetterRuns<'t> {
    tables: &'static Tables,
    text: &'t str,
    at: usize,
}

impl<'t> LetterRuns<'t> {
    /// Next run. Combining marks belong to it, as do an apostrophe inside a word and a point or comma between digits.
    /// A possessive `'s` is dropped.
    fn next(&mut self) -> Option<(Class, &'t str)> {
        let mut chars = self.text.get(self.at..)?.char_indices();
        let (skipped, class, len) = loop {
            let (at, c) = chars.next()?;
            work_counter::add(1);
            let class = self.tables.class(c);
            if class.is_letter() {
                break (at, class, c.len_utf8());
            }
        };
        let start = self.at + skipped;
        let mut end = start + len;
        if class == Class::Word {
            end = self.word_end(start);
            self.at = end;
            let run = self.text.get(start..end)?;
            if let Some(owner) = run.strip_suffix("'s").filter(|owner| owner.ends_with(char::is_alphabetic)) {
                return Some((class, owner));
            }
            return Some((class, run));
        }
        for (at, c) in self.text.get(end..)?.char_indices() {
            let next = self.tables.class(c);
            if next != class && next != Class::Mark {
                self.at = end + at;
                return Some((class, self.text.get(start..self.at)?));
            }
        }
        self.at = self.text.len();
        Some((class, self.text.get(start..)?))
    }

    fn word_end(&self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = start;
        while let Some(&b) = bytes.get(at) {
            if b.is_ascii() {
                let next = bytes.get(at + 1);
                let digits = at > start
                    && bytes.get(at - 1).is_some_and(u8::is_ascii_digit)
                    && next.is_some_and(u8::is_ascii_digit);
                let inside = b.is_ascii_alphanumeric()
                    || matches!(b, b'.' | b',') && digits
                    || b == b'\'' && at > start && next.is_some_and(u8::is_ascii_alphabetic);
                if !inside {
                    return at;
                }
                at += 1;
            } else {
                match self.text.get(at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if matches!(self.tables.class(c), Class::Word | Class::Mark) => {
                        at += c.len_utf8();
                    }
                    _ => return at,
                }
            }
        }
        at
    }

    fn touches_han(&self) -> bool {
        let next = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        next.is_some_and(|c| self.tables.class(c) == Class::Han)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(text: &str) -> Vec<(&str, u8)> {
        let mut kept = Vec::new();
        words(text, |word| {
            if !word.stop_word {
                kept.push((word.text, word.level));
            }
        });
        kept
    }

    fn all(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        words(text, |word| all.push(word.text));
        all
    }

    /// Weights as a classic description of simhash gives them: `美国（4） 51区（5） 雇员（3） 称（1） 内部（2） 有（1） 9架（3） 飞碟（5） …`
    #[test]
    fn the_sentence_of_the_seed() {
        assert_eq!(
            all("美国\"51区\"雇员称内部有9架飞碟,曾看见灰色外星人"),
            ["美国", "51区", "雇员", "称", "内部", "有", "9架", "飞碟", "曾", "看见", "灰色", "外星人"]
        );
        assert_eq!(
            kept("美国\"51区\"雇员称内部有9架飞碟,曾看见灰色外星人"),
            [
                ("美国", 4),
                ("51区", 3),
                ("雇员", 4),
                ("内部", 4),
                ("9架", 3),
                ("飞碟", 4),
                ("看见", 4),
                ("灰色", 4),
                ("外星人", 5)
            ]
        );
    }

    #[test]
    fn spaced_scripts() {
        assert_eq!(all("the company's 1,226.5 shares, don't"), ["the", "company", "1,226.5", "shares", "don't"]);
        assert_eq!(kept("the company's shares"), [("company", 4), ("shares", 3)]);
        assert_eq!(all("мама мыла раму"), ["мама", "мыла", "раму"]);
        assert_eq!(all("نص عربي"), ["نص", "عربي"]);
        assert_eq!(all("서울에서 열린 회의"), ["서울에서", "열린", "회의"]);
        assert_eq!(all("café 'quoted' 3.x"), ["café", "quoted", "3", "x"]);
    }

    #[test]
    fn unspaced_scripts() {
        assert_eq!(all("サクラの"), ["サク", "クラ", "ラの"]);
        assert_eq!(all("の"), ["の"]);
        assert_eq!(all("東の空"), ["東", "の", "空"]);
    }

    #[test]
    fn numbers_and_their_measures() {
        assert_eq!(all("10月30日,3.5万人,1,200,5的"), ["10月", "30日", "3.5万", "人", "1,200,5", "的"]);
        assert_eq!(all("2018 年"), ["2018", "年"]);
        assert_eq!(all("共9"), ["共", "9"]);
        assert_eq!(all("the 1990's人"), ["the", "1990's", "人"]);
    }

    #[test]
    fn levels_are_1_to_5() {
        for (text, level) in [("a", 1), ("abcd", 2), ("abcdef", 3), ("abcdefgh", 4), ("abcdefghi", 5)] {
            assert_eq!(word(text).level, level);
        }
        for (text, level) in [("人", 1), ("人民", 4), ("外星人", 5), ("中华人民共和国", 5)] {
            assert_eq!(chinese_word(text).level, level);
        }
    }

    #[test]
    fn a_run_longer_than_the_segmenter_gets_at_once() {
        let long = "今天天气很好".repeat(LONGEST_RUN);
        let (mut count, mut chars) = (0, 0);
        words(&long, |word| {
            count += 1;
            chars += word.text.chars().count();
        });
        assert_eq!(chars, 6 * LONGEST_RUN);
        assert!(count > 2 * LONGEST_RUN);
    }

    proptest! {
        /// Words are pieces of the text, in order, and leave no letter out (but a possessive `s`).
        #[test]
        fn words_cover_the_letters(text in "[a-c1-3s.,' 天气美国区人のなก한é¹-]{0,40}") {
            let tables = Tables::get();
            let mut at = 0;
            let mut covered = vec![false; text.len()];
            words(&text, |word| {
                let start = word.text.as_ptr() as usize - text.as_ptr() as usize;
                assert!(start >= at, "{word:?} goes back in {text:?}");
                at = start;
                assert!(!word.text.is_empty() && (1..=5).contains(&word.level));
                covered[start..start + word.text.len()].fill(true);
            });
            for (at, c) in text.char_indices() {
                let possessive = c == 's' && text[..at].ends_with('\'');
                if tables.class(c).is_letter() && !possessive {
                    prop_assert!(covered[at], "{c} of {text:?} is in no word");
                }
            }
        }
    }
}
