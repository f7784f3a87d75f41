//! Failover of a request: the choice of the node, its failures, and which requests are repeated on another node.
//!
//! | what happened | the node | the request |
//! |---|---|---|
//! | no connection | is ejected | goes to the next |
//! | the connection broke before a byte of the body went out | has failed, is probed | goes to the next |
//! | the connection broke before the answer began | has failed, is probed | a read goes to one other, else `Broken` |
//! | no answer in [`PATIENCE`] | is probed | waits; a read goes to one other once the node is ejected |
//! | no answer in the request's time | has failed, is probed | `TimedOut` |
//! | 403 to a signature of another time | | is signed for the right one and sent again, once |
//! | an answer | [`super::outlier`] | is answered |
//!
//! The next of a node that is the only one is itself, by another connection.
//!
//! What an ejected node has had to do with a write is not known, so a write waits for it as for any other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::Error as HttpError;
use percent_encoding::percent_decode_str;
use tokio::time::{Instant, sleep_until};

use super::answer::{AnswerBody, Refusal};
use super::nodes::{Node, PROBE_TIMEOUT};
use super::unsent::lend;
use super::{Client, ClusterError, Payload, client_body_error, credentials_of, describe, payload};
use crate::http::{Body, BoxError, ClientBodyError, ProxyError, full, headers};

/// How long a request waits before its node is probed.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a node did not answer.
enum Failure {
    /// There is no connection.
    Unreachable(String),
    /// Nothing was sent: any node may get the request.
    Unsent(String),
    /// Another node may get the request if it is idempotent.
    Unanswered(String),
    /// The signature is refused for its time, and nothing else of the request was looked at.
    OtherTime(StatusCode),
    /// No other node can help.
    Final(ClusterError),
}

/// The common terms of all attempts at one request.
struct Terms<'r> {
    /// Headers with the credentials for probes.
    caller: &'r HeaderMap,
    deadline: Option<(Instant, Duration)>,
}

impl Terms<'_> {
    /// `limit`: timeout until the response begins.
    fn new(caller: &HeaderMap, limit: Option<Duration>) -> Terms<'_> {
        // A limit beyond all times is none.
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        Terms { caller, deadline }
    }

    /// Waits until the limit has elapsed; returns it.
    async fn over(&self) -> Duration {
        match self.deadline {
            Some((deadline, limit)) => {
                sleep_until(deadline).await;
                limit
            }
            None => std::future::pending().await,
        }
    }
}

impl Client {
    /// Sends a request to the next node, and to others by the rules of the table above. `body`: the bytes of its body,
    /// if it changes nothing and may be sent twice; `limit`: the time until its answer begins.
    pub(super) async fn exchange(
        &self,
        mut request: Request<Body>,
        body: Option<Bytes>,
        limit: Option<Duration>,
    ) -> Result<Response<AnswerBody>, ClusterError> {
        headers::strip_hop_by_hop(request.headers_mut());
        if self.signs() {
            request = payload::attach(request).await?;
        }
        // hyper sends a GET without a body unless this is set.
        if request.body().size_hint().exact().is_none() {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
        let (head, mut sending) = request.into_parts();
        let terms = Terms::new(&head.headers, limit);
        let mut may_repeat = body.is_some() || is_read(&head) && sending.is_end_stream();
        let mut last = "no node is configured".to_owned();
        let mut nodes = self.nodes.in_order(&head.headers);
        if let [only] = nodes.as_slice() {
            nodes.push(only.clone());
        }
        let (mut nodes, mut is_signed_again) = (VecDeque::from(nodes), false);
        while let Some(node) = nodes.pop_front() {
            let (lent_out, lent) = lend(sending);
            let request = address(&node, head.clone(), lent_out).map_err(ClusterError::Unreachable)?;
            let may_leave = may_repeat && !nodes.is_empty();
            match self.attempt(&node, request, &terms, may_leave).await {
                Ok(response) => return Ok(response),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::OtherTime(status)) if is_signed_again => return Err(other_time(status)),
                Err(Failure::OtherTime(_)) => {
                    is_signed_again = true;
                    // Who refuses may hang up as well.
                    node.give_up(&node.connections());
                    nodes.push_front(node);
                    if let Some(payload) = head.extensions.get::<Payload>() {
                        sending = payload.body();
                        continue;
                    }
                }
                Err(Failure::Unreachable(reason)) if !self.nodes.are_several() => {
                    return Err(ClusterError::Unreachable(reason));
                }
                Err(Failure::Unreachable(reason) | Failure::Unsent(reason)) => last = reason,
                Err(Failure::Unanswered(reason)) if lent.is_awaited() => last = reason,
                Err(Failure::Unanswered(reason)) if !may_leave => return Err(ClusterError::Broken(reason)),
                Err(Failure::Unanswered(reason)) => (may_repeat, last) = (false, reason),
            }
            sending = match (lent.take_back(), &body) {
                (Some(unsent), _) => unsent,
                (None, Some(bytes)) => full(bytes.clone()),
                (None, None) => return Err(ClusterError::Broken(last)),
            };
        }
        Err(ClusterError::Unreachable(last))
    }

