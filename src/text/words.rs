//! A text as a short row of words, by which two texts can be laid side by side: sixteen bits a word, and whatever is only
//! another way of writing the same is the same row.
//!
//! ```text
//! word       | 0 | 0 | sum of its letters, of 14 bits |
//! character  | 0 | 1 | hash, 14 bits |
//! number     | 1 | 0 |...| digits 2 | up to three digits, 10 bits |
//! ```
//!
//! A number is cut into groups of three digits from its end, and at the signs inside it, so that `1,224,254`, `1 224 254`,
//! `1.224.254` and `1224254` are the same three; a magnitude is written out (`$1.3 million`, `130万`), and so is a number in
//! words or Chinese numerals (`second`, `九十八`) or a month beside a number. Of a word the letters are added up: words
//! that were run together or torn apart have the sum of their parts, and one letter more, less or other is one of a few
//! hundred differences. Letters that change places change nothing.

use std::ops::RangeInclusive;

use super::byte_class::decode;
use super::fold::{Class, Tables};
use super::swar::{Lanes, leading};

/// So many words of a text are kept.
pub(crate) const MOST: usize = 1000;

/// The bit of a number.
pub(crate) const NUMBER: u16 = 0x8000;
/// The bit of a character of a script without spaces.
pub(crate) const CHARACTER: u16 = 0x4000;
/// The bits of the hash of a word or character.
pub(crate) const HASH: u16 = 0x3FFF;

/// Runs of digits that make one number at most.
const RUNS: usize = 6;

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
const fn letter(c: u32) -> u16 {
    let mut x = (c as u64)
        .wrapping_add(0x0123_4567)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x >> 40) as u16 & HASH
}

