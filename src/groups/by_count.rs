//! Groups by their number of documents: those of two or more from a list or from the index of roots, those of one by a
//! walk over the documents, newest first.
//!
//! Whether a group is shown by the one or by the other does not depend on when a page is asked for: so none is shown
//! twice or left out, also where the index of roots is late. One that is being made changes from page to page: then the
//! list comes from the documents.

use std::collections::HashSet;
use std::sync::Arc;

use super::IndexReader;
use super::answer::{Relation, Total};
use super::cursor::{CursorPosition, ListedGroup, PageCursor, WalkedDocument};
use super::enumerate::{self, Enumeration};
use super::error::ReadError;
use super::group_counts;
use super::largest::{self, LargestGroups};
use super::list_cache::GroupList;
use super::page::{BatchRequest, GroupBatch, Page, PageParts, first_block};
use super::request::{Direction, GroupsRequest, MAX_COUNTED, SortBy, TotalWanted};
use super::roots;
use super::walk::{self, WalkBlock, WalkOrder};
use crate::config::RestrictedReaders;
use crate::counts::Entries;

/// Most documents under a query for which counts in the whole index are read.
const MAX_SIMILAR: u64 = 100_000;

/// The source of groups of two or more documents.
enum GroupSource {
    /// The index of roots of this name: only for the order, and only for the whole index.
    Roots {
        name: String,
        /// Its first entries, if they were read already.
        first: Option<Vec<ListedGroup>>,
    },
    /// A list that was made for this question.
    List {
        list: Arc<GroupList>,
        id: u64,
        /// Groups of one document are in it, too.
        is_complete: bool,
    },
    /// A list that is read only when needed: the walk finds single documents.
    Unlisted {
        /// The first groups, if they are known without the list.
        first: Option<Vec<ListedGroup>>,
    },
}

/// One question by number of documents.
struct CountOrder<'r, 'a> {
    reader: &'r IndexReader<'a>,
    request: &'r GroupsRequest,
    from: GroupSource,
}

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
    match page_from(reader, request, cursor.clone(), true).await {
        // It went between two pages: the same order comes from the documents.
        Err(ReadError::NoRoots) => page_from(reader, request, cursor, false).await,
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
    let roots = with_roots.then(|| roots_for(reader, request)).flatten();
    let (from, place) = match cursor {
        None => {
            let from = first(reader, request, roots, &mut parts).await?;
            (from, first_place(request))
        }
        Some(cursor) => {
            parts.total = cursor.total.map(Total::of_cursor);
            let from = match (kept(reader, request, cursor.list), roots) {
                (Some(kept), _) => kept,
                (None, Some(name)) if cursor.list.is_none() => GroupSource::Roots { name, first: None },
                (None, _) if may_be_unlisted(request) => GroupSource::Unlisted { first: None },
                (None, _) => make_list(reader, request, None).await?.0,
            };
            (from, cursor.place)
        }
    };
    let mut by_count = CountOrder { reader, request, from };
    let mut page = parts.begin(GroupBatch::before(place));
    while let Some(BatchRequest { place, size, round }) = page.wanted() {
        page.add(by_count.next(&place, size, round).await?);
    }
    page.came_from(by_count.from.list_id());
    Ok(page.finish())
}

/// Where the first page begins.
fn first_place(request: &GroupsRequest) -> CursorPosition {
    match request.direction {
        Direction::Ascending if !is_complete(request) => CursorPosition::Walked(None),
        Direction::Ascending | Direction::Descending => CursorPosition::Listed(None),
    }
}

/// The roots index that can answer this request.
fn roots_for(reader: &IndexReader<'_>, request: &GroupsRequest) -> Option<String> {
    let may = request.is_whole_index() && !request.exact && reader.restricted == RestrictedReaders::None;
    may.then(|| roots::name_for(&reader.index)).flatten()
}

