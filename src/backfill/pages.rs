//! Documents of some indices, page by page, in the order in which they are to be placed: a point in time, sorted.
//!
//! A page that is sorted costs as much as there is to be sorted, so each search is of a part of the order, of which
//! there are some pages as far as the last page tells. When the point in time is lost, another one is opened and read
//! from its beginning: what was stamped meanwhile is not in it.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::BackfillError;
use super::discovery::{ReadOrder, RouteIndices};
use crate::cluster::operator::{Operator, OperatorError};
use crate::cluster::point_in_time::{PointError, PointInTime, PointsInTime, is_expired, read_page};

/// Bytes that a page should have at most.
const PAGE_BYTES: usize = 8 << 20;
/// So many pages are asked for of one part.
const PART_PAGES: i64 = 4;
/// How often a request that failed for a moment is sent again, and the pauses before that, which double.
pub(super) const TRIES: u32 = 9;
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// A stored document.
#[derive(Debug, Clone)]
pub(super) struct StoredHit {
    pub(super) index: String,
    pub(super) id: String,
    pub(super) routing: Option<String>,
    /// The state that it was read in.
    pub(super) seq_no: u64,
    pub(super) term: u64,
    /// The fields that were asked for, as JSON.
    pub(super) source: Bytes,
}

#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_seq_no")]
    seq_no: u64,
    #[serde(rename = "_primary_term")]
    term: u64,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
    sort: Vec<Value>,
}

/// One part of all documents, of so many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    pub(super) id: u32,
    pub(super) of: u32,
}

/// The reading of documents.
pub(super) struct Pages<'a> {
    operator: &'a Operator,
    target: &'a RouteIndices,
    query: Value,
    slice: Slice,
    /// Documents of a page.
    most: usize,
    size: usize,
    /// How often a search is sent, if it fails for a moment.
    tries: u32,
    points: PointsInTime,
    pit: Option<PointInTime>,
    after: Option<Vec<Value>>,
    /// What decides where the order does not.
    tie: &'static str,
    /// The place in the order behind which documents are asked for, and the end of the part.
    last: Option<i64>,
    until: Option<i64>,
    over: bool,
}

