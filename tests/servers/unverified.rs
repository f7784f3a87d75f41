//! What unverified writers leave behind: nothing, in whatever way the cluster refuses them. Honest documents find their
//! clusters as if nobody else had been there.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::fake::{self, Fake, Received, Reply};
use crate::common::gate::Gate;
use crate::common::wire::{Request, Wire};
use crate::common::{self, Spinney, Waiting, root_of, twin};
use crate::restart::stats;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

/// Options of a spinney that could be led astray: it learns boilerplate, and takes dates from documents.
pub const OPTIONS: [&str; 4] = ["--clock", "field:published_at", "--window", "30d"];

/// The sentences of the first document, of which its reprint has all but the last.
const SENTENCES: usize = 10;

/// A sentence that shares nothing but its first word with that of any other number. (It needs a capital letter to be a
/// sentence of its own.)
fn sentence(n: usize) -> String {
    format!("Point {}.", twin::text(n))
}

fn text(numbers: impl IntoIterator<Item = usize>) -> String {
    let sentences: Vec<String> = numbers.into_iter().map(sentence).collect();
    sentences.join(" ")
}

fn document(id: &str, day: &str, content: &str) -> String {
    let source = json!({"content": content, "published_at": format!("{day}T00:00:00Z")});
    format!("{}\n{source}\n", json!({"index": {"_id": id}}))
}

/// What the honest writer sends before the unverified writers come.
pub fn before() -> String {
    document("first", "2024-01-01", &text(0..SENTENCES)) + &document("other", "2024-01-02", &text(100..105))
}

/// What it sends after they have come: a reprint of its first document, and a text of its own.
pub fn after() -> String {
    document("reprint", "2024-01-03", &text((0..SENTENCES - 1).chain([200])))
        + &document("own", "2024-01-04", &text(300..310))
}

/// What unverified writers send: a near copy of the writer's own text before it comes, dates that would expire
/// everything, and lessons that the sentences of the first document are boilerplate, in one bulk and in many.
pub fn strange() -> Vec<String> {
    let copy = document("copy", "2024-01-02", &text((300..309).chain([400])));
    let late = document("late", "2099-01-01", &text(500..503));
    let lesson = |n: usize| {
        // Enough text of its own that it founds a tree: what joins one teaches nothing.
        let own = 1_000 + 50 * n;
        let numbers = (own..own + 40).chain(0..SENTENCES - 1);
        document(&format!("lesson-{n}"), "2024-01-02", &text(numbers))
    };
    let many = (0..6).map(lesson).collect();
    let single = (6..12).map(lesson);
    [copy, late, many].into_iter().chain(single).collect()
}

/// What came of the honest writer's documents.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// The roots in the order of the documents.
    pub roots: Vec<String>,
    /// The nodes in the end.
    pub nodes: u64,
    /// How many nodes there were more after the unverified writers than before.
    pub strange_nodes: i64,
    /// Whether the log speaks of boilerplate.
    pub learned: bool,
}

impl Found {
    /// Asserts what holds without unverified writers: the reprint has joined, and nothing else.
    pub fn assert_one_has_joined(&self) {
        let [first, other, reprint, own] = &self.roots[..] else {
            panic!("{self:?}");
        };
        assert_eq!(first, reprint);
        assert!(first != other && first != own && other != own, "{self:?}");
        assert!(self.strange_nodes == 0 && !self.learned, "{self:?}");
    }
}

/// Whether a log says that a sentence was learned.
pub fn has_learned(log: &str) -> bool {
    log.contains("boilerplate")
}

// ---- a made-up cluster ----

const WRITER: &str = "Basic d3JpdGVyOndyaXRlcg==";

/// One way in which a cluster refuses an unverified writer, or loses it.
struct Way {
    name: &'static str,
    query: &'static str,
    headers: &'static [(&'static str, &'static str)],
    reply: fn(&Received) -> Reply,
    /// The client leaves while the cluster has its request.
    leaves: bool,
}

const PLAIN: Way = Way { name: "", query: "", headers: &[], reply: |_| Reply::Last(Vec::new()), leaves: false };

