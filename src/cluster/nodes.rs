//! Round-robin over the cluster's nodes, ejected ones last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::{HOST, HeaderValue, InvalidHeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::early_response::EarlyResponseConnector;
use super::outlier::{Health, is_answer};
use super::payload::Payload;
use super::signer::Signer;
use crate::http::{Body, full, headers};

const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Most headers of a response. Each deprecated thing in a request is a `Warning` of its own, and a bulk can use
/// hundreds; hyper takes 100. Their bytes are bounded by hyper's buffer of 400 KiB.
const MAX_HEADERS: usize = 4096;

/// Timeout of a probe.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) type Connector = HttpsConnector<EarlyResponseConnector>;

/// The connections of one node, until one of them breaks.
pub(super) type Connections = HttpClient<Connector, Body>;

/// One node of the cluster.
pub(super) struct Node {
    /// Scheme and authority.
    pub uri: Uri,
    /// The `Host` of requests to it.
    pub host: HeaderValue,
    /// Signs what is sent to it.
    signer: Option<Arc<Signer>>,
    connector: Connector,
    connections: Mutex<Arc<Connections>>,
    /// Health, watched by requests in flight.
    health: watch::Sender<Health>,
    /// Whether it is the only node, which is never ejected.
    is_only: bool,
    start: Instant,
}

/// All nodes.
pub(super) struct Nodes {
    nodes: Vec<Arc<Node>>,
    next: AtomicUsize,
}

impl Nodes {
    /// Nodes in use.
    ///
    /// # Errors
    /// If an authority is not a valid header.
    pub(super) fn new(
        uris: &[Uri],
        connector: &Connector,
        signer: Option<&Arc<Signer>>,
    ) -> Result<Nodes, InvalidHeaderValue> {
        let start = Instant::now();
        let host = |uri: &Uri| match (signer, uri.scheme_str(), uri.port_u16()) {
            // Whoever stands in front of the service may leave out a port that is the default.
            (Some(_), Some("https"), Some(443)) => HeaderValue::from_str(uri.host().unwrap_or_default()),
            _ => HeaderValue::from_str(uri.authority().map_or("", |a| a.as_str())),
        };
        let node = |uri: &Uri| {
            Ok(Arc::new(Node {
                uri: uri.clone(),
                host: host(uri)?,
                signer: signer.cloned(),
                connector: connector.clone(),
                connections: Mutex::new(Arc::new(connections(connector))),
                health: watch::Sender::default(),
                is_only: uris.len() < 2,
                start,
            }))
        };
        Ok(Nodes { nodes: uris.iter().map(node).collect::<Result<_, _>>()?, next: AtomicUsize::new(0) })
    }

    /// Whether there is more than one.
    pub(super) fn are_several(&self) -> bool {
        self.nodes.len() > 1
    }

    /// The nodes in the order for a request: round robin, ejected ones last. When all are ejected it is as if none
    /// were. Ejected nodes whose time is up are probed meanwhile, with the credentials of `caller`.
    pub(super) fn in_order(&self, caller: &HeaderMap) -> Vec<Arc<Node>> {
        let turn = self.next.fetch_add(1, Relaxed);
        let (before, after) = self.nodes.split_at(turn.checked_rem(self.nodes.len()).unwrap_or(0));
        let in_turn = after.iter().chain(before).cloned();
        let (mut order, ejected): (Vec<_>, Vec<_>) = in_turn.partition(|node| !node.is_ejected());
        for node in &ejected {
            if node.change(Health::is_due) {
                node.spawn_probe(caller);
            }
        }
        order.extend(ejected);
        order
    }
}

/// A pool without connections yet.
fn connections(connector: &Connector) -> Connections {
    // A pooled connection that was closed before the request went out is replaced; a request that went out is not sent
    // again here: a document without an id would be doubled.
    HttpClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .http1_preserve_header_case(true)
        .http1_max_headers(MAX_HEADERS)
        .set_host(false)
        .build(connector.clone())
}

impl Node {
    /// The connections for a request.
    pub(super) fn connections(&self) -> Arc<Connections> {
        self.connections.lock().clone()
    }

