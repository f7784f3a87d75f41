//! The counting task. In turn it counts dirty groups, compares marked indices as a whole, and compares all others by a
//! rolling scan; one at a time, so that the later of two counts of a root is written later.
//!
//! A failure concerns one name, or one kind of work on one index: it is retried later, and everything else proceeds.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::Shared;
use super::dirty_groups::IndexWrites;
use super::error::{CountError, Failure};
use super::index_state::{Counted, IndexState};
use super::reconcile::{self, Mode, ReconcilePass};
use super::searcher::{FoundIndex, Searcher};
use super::status::CountState;
use super::throttle::{COUNTING, ROLLING, RetrySchedule, rest_after};

/// How often dirty groups are sealed or counted. What one tick seals is visible at the next where the refresh interval
/// is a second.
const TICK: Duration = Duration::from_millis(2_750);

/// Interval of the discovery of new indices.
const WATCH: Duration = Duration::from_secs(30);

/// Least time between two ranges of the rolling scan.
pub(crate) const SLICE: Duration = Duration::from_millis(250);

/// Least duration of a rolling scan of an unchanged index.
const ROUND: Duration = Duration::from_secs(64);

/// Documents in a range of an index that was marked: about 30 ms of work.
const MARKED: u64 = 30_000;

/// Names in one request: encoded, each has 765 bytes at most, and the servers take a request line of 4,096.
const NAMES_AT_ONCE: usize = 5;

/// Most names that are retried because the cluster did not resolve them. Writes under others are found by the rolling
/// scan.
const NAMES: usize = 1_000;

pub(super) struct Counter {
    searcher: Searcher,
    shared: Arc<Shared>,
    /// Of the routes.
    patterns: Vec<String>,
    indices: BTreeMap<String, IndexState>,
    /// Written names that the cluster has not resolved yet.
    names: BTreeMap<String, PendingName>,
    /// The schedule of the discovery of new indices.
    watching: RetrySchedule,
    /// The marked index whose comparison ended or failed last.
    last_marked: String,
    /// The index of the last range of the rolling scan.
    last_rolled: String,
    /// The earliest time of the next range of the rolling scan.
    rolls_next: Instant,
    was_well: bool,
}

/// A name whose resolution is retried.
struct PendingName {
    /// Whether documents of a route were written under it; its indices then belong to the route.
    has_documents: bool,
    attempts: RetrySchedule,
}

impl Counter {
    pub(super) fn new(searcher: Searcher, shared: Arc<Shared>, patterns: &[String]) -> Counter {
        Counter {
            searcher,
            shared,
            patterns: patterns.to_vec(),
            indices: BTreeMap::new(),
            names: BTreeMap::new(),
            watching: RetrySchedule::new(Instant::now()),
            last_marked: String::new(),
            last_rolled: String::new(),
            rolls_next: Instant::now(),
            was_well: true,
        }
    }

    /// The task, which does not end by itself.
    pub(super) async fn run(mut self) {
        loop {
            let next_tick = Instant::now() + TICK;
            self.tick().await;
            self.report();
            // Once at least: a tick may take longer than the time to the next.
            while !self.between_ticks(next_tick).await && Instant::now() < next_tick {}
            self.report();
        }
    }

    /// Counts the dirty groups.
    async fn tick(&mut self) {
        self.watch().await;
        // Without any privilege, a retry shows when that changes; writes stay noted until then.
        if !self.indices.is_empty() || self.watching.trouble().is_none() {
            self.resolve_names().await;
        }
        let now = Instant::now();
        let waiting = self.shared.dirty.lock().names();
        let due = |name: &String, index: &IndexState| index.is_due(waiting.contains(name), now);
        let due = self.indices.iter().filter(|(name, index)| due(name, index));
        let mut due: Vec<(Instant, String)> = due.map(|(name, index)| (index.tried(), name.clone())).collect();
        // The longest waiting first: what keeps failing comes last.
        due.sort();
        for (_, name) in due {
            // The cluster may be away for all of them: it is not asked 2,000 times in a row. The others come first in
            // the next tick.
            if self.count(&name).await == Some(Failure::Away) {
                break;
            }
        }
        self.shared.status.lock().indices = self.indices.len() as u64;
    }

