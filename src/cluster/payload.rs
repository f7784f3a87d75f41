//! Bodies that a signature covers: their hash is known before they are sent, and they can be sent again.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use sha2::{Digest, Sha256};

use super::ClusterError;
use crate::http::{Body, BoxError, ProxyError, full};

/// Puts the body of a request among its extensions, unless its payload is there.
///
/// # Errors
/// Its client has broken it off.
pub(super) async fn attach(request: Request<Body>) -> Result<Request<Body>, ClusterError> {
    let (mut head, body) = request.into_parts();
    let payload = match head.extensions.get::<Payload>() {
        Some(payload) => payload.clone(),
        None => {
            let broken = |error: BoxError| ClusterError::ClientBody(ProxyError::BadBody(error.to_string()));
            Payload::of(body.collect().await.map_err(broken)?.to_bytes())
        }
    };
    let body = payload.body();
    head.extensions.insert(payload);
    Ok(Request::from_parts(head, body))
}

/// A body that can be made as often as it has to be sent.
#[derive(Clone)]
pub(crate) struct Payload {
    sha256: String,
    make: Arc<dyn Fn() -> Body + Send + Sync>,
}

impl Payload {
    /// A body in chunks, of which `make` gives the same each time. Reads all of them once.
    pub(crate) fn new(chunks: impl Iterator<Item = Bytes>, make: impl Fn() -> Body + Send + Sync + 'static) -> Payload {
        let mut hash = Sha256::new();
        chunks.for_each(|chunk| hash.update(&chunk));
        let sha256 = hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Payload { sha256, make: Arc::new(make) }
    }

    /// A short body.
    pub(crate) fn of(bytes: Bytes) -> Payload {
        Payload::new(std::iter::once(bytes.clone()), move || full(bytes.clone()))
    }

    /// SHA-256 of its bytes in lowercase hex.
    #[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "nothing is signed"))]
    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The body.
    pub(super) fn body(&self) -> Body {
        (self.make)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_payload_is_the_same_each_time() {
        // FIPS 180-2, appendix B.1, and the hash of nothing.
        const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let chunks = [Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(b"bc")];
        let payload = Payload::new(chunks.into_iter(), || full("abc"));
        assert_eq!(payload.sha256, ABC);
        for _ in 0..2 {
            assert_eq!(payload.body().collect().await.unwrap().to_bytes(), "abc");
        }
        assert_eq!(Payload::of(Bytes::new()).sha256, NOTHING);
        let attached = attach(Request::new(full("abc"))).await.unwrap();
        assert_eq!(attached.extensions().get::<Payload>().unwrap().sha256, ABC);
        assert_eq!(attached.into_body().collect().await.unwrap().to_bytes(), "abc");
    }
}
