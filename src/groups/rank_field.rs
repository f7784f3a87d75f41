//! The field by which representatives are ranked, in the form that has whole values.

use serde_json::{Map, Value};

use super::error::ReadError;
use super::keyword::{BESIDE, capabilities, of_capabilities};
use super::request::RequestError;
use super::search::SearchSource;
use crate::config::RepresentativeBy;

/// Types whose subfields are no fields of the mapping.
const OF_ANY_FIELDS: [&str; 2] = ["flattened", "flat_object"];

/// What a mapping has under the name of a field.
#[derive(Debug, PartialEq)]
enum RankField {
    /// Whole values.
    Whole,
    /// A text, and a keyword beside it.
    Beside,
    /// A text without such a keyword.
    Text,
    /// Nothing.
    Missing,
}

/// The representatives of a request: a rank by a field that can be ranked by. A query for a value of a missing field,
/// or of a text, finds nothing or something else, and is no error to the servers. Asks the cluster with the caller's
/// credentials; without an answer they stay as they are.
///
/// # Errors
/// When the field is missing, or has no whole values.
pub(super) async fn resolved(
    source: &SearchSource<'_>,
    representative: &RepresentativeBy,
) -> Result<RepresentativeBy, ReadError> {
    let RepresentativeBy::Rank { field, order } = representative else {
        return Ok(representative.clone());
    };
    let beside = format!("{field}{BESIDE}");
    let asked = [field.as_str(), &beside].into_iter().chain(parents(field));
    let parsed = capabilities(source.cluster, source.caller, source.raw_index, asked).await;
    let reason = match parsed.and_then(|parsed| of_mapping(&parsed, field)) {
        Some(RankField::Whole) | None => return Ok(representative.clone()),
        Some(RankField::Beside) => {
            return Ok(RepresentativeBy::Rank { field: beside, order: order.clone() });
        }
        Some(RankField::Missing) => format!("ranks by {field}, which none of these indices has"),
        Some(RankField::Text) => format!(
            "ranks by {field}, which is mapped as text here, and no keyword {beside} stands beside it in all \
             of these indices"
        ),
    };
    let reason = format!("{reason}: name a field of the type keyword");
    Err(RequestError::Member { member: "representative", reason }.into())
}

/// The objects that a field may be in.
fn parents(field: &str) -> impl Iterator<Item = &str> {
    field.match_indices('.').filter_map(|(at, _)| field.get(..at))
}

/// By a response of `_field_caps`; `None`: it is none.
fn of_mapping(capabilities: &Value, field: &str) -> Option<RankField> {
    let fields: &Map<String, Value> = capabilities.get("fields")?.as_object()?;
    let types = |name: &str| -> Vec<&String> {
        fields.get(name).and_then(Value::as_object).map_or_else(Vec::new, |types| types.keys().collect())
    };
    let is_value = |mapped: &&String| !["object", "nested", "unmapped"].contains(&mapped.as_str());
    let own: Vec<&String> = types(field).into_iter().filter(is_value).collect();
    let is_of_any = |parent| types(parent).iter().any(|mapped| OF_ANY_FIELDS.contains(&mapped.as_str()));
    Some(if own.is_empty() {
        if parents(field).any(is_of_any) { RankField::Whole } else { RankField::Missing }
    } else if !own.iter().any(|mapped| mapped.ends_with("text")) {
        RankField::Whole
    } else if of_capabilities(capabilities, field) == Some(true) {
        RankField::Beside
    } else {
        RankField::Text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_has_whole_values_or_a_keyword_beside_it() {
        let text = json!({"text": {"aggregatable": false}});
        let keyword = json!({"keyword": {"aggregatable": true}});
        let both = json!({"text": {"aggregatable": false}, "keyword": {"aggregatable": true}});
        let object = json!({"object": {"aggregatable": false}});
        for (fields, expected) in [
            (json!({"a.b": keyword}), RankField::Whole),
            (json!({"a.b": {"keyword": {"aggregatable": false}}}), RankField::Whole),
            (json!({"a.b": {"long": {"aggregatable": true}}}), RankField::Whole),
            (json!({"a.b": text, "a.b.keyword": keyword}), RankField::Beside),
            (json!({"a.b": text}), RankField::Text),
            (json!({"a.b": {"match_only_text": {"aggregatable": false}}}), RankField::Text),
            (json!({"a.b": both, "a.b.keyword": keyword}), RankField::Text),
            (json!({"a.b": object, "a": object}), RankField::Missing),
            (json!({"a": {"flattened": {"aggregatable": true}}}), RankField::Whole),
            (json!({"a": {"flat_object": {"aggregatable": false}}}), RankField::Whole),
            (json!({}), RankField::Missing),
        ] {
            let parsed = json!({ "fields": fields });
            assert_eq!(of_mapping(&parsed, "a.b"), Some(expected), "{parsed}");
        }
        assert_eq!(of_mapping(&json!({"error": "x"}), "a.b"), None);
    }
}
