//! Which requests carry documents: by example, and every path that the servers have.

use std::collections::BTreeSet;

use super::*;

fn post(path: &str) -> RequestKind<'_> {
    classify(&Method::POST, path)
}

fn bulk(index: &str) -> RequestKind<'_> {
    RequestKind::Bulk { index: Some(index.into()) }
}

#[test]
fn bulks() {
    assert_eq!(post("/_bulk"), RequestKind::Bulk { index: None });
    for slashes in ["/_bulk/", "/_bulk//", "//_bulk"] {
        assert_eq!(post(slashes), RequestKind::Bulk { index: None });
    }
    assert_eq!(classify(&Method::PUT, "/news/_bulk"), bulk("news"));
    assert_eq!(post("/news/_doc/_bulk"), bulk("news"));
    assert_eq!(post("/news/article/_bulk"), bulk("news"));
    assert_eq!(post("/%3Cnews-%7Bnow%2Fd%7D%3E/_bulk"), bulk("<news-{now/d}>"));
    assert_eq!(classify(&Method::GET, "/_bulk"), RequestKind::Relay);
    for index in ["_all", "_x", "*", "-x", "_doc", "news,_all"] {
        assert_eq!(post(&format!("/{index}/_bulk")), bulk(index));
    }
    for index in ["_all", "_x", "*"] {
        let stream = RequestKind::BulkStream { index: Some(index.into()) };
        assert_eq!(post(&format!("/{index}/_bulk/stream")), stream);
    }
    assert_eq!(post("/_x/article/_bulk"), bulk("_x"));
    assert_eq!(post("/%5Fx/_bulk"), bulk("_x"));
    assert_eq!(post("/_spinney/_bulk"), RequestKind::Own("/_bulk"));
    assert_eq!(post("/_bulk/stream"), RequestKind::BulkStream { index: None });
    assert_eq!(post("/news/_bulk/stream"), RequestKind::BulkStream { index: Some("news".into()) });
    assert_eq!(classify(&Method::GET, "/_bulk/stream"), RequestKind::Relay);
}

#[test]
fn single_documents() {
    let doc = |op, id: Option<&'static str>| RequestKind::Document { op, index: "news".into(), id: id.map(Into::into) };
    assert_eq!(post("/news/_doc"), doc(Op::Index, None));
    assert_eq!(classify(&Method::PUT, "/news/_doc"), RequestKind::Relay);
    assert_eq!(classify(&Method::PUT, "/news/_doc/a%2Fb"), doc(Op::Index, Some("a/b")));
    assert_eq!(post("/news/_create/1/"), doc(Op::Create, Some("1")));
    assert_eq!(post("/news/_update/1"), doc(Op::Update, Some("1")));
    assert_eq!(classify(&Method::PUT, "/news/_update/1"), RequestKind::Relay);
    assert_eq!(post("/news/article"), doc(Op::Index, None));
    assert_eq!(classify(&Method::PUT, "/news/article/1"), doc(Op::Index, Some("1")));
    assert_eq!(classify(&Method::PUT, "/news/_doc/1/_create"), doc(Op::Create, Some("1")));
    assert_eq!(post("/news/article/1/_update"), doc(Op::Update, Some("1")));
}

#[test]
fn everything_else_is_relayed() {
    for path in ["/", "", "/news", "/news/_search", "/news/_mapping/x", "/_cat/indices", "/news/_doc/1/2/3", "//"] {
        assert_eq!(post(path), RequestKind::Relay, "{path}");
    }
    assert_eq!(classify(&Method::GET, "/news/_doc/1"), RequestKind::Relay);
    assert_eq!(classify(&Method::DELETE, "/news/_doc/1"), RequestKind::Relay);
    assert_eq!(post("/_spinneys"), RequestKind::Relay);
}

