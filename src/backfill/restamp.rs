//! Restamps stored documents after overrides, in spinney's own name: documents whose root is no longer the answered
//! one. `forest/overrides/restamp.rs` determines which they are and their new roots; docs/internals/overrides.md
//! specifies it.
//!
//! Only the root is written, and whether the document is the first of its group where the forest knows that. Writes
//! are guarded by the version that was read, so repeated, overtaken and interrupted ones end the same. A failure
//! concerns one document, index or forest and is retried later; all others proceed. Documents that were in flight when
//! the override was added are waited for, since they may have the earlier root. Of the processes that share a forest
//! one restamps; it waits for the in-flight documents of all of them (`override_progress.rs`).

mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::BackfillError;
use super::bulk_lines::{self, StampOutcome, WriteForm};
use super::discovery::{RouteIndices, discover_route};
use super::mapping;
use super::sending::write_own;
use crate::bulk::stored_value;
use crate::cluster::operator::{Operator, OperatorError};
use crate::cluster::resolve::closed_indices;
use crate::cluster::retry::FIRST_PAUSE;
use crate::cluster::sorted_pages::{Slice, StoredHit};
use crate::counts::{Counts, IndexWrites};
use crate::engine::{BackfillRoute, Engine, OverrideError, RequestContext, RouteTable, Unavailable};
use crate::fingerprint::Fingerprint;
use crate::forest::overrides::{ResolvedDocument, RestampPass};
use crate::forest::{DocumentHash, Root};
use crate::index_pattern::fits;
use crate::shutdown::Writes;
use plan::{InFlightBefore, Job, Remaining, RestampPlan, Task, Unfinished, take, together};
pub(crate) use status::Restamping;

/// Documents of a bulk.
const BATCH: usize = 500;

/// Roots of one search, unless a single override names more.
const MOST_ROOTS: usize = 2_000;

/// Delay between a late merge and its restamp, to gather several.
const GATHERING: Duration = Duration::from_secs(1);

/// Attempts of a search with transient failures; the job is retried later.
const ATTEMPTS: u32 = 3;

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Interval of the question whether closed indices are open again.
const CLOSED_PAUSE: Duration = Duration::from_secs(10);

/// The restamping task.
pub(crate) struct Restamper<'a> {
    pub(crate) shared: &'a Restamping,
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) operator: &'a Operator,
    pub(crate) writes: &'a Writes,
    pub(crate) counts: &'a Counts,
    pub(crate) routes: &'a RouteTable,
    /// The shared forests.
    pub(crate) shared_forests: Vec<String>,
    /// Context for reading a stored document.
    pub(crate) context: &'a (dyn Fn() -> RequestContext + Send + Sync),
}

