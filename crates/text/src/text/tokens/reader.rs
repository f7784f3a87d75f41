//! Reads a sentence into tokens: words, numbers, characters.

use std::ops::Range;

use super::numerals::{Numeral, group, groups, may_be_number, month, numeral, spelled, value_of, weekday};
use super::sums::{S, letter, sum_of};
use super::{CHARACTER, HASH, NUMBER};
use crate::text::byte_class::decode;
use crate::text::fold::{Class, Tables};
use crate::text::swar::{Lanes, leading};

/// Most runs of digits in one number.
pub(super) const RUNS: usize = 6;
/// Prefixes of words for magnitudes after a number, folded; of two with a common beginning the longer one first. Those
/// in English come first.
const MAGNITUDES: [(&str, u64); 42] = [
    ("thousand", 1000),
    ("million", 1_000_000),
    ("billion", 1_000_000_000),
    ("trillion", 1_000_000_000_000),
    ("bn", 1_000_000_000),
    ("milliard", 1_000_000_000),
    ("mio", 1_000_000),
    ("mrd", 1_000_000_000),
    ("mln", 1_000_000),
    ("mld", 1_000_000_000),
    ("lakh", 100_000),
    ("crore", 10_000_000),
    ("millon", 1_000_000),
    ("milhao", 1_000_000),
    ("milhoes", 1_000_000),
    ("bilhao", 1_000_000_000),
    ("bilhoes", 1_000_000_000),
    ("milion", 1_000_000),
    ("miliar", 1_000_000_000),
    ("milyon", 1_000_000),
    ("milyar", 1_000_000_000),
    ("tysiac", 1000),
    ("tysiec", 1000),
    ("juta", 1_000_000),
    ("triliun", 1_000_000_000_000),
    ("trieu", 1_000_000),
    ("тыс", 1000),
    ("млн", 1_000_000),
    ("миллион", 1_000_000),
    ("мільион", 1_000_000),
    ("млрд", 1_000_000_000),
    ("миллиард", 1_000_000_000),
    ("мільярд", 1_000_000_000),
    ("трлн", 1_000_000_000_000),
    ("триллион", 1_000_000_000_000),
    ("الاف", 1000),
    ("الف", 1000),
    ("مليون", 1_000_000),
    ("ملايين", 1_000_000),
    ("مليار", 1_000_000_000),
    ("بليون", 1_000_000_000),
    ("करोड", 10_000_000),
];
/// How many of them are English.
const ENGLISH: usize = 5;
/// The first bytes of those.
const MAGNITUDE_BYTES: [u8; 11] = [b'b', b'c', b'j', b'l', b'm', b't', 0xD0, 0xD1, 0xD8, 0xD9, 0xE0];
/// The letter reh (U+0631) in UTF-8.
const REH: [u8; 2] = [0xD8, 0xB1];

/// Reads the words of a sentence one by one.
pub(super) struct TokenReader<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    tables: &'static Tables,
    out: &'a mut Vec<u16>,
}

