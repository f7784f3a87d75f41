//! Writes: bulks and single documents.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::fault::{Fault, Reply};
use super::index::{Condition, Written};
use super::{Refuse, Request, SimCluster, source};

/// One write.
struct Write<'b> {
    op: String,
    index: String,
    /// `None`: the cluster gives one.
    id: Option<String>,
    routing: Option<String>,
    condition: Condition,
    source: &'b [u8],
    /// The body of an update.
    update: Value,
}

/// What became of it: the index and id, and the outcome.
struct Outcome {
    index: String,
    id: Option<String>,
    result: Result<Written, Fault>,
}

fn invalid(reason: &str) -> Fault {
    Fault::new(400, "action_request_validation_exception", format!("Validation Failed: 1: {reason};"))
}

impl<'b> Write<'b> {
    /// Reads metadata: of an action line, or the parameters of a request.
    fn new(op: &str, meta: &Map<String, Value>, of_path: Option<&str>, at: &str) -> Result<Write<'b>, Fault> {
        let (mut condition, mut op) = (Condition { create: op == "create", ..Condition::default() }, op.to_owned());
        let (mut index, mut id, mut routing) = (of_path.map(str::to_owned), None, None);
        let (mut version, mut version_type, mut seq_no, mut term) = (None, "internal".to_owned(), None, None);
        for (key, value) in meta {
            let text = || match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let number = || text().parse::<i64>().map_err(|_| Fault::bad(format!("Failed to parse [{key}]")));
            match &**key {
                "_index" => index = Some(text()),
                "_id" => id = Some(text()),
                "routing" => routing = Some(text()),
                "version" => version = Some(number()?),
                "version_type" => version_type = text(),
                "if_seq_no" => seq_no = Some(number()?),
                "if_primary_term" => term = Some(number()?),
                "op_type" if op == "index" && value == "create" => (condition.create, op) = (true, "create".to_owned()),
                "op_type" | "retry_on_conflict" | "pipeline" | "_source" | "require_alias" => {}
                _ => return Err(Fault::bad(format!("{at} contains an unknown parameter [{key}]"))),
            }
        }
        let index = index.ok_or_else(|| invalid("index is missing"))?;
        if id.as_ref().is_some_and(String::is_empty) {
            return Err(Fault::bad("if _id is specified it must not be empty"));
        }
        if id.is_none() && matches!(&*op, "update" | "delete") {
            return Err(invalid("id is missing"));
        }
        match (seq_no, term) {
            (Some(seq_no), Some(term)) => {
                condition.if_seq_no = Some((seq_no.cast_unsigned(), term.cast_unsigned()));
            }
            (None, None) => {}
            _ => return Err(invalid("ifSeqNo and ifPrimaryTerm go together")),
        }
        condition.external = match (version, &*version_type) {
            (None, "internal") => None,
            (Some(version), "external" | "external_gt") if op != "update" => Some((version, false)),
            (Some(version), "external_gte") if op != "update" => Some((version, true)),
            _ => return Err(invalid("internal versioning can not be used for optimistic concurrency control")),
        };
        Ok(Write { op, index, id, routing, condition, source: b"", update: Value::Null })
    }

    fn with_source(mut self, source: &'b [u8]) -> Result<Write<'b>, Fault> {
        self.source = source;
        if self.op == "update" {
            let parsed = source::parse(source);
            self.update = parsed.map_err(|reason| Fault::new(400, "x_content_parse_exception", reason))?;
            let known = ["doc", "upsert", "doc_as_upsert", "detect_noop", "_source", "if_seq_no", "if_primary_term"];
            let members = self.update.as_object();
            let members = members.ok_or_else(|| Fault::new(400, "x_content_parse_exception", "not an object"))?;
            if let Some(key) = members.keys().find(|key| !known.contains(&key.as_str())) {
                let fault =
                    Fault::new(400, "x_content_parse_exception", format!("[UpdateRequest] unknown field [{key}]"));
                return Err(Fault { is_unknown: key.contains("script"), ..fault });
            }
            if let (Some(seq_no), Some(term)) = (members.get("if_seq_no"), members.get("if_primary_term")) {
                self.condition.if_seq_no = seq_no.as_u64().zip(term.as_u64());
            }
        }
        Ok(self)
    }
}

/// The writes of a bulk.
fn bulk_writes<'b>(body: &'b [u8], of_path: Option<&str>) -> Result<Vec<Write<'b>>, Fault> {
    if !body.is_empty() && body.last() != Some(&b'\n') {
        return Err(Fault::bad("The bulk request must be terminated by a newline [\\n]"));
    }
    let mut writes = Vec::new();
    let mut lines = body.split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1]).enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let at = format!("Action/metadata line [{}]", number + 1);
        let malformed = |what: String| Fault::bad(format!("Malformed action/metadata line [{}], {what}", number + 1));
        let action = source::parse(line).map_err(malformed)?;
        let first = action.as_object().and_then(|action| action.iter().next());
        let (op, meta) = first.ok_or_else(|| malformed("expected FIELD_NAME".into()))?;
        let meta = meta.as_object().ok_or_else(|| malformed("expected START_OBJECT".into()))?;
        if !matches!(&**op, "index" | "create" | "update" | "delete") {
            return Err(malformed(format!("expected one of [create, delete, index, update] but found [{op}]")));
        }
        let write = Write::new(op, meta, of_path, &at)?;
        if op == "delete" {
            writes.push(write);
        } else if let Some((_, source)) = lines.next() {
            writes.push(write.with_source(source.strip_suffix(b"\r").unwrap_or(source))?);
        }
    }
    if writes.is_empty() { Err(invalid("no requests added")) } else { Ok(writes) }
}

