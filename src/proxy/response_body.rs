//! Response bodies on their way to the client. The response to a write is scanned while it streams through unchanged.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tracing::{Instrument, Span};

use super::detached::Detached;
use super::placement::SettleGuard;
use crate::bulk::ResponseScanner;
use crate::cluster::AnswerBody;
use crate::engine::Resolution;
use crate::http::headers::{Encoding, encoding};
use crate::http::{Body, BoxError};
use crate::shutdown::InFlightGuard;

/// The body of a response to the client, scanned for outcomes as it passes. The request is in flight until this is
/// dropped.
///
/// The last chunk of a write's response is held back until its documents are settled: a client that has read the
/// response finds the effect in `_stats`, and its next write meets no node that is about to be withdrawn.
///
/// If the client disconnects earlier, a task reads the rest: the outcome at the cluster does not depend on the
/// client.
pub(super) struct ResponseBody<B = AnswerBody>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
{
    /// `None` once a task reads the rest.
    inner: Option<B>,
    phase: Phase,
    in_flight: InFlightGuard,
}

/// Timeout for the rest of a response after the client has left.
const REST_TIMEOUT: Duration = Duration::from_secs(60);

enum Phase {
    /// Nothing is to be read, or everything has been.
    Relay,
    /// The response to a write is read as it passes.
    Scan { scanner: Scanner, placement: SettleGuard },
    /// Read to its end; the last frame, if any, waits until the documents are settled.
    Settle { settling: Detached<()>, last: Option<Frame<Bytes>> },
}

/// Kind of items in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The items of a bulk.
    Items,
    /// One document, with this status.
    Document(StatusCode),
}

/// Extracts the outcome of documents from a response in any supported encoding.
struct Scanner {
    answers: Answers,
    decoder: Decoder,
}

enum Decoder {
    Plain(ScannerSink),
    Gzip(Box<MultiGzDecoder<ScannerSink>>),
    /// The encoding is not known here, or broken.
    Unreadable,
}

#[derive(Default)]
struct ScannerSink(ResponseScanner);

impl std::io::Write for ScannerSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Scanner {
    fn new(encoding: Encoding, answers: Answers) -> Scanner {
        let sink = ScannerSink::default();
        let decoder = match encoding {
            Encoding::Identity => Decoder::Plain(sink),
            Encoding::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(sink))),
            // Neither was offered to the cluster.
            Encoding::Deflate | Encoding::Other => Decoder::Unreadable,
        };
        Scanner { answers, decoder }
    }

    fn push(&mut self, data: &[u8]) {
        let readable = match &mut self.decoder {
            Decoder::Plain(sink) => {
                sink.0.push(data);
                true
            }
            Decoder::Gzip(decoder) => decoder.write_all(data).is_ok(),
            Decoder::Unreadable => false,
        };
        if !readable {
            self.decoder = Decoder::Unreadable;
        }
    }

    /// Returns the outcome after the whole response.
    fn finish(self) -> Resolution {
        let scanner = match self.decoder {
            Decoder::Plain(sink) => Some(sink.0),
            Decoder::Gzip(decoder) => decoder.finish().ok().map(|sink| sink.0),
            Decoder::Unreadable => None,
        };
        let outcome = scanner.map(ResponseScanner::finish);
        match (self.answers, outcome) {
            (Answers::Items, Some(outcome)) => Resolution::Items(outcome),
            (Answers::Items, None) => Resolution::Unknown,
            (Answers::Document(_), Some(outcome)) if outcome.well_formed && outcome.whole_is_unchanged => {
                Resolution::Unchanged
            }
            (Answers::Document(status), Some(outcome)) => Resolution::Document(status.as_u16(), outcome),
            (Answers::Document(status), None) => Resolution::Status(status.as_u16()),
        }
    }
}

impl<B: HttpBody<Data = Bytes> + Send + Unpin + 'static> ResponseBody<B> {
    /// A response that is only relayed.
    pub(super) fn relay(inner: B, in_flight: InFlightGuard) -> ResponseBody<B> {
        ResponseBody { inner: Some(inner), phase: Phase::Relay, in_flight }
    }

    /// Wraps a response that settles documents by its items. If it breaks off, their outcome is indeterminate.
    pub(super) fn settling(
        inner: B,
        in_flight: InFlightGuard,
        headers: &HeaderMap,
        answers: Answers,
        placement: SettleGuard,
    ) -> ResponseBody<B> {
        ResponseBody {
            inner: Some(inner),
            phase: Phase::Scan { scanner: Scanner::new(encoding(headers), answers), placement },
            in_flight,
        }
    }

    fn is_at_end(&self) -> bool {
        self.inner.as_ref().is_none_or(B::is_end_stream)
    }

    /// Begins to settle; `last` waits for it. Gives `last` back if there is nothing to settle.
    fn settle(&mut self, last: Option<Frame<Bytes>>) -> Result<(), Option<Frame<Bytes>>> {
        match std::mem::replace(&mut self.phase, Phase::Relay) {
            Phase::Scan { scanner, placement } => {
                let settling = placement.settle(scanner.finish());
                self.phase = Phase::Settle { settling, last };
                Ok(())
            }
            other => {
                self.phase = other;
                Err(last)
            }
        }
    }
}

