//! The words of a query that a reader typed, in the syntax of `simple_query_string`, and the query without one of them.

/// Words that are tried one by one.
const WORDS: usize = 12;

/// Whether a character ends a word of `simple_query_string`.
fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '+' | '|' | '(' | ')' | '~')
}

/// A word of a query, in bytes from its beginning.
struct WordPlace {
    from: usize,
    to: usize,
    is_in_phrase: bool,
}

/// The words of a query that have to match, without operators, with their places.
fn words_of(query: &str) -> impl Iterator<Item = (&str, WordPlace)> {
    let (mut begin, mut last) = (None, None);
    let (mut is_in_phrase, mut is_phrase_excluded) = (false, false);
    // Parentheses that are open behind the first one that is excluded.
    let mut excluded = 0_usize;
    // The blank ends the last word.
    query.char_indices().chain([(query.len(), ' ')]).filter_map(move |(to, c)| {
        if !is_between(c) {
            begin.get_or_insert(to);
            return None;
        }
        let before = last.replace(c);
        let from = begin.take();
        let word = from.and_then(|from| query.get(from..to));
        let (was_in_phrase, was_excluded) = (is_in_phrase, excluded > 0 || is_in_phrase && is_phrase_excluded);
        let is_minus = word == Some("-");
        match c {
            '"' => {
                is_in_phrase = !is_in_phrase;
                is_phrase_excluded = is_minus;
            }
            '(' if !is_in_phrase && (excluded > 0 || is_minus) => excluded += 1,
            ')' if !is_in_phrase => excluded = excluded.saturating_sub(1),
            _ => (),
        }
        let (from, word) = from.zip(word)?;
        // `word~2`, `"a phrase"~3`
        let is_distance = before == Some('~') && word.bytes().all(|c| c.is_ascii_digit());
        let is_word = !word.starts_with('-') && word.contains(char::is_alphanumeric);
        let place = WordPlace { from, to, is_in_phrase: was_in_phrase };
        (is_word && !is_distance && !was_excluded).then_some((word, place))
    })
}

/// The words of a query that have to match, each once.
pub(super) fn single_words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (word, _) in words_of(query) {
        if words.len() < WORDS && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// A query without a word, and without the operators that belonged to it; `None` if no other word is left.
pub(super) fn without_word(query: &str, removed: &str) -> Option<String> {
    let mut kept = String::new();
    let mut rest = 0;
    for (_, place) in words_of(query).filter(|(word, _)| *word == removed) {
        kept.push_str(query.get(rest..place.from)?);
        let after = join_around(&mut kept, query.get(place.to..)?, place.is_in_phrase);
        rest = query.len() - after.len();
    }
    kept.push_str(query.get(rest..)?);
    let kept = kept.trim();
    kept.contains(char::is_alphanumeric).then(|| kept.to_owned())
}

/// Ends what is before a removed word so that what is after it can follow, which is returned.
fn join_around<'q>(before: &mut String, after: &'q str, is_in_phrase: bool) -> &'q str {
    let mut after = after;
    if is_in_phrase {
        trim_end(before);
        after = after.trim_start();
        let (opens, closes) = (before.ends_with('"'), after.is_empty() || after.starts_with('"'));
        if !(opens && closes) {
            if !opens && !closes {
                before.push(' ');
            }
            return after;
        }
        // The phrase is empty.
        before.pop();
        after = after.strip_prefix('"').unwrap_or(after);
    }
    if let Some(behind) = after.strip_prefix('~') {
        let rest = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_distance = rest.is_empty() || rest.starts_with(is_between);
        after = if is_distance { rest } else { behind };
    }
    loop {
        trim_end(before);
        after = after.trim_start();
        let (opens, closes) = (before.is_empty() || before.ends_with('('), after.is_empty() || after.starts_with(')'));
        match before.chars().next_back() {
            Some('+' | '|') => {
                before.pop();
            }
            Some('(') if after.starts_with(')') => {
                before.pop();
                after = after.strip_prefix(')').unwrap_or(after);
            }
            _ if opens && after.starts_with(['+', '|']) => after = after.get(1..).unwrap_or_default(),
            _ => {
                if !opens && !closes {
                    before.push(' ');
                }
                return after;
            }
        }
    }
}

fn trim_end(text: &mut String) {
    text.truncate(text.trim_end().len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_taken_apart_without_operators() {
        assert_eq!(single_words("a +\"b c\" -d | (e~ f*) - --"), ["a", "b", "c", "e", "f*"]);
        assert_eq!(single_words("a~2 \"b 1\"~3 -\"c d\" -(e (f) g) h"), ["a", "b", "1", "h"]);
        assert_eq!(single_words("x \"x\" y"), ["x", "y"]);
        let many: String = (0..100).map(|at| format!("w{at} ")).collect();
        assert_eq!(single_words(&many).len(), WORDS);
    }

    #[test]
    fn only_the_word_goes() {
        for (query, word, kept) in [
            ("harb harbour", "harb", Some("harbour")),
            ("harbour harb", "harb", Some("harbour")),
            ("a-nosuch -harbour \"x storm\"", "x", Some("a-nosuch -harbour \"storm\"")),
            ("a-nosuch -harbour \"x storm\"", "a-nosuch", Some("-harbour \"x storm\"")),
            ("\"a b\"~2 c", "b", Some("\"a\"~2 c")),
            ("\"a\"~2 c", "a", Some("c")),
            ("\"a b c\"", "b", Some("\"a c\"")),
            ("\"a b", "b", Some("\"a")),
            ("c \"b", "b", Some("c")),
            ("a~2 b", "a", Some("b")),
            ("a +b", "b", Some("a")),
            ("a+b c", "b", Some("a c")),
            ("a | b", "a", Some("b")),
            ("a | b | c", "b", Some("a | c")),
            ("a b~2c", "b", Some("a 2c")),
            ("(a | b) c", "b", Some("(a) c")),
            ("(a) c", "a", Some("c")),
            ("x y x \"x\"", "x", Some("y")),
            ("新　x", "x", Some("新")),
            ("-b b", "b", Some("-b")),
            ("a", "a", None),
            ("+a", "a", None),
        ] {
            assert_eq!(without_word(query, word).as_deref(), kept, "{query} without {word}");
        }
    }

    proptest! {
        /// Whatever the query: the word is gone, and all others are where they were.
        #[test]
        fn all_other_words_stay(query in "[ab2\\-+|()~\" ]{0,24}", at in 0_usize..12) {
            let words = |query: &str| words_of(query).map(|(word, _)| word.to_owned()).collect::<Vec<_>>();
            let all = words(&query);
            if let Some(removed) = all.get(at) {
                let kept = without_word(&query, removed).map(|kept| words(&kept)).unwrap_or_default();
                let expected: Vec<String> = all.iter().filter(|word| *word != removed).cloned().collect();
                prop_assert_eq!(kept, expected);
            }
        }
    }
}
