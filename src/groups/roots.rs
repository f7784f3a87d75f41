//! Reads the roots index for the order of groups, with the caller's credentials. Without access, without the index, or
//! where it is closed, unassigned or of another mapping, the order comes from the documents.

use std::collections::HashSet;

use hyper::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::cursor::ListedGroup;
use super::enumerate::NO_TIME;
use super::error::ReadError;
use super::request::{Direction, match_all};
use super::search::{SearchAnswer, SearchSource};
use crate::cluster::roots::{COUNT, KEY, LAST, roots_index};

/// Summary of the roots index, and its first entries.
pub(super) struct RootsSummary {
    /// Groups of two or more.
    pub entries: u64,
    /// Documents of these groups; 0 if not requested.
    pub documents: u64,
    /// As [`page`] has them.
    pub first: Vec<ListedGroup>,
}

/// The index of roots of a concrete index, as a path names it. `None` for patterns, lists and other clusters.
pub(super) fn name_for(index: &str) -> Option<String> {
    let is_one = !index.starts_with(['_', '-', '+', '<']) && !index.contains(['*', '?', ',', ':', '>']);
    let name = || utf8_percent_encode(&roots_index(index), NON_ALPHANUMERIC).to_string();
    (is_one && !index.is_empty()).then(name)
}

/// The first entries and their total, if a non-empty roots index exists that the caller may read. In two searches: one
/// that counts and sorts would look at every entry to sort it.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn first(
    source: &SearchSource<'_>,
    name: &str,
    direction: Direction,
    size: usize,
    with_sum: bool,
) -> Result<Option<RootsSummary>, ReadError> {
    let mut body = json!({"size": 0, "track_total_hits": true, "query": groups()});
    if with_sum {
        body["aggs"] = json!({"documents": {"sum": {"field": COUNT}}});
    }
    let counted = search(source, name, body);
    let first = async {
        match size {
            0 => Ok(Vec::new()),
            _ => page(source, name, direction, None, size).await,
        }
    };
    let (answer, first) = match tokio::try_join!(counted, first) {
        Err(ReadError::NoRoots) => return Ok(None),
        both => both?,
    };
    let entries = answer.total().0;
    // Empty: nothing was counted yet.
    if entries == 0 {
        return Ok(None);
    }
    let sum = answer.aggregations.as_ref();
    let sum = sum.and_then(|sum| sum.pointer("/documents/value")?.as_f64());
    Ok(Some(RootsSummary { entries, documents: sum.map_or(0, |sum| sum as u64), first }))
}

/// Statuses of a search in a roots index that cannot be read: closed or of another mapping, forbidden, missing,
/// unassigned. A busy cluster (429) is not asked for more.
const UNREADABLE: [StatusCode; 4] =
    [StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE];

async fn search(source: &SearchSource<'_>, name: &str, body: Value) -> Result<SearchAnswer, ReadError> {
    match source.search_in(name, body).await {
        Err(ReadError::Refused(refused)) if UNREADABLE.contains(&refused.status()) => Err(ReadError::NoRoots),
        answer => answer,
    }
}

/// The query for entries of two or more documents: lagging counts may leave smaller ones for a while.
fn groups() -> Value {
    json!({"bool": {"must": [match_all()], "filter": [{"range": {COUNT: {"gte": 2}}}]}})
}

/// The entries after a position: by number of documents, then latest arrival first, then by key.
///
/// # Errors
/// As [`SearchSource::search`]; [`ReadError::NoRoots`] when there is none any more.
pub(super) async fn page(
    source: &SearchSource<'_>,
    name: &str,
    direction: Direction,
    after: Option<&ListedGroup>,
    size: usize,
) -> Result<Vec<ListedGroup>, ReadError> {
    let mut body = sorted(direction, size);
    if let Some(after) = after {
        body["search_after"] = json!([after.count, after.last, after.key]);
    }
    let mut listed = listed_of(search(source, name, body).await?)?;
    listed.retain(|entry| entry.count >= 2);
    Ok(listed)
}

/// A search for entries in their order.
fn sorted(direction: Direction, size: usize) -> Value {
    let order = match direction {
        Direction::Ascending => "asc",
        Direction::Descending => "desc",
    };
    json!({
        "size": size,
        "track_total_hits": false,
        "_source": false,
        "stored_fields": "_none_",
        "query": match direction {
            Direction::Ascending => groups(),
            // Missing values sort last; a filter would make the servers visit every entry.
            Direction::Descending => match_all(),
        },
        "sort": [
            {COUNT: {"order": order}},
            {LAST: {"order": "desc", "missing": "_last"}},
            {KEY: {"order": "asc"}},
        ],
    })
}

fn listed_of(answer: SearchAnswer) -> Result<Vec<ListedGroup>, ReadError> {
    let listed = answer.hits.into_iter().map(|hit| {
        let number = |at: usize| hit.sort.get(at).and_then(Value::as_i64);
        Some(ListedGroup {
            count: u64::try_from(number(0)?).ok()?,
            last: number(1).unwrap_or(NO_TIME),
            key: number(2)?,
        })
    });
    // Fields of other types than those of the template.
    listed.collect::<Option<_>>().ok_or(ReadError::NoRoots)
}

/// Which of these groups have an entry.
///
/// # Errors
/// As [`page`].
pub(super) async fn listed(source: &SearchSource<'_>, name: &str, keys: &[i64]) -> Result<HashSet<i64>, ReadError> {
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let body = json!({
        "size": keys.len(),
        "track_total_hits": false,
        "_source": false,
        "stored_fields": "_none_",
        "docvalue_fields": [KEY],
        "query": {"bool": {"filter": [groups(), {"terms": {KEY: keys}}]}},
    });
    let answer = search(source, name, body).await?;
    let hits = answer.hits.iter();
    Ok(hits.filter_map(|hit| hit.number(KEY)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concrete_indices_have_one() {
        assert_eq!(name_for("news-1").as_deref(), Some("spinney%2Droots%2Dnews%2D1"));
        assert_eq!(name_for("新").as_deref(), Some("spinney%2Droots%2D%E6%96%B0"));
        for none in ["news-*", "a,b", "_all", "far:news", "<news-{now/d}>", "-a", ""] {
            assert_eq!(name_for(none), None, "{none}");
        }
    }
}
