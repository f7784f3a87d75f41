//! Errors of our own, in the cluster's shape.

use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::json::json;
use super::wire::Body;

/// Why spinney itself refuses a request, or could not forward it. `Display` is the reason that the client sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyError {
    /// It does not fit into the budget now.
    #[error(
        "spinney holds {used} of {budget} bytes of write requests in flight and {wanted} more do not fit: retry later, \
         or raise --budget"
    )]
    OverBudget {
        /// Bytes held by other requests and by this one so far.
        used: usize,
        /// Bytes that may be held.
        budget: usize,
        /// Bytes that this request needs besides.
        wanted: usize,
    },
    /// Large responses that readers have not read yet exceed the budget.
    #[error(
        "readers have not taken {used} bytes of answers yet and {wanted} more are too many: retry later, ask for \
         smaller pages, or for less of each document with _source"
    )]
    AnswersNotTaken {
        /// Bytes of answers that are held.
        used: usize,
        /// Bytes of this one.
        wanted: usize,
    },
    /// It can never fit into the budget.
    #[error(
        "the request needs {wanted} bytes and spinney's whole budget is {budget}: send smaller bulks, or raise --budget"
    )]
    LargerThanBudget {
        /// Bytes that this request needs.
        wanted: usize,
        /// Bytes that may be held.
        budget: usize,
    },
    /// The client holds as much as one client may.
    #[error(
        "this client holds {used} of the {allowed} bytes of spinney's budget that one client may hold and {wanted} \
         more do not fit: retry later, send fewer bulks at once, or raise --client-share"
    )]
    OverShare {
        /// Bytes held by all requests of this client.
        used: usize,
        /// Bytes that one client may hold.
        allowed: usize,
        /// Bytes that this request needs besides.
        wanted: usize,
    },
    /// The request can never fit into the share of one client.
    #[error(
        "the request has {wanted} bytes or more and one client may hold {allowed} bytes of spinney's budget: send \
         smaller bulks, or raise --budget or --client-share"
    )]
    LargerThanShare {
        /// Bytes that this request needs at least.
        wanted: usize,
        /// Bytes that one client may hold.
        allowed: usize,
    },
    /// The stamps push a legal body over the cluster's limit.
    #[error(
        "the stamped body has {stamped} bytes and the cluster takes at most {limit} (http.max_content_length): send \
         smaller bulks"
    )]
    StampOverLimit {
        /// Bytes of the stamped body.
        stamped: u64,
        /// Bytes that the cluster takes.
        limit: u64,
    },
    /// The process drains.
    #[error("spinney is stopping: send the request again in a moment")]
    Stopping,
    /// A forest is out of service, so that the documents could get wrong stamps or none.
    #[error(
        "the forest '{forest}' is out of service and nothing was sent: spinney's log says why (a disk that is full or \
         broken, or an internal error); it has to be restarted when that is mended"
    )]
    ForestUnavailable {
        /// Its name.
        forest: String,
    },
    /// Redis does not respond.
    #[error(
        "the forest '{forest}' cannot be reached where it is kept and nothing was sent: retry later; spinney's log \
         says why"
    )]
    ForestAway {
        /// Its name.
        forest: String,
    },
    /// Redis is full.
    #[error(
        "the forest '{forest}' has no room where it is kept and nothing was sent: retry later; its Redis has as much \
         memory as it may use (maxmemory)"
    )]
    ForestFull {
        /// Its name.
        forest: String,
    },
    /// Other processes were faster again and again.
    #[error(
        "other processes write the same documents to the forest '{forest}' all the time and nothing was sent: retry \
         later"
    )]
    ForestBusy {
        /// Its name.
        forest: String,
    },
    /// The forest does not support the operation.
    #[error(
        "the forest '{forest}' cannot be used in this way and nothing was sent: spinney's log says why, and what to do"
    )]
    ForestUnsupported {
        /// Its name.
        forest: String,
    },
    /// Nothing was sent.
    #[error("no cluster node could be reached, nothing was sent: {0}")]
    Unreachable(String),
    /// The service in front of the cluster does not admit spinney.
    #[error("spinney is not admitted to the cluster, nothing was carried out: {0}")]
    NotAdmitted(String),
    /// Somebody tries passwords.
    #[error("too many passwords wait to be checked: retry later")]
    DoorBusy,
    /// Its address cannot be signed.
    #[error("the request cannot be signed for AWS: {0}")]
    NotSignable(&'static str),
    /// A page of another site, or one that has taken this address for its own.
    #[error("a browser sends this for a page of another site, and spinney signs requests in its own name: {0}")]
    OtherSite(&'static str),
    /// The outcome of the request is unknown.
    #[error("the connection to the cluster broke after the request had been sent, its outcome is not known: {0}")]
    Broken(String),
    /// There are as many connections as may be.
    #[error(
        "spinney has as many connections as it takes: retry later, close connections that are not needed, or raise \
         --max-connections"
    )]
    TooManyConnections,
    /// The cluster has not begun to respond; the outcome is indeterminate.
    #[error(
        "the cluster has not answered for {0} seconds, the outcome of the request is not known: look at the cluster, \
         or raise --upstream-timeout"
    )]
    UpstreamTimeout(u64),
    /// The response comes from no search cluster, or from a proxy in between.
    #[error(
        "what answers as the cluster is none: its answer to {0} is not one of OpenSearch or Elasticsearch; correct \
         --upstream, or what stands between spinney and the cluster"
    )]
    NotTheCluster(&'static str),
    /// The client has stopped sending for this many seconds.
    #[error("no byte of the request body came for {0} seconds: send it without pauses")]
    BodyTimeout(u64),
    /// The client sends too slowly for the part of the budget that it holds.
    #[error("only {received} bytes of the request body came in {seconds} seconds: send it faster, or in smaller bulks")]
    BodyTooSlow {
        /// Bytes so far.
        received: usize,
        /// Seconds since the head of the request.
        seconds: u64,
    },
    /// The body was not complete in time.
    #[error("the request body was not complete after {0} seconds: send smaller bulks, or raise --body-timeout")]
    BodyTooLong(u64),
    /// The body of a request to an endpoint of our own is too long.
    #[error(
        "the request body has more than {0} bytes, counted without its encoding, and this endpoint of spinney takes no \
         more: send less of it"
    )]
    LongBody(usize),
    /// The body broke off or could not be decoded.
    #[error("the request body could not be read: {0}")]
    BadBody(String),
    /// A stamp would break the signature.
    #[error(
        "the request is signed over its body (AWS Signature Version 4), which the stamp changes: sign with \
         x-amz-content-sha256: UNSIGNED-PAYLOAD, or write to an index outside spinney's routes"
    )]
    SignedBody,
    /// A write that cannot be stamped, where the operator wants none to pass.
    #[error(
        "the write cannot be stamped ({0}), and --unstamped refuse lets none pass: send JSON, plain or in gzip, to \
         _bulk or _doc"
    )]
    Unstamped(String),
    /// No endpoint has this path under `/_spinney`.
    #[error(
        "spinney has no endpoint {0}: see GET /_spinney/_stats, _health, _ready and _metrics, POST \
         /_spinney/INDEX/_check, _groups, _merge, _split and _pin, and GET /_spinney/INDEX/_similar/ID, _roots/ROOT, \
         _overrides and _merges"
    )]
    NoEndpoint(String),
    /// The listener of probes and monitors has nothing else.
    #[error(
        "{0} is not served on this address: here are GET /metrics, GET /_spinney/_health, _ready, _stats and _metrics, \
         and POST /_spinney/_reload; send everything else to the address of --listen"
    )]
    NotAdmin(String),
    /// An endpoint that the main listener does not have.
    #[error("spinney reads its configuration again at the address of --admin-listen alone: ask there, or send SIGHUP")]
    OnlyAdmin,
    /// The configuration was read again, and is wrong, or cannot change at run time.
    #[error("the configuration was read again, nothing changes: {0}")]
    NotReloaded(String),
    /// An endpoint that shows something.
    #[error("this endpoint of spinney takes GET only")]
    GetOnly,
    /// An endpoint for readers.
    #[error("this endpoint of spinney takes GET and POST only")]
    GetOrPostOnly,
    /// An endpoint that reads a document.
    #[error("this endpoint of spinney takes POST only, with JSON as its body")]
    PostOnly,
    /// An endpoint that takes something back.
    #[error("this endpoint of spinney takes DELETE only")]
    DeleteOnly,
    /// `CONNECT`.
    #[error("spinney opens no tunnels: send requests for the cluster to spinney itself")]
    NoTunnel,
    /// A pattern, a list, or an index of another cluster.
    #[error("{0} is not the name of one index: name it, or its alias, as a writer would")]
    NotOneIndex(String),
    /// No route matches the index; the text names it.
    #[error("{0}")]
    NoRoute(String),
    /// The body of a request to an endpoint of our own cannot be read.
    #[error(
        "unsupported Content-Type or Content-Encoding: send application/json, with gzip, deflate or without any \
         encoding"
    )]
    UnsupportedBody,
    /// The body of a request to an endpoint of our own is not one document.
    #[error("{0}: send one JSON object, as it would be indexed")]
    BadDocument(String),
    /// The request of a reader is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The requested item does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The request is not supported here.
    #[error("{0}")]
    NotForReaders(String),
    /// The cluster answered for a part of the index.
    #[error("{0}")]
    PartialSearch(String),
    /// The caller may not read the index.
    #[error("the cluster shows these credentials nothing of {0}: ask as somebody who may search it")]
    NotShown(String),
    /// The caller has shown nothing that the file of callers has.
    #[error("show who you are: the user and password (Basic), or the token (Bearer), of a caller of this spinney")]
    NoCredentials,
    /// Nobody may change groups.
    #[error("groups are not changed by hand here (--overrides off)")]
    NoOverrides,
    /// A bug.
    #[error("spinney failed on this request, nothing was sent; its log says more")]
    Internal,
}

