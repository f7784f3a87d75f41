//! The alignment check of `verified`: aligns a document with the founder's tokens, and decides by the differences.
//!
//! Similarity alone cannot tell a reprint from a form that was filled in again, since both share most phrases, nor from
//! other news over the same house text. So each kind of difference has a weight (`TERMS`), two texts are one when the
//! weighted sum is at most 1, and no similarity is asked for besides.

use super::aligned_tokens::{AlignedTokens, Sentences, TokensHead};
use super::differences::{ALIKE, Differences};
use super::{Refusal, Similarity};
use crate::text::sentence_key::SentenceKey;
use crate::text::tokens::{Alphabet, MOST};

/// A kind of difference between two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Own matter: the part of each text that the other does not have.
    OwnMatter,
    /// Pieces that replace other pieces.
    Replaced,
    /// Places with other numbers.
    Numbers,
    /// Rare words that only one text has.
    Facts,
    /// Words of one title that replace words of the other.
    Titles,
}

impl DifferenceKind {
    /// Its name in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            DifferenceKind::OwnMatter => "own_matter",
            DifferenceKind::Replaced => "replaced",
            DifferenceKind::Numbers => "numbers",
            DifferenceKind::Facts => "facts",
            DifferenceKind::Titles => "titles",
        }
    }
}

/// One kind of difference: its amount and its cost.
struct Term {
    kind: DifferenceKind,
    amount: fn(&Differences) -> f32,
    /// Cost of an amount of 1. Its inverse is the amount that refuses by itself.
    weight: f32,
    refusal: fn(&Differences) -> Refusal,
}

impl Term {
    fn cost(&self, found: &Differences) -> f32 {
        self.weight * (self.amount)(found)
    }
}

/// The terms of the decision. The weights were chosen on ten labelled collections at once (docs/internals/decision.md).
const TERMS: [Term; 5] = [
    Term {
        kind: DifferenceKind::OwnMatter,
        // All of both texts is their own.
        amount: |found| 1.0 - found.most,
        weight: 1.4,
        refusal: |found| Refusal::Part { most: found.most, least: found.least },
    },
    Term {
        kind: DifferenceKind::Replaced,
        // A piece in the place of another one, by both together; under other titles a seventh of what both have.
        amount: |found| {
            let opening = if found.alike.is_none() { found.opening } else { 0.0 };
            let replaced = found.replaced + (OPENING - 1.0) * opening;
            let share = replaced / (replaced + found.words).max(1.0);
            if found.are_titles_alike() { share } else { OTHER_NEWS * share }
        },
        weight: 1.0,
        refusal: |found| Refusal::Part { most: found.most, least: found.least },
    },
    Term {
        kind: DifferenceKind::Numbers,
        // A place in 240 words; a short text counts as 40.
        amount: |found| 100.0 * found.numbers / found.words.max(40.0),
        weight: 2.4,
        refusal: |found| {
            let different = found.numbers.ceil() as usize;
            Refusal::OtherNumbers { different, words: found.words as usize }
        },
    },
    Term {
        kind: DifferenceKind::Facts,
        // A rare word that only one text has, on both sides, for two that both have.
        amount: |found| {
            let (own, common) = (found.own_facts, f32::from(found.common_facts));
            if own > 0.0 { own / (own + common) } else { 0.0 }
        },
        weight: 3.0,
        refusal: |found| Refusal::Facts { own: found.own_facts.ceil() as usize, common: found.common_facts.into() },
    },
    Term {
        kind: DifferenceKind::Titles,
        // A name in 200 words; a short text counts as 80.
        amount: |found| 100.0 * f32::from(found.titles) / found.words.max(80.0),
        weight: 2.0,
        refusal: |found| Refusal::Names { places: found.titles.into(), words: found.words as usize },
    },
];

