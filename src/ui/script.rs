//! The language of a text, as far as its script tells it.

/// Letters that are looked at.
const SAMPLE: usize = 200;

/// Scripts by their `lang` tag. Several languages are written in the last ones: the tag names the script alone.
const TAGS: [&str; 9] = ["zh", "ja", "ko", "th", "he", "el", "und-Arab", "und-Cyrl", "und-Deva"];

fn script(c: char) -> Option<usize> {
    Some(match c {
        '\u{2e80}'..='\u{2fff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => 0,
        '\u{3040}'..='\u{30ff}' => 1,
        '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => 2,
        '\u{e00}'..='\u{e7f}' => 3,
        '\u{590}'..='\u{5ff}' => 4,
        '\u{370}'..='\u{3ff}' => 5,
        '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{8a0}'..='\u{8ff}' => 6,
        '\u{400}'..='\u{52f}' => 7,
        '\u{900}'..='\u{97f}' => 8,
        _ => return None,
    })
}

/// The `lang` attribute of a text: empty, which says that the language is not known, where the script leaves it open.
/// The page's own language would be wrong: voices and fonts are chosen by it.
pub(super) fn lang_of(text: &str) -> &'static str {
    let mut counts = [0_usize; TAGS.len()];
    let mut letters = 0;
    for c in text.chars().filter(|c| c.is_alphabetic()).take(SAMPLE) {
        letters += 1;
        if let Some(count) = script(c).and_then(|at| counts.get_mut(at)) {
            *count += 1;
        }
    }
    // Japanese has many characters of Chinese, and Chinese none of Japanese.
    if let [chinese, japanese, ..] = &mut counts
        && *japanese * 10 >= *chinese
        && *japanese > 0
    {
        *japanese += std::mem::take(chinese);
    }
    let found = counts.iter().zip(TAGS).max_by_key(|(count, _)| **count);
    found.filter(|(count, _)| **count * 2 > letters).map_or("", |(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_script() {
        for (text, lang) in [
            ("台风在浙江登陆 (BBC)", "zh"),
            ("台風が九州に上陸した", "ja"),
            ("태풍 상륙", "ko"),
            ("إغلاق ميناء بيروت BBC", "und-Arab"),
            ("נמל חיפה נסגר", "he"),
            ("Порт закрыт", "und-Cyrl"),
            ("Harbour closed, says 新华社", ""),
            ("17:30", ""),
            ("", ""),
        ] {
            assert_eq!(lang_of(text), lang, "{text}");
        }
    }
}
