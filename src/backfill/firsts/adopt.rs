//! Stored documents with a stamp of before there was the field get it: which one is the first of its group.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{MOST_GROUPS, PassedOver, View, write_flags};
use crate::backfill::bulk_lines::StampOutcome;
use crate::backfill::discovery::RouteIndices;
use crate::backfill::{BackfillError, BackfillOptions};
use crate::bulk::stored_value;
use crate::cluster::operator::Operator;
use crate::cluster::retry::{ATTEMPTS, Pace};
use crate::cluster::sorted_pages::{Slice, StoredHit};
use crate::engine::RouteTable;
use crate::progress::{Progress, ReportProgress};

/// Most passes over an index, for documents that change meanwhile.
const PASSES: u32 = 10;

/// The result: what became of the documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FlagOutcome {
    /// They say now whether they are the first of their group.
    pub(crate) flagged: u64,
    /// The cluster did not take it, with the first reason.
    pub(crate) failed: u64,
    pub(crate) reason: Option<String>,
    /// Those that do not say it when it was over.
    pub(crate) left: u64,
}

impl FlagOutcome {
    /// Adds the outcome of other indices.
    pub(crate) fn add(&mut self, other: FlagOutcome) {
        self.flagged += other.flagged;
        self.failed += other.failed;
        self.left += other.left;
        self.reason = self.reason.take().or(other.reason);
    }
}

impl RouteIndices {
    /// The query for stamped documents that do not say whether they are first.
    fn unflagged(&self) -> Value {
        let mut query = self.all();
        query["bool"]["must"] = json!([{"exists": {"field": self.names.root()}}]);
        query["bool"]["must_not"] = json!([{"exists": {"field": self.names.first()}}]);
        query
    }

    /// How many stamped documents do not say whether they are the first of their group, as far as searches see them.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(crate) async fn count_unflagged(&self, operator: &Operator) -> Result<u64, BackfillError> {
        self.count(operator, &self.unflagged()).await
    }
}

/// Has all documents of some indices say whether they are first; `total` do not. In each group that is the one that
/// says so already, in whatever index of the forest it is, else the earliest. Begun again, it goes on where it ended.
///
/// # Errors
/// If the cluster refuses, or stays away.
pub(crate) async fn flag_firsts(
    operator: &Operator,
    routes: &RouteTable,
    target: &RouteIndices,
    options: &BackfillOptions,
    (total, report): (u64, &ReportProgress<'_>),
) -> Result<FlagOutcome, BackfillError> {
    let mut outcome = FlagOutcome::default();
    let mut target = target.clone();
    target.route.fields = vec![target.names.key().to_owned()];
    let forest = target.route.forest.clone();
    let pace = Pace::new(options.rate);
    for _ in 0..PASSES {
        let before = outcome.flagged;
        outcome.failed = 0;
        let mut pages = target.pages(operator, target.unflagged(), Slice::ALL, MOST_GROUPS);
        while let Some(page) = pages.next().await? {
            // Anew for each page: another writer may have made an index.
            let view = View::of(operator, routes, &forest).await?;
            flag_page(operator, &view, &page, &mut outcome).await?;
            report(Progress { forest: &forest, done: outcome.flagged.min(total), total });
            pace.wait(outcome.flagged).await;
        }
        operator.refresh(target.expression(), ATTEMPTS).await?;
        outcome.left = target.count_unflagged(operator).await?;
        if outcome.left <= outcome.failed || outcome.flagged == before {
            break;
        }
    }
    Ok(outcome)
}

async fn flag_page(
    operator: &Operator,
    view: &View<'_>,
    page: &[StoredHit],
    outcome: &mut FlagOutcome,
) -> Result<(), BackfillError> {
    let Some(names) = view.names() else { return Ok(()) };
    let key_of = |hit: &StoredHit| stored_value(&hit.source).ok()?[names.key()].as_i64();
    let mut keys: Vec<i64> = page.iter().filter_map(key_of).collect();
    keys.sort_unstable();
    keys.dedup();
    let groups = view.groups(&keys, &PassedOver::default()).await?;
    let mut elected: HashMap<(&str, &str), &StoredHit> = groups
        .values()
        .filter(|group| !group.best.is_first)
        .map(|group| ((&*group.best.hit.index, &*group.best.hit.id), &group.best.hit))
        .collect();
    let mut flags: Vec<(&StoredHit, bool)> = Vec::with_capacity(page.len());
    for hit in page {
        let first = elected.remove(&(&*hit.index, &*hit.id)).is_some();
        flags.push((hit, first));
    }
    // The earliest of a group may be elsewhere.
    flags.extend(elected.into_values().filter(|hit| view.is_writable(&hit.index)).map(|hit| (hit, true)));
    for fate in write_flags(operator, names.first(), flags.into_iter()).await? {
        match fate {
            StampOutcome::Stamped | StampOutcome::Unchanged => outcome.flagged += 1,
            StampOutcome::Gone | StampOutcome::Changed => {}
            StampOutcome::Later(reason) | StampOutcome::Refused(reason) => {
                outcome.failed += 1;
                outcome.reason.get_or_insert(reason);
            }
        }
    }
    Ok(())
}
