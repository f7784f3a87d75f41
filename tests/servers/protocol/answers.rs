//! Points 10 to 12: answers as they come, what they settle, and the two headers and one body that spinney writes into
//! them.

use crate::common::fake::{self, Fake, Reply};
use crate::common::twin::{Twins, article, assert_same, nodes, only_forest, start, stats, text};
use crate::common::wire::{Request, Wire};
use crate::common::{self, SearchServer, on_each_server};

/// A good document, one that exists, and one with a date that is none.
fn mixed(n: usize) -> String {
    let exists = article("there", n + 1).replace("\"index\"", "\"create\"");
    let bad_day = article("bad", n + 2).replace(&format!("\"n\":{}", n + 2), "\"day\":\"no day\"");
    article(&format!("good-{n}"), n) + &exists + &bad_day
}

on_each_server!(point_10_answers_settle_what_they_tell_of);

async fn point_10_answers_settle_what_they_tell_of(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p10";
    let twins = Twins::new(&upstream, label).await;
    twins.prepare(&Request::bulk("/@index/_bulk", article("there", 999)));
    // Known writers' documents are placed before they are sent.
    twins.same(&Request::bulk("/@index/_bulk", article("first", 998)));
    for (n, (query, settled)) in [
        ("", true),
        ("?pretty", true),
        ("?format=yaml", false),
        ("?error_trace=true", true),
        ("?filter_path=took,errors", true),
        ("?filter_path=errors", true),
        ("?filter_path=nothing.like.it", true),
        ("?filter_path=items.*.error", true),
        ("?filter_path=items.index", true),
        ("?filter_path=items.*.status", true),
        ("?filter_path=items.*.status,items.*._id", true),
        ("?filter_path=-took", true),
        ("?filter_path=-items.*._index,-items.*.error", true),
        ("?%66ilter_path=errors", true),
        ("?filter_path=errors&pretty", false),
        ("?filter_path=took&filter_path=errors", false),
    ]
    .into_iter()
    .enumerate()
    {
        let (nodes, withdrawn) = (twins.nodes(), twins.counter("nodes_withdrawn"));
        let path = format!("/@index/_bulk{query}");
        let answer = twins.same(&Request::bulk(&path, mixed(n * 10)));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        // One document was stored, two were refused.
        let (left, gone) = if settled { (1, 2) } else { (3, 0) };
        assert_eq!(twins.nodes() - nodes, left, "{label} {query}: nodes");
        let withdrawn = twins.counter("nodes_withdrawn") - withdrawn;
        assert_eq!(withdrawn, gone, "{label} {query}: withdrawn");
    }
    let unmatched = twins.counter("responses_unmatched");
    assert_eq!(unmatched, 3, "answers that do not tell of every item");
    twins.same_documents().await;
    twins.end().await;
}

/// A format that is not read would leave the outcome of each document unknown.
#[tokio::test]
async fn point_10_other_formats_are_answered_in_json() {
    let twins = Twins::new(&common::opensearch(), "p10-formats").await;
    for (n, format) in ["application/cbor", "application/smile", "application/yaml"].into_iter().enumerate() {
        let before = twins.counter("responses_unmatched");
        let bulk = article(&format!("first-{n}"), 40 + n) + &article(&format!("second-{n}"), 40 + n);
        let request = Request::bulk("/@index/_bulk", bulk).header("Accept", format);
        let answer = twins.proxied.send(&mut Wire::connect(&twins.proxied.url), &request);
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["items"].as_array().map(Vec::len), Some(2), "{format}: {body}");
        assert_eq!(twins.counter("responses_unmatched"), before);
    }
    twins.end().await;
}

