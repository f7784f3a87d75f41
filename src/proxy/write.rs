//! Writes of documents: buffered within the budget, stamped, forwarded as edits over the original bytes, and settled by
//! the response.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::http::{request, response};
use hyper::{HeaderMap, Request, Response};
use tokio::sync::OwnedSemaphorePermit;
use tracing::{debug, warn};

use super::detached::{Detached, Panicked};
use super::filtered;
use super::logging::log_stamped;
use super::names::{self, index_behind};
use super::placement::{SettleGuard, place_postponed};
use super::request_body::WholeBody;
use super::response_body::{Answers, ResponseBody};
use super::router::RequestKind;
use crate::bulk::Splice;
use crate::clock;
use crate::cluster::{AnswerBody, ClusterError};
use crate::config::OnUnstamped;
use crate::engine::{NotUnderstood, SHORT_BODY, StampError, Stamped, Turn, Unavailable, UnstampedDocument, Write};
use crate::http::body::{self, Buffered, DecompressError};
use crate::http::budget::Reservation;
use crate::http::headers::{self, Encoding, set_length};
use crate::http::{Body, ClientAddress, ProxyError, full};
use crate::shutdown::InFlightGuard;
use crate::state::AppState;
use crate::traces::TraceSpan;

/// Memory for stamping a line besides the body: half an item, a stamp, an edit and a rollback handle.
const BYTES_PER_LINE: usize = 320;

/// Smaller bodies need no check of the cluster's limit: no cluster has a lower one.
const ASK_LIMIT_ABOVE: u64 = 1 << 20;

