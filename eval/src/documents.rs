//! The documents to score on: read once, clustered as often as there are settings to try.

use std::collections::HashMap;
use std::ops::Range;

use spinney::bulk::{self, FieldNames, JsonError, ParsedDocument, Selected, Selection, SelectionError};
use spinney::config::{DEFAULT_PREFIX, Route};
use spinney::text::{Fields, Scratch};

use super::title::{SHORT, Title};

/// Characters of a text's beginning.
const BEGINNING: usize = 90;

/// Number of a document in the order of its file.
pub(super) type Document = u32;

/// Documents with their ids and what a report says of them.
#[derive(Debug)]
pub struct Documents {
    /// One JSON object a line.
    body: Vec<u8>,
    /// Where each document stands in the body.
    lines: Vec<Range<usize>>,
    /// The fields that are read.
    selection: Selection,
    ids: Vec<String>,
    beginnings: Vec<String>,
    titles: Vec<Title>,
    /// Whether the text, without the title, is short.
    short: Vec<bool>,
    by_id: HashMap<String, Document>,
}

/// What is wrong with a file of documents.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// The fields of the route cannot be read.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// A line cannot be read.
    #[error("line {line} is not a document")]
    Json {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: JsonError,
    },
    /// A document has no id.
    #[error("line {line} has no field `{field}`: name the one that holds the id with --id-field")]
    NoId {
        /// The line, counted from 1.
        line: usize,
        /// Where the id should be.
        field: String,
    },
    /// Two documents have the same id.
    #[error("line {line}: another document has the id `{id}` already")]
    Duplicate {
        /// The line of the second one, counted from 1.
        line: usize,
        /// The id.
        id: String,
    },
    /// There are more than numbers for them.
    #[error("there are more than {} documents", Document::MAX)]
    TooMany,
    /// There is nothing to score on.
    #[error("there are no documents")]
    Empty,
}

/// The fields of one document that the methods compare, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFields {
    /// The title; empty where there is none.
    pub title: String,
    /// The text, its parts one a line.
    pub text: String,
}

impl Documents {
    /// Reads documents, one JSON object a line; blank lines do not count. `route` says in which fields text, title and
    /// id are.
    ///
    /// # Errors
    /// When a line is not a JSON object, an id is missing or occurs twice, or there is no document.
    pub fn parse(body: Vec<u8>, route: &Route) -> Result<Documents, DocumentsError> {
        let text: Vec<&str> = route.text_fields.iter().map(String::as_str).collect();
        let fields = FieldNames {
            text: &text,
            title: route.title_field.as_deref(),
            id: route.id_field.as_deref(),
            ..FieldNames::default()
        };
        let selection = Selection::new(&fields, DEFAULT_PREFIX)?;
        let mut documents = Documents {
            body: Vec::new(),
            lines: Vec::new(),
            selection,
            ids: Vec::new(),
            beginnings: Vec::new(),
            titles: Vec::new(),
            short: Vec::new(),
            by_id: HashMap::new(),
        };
        let mut scratch = Scratch::new();
        let mut start = 0;
        for (line, source) in (1..).zip(body.split(|&byte| byte == b'\n')) {
            let range = start..start + source.len();
            start = range.end + 1;
            if source.trim_ascii().is_empty() {
                continue;
            }
            let document =
                bulk::scan(source, &documents.selection).map_err(|source| DocumentsError::Json { line, source })?;
            let id = document.first(Selected::Id);
            let id =
                id.ok_or_else(|| DocumentsError::NoId { line, field: route.id_field.clone().unwrap_or_default() })?;
            let texts: Vec<&str> = texts_of(&document).collect();
            let title: Vec<&str> = document.first(Selected::Title).into_iter().collect();
            let number = documents.ids.len();
            let number = Document::try_from(number).map_err(|_| DocumentsError::TooMany)?;
            if documents.by_id.insert(id.to_owned(), number).is_some() {
                let id = id.to_owned();
                return Err(DocumentsError::Duplicate { line, id });
            }
            documents.lines.push(range);
            documents.ids.push(id.to_owned());
            documents.beginnings.push(beginning(&[title.as_slice(), &texts].concat()));
            documents.titles.push(Title::of(cleaned(&mut scratch, &title)));
            let letters = cleaned(&mut scratch, &texts).chars();
            let letters = letters.filter(|character| character.is_alphanumeric());
            documents.short.push(letters.take(SHORT).count() < SHORT);
        }
        if documents.ids.is_empty() {
            return Err(DocumentsError::Empty);
        }
        documents.body = body;
        Ok(documents)
    }

    /// How many there are; at least one.
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    /// The document with this id.
    pub(super) fn find(&self, id: &str) -> Option<Document> {
        self.by_id.get(id).copied()
    }

    pub(super) fn id(&self, document: Document) -> &str {
        self.ids.get(document as usize).map_or("", String::as_str)
    }

    /// The first words of title and text, on one line.
    pub(super) fn beginning(&self, document: Document) -> &str {
        self.beginnings.get(document as usize).map_or("", String::as_str)
    }

    pub(super) fn title(&self, document: Document) -> Option<&Title> {
        self.titles.get(document as usize)
    }

    /// Whether the text, without the title, has fewer than 200 letters.
    pub(super) fn is_short(&self, document: Document) -> bool {
        self.short.get(document as usize) == Some(&true)
    }

