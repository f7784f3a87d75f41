//! Searches of the counting task, in spinney's own name: indices, sizes of groups. Only complete responses are used.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::entry::{GroupSize, GroupSizes, root_of};
use super::error::{CountError, Failure};
use super::ranges::KeyRange;
use crate::cluster::operator::{Operator, in_path};
use crate::cluster::roots::roots_index;

/// Timeout of a search.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The most roots in one request: below the servers' 65,536 terms, and where a root costs least.
pub(super) const ROOTS_AT_ONCE: usize = 10_000;

/// Most groups in one response, below the servers' limit of 65,535 buckets.
const GROUPS_AT_ONCE: usize = 65_000;

/// Most groups that a shard may send for one response. Above anything that a range has, so that every shard sends all.
const GROUPS_OF_SHARD: u32 = 1 << 30;

/// Bytes of the longest name that the servers give an index.
const LONGEST_NAME: usize = 255;

/// The search preference: the same shard copies serve all searches, so that a later one never sees less.
const PREFERENCE: &str = "spinney-counts";

/// The names of the stamp's fields.
#[derive(Debug, Clone)]
pub(crate) struct StampFields {
    key: String,
    root: String,
    arrival: String,
}

impl StampFields {
    /// The names that begin with `prefix`.
    pub(crate) fn new(prefix: &str) -> StampFields {
        StampFields { key: format!("{prefix}key"), root: format!("{prefix}root"), arrival: format!("{prefix}arrival") }
    }
}

/// The present state of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundIndex {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// How long a write may take to become visible, by the settings; `None`: for ever.
    pub refresh: Option<Duration>,
}

impl FoundIndex {
    /// Whether it is an index of documents, and not one of roots.
    pub(super) fn has_documents(&self) -> bool {
        !self.name.starts_with(&roots_index(""))
    }

    /// Whether its groups are counted: it has documents, and a roots index of its name is possible.
    pub(super) fn is_counted(&self) -> bool {
        self.has_documents() && roots_index(&self.name).len() <= LONGEST_NAME
    }
}

/// The result of enumerating groups.
#[derive(Debug)]
pub(super) enum EnumerationResult {
    /// All groups of two or more.
    All(GroupSizes),
    /// There are more than one response can have.
    TooMany,
}

/// Asks the cluster.
pub(crate) struct Searcher {
    operator: Operator,
    fields: StampFields,
}

impl Searcher {
    /// `operator` has the credentials.
    pub(crate) fn new(operator: Operator, fields: StampFields) -> Searcher {
        Searcher { operator, fields }
    }

    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, CountError> {
        let asking = self.operator.ask(method, path, body);
        let answer = tokio::time::timeout(TIMEOUT, asking).await;
        answer.map_err(|_| CountError::TimedOut(path.to_owned()))?.map_err(Into::into)
    }

    pub(super) async fn send_lines(&self, path: &str, lines: bytes::Bytes) -> Result<Value, CountError> {
        let sending = self.operator.send_lines(path, lines);
        let answer = tokio::time::timeout(TIMEOUT, sending).await;
        answer.map_err(|_| CountError::TimedOut(path.to_owned()))?.map_err(Into::into)
    }

    /// The indices that a name, alias or pattern resolves to.
    pub(super) async fn indices(&self, expression: &str) -> Result<Vec<FoundIndex>, CountError> {
        let path = format!(
            "/{}/_settings?ignore_unavailable=true&allow_no_indices=true&expand_wildcards=open\
             &filter_path=*.settings.index.uuid,*.settings.index.refresh_interval",
            in_path(expression)
        );
        let answer = match self.ask(Method::GET, &path, None).await {
            Err(error) if error.kind() == Failure::Missing => return Ok(Vec::new()),
            answer => answer?,
        };
        let indices = answer.as_object().into_iter().flatten();
        Ok(indices
            .map(|(name, index)| {
                let text = |setting: &str| index["settings"]["index"][setting].as_str();
                FoundIndex {
                    name: name.clone(),
                    uuid: text("uuid").unwrap_or_default().to_owned(),
                    refresh: refresh_interval(text("refresh_interval")),
                }
            })
            .collect())
    }

    /// Documents in an index.
    pub(super) async fn documents(&self, index: &str) -> Result<u64, CountError> {
        let path = format!("/{}/_count", in_path(index));
        let answer = self.ask(Method::GET, &path, None).await?;
        Ok(answer["count"].as_u64().unwrap_or(0))
    }

    /// Searches; a partial response is an error.
    async fn search(&self, index: &str, body: &Value) -> Result<Value, CountError> {
        let path = format!(
            "/{}/_search?allow_partial_search_results=false&request_cache=false&preference={PREFERENCE}",
            in_path(index)
        );
        let answer = self.ask(Method::POST, &path, Some(body)).await?;
        let shards = &answer["_shards"];
        if answer["timed_out"] != false || shards["failed"] != 0 || shards["successful"] != shards["total"] {
            return Err(not_understood(&path, "a part of it is missing"));
        }
        Ok(answer)
    }