    /// Counts the visible dirty groups of an index. Returns the failure that ended it.
    async fn count(&mut self, name: &str) -> Option<Failure> {
        while let Some(index) = self.indices.get_mut(name) {
            let mut began = Instant::now();
            let counted = index.count(name, &self.searcher, &self.shared, &mut began).await;
            if let Err(error) = &counted {
                index.counting.failed(Instant::now(), error);
                if index.counting.is_hopeless(error.kind()) {
                    self.shared.dirty.lock().give_up(name);
                }
                self.failed(error);
            }
            self.rest(began).await;
            match counted {
                Ok(Counted::More) => {}
                Ok(Counted::Gone) => self.forget(name),
                Ok(Counted::All) => return None,
                Err(error) => return Some(error.kind()),
            }
        }
        None
    }

    /// Rests after work that began at an instant, while the rolling scan goes on. Returns whether a reader began to
    /// wait for counts, which ends the rest.
    async fn rest(&mut self, began: Instant) -> bool {
        let work = began.elapsed();
        self.shared.status.lock().busy += work;
        let until = Instant::now() + rest_after(work, COUNTING, Duration::ZERO);
        while Instant::now() < until {
            if self.roll(until).await {
                return true;
            }
        }
        false
    }

    /// Discovers new and deleted indices, periodically and when names were changed.
    async fn watch(&mut self) {
        let now = Instant::now();
        // Names that are changed from here on are discovered the next time.
        let has_new_names = self.shared.has_new_names.load(Relaxed);
        let is_due = self.watching.is_due(now) || has_new_names && self.watching.trouble().is_none();
        if !is_due {
            return;
        }
        self.shared.has_new_names.store(false, Relaxed);
        match self.discover_indices().await {
            Ok(()) => {
                self.watching.succeeded();
                self.watching.not_before(now + WATCH);
            }
            Err(error) => {
                self.shared.has_new_names.fetch_or(has_new_names, Relaxed);
                self.watching.failed(Instant::now(), &error);
                self.failed(&error);
            }
        }
    }

    async fn discover_indices(&mut self) -> Result<(), CountError> {
        let mut failure = None;
        let mut found = match self.searcher.indices(&self.patterns.join(",")).await {
            Ok(found) => found,
            Err(error) if self.patterns.len() == 1 => return Err(error),
            Err(error) => {
                debug!(%error, "the patterns of the routes are asked for one by one");
                Vec::new()
            }
        };
        // A missing or failing pattern does not hide the others.
        if found.is_empty() && self.patterns.len() > 1 {
            for pattern in &self.patterns {
                match self.searcher.indices(pattern).await {
                    Ok(of_pattern) => found.extend(of_pattern),
                    Err(error) => failure = Some(error),
                }
            }
        }
        for index in &found {
            self.track(index);
        }
        let others = self.check_others(&found).await;
        failure.map_or(others, Err)
    }

