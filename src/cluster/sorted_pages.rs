//! Documents of a point in time in the order of one field, page by page.
//!
//! A sorted page costs the cluster as much as there is to sort, so each search covers only a part of the order: some
//! pages of it, as far as the last page tells.
//!
//! ```text
//! open --> search, sorted by (field, place in its shard), after the last document --> page --> ... --> close
//!   ^            |
//!   +------------+ the point in time has expired: from the last place on, without what was read of it
//! ```

use std::collections::HashSet;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::operator::{Operator, OperatorError};
use super::point_in_time::{PointError, PointInTime, PointsInTime, is_expired};
use super::retry::{ATTEMPTS, Backoff, Pace};
use super::search::{SearchFault, SearchResponse};
use crate::time::{Millis, parse_date};

/// Documents of the first page and of the largest; servers return no more than 10,000 at once.
const FIRST_PAGE: usize = 200;
const LARGEST_PAGE: usize = 10_000;
/// Pages that one part of the sort order should have.
const PART_PAGES: usize = 4;
/// Bytes that a page should have.
const PAGE_BYTES: usize = 8 << 20;
/// Pages that are read ahead of who uses them.
const AHEAD: usize = 2;
/// How often documents without a place in the order are read from the beginning, if the caller wants that.
const RESTARTS: u32 = 9;

/// Why documents cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The cluster cannot be reached or refuses.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The cluster was away or busy at every attempt.
    #[error("the cluster was too busy several times in a row: {0}; try again later, or more slowly with --rate")]
    Busy(OperatorError),
    /// A response is no search response, or not complete.
    #[error(transparent)]
    Response(#[from] SearchFault),
    /// The point in time has expired among documents without a place in the order.
    #[error(
        "the cluster has dropped the point in time, and documents without a place in the order can only be read in one \
         go: begin again"
    )]
    Lost,
}

impl From<PointError> for ScanError {
    fn from(error: PointError) -> ScanError {
        match error {
            PointError::Operator(error) => error.into(),
            PointError::NoId(answer) => SearchFault::NotUnderstood(answer.to_string()).into(),
        }
    }
}

/// The field by which documents are sorted, ascending; those without it come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SortField {
    /// A date.
    Date(String),
    /// A whole number.
    Number(String),
    /// Any other sortable field. The order has no places that a part could begin at.
    Other(String),
}

impl SortField {
    /// The order in which each shard took the documents.
    pub(crate) fn of_arrival() -> SortField {
        SortField::Number("_seq_no".into())
    }

    /// The name of the field.
    pub(crate) fn name(&self) -> &str {
        match self {
            SortField::Date(field) | SortField::Number(field) | SortField::Other(field) => field,
        }
    }

    fn sort(&self) -> Value {
        match self {
            SortField::Date(_) => {
                json!({"order": "asc", "missing": "_first", "unmapped_type": "date", "numeric_type": "date"})
            }
            // Every document has one; an index that has never had a document, nor a mapping, does not know the field.
            SortField::Number(field) if field == "_seq_no" => json!({"order": "asc", "unmapped_type": "long"}),
            SortField::Number(_) => json!({"order": "asc", "missing": "_first", "unmapped_type": "long"}),
            SortField::Other(_) => json!({"order": "asc", "missing": "_first", "unmapped_type": "keyword"}),
        }
    }

    /// The place of a document in the order, by its sort value.
    fn place(&self, sort: &Value) -> Option<i64> {
        match (self, sort) {
            (SortField::Other(_), _) => None,
            // The lowest number marks a missing value.
            (_, Value::Number(number)) => number.as_i64().filter(|&place| place != i64::MIN),
            (SortField::Date(_), Value::String(text)) => parse_date(text).map(|Millis(place)| place),
            _ => None,
        }
    }
}

/// A part of the documents, by their ids: number `id` of `of`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) id: u32,
    pub(crate) of: u32,
}

impl Slice {
    /// All documents.
    pub(crate) const ALL: Slice = Slice { id: 0, of: 1 };
}

/// The documents to read.
#[derive(Debug, Clone)]
pub(crate) struct SortedQuery {
    /// Names and patterns, as in a path.
    pub(crate) indices: String,
    pub(crate) query: Value,
    pub(crate) order: SortField,
    /// The first sort value; documents without one precede it.
    pub(crate) since: Option<i64>,
    /// Fields to return.
    pub(crate) fields: Vec<String>,
    pub(crate) slice: Slice,
}

/// A stored document.
#[derive(Debug, Clone)]
pub(crate) struct StoredHit {
    pub(crate) index: String,
    pub(crate) id: String,
    pub(crate) routing: Option<String>,
    /// Sequence number and primary term of the version that was read.
    pub(crate) seq_no: u64,
    pub(crate) term: u64,
    /// The requested fields, as JSON.
    pub(crate) source: Bytes,
    /// The place in the order.
    pub(crate) place: Option<i64>,
}

#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_seq_no", default)]
    seq_no: u64,
    #[serde(rename = "_primary_term", default)]
    term: u64,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
    sort: Vec<Value>,
}

