//! Explains failed reads of groups: an index maps the key as no number.

use hyper::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::error::ReadError;
use super::search::SearchSource;

/// Most bytes of a response of `_field_caps`.
const ANSWER_BYTES: usize = 1 << 20;

/// Replaces an error by [`ReadError::KeyMapping`] if an index maps the key field as no number. Asks the cluster with
/// the caller's credentials; without an answer it returns the error unchanged.
pub(super) async fn explained(source: &SearchSource<'_>, error: ReadError) -> ReadError {
    let is_of_mapping = match &error {
        ReadError::NotTheCluster => true,
        ReadError::Refused(answer) => answer.status() == StatusCode::BAD_REQUEST,
        _ => false,
    };
    if !is_of_mapping {
        return error;
    }
    let field = &source.fields.key;
    let name = utf8_percent_encode(field, NON_ALPHANUMERIC);
    let path = format!("/{}/_field_caps?fields={name}", source.raw_index);
    let Ok(answer) = source.cluster.get_as(source.caller, &path, ANSWER_BYTES).await else {
        return error;
    };
    let capabilities: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    match other_type(&capabilities, field) {
        Some((index, mapped)) => ReadError::KeyMapping { index, field: field.clone(), mapped },
        None => error,
    }
}

/// An index whose key field is no `long`, and its type, by a response of `_field_caps`.
fn other_type(capabilities: &Value, key: &str) -> Option<(String, String)> {
    let types: &Map<String, Value> = capabilities.get("fields")?.get(key)?.as_object()?;
    let (mapped, of) = types.iter().find(|(mapped, _)| !["long", "unmapped"].contains(&mapped.as_str()))?;
    // A type that all indices have does not list them: the response does, once.
    let indices = of.get("indices").or_else(|| capabilities.get("indices"));
    Some((indices?.get(0)?.as_str()?.to_owned(), mapped.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_index_with_another_type_is_named() {
        let of = |fields: Value| other_type(&json!({"indices": ["a", "b"], "fields": fields}), "cluster_key");
        let named = |index: &str, mapped: &str| Some((index.to_owned(), mapped.to_owned()));
        assert_eq!(of(json!({"cluster_key": {"keyword": {"type": "keyword"}}})), named("a", "keyword"));
        let some = json!({"cluster_key": {"long": {"indices": ["a"]}, "text": {"indices": ["b"]}}});
        assert_eq!(of(some), named("b", "text"));
        assert_eq!(of(json!({"cluster_key": {"long": {}, "unmapped": {"indices": ["b"]}}})), None);
        assert_eq!(of(json!({})), None);
        assert_eq!(other_type(&json!({"error": "x"}), "cluster_key"), None);
    }
}
