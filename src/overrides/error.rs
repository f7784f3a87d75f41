//! Errors of overrides.

use bytes::Bytes;
use hyper::Response;

use crate::access::AccessError;
use crate::http::{Body, ProxyError, full};

/// Why an override was not added or undone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OverrideFault {
    /// The cluster's refusal.
    #[error("the cluster refuses it with {}", .0.status())]
    Refused(Box<Response<Bytes>>),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] ProxyError),
}

impl From<AccessError> for OverrideFault {
    fn from(error: AccessError) -> OverrideFault {
        match error {
            AccessError::Refused(answer) => OverrideFault::Refused(answer),
            AccessError::Other(error) => OverrideFault::Other(error),
        }
    }
}

impl OverrideFault {
    /// The request is invalid.
    pub(crate) fn bad(reason: &str) -> OverrideFault {
        ProxyError::BadRequest(reason.to_owned()).into()
    }

    /// The response for the client: the cluster's own where there is one.
    ///
    /// # Errors
    /// When the error is spinney's own.
    pub(crate) fn into_response(self) -> Result<Response<Body>, ProxyError> {
        match self {
            OverrideFault::Refused(answer) => Ok(answer.map(full)),
            OverrideFault::Other(error) => Err(error),
        }
    }
}
