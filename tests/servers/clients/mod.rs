//! Real clients, unmodified, writing through spinney into a real server that has bad days: whatever helper they use,
//! with gzip and retries on, every document is stored once, as it was sent, with one root per group.
//!
//! The clients run as processes of their own (`tests/servers/clients/drive.*`, `Drive.java`, `go`);
//! `scripts/clients-env` installs them. What is stored is read from the server directly.

mod articles;
pub mod driver;
mod mixed;
mod newer;
mod shippers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use self::articles::{Article, articles};
use crate::common::flaky::{Fault, Flaky};
use crate::common::wire::Request;
use crate::common::{self, Server, Spinney, Waiting};
use driver::{Action, Driver, Outcome};
use flate2::Compression;
use flate2::write::GzEncoder;
use opensearch::http::StatusCode;
use opensearch::http::headers::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use opensearch::http::transport::Transport;
use opensearch::{BulkOperation, BulkOperations, BulkParts, OpenSearch};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// How many articles a client writes; `scripts/test --all` has it write 10,000.
fn article_count() -> usize {
    std::env::var("SPINNEY_TEST_ARTICLES").map_or(2_000, |count| count.parse().unwrap())
}

/// In so many requests, about, whatever their number: enough for every fault.
const REQUESTS: usize = 40;

/// Every fourth bulk request goes wrong.
const FAULT_PERIOD: usize = 4;

/// One client's world: a fresh index on the real server, a flaky link to it, and spinney in front.
struct Scene {
    server: Server,
    flaky: Flaky,
    spinney: Spinney,
    index: String,
}

impl Scene {
    async fn new(upstream: &str, label: &str, faults: &[Fault]) -> Scene {
        let server = Server::new(upstream);
        let index = common::unique_index(label);
        create_index(&server, &index).await;
        let flaky = Flaky::in_front_of(upstream, FAULT_PERIOD, faults);
        let spinney = start_spinney(&flaky.url, &[]);
        Scene { server, flaky, spinney, index }
    }

    /// Each fault has happened, or the test would show less than it says.
    fn verify_faults(&self, faults: &[Fault]) {
        let provoked = self.flaky.provoked();
        for fault in faults {
            assert!(provoked.contains_key(fault), "{fault:?} never happened");
        }
    }

    /// Less came in than the documents are long: the requests were compressed.
    async fn verify_gzip(&self, sent: &[Article]) {
        let plain: usize = sent.iter().map(|article| article.source.to_string().len()).sum();
        let own = Server::new(&self.spinney.url);
        let received = stats(&own).await["counters"]["write_bytes"].as_u64().unwrap();
        assert!(received < plain as u64 / 2, "{received} bytes came for {plain}");
    }

    async fn clean_up(mut self) {
        assert_eq!(self.spinney.terminate(), Some(0));
        self.server.delete_index(&self.index).await;
    }
}

fn start_spinney(upstream: &str, more: &[&str]) -> Spinney {
    let mut args = vec!["--upstream", upstream, "--index", "news-*"];
    args.extend(["--title-field", "title", "--text-field", "content"]);
    args.extend(["--method", "longest", "--k", "3"]);
    args.extend(more);
    Spinney::start(&args)
}

/// A strict date makes a mapping error easy to provoke.
async fn create_index(server: &Server, index: &str) {
    let body = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": {
            "published_at": {"type": "date"},
            "cluster_root": {"type": "keyword"},
            "cluster_key": {"type": "long"},
        }},
    });
    server.create_index(index, body).await;
}

/// What is stored is what was sent, once, and the roots tell the groups apart.
async fn verify(server: &Server, index: &str, sent: &[Article]) {
    server.refresh(index).await;
    let stored = server.documents(index).await;
    let sent_documents = sent.iter().map(|article| (article.id.clone(), article.source.clone())).collect();
    common::assert_same_documents(&sent_documents, &stored);
    verify_roots(sent, &stored);
}

/// One root per true group: shared by all its members, by nobody else.
fn verify_roots(sent: &[Article], stored: &BTreeMap<String, Value>) {
    let mut root_of_group: BTreeMap<usize, &str> = BTreeMap::new();
    for article in sent {
        let root =
            common::root_of(&stored[&article.id]).unwrap_or_else(|| panic!("{} has no cluster_root", article.id));
        let first = root_of_group.entry(article.group).or_insert(root);
        assert_eq!(*first, root, "{} left its group", article.id);
    }
    let different: BTreeSet<&str> = root_of_group.values().copied().collect();
    assert_eq!(different.len(), root_of_group.len(), "different groups share a root");
}

fn index_actions(articles: &[Article]) -> Vec<Action> {
    articles.iter().map(|article| Action::new("index", &article.id, Some(article.source.clone()))).collect()
}

// --- every helper of every client ----------------------------------------------------------------------------------

/// What the helpers that retry single items get to see.
const ALL_FAULTS: [Fault; 5] =
    [Fault::ItemsRejected, Fault::AnswerLost, Fault::TooManyRequests, Fault::Unavailable, Fault::Cut];

