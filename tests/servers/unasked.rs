//! What anybody can send before the cluster has said that it may: each such place ends in time linear in its bytes,
//! and in memory that has a bound. docs/security.md lists them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::budget::peak_memory;
use crate::common::Spinney;
use crate::common::fake::{self, Fake, Reply};
use crate::common::twin::{article, start, stats};
use crate::common::wire::{Answer, Request, Wire};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

/// What a request may take of memory besides all that a spinney takes at rest: buffers, stacks, and what an allocator
/// keeps.
const ROOM: usize = 24 * MIB;

fn status(status: u16) -> Reply {
    let body = json!({"error": {"type": "made_up_exception"}, "status": status});
    Reply::Bytes(fake::json(status, "", &body.to_string()))
}

/// An answer to a bulk of so many documents.
fn taken(documents: usize) -> String {
    let item = json!({"index": {"_index": "news-1", "_id": "a", "_seq_no": 1, "result": "created", "status": 201}});
    json!({"took": 1, "errors": false, "items": vec![item; documents]}).to_string()
}

/// Runs something, and says how much more memory than ever before the process has held meanwhile.
fn taking(spinney: &Spinney, something: impl FnOnce()) -> usize {
    // What the first document takes, such as dictionaries, is there before.
    Request::bulk("/news-1/_bulk", article("warm", 1)).to(&spinney.url);
    let before = peak_memory(spinney.pid());
    something();
    peak_memory(spinney.pid()).saturating_sub(before)
}

fn error_type(answer: &Answer) -> Value {
    answer.json()["error"]["type"].clone()
}

/// A filter that stands for very many paths, of an unverified writer and of a writer.
#[test]
fn filters_take_no_memory() {
    for code in [401, 200] {
        let fake = Fake::start(move |_| match code {
            200 => Reply::Bytes(fake::json(200, "", &taken(1))),
            code => status(code),
        });
        let spinney = start(&fake.url, &[]);
        let levels = ["**.".repeat(400), "**.*.".repeat(250), "**.a,".repeat(500)];
        let taken = taking(&spinney, || {
            for paths in &levels {
                let path = format!("/news-1/_bulk?filter_path={paths}x");
                let answer = Request::bulk(&path, article("a", 2)).to(&spinney.url);
                assert_eq!(answer.status, code, "{}", answer.text());
            }
        });
        assert!(taken < ROOM, "{code}: {} MiB", taken / MIB);
    }
}

/// A body of so many bytes that is JSON, and as a tree takes many times that.
fn nested(bytes: usize) -> String {
    let (begin, end) = ("{\"query\":[", "0]}");
    let inner = "{},".repeat((bytes - begin.len() - end.len()) / 3);
    let space = " ".repeat(bytes - begin.len() - inner.len() - end.len());
    format!("{begin}{inner}{space}{end}")
}

const ENDPOINTS: [(&str, usize); 5] =
    [("_groups", MIB), ("_check", MIB), ("_merge", 256 << 10), ("_split", 256 << 10), ("_pin", 256 << 10)];

/// Whom the cluster does not know gets its answer, whatever the body is.
#[test]
fn bodies_of_own_endpoints_are_not_read_before_the_cluster_is_asked() {
    let fake = Fake::start(|_| status(401));
    let spinney = start(&fake.url, &[]);
    let bomb = nested(8 * MIB);
    let taken = taking(&spinney, || {
        for (endpoint, _) in ENDPOINTS {
            let path = format!("/_spinney/news-1/{endpoint}");
            for body in [&bomb[..], "no JSON"] {
                let answer = Request::json("POST", &path, body).gzipped().to(&spinney.url);
                assert_eq!(answer.status, 401, "{endpoint}: {}", answer.text());
                assert_eq!(error_type(&answer), "made_up_exception");
            }
        }
    });
    assert!(taken < ROOM, "{} MiB", taken / MIB);
    let asked = stats_of(&fake, "/_count") + stats_of(&fake, "/_search");
    assert_eq!(asked, 2 * ENDPOINTS.len());
}

