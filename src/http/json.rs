//! Responses that are made here.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::wire::{Body, full};

/// The content type of JSON, as the servers write it.
pub(crate) const JSON: &str = "application/json; charset=UTF-8";

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    with_type(status, JSON, value.to_string())
}

/// A response of the given content type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