impl<'a> TokenReader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: usize, out: &'a mut Vec<u16>) -> TokenReader<'a> {
        TokenReader { bytes, at, tables: Tables::get(), out }
    }

    /// Reads a word, a number or a character, or skips a sign.
    pub(super) fn one(&mut self) {
        let Some(b) = self.peek() else { return };
        if b.is_ascii_digit() {
            return self.number();
        }
        if b.is_ascii_alphabetic() {
            return self.word();
        }
        if b.is_ascii() {
            self.at += 1;
            return;
        }
        let (c, len) = decode(self.bytes, self.at);
        match self.tables.class(c) {
            Class::Han if numeral(c).is_some() => self.numerals(),
            Class::Han | Class::Kana => {
                self.out.push(CHARACTER | letter(u32::from(c)));
                self.at += len;
            }
            Class::Unspaced => self.cluster(),
            Class::Word | Class::Hangul | Class::Mark => self.word(),
            _ => self.at += len,
        }
    }

    /// A letter of a script without spaces, with its marks.
    fn cluster(&mut self) {
        let (c, len) = decode(self.bytes, self.at);
        let mut sum = letter(u32::from(c));
        self.at += len;
        while self.peek().is_some_and(|b| !b.is_ascii()) {
            let (mark, len) = decode(self.bytes, self.at);
            if self.tables.class(mark) != Class::Mark {
                break;
            }
            sum = sum.wrapping_add(letter(u32::from(mark)));
            self.at += len;
        }
        self.out.push(CHARACTER | sum & HASH);
    }

    /// Skips the remaining letters of a word.
    fn skip_letters(&mut self) {
        while let Some(b) = self.peek() {
            let (c, len) = if b.is_ascii() { (char::from(b), 1) } else { decode(self.bytes, self.at) };
            if !matches!(self.tables.class(c), Class::Word | Class::Mark) || c.is_ascii_digit() {
                break;
            }
            self.at += len;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self, from: usize) -> &[u8] {
        self.bytes.get(from..).unwrap_or_default()
    }

    /// Reads a run of letters, and of digits after a letter.
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
        end_word(self.bytes, from..self.at, sum, ascii, self.out);
    }

    /// A number in digits: runs of them with one sign between each two.
    fn number(&mut self) {
        let mut runs: [(u8, usize, usize); RUNS] = [(0, 0, 0); RUNS];
        let (mut count, mut reversed) = (0, None);
        let mut sign = 0;
        for run in &mut runs {
            let from = self.at;
            while self.peek().is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1;
            }
            *run = (sign, from, self.at);
            count += 1;
            match *self.rest(self.at) {
                [b @ (b',' | b'.' | b' '), next, ..] if next.is_ascii_digit() && count < RUNS => {
                    sign = b;
                    self.at += 1;
                }
                // The decimal sign of Arabic newspapers is a letter, and the decimals stand before it: `4ر646` is
                // 646.4.
                [lead, trail, next, ..] if [lead, trail] == REH && next.is_ascii_digit() && count == 1 => {
                    self.at += 2;
                    let whole = self.at;
                    while self.peek().is_some_and(|b| b.is_ascii_digit()) {
                        self.at += 1;
                    }
                    let decimals = std::mem::replace(run, (0, whole, self.at));
                    reversed = Some((b'.', decimals.1, decimals.2));
                    break;
                }
                _ => break,
            }
        }
        if let Some(decimals) = reversed {
            (runs[1], count) = (decimals, 2);
        }
        let mut runs = runs.get(..count).unwrap_or_default();
        if let Some((magnitude, has_decimals)) = self.magnitude() {
            let (mut value, used) = self.written_out(runs, magnitude, has_decimals);
            let mut unit = magnitude;
            while let Some((part, smaller)) = self.smaller_part(unit) {
                value = value.saturating_add(part);
                unit = smaller;
            }
            runs = runs.get(..runs.len() - used).unwrap_or_default();
            self.runs(runs);
            groups(value, self.out);
        } else {
            self.runs(runs);
            let ending = self.rest(self.at);
            let ordinal = [b"th", b"st", b"nd", b"rd"];
            if ordinal.iter().any(|&end| ending.starts_with(end)) && !ending.get(2).is_some_and(u8::is_ascii_alphabetic)
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
            push_digits(digits, self.out);
        }
    }

    /// The magnitude that stands behind a number, which is taken with it, and whether a point in the number stands
    /// before decimals in any case: three digits behind one are a group in `3.600 millones`, but in English.
    fn magnitude(&mut self) -> Option<(u64, bool)> {
        let spaced = usize::from(matches!(self.peek(), Some(b' ' | b'-')));
        let rest = self.rest(self.at + spaced);
        if rest.first().is_some_and(|b| MAGNITUDE_BYTES.contains(b))
            && let Some((nth, &(word, value))) =
                MAGNITUDES.iter().enumerate().find(|(_, (word, _))| rest.starts_with(word.as_bytes()))
        {
            self.at += spaced + word.len();
            let ending = self.at;
            // `millions`, `миллионов`.
            self.skip_letters();
            let ending = self.bytes.get(ending..self.at).unwrap_or_default();
            let is_english = nth < ENGLISH && matches!(ending, b"" | b"s");
            return Some((value, is_english || !word.is_ascii()));
        }
        if rest.first().is_some_and(u8::is_ascii) {
            return None;
        }
        let mut magnitude = None;
        while let Some(b) = self.peek()
            && !b.is_ascii()
        {
            let (c, len) = decode(self.bytes, self.at);
            let value = match (c, numeral(c)) {
                // Of Japanese and Korean, where nothing but a number stands before them.
                ('兆' | '조', _) => 1_000_000_000_000,
                ('억', _) => 100_000_000,
                ('만', _) => 10_000,
                ('천', _) => 1000,
                ('十' | '百', _) => break,
                (_, Some(Numeral::Magnitude(value))) => value,
                _ => break,
            };
            magnitude = Some(u64::saturating_mul(magnitude.unwrap_or(1), value));
            self.at += len;
        }
        magnitude.map(|magnitude| (magnitude, true))
    }

    /// The rest of a number that has digits for each of its magnitudes (`4亿2000万`, `3万2000`): its value, and its
    /// magnitude, which is smaller than the `unit` before it.
    fn smaller_part(&mut self, unit: u64) -> Option<(u64, u64)> {
        let from = self.at;
        // Korean puts a space there: `3만 2천`.
        let begin = from + usize::from(self.peek() == Some(b' '));
        let digits = self.rest(begin).iter().take_while(|b| b.is_ascii_digit()).count();
        self.at = begin + digits;
        let part = self.part(from, begin..self.at).filter(|&(value, magnitude)| value < unit && magnitude < unit);
        if part.is_none() {
            self.at = from;
        }
        part
    }

    /// What these digits are behind a magnitude that ends at `behind`, with their own, which is 1 if none follows.
    fn part(&mut self, behind: usize, digits: Range<usize>) -> Option<(u64, u64)> {
        let is_behind_character = self.bytes.get(..behind)?.last().is_some_and(|b| !b.is_ascii());
        if !is_behind_character || !(1..=4).contains(&digits.len()) {
            return None;
        }
        let has_character = self.peek().is_some_and(|b| !b.is_ascii());
        let magnitude = match has_character.then(|| self.magnitude()).flatten() {
            Some((magnitude, _)) => magnitude,
            None if digits.start > behind || self.goes_on() => return None,
            None => 1,
        };
        Some((self.written_out(&[(0, digits.start, digits.end)], magnitude, true).0, magnitude))
    }

    /// Whether the digits before this are part of a date, or are followed by decimals or groups.
    fn goes_on(&self) -> bool {
        let rest = self.rest(self.at);
        match rest {
            [b',' | b'.', next, ..] => next.is_ascii_digit(),
            [first, ..] if !first.is_ascii() => "年月日号년월일".contains(decode(self.bytes, self.at).0),
            _ => false,
        }
    }

    /// The number at the end of the runs times a magnitude, and how many of the runs it is. `has_decimals`: a point
    /// stands before decimals, whatever their number.
    fn written_out(&self, runs: &[(u8, usize, usize)], magnitude: u64, has_decimals: bool) -> (u64, usize) {
        let digits = |at: usize| {
            let run = runs.get(at).and_then(|&(_, from, to)| self.bytes.get(from..to));
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
        let is_decimal = match sign {
            b'.' => has_decimals || digits(last).len() != 3,
            b' ' | b',' => digits(last).len() < 3,
            _ => false,
        };
        let whole = if is_decimal { last - 1 } else { last };
        let mut first = whole;
        // Groups of a whole number.
        while first > 0 && digits(first).len() == 3 && digits(first - 1).len() <= 3 {
            first -= 1;
        }
        let number =
            (first..=whole).fold(0u64, |number, at| number.saturating_mul(1000).saturating_add(value(digits(at))));
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
            None => self.out.extend(numerals.iter().map(|&(_, hash)| CHARACTER | hash)),
        }
    }
}

