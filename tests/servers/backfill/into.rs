//! A copy into a new index: what it has, what is written meanwhile, and what ends it.

use std::collections::BTreeMap;
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};

use super::{BULK, arguments, assert_adopted, backfill, command, document, groups, load, loaded};
use crate::common::flaky::{Fault, Flaky};
use crate::common::{self, Server, Spinney, root_of, unstamped};

const DOCUMENTS: usize = 300;

/// An index of two shards with an alias, and documents without a stamp.
struct Old {
    index: String,
    new: String,
    alias: String,
    pattern: String,
}

impl Old {
    async fn of(server: &Server, label: &str) -> Old {
        let base = common::unique_index(label);
        let old = Old {
            index: format!("{base}-1"),
            new: format!("{base}-2"),
            alias: format!("{base}-alias"),
            pattern: format!("{base}-*"),
        };
        let body = json!({
            "settings": {"number_of_shards": 2, "number_of_replicas": 0, "refresh_interval": "7s"},
            "mappings": {"_meta": {"owner": "news desk"}, "properties": {
                "content": {"type": "text"}, "title": {"type": "text"}, "published": {"type": "date"}, "n": {"type": "integer"},
            }},
            "aliases": {&old.alias: {"is_write_index": true}},
        });
        server.create_index(&old.index, body).await;
        load(server.url(), &old.index, 0..DOCUMENTS).await;
        server.refresh(&old.index).await;
        old
    }

    fn copy(&self, spinney: &Spinney, upstream: &str, more: &[&str]) -> (Option<i32>, String) {
        backfill(&spinney.url, &[&self.args(upstream)[..], more].concat())
    }

    fn args<'a>(&'a self, upstream: &'a str) -> Vec<&'a str> {
        vec!["--service-url", upstream, "--index", &self.index, "--into", &self.new]
    }

    async fn delete(&self, server: &Server) {
        server.delete_index(&self.index).await;
        server.delete_index(&self.new).await;
    }
}

async fn put(server: &Server, path: &str, body: Value) -> Value {
    let (status, answer) = server.request(Method::PUT, path, Some(body)).await;
    assert!(status.is_success(), "{path}: {answer}");
    answer
}

