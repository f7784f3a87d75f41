//! `GET /docId/getDocId?json={…}`: the interface of a service that assigns one docId to similar articles. The path can
//! be no index: their names have no capitals.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ANSWER_BYTES;
use super::body;
use crate::docid::{ARTICLE_BYTES, Article, DocIds};
use crate::engine::{StampError, StampedArticle};
use crate::http::browser::is_of_another_page;
use crate::http::budget::Reservation;
use crate::http::headers::{Encoding, encoding};
use crate::http::json::{JSON, with_type};
use crate::http::query::parameter;
use crate::http::{Body, ProxyError, body::discard, full};
use crate::state::AppState;

const PATH: &str = "/docId/getDocId";

/// A form with one article, each byte percent-encoded. Parsed, the article is held three times: as text, for
/// placement, and for the cache.
const FORM: body::Limit = body::Limit { bytes: 3 * ARTICLE_BYTES + (1 << 10), times: 3 };

/// The members of a response, in the order of that service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DocIdAnswer<'a> {
    filter_reason: String,
    doc_id: String,
    filter_status: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hottest: Option<&'a RawValue>,
}

/// Handles a request for the docId of an article.
///
/// # Errors
/// When the caller may not ask, or there is no article; refusals of the cluster are returned as they are.
pub(super) async fn handle(state: &AppState, request: Request<Incoming>) -> Result<Response<Body>, ProxyError> {
    let no_endpoint = || ProxyError::NoEndpoint(PATH.into());
    let docids = state.docids.as_ref().ok_or_else(no_endpoint)?;
    let (parts, body) = request.into_parts();
    let denied = match refuse(&parts) {
        Some(error) => Err(error),
        None => denied(state, docids, &parts.headers).await,
    };
    let in_flight = state.in_flight.enter().ok_or(ProxyError::Stopping);
    let _in_flight = match (denied, in_flight) {
        (Ok(None), Ok(in_flight)) => in_flight,
        (denied, in_flight) => {
            discard(body, &parts.headers);
            return match denied? {
                Some(answer) => Ok(answer),
                None => in_flight.and(Err(ProxyError::Stopping)),
            };
        }
    };
    let (asked, _reservation) = match read_form(state, &parts, body).await? {
        Some((asked, reservation)) => (asked, Some(reservation)),
        None => (DocIdQuestion::read(parts.uri.query()), None),
    };
    let DocIdQuestion { article, text } = asked?;
    let context = state.request_context(0);
    let placed = state.engine.place_article(text, &docids.index, context).await;
    let placed = placed.map_err(|error| stamp_error(state, error))?;
    let placed = placed.ok_or_else(|| {
        ProxyError::BadRequest("json: the article has no words in url, title or content, so it is like no other".into())
    })?;
    let counters = &state.metrics.counters;
    counters.docid_articles.inc();
    counters.docid_repeats.inc_by(placed.stage.is_some().into());
    let hottest = docids.note(placed.root, article, context.now);
    answer(placed, hottest.as_deref())
}

/// A parsed request: the article, and its text.
struct DocIdQuestion {
    article: Article,
    text: Bytes,
}

impl DocIdQuestion {
    /// Reads the parameters of an address or a form.
    fn read(parameters: Option<&str>) -> Result<DocIdQuestion, ProxyError> {
        let json = parameter(parameters, "json").ok_or_else(|| {
            ProxyError::BadRequest(
                "there is no article: send it as the parameter json, one JSON object with url, title and content"
                    .into(),
            )
        })?;
        let article = Article::parse(&json).map_err(|error| ProxyError::BadRequest(error.to_string()))?;
        let text = Bytes::from(json.into_owned());
        Ok(DocIdQuestion { article, text })
    }
}

/// The refusal of a cross-origin request, whose body is not read. A page of somebody else's, open in a browser, could
/// place articles with the rights of whoever looks at it: an image is enough to send a `GET`.
fn refuse(parts: &Parts) -> Option<ProxyError> {
    is_of_another_page(&parts.headers).then(|| {
        ProxyError::NotForReaders(
            "a page of another site asks: an article is placed for programs and for spinney's own address only".into(),
        )
    })
}

/// The cluster's refusal, if the caller may not search the index. An answer says whether a text like this one is known,
/// so it takes the right to search the index; and it changes the forest, so it takes a right that mere readers are not
/// given.
async fn denied(state: &AppState, docids: &DocIds, caller: &HeaderMap) -> Result<Option<Response<Body>>, ProxyError> {
    let raw_index = utf8_percent_encode(&docids.index, NON_ALPHANUMERIC).to_string();
    let (monitors, searches) =
        tokio::join!(state.cluster.refuses_health(caller), denied_search(state, &raw_index, &docids.index, caller),);
    match monitors? {
        Some(answer) => Ok(Some(answer.map(full))),
        None => searches,
    }
}