/// Ends the word in these bytes; `sum`: that of its letters, `ascii`: whether all are ASCII.
#[inline]
pub(super) fn end_word(bytes: &[u8], at: Range<usize>, sum: u16, ascii: bool, out: &mut Vec<u16>) {
    let word = bytes.get(at.clone()).unwrap_or_default();
    let &[.., last] = word else { return };
    if may_be_number(sum & HASH) && push_number(bytes, at, sum, out) {
        return;
    }
    if last.is_ascii_digit() && push_amount(word, sum, out) {
        return;
    }
    // `nation's`, `nations` and `nation s` are one.
    let mut sum = sum;
    if last == b's' {
        match word {
            // What an apostrophe leaves of a genitive.
            [_] => return,
            [.., b's', _] | [_, _] | [_, _, _] => {}
            _ if ascii => sum = sum.wrapping_sub(S),
            _ => {}
        }
    }
    out.push(sum & HASH);
}

/// Letters before a number without a space: a currency, a preposition.
const PREFIX: usize = 3;

/// Adds a number with a few letters before it, `rp10`, `в2011`; false if the word is none. Behind more letters digits
/// are a part of a name.
#[cold]
fn push_amount(word: &[u8], sum: u16, out: &mut Vec<u16>) -> bool {
    let digits = word.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (prefix, digits) = word.split_at(word.len() - digits);
    let letters = std::str::from_utf8(prefix).map_or(usize::MAX, |prefix| prefix.chars().count());
    if letters > PREFIX || prefix.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let of_digits = digits.iter().fold(0u16, |sum, &b| sum.wrapping_add(letter(u32::from(b))));
    out.push(sum.wrapping_sub(of_digits) & HASH);
    push_digits(digits, out);
    true
}

