//! Documents of a route's indices, page by page, in the order in which they are to be placed.

use serde_json::Value;
use tokio::sync::mpsc;

use super::BackfillError;
use super::discovery::RouteIndices;
use crate::cluster::operator::Operator;
use crate::cluster::sorted_pages::{ScanError, Slice, SortedPages, SortedQuery, StoredHit};

/// Pages that are read ahead.
const AHEAD: usize = 2;
/// Bulks in a page of documents.
const BULKS_OF_PAGE: usize = 4;
const LARGEST_PAGE: usize = 10_000;

/// The size of a page for bulks of this size.
pub(super) fn page_of(batch: usize) -> usize {
    (batch * BULKS_OF_PAGE).min(LARGEST_PAGE)
}

/// Most restarts for documents without a sort value, after an expired point in time.
const RESTARTS: u32 = 9;

/// Reads the documents that a query finds.
pub(super) struct Pages<'a> {
    operator: &'a Operator,
    target: &'a RouteIndices,
    pages: SortedPages<'a>,
    has_begun: bool,
    restarts: u32,
}

impl<'a> Pages<'a> {
    /// `most`: documents of a page.
    pub(super) fn new(
        operator: &'a Operator,
        target: &'a RouteIndices,
        query: Value,
        slice: Slice,
        most: usize,
    ) -> Pages<'a> {
        let wanted = SortedQuery {
            indices: target.expression.clone(),
            query,
            order: target.order.clone(),
            since: None,
            fields: target.route.fields.clone(),
            slice,
        };
        Pages { operator, target, pages: SortedPages::new(operator, wanted, most), has_begun: false, restarts: 0 }
    }

    /// Sets the attempts for each page.
    pub(super) fn with_attempts(self, attempts: u32) -> Pages<'a> {
        Pages { pages: self.pages.with_attempts(attempts), ..self }
    }

    /// The next documents; `None` at the end. A document may come twice, if the point in time was lost.
    ///
    /// # Errors
    /// If the cluster refuses, or is away or busy at every attempt.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<StoredHit>>, BackfillError> {
        loop {
            if !self.has_begun {
                self.target.refresh(self.operator, self.pages.attempts()).await?;
                self.has_begun = true;
            }
            match self.pages.next().await {
                Err(ScanError::Lost) if self.restarts < RESTARTS => {
                    self.restarts += 1;
                    self.has_begun = false;
                    self.pages.begin_again();
                }
                page => return Ok(page?),
            }
        }
    }

    /// Closes the point in time.
    pub(super) async fn close(self) {
        self.pages.close().await;
    }

    /// Reads all pages into a channel, until its receiver is dropped.
    ///
    /// # Errors
    /// As [`Pages::next`].
    pub(super) async fn read_into(mut self, batches: mpsc::Sender<Vec<StoredHit>>) -> Result<(), BackfillError> {
        let outcome = loop {
            match self.next().await {
                Ok(Some(page)) => {
                    if batches.send(page).await.is_err() {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.close().await;
        outcome
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
    /// Batches of this many documents, and the sender for the pages.
    pub(super) fn of(size: usize) -> (mpsc::Sender<Vec<StoredHit>>, Batches) {
        let (send, pages) = mpsc::channel(AHEAD);
        (send, Batches { pages, read: Vec::new(), size: size.max(1) })
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
