//! Which groups an order by number of documents is read from, and in which order they are there.
//!
//! A first page decides, by the number of documents under the query; the cursor says to the next pages what it decided.

use std::sync::Arc;

use super::IndexReader;
use super::answer::{Relation, Total};
use super::cursor::{ListedGroup, Listing};
use super::enumerate::{self, EnumeratedGroups, Enumeration};
use super::error::ReadError;
use super::largest;
use super::list_cache::GroupList;
use super::page::PageParts;
use super::query::SearchQuery;
use super::request::{Direction, GroupsRequest, MAX_COUNTED, SortBy, TotalWanted};
use super::roots;
use crate::config::RestrictedReaders;
use crate::counts::Entries;

/// Documents under a query up to which all its groups are counted in the whole index; above, and without a roots index,
/// all groups of the whole index are listed.
const MAX_SIMILAR: u64 = 100_000;

/// The same where a roots index gives the order, of an index with so many documents. A list takes time by the documents
/// under the query; to look for its groups in the roots index takes the longer, the larger the index and the fewer they
/// are. At twice the square root both take about the same, as measured.
fn few(of_index: u64) -> u64 {
    (2 * of_index.isqrt()).clamp(3_000, MAX_SIMILAR)
}

/// Documents of a query that has grown since its list was made.
const GROWN: u64 = 2 * MAX_SIMILAR;

/// How many groups of the whole index are compared with a query at once; more, if the rounds before have not found
/// enough. A search gives 10,000 entries at most.
pub(super) fn compared_at_once(round: u32) -> usize {
    1_000 << (2 * round).min(3)
}

/// Where the groups are.
pub(super) enum GroupSource {
    /// In the roots index of this name.
    Roots { name: String },
    /// In a list that was made for this question.
    List { list: Arc<GroupList>, id: u64 },
    /// In a list that is made when the walk, or the first groups, are not enough.
    NotYet,
}

/// The groups of a question, in their order.
pub(super) struct GroupOrder {
    pub listing: Listing,
    pub from: GroupSource,
    /// The first groups, if they are known already.
    first: Option<Vec<ListedGroup>>,
}

impl GroupOrder {
    pub(super) fn list_id(&self) -> Option<u64> {
        match self.from {
            GroupSource::List { id, .. } => Some(id),
            GroupSource::Roots { .. } | GroupSource::NotYet => None,
        }
    }

    /// The next groups after a position; fewer than `size` are the last ones.
    ///
    /// # Errors
    /// As [`first`].
    pub(super) async fn after(
        &mut self,
        reader: &IndexReader<'_>,
        request: &GroupsRequest,
        after: Option<&ListedGroup>,
        size: usize,
    ) -> Result<Vec<ListedGroup>, ReadError> {
        if let (None, Some(mut first)) = (after, self.first.take()) {
            first.truncate(size);
            return Ok(first);
        }
        if let GroupSource::NotYet = self.from {
            *self = list(reader, request, self.listing, None).await?.0;
        }
        let direction = request.direction;
        match &self.from {
            GroupSource::Roots { name } => roots::page(&reader.source, name, direction, after, size).await,
            GroupSource::List { list, .. } => Ok(list.after(after, direction, size).to_vec()),
            GroupSource::NotYet => Ok(Vec::new()),
        }
    }
}

/// The roots index that can order the groups of this request.
pub(super) fn roots_for(reader: &IndexReader<'_>, request: &GroupsRequest) -> Option<String> {
    let is_by_whole_groups = request.sort == SortBy::SimilarCount || request.is_whole_index();
    let may = is_by_whole_groups && !request.exact && reader.restricted == RestrictedReaders::None;
    may.then(|| roots::name_for(&reader.index)).flatten()
}

/// The order of a first page. Adds the number of groups, and notes.
///
/// # Errors
/// As [`IndexReader::groups`].
pub(super) async fn first(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
    parts: &mut PageParts,
) -> Result<GroupOrder, ReadError> {
    match request.sort {
        _ if request.is_whole_index() => of_whole_index(reader, request, roots, parts).await,
        SortBy::SimilarCount => by_similar_count(reader, request, roots, parts).await,
        SortBy::MatchingCount | SortBy::Field(_) => by_matching_count(reader, request, parts).await,
    }
}

