//! Whether a headline belongs to the text below it. Where a crawler extracted only page chrome, the headline is the
//! article's and the text is a notice or a row of links.

use memchr::memmem;

use super::fold::Tables;
use super::stop_words::is_stop_word;
use super::token::word_hash;

/// Most parts of a headline that are searched for.
const PARTS: usize = 64;
/// Bytes of a headline that are read.
const MOST: usize = 1 << 10;
/// Words of fewer letters occur in every text and are ignored.
const SHORTEST_WORD: usize = 4;
/// Letters of a longer word that count, so that endings do not.
const STEM: usize = 6;

/// One part in this number must occur in the text, and at least two if there are two: a single common word is chance.
const ONE_IN: usize = 6;
const LEAST: usize = 2;

/// Whether a text shares words with a headline; both cleaned. Parts are words, or pairs of adjacent characters in
/// scripts without spaces. A headline without parts belongs to every text.
pub(super) fn speaks_of(headline: &str, text: &str) -> bool {
    // A longer one is no headline.
    let headline = headline.get(..headline.floor_char_boundary(MOST)).unwrap_or_default();
    let mut parts = 0;
    each_part(headline, |_, _| {
        parts += 1;
        parts < PARTS
    });
    // Most headlines belong to their texts, which a few parts already show.
    let mut needed = LEAST.max(parts.div_ceil(ONE_IN)).min(parts);
    let mut left = parts;
    each_part(headline, |part, is_word| {
        needed -= usize::from(needed > 0 && stands_in(part, is_word, text));
        left -= 1;
        needed > 0 && left >= needed
    });
    needed == 0
}

/// Calls `each` with every part and whether it is a word, until it returns false.
fn each_part(headline: &str, mut each: impl FnMut(&str, bool) -> bool) {
    let tables = Tables::get();
    for word in headline.split(|c: char| !tables.is_alphanumeric(c)) {
        let is_word = word.is_ascii() || !word.chars().any(is_character);
        if is_word {
            let behind = |letters: usize| word.char_indices().nth(letters).map_or(word.len(), |(at, _)| at);
            let is_long = behind(SHORTEST_WORD - 1) < word.len();
            let stem = word.get(..behind(STEM)).unwrap_or(word);
            if is_long && !is_stop_word(word_hash(word)) && !each(stem, true) {
                return;
            }
            continue;
        }
        let mut ends = word.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
        let mut before = ends.next();
        for (at, end) in ends {
            if let Some((begin, _)) = before
                && !each(word.get(begin..end).unwrap_or_default(), false)
            {
                return;
            }
            before = Some((at, end));
        }
    }
}

/// Whether the letter is of a script without spaces between words.
fn is_character(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '\u{E00}'..='\u{EFF}')
}

/// Whether the part occurs in the text; a word must begin one there.
fn stands_in(part: &str, is_word: bool, text: &str) -> bool {
    let begins = |at: usize| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !is_word || before.is_none_or(|c| !Tables::get().is_alphanumeric(c))
    };
    memmem::find_iter(text.as_bytes(), part).any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headlines_of_their_texts() {
        for (headline, text, speaks) in [
            ("木雕店深夜起火 消防员两小时扑灭", "昨夜十一点,城南一家木雕店突然起火,火势很快蔓延。", true),
            ("木雕店深夜起火 消防员两小时扑灭", "本网站所载文章仅代表作者个人观点,与本站立场无关。", false),
            ("Wood-carving shop on fire", "A fire broke out in a shop on Mill Lane last night.", true),
            ("Wood-carving shop on fire", "You must be signed in to read this page. Register or sign in.", false),
            ("Councils voted to close the bath", "The council has voted: the swimming bath closes.", true),
            // Words of four letters in any alphabet, and six of longer ones.
            ("Что это был за мост", "А это был рассказ, и за ним другой.", false),
            ("Пожарные спасли музей", "Ночью вызвали пожарных, и они спасли картины.", true),
            ("Пожелания мэра", "Пожарные вызваны ночью; мэру звонили.", false),
            // Within another word it says nothing.
            ("Rating agencies", "The operating hours of the pool are below.", false),
            // Nothing that could be looked for.
            ("To be, or not", "Anything at all.", true),
            ("", "", true),
        ] {
            assert_eq!(speaks_of(&headline.to_lowercase(), &text.to_lowercase()), speaks, "{headline}: {text}");
        }
    }
}
