//! The differences between two aligned texts: the terms of the decision.
//!
//! A changed word is not a changed fact. Copy-editing has no mark of its own: it is what is left where numbers, names
//! and rare words agree and neither text has a long piece of its own. So each term counts what *both* texts have
//! against each other; what only one of them has more (a by-line, a paragraph that was cut) says nothing. A token
//! weighs 1 by the roots that have its sentence, so that house text weighs little.
//!
//! | term | counts |
//! |---|---|
//! | own matter | share of a text outside the other, of the two texts the smaller |
//! | numbers | places with other numbers, each missing from the whole of the other text |
//! | facts | rare words that only one text has, by those that both have |
//! | titles | places where a word of one title stands against a word of the other |

use std::ops::Range;

use smallvec::SmallVec;

use super::aligned_tokens::{AlignedTokens, LaterText, LearnedView, PreparedText, TokenSet};
use super::alignment::{Alignment, Gap, TokenBits, is_character, is_number};
use crate::text::tokens::{Alphabet, HASH, is_weekday, is_whole_group};

/// Share of the tokens of either title that both have, if they are alike.
pub(super) const ALIKE: f32 = 0.5;
/// The least weight of house text is one over this number.
const MOST_ROOTS: u64 = 8;
/// Most tokens on one side of a gap that is a place; longer ones are pieces.
const LONGEST_PLACE: usize = 16;
/// Places with numbers that occur elsewhere in the other text, for one that counts.
const ELSEWHERE: u16 = 3;
/// Places of numbers are counted in parts of one, as many as this.
const PARTS: u16 = ELSEWHERE;
/// Most words of a gap that are compared for other spellings.
const MOST_RESPELT: usize = 8;
/// Least words of a replaced piece: fewer are an edit.
const PIECE: f32 = 8.0;
/// Characters that are a name.
const NAME: usize = 2;
/// Most documents with a title word that counts as rare whatever the median is.
const FEW: u16 = 4;
/// The weight of a rare word in a piece, less than in a place, where one word replaces another.
const IN_A_PIECE: f32 = 0.4;
/// Differences between two texts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Differences {
    /// Common text in words, each by the weight of its sentence; characters count by the usual length of a word.
    pub words: f32,
    /// The larger share of one text that the other has, by weight, 0 to 1.
    pub most: f32,
    /// The smaller share.
    pub least: f32,
    /// Places with other numbers.
    pub numbers: f32,
    /// The smaller number of rare words that only one text has: each in a place counts 1, each in a longer piece less.
    pub own_facts: f32,
    /// Rare words that both have.
    pub common_facts: u16,
    /// Different replacements of a word of one title by a word of the other.
    pub titles: u16,
    /// Words of replaced pieces, of the shorter one of each pair.
    pub replaced: f32,
    /// Those of them with which both texts open.
    pub opening: f32,
    /// How much of the tokens in either title both have, 0 to 1, if both texts have one.
    pub alike: Option<f32>,
}

impl Differences {
    /// Compares a text with an earlier one by what the forest has learned.
    pub(crate) fn of(old: AlignedTokens<'_>, new: AlignedTokens<'_>, learned: LearnedView<'_>) -> Differences {
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is of one lifetime, the closure of any"
        )]
        compared(old, new, learned, |comparison| comparison.differences())
    }
}

/// What a comparison of two texts answers.
fn compared<R>(
    old: AlignedTokens<'_>,
    new: AlignedTokens<'_>,
    learned: LearnedView<'_>,
    answer: impl Fn(&Comparison<'_>) -> R,
) -> R {
    let of_old = PreparedText::new(old, learned);
    let only_now;
    let later = match learned.prepared() {
        Some(prepared) => prepared.get_or_init(|| LaterText::new(new, learned)),
        None => {
            only_now = LaterText::new(new, learned);
            &only_now
        }
    };
    let mut alignment = Alignment::of(old.body, new.body);
    respell(&mut alignment, old, new);
    let (old, new) = (Side { tokens: old, text: &of_old }, Side { tokens: new, text: &later.text });
    answer(&Comparison { old, new, later, learned, alignment: &alignment })
}

/// One token of a document that was compared with a founder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ComparedToken {
    pub(super) token: u16,
    /// Whether it is neither common to both texts nor house text.
    pub(super) is_own: bool,
    /// Whether it is a number or rare word that is nowhere in the founder.
    pub(super) is_fact: bool,
}

/// Compares each token of a text with an earlier one.
pub(super) fn own_tokens(
    old: AlignedTokens<'_>,
    new: AlignedTokens<'_>,
    learned: LearnedView<'_>,
) -> Vec<ComparedToken> {
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime, the closure of any")]
    compared(old, new, learned, |comparison| comparison.own_tokens())
}

