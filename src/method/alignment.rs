//! Aligns two texts token by token: runs of one that occur in the other, and the differences between the runs.
//!
//! The later text is walked through once. A run that occurs in the earlier text is followed as far as both agree;
//! where they diverge, both are scanned a few tokens ahead for the next agreement (`AHEAD`), and the skipped part is
//! a *place* with different content. If there is none, the next run is looked up in the whole earlier text, by a
//! table of its short runs. So a moved paragraph is found, and the work is a bounded number of steps per token for
//! any texts.

use std::ops::Range;

use crate::text::tokens::{CHARACTER, HASH, MOST, NUMBER, ONE_LETTER};

/// So many words of both are looked ahead for the next place at which they agree.
const AHEAD: usize = 8;
/// Places of a short run in the earlier text that are tried.
const TRIED: usize = 8;
/// Words of a short run, and characters.
const RUN_OF_WORDS: usize = 3;
const RUN_OF_CHARACTERS: usize = 5;
/// Tokens at the head of a text in which differing numbers are ignored: the date of a page.
const HEAD: usize = 12;
/// So many characters are two words at most.
const USAGE: usize = 4;
/// Other places that are remembered, to see which come again.
const REMEMBERED: usize = 32;

/// Of a character as much as of so many words.
const CHARACTER_IN_WORDS: f32 = 0.6;

const BUCKETS: usize = 1 << 11;
const NONE: u16 = u16::MAX;

/// The words of one text: of its title, and of its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlignedTokens<'a> {
    pub(crate) title: &'a [u16],
    pub(crate) body: &'a [u16],
}

/// Differences between two texts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Differences {
    /// Common tokens in words; characters count by the usual length of a word.
    pub words: f32,
    /// Share of the common part in the text that has less outside of it.
    pub most: f32,
    /// The same of the other text.
    pub least: f32,
    /// Places with different numbers.
    pub numbers: u16,
    /// Places where words of one title stand against words of the other.
    pub names: u16,
    /// Places that repeat an earlier replacement.
    pub repeated: u16,
    /// Other places with different content.
    pub others: u16,
    /// Places where a letter or a character is another one: typing errors.
    pub typos: u16,
    /// Places where the one text has something more, and where the texts go on elsewhere.
    pub breaks: u16,
}

impl Differences {
    /// Aligns a text with an earlier one.
    pub(crate) fn of(earlier: AlignedTokens<'_>, later: AlignedTokens<'_>) -> Differences {
        let within = |words: &'_ [u16]| words.len().min(MOST);
        let earlier = AlignedTokens { body: &earlier.body[..within(earlier.body)], ..earlier };
        let later = AlignedTokens { body: &later.body[..within(later.body)], ..later };
        Alignment::new(earlier, later).walk()
    }
}

/// The short runs of a text by their hashes.
struct RunTable<'a> {
    words: &'a [u16],
    heads: [u16; BUCKETS],
    next: [u16; MOST],
}

impl<'a> RunTable<'a> {
    fn new(words: &'a [u16]) -> RunTable<'a> {
        let mut table = RunTable { words, heads: [NONE; BUCKETS], next: [NONE; MOST] };
        // From behind, so that of equal ones the first is met first.
        for at in (0..words.len()).rev() {
            if let Some(run) = run_at(words, at) {
                let head = &mut table.heads[bucket(run)];
                table.next[at] = std::mem::replace(head, at as u16);
            }
        }
        table
    }

    /// Position of a run: the first at or behind `from`, else the first.
    fn find(&self, run: &[u16], from: usize) -> Option<usize> {
        let mut at = self.heads[bucket(run)];
        let mut first = None;
        for _ in 0..TRIED {
            if at == NONE {
                break;
            }
            let place = usize::from(at);
            if run_at(self.words, place) == Some(run) {
                if place >= from {
                    return Some(place);
                }
                first = first.or(Some(place));
            }
            at = self.next[place];
        }
        first
    }
}

fn run_at(words: &[u16], at: usize) -> Option<&[u16]> {
    let first = *words.get(at)?;
    let len = match is_character(first) {
        true => RUN_OF_CHARACTERS,
        false => RUN_OF_WORDS,
    };
    words.get(at..at + len)
}

fn bucket(run: &[u16]) -> usize {
    let hash = run.iter().fold(0u32, |hash, &word| (hash ^ u32::from(word)).wrapping_mul(0x9E37_79B1).rotate_left(13));
    (hash.wrapping_mul(0x85EB_CA6B) >> 21) as usize
}

fn is_number(word: u16) -> bool {
    word & NUMBER != 0
}

fn is_character(word: u16) -> bool {
    word & (NUMBER | CHARACTER) == CHARACTER
}

/// One walk.
struct Alignment<'a> {
    earlier: AlignedTokens<'a>,
    later: AlignedTokens<'a>,
    /// Built when it is first asked.
    table: Option<RunTable<'a>>,
    /// Words of the earlier text that were met, a bit each.
    met: [u64; MOST.div_ceil(64)],
    matched: usize,
    /// Hashes of earlier replacements.
    remembered: [u32; REMEMBERED],
    count: usize,
    found: Differences,
}

