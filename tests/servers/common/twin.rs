//! The same request to the real server twice, directly and through spinney, into two indices of the same mapping, and
//! the two answers and what is stored compared byte by byte.
//!
//! What has to differ is replaced on both sides before the comparison, and nothing else is: the name of the index
//! (`@index` in a request) and its uuid, `took` and `ingest_took`, and ids that the server made.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{Answer, Request, Wire, find, replace};
use super::{SearchServer, Server, Spinney, root_of};

/// Stands for the name of the index in a request's target and body.
pub const INDEX: &str = "@index";

/// The same name with its first letter percent-encoded.
pub const CODED: &str = "@coded";

/// A text that shares no sentence with that of any other number.
pub fn text(n: usize) -> String {
    let word = |k: usize| format!("w{:x}", (n * 97 + k).wrapping_mul(2_654_435_761) & 0xffff_ffff);
    let words: Vec<String> = (0..12).map(word).collect();
    words.join(" ")
}

/// Action and source of one article with a given id, each with its newline.
pub fn article(id: &str, n: usize) -> String {
    let content = text(n);
    format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"content\":\"{content}\",\"n\":{n}}}\n")
}

/// One side: where requests go, and the index they mean.
pub struct Side {
    pub url: String,
    pub index: String,
    uuid: String,
}

/// The two sides, and a look behind their back.
pub struct Twins {
    pub server: Server,
    pub spinney: Spinney,
    pub direct: Side,
    pub proxied: Side,
}

/// The mapping of both indices.
fn mapping() -> Value {
    json!({
        // What was deleted is remembered for as long as any test lasts: the versions of a document that comes again do
        // not depend on the time.
        "settings": {"number_of_shards": 1, "number_of_replicas": 0, "gc_deletes": "1h"},
        "mappings": {"properties": {
            "content": {"type": "text"},
            "day": {"type": "date"},
            "n": {"type": "integer"},
            "raw": {"type": "object", "enabled": false},
            "cluster_root": {"type": "keyword"},
            "cluster_key": {"type": "long"},
            "cluster_hash": {"type": "keyword", "index": false, "doc_values": false},
            "cluster_arrival": {"type": "date"},
            "cluster_first": {"type": "boolean"},
        }},
    })
}

impl Twins {
    /// Two fresh indices on the server, and a spinney of its own in front of the second.
    pub async fn new(upstream: &str, label: &str) -> Twins {
        Self::with(upstream, label, &[]).await
    }

    /// The same with further arguments for spinney.
    pub async fn with(upstream: &str, label: &str, more: &[&str]) -> Twins {
        let server = Server::new(upstream);
        let name = super::unique_index(label);
        // Its own indices alone: what other tests write is none of this forest's, and must not be found when the
        // cluster is asked for documents whose outcome is unknown.
        let spinney = start_for(upstream, &format!("{name}-*"), more);
        let mut twins = Twins {
            direct: Side { url: upstream.to_owned(), index: format!("{name}-a"), uuid: String::new() },
            proxied: Side { url: spinney.url.clone(), index: format!("{name}-b"), uuid: String::new() },
            server,
            spinney,
        };
        for side in [&mut twins.direct, &mut twins.proxied] {
            twins.server.create_index(&side.index, mapping()).await;
            let path = format!("/{}/_settings", side.index);
            let (_, answer) = twins.server.request(Method::GET, &path, None).await;
            let uuid = &answer[&side.index]["settings"]["index"]["uuid"];
            side.uuid = uuid.as_str().unwrap().to_owned();
        }
        twins
    }

    /// Removes all documents, on the server directly: much quicker than two new indices.
    pub fn empty(&self) {
        for side in [&self.direct, &self.proxied] {
            let mut wire = Wire::connect(&self.direct.url);
            let delete = |id| format!("{}\n", json!({"delete": {"_id": id}}));
            let deletes: String = side.ids(&mut wire).into_iter().map(delete).collect();
            if !deletes.is_empty() {
                let path = format!("/{}/_bulk?refresh=true", side.index);
                let answer = Request::bulk(&path, deletes).on(&mut wire).json();
                assert_eq!(answer["errors"], false, "{answer}");
            }
        }
    }

    /// Sends the request to both sides, on a connection each, and returns the answer that came through spinney, after
    /// normalisation. Panics unless the direct one is the same, but for what errors quote or count of the body that the
    /// server got ([`Twins::without_traces`]).
    pub fn same(&self, request: &Request) -> Answer {
        let mut wires = (Wire::connect(&self.direct.url), Wire::connect(&self.proxied.url));
        self.same_on(&mut wires, request)
    }

