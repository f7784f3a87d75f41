//! How long a connection may be silent. hyper knows one time for the whole wait for the next head; here a client that
//! keeps an idle connection in its pool gets much longer than one that has begun a head and does not end it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};
use parking_lot::Mutex;

use super::connections::ConnectionSlot;

/// How long the head of a request may take from its first byte on.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether bytes have arrived since hyper began to wait for a head. Wakes the task that polled before, so the order
/// in which hyper reads and polls its timer does not matter.
#[derive(Debug, Clone, Default)]
struct HeadBegun(Arc<Mutex<Begun>>);

#[derive(Debug, Default)]
struct Begun {
    is_so: bool,
    waker: Option<Waker>,
}

impl HeadBegun {
    fn reset(&self) {
        *self.0.lock() = Begun::default();
    }

    fn set(&self) {
        let mut begun = self.0.lock();
        begun.is_so = true;
        if let Some(waker) = begun.waker.take() {
            drop(begun);
            waker.wake();
        }
    }

    /// Returns whether bytes have arrived; wakes the task when they do.
    fn poll(&self, cx: &Context<'_>) -> bool {
        let mut begun = self.0.lock();
        if !begun.is_so {
            begun.waker = Some(cx.waker().clone());
        }
        begun.is_so
    }
}

/// The timer and the stream of one connection; `idle`: timeout between two requests. The servers let it be for ever,
/// and clients count on that: a request on a connection that is just being closed fails.
pub(super) fn head_timeout<T>(stream: T, idle: Duration, slot: Arc<ConnectionSlot>) -> (HeadTimer, HeadTimeoutIo<T>) {
    let begun = HeadBegun::default();
    let timer = HeadTimer { begun: begun.clone(), idle, slot };
    let stream = HeadTimeoutIo { stream, begun, idle, stalled: None };
    (timer, stream)
}

/// Timer for hyper's `header_read_timeout`, the only timer of an HTTP/1 server. Chooses its own deadlines.
#[derive(Debug, Clone)]
pub(super) struct HeadTimer {
    begun: HeadBegun,
    idle: Duration,
    slot: Arc<ConnectionSlot>,
}

#[expect(clippy::disallowed_methods, reason = "these are the deadlines themselves, and the tests pause the clock")]
impl Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.begun.reset();
        self.slot.waits();
        Box::pin(HeadSleep {
            begun: self.begun.clone(),
            in_head: false,
            sleep: Box::pin(tokio::time::sleep(self.idle)),
            slot: self.slot.clone(),
        })
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(HEAD_TIMEOUT)
    }
}

/// Ends when the connection has been idle, or in the middle of a head, for too long. hyper drops it when the head is
/// there.
struct HeadSleep {
    begun: HeadBegun,
    in_head: bool,
    sleep: Pin<Box<tokio::time::Sleep>>,
    slot: Arc<ConnectionSlot>,
}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        self.slot.answers();
    }
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.in_head && self.begun.poll(cx) {
            self.in_head = true;
            let deadline = tokio::time::Instant::now() + HEAD_TIMEOUT;
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx)
    }
}

impl Sleep for HeadSleep {}

/// A stream that records arriving bytes, and fails when the client does not read its response for too long.
#[derive(Debug)]
pub(super) struct HeadTimeoutIo<T> {
    stream: T,
    begun: HeadBegun,
    idle: Duration,
    /// The timer while the client reads nothing.
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<T> HeadTimeoutIo<T> {
    /// Handles the result of a write.
    fn written<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let idle = self.idle;
        #[expect(clippy::disallowed_methods, reason = "this is the deadline itself, and the test pauses the clock")]
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: Read + Unpin> Read for HeadTimeoutIo<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() {
            self.begun.set();
        }
        polled
    }
}

impl<T: Write + Unpin> Write for HeadTimeoutIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, written)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clock is paused: time goes by at once")]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::task::JoinHandle;
    use tokio::time::{advance, sleep};

    use super::super::connections::{Connections, Eviction};
    use super::*;
    use crate::http::full;

    const SECOND: Duration = Duration::from_secs(1);
    const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// A connection that is served as ours are; the task ends with it.
    fn connect() -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
        connect_to(2)
    }

    /// One whose answers have so many bytes.
    fn connect_to(answer: usize) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
        let (client, server) = tokio::io::duplex(4096);
        let (slot, _) = Connections::new(1).enter(Eviction::Waiting).unwrap();
        let (timer, io) = head_timeout(TokioIo::new(server), IDLE_TIMEOUT, Arc::new(slot));
        let mut http = http1::Builder::new();
        http.timer(timer).header_read_timeout(HEAD_TIMEOUT);
        let service = service_fn(move |_| async move { Ok::<_, Infallible>(Response::new(full("o".repeat(answer)))) });
        (client, tokio::spawn(http.serve_connection(io, service)))
    }

    async fn answer(client: &mut DuplexStream) -> String {
        let mut buffer = [0; 1024];
        let read = client.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_stay_and_slow_heads_end() {
        let (mut client, served) = connect();
        for _ in 0..2 {
            sleep(IDLE_TIMEOUT - SECOND).await;
            client.write_all(HEAD).await.unwrap();
            assert!(answer(&mut client).await.starts_with("HTTP/1.1 200"));
        }
        client.write_all(b"GET / HT").await.unwrap();
        sleep(HEAD_TIMEOUT - SECOND).await;
        assert!(!served.is_finished());
        // Another byte does not begin the time anew.
        client.write_all(b"T").await.unwrap();
        sleep(2 * SECOND).await;
        assert!(served.await.unwrap().unwrap_err().is_timeout());
    }

    /// A server that looks at the time before it reads, and not again after that.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_is_begun_after_the_time_was_looked_at_ends() {
        let (mut client, server) = tokio::io::duplex(64);
        let (slot, _) = Connections::new(1).enter(Eviction::Waiting).unwrap();
        let (timer, mut io) = head_timeout(TokioIo::new(server), IDLE_TIMEOUT, Arc::new(slot));
        let mut sleep_for_head = timer.sleep(HEAD_TIMEOUT);
        let served = tokio::spawn(poll_fn(move |cx| {
            if sleep_for_head.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut bytes = [0; 8];
            let mut buf = hyper::rt::ReadBuf::new(&mut bytes);
            let _ = Pin::new(&mut io).poll_read(cx, buf.unfilled());
            Poll::Pending
        }));
        client.write_all(b"GET").await.unwrap();
        sleep(HEAD_TIMEOUT - SECOND).await;
        assert!(!served.is_finished());
        sleep(2 * SECOND).await;
        assert!(served.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_end() {
        let (client, served) = connect_to(1 << 20);
        let mut client = client;
        client.write_all(HEAD).await.unwrap();
        sleep(IDLE_TIMEOUT - SECOND).await;
        assert!(!served.is_finished());
        // A byte that is taken begins the time anew.
        client.read_exact(&mut [0; 4096]).await.unwrap();
        sleep(IDLE_TIMEOUT - SECOND).await;
        assert!(!served.is_finished());
        sleep(2 * SECOND).await;
        assert!(served.await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_end_at_last() {
        for sent in [&b""[..], HEAD] {
            let (mut client, served) = connect();
            client.write_all(sent).await.unwrap();
            sleep(IDLE_TIMEOUT - SECOND).await;
            assert!(!served.is_finished());
            advance(2 * SECOND).await;
            assert!(served.await.unwrap().is_err());
        }
    }
}
