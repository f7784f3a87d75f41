//! The documents to score on: read once, clustered as often as there are settings to try.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_executor::block_on;
use serde::Deserialize;

use spinney::bulk::{self, FieldNames, JsonError, Selected, Selection, SelectionError};
use spinney::config::{DEFAULT_PREFIX, Route};
use spinney::engine::{Engine, EngineError, Explanation, RequestContext, Unavailable};
use spinney::fingerprint::Fingerprint;
use spinney::forest::Root;
use spinney::hash::HashKey;
use spinney::text::{Fields, Scratch};
use spinney::time::Millis;

use super::titles::{SHORT, Title};

/// Characters of a text's beginning.
const BEGINNING: usize = 90;

/// Number of a document in the order of its file.
pub(super) type Document = u32;

/// Documents with their ids and what a report says of them.
#[derive(Debug)]
pub struct Documents {
    /// One JSON object a line.
    body: Bytes,
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

/// The clusters that a method makes of the documents.
#[derive(Debug)]
pub struct Clustering {
    /// The root of each document.
    pub(super) roots: Vec<u64>,
    /// Nodes of the forest at the end.
    pub(super) nodes: u64,
    /// How the documents were placed; those without usable text are not among them.
    pub(super) explanations: HashMap<Document, Explanation>,
}

/// Why documents cannot be clustered.
#[derive(Debug, thiserror::Error)]
pub enum ClusteringError {
    /// The settings of the route cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The forest failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stamped document is not JSON any more: its source was not JSON throughout.
    #[error("document `{id}` cannot be read")]
    Unreadable {
        /// Its id.
        id: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A document came back without a root.
    #[error("document `{id}` could not be stamped")]
    Unstamped {
        /// Its id.
        id: String,
    },
}

/// What is read of a stamped document.
#[derive(Deserialize)]
struct StampedRoot {
    cluster_root: Option<String>,
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
            body: Bytes::new(),
            ids: Vec::new(),
            beginnings: Vec::new(),
            titles: Vec::new(),
            short: Vec::new(),
            by_id: HashMap::new(),
        };
        let mut scratch = Scratch::new();
        for (line, source) in (1..).zip(body.split(|&byte| byte == b'\n')) {
            if source.trim_ascii().is_empty() {
                continue;
            }
            let document = bulk::scan(source, &selection).map_err(|source| DocumentsError::Json { line, source })?;
            let id = document.first(Selected::Id);
            let id =
                id.ok_or_else(|| DocumentsError::NoId { line, field: route.id_field.clone().unwrap_or_default() })?;
            let texts = document.values.iter().filter(|value| matches!(value.selected, Selected::Text(_)));
            let texts: Vec<&str> = texts.map(|value| &*value.text).collect();
            let title: Vec<&str> = document.first(Selected::Title).into_iter().collect();
            let number = documents.ids.len();
            let number = Document::try_from(number).map_err(|_| DocumentsError::TooMany)?;
            if documents.by_id.insert(id.to_owned(), number).is_some() {
                let id = id.to_owned();
                return Err(DocumentsError::Duplicate { line, id });
            }
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
        documents.body = body.into();
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

    /// Stamps all documents in their order, as `spinney stamp` would. `threads`: 0 means all cores.
    ///
    /// # Errors
    /// When the settings of the route cannot be used, or a document cannot be stamped.
    pub fn cluster(&self, route: &Route, threads: usize) -> Result<Clustering, ClusteringError> {
        let engine = Engine::new(std::slice::from_ref(route), DEFAULT_PREFIX, threads, HashKey::FIXED)?;
        let engine = Arc::new(engine.with_explanations());
        let context = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: 0, caller: None };
        let stamped = block_on(engine.stamp_lines(self.body.clone(), context))?;
        let explanations = stamped.explanations().iter().filter_map(|explanation| {
            let document = Document::try_from(explanation.item).ok()?;
            Some((document, explanation.clone()))
        });
        let explanations = explanations.collect();
        let (splice, _) = stamped.into_parts();
        let mut out = Vec::with_capacity(splice.len(self.body.len()));
        splice.write_to(&self.body, &mut out);
        let lines = out.split(|&byte| byte == b'\n');
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        // As stored documents are stamped anew.
        let words = block_on(engine.forests().all_overrides())?;
        let group = |root: u64| {
            let root = Root(Fingerprint(root));
            words.iter().fold(root, |root, (_, words)| words.group(root)).0.0
        };
        let roots = lines.zip(&self.ids).map(|(line, id)| Ok(group(root_of(line, id)?)));
        let forests = block_on(engine.forests().stats())?;
        Ok(Clustering {
            roots: roots.collect::<Result<_, ClusteringError>>()?,
            nodes: forests.iter().map(|(_, stats)| stats.nodes as u64).sum(),
            explanations,
        })
    }
}

/// The root that the document with this id is stamped with.
fn root_of(line: &[u8], id: &str) -> Result<u64, ClusteringError> {
    let stamped: StampedRoot =
        serde_json::from_slice(line).map_err(|source| ClusteringError::Unreadable { id: id.to_owned(), source })?;
    let root = stamped.cluster_root;
    let root = root.and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    root.ok_or_else(|| ClusteringError::Unstamped { id: id.to_owned() })
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
        assert_eq!(documents.cluster(&route(), 1).unwrap().roots.len(), 2);
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
