//! Aggregations over found documents.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use spinney::time::{Millis, format_date};

use super::fault::Fault;
use super::mapping::{compare, hash, term};
use super::query::{Found, matches};

/// The results of some aggregations by their names.
pub(super) fn aggregate(aggs: &Value, found: &[Found<'_>]) -> Result<Value, Fault> {
    let mut results = Map::new();
    for (name, agg) in aggs.as_object().into_iter().flatten() {
        let subs = agg.get("aggs").or_else(|| agg.get("aggregations"));
        let mut kinds = agg.as_object().into_iter().flatten();
        let kind = kinds.find(|(key, _)| !matches!(&***key, "aggs" | "aggregations" | "meta"));
        let (kind, of) = kind.ok_or_else(|| Fault::bad(format!("Missing definition for aggregation [{name}]")))?;
        let result = match &**kind {
            "terms" => terms(of, subs, found)?,
            "composite" => composite(of, subs, found)?,
            "filter" => {
                let mut inside = Vec::new();
                for found in found {
                    if matches(of, found)? {
                        inside.push(*found);
                    }
                }
                bucket(json!({}), subs, &inside)?
            }
            "global" => return Err(Fault::unknown("aggregation [global]")),
            kind => metric(kind, of, found)?,
        };
        results.insert(name.clone(), result);
    }
    Ok(results.into())
}

fn field(of: &Value) -> Result<&str, Fault> {
    of["field"].as_str().ok_or_else(|| Fault::bad("Required one of fields [field, script]"))
}

fn metric(kind: &str, of: &Value, found: &[Found<'_>]) -> Result<Value, Fault> {
    let field = field(of)?;
    let terms: Vec<Value> = found.iter().flat_map(|found| found.terms(field)).collect();
    let numbers: Vec<f64> = terms.iter().filter_map(Value::as_f64).collect();
    let value = match kind {
        "value_count" => return Ok(json!({"value": terms.len()})),
        "cardinality" => {
            let different: BTreeMap<String, ()> = terms.iter().map(|term| (term.to_string(), ())).collect();
            return Ok(json!({"value": different.len()}));
        }
        "max" => numbers.iter().copied().reduce(f64::max),
        "min" => numbers.iter().copied().reduce(f64::min),
        "sum" => Some(numbers.iter().sum()),
        "avg" => (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64),
        _ => return Err(Fault::unknown(format!("Unknown aggregation type [{kind}]"))),
    };
    let mut result = json!({ "value": value });
    if let Some(value) = value.filter(|_| is_date(field, found)) {
        result["value_as_string"] = format_date(Millis(value as i64)).into();
    }
    Ok(result)
}

fn is_date(field: &str, found: &[Found<'_>]) -> bool {
    found.iter().any(|found| found.kind(field) == Some("date"))
}

fn bucket(key: Value, subs: Option<&Value>, found: &[Found<'_>]) -> Result<Value, Fault> {
    let mut bucket = key;
    bucket["doc_count"] = found.len().into();
    if let Some(subs) = subs
        && let (Some(bucket), Value::Object(results)) = (bucket.as_object_mut(), aggregate(subs, found)?)
    {
        bucket.extend(results);
    }
    Ok(bucket)
}

/// Documents by the value of a field.
fn by_term<'a>(field: &str, found: &[Found<'a>]) -> Vec<(Value, Vec<Found<'a>>)> {
    let mut groups: BTreeMap<String, (Value, Vec<Found<'a>>)> = BTreeMap::new();
    for found in found {
        let mut terms = found.terms(field);
        terms.sort_by(compare);
        terms.dedup();
        for term in terms {
            groups.entry(term.to_string()).or_insert_with(|| (term, Vec::new())).1.push(*found);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|(a, _), (b, _)| compare(a, b));
    groups
}

fn terms(of: &Value, subs: Option<&Value>, found: &[Found<'_>]) -> Result<Value, Fault> {
    let field = field(of)?;
    let (size, least) = (of["size"].as_u64().unwrap_or(10), of["min_doc_count"].as_u64().unwrap_or(1));
    let (include, is_date) = (&of["include"], is_date(field, found));
    let kind = found.iter().find_map(|found| found.kind(field)).unwrap_or("keyword");
    let is_included = |key: &Value| match include {
        Value::Null => true,
        Value::Array(keys) => keys.iter().filter_map(|wanted| term(kind, wanted)).any(|wanted| wanted == *key),
        of => {
            let (partition, of) = (of["partition"].as_u64(), of["num_partitions"].as_u64());
            of.is_none_or(|of| Some(hash(&key.to_string()) % of.max(1)) == partition)
        }
    };
    let mut buckets = Vec::new();
    for (key, inside) in by_term(field, found) {
        if inside.len() as u64 >= least && is_included(&key) {
            let mut named = json!({ "key": key });
            if let Some(at) = key.as_i64().filter(|_| is_date) {
                named["key_as_string"] = format_date(Millis(at)).into();
            }
            buckets.push(bucket(named, subs, &inside)?);
        }
    }
    let orders = match &of["order"] {
        Value::Null => vec![("_count".to_owned(), true)],
        Value::Array(all) => all.iter().flat_map(order_of).collect(),
        one => order_of(one),
    };
    // By key they are in order already.
    buckets.sort_by(|a, b| {
        let each = orders.iter().map(|(by, is_descending)| {
            let order = match &**by {
                "_count" => compare(&a["doc_count"], &b["doc_count"]),
                "_key" | "_term" => compare(&a["key"], &b["key"]),
                metric => {
                    let metric = metric.strip_suffix(".value").unwrap_or(metric);
                    compare(&a[metric]["value"], &b[metric]["value"])
                }
            };
            if *is_descending { order.reverse() } else { order }
        });
        each.fold(Ordering::Equal, Ordering::then)
    });
    let others: u64 = buckets.iter().skip(size as usize).filter_map(|bucket| bucket["doc_count"].as_u64()).sum();
    buckets.truncate(size as usize);
    Ok(json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": others, "buckets": buckets}))
}

fn order_of(order: &Value) -> Vec<(String, bool)> {
    let members = order.as_object().into_iter().flatten();
    members.map(|(by, way)| (by.clone(), way == "desc")).collect()
}

fn composite(of: &Value, subs: Option<&Value>, found: &[Found<'_>]) -> Result<Value, Fault> {
    let size = of["size"].as_u64().unwrap_or(10) as usize;
    let mut sources = Vec::new();
    for source in of["sources"].as_array().into_iter().flatten() {
        for (name, source) in source.as_object().into_iter().flatten() {
            let terms = source.get("terms").ok_or_else(|| Fault::unknown("composite source other than terms"))?;
            sources.push((name.as_str(), field(terms)?, terms["order"] == "desc"));
        }
    }
    let mut groups = vec![(Vec::new(), found.to_vec())];
    for (_, field, _) in &sources {
        groups = groups
            .into_iter()
            .flat_map(|(keys, inside): (Vec<Value>, Vec<Found<'_>>)| {
                let parts = by_term(field, &inside).into_iter();
                parts.map(|(key, inside)| ([keys.clone(), vec![key]].concat(), inside)).collect::<Vec<_>>()
            })
            .collect();
    }
    let order = |a: &[Value], b: &[Value]| {
        let each = sources.iter().zip(a.iter().zip(b)).map(
            |((_, _, is_descending), (a, b))| {
                if *is_descending { compare(b, a) } else { compare(a, b) }
            },
        );
        each.fold(Ordering::Equal, Ordering::then)
    };
    groups.sort_by(|(a, _), (b, _)| order(a, b));
    if let Some(after) = of["after"].as_object() {
        let after: Vec<Value> =
            sources.iter().map(|(name, _, _)| after.get(*name).cloned().unwrap_or_default()).collect();
        groups.retain(|(keys, _)| order(keys, &after).is_gt());
    }
    groups.truncate(size);
    let named = |keys: &[Value]| -> Value {
        let members = sources.iter().zip(keys).map(|((name, _, _), key)| ((*name).to_owned(), key.clone()));
        Value::Object(members.collect())
    };
    let mut result = json!({});
    if let Some((keys, _)) = groups.last() {
        result["after_key"] = named(keys);
    }
    let buckets: Result<Vec<Value>, Fault> =
        groups.iter().map(|(keys, inside)| bucket(json!({"key": named(keys)}), subs, inside)).collect();
    result["buckets"] = buckets?.into();
    Ok(result)
}
