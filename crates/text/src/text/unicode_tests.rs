//! The lists of characters hold against the Unicode data of `icu_properties`.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, LineBreak, SentenceTerminal};
use icu_properties::{CodePointMapData, CodePointSetData};
use unicode_normalization::UnicodeNormalization;

use super::fold::{Class, Tables, is_unspaced};

fn characters() -> impl Iterator<Item = char> {
    '\0'..=char::MAX
}

fn is_ascii_folded(c: char) -> bool {
    std::iter::once(c).nfkc().all(|c| c.is_ascii())
}

fn named(characters: impl Iterator<Item = char>) -> Vec<String> {
    characters.map(|c| format!("U+{:04X}", u32::from(c))).collect()
}

const NONE: [String; 0] = [];

/// Foldings, classes and marks are computed from the data of these two when the first text is read.
#[test]
fn the_tables_are_of_this_version_of_unicode() {
    assert_eq!(unicode_normalization::UNICODE_VERSION, (18, 0, 0));
    assert!(char::UNICODE_VERSION >= (16, 0, 0));
}

#[test]
fn a_decimal_digit_of_any_script_is_a_digit() {
    let category = CodePointMapData::<GeneralCategory>::new();
    let tables = Tables::get();
    let folded = |c| {
        let mut all = Vec::new();
        tables.fold_char(c, |folded| all.push(folded));
        all
    };
    let digits = characters().filter(|&c| category.get(c) == GeneralCategory::DecimalNumber);
    let mut ascii = ('0'..='9').cycle();
    // They come in tens, in order.
    assert_eq!(named(digits.filter(|&c| folded(c) != [ascii.next().unwrap()])), NONE);
    let others = characters().filter(|&c| category.get(c) != GeneralCategory::DecimalNumber && !is_ascii_folded(c));
    assert_eq!(named(others.filter(|&c| matches!(folded(c)[..], [to] if to.is_ascii_digit()))), NONE);
}

#[test]
fn a_full_stop_of_any_script_ends_a_sentence() {
    let ends = CodePointSetData::new::<SentenceTerminal>();
    let missing = characters().filter(|&c| ends.contains(c) && !is_ascii_folded(c));
    let missing = missing.filter(|&c| Tables::get().class(c) != Class::Break);
    assert_eq!(named(missing), ["U+104A"]);
    let more = characters().filter(|&c| Tables::get().class(c) == Class::Break && !ends.contains(c));
    // Semicolons.
    assert_eq!(named(more), ["U+003B", "U+FF1B"]);
}

#[test]
fn a_script_without_spaces_has_no_words() {
    let breaks = CodePointMapData::<LineBreak>::new();
    let missing = characters().filter(|&c| breaks.get(c) == LineBreak::ComplexContext && !is_unspaced(c));
    assert_eq!(named(missing), NONE);
}

#[test]
fn what_nobody_sees_leaves_no_trace() {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let category = CodePointMapData::<GeneralCategory>::new();
    let unseen = characters().filter(|&c| ignorable.contains(c) || category.get(c) == GeneralCategory::Format);
    assert_eq!(named(unseen.filter(|&c| Tables::get().class(c) != Class::Drop)), NONE);
}
