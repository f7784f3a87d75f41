//! Incremental normalisation at the end of a normalised text: the effect of one more combining mark, or one more part
//! of a Hangul syllable, on the characters before it (Unicode Standard, section 3.11, canonical composition). The
//! full normaliser is needed only if marks must be reordered; otherwise one look-up is enough.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, compose, decompose_canonical};

use super::work_counter;

/// Effect of the last character on those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Composed {
    /// No change: the text is normalised already.
    Nothing,
    /// It composes with the character before it into this one.
    Pair(char),
    /// Unknown without the normaliser.
    Unknown,
}

/// Effect of the last character of `text`. The text before it is NFKC and in lower case, and so is the character.
pub(super) fn last(text: &str) -> Composed {
    let mut before = text.chars().rev();
    let (Some(last), Some(previous)) = (before.next(), before.next()) else {
        return Composed::Nothing;
    };
    work_counter::add(3);
    let (class, previous_class) = (canonical_combining_class(last), canonical_combining_class(previous));
    let pair = || match compose(previous, last) {
        Some(c) if c.is_uppercase() => Composed::Unknown,
        Some(c) => Composed::Pair(c),
        None => Composed::Nothing,
    };
    match (class, previous_class) {
        // It composes with the character directly before it or not at all.
        (0, 0) => pair(),
        (0, _) => Composed::Nothing,
        // The letter itself may hold a mark that would have to come after this one.
        (_, 0) if ends_in_order(previous, class) => pair(),
        // A mark of the same class keeps this one from the letter.
        _ if class == previous_class => Composed::Nothing,
        _ if class > previous_class && previous_class > 0 => {
            let letter = before.find(|&c| {
                work_counter::add(1);
                canonical_combining_class(c) == 0
            });
            match letter {
                Some(letter) if ends_in_order(letter, class) && compose(letter, last).is_none() => Composed::Nothing,
                _ => Composed::Unknown,
            }
        }
        _ => Composed::Unknown,
    }
}

/// Whether a mark of this non-zero class follows all marks of a letter in canonical order.
fn ends_in_order(letter: char, class: u8) -> bool {
    let mut end = 0;
    if !letter.is_ascii() {
        decompose_canonical(letter, |part| end = canonical_combining_class(part));
    }
    end <= class
}

/// A few characters, normalised and in lower case.
pub(super) fn normalised(characters: &str) -> String {
    // Three passes of the normaliser, of which each character costs as much as ten bytes of clean text.
    work_counter::add(30 * characters.chars().count());
    let folded = characters.nfkc().flat_map(char::to_lowercase);
    folded.nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text with one more character, as the cleaning pass writes it.
    fn add(text: &mut String, c: char) {
        text.push(c);
        match last(text) {
            Composed::Nothing => {}
            Composed::Pair(composed) => {
                text.pop();
                text.pop();
                text.push(composed);
            }
            Composed::Unknown => *text = normalised(text),
        }
    }

    #[test]
    fn ordinary_marks_need_no_normaliser() {
        for (text, result) in [
            ("e\u{301}", Composed::Pair('é')),
            ("x\u{301}", Composed::Nothing),
            ("ê\u{301}", Composed::Pair('ế')),
            ("ẹ\u{302}", Composed::Pair('ệ')),
            ("क\u{93E}", Composed::Nothing),
            ("क\u{94D}", Composed::Nothing),
            ("ก\u{E49}", Composed::Nothing),
            ("か\u{3099}", Composed::Pair('が')),
            ("ק\u{5B8}\u{5BC}", Composed::Nothing),
            ("\u{1100}\u{1161}", Composed::Pair('가')),
            ("가\u{11A8}", Composed::Pair('각')),
            ("ê\u{323}", Composed::Unknown),
        ] {
            assert_eq!(last(text), result, "{text}");
        }
    }

    /// Letters and marks that compose, change places or block each other.
    fn character() -> impl Strategy<Value = char> {
        let some =
            "aeiouänsqǖệ ͅ\u{300}\u{301}\u{302}\u{304}\u{308}\u{31B}\u{323}\u{327}\u{328}\u{316}\u{338}\u{345}\u{59a}";
        let more = "क\u{93C}\u{93E}\u{94D}ে\u{9BE}\u{9D7}か\u{3099}\u{309A}\u{1100}\u{1161}\u{11A8}가ע\u{5B8}\u{5BC}\u{5C1}ωᾳ\u{313}\u{314}\u{342}ก\u{E38}\u{E49}ཀ\u{F71}\u{F72}\u{F74}\u{F80}";
        let all: Vec<char> = some.chars().chain(more.chars()).collect();
        prop_oneof![
            4 => prop::sample::select(all),
            1 => (0x300u32..0x370).prop_map(|c| char::from_u32(c).unwrap_or('a')),
            1 => any::<char>(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn one_character_at_a_time_is_the_normaliser(characters in prop::collection::vec(character(), 0..8)) {
            // What the cleaning pass adds is folded before.
            let folded: Vec<char> = characters
                .iter()
                .flat_map(|c| normalised(&c.to_string()).chars().collect::<Vec<_>>())
                .collect();
            let mut text = String::new();
            for &c in &folded {
                add(&mut text, c);
            }
            let whole: String = folded.iter().collect();
            prop_assert_eq!(text, normalised(&whole));
        }
    }
}
