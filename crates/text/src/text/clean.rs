//! The cleaning pass: raw field text in, cleaned text and its sentences out, in one walk over the bytes.
//!
//! Text that is already clean (lower case, simplified, half width) is copied in runs; everything else is an event that
//! ends the run: a capital letter, white space, a tag, a character that folds to another.

use unicode_normalization::char::canonical_combining_class;

use super::byte_class::{BYTE_CLASSES, ByteClass, decode_three};
use super::byte_masks::ByteMasks;
use super::code;
use super::compose::{self, Composed};
use super::entities;
use super::fold::{Class, Tables};
use super::markup::{self, Effect};
use super::sentences::{Sentence, full_stop_ends};
use super::work_counter;

/// How many characters a combining mark may reach back to the letter that it changes.
const LONGEST_CLUSTER: usize = 16;
/// Most combining marks of a letter, besides those it composes with. No script needs half as many; more would be
/// unreadable and expensive.
const MOST_MARKS: usize = 12;

/// Finders of multi-character pieces in one field, which remember failed searches.
#[derive(Default)]
struct Finders {
    markup: markup::MarkupFinder,
    code: code::BlockFinder,
}

/// One pass over the fields of one document; `finish` ends it.
pub(super) struct Cleaner<'s> {
    tables: &'static Tables,
    out: &'s mut String,
    sentences: &'s mut Vec<Sentence>,
    /// Where the current sentence begins in `out`.
    start: usize,
    /// Letters and digits of the current sentence.
    letters: usize,
    /// Signs of code in the current sentence.
    signs: usize,
    /// The run that is not yet written has capital letters of ASCII.
    capitals: bool,
    /// White space was seen since the last character.
    space: bool,
    /// Class of the last character of `out`.
    last: Class,
    /// Marks since the last letter; it counts only while the last character is one.
    marks: usize,
    /// Whether the last letter of `out` and its marks are not normalised yet. Only while marks are being read.
    unsettled: bool,
}

