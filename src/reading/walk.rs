//! Documents in the order of an answer, a block at a time.

use serde_json::{Value, json};

use super::cursor::Walked;
use super::error::ReadError;
use super::request::Direction;
use super::search::Source;

/// The order of a walk: by one field or `_score`, then by key.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub field: String,
    pub direction: Direction,
    /// A date that an index may lack; other fields must be there.
    pub is_time: bool,
}

impl Order {
    /// Newest first.
    pub(super) fn newest(source: &Source<'_>) -> Order {
        Order {
            field: source.fields.time.clone(),
            direction: Direction::Descending,
            is_time: true,
        }
    }

    /// What the documents are sorted by; without the key, what only the first field says.
    pub(super) fn sort(&self, source: &Source<'_>, by_key: bool) -> Value {
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
            json!([first, {(&source.fields.key): {"order": "asc"}}])
        } else {
            json!([first])
        }
    }
}

/// The next documents of a query behind a place, in order; fewer than `size` only at the end.
///
/// # Errors
/// As [`Source::search`].
pub(super) async fn block(
    source: &Source<'_>,
    query: &Value,
    order: &Order,
    after: Option<&Walked>,
    size: usize,
    whole_index: bool,
) -> Result<Vec<Walked>, ReadError> {
    let narrowed = if whole_index && order.is_time {
        narrow(source, query, order, after, size).await?
    } else {
        None
    };
    let mut body = json!({
        "size": size,
        "track_total_hits": false,
        "_source": false,
        "query": source.stamped(query, narrowed.into_iter().collect()),
        "sort": order.sort(source, true),
    });
    if let Some(after) = after {
        body["search_after"] = json!([after.value, after.key]);
    }
    let answer = source.search::<Value>(body).await?;
    let walked = answer.hits.hits.into_iter().map(|hit| walked(hit.sort));
    walked.collect()
}

/// The sort values of a hit.
pub(super) fn walked(sort: Vec<Value>) -> Result<Walked, ReadError> {
    let mut sort = sort.into_iter();
    let value = sort.next().ok_or(ReadError::NotTheCluster)?;
    let key = sort.next().and_then(|key| key.as_i64());
    let key = key.ok_or(ReadError::NotTheCluster)?;
    Ok(Walked { value, key })
}

/// A filter on the times that the next block can have. Sorted by one field, the servers skip what they need not see, by two
/// they look at every document: so one field says how far the block reaches, and two put that part in order.
async fn narrow(
    source: &Source<'_>,
    query: &Value,
    order: &Order,
    after: Option<&Walked>,
    size: usize,
) -> Result<Option<Value>, ReadError> {
    let mut body = json!({
        "size": size,
        "track_total_hits": false,
        "_source": false,
        "query": source.stamped(query, vec![]),
        "sort": order.sort(source, false),
    });
    if let Some(after) = after {
        if time(&after.value).is_none() {
            return Ok(None);
        }
        body["search_after"] = json!([after.value]);
    }
    let answer = source.search::<Value>(body).await?;
    let hits = answer.hits.hits;
    let last = hits.last().filter(|_| hits.len() == size);
    // Near the end there is little left; what has no time stands behind all that have one.
    let Some(to) = last.and_then(|hit| time(hit.sort.first()?)) else {
        return Ok(None);
    };
    let (reached, passed) = match order.direction {
        Direction::Ascending => ("lte", "gte"),
        Direction::Descending => ("gte", "lte"),
    };
    let mut range = json!({(reached): to, "format": "epoch_millis"});
    if let Some(from) = after.and_then(|after| time(&after.value)) {
        range[passed] = from.into();
    }
    Ok(Some(json!({"range": {(&order.field): range}})))
}

/// A time among sort values; what has none is sorted by one of the ends of all numbers.
fn time(value: &Value) -> Option<i64> {
    let millis = value.as_i64()?;
    (millis != i64::MIN && millis != i64::MAX).then_some(millis)
}
