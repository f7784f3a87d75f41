//! A cluster that is made up: documents with their keys and flags, and what fails.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::index_pattern::fits;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    pub(super) key: i64,
    /// `None`: it was stamped before there was the field.
    pub(super) first: Option<bool>,
    pub(super) arrival: i64,
    pub(super) seq_no: u64,
}

#[derive(Debug, Default)]
pub(super) struct World {
    /// By index and id.
    pub(super) documents: BTreeMap<(String, String), Stored>,
    pub(super) blocked: BTreeSet<String>,
    /// Of the indices that have no usual one.
    pub(super) mappings: Value,
    /// It cannot be searched.
    pub(super) unread: Option<String>,
    /// Its documents take no flag, and nobody is told.
    pub(super) deaf: bool,
    /// Documents that no update is taken for: index and id.
    pub(super) refused: BTreeSet<(String, String)>,
    /// Indices without the stamp's fields, which have no document: a search that names one is refused.
    pub(super) unmapped: BTreeSet<String>,
    /// What searches do not see before a refresh.
    pub(super) late: BTreeMap<(String, String), Stored>,
    /// `index.max_result_window` of each index; 0: the usual one.
    pub(super) window: u64,
    pub(super) written: u64,
}

pub(super) const INDICES: [&str; 3] = ["news-1", "news-2", "wire"];

pub(super) type Answer = Option<(u16, Value)>;

impl World {
    pub(super) fn put(&mut self, index: &str, id: &str, (key, first, arrival): (i64, Option<bool>, i64)) {
        self.documents.insert((index.into(), id.into()), Stored { key, first, arrival, seq_no: 1 });
    }