impl<'a> Alignment<'a> {
    fn new(earlier: AlignedTokens<'a>, later: AlignedTokens<'a>) -> Alignment<'a> {
        Alignment {
            earlier,
            later,
            table: None,
            met: [0; MOST.div_ceil(64)],
            matched: 0,
            remembered: [0; REMEMBERED],
            count: 0,
            found: Differences::default(),
        }
    }

    fn walk(mut self) -> Differences {
        let (old, new) = (self.earlier.body, self.later.body);
        let (mut i, mut j) = (0, 0);
        // Whether the words before `i` and `j` are a run that both have.
        let mut joined = false;
        while i < new.len() {
            if joined {
                let run = in_common(&old[j..], &new[i..]);
                if run > 0 {
                    mark(&mut self.met, j..j + run);
                    self.matched += run;
                    (i, j) = (i + run, j + run);
                    continue;
                }
                if let Some((more, less)) = ahead(&old[j..], &new[i..]) {
                    self.place(&old[j..j + less], &new[i..i + more]);
                    (i, j) = (i + more, j + less);
                    continue;
                }
            }
            let run = run_at(new, i);
            match run.and_then(|run| self.find(run, j)) {
                Some(at) => {
                    self.found.breaks += 1;
                    (j, joined) = (at, true);
                }
                None => {
                    i += 1;
                    joined = false;
                }
            }
        }
        self.sum_up()
    }

    /// Position of a run in the earlier text: the first at or behind `from`, else the first.
    fn find(&mut self, run: &[u16], from: usize) -> Option<usize> {
        let earlier = self.earlier.body;
        // Most texts begin alike, and many need no table.
        if from == 0 && run_at(earlier, 0) == Some(run) {
            return Some(0);
        }
        let table = self.table.get_or_insert_with(|| RunTable::new(earlier));
        table.find(run, from)
    }

    fn sum_up(self) -> Differences {
        let (old, new) = (self.earlier.body.len(), self.later.body.len());
        let met: u32 = self.met.iter().map(|bits| bits.count_ones()).sum();
        let ratio = |of: f32, all: usize| of / all.max(1) as f32;
        let (old, new) = (ratio(met as f32, old), ratio(self.matched as f32, new));
        let words = self.later.body.iter().filter(|word| is_character(**word));
        let characters = ratio(words.count() as f32, self.later.body.len());
        let unit = 1.0 - characters * (1.0 - CHARACTER_IN_WORDS);
        Differences {
            words: unit * (met as f32 + self.matched as f32) / 2.0,
            most: old.max(new),
            least: old.min(new),
            // The first run is no break.
            breaks: self.found.breaks.saturating_sub(1),
            ..self.found
        }
    }

    /// Here the one text has this and the other that, and both go on alike.
    fn place(&mut self, old: &[u16], new: &[u16]) {
        let found = &mut self.found;
        if old.is_empty() || new.is_empty() {
            found.breaks += 1;
            return;
        }
        let characters = old.iter().chain(new).any(|word| is_character(*word));
        let apart = sum(old).wrapping_sub(sum(new)) & HASH;
        let are_words = !characters && has_words(old) && has_words(new);
        if numbers(old).next().is_some() && numbers(new).next().is_some() {
            if !is_within(old, new) && !is_within(new, old) {
                if self.matched >= HEAD.min(self.later.body.len() / 10) {
                    found.numbers += 1;
                }
                return;
            }
            if !characters && apart == 0 {
                return;
            }
        }
        if characters && old.len() == 1 && new.len() == 1 {
            found.typos += 1;
            return;
        }
        let is_of_title = |words: &[u16], own: &[u16], other: &[u16]| {
            let mut words = words.iter().filter(|word| !is_number(**word));
            words.any(|word| own.contains(word) && !other.contains(word))
        };
        let (title, others) = (self.earlier.title, self.later.title);
        if are_words && apart == 0 {
            return;
        }
        // A few characters are one word, and the others its name elsewhere: `软件`, `软体`.
        let longer = old.len().max(new.len());
        let is_usage = |most| characters && longer <= most;
        if !is_usage(USAGE / 2) && is_of_title(old, title, others) && is_of_title(new, others, title) {
            found.names += 1;
        } else if are_words && ONE_LETTER[usize::from(apart) / 64] >> (apart % 64) & 1 == 1 {
            found.typos += 1;
            return;
        } else if self.remembered[..self.count].contains(&key(old, new)) {
            found.repeated += u16::from(!is_usage(USAGE));
        } else {
            found.others += 1;
        }
        if self.count < REMEMBERED {
            self.remembered[self.count] = key(old, new);
            self.count += 1;
        }
    }
}

