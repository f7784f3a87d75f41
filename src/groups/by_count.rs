//! Groups by their number of documents: those of two or more from a list or from the index of roots, those of one by a
//! walk over the documents, newest first. Under a query with many documents the order is that of the whole index, of
//! which those groups are kept that have a document under the query.
//!
//! Whether a group is shown by the one or by the other does not depend on when a page is asked for: so none is shown
//! twice or left out, also where the index of roots is late. One that is being made changes from page to page: then the
//! list comes from the documents. The documents order groups of equal count otherwise, so a cursor goes on where its
//! first page has begun, or is refused.

use std::collections::HashSet;

use super::IndexReader;
use super::answer::Total;
use super::cursor::{CursorPosition, ListedGroup, Listing, PageCursor, WalkPlace, WalkedDocument};
use super::error::ReadError;
use super::group_counts;
use super::group_order::{self, GroupOrder, GroupSource, compared_at_once};
use super::page::{BatchRequest, GroupBatch, Page, PageParts, first_block};
use super::query::SearchQuery;
use super::request::{Direction, GroupsRequest, RequestError, SortBy};
use super::roots;
use super::walk::{self, WalkBlock, WalkOrder};
use crate::config::RestrictedReaders;

/// One question by number of documents.
struct CountOrder<'r, 'a> {
    reader: &'r IndexReader<'a>,
    request: &'r GroupsRequest,
    order: GroupOrder,
}

/// A cursor whose first page was in the order of the index of roots.
const ORDER_GONE: RequestError =
    RequestError::Cursor("goes on in the order of the index of roots, which cannot be read any more");

/// One page.
///
/// # Errors
/// As [`IndexReader::groups`].
pub(super) async fn page(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    cursor: Option<PageCursor>,
) -> Result<Page, ReadError> {
    if request.sort == SortBy::SimilarCount && reader.restricted == RestrictedReaders::Refuse {
        return Err(ReadError::Restricted);
    }
    let is_first = cursor.is_none();
    match page_from(reader, request, cursor, true).await {
        // It went while the page was read: the order comes from the documents.
        Err(ReadError::NoRoots) if is_first => page_from(reader, request, None, false).await,
        Err(ReadError::NoRoots) => Err(ORDER_GONE.into()),
        page => page,
    }
}

async fn page_from(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    cursor: Option<PageCursor>,
    with_roots: bool,
) -> Result<Page, ReadError> {
    let mut parts = PageParts::new(request);
    let roots = with_roots.then(|| group_order::roots_for(reader, request)).flatten();
    let (order, place) = match cursor {
        None => {
            let order = group_order::first(reader, request, roots, &mut parts).await?;
            let place = first_place(request, order.listing);
            (order, place)
        }
        Some(PageCursor { place, total, listing, list }) => {
            parts.total = total.map(Total::of_cursor);
            (group_order::next(reader, request, roots, (listing, list), &mut parts).await?, place)
        }
    };
    let mut by_count = CountOrder { reader, request, order };
    let mut page = parts.begin(GroupBatch::before(place));
    while let Some(BatchRequest { place, size, round }) = page.wanted() {
        page.add(by_count.next(&place, size, round).await?);
    }
    page.came_from(by_count.order.listing, by_count.order.list_id());
    Ok(page.finish())
}

/// Where the first page begins.
fn first_place(request: &GroupsRequest, listing: Listing) -> CursorPosition {
    match request.direction {
        Direction::Ascending if listing != Listing::All => CursorPosition::Walked(None),
        Direction::Ascending | Direction::Descending => CursorPosition::Listed(None),
    }
}

impl CountOrder<'_, '_> {
    /// The next groups after a position.
    async fn next(&mut self, place: &CursorPosition, size: usize, round: u32) -> Result<GroupBatch, ReadError> {
        match place {
            CursorPosition::Listed(after) => self.listed(after.as_ref(), size, round).await,
            CursorPosition::Walked(after) => self.walked(after.as_ref(), size, round).await,
        }
    }

