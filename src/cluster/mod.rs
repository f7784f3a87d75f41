//! The client of the search cluster. Requests go to it in two ways:
//!
//! - **In a caller's name**: what is forwarded ([`Client::forward`]), and what spinney asks with the caller's own
//!   credentials before it shows something ([`Client::ask_as`]). Bytes, paths and headers pass as they came, and a
//!   write that was sent is never sent again ([`failover`]).
//! - **In spinney's own name** ([`operator`]): what it does in the background, and the commands of an operator.
//!
//! Both trust nothing but the configured authority, follow no redirect and know no proxy of the environment.

mod aliases;
mod answer;
mod consent;
mod early_response;
mod failover;
#[cfg(test)]
mod failover_tests;
mod nodes;
pub(crate) mod operator;
mod outlier;
mod payload;
pub(crate) mod point_in_time;
pub(crate) mod resolve;
pub(crate) mod retry;
pub(crate) mod roots;
pub(crate) mod scan;
pub(crate) mod search;
#[cfg_attr(feature = "aws", path = "sigv4.rs")]
#[cfg_attr(not(feature = "aws"), path = "unsigned.rs")]
mod signer;
#[cfg(feature = "simulation")]
mod simulated_connector;
pub(crate) mod sorted_pages;
pub(crate) mod templates;
mod unsent;

use std::error::Error;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue, InvalidHeaderValue};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use parking_lot::RwLock;

use crate::config::Identity;
use crate::http::tls::{self, TlsError};
use crate::http::{Body, ClientBodyError, ProxyError, full, headers};
use aliases::Aliases;
pub(crate) use aliases::{Denied, IndicesBehind};
pub(crate) use answer::AnswerBody;
use early_response::EarlyResponseConnector;
use nodes::Nodes;
pub(crate) use payload::Payload;
pub(crate) use signer::Signer;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// TCP keepalive time: a connection dropped by a load balancer or firewall is detected before a write is sent on it.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Time between two probes by TCP.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered TCP keepalive probes that end a connection.
const KEEPALIVE_RETRIES: u32 = 3;

/// Most bytes of a response about the cluster's limits.
const LIMITS_ANSWER: usize = 1 << 20;

/// Why a request got no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClusterError {
    /// Nothing was sent.
    #[error("no cluster node could be reached: {0}")]
    Unreachable(String),
    /// The service in front of the cluster does not take spinney for who it is, or there is nothing to sign with:
    /// nothing was carried out.
    #[error("{0}")]
    NotAdmitted(String),
    /// The connection broke: the request may have been executed.
    #[error("the connection to the cluster broke: {0}")]
    Broken(String),
    /// No response began within this time. The request may have been carried out.
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
            ClusterError::NotAdmitted(reason) => ProxyError::NotAdmitted(reason),
            ClusterError::Broken(reason) => ProxyError::Broken(reason),
            ClusterError::TimedOut(after) => ProxyError::UpstreamTimeout(after.as_secs()),
            ClusterError::ClientBody(error) => error,
        }
    }
}

/// The cluster: pooled connections to its nodes.
pub(crate) struct Client {
    nodes: Nodes,
    aliases: Aliases,
    timeout: RwLock<Option<Duration>>,
    /// Signs requests in spinney's name.
    signer: Option<Arc<Signer>>,
    elasticsearch: AtomicBool,
    /// `http.max_content_length` in bytes; 0: not known.
    max_content_length: AtomicU64,
}

impl Client {
    /// A client for these nodes (scheme and authority each). `ca`: the only authority to trust instead of those of the
    /// system; `identity`: the certificate to show; `signer`: signs all requests in place of what callers show;
    /// `timeout`: how long [`Client::forward`] waits for the head of an answer.
    ///
    /// # Errors
    /// When TLS material cannot be read.
    pub(crate) fn new(
        nodes: &[Uri],
        ca: Option<&Path>,
        identity: Option<&Identity>,
        signer: Option<&Arc<Signer>>,
        timeout: Option<Duration>,
    ) -> Result<Client, ClientError> {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(ca, identity)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(EarlyResponseConnector::new(tcp()));
        Ok(Client {
            nodes: Nodes::new(nodes, &connector, signer)?,
            aliases: Aliases::default(),
            timeout: RwLock::new(timeout),
            signer: signer.cloned(),
            elasticsearch: AtomicBool::new(false),
            max_content_length: AtomicU64::new(0),
        })
    }