    /// The same on given connections: direct, proxied.
    pub fn same_on(&self, wires: &mut (Wire, Wire), request: &Request) -> Answer {
        let direct = self.direct.send(&mut wires.0, request);
        let proxied = self.proxied.send(&mut wires.1, request);
        if direct == proxied {
            return proxied;
        }
        let [direct, proxied] = [direct, proxied].map(|answer| self.without_traces(answer));
        assert_same(&request.describe(), &direct, &proxied);
        proxied
    }

    /// An answer without what tells of the body that the server got, where the engine is known to tell of it: a stamp
    /// shows there.
    pub fn without_traces(&self, mut answer: Answer) -> Answer {
        let expected = SearchServer::at(&self.direct.url).expected();
        if expected.columns_in_mapping_errors {
            answer.body = without_columns(&answer.body);
        }
        if expected.errors_quote_documents {
            answer.body = without_quotes(&answer.body);
        }
        if expected.chunked_answers {
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("transfer-encoding"));
        }
        answer
    }

    /// Sends the request to the server directly, once for each index: what has to be there before a test.
    pub fn prepare(&self, request: &Request) {
        for side in [&self.direct, &self.proxied] {
            let answer = side.request(request).to(&self.direct.url);
            assert!(answer.status < 300, "{}", answer.text());
        }
    }

    /// The same, but for the columns in messages of the JSON parser: in a body that was stamped, what is wrong stands
    /// further to the right.
    pub fn same_but_columns(&self, request: &Request) -> Answer {
        let mut answers = [&self.direct, &self.proxied].map(|side| {
            let mut answer = self.without_traces(side.send(&mut Wire::connect(&side.url), request));
            answer.body = without_columns(&answer.body);
            answer
        });
        assert_same(&request.describe(), &answers[0], &answers[1]);
        answers.swap(0, 1);
        let [proxied, _] = answers;
        proxied
    }

    /// Asserts that both indices hold the same documents, byte by byte but for the stamps, and returns those that came
    /// through spinney, with their stamps. (The result of an update is written by the server itself, the stamp among
    /// the other fields, and a client may have sent a stamp of its own: both are compared as JSON.) Ids that the server
    /// made are left out of the comparison, their documents are not. Of a document that is no plain JSON (comments),
    /// only the stamp is returned.
    pub async fn same_documents(&self) -> BTreeMap<String, Value> {
        let direct = self.direct.documents(&self.direct.url);
        let proxied = self.proxied.documents(&self.direct.url);
        let ids = |documents: &BTreeMap<String, Vec<u8>>| {
            let given = documents.keys().filter(|id| id.len() != 20);
            given.cloned().collect::<Vec<_>>()
        };
        assert_eq!(ids(&direct), ids(&proxied), "the ids differ");
        let made = |documents: &BTreeMap<String, Vec<u8>>| {
            let made = documents.iter().filter(|(id, _)| id.len() == 20);
            let mut made: Vec<_> = made.map(|(_, source)| cut_stamp(source).0).collect();
            made.sort();
            made
        };
        assert_eq!(made(&direct), made(&proxied), "documents with made ids");
        for (id, source) in direct.iter().filter(|(id, _)| id.len() != 20) {
            let (bare, _) = cut_stamp(&proxied[id]);
            if *source != bare && *source != proxied[id] {
                let same = bare_value(source).is_some() && bare_value(source) == bare_value(&bare);
                let text = String::from_utf8_lossy;
                assert!(same, "document {id}: {} {}", text(source), text(&bare));
            }
        }
        let value = |source: Vec<u8>| {
            serde_json::from_slice(&source).unwrap_or_else(|_| {
                let stamp = cut_stamp(&source).1;
                let stamp = stamp.strip_suffix(b",").unwrap_or(&stamp);
                serde_json::from_slice(&[b"{", stamp, b"}"].concat()).unwrap_or_default()
            })
        };
        let valued = proxied.into_iter().map(|(id, source)| (id, value(source)));
        valued.collect()
    }

    /// The same of documents that must all have a stamp.
    pub async fn all_stamped(&self) -> BTreeMap<String, Value> {
        let documents = self.same_documents().await;
        for (id, source) in &documents {
            assert!(root_of(source).is_some(), "{id} has no stamp: {source}");
        }
        documents
    }

    /// What spinney says about itself once nothing is in flight.
    pub fn stats(&self) -> Value {
        stats(&self.spinney.url)
    }

    /// The number of nodes in its only forest.
    pub fn nodes(&self) -> u64 {
        nodes(&self.stats())
    }

    /// One of its counters.
    pub fn counter(&self, name: &str) -> u64 {
        self.stats()["counters"][name].as_u64().unwrap()
    }

    /// Ends spinney, which must still be well, and removes the indices. Returns spinney's log.
    pub async fn end(self) -> String {
        let log = self.spinney.end_and_log();
        self.server.delete_index(&self.direct.index).await;
        self.server.delete_index(&self.proxied.index).await;
        log
    }
}