impl<B> ResponseBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    /// Boxes it as a [`Body`].
    pub(super) fn boxed(self) -> Body {
        self.boxed_unsync()
    }
}

impl<B> HttpBody for ResponseBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Phase::Settle { settling, last } = &mut self.phase {
                // A panic in it has been logged by the panic hook; the response is the cluster's all the same.
                let _ = ready!(Pin::new(settling).poll(cx));
                let last = last.take();
                self.phase = Phase::Relay;
                return Poll::Ready(last.map(Ok));
            }
            let Some(inner) = &mut self.inner else {
                return Poll::Ready(None);
            };
            match ready!(Pin::new(inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let (Phase::Scan { scanner, .. }, Some(data)) = (&mut self.phase, frame.data_ref()) {
                        scanner.push(data);
                    }
                    // With a known length this is the end: the final `None` is not polled.
                    if !self.is_at_end() {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    if let Err(last) = self.settle(Some(frame)) {
                        return Poll::Ready(last.map(Ok));
                    }
                }
                Some(Err(error)) => {
                    // The rest is unknown.
                    self.phase = Phase::Relay;
                    return Poll::Ready(Some(Err(Box::new(error))));
                }
                None => {
                    if self.settle(None).is_err() {
                        return Poll::Ready(None);
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.phase, Phase::Settle { .. }) && self.is_at_end()
    }

    fn size_hint(&self) -> SizeHint {
        let held = match &self.phase {
            Phase::Settle { last: Some(frame), .. } => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let mut hint = self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), B::size_hint);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + held as u64);
        }
        hint.set_lower(hint.lower() + held as u64);
        hint
    }
}

impl<B> Drop for ResponseBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Scan { .. }) {
            return;
        }
        // An empty body is never polled.
        if self.is_at_end() {
            // The phase is dropped next, and what settles goes on.
            let _ = self.settle(None);
            return;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Relay);
        if let (Phase::Scan { scanner, placement }, Some(rest), Ok(runtime)) =
            (phase, self.inner.take(), Handle::try_current())
        {
            let in_flight = self.in_flight.clone();
            let reading = async move {
                read_rest(rest, scanner, placement).await;
                drop(in_flight);
            };
            runtime.spawn(reading.instrument(Span::current()));
        }
    }
}

