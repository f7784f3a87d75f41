//! Request bodies on their way to the cluster.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::EXPECT;
use tokio::time::Sleep;

use crate::bulk::Splice;
use crate::cluster::Payload;
use crate::http::body::read_to_end;
use crate::http::budget::Reservation;
use crate::http::{Body, BoxError, ClientBodyError};

/// Size of the chunks of a stamped body.
const CHUNK_BYTES: usize = 128 << 10;

/// A request that is streamed; `pause`: timeout between two frames of its body.
pub(super) fn stream(request: Request<Incoming>, pause: Duration) -> Request<Body> {
    let expects_continue = request.headers().contains_key(EXPECT);
    request.map(|body| {
        RequestBody::new(body, !expects_continue, pause).map_err(|e| -> BoxError { Box::new(e) }).boxed_unsync()
    })
}

/// A body that is streamed. Dropped before its end (the cluster has answered already, or cannot be reached), it leaves
/// a task that discards the rest: most clients write the whole body before they read the answer, and without a reader
/// they would see a broken pipe.
struct RequestBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    inner: Option<B>,
    /// Whether the client sends without waiting for `100 Continue`.
    client_sends: bool,
    /// Timeout between two frames: a stalled client holds two connections.
    pause: Duration,
    /// Runs only while bytes of the client are awaited: if the cluster does not read, the client is not the one that
    /// pauses.
    pausing: Option<Pin<Box<Sleep>>>,
}

impl<B> RequestBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    fn new(inner: B, client_sends: bool, pause: Duration) -> RequestBody<B> {
        RequestBody { inner: Some(inner), client_sends, pause, pausing: None }
    }
}

impl<B> HttpBody for RequestBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Display + Send,
{
    type Data = Bytes;
    type Error = ClientBodyError;

    #[expect(clippy::disallowed_methods, reason = "this is a deadline, and the test pauses the clock")]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        self.client_sends = true;
        let Some(body) = &mut self.inner else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            self.pausing = None;
            let broken = |error: B::Error| ClientBodyError::Broken(error.to_string());
            return Poll::Ready(frame.map(|frame| frame.map_err(broken)));
        }
        let pause = self.pause;
        let pausing = self.pausing.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        ready!(pausing.as_mut().poll(cx));
        Poll::Ready(Some(Err(ClientBodyError::Silent(pause))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl<B> Drop for RequestBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    fn drop(&mut self) {
        let ended = self.inner.as_ref().is_none_or(HttpBody::is_end_stream);
        if self.client_sends
            && !ended
            && let Some(rest) = self.inner.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(read_to_end(rest));
        }
    }
}

/// A body that is here whole, with its reservation of the budget.
#[derive(Clone)]
pub(super) struct WholeBody {
    bytes: Bytes,
    /// Its stamps, which are never copied together with it.
    splice: Splice,
    reservation: Arc<Reservation>,
}

impl WholeBody {
    /// `splice`: what is to be edited of it.
    pub(super) fn new(bytes: Bytes, splice: Splice, reservation: Reservation) -> WholeBody {
        WholeBody { bytes, splice, reservation: Arc::new(reservation) }
    }

    /// How many bytes go out.
    pub(super) fn length(&self) -> u64 {
        self.splice.len(self.bytes.len()) as u64
    }

    fn chunks(self) -> Box<dyn Iterator<Item = Bytes> + Send> {
        match self.splice.is_empty() {
            true => Box::new(std::iter::once(self.bytes)),
            false => Box::new(self.splice.chunks(self.bytes, CHUNK_BYTES)),
        }
    }

    /// For a request that is sent once: the reservation is released as soon as it is.
    pub(super) fn once(self) -> Body {
        let (left, reservation) = (self.length(), self.reservation.clone());
        BufferedBody { chunks: self.chunks(), left, _reservation: reservation }.boxed_unsync()
    }

    /// For a request that is signed.
    pub(super) fn into_payload(self) -> Payload {
        Payload::new(self.clone().chunks(), move || self.clone().once())
    }
}

/// A body on its way.
struct BufferedBody {
    chunks: Box<dyn Iterator<Item = Bytes> + Send>,
    left: u64,
    _reservation: Arc<Reservation>,
}

impl HttpBody for BufferedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clock is paused: time goes by at once")]
mod tests {
    use std::convert::Infallible;

    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::time::sleep;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(600);
    const SECOND: Duration = Duration::from_secs(1);

    struct Sent(UnboundedReceiver<Bytes>);

    impl HttpBody for Sent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let polled = self.0.poll_recv(cx);
            polled.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_pause_but_not_for_ever() {
        let (sender, pieces) = unbounded_channel();
        let mut body = RequestBody::new(Sent(pieces), true, PAUSE);
        for _ in 0..3 {
            let sending = sender.clone();
            tokio::spawn(async move {
                sleep(PAUSE - SECOND).await;
                sending.send(Bytes::from_static(b"x")).unwrap();
            });
            assert!(body.frame().await.unwrap().is_ok());
            // Nobody asks for more: it is not the client who pauses.
            sleep(2 * PAUSE).await;
        }
        let silent = body.frame().await.unwrap();
        assert!(matches!(silent, Err(ClientBodyError::Silent(PAUSE))));
    }
}
