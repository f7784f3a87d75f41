//! Overrides: `POST /_spinney/{index}/_merge`, `_split` and `_pin`, `GET /_spinney/{index}/_overrides` and `_merges`,
//! and `DELETE /_spinney/{index}/_overrides/{number}`.

use std::fmt;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Value, json};

use super::body::{self, OVERRIDE_BODY};
use crate::access::{AccessError, ForestEditor, ForestReader};
use crate::fingerprint::Fingerprint;
use crate::forest::overrides::{Override, Overrides};
use crate::forest::{LateMergeLog, Root, Suggestion};
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::json as answer_json;
use crate::http::query::parameter;
use crate::http::{Body, ProxyError, body::discard};
use crate::overrides::{self, Applied, MOST_NAMED, OverrideEditor, OverrideFault};
use crate::shutdown::InFlightGuard;
use crate::state::AppState;

/// Overrides on a page of the list by default; the largest page, and most pending ones in a response.
const LISTED: usize = 100;
const MOST_LISTED: usize = 1_000;

/// Names in the overrides of a page; its last override may add up to [`MOST_NAMED`].
const NAMED_LISTED: usize = 10_000;

/// The requested operation on overrides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action<'p> {
    Merge,
    Split,
    Pin,
    List,
    /// Groups that may be one.
    Suggestions,
    Undo(&'p str),
}

impl Action<'_> {
    /// How the body is read, where there is one.
    fn reads(self) -> Option<BodyReader> {
        match self {
            Action::Merge => Some(read_merge),
            Action::Split => Some(read_split),
            Action::Pin => Some(read_pin),
            Action::List | Action::Suggestions | Action::Undo(_) => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MergeBody {
    roots: NameList,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitBody {
    ids: NameList,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PinBody {
    ids: NameList,
    root: String,
}

/// The beginning of a list of names, and its total.
struct NameList {
    first: Vec<String>,
    count: usize,
}

impl<'de> Deserialize<'de> for NameList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NameList, D::Error> {
        struct First;

        impl<'de> Visitor<'de> for First {
            type Value = NameList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of texts")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut names: S) -> Result<NameList, S::Error> {
                let mut first = Vec::new();
                while first.len() < MOST_NAMED {
                    match names.next_element()? {
                        Some(name) => first.push(name),
                        None => break,
                    }
                }
                let mut count = first.len();
                while names.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(NameList { first, count })
            }
        }

        deserializer.deserialize_seq(First)
    }
}

/// A parsed body.
enum OverrideRequest {
    Merge(Vec<Root>),
    Split(Vec<String>),
    Pin(Vec<String>, Root),
}

/// Parses the body of an override.
type BodyReader = fn(&Bytes) -> Result<OverrideRequest, OverrideFault>;

fn read_merge(body: &Bytes) -> Result<OverrideRequest, OverrideFault> {
    let MergeBody { roots } = read(body)?;
    let roots = bounded("roots", roots)?;
    let roots: Result<Vec<Root>, OverrideFault> = roots.iter().map(|r| root_of("roots", r)).collect();
    roots.map(OverrideRequest::Merge)
}

fn read_split(body: &Bytes) -> Result<OverrideRequest, OverrideFault> {
    let SplitBody { ids } = read(body)?;
    bounded("ids", ids).map(OverrideRequest::Split)
}

fn read_pin(body: &Bytes) -> Result<OverrideRequest, OverrideFault> {
    let PinBody { ids, root } = read(body)?;
    let root = root_of("root", &root)?;
    Ok(OverrideRequest::Pin(bounded("ids", ids)?, root))
}

/// Handles a request on overrides.
///
/// # Errors
/// When the question is wrong, or the cluster gives no answer; what the cluster refuses is its own answer.
pub(super) async fn handle(
    state: &AppState,
    raw_index: &str,
    what: Action<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    let admitted = admit(state, raw_index, what, &parts).await;
    let (admitted, _in_flight) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => {
            discard(body, &parts.headers);
            return error.into_response();
        }
    };
    let editor = match admitted {
        Admission::Editor(editor) => editor,
        Admission::Reader(reader) => {
            discard(body, &parts.headers);
            return answered(show(state, what, &reader, parts.uri.query()).await);
        }
    };
    let (request, _reservation) = match what.reads() {
        Some(reads) => {
            let (request, reservation) = body::read(state, OVERRIDE_BODY, &parts, body, reads).await?;
            (Some(request), Some(reservation))
        }
        None => {
            discard(body, &parts.headers);
            (None, None)
        }
    };
    answered(change(state, what, editor, request).await)
}

/// The result of authorisation.
enum Admission<'a> {
    Reader(ForestReader),
    Editor(ForestEditor<'a>),
}

async fn admit<'a>(
    state: &AppState,
    raw_index: &str,
    what: Action<'_>,
    parts: &'a Parts,
) -> Result<(Admission<'a>, InFlightGuard), AccessError> {
    let headers = &parts.headers;
    // A form of another site's page can send no JSON.
    let unread = encoding(headers) == Encoding::Other || !is_json(headers);
    if unread && matches!(what, Action::Merge | Action::Split | Action::Pin) {
        return Err(ProxyError::UnsupportedBody.into());
    }
    let in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping)?;
    let access = state.access();
    let admitted = match what {
        Action::List | Action::Suggestions => {
            let reader = ForestReader::admit(access, headers, raw_index);
            Admission::Reader(reader.await?)
        }
        Action::Merge | Action::Split | Action::Pin | Action::Undo(_) => {
            let editor = ForestEditor::admit(access, headers, raw_index);
            Admission::Editor(editor.await?)
        }
    };
    Ok((admitted, in_flight))
}

