//! Orders by a field that documents may lack, in two parts that are searched one after the other: documents that have
//! the field, then those that lack it.
//!
//! So no search sorts a document by a value that it lacks. Where one does, the servers tell the shards that have not
//! answered yet how far the others have come, as a date in the format of the mapping. Of a missing date that is the
//! smallest or the largest number. A format whose years have no sign (`yyyy`) makes another date of it, and documents
//! are left out; one of four digits, or nanoseconds, cannot have it, and there is never an answer. That is so with and
//! without `search_after`, but not in collapsed searches and aggregations.

use serde_json::{Value, json};

/// Filter and sort of one part. The only way to sort by a field of the caller or of a route that is not collapsed.
pub(super) struct SortPart {
    /// The documents of the part; `None`: all.
    pub filter: Option<Value>,
    pub sort: Value,
}

impl SortPart {
    /// Documents that have the field, by it, then by `ties`, which all documents have. `options`: an object, as in a
    /// sort by the field.
    pub(super) fn valued(field: &str, mut options: Value, ties: Vec<Value>) -> SortPart {
        // Of a text that is sorted by its words there may be none although it exists.
        options["missing"] = "_last".into();
        SortPart { filter: Some(has(field)), sort: by(field, &options, ties) }
    }

    /// All documents by `_score`, then by `ties`.
    pub(super) fn by_score(options: &Value, ties: Vec<Value>) -> SortPart {
        SortPart { filter: None, sort: by("_score", options, ties) }
    }

    /// Documents that lack the field, by `ties`.
    pub(super) fn missing(field: &str, ties: Vec<Value>) -> SortPart {
        SortPart { filter: Some(json!({"bool": {"must_not": [has(field)]}})), sort: ties.into() }
    }
}

/// A query for documents that have a field.
pub(super) fn has(field: &str) -> Value {
    json!({"exists": {"field": field}})
}

fn by(field: &str, options: &Value, ties: Vec<Value>) -> Value {
    let first = json!({(field): options});
    [first].into_iter().chain(ties).collect()
}
