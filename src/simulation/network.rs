//! Connections to the simulated cluster: pipes in memory, in place of sockets.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector as TcpConnector};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tower_service::Service;

use super::process::Life;
use super::upstream::Upstream;
use super::world::{World, current};

/// Bytes that a pipe holds.
const PIPE: usize = 64 << 10;

/// Whose requests reach the cluster: processes by the host that they know it by.
#[derive(Default)]
pub(super) struct Network {
    hosts: Mutex<BTreeMap<String, Host>>,
}

#[derive(Clone)]
struct Host {
    life: Life,
    upstream: Arc<Upstream>,
}

impl Network {
    /// A process knows the cluster by this host until it ends.
    pub(super) fn attach(&self, host: String, life: Life, upstream: Arc<Upstream>) {
        self.hosts.lock().insert(host, Host { life, upstream });
    }

    fn host(&self, uri: &Uri) -> Option<Host> {
        let hosts = self.hosts.lock();
        hosts.get(uri.host()?).filter(|host| !host.life.has_ended()).cloned()
    }
}

/// In tests, the connector of the client: to sockets, or to the world that the thread simulates.
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
        let Some(world) = current() else {
            let connecting = self.0.call(uri);
            return Box::pin(async move { Ok(Stream::Tcp(connecting.await?)) });
        };
        Box::pin(async move {
            world.pause(2).await;
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let host = world.network.host(&uri).ok_or_else(refused)?;
            if host.upstream.is_down() {
                return Err(refused().into());
            }
            let (near, far) = tokio::io::duplex(PIPE);
            tokio::spawn(serve(world, host, far));
            Ok(Stream::Simulated(TokioIo::new(near)))
        })
    }
}

/// The cluster's end of a connection, until either side ends.
async fn serve(world: Arc<World>, host: Host, pipe: DuplexStream) {
    let (upstream, life) = (host.upstream, host.life);
    let service = service_fn(|request| {
        let (world, upstream) = (world.clone(), upstream.clone());
        async move { answer(&world, &upstream, request).await }
    });
    let connection = http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(pipe), service);
    tokio::select! {
        biased;
        () = life.ended() => {}
        () = upstream.goes_down() => {}
        _ = connection => {}
    }
}

/// An error closes the connection.
async fn answer(
    world: &Arc<World>,
    upstream: &Upstream,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let (parts, body) = request.into_parts();
    let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
    let body = body.collect().await.map_err(|_| broken())?.to_bytes();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let answered = upstream.answer(world, parts.method.as_str(), target, &body).await.ok_or_else(broken)?;
    let response = Response::builder().status(answered.status).header("content-type", "application/json");
    let response = match upstream.is_elasticsearch {
        true => response.header("x-elastic-product", "Elasticsearch"),
        false => response,
    };
    let is_head = parts.method == hyper::Method::HEAD;
    let body = if is_head { Vec::new() } else { answered.body };
    response.body(Full::new(body.into())).map_err(io::Error::other)
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
