//! Typing errors in the words of an alphabet: two words that differ in one letter have sums that differ by one of a few
//! hundred values.

use std::sync::LazyLock;

use super::HASH;
use super::sums::letter;
use crate::text::fold::is_unspaced;

/// Letters of a text that determine its alphabet.
const READ: usize = 24;

/// The first code point after all alphabets.
const BEHIND: char = '\u{1800}';

/// An alphabet with few enough letters that their differences are rare among all: 1 in 16 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Alphabet {
    /// Latin letters, without diacritics; also of texts in no alphabet.
    #[default]
    Latin,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
    /// Thai, Lao, Tibetan, Burmese and Khmer, which have no spaces between words and few letters.
    Unspaced,
}

/// The sum differences that one added, removed or replaced letter makes: one bit for each value.
type Differences = [u64; (HASH as usize + 1) / 64];

impl Alphabet {
    const ALL: [Alphabet; 6] =
        [Alphabet::Latin, Alphabet::Greek, Alphabet::Cyrillic, Alphabet::Hebrew, Alphabet::Arabic, Alphabet::Unspaced];

    /// The alphabet of most of the first letters of a cleaned text.
    pub(crate) fn of(cleaned: &str) -> Alphabet {
        let begin = cleaned.as_bytes().get(..2 * READ).unwrap_or_default();
        if begin.is_ascii() && begin.iter().filter(|b| b.is_ascii_lowercase()).count() > READ / 2 {
            return Alphabet::Latin;
        }
        let mut counts = [0usize; Alphabet::ALL.len()];
        let of_letter = |c: char| {
            let found = Alphabet::ALL.iter().position(|alphabet| alphabet.has(c));
            // An alphabet has nothing but letters; blocks have more, and of scripts behind these nothing is asked.
            let is_letter = found.is_some_and(|place| place < Alphabet::Unspaced as usize) || c >= BEHIND;
            (is_letter || c.is_alphabetic()).then_some(found)
        };
        for found in cleaned.chars().filter_map(of_letter).take(READ) {
            if let Some(count) = found.and_then(|place| counts.get_mut(place)) {
                *count += 1;
            }
        }
        let most = Alphabet::ALL.into_iter().zip(counts).rev().max_by_key(|&(_, count)| count);
        most.map_or(Alphabet::Latin, |(alphabet, _)| alphabet)
    }

    /// The alphabet with this number; Latin if there is none.
    pub(crate) fn from_number(number: u16) -> Alphabet {
        Alphabet::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Whether it has this letter, folded.
    fn has(self, c: char) -> bool {
        let (first, last) = match self {
            Alphabet::Latin => ('a', 'z'),
            Alphabet::Greek => ('α', 'ω'),
            Alphabet::Cyrillic => ('а', 'я'),
            Alphabet::Hebrew => ('א', 'ת'),
            Alphabet::Arabic => ('\u{0621}', '\u{064A}'),
            Alphabet::Unspaced => return is_unspaced(c),
        };
        (first..=last).contains(&c)
    }

    /// Whether two words with this difference of sums may differ in one letter. Never of a script without words.
    pub(crate) fn is_one_letter(self, apart: u16) -> bool {
        let differences = ONE_LETTER.get(self as usize);
        let word = differences.and_then(|differences| differences.get(usize::from(apart) / 64));
        word.is_some_and(|bits| bits >> (apart % 64) & 1 == 1)
    }

    fn differences(self) -> Differences {
        let letters: Vec<char> = ('a'..='\u{064A}').filter(|&c| self.has(c) && c.is_alphabetic()).collect();
        // 0 stands for no letter.
        let sums: Vec<u16> = std::iter::once(0).chain(letters.iter().map(|&c| letter(u32::from(c)))).collect();
        let mut bits = [0; (HASH as usize + 1) / 64];
        for (at, &one) in sums.iter().enumerate() {
            for &other in sums.iter().skip(at + 1) {
                for apart in [one.wrapping_sub(other) & HASH, other.wrapping_sub(one) & HASH] {
                    bits[usize::from(apart) / 64] |= 1 << (apart % 64);
                }
            }
        }
        bits
    }
}

static ONE_LETTER: LazyLock<Vec<Differences>> =
    LazyLock::new(|| Alphabet::ALL.iter().map(|alphabet| alphabet.differences()).collect());

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(word: &str) -> u16 {
        word.chars().fold(0u16, |sum, c| sum.wrapping_add(letter(u32::from(c)))) & HASH
    }

    #[test]
    fn one_letter_is_told_in_each_alphabet() {
        for (text, one, others, far) in [
            ("the council", "council", ["countil", "counci", "councill"], "mobile"),
            ("το συμβουλιο", "συμβουλιο", ["συμβουλια", "συμβουλι", "συμβουλιον"], "θαλασσα"),
            ("городской совет", "совет", ["савет", "сове", "советы"], "море"),
            ("המועצה", "מועצה", ["מועצת", "מועצ", "מועצהי"], "ים"),
            ("الخارطه علي", "خارطه", ["خريطه", "خارط", "خارطته"], "بحر"),
        ] {
            let alphabet = Alphabet::of(text);
            assert!(alphabet.has(one.chars().next().unwrap()), "{text}");
            let is_near = |other: &str| alphabet.is_one_letter(sum(one).wrapping_sub(sum(other)) & HASH);
            assert!(others.iter().all(|other| is_near(other)), "{text}");
            assert!(!is_near(far) && !alphabet.is_one_letter(0), "{text}");
        }
    }

    #[test]
    fn differences_are_rare() {
        for alphabet in Alphabet::ALL {
            let count: u32 = alphabet.differences().iter().map(|bits| bits.count_ones()).sum();
            assert!(count <= (u32::from(HASH) + 1) / 8, "{alphabet:?} {count}");
        }
    }

    #[test]
    fn the_alphabet_is_that_of_most_letters() {
        assert_eq!(Alphabet::of(""), Alphabet::Latin);
        assert_eq!(Alphabet::of("新闻联播 128"), Alphabet::Latin);
        assert_eq!(Alphabet::of("nato и россия ведут переговоры"), Alphabet::Cyrillic);
        for (number, alphabet) in (0..).zip(Alphabet::ALL) {
            assert_eq!(Alphabet::from_number(number), alphabet);
        }
        assert_eq!(Alphabet::from_number(9), Alphabet::Latin);
    }
}
