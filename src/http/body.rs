//! Request bodies that are read whole, held within the budget and decompressed within it.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;

use super::budget::{Budget, Reservation};
use super::error::ProxyError;

/// How long a client may pause inside a body while it holds a part of the budget.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the rest of a body that nobody wants is read.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(60);

/// A body of unknown length begins with this many bytes of the budget.
const FIRST_RESERVATION: usize = 64 << 10;

/// A whole body and its part of the budget.
pub(crate) struct Buffered {
    pub bytes: Bytes,
    pub reservation: Reservation,
}

/// Reads a body into one piece of memory, within the budget.
///
/// # Errors
/// When it does not fit, stops coming or breaks off. The rest of it is discarded.
pub(crate) async fn buffer(
    budget: &Arc<Budget>,
    body: Incoming,
    headers: &HeaderMap,
) -> Result<Buffered, ProxyError> {
    collect(budget, body).await.map_err(|(error, rest)| {
        discard(rest, headers);
        error
    })
}

/// Discards a body that nobody wants. Most clients write the whole of it before they read the answer: without a reader
/// they would see a broken pipe. Those that sent `Expect: 100-continue` and got no such answer have sent nothing.
pub(crate) fn discard(body: Incoming, headers: &HeaderMap) {
    if !headers.contains_key(EXPECT) && !body.is_end_stream() {
        tokio::spawn(read_to_end(body));
    }
}

/// Reads a body to its end, for a limited time, and keeps nothing of it.
pub(crate) async fn read_to_end(mut body: Incoming) {
    let all = async { while let Some(Ok(_)) = body.frame().await {} };
    // Whoever sends for longer than that has to live with the broken pipe.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, all).await;
}

async fn collect(
    budget: &Arc<Budget>,
    mut body: Incoming,
) -> Result<Buffered, (ProxyError, Incoming)> {
    let exact = body
        .size_hint()
        .exact()
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let first = exact.unwrap_or(FIRST_RESERVATION);
    let mut reservation = match budget.reserve(first) {
        Ok(reservation) => reservation,
        Err(error) => return Err((error, body)),
    };
    let mut bytes = Vec::with_capacity(first);
    loop {
        let error = match tokio::time::timeout(BODY_READ_TIMEOUT, body.frame()).await {
            Err(_) => ProxyError::BodyTimeout(BODY_READ_TIMEOUT.as_secs()),
            Ok(None) => {
                return Ok(Buffered {
                    bytes: bytes.into(),
                    reservation,
                });
            }
            Ok(Some(Err(error))) => ProxyError::BadBody(error.to_string()),
            Ok(Some(Ok(frame))) => {
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                match reservation.grow_to(bytes.len() + data.len()) {
                    Ok(()) => {
                        bytes.extend_from_slice(data);
                        continue;
                    }
                    Err(error) => error,
                }
            }
        };
        return Err((error, body));
    }
}

/// Why a body could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecompressError {
    /// The budget does not allow for what comes out.
    #[error(transparent)]
    Budget(#[from] ProxyError),
    /// It is no gzip.
    #[error("{0}")]
    Malformed(#[from] std::io::Error),
}

/// Decompresses gzip, several members too, within the budget.
///
/// # Errors
/// When it is no gzip, or what comes out does not fit.
pub(crate) fn decompress(
    raw: &[u8],
    reservation: &mut Reservation,
) -> Result<Bytes, DecompressError> {
    let mut decoder = MultiGzDecoder::new(raw);
    let mut plain = Vec::with_capacity(raw.len().saturating_mul(3).min(8 << 20));
    let mut piece = [0; 32 << 10];
    loop {
        let read = decoder.read(&mut piece)?;
        if read == 0 {
            return Ok(plain.into());
        }
        reservation.grow_to(raw.len() + plain.len() + read)?;
        plain.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_within_the_budget() {
        let budget = Budget::new(100_000);
        let two_members = [gzip(b"one "), gzip(b"two")].concat();
        let mut reservation = budget.reserve(two_members.len()).unwrap();
        let plain = decompress(&two_members, &mut reservation).unwrap();
        assert_eq!(plain, "one two");
        assert_eq!(budget.used(), two_members.len() + plain.len());

        let bomb = gzip(&vec![b' '; 1 << 20]);
        let result = decompress(&bomb, &mut budget.reserve(bomb.len()).unwrap());
        assert!(matches!(result, Err(DecompressError::Budget(_))));
        let result = decompress(b"no gzip", &mut reservation);
        assert!(matches!(result, Err(DecompressError::Malformed(_))));
    }
}