/// The node of a refused document stays if somebody else uses it.
#[tokio::test]
async fn point_10_only_unused_nodes_are_withdrawn() {
    let twins = Twins::new(&common::opensearch(), "p10").await;
    let bad = article("bad", 1).replace("\"n\":1", "\"day\":\"no day\"");
    twins.same(&Request::bulk("/@index/_bulk", article("a", 1) + &bad));
    assert_eq!(twins.nodes(), 1);
    // Refused first, stored second, in one bulk: the second is a copy of the first.
    let bad = article("bad", 2).replace("\"n\":2", "\"day\":\"no day\"");
    twins.same(&Request::bulk("/@index/_bulk", bad + &article("b", 2)));
    assert_eq!(twins.nodes(), 2);
    let documents = twins.same_documents().await;
    let retry = twins.same(&Request::bulk("/@index/_bulk", article("b", 2)));
    assert_eq!(retry.status, 200);
    let again = twins.same_documents().await;
    assert_eq!(common::root_of(&documents["b"]), common::root_of(&again["b"]));
    twins.end().await;
}

/// Whatever the method: the nodes of what was refused go, those of what was stored stay, and nothing else changes.
#[tokio::test]
async fn point_10_every_method_withdraws() {
    let long = |id: &str, n: usize| {
        let sentences: Vec<String> = (0..5).map(|at| text(n * 10 + at)).collect();
        article(id, n).replace(&text(n), &sentences.join(". "))
    };
    for method in ["longest", "full", "sentences:3", "verified"] {
        let upstream = common::opensearch();
        let twins = Twins::with(&upstream, "p10", &["--method", method]).await;
        twins.same(&Request::bulk("/@index/_bulk", long("a", 1)));
        let before = twins.stats();
        assert!(nodes(&twins.stats()) > 0, "{method}");
        let bad = long("bad", 2).replace("\"n\":2", "\"day\":\"no day\"");
        let answer = twins.same(&Request::bulk("/@index/_bulk", &bad)).json();
        assert_eq!(answer["errors"], true, "{method}");
        // Refused as a whole.
        let whole = long("b", 3) + "{\"index\":\n";
        assert_eq!(twins.same(&Request::bulk("/@index/_bulk", whole)).status, 400);
        let document = bad.lines().nth(1).unwrap();
        let single = twins.same(&Request::json("PUT", "/@index/_doc/bad", document));
        assert_eq!(single.status, 400);
        let after = twins.stats();
        for count in ["nodes", "roots"] {
            let (before, after) = (&only_forest(&before)[count], &only_forest(&after)[count]);
            assert_eq!(before, after, "{method}: {count}");
        }
        twins.same_documents().await;
        twins.end().await;
    }
}

/// Nothing of an unverified writer's documents is kept that the cluster has not said it stores.
#[tokio::test]
async fn point_10_whole_answers() {
    for (status, left) in [
        (302, 0),
        (400, 0),
        (401, 0),
        (403, 0),
        (404, 0),
        (406, 0),
        (413, 0),
        (429, 0),
        (408, 0),
        (500, 0),
        (502, 0),
        (503, 0),
        (504, 0),
    ] {
        let fake = Fake::start(move |_| Reply::Bytes(fake::json(status, "", "{\"made\":\"up\"}")));
        let spinney = start(&fake.url, &[]);
        let document = format!("{{\"content\":\"{}\"}}", text(2));
        for request in
            [Request::bulk("/news-x/_bulk", article("a", 1)), Request::json("PUT", "/news-x/_doc/b", document)]
        {
            let answer = request.to(&spinney.url);
            assert_eq!(answer.status, status);
            assert_eq!(answer.text(), "{\"made\":\"up\"}");
        }
        assert_eq!(nodes(&stats(&spinney.url)), left, "after {status}");
    }
}

