//! Points 1, 2 and 19: which requests carry documents.

use crate::common::twin::{Twins, article, text};
use crate::common::wire::Request;
use crate::common::{SearchServer, on_each_server, root_of};

/// A bulk whose action names the index itself.
fn named(id: &str, n: usize) -> String {
    article(id, n).replace("{\"_id\"", "{\"_index\":\"@index\",\"_id\"")
}

fn document(n: usize) -> String {
    format!("{{\"content\":\"{}\",\"n\":{n}}}", text(n))
}

on_each_server!(point_01_bulk_routes);

async fn point_01_bulk_routes(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p01";
    let twins = Twins::new(&upstream, label).await;
    let mut stored = 0;
    for (n, (method, path)) in [
        ("POST", "/_bulk"),
        ("PUT", "/_bulk"),
        ("POST", "/_bulk/"),
        ("POST", "/_bulk//"),
        ("POST", "//_bulk"),
        ("POST", "/_bulk?"),
        ("POST", "/@index/_bulk"),
        ("PUT", "/@index/_bulk"),
        ("POST", "/@index/_bulk/"),
        ("POST", "/@coded/_bulk"),
        ("POST", "/no-route-of-ours/_bulk"),
    ]
    .into_iter()
    .enumerate()
    {
        let body = named(&format!("id-{n}"), n);
        let answer = twins.same(&Request::bulk(path, body).method(method));
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        stored += 1;
    }
    let documents = twins.all_stamped().await;
    assert_eq!(documents.len(), stored);
    twins.end().await;
}

on_each_server!(point_01_single_documents);

