//! Pages, put together from batches of groups until they are full.

use std::collections::HashMap;

use super::answer::{GroupSummary, Relation, Total};
use super::cursor::{CursorPosition, Listing, PageCursor};
use super::request::GroupsRequest;

/// Most rounds of reading for one page: many documents may belong to groups of earlier pages.
const ROUNDS: u32 = 32;

/// Size of a walk's first block for this many groups. Most groups are small.
pub(super) fn first_block(groups: usize) -> usize {
    groups * 2 + 22
}

/// Groups in order, and where they were found.
pub(super) struct GroupBatch {
    pub found: Vec<(GroupSummary, CursorPosition)>,
    /// Where to go on; `None`: that was all.
    pub next: Option<CursorPosition>,
}

impl GroupBatch {
    /// Nothing yet.
    pub(super) fn before(place: CursorPosition) -> GroupBatch {
        GroupBatch { found: Vec::new(), next: Some(place) }
    }

    /// The groups of these keys, each once; missing ones are left out.
    pub(super) fn of(
        places: impl Iterator<Item = (i64, CursorPosition)>,
        mut groups: HashMap<i64, GroupSummary>,
        next: Option<CursorPosition>,
    ) -> GroupBatch {
        let found = places.filter_map(|(key, place)| Some((groups.remove(&key)?, place)));
        GroupBatch { found: found.collect(), next }
    }
}

/// A page of groups.
pub(super) struct Page {
    pub groups: Vec<GroupSummary>,
    pub next: Option<PageCursor>,
    pub total: Option<Total>,
    pub notes: Vec<String>,
    pub unstamped: u64,
}

/// Everything of a page but its groups.
pub(super) struct PageParts {
    size: usize,
    pub total: Option<Total>,
    listing: Listing,
    list: Option<u64>,
    pub unstamped: u64,
    pub notes: Vec<String>,
}

impl Total {
    pub(super) fn of_cursor((value, relation): (u64, Relation)) -> Total {
        Total { value, relation }
    }
}

impl PageParts {
    pub(super) fn new(request: &GroupsRequest) -> PageParts {
        PageParts {
            size: request.size,
            total: None,
            listing: Listing::Repeated,
            list: None,
            unstamped: 0,
            notes: Vec::new(),
        }
    }

    /// The page, to be filled from `first` on.
    pub(super) fn begin(self, first: GroupBatch) -> PageBuilder {
        PageBuilder { parts: self, found: first.found, place: first.next, round: 0 }
    }
}

/// A page that is being filled.
pub(super) struct PageBuilder {
    parts: PageParts,
    found: Vec<(GroupSummary, CursorPosition)>,
    place: Option<CursorPosition>,
    round: u32,
}

/// Next batch that a page needs.
pub(super) struct BatchRequest {
    /// The position after which groups are read.
    pub place: CursorPosition,
    /// The number of groups to read: one more than the page holds, to know whether another page follows.
    pub size: usize,
    /// How often groups were added.
    pub round: u32,
}

impl PageBuilder {
    /// Returns the next batch to request; `None` if the page is full or there is no more.
    pub(super) fn wanted(&self) -> Option<BatchRequest> {
        let missing = (self.parts.size + 1).saturating_sub(self.found.len());
        let place = self.place.clone()?;
        (missing > 0 && self.round < ROUNDS).then_some(BatchRequest { place, size: missing, round: self.round })
    }

    /// Adds a batch. A group that is on the page already, because its position has changed, is skipped.
    pub(super) fn add(&mut self, batch: GroupBatch) {
        for (group, place) in batch.found {
            if self.found.iter().all(|(shown, _)| shown.root != group.root) {
                self.found.push((group, place));
            }
        }
        self.place = batch.next;
        self.round += 1;
    }

    /// Records what the groups were read from, and the id of the cached list.
    pub(super) fn came_from(&mut self, listing: Listing, list: Option<u64>) {
        self.parts.listing = listing;
        self.parts.list = list;
    }

    /// The page.
    pub(super) fn finish(self) -> Page {
        let (mut found, mut place, mut parts) = (self.found, self.place, self.parts);
        if found.len() < parts.size && place.is_some() {
            parts
                .notes
                .push("few groups in this part of the order are under the query: next goes on behind them".into());
        }
        if found.len() > parts.size {
            found.truncate(parts.size);
            place = found.last().map(|(_, place)| place.clone());
        }
        Page {
            next: place.map(|place| PageCursor {
                place,
                total: parts.total.map(|t| (t.value, t.relation)),
                listing: parts.listing,
                list: parts.list,
            }),
            groups: found.into_iter().map(|(group, _)| group).collect(),
            total: parts.total,
            unstamped: parts.unstamped,
            notes: parts.notes,
        }
    }
}
