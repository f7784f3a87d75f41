//! Searches: indices as they were refreshed, or a point in time.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};
use spinney::time::{Millis, format_date};

use super::aggregations::aggregate;
use super::fault::{Fault, Reply};
use super::index::View;
use super::mapping::{compare, hash, term};
use super::query::{Found, check, kind_in, matches};
use super::{Request, SimCluster, source};

/// What searches return at most.
const WINDOW: usize = 10_000;

/// One key of the order.
struct SortKey {
    field: String,
    is_descending: bool,
    is_missing_first: bool,
    /// The value of documents without one.
    missing: Option<Value>,
    unmapped: Option<String>,
}

impl SortKey {
    fn parse(value: &Value) -> Result<SortKey, Fault> {
        let (field, of) = match value {
            Value::String(field) => (field.clone(), Value::Null),
            Value::Object(members) => match members.iter().next() {
                Some((field, Value::String(order))) => (field.clone(), json!({ "order": order })),
                Some((field, of)) => (field.clone(), of.clone()),
                None => return Err(Fault::bad("malformed sort")),
            },
            _ => return Err(Fault::bad("malformed sort")),
        };
        let known = ["order", "missing", "unmapped_type", "numeric_type", "format"];
        if let Some((key, _)) = of.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(Fault::unknown(format!("sort option [{key}]")));
        }
        let order = of["order"].as_str().unwrap_or(if field == "_score" { "desc" } else { "asc" });
        let missing = of["missing"].as_str().unwrap_or("_last");
        Ok(SortKey {
            is_descending: order == "desc",
            is_missing_first: missing == "_first",
            missing: of.get("missing").filter(|missing| missing.is_number()).cloned(),
            unmapped: of["unmapped_type"].as_str().map(str::to_owned),
            field,
        })
    }

    fn is_place(&self) -> bool {
        matches!(&*self.field, "_shard_doc" | "_doc")
    }

    fn kind<'a>(&'a self, found: &Found<'a>) -> &'a str {
        let mapped = kind_in(found.mapping, &self.field);
        mapped.or(self.unmapped.as_deref()).unwrap_or("keyword")
    }

    /// The sort value of a document.
    fn value(&self, found: &Found<'_>) -> Value {
        if self.is_place() {
            return found.place.into();
        }
        if self.field == "_score" {
            return json!(1.0);
        }
        let terms = found.terms(&self.field);
        let value = match self.is_descending {
            true => terms.into_iter().max_by(compare),
            false => terms.into_iter().min_by(compare),
        };
        // A boolean is sorted as a number.
        let value = value.map(|value| value.as_bool().map_or(value, |is_so| u8::from(is_so).into()));
        value.or_else(|| self.missing.clone()).unwrap_or_else(|| match self.kind(found) {
            "date" | "date_nanos" | "long" | "integer" | "short" | "byte" => {
                // The extreme that comes first or last in this order.
                json!(if self.is_missing_first == self.is_descending { i64::MAX } else { i64::MIN })
            }
            _ => Value::Null,
        })
    }

    fn order(&self, a: &Value, b: &Value) -> Ordering {
        match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.is_missing_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) => self.order(b, a).reverse(),
            (false, false) if self.is_descending => compare(b, a),
            (false, false) => compare(a, b),
        }
    }
}

fn order(keys: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    let orders = keys.iter().zip(a.iter().zip(b)).map(|(key, (a, b))| key.order(a, b));
    orders.fold(Ordering::Equal, Ordering::then)
}

const KNOWN: [&str; 22] = [
    "size",
    "from",
    "query",
    "sort",
    "search_after",
    "slice",
    "_source",
    "stored_fields",
    "docvalue_fields",
    "seq_no_primary_term",
    "version",
    "track_total_hits",
    "aggs",
    "aggregations",
    "pit",
    "collapse",
    "timeout",
    "terminate_after",
    "profile",
    "track_scores",
    "runtime_mappings",
    "fields",
];

impl SimCluster {
    /// A search; `expression`: the indices of the path.
    pub(super) fn search(&mut self, request: &Request<'_>, expression: Option<&str>) -> Reply {
        let mut body = request.json()?;
        for name in ["size", "from"] {
            if let Some(value) = request.query.get(name) {
                body[name] = value.parse::<u64>().map_err(|_| Fault::bad(name))?.into();
            }
        }
        let unknown = body.as_object().into_iter().flatten().find(|(key, _)| !KNOWN.contains(&key.as_str()));
        if let Some((key, _)) = unknown {
            return Err(Fault::unknown(format!("Unknown key for a search: [{key}]")));
        }
        let pit = body.get("pit");
        let views = match pit {
            Some(_) if expression.is_some() => return Err(Fault::bad("[indices] cannot be used with point in time")),
            Some(pit) => self.point(request.now, pit)?,
            None => self.views(request, expression.unwrap_or_default())?,
        };
        let mut answer = self.found(request, &body, &views)?;
        if let Some(pit) = pit {
            answer["pit_id"] = pit["id"].clone();
        }
        Ok((200, answer))
    }

