//! The endpoints of readers: `POST /_spinney/{index}/_groups`, `GET /_spinney/{index}/_similar/{id}` and
//! `_roots/{root}`.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::Value;

use super::body::{QUESTION, ask_first, read};
use crate::clock;
use crate::engine::ReaderFields;
use crate::groups::{GroupsRequest, IndexReader, IndexReaderParts, MembersRequest, ReadError, ReaderPermit, SMALL};
use crate::http::budget::Reservation;
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::{JSON, with_type};
use crate::http::query::{decode_segment, parameter};
use crate::http::{Body, ClientAddress, ProxyError, body};
use crate::state::AppState;

/// Timeout of a request, for all its searches together.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The group of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupSelector<'p> {
    /// `/{index}/_similar/{id}`: that of this document, as the path has it.
    Document(&'p str),
    /// `/{index}/_roots/{root}`.
    Root(&'p str),
}

/// Handles `/{index}/_groups`.
///
/// # Errors
/// When the request is invalid or the cluster does not answer; refusals of the cluster are returned as they are.
pub(super) async fn groups(
    state: &AppState,
    raw_index: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    let unread = encoding(&parts.headers) == Encoding::Other || !is_json(&parts.headers);
    let refused = (!body.is_end_stream() && unread).then_some(ProxyError::UnsupportedBody);
    let in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping);
    let _in_flight = match refused.map_or(in_flight, Err) {
        Ok(in_flight) => in_flight,
        Err(error) => {
            body::discard(body, &parts.headers);
            return Err(error);
        }
    };
    // Without a body there is nothing to be read, and the searches ask.
    let asked = match body.is_end_stream() {
        true => Ok(body),
        false => ask_first(state, raw_index, &parts, body).await,
    };
    let body = match asked {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let parse = |question: &Bytes| GroupsRequest::parse(question);
    let (question, _reservation) = read(state, QUESTION, &parts, body, parse).await?;
    let asked = AskedIndex::new(state, &parts.headers, raw_index).await;
    let turn = ReaderPermit::new(&state.readers);
    let reader = asked.reader(state, &parts.headers, &turn);
    let answer = in_time(async { Ok(reader.groups(&question?).await?.to_json()) });
    answered(state, &parts, answer.await)
}

/// Handles `/{index}/_similar/{id}` and `/{index}/_roots/{root}`.
///
/// # Errors
/// As [`groups`].
pub(super) async fn members(
    state: &AppState,
    raw_index: &str,
    of: GroupSelector<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    body::discard(body, &parts.headers);
    let _in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping)?;
    let asked = AskedIndex::new(state, &parts.headers, raw_index).await;
    let turn = ReaderPermit::new(&state.readers);
    let reader = asked.reader(state, &parts.headers, &turn);
    let answer = in_time(of_group(&reader, of, parts.uri.query())).await;
    answered(state, &parts, answer)
}

/// The documents of a group.
async fn of_group(
    reader: &IndexReader<'_>,
    of_group: GroupSelector<'_>,
    query: Option<&str>,
) -> Result<Value, ReadError> {
    let of = |name: &str| parameter(query, name);
    let (size, cursor, source) = (of("size"), of("cursor"), of("_source"));
    let request = MembersRequest::parse(size.as_deref(), cursor.as_deref(), source.as_deref())?;
    let similar = match of_group {
        GroupSelector::Root(root) => reader.root(root, &request).await?,
        GroupSelector::Document(id) => {
            let routing = of("routing");
            let decoded = decode_segment(id);
            reader.similar(id, &decoded, routing.as_deref(), &request).await?
        }
    };
    Ok(similar.to_json())
}

/// Applies the time limit of a reader's request.
async fn in_time(answer: impl Future<Output = Result<Value, ReadError>>) -> Result<Value, ReadError> {
    let answered = tokio::time::timeout(TIMEOUT, answer).await;
    answered.unwrap_or(Err(ReadError::TimedOut(TIMEOUT)))
}

/// The requested index, and its fields.
struct AskedIndex<'p> {
    raw: &'p str,
    fields: ReaderFields,
}

impl<'p> AskedIndex<'p> {
    async fn new(state: &AppState, caller: &HeaderMap, raw: &'p str) -> AskedIndex<'p> {
        let fields = state.reader_fields(caller, raw).await;
        AskedIndex { raw, fields }
    }

    fn reader<'a>(&'a self, state: &'a AppState, headers: &'a HeaderMap, turn: &'a ReaderPermit) -> IndexReader<'a> {
        IndexReader::new(IndexReaderParts {
            cluster: &state.cluster,
            engine: &state.engine,
            service: &state.service,
            headers,
            raw_index: self.raw,
            fields: &self.fields,
            lists: &state.lists,
            counts: &state.counts,
            restricted: state.restricted_readers,
            turn,
            caller: state.caller(headers, None),
            now: clock::now(),
        })
    }
}

/// Renders a result; a large one holds its permit until the client has read it.
fn answered(state: &AppState, parts: &Parts, answer: Result<Value, ReadError>) -> Result<Response<Body>, ProxyError> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return error.into_response(),
    };
    let pretty = parameter(parts.uri.query(), "pretty").is_some_and(|value| value != "false");
    let text = if pretty { format!("{answer:#}\n") } else { answer.to_string() };
    if text.len() <= SMALL {
        return Ok(with_type(StatusCode::OK, JSON, text));
    }
    let mut held = state.answers.enter(ClientAddress::of(&parts.extensions).0);
    let (used, wanted) = (state.answers.used(), text.len());
    // A client that has taken all that it asked for gets any answer.
    held.grow_to(wanted).map_err(|_| ProxyError::AnswersNotTaken { used, wanted })?;
    let body = Bytes::from_owner(HeldAnswer { text, _held: held });
    Ok(with_type(StatusCode::OK, JSON, body))
}

/// Text of a response with its reservation.
struct HeldAnswer {
    text: String,
    _held: Reservation,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde_json::json;

    use super::*;
    use crate::state::ANSWERS;

    /// Builds the response to a reader at this address, within the budget of unread responses.
    fn answer(state: &AppState, client: u8, bytes: usize) -> Result<Response<Body>, ProxyError> {
        let mut request = Request::new(());
        let address = ClientAddress(IpAddr::from([127, 0, 0, client]));
        request.extensions_mut().insert(address);
        let (parts, ()) = request.into_parts();
        // Two of them are quotes.
        answered(state, &parts, Ok(json!("x".repeat(bytes - 2))))
    }

    #[tokio::test]
    async fn answers_that_nobody_takes_have_a_limit_and_small_ones_none() {
        let state = AppState::for_test();
        let mut others = state.answers.enter(IpAddr::from([127, 0, 0, 9]));
        others.grow_to(ANSWERS - SMALL - 1).unwrap();
        let largest = answer(&state, 1, SMALL + 1).unwrap();
        assert_eq!(state.answers.used(), ANSWERS);
        let refused = answer(&state, 2, SMALL + 1);
        let is_refused = |refused: Result<_, ProxyError>| {
            matches!(
                refused,
                Err(ProxyError::AnswersNotTaken { used: ANSWERS, wanted }) if wanted == SMALL + 1
            )
        };
        assert!(is_refused(refused));
        answer(&state, 2, SMALL).unwrap();
        // What a client has taken makes room.
        drop(largest);
        answer(&state, 2, SMALL + 1).unwrap();
        others.grow_to(ANSWERS).unwrap();
        assert!(answer(&state, 2, SMALL + 1).is_err());
    }
}
