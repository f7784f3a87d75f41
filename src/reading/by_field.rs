//! Groups by the best of their documents under a query, by `_score` or a field: one collapsed search for the first
//! page, a walk for the others, because the servers cannot continue a collapsed search after a position.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Reader;
use super::answer::{Relation, Total};
use super::cursor::{Cursor, Place, Walked};
use super::enumerate::{self, Enumeration};
use super::error::ReadError;
use super::numbers;
use super::page::{Batch, Page, PageParts, Wanted, first_block};
use super::request::{GroupsRequest, TotalWanted};
use super::walk::{self, Block, Order};

/// One page.
///
/// # Errors
/// As [`Reader::groups`].
pub(super) async fn page(
    reader: &Reader<'_>,
    request: &GroupsRequest,
    field: &str,
    cursor: Option<Cursor>,
) -> Result<Page, ReadError> {
    let by_field = ByField {
        reader,
        request,
        order: Order {
            field: field.to_owned(),
            direction: request.direction,
            is_time: field == reader.source.fields.time,
        },
    };
    let mut parts = PageParts::new(request);
    let first = match cursor {
        None => {
            let first = by_field.first(request.size + 1);
            let (first, (total, unstamped)) = tokio::try_join!(first, total(reader, request))?;
            parts.total = total;
            parts.unstamped = unstamped;
            first
        }
        Some(cursor) => {
            parts.total = cursor.total.map(Total::of_cursor);
            Batch::before(cursor.place)
        }
    };
    let mut page = parts.begin(first);
    while let Some(Wanted { place, size, round }) = page.wanted() {
        page.add(by_field.next(&place, size, round).await?);
    }
    Ok(page.finish())
}

/// The number of groups, and of the documents without a stamp.
async fn total(
    reader: &Reader<'_>,
    request: &GroupsRequest,
) -> Result<(Option<Total>, u64), ReadError> {
    let (source, query) = (&reader.source, &request.query);
    let limit = match request.total {
        TotalWanted::No => 0,
        TotalWanted::UpTo(limit) => limit,
    };
    let ((documents, is_exact), unstamped) =
        enumerate::count(source, query, i32::MAX as u64 - 1).await?;
    if limit == 0 {
        return Ok((None, unstamped));
    }
    let (value, relation) = if is_exact && documents <= limit {
        let what = Enumeration {
            query,
            at_least: 2,
            with_last: false,
            documents,
        };
        let all = enumerate::enumerate(source, &what).await?;
        (all.number_of_groups(), Relation::Equal)
    } else {
        let proven = enumerate::at_least(source, query, limit, documents).await?;
        (proven, Relation::AtLeast)
    };
    Ok((Some(Total { value, relation }), unstamped))
}

struct ByField<'r, 'a> {
    reader: &'r Reader<'a>,
    request: &'r GroupsRequest,
    order: Order,
}

impl ByField<'_, '_> {
    async fn first(&self, size: usize) -> Result<Batch, ReadError> {
        let source = &self.reader.source;
        let body = json!({
            "size": size,
            "track_total_hits": false,
            "_source": false,
            "stored_fields": "_none_",
            "collapse": {"field": source.fields.key},
            "sort": self.order.sort(source, true),
        });
        let query = source.stamped(&self.request.query, vec![]);
        let hits = source.search_by::<Value>(&query, body).await?.hits.hits;
        let shown: Vec<Walked> = hits
            .into_iter()
            .map(|hit| walk::walked(hit.sort))
            .collect::<Result<_, _>>()?;
        let last = shown.last().filter(|_| shown.len() == size);
        let then = last.map(|last| Place::Walked(Some(last.clone())));
        self.batch(shown, then).await
    }

    async fn next(&self, place: &Place, size: usize, round: u32) -> Result<Batch, ReadError> {
        let after = match place {
            Place::Walked(after) => after.as_ref(),
            // Cursors of this order have no such position.
            Place::Listed(_) => None,
        };
        let (source, query) = (&self.reader.source, &self.request.query);
        let wanted = first_block(size) << round.min(4);
        let block = walk::block(source, query, &self.order, after, wanted).await?;
        let Block {
            walked: block,
            is_last,
        } = block;
        let last = block.last().cloned();
        let keys: HashSet<i64> = block.iter().map(|walked| walked.key).collect();
        let keys: Vec<i64> = keys.into_iter().collect();
        let best = numbers::best(source, query, &self.order, &keys).await?;
        let mut seen = HashSet::new();
        let mut shown: Vec<Walked> = block
            .into_iter()
            .filter(|walked| best.get(&walked.key) == Some(walked) && seen.insert(walked.key))
            .collect();
        let is_cut = shown.len() > size;
        shown.truncate(size);
        let then = match (is_cut, shown.last()) {
            (true, Some(last)) => Some(Place::Walked(Some(last.clone()))),
            _ if !is_last => Some(Place::Walked(last)),
            _ => None,
        };
        self.batch(shown, then).await
    }

    async fn batch(&self, shown: Vec<Walked>, then: Option<Place>) -> Result<Batch, ReadError> {
        let keys: Vec<i64> = shown.iter().map(|walked| walked.key).collect();
        let groups = numbers::groups(&self.reader.source, self.request, &keys).await?;
        let places = shown
            .into_iter()
            .map(|walked| (walked.key, Place::Walked(Some(walked))));
        Ok(Batch::of(places, groups, then))
    }
}
