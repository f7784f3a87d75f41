//! The client of the search cluster. Requests go to it in two ways:
//!
//! - **In a caller's name**: what is forwarded ([`Client::forward`]), and what spinney asks with the caller's own
//!   credentials before it shows something ([`Client::ask_as`]). Bytes, paths and headers pass as they came, and a
//!   request that was sent is never sent again.
//! - **In spinney's own name** ([`operator`]): what it does in the background, and the commands of an operator.
//!
//! Both trust nothing but the configured authority, follow no redirect and know no proxy of the environment.

mod aliases;
mod consent;
mod early_response;
mod nodes;
pub(crate) mod operator;
pub(crate) mod point_in_time;
pub(crate) mod resolve;
pub(crate) mod retry;
pub(crate) mod roots;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod sorted_pages;
pub(crate) mod templates;

use std::error::Error;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HOST, HeaderValue, InvalidHeaderValue, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::config::Identity;
use crate::http::tls::{self, TlsError};
use crate::http::{Body, ClientBodyError, ProxyError, full, headers};
use aliases::Aliases;
pub(crate) use aliases::{Denied, IndicesBehind};
use early_response::EarlyResponseConnector;
use nodes::Nodes;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How many headers an answer may have. Each deprecated thing in a request is a `Warning` of its own, and a bulk can
/// use hundreds; hyper takes 100. Their bytes are bounded by hyper's buffer of 400 KiB.
const MAX_HEADERS: usize = 4096;

/// The most bytes of an answer to a question about the cluster.
const LIMITS_ANSWER: usize = 1 << 20;

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClusterError {
    /// Nothing was sent.
    #[error("no cluster node could be reached: {0}")]
    Unreachable(String),
    /// The request may have been carried out.
    #[error("the connection to the cluster broke: {0}")]
    Broken(String),
    /// It has not begun to answer for so long. The request may have been carried out.
    #[error("the cluster has not answered for {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The client's own side of the request broke off.
    #[error("the request did not come whole: {0}")]
    ClientBody(ProxyError),
}

/// Why the client cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Certificates or keys.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The authority of a node is not a valid header.
    #[error("a cluster node has no usable authority")]
    Authority(#[from] InvalidHeaderValue),
}

impl From<ClusterError> for ProxyError {
    fn from(error: ClusterError) -> ProxyError {
        match error {
            ClusterError::Unreachable(reason) => ProxyError::Unreachable(reason),
            ClusterError::Broken(reason) => ProxyError::Broken(reason),
            ClusterError::TimedOut(after) => ProxyError::UpstreamTimeout(after.as_secs()),
            ClusterError::ClientBody(error) => error,
        }
    }
}

/// The cluster: pooled connections to its nodes.
pub(crate) struct Client {
    http: hyper_util::client::legacy::Client<HttpsConnector<EarlyResponseConnector>, Body>,
    nodes: Nodes,
    aliases: Aliases,
    timeout: Option<Duration>,
    elasticsearch: AtomicBool,
    /// `http.max_content_length` in bytes; 0: not known.
    max_content_length: AtomicU64,
}