/// The parallel helpers leave retries to the transport, which looks at the status of the whole answer.
const WHOLE_REQUEST_FAULTS: [Fault; 4] = [Fault::AnswerLost, Fault::TooManyRequests, Fault::Unavailable, Fault::Cut];

/// The JavaScript client retries rejected items, but takes a 429 for the whole request as final.
const JAVASCRIPT_FAULTS: [Fault; 4] = [Fault::ItemsRejected, Fault::AnswerLost, Fault::Unavailable, Fault::Cut];

async fn all_stored_once(upstream: String, driver: Driver, faults: &[Fault]) {
    stored_once(upstream, driver, faults).await;
}

/// The same; returns the media types of the requests.
async fn stored_once(upstream: String, driver: Driver, faults: &[Fault]) -> BTreeSet<String> {
    let scene = Scene::new(&upstream, driver.label(), faults).await;
    let articles = articles(article_count());
    let driver = driver.in_chunks_of(articles.len() / REQUESTS);
    let outcome = driver.run(&scene.spinney.url, &scene.index, &index_actions(&articles)).await;
    assert_eq!(outcome, Outcome::success(articles.len()));
    verify(&scene.server, &scene.index, &articles).await;
    scene.verify_faults(faults);
    scene.verify_gzip(&articles).await;
    let content_types = scene.flaky.content_types();
    scene.clean_up().await;
    content_types
}

