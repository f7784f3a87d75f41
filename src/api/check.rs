//! `POST /_spinney/{index}/_check`: what would happen to a document.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::engine::{CheckError, Checked, CheckedTree, Fate, LookedUp, Measure};
use crate::forest::{Decision, Near};
use crate::method::Refusal as NotLetIn;
use crate::proxy::answer::{Body, Refusal, full, typed};
use crate::proxy::body::{self, Unpacked};
use crate::proxy::budget::Reservation;
use crate::proxy::headers::{Encoding, encoding, is_json};
use crate::proxy::{Proxy, router, threads};
use crate::time;

/// The most nodes of one fingerprint, and the most trees, that an answer lists: those that count most come first.
const LISTED: usize = 100;

/// The index of `/{index}/_check`, as it stands in the path.
pub fn index_of(endpoint: &str) -> Option<&str> {
    let index = endpoint.strip_prefix('/')?.strip_suffix("/_check")?;
    (!index.is_empty() && !index.starts_with('_') && !index.contains('/')).then_some(index)
}

/// Answers for the index of a path.
///
/// # Errors
/// When the caller may not know, or nothing can be said of the body.
pub async fn answer(
    proxy: &Proxy,
    raw_index: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    let index = router::decode(raw_index);
    let admitted = async {
        if parts.method != Method::POST {
            return Err(Refusal::PostOnly);
        }
        if !is_one_name(&index) {
            return Err(Refusal::NotOneIndex(index.to_string()));
        }
        if let Some(refused) = refused(proxy, raw_index, &index, &parts.headers).await? {
            return Ok(Err(refused));
        }
        if encoding(&parts.headers) == Encoding::Other || !is_json(&parts.headers) {
            return Err(Refusal::NotJson);
        }
        proxy.flight.board().map(Ok).ok_or_else(|| {
            proxy.counters.refused_stopping.add(1);
            Refusal::Stopping
        })
    };
    let _passenger = match admitted.await {
        Ok(Ok(passenger)) => passenger,
        Ok(Err(answer)) => {
            body::forget(body, &parts.headers);
            return Ok(answer);
        }
        Err(refusal) => {
            body::forget(body, &parts.headers);
            return Err(refusal);
        }
    };
    let (raw, mut reservation) = body::hold(&proxy.budget, body, &parts.headers).await?;
    let packed = encoding(&parts.headers) == Encoding::Gzip;
    let call = proxy.call();
    let id = parameter(parts.uri.query(), "id").map(|id| router::decode(id).into_owned());
    let pretty = parameter(parts.uri.query(), "pretty").is_some_and(|value| value != "false");
    let index = index.into_owned();
    let engine = proxy.engine.clone();
    let work = move || {
        let plain = unpacked(raw, packed, &mut reservation)?;
        if plain.trim_ascii().is_empty() {
            return Err(Refusal::BadDocument("the body is empty".into()));
        }
        let checked = engine.check(&plain, &index, id.as_deref(), call);
        let answer = told(&index, &checked.map_err(refusal)?);
        Ok(if pretty {
            format!("{answer:#}\n")
        } else {
            answer.to_string()
        })
    };
    let answer = threads::run(proxy, work, drop).await?;
    let content_type = "application/json; charset=UTF-8";
    Ok(typed(StatusCode::OK, content_type, answer))
}

/// The cluster's own answer, or ours, when the caller may not read the index. An answer tells whether the forest knows a
/// text like this one, so it is for those who could have searched for it: `_count` asks for the right to search and
/// for nothing else. Who may only write is told no root by a write either. An index that does not exist yet hides
/// nothing, and the servers answer 403 before 404. `ignore_unavailable` must not be added: with it the security
/// layers pass over what the caller may not see and answer 200.
async fn refused(
    proxy: &Proxy,
    raw_index: &str,
    index: &str,
    caller: &HeaderMap,
) -> Result<Option<Response<Body>>, Refusal> {
    let path = format!("/{raw_index}/_count?terminate_after=1");
    let answer = proxy.upstream.get(&path, caller, 1 << 20).await?;
    if answer.status() == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !answer.status().is_success() {
        return Ok(Some(answer.map(full)));
    }
    // OpenSearch can be told to search nothing instead of refusing; any index has a shard.
    let counted: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    match counted.pointer("/_shards/total").and_then(Value::as_u64) {
        Some(1..) => Ok(None),
        _ => Err(Refusal::NotShown(index.to_owned())),
    }
}

/// Whether a name means one index: with a pattern or a list the cluster would answer for what the caller may read of it,
/// and with `cluster:index` another cluster would. Date math is a name.
fn is_one_name(index: &str) -> bool {
    let name = index.strip_prefix('<').unwrap_or(index);
    !name.is_empty()
        && !name.starts_with(['_', '-', '+'])
        && !name.contains(['*', '?', ',', ':', ' ', '"', '#', '\\'])
}

/// The value of a parameter of the query string, undecoded; empty if it has none.
fn parameter<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    query?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

fn unpacked(raw: Bytes, packed: bool, reservation: &mut Reservation) -> Result<Bytes, Refusal> {
    if !packed {
        return Ok(raw);
    }
    match body::unpack(&raw, reservation)? {
        Unpacked::Yes(plain) => Ok(plain),
        Unpacked::No => Ok(raw),
        Unpacked::Broken(reason) => Err(Refusal::BadBody(reason)),
    }
}

fn refusal(error: CheckError) -> Refusal {
    match error {
        CheckError::NoRoute(_) => Refusal::NoRoute(error.to_string()),
        CheckError::Document(_) | CheckError::Trailing { .. } => {
            Refusal::BadDocument(error.to_string())
        }
    }
}

fn told(index: &str, checked: &Checked) -> Value {
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

fn looked_up(found: &LookedUp) -> Value {
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
        "added": time::format_date(tree.view.added),
        "arrival": time::format_date(tree.view.arrival),
        "shared": tree.shared,
        "agrees": tree.verdict.is_ok(),
    });
    if let Err(refusal) = tree.verdict {
        let told = [
            ("reason", refusal.reason().as_str().into()),
            ("detail", refusal.to_string().into()),
        ];
        value = with(value, told);
        if let NotLetIn::Radius { letters, allowed } = refusal {
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

    #[test]
    fn parameters() {
        let query = Some("pretty&id=a%2Fb&x=");
        assert_eq!(parameter(query, "pretty"), Some(""));
        assert_eq!(parameter(query, "id"), Some("a%2Fb"));
        assert_eq!(parameter(query, "i"), None);
        assert_eq!(parameter(None, "id"), None);
    }
}
