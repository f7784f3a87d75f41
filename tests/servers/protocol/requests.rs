//! Points 13, 14, 15 and 17: names that stand for indices, query strings, refusals, streaming bulks.

use reqwest::Method;
use serde_json::json;

use crate::common::fake::{self, Fake, Reply};
use crate::common::twin::{Twins, article, start, stats_now, text};
use crate::common::wire::{Request, Wire};
use crate::common::{self, SearchServer, on_each_server, root_of};

/// Data streams take `create` only and answer with the name of a backing index.
#[tokio::test]
async fn point_13_data_streams() {
    let twins = Twins::new(&common::opensearch(), "p13").await;
    let (server, direct, proxied) = (&twins.server, &twins.direct.index, &twins.proxied.index);
    let template = json!({
        "index_patterns": [format!("{direct}-ds"), format!("{proxied}-ds")],
        "data_stream": {},
        "template": {"settings": {"number_of_shards": 1, "number_of_replicas": 0}},
    });
    let path = format!("/_index_template/{direct}");
    let (status, answer) = server.request(Method::PUT, &path, Some(template)).await;
    assert_eq!(status, 200, "{answer}");
    let article = |op: &str, n: usize| {
        let (action, source) = (format!("{{\"{op}\":{{}}}}"), text(n));
        format!("{action}\n{{\"@timestamp\":\"2026-01-01T00:00:00Z\",\"content\":\"{source}\"}}\n")
    };
    let body = article("create", 1) + &article("index", 2) + &article("create", 1);
    let answer = twins.same(&Request::bulk("/@index-ds/_bulk?refresh=true", body)).json();
    let made = &answer["items"][0]["create"]["_index"];
    assert_eq!(made, ".ds-@index-ds-000001");
    assert_eq!(answer["items"][1]["index"]["status"], 400, "{answer}");
    let source = article("create", 3).lines().nth(1).unwrap().to_owned();
    for (method, path, status) in [
        ("POST", "/@index-ds/_doc?op_type=create&refresh=true", 201),
        ("PUT", "/@index-ds/_create/given?refresh=true", 201),
        ("PUT", "/@index-ds/_doc/given", 400),
    ] {
        let answer = twins.same(&Request::json(method, path, &source));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let documents = server.documents(&format!("{proxied}-ds")).await;
    assert_eq!(documents.len(), 4);
    assert!(documents.values().all(|source| root_of(source).is_some()));
    assert_eq!(twins.nodes(), 2, "the refused text left its node");
    for stream in [direct, proxied] {
        let path = format!("/_data_stream/{stream}-ds");
        server.request(Method::DELETE, &path, None).await;
    }
    let path = format!("/_index_template/{direct}");
    server.request(Method::DELETE, &path, None).await;
    twins.end().await;
}

on_each_server!(point_13_aliases_and_names_with_dates);

/// Routes go by the name that the writer uses, and if none names that, by the index behind it.
async fn point_13_aliases_and_names_with_dates(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p13";
    let twins = Twins::new(&upstream, label).await;
    for alias in ["@index-alias", "plain-@index"] {
        twins.prepare(&Request::new("PUT", format!("/@index/_alias/{alias}")));
    }
    twins.same(&Request::bulk("/@index-alias/_bulk", article("a", 1)));
    twins.same(&Request::bulk("/@index-alias/_bulk?require_alias=true", article("b", 2)));
    twins.same(&Request::bulk("/@index/_bulk?require_alias=true", article("c", 3)));
    // No route names this alias, but one names its index.
    twins.same(&Request::bulk("/plain-@index/_bulk", article("d", 4)));
    let document = "{\"content\":\"a single document under an alias\"}";
    twins.same(&Request::json("PUT", "/plain-@index/_doc/f", document));
    let mixed = article("g", 6).replace("{\"_id\"", "{\"_index\":\"plain-@index\",\"_id\"");
    twins.same(&Request::bulk("/_bulk", mixed));
    let named = article("e", 5).replace("{\"_id\"", "{\"_index\":\"@index-alias\",\"_id\"");
    twins.same(&Request::bulk("/plain-@index/_bulk", named));
    assert_eq!(twins.all_stamped().await.len(), 6);

    let dated = Request::bulk("/%3C@index-%7Bnow%2Fy%7Byyyy%7D%7D%3E/_bulk", article("a", 1));
    let answer = twins.same(&dated).json();
    let year = answer["items"][0]["index"]["_index"].as_str().unwrap();
    let name = |index: &str| year.replace("@index", index);
    let stored = twins.server.get(&name(&twins.proxied.index), "a").await.unwrap();
    // The pattern is news-*, the name as written begins with a bracket.
    assert!(root_of(&stored).is_some());
    for side in [&twins.direct, &twins.proxied] {
        twins.server.delete_index(&name(&side.index)).await;
    }
    twins.end().await;
}

/// What is written past spinney has no stamp; the requests themselves are relayed.
#[tokio::test]
async fn point_13_writes_past_the_door() {
    let twins = Twins::new(&common::opensearch(), "p13").await;
    twins.same(&Request::bulk("/@index/_bulk?refresh=true", article("a", 1)));
    let reindex = r#"{"source":{"index":"@index"},"dest":{"index":"@index-copy"}}"#;
    twins.same(&Request::json("POST", "/_reindex?refresh=true&filter_path=total,created", reindex));
    let script = r#"{"script":"ctx._source.n = 5"}"#;
    twins.same(&Request::json("POST", "/@index/_update_by_query?filter_path=updated", script));
    let documents = twins.same_documents().await;
    assert_eq!(documents["a"]["n"], 5);
    for side in [&twins.direct, &twins.proxied] {
        twins.server.delete_index(&format!("{}-copy", side.index)).await;
    }
    twins.end().await;
}

on_each_server!(point_14_query_strings);

async fn point_14_query_strings(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p14";
    let twins = Twins::new(&upstream, label).await;
    for (n, query) in [
        "refresh",
        "refresh=true",
        "refresh=wait_for",
        "refresh=maybe",
        "timeout=2s",
        "timeout=zzz",
        "wait_for_active_shards=1",
        "wait_for_active_shards=7&timeout=100ms",
        "routing=a%2Fb",
        "pipeline=_none",
        "pipeline=there-is-none",
        "require_alias=true",
        "require_alias=false",
        "_source=true",
        "_source_includes=n",
        "error_trace=true",
        "human&pretty",
        "foo=bar",
        "filter_pat=x",
        "op_type=create",
        "type=_doc",
        "batch_size=1",
        "require_data_stream=true",
        "pretty=maybe",
        "refresh=true&refresh=false",
        "&&&",
        "refresh=%74rue",
        "%zz",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/@index/_bulk?{query}");
        twins.same(&Request::bulk(&path, article(&format!("id-{n}"), n)));
        if query.starts_with("wait_for_active_shards=7") {
            // For one document this answer repeats the source, which has the stamp.
            continue;
        }
        let path = format!("/@index/_doc/doc-{n}?{query}");
        let document = format!("{{\"content\":\"{}\"}}", text(n));
        twins.same(&Request::json("PUT", &path, document));
    }
    let documents = twins.same_documents().await;
    assert!(documents.len() > 20);
    assert!(documents.values().all(|source| root_of(source).is_some()));
    twins.end().await;
}

/// The target goes on as it came, to the byte.
#[tokio::test]
async fn point_14_targets_are_never_touched() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{}")));
    let spinney = start(&fake.url, &[]);
    for target in [
        "/news-x/_bulk?refresh=&a=%2F+b&&x&=&q=%e4%B8",
        "/news-x/_bulk?",
        "/news-x/_bulk/?a=?/b",
        "/news-x/_doc/a%2Fb%2e%2E%252F?x=a;b",
        "/news%2Dx/_doc/..%2f",
        "//_bulk",
        "/news-x/_doc/a+b*c'd(e)!~$@:,;=&{\"a\"}?routing=a+b*c'd(e)!~$@:,;=&",
        "/a/../b/./c//d/",
        "/%zz/%",
        "/_search?q=a|b^c`d{}[]",
        "/<news-{now/d}>/_bulk",
        "/news-x\\_bulk",
        "/?",
        "/",
    ] {
        for (method, kind) in [("POST", "application/x-ndjson"), ("GET", "text/plain")] {
            let request = Request::new(method, target).header("Content-Type", kind).body(article("a", 1));
            let before = fake.received().len();
            let answer = request.to(&spinney.url);
            if target.contains('<') {
                // Such bytes are no part of a target (RFC 3986); the servers forgive them, hyper does not.
                assert_eq!((answer.status, fake.received().len()), (400, before));
                continue;
            }
            assert_eq!(answer.status, 200, "{target}");
            assert_eq!(fake.last().target(), target);
        }
    }
}