/// Returns the documents of a request if a route may match.
///
/// # Errors
/// [`ProxyError::Unstamped`] if they cannot be stamped, and none are to pass: the body is not JSON, is encoded
/// otherwise than by gzip or deflate, or is not to end before its answer begins.
pub(super) async fn classify(
    state: &AppState,
    target: RequestKind<'_>,
    request: &Request<Incoming>,
) -> Result<Option<Write>, ProxyError> {
    let engine = &state.engine;
    let write = match target {
        _ if engine.routes().is_empty() => return Ok(None),
        RequestKind::Bulk { index } => Write::Bulk { index: index.map(Into::into) },
        RequestKind::BulkStream { .. } if state.cluster.signs() => {
            return Err(ProxyError::NotSignable(
                "a signature covers the whole body: send _bulk in place of _bulk/stream",
            ));
        }
        RequestKind::BulkStream { index } => {
            if may_carry(state, request, index.as_deref()).await {
                pass_unstamped(state, &"_bulk/stream is answered item by item")?;
            }
            return Ok(None);
        }
        RequestKind::Document { op, index, id } => match routed(state, request, index.into()).await {
            Some(index) => Write::Document { op, index, id: id.map(Into::into) },
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let headers = request.headers();
    if headers::is_json(headers) && headers::encoding(headers) != Encoding::Other {
        return Ok(Some(write));
    }
    let wanted = match &write {
        Write::Bulk { index } => may_carry(state, request, index.as_deref()).await,
        Write::Document { .. } => true,
    };
    if wanted {
        let reason = format!(
            "unsupported Content-Type or Content-Encoding: {:?}, {:?}",
            headers.get(CONTENT_TYPE),
            headers.get(CONTENT_ENCODING)
        );
        pass_unstamped(state, &reason)?;
    }
    Ok(None)
}

/// Whether an unbuffered bulk may contain documents of a route. Its actions can name any index; where its path names
/// one that no route stamps, it is taken for that one's.
async fn may_carry(state: &AppState, request: &Request<Incoming>, index: Option<&str>) -> bool {
    let is_index = |name: &&str| !name.starts_with(['_', '-', '+']) && !name.contains(['*', '?', ',']);
    match index.filter(is_index) {
        Some(index) => routed(state, request, index.to_owned()).await.is_some(),
        None => true,
    }
}

/// Takes down that documents of a route may pass without a stamp.
///
/// # Errors
/// If none are to pass.
fn pass_unstamped(state: &AppState, reason: &dyn Display) -> Result<(), ProxyError> {
    state.metrics.counters.bodies_not_understood.inc();
    match state.unstamped {
        OnUnstamped::Pass => {
            warn!(%reason, "forwarded unstamped");
            Ok(())
        }
        OnUnstamped::Refuse => Err(ProxyError::Unstamped(reason.to_string())),
    }
}

/// The index by whose route documents are stamped that are written under this name.
async fn routed(state: &AppState, request: &Request<Incoming>, name: String) -> Option<String> {
    if state.engine.routes().has(&name) {
        return Some(name);
    }
    let caller = state.caller(request.headers(), request.uri().query());
    index_behind(state, caller, request.headers(), &name, clock::now()).await
}

/// Stamps the documents, forwards them, and settles them by the response.
///
/// # Errors
/// When the body cannot be held or must not be sent, or the cluster gives no response.
pub(super) async fn handle(
    state: &Arc<AppState>,
    write: Write,
    request: Request<Incoming>,
    in_flight: InFlightGuard,
    trace: &TraceSpan,
) -> Result<Response<Body>, ProxyError> {
    let (mut parts, body) = request.into_parts();
    let is_bulk = matches!(write, Write::Bulk { .. });
    let counters = &state.metrics.counters;
    let kind = if is_bulk { &counters.bulk_requests } else { &counters.document_requests };
    kind.inc();
    let buffered = body::buffer(&state.budget, state.limits().body_timeout, &parts, body);
    let buffered = trace.step("read", buffered).await?;
    counters.write_bytes.inc_by(buffered.bytes.len() as u64);
    trace.count("http.request.body.size", buffered.bytes.len() as u64);
    if is_bulk {
        state.metrics.observe_bulk(buffered.bytes.len());
    }

    let encoding = headers::encoding(&parts.headers);
    let adopted = parts.headers.remove(headers::BACKFILL);
    let caller = state.caller(&parts.headers, parts.uri.query());
    let origin = WriteOrigin { caller, headers: &parts.headers, adopted, trace };
    let prepared = prepare(state, write, buffered, encoding, origin, &in_flight);
    let PreparedWrite { content, reservation, placement } = trace.step("place", prepared).await?;
    let body = match content {
        Content::AsItCame(raw) => WholeBody::new(raw, Splice::default(), reservation),
        Content::Edited { splice, plain } => {
            let length = splice.len(plain.len()) as u64;
            if let Err(error) = may_edit(state, plain.len() as u64, length, &parts.headers).await {
                if let Some(placement) = placement {
                    placement.roll_back().await;
                }
                return Err(error);
            }
            parts.headers.remove(CONTENT_ENCODING);
            WholeBody::new(plain, splice, reservation)
        }
    };
    // A sent write is settled by its response, whether or not the client waits.
    let (state, trace) = (state.clone(), trace.clone());
    let sending = async move {
        let wanted = match &placement {
            Some(placement) => {
                let is_unverified = placement.is_of_unverified_writer();
                headers::accept_gzip_only(&mut parts.headers);
                headers::accept_json_only(&mut parts.headers);
                is_bulk.then(|| filtered::ask_for_outcome(&mut parts, is_unverified)).flatten()
            }
            None => None,
        };
        let client = ClientAddress::of(&parts.extensions);
        let (response, placement) = forward(&state, parts, body, placement, &trace).await?;
        match (wanted, placement) {
            (Some(wanted), Some(placement)) if response.status().is_success() => {
                let reservation = state.budget.enter(client.0);
                filtered::answer(&state, response, wanted, reservation, placement, in_flight).await
            }
            (_, placement) => Ok(attach(response, placement, is_bulk, in_flight).await),
        }
    };
    // A panic in it has been logged by the panic hook; the request may have been sent.
    let broken = |_: Panicked| ProxyError::Broken("an internal error of spinney's".into());
    Detached::new(sending).await.unwrap_or_else(|panicked| Err(broken(panicked)))
}

/// Longest wait of an unverified writer for its turn.
const UNVERIFIED_PATIENCE: Duration = Duration::from_secs(1);

/// Serialises writes of unverified writers until they are settled, within [`UNVERIFIED_PATIENCE`]: the cluster hashes
/// each wrong password anew, which must not slow down verified writers; and each finds what those before it have had
/// stored.
async fn unverified_turn(state: &AppState) -> Option<OwnedSemaphorePermit> {
    let turn = state.unverified_writers.clone().acquire_owned();
    let turn = tokio::time::timeout(UNVERIFIED_PATIENCE, turn).await;
    turn.ok()?.ok()
}

/// A write after the text work. Holds the only copy of its body, whose memory and budget are released as it is sent.
struct PreparedWrite {
    content: Content,
    reservation: Reservation,
    /// Documents to settle; `None` if the body was not understood.
    placement: Option<SettleGuard>,
}

/// Bytes to send.
enum Content {
    /// Nothing was stamped.
    AsItCame(Bytes),
    /// Stamps, and the decompressed body that they belong into.
    Edited { splice: Splice, plain: Bytes },
}

/// Sender of a write, its headers and its trace.
struct WriteOrigin<'h> {
    caller: u64,
    headers: &'h HeaderMap,
    /// It adopts stored documents, under these names.
    adopted: Option<HeaderValue>,
    trace: &'h TraceSpan,
}

/// Decompresses and stamps a body. If the client disconnects, the work stops and placed documents are withdrawn.
async fn prepare(
    state: &Arc<AppState>,
    write: Write,
    buffered: Buffered,
    encoding: Encoding,
    writer: WriteOrigin<'_>,
    in_flight: &InFlightGuard,
) -> Result<PreparedWrite, ProxyError> {
    let WriteOrigin { caller, headers, adopted, trace } = writer;
    let raw = buffered.bytes.clone();
    let context = state.request_context(caller);
    let turn = state.engine.turn(caller, context.now).await;
    let (plain, reservation) = match decode(state, buffered, encoding, turn.clone()).await? {
        Decoded::Plain(plain, reservation) => (plain, reservation),
        Decoded::Malformed(reason, reservation) => {
            pass_unstamped(state, &reason)?;
            return Ok(as_it_came(raw, reservation));
        }
    };
    let began = Instant::now();
    // Entered before anything is placed: overrides wait for earlier placements.
    let writing = state.writes.enter();
    let body = plain.clone();
    let stamping = async {
        let mut parsed = state.engine.parse(body.clone(), write.clone(), context, turn).await?;
        if let Some(names) = &adopted {
            parsed.updates_are_whole();
            names::resolve_backfill_names(state, (caller, headers), names, &mut parsed, context.now).await;
        }
        names::resolve(state, (caller, headers), &mut parsed, context.now).await;
        // Accepted documents that wait for their forest came before these.
        if state.engine.has_postponed() {
            place_postponed(state).await;
        }
        let is_unverified = || state.engine.is_of_unverified_writer(&parsed, context);
        let turn = match is_unverified() {
            // One who is known by now is in nobody's way.
            true => unverified_turn(state).await.filter(|_| is_unverified()),
            false => None,
        };
        Ok((state.engine.stamp(body, parsed, context).await?, turn))
    };
    let (mut stamped, turn) = match stamping.await {
        Ok(stamped) => stamped,
        Err(StampError::NotUnderstood(reason)) => {
            pass_unstamped(state, &reason)?;
            return Ok(as_it_came(raw, reservation));
        }
        Err(StampError::Unavailable(reason)) => return Err(state.engine_failed(&reason)),
    };
    count(state, &stamped, began, trace);
    let placed = stamped.take_placed();
    let named = match &write {
        Write::Bulk { index } => index.clone(),
        Write::Document { index, .. } => Some(index.clone()),
    };
    let placement = SettleGuard::new(state.clone(), in_flight.clone(), writing, placed);
    if let Some(index) = &named {
        trace.text("spinney.index", index);
    }
    let placement = placement.of_index(named).in_turn(turn).in_trace(trace.clone());
    if adopted.is_some() && stamped.tally().local_fallback > 0 {
        // Marking would repeat with every sweep.
        placement.roll_back().await;
        return Err(ProxyError::ForestAway { forest: "of the documents to backfill".into() });
    }
    if let Some(UnstampedDocument { item, reason }) = stamped.may_be_stored()
        && state.unstamped == OnUnstamped::Refuse
    {
        placement.roll_back().await;
        return Err(ProxyError::Unstamped(format!("document {item}: {reason}")));
    }
    if let Err(reason) = log_stamped(&state.engine, write, &plain, &stamped).await {
        placement.roll_back().await;
        return Err(state.engine_failed(&reason));
    }
    let (splice, _) = stamped.into_parts();
    let content = if splice.is_empty() { Content::AsItCame(raw) } else { Content::Edited { splice, plain } };
    Ok(PreparedWrite { content, reservation, placement: Some(placement) })
}

enum Decoded {
    Plain(Bytes, Reservation),
    Malformed(NotUnderstood, Reservation),
}

/// Decompresses a body and reserves the memory for stamping its lines.
async fn decode(state: &AppState, buffered: Buffered, encoding: Encoding, turn: Turn) -> Result<Decoded, ProxyError> {
    let Buffered { bytes: raw, mut reservation } = buffered;
    let inline = encoding == Encoding::Identity && raw.len() <= SHORT_BODY;
    let decode = move || {
        let _turn = turn;
        let plain = match body::decompress(&raw, encoding, &mut reservation) {
            Ok(plain) => plain,
            Err(DecompressError::Budget(error)) => return Err(error),
            Err(DecompressError::Malformed(error)) => {
                let reason = NotUnderstood::Compression(error.to_string());
                return Ok(Decoded::Malformed(reason, reservation));
            }
        };
        drop(raw);
        let lines = memchr::memchr_iter(b'\n', &plain).count() + 1;
        reservation.grow_to(reservation.bytes() + lines * BYTES_PER_LINE)?;
        Ok(Decoded::Plain(plain, reservation))
    };
    if inline {
        return decode();
    }
    let decoded = state.engine.run(decode).await;
    decoded.map_err(|reason| state.engine_failed(&reason))?
}

fn as_it_came(raw: Bytes, reservation: Reservation) -> PreparedWrite {
    PreparedWrite { content: Content::AsItCame(raw), reservation, placement: None }
}

fn count(state: &AppState, stamped: &Stamped, began: Instant, trace: &TraceSpan) {
    let (tally, counters) = (stamped.tally(), &state.metrics.counters);
    counters.documents_stamped.inc_by(tally.stamped);
    counters.documents_without_text.inc_by(tally.without_text);
    counters.documents_unstamped.inc_by(tally.unstamped);
    counters.documents_joined.inc_by(tally.joined);
    counters.documents_local_fallback.inc_by(tally.local_fallback);
    trace.count("spinney.documents.stamped", tally.stamped);
    trace.count("spinney.documents.joined", tally.joined);
    trace.count("spinney.documents.unstamped", tally.unstamped);
    state.metrics.count_refusals(stamped.reasons());
    state.metrics.observe_stamping(began.elapsed(), stamped.waited());
    debug!(?tally, "stamped");
}

/// Whether an edited body may be sent. If only the stamps push it over the cluster's limit, the refusal is ours; a
/// body that was too large before is refused by the cluster.
async fn may_edit(state: &AppState, plain: u64, stamped: u64, caller: &HeaderMap) -> Result<(), ProxyError> {
    if headers::body_is_signed(caller) && !state.cluster.signs() {
        return Err(ProxyError::SignedBody);
    }
    if stamped <= ASK_LIMIT_ABOVE {
        return Ok(());
    }
    let limit = state.cluster.max_content_length(caller).await;
    if let Some(limit) = limit {
        state.budget.expect_bodies_of(limit);
    }
    match limit {
        Some(limit) if plain <= limit && stamped > limit => Err(ProxyError::StampOverLimit { stamped, limit }),
        _ => Ok(()),
    }
}

/// Sends the request; without a response its documents are settled here.
async fn forward(
    state: &AppState,
    mut parts: request::Parts,
    body: WholeBody,
    mut placement: Option<SettleGuard>,
    trace: &TraceSpan,
) -> Result<(Response<AnswerBody>, Option<SettleGuard>), ProxyError> {
    set_length(&mut parts.headers, body.length());
    let request = match body_to_send(state, &mut parts, body).await {
        Ok(body) => Request::from_parts(parts, body),
        Err(reason) => {
            if let Some(placement) = placement {
                placement.roll_back().await;
            }
            return Err(state.engine_failed(&reason));
        }
    };
    if let Some(placement) = &mut placement {
        placement.mark_sent();
    }
    match trace.upstream(state.cluster.forward(request)).await {
        Ok(response) => Ok((response, placement)),
        Err(error) => {
            if let Some(placement) = placement {
                match error {
                    ClusterError::Unreachable(_) | ClusterError::NotAdmitted(_) => placement.roll_back().await,
                    ClusterError::Broken(_) | ClusterError::TimedOut(_) | ClusterError::ClientBody(_) => {
                        placement.leave_unknown().await;
                    }
                }
            }
            Err(error.into())
        }
    }
}

/// The body of a request; of one that is signed, its payload is put among the extensions.
///
/// # Errors
/// A thread for text work has failed.
async fn body_to_send(state: &AppState, parts: &mut request::Parts, body: WholeBody) -> Result<Body, Unavailable> {
    if !state.cluster.signs() {
        return Ok(body.once());
    }
    let payload = match body.length() <= SHORT_BODY as u64 {
        true => body.into_payload(),
        false => state.engine.run(move || body.into_payload()).await?,
    };
    parts.extensions.insert(payload);
    Ok(full(""))
}

/// A request whose body is held whole, because it has to be signed.
///
/// # Errors
/// When the body cannot be held.
pub(super) async fn hold(state: &AppState, request: Request<Incoming>) -> Result<Request<Body>, ProxyError> {
    let (mut parts, body) = request.into_parts();
    let Buffered { bytes, reservation } =
        body::buffer(&state.budget, state.limits().body_timeout, &parts, body).await?;
    let body = WholeBody::new(bytes, Splice::default(), reservation);
    if body.length() > 0 {
        set_length(&mut parts.headers, body.length());
    }
    let body = body_to_send(state, &mut parts, body).await.map_err(|reason| state.engine_failed(&reason))?;
    Ok(Request::from_parts(parts, body))
}

/// Settles documents by the response: by its items if it is a success, otherwise by its status.
async fn attach(
    response: Response<AnswerBody>,
    placement: Option<SettleGuard>,
    is_bulk: bool,
    in_flight: InFlightGuard,
) -> Response<Body> {
    let (parts, body): (response::Parts, AnswerBody) = response.into_parts();
    let body = match placement {
        Some(placement) if parts.status.is_success() => {
            let answers = match is_bulk {
                true => Some(Answers::Items),
                // A 200 from an intermediary is not the cluster's response.
                false => headers::has_server_format(&parts.headers).then_some(Answers::Document(parts.status)),
            };
            match answers {
                Some(answers) => ResponseBody::settling(body, in_flight, &parts.headers, answers, placement),
                None => {
                    placement.leave_unknown().await;
                    ResponseBody::relay(body, in_flight)
                }
            }
        }
        placement => {
            if let Some(placement) = placement {
                placement.settle_by_status(parts.status).await;
            }
            ResponseBody::relay(body, in_flight)
        }
    };
    Response::from_parts(parts, body.boxed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unverified_take_turns_and_wait_for_no_one_for_long() {
        let state = AppState::for_test();
        let first = unverified_turn(&state).await;
        assert!(first.is_some());
        // The clock goes on when nothing else can.
        let before = tokio::time::Instant::now();
        assert!(unverified_turn(&state).await.is_none());
        assert_eq!(before.elapsed(), UNVERIFIED_PATIENCE);
        drop(first);
        assert!(unverified_turn(&state).await.is_some());
        assert_eq!(before.elapsed(), UNVERIFIED_PATIENCE);
    }
}
