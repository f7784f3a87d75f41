//! A walk: reads documents in the requested order, block by block.

use serde_json::{Value, json};

use super::cursor::{WalkPlace, WalkedDocument};
use super::error::ReadError;
use super::query::SearchQuery;
use super::request::Direction;
use super::search::SearchSource;
use super::sort_part::SortPart;

/// The order of a walk: by one field or `_score`, then by key; documents without the field behind all others, by key.
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

    /// Documents that have the field; without `by_key` those of equal value come in any order.
    pub(super) fn valued(&self, source: &SearchSource<'_>, by_key: bool) -> SortPart {
        let order = match self.direction {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        };
        let mut options = json!({"order": order});
        if self.is_time {
            options["unmapped_type"] = "date".into();
        }
        let ties = if by_key { vec![sort_by_key(source)] } else { vec![] };
        if self.is_score() {
            return SortPart::by_score(&options, ties);
        }
        SortPart::valued(&self.field, options, ties)
    }

    /// Documents that lack the field.
    pub(super) fn missing(&self, source: &SearchSource<'_>) -> SortPart {
        SortPart::missing(&self.field, vec![sort_by_key(source)])
    }

    /// Where a walk goes on behind the documents that have the field; `None`: all have it.
    pub(super) fn behind_valued(&self) -> Option<WalkPlace> {
        (!self.is_score()).then_some(WalkPlace::Missing(None))
    }

    fn is_score(&self) -> bool {
        self.field == "_score"
    }
}

fn sort_by_key(source: &SearchSource<'_>) -> Value {
    json!({(&source.fields.key): {"order": "asc", "unmapped_type": "long"}})
}

/// Whether these documents of one block have the field of the order.
pub(super) fn have_value(walked: &[WalkedDocument]) -> bool {
    walked.first().is_some_and(|walked| walked.value.is_some())
}

/// Documents of a walk, in order: all of them have the field of the order, or all lack it.
pub(super) struct WalkBlock {
    pub walked: Vec<WalkedDocument>,
    /// Where the walk goes on; `None`: there are no others.
    pub next: Option<WalkPlace>,
}

/// The next documents of a query after a position, about `size`, or as many as are left of those that have the field.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn block(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    after: Option<&WalkPlace>,
    size: usize,
) -> Result<WalkBlock, ReadError> {
    match after {
        // The score of a document is never missing.
        Some(WalkPlace::Missing(_)) if order.is_score() => Ok(WalkBlock { walked: Vec::new(), next: None }),
        Some(WalkPlace::Missing(after)) => missing(source, query, order, *after, size).await,
        Some(WalkPlace::Valued { value, key }) => valued(source, query, order, Some((value, *key)), size).await,
        None => valued(source, query, order, None, size).await,
    }
}

/// Documents that have the field.
async fn valued(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    after: Option<(&Value, i64)>,
    size: usize,
) -> Result<WalkBlock, ReadError> {
    let narrowed = if order.is_time {
        match by_time(source, query, order, after, size).await? {
            ByTime::Block { walked, is_last } => return Ok(valued_block(order, walked, is_last)),
            ByTime::Narrowed(filter) => filter,
        }
    } else {
        None
    };
    let is_narrowed = narrowed.is_some();
    let SortPart { filter, sort } = order.valued(source, true);
    let after = after.map(|(value, key)| json!([value, key]));
    let query = source.stamped(query, filter.into_iter().chain(narrowed).collect());
    let answer = source.search_by::<Value>(&query, sorted(size, &sort, after)).await?;
    let walked = answer.hits.into_iter().map(|hit| walked(hit.sort));
    let walked: Vec<WalkedDocument> = walked.collect::<Result<_, _>>()?;
    // Behind the times of a filter there are others.
    let is_last = !is_narrowed && walked.len() < size;
    Ok(valued_block(order, walked, is_last))
}

fn valued_block(order: &WalkOrder, walked: Vec<WalkedDocument>, is_last: bool) -> WalkBlock {
    let last = walked.last().filter(|_| !is_last);
    WalkBlock { next: last.map_or_else(|| order.behind_valued(), |last| Some(last.place())), walked }
}

