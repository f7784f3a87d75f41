//! Unicode folding of single characters: NFKC, lower case, traditional to simplified Chinese, and look-alike quotes
//! and dashes unified. The folded character and its class are two arrays by code point, built once, so that the
//! cleaning pass pays one load per character.

use std::sync::LazyLock;

use unicode_normalization::char::{canonical_combining_class, decompose_canonical, is_combining_mark};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use super::byte_class::decode_three;

/// Class of a folded character for the cleaning pass, the sentence splitter and the segmenter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// Leaves no trace: controls, zero-width characters, variation selectors, byte order marks.
    Drop,
    Space,
    Punct,
    /// Punctuation that always ends a sentence (not the ASCII full stop).
    Break,
    /// A letter or digit of a script that puts spaces between words.
    Word,
    /// A Chinese character.
    Han,
    /// Hiragana or katakana.
    Kana,
    Hangul,
    /// A letter of another script without spaces between words, such as Thai.
    Unspaced,
    /// A combining mark: belongs to the letter before it.
    Mark,
}

impl Class {
    /// Whether it counts for the length of a sentence: letters and digits.
    pub(super) fn is_letter(self) -> bool {
        matches!(self, Class::Word | Class::Han | Class::Kana | Class::Hangul | Class::Unspaced)
    }

    /// Whether marks are common behind it: letters, other than those of East Asia, and marks.
    fn may_stand_before_marks(self) -> bool {
        matches!(self, Class::Word | Class::Unspaced | Class::Mark)
    }

    /// Whether a space next to it is insignificant and left out.
    pub(super) fn is_spaceless(self) -> bool {
        matches!(self, Class::Han | Class::Kana)
    }
}

/// Properties of each character of the Basic Multilingual Plane.
pub(crate) struct Tables {
    /// The folded character, or 0 where `fold_char` and composition are needed.
    fold: Box<[u16; 0x1_0000]>,
    class: Box<[Class; 0x1_0000]>,
    /// One bit a code point without a single folded character: it is its own folding, but a neighbour can change it.
    itself: Box<[u64; 0x1_0000 / 64]>,
    /// One bit a code point that is a Chinese character and folds to itself: small enough to stay in the cache while
    /// whole runs of them are read.
    clean_han: Box<[u64; 0x1_0000 / 64]>,
    /// One bit a combining mark that folds to itself and composes with nothing.
    plain_marks: Box<[u64; 0x1_0000 / 64]>,
    /// One bit a letter or mark behind which every mark stands in canonical order.
    any_mark_follows: Box<[u64; 0x1_0000 / 64]>,
    /// Letters and marks that fold to two characters, with these: ascending.
    two: Vec<(u16, [char; 2])>,
}

fn has_bit(bits: &[u64; 0x1_0000 / 64], cp: u16) -> bool {
    bits[usize::from(cp) / 64] >> (cp % 64) & 1 == 1
}

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::build);

/// Traditional character and its simplified form; see the head of the file for its source and licence.
const TS_CHARACTERS: &str = include_str!("ts_characters.txt");

