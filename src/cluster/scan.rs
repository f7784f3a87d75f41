//! All stamped documents of some indices, in the order in which they arrived ([`ScanRequest`]).

use std::collections::HashSet;

use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tracing::warn;

use super::operator::{Operator, OperatorError};
use super::resolve::resolve;
use super::search::{SearchFault, SearchResponse};
pub(crate) use super::sorted_pages::ScanError;
use super::sorted_pages::{Slice, SortField, SortedPages, SortedQuery};
use crate::bulk::StampNames;
use crate::time::Millis;

/// Characters that are not encoded in a path; patterns keep their stars.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*');

impl ScanError {
    /// Whether the cluster is away, so that a retry may succeed later.
    pub(crate) fn is_away(&self) -> bool {
        match self {
            ScanError::Busy(_) | ScanError::Response(SearchFault::Partial { .. }) => true,
            ScanError::Operator(error) => matches!(
                error,
                OperatorError::Unreachable { .. } | OperatorError::Refused { status: 429 | 502 | 503 | 504, .. }
            ),
            ScanError::Response(SearchFault::NotUnderstood(_)) | ScanError::Lost => false,
        }
    }

    /// The reason, and the way out.
    pub(crate) fn with_advice(&self) -> String {
        match self {
            ScanError::Operator(OperatorError::Refused { status: 401 | 403, .. }) => {
                format!("{self}; give a URL with the credentials of a user who may read the index with --service-url")
            }
            _ => self.to_string(),
        }
    }

    /// Whether the error may be that of one index among several: a refusal, or shards that are not there (503).
    fn may_be_of_one_index(&self) -> bool {
        match self {
            ScanError::Operator(OperatorError::Refused { status, .. }) => !matches!(status, 401 | 429 | 502 | 504),
            ScanError::Response(SearchFault::Partial { .. }) => true,
            _ => false,
        }
    }
}

/// An index that cannot be read.
#[derive(Debug)]
pub(crate) struct UnreadableIndex {
    /// Its name, or that of the data stream or alias that it was found by.
    pub(crate) name: String,
    /// Why not.
    pub(crate) reason: ScanError,
}

/// The aggregation of an overview.
#[derive(Deserialize)]
struct LastArrival {
    last: LastValue,
}

#[derive(Deserialize)]
struct LastValue {
    value: Option<f64>,
}

/// The readable and the unreadable indices of a [`ScanRequest`].
#[derive(Debug, Default)]
pub(crate) struct ReadableIndices {
    /// Names and patterns; an exclusion (`-name`) for each unreadable index that a pattern matches.
    pub(crate) indices: Vec<String>,
    /// The documents in them.
    pub(crate) overview: Overview,
    /// Indices to be tried again later.
    pub(crate) unreadable: Vec<UnreadableIndex>,
}

impl ReadableIndices {
    /// Adds an unreadable index.
    ///
    /// # Errors
    /// The reason, where it is that of the whole cluster.
    fn skip(&mut self, name: &str, reason: ScanError) -> Result<(), ScanError> {
        if !reason.may_be_of_one_index() {
            return Err(reason);
        }
        self.unreadable.push(UnreadableIndex { name: name.to_owned(), reason });
        Ok(())
    }
}

/// The documents to read.
#[derive(Debug, Clone)]
pub(crate) struct ScanRequest {
    /// Names and patterns of indices.
    pub(crate) indices: Vec<String>,
    /// Names of the stamp's fields.
    pub(crate) names: StampNames,
    /// Further fields of the source to return.
    pub(crate) fields: Vec<String>,
    /// Documents that arrived earlier are passed over.
    pub(crate) since: Option<Millis>,
}

/// Number and existence of the documents to scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overview {
    /// Whether any such index exists.
    pub(crate) has_index: bool,
    /// Stamped documents.
    pub(crate) documents: u64,
    /// When the last of them arrived.
    pub(crate) last: Option<Millis>,
}

fn path_of(indices: &[String]) -> String {
    let names = indices.iter().map(|name| utf8_percent_encode(name, NAME).to_string());
    names.collect::<Vec<_>>().join(",")
}

/// Whether the servers take the name for a pattern.
fn is_pattern(name: &str) -> bool {
    name.contains('*')
}

/// Whether it takes indices out of the patterns before it. No index can be named so.
fn is_exclusion(name: &str) -> bool {
    name.starts_with('-')
}

impl Overview {
    fn add(&mut self, other: Overview) {
        self.has_index |= other.has_index;
        self.documents += other.documents;
        self.last = self.last.max(other.last);
    }
}

impl ScanRequest {
    fn stamped(&self) -> Value {
        let (root, key) = (self.names.root(), self.names.key());
        json!({"bool": {"should": [{"exists": {"field": root}}, {"exists": {"field": key}}]}})
    }

    fn query(&self, since: Option<Millis>) -> Value {
        let arrival = self.names.arrival();
        let mut filters = vec![self.stamped()];
        if let Some(since) = since {
            // What has no arrival belongs to no window.
            filters.push(json!({"bool": {"should": [
                {"range": {arrival: {"gte": since.0, "format": "epoch_millis"}}},
                {"bool": {"must_not": [{"exists": {"field": arrival}}]}},
            ]}}));
        }
        json!({"bool": {"filter": filters}})
    }