/// Copied once, again what was written since, and then the alias moves.
async fn copies(upstream: &str) {
    let server = Server::new(upstream);
    let expected = loaded(upstream, "anew", DOCUMENTS, &[]).await;
    let old = Old::of(&server, "copied").await;
    // Versions that a writer gives.
    put(&server, &format!("/{}/_doc/7?version=40&version_type=external", old.index), document(7)).await;
    put(
        &server,
        &format!("/{}/_doc/routed?routing=r", old.index),
        json!({"n": 1000, "content": "alone", "published": "2026-01-31T00:00:00Z"}),
    )
    .await;
    server.refresh(&old.index).await;
    let before = server.documents(&old.index).await;
    let spinney = Spinney::start(&arguments(upstream, &old.pattern, &[]));

    let (code, said) = old.copy(&spinney, upstream, &["--dry-run"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("301 documents of") && said.contains("read by published"), "{said}");
    let (code, said) = old.copy(&spinney, upstream, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("301 documents copied and stamped\n"), "{said}");
    let mut expected = expected;
    expected.insert(1000, 1000);
    assert_adopted(&server, &old.new, &before, &expected).await;
    let settings = server.request(Method::GET, &format!("/{}/_settings?flat_settings=true", old.new), None).await.1;
    assert_eq!(settings[&old.new]["settings"]["index.number_of_shards"], "2", "{settings}");
    assert_eq!(settings[&old.new]["settings"]["index.refresh_interval"], "7s", "{settings}");
    let version = server.request(Method::GET, &format!("/{}/_doc/7", old.new), None).await.1;
    assert_eq!(version["_version"], 40, "{version}");

    // Meanwhile: a new one past spinney, changed ones on either way, deleted ones, one of which comes again.
    put(&server, &format!("/{}/_doc/300", old.index), document(300)).await;
    put(&server, &format!("/{}/_doc/5", old.index), document(305)).await;
    load(&spinney.url, &old.index, 20..25).await;
    for gone in [9, 11] {
        let (status, answer) = server.request(Method::DELETE, &format!("/{}/_doc/{gone}", old.index), None).await;
        assert!(status.is_success(), "{answer}");
    }
    put(&server, &format!("/{}/_doc/11", old.index), document(311)).await;
    // What follows an override in the new index has a version that the old one does not have.
    for views in 0..5 {
        let changed = json!({"doc": {"views": views}});
        let (status, answer) = server.request(Method::POST, &format!("/{}/_update/13", old.new), Some(changed)).await;
        assert!(status.is_success(), "{answer}");
    }
    put(&server, &format!("/{}/_doc/13", old.index), document(313)).await;
    let (code, said) = old.copy(&spinney, upstream, &["--alias", &old.alias]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("5 copied with the stamp that they had"), "{said}");
    assert!(said.contains("1 deleted meanwhile"), "{said}");
    assert!(said.contains(&format!("{} is an alias of {} now", old.alias, old.new)), "{said}");
    server.refresh(&old.index).await;
    server.refresh(&old.alias).await;
    let (left, copied) = (server.documents(&old.index).await, server.documents(&old.alias).await);
    let bare = |documents: &BTreeMap<String, Value>| -> BTreeMap<String, Value> {
        documents.iter().map(|(id, source)| (id.clone(), unstamped(source))).collect()
    };
    assert_eq!(bare(&copied), bare(&left));
    assert_eq!(groups(&copied).len(), left.len());
    for id in 20..25 {
        assert_eq!(copied[&id.to_string()], left[&id.to_string()], "a stamp stays as it is");
    }
    let aliases = server.request(Method::GET, &format!("/_alias/{}", old.alias), None).await.1;
    assert_eq!(aliases, json!({&old.new: {"aliases": {&old.alias: {"is_write_index": true}}}}));
    let mapping = server.request(Method::GET, &format!("/{}/_mapping", old.new), None).await.1;
    assert_eq!(mapping[&old.new]["mappings"]["_meta"], json!({"owner": "news desk"}));
    let (status, answer) = server.request(Method::PUT, &format!("/{}/_doc/late", old.index), Some(document(1))).await;
    assert_eq!(status, 403, "what is written to the old index would be lost: {answer}");

    let (code, said) = old.copy(&spinney, upstream, &[]);
    assert!(code == Some(1) && said.contains("was not made by a copy of"), "{code:?}: {said}");
    old.delete(&server).await;
}

#[tokio::test]
async fn a_copy_on_opensearch() {
    copies(&common::opensearch()).await;
}

#[tokio::test]
async fn a_copy_on_elasticsearch() {
    copies(&common::elasticsearch()).await;
}

#[tokio::test]
async fn a_copy_that_is_killed_goes_on_where_it_was() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let plain = ["--method", "longest"];
    let expected = loaded(&upstream, "unkilled", DOCUMENTS, &plain).await;
    let old = Old::of(&server, "killed-copy").await;
    let before = server.documents(&old.index).await;
    let flaky = Flaky::in_front_of(&upstream, 3, &[Fault::Held]);
    let spinney = Spinney::start(&arguments(&flaky.url, &old.pattern, &plain));
    let bulk = BULK.to_string();
    let args = [&old.args(&upstream)[..], &["--bulk-docs", &bulk]].concat();
    let mut child = command(&spinney.url, &args).stderr(Stdio::null()).spawn().unwrap();
    flaky.gate.wait_for(1);
    child.kill().unwrap();
    child.wait().unwrap();
    flaky.gate.open();
    // It is not lost to the next run what is written in between.
    put(&server, &format!("/{}/_doc/300", old.index), document(300)).await;
    let (code, said) = backfill(&spinney.url, &args);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("were copied before"), "{said}");
    server.refresh(&old.new).await;
    let mut copied = server.documents(&old.new).await;
    assert!(root_of(&copied.remove("300").unwrap()).is_some());
    assert_eq!(copied.len(), before.len());
    assert_eq!(groups(&copied), expected);
    old.delete(&server).await;
}

