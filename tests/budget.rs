//! The budget of bytes in flight: memory stays bounded, what does not fit gets 429, nothing is lost or doubled.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Server, Spinney};
use reqwest::StatusCode;
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

/// A bulk of about `bytes` bytes whose documents have ids and texts of their own; returns the number of documents.
fn bulk_of(bytes: usize) -> (Bytes, u64) {
    let mut body = String::with_capacity(bytes + 32_768);
    let mut documents = 0;
    while body.len() < bytes {
        let words: Vec<String> = (0..3000)
            .map(|k| format!("word{}", (documents * 7919 + k * 31) % 100_000))
            .collect();
        let sentences: Vec<String> = words.chunks(15).map(|chunk| chunk.join(" ")).collect();
        let source = json!({"content": sentences.join(". ")});
        body.push_str(&format!(
            "{{\"index\":{{\"_id\":\"{documents}\"}}}}\n{source}\n"
        ));
        documents += 1;
    }
    (body.into(), documents)
}

/// The largest resident set that the process ever had, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim()
        .trim_end_matches(" kB")
        .trim()
        .parse::<usize>()
        .unwrap()
        * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn eight_bulks_of_90_megabytes() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = Spinney::start(&[
        "--upstream",
        &upstream,
        "--index",
        "news-*",
        "--text-field",
        "content",
    ]);
    let (body, documents) = bulk_of(90_000_000);
    let indices: Vec<String> = (0..8)
        .map(|n| common::unique_index(&format!("budget{n}")))
        .collect();
    let mut writers = Vec::new();
    for index in &indices {
        // The server has little to do with a field that it only stores.
        let mapping =
            json!({"mappings": {"properties": {"content": {"type": "text", "index": false}}}});
        server.create_index(index, mapping).await;
        let (url, body) = (format!("{}/{index}/_bulk", spinney.url), body.clone());
        writers.push(tokio::spawn(async move {
            let client = common::http();
            let mut refused = 0;
            for _ in 0..600 {
                let request = client
                    .post(&url)
                    .header("content-type", "application/x-ndjson")
                    .body(body.clone());
                match request.send().await {
                    Ok(response) if response.status() == StatusCode::OK => {
                        let answer: Value = response.json().await.unwrap();
                        assert_eq!(answer["errors"], false);
                        return refused;
                    }
                    Ok(response) => {
                        let status = response.status();
                        let answer = response.text().await.unwrap_or_default();
                        // From spinney over its budget, or from the server over its own.
                        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{answer}");
                        refused += 1;
                    }
                    // A refusal before the body is read may close the connection under the writer's hands.
                    Err(_) => refused += 1,
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            panic!("the bulk was never taken");
        }));
    }
    let mut refused = 0;
    for writer in writers {
        refused += writer.await.unwrap();
    }
    assert!(refused > 0, "eight of them do not fit");
    let peak = peak_memory(spinney.pid());
    assert!(
        peak < 256 * MIB + 150_000_000,
        "the peak of memory was {} MiB",
        peak / MIB
    );
    for index in &indices {
        server.refresh(index).await;
        assert_eq!(server.count(index).await, documents, "{index}");
        server.delete_index(index).await;
    }
}

#[tokio::test]
async fn a_refusal_has_the_clusters_shape() {
    let upstream = common::opensearch();
    let spinney = Spinney::start(&[
        "--upstream",
        &upstream,
        "--index",
        "news-*",
        "--text-field",
        "content",
        "--budget",
        "1MiB",
    ]);
    let (body, _) = bulk_of(2 * MIB);
    let response = common::http()
        .post(format!("{}/news-refused/_bulk", spinney.url))
        .header("content-type", "application/x-ndjson")
        .header("x-opaque-id", "abc")
        .body(body)
        .send()
        .await
        .unwrap();
    // It can never fit: a retry would not help.
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(response.headers()["x-opaque-id"], "abc");
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["status"], 413);
    assert_eq!(
        answer["error"]["root_cause"][0]["type"],
        answer["error"]["type"]
    );
    assert!(
        answer["error"]["reason"]
            .as_str()
            .unwrap()
            .contains("1048576"),
        "{answer}"
    );
}

/// Many short lines cost more than their bytes: they are counted too.
#[tokio::test]
async fn short_lines_count_for_more_than_their_bytes() {
    let upstream = common::opensearch();
    let spinney = Spinney::start(&[
        "--upstream",
        &upstream,
        "--index",
        "news-*",
        "--text-field",
        "content",
        "--budget",
        "4MiB",
    ]);
    let body = "{\"delete\":{\"_id\":\"1\"}}\n".repeat(100_000);
    assert!(body.len() < 4 * MIB);
    let response = common::http()
        .post(format!("{}/news-refused/_bulk", spinney.url))
        .header("content-type", "application/x-ndjson")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
