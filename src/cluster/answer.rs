//! Answers of the cluster, and the refusals of what stands in front of it.

use std::borrow::Cow;
use std::io::Read as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::{HeaderMap, Response};
use serde_json::Value;
use tokio::time::timeout;

use crate::http::BoxError;
use crate::http::headers::{Encoding, encoding};

/// Most bytes of a refusal that are read.
const REFUSAL_BYTES: usize = 64 << 10;

/// Longest wait for all of a refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(10);

/// Most characters of a refusal that are repeated.
const SHOWN: usize = 300;

/// The body of an answer.
pub(crate) enum AnswerBody {
    /// It is still coming.
    Streamed(Incoming),
    /// It was read.
    Read(Full<Bytes>),
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            AnswerBody::Streamed(body) => Pin::new(body).poll_frame(cx),
            AnswerBody::Read(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Streamed(body) => body.is_end_stream(),
            AnswerBody::Read(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Streamed(body) => body.size_hint(),
            AnswerBody::Read(body) => body.size_hint(),
        }
    }
}

/// Who has answered 403 to a signed request.
pub(super) enum Refusal {
    /// The cluster.
    Cluster(Response<AnswerBody>),
    /// It says nothing, as the answer to a HEAD.
    Silent(Response<AnswerBody>),
    /// The service in front of it, which does not admit the signature; with what may be shown of its reason: a
    /// signature that does not fit is answered with all that was signed, the session token too.
    Service(String),
}

impl Refusal {
    /// Reads a 403. One that is longer than any of the service's is the cluster's.
    ///
    /// # Errors
    /// It breaks off, or does not end.
    pub(super) async fn read(answer: Response<Incoming>) -> Result<Refusal, BoxError> {
        if answer.size_hint().lower() > REFUSAL_BYTES as u64 {
            return Ok(Refusal::Cluster(answer.map(AnswerBody::Streamed)));
        }
        let (head, body) = answer.into_parts();
        let body = timeout(REFUSAL_TIME, Limited::new(body, REFUSAL_BYTES).collect()).await??.to_bytes();
        let is_of_service = MARKS.iter().any(|mark| head.headers.contains_key(*mark));
        if let Some(reason) = reason_of_service(&plain(&head.headers, &body), is_of_service) {
            return Ok(Refusal::Service(reason));
        }
        let is_silent = body.is_empty();
        let answer = Response::from_parts(head, AnswerBody::Read(Full::new(body)));
        Ok(if is_silent { Refusal::Silent(answer) } else { Refusal::Cluster(answer) })
    }
}

/// Headers that the services put on their own errors.
const MARKS: [&str; 2] = ["x-amzn-errortype", "x-aoss-response-hint"];

/// The beginning of a body without its encoding.
fn plain<'b>(headers: &HeaderMap, body: &'b [u8]) -> Cow<'b, [u8]> {
    if encoding(headers) != Encoding::Gzip {
        return Cow::Borrowed(body);
    }
    let mut plain = Vec::new();
    // Of one that is damaged, what was read decides.
    let _ = MultiGzDecoder::new(body).take(REFUSAL_BYTES as u64).read_to_end(&mut plain);
    Cow::Owned(plain)
}

/// What the service in front of a cluster says; `None` if the cluster says it. All that the service says is an object
/// with a message and neither of the members that errors of clusters and their plugins have.
fn reason_of_service(body: &[u8], is_of_service: bool) -> Option<String> {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = ["message", "Message"].iter().find_map(|name| said[*name].as_str());
    let is_clusters = said.get("error").is_some() || said.get("status").is_some();
    if !is_of_service && (message.is_none() || is_clusters) {
        return None;
    }
    let message = message.or_else(|| said.pointer("/error/reason")?.as_str()).unwrap_or_default();
    // What was signed follows in lines of its own.
    Some(message.lines().next().unwrap_or_default().chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_told_from_the_cluster() {
        let of = |body: &str| reason_of_service(body.as_bytes(), false);
        // Answers of Amazon OpenSearch Service, from public bug reports.
        let mismatch = "{\"message\":\"The request signature we calculated does not match the signature you provided. \
                        Check your AWS Secret Access Key and signing method. Consult the service documentation for \
                        details.\\n\\nThe Canonical String for this request should have been\\n'GET\\n/\\n\\n\
                        x-amz-security-token:SECRET\\n'\"}";
        let said = of(mismatch).unwrap();
        assert!(said.starts_with("The request signature we calculated") && !said.contains("SECRET"), "{said}");
        let expired = "{\"message\":\"Signature expired: 20190429T000000Z is now earlier than 20190429T001000Z\"}";
        assert!(of(expired).unwrap().starts_with("Signature expired"));
        let user = "{\"Message\":\"User: anonymous is not authorized to perform: es:ESHttpGet\"}";
        assert!(of(user).unwrap().contains("es:ESHttpGet"));
        // Serverless: the shape of a cluster, and a header of its own.
        let serverless =
            "{\"status\":403,\"request-id\":\"1\",\"error\":{\"reason\":\"403 Forbidden\",\"type\":\"Forbidden\"}}";
        assert_eq!(reason_of_service(serverless.as_bytes(), true).as_deref(), Some("403 Forbidden"));
        assert_eq!(reason_of_service(b"", true).as_deref(), Some(""));
        assert_eq!(of(&format!("{{\"message\":\"{}\"}}", "x".repeat(SHOWN + 1))).unwrap().len(), SHOWN);
        for cluster in [
            "",
            "{\"error\":{\"type\":\"security_exception\",\"reason\":\"no permissions\"},\"status\":403}",
            "{\"error\":\"alias [a] missing\",\"status\":403}",
            // The security plugin, of a REST API.
            "{\"status\":\"FORBIDDEN\",\"message\":\"No permission to access REST API\"}",
            "---\nerror:\n  type: \"cluster_block_exception\"\nstatus: 403\n",
            "<html>403</html>",
            "403 Forbidden",
        ] {
            assert_eq!(of(cluster), None, "{cluster}");
        }
    }
}
