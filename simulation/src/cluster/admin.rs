//! Indices and the cluster itself; documents by their ids.

use serde_json::{Map, Value, json};

use super::fault::{Fault, Reply};
use super::names::set;
use super::search::source_part;
use super::{Request, SimCluster};

impl SimCluster {
    /// `GET /`.
    pub(super) fn banner(&self) -> Value {
        let mut version = json!({"number": if self.opensearch { "2.19.0" } else { "8.17.0" }});
        if self.opensearch {
            version["distribution"] = "opensearch".into();
        }
        json!({"name": "node-1", "cluster_name": "simulated", "version": version, "tagline": "You Know, for Search"})
    }

    /// `GET /_nodes/http`.
    pub(super) fn nodes(&self) -> Value {
        let http = json!({
            "bound_address": ["127.0.0.1:9200"], "publish_address": "127.0.0.1:9200",
            "max_content_length_in_bytes": 104_857_600,
        });
        json!({
            "_nodes": {"total": 1, "successful": 1, "failed": 0}, "cluster_name": "simulated",
            "nodes": {"node-1": {"name": "node-1", "http": http}},
        })
    }

    /// `PUT /{index}`.
    pub(super) fn put_index(&mut self, request: &Request<'_>, name: &str) -> Reply {
        self.make(name, &request.json()?)?;
        Ok((200, json!({"acknowledged": true, "shards_acknowledged": true, "index": name})))
    }

    /// `DELETE /{index}`. Points in time over it are lost.
    pub(super) fn delete_index(&mut self, request: &Request<'_>, expression: &str) -> Reply {
        for name in self.resolve(request, expression)? {
            self.indices.remove(&name);
            for behind in self.aliases.values_mut() {
                behind.remove(&name);
            }
            self.points.retain(|_, point| !point.views.contains_key(&name));
        }
        self.aliases.retain(|_, behind| !behind.is_empty());
        Ok((200, json!({"acknowledged": true})))
    }

    /// `_refresh`.
    pub(super) fn refresh_some(&mut self, request: &Request<'_>, expression: &str) -> Reply {
        let names = self.resolve(request, expression)?;
        for name in &names {
            self.indices.entry(name.clone()).and_modify(|index| index.refresh(i64::MAX));
        }
        Ok((200, json!({"_shards": {"total": names.len(), "successful": names.len(), "failed": 0}})))
    }

    /// `GET /{index}/_settings`.
    pub(super) fn settings(&self, request: &Request<'_>, expression: &str) -> Reply {
        let mut answer = Map::new();
        for name in self.resolve(request, expression)? {
            let flat = &self.indices[&name].settings;
            let settings = if request.flag("flat_settings") { flat.clone().into() } else { nested(flat) };
            answer.insert(name, json!({ "settings": settings }));
        }
        Ok((200, answer.into()))
    }

    /// `PUT /{index}/_settings`.
    pub(super) fn put_settings(&mut self, request: &Request<'_>, expression: &str) -> Reply {
        let body = request.json()?;
        let body = body.get("settings").unwrap_or(&body);
        for name in self.resolve(request, expression)? {
            self.indices.entry(name).and_modify(|index| set(&mut index.settings, "", body));
        }
        Ok((200, json!({"acknowledged": true})))
    }

    /// `GET /{index}/_mapping`.
    pub(super) fn mappings(&self, request: &Request<'_>, expression: &str) -> Reply {
        let names = self.resolve(request, expression)?.into_iter();
        let mappings = names.map(|name| {
            let mapping = self.indices[&name].mapping.to_json();
            (name, json!({ "mappings": mapping }))
        });
        Ok((200, mappings.collect::<Map<_, _>>().into()))
    }

    /// `PUT /{index}/_mapping`.
    pub(super) fn put_mapping(&mut self, request: &Request<'_>, expression: &str) -> Reply {
        let body = request.json()?;
        for name in self.resolve(request, expression)? {
            if let Some(index) = self.indices.get_mut(&name) {
                index.mapping.put(&body)?;
            }
        }
        Ok((200, json!({"acknowledged": true})))
    }

    /// `_field_caps`.
    pub(super) fn field_caps(&self, request: &Request<'_>, expression: &str) -> Reply {
        let names = self.resolve(request, expression)?;
        let wanted = request.query.get("fields").map(String::as_str).unwrap_or_default();
        let mut fields = json!({});
        for field in wanted.split(',') {
            for name in &names {
                let kind = super::query::kind_in(&self.indices[name].mapping, field);
                if let Some(kind) = kind {
                    let aggregatable = kind != "text";
                    fields[field][kind] = json!({"type": kind, "searchable": true, "aggregatable": aggregatable});
                }
            }
        }
        Ok((200, json!({"indices": names, "fields": fields})))
    }