#[tokio::test]
async fn opensearch_py_bulk() {
    let driver = Driver::python("opensearch", "bulk").collecting_errors();
    all_stored_once(common::opensearch(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn opensearch_py_streaming_bulk() {
    let driver = Driver::python("opensearch", "streaming_bulk").collecting_errors();
    all_stored_once(common::opensearch(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn opensearch_py_parallel_bulk() {
    let driver = Driver::python("opensearch", "parallel_bulk");
    all_stored_once(common::opensearch(), driver, &WHOLE_REQUEST_FAULTS).await;
}

#[tokio::test]
async fn opensearch_py_async_bulk() {
    let driver = Driver::python("opensearch", "async_bulk").collecting_errors();
    all_stored_once(common::opensearch(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn opensearch_js_bulk() {
    all_stored_once(common::opensearch(), Driver::javascript(), &JAVASCRIPT_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_bulk() {
    let driver = Driver::python("elasticsearch", "bulk").collecting_errors();
    all_stored_once(common::elasticsearch(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_streaming_bulk() {
    let driver = Driver::python("elasticsearch", "streaming_bulk").collecting_errors();
    all_stored_once(common::elasticsearch(), driver, &ALL_FAULTS).await;
}

#[tokio::test]
async fn elasticsearch_py_parallel_bulk() {
    let driver = Driver::python("elasticsearch", "parallel_bulk");
    all_stored_once(common::elasticsearch(), driver, &WHOLE_REQUEST_FAULTS).await;
}

/// The crate has no helper with retries and no compression of requests: a loop does the one, its raw `send` the other
/// (every second request, so that its typed bulk call is there too). Answers are gzipped: it asks for that by itself.
#[tokio::test]
async fn opensearch_rs() {
    let scene = Scene::new(&common::opensearch(), "rust", &ALL_FAULTS).await;
    let articles = articles(article_count());
    common::install_crypto();
    let client = OpenSearch::new(Transport::single_node(&scene.spinney.url).unwrap());
    for (number, chunk) in articles.chunks(articles.len() / REQUESTS).enumerate() {
        let mut attempts = 0;
        while !send_chunk(&client, &scene.index, chunk, number % 2 == 0).await {
            attempts += 1;
            assert!(attempts < 100, "chunk {number} is refused again and again");
            #[expect(
                clippy::disallowed_methods,
                reason = "what a client that was refused does: it waits for time to go by"
            )]
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    verify(&scene.server, &scene.index, &articles).await;
    scene.verify_faults(&ALL_FAULTS);
    scene.clean_up().await;
}

/// False: to be sent again.
async fn send_chunk(client: &OpenSearch, index: &str, chunk: &[Article], gzip: bool) -> bool {
    let mut operations = BulkOperations::new();
    for article in chunk {
        let operation = BulkOperation::index(&article.source).id(&article.id);
        operations.push(operation).unwrap();
    }
    let response = if gzip {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let path = format!("/{index}/_bulk");
        let plain = opensearch::http::request::Body::bytes(&operations).unwrap();
        let mut body = GzEncoder::new(Vec::new(), Compression::fast());
        body.write_all(&plain).unwrap();
        let body = body.finish().unwrap();
        client
            .transport()
            .send(opensearch::http::Method::Post, &path, headers, None::<&()>, Some(body), None)
            .await
            .unwrap()
    } else {
        client.bulk(BulkParts::Index(index)).body(vec![operations]).send().await.unwrap()
    };
    let status = response.status_code();
    let answer: Value = response.json().await.unwrap();
    match status {
        StatusCode::OK => {
            let items = answer["items"].as_array().unwrap();
            assert_eq!(items.len(), chunk.len());
            let rejected = items.iter().filter(|item| item["index"]["status"] == 429).count();
            assert_eq!(answer["errors"], rejected > 0, "{answer}");
            rejected == 0
        }
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => false,
        other => panic!("{other}: {answer}"),
    }
}

// --- stopped in the middle and started again -----------------------------------------------------------------------

async fn stopped_and_started_again(upstream: String, driver: Driver) {
    let scene = Scene::new(&upstream, "stopped", &[Fault::AnswerLost]).await;
    let articles = articles(article_count());
    let driver = driver.in_chunks_of(articles.len() / REQUESTS);
    let actions = index_actions(&articles);
    let index = scene.index.clone();
    let some_stored = move || {
        common::wait_until("some documents are stored", || {
            let refresh = Request::new("POST", format!("/{index}/_refresh"));
            assert_eq!(refresh.to(&upstream).status, 200);
            let count = Request::get(&format!("/{index}/_count")).to(&upstream);
            count.json()["count"] != 0
        });
    };
    driver.run_and_kill_at(articles.len() / 2, &scene.spinney.url, &scene.index, &actions, some_stored).await;
    scene.server.refresh(&scene.index).await;
    let stored = scene.server.count(&scene.index).await;
    assert!(
        0 < stored && stored < articles.len() as u64,
        "the client was not stopped in the middle: {stored} documents are stored"
    );
    let outcome = driver.run(&scene.spinney.url, &scene.index, &actions).await;
    assert_eq!(outcome, Outcome::success(articles.len()));
    verify(&scene.server, &scene.index, &articles).await;
    scene.clean_up().await;
}

#[tokio::test]
async fn opensearch_py_stopped_in_the_middle() {
    let driver = Driver::python("opensearch", "parallel_bulk");
    stopped_and_started_again(common::opensearch(), driver).await;
}

#[tokio::test]
async fn opensearch_js_stopped_in_the_middle() {
    stopped_and_started_again(common::opensearch(), Driver::javascript()).await;
}

#[tokio::test]
async fn elasticsearch_py_stopped_in_the_middle() {
    let driver = Driver::python("elasticsearch", "streaming_bulk");
    stopped_and_started_again(common::elasticsearch(), driver).await;
}

// --- more writers than spinney has room for ------------------------------------------------------------------------

/// Four writers at once, each with one member of every group, while a request that does not go on holds most of the
/// budget: spinney refuses theirs with 429, the helpers come again, and go through once the other has gone.
#[tokio::test]
async fn opensearch_py_four_writers_over_the_budget() {
    const WRITERS: usize = articles::GROUP_SIZE;
    // Of a size that the budget has no room for beside the slow request.
    const ARTICLES: usize = 4_000;
    let server = Server::new(&common::opensearch());
    let index = common::unique_index("budget");
    create_index(&server, &index).await;
    let mut spinney = start_spinney(server.url(), &["--budget", "500KiB"]);
    let mut slow = begin_bulk(&spinney, 400 << 10).await;

    let articles = articles(ARTICLES);
    let driver = Driver::python("opensearch", "streaming_bulk");
    let shares: Vec<Vec<Action>> = articles.chunks(ARTICLES / WRITERS).map(index_actions).collect();
    let [first, second, third, fourth] = shares.as_slice() else {
        panic!("{} shares", shares.len());
    };
    let run = |share| driver.run(&spinney.url, &index, share);
    let own = Server::new(&spinney.url);
    let outcomes = tokio::join!(run(first), run(second), run(third), run(fourth), async {
        let waiting = Waiting::until("somebody is refused");
        while refused_over_budget(&own).await == 0 {
            // A pause that is too long would end it.
            slow.write_all(b" ").await.unwrap();
            waiting.pause().await;
        }
        drop(slow);
    });
    let success = || Outcome::success(ARTICLES / WRITERS);
    assert_eq!(outcomes, (success(), success(), success(), success(), ()));
    verify(&server, &index, &articles).await;
    assert_eq!(spinney.terminate(), Some(0));
    server.delete_index(&index).await;
}

/// A bulk request that sends so many bytes, for which spinney has made room, and not the rest.
async fn begin_bulk(spinney: &Spinney, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(spinney.address()).await.unwrap();
    let announced = bytes + (64 << 10);
    let head = format!(
        "POST /_bulk HTTP/1.1\r\nhost: spinney\r\ncontent-type: application/x-ndjson\r\ncontent-length: \
         {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; bytes]).await.unwrap();
    let own = Server::new(&spinney.url);
    let waiting = Waiting::until("spinney makes room for the request");
    while stats(&own).await["budget"]["used_bytes"] != bytes {
        waiting.pause().await;
    }
    stream
}

async fn refused_over_budget(own: &Server) -> u64 {
    stats(own).await["counters"]["refused_over_budget"].as_u64().unwrap()
}

async fn stats(own: &Server) -> Value {
    own.request(Method::GET, "/_spinney/_stats", None).await.1
}
