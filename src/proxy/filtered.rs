//! Bulk requests with `filter_path`. If the filter hides the status, result or document of an item, the cluster is
//! asked for them as well, and the client gets the filtered response it asked for.

use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH};
use hyper::http::{request, response};
use hyper::{HeaderMap, Response, Uri};

use super::placement::SettleGuard;
use super::response_body::{Answers, ResponseBody};
use crate::bulk::{FilterPath, OUTCOME_OF_ITEMS, ResponseScanner};
use crate::cluster::AnswerBody;
use crate::engine::Resolution;
use crate::http::budget::Reservation;
use crate::http::headers::{self, set_length};
use crate::http::query::parameter;
use crate::http::{Body, ProxyError, full};
use crate::shutdown::InFlightGuard;
use crate::state::AppState;

/// Decoded `filter_path` of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedParts(String);

/// Adds status and result of every item to the request's `filter_path`. Returns the client's filter; `None` if that
/// includes them, or if the shape of the response cannot be predicted: then the request stays as it is. The filter of
/// an unverified writer is not evaluated before the cluster has answered.
pub(super) fn ask_for_outcome(parts: &mut request::Parts, is_unverified: bool) -> Option<WantedParts> {
    // Some servers read a semicolon as the end of a parameter, too.
    let query = parts.uri.query().filter(|query| !query.contains(';'))?;
    let wanted = parameter(Some(query), "filter_path")?.into_owned();
    let has_it = match is_unverified {
        true => !FilterPath::is_understood(&wanted),
        false => FilterPath::parse(&wanted)?.keeps_outcome(),
    };
    let pretty = parameter(Some(query), "pretty").is_some_and(|value| value != "false");
    let other_format = parameter(Some(query), "format").is_some_and(|format| format != "json");
    if has_it || pretty || other_format || !wants_json(&parts.headers) {
        return None;
    }
    parts.uri = with_longer_filter(&parts.uri, query)?;
    // The response is read and rewritten, so it must not be compressed.
    parts.headers.remove(ACCEPT_ENCODING);
    Some(WantedParts(wanted))
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().all(|accept| {
        let accept = accept.to_str().unwrap_or_default();
        accept.contains("json") || accept.contains("*/*")
    })
}

/// The address with a longer filter. All else stays as it was written.
fn with_longer_filter(uri: &Uri, query: &str) -> Option<Uri> {
    let is_filter = |pair: &str| {
        let mut name = form_urlencoded::parse(pair.as_bytes());
        name.next().is_some_and(|(name, _)| name == "filter_path")
    };
    let pairs: Vec<&str> = query.split('&').collect();
    if pairs.iter().filter(|pair| is_filter(pair)).count() != 1 {
        return None;
    }
    let with_longer_filter: Vec<String> = pairs
        .into_iter()
        .map(|pair| match is_filter(pair) {
            true => format!("{pair}{OUTCOME_OF_ITEMS}"),
            false => pair.to_owned(),
        })
        .collect();
    let path_and_query = format!("{}?{}", uri.path(), with_longer_filter.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Memory of a response as a multiple of its size: the original, growth, and the filtered copy.
const TIMES: usize = 3;

/// Largest response that is filtered on a thread that serves connections.
const FILTER_INLINE: usize = 4 << 10;

/// Timeout from the beginning to the end of a response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Reads the response, settles the documents, and returns the requested part. The client gets an answer that does not
/// fit into the budget as it comes, with more in it than was asked for.
///
/// # Errors
/// When the answer breaks off, or does not end.
pub(super) async fn answer(
    state: &AppState,
    response: Response<AnswerBody>,
    wanted: WantedParts,
    mut reservation: Reservation,
    placement: SettleGuard,
    in_flight: InFlightGuard,
) -> Result<Response<Body>, ProxyError> {
    let (mut parts, mut body): (response::Parts, AnswerBody) = response.into_parts();
    let read = tokio::time::timeout(ANSWER_TIMEOUT, read(&mut body, &mut reservation)).await;
    let read = read.unwrap_or_else(|_| Err(ProxyError::Broken("the answer did not end".into())))?;
    let whole = match read {
        Read::Whole(whole) => whole,
        Read::TooLong(begin) => {
            let body = Resumed { begin: Some(begin), rest: body, _reservation: reservation };
            let body = ResponseBody::settling(body, in_flight, &parts.headers, Answers::Items, placement);
            return Ok(Response::from_parts(parts, body.boxed()));
        }
    };
    let (is_json, answer) = (headers::is_json(&parts.headers), whole.clone());
    let scan = move || {
        let mut scanner = ResponseScanner::default();
        scanner.push(&answer);
        let filter = FilterPath::parse(&wanted.0).filter(|_| is_json);
        let part = filter.and_then(|filter| filter.apply(&answer));
        (scanner.finish(), part)
    };
    let scanned = match whole.len() <= FILTER_INLINE {
        true => Ok(scan()),
        false => state.engine.run(scan).await,
    };
    let part = match scanned {
        Ok((outcome, part)) => {
            placement.settle_and_wait(Resolution::Items(outcome)).await;
            part.map_or(whole, Bytes::from)
        }
        // The write has been answered, so the client gets the whole response.
        Err(reason) => {
            drop(state.engine_failed(&reason));
            placement.leave_unknown().await;
            whole
        }
    };
    if parts.headers.contains_key(CONTENT_LENGTH) {
        set_length(&mut parts.headers, part.len() as u64);
    }
    drop(in_flight);
    Ok(Response::from_parts(parts, full(part)))
}

enum Read {
    Whole(Bytes),
    /// The part read of a response that exceeds the budget.
    TooLong(Bytes),
}

/// Reads a body within the budget.
async fn read<B>(body: &mut B, reservation: &mut Reservation) -> Result<Read, ProxyError>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ProxyError::Broken(error.to_string()))?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        whole.extend_from_slice(data);
        if reservation.grow_to(whole.len() * TIMES).is_err() {
            return Ok(Read::TooLong(whole.freeze()));
        }
    }
    Ok(Read::Whole(whole.freeze()))
}

