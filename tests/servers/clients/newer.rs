//! The clients of the version of Elasticsearch that the tests run on (8 or 9), each of which names its version in the
//! media type of its requests; and the Go client of OpenSearch. They run with `scripts/test --all` only.

use super::driver::Driver;
use super::mixed::mixed_actions;
use super::{ALL_FAULTS, JAVASCRIPT_FAULTS, WHOLE_REQUEST_FAULTS, all_stored_once, stored_once};
use crate::common::flaky::Fault;
use crate::common::{self, SearchServer};

/// The major version of the server, and so of its clients.
fn major() -> u64 {
    let major = SearchServer::Elasticsearch.major();
    assert!(major >= 8, "these are the clients of Elasticsearch 8 and 9, and the server is of version {major}");
    major
}

async fn all_stored_once_as(media_type: &str, driver: Driver, faults: &[Fault]) {
    let content_types = stored_once(common::elasticsearch(), driver, faults).await;
    assert_eq!(Vec::from_iter(content_types), [media_type]);
}

/// What most of them send.
fn ndjson() -> String {
    format!("application/vnd.elasticsearch+x-ndjson; compatible-with={}", major())
}

#[tokio::test]
async fn elasticsearch_py_bulk() {
    let driver = Driver::elasticsearch_py(major(), "bulk").collecting_errors();
    all_stored_once_as(&ndjson(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_streaming_bulk() {
    let driver = Driver::elasticsearch_py(major(), "streaming_bulk").collecting_errors();
    all_stored_once_as(&ndjson(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_parallel_bulk() {
    let driver = Driver::elasticsearch_py(major(), "parallel_bulk");
    all_stored_once_as(&ndjson(), driver, &WHOLE_REQUEST_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_async_bulk() {
    let driver = Driver::elasticsearch_py(major(), "async_bulk").collecting_errors();
    all_stored_once_as(&ndjson(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_js_bulk_http_connection() {
    let driver = Driver::elasticsearch_js(major(), "HttpConnection");
    all_stored_once_as(&ndjson(), driver, &JAVASCRIPT_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_js_bulk_undici_connection() {
    let driver = Driver::elasticsearch_js(major(), "UndiciConnection");
    all_stored_once_as(&ndjson(), driver, &JAVASCRIPT_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_java_bulk_ingester() {
    let driver = Driver::elasticsearch_java(major());
    let media_type = format!("application/vnd.elasticsearch+json; compatible-with={}", major());
    all_stored_once_as(&media_type, driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_go_bulk_indexer() {
    let driver = Driver::elasticsearch_go(major());
    all_stored_once_as("application/json", driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn opensearch_go_bulk_indexer() {
    all_stored_once(common::opensearch(), Driver::opensearch_go(), &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_mixed_actions() {
    let driver = Driver::elasticsearch_py(major(), "streaming_bulk").collecting_errors();
    mixed_actions(common::elasticsearch(), driver).await;
}

#[tokio::test]
async fn elasticsearch_py_mixed_actions_async() {
    let driver = Driver::elasticsearch_py(major(), "async_bulk").collecting_errors();
    mixed_actions(common::elasticsearch(), driver).await;
}

#[tokio::test]
async fn elasticsearch_js_mixed_actions() {
    let driver = Driver::elasticsearch_js(major(), "UndiciConnection").one_at_a_time();
    mixed_actions(common::elasticsearch(), driver).await;
}

#[tokio::test]
async fn elasticsearch_java_mixed_actions() {
    mixed_actions(common::elasticsearch(), Driver::elasticsearch_java(major()).one_at_a_time()).await;
}

#[tokio::test]
async fn elasticsearch_go_mixed_actions() {
    mixed_actions(common::elasticsearch(), Driver::elasticsearch_go(major()).one_at_a_time()).await;
}

#[tokio::test]
async fn opensearch_go_mixed_actions() {
    mixed_actions(common::opensearch(), Driver::opensearch_go().one_at_a_time()).await;
}
