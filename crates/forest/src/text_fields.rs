//! The fields that the texts of a forest were read from, by index pattern: recorded with the forest, and compared when
//! it is opened. With other fields every text reads otherwise, and finds nothing of what came before.
//!
//! [`RoutedFields`] is what the routes of this process ask for, [`FieldRecord`] what a forest has recorded.
//!
//! - Refused: other fields for a recorded pattern, for a wider one, or for a part of one that no route takes any more.
//! - Accepted: a new pattern; a route that is gone or back; another order or forest; a narrower route before the one
//!   that stays (its indices count as new). A forest without text or record takes any fields.
//! - Not detected: overlapping patterns (`a-*`, `*-b`) that change order or of which one goes; a narrower route whose
//!   indices are not new; a field whose content changes. A misspelt field of a new route is recorded; correcting it is
//!   refused.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

use crate::index_pattern::{fits, meets};

/// The version of [`FieldRecord::encode`].
const FORMAT: u32 = 1;
/// The line of a forest that is unfinished; no pattern is without fields.
const UNFINISHED: &str = "unfinished";
/// Characters that are percent-encoded, so that a name contains no separator.
const NAME: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',').add(b'=');

/// The fields that decide what the text of a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFields {
    /// Sorted: texts are read in the order in which a document has them.
    text: Vec<String>,
    title: Option<String>,
    url: Option<String>,
}

impl TextFields {
    /// `url`: where the method compares it.
    pub fn new(mut text: Vec<String>, title: Option<String>, url: Option<String>) -> TextFields {
        text.sort_unstable();
        TextFields { text, title, url }
    }

    /// The option and the names of each kind of field that there is.
    fn options(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut options = vec![(TEXT, self.text.iter().map(String::as_str).collect())];
        options.extend(self.title.as_deref().map(|field| (TITLE, vec![field])));
        options.extend(self.url.as_deref().map(|field| (URL, vec![field])));
        options
    }

    fn decode(words: &str) -> Option<TextFields> {
        let mut fields = TextFields { text: Vec::new(), title: None, url: None };
        for word in words.split(' ') {
            let (option, names) = word.split_once('=')?;
            let mut names = names.split(',').map(decoded).collect::<Option<Vec<_>>>()?;
            match (option, names.len()) {
                (TEXT, _) => fields.text = names,
                (TITLE, 1) => fields.title = names.pop(),
                (URL, 1) => fields.url = names.pop(),
                _ => return None,
            }
        }
        (!fields.text.is_empty()).then_some(fields)
    }
}

/// Names of the options.
const TEXT: &str = "text_field";
const TITLE: &str = "title_field";
const URL: &str = "url_field";

/// As the options of a route: `text_field=body,lead title_field=headline`.
impl fmt::Display for TextFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (option, names)) in self.options().into_iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{option}={}", names.join(","))?;
        }
        Ok(())
    }
}

/// The fields that the texts of a forest were read from, by index pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldRecord {
    patterns: BTreeMap<String, TextFields>,
    /// Whether a transfer into the forest is incomplete, so that it must not be used.
    is_unfinished: bool,
}

/// Why a record does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FieldRecordError {
    /// A newer version has written it.
    #[error("its format is {0}, and this version of spinney reads {FORMAT}")]
    Newer(u32),
    /// It was changed, or is damaged.
    #[error("it is no record of fields")]
    Broken,
}

impl FieldRecord {
    fn of(patterns: BTreeMap<String, TextFields>) -> FieldRecord {
        FieldRecord { patterns, is_unfinished: false }
    }

    /// The record of an incompletely transferred forest.
    pub fn unfinished() -> FieldRecord {
        FieldRecord { is_unfinished: true, ..FieldRecord::default() }
    }

    /// Whether a part of the forest is not there yet.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Whether the record is empty.
    pub fn is_empty(&self) -> bool {
        *self == FieldRecord::default()
    }

