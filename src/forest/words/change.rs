//! How words change: what is said, taken back and followed, as changes that say the same when they are applied twice. Whoever keeps
//! words, alone or with others, changes them by these functions.

use super::{Looked, Restamp, Word, Words};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;

/// One change of the words of a forest. Applied again, or over a later state, it says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordChange {
    /// Somebody has said this, or taken it back.
    Say {
        /// The number of the word.
        number: u64,
        /// `None`: it is taken back.
        word: Option<Word>,
    },
    /// Nothing is left of what these words speak of.
    Forget {
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// Stored documents may not obey a word yet, or do.
    Restamp {
        /// The number of the word.
        number: u64,
        /// `None`: they do.
        restamp: Option<Restamp>,
    },
}

impl Words {
    /// Makes a change that was made before, here or elsewhere.
    pub fn apply(&mut self, change: &WordChange) {
        match change {
            WordChange::Say { number, word } => self.set(*number, word.clone()),
            WordChange::Forget { numbers } => self.forget(numbers),
            WordChange::Restamp { number, restamp } => self.set_restamp(*number, restamp.clone()),
        }
    }

    /// Somebody says this about groups. `shown`: the roots that documents of a pin show. Answers the number of the word and what has
    /// changed; `None`: there are as many as a forest remembers.
    pub fn say(&mut self, word: Word, shown: &[Root]) -> Option<(u64, Vec<WordChange>)> {
        let number = self.next()?;
        let restamp = self.restamp_of(&word, shown);
        Some((number, self.change(number, Some(word), restamp)))
    }

    /// Takes a word back. Answers what it was, if there was one of this number, and what has changed. A late merge that is taken back
    /// would be said again: that it is not to be remains in its place.
    pub fn take_back(&mut self, number: u64) -> Option<(Word, Vec<WordChange>)> {
        let word = self.word(number)?.clone();
        let restamp = self.restamp_without(number, &word);
        let remains = match word {
            Word::Late { winner, loser } => Some(Word::Apart {
                roots: [loser, winner],
            }),
            _ => None,
        };
        Some((word, self.change(number, remains, restamp)))
    }

    /// The stored documents obey the word of this number, if this is still what was to be done for it. Answers what has changed.
    pub fn restamped(&mut self, number: u64, done: &Restamp) -> Option<WordChange> {
        let is_this = |(of, restamp): (u64, &Restamp)| of == number && restamp == done;
        if !self.unfinished().any(is_this) {
            return None;
        }
        let restamp = None;
        let change = WordChange::Restamp { number, restamp };
        self.apply(&change);
        Some(change)
    }

    /// What a stored document with this text is to show, that the forest puts into this tree. `is_known`: it has seen the text, or what
    /// agrees with it.
    pub fn looked(&self, text: Fingerprint, tree: Root, is_known: bool) -> Looked {
        let is_known = is_known || self.is_pinned(text);
        Looked {
            text,
            answer: is_known.then(|| self.answer(text, tree)),
        }
    }

    fn change(&mut self, number: u64, word: Option<Word>, restamp: Restamp) -> Vec<WordChange> {
        let mut changes = vec![
            WordChange::Say { number, word },
            WordChange::Restamp {
                number,
                restamp: Some(restamp),
            },
        ];
        changes.iter().for_each(|change| self.apply(change));
        for (number, restamp) in self.followed() {
            let restamp = Some(restamp);
            let change = WordChange::Restamp { number, restamp };
            self.apply(&change);
            changes.push(change);
        }
        changes
    }
}