/// Every deprecated thing in a request is a warning of its own: hundreds of them are no failure of the cluster's.
#[tokio::test]
async fn point_18_answers_with_many_headers() {
    const MANY: usize = 700;
    let warning = |n: usize| format!("299 Made-Up-7.0 \"deprecated thing number {n}, use another one\"");
    let headers: String = (0..MANY).map(|n| format!("Warning: {}\r\n", warning(n))).collect();
    let body = "{\"took\":1,\"errors\":false,\"items\":[{\"index\":{\"status\":201}}]}";
    let fake = Fake::start(move |_| Reply::Bytes(fake::json(200, &headers, body)));
    let spinney = start(&fake.url, &[]);
    for request in [Request::bulk("/news-x/_bulk", article("a", 1)), Request::get("/news-x/_search")] {
        let answer = request.to(&spinney.url);
        assert_eq!((answer.status, answer.text().as_str()), (200, body));
        let warnings = answer.headers.iter().filter(|(name, _)| name == "Warning");
        let warnings: Vec<_> = warnings.map(|(_, value)| value.clone()).collect();
        assert_eq!(warnings, (0..MANY).map(warning).collect::<Vec<_>>());
    }
    assert_eq!(stats(&spinney.url)["counters"]["upstream_broken"], 0);
}

on_each_server!(point_10_everything_else_comes_through);

async fn point_10_everything_else_comes_through(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p10";
    let twins = Twins::new(&upstream, label).await;
    twins.prepare(&Request::bulk("/@index/_bulk?refresh=true", article("a", 1) + &article("b", 2)));
    for (method, path, body) in [
        ("GET", "/@index/_doc/a", ""),
        ("HEAD", "/@index/_doc/a", ""),
        ("HEAD", "/@index/_doc/none", ""),
        ("HEAD", "/", ""),
        ("GET", "/", ""),
        ("GET", "/@index/_search?q=content:nothing", ""),
        ("POST", "/@index/_search?pretty", "{\"query\":{\"match_all\":{}},\"sort\":[\"n\"]}"),
        ("POST", "/@index/_search", "{\"query\":{\"no_such_query\":{}}}"),
        ("GET", "/@index/_search?format=yaml&q=n:1", ""),
        ("GET", "/@index/_mapping", ""),
        ("GET", "/@index/_count", ""),
        ("GET", "/_cat/indices/@index?h=index,docs.count", ""),
        ("GET", "/no-such-index/_search", ""),
        ("GET", "/_no_such_endpoint", ""),
        ("POST", "/@index/_mget", "{\"ids\":[\"a\",\"none\"]}"),
        ("POST", "/_msearch", "{\"index\":\"@index\"}\n{\"size\":0}\n"),
        ("POST", "/@index/_delete_by_query?refresh=true", "{\"query\":{\"term\":{\"n\":2}}}"),
        ("DELETE", "/@index/_doc/a", ""),
    ] {
        let request = if body.is_empty() { Request::new(method, path) } else { Request::json(method, path, body) };
        let request = request.header("X-Opaque-Id", "opaque \u{7e}!");
        twins.same(&request);
        twins.same(&request.header("Accept-Encoding", "gzip"));
    }
    twins.end().await;
}

/// Deprecations come as headers. A node says each of them once to each `X-Opaque-Id`, so that every side has one of its
/// own.
#[tokio::test]
async fn point_10_warnings() {
    let twins = Twins::new(&common::opensearch(), "p10").await;
    let [direct, proxied] = [&twins.direct, &twins.proxied].map(|side| {
        let request = Request::get("/_cat/master?h=node").header("X-Opaque-Id", &side.index);
        side.normal(request.to(&side.url))
    });
    assert_same("a deprecated endpoint", &direct, &proxied);
    assert!(proxied.header("warning").is_some(), "{proxied:?}");
    twins.end().await;
}

