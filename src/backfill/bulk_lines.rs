//! Stored documents as lines of a bulk, and the outcome of each item.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bulk::stored_value;
use crate::cluster::sorted_pages::StoredHit;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteForm {
    /// The fields of the route, over those that are stored.
    Fields,
    /// The same, also where the source has these values already: what is searched may lack them, since the mapping did.
    FieldsAgain,
    /// The whole document, for stamps inside arrays: an update would replace the array.
    Whole,
}

/// How a document has to be written, by the fields of its route.
pub(super) fn form_of(source: &[u8]) -> WriteForm {
    // Most have no array at all; a bracket in a text costs an alignment check.
    if memchr::memchr(b'[', source).is_none() {
        return WriteForm::Fields;
    }
    match stored_value(source) {
        Ok(Value::Object(members)) if !members.values().any(has_object_in_array) => WriteForm::Fields,
        _ => WriteForm::Whole,
    }
}

fn has_object_in_array(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().any(has_object_in_array),
        Value::Array(items) => items.iter().any(holds_object),
        _ => false,
    }
}

fn holds_object(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().any(holds_object),
        _ => false,
    }
}

/// Adds the lines of a document, which is written only if it is still as it was read.
pub(super) fn add(lines: &mut Vec<u8>, found: &StoredHit, form: WriteForm) {
    let mut meta = json!({
        "_index": found.index,
        "_id": found.id,
        "if_seq_no": found.seq_no,
        "if_primary_term": found.term,
    });
    if let Some(routing) = &found.routing {
        meta["routing"] = routing.as_str().into();
    }
    let action = match form {
        WriteForm::Fields | WriteForm::FieldsAgain => json!({ "update": meta }),
        WriteForm::Whole => {
            // The result of an ingest pipeline is kept.
            meta["pipeline"] = "_none".into();
            json!({ "index": meta })
        }
    };
    lines.extend_from_slice(action.to_string().as_bytes());
    lines.push(b'\n');
    match form {
        WriteForm::Fields | WriteForm::FieldsAgain => {
            let is_again = form == WriteForm::FieldsAgain;
            lines.extend_from_slice(if is_again { b"{\"detect_noop\":false,\"doc\":" } else { b"{\"doc\":" });
            add_on_one_line(lines, &found.source);
            lines.extend_from_slice(b"}\n");
        }
        WriteForm::Whole => {
            add_on_one_line(lines, &found.source);
            lines.push(b'\n');
        }
    }
}

/// In JSON, line breaks are only between values.
fn add_on_one_line(lines: &mut Vec<u8>, source: &[u8]) {
    let start = lines.len();
    lines.extend_from_slice(source);
    if let Some(added) = lines.get_mut(start..) {
        for byte in added.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
    }
}

/// The outcome of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StampOutcome {
    /// It is stored with its stamp.
    Stamped,
    /// A no-op: the update arrived without a stamp.
    Unchanged,
    /// It has changed since it was read.
    Changed,
    /// It was deleted.
    Gone,
    /// The cluster is too busy for it at the moment.
    Later(String),
    /// It is refused for good.
    Refused(String),
}

#[derive(Deserialize)]
struct BulkAnswer {
    items: Vec<BulkItem>,
}

#[derive(Deserialize)]
struct BulkItem {
    #[serde(alias = "index")]
    update: BulkItemResult,
}

#[derive(Deserialize)]
struct BulkItemResult {
    status: u16,
    #[serde(default)]
    result: String,
    error: Option<Value>,
}

/// The outcome of each document of a bulk, if the response is complete.
pub(super) fn fates(answer: &Bytes, documents: usize) -> Option<Vec<StampOutcome>> {
    let answer: BulkAnswer = serde_json::from_slice(answer).ok()?;
    let fates: Vec<StampOutcome> = answer.items.iter().map(|item| fate(&item.update)).collect();
    (fates.len() == documents).then_some(fates)
}

