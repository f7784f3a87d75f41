//! Facets: how many groups, and how many documents, of a query have each value of a field, or each part of a time.
//!
//! A bucket has as many groups as documents, less those that repeat a group there: `documents - sum(count - 1)` over
//! its groups of two or more, as in [`enumerate`](super::enumerate). Every shard sends all groups for that, so it is
//! done for queries with few documents; of the others the servers estimate the number.

use serde_json::{Map, Value, json};

use super::answer::{Facet, FacetBucket, Relation};
use super::enumerate;
use super::error::ReadError;
use super::facet_request::{FacetBy, FacetRequest};
use super::request::GroupsRequest;
use super::search::{SearchAnswer, SearchSource};
use crate::time::{Millis, format_date};

/// Documents under a query up to which the groups of a bucket are counted exactly.
const EXACT: u64 = 100_000;

/// Values that are compared: the ones with most documents. Those with most groups are among them, or a proof of it is
/// missing.
const COMPARED: usize = 1_000;

/// Values that each shard sends; with fewer in the index their numbers are exact.
const SENT: usize = 10_000;

/// Groups of a bucket that are counted one by one: the servers refuse more than 65,535 buckets.
const REPEATED: usize = 65_000;

/// Groups up to which the servers' estimate is nearly exact.
const NEARLY_EXACT: u32 = 1_000;

/// Counts the facets of a request.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn read(source: &SearchSource<'_>, request: &GroupsRequest) -> Result<Vec<Facet>, ReadError> {
    if request.facets.is_empty() {
        return Ok(Vec::new());
    }
    let ((documents, _), _) = enumerate::count(source, &request.query, EXACT).await?;
    let counted = match documents <= EXACT {
        true => search(source, request, Some(documents)).await,
        false => search(source, request, None).await,
    };
    match counted {
        // Documents with several values have more buckets than documents.
        Err(error) if documents <= EXACT && is_too_many_buckets(&error) => search(source, request, None).await,
        counted => counted,
    }
}

fn is_too_many_buckets(error: &ReadError) -> bool {
    let ReadError::Refused(answer) = error else {
        return false;
    };
    String::from_utf8_lossy(answer.body()).contains("too_many_buckets")
}

/// `documents`: of the query, if groups are counted exactly.
async fn search(
    source: &SearchSource<'_>,
    request: &GroupsRequest,
    documents: Option<u64>,
) -> Result<Vec<Facet>, ReadError> {
    // Names of the caller may be none for the servers.
    let name = |at: usize| format!("f{at}");
    let facets = request.facets.iter().enumerate();
    let asked: Map<String, Value> =
        facets.map(|(at, facet)| (name(at), aggregation(facet, &source.fields.key, documents))).collect();
    let body = json!({"size": 0, "track_total_hits": false, "aggs": asked});
    let answer: SearchAnswer = source.search_by(&source.stamped(&request.query, vec![]), body).await?;
    let answered = answer.aggregations.unwrap_or_default();
    let facets = request.facets.iter().enumerate().map(|(at, facet)| {
        let found = answered.get(name(at)).unwrap_or(&Value::Null);
        read_one(facet, found, documents.is_some())
    });
    facets.collect::<Option<_>>().ok_or(ReadError::NotTheCluster)
}

fn aggregation(facet: &FacetRequest, key: &str, documents: Option<u64>) -> Value {
    let groups = match documents {
        Some(documents) => {
            // Documents may have come since they were counted.
            let sent = documents.saturating_mul(2).max(REPEATED as u64);
            json!({"terms": {"field": key, "min_doc_count": 2, "size": REPEATED, "shard_size": sent}})
        }
        None => json!({"cardinality": {"field": key, "precision_threshold": NEARLY_EXACT}}),
    };
    let mut aggregation = match &facet.by {
        FacetBy::Values(size) => {
            let (size, sent) = match documents {
                Some(_) => (COMPARED, SENT),
                // An estimate takes memory for each value.
                None => (size * 3, size * 3),
            };
            json!({"terms": {"field": facet.field, "size": size, "shard_size": sent}})
        }
        FacetBy::Times { kind, interval, time_zone } => {
            let mut times = json!({"field": facet.field, (*kind): interval, "min_doc_count": 1});
            if let Some(time_zone) = time_zone {
                times["time_zone"] = time_zone.as_str().into();
            }
            json!({ "date_histogram": times })
        }
    };
    aggregation["aggs"] = json!({ "groups": groups });
    aggregation
}

