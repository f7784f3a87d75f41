//! The words of a sentence with their tokens, for those who show words to people.

use std::ops::Range;

use super::MOST;
use super::reader::TokenReader;

/// Calls `each` with the place of every word, number and character of a sentence and its tokens, until there are
/// [`MOST`]. They are added to `out`, which has those of the sentences before: a month is known by a number beside it.
pub(crate) fn each_word(sentence: &str, out: &mut Vec<u16>, mut each: impl FnMut(Range<usize>, &[u16])) {
    let mut at = 0;
    while at < sentence.len() && out.len() < MOST {
        let before = out.len();
        let mut reader = TokenReader::new(sentence.as_bytes(), at, out);
        reader.one();
        let end = reader.at;
        out.truncate(MOST);
        if let Some(tokens @ [_, ..]) = out.get(before..) {
            each(at..end, tokens);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_with_their_tokens() {
        let mut out = Vec::new();
        let mut words = Vec::new();
        let sentence = "on may 23, 2007 the nation's 1.3 million";
        each_word(sentence, &mut out, |word, tokens| words.push((&sentence[word], tokens.len())));
        let expected = [("on", 1), ("may", 1), ("23", 1), ("2007", 2), ("the", 1), ("nation", 1), ("1.3 million", 3)];
        assert_eq!(words, expected);
        assert_eq!(out.len(), 10);
    }

    proptest! {
        /// Every token belongs to one word, in the order of the text.
        #[test]
        fn all_tokens_are_those_of_words(text in "[a-z0-9 .,%一二十百万亿第次年é한\u{301}-]{0,300}", times in 1usize..40) {
            let (mut out, mut tokens) = (Vec::new(), Vec::new());
            each_word(&text.repeat(times), &mut out, |_, of_word| tokens.extend_from_slice(of_word));
            prop_assert!(out.len() <= MOST);
            prop_assert_eq!(out, tokens);
        }
    }
}
