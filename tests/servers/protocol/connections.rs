//! Point 16: connections and headers.

use crate::common::fake::{self, Fake, Reply};
use crate::common::twin::{Twins, article, start};
use crate::common::wire::{Request, Wire};
use crate::common::{self, SearchServer, on_each_server};

on_each_server!(point_16_connections_are_kept);

/// Many requests on one connection, refused ones among them, in their order.
async fn point_16_connections_are_kept(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p16";
    let twins = Twins::new(&upstream, label).await;
    let mut wires = (Wire::connect(&twins.direct.url), Wire::connect(&twins.proxied.url));
    for n in 0..5 {
        let id = format!("id-{n}");
        for request in [
            Request::bulk("/@index/_bulk", article(&id, n)),
            Request::bulk("/@index/_bulk", article(&id, n)).gzipped(),
            Request::bulk("/@index/_bulk", "no bulk"),
            Request::bulk("/@index/_bulk", article(&id, n)).without("content-type"),
            Request::bulk("/@index/_bulk", article(&id, n)).chunked(10),
            Request::get("/@index/_bulk"),
            Request::new("HEAD", "/@index"),
            Request::get("/@index/_doc/none"),
            Request::json("PUT", "/@index/_doc/x", "{\"content\":"),
            Request::get("/@index/_mapping"),
        ] {
            twins.same_on(&mut wires, &request);
        }
    }
    assert_eq!(twins.same_documents().await.len(), 5);
    twins.end().await;
}

/// Several requests sent at once are answered one after the other.
#[tokio::test]
async fn point_16_pipelined_requests() {
    let twins = Twins::new(&common::opensearch(), "p16").await;
    let mut bytes = Vec::new();
    for n in 0..10 {
        let id = format!("id-{n}");
        let bulk = Request::bulk("/@index/_bulk?filter_path=items.*._id", article(&id, n));
        bytes.extend(twins.proxied.request(&bulk).bytes());
    }
    let mut wire = Wire::connect(&twins.proxied.url);
    wire.send(&bytes);
    for n in 0..10 {
        let answer = wire.last_answer(false).json();
        assert_eq!(answer["items"][0]["index"]["_id"], format!("id-{n}"));
    }
    twins.end().await;
}

/// Clients come and go, the connection to the cluster stays.
#[tokio::test]
async fn point_16_connections_to_the_cluster_are_pooled() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{\"items\":[]}")));
    let spinney = start(&fake.url, &[]);
    for n in 0..20 {
        let bulk = Request::bulk("/news-x/_bulk", article("a", n));
        assert_eq!(bulk.to(&spinney.url).status, 200);
        assert_eq!(Request::get("/other").to(&spinney.url).status, 200);
    }
    let connections: Vec<usize> = fake.received().iter().map(|got| got.connection).collect();
    assert_eq!(connections, [0; 40]);
}

/// What belongs to one connection stays on it; everything else goes on, spelled as it was.
#[tokio::test]
async fn point_16_headers_of_one_connection() {
    let fake = Fake::start(|_| {
        let headers = "Connection: keep-alive, X-Between\r\nKeep-Alive: timeout=7\r\nX-Between: 1\r\nX-Behind: 2\r\n";
        Reply::Bytes(fake::json(200, headers, "{\"items\":[]}"))
    });
    let spinney = start(&fake.url, &[]);
    for target in ["/news-x/_bulk", "/other/_search"] {
        let request = Request::bulk(target, article("a", 1))
            .header("Connection", "keep-alive, x-hop, Upgrade, HTTP2-Settings")
            .header("Keep-Alive", "timeout=5")
            .header("Proxy-Connection", "keep-alive")
            .header("Upgrade", "h2c")
            .header("HTTP2-Settings", "AAMAAABkAAQAAP__")
            .header("TE", "trailers")
            .header("X-Hop", "1")
            .header("X-ODD-Name", "2")
            .header("x-twice", "a")
            .header("X-Twice", "b")
            .header("Authorization", "ApiKey a2V5OnNlY3JldA==")
            .header("Accept-Encoding", "gzip")
            .header("User-Agent", "test/1 (\u{e4})");
        let answer = request.to(&spinney.url);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-behind"), Some("2"));
        for name in ["x-between", "keep-alive", "connection"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
        let got = fake.last();
        for name in ["connection", "keep-alive", "proxy-connection", "upgrade", "http2-settings", "te", "x-hop"] {
            assert!(got.headers(name).is_empty(), "{name}: {}", got.head);
        }
        assert_eq!(got.headers("x-twice"), ["a", "b"]);
        assert!(got.head.contains("\r\nX-ODD-Name: 2\r\n"), "{}", got.head);
        assert!(got.head.contains("\r\nx-twice: a\r\n"), "{}", got.head);
        assert_eq!(got.headers("authorization"), ["ApiKey a2V5OnNlY3JldA=="]);
        assert_eq!(got.headers("accept-encoding"), ["gzip"]);
        assert_eq!(got.headers("host"), [fake.url.strip_prefix("http://").unwrap()]);
        for added in ["via", "x-forwarded-for", "date", "server"] {
            assert!(got.headers(added).is_empty(), "{added}");
        }
    }
}

on_each_server!(point_16_long_heads);

/// Heads of any length that a server takes; one that is too long is refused by the server, and the next request is
/// fine.
async fn point_16_long_heads(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p16";
    let longest = search_server.expected().longest_head;
    let twins = Twins::new(&upstream, label).await;
    let bulk = Request::bulk("/@index/_bulk", article("a", 1));
    for size in [3 << 10, longest - 400, longest + 2000, 3 << 10, 64 << 10] {
        let with = bulk.clone().header("X-Long", &"x".repeat(size));
        let answer = twins.same(&with);
        let refused = size > longest;
        assert_eq!(answer.status, if refused { 400 } else { 200 }, "{size}");
        // The servers answer nothing more on the connection of a head that was too long.
        for _ in 0..4 {
            assert_eq!(twins.same(&bulk).status, 200, "after {size}");
        }
    }
    let mut many = bulk.clone();
    for n in 0..150 {
        many = many.header(&format!("X-Header-{n}"), "value");
    }
    assert_eq!(twins.same(&many).status, 200);
    let long_target = Request::bulk(&format!("/@index/_bulk?x={}", "y".repeat(5000)), article("a", 1));
    let answers = [&twins.direct, &twins.proxied].map(|side| side.normal(side.request(&long_target).to(&side.url)));
    common::twin::assert_same("a long target", &answers[0], &answers[1]);
    assert_eq!(twins.same(&bulk).status, 200);
    twins.end().await;
}

/// Lengths that are none are refused on either side, and nothing is stored.
#[tokio::test]
async fn point_16_lengths_that_lie() {
    let twins = Twins::new(&common::opensearch(), "p16").await;
    let body = article("a", 1);
    let target = format!("/{}/_bulk", twins.proxied.index);
    let length = body.len();
    for headers in [
        format!("Content-Length: {length}\r\nContent-Length: {}\r\n", length + 1),
        format!("Content-Length: +{length}\r\n"),
        "Content-Length: -1\r\n".into(),
        "Content-Length: abc\r\n".into(),
        "Transfer-Encoding: chunked\r\nX: \r\n".into(),
    ] {
        let mut wire = Wire::connect(&twins.proxied.url);
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}\r\n");
        wire.send(format!("{head}{body}").as_bytes());
        assert_eq!(wire.last_answer(false).status, 400, "{headers}");
    }
    // Half a body, and then nothing more: closed on either side, as far as the client can still see.
    let request = Request::bulk("/@index/_bulk", &body).header("Content-Length", &(length + 100).to_string());
    for side in [&twins.direct, &twins.proxied] {
        let mut wire = Wire::connect(&side.url);
        wire.send(&side.request(&request).bytes());
        wire.end();
        let answer = wire.answer(false);
        assert!(answer.is_none_or(|answer| answer.status == 400), "{}", side.url);
    }
    // Neither length nor chunks: no body.
    let none = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n");
    let mut wire = Wire::connect(&twins.proxied.url);
    wire.send(none.as_bytes());
    let answer = wire.last_answer(false);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("request body is required"), "{}", answer.text());
    assert!(twins.same_documents().await.is_empty());
    assert_eq!(twins.nodes(), 0);
    twins.end().await;
}