/// One of the two texts.
struct Side<'a> {
    tokens: AlignedTokens<'a>,
    text: &'a PreparedText,
}

impl Side<'_> {
    /// The weight of the whole text, and of the tokens that are met.
    fn weights(&self, met: &TokenBits) -> (f32, f32) {
        let (mut all, mut common) = (0.0, 0.0);
        let mut begin = 0;
        for &(end, roots) in &self.text.roots {
            if end > begin {
                let weight = 1.0 / roots.clamp(1, MOST_ROOTS) as f32;
                all += weight * (end - begin) as f32;
                common += weight * met.count(begin..end) as f32;
                begin = end;
            }
        }
        (all, common)
    }

    /// The weight of the tokens in a range that are not met.
    fn own_weight(&self, range: &Range<usize>, met: &TokenBits) -> f32 {
        let (mut own, mut begin) = (0.0, 0);
        for &(end, roots) in &self.text.roots {
            let within = begin.max(range.start)..end.min(range.end);
            if within.start < within.end {
                own += (within.len() - met.count(within)) as f32 / roots.clamp(1, MOST_ROOTS) as f32;
            }
            begin = begin.max(end);
        }
        own
    }

    /// The distinct words and characters that stand first in no house text, each with its place.
    fn distinct(&self) -> impl Iterator<Item = (usize, u16)> {
        let mut sentences = self.text.roots.iter().copied().peekable();
        let firsts = self.text.firsts.iter().map(|&at| usize::from(at));
        let own = firsts.filter(move |&at| {
            while sentences.next_if(|&(end, _)| end <= at).is_some() {}
            sentences.peek().is_none_or(|&(_, roots)| roots <= 1)
        });
        own.filter_map(|at| Some((at, *self.tokens.body.get(at)?)))
    }
}

/// How much of the tokens in either title both have; of a script without spaces, whose few letters every title has, how
/// many of their pairs.
fn compare_titles(one: AlignedTokens<'_>, other: AlignedTokens<'_>) -> Option<f32> {
    let is_unspaced = other.head.alphabet == Alphabet::Unspaced;
    let parts = |title: &[u16]| -> SmallVec<[u32; 64]> {
        let mut parts = SmallVec::new();
        let next = title.iter().skip(1).copied().chain([0]);
        for (&token, next) in title.iter().zip(next) {
            let part = u32::from(token) << 16 | if is_unspaced { u32::from(next) } else { 0 };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts
    };
    if one.title.is_empty() || other.title.is_empty() {
        return None;
    }
    let (one, other) = (parts(one.title), parts(other.title));
    let common = one.iter().filter(|part| other.contains(part)).count();
    Some(common as f32 / (one.len() + other.len() - common) as f32)
}

/// Whether two texts have titles that are not alike.
pub(super) fn are_titles_unlike(one: AlignedTokens<'_>, other: AlignedTokens<'_>) -> bool {
    compare_titles(one, other).is_some_and(|alike| alike < ALIKE)
}

/// What stands in places.
struct Places {
    /// Places with other numbers, in parts of one.
    numbers: u16,
    /// Different replacements of words of the titles.
    titles: u16,
    /// Rare words that only one text has: of the two texts the smaller number.
    facts: u16,
}

/// One comparison.
struct Comparison<'a> {
    old: Side<'a>,
    new: Side<'a>,
    later: &'a LaterText,
    learned: LearnedView<'a>,
    alignment: &'a Alignment,
}