    /// Index patterns, each with its fields as the options of a route.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, String)> {
        self.patterns.iter().map(|(pattern, fields)| (pattern.as_str(), fields.to_string()))
    }

    /// Lines of text, empty for an empty record: the format, then a line for each pattern.
    pub fn encode(&self) -> String {
        let encoded = |name: &str| utf8_percent_encode(name, NAME).to_string();
        let line = |(pattern, fields): (&String, &TextFields)| {
            let words = fields.options().into_iter().map(|(option, names)| {
                let names: Vec<String> = names.into_iter().map(encoded).collect();
                format!(" {option}={}", names.join(","))
            });
            format!("{}{}\n", encoded(pattern), words.collect::<String>())
        };
        match self.is_empty() {
            true => String::new(),
            false if self.is_unfinished => format!("format = {FORMAT}\n{UNFINISHED}\n"),
            false => format!("format = {FORMAT}\n{}", self.patterns.iter().map(line).collect::<String>()),
        }
    }

    /// # Errors
    /// [`FieldRecordError`]; nothing of it is used then.
    pub fn decode(text: &str) -> Result<FieldRecord, FieldRecordError> {
        if text.is_empty() {
            return Ok(FieldRecord::default());
        }
        let mut lines = text.lines();
        let format = lines.next().and_then(|line| line.strip_prefix("format = "));
        match format.and_then(|format| format.parse().ok()) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(FieldRecordError::Newer(newer)),
            _ => return Err(FieldRecordError::Broken),
        }
        let lines: Vec<&str> = lines.collect();
        if lines == [UNFINISHED] {
            return Ok(FieldRecord::unfinished());
        }
        let line = |line: &&str| {
            let (pattern, fields) = line.split_once(' ')?;
            Some((decoded(pattern)?, TextFields::decode(fields)?))
        };
        let patterns = lines.iter().map(line).collect::<Option<BTreeMap<_, _>>>();
        patterns.map(FieldRecord::of).ok_or(FieldRecordError::Broken)
    }
}

fn decoded(name: &str) -> Option<String> {
    let name = percent_decode_str(name).decode_utf8().ok()?;
    (!name.is_empty()).then(|| name.into_owned())
}

/// Why this process may not read documents into a forest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldsRefused {
    /// The forest has texts of other fields.
    #[error(transparent)]
    Other(Box<OtherFields>),
    /// A part of it is not there yet.
    #[error(
        "is a part of a forest: the spinney transfer that was to fill it has not ended. Run it again, with --replace"
    )]
    Unfinished,
}

/// Indices whose texts are in a forest, and would be read from other fields now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "has texts of {indices} that were read from {recorded}, and the route of {route} reads them from {asked}: every \
     reprint of what came before would found a tree of its own"
)]
pub struct OtherFields {
    /// The recorded pattern.
    pub indices: String,
    /// Its fields.
    pub recorded: TextFields,
    /// The pattern of the route that takes these indices now.
    pub route: String,
    /// Its fields.
    pub asked: TextFields,
}

/// The fields that the routes of this process read for one forest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutedFields {
    /// Index patterns in the order of their routes, without those covered by an earlier one. Without fields where the
    /// texts go to another forest, or none are read.
    patterns: Vec<(String, Option<TextFields>)>,
}

impl RoutedFields {
    /// Adds the next pattern. `fields`: none where its texts go to another forest, or none are read.
    pub fn add(&mut self, pattern: &str, fields: Option<TextFields>) {
        if self.taker(pattern).is_none() {
            self.patterns.push((pattern.to_owned(), fields));
        }
    }

    /// The first pattern that takes all indices of this one.
    fn taker(&self, pattern: &str) -> Option<&(String, Option<TextFields>)> {
        self.patterns.iter().find(|(of, _)| fits(of, pattern))
    }

    /// The record of an empty forest once these routes fill it.
    pub fn recorded(&self) -> FieldRecord {
        FieldRecord::of(self.patterns.iter().filter_map(|(of, fields)| Some((of.clone(), fields.clone()?))).collect())
    }

    /// The record of a forest extended by the fields of these routes.
    ///
    /// # Errors
    /// The first pattern of which texts are known by other fields; or the forest is unfinished.
    pub fn recorded_in(&self, known: &FieldRecord) -> Result<FieldRecord, FieldsRefused> {
        if known.is_unfinished {
            return Err(FieldsRefused::Unfinished);
        }
        let other = |indices: &str, recorded: &TextFields, route: &str, asked: &TextFields| OtherFields {
            indices: indices.to_owned(),
            recorded: recorded.clone(),
            route: route.to_owned(),
            asked: asked.clone(),
        };
        for (pattern, recorded) in &known.patterns {
            // A route that is gone leaves its texts to one that takes a part of its indices.
            let takers = match self.taker(pattern) {
                Some(taker) => std::slice::from_ref(taker),
                None => self.patterns.as_slice(),
            };
            let of_it =
                |taker: &str| fits(taker, pattern) || meets(pattern, taker) && !known.patterns.contains_key(taker);
            let asked = takers.iter().filter_map(|(taker, fields)| Some((taker, fields.as_ref()?)));
            for (taker, asked) in asked.filter(|(taker, _)| of_it(taker)) {
                if asked != recorded {
                    return Err(FieldsRefused::Other(Box::new(other(pattern, recorded, taker, asked))));
                }
            }
        }
        let mut record = known.clone();
        record.patterns.extend(self.recorded().patterns);
        Ok(record)
    }
}