/// How many requests of this kind the cluster has seen.
fn stats_of(fake: &Fake, api: &str) -> usize {
    let received = fake.received().into_iter();
    received.filter(|request| request.target().contains(api)).count()
}

/// Who may ask has no more room than a question takes.
#[test]
fn bodies_of_own_endpoints_have_a_limit() {
    let missing = r#"{"error":{"type":"document_missing_exception"},"status":404}"#;
    let fake = Fake::start(move |request| {
        let target = request.target();
        if let Some(shown) = fake::shows(request) {
            Reply::Bytes(shown)
        } else if target.contains("/_update/") {
            Reply::Bytes(fake::json(404, "", missing))
        } else if target.contains("_count") {
            Reply::Bytes(fake::json(200, "", r#"{"count":0,"_shards":{"total":1}}"#))
        } else {
            status(404)
        }
    });
    let spinney = start(&fake.url, &[]);
    for (endpoint, most) in ENDPOINTS {
        let path = format!("/_spinney/news-1/{endpoint}");
        for (bytes, is_refused) in [(most, false), (most + 1, true), (8 * MIB, true)] {
            let request = Request::json("POST", &path, nested(bytes));
            for request in [request.clone(), request.clone().chunked(60_000), request.gzipped()] {
                let answer = request.to(&spinney.url);
                assert_eq!(answer.status == 413, is_refused, "{endpoint} {bytes}: {}", answer.text());
                if is_refused {
                    assert_eq!(error_type(&answer), "spinney_too_large_exception");
                }
            }
        }
    }
    // Waits until the budget is free again.
    stats(&spinney.url);
}

/// Questions as large as they may be, all at once: the budget has room for all that they take, or they are refused.
#[test]
fn large_questions_stay_in_the_budget() {
    let fake = Fake::start(|request| match request.target().contains("_count") {
        true => Reply::Bytes(fake::json(200, "", r#"{"count":0,"_shards":{"total":1}}"#)),
        false => status(400),
    });
    let spinney = start(&fake.url, &["--budget", "16MiB"]);
    let question = Request::json("POST", "/_spinney/news-1/_groups", nested(MIB)).gzipped();
    let taken = taking(&spinney, || {
        let mut wires: Vec<Wire> = (0..12).map(|_| Wire::connect(&spinney.url)).collect();
        for wire in &mut wires {
            wire.send(&question.bytes());
        }
        for mut wire in wires {
            let answer = wire.last_answer(false);
            assert!([400, 429].contains(&answer.status), "{}", answer.text());
        }
    });
    assert!(taken < 16 * MIB + ROOM, "{} MiB", taken / MIB);
}

/// The head of a request, of so many bytes without its end.
fn head(bytes: usize) -> String {
    let begin = "GET /_spinney/_health HTTP/1.1\r\nhost: x\r\nx-long: ";
    format!("{begin}{}", "a".repeat(bytes - begin.len()))
}

#[test]
fn heads_have_a_limit() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{}")));
    let spinney = start(&fake.url, &[]);
    let mut wire = Wire::connect(&spinney.url);
    wire.send(format!("{}\r\n\r\n", head((64 << 10) - 5)).as_bytes());
    assert_eq!(wire.last_answer(false).status, 200);
    let taken = taking(&spinney, || {
        let mut wires: Vec<Wire> = (0..200).map(|_| Wire::connect(&spinney.url)).collect();
        for wire in &mut wires {
            // It may be closed before all of it is sent.
            let _ = wire.try_send(head(390 << 10).as_bytes());
        }
        for mut wire in wires {
            if let Some(answer) = wire.answer(false) {
                assert_eq!(answer.status, 431);
            }
        }
    });
    // Twice as much for one moment, where a buffer grows.
    assert!(taken < 200 * (128 << 10) + ROOM / 3, "{} MiB", taken / MIB);
}

/// A bulk for that many indices that have no route.
fn bulk_of_names(names: usize) -> String {
    let lines = (0..names).map(|n| {
        let action = json!({"index": {"_index": format!("name-{n}")}});
        format!("{action}\n{{\"content\":\"a\"}}\n")
    });
    lines.collect()
}

/// An unverified writer's bulk does not make spinney ask about name after name in vain.
#[test]
fn names_are_asked_about_until_the_cluster_denies_it() {
    const NAMES: usize = 64;
    for (code, is_known, expected) in
        [(401, false, 1), (403, false, 1), (404, false, NAMES), (401, true, 1), (403, true, NAMES)]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let fake = Fake::start(move |request| {
            let target = request.target();
            if target.starts_with("/_alias/") || target.starts_with("/_resolve/") {
                count.fetch_add(1, SeqCst);
                return status(code);
            }
            let documents = request.body.iter().filter(|byte| **byte == b'\n').count() / 2;
            Reply::Bytes(fake::json(200, "", &taken(documents)))
        });
        let spinney = start(&fake.url, &[]);
        if is_known {
            let bulk = Request::bulk("/news-1/_bulk", article("a", 1));
            assert_eq!(bulk.to(&spinney.url).status, 200);
        }
        let bulk = Request::bulk("/_bulk", bulk_of_names(NAMES));
        assert_eq!(bulk.to(&spinney.url).status, 200);
        assert_eq!(asked.swap(0, SeqCst), expected, "{code} {is_known}");
        let names: Vec<String> = (0..NAMES).map(|n| format!("news-{n}")).collect();
        let adopting = bulk.header("x-spinney-backfill", &names.join(","));
        assert_eq!(adopting.to(&spinney.url).status, 200);
        // And one about the next name, where the first has been denied to an unverified writer, or to nobody.
        let about_names = usize::from(expected == 1);
        assert_eq!(asked.load(SeqCst), expected + about_names, "{code} {is_known}");
    }
}

/// What an unverified writer may ask besides, whatever it is: with the method, and the path behind that of spinney's
/// own endpoints.
const OTHERS: [(&str, &str); 12] = [
    ("GET", "news-1/_similar/a"),
    ("GET", "news-1/_roots/00000000000000ab"),
    ("GET", "news-1/_overrides"),
    ("GET", "news-1/_merges"),
    ("DELETE", "news-1/_overrides/7"),
    ("GET", "_stats"),
    ("GET", "_metrics"),
    ("GET", "_ready"),
    ("GET", "ui/"),
    ("GET", "ui/news-1"),
    ("GET", "ui/news-1/article/a"),
    ("GET", "ui/overview"),
];

/// Bodies that nobody wants are read to their end, or the connection is closed, and what is relayed goes on: nothing of
/// them is kept.
#[test]
fn bodies_that_nobody_reads_are_not_kept() {
    let fake = Fake::start(|_| status(401));
    let spinney = start(&fake.url, &[]);
    let body = vec![b' '; 32 * MIB];
    let taken = taking(&spinney, || {
        let others = OTHERS.map(|(method, path)| (method, format!("/_spinney/{path}")));
        let relayed = ["/news-1/_search", "/_msearch"].map(|path| ("POST", path.to_owned()));
        for (method, path) in others.into_iter().chain(relayed) {
            let mut wire = Wire::connect(&spinney.url);
            let request = Request::json(method, &path, &body);
            // Some close the connection instead.
            if wire.try_send(&request.bytes()).is_ok() {
                wire.answer(false);
            }
        }
    });
    assert!(taken < ROOM, "{} MiB", taken / MIB);
}

/// A request of somebody whom the cluster does not know makes it answer few questions.
#[test]
fn a_request_asks_the_cluster_few_questions() {
    const MOST: usize = 4;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let fake = Fake::in_any_health(move |_| {
        count.fetch_add(1, SeqCst);
        status(401)
    });
    let spinney = start(&fake.url, &["--counts", "off"]);
    let own = |method: &str, path: &str| Request::json(method, &format!("/_spinney/{path}"), "{}");
    let others = OTHERS.iter().map(|(method, path)| own(method, path));
    let endpoints = ENDPOINTS.iter();
    let endpoints = endpoints.map(|(name, _)| own("POST", &format!("news-1/{name}")));
    let relayed = ["/news-1/_search", "/logs-1/_doc", "/news-1/_doc"];
    let relayed = relayed.map(|path| Request::json("POST", path, "{}"));
    let bulk = Request::bulk("/news-1/_bulk", article("a", 1));
    let without_body = Request::get("/_spinney/news-1/_groups");
    let all = others.chain(endpoints).chain(relayed).chain([bulk, without_body]);
    for request in all {
        asked.store(0, SeqCst);
        let answer = request.to(&spinney.url);
        let asked = asked.load(SeqCst);
        assert!((1..=MOST).contains(&asked), "{} {asked} {}", request.describe(), answer.status);
    }
}

/// What may carry documents of a route and cannot be stamped: the request, and the bytes that the cluster gets of it.
fn unstampable() -> Vec<(&'static str, Request)> {
    let documents = article("odd", 1);
    let utf16: Vec<u8> = documents.bytes().flat_map(|byte| [byte, 0]).collect();
    let gzip = |behind: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, documents.as_bytes()).unwrap();
        [&encoder.finish().unwrap()[..], behind].concat()
    };
    let of = |path: &str, kind: &str, body: &[u8]| Request::new("POST", path).header("Content-Type", kind).body(body);
    let encoded = |coding: &str, body: Vec<u8>| {
        of("/news-1/_bulk", "application/x-ndjson", &body).header("Content-Encoding", coding)
    };
    vec![
        ("cbor", of("/news-1/_bulk", "application/cbor", documents.as_bytes())),
        ("smile", of("/_bulk", "application/smile", documents.as_bytes())),
        ("yaml", of("/news-1/_doc/1", "application/yaml", b"---\ncontent: x\n")),
        ("utf-16", of("/news-1/_bulk", "application/x-ndjson", &utf16)),
        ("br", encoded("br", b"anything".to_vec())),
        ("trailing", encoded("gzip", gzip(b"behind"))),
        ("cut", encoded("gzip", gzip(b"")[..30].to_vec())),
        ("malformed", of("/news-1/_bulk", "application/x-ndjson", b"{\"index\":\n{\"content\":\"x\"}\n")),
        ("stream", of("/_bulk/stream", "application/x-ndjson", documents.as_bytes())),
        ("stream of an index", of("/news-1/_bulk/stream", "application/x-ndjson", documents.as_bytes())),
    ]
}

