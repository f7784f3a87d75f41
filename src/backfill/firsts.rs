//! Keeps one first document in each group: looks for groups that have none or several stored documents which are
//! stamped as the first one, and puts that right. docs/internals/first.md specifies it.
//!
//! ```text
//! settled writes --unsure--+
//!                          +--> wait until they are visible --> search all indices --> elect, clear, learn
//! scan of all keys --------+                                            |
//!        ^                                                              +-- again, until one is found
//! ```
//!
//! Writes are guarded by the version that was read. Of the processes that share a forest one scans; each looks at the
//! groups of its own writes, since no scan finds one of which no document says anything.

mod adopt;
mod status;
mod stored_groups;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tracing::{debug, warn};
use xxhash_rust::xxh3::xxh3_64;

use super::bulk_lines::{self, StampOutcome, WriteForm};
use super::discovery::IndexSettings;
use super::sending::write_own;
use super::{BackfillError, Restamping};
use crate::cluster::operator::Operator;
use crate::cluster::sorted_pages::StoredHit;
use crate::counts::{COUNTING, ROLLING, RangeParts, SLICE, backoff, rest_after};
use crate::engine::{Engine, RouteTable, Unavailable};
use crate::fingerprint::Fingerprint;
use crate::forest::{DocumentHash, Root};
pub(crate) use adopt::{FlagOutcome, flag_firsts};
pub(crate) use status::FirstStatus;
use stored_groups::{Candidate, MOST_GROUPS, PassedOver, RangeResult, StoredGroup, View, visible_after};

/// How often notes of settled writes are taken.
const TICK: Duration = Duration::from_millis(2_750);

/// Interval of the discovery of new indices by the scan.
const WATCH: Duration = Duration::from_secs(30);

/// Documents of a range of the scan.
const RANGE: u64 = 4_000;

/// The scan of an unchanged index takes at least this time.
const ROUND: Duration = Duration::from_secs(16);

/// The most groups that wait; others are found by the next scan.
const MOST: usize = 100_000;

/// The most documents that are remembered because they cannot be updated. Others are tried again.
const MOST_REFUSED: usize = 1_000;

/// A document whose flag was written is not given the same flag again at once: after twice this time, and each time
/// after twice as long as the last time. Another spinney may not see the same indices, or the mapping does not take it.
const FIRST_WAIT: Duration = Duration::from_secs(4);
/// The longest wait, after which a group that was not written is as all others.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The task.
pub(crate) struct FirstKeeper<'a> {
    pub(crate) status: &'a FirstStatus,
    pub(crate) restamping: &'a Restamping,
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) operator: &'a Operator,
    pub(crate) routes: &'a RouteTable,
    /// The shared forests.
    pub(crate) shared_forests: Vec<String>,
}

/// Why the task cannot proceed.
#[derive(Debug, thiserror::Error)]
enum FirstsError {
    #[error(transparent)]
    Cluster(#[from] BackfillError),
    #[error(transparent)]
    Forest(#[from] Unavailable),
}

/// The work on one forest.
struct ForestWork<'a> {
    forest: String,
    /// Unsure groups, by key.
    gathered: HashSet<i64>,
    /// Those of them that are looked at next, once writes of then are visible.
    due: Vec<i64>,
    due_at: Instant,
    /// How long that takes, as far as is known.
    visible: Duration,
    /// Whether it is this process that scans.
    scans: bool,
    scan: Option<Scan<'a>>,
    scan_at: Instant,
    /// The groups that were written lately.
    repaired: HashMap<i64, Repaired>,
    /// Documents that the cluster does not let be updated: index and id.
    refused: HashSet<(String, String)>,
    failures: u32,
    not_before: Instant,
}

/// A group that was written.
#[derive(Debug, Clone, Copy)]
struct Repaired {
    /// Which document got which flag, as a hash.
    written: u64,
    wait: Duration,
    at: Instant,
}

/// A scan of all keys.
struct Scan<'a> {
    view: View<'a>,
    /// When its indices were found.
    found: Instant,
    parts: RangeParts,
    at: u32,
}

