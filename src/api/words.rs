//! What people say about groups: `POST /_spinney/{index}/_merge`, `_split` and `_pin`, `GET /_spinney/{index}/_words` and `_merges`, and
//! `DELETE /_spinney/{index}/_words/{number}`.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::decode;
use super::check::is_one_name;
use crate::fingerprint::Fingerprint;
use crate::forest::words::{Word, Words};
use crate::forest::{Late, Root, Suggestion};
use crate::http::headers::{Encoding, encoding, is_json};
use crate::http::json::json as answer_json;
use crate::http::query::decode_segment;
use crate::http::{Body, ProxyError, body};
use crate::state::AppState;
use crate::words::{MOST_NAMED, Said, SayError, Speaker};

/// What is to be said, or listed, or taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What<'p> {
    Merge,
    Split,
    Pin,
    List,
    /// Groups that may be one.
    Suggestions,
    TakeBack(&'p str),
}

/// About the groups of which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target<'p> {
    /// As it stands in the path.
    index: &'p str,
    what: What<'p>,
}

/// What a path under `/_spinney` asks for, if it is one of these.
pub(super) fn target_of(endpoint: &str) -> Option<Target<'_>> {
    let (index, rest) = endpoint.strip_prefix('/')?.split_once('/')?;
    if index.is_empty() || index.starts_with('_') {
        return None;
    }
    let what = match rest {
        "_merge" => What::Merge,
        "_split" => What::Split,
        "_pin" => What::Pin,
        "_words" => What::List,
        "_merges" => What::Suggestions,
        _ => match rest.split_once('/')? {
            ("_words", number) if !number.is_empty() && !number.contains('/') => {
                What::TakeBack(number)
            }
            _ => return None,
        },
    };
    Some(Target { index, what })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Merge {
    roots: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Split {
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    ids: Vec<String>,
    root: String,
}

/// Answers somebody who says something about groups.
///
/// # Errors
/// When the question is wrong, or the cluster gives no answer; what the cluster refuses is its own answer.
pub(super) async fn handle(
    state: &AppState,
    target: Target<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, body) = request.into_parts();
    if let Some(error) = refuse(target.what, &parts) {
        body::discard(body, &parts.headers);
        return Err(error);
    }
    let index = decode_segment(target.index).into_owned();
    if !is_one_name(&index) {
        body::discard(body, &parts.headers);
        return Err(ProxyError::NotOneIndex(index));
    }
    let _in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping)?;
    let buffered = body::buffer(&state.budget, state.body_timeout, &parts, body).await?;
    let (text, _reservation) = decode(state, buffered, encoding(&parts.headers)).await?;
    let answer = async {
        let speaker = Speaker::new(state, &parts.headers, target.index, index.clone())?;
        match target.what {
            What::Merge => {
                let Merge { roots } = read(&text)?;
                let roots = bounded("roots", roots)?;
                let roots: Result<Vec<Root>, SayError> =
                    roots.iter().map(|r| root_of("roots", r)).collect();
                speaker.merge(&roots?).await.map(|said| told("merge", said))
            }
            What::Split => {
                let Split { ids } = read(&text)?;
                let said = speaker.split(&bounded("ids", ids)?).await;
                said.map(|said| told("pin", said))
            }
            What::Pin => {
                let Pin { ids, root } = read(&text)?;
                let root = root_of("root", &root)?;
                let said = speaker.pin(&bounded("ids", ids)?, root).await;
                said.map(|said| told("pin", said))
            }
            What::List => {
                let (forest, words) = speaker.list().await?;
                Ok(listed(state, &index, &forest, &words))
            }
            What::Suggestions => {
                let (forest, late) = speaker.may_be_one().await?;
                Ok(may_be_one(&index, &forest, &late))
            }
            What::TakeBack(number) => {
                let bad =
                    |_| SayError::bad("the number of a word is a whole number, as _words lists it");
                let number = number.parse().map_err(bad)?;
                let word = speaker.take_back(number).await?;
                Ok(json!({"taken_back": shown(number, &word)}))
            }
        }
    };
    match answer.await {
        Ok(answer) => Ok(answer_json(StatusCode::OK, &answer)),
        Err(error) => error.into_response(),
    }
}