/// Reads the documents of a [`SortedQuery`].
pub(crate) struct SortedPages<'o> {
    operator: &'o Operator,
    wanted: SortedQuery,
    attempts: u32,
    /// How often it may still begin again.
    restarts: u32,
    /// The indices are to be refreshed before the next search.
    is_stale: bool,
    points: PointsInTime,
    point: Option<PointInTime>,
    after: Option<Vec<Value>>,
    /// The second sort key.
    tie: &'static str,
    size: usize,
    most: usize,
    /// The part of the sort order that searches cover; `from` is `None` while documents without a sort value may
    /// follow.
    from: Option<i64>,
    until: Option<i64>,
    /// The last place, and the documents at it that were read: index and id.
    last: Option<i64>,
    read_of_last: HashSet<(String, String)>,
    over: bool,
}

impl<'o> SortedPages<'o> {
    /// `most`: documents of a page.
    pub(crate) fn new(operator: &'o Operator, wanted: SortedQuery, most: usize) -> SortedPages<'o> {
        let most = most.clamp(1, LARGEST_PAGE);
        SortedPages {
            operator,
            wanted,
            attempts: ATTEMPTS,
            restarts: 0,
            is_stale: false,
            points: PointsInTime::default(),
            point: None,
            after: None,
            tie: "_shard_doc",
            size: FIRST_PAGE.min(most),
            most,
            from: None,
            until: None,
            last: None,
            read_of_last: HashSet::new(),
            over: false,
        }
    }

    /// With so many attempts at each page.
    pub(crate) fn with_attempts(self, attempts: u32) -> SortedPages<'o> {
        SortedPages { attempts, ..self }
    }

