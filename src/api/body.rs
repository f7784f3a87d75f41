//! Request bodies of the own endpoints. None exceeds the limit of its endpoint, and none is parsed before the cluster
//! has admitted its sender.

use bytes::Bytes;
use hyper::Response;
use hyper::body::Incoming;
use hyper::http::request::Parts;

use super::ANSWER_BYTES;
use crate::http::body::{self, Buffered, DecompressError};
use crate::http::budget::Reservation;
use crate::http::headers::{Encoding, encoding};
use crate::http::{Body, ProxyError, full};
use crate::state::AppState;

/// Size limits of an endpoint's bodies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// The most bytes, decompressed.
    pub(super) bytes: usize,
    /// Memory of a body beyond its own size, as a multiple: parsed, and in requests to the cluster.
    pub(super) times: usize,
}

/// Of a question or a document.
pub(super) const QUESTION: Limit = Limit { bytes: 1 << 20, times: 8 };

/// Limit of override requests.
pub(super) const OVERRIDE_BODY: Limit = Limit { bytes: 256 << 10, times: 8 };

/// Shorter bodies are parsed on the connection's own task: that is cheaper than a switch to another thread.
const READ_INLINE: usize = 4 << 10;

/// Asks the cluster whether the caller may search the index, for `_groups`, which accepts lists and patterns that
/// `ForestReader` refuses. Returns the body unread. The searches that follow are checked again by the cluster.
///
/// # Errors
/// The response for a caller who may not: the cluster's own, or why there is none. The body is discarded.
pub(super) async fn ask_first(
    state: &AppState,
    raw_index: &str,
    parts: &Parts,
    body: Incoming,
) -> Result<Incoming, Result<Response<Body>, ProxyError>> {
    let path = format!("/{raw_index}/_count?terminate_after=1");
    let asked = state.cluster.get_as(&parts.headers, &path, ANSWER_BYTES);
    let refused = match asked.await {
        Ok(answer) if answer.status().is_success() => return Ok(body),
        Ok(answer) => Ok(answer.map(full)),
        Err(error) => Err(error.into()),
    };
    body::discard(body, &parts.headers);
    Err(refused)
}

/// Reads a body within its limit and parses it on a thread that blocks no connection. The reservation is kept until
/// the response is there.
///
/// # Errors
/// When the body is too long, does not fit into the budget, or does not match its encoding.
pub(super) async fn read<T: Send + 'static>(
    state: &AppState,
    limit: Limit,
    parts: &Parts,
    body: Incoming,
    read: impl FnOnce(&Bytes) -> T + Send + 'static,
) -> Result<(T, Reservation), ProxyError> {
    let Limit { bytes: most, times } = limit;
    let time = state.limits().body_timeout;
    let buffered = body::buffer_up_to(most, &state.budget, time, parts, body).await?;
    let Buffered { bytes: raw, mut reservation } = buffered;
    let encoding = encoding(&parts.headers);
    let is_short = encoding == Encoding::Identity && raw.len() <= READ_INLINE;
    let take = move || {
        let plain = body::decompress_up_to(most, &raw, encoding, &mut reservation);
        let plain = plain.map_err(|error| match error {
            DecompressError::Budget(error) => error,
            DecompressError::Malformed(error) => ProxyError::BadBody(error.to_string()),
        })?;
        reservation.grow_to(raw.len() + times * plain.len())?;
        Ok((read(&plain), reservation))
    };
    if is_short {
        return take();
    }
    let taken = state.engine.run(take).await;
    taken.map_err(|reason| state.engine_failed(&reason))?
}
