//! Own tokens: the tokens of a document that the founder of a tree does not have, and their words for display.
//!
//! A founder is known by its tokens alone, which have no text: so only the document's side can be shown.

use std::cmp::Reverse;
use std::ops::Range;

use super::alignment::{is_character, is_number};
use super::differences::{ComparedToken, own_tokens};
use super::{FeatureQuery, VerifiedFeatures, alignment_check};
use crate::text::tokens::each_word;
use crate::text::{Fields, Scratch};

/// Most sentences that are shown.
const SENTENCES: usize = 5;
/// Most numbers, and most words, that are shown.
const WORDS: usize = 20;
/// Most characters of a sentence or word that are shown.
const CHARACTERS: usize = 200;

/// The tokens of a document, each compared with a founder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTokens(pub(super) Vec<ComparedToken>);

/// The text of a document's own tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnText {
    /// The longest cleaned sentences of which the founder has less than a quarter, in the order of the text.
    pub sentences: Vec<String>,
    /// Numbers that are nowhere in the founder, as written, each once.
    pub numbers: Vec<String>,
    /// Rare words that are nowhere in the founder, each once; in scripts without spaces, runs of characters.
    pub words: Vec<String>,
}

impl<P> FeatureQuery<'_, P> {
    /// Compares the document with a founder; `None` without the tokens of either. As much work as one alignment.
    pub fn own_tokens(&self, founders: &[u16]) -> Option<OwnTokens> {
        let (new, old) = (alignment_check::read(self.tokens)?, alignment_check::read(founders)?);
        Some(OwnTokens(own_tokens(old, new, self.learned)))
    }
}

impl VerifiedFeatures {
    /// The text of a document's own tokens; `None` if they belong to another document, or to a title without text.
    pub fn own_text(&mut self, scratch: &mut Scratch, fields: &Fields<'_>, own: &OwnTokens) -> OwnText {
        let is_read = self.read(scratch, fields);
        if !is_read || !own.0.iter().map(|own| &own.token).eq(self.shingles().row()) {
            return OwnText::default();
        }
        let mut found = OwnText::default();
        let mut sentences: Vec<(usize, usize, &str)> = Vec::new();
        let mut row = Vec::new();
        for sentence in scratch.text().sentences() {
            let begin = row.len();
            let (mut at, mut run) = (begin, 0..0);
            each_word(sentence, &mut row, |word, tokens| {
                let compared = own.0.get(at..at + tokens.len()).unwrap_or_default();
                at += tokens.len();
                let Some(fact) = compared.iter().find(|own| own.is_fact) else { return };
                if is_character(fact.token) && run.end == word.start {
                    run.end = word.end;
                    return;
                }
                add(&mut found.words, sentence, &std::mem::take(&mut run));
                match fact.token {
                    token if is_number(token) => add(&mut found.numbers, sentence, &word),
                    token if is_character(token) => run = word,
                    _ => add(&mut found.words, sentence, &word),
                }
            });
            add(&mut found.words, sentence, &run);
            let compared = own.0.get(begin..row.len()).unwrap_or_default();
            let count = compared.iter().filter(|own| own.is_own).count();
            if 4 * count > 3 * compared.len() {
                sentences.push((count, begin, sentence));
            }
        }
        sentences.sort_unstable_by_key(|&(count, begin, _)| (Reverse(count), begin));
        sentences.truncate(SENTENCES);
        sentences.sort_unstable_by_key(|&(_, begin, _)| begin);
        found.sentences = sentences.into_iter().map(|(_, _, sentence)| cut(sentence).to_owned()).collect();
        found
    }
}

/// Adds a part of a sentence to a list of different ones.
fn add(list: &mut Vec<String>, sentence: &str, part: &Range<usize>) {
    let part = cut(sentence.get(part.clone()).unwrap_or_default());
    if !part.is_empty() && list.len() < WORDS && !list.iter().any(|known| known == part) {
        list.push(part.to_owned());
    }
}