/// Documents that lack the field. Those of one key follow each other, so one that is behind a key is of another group.
async fn missing(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    after: Option<i64>,
    size: usize,
) -> Result<WalkBlock, ReadError> {
    let SortPart { filter, sort } = order.missing(source);
    let query = source.stamped(query, filter.into_iter().collect());
    let answer = source.search_by::<Value>(&query, sorted(size, &sort, after.map(|key| json!([key])))).await?;
    let walked = answer.hits.iter().map(|hit| {
        let key = hit.sort.first().and_then(Value::as_i64).ok_or(ReadError::NotTheCluster)?;
        Ok(WalkedDocument { value: None, key })
    });
    let walked: Vec<WalkedDocument> = walked.collect::<Result<_, ReadError>>()?;
    let last = walked.last().filter(|_| walked.len() >= size);
    Ok(WalkBlock { next: last.map(WalkedDocument::place), walked })
}

/// The body of a search of a walk but for its query.
fn sorted(size: usize, sort: &Value, after: Option<Value>) -> Value {
    let mut body = json!({
        "size": size,
        "track_total_hits": false,
        "_source": false,
        "stored_fields": "_none_",
        "sort": sort,
    });
    if let Some(after) = after {
        body["search_after"] = after;
    }
    body
}

/// The sort values of a hit that has the field.
pub(super) fn walked(sort: Vec<Value>) -> Result<WalkedDocument, ReadError> {
    let mut sort = sort.into_iter();
    let value = sort.next().ok_or(ReadError::NotTheCluster)?;
    let key = sort.next().and_then(|key| key.as_i64());
    let key = key.ok_or(ReadError::NotTheCluster)?;
    Ok(WalkedDocument { value: Some(value), key })
}

/// Result of a search by time alone.
enum ByTime {
    /// The next documents, and whether they are the last ones that have a time. Otherwise there is one at least.
    Block { walked: Vec<WalkedDocument>, is_last: bool },
    /// It takes a search by time and key. A filter on the times that the next block can have, if that is known.
    Narrowed(Option<Value>),
}

/// With one sort field the servers skip documents, with two they visit all. So only the first field is requested, and
/// documents of equal time are ordered here; those of the last time may be incomplete.
async fn by_time(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    after: Option<(&Value, i64)>,
    size: usize,
) -> Result<ByTime, ReadError> {
    let from = match after {
        None => None,
        Some((value, _)) => match time(value) {
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
    let passed = from.zip(after.map(|(_, key)| key));
    let is_last = found.len() <= size;
    let walked = whole_times(&found, passed, order.direction, is_last);
    if is_last || !walked.is_empty() {
        return Ok(ByTime::Block { walked, is_last });
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

/// Times and keys of the next documents after a time, sorted by time only; `None` if they are no times as [`time`] has
/// them.
async fn times(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    order: &WalkOrder,
    behind: Option<i64>,
    size: usize,
) -> Result<Option<Vec<(i64, i64)>>, ReadError> {
    let SortPart { filter, sort } = order.valued(source, false);
    let mut body = sorted(size, &sort, behind.map(|behind| json!([behind])));
    body["docvalue_fields"] = json!([source.fields.key]);
    let query = source.stamped(query, filter.into_iter().collect());
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
    let walked = whole.into_iter().map(|(time, key)| WalkedDocument { value: Some(time.into()), key });
    walked.collect()
}

/// Converts a sort value to milliseconds; dates in nanoseconds are left to the servers.
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
                let is_behind = |place: &&(i64, i64)| {
                    after.is_none_or(|after| if ascending { place.0 >= after.0 } else { place.0 <= after.0 })
                };
                let found: Vec<(i64, i64)> = by_time.iter().filter(is_behind).take(size + 1).copied().collect();
                let is_all = found.len() <= size;
                let block = whole_times(&found, after, direction, is_all);
                let place = |of: &WalkedDocument| (of.value.as_ref().unwrap().as_i64().unwrap(), of.key);
                walked.extend(block.iter().map(place));
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