    /// The line of a document, without its end.
    pub(super) fn line(&self, document: Document) -> &[u8] {
        let range = self.lines.get(document as usize).cloned();
        range.and_then(|range| self.body.get(range)).unwrap_or_default()
    }

    /// The fields of the document with this id, as they are written; `None` where there is no such document.
    pub fn fields_of(&self, id: &str) -> Option<DocumentFields> {
        self.find(id).map(|document| self.fields(document))
    }

    /// The fields of a document.
    pub(super) fn fields(&self, document: Document) -> DocumentFields {
        let owned = |fields: &Fields<'_>| DocumentFields {
            title: fields.title.unwrap_or_default().to_owned(),
            text: fields.body.join("\n"),
        };
        self.read(document, owned).unwrap_or_default()
    }

    /// What `read` makes of the fields of a document, as the engine reads them. They are read anew from its line.
    pub(super) fn read<T>(&self, document: Document, read: impl FnOnce(&Fields<'_>) -> T) -> Option<T> {
        // Every line has been read once without an error.
        let document = bulk::scan(self.line(document), &self.selection).ok()?;
        let texts: Vec<&str> = texts_of(&document).collect();
        Some(read(&Fields { title: document.first(Selected::Title), body: &texts }))
    }
}

/// The parts of the text of a document.
fn texts_of<'d>(document: &'d ParsedDocument<'_>) -> impl Iterator<Item = &'d str> {
    let texts = document.values.iter().filter(|value| matches!(value.selected, Selected::Text(_)));
    texts.map(|value| &*value.text)
}

/// The text of one field; empty if it has no letter.
fn cleaned<'s>(scratch: &'s mut Scratch, parts: &[&str]) -> &'s str {
    let fields = Fields { title: None, body: parts };
    scratch.read(&fields).map_or("", |text| text.cleaned())
}

fn beginning(parts: &[&str]) -> String {
    let words = parts.iter().flat_map(|part| part.split_whitespace());
    let mut out = String::new();
    let mut left = BEGINNING;
    for word in words {
        if !out.is_empty() {
            out.push(' ');
            left = left.saturating_sub(1);
        }
        // A Chinese text is one word.
        let cut = word.char_indices().nth(left).map_or(word.len(), |(at, _)| at);
        out.extend(word.get(..cut));
        left = left.saturating_sub(word.get(..cut).map_or(0, |cut| cut.chars().count()));
        if left == 0 {
            out.push('…');
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney::config::{Clock, RawRoute};

    fn route() -> Route {
        let options = RawRoute::default().any_index().or_clock(Clock::None);
        let mut route = options.validate("test").unwrap();
        route.title_field = Some("title".into());
        route.id_field = Some("id".into());
        route
    }

    fn parse(body: &str) -> Result<Documents, DocumentsError> {
        Documents::parse(body.as_bytes().to_vec(), &route())
    }

    #[test]
    fn documents_have_numbers_in_the_order_of_the_file() {
        let body =
            "{\"id\":\"a\",\"title\":\"One\",\"content\":\"two\\nthree\"}\n\n{\"id\":7,\"content\":[\"x\",\"y\"]}\n";
        let documents = parse(body).unwrap();
        assert_eq!(documents.count(), 2);
        assert_eq!(documents.find("7"), Some(1));
        assert_eq!(documents.id(0), "a");
        assert_eq!(documents.beginning(0), "One two three");
        assert_eq!(documents.beginning(1), "x y");
        assert_eq!(documents.cluster(&route(), 1, &|_| {}).unwrap().roots.len(), 2);
        let fields = |title: &str, text: &str| Some(DocumentFields { title: title.into(), text: text.into() });
        assert_eq!(documents.fields_of("a"), fields("One", "two\nthree"));
        assert_eq!(documents.fields_of("7"), fields("", "x\ny"));
        assert_eq!(documents.fields_of("8"), None);
    }

    #[test]
    fn a_short_text_is_counted_without_title_and_markup() {
        let body = |letters: usize| "ab ".repeat(letters / 2);
        let source = format!(
            "{{\"id\":1,\"content\":\"{}\"}}\n{{\"id\":2,\"title\":\"{}\",\"content\":\"<p class='wide'>{}</p>\"}}",
            body(200),
            body(300),
            body(198),
        );
        let documents = parse(&source).unwrap();
        assert_eq!([0, 1, 2].map(|at| documents.is_short(at)), [false, true, false]);
    }

    #[test]
    fn a_beginning_is_cut_between_characters() {
        assert_eq!(beginning(&["新".repeat(200).as_str()]), "新".repeat(BEGINNING) + "…");
        assert_eq!(beginning(&["a b"]), "a b");
        assert!(beginning(&["word "].repeat(100)).chars().count() <= BEGINNING + 1);
    }

    #[test]
    fn wrong_documents_are_named_by_their_line() {
        for (body, reason) in [
            ("", "there are no documents"),
            ("{\"id\":1}\n[]\n", "line 2 is not a document"),
            ("{\"content\":\"x\"}", "line 1 has no field `id`: "),
            ("{\"id\":1}\n{\"id\":\"1\"}", "line 2: another document has the id `1` already"),
        ] {
            let error = parse(body).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
