//! Where a backfill writes: a spinney over the network (the command), or this process (a sweep).

use bytes::Bytes;
use hyper::header::HeaderValue;

use crate::cluster::operator::{Operator, OperatorError};
use crate::http::headers::BACKFILL;

/// Accepts bulks of a backfill, and stamps their documents.
pub(crate) trait BulkSink: Sync {
    /// Sends a bulk of stored documents; `known_as`: the names by which routes match their indices. Returns the
    /// response's body.
    ///
    /// # Errors
    /// If there is no response, or the bulk is refused as a whole.
    fn bulk(&self, known_as: &HeaderValue, lines: Bytes) -> impl Future<Output = Result<Bytes, OperatorError>> + Send;
}

/// A spinney at a URL.
impl BulkSink for Operator {
    async fn bulk(&self, known_as: &HeaderValue, lines: Bytes) -> Result<Bytes, OperatorError> {
        let header = (BACKFILL, known_as.clone());
        self.send_lines_with("/_bulk", header, lines).await
    }
}