/// The refusal of a caller without the search privilege, which `_count` requires and nothing else. It is the operator
/// who has named this index, so that one which does not exist is no way to another one's forest; the servers answer 403
/// before 404. `ignore_unavailable` must not be added: with it the security layers pass over what the caller may not
/// see and answer 200.
async fn denied_search(
    state: &AppState,
    raw_index: &str,
    index: &str,
    caller: &HeaderMap,
) -> Result<Option<Response<Body>>, ProxyError> {
    let path = format!("/{raw_index}/_count?terminate_after=1");
    let answer = state.cluster.get_as(caller, &path, ANSWER_BYTES).await?;
    // A load balancer has pages of its own for every status, and they are no consent.
    let parsed: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    if answer.status() == StatusCode::NOT_FOUND && is_index_not_found(&parsed) {
        return Ok(None);
    }
    if !answer.status().is_success() {
        return Ok(Some(answer.map(full)));
    }
    if parsed.get("count").and_then(Value::as_u64).is_none() {
        return Err(ProxyError::NotTheCluster("GET /INDEX/_count"));
    }
    // OpenSearch can be configured to search nothing instead of refusing; any index has a shard.
    match parsed.pointer("/_shards/total").and_then(Value::as_u64) {
        Some(1..) => Ok(None),
        _ => Err(ProxyError::NotShown(index.to_owned())),
    }
}

/// Whether this is the servers' response for a missing index.
fn is_index_not_found(parsed: &Value) -> bool {
    let kind = parsed.pointer("/error/type").and_then(Value::as_str);
    let status = parsed.get("status").and_then(Value::as_u64);
    kind == Some("index_not_found_exception") && status == Some(404)
}

/// The body of a `POST`, a form.
async fn read_form(
    state: &AppState,
    parts: &Parts,
    body: Incoming,
) -> Result<Option<(Result<DocIdQuestion, ProxyError>, Reservation)>, ProxyError> {
    if parts.method != Method::POST {
        discard(body, &parts.headers);
        return Ok(None);
    }
    if !is_form(&parts.headers) || encoding(&parts.headers) == Encoding::Other {
        discard(body, &parts.headers);
        return Err(ProxyError::BadRequest(
            "a POST is a form: send json=… as application/x-www-form-urlencoded, with gzip, deflate or no encoding"
                .into(),
        ));
    }
    let asked = |form: &Bytes| DocIdQuestion::read(std::str::from_utf8(form).ok());
    body::read(state, FORM, parts, body, asked).await.map(Some)
}

fn is_form(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}

fn stamp_error(state: &AppState, error: StampError) -> ProxyError {
    match error {
        StampError::Unavailable(reason) => state.engine_failed(&reason),
        StampError::NotUnderstood(reason) => ProxyError::BadRequest(format!("json: {reason}")),
    }
}

fn answer(placed: StampedArticle, hottest: Option<&RawValue>) -> Result<Response<Body>, ProxyError> {
    let answer = DocIdAnswer {
        filter_reason: match placed.stage {
            None => "docId_filter good news".into(),
            Some(stage) => format!("docId_filter {stage} repeat"),
        },
        doc_id: placed.root.to_string(),
        filter_status: match placed.stage {
            None => "good",
            Some(_) => "repeat",
        },
        status: "success",
        hottest,
    };
    let text = serde_json::to_string(&answer).map_err(|_| ProxyError::Internal)?;
    Ok(with_type(StatusCode::OK, JSON, text))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::forest::Root;
    use crate::method::Stage;

    #[tokio::test]
    async fn an_answer_has_the_members_of_such_a_service() {
        let parsed = |stage, hottest| async move {
            let root = Root(Fingerprint(0xab));
            let response = answer(StampedArticle { root, stage }, hottest).unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert_eq!(
            parsed(None, None).await,
            r#"{"filterReason":"docId_filter good news","docId":"00000000000000ab","filterStatus":"good","status":"success"}"#
        );
        let hottest: &RawValue = serde_json::from_str(r#"{"heat" : 1.50}"#).unwrap();
        assert_eq!(
            parsed(Some(Stage::Content), Some(hottest)).await,
            r#"{"filterReason":"docId_filter content repeat","docId":"00000000000000ab","filterStatus":"repeat","status":"success","hottest":{"heat" : 1.50}}"#
        );
    }

    #[test]
    fn forms() {
        for (value, expected) in [
            ("application/x-www-form-urlencoded", true),
            ("Application/X-WWW-Form-Urlencoded; charset=UTF-8", true),
            ("application/json", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, value.parse().unwrap())]);
            assert_eq!(is_form(&headers), expected, "{value}");
        }
        assert!(!is_form(&HeaderMap::new()));
    }
}
