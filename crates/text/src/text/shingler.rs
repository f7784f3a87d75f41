//! Cleaned text -> shingles, in one pass.
//!
//! A token is a Chinese character, a kana or another character of a script without spaces; a run of letters; or a
//! number. A shingle is a window over the tokens of one sentence, so that a sentence that is added, dropped or known to
//! be boilerplate changes no shingle of another. Two hashes a token, nothing allocated but the buffers, which the
//! caller keeps.

use super::Text;
use super::byte_class::decode;
use super::fold::{Class, Tables};
use super::numbers::Number;
use super::shingles::Shingles;
use super::swar::{Lanes, leading};
use super::token::{FNV_OFFSET, FNV_PRIME, WORD_SEED, is_numeral, wyhash_step};
use super::tokens::sum_of;
use super::work_counter;
use crate::hash::{GOLDEN_RATIO, mix64, mix64_to_32};

/// The weight of a complete window: five Chinese characters or two words.
const WINDOW: u32 = 5;
/// Weight of a character; a word weighs more.
const CHARACTER: u32 = 1;
const WORD: u32 = 3;

/// Letters from which on a window is long by itself; otherwise a long window includes the token before it. Both are
/// rare enough that few unrelated documents share one, and the shorter one is less often broken by an edit. The
/// smallest hashes of long windows are the document's fingerprints.
const LONG_WINDOW_LETTERS: u32 = 12;

/// Number of previous tokens that are kept. A window never has more than `WINDOW` tokens, a long one one more.
const RING: usize = 8;

impl Shingles {
    /// Reads a text in place of the one before; its memory is used again.
    pub fn read(&mut self, text: &Text<'_>) {
        self.clear(text.raw_len());
        let mut shingler = Shingler::new(self);
        for range in text.ranges() {
            let sentence = text.sentence(range);
            shingler.sentence(sentence, range.letters);
        }
        shingler.finish();
    }
}

/// The base of the rolling hash (Karp and Rabin, 1987), odd so that it has an inverse modulo 2^64.
const BASE: u64 = GOLDEN_RATIO;

/// `POWERS[n]` is `BASE` to the `n`.
const POWERS: [u64; RING] = {
    let mut powers = [1u64; RING];
    let mut n = 1;
    while n < RING {
        powers[n] = powers[n - 1].wrapping_mul(BASE);
        n += 1;
    }
    powers
};

/// Makes a token of a character: odd, and without structure.
const CHARACTER_FACTOR: u64 = 0xA24B_AED4_963E_E407;

/// Marks that keep hashes of different kinds apart.
const SENTENCE_MARK: u64 = 0xABCD;
const LONG_WINDOW_MARK: u64 = 0x5EED;
const NUMBER_FOLLOWS: u64 = 0x55;
const SENTENCE_ENDS: u64 = 0x77;
/// The tokens "before" the first one of a sentence.
const START: [u64; 2] = [1, 2];

/// A run of letters or digits that has not ended yet.
#[derive(Clone, Copy)]
struct Run {
    hash: u64,
    letters: u32,
    /// Only digits so far, with full stops and commas between them.
    number: bool,
    /// A full stop or comma behind a digit: part of the number if another digit follows.
    separator: Option<u8>,
}

impl Run {
    fn kind(&self) -> Kind {
        if self.number { Kind::Number } else { Kind::Word }
    }
}

/// `WINDOWS[words]`: the fewest last tokens that weigh enough, if those are words whose bit is set (the last token has
/// the lowest). Tokens that there are not count as characters: then the window has more tokens than there are.
const WINDOWS: [u8; 1 << WINDOW] = {
    let mut windows = [0; 1 << WINDOW];
    let mut words = 0;
    while words < windows.len() {
        let (mut weight, mut tokens) = (0, 0);
        while weight < WINDOW {
            weight += if words >> tokens & 1 == 1 { WORD } else { CHARACTER };
            tokens += 1;
        }
        windows[words] = tokens;
        words += 1;
    }
    windows
};

/// What a token is, besides its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Character,
    Word,
    Number,
}

/// One pass over the sentences of a document; `finish` ends it.
struct Shingler<'s> {
    out: &'s mut Shingles,
    tables: &'static Tables,
    /// Rolling hashes of the sentence up to each of the last tokens, by token number modulo `RING`.
    rolled: [u64; RING],
    /// Letters up to each token, of which one counts at most `LONG_WINDOW_LETTERS`.
    letters: [u32; RING],
    /// Tokens of this sentence so far, and how many of them are words or numbers.
    tokens: usize,
    words: usize,
    /// Which of the last tokens are words or numbers: the index into `WINDOWS`.
    last_words: usize,
    /// The last two tokens that are no numbers.
    before: [u64; 2],
    /// A number that waits for the token behind it: context so far, value.
    pending: Option<(u64, u64)>,
    sentence_hash: u64,
    /// Index of the sentence in `out`.
    place: u32,
    run: Option<Run>,
}