/// A spinney that stamps `news-*`.
pub fn start(upstream: &str, more: &[&str]) -> Spinney {
    start_for(upstream, "news-*", more)
}

/// A spinney that stamps the indices of one pattern.
fn start_for(upstream: &str, pattern: &str, more: &[&str]) -> Spinney {
    let mut args = vec!["--upstream", upstream, "--index", pattern];
    args.extend(["--text-field", "content"]);
    if !more.contains(&"--method") {
        // One node for each text: what is left of a refused one can be counted.
        args.extend(["--method", "longest"]);
    }
    args.extend(more);
    Spinney::start(&args)
}

/// What spinney says about itself once nothing is in flight: a client may have its answer before spinney has drawn its
/// conclusions from it.
pub fn stats(spinney: &str) -> Value {
    let mut stats = Value::Null;
    super::wait_until("nothing is in flight", || {
        stats = stats_now(spinney);
        stats["requests_in_flight"] == 0 && stats["budget"]["used_bytes"] == 0
    });
    stats
}

/// The same at once, for what is in flight.
pub fn stats_now(spinney: &str) -> Value {
    let answer = Request::get("/_spinney/_stats").to(spinney);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The number of nodes in the only forest.
pub fn nodes(stats: &Value) -> u64 {
    only_forest(stats)["nodes"].as_u64().unwrap()
}

/// What is said of the only forest.
pub fn only_forest(stats: &Value) -> &Value {
    let forests = stats["forests"].as_object().unwrap();
    assert_eq!(forests.len(), 1, "{stats}");
    forests.values().next().unwrap()
}

impl Side {
    /// The request as this side sends it.
    pub fn request(&self, request: &Request) -> Request {
        let coded = format!("%{:02X}{}", self.index.as_bytes()[0], &self.index[1..]);
        request.with(INDEX, &self.index).with(CODED, &coded)
    }

    /// The ids of all documents, read directly.
    fn ids(&self, wire: &mut Wire) -> Vec<String> {
        let index = &self.index;
        let refreshed = Request::new("POST", format!("/{index}/_refresh")).on(wire);
        assert_eq!(refreshed.status, 200, "{}", refreshed.text());
        let path = format!("/{index}/_search?size=10000&_source=false&filter_path=hits.hits._id");
        let found = Request::get(&path).on(wire).json();
        // Where nothing is found the filter leaves nothing.
        let hits = found["hits"]["hits"].as_array().into_iter().flatten();
        let id = |hit: &Value| hit["_id"].as_str().unwrap().to_owned();
        hits.map(id).collect()
    }

    /// The stored bytes of all documents, read directly.
    fn documents(&self, server: &str) -> BTreeMap<String, Vec<u8>> {
        let mut wire = Wire::connect(server);
        let index = &self.index;
        let mut documents = BTreeMap::new();
        for id in self.ids(&mut wire) {
            let coded: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let source = Request::get(&format!("/{index}/_source/{coded}")).on(&mut wire);
            if source.status == 500 && SearchServer::at(server).expected().takes_comments_before_documents {
                continue;
            }
            assert_eq!(source.status, 200, "{id}: {}", source.text());
            documents.insert(id, source.body);
        }
        documents
    }

    /// Sends the request on a connection and returns the normalised answer.
    pub fn send(&self, wire: &mut Wire, request: &Request) -> Answer {
        let to_head = request.is_head();
        wire.send(&self.request(request).bytes());
        let answer = wire.answer(to_head);
        let Some(mut answer) = answer else {
            panic!("{} closes without an answer to {}", self.url, request.describe());
        };
        while answer.status < 200 {
            answer = wire.last_answer(to_head);
        }
        if to_head {
            // Elasticsearch 8 names a coding, and there is no body that could have it.
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("transfer-encoding"));
        }
        self.normal(answer)
    }

    /// The answer without what has to differ. The body is unpacked; its length has been checked against the header.
    pub fn normal(&self, mut answer: Answer) -> Answer {
        let mut body = answer.plain();
        for from in [&self.index, &self.uuid] {
            if !from.is_empty() {
                body = replace(&body, from.as_bytes(), INDEX.as_bytes());
            }
        }
        for key in ["took\":", "took\" : ", "took: "] {
            body = replace_behind(&body, key, |byte| byte.is_ascii_digit(), |_| true, "0");
        }
        for key in ["\"_id\":\"", "\"_id\" : \"", "_id: \"", "with id '"] {
            let made = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            body = replace_behind(&body, key, made, |id| id.len() == 20, "made");
        }
        answer.body = body;
        // The digits of `took` and the packing decide the length; connections are each side's own matter.
        answer.headers.retain(|(name, _)| {
            !["content-length", "connection", "keep-alive"].contains(&name.to_ascii_lowercase().as_str())
        });
        for (name, value) in &mut answer.headers {
            *value = value.replace(&self.index, INDEX);
            if name == "TASK_RESOURCE_USAGE" {
                // Processor time and task numbers.
                value.clear();
            }
            if let Some((path, id)) = value.rsplit_once("/_doc/")
                && id.len() == 20
            {
                *value = format!("{path}/_doc/");
            }
        }
        answer
    }
}

