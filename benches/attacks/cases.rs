//! The attacks. Whoever attacks is an unverified writer: without credentials, with wrong ones, or with a user's who may
//! only read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::probes::HONEST;
use super::requests::{Attacker, Caller, Request};
use super::texts;
use super::upstream::WAYS;
use crate::support::documents::Documents;
use crate::support::load;
use crate::support::random::Random;

/// The index that everybody writes to, or tries to.
pub const INDEX: &str = "open-attack";

const MIB: usize = 1 << 20;

/// One attack.
pub struct Case {
    pub name: &'static str,
    /// Options of spinney.
    pub options: &'static [&'static str],
    /// How many files spinney may open, where that is less than usual.
    pub files: Option<u32>,
    pub attackers: fn() -> Vec<Attacker>,
    /// Whether the cluster has work with the attack too: then it is also made through a spinney that stamps nothing.
    pub is_relayed: bool,
    /// What a made-up cluster has to refuse besides.
    pub made_up: fn() -> Vec<Request>,
}

const VERIFIED: &[&str] = &["--title-field", "title"];

/// All of them, in the order in which they run.
pub const CASES: [Case; 15] = [
    Case { attackers: hostile_text, ..case("hostile-text") },
    Case { attackers: sentences, ..case("sentences") },
    Case { attackers: slow_body, ..case("slow-body") },
    Case { attackers: refused, is_relayed: true, made_up: refused_in_all_ways, ..case("refused") },
    Case {
        options: &["--title-field", "title", "--clock", "field:published_at", "--window", "30d"],
        attackers: side_effects,
        is_relayed: true,
        made_up: side_effects_in_all_ways,
        ..case("side-effects")
    },
    Case { options: &["--method", "short:longest"], attackers: short_flood, ..case("short-flood") },
    Case {
        options: &["--title-field", "title", "--admin-listen", "127.0.0.1:0"],
        files: Some(256),
        attackers: silent,
        ..case("silent")
    },
    Case { attackers: many_documents, ..case("many-documents") },
    Case { attackers: filters, ..case("filters") },
    Case { attackers: questions, is_relayed: true, ..case("questions") },
    Case { attackers: heads, ..case("heads") },
    Case { attackers: names, is_relayed: true, ..case("names") },
    Case { attackers: odd_documents, ..case("odd-documents") },
    Case { options: &["--title-field", "title", "--unstamped", "refuse"], attackers: unstamped, ..case("unstamped") },
    Case { attackers: oversize, ..case("oversize") },
];

const fn case(name: &'static str) -> Case {
    Case { name, options: VERIFIED, files: None, attackers: Vec::new, is_relayed: false, made_up: Vec::new }
}

fn bulk(caller: Caller, body: impl Into<Bytes>) -> Request {
    Request::bulk(caller, &path(""), "", body)
}

fn gzipped(body: &[u8]) -> Request {
    let headers = "Content-Encoding: gzip\r\n";
    Request::bulk(Caller::Nobody, &path(""), headers, texts::gzip(body))
}

fn path(query: &str) -> String {
    format!("/{INDEX}/_bulk{query}")
}

/// Lines of one document of this source.
fn lines(source: impl AsRef<[u8]>) -> Vec<u8> {
    [b"{\"index\":{}}\n", source.as_ref(), b"\n"].concat()
}

fn senders(count: usize, requests: Vec<Request>) -> Vec<Attacker> {
    vec![Attacker::Sends(requests.into()); count]
}

/// Texts that a cleaner could search again and again, plain and, eight times as long, in gzip.
fn hostile_text() -> Vec<Attacker> {
    let plain = texts::hostile(MIB).into_iter();
    let plain = plain.map(|text| bulk(Caller::Nobody, texts::bulk([text])));
    let long = texts::hostile(8 * MIB).into_iter();
    let long = long.map(|text| gzipped(&texts::bulk([text])));
    senders(6, plain.chain(long).collect())
}

/// A few kilobytes that become millions of sentences.
fn sentences() -> Vec<Attacker> {
    let text = texts::repeated("", "1!", "", 24 * MIB);
    senders(4, vec![gzipped(&texts::bulk([text]))])
}

/// Large bodies that never come: one that takes all of the default budget, and smaller ones.
fn slow_body() -> Vec<Attacker> {
    let lengths = [256, 64, 100, 16].map(|mib| Attacker::Trickles(mib * MIB));
    lengths.into_iter().cycle().take(16).collect()
}

