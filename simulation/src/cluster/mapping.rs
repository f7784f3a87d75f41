//! Mappings: types of fields, explicit or learned from documents. Strings are learned as `keyword`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use spinney::time::parse_date;

use super::fault::Fault;
use super::source;

/// The mapping of an index.
#[derive(Debug, Clone, Default)]
pub(super) struct Mapping {
    /// By dotted name.
    fields: BTreeMap<String, Value>,
    /// `dynamic`, `_source` and others.
    rest: Map<String, Value>,
}

impl Mapping {
    /// Adds the fields of a `mappings` object.
    pub(super) fn put(&mut self, body: &Value) -> Result<(), Fault> {
        let mut added = BTreeMap::new();
        collect(&body["properties"], "", &mut added);
        for (name, field) in &added {
            if let Some(known) = self.fields.get(name)
                && known["type"] != field["type"]
            {
                let reason = format!(
                    "mapper [{name}] cannot be changed from type [{}] to [{}]",
                    text(&known["type"]),
                    text(&field["type"])
                );
                return Err(Fault::bad(reason));
            }
        }
        self.fields.extend(added);
        let rest = body.as_object().into_iter().flatten().filter(|(key, _)| *key != "properties");
        self.rest.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
        Ok(())
    }

    pub(super) fn to_json(&self) -> Value {
        let mut mappings = Value::Object(self.rest.clone());
        for (name, field) in &self.fields {
            let mut at = &mut mappings;
            for part in name.split('.') {
                at = &mut at["properties"][part];
            }
            *at = field.clone();
        }
        mappings
    }

    /// The names of all fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// The mapping of a field or of a subfield, and the field that has its values.
    fn field<'n>(&self, name: &'n str) -> Option<(&Value, &'n str)> {
        if let Some(field) = self.fields.get(name) {
            return Some((field, name));
        }
        let (parent, sub) = name.rsplit_once('.')?;
        let field = self.fields.get(parent)?["fields"].get(sub)?;
        Some((field, parent))
    }

    /// The type of a field.
    pub(super) fn kind(&self, name: &str) -> Option<&str> {
        self.field(name)?.0["type"].as_str()
    }

    /// The values of a field as they are indexed.
    pub(super) fn terms(&self, source: &Value, name: &str) -> Vec<Value> {
        let Some((field, of)) = self.field(name) else {
            return Vec::new();
        };
        let (mut values, kind) = (Vec::new(), text(&field["type"]));
        source::values(source, of, &mut values);
        values.into_iter().filter_map(|value| term(kind, value)).collect()
    }

    /// Learns the fields of a document.
    ///
    /// # Errors
    /// If a value does not fit the type of its field, or the mapping is strict.
    pub(super) fn learn(&mut self, source: &Value) -> Result<(), Fault> {
        let mut found = Vec::new();
        source::fields(source, "", &mut found);
        let mut learned = BTreeMap::new();
        for (name, value) in found {
            let known = self.fields.get(&name).or_else(|| learned.get(&name)).map(|field| text(&field["type"]));
            let kind = match known {
                Some(kind) => kind,
                None if self.rest.get("dynamic").is_some_and(|dynamic| dynamic == "strict") => {
                    let reason = format!("mapping set to strict, dynamic introduction of [{name}] is not allowed");
                    return Err(Fault::new(400, "strict_dynamic_mapping_exception", reason));
                }
                None if self.rest.get("dynamic").is_some_and(|dynamic| matches!(text(dynamic), "false")) => continue,
                None => learned_kind(value),
            };
            if term(kind, value).is_none() {
                let reason = format!("failed to parse field [{name}] of type [{kind}]: '{value}'");
                return Err(Fault::new(400, "mapper_parsing_exception", reason));
            }
            if !self.fields.contains_key(&name) {
                let field = json!({ "type": kind });
                learned.insert(name, field);
            }
        }
        self.fields.extend(learned);
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("object")
}

/// The fields of `properties`, and of the objects in it.
fn collect(properties: &Value, prefix: &str, into: &mut BTreeMap<String, Value>) {
    for (name, field) in properties.as_object().into_iter().flatten() {
        let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match field.get("type") {
            Some(kind) if *kind != "object" => drop(into.insert(name, field.clone())),
            _ => collect(&field["properties"], &name, into),
        }
    }
}

fn learned_kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "long",
        Value::String(text) if text.len() >= 10 && text.as_bytes()[4] == b'-' && parse_date(text).is_some() => "date",
        _ => "keyword",
    }
}

/// A value as a field of this type indexes it: dates as milliseconds. `None`: it cannot.
pub(super) fn term(kind: &str, value: &Value) -> Option<Value> {
    match (kind, value) {
        ("date" | "date_nanos", Value::Number(number)) => number.as_i64().map(Value::from),
        ("date" | "date_nanos", Value::String(text)) => parse_date(text).map(|at| at.0.into()),
        ("long" | "integer" | "short" | "byte", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().filter(|n| n.abs() < 9e18).map(|n| n as i64)).map(Value::from)
        }
        ("long" | "integer" | "short" | "byte", Value::String(text)) => {
            text.trim().parse::<i64>().ok().map(Value::from)
        }
        ("float" | "double" | "half_float", Value::Number(number)) => number.as_f64().map(Value::from),
        ("float" | "double" | "half_float", Value::String(text)) => text.trim().parse::<f64>().ok().map(Value::from),
        ("boolean", Value::Bool(_)) => Some(value.clone()),
        ("boolean", Value::String(text)) => text.parse::<bool>().ok().map(Value::from),
        (
            "date" | "date_nanos" | "long" | "integer" | "short" | "byte" | "float" | "double" | "half_float"
            | "boolean",
            _,
        ) => None,
        (_, Value::String(_)) => Some(value.clone()),
        (_, Value::Number(_) | Value::Bool(_)) => Some(value.to_string().into()),
        _ => None,
    }
}

/// The order of two terms of one field.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return a.cmp(&b);
    }
    if let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) {
        return a.total_cmp(&b);
    }
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

/// FNV-1a: the same in every run.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