/// Asserts that two normalised answers are the same.
pub fn assert_same(what: &str, direct: &Answer, proxied: &Answer) {
    let show = |answer: &Answer| {
        let (headers, text) = (&answer.headers, String::from_utf8_lossy(&answer.body));
        format!("{} {headers:?} {text}", answer.status)
    };
    assert!(direct == proxied, "{what}\n direct: {}\nproxied: {}", show(direct), show(proxied));
}

/// Takes the columns out of the JSON parser's messages: `line: 1, column: 17`,
/// `[1:17] …`, `[1:0] [1:17] …`, `[1:0] failed to parse: [1:17] …`, `… at 1:17`, `"line":1,"col":17`.
/// The lines stay: a stamp has none.
pub fn without_columns(body: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| byte.is_ascii_digit();
    let mut body = body.to_vec();
    for key in ["line: 1, column: ", "failed to parse: [1:", "\"[1:", "] [1:", " at 1:", "\"line\":1,\"col\":"] {
        body = replace_behind(&body, key, digit, |_| true, "0");
    }
    body
}

/// Takes quoted documents out of errors: `(byte[])"{…}"; line: 1` and `source[{…}]}]]`. The parser's quotes end after
/// some hundred bytes, so that they differ by more than a stamp.
pub fn without_quotes(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    for (begin, end) in
        [("at [Source: (byte[])\\\"", "; line: "), ("at [Source: (String)\\\"", "; line: "), (", source[", "]}]]")]
    {
        let mut out = Vec::with_capacity(body.len());
        let mut rest = &body[..];
        while let Some(at) = find(rest, begin.as_bytes()) {
            let (before, behind) = rest.split_at(at + begin.len());
            out.extend_from_slice(before);
            rest = &behind[find(behind, end.as_bytes()).unwrap_or(0)..];
        }
        out.extend_from_slice(rest);
        body = out;
    }
    body
}

/// Replaces the run of `part` bytes that follows each `key`, where `all` of it is wanted.
fn replace_behind(body: &[u8], key: &str, part: impl Fn(u8) -> bool, all: impl Fn(&[u8]) -> bool, by: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = find(rest, key.as_bytes()) {
        let (before, behind) = rest.split_at(at + key.len());
        out.extend_from_slice(before);
        let run = behind.iter().take_while(|byte| part(**byte)).count();
        out.extend_from_slice(match run > 0 && all(&behind[..run]) {
            true => by.as_bytes(),
            false => &behind[..run],
        });
        rest = &behind[run..];
    }
    out.extend_from_slice(rest);
    out
}

/// A stored source as JSON, without a stamp. The servers store what serde_json is too strict for: bytes that are no
/// UTF-8 and halves of a surrogate pair.
fn bare_value(source: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(source).replace("\\ud", "\\u1");
    let text = text.replace("\\uD", "\\u1");
    let value = serde_json::from_str::<Value>(&text).ok();
    value.as_ref().map(super::unstamped)
}

/// A stored source without the stamp that spinney inserts behind the opening brace, and that stamp.
pub fn cut_stamp(source: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let Some(brace) = source.iter().position(|byte| *byte == b'{') else {
        return (source.to_vec(), Vec::new());
    };
    let (start, mut rest) = source.split_at(brace + 1);
    let stamp_start = rest;
    for field in super::STAMP_FIELDS {
        let Some(value) = rest.strip_prefix(format!("\"{field}\":").as_bytes()) else {
            continue;
        };
        let end = match value.first() {
            Some(b'"') => 2 + value[1..].iter().position(|byte| *byte == b'"').unwrap(),
            Some(b'[') => 1 + value.iter().position(|byte| *byte == b']').unwrap(),
            _ => value.iter().position(|byte| b",}".contains(byte)).unwrap(),
        };
        rest = &value[end..];
        rest = rest.strip_prefix(b",").unwrap_or(rest);
    }
    let stamp = &stamp_start[..stamp_start.len() - rest.len()];
    ([start, rest].concat(), stamp.to_vec())
}
