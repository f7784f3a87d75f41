//! `POST /_spinney/{index}/_check`: what would happen to a document.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::ANSWER_BYTES;
use super::body::{QUESTION, read};
use crate::engine::{CheckError, Checked, Fate};
use crate::forest::port::{CheckedFingerprint, CheckedTree};
use crate::forest::{Decision, Near};
use crate::http::body;
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::{JSON, with_type};
use crate::http::query::{decode_segment, parameter};
use crate::http::{Body, ProxyError, full};
use crate::method::Measure;
use crate::method::Refusal;
use crate::shutdown::InFlightGuard;
use crate::state::AppState;
use crate::time;

/// The most nodes of one fingerprint, and the most trees, that an answer lists: those that count most come first.
const LISTED: usize = 100;

/// The index of `/{index}/_check`, as it stands in the path.
pub(super) fn index_of(endpoint: &str) -> Option<&str> {
    let index = endpoint.strip_prefix('/')?.strip_suffix("/_check")?;
    (!index.is_empty() && !index.starts_with('_') && !index.contains('/')).then_some(index)
}

/// Answers for the index of a path.
///
/// # Errors
/// When the caller may not know, or nothing can be said of the body.
pub(super) async fn handle(
    state: &AppState,
    raw_index: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    let index = decode_segment(raw_index);
    let admitted = admit(state, raw_index, &index, &parts.method, &parts.headers).await;
    let _in_flight = match admitted {
        Ok(Admission::Granted(in_flight)) => in_flight,
        Ok(Admission::Denied(answer)) => {
            body::discard(body, &parts.headers);
            return Ok(answer);
        }
        Err(error) => {
            body::discard(body, &parts.headers);
            return Err(error);
        }
    };
    let (document, _reservation) = read(state, QUESTION, &parts, body, Bytes::clone).await?;
    if document.trim_ascii().is_empty() {
        return Err(ProxyError::BadDocument("the body is empty".into()));
    }
    let query = parts.uri.query();
    let id = parameter(query, "id").map(Into::into);
    let pretty = parameter(query, "pretty").is_some_and(|value| value != "false");
    let index = index.into_owned();
    let engine = &state.engine;
    let checked = engine.check(document, index.clone(), id, state.request_context(0));
    let checked = checked.await.map_err(|error| check_error(state, error))?;
    let answer = answer(&index, &checked);
    let text = if pretty {
        format!("{answer:#}\n")
    } else {
        answer.to_string()
    };
    Ok(with_type(StatusCode::OK, JSON, text))
}

/// Whether a caller gets an answer.
enum Admission {
    Granted(InFlightGuard),
    /// The cluster denies it with this answer.
    Denied(Response<Body>),
}

async fn admit(
    state: &AppState,
    raw_index: &str,
    index: &str,
    method: &Method,
    caller: &HeaderMap,
) -> Result<Admission, ProxyError> {
    if method != Method::POST {
        return Err(ProxyError::PostOnly);
    }
    if !is_one_name(index) {
        return Err(ProxyError::NotOneIndex(index.to_owned()));
    }
    if let Some(denied) = denied(state, raw_index, index, caller).await? {
        return Ok(Admission::Denied(denied));
    }
    if encoding(caller) == Encoding::Other || !is_json(caller) {
        return Err(ProxyError::UnsupportedBody);
    }
    let in_flight = state.in_flight.enter();
    in_flight
        .map(Admission::Granted)
        .ok_or(ProxyError::Stopping)
}

/// The cluster's own answer, or ours, when the caller may not read the index. An answer says whether the forest knows a
/// text like this one, so it is for those who could have searched for it: `_count` asks for the right to search and
/// for nothing else. Who may only write learns no root from a write either. An index that does not exist yet hides
/// nothing, and the servers answer 403 before 404. `ignore_unavailable` must not be added: with it the security
/// layers pass over what the caller may not see and answer 200.
pub(super) async fn denied(
    state: &AppState,
    raw_index: &str,
    index: &str,
    caller: &HeaderMap,
) -> Result<Option<Response<Body>>, ProxyError> {
    let path = format!("/{raw_index}/_count?terminate_after=1");
    let answer = state.cluster.get_as(caller, &path, ANSWER_BYTES).await?;
    // A load balancer has pages of its own for every status, and they are no consent.
    let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    if answer.status() == StatusCode::NOT_FOUND && is_index_not_found(&said) {
        return Ok(None);
    }
    if !answer.status().is_success() {
        return Ok(Some(answer.map(full)));
    }
    if said.get("count").and_then(Value::as_u64).is_none() {
        return Err(ProxyError::NotTheCluster("GET /INDEX/_count"));
    }
    // OpenSearch can be configured to search nothing instead of refusing; any index has a shard.
    match said.pointer("/_shards/total").and_then(Value::as_u64) {
        Some(1..) => Ok(None),
        _ => Err(ProxyError::NotShown(index.to_owned())),
    }
}

