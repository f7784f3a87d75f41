//! A small search cluster as a state machine: no time, no chance and no thread of its own.
//!
//! Each index has one shard. Strings without a mapping are learned as `keyword`. Documents are realtime by id; searches
//! and points in time see what was refreshed.

mod admin;
mod aggregations;
mod fault;
mod index;
mod mapping;
mod names;
mod points;
#[cfg(test)]
mod query;
mod search;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use fault::{Fault, Reply};
use index::Index;
use points::Point;

/// The cluster.
pub(crate) struct SimCluster {
    indices: BTreeMap<String, Index>,
    /// By alias: its indices, and whether each is the one that is written to.
    aliases: BTreeMap<String, BTreeMap<String, bool>>,
    /// Index templates and component templates.
    templates: BTreeMap<String, Value>,
    components: BTreeMap<String, Value>,
    points: BTreeMap<String, Point>,
    /// Ids that were given.
    numbers: u64,
    /// Whether points in time are those of OpenSearch.
    pub(crate) opensearch: bool,
    /// What was asked for and is not modelled.
    pub(crate) unknown: Vec<String>,
}

/// An answer.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// What is to happen to one item of a write, by index and id. `None`: it is done; otherwise nothing is stored, and this
/// is its status.
pub(crate) type Refuse<'a> = &'a mut dyn FnMut(&str, &str) -> Option<u16>;

/// A request.
struct Request<'a> {
    now: i64,
    method: &'a str,
    segments: Vec<String>,
    query: BTreeMap<String, String>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(now: i64, method: &'a str, target: &str, body: &'a [u8]) -> Request<'a> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let segments = segments.map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned());
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Request { now, method, segments: segments.collect(), query, body }
    }

    /// Whether a parameter is there and not `false`.
    fn flag(&self, name: &str) -> bool {
        self.query.get(name).is_some_and(|value| value != "false")
    }

    /// The body; an object without members if there is none.
    fn json(&self) -> Result<Value, Fault> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(json!({}));
        }
        source::parse(self.body).map_err(|reason| Fault::new(400, "parsing_exception", reason))
    }
}

impl SimCluster {
    /// A cluster without an index, in which the templates of spinney are installed.
    pub(crate) fn new() -> SimCluster {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let stamp = json!({"index_patterns": ["*"], "priority": 0, "composed_of": ["spinney-stamp"]});
        let roots = parse(spinney::parts::COUNT_TEMPLATE);
        SimCluster {
            indices: BTreeMap::new(),
            aliases: BTreeMap::new(),
            templates: [("spinney-stamp".to_owned(), stamp), ("spinney-roots".to_owned(), roots)].into(),
            components: [("spinney-stamp".to_owned(), parse(spinney::parts::STAMP_TEMPLATE))].into(),
            points: BTreeMap::new(),
            numbers: 0,
            opensearch: false,
            unknown: Vec::new(),
        }
    }

    /// Answers a request at `now`, in milliseconds.
    pub(crate) fn answer(&mut self, now: i64, method: &str, target: &str, body: &[u8], refuse: Refuse<'_>) -> Answered {
        self.points.retain(|_, point| point.expires > now);
        let request = Request::new(now, method, target, body);
        let (status, mut answer) = self.route(&request, refuse).unwrap_or_else(|fault| {
            if fault.is_unknown {
                self.unknown.push(format!("{method} {target}: {}", fault.reason));
            }
            (fault.status, fault.answer())
        });
        if let Some(filter) = request.query.get("filter_path") {
            answer = source::filtered(&answer, filter);
        }
        let body = if method == "HEAD" { Vec::new() } else { answer.to_string().into_bytes() };
        Answered { status, body }
    }

    /// Shows searches everything that was written until `until`.
    pub(crate) fn refresh(&mut self, until: i64) {
        self.indices.values_mut().for_each(|index| index.refresh(until));
    }

    /// Open points in time.
    pub(crate) fn points(&self) -> usize {
        self.points.len()
    }

    /// Lets all points in time expire.
    pub(crate) fn lose_points(&mut self) {
        self.points.clear();
    }

    /// The documents of an index by id: source and sequence number.
    pub(crate) fn stored(&self, index: &str) -> BTreeMap<String, (Value, u64)> {
        self.indices.get(index).map(Index::stored).unwrap_or_default()
    }

    /// The names of all indices.
    pub(crate) fn indices(&self) -> Vec<String> {
        self.indices.keys().cloned().collect()
    }

    /// Creates an index; that there is one already is fine.
    pub(crate) fn create_index(&mut self, name: &str) {
        let _ = self.make(name, &Value::Null);
    }