impl Tables {
    pub(crate) fn get() -> &'static Tables {
        &TABLES
    }

    /// The folded character of a BMP code point, or `None` if it needs the slow path.
    #[inline(always)]
    pub(super) fn fold(&self, cp: u16) -> Option<u16> {
        match self.fold[usize::from(cp)] {
            0 => None,
            folded => Some(folded),
        }
    }

    #[inline(always)]
    pub(super) fn class_bmp(&self, cp: u16) -> Class {
        self.class[usize::from(cp)]
    }

    #[inline]
    pub(crate) fn class(&self, c: char) -> Class {
        match u16::try_from(u32::from(c)) {
            Ok(cp) => self.class_bmp(cp),
            Err(_) => classify(c),
        }
    }

    /// [`char::is_alphanumeric`] without its search, for characters that are assigned.
    pub(super) fn is_alphanumeric(&self, c: char) -> bool {
        let class = u16::try_from(u32::from(c)).map(|cp| self.class_bmp(cp));
        match class {
            Ok(class) if class.is_letter() => true,
            Ok(Class::Space | Class::Punct | Class::Break) => false,
            _ => c.is_alphanumeric(),
        }
    }

    /// The code point at `at` of UTF-8 if it is a Chinese character of the BMP that folds to itself.
    #[inline(always)]
    pub(super) fn clean_han_at(&self, bytes: &[u8], at: usize) -> Option<u16> {
        decode_three(bytes, at).filter(|&cp| has_bit(&self.clean_han, cp))
    }

    fn build() -> Tables {
        let mut class = Box::new([Class::Punct; 0x1_0000]);
        let mut simplified = Box::new([0u16; 0x1_0000]);
        for (cp, slot) in (0..=u16::MAX).zip(class.iter_mut()) {
            *slot = char::from_u32(u32::from(cp)).map_or(Class::Drop, classify);
        }
        for (traditional, simple) in pairs() {
            if let (Ok(t), Ok(s)) = (u16::try_from(u32::from(traditional)), u16::try_from(u32::from(simple))) {
                simplified[usize::from(t)] = s;
            }
        }
        let simplify = |c: char| -> char {
            let mut c = c;
            // A few simplified forms are themselves listed as traditional: follow to the end, so that folding twice
            // is folding once. The table has no cycle; the bound is for a table that would.
            for _ in 0..4 {
                match u16::try_from(u32::from(c)).map(|cp| simplified[usize::from(cp)]) {
                    Ok(next) if next != 0 => c = char::from_u32(u32::from(next)).unwrap_or(c),
                    _ => break,
                }
            }
            c
        };
        let mut fold = Box::new([0u16; 0x1_0000]);
        for (cp, slot) in (0..=u16::MAX).zip(fold.iter_mut()) {
            let Some(c) = char::from_u32(u32::from(cp)) else {
                continue;
            };
            *slot = match c {
                // These blocks are their own NFKC and have no case: the bulk of the table, without the work.
                '\u{4E00}'..='\u{9FFF}' => bmp(simplify(c)),
                '\u{AC00}'..='\u{D7A3}' | '\u{E000}'..='\u{F8FF}' => cp,
                _ => single(c).map(simplify).map_or(0, bmp),
            };
        }
        let mut itself = Box::new([0u64; 0x1_0000 / 64]);
        for (cp, _) in (0..=u16::MAX).zip(fold.iter()).filter(|&(_, &to)| to == 0) {
            if char::from_u32(u32::from(cp)).is_some_and(|c| normal(c).eq([c])) {
                itself[usize::from(cp) / 64] |= 1 << (cp % 64);
            }
        }
        let mut clean_han = Box::new([0u64; 0x1_0000 / 64]);
        for (cp, &class) in (0..=u16::MAX).zip(class.iter()) {
            let is_plain = class == Class::Han && fold[usize::from(cp)] == cp;
            clean_han[usize::from(cp) / 64] |= u64::from(is_plain) << (cp % 64);
        }
        let mut tables = Tables {
            fold,
            class,
            itself,
            clean_han,
            plain_marks: Box::new([0; 0x1_0000 / 64]),
            any_mark_follows: Box::new([0; 0x1_0000 / 64]),
            two: Vec::new(),
        };
        tables.add_marks();
        tables
    }

    /// Fills the tables of marks and of letters before them, for scripts with marks only, since every start of a
    /// process pays for it.
    fn add_marks(&mut self) {
        for cp in 0x80..=u16::MAX {
            let class = self.class_bmp(cp);
            let Some(c) = char::from_u32(u32::from(cp)).filter(|_| class.may_stand_before_marks()) else { continue };
            let (word, bit) = (usize::from(cp) / 64, 1 << (cp % 64));
            if self.fold(cp) == Some(cp) || self.folds_to_itself(c) {
                let composes = is_nfkc_quick(std::iter::once(c)) == IsNormalized::Maybe;
                self.plain_marks[word] |= if class == Class::Mark && !composes { bit } else { 0 };
                let mut end = 0;
                decompose_canonical(c, |part| end = canonical_combining_class(part));
                self.any_mark_follows[word] |= if end == 0 { bit } else { 0 };
            } else if self.fold(cp).is_none() {
                let mut folded = Vec::new();
                self.fold_char(c, |c| folded.push(c));
                self.two.extend(folded.try_into().map(|two| (cp, two)));
            }
        }
    }

    /// Whether a mark and the character before it stay unchanged together.
    #[inline(always)]
    pub(super) fn stays_behind(&self, mark: u16, before: u16) -> bool {
        has_bit(&self.plain_marks, mark) && has_bit(&self.any_mark_follows, before)
    }

    /// Whether `fold_char` returns the character itself; covers most characters of the slow path.
    pub(super) fn folds_to_itself(&self, c: char) -> bool {
        u16::try_from(u32::from(c)).is_ok_and(|cp| has_bit(&self.itself, cp))
    }

    /// The result of `fold_char` for letters and marks that fold to two characters.
    pub(super) fn folds_to_two(&self, c: char) -> Option<[char; 2]> {
        let cp = u16::try_from(u32::from(c)).ok()?;
        let at = self.two.binary_search_by_key(&cp, |(cp, _)| *cp).ok()?;
        self.two.get(at).map(|(_, two)| *two)
    }

    /// Whether a folded character may become one with the character before it: marks, the second and third parts of a
    /// Hangul syllable, and vowels of Kirat Rai.
    pub(super) fn may_compose(&self, c: char) -> bool {
        match u16::try_from(u32::from(c)) {
            Ok(cp) => self.fold(cp).is_none(),
            Err(_) => is_combining_mark(c) || is_nfkc_quick(std::iter::once(c)) == IsNormalized::Maybe,
        }
    }

    /// Folds a character of the slow path.
    pub(super) fn fold_char(&self, c: char, mut put: impl FnMut(char)) {
        for folded in normal(c) {
            match u16::try_from(u32::from(folded)).ok().and_then(|cp| self.fold(cp)) {
                Some(simple) => put(char::from_u32(u32::from(simple)).unwrap_or(folded)),
                None => put(folded),
            }
        }
    }
}