/// A list that was made for an earlier page.
fn kept(reader: &IndexReader<'_>, request: &GroupsRequest, id: Option<u64>) -> Option<GroupSource> {
    let id = id?;
    let list = reader.lists.get(id, reader.caller, reader.now)?;
    Some(GroupSource::List { list, id, is_complete: is_complete(request) })
}

/// Whether groups of one document are listed, too: their order is another one than that of the walk.
fn is_complete(request: &GroupsRequest) -> bool {
    request.sort == SortBy::SimilarCount && !request.is_whole_index()
}

/// Whether the first page needs no list: groups of equal count are ordered by key.
fn may_be_unlisted(request: &GroupsRequest) -> bool {
    request.sort == SortBy::MatchingCount && !request.is_whole_index()
}

/// Returns the source of groups for a first page, their number, and a note.
async fn first(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
    parts: &mut PageParts,
) -> Result<GroupSource, ReadError> {
    let source = &reader.source;
    let with_total = request.total != TotalWanted::No;
    let before = reader.counts.entries(&reader.index);
    let counted = enumerate::count(source, &request.query, i32::MAX as u64 - 1);
    let (((documents, _), unstamped), ahead) = match (roots, before) {
        // The entries change while they are read and would reorder groups, so the order comes from the documents, as
        // long as there are not too many.
        (Some(roots), Entries::Unfinished) => {
            let counted = counted.await?;
            let roots = Some(roots).filter(|_| counted.0.0 > limit(request).1);
            (counted, ahead(reader, request, roots).await?)
        }
        (roots, _) => tokio::try_join!(counted, ahead(reader, request, roots))?,
    };
    parts.unstamped = unstamped;
    match ahead {
        PrefetchedCounts::Roots { name, found } => {
            let after = reader.counts.entries(&reader.index);
            if with_total {
                let groups = (documents + found.entries).saturating_sub(found.documents);
                let is_exact = (before, after) == (Entries::True, Entries::True);
                let relation = match is_exact {
                    true => Relation::Equal,
                    false => Relation::About,
                };
                parts.total = Some(Total { value: groups, relation });
            }
            parts.notes.extend(note_of(after));
            let is_first = request.direction == Direction::Descending;
            Ok(GroupSource::Roots { name, first: is_first.then_some(found.first) })
        }
        PrefetchedCounts::Largest(LargestGroups::All(groups)) => {
            check_limit(request, documents)?;
            let list = GroupList::new(groups, request.direction);
            Ok(keep(reader, request, list))
        }
        PrefetchedCounts::Largest(LargestGroups::First(groups)) => {
            check_limit(request, documents)?;
            Ok(GroupSource::Unlisted { first: Some(groups) })
        }
        PrefetchedCounts::Walk => {
            check_limit(request, documents)?;
            Ok(GroupSource::Unlisted { first: None })
        }
        PrefetchedCounts::Largest(LargestGroups::Unproven) | PrefetchedCounts::Nothing => {
            let (from, total) = make_list(reader, request, Some(documents)).await?;
            parts.total = total;
            Ok(from)
        }
    }
}

/// The note for an order and a number taken from the roots index.
fn note_of(entries: Entries) -> Option<String> {
    let how = match entries {
        Entries::True => return None,
        Entries::Late { is_failing: false } => "lags behind writes",
        Entries::Late { is_failing: true } => "is behind: spinney cannot count at present",
        Entries::Unknown => "may be behind: this spinney does not count (--counts off)",
        Entries::Unfinished => {
            "is not complete: until spinney has compared all of it, groups may come twice, or not at all"
        }
    };
    Some(format!(
        "the order and the number of groups follow the index of roots, which {how}; \"exact\": true does without it"
    ))
}

/// Number of groups requested with the page.
enum PrefetchedCounts {
    Roots {
        name: String,
        found: roots::RootsSummary,
    },
    Largest(LargestGroups),
    /// The first page is walked, and needs no list.
    Walk,
    Nothing,
}

