//! Mapping of the stamp's fields: required ones, and those that an existing index lacks.

use serde_json::{Map, Value};

use crate::bulk::StampNames;
use crate::config::DEFAULT_PREFIX;

/// The component template that gives new indices the fields of the stamp.
pub(crate) const COMPONENT: &str = include_str!("../../mappings/component-template.json");

/// The name of the component template for this prefix of stamp fields; each prefix has its own.
pub(crate) fn component_name(prefix: &str) -> String {
    match prefix {
        DEFAULT_PREFIX => "spinney-stamp".into(),
        prefix => format!("spinney-stamp-{}", prefix.trim_end_matches('_').to_lowercase()),
    }
}

/// The component template, for names that begin with `prefix`.
///
/// # Errors
/// When the file is no JSON.
pub(crate) fn component(prefix: &str) -> serde_json::Result<Value> {
    let mut component: Value = serde_json::from_str(COMPONENT)?;
    if let Some(properties) = component.pointer_mut("/template/mappings/properties").and_then(Value::as_object_mut) {
        *properties = std::mem::take(properties)
            .into_iter()
            .map(|(name, mapping)| (name.replacen(DEFAULT_PREFIX, prefix, 1), mapping))
            .collect();
    }
    Ok(component)
}

/// The fields of the stamp that a mapping lacks, with the mapping that they are to have.
pub(crate) type MissingFields = Result<Map<String, Value>, MappingFault>;

/// The fields of the stamp that a mapping lacks, with their mapping. `mapping`: the `mappings` of one index as the
/// cluster returns them.
///
/// # Errors
/// If a field is mapped otherwise, or the source is not stored completely; with the way out.
pub(crate) fn missing(mapping: &Value, names: &StampNames) -> MissingFields {
    source_is_whole(&mapping["_source"])?;
    fields(mapping, names)
}

/// Why first documents are not looked for in an index of this mapping, if they are not: a search for its groups fails.
pub(super) fn search_fault(mapping: &Value, names: &StampNames) -> Option<MappingFault> {
    let searched = [names.key(), names.first(), names.arrival()];
    let is_off = |value: &Value| *value == false || value == "false";
    let unsearched = searched.into_iter().find_map(|name| {
        let field = &mapping["properties"][name];
        let what = [("index", "without an index"), ("doc_values", "without doc values")];
        let (_, lack) = what.into_iter().find(|(option, _)| is_off(&field[option]))?;
        let wanted = field["type"].as_str().unwrap_or_default().to_owned();
        Some(MappingFault::Type { field: name.to_owned(), mapped: format!("{wanted} {lack}"), wanted })
    });
    // The first write maps a missing field, unless the mapping forbids it.
    let is_fixed = matches!(mapping["dynamic"].as_str(), Some("false" | "strict")) || mapping["dynamic"] == false;
    match fields(mapping, names) {
        Err(fault) => Some(fault),
        Ok(missing) if is_fixed => {
            let unmapped = searched.into_iter().find(|name| missing.contains_key(*name));
            unmapped.map(|field| MappingFault::Unmapped { field: field.to_owned() }).or(unsearched)
        }
        Ok(_) => unsearched,
    }
}

/// Whether the source is whole, so that an update loses nothing.
pub(super) fn update_fault(mapping: &Value) -> Option<MappingFault> {
    source_is_whole(&mapping["_source"]).err()
}

fn fields(mapping: &Value, names: &StampNames) -> MissingFields {
    let component = component(names.prefix()).unwrap_or_default();
    let wanted = component.pointer("/template/mappings/properties");
    let wanted = wanted.and_then(Value::as_object);
    let searched = [names.root(), names.key(), names.arrival(), names.first()];
    let mut missing = Map::new();
    for (name, as_wanted) in wanted.into_iter().flatten() {
        match &mapping["properties"][name] {
            Value::Null => {
                missing.insert(name.clone(), as_wanted.clone());
            }
            mapped if mapped["type"] == as_wanted["type"] => {}
            // The others are not searched.
            mapped if searched.contains(&name.as_str()) => {
                return Err(MappingFault::Type {
                    field: name.clone(),
                    mapped: mapped["type"].as_str().unwrap_or("object").to_owned(),
                    wanted: as_wanted["type"].as_str().unwrap_or_default().to_owned(),
                });
            }
            _ => {}
        }
    }
    Ok(missing)
}

