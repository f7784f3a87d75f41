//! A text as comparisons read it: its tokens, what the forest has learned of them, and what is prepared of it before
//! it meets another one.

use std::cell::OnceCell;
use std::fmt::Debug;

use super::alignment::{is_character, is_number};
use crate::text::boilerplate::{Boilerplate, PendingSentences};
use crate::text::sentence_key::SentenceKey;
use crate::text::tokens::{Alphabet, HASH};
use crate::text::word_counts::WordCounts;

/// The weight of a character, in words.
const CHARACTER_IN_WORDS: f32 = 0.6;
/// The weight of a cluster of a letter with its marks, in words.
const CLUSTER_IN_WORDS: f32 = 0.35;
/// Percentage of a title's tokens, in order, that the text must begin with for the title to be its first line.
const OWN_LINE: usize = 85;
/// Most additional tokens of that line.
pub(super) const LONGER: usize = 2;

/// Sentences of a text: where each ends, and its key, of one that may be boilerplate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sentences<'a>(pub(crate) &'a [[u16; 3]]);

impl Sentences<'_> {
    /// An entry: end, lower and upper half of the key; 0 for a sentence that is never boilerplate.
    pub(crate) fn entry(end: u16, key: Option<SentenceKey>) -> [u16; 3] {
        let key = key.map_or(0, |key| key.0);
        [end, key as u16, (key >> 16) as u16]
    }

    pub(super) fn key(entry: [u16; 3]) -> Option<SentenceKey> {
        let [_, low, high] = entry;
        let key = u32::from(high) << 16 | u32::from(low);
        (key != 0).then_some(SentenceKey(key))
    }
}

/// The properties of a text besides its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TokensHead {
    pub(crate) alphabet: Alphabet,
    /// Whether the title was put before the body, which does not begin with it.
    pub(crate) is_title_put_before: bool,
}

/// Tokens of one text: of its title and of its body, with the sentences of the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlignedTokens<'a> {
    pub(crate) head: TokensHead,
    pub(crate) title: &'a [u16],
    pub(crate) sentences: Sentences<'a>,
    pub(crate) body: &'a [u16],
}

/// The learned text for a comparison: of the forest, and of the request that is being placed.
#[derive(Debug, Clone, Copy, Default)]
pub struct LearnedView<'a> {
    known: Option<(&'a Boilerplate, &'a WordCounts)>,
    taught: Option<&'a PendingSentences>,
    own: Option<&'a OnceCell<LaterText>>,
}

impl<'a> LearnedView<'a> {
    pub(super) fn new(boilerplate: &'a Boilerplate, words: &'a WordCounts) -> LearnedView<'a> {
        LearnedView { known: Some((boilerplate, words)), taught: None, own: None }
    }

    /// Adds the lessons of the request.
    pub(super) fn with(self, taught: &'a PendingSentences) -> LearnedView<'a> {
        LearnedView { taught: Some(taught), ..self }
    }

    /// A view for comparisons of one text with many, which prepares that text once.
    pub(super) fn for_one(self, own: &'a OnceCell<LaterText>) -> LearnedView<'a> {
        LearnedView { own: Some(own), ..self }
    }

    /// The prepared later text, if it is always the same.
    pub(super) fn prepared(self) -> Option<&'a OnceCell<LaterText>> {
        self.own
    }

    /// How many distinct roots have this sentence.
    pub(super) fn roots_of(self, key: SentenceKey) -> u64 {
        let known = self.known.map_or(0, |(boilerplate, _)| boilerplate.roots_of(key));
        known + self.taught.map_or(0, |taught| taught.count(key))
    }

    /// The document frequency of a token's word.
    pub(super) fn frequency(self, token: u16) -> u16 {
        self.known.map_or(0, |(_, words)| words.of(token))
    }
}

/// A set of tokens: words and characters by their hashes, and numbers. A word and a character with the same hash are
/// one.
pub(super) struct TokenSet([u64; Self::WORDS]);

impl TokenSet {
    /// Bits of words and characters, and of numbers behind them.
    const HASHES: usize = HASH as usize + 1;
    const WORDS: usize = (Self::HASHES + (1 << 12)) / 64;

    fn of(tokens: &[u16]) -> TokenSet {
        let mut set = TokenSet([0; Self::WORDS]);
        for &token in tokens {
            set.insert(token);
        }
        set
    }

