//! `POST /_spinney/{index}/_check`: where a document would be placed.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::body::{QUESTION, read};
use crate::access::{AccessError, ForestReader};
use crate::engine::{CheckError, Checked, RootOrigin};
use crate::forest::port::{CheckedFingerprint, CheckedTree};
use crate::forest::{Decision, NearNode};
use crate::http::body;
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::{JSON, with_type};
use crate::http::query::parameter;
use crate::http::{Body, ProxyError};
use crate::method::Measure;
use crate::method::Refusal;
use crate::shutdown::InFlightGuard;
use crate::state::AppState;
use crate::time;

/// The most nodes of one fingerprint, and the most trees, that an answer lists: those that count most come first.
const LISTED: usize = 100;

/// Answers for the index of a path.
///
/// # Errors
/// When the caller may not know, or the body is no document.
pub(super) async fn handle(
    state: &AppState,
    raw_index: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    let admitted = admit(state, raw_index, &parts.headers).await;
    let (reader, _in_flight) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => {
            body::discard(body, &parts.headers);
            return error.into_response();
        }
    };
    let (document, _reservation) = read(state, QUESTION, &parts, body, Bytes::clone).await?;
    if document.trim_ascii().is_empty() {
        return Err(ProxyError::BadDocument("the body is empty".into()));
    }
    let query = parts.uri.query();
    let id = parameter(query, "id").map(Into::into);
    let pretty = parameter(query, "pretty").is_some_and(|value| value != "false");
    let (engine, index) = (&state.engine, reader.route_name().to_owned());
    let checked = engine.check(document, index, id, state.request_context(0));
    let checked = checked.await.map_err(|error| check_error(state, error))?;
    let answer = answer(reader.name().as_str(), &checked);
    let text = if pretty { format!("{answer:#}\n") } else { answer.to_string() };
    Ok(with_type(StatusCode::OK, JSON, text))
}

/// Admits callers who may search the index. The answer reveals whether the forest knows a similar text, so it is for
/// those who could have found it by a search; an index that does not exist yet admits nobody.
async fn admit(
    state: &AppState,
    raw_index: &str,
    caller: &HeaderMap,
) -> Result<(ForestReader, InFlightGuard), AccessError> {
    let reader = ForestReader::admit(state.access(), caller, raw_index).await?;
    if encoding(caller) == Encoding::Other || !is_json(caller) {
        return Err(ProxyError::UnsupportedBody.into());
    }
    let in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping)?;
    Ok((reader, in_flight))
}

fn check_error(state: &AppState, error: CheckError) -> ProxyError {
    match error {
        CheckError::NoRoute(_) => ProxyError::NoRoute(error.to_string()),
        CheckError::Unavailable(reason) => state.engine_failed(&reason),
        CheckError::Document(_) | CheckError::Trailing { .. } => ProxyError::BadDocument(error.to_string()),
    }
}

fn answer(index: &str, checked: &Checked) -> Value {
    let stamp = checked.stamp.as_deref();
    let answer = json!({
        "index": index,
        "forest": checked.forest,
        "method": checked.method.to_string(),
        "k": checked.k.0,
        "decision": decision(checked.fate),
        "root": checked.root.map(|root| root.to_string()),
        "key": checked.root.map(|root| root.0.0.cast_signed()),
        "boilerplate": checked.boilerplate,
        "fingerprints": checked.fingerprints.iter().map(looked_up).collect::<Vec<_>>(),
        "trees_total": checked.trees.len(),
        "trees": checked.trees.iter().take(LISTED).map(tree).collect::<Vec<_>>(),
        "stamp": stamp.and_then(|stamp| serde_json::from_slice::<Value>(stamp).ok()),
    });
    with(answer, checked.stage.map(|by| ("stage", by.to_string().into())))
}

/// An object with further members.
fn with(mut object: Value, members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    if let Some(object) = object.as_object_mut() {
        let members = members.into_iter();
        object.extend(members.map(|(name, value)| (name.to_owned(), value)));
    }
    object
}

fn decision(fate: RootOrigin) -> &'static str {
    match fate {
        RootOrigin::OwnRoot => "own_root",
        RootOrigin::Placed(Decision::Refreshed) => "refreshed",
        RootOrigin::Placed(Decision::Joined { .. }) => "joined",
        RootOrigin::Placed(Decision::NewRoot) => "new_root",
        RootOrigin::Placed(Decision::Outside) => "outside",
    }
}

fn looked_up(found: &CheckedFingerprint) -> Value {
    let node = |near: &NearNode| {
        json!({
            "fingerprint": near.fingerprint.to_string(),
            "distance": near.distance.0,
            "root": near.root.to_string(),
        })
    };
    let value = json!({
        "fingerprint": found.fingerprint.to_string(),
        "boilerplate": found.left_out,
        "near_total": found.near.len(),
        "near": found.near.iter().take(LISTED).map(node).collect::<Vec<_>>(),
    });
    with(value, found.stage.map(|stage| ("stage", stage.to_string().into())))
}

fn tree(tree: &CheckedTree) -> Value {
    let mut value = json!({
        "root": tree.root.to_string(),
        "children": tree.view.children,
        "documents": tree.view.documents,
        "titles_total": tree.view.titles,
        "closed": tree.view.closed.map(|why| why.reason().as_str()),
        "added": time::format_date(tree.view.added),
        "arrival": time::format_date(tree.view.arrival),
        "shared": tree.shared,
        "agrees": tree.verdict.is_ok(),
    });
    if let Err(refusal) = tree.verdict {
        let refused = [("reason", refusal.reason().as_str().into()), ("detail", refusal.to_string().into())];
        value = with(value, refused);
        if let Refusal::Radius { letters, allowed } = refusal {
            value = with(value, [("letters", letters.into()), ("allowed", allowed.into())]);
        }
    }
    match tree.measure {
        Measure::None => value,
        Measure::Text { similarity, needed, titles, same, different } => {
            let measured = [
                ("similarity", two_digits(similarity)),
                ("needed", two_digits(needed)),
                ("titles", titles.map_or(Value::Null, two_digits)),
                ("numbers", json!({"same": same, "different": different})),
            ];
            with(value, measured)
        }
        Measure::Edits(edits) => with(value, edits.map(|edits| ("edits", edits.into()))),
    }
}

/// Rounds to two digits: a similarity is an estimate.
fn two_digits(similarity: f32) -> Value {
    let hundredths = (f64::from(similarity) * 100.0).round();
    (hundredths / 100.0).into()
}