/// Why a request is not even read.
fn refuse(what: What<'_>, parts: &Parts) -> Option<ProxyError> {
    match what {
        What::List | What::Suggestions => {
            let reads = parts.method == Method::GET || parts.method == Method::HEAD;
            (!reads).then_some(ProxyError::GetOnly)
        }
        What::TakeBack(_) => (parts.method != Method::DELETE).then_some(ProxyError::DeleteOnly),
        What::Merge | What::Split | What::Pin => {
            if parts.method != Method::POST {
                return Some(ProxyError::PostOnly);
            }
            // A form of another site's page can send no JSON.
            let unread = encoding(&parts.headers) == Encoding::Other || !is_json(&parts.headers);
            unread.then_some(ProxyError::UnsupportedBody)
        }
    }
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, SayError> {
    serde_json::from_slice(body).map_err(|error| SayError::bad(&format!("the body: {error}")))
}

fn bounded(member: &str, named: Vec<String>) -> Result<Vec<String>, SayError> {
    if named.is_empty() || named.len() > MOST_NAMED {
        let reason = format!("{member}: takes 1 to {MOST_NAMED}, not {}", named.len());
        return Err(SayError::bad(&reason));
    }
    Ok(named)
}

/// A root as documents show it.
fn root_of(member: &str, hex: &str) -> Result<Root, SayError> {
    let root = Fingerprint::written(hex, true).filter(|_| hex.len() == 16);
    let root = root.filter(|root| root.to_string().eq_ignore_ascii_case(hex));
    root.map(Root)
        .ok_or_else(|| SayError::bad(&format!("{member}: takes 16 hex digits, not {hex}")))
}

fn told(kind: &str, said: Said) -> Value {
    json!({
        "word": said.number,
        "kind": kind,
        "result": if said.number.is_some() { "said" } else { "noop" },
        "root": said.root.to_string(),
        "key": said.root.0.0.cast_signed(),
    })
}

fn shown(number: u64, word: &Word) -> Value {
    match word {
        Word::Merge { winner, losers } => json!({
            "word": number,
            "kind": "merge",
            "winner": winner.to_string(),
            "losers": losers.iter().map(Root::to_string).collect::<Vec<_>>(),
        }),
        Word::Pin { texts, root } => json!({
            "word": number,
            "kind": "pin",
            "root": root.to_string(),
            "texts": texts.iter().map(Fingerprint::to_string).collect::<Vec<_>>(),
        }),
        Word::Late { winner, loser } => json!({
            "word": number,
            "kind": "late",
            "winner": winner.to_string(),
            "losers": [loser.to_string()],
        }),
        Word::Apart { roots } => json!({
            "word": number,
            "kind": "apart",
            "roots": roots.map(|root| root.to_string()),
        }),
    }
}

fn listed(state: &AppState, index: &str, forest: &str, words: &Words) -> Value {
    let said = words.said().map(|(number, word)| shown(number, word));
    let unfinished = words.unfinished().map(|(number, _)| number);
    json!({
        "index": index,
        "forest": forest,
        "words": said.collect::<Vec<_>>(),
        "restamping": {
            "words": unfinished.collect::<Vec<_>>(),
            // Readers see this; why it fails may say more than they are to know.
            "state": state.restamping.state(),
        },
    })
}

fn may_be_one(index: &str, forest: &str, late: &Late) -> Value {
    let suggestion = |pair: &Suggestion| {
        let roots = [pair.winner, pair.loser].map(|root| root.to_string());
        json!({
            "roots": roots,
            "documents": pair.documents,
        })
    };
    let suggestions = late.suggestions.iter().take(MOST_NAMED).map(suggestion);
    json!({
        "index": index,
        "forest": forest,
        "suggestions": suggestions.collect::<Vec<_>>(),
        "suggested": late.suggestions.len(),
        "applied": late.applied,
        "no_room": late.no_room,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let target = |index, what| Some(Target { index, what });
        assert_eq!(target_of("/a/_merge"), target("a", What::Merge));
        assert_eq!(target_of("/a%2A/_split"), target("a%2A", What::Split));
        assert_eq!(target_of("/a/_pin"), target("a", What::Pin));
        assert_eq!(target_of("/a/_words"), target("a", What::List));
        assert_eq!(target_of("/a/_merges"), target("a", What::Suggestions));
        assert_eq!(target_of("/a/_words/7"), target("a", What::TakeBack("7")));
        for other in [
            "/_words",
            "/_all/_words",
            "/a/_words/7/8",
            "/a/_words/",
            "/a/b/_pin",
            "//_pin",
            "",
        ] {
            assert_eq!(target_of(other), None, "{other}");
        }
    }

    #[test]
    fn roots() {
        let read = |hex: &str| root_of("root", hex).ok();
        assert_eq!(read("00000000000000AB"), Some(Root(Fingerprint(0xab))));
        for other in [
            "",
            "ab",
            "00000000000000zz",
            " 0000000000000ab",
            "+000000000000001",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
