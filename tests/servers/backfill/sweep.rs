//! What passed by is found, and what stamps say is held against the forest.

use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use super::{arguments, create_mapped, document, groups, load};
use crate::common::{self, Server, Spinney, unique_index};
use crate::restart::stats;

/// Waits until a look that began later has found nothing left; its figures.
async fn swept(spinney: &Spinney, stamped: u64) -> Value {
    let waiting = common::Waiting::until("everything is stamped");
    loop {
        let sweep = stats(&common::http(), &spinney.url).await["sweep"].take();
        if sweep["stamped"].as_u64() >= Some(stamped) && sweep["left"] == 0 {
            return sweep;
        }
        waiting.pause().await;
    }
}

async fn finds_what_passed_by(upstream: &str) {
    let server = Server::new(upstream);
    let index = unique_index("sweep");
    create_mapped(&server, &index).await;
    let spinney = Spinney::start(&arguments(upstream, &index, &["--sweep", "200ms"]));
    load(&spinney.url, &index, 0..60).await;
    load(upstream, &index, 60..120).await;
    swept(&spinney, 60).await;
    // Written anew, past spinney: its stamp is gone with the old document.
    let path = format!("/{index}/_doc/7");
    let (status, _) = server.request(Method::PUT, &path, Some(document(7))).await;
    assert!(status.is_success());
    let sweep = swept(&spinney, 61).await;
    assert_eq!((&sweep["failed"], &sweep["errors"]), (&json!(0), &json!(0)), "{sweep}");
    server.refresh(&index).await;
    let stored = groups(&server.documents(&index).await);
    assert_eq!(stored.len(), 120);
    // A reprint that passed by is with the article that did not.
    assert!(stored.iter().any(|(&n, &first)| n >= 60 && first != n));
    server.delete_index(&index).await;
}

#[tokio::test]
async fn a_sweep_finds_what_passed_by() {
    finds_what_passed_by(&common::opensearch()).await;
}

#[tokio::test]
async fn a_sweep_finds_what_passed_by_on_elasticsearch() {
    finds_what_passed_by(&common::elasticsearch()).await;
}

#[tokio::test]
async fn a_sweep_says_what_it_cannot_stamp() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("unswept");
    let mappings = json!({"properties": {"cluster_root": {"type": "text"}}});
    server.create_index(&index, json!({ "mappings": mappings })).await;
    load(&upstream, &index, 0..3).await;
    server.refresh(&index).await;
    let spinney = Spinney::start(&arguments(&upstream, &index, &["--sweep", "200ms"]));
    let waiting = common::Waiting::until("the sweep says why");
    loop {
        let sweep = stats(&common::http(), &spinney.url).await["sweep"].take();
        if sweep["left"] == 3 {
            assert_eq!(sweep["found"], 3, "{sweep}");
            let failure = sweep["failures"][0].as_str().unwrap();
            assert!(failure.contains("cluster_root is mapped as text"), "{failure}");
            break;
        }
        waiting.pause().await;
    }
    server.delete_index(&index).await;
}