fn ways() -> Vec<Way> {
    vec![
        Way { name: "401", reply: |_| status(401), ..PLAIN },
        Way { name: "items with 403", reply: |bulk| items(bulk, 403), ..PLAIN },
        Way {
            name: "items with 403 that the sender does not want to see",
            query: "?filter_path=took",
            reply: |bulk| match bulk.target().contains("items") {
                true => items(bulk, 403),
                false => Reply::Bytes(fake::json(200, "", "{\"took\":1}")),
            },
            ..PLAIN
        },
        Way { name: "a pipeline that drops every document", query: "?pipeline=drop", reply: dropped, ..PLAIN },
        Way {
            name: "a pipeline that drops, which the sender does not want to see",
            query: "?pipeline=drop&filter_path=errors,items.*.error,items.*.status",
            reply: |bulk| match bulk.target().contains("items.*.result") {
                true => dropped(bulk),
                false => items(bulk, 200),
            },
            ..PLAIN
        },
        Way { name: "302", reply: |_| Reply::Bytes(fake::json(302, "location: /elsewhere\r\n", "")), ..PLAIN },
        Way { name: "408", reply: |_| status(408), ..PLAIN },
        Way { name: "503", reply: |_| status(503), ..PLAIN },
        Way {
            name: "items with 403, deflated if that is asked for",
            headers: &[("Accept-Encoding", "deflate")],
            reply: |bulk| match bulk.headers("accept-encoding").concat().contains("deflate") {
                true => Reply::Bytes(deflated(&items_of(bulk, 403))),
                false => items(bulk, 403),
            },
            ..PLAIN
        },
        Way { name: "a closed connection", ..PLAIN },
        Way {
            name: "a page that says 200",
            reply: |_| {
                Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\nBusy".to_vec())
            },
            ..PLAIN
        },
        Way { name: "items with 403 after the client has left", reply: |bulk| items(bulk, 403), leaves: true, ..PLAIN },
        Way { name: "a closed connection after the client has left", leaves: true, ..PLAIN },
    ]
}

fn status(status: u16) -> Reply {
    let body = json!({"error": {"type": "made_up_exception"}, "status": status});
    Reply::Bytes(fake::json(status, "", &body.to_string()))
}

/// The answer to a bulk whose every document fares alike.
fn items_of(bulk: &Received, status: u16) -> String {
    let count = bulk.body.iter().filter(|byte| **byte == b'\n').count() / 2;
    let items = vec![json!({"index": {"status": status}}); count];
    json!({"took": 1, "errors": status > 299, "items": items}).to_string()
}

fn items(bulk: &Received, status: u16) -> Reply {
    Reply::Bytes(fake::json(200, "", &items_of(bulk, status)))
}

/// As a server answers for documents that an ingest pipeline has dropped.
fn dropped(bulk: &Received) -> Reply {
    let answer = items_of(bulk, 200).replace("\"status\"", "\"result\":\"noop\",\"status\"");
    Reply::Bytes(fake::json(200, "", &answer))
}

fn deflated(body: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body.as_bytes()).unwrap();
    let body = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=UTF-8\r\ncontent-encoding: \
         deflate\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// Sends the unverified writers' bulks, if there is a way to refuse them, between the writer's two.
async fn found(way: Option<&Way>) -> Found {
    let gate = Gate::closed();
    let (reply, held) = (way.map(|way| way.reply), way.filter(|way| way.leaves).map(|_| Arc::clone(&gate)));
    let fake = Fake::start(move |request| {
        if !request.target().contains("_bulk") {
            let health = json!({"cluster_name": "made up", "status": "green", "number_of_nodes": 1});
            return Reply::Bytes(fake::json(200, "", &health.to_string()));
        }
        if request.headers("authorization") == [WRITER] {
            return items(request, 201);
        }
        if let Some(gate) = &held {
            gate.pass();
        }
        reply.unwrap()(request)
    });
    let args = ["--upstream", &fake.url, "--index", "news-*"];
    let spinney = Spinney::start(&[&args[..], &["--text-field", "content"], &OPTIONS].concat());
    let write = |body: String| {
        let bulk = Request::bulk("/news-1/_bulk", body).header("Authorization", WRITER);
        assert_eq!(bulk.to(&spinney.url).json()["errors"], false);
    };
    write(before());
    let nodes = || twin::nodes(&twin::stats(&spinney.url));
    let remembered = nodes();
    if let Some(way) = way {
        let target = format!("/news-1/_bulk{}", way.query);
        for (sent, body) in strange().into_iter().enumerate() {
            let bulk = Request::bulk(&target, body);
            let headers = way.headers.iter();
            let bulk = headers.fold(bulk, |bulk, (name, value)| bulk.header(name, value));
            let mut wire = Wire::connect(&spinney.url);
            wire.send(&bulk.bytes());
            match way.leaves {
                true => gate.wait_for(sent + 1),
                false => drop(wire.last_answer(false)),
            }
        }
        gate.open();
    }
    let strange_nodes = nodes().cast_signed() - remembered.cast_signed();
    write(after());
    let written = fake.received().into_iter();
    let written = written.filter(|request| request.headers("authorization") == [WRITER]);
    let bodies: Vec<Vec<u8>> = written.map(|request| request.body).collect();
    Found {
        roots: roots(&bodies.concat()),
        nodes: nodes(),
        strange_nodes,
        learned: has_learned(&spinney.end_and_log()),
    }
}

