//! The named methods: which features of a document's text make its fingerprints.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::strict::{of_longest, of_words};
use super::{ShortFeatures, ShortText, StagedFeatures, StrictFeatures, VerifiedFeatures, Weights};
use crate::fingerprint::Fingerprint;
use crate::text::{self, Fields, Scratch};

/// Most sentences that `sentences:N` may name.
const MOST_SENTENCES: usize = 16;

/// How a document is turned into fingerprints. As text: `longest`, `full:tfidf`, `sentences:3`, `short:longest`,
/// `field:image.phash`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Method {
    /// Simhash of the words of the longest sentence: paragraphs may be added or dropped.
    Longest,
    /// Simhash of all words.
    Full(Weights),
    /// Smallest hashes of shingles, verified by a proof at the root; boilerplate is left out.
    Verified,
    /// Exact hash of the N longest sentences: any change in one of them is another text.
    Sentences(usize),
    /// Short texts by edit distance among fingerprints within a large distance, longer ones by another method with one
    /// fingerprint. The two kinds have separate forests.
    Short(Box<Method>),
    /// Address, then title, then content.
    Staged,
    /// A fingerprint that the document contains in this field.
    Field(String),
}

/// Attributes of a document besides its text that a method may use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes<'a> {
    /// The address that it was published under.
    pub url: Option<&'a str>,
    /// Its own fingerprint for `field:NAME`.
    pub own: Option<Fingerprint>,
}

/// Why a name is not that of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MethodError {
    /// No method has this name.
    #[error("use verified, longest, full, full:tf, full:tfidf, sentences:N, short, short:METHOD, staged or field:NAME")]
    Unknown,
    /// `sentences:N` with a wrong N.
    #[error("the number of sentences must be from 1 to {MOST_SENTENCES}")]
    Sentences,
    /// `short:METHOD` with a method that longer texts cannot have.
    #[error("longer texts need longest, full, full:tf, full:tfidf or sentences:N")]
    Short,
    /// `field:` without the name of a field.
    #[error("name the field that holds the fingerprint, such as field:phash")]
    Field,
}

/// Features that a method reads from a document, independent of any forest.
#[derive(Debug, Clone)]
pub enum Features {
    /// For the strict rules.
    Strict(StrictFeatures),
    /// For the verified rules.
    Verified(Box<VerifiedFeatures>),
    /// Fingerprints that are looked up one after the other.
    Staged(StagedFeatures),
    /// For the forest of short texts.
    Short(ShortFeatures),
}

impl Features {
    /// The document's own fingerprints, as they are stamped: the same for the same text.
    pub fn hashes(&self) -> Vec<u64> {
        match self {
            Features::Verified(verified) => verified.hashes().collect(),
            Features::Strict(strict) => strict.hashes(),
            Features::Staged(staged) => staged.prints().hashes(),
            Features::Short(short) => short.prints.hashes(),
        }
    }