/// What `spinney verify` prints: by what is said, the number.
fn verify(spinney: &str, args: &[&str]) -> std::collections::BTreeMap<String, u64> {
    let output = Command::new(env!("CARGO_BIN_EXE_spinney"))
        .args(["verify", "--spinney-url", spinney])
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines = said.lines().map(|line| {
        let (count, what) = line.trim().split_once(' ').unwrap();
        (what.to_owned(), count.replace(',', "").parse().unwrap())
    });
    let found: std::collections::BTreeMap<String, u64> = lines.collect();
    let code = if found["would be in another tree"] > 0 { 3 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    found
}

#[tokio::test]
async fn stamps_are_held_against_the_forest() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("verify");
    create_mapped(&server, &index).await;
    let spinney = Spinney::start(&arguments(&upstream, &index, &[]));
    load(&spinney.url, &index, 0..120).await;
    load(&upstream, &index, 120..125).await;
    server.refresh(&index).await;
    let found = verify(&spinney.url, &[]);
    assert_eq!(found["documents with a stamp were looked at"], 120, "{found:?}");
    assert_eq!(found["would be in another tree"], 0, "{found:?}");
    assert_eq!(found["documents of these indices have no stamp"], 5, "{found:?}");
    assert_eq!(found["gave no answer"], 0, "{found:?}");
    let known = found["are known under the root of their stamp"];
    assert!(known + found["have no text to compare, and a root of their own"] == 120, "{found:?}");
    let some = verify(&spinney.url, &["--sample", "7", "--index", &index]);
    assert_eq!(some["documents with a stamp were looked at"], 7, "{some:?}");

    // A text that was changed past spinney, under the stamp of the one before.
    let path = format!("/{index}/_update/0?refresh=true");
    let doc = json!({"doc": {"content": document(1)["content"]}});
    let (status, _) = server.request(Method::POST, &path, Some(doc)).await;
    assert!(status.is_success());
    assert_eq!(verify(&spinney.url, &[])["would be in another tree"], 1);
    drop(spinney);
    // Another spinney, which knows nothing.
    let spinney = Spinney::start(&arguments(&upstream, &index, &[]));
    let found = verify(&spinney.url, &[]);
    let unknown = found["are unknown to the forest"];
    assert_eq!(unknown + found["have no text to compare, and a root of their own"], 120, "{found:?}");
    let output = common::spinney_command().args(["verify", "--spinney-url", &spinney.url]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("spinney recover with the options of serve"), "{said}");
    server.delete_index(&index).await;
}

/// The slices of a writer that spinney does not know yet find each other's texts.
#[tokio::test]
async fn slices_into_a_fresh_spinney() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("fresh");
    create_mapped(&server, &index).await;
    load(&upstream, &index, 0..2_000).await;
    server.refresh(&index).await;
    let spinney = Spinney::start(&arguments(&upstream, &index, &[]));
    let (code, said) = super::backfill(&spinney.url, &["--slices", "4"]);
    assert_eq!(code, Some(0), "{said}");
    server.refresh(&index).await;
    let found = verify(&spinney.url, &["--sample", "2000"]);
    // Samples are drawn by chance, and some documents come twice.
    assert!(found["documents with a stamp were looked at"] > 1_500, "{found:?}");
    assert_eq!(found["would be in another tree"], 0, "{found:?}");
    server.delete_index(&index).await;
}

/// A field of the route that no document has is named, with those that could be meant.
#[tokio::test]
async fn a_misspelt_field_is_told() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("misspelt");
    create_mapped(&server, &index).await;
    let spinney =
        Spinney::start(&["--upstream", &upstream, "--index", &index, "--text-field", "body", "--counts", "off"]);
    load(&spinney.url, &index, 0..150).await;
    server.refresh(&index).await;
    let told = "none of 100 documents has anything in the field 'body' of --text-field; is one of these meant: content";
    spinney.log_line("the field is named", |line| line.contains(told));
    let output = Command::new(env!("CARGO_BIN_EXE_spinney")).args(["verify", "--spinney-url", &spinney.url]).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && said.contains(told), "{said}");
    let output = common::spinney_command()
        .args(["doctor", "--upstream", &upstream, "--index", &index, "--text-field", "body", "--medium-field", "paper"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(3) && said.contains(told), "{said}");
    assert!(
        said.contains("in the field 'paper' of --medium-field") && said.contains("-> correct --medium-field"),
        "{said}"
    );
    server.delete_index(&index).await;
}

/// The steps of docs/adopting.md, as they stand there.
#[test]
fn the_page_about_adopting_is_followed() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/adopting");
    let output = Command::new("python3")
        .arg(script)
        .args(["--upstream", &common::opensearch(), "--docs", "1500"])
        .args(["--binary", env!("CARGO_BIN_EXE_spinney")])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["docs"], 1550, "{report}");
}
