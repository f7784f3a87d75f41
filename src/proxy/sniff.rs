//! Opt-in: sniffing clients read the nodes' addresses from `/_nodes/…/http` and would then bypass spinney. Their
//! `publish_address` is replaced by spinney's own; nothing else in the answer changes.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::ACCEPT_ENCODING;
use hyper::{Method, Request, Response};

use crate::http::headers::set_length;
use crate::http::{Body, ProxyError, full};
use crate::state::AppState;

/// Most bytes of a response: more than thousands of nodes need.
const LIMIT: usize = 64 << 20;

const KEY: &[u8] = b"\"publish_address\"";

/// Whether this is a sniffing request, by which clients discover nodes.
pub(super) fn asks_for_addresses(method: &Method, path: &str) -> bool {
    let mut segments = path.trim_matches('/').split('/');
    method == Method::GET
        && segments.next() == Some("_nodes")
        && segments.next_back().is_some_and(|last| last.split(',').any(|metric| metric == "http"))
}

/// Relays the request, and replaces the addresses in the response.
///
/// # Errors
/// When the cluster gives no answer, or too long a one.
pub(super) async fn handle(
    state: &AppState,
    mut request: Request<Incoming>,
    address: &str,
) -> Result<Response<Body>, ProxyError> {
    request.headers_mut().remove(ACCEPT_ENCODING);
    let request = super::outgoing(state, request).await?;
    let (mut parts, body) = state.cluster.forward(request).await?.into_parts();
    let body = Limited::new(body, LIMIT).collect().await.map_err(|e| ProxyError::Broken(e.to_string()))?.to_bytes();
    let body = replace(&body, address);
    set_length(&mut parts.headers, body.len() as u64);
    Ok(Response::from_parts(parts, full(body)))
}

/// Replaces the string value of every `"publish_address"` member. The answer holds no text of users, and a value
/// that looks like the key would be escaped, so that finding the key is enough.
fn replace(body: &[u8], address: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(body.len() + 64);
    let mut rest = body;
    while let Some(at) = memchr::memmem::find(rest, KEY) {
        let (before, after) = rest.split_at(at + KEY.len());
        out.extend_from_slice(before);
        rest = after;
        let blanks = after.iter().take_while(|b| b.is_ascii_whitespace() || **b == b':').count();
        let value = after.get(blanks..).unwrap_or_default();
        if value.first() == Some(&b'"')
            && let Some(end) = memchr::memchr(b'"', value.get(1..).unwrap_or_default())
        {
            out.extend_from_slice(after.get(..blanks).unwrap_or_default());
            out.extend_from_slice(b"\"");
            out.extend_from_slice(address.as_bytes());
            out.extend_from_slice(b"\"");
            rest = value.get(end + 2..).unwrap_or_default();
        }
    }
    out.extend_from_slice(rest);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_replaced() {
        let body = br#"{"nodes":{"a":{"name":"x","http":{"publish_address" : "127.0.0.1:9200","max":1}},"b":{"http":{"publish_address":"h/10.0.0.1:9200"}}}}"#;
        let replaced = replace(body, "proxy:9201");
        assert_eq!(
            std::str::from_utf8(&replaced).unwrap(),
            r#"{"nodes":{"a":{"name":"x","http":{"publish_address" : "proxy:9201","max":1}},"b":{"http":{"publish_address":"proxy:9201"}}}}"#
        );
        assert_eq!(&replace(b"{}", "x")[..], b"{}");
        assert_eq!(&replace(b"{\"publish_address\":", "x")[..], b"{\"publish_address\":");
    }

    #[test]
    fn the_paths_that_clients_sniff() {
        for yes in ["/_nodes/_all/http", "/_nodes/http", "/_nodes/_local/http/", "/_nodes/a,b/os,http"] {
            assert!(asks_for_addresses(&Method::GET, yes), "{yes}");
        }
        for no in ["/_nodes", "/_nodes/stats", "/news/http", "/_nodes/_all/https"] {
            assert!(!asks_for_addresses(&Method::GET, no), "{no}");
        }
    }
}
