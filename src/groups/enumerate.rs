//! Enumerates all groups of a query with two or more documents, and thereby counts the groups exactly.
//!
//! Every shard sends all its groups, the cluster adds them up and drops those of one document: these are what is left,
//! `documents - sum(count - 1)` is the number of all groups, and singletons never cross the wire. That this is exact is
//! proven by each answer: fewer groups than were asked for, no error bound, every shard, in time.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Relation, Total};
use super::cursor::ListedGroup;
use super::error::ReadError;
use super::query::SearchQuery;
use super::request::{GroupsRequest, TotalWanted};
use super::search::{SearchAnswer, SearchSource};

/// Groups in one response: the servers refuse more than 65,535.
const ANSWERED: usize = 65_000;

/// Most ranges of keys.
const MAX_PARTITIONS: u64 = 4096;

/// The time of a group without one: smaller than all times.
pub(super) const NO_TIME: i64 = i64::MIN;

/// Parameters of an enumeration.
pub(super) struct Enumeration<'a> {
    pub query: &'a SearchQuery,
    /// Groups with fewer documents are left out: 1 or 2.
    pub at_least: u64,
    /// Whether the latest time of each group is wanted.
    pub with_last: bool,
    /// The documents of the query when they were counted.
    pub documents: u64,
}

/// All groups of a query with at least two documents, unordered.
#[derive(Debug)]
pub(super) struct EnumeratedGroups {
    pub groups: Vec<ListedGroup>,
    /// Documents of the query that have a stamp.
    pub documents: u64,
}

impl EnumeratedGroups {
    /// The number of all groups, those of one document included.
    pub(super) fn number_of_groups(&self) -> u64 {
        let repeated: u64 = self.groups.iter().map(|group| group.count - 1).sum();
        self.documents.saturating_sub(repeated)
    }
}

#[derive(Debug, Deserialize)]
struct Groups {
    groups: Buckets,
}

#[derive(Debug, Deserialize)]
struct Buckets {
    doc_count_error_upper_bound: i64,
    buckets: Vec<Bucket>,
}

#[derive(Debug, Deserialize)]
struct Bucket {
    key: i64,
    doc_count: u64,
    last: Option<Last>,
}

#[derive(Debug, Deserialize)]
struct Last {
    value: Option<f64>,
}

/// The whole milliseconds of an aggregated time.
pub(super) fn millis(value: Option<f64>) -> i64 {
    value.map_or(NO_TIME, |value| value as i64)
}

impl Buckets {
    /// Whether the enumeration is complete.
    fn is_proven(&self) -> bool {
        self.buckets.len() < ANSWERED && self.doc_count_error_upper_bound == 0
    }
}

/// Enumerates the groups.
///
/// # Errors
/// As [`SearchSource::search`]; [`ReadError::Partial`] when nothing is proven.
pub(super) async fn enumerate(
    source: &SearchSource<'_>,
    what: &Enumeration<'_>,
) -> Result<EnumeratedGroups, ReadError> {
    let most = what.documents / what.at_least;
    let mut partitions = most.div_ceil(ANSWERED as u64 * 3 / 4).max(1);
    // Documents that came since they were counted may make a shard's list too short.
    let mut room = what.documents.saturating_mul(2).max(ANSWERED as u64);
    while partitions <= MAX_PARTITIONS {
        if let Some(all) = all_partitions(source, what, partitions, room).await? {
            return Ok(all);
        }
        partitions *= 2;
        room = room.saturating_mul(2);
    }
    Err(ReadError::Partial)
}

async fn all_partitions(
    source: &SearchSource<'_>,
    what: &Enumeration<'_>,
    partitions: u64,
    room: u64,
) -> Result<Option<EnumeratedGroups>, ReadError> {
    let mut all = EnumeratedGroups { groups: Vec::new(), documents: 0 };
    for partition in 0..partitions {
        let body = body(source, what, (partition, partitions), room);
        let query = source.stamped(what.query, vec![]);
        let answer: SearchAnswer<Groups> = source.search_by(&query, body).await?;
        let (documents, exact) = answer.total();
        let found = answer.aggregations.map(|aggregations| aggregations.groups);
        // Without a shard, as for a pattern that no index fits, there is no aggregation either.
        let Some(found) = found else {
            return Ok((documents == 0 && exact).then_some(all));
        };
        if !found.is_proven() || !exact {
            return Ok(None);
        }
        all.documents = documents;
        all.groups.extend(found.buckets.into_iter().map(|bucket| ListedGroup {
            count: bucket.doc_count,
            last: millis(bucket.last.and_then(|last| last.value)),
            key: bucket.key,
        }));
    }
    Ok(Some(all))
}

