//! A roots index in the cluster: made, read in ranges, written.

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::{Value, json};
use tracing::warn;

use super::entry::{self, EntryDiff, GroupSizes, StoredEntry};
use super::error::{CountError, Failure};
use super::ranges::KeyRange;
use super::searcher::{Searcher, not_understood};
use crate::cluster::operator::{OperatorError, in_path};
use crate::cluster::roots::{KEY, roots_index};

/// The template of roots indices, which `spinney setup` installs; its settings and mappings are used without it, too.
pub(crate) const TEMPLATE: &str = include_str!("../../mappings/roots-index.json");

/// Most operations in one bulk, and most hits in one response.
const AT_ONCE: usize = 10_000;

/// The result of writing entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoreReport {
    /// Entries that were written.
    pub written: u64,
    /// Entries that were removed.
    pub removed: u64,
    /// Entries that a later count had already replaced.
    pub overtaken: u64,
    /// Entries that the cluster refused.
    pub refused: u64,
}

impl StoreReport {
    pub(super) fn add(&mut self, other: StoreReport) {
        self.written += other.written;
        self.removed += other.removed;
        self.overtaken += other.overtaken;
        self.refused += other.refused;
    }
}

impl Searcher {
    /// Makes the roots index of an index. That there is one already is fine.
    pub(super) async fn make_roots(&self, index: &str) -> Result<(), CountError> {
        let path = format!("/{}", in_path(&roots_index(index)));
        let template: Value = serde_json::from_str(TEMPLATE)
            .map_err(|error| not_understood("mappings/roots-index.json", &error.to_string()))?;
        match self.ask(Method::PUT, &path, Some(&template["template"])).await {
            Err(CountError::Cluster(OperatorError::Refused { status: 400, answer, .. }))
                if answer.contains("resource_already_exists_exception") =>
            {
                Ok(())
            }
            answer => answer.map(drop),
        }
    }

    /// The stored entries with keys in a range, by `_id`, as searches see them; none if there is no roots index.
    pub(super) async fn stored(
        &self,
        index: &str,
        range: KeyRange,
    ) -> Result<BTreeMap<String, (i64, StoredEntry)>, CountError> {
        let path =
            format!("/{}/_search?allow_partial_search_results=false&request_cache=false", in_path(&roots_index(index)));
        let mut entries = BTreeMap::new();
        let mut from = range.first;
        loop {
            let body = json!({
                "size": AT_ONCE, "version": true, "track_total_hits": false, "sort": [{KEY: "asc"}],
                "query": {"bool": {"filter": [{"range": {KEY: {"gte": from, "lte": range.last}}}]}},
            });
            let answer = match self.ask(Method::POST, &path, Some(&body)).await {
                Err(error) if error.kind() == Failure::Missing => return Ok(entries),
                answer => answer?,
            };
            let hits = answer["hits"]["hits"].as_array();
            let hits = hits.ok_or_else(|| not_understood(&path, "there are no hits in it"))?;
            let before = entries.len();
            entries.extend(hits.iter().filter_map(entry::stored));
            let last = hits.last().map(|hit| &hit["sort"][0]);
            if last.is_some_and(|key| !key.is_i64()) {
                let other = format!("{KEY} is no number in it; delete this index, and spinney makes it anew");
                return Err(not_understood(&path, &other));
            }
            let last = last.and_then(Value::as_i64);
            // The last key is read again: it may have entries with other ids.
            match last {
                Some(last) if hits.len() == AT_ONCE && entries.len() > before => from = last,
                _ => return Ok(entries),
            }
        }
    }

    /// Writes a count at `version`, and removes the entries of those roots that are no longer groups.
    pub(super) async fn keep_counted(
        &self,
        index: &str,
        roots: &[u64],
        counted: &GroupSizes,
        version: i64,
    ) -> Result<StoreReport, CountError> {
        let keys = roots.iter().map(|root| root.cast_signed());
        let single = keys.filter(|key| !counted.contains_key(key));
        let single: Vec<String> = single.map(|key| key.to_string()).collect();
        // Most of these never had an entry, and deleting a missing document costs a server as much as any other.
        let gone = self.existing(index, &single).await?;
        let gone = gone.iter().map(String::as_str);
        self.keep(index, counted.iter(), gone, version).await
    }

    /// Writes the differences of a comparison.
    pub(super) async fn keep_diff(
        &self,
        index: &str,
        diff: &EntryDiff,
        version: i64,
    ) -> Result<StoreReport, CountError> {
        // A wrong clock of one process must not keep others from mending its entries.
        let version = version.max(diff.newest.saturating_add(1));
        let groups = diff.missing.iter().chain(&diff.wrong);
        let gone = diff.superfluous.iter().map(String::as_str);
        self.keep(index, groups, gone, version).await
    }

    async fn keep<'a>(
        &self,
        index: &str,
        groups: impl Iterator<Item = (&'a i64, &'a entry::GroupSize)>,
        gone: impl Iterator<Item = &'a str>,
        version: i64,
    ) -> Result<StoreReport, CountError> {
        let path = format!("/{}/_bulk?filter_path=items.*.status,items.*.error.reason", in_path(&roots_index(index)));
        let mut kept = StoreReport::default();
        for (operations, lines) in entry::lines(groups, gone, version, AT_ONCE) {
            let answer = self.send_lines(&path, lines).await?;
            let items = answer["items"].as_array();
            let items = items.filter(|items| items.len() == operations);
            let items = items.ok_or_else(|| not_understood(&path, "items are missing"))?;
            for item in items {
                match outcome(item) {
                    Ok(of_item) => kept.add(of_item),
                    // The rest of the index is not worse for it.
                    Err(error) if error.kind() == Failure::Other => {
                        warn!(index, %error, "an entry of a roots index is left out");
                        kept.refused += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(kept)
    }

    /// The existing ones among these entries.
    async fn existing(&self, index: &str, ids: &[String]) -> Result<Vec<String>, CountError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let path = format!("/{}/_mget?_source=false&filter_path=docs._id,docs.found", in_path(&roots_index(index)));
        let answer = match self.ask(Method::POST, &path, Some(&json!({ "ids": ids }))).await {
            Err(error) if error.kind() == Failure::Missing => return Ok(Vec::new()),
            answer => answer?,
        };
        let found = answer["docs"].as_array().into_iter().flatten();
        let found = found.filter(|document| document["found"] == true);
        let ids = found.filter_map(|document| document["_id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    }
}

/// The result of one operation.
fn outcome(item: &Value) -> Result<StoreReport, CountError> {
    let member = item.as_object().and_then(|item| item.iter().next());
    let (op, answer) = member.ok_or_else(|| not_understood("_bulk", "an item says nothing"))?;
    let mut kept = StoreReport::default();
    match (answer["status"].as_u64().unwrap_or(0), &**op) {
        (200..300, "delete") => kept.removed = 1,
        (200..300, _) => kept.written = 1,
        (404, "delete") => {}
        (409, _) => kept.overtaken = 1,
        (status, _) => {
            let reason = answer["error"]["reason"].as_str().unwrap_or("no reason");
            return Err(CountError::Entry { status, reason: reason.to_owned() });
        }
    }
    Ok(kept)
}
