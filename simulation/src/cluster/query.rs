//! Queries over the fields of one document.

use serde_json::{Value, json};
use spinney::forest::index_pattern::fits;

use super::fault::Fault;
use super::index::Doc;
use super::mapping::{Mapping, compare, term};

/// A document as a search sees it.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) index: &'a str,
    pub(super) mapping: &'a Mapping,
    pub(super) id: &'a str,
    pub(super) doc: &'a Doc,
    /// Its place among all shards.
    pub(super) place: u64,
}

impl Found<'_> {
    /// The values of a field as they are indexed.
    pub(super) fn terms(&self, field: &str) -> Vec<Value> {
        match field {
            "_index" => vec![self.index.into()],
            "_id" => vec![self.id.into()],
            "_seq_no" => vec![self.doc.seq_no.into()],
            "_routing" => self.doc.routing.iter().map(|routing| routing.as_str().into()).collect(),
            _ => self.mapping.terms(&self.doc.source, field),
        }
    }

    /// The type of a field; `None`: it is not mapped.
    pub(super) fn kind(&self, field: &str) -> Option<&str> {
        kind_in(self.mapping, field)
    }
}

/// The type of a field; `None`: it is not mapped.
pub(super) fn kind_in<'m>(mapping: &'m Mapping, field: &str) -> Option<&'m str> {
    match field {
        "_index" | "_id" | "_routing" => Some("keyword"),
        "_seq_no" => Some("long"),
        _ => mapping.kind(field),
    }
}

fn many(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    }
}

/// The only member of an object.
fn only(query: &Value) -> Result<(&str, &Value), Fault> {
    let mut members = query.as_object().into_iter().flatten();
    let first =
        members.next().ok_or_else(|| Fault::new(400, "parsing_exception", "query malformed, empty clause found"))?;
    match members.next() {
        None => Ok((first.0, first.1)),
        Some((key, _)) => Err(Fault::new(400, "parsing_exception", format!("malformed query, unexpected [{key}]"))),
    }
}

/// The field of a query and what is said of it; `boost` and such are passed over.
fn of_field(query: &Value) -> Result<(&str, &Value), Fault> {
    let mut members = query.as_object().into_iter().flatten();
    let found = members.find(|(key, _)| !matches!(&***key, "boost" | "_name"));
    found.map(|(key, value)| (key.as_str(), value)).ok_or_else(|| Fault::new(400, "parsing_exception", "no field"))
}

/// Whether a query finds a document.
///
/// # Errors
/// If the servers refuse it, or it is none that is modelled.
pub(super) fn matches(query: &Value, found: &Found<'_>) -> Result<bool, Fault> {
    let (kind, of) = only(query)?;
    match kind {
        "match_all" => Ok(true),
        "match_none" => Ok(false),
        "bool" => of_bool(of, found),
        "constant_score" => matches(&of["filter"], found),
        "function_score" => of.get("query").map_or(Ok(true), |query| matches(query, found)),
        "term" => {
            let (field, value) = of_field(of)?;
            is_any(found, field, &[value.get("value").unwrap_or(value)])
        }
        "terms" => {
            let (field, values) = of_field(of)?;
            is_any(found, field, &many(values))
        }
        "ids" => Ok(many(&of["values"]).iter().any(|id| **id == found.id)),
        "exists" => {
            let field = of["field"].as_str().unwrap_or_default();
            let below = format!("{field}.");
            let mut names = found.mapping.names().filter(|name| name.starts_with(&below));
            Ok(!found.terms(field).is_empty() || names.any(|name| !found.terms(name).is_empty()))
        }
        "range" => {
            let (field, range) = of_field(of)?;
            in_range(found, field, range)
        }
        "prefix" | "wildcard" => {
            let (field, value) = of_field(of)?;
            let text = value.get("value").or_else(|| value.get("wildcard")).unwrap_or(value);
            let text = text.as_str().unwrap_or_default();
            let pattern = if kind == "prefix" { format!("{text}*") } else { text.to_owned() };
            Ok(found.terms(field).iter().filter_map(Value::as_str).any(|term| fits(&pattern, term)))
        }
        _ => Err(Fault::unknown(format!("unknown query [{kind}]"))),
    }
}

fn of_bool(of: &Value, found: &Found<'_>) -> Result<bool, Fault> {
    let known = ["filter", "must", "must_not", "should", "minimum_should_match", "boost", "_name"];
    let unknown = of.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&key.as_str()));
    if let Some((key, _)) = unknown {
        return Err(Fault::new(400, "parsing_exception", format!("[bool] query does not support [{key}]")));
    }
    // All clauses are looked at: a wrong one is refused however many documents there are.
    let mut is_found = true;
    for query in many(&of["filter"]).into_iter().chain(many(&of["must"])) {
        is_found &= matches(query, found)?;
    }
    for query in many(&of["must_not"]) {
        is_found &= !matches(query, found)?;
    }
    let (should, mut matching) = (many(&of["should"]), 0);
    for query in &should {
        matching += u64::from(matches(query, found)?);
    }
    let has_others = !many(&of["filter"]).is_empty() || !many(&of["must"]).is_empty();
    let least = of["minimum_should_match"].as_u64().unwrap_or(u64::from(!should.is_empty() && !has_others));
    Ok(is_found && matching >= least)
}

fn is_any(found: &Found<'_>, field: &str, values: &[&Value]) -> Result<bool, Fault> {
    let Some(kind) = found.kind(field) else {
        return Ok(false);
    };
    let (terms, mut is_there) = (found.terms(field), false);
    for value in values {
        let wanted = term(kind, value);
        let wanted = wanted.ok_or_else(|| query_fault(format!("failed to create query: [{value}] for [{field}]")))?;
        is_there |= terms.iter().any(|term| compare(term, &wanted).is_eq());
    }
    Ok(is_there)
}

fn in_range(found: &Found<'_>, field: &str, range: &Value) -> Result<bool, Fault> {
    let Some(kind) = found.kind(field) else {
        return Ok(false);
    };
    let mut bounds = Vec::new();
    for (name, bound) in range.as_object().into_iter().flatten() {
        match &**name {
            "gte" | "gt" | "lte" | "lt" => {
                if bound.is_null() {
                    continue;
                }
                let value = term(kind, bound);
                let value = value.ok_or_else(|| query_fault(format!("failed to parse [{bound}] for [{field}]")))?;
                bounds.push((name.as_str(), value));
            }
            "format" | "boost" | "time_zone" => {}
            _ => return Err(Fault::new(400, "parsing_exception", format!("[range] does not support [{name}]"))),
        }
    }
    let holds = |term: &Value| {
        bounds.iter().all(|(name, bound)| {
            let order = compare(term, bound);
            match *name {
                "gte" => order.is_ge(),
                "gt" => order.is_gt(),
                "lte" => order.is_le(),
                _ => order.is_lt(),
            }
        })
    };
    Ok(found.terms(field).iter().any(holds))
}

fn query_fault(reason: String) -> Fault {
    Fault::new(400, "query_shard_exception", reason)
}

/// Checks a query where there is no document.
pub(super) fn check(query: &Value) -> Result<(), Fault> {
    let doc = Doc { source: json!({}), version: 1, seq_no: 0, routing: None };
    let found = Found { index: "", mapping: &Mapping::default(), id: "", doc: &doc, place: 0 };
    matches(query, &found).map(drop)
}