impl Comparison<'_> {
    fn differences(&self) -> Differences {
        let (old_all, old_common) = self.old.weights(&self.alignment.old);
        let (new_all, new_common) = self.new.weights(&self.alignment.new);
        let share = |common: f32, all: f32| if all > 0.0 { common / all } else { 0.0 };
        let (old, new) = (share(old_common, old_all), share(new_common, new_all));
        let unit = self.later.unit;
        let places = self.places();
        let (own, common_facts) = self.facts();
        let (replaced, opening) = self.replaced(unit);
        Differences {
            words: unit * (old_common + new_common) / 2.0,
            most: old.max(new),
            least: old.min(new),
            numbers: f32::from(places.numbers) / f32::from(PARTS),
            own_facts: IN_A_PIECE * f32::from(own) + (1.0 - IN_A_PIECE) * f32::from(places.facts),
            common_facts,
            titles: places.titles,
            replaced,
            opening,
            alike: compare_titles(self.old.tokens, self.new.tokens),
        }
    }

    /// The tokens of the later text. Those of house text are none of its own, as the terms count them.
    fn own_tokens(&self) -> Vec<ComparedToken> {
        let body = self.new.tokens.body;
        let mut tokens = Vec::with_capacity(body.len());
        for &(end, roots) in &self.new.text.roots {
            let begin = tokens.len();
            for (at, &token) in (begin..).zip(body.get(begin..end).unwrap_or_default()) {
                let is_own = roots <= 1 && !self.alignment.new.has(at);
                let tells = is_number(token) || self.is_rare(token);
                tokens.push(ComparedToken { token, is_own, is_fact: is_own && tells && !self.old.text.all.has(token) });
            }
        }
        tokens
    }

    /// Rare words: the smaller number of those that only one text has, and those that both have. One that is only
    /// spelt in another way is neither.
    fn facts(&self) -> (u16, u16) {
        // Without branches that hang on the text.
        let own = |at: usize, met: &TokenBits, token: u16, others: &TokenSet| {
            u16::from(!others.has(token) & !met.has(at) & self.is_rare(token))
        };
        let of_old = self.old.distinct().map(|(at, token)| own(at, &self.alignment.old, token, &self.new.text.all));
        let old: u16 = of_old.sum();
        let (mut new, mut both) = (0, 0);
        for (at, token) in self.new.distinct() {
            new += own(at, &self.alignment.new, token, &self.old.text.all);
            both += u16::from(self.old.text.all.has(token) & self.is_rare(token));
        }
        (old.min(new), both)
    }

    /// What stands in the gaps that are places.
    fn places(&self) -> Places {
        let (mut numbers, mut titles) = (0u16, Vec::new());
        let (mut old_facts, mut new_facts) = (Vec::new(), Vec::new());
        for gap in &self.alignment.gaps {
            numbers = numbers.saturating_add(PARTS / ELSEWHERE * u16::from(self.is_other_magnitude(gap)));
            let old = unmatched(self.old.tokens.body, &gap.old, &self.alignment.old);
            let new = unmatched(self.new.tokens.body, &gap.new, &self.alignment.new);
            let (Some(old), Some(new)) = (old, new) else { continue };
            numbers = numbers.saturating_add(self.other_numbers(&old, &new));
            if let Some(key) = self.replaced_title(gap, &old, &new)
                && !titles.contains(&key)
            {
                titles.push(key);
            }
            let is_fact =
                |token: &u16, others: &TokenSet| !is_number(*token) && !others.has(*token) && self.is_rare(*token);
            old_facts.extend(old.iter().filter(|token| is_fact(token, &self.new.text.all)));
            new_facts.extend(new.iter().filter(|token| is_fact(token, &self.old.text.all)));
        }
        let distinct = |mut facts: Vec<u16>| {
            facts.sort_unstable();
            facts.dedup();
            facts.len()
        };
        let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let facts = distinct(old_facts).min(distinct(new_facts));
        Places { numbers, titles: count(titles.len()), facts: count(facts) }
    }

    /// Whether a word is rarer than the median of the later text. While little has been counted, every word is that has
    /// not been.
    fn is_rare(&self, token: u16) -> bool {
        2 * u32::from(self.learned.frequency(token)) < self.later.twice_median.max(1)
    }

    /// Words of replaced pieces, and of replaced openings; a token counts `unit` words.
    fn replaced(&self, unit: f32) -> (f32, f32) {
        let pieces = self.alignment.gaps.iter().map(|gap| {
            let old = self.old.own_weight(&gap.old, &self.alignment.old);
            let words = unit * old.min(self.new.own_weight(&gap.new, &self.alignment.new));
            (words, if gap.old.start == 0 && gap.new.start == 0 { words } else { 0.0 })
        });
        let pieces = pieces.filter(|&(words, _)| words >= PIECE);
        pieces.fold((0.0, 0.0), |(all, opening), (words, opens)| (all + words, opening + opens))
    }

    /// Whether the numbers of a gap differ in magnitude: `48 million` and `48 billion`, `3` and `3,150`.
    fn is_other_magnitude(&self, gap: &Gap) -> bool {
        let goes_on = |body: &[u16], range: &Range<usize>| {
            let before = range.start.checked_sub(1).and_then(|at| body.get(at));
            let more = body.get(range.clone()).unwrap_or_default();
            before.is_some_and(|token| is_number(*token))
                && !more.is_empty()
                && more.iter().all(|token| is_whole_group(*token))
        };
        match (gap.old.is_empty(), gap.new.is_empty()) {
            (true, false) => goes_on(self.new.tokens.body, &gap.new),
            (false, true) => goes_on(self.old.tokens.body, &gap.old),
            _ => false,
        }
    }

    /// How much of a changed number a gap counts, in parts.
    fn other_numbers(&self, old: &[u16], new: &[u16]) -> u16 {
        // A day of the week is a date as well, and says nothing against one in figures.
        let of_kind = |day: bool| {
            let is_it = move |token: &u16| is_number(*token) && is_weekday(*token) == day;
            let has_all = |some: &[u16], of: &[u16]| some.iter().filter(|t| is_it(t)).all(|t| of.contains(t));
            let missing = |some: &[u16], from: &TokenSet| some.iter().any(|t| is_it(t) && !from.has(*t));
            match has_all(old, new) || has_all(new, old) {
                true => 0,
                false if missing(old, &self.new.text.all) && missing(new, &self.old.text.all) => PARTS,
                false => PARTS / ELSEWHERE,
            }
        };
        of_kind(false).max(of_kind(true))
    }

    /// The replacement of a title word by a word of the other title, if this gap is one.
    fn replaced_title(&self, gap: &Gap, old: &[u16], new: &[u16]) -> Option<u32> {
        if gap.old.start < self.old.text.line || gap.new.start < self.new.text.line {
            return None;
        }
        let (one, other) = (self.old.tokens.title, self.new.tokens.title);
        let replaced = self.is_of_title(old, (one, other), &self.new.text.all)
            && self.is_of_title(new, (other, one), &self.old.text.all);
        let key = |key: u32, token: &u16| (key ^ u32::from(*token)).wrapping_mul(0x9E37_79B1).rotate_left(15);
        replaced.then(|| old.iter().chain(&[u16::MAX]).chain(new).fold(1, key))
    }

    /// Whether these tokens name their own title: a rare word of it that is nowhere in the other text, or characters
    /// adjacent in it only.
    fn is_of_title(&self, tokens: &[u16], (own, others): (&[u16], &[u16]), elsewhere: &TokenSet) -> bool {
        let most = self.later.twice_median.max(2 * u32::from(FEW));
        let is_name = |token: &u16| {
            let is_rare = 2 * u32::from(self.learned.frequency(*token)) <= most;
            !is_number(*token) && is_of(*token, own, others) && !elsewhere.has(*token) && is_rare
        };
        let has_run = |title: &[u16]| title.windows(tokens.len()).any(|run| run == tokens);
        let is_run = tokens.len() >= NAME && tokens.iter().all(|token| is_character(*token));
        tokens.iter().any(is_name) || (is_run && has_run(own) && !has_run(others))
    }
}