/// What the cluster refuses: by its status or item by item, read by its sender in part, in a strange encoding or not at
/// all.
fn refused() -> Vec<Attacker> {
    let mut requests = Vec::new();
    let mut documents = Documents::new(31, None);
    // Some of them are what the honest writer is about to send.
    let prepared = load::bulks(&mut Documents::new(HONEST, None), 8);
    let strange = load::bulks(&mut documents, 4);
    for (turn, body) in strange.iter().chain(&prepared[4..]).enumerate() {
        for caller in [Caller::Nobody, Caller::Reader, Caller::WrongPassword] {
            let deflate = "Accept-Encoding: deflate\r\n";
            let took = path("?filter_path=took");
            requests.push(match turn % 4 {
                0 => Request::bulk(caller, &took, "", body.clone()),
                1 => Request::bulk(caller, &path(""), deflate, body.clone()),
                2 => bulk(caller, body.clone()).leaving(Duration::from_millis(20)),
                _ => Request::bulk(caller, &took, deflate, body.clone()).leaving(Duration::from_millis(200)),
            });
        }
    }
    senders(4, requests)
}

/// The same bulks in every way in which a made-up cluster fails.
fn in_all_ways(bodies: &[Bytes]) -> Vec<Request> {
    let mut requests = Vec::new();
    for body in bodies {
        for way in WAYS {
            for more in ["", "&filter_path=took"] {
                let path = path(&format!("?way={way}{more}"));
                let headers = "Accept-Encoding: deflate\r\n";
                let request = Request::bulk(Caller::Nobody, &path, headers, body.clone());
                requests.push(request.clone());
                requests.push(request.leaving(Duration::from_millis(5)));
            }
        }
    }
    requests
}

fn refused_in_all_ways() -> Vec<Request> {
    in_all_ways(&load::bulks(&mut Documents::new(32, None), 1))
}

/// The sentences of the document that is to be joined in the end.
const JOINED: u64 = 41;
const JOINED_SENTENCES: usize = 10;

/// A bulk of the document that is to be joined (false), or of one that must join it: its last sentence differs.
pub fn to_join(is_second: bool) -> Bytes {
    let mut sentences = texts::sentences(JOINED, JOINED_SENTENCES);
    if is_second {
        sentences.pop();
        sentences.extend(texts::sentences(JOINED + 1, 1));
    }
    let (id, at) = match is_second {
        false => ("first", "2024-01-01T00:00:00Z"),
        true => ("second", "2024-01-01T01:00:00Z"),
    };
    let source = json!({"content": sentences.join(" "), "published_at": at});
    format!("{}\n{source}\n", json!({"index": {"_id": id}})).into()
}

/// Lessons, that the sentences of another's document say nothing, and dates that would expire everything.
fn lessons_and_dates() -> Vec<Bytes> {
    let taught = texts::sentences(JOINED, JOINED_SENTENCES - 1);
    let mut random = Random::new(43);
    let mut bulks = Vec::new();
    for size in [1, 50] {
        for date in ["2024-01-01T00:00:30Z", "2099-12-31T00:00:00Z"] {
            let mut body = String::new();
            for _ in 0..size {
                // Enough text of its own that it founds a tree: what joins one teaches nothing.
                let own: Vec<String> = (0..40).map(|_| texts::sentence(&mut random)).collect();
                let text = [own.join(" "), taught.join(" ")].join(" ");
                let source = json!({"content": text, "published_at": date});
                body.push_str(&format!("{{\"index\":{{}}}}\n{source}\n"));
            }
            bulks.push(body.into());
        }
    }
    bulks
}

fn side_effects() -> Vec<Attacker> {
    let mut requests = Vec::new();
    for body in lessons_and_dates() {
        for caller in [Caller::Reader, Caller::Nobody, Caller::Reader] {
            let took = path("?filter_path=took");
            requests.push(bulk(caller, body.clone()));
            requests.push(Request::bulk(caller, &took, "", body.clone()));
            requests.push(bulk(caller, body.clone()).leaving(Duration::from_millis(20)));
        }
    }
    senders(4, requests)
}

fn side_effects_in_all_ways() -> Vec<Request> {
    in_all_ways(&lessons_and_dates())
}

/// Thousands of short texts in one bulk, each near all others.
fn short_flood() -> Vec<Attacker> {
    let texts = texts::short_and_near(4_000);
    senders(4, vec![bulk(Caller::Nobody, texts::bulk(&texts))])
}

/// Three times as many silent connections as spinney may open files.
fn silent() -> Vec<Attacker> {
    vec![Attacker::IsSilent; 768]
}

/// Documents without number, each of them new.
fn many_documents() -> Vec<Attacker> {
    let bodies: Arc<[Bytes]> = load::bulks(&mut Documents::new(51, None), 12);
    let requests = bodies.iter().map(|body| bulk(Caller::Nobody, body.clone()));
    senders(6, requests.collect())
}

