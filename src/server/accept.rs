//! Accepts connections: limits, overload, and timeouts of silent connections.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, error};

use super::connections::{ConnectionSlot, Connections, Eviction};
use super::head_timeout::{HEAD_TIMEOUT, head_timeout};
use super::{Purpose, respond};
use crate::http::ClientAddress;
use crate::state::AppState;

/// How many headers a request may have: the servers bound the bytes of a head only, and 16 KiB hold no more.
const MAX_HEADERS: usize = 4096;

/// Largest request head in bytes, which no budget counts. The servers accept 20 KiB; an article for the docId
/// endpoint may be in the URL, which is at most 64 KiB long.
const HEAD_BYTES: usize = 64 << 10;

const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections beyond the limit, or of a listener for probes. Each lives for one question.
const FEW: usize = 16;

/// Settings of one listener and its connections.
pub(super) struct Listener {
    tls: Option<TlsAcceptor>,
    purpose: Purpose,
    connections: Arc<Connections>,
    evict: Eviction,
    /// Slots for connections beyond the limit.
    too_many: Arc<Connections>,
}

impl Listener {
    /// For everything.
    pub(super) fn main(tls: Option<TlsAcceptor>) -> Listener {
        Listener {
            tls,
            purpose: Purpose::Everything,
            // The limit is set whenever one comes.
            connections: Connections::new(0),
            evict: Eviction::Waiting,
            too_many: Connections::new(FEW),
        }
    }

    /// For probes and monitors.
    pub(super) fn admin(tls: Option<TlsAcceptor>) -> Listener {
        Listener {
            tls,
            purpose: Purpose::Admin,
            connections: Connections::new(FEW),
            evict: Eviction::Any,
            too_many: Connections::new(0),
        }
    }

    /// Admits a connection: its purpose, its slot, and whether another one was evicted. `None` if there is no slot.
    fn admit(&self) -> Option<(Purpose, ConnectionSlot, bool)> {
        if let Some((slot, evicted)) = self.connections.enter(self.evict) {
            return Some((self.purpose, slot, evicted));
        }
        let (slot, evicted) = self.too_many.enter(Eviction::Any)?;
        Some((Purpose::TooMany, slot, evicted))
    }
}

/// Accepts connections for ever.
#[expect(clippy::disallowed_methods, reason = "nothing signals when a file descriptor comes free again")]
pub(super) async fn accept(listener: TcpListener, door: Listener, state: Arc<AppState>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely.
                error!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let mut idle = HEAD_TIMEOUT;
        if door.purpose == Purpose::Everything {
            let limits = state.limits();
            door.connections.limit(limits.connections);
            idle = limits.idle_timeout;
        }
        let Some((purpose, slot, evicted)) = door.admit() else {
            continue;
        };
        if evicted {
            state.metrics.counters.connections_evicted.inc();
        }
        let (state, tls) = (state.clone(), door.tls.clone());
        let open = Open { client: ClientAddress(peer.ip().to_canonical()), purpose, idle, slot: Arc::new(slot) };
        tokio::spawn(async move {
            let _counted = state.connections.token();
            if let Err(error) = connection(stream, tls, open, state).await {
                debug!(%peer, %error, "connection ended");
            }
        });
    }
}

/// A connection that has been accepted.
struct Open {
    client: ClientAddress,
    purpose: Purpose,
    idle: Duration,
    slot: Arc<ConnectionSlot>,
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    open: Open,
    state: Arc<AppState>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let Some(acceptor) = tls else {
        return Ok(serve_http(TokioIo::new(stream), open, state).await?);
    };
    let stream = tokio::select! {
        biased;
        stream = handshake(&acceptor, stream) => stream?,
        () = open.slot.evicted() => return Ok(()),
    };
    Ok(serve_http(TokioIo::new(stream), open, state).await?)
}

/// Agrees with a client on keys, in time.
async fn handshake<T>(acceptor: &TlsAcceptor, stream: T) -> io::Result<TlsStream<T>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await?
}

async fn serve_http<T>(stream: T, open: Open, state: Arc<AppState>) -> hyper::Result<()>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let Open { client, purpose, idle, slot } = open;
    let (timer, stream) = head_timeout(stream, idle, slot.clone());
    let mut http = http1::Builder::new();
    http.timer(timer)
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(purpose != Purpose::TooMany)
        .preserve_header_case(true)
        .max_headers(MAX_HEADERS)
        .max_buf_size(HEAD_BYTES)
        .auto_date_header(false);
    let service = service_fn(move |mut request| {
        let state = state.clone();
        request.extensions_mut().insert(client);
        async move { Ok::<_, Infallible>(respond(&state, purpose, request).await) }
    });
    let mut serving = std::pin::pin!(http.serve_connection(stream, service));
    // In this order: a request that has come is seen before the connection is closed.
    tokio::select! {
        biased;
        served = serving.as_mut() => return served,
        () = slot.evicted() => {}
    }
    if slot.may_close() {
        return Ok(());
    }
    serving.as_mut().graceful_shutdown();
    serving.await
}

/// Serves a single connection outside of any listener.
pub(crate) async fn serve_connection<T>(
    stream: T,
    client: ClientAddress,
    purpose: Purpose,
    state: Arc<AppState>,
) -> hyper::Result<()>
where
    T: Read + Write + Unpin + Send + 'static,
{
    // There is room for one.
    let Some((slot, _)) = Connections::new(1).enter(Eviction::Waiting) else {
        return Ok(());
    };
    let open = Open { client, purpose, idle: HEAD_TIMEOUT, slot: Arc::new(slot) };
    serve_http(stream, open, state).await
}

#[cfg(test)]
mod tests {
    use rustls::ServerConfig;
    use rustls::server::ResolvesServerCertUsingSni;
    use tokio::io::AsyncWriteExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn handshakes_come_to_an_end() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        // Nothing at all, and the beginning of a record.
        for begin in [&b""[..], b"\x16\x03\x01\x40\x00\x01"] {
            let (mut client, server) = tokio::io::duplex(1024);
            client.write_all(begin).await.unwrap();
            let before = Instant::now();
            let error = handshake(&acceptor, server).await.err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(before.elapsed(), TLS_HANDSHAKE_TIMEOUT);
        }
    }
}
