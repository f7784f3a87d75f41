//! Bodies of requests on their way to the cluster.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::EXPECT;

use crate::bulk::Splice;
use crate::http::body::read_to_end;
use crate::http::budget::Reservation;
use crate::http::{Body, BoxError};

/// The size of the pieces in which a stamped body goes out.
const CHUNK_BYTES: usize = 128 << 10;

/// A request that is forwarded as it comes.
pub(super) fn stream(request: Request<Incoming>) -> Request<Body> {
    let expects_continue = request.headers().contains_key(EXPECT);
    request.map(|body| {
        RequestBody {
            inner: Some(body),
            client_sends: !expects_continue,
        }
        .map_err(|e| -> BoxError { Box::new(e) })
        .boxed_unsync()
    })
}

/// A body that is streamed. Dropped before its end (the cluster has answered already, or cannot be reached), it leaves a
/// task that discards the rest: most clients write the whole body before they read the answer, and without a reader they
/// would see a broken pipe.
struct RequestBody {
    inner: Option<Incoming>,
    /// A client that expects `100 Continue` sends nothing before the first frame is asked for.
    client_sends: bool,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.client_sends = true;
        match &mut self.inner {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if self.client_sends
            && !self.is_end_stream()
            && let Some(rest) = self.inner.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(read_to_end(rest));
        }
    }
}

/// A body that is held here; it gives its part of the budget back when it has gone out.
pub(super) struct BufferedBody {
    chunks: Box<dyn Iterator<Item = Bytes> + Send>,
    left: u64,
    _reservation: Reservation,
}

impl BufferedBody {
    /// A body as it came.
    pub(super) fn whole(bytes: Bytes, reservation: Reservation) -> BufferedBody {
        BufferedBody {
            left: bytes.len() as u64,
            chunks: Box::new(std::iter::once(bytes)),
            _reservation: reservation,
        }
    }

    /// A body with its stamps, which is never copied together.
    pub(super) fn stamped(splice: Splice, body: Bytes, reservation: Reservation) -> BufferedBody {
        BufferedBody {
            left: splice.len(body.len()) as u64,
            chunks: Box::new(splice.chunks(body, CHUNK_BYTES)),
            _reservation: reservation,
        }
    }

    /// How many bytes are still to go out.
    pub(super) fn length(&self) -> u64 {
        self.left
    }
}

impl HttpBody for BufferedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = self.chunks.next();
        if let Some(chunk) = &chunk {
            self.left = self.left.saturating_sub(chunk.len() as u64);
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
