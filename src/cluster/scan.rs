//! All stamped documents of some indices, in the order in which they arrived: a point in time, read page by page.
//!
//! ```text
//! open --> search, sorted by (arrival, place in its shard), after the last document --> page --> ... --> close
//!   ^            |
//!   +------------+ the point in time has expired: from the last arrival on, without what was read of it
//! ```

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::operator::{Operator, OperatorError};
use super::point_in_time::{PointError, PointInTime, PointsInTime, is_expired, read_page};
use super::resolve::resolve;
use crate::bulk::StampNames;
use crate::time::{Millis, parse_date};

/// Documents of the first page and of the largest; servers give no more than 10,000 at once.
const FIRST_PAGE: usize = 200;
const LARGEST_PAGE: usize = 10_000;
/// So many pages are asked for of one part of the time.
const PART_PAGES: usize = 4;
/// Bytes that a page should have.
const PAGE_BYTES: usize = 8 << 20;
/// How often a request that failed for a moment is sent again, and the pauses before that, which double.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);
/// What does not stand in a path as it is; patterns keep their stars.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*');

/// Why documents cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The cluster cannot be reached or refuses.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The cluster was busy again and again.
    #[error("the cluster was too busy {TRIES} times in a row: {0}; try again later, or more slowly with --rate")]
    Busy(OperatorError),
    /// Shards did not answer: the count would be too small.
    #[error("{failed} of {total} shards did not answer")]
    Partial {
        /// Shards without an answer.
        failed: u64,
        /// All shards of the search.
        total: u64,
    },
    /// An answer is not what was asked for.
    #[error("the cluster's answer to a search is not understood: {0}")]
    Answer(String),
    /// The point in time has expired among documents that cannot be told apart by their arrival.
    #[error(
        "the cluster has dropped the point in time, and documents without an arrival can only be read in one go: begin \
         again"
    )]
    Lost,
}

impl ScanError {
    /// Whether the cluster cannot answer yet, so that the same request may succeed later.
    pub(crate) fn is_away(&self) -> bool {
        match self {
            ScanError::Busy(_) | ScanError::Partial { .. } => true,
            ScanError::Operator(error) => matches!(
                error,
                OperatorError::Unreachable { .. } | OperatorError::Refused { status: 429 | 502 | 503 | 504, .. }
            ),
            ScanError::Answer(_) | ScanError::Lost => false,
        }
    }

    /// The reason, and what helps.
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
            ScanError::Partial { .. } => true,
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

/// The indices of a [`ScanRequest`] that can be read, and the others.
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

/// What is to be read.
#[derive(Debug, Clone)]
pub(crate) struct ScanRequest {
    /// Names and patterns of indices.
    pub(crate) indices: Vec<String>,
    /// Names of the stamp's fields.
    pub(crate) names: StampNames,
    /// The other fields that are to be shown.
    pub(crate) fields: Vec<String>,
    /// Documents that arrived earlier are passed over.
    pub(crate) since: Option<Millis>,
}

/// What there is to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overview {
    /// Whether there is any such index.
    pub(crate) has_index: bool,
    /// Stamped documents.
    pub(crate) documents: u64,
    /// When the last of them arrived.
    pub(crate) last: Option<Millis>,
}

/// A stored document.
#[derive(Debug, Clone)]
pub(crate) struct ScannedDocument {
    pub(crate) index: String,
    /// The fields that were asked for, as JSON.
    pub(crate) source: Bytes,
    pub(crate) arrival: Option<Millis>,
}

#[derive(Deserialize)]
struct FoundHit<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
    sort: Vec<Value>,
}