#[tokio::test]
async fn what_is_acknowledged_while_the_alias_moves_is_in_the_new_index() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let old = Old::of(&server, "moving").await;
    let spinney = Spinney::start(&arguments(&upstream, &old.pattern, &[]));
    let args = [&old.args(&upstream)[..], &["--alias", &old.alias, "--bulk-docs", "20"]].concat();
    let mut child = command(&spinney.url, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut number, mut written, mut refused) = (1_000, Vec::new(), 0);
    let code = loop {
        // One more after the end.
        let ended = child.try_wait().unwrap();
        let path = format!("/{}/_doc/{number}", old.alias);
        let sent = common::http().put(format!("{}{path}", spinney.url)).json(&document(number)).send().await.unwrap();
        match sent.status().as_u16() {
            200 | 201 => written.push(number),
            403 => refused += 1,
            status => panic!("{status}: {}", sent.text().await.unwrap()),
        }
        number += 1;
        if let Some(code) = ended {
            break code;
        }
    };
    assert_eq!(code.code(), Some(0));
    assert!(written.len() > 20, "{} were written and {refused} refused", written.len());
    server.refresh(&old.alias).await;
    let copied = server.documents(&old.alias).await;
    assert_eq!(copied.len(), DOCUMENTS + written.len());
    for number in written {
        let source = &copied[&number.to_string()];
        assert!(root_of(source).is_some());
        assert_eq!(unstamped(source), document(number));
    }
    old.delete(&server).await;
}

#[tokio::test]
async fn an_alias_does_not_move_to_documents_without_a_stamp() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let old = Old::of(&server, "unstamped-copy").await;
    let spinney = Spinney::start(&arguments(&upstream, &old.pattern, &[]));
    let (code, said) = old.copy(&spinney, &upstream, &[]);
    assert_eq!(code, Some(0), "{said}");
    put(&server, &format!("/{}/_doc/7?version=9&version_type=external", old.new), document(7)).await;
    let (code, said) = old.copy(&spinney, &upstream, &["--alias", &old.alias]);
    assert!(code == Some(1) && said.contains("has documents without a stamp (1)"), "{code:?}: {said}");
    put(&server, &format!("/{}/_doc/300", old.alias), document(300)).await;

    let (code, said) = backfill(&spinney.url, &["--index", &old.new]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = old.copy(&spinney, &upstream, &["--alias", &old.alias]);
    assert!(code == Some(0) && said.contains("is an alias of"), "{code:?}: {said}");
    old.delete(&server).await;
}

#[tokio::test]
async fn what_is_not_copied() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let old = Old::of(&server, "uncopied").await;
    let spinney = Spinney::start(&arguments(&upstream, &old.pattern, &[]));
    for (args, expected) in [
        (vec!["--index", &old.index, "--into", "elsewhere"], "has not the route of"),
        (vec!["--index", &old.index, "--into", &old.index], "has not the route of"),
        (vec!["--index", &old.pattern, "--into", &old.new], "one index is copied at a time"),
        (vec!["--index", &old.index, "--into", &old.new, "--alias", "no-alias"], "has no alias no-alias"),
    ] {
        if expected.starts_with("one index") {
            server.create_index(&old.new, json!({})).await;
        }
        let (code, said) = backfill(&spinney.url, &[&args[..], &["--service-url", &upstream]].concat());
        assert!(code == Some(1) && said.contains(expected), "{args:?}: {code:?}: {said}");
        if expected.starts_with("one index") {
            let args = [&old.args(&upstream)[..], &[]].concat();
            let (code, said) = backfill(&spinney.url, &args);
            assert!(code == Some(1) && said.contains("was not made by a copy of"), "{code:?}: {said}");
            server.delete_index(&old.new).await;
        }
    }
    // Nothing is blocked for an alias that is not there.
    put(&server, &format!("/{}/_doc/1", old.index), document(1)).await;
    let (code, said) = backfill(&spinney.url, &["--index", &old.index, "--into", &old.new]);
    assert!(code == Some(2) && said.contains("--service-url"), "{code:?}: {said}");
    server.delete_index(&old.index).await;
}
