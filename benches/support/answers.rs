//! Whether every document of a load was created: looked into after the clock has stopped, item by item.

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Answer {
    errors: bool,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: ItemResult,
}

#[derive(Deserialize)]
struct ItemResult {
    status: u16,
    #[serde(default)]
    error: Value,
}

/// Every answer must have so many items, each of which says that its document was created.
pub fn check(answers: &[Bytes], items: usize) -> anyhow::Result<()> {
    for answer in answers {
        let answer: Answer = serde_json::from_slice(answer).context("a bulk's answer is not what it should be")?;
        let answered = answer.items.len();
        ensure!(answered == items, "a bulk of {items} documents was answered with {answered} items");
        for Item { index } in &answer.items {
            ensure!(index.status == 201, "an item failed with {}: {}", index.status, index.error);
        }
        ensure!(!answer.errors, "a bulk's answer says that there are errors, but no item failed");
    }
    Ok(())
}