/// A refusal is passed on with its headers, once; the client knows best when to come back.
#[tokio::test]
async fn point_15_refusals_are_relayed_and_never_retried() {
    for status in [429, 503, 502, 500] {
        let body = r#"{"error":{"type":"made_up","reason":"not now"},"status":0}"#;
        let fake =
            Fake::start(move |_| Reply::Bytes(fake::json(status, "Retry-After: 17\r\nX-Why: because\r\n", body)));
        let spinney = start(&fake.url, &[]);
        let mut wire = Wire::connect(&spinney.url);
        for (n, request) in [
            Request::bulk("/news-x/_bulk", article("a", 1)),
            Request::bulk("/news-x/_bulk", article("a", 1)).gzipped(),
            Request::json("POST", "/news-x/_doc", "{\"content\":\"a\"}"),
            Request::json("POST", "/other/_doc", "{\"content\":\"a\"}"),
        ]
        .into_iter()
        .enumerate()
        {
            let answer = request.on(&mut wire);
            assert_eq!((answer.status, answer.text().as_str()), (status, body));
            assert_eq!(answer.header("retry-after"), Some("17"));
            assert_eq!(answer.header("x-why"), Some("because"));
            assert_eq!(fake.received().len(), n + 1, "sent again after {status}");
        }
    }
}

