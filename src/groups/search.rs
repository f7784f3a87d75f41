//! Searches in the caller's name.

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::error::ReadError;
use super::permits::{ReaderPermit, SMALL};
use super::query::SearchQuery;
use crate::cluster::Client;
use crate::cluster::search::{SearchFault, SearchResponse, Stored};
use crate::engine::{FieldUse, ReaderFields};
use crate::time::Millis;

/// Most bytes of a response.
const ANSWER_BYTES: usize = 64 << 20;

/// Time limit of a search, after which the servers return a partial result.
const TIMEOUT: &str = "60s";

/// A field that no document has: a source without it is whole, but written by the server.
pub(crate) const NO_FIELD: &str = "_spinney_none";

/// A response to a search of groups.
pub(super) type SearchAnswer<A = Value> = SearchResponse<SearchHit, A>;

/// One hit.
#[derive(Debug, Deserialize)]
pub(super) struct SearchHit {
    #[serde(rename = "_index")]
    pub index: String,
    /// Empty if no stored fields were requested.
    #[serde(rename = "_id", default)]
    pub id: String,
    #[serde(rename = "_score")]
    pub score: Option<f64>,
    /// Null if it was not requested.
    #[serde(rename = "_source", default, deserialize_with = "stored")]
    pub source: Value,
    #[serde(default)]
    pub sort: Vec<Value>,
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// Names of the queries that it matches, if any has one.
    #[serde(default)]
    pub matched_queries: Vec<String>,
}

/// A date, asked for as [`SearchHit::time`] reads it, whatever formats its mapping has.
pub(super) fn in_millis(field: &str) -> Value {
    json!({"field": field, "format": "epoch_millis"})
}

impl SearchHit {
    /// The earliest of the times that were asked for by [`in_millis`]. `None`: there is none, or the field is no date:
    /// then its numbers are written otherwise.
    pub(super) fn time(&self, field: &str) -> Option<Millis> {
        let times = self.fields.get(field)?.as_array()?;
        let millis = times.iter().filter_map(|time| {
            let text = time.as_str()?;
            // Behind the point of a `date_nanos` are parts of a millisecond.
            text.split_once('.').map_or(text, |(whole, _)| whole).parse().ok().map(Millis)
        });
        millis.min()
    }

    /// A requested field as a number.
    pub(super) fn number(&self, field: &str) -> Option<i64> {
        self.fields.get(field)?.as_array()?.first()?.as_i64()
    }
}

/// An index and its caller.
pub(super) struct SearchSource<'a> {
    pub cluster: &'a Client,
    /// Headers of the caller's request: the cluster finds the credentials in them.
    pub caller: &'a HeaderMap,
    /// Index as in the caller's path.
    pub raw_index: &'a str,
    pub fields: &'a ReaderFields,
    /// Permit under which responses are read.
    pub turn: &'a ReaderPermit,
    /// The search preference: the same shard copies serve all pages, since two copies may score differently.
    pub preference: String,
}

/// Whether an index has no field to collapse by. It has no stamped documents either, which its shards find out when
/// they are asked before the search, and then they are left alone; but for one, if all of them are.
fn lacks_the_field(refused: &Response<Bytes>) -> bool {
    let text = String::from_utf8_lossy(refused.body());
    refused.status() == StatusCode::BAD_REQUEST && text.contains("in order to collapse on")
}

fn stored<'de, D: Deserializer<'de>>(source: D) -> Result<Value, D::Error> {
    Stored::deserialize(source).map(|Stored(source)| source)
}

/// The search with synthetic source instead of stored source, if it requests the latter. Those may have comments, and
/// one that ends in `// …` takes the rest of the answer with it.
fn written_anew(mut search: Value) -> Option<Value> {
    let shown = search.get_mut("_source")?;
    let is_whole = match &*shown {
        Value::Bool(is_shown) => *is_shown,
        Value::String(field) => field.is_empty(),
        Value::Array(fields) => fields.is_empty(),
        Value::Object(filter) => filter.values().all(|fields| fields.as_array().is_none_or(Vec::is_empty)),
        _ => true,
    };
    *shown = json!({"excludes": [NO_FIELD]});
    is_whole.then_some(search)
}

fn understood<A: for<'de> Deserialize<'de>>(answer: &Response<Bytes>) -> Result<SearchAnswer<A>, ReadError> {
    SearchAnswer::parse(answer.body()).map_err(|fault| match fault {
        SearchFault::NotUnderstood(_) => ReadError::NotTheCluster,
        SearchFault::Partial { .. } => ReadError::Partial,
    })
}

/// The body of a search that the servers end in time.
fn in_time(mut body: Value) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.insert("timeout".into(), TIMEOUT.into());
    }
    body
}