/// A fault in the mapping of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MappingFault {
    /// It has a field of that name.
    #[error(
        "the field {field} is mapped as {mapped} and must be {wanted}: a mapping cannot be changed, so copy the \
         documents to a new index (spinney setup, then _reindex), or choose other names with --prefix"
    )]
    Type {
        /// The field.
        field: String,
        /// Its type.
        mapped: String,
        /// The type that it must have.
        wanted: String,
    },
    /// It has no field of that name, and gets none by a write.
    #[error(
        "the field {field} is not mapped, and \"dynamic\" lets no write map it: put its mapping (spinney setup \
         --existing), and run spinney backfill"
    )]
    Unmapped {
        /// The field.
        field: String,
    },
    /// The source is incomplete: updates would lose fields.
    #[error("its mapping does not store the whole source ({0}): an update would lose what is not there")]
    Source(String),
}

fn source_is_whole(source: &Value) -> Result<(), MappingFault> {
    let has = |list: &str| source[list].as_array().is_some_and(|list| !list.is_empty());
    let is_off = source["enabled"] == false || source["enabled"] == "false";
    if is_off || has("excludes") || has("includes") {
        return Err(MappingFault::Source(format!("_source: {source}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn missing_of(mapping: &Value, prefix: &str) -> Result<Vec<String>, MappingFault> {
        let missing = missing(mapping, &StampNames::new(prefix).unwrap())?;
        Ok(missing.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn what_an_index_lacks() {
        let all = component("x_").unwrap();
        let all = all.pointer("/template/mappings").unwrap();
        assert_eq!(missing_of(all, "x_"), Ok(vec![]));
        let some = json!({"properties": {
            "x_root": {"type": "keyword"}, "x_arrival": {"type": "date", "format": "epoch_millis"}, "x_proof": {"type": "text"}
        }});
        assert_eq!(missing_of(&some, "x_"), Ok(["x_key", "x_hash", "x_first"].map(str::to_owned).to_vec()));
        assert_eq!(missing_of(&json!({}), "x_").unwrap().len(), 6);
    }

    #[test]
    fn what_no_write_maps_is_not_searched() {
        let names = StampNames::new("cluster_").unwrap();
        let fields = json!({
            "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
        });
        let of = |dynamic: Value| search_fault(&json!({"dynamic": dynamic, "properties": fields}), &names);
        for open in [json!("true"), json!(true), json!("true_allow_templates"), Value::Null] {
            assert_eq!(of(open.clone()), None, "{open}");
        }
        for fixed in [json!("false"), json!(false), json!("strict")] {
            let fault = of(fixed.clone()).map(|fault| fault.to_string()).unwrap_or_default();
            assert!(fault.contains("cluster_first is not mapped"), "{fixed}: {fault}");
        }
        let all = component("cluster_").unwrap();
        let mut all = all.pointer("/template/mappings").unwrap().clone();
        all["dynamic"] = "false".into();
        assert_eq!(search_fault(&all, &names), None);
    }

    #[test]
    fn what_cannot_be_adopted() {
        let text = json!({"properties": {"cluster_root": {"type": "text"}}});
        let fault = missing_of(&text, "cluster_").unwrap_err();
        assert!(fault.to_string().contains("cluster_root is mapped as text and must be keyword"), "{fault}");
        let object = json!({"properties": {"cluster_key": {"properties": {}}}});
        let fault = missing_of(&object, "cluster_").unwrap_err();
        assert!(fault.to_string().contains("cluster_key is mapped as object"), "{fault}");
        for source in
            [json!({"enabled": false}), json!({"excludes": ["body"]}), json!({"includes": ["a"], "excludes": []})]
        {
            let fault = missing_of(&json!({ "_source": source }), "cluster_").unwrap_err();
            assert!(matches!(fault, MappingFault::Source(_)), "{source}");
        }
        let whole = json!({"_source": {"excludes": [], "mode": "stored"}});
        assert!(missing_of(&whole, "cluster_").is_ok());
    }
}
