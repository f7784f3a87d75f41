//! Everything that carries no document: streamed through in both directions, byte for byte.

use hyper::body::Incoming;
use hyper::{Request, Response};

use super::answer::{Body, Refusal};
use super::settle::Landing;
use super::upstream::{Upstream, streaming};
use crate::shutdown::Passenger;

/// Streams the request to the cluster and the answer back.
///
/// # Errors
/// As [`Upstream::send`].
pub async fn pass_on(
    upstream: &Upstream,
    request: Request<Incoming>,
    passenger: Passenger,
) -> Result<Response<Body>, Refusal> {
    let response = upstream.send(streaming(request)).await?;
    Ok(response.map(|body| Landing::relay(body, passenger).boxed()))
}
