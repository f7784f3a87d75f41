//! The task: in turn it counts what was touched, compares indices as a whole that were marked, and goes through all others in
//! passing. One thing at a time, so that of two counts of a root the later one is written later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::Shared;
use super::duty::{COUNTING, ROLLING, backoff, rest_after};
use super::error::{CountError, Failure};
use super::reconcile::{self, Mode, Pass};
use super::searcher::{Found, Searcher};
use super::status::State;
use super::touched::Written;
use super::tracked::Tracked;

/// How often touched roots are counted.
const TICK: Duration = Duration::from_millis(2_500);

/// How often new indices are looked for.
const WATCH: Duration = Duration::from_secs(30);

/// Two ranges in passing are at least this far from each other.
const SLICE: Duration = Duration::from_millis(250);

/// An index is gone through in passing no faster than this.
const ROUND: Duration = Duration::from_secs(64);

/// Documents in a range of an index that was marked: about 30 ms of work.
const MARKED: u64 = 30_000;

pub(super) struct Counter {
    searcher: Searcher,
    shared: Arc<Shared>,
    /// The patterns of the routes, joined by commas.
    patterns: String,
    indices: BTreeMap<String, Tracked>,
    watched: Option<Instant>,
    /// The index that was gone through in passing last.
    last_rolled: String,
    failures: u32,
    was_well: bool,
}

impl Counter {
    pub(super) fn new(searcher: Searcher, shared: Arc<Shared>, patterns: &[String]) -> Counter {
        Counter {
            searcher,
            shared,
            patterns: patterns.join(","),
            indices: BTreeMap::new(),
            watched: None,
            last_rolled: String::new(),
            failures: 0,
            was_well: true,
        }
    }

