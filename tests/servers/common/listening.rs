//! A listener on a thread of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Goes on until it is dropped, with all that it has begun.
pub struct Listening {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
}

impl Listening {
    /// On a free port of 127.0.0.1.
    pub fn start<A: Future<Output = ()>>(accept: impl FnOnce(TcpListener) -> A + Send + 'static) -> Listening {
        let (stop, stopped) = oneshot::channel();
        let (address, bound) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                address.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(listener) => (),
                    _ = stopped => (),
                }
            });
        });
        let address = bound.recv().unwrap();
        let stop = Some(stop);
        Listening { address, stop }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The other side sees the channel close.
        self.stop.take();
    }
}
