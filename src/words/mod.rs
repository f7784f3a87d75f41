//! What people say about groups, said and taken back in their name, for the own endpoints and the page. The law is docs/merges.md.
//!
//! ```text
//! roots, ids --search, in the caller's name--> documents --engine--> texts, what is answered for them
//!                                                 |
//!                                                 +-- may the caller write there? --> the forest is told; adopt/restamp.rs wakes
//! ```
//!
//! Who may write an index may say something about its groups: the cluster is asked, in a way that changes nothing.

mod error;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::adopt::shown;
use crate::bulk::StampNames;
use crate::cluster::operator::in_path;
use crate::engine::WordError;
use crate::fingerprint::Fingerprint;
use crate::forest::words::{Looked, Word, Words};
use crate::forest::{Late, Root};
use crate::http::ProxyError;
use crate::state::AppState;

pub(crate) use error::SayError;

/// Groups or documents that one word may name.
pub(crate) const MOST_NAMED: usize = 1_000;

/// The servers show no more in one answer.
const MOST_HITS: usize = 10_000;

/// The most bytes of an answer.
const ANSWER_BYTES: usize = 64 << 20;

/// A document that nobody has: an update of it asks for the right to write, and changes nothing.
const NOBODYS_ID: &str = "spinney-may-this-be-written";

/// Somebody who says something about the groups of an index.
pub(crate) struct Speaker<'a> {
    state: &'a AppState,
    /// Of the caller's request: the cluster finds the credentials in them.
    headers: &'a HeaderMap,
    raw_index: &'a str,
    index: String,
    names: StampNames,
    fields: Vec<String>,
}

/// What came of saying something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    /// The number of the word; none if it was so before.
    pub(crate) number: Option<u64>,
    /// The root that is answered since.
    pub(crate) root: Root,
}

/// A document as the caller sees it.
struct Seen {
    index: String,
    shown: Option<Root>,
    source: Bytes,
}

#[derive(Deserialize)]
struct Answer<'a> {
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    #[serde(borrow)]
    hits: Hits<'a>,
}

#[derive(Deserialize)]
struct Shards {
    total: u64,
    failed: u64,
}

#[derive(Deserialize)]
struct Hits<'a> {
    #[serde(borrow)]
    hits: Vec<Hit<'a>>,
}

#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
}