/// The reading of documents.
pub(crate) struct Scan<'o> {
    operator: &'o Operator,
    wanted: ScanRequest,
    points: PointsInTime,
    point: Option<PointInTime>,
    after: Option<Vec<Value>>,
    /// What decides the order of documents of one arrival.
    tie: &'static str,
    size: usize,
    most: usize,
    /// No page asks for later arrivals than this: a page that is sorted costs as much as there is to be sorted. `None`:
    /// there may be any.
    until: Option<Millis>,
    /// The last arrival, and the documents of it that were read: index and id.
    last: Option<Millis>,
    read_of_last: HashSet<(String, String)>,
    over: bool,
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

    /// The documents that arrived then, first and last included.
    fn part(&self, since: Millis, until: Option<Millis>) -> Value {
        let mut range = json!({"gte": since.0, "format": "epoch_millis"});
        if let Some(until) = until {
            range["lte"] = until.0.into();
        }
        let range = json!({"range": {self.names.arrival(): range}});
        json!({"bool": {"filter": [self.stamped(), range]}})
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
        let answer = operator.ask(Method::POST, &path, Some(&body)).await?;
        let shards = |which: &str| answer["_shards"][which].as_u64().unwrap_or_default();
        if shards("failed") > 0 {
            return Err(ScanError::Partial { failed: shards("failed"), total: shards("total") });
        }
        let total = answer.pointer("/hits/total/value").and_then(Value::as_u64);
        let last = answer.pointer("/aggregations/last/value").and_then(Value::as_f64);
        Ok(Overview {
            has_index: shards("total") > 0,
            documents: total.ok_or_else(|| ScanError::Answer(answer.to_string()))?,
            last: last.map(|last| Millis(last as i64)),
        })
    }

    /// Finds out which indices can be read: all together if none fails, else each by itself, so that an error of one
    /// index keeps nobody from reading the others.
    ///
    /// # Errors
    /// When the cluster cannot be reached, does not know the service user, or no index can be read yet.
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
                match self.alone(&member).overview(operator).await {
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

    fn alone(&self, name: &str) -> ScanRequest {
        let mut indices = vec![name.to_owned()];
        if is_pattern(name) {
            indices.extend(self.indices.iter().filter(|name| is_exclusion(name)).cloned());
        }
        ScanRequest { indices, ..self.clone() }
    }

    /// The names and patterns that there is an index for, and the exclusions; a point in time cannot be had of others.
    async fn existing(&self, operator: &Operator) -> Result<Vec<String>, ScanError> {
        let mut existing = Vec::new();
        for name in self.indices.iter().filter(|name| !is_exclusion(name)) {
            if self.alone(name).overview(operator).await?.has_index {
                existing.push(name.clone());
            }
        }
        // Without a pattern before it, an exclusion would be the name of an index.
        if existing.iter().any(|name| is_pattern(name)) {
            existing.extend(self.indices.iter().filter(|name| is_exclusion(name)).cloned());
        }
        Ok(existing)
    }

    /// Makes the documents visible to searches that were written last, if the operator may do that.
    pub(crate) async fn refresh(&self, operator: &Operator) {
        let path = format!("/{}/_refresh?ignore_unavailable=true", path_of(&self.indices));
        let refreshed = operator.ask(Method::POST, &path, None).await;
        // If nobody answers, the next request will say so.
        if let Err(error @ OperatorError::Refused { .. }) = refreshed {
            warn!(%error, "the indices cannot be refreshed: what was written last may not be seen");
        }
    }
}

impl<'o> Scan<'o> {
    /// Begins to read. `most`: documents that a page has at most.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses.
    pub(crate) async fn open(operator: &'o Operator, wanted: ScanRequest, most: usize) -> Result<Scan<'o>, ScanError> {
        let indices = wanted.existing(operator).await?;
        let most = most.clamp(1, LARGEST_PAGE);
        let mut scan = Scan {
            operator,
            over: indices.is_empty(),
            wanted: ScanRequest { indices, ..wanted },
            points: PointsInTime::default(),
            point: None,
            after: None,
            tie: "_shard_doc",
            size: FIRST_PAGE.min(most),
            most,
            until: None,
            last: None,
            read_of_last: HashSet::new(),
        };
        if !scan.over {
            scan.open_point().await?;
        }
        Ok(scan)
    }

    async fn open_point(&mut self) -> Result<(), ScanError> {
        let indices = path_of(&self.wanted.indices);
        let opened = self.points.open(self.operator, &indices, None).await;
        self.point = Some(opened.map_err(|error| match error {
            PointError::Operator(error) => error.into(),
            PointError::NoId(answer) => ScanError::Answer(answer.to_string()),
        })?);
        Ok(())
    }

    /// The next documents; none at the end.
    ///
    /// # Errors
    /// As [`Scan::open`], and when the cluster stays busy.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ScannedDocument>>, ScanError> {
        while !self.over {
            let answer = self.search().await?;
            let hits = self.take(&answer)?;
            if !hits.is_empty() || self.over {
                return Ok(Some(hits).filter(|hits| !hits.is_empty()));
            }
        }
        Ok(None)
    }

    /// Sends the search of the next page until there is an answer.
    async fn search(&mut self) -> Result<Bytes, ScanError> {
        let (mut pause, mut tries) = (PAUSE, 0);
        loop {
            let error = match self.search_once().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tries += 1;
            if tries == TRIES {
                return Err(ScanError::Busy(error));
            }
            match &error {
                OperatorError::Refused { answer, .. } if is_expired(answer) => {
                    debug!(%error, "the point in time has expired");
                    if let Some(point) = self.point.take() {
                        point.forget();
                    }
                    self.open_again().await?;
                    continue;
                }
                OperatorError::Refused { status: 400, answer, .. }
                    if answer.contains("_shard_doc") && self.after.is_none() =>
                {
                    self.tie = "_id";
                    continue;
                }
                OperatorError::Refused { status: 429 | 500 | 502 | 503 | 504, .. } => {
                    self.size = (self.size / 2).max(1);
                }
                OperatorError::Unreachable { .. } => {}
                _ => return Err(error.into()),
            }
            warn!(%error, "the next documents are asked for again");
            wait(pause).await;
            pause *= 2;
        }
    }