/// Handles a read by an authorised caller.
async fn show(
    state: &AppState,
    what: Action<'_>,
    reader: &ForestReader,
    query: Option<&str>,
) -> Result<Value, OverrideFault> {
    let index = reader.name().as_str();
    if what == Action::Suggestions {
        let (forest, late_merges) = overrides::merge_suggestions(state, reader).await?;
        return Ok(merge_suggestions(index, &forest, &late_merges));
    }
    let page = ListRequest::parse(query)?;
    let (forest, overrides) = overrides::list(state, reader).await?;
    Ok(listed(state, index, &forest, (&overrides, page)))
}

/// Handles a change by an authorised caller.
async fn change(
    state: &AppState,
    what: Action<'_>,
    editor: ForestEditor<'_>,
    request: Option<Result<OverrideRequest, OverrideFault>>,
) -> Result<Value, OverrideFault> {
    let overrides = OverrideEditor::new(state, editor)?;
    match (request.transpose()?, what) {
        (Some(OverrideRequest::Merge(roots)), _) => {
            overrides.merge(&roots).await.map(|applied| override_of("merge", applied))
        }
        (Some(OverrideRequest::Split(ids)), _) => {
            overrides.split(&ids).await.map(|applied| override_of("pin", applied))
        }
        (Some(OverrideRequest::Pin(ids, root)), _) => {
            overrides.pin(&ids, root).await.map(|applied| override_of("pin", applied))
        }
        (None, Action::Undo(number)) => {
            let bad = |_| OverrideFault::bad("the number of an override is a whole number, as _overrides lists it");
            let number = number.parse().map_err(bad)?;
            let correction = overrides.undo(number).await?;
            Ok(json!({"taken_back": shown(number, &correction)}))
        }
        (None, _) => Err(ProxyError::Internal.into()),
    }
}

fn answered(answer: Result<Value, OverrideFault>) -> Result<Response<Body>, ProxyError> {
    match answer {
        Ok(answer) => Ok(answer_json(StatusCode::OK, &answer)),
        Err(error) => error.into_response(),
    }
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, OverrideFault> {
    serde_json::from_slice(body).map_err(|error| OverrideFault::bad(&format!("the body: {error}")))
}

fn bounded(member: &str, named: NameList) -> Result<Vec<String>, OverrideFault> {
    if !(1..=MOST_NAMED).contains(&named.count) {
        let reason = format!("{member}: takes 1 to {MOST_NAMED}, not {}", named.count);
        return Err(OverrideFault::bad(&reason));
    }
    Ok(named.first)
}

/// A root as documents show it.
fn root_of(member: &str, hex: &str) -> Result<Root, OverrideFault> {
    let root = Fingerprint::written(hex, true).filter(|_| hex.len() == 16);
    let root = root.filter(|root| root.to_string().eq_ignore_ascii_case(hex));
    root.map(Root).ok_or_else(|| OverrideFault::bad(&format!("{member}: takes 16 hex digits, not {hex}")))
}

fn override_of(kind: &str, applied: Applied) -> Value {
    json!({
        "override": applied.number,
        "kind": kind,
        "result": if applied.number.is_some() { "added" } else { "noop" },
        "root": applied.root.to_string(),
        "key": applied.root.0.0.cast_signed(),
    })
}

fn shown(number: u64, correction: &Override) -> Value {
    match correction {
        Override::Merge { winner, losers } => json!({
            "override": number,
            "kind": "merge",
            "winner": winner.to_string(),
            "losers": losers.iter().map(Root::to_string).collect::<Vec<_>>(),
        }),
        Override::Pin { texts, root } => json!({
            "override": number,
            "kind": "pin",
            "root": root.to_string(),
            "texts": texts.iter().map(Fingerprint::to_string).collect::<Vec<_>>(),
        }),
        Override::LateMerge { winner, loser } => json!({
            "override": number,
            "kind": "late",
            "winner": winner.to_string(),
            "losers": [loser.to_string()],
        }),
        Override::Apart { roots } => json!({
            "override": number,
            "kind": "apart",
            "roots": roots.map(|root| root.to_string()),
        }),
    }
}

/// The range of overrides to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListRequest {
    /// The first number.
    from: u64,
    size: usize,
}

