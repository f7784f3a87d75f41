//! Groups in the order of their best documents under a query.
//!
//! Documents are compared by `_score` or a field. One collapsed search reads the first page, a walk the others, because
//! the servers cannot continue a collapsed search after a position.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::IndexReader;
use super::answer::Total;
use super::cursor::{CursorPosition, PageCursor, WalkedDocument};
use super::enumerate;
use super::error::ReadError;
use super::group_counts;
use super::page::{BatchRequest, GroupBatch, Page, PageParts, first_block};
use super::request::GroupsRequest;
use super::sort_part::SortPart;
use super::walk::{self, WalkBlock, WalkOrder};

/// Of a further page by score: a cursor is a score, and those of all documents change with what is written.
const SCORES_MOVE: &str = "scores move while documents are written: groups may be missing, or come twice, on further \
                           pages; sort by a field for a whole list";

/// The name by which the first page tells documents that have the field.
const VALUED: &str = "_spinney_valued";

/// Reads one page of groups, ordered by `field`.
///
/// # Errors
/// As [`IndexReader::groups`].
pub(super) async fn page(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    field: &str,
    cursor: Option<PageCursor>,
) -> Result<Page, ReadError> {
    let by_field = FieldOrder {
        reader,
        request,
        order: WalkOrder {
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
            // Without a query all scores are the same.
            if field == "_score" && !request.is_whole_index() {
                parts.notes.push(SCORES_MOVE.into());
            }
            GroupBatch::before(cursor.place)
        }
    };
    let mut page = parts.begin(first);
    while let Some(BatchRequest { place, size, round }) = page.wanted() {
        page.add(by_field.next(&place, size, round).await?);
    }
    Ok(page.finish())
}

/// Counts the groups, if the request wants it, and the documents without a stamp.
async fn total(reader: &IndexReader<'_>, request: &GroupsRequest) -> Result<(Option<Total>, u64), ReadError> {
    let source = &reader.source;
    let (counted, unstamped) = enumerate::count(source, &request.query, i32::MAX as u64 - 1).await?;
    Ok((enumerate::number_of_groups(source, request, counted).await?, unstamped))
}

/// A request for groups that are ordered by a field.
struct FieldOrder<'r, 'a> {
    reader: &'r IndexReader<'a>,
    request: &'r GroupsRequest,
    order: WalkOrder,
}

impl FieldOrder<'_, '_> {
    /// The first groups, by a collapsed search, which can sort those without a value, too, and says which these are.
    async fn first(&self, size: usize) -> Result<GroupBatch, ReadError> {
        let source = &self.reader.source;
        let SortPart { filter, sort } = self.order.valued(source, true);
        let may_lack = filter.is_some();
        let body = json!({
            "size": size,
            "track_total_hits": false,
            "_source": false,
            "stored_fields": "_none_",
            "collapse": {"field": source.fields.key},
            "sort": sort,
        });
        let query = source.stamped(&self.request.query, vec![]);
        let query = match filter {
            Some(filter) => query.naming(VALUED, &filter),
            None => query,
        };
        let hits = source.search_by::<Value>(&query, body).await?.hits;
        let shown = hits.into_iter().map(|hit| {
            let has_value = !may_lack || hit.matched_queries.iter().any(|name| name == VALUED);
            let walked = walk::walked(hit.sort)?;
            Ok(WalkedDocument { value: walked.value.filter(|_| has_value), key: walked.key })
        });
        let shown: Vec<WalkedDocument> = shown.collect::<Result<_, ReadError>>()?;
        let last = shown.last().filter(|_| shown.len() == size);
        let next = last.map(|last| CursorPosition::Walked(Some(last.place())));
        self.batch(shown, next).await
    }

    /// The groups after a position, by a block of a walk.
    async fn next(&self, place: &CursorPosition, size: usize, round: u32) -> Result<GroupBatch, ReadError> {
        let after = match place {
            CursorPosition::Walked(after) => after.as_ref(),
            // Cursors of this order have no such position.
            CursorPosition::Listed(_) => None,
        };
        let (source, query) = (&self.reader.source, &self.request.query);
        let wanted = first_block(size) << round.min(4);
        let block = walk::block(source, query, &self.order, after, wanted).await?;
        let WalkBlock { walked: block, next } = block;
        let keys: HashSet<i64> = block.iter().map(|walked| walked.key).collect();
        let keys: Vec<i64> = keys.into_iter().collect();
        let best = group_counts::best(source, query, &self.order, &keys, walk::have_value(&block)).await?;
        let mut seen = HashSet::new();
        let mut shown: Vec<WalkedDocument> = block
            .into_iter()
            .filter(|walked| best.get(&walked.key) == Some(walked) && seen.insert(walked.key))
            .collect();
        let is_cut = shown.len() > size;
        shown.truncate(size);
        let next = match (is_cut, shown.last()) {
            (true, Some(last)) => Some(last.place()),
            _ => next,
        };
        self.batch(shown, next.map(|next| CursorPosition::Walked(Some(next)))).await
    }

    /// The groups of these best documents, with their positions.
    async fn batch(&self, shown: Vec<WalkedDocument>, next: Option<CursorPosition>) -> Result<GroupBatch, ReadError> {
        let keys: Vec<i64> = shown.iter().map(|walked| walked.key).collect();
        let groups = group_counts::groups(&self.reader.source, self.request, &keys).await?;
        let places = shown.into_iter().map(|walked| (walked.key, CursorPosition::Walked(Some(walked.place()))));
        Ok(GroupBatch::of(places, groups, next))
    }
}
