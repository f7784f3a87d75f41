//! The way into spinney: over the network for a command, through memory for a spinney that looks after its own routes.

use bytes::Bytes;
use hyper::header::HeaderValue;

use crate::cluster::operator::{Operator, OperatorError};
use crate::http::headers::ADOPT;

/// Takes bulks, and stamps what they carry.
pub(crate) trait BulkSink: Sync {
    /// Sends a bulk of documents that are adopted, whose indices routes know by these names; the answer as it came.
    ///
    /// # Errors
    /// When nobody answers, or the bulk is refused as a whole.
    fn bulk(&self, known_as: &HeaderValue, lines: Bytes) -> impl Future<Output = Result<Bytes, OperatorError>> + Send;
}

/// A spinney at a URL.
pub(crate) struct HttpSink(pub(crate) Operator);

impl BulkSink for HttpSink {
    async fn bulk(&self, known_as: &HeaderValue, lines: Bytes) -> Result<Bytes, OperatorError> {
        let header = (ADOPT, known_as.clone());
        self.0.send_lines_with("/_bulk", header, lines).await
    }
}
