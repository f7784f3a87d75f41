//! The endpoints of readers: `POST /_spinney/{index}/_groups`, `GET /_spinney/{index}/_similar/{id}` and `_roots/{root}`.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;

use super::body::{QUESTION, ask_first, read};
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

/// What is to be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'p> {
    /// `/{index}/_groups`.
    Groups {
        /// As it stands in the path.
        index: &'p str,
    },
    /// The documents of one group.
    Members {
        /// As it stands in the path.
        index: &'p str,
        /// Which group.
        of: GroupOf<'p>,
    },
}

/// Which group is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupOf<'p> {
    /// `/{index}/_similar/{id}`: that of this document, as the path has it.
    Document(&'p str),
    /// `/{index}/_roots/{root}`.
    Root(&'p str),
}

/// What a path under `/_spinney` asks for, if it is one of these.
pub(super) fn target_of(endpoint: &str) -> Option<Target<'_>> {
    let (index, rest) = endpoint.strip_prefix('/')?.split_once('/')?;
    if index.is_empty() || index.starts_with('_') {
        return None;
    }
    if rest == "_groups" {
        return Some(Target::Groups { index });
    }
    match rest.split_once('/')? {
        (_, name) if name.is_empty() || name.contains('/') => None,
        ("_similar", id) => Some(Target::Members {
            index,
            of: GroupOf::Document(id),
        }),
        ("_roots", root) => Some(Target::Members {
            index,
            of: GroupOf::Root(root),
        }),
        _ => None,
    }
}

/// Answers a reader.
///
/// # Errors
/// When the question is wrong or the cluster gives no answer; what the cluster refuses is its own answer.
pub(super) async fn handle(
    state: &AppState,
    target: &Target<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    let refused = refuse(target, &parts.method, &parts.headers, !body.is_end_stream());
    let in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping);
    let _in_flight = match refused.map_or(in_flight, Err) {
        Ok(in_flight) => in_flight,
        Err(error) => {
            body::discard(body, &parts.headers);
            return Err(error);
        }
    };
    let pretty = parameter(parts.uri.query(), "pretty").is_some_and(|value| value != "false");
    let answer = match *target {
        Target::Groups { index } => {
            // Without a body there is nothing to be read, and the searches ask.
            let asked = match body.is_end_stream() {
                true => Ok(body),
                false => ask_first(state, index, &parts, body).await,
            };
            let body = match asked {
                Ok(body) => body,
                Err(answer) => return answer,
            };
            let parse = |question: &Bytes| GroupsRequest::parse(question);
            let (question, _reservation) = read(state, QUESTION, &parts, body, parse).await?;
            let asked = AskedIndex::new(state, index);
            let reader = asked.reader(state, &parts.headers);
            in_time(async { Ok(reader.groups(&question?).await?.to_json()) }).await
        }
        Target::Members { index, of } => {
            body::discard(body, &parts.headers);
            let asked = AskedIndex::new(state, index);
            let reader = asked.reader(state, &parts.headers);
            in_time(members(&reader, of, parts.uri.query())).await
        }
    };
    match answer {
        Ok(answer) => Ok(answered(&answer, pretty)),
        Err(error) => error.into_response(),
    }
}

/// Why a request is not even read.
fn refuse(
    target: &Target<'_>,
    method: &Method,
    headers: &HeaderMap,
    has_body: bool,
) -> Option<ProxyError> {
    if !matches!(target, Target::Groups { .. }) {
        let reads = method == Method::GET || method == Method::HEAD;
        return (!reads).then_some(ProxyError::GetOnly);
    }
    if method != Method::GET && method != Method::POST {
        return Some(ProxyError::GetOrPostOnly);
    }
    let unread = encoding(headers) == Encoding::Other || !is_json(headers);
    (has_body && unread).then_some(ProxyError::UnsupportedBody)
}

/// The documents of a group.
async fn members(
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
    fn new(state: &AppState, raw: &'p str) -> AskedIndex<'p> {
        let fields = state.engine.reader_fields(&decode_segment(raw));
        AskedIndex { raw, fields }
    }

    fn reader<'a>(&'a self, state: &'a AppState, headers: &'a HeaderMap) -> Reader<'a> {
        Reader::new(ReaderParts {
            cluster: &state.cluster,
            engine: &state.engine,
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

fn answered(answer: &Value, pretty: bool) -> Response<Body> {
    let text = if pretty {
        format!("{answer:#}\n")
    } else {
        answer.to_string()
    };
    with_type(StatusCode::OK, JSON, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let groups = |index| Some(Target::Groups { index });
        assert_eq!(target_of("/news-1/_groups"), groups("news-1"));
        assert_eq!(target_of("/news-%2A/_groups"), groups("news-%2A"));
        let members = |of| Some(Target::Members { index: "a", of });
        assert_eq!(
            target_of("/a/_similar/x%2Fy"),
            members(GroupOf::Document("x%2Fy"))
        );
        assert_eq!(target_of("/a/_roots/00"), members(GroupOf::Root("00")));
        for other in [
            "/a/_similar",
            "/a/_roots/1/2",
            "",
            "/_groups",
            "//_groups",
            "/_all/_groups",
            "/a/b/_groups",
            "/a/_group",
        ] {
            assert_eq!(target_of(other), None, "{other}");
        }
    }
}
