//! The endpoints of readers: `POST /_spinney/{index}/_groups`.

use std::future::Future;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;

use super::body::decode;
use crate::clock;
use crate::engine::ReaderFields;
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::{JSON, with_type};
use crate::http::query::{decode_segment, parameter};
use crate::http::{Body, ProxyError, body, caller};
use crate::reading::{GroupsRequest, ReadError, Reader, ReaderParts};
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
}

/// What a path under `/_spinney` asks for, if it is one of these.
pub(super) fn target_of(endpoint: &str) -> Option<Target<'_>> {
    let (index, rest) = endpoint.strip_prefix('/')?.split_once('/')?;
    if index.is_empty() || index.starts_with('_') {
        return None;
    }
    match rest {
        "_groups" => Some(Target::Groups { index }),
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
            let buffered = body::buffer(&state.budget, state.body_timeout, &parts, body).await?;
            let (question, _reservation) =
                decode(state, buffered, encoding(&parts.headers)).await?;
            let asked = AskedIndex::new(state, index);
            let reader = asked.reader(state, &parts.headers);
            in_time(async {
                let request = GroupsRequest::parse(&question)?;
                Ok(reader.groups(&request).await?.to_json())
            })
            .await
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
    let Target::Groups { .. } = target;
    if method != Method::GET && method != Method::POST {
        return Some(ProxyError::GetOrPostOnly);
    }
    let unread = encoding(headers) == Encoding::Other || !is_json(headers);
    (has_body && unread).then_some(ProxyError::UnsupportedBody)
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
            headers,
            raw_index: self.raw,
            fields: &self.fields,
            lists: &state.lists,
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
        for other in [
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