    /// What searches see of some indices.
    pub(super) fn views(&self, request: &Request<'_>, expression: &str) -> Result<BTreeMap<String, View>, Fault> {
        let names = self.resolve(request, expression)?.into_iter();
        Ok(names.map(|name| (name.clone(), self.indices[&name].view())).collect())
    }

    /// The documents of some views that a query finds, in the order of their places.
    pub(super) fn find<'a>(
        &'a self,
        views: &'a BTreeMap<String, View>,
        query: Option<&Value>,
    ) -> Result<Vec<Found<'a>>, Fault> {
        query.map_or(Ok(()), check)?;
        let mut all = Vec::new();
        for (at, (index, view)) in views.iter().enumerate() {
            let Some(mapping) = self.indices.get(index).map(|index| &index.mapping) else {
                continue;
            };
            for (id, doc) in view.iter() {
                let place = (at as u64) << 32 | doc.seq_no;
                let found = Found { index, mapping, id, doc, place };
                if query.map_or(Ok(true), |query| matches(query, &found))? {
                    all.push(found);
                }
            }
        }
        all.sort_by_key(|found| found.place);
        Ok(all)
    }

    fn found(&self, request: &Request<'_>, body: &Value, views: &BTreeMap<String, View>) -> Result<Value, Fault> {
        let size = body["size"].as_u64().map_or(10, |size| size as usize);
        let from = body["from"].as_u64().map_or(0, |from| from as usize);
        if size + from > WINDOW {
            return Err(Fault::bad("Result window is too large, from + size must be less than or equal to: [10000]"));
        }
        let mut found = self.find(views, body.get("query"))?;
        if let (Some(slice), Some(of)) = (body["slice"]["id"].as_u64(), body["slice"]["max"].as_u64()) {
            if slice >= of {
                return Err(Fault::bad("max must be greater than id"));
            }
            found.retain(|found| hash(found.id) % of == slice);
        }
        let shards = views.len();
        let mut answer = json!({
            "took": 1, "timed_out": false,
            "_shards": {"total": shards, "successful": shards, "skipped": 0, "failed": 0},
            "hits": {"max_score": null, "hits": []},
        });
        let most = match &body["track_total_hits"] {
            Value::Bool(false) => None,
            Value::Bool(true) => Some(u64::MAX),
            Value::Number(most) => most.as_u64(),
            _ => Some(WINDOW as u64),
        };
        if let Some(most) = most {
            let total = found.len() as u64;
            let relation = if total > most { "gte" } else { "eq" };
            answer["hits"]["total"] = json!({"value": total.min(most), "relation": relation});
        }
        // Without a shard there is no aggregation either.
        if let Some(aggs) = body.get("aggs").or_else(|| body.get("aggregations"))
            && shards > 0
        {
            answer["aggregations"] = aggregate(aggs, &found)?;
        }
        if body["profile"] == true {
            let of = views.keys().map(|index| json!({"id": format!("[node-1][{index}][0]"), "searches": []}));
            answer["profile"] = json!({"shards": of.collect::<Vec<_>>()});
        }
        let keys = self.sort_keys(body, views)?;
        let mut sorted: Vec<(Vec<Value>, Found<'_>)> =
            found.into_iter().map(|found| (keys.iter().map(|key| key.value(&found)).collect(), found)).collect();
        sorted.sort_by(|(a, _), (b, _)| order(&keys, a, b));
        if let Some(after) = body["search_after"].as_array() {
            let has_tie = keys.len() == after.len() + 1 && keys.last().is_some_and(|key| key.field == "_shard_doc");
            if after.len() != keys.len() && !has_tie {
                return Err(Fault::bad("search_after has another number of values than sort"));
            }
            sorted.retain(|(values, found)| {
                let after = after.iter().zip(&keys).map(|(value, key)| {
                    let as_place = key.is_place() || key.field == "_score" || value.is_null();
                    if as_place { value.clone() } else { term(key.kind(found), value).unwrap_or(Value::Null) }
                });
                order(&keys, values, &after.collect::<Vec<_>>()).is_gt()
            });
        }
        let collapsed = body["collapse"]["field"].as_str();
        if let Some(field) = collapsed {
            let filters_shards = request.query.contains_key("pre_filter_shard_size");
            let is_searched = |index: &str| !filters_shards || sorted.iter().any(|(_, found)| found.index == index);
            let lacks = |index: &&String| is_searched(index) && kind_in(&self.indices[*index].mapping, field).is_none();
            if views.keys().any(|index| lacks(&index)) {
                return Err(Fault::bad(format!("no mapping found for `{field}` in order to collapse on")));
            }
            let mut seen = HashSet::new();
            sorted.retain(|(_, found)| seen.insert(found.terms(field).first().map(Value::to_string)));
        }
        let is_sorted = body.get("sort").is_some();
        let page = sorted.into_iter().skip(from).take(size);
        let hits = page.map(|(sort, found)| hit(body, &found, is_sorted.then_some(sort), collapsed));
        answer["hits"]["hits"] = hits.collect::<Vec<_>>().into();
        Ok(answer)
    }

    /// The order that a search asks for.
    fn sort_keys(&self, body: &Value, views: &BTreeMap<String, View>) -> Result<Vec<SortKey>, Fault> {
        let keys = match &body["sort"] {
            Value::Null => Vec::new(),
            Value::Array(keys) => keys.iter().map(SortKey::parse).collect::<Result<_, _>>()?,
            one => vec![SortKey::parse(one)?],
        };
        let has_point = body.get("pit").is_some();
        let mut with_tie = keys;
        if has_point
            && !self.opensearch
            && !with_tie.is_empty()
            && !with_tie.iter().any(|key| key.field == "_shard_doc")
        {
            with_tie.push(SortKey::parse(&json!("_shard_doc"))?);
        }
        for key in &with_tie {
            let no_mapping = || {
                let reason = format!("No mapping found for [{}] in order to sort on", key.field);
                Fault::new(400, "query_shard_exception", reason)
            };
            match &*key.field {
                "_shard_doc" if self.opensearch => return Err(no_mapping()),
                "_shard_doc" if !has_point => {
                    return Err(Fault::bad("[_shard_doc] sort field cannot be used without [point in time]"));
                }
                "_score" | "_doc" | "_shard_doc" => {}
                field if key.unmapped.is_none() => {
                    let mut mappings = views.keys().filter_map(|index| self.indices.get(index)).map(|of| &of.mapping);
                    if mappings.any(|mapping| kind_in(mapping, field).is_none()) {
                        return Err(no_mapping());
                    }
                }
                _ => {}
            }
        }
        Ok(with_tie)
    }
}

