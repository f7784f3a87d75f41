//! A docId service over a forest. The forest maps articles to docIds; this module keeps the attributes of articles and
//! the hottest article of each docId.

mod hottest;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use crate::forest::Root;
use crate::time::Millis;
use hottest::{Candidate, Hottest};

/// Bytes of all articles that are kept together.
const KEPT_BYTES: usize = 64 << 20;

/// Most bytes of an article.
pub(crate) const ARTICLE_BYTES: usize = 4 << 20;

/// The service, where it is wanted.
#[derive(Debug)]
pub(crate) struct DocIds {
    /// Index whose route places the articles; callers must be able to search it.
    pub index: String,
    // Held for a look at one docId; nothing waits under it.
    hottest: Mutex<Hottest>,
}

/// Why a text is no article. Quotes nothing of it: the log shows this.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArticleError {
    /// It cannot be read.
    #[error("json: not one JSON object that names each member once (line {line}, column {column})")]
    NotAnObject {
        /// From 1.
        line: usize,
        /// From 1; 0 if it is all of the text.
        column: usize,
    },
    /// It is too long.
    #[error("json: the article has {0} bytes and may have {ARTICLE_BYTES}")]
    TooLong(usize),
    /// Its heat cannot be compared.
    #[error("json: heat is not a number")]
    Heat,
}

/// Attributes of an article besides its text.
#[derive(Debug)]
pub(crate) struct Article {
    /// The article as sent.
    json: Box<RawValue>,
    /// Identity of the article: a hash of its `nid`, else of its `url`, else of all of it.
    identity: u64,
    heat: Option<f64>,
}

#[derive(Deserialize)]
struct ArticleMembers {
    nid: Option<Value>,
    url: Option<Value>,
    heat: Option<Value>,
}

impl Article {
    /// Reads one JSON object.
    ///
    /// # Errors
    /// When it is none, or too long, or its heat is no number.
    pub(crate) fn parse(text: &str) -> Result<Article, ArticleError> {
        if text.len() > ARTICLE_BYTES {
            return Err(ArticleError::TooLong(text.len()));
        }
        let not_an_object =
            |error: serde_json::Error| ArticleError::NotAnObject { line: error.line(), column: error.column() };
        // An array would do for a struct.
        if !text.trim_start().starts_with('{') {
            return Err(ArticleError::NotAnObject { line: 1, column: 1 });
        }
        let members: ArticleMembers = serde_json::from_str(text).map_err(not_an_object)?;
        let json = RawValue::from_string(text.to_owned()).map_err(not_an_object)?;
        let heat = given(members.heat).map(|heat| number(&heat).ok_or(ArticleError::Heat));
        let identity = match (given(members.nid), given(members.url)) {
            (Some(nid), _) => xxh3_64(format!("nid {nid}").as_bytes()),
            (None, Some(url)) => xxh3_64(format!("url {url}").as_bytes()),
            (None, None) => xxh3_64(text.as_bytes()),
        };
        Ok(Article { json, identity, heat: heat.transpose()? })
    }
}

/// Returns a member that is neither null nor empty.
fn given(member: Option<Value>) -> Option<Value> {
    member.filter(|value| !value.is_null() && value.as_str() != Some(""))
}

/// A finite number, also in quotes: callers of such a service write `"imageCount": "4"`.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number: &f64| number.is_finite())
}

impl DocIds {
    /// `window`: lifetime of a docId's hottest article after its last article; `None`: until it is evicted.
    pub(crate) fn new(index: &str, window: Option<Millis>) -> DocIds {
        DocIds { index: index.to_owned(), hottest: Mutex::new(Hottest::new(window, KEPT_BYTES)) }
    }

    /// Records an article with this docId at `now`. If it has a heat, returns the hottest known article, which may be
    /// this one.
    pub(crate) fn note(&self, docid: Root, article: Article, now: Millis) -> Option<Arc<RawValue>> {
        let mut hottest = self.hottest.lock();
        let Some(heat) = article.heat else {
            hottest.touch(docid, now);
            return None;
        };
        let candidate = Candidate { heat, identity: article.identity, json: article.json.into() };
        Some(hottest.offer(docid, candidate, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles() {
        let heat = |text: &str| Article::parse(text).map(|article| article.heat);
        assert_eq!(heat("{}"), Ok(None));
        assert_eq!(heat(r#"{"heat": 3}"#), Ok(Some(3.0)));
        assert_eq!(heat(r#"{"heat": " -2.5 "}"#), Ok(Some(-2.5)));
        for absent in ["null", "\"\""] {
            assert_eq!(heat(&format!(r#"{{"heat": {absent}}}"#)), Ok(None));
        }
        for wrong in ["true", "[1]", "\"hot\"", "\"NaN\"", "\"inf\""] {
            let error = heat(&format!(r#"{{"heat": {wrong}}}"#));
            assert_eq!(error, Err(ArticleError::Heat), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_article_is_not_quoted() {
        for (text, column) in [
            ("", 1),
            ("[\"secret\"]", 1),
            ("\"secret\"", 1),
            ("{\"url\": secret}", 9),
            ("{\"url\": \"secret\"} {}", 19),
            ("{\"url\": \"secret\", \"url\": 1}", 23),
        ] {
            let error = Article::parse(text).unwrap_err();
            assert_eq!(error, ArticleError::NotAnObject { line: 1, column });
            assert!(!error.to_string().contains("secret"));
        }
        let long = format!("{{\"content\": \"{}\"}}", "a".repeat(ARTICLE_BYTES));
        let error = Article::parse(&long).unwrap_err();
        assert_eq!(error, ArticleError::TooLong(long.len()));
    }

    #[test]
    fn an_article_is_known_by_its_nid_or_else_by_its_address() {
        let identity = |text: &str| Article::parse(text).unwrap().identity;
        let by_nid = identity(r#"{"nid": "7", "url": "http://a", "heat": 1}"#);
        assert_eq!(by_nid, identity(r#"{"heat": 2, "nid": "7", "url": "b"}"#));
        let by_url = identity(r#"{"url": "http://a", "heat": 1}"#);
        assert_eq!(by_url, identity(r#"{"nid": "", "url": "http://a"}"#));
        assert_ne!(by_nid, by_url);
        assert_ne!(by_url, identity(r#"{"nid": "http://a"}"#));
        assert_ne!(identity("{}"), identity(r#"{"heat": 1}"#));
    }
}