/// The order of a page after another one. Adds a note.
///
/// # Errors
/// As [`first`]; [`ReadError::NoRoots`] when the first page was in the order of an index of roots, and this cannot be.
pub(super) async fn next(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
    (listing, id): (Listing, Option<u64>),
    parts: &mut PageParts,
) -> Result<GroupOrder, ReadError> {
    let kept = id.and_then(|id| Some((id, reader.lists.get(id, reader.caller, reader.now)?)));
    let from = match (kept, roots) {
        (Some((id, list)), _) => GroupSource::List { list, id },
        (None, Some(name)) if id.is_none() && listing != Listing::All => {
            let entries = reader.counts.entries(&reader.index);
            let note = (entries == Entries::Unfinished).then(|| note_of(entries, "the order of groups follows"));
            parts.notes.extend(note.flatten());
            GroupSource::Roots { name }
        }
        (None, _) if request.sort == SortBy::MatchingCount && !request.is_whole_index() => GroupSource::NotYet,
        (None, None) if id.is_none() && listing != Listing::All => return Err(ReadError::NoRoots),
        (None, _) => return Ok(list(reader, request, listing, None).await?.0),
    };
    Ok(GroupOrder { listing, from, first: None })
}

async fn count(reader: &IndexReader<'_>, query: &SearchQuery) -> Result<((u64, bool), u64), ReadError> {
    enumerate::count(&reader.source, query, i32::MAX as u64 - 1).await
}

/// Groups of the whole index, from the roots index if there is one.
async fn of_whole_index(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
    parts: &mut PageParts,
) -> Result<GroupOrder, ReadError> {
    let (direction, with_total) = (request.direction, request.total != TotalWanted::No);
    // Ascending, the walk comes first.
    let size = if direction == Direction::Descending { request.size + 1 } else { 0 };
    let summary = async |name: Option<String>| match name {
        Some(name) => {
            let found = roots::first(&reader.source, &name, direction, size, with_total).await?;
            Ok(found.map(|found| (name, found)))
        }
        None => Ok(None),
    };
    let before = reader.counts.entries(&reader.index);
    let counted = count(reader, &request.query);
    let (((documents, _), unstamped), found) = match before {
        // The entries change while they are read and would reorder groups, so the order comes from the documents, as
        // long as there are not too many.
        Entries::Unfinished => {
            let counted = counted.await?;
            let roots = roots.filter(|_| counted.0.0 > MAX_COUNTED);
            (counted, summary(roots).await?)
        }
        _ => tokio::try_join!(counted, summary(roots))?,
    };
    parts.unstamped = unstamped;
    let Some((name, found)) = found else {
        let (order, total) = list(reader, request, Listing::Repeated, Some(documents)).await?;
        parts.total = total;
        return Ok(order);
    };
    let after = reader.counts.entries(&reader.index);
    if with_total {
        let value = (documents + found.entries).saturating_sub(found.documents);
        let is_exact = (before, after) == (Entries::True, Entries::True);
        let relation = if is_exact { Relation::Equal } else { Relation::About };
        parts.total = Some(Total { value, relation });
    }
    parts.notes.extend(note_of(after, "the order and the number of groups follow"));
    let first = (direction == Direction::Descending).then_some(found.first);
    Ok(GroupOrder { listing: Listing::Repeated, from: GroupSource::Roots { name }, first })
}

/// Groups under a query by their documents in the whole index: of few documents a list of all groups, of many those of
/// the whole index.
async fn by_similar_count(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
    parts: &mut PageParts,
) -> Result<GroupOrder, ReadError> {
    let source = &reader.source;
    let entries = reader.counts.entries(&reader.index);
    let is_finished = entries != Entries::Unfinished;
    let most_listed = async {
        match roots.is_some() && is_finished {
            true => Ok(few(source.documents().await?)),
            false => Ok(MAX_SIMILAR),
        }
    };
    let counted = count(reader, &request.query);
    let (((documents, is_exact), unstamped), most_listed) = tokio::try_join!(counted, most_listed)?;
    parts.unstamped = unstamped;
    let total = enumerate::number_of_groups(source, request, (documents, is_exact));
    if documents > most_listed {
        let roots = match roots {
            // As in the order of the whole index.
            Some(_) if !is_finished && source.documents().await? <= MAX_COUNTED => None,
            roots => roots,
        };
        if let Some(order) = in_roots_index(reader, request, roots).await? {
            parts.total = total.await?;
            parts.notes.extend(note_of(entries, "the order of groups follows"));
            return Ok(order);
        }
    }
    if documents > MAX_SIMILAR {
        parts.total = total.await?;
        return Ok(list(reader, request, Listing::Index, None).await?.0);
    }
    let (order, total) = list(reader, request, Listing::All, Some(documents)).await?;
    parts.total = total;
    Ok(order)
}

