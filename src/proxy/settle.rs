//! The second phase: what the cluster's answer says about the documents that were placed, read while the answer
//! streams through untouched.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::{HeaderMap, StatusCode};
use tracing::debug;

use super::answer::{Body, BoxError};
use super::headers::{Encoding, encoding};
use crate::bulk::ResponseScanner;
use crate::engine::{Engine, Placed, Resolution};
use crate::shutdown::Passenger;
use crate::telemetry::Counters;

/// Documents that were placed and not yet settled. Dropped before [`Unsettled::sent`], it takes their nodes back;
/// dropped after it, the outcome is unknown and they stay.
pub struct Unsettled {
    engine: Arc<Engine>,
    counters: Arc<Counters>,
    placed: Option<Placed>,
    sent: bool,
}

impl Unsettled {
    pub fn new(engine: Arc<Engine>, counters: Arc<Counters>, placed: Placed) -> Unsettled {
        Unsettled {
            engine,
            counters,
            placed: Some(placed),
            sent: false,
        }
    }

    /// From now on the cluster may have seen the documents.
    pub fn sent(&mut self) {
        self.sent = true;
    }

    /// Tells the forest; a second call does nothing.
    pub fn settle(&mut self, resolution: &Resolution) {
        if let Some(placed) = self.placed.take() {
            if let Resolution::Items(outcome) = verdict
                && !placed.is_answered_by(outcome)
            {
                self.counters.responses_unmatched.add(1);
                debug!(
                    items = outcome.items,
                    "the answer does not tell of every item"
                );
            }
            let settled = self.engine.settle(placed, verdict);
            self.counters.items_failed.add(settled.failed);
            self.counters.nodes_withdrawn.add(settled.withdrawn);
        }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let verdict = if self.sent {
            Resolution::Unknown
        } else {
            Resolution::Refused
        };
        self.settle(&verdict);
    }
}

/// What the status of a whole answer says. 4xx: the cluster refused the request before it did anything, except 408,
/// which says that it gave up waiting. 5xx: it may have done a part.
pub fn verdict(status: StatusCode) -> Resolution {
    if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
        Resolution::Refused
    } else {
        Resolution::Unknown
    }
}

/// An answer on its way to the client. The request is in flight until this is dropped.
pub struct Landing {
    inner: Incoming,
    reading: Option<Reading>,
    _passenger: Passenger,
}

struct Reading {
    unsettled: Unsettled,
    reader: Reader,
}

enum Reader {
    Plain(Sink),
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// The answer is packed in a way that is not read here, or its packing is broken.
    Blind,
}

#[derive(Default)]
struct Sink(ResponseScanner);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Landing {
    /// An answer that is only passed on.
    pub fn relay(inner: Incoming, passenger: Passenger) -> Landing {
        Landing {
            inner,
            reading: None,
            _passenger: passenger,
        }
    }

    /// The answer to a bulk: its items settle the documents.
    pub fn bulk(
        inner: Incoming,
        passenger: Passenger,
        headers: &HeaderMap,
        unsettled: Unsettled,
    ) -> Landing {
        let reader = match encoding(headers) {
            Encoding::Identity => Reader::Plain(Sink::default()),
            Encoding::Gzip => Reader::Gzip(Box::new(MultiGzDecoder::new(Sink::default()))),
            Encoding::Other => Reader::Blind,
        };
        Landing {
            inner,
            reading: Some(Reading { unsettled, reader }),
            _passenger: passenger,
        }
    }

    pub fn boxed(self) -> Body {
        self.boxed_unsync()
    }

    fn read(&mut self, data: &[u8]) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        let broken = match &mut reading.reader {
            Reader::Plain(sink) => {
                sink.0.push(data);
                false
            }
            Reader::Gzip(decoder) => decoder.write_all(data).is_err(),
            Reader::Blind => false,
        };
        if broken {
            reading.reader = Reader::Blind;
        }
    }

    fn end(&mut self) {
        let Some(Reading {
            mut unsettled,
            reader,
        }) = self.reading.take()
        else {
            return;
        };
        let scanner = match reader {
            Reader::Plain(sink) => Some(sink.0),
            Reader::Gzip(decoder) => decoder.finish().ok().map(|sink| sink.0),
            Reader::Blind => None,
        };
        unsettled.settle(&scanner.map_or(Resolution::Unknown, |scanner| {
            Resolution::Items(scanner.finish())
        }));
    }
}

impl HttpBody for Landing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.read(data);
                }
            }
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled.map_err(|e| -> BoxError { Box::new(e) })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        // With a known length the last frame is the end: nobody polls for the `None` behind it.
        if self.inner.is_end_stream() {
            self.end();
        }
    }
}
