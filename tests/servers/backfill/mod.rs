//! Indices that were there before spinney: their documents get the stamps that they would have got on their way in,
//! whatever happens in the middle, and nothing else of them changes.

mod another;
mod indices;
mod interrupted;
mod sweep;

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{self, Server, Spinney, root_of, unstamped};

/// `spinney backfill` against a spinney.
pub fn command(spinney: &str, args: &[&str]) -> Command {
    let mut command = common::spinney_command();
    command.args(["backfill", "--spinney-url", spinney]).args(args);
    command
}

/// Exit code, and all that is said.
pub fn backfill(spinney: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = command(spinney, args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// Documents of a bulk, in loads and in runs that are compared with them.
pub const BULK: usize = 30;

/// Document `n` of an archive, with a date of its own: reprints, and what is odd.
pub fn document(n: usize) -> Value {
    let mut document = crate::restart::document(n);
    let day = 1 + n / 1440;
    let (hour, minute) = (n / 60 % 24, n % 60);
    document["published"] = json!(format!("2026-01-{day:02}T{hour:02}:{minute:02}:00Z"));
    // Numbers, spacing and what stands beside the text are nobody's business.
    document["exact"] = json!(0.1 + 0.2);
    match n % 10 {
        3 => {
            // No text.
            document.as_object_mut().unwrap().shift_remove("content");
        }
        4 => {
            let text = document["content"].take();
            document["content"] = json!([text, "A second value."]);
        }
        6 => document["content"] = json!("..."),
        _ => {}
    }
    document
}

/// Sends documents of the archive in bulks, through a spinney or past it.
pub async fn load(url: &str, index: &str, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    for numbers in numbers.chunks(BULK) {
        let lines = numbers.iter().map(|&n| {
            let action = json!({"index": {"_id": n.to_string()}});
            format!("{action}\n{}\n", document(n))
        });
        let sent = common::http()
            .post(format!("{url}/{index}/_bulk"))
            .header("content-type", "application/x-ndjson")
            .body(lines.collect::<String>())
            .send();
        let answer: Value = sent.await.unwrap().json().await.unwrap();
        assert_eq!(answer["errors"], false, "{answer}");
    }
}

/// An index with one shard, as somebody has it who never heard of spinney.
pub async fn create(server: &Server, index: &str) {
    let body = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": {
            "content": {"type": "text"}, "title": {"type": "text"}, "published": {"type": "date"}, "n": {"type": "integer"},
        }},
    });
    server.create_index(index, body).await;
}

/// The same with the fields of the stamp, as `spinney setup --existing` maps them.
pub async fn create_mapped(server: &Server, index: &str) {
    create(server, index).await;
    map(server, index, "cluster_").await;
}

/// Maps the fields of a stamp in an index that is there.
pub async fn map(server: &Server, index: &str, prefix: &str) {
    let output = common::spinney_command()
        .args(["setup", "--existing", "--upstream", server.url()])
        .args(["--index", index, "--name", index, "--prefix", prefix])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let mapped = said.contains(&format!("mapped {prefix}root"));
    assert!(output.status.success() && mapped, "{said}");
    let path = format!("/_index_template/{index}");
    server.request(reqwest::Method::DELETE, &path, None).await;
}

/// The arguments of a spinney whose route has the archive's date for its clock.
pub fn arguments<'a>(upstream: &'a str, index: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let base = [
        "--upstream",
        upstream,
        "--index",
        index,
        "--text-field",
        "content",
        "--title-field",
        "title",
        "--clock",
        "field:published",
        "--counts",
        "off",
    ];
    [&base[..], more].concat()
}

/// The documents together, by number: the smallest number of each one's group.
pub fn groups(documents: &BTreeMap<String, Value>) -> BTreeMap<u64, u64> {
    let mut first = BTreeMap::new();
    let mut members: Vec<(u64, String)> = documents
        .iter()
        .map(|(id, source)| {
            let root = root_of(source).unwrap_or_else(|| panic!("{id} has no stamp: {source}"));
            (source["n"].as_u64().unwrap(), root.to_owned())
        })
        .collect();
    members.sort();
    let together = members.into_iter().map(|(n, root)| {
        let first = *first.entry(root).or_insert(n);
        (n, first)
    });
    together.collect()
}

