//! What goes wrong in the middle, and ends the same.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use super::{BULK, arguments, assert_adopted, backfill, command, create, load, loaded};
use crate::common::flaky::{Fault, Flaky};
use crate::common::{self, Server, Spinney};
use crate::restart::DataDir;

const DOCUMENTS: usize = 210;

/// What a document teaches counts when its answer has come, so the end is the same where nothing is learned.
const PLAIN: [&str; 2] = ["--method", "longest"];

/// An index of unstamped documents; with them.
async fn archive(server: &Server, label: &str) -> (String, BTreeMap<String, Value>) {
    let index = common::unique_index(label);
    create(server, &index).await;
    load(server.url(), &index, 0..DOCUMENTS).await;
    server.refresh(&index).await;
    let before = server.documents(&index).await;
    (index, before)
}

/// Ends it as a crash would, if it is not dropped by then.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_cluster_with_bad_days() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let expected = loaded(&upstream, "good-days", DOCUMENTS, &PLAIN).await;
    let (index, before) = archive(&server, "bad-days").await;
    let faults = [Fault::TooManyRequests, Fault::AnswerLost, Fault::ItemsRejected, Fault::Unavailable, Fault::Cut];
    let flaky = Flaky::in_front_of(&upstream, 2, &faults);
    let spinney = Spinney::start(&arguments(&flaky.url, &index, &PLAIN));
    let (code, said) = backfill(&spinney.url, &["--bulk-docs", &BULK.to_string()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(flaky.provoked().len(), faults.len(), "{:?}", flaky.provoked());
    // What was stored while its answer was lost is found stamped.
    assert!(said.contains("30 by others meanwhile"), "{said}");
    assert_adopted(&server, &index, &before, &expected).await;
    server.delete_index(&index).await;
}

/// In the middle of a bulk that the cluster has stored, and has not answered.
async fn ended_in_the_middle(kill_spinney: bool) {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let label = if kill_spinney { "spinney" } else { "backfill" };
    let expected = loaded(&upstream, label, DOCUMENTS, &PLAIN).await;
    let (index, before) = archive(&server, label).await;
    let dir = DataDir::new(label);
    let data = dir.path().to_str().unwrap().to_owned();
    let flaky = Flaky::in_front_of(&upstream, 3, &[Fault::Held]);
    let stored = [&PLAIN[..], &["--data-dir", &data]].concat();
    let mut spinney = Spinney::start(&arguments(&flaky.url, &index, &stored));
    let args = ["--bulk-docs", &BULK.to_string()];
    let mut child = Killed(command(&spinney.url, &args).stderr(Stdio::null()).spawn().unwrap());
    flaky.gate.wait_for(1);
    if kill_spinney {
        spinney.kill9();
    }
    child.0.kill().unwrap();
    drop(child);
    flaky.gate.open();
    if kill_spinney {
        spinney = Spinney::start(&arguments(&flaky.url, &index, &stored));
    }
    let (code, said) = backfill(&spinney.url, &args);
    assert_eq!(code, Some(0), "{said}");
    // Three bulks of thirty were stored.
    assert!(said.contains("120 of 210 documents") && said.contains("; 0 have no stamp"), "{said}");
    assert_adopted(&server, &index, &before, &expected).await;
    server.delete_index(&index).await;
}

#[tokio::test]
async fn killed_in_the_middle_it_goes_on() {
    ended_in_the_middle(false).await;
}

#[tokio::test]
async fn killed_with_spinney_in_the_middle_it_goes_on() {
    ended_in_the_middle(true).await;
}

#[tokio::test]
async fn an_interrupt_says_so() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let (index, _) = archive(&server, "interrupt").await;
    let flaky = Flaky::in_front_of(&upstream, 2, &[Fault::Held]);
    let spinney = Spinney::start(&arguments(&flaky.url, &index, &[]));
    let child = command(&spinney.url, &["--bulk-docs", "30"]).stderr(Stdio::piped()).spawn().unwrap();
    flaky.gate.wait_for(1);
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(sent.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interrupted; what is stamped is stamped"), "{said}");
    flaky.gate.open();
    server.delete_index(&index).await;
}

#[tokio::test]
async fn documents_that_change_meanwhile_are_read_again() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let (index, _) = archive(&server, "changed").await;
    let flaky = Flaky::in_front_of(&upstream, 1, &[Fault::Held]);
    let spinney = Spinney::start(&arguments(&flaky.url, &index, &[]));
    let child =
        command(&spinney.url, &["--bulk-docs", "30"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    flaky.gate.wait_for(1);
    // Four bulks were read with the first: changed, deleted, and stamped by somebody else. Not read: new.
    let changed = json!({"content": "the text of the thirty-sixth document is another one now", "n": 36, "published": "2026-01-01T00:36:00Z"});
    let put = |id: &str, source: Value| {
        let (server, path) = (Server::new(&upstream), format!("/{index}/_doc/{id}"));
        async move {
            let (status, answer) = server.request(Method::PUT, &path, Some(source)).await;
            assert!(status.is_success(), "{answer}");
        }
    };
    put("36", changed.clone()).await;
    put("new", json!({"content": "nobody has seen this one before", "n": 1000})).await;
    put("38", json!({"content": "a", "n": 38, "cluster_root": "00000000000000ab", "cluster_key": 0xab})).await;
    server.request(Method::DELETE, &format!("/{index}/_doc/37"), None).await;
    flaky.gate.open();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    for expected in
        ["209 documents stamped", "1 by others", "1 deleted", "changed meanwhile and read again", "; 0 have no stamp"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    server.refresh(&index).await;
    let documents = server.documents(&index).await;
    assert_eq!(documents.len(), DOCUMENTS);
    assert_eq!(common::unstamped(&documents["36"]), changed);
    assert_eq!(documents["38"]["cluster_root"], "00000000000000ab");
    assert!(common::root_of(&documents["new"]).is_some());
    server.delete_index(&index).await;
}