impl<'s> Shingler<'s> {
    fn new(out: &'s mut Shingles) -> Shingler<'s> {
        Shingler {
            out,
            tables: Tables::get(),
            rolled: [0; RING],
            letters: [0; RING],
            tokens: 0,
            words: 0,
            last_words: 0,
            before: START,
            pending: None,
            sentence_hash: 0,
            place: 0,
            run: None,
        }
    }

    fn sentence(&mut self, sentence: &str, letters: usize) {
        let windows = self.out.len();
        let letters = u32::try_from(letters).unwrap_or(u32::MAX);
        self.place = self.out.next_sentence(letters);
        let bytes = sentence.as_bytes();
        self.out.row.begin_sentence();
        let mut at = 0;
        while let Some(&b) = bytes.get(at) {
            work_counter::add(1);
            if b.is_ascii_alphanumeric() {
                at = self.ascii_run(bytes, at);
            } else if b.is_ascii() {
                self.separate(b, bytes.get(at + 1..).unwrap_or_default());
                at += 1;
            } else if self.clean_han(bytes, at).is_some() {
                self.end_run();
                while let Some(c) = self.clean_han(bytes, at) {
                    self.out.row.pass_character(bytes, c, at, at + 3);
                    self.character(c);
                    at += 3;
                }
            } else {
                let (c, len) = decode(bytes, at);
                let from = at;
                at += len;
                match self.tables.class(c) {
                    Class::Han | Class::Kana | Class::Unspaced => {
                        self.out.row.pass_character(bytes, c, from, at);
                        self.end_run();
                        self.character(c);
                    }
                    Class::Word | Class::Hangul | Class::Mark => {
                        self.out.row.pass(bytes, from, at);
                        self.letter(u32::from(c), false);
                    }
                    _ => self.end_run(),
                }
            }
        }
        self.end_run();
        self.out.row.end_sentence(self.place);
        if let Some((context, value)) = self.pending.take() {
            self.number(context ^ SENTENCE_ENDS, value);
        }
        if self.out.len() == windows && self.tokens > 0 {
            // Too short for a window: the sentence is its own shingle.
            let hash = mix64(self.sentence_hash ^ SENTENCE_MARK);
            self.out.add_window(mix64_to_32(hash));
            self.out.add_candidate(hash);
        }
        self.out.end_sentence(mix64(self.sentence_hash), letters);
        self.out.words += self.words;
        self.out.characters += self.tokens - self.words;
        self.words = 0;
        self.out.whole = (self.out.whole ^ self.sentence_hash).wrapping_mul(BASE).rotate_left(29);
        self.rolled[0] = 0;
        self.letters[0] = 0;
        self.tokens = 0;
        self.last_words = 0;
        self.before = START;
        self.sentence_hash = 0;
    }

    /// A run of ASCII letters and digits that begins at `at`; returns where it ends. Nearly all runs are whole words or
    /// numbers; one that may go on behind its end (`3.5`, `café`) is left open.
    #[inline]
    fn ascii_run(&mut self, bytes: &[u8], at: usize) -> usize {
        let first = bytes.get(at).copied().unwrap_or_default();
        if self.run.is_some() {
            self.out.row.pass(bytes, at, at + 1);
            self.letter(u32::from(first), first.is_ascii_digit());
            return at + 1;
        }
        if first.is_ascii_digit() {
            return self.digit_run(bytes, at);
        }
        let letters = Lanes::load(bytes, at);
        let mut len = leading(letters.alphanumeric());
        let start = letters.first(len);
        let mut hash = wyhash_step(WORD_SEED, start);
        let mut sum = sum_of(start);
        let mut end = at + len as usize;
        while len == 8 {
            let letters = Lanes::load(bytes, end);
            len = leading(letters.alphanumeric());
            if len > 0 {
                hash = wyhash_step(hash, letters.first(len));
                sum = sum.wrapping_add(sum_of(letters.first(len)));
            }
            end += len as usize;
        }
        self.out.row.pass_run(bytes, at, end, sum);
        if bytes.get(end).is_none_or(u8::is_ascii) {
            self.token(hash, end - at, if is_numeral(start) { Kind::Number } else { Kind::Word });
        } else {
            self.run = Some(Run {
                hash,
                letters: u32::try_from(end - at).unwrap_or(u32::MAX),
                number: false,
                separator: None,
            });
        }
        end
    }

    /// Reads a run that begins with a digit.
    fn digit_run(&mut self, bytes: &[u8], at: usize) -> usize {
        let mut run = Run { hash: FNV_OFFSET, letters: 0, number: true, separator: None };
        let mut end = at;
        let next = loop {
            let Some(&b) = bytes.get(end) else { break b' ' };
            if !b.is_ascii_alphanumeric() {
                break b;
            }
            run.hash = (run.hash ^ u64::from(b)).wrapping_mul(FNV_PRIME);
            run.number &= b.is_ascii_digit();
            end += 1;
        };
        run.letters = u32::try_from(end - at).unwrap_or(u32::MAX);
        self.out.row.pass(bytes, at, end);
        if next.is_ascii() && !(run.number && matches!(next, b'.' | b',')) {
            self.token(run.hash, end - at, run.kind());
        } else {
            self.run = Some(run);
        }
        end
    }

    fn letter(&mut self, c: u32, digit: bool) {
        let run = match &mut self.run {
            Some(run) if run.separator.is_none() || (digit && run.number) => {
                // `1,234` is `1234`; the full stop of `3.5` counts.
                if run.separator.take() == Some(b'.') {
                    run.hash = (run.hash ^ u64::from(b'.')).wrapping_mul(FNV_PRIME);
                }
                run
            }
            _ => {
                self.end_run();
                self.run.insert(Run { hash: FNV_OFFSET, letters: 0, number: true, separator: None })
            }
        };
        run.hash = (run.hash ^ u64::from(c)).wrapping_mul(FNV_PRIME);
        run.letters = run.letters.saturating_add(1);
        run.number &= digit;
    }

    #[inline]
    fn separate(&mut self, b: u8, behind: &[u8]) {
        match &mut self.run {
            Some(run) if run.number && run.separator.is_none() && matches!(b, b'.' | b',') => {
                // `1,234` is a group of a number, and `8,4` is 8.4.
                let digits = behind.iter().take(4).take_while(|b| b.is_ascii_digit()).count();
                run.separator = Some(if digits == 3 { b } else { b'.' });
            }
            _ => self.end_run(),
        }
    }

    #[inline]
    fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.token(run.hash, run.letters as usize, run.kind());
        }
    }

    /// The character at `at` if it is a Chinese one of the common kind, which nothing in it could change.
    #[inline(always)]
    fn clean_han(&self, bytes: &[u8], at: usize) -> Option<char> {
        char::from_u32(u32::from(self.tables.clean_han_at(bytes, at)?))
    }

    #[inline(always)]
    fn character(&mut self, c: char) {
        self.token(u64::from(u32::from(c)).wrapping_mul(CHARACTER_FACTOR), 1, Kind::Character);
    }

    /// Adds a token with this number of letters.
    #[inline(always)]
    fn token(&mut self, token: u64, letters: usize, kind: Kind) {
        work_counter::add(1);
        if let Some((context, value)) = self.pending.take() {
            let behind = if kind == Kind::Number { NUMBER_FOLLOWS } else { token.wrapping_mul(3) };
            self.number(context ^ behind, value);
        }
        if kind == Kind::Number {
            let [first, second] = self.before;
            self.pending = Some((mix64(first.wrapping_mul(BASE) ^ second.rotate_left(17)), mix64(token)));
        } else {
            self.before = [self.before[1], token];
        }
        self.sentence_hash = (self.sentence_hash ^ token).wrapping_mul(BASE).rotate_left(23);

        let before = self.tokens % RING;
        let rolled = self.rolled[before].wrapping_mul(BASE).wrapping_add(token);
        let letters = self.letters[before].wrapping_add(letters.min(LONG_WINDOW_LETTERS as usize) as u32);
        self.tokens += 1;
        self.rolled[self.tokens % RING] = rolled;
        self.letters[self.tokens % RING] = letters;
        let is_word = usize::from(kind != Kind::Character);
        self.words += is_word;
        self.last_words = (self.last_words << 1 | is_word) % WINDOWS.len();
        let window = usize::from(WINDOWS[self.last_words]);
        if window <= self.tokens {
            self.out.add_window(mix64_to_32(self.last(rolled, window)));
            let letters = letters.wrapping_sub(self.letters[(self.tokens - window) % RING]);
            let long = window + usize::from(letters < LONG_WINDOW_LETTERS);
            let long = self.last(rolled, long.min(self.tokens));
            self.out.add_candidate(mix64(long ^ LONG_WINDOW_MARK));
        }
    }

    /// The hash of the last `n` tokens, fewer than `RING`.
    #[inline(always)]
    fn last(&self, rolled: u64, n: usize) -> u64 {
        rolled.wrapping_sub(self.rolled[(self.tokens - n) % RING].wrapping_mul(POWERS[n % RING]))
    }

    fn number(&mut self, context: u64, value: u64) {
        self.out.add_number(Number {
            context: (mix64(context) >> 32) as u32,
            value: (value >> 32) as u32,
            sentence: self.place,
        });
    }

    fn finish(self) {
        self.out.finish();
        self.out.whole = mix64(self.out.whole);
    }
}

#[cfg(test)]
#[path = "shingler_tests.rs"]
pub(crate) mod tests;
