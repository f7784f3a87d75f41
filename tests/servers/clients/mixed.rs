//! Create, update, delete and items that fail, through the clients' helpers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::articles::{Article, articles};
use super::driver::{Action, Driver, Outcome};
use super::{create_index, start_spinney, verify_roots};
use crate::common::{self, Server};

/// Runs the same mixed actions against the server directly and through spinney, into an index each: the helpers must
/// report the same and the same must be stored, but for the stamps. Then looks at what the stamps say.
pub async fn mixed_actions(upstream: String, driver: Driver) {
    let server = Server::new(&upstream);
    let spinney = start_spinney(&upstream, &[]);
    let mut reports = Vec::new();
    let mut documents = Vec::new();
    for url in [upstream.as_str(), spinney.url.as_str()] {
        let index = common::unique_index("mixed");
        create_index(&server, &index).await;
        let outcome = driver.run(url, &index, &mixed()).await;
        reports.push(outcome.without(&index));
        server.refresh(&index).await;
        documents.push(server.documents(&index).await);
        server.delete_index(&index).await;
    }
    assert_eq!(reports[0], reports[1], "the client saw something else");
    common::assert_same_documents(&documents[0], &documents[1]);
    verify_mixed(&reports[1], &documents[1]);
}

/// How many articles each kind of action is about.
const KIND: usize = 100;

/// In groups of four: `create` all, then per kind of action one run of articles.
fn mixed() -> Vec<Action> {
    let articles = articles(8 * KIND);
    let mut actions: Vec<Action> =
        articles.iter().map(|article| Action::new("create", &article.id, Some(article.source.clone()))).collect();
    let kind = |number: usize| articles[number * KIND..(number + 1) * KIND].iter();
    // 0: stay as they are. 1: take over the text of the articles of kind 0.
    for (article, other) in kind(1).zip(kind(0)) {
        let doc = json!({"content": other.source["content"], "title": other.source["title"]});
        actions.push(Action::update(&article.id, json!({ "doc": doc })));
    }
    // 2: a partial update without the text.
    for article in kind(2) {
        actions.push(Action::update(&article.id, json!({"doc": {"reads": 7}})));
    }
    // 3: deleted. 4: created again, which is a conflict.
    actions.extend(kind(3).map(|article| Action::new("delete", &article.id, None)));
    actions.extend(kind(4).map(|article| Action::new("create", &article.id, Some(article.source.clone()))));
    // 5: overwritten by a document that the mapping refuses; nothing changes.
    for (article, other) in kind(5).zip(kind(0)) {
        let mut bad = other.source.clone();
        bad["published_at"] = json!("the day before yesterday");
        actions.push(Action::new("index", &article.id, Some(bad)));
    }
    // 6: an update of what does not exist. 7: an upsert of a new document with the same text.
    for article in kind(6) {
        let id = format!("missing-{}", article.id);
        actions.push(Action::update(&id, json!({"doc": article.source})));
    }
    for article in kind(7) {
        let id = format!("upserted-{}", article.id);
        let body = json!({"doc": article.source, "doc_as_upsert": true});
        actions.push(Action::update(&id, body));
    }
    actions
}

fn verify_mixed(report: &Outcome, stored: &BTreeMap<String, Value>) {
    let articles = articles(8 * KIND);
    let kind = |number: usize| articles[number * KIND..(number + 1) * KIND].iter();
    let root = |id: &str| common::root_of(&stored[id]).unwrap();

    assert_eq!(stored.len(), 8 * KIND);
    assert_eq!(report.succeeded, 12 * KIND);
    let statuses: Vec<u64> =
        report.errors.iter().filter_map(|item| item.as_object()?.values().next()?["status"].as_u64()).collect();
    for status in [409, 400, 404] {
        let count = statuses.iter().filter(|found| **found == status).count();
        assert_eq!(count, KIND, "items with status {status}");
    }
    for article in kind(3) {
        assert!(!stored.contains_key(&article.id), "{} is not deleted", article.id);
    }
    for (updated, other) in kind(1).zip(kind(0)) {
        assert_eq!(root(&updated.id), root(&other.id), "{}", updated.id);
    }
    for article in kind(7) {
        let upserted = format!("upserted-{}", article.id);
        assert_eq!(root(&upserted), root(&article.id), "{upserted}");
    }
    // Everybody whose text is still the first one is in the group that it came with.
    let untouched: Vec<Article> = articles
        .iter()
        .enumerate()
        .filter(|(number, _)| !matches!(number / KIND, 1 | 3))
        .map(|(_, article)| Article { id: article.id.clone(), group: article.group, source: Value::Null })
        .collect();
    verify_roots(&untouched, stored);
}

#[tokio::test]
async fn opensearch_py_mixed_actions() {
    let driver = Driver::python("opensearch", "bulk").collecting_errors();
    mixed_actions(common::opensearch(), driver).await;
}

#[tokio::test]
async fn opensearch_py_mixed_actions_async() {
    let driver = Driver::python("opensearch", "async_bulk").collecting_errors();
    mixed_actions(common::opensearch(), driver).await;
}

#[tokio::test]
async fn opensearch_js_mixed_actions() {
    let driver = Driver::javascript().one_at_a_time();
    mixed_actions(common::opensearch(), driver).await;
}

#[tokio::test]
async fn elasticsearch_py_mixed_actions() {
    let driver = Driver::python("elasticsearch", "streaming_bulk").collecting_errors();
    mixed_actions(common::elasticsearch(), driver).await;
}
