//! Comparing a whole index with its entries, range by range.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::entry::{EntryDiff, GroupSizes};
use super::error::CountError;
use super::ranges::{KeyRange, RangeParts};
use super::searcher::{EnumerationResult, FoundIndex, ROOTS_AT_ONCE, Searcher};
use super::store::StoreReport;
use crate::clock;
use crate::cluster::roots::roots_index;

/// Documents in a range when the whole index is wanted soon.
pub(crate) const SOON: u64 = 125_000;

/// Documents in a range of the rolling reconciliation.
pub(super) const ROLLING: u64 = 4_000;

/// How differences are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    Tell,
    /// They are mended.
    Mend,
}

/// Differences found, and mended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Groups of two or more.
    pub groups: u64,
    /// Groups without an entry.
    pub missing: u64,
    /// Entries with a wrong number.
    pub wrong: u64,
    /// Entries without a group.
    pub superfluous: u64,
    /// Entries written and removed.
    pub kept: StoreReport,
}

impl Findings {
    pub(super) fn add(&mut self, other: &Findings) {
        self.groups += other.groups;
        self.missing += other.missing;
        self.wrong += other.wrong;
        self.superfluous += other.superfluous;
        self.kept.add(other.kept);
    }
}

/// A pass over all keys of an index.
#[derive(Debug)]
pub(crate) struct ReconcilePass {
    index: String,
    parts: RangeParts,
    next: u32,
    /// Ranges that failed, in the order of their next attempts.
    failed: VecDeque<u32>,
    /// Whether failed ranges were skipped.
    has_skipped: bool,
    found: Findings,
    began: Instant,
}

impl ReconcilePass {
    /// Begins; `each` documents are to be about in one range.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub(crate) async fn begin(searcher: &Searcher, index: &str, each: u64) -> Result<ReconcilePass, CountError> {
        let began = Instant::now();
        let documents = searcher.documents(index).await?;
        Ok(ReconcilePass {
            index: index.to_owned(),
            parts: RangeParts::of(documents, each),
            next: 0,
            failed: VecDeque::new(),
            has_skipped: false,
            found: Findings::default(),
            began,
        })
    }

    /// The number of ranges.
    pub(crate) fn ranges(&self) -> u32 {
        self.parts.count()
    }

    /// The differences so far.
    pub(crate) fn findings(&self) -> &Findings {
        &self.found
    }

    /// The time at which the pass began, unless it has skipped a range.
    pub(super) fn covers_since(&self) -> Option<Instant> {
        (!self.has_skipped).then_some(self.began)
    }

    /// Skips the ranges that failed.
    pub(super) fn skip_failed(&mut self) {
        self.has_skipped |= !self.failed.is_empty();
        self.failed.clear();
    }

    /// Compares the next range. Answers whether there was one. After an error the others have their turn before this
    /// one.
    ///
    /// # Errors
    /// When the cluster cannot be asked, or refuses an entry.
    pub(crate) async fn step(&mut self, searcher: &Searcher, mode: Mode) -> Result<bool, CountError> {
        let (number, range) = match (self.parts.get(self.next), self.failed.front()) {
            (Some(range), _) => (self.next, Some(range)),
            (None, Some(&failed)) => (failed, self.parts.get(failed)),
            (None, None) => return Ok(false),
        };
        if number == self.next {
            self.next += 1;
        } else {
            self.failed.pop_front();
        }
        let Some(range) = range else { return Ok(true) };
        // An interrupted pass has compared nothing.
        self.failed.push_back(number);
        let found = searcher.compare(&self.index, range, mode).await?;
        self.failed.pop_back();
        self.found.add(&found);
        Ok(true)
    }
}

impl Searcher {
    async fn compare(&self, index: &str, range: KeyRange, mode: Mode) -> Result<Findings, CountError> {
        let mut findings = Findings::default();
        let mut ranges = vec![range];
        while let Some(range) = ranges.pop() {
            // Before the count: a later count has the later time.
            let counted_at = clock::now().0;
            let asked = tokio::try_join!(self.enumerate(index, range), self.stored(index, range));
            let (enumerated, stored) = asked?;
            let groups = match (enumerated, range.halves()) {
                (EnumerationResult::All(groups), _) => groups,
                (EnumerationResult::TooMany, Some((low, high))) => {
                    ranges.extend([high, low]);
                    continue;
                }
                // One key has one group.
                (EnumerationResult::TooMany, None) => GroupSizes::new(),
            };
            let read_at = clock::now().0.max(counted_at);
            let mut diff = EntryDiff::between(&groups, &stored, counted_at..=read_at);
            findings.groups += groups.len() as u64;
            findings.missing += diff.missing.len() as u64;
            findings.wrong += diff.wrong.len() as u64;
            findings.superfluous += diff.superfluous.len() as u64;
            if mode == Mode::Mend && !diff.is_empty() {
                let roots = diff.to_write();
                if !roots.is_empty() {
                    self.ensure_roots(index).await?;
                    let mut counted = GroupSizes::new();
                    for roots in roots.chunks(ROOTS_AT_ONCE) {
                        counted.extend(self.count(index, roots).await?);
                    }
                    diff.recount(&counted);
                }
                findings.kept.add(self.keep_diff(index, &diff, counted_at).await?);
            }
        }
        Ok(findings)
    }

    /// The indices that a name or pattern matches, without roots indices.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub(crate) async fn documented(&self, expression: &str) -> Result<Vec<String>, CountError> {
        let found = self.indices(expression).await?;
        let names = found.into_iter().filter(FoundIndex::has_documents);
        Ok(names.map(|found| found.name).collect())
    }

    /// Creates the roots index if it is missing.
    pub(super) async fn ensure_roots(&self, index: &str) -> Result<(), CountError> {
        if self.indices(&roots_index(index)).await?.is_empty() {
            self.make_roots(index).await?;
        }
        Ok(())
    }
}