    async fn search_once(&self) -> Result<Bytes, OperatorError> {
        let arrival = self.wanted.names.arrival();
        let since = self.wanted.since;
        let mut shown = self.wanted.fields.clone();
        shown.push(self.wanted.names.root().to_owned());
        // What has no arrival comes first: behind it there is none any more.
        let query = match (self.last, since) {
            (Some(_), Some(since)) => self.wanted.part(since, self.until),
            _ => self.wanted.query(since),
        };
        let mut body = json!({
            "size": self.size,
            "track_total_hits": false,
            "query": query,
            "pit": self.point.as_ref().map(PointInTime::searched),
            "sort": [
                {arrival: {"order": "asc", "missing": "_first", "unmapped_type": "date"}},
                {self.tie: "asc"},
            ],
            "_source": shown,
        });
        if let (Some(after), Some(body)) = (&self.after, body.as_object_mut()) {
            body.insert("search_after".into(), json!(after));
        }
        let path = "/_search?allow_partial_search_results=false";
        self.operator.ask_bytes(Method::POST, path, Some(&body)).await
    }

    async fn open_again(&mut self) -> Result<(), ScanError> {
        if self.after.is_some() {
            let last = self.last.ok_or(ScanError::Lost)?;
            self.wanted.since = self.wanted.since.max(Some(last));
            self.after = None;
        }
        self.open_point().await
    }

    /// The documents of a page.
    fn take(&mut self, answer: &Bytes) -> Result<Vec<ScannedDocument>, ScanError> {
        let found: Vec<FoundHit<'_>> = read_page(answer, self.point.as_mut()).map_err(ScanError::Answer)?;
        let is_last = found.len() < self.size;
        self.over = is_last && self.until.is_none();
        self.adapt(answer.len(), found.len());
        let begin = found.first().and_then(|hit| arrival_of(hit.sort.first()?));
        let read = found.len();
        let mut hits = Vec::with_capacity(found.len());
        for mut hit in found {
            let arrival = hit.sort.first().and_then(arrival_of);
            self.after = Some(std::mem::take(&mut hit.sort));
            if arrival != self.last {
                self.last = arrival;
                self.read_of_last.clear();
            }
            // Where time stands still there is nothing to begin again from.
            let is_new = arrival.is_none() || self.read_of_last.insert((hit.index.clone(), hit.id));
            if let Some(source) = hit.source.filter(|_| is_new) {
                hits.push(ScannedDocument {
                    index: hit.index,
                    source: answer.slice_ref(source.get().as_bytes()),
                    arrival,
                });
            }
        }
        match is_last {
            true => self.go_on_behind_part(),
            false => self.choose_part(begin, read),
        }
        Ok(hits)
    }

    /// The next pages are of arrivals of which there are some pages, as far as the last one tells.
    fn choose_part(&mut self, begin: Option<Millis>, read: usize) {
        let (Some(begin), Some(last)) = (begin, self.last) else {
            return;
        };
        self.wanted.since = Some(last);
        if self.until.is_none() {
            let pages = (self.size * PART_PAGES / read.max(1)).max(1) as i64;
            let span = (last.0 - begin.0 + 1).saturating_mul(pages);
            self.until = Some(Millis(last.0.saturating_add(span)));
        }
    }

    /// All of the part was read: the next page is of whatever comes behind it.
    fn go_on_behind_part(&mut self) {
        if let Some(until) = self.until.take() {
            self.wanted.since = Some(Millis(until.0.saturating_add(1)));
            self.after = None;
        }
    }

    /// Pages of about so many bytes, whatever the size of the documents.
    fn adapt(&mut self, bytes: usize, documents: usize) {
        let each = bytes / documents.max(1) + 1;
        let fits = (PAGE_BYTES / each).max(1);
        self.size = fits.min(self.size * 4).min(self.most);
    }

    /// Lets the cluster forget the point in time.
    pub(crate) async fn close(mut self) {
        if let Some(point) = self.point.take() {
            point.close().await;
        }
    }
}

/// The arrival by which a document was sorted.
fn arrival_of(sort: &Value) -> Option<Millis> {
    match sort {
        // The lowest number stands for none.
        Value::Number(number) => number.as_i64().filter(|&at| at != i64::MIN).map(Millis),
        Value::String(text) => parse_date(text),
        _ => None,
    }
}

#[expect(clippy::disallowed_methods, reason = "a busy cluster is not to be asked again at once")]
async fn wait(pause: Duration) {
    tokio::time::sleep(pause).await;
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