/// The order of the whole index, if there is a roots index that the caller may read, and something is counted in it.
async fn in_roots_index(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
) -> Result<Option<GroupOrder>, ReadError> {
    let Some(name) = roots else {
        return Ok(None);
    };
    let (direction, is_first) = (request.direction, request.direction == Direction::Descending);
    // Ascending, the walk comes first: one entry shows that there are some.
    let size = if is_first { compared_at_once(0) } else { 1 };
    let first = match roots::page(&reader.source, &name, direction, None, size).await {
        Err(ReadError::NoRoots) => return Ok(None),
        first => first?,
    };
    if first.is_empty() {
        return Ok(None);
    }
    let first = is_first.then_some(first);
    Ok(Some(GroupOrder { listing: Listing::Index, from: GroupSource::Roots { name }, first }))
}

/// Groups under a query by their documents under it. Groups of equal count are ordered by key.
async fn by_matching_count(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    parts: &mut PageParts,
) -> Result<GroupOrder, ReadError> {
    // To be counted, the groups are listed anyway. Otherwise a first page begins with the walk, or with the largest.
    let with_total = request.total != TotalWanted::No;
    let first = async {
        match request.direction {
            Direction::Descending if !with_total => {
                largest::largest(&reader.source, &request.query, request.size + 1).await
            }
            Direction::Descending | Direction::Ascending => Ok(None),
        }
    };
    let (((documents, _), unstamped), first) = tokio::try_join!(count(reader, &request.query), first)?;
    parts.unstamped = unstamped;
    if !with_total {
        check_limit(Listing::Repeated, request, documents)?;
        return Ok(GroupOrder { listing: Listing::Repeated, from: GroupSource::NotYet, first });
    }
    let (order, total) = list(reader, request, Listing::Repeated, Some(documents)).await?;
    parts.total = total;
    Ok(order)
}

/// The note for an order taken from the roots index. `what`: what it takes from there.
fn note_of(entries: Entries, what: &str) -> Option<String> {
    let how = match entries {
        Entries::True => return None,
        Entries::Late { is_failing: false } => "lags behind writes",
        Entries::Late { is_failing: true } => "is behind: spinney cannot count at present",
        Entries::Unknown => "may be behind: this spinney does not count (--counts off)",
        Entries::Unfinished => {
            "is not complete: until spinney has compared all of it, groups may come twice, or not at all"
        }
    };
    Some(format!("{what} the index of roots, which {how}; \"exact\": true does without it"))
}

/// Refuses requests with too many documents to list their groups.
fn check_limit(listing: Listing, request: &GroupsRequest, documents: u64) -> Result<(), ReadError> {
    let limit = if listing == Listing::All { GROWN } else { MAX_COUNTED };
    match documents > limit {
        false => Ok(()),
        true if listing == Listing::Index => Err(ReadError::NoOrder { limit, few: MAX_SIMILAR }),
        true => {
            let sort = if request.sort == SortBy::SimilarCount { "similar_count" } else { "matching_count" };
            Err(ReadError::TooMany { sort, limit })
        }
    }
}

/// Lists groups, and keeps them for the next pages. `documents`: how many the listed groups have, if that is known.
async fn list(
    reader: &IndexReader<'_>,
    request: &GroupsRequest,
    listing: Listing,
    documents: Option<u64>,
) -> Result<(GroupOrder, Option<Total>), ReadError> {
    let all = SearchQuery::all();
    let query = if listing == Listing::Index { &all } else { &request.query };
    let documents = match documents {
        Some(documents) => documents,
        None => count(reader, query).await?.0.0,
    };
    check_limit(listing, request, documents)?;
    let what = Enumeration {
        query,
        at_least: if listing == Listing::All { 1 } else { 2 },
        with_last: listing == Listing::Index || request.is_whole_index(),
        documents,
    };
    let all = enumerate::enumerate(&reader.source, &what).await?;
    let value = all.number_of_groups();
    let EnumeratedGroups { mut groups, .. } = all;
    if listing == Listing::All {
        let keys: Vec<i64> = groups.iter().map(|group| group.key).collect();
        groups = enumerate::whole_counts(&reader.source, &keys).await?;
    }
    let total = (request.total != TotalWanted::No).then_some(Total { value, relation: Relation::Equal });
    let (list, id) = (Arc::new(GroupList::new(groups, request.direction)), reader.new_list_id());
    reader.lists.keep(id, reader.caller, reader.now, list.clone());
    Ok((GroupOrder { listing, from: GroupSource::List { list, id }, first: None }, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_follows_the_size_of_the_index() {
        let expected = [(0, 3_000), (1_000_000, 3_000), (30_000_000, 10_954), (u64::MAX, MAX_SIMILAR)];
        assert_eq!(expected.map(|(of_index, _)| (of_index, few(of_index))), expected);
    }

    #[test]
    fn a_search_may_give_as_many_entries() {
        assert_eq!([0, 1, 2, 31].map(compared_at_once), [1_000, 4_000, 8_000, 8_000]);
    }
}