    /// Signs a request, if requests to it are signed; gives the time that it was signed for.
    ///
    /// # Errors
    /// There is nothing to sign with, or the address cannot be signed; the text says why.
    pub(super) async fn sign(&self, request: Request<Body>) -> Result<(Request<Body>, Option<SystemTime>), String> {
        let Some(signer) = &self.signer else {
            return Ok((request, None));
        };
        let (mut head, body) = request.into_parts();
        let payload = head.extensions.get().cloned().unwrap_or_else(|| Payload::of(Bytes::new()));
        let time = signer.now();
        // In a box: looking for credentials takes more of a stack than all else that a request does.
        Box::pin(signer.sign(&mut head, &self.host, (&payload, time))).await?;
        Ok((Request::from_parts(head, body), Some(time)))
    }

    /// Whether a signature for this time was refused for it; the next one is made for the right time.
    pub(super) fn learns_time(&self, signed_at: SystemTime, refusal: &HeaderMap) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.learns_time(signed_at, refusal))
    }

    /// It has answered a request.
    pub(super) fn answered(&self, status: StatusCode) {
        if is_answer(status) && *self.health.borrow() != Health::default() {
            self.change(|health, _| health.answered());
        }
    }

    /// It has not answered on one of these connections. The idle ones among them are given up: what broke or lost one
    /// (a restart, a load balancer that has forgotten them) has most often done so with all, and each would cost a
    /// write. So they also count as one failure, however many requests they had.
    pub(super) fn failed(&self, on: &Arc<Connections>) {
        if self.give_up(on) {
            self.change(Health::failed);
        }
    }

    /// Whether these were the current connections.
    pub(super) fn give_up(&self, these: &Arc<Connections>) -> bool {
        let mut current = self.connections.lock();
        let are_current = Arc::ptr_eq(&current, these);
        if are_current {
            *current = Arc::new(connections(&self.connector));
        }
        are_current
    }

    /// No connection could be made.
    pub(super) fn unreachable(&self) {
        self.change(Health::unreachable);
    }

    /// Probes a node after a failed or slow request, and ejects it if it does not answer.
    pub(super) fn doubt(self: &Arc<Node>, caller: &HeaderMap) {
        if self.change(|health, _| health.is_doubtful()) {
            self.spawn_probe(caller);
        }
    }

    /// Waits until it is ejected.
    pub(super) async fn ejected(&self) {
        // The sender is here, so that it cannot fail.
        let _ = self.health.subscribe().wait_for(Health::is_ejected).await;
    }

    fn is_ejected(&self) -> bool {
        self.health.borrow().is_ejected()
    }

    fn change<T: Default>(&self, change: impl FnOnce(&mut Health, Duration) -> T) -> T {
        let (now, mut result) = (self.start.elapsed(), T::default());
        if self.is_only {
            return result;
        }
        self.health.send_if_modified(|health| {
            let before = health.is_ejected();
            result = change(health, now);
            match (before, health.is_ejected()) {
                (false, true) => warn!(node = %self.uri, "a node of the cluster does not answer: others do its work"),
                (true, false) => info!(node = %self.uri, "a node of the cluster answers again"),
                _ => return false,
            }
            true
        });
        result
    }

    /// Sends a HEAD with the credentials of a request: one without any would be a failed login in the cluster's log.
    fn spawn_probe(self: &Arc<Node>, caller: &HeaderMap) {
        let mut request = Request::new(full(""));
        *request.method_mut() = Method::HEAD;
        *request.uri_mut() = self.uri.clone();
        let mut headers = super::credentials_of(caller);
        headers.insert(HOST, self.host.clone());
        headers::close_after_long_head(&self.uri, &mut headers);
        *request.headers_mut() = headers;
        let node = self.clone();
        tokio::spawn(async move {
            let connections = node.connections();
            let asking = async { connections.request(node.sign(request).await.ok()?.0).await.ok() };
            let answer = tokio::time::timeout(PROBE_TIMEOUT, asking).await;
            let answered = matches!(answer, Ok(Some(answer)) if is_answer(answer.status()));
            if !answered {
                node.give_up(&connections);
            }
            node.change(|health, now| health.probed(answered, now));
        });
    }
}