    /// Makes the latest writes visible first, and begins again where it would be [`ScanError::Lost`]: then documents
    /// may come twice.
    pub(crate) fn restarting(self) -> SortedPages<'o> {
        SortedPages { restarts: RESTARTS, is_stale: true, ..self }
    }

    /// The next documents; `None` at the end.
    ///
    /// # Errors
    /// If the cluster refuses, or is away or busy at every attempt; [`ScanError::Lost`].
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<StoredHit>>, ScanError> {
        let mut backoff = Backoff::new(self.attempts);
        while !self.over {
            if self.is_stale {
                self.operator.refresh(&self.wanted.indices, self.attempts).await?;
                self.is_stale = false;
            }
            let response = match self.search().await {
                Err(ScanError::Lost) if self.restarts > 0 => {
                    self.restarts -= 1;
                    self.begin_again();
                    continue;
                }
                response => response?,
            };
            match self.take(&response) {
                Ok(hits) if hits.is_empty() => {}
                Ok(hits) => return Ok(Some(hits)),
                // Cut on its way, or without a shard that is away for a moment.
                Err(fault) => {
                    warn!(%fault, "the next documents are requested again");
                    if !backoff.wait().await {
                        return Err(fault.into());
                    }
                }
            }
        }
        self.close().await;
        Ok(None)
    }

    /// All pages, read a few ahead of the receiver and no faster than the pace, and the reading of them: it ends with
    /// the pages, the first error, or the receiver.
    pub(crate) fn read_ahead(
        mut self,
        pace: Pace,
    ) -> (mpsc::Receiver<Vec<StoredHit>>, impl Future<Output = Result<(), ScanError>>) {
        let (pages, receiver) = mpsc::channel(AHEAD);
        let read = async move {
            let outcome = self.read_into(&pages, pace).await;
            self.close().await;
            outcome
        };
        (receiver, read)
    }

    async fn read_into(&mut self, pages: &mpsc::Sender<Vec<StoredHit>>, pace: Pace) -> Result<(), ScanError> {
        let mut read = 0;
        while let Some(page) = self.next().await? {
            read += page.len() as u64;
            if pages.send(page).await.is_err() {
                break;
            }
            pace.wait(read).await;
        }
        Ok(())
    }

    /// Starts over, now that the point in time is gone.
    fn begin_again(&mut self) {
        (self.after, self.from, self.until, self.last) = (None, None, None, None);
        self.read_of_last.clear();
        self.is_stale = true;
    }

    /// Closes the point in time. Dropping it does so, too, but in a task.
    async fn close(&mut self) {
        if let Some(point) = self.point.take() {
            point.close().await;
        }
    }

    /// Sends the search of the next page until there is a response.
    async fn search(&mut self) -> Result<Bytes, ScanError> {
        let mut backoff = Backoff::new(self.attempts);
        loop {
            let error = match self.attempt().await {
                Ok(response) => return Ok(response),
                Err(ScanError::Operator(error)) => error,
                Err(error) => return Err(error),
            };
            let (status, answer) = match &error {
                OperatorError::Refused { status, answer, .. } => (Some(*status), answer.as_str()),
                _ => (None, ""),
            };
            if is_expired(answer) {
                debug!(%error, "the point in time has expired");
                self.resume()?;
            } else if status == Some(400) && answer.contains("_shard_doc") && self.tie == "_shard_doc" {
                self.tie = "_id";
                self.after = None;
                continue;
            } else if status == Some(400) && answer.contains("Result window is too large") && self.size > 1 {
                // An index of these has a smaller `index.max_result_window`.
                self.size /= 2;
                self.most = self.size;
                continue;
            } else if !error.may_pass() {
                return Err(error.into());
            } else if status.is_some() {
                self.size = (self.size / 2).max(1);
            }
            warn!(%error, "the next documents are requested again");
            if !backoff.wait().await {
                return Err(ScanError::Busy(error));
            }
        }
    }

    async fn attempt(&mut self) -> Result<Bytes, ScanError> {
        if self.point.is_none() {
            self.point = Some(self.points.open(self.operator, &self.wanted.indices).await?);
        }
        Ok(self.search_once().await?)
    }

    async fn search_once(&self) -> Result<Bytes, OperatorError> {
        let SortedQuery { order, fields, slice, .. } = &self.wanted;
        let mut body = json!({
            "size": self.size,
            "track_total_hits": false,
            "seq_no_primary_term": true,
            "query": self.part(),
            "pit": self.point.as_ref().map(PointInTime::searched),
            "sort": [{order.name(): order.sort()}, {self.tie: "asc"}],
            "_source": fields,
        });
        if let Some(after) = &self.after {
            body["search_after"] = json!(after);
        }
        if slice.of > 1 {
            body["slice"] = json!({"id": slice.id, "max": slice.of});
        }
        self.operator.ask_bytes(Method::POST, "/_search?allow_partial_search_results=false", Some(&body)).await
    }

    /// The query, within the part.
    fn part(&self) -> Value {
        let SortedQuery { query, order, since, .. } = &self.wanted;
        let range = |from: i64, until: Option<i64>| {
            let mut range = json!({"gte": from});
            if let Some(until) = until {
                range["lte"] = until.into();
            }
            if matches!(order, SortField::Date(_)) {
                range["format"] = "epoch_millis".into();
            }
            json!({"range": {order.name(): range}})
        };
        let filter = match (self.from, *since) {
            (Some(from), _) => range(from, self.until),
            // A document without a place is not before any.
            (None, Some(since)) => json!({"bool": {"should": [
                range(since, None), {"bool": {"must_not": [{"exists": {"field": order.name()}}]}},
            ]}}),
            (None, None) => return query.clone(),
        };
        json!({"bool": {"filter": [query, filter]}})
    }

    /// Continues from the last place in a new point in time.
    fn resume(&mut self) -> Result<(), ScanError> {
        if let Some(point) = self.point.take() {
            point.forget();
        }
        if self.after.take().is_some() {
            self.from = Some(self.last.ok_or(ScanError::Lost)?);
        }
        Ok(())
    }

    /// The documents of a page. A response that is not used changes nothing.
    fn take(&mut self, response: &Bytes) -> Result<Vec<StoredHit>, SearchFault> {
        let page: SearchResponse<Hit<'_>> = SearchResponse::parse(response)?;
        if let (Some(point), Some(id)) = (&mut self.point, page.pit_id) {
            point.continue_as(id);
        }
        let read = page.hits.len();
        let is_last = read < self.size;
        self.over = is_last && self.until.is_none();
        self.adapt(response.len(), read);
        let order = &self.wanted.order;
        let begin = page.hits.first().and_then(|hit| order.place(hit.sort.first()?));
        let mut hits = Vec::with_capacity(read);
        for hit in page.hits {
            let place = hit.sort.first().and_then(|sort| order.place(sort));
            self.after = Some(hit.sort);
            if place != self.last {
                self.last = place;
                self.read_of_last.clear();
            }
            // Without a place there is nothing to resume from.
            let is_new = place.is_none() || self.read_of_last.insert((hit.index.clone(), hit.id.clone()));
            if is_new {
                let source = hit.source.map(|source| response.slice_ref(source.get().as_bytes()));
                hits.push(StoredHit {
                    index: hit.index,
                    id: hit.id,
                    routing: hit.routing,
                    seq_no: hit.seq_no,
                    term: hit.term,
                    source: source.unwrap_or_else(|| Bytes::from_static(b"{}")),
                    place,
                });
            }
        }
        match (is_last, self.until) {
            (true, Some(until)) => {
                (self.from, self.until, self.after) = (Some(until.saturating_add(1)), None, None);
            }
            (true, None) => {}
            (false, _) => self.choose_part(begin, read),
        }
        Ok(hits)
    }

    /// Limits the next searches to a part with some pages, by the density of this page.
    fn choose_part(&mut self, begin: Option<i64>, read: usize) {
        let (Some(begin), Some(last)) = (begin, self.last) else { return };
        self.from = Some(last);
        if self.until.is_none() {
            let pages = (self.size * PART_PAGES / read.max(1)).max(1) as i64;
            let span = last.saturating_sub(begin).saturating_add(1).saturating_mul(pages);
            self.until = Some(last.saturating_add(span));
        }
    }

    /// Chooses the size of the next page, so that it has about [`PAGE_BYTES`].
    fn adapt(&mut self, bytes: usize, documents: usize) {
        let each = bytes / documents.max(1) + 1;
        self.size = (PAGE_BYTES / each).max(1).min(self.size * 4).min(self.most);
    }
}
