//! The named methods: which features of a document's text make its fingerprints.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::{Fingerprint, Reading, Simhash};
use crate::text::{Fields, Scratch, Sentence, Text, words};

/// Most sentences that `sentences:N` may ask for.
pub const MOST_SENTENCES: usize = 16;

/// How a document is turned into fingerprints. As text: `longest`, `full`, `sentences:3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Method {
    /// Simhash of the words of the longest sentence (seeds/002): paragraphs may be added or dropped.
    Longest,
    /// Simhash of all words (seeds/000, 001).
    Full,
    /// Smallest hashes of shingles, verified by a proof at the root; boilerplate is left out.
    Verified,
    /// Exact hash of the N longest sentences (seeds/003): any change in one of them is another text.
    Sentences(usize),
}

/// A name that is no method.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MethodError {
    #[error("unknown method `{0}`: use verified, longest, full or sentences:N")]
    Unknown(String),
    #[error("method `{0}`: the number of sentences must be from 1 to {MOST_SENTENCES}")]
    Sentences(String),
}

/// What a method makes of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prints {
    /// At least one; the first is the one that becomes a root if the document is unlike all others.
    pub fingerprints: Vec<Fingerprint>,
    /// Exact hash (XXH3) of the whole cleaned text.
    pub whole: Fingerprint,
}

/// What a method reads out of a document by itself; placing it is the forest's part.
#[derive(Debug, Clone)]
pub enum Features {
    /// For the strict law.
    Strict(Prints),
    /// For the verified law.
    Verified(Box<Reading>),
}

impl Features {
    /// The document's own fingerprints, as they are stamped: the same for the same text.
    pub fn hashes(&self) -> Vec<u64> {
        match self {
            Features::Strict(prints) => prints.fingerprints.iter().map(|print| print.0).collect(),
            Features::Verified(reading) => reading.hashes().collect(),
        }
    }

    /// The document's own proof in hex digits, where the method has one.
    pub fn proof(&self) -> Option<String> {
        match self {
            Features::Strict(_) => None,
            Features::Verified(reading) => {
                let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or('0');
                let bytes = reading.proof().to_bytes().into_iter();
                Some(
                    bytes
                        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
                        .collect(),
                )
            }
        }
    }
}

/// Buffers that are used for one document after the other. One per thread.
#[derive(Debug, Default)]
pub struct Workspace {
    scratch: Scratch,
    reading: Reading,
}

impl Method {
    /// Reads a document. `None` if it has no usable text: no letter or digit in its body or title.
    pub fn read(&self, fields: &Fields<'_>, workspace: &mut Workspace) -> Option<Features> {
        let Workspace { scratch, reading } = workspace;
        match self {
            Method::Verified => {
                let usable = reading.read(scratch, fields);
                usable.then(|| Features::Verified(Box::new(reading.clone())))
            }
            _ => self.fingerprint(fields, scratch).map(Features::Strict),
        }
    }

    /// The fingerprints of a document under the strict law. `None` if it has no usable text: no letter or digit in its body or title.
    pub fn fingerprint(&self, fields: &Fields<'_>, scratch: &mut Scratch) -> Option<Prints> {
        let text = scratch.read(fields)?;
        let fingerprint = match *self {
            Method::Longest => of_words([text.longest()]),
            // Not of the strict law: the one fingerprint it could have there is that of the text.
            Method::Verified => Fingerprint(xxh3_64(text.cleaned().as_bytes())),
            Method::Full => of_words(text.sentences()),
            Method::Sentences(count) => of_longest(&text, count),
        };
        Some(Prints {
            fingerprints: vec![fingerprint],
            whole: Fingerprint(xxh3_64(text.cleaned().as_bytes())),
        })
    }
}

/// Simhash of the words of some sentences. A word weighs its level (1 to 5) each time it occurs, so that its weight is
/// level times term frequency. Noise words count only where there is nothing else.
fn of_words<'t>(sentences: impl IntoIterator<Item = &'t str>) -> Fingerprint {
    let mut sums = Simhash::new();
    let mut noise = Simhash::new();
    let mut nothing_else = true;
    for sentence in sentences {
        words(sentence, |word| {
            if !word.noise {
                nothing_else = false;
                sums.add(word.hash, word.level);
            } else if nothing_else {
                noise.add(word.hash, word.level);
            }
        });
    }
    if nothing_else {
        noise.finish()
    } else {
        sums.finish()
    }
}

/// One hash of the letters and digits of the `count` longest sentences, of equals the first, in the order of the text.
/// Punctuation and spaces do not matter.
fn of_longest(text: &Text<'_>, count: usize) -> Fingerprint {
    let mut ranges: Vec<&Sentence> = text.ranges().iter().collect();
    if ranges.len() > count {
        // Stable: of equally long sentences the first stays in front.
        ranges.sort_by_key(|range| std::cmp::Reverse(range.letters));
        ranges.truncate(count);
        ranges.sort_by_key(|range| range.start);
    }
    let mut hasher = Xxh3Default::new();
    for range in ranges {
        for run in text.sentence(range).split(|c: char| !c.is_alphanumeric()) {
            hasher.update(run.as_bytes());
        }
        hasher.update(b"\n");
    }
    Fingerprint(hasher.digest())
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(name: &str) -> Result<Method, MethodError> {
        match name.split_once(':') {
            None if name == "longest" => Ok(Method::Longest),
            None if name == "full" => Ok(Method::Full),
            None if name == "verified" => Ok(Method::Verified),
            Some(("sentences", count)) => match count.parse() {
                Ok(count) if (1..=MOST_SENTENCES).contains(&count) => Ok(Method::Sentences(count)),
                _ => Err(MethodError::Sentences(name.to_owned())),
            },
            _ => Err(MethodError::Unknown(name.to_owned())),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Longest => f.write_str("longest"),
            Method::Full => f.write_str("full"),
            Method::Verified => f.write_str("verified"),
            Method::Sentences(count) => write!(f, "sentences:{count}"),
        }
    }
}

impl TryFrom<String> for Method {
    type Error = MethodError;

    fn try_from(name: String) -> Result<Method, MethodError> {
        name.parse()
    }
}

impl From<Method> for String {
    fn from(method: Method) -> String {
        method.to_string()
    }
}