    fn place(token: u16) -> (usize, u64) {
        let at = match is_number(token) {
            true => Self::HASHES + usize::from(token & 0x0FFF),
            false => usize::from(token & HASH),
        };
        (at / 64, 1 << (at % 64))
    }

    pub(super) fn has(&self, token: u16) -> bool {
        let (word, bit) = Self::place(token);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a token; false if it was there.
    fn insert(&mut self, token: u16) -> bool {
        let (word, bit) = Self::place(token);
        let Some(word) = self.0.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// What is known of one of two texts whichever the other one is.
pub(super) struct PreparedText {
    pub(super) all: TokenSet,
    /// Where each word or character stands first, of those that are no numbers.
    pub(super) firsts: Vec<u16>,
    /// Tokens of the line that is the title; 0 where the text does not begin with it.
    pub(super) line: usize,
    /// Number of distinct roots of each sentence, by its end; the last entry is the end of the text.
    pub(super) roots: Vec<(usize, u64)>,
}

impl PreparedText {
    pub(super) fn new(tokens: AlignedTokens<'_>, learned: LearnedView<'_>) -> PreparedText {
        let entries = tokens.sentences.0.iter().copied();
        let roots = entries.map(|entry| {
            let roots = Sentences::key(entry).map_or(0, |key| learned.roots_of(key));
            (usize::from(entry[0]).min(tokens.body.len()), roots)
        });
        let roots = roots.chain([(tokens.body.len(), 0)]);
        let line = match tokens.head.is_title_put_before {
            true => 0,
            false => own_line(tokens.title, tokens.body),
        };
        let mut all = TokenSet::of(&[]);
        let (mut firsts, mut found) = (vec![0; tokens.body.len()], 0);
        // For every token of every text that is compared: without a branch that hangs on the text.
        for (at, &token) in (0..).zip(tokens.body) {
            if let Some(slot) = firsts.get_mut(found) {
                *slot = at;
            }
            found += usize::from(all.insert(token) & !is_number(token));
        }
        firsts.truncate(found);
        PreparedText { all, firsts, line, roots: roots.collect() }
    }
}

/// What is known of the later text.
pub(super) struct LaterText {
    pub(super) text: PreparedText,
    /// Twice the median document frequency of its words.
    pub(super) twice_median: u32,
    /// What a token of it counts in words.
    pub(super) unit: f32,
}

impl LaterText {
    pub(super) fn new(tokens: AlignedTokens<'_>, learned: LearnedView<'_>) -> LaterText {
        let text = PreparedText::new(tokens, learned);
        let words = text.firsts.iter().filter_map(|&at| tokens.body.get(usize::from(at)));
        let mut frequencies = Vec::with_capacity(text.firsts.len());
        frequencies.extend(words.map(|&word| learned.frequency(word)));
        let characters = tokens.body.iter().filter(|token| is_character(**token)).count() as f32;
        let in_words = match tokens.head.alphabet {
            Alphabet::Unspaced => CLUSTER_IN_WORDS,
            _ => CHARACTER_IN_WORDS,
        };
        let unit = 1.0 - characters / tokens.body.len().max(1) as f32 * (1.0 - in_words);
        LaterText { twice_median: twice_median(&mut frequencies), text, unit }
    }
}

impl Debug for LaterText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaterText").finish_non_exhaustive()
    }
}

/// Twice the median, so that it is whole.
fn twice_median(all: &mut [u16]) -> u32 {
    let middle = all.len() / 2;
    if all.is_empty() {
        return 0;
    }
    let is_even = all.len().is_multiple_of(2);
    let (below, &mut upper, _) = all.select_nth_unstable(middle);
    let lower = below.iter().max().copied().filter(|_| is_even).unwrap_or(upper);
    u32::from(upper) + u32::from(lower)
}

/// Length of the line that is the title of its text, in tokens; 0 if the text does not begin with its title.
pub(super) fn own_line(title: &[u16], body: &[u16]) -> usize {
    let line = (title.len() + LONGER).min(body.len());
    let mut rest = body.get(..line).unwrap_or_default();
    let mut found = 0;
    for token in title {
        if let Some(at) = rest.iter().position(|other| other == token) {
            rest = rest.get(at + 1..).unwrap_or_default();
            found += 1;
        }
    }
    if !title.is_empty() && found * 100 >= title.len() * OWN_LINE { line } else { 0 }
}