fn hit(body: &Value, found: &Found<'_>, sort: Option<Vec<Value>>, collapsed: Option<&str>) -> Value {
    let mut hit = json!({"_index": found.index});
    let has_stored = body["stored_fields"] != "_none_";
    if has_stored {
        hit["_id"] = found.id.into();
    }
    if body["version"] == true {
        hit["_version"] = found.doc.version.into();
    }
    if body["seq_no_primary_term"] == true {
        (hit["_seq_no"], hit["_primary_term"]) = (found.doc.seq_no.into(), 1.into());
    }
    hit["_score"] = if sort.is_some() { Value::Null } else { json!(1.0) };
    if let Some(routing) = found.doc.routing.as_ref().filter(|_| has_stored) {
        hit["_routing"] = routing.as_str().into();
    }
    if let Some(source) = source_part(&found.doc.source, &body["_source"]).filter(|_| has_stored) {
        hit["_source"] = source;
    }
    let mut fields = Map::new();
    let wanted = body["docvalue_fields"].as_array().into_iter().flatten();
    let wanted = wanted.filter_map(|field| field.as_str().or_else(|| field["field"].as_str()));
    for field in wanted.chain(collapsed) {
        let (mut terms, is_date) = (found.terms(field), found.kind(field) == Some("date"));
        if is_date && collapsed != Some(field) {
            terms = terms.iter().filter_map(Value::as_i64).map(|at| format_date(Millis(at)).into()).collect();
        }
        if !terms.is_empty() {
            fields.insert(field.to_owned(), terms.into());
        }
    }
    if !fields.is_empty() {
        hit["fields"] = fields.into();
    }
    if let Some(sort) = sort {
        hit["sort"] = sort.into();
    }
    hit
}

/// The part of a source that `_source` asks for.
pub(super) fn source_part(source: &Value, wanted: &Value) -> Option<Value> {
    let list = |value: &'_ Value| -> Vec<String> {
        match value {
            Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Value::String(names) => names.split(',').map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    };
    let (included, excluded) = match wanted {
        Value::Bool(false) => return None,
        Value::Null | Value::Bool(true) => return Some(source.clone()),
        Value::Object(of) => {
            let member = |names: [&str; 2]| names.iter().find_map(|name| of.get(*name)).map(list).unwrap_or_default();
            (member(["includes", "include"]), member(["excludes", "exclude"]))
        }
        names => (list(names), Vec::new()),
    };
    let [included, excluded] = [&included, &excluded].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    Some(source::shown(source, &included, &excluded))
}
