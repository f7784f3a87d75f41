//! Counts for the groups of a page, with the caller's rights.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::answer::{GroupSummary, Representative};
use super::cursor::WalkedDocument;
use super::enumerate::{NO_TIME, millis};
use super::error::ReadError;
use super::query::SearchQuery;
use super::rank_field;
use super::request::GroupsRequest;
use super::search::{SearchAnswer, SearchHit, SearchSource, in_millis};
use super::sort_part::{SortPart, has};
use super::walk::{WalkOrder, walked};
use crate::config::RepresentativeBy;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::time::Millis;

/// Media of a group up to which their number is exact.
const EXACT_MEDIA: u32 = 3000;

/// Counts, times and representatives of these groups, without those that have no visible document under the query.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn groups(
    source: &SearchSource<'_>,
    request: &GroupsRequest,
    keys: &[i64],
) -> Result<HashMap<i64, GroupSummary>, ReadError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let about = about(source);
    let (first, whole) = if request.is_whole_index() {
        let first = representatives(source, request, keys, Some(about)).await?;
        let whole = wholes(&first.buckets);
        (first, whole)
    } else {
        let all = SearchQuery::all();
        let whole = terms(source, &all, keys, Some(about));
        let (first, whole) = tokio::try_join!(representatives(source, request, keys, None), whole)?;
        (first, wholes(&whole))
    };
    let matching: HashMap<i64, u64> = first.buckets.iter().filter_map(counted).collect();
    let group = |(key, representative): (i64, Representative)| {
        let whole = whole.get(&key)?;
        let group = GroupSummary {
            root: root(key),
            representative,
            similar_count: whole.count,
            matching_count: *matching.get(&key)?,
            media: whole.media,
            first: whole.first,
            last: whole.last,
        };
        Some((key, group))
    };
    let by_score = is_by_score(request);
    let first = first.hits.into_iter();
    let first = first.filter_map(|hit| representative(source, hit, by_score));
    Ok(first.filter_map(group).collect())
}

/// Root of a key.
pub(super) fn root(key: i64) -> Root {
    Root(Fingerprint(key.cast_unsigned()))
}

/// A group in the whole index.
struct GroupTotals {
    count: u64,
    media: Option<u64>,
    first: Option<Millis>,
    last: Option<Millis>,
}

/// Aggregations of a group in the whole index besides its count.
fn about(source: &SearchSource<'_>) -> Value {
    let time = &source.fields.time;
    let mut about = json!({"first": {"min": {"field": time}}, "last": {"max": {"field": time}}});
    if let Some(medium) = &source.fields.medium {
        about["media"] = json!({"cardinality": {"field": medium, "precision_threshold": EXACT_MEDIA}});
    }
    about
}

fn wholes(buckets: &[Value]) -> HashMap<i64, GroupTotals> {
    let whole = buckets.iter().filter_map(|bucket| {
        let time = |name: &str| {
            let value = bucket.get(name).and_then(|time| time.get("value")?.as_f64());
            Some(Millis(millis(value))).filter(|time| time.0 != NO_TIME)
        };
        let (key, count) = counted(bucket)?;
        let media = bucket.pointer("/media/value").and_then(Value::as_u64);
        let whole = GroupTotals { count, media, first: time("first"), last: time("last") };
        Some((key, whole))
    });
    whole.collect()
}

/// How many documents of a query each of these groups has; without those that have none.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn counts(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    keys: &[i64],
) -> Result<HashMap<i64, u64>, ReadError> {
    // The servers refuse to count no groups.
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let buckets = terms(source, query, keys, None).await?;
    Ok(buckets.iter().filter_map(counted).collect())
}

async fn terms(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    keys: &[i64],
    about: Option<Value>,
) -> Result<Vec<Value>, ReadError> {
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {"groups": by_group(source, keys, about)},
    });
    let query = query.narrowed(vec![source.of_groups(keys)]);
    Ok(buckets(&mut source.search_by::<Value>(&query, body).await?))
}

/// Exact on any number of shards: every key is named.
fn by_group(source: &SearchSource<'_>, keys: &[i64], about: Option<Value>) -> Value {
    let mut groups = json!({
        "terms": {"field": source.fields.key, "size": keys.len(), "shard_size": keys.len()},
    });
    if let Some(about) = about {
        groups["aggs"] = about;
    }
    groups
}

fn buckets(answer: &mut SearchAnswer) -> Vec<Value> {
    let aggregations = answer.aggregations.as_mut();
    let buckets = aggregations.and_then(|all| all.pointer_mut("/groups/buckets"));
    match buckets.map(Value::take) {
        Some(Value::Array(buckets)) => buckets,
        _ => Vec::new(),
    }
}

