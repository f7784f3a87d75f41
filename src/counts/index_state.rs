//! The state of one counted index: its generation in progress, the points in time of the last two counts, its passes.
//!
//! Why two points: what a generation replaced was written after the previous generation was sealed, possibly before
//! that one's point was opened. That point then sees only the document's new root; the point before it was opened
//! before the seal and sees the old one. `docs/internals/counts.md` has the whole argument.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::Shared;
use super::dirty_groups::DirtyGeneration;
use super::error::{CountError, Failure};
use super::reconcile::ReconcilePass;
use super::searcher::{FoundIndex, ROOTS_AT_ONCE, SearchView, Searcher};
use super::throttle::{COUNTING, RetrySchedule};
use crate::bulk::DocumentChange;
use crate::clock;
use crate::cluster::roots::roots_index;

/// Points in time that are kept.
const POINTS: usize = 2;

/// Margin after the refresh interval before a write without a witness counts as visible.
const MARGIN: Duration = Duration::from_millis(1_500);

/// Longest wait for such a write in an index without refreshes.
const NEVER: Duration = Duration::from_secs(60);

/// How long a witness may stay invisible before it is checked whether another write has overtaken it.
const OVERTAKEN: Duration = Duration::from_secs(10);

/// Points are renewed before the cluster drops them, in indices that were written to lately.
const RENEWAL: Duration = Duration::from_secs(120);
const LATELY: Duration = Duration::from_secs(3_600);

/// One count of a generation of an index.
struct CountRun<'r> {
    name: &'r str,
    searcher: &'r Searcher,
    shared: &'r Shared,
    generation: &'r mut DirtyGeneration,
    /// When the work since the last rest began.
    began: &'r mut Instant,
}

#[derive(Debug)]
pub(super) struct IndexState {
    uuid: String,
    /// UUID of the roots index, as last seen or created.
    roots_uuid: Option<String>,
    in_hand: Option<DirtyGeneration>,
    /// When a missing witness was last searched for.
    asked: Instant,
    /// By which the last generations were counted, the latest in front.
    points: VecDeque<SearchView>,
    counted: Instant,
    /// When a non-empty generation was last counted.
    busy: Instant,
    /// The running full reconciliation, if the index is marked.
    pub(super) pass: Option<ReconcilePass>,
    marked: bool,
    /// Whether the index was marked again during the pass.
    marked_again: bool,
    /// The rolling comparison.
    pub(super) rolling: Option<ReconcilePass>,
    /// Attempts at counting dirty groups.
    tried: Instant,
    /// Attempts that fail for reasons of the index.
    pub(super) counting: RetrySchedule,
    pub(super) passing: RetrySchedule,
    pub(super) in_passing: RetrySchedule,
}

impl IndexState {
    pub(super) fn new(found: &FoundIndex, now: Instant) -> IndexState {
        IndexState {
            uuid: found.uuid.clone(),
            roots_uuid: None,
            in_hand: None,
            asked: now,
            points: VecDeque::new(),
            counted: now,
            busy: now,
            pass: None,
            marked: false,
            marked_again: false,
            rolling: None,
            tried: now,
            counting: RetrySchedule::new(now),
            passing: RetrySchedule::new(now),
            in_passing: RetrySchedule::new(now),
        }
    }

    /// Whether a tick has to see to it. `is_dirty`: something has gathered.
    pub(super) fn is_due(&self, is_dirty: bool, now: Instant) -> bool {
        let wants_renewal = !self.points.is_empty() && now >= self.counted + RENEWAL;
        // A success ends the failure, even if nothing is left of its cause.
        let has_failed = self.counting.trouble().is_some();
        let is_wanted = is_dirty || self.in_hand.is_some() || wants_renewal || has_failed;
        self.counting.is_due(now) && is_wanted
    }

    /// When a tick has last seen to it.
    pub(super) fn tried(&self) -> Instant {
        self.tried
    }

    /// Whether it is to be compared as a whole, now.
    pub(super) fn wants_pass(&self, now: Instant) -> bool {
        self.marked && self.passing.is_due(now)
    }

    /// Whether it is to be compared as a whole.
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// The present failures.
    pub(super) fn attempts(&self) -> [&RetrySchedule; 3] {
        [&self.counting, &self.passing, &self.in_passing]
    }

    /// The pass through the whole index has ended.
    pub(super) fn passed(&mut self) {
        self.pass = None;
        self.marked = std::mem::take(&mut self.marked_again);
    }

    fn mark(&mut self) {
        // What a pass has compared may have changed since; it continues, or it might never end.
        self.marked_again = self.pass.is_some();
        self.marked = true;
    }

    /// Counts the generation in progress, or seals and counts the next one, if it is visible. Returns whether the
    /// index exists.
    pub(super) async fn count(&mut self, name: &str, searcher: &Searcher, shared: &Shared) -> Result<bool, CountError> {
        let mut began = Instant::now();
        self.tried = began;
        let roots = roots_index(name);
        let indices = searcher.indices(&format!("{name},{roots}")).await?;
        let find = |name: &str| indices.iter().find(|found| found.name == name);
        let Some(found) = find(name) else {
            return Ok(false);
        };
        self.observe(found, find(&roots), shared);
        let mut generation = match self.in_hand.take() {
            Some(generation) => generation,
            None => {
                self.asked = began;
                let sealed = shared.dirty.lock().seal(name);
                sealed.unwrap_or_default()
            }
        };
        let is_settled = match self.is_ripe(&generation, found) {
            true => {
                let mut run = CountRun { name, searcher, shared, generation: &mut generation, began: &mut began };
                self.count_generation(&mut run).await
            }
            false => Ok(false),
        };
        if let Ok(true) = is_settled {
            self.counted = Instant::now();
            if generation.since.is_some() {
                self.busy = self.counted;
            }
            if generation.whole {
                self.mark();
            }
            shared.dirty.lock().settled(name, self.marked);
            self.counting.succeeded();
        } else {
            self.in_hand = Some(generation);
        }
        shared.rest(began, COUNTING).await;
        is_settled.map(|_| true)
    }

