//! Why something could not be counted.

use crate::cluster::operator::OperatorError;

/// Why a count failed. Nothing is lost: the groups stay dirty.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CountError {
    /// The cluster refused a request or was not reached.
    #[error(transparent)]
    Cluster(#[from] OperatorError),
    /// The cluster did not answer in time.
    #[error("the cluster did not answer {0} in time")]
    TimedOut(String),
    /// The response does not have the expected form.
    #[error("the cluster's answer to {request} is not understood: {what}")]
    NotUnderstood {
        /// Method and path.
        request: String,
        /// The fault.
        what: String,
    },
    /// Some entries were not written.
    #[error("the cluster refused to write an entry ({status}): {reason}")]
    Entry {
        /// HTTP status of the entry.
        status: u64,
        /// The cluster's reason.
        reason: String,
    },
}

/// The kind of a failure; of several, the greatest is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// The index is missing.
    Missing,
    /// The cluster is away, or has too much to do.
    Away,
    /// Anything else.
    Other,
    /// The cluster's user may not do it.
    Denied,
}

impl CountError {
    /// The kind of this failure.
    pub(crate) fn kind(&self) -> Failure {
        match self {
            CountError::Cluster(OperatorError::Refused { status, .. }) => match status {
                401 | 403 => Failure::Denied,
                404 => Failure::Missing,
                408 | 429 | 502..=504 => Failure::Away,
                _ => Failure::Other,
            },
            CountError::Cluster(OperatorError::Unreachable { .. }) | CountError::TimedOut(_) => Failure::Away,
            CountError::Entry { status, .. } => match status {
                401 | 403 => Failure::Denied,
                429 | 502..=504 => Failure::Away,
                _ => Failure::Other,
            },
            CountError::Cluster(_) | CountError::NotUnderstood { .. } => Failure::Other,
        }
    }

    /// Whether the response would have exceeded the limit of buckets.
    pub(super) fn is_too_many_buckets(&self) -> bool {
        let CountError::Cluster(OperatorError::Refused { answer, .. }) = self else {
            return false;
        };
        answer.contains("too_many_buckets")
    }
}
