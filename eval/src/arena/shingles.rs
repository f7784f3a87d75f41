//! Tokens of a text and runs of them, as libraries of near-duplicates use them: without what spinney knows of texts.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use xxhash_rust::xxh3::Xxh3;

/// Tokens of a run: words, and characters of scripts that put no spaces between words.
const WORDS: usize = 3;
const CHARACTERS: usize = 5;

/// The words of a text in lower case, without markup. Each character of a script without spaces is one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens(Vec<String>);

impl Tokens {
    pub(super) fn of(text: &str) -> Tokens {
        let mut tokens = Vec::new();
        let mut word = String::new();
        // Tags become spaces: they part words.
        let characters = without_tags(text).nfkc().collect::<String>().to_lowercase();
        for character in characters.chars().chain([' ']) {
            let single = is_single(character);
            if !single && (character.is_alphanumeric() || is_combining_mark(character)) {
                word.push(character);
                continue;
            }
            if !word.is_empty() {
                tokens.push(std::mem::take(&mut word));
            }
            if single {
                tokens.push(character.to_string());
            }
        }
        Tokens(tokens)
    }

    /// The first tokens, `count` at most.
    pub(super) fn first(mut self, count: usize) -> Tokens {
        self.0.truncate(count);
        self
    }

    /// Tokens of a run: three words, or five characters where most tokens are of a script without spaces.
    pub(super) fn run_length(&self) -> usize {
        let single = self.0.iter().filter(|token| token.chars().next().is_some_and(is_single)).count();
        if 2 * single > self.0.len() { CHARACTERS } else { WORDS }
    }

    /// Hashes of all runs of so many tokens; of fewer tokens the only run is all of them. Empty without tokens.
    pub(super) fn runs(&self, length: usize) -> BTreeSet<u64> {
        let hash = |run: &[String]| {
            let mut hasher = Xxh3::new();
            for token in run {
                hasher.update(token.as_bytes());
                hasher.update(b" ");
            }
            hasher.digest()
        };
        match self.0.len() {
            0 => BTreeSet::new(),
            tokens if tokens < length => BTreeSet::from([hash(&self.0)]),
            _ => self.0.windows(length).map(hash).collect(),
        }
    }
}

/// Characters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, kana and Chinese.
fn is_single(character: char) -> bool {
    matches!(
        character,
        '\u{0E01}'..='\u{0EFF}'
            | '\u{1000}'..='\u{109F}'
            | '\u{1780}'..='\u{17FF}'
            | '\u{3040}'..='\u{30FF}'
            | '\u{3400}'..='\u{9FFF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{3FFFF}'
    )
}

/// The text with a space for each tag, and for each script and style with its content. A `<` without a `>` stays.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('<') {
        let Some((tag, after)) = behind.split_once('>') else { break };
        out.push_str(before);
        out.push(' ');
        let hidden = ["script", "style"].into_iter().find(|name| is_opening(tag, name));
        rest = hidden.and_then(|name| behind_closing(after, name)).unwrap_or(after);
    }
    out.push_str(rest);
    out
}

/// Whether a tag is the opening one of this name.
fn is_opening(tag: &str, name: &str) -> bool {
    let of_name = tag.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    of_name && tag.get(name.len()..).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// What stands behind the closing tag of this name.
fn behind_closing<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    loop {
        let (_, behind) = rest.split_once("</")?;
        if is_opening(behind, name) {
            return behind.split_once('>').map(|(_, after)| after);
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(text: &str) -> Vec<String> {
        Tokens::of(text).0
    }

    #[test]
    fn tokens_are_words_and_single_characters() {
        assert_eq!(tokens("The  Pier, rebuilt—1,200 tons"), ["the", "pier", "rebuilt", "1", "200", "tons"]);
        assert_eq!(tokens("台风 ＡＢ"), ["台", "风", "ab"]);
        // A vowel sign and a virama are parts of a word.
        assert_eq!(tokens("हिन्दी में"), ["हिन्दी", "में"]);
        assert_eq!(tokens("ไทย").len(), 3);
        assert!(tokens(" ,.<br>").is_empty());
    }

    #[test]
    fn tags_are_no_text() {
        for (text, expected) in [
            ("<p class='a'>one<br/>two</p>", "one two"),
            ("a <SCRIPT src=x>if (a<b) go();</Script > b", "a b"),
            ("a <style>p{}</style>b <scripted>c</scripted>", "a b c"),
            ("a <script>b", "a b"),
            ("1 < 2 and 3", "1 2 and 3"),
        ] {
            assert_eq!(tokens(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn runs_are_of_words_or_of_characters() {
        let english = Tokens::of("one two three four");
        assert_eq!((english.run_length(), english.runs(3).len()), (3, 2));
        let chinese = Tokens::of("北屿新闻社报道 ok");
        assert_eq!((chinese.run_length(), chinese.runs(5).len()), (5, 4));
        assert_eq!(Tokens::of("one two").runs(3).len(), 1);
        assert_eq!(Tokens::of("one two three four").first(2), Tokens::of("one two"));
        assert!(Tokens::default().runs(3).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_tags(text in "[a-z<>/ ]{0,40}|(<script>|</script>|<|>|a| ){0,12}") {
            for token in tokens(&text) {
                prop_assert!(token.chars().all(char::is_alphanumeric));
            }
        }
    }
}