    /// Replaces the count of dirty groups by a comparison of the whole index, range by range.
    pub(super) fn give_up(&mut self, name: &str, shared: &Shared) {
        let mut dirty = shared.dirty.lock();
        dirty.give_up(name);
        if self.in_hand.take().is_some() {
            self.mark();
            dirty.settled(name, true);
        }
    }

    /// Compares the UUIDs of index and roots index with the known ones; a new one marks the index.
    fn observe(&mut self, found: &FoundIndex, roots: Option<&FoundIndex>, shared: &Shared) {
        if found.uuid != self.uuid {
            debug!(index = found.name, "the index is a new one");
            self.uuid.clone_from(&found.uuid);
            self.points.clear();
            self.mark();
            shared.is_new(&found.name);
        }
        let roots_uuid = roots.map(|roots| roots.uuid.clone());
        if self.roots_uuid.is_some() && self.roots_uuid != roots_uuid {
            debug!(index = found.name, "the roots index is gone, or a new one");
            self.mark();
            shared.is_new(&found.name);
        }
        self.roots_uuid = roots_uuid;
    }

    /// Whether writes without a witness are visible by the elapsed time.
    fn is_ripe(&self, generation: &DirtyGeneration, found: &FoundIndex) -> bool {
        let takes = found.refresh.unwrap_or(NEVER).saturating_add(MARGIN);
        let unproven = generation.unproven;
        unproven.is_none_or(|at| at.elapsed() >= takes)
    }

    async fn count_generation(&mut self, run: &mut CountRun<'_>) -> Result<bool, CountError> {
        if run.generation.since.is_none() && self.busy.elapsed() > LATELY {
            self.points.clear();
            return Ok(true);
        }
        // Before the count: a later count has the later time.
        let version = clock::now().0;
        let view = run.searcher.open(run.name).await?;
        let counted = self.count_at(&view, version, run).await;
        if let Ok(true) = counted {
            self.points.push_front(view);
            self.points.truncate(POINTS);
        }
        counted
    }

    /// Counts a generation in a view. False if the view does not see it yet.
    async fn count_at(&mut self, view: &SearchView, version: i64, run: &mut CountRun<'_>) -> Result<bool, CountError> {
        let CountRun { name, searcher, shared, generation, began } = run;
        let unseen = searcher.unseen(view, generation.witnesses.iter()).await?;
        if !unseen.is_empty() {
            let overtaken = self.overtaken(name, &unseen, searcher).await?;
            let witnesses = &mut generation.witnesses;
            witnesses.retain(|seen| !overtaken.contains(&seen.id));
            return Ok(false);
        }
        self.add_old_roots(generation, searcher).await?;
        let roots: Vec<u64> = generation.roots.iter().copied().collect();
        for (at, roots) in roots.chunks(ROOTS_AT_ONCE).enumerate() {
            if at > 0 {
                shared.rest(**began, COUNTING).await;
                **began = Instant::now();
            }
            let groups = searcher.count(view, roots).await?;
            if !groups.is_empty() && self.roots_uuid.is_none() {
                let making = Instant::now();
                searcher.make_roots(name).await?;
                let made = searcher.indices(&roots_index(name)).await?;
                self.roots_uuid = made.first().map(|made| made.uuid.clone());
                // Once in an index's life, and the slowest of all requests: nothing to rest from.
                **began += making.elapsed();
            }
            // Some of it may have been written, whatever comes of it.
            shared.writes_entries(name);
            let kept = searcher.keep_counted(name, roots, &groups, version).await?;
            shared.writes_entries(name);
            if kept.refused > 0 {
                shared.has_refused(name, true);
            }
            {
                let mut status = shared.status.lock();
                status.roots_counted += roots.len() as u64;
                status.kept.add(kept);
            }
        }
        Ok(true)
    }

    /// The ids of witnesses that will never be visible, if a search for them is due.
    async fn overtaken(
        &mut self,
        name: &str,
        unseen: &[&DocumentChange],
        searcher: &Searcher,
    ) -> Result<Vec<String>, CountError> {
        if self.asked.elapsed() < OVERTAKEN {
            return Ok(Vec::new());
        }
        self.asked = Instant::now();
        searcher.overtaken(name, unseen).await
    }

    /// Adds the earlier roots of replaced documents. If they cannot be determined, the whole index is counted.
    async fn add_old_roots(&mut self, generation: &mut DirtyGeneration, searcher: &Searcher) -> Result<(), CountError> {
        if generation.replaced.is_empty() || generation.whole {
            return Ok(());
        }
        let is_point = |view: &SearchView| matches!(view, SearchView::Point(_));
        if self.points.len() < POINTS || !self.points.iter().all(is_point) {
            generation.whole = true;
            return Ok(());
        }
        for point in &self.points {
            match searcher.roots_of(point, &generation.replaced).await {
                Ok(roots) => generation.roots.extend(roots),
                // A point in time that fails in any other way is lost; the comparison finds what it would have shown.
                Err(error) if error.kind() == Failure::Away => return Err(error),
                Err(error) => {
                    debug!(%error, "a point in time is gone");
                    generation.whole = true;
                    break;
                }
            }
        }
        if generation.whole {
            self.points.clear();
        }
        generation.replaced.clear();
        Ok(())
    }
}