async fn ahead(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
) -> Result<PrefetchedCounts, ReadError> {
    let source = &reader.source;
    let (with_total, direction) = (request.total != TotalWanted::No, request.direction);
    if let Some(name) = roots {
        let size = match direction {
            Direction::Descending => request.size + 1,
            // The walk comes first.
            Direction::Ascending => 0,
        };
        let found = roots::first(source, &name, direction, size, with_total).await?;
        return Ok(match found {
            Some(found) => PrefetchedCounts::Roots { name, found },
            None => PrefetchedCounts::Nothing,
        });
    }
    Ok(match direction {
        // To be counted, the groups are listed anyway.
        _ if with_total || !may_be_unlisted(request) => PrefetchedCounts::Nothing,
        Direction::Ascending => PrefetchedCounts::Walk,
        Direction::Descending => {
            PrefetchedCounts::Largest(largest::largest(source, &request.query, request.size + 1).await?)
        }
    })
}

/// Refuses requests with too many documents to list their groups.
fn check_limit(request: &GroupsRequest, documents: u64) -> Result<(), ReadError> {
    let (sort, limit) = limit(request);
    match documents > limit {
        true => Err(ReadError::TooMany { sort, limit }),
        false => Ok(()),
    }
}

fn limit(request: &GroupsRequest) -> (&'static str, u64) {
    match (&request.sort, is_complete(request)) {
        (SortBy::SimilarCount, true) => ("similar_count", MAX_SIMILAR),
        (SortBy::SimilarCount, false) => ("similar_count", MAX_COUNTED),
        _ => ("matching_count", MAX_COUNTED),
    }
}

async fn make_list(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    documents: Option<u64>,
) -> Result<(GroupSource, Option<Total>), ReadError> {
    let documents = match documents {
        Some(documents) => documents,
        None => {
            let (_, limit) = limit(request);
            let counted = enumerate::count(&reader.source, &request.query, limit).await?;
            counted.0.0
        }
    };
    check_limit(request, documents)?;
    let is_complete = is_complete(request);
    let what = Enumeration {
        query: &request.query,
        at_least: if is_complete { 1 } else { 2 },
        with_last: !is_complete && !may_be_unlisted(request),
        documents,
    };
    let all = enumerate::enumerate(&reader.source, &what).await?;
    let value = all.number_of_groups();
    let groups = if is_complete {
        let keys: Vec<i64> = all.groups.iter().map(|group| group.key).collect();
        enumerate::whole_counts(&reader.source, &keys).await?
    } else {
        all.groups
    };
    let total = (request.total != TotalWanted::No).then_some(Total { value, relation: Relation::Equal });
    let list = GroupList::new(groups, request.direction);
    Ok((keep(reader, request, list), total))
}

/// Keeps groups for the next pages.
fn keep(reader: &IndexReader<'_>, request: &GroupsRequest, list: GroupList) -> GroupSource {
    let (list, id) = (Arc::new(list), reader.new_list_id());
    reader.lists.keep(id, reader.caller, reader.now, list.clone());
    GroupSource::List { list, id, is_complete: is_complete(request) }
}

impl GroupSource {
    fn list_id(&self) -> Option<u64> {
        match self {
            GroupSource::List { id, .. } => Some(*id),
            GroupSource::Unlisted { .. } | GroupSource::Roots { .. } => None,
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self, GroupSource::List { is_complete: true, .. })
    }
}

impl CountOrder<'_, '_> {
    /// The next groups after a position.
    async fn next(&mut self, place: &CursorPosition, size: usize, round: u32) -> Result<GroupBatch, ReadError> {
        match place {
            CursorPosition::Listed(after) => self.listed(after.as_ref(), size).await,
            CursorPosition::Walked(after) => self.walked(after.as_ref(), size, round).await,
        }
    }