fn pairs() -> impl Iterator<Item = (char, char)> {
    TS_CHARACTERS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).filter_map(|pair| {
        let mut chars = pair.chars();
        Some((chars.next()?, chars.next()?))
    })
}

fn bmp(c: char) -> u16 {
    u16::try_from(u32::from(c)).unwrap_or(0)
}

/// NFKC and lower case, with look-alike quotes, dashes and dots unified.
fn normal(c: char) -> impl Iterator<Item = char> {
    let folded = std::iter::once(alike(c)).nfkc().flat_map(char::to_lowercase).map(alike).nfkc().map(bare);
    folded.filter(|&c| c != NUKTA).flat_map(|c| {
        let (first, second) = match c {
            'ß' => ('s', Some('s')),
            'æ' => ('a', Some('e')),
            'œ' => ('o', Some('e')),
            c => (c, None),
        };
        std::iter::once(first).chain(second)
    })
}

/// A letter without its diacritics, which capitals, headlines and keyboards of another language leave out.
fn bare(c: char) -> char {
    let mut letter = c;
    let mut is_bare = true;
    decompose_canonical(c, |part| match part {
        _ if letter == c && !is_left_out(part) => letter = part,
        part => is_bare &= is_left_out(part),
    });
    match letter {
        // Strokes and dots that no decomposition tells of.
        '\u{0111}' => 'd',
        '\u{0127}' => 'h',
        '\u{0131}' => 'i',
        '\u{0142}' => 'l',
        '\u{00F8}' => 'o',
        '\u{0167}' => 't',
        letter if is_bare => letter,
        _ => c,
    }
}

/// The dot below letters of Devanagari that derives letters for other languages.
const NUKTA: char = '\u{093C}';

/// The marks that no letter keeps.
fn is_left_out(c: char) -> bool {
    is_diacritic(c) || c == NUKTA
}

/// The marks of Latin, Greek and Cyrillic letters.
fn is_diacritic(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}')
}

/// Typography that publishers change when they reprint.
fn alike(c: char) -> char {
    match c {
        '\u{2018}'
        | '\u{2019}'
        | '\u{201B}'
        | '\u{00B4}'
        | '\u{1FFD}'
        | '\u{02BB}'..='\u{02BF}'
        | '\u{05F3}'
        | '\u{A78C}' => '\'',
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' | '\u{05F4}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2022}' | '\u{2027}' | '\u{2219}' | '\u{30FB}' | '\u{00B7}' => '\u{00B7}',
        '\u{03C2}' => '\u{03C3}',
        // Signs inside the numbers of Arabic scripts: `١٬٢٣٤`, `٨٫٤`, `٨،٤`.
        '\u{060C}' | '\u{066C}' => ',',
        '\u{066B}' => '.',
        // Letters that newsrooms write with or without their sign: hamza on alef, waw and yeh, alef maqsura, teh
        // marbuta; Persian and Urdu forms of yeh, kaf and heh.
        '\u{0622}' | '\u{0623}' | '\u{0625}' | '\u{0671}' => '\u{0627}',
        '\u{0624}' => '\u{0648}',
        '\u{0626}' | '\u{0649}' | '\u{06CC}' => '\u{064A}',
        '\u{06A9}' => '\u{0643}',
        '\u{0629}' | '\u{06BE}' | '\u{06C0}'..='\u{06C3}' | '\u{06D5}' => '\u{0647}',
        '\u{06D3}' => '\u{06D2}',
        // Nasal vowels of Hindi: newsrooms write the dot for the moon as well.
        '\u{0901}' => '\u{0902}',
        c if c.is_ascii() => c,
        c => digit(c).unwrap_or(c),
    }
}

