//! A network of one process: it stands between it and a server, and can be cut.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::listening::Listening;

/// Passes bytes on. While it is cut nothing passes, in either direction, and nobody is told, as where packets are
/// dropped: connections stay open, and new ones get no answer. What was sent meanwhile comes when it is whole again, as
/// TCP sends again what was lost, also from a connection that its client has given up. Runs on a thread of its own
/// until it is dropped.
pub struct Cable {
    /// Where to connect to, on 127.0.0.1.
    pub port: u16,
    is_cut: watch::Sender<bool>,
    _listening: Listening,
}

impl Cable {
    /// To a port of 127.0.0.1.
    pub fn to(target: u16) -> Cable {
        let (is_cut, state) = watch::channel(false);
        let listening = Listening::start(move |listener| accept(listener, target, state));
        Cable { port: listening.address.port(), is_cut, _listening: listening }
    }

    /// Cuts it, or mends it.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}

async fn accept(listener: TcpListener, target: u16, state: watch::Receiver<bool>) {
    loop {
        let (near, _) = listener.accept().await.unwrap();
        let mut whole = state.clone();
        tokio::spawn(async move {
            if whole.wait_for(|is_cut| !is_cut).await.is_err() {
                return;
            }
            let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else {
                return;
            };
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            tokio::spawn(pass(from_near, to_far, whole.clone()));
            pass(from_far, to_near, whole).await;
        });
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut whole: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if whole.wait_for(|is_cut| !is_cut).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    // The end is told as late as everything else.
    if whole.wait_for(|is_cut| !is_cut).await.is_ok() {
        let _ = to.shutdown().await;
    }
}