/// One rule for all of them, whichever their operator has chosen.
#[test]
fn what_cannot_be_stamped_passes_as_it_came_or_is_refused() {
    for (what, expected) in [("pass", 200), ("refuse", 400)] {
        let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", &taken(1))));
        let spinney = start(&fake.url, &["--unstamped", what]);
        for (nth, (kind, request)) in unstampable().into_iter().enumerate() {
            let before = fake.received().len();
            let answer = request.to(&spinney.url);
            assert_eq!(answer.status, expected, "{what} {kind}: {}", answer.text());
            let sent = fake.received().len() - before;
            match what {
                "pass" => {
                    assert_eq!(sent, 1, "{kind}");
                    assert_eq!(fake.last().whole_body(), request.raw_body(), "{kind}");
                }
                _ => {
                    assert_eq!((sent, error_type(&answer)), (0, json!("spinney_unstamped_exception")), "{kind}");
                }
            }
            let counted = stats(&spinney.url)["counters"]["bodies_not_understood"].clone();
            assert_eq!(counted, nth as u64 + 1, "{what} {kind}");
        }
        // What has no route passes in any case, and what can be stamped is.
        let other = Request::new("POST", "/logs-1/_bulk").header("Content-Type", "application/cbor").body(b"x");
        assert_eq!(other.to(&spinney.url).status, 200);
        for path in ["/_all/_bulk", "/_x/_bulk"] {
            let action = json!({"index": {"_index": "news-1"}});
            let body = format!("{action}\n{}\n", json!({"content": "A sentence that is long enough to be one."}));
            assert_eq!(Request::bulk(path, body).to(&spinney.url).status, 200, "{path}");
            let sent = String::from_utf8(fake.last().whole_body()).unwrap();
            assert!(sent.contains("cluster_root"), "{path}: {sent}");
        }
    }
}