impl Client {
    /// A client for these nodes (scheme and authority each). `ca`: the only authority to trust instead of those of the
    /// system; `identity`: the certificate to show; `timeout`: how long [`Client::forward`] waits for the head of an
    /// answer.
    ///
    /// # Errors
    /// When TLS material cannot be read.
    pub(crate) fn new(
        nodes: &[Uri],
        ca: Option<&Path>,
        identity: Option<&Identity>,
        timeout: Option<Duration>,
    ) -> Result<Client, ClientError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(ca, identity)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(EarlyResponseConnector::new(http));
        // A pooled connection that was closed before the request went out is replaced; a request that went out is
        // never sent again: a document without an id would be doubled.
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .http1_preserve_header_case(true)
            .http1_max_headers(MAX_HEADERS)
            .set_host(false)
            .build(connector);
        Ok(Client {
            http,
            nodes: Nodes::new(nodes)?,
            aliases: Aliases::default(),
            timeout,
            elasticsearch: AtomicBool::new(false),
            max_content_length: AtomicU64::new(0),
        })
    }

    /// How many nodes there are.
    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the cluster is known to be Elasticsearch.
    pub(crate) fn is_elasticsearch(&self) -> bool {
        self.elasticsearch.load(Relaxed)
    }

    /// Forwards a request with a complete body, path and query unchanged, and returns the response without its
    /// hop-by-hop headers.
    ///
    /// # Errors
    /// [`ClusterError::Unreachable`] if nothing was sent; [`ClusterError::Broken`] and [`ClusterError::TimedOut`] if
    /// the outcome is indeterminate.
    pub(crate) async fn forward(&self, request: Request<Body>) -> Result<Response<Incoming>, ClusterError> {
        let Some(timeout) = self.timeout else {
            return self.relay(request).await;
        };
        let answered = tokio::time::timeout(timeout, self.relay(request)).await;
        answered.unwrap_or(Err(ClusterError::TimedOut(timeout)))
    }

    /// Relays a request without a time-out: a search, a merge or a reindex takes as long as it does, and a client
    /// that has waited enough disconnects. The body may still be arriving.
    ///
    /// # Errors
    /// As [`Client::forward`]; [`ClusterError::ClientBody`] if the client disconnected.
    pub(crate) async fn relay(&self, mut request: Request<Body>) -> Result<Response<Incoming>, ClusterError> {
        headers::strip_hop_by_hop(request.headers_mut());
        // hyper sends a GET without a body unless this is set.
        if request.body().size_hint().exact().is_none() {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
        let node = self.nodes.pick().ok_or_else(|| ClusterError::Unreachable("no node is configured".into()))?;
        let mut parts = node.uri.clone().into_parts();
        parts.path_and_query = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from_parts(parts).map_err(|e| ClusterError::Unreachable(e.to_string()))?;
        *request.version_mut() = hyper::Version::HTTP_11;
        request.headers_mut().insert(HOST, node.host.clone());
        let (uri, headers) = (request.uri().clone(), request.headers_mut());
        headers::close_after_long_head(&uri, headers);
        match self.http.request(request).await {
            Ok(mut response) => {
                node.readmit();
                headers::strip_hop_by_hop(response.headers_mut());
                if response.headers().contains_key("x-elastic-product") {
                    self.elasticsearch.store(true, Relaxed);
                }
                Ok(response)
            }
            Err(error) if error.is_connect() => {
                self.nodes.eject(node);
                Err(ClusterError::Unreachable(describe(&error)))
            }
            Err(error) => Err(match client_body_error(&error) {
                Some(ClientBodyError::Broken(reason)) => ClusterError::ClientBody(ProxyError::BadBody(reason.clone())),
                Some(ClientBodyError::Silent(time)) => {
                    ClusterError::ClientBody(ProxyError::BodyTimeout(time.as_secs()))
                }
                None => ClusterError::Broken(describe(&error)),
            }),
        }
    }

    /// A GET of our own with the caller's credentials, whatever headers the cluster finds them in; the answer is read
    /// whole, `limit` bytes at most.
    ///
    /// # Errors
    /// As [`Client::forward`]; also when the answer is longer than `limit`.
    pub(crate) async fn get_as(
        &self,
        caller: &HeaderMap,
        path: &str,
        limit: usize,
    ) -> Result<Response<Bytes>, ClusterError> {
        self.ask_as(caller, Method::GET, path, None, limit).await
    }

    /// The same with any method, and a body of JSON if there is one.
    ///
    /// # Errors
    /// As [`Client::get_as`].
    pub(crate) async fn ask_as(
        &self,
        caller: &HeaderMap,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
        limit: usize,
    ) -> Result<Response<Bytes>, ClusterError> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let more = (usize::MAX, std::future::ready(()));
        self.ask_as_until(caller, method, path, body, more, limit).await
    }

    /// The same with the text of a body of JSON, which waits before it reads on beyond some bytes: until then the
    /// cluster keeps the rest.
    ///
    /// # Errors
    /// As [`Client::get_as`].
    pub(crate) async fn ask_as_until(
        &self,
        caller: &HeaderMap,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        (small, more): (usize, impl Future<Output = ()>),
        limit: usize,
    ) -> Result<Response<Bytes>, ClusterError> {
        let has_body = body.is_some();
        let mut request = Request::new(full(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(path).map_err(|e| ClusterError::Unreachable(e.to_string()))?;
        let of_request =
            |name: &str| ["accept", "content-", "if-", "range"].iter().any(|start| name.starts_with(start));
        for (name, value) in caller {
            if !of_request(name.as_str()) {
                request.headers_mut().append(name, value.clone());
            }
        }
        headers::strip_hop_by_hop(request.headers_mut());
        request.headers_mut().remove(EXPECT);
        if has_body {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        let (parts, body) = self.forward(request).await?.into_parts();
        let mut body = pin!(Limited::new(body, limit));
        let (mut read, mut more) = (BytesMut::new(), Some(more));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| ClusterError::Broken(e.to_string()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if read.len() + data.len() > small
                && let Some(more) = more.take()
            {
                more.await;
            }
            read.extend_from_slice(&data);
        }
        Ok(Response::from_parts(parts, read.freeze()))
    }

    /// The cluster's `http.max_content_length` in bytes, asked for once with the caller's credentials. `None`: the
    /// caller may not know.
    pub(crate) async fn max_content_length(&self, caller: &HeaderMap) -> Option<u64> {
        let known = self.max_content_length.load(Relaxed);
        if known > 0 {
            return Some(known);
        }
        let path = "/_nodes/http?filter_path=nodes.*.http.max_content_length_in_bytes";
        let answer = self.get_as(caller, path, LIMITS_ANSWER).await.ok()?;
        let nodes: serde_json::Value = serde_json::from_slice(answer.body()).ok()?;
        let limits = nodes.get("nodes")?.as_object()?.values();
        let limit = limits.filter_map(|node| node.pointer("/http/max_content_length_in_bytes")?.as_u64()).min()?;
        self.max_content_length.store(limit, Relaxed);
        Some(limit)
    }
}

/// The failure of the client's side that caused this error, if one did.
fn client_body_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e ClientBodyError> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref())
}