/// Whether this is what the servers answer of an index that is not there.
fn is_index_not_found(said: &Value) -> bool {
    let kind = said.pointer("/error/type").and_then(Value::as_str);
    let status = said.get("status").and_then(Value::as_u64);
    kind == Some("index_not_found_exception") && status == Some(404)
}

/// Whether a name means one index: with a pattern or a list the cluster would answer for what the caller may read of it,
/// and with `cluster:index` another cluster would. Date math is a name.
pub(super) fn is_one_name(index: &str) -> bool {
    let name = index.strip_prefix('<').unwrap_or(index);
    !name.is_empty()
        && !name.starts_with(['_', '-', '+'])
        && !name.contains(['*', '?', ',', ':', ' ', '"', '#', '\\'])
}

fn check_error(state: &AppState, error: CheckError) -> ProxyError {
    match error {
        CheckError::NoRoute(_) => ProxyError::NoRoute(error.to_string()),
        CheckError::Unavailable(reason) => state.engine_failed(&reason),
        CheckError::Document(_) | CheckError::Trailing { .. } => {
            ProxyError::BadDocument(error.to_string())
        }
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
    with(
        answer,
        checked.stage.map(|by| ("stage", by.to_string().into())),
    )
}

/// An object with further members.
fn with(mut object: Value, members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    if let Some(object) = object.as_object_mut() {
        let members = members.into_iter();
        object.extend(members.map(|(name, value)| (name.to_owned(), value)));
    }
    object
}

fn decision(fate: Fate) -> &'static str {
    match fate {
        Fate::OwnRoot => "own_root",
        Fate::Placed(Decision::Refreshed) => "refreshed",
        Fate::Placed(Decision::Joined { .. }) => "joined",
        Fate::Placed(Decision::NewRoot) => "new_root",
        Fate::Placed(Decision::Outside) => "outside",
    }
}

fn looked_up(found: &CheckedFingerprint) -> Value {
    let node = |near: &Near| {
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
    with(
        value,
        found.stage.map(|stage| ("stage", stage.to_string().into())),
    )
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
        let refused = [
            ("reason", refusal.reason().as_str().into()),
            ("detail", refusal.to_string().into()),
        ];
        value = with(value, refused);
        if let Refusal::Radius { letters, allowed } = refusal {
            value = with(
                value,
                [("letters", letters.into()), ("allowed", allowed.into())],
            );
        }
    }
    match tree.measure {
        Measure::None => value,
        Measure::Text {
            similarity,
            needed,
            titles,
            same,
            different,
        } => {
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

/// A similarity is an estimate: more digits would say nothing.
fn two_digits(similarity: f32) -> Value {
    let hundredths = (f64::from(similarity) * 100.0).round();
    (hundredths / 100.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(index_of("/news-1/_check"), Some("news-1"));
        assert_eq!(index_of("/%E4%B8%AD/_check"), Some("%E4%B8%AD"));
        for other in [
            "",
            "/_check",
            "//_check",
            "/a/b/_check",
            "/_all/_check",
            "/a/_checks",
            "/_stats",
        ] {
            assert_eq!(index_of(other), None, "{other}");
        }
    }

    #[test]
    fn names_of_one_index() {
        for one in ["news-1", ".hidden", "<news-{now/d}>", "新闻"] {
            assert!(is_one_name(one), "{one}");
        }
        for more in [
            "news-*", "a,b", "_all", "-a", "*", "far:news", "<*>", "<_all>", "", "<",
        ] {
            assert!(!is_one_name(more), "{more}");
        }
    }
}