    /// Counts the documents.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses.
    pub(crate) async fn overview(&self, operator: &Operator) -> Result<Overview, ScanError> {
        let path = format!("/{}/_search?ignore_unavailable=true&allow_no_indices=true", path_of(&self.indices));
        let body = json!({
            "size": 0,
            "track_total_hits": true,
            "query": self.query(self.since),
            "aggs": {"last": {"max": {"field": self.names.arrival()}}},
        });
        let answer = operator.ask_bytes(Method::POST, &path, Some(&body)).await?;
        let found: SearchResponse<IgnoredAny, LastArrival> = SearchResponse::parse(&answer)?;
        Ok(Overview {
            has_index: found.shards > 0,
            documents: found.total().0,
            last: found.aggregations.and_then(|found| found.last.value).map(|last| Millis(last as i64)),
        })
    }

    /// Determines which indices can be read: all at once, or one by one after a failure.
    ///
    /// # Errors
    /// If the cluster cannot be reached, does not know the service user, or no index can be read yet.
    pub(crate) async fn readable(&self, operator: &Operator) -> Result<ReadableIndices, ScanError> {
        match self.overview(operator).await {
            Ok(overview) => {
                return Ok(ReadableIndices { indices: self.indices.clone(), overview, unreadable: Vec::new() });
            }
            Err(error) if !error.may_be_of_one_index() => return Err(error),
            Err(_) => {}
        }
        let mut found = ReadableIndices::default();
        let mut seen = HashSet::new();
        for name in self.indices.iter().filter(|name| !is_exclusion(name)) {
            let members = match resolve(operator, name).await {
                Ok(resolved) if is_pattern(name) => resolved.searchable(),
                // The name itself tells.
                Ok(_) => vec![name.clone()],
                Err(error) => {
                    found.skip(name, ScanError::Operator(error))?;
                    continue;
                }
            };
            let members = members.into_iter().filter(|member| !self.indices.contains(&format!("-{member}")));
            let before = found.unreadable.len();
            for member in members.filter(|member| seen.insert(member.clone())) {
                match self.for_index(&member).overview(operator).await {
                    Ok(overview) => found.overview.add(overview),
                    Err(error) => found.skip(&member, error)?,
                }
            }
            let is_unreadable = |it: &UnreadableIndex| it.name == *name;
            if !found.unreadable.iter().skip(before).any(is_unreadable) {
                found.indices.push(name.clone());
            }
        }
        let excluded = self.indices.iter().filter(|name| is_exclusion(name)).cloned();
        let unreadable = found.unreadable.iter().map(|it| format!("-{}", it.name));
        let mut excluded: Vec<String> = excluded.chain(unreadable).collect();
        found.indices.append(&mut excluded);
        // Nothing can be read and all of it may be soon: the cluster is not ready.
        let is_waiting = !found.overview.has_index && !found.unreadable.is_empty();
        if is_waiting && found.unreadable.iter().all(|it| it.reason.is_away()) {
            let last = found.unreadable.pop();
            return last.map_or(Ok(found), |it| Err(it.reason));
        }
        Ok(found)
    }

    fn for_index(&self, name: &str) -> ScanRequest {
        let mut indices = vec![name.to_owned()];
        if is_pattern(name) {
            indices.extend(self.indices.iter().filter(|name| is_exclusion(name)).cloned());
        }
        ScanRequest { indices, ..self.clone() }
    }

    /// The names and patterns with an index, and the exclusions; a point in time fails for others.
    async fn existing(&self, operator: &Operator) -> Result<Vec<String>, ScanError> {
        let mut existing = Vec::new();
        for name in self.indices.iter().filter(|name| !is_exclusion(name)) {
            if self.for_index(name).overview(operator).await?.has_index {
                existing.push(name.clone());
            }
        }
        // Without a pattern before it, an exclusion would be the name of an index.
        if existing.iter().any(|name| is_pattern(name)) {
            existing.extend(self.indices.iter().filter(|name| is_exclusion(name)).cloned());
        }
        Ok(existing)
    }

    /// Refreshes the indices, if the operator may, with this many attempts.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or is busy at every attempt.
    pub(crate) async fn refresh(&self, operator: &Operator, attempts: u32) -> Result<(), OperatorError> {
        if let Some(error) = operator.refresh(&path_of(&self.indices), attempts).await? {
            warn!(%error, "the indices cannot be refreshed: what was written last may not be seen");
        }
        Ok(())
    }

    /// The documents, in pages of at most so many; `None`: there is no index.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses.
    pub(crate) async fn pages<'o>(
        &self,
        operator: &'o Operator,
        most: usize,
    ) -> Result<Option<SortedPages<'o>>, ScanError> {
        let indices = self.existing(operator).await?;
        if indices.is_empty() {
            return Ok(None);
        }
        let root = self.names.root().to_owned();
        let query = SortedQuery {
            indices: path_of(&indices),
            query: self.stamped(),
            order: SortField::Date(self.names.arrival().to_owned()),
            since: self.since.map(|since| since.0),
            fields: self.fields.iter().cloned().chain([root, self.names.first().to_owned()]).collect(),
            slice: Slice::ALL,
        };
        Ok(Some(SortedPages::new(operator, query, most)))
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
