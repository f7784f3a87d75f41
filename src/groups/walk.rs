//! A walk: reads documents in the requested order, block by block.

use serde_json::{Value, json};

use super::cursor::WalkedDocument;
use super::error::ReadError;
use super::query::SearchQuery;
use super::request::Direction;
use super::search::SearchSource;

/// The order of a walk: by one field or `_score`, then by key.
#[derive(Debug, Clone)]
pub(super) struct WalkOrder {
    pub field: String,
    pub direction: Direction,
    /// Whether it is a date, which an index may lack; other fields must exist.
    pub is_time: bool,
}

impl WalkOrder {
    /// Newest first.
    pub(super) fn newest(source: &SearchSource<'_>) -> WalkOrder {
        WalkOrder { field: source.fields.time.clone(), direction: Direction::Descending, is_time: true }
    }

    /// Sort of a walk; without the key, the values of the first field only.
    pub(super) fn sort(&self, source: &SearchSource<'_>, by_key: bool) -> Value {
        let order = match self.direction {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        };
        let mut first = json!({"order": order});
        if self.is_time {
            first["unmapped_type"] = "date".into();
        }
        if self.field != "_score" {
            first["missing"] = "_last".into();
        }
        let first = json!({(&self.field): first});
        if by_key {
            json!([first, {(&source.fields.key): {"order": "asc", "unmapped_type": "long"}}])
        } else {
            json!([first])
        }
    }
}

/// Documents of a walk, in order.
pub(super) struct WalkBlock {
    pub walked: Vec<WalkedDocument>,
    /// Whether they are the last ones. Otherwise there is one at least.
    pub is_last: bool,
}

/// The next documents of a query after a position, about `size`.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn block(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    after: Option<&WalkedDocument>,
    size: usize,
) -> Result<WalkBlock, ReadError> {
    let narrowed = if order.is_time {
        match by_time(source, query, order, after, size).await? {
            ByTime::Block(block) => return Ok(block),
            ByTime::Narrowed(filter) => filter,
        }
    } else {
        None
    };
    let is_narrowed = narrowed.is_some();
    let mut body = json!({
        "size": size,
        "track_total_hits": false,
        "_source": false,
        "stored_fields": "_none_",
        "sort": order.sort(source, true),
    });
    if let Some(after) = after {
        body["search_after"] = json!([after.value, after.key]);
    }
    let query = source.stamped(query, narrowed.into_iter().collect());
    let answer = source.search_by::<Value>(&query, body).await?;
    let walked = answer.hits.into_iter().map(|hit| walked(hit.sort));
    let walked: Vec<WalkedDocument> = walked.collect::<Result<_, _>>()?;
    Ok(WalkBlock {
        // Behind the times of a filter there are others.
        is_last: !is_narrowed && walked.len() < size,
        walked,
    })
}

/// The sort values of a hit.
pub(super) fn walked(sort: Vec<Value>) -> Result<WalkedDocument, ReadError> {
    let mut sort = sort.into_iter();
    let value = sort.next().ok_or(ReadError::NotTheCluster)?;
    let key = sort.next().and_then(|key| key.as_i64());
    let key = key.ok_or(ReadError::NotTheCluster)?;
    Ok(WalkedDocument { value, key })
}

/// Result of a search by time alone.
enum ByTime {
    /// The next documents.
    Block(WalkBlock),
    /// It takes a search by time and key. A filter on the times that the next block can have, if that is known.
    Narrowed(Option<Value>),
}

/// With one sort field the servers skip documents, with two they visit all. So only the first field is requested, and
/// documents of equal time are ordered here; those of the last time may be incomplete.
async fn by_time(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    after: Option<&WalkedDocument>,
    size: usize,
) -> Result<ByTime, ReadError> {
    let from = match after {
        None => None,
        Some(after) => match time(&after.value) {
            // Documents without a time sort last.
            None => return Ok(ByTime::Narrowed(None)),
            from => from,
        },
    };
    // Some of that time may still come.
    let before = from.map(|from| match order.direction {
        Direction::Ascending => from - 1,
        Direction::Descending => from + 1,
    });
    let Some(found) = times(source, query, order, before, size + 1).await? else {
        return Ok(ByTime::Narrowed(None));
    };
    let passed = from.zip(after.map(|after| after.key));
    let is_last = found.len() <= size;
    let walked = whole_times(&found, passed, order.direction, is_last);
    if is_last || !walked.is_empty() {
        return Ok(ByTime::Block(WalkBlock { walked, is_last }));
    }
    let mut to = found.last().map(|(to, _)| *to);
    if to == from {
        // All of them may have been passed, so the range behind that time is included.
        let behind = times(source, query, order, from, size).await?;
        let behind = behind.filter(|behind| behind.len() == size);
        to = behind.and_then(|behind| Some(behind.last()?.0));
    }
    Ok(ByTime::Narrowed(to.map(|to| {
        let (reached, passed) = match order.direction {
            Direction::Ascending => ("lte", "gte"),
            Direction::Descending => ("gte", "lte"),
        };
        let mut range = json!({(reached): to, "format": "epoch_millis"});
        if let Some(from) = from {
            range[passed] = from.into();
        }
        json!({"range": {(&order.field): range}})
    })))
}