impl ForestWork<'_> {
    fn new(forest: String) -> Self {
        let now = Instant::now();
        ForestWork {
            forest,
            gathered: HashSet::new(),
            due: Vec::new(),
            due_at: now,
            visible: Duration::from_millis(2_500),
            scans: false,
            scan: None,
            scan_at: now,
            repaired: HashMap::new(),
            refused: HashSet::new(),
            failures: 0,
            not_before: now,
        }
    }

    fn add(&mut self, keys: impl IntoIterator<Item = i64>) {
        for key in keys {
            if self.gathered.len() < MOST {
                self.gathered.insert(key);
            }
        }
    }

    /// When the next piece of work is due.
    fn next(&self) -> Instant {
        let scan = self.scans.then_some(self.scan_at);
        let due = (!self.due.is_empty()).then_some(self.due_at);
        scan.into_iter().chain(due).min().unwrap_or_else(|| Instant::now() + TICK).max(self.not_before)
    }

    /// The cluster refuses to update a document. Returns whether that was not known.
    fn refuse(&mut self, hit: &StoredHit) -> bool {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        self.refused.insert((hit.index.clone(), hit.id.clone()))
    }

    /// Documents that cannot be written.
    fn passed_over<'s>(&'s self, settings: &'s IndexSettings) -> PassedOver<'s> {
        PassedOver {
            blocked: settings.blocked.iter().map(String::as_str).collect(),
            refused: self.refused.iter().map(|(index, id)| (index.as_str(), id.as_str())).collect(),
        }
    }

    fn is_refused(&self, hit: &StoredHit) -> bool {
        // Almost always there is none.
        !self.refused.is_empty() && self.refused.contains(&(hit.index.clone(), hit.id.clone()))
    }

    /// Whether a group may be written in this way.
    fn may_repair(&self, key: i64, flagged: &Flagged) -> bool {
        let repaired = self.repaired.get(&key).filter(|repaired| repaired.written == flagged.written());
        repaired.is_none_or(|repaired| repaired.at.elapsed() >= repaired.wait)
    }

    /// A group was written.
    fn repaired(&mut self, key: i64, flagged: &Flagged) {
        if self.repaired.len() >= MOST {
            self.repaired.clear();
        }
        let written = flagged.written();
        let is_same = |before: &&Repaired| before.written == written && before.at.elapsed() < LONGEST_WAIT * 2;
        let wait = self.repaired.get(&key).filter(is_same).map_or(FIRST_WAIT, |before| before.wait);
        self.repaired.insert(key, Repaired { written, wait: (wait * 2).min(LONGEST_WAIT), at: Instant::now() });
    }
}

/// A document whose flag is to be written.
struct Flagged {
    key: i64,
    hit: StoredHit,
    first: bool,
}

impl Flagged {
    fn written(&self) -> u64 {
        let StoredHit { index, id, .. } = &self.hit;
        xxh3_64(format!("{index}\n{id}\n{}", self.first).as_bytes())
    }
}