impl<'a> Speaker<'a> {
    /// `raw_index`: the index as it stands in the caller's path.
    ///
    /// # Errors
    /// When it is not the name of one, or no route stamps it.
    pub(crate) fn new(
        state: &'a AppState,
        headers: &'a HeaderMap,
        raw_index: &'a str,
        index: String,
    ) -> Result<Speaker<'a>, SayError> {
        let names = StampNames::new(state.engine.prefix());
        let names = names.map_err(|error| ProxyError::BadRequest(error.to_string()))?;
        let mut fields = state.engine.fields_of(&index);
        fields.push(names.root().to_owned());
        Ok(Speaker {
            state,
            headers,
            raw_index,
            index,
            names,
            fields,
        })
    }

    /// These groups are one, under the root of the first.
    ///
    /// # Errors
    /// When the caller sees no document of one of them or may not write, or a group has no text that could be compared.
    pub(crate) async fn merge(&self, roots: &[Root]) -> Result<Said, SayError> {
        let (Some(winner), losers @ [_, ..]) = (roots.first(), roots.get(1..).unwrap_or_default())
        else {
            return Err(SayError::bad(
                "roots: name the root that is to stay, and at least one other",
            ));
        };
        let words = self.words().await?;
        let all: BTreeSet<Root> = roots
            .iter()
            .flat_map(|&root| words.one_with(root))
            .collect();
        let found = self.documents_of(all).await?;
        for &root in roots {
            let of_group = |seen: &&Seen| {
                let shown = seen.shown.map(|shown| words.group(shown));
                shown == Some(words.group(root))
            };
            let Some(seen) = found.iter().find(of_group) else {
                return Err(self.no_group(root));
            };
            if self.look(seen).await?.is_none() {
                let reason = format!(
                    "roots: {root} is no group of texts but one document without any, which is like no other"
                );
                return Err(SayError::bad(&reason));
            }
        }
        self.may_write(&found).await?;
        let root = words.group(*winner);
        let losers: BTreeSet<Root> = losers.iter().copied().collect();
        let losers: Vec<Root> = losers
            .into_iter()
            .filter(|&l| words.group(l) != root)
            .collect();
        if losers.is_empty() {
            return Ok(Said { number: None, root });
        }
        let winner = *winner;
        // Whoever changes them would have to copy all of them for this reader.
        drop(words);
        self.say(Word::Merge { winner, losers }, Vec::new(), root)
            .await
    }

    /// These documents, and all that have the same texts, are a group of their own.
    ///
    /// # Errors
    /// When the caller does not see one of them or may not write, or one has no text.
    pub(crate) async fn split(&self, ids: &[String]) -> Result<Said, SayError> {
        // One that nothing has.
        let root = Root(Fingerprint(self.state.unique()));
        self.pin_to(ids, root).await
    }

    /// These documents, and all that have the same texts, belong to that group.
    ///
    /// # Errors
    /// As [`Speaker::split`], and when the caller sees no document of the group.
    pub(crate) async fn pin(&self, ids: &[String], root: Root) -> Result<Said, SayError> {
        let group = self.words().await?.one_with(root);
        let group: BTreeSet<Root> = group.into_iter().collect();
        if self.documents_of(group).await?.is_empty() {
            return Err(self.no_group(root));
        }
        self.pin_to(ids, root).await
    }

    async fn pin_to(&self, ids: &[String], root: Root) -> Result<Said, SayError> {
        let ids: BTreeSet<&String> = ids.iter().collect();
        let query = json!({"ids": {"values": ids}});
        let (found, found_ids) = self.search(query, MOST_NAMED, false).await?;
        if let Some(missing) = ids.into_iter().find(|&id| !found_ids.contains(id)) {
            let index = &self.index;
            let reason =
                format!("there is no document [{missing}] in [{index}], as searches see it");
            return Err(ProxyError::NotFound(reason).into());
        }
        let (mut texts, mut shown) = (BTreeSet::new(), BTreeSet::new());
        for seen in &found {
            let Some(looked) = self.look(seen).await? else {
                return Err(SayError::bad(
                    "ids: a document without a text that could be compared is alone as it is",
                ));
            };
            texts.insert(looked.text);
            shown.extend(seen.shown.into_iter().chain(looked.answer));
        }
        self.may_write(&found).await?;
        let texts: Vec<Fingerprint> = texts.into_iter().collect();
        let group = self.words().await?.group(root);
        let shown = shown.into_iter().collect();
        self.say(Word::Pin { texts, root }, shown, group).await
    }

    /// What was said about the groups of the forest of the index.
    ///
    /// # Errors
    /// When the caller may not search the index.
    pub(crate) async fn list(&self) -> Result<(String, Arc<Words>), SayError> {
        self.search(json!({"match_none": {}}), 0, false).await?;
        self.state
            .engine
            .words(&self.index)
            .await
            .map_err(|error| self.failed(error))
    }

    /// Groups of the forest of the index that may be one.
    ///
    /// # Errors
    /// When the caller may not search the index.
    pub(crate) async fn may_be_one(&self) -> Result<(String, Late), SayError> {
        self.search(json!({"match_none": {}}), 0, false).await?;
        let late = self.state.engine.may_be_one(&self.index).await;
        late.map_err(|error| self.failed(error))
    }

    /// Takes a word back. Answers what it was.
    ///
    /// # Errors
    /// When there is none of this number, or the caller may not write.
    pub(crate) async fn take_back(&self, number: u64) -> Result<Word, SayError> {
        let (found, _) = self.search(json!({"match_all": {}}), 1, false).await?;
        self.may_write(&found).await?;
        let taken = self.state.engine.take_back(&self.index, number).await;
        let word = taken.map_err(|error| self.failed(error))?;
        self.state.restamping.wake();
        word.ok_or_else(|| {
            let reason = format!(
                "there is no word {number} about the groups of [{}]",
                self.index
            );
            ProxyError::NotFound(reason).into()
        })
    }

    async fn say(&self, word: Word, shown: Vec<Root>, root: Root) -> Result<Said, SayError> {
        let said = self.state.engine.say(&self.index, word, shown).await;
        let number = said.map_err(|error| self.failed(error))?;
        if number.is_none() {
            return Err(SayError::bad(
                "the forest remembers as many words as it can (65,536, and 16 MiB with what stored documents have to follow): take some \
                 back, or come again when _words shows that fewer wait",
            ));
        }
        self.state.restamping.wake();
        Ok(Said { number, root })
    }

    async fn words(&self) -> Result<Arc<Words>, SayError> {
        let words = self.state.engine.words(&self.index).await;
        words
            .map(|(_, words)| words)
            .map_err(|error| self.failed(error))
    }

    async fn look(&self, seen: &Seen) -> Result<Option<Looked>, SayError> {
        let context = self.state.request_context(0);
        let source = seen.source.clone();
        let looked = self.state.engine.look(&self.index, source, context).await;
        looked.map_err(|error| self.failed(error))
    }

    /// One document of each of these groups of which the caller sees any.
    async fn documents_of(&self, roots: BTreeSet<Root>) -> Result<Vec<Seen>, SayError> {
        let keys: Vec<i64> = roots.iter().map(|root| root.0.0.cast_signed()).collect();
        let query = json!({"terms": {self.names.key(): keys}});
        Ok(self
            .search(query, roots.len().min(MOST_HITS), true)
            .await?
            .0)
    }

    /// Documents as the caller sees them, and their ids.
    async fn search(
        &self,
        query: Value,
        size: usize,
        one_of_each: bool,
    ) -> Result<(Vec<Seen>, BTreeSet<String>), SayError> {
        let mut body = json!({
            "size": size,
            "track_total_hits": false,
            "query": query,
            "_source": self.fields,
            "timeout": "60s",
        });
        if one_of_each {
            body["collapse"] = json!({"field": self.names.key()});
        }
        let path = format!(
            "/{}/_search?allow_partial_search_results=false",
            self.raw_index
        );
        let answer = self.ask(&path, &body).await?;
        if !answer.0.is_success() {
            return Err(SayError::Refused(Box::new(answer.1)));
        }
        let bytes = answer.1.body();
        let not_understood = |_| ProxyError::NotTheCluster("POST /INDEX/_search");
        let said: Answer<'_> = serde_json::from_slice(bytes).map_err(not_understood)?;
        if said.timed_out || said.shards.failed > 0 {
            let reason = "the cluster searched only a part of the index: retry later";
            return Err(ProxyError::PartialSearch(reason.into()).into());
        }
        // OpenSearch can be configured to search nothing instead of refusing; any index has a shard.
        if said.shards.total == 0 {
            return Err(ProxyError::NotShown(self.index.clone()).into());
        }
        let ids = said.hits.hits.iter().map(|hit| hit.id.clone()).collect();
        let seen = said.hits.hits.into_iter().map(|hit| {
            let source = hit.source.map_or_else(
                || Bytes::from_static(b"{}"),
                |source| bytes.slice_ref(source.get().as_bytes()),
            );
            Seen {
                index: hit.index,
                shown: shown(&source, self.names.root()),
                source,
            }
        });
        Ok((seen.collect(), ids))
    }

    /// Whether the caller may write the indices of these documents; the index of the path where there are none. The cluster is
    /// asked for an update, of nothing, of a document that is not there: it says so to those who may write, and refuses the others
    /// before it looks.
    async fn may_write(&self, documents: &[Seen]) -> Result<(), SayError> {
        let mut indices: BTreeSet<String> =
            documents.iter().map(|seen| in_path(&seen.index)).collect();
        if indices.is_empty() {
            indices.insert(self.raw_index.to_owned());
        }
        for index in indices {
            // Where documents must have a routing, this one has.
            let path = format!("/{index}/_update/{NOBODYS_ID}?routing={NOBODYS_ID}");
            let (status, answer) = self.ask(&path, &json!({"doc": {}})).await?;
            let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            let kind = said.pointer("/error/type").and_then(Value::as_str);
            let is_missing = kind == Some("document_missing_exception");
            if status == StatusCode::NOT_FOUND && is_missing {
                continue;
            }
            // Somebody has a document of this name.
            if status.is_success() && said["result"] == "noop" {
                continue;
            }
            return Err(match status.is_success() {
                true => ProxyError::NotTheCluster("POST /INDEX/_update/ID").into(),
                false => SayError::Refused(Box::new(answer)),
            });
        }
        Ok(())
    }

    async fn ask(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, hyper::Response<Bytes>), SayError> {
        let cluster = &self.state.cluster;
        let asked = cluster.ask_as(self.headers, Method::POST, path, Some(body), ANSWER_BYTES);
        let answer = asked.await.map_err(ProxyError::from)?;
        Ok((answer.status(), answer))
    }

    fn no_group(&self, root: Root) -> SayError {
        let reason = format!(
            "there is no document of the group [{root}] in [{}]",
            self.index
        );
        ProxyError::NotFound(reason).into()
    }

    fn failed(&self, error: WordError) -> SayError {
        match error {
            WordError::NoRoute(_) => ProxyError::NoRoute(error.to_string()).into(),
            WordError::TwoForests(_) => ProxyError::BadRequest(error.to_string()).into(),
            WordError::Unavailable(reason) => self.state.engine_failed(&reason).into(),
        }
    }
}