/// HTTP/1.0 is answered and closed, or kept if it asks for that.
#[tokio::test]
async fn point_16_http_1_0() {
    let twins = Twins::new(&common::opensearch(), "p16").await;
    let mut stored = 0;
    for kept in [false, true] {
        let keep = if kept { "Connection: keep-alive\r\n" } else { "" };
        for side in [&twins.direct, &twins.proxied] {
            let mut wire = Wire::connect(&side.url);
            // On a connection that is kept, a second request is answered like the first.
            for n in 0..1 + usize::from(kept) {
                let body = article(&format!("{kept}-{n}"), n);
                let head = format!(
                    "POST /{}/_bulk HTTP/1.0\r\nContent-Type: application/json\r\n{keep}Content-Length: {}\r\n\r\n",
                    side.index,
                    body.len()
                );
                wire.send(format!("{head}{body}").as_bytes());
                assert_eq!(wire.last_answer(false).status, 200, "{}", side.url);
                stored += 1;
            }
            if !kept {
                wire.expect_close();
            }
        }
    }
    assert_eq!(twins.same_documents().await.len(), stored / 2);
    twins.end().await;
}

/// A signature over the body cannot survive a stamp: refused with a reason, unless nothing would be stamped.
#[tokio::test]
async fn point_16_signed_bodies() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{\"items\":[{\"index\":{\"status\":201}}]}")));
    let spinney = start(&fake.url, &[]);
    let sign = |request: Request| {
        request
            .header("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/es/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
            .header("X-Amz-Date", "20260101T000000Z")
    };
    let body = article("a", 1);
    for request in [
        sign(Request::bulk("/news-x/_bulk", &body)),
        sign(Request::bulk("/news-x/_bulk", &body)).header("X-Amz-Content-Sha256", "00ff"),
        sign(Request::json("PUT", "/news-x/_doc/1", "{\"content\":\"a\"}")),
    ] {
        let refused = request.to(&spinney.url);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(refused.json()["error"]["type"], "spinney_signed_body_exception");
    }
    assert!(fake.received().is_empty());
    for (request, stamped) in [
        (sign(Request::bulk("/news-x/_bulk", &body)).header("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), true),
        (sign(Request::bulk("/other/_bulk", &body)), false),
        (sign(Request::bulk("/news-x/_bulk", "{\"delete\":{\"_id\":\"1\"}}\n")), false),
        (sign(Request::json("POST", "/news-x/_search", "{}")), false),
    ] {
        assert_eq!(request.to(&spinney.url).status, 200);
        let got = fake.last();
        let text = String::from_utf8(got.body.clone()).unwrap();
        assert_eq!(text.contains("cluster_root"), stamped);
        assert!(got.headers("authorization")[0].starts_with("AWS4-HMAC-SHA256 "));
    }
    // The refused ones left nothing behind: only the one document that went out is remembered.
    assert_eq!(common::twin::nodes(&common::twin::stats(&spinney.url)), 1);
}
