//! Requests that are signed for AWS, in front of a service that checks each signature with the signer of botocore
//! (`service.py`) and passes what it admits on to the real server: all that clients send arrives, signed by spinney.

mod door;
mod sources;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::clients::driver;
use crate::common::twin::text;
use crate::common::{self, Server, Spinney};

const REGION: &str = "eu-central-1";

/// The service in front of the OpenSearch node.
struct Service {
    url: String,
    child: Child,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Credentials that never end.
const KEY: (&str, &str) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");

impl Service {
    async fn start() -> Service {
        let mut command = Command::new(driver::python());
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/aws/service.py"), &common::opensearch()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let service = Service { url: url.trim().to_owned(), child };
        service.set(json!({"known": {KEY.0: [KEY.1, null]}})).await;
        service
    }

    async fn set(&self, what: Value) {
        let set = common::http().put(format!("{}/__control", self.url)).json(&what).send().await.unwrap();
        assert_eq!(set.status(), StatusCode::OK);
    }

    /// What it has seen.
    async fn seen(&self) -> Value {
        common::http().get(format!("{}/__control", self.url)).send().await.unwrap().json().await.unwrap()
    }

    /// No request was refused.
    async fn verify_signatures(&self) {
        let seen = self.seen().await;
        assert_eq!(seen["refused"], json!([]), "{seen}");
        assert!(seen["admitted"].as_u64().unwrap() > 0);
    }
}

/// An environment without any credentials of this machine.
fn nowhere() -> Vec<(&'static str, &'static str)> {
    vec![
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]
}

fn with_key() -> Vec<(&'static str, &'static str)> {
    [nowhere(), vec![("AWS_ACCESS_KEY_ID", KEY.0), ("AWS_SECRET_ACCESS_KEY", KEY.1)]].concat()
}

/// Of a spinney for this index.
fn arguments<'a>(service: &'a str, index: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let signed = ["--upstream", service, "--upstream-auth", "sigv4", "--index", index, "--text-field", "content"];
    [&signed[..], more].concat()
}

fn start(service: &Service, index: &str, more: &[&str]) -> Spinney {
    Spinney::start_with(&with_key(), &arguments(&service.url, index, &[&["--aws-region", REGION], more].concat()))
}

fn bulk(index: &str, ids: &[&str], number: usize) -> String {
    let lines = ids.iter().map(|id| {
        let action = json!({"index": {"_index": index, "_id": id}});
        format!("{action}\n{}\n", json!({"title": "a title", "content": text(number)}))
    });
    lines.collect()
}

/// Plain, compressed and in chunks; with names, ids and parameters of all kinds: the answers are the server's own.
#[tokio::test]
async fn what_callers_send_is_signed_as_it_arrives() {
    let service = Service::start().await;
    let direct = Server::new(&common::opensearch());
    let index = common::unique_index("aws");
    let spinney = start(&service, &index, &["--counts", "on"]);
    let client = common::http();
    let ask = |method: Method, path: &str| client.request(method, format!("{}{path}", spinney.url));

    let lines = bulk(&index, &["1", "a b/ü+%"], 1);
    let sent = ask(Method::POST, "/_bulk?refresh=true&filter_path=items.*.status,errors")
        .header("content-type", "application/x-ndjson")
        .header("authorization", "Basic d3JvbmdseTpzZW50")
        .header("x-amz-security-token", "of somebody else")
        .header("x-amz-date", "20200101T000000Z")
        .header("x-caller", "caller")
        .header("cookie", "secret")
        .body(lines);
    let answer: Value = sent.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer, json!({"errors": false, "items": [{"index": {"status": 201}}, {"index": {"status": 201}}]}));
    let packed = common::wire::gzip(bulk(&index, &["2"], 1).as_bytes());
    let sent = ask(Method::POST, "/_bulk?refresh=true").header("content-type", "application/x-ndjson");
    let answer = sent.header("content-encoding", "gzip").body(packed.clone()).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    // What is not stamped arrives compressed, as it came.
    let elsewhere = index.replace("news-", "other-");
    let packed = common::wire::gzip(bulk(&elsewhere, &["1"], 1).as_bytes());
    let sent = ask(Method::POST, "/_bulk?refresh=true").header("content-type", "application/x-ndjson");
    let answer = sent.header("content-encoding", "gzip").body(packed).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);

    let stored = direct.documents(&index).await;
    assert_eq!(stored.len(), 3);
    let root = &stored["1"]["cluster_root"];
    assert!(root.is_string() && stored.values().all(|document| document["cluster_root"] == *root), "{stored:?}");

    for (method, path, body) in [
        (Method::GET, format!("/{index}/_doc/a%20b%2F%C3%BC%2B%25"), None),
        (Method::HEAD, format!("/{index}"), None),
        (Method::GET, format!("/{index},{elsewhere}/_search?q=title:a*&sort=_score:desc,_doc&size=1"), None),
        (Method::GET, "/news-*/_count?q=content%3Aw7x1+AND+title%3Atitle".to_owned(), None),
        (Method::POST, format!("/{}/_search?pretty", index.replace('-', "%2D")), Some(json!({"size": 0}))),
        (Method::GET, format!("/{index}/_search"), Some(json!({"query": {"match_all": {}}}))),
        (Method::GET, format!("/{index}/_search?q=%E4%B8%AD%E6%96%87~1"), None),
        (Method::POST, format!("/{index}/_refresh"), None),
        (Method::PUT, format!("/{index}/_doc/put?refresh=true"), Some(json!({"content": text(2)}))),
        (Method::DELETE, format!("/{index}/_doc/put?refresh=true"), None),
        (Method::GET, format!("/_cat/indices/{index}?h=index&format=json"), None),
        (Method::GET, format!("/no-{index}/_search"), None),
    ] {
        let mut request = ask(method.clone(), &path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let status = request.send().await.unwrap().status();
        let expected = if path.starts_with("/no-") { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let expected = if path.contains("_doc/put") && method == Method::PUT { StatusCode::CREATED } else { expected };
        assert_eq!(status, expected, "{method} {path}");
    }
    // Its own requests: reading with rights, and in the background.
    let groups = ask(Method::GET, &format!("/_spinney/{index}/_groups")).send().await.unwrap();
    assert_eq!(groups.status(), StatusCode::OK);
    let ready = ask(Method::GET, "/_spinney/_ready").send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK);

    service.verify_signatures().await;
    let seen = service.seen().await;
    assert_eq!(seen["callers"], json!(["caller"]), "a header of the caller passes, and no cookie");
    let log = spinney.end_and_log();
    assert!(!log.contains(KEY.1), "{log}");
    direct.delete_index(&index).await;
    direct.delete_index(&elsewhere).await;
}

