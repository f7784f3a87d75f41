//! Connections to the cluster on which an early response counts more than a broken pipe.
//!
//! A server may respond in the middle of an upload (413, most often) and close. The next write then fails, and hyper
//! ends the connection with that error although the response waits to be read. So a write to a closed connection is
//! taken for done: what can still be read decides, be it the response or the end.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

#[cfg(feature = "simulation")]
use super::simulated_connector::HttpConnector;
#[cfg(not(feature = "simulation"))]
use hyper_util::client::legacy::connect::HttpConnector;

/// Makes [`EarlyResponseIo`] connections.
#[derive(Clone)]
pub(super) struct EarlyResponseConnector(HttpConnector);

/// A connection that discards request bytes once the response has begun early.
pub(super) struct EarlyResponseIo<T> {
    inner: T,
    write_closed: bool,
}

impl EarlyResponseConnector {
    pub(super) fn new(http: impl Into<HttpConnector>) -> EarlyResponseConnector {
        EarlyResponseConnector(http.into())
    }
}

impl Service<Uri> for EarlyResponseConnector {
    type Response = EarlyResponseIo<<HttpConnector as Service<Uri>>::Response>;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            let inner = connecting.await?;
            Ok(EarlyResponseIo { inner, write_closed: false })
        })
    }
}

impl<T> EarlyResponseIo<T> {
    /// Takes `done` for the result of a write to a closed connection.
    fn ignore_closed<R>(&mut self, result: io::Result<R>, done: R) -> io::Result<R> {
        match result {
            Err(error) if is_closed(error.kind()) => {
                self.write_closed = true;
                Ok(done)
            }
            other => other,
        }
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

impl<T: Connection> Connection for EarlyResponseIo<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

impl<T: Read + Unpin> Read for EarlyResponseIo<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for EarlyResponseIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.write_closed {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        written.map(|result| self.ignore_closed(result, buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write_closed {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        flushed.map(|result| self.ignore_closed(result, ()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        if self.write_closed {
            return Poll::Ready(Ok(all));
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        written.map(|result| self.ignore_closed(result, all))
    }
}
