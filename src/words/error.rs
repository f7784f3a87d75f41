//! Why nothing was said.

use bytes::Bytes;
use hyper::Response;

use crate::access::AccessError;
use crate::http::{Body, ProxyError, full};

/// Why nothing was said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SayError {
    /// The cluster refuses it: its own answer.
    #[error("the cluster refuses it with {}", .0.status())]
    Refused(Box<Response<Bytes>>),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] ProxyError),
}

impl From<AccessError> for SayError {
    fn from(error: AccessError) -> SayError {
        match error {
            AccessError::Refused(answer) => SayError::Refused(answer),
            AccessError::Other(error) => SayError::Other(error),
        }
    }
}

impl SayError {
    /// Something is wrong with what was asked for.
    pub(crate) fn bad(reason: &str) -> SayError {
        ProxyError::BadRequest(reason.to_owned()).into()
    }

    /// What the client sees: the cluster's own answer where there is one.
    ///
    /// # Errors
    /// When the error is spinney's own.
    pub(crate) fn into_response(self) -> Result<Response<Body>, ProxyError> {
        match self {
            SayError::Refused(answer) => Ok(answer.map(full)),
            SayError::Other(error) => Err(error),
        }
    }
}
