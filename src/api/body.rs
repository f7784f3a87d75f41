//! Bodies of requests to the own endpoints.

use bytes::Bytes;

use crate::http::ProxyError;
use crate::http::body::{self, Buffered, DecompressError};
use crate::http::budget::Reservation;
use crate::http::headers::Encoding;
use crate::state::AppState;

/// Decompresses a body where that blocks no connection.
///
/// # Errors
/// When it is no gzip, or does not fit into the budget.
pub(super) async fn decode(
    state: &AppState,
    buffered: Buffered,
    encoding: Encoding,
) -> Result<(Bytes, Reservation), ProxyError> {
    let Buffered {
        bytes: raw,
        mut reservation,
    } = buffered;
    if encoding != Encoding::Gzip {
        return Ok((raw, reservation));
    }
    let decompress = move || match body::decompress(&raw, &mut reservation) {
        Ok(plain) => Ok((plain, reservation)),
        Err(DecompressError::Budget(error)) => Err(error),
        Err(DecompressError::Malformed(error)) => Err(ProxyError::BadBody(error.to_string())),
    };
    let decompressed = state.engine.run(decompress).await;
    decompressed.map_err(|reason| state.engine_failed(&reason))?
}
