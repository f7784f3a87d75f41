//! The sample news of the demo, written through spinney.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::wire::Request;
use crate::common::{Server, Spinney, root_of};

/// An article of the sample that several groups look like.
pub const WITH_NEIGHBOURS: &str = "n0403";

/// An article in Arabic that several media published.
pub const RIGHT_TO_LEFT: &str = "n0620";

/// Documents in one bulk.
const BULK: usize = 50;

pub async fn create(server: &Server, index: &str) {
    let body = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": {
            "cluster_root": {"type": "keyword"},
            "cluster_key": {"type": "long"},
            "media": {"type": "keyword"},
            "published_at": {"type": "date"},
        }},
    });
    server.create_index(index, body).await;
}

pub fn write(spinney: &Spinney, index: &str, id: &str, source: &Value) {
    let body = format!("{}\n{source}\n", json!({"index": {"_id": id}}));
    bulk(spinney, index, &body);
}

fn bulk(spinney: &Spinney, index: &str, body: &str) {
    let answer = Request::bulk(&format!("/{index}/_bulk"), body).to(&spinney.url);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

/// Makes the index, writes all of it, and says how many groups that makes.
pub async fn load(server: &Server, spinney: &Spinney, index: &str) -> usize {
    create(server, index).await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/sample/news.ndjson");
    let news = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = news.lines().collect();
    for part in lines.chunks(BULK) {
        let actions = part.iter().map(|line| {
            let document: Value = serde_json::from_str(line).unwrap();
            format!("{}\n{line}\n", json!({"index": {"_id": document["id"]}}))
        });
        bulk(spinney, index, &actions.collect::<String>());
    }
    server.refresh(index).await;
    let stored = server.documents(index).await;
    assert_eq!(stored.len(), lines.len());
    let roots: BTreeSet<_> = stored.values().map(root_of).collect();
    roots.len()
}
