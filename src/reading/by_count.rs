//! Groups by their number of documents: those of two or more from a list or from the index of roots, those of one by a walk
//! over the documents, newest first.
//!
//! Whether a group is shown by the one or by the other does not depend on when a page is asked for: so none is shown
//! twice or left out, also where the index of roots is late.

use std::collections::HashSet;
use std::sync::Arc;

use super::Reader;
use super::answer::{Relation, Total};
use super::cursor::{Cursor, Listed, Place, Walked};
use super::enumerate::{self, Enumeration};
use super::error::ReadError;
use super::lists::GroupList;
use super::numbers;
use super::page::{Batch, Page, PageParts, Wanted, first_block};
use super::request::{Direction, GroupsRequest, MAX_COUNTED, SortBy, TotalWanted};
use super::roots::{self, Probe};
use super::walk::{self, Order};
use crate::config::RestrictedReaders;

/// Documents under a query of which the counts in the whole index are asked for.
const MAX_SIMILAR: u64 = 100_000;

/// Where groups of two documents or more come from.
enum From {
    /// The index of roots of this name: only for the order, and only for the whole index.
    Roots(String),
    /// A list that was made for this question.
    List {
        list: Arc<GroupList>,
        id: u64,
        /// Groups of one document are in it, too.
        is_complete: bool,
    },
}

/// One question by number of documents.
struct ByCount<'r, 'a> {
    reader: &'r Reader<'a>,
    request: &'r GroupsRequest,
    from: From,
}

/// One page.
///
/// # Errors
/// As [`Reader::groups`].
pub(super) async fn page(
    reader: &Reader<'_>,
    request: &GroupsRequest,
    cursor: Option<Cursor>,
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
    reader: &Reader<'_>,
    request: &GroupsRequest,
    cursor: Option<Cursor>,
    with_roots: bool,
) -> Result<Page, ReadError> {
    let mut parts = PageParts::new(request);
    let roots = with_roots.then(|| roots_for(reader, request)).flatten();
    let (from, place) = match cursor {
        None => {
            let from = first(reader, request, roots, &mut parts).await?;
            let place = match request.direction {
                Direction::Ascending if !from.is_complete() => Place::Walked(None),
                Direction::Ascending | Direction::Descending => Place::Listed(None),
            };
            (from, place)
        }
        Some(cursor) => {
            parts.total = cursor.total.map(Total::of_cursor);
            let from = match (kept(reader, request, cursor.list), roots) {
                (Some(list), _) => list,
                (None, Some(name)) if cursor.list.is_none() => From::Roots(name),
                (None, _) => make_list(reader, request, None).await?.0,
            };
            (from, cursor.place)
        }
    };
    parts.list = match &from {
        From::Roots(_) => None,
        From::List { id, .. } => Some(*id),
    };
    let by_count = ByCount {
        reader,
        request,
        from,
    };
    let mut page = parts.begin(Batch::before(place));
    while let Some(Wanted { place, size, round }) = page.wanted() {
        page.add(by_count.next(&place, size, round).await?);
    }
    Ok(page.finish())
}

/// The index of roots that may give the order of this question.
fn roots_for(reader: &Reader<'_>, request: &GroupsRequest) -> Option<String> {
    let may =
        request.is_whole_index() && !request.exact && reader.restricted == RestrictedReaders::None;
    may.then(|| roots::name_for(&reader.index)).flatten()
}

/// A list that was made for an earlier page.
fn kept(reader: &Reader<'_>, request: &GroupsRequest, id: Option<u64>) -> Option<From> {
    let id = id?;
    Some(From::List {
        list: reader.lists.get(id, reader.caller, reader.now)?,
        id,
        is_complete: is_complete(request),
    })
}

/// Whether groups of one document are listed, too: their order is another one than that of the walk.
fn is_complete(request: &GroupsRequest) -> bool {
    request.sort == SortBy::SimilarCount && !request.is_whole_index()
}

/// Where the groups of a first page come from, how many there are, and what else there is to say.
async fn first(
    reader: &Reader<'_>,
    request: &GroupsRequest,
    roots: Option<String>,
    parts: &mut PageParts,
) -> Result<From, ReadError> {
    let source = &reader.source;
    let wanted = request.total != TotalWanted::No;
    let counted = enumerate::count(source, &request.query, i32::MAX as u64 - 1);
    let probed = async {
        match &roots {
            Some(name) => roots::probe(source, name, wanted).await,
            None => Ok(None),
        }
    };
    let (((documents, _), unstamped), probed) = tokio::try_join!(counted, probed)?;
    parts.unstamped = unstamped;
    let Some((name, Probe { entries, sum })) = roots.zip(probed) else {
        let (from, total) = make_list(reader, request, Some(documents)).await?;
        parts.total = total;
        return Ok(from);
    };
    if wanted {
        parts.total = Some(Total {
            value: (documents + entries).saturating_sub(sum),
            relation: Relation::Equal,
        });
        parts.notes.push(
            "the order and the number of groups follow the index of roots, which lags a few seconds behind writes; \"exact\": true does without it"
                .into(),
        );
    }
    Ok(From::Roots(name))
}

