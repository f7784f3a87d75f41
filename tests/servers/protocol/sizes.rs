//! Point 5: bodies about as large as the cluster takes.

use std::thread;

use crate::common::fake::{Fake, Reply, json};
use crate::common::twin::{Twins, article, start};
use crate::common::wire::{Answer, Request, Wire};
use crate::common::{self, SearchServer, on_each_server};

/// `http.max_content_length` of the servers.
const LIMIT: usize = 100 << 20;

/// A bulk of exactly this many bytes: the rest is a blank line that the servers pass over.
fn blank_to(body: &[u8], size: usize) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(size - 1, b' ');
    body.push(b'\n');
    body
}

/// One article.
fn padded(size: usize) -> Vec<u8> {
    blank_to(article(&format!("of-{size}"), 1).as_bytes(), size)
}

/// Sends like most clients: everything first, and only then looks for an answer.
fn send_all(url: &str, bytes: &[u8]) -> Answer {
    let mut wire = Wire::connect(url);
    wire.try_send(bytes).unwrap_or_else(|error| panic!("{url}: {error} before the answer could be read"));
    wire.last_answer(false)
}

on_each_server!(point_05_too_large_as_it_comes);

/// What is too large for the cluster as it comes is the cluster's to refuse, and its answer arrives.
async fn point_05_too_large_as_it_comes(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p05";
    let twins = Twins::new(&upstream, label).await;
    let body = padded(LIMIT + 1);
    let bulk = Request::bulk("/@index/_bulk", &body);
    // No route wants this one: it is streamed.
    let search = Request::json("POST", "/@index/_search", &body);
    for request in [&bulk, &search] {
        let [direct, proxied] = [&twins.direct, &twins.proxied].map(|side| side.request(request).bytes());
        let proxied = send_all(&twins.proxied.url, &proxied);
        assert_eq!(proxied.status, 413, "{}", proxied.text());
        if search_server.expected().reads_what_it_refuses {
            let direct = send_all(&twins.direct.url, &direct);
            assert_eq!(direct.status, 413);
            assert_eq!(proxied.body, direct.body);
        }
    }
    // The server hangs up on this one in the middle of the upload; spinney has read all of it by then.
    let chunked = twins.proxied.request(&bulk.chunked(1 << 20));
    assert_eq!(send_all(&twins.proxied.url, &chunked.bytes()).status, 413);
    assert!(twins.same_documents().await.is_empty());
    assert_eq!(twins.nodes(), 0);
    // And both are well.
    assert_eq!(twins.same(&Request::bulk("/@index/_bulk", article("b", 2))).status, 200);
    twins.end().await;
}

on_each_server!(point_05_too_large_by_the_stamp);

/// A legal body that the stamp pushes over the limit is refused with a reason that names the limit.
async fn point_05_too_large_by_the_stamp(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p05";
    let twins = Twins::new(&upstream, label).await;
    let request = Request::bulk("/@index/_bulk", padded(LIMIT));
    let direct = send_all(&twins.direct.url, &twins.direct.request(&request).bytes());
    assert_eq!(direct.status, 200, "{}", direct.text());
    let bytes = twins.proxied.request(&request).bytes();
    let refused = send_all(&twins.proxied.url, &bytes);
    assert_eq!(refused.status, 413, "{}", refused.text());
    let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains(&LIMIT.to_string()), "{reason}");
    assert!(reason.contains("http.max_content_length"), "{reason}");
    assert_eq!(twins.nodes(), 0, "nothing was sent, so nothing is remembered");
    assert_eq!(twins.server.count(&twins.proxied.index).await, 0);
    let product = refused.header("x-elastic-product");
    assert_eq!(product.is_some(), search_server == SearchServer::Elasticsearch);
    // With room for the stamp it goes.
    twins.end().await;
    let twins = Twins::new(&upstream, label).await;
    let request = Request::bulk("/@index/_bulk", padded(LIMIT - 1000));
    assert_eq!(twins.same(&request).status, 200);
    // Where nothing is stamped, the limit itself is fine.
    let delete = blank_to(b"{\"delete\":{\"_id\":\"none\"}}\n", LIMIT);
    assert_eq!(twins.same(&Request::bulk("/@index/_bulk", delete)).status, 200);
    twins.end().await;
}