    async fn listed(&mut self, after: Option<&ListedGroup>, size: usize, round: u32) -> Result<GroupBatch, ReadError> {
        let (source, request) = (&self.reader.source, self.request);
        let wanted = match self.order.listing {
            Listing::Index => compared_at_once(round),
            Listing::Repeated | Listing::All => size,
        };
        let mut listed = self.order.after(self.reader, request, after, wanted).await?;
        let last = listed.last().copied().filter(|_| listed.len() == wanted);
        if self.order.listing == Listing::Index {
            let keys: Vec<i64> = listed.iter().map(|group| group.key).collect();
            let matching = group_counts::counts(source, &request.query, &keys).await?;
            listed.retain(|group| matching.contains_key(&group.key));
        }
        let is_cut = listed.len() > size;
        listed.truncate(size);
        let next = match if is_cut { listed.last().copied() } else { last } {
            Some(last) => Some(CursorPosition::Listed(Some(last))),
            None if request.direction == Direction::Descending && self.order.listing != Listing::All => {
                Some(CursorPosition::Walked(None))
            }
            None => None,
        };
        let keys: Vec<i64> = listed.iter().map(|group| group.key).collect();
        let groups = group_counts::groups(source, request, &keys).await?;
        let places = listed.into_iter().map(|group| (group.key, CursorPosition::Listed(Some(group))));
        let mut batch = GroupBatch::of(places, groups, next);
        if matches!(self.order.from, GroupSource::Roots { .. }) {
            // The walk shows singletons.
            batch.found.retain(|(group, _)| group.similar_count >= 2);
        }
        Ok(batch)
    }

    async fn walked(&self, after: Option<&WalkPlace>, size: usize, round: u32) -> Result<GroupBatch, ReadError> {
        let source = &self.reader.source;
        let order = WalkOrder::newest(source);
        let wanted = first_block(size) << round.min(4);
        let block = walk::block(source, &self.request.query, &order, after, wanted).await?;
        let WalkBlock { walked: block, next } = block;
        let mut shown = self.shown_by_the_walk(&order, block).await?;
        let is_cut = shown.len() > size;
        shown.truncate(size);
        let next = match (is_cut, shown.last()) {
            (true, Some(last)) => Some(CursorPosition::Walked(Some(last.place()))),
            _ if next.is_some() => Some(CursorPosition::Walked(next)),
            _ if self.request.direction == Direction::Ascending => Some(CursorPosition::Listed(None)),
            _ => None,
        };
        let keys: Vec<i64> = shown.iter().map(|walked| walked.key).collect();
        let groups = group_counts::groups(source, self.request, &keys).await?;
        let places = shown.into_iter().map(|walked| (walked.key, CursorPosition::Walked(Some(walked.place()))));
        Ok(GroupBatch::of(places, groups, next))
    }

    /// The documents of a block that the walk shows: single ones, and the newest of unlisted groups.
    async fn shown_by_the_walk(
        &self,
        order: &WalkOrder,
        block: Vec<WalkedDocument>,
    ) -> Result<Vec<WalkedDocument>, ReadError> {
        let (source, query) = (&self.reader.source, &self.request.query);
        let mut seen = HashSet::new();
        let keys: Vec<i64> = block.iter().map(|walked| walked.key).filter(|&key| seen.insert(key)).collect();
        // The list has groups by their documents in the whole index, or by those under the query.
        let all = SearchQuery::all();
        let counted = if self.order.listing == Listing::Index { &all } else { query };
        let counts = group_counts::counts(source, counted, &keys).await?;
        let several: Vec<i64> =
            keys.into_iter().filter(|key| counts.get(key).is_some_and(|&count| count >= 2)).collect();
        let mut unlisted = several;
        match &self.order.from {
            GroupSource::List { list, .. } => unlisted.retain(|&key| !list.contains(key)),
            GroupSource::Roots { name } => {
                let listed = roots::listed(source, name, &unlisted).await?;
                unlisted.retain(|key| !listed.contains(key));
            }
            GroupSource::NotYet => unlisted.clear(),
        }
        let best = group_counts::best(source, query, order, &unlisted, walk::have_value(&block)).await?;
        let mut shown = HashSet::new();
        let is_shown = |walked: &WalkedDocument| {
            let is_best = match counts.get(&walked.key) {
                None => false,
                Some(1) => match &self.order.from {
                    GroupSource::List { list, .. } => !list.contains(walked.key),
                    GroupSource::Roots { .. } | GroupSource::NotYet => true,
                },
                Some(_) => best.get(&walked.key).is_some_and(|best| best == walked),
            };
            is_best && shown.insert(walked.key)
        };
        Ok(block.into_iter().filter(is_shown).collect())
    }
}
