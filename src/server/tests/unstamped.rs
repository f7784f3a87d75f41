//! Writes that may carry documents and cannot be stamped: one rule for all of them.

use super::*;
use crate::config::OnUnstamped;

/// A write that is not read, as path, `Content-Type`, `Content-Encoding` and body.
type Unreadable = (&'static str, &'static str, Option<&'static str>, Vec<u8>);

const NDJSON: &str = "application/x-ndjson";

/// Bodies that are not read, under every path that may be that of a route's documents.
fn unreadable() -> Vec<Unreadable> {
    let mut writes: Vec<Unreadable> = Vec::new();
    for path in ["/_bulk", "/news-1/_bulk", "/_all/_bulk", "/_x/_bulk", "/news-*/_bulk", "/news-1,news-2/_bulk"] {
        writes.push((path, "application/smile", None, b":)\n\0".to_vec()));
        writes.push((path, NDJSON, Some("zstd"), b"packed".to_vec()));
    }
    for path in ["/_bulk/stream", "/news-1/_bulk/stream", "/_all/_bulk/stream", "/_x/_bulk/stream"] {
        writes.push((path, NDJSON, None, BULK.into()));
    }
    writes.extend(wide(BULK).into_iter().map(|body| ("/news-1/_bulk", NDJSON, None, body)));
    writes.extend(wide(DOCUMENT).into_iter().map(|body| ("/news-1/_doc/1", "application/json", None, body)));
    writes
}

const DOCUMENT: &str = "{\"content\":\"Another sentence that is long enough.\"}";

/// Bulks that are read, with a document in them that is not; behind more of them than are named.
fn half_readable() -> Vec<Vec<u8>> {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(70_000), "]".repeat(70_000));
    let updates = wide(&format!("{{\"doc\":{DOCUMENT}}}")).map(|source| ("update", source));
    let documents = wide(DOCUMENT).map(|source| ("index", source)).into_iter();
    let all = documents.chain(updates).chain([("create", deep.into_bytes())]);
    let faulty = "{\"index\":{}}\nno JSON\n".repeat(20);
    let bulk = |(op, source): (&str, Vec<u8>)| {
        let action = format!("{{\"{op}\":{{\"_id\":\"1\"}}}}\n");
        [BULK.as_bytes(), faulty.as_bytes(), action.as_bytes(), &source, b"\n"].concat()
    };
    all.map(bulk).collect()
}

/// In the encodings that the servers' parser tells by the first bytes: UTF-16 and UTF-32, with a mark and without. A
/// line feed is a byte of its own to the servers; only what has none stays whole.
fn wide(text: &str) -> [Vec<u8>; 5] {
    let text = text.trim_end();
    let utf16 = |to: fn(u16) -> [u8; 2], mark: bool| -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        mark.into_iter().chain(text.encode_utf16()).flat_map(to).collect()
    };
    let utf32 = |to: fn(u32) -> [u8; 4]| -> Vec<u8> { text.chars().flat_map(|c| to(u32::from(c))).collect() };
    [
        utf16(u16::to_le_bytes, false),
        utf16(u16::to_le_bytes, true),
        utf16(u16::to_be_bytes, false),
        utf32(u32::to_le_bytes),
        utf32(u32::to_be_bytes),
    ]
}

async fn write(state: &Arc<AppState>, (path, kind, coding, body): Unreadable) -> Answer {
    let mut request = Request::builder().method(Method::POST).uri(path).header("content-type", kind);
    if let Some(coding) = coding {
        request = request.header("content-encoding", coding);
    }
    send(state, CLIENT, Purpose::Everything, request.body(full(body)).unwrap()).await
}

#[tokio::test]
async fn what_cannot_be_stamped_is_refused() {
    let state = AppState::with_unstamped(OnUnstamped::Refuse);
    let halves = half_readable().into_iter().map(|body| ("/news-1/_bulk", NDJSON, None, body));
    for unread in unreadable().into_iter().chain(halves) {
        let shown = format!("{unread:?}").chars().take(200).collect::<String>();
        let answer = write(&state, unread).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{shown}");
        assert_eq!(answer.body["error"]["type"], "spinney_unstamped_exception", "{shown}");
    }
    assert_eq!(state.nodes().await, 0, "of documents of the same bulks");
    assert_eq!((state.budget.used(), state.in_flight.count()), (0, 0));
}

/// It is counted. Here is no cluster to pass it on to.
#[tokio::test]
async fn what_cannot_be_stamped_passes_if_it_may() {
    let state = AppState::with_unstamped(OnUnstamped::Pass);
    let counters = &state.metrics.counters;
    for (nth, unread) in (1..).zip(unreadable()) {
        let shown = format!("{unread:?}").chars().take(200).collect::<String>();
        let answer = write(&state, unread).await;
        assert_eq!(answer.body["error"]["type"], "spinney_upstream_unreachable_exception", "{shown}");
        assert_eq!(counters.bodies_not_understood.get(), nth, "{shown}");
    }
    let before = counters.documents_unstamped.get();
    let halves = half_readable();
    let all = halves.len() as u64;
    for body in halves {
        let answer = write(&state, ("/news-1/_bulk", NDJSON, None, body)).await;
        assert_eq!(answer.body["error"]["type"], "spinney_upstream_unreachable_exception");
    }
    assert_eq!(counters.documents_unstamped.get() - before, 21 * all);
}

/// An item that every server refuses fails alone, and what no route stamps is not looked at.
#[tokio::test]
async fn what_is_stored_nowhere_without_a_stamp_is_the_clusters() {
    let state = AppState::with_unstamped(OnUnstamped::Refuse);
    let json = "application/json";
    for (path, kind, coding, body) in [
        ("/news-1/_bulk", NDJSON, None, "{\"index\":{}}\nno JSON\n"),
        ("/news-1/_bulk", NDJSON, None, "{\"index\":{}}\n\n"),
        ("/news-1/_bulk", NDJSON, None, "{\"update\":{\"_id\":\"1\"}}\n{\"doc\":{\"views\":1}}\n"),
        ("/logs-1/_bulk", "application/smile", None, "x"),
        ("/logs-1/_bulk/stream", NDJSON, None, BULK),
        ("/logs-1/_doc/1", json, Some("zstd"), "packed"),
        ("/news-1/_search", "application/smile", None, "x"),
    ] {
        let answer = write(&state, (path, kind, coding, body.into())).await;
        assert_eq!(answer.body["error"]["type"], "spinney_upstream_unreachable_exception", "{path} {kind} {coding:?}");
    }
    assert_eq!(state.metrics.counters.bodies_not_understood.get(), 0);
}
