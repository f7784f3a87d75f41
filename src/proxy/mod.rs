//! The proxy: writes to a route are stamped, all other requests are relayed.
//!
//! ```text
//! router: whose is it?  --write--> write: buffer, stamp, forward, attach --+
//!                       --relay--> request_body: streamed as it comes -----+--> cluster
//! client <-- response_body: streamed back; of a bulk, read on the way and settled by placement
//! ```

mod counted;
mod detached;
mod filtered;
mod logging;
mod names;
mod placement;
mod request_body;
mod response_body;
pub(crate) mod router;
mod sniff;
mod write;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::http::{Body, ProxyError};
use crate::shutdown::InFlightGuard;
use crate::state::AppState;
use crate::traces::TraceSpan;
use counted::PassingChange;
pub(crate) use placement::note_settled;
use response_body::ResponseBody;
use router::RequestKind;

/// Handles a request for the cluster.
///
/// # Errors
/// When the process drains, the cluster gives no answer, or the documents cannot be stamped.
pub(crate) async fn handle(
    state: &Arc<AppState>,
    target: RequestKind<'_>,
    request: Request<Incoming>,
    trace: &TraceSpan,
) -> Result<Response<Body>, ProxyError> {
    let in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping)?;
    if let Some(write) = write::classify(state, target, &request).await? {
        return write::handle(state, write, request, in_flight, trace).await;
    }
    if let Some(address) = &state.publish_address
        && sniff::asks_for_addresses(request.method(), request.uri().path())
    {
        return sniff::handle(state, request, address).await;
    }
    let passing = match state.counts.is_on() {
        true => PassingChange::of(request.method(), request.uri().path()),
        false => None,
    };
    let response = relay(state, request, in_flight, trace).await;
    if let Some(passing) = passing {
        passing.note(state, response.as_ref().map(Response::status));
    }
    response
}

/// A request that is not edited: it is streamed as it comes, or held whole where it has to be signed.
///
/// # Errors
/// When it cannot be held.
async fn outgoing(state: &AppState, request: Request<Incoming>) -> Result<Request<Body>, ProxyError> {
    match state.cluster.signs() {
        false => Ok(request_body::stream(request, state.limits().idle_timeout)),
        true => write::hold(state, request).await,
    }
}

/// Streams a request to the cluster and the response back, byte for byte.
async fn relay(
    state: &AppState,
    request: Request<Incoming>,
    in_flight: InFlightGuard,
    trace: &TraceSpan,
) -> Result<Response<Body>, ProxyError> {
    let request = outgoing(state, request).await?;
    let response = trace.upstream(state.cluster.relay(request)).await?;
    Ok(response.map(|body| ResponseBody::relay(body, in_flight).boxed()))
}
