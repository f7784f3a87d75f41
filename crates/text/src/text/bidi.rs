//! Text of any direction in a line of another direction.

use std::borrow::Cow;

/// FIRST STRONG ISOLATE: the following text takes the direction of its first letter.
const ISOLATE: char = '\u{2068}';
/// POP DIRECTIONAL ISOLATE: the end of it.
const END: char = '\u{2069}';

/// Isolates a text with right-to-left characters, so that it does not reorder the line around it. For terminals, and
/// for markup whose text has no elements; never for data.
///
/// Unicode Standard Annex #9, section 2.7.
pub fn isolate(text: &str) -> Cow<'_, str> {
    match text.contains(is_right_to_left) {
        true => Cow::Owned(format!("{ISOLATE}{text}{END}")),
        false => Cow::Borrowed(text),
    }
}

/// The blocks whose characters are read from right to left, assigned or not, and the marks that have the same effect.
fn is_right_to_left(c: char) -> bool {
    matches!(
        c,
        '\u{590}'..='\u{8ff}'
            | '\u{200f}'
            | '\u{202b}'
            | '\u{202e}'
            | '\u{2067}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefe}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_from_right_to_left_is_isolated() {
        for text in ["إغلاق الميناء", "נמל חיפה", "بندر بوشهر", "بندرگاہ", "١٤", "ﷺ", "𞤀", "a\u{202e}b", "BBC عربي (2)"]
        {
            assert_eq!(isolate(text), format!("\u{2068}{text}\u{2069}"));
        }
        for text in ["", "The harbour closed", "Гавань", "港口关闭", "ท่าเรือ", "\u{feff}a"] {
            assert!(matches!(isolate(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