/// A cluster with a limit of its own is asked for it once.
#[tokio::test]
async fn point_05_the_limit_is_the_clusters() {
    const SMALL: usize = 2 << 20;
    let fake = Fake::start(|request| {
        Reply::Bytes(if request.target().starts_with("/_nodes/http") {
            let limits = format!(
                r#"{{"nodes":{{"a":{{"http":{{"max_content_length_in_bytes":{LIMIT}}}}},"b":{{"http":{{"max_content_length_in_bytes":{SMALL}}}}}}}}}"#
            );
            json(200, "", &limits)
        } else if request.body.len() > SMALL {
            json(413, "", "")
        } else {
            json(200, "", r#"{"took":1,"errors":false,"items":[{"index":{"status":201}}]}"#)
        })
    });
    let spinney = start(&fake.url, &[]);
    let send = |size: usize| {
        let request = Request::bulk("/news-x/_bulk", padded(size));
        request.header("Authorization", "Basic c2VjcmV0").to(&spinney.url)
    };
    let asked = || {
        let all = fake.received();
        let asking = all.iter().filter(|got| got.target().starts_with("/_nodes"));
        asking.map(|got| got.headers("authorization").join("")).collect::<Vec<_>>()
    };
    assert_eq!(send(SMALL / 4).status, 200);
    assert!(asked().is_empty(), "a small body is below any limit");
    let refused = send(SMALL - 10);
    assert_eq!(refused.status, 413);
    let refused = refused.json();
    assert_eq!(refused["status"], 413);
    let reason = refused["error"]["reason"].as_str().unwrap();
    assert!(reason.contains(&SMALL.to_string()), "{reason}");
    assert_eq!(asked(), ["Basic c2VjcmV0"], "with the caller's credentials");
    let empty = send(SMALL + 1);
    assert_eq!((empty.status, empty.body.len()), (413, 0), "the server's own words");
    assert_eq!(send(SMALL - 1000).status, 200);
    assert_eq!(asked().len(), 1);
}

/// A server that answers and closes in the middle of an upload: its answer comes through, not the broken pipe.
#[tokio::test]
async fn point_05_answered_in_the_middle() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        use std::io::{Read, Write};
        // What the limit is, a bulk, and a request that is streamed.
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = [0; 4096];
            assert!(stream.read(&mut read).unwrap() > 0);
            let answer = b"HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // Reads on for a while, as servers that mean to be heard do.
            let mut left = 64 << 10;
            while left > 0 {
                match stream.read(&mut read) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => left -= count.min(left),
                }
            }
        }
    });
    let spinney = start(&url, &[]);
    for request in
        [Request::bulk("/news-x/_bulk", padded(8 << 20)), Request::json("POST", "/news-x/_search", padded(8 << 20))]
    {
        let answer = send_all(&spinney.url, &request.bytes());
        assert_eq!(answer.status, 413, "{}", answer.text());
    }
    server.join().unwrap();
    // Nobody is there at all now: that is said, too, whatever the client has yet to send.
    let request = Request::json("POST", "/news-x/_search", padded(8 << 20));
    let answer = send_all(&spinney.url, &request.bytes());
    assert_eq!(answer.status, 503, "{}", answer.text());
    let health = Request::get("/_spinney/_health").to(&spinney.url);
    assert_eq!(health.status, 200);
}

/// The limit counts what gzip becomes.
#[tokio::test]
async fn point_05_packed_bodies_that_grow() {
    let twins = Twins::new(&common::opensearch(), "p05").await;
    let request = Request::bulk("/@index/_bulk", padded(LIMIT + 1)).gzipped();
    let bytes = twins.proxied.request(&request).bytes();
    assert!(bytes.len() < 1 << 20);
    let refused = send_all(&twins.proxied.url, &bytes);
    assert_eq!(refused.status, 413, "{}", refused.text());
    assert_eq!(twins.nodes(), 0);
    assert_eq!(twins.server.count(&twins.proxied.index).await, 0);
    twins.end().await;
}