/// Times and keys of the next documents after a time, sorted by time only; `None` if one has no time: those sort last.
async fn times(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    behind: Option<i64>,
    size: usize,
) -> Result<Option<Vec<(i64, i64)>>, ReadError> {
    let mut body = json!({
        "size": size,
        "track_total_hits": false,
        "_source": false,
        "stored_fields": "_none_",
        "docvalue_fields": [source.fields.key],
        "sort": order.sort(source, false),
    });
    if let Some(behind) = behind {
        body["search_after"] = json!([behind]);
    }
    let query = source.stamped(query, vec![]);
    let answer = source.search_by::<Value>(&query, body).await?;
    let found = answer.hits.iter();
    let found = found.map(|hit| Some((time(hit.sort.first()?)?, hit.number(&source.fields.key)?)));
    Ok(found.collect())
}

/// The documents after a position, sorted by time and key, given documents sorted by time only. Unless they are all
/// that there are, those of the last time are left out.
fn whole_times(
    found: &[(i64, i64)],
    after: Option<(i64, i64)>,
    direction: Direction,
    is_all: bool,
) -> Vec<WalkedDocument> {
    let cut = found.last().filter(|_| !is_all).map(|(time, _)| *time);
    let is_passed = |place: &(i64, i64)| after.is_some_and(|after| place.0 == after.0 && place.1 <= after.1);
    let whole = found.iter().filter(|place| Some(place.0) != cut);
    let mut whole: Vec<(i64, i64)> = whole.filter(|place| !is_passed(place)).copied().collect();
    match direction {
        Direction::Ascending => whole.sort_unstable(),
        Direction::Descending => {
            whole.sort_unstable_by_key(|(time, key)| (std::cmp::Reverse(*time), *key));
        }
    }
    let walked = whole.into_iter().map(|(time, key)| WalkedDocument { value: time.into(), key });
    walked.collect()
}

/// Converts a sort value to milliseconds. Missing values sort as the smallest or largest number; dates in nanoseconds
/// are left to the servers.
fn time(value: &Value) -> Option<i64> {
    /// Some 30,000 years, or eleven days of nanoseconds.
    const MOST: i64 = 1_000_000_000_000_000;
    value.as_i64().filter(|millis| (-MOST..MOST).contains(millis))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Block after block, every document comes once and in order, unless one time fills a block.
        #[test]
        fn blocks_together_are_all_documents(
            documents in prop::collection::btree_set((0_i64..30, -3_i64..3), 0..60),
            size in 1_usize..12, ascending: bool,
        ) {
            let direction = if ascending { Direction::Ascending } else { Direction::Descending };
            let mut sorted: Vec<(i64, i64)> = documents.into_iter().collect();
            sorted.sort_by_key(|(time, key)| (if ascending { *time } else { -time }, *key));
            // As a server sorts by time alone: those of one time in any order.
            let mut by_time = sorted.clone();
            by_time.sort_by_key(|(time, key)| (if ascending { *time } else { -time }, key.wrapping_mul(5) % 7));
            let mut after: Option<(i64, i64)> = None;
            let mut walked = Vec::new();
            loop {
                let is_behind = |place: &&(i64, i64)| after.is_none_or(|after| if ascending { place.0 >= after.0 } else { place.0 <= after.0 });
                let found: Vec<(i64, i64)> = by_time.iter().filter(is_behind).take(size + 1).copied().collect();
                let is_all = found.len() <= size;
                let block = whole_times(&found, after, direction, is_all);
                walked.extend(block.iter().map(|walked| (walked.value.as_i64().unwrap(), walked.key)));
                if is_all {
                    prop_assert_eq!(&walked, &sorted);
                    break;
                }
                if block.is_empty() {
                    let times: std::collections::BTreeSet<i64> = found.iter().map(|place| place.0).collect();
                    prop_assert!(times.len() <= 2, "only one time fills a block");
                    break;
                }
                after = walked.last().copied();
            }
            prop_assert_eq!(&walked[..], &sorted[..walked.len()]);
        }
    }

    #[test]
    fn what_is_no_time_in_milliseconds() {
        assert_eq!(time(&json!(1_700_000_000_000_i64)), Some(1_700_000_000_000));
        for none in [json!(i64::MAX), json!(i64::MIN), json!(1_700_000_000_000_000_000_i64), Value::Null] {
            assert_eq!(time(&none), None);
        }
    }
}