async fn point_01_single_documents(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p01";
    let twins = Twins::new(&upstream, label).await;
    for (n, (method, path, status)) in [
        ("PUT", "/@index/_doc/x", 201),
        ("POST", "/@index/_doc/y", 201),
        ("POST", "/@index/_doc/z/", 201),
        ("POST", "/@index/_doc", 201),
        ("POST", "/@index/_doc/", 201),
        ("PUT", "/@index/_create/c", 201),
        ("POST", "/@index/_create/d", 201),
        ("POST", "/@index/_create/d", 409),
        ("PUT", "/@index/_doc/a%2Fb", 201),
        ("PUT", "/@index/_doc/a%252Fb", 201),
        ("PUT", "/@index/_doc/a+b", 201),
        ("PUT", "/@index/_doc/a%20b", 201),
        ("PUT", "/@index/_doc/%E4%B8%AD", 201),
        ("PUT", "/@index/_doc/\u{4e2d}", 201),
        ("PUT", "/@index/_doc/%E4%B8", 201),
        ("PUT", "/@coded/_doc/coded", 201),
        ("PUT", "/@index/_doc/op?op_type=create", 201),
        ("PUT", "/@index/_doc/op?op_type=create", 409),
        ("PUT", "/@index/_doc/v?version=7&version_type=external", 201),
        ("PUT", "/@index/_doc/r?routing=a%2Fb&refresh=true", 201),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = twins.same(&Request::json(method, path, document(n)));
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
    let update = format!("{{\"doc\":{}}}", document(100));
    for path in ["/@index/_update/x", "/@index/_update/a%2Fb/"] {
        let answer = twins.same(&Request::json("POST", path, &update));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    let documents = twins.all_stamped().await;
    assert!(documents.contains_key("a/b") && documents.contains_key("a%2Fb"));
    twins.end().await;
}

on_each_server!(point_01_what_is_no_route_is_answered_by_the_server);

async fn point_01_what_is_no_route_is_answered_by_the_server(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p01";
    let twins = Twins::new(&upstream, label).await;
    for (method, path) in [
        ("GET", "/_bulk"),
        ("DELETE", "/_bulk"),
        ("PATCH", "/_bulk"),
        ("OPTIONS", "/_bulk"),
        ("HEAD", "/_bulk"),
        ("POST", "/@index//_bulk"),
        ("POST", "/@index/_Bulk"),
        ("POST", "/@index/%5Fbulk"),
        ("POST", "/@index/_bulk;x"),
        ("POST", "/@index/_bulk%2F"),
        ("POST", "/@index%2F_bulk"),
        ("POST", "/@index/../@index/_bulk"),
        ("POST", "/./@index/_bulk"),
        ("POST", "/@index,@index/_bulk"),
        ("POST", "/news-*/_bulk"),
        ("POST", "/_all/_bulk"),
        ("PUT", "/@index/_doc"),
        ("PUT", "/@index/_update/x"),
        ("POST", "/@index/_create"),
        ("POST", "/@index//_doc/x"),
        ("POST", "/@index/_doc//x"),
        ("POST", "/@index/_doc/a/b"),
        ("POST", "/%zz/_bulk"),
        ("GET", "/@index/_doc/none"),
        ("DELETE", "/@index/_doc/none"),
        ("HEAD", "/@index"),
    ] {
        let mut request = Request::bulk(path, article("x", 1)).method(method);
        if matches!(method, "GET" | "HEAD" | "OPTIONS" | "DELETE") {
            request = request.without("content-type").body("");
        }
        twins.same(&request);
    }
    assert!(twins.same_documents().await.is_empty());
    assert_eq!(twins.nodes(), 0, "what was refused left nodes");
    twins.end().await;
}

on_each_server!(point_01_typed_forms);

/// Elasticsearch 7 takes types in paths, OpenSearch and Elasticsearch 8 refuse them.
async fn point_01_typed_forms(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p01";
    let stored = search_server.expected().types_in_paths;
    let twins = Twins::new(&upstream, label).await;
    twins.same(&Request::bulk("/@index/_doc/_bulk", article("a", 1)));
    twins.same(&Request::json("PUT", "/@index/_doc/b/_create", document(2)));
    let update = format!("{{\"doc\":{}}}", document(3));
    twins.same(&Request::json("POST", "/@index/_doc/b/_update", update));
    // Another type than the index has.
    twins.same(&Request::bulk("/@index/kind/_bulk", article("c", 4)));
    twins.same(&Request::json("POST", "/@index/kind", document(5)));
    twins.same(&Request::json("PUT", "/@index/kind/d", document(6)));
    // A new index gets the type that the path names.
    twins.same(&Request::json("PUT", "/@index-new/kind/d", document(7)));
    let documents = twins.all_stamped().await;
    let ids: Vec<&str> = documents.keys().map(String::as_str).collect();
    assert_eq!(ids, if stored { vec!["a", "b"] } else { vec![] });
    if stored {
        for side in [&twins.direct, &twins.proxied] {
            twins.server.delete_index(&format!("{}-new", side.index)).await;
        }
    }
    assert_eq!(twins.nodes(), if stored { 4 } else { 0 });
    twins.end().await;
}

on_each_server!(point_19_typed_apis);

/// APIs with a type in their path are no documents, whatever they are called.
async fn point_19_typed_apis(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p19";
    let twins = Twins::new(&upstream, label).await;
    twins.prepare(&Request::json("PUT", "/@index/_doc/a?refresh=true", document(1)));
    let query = "{\"query\":{\"match_all\":{}}}";
    for kind in ["_doc", "kind"] {
        for (api, body) in [
            ("_search?filter_path=hits.total", query),
            ("_count", query),
            ("_validate/query", query),
            ("_msearch?filter_path=responses.hits.total", "{}\n{\"size\":0}\n"),
            ("_mget", "{\"ids\":[\"a\"]}"),
            ("_termvectors", "{\"doc\":{\"content\":\"a harbour\"}}"),
            ("a/_explain", query),
            ("_search/template", "{\"source\":{\"size\":0}}"),
            ("_unheard_of", "{\"content\":\"a\"}"),
        ] {
            // On OpenSearch `_doc` is no type, and what follows it is an id.
            if kind == "_doc" && (search_server == SearchServer::OpenSearch || api == "_unheard_of") {
                continue;
            }
            let path = format!("/@index/{kind}/{api}");
            twins.same(&Request::json("POST", &path, body));
        }
    }
    assert_eq!(twins.counter("document_requests"), 0);
    assert_eq!(twins.nodes(), 0);
    twins.end().await;
}

on_each_server!(point_02_content_types);

async fn point_02_content_types(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p02";
    let twins = Twins::new(&upstream, label).await;
    let mut stored = 0;
    for (n, kind) in [
        "application/x-ndjson",
        "application/json",
        "Application/X-NDJSON",
        "application/json; charset=UTF-8",
        "application/x-ndjson;charset=utf-8",
        "application/json;foo=bar",
        "application/vnd.elasticsearch+x-ndjson;compatible-with=8",
        "application/vnd.elasticsearch+x-ndjson;compatible-with=7",
        "application/vnd.elasticsearch+json; compatible-with=7",
        "application/vnd.opensearch+json;compatible-with=3",
        "application/vnd.opensearch+x-ndjson",
        "application/*",
        "application/ndjson",
        "text/plain",
        "text/json",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "application/cbor",
        "application/yaml",
        "*/*",
        "json",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("id-{n}");
        let request =
            Request::bulk("/@index/_bulk", article(&id, n)).without("content-type").header("Content-Type", kind);
        stored += usize::from(twins.same(&request).status == 200);
        let path = format!("/@index/_doc/doc-{n}");
        let single = request.with("/@index/_bulk", &path).body(document(1000 + n));
        stored += usize::from(twins.same(&single).status == 201);
    }
    let without = Request::bulk("/@index/_bulk", article("x", 100)).without("content-type");
    assert_eq!(twins.same(&without).status, 406);
    let twice = Request::bulk("/@index/_bulk", article("x", 100)).header("Content-Type", "application/json");
    twins.same(&twice);
    let documents = twins.same_documents().await;
    assert_eq!(documents.len(), stored);
    assert!(stored >= if search_server.expected().versions_in_both { 15 } else { 16 }, "{stored}");
    for (id, source) in &documents {
        // JSON is YAML too, but spinney reads no YAML.
        let is_yaml = id == "doc-18";
        assert_eq!(root_of(source).is_some(), !is_yaml, "{id}");
    }
    twins.end().await;
}

on_each_server!(point_02_content_types_with_a_version);

/// What the clients of Elasticsearch 8 and 9 send is stamped, plain and gzip. OpenSearch refuses it.
async fn point_02_content_types_with_a_version(search_server: SearchServer) {
    let taken = search_server.expected().compatible_with;
    let twins = Twins::new(&search_server.url(), "p02").await;
    let mut stored = 0;
    for version in [7, 8, 9] {
        let accept = format!("application/vnd.elasticsearch+json; compatible-with={version}");
        for kind in ["x-ndjson", "json"] {
            let id = format!("{kind}-{version}");
            let content_type = format!("application/vnd.elasticsearch+{kind}; compatible-with={version}");
            let single = (format!("/@index/_doc/single-{id}"), document(stored));
            let bulks = ["plain", "gzip"]
                .map(|coding| ("/@index/_bulk".to_owned(), article(&format!("{coding}-{id}"), stored)));
            for (path, body) in bulks.into_iter().chain([single]) {
                let gzip = body.contains("gzip-");
                let request = Request::bulk(&path, body).without("content-type").header("Content-Type", &content_type);
                let request = request.header("Accept", &accept);
                let answer = twins.same(&if gzip { request.gzipped() } else { request });
                let refused = if search_server == SearchServer::OpenSearch { 406 } else { 400 };
                if taken.contains(&version) {
                    assert!(answer.status < 300, "{content_type} {path}: {}", answer.text());
                    stored += 1;
                } else {
                    assert_eq!(answer.status, refused, "{content_type} {path}: {}", answer.text());
                }
            }
        }
    }
    let documents = twins.all_stamped().await;
    assert_eq!(documents.len(), stored);
    assert_eq!(stored, 6 * taken.len());
    twins.end().await;
}

/// `{key: value}` in SMILE, with a key and a value of at most 32 ASCII letters; the value `None` is an empty object.
fn smile(key: &str, value: Option<&str>) -> Vec<u8> {
    let short = |base: u8, text: &str| {
        let length = u8::try_from(text.len() - 1).unwrap();
        [&[base + length], text.as_bytes()].concat()
    };
    let value = value.map_or(vec![0xfa, 0xfb], |value| short(0x40, value));
    [b":)\n\0\xfa".to_vec(), short(0x80, key), value, vec![0xfb]].concat()
}

on_each_server!(point_02_other_formats_are_relayed);

/// Formats that spinney does not read go through as they are, documents unstamped, and it says so.
async fn point_02_other_formats_are_relayed(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p02";
    let twins = Twins::new(&upstream, label).await;
    let action = smile("index", None);
    let source = smile("content", Some("a harbour full of boats"));
    let body = [&action[..], b"\xff", &source, b"\xff"].concat();
    let request = Request::new("POST", "/@index/_bulk?filter_path=errors,items.*.result")
        .header("Content-Type", "application/smile")
        .body(&body);
    let answer = twins.same(&request);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/smile"), "{kind}");
    for kind in ["application/cbor", "application/yaml"] {
        let request = Request::new("POST", "/@index/_bulk").header("Content-Type", kind).body(b"\xa1\x65index\xa0\n");
        assert_eq!(twins.same(&request).status, 406);
    }
    let yaml = Request::new("PUT", "/@index/_doc/yaml")
        .header("Content-Type", "application/yaml")
        .body("---\ncontent: \"a harbour\"\n");
    assert_eq!(twins.same(&yaml).status, 201);
    twins.server.refresh(&twins.proxied.index).await;
    let documents = twins.server.documents(&twins.proxied.index).await;
    assert_eq!(documents.len(), 2);
    assert!(documents.values().all(|source| root_of(source).is_none()));
    assert_eq!(twins.counter("bodies_not_understood"), 4);
    twins.end().await;
}

/// A document in UTF-16 or UTF-32 is one to the servers, also in a bulk whose other lines are UTF-8: it passes as it
/// is, without a stamp, or is refused with its bulk.
#[tokio::test]
async fn point_09_other_encodings_are_stored() {
    let source = document(1);
    let little: Vec<u8> = source.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide: Vec<u8> = source.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    for what in ["pass", "refuse"] {
        let twins = Twins::with(&crate::common::opensearch(), "p09", &["--unstamped", what]).await;
        let mut passed = 0;
        for (n, source) in [&little, &wide].into_iter().enumerate() {
            let lines = format!("{{\"index\":{{\"_id\":\"b-{n}\"}}}}\n");
            let bulk = Request::bulk("/@index/_bulk", [lines.as_bytes(), source, b"\n"].concat());
            let single = Request::json("PUT", &format!("/@index/_doc/s-{n}"), source);
            for request in [bulk, single] {
                match what {
                    "pass" => {
                        let answer = twins.same(&request);
                        assert!(answer.status < 300 && !answer.text().contains("error\""), "{}", answer.text());
                        passed += 1;
                    }
                    _ => {
                        let answer = twins.proxied.request(&request).to(&twins.proxied.url);
                        assert_eq!(answer.status, 400, "{}", answer.text());
                        assert_eq!(answer.json()["error"]["type"], "spinney_unstamped_exception");
                    }
                }
            }
        }
        // Their sources stand in UTF-16 in the answers of the server, so that these are no JSON.
        twins.server.refresh(&twins.proxied.index).await;
        for (query, expected) in [("*:*", passed), ("_exists_:cluster_root", 0)] {
            let path = format!("/{}/_count?q={query}", twins.proxied.index);
            let (_, answer) = twins.server.request(reqwest::Method::GET, &path, None).await;
            assert_eq!(answer["count"], expected, "{what} {query}");
        }
        twins.end().await;
    }
}