impl SearchSource<'_> {
    /// Searches the index by a query. `rest`: everything else of the body.
    ///
    /// # Errors
    /// As [`SearchSource::search`].
    pub(super) async fn search_by<A: for<'de> Deserialize<'de>>(
        &self,
        query: &SearchQuery,
        rest: Value,
    ) -> Result<SearchAnswer<A>, ReadError> {
        let rest = in_time(rest);
        match self.answer(self.raw_index, query.in_body(&rest)).await {
            Err(ReadError::NotTheCluster) => {
                let anew = written_anew(rest).ok_or(ReadError::NotTheCluster)?;
                self.answer(self.raw_index, query.in_body(&anew)).await
            }
            answer => answer,
        }
    }

    /// Runs a search.
    ///
    /// # Errors
    /// Refusals of the cluster are returned as they are; a partial result is an error.
    pub(super) async fn search<A: for<'de> Deserialize<'de>>(&self, body: Value) -> Result<SearchAnswer<A>, ReadError> {
        self.search_in(self.raw_index, body).await
    }

    /// As [`search`](Self::search), in another index.
    ///
    /// # Errors
    /// As [`SearchSource::search`].
    pub(super) async fn search_in<A: for<'de> Deserialize<'de>>(
        &self,
        raw_index: &str,
        body: Value,
    ) -> Result<SearchAnswer<A>, ReadError> {
        let body = in_time(body);
        match self.answer(raw_index, body.to_string()).await {
            Err(ReadError::NotTheCluster) => {
                let anew = written_anew(body).ok_or(ReadError::NotTheCluster)?;
                self.answer(raw_index, anew.to_string()).await
            }
            answer => answer,
        }
    }

    async fn answer<A: for<'de> Deserialize<'de>>(
        &self,
        raw_index: &str,
        body: String,
    ) -> Result<SearchAnswer<A>, ReadError> {
        let body = Bytes::from(body);
        let path = format!("/{raw_index}/_search?allow_partial_search_results=false&preference={}", self.preference);
        let answer = match self.ask(Method::POST, &path, Some(body.clone())).await {
            Err(ReadError::Refused(refused)) => {
                if let Some((option, field)) = self.field_is_text(&refused) {
                    return Err(ReadError::FieldIsText { option, field });
                }
                if !lacks_the_field(&refused) {
                    return Err(ReadError::Refused(refused));
                }
                let path = format!("{path}&pre_filter_shard_size=1");
                match self.ask(Method::POST, &path, Some(body)).await {
                    Err(ReadError::Refused(refused)) if lacks_the_field(&refused) => {
                        // On the heap: every search would have room for a second one.
                        return match Box::pin(self.has_stamped(raw_index)).await? {
                            true => Err(ReadError::Refused(refused)),
                            false => Ok(SearchAnswer::none()),
                        };
                    }
                    answer => answer?,
                }
            }
            answer => answer?,
        };
        understood(&answer)
    }

    /// Whether an index has a document with a stamp.
    async fn has_stamped(&self, raw_index: &str) -> Result<bool, ReadError> {
        let path = format!("/{raw_index}/_search?allow_partial_search_results=false&preference={}", self.preference);
        let exists = json!({"exists": {"field": self.fields.key}});
        let body = in_time(json!({"size": 0, "track_total_hits": 1, "query": exists})).to_string();
        let answer = self.ask(Method::POST, &path, Some(body.into())).await?;
        Ok(understood::<Value>(&answer)?.total().0 > 0)
    }

    /// Option and name of the field because of which a search was refused: it is a text.
    fn field_is_text(&self, refused: &Response<Bytes>) -> Option<(&'static str, String)> {
        let text = String::from_utf8_lossy(refused.body());
        let counted = [(FieldUse::Medium, &self.fields.medium), (FieldUse::Language, &self.fields.language)];
        counted.into_iter().find_map(|(used_for, field)| {
            let field = field.as_ref()?;
            let is_text = text.contains(&format!("fielddata=true on [{field}]"));
            is_text.then(|| (used_for.option(), field.clone()))
        })
    }

    /// Sends a request with the caller's credentials; `body`: JSON, if any.
    ///
    /// # Errors
    /// An answer that is no success comes back as it is.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Response<Bytes>, ReadError> {
        self.turn.begin().await;
        let asked =
            self.cluster.ask_as_until(self.caller, method, path, body, (SMALL, self.turn.large()), ANSWER_BYTES);
        let answer = asked.await?;
        if answer.status().is_success() { Ok(answer) } else { Err(ReadError::Refused(Box::new(answer))) }
    }

    /// All documents of the index, which the servers know without a search.
    ///
    /// # Errors
    /// As [`SearchSource::search`].
    pub(super) async fn documents(&self) -> Result<u64, ReadError> {
        let answer: SearchAnswer =
            self.search_by(&SearchQuery::all(), json!({"size": 0, "track_total_hits": true})).await?;
        Ok(answer.total().0)
    }

    /// The documents of a query that have a stamp, narrowed by filters.
    pub(super) fn stamped(&self, query: &SearchQuery, filters: Vec<Value>) -> SearchQuery {
        let mut filter = vec![json!({"exists": {"field": self.fields.key}})];
        filter.extend(filters);
        query.narrowed(filter)
    }

    /// The documents of these groups.
    pub(super) fn of_groups(&self, keys: &[i64]) -> Value {
        json!({"terms": {(&self.fields.key): keys}})
    }
}
