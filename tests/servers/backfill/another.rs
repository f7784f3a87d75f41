//! Another method for an index that has stamps already: a second spinney stamps beside the first, with fields of its
//! own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{backfill, create_mapped, load};
use crate::common::{self, Server, Spinney, unique_index};
use crate::restart::{DataDir, arguments};

/// Documents by their root in a field; those without it are left out.
fn groups<'d>(documents: &'d BTreeMap<String, Value>, field: &str) -> BTreeMap<&'d str, Vec<&'d str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, source) in documents {
        if let Some(root) = source[field].as_str() {
            groups.entry(root).or_default().push(id);
        }
    }
    groups
}

fn compare(spinney: &str, prefix: &str) -> (bool, String) {
    let output = common::spinney_command()
        .args(["inspect", "--json", "--compare", prefix])
        .args(["--spinney-url", spinney])
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn a_second_forest_stamps_beside_the_first_and_is_compared_with_it() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("another");
    create_mapped(&server, &index).await;
    let (dir, second_dir) = (DataDir::new("another-1"), DataDir::new("another-2"));
    let mut first = Spinney::start(&arguments(&upstream, &index, dir.path(), &[]));
    load(&first.url, &index, 0..120).await;
    server.refresh(&index).await;
    let before = server.documents(&index).await;

    super::map(&server, &index, "second_").await;
    // Writers go through both from now on: the first one sends to the second.
    let options = ["--prefix", "second_", "--forest", "second", "--method", "full", "--k", "0"];
    let second = Spinney::start(&arguments(&upstream, &index, second_dir.path(), &options));
    first.kill9();
    let first = Spinney::start(&arguments(&second.url, &index, dir.path(), &[]));
    load(&first.url, &index, 120..150).await;
    let (code, said) = backfill(&second.url, &[]);
    assert_eq!(code, Some(0), "{said}");
    server.refresh(&index).await;
    let after = server.documents(&index).await;
    assert_eq!(after.len(), 150);
    for (id, source) in &after {
        assert!(source["second_root"].is_string(), "{id}: {source}");
        if let Some(old) = before.get(id) {
            assert_eq!(old["cluster_root"], source["cluster_root"], "{id}");
        }
    }

    let (done, said) = compare(&second.url, "cluster_");
    assert!(done, "{said}");
    let told: Value = serde_json::from_str(&said).unwrap();
    let [old, new] = ["cluster_root", "second_root"].map(|field| groups(&after, field));
    let mut expected = BTreeMap::from([("same", 0), ("more", 0), ("fewer", 0), ("other", 0)]);
    for (id, source) in &after {
        let of = |groups: &BTreeMap<&str, Vec<&str>>, field: &str| -> Vec<String> {
            let group = &groups[source[field].as_str().unwrap()];
            group.iter().map(|&id| id.to_owned()).collect()
        };
        let (old, new) = (of(&old, "cluster_root"), of(&new, "second_root"));
        assert!(old.contains(id) && new.contains(id));
        let kind = match (old.iter().all(|id| new.contains(id)), new.iter().all(|id| old.contains(id))) {
            (true, true) => "same",
            (true, false) => "more",
            (false, true) => "fewer",
            (false, false) => "other",
        };
        *expected.get_mut(kind).unwrap() += 1;
    }
    for (kind, count) in expected {
        assert_eq!(told[kind], count, "{kind}: {told}");
    }
    assert_eq!(told["documents"], 150);
    let sizes = |groups: &BTreeMap<&str, Vec<&str>>| groups.values().filter(|group| group.len() > 1).count();
    assert_eq!(told["groups"], json!([sizes(&old), sizes(&new)]));
    assert_ne!(told["same"], 150, "the settings are no others: {told}");

    // What nobody stamped so is said, and a name that is none of another stamp is refused.
    let (done, said) = compare(&second.url, "third_");
    assert!(done && said.contains("\"second_only\":150"), "{said}");
    let (done, said) = compare(&second.url, "second_");
    assert!(!done && said.contains("own stamp"), "{said}");
    server.delete_index(&index).await;
}
