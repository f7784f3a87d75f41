//! Reads fields of a document into its text: cleaned, folded, split into sentences and words.
//!
//! ```text
//! raw field --clean--> cleaned text --sentences--> ranges --segment--> words with hash and level
//!           (markup, entities, code, fold)                 (jieba for Chinese, stop words marked)
//! ```
//!
//! Every step is linear in its input, whatever the input is.

mod bidi;
pub mod boilerplate;
mod byte_class;
mod byte_masks;
mod clean;
mod code;
mod compose;
mod entities;
mod fold;
mod headline;
#[cfg(test)]
mod hostile_tests;
mod markup;
pub(crate) mod numbers;
mod post;
mod readable;
mod segment;
pub(crate) mod sentence_key;
mod sentences;
pub(crate) mod shingler;
pub mod shingles;
mod stop_words;
mod swar;
mod token;
pub(crate) mod tokens;
#[cfg(test)]
mod unicode_tests;
pub mod word_counts;
mod work_counter;
mod zawgyi;

pub use bidi::isolate;
pub use readable::readable;
pub use segment::{Token, load_dictionary, rarity};
pub use sentences::Sentence;

/// The selected fields of one document, with JSON escapes decoded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields<'a> {
    /// The headline.
    pub title: Option<&'a str>,
    /// The text field, or its parts if the field is a list or there are several.
    pub body: &'a [&'a str],
}

/// Buffers that are reused from document to document. One per thread.
#[derive(Debug, Default)]
pub struct Scratch {
    cleaned: String,
    sentences: Vec<Sentence>,
    unescaped: String,
    /// A field that was in Zawgyi.
    unicode: String,
    /// The text that was kept as a headline.
    headline: String,
    /// Bytes of the fields that were read.
    raw: usize,
}

/// Most bytes of a body, and of a title, that are read, cut at a character: enough to distinguish any two texts. A
/// longer document would occupy memory and delay the documents behind it for seconds.
pub const MOST_TEXT: usize = 1 << 20;

/// Most bytes that a buffer retains between documents.
const MAX_RETAINED: usize = 1 << 20;

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Cleans a document. The text is that of the body; only if the body has no letter or digit left, that of the
    /// title. `None` if neither has one.
    pub fn read(&mut self, fields: &Fields<'_>) -> Option<Text<'_>> {
        self.release();
        self.clean(fields.body);
        if self.sentences.is_empty() {
            self.clean(fields.title.as_slice());
        }
        (!self.sentences.is_empty()).then_some(self.text())
    }

    /// Keeps the text that was read last as the headline of the next one.
    pub(crate) fn keep_as_headline(&mut self) {
        std::mem::swap(&mut self.headline, &mut self.cleaned);
        self.sentences.clear();
        self.cleaned.clear();
    }

    /// Whether the text that was read last shares words with the kept headline.
    pub(crate) fn has_its_headline(&self) -> bool {
        headline::speaks_of(&self.headline, &self.cleaned)
    }

    /// The text that was read last; without a sentence if there was none.
    pub fn text(&self) -> Text<'_> {
        Text { cleaned: &self.cleaned, sentences: &self.sentences, raw: self.raw }
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        self.cleaned.capacity()
            + self.unescaped.capacity()
            + self.unicode.capacity()
            + self.headline.capacity()
            + self.sentences.capacity() * size_of::<Sentence>()
    }

    fn clean(&mut self, parts: &[&str]) {
        let mut cleaner = clean::Cleaner::new(&mut self.cleaned, &mut self.sentences);
        self.raw = 0;
        for part in parts {
            let part = part.get(..part.floor_char_boundary(MOST_TEXT - self.raw)).unwrap_or_default();
            self.raw += part.len();
            let part: &str = if zawgyi::to_unicode(part, &mut self.unicode) { &self.unicode } else { part };
            // HTML that was escaped as a whole shows by its closing tags.
            if work_counter::find(part.as_bytes(), b"&lt;/").is_some() {
                unescape(part, &mut self.unescaped);
                cleaner.field(&self.unescaped);
            } else if post::words(part, &mut self.unescaped) {
                cleaner.field(&self.unescaped);
            } else {
                cleaner.field(part);
            }
        }
    }

    fn release(&mut self) {
        for buffer in [&mut self.cleaned, &mut self.unescaped, &mut self.unicode, &mut self.headline] {
            if buffer.capacity() > MAX_RETAINED {
                *buffer = String::new();
            }
        }
        if self.sentences.capacity() > MAX_RETAINED / size_of::<Sentence>() {
            self.sentences = Vec::new();
        }
    }
}

/// Undoes one escaping of HTML.
fn unescape(part: &str, out: &mut String) {
    const ESCAPES: [(&str, &str); 4] = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    out.clear();
    let mut rest = part;
    while let Some((before, from)) =
        work_counter::memchr(b'&', rest.as_bytes()).and_then(|at| rest.split_at_checked(at))
    {
        out.push_str(before);
        let (escape, plain) = ESCAPES.into_iter().find(|(escape, _)| from.starts_with(escape)).unwrap_or(("&", "&"));
        out.push_str(plain);
        rest = from.get(escape.len()..).unwrap_or_default();
    }
    out.push_str(rest);
}

/// The cleaned text of one document, with at least one letter or digit.
///
/// Cleaned text has no tags, no `<`, `>` or `&`, no invisible characters and no URLs; it is NFKC, in lower case and
/// simplified Chinese. White space is one space, and there is none next to Chinese characters or kana.
#[derive(Debug, Clone, Copy)]
pub struct Text<'s> {
    cleaned: &'s str,
    sentences: &'s [Sentence],
    raw: usize,
}

impl<'s> Text<'s> {
    /// All of it, in the order of the fields.
    pub fn cleaned(&self) -> &'s str {
        self.cleaned
    }

    /// Bytes of the fields that were read for it, markup included.
    pub fn raw_len(&self) -> usize {
        self.raw
    }

    /// The sentences in the order of the text. Together they hold every letter of it.
    pub fn ranges(&self) -> &'s [Sentence] {
        self.sentences
    }

    /// The text of one of the sentences.
    pub fn sentence(&self, range: &Sentence) -> &'s str {
        self.cleaned.get(range.start..range.end).unwrap_or_default()
    }

    /// The texts of the sentences in their order.
    pub fn sentences(&self) -> impl Iterator<Item = &'s str> + use<'s> {
        let text = *self;
        self.sentences.iter().map(move |range| text.sentence(range))
    }

    /// The sentence with the most letters and digits; of equals the first.
    pub fn longest(&self) -> &'s str {
        let mut longest: Option<&Sentence> = None;
        for sentence in self.sentences {
            if longest.is_none_or(|l| sentence.letters > l.letters) {
                longest = Some(sentence);
            }
        }
        longest.map_or("", |range| self.sentence(range))
    }
}

/// Builds the folding tables, so that the first document does not wait for them.
pub fn warm_up() {
    fold::Tables::get();
}

/// Calls `each` with every word of a piece of cleaned text, in order.
pub fn words(cleaned: &str, each: impl FnMut(Token<'_>)) {
    segment::words(cleaned, each);
}
