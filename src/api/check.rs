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
use crate::method::{DifferenceKind, Differences, Measure, Refusal};
use crate::shutdown::InFlightGuard;
use crate::state::AppState;
use crate::time;

/// Most nodes of one fingerprint, and most trees, in a response; the most relevant come first.
const LISTED: usize = 100;

/// Handles `_check` for the index of the path.
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
        "trees": checked.trees.iter().take(LISTED).map(|tree| listed(tree, checked)).collect::<Vec<_>>(),
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

/// A tree, with the document's own text against its founder where known.
fn listed(near: &CheckedTree, checked: &Checked) -> Value {
    let own = checked.own.iter().find(|(root, _)| *root == near.root);
    let own = own.map(|(_, own)| json!({"sentences": own.sentences, "numbers": own.numbers, "words": own.words}));
    with(tree(near), own.map(|own| ("own", own)))
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
        Measure::Proof { similarity, needed, titles, same, different } => {
            let measured = [
                ("by", "proof".into()),
                ("similarity", two_digits(similarity)),
                ("needed", two_digits(needed)),
                ("titles", titles.map_or(Value::Null, two_digits)),
                ("numbers", json!({"same": same, "different": different})),
            ];
            with(value, measured)
        }
        Measure::Alignment { similarity, differences: found } => {
            let measured = [
                ("by", "alignment".into()),
                ("similarity", two_digits(similarity)),
                ("titles", found.alike.map_or(Value::Null, two_digits)),
                ("differences", differences(&found)),
            ];
            with(value, measured)
        }
        Measure::Edits(edits) => with(value, edits.map(|edits| ("edits", edits.into()))),
    }
}

/// Amount and cost of each kind of difference.
fn differences(found: &Differences) -> Value {
    let amount = |kind| match kind {
        DifferenceKind::OwnMatter => json!({
            "most": two_digits(found.most),
            "least": two_digits(found.least),
            "needed": two_digits(found.least_needed()),
        }),
        DifferenceKind::Replaced => json!({"words": two_digits(found.replaced)}),
        DifferenceKind::Numbers => json!({"places": two_digits(found.numbers)}),
        DifferenceKind::Facts => json!({"own": two_digits(found.own_facts), "common": found.common_facts}),
        DifferenceKind::Titles => json!({"names": found.titles}),
    };
    let all = json!({"words": two_digits(found.words), "cost": two_digits(found.cost())});
    let costs = found.costs();
    with(all, costs.map(|(kind, cost)| (kind.as_str(), with(amount(kind), [("cost", two_digits(cost))]))))
}

/// Rounds to two digits: a similarity is an estimate, and a cost is compared with 1.
fn two_digits(value: f32) -> Value {
    let hundredths = (f64::from(value) * 100.0).round();
    // An empty sum is -0.
    (hundredths / 100.0 + 0.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::forest::{Root, TreeView};
    use crate::time::Millis;

    fn near(measure: Measure) -> CheckedTree {
        let (added, arrival) = (Millis(0), Millis(0));
        let view = TreeView { children: 1, documents: 2, titles: 1, closed: None, added, arrival };
        CheckedTree { root: Root(Fingerprint(7)), view, shared: 3, verdict: Ok(()), measure }
    }

    #[test]
    fn what_decided_is_what_is_shown() {
        let proof = Measure::Proof { similarity: 0.456, needed: 0.5, titles: None, same: 1, different: 2 };
        let shown = tree(&near(proof));
        assert_eq!(
            (&shown["by"], &shown["similarity"], &shown["needed"]),
            (&json!("proof"), &json!(0.46), &json!(0.5))
        );
        assert_eq!((&shown["titles"], &shown["numbers"]), (&Value::Null, &json!({"same": 1, "different": 2})));
        assert!(shown.get("differences").is_none());

        let differences = Differences {
            words: 200.0,
            most: 1.0,
            least: 0.987,
            numbers: 1.0,
            own_facts: 2.4,
            common_facts: 40,
            replaced: -0.0,
            alike: Some(0.75),
            ..Differences::default()
        };
        let shown = tree(&near(Measure::Alignment { similarity: 0.9, differences }));
        assert_eq!(
            (&shown["by"], &shown["similarity"], &shown["titles"]),
            (&json!("alignment"), &json!(0.9), &json!(0.75))
        );
        assert!(shown.get("needed").is_none() && shown.get("numbers").is_none(), "{shown}");
        assert!(!shown["differences"].to_string().contains('-'), "{shown}");
        assert_eq!(
            shown["differences"],
            json!({
                "words": 200.0, "cost": 1.37,
                "own_matter": {"most": 1.0, "least": 0.99, "needed": 0.15, "cost": 0.0},
                "replaced": {"words": 0.0, "cost": 0.0},
                "numbers": {"places": 1.0, "cost": 1.2},
                "facts": {"own": 2.4, "common": 40, "cost": 0.17},
                "titles": {"names": 0, "cost": 0.0},
            })
        );
    }
}