    /// Counts until it is told to stop.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            // The sender gone is a stop, too.
            _ = stopped.wait_for(|&stopped| stopped) => {}
            () = self.count() => {}
        }
        let Counter {
            searcher, indices, ..
        } = self;
        for (_, index) in indices {
            index.close(&searcher).await;
        }
    }

    async fn count(&mut self) {
        loop {
            let next = Instant::now() + TICK;
            let mut result = self.tick().await;
            while result.is_ok() && Instant::now() < next {
                result = self.between_ticks(next).await;
            }
            self.report(&result);
            match result {
                Ok(()) => self.failures = 0,
                Err(_) => {
                    pause_until(Instant::now() + backoff(self.failures)).await;
                    self.failures = self.failures.saturating_add(1);
                }
            }
        }
    }

    /// Counts what was touched.
    async fn tick(&mut self) -> Result<(), CountError> {
        let now = Instant::now();
        if self.watched.is_none_or(|at| now >= at + WATCH) {
            let found = self.searcher.indices(&self.patterns).await?;
            for index in &found {
                self.track(index);
            }
            self.watched = Some(now);
        }
        self.resolve_names().await?;
        let waiting = self.shared.touched.lock().names();
        let due: Vec<String> = self
            .indices
            .iter()
            .filter(|(name, index)| index.is_due(waiting.binary_search(name).is_ok(), now))
            .map(|(name, _)| name.clone())
            .collect();
        let mut failure = None;
        for name in due {
            let Some(index) = self.indices.get_mut(&name) else {
                continue;
            };
            match index.count(&name, &self.searcher, &self.shared).await {
                Ok(true) => {}
                Ok(false) => self.forget(&name).await,
                Err(error) => {
                    let kind = error.kind();
                    index.failed(Instant::now());
                    failure = self.failed(error);
                    if kind == Failure::Away {
                        break;
                    }
                }
            }
        }
        self.show_figures();
        failure.map_or(Ok(()), Err)
    }

    /// Gives what was written under aliases, patterns and the like to their indices, and gets to know new indices.
    async fn resolve_names(&mut self) -> Result<(), CountError> {
        let known: Vec<&str> = self.indices.keys().map(String::as_str).collect();
        let names = {
            let mut touched = self.shared.touched.lock();
            touched.spread(known.into_iter());
            touched.names()
        };
        for name in names {
            if self.indices.contains_key(&name) {
                continue;
            }
            let has_documents = self.shared.touched.lock().has_documents(&name);
            let found = self.searcher.indices(&name).await?;
            // Where documents were stamped, the index is ours; a deletion by query may be anybody's.
            let is_ours = |found: &Found| {
                found.has_documents() && (has_documents || self.indices.contains_key(&found.name))
            };
            let found: Vec<Found> = found.into_iter().filter(is_ours).collect();
            if !matches!(&*found, [only] if only.name == name) {
                let names: Vec<&str> = found.iter().map(|found| &*found.name).collect();
                self.shared.touched.lock().stands_for(&name, &names);
            }
            for index in &found {
                self.track(index);
            }
        }
        Ok(())
    }

    /// Keeps an index true from now on, beginning with all of it: nobody knows what was written before.
    fn track(&mut self, found: &Found) {
        if !found.has_documents() || self.indices.contains_key(&found.name) {
            return;
        }
        self.mark(&found.name);
        self.shared.known.write().insert(found.name.clone());
        self.indices
            .insert(found.name.clone(), Tracked::new(found, Instant::now()));
    }

    /// All of an index is to be counted, by what will be visible then.
    fn mark(&self, name: &str) {
        let whole = Written {
            index: name,
            whole: true,
            ..Written::default()
        };
        self.shared.touched.lock().note(&whole, Instant::now());
    }

    /// The index is gone.
    async fn forget(&mut self, name: &str) {
        if let Some(index) = self.indices.remove(name) {
            index.close(&self.searcher).await;
        }
        self.shared.known.write().remove(name);
        let mut touched = self.shared.touched.lock();
        touched.settled(name, false);
        touched.stands_for(name, &[]);
        debug!(index = name, "an index is gone");
    }

    /// One range of an index that was marked or, if there is none, of the next one in passing.
    async fn between_ticks(&mut self, next_tick: Instant) -> Result<(), CountError> {
        let began = Instant::now();
        let marked = self
            .indices
            .iter()
            .find(|(_, index)| index.wants_pass(began));
        if let Some(name) = marked.map(|(name, _)| name.clone()) {
            let result = self.whole(&name).await;
            rest(began, COUNTING, &self.shared).await;
            return self.settle_failure(&name, result);
        }
        let rolling = self
            .indices
            .iter()
            .filter(|(_, index)| index.rolls_at() <= began);
        let (behind, others): (Vec<_>, Vec<_>) = rolling
            .map(|(name, _)| name.clone())
            .partition(|name| *name > self.last_rolled);
        let Some(name) = behind.into_iter().chain(others).next() else {
            let rolls = self.indices.values().map(Tracked::rolls_at).min();
            pause_until(rolls.map_or(next_tick, |at| at.min(next_tick))).await;
            return Ok(());
        };
        let result = self.roll(&name).await;
        self.last_rolled.clone_from(&name);
        let work = began.elapsed();
        self.shared.status.lock().busy += work;
        // Ticks do not wait for it.
        let until = Instant::now() + rest_after(work, ROLLING, SLICE);
        for index in self.indices.values_mut() {
            index.roll_not_before(until);
        }
        self.settle_failure(&name, result)
    }

    /// The next range of an index that was marked.
    async fn whole(&mut self, name: &str) -> Result<(), CountError> {
        let Some(index) = self.indices.get_mut(name) else {
            return Ok(());
        };
        let pass = match &mut index.pass {
            Some(pass) => pass,
            none => none.insert(Pass::begin(&self.searcher, name, MARKED).await?),
        };
        if pass.step(&self.searcher, Mode::Mend).await? {
            return Ok(());
        }
        let found = *pass.findings();
        index.passed();
        self.shared.touched.lock().mark(name, index.is_marked());
        let mut status = self.shared.status.lock();
        status.reconciled += 1;
        status.kept.add(found.kept);
        debug!(index = name, ?found, "an index was compared as a whole");
        Ok(())
    }

    /// The next range of an index in passing.
    async fn roll(&mut self, name: &str) -> Result<(), CountError> {
        let Some(index) = self.indices.get_mut(name) else {
            return Ok(());
        };
        let pass = match &mut index.rolling {
            Some(pass) => pass,
            none => none.insert(Pass::begin(&self.searcher, name, reconcile::ROLLING).await?),
        };
        let every = ROUND / pass.ranges();
        if !pass.step(&self.searcher, Mode::Mend).await? {
            self.shared.status.lock().kept.add(pass.findings().kept);
            index.rolling = None;
        }
        index.roll_not_before(Instant::now() + every);
        index.is_well();
        Ok(())
    }

    fn settle_failure(
        &mut self,
        name: &str,
        result: Result<(), CountError>,
    ) -> Result<(), CountError> {
        let Err(error) = result else { return Ok(()) };
        if let Some(index) = self.indices.get_mut(name) {
            index.failed(Instant::now());
            index.rolling = None;
        }
        if error.kind() == Failure::Missing {
            // The next tick finds out whether the index is gone.
            self.mark(name);
        }
        self.failed(error).map_or(Ok(()), Err)
    }

    /// Counts a failure of one index. Gives it back if it concerns all.
    fn failed(&mut self, error: CountError) -> Option<CountError> {
        match error.kind() {
            // It went away in the middle; the next tick finds that out.
            Failure::Missing => {
                debug!(%error, "an index, or a point in time, is gone");
                None
            }
            Failure::Away | Failure::Denied => Some(error),
            Failure::Other => {
                self.report(&Err(error));
                None
            }
        }
    }

    fn show_figures(&self) {
        self.shared.status.lock().indices = self.indices.len() as u64;
    }

    /// Says how it goes: in the log only when that changes.
    fn report(&mut self, result: &Result<(), CountError>) {
        let mut status = self.shared.status.lock();
        let Err(error) = result else {
            let is_ill = self.indices.values().any(Tracked::is_failing);
            if !is_ill && status.enter(State::Counting, None) && !self.was_well {
                info!("groups are counted again");
            }
            self.was_well |= !is_ill;
            return;
        };
        status.errors += 1;
        let (state, advice) = match error.kind() {
            Failure::Denied => (
                State::Refused,
                "give the user of --service-url the rights that spinney serve --help names, or turn it off with --counts off",
            ),
            Failure::Away | Failure::Missing => {
                (State::Unreachable, "it is tried again, and nothing is lost")
            }
            Failure::Other => (State::Failing, "it is tried again, and nothing is lost"),
        };
        let reason = error.to_string();
        if status.enter(state, Some(&reason)) {
            warn!(reason, advice, "groups are not counted");
        }
        self.was_well = false;
    }
}

/// Rests after work that began at an instant, unless somebody waits.
pub(super) async fn rest(began: Instant, parts: u32, shared: &Shared) {
    let work = began.elapsed();
    shared.status.lock().busy += work;
    let until = Instant::now() + rest_after(work, parts, Duration::ZERO);
    tokio::select! {
        () = pause_until(until) => {}
        () = shared.hurry.notified() => {}
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what keeps counting to its part of the time"
)]
async fn pause_until(instant: Instant) {
    tokio::time::sleep(instant.saturating_duration_since(Instant::now())).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_when_somebody_waits() {
        let counts = Counts::new(true);
        let shared = counts.shared.as_ref().unwrap();
        let rests = async |shared: &Shared| {
            let begun = tokio::time::Instant::now();
            let work = Instant::now() - Duration::from_secs(1);
            rest(work, COUNTING, shared).await;
            begun.elapsed()
        };
        assert!(rests(shared).await > Duration::from_secs(10));
        counts.hurry();
        // Within the same five seconds that is not another one.
        counts.hurry();
        assert!(rests(shared).await < Duration::from_secs(1));
        counts.hurry();
        assert!(rests(shared).await > Duration::from_secs(10));
    }
}