    /// Requests `path` with the caller's credentials from one node after the other until one answers without a server
    /// error; returns the last status. With several nodes, none of them is waited for longer than for a probe.
    ///
    /// # Errors
    /// As [`Client::forward`], of the last node.
    pub(crate) async fn ping(&self, caller: &HeaderMap, path: &str, most: usize) -> Result<StatusCode, ClusterError> {
        let mut head = Request::new(()).into_parts().0;
        head.uri = Uri::try_from(path).map_err(|error| ClusterError::Unreachable(error.to_string()))?;
        head.headers = credentials_of(caller);
        let limit = if self.nodes.are_several() { Some(PROBE_TIMEOUT) } else { self.timeout() };
        let mut last = Err(ClusterError::Unreachable("no node is configured".into()));
        for node in self.nodes.in_order(caller) {
            let request = address(&node, head.clone(), full("")).map_err(ClusterError::Unreachable)?;
            last = match self.attempt(&node, request, &Terms::new(caller, limit), false).await {
                Ok(response) => {
                    let status = response.status();
                    // Read to its end, so that the connection can be used again.
                    let _ = Limited::new(response.into_body(), most).collect().await;
                    Ok(status)
                }
                Err(Failure::Unreachable(reason) | Failure::Unsent(reason)) => Err(ClusterError::Unreachable(reason)),
                Err(Failure::Unanswered(reason)) => Err(ClusterError::Broken(reason)),
                Err(Failure::Final(error)) => Err(error),
                // The next one is signed for the right time.
                Err(Failure::OtherTime(status)) => Err(other_time(status)),
            };
            if last.as_ref().is_ok_and(|status| !status.is_server_error()) {
                break;
            }
        }
        last
    }

