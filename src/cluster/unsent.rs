//! Request bodies that can be taken back while no connection has got a byte of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;

use crate::http::{Body, BoxError};

/// The way back to a body that was lent to a connection.
pub(super) struct Lent {
    body: Arc<Mutex<Option<Body>>>,
    is_empty: bool,
}

impl Lent {
    /// Takes the body back, if no byte of it was consumed. A connection that still holds it gets an error from it.
    pub(super) fn take_back(self) -> Option<Body> {
        self.body.lock().take()
    }

    /// Whether a body exists of which no byte was consumed.
    pub(super) fn is_awaited(&self) -> bool {
        !self.is_empty && self.body.lock().is_some()
    }
}

/// Lends a body to a connection.
pub(super) fn lend(body: Body) -> (Body, Lent) {
    let is_empty = body.is_end_stream();
    let shared = Arc::new(Mutex::new(Some(body)));
    let lent = Lent { body: shared.clone(), is_empty };
    (Borrowed { unsent: shared, sending: None }.boxed_unsync(), lent)
}

#[derive(Debug, thiserror::Error)]
#[error("the request was taken back from this connection")]
struct TakenBack;

struct Borrowed {
    /// The body until its first frame.
    unsent: Arc<Mutex<Option<Body>>>,
    sending: Option<Body>,
}

impl Borrowed {
    fn with<T>(&self, taken_back: T, read: impl FnOnce(&Body) -> T) -> T {
        match &self.sending {
            Some(body) => read(body),
            None => self.unsent.lock().as_ref().map_or(taken_back, read),
        }
    }
}

impl HttpBody for Borrowed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Borrowed { unsent, sending } = &mut *self;
        if let Some(body) = sending {
            return Pin::new(body).poll_frame(cx);
        }
        let mut unsent = unsent.lock();
        let Some(body) = unsent.as_mut() else {
            return Poll::Ready(Some(Err(TakenBack.into())));
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        *sending = unsent.take();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.with(false, Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.with(SizeHint::default(), Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use futures_channel::mpsc::unbounded;
    use http_body_util::StreamBody;

    use super::*;
    use crate::http::full;

    async fn whole(body: Body) -> Option<Bytes> {
        Some(body.collect().await.ok()?.to_bytes())
    }

    #[tokio::test]
    async fn a_body_comes_back_until_its_first_frame() {
        let (mut lent_out, lent) = lend(full("text"));
        assert_eq!(lent_out.size_hint().exact(), Some(4));
        assert!(lent.is_awaited());
        let back = lent.take_back().unwrap();
        assert!(lent_out.frame().await.unwrap().is_err(), "who had it must not take it for a body without bytes");
        assert_eq!(whole(back).await.unwrap(), "text");

        let (mut lent_out, lent) = lend(full("text"));
        assert!(lent_out.frame().await.unwrap().is_ok());
        assert!(!lent.is_awaited());
        assert!(lent.take_back().is_none());
    }

    #[tokio::test]
    async fn a_body_that_was_asked_for_in_vain_comes_back() {
        let (client, frames) = unbounded::<Result<Frame<Bytes>, BoxError>>();
        let (mut lent_out, lent) = lend(StreamBody::new(frames).boxed_unsync());
        let asked = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut lent_out).poll_frame(cx).is_pending()));
        assert!(asked.await);
        let back = lent.take_back().unwrap();
        client.unbounded_send(Ok(Frame::data(Bytes::from_static(b"late")))).unwrap();
        drop(client);
        assert_eq!(whole(back).await.unwrap(), "late");
    }

    #[tokio::test]
    async fn the_head_of_a_request_without_a_body_is_all_of_it() {
        let (lent_out, lent) = lend(full(""));
        assert!(lent_out.is_end_stream());
        drop(lent_out);
        assert!(!lent.is_awaited());
        assert!(lent.take_back().is_some());
    }
}
