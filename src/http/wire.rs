//! What goes over the wire, in either direction.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};

/// A body in either direction.
pub(crate) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;
/// Why a body broke off.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is already here.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}
