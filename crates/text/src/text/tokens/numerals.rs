//! Numbers in words, in Chinese numerals and in groups of digits.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::HASH;
use super::NUMBER;
use super::sums::letter;

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

/// Characters that need no table lookup.
pub(super) const HAN: RangeInclusive<char> = '\u{4E00}'..='\u{9FFF}';

/// Whether a character is one of [`HAN`] and no numeral, or kana: a few that are none are taken for a numeral.
#[inline(always)]
pub(super) fn is_plain(c: char) -> bool {
    let low = c as usize & 0xFF;
    match c {
        '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{30FC}' => true,
        c => HAN.contains(&c) && MAY_BE_NUMERALS[low / 64] >> (low % 64) & 1 == 0,
    }
}

/// The sums of the words that may be numbers: one bit for each.
static NUMERALS: [u64; 256] = {
    let mut bits = [0u64; 256];
    let mut at = 0;
    while at < SPELLED.len() + CALENDAR.len() {
        let word = if at < SPELLED.len() { SPELLED[at].0 } else { CALENDAR[at - SPELLED.len()] };
        let sum = sum_of_word(word.as_bytes());
        bits[sum as usize / 64] |= 1 << (sum % 64);
        at += 1;
    }
    bits
};

/// [`SPELLED`] by the sums of the words, 64 sums together.
static BY_SUM: LazyLock<[Vec<(&str, u64)>; 256]> = LazyLock::new(|| {
    let mut words = [const { Vec::new() }; 256];
    for (word, value) in SPELLED {
        words[usize::from(sum_of_word(word.as_bytes())) / 64].push((word, value));
    }
    words
});

/// The sum of the letters of a word in UTF-8; each has one or two bytes.
const fn sum_of_word(word: &[u8]) -> u16 {
    let (mut sum, mut at) = (0u16, 0);
    while at < word.len() {
        let first = word[at] as u32;
        let c = if first < 0x80 { first } else { (first & 0x1F) << 6 | (word[at + 1] & 0x3F) as u32 };
        sum = sum.wrapping_add(letter(c));
        at += if first < 0x80 { 1 } else { 2 };
    }
    sum & HASH
}

