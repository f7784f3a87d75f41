//! Prints every group of an index with its size: the Rust example of docs/reading.md, word for word.

#![allow(clippy::print_stdout, reason = "it shows what it was told")]

use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = reqwest::Client::new();
    let groups = "http://127.0.0.1:9201/_spinney/news-1/_groups";
    let mut question = json!({"sort": {"similar_count": "desc"}, "_source": ["title"]});
    loop {
        let answer = client.post(groups).json(&question).send().await?;
        let page: Value = answer.error_for_status()?.json().await?;
        for group in page["groups"].as_array().into_iter().flatten() {
            let representative = &group["representative"];
            println!("{} {}", group["similar_count"], representative["_id"]);
        }
        if page["next"].is_null() {
            return Ok(());
        }
        question["cursor"] = page["next"].clone();
    }
}