impl ProxyError {
    /// The status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::OverBudget { .. } | Self::OverShare { .. } | Self::AnswersNotTaken { .. } | Self::DoorBusy => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::LargerThanBudget { .. }
            | Self::LargerThanShare { .. }
            | Self::LongBody(_)
            | Self::StampOverLimit { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Stopping
            | Self::TooManyConnections
            | Self::ForestUnavailable { .. }
            | Self::ForestAway { .. }
            | Self::ForestFull { .. }
            | Self::ForestBusy { .. }
            | Self::ForestUnsupported { .. }
            | Self::PartialSearch(_)
            | Self::NotAdmitted(_)
            | Self::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) | Self::NotTheCluster(_) => StatusCode::BAD_GATEWAY,
            Self::UpstreamTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::BodyTimeout(_) | Self::BodyTooSlow { .. } | Self::BodyTooLong(_) => StatusCode::REQUEST_TIMEOUT,
            Self::BadBody(_)
            | Self::NotSignable(_)
            | Self::SignedBody
            | Self::Unstamped(_)
            | Self::NotOneIndex(_)
            | Self::BadDocument(_)
            | Self::NotReloaded(_)
            | Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NoEndpoint(_) | Self::NotAdmin(_) | Self::OnlyAdmin | Self::NoRoute(_) | Self::NotFound(_) => {
                StatusCode::NOT_FOUND
            }
            Self::GetOnly | Self::GetOrPostOnly | Self::PostOnly | Self::DeleteOnly | Self::NoTunnel => {
                StatusCode::METHOD_NOT_ALLOWED
            }
            // As the servers answer a content type that they do not take.
            Self::UnsupportedBody => StatusCode::NOT_ACCEPTABLE,
            Self::NotShown(_) | Self::NotForReaders(_) | Self::NoOverrides | Self::OtherSite(_) => {
                StatusCode::FORBIDDEN
            }
            Self::NoCredentials => StatusCode::UNAUTHORIZED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The `type` of the error, for programs.
    fn kind(&self) -> &'static str {
        match self {
            Self::OverBudget { .. } | Self::OverShare { .. } | Self::AnswersNotTaken { .. } => {
                "spinney_over_budget_exception"
            }
            Self::LargerThanBudget { .. }
            | Self::LargerThanShare { .. }
            | Self::LongBody(_)
            | Self::StampOverLimit { .. } => "spinney_too_large_exception",
            Self::TooManyConnections => "spinney_too_many_connections_exception",
            Self::Stopping => "spinney_stopping_exception",
            Self::ForestUnavailable { .. }
            | Self::ForestAway { .. }
            | Self::ForestFull { .. }
            | Self::ForestBusy { .. }
            | Self::ForestUnsupported { .. } => "spinney_forest_unavailable_exception",
            Self::Unreachable(_) => "spinney_upstream_unreachable_exception",
            Self::Broken(_) => "spinney_upstream_broken_exception",
            Self::UpstreamTimeout(_) => "spinney_upstream_timeout_exception",
            Self::NotTheCluster(_) => "spinney_upstream_answer_exception",
            Self::BodyTimeout(_)
            | Self::BodyTooSlow { .. }
            | Self::BodyTooLong(_)
            | Self::BadBody(_)
            | Self::UnsupportedBody
            | Self::BadDocument(_) => "spinney_body_exception",
            Self::NotOneIndex(_) => "spinney_index_name_exception",
            Self::NoRoute(_) => "spinney_no_route_exception",
            Self::NotShown(_) | Self::NotForReaders(_) | Self::NoOverrides | Self::OtherSite(_) => {
                "spinney_forbidden_exception"
            }
            Self::NoCredentials | Self::DoorBusy => "spinney_unauthorized_exception",
            Self::NotAdmitted(_) => "spinney_upstream_auth_exception",
            Self::BadRequest(_) | Self::NotSignable(_) | Self::NotReloaded(_) => "spinney_request_exception",
            Self::NotFound(_) => "spinney_not_found_exception",
            Self::PartialSearch(_) => "spinney_partial_search_exception",
            Self::SignedBody => "spinney_signed_body_exception",
            Self::Unstamped(_) => "spinney_unstamped_exception",
            Self::NoEndpoint(_)
            | Self::NotAdmin(_)
            | Self::OnlyAdmin
            | Self::GetOnly
            | Self::GetOrPostOnly
            | Self::PostOnly
            | Self::DeleteOnly
            | Self::NoTunnel => "spinney_no_endpoint_exception",
            Self::Internal => "spinney_internal_exception",
        }
    }

    /// Whether the same request can succeed in a moment. Not so with a forest that is out of service: only a restart
    /// helps, and writers that keep retrying would hide it.
    fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::OverBudget { .. }
                | Self::OverShare { .. }
                | Self::AnswersNotTaken { .. }
                | Self::TooManyConnections
                | Self::Stopping
                | Self::ForestAway { .. }
                | Self::ForestFull { .. }
                | Self::ForestBusy { .. }
                | Self::PartialSearch(_)
                | Self::DoorBusy
                | Self::NotAdmitted(_)
                | Self::Unreachable(_)
        )
    }

    /// The error in the cluster's shape; with `Retry-After` where a retry can help.
    pub(crate) fn response(&self) -> Response<Body> {
        let (kind, reason, status) = (self.kind(), self.to_string(), self.status());
        let mut response = json(
            status,
            &serde_json::json!({
                "error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason},
                "status": status.as_u16(),
            }),
        );
        let allowed = match self {
            Self::GetOnly => Some("GET, HEAD"),
            Self::GetOrPostOnly => Some("GET, POST"),
            Self::PostOnly => Some("POST"),
            Self::DeleteOnly => Some("DELETE"),
            Self::NoTunnel => Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
            _ => None,
        };
        let headers = response.headers_mut();
        if let Some(allowed) = allowed {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        if *self == Self::NoCredentials {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"spinney\", charset=\"UTF-8\""));
        }
        if self.is_temporary() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        let forest = || "news".to_owned();
        let passes = |error: ProxyError| {
            let response = error.response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
            response.headers().contains_key(RETRY_AFTER)
        };
        assert!(passes(ProxyError::ForestAway { forest: forest() }));
        assert!(passes(ProxyError::ForestFull { forest: forest() }));
        assert!(passes(ProxyError::ForestBusy { forest: forest() }));
        assert!(!passes(ProxyError::ForestUnsupported { forest: forest() }));
        let not_taken = ProxyError::AnswersNotTaken { used: 1, wanted: 2 };
        let response = not_taken.response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(response.headers().contains_key(RETRY_AFTER));
    }

    #[tokio::test]
    async fn a_forest_out_of_service_in_the_clusters_shape() {
        let error = ProxyError::ForestUnavailable { forest: "news".into() };
        let response = error.response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!response.headers().contains_key(RETRY_AFTER));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "type": "spinney_forest_unavailable_exception",
            "reason": error.to_string(),
        });
        assert_eq!(body["error"]["root_cause"][0], expected);
        assert_eq!(body["error"]["type"], expected["type"]);
        assert_eq!(body["status"], 503);
    }
}