/// Zeros of the decimal digits of every script (general category Nd) that NFKC does not fold to ASCII; the
/// nine others follow each. `unicode_tests.rs` holds this and the lists below against the Unicode data.
const ZEROS: [u32; 68] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50,
    0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50,
    0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0x104A0, 0x10D30, 0x10D40, 0x11066, 0x110F0, 0x11136,
    0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x116D0, 0x116DA, 0x11730, 0x118E0, 0x11950, 0x11BF0,
    0x11C50, 0x11D50, 0x11DA0, 0x11DE0, 0x11F50, 0x16130, 0x16A60, 0x16AC0, 0x16B50, 0x16D70, 0x1E140, 0x1E2F0,
    0x1E4F0, 0x1E5F1, 0x1E950,
];

/// The ASCII digit that a digit of another script stands for.
fn digit(c: char) -> Option<char> {
    let behind = ZEROS.partition_point(|&zero| zero <= u32::from(c));
    let zero = ZEROS.get(behind.checked_sub(1)?)?;
    char::from_digit(u32::from(c) - zero, 10)
}

/// The one character that `c` always becomes, if there is one and no neighbour can change it.
fn single(c: char) -> Option<char> {
    if canonical_combining_class(c) != 0 || is_nfkc_quick(std::iter::once(c)) == IsNormalized::Maybe {
        return None;
    }
    let mut folded = normal(c);
    let first = folded.next()?;
    let composes = canonical_combining_class(first) != 0
        || is_combining_mark(first)
        || is_nfkc_quick(std::iter::once(first)) == IsNormalized::Maybe;
    (folded.next().is_none() && !composes).then_some(first)
}

fn classify(c: char) -> Class {
    match c {
        _ if is_invisible(c) || is_left_out(c) => Class::Drop,
        _ if c.is_whitespace() => Class::Space,
        _ if c.is_control() => Class::Drop,
        '!' | '?' | ';' | '\u{FF1B}' => Class::Break,
        '\u{3005}'
        | '\u{3007}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFD}' => Class::Han,
        '\u{3041}'..='\u{3096}'
        | '\u{309D}'..='\u{309F}'
        | '\u{30A1}'..='\u{30FA}'
        | '\u{30FC}'..='\u{30FF}'
        | '\u{31F0}'..='\u{31FF}' => Class::Kana,
        '\u{1100}'..='\u{11FF}' | '\u{3131}'..='\u{318E}' | '\u{A960}'..='\u{A97C}' | '\u{AC00}'..='\u{D7FB}' => {
            Class::Hangul
        }
        c if is_sentence_end(c) => Class::Break,
        _ if is_combining_mark(c) => Class::Mark,
        _ if is_unspaced(c) && c.is_alphanumeric() => Class::Unspaced,
        _ if c.is_alphanumeric() => Class::Word,
        _ => Class::Punct,
    }
}

