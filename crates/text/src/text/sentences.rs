//! Where sentences end. Line breaks and markup inside a paragraph do not matter, only punctuation and block tags, so
//! that a reprint with other wrapping has the same sentences.

use super::entities;
use super::fold::{Class, Tables};
use super::markup::{self, Effect};
use super::work_counter;

/// A sentence as a range of the cleaned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentence {
    /// Offset of its first byte in the cleaned text.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
    /// Its length: letters and digits of any script. Spaces and punctuation do not count.
    pub letters: usize,
}

/// Abbreviations before a capital letter or a number within a sentence, folded and sorted; of the languages in which
/// they are followed by capitals often, and none that is a word which ends sentences.
const ABBREVIATIONS: [&str; 76] = [
    "al", "avv", "bzw", "ca", "capt", "col", "doc", "dott", "dr", "dra", "env", "evtl", "fevr", "fig", "geb", "gen",
    "ggf", "godz", "gov", "hon", "hrsg", "inkl", "inz", "janv", "jr", "lt", "messrs", "mio", "mlle", "mme", "mr",
    "mrd", "mrs", "ms", "mt", "no", "nos", "nr", "pag", "pgs", "prof", "rep", "rev", "sen", "sgt", "sig", "sr", "sra",
    "srta", "st", "str", "ths", "tp", "tys", "ud", "uds", "ul", "usw", "vgl", "vs", "yrd", "вв", "гг", "долл", "др",
    "им", "коп", "млн", "млрд", "обл", "руб", "см", "стр", "тыс", "ул", "чел",
];

/// Longest word before a full stop, in bytes, that may be an abbreviation.
const LONGEST: usize = 12;
/// The abbreviations as numbers: nearly every sentence ends with a word that is looked up among them.
const KEYS: [u64; ABBREVIATIONS.len()] = {
    let (mut keys, mut at) = ([0; ABBREVIATIONS.len()], 0);
    while at < keys.len() {
        keys[at] = key(ABBREVIATIONS[at].as_bytes());
        at += 1;
    }
    keys
};

/// The first eight bytes of a word, which no abbreviation exceeds, in an order that is that of words.
const fn key(word: &[u8]) -> u64 {
    let (mut key, mut at) = (0, 0);
    while at < 8 {
        key = key << 8 | if at < word.len() { word[at] as u64 } else { 0 };
        at += 1;
    }
    key
}

/// Bytes after a full stop within which the next word is searched.
const NEXT_WORD: usize = 200;

/// Whether the full stop just written to `written` ends a sentence. `before` is the class of the character in front
/// of it, `behind` the raw text that follows. Decimal points, initials (`J. Smith`, `U.S. Treasury`) and
/// abbreviations do not end one; in Chinese text every full stop does.
pub(super) fn full_stop_ends(tables: &Tables, before: Class, written: &str, behind: &[u8]) -> bool {
    if matches!(before, Class::Han | Class::Kana) {
        return true;
    }
    let (next, parted) = next_char(tables, behind);
    let Some(next) = next else { return true };
    match tables.class(folded(tables, next)) {
        Class::Han | Class::Kana => return true,
        class if !class.is_letter() => return parted && !is_abbreviated(written),
        _ => {}
    }
    if !parted {
        // `the end.The next`: the space was lost with a tag. `example.com` and `U.S.A.` are no ends.
        let second = behind.get(1).is_some_and(u8::is_ascii_lowercase);
        let words = last_word(written);
        return next.is_ascii_uppercase() && second && words.len() > 1 && words.bytes().all(|b| b.is_ascii_lowercase());
    }
    (next.is_uppercase() || next.is_numeric() || !next.is_lowercase()) && !is_abbreviated(written)
}

/// The first letter, digit or unusual sign behind a full stop, and whether white space or markup precedes it.
fn next_char(tables: &Tables, behind: &[u8]) -> (Option<char>, bool) {
    let window = behind.get(..behind.len().min(NEXT_WORD)).unwrap_or_default();
    let mut parted = false;
    let mut at = 0;
    while let Some(rest) = window.get(at..).filter(|rest| !rest.is_empty()) {
        work_counter::add(1);
        let (c, len) = match rest.first() {
            Some(b'<') => match markup::MarkupFinder::default().find(window, at) {
                Some(found) if found.effect == Effect::Break => return (None, true),
                Some(found) => {
                    parted |= found.effect == Effect::Space;
                    at = found.end;
                    continue;
                }
                None => return (Some('<'), parted),
            },
            Some(b'&') => entities::decode(rest).unwrap_or(('&', 1)),
            _ => match first_char(rest) {
                Some(c) => (c, c.len_utf8()),
                None => return (Some(' '), parted),
            },
        };
        match c {
            '"' | '\'' | ')' | ']' | '(' | '[' | '\u{201C}' | '\u{201D}' | '\u{2018}' | '\u{2019}' | '\u{300D}'
            | '\u{300F}' | '\u{FF09}' => {}
            c if c.is_whitespace() => parted = true,
            c if !c.is_ascii() && tables.class(c) == Class::Drop => {}
            c => return (Some(c), parted),
        }
        at += len;
    }
    // Only spaces and quotes follow: the sentence ends.
    (None, parted)
}

/// The character at the head of bytes that are UTF-8 up to a cut at their end.
fn first_char(bytes: &[u8]) -> Option<char> {
    let bytes = bytes.get(..bytes.len().min(4))?;
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?,
    };
    valid.chars().next()
}

fn folded(tables: &Tables, c: char) -> char {
    let folded = u16::try_from(u32::from(c)).ok().and_then(|cp| tables.fold(cp));
    folded.and_then(|cp| char::from_u32(u32::from(cp))).unwrap_or(c)
}

