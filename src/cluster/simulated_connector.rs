//! Connections in memory in place of sockets, on threads with a [`System`](crate::system::System) of their own.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector as TcpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::system::current;

/// The connector of the client: to sockets, or as the system of the thread connects.
#[derive(Clone)]
pub(crate) struct HttpConnector(TcpConnector);

impl From<TcpConnector> for HttpConnector {
    fn from(tcp: TcpConnector) -> HttpConnector {
        HttpConnector(tcp)
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Service<Uri> for HttpConnector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(system) = current() else {
            let connecting = self.0.call(uri);
            return Box::pin(async move { Ok(Stream::Tcp(connecting.await?)) });
        };
        let connecting = system.connect(uri);
        Box::pin(async move { Ok(Stream::Simulated(TokioIo::new(connecting.await?))) })
    }
}

/// A connection of either kind.
pub(crate) enum Stream {
    Tcp(TokioIo<TcpStream>),
    Simulated(TokioIo<DuplexStream>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Stream::Tcp(stream) => stream.connected(),
            Stream::Simulated(_) => Connected::new(),
        }
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Simulated(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Simulated(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Simulated(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Simulated(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