async fn make_list(
    reader: &Reader<'_>,
    request: &GroupsRequest,
    documents: Option<u64>,
) -> Result<(From, Option<Total>), ReadError> {
    let is_complete = is_complete(request);
    let (limit, sort) = match (&request.sort, is_complete) {
        (SortBy::SimilarCount, true) => (MAX_SIMILAR, "similar_count"),
        (SortBy::SimilarCount, false) => (MAX_COUNTED, "similar_count"),
        _ => (MAX_COUNTED, "matching_count"),
    };
    let documents = match documents {
        Some(documents) => documents,
        None => {
            let counted = enumerate::count(&reader.source, &request.query, limit).await?;
            counted.0.0
        }
    };
    if documents > limit {
        return Err(ReadError::TooMany { sort, limit });
    }
    let what = Enumeration {
        query: &request.query,
        at_least: if is_complete { 1 } else { 2 },
        with_last: !is_complete,
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
    let list = Arc::new(GroupList::new(groups, request.direction));
    let id = reader.new_list_id();
    reader
        .lists
        .keep(id, reader.caller, reader.now, list.clone());
    let total = (request.total != TotalWanted::No).then_some(Total {
        value,
        relation: Relation::Equal,
    });
    let from = From::List {
        list,
        id,
        is_complete,
    };
    Ok((from, total))
}

impl From {
    fn is_complete(&self) -> bool {
        matches!(
            self,
            From::List {
                is_complete: true,
                ..
            }
        )
    }
}

impl ByCount<'_, '_> {
    /// The next groups behind a place.
    async fn next(&self, place: &Place, size: usize, round: u32) -> Result<Batch, ReadError> {
        match place {
            Place::Listed(after) => self.listed(after.as_ref(), size).await,
            Place::Walked(after) => self.walked(after.as_ref(), size, round).await,
        }
    }

    async fn listed(&self, after: Option<&Listed>, size: usize) -> Result<Batch, ReadError> {
        let direction = self.request.direction;
        let listed = match &self.from {
            From::Roots(name) => {
                roots::page(&self.reader.source, name, direction, after, size).await?
            }
            From::List { list, .. } => list.after(after, direction, size).to_vec(),
        };
        let then = match listed.last() {
            Some(&last) if listed.len() == size => Some(Place::Listed(Some(last))),
            _ if direction == Direction::Descending && !self.from.is_complete() => {
                Some(Place::Walked(None))
            }
            _ => None,
        };
        let keys: Vec<i64> = listed.iter().map(|group| group.key).collect();
        let groups = numbers::groups(&self.reader.source, self.request, &keys).await?;
        let places = listed
            .into_iter()
            .map(|group| (group.key, Place::Listed(Some(group))));
        let mut batch = Batch::of(places, groups, then);
        if matches!(self.from, From::Roots(_)) {
            // The walk shows what is alone by now.
            batch.found.retain(|(group, _)| group.similar_count >= 2);
        }
        Ok(batch)
    }

    async fn walked(
        &self,
        after: Option<&Walked>,
        size: usize,
        round: u32,
    ) -> Result<Batch, ReadError> {
        let source = &self.reader.source;
        let order = Order::newest(source);
        let wanted = first_block(size) << round.min(4);
        let block = walk::block(
            source,
            &self.request.query,
            &order,
            after,
            wanted,
            self.request.is_whole_index(),
        )
        .await?;
        let is_last = block.len() < wanted;
        let last = block.last().cloned();
        let mut shown = self.shown_by_the_walk(&order, block).await?;
        let is_cut = shown.len() > size;
        shown.truncate(size);
        let then = match (is_cut, shown.last()) {
            (true, Some(last)) => Some(Place::Walked(Some(last.clone()))),
            _ if !is_last => Some(Place::Walked(last)),
            _ if self.request.direction == Direction::Ascending => Some(Place::Listed(None)),
            _ => None,
        };
        let keys: Vec<i64> = shown.iter().map(|walked| walked.key).collect();
        let groups = numbers::groups(source, self.request, &keys).await?;
        let places = shown
            .into_iter()
            .map(|walked| (walked.key, Place::Walked(Some(walked))));
        Ok(Batch::of(places, groups, then))
    }

    /// Of a block, the documents that the walk shows: those that are alone, and the newest of groups that are not listed.
    async fn shown_by_the_walk(
        &self,
        order: &Order,
        block: Vec<Walked>,
    ) -> Result<Vec<Walked>, ReadError> {
        let (source, query) = (&self.reader.source, &self.request.query);
        let mut seen = HashSet::new();
        let keys: Vec<i64> = block
            .iter()
            .map(|walked| walked.key)
            .filter(|&key| seen.insert(key))
            .collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let counts = numbers::counts(source, query, &keys).await?;
        let several: Vec<i64> = keys
            .into_iter()
            .filter(|key| counts.get(key).is_some_and(|&count| count >= 2))
            .collect();
        let mut unlisted = several;
        match &self.from {
            From::List { list, .. } => unlisted.retain(|&key| !list.contains(key)),
            From::Roots(name) => {
                let listed = roots::listed(source, name, &unlisted).await?;
                unlisted.retain(|key| !listed.contains(key));
            }
        }
        let best = numbers::best(source, query, order, &unlisted).await?;
        let mut shown = HashSet::new();
        let is_shown = |walked: &Walked| {
            let is_best = match counts.get(&walked.key) {
                None => false,
                Some(1) => match &self.from {
                    From::List { list, .. } => !list.contains(walked.key),
                    From::Roots(_) => true,
                },
                Some(_) => best.get(&walked.key).is_some_and(|best| best == walked),
            };
            is_best && shown.insert(walked.key)
        };
        Ok(block.into_iter().filter(is_shown).collect())
    }
}
