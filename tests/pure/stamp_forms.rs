//! `--stamp lean` and `full`: what they write, and that nothing is lost with the lean one.

use serde_json::{Value, json};

use super::stamp::{said, sample, stamp, stamped, values};

const METHODS: [&str; 7] = ["verified", "longest", "full", "sentences:3", "short", "staged", "field:print"];

fn options<'a>(method: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut options = vec!["--method", method, "--id-field", "id"];
    options.extend(["--title-field", "title", "--url-field", "url"]);
    options.extend(["--clock", "field:published_at"]);
    options.extend(more);
    options
}

/// The sample, with a number of its own for the method that wants one.
fn documents() -> String {
    let news = sample("news.ndjson");
    let numbered = news.lines().enumerate().map(|(n, line)| {
        let line = line.strip_prefix('{').unwrap();
        format!("{{\"print\":\"{:016x}\",{line}\n", (n % 200) << 20)
    });
    numbered.collect()
}

/// A document without these members.
fn without(document: &Value, members: &[&str]) -> Value {
    let mut document = document.clone();
    for member in members {
        document.as_object_mut().unwrap().shift_remove(*member);
    }
    document
}

#[test]
fn the_lean_stamp_is_the_full_one_without_fingerprints_and_proof() {
    let news = documents();
    for method in METHODS {
        let of = |more: &[&str]| values(&stamped(&options(method, more), news.as_bytes()));
        let (full, lean) = (of(&["--stamp", "full"]), of(&["--stamp", "lean"]));
        assert_eq!(lean, of(&[]), "{method}: lean is the default");
        for (full, lean) in full.iter().zip(&lean) {
            assert!(full["cluster_hash"].is_string() || full["cluster_hash"].is_array());
            assert!(full["cluster_proof"].is_string() || method != "verified");
            let bare = without(full, &["cluster_hash", "cluster_proof"]);
            assert_eq!(bare, *lean, "{method}");
            assert!(lean["cluster_arrival"].is_string(), "{method}: {lean}");
        }
    }
}

/// What a forest is made of again: the fingerprints and the proof of every document, from its stored source alone.
#[test]
fn a_stored_document_gives_the_same_fingerprints_and_proof_with_either_stamp() {
    let news = documents();
    for method in METHODS {
        let of = |form: &str, input: &[u8]| stamped(&options(method, &["--stamp", form]), input);
        let full = of("full", news.as_bytes());
        for stored in [of("lean", news.as_bytes()), full.clone()] {
            assert!(of("full", &stored) == full, "{method}: another stamp from the stored documents");
        }
    }
}

#[test]
fn what_a_document_brings_along_goes_with_either_stamp() {
    let old = r#"{"cluster_hash":["0"],"cluster_pr\u006fof":"0","content":"The harbour bridge was closed this morning after cracks were found in two piers.","cluster_root":"0"}"#;
    let update = format!("{{\"doc\":{old},\"upsert\":{old}}}");
    for (form, has) in [("lean", false), ("full", true)] {
        let document = stamped(&["--stamp", form], old.as_bytes());
        let body = format!("{{\"update\":{{\"_id\":\"1\"}}}}\n{update}\n");
        let updated = stamped(&["--stamp", form, "--bulk"], body.as_bytes());
        let updated = values(&updated).pop().unwrap();
        for object in [&values(&document)[0], &updated["doc"], &updated["upsert"]] {
            assert_ne!(object["cluster_root"], "0", "{object}");
            for member in ["cluster_hash", "cluster_proof"] {
                assert_eq!(object.get(member).is_some(), has, "{form}: {object}");
                assert_ne!(object[member], json!("0"), "{object}");
                assert_ne!(object[member], json!(["0"]), "{object}");
            }
        }
        let text = String::from_utf8(document).unwrap();
        assert_eq!(text.matches("cluster_").count(), if has { 5 } else { 3 });
    }
}

#[test]
fn another_form_is_refused() {
    let wrong = stamp(&["--stamp", "short"], b"{}\n");
    assert_eq!(wrong.status.code(), Some(2));
    let said = said(&wrong);
    assert!(said.contains("invalid value 'short' for '--stamp <FORM>'") && said.contains("lean, full"), "{said}");
}
