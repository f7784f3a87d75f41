//! Numbers in words, in Chinese numerals and in groups of digits.

use std::ops::RangeInclusive;

use super::HASH;
use super::NUMBER;
use super::sums::LETTERS;

/// The lowest bytes of the numerals among [`HAN`]: one bit for each.
static MAY_BE_NUMERALS: [u64; 4] = {
    let numerals = ['零', '一', '二', '两', '三', '四', '五', '六', '七', '八', '九', '十', '百', '千', '万', '亿'];
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
pub(super) const HAN: RangeInclusive<char> = '\u{4E00}'..='\u{9FFF}';

/// Whether a character is one of [`HAN`], and no numeral: a few that are none are taken for one.
#[inline(always)]
pub(super) fn is_plain_han(c: char) -> bool {
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
pub(super) const IN_WORDS: [&str; 48] = [
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

/// Whether a word with this sum may be one of those.
#[inline(always)]
pub(super) fn may_be_number(sum: u16) -> bool {
    NUMERALS[usize::from(sum) / 64] >> (sum % 64) & 1 == 1
}

/// A Chinese numeral.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numeral {
    Digit(u64),
    Magnitude(u64),
}

pub(super) fn numeral(c: char) -> Option<Numeral> {
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
pub(super) fn value_of(numerals: &[(Numeral, u16)]) -> Option<u64> {
    let digits = numerals.iter().map(|&(numeral, _)| match numeral {
        Numeral::Digit(digit) => Some(digit),
        Numeral::Magnitude(_) => None,
    });
    if let Some(digits) = digits.collect::<Option<Vec<u64>>>() {
        return Some(digits.iter().fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(*digit)));
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
                section = section.saturating_add(of * value);
            }
            Numeral::Magnitude(value) => {
                section = section.saturating_add(digit.take().unwrap_or_default());
                let before = if value > 10_000 { std::mem::take(&mut total) } else { 0 };
                let of = section.saturating_add(before);
                if of == 0 {
                    return None;
                }
                total = total.saturating_add(of.saturating_mul(value));
                section = 0;
            }
        }
    }
    Some(total.saturating_add(section).saturating_add(digit.unwrap_or_default()))
}

/// Up to three digits.
pub(super) fn group(digits: &[u8]) -> u16 {
    let value = digits.iter().fold(0, |value, b| value * 10 + u16::from(b - b'0'));
    NUMBER | (digits.len() as u16) << 10 | value
}

/// The groups of a number.
pub(super) fn groups(value: u64, out: &mut Vec<u16>) {
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

pub(super) fn spelled(word: &[u8]) -> Option<u64> {
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

pub(super) fn month(word: &[u8]) -> Option<u64> {
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