    /// Looks up the counted indices that are missing in `found`, and forgets those that do not exist under their own
    /// name any more: an alias may have taken it. Some that fail do not hide the others.
    async fn check_others(&mut self, found: &[FoundIndex]) -> Result<(), CountError> {
        let names: HashSet<&str> = found.iter().map(|index| &*index.name).collect();
        let others = self.indices.keys().filter(|name| !names.contains(name.as_str()));
        let others: Vec<String> = others.cloned().collect();
        let mut last = Ok(());
        for others in others.chunks(NAMES_AT_ONCE) {
            match self.searcher.indices(&others.join(",")).await {
                Ok(there) => {
                    for name in others {
                        match there.iter().find(|index| index.name == *name) {
                            Some(index) => self.track(index),
                            None => self.forget(name),
                        }
                    }
                }
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// Resolves aliases and patterns under which documents were written, and discovers new indices.
    async fn resolve_names(&mut self) {
        let now = Instant::now();
        let known: Vec<&str> = self.indices.keys().map(String::as_str).collect();
        let names = {
            let mut dirty = self.shared.dirty.lock();
            dirty.spread(known.into_iter());
            dirty.names()
        };
        let mut asked: Vec<(Instant, String)> = Vec::new();
        for name in names {
            match self.names.get_mut(&name) {
                _ if self.indices.contains_key(&name) => {}
                None => asked.push((now, name)),
                // It waits for its next attempt, which counts later writes, too.
                Some(of) => {
                    let mut dirty = self.shared.dirty.lock();
                    of.has_documents |= dirty.has_documents(&name);
                    dirty.move_to_indices(&name, &[]);
                }
            }
        }
        let again = self.names.iter().filter(|(_, of)| of.attempts.is_due(now));
        asked.extend(again.map(|(name, of)| (of.attempts.next(), name.clone())));
        asked.sort();
        for (_, name) in asked {
            match self.resolve(&name).await {
                Ok(()) => drop(self.names.remove(&name)),
                Err(error) => {
                    let is_away = error.kind() == Failure::Away;
                    self.name_failed(name, &error);
                    if is_away {
                        break;
                    }
                }
            }
        }
    }

    async fn resolve(&mut self, name: &str) -> Result<(), CountError> {
        let again = self.names.get(name);
        let is_again = again.is_some();
        let has_documents = self.shared.dirty.lock().has_documents(name) || again.is_some_and(|of| of.has_documents);
        let found = self.searcher.indices(name).await?;
        // Where documents were stamped, the index is ours; a deletion by query may be anybody's.
        let is_ours = |found: &FoundIndex| {
            let is_known = self.indices.contains_key(&found.name);
            found.is_counted() && (has_documents || is_known)
        };
        let found: Vec<FoundIndex> = found.into_iter().filter(is_ours).collect();
        if !matches!(&*found, [only] if only.name == name) {
            let names: Vec<&str> = found.iter().map(|found| &*found.name).collect();
            self.shared.dirty.lock().move_to_indices(name, &names);
        }
        for index in &found {
            // Earlier writes under it were forgotten.
            if is_again {
                self.mark(&index.name);
            }
            self.track(index);
        }
        Ok(())
    }

    /// Forgets the writes under a name that the cluster does not resolve. It is retried where that may help:
    /// documents of a route were written, or the cluster is away.
    fn name_failed(&mut self, name: String, error: &CountError) {
        let has_documents = {
            let mut dirty = self.shared.dirty.lock();
            let has_documents = dirty.has_documents(&name);
            dirty.move_to_indices(&name, &[]);
            has_documents
        };
        let now = Instant::now();
        if let Some(of) = self.names.get_mut(&name) {
            of.has_documents |= has_documents;
            of.attempts.failed(now, error);
        } else if (has_documents || error.kind() == Failure::Away) && self.names.len() < NAMES {
            let mut attempts = RetrySchedule::new(now);
            attempts.failed(now, error);
            let of = PendingName { has_documents, attempts };
            self.names.insert(name, of);
        } else {
            debug!(name, %error, "nobody knows what was written under a name");
            return;
        }
        self.failed(error);
    }

    /// Tracks an index from now on, beginning with a comparison: earlier writes are unknown. So does another index of
    /// a known name.
    fn track(&mut self, found: &FoundIndex) {
        let known = self.indices.get(&found.name);
        if !found.is_counted() || known.is_some_and(|index| index.has_uuid(&found.uuid)) {
            return;
        }
        // It is not asked for as a name any more: a failure would take the mark away.
        self.names.remove(&found.name);
        self.mark(&found.name);
        self.shared.is_new(&found.name);
        self.indices.insert(found.name.clone(), IndexState::new(found, Instant::now()));
    }

    /// Marks an index once its writes until now are visible.
    fn mark(&self, name: &str) {
        let whole = IndexWrites { index: name, whole: true, ..IndexWrites::default() };
        self.shared.dirty.lock().note(&whole, Instant::now());
    }

    /// Removes a deleted index.
    fn forget(&mut self, name: &str) {
        self.indices.remove(name);
        self.shared.standings.write().remove(name);
        self.shared.dirty.lock().forget(name);
        debug!(index = name, "an index is gone");
    }

    /// Compares one range of a marked index or, if there is none, of the rolling scan. Returns whether a reader began
    /// to wait for counts.
    async fn between_ticks(&mut self, next_tick: Instant) -> bool {
        let began = Instant::now();
        let marked = {
            let dirty = self.shared.dirty.lock();
            let marked = self.indices.iter().filter(|(name, _)| dirty.has_visible_mark(name));
            let due = marked.filter(|(_, index)| index.comparing.is_due(began));
            in_turn(due.map(|(name, _)| name), &self.last_marked)
        };
        let Some(name) = marked else {
            return self.roll(next_tick).await;
        };
        if self.compare(&name, true).await.is_err() {
            self.last_marked.clone_from(&name);
        }
        self.rest(began).await
    }

    /// Compares one range of the rolling scan, or pauses until one is due, or until an instant. Returns whether a
    /// reader began to wait for counts.
    async fn roll(&mut self, until: Instant) -> bool {
        let began = Instant::now();
        let (name, next) = self.next_rolled(began);
        let Some(name) = name else {
            return self.shared.pause(next.map_or(until, |next| next.min(until))).await;
        };
        // The next round continues with the following ranges.
        if self.compare(&name, false).await.is_err()
            && let Some(pass) = self.indices.get_mut(&name).and_then(|index| index.pass.as_mut())
        {
            pass.skip_failed();
        }
        self.last_rolled = name;
        let work = began.elapsed();
        self.shared.status.lock().busy += work;
        // Counting does not wait for it.
        self.rolls_next = Instant::now() + rest_after(work, ROLLING, SLICE);
        false
    }

    /// The index whose next range of the rolling scan is due, and the time at which the first range of any is.
    fn next_rolled(&self, now: Instant) -> (Option<String>, Option<Instant>) {
        let dirty = self.shared.dirty.lock();
        let next = |name: &str, index: &IndexState| match dirty.is_changed(name) {
            true => index.comparing.next().max(self.rolls_next),
            false => index.comparing.next().max(self.rolls_next).max(index.next_range),
        };
        let unmarked = self.indices.iter().filter(|(name, _)| !dirty.has_visible_mark(name));
        let unmarked = unmarked.map(|(name, index)| (name, next(name, index)));
        let due = unmarked.clone().filter(|(_, next)| *next <= now);
        (in_turn(due.map(|(name, _)| name), &self.last_rolled), unmarked.map(|(_, next)| next).min())
    }

    /// Compares the next range of an index. `is_marked`: not for the rolling scan.
    async fn compare(&mut self, name: &str, is_marked: bool) -> Result<(), Failure> {
        let Err(error) = self.compare_range(name, is_marked).await else {
            return Ok(());
        };
        if let Some(index) = self.indices.get_mut(name) {
            index.comparing.failed(Instant::now(), &error);
        }
        if error.kind() == Failure::Missing {
            // The next tick finds out whether the index is gone.
            self.mark(name);
        }
        self.failed(&error);
        Err(error.kind())
    }

    /// Compares a range; with the last one the comparison of the index ends.
    async fn compare_range(&mut self, name: &str, is_marked: bool) -> Result<(), CountError> {
        let Some(index) = self.indices.get_mut(name) else {
            return Ok(());
        };
        if is_marked && !index.is_marked {
            index.pass = None;
        }
        let pass = match &mut index.pass {
            Some(pass) => pass,
            none => {
                index.is_marked = is_marked;
                let each = if is_marked { MARKED } else { reconcile::ROLLING };
                none.insert(ReconcilePass::begin(&self.searcher, name, each).await?)
            }
        };
        index.next_range = Instant::now() + ROUND / pass.ranges();
        let kept = pass.findings().kept;
        let step = pass.step(&self.searcher, Mode::Mend).await;
        if step.is_err() || pass.findings().kept != kept {
            self.shared.writes_entries(name);
        }
        let has_compared = step?;
        let (found, covers_since) = (*pass.findings(), pass.covers_since());
        // The end of a pass that has skipped a range is no success.
        if has_compared || covers_since.is_some() {
            index.comparing.succeeded();
        }
        if has_compared {
            return Ok(());
        }
        index.pass = None;
        debug!(index = name, ?found, is_marked, "an index was compared as a whole");
        self.shared.has_refused(name, found.kept.refused > 0);
        if let Some(began) = covers_since {
            self.shared.has_passed(name);
            self.shared.dirty.lock().compared(name, began);
        }
        let mut status = self.shared.status.lock();
        status.kept.add(found.kept);
        if is_marked {
            status.reconciled += 1;
            name.clone_into(&mut self.last_marked);
        }
        Ok(())
    }

    /// Counts a failure.
    fn failed(&mut self, error: &CountError) {
        match error.kind() {
            // It went away in the middle; the next tick finds that out.
            Failure::Missing => debug!(%error, "an index is gone"),
            Failure::Away | Failure::Other | Failure::Denied => {
                self.shared.status.lock().errors += 1;
            }
        }
    }

    /// Updates the status, and logs its changes.
    fn report(&mut self) {
        for (name, index) in &self.indices {
            let is_failing = index.attempts().iter().any(|of| of.trouble().is_some());
            self.shared.is_failing(name, is_failing);
        }
        let indices = self.indices.values().flat_map(IndexState::attempts);
        let names = self.names.values().map(|of| &of.attempts);
        let all = indices.chain(names).chain([&self.watching]);
        let worst = all.filter_map(RetrySchedule::trouble).max_by_key(|(kind, _)| *kind);
        let mut status = self.shared.status.lock();
        let Some((kind, reason)) = worst else {
            if status.enter(CountState::Counting, None) && !self.was_well {
                info!("groups are counted again");
            }
            self.was_well = true;
            return;
        };
        let (state, advice) = match kind {
            Failure::Denied => (
                CountState::Refused,
                "give the user of --service-url the rights that spinney serve --help names, or turn it off with \
                 --counts off",
            ),
            Failure::Away | Failure::Missing => (CountState::Unreachable, "it is tried again, and nothing is lost"),
            Failure::Other => (CountState::Failing, "it is tried again, and nothing is lost"),
        };
        if status.enter(state, Some(reason)) {
            warn!(reason, advice, "some groups are not counted");
        }
        self.was_well = false;
    }
}

/// The first name after `last`, or the first of all: round robin.
fn in_turn<'n>(names: impl Iterator<Item = &'n String>, last: &str) -> Option<String> {
    let mut first = None;
    for name in names {
        if name.as_str() > last {
            return Some(name.clone());
        }
        first.get_or_insert(name);
    }
    first.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::operator::Operator;
    use crate::counts::{Counts, StampFields};

    fn counter(counts: &Counts) -> Counter {
        let operator = Operator::of_model(|_, _, _| Some((503, serde_json::json!({}))));
        let shared = counts.shared.clone().unwrap();
        Counter::new(Searcher::new(operator, StampFields::new("cluster_")), shared, &[])
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_when_somebody_waits() {
        let counts = Counts::new(true);
        let mut counter = counter(&counts);
        let mut rests = async || {
            let begun = Instant::now();
            counter.rest(begun - Duration::from_secs(1)).await;
            begun.elapsed()
        };
        assert!(rests().await > Duration::from_secs(10));
        counts.hurry();
        // Within the same five seconds that is not another one.
        counts.hurry();
        assert!(rests().await < Duration::from_secs(1));
        counts.hurry();
        assert!(rests().await > Duration::from_secs(10));
    }

    /// Any client may write under any name while the cluster is away: the table of those that are asked for again is
    /// bounded, and a name beyond it takes no place of another.
    #[tokio::test]
    async fn names_that_are_asked_for_again_are_bounded() {
        let mut counter = counter(&Counts::new(true));
        let away = CountError::TimedOut("/name/_settings".into());
        assert_eq!(away.kind(), Failure::Away);
        for n in 0..NAMES {
            counter.name_failed(format!("name-{n}"), &away);
        }
        assert_eq!(counter.names.len(), NAMES);
        counter.name_failed("one-more".into(), &away);
        assert!(counter.names.len() == NAMES && !counter.names.contains_key("one-more"));
        counter.names.remove("name-7");
        counter.name_failed("one-more".into(), &away);
        assert!(counter.names.contains_key("one-more"));
    }
}