impl<'a> Pages<'a> {
    /// The documents of a target that a query finds. `most`: documents that a page has at most.
    pub(super) fn new(
        operator: &'a Operator,
        target: &'a RouteIndices,
        query: Value,
        slice: Slice,
        most: usize,
    ) -> Pages<'a> {
        Pages {
            operator,
            target,
            query,
            slice,
            most,
            size: most,
            tries: TRIES,
            points: PointsInTime::default(),
            pit: None,
            after: None,
            tie: "_shard_doc",
            last: None,
            until: None,
            over: false,
        }
    }

    /// The same, for somebody who comes back himself: a search that fails for a moment is sent so often at most.
    pub(super) fn with_tries(self, tries: u32) -> Pages<'a> {
        Pages { tries, ..self }
    }

    /// The next documents; none at the end.
    ///
    /// # Errors
    /// When the cluster refuses, stays away or stays busy.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<StoredHit>>, BackfillError> {
        while !self.over {
            let answer = self.search().await?;
            let found = self.take(&answer)?;
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Sends the search of the next page until there is an answer.
    async fn search(&mut self) -> Result<Bytes, BackfillError> {
        let (mut pause, mut tries) = (PAUSE, 0);
        loop {
            let error = match self.search_once().await {
                Ok(answer) => return Ok(answer),
                Err(PointError::NoId(answer)) => {
                    return Err(BackfillError::Answer(answer.to_string()));
                }
                Err(PointError::Operator(error)) => error,
            };
            tries += 1;
            match &error {
                OperatorError::Refused { answer, .. } if is_expired(answer) => {
                    debug!(%error, "the point in time is lost");
                    self.begin_again();
                }
                OperatorError::Refused { status: 400, answer, .. }
                    if answer.contains("_shard_doc") && self.tie == "_shard_doc" =>
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
            if tries == self.tries {
                return Err(BackfillError::Busy(error));
            }
            warn!(%error, "the next documents are asked for again");
            tokio::time::sleep_until(Instant::now() + pause).await;
            pause *= 2;
        }
    }

    fn begin_again(&mut self) {
        if let Some(pit) = self.pit.take() {
            pit.forget();
        }
        self.after = None;
        (self.last, self.until) = (None, None);
    }

    async fn search_once(&mut self) -> Result<Bytes, PointError> {
        let pit = match &self.pit {
            Some(pit) => pit.searched(),
            None => {
                self.target.refresh(self.operator).await?;
                let expression = &self.target.expression;
                let pit = self.points.open(self.operator, expression, None).await?;
                self.pit.insert(pit).searched()
            }
        };
        let mut body = json!({
            "size": self.size,
            "track_total_hits": false,
            "seq_no_primary_term": true,
            "query": self.part(),
            "pit": pit,
            "sort": self.sort(),
            "_source": self.target.route.fields,
        });
        if let Some(after) = &self.after {
            body["search_after"] = json!(after);
        }
        if self.slice.of > 1 {
            body["slice"] = json!({"id": self.slice.id, "max": self.slice.of});
        }
        let path = "/_search?allow_partial_search_results=false";
        let sent = self.operator.ask_bytes(Method::POST, path, Some(&body)).await?;
        Ok(sent)
    }

    fn sort(&self) -> Value {
        let field = self.target.order.field();
        let by = match &self.target.order {
            ReadOrder::Date(_) => {
                json!({"order": "asc", "missing": "_first", "unmapped_type": "date", "numeric_type": "date"})
            }
            ReadOrder::Number(field) if field == "_seq_no" => json!({"order": "asc"}),
            ReadOrder::Number(_) => {
                json!({"order": "asc", "missing": "_first", "unmapped_type": "long"})
            }
            ReadOrder::Other(_) => {
                json!({"order": "asc", "missing": "_first", "unmapped_type": "keyword"})
            }
        };
        json!([{ field: by }, { self.tie: "asc" }])
    }

    /// The query, within the part.
    fn part(&self) -> Value {
        let Some(last) = self.last else {
            return self.query.clone();
        };
        let mut range = json!({ "gte": last });
        if let Some(until) = self.until {
            range["lte"] = until.into();
        }
        if matches!(self.target.order, ReadOrder::Date(_)) {
            range["format"] = "epoch_millis".into();
        }
        json!({"bool": {"filter": [self.query, {"range": {self.target.order.field(): range}}]}})
    }

    /// The documents of a page.
    fn take(&mut self, answer: &Bytes) -> Result<Vec<StoredHit>, BackfillError> {
        let hits: Vec<Hit<'_>> = read_page(answer, self.pit.as_mut()).map_err(BackfillError::Answer)?;
        let is_last = hits.len() < self.size;
        self.over = is_last && self.until.is_none();
        let place = |hit: Option<&Hit<'_>>| hit.and_then(|hit| place_of(hit.sort.first()?));
        let (begin, end) = (place(hits.first()), place(hits.last()));
        if let Some(hit) = hits.last() {
            self.after = Some(hit.sort.clone());
        }
        match (is_last, self.until) {
            (true, Some(until)) => {
                (self.last, self.until) = (Some(until.saturating_add(1)), None);
                self.after = None;
            }
            (true, None) => {}
            (false, _) => self.choose_part(begin, end),
        }
        let found = hits.into_iter().map(|hit| StoredHit {
            index: hit.index,
            id: hit.id,
            routing: hit.routing,
            seq_no: hit.seq_no,
            term: hit.term,
            source: hit
                .source
                .map_or_else(|| Bytes::from_static(b"{}"), |source| answer.slice_ref(source.get().as_bytes())),
        });
        let found: Vec<StoredHit> = found.collect();
        // Pages of about so many bytes, whatever the size of the documents.
        let each = answer.len() / found.len().max(1) + 1;
        self.size = (PAGE_BYTES / each).clamp(1, self.most);
        Ok(found)
    }

    /// The next pages are of a part of the order in which there are some pages, if it goes on as in this one.
    fn choose_part(&mut self, begin: Option<i64>, end: Option<i64>) {
        let numbered = !matches!(self.target.order, ReadOrder::Other(_));
        let Some((begin, end)) = begin.zip(end).filter(|_| numbered) else {
            return;
        };
        self.last = Some(end);
        if self.until.is_none() {
            let span = end.saturating_sub(begin).saturating_add(1);
            self.until = Some(end.saturating_add(span.saturating_mul(PART_PAGES)));
        }
    }

    /// Lets the cluster forget the point in time.
    pub(super) async fn close(self) {
        if let Some(pit) = self.pit {
            pit.close().await;
        }
    }
}

/// The place in the order by which a document was sorted; none if it has none.
fn place_of(sort: &Value) -> Option<i64> {
    // The lowest number stands for none.
    sort.as_i64().filter(|&at| at != i64::MIN)
}
