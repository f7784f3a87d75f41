//! A server with bad days: it stands between spinney and the real server and spoils some bulk requests on a fixed
//! schedule, in the ways in which clusters do. Everything else it passes on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::gate::Gate;
use super::listening::Listening;

/// One way to spoil a bulk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The whole request is refused with 429; nothing is stored.
    TooManyRequests,
    /// The whole request is refused with 503; nothing is stored.
    Unavailable,
    /// The answer is 200, but each item was rejected with 429; nothing is stored.
    ItemsRejected,
    /// The connection closes as soon as the request is read; nothing is stored.
    Cut,
    /// Everything is stored, but the connection closes before the answer.
    AnswerLost,
    /// Everything is stored, and the answer waits at [`Flaky::gate`].
    Held,
}

/// Runs on a thread of its own until it is dropped.
pub struct Flaky {
    /// `http://127.0.0.1:PORT`: to be used as spinney's upstream.
    pub url: String,
    /// Where held answers wait.
    pub gate: Arc<Gate>,
    state: Arc<State>,
    _listening: Listening,
}

struct State {
    upstream: String,
    client: reqwest::Client,
    period: usize,
    faults: Vec<Fault>,
    gate: Arc<Gate>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    bulks: usize,
    provoked: BTreeMap<Fault, usize>,
    content_types: BTreeSet<String>,
}

impl Flaky {
    /// Spoils every `period`th bulk request with the next of `faults`, round and round.
    pub fn in_front_of(upstream: &str, period: usize, faults: &[Fault]) -> Flaky {
        assert!(period > 0);
        let state = Arc::new(State {
            upstream: upstream.to_owned(),
            client: super::http(),
            period,
            faults: faults.to_vec(),
            gate: Gate::closed(),
            seen: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let listening = Listening::start(move |listener| accept(listener, shared));
        Flaky {
            url: format!("http://{}", listening.address),
            gate: Arc::clone(&state.gate),
            state,
            _listening: listening,
        }
    }

    /// How often each fault was provoked so far.
    pub fn provoked(&self) -> BTreeMap<Fault, usize> {
        self.state.seen.lock().unwrap().provoked.clone()
    }

    /// The media types of all bulk requests so far.
    pub fn content_types(&self) -> BTreeSet<String> {
        self.state.seen.lock().unwrap().content_types.clone()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(Arc::clone(&state), request));
            // An error here is a fault that was provoked, or a client that went away.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let fault = head.uri.path().trim_end_matches('/').ends_with("/_bulk").then(|| state.next_fault(&head)).flatten();
    match fault {
        Some(Fault::TooManyRequests) => Ok(refusal(429, "circuit_breaking_exception")),
        Some(Fault::Unavailable) => Ok(refusal(503, "cluster_block_exception")),
        Some(Fault::ItemsRejected) => {
            let gzipped = head.headers.contains_key("content-encoding");
            Ok(reject_items(head.uri.path(), &body, gzipped))
        }
        Some(Fault::Cut) => Err(io::Error::other("cut on purpose")),
        Some(Fault::AnswerLost) => {
            state.forward(head, body).await?;
            Err(io::Error::other("answer lost on purpose"))
        }
        Some(Fault::Held) => {
            let answer = state.forward(head, body).await?;
            let gate = Arc::clone(&state.gate);
            let passed = tokio::task::spawn_blocking(move || gate.pass()).await;
            passed.map_err(io::Error::other)?;
            Ok(answer)
        }
        None => state.forward(head, body).await,
    }
}

impl State {
    fn next_fault(&self, head: &hyper::http::request::Parts) -> Option<Fault> {
        let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
        let mut seen = self.seen.lock().unwrap();
        seen.content_types.insert(content_type.unwrap_or("").to_owned());
        seen.bulks += 1;
        if !seen.bulks.is_multiple_of(self.period) || self.faults.is_empty() {
            return None;
        }
        let fault = self.faults[(seen.bulks / self.period - 1) % self.faults.len()];
        *seen.provoked.entry(fault).or_default() += 1;
        Some(fault)
    }

    async fn forward(
        &self,
        head: hyper::http::request::Parts,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>, io::Error> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = head.headers;
        for hop in ["host", "connection", "content-length", "transfer-encoding"] {
            headers.remove(hop);
        }
        let answer = self
            .client
            .request(head.method, format!("{}{path}", self.upstream))
            .headers(headers)
            .body(body)
            .send()
            .await
            .map_err(io::Error::other)?;
        let mut response = Response::new(Full::default());
        *response.status_mut() = answer.status();
        for (name, value) in answer.headers() {
            if !["connection", "content-length", "transfer-encoding"].contains(&name.as_str()) {
                response.headers_mut().append(name, value.clone());
            }
        }
        *response.body_mut() = Full::new(answer.bytes().await.map_err(io::Error::other)?);
        Ok(response)
    }
}

fn json_answer(status: u16, answer: &Value) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header("content-type", "application/json; charset=UTF-8")
        // The Elasticsearch clients believe a 2xx only with this header.
        .header("x-elastic-product", "Elasticsearch")
        .body(Full::new(Bytes::from(answer.to_string())))
        .unwrap()
}

fn refusal(status: u16, kind: &str) -> Response<Full<Bytes>> {
    let cause = json!({"type": kind, "reason": "refused on purpose"});
    let mut error = cause.clone();
    error["root_cause"] = json!([cause]);
    json_answer(status, &json!({"error": error, "status": status}))
}

/// The answer of a node whose write queue is full.
fn reject_items(path: &str, body: &[u8], gzipped: bool) -> Response<Full<Bytes>> {
    let mut plain = Vec::new();
    if gzipped {
        flate2::read::MultiGzDecoder::new(body).read_to_end(&mut plain).unwrap();
    } else {
        plain.extend_from_slice(body);
    }
    let in_path = path.trim_start_matches('/').split('/').next();
    let mut items = Vec::new();
    let mut lines = plain.split(|byte| *byte == b'\n');
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let action: Value = serde_json::from_slice(line).unwrap();
        let (op, metadata) = action.as_object().unwrap().iter().next().unwrap();
        if op != "delete" {
            lines.next();
        }
        let index = metadata["_index"].as_str().or(in_path);
        let error = json!({"type": "rejected_execution_exception", "reason": "rejected on purpose"});
        items.push(json!({op: {
            "_index": index, "_id": metadata["_id"], "status": 429, "error": error,
        }}));
    }
    json_answer(200, &json!({"took": 1, "errors": true, "items": items}))
}
