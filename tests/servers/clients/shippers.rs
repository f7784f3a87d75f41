//! What the programs of `docs/recipes` send that no test can install: each of their requests as their public code makes
//! it, to the server directly and through spinney. Answers and documents are compared by `common/twin.rs`; each module
//! names the code by repository and path.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::twin::{Twins, assert_same, text};
use crate::common::wire::{Request, Wire};
use crate::common::{SearchServer, on_each_server, root_of};

/// Sends a handshake and then writes over one connection, as each of the programs does; returns what is stored. Writes
/// succeed, and each document has a stamp.
async fn replayed(
    search_server: SearchServer,
    label: &str,
    handshake: &[Request],
    writes: &[Request],
) -> BTreeMap<String, Value> {
    let twins = Twins::new(&search_server.url(), label).await;
    let mut wires = (Wire::connect(&twins.direct.url), Wire::connect(&twins.proxied.url));
    let mut same = |request: &Request| {
        let answers = [twins.direct.send(&mut wires.0, request), twins.proxied.send(&mut wires.1, request)];
        let [direct, proxied] = answers.map(|answer| {
            // Bodies are unpacked by now; an answer that spinney has filtered came unpacked.
            let mut answer = twins.without_traces(answer);
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-encoding"));
            if request.describe().starts_with("GET /_cluster/health") {
                // It counts what other tests do at the moment.
                answer.body.clear();
            }
            answer
        });
        assert_same(&request.describe(), &direct, &proxied);
        proxied
    };
    for request in handshake {
        same(request);
    }
    for request in writes {
        let answer = same(request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["errors"], false, "{}", answer.text());
    }
    let documents = twins.all_stamped().await;
    twins.end().await;
    documents
}

/// Asserts that `a` and `b` are in one group and `c` is not.
fn verify_groups(documents: &BTreeMap<String, Value>) {
    let [a, b, c] = ["a", "b", "c"].map(|id| root_of(&documents[id]).unwrap());
    assert_eq!(a, b);
    assert_ne!(a, c);
}

/// Names and texts of what most programs send: `b` is a reprint of `a`.
const ARTICLES: [(&str, usize); 3] = [("a", 1), ("b", 1), ("c", 2)];

/// A bulk of these articles, by the action line for an id and the source for a text.
fn bulk(action: impl Fn(&str) -> String, source: impl Fn(&str) -> String) -> String {
    let lines = ARTICLES.iter().map(|(id, n)| format!("{}\n{}\n", action(id), source(&text(*n))));
    lines.collect()
}

// opensearch-project/logstash-output-opensearch 2.1.0: lib/logstash/outputs/opensearch.rb (event_action_tuple) and
// lib/logstash/outputs/opensearch/http_client.rb, http_client/pool.rb, http_client/manticore_adapter.rb below it;
// cheald/manticore 0.9.2: lib/manticore/client.rb (request_from_options).
//
// logstash-plugins/logstash-output-elasticsearch 12.1.6: the files of the same names for Elasticsearch.

/// What the HTTP client of both outputs puts on each request.
fn manticore(request: Request, agent: &str) -> Request {
    request
        .header("Connection", "Keep-Alive")
        .header("Content-Type", "application/json")
        .header("User-Agent", agent)
        .header("Accept-Encoding", "gzip,deflate")
}

