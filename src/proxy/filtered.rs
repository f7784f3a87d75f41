//! Bulks whose sender wants to see a part of the answer only (`filter_path`). Where that part does not have the status of every
//! item, the cluster is asked for it too, and the sender gets what it asked for.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH};
use hyper::http::{request, response};
use hyper::{HeaderMap, Response, Uri};

use super::placement::PlacementGuard;
use crate::bulk::{FilterPath, ResponseScanner, STATUS_OF_ITEMS};
use crate::engine::Resolution;
use crate::http::headers::{self, set_length};
use crate::http::query::parameter;
use crate::http::{Body, ProxyError, full};
use crate::shutdown::InFlightGuard;

/// Makes a request ask for the status of every item. Answers with what its sender asked for; `None` if that has it already,
/// or if it is not known here what the answer will look like: then the request stays as it is.
pub(super) fn ask_for_status(parts: &mut request::Parts) -> Option<FilterPath> {
    // Some servers read a semicolon as the end of a parameter, too.
    let query = parts.uri.query().filter(|query| !query.contains(';'))?;
    let filter = FilterPath::parse(&parameter(Some(query), "filter_path")?)?;
    let pretty = parameter(Some(query), "pretty").is_some_and(|value| value != "false");
    let other_format = parameter(Some(query), "format").is_some_and(|format| format != "json");
    if filter.keeps_status() || pretty || other_format || !wants_json(&parts.headers) {
        return None;
    }
    parts.uri = widened(&parts.uri, query)?;
    // What is to be read here and written again comes as it is.
    parts.headers.remove(ACCEPT_ENCODING);
    Some(filter)
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().all(|accept| {
        let accept = accept.to_str().unwrap_or_default();
        accept.contains("json") || accept.contains("*/*")
    })
}

/// The address with a longer filter. All else stays as it was written.
fn widened(uri: &Uri, query: &str) -> Option<Uri> {
    let is_filter = |pair: &str| {
        let mut name = form_urlencoded::parse(pair.as_bytes());
        name.next().is_some_and(|(name, _)| name == "filter_path")
    };
    let pairs: Vec<&str> = query.split('&').collect();
    if pairs.iter().filter(|pair| is_filter(pair)).count() != 1 {
        return None;
    }
    let widened: Vec<String> = pairs
        .into_iter()
        .map(|pair| match is_filter(pair) {
            true => format!("{pair}{STATUS_OF_ITEMS}"),
            false => pair.to_owned(),
        })
        .collect();
    let path_and_query = format!("{}?{}", uri.path(), widened.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Reads the answer, settles the documents by it, and answers with the part that was asked for.
///
/// # Errors
/// When the answer breaks off.
pub(super) async fn answer(
    response: Response<Incoming>,
    filter: &FilterPath,
    placement: PlacementGuard,
    in_flight: InFlightGuard,
) -> Result<Response<Body>, ProxyError> {
    let (mut parts, body): (response::Parts, Incoming) = response.into_parts();
    let whole = body.collect().await;
    let whole = whole
        .map_err(|error| ProxyError::Broken(error.to_string()))?
        .to_bytes();
    let mut scanner = ResponseScanner::default();
    scanner.push(&whole);
    placement
        .settle_and_wait(Resolution::Items(scanner.finish()))
        .await;
    let part = match headers::is_json(&parts.headers) {
        true => filter.apply(&whole).map(Bytes::from),
        false => None,
    };
    let part = part.unwrap_or(whole);
    if parts.headers.contains_key(CONTENT_LENGTH) {
        set_length(&mut parts.headers, part.len() as u64);
    }
    drop(in_flight);
    Ok(Response::from_parts(parts, full(part)))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn asked(uri: &str, accept: Option<&str>) -> (Option<FilterPath>, String) {
        let mut request = Request::post(uri).header(ACCEPT_ENCODING, "gzip");
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let filter = ask_for_status(&mut parts);
        assert_eq!(
            parts.headers.contains_key(ACCEPT_ENCODING),
            filter.is_none()
        );
        (filter, parts.uri.to_string())
    }

    #[test]
    fn requests_ask_for_the_status_too() {
        for (uri, widened) in [
            (
                "/_bulk?filter_path=took",
                "/_bulk?filter_path=took%2Citems.*.status",
            ),
            (
                "/a/_bulk?refresh&filter%5Fpath=took%2Cerrors&x=%20",
                "/a/_bulk?refresh&filter%5Fpath=took%2Cerrors%2Citems.*.status&x=%20",
            ),
        ] {
            let (filter, asked) = asked(uri, None);
            assert!(filter.is_some(), "{uri}");
            assert_eq!(asked, widened);
        }
        assert!(
            asked("/_bulk?filter_path=took", Some("application/json"))
                .0
                .is_some()
        );
    }

    #[test]
    fn requests_that_stay_as_they_are() {
        for (uri, accept) in [
            ("/_bulk", None),
            ("/_bulk?refresh", None),
            ("/_bulk?filter_path", None),
            ("/_bulk?filter_path=items", None),
            ("/_bulk?filter_path=errors,items.*.status", None),
            ("/_bulk?filter_path=-took", None),
            ("/_bulk?filter_path=took&filter_path=errors", None),
            ("/_bulk?filter_path=took;pretty", None),
            ("/_bulk?filter_path=took&pretty", None),
            ("/_bulk?filter_path=took&format=yaml", None),
            ("/_bulk?filter_path=took", Some("application/yaml")),
        ] {
            let (filter, asked) = asked(uri, accept);
            assert_eq!((filter, asked.as_str()), (None, uri));
        }
    }
}
