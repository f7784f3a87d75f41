//! The difference of two texts: by words, in scripts without blanks between words by characters.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Most tokens of either text that are compared; the remainder is ignored.
const MAX_TOKENS: usize = 8_000;

/// Time limit of the search for the shortest edit script; after it any correct one is used.
const PATIENCE: Duration = Duration::from_millis(250);

/// A stretch of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The kind of change of a segment.
    pub change: PieceKind,
    /// It.
    pub text: String,
}

/// One segment of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// It is in both.
    None,
    /// Only in the old one.
    Removed,
    /// Only in the new one.
    Added,
}

impl Piece {
    pub(super) fn is_added(&self) -> bool {
        self.change == PieceKind::Added
    }

    pub(super) fn is_removed(&self) -> bool {
        self.change == PieceKind::Removed
    }
}

/// The differences of two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TextDiff {
    /// Both texts, merged.
    pub pieces: Vec<Piece>,
    /// Words that were added; of Chinese and Japanese, characters.
    pub added: usize,
    /// Those that were removed.
    pub removed: usize,
    /// Whether most of what changed are characters of these scripts.
    pub is_by_character: bool,
    /// Whether a text is longer than the limit.
    pub is_cut: bool,
}

impl TextDiff {
    /// The pieces by paragraph; each has its own text direction.
    pub(super) fn paragraphs(&self) -> Vec<Vec<Piece>> {
        let mut paragraphs = vec![Vec::new()];
        for piece in &self.pieces {
            for (at, line) in piece.text.split('\n').enumerate() {
                if at > 0 {
                    paragraphs.push(Vec::new());
                }
                if let Some(paragraph) = paragraphs.last_mut().filter(|_| !line.is_empty()) {
                    paragraph.push(Piece { change: piece.change, text: line.to_owned() });
                }
            }
        }
        paragraphs.retain(|paragraph| !paragraph.is_empty());
        paragraphs
    }

    /// Nothing changed, not even a comma.
    pub(super) fn is_same(&self) -> bool {
        self.pieces.iter().all(|piece| piece.change == PieceKind::None)
    }

    /// Whether only separators between words changed.
    pub(super) fn has_same_words(&self) -> bool {
        self.added == 0 && self.removed == 0
    }
}

/// Compares two texts. Linear memory; time is bounded, for texts that have nothing in common, too.
pub(super) fn diff(old: &str, new: &str) -> TextDiff {
    let (old, old_cut) = words(old);
    let (new, new_cut) = words(new);
    // A limit for texts that nobody writes: any correct edit script is good enough.
    let deadline = Instant::now() + PATIENCE;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    let mut woven = DiffBuilder::default();
    for op in ops {
        let (removed, added) = match op {
            DiffOp::Equal { old_index, len, .. } => {
                woven.keep(old.get(old_index..old_index + len).unwrap_or_default());
                continue;
            }
            _ => (op.old_range(), op.new_range()),
        };
        woven.change(old.get(removed).unwrap_or_default(), new.get(added).unwrap_or_default());
    }
    woven.finish(old_cut || new_cut)
}

/// Pieces in the making.
#[derive(Default)]
struct DiffBuilder<'t> {
    diff: TextDiff,
    removed: Vec<&'t str>,
    added: Vec<&'t str>,
    /// Characters of Chinese and Japanese among the counted words.
    characters: usize,
}

