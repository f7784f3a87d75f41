//! Aligns two texts token by token: the tokens that each has in common with the other, and the gaps between them.
//!
//! The later text is walked through once. A run that occurs in the earlier text is followed as far as both agree;
//! where they diverge, both are scanned a few tokens ahead for the next agreement (`AHEAD`). If there is none, the next
//! run is looked up in the whole earlier text, by a table of its short runs. So a moved paragraph is found, while a few
//! words that stand somewhere else by chance are no part of it (`MOVED`), and the work is a bounded number of steps per
//! token for any texts. What is skipped in both texts between two runs is a *gap*: the
//! place where the one text has this and the other that.

use std::ops::Range;

use smallvec::SmallVec;

use crate::text::tokens::{CHARACTER, MOST, NUMBER};

/// Tokens of both texts that are scanned ahead for the next match.
const AHEAD: usize = 8;
/// Places of a short run in the earlier text that are tried.
const TRIED: usize = 8;
/// Length of a short run, in words and in characters.
const RUN_OF_WORDS: usize = 3;
const RUN_OF_CHARACTERS: usize = 5;

/// A run that far ahead of where the earlier text is, and twice the tokens that were passed in the later one, is in its
/// place; elsewhere it was moved.
const NEAR: usize = 32;
/// Tokens of a part that was moved. Fewer are a phrase that both texts use: under other leads over the same house text
/// these would make the leads look alike.
const MOVED: usize = 8;

const BUCKETS: usize = 1 << 11;
const NONE: u16 = u16::MAX;
/// An odd number near 2^64 by the golden ratio (Knuth's multiplicative hashing).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A gap of the alignment: unmatched tokens at one place, as a range in each text; at most one is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// A bit for each token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenBits([u64; MOST.div_ceil(64)]);

impl TokenBits {
    fn new() -> TokenBits {
        TokenBits([0; MOST.div_ceil(64)])
    }

    /// Sets a range of bits.
    pub(super) fn mark(&mut self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            let some = (64 - at % 64).min(range.end - at);
            if let Some(word) = self.0.get_mut(at / 64) {
                *word |= u64::MAX >> (64 - some) << (at % 64);
            }
            at += some;
        }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// How many bits of a range are set.
    pub(super) fn count(&self, range: Range<usize>) -> usize {
        let (mut at, mut count) = (range.start, 0);
        while at < range.end {
            let some = (64 - at % 64).min(range.end - at);
            let word = self.0.get(at / 64).copied().unwrap_or_default();
            count += (word >> (at % 64) & u64::MAX >> (64 - some)).count_ones() as usize;
            at += some;
        }
        count
    }
}

/// Two aligned texts.
#[derive(Debug)]
pub(super) struct Alignment {
    /// Tokens of the earlier text that the later one has.
    pub(super) old: TokenBits,
    /// Tokens of the later text that the earlier one has.
    pub(super) new: TokenBits,
    /// The gaps, in the order of the later text. A gap may hold tokens that stand elsewhere in the other text.
    pub(super) gaps: SmallVec<[Gap; 32]>,
}

impl Alignment {
    /// Aligns the tokens of two texts, at most [`MOST`] of each.
    pub(super) fn of(old: &[u16], new: &[u16]) -> Alignment {
        let within = |tokens: &[u16]| tokens.len().min(MOST);
        let (old, new) = (&old[..within(old)], &new[..within(new)]);
        Walk { old, new, table: None, found: Alignment::empty() }.run()
    }

    fn empty() -> Alignment {
        Alignment { old: TokenBits::new(), new: TokenBits::new(), gaps: SmallVec::new() }
    }
}

/// The short runs of a text by their hashes.
struct RunTable<'a> {
    tokens: &'a [u16],
    heads: Box<[u16; BUCKETS]>,
    next: Vec<u16>,
}