/// Full stops, question and exclamation marks of other scripts (Sentence_Terminal, without Burmese `၊`, which ends a
/// clause, and without what NFKC folds to ASCII).
fn is_sentence_end(c: char) -> bool {
    matches!(c,
        '\u{0589}' | '\u{061D}'..='\u{061F}' | '\u{06D4}' | '\u{0700}'..='\u{0702}' | '\u{07F9}' | '\u{0837}'
        | '\u{0839}' | '\u{083D}' | '\u{083E}' | '\u{0964}' | '\u{0965}' | '\u{104B}' | '\u{1362}' | '\u{1367}'
        | '\u{1368}' | '\u{166E}' | '\u{1735}' | '\u{1736}' | '\u{17D4}' | '\u{17D5}' | '\u{1803}' | '\u{1809}'
        | '\u{1944}' | '\u{1945}' | '\u{1AA8}'..='\u{1AAB}' | '\u{1B4E}' | '\u{1B4F}' | '\u{1B5A}' | '\u{1B5B}'
        | '\u{1B5E}' | '\u{1B5F}' | '\u{1B7D}'..='\u{1B7F}' | '\u{1C3B}' | '\u{1C3C}' | '\u{1C7E}' | '\u{1C7F}'
        | '\u{203C}' | '\u{203D}' | '\u{2047}'..='\u{2049}' | '\u{2CF9}'..='\u{2CFB}' | '\u{2E2E}' | '\u{2E3C}'
        | '\u{2E53}' | '\u{2E54}' | '\u{2E60}' | '\u{2E61}' | '\u{3002}' | '\u{A4FF}' | '\u{A60E}' | '\u{A60F}'
        | '\u{A6F3}' | '\u{A6F7}' | '\u{A876}' | '\u{A877}' | '\u{A8CE}' | '\u{A8CF}' | '\u{A92F}' | '\u{A9C8}'
        | '\u{A9C9}' | '\u{AA5D}'..='\u{AA5F}' | '\u{AAF0}' | '\u{AAF1}' | '\u{ABEB}' | '\u{FE12}' | '\u{FE15}'
        | '\u{FE16}' | '\u{FE56}' | '\u{FE57}' | '\u{FF01}' | '\u{FF1F}' | '\u{FF61}'
        | '\u{10A56}'..='\u{10A57}' | '\u{10F55}'..='\u{10F59}' | '\u{10F86}'..='\u{10F89}'
        | '\u{11047}'..='\u{11048}' | '\u{110BE}'..='\u{110C1}' | '\u{11141}'..='\u{11143}'
        | '\u{111C5}'..='\u{111C6}' | '\u{111CD}' | '\u{111DE}'..='\u{111DF}' | '\u{11238}'..='\u{11239}'
        | '\u{1123B}'..='\u{1123C}' | '\u{112A9}' | '\u{113D4}'..='\u{113D5}' | '\u{1144B}'..='\u{1144C}'
        | '\u{115C2}'..='\u{115C3}' | '\u{115C9}'..='\u{115D7}' | '\u{11641}'..='\u{11642}'
        | '\u{1173C}'..='\u{1173E}' | '\u{11944}' | '\u{11946}' | '\u{11A42}'..='\u{11A43}'
        | '\u{11A9B}'..='\u{11A9C}' | '\u{11C41}'..='\u{11C42}' | '\u{11EF7}'..='\u{11EF8}'
        | '\u{11F43}'..='\u{11F44}' | '\u{16A6E}'..='\u{16A6F}' | '\u{16AF5}' | '\u{16B37}'..='\u{16B38}'
        | '\u{16B44}' | '\u{16D6E}'..='\u{16D6F}' | '\u{16E98}' | '\u{1BC9F}' | '\u{1DA88}')
}

/// Characters of scripts that put no spaces between words (Line_Break SA, by blocks), and of Tibetan, which puts a dot
/// between syllables.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{1950}'..='\u{19DF}' | '\u{1A20}'..='\u{1AAF}'
        | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AADF}' | '\u{11700}'..='\u{1174F}')
}

