//! Points 3, 4 and 18: how a body is packed, how its length is told, and in which requests it may stand.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};

use crate::common::fake::{Fake, Reply, json};
use crate::common::twin::{Twins, article, start};
use crate::common::wire::{Request, Wire, gzip};
use crate::common::{self, SearchServer, on_each_server, root_of};

/// A zstd frame with one stored block, for fewer than 256 bytes.
fn zstd(plain: &[u8]) -> Vec<u8> {
    let size = u8::try_from(plain.len()).unwrap();
    let block = (u32::from(size) << 3 | 1).to_le_bytes();
    [b"\x28\xb5\x2f\xfd\x20", &[size][..], &block[..3], plain].concat()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

on_each_server!(point_03_packed_bodies);

async fn point_03_packed_bodies(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p03";
    let twins = Twins::new(&upstream, label).await;
    let bulk = |n: usize| Request::bulk("/@index/_bulk", article(&format!("id-{n}"), n));
    let named = |n: usize, coding: &str, body: &[u8]| bulk(n).header("Content-Encoding", coding).body(body);
    let plain = |n: usize| article(&format!("id-{n}"), n).into_bytes();
    for request in [
        bulk(0).gzipped(),
        bulk(1).gzipped_in_two(),
        named(2, "GZIP", &gzip(&plain(2))),
        named(3, "x-gzip", &gzip(&plain(3))),
        named(4, "identity", &plain(4)),
        bulk(5).gzipped().header("Accept-Encoding", "gzip"),
        bulk(6).header("Accept-Encoding", "gzip, deflate"),
        named(12, "deflate", &zlib(&plain(12))),
        named(13, "Deflate", &deflate(&plain(13))),
        named(14, "x-deflate", &zlib(&plain(14))),
    ] {
        let answer = twins.same(&request);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(twins.counter("documents_stamped"), 10);
    let document = Request::json("PUT", "/@index/_doc/id-7", "{\"content\":\"a b c\"}");
    assert_eq!(twins.same(&document.gzipped()).status, 201);
    // Packed in ways that are not read: unstamped.
    let answer = twins.same(&named(9, "br", &plain(9)));
    assert_eq!(answer.status, 200, "{}", answer.text());
    twins.same(&named(10, "gzip, gzip", &gzip(&gzip(&plain(10)))));
    if search_server == SearchServer::OpenSearch {
        assert_eq!(twins.same(&named(11, "zstd", &zstd(&plain(11)))).status, 200);
    }
    assert_eq!(twins.counter("documents_stamped"), 11);
    let documents = twins.same_documents().await;
    for n in (0..8).chain(12..15) {
        assert!(root_of(&documents[&format!("id-{n}")]).is_some(), "{n}");
    }
    twins.end().await;
}

on_each_server!(point_03_gzip_that_the_servers_forgive);

/// What a server makes of gzip that is cut or followed by something else is its own affair.
async fn point_03_gzip_that_the_servers_forgive(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p03";
    let twins = Twins::new(&upstream, label).await;
    let packed = |n: usize| gzip(article(&format!("id-{n}"), n).as_bytes());
    let send = |body: &[u8]| {
        let request = Request::bulk("/@index/_bulk", body);
        twins.same(&request.header("Content-Encoding", "gzip"))
    };
    let cut = packed(0);
    assert_eq!(send(&cut[..cut.len() - 8]).status, 200);
    let cut = packed(1);
    assert_eq!(send(&cut[..cut.len() / 2]).status, 400);
    assert_eq!(send(&[&packed(2)[..], b"and more"].concat()).status, 200);
    assert_eq!(send(b"").status, 400);
    // Packed, but not said to be.
    let silent = Request::bulk("/@index/_bulk", packed(4));
    assert_eq!(twins.same(&silent).status, 400);
    let documents = twins.same_documents().await;
    assert_eq!(documents.len(), 2);
    twins.end().await;
}

/// The servers hang up on gzip that is wrong; through spinney the client is told why there is no answer.
#[tokio::test]
async fn point_03_broken_gzip() {
    let twins = Twins::new(&common::opensearch(), "p03").await;
    let mut wrong_sum = gzip(article("a", 1).as_bytes());
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    for body in [wrong_sum, article("a", 1).into_bytes()] {
        let request = Request::bulk("/@index/_bulk", body).header("Content-Encoding", "gzip");
        let mut direct = Wire::connect(&twins.direct.url);
        direct.send(&twins.direct.request(&request).bytes());
        assert_eq!(direct.answer(false), None, "the server closes");
        let mut wire = Wire::connect(&twins.proxied.url);
        let answer = twins.proxied.request(&request).on(&mut wire);
        assert_eq!(answer.status, 502, "{}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "spinney_upstream_broken_exception");
        // The client's connection is still good.
        let health = Request::get("/_spinney/_health").on(&mut wire);
        assert_eq!(health.status, 200);
    }
    assert!(twins.same_documents().await.is_empty());
    assert_eq!(twins.counter("bodies_not_understood"), 2);
    twins.end().await;
}

/// The items of a packed answer settle the documents as those of a plain one.
#[tokio::test]
async fn point_03_packed_answers_settle() {
    let twins = Twins::new(&common::opensearch(), "p03").await;
    // Known writers' documents are placed before they are sent.
    twins.same(&Request::bulk("/@index/_bulk", article("first", 9)));
    let bad_day = article("b", 2).replace("\"n\":2", "\"day\":\"no day\"");
    let body = article("a", 1) + &bad_day;
    let request = Request::bulk("/@index/_bulk", body).header("Accept-Encoding", "gzip");
    let answer = twins.same(&request);
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(answer.status, 200);
    assert_eq!(twins.nodes(), 2, "the refused item left its node");
    assert_eq!(twins.counter("nodes_withdrawn"), 1);
    twins.same_documents().await;
    twins.end().await;
}

on_each_server!(point_04_leave_to_send);

/// A client that waits for leave gets it, from spinney, before it has sent a byte of the body.
async fn point_04_leave_to_send(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p04";
    let twins = Twins::new(&upstream, label).await;
    for (path, kind) in [
        // First, as long as there is nothing to be found.
        ("/@index/_search", "application/json"),
        ("/@index/_bulk", "application/x-ndjson"),
        ("/@index/_bulk", "text/plain"),
    ] {
        let body = if path.ends_with("_search") { "{\"size\":0}".to_owned() } else { article("a", 1) };
        let request = Request::bulk(path, &body)
            .without("content-type")
            .header("Content-Type", kind)
            .header("Expect", "100-continue");
        let mut answers = Vec::new();
        for side in [&twins.direct, &twins.proxied] {
            let bytes = side.request(&request).bytes();
            let (head, body) = bytes.split_at(bytes.len() - body.len());
            let mut wire = Wire::connect(&side.url);
            wire.send(head);
            assert_eq!(wire.answer(false).unwrap().status, 100);
            wire.send(body);
            answers.push(side.normal(wire.last_answer(false)));
        }
        common::twin::assert_same(path, &answers[0], &answers[1]);
    }
    // Another expectation than that one cannot be met.
    let request = Request::bulk("/@index/_bulk", "").header("Expect", "the-unexpected");
    assert_eq!(twins.same(&request).status, 417);
    assert_eq!(twins.same_documents().await.len(), 1);
    twins.end().await;
}

on_each_server!(point_04_chunked_bodies);

async fn point_04_chunked_bodies(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p04";
    let twins = Twins::new(&upstream, label).await;
    for (n, size) in [1, 7, 4096].into_iter().enumerate() {
        let request = Request::bulk("/@index/_bulk", article(&format!("id-{n}"), n));
        assert_eq!(twins.same(&request.chunked(size)).status, 200);
    }
    let gzipped = Request::bulk("/@index/_bulk", article("id-3", 3)).gzipped();
    assert_eq!(twins.same(&gzipped.chunked(5)).status, 200);
    let single = Request::json("PUT", "/@index/_doc/id-4", "{\"content\":\"a b c\"}");
    assert_eq!(twins.same(&single.chunked(3)).status, 201);
    let none = Request::bulk("/@index/_bulk", "").chunked(1);
    assert_eq!(twins.same(&none).status, 400);
    let documents = twins.same_documents().await;
    assert_eq!(documents.len(), 5);
    // They can be found since they were compared.
    let path = "/@index/_search?filter_path=hits.total";
    let found = twins.same(&Request::json("POST", path, "{\"size\":1}").chunked(3));
    assert_eq!(found.json()["hits"]["total"]["value"], 5);
    assert!(documents.values().all(|source| root_of(source).is_some()));
    twins.end().await;
}

/// Whatever way a body came, it goes on with its length, in one piece, packed as its headers say.
#[tokio::test]
async fn point_04_the_cluster_gets_a_length() {
    let fake = Fake::start(|_| Reply::Bytes(json(200, "", "{\"took\":1,\"errors\":false,\"items\":[]}")));
    let spinney = start(&fake.url, &[]);
    let bulk = Request::bulk("/news-x/_bulk", article("a", 1));
    for (request, what) in [
        (bulk.clone(), "plain"),
        (bulk.clone().chunked(10), "chunked"),
        (bulk.clone().gzipped(), "gzip"),
        (bulk.clone().gzipped().chunked(10), "gzip, chunked"),
        (bulk.clone().header("Expect", "100-continue"), "expect"),
    ] {
        assert_eq!(request.to(&spinney.url).status, 200, "{what}");
        let got = fake.last();
        assert_eq!(got.headers("content-length"), [got.body.len().to_string()], "{what}");
        assert!(got.headers("transfer-encoding").is_empty(), "{what}");
        assert!(got.headers("expect").is_empty(), "{what}");
        assert!(got.headers("content-encoding").is_empty(), "{what}");
        let text = String::from_utf8(got.body).unwrap();
        assert!(text.contains("\"cluster_root\""), "{what}: {text}");
    }
    // Nothing to stamp: as it came, packing included.
    let other = Request::bulk("/other/_bulk", article("a", 1)).gzipped();
    assert_eq!(other.to(&spinney.url).status, 200);
    let got = fake.last();
    assert_eq!(got.headers("content-encoding"), ["gzip"]);
    assert_eq!(got.body, gzip(article("a", 1).as_bytes()));
}

/// A body goes on in every method, in chunks if it came so: a search without its query would find everything.
#[tokio::test]
async fn point_18_bodies_in_every_method() {
    let fake = Fake::start(|_| {
        let answer = b"HTTP/1.1 200 Made Up\r\ncontent-length: 0\r\n\r\n";
        Reply::Bytes(answer.to_vec())
    });
    let spinney = start(&fake.url, &[]);
    let query = "{\"query\":{\"ids\":{\"values\":[\"a\"]}}}";
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let whole = Request::json(method, "/news-x/_search", query);
        let chunked = whole.clone().chunked(7);
        let none = Request::new(method, "/news-x/_search");
        let length = query.len().to_string();
        let whole = match method {
            "HEAD" => whole.header("Content-Length", &length),
            _ => whole,
        };
        for (request, coding, length, body) in [
            (whole, vec![], vec![length.as_str()], query),
            (chunked, vec!["chunked"], vec![], query),
            (Request::json(method, "/x/_search", "").chunked(1), vec!["chunked"], vec![], ""),
        ] {
            assert_eq!(request.to(&spinney.url).status, 200, "{method}");
            let got = fake.last();
            assert_eq!(got.headers("transfer-encoding"), coding, "{method}");
            assert_eq!(got.headers("content-length"), length, "{method}");
            assert_eq!(got.whole_body(), body.as_bytes(), "{method}");
        }
        // To a request without a body none is added.
        if method == "GET" || method == "HEAD" {
            assert_eq!(none.to(&spinney.url).status, 200);
            let got = fake.last();
            assert!(got.headers("transfer-encoding").is_empty(), "{}", got.head);
            assert!(got.headers("content-length").is_empty(), "{}", got.head);
        }
    }
}

on_each_server!(point_18_reading_with_a_body);

/// The real servers see the same body, whatever the method.
async fn point_18_reading_with_a_body(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p18";
    let twins = Twins::new(&upstream, label).await;
    let two = article("a", 1) + &article("b", 2);
    twins.prepare(&Request::bulk("/@index/_bulk?refresh=true", two));
    let query = "{\"query\":{\"ids\":{\"values\":[\"a\"]}}}";
    for (method, path) in [
        ("GET", "/@index/_search?filter_path=hits.total,hits.hits._id"),
        ("GET", "/@index/_count"),
        ("GET", "/@index/_validate/query"),
        ("POST", "/@index/_count"),
        ("GET", "/@index/_doc/_count"),
        ("DELETE", "/_search/scroll"),
        ("OPTIONS", "/@index/_search"),
        ("HEAD", "/@index"),
    ] {
        for request in [Request::json(method, path, query).chunked(5), Request::json(method, path, query)] {
            let answer = twins.same(&request);
            if path == "/@index/_count" {
                assert_eq!(answer.json()["count"], 1, "{method} {path}");
            }
        }
    }
    twins.same_documents().await;
    twins.end().await;
}

/// A client that breaks the rules in the middle of a body is told so; it is not the cluster that failed.
#[tokio::test]
async fn point_18_bodies_that_break_off() {
    let fake = Fake::start(|_| Reply::Bytes(json(200, "", "{}")));
    let spinney = start(&fake.url, &[]);
    for target in ["/other/_doc", "/news-x/_search", "/news-x/_bulk"] {
        let mut wire = Wire::connect(&spinney.url);
        let head = "Host: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        wire.send(format!("POST {target} HTTP/1.1\r\n{head}\r\n5\r\n{{\"a\":\r\nno size\r\n").as_bytes());
        let answer = wire.last_answer(false);
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "spinney_body_exception", "{target}");
        wire.expect_close();
    }
    let counters = &common::twin::stats(&spinney.url)["counters"];
    assert_eq!(counters["upstream_broken"], 0);
    assert_eq!(counters["upstream_unreachable"], 0);
    // None of them reached the cluster as a whole request.
    let targets: Vec<_> = fake.received().iter().map(|got| got.target().to_owned()).collect();
    assert!(targets.iter().all(|target| target == "/_cluster/health"), "{targets:?}");
}