/// Factor of a replaced piece where the titles are not alike.
const OTHER_NEWS: f32 = 8.0;
/// Factor of a replaced opening where not both texts have a title: it takes the role of the titles.
const OPENING: f32 = 5.0;
/// Share of replaced words from which on a document joins in doubt: it may be a page under another navigation, or other
/// news with the same house text. Its sentences are then counted once more.
const DOUBTFUL: f32 = 0.2;
/// Share of each text that the other must have, where the titles are alike.
const LEAST: f32 = 0.15;
/// The share where one of them has no title.
const LEAST_UNTITLED: f32 = 0.4;
/// The share where the titles are not alike.
const LEAST_UNLIKE: f32 = 0.75;
/// Share from which on a text is a part of the other one: an excerpt under another headline.
const PART: f32 = 0.9;
const LEAST_OF_PART: f32 = 0.5;

/// Tokens of a title that are kept.
const TITLE: usize = 60;
/// The bit of a title that was put before the body.
const PUT_BEFORE: u16 = 0x80;
/// The bit that tells this format from the first one, which had no sentences.
const SENTENCES_FOLLOW: u16 = 0x40;
/// Most distinct sentences of a text; all further ones count as one.
const SENTENCES: usize = 255;
/// The largest encoding of [`write()`]: the numbers of the title's tokens and of sentences, these, and the tokens of
/// the body.
pub(super) const MOST_TOKENS: usize = 2 + TITLE + 3 * SENTENCES + MOST;

/// Encodes founder tokens: | alphabet 8 bits, put before 1, 1, number of tokens of the title 6 | these | number of
/// sentences | these, three values each | tokens of the body |. `sentences`: the key of each, and where it ends.
pub(super) fn write(
    head: TokensHead,
    title: &[u16],
    sentences: impl Iterator<Item = (Option<SentenceKey>, u16)> + Clone,
    body: &[u16],
    out: &mut Vec<u16>,
) {
    let title = title.get(..TITLE).unwrap_or(title);
    let body = body.get(..MOST).unwrap_or(body);
    let sentences = sentences.take(SENTENCES);
    let count = sentences.clone().count();
    out.clear();
    out.reserve_exact(2 + title.len() + 3 * count + body.len());
    let before = if head.is_title_put_before { PUT_BEFORE } else { 0 };
    out.push((head.alphabet as u16) << 8 | before | SENTENCES_FOLLOW | title.len() as u16);
    out.extend_from_slice(title);
    out.push(count as u16);
    for (key, end) in sentences {
        out.extend(Sentences::entry(end, key));
    }
    out.extend_from_slice(body);
}

/// Inverse of [`write()`]; `None` if there is no body, or for values that it does not write.
pub(super) fn read(tokens: &[u16]) -> Option<AlignedTokens<'_>> {
    let (&head, rest) = tokens.split_first()?;
    if head & SENTENCES_FOLLOW == 0 {
        return None;
    }
    let (title, rest) = rest.split_at_checked(usize::from(head & (SENTENCES_FOLLOW - 1)))?;
    let (&sentences, rest) = rest.split_first()?;
    let (sentences, body) = rest.split_at_checked(3 * usize::from(sentences))?;
    let sentences = Sentences(sentences.as_chunks::<3>().0);
    let head = TokensHead { alphabet: Alphabet::from_number(head >> 8), is_title_put_before: head & PUT_BEFORE != 0 };
    (!body.is_empty()).then_some(AlignedTokens { head, title, sentences, body })
}

impl Differences {
    /// Whether the texts have no two titles that are not alike.
    fn are_titles_alike(&self) -> bool {
        self.alike.is_none_or(|alike| alike >= ALIKE)
    }

    /// Each kind of difference with its cost, in the order of the terms.
    pub fn costs(&self) -> [(DifferenceKind, f32); 5] {
        TERMS.each_ref().map(|term| (term.kind, term.cost(self)))
    }