#[test]
fn what_looks_like_an_id_may_be_an_api() {
    for path in [
        "/news/article/_search",
        "/news/article/_msearch",
        "/news/article/_count",
        "/news/article/_mapping",
        "/news/article/_delete_by_query",
        "/news/article/_update_by_query",
        "/news/article/_percolate",
        "/news/article/_mget",
        "/news/article/_unheard_of",
        "/news/article/_search/template",
        "/news/article/_validate/query",
        "/news/article/1/_explain",
        "/news/article/1/_termvectors",
        "/news/article/1/_percolate",
        "/news/_doc/_search",
        "/news/_doc/_search/",
        "/news/_doc/_mapping",
        "/news/_doc/_validate/query",
        "/news/_doc/_termvectors",
    ] {
        assert_eq!(post(path), RequestKind::Relay, "{path}");
        assert_eq!(classify(&Method::PUT, path), RequestKind::Relay, "{path}");
    }
    // Ids that the servers make may begin so.
    let id = "_QdYdYsBnGvTt0kL2aWx";
    for path in ["/news/_doc/_QdYdYsBnGvTt0kL2aWx", "/news/_create/_QdYdYsBnGvTt0kL2aWx"] {
        let target = classify(&Method::PUT, path);
        assert!(matches!(&target, RequestKind::Document { id: Some(found), .. } if found == id), "{path}: {target:?}");
    }
}

/// Every path of both servers' APIs.
const REST_API: &str = include_str!("../../tests/rest-api.txt");

const METHODS: [Method; 8] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::OPTIONS,
    Method::TRACE,
];

/// Those of them that carry documents, with their methods.
const WRITES: [(&str, &str); 22] = [
    ("POST", "/_bulk"),
    ("PUT", "/_bulk"),
    ("POST", "/_bulk/stream"),
    ("PUT", "/_bulk/stream"),
    ("POST", "/{index}/_bulk/stream"),
    ("PUT", "/{index}/_bulk/stream"),
    ("POST", "/{index}/_bulk"),
    ("PUT", "/{index}/_bulk"),
    ("POST", "/{index}/{type}/_bulk"),
    ("PUT", "/{index}/{type}/_bulk"),
    ("POST", "/{index}/_doc"),
    ("POST", "/{index}/_doc/{id}"),
    ("PUT", "/{index}/_doc/{id}"),
    ("POST", "/{index}/_create/{id}"),
    ("PUT", "/{index}/_create/{id}"),
    ("POST", "/{index}/_update/{id}"),
    ("POST", "/{index}/{type}"),
    ("POST", "/{index}/{type}/{id}"),
    ("PUT", "/{index}/{type}/{id}"),
    ("POST", "/{index}/{type}/{id}/_create"),
    ("PUT", "/{index}/{type}/{id}/_create"),
    ("POST", "/{index}/{type}/{id}/_update"),
];

/// A path of the table with something in place of its parameters.
fn filled(path: &str, index: &str, kind: &str) -> String {
    let fill = |segment: &str| match segment {
        "{index}" => index.to_owned(),
        "{type}" => kind.to_owned(),
        // An index, a repository, a user, a node: whatever has a name.
        parameter if parameter.starts_with('{') => "name-1".to_owned(),
        literal => literal.to_owned(),
    };
    path.split('/').map(fill).collect::<Vec<_>>().join("/")
}

#[test]
fn only_writes_of_documents_are_stamped() {
    let writes = BTreeSet::from(WRITES);
    let (mut found, mut paths) = (BTreeSet::new(), 0);
    for path in REST_API.lines().filter(|line| !line.starts_with('#')) {
        paths += 1;
        for method in &METHODS {
            let write = (method.as_str(), path);
            for (index, kind) in [("news", "article"), ("news", "_doc"), ("news,old-*", "a,b")] {
                let filled = filled(path, index, kind);
                let is_write = classify(method, &filled) != RequestKind::Relay;
                assert_eq!(is_write, writes.contains(&write), "{method} {filled}");
            }
            // A bulk's actions may name an index whatever its path does.
            for index in ["_all", "_x"] {
                let is_write = classify(method, &filled(path, index, "_doc")) != RequestKind::Relay;
                assert_eq!(is_write, writes.contains(&write) && path.contains("_bulk"), "{method} {path} of {index}");
            }
            if let Some(&write) = writes.get(&write) {
                found.insert(write);
            }
        }
    }
    assert!(paths > 700, "{paths}");
    assert_eq!(found, writes);
}
