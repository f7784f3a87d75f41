//! A group as a whole: its first article, and counts over all its articles that the reader may see.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::document::IndexedDocument;
use super::error_page::ErrorPage;
use super::{PageRequest, fields, url};
use crate::config::RepresentativeBy;
use crate::engine::ReaderFields;
use crate::forest::Root;
use crate::groups::answer::{GroupSummary, key};
use crate::groups::request::{Direction, TotalWanted};
use crate::groups::{GroupsRequest, NO_FIELD, ReadError, SortBy, members_order};
use crate::time::Millis;

/// Media that are counted one by one.
const MEDIA: usize = 12;

/// Media that each shard counts: the numbers are exact up to this many.
const MEDIA_OF_SHARD: usize = 3_000;

/// Most intervals over which articles are counted.
const INTERVALS: usize = 60;

/// The first article of a group.
pub(super) struct FirstArticle {
    pub document: IndexedDocument,
    pub time: Option<Millis>,
    pub medium: Option<String>,
}

/// All articles of a group together.
pub(super) struct GroupFacts {
    pub total: u64,
    pub first: FirstArticle,
    /// The number of media.
    pub media: u64,
    /// Those with the most articles, and how many.
    pub largest_media: Vec<(String, u64)>,
    /// From the first to the last time.
    pub span: Option<(Millis, Millis)>,
    /// When intervals begin, and how many articles each has; also those without any.
    pub intervals: Vec<(Millis, u64)>,
}

/// Reads a group; `None` if the reader sees no article of it.
///
/// # Errors
/// When the cluster refuses the search, or does not answer it completely.
pub(super) async fn facts(
    page: &PageRequest<'_>,
    raw_index: &str,
    root: Root,
    names: &ReaderFields,
) -> Result<Option<GroupFacts>, ErrorPage> {
    let (time, zone) = (&names.time, page.shell.locale.zone_name());
    let mut counts = json!({
        "first": {"min": {"field": time}},
        "last": {"max": {"field": time}},
        "intervals": {"auto_date_histogram": {
            "field": time, "buckets": INTERVALS, "minimum_interval": "minute",
            "time_zone": zone,
        }},
    });
    // As an aggregation: a search cannot be sorted by a field that some documents lack (`groups::sort_part`).
    counts["earliest"] = json!({"top_hits": {
        "size": 1, "_source": {"excludes": [NO_FIELD]}, "sort": members_order(time),
    }});
    if let Some(medium) = &names.medium {
        counts["largest_media"] = json!({"terms": {"field": medium, "size": MEDIA, "shard_size": MEDIA_OF_SHARD}});
        counts["media"] = json!({"cardinality": {"field": medium, "precision_threshold": MEDIA_OF_SHARD}});
    }
    let mut body = json!({
        "size": 0,
        "track_total_hits": true,
        "query": {"bool": {"filter": [{"term": {(&names.key): key(root)}}]}},
        "aggs": counts,
    });
    let mut found = page.search(raw_index, &body).await;
    if is_bad_request(&found) && zone != "UTC" {
        // A zone that the cluster does not know, such as one that is newer than it.
        if let Some(intervals) = body.pointer_mut("/aggs/intervals/auto_date_histogram") {
            intervals["time_zone"] = "UTC".into();
        }
        found = page.search(raw_index, &body).await;
    }
    if is_bad_request(&found) {
        // Only dates can be put into intervals.
        if let Some(counts) = body.get_mut("aggs").and_then(Value::as_object_mut) {
            counts.remove("intervals");
        }
        found = page.search(raw_index, &body).await;
    }
    Ok(read(found?, names)?)
}

fn is_bad_request(found: &Result<Value, ErrorPage>) -> bool {
    found.as_ref().is_err_and(|refused| refused.status == StatusCode::BAD_REQUEST)
}