fn counted(bucket: &Value) -> Option<(i64, u64)> {
    let key = bucket.get("key")?.as_i64()?;
    Some((key, bucket.get("doc_count")?.as_u64()?))
}

/// The best documents of these groups under the query, by an order, as the walk by this order would meet them; with or
/// without a value, as the documents of a block are.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn best(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    keys: &[i64],
    has_value: bool,
) -> Result<HashMap<i64, WalkedDocument>, ReadError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    if !has_value {
        let with_value = counts(source, &query.narrowed(vec![has(&order.field)]), keys).await?;
        let without = keys.iter().filter(|key| !with_value.contains_key(key));
        return Ok(without.map(|&key| (key, WalkedDocument { value: None, key })).collect());
    }
    let SortPart { filter, sort } = order.valued(source, true);
    let query = query.narrowed([source.of_groups(keys)].into_iter().chain(filter).collect());
    let answer = collapsed(source, &query, keys.len(), &sort, &Value::Bool(false), None).await?;
    let best = answer.hits.into_iter().map(|hit| walked(hit.sort));
    best.map(|walked| walked.map(|walked| (walked.key, walked))).collect()
}

/// The first documents of groups, and how many each has under the query.
struct FirstDocuments {
    hits: Vec<SearchHit>,
    buckets: Vec<Value>,
}

fn is_by_score(request: &GroupsRequest) -> bool {
    request.representative == RepresentativeBy::Relevance && !request.is_whole_index()
}

/// Representatives and counts under the query, in one search.
async fn representatives(
    source: &SearchSource<'_>,
    request: &GroupsRequest,
    keys: &[i64],
    about: Option<Value>,
) -> Result<FirstDocuments, ReadError> {
    let time =
        |order: &str| json!({(&source.fields.time): {"order": order, "missing": "_last", "unmapped_type": "date"}});
    let by = rank_field::resolved(source, &request.representative).await?;
    let sort = match &by {
        RepresentativeBy::Relevance if is_by_score(request) => json!(["_score", time("desc")]),
        RepresentativeBy::Relevance | RepresentativeBy::Newest => json!([time("desc")]),
        RepresentativeBy::Oldest => json!([time("asc")]),
        RepresentativeBy::First => {
            let first = json!({"order": "desc", "missing": "_last", "unmapped_type": "boolean"});
            json!([{(&source.fields.first): first}, time("asc")])
        }
        RepresentativeBy::Most(field) => {
            json!([{(field): {"order": "desc", "missing": "_last"}}, time("desc")])
        }
        RepresentativeBy::Rank { .. } => json!(["_score", time("asc")]),
    };
    let of_groups = source.of_groups(keys);
    let query = match &by {
        RepresentativeBy::Rank { field, order } => request.query.scored_by(&rank(field, order), &[of_groups]),
        _ => request.query.narrowed(vec![of_groups]),
    };
    let counts = by_group(source, keys, about);
    let mut answer = collapsed(source, &query, keys.len(), &sort, &request.source, Some(counts)).await?;
    Ok(FirstDocuments { buckets: buckets(&mut answer), hits: answer.hits })
}

/// A query whose score is the higher the earlier a value comes in a list; of several values the best counts.
fn rank(field: &str, order: &[String]) -> Value {
    let scored = order.iter().rev().zip(1_u32..);
    let scored =
        scored.map(|(value, boost)| json!({"constant_score": {"filter": {"term": {(field): value}}, "boost": boost}}));
    json!({"dis_max": {"queries": scored.collect::<Vec<_>>()}})
}

fn representative(source: &SearchSource<'_>, hit: SearchHit, by_score: bool) -> Option<(i64, Representative)> {
    let key = hit.number(&source.fields.key)?;
    let representative = Representative {
        time: hit.time(&source.fields.time),
        index: hit.index,
        id: hit.id,
        source: hit.source,
        score: hit.score.filter(|_| by_score),
    };
    Some((key, representative))
}

/// The first document of each group under a query that has so many.
async fn collapsed(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    number: usize,
    sort: &Value,
    shown: &Value,
    groups: Option<Value>,
) -> Result<SearchAnswer, ReadError> {
    let mut body = json!({
        "size": number,
        "track_total_hits": false,
        "_source": shown,
        "collapse": {"field": source.fields.key},
        "sort": sort,
    });
    if *shown == Value::Bool(false) && groups.is_none() {
        // Neither ids: to read them costs more than all the rest.
        body["stored_fields"] = "_none_".into();
    }
    if let Some(groups) = groups {
        body["aggs"] = json!({ "groups": groups });
        body["docvalue_fields"] = json!([in_millis(&source.fields.time)]);
    }
    source.search_by(query, body).await
}
