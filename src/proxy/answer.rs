//! Answers of our own, in the cluster's shape.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

/// What goes over the wire in either direction.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is already here.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Why spinney itself refuses a request, or could not pass it on. `Display` is the reason that the client sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "spinney holds {used} of {budget} bytes of write requests in flight and {wanted} more do not fit: retry later, or raise --budget"
    )]
    OverBudget {
        used: usize,
        budget: usize,
        wanted: usize,
    },
    #[error(
        "the request needs {wanted} bytes and spinney's whole budget is {budget}: send smaller bulks, or raise --budget"
    )]
    LargerThanBudget { wanted: usize, budget: usize },
    #[error(
        "the stamped body has {stamped} bytes and the cluster takes at most {limit} (http.max_content_length): send smaller bulks"
    )]
    StampOverLimit { stamped: u64, limit: u64 },
    #[error("spinney is stopping: send the request again in a moment")]
    Stopping,
    #[error("no cluster node could be reached, nothing was sent: {0}")]
    Unreachable(String),
    #[error(
        "the connection to the cluster broke after the request had been sent, its outcome is not known: {0}"
    )]
    Broken(String),
    #[error("no byte of the request body came for {0} seconds")]
    SlowBody(u64),
    #[error("the request body could not be read: {0}")]
    BadBody(String),
    #[error(
        "the request is signed over its body (AWS Signature Version 4), which the stamp changes: sign with x-amz-content-sha256: UNSIGNED-PAYLOAD, or write to an index outside spinney's routes"
    )]
    Signed,
    #[error(
        "spinney has no endpoint {0}: see GET /_spinney/_stats, _health, _ready and _metrics, and POST /_spinney/INDEX/_check"
    )]
    NoEndpoint(String),
    #[error("this endpoint of spinney takes GET only")]
    GetOnly,
    #[error("this endpoint of spinney takes POST only, with one document as its body")]
    PostOnly,
    #[error("{0} is not the name of one index: name it, or its alias, as a writer would")]
    NotOneIndex(String),
    #[error("{0}")]
    NoRoute(String),
    #[error(
        "the body is not JSON, or is packed otherwise than with gzip: send Content-Type: application/json"
    )]
    NotJson,
    #[error("{0}: send one JSON object, as it would be indexed")]
    BadDocument(String),
    #[error(
        "the cluster shows these credentials nothing of {0}: ask as somebody who may search it"
    )]
    NotShown(String),
    #[error("spinney failed on this request, nothing was sent; its log says more")]
    Internal,
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::OverBudget { .. } => StatusCode::TOO_MANY_REQUESTS,
            Refusal::LargerThanBudget { .. } | Refusal::StampOverLimit { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Refusal::Stopping | Refusal::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Broken(_) => StatusCode::BAD_GATEWAY,
            Refusal::SlowBody(_) => StatusCode::REQUEST_TIMEOUT,
            Refusal::BadBody(_)
            | Refusal::Signed
            | Refusal::NotOneIndex(_)
            | Refusal::BadDocument(_) => StatusCode::BAD_REQUEST,
            Refusal::NoEndpoint(_) | Refusal::NoRoute(_) => StatusCode::NOT_FOUND,
            Refusal::GetOnly | Refusal::PostOnly => StatusCode::METHOD_NOT_ALLOWED,
            // As the servers answer a content type that they do not take.
            Refusal::NotJson => StatusCode::NOT_ACCEPTABLE,
            Refusal::NotShown(_) => StatusCode::FORBIDDEN,
            Refusal::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Refusal::OverBudget { .. } => "spinney_over_budget_exception",
            Refusal::LargerThanBudget { .. } | Refusal::StampOverLimit { .. } => {
                "spinney_too_large_exception"
            }
            Refusal::Stopping => "spinney_stopping_exception",
            Refusal::Unreachable(_) => "spinney_upstream_unreachable_exception",
            Refusal::Broken(_) => "spinney_upstream_broken_exception",
            Refusal::SlowBody(_)
            | Refusal::BadBody(_)
            | Refusal::NotJson
            | Refusal::BadDocument(_) => "spinney_body_exception",
            Refusal::NotOneIndex(_) => "spinney_index_name_exception",
            Refusal::NoRoute(_) => "spinney_no_route_exception",
            Refusal::NotShown(_) => "spinney_forbidden_exception",
            Refusal::Signed => "spinney_signed_body_exception",
            Refusal::NoEndpoint(_) | Refusal::GetOnly | Refusal::PostOnly => {
                "spinney_no_endpoint_exception"
            }
            Refusal::Internal => "spinney_internal_exception",
        }
    }

    /// The refusal in the cluster's error shape; with `Retry-After` where a retry can help.
    pub fn response(&self) -> Response<Body> {
        let (kind, reason, status) = (self.kind(), self.to_string(), self.status());
        let mut response = json(
            status,
            &serde_json::json!({
                "error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason},
                "status": status.as_u16(),
            }),
        );
        let allowed = match self {
            Refusal::GetOnly => Some("GET, HEAD"),
            Refusal::PostOnly => Some("POST"),
            _ => None,
        };
        if let Some(allowed) = allowed {
            let headers = response.headers_mut();
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        if matches!(
            self,
            Refusal::OverBudget { .. } | Refusal::Stopping | Refusal::Unreachable(_)
        ) {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A JSON answer.
pub fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    typed(status, "application/json; charset=UTF-8", value.to_string())
}

/// An answer of the given content type.
pub fn typed(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