/// The sum of eight letters or digits; zeros add nothing.
#[inline(always)]
fn sum_of(eight: u64) -> u16 {
    const EACH: u64 = 0x0001_0001_0001_0001;
    // Small letters, of which the fifth and the sixth bit are set, as most words are of nothing else: two at a time.
    if (eight ^ eight >> 1) & (0x2020 * EACH) == 0 {
        let pairs = eight & (0x001F * EACH) | eight >> 3 & (0x03E0 * EACH);
        let sum = |at: u32| PAIRS[usize::from((pairs >> (16 * at)) as u16 & 0x03FF)];
        let (first, last) = (sum(0).wrapping_add(sum(1)), sum(2).wrapping_add(sum(3)));
        return first.wrapping_add(last);
    }
    let letters = eight.to_le_bytes().map(|b| BYTES[usize::from(b)]);
    letters
        .iter()
        .fold(0, |sum, &letter| sum.wrapping_add(letter))
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

/// The lowest bytes of the numerals among [`HAN`]: one bit for each.
static MAY_BE_NUMERALS: [u64; 4] = {
    let numerals = [
        '零', '一', '二', '两', '三', '四', '五', '六', '七', '八', '九', '十', '百', '千', '万',
        '亿',
    ];
    let mut bits = [0; 4];
    let mut at = 0;
    while at < numerals.len() {
        let low = numerals[at] as usize & 0xFF;
        bits[low / 64] |= 1 << (low % 64);
        at += 1;
    }
    bits
};

/// Characters that need no look into the tables.
const HAN: RangeInclusive<char> = '\u{4E00}'..='\u{9FFF}';

/// Whether a character is one of [`HAN`], and no numeral: a few that are none are taken for one.
#[inline(always)]
fn is_plain_han(c: char) -> bool {
    let low = c as usize & 0xFF;
    HAN.contains(&c) && MAY_BE_NUMERALS[low / 64] >> (low % 64) & 1 == 0
}

/// The sums of the words that may be numbers: one bit for each.
static NUMERALS: [u64; 256] = {
    let mut bits = [0u64; 256];
    let mut at = 0;
    while at < IN_WORDS.len() {
        let word = IN_WORDS[at].as_bytes();
        let (mut sum, mut letter) = (0u16, 0);
        while letter < word.len() {
            sum = sum.wrapping_add(LETTERS[word[letter] as usize]);
            letter += 1;
        }
        let sum = sum & HASH;
        bits[sum as usize / 64] |= 1 << (sum % 64);
        at += 1;
    }
    bits
};

/// The words that [`spelled`] and [`month`] know.
const IN_WORDS: [&str; 48] = [
    "one",
    "first",
    "two",
    "second",
    "three",
    "third",
    "four",
    "fourth",
    "five",
    "fifth",
    "six",
    "sixth",
    "seven",
    "seventh",
    "eight",
    "eighth",
    "nine",
    "ninth",
    "ten",
    "tenth",
    "eleven",
    "eleventh",
    "twelve",
    "twelfth",
    "jan",
    "january",
    "feb",
    "february",
    "mar",
    "march",
    "apr",
    "april",
    "may",
    "jun",
    "june",
    "jul",
    "july",
    "aug",
    "august",
    "sep",
    "sept",
    "september",
    "oct",
    "october",
    "nov",
    "november",
    "dec",
    "december",
];

/// The differences of two words that one letter makes: one bit for each sum.
pub(crate) static ONE_LETTER: [u64; 256] = {
    let mut bits = [0u64; 256];
    let mut a = b'a';
    while a <= b'z' {
        let one = LETTERS[a as usize];
        let mut b = b'a' - 1;
        while b <= b'z' {
            // The sign before `a` stands for no letter.
            let other = if b < b'a' { 0 } else { LETTERS[b as usize] };
            if one != other {
                let more = one.wrapping_sub(other) & HASH;
                let less = other.wrapping_sub(one) & HASH;
                bits[more as usize / 64] |= 1 << (more % 64);
                bits[less as usize / 64] |= 1 << (less % 64);
            }
            b += 1;
        }
        a += 1;
    }
    bits
};

/// Appends the words of a sentence of cleaned text, until there are [`MOST`].
pub(super) fn read(sentence: &str, out: &mut Vec<u16>) {
    let mut reader = Reader {
        bytes: sentence.as_bytes(),
        at: 0,
        tables: Tables::get(),
        out,
    };
    reader.read();
    out.truncate(MOST);
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    tables: &'static Tables,
    out: &'a mut Vec<u16>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(b) = self.peek()
            && self.out.len() < MOST
        {
            if b.is_ascii_digit() {
                self.number();
            } else if b.is_ascii_alphabetic() {
                self.word();
            } else if b.is_ascii() {
                self.at += 1;
            } else {
                let (c, len) = decode(self.bytes, self.at);
                if is_plain_han(c) {
                    self.out.push(CHARACTER | letter(u32::from(c)));
                    self.at += len;
                    continue;
                }
                match self.tables.class(c) {
                    Class::Han if numeral(c).is_some() => self.numerals(),
                    Class::Han | Class::Kana | Class::Unspaced => {
                        self.out.push(CHARACTER | letter(u32::from(c)));
                        self.at += len;
                    }
                    Class::Word | Class::Hangul | Class::Mark => self.word(),
                    _ => self.at += len,
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self, from: usize) -> &[u8] {
        self.bytes.get(from..).unwrap_or_default()
    }

    /// A run of letters, and of digits behind a letter.
    fn word(&mut self) {
        let from = self.at;
        let (mut sum, mut ascii) = (0u16, true);
        loop {
            loop {
                let lanes = Lanes::load(self.bytes, self.at);
                let len = leading(lanes.alphanumeric());
                sum = sum.wrapping_add(sum_of(lanes.first(len)));
                self.at += len as usize;
                if len < 8 {
                    break;
                }
            }
            if self.peek().is_none_or(|b| b.is_ascii()) {
                break;
            }
            let (c, len) = decode(self.bytes, self.at);
            let class = self.tables.class(c);
            if !matches!(class, Class::Word | Class::Hangul | Class::Mark) {
                break;
            }
            ascii = false;
            sum = sum.wrapping_add(letter(u32::from(c)));
            self.at += len;
        }
        let word = self.bytes.get(from..self.at).unwrap_or_default();
        if word == b"s" {
            // What an apostrophe leaves of a genitive.
            return;
        }
        // Few words are numbers: their sums tell that they are not.
        let may_be = NUMERALS[usize::from(sum & HASH) / 64] >> (sum % 64) & 1 == 1;
        if ascii
            && may_be
            && let Some(value) = self.in_words(word)
        {
            groups(value, self.out);
            return;
        }
        // `nation's`, `nations` and `nation s` are one.
        if let &[_, .., before, last] = word
            && word.len() >= 4
        {
            // No branch: nobody can foretell how a word ends.
            let is_more = ascii & (last == b's') & (before != b's');
            sum = sum.wrapping_sub(LETTERS[usize::from(b's')] * u16::from(is_more));
        }
        self.out.push(sum & HASH);
    }

    /// The number that a word stands for; a month does beside a number.
    fn in_words(&self, word: &[u8]) -> Option<u64> {
        if !(3..=9).contains(&word.len()) {
            return None;
        }
        if let Some(value) = spelled(word) {
            return Some(value);
        }
        let month = month(word)?;
        let behind = self
            .rest(self.at)
            .iter()
            .find(|b| !matches!(b, b' ' | b'.'));
        let before = self.out.last().is_some_and(|last| last & NUMBER != 0);
        (before || behind.is_some_and(u8::is_ascii_digit)).then_some(month)
    }

    /// A number in digits: runs of them with one sign between each two.
    fn number(&mut self) {
        let mut runs: [(u8, usize, usize); RUNS] = [(0, 0, 0); RUNS];
        let mut count = 0;
        let mut sign = 0;
        for run in &mut runs {
            let from = self.at;
            while self.peek().is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1;
            }
            *run = (sign, from, self.at);
            count += 1;
            match self.rest(self.at) {
                &[b @ (b',' | b'.' | b' '), next, ..] if next.is_ascii_digit() && count < RUNS => {
                    sign = b;
                    self.at += 1;
                }
                _ => break,
            }
        }
        let mut runs = runs.get(..count).unwrap_or_default();
        if let Some(magnitude) = self.magnitude() {
            let (value, used) = self.written_out(runs, magnitude);
            runs = runs.get(..runs.len() - used).unwrap_or_default();
            self.runs(runs);
            groups(value, self.out);
        } else {
            self.runs(runs);
            let ending = self.rest(self.at);
            let ordinal = [b"th", b"st", b"nd", b"rd"];
            if ordinal.iter().any(|&end| ending.starts_with(end))
                && !ending.get(2).is_some_and(u8::is_ascii_alphabetic)
            {
                self.at += 2;
            }
        }
    }

    fn runs(&mut self, runs: &[(u8, usize, usize)]) {
        for &(sign, from, to) in runs {
            let digits = self.bytes.get(from..to).unwrap_or_default();
            // A group or decimals: its zeros count.
            let inner = match sign {
                b' ' => digits.len() == 3,
                0 => false,
                _ => digits.len() <= 3,
            };
            let digits = match digits.iter().position(|b| *b != b'0') {
                Some(zeros) if !inner => digits.get(zeros..).unwrap_or_default(),
                None if !inner => b"0",
                _ => digits,
            };
            let first = (digits.len() + 2) % 3 + 1;
            let (first, rest) = digits.split_at(first.min(digits.len()));
            self.out.push(group(first));
            self.out.extend(rest.chunks(3).map(group));
        }
    }

    /// The magnitude that stands behind a number; it is taken with it.
    fn magnitude(&mut self) -> Option<u64> {
        const WORDS: [(&[u8], u64); 4] = [
            (b"million", 1_000_000),
            (b"billion", 1_000_000_000),
            (b"thousand", 1000),
            (b"trillion", 1_000_000_000_000),
        ];
        let spaced = usize::from(matches!(self.peek(), Some(b' ' | b'-')));
        let rest = self.rest(self.at + spaced);
        if rest.first().is_some_and(u8::is_ascii) {
            let found = WORDS.iter().find(|(word, _)| rest.starts_with(word));
            let &(word, value) = found?;
            self.at += spaced + word.len();
            return Some(value);
        }
        let mut magnitude = None;
        while let Some(b) = self.peek()
            && !b.is_ascii()
        {
            let (c, len) = decode(self.bytes, self.at);
            let Some(Numeral::Magnitude(value)) = numeral(c).filter(|_| c != '十' && c != '百')
            else {
                break;
            };
            magnitude = Some(u64::saturating_mul(magnitude.unwrap_or(1), value));
            self.at += len;
        }
        magnitude
    }

    /// The number at the end of the runs times a magnitude, and how many of the runs it is.
    fn written_out(&self, runs: &[(u8, usize, usize)], magnitude: u64) -> (u64, usize) {
        let digits = |at: usize| {
            let run = runs
                .get(at)
                .and_then(|&(_, from, to)| self.bytes.get(from..to));
            run.unwrap_or_default()
        };
        let value = |digits: &[u8]| {
            let digit = |value: u64, b: &u8| {
                let more = value.saturating_mul(10);
                more.saturating_add(u64::from(b - b'0'))
            };
            digits.iter().fold(0u64, digit)
        };
        let last = runs.len() - 1;
        let sign = runs.last().map_or(0, |run| run.0);
        let is_decimal = sign == b'.' || (sign == b' ' && digits(last).len() < 3);
        let whole = if is_decimal { last - 1 } else { last };
        let mut first = whole;
        // Groups of a whole number.
        while first > 0 && digits(first).len() == 3 && digits(first - 1).len() <= 3 {
            first -= 1;
        }
        let number = (first..=whole).fold(0u64, |number, at| {
            number
                .saturating_mul(1000)
                .saturating_add(value(digits(at)))
        });
        let mut total = number.saturating_mul(magnitude);
        let mut unit = magnitude;
        for b in digits(last).iter().filter(|_| is_decimal) {
            unit /= 10;
            total = total.saturating_add(unit.saturating_mul(u64::from(b - b'0')));
        }
        (total, runs.len() - first)
    }

    /// Chinese numerals: one number if they are one, characters otherwise.
    fn numerals(&mut self) {
        const MOST_NUMERALS: usize = 12;
        let mut numerals = [(Numeral::Digit(0), 0); MOST_NUMERALS];
        let mut count = 0;
        for place in &mut numerals {
            if self.peek().is_none_or(|b| b.is_ascii()) {
                break;
            }
            let (c, len) = decode(self.bytes, self.at);
            let Some(value) = numeral(c) else { break };
            *place = (value, letter(u32::from(c)));
            self.at += len;
            count += 1;
        }
        let numerals = numerals.get(..count).unwrap_or_default();
        match value_of(numerals) {
            Some(value) => groups(value, self.out),
            None => self
                .out
                .extend(numerals.iter().map(|&(_, hash)| CHARACTER | hash)),
        }
    }
}

/// A Chinese numeral.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numeral {
    Digit(u64),
    Magnitude(u64),
}

fn numeral(c: char) -> Option<Numeral> {
    Some(match c {
        '〇' | '零' => Numeral::Digit(0),
        '一' => Numeral::Digit(1),
        '二' | '两' => Numeral::Digit(2),
        '三' => Numeral::Digit(3),
        '四' => Numeral::Digit(4),
        '五' => Numeral::Digit(5),
        '六' => Numeral::Digit(6),
        '七' => Numeral::Digit(7),
        '八' => Numeral::Digit(8),
        '九' => Numeral::Digit(9),
        '十' => Numeral::Magnitude(10),
        '百' => Numeral::Magnitude(100),
        '千' => Numeral::Magnitude(1000),
        '万' => Numeral::Magnitude(10_000),
        '亿' => Numeral::Magnitude(100_000_000),
        _ => return None,
    })
}

/// The number that a run of numerals is: `九十八`, or digit by digit as in `二〇〇八`.
fn value_of(numerals: &[(Numeral, u16)]) -> Option<u64> {
    let digits = numerals.iter().map(|&(numeral, _)| match numeral {
        Numeral::Digit(digit) => Some(digit),
        Numeral::Magnitude(_) => None,
    });
    if let Some(digits) = digits.collect::<Option<Vec<u64>>>() {
        return Some(digits.iter().fold(0, |value, digit| value * 10 + digit));
    }
    let (mut total, mut section, mut digit) = (0u64, 0u64, None);
    for &(numeral, _) in numerals {
        match numeral {
            Numeral::Digit(next) => match digit {
                None | Some(0) => digit = Some(next),
                Some(_) => return None,
            },
            Numeral::Magnitude(value @ ..=1000) => {
                let of = match digit.take() {
                    Some(of) => of,
                    // `十八` is eighteen.
                    None if value == 10 && section == 0 => 1,
                    None => return None,
                };
                section += of * value;
            }
            Numeral::Magnitude(value) => {
                section += digit.take().unwrap_or_default();
                let before = if value > 10_000 {
                    std::mem::take(&mut total)
                } else {
                    0
                };
                if section + before == 0 {
                    return None;
                }
                total += (before + section).saturating_mul(value);
                section = 0;
            }
        }
    }
    Some(total.saturating_add(section + digit.unwrap_or_default()))
}

/// Up to three digits.
fn group(digits: &[u8]) -> u16 {
    let value = digits
        .iter()
        .fold(0, |value, b| value * 10 + u16::from(b - b'0'));
    NUMBER | (digits.len() as u16) << 10 | value
}

/// The groups of a number.
fn groups(value: u64, out: &mut Vec<u16>) {
    let mut groups = [0u16; 7];
    let mut count = 0;
    let mut rest = value;
    for place in &mut groups {
        *place = (rest % 1000) as u16;
        rest /= 1000;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    for (at, &value) in groups.iter().take(count).enumerate().rev() {
        let digits = match value {
            _ if at + 1 < count => 3,
            0..=9 => 1,
            10..=99 => 2,
            _ => 3,
        };
        out.push(NUMBER | digits << 10 | value);
    }
}

fn spelled(word: &[u8]) -> Option<u64> {
    Some(match word {
        b"one" | b"first" => 1,
        b"two" | b"second" => 2,
        b"three" | b"third" => 3,
        b"four" | b"fourth" => 4,
        b"five" | b"fifth" => 5,
        b"six" | b"sixth" => 6,
        b"seven" | b"seventh" => 7,
        b"eight" | b"eighth" => 8,
        b"nine" | b"ninth" => 9,
        b"ten" | b"tenth" => 10,
        b"eleven" | b"eleventh" => 11,
        b"twelve" | b"twelfth" => 12,
        _ => return None,
    })
}

fn month(word: &[u8]) -> Option<u64> {
    Some(match word {
        b"jan" | b"january" => 1,
        b"feb" | b"february" => 2,
        b"mar" | b"march" => 3,
        b"apr" | b"april" => 4,
        b"may" => 5,
        b"jun" | b"june" => 6,
        b"jul" | b"july" => 7,
        b"aug" | b"august" => 8,
        b"sep" | b"sept" | b"september" => 9,
        b"oct" | b"october" => 10,
        b"nov" | b"november" => 11,
        b"dec" | b"december" => 12,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Fields, Scratch};
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<u16> {
        let mut scratch = Scratch::new();
        let fields = Fields {
            title: None,
            body: &[text],
        };
        let mut out = Vec::new();
        if let Some(text) = scratch.read(&fields) {
            text.sentences()
                .for_each(|sentence| read(sentence, &mut out));
        }
        out
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        for same in [
            &[
                "$1,224,254",
                "$1 224 254",
                "1.224.254",
                "１，２２４，２５４",
                "1224254",
            ][..],
            &["26.71", "26 71"],
            &["05/23/2007", "5 23 2007", "May 23, 2007", "may 23 2007"],
            &[
                "$1.3 million",
                "1,300,000",
                "1 3 million",
                "130万",
                "1300000",
            ],
            &["1.3亿", "130,000,000", "一亿三千万"],
            &["九十八", "98", "98th"],
            &["第二", "第2"],
            &["二〇〇八", "2008"],
            &["十八", "18"],
            &["twelve", "12", "twelfth"],
            &["三十五万", "35万", "350,000"],
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
            ("2,007", "2,070"),
            ("may", "5"),
        ] {
            assert_ne!(words(one), words(other), "{one} {other}");
        }
    }

    #[test]
    fn other_spellings_of_words_are_the_same_or_near() {
        assert_eq!(words("the nation's"), words("the nations"));
        assert_eq!(words("the nation s"), words("the nation"));
        let sum = |text: &str| {
            words(text)
                .iter()
                .fold(0u16, |sum, word| sum.wrapping_add(*word))
                & HASH
        };
        assert_eq!(sum("bi-partisan"), sum("bipartisan"));
        let is_near = |one: &str, other: &str| {
            let apart = usize::from(sum(one).wrapping_sub(sum(other)) & HASH);
            ONE_LETTER[apart / 64] >> (apart % 64) & 1 == 1
        };
        for (one, other) in [
            ("senator", "senatr"),
            ("council", "countil"),
            ("bridge", "bridgee"),
        ] {
            assert!(is_near(one, other), "{one} {other}");
        }
        assert!(!is_near("madison", "mobile"));
        assert!(!is_near("warren", "parma"));
    }

    #[test]
    fn every_number_in_words_is_looked_at() {
        for word in IN_WORDS {
            let known = spelled(word.as_bytes()).or(month(word.as_bytes()));
            assert!(known.is_some(), "{word}");
            let value = words(&format!("7 {word}")).len();
            assert_eq!(value, 2, "{word}");
            assert!(words(&format!("7 {word}"))[1] & NUMBER != 0, "{word}");
        }
    }

    #[test]
    fn plain_characters_are_no_numerals() {
        for c in HAN {
            assert_eq!(Tables::get().class(c), Class::Han, "{c}");
            assert!(!is_plain_han(c) || numeral(c).is_none(), "{c}");
        }
    }

    #[test]
    fn numerals_that_are_no_number_stay_characters() {
        assert!(words("千万").iter().all(|word| word & NUMBER == 0));
        assert_eq!(words("百分之五").len(), 4);
        assert_eq!(words("一九九八年第一次").len(), 2 + 1 + 1 + 1 + 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_the_bound(text in "[a-z0-9 .,%一二十百万亿第次年é한\u{301}-]{0,300}", times in 1usize..40) {
            let long = text.repeat(times);
            prop_assert!(words(&long).len() <= MOST);
        }

        #[test]
        fn a_sum_is_that_of_the_letters(word in "[a-z]{0,8}|[a-zA-Z0-9]{0,8}") {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word.as_bytes());
            let sum = word.bytes().fold(0u16, |sum, b| sum.wrapping_add(LETTERS[usize::from(b)]));
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