fn body(source: &SearchSource<'_>, what: &Enumeration<'_>, (partition, partitions): (u64, u64), room: u64) -> Value {
    let mut groups = json!({
        "terms": {
            "field": source.fields.key,
            "min_doc_count": what.at_least,
            "size": ANSWERED,
            "shard_size": room.min(i32::MAX as u64),
        },
    });
    if partitions > 1 {
        groups["terms"]["include"] = json!({"partition": partition, "num_partitions": partitions});
    }
    if what.with_last {
        groups["aggs"] = json!({"last": {"max": {"field": source.fields.time}}});
    }
    json!({
        "size": 0,
        "track_total_hits": true,
        "aggs": {"groups": groups},
    })
}

/// The number of groups, if the request wants it; at least, where the query has more documents than it allows.
/// `counted`: the documents of the query, and whether that is all of them.
///
/// # Errors
/// As [`enumerate`].
pub(super) async fn number_of_groups(
    source: &SearchSource<'_>,
    request: &GroupsRequest,
    (documents, is_exact): (u64, bool),
) -> Result<Option<Total>, ReadError> {
    let query = &request.query;
    let (value, relation) = match request.total {
        TotalWanted::No => return Ok(None),
        TotalWanted::UpTo(limit) if is_exact && documents <= limit => {
            let what = Enumeration { query, at_least: 2, with_last: false, documents };
            (enumerate(source, &what).await?.number_of_groups(), Relation::Equal)
        }
        TotalWanted::UpTo(limit) => (at_least(source, query, limit, documents).await?, Relation::AtLeast),
    };
    Ok(Some(Total { value, relation }))
}

/// A lower bound of the number of groups where there are too many documents: the groups in a part of the keys, with
/// about `documents` of `all` documents.
///
/// # Errors
/// As [`enumerate`].
async fn at_least(source: &SearchSource<'_>, query: &SearchQuery, documents: u64, all: u64) -> Result<u64, ReadError> {
    // Keys are hashes and so evenly spread; the margin covers chance.
    let share = documents as f64 / all.max(1) as f64;
    let end = (share * u64::MAX as f64) as u64;
    let end = i64::MIN.wrapping_add_unsigned(end);
    let query = query.narrowed(vec![json!({"range": {(&source.fields.key): {"lt": end}}})]);
    let what = Enumeration { query: &query, at_least: 2, with_last: false, documents };
    Ok(enumerate(source, &what).await?.number_of_groups())
}

/// Counts the documents of a query with a stamp, up to a limit and with the relation to it, and those without one.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn count(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    limit: u64,
) -> Result<((u64, bool), u64), ReadError> {
    let exists = json!({"exists": {"field": source.fields.key}});
    let (with, without) = (source.stamped(query, vec![]), query.without(&exists));
    let most = limit.saturating_add(1).min(i32::MAX as u64);
    let stamped = source.search_by::<Value>(&with, json!({"size": 0, "track_total_hits": most}));
    let unstamped = source.search_by::<Value>(&without, json!({"size": 0, "track_total_hits": true}));
    let (stamped, unstamped) = tokio::try_join!(stamped, unstamped)?;
    let (documents, exact) = stamped.total();
    Ok(((documents, exact), unstamped.total().0))
}

/// The counts in the whole index of groups found under a query.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn whole_counts(source: &SearchSource<'_>, keys: &[i64]) -> Result<Vec<ListedGroup>, ReadError> {
    /// The servers take 65,536 terms; more at once are not faster.
    const AT_ONCE: usize = 20_000;
    let mut counted = Vec::with_capacity(keys.len());
    for keys in keys.chunks(AT_ONCE) {
        let query = SearchQuery::all().narrowed(vec![source.of_groups(keys)]);
        let body = json!({
            "size": 0,
            "track_total_hits": false,
            "aggs": {"groups": {
                "terms": {"field": source.fields.key, "size": keys.len(), "shard_size": keys.len()},
                "aggs": {"last": {"max": {"field": source.fields.time}}},
            }},
        });
        let answer: SearchAnswer<Groups> = source.search_by(&query, body).await?;
        let buckets = answer.aggregations.map(|a| a.groups.buckets);
        counted.extend(buckets.unwrap_or_default().into_iter().map(|b| ListedGroup {
            count: b.doc_count,
            last: millis(b.last.and_then(|last| last.value)),
            key: b.key,
        }));
    }
    Ok(counted)
}