/// The groups of which the reader sees a document; `None` if that cannot be determined.
pub(super) async fn seen_groups(
    page: &PageRequest<'_>,
    index: &str,
    keys: &[i64],
    shown: &Value,
    names: &ReaderFields,
) -> Option<Vec<GroupSummary>> {
    if keys.is_empty() {
        return Some(Vec::new());
    }
    let request = GroupsRequest {
        query: json!({"bool": {"filter": [{"terms": {(&names.key): keys}}]}}).into(),
        sort: SortBy::Field(names.time.clone()),
        direction: Direction::Descending,
        size: keys.len(),
        representative: RepresentativeBy::Oldest,
        source: shown.clone(),
        total: TotalWanted::No,
        ..GroupsRequest::default()
    };
    let raw_index = url::segment(index);
    let reader = page.reader(&raw_index, names);
    let groups = reader.groups(&request).await;
    groups.ok().map(|groups| groups.groups)
}

fn read(mut found: Value, names: &ReaderFields) -> Result<Option<GroupFacts>, ReadError> {
    let total = found.pointer("/hits/total/value").and_then(Value::as_u64);
    let total = total.ok_or(ReadError::NotTheCluster)?;
    let Some(hit) = found.pointer_mut("/aggregations/earliest/hits/hits/0").map(Value::take) else {
        return Ok(None);
    };
    let sorted = hit.pointer("/sort/0").and_then(Value::as_i64);
    let document = IndexedDocument::of_hit(hit).ok_or(ReadError::NotTheCluster)?;
    let counts = found.get_mut("aggregations").map(Value::take).unwrap_or_default();
    let number = |at: &str| counts.pointer(at).and_then(Value::as_f64);
    let time = |at: &str| number(at).map(|millis| Millis(millis as i64));
    let buckets = |at: &str| counts.pointer(at).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let count = |bucket: &Value| bucket.get("doc_count").and_then(Value::as_u64);
    let media = buckets("/largest_media/buckets").iter();
    let largest_media = media.filter_map(|bucket| Some((bucket.get("key")?.as_str()?.to_owned(), count(bucket)?)));
    let intervals = buckets("/intervals/buckets").iter();
    let intervals = intervals.filter_map(|bucket| Some((Millis(bucket.get("key")?.as_i64()?), count(bucket)?)));
    Ok(Some(GroupFacts {
        total,
        media: number("/media/value").unwrap_or_default() as u64,
        largest_media: largest_media.collect(),
        span: time("/first/value").zip(time("/last/value")),
        intervals: intervals.collect(),
        first: FirstArticle {
            time: sorted.filter(|&time| time != i64::MAX).map(Millis),
            medium: fields::keyword(&document.source, names.medium.as_deref()).map(str::to_owned),
            document,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_counted() {
        let hit = json!({"_index": "news-1", "_id": "a", "sort": [5, 0], "_source": {"media": "Wire"}});
        let answer = json!({
            "hits": {"total": {"value": 10_000}, "hits": []},
            "aggregations": {
                "earliest": {"hits": {"hits": [hit]}},
                "first": {"value": 5.0}, "last": {"value": 9.0}, "media": {"value": 2},
                "largest_media": {"buckets": [{"key": "Wire", "doc_count": 9_990}, {"key": "Post", "doc_count": 10}]},
                "intervals": {"buckets": [{"key": 0, "doc_count": 10_000}]},
            },
        });
        let facts = read(answer, &fields::sample()).unwrap().unwrap();
        assert_eq!((facts.total, facts.media, facts.span), (10_000, 2, Some((Millis(5), Millis(9)))));
        assert_eq!(facts.largest_media, [("Wire".to_owned(), 9_990), ("Post".to_owned(), 10)]);
        assert_eq!(facts.intervals, [(Millis(0), 10_000)]);
        assert_eq!((facts.first.time, facts.first.medium.as_deref()), (Some(Millis(5)), Some("Wire")));
        let nothing = json!({"hits": {"total": {"value": 0}, "hits": []}});
        assert!(read(nothing, &fields::sample()).unwrap().is_none());
        assert!(read(json!({}), &fields::sample()).is_err());
    }
}