impl<'a> RunTable<'a> {
    fn new(tokens: &'a [u16]) -> RunTable<'a> {
        let mut table = RunTable { tokens, heads: Box::new([NONE; BUCKETS]), next: vec![NONE; tokens.len()] };
        // From behind, so that of equal ones the first is met first.
        for at in (0..tokens.len()).rev() {
            if let Some(run) = run_at(tokens, at) {
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
            if run_at(self.tokens, place).is_some_and(|other| is_same_run(run, other)) {
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

fn run_at(tokens: &[u16], at: usize) -> Option<&[u16]> {
    let first = *tokens.get(at)?;
    let len = match is_character(first) {
        true => RUN_OF_CHARACTERS,
        false => RUN_OF_WORDS,
    };
    tokens.get(at..at + len)
}

/// Whether two runs are equal; they are too short for a call of `memcmp` to pay.
fn is_same_run(one: &[u16], other: &[u16]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other)
}

fn bucket(run: &[u16]) -> usize {
    let whole = |part: &[u16]| part.iter().fold(0u64, |whole, &token| whole << 16 | u64::from(token));
    let key = match run {
        [first, rest @ ..] if run.len() == RUN_OF_CHARACTERS => whole(rest) ^ u64::from(*first).wrapping_mul(SPREAD),
        _ => whole(run),
    };
    (key.wrapping_mul(SPREAD) >> (64 - BUCKETS.trailing_zeros())) as usize
}

pub(super) fn is_number(token: u16) -> bool {
    token & NUMBER != 0
}

pub(super) fn is_character(token: u16) -> bool {
    token & (NUMBER | CHARACTER) == CHARACTER
}

/// One walk through the later text.
struct Walk<'a> {
    old: &'a [u16],
    new: &'a [u16],
    /// Built when it is first needed.
    table: Option<RunTable<'a>>,
    found: Alignment,
}

impl Walk<'_> {
    fn run(mut self) -> Alignment {
        let (old, new) = (self.old, self.new);
        let (mut i, mut j) = (0, 0);
        // Up to here the later text has been passed in gaps.
        let mut behind = 0;
        // Whether the tokens before `i` and `j` are a run that both have.
        let mut joined = false;
        while i < new.len() {
            if joined {
                let run = in_common(&old[j..], &new[i..]);
                if run > 0 {
                    self.found.old.mark(j..j + run);
                    self.found.new.mark(i..i + run);
                    (i, j) = (i + run, j + run);
                    behind = i;
                    continue;
                }
                if let Some((more, less)) = ahead(&old[j..], &new[i..]) {
                    self.gap(j..j + less, i..i + more);
                    (i, j) = (i + more, j + less);
                    continue;
                }
            }
            let run = run_at(new, i);
            let found = run.and_then(|run| self.find(run, j));
            let is_in_place = |at: usize| at >= j && at - j <= NEAR + 2 * (i - behind);
            let is_moved = |at: usize| old.get(at..at + MOVED).is_some_and(|part| new[i..].starts_with(part));
            match found.filter(|&at| is_in_place(at) || is_moved(at)) {
                Some(at) => {
                    // A part that was moved here has nothing in its place there.
                    self.gap(j..at.max(j), behind..i);
                    (j, joined) = (at, true);
                }
                None => {
                    i += 1;
                    joined = false;
                }
            }
        }
        self.gap(j..old.len(), behind..new.len());
        self.found
    }

    fn gap(&mut self, old: Range<usize>, new: Range<usize>) {
        if !old.is_empty() || !new.is_empty() {
            self.found.gaps.push(Gap { old, new });
        }
    }

    /// Position of a run in the earlier text: the first at or behind `from`, else the first.
    fn find(&mut self, run: &[u16], from: usize) -> Option<usize> {
        let old = self.old;
        // Most texts begin alike, and many need no table.
        if from == 0 && run_at(old, 0).is_some_and(|first| is_same_run(run, first)) {
            return Some(0);
        }
        let table = self.table.get_or_insert_with(|| RunTable::new(old));
        table.find(run, from)
    }
}

/// How many tokens two texts begin with alike.
fn in_common(one: &[u16], other: &[u16]) -> usize {
    let eights = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let whole = 8 * eights.take_while(|(one, other)| one == other).count();
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(one, other)| one == other).count()
}

/// Tokens of the later and the earlier text before the next two that both have, or the last one; the fewest.
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
    None
}

#[cfg(test)]
#[path = "alignment_tests.rs"]
mod tests;