impl<'t> DiffBuilder<'t> {
    /// Adds text that both sides have. A blank or a comma between two changes is added to them: readers see one
    /// change.
    fn keep(&mut self, words: &[&'t str]) {
        let is_changing = !(self.removed.is_empty() && self.added.is_empty());
        let is_small = words.len() <= 2 && words.iter().all(|word| !is_word(word));
        if is_changing && is_small && !words.contains(&"\n") {
            self.removed.extend(words);
            self.added.extend(words);
            return;
        }
        self.flush();
        self.push(PieceKind::None, words);
    }

    fn change(&mut self, removed: &[&'t str], added: &[&'t str]) {
        self.removed.extend(removed);
        self.added.extend(added);
    }

    /// Ends a change; a common end of both sides is not part of it.
    fn flush(&mut self) {
        let (mut removed, mut added) = (std::mem::take(&mut self.removed), std::mem::take(&mut self.added));
        let both = removed.iter().rev().zip(added.iter().rev());
        let common = both.take_while(|(a, b)| a == b).count();
        let kept = removed.split_off(removed.len() - common);
        added.truncate(added.len() - common);
        let is_blank = |words: &[&str]| words.iter().all(|word| word.trim().is_empty());
        if is_blank(&removed) && is_blank(&added) {
            // Moved blanks and line breaks are no change.
            let shown = if added.is_empty() { &removed } else { &added };
            self.push(PieceKind::None, shown);
            self.push(PieceKind::None, &kept);
            return;
        }
        let count = |words: &[&str]| words.iter().filter(|word| is_word(word)).count();
        self.diff.removed += count(&removed);
        self.diff.added += count(&added);
        let changed = removed.iter().chain(&added).flat_map(|word| word.chars().next());
        self.characters += changed.filter(|&c| c.is_alphanumeric() && !is_in_words(c)).count();
        self.mark(PieceKind::Removed, &removed);
        self.mark(PieceKind::Added, &added);
        self.push(PieceKind::None, &kept);
    }

    /// Marks words without the surrounding line breaks, which would be invisible.
    fn mark(&mut self, change: PieceKind, words: &[&str]) {
        let is_end = |word: &&&str| **word == "\n";
        let before = words.iter().take_while(is_end).count();
        let (before, words) = words.split_at(before);
        let after = words.iter().rev().take_while(is_end).count();
        let (words, after) = words.split_at(words.len() - after);
        self.push(PieceKind::None, before);
        self.push(change, words);
        self.push(PieceKind::None, after);
    }

    fn push(&mut self, change: PieceKind, words: &[&str]) {
        if words.is_empty() {
            return;
        }
        match self.diff.pieces.last_mut() {
            Some(last) if last.change == change => last.text.extend(words.iter().copied()),
            _ => self.diff.pieces.push(Piece { change, text: words.concat() }),
        }
    }

    fn finish(mut self, is_cut: bool) -> TextDiff {
        self.flush();
        self.diff.is_cut = is_cut;
        self.diff.is_by_character = self.characters * 2 > self.diff.added + self.diff.removed;
        self.diff
    }
}

/// Splits a text into words, runs of blanks, line breaks and single other characters; also returns whether the limit
/// cut it.
fn words(text: &str) -> (Vec<&str>, bool) {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if words.len() == MAX_TOKENS {
            return (words, true);
        }
        let same: fn(char) -> bool = match first {
            '\n' => |_| false,
            c if c.is_whitespace() => |c| c.is_whitespace() && c != '\n',
            c if is_in_words(c) => is_in_words,
            _ => |_| false,
        };
        let more = rest.char_indices().skip(1).find(|&(_, c)| !same(c));
        let (word, left) = rest.split_at(more.map_or(rest.len(), |(at, _)| at));
        words.push(word);
        rest = left;
    }
    (words, false)
}

/// Whether a character is part of a longer word, unlike in Chinese and Japanese.
fn is_in_words(c: char) -> bool {
    c.is_alphanumeric() && !matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let diff = diff(old, new);
        let piece = |piece: &Piece| match piece.change {
            PieceKind::None => piece.text.clone(),
            PieceKind::Removed => format!("[-{}-]", piece.text),
            PieceKind::Added => format!("{{+{}+}}", piece.text),
        };
        diff.pieces.iter().map(piece).collect()
    }

    #[test]
    fn words_and_characters() {
        assert_eq!(
            shown("The ferry left at 8.", "The last ferry left at 9."),
            "The {+last +}ferry left at [-8-]{+9+}."
        );
        assert_eq!(shown("台风今晨登陆", "台风昨晨登陆"), "台风[-今-]{+昨+}晨登陆");
        // One change, not three.
        assert_eq!(shown("a, b c", "x, y c"), "[-a, b-]{+x, y+} c");
        assert_eq!(shown("", "new"), "{+new+}");
        assert_eq!(shown("same", "same"), "same");
        assert_eq!(shown("a.\n\nB", "a. B"), "a. B");
        assert!(diff("a.\n\nB", "a. B").is_same());
        assert_eq!(shown("B c", "By A\n\nB c"), "{+By A+}\n\nB c");
        assert!(diff("台风今晨登陆", "台风昨晨登陆").is_by_character);
        assert!(!diff("The BBC 说", "The ITV and more 说").is_by_character);
        let marks = diff("\"a\"", "“a”");
        assert!(marks.has_same_words() && !marks.is_same());
    }

    #[test]
    fn a_change_of_several_paragraphs_is_in_each() {
        let piece = |change, text: &str| Piece { change, text: text.into() };
        let paragraphs = diff("A\n\nB c", "A\n\nD\n\nE c").paragraphs();
        let expected = [
            vec![piece(PieceKind::None, "A")],
            vec![piece(PieceKind::Removed, "B"), piece(PieceKind::Added, "D")],
            vec![piece(PieceKind::Added, "E"), piece(PieceKind::None, " c")],
        ];
        assert_eq!(paragraphs, expected);
        assert_eq!(diff("", "").paragraphs(), [[]; 0]);
    }

    #[test]
    fn long_texts_are_cut_and_unverified_end_in_time() {
        let text = |word: &str| (0..2 * MAX_TOKENS).map(|at| format!("{word}{at} ")).collect::<String>();
        let diff = diff(&text("a"), &text("b"));
        assert!(diff.is_cut);
        assert!(diff.added <= MAX_TOKENS && diff.removed <= MAX_TOKENS);
        assert!(!super::diff("a b", "a c").is_cut);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_back(old in "[a-c 中文\n,]{0,40}", new in "[a-c 中文\n,]{0,40}") {
            let diff = diff(&old, &new);
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            let without = |change: PieceKind| -> String {
                let pieces = diff.pieces.iter().filter(|piece| piece.change != change);
                pieces.map(|piece| letters(&piece.text)).collect()
            };
            prop_assert_eq!(without(PieceKind::Added), letters(&old));
            prop_assert_eq!(without(PieceKind::Removed), letters(&new));
            for pair in diff.pieces.windows(2) {
                prop_assert_ne!(pair[0].change, pair[1].change);
            }
        }
    }
}