/// Addresses that a front may read in two ways, and what cannot be signed.
#[tokio::test]
async fn what_cannot_be_signed_is_refused() {
    let service = Service::start().await;
    let spinney = start(&service, "news-1", &[]);
    for target in ["//_bulk", "/x/%2e%2e/news-1/_bulk", "/news-1/_doc/%", "/news-1/_search?a=1;b=2", "/_search?q=%FF"] {
        let answer = common::wire::Request::new("POST", target);
        let bytes = answer.header("Content-Type", "application/json").body("{}").bytes();
        let own_host = common::wire::replace(&bytes, b"Host: search", b"Host: localhost");
        let mut wire = common::wire::Wire::connect(&spinney.url);
        wire.send(&own_host);
        let answer = wire.last_answer(false);
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
        assert_eq!(answer.json()["error"]["type"], "spinney_request_exception", "{target}");
    }
    let stream = common::http().post(format!("{}/_bulk/stream", spinney.url)).body("{}").send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::BAD_REQUEST);
    assert_eq!(service.seen().await["admitted"].as_u64(), Some(admitted_at_start(&service).await));
}

/// Nothing but the start's own requests.
async fn admitted_at_start(service: &Service) -> u64 {
    let seen = service.seen().await;
    assert_eq!(seen["refused"], json!([]));
    seen["admitted"].as_u64().unwrap()
}

/// The service's clock is another one: its refusal tells which, and the same request is sent again once.
#[tokio::test]
async fn the_time_of_the_service_is_learned() {
    for skew in [20 * 60, -20 * 60] {
        let service = Service::start().await;
        service.set(json!({"skew": skew})).await;
        let direct = Server::new(&common::opensearch());
        let index = common::unique_index("aws-skew");
        let spinney = start(&service, &index, &[]);
        // A HEAD has no body that could say so.
        let head = common::http().head(format!("{}/{index}", spinney.url)).send().await.unwrap();
        assert_eq!(head.status(), StatusCode::NOT_FOUND);
        let sent = |id: &str| {
            let request = common::http().post(format!("{}/{index}/_bulk?refresh=true", spinney.url));
            request.header("content-type", "application/x-ndjson").body(bulk(&index, &[id], 1)).send()
        };
        assert_eq!(sent("1").await.unwrap().status(), StatusCode::OK);
        let refused = service.seen().await["refused"].as_array().unwrap().len();
        assert!(refused > 0);
        assert_eq!(sent("2").await.unwrap().status(), StatusCode::OK);
        let log = spinney.end_and_log();
        assert!(log.contains("the service's clock differs"), "{log}");
        let seen = service.seen().await;
        // The client of callers' requests and that of spinney's own have learned it once each, at most.
        assert!(seen["refused"].as_array().unwrap().len() <= 2, "{seen}");
        assert_eq!(direct.documents(&index).await.len(), 2);
        direct.delete_index(&index).await;
    }
}

/// What the service does not admit is no refusal of the caller: nothing of it is taken for stored, and what was signed,
/// the token too, is shown to nobody.
#[tokio::test]
async fn a_signature_that_is_not_admitted_is_spinneys_own_failure() {
    let service = Service::start().await;
    let index = common::unique_index("aws-refused");
    let spinney = Spinney::start_with(
        &[with_key(), vec![("AWS_SESSION_TOKEN", "Pa55-token")]].concat(),
        &arguments(&service.url, &index, &["--aws-region", REGION]),
    );
    service.set(json!({"known": {KEY.0: ["another secret", "Pa55-token"]}})).await;
    let client = common::http();
    let sent = client.post(format!("{}/_bulk", spinney.url)).header("content-type", "application/x-ndjson");
    let answer = sent.body(bulk(&index, &["1"], 1)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers().contains_key("retry-after"));
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["error"]["type"], "spinney_upstream_auth_exception");
    let reason = answer["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("The request signature we calculated does not match"), "{reason}");
    assert!(!answer.to_string().contains("Pa55"), "{answer}");
    assert!(service.seen().await["refused"].to_string().contains("Pa55-token"), "the service itself shows it");
    let ready = client.get(format!("{}/_spinney/_ready", spinney.url)).send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
    // The text is nobody's: it founds its tree with the next copy.
    service.set(json!({"known": {KEY.0: [KEY.1, "Pa55-token"]}})).await;
    let sent =
        client.post(format!("{}/_bulk?refresh=true", spinney.url)).header("content-type", "application/x-ndjson");
    assert_eq!(sent.body(bulk(&index, &["1"], 1)).send().await.unwrap().status(), StatusCode::OK);
    let log = spinney.end_and_log();
    assert!(!log.contains("Pa55") && !log.contains(KEY.1), "{log}");
    Server::new(&common::opensearch()).delete_index(&index).await;
}
