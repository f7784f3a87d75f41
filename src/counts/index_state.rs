//! The state of one counted index: its identity, its comparison, its retries.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::Shared;
use super::error::CountError;
use super::reconcile::ReconcilePass;
use super::searcher::{FoundIndex, ROOTS_AT_ONCE, Searcher};
use super::throttle::RetrySchedule;
use crate::clock;
use crate::cluster::roots::roots_index;

/// Margin after the refresh interval before a write counts as visible.
const MARGIN: Duration = Duration::from_millis(1_500);

/// Longest wait for a write in an index without refreshes.
const NEVER: Duration = Duration::from_secs(60);

/// The outcome of counting the dirty groups of an index once.
pub(super) enum Counted {
    /// The index is missing.
    Gone,
    /// Other visible groups are left.
    More,
    /// All visible groups were counted.
    All,
}

#[derive(Debug)]
pub(super) struct IndexState {
    uuid: String,
    /// UUID of the roots index, as last seen or created.
    roots_uuid: Option<String>,
    /// The running comparison.
    pub(super) pass: Option<ReconcilePass>,
    /// Whether that began because the index was marked.
    pub(super) is_marked: bool,
    /// The time of the rolling scan's next range, if nothing is written.
    pub(super) next_range: Instant,
    /// Attempts at counting dirty groups.
    tried: Instant,
    /// Attempts that fail for reasons of the index.
    pub(super) counting: RetrySchedule,
    pub(super) comparing: RetrySchedule,
}

impl IndexState {
    pub(super) fn new(found: &FoundIndex, now: Instant) -> IndexState {
        IndexState {
            uuid: found.uuid.clone(),
            roots_uuid: None,
            pass: None,
            is_marked: false,
            next_range: now,
            tried: now,
            counting: RetrySchedule::new(now),
            comparing: RetrySchedule::new(now),
        }
    }

    /// Whether it is this index, and not another one of its name.
    pub(super) fn has_uuid(&self, uuid: &str) -> bool {
        self.uuid == uuid
    }

    /// Whether a tick has to see to it. `is_dirty`: something waits to be counted.
    pub(super) fn is_due(&self, is_dirty: bool, now: Instant) -> bool {
        // A success ends the failure, even if nothing is left of its cause.
        let has_failed = self.counting.trouble().is_some();
        self.counting.is_due(now) && (is_dirty || has_failed)
    }

    /// When a tick has last seen to it.
    pub(super) fn tried(&self) -> Instant {
        self.tried
    }

    /// The present failures.
    pub(super) fn attempts(&self) -> [&RetrySchedule; 2] {
        [&self.counting, &self.comparing]
    }

    /// Counts the next dirty groups, at most [`ROOTS_AT_ONCE`], if they are visible. `began`: when the work since the
    /// last rest began.
    pub(super) async fn count(
        &mut self,
        name: &str,
        searcher: &Searcher,
        shared: &Shared,
        began: &mut Instant,
    ) -> Result<Counted, CountError> {
        self.tried = *began;
        let roots = roots_index(name);
        let indices = searcher.indices(&format!("{name},{roots}")).await?;
        let find = |name: &str| indices.iter().find(|found| found.name == name);
        let Some(found) = find(name) else {
            return Ok(Counted::Gone);
        };
        self.observe(found, find(&roots), shared);
        let takes = found.refresh.unwrap_or(NEVER).saturating_add(MARGIN);
        let sealed = shared.dirty.lock().seal(name, ROOTS_AT_ONCE);
        let has_more = match sealed {
            Some((_, until)) if until.elapsed() < takes => return Ok(Counted::All),
            Some((roots, _)) => {
                if !roots.is_empty() {
                    self.count_roots(name, &roots, searcher, shared, began).await?;
                }
                shared.dirty.lock().counted(name, &roots, Instant::now())
            }
            None => false,
        };
        self.counting.succeeded();
        Ok(if has_more { Counted::More } else { Counted::All })
    }

    /// Compares the UUIDs of index and roots index with the known ones; a new one marks the index.
    fn observe(&mut self, found: &FoundIndex, roots: Option<&FoundIndex>, shared: &Shared) {
        let is_new = found.uuid != self.uuid;
        let roots_uuid = roots.map(|roots| roots.uuid.clone());
        if is_new || (self.roots_uuid.is_some() && self.roots_uuid != roots_uuid) {
            debug!(index = found.name, "the index or its roots index is gone, or a new one");
            self.uuid.clone_from(&found.uuid);
            shared.is_new(&found.name);
            shared.dirty.lock().mark(&found.name, Instant::now());
        }
        self.roots_uuid = roots_uuid;
    }

    /// Counts visible roots, and writes their entries.
    async fn count_roots(
        &mut self,
        name: &str,
        roots: &[u64],
        searcher: &Searcher,
        shared: &Shared,
        began: &mut Instant,
    ) -> Result<(), CountError> {
        // Before the count: a later count has the later time.
        let version = clock::now().0;
        let groups = searcher.count(name, roots).await?;
        if !groups.is_empty() && self.roots_uuid.is_none() {
            let making = Instant::now();
            searcher.make_roots(name).await?;
            let made = searcher.indices(&roots_index(name)).await?;
            self.roots_uuid = made.first().map(|made| made.uuid.clone());
            // Once in an index's life, and the slowest of all requests: nothing to rest from.
            *began += making.elapsed();
        }
        // Some of it may have been written, whatever comes of it.
        shared.writes_entries(name);
        let kept = searcher.keep_counted(name, roots, &groups, version).await?;
        shared.writes_entries(name);
        if kept.refused > 0 {
            shared.has_refused(name, true);
        }
        let mut status = shared.status.lock();
        status.roots_counted += roots.len() as u64;
        status.kept.add(kept);
        Ok(())
    }
}