/// The first characters of a text.
fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(CHARACTERS).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{LearnedView, Offer};
    use crate::text::boilerplate::{Boilerplate, BoilerplateMask, PendingSentences};

    fn offer(fields: &Fields<'_>) -> Offer {
        let mut features = VerifiedFeatures::new();
        assert!(features.read(&mut Scratch::new(), fields));
        let (taught, mut mask) = (PendingSentences::default(), BoilerplateMask::default());
        Offer::of(&mut features, &Boilerplate::new(), &taught, &mut mask)
    }

    /// The own text of the later document, against the earlier one.
    fn own(old: &str, new: &str) -> OwnText {
        let (old, new) = (Fields { title: None, body: &[old] }, Fields { title: None, body: &[new] });
        let (founder, document) = (offer(&old), offer(&new));
        let query = document.query(LearnedView::default());
        let own = query.own_tokens(founder.query(LearnedView::default()).tokens).unwrap();
        VerifiedFeatures::new().own_text(&mut Scratch::new(), &new, &own)
    }

    const TEXT: &str = "The council of Marlow will repair Mill Lane in the north quarter. Work begins on 4 March and \
        costs 210,000 euros, of which the state pays 40 per cent. Residents were informed by letter, a spokeswoman said.";

    #[test]
    fn a_text_has_nothing_that_itself_has_not() {
        assert_eq!(own(TEXT, TEXT), OwnText::default());
    }

    #[test]
    fn own_numbers_and_words_as_they_are_written() {
        let other =
            TEXT.replace("Mill Lane", "Church Road").replace("4 March", "19 May").replace("210,000", "1.3 million");
        let own = own(TEXT, &other);
        assert_eq!(own.numbers, ["19", "may", "1.3 million"]);
        assert_eq!(own.words, ["church", "road"]);
        assert_eq!(own.sentences, [""; 0]);
    }

    #[test]
    fn own_sentences_are_the_longest_in_their_order() {
        let more = (0..7).map(|n| format!(" Ferry {n} left{} for an island.", " slowly today".repeat(7 - n)));
        let own = own(TEXT, &(TEXT.to_owned() + &more.collect::<String>()));
        assert_eq!(own.sentences.len(), SENTENCES);
        assert!(own.sentences[0].starts_with("ferry 0 left slowly today"), "{own:?}");
        assert!(own.sentences[4].starts_with("ferry 4 left"), "{own:?}");
        assert!(own.words.contains(&"ferry".to_owned()), "{own:?}");
    }

    #[test]
    fn characters_of_one_word_are_shown_together() {
        let old = "港务局今天批准了新建防波堤的计划，工程将在春季开始，预计需要两年左右，主席在会后告诉记者。";
        let own = own(old, &old.replace("主席", "秘书长").replace("防波堤", "灯塔"));
        assert_eq!(own.words, ["灯塔", "秘书长"]);
    }

    #[test]
    fn no_list_and_no_entry_is_longer_than_its_bound() {
        let words: String = (0..60).map(|n| format!(" {}{n}x", char::from(b'a' + n as u8 % 26))).collect();
        let numbers: String = (0..60).map(|n| format!(" {},", 5_000 + 7 * n)).collect();
        let own = own(TEXT, &format!("{TEXT}{words} {}. {numbers} {}", "q".repeat(300), "word ".repeat(300)));
        assert_eq!((own.words.len(), own.numbers.len()), (WORDS, WORDS));
        let all = own.sentences.iter().chain(&own.words).chain(&own.numbers);
        assert!(all.clone().count() > 2 * WORDS);
        assert!(all.into_iter().all(|text| text.chars().count() <= CHARACTERS));
    }

    #[test]
    fn tokens_of_another_text_have_no_words_in_this_one() {
        let (old, new) =
            (Fields { title: None, body: &[TEXT] }, Fields { title: None, body: &["Another text of words."] });
        let document = offer(&new);
        let tokens =
            document.query(LearnedView::default()).own_tokens(offer(&old).query(LearnedView::default()).tokens);
        let own = VerifiedFeatures::new().own_text(&mut Scratch::new(), &old, &tokens.unwrap());
        assert_eq!(own, OwnText::default());
    }
}