/// Numbers in words, folded, with their values; sorted. Words that are another one in another language are left out.
pub(super) static SPELLED: [(&str, u64); 209] = [
    ("acht", 8),
    ("cinco", 5),
    ("cincuenta", 50),
    ("cinq", 5),
    ("cinquante", 50),
    ("cinque", 5),
    ("cuarenta", 40),
    ("cuatro", 4),
    ("deux", 2),
    ("dieci", 10),
    ("diez", 10),
    ("doce", 12),
    ("dodici", 12),
    ("dois", 2),
    ("dos", 2),
    ("douze", 12),
    ("drei", 3),
    ("dreissig", 30),
    ("duas", 2),
    ("eight", 8),
    ("eighth", 8),
    ("eighty", 80),
    ("eleven", 11),
    ("eleventh", 11),
    ("fifth", 5),
    ("fifty", 50),
    ("first", 1),
    ("five", 5),
    ("forty", 40),
    ("four", 4),
    ("fourth", 4),
    ("funf", 5),
    ("huit", 8),
    ("neun", 9),
    ("nine", 9),
    ("ninety", 90),
    ("ninth", 9),
    ("nove", 9),
    ("noventa", 90),
    ("nueve", 9),
    ("ochenta", 80),
    ("ocho", 8),
    ("oito", 8),
    ("one", 1),
    ("onze", 11),
    ("otto", 8),
    ("quarante", 40),
    ("quatre", 4),
    ("quatro", 4),
    ("quattro", 4),
    ("sechs", 6),
    ("sechzig", 60),
    ("second", 2),
    ("seis", 6),
    ("sesenta", 60),
    ("sete", 7),
    ("setenta", 70),
    ("sette", 7),
    ("seven", 7),
    ("seventh", 7),
    ("seventy", 70),
    ("sieben", 7),
    ("siete", 7),
    ("six", 6),
    ("sixth", 6),
    ("sixty", 60),
    ("soixante", 60),
    ("ten", 10),
    ("tenth", 10),
    ("third", 3),
    ("thirty", 30),
    ("three", 3),
    ("tre", 3),
    ("treinta", 30),
    ("trenta", 30),
    ("trente", 30),
    ("tres", 3),
    ("trois", 3),
    ("twelfth", 12),
    ("twelve", 12),
    ("twenty", 20),
    ("two", 2),
    ("undici", 11),
    ("veinte", 20),
    ("venti", 20),
    ("vier", 4),
    ("vierzig", 40),
    ("vingt", 20),
    ("zehn", 10),
    ("zwanzig", 20),
    ("zwei", 2),
    ("zwolf", 12),
    ("восемь", 8),
    ("восемьдесят", 80),
    ("восьмая", 8),
    ("восьми", 8),
    ("восьмого", 8),
    ("восьмои", 8),
    ("вторая", 2),
    ("второго", 2),
    ("второе", 2),
    ("второи", 2),
    ("второму", 2),
    ("два", 2),
    ("двадцати", 20),
    ("двадцать", 20),
    ("две", 2),
    ("двенадцати", 12),
    ("двенадцать", 12),
    ("двумя", 2),
    ("двух", 2),
    ("девяносто", 90),
    ("девятая", 9),
    ("девяти", 9),
    ("девятого", 9),
    ("девятыи", 9),
    ("девять", 9),
    ("десятая", 10),
    ("десяти", 10),
    ("десятого", 10),
    ("десятыи", 10),
    ("десять", 10),
    ("одиннадцати", 11),
    ("одиннадцать", 11),
    ("первая", 1),
    ("первого", 1),
    ("первои", 1),
    ("первыи", 1),
    ("пятая", 5),
    ("пяти", 5),
    ("пятидесяти", 50),
    ("пятого", 5),
    ("пятыи", 5),
    ("пять", 5),
    ("пятьдесят", 50),
    ("седьмая", 7),
    ("седьмого", 7),
    ("седьмои", 7),
    ("семи", 7),
    ("семь", 7),
    ("семьдесят", 70),
    ("сорок", 40),
    ("сорока", 40),
    ("третии", 3),
    ("третьего", 3),
    ("третьеи", 3),
    ("третья", 3),
    ("трех", 3),
    ("три", 3),
    ("тридцати", 30),
    ("тридцать", 30),
    ("четвертая", 4),
    ("четвертого", 4),
    ("четвертыи", 4),
    ("четыре", 4),
    ("четырех", 4),
    ("шестая", 6),
    ("шести", 6),
    ("шестого", 6),
    ("шестои", 6),
    ("шесть", 6),
    ("шестьдесят", 60),
    ("اثنان", 2),
    ("اثنين", 2),
    ("اربع", 4),
    ("اربعه", 4),
    ("اربعون", 40),
    ("اربعين", 40),
    ("الاول", 1),
    ("الاولي", 1),
    ("التاسع", 9),
    ("التاسعه", 9),
    ("الثالث", 3),
    ("الثالثه", 3),
    ("الثامن", 8),
    ("الثامنه", 8),
    ("الثاني", 2),
    ("الثانيه", 2),
    ("الخامس", 5),
    ("الخامسه", 5),
    ("الرابع", 4),
    ("الرابعه", 4),
    ("السابع", 7),
    ("السابعه", 7),
    ("السادس", 6),
    ("السادسه", 6),
    ("العاشر", 10),
    ("العاشره", 10),
    ("تسع", 9),
    ("تسعه", 9),
    ("ثلاث", 3),
    ("ثلاثه", 3),
    ("ثلاثون", 30),
    ("ثلاثين", 30),
    ("ثمان", 8),
    ("ثماني", 8),
    ("ثمانيه", 8),
    ("خمس", 5),
    ("خمسه", 5),
    ("خمسون", 50),
    ("خمسين", 50),
    ("سبع", 7),
    ("سبعه", 7),
    ("ست", 6),
    ("سته", 6),
    ("عشر", 10),
    ("عشره", 10),
    ("عشرون", 20),
    ("عشرين", 20),
];

/// The words that [`month`] and [`weekday`] know.
pub(super) static CALENDAR: [&str; 31] = [
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
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Whether a word with this sum may be a numeral.
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

/// Whether a token is a group of three digits, which multiplies the number before it by a thousand.
pub(crate) fn is_whole_group(token: u16) -> bool {
    token & (NUMBER | DIGITS) == NUMBER | DIGITS
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

/// The value of a number in words; `sum` is that of its letters.
pub(super) fn spelled(word: &[u8], sum: u16) -> Option<u64> {
    let same = BY_SUM.get(usize::from(sum & HASH) / 64)?;
    same.iter().find(|(known, _)| known.as_bytes() == word).map(|&(_, value)| value)
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

/// Whether a number is a day of the week.
pub(crate) fn is_weekday(token: u16) -> bool {
    token & NUMBER != 0 && token & DIGITS == 0
}

/// The bits of a token with the number of digits of its group.
const DIGITS: u16 = 3 << 10;

/// The token of a day of the week: a number without digits.
pub(super) fn weekday(word: &[u8]) -> Option<u16> {
    let day = match word {
        b"monday" => 1,
        b"tuesday" => 2,
        b"wednesday" => 3,
        b"thursday" => 4,
        b"friday" => 5,
        b"saturday" => 6,
        b"sunday" => 7,
        _ => return None,
    };
    Some(NUMBER | day)
}