impl<'s> Cleaner<'s> {
    pub(super) fn new(out: &'s mut String, sentences: &'s mut Vec<Sentence>) -> Cleaner<'s> {
        out.clear();
        sentences.clear();
        Cleaner {
            tables: Tables::get(),
            out,
            sentences,
            start: 0,
            letters: 0,
            signs: 0,
            capitals: false,
            space: false,
            last: Class::Punct,
            marks: 0,
            unsettled: false,
        }
    }

    /// Cleans one field, or one part of one. A sentence does not go on from one field to the next.
    pub(super) fn field(&mut self, raw: &str) {
        self.out.reserve(raw.len());
        let bytes = raw.as_bytes();
        let mut finders = Finders::default();
        // raw[run..at] is clean and not yet written.
        let (mut run, mut at) = (0, 0);
        while let Some(&b) = bytes.get(at) {
            work_counter::add(1);
            let class = BYTE_CLASSES[usize::from(b)];
            if let Some(end) = self.extend_run(bytes, at, class, run < at) {
                at = end;
            } else {
                self.flush(raw, run, at);
                at = self.event(raw, at, class, &mut finders);
                run = at;
            }
        }
        self.flush(raw, run, at);
        self.end_sentence();
        self.space = true;
    }

    /// If the text at `at`, whose first byte has this class, is clean already: counts it and returns its end.
    /// `in_run`: unwritten clean text precedes it directly.
    #[inline(always)]
    fn extend_run(&mut self, bytes: &[u8], at: usize, class: ByteClass, in_run: bool) -> Option<usize> {
        match class {
            ByteClass::Letter => {
                self.join(Class::Word);
                Some(self.ascii_words(bytes, at))
            }
            ByteClass::Three => {
                if self.tables.clean_han_at(bytes, at).is_some() {
                    self.join(Class::Han);
                    return Some(self.clean_han(bytes, at));
                }
                let cp = decode_three(bytes, at)?;
                let class = self.tables.class_bmp(cp);
                if class == Class::Mark && in_run {
                    return self.plain_mark(bytes, at, cp);
                }
                if !class.is_letter() || self.tables.fold(cp) != Some(cp) {
                    return None;
                }
                self.join(class);
                self.letters += 1;
                self.last = class;
                Some(at + 3)
            }
            ByteClass::Punct | ByteClass::CodeSign => {
                self.join(Class::Punct);
                self.signs += usize::from(class == ByteClass::CodeSign);
                self.last = Class::Punct;
                Some(at + 1)
            }
            // One space that stays: in a run, the text before it belongs to this sentence.
            ByteClass::Space => {
                let between_words = in_run
                    && bytes.get(at) == Some(&b' ')
                    && !self.last.is_spaceless()
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
                between_words.then_some(at + 1)
            }
            _ => None,
        }
    }

    /// Counts the mark at `at` and returns its end, if it leaves the run of clean text before it unchanged.
    #[inline]
    fn plain_mark(&mut self, bytes: &[u8], at: usize, mark: u16) -> Option<usize> {
        let before = decode_three(bytes, at.checked_sub(3)?)?;
        let marks = if self.last == Class::Mark { self.marks + 1 } else { 1 };
        let is_on_letter = self.last.is_letter() || self.last == Class::Mark;
        if !is_on_letter || self.unsettled || marks > MOST_MARKS || !self.tables.stays_behind(mark, before) {
            return None;
        }
        self.marks = marks;
        self.last = Class::Mark;
        Some(at + 3)
    }

    /// Cleans the piece at `at` that cannot be copied; everything before it is written. Returns its end.
    #[inline]
    fn event(&mut self, raw: &str, at: usize, class: ByteClass, finders: &mut Finders) -> usize {
        let bytes = raw.as_bytes();
        match class {
            ByteClass::Space => self.white_space(bytes, at),
            ByteClass::Greater => self.space = true,
            ByteClass::SentenceMark => self.sentence_mark(bytes, at),
            ByteClass::FullStop => self.full_stop(bytes.get(at + 1..).unwrap_or_default()),
            ByteClass::Colon => return self.colon(bytes, at),
            ByteClass::Brace => return self.brace(bytes, at, &mut finders.code),
            ByteClass::Less => return self.less_than(bytes, at, &mut finders.markup),
            ByteClass::Ampersand => return self.ampersand(bytes, at),
            ByteClass::Two | ByteClass::Three | ByteClass::Four => return self.changed(raw, at),
            ByteClass::Drop | ByteClass::Letter | ByteClass::Punct | ByteClass::CodeSign => {}
        }
        at + 1
    }

    /// Skips the white space at `at`. A line that ends with a letter of a script without spaces ends a sentence: Thai
    /// and Lao have no full stops, and nobody breaks their lines by hand.
    fn white_space(&mut self, bytes: &[u8], at: usize) {
        if bytes.get(at) == Some(&b'\n') && self.last_letter() == Class::Unspaced {
            self.end_sentence();
        }
        self.space = true;
    }

    /// The class of the last character, of a mark that of the letter before it.
    fn last_letter(&self) -> Class {
        if self.last != Class::Mark {
            return self.last;
        }
        let mut classes = self.out.chars().rev().map(|c| self.tables.class(c));
        { &mut classes }.find(|class| *class != Class::Mark).unwrap_or(Class::Mark)
    }

    /// Writes the `!`, `?` or `;` at `at`, which ends a sentence.
    fn sentence_mark(&mut self, bytes: &[u8], at: usize) {
        let mark = bytes.get(at).copied().unwrap_or_default();
        self.join(Class::Punct);
        self.out.push(char::from(mark));
        self.signs += usize::from(mark == b';');
        self.last = Class::Punct;
        self.end_sentence();
    }

    /// Takes out the web address whose scheme ends at `at`, or writes a colon.
    fn colon(&mut self, bytes: &[u8], at: usize) -> usize {
        if let Some(end) = self.address(bytes, at) {
            return end;
        }
        self.join(Class::Punct);
        self.out.push(':');
        self.last = Class::Punct;
        at + 1
    }

    /// Takes out the block of code that opens at `at`, or writes a brace.
    fn brace(&mut self, bytes: &[u8], at: usize, code: &mut code::BlockFinder) -> usize {
        if let Some((end, head)) = code.block(bytes, at, self.out, self.start) {
            self.cut(head);
            self.end_sentence();
            return end;
        }
        self.put('{');
        self.signs += 1;
        at + 1
    }

    /// Skips the markup that begins at `at`; any other `<` separates words.
    fn less_than(&mut self, bytes: &[u8], at: usize, markup: &mut markup::MarkupFinder) -> usize {
        if let Some(found) = markup.find(bytes, at) {
            self.apply(found.effect);
            return found.end;
        }
        self.space = true;
        at + 1
    }

    /// Writes the character of the reference at `at`; an `&` that begins none separates words.
    fn ampersand(&mut self, bytes: &[u8], at: usize) -> usize {
        if let Some((c, len)) = entities::decode(bytes.get(at..).unwrap_or_default()) {
            self.fold(c);
            self.settle();
            return at + len;
        }
        self.space = true;
        at + 1
    }

    /// Walks over ASCII words that begin at `at`, with one space between each two of them; returns where they end,
    /// which is behind a letter or digit.
    #[inline]
    fn ascii_words(&mut self, bytes: &[u8], mut at: usize) -> usize {
        self.last = Class::Word;
        let mut letter_before = 0;
        loop {
            let ByteMasks { alphanumeric: letters, spaces, uppercase } = ByteMasks::load(bytes, at);
            let clean = letters | (spaces & (letters << 1 | letter_before) & letters >> 1);
            let len = clean.trailing_ones();
            let within = u32::MAX.checked_shr(32 - len).unwrap_or_default();
            self.letters += (letters & within).count_ones() as usize;
            self.capitals |= uppercase & within != 0;
            at += len as usize;
            work_counter::add(1 + len as usize);
            if len < 32 {
                return at;
            }
            letter_before = 1;
        }
    }

    /// Walks over Chinese characters that fold to themselves; returns where they end.
    #[inline]
    fn clean_han(&mut self, bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        while self.tables.clean_han_at(bytes, at).is_some() {
            at += 3;
        }
        work_counter::add((at - from) / 3);
        self.letters += (at - from) / 3;
        self.last = Class::Han;
        at
    }

    /// Writes a clean run. Its first character has been composed with the text before.
    #[inline]
    fn flush(&mut self, raw: &str, run: usize, at: usize) {
        if run < at {
            work_counter::add(at - run);
            let from = self.out.len();
            self.out.push_str(raw.get(run..at).unwrap_or_default());
            if std::mem::take(&mut self.capitals)
                && let Some(written) = self.out.get_mut(from..)
            {
                written.make_ascii_lowercase();
            }
        }
    }

    /// Makes the pending white space a space, if one belongs between the last character and one of class `next`.
    #[inline]
    fn join(&mut self, next: Class) {
        if self.space {
            self.space = false;
            if !self.last.is_spaceless() && !next.is_spaceless() && !self.out.is_empty() {
                let sentence_is_empty = self.out.len() == self.start;
                self.out.push(' ');
                if sentence_is_empty {
                    self.start = self.out.len();
                }
            }
        }
    }

    /// Writes the character at `at`, which is not ASCII, folded. Returns the offset behind it.
    fn changed(&mut self, raw: &str, at: usize) -> usize {
        let Some(c) = raw.get(at..).and_then(|rest| rest.chars().next()) else {
            return at + 1;
        };
        let behind = at + c.len_utf8();
        match c {
            '\u{FF0E}' => self.full_stop(raw.as_bytes().get(behind..).unwrap_or_default()),
            '\u{2025}' | '\u{2026}' => {
                self.join(Class::Punct);
                self.out.push_str("...");
                self.last = Class::Punct;
                self.end_sentence();
            }
            c => {
                self.fold(c);
                let next = raw.get(behind..).and_then(|rest| rest.chars().next());
                // More marks of the same letter are normalised with this one.
                if next.is_none_or(|next| self.tables.class(next) != Class::Mark) {
                    self.settle();
                }
            }
        }
        behind
    }

    /// Folds a character and writes the result.
    fn fold(&mut self, c: char) {
        match u16::try_from(u32::from(c)).ok().and_then(|cp| self.tables.fold(cp)) {
            Some(folded) => self.put(char::from_u32(u32::from(folded)).unwrap_or(' ')),
            None if self.tables.folds_to_itself(c) => self.put(c),
            None if let Some([first, second]) = self.tables.folds_to_two(c) => {
                self.put(first);
                self.put(second);
            }
            None => {
                work_counter::add(20);
                self.tables.fold_char(c, |folded| self.put(folded));
            }
        }
    }

    /// Writes a folded character according to its class.
    fn put(&mut self, c: char) {
        let class = self.tables.class(c);
        if class != Class::Mark {
            self.settle();
        }
        match class {
            Class::Drop => {}
            Class::Space => self.space = true,
            Class::Punct if matches!(c, '<' | '>' | '&') => self.space = true,
            Class::Mark => self.compose(c),
            class @ (Class::Punct | Class::Break) => {
                self.join(Class::Punct);
                self.out.push(c);
                self.last = Class::Punct;
                if class == Class::Break {
                    self.end_sentence();
                }
            }
            class => {
                self.join(class);
                self.out.push(c);
                self.letters += 1;
                self.last = class;
                // A vowel or final consonant of Hangul, or a letter of another script that joins the one before.
                if self.tables.may_compose(c) {
                    self.settle_last();
                    self.settle();
                }
            }
        }
    }

    /// Adds a combining mark to the letter before it. A mark on nothing leaves no trace, nor does one of more than a
    /// letter can have.
    fn compose(&mut self, mark: char) {
        if self.space || self.out.len() == self.start || !(self.last.is_letter() || self.last == Class::Mark) {
            return;
        }
        if self.last != Class::Mark {
            self.marks = 0;
        }
        self.marks += 1;
        if self.marks <= MOST_MARKS {
            self.out.push(mark);
            self.last = Class::Mark;
            self.settle_last();
        }
    }

    /// Normalises the last letter of `out` together with the character that has just been put behind it; if it takes
    /// the normaliser, when all marks are there.
    fn settle_last(&mut self) {
        if self.unsettled {
            return;
        }
        let sentence = self.out.get(self.start..).unwrap_or_default();
        match compose::last(sentence) {
            Composed::Nothing => {}
            Composed::Pair(composed) => {
                let mut letters = usize::from(self.tables.class(composed).is_letter());
                let mut gone = 0;
                for c in [self.out.pop(), self.out.pop()].into_iter().flatten() {
                    gone += usize::from(self.tables.class(c).is_letter());
                }
                letters += self.letters;
                self.letters = letters.saturating_sub(gone);
                self.out.push(composed);
                self.last = self.tables.class(composed);
            }
            Composed::Unknown => self.unsettled = true,
        }
    }

    /// Normalises the last letter of `out` together with all that has been put behind it, if that was not done yet.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.unsettled) {
            return;
        }
        let sentence = self.out.get(self.start..).unwrap_or_default();
        let mut tail = 0;
        for c in sentence.chars().rev().take(LONGEST_CLUSTER) {
            tail += c.len_utf8();
            if canonical_combining_class(c) == 0 && !self.tables.may_compose(c) {
                break;
            }
        }
        let from = self.out.len() - tail;
        let Some(cluster) = self.out.get(from..) else {
            return;
        };
        let composed = compose::normalised(cluster);
        if composed != cluster {
            let count = |text: &str| text.chars().filter(|&c| self.tables.class(c).is_letter()).count();
            self.letters = (self.letters + count(&composed)).saturating_sub(count(cluster));
            self.out.truncate(from);
            self.out.push_str(&composed);
        }
        self.last = self.out.chars().next_back().map_or(Class::Punct, |c| self.tables.class(c));
    }

    /// Writes an ASCII full stop; `behind` is the raw text that follows.
    fn full_stop(&mut self, behind: &[u8]) {
        let before = if self.space { Class::Space } else { self.last };
        // No sentence begins so, but a line of a style sheet does.
        self.signs += usize::from(self.letters == 0 && behind.first().is_some_and(u8::is_ascii_alphabetic));
        self.join(Class::Punct);
        let dots = self.out.ends_with('.');
        self.out.push('.');
        self.last = Class::Punct;
        let more = behind.first() == Some(&b'.');
        if !more && (dots || full_stop_ends(self.tables, before, self.out, behind)) {
            self.end_sentence();
        }
    }

    /// If the colon at `at` is that of a web address: takes its scheme back and returns where the address ends.
    /// Addresses carry counters and names of the reprinting site, never text.
    fn address(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?.strip_prefix(b"://")?;
        if self.space {
            return None;
        }
        let scheme = ["https", "http", "ftp"].into_iter().find(|s| self.out.ends_with(s))?;
        let cut = self.out.len() - scheme.len();
        if cut < self.start {
            return None;
        }
        self.cut(cut);
        let len = rest
            .iter()
            .take_while(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\'' | b')' | b'|'))
            .count();
        work_counter::add(len);
        Some(at + 3 + len)
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Inline => {}
            Effect::Space => self.space = true,
            Effect::Break => {
                self.end_sentence();
                self.space = true;
            }
        }
    }

    /// Removes the current sentence from `from` on. A space separates the rest from the text that follows.
    fn cut(&mut self, from: usize) {
        let Some(removed) = self.out.get(from..) else {
            return;
        };
        work_counter::add(removed.len());
        let letters = removed.chars().filter(|&c| self.tables.class(c).is_letter()).count();
        self.letters = self.letters.saturating_sub(letters);
        self.out.truncate(from);
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.start = self.start.min(kept);
        self.last = self.out.chars().next_back().map_or(Class::Punct, |c| self.tables.class(c));
        self.space = true;
    }

    fn end_sentence(&mut self) {
        if self.letters > 0 {
            let text = self.out.get(self.start..).unwrap_or_default();
            if self.signs > 0 && code::is_statement(text) {
                self.cut(self.start);
            } else {
                self.sentences.push(Sentence { start: self.start, end: self.out.len(), letters: self.letters });
            }
        } else if let Some(before) = self.sentences.last_mut().filter(|s| s.end == self.start) {
            // `?!`, `……`: more of the same punctuation belongs to the sentence that it ends.
            let more = self.out.get(self.start..).unwrap_or_default();
            work_counter::add(more.len());
            if more.chars().all(|c| c == '.' || self.tables.class(c) == Class::Break) {
                before.end = self.out.len();
            }
        }
        self.start = self.out.len();
        self.letters = 0;
        self.signs = 0;
    }
}

#[cfg(test)]
#[path = "clean_tests.rs"]
pub(super) mod tests;