/// The letters and digits before the full stop that `written` ends with, the last few of a long word.
fn last_word(written: &str) -> &str {
    let before = written.strip_suffix('.').unwrap_or(written);
    let is_letter = |b: &u8| b.is_ascii_alphanumeric() || !b.is_ascii();
    let len = before.bytes().rev().take(LONGEST).take_while(is_letter).count();
    let word = before.get(before.ceil_char_boundary(before.len() - len)..).unwrap_or_default();
    // Signs that are not ASCII stand before some.
    word.trim_start_matches(|c: char| !c.is_alphanumeric())
}

fn is_abbreviated(written: &str) -> bool {
    let word = last_word(written);
    let mut letters = word.chars();
    let first = letters.next();
    // An initial: in scripts that have no capitals one letter is a word.
    let initial = letters.next().is_none() && first.is_some_and(char::is_lowercase);
    initial || (word.len() <= 8 && KEYS.binary_search(&key(word.as_bytes())).is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::clean::tests::sentences;

    #[test]
    fn chinese() {
        assert_eq!(
            sentences("今天下雨。我们在家！你呢？好；再见……完"),
            ["今天下雨。", "我们在家!", "你呢?", "好;", "再见......", "完"]
        );
        assert_eq!(sentences("他说：“我来了。”然后走了。"), ["他说:\"我来了。", "\"然后走了。"]);
        assert_eq!(sentences("一台电脑.科学家说,有3.5万个.“好.”"), ["一台电脑.", "科学家说,有3.5万个.", "\"好."]);
        assert_eq!(sentences("系统LensNet.该项目"), ["系统lensnet.", "该项目"]);
    }

    #[test]
    fn english() {
        assert_eq!(
            sentences(
                "Prices rose 3.5 pct. Mr. Smith of the U.S. Treasury said J. Doe (D-Ore.) left. \"Why?\" No. 5 did."
            ),
            [
                "prices rose 3.5 pct.",
                "mr. smith of the u.s. treasury said j. doe (d-ore.) left.",
                "\"why?",
                "\" no. 5 did."
            ]
        );
        assert_eq!(sentences("The end.The next. 1986 came"), ["the end.", "the next.", "1986 came"]);
        assert_eq!(
            sentences("See example.com or v1.2.3, etc. and so on... then"),
            ["see example.com or v1.2.3, etc. and so on...", "then"]
        );
        assert_eq!(sentences("He left.</b> She stayed.\n\n   It's over"), ["he left.", "she stayed.", "it's over"]);
    }

    #[test]
    fn line_breaks_and_inline_markup_change_nothing() {
        let plain = sentences(
            "The committee met on Monday and decided to wait. Nobody spoke. 委员会周一开会，决定等待。没有人说话。",
        );
        assert_eq!(plain.len(), 4);
        assert_eq!(
            sentences(
                "The committee\nmet on <b>Mon</b>day and\r\n    decided to wait.\n\nNobody \
                 spoke.\n委员会周一\n开会，决定<i>等</i>待。 没有人&nbsp;说话。"
            ),
            plain
        );
    }

    #[test]
    fn accented_letters_before_a_full_stop_are_letters() {
        assert_eq!(sentences("Đây là bản. Hôm qua"), ["day la ban.", "hom qua"]);
        assert_eq!(sentences("En fin d'année. Le reste"), ["en fin d'annee.", "le reste"]);
        assert_eq!(
            sentences("О том сказал А. Иванов из г. Тверь. Он уехал"),
            ["о том сказал а. иванов из г. тверь.", "он уехал"]
        );
        assert_eq!(
            sentences("Die Firma hat ca. 20 Leute bzw. Kräfte. Ende"),
            ["die firma hat ca. 20 leute bzw. krafte.", "ende"]
        );
    }

    #[test]
    fn what_nobody_sees_behind_a_full_stop_changes_nothing() {
        for mark in ["\u{200F}", "\u{200B}", "\u{FE0F}", "\u{AD}", "\u{301}"] {
            assert_eq!(sentences(&format!("He left.{mark} She stayed")), ["he left.", "she stayed"], "{mark:?}");
        }
    }

    #[test]
    fn abbreviations_are_sorted_and_short() {
        assert!(super::ABBREVIATIONS.is_sorted() && super::KEYS.is_sorted());
        let longest = super::ABBREVIATIONS.iter().map(|word| word.len()).max();
        assert_eq!(longest, Some(8));
        for word in super::ABBREVIATIONS {
            assert!(super::is_abbreviated(&format!("{word}.")), "{word}");
            assert!(!super::is_abbreviated(&format!("{word}qqqqqqqq.")), "{word}");
        }
    }

    #[test]
    fn a_line_of_a_script_without_spaces_ends_a_sentence() {
        assert_eq!(sentences("ฝนตกหนัก ตลอดคืน\nสงวนลิขสิทธิ์"), ["ฝนตกหนัก ตลอดคืน", "สงวนลิขสิทธิ์"]);
        assert_eq!(sentences("ການສູນເສຍ\n\nສະຫງວນ"), ["ການສູນເສຍ", "ສະຫງວນ"]);
        assert_eq!(sentences("one line\nof two"), ["one line of two"]);
        assert_eq!(sentences("שלום\nעולם"), ["שלום עולם"]);
    }

    #[test]
    fn block_tags_end_sentences() {
        assert_eq!(sentences("标题<p>正文第一句</p><div>第二"), ["标题", "正文第一句", "第二"]);
        assert_eq!(sentences("one<br>two<td>three"), ["one two three"]);
    }
}