/// Headers of the answers to writes, in their order and spelling, come as the server sent them.
#[tokio::test]
async fn point_10_headers_of_answers() {
    let twins = Twins::new(&common::opensearch(), "p10").await;
    let bulk = Request::bulk("/@index/_bulk", article("a", 1)).header("X-Opaque-Id", "me");
    let answer = twins.same(&bulk);
    assert_eq!(answer.header("x-opaque-id"), Some("me"));
    assert!(answer.header("x-opensearch-version").is_some());
    let created = twins.same(&Request::json("PUT", "/@index/_doc/a%2Fb", "{\"content\":\"a\"}"));
    assert_eq!(created.header("location"), Some("/@index/_doc/a%2Fb"));
    let refused = twins.same(&Request::get("/@index/_bulk"));
    assert!(refused.status == 405 && refused.header("allow").is_some());
    twins.end().await;

    let odd = "X-ODD-Name: 1\r\nx-twice: a\r\nX-Twice: b\r\nWarning: 299 OpenSearch \"old\"\r\nWarning: 299 OpenSearch \"older\"\r\nX-Latin: \u{e4}\r\n";
    let fake = Fake::start(move |_| Reply::Bytes(fake::json(200, odd, "{\"items\":[]}")));
    let spinney = start(&fake.url, &[]);
    let bulk = Request::bulk("/news-x/_bulk", article("a", 1));
    let direct = bulk.to(&fake.url);
    let proxied = bulk.to(&spinney.url);
    assert_eq!(proxied.headers, direct.headers);
    assert_eq!(proxied.headers.len(), 8);
}

on_each_server!(point_11_the_product_header);

/// Elasticsearch's clients look for this header on every answer, also on those that spinney gives itself.
async fn point_11_the_product_header(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p11";
    let product = match search_server {
        SearchServer::OpenSearch => None,
        SearchServer::Elasticsearch => Some("Elasticsearch"),
    };
    let twins = Twins::with(&upstream, label, &["--budget", "50000"]).await;
    let answer = twins.same(&Request::bulk("/@index/_bulk", article("a", 1)));
    assert_eq!(answer.header("x-elastic-product"), product);
    for path in ["_stats", "_health", "_ready", "_metrics", "_none"] {
        let own = Request::get(&format!("/_spinney/{path}")).to(&twins.spinney.url);
        assert_eq!(own.header("x-elastic-product"), product, "{path}");
    }
    let large = Request::bulk("/news-x/_bulk", article("a", 1) + &" ".repeat(100_000) + "\n").to(&twins.spinney.url);
    assert_eq!(large.status, 413, "{}", large.text());
    assert_eq!(large.header("x-elastic-product"), product);
    twins.end().await;
}

on_each_server!(point_12_sniffing);

async fn point_12_sniffing(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p12";
    // Without the option nothing is rewritten.
    let twins = Twins::new(&upstream, label).await;
    let request = Request::get("/_nodes/_all/http");
    twins.same(&request);
    twins.end().await;

    let twins = Twins::with(&upstream, label, &["--publish-address", "spinney.example:9201"]).await;
    for (path, rewritten) in [
        ("/_nodes/_all/http", true),
        ("/_nodes/http?pretty", true),
        ("/_nodes/_local/http,os", true),
        ("/_nodes/http?filter_path=nodes.*.http.publish_address", true),
        ("/_nodes/_all/os", false),
        ("/_nodes/http?filter_path=_nodes", false),
    ] {
        let request = Request::get(path).header("Accept-Encoding", "gzip");
        let direct = request.to(&twins.direct.url);
        let proxied = request.to(&twins.proxied.url);
        assert_eq!(direct.status, proxied.status);
        let own = upstream.strip_prefix("http://").unwrap();
        let expected = direct
            .text()
            .replace(&format!("\"publish_address\":\"{own}\""), "\"publish_address\":\"spinney.example:9201\"");
        let expected = expected
            .replace(&format!("\"publish_address\" : \"{own}\""), "\"publish_address\" : \"spinney.example:9201\"");
        assert_eq!(proxied.text(), expected, "{path}");
        assert_eq!(expected.contains("spinney.example"), rewritten, "{path}");
    }
    twins.end().await;
}