    pub(super) fn answer(&mut self, method: &str, target: &str, body: &[u8]) -> Answer {
        let path = target.split('?').next().unwrap();
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method, &*segments) {
            ("GET", ["_resolve", "index", pattern]) => {
                let found = INDICES.iter().filter(|index| fits(pattern, index));
                let found = found.map(|index| json!({"name": index, "attributes": ["open"]}));
                Some((200, json!({"indices": found.collect::<Vec<_>>()})))
            }
            ("GET", [names, "_settings"]) => {
                let settings = names.split(',').map(|name| {
                    let is_blocked = self.blocked.contains(name).to_string();
                    let mut settings = json!({"index.blocks.write": is_blocked, "index.refresh_interval": "1s"});
                    if self.window > 0 {
                        settings["index.max_result_window"] = self.window.to_string().into();
                    }
                    (name.to_owned(), json!({ "settings": settings }))
                });
                Some((200, settings.collect::<serde_json::Map<_, _>>().into()))
            }
            ("GET", [names, "_mapping"]) => {
                let usual = json!({"mappings": {"properties": {"cluster_key": {"type": "long"}}}});
                let mut mappings: serde_json::Map<_, _> =
                    names.split(',').map(|name| (name.to_owned(), usual.clone())).collect();
                mappings.retain(|name, _| !self.unmapped.contains(name));
                for (name, other) in self.mappings.as_object().into_iter().flatten() {
                    let mut of = usual["mappings"].clone();
                    for (member, value) in other["mappings"].as_object().into_iter().flatten() {
                        match member.as_str() {
                            "properties" => value.as_object().into_iter().flatten().for_each(|(field, value)| {
                                of["properties"][field] = value.clone();
                            }),
                            _ => of[member] = value.clone(),
                        }
                    }
                    mappings.insert(name.clone(), json!({ "mappings": of }));
                }
                Some((200, mappings.into()))
            }
            ("POST", [_, "_refresh"]) => {
                let late = std::mem::take(&mut self.late);
                self.documents.extend(late);
                Some((200, json!({})))
            }
            ("POST", [names, "_search"]) => {
                let asked: Value = serde_json::from_slice(body).unwrap();
                if names.split(',').any(|name| self.unmapped.contains(name)) {
                    let reason = "no mapping found for `cluster_key` in order to collapse on";
                    return Some((400, json!({"error": {"reason": reason}})));
                }
                if self.window > 0 && asked["size"].as_u64().unwrap() > self.window {
                    return Some((400, json!({"error": {"reason": "Result window is too large"}})));
                }
                if self.unread.as_ref().is_some_and(|unread| names.split(',').any(|name| name == unread)) {
                    return Some((503, json!({"error": {"type": "search_phase_execution_exception"}})));
                }
                Some((200, self.search(&serde_json::from_slice(body).unwrap())))
            }
            ("POST", ["_bulk"]) => Some((200, self.bulk(std::str::from_utf8(body).unwrap()))),
            _ => panic!("{method} {path}"),
        }
    }

    fn fits(name: &(String, String), of: &Stored, filter: &Value) -> bool {
        let (kind, what) = filter.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "bool" => {
                let all = |clause: &str| what[clause].as_array().cloned().unwrap_or_default();
                all("filter").iter().all(|filter| World::fits(name, of, filter))
                    && !all("must_not").iter().any(|filter| World::fits(name, of, filter))
            }
            "terms" if what.get("_index").is_some() => what["_index"].as_array().unwrap().contains(&json!(name.0)),
            "terms" => what["cluster_key"].as_array().unwrap().contains(&json!(of.key)),
            "term" if what.get("_index").is_some() => what["_index"] == name.0.as_str(),
            "term" => of.first == Some(true) && what["cluster_first"] == true,
            "exists" => what["field"] != "cluster_first" || of.first.is_some(),
            "ids" => what["values"].as_array().unwrap().contains(&json!(name.1)),
            "range" => {
                let range = &what["cluster_key"];
                (range["gte"].as_i64().unwrap()..=range["lte"].as_i64().unwrap()).contains(&of.key)
            }
            kind => panic!("{kind}"),
        }
    }

    fn search(&self, body: &Value) -> Value {
        let mut found: Vec<(&(String, String), &Stored)> =
            self.documents.iter().filter(|(name, of)| World::fits(name, of, &body["query"])).collect();
        let missing = &body["sort"][0]["cluster_first"]["missing"];
        found.sort_by_key(|(_, of)| {
            let first = match of.first {
                Some(true) => 0,
                None if *missing != 0 => 2,
                Some(false) | None => 1,
            };
            (first, of.arrival)
        });
        let total = found.len();
        let buckets = |least: u64| {
            let mut groups: BTreeMap<i64, [u64; 2]> = BTreeMap::new();
            for (_, of) in &found {
                let [documents, firsts] = groups.entry(of.key).or_default();
                *documents += 1;
                *firsts += u64::from(of.first == Some(true));
            }
            let bucket = |(key, [documents, firsts]): (&i64, &[u64; 2])| {
                let count = if least == 0 { *documents } else { *firsts };
                (count > 0).then(|| json!({"key": key, "doc_count": count, "firsts": {"doc_count": firsts}}))
            };
            groups.iter().filter_map(bucket).collect::<Vec<_>>()
        };
        let aggregations = json!({
            "groups": {"buckets": buckets(0), "sum_other_doc_count": 0},
            "firsts": {"groups": {"buckets": buckets(1)}},
        });
        if body.get("collapse").is_some() {
            let mut seen = BTreeSet::new();
            found.retain(|(_, of)| seen.insert(of.key));
        }
        let hit = |(name, of): &(&(String, String), &Stored)| {
            let (index, id) = name;
            let mut fields = json!({"cluster_key": [of.key]});
            if let Some(first) = of.first {
                fields["cluster_first"] = json!([first]);
            }
            json!({
                "_index": index, "_id": id, "_seq_no": of.seq_no, "_primary_term": 1,
                "fields": fields, "sort": [of.first, of.arrival, of.seq_no],
            })
        };
        let hits: Vec<Value> = found.iter().take(body["size"].as_u64().unwrap() as usize).map(hit).collect();
        json!({
            "timed_out": false, "_shards": {"total": 1, "failed": 0}, "aggregations": aggregations,
            "hits": {"total": {"value": total, "relation": "eq"}, "hits": hits},
        })
    }

    fn bulk(&mut self, lines: &str) -> Value {
        let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut items = Vec::new();
        while let (Some(action), Some(doc)) = (lines.next(), lines.next()) {
            let meta = &action["update"];
            let [index, id] = ["_index", "_id"].map(|of| meta[of].as_str().unwrap().to_owned());
            let name = (index.clone(), id);
            let is_refused = self.refused.contains(&name);
            let status = match self.documents.get_mut(&name) {
                _ if self.blocked.contains(&index) => 403,
                None => 404,
                Some(_) if is_refused => 400,
                Some(stored) if meta["if_seq_no"] != stored.seq_no => 409,
                Some(stored) => {
                    self.written += 1;
                    if !self.deaf {
                        stored.first = doc["doc"]["cluster_first"].as_bool();
                        stored.seq_no += 1;
                    }
                    200
                }
            };
            items.push(json!({"update": {"status": status, "result": "updated"}}));
        }
        json!({ "items": items })
    }

    /// Ids of first documents by key.
    pub(super) fn firsts(&self) -> BTreeMap<i64, Vec<&str>> {
        let mut all: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
        for ((_, id), stored) in &self.documents {
            let firsts = all.entry(stored.key).or_default();
            firsts.extend((stored.first == Some(true)).then_some(&**id));
        }
        all
    }
}