    /// `_count`.
    pub(super) fn count(&self, request: &Request<'_>, expression: &str) -> Reply {
        let (views, body) = (self.views(request, expression)?, request.json()?);
        let (found, shards) = (self.find(&views, body.get("query"))?.len(), views.len());
        let shards = json!({"total": shards, "successful": shards, "skipped": 0, "failed": 0});
        Ok((200, json!({"count": found, "_shards": shards})))
    }

    /// Deletes what a query finds.
    pub(super) fn delete_by_query(&mut self, request: &Request<'_>, expression: &str) -> Reply {
        let (views, body) = (self.views(request, expression)?, request.json()?);
        let found = self.find(&views, body.get("query"))?;
        let found: Vec<(String, String)> = found.iter().map(|of| (of.index.to_owned(), of.id.to_owned())).collect();
        for (name, id) in &found {
            if let Some(index) = self.indices.get_mut(name) {
                index.delete(request.now, id, &super::index::Condition::default())?;
            }
        }
        Ok((200, json!({"took": 1, "timed_out": false, "deleted": found.len(), "failures": []})))
    }

    /// A document by its id, as it is stored now.
    pub(super) fn document(&self, request: &Request<'_>, name: &str, id: &str) -> Reply {
        let names: Vec<String> = self.resolve(request, name)?.into_iter().collect();
        let [name] = &*names else {
            let reason = format!("alias [{name}] has more than one index associated with it");
            return Err(Fault::bad(reason));
        };
        let document = self.got(name, id, &source_wanted(request));
        Ok((if document["found"] == true { 200 } else { 404 }, document))
    }

    fn got(&self, name: &str, id: &str, wanted: &Value) -> Value {
        let Some(doc) = self.indices[name].get(id) else {
            return json!({"_index": name, "_id": id, "found": false});
        };
        let mut got = json!({
            "_index": name, "_id": id, "_version": doc.version, "_seq_no": doc.seq_no, "_primary_term": 1,
        });
        if let Some(routing) = &doc.routing {
            got["_routing"] = routing.as_str().into();
        }
        got["found"] = true.into();
        if let Some(source) = source_part(&doc.source, wanted) {
            got["_source"] = source;
        }
        got
    }

    /// `_mget`.
    pub(super) fn multi_get(&self, request: &Request<'_>, of_path: Option<&str>) -> Reply {
        let (body, by_default) = (request.json()?, source_wanted(request));
        let ids = body["ids"].as_array().into_iter().flatten().map(|id| json!({ "_id": id }));
        let documents = body["docs"].as_array().into_iter().flatten().cloned().chain(ids);
        let mut got = Vec::new();
        for document in documents {
            let id = document["_id"].as_str().ok_or_else(|| Fault::bad("id is missing"))?;
            let name = document["_index"].as_str().or(of_path).ok_or_else(|| Fault::bad("index is missing"))?;
            got.push(match self.resolve(request, name).map(|names| names.into_iter().next()) {
                Ok(Some(index)) => self.got(&index, id, document.get("_source").unwrap_or(&by_default)),
                Ok(None) => json!({"_index": name, "_id": id, "error": Fault::no_index(name).error()}),
                Err(fault) => json!({"_index": name, "_id": id, "error": fault.error()}),
            });
        }
        if got.is_empty() {
            return Err(Fault::new(400, "action_request_validation_exception", "no documents to get"));
        }
        Ok((200, json!({ "docs": got })))
    }
}

/// The `_source` parameters of a request.
fn source_wanted(request: &Request<'_>) -> Value {
    let parameter = |name: &str| request.query.get(name).map(String::as_str);
    match (parameter("_source"), parameter("_source_includes"), parameter("_source_excludes")) {
        (Some("false"), ..) => false.into(),
        (None | Some("true" | ""), None, None) => Value::Null,
        (Some(names), None, None) => names.into(),
        (_, includes, excludes) => json!({"includes": includes.unwrap_or_default(), "excludes": excludes}),
    }
}

fn nested(flat: &Map<String, Value>) -> Value {
    let mut nested = json!({});
    for (name, value) in flat {
        let mut at = &mut nested;
        for part in name.split('.') {
            at = &mut at[part];
        }
        *at = value.clone();
    }
    nested
}