/// Why a job cannot proceed.
#[derive(Debug, thiserror::Error)]
enum RestampError {
    #[error(transparent)]
    Adopt(#[from] BackfillError),
    #[error(transparent)]
    Forest(#[from] Unavailable),
}

impl Restamper<'_> {
    /// Works until it is aborted.
    pub(crate) async fn run(&self) {
        let mut plan = RestampPlan::default();
        loop {
            self.begin(&mut plan).await;
            self.advance(&mut plan).await;
            self.report_trouble(&mut plan);
            let next = plan.next();
            if next.is_some_and(|next| next <= Instant::now()) {
                continue;
            }
            // Forests that did not answer are asked again.
            let again = plan.trouble.is_some().then(|| Instant::now() + LONGEST_PAUSE / 10);
            let next = next.into_iter().chain(again).chain(plan.closed_again).min();
            tokio::select! {
                biased;
                () = self.woken() => {}
                () = plan.ended() => {}
                () = until(next) => {}
            }
        }
    }

    fn report_trouble(&self, plan: &mut RestampPlan) {
        let trouble = plan.last_error().map(str::to_owned);
        self.shared.report_trouble(!plan.tasks.is_empty(), trouble.as_deref());
        match &trouble {
            Some(error) if plan.reported != trouble => {
                warn!(%error, "some stored documents do not follow yet what was said about groups");
            }
            Some(error) => debug!(%error, "some stored documents still do not follow"),
            None => {}
        }
        plan.reported = trouble;
    }

    /// Whether it is this process that has the stored documents of a forest follow.
    fn leads(&self, forest: &str) -> bool {
        self.shared.leads(forest, &self.shared_forests)
    }

    fn is_shared(&self, forest: &str) -> bool {
        self.shared_forests.iter().any(|shared| shared == forest)
    }

    /// Wakes the task after an override.
    async fn woken(&self) {
        tokio::select! {
            biased;
            () = self.shared.wake.notified() => {}
            // Nobody waits for late merges, and several may follow each other.
            () = self.engine.merged() => pause(GATHERING).await,
        }
    }

    /// Starts new jobs and drops outdated ones.
    async fn begin(&self, plan: &mut RestampPlan) {
        for job in self.new_jobs(plan).await {
            self.shared.status.lock().is_working = true;
            match self.begin_job(job).await {
                Ok(task) => plan.tasks.push(task),
                Err(error) => self.failed(&mut plan.trouble, &error.to_string()),
            }
        }
    }

    async fn new_jobs(&self, plan: &mut RestampPlan) -> Vec<Job> {
        plan.trouble = None;
        self.recheck_closed(plan).await;
        plan.started.retain(|forest| self.leads(forest));
        let (mut new, mut to_do, mut waiting) = (Vec::new(), Unfinished::new(), 0);
        let mut unknown = HashSet::new();
        for forest in self.engine.forests().with_overrides() {
            let overrides = match self.engine.forests().overrides_of(&forest).await {
                Ok(overrides) => overrides,
                Err(error) => {
                    self.failed(&mut plan.trouble, &error.to_string());
                    unknown.insert(forest);
                    continue;
                }
            };
            waiting += overrides.unfinished().len() as u64;
            if !self.leads(&forest) {
                continue;
            }
            let of_start = |task: &Task| task.job.forest == forest && task.job.overrides.is_empty();
            if !plan.started.contains(&forest) && !plan.tasks.iter().any(of_start) {
                new.push(Job { forest: forest.clone(), overrides: Vec::new() });
            }
            let unfinished = overrides.unfinished();
            let unfinished = unfinished.map(|(number, of)| (number, of.clone()));
            to_do.insert(forest, unfinished.collect());
        }
        self.shared.status.lock().waiting = waiting;
        // Changed overrides start again; the others of the job's pass are complete.
        plan.tasks.retain_mut(|Task { job, .. }| {
            if unknown.contains(&job.forest) {
                return true;
            }
            if job.overrides.is_empty() {
                return self.leads(&job.forest);
            }
            let mut of_forest = to_do.get_mut(&job.forest);
            job.overrides.retain(|(number, restamp)| {
                let to_do = of_forest.as_mut();
                to_do.is_some_and(|to_do| take(to_do, *number, restamp))
            });
            !job.overrides.is_empty()
        });
        new.extend(together(to_do));
        new
    }

    async fn begin_job(&self, job: Job) -> Result<Task, RestampError> {
        let before = if job.overrides.is_empty() {
            None
        } else {
            // From here on all answers follow the override.
            let version = self.engine.forests().refresh_overrides(&job.forest).await?;
            let (here, forest) = (self.writes.begun(), job.forest.clone());
            let all_acknowledged = self.shared.all_acknowledged().clone();
            let is_shared = self.is_shared(&forest);
            let before: InFlightBefore = Box::pin(async move {
                here.await;
                if is_shared {
                    all_acknowledged.wait(forest, version).await;
                }
            });
            // Most documents follow at once; in-flight ones are found by the later pass.
            if let Err(error) = self.pass(&job).await {
                debug!(%error, "documents are gone through later");
            }
            Some(before)
        };
        Ok(Task { job, before, next: Instant::now(), pause: FIRST_PAUSE, trouble: None })
    }

    /// Goes once through the documents of every job whose time it is.
    async fn advance(&self, plan: &mut RestampPlan) {
        let mut open = Vec::new();
        for mut task in std::mem::take(&mut plan.tasks) {
            let is_due = task.before.is_none() && task.next <= Instant::now();
            if !is_due || !self.end(&mut task).await {
                open.push(task);
            } else if task.job.overrides.is_empty() {
                plan.started.insert(task.job.forest);
            }
        }
        plan.tasks = open;
    }

    /// Runs a pass of a job, and reports the overrides that all documents follow. Returns whether the job is
    /// complete.
    async fn end(&self, task: &mut Task) -> bool {
        let result = self.pass(&task.job).await;
        let is_all = match result {
            Ok((left, pass)) => self.ended(task, left, pass).await,
            Err(error) => {
                self.failed(&mut task.trouble, &error.to_string());
                false
            }
        };
        task.next = Instant::now() + task.pause;
        task.pause = (task.pause * 2).min(LONGEST_PAUSE);
        is_all
    }

    async fn ended(&self, task: &mut Task, left: Remaining, pass: RestampPass) -> bool {
        task.trouble = None;
        match &left.trouble {
            Some(trouble) => self.failed(&mut task.trouble, trouble),
            None if left.documents > 0 => {
                info!(left = left.documents, "documents were changed while they were to get another root");
            }
            None => {}
        }
        if task.job.overrides.is_empty() {
            return left.is_clear();
        }
        let overrides = task.job.overrides.iter();
        let overrides = overrides.filter(|(_, restamp)| left.is_clear_of(restamp));
        let clear: HashSet<u64> = overrides.map(|&(number, _)| number).collect();
        if clear.is_empty() {
            return false;
        }
        let done = pass.restricted_to(|number| clear.contains(&number));
        match self.engine.forests().restamped(&task.job.forest, done).await {
            Ok(()) => {
                task.job.overrides.retain(|(number, _)| !clear.contains(number));
                // Nothing counts them anew before the next override.
                let mut status = self.shared.status.lock();
                status.waiting = status.waiting.saturating_sub(clear.len() as u64);
            }
            Err(error) => self.failed(&mut task.trouble, &error.to_string()),
        }
        task.job.overrides.is_empty()
    }

    fn failed(&self, trouble: &mut Option<String>, error: &str) {
        self.shared.status.lock().errors += 1;
        *trouble = Some(error.to_owned());
    }

    /// Runs one pass of a job. Also returns the pass.
    async fn pass(&self, job: &Job) -> Result<(Remaining, RestampPass), RestampError> {
        let overrides = self.engine.forests().overrides_of(&job.forest).await?;
        let pass = job.pass(&overrides);
        let sought = pass.sought(&overrides);
        // Others change them meanwhile.
        drop(overrides);
        let mut left = Remaining::default();
        if sought.is_empty() {
            return Ok((left, pass));
        }
        for (at, route) in self.routes.routes.iter().enumerate() {
            if route.forest != job.forest {
                continue;
            }
            let surveyed = discover_route(self.operator, self.routes, at).await?;
            if let Some(error) = &surveyed.failed {
                left.unread(error);
            }
            self.note_closed(at).await;
            let Some(target) = surveyed.target else {
                continue;
            };
            let Some(mut target) = self.updatable(target, &mut left).await else {
                continue;
            };
            if !pass.needs_texts() {
                target.route.fields.clear();
            }
            target.route.fields.push(target.names.root().to_owned());
            let way = (&*job.forest, &pass);
            self.pass_of(way, &target, &sought, &mut left).await?;
        }
        Ok((left, pass))
    }

    /// Notes which indices of a route are closed, and which are not any more. Nothing waits for a closed one, since it
    /// may be so for good.
    async fn note_closed(&self, at: usize) {
        let Some(BackfillRoute { forest, index: patterns, .. }) = self.routes.routes.get(at) else {
            return;
        };
        for pattern in patterns {
            // What cannot be asked keeps the override waiting elsewhere.
            let Ok(mut closed) = closed_indices(self.operator, pattern).await else {
                continue;
            };
            closed.retain(|index| self.routes.route_of(index) == Some(at));
            let mut status = self.shared.status.lock();
            let is_open = |(of, index): &(usize, String)| *of == at && fits(pattern, index) && !closed.contains(index);
            if status.closed.extract_if(.., is_open).count() > 0 {
                info!(forest, "an index that was closed is open again: its documents follow what was merged meanwhile");
                status.opened.insert(forest.clone());
            }
            for index in closed {
                if status.closed.insert((at, index.clone())) {
                    warn!(index, "the documents of a closed index do not follow what is said about groups meanwhile");
                }
            }
        }
    }

    /// Has the documents of indices that were closed follow what was merged meanwhile, as those of a start do.
    async fn recheck_closed(&self, plan: &mut RestampPlan) {
        let now = Instant::now();
        if plan.closed_again.take_if(|at| *at <= now).is_some() {
            let routes: BTreeSet<usize> = self.shared.status.lock().closed.iter().map(|&(at, _)| at).collect();
            for at in routes {
                self.note_closed(at).await;
            }
        }
        let mut status = self.shared.status.lock();
        let again = plan.closed_again.unwrap_or(now + CLOSED_PAUSE);
        plan.closed_again = (!status.closed.is_empty()).then_some(again);
        let opened = std::mem::take(&mut status.opened);
        plan.started.retain(|forest| !opened.contains(forest));
    }

    /// Without the indices that do not store the whole source: an update would lose what is not there.
    async fn updatable(&self, target: RouteIndices, left: &mut Remaining) -> Option<RouteIndices> {
        let mappings = match target.stamp_mappings(self.operator).await {
            Ok(mappings) => mappings,
            Err(error) => {
                left.unread(&error.into());
                return None;
            }
        };
        let mut left_out = Vec::new();
        for index in &target.indices {
            if let Some(fault) = mapping::update_fault(&mappings[index]["mappings"]) {
                // For good: nothing waits for that.
                left.trouble = Some(BackfillError::Mapping { index: index.clone(), fault }.to_string());
                left_out.push(index.clone());
            }
        }
        target.without(&left_out)
    }

    /// Goes through the documents of one route. An index that cannot be read does not hide the others.
    async fn pass_of(
        &self,
        way: (&str, &RestampPass),
        target: &RouteIndices,
        sought: &[Root],
        left: &mut Remaining,
    ) -> Result<(), RestampError> {
        let error = match self.read(way, target, sought, left).await {
            Err(RestampError::Adopt(error)) => error,
            read => return read,
        };
        if target.indices.len() == 1 {
            left.unread(&error);
            return Ok(());
        }
        debug!(%error, "the indices of a route are read one by one");
        for one in target.per_index() {
            match self.read(way, &one, sought, left).await {
                Err(RestampError::Adopt(error)) => left.unread(&error),
                read => read?,
            }
        }
        Ok(())
    }

    /// Reads documents and stamps them anew.
    ///
    /// # Errors
    /// [`RestampError::Adopt`] if they cannot be read; what cannot be written is left.
    async fn read(
        &self,
        way: (&str, &RestampPass),
        target: &RouteIndices,
        sought: &[Root],
        left: &mut Remaining,
    ) -> Result<(), RestampError> {
        // A query takes so many terms.
        for roots in sought.chunks(MOST_ROOTS) {
            let roots: Vec<String> = roots.iter().map(Root::to_string).collect();
            let query = json!({"bool": {"filter": [
                {"terms": {"_index": target.indices}},
                {"terms": {target.names.root(): roots}},
            ]}});
            let mut pages = target.pages(self.operator, query, Slice::ALL, BATCH).with_attempts(ATTEMPTS);
            while let Some(found) = pages.next().await.map_err(BackfillError::from)? {
                self.stamp(way, target, &found, left).await?;
            }
        }
        Ok(())
    }

    /// Restamps those of these documents that have another root than the overrides prescribe.
    async fn stamp(
        &self,
        (forest, pass): (&str, &RestampPass),
        target: &RouteIndices,
        found: &[StoredHit],
        left: &mut Remaining,
    ) -> Result<(), RestampError> {
        let root_field = target.names.root();
        let mut resolved = Vec::with_capacity(found.len());
        for found in found {
            let Some(shown) = shown(&found.source, root_field) else {
                continue;
            };
            let of = match pass.needs_texts() {
                false => None,
                true => match self.resolve(target, found).await {
                    Ok(of) => of,
                    Err(OverrideError::Unavailable(reason)) => return Err(reason.into()),
                    Err(error) => {
                        left.add(shown);
                        left.trouble = Some(format!("{} {}: {error}", found.index, found.id));
                        continue;
                    }
                },
            };
            resolved.push((found, shown, of));
        }
        // The present overrides count. It is a write like others: another process may wait for it.
        let _writing = self.writes.enter();
        let overrides = self.engine.forests().overrides_of(forest).await?;
        let mut moved: BTreeMap<&str, Vec<Moved<'_>>> = BTreeMap::new();
        for (found, shown, of) in resolved {
            let root = pass.shows(&overrides, shown, of);
            if root != shown {
                moved.entry(&found.index).or_default().push(Moved { found, shown, root, first: None });
            }
        }
        drop(overrides);
        let roots: Vec<Root> = moved.values().flatten().map(|moved| moved.root).collect();
        if roots.is_empty() {
            return Ok(());
        }
        // In the group of another tree a document is not the first; where a merge is undone it may be.
        let firsts = self.engine.forests().firsts(forest, roots).await?;
        for (moved, first) in moved.values_mut().flatten().zip(firsts) {
            let own = DocumentHash::of(&moved.found.index, &moved.found.id);
            moved.first = (first != DocumentHash::UNKNOWN).then(|| own.fits(first));
        }
        let all: Vec<Moved<'_>> = moved.values().flatten().copied().collect();
        match self.write(target, &all, left).await {
            // A refusal of one index does not concern the others.
            Err(BackfillError::Operator(OperatorError::Refused { .. })) if moved.len() > 1 => {
                for moved in moved.values() {
                    if let Err(error) = self.write(target, moved, left).await {
                        left.unwritten(moved.iter().map(|moved| moved.shown), &error);
                    }
                }
            }
            Err(error) => left.unwritten(all.iter().map(|moved| moved.shown), &error),
            Ok(()) => {}
        }
        self.engine.note_unsure_firsts(forest, all.iter().flat_map(|moved| [moved.shown, moved.root]));
        Ok(())
    }

    /// Writes prescribed roots into documents.
    async fn write(
        &self,
        target: &RouteIndices,
        moved: &[Moved<'_>],
        left: &mut Remaining,
    ) -> Result<(), BackfillError> {
        let (root_field, key_field) = (target.names.root(), target.names.key());
        let mut lines = Vec::new();
        for Moved { found, root, first, .. } in moved {
            let key = root.0.0.cast_signed();
            let mut members = json!({root_field: root.to_string(), key_field: key});
            if let Some(first) = first {
                members[target.names.first()] = (*first).into();
            }
            let restamped = StoredHit { source: members.to_string().into(), ..(*found).clone() };
            bulk_lines::add(&mut lines, &restamped, WriteForm::Fields);
        }
        let fates = write_own(self.operator, "spinney-restamp", lines, moved.len()).await;
        // Without outcomes, it may have been done.
        self.note(moved, fates.as_deref().unwrap_or_default());
        let fates = fates?;
        for (moved, fate) in moved.iter().zip(fates) {
            match fate {
                StampOutcome::Stamped => self.shared.status.lock().stamped += 1,
                StampOutcome::Unchanged | StampOutcome::Gone => {}
                StampOutcome::Changed | StampOutcome::Later(_) => left.add(moved.shown),
                StampOutcome::Refused(reason) => {
                    left.add(moved.shown);
                    let StoredHit { index, id, .. } = moved.found;
                    left.trouble = Some(format!("{index} {id} cannot be written: {reason}"));
                }
            }
        }
        Ok(())
    }

    async fn resolve(
        &self,
        target: &RouteIndices,
        found: &StoredHit,
    ) -> Result<Option<ResolvedDocument>, OverrideError> {
        let name = target.name_of(&found.index);
        let source = found.source.clone();
        self.engine.resolve(name, source, (self.context)()).await
    }

    /// Reports to the counting. Without outcomes the writes are unknown.
    fn note(&self, moved: &[Moved<'_>], fates: &[StampOutcome]) {
        let mut parts: BTreeMap<&str, HashSet<u64>> = BTreeMap::new();
        for (at, Moved { found, shown, root, .. }) in moved.iter().enumerate() {
            let fate = fates.get(at);
            if fate.is_some_and(|fate| *fate != StampOutcome::Stamped) {
                continue;
            }
            parts.entry(&found.index).or_default().extend([shown, root].map(|root| root.0.0));
        }
        for (index, roots) in parts {
            let roots: Vec<u64> = roots.into_iter().collect();
            let written = IndexWrites { index, roots: &roots, ..IndexWrites::default() };
            self.counts.note(std::iter::once(written));
            self.counts.hurry();
        }
    }
}

/// A document that is to show another root.
#[derive(Clone, Copy)]
struct Moved<'f> {
    found: &'f StoredHit,
    shown: Root,
    root: Root,
    /// Whether it is the first of that group; `None`: unknown.
    first: Option<bool>,
}

#[expect(clippy::disallowed_methods, reason = "what the forest says is gathered for a while")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Returns at an instant; without one, never.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The root that a document shows.
pub(crate) fn shown(source: &[u8], field: &str) -> Option<Root> {
    let source = stored_value(source).ok()?;
    let root = Fingerprint::written(source.get(field)?.as_str()?, true)?;
    Some(Root(root))
}