/// What a load through the proxy, in the same order and the same bulks, makes of the first `documents` documents.
pub async fn loaded(upstream: &str, label: &str, documents: usize, more: &[&str]) -> BTreeMap<u64, u64> {
    let server = Server::new(upstream);
    let index = common::unique_index(label);
    create_mapped(&server, &index).await;
    let spinney = Spinney::start(&arguments(upstream, &index, more));
    load(&spinney.url, &index, 0..documents).await;
    server.refresh(&index).await;
    let groups = groups(&server.documents(&index).await);
    server.delete_index(&index).await;
    groups
}

/// Everything is stamped, in these groups, and stored as it was but for the stamps.
pub async fn assert_adopted(
    server: &Server,
    index: &str,
    before: &BTreeMap<String, Value>,
    expected: &BTreeMap<u64, u64>,
) {
    server.refresh(index).await;
    let after = server.documents(index).await;
    assert_eq!(&groups(&after), expected);
    assert_eq!(before.len(), after.len());
    for (id, source) in before {
        assert_eq!(&unstamped(&after[id]), source, "{id}");
        assert!(after[id]["cluster_arrival"].is_string(), "{id}: {}", after[id]);
    }
}

async fn adopts(upstream: &str, more: &[&str]) {
    let server = Server::new(upstream);
    let expected = loaded(upstream, "loaded", 300, more).await;
    let together = expected.iter().filter(|(n, first)| n != first).count();
    assert!(together > 30, "{together} documents are together with others");
    let index = common::unique_index("adopted");
    create(&server, &index).await;
    load(upstream, &index, 0..300).await;
    server.refresh(&index).await;
    let before = server.documents(&index).await;
    let spinney = Spinney::start(&arguments(upstream, &index, more));

    let (code, said) = backfill(&spinney.url, &["--dry-run"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("300 of 300 documents"), "{said}");
    assert!(said.contains("read by published"), "{said}");
    assert!(said.contains("would map cluster_root"), "{said}");
    assert_eq!(server.documents(&index).await, before);

    let bulk = BULK.to_string();
    let (code, said) = backfill(&spinney.url, &["--bulk-docs", &bulk]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("300 documents stamped; 0 have no stamp"), "{said}");
    assert_adopted(&server, &index, &before, &expected).await;

    let (code, said) = backfill(&spinney.url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(": 0 of 300 documents"), "{said}");
    server.delete_index(&index).await;
}

#[tokio::test]
async fn an_archive_is_stamped_as_if_it_came_through_the_proxy() {
    adopts(&common::opensearch(), &[]).await;
    adopts(&common::opensearch(), &["--method", "longest"]).await;
}

#[tokio::test]
async fn an_archive_is_stamped_as_if_it_came_through_the_proxy_on_elasticsearch() {
    adopts(&common::elasticsearch(), &[]).await;
}

#[tokio::test]
async fn slices_and_a_query_stamp_what_they_find() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = common::unique_index("sliced");
    create(&server, &index).await;
    load(&upstream, &index, 0..300).await;
    let spinney = Spinney::start(&arguments(&upstream, &index, &[]));
    let early = r#"{"range":{"published":{"lt":"2026-01-01T02:00:00Z"}}}"#;
    let (code, said) = backfill(&spinney.url, &["--query", early, "--index", &index]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("120 documents stamped; 0 have no stamp"), "{said}");
    let (code, said) = backfill(&spinney.url, &["--slices", "3", "--bulk-docs", "7"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("180 documents stamped; 0 have no stamp"), "{said}");
    server.refresh(&index).await;
    assert_eq!(groups(&server.documents(&index).await).len(), 300);
    server.delete_index(&index).await;
}
