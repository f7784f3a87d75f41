//! The documents to score on: read once, stamped as often as there are settings to try.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::bulk::{self, FieldNames, Selected, Selection};
use crate::config::Route;
use crate::engine::{Engine, Meeting, RequestContext};
use crate::time::Millis;

/// Characters of a text's beginning.
const BEGINNING: usize = 90;
/// Prefix of the stamp that is read back here; nobody else sees it.
const PREFIX: &str = "cluster_";

/// Number of a document in the order of its file.
pub type Document = u32;

pub struct Documents {
    body: Vec<u8>,
    ids: Vec<String>,
    beginnings: Vec<String>,
    by_id: HashMap<String, Document>,
}

/// What a method makes of the documents.
pub struct Stamped {
    /// The root of each document.
    pub roots: Vec<u64>,
    /// Nodes of the forest at the end.
    pub nodes: u64,
    /// What the documents met; those without usable text are not among them.
    pub meetings: HashMap<Document, Meeting>,
}

#[derive(Deserialize)]
struct Stamp {
    cluster_root: Option<String>,
}

impl Documents {
    /// Reads documents, one JSON object a line; blank lines do not count. `route` says in which fields text, title and
    /// id stand.
    ///
    /// # Errors
    /// When the file cannot be read, a line is no JSON object, or an id is missing or there twice.
    pub fn read(path: &Path, route: &Route) -> anyhow::Result<Documents> {
        let body =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Documents::parse(body, route).with_context(|| path.display().to_string())
    }

    fn parse(body: Vec<u8>, route: &Route) -> anyhow::Result<Documents> {
        let text: Vec<&str> = route.text_fields.iter().map(String::as_str).collect();
        let fields = FieldNames {
            text: &text,
            title: route.title_field.as_deref(),
            id: route.id_field.as_deref(),
            ..FieldNames::default()
        };
        let selection = Selection::new(&fields, PREFIX)?;
        let mut documents = Documents {
            body: Vec::new(),
            ids: Vec::new(),
            beginnings: Vec::new(),
            by_id: HashMap::new(),
        };
        for (at, line) in (1..).zip(body.split(|&byte| byte == b'\n')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let document = bulk::scan(line, &selection).with_context(|| format!("line {at}"))?;
            let Some(id) = document.first(Selected::Id) else {
                let field = route.id_field.as_deref().unwrap_or_default();
                bail!(
                    "line {at} has no field `{field}`: name the one that holds the id with --id-field"
                );
            };
            let texts = document
                .values
                .iter()
                .filter(|value| matches!(value.selected, Selected::Text(_)));
            let parts = document.first(Selected::Title).into_iter();
            let parts: Vec<&str> = parts.chain(texts.map(|value| &*value.text)).collect();
            let number = u32::try_from(documents.ids.len()).context("too many documents")?;
            if documents.by_id.insert(id.to_owned(), number).is_some() {
                bail!("line {at}: another document has the id `{id}` already");
            }
            documents.ids.push(id.to_owned());
            documents.beginnings.push(beginning(&parts));
        }
        if documents.ids.is_empty() {
            bail!("there is no document");
        }
        documents.body = body;
        Ok(documents)
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn find(&self, id: &str) -> Option<Document> {
        self.by_id.get(id).copied()
    }

    pub fn id(&self, document: Document) -> &str {
        self.ids.get(document as usize).map_or("", String::as_str)
    }

    /// The first words of title and text, on one line.
    pub fn beginning(&self, document: Document) -> &str {
        self.beginnings
            .get(document as usize)
            .map_or("", String::as_str)
    }

    /// Stamps all documents in their order, as `spinney stamp` would.
    ///
    /// # Errors
    /// When the settings of the route cannot be used.
    pub fn stamp(&self, route: &Route, threads: usize) -> anyhow::Result<Stamped> {
        let engine = Engine::new(std::slice::from_ref(route), PREFIX, threads)?.telling_meetings();
        let call = RequestContext {
            now: Millis(0),
            latest: Millis(i64::MAX),
            unique: 0,
        };
        let stamped = engine.stamp_lines(&self.body, call);
        let meetings = stamped.meetings().iter();
        let meetings =
            meetings.filter_map(|met| Some((u32::try_from(met.item).ok()?, met.clone())));
        let meetings = meetings.collect();
        let (splice, _) = stamped.into_parts();
        let mut out = Vec::with_capacity(splice.len(self.body.len()));
        splice.write_to(&self.body, &mut out);
        let lines = out.split(|&byte| byte == b'\n');
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        let mut roots = Vec::with_capacity(self.ids.len());
        for (line, id) in lines.zip(&self.ids) {
            let stamp: Stamp = serde_json::from_slice(line)
                .with_context(|| format!("document `{id}` cannot be read"))?;
            let root = stamp
                .cluster_root
                .and_then(|hex| u64::from_str_radix(&hex, 16).ok());
            roots.push(root.with_context(|| format!("document `{id}` could not be stamped"))?);
        }
        let nodes = engine.forests().map(|(_, stats)| stats.nodes as u64).sum();
        Ok(Stamped {
            roots,
            nodes,
            meetings,
        })
    }
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
        let cut = word
            .char_indices()
            .nth(left)
            .map_or(word.len(), |(at, _)| at);
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
    use crate::config::RouteOptions;

    fn route() -> Route {
        let options = RouteOptions::default().everything().or_clock("none");
        let mut route = options.check("test").unwrap();
        route.title_field = Some("title".into());
        route.id_field = Some("id".into());
        route
    }

    fn parse(body: &str) -> anyhow::Result<Documents> {
        Documents::parse(body.as_bytes().to_vec(), &route())
    }

    #[test]
    fn documents_have_numbers_in_the_order_of_the_file() {
        let body = "{\"id\":\"a\",\"title\":\"One\",\"content\":\"two\\nthree\"}\n\n{\"id\":7,\"content\":[\"x\",\"y\"]}\n";
        let documents = parse(body).unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents.find("7"), Some(1));
        assert_eq!(documents.id(0), "a");
        assert_eq!(documents.beginning(0), "One two three");
        assert_eq!(documents.beginning(1), "x y");
        assert_eq!(documents.stamp(&route(), 1).unwrap().roots.len(), 2);
    }

    #[test]
    fn a_beginning_is_cut_between_characters() {
        assert_eq!(
            beginning(&["新".repeat(200).as_str()]),
            "新".repeat(BEGINNING) + "…"
        );
        assert_eq!(beginning(&["a b"]), "a b");
        assert!(beginning(&["word "].repeat(100)).chars().count() <= BEGINNING + 1);
    }

    #[test]
    fn wrong_documents_are_named_by_their_line() {
        for (body, reason) in [
            ("", "no document"),
            ("{\"id\":1}\n[]\n", "line 2"),
            ("{\"content\":\"x\"}", "no field `id`"),
            ("{\"id\":1}\n{\"id\":\"1\"}", "line 2: another document"),
        ] {
            let error = format!("{:#}", parse(body).err().unwrap());
            assert!(error.contains(reason), "{error}");
        }
    }
}