/// An event of Logstash with this text.
fn event(text: &str) -> String {
    format!(r#"{{"@timestamp":"2026-11-20T06:00:00.000Z","@version":"1","content":"{text}"}}"#)
}

/// Fields of the action that were not configured are null: `routing` always, `_id` without `document_id`.
fn logstash_writes(send: impl Fn(String) -> Request) -> Vec<Request> {
    let named = |id: &str| format!(r#"{{"index":{{"_id":"{id}","_index":"@index","routing":null}}}}"#);
    let made = |_: &str| r#"{"index":{"_id":null,"_index":"@index","routing":null}}"#.to_owned();
    let update = r#"{"update":{"_id":"upsert","_index":"@index","routing":null,"retry_on_conflict":1}}"#;
    let upsert = format!("{update}\n{{\"doc\":{},\"doc_as_upsert\":true}}\n", event(&text(2)));
    [bulk(named, event), bulk(made, event), upsert].map(send).to_vec()
}

/// Sniffing asks for the addresses of the nodes, which the recipe leaves off.
#[tokio::test]
async fn logstash_output_opensearch() {
    let agent = "Manticore 0.9.2";
    // Health, version, uuid of the cluster.
    let handshake = [Request::new("HEAD", "/"), Request::get("/"), Request::get("/")];
    let handshake = handshake.map(|request| manticore(request, agent));
    let send = |body| manticore(Request::new("POST", "/_bulk").body(body), agent);
    let mut writes = logstash_writes(|body| send(body).gzipped());
    // The default is without `http_compression`.
    let plain = logstash_writes(send).remove(1);
    writes.push(plain);
    let documents = replayed(SearchServer::OpenSearch, "logstash", &handshake, &writes).await;
    verify_groups(&documents);
    assert_eq!(documents.len(), 3 + 2 * 3 + 1);
}

/// It takes answers of Elasticsearch alone: the header `X-Elastic-Product` and the licence have to arrive.
#[tokio::test]
async fn logstash_output_elasticsearch() {
    let agent = "Logstash/9.1.0 (OS=Linux-6.1.0-amd64; JVM=Adoptium-21.0.8) logstash-output-elasticsearch/12.1.6";
    let product = |request: Request| {
        manticore(request, agent).header("x-elastic-product-origin", "logstash-output-elasticsearch")
    };
    let handshake = [Request::new("HEAD", "/"), Request::get("/"), Request::get("/_license"), Request::get("/")];
    let writes = logstash_writes(|body| {
        let counted = Request::new("POST", "/_bulk?filter_path=errors,items.*.error,items.*.status")
            .header("X-Elastic-Event-Count", &(body.lines().count() / 2).to_string())
            .header("X-Elastic-Uncompressed-Request-Length", &body.len().to_string());
        product(counted.body(body)).gzipped()
    });
    let documents = replayed(SearchServer::Elasticsearch, "logstash", &handshake.map(product), &writes).await;
    verify_groups(&documents);
}

on_each_server!(vector);

/// vectordotdev/vector 0.58.0: vector/src/sinks/elasticsearch/common.rs, encoder.rs and service.rs.
async fn vector(search_server: SearchServer) {
    let agent = |request: Request| request.header("User-Agent", "Vector/0.58.0 (x86_64-unknown-linux-musl)");
    // The second one without `api_version`.
    let handshake = [Request::get("/_cluster/health"), Request::get("/")].map(agent);
    let body = bulk(
        |id| format!(r#"{{"index":{{"_id":"{id}","_index":"@index"}}}}"#),
        |text| format!(r#"{{"content":"{text}"}}"#),
    );
    // `request.timeout_secs` is the `timeout` of the bulk, too.
    let write = Request::bulk("/_bulk?timeout=660s", &body).header("Accept-Encoding", "gzip").gzipped();
    let documents = replayed(search_server, "vector", &handshake, &[agent(write)]).await;
    verify_groups(&documents);
}

on_each_server!(fluent_bit);

/// fluent/fluent-bit 5.1.1: fluent-bit/plugins/out_opensearch/opensearch.c, os_conf.c beside it, and
/// fluent-bit/src/flb_http_client.c; for Elasticsearch fluent-bit/plugins/out_es/es.c.
///
/// There is no handshake. What is not ASCII is escaped, unless `json.escape_unicode` is off.
async fn fluent_bit(search_server: SearchServer) {
    let escaped = |text: &str| {
        let unit = |unit: u16| match u8::try_from(unit) {
            Ok(ascii) if ascii.is_ascii() => char::from(ascii).to_string(),
            _ => format!("\\u{unit:04x}"),
        };
        text.encode_utf16().map(unit).collect::<String>()
    };
    let send = |target: &str, body: String| Request::bulk(target, body).header("User-Agent", "Fluent-Bit");
    let record = |text: &str| format!(r#"{{"@timestamp":"2026-11-20T06:00:00.000Z","content":"{text}"}}"#);
    let index = |id: &str| format!(r#"{{"index":{{"_index":"@index","_id":"{id}"}}}}"#);
    // The default is `create` without an id.
    let create = |_: &str| r#"{"create":{"_index":"@index"}}"#.to_owned();
    let update = |id: &str| format!(r#"{{"update":{{"_index":"@index","_id":"upsert-{id}"}}}}"#);
    let upsert = |text: &str| format!(r#"{{"doc_as_upsert":true,"doc":{}}}"#, record(text));
    let chinese = "港口周二早上因风暴关闭，前往各岛的渡轮全部取消，十一艘船在外海等候引航员🚢。";
    let plain = format!("{}\n{}\n", index("plain"), record(chinese));
    let writes = [
        send("/_bulk", bulk(index, record)).gzipped(),
        send("/_bulk", bulk(create, record)),
        send("/_bulk", bulk(update, upsert)),
        // With `Pipeline`.
        send("/_bulk/?pipeline=_none", bulk(index, record)).gzipped(),
        send("/_bulk", format!("{}\n{}\n", index("escaped"), record(&escaped(chinese)))),
        // Written by another program.
        send("/_bulk", plain),
    ];
    let documents = replayed(search_server, "fluent-bit", &[], &writes).await;
    verify_groups(&documents);
    assert_eq!(root_of(&documents["escaped"]), root_of(&documents["plain"]));
}

/// Aiven-Open/opensearch-connector-for-apache-kafka 4.0: `OpenSearchTaskHandler`, `BulkProcessor` and
/// `BulkOperationBuilder` in the package `io.aiven.kafka.connect.opensearch`; opensearch-project/opensearch-java 3.8:
/// `ApacheHttpClient5Transport`.
#[tokio::test]
async fn kafka_connect() {
    let send = |method: &str, target: &str, body: String| {
        Request::new(method, target).header("Content-Type", "application/json; charset=UTF-8").body(body)
    };
    // It makes the index, and goes on if it is there.
    let create = send("PUT", "/@index?wait_for_active_shards=1", r#"{"mappings":{"dynamic":"true"}}"#.to_owned());
    let record = |text: &str| format!(r#"{{"content":"{text}"}}"#);
    // The offset of the record is the version of the document.
    let versioned = |offset: u64| {
        move |id: &str| {
            format!(r#"{{"index":{{"_id":"{id}","_index":"@index","version":{offset},"version_type":"external"}}}}"#)
        }
    };
    let upsert = |text: &str| {
        let document = record(text);
        format!(r#"{{"doc":{document},"doc_as_upsert":true,"upsert":{document}}}"#)
    };
    let update = |id: &str| format!(r#"{{"update":{{"_id":"upsert-{id}","_index":"@index","retry_on_conflict":3}}}}"#);
    let writes = [
        send("POST", "/_bulk", bulk(versioned(7), record)),
        // The records came once more, with later offsets.
        send("POST", "/_bulk", bulk(versioned(1007), record)),
        // `index.write.method=upsert`.
        send("POST", "/_bulk", bulk(update, upsert)),
    ];
    let documents = replayed(SearchServer::OpenSearch, "kafka-connect", &[create], &writes).await;
    verify_groups(&documents);
}

on_each_server!(data_prepper);

/// opensearch-project/data-prepper 2.17: `OpenSearchSink`, `AbstractIndexManager`, `NoIsmPolicyManagement` and
/// `BulkOperationFactory` in the package `org.opensearch.dataprepper.plugins.sink.opensearch`;
/// opensearch-project/opensearch-java 2.20: `RestClientTransport`.
async fn data_prepper(search_server: SearchServer) {
    let send = |method: &str, target: &str, body: String| {
        Request::new(method, target).header("Content-Type", "application/json; charset=UTF-8").body(body)
    };
    let handshake = [
        // Is there a plugin for index states; is the index there; is its name an alias.
        Request::get("/_cluster/settings?include_defaults=true"),
        Request::new("HEAD", "/@index"),
        Request::get("/"),
        Request::new("HEAD", "/_alias/@index"),
    ];
    let record = |text: &str| format!(r#"{{"content":"{text}"}}"#);
    let index = |id: &str| format!(r#"{{"index":{{"_id":"{id}","_index":"@index"}}}}"#);
    let update = |id: &str| format!(r#"{{"update":{{"_id":"upsert-{id}","_index":"@index"}}}}"#);
    let create = |_: &str| r#"{"create":{"_index":"@index"}}"#.to_owned();
    let upsert = |text: &str| {
        let document = record(text);
        format!(r#"{{"doc":{document},"upsert":{document}}}"#)
    };
    let bulk_with = "/_bulk?filter_path=errors%2Ctook%2Citems.*.error%2Citems.*.status%2Citems.*._index%2Citems.*._id";
    let writes = [
        send("POST", bulk_with, bulk(index, record)),
        send("POST", bulk_with, bulk(create, record)),
        send("POST", bulk_with, bulk(update, upsert)),
    ];
    let documents = replayed(search_server, "data-prepper", &handshake, &writes).await;
    verify_groups(&documents);
}
