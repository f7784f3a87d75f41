//! Request bodies that are read whole: held within the budget, unpacked within the budget.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;

use super::answer::Refusal;
use super::budget::{Budget, Reservation};
use super::upstream::drain;

/// How long a client may pause inside a body while it holds a part of the budget.
const PAUSE: Duration = Duration::from_secs(60);

/// A body of unknown length begins with this many bytes of the budget.
const FIRST: usize = 64 << 10;

/// Reads a body into one piece of memory, within the budget.
///
/// # Errors
/// When it does not fit, stops coming or breaks off. What is left of it is read and forgotten.
pub async fn hold(
    budget: &Arc<Budget>,
    body: Incoming,
    headers: &HeaderMap,
) -> Result<(Bytes, Reservation), Refusal> {
    collect(budget, body).await.map_err(|(refusal, rest)| {
        forget(rest, headers);
        refusal
    })
}

/// Lets a body go that nobody wants. Most clients write the whole of it before they read the answer: without a reader
/// they would see a broken pipe. Those that asked for leave first have sent nothing.
pub fn forget(body: Incoming, headers: &HeaderMap) {
    if !headers.contains_key(EXPECT) && !body.is_end_stream() {
        tokio::spawn(drain(body));
    }
}

async fn collect(
    budget: &Arc<Budget>,
    mut body: Incoming,
) -> Result<(Bytes, Reservation), (Refusal, Incoming)> {
    let exact = body
        .size_hint()
        .exact()
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut reservation = match budget.reserve(exact.unwrap_or(FIRST)) {
        Ok(reservation) => reservation,
        Err(refusal) => return Err((refusal, body)),
    };
    let mut held = Vec::with_capacity(exact.unwrap_or(FIRST));
    loop {
        let refusal = match tokio::time::timeout(PAUSE, body.frame()).await {
            Err(_) => Refusal::SlowBody(PAUSE.as_secs()),
            Ok(None) => return Ok((held.into(), reservation)),
            Ok(Some(Err(error))) => Refusal::BadBody(error.to_string()),
            Ok(Some(Ok(frame))) => {
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                match reservation.grow_to(held.len() + data.len()) {
                    Ok(()) => {
                        held.extend_from_slice(data);
                        continue;
                    }
                    Err(refusal) => refusal,
                }
            }
        };
        return Err((refusal, body));
    }
}

/// What [`unpack`] gave.
pub enum Unpacked {
    /// It was not packed.
    No,
    Yes(Bytes),
    /// It is no gzip, for this reason.
    Broken(String),
}

/// Unpacks gzip, several members too, within the budget.
///
/// # Errors
/// When what comes out does not fit.
pub fn unpack(raw: &[u8], reservation: &mut Reservation) -> Result<Unpacked, Refusal> {
    let mut decoder = MultiGzDecoder::new(raw);
    let mut plain = Vec::with_capacity(raw.len().saturating_mul(3).min(8 << 20));
    let mut piece = [0; 32 << 10];
    loop {
        match decoder.read(&mut piece) {
            Ok(0) => return Ok(Unpacked::Yes(plain.into())),
            Ok(n) => {
                let piece = piece.get(..n).unwrap_or_default();
                reservation.grow_to(raw.len() + plain.len() + n)?;
                plain.extend_from_slice(piece);
            }
            Err(error) => return Ok(Unpacked::Broken(error.to_string())),
        }
    }
}