fn fate(outcome: &BulkItemResult) -> StampOutcome {
    let reason = || {
        let error = outcome.error.as_ref();
        let text = |name: &str| error.and_then(|error| error[name].as_str()).unwrap_or_default();
        format!("{} {}: {}", outcome.status, text("type"), text("reason"))
    };
    match outcome.status {
        200..=299 if outcome.result == "noop" => StampOutcome::Unchanged,
        200..=299 => StampOutcome::Stamped,
        404 => match outcome.error.as_ref().and_then(|error| error["type"].as_str()) {
            Some("index_not_found_exception") => StampOutcome::Refused(reason()),
            _ => StampOutcome::Gone,
        },
        409 => StampOutcome::Changed,
        429 | 502 | 503 | 504 => StampOutcome::Later(reason()),
        _ => StampOutcome::Refused(reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &'static str, routing: Option<&str>) -> StoredHit {
        StoredHit {
            index: "news\"1".into(),
            id: "a\nb".into(),
            routing: routing.map(Into::into),
            seq_no: 7,
            term: 2,
            source: Bytes::from_static(source.as_bytes()),
            place: None,
        }
    }

    #[test]
    fn lines_of_a_document() {
        let mut lines = Vec::new();
        add(&mut lines, &found("{\n \"content\" : \"a\\nb\"\r\n}", Some("r")), WriteForm::Fields);
        add(&mut lines, &found("{\"n\":1.50}", None), WriteForm::Whole);
        let text = String::from_utf8(lines).unwrap();
        assert_eq!(
            text,
            "{\"update\":{\"_index\":\"news\\\"1\",\"_id\":\"a\\nb\",\"if_seq_no\":7,\"if_primary_term\":2,\"routing\":\"r\"}}\n\
             {\"doc\":{  \"content\" : \"a\\nb\"  }}\n\
             {\"index\":{\"_index\":\"news\\\"1\",\"_id\":\"a\\nb\",\"if_seq_no\":7,\"if_primary_term\":2,\"pipeline\":\"_none\"}}\n\
             {\"n\":1.50}\n"
        );
    }

    #[test]
    fn only_arrays_of_objects_need_all_of_a_document() {
        for (source, form) in [
            (r#"{"content":"a [1] {b}"}"#, WriteForm::Fields),
            (r#"{"content":["a",["b"],null]}"#, WriteForm::Fields),
            (r#"{"body":{"text":["a"]}}"#, WriteForm::Fields),
            (r#"{"parts":[{"text":"a"}]}"#, WriteForm::Whole),
            (r#"{"body":{"parts":[["a"],[{"text":"a"}]]}}"#, WriteForm::Whole),
            (r#"{"content":["a"#, WriteForm::Whole),
            ("{}", WriteForm::Fields),
        ] {
            assert_eq!(form_of(source.as_bytes()), form, "{source}");
        }
    }

    #[test]
    fn what_an_answer_says() {
        let answer = json!({"took": 1, "errors": true, "items": [
            {"update": {"_id": "1", "status": 200, "result": "updated"}},
            {"index": {"_id": "2", "status": 200, "result": "updated"}},
            {"update": {"_id": "3", "status": 200, "result": "noop"}},
            {"update": {"_id": "4", "status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "x"}}},
            {"update": {"_id": "5", "status": 404, "error": {"type": "document_missing_exception", "reason": "x"}}},
            {"update": {"_id": "6", "status": 429, "error": {"type": "rejected", "reason": "full"}}},
            {"update": {"_id": "7", "status": 400, "error": {"type": "mapper_parsing_exception", "reason": "no"}}},
            {"update": {"_id": "8", "status": 404, "error": {"type": "index_not_found_exception", "reason": "none"}}},
        ]});
        let answer = Bytes::from(answer.to_string());
        assert_eq!(
            fates(&answer, 8).unwrap(),
            [
                StampOutcome::Stamped,
                StampOutcome::Stamped,
                StampOutcome::Unchanged,
                StampOutcome::Changed,
                StampOutcome::Gone,
                StampOutcome::Later("429 rejected: full".into()),
                StampOutcome::Refused("400 mapper_parsing_exception: no".into()),
                StampOutcome::Refused("404 index_not_found_exception: none".into()),
            ]
        );
        assert_eq!(fates(&answer, 7), None);
        assert_eq!(fates(&Bytes::from_static(b"{}"), 0), None);
    }
}
