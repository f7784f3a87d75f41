//! Bodies of responses on their way to the client. That of a bulk is read while it streams through untouched: its items
//! say what became of the documents.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::task::JoinHandle;

use super::placement::PlacementGuard;
use crate::bulk::ResponseScanner;
use crate::engine::Resolution;
use crate::http::headers::{Encoding, encoding};
use crate::http::{Body, BoxError};
use crate::shutdown::InFlightGuard;

/// A response on its way to the client. The request is in flight until this is dropped.
///
/// The end of a bulk's response is held back until its documents are settled: a client that has read it finds their effect
/// in `_stats`, and what it writes next meets no node that is about to go.
pub struct ResponseBody<B = Incoming>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    inner: B,
    phase: Phase,
    _in_flight: InFlightGuard,
}

enum Phase {
    /// Nothing is to be read, or everything has been.
    Relay,
    /// The response to a bulk is read as it passes.
    Scan {
        scanner: Scanner,
        placement: PlacementGuard,
    },
    /// It has been read to its end, of which the last frame, if there is one, waits for the settling task.
    Settle {
        task: Option<JoinHandle<()>>,
        last: Option<Frame<Bytes>>,
    },
}

/// Reads items from a response in whatever encoding.
enum Scanner {
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
    fn new(encoding: Encoding) -> Scanner {
        match encoding {
            Encoding::Identity => Scanner::Plain(ScannerSink::default()),
            Encoding::Gzip => Scanner::Gzip(Box::new(MultiGzDecoder::new(ScannerSink::default()))),
            Encoding::Other => Scanner::Unreadable,
        }
    }

    fn push(&mut self, data: &[u8]) {
        let readable = match self {
            Scanner::Plain(sink) => {
                sink.0.push(data);
                true
            }
            Scanner::Gzip(decoder) => decoder.write_all(data).is_ok(),
            Scanner::Unreadable => false,
        };
        if !readable {
            *self = Scanner::Unreadable;
        }
    }

    /// What the whole response said.
    fn finish(self) -> Resolution {
        let scanner = match self {
            Scanner::Plain(sink) => Some(sink.0),
            Scanner::Gzip(decoder) => decoder.finish().ok().map(|sink| sink.0),
            Scanner::Unreadable => None,
        };
        scanner.map_or(Resolution::Unknown, |scanner| {
            Resolution::Items(scanner.finish())
        })
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> ResponseBody<B> {
    /// A response that is only passed on.
    pub fn relay(inner: B, in_flight: InFlightGuard) -> ResponseBody<B> {
        ResponseBody {
            inner,
            phase: Phase::Relay,
            _in_flight: in_flight,
        }
    }

    /// The response to a bulk: its items settle the documents. Should it break off, or the client leave before its end,
    /// their outcome is unknown.
    pub fn settling(
        inner: B,
        in_flight: InFlightGuard,
        headers: &HeaderMap,
        placement: PlacementGuard,
    ) -> ResponseBody<B> {
        ResponseBody {
            inner,
            phase: Phase::Scan {
                scanner: Scanner::new(encoding(headers)),
                placement,
            },
            _in_flight: in_flight,
        }
    }

    /// Begins to settle; `last` waits for it. Gives `last` back if there is nothing to settle.
    fn settle(&mut self, last: Option<Frame<Bytes>>) -> Result<(), Option<Frame<Bytes>>> {
        match std::mem::replace(&mut self.phase, Phase::Relay) {
            Phase::Scan { scanner, placement } => {
                let task = placement.settle(scanner.finish());
                self.phase = Phase::Settle { task, last };
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
    /// As any other body.
    pub fn boxed(self) -> Body {
        self.boxed_unsync()
    }
}

impl<B> HttpBody for ResponseBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Phase::Settle { task, last } = &mut self.phase {
                if let Some(task) = task {
                    // A panic in it has been logged by the panic hook; the response is the cluster's all the same.
                    let _ = ready!(Pin::new(task).poll(cx));
                }
                let last = last.take();
                self.phase = Phase::Relay;
                return Poll::Ready(last.map(Ok));
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let (Phase::Scan { scanner, .. }, Some(data)) =
                        (&mut self.phase, frame.data_ref())
                    {
                        scanner.push(data);
                    }
                    // With a known length this is the end: nobody polls for the `None` behind it.
                    if !self.inner.is_end_stream() {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    if let Err(last) = self.settle(Some(frame)) {
                        return Poll::Ready(last.map(Ok));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(Box::new(error)))),
                None => {
                    if self.settle(None).is_err() {
                        return Poll::Ready(None);
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.phase, Phase::Settle { .. }) && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = match &self.phase {
            Phase::Settle {
                last: Some(frame), ..
            } => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let mut hint = self.inner.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + held as u64);
        }
        hint.set_lower(hint.lower() + held as u64);
        hint
    }
}

impl<B> Drop for ResponseBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    fn drop(&mut self) {
        // Nobody polls a body without a byte.
        if self.inner.is_end_stream() {
            // Its task goes on by itself.
            let _ = self.settle(None);
        }
    }
}
