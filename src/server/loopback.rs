//! Loopback: an in-memory connection of spinney to itself, for its own writes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;

use super::{Purpose, accept};
use crate::backfill::BulkSink;
use crate::cluster::describe;
use crate::cluster::operator::OperatorError;
use crate::http::headers::BACKFILL;
use crate::http::{ClientAddress, full};
use crate::state::AppState;

/// Capacity of the pipe in bytes.
const PIPE: usize = 256 << 10;

/// Client of this process with the credentials of the service user.
pub(super) struct Loopback {
    pub(super) state: Arc<AppState>,
    pub(super) credentials: Option<HeaderValue>,
}

impl BulkSink for Loopback {
    async fn bulk(&self, known_as: &HeaderValue, lines: Bytes) -> Result<Bytes, OperatorError> {
        let failed =
            |error: hyper::Error| OperatorError::Unreachable { url: "spinney itself".into(), reason: describe(&error) };
        let (near, far) = tokio::io::duplex(PIPE);
        let client = ClientAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
        tokio::spawn(accept::serve_connection(TokioIo::new(far), client, Purpose::Loopback, self.state.clone()));
        let connecting = hyper::client::conn::http1::handshake(TokioIo::new(near));
        let (mut sender, connection) = connecting.await.map_err(failed)?;
        tokio::spawn(connection);
        let mut request = Request::new(full(lines));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = hyper::Uri::from_static("/_bulk");
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("spinney"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        headers.insert(BACKFILL, known_as.clone());
        if let Some(credentials) = &self.credentials {
            headers.insert(AUTHORIZATION, credentials.clone());
        }
        let response = sender.send_request(request).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let answer = body.collect().await.map_err(failed)?.to_bytes();
        if head.status.is_success() {
            return Ok(answer);
        }
        Err(OperatorError::Refused {
            status: head.status.as_u16(),
            request: "POST /_bulk".into(),
            answer: String::from_utf8_lossy(&answer).into_owned(),
        })
    }
}