/// One facet of a response; `None`: it is none.
fn read_one(facet: &FacetRequest, found: &Value, is_exact: bool) -> Option<Facet> {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    // Without a shard, as for a pattern that no index fits, there is no aggregation.
    let all = found.get("buckets").map_or(Some([].as_slice()), |all| Some(all.as_array()?.as_slice()))?;
    let mut is_proven = is_exact && number(found, "doc_count_error_upper_bound").unwrap_or(0) == 0;
    let mut buckets = Vec::with_capacity(all.len());
    for bucket in all {
        let documents = number(bucket, "doc_count")?;
        let of = bucket.get("groups")?;
        let groups = match of.get("buckets").map(Value::as_array) {
            Some(repeated) => {
                let repeated = repeated?;
                is_proven &= repeated.len() < REPEATED && number(of, "doc_count_error_upper_bound") == Some(0);
                let more: u64 = repeated.iter().filter_map(|group| number(group, "doc_count")).map(|n| n - 1).sum();
                documents.saturating_sub(more)
            }
            // An estimate may be above what is possible.
            None => number(of, "value")?.min(documents),
        };
        let key = match &facet.by {
            FacetBy::Values(_) => bucket.get("key_as_string").or(bucket.get("key"))?.clone(),
            FacetBy::Times { .. } => format_date(Millis(bucket.get("key")?.as_i64()?)).into(),
        };
        buckets.push(FacetBucket { key, groups, documents });
    }
    if let FacetBy::Values(size) = facet.by {
        let least = buckets.iter().map(|bucket| bucket.documents).min().unwrap_or(0);
        // The servers' order, of the same documents, is that of the values.
        buckets.sort_by_key(|bucket| std::cmp::Reverse((bucket.groups, bucket.documents)));
        buckets.truncate(size);
        let last = buckets.last().map_or(0, |bucket| bucket.groups);
        // A value that is not among them has as many documents at most as each of them.
        is_proven &= number(found, "sum_other_doc_count").unwrap_or(0) == 0 || last > least;
    }
    let relation = if is_proven { Relation::Equal } else { Relation::About };
    Some(Facet { name: facet.name.clone(), buckets, relation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(size: usize) -> FacetRequest {
        FacetRequest { name: "n".into(), field: "f".into(), by: FacetBy::Values(size) }
    }

    fn bucket(key: &str, documents: u64, repeated: &[u64]) -> Value {
        let repeated: Vec<Value> = repeated.iter().map(|n| json!({"key": 1, "doc_count": n})).collect();
        json!({
            "key": key, "doc_count": documents,
            "groups": {"doc_count_error_upper_bound": 0, "buckets": repeated},
        })
    }

    /// Values are ordered by groups, not by documents, and what is not proven is said.
    #[test]
    fn values_with_most_groups_come_first() {
        let mut found = json!({
            "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0,
            "buckets": [bucket("copies", 90, &[50, 39]), bucket("own", 10, &[2]), bucket("few", 5, &[])],
        });
        let read = |size: usize, found: &Value| {
            let facet = read_one(&values(size), found, true).unwrap();
            let buckets: Vec<(String, u64, u64)> = facet
                .buckets
                .iter()
                .map(|bucket| (bucket.key.as_str().unwrap().to_owned(), bucket.groups, bucket.documents))
                .collect();
            (buckets, facet.relation)
        };
        let own = ("own".to_owned(), 9, 10);
        let all = vec![own.clone(), ("few".to_owned(), 5, 5), ("copies".to_owned(), 3, 90)];
        assert_eq!(read(10, &found), (all.clone(), Relation::Equal));
        // A value that was not sent has five documents at most: the first has more groups, the second may not.
        found["sum_other_doc_count"] = 7.into();
        assert_eq!(read(1, &found), (vec![own.clone()], Relation::Equal));
        assert_eq!(read(2, &found), (all[..2].to_vec(), Relation::About));
        found["sum_other_doc_count"] = 0.into();
        found["doc_count_error_upper_bound"] = 1.into();
        assert_eq!(read(1, &found).1, Relation::About);
        let none = read_one(&values(1), &Value::Null, true).unwrap();
        assert_eq!((none.buckets.len(), none.relation), (0, Relation::Equal));
        assert!(read_one(&values(1), &json!({"buckets": [{"key": 1}]}), true).is_none());
    }

    #[test]
    fn estimates_are_said_to_be_some() {
        let found = json!({"buckets": [{"key": "a", "doc_count": 7, "groups": {"value": 8}}]});
        let facet = read_one(&values(1), &found, false).unwrap();
        let bucket = FacetBucket { key: "a".into(), groups: 7, documents: 7 };
        assert_eq!((facet.buckets, facet.relation), (vec![bucket], Relation::About));
    }
}