/// Reads the rest of a response, and settles the documents.
async fn read_rest<B>(mut rest: B, mut scanner: Scanner, placement: SettleGuard)
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
{
    let all = async {
        while let Some(frame) = rest.frame().await {
            let Ok(frame) = frame else { return false };
            if let Some(data) = frame.data_ref() {
                scanner.push(data);
            }
        }
        true
    };
    let whole = tokio::time::timeout(REST_TIMEOUT, all).await;
    let resolution = match whole {
        Ok(true) => scanner.finish(),
        Ok(false) | Err(_) => Resolution::Unknown,
    };
    placement.settle_and_wait(resolution).await;
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::sync::{Arc, mpsc};

    use http_body_util::Full;
    use hyper::header::{CONTENT_ENCODING, HeaderValue};

    use super::*;
    use crate::engine::Write;
    use crate::state::AppState;

    const BULK: &str = "{\"index\":{}}\n{\"content\":\"A sentence that is long enough.\"}\n";
    const FAILED: &str = r#"{"errors":true,"items":[{"index":{"status":400,"error":{}}}]}"#;

    /// A body whose length is not known before its end.
    pub(in super::super) struct Chunked(VecDeque<Bytes>);

    impl Chunked {
        pub(in super::super) fn new(bytes: &[u8], size: usize) -> Chunked {
            Chunked(bytes.chunks(size).map(Bytes::copy_from_slice).collect())
        }
    }

    impl HttpBody for Chunked {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
        }
    }

    /// One document that has been placed and sent.
    async fn placed(state: &Arc<AppState>) -> (InFlightGuard, SettleGuard) {
        let (in_flight, mut placement) = not_sent(state).await;
        placement.mark_sent();
        (in_flight, placement)
    }

    /// One document that has been placed.
    async fn not_sent(state: &Arc<AppState>) -> (InFlightGuard, SettleGuard) {
        not_sent_copies(state, 1).await
    }

    /// So many copies of it.
    async fn not_sent_copies(state: &Arc<AppState>, copies: usize) -> (InFlightGuard, SettleGuard) {
        let write = Write::Bulk { index: Some("news-1".into()) };
        // Of a writer who is known: placed, and refused if the cluster refuses it.
        let context = state.request_context(7);
        state.engine.know_writer(7, context.now);
        let stamped = state.engine.parse_and_stamp(BULK.repeat(copies).into(), write, context).await;
        let (_, placed) = stamped.unwrap().into_parts();
        assert_eq!(state.nodes().await, 1);
        let in_flight = state.in_flight.enter().unwrap();
        let placement = SettleGuard::new(state.clone(), in_flight.clone(), state.writes.enter(), placed);
        (in_flight, placement)
    }

    fn no_headers() -> HeaderMap {
        HeaderMap::new()
    }

    async fn drain(state: &AppState) {
        assert_eq!(state.in_flight.drain(Duration::from_secs(60)).await, 0);
    }

    async fn is_pending<B>(body: &mut ResponseBody<B>) -> bool
    where
        B: HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
    {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx).is_pending())).await
    }

    #[tokio::test]
    async fn documents_are_settled_when_the_end_has_been_read() {
        for size in [1, FAILED.len()] {
            let state = AppState::for_test();
            let (in_flight, placement) = placed(&state).await;
            let body = Chunked::new(FAILED.as_bytes(), size);
            let body = ResponseBody::settling(body, in_flight, &no_headers(), Answers::Items, placement);
            let read = body.collect().await.unwrap().to_bytes();
            assert_eq!(read, FAILED);
            assert_eq!(state.nodes().await, 0);
            assert_eq!(state.metrics.counters.items_failed.get(), 1);
            assert_eq!(state.in_flight.count(), 0);
        }
    }

    #[tokio::test]
    async fn the_last_frame_waits_for_settling() {
        let state = AppState::for_test();
        // Too many to be settled on the calling thread.
        let (in_flight, mut placement) = not_sent_copies(&state, 17).await;
        placement.mark_sent();
        // The only thread for text work is busy until the gate opens.
        let (open, gate) = mpsc::channel::<()>();
        let engine = state.engine.clone();
        let busy = tokio::spawn(async move { engine.run(move || gate.recv()).await });
        tokio::task::yield_now().await;

        let items = vec![r#"{"index":{"status":400,"error":{}}}"#; 17].join(",");
        let failed = Bytes::from(format!(r#"{{"errors":true,"items":[{items}]}}"#));
        let body = Full::new(failed.clone());
        let mut body = ResponseBody::settling(body, in_flight, &no_headers(), Answers::Items, placement);
        assert!(is_pending(&mut body).await && is_pending(&mut body).await);
        assert!(!body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(failed.len() as u64));
        open.send(()).unwrap();
        busy.await.unwrap().unwrap().unwrap();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), failed);
        assert!(body.is_end_stream());
        assert_eq!(state.nodes().await, 0);
    }

    #[tokio::test]
    async fn compressed_responses_settle_too() {
        let state = AppState::for_test();
        let (in_flight, placement) = placed(&state).await;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(FAILED.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let body = Chunked::new(&gzip, 3);
        let body = ResponseBody::settling(body, in_flight, &headers, Answers::Items, placement);
        assert_eq!(body.collect().await.unwrap().to_bytes(), gzip);
        assert_eq!(state.nodes().await, 0);
    }

    #[tokio::test]
    async fn a_single_document_that_a_pipeline_drops_leaves_nothing() {
        for (answer, nodes) in [
            (r#"{"_id":"1","result":"created"}"#, 1),
            (r#"{"_id":"1","_shards":{},"result":"noop"}"#, 0),
            // Broken, or a part only: the status alone counts.
            (r#"{"result":"noop""#, 1),
            ("", 1),
        ] {
            let state = AppState::for_test();
            let (in_flight, placement) = placed(&state).await;
            let answers = Answers::Document(StatusCode::OK);
            let body = Chunked::new(answer.as_bytes(), 7);
            let body = ResponseBody::settling(body, in_flight, &no_headers(), answers, placement);
            assert_eq!(body.collect().await.unwrap().to_bytes(), answer);
            drain(&state).await;
            assert_eq!(state.nodes().await, nodes, "{answer}");
        }
    }

    #[tokio::test]
    async fn the_rest_is_read_for_a_client_that_leaves() {
        let state = AppState::for_test();
        let (in_flight, placement) = placed(&state).await;
        let body = Chunked::new(FAILED.as_bytes(), 10);
        let mut body = ResponseBody::settling(body, in_flight, &no_headers(), Answers::Items, placement);
        body.frame().await.unwrap().unwrap();
        drop(body);
        drain(&state).await;
        assert_eq!(state.nodes().await, 0);
        assert_eq!(state.metrics.counters.items_failed.get(), 1);
    }

    #[tokio::test]
    async fn what_was_not_sent_is_rolled_back_whoever_drops_it() {
        let state = AppState::for_test();
        drop(not_sent(&state).await);
        drain(&state).await;
        assert_eq!(state.nodes().await, 0);
    }
}