    /// One request to one node. `may_leave`: gives up when the node is ejected while it is slow.
    async fn attempt(
        &self,
        node: &Arc<Node>,
        request: Request<Body>,
        terms: &Terms<'_>,
        may_leave: bool,
    ) -> Result<Response<AnswerBody>, Failure> {
        let connections = node.connections();
        let unsigned =
            |reason| Failure::Final(ClusterError::NotAdmitted(format!("the request is not signed: {reason}")));
        let (request, signed_at) = tokio::select! {
            biased;
            signed = node.sign(request) => signed.map_err(unsigned)?,
            limit = terms.over() => return Err(unsigned(format!("not within {} seconds", limit.as_secs()))),
        };
        let slow = async {
            sleep_until(Instant::now() + PATIENCE).await;
            node.doubt(terms.caller);
            match may_leave {
                true => node.ejected().await,
                false => std::future::pending().await,
            }
        };
        let failed = || {
            node.failed(&connections);
            node.doubt(terms.caller);
        };
        let error = tokio::select! {
            biased;
            answer = connections.request(request) => match answer {
                Ok(response) if response.status() == StatusCode::FORBIDDEN && signed_at.is_some() => {
                    return self.refused(node, response, signed_at).await;
                }
                Ok(response) => return Ok(self.received(node, response.map(AnswerBody::Streamed))),
                Err(error) => error,
            },
            limit = terms.over() => {
                failed();
                return Err(Failure::Final(ClusterError::TimedOut(limit)));
            }
            () = slow => return Err(Failure::Unanswered("the node does not answer".into())),
        };
        if error.is_connect() {
            node.unreachable();
            return Err(Failure::Unreachable(describe(&error)));
        }
        if let Some(error) = client_body_error(&error) {
            return Err(Failure::Final(ClusterError::ClientBody(match error {
                ClientBodyError::Broken(reason) => ProxyError::BadBody(reason.clone()),
                ClientBodyError::Silent(time) => ProxyError::BodyTimeout(time.as_secs()),
            })));
        }
        failed();
        Err(match is_unsent(&error) {
            true => Failure::Unsent(describe(&error)),
            false => Failure::Unanswered(describe(&error)),
        })
    }

    /// A signed request was answered with 403.
    async fn refused(
        &self,
        node: &Node,
        response: Response<Incoming>,
        signed_at: Option<SystemTime>,
    ) -> Result<Response<AnswerBody>, Failure> {
        let (head, status) = (response.headers().clone(), response.status());
        let broken = |error: BoxError| Failure::Final(ClusterError::Broken(error.to_string()));
        let refusal = Refusal::read(response).await.map_err(broken)?;
        let is_clusters = matches!(refusal, Refusal::Cluster(_));
        if !is_clusters && signed_at.is_some_and(|time| node.learns_time(time, &head)) {
            return Err(Failure::OtherTime(status));
        }
        match refusal {
            Refusal::Cluster(answer) | Refusal::Silent(answer) => Ok(self.received(node, answer)),
            Refusal::Service(reason) => Err(Failure::Final(ClusterError::NotAdmitted(format!(
                "the service answers {status} to spinney's signature: {reason}"
            )))),
        }
    }

    fn received(&self, node: &Node, mut response: Response<AnswerBody>) -> Response<AnswerBody> {
        node.answered(response.status());
        headers::strip_hop_by_hop(response.headers_mut());
        if response.headers().contains_key("x-elastic-product") {
            self.note_elasticsearch();
        }
        response
    }
}

fn other_time(status: StatusCode) -> ClusterError {
    ClusterError::NotAdmitted(format!("the service answers {status} to a signature of its own time"))
}

/// A request to this node, with path and query as they are.
fn address(node: &Node, mut head: request::Parts, body: Body) -> Result<Request<Body>, String> {
    let mut uri = node.uri.clone().into_parts();
    uri.path_and_query = head.uri.path_and_query().cloned();
    head.uri = Uri::from_parts(uri).map_err(|error| error.to_string())?;
    head.version = Version::HTTP_11;
    head.headers.insert(HOST, node.host.clone());
    headers::close_after_long_head(&head.uri, &mut head.headers);
    Ok(Request::from_parts(head, body))
}

/// Whether hyper wrote nothing of the request, because the connection had ended.
fn is_unsent(error: &HttpError) -> bool {
    let source = std::error::Error::source(error);
    source.and_then(|source| source.downcast_ref::<hyper::Error>()).is_some_and(hyper::Error::is_canceled)
}

/// Whether a request only reads, so that it may be sent twice. A GET goes on with a scroll or with a cursor of SQL, and
/// the next one gets the next page.
fn is_read(head: &request::Parts) -> bool {
    let goes_on = |segment: &str| {
        let segment = percent_decode_str(segment).collect::<Vec<u8>>();
        segment == b"scroll" || segment == b"_sql"
    };
    (head.method == Method::GET || head.method == Method::HEAD) && !head.uri.path().split('/').any(goes_on)
}
