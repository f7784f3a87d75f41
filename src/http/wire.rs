//! Types shared by both directions of a connection.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::http::Extensions;

/// A body in either direction.
pub(crate) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;
/// Why a body broke off.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is already here.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The address that a request came from. The server notes it among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// As it was noted; `::` if it was not.
    pub(crate) fn of(extensions: &Extensions) -> ClientAddress {
        let unknown = ClientAddress(Ipv6Addr::UNSPECIFIED.into());
        extensions.get().copied().unwrap_or(unknown)
    }
}

/// A client's failure in the middle of a body that is being forwarded, as opposed to a failure of the cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientBodyError {
    /// It broke off, or broke a rule.
    #[error("{0}")]
    Broken(String),
    /// It sent nothing within this time.
    #[error("no byte came for {} seconds", .0.as_secs())]
    Silent(Duration),
}
