//! Documents of a route's indices in the order in which they are to be placed, and in batches.

use serde_json::Value;
use tokio::sync::mpsc;

use super::discovery::RouteIndices;
use crate::cluster::operator::Operator;
use crate::cluster::sorted_pages::{Slice, SortedPages, SortedQuery, StoredHit};

/// Documents of a page: several bulks, and at most what servers return at once.
const BULKS_OF_PAGE: usize = 4;
const LARGEST_PAGE: usize = 10_000;

/// The size of a page for bulks of this size.
pub(super) fn page_of(batch: usize) -> usize {
    (batch * BULKS_OF_PAGE).min(LARGEST_PAGE)
}

impl RouteIndices {
    /// The documents that a query finds, in pages of at most so many. A document may come twice, if the point in time
    /// was lost.
    pub(super) fn pages<'o>(&self, operator: &'o Operator, query: Value, slice: Slice, most: usize) -> SortedPages<'o> {
        let wanted = SortedQuery {
            indices: self.expression.clone(),
            query,
            order: self.order.clone(),
            since: None,
            fields: self.route.fields.clone(),
            slice,
        };
        SortedPages::new(operator, wanted, most).restarting()
    }
}

/// Documents in batches of one size, whatever the size of the pages is: lessons about boilerplate depend on the
/// documents of a request.
pub(super) struct Batches {
    pages: mpsc::Receiver<Vec<StoredHit>>,
    read: Vec<StoredHit>,
    size: usize,
}

impl Batches {
    /// Batches of so many documents.
    pub(super) fn of(pages: mpsc::Receiver<Vec<StoredHit>>, size: usize) -> Batches {
        Batches { pages, read: Vec::new(), size: size.max(1) }
    }

    /// The next documents; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Vec<StoredHit>> {
        while self.read.len() < self.size {
            match self.pages.recv().await {
                Some(page) => self.read.extend(page),
                None => return Some(std::mem::take(&mut self.read)).filter(|rest| !rest.is_empty()),
            }
        }
        let rest = self.read.split_off(self.size);
        Some(std::mem::replace(&mut self.read, rest))
    }
}