/// An error with its causes, each given once: many errors of HTTP clients repeat their cause in their own text.
pub(crate) fn describe(error: &dyn Error) -> String {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;

    /// A node that gives answers of so many bytes.
    async fn node(bytes: usize) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
                let answer = [head.into_bytes(), vec![b'x'; bytes]].concat();
                let _ = stream.write_all(&answer).await;
            }
        });
        format!("http://{address}").parse().unwrap()
    }

    const SMALL: usize = 1 << 16;

    #[tokio::test]
    async fn a_large_answer_waits_until_it_may_be_read() {
        for (bytes, waits) in [(SMALL, false), (SMALL + 1, true), (8 * SMALL, true)] {
            let client = Client::new(&[node(bytes).await], None, None, None).unwrap();
            let (asks, asked) = oneshot::channel();
            let (allow, allowed) = oneshot::channel::<()>();
            let more = async {
                let _ = asks.send(());
                let _ = allowed.await;
            };
            let reading = tokio::spawn(async move {
                let more = (SMALL, more);
                let none = HeaderMap::new();
                let answer = client.ask_as_until(&none, Method::GET, "/", None, more, 16 * SMALL);
                answer.await.unwrap().into_body().len()
            });
            assert_eq!(asked.await.is_ok(), waits, "{bytes}");
            if waits {
                assert!(!reading.is_finished(), "{bytes}");
                allow.send(()).unwrap();
            }
            assert_eq!(reading.await.unwrap(), bytes);
        }
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_its_limit() {
        for (bytes, fits) in [(SMALL, true), (SMALL + 1, false)] {
            let client = Client::new(&[node(bytes).await], None, None, None).unwrap();
            let answer = client.get_as(&HeaderMap::new(), "/", SMALL).await;
            assert_eq!(answer.is_ok(), fits, "{bytes}");
        }
    }
}