/// A connection that breaks after the request went out: the outcome is not known, and nothing is sent again.
#[tokio::test]
async fn point_15_no_replay_after_a_broken_connection() {
    let fake = Fake::start(|request| {
        if request.target() == "/" {
            return Reply::Bytes(fake::json(200, "", "{}"));
        }
        Reply::Last(Vec::new())
    });
    let spinney = start(&fake.url, &[]);
    let mut sent = 0;
    for request in [
        Request::bulk("/news-x/_bulk", article("a", 1)),
        Request::json("POST", "/news-x/_doc", format!("{{\"content\":\"{}\"}}", text(2))),
        Request::json("POST", "/other/_doc", "{\"content\":\"a\"}"),
    ] {
        // A connection that is already open is the one that tempts to try again.
        assert_eq!(Request::get("/").to(&spinney.url).status, 200);
        let answer = request.to(&spinney.url);
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert_eq!(answer.json()["error"]["type"], "spinney_upstream_broken_exception");
        assert_eq!(answer.json()["status"], 502);
        sent += 2;
        assert_eq!(fake.received().len(), sent);
    }
    let stats = common::twin::stats(&spinney.url);
    assert_eq!(common::twin::nodes(&stats), 0, "of a stranger's documents nothing is kept that may not be stored");
    assert_eq!(stats["counters"]["upstream_broken"], 3);
}

/// Over its own budget spinney answers as a cluster does, and says when to come back.
#[tokio::test]
async fn point_15_over_budget() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{\"items\":[]}")));
    // Room for one of these bulks and what its lines take, not for two.
    let spinney = start(&fake.url, &["--budget", "300000"]);
    let body = article("a", 1) + &" ".repeat(200_000) + "\n";
    let bulk = Request::bulk("/news-x/_bulk", &body);
    let bulk = bulk.header("X-Opaque-Id", "me");
    let mut wires = [Wire::connect(&spinney.url), Wire::connect(&spinney.url)];
    // The first has sent all but its last byte, and has room for what it has sent.
    let bytes = bulk.bytes();
    let (begun, rest) = bytes.split_at(bytes.len() - 1);
    wires[0].send(begun);
    common::wait_until("the first bulk has its room", || {
        stats_now(&spinney.url)["budget"]["used_bytes"] == body.len() - 1
    });
    let refused = bulk.on(&mut wires[1]);
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("x-opaque-id"), Some("me"));
    let answer = refused.json();
    assert_eq!(answer["status"], 429);
    let kind = "spinney_over_budget_exception";
    assert_eq!(answer["error"]["type"], kind);
    assert_eq!(answer["error"]["root_cause"][0]["type"], kind);
    wires[0].send(rest);
    let taken = wires[0].last_answer(false);
    assert_eq!(taken.status, 200, "{}", taken.text());
    for wire in &mut wires {
        // Until the one before has given its room back.
        common::twin::stats(&spinney.url);
        let again = bulk.on(wire);
        assert_eq!(again.status, 200, "there is room again: {}", again.text());
    }
}

on_each_server!(point_15_items_that_are_refused_for_now);

/// Items that the cluster refuses for now come through and leave no nodes.
async fn point_15_items_that_are_refused_for_now(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p15";
    let twins = Twins::new(&upstream, label).await;
    for (setting, status) in [("blocks.read_only_allow_delete", 429), ("blocks.write", 403)] {
        let set = |value: &str| {
            let body = format!("{{\"index.{setting}\":{value}}}");
            twins.prepare(&Request::json("PUT", "/@index/_settings", body));
        };
        set("true");
        let answer = twins.same(&Request::bulk("/@index/_bulk", article("a", 1))).json();
        assert_eq!(answer["items"][0]["index"]["status"], status, "{answer}");
        let document = format!("{{\"content\":\"{}\"}}", text(2));
        let single = twins.same(&Request::json("PUT", "/@index/_doc/b", document));
        assert_eq!(single.status, status);
        assert_eq!(twins.nodes(), 0, "after {status}");
        set("null");
    }
    twins.end().await;
}

on_each_server!(point_17_streaming_bulks);

/// Only another transport than the usual one knows these.
async fn point_17_streaming_bulks(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p17";
    let twins = Twins::new(&upstream, label).await;
    for path in ["/_bulk/stream", "/@index/_bulk/stream"] {
        let request = Request::bulk(path, article("a", 1));
        twins.same(&request);
        twins.same(&request.method("PUT").chunked(20));
    }
    assert_eq!(twins.nodes(), 0);
    assert_eq!(twins.counter("bulk_requests"), 0);
    twins.end().await;
}

/// Through it comes in pieces as it is, not held and not stamped.
#[tokio::test]
async fn point_17_a_streaming_bulk_is_not_held() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{}")));
    let spinney = start(&fake.url, &[]);
    let request = Request::bulk("/news-x/_bulk/stream", article("a", 1)).chunked(20);
    assert_eq!(request.to(&spinney.url).status, 200);
    let got = fake.last();
    assert_eq!(got.headers("transfer-encoding"), ["chunked"]);
    assert!(!String::from_utf8_lossy(&got.body).contains("cluster_root"));
}