/// Adds the groups of a number, of its digits.
fn push_digits(digits: &[u8], out: &mut Vec<u16>) {
    let first = (digits.len() + 2) % 3 + 1;
    let (first, rest) = digits.split_at(first.min(digits.len()));
    out.push(group(first));
    out.extend(rest.chunks(3).map(group));
}

/// Adds the number that a word spells; false if it is none.
#[cold]
fn push_number(bytes: &[u8], at: Range<usize>, sum: u16, out: &mut Vec<u16>) -> bool {
    let word = bytes.get(at.clone()).unwrap_or_default();
    if let Some(day) = weekday(word) {
        out.push(day);
        return true;
    }
    let Some(value) = in_words(bytes, (word, sum), at.end, out) else { return false };
    match out.last_mut() {
        // `twenty-five` is 25.
        Some(tens) if value < 10 && is_tens(*tens) && follows_word(bytes, at.start) => *tens += value as u16,
        _ => groups(value, out),
    }
    true
}

/// Whether a number is one of the tens from twenty on.
fn is_tens(token: u16) -> bool {
    let value = token & 0x3FF;
    token == (NUMBER | 2 << 10 | value) && value >= 20 && value.is_multiple_of(10)
}

/// Whether a hyphen or a space stands before this place, and letters before that.
fn follows_word(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    matches!(before, [.., last, b' ' | b'-'] if !last.is_ascii_digit() && !last.is_ascii_punctuation())
}

/// The number that a word stands for; a month does beside a number.
fn in_words(bytes: &[u8], (word, sum): (&[u8], u16), end: usize, out: &[u16]) -> Option<u64> {
    if let Some(value) = spelled(word, sum) {
        return Some(value);
    }
    let month = month(word)?;
    let behind = bytes.get(end..).unwrap_or_default().iter();
    let behind = { behind }.find(|b| !matches!(b, b' ' | b'.'));
    let before = out.last().is_some_and(|last| last & NUMBER != 0);
    (before || behind.is_some_and(u8::is_ascii_digit)).then_some(month)
}