/// Whether only the one title has a token.
fn is_of(token: u16, title: &[u16], other: &[u16]) -> bool {
    title.contains(&token) && !other.contains(&token)
}

/// Marks tokens of gaps as common that differ in spelling only: joined, split, or with a typing error. Words are known
/// by the sums of their letters, so that the sums tell; they also say so of one pair of words in sixteen that have
/// nothing in common, so that a name of one title is never taken for a typing error (but in Arabic, of which newspapers
/// spell names in several ways).
fn respell(alignment: &mut Alignment, earlier: AlignedTokens<'_>, later: AlignedTokens<'_>) {
    let (old, new, alphabet) = (earlier.body, later.body, later.head.alphabet);
    let is_name = |one: u16, other: u16| {
        let is_name = is_of(one, earlier.title, later.title) || is_of(other, later.title, earlier.title);
        is_name && alphabet != Alphabet::Arabic
    };
    let is_word = |token: &u16| !is_number(*token) && !is_character(*token);
    let sum = |words: &[u16]| words.iter().fold(0u16, |sum, word| sum.wrapping_add(*word)) & HASH;
    for gap in &alignment.gaps {
        let (a, b) = (old.get(gap.old.clone()), new.get(gap.new.clone()));
        let (Some(a @ [_, ..]), Some(b @ [_, ..])) = (a, b) else { continue };
        if a.len().max(b.len()) > MOST_RESPELT || !a.iter().chain(b).all(is_word) {
            continue;
        }
        let pairs = a.iter().zip(b).filter(|_| a.len() == b.len());
        for (at, (one, other)) in pairs.enumerate() {
            let is_respelt = alphabet.is_one_letter(one.wrapping_sub(*other) & HASH) && !is_name(*one, *other);
            if one == other || is_respelt {
                alignment.old.mark(gap.old.start + at..gap.old.start + at + 1);
                alignment.new.mark(gap.new.start + at..gap.new.start + at + 1);
            }
        }
        if sum(a) == sum(b) {
            alignment.old.mark(gap.old.clone());
            alignment.new.mark(gap.new.clone());
        }
    }
}

/// The tokens of a gap that are nowhere in the other text; `None` if there are none, or more than a place has.
fn unmatched(body: &[u16], range: &Range<usize>, met: &TokenBits) -> Option<SmallVec<[u16; LONGEST_PLACE]>> {
    let own = range.len() - met.count(range.clone());
    if !(1..=LONGEST_PLACE).contains(&own) {
        return None;
    }
    let tokens = range.clone().zip(body.get(range.clone())?);
    Some(tokens.filter(|&(at, _)| !met.has(at)).map(|(_, &token)| token).collect())
}

#[cfg(test)]
#[path = "differences_tests.rs"]
mod tests;
