//! How many connections there are, how long the cluster may take, and what probes see of either. (How slowly a body may
//! come, and how much of the budget a client may hold, is tested where the clock can be stopped: `http/body.rs`,
//! `http/budget.rs`.)

use std::sync::Arc;
use std::thread;

use crate::common::fake::{self, Fake, Reply};
use crate::common::gate::Gate;
use crate::common::twin::{article, nodes, start, stats};
use crate::common::wire::{Answer, Request, Wire};
use serde_json::Value;

const TAKEN: &str = "{\"took\":1,\"errors\":false,\"items\":[{\"index\":{\"_id\":\"a\",\"status\":201}}]}";

/// A cluster that takes everything; the answers to bulks wait at the gate.
fn gated(gate: &Arc<Gate>) -> Fake {
    Fake::slow(Arc::clone(gate), |_| Reply::Bytes(fake::json(200, "", TAKEN)))
}

fn bulk() -> Request {
    Request::bulk("/news-x/_bulk", article("a", 1))
}

fn error_type(answer: &Answer) -> Value {
    answer.json()["error"]["type"].clone()
}

/// One too many: a connection that has sent nothing makes room, and one in use does not.
#[test]
fn silent_connections_make_room() {
    let fake = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{}")));
    let spinney = start(&fake.url, &["--max-connections", "2"]);
    let mut silent = Wire::connect(&spinney.url);
    let mut used = Wire::connect(&spinney.url);
    assert_eq!(Request::get("/").on(&mut used).status, 200);
    let mut third = Wire::connect(&spinney.url);
    assert_eq!(Request::get("/").on(&mut third).status, 200);
    silent.expect_close();
    assert_eq!(Request::get("/").on(&mut used).status, 200);
    // Both are idle now: whichever goes, whoever comes is served.
    assert_eq!(Request::get("/").to(&spinney.url).status, 200);
    let counters = &stats(&spinney.url)["counters"];
    assert_eq!(counters["connections_refused"], 0);
    assert!(counters["connections_evicted"].as_u64() >= Some(2), "{counters}");
}

/// Where every connection is in use, a request more is refused, probes are answered, and nothing that was begun breaks
/// off.
#[test]
fn probes_are_answered_when_there_is_no_room() {
    const MOST: usize = 3;
    let gate = Gate::closed();
    let fake = gated(&gate);
    let spinney = start(&fake.url, &["--max-connections", "3"]);
    let wires = [(); MOST].map(|()| {
        let mut wire = Wire::connect(&spinney.url);
        wire.send(&bulk().bytes());
        wire
    });
    gate.wait_for(MOST);
    let mut wire = Wire::connect(&spinney.url);
    let refused = Request::get("/").header("X-Opaque-Id", "me").on(&mut wire);
    assert_eq!(refused.status, 503);
    assert_eq!(error_type(&refused), "spinney_too_many_connections_exception");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("x-opaque-id"), Some("me"));
    wire.expect_close();
    // However many hold such a connection without a word.
    let silent: Vec<_> = (0..50).map(|_| Wire::connect(&spinney.url)).collect();
    for path in ["_health", "_ready", "_stats", "_metrics"] {
        let answer = Request::get(&format!("/_spinney/{path}")).to(&spinney.url);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    drop(silent);
    gate.open();
    for mut wire in wires {
        assert_eq!(wire.last_answer(false).text(), TAKEN);
    }
    assert_eq!(Request::get("/").to(&spinney.url).status, 200);
    assert_eq!(stats(&spinney.url)["counters"]["connections_refused"], 1);
}

/// Probes and monitors have a listener of their own, on which nothing else is.
#[test]
fn an_address_for_probes_alone() {
    let gate = Gate::closed();
    let fake = gated(&gate);
    let more = ["--max-connections", "1", "--admin-listen", "127.0.0.1:0"];
    let spinney = start(&fake.url, &more);
    let admin = spinney.admin_url();
    let mut busy = Wire::connect(&spinney.url);
    busy.send(&bulk().bytes());
    gate.wait_for(1);
    let silent: Vec<_> = (0..50).map(|_| Wire::connect(&admin)).collect();
    for path in ["/_spinney/_health", "/_spinney/_ready", "/_spinney/_stats", "/_spinney/_metrics", "/metrics"] {
        let answer = Request::get(path).to(&admin);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    drop(silent);
    let before = fake.received().len();
    for request in [
        Request::get("/"),
        bulk(),
        Request::get("/_spinney/_none"),
        Request::json("POST", "/_spinney/news-x/_check", "{}"),
    ] {
        let answer = request.to(&admin);
        assert_eq!(answer.status, 404, "{}", answer.text());
        assert_eq!(error_type(&answer), "spinney_no_endpoint_exception");
    }
    assert_eq!(fake.received().len(), before, "something reached the cluster");
    gate.open();
    assert_eq!(busy.last_answer(false).status, 200);
    for path in ["_health", "_stats"] {
        let answer = Request::get(&format!("/_spinney/{path}")).to(&spinney.url);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

/// A cluster that does not answer a write is given up; what takes its time is not a write.
#[test]
fn a_cluster_that_does_not_answer() {
    let (gate, merging) = (Gate::closed(), Gate::closed());
    let (held, merge) = (Arc::clone(&gate), Arc::clone(&merging));
    let fake = Fake::start(move |request| {
        if request.target().ends_with("/_bulk") || request.target().contains("/_doc/") {
            held.pass();
        } else if request.target().ends_with("/_forcemerge") {
            merge.pass();
        }
        Reply::Bytes(fake::json(200, "", "{\"merged\":true}"))
    });
    let spinney = start(&fake.url, &["--upstream-timeout", "200ms"]);
    let url = spinney.url.clone();
    let merged = thread::spawn(move || Request::new("POST", "/news-x/_forcemerge").to(&url));
    merging.wait_for(1);
    let document = Request::json("PUT", "/news-x/_doc/b", "{\"content\":\"a harbour full of boats\"}");
    let mut wire = Wire::connect(&spinney.url);
    for request in [bulk(), document] {
        let answer = request.on(&mut wire);
        assert_eq!(answer.status, 504, "{}", answer.text());
        assert_eq!(error_type(&answer), "spinney_upstream_timeout_exception");
        assert_eq!(answer.json()["status"], 504);
        assert_eq!(answer.header("retry-after"), None, "the documents may be stored");
    }
    // The merge was asked for before, and still goes on.
    merging.open();
    assert_eq!(merged.join().unwrap().text(), "{\"merged\":true}");
    let stats = stats(&spinney.url);
    assert_eq!(nodes(&stats), 0, "nothing is kept of a stranger that may not be stored");
    assert_eq!(stats["counters"]["upstream_timed_out"], 2);
    gate.open();
}