impl SimCluster {
    /// A bulk.
    pub(super) fn bulk(&mut self, request: &Request<'_>, of_path: Option<&str>, refuse: Refuse<'_>) -> Reply {
        let writes = bulk_writes(request.body, of_path)?;
        let (mut items, mut errors, mut written) = (Vec::new(), false, BTreeSet::new());
        for write in writes {
            let op = write.op.clone();
            let Outcome { index, id, result } = self.write(request.now, write, refuse);
            let item = match result {
                Ok(done) => {
                    let mut item = done.to_json(&index, id.as_deref().unwrap_or_default());
                    item["status"] = done.status.into();
                    item
                }
                Err(fault) => {
                    errors = true;
                    if fault.is_unknown {
                        self.unknown.push(fault.reason.clone());
                    }
                    json!({"_index": index, "_id": id, "status": fault.status, "error": fault.error()})
                }
            };
            items.push(json!({op: item}));
            written.insert(index);
        }
        self.refresh_written(request, written);
        Ok((200, json!({"took": 1, "errors": errors, "items": items})))
    }

    /// A write of one document.
    pub(super) fn single(
        &mut self,
        request: &Request<'_>,
        op: &str,
        (index, id): (&str, Option<&str>),
        refuse: Refuse<'_>,
    ) -> Reply {
        let meta = request.query.iter().filter(|(key, _)| {
            let of_request = ["refresh", "filter_path", "pretty", "timeout", "wait_for_active_shards", "error_trace"];
            !of_request.contains(&key.as_str())
        });
        let mut meta: Map<String, Value> = meta.map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        meta.extend(id.map(|id| ("_id".to_owned(), id.into())));
        let write = Write::new(op, &meta, Some(index), "request")?;
        let Outcome { index, id, result } = self.write(request.now, write.with_source(request.body)?, refuse);
        let done = result?;
        self.refresh_written(request, [index.clone()].into());
        Ok((done.status, done.to_json(&index, id.as_deref().unwrap_or_default())))
    }

    fn refresh_written(&mut self, request: &Request<'_>, written: BTreeSet<String>) {
        if matches!(request.query.get("refresh").map(String::as_str), Some("" | "true" | "wait_for")) {
            for index in written {
                self.indices.entry(index).and_modify(|index| index.refresh(i64::MAX));
            }
        }
    }

    fn write(&mut self, now: i64, mut write: Write<'_>, refuse: Refuse<'_>) -> Outcome {
        let name = match self.write_index(now, &write.index) {
            Ok(name) => name,
            Err(fault) => return Outcome { index: write.index, id: write.id, result: Err(fault) },
        };
        let id = write.id.take().unwrap_or_else(|| {
            self.numbers += 1;
            format!("auto{:016}", self.numbers)
        });
        let result = match refuse(&name, &id) {
            Some(status) => Err(Fault::injected(status)),
            None => self.apply(now, &name, &id, write),
        };
        Outcome { index: name, id: Some(id), result }
    }

    fn apply(&mut self, now: i64, name: &str, id: &str, write: Write<'_>) -> Result<Written, Fault> {
        let index = self.indices.get_mut(name).ok_or_else(|| Fault::no_index(name))?;
        for block in ["index.blocks.write", "index.blocks.read_only", "index.blocks.read_only_allow_delete"] {
            if index.is_set(block) {
                let reason = format!("index [{name}] blocked by: [FORBIDDEN/8/{block} (api)];");
                return Err(Fault::new(403, "cluster_block_exception", reason));
            }
        }
        match &*write.op {
            "delete" => index.delete(now, id, &write.condition),
            "update" => {
                let update = &write.update;
                let Some(current) = index.get(id).cloned() else {
                    let upsert =
                        update.get("upsert").or_else(|| update.get("doc").filter(|_| update["doc_as_upsert"] == true));
                    let source = upsert.cloned().ok_or_else(|| {
                        Fault::new(404, "document_missing_exception", format!("[{id}]: document missing"))
                    })?;
                    return index.index(now, (id, write.routing), source, &write.condition);
                };
                // Also where nothing will change.
                index.check(now, id, &write.condition)?;
                let doc = update
                    .get("doc")
                    .filter(|doc| doc.is_object())
                    .ok_or_else(|| invalid("script or doc is missing"))?;
                let mut source = current.source.clone();
                source::merge(&mut source, doc);
                if source == current.source && update["detect_noop"] != false {
                    let (version, seq_no) = (current.version, current.seq_no);
                    return Ok(Written { result: "noop", status: 200, version, seq_no });
                }
                index.index(now, (id, current.routing.clone()), source, &write.condition)
            }
            _ => {
                let parsed = source::parse(write.source);
                let source = parsed.map_err(|reason| {
                    Fault::new(400, "mapper_parsing_exception", format!("failed to parse: {reason}"))
                })?;
                index.index(now, (id, write.routing), source, &write.condition)
            }
        }
    }
}