impl<'a> FirstKeeper<'a> {
    /// Works until it is aborted.
    pub(crate) async fn run(&self) {
        let mut names: Vec<&str> = self.routes.routes.iter().map(|route| &*route.forest).collect();
        names.sort_unstable();
        names.dedup();
        let mut forests: Vec<ForestWork<'a>> = names.into_iter().map(|name| ForestWork::new(name.to_owned())).collect();
        loop {
            let (begun, mut parts) = (Instant::now(), ROLLING);
            for work in &mut forests {
                if self.advance(work).await {
                    parts = COUNTING;
                }
            }
            self.status.waiting(forests.iter().map(|work| work.gathered.len() + work.due.len()).sum());
            let next = forests.iter().map(ForestWork::next).min().unwrap_or(begun + TICK).min(begun + TICK);
            pause(rest_after(begun.elapsed(), parts, SLICE).max(next.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Does a piece of work, if any is due. Returns whether groups were put right.
    async fn advance(&self, work: &mut ForestWork<'a>) -> bool {
        let unsure = self.engine.unsure_firsts(&work.forest);
        work.add(unsure.into_iter().map(|root| root.0.0.cast_signed()));
        work.scans = self.restamping.leads(&work.forest, &self.shared_forests);
        if !work.scans {
            work.scan = None;
        }
        let now = Instant::now();
        if now < work.not_before {
            return false;
        }
        if work.due.is_empty() && !work.gathered.is_empty() {
            work.due = work.gathered.drain().collect();
            work.due_at = now + work.visible;
        }
        let is_repair = !work.due.is_empty() && now >= work.due_at;
        let done = match is_repair {
            true => self.repair(work).await,
            false if work.scans && now >= work.scan_at => self.scan(work).await,
            false => return false,
        };
        let Err(error) = done else {
            // A scan that succeeds tells nothing of repairs that fail.
            if is_repair || work.due.is_empty() {
                work.failures = 0;
                self.status.succeeded(&work.forest);
            }
            return is_repair;
        };
        work.not_before = Instant::now() + backoff(work.failures);
        work.failures = work.failures.saturating_add(1);
        if self.status.failed(&work.forest, &error.to_string()) {
            warn!(forest = work.forest, %error, "groups without one first document are not looked for");
        }
        is_repair
    }

    async fn view(&self, forest: &str) -> Result<View<'a>, BackfillError> {
        let view = View::of(self.operator, self.routes, forest).await?;
        view.indices().for_each(|index| self.engine.note_index(index));
        if self.status.leaves_out(forest, &view.left_out) {
            let indices = view.left_out.join("; ");
            warn!(forest, indices, "the first documents of groups are not looked for in some indices");
        }
        Ok(view)
    }

    /// Looks at the next range of the scan.
    async fn scan(&self, work: &mut ForestWork<'a>) -> Result<(), FirstsError> {
        let mut scan = match work.scan.take() {
            Some(scan) => scan,
            None => {
                let view = self.view(&work.forest).await?;
                let parts = RangeParts::of(view.flagged().await?, RANGE);
                Scan { view, found: Instant::now(), parts, at: 0 }
            }
        };
        work.scan_at = Instant::now() + ROUND / scan.parts.count();
        let step = self.scan_range(&work.forest, &mut scan).await;
        if !matches!(step, Ok(None)) {
            work.scan = Some(scan);
        }
        work.add(step?.unwrap_or_default());
        Ok(())
    }

    /// Answers the unsure groups of the next range; `None`: the scan is over.
    async fn scan_range(&self, forest: &str, scan: &mut Scan<'a>) -> Result<Option<Vec<i64>>, FirstsError> {
        if scan.found.elapsed() >= WATCH {
            scan.view = self.view(forest).await?;
            scan.found = Instant::now();
        }
        let Some(range) = scan.parts.get(scan.at) else {
            self.status.scanned();
            return Ok(None);
        };
        match scan.view.range(range).await? {
            RangeResult::TooMany => {
                debug!(forest, "the scan begins again, with narrower ranges");
                Ok(None)
            }
            RangeResult::Unsure(keys) => {
                scan.at += 1;
                Ok(Some(keys))
            }
        }
    }

    /// Looks at groups, and puts them right.
    async fn repair(&self, work: &mut ForestWork<'a>) -> Result<(), FirstsError> {
        let view = self.view(&work.forest).await?;
        let settings = view.settings().await?;
        let visible = visible_after(&settings);
        if visible > std::mem::replace(&mut work.visible, visible) {
            work.due_at = Instant::now() + visible;
            return Ok(());
        }
        // Half of what a search returns: among so many documents some group has two.
        let most = MOST_GROUPS.min(settings.window / 2).max(1);
        let keys: Vec<i64> = work.due.iter().copied().take(most).collect();
        let groups = self.groups(&view, &settings, &keys).await?;
        let (mut firsts, mut right, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for &key in &keys {
            match groups.get(&key) {
                // Its documents may be there all the same.
                None if settings.is_manual => {}
                None => firsts.push((Root(Fingerprint(key.cast_unsigned())), DocumentHash::VACANT)),
                Some(StoredGroup { best, firsts: 1 }) if best.is_first => {
                    firsts.push(first_of(key, &best.hit));
                    right.push(key);
                }
                Some(_) => wrong.push(key),
            }
        }
        let mut chosen = self.chosen((&view, &settings), &wrong, &groups, work).await?;
        chosen.extend(self.copies(&view, &settings, &right, work).await?);
        let mut flagged = Vec::new();
        let mut contested = 0;
        for (key, documents) in chosen {
            match documents.first().is_none_or(|first| work.may_repair(key, first)) {
                true => flagged.extend(documents),
                false => contested += 1,
            }
        }
        self.engine.forests().set_firsts(&work.forest, &firsts).await?;
        self.status.searched(keys.len(), contested);
        for flagged in flagged.chunks(MOST_GROUPS) {
            self.write(&view, flagged, work).await?;
        }
        // They are looked at again: then one is found, and remembered.
        work.add(flagged.iter().map(|flagged| flagged.key));
        work.due.drain(..keys.len());
        Ok(())
    }

    /// What is stored of these groups. Where that is nothing, or no first document, the latest writes are made visible
    /// before it is believed: a busy cluster shows them later than its refresh interval says.
    async fn groups(
        &self,
        view: &View<'_>,
        settings: &IndexSettings,
        keys: &[i64],
    ) -> Result<HashMap<i64, StoredGroup>, FirstsError> {
        let mut groups = view.groups(keys, &PassedOver::default()).await?;
        let has_first = |key: &i64| groups.get(key).is_some_and(|group| group.best.is_first);
        let without: Vec<i64> = keys.iter().copied().filter(|key| !has_first(key)).collect();
        if !without.is_empty() && !settings.is_manual {
            view.refresh().await?;
            groups.extend(view.groups(&without, &PassedOver::default()).await?);
        }
        Ok(groups)
    }

    /// Chooses the first document of each of these groups, and returns the documents whose flags are wrong.
    async fn chosen(
        &self,
        (view, settings): (&View<'_>, &IndexSettings),
        keys: &[i64],
        groups: &HashMap<i64, StoredGroup>,
        work: &ForestWork<'_>,
    ) -> Result<Vec<(i64, Vec<Flagged>)>, FirstsError> {
        let is_blocked = |hit: &StoredHit| settings.blocked.contains(&hit.index);
        let is_passed = |hit: &StoredHit| is_blocked(hit) || work.is_refused(hit);
        let (several, none): (Vec<i64>, Vec<i64>) =
            keys.iter().partition(|key| groups.get(key).is_some_and(|group| group.best.is_first));
        let mut chosen = Vec::new();
        if !several.is_empty() {
            for (key, documents) in view.firsts(&several, settings.window).await? {
                // What cannot be cleared stays.
                let kept = documents.iter().position(|document| is_passed(&document.hit)).unwrap_or(0);
                let others = documents.into_iter().enumerate().filter(|(at, _)| *at != kept).map(|(_, of)| of.hit);
                let cleared = others.filter(|hit| !is_blocked(hit)).map(|hit| Flagged { key, hit, first: false });
                chosen.push((key, cleared.collect()));
            }
        }
        let hidden: Vec<i64> =
            none.iter().copied().filter(|key| groups.get(key).is_some_and(|of| is_passed(&of.best.hit))).collect();
        let writable = match hidden.is_empty() {
            true => HashMap::new(),
            false => view.groups(&hidden, &work.passed_over(settings)).await?,
        };
        for key in none {
            let found = groups.get(&key);
            let group = found.filter(|group| !is_passed(&group.best.hit)).or_else(|| writable.get(&key));
            // Where all are refused, the earliest is tried again after a while.
            let group = group.or_else(|| found.filter(|group| !is_blocked(&group.best.hit)));
            let elected = group.map(|group| Flagged { key, hit: group.best.hit.clone(), first: true });
            chosen.push((key, elected.into_iter().collect()));
        }
        Ok(chosen)
    }

    /// The documents of groups with a first one that do not say that they are not, some at a time: an update that made
    /// a document may have left that open. Were the first one deleted, the scan would not find their group.
    async fn copies(
        &self,
        view: &View<'_>,
        settings: &IndexSettings,
        keys: &[i64],
        work: &ForestWork<'_>,
    ) -> Result<Vec<(i64, Vec<Flagged>)>, FirstsError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let most = MOST_GROUPS.min(settings.window);
        let found = view.unflagged(keys, most, &work.passed_over(settings)).await?;
        let flagged = |key: i64, hit: StoredHit| Flagged { key, hit, first: false };
        let of_group = |(key, copies): (i64, Vec<Candidate>)| {
            (key, copies.into_iter().map(|copy| flagged(key, copy.hit)).collect())
        };
        Ok(found.into_iter().map(of_group).collect())
    }

    /// Writes flags. Who was elected is remembered at once: it may be sent again before it is found.
    async fn write(&self, view: &View<'_>, flagged: &[Flagged], work: &mut ForestWork<'a>) -> Result<(), FirstsError> {
        let Some(names) = view.names() else { return Ok(()) };
        let fates = write_flags(self.operator, names.first(), flagged.iter().map(|of| (&of.hit, of.first))).await?;
        let (mut repaired, mut elected) = (HashSet::new(), Vec::new());
        for (flagged, fate) in flagged.iter().zip(fates) {
            if !matches!(fate, StampOutcome::Changed | StampOutcome::Later(_)) && repaired.insert(flagged.key) {
                work.repaired(flagged.key, flagged);
            }
            match fate {
                StampOutcome::Stamped => {
                    self.status.written(flagged.first);
                    elected.extend(flagged.first.then(|| first_of(flagged.key, &flagged.hit)));
                }
                StampOutcome::Unchanged | StampOutcome::Gone | StampOutcome::Changed => {}
                StampOutcome::Later(reason) => {
                    let StoredHit { index, id, .. } = &flagged.hit;
                    debug!(index, id, reason, "the flag of a first document is not written yet");
                    self.status.refused();
                }
                StampOutcome::Refused(reason) => {
                    let StoredHit { index, id, .. } = &flagged.hit;
                    if work.refuse(&flagged.hit) {
                        warn!(index, id, reason, "a document cannot be updated: it is passed over as the first one");
                    }
                    self.status.refused();
                }
            }
        }
        Ok(self.engine.forests().set_firsts(&work.forest, &elected).await?)
    }
}

/// The first document of a group, as its tree remembers it.
fn first_of(key: i64, hit: &StoredHit) -> (Root, DocumentHash) {
    (Root(Fingerprint(key.cast_unsigned())), DocumentHash::of(&hit.index, &hit.id))
}

/// Writes whether documents are the first of their groups, where they are as they were read.
async fn write_flags<'h>(
    operator: &Operator,
    field: &str,
    flagged: impl ExactSizeIterator<Item = (&'h StoredHit, bool)>,
) -> Result<Vec<StampOutcome>, BackfillError> {
    let count = flagged.len();
    let mut lines = Vec::new();
    for (hit, first) in flagged {
        let source = json!({field: first}).to_string().into();
        bulk_lines::add(&mut lines, &StoredHit { source, ..hit.clone() }, WriteForm::FieldsAgain);
    }
    write_own(operator, "spinney-firsts", lines, count).await
}

#[expect(clippy::disallowed_methods, reason = "what keeps it to its part of the time")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