/// How many words two texts begin with alike.
fn in_common(one: &[u16], other: &[u16]) -> usize {
    let eights = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let whole = 8 * eights.take_while(|(one, other)| one == other).count();
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(one, other)| one == other).count()
}

/// Sets a range of bits.
fn mark(bits: &mut [u64], range: Range<usize>) {
    let mut at = range.start;
    while at < range.end {
        let some = (64 - at % 64).min(range.end - at);
        bits[at / 64] |= u64::MAX >> (64 - some) << (at % 64);
        at += some;
    }
}

/// Tokens of the later and the earlier text before the next two that both have, or before the end of both; the
/// fewest.
fn ahead(old: &[u16], new: &[u16]) -> Option<(usize, usize)> {
    for both in 1..=2 * AHEAD {
        for more in both.saturating_sub(AHEAD)..=both.min(AHEAD) {
            let less = both - more;
            let (Some(a), Some(b)) = (old.get(less..), new.get(more..)) else {
                continue;
            };
            match (a, b) {
                ([x, p, ..], [y, q, ..]) if x == y && p == q => return Some((more, less)),
                ([x], [y]) if x == y => return Some((more, less)),
                _ => {}
            }
        }
    }
    let is_end = !old.is_empty() && old.len() <= AHEAD && new.len() <= AHEAD;
    is_end.then_some((new.len(), old.len()))
}

fn numbers(words: &[u16]) -> impl Iterator<Item = u16> + '_ {
    words.iter().copied().filter(|word| is_number(*word))
}

fn has_words(words: &[u16]) -> bool {
    words.iter().any(|word| word & (NUMBER | CHARACTER) == 0)
}

/// Whether the other words have all of the numbers of these.
fn is_within(words: &[u16], others: &[u16]) -> bool {
    numbers(words).all(|number| others.contains(&number))
}

/// The sum of the letters of all words.
fn sum(words: &[u16]) -> u16 {
    let words = words.iter().filter(|word| *word & (NUMBER | CHARACTER) == 0);
    words.fold(0u16, |sum, word| sum.wrapping_add(*word)) & HASH
}

fn key(old: &[u16], new: &[u16]) -> u32 {
    let all = old.iter().chain(&[NONE]).chain(new);
    all.fold(1, |key: u32, &word| (key ^ u32::from(word)).wrapping_mul(0x9E37_79B1).rotate_left(15))
}

#[cfg(test)]
#[path = "alignment_tests.rs"]
mod tests;
