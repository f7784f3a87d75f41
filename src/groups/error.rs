//! Errors of readers.

use std::time::Duration;

use bytes::Bytes;
use hyper::Response;

use super::request::RequestError;
use crate::cluster::ClusterError;
use crate::engine::Unavailable;
use crate::http::{Body, ProxyError, full};

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// Something is wrong with the question.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The cluster's refusal.
    #[error("the cluster refuses the search with {}", .0.status())]
    Refused(Box<Response<Bytes>>),
    /// The cluster did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A forest is unavailable.
    #[error(transparent)]
    Forest(#[from] Unavailable),
    /// Not every shard answered in time.
    #[error(
        "the cluster searched only a part of the index in time, which gives no exact groups: retry later, or narrow \
         the query"
    )]
    Partial,
    /// All searches together took too long.
    #[error("the cluster has not answered in time")]
    TimedOut(Duration),
    /// The response is not a search server's.
    #[error("what answers as the cluster is none")]
    NotTheCluster,
    /// The key is mapped as no number: documents cannot be grouped by it.
    #[error(
        "index {index} maps {field} as {mapped}, and groups are read by it as long: a mapping cannot be changed, so \
         run spinney setup for the next index, and copy the documents there with _reindex"
    )]
    KeyMapping {
        /// The index.
        index: String,
        /// The field.
        field: String,
        /// Its type.
        mapped: String,
    },
    /// More documents than groups are counted of.
    #[error(
        "sorting groups by {sort} takes a query with {limit} documents at most, and this one has more: narrow it, or \
         sort by a field or _score"
    )]
    TooMany {
        /// How they were to be sorted.
        sort: &'static str,
        /// The limit in documents.
        limit: u64,
    },
    /// More documents in an index without an order of its groups.
    #[error(
        "sorting groups by similar_count under a query of more than {few} documents takes an index of {limit} at \
         most where its index of roots is missing, or is not used (\"exact\", a pattern, --restricted-readers exact); \
         this one has more: narrow the query, or sort by a field or _score"
    )]
    NoOrder {
        /// The limit in documents.
        limit: u64,
        /// Documents under the query for which there is none.
        few: u64,
    },
    /// The order of the whole index is not available to readers who may not see all of it.
    #[error(
        "groups are not sorted by similar_count here, since readers may not see every document (--restricted-readers \
         refuse): sort by matching_count, a field or _score"
    )]
    Restricted,
    /// There is no index of roots, or none that the caller may read.
    #[error("there is no index of roots")]
    NoRoots,
    /// The field of an option cannot be aggregated.
    #[error(
        "{option} {field} is mapped as text here, which the cluster cannot count, and no keyword {field}.keyword \
         stands beside it in all of these indices: name a field of the type keyword"
    )]
    FieldIsText {
        /// The option that names it.
        option: &'static str,
        /// Its name.
        field: String,
    },
    /// The document or group does not exist or is not visible to the caller.
    #[error("{0}")]
    NotFound(String),
}

impl ReadError {
    /// The response for the client: the cluster's own where there is one.
    ///
    /// # Errors
    /// When the error is spinney's own, or there was no response.
    pub(crate) fn into_response(self) -> Result<Response<Body>, ProxyError> {
        Err(match self {
            ReadError::Refused(answer) => return Ok(answer.map(full)),
            ReadError::Cluster(error) => error.into(),
            ReadError::TimedOut(after) => ProxyError::UpstreamTimeout(after.as_secs()),
            ReadError::NotTheCluster => ProxyError::NotTheCluster("POST /INDEX/_search"),
            ReadError::Partial => ProxyError::PartialSearch(self.to_string()),
            ReadError::Restricted => ProxyError::NotForReaders(self.to_string()),
            ReadError::NotFound(reason) => ProxyError::NotFound(reason),
            ReadError::Request(_)
            | ReadError::TooMany { .. }
            | ReadError::NoOrder { .. }
            | ReadError::FieldIsText { .. }
            | ReadError::KeyMapping { .. } => ProxyError::BadRequest(self.to_string()),
            // The first is logged where forests are asked; the second is always handled earlier.
            ReadError::Forest(_) | ReadError::NoRoots => ProxyError::Internal,
        })
    }
}
