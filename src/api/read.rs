//! The endpoints of readers: `POST /_spinney/{index}/_groups`, `GET /_spinney/{index}/_similar/{id}` and `_roots/{root}`.

use std::future::Future;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::Value;

use super::body::decode;
use crate::clock;
use crate::engine::ReaderFields;
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::{JSON, with_type};
use crate::http::query::{decode_segment, parameter};
use crate::http::{Body, ProxyError, body, caller};
use crate::reading::{GroupsRequest, MembersRequest, ReadError, Reader, ReaderParts};
use crate::state::AppState;

/// How long an answer may take, all searches together.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Which group is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupOf<'p> {
    /// `/{index}/_similar/{id}`: that of this document, as the path has it.
    Document(&'p str),
    /// `/{index}/_roots/{root}`.
    Root(&'p str),
}

/// Answers `/{index}/_groups`.
///
/// # Errors
/// When the question is wrong or the cluster gives no answer; what the cluster refuses is its own answer.
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
    let buffered = body::buffer(&state.budget, state.body_timeout, &parts, body).await?;
    let (question, _reservation) = decode(state, buffered, encoding(&parts.headers)).await?;
    let asked = AskedIndex::new(state, &parts.headers, raw_index).await;
    let reader = asked.reader(state, &parts.headers);
    let answer = in_time(async {
        let request = GroupsRequest::parse(&question)?;
        Ok(reader.groups(&request).await?.to_json())
    });
    answered(answer.await, parts.uri.query())
}

/// Answers `/{index}/_similar/{id}` and `/{index}/_roots/{root}`.
///
/// # Errors
/// As [`groups`].
pub(super) async fn members(
    state: &AppState,
    raw_index: &str,
    of: GroupOf<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    body::discard(body, &parts.headers);
    let _in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping)?;
    let asked = AskedIndex::new(state, &parts.headers, raw_index).await;
    let reader = asked.reader(state, &parts.headers);
    let query = parts.uri.query();
    answered(in_time(of_group(&reader, of, query)).await, query)
}

/// The documents of a group.
async fn of_group(
    reader: &Reader<'_>,
    of_group: GroupOf<'_>,
    query: Option<&str>,
) -> Result<Value, ReadError> {
    let of = |name: &str| parameter(query, name);
    let (size, cursor, source) = (of("size"), of("cursor"), of("_source"));
    let request = MembersRequest::parse(size.as_deref(), cursor.as_deref(), source.as_deref())?;
    let similar = match of_group {
        GroupOf::Root(root) => reader.root(root, &request).await?,
        GroupOf::Document(id) => {
            let routing = of("routing");
            let decoded = decode_segment(id);
            reader
                .similar(id, &decoded, routing.as_deref(), &request)
                .await?
        }
    };
    Ok(similar.to_json())
}

/// Ends what takes too long.
async fn in_time(
    answer: impl Future<Output = Result<Value, ReadError>>,
) -> Result<Value, ReadError> {
    let answered = tokio::time::timeout(TIMEOUT, answer).await;
    answered.unwrap_or(Err(ReadError::TimedOut(TIMEOUT)))
}

/// An index that is asked for, and its fields.
struct AskedIndex<'p> {
    raw: &'p str,
    fields: ReaderFields,
}

impl<'p> AskedIndex<'p> {
    async fn new(state: &AppState, caller: &HeaderMap, raw: &'p str) -> AskedIndex<'p> {
        let fields = state.reader_fields(caller, raw).await;
        AskedIndex { raw, fields }
    }

    fn reader<'a>(&'a self, state: &'a AppState, headers: &'a HeaderMap) -> Reader<'a> {
        Reader::new(ReaderParts {
            cluster: &state.cluster,
            engine: &state.engine,
            service: &state.service,
            headers,
            raw_index: self.raw,
            fields: &self.fields,
            lists: &state.lists,
            counts: &state.counts,
            restricted: state.restricted_readers,
            caller: caller::caller(&state.callers, headers, None),
            now: clock::now(),
        })
    }
}

fn answered(
    answer: Result<Value, ReadError>,
    query: Option<&str>,
) -> Result<Response<Body>, ProxyError> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return error.into_response(),
    };
    let pretty = parameter(query, "pretty").is_some_and(|value| value != "false");
    let text = if pretty {
        format!("{answer:#}\n")
    } else {
        answer.to_string()
    };
    Ok(with_type(StatusCode::OK, JSON, text))
}