    /// Sets how long [`Client::forward`] waits from now on.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) {
        *self.timeout.write() = timeout;
    }

    fn timeout(&self) -> Option<Duration> {
        *self.timeout.read()
    }

    /// Whether all requests are signed in spinney's name: then what goes out as a body is a [`Payload`] among the
    /// extensions of its request, or is short.
    pub(crate) fn signs(&self) -> bool {
        self.signer.is_some()
    }

    /// Finds what requests are signed with, if they are.
    ///
    /// # Errors
    /// There is nothing; the text says why.
    pub(crate) async fn check_signer(&self) -> Result<(), String> {
        match &self.signer {
            Some(signer) => signer.check().await,
            None => Ok(()),
        }
    }

    /// Whether the cluster is known to be Elasticsearch.
    pub(crate) fn is_elasticsearch(&self) -> bool {
        self.elasticsearch.load(Relaxed)
    }

    fn note_elasticsearch(&self) {
        self.elasticsearch.store(true, Relaxed);
    }

    /// Forwards a request with a complete body, path and query unchanged, and returns the response without its
    /// hop-by-hop headers.
    ///
    /// # Errors
    /// [`ClusterError::Unreachable`] if nothing was sent; [`ClusterError::Broken`] and [`ClusterError::TimedOut`] if
    /// the outcome is indeterminate.
    pub(crate) async fn forward(&self, request: Request<Body>) -> Result<Response<AnswerBody>, ClusterError> {
        self.exchange(request, None, self.timeout()).await
    }

    /// Relays a request without a time-out: a search, a merge or a reindex takes as long as it does, and a client
    /// that has waited enough disconnects. The body may still be arriving.
    ///
    /// # Errors
    /// As [`Client::forward`]; [`ClusterError::ClientBody`] if the client disconnected.
    pub(crate) async fn relay(&self, request: Request<Body>) -> Result<Response<AnswerBody>, ClusterError> {
        self.exchange(request, None, None).await
    }

    /// Sends a GET with the caller's credentials; reads a response of at most `limit` bytes.
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

    /// As [`get_as`](Self::get_as), with any method and an optional JSON body. It must change nothing: it may be sent
    /// to two nodes.
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

    /// As [`ask_as`](Self::ask_as), waiting for a permit before more than some bytes of the response are read.
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
        let body = body.unwrap_or_default();
        let mut request = Request::new(full(body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(path).map_err(|e| ClusterError::Unreachable(e.to_string()))?;
        *request.headers_mut() = credentials_of(caller);
        if has_body {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        let (parts, body) = self.exchange(request, Some(body), self.timeout()).await?.into_parts();
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

    /// The cluster's `http.max_content_length` in bytes, requested once with the caller's credentials. `None`: the
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

/// Connections to sockets.
fn tcp() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(KEEPALIVE));
    http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    http
}

/// The caller's headers for a request on its behalf, without those that describe its own request.
fn credentials_of(caller: &HeaderMap) -> HeaderMap {
    let of_request = |name: &str| ["accept", "content-", "if-", "range"].iter().any(|start| name.starts_with(start));
    let kept = caller.iter().filter(|(name, _)| !of_request(name.as_str()));
    let mut headers = HeaderMap::new();
    for (name, value) in kept {
        headers.append(name, value.clone());
    }
    headers::strip_hop_by_hop(&mut headers);
    headers.remove(EXPECT);
    headers
}

/// The failure of the client's side that caused this error, if one did.
fn client_body_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e ClientBodyError> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref())
}

/// An error with its causes, each given once: many errors of HTTP clients repeat their cause in their own text.
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    match tls::error_in(error).and_then(tls::remedy) {
        Some(remedy) => format!("{text}: {remedy}"),
        None => text,
    }
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
            let client = Client::new(&[node(bytes).await], None, None, None, None).unwrap();
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
            let client = Client::new(&[node(bytes).await], None, None, None, None).unwrap();
            let answer = client.get_as(&HeaderMap::new(), "/", SMALL).await;
            assert_eq!(answer.is_ok(), fits, "{bytes}");
        }
    }
}