/// A body whose beginning was read already.
struct Resumed<B> {
    begin: Option<Bytes>,
    rest: B,
    _reservation: Reservation,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Resumed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.begin.take() {
            Some(begin) => Poll::Ready(Some(Ok(Frame::data(begin)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let begun = self.begin.as_ref().map_or(0, Bytes::len) as u64;
        let mut hint = self.rest.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + begun);
        }
        hint.set_lower(hint.lower() + begun);
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use hyper::Request;

    use super::super::response_body::tests::Chunked;
    use super::*;
    use crate::http::budget::Budget;

    fn asked(uri: &str, accept: Option<&str>) -> (Option<WantedParts>, String) {
        asked_by(uri, accept, false)
    }

    fn asked_by(uri: &str, accept: Option<&str>, is_unverified: bool) -> (Option<WantedParts>, String) {
        let mut request = Request::post(uri).header(ACCEPT_ENCODING, "gzip");
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let filter = ask_for_outcome(&mut parts, is_unverified);
        assert_eq!(parts.headers.contains_key(ACCEPT_ENCODING), filter.is_none());
        (filter, parts.uri.to_string())
    }

    #[test]
    fn requests_ask_for_the_outcome_too() {
        for (uri, with_longer_filter) in [
            ("/_bulk?filter_path=took", "/_bulk?filter_path=took%2Citems.*.status%2Citems.*.result%2Citems.*._index"),
            (
                "/a/_bulk?refresh&filter%5Fpath=took%2Cerrors&x=%20",
                "/a/_bulk?refresh&filter%5Fpath=took%2Cerrors%2Citems.*.status%2Citems.*.result%2Citems.*._index&x=%20",
            ),
        ] {
            let (filter, asked) = asked(uri, None);
            assert!(filter.is_some(), "{uri}");
            assert_eq!(asked, with_longer_filter);
        }
        assert!(asked("/_bulk?filter_path=took", Some("application/json")).0.is_some());
    }

    /// What an unverified writer asks for is not looked at more closely than it takes to read it once.
    #[test]
    fn unverified_ask_for_the_outcome_in_any_case() {
        for filter in ["took", "items", "**.**.status,**.*", "*"] {
            let uri = format!("/_bulk?filter_path={filter}");
            let (wanted, asked) = asked_by(&uri, None, true);
            assert_eq!(wanted, Some(WantedParts(filter.into())));
            assert_eq!(asked, format!("{uri}{OUTCOME_OF_ITEMS}"));
        }
        for filter in ["-took", "a%5Cb", "", &vec!["**"; 1300].join(".")] {
            let uri = format!("/_bulk?filter_path={filter}");
            assert_eq!(asked_by(&uri, None, true), (None, uri));
        }
    }

    #[tokio::test]
    async fn an_answer_without_room_comes_as_it_is() {
        let text = |length| "an answer ".repeat(length);
        let body = |length| Chunked::new(text(length).as_bytes(), 10);
        let budget = Budget::new(TIMES * 50, 100);
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut reservation = budget.enter(client);
        let whole = read(&mut body(5), &mut reservation).await.unwrap();
        assert!(matches!(whole, Read::Whole(whole) if whole == text(5)));
        drop(reservation);
        let (mut long, mut reservation) = (body(9), budget.enter(client));
        let Read::TooLong(begin) = read(&mut long, &mut reservation).await.unwrap() else {
            panic!("more than the budget");
        };
        let resumed = Resumed { begin: Some(begin), rest: long, _reservation: reservation };
        assert!(!resumed.is_end_stream() && resumed.size_hint().lower() > 0);
        let all = resumed.collect().await.unwrap().to_bytes();
        assert_eq!(all, text(9));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn requests_that_stay_as_they_are() {
        for (uri, accept) in [
            ("/_bulk", None),
            ("/_bulk?refresh", None),
            ("/_bulk?filter_path", None),
            ("/_bulk?filter_path=items", None),
            ("/_bulk?filter_path=errors,items.*.status,items.*.result,items.*._*", None),
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