    fn route(&mut self, request: &Request<'_>, refuse: Refuse<'_>) -> Reply {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let done = |answer: Value| Ok((200, answer));
        let acknowledged = || done(json!({"acknowledged": true}));
        match (request.method, &*segments) {
            ("GET" | "HEAD", []) => done(self.banner()),
            ("GET", ["_cluster", "health", ..]) => done(json!({
                "cluster_name": "simulated", "status": "green", "timed_out": false, "number_of_nodes": 1,
                "number_of_data_nodes": 1, "active_shards": self.indices.len(),
            })),
            ("GET", ["_nodes", .., "http"]) => done(self.nodes()),
            ("GET", ["_resolve", "index", names]) => done(self.resolved(request, names)?),
            ("GET", ["_alias", name]) => done(self.aliases_named(name)?),
            ("PUT" | "POST", [index, "_alias" | "_aliases", alias]) => {
                self.add_alias(request, index, alias, &request.json()?)?;
                acknowledged()
            }
            ("PUT" | "POST", ["_component_template", name]) => {
                self.components.insert((*name).to_owned(), request.json()?);
                acknowledged()
            }
            ("PUT" | "POST", ["_index_template", name]) => {
                self.templates.insert((*name).to_owned(), request.json()?);
                acknowledged()
            }
            ("DELETE", ["_index_template", name]) => {
                self.templates.remove(*name);
                acknowledged()
            }
            ("POST" | "PUT", ["_bulk"]) => self.bulk(request, None, refuse),
            ("POST" | "PUT", [index, "_bulk"]) => self.bulk(request, Some(index), refuse),
            ("GET" | "POST", ["_mget"]) => self.multi_get(request, None),
            ("GET" | "POST", [index, "_mget"]) => self.multi_get(request, Some(index)),
            ("GET" | "POST", ["_search"]) => self.search(request, None),
            ("GET" | "POST", ["_count"]) => self.count(request, ""),
            ("GET" | "POST", ["_refresh"]) => self.refresh_some(request, ""),
            ("POST", [names, "_pit"]) if !self.opensearch => self.open_point(request, names),
            ("DELETE", ["_pit"]) if !self.opensearch => self.close_points(request),
            ("POST", [names, "_search", "point_in_time"]) if self.opensearch => self.open_point(request, names),
            ("DELETE", ["_search", "point_in_time"]) if self.opensearch => self.close_points(request),
            // The product tries the path of the other one.
            (_, [_, "_pit"] | [_, "_search", "point_in_time"]) => Err(no_handler(request, false)),
            (method, [names, api, ..]) if !names.starts_with('_') || *names == "_all" => {
                self.route_index(request, method, (names, api, segments.get(2).copied()), refuse)
            }
            ("PUT", [index]) if !index.starts_with('_') => self.put_index(request, index),
            ("DELETE", [names]) if !names.starts_with('_') => self.delete_index(request, names),
            ("GET" | "HEAD", [names]) if !names.starts_with('_') => self.mappings(request, names),
            _ => Err(no_handler(request, true)),
        }
    }

    fn route_index(
        &mut self,
        request: &Request<'_>,
        method: &str,
        (names, api, id): (&str, &str, Option<&str>),
        refuse: Refuse<'_>,
    ) -> Reply {
        if request.segments.len() > 3 {
            return Err(no_handler(request, true));
        }
        match (method, api, id) {
            ("GET" | "POST", "_search", None) => self.search(request, Some(names)),
            ("GET" | "POST", "_count", None) => self.count(request, names),
            ("GET" | "POST", "_refresh", None) => self.refresh_some(request, names),
            ("GET", "_settings", _) => self.settings(request, names),
            ("PUT", "_settings", None) => self.put_settings(request, names),
            ("GET", "_mapping", None) => self.mappings(request, names),
            ("PUT" | "POST", "_mapping", None) => self.put_mapping(request, names),
            ("GET" | "POST", "_field_caps", None) => self.field_caps(request, names),
            ("POST", "_delete_by_query", None) => self.delete_by_query(request, names),
            ("GET" | "HEAD", "_doc", Some(id)) => self.document(request, names, id),
            ("PUT" | "POST", "_doc", Some(id)) => self.single(request, "index", (names, Some(id)), refuse),
            ("POST", "_doc", None) => self.single(request, "index", (names, None), refuse),
            ("PUT" | "POST", "_create", Some(id)) => self.single(request, "create", (names, Some(id)), refuse),
            ("POST", "_update", Some(id)) => self.single(request, "update", (names, Some(id)), refuse),
            ("DELETE", "_doc", Some(id)) => self.single(request, "delete", (names, Some(id)), refuse),
            _ => Err(no_handler(request, true)),
        }
    }
}

fn no_handler(request: &Request<'_>, is_unknown: bool) -> Fault {
    let path = request.segments.join("/");
    let reason = format!("no handler found for uri [/{path}] and method [{}]", request.method);
    Fault { is_unknown, ..Fault::new(400, "illegal_argument_exception", reason) }
}
