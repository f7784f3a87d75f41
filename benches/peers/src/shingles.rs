//! The shingles of a text, the same as those of `scripts/lib/peer_text.py`.

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// Words of a text in lower case, one space between them, and where each begins and ends.
#[derive(Default)]
pub struct Shingles {
    words: String,
    spans: Vec<(usize, usize)>,
    size: usize,
}

/// Letters and numbers as Python has them: a mark is none, whatever it is combined with.
fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() && !is_combining_mark(c)
}

/// Scripts in which each character counts as a word.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')
}

impl Shingles {
    pub fn new(text: &str) -> Self {
        // Most text is normalized, and is not copied for it.
        let lower = match is_nfkc_quick(text.chars()) {
            IsNormalized::Yes => text.to_lowercase(),
            _ => text.nfkc().collect::<String>().to_lowercase(),
        };
        let mut found = Self::default();
        let mut single = 0;
        let mut rest = lower.char_indices().peekable();
        while let Some((start, c)) = rest.next() {
            if !is_of_a_word(c) {
                continue;
            }
            let mut end = start + c.len_utf8();
            if !stands_alone(c) {
                while let Some((at, c)) = rest.next_if(|&(_, c)| is_of_a_word(c) && !stands_alone(c)) {
                    end = at + c.len_utf8();
                }
            }
            single += usize::from(c >= '\u{3040}');
            if !found.spans.is_empty() {
                found.words.push(' ');
            }
            let begin = found.words.len();
            found.words.push_str(&lower[start..end]);
            found.spans.push((begin, found.words.len()));
        }
        found.size = if 2 * single > found.spans.len() { 5 } else { 3 };
        found
    }

    /// Word triples, in order; of a text mostly in Chinese or Japanese, five characters in a row.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let spans = &self.spans;
        // A text of fewer words than a shingle has is one.
        let short = (spans.len() < self.size).then_some(self.words.as_str());
        short.into_iter().chain(spans.windows(self.size).map(|run| &self.words[run[0].0..run[run.len() - 1].1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that `scripts/lib/test-peers` holds against the shingles of Python.
    #[test]
    fn shingles_are_those_of_python() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("../shingles.json")).unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let expected: Vec<&str> =
                case["shingles"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
            assert_eq!(Shingles::new(case["text"].as_str().unwrap()).iter().collect::<Vec<_>>(), expected);
        }
    }
}
