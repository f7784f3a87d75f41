//! A title, by what it can have in common with others.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

/// A text of fewer letters and digits is short.
pub(super) const SHORT: usize = 200;

/// Letters of the words that are compared: most shorter ones stand in any title.
const WORD: usize = 4;

/// A title, by what it can have in common with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Title {
    /// Its letters and digits: titles that differ in punctuation are the same.
    pub(super) letters: String,
    /// Hashes of its words of at least four letters, and of its pairs of neighbouring Chinese characters, ascending.
    pub(super) tokens: Vec<u64>,
}

impl Title {
    /// The title that was cleaned to this.
    pub(super) fn of(cleaned: &str) -> Title {
        let (mut tokens, mut word, mut before) = (BTreeSet::new(), String::new(), None);
        // The space ends the last word.
        for character in cleaned.chars().chain([' ']) {
            let single = is_single(character);
            if character.is_alphanumeric() && !single {
                word.push(character);
            } else {
                if word.chars().count() >= WORD {
                    tokens.insert(xxh3_64(word.as_bytes()));
                }
                word.clear();
            }
            if let (true, Some(before)) = (single, before) {
                tokens.insert(xxh3_64(format!("{before}{character}").as_bytes()));
            }
            before = single.then_some(character);
        }
        Title {
            letters: cleaned.chars().filter(|c| c.is_alphanumeric()).collect(),
            tokens: tokens.into_iter().collect(),
        }
    }
}

/// Characters of scripts that put no spaces between words, or write whole syllables: two of them say as much as a word.
fn is_single(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}
