//! Connections to the simulated cluster: pipes in memory, in place of sockets.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use spinney::system::{Connecting, System};
use spinney::time::Millis;
use tokio::io::DuplexStream;

use super::process::Life;
use super::upstream::Upstream;
use super::world::World;

/// Bytes that a pipe holds.
const PIPE: usize = 64 << 10;

/// The system of a world's thread: its clock and chance, and connections of processes by the host that each knows the
/// cluster by.
pub(super) struct Network {
    world: Arc<World>,
    hosts: Mutex<BTreeMap<String, Host>>,
}

#[derive(Clone)]
struct Host {
    life: Life,
    upstream: Arc<Upstream>,
}

impl System for Network {
    fn now(&self) -> Millis {
        self.world.believed()
    }

    fn nonce(&self) -> u64 {
        self.world.next_u64()
    }

    fn connect(&self, node: Uri) -> Connecting {
        let (world, host) = (self.world.clone(), self.host(&node));
        Box::pin(async move {
            world.pause(2).await;
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let host = host.filter(|host| !host.life.has_ended()).ok_or_else(refused)?;
            if host.upstream.is_down() {
                return Err(refused());
            }
            let (near, far) = tokio::io::duplex(PIPE);
            tokio::spawn(serve(world, host, far));
            Ok(near)
        })
    }
}

impl Network {
    /// No process is attached yet.
    pub(super) fn new(world: &Arc<World>) -> Network {
        Network { world: world.clone(), hosts: Mutex::default() }
    }

    /// A process knows the cluster by this host until it ends.
    pub(super) fn attach(&self, host: String, life: Life, upstream: Arc<Upstream>) {
        self.hosts.lock().insert(host, Host { life, upstream });
    }

    fn host(&self, uri: &Uri) -> Option<Host> {
        let hosts = self.hosts.lock();
        hosts.get(uri.host()?).filter(|host| !host.life.has_ended()).cloned()
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