impl ListRequest {
    fn parse(query: Option<&str>) -> Result<ListRequest, OverrideFault> {
        let number = |name: &str, otherwise: u64| match parameter(query, name) {
            None => Ok(otherwise),
            Some(text) => {
                text.parse().map_err(|_| OverrideFault::bad(&format!("{name}: takes a whole number, not {text}")))
            }
        };
        let (from, size) = (number("from", 0)?, number("size", LISTED as u64)?);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size == 0 || size > MOST_LISTED {
            let reason = format!("size: takes 1 to {MOST_LISTED}, not {size}");
            return Err(OverrideFault::bad(&reason));
        }
        Ok(ListRequest { from, size })
    }
}

/// A page of overrides, and the number at which the next page begins.
fn page(overrides: &Overrides, listed: ListRequest) -> (Vec<Value>, Option<u64>) {
    let (mut page, mut named) = (Vec::new(), 0);
    for (number, correction) in overrides.iter_from(listed.from) {
        let is_full = page.len() == listed.size || named >= NAMED_LISTED;
        if is_full {
            return (page, Some(number));
        }
        named += match correction {
            Override::Merge { losers, .. } => losers.len(),
            Override::Pin { texts, .. } => texts.len(),
            Override::LateMerge { .. } | Override::Apart { .. } => 1,
        };
        page.push(shown(number, correction));
    }
    (page, None)
}

fn listed(state: &AppState, index: &str, forest: &str, (overrides, of): (&Overrides, ListRequest)) -> Value {
    let (page, next) = page(overrides, of);
    let unfinished = overrides.unfinished().map(|(number, _)| number);
    json!({
        "index": index,
        "forest": forest,
        "overrides": page,
        "total": overrides.iter().len(),
        "next": next,
        "restamping": {
            "overrides": unfinished.take(MOST_LISTED).collect::<Vec<_>>(),
            "total": overrides.unfinished().len(),
            // Readers see this; why it fails may say more than they are to know.
            "state": state.restamping.state(),
        },
    })
}

fn merge_suggestions(index: &str, forest: &str, late_merges: &LateMergeLog) -> Value {
    let suggestion = |pair: &Suggestion| {
        let roots = [pair.winner, pair.loser].map(|root| root.to_string());
        json!({
            "roots": roots,
            "documents": pair.documents,
        })
    };
    let suggestions = late_merges.suggestions.iter().take(MOST_NAMED).map(suggestion);
    json!({
        "index": index,
        "forest": forest,
        "suggestions": suggestions.collect::<Vec<_>>(),
        "suggested": late_merges.suggestions.len(),
        "applied": late_merges.applied,
        "no_room": late_merges.no_room,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_a_page_at_a_time() {
        let mut overrides = Overrides::default();
        let merge = |losers: usize| Override::Merge {
            winner: Root(Fingerprint(1)),
            losers: vec![Root(Fingerprint(2)); losers],
        };
        for number in 0..2 * LISTED as u64 + 1 {
            overrides.set(number, Some(merge(1)));
        }
        overrides.set(3, None);
        let numbers = |query: &str| {
            let (page, next) = page(&overrides, ListRequest::parse(Some(query)).unwrap());
            let number = |correction: &Value| correction["override"].as_u64().unwrap();
            (number(&page[0]), page.len(), next)
        };
        assert_eq!(numbers(""), (0, LISTED, Some(LISTED as u64 + 1)));
        assert_eq!(numbers("from=3&size=2"), (4, 2, Some(6)));
        assert_eq!(numbers("from=200"), (200, 1, None));
        for wrong in ["size=0", "size=1001", "size=-1", "from=x"] {
            assert!(ListRequest::parse(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(ListRequest::parse(Some("size=1000")).is_ok());
        // Large overrides make shorter pages.
        for number in 0..12 {
            overrides.set(number, Some(merge(MOST_NAMED)));
        }
        let (page, next) = page(&overrides, ListRequest::parse(None).unwrap());
        assert_eq!((page.len(), next), (10, Some(10)));
    }

    #[test]
    fn as_many_names_as_a_word_may_have_are_kept() {
        let split = |count: usize| {
            let body = json!({"ids": vec!["a"; count]}).to_string();
            read_split(&body.into())
        };
        let most = split(MOST_NAMED).unwrap();
        assert!(matches!(most, OverrideRequest::Split(ids) if ids.len() == MOST_NAMED));
        for wrong in [0, MOST_NAMED + 1, 50_000] {
            let error = split(wrong).map(drop).unwrap_err();
            let reason = format!("ids: takes 1 to {MOST_NAMED}, not {wrong}");
            assert_eq!(error.to_string(), reason);
        }
        let deep = format!("{{\"ids\": {}", "[".repeat(OVERRIDE_BODY.bytes));
        assert!(read_split(&deep.into()).is_err());
    }

    #[test]
    fn roots() {
        let read = |hex: &str| root_of("root", hex).ok();
        assert_eq!(read("00000000000000AB"), Some(Root(Fingerprint(0xab))));
        for other in ["", "ab", "00000000000000zz", " 0000000000000ab", "+000000000000001"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