    /// Heap bytes: less than six times the original text plus four kilobytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Features::Verified(verified) => size_of::<VerifiedFeatures>() + verified.heap_bytes(),
            Features::Strict(strict) => strict.heap_bytes(),
            Features::Staged(staged) => staged.heap_bytes(),
            Features::Short(short) => short.prints.heap_bytes() + short.text.as_str().len(),
        }
    }

    /// The document's own proof in hex digits, where the method has one.
    pub fn proof(&self) -> Option<String> {
        match self {
            Features::Strict(_) | Features::Staged(_) => None,
            Features::Verified(verified) => Some(hex(&verified.proof().to_bytes())),
            Features::Short(short) => Some(hex(short.text.as_str().as_bytes())),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS[usize::from(value & 15)];
    let pairs = bytes.iter().map(|byte| [digit(byte >> 4), digit(*byte)]);
    let mut hex = String::with_capacity(2 * bytes.len());
    hex.extend(pairs.flatten());
    hex
}

/// Buffers that are reused from document to document. One per thread.
#[derive(Debug, Default)]
pub struct Workspace {
    scratch: Scratch,
    verified: VerifiedFeatures,
}

impl Workspace {
    /// Bytes of memory held, besides the value itself.
    pub fn heap_bytes(&self) -> usize {
        self.scratch.heap_bytes() + self.verified.heap_bytes()
    }
}

impl Method {
    /// Reads a document that consists of text only. `None` if it has no usable text: no letter or digit in its body or
    /// title.
    pub fn read(&self, fields: &Fields<'_>, workspace: &mut Workspace) -> Option<Features> {
        self.read_with(fields, Attributes::default(), workspace)
    }

    /// Reads the features of a document. `None` if it has nothing that the method can use.
    pub fn read_with(
        &self,
        fields: &Fields<'_>,
        attributes: Attributes<'_>,
        workspace: &mut Workspace,
    ) -> Option<Features> {
        let Workspace { scratch, verified } = workspace;
        match self {
            Method::Verified => {
                let usable = verified.read(scratch, fields);
                usable.then(|| Features::Verified(Box::new(verified.clone())))
            }
            Method::Staged => StagedFeatures::read(fields, attributes.url, scratch).map(Features::Staged),
            Method::Field(_) => {
                attributes.own.map(|own| Features::Strict(StrictFeatures { fingerprints: vec![own], whole: own }))
            }
            Method::Short(long) => {
                let text = scratch.read(fields)?;
                let Some(short) = ShortText::of(&text) else {
                    return long.fingerprint(fields, scratch).map(Features::Strict);
                };
                let prints = StrictFeatures {
                    fingerprints: vec![of_words(text.sentences(), Weights::Levels)],
                    whole: Fingerprint(xxh3_64(text.cleaned().as_bytes())),
                };
                Some(Features::Short(ShortFeatures { prints, text: short }))
            }
            _ => self.fingerprint(fields, scratch).map(Features::Strict),
        }
    }

    /// Loads dictionaries ahead of the first document.
    pub fn warm_up(&self) {
        text::warm_up();
        match self {
            Method::Verified | Method::Sentences(_) | Method::Field(_) => {}
            Method::Longest | Method::Full(_) | Method::Short(_) | Method::Staged => {
                text::load_dictionary();
            }
        }
    }

    /// The name of the field with the document's own fingerprint.
    pub fn own_field(&self) -> Option<&str> {
        match self {
            Method::Field(name) => Some(name),
            _ => None,
        }
    }

    /// Fingerprints of a text under the strict rules. `None` if neither body nor title has a letter or digit.
    pub fn fingerprint(&self, fields: &Fields<'_>, scratch: &mut Scratch) -> Option<StrictFeatures> {
        let text = scratch.read(fields)?;
        let fingerprint = match self {
            Method::Longest => of_words([text.longest()], Weights::Levels),
            Method::Full(weights) => of_words(text.sentences(), *weights),
            Method::Sentences(count) => of_longest(&text, *count),
            // Not strict, or not from the text alone: the fingerprint of the text is its hash.
            Method::Verified | Method::Staged | Method::Short(_) | Method::Field(_) => {
                Fingerprint(xxh3_64(text.cleaned().as_bytes()))
            }
        };
        Some(StrictFeatures { fingerprints: vec![fingerprint], whole: Fingerprint(xxh3_64(text.cleaned().as_bytes())) })
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(name: &str) -> Result<Method, MethodError> {
        match name.split_once(':') {
            None if name == "longest" => Ok(Method::Longest),
            None if name == "full" => Ok(Method::Full(Weights::Levels)),
            Some(("full", "levels")) => Ok(Method::Full(Weights::Levels)),
            Some(("full", "tf")) => Ok(Method::Full(Weights::Tf)),
            Some(("full", "tfidf")) => Ok(Method::Full(Weights::TfIdf)),
            None if name == "staged" => Ok(Method::Staged),
            None if name == "short" => Ok(Method::Short(Box::new(Method::Full(Weights::Levels)))),
            Some(("short", long)) => match long.parse() {
                Ok(long @ (Method::Longest | Method::Full(_) | Method::Sentences(_))) => {
                    Ok(Method::Short(Box::new(long)))
                }
                _ => Err(MethodError::Short),
            },
            Some(("field", field)) => match field.split('.').any(str::is_empty) {
                false => Ok(Method::Field(field.to_owned())),
                true => Err(MethodError::Field),
            },
            None if name == "verified" => Ok(Method::Verified),
            Some(("sentences", count)) => match count.parse() {
                Ok(count) if (1..=MOST_SENTENCES).contains(&count) => Ok(Method::Sentences(count)),
                _ => Err(MethodError::Sentences),
            },
            _ => Err(MethodError::Unknown),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Longest => f.write_str("longest"),
            Method::Full(Weights::Levels) => f.write_str("full"),
            Method::Full(Weights::Tf) => f.write_str("full:tf"),
            Method::Full(Weights::TfIdf) => f.write_str("full:tfidf"),
            Method::Staged => f.write_str("staged"),
            Method::Short(long) if **long == Method::Full(Weights::Levels) => f.write_str("short"),
            Method::Short(long) => write!(f, "short:{long}"),
            Method::Field(field) => write!(f, "field:{field}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_counts_the_buffers_that_it_keeps() {
        let mut workspace = Workspace::default();
        let text = "The harbour board met on Tuesday. ".repeat(100);
        assert!(Method::Verified.read(&Fields { title: None, body: &[&text] }, &mut workspace).is_some());
        assert!(workspace.heap_bytes() > text.len(), "{}", workspace.heap_bytes());
    }
}