/// Filters of an answer that stand for very many paths.
fn filters() -> Vec<Attacker> {
    let paths = ["**.".repeat(1_300), "**.*.".repeat(64), "**.a,".repeat(63)];
    let body = load::bulks(&mut Documents::new(61, None), 1)[0].clone();
    let mut requests = Vec::new();
    for paths in paths {
        for caller in [Caller::Nobody, Caller::Reader, Caller::WrongPassword] {
            let path = path(&format!("?filter_path={paths}x"));
            requests.push(Request::bulk(caller, &path, "", body.clone()));
        }
    }
    senders(4, requests)
}

/// Bodies for spinney's own endpoints: a few kilobytes that become a tree of millions of values, and as much as may
/// come plain.
fn questions() -> Vec<Attacker> {
    let packed = texts::gzip(texts::repeated("{\"query\":[", "{},", "0]}", 24 * MIB).as_bytes());
    let plain = Bytes::from(texts::repeated("{\"query\":[", "{},", "0]}", MIB));
    let gzip = "Content-Encoding: gzip\r\n";
    let mut requests = Vec::new();
    for endpoint in ["_groups", "_check", "_merge", "_split", "_pin"] {
        let path = format!("/_spinney/{INDEX}/{endpoint}");
        for caller in [Caller::Nobody, Caller::Reader, Caller::WrongPassword] {
            requests.push(Request::bulk(caller, &path, gzip, packed.clone()));
            requests.push(Request::bulk(caller, &path, "", plain.clone()));
        }
    }
    senders(6, requests)
}

/// Heads that do not end.
fn heads() -> Vec<Attacker> {
    vec![Attacker::BeginsHead(400_000); 300]
}

/// Bulks for very many indices that have no route: each may be an alias.
fn names() -> Vec<Attacker> {
    let bulk_of = |turn: usize| {
        let lines = (0..64).map(|n| {
            let action = json!({"index": {"_index": format!("name-{turn}-{n}")}});
            format!("{action}\n{{\"content\":\"a\"}}\n")
        });
        lines.collect::<String>()
    };
    let mut requests = Vec::new();
    for turn in 0..32 {
        for caller in [Caller::Nobody, Caller::Reader] {
            requests.push(Request::bulk(caller, "/_bulk", "", bulk_of(turn)));
        }
    }
    senders(4, requests)
}

/// The text of the document that is to be joined: whatever has it needs no node more.
fn known_text() -> String {
    texts::sentences(JOINED, JOINED_SENTENCES).join(" ")
}

/// Documents that the cluster stores and strict readers of JSON do not read: half of an emoji, comments, one of which
/// has no end, and a number beyond a double.
fn odd_documents() -> Vec<Attacker> {
    let text = known_text();
    let sources = [
        format!(r#"{{"content":"{text}","note":"\ud83d"}}"#),
        format!(r#"{{"content":"{text}" /* note */,"note":1}}"#),
        format!(r#"{{"content":"{text}"}} // {{"#),
        format!(r#"{{"content":"{text}","note":1e400}}"#),
    ];
    senders(4, sources.map(|source| bulk(Caller::Writer, lines(source))).into())
}

/// Bulks of who may write that spinney does not read, or not as the cluster does.
fn unstamped() -> Vec<Attacker> {
    let source = json!({"content": known_text()}).to_string();
    let plain = lines(&source);
    let utf16: Vec<u8> = source.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let named = format!("{}\n{source}\n", json!({"index": {"_index": INDEX}}));
    let trailing = [&texts::gzip(&plain)[..], b"trailing"].concat();
    let send = |path: &str, headers, body| Request::bulk(Caller::Writer, path, headers, body);
    senders(
        4,
        vec![
            send(&path(""), "", lines(utf16)),
            Request::bulk_of("application/smile", Caller::Writer, &path(""), "", texts::smile_bulk()),
            send("/_all/_bulk", "", named.clone().into()),
            send("/_all/_bulk", "", lines(&source)),
            send("/_bulk/stream", "", named.into()),
            send(&path("/stream"), "", plain),
            send(&path(""), "Content-Encoding: gzip\r\n", trailing),
        ],
    )
}

/// Documents that are as large as the cluster takes.
fn oversize() -> Vec<Attacker> {
    let body: Bytes = lines(json!({"content": texts::repeated("", "word ", "", 100 * MIB - 1024)}).to_string()).into();
    let callers = [Caller::Nobody, Caller::Reader, Caller::WrongPassword];
    senders(3, callers.map(|caller| bulk(caller, body.clone())).into())
}