    /// Counts these roots, [`ROOTS_AT_ONCE`] at most. Those with fewer than two documents are not in the answer.
    pub(super) async fn count(&self, index: &str, roots: &[u64]) -> Result<GroupSizes, CountError> {
        let names: Vec<String> = roots.iter().map(|root| root_of(root.cast_signed())).collect();
        // The answer can have no other keys than these, so that every shard sends all that it has.
        let filter = json!({"terms": {&self.fields.root: names}});
        let answer = self.groups(index, &filter, roots.len().max(1), true).await?;
        match answer {
            (groups, _) if groups.len() <= roots.len() => Ok(groups),
            _ => Err(not_understood("/_search", "there are more groups than roots")),
        }
    }

    /// Counts all groups of an index in a range, without their latest arrivals.
    pub(super) async fn enumerate(&self, index: &str, range: KeyRange) -> Result<EnumerationResult, CountError> {
        let key = &self.fields.key;
        let filter = json!({"range": {key: {"gte": range.first, "lte": range.last}}});
        match self.groups(index, &filter, GROUPS_AT_ONCE, false).await {
            Ok((groups, bound)) if bound == 0 && groups.len() < GROUPS_AT_ONCE => Ok(EnumerationResult::All(groups)),
            Ok(_) => Ok(EnumerationResult::TooMany),
            Err(error) if error.is_too_many_buckets() => Ok(EnumerationResult::TooMany),
            Err(error) => Err(error),
        }
    }

    /// Groups of two or more under a filter, and how many documents may be missing of any.
    async fn groups(
        &self,
        index: &str,
        filter: &Value,
        size: usize,
        with_last: bool,
    ) -> Result<(GroupSizes, u64), CountError> {
        let StampFields { key, arrival, .. } = &self.fields;
        let mut body = json!({
            "size": 0, "track_total_hits": false,
            "query": {"bool": {"filter": [filter]}},
            "aggs": {"groups": {
                "terms": {
                    "field": key, "min_doc_count": 2, "size": size,
                    "shard_size": GROUPS_OF_SHARD.max(u32::try_from(size).unwrap_or(u32::MAX)),
                },
            }},
        });
        if with_last {
            body["aggs"]["groups"]["aggs"] = json!({"last": {"max": {"field": arrival}}});
        }
        let answer = self.search(index, &body).await?;
        let groups = &answer["aggregations"]["groups"];
        let bound = groups["doc_count_error_upper_bound"].as_u64();
        let buckets = groups["buckets"].as_array();
        let (Some(bound), Some(buckets)) = (bound, buckets) else {
            return Err(not_understood("/_search", "there are no groups in it"));
        };
        let group = |bucket: &Value| {
            let last = bucket["last"]["value"].as_f64();
            let group = GroupSize { n: bucket["doc_count"].as_u64()?, last: last.map(|millis| millis as i64) };
            Some((bucket["key"].as_i64()?, group))
        };
        let groups: Option<GroupSizes> = buckets.iter().map(group).collect();
        let groups = groups.ok_or_else(|| not_understood("/_search", "a group has no key"))?;
        Ok((groups, bound))
    }
}

pub(super) fn not_understood(request: &str, what: &str) -> CountError {
    CountError::NotUnderstood { request: request.to_owned(), what: what.to_owned() }
}

/// Parses a refresh interval; a second if it is not set.
pub(crate) fn refresh_interval(setting: Option<&str>) -> Option<Duration> {
    let Some(setting) = setting else {
        return Some(Duration::from_secs(1));
    };
    let digits = setting.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok().filter(|number| *number >= 0.0)?;
    let seconds = match setting.get(digits.len()..)? {
        "nanos" => 1e-9,
        "micros" => 1e-6,
        "ms" | "" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_intervals_as_settings_write_them() {
        let seconds = |setting| refresh_interval(setting).map(|time| time.as_secs_f64());
        for (setting, expected) in [
            (None, Some(1.0)),
            (Some("1s"), Some(1.0)),
            (Some("500ms"), Some(0.5)),
            (Some("2m"), Some(120.0)),
            (Some("1.5h"), Some(5400.0)),
            (Some("-1"), None),
            (Some("-1s"), None),
            (Some("soon"), None),
            (Some(""), None),
        ] {
            assert_eq!(seconds(setting), expected, "{setting:?}");
        }
    }

    #[test]
    fn names_in_paths() {
        assert_eq!(in_path("news-*,b_1.x"), "news-*,b_1.x");
        assert_eq!(in_path("<news-{now/d}>/a?"), "%3Cnews%2D%7Bnow%2Fd%7D%3E%2Fa%3F".replace("%2D", "-"));
    }
}