/// Format characters, fillers and variation selectors: nothing a reader sees. Also the marks of Arabic and Hebrew that
/// writers leave out.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{0610}'..='\u{061A}' | '\u{061C}' | '\u{0640}' | '\u{064B}'..='\u{0655}'
        | '\u{0670}' | '\u{06DD}' | '\u{070F}' | '\u{115F}' | '\u{1160}' | '\u{180B}'..='\u{180F}'
        | '\u{0591}'..='\u{05BD}' | '\u{05BF}' | '\u{05C1}' | '\u{05C2}' | '\u{05C4}' | '\u{05C5}' | '\u{05C7}'
        | '\u{0600}'..='\u{0605}' | '\u{0890}' | '\u{0891}' | '\u{08E2}'
        | '\u{17B4}' | '\u{17B5}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{FFFE}'
        | '\u{FFFF}'
        | '\u{110BD}' | '\u{110CD}' | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folded(text: &str) -> String {
        let tables = Tables::get();
        let mut out = String::new();
        for c in text.chars() {
            tables.fold_char(c, |f| out.push(f));
        }
        out
    }

    #[test]
    fn widths_cases_and_scripts_become_one() {
        assert_eq!(folded("ＡＢｃ１２３，（）"), "abc123,()");
        assert_eq!(folded("㎡ № ﬁ"), "m2 no fi");
        assert_eq!(folded("臺灣與體育機關發佈"), "台湾与体育机关发布");
        assert_eq!(folded("“it’s” — ‘so’"), "\"it's\" - 'so'");
        assert_eq!(folded("ｶﾅ"), "カナ");
    }

    #[test]
    fn the_licensed_table_is_whole_and_has_no_cycle() {
        assert_eq!(pairs().count(), 2966);
        let tables = Tables::get();
        for (traditional, _) in pairs() {
            let once = folded(&traditional.to_string());
            assert_eq!(folded(&once), once, "{traditional}");
            assert!(once.chars().all(|c| tables.class(c) == Class::Han));
        }
    }

    /// The array must say what the normaliser says, for every character it answers for.
    #[test]
    fn the_array_agrees_with_the_normaliser() {
        let tables = Tables::get();
        for cp in 0..=u16::MAX {
            let Some(c) = char::from_u32(u32::from(cp)) else {
                continue;
            };
            if pairs_has(c) {
                continue;
            }
            let Some(fast) = tables.fold(cp) else {
                continue;
            };
            let slow: String = normal(c).collect();
            let mut chars = slow.chars();
            let expected = chars.next().map(|c| folded(&c.to_string())).unwrap_or_default();
            assert_eq!(char::from_u32(u32::from(fast)).map(String::from), Some(expected), "U+{cp:04X}");
            assert_eq!(chars.next(), None, "U+{cp:04X}");
        }
    }

    fn pairs_has(c: char) -> bool {
        static TRADITIONAL: LazyLock<std::collections::HashSet<char>> =
            LazyLock::new(|| pairs().map(|(t, _)| t).collect());
        TRADITIONAL.contains(&c)
    }

    #[test]
    fn a_letter_or_digit_is_told_from_the_table() {
        for c in ('\0'..=char::MAX).filter(|&c| !matches!(Tables::get().class(c), Class::Han | Class::Hangul)) {
            assert_eq!(Tables::get().is_alphanumeric(c), c.is_alphanumeric(), "{c:?}");
        }
        assert!("我们〇한ㅎ".chars().all(|c| Tables::get().is_alphanumeric(c)));
    }

    #[test]
    fn letters_and_marks_that_fold_to_two_characters_are_in_a_table() {
        for cp in 0..=u16::MAX {
            let is_in = Tables::get().fold(cp).is_none() && Tables::get().class_bmp(cp).may_stand_before_marks();
            let Some(c) = char::from_u32(u32::from(cp)).filter(|_| is_in) else { continue };
            let mut folded = Vec::new();
            Tables::get().fold_char(c, |c| folded.push(c));
            let two = Tables::get().folds_to_two(c);
            assert_eq!(two.map(Vec::from), (folded.len() == 2).then_some(folded), "{c:?}");
        }
        assert_eq!(Tables::get().folds_to_two('\u{E33}'), Some(['\u{E4D}', '\u{E32}']));
    }

    #[test]
    fn classes() {
        let class = |c| Tables::get().class(c);
        assert_eq!(class('我'), Class::Han);
        assert_eq!(class('𠀀'), Class::Han);
        assert_eq!(class('の'), Class::Kana);
        assert_eq!(class('한'), Class::Hangul);
        assert_eq!(class('ก'), Class::Unspaced);
        assert_eq!(class('ж'), Class::Word);
        assert_eq!(class('9'), Class::Word);
        assert_eq!(class('。'), Class::Break);
        assert_eq!(class('，'), Class::Punct);
        assert_eq!(class('\u{3000}'), Class::Space);
        assert_eq!(class('\u{200B}'), Class::Drop);
        assert_eq!(class('\u{7}'), Class::Drop);
        assert_eq!(class('\u{301}'), Class::Drop);
        assert_eq!(class('\u{94D}'), Class::Mark);
        assert_eq!(class('😀'), Class::Punct);
    }

    proptest! {
        /// Every folded character is its own folding, but where a decomposition leaves marks to be composed later.
        #[test]
        fn folding_twice_is_folding_once(c in any::<char>()) {
            let once = folded(&c.to_string());
            prop_assert_eq!(folded(&once), once);
        }
    }
}
