//! The way to the cluster: pooled connections, raw paths, no replays.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::answer::{Body, BoxError, Refusal, full};
use super::headers;
use super::patient::PatientConnector;
use super::tls;
use crate::config::ServeOptions;

/// How long a node that could not be reached is passed over while another one answers.
const REST: Duration = Duration::from_secs(5);

/// How long the rest of a body that nobody wants is read.
const DRAIN: Duration = Duration::from_secs(60);

/// One node of the cluster.
struct Node {
    uri: Uri,
    host: HeaderValue,
    /// Milliseconds since `Upstream::start` until which the node is passed over.
    resting_until: AtomicU64,
}

/// The cluster.
pub struct Upstream {
    client: Client<HttpsConnector<PatientConnector>, Body>,
    nodes: Vec<Node>,
    next: AtomicUsize,
    start: Instant,
    elasticsearch: AtomicBool,
    /// `http.max_content_length` in bytes; 0: not known.
    max_content_length: AtomicU64,
}

impl Upstream {
    /// # Errors
    /// When TLS material cannot be read.
    pub fn new(config: &ServeOptions) -> anyhow::Result<Upstream> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(Duration::from_secs(10)));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(
                config.upstream_ca.as_deref(),
                config.upstream_identity.as_ref(),
            )?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(PatientConnector(http));
        // A pooled connection that was closed before the request went out is replaced; a request that went out is
        // never sent again: a document without an id would be doubled.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .http1_preserve_header_case(true)
            .set_host(false)
            .build(connector);
        let nodes = config
            .upstream
            .iter()
            .map(|uri| {
                let host = HeaderValue::from_str(uri.authority().map_or("", |a| a.as_str()))?;
                Ok(Node {
                    uri: uri.clone(),
                    host,
                    resting_until: AtomicU64::new(0),
                })
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Upstream {
            client,
            nodes,
            next: AtomicUsize::new(0),
            start: Instant::now(),
            elasticsearch: AtomicBool::new(false),
            max_content_length: AtomicU64::new(0),
        })
    }

    /// Whether the cluster has said that it is Elasticsearch.
    pub fn is_elasticsearch(&self) -> bool {
        self.elasticsearch.load(Relaxed)
    }

    /// Passes a request on, path and query as they came, and returns the response without its hop-by-hop headers.
    ///
    /// # Errors
    /// [`Refusal::Unreachable`] when nothing was sent, [`Refusal::Broken`] when it is not known what became of it.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Refusal> {
        headers::strip_hop_by_hop(request.headers_mut());
        let node = self.pick()?;
        let mut parts = node.uri.clone().into_parts();
        parts.path_and_query = request.uri().path_and_query().cloned();
        *request.uri_mut() =
            Uri::from_parts(parts).map_err(|e| Refusal::Unreachable(e.to_string()))?;
        *request.version_mut() = hyper::Version::HTTP_11;
        request.headers_mut().insert(HOST, node.host.clone());
        let (uri, headers) = (request.uri().clone(), request.headers_mut());
        headers::close_after_long_head(&uri, headers);
        match self.client.request(request).await {
            Ok(mut response) => {
                node.resting_until.store(0, Relaxed);
                headers::strip_hop_by_hop(response.headers_mut());
                if response.headers().contains_key("x-elastic-product") {
                    self.elasticsearch.store(true, Relaxed);
                }
                Ok(response)
            }
            Err(error) if error.is_connect() => {
                let rest = self.start.elapsed() + REST;
                node.resting_until
                    .store(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX), Relaxed);
                Err(Refusal::Unreachable(describe(&error)))
            }
            Err(error) => Err(Refusal::Broken(describe(&error))),
        }
    }

    /// The next node in turn that is not resting; when all rest, the next in turn.
    fn pick(&self) -> Result<&Node, Refusal> {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let turn = self.next.fetch_add(1, Relaxed);
        let (before, after) = self
            .nodes
            .split_at(turn.checked_rem(self.nodes.len()).unwrap_or(0));
        let in_turn = || after.iter().chain(before);
        in_turn()
            .find(|node| node.resting_until.load(Relaxed) <= now)
            .or_else(|| in_turn().next())
            .ok_or_else(|| Refusal::Unreachable("no node is configured".into()))
    }

    /// A GET of our own with the caller's credentials, whatever headers the cluster finds them in; the answer is read
    /// whole, `limit` bytes at most.
    ///
    /// # Errors
    /// As [`Upstream::send`]; also when the answer is longer than `limit`.
    pub async fn get(
        &self,
        path: &str,
        caller: &HeaderMap,
        limit: usize,
    ) -> Result<Response<Bytes>, Refusal> {
        let mut request = Request::new(full(Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() =
            Uri::try_from(path).map_err(|e| Refusal::Unreachable(e.to_string()))?;
        let of_request = |name: &str| {
            ["accept", "content-", "if-", "range"]
                .iter()
                .any(|start| name.starts_with(start))
        };
        for (name, value) in caller {
            if !of_request(name.as_str()) {
                request.headers_mut().append(name, value.clone());
            }
        }
        headers::strip_hop_by_hop(request.headers_mut());
        request.headers_mut().remove(EXPECT);
        let (parts, body) = self.send(request).await?.into_parts();
        let body = Limited::new(body, limit)
            .collect()
            .await
            .map_err(|e| Refusal::Broken(e.to_string()))?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }

    /// The cluster's `http.max_content_length` in bytes, asked for once with the caller's credentials.
    pub async fn max_content_length(&self, caller: &HeaderMap) -> Option<u64> {
        let known = self.max_content_length.load(Relaxed);
        if known > 0 {
            return Some(known);
        }
        let path = "/_nodes/http?filter_path=nodes.*.http.max_content_length_in_bytes";
        let answer = self.get(path, caller, 1 << 20).await.ok()?;
        let nodes: serde_json::Value = serde_json::from_slice(answer.body()).ok()?;
        let limits = nodes.get("nodes")?.as_object()?.values();
        let limit = limits
            .filter_map(|node| node.pointer("/http/max_content_length_in_bytes")?.as_u64())
            .min()?;
        self.max_content_length.store(limit, Relaxed);
        Some(limit)
    }
}

/// An error with its causes, without repeating them.
fn describe(error: &hyper_util::client::legacy::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Sets `Content-Length`: both servers' documentation advises against chunked bulks.
pub fn set_length(headers: &mut HeaderMap, length: u64) {
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
}

/// A request that is passed on as it comes.
pub fn streaming(request: Request<Incoming>) -> Request<Body> {
    let waits_for_leave = request.headers().contains_key(EXPECT);
    request.map(|body| {
        Streaming {
            rest: Some(body),
            comes: !waits_for_leave,
        }
        .map_err(|e| -> BoxError { Box::new(e) })
        .boxed_unsync()
    })
}

/// Dropped before its end (the cluster has answered already, or cannot be reached), it reads the rest and forgets it: most clients write the
/// whole body before they read the answer, and without a reader they would see a broken pipe.
struct Streaming {
    rest: Option<Incoming>,
    /// A client that waits for leave to send has none, and sends nothing, before the first frame is asked for.
    comes: bool,
}

impl HttpBody for Streaming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.comes = true;
        match &mut self.rest {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.rest
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if self.comes
            && !self.is_end_stream()
            && let Some(rest) = self.rest.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(drain(rest));
        }
    }
}

/// Reads a body to its end and forgets it.
pub async fn drain(mut body: Incoming) {
    let all = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(DRAIN, all).await;
}