/// The roots of the documents of bulks, in their order.
fn roots(bodies: &[u8]) -> Vec<String> {
    let lines = bodies.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let sources = lines.skip(1).step_by(2).map(|line| {
        let source: Value = serde_json::from_slice(line).unwrap();
        root_of(&source).expect("a stamp").to_owned()
    });
    sources.collect()
}

#[tokio::test]
async fn unverified_leave_nothing_however_they_are_refused() {
    let alone = found(None).await;
    alone.assert_one_has_joined();
    let mut wrong = Vec::new();
    for way in ways() {
        let found = found(Some(&way)).await;
        if found != alone {
            wrong.push((way.name, found));
        }
    }
    assert!(wrong.is_empty(), "not as alone {alone:?}: {wrong:#?}");
}

/// The first bulks after a start are all of writers who are not known yet: each waits until those before it are stored,
/// for a second at most, and finds them.
#[tokio::test]
async fn first_bulks_that_come_at_once_find_each_other() {
    const STORIES: usize = 30;
    let bulk = |last: usize| -> String {
        let story = |n: usize| text((n * 20..n * 20 + 9).chain([n * 20 + last]));
        (0..STORIES).map(|n| document(&format!("{last}-{n}"), "2024-01-01", &story(n))).collect()
    };
    let client = common::http();
    let in_flight = async |url: &str| stats(&client, url).await["requests_in_flight"].as_u64().unwrap();
    let waiting = Waiting::until("a second bulk comes within the second that it waits");
    // One after the other, then at once.
    let mut expected = None;
    loop {
        let gate = Gate::closed();
        let held = gate.clone();
        let fake = Fake::start(move |request| {
            if !request.target().contains("_bulk") {
                return Reply::Bytes(fake::json(200, "", fake::HEALTH));
            }
            held.pass();
            items(request, 201)
        });
        let spinney = Spinney::start(&["--upstream", &fake.url, "--index", "news-*", "--text-field", "content"]);
        let send = |last: usize| {
            let mut wire = Wire::connect(&spinney.url);
            wire.send(&Request::bulk("/news-1/_bulk", bulk(last)).bytes());
            wire
        };
        let answered = |mut wire: Wire| assert_eq!(wire.last_answer(false).json()["errors"], false);
        let first = send(9);
        gate.wait_for(1);
        let sent = Instant::now();
        match expected {
            None => {
                gate.open();
                answered(first);
                answered(send(10));
            }
            Some(_) => {
                let before = in_flight(&spinney.url).await;
                let second = send(10);
                while in_flight(&spinney.url).await <= before {
                    waiting.pause().await;
                }
                gate.open();
                answered(first);
                answered(second);
            }
        }
        let is_late = sent.elapsed() > Duration::from_millis(900);
        let bulks = fake.received().into_iter().filter(|request| request.target().contains("_bulk"));
        let found: Vec<Vec<String>> = bulks.map(|bulk| roots(&bulk.body)).collect();
        let joined = found[0].iter().zip(&found[1]).filter(|(first, second)| first == second).count();
        assert!(joined > STORIES * 2 / 3, "{joined} of {STORIES}");
        match &expected {
            None => expected = Some(found),
            Some(_) if is_late => waiting.pause().await,
            Some(expected) => return assert_eq!(&found, expected),
        }
    }
}