    /// The default share of each text that the other must have, 0 to 1.
    pub fn least_needed(&self) -> f32 {
        match self.alike {
            None => LEAST_UNTITLED,
            Some(alike) if alike >= ALIKE => LEAST,
            Some(_) if self.most >= PART => LEAST_OF_PART,
            Some(_) => LEAST_UNLIKE,
        }
    }

    /// The weighted sum: by default two texts are one up to 1.
    pub fn cost(&self) -> f32 {
        TERMS.iter().map(|term| term.cost(self)).sum()
    }

    /// Whether the texts agree in doubt: by the share of replaced text they may be two texts with the same house text.
    pub fn is_doubtful(&self) -> bool {
        self.replaced > 0.0 && self.replaced >= DOUBTFUL * (self.replaced + self.words)
    }

    /// Judges the differences, with the similarity that long texts need.
    ///
    /// # Errors
    /// What tells most against it.
    pub fn judge(&self, similarity: Similarity) -> Result<(), Refusal> {
        let (allowed, least) = (similarity.allowance(), self.least_needed());
        // From equal texts, where nothing may differ, to no limit.
        let least = if allowed <= 1.0 { 1.0 - (1.0 - least) * allowed } else { least / allowed };
        if self.least < least {
            return Err(Refusal::Part { most: self.most, least: self.least });
        }
        if self.cost() <= allowed {
            return Ok(());
        }
        let first = TERMS.iter().max_by(|one, other| one.cost(self).total_cmp(&other.cost(self)));
        Err(first.map_or(Refusal::Part { most: self.most, least: self.least }, |term| (term.refusal)(self)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOTHING: Differences = Differences {
        words: 400.0,
        most: 1.0,
        least: 1.0,
        numbers: 0.0,
        own_facts: 0.0,
        common_facts: 100,
        titles: 0,
        replaced: 0.0,
        opening: 0.0,
        alike: None,
    };
    /// The same under other titles.
    const UNLIKE: Differences = Differences { alike: Some(ALIKE - 0.01), ..NOTHING };

    fn reason(differences: Differences) -> Option<&'static str> {
        let refusal = differences.judge(Similarity::default()).err()?;
        Some(refusal.reason().as_str())
    }

    #[test]
    fn each_term_refuses_by_itself_from_its_limit_on() {
        assert_eq!(reason(NOTHING), None);
        let small = Differences { least: LEAST, alike: Some(ALIKE), ..NOTHING };
        for (at, beyond, expected) in [
            (Differences { most: 0.29, ..small }, Differences { most: 0.28, ..small }, "part"),
            (
                Differences { most: 0.5, least: LEAST_UNTITLED, ..NOTHING },
                Differences { most: 0.5, least: 0.0, ..NOTHING },
                "part",
            ),
            (Differences { replaced: 9_999.0, ..NOTHING }, Differences { replaced: 60.0, ..UNLIKE }, "part"),
            (Differences { numbers: 1.6, ..NOTHING }, Differences { numbers: 1.7, ..NOTHING }, "numbers"),
            (Differences { own_facts: 49.0, ..NOTHING }, Differences { own_facts: 51.0, ..NOTHING }, "facts"),
            (Differences { titles: 2, ..NOTHING }, Differences { titles: 3, ..NOTHING }, "names"),
        ] {
            assert_eq!(reason(at), None, "{at:?} {}", at.cost());
            assert_eq!(reason(beyond), Some(expected), "{beyond:?} {}", beyond.cost());
        }
    }

    #[test]
    fn each_amount_has_its_weight() {
        let is = |differences: Differences, expected: f32| {
            let cost = differences.cost();
            assert!((cost - expected).abs() < 1e-4, "{cost} {expected} {differences:?}");
        };
        is(NOTHING, 0.0);
        is(Differences { most: 0.6, ..NOTHING }, 0.56);
        is(Differences { replaced: 100.0, ..NOTHING }, 0.2);
        is(Differences { replaced: 100.0, ..UNLIKE }, OTHER_NEWS * 0.2);
        is(Differences { numbers: 1.0, ..NOTHING }, 0.6);
        is(Differences { numbers: 1.0, words: 39.0, ..NOTHING }, 6.0);
        is(Differences { numbers: 1.0, words: 40.0, ..NOTHING }, 6.0);
        is(Differences { own_facts: 25.0, ..NOTHING }, 0.6);
        is(Differences { own_facts: 0.0, common_facts: 0, ..NOTHING }, 0.0);
        is(Differences { titles: 1, ..NOTHING }, 0.5);
        is(Differences { titles: 1, words: 79.0, ..NOTHING }, 2.5);
        is(Differences { most: 0.9, numbers: 0.5, titles: 1, ..NOTHING }, 0.14 + 0.3 + 0.5);
    }

    #[test]
    fn an_opening_says_what_a_title_would_where_there_are_not_two() {
        let opening = Differences { replaced: 100.0, opening: 60.0, ..NOTHING };
        let share = (100.0 + 4.0 * 60.0) / (100.0 + 4.0 * 60.0 + 400.0);
        for (alike, share) in [(None, share), (Some(ALIKE), 0.2), (Some(ALIKE - 0.01), OTHER_NEWS * 0.2)] {
            let cost = Differences { alike, ..opening }.cost();
            assert!((cost - share).abs() < 1e-4, "{cost} {share} {alike:?}");
        }
    }

    #[test]
    fn it_is_in_doubt_whether_house_text_is_all_that_two_have() {
        let with = |replaced: f32| Differences { replaced, ..NOTHING }.is_doubtful();
        assert_eq!([0.0, 99.9, 100.0].map(with), [false, false, true]);
        assert!(!Differences { words: 0.0, ..NOTHING }.is_doubtful(), "nothing is replaced");
    }

    #[test]
    fn the_cost_is_the_sum_of_its_kinds() {
        let all = Differences { most: 0.9, replaced: 100.0, numbers: 2.0, own_facts: 60.0, titles: 3, ..UNLIKE };
        let costs = all.costs();
        assert!((costs.iter().map(|(_, cost)| cost).sum::<f32>() - all.cost()).abs() < 1e-4);
        let names = costs.map(|(kind, _)| kind.as_str());
        assert_eq!(names, ["own_matter", "replaced", "numbers", "facts", "titles"]);
        assert_eq!((all.least_needed(), NOTHING.least_needed()), (LEAST_OF_PART, LEAST_UNTITLED));
    }

    #[test]
    fn under_other_titles_more_of_each_text_must_stand_in_the_other() {
        let with = |least: f32, alike: Option<f32>| reason(Differences { least, alike, ..NOTHING });
        for (alike, least) in [(None, LEAST_UNTITLED), (Some(1.0), LEAST), (Some(ALIKE), LEAST)] {
            assert_eq!([with(least, alike), with(least - 0.01, alike)], [None, Some("part")]);
        }
        let of = |least: f32, most: f32| reason(Differences { least, most, ..UNLIKE });
        assert_eq!([of(LEAST_UNLIKE, PART - 0.01), of(LEAST_UNLIKE - 0.01, PART - 0.01)], [None, Some("part")]);
        assert_eq!([of(LEAST_OF_PART, PART), of(LEAST_OF_PART - 0.01, PART)], [None, Some("part")]);
    }

    #[test]
    fn more_or_less_may_differ_by_the_similarity() {
        let with = |ratio: f32, differences: Differences| differences.judge(Similarity::new(ratio).unwrap()).is_ok();
        assert!(with(1.0, NOTHING) && !with(1.0, Differences { most: 0.99, ..NOTHING }));
        assert!(!with(1.0, Differences { least: 0.99, ..NOTHING }));
        let some = Differences { numbers: 1.0, least: 0.6, ..NOTHING };
        assert_eq!([0.3, 0.43, 0.6].map(|ratio| with(ratio, some)), [true, true, false]);
        assert!(with(0.0, Differences { numbers: 99.0, most: 0.1, least: 0.01, ..UNLIKE }));
    }

    #[test]
    fn the_reason_is_what_costs_most() {
        let all = Differences { numbers: 1.0, own_facts: 60.0, titles: 2, ..NOTHING };
        assert_eq!(reason(all), Some("facts"));
        assert_eq!(reason(Differences { titles: 9, ..all }), Some("names"));
        assert_eq!(reason(Differences { numbers: 9.0, ..all }), Some("numbers"));
    }

    #[test]
    fn no_more_is_written_than_is_kept() {
        let sentence = |at: usize| (Some(SentenceKey(at as u32 + 1)), at as u16 + 1);
        let title = [5; TITLE + 1];
        for (count, kept) in [(MOST, MOST), (MOST + 1, MOST)] {
            let mut tokens = Vec::new();
            let head = TokensHead { alphabet: Alphabet::Greek, is_title_put_before: count % 2 == 0 };
            write(head, &title, (0..9).map(sentence), &vec![7; count], &mut tokens);
            let words = read(&tokens).unwrap();
            assert_eq!((words.title.len(), words.body.len(), words.head), (TITLE, kept, head));
        }
        let mut tokens = Vec::new();
        for (count, kept) in [(SENTENCES, SENTENCES), (SENTENCES + 1, SENTENCES)] {
            write(TokensHead::default(), &[], (0..count).map(sentence), &vec![7; count], &mut tokens);
            let words = read(&tokens).unwrap();
            assert_eq!((words.sentences.0.len(), words.body.len()), (kept, count));
        }
        write(TokensHead::default(), &title, (0..SENTENCES).map(sentence), &[7; MOST], &mut tokens);
        assert_eq!(tokens.len(), MOST_TOKENS);
    }

    #[test]
    fn tokens_of_the_first_format_are_not_compared() {
        assert!(read(&[2, 11, 12, 21, 22, 23, 24, 25, 26]).is_none());
        assert!(read(&[SENTENCES_FOLLOW | 2, 11, 12, 0, 21]).is_some());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            title in prop::collection::vec(any::<u16>(), 0..40),
            body in prop::collection::vec(any::<u16>(), 0..40),
            (one, other) in (any::<u32>(), any::<u32>()),
        ) {
            let mut tokens = vec![7; 3];
            let (first, all) = (body.len() as u16 / 2, body.len() as u16);
            let sentences = [(Some(SentenceKey(one)), first), (Some(SentenceKey(other)), all)];
            write(TokensHead::default(), &title, sentences.into_iter(), &body, &mut tokens);
            let words = read(&tokens);
            prop_assert_eq!(words.is_some(), !body.is_empty());
            if let Some(words) = words {
                prop_assert_eq!(words.body, body.as_slice());
                prop_assert_eq!(words.title, title.get(..TITLE).unwrap_or(&title));
                let expected = [
                    Sentences::entry(first, Some(SentenceKey(one))),
                    Sentences::entry(all, Some(SentenceKey(other))),
                ];
                prop_assert_eq!(words.sentences.0, expected);
            }
        }

        #[test]
        fn any_tokens_are_read_or_not(tokens in prop::collection::vec(any::<u16>(), 0..40)) {
            let _ = read(&tokens);
        }

        /// More of any difference never makes two texts one.
        #[test]
        fn more_differences_cost_more(
            (most, more) in (0f32..=1.0, 0f32..=1.0), numbers in 0u8..9, titles in 0u16..9, own in 0u8..99,
        ) {
            let with = |most: f32, add: u8| Differences {
                most,
                numbers: f32::from(numbers + add),
                titles: titles + u16::from(add),
                own_facts: f32::from(own + add),
                ..NOTHING
            };
            let (most, fewer) = (most.max(more), most.min(more));
            prop_assert!(with(most, 0).cost() <= with(fewer, 1).cost());
        }
    }
}
