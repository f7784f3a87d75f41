//! What is counted for the groups of a page, with the caller's own rights.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::answer::{Group, Representative};
use super::cursor::Walked;
use super::enumerate::{NO_TIME, millis};
use super::error::ReadError;
use super::request::{GroupsRequest, RepresentativeBy, match_all};
use super::search::{Hit, Source};
use super::walk::{Order, walked};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::time::Millis;

/// Media of a group up to which their number is exact.
const EXACT_MEDIA: u32 = 3000;

/// Counts, times and representatives of these groups; one of which the caller sees no document under the query is not
/// among them.
///
/// # Errors
/// As [`Source::search`].
pub(super) async fn groups(
    source: &Source<'_>,
    request: &GroupsRequest,
    keys: &[i64],
) -> Result<HashMap<i64, Group>, ReadError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let whole = whole(source, keys);
    let matching = async {
        match request.is_whole_index() {
            true => Ok(None),
            false => counts(source, &request.query, keys).await.map(Some),
        }
    };
    let representatives = representatives(source, request, keys);
    let (whole, matching, representatives) = tokio::try_join!(whole, matching, representatives)?;
    let group = |(key, representative): (i64, Representative)| {
        let whole = whole.get(&key)?;
        let matching_count = match &matching {
            None => whole.count,
            Some(matching) => *matching.get(&key)?,
        };
        let group = Group {
            root: root(key),
            representative,
            similar_count: whole.count,
            matching_count,
            media: whole.media,
            first: whole.first,
            last: whole.last,
        };
        Some((key, group))
    };
    Ok(representatives.into_iter().filter_map(group).collect())
}

/// The root that a key stands for.
pub(super) fn root(key: i64) -> Root {
    Root(Fingerprint(key.cast_unsigned()))
}

/// A group in the whole index.
struct Whole {
    count: u64,
    media: Option<u64>,
    first: Option<Millis>,
    last: Option<Millis>,
}

async fn whole(source: &Source<'_>, keys: &[i64]) -> Result<HashMap<i64, Whole>, ReadError> {
    let time = &source.fields.time;
    let mut about = json!({"first": {"min": {"field": time}}, "last": {"max": {"field": time}}});
    if let Some(medium) = &source.fields.medium {
        about["media"] =
            json!({"cardinality": {"field": medium, "precision_threshold": EXACT_MEDIA}});
    }
    let buckets = terms(source, &match_all(), keys, Some(about)).await?;
    let whole = buckets.iter().filter_map(|bucket| {
        let time = |name: &str| {
            let value = bucket
                .get(name)
                .and_then(|time| time.get("value")?.as_f64());
            Some(Millis(millis(value))).filter(|time| time.0 != NO_TIME)
        };
        let (key, count) = counted(bucket)?;
        let media = bucket.pointer("/media/value").and_then(Value::as_u64);
        let whole = Whole {
            count,
            media,
            first: time("first"),
            last: time("last"),
        };
        Some((key, whole))
    });
    Ok(whole.collect())
}

/// How many documents of a query each of these groups has; without those that have none.
///
/// # Errors
/// As [`Source::search`].
pub(super) async fn counts(
    source: &Source<'_>,
    query: &Value,
    keys: &[i64],
) -> Result<HashMap<i64, u64>, ReadError> {
    let buckets = terms(source, query, keys, None).await?;
    Ok(buckets.iter().filter_map(counted).collect())
}

/// Exact on any number of shards: every key is named.
async fn terms(
    source: &Source<'_>,
    query: &Value,
    keys: &[i64],
    about: Option<Value>,
) -> Result<Vec<Value>, ReadError> {
    let mut groups = json!({
        "terms": {"field": source.fields.key, "size": keys.len(), "shard_size": keys.len()},
    });
    if let Some(about) = about {
        groups["aggs"] = about;
    }
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "query": {"bool": {"must": [query], "filter": [source.of_groups(keys)]}},
        "aggs": {"groups": groups},
    });
    let answer = source.search::<Value>(body).await?;
    let mut aggregations = answer.aggregations.unwrap_or_default();
    match aggregations.pointer_mut("/groups/buckets").map(Value::take) {
        Some(Value::Array(buckets)) => Ok(buckets),
        _ => Ok(Vec::new()),
    }
}

fn counted(bucket: &Value) -> Option<(i64, u64)> {
    let key = bucket.get("key")?.as_i64()?;
    Some((key, bucket.get("doc_count")?.as_u64()?))
}

/// The best documents of these groups under the query, by an order, as the walk by this order would meet them.
///
/// # Errors
/// As [`Source::search`].
pub(super) async fn best(
    source: &Source<'_>,
    query: &Value,
    order: &Order,
    keys: &[i64],
) -> Result<HashMap<i64, Walked>, ReadError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let sort = order.sort(source, true);
    let hits = collapsed(source, query, keys, &sort, &Value::Bool(false)).await?;
    let best = hits.into_iter().map(|hit| walked(hit.sort));
    best.map(|walked| walked.map(|walked| (walked.key, walked)))
        .collect()
}

async fn representatives(
    source: &Source<'_>,
    request: &GroupsRequest,
    keys: &[i64],
) -> Result<HashMap<i64, Representative>, ReadError> {
    let time = |order: &str| json!({(&source.fields.time): {"order": order, "missing": "_last", "unmapped_type": "date"}});
    let by_score =
        request.representative == RepresentativeBy::Relevance && !request.is_whole_index();
    let sort = match &request.representative {
        RepresentativeBy::Relevance if by_score => json!(["_score", time("desc")]),
        RepresentativeBy::Relevance | RepresentativeBy::Newest => json!([time("desc")]),
        RepresentativeBy::Oldest => json!([time("asc")]),
        RepresentativeBy::Most(field) => {
            json!([{(field): {"order": "desc", "missing": "_last"}}, time("desc")])
        }
    };
    let hits = collapsed(source, &request.query, keys, &sort, &request.source).await?;
    let representative = |hit: Hit| {
        let key = hit.number(&source.fields.key)?;
        let representative = Representative {
            index: hit.index,
            id: hit.id,
            source: hit.source,
            score: hit.score.filter(|_| by_score),
        };
        Some((key, representative))
    };
    Ok(hits.into_iter().filter_map(representative).collect())
}

/// The first document of each of these groups under the query.
async fn collapsed(
    source: &Source<'_>,
    query: &Value,
    keys: &[i64],
    sort: &Value,
    shown: &Value,
) -> Result<Vec<Hit>, ReadError> {
    let body = json!({
        "size": keys.len(),
        "track_total_hits": false,
        "_source": shown,
        "query": {"bool": {"must": [query], "filter": [source.of_groups(keys)]}},
        "collapse": {"field": source.fields.key},
        "sort": sort,
    });
    Ok(source.search::<Value>(body).await?.hits.hits)
}