    /// The next groups of the list, which is made if need be.
    async fn places(&mut self, after: Option<&ListedGroup>, size: usize) -> Result<Vec<ListedGroup>, ReadError> {
        let direction = self.request.direction;
        if let GroupSource::Roots { first, .. } | GroupSource::Unlisted { first } = &mut self.from
            && let (None, Some(mut first)) = (after, first.take())
        {
            first.truncate(size);
            return Ok(first);
        }
        if let GroupSource::Unlisted { .. } = &self.from {
            self.from = make_list(self.reader, self.request, None).await?.0;
        }
        match &self.from {
            GroupSource::Roots { name, .. } => roots::page(&self.reader.source, name, direction, after, size).await,
            GroupSource::List { list, .. } => Ok(list.after(after, direction, size).to_vec()),
            GroupSource::Unlisted { .. } => Ok(Vec::new()),
        }
    }

    async fn listed(&mut self, after: Option<&ListedGroup>, size: usize) -> Result<GroupBatch, ReadError> {
        let direction = self.request.direction;
        let listed = self.places(after, size).await?;
        let next = match listed.last() {
            Some(&last) if listed.len() == size => Some(CursorPosition::Listed(Some(last))),
            _ if direction == Direction::Descending && !self.from.is_complete() => Some(CursorPosition::Walked(None)),
            _ => None,
        };
        let keys: Vec<i64> = listed.iter().map(|group| group.key).collect();
        let groups = group_counts::groups(&self.reader.source, self.request, &keys).await?;
        let places = listed.into_iter().map(|group| (group.key, CursorPosition::Listed(Some(group))));
        let mut batch = GroupBatch::of(places, groups, next);
        if matches!(self.from, GroupSource::Roots { .. }) {
            // The walk shows singletons.
            batch.found.retain(|(group, _)| group.similar_count >= 2);
        }
        Ok(batch)
    }

    async fn walked(&self, after: Option<&WalkedDocument>, size: usize, round: u32) -> Result<GroupBatch, ReadError> {
        let source = &self.reader.source;
        let order = WalkOrder::newest(source);
        let wanted = first_block(size) << round.min(4);
        let block = walk::block(source, &self.request.query, &order, after, wanted).await?;
        let WalkBlock { walked: block, is_last } = block;
        let last = block.last().cloned();
        let mut shown = self.shown_by_the_walk(&order, block).await?;
        let is_cut = shown.len() > size;
        shown.truncate(size);
        let next = match (is_cut, shown.last()) {
            (true, Some(last)) => Some(CursorPosition::Walked(Some(last.clone()))),
            _ if !is_last => Some(CursorPosition::Walked(last)),
            _ if self.request.direction == Direction::Ascending => Some(CursorPosition::Listed(None)),
            _ => None,
        };
        let keys: Vec<i64> = shown.iter().map(|walked| walked.key).collect();
        let groups = group_counts::groups(source, self.request, &keys).await?;
        let places = shown.into_iter().map(|walked| (walked.key, CursorPosition::Walked(Some(walked))));
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
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let counts = group_counts::counts(source, query, &keys).await?;
        let several: Vec<i64> =
            keys.into_iter().filter(|key| counts.get(key).is_some_and(|&count| count >= 2)).collect();
        let mut unlisted = several;
        match &self.from {
            GroupSource::List { list, .. } => unlisted.retain(|&key| !list.contains(key)),
            GroupSource::Roots { name, .. } => {
                let listed = roots::listed(source, name, &unlisted).await?;
                unlisted.retain(|key| !listed.contains(key));
            }
            GroupSource::Unlisted { .. } => unlisted.clear(),
        }
        let best = group_counts::best(source, query, order, &unlisted).await?;
        let mut shown = HashSet::new();
        let is_shown = |walked: &WalkedDocument| {
            let is_best = match counts.get(&walked.key) {
                None => false,
                Some(1) => match &self.from {
                    GroupSource::List { list, .. } => !list.contains(walked.key),
                    GroupSource::Roots { .. } | GroupSource::Unlisted { .. } => true,
                },
                Some(_) => best.get(&walked.key).is_some_and(|best| best == walked),
            };
            is_best && shown.insert(walked.key)
        };
        Ok(block.into_iter().filter(is_shown).collect())
    }
}
