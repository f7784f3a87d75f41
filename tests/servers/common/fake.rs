//! An upstream that is made up: it keeps every request as it came and answers what the test says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::gate::Gate;
use super::wire::find;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// From the method to the blank line.
    pub head: String,
    pub body: Vec<u8>,
    /// Which connection it came on, from 0.
    pub connection: usize,
}

impl Received {
    /// All values of the headers of this name.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").skip(1);
        lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    /// The body without its chunks, if it came in such.
    pub fn whole_body(&self) -> Vec<u8> {
        if self.headers("transfer-encoding").is_empty() {
            return self.body.clone();
        }
        let (mut whole, mut rest) = (Vec::new(), &self.body[..]);
        loop {
            let line = find(rest, b"\r\n").unwrap();
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                return whole;
            }
            let chunk = &rest[line + 2..];
            whole.extend_from_slice(&chunk[..size]);
            rest = &chunk[size + 2..];
        }
    }

    /// The target as it stands in the request line.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

/// What every fake answers of its health unless its test says otherwise: spinney shows its state only to whom the
/// cluster shows this.
pub const HEALTH: &str =
    "{\"cluster_name\":\"made up\",\"status\":\"green\",\"timed_out\":false,\"number_of_nodes\":1}";

/// Listens until it is dropped.
pub struct Fake {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    address: std::net::SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    stopped: Arc<AtomicBool>,
}

/// What the upstream does with a request.
pub enum Reply {
    /// These bytes, whole.
    Bytes(Vec<u8>),
    /// These bytes, and then the connection closes.
    Last(Vec<u8>),
}

/// An answer with a JSON body, as bytes.
pub fn json(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Made Up\r\ncontent-type: application/json; charset=UTF-8\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// What a cluster answers that shows everybody the index of a path, where spinney asks whether it does.
pub fn shows(request: &Received) -> Option<Vec<u8>> {
    let (index, _) = request.target().strip_prefix('/')?.split_once("/_search?")?;
    let is_asked = find(&request.body, b"\"profile\":true").is_some();
    let index = percent_encoding::percent_decode_str(index).decode_utf8_lossy();
    let body = format!(
        "{{\"timed_out\":false,\"_shards\":{{\"total\":1,\"failed\":0}},\"profile\":{{\"shards\":[{{\"id\":\"[n][{index}][0]\"}}]}}}}"
    );
    is_asked.then(|| json(200, "", &body))
}

impl Fake {
    pub fn start(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Fake {
        Self::with(None, healthy(reply))
    }

    /// The same, with an answer of the test's own for its health too.
    pub fn in_any_health(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Fake {
        Self::with(None, reply)
    }

    /// Reads the body of no bulk before the gate is open: whoever sends it has to hold it. For large bodies, which are
    /// forgotten once they were answered.
    pub fn slow(gate: Arc<Gate>, reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Fake {
        Self::with(Some(gate), healthy(reply))
    }

    fn with(gate: Option<Arc<Gate>>, reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let (reply, log, stop) = (Arc::new(reply), received.clone(), stopped.clone());
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (reply, log, gate) = (reply.clone(), log.clone(), gate.clone());
                // Spinney may go away in the middle: then there is nobody to answer.
                thread::spawn(move || serve(stream.unwrap(), connection, gate.as_deref(), &log, &*reply));
            }
        });
        Fake { url: format!("http://{address}"), address, received, stopped }
    }

    /// The requests so far, those for spinney's own questions included, but for those about names that have no route.
    pub fn received(&self) -> Vec<Received> {
        let received = self.received.lock().unwrap().clone();
        let of_clients = received.into_iter();
        of_clients.filter(|request| !request.target().starts_with("/_alias/")).collect()
    }

    /// The last request that is one of those; spinney asks in its own name, too, whenever it likes.
    pub fn last_of(&self, is_one: impl Fn(&Received) -> bool) -> Received {
        let mut received = self.received().into_iter().rev();
        received.find(is_one).expect("such a request has come")
    }

    /// The last request so far.
    pub fn last(&self) -> Received {
        self.received().pop().expect("a request has come")
    }
}

fn healthy(reply: impl Fn(&Received) -> Reply + Send + Sync) -> impl Fn(&Received) -> Reply + Send + Sync {
    move |request| match request.target() {
        "/_cluster/health" => Reply::Bytes(json(200, "", HEALTH)),
        _ => reply(request),
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    mut stream: TcpStream,
    connection: usize,
    gate: Option<&Gate>,
    log: &Mutex<Vec<Received>>,
    reply: &(dyn Fn(&Received) -> Reply + Send + Sync),
) -> Option<()> {
    let mut read = Vec::new();
    loop {
        let end = loop {
            match find(&read, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => more(&mut stream, &mut read)?,
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end);
        let mut request = Received { head, body: Vec::new(), connection };
        let slow = gate.filter(|_| request.target().ends_with("/_bulk"));
        if let Some(gate) = slow {
            gate.pass();
        }
        let length = request.headers("content-length").first().map_or(0, |n| n.parse().unwrap());
        if request.headers("transfer-encoding").is_empty() {
            while read.len() < length {
                more(&mut stream, &mut read)?;
            }
            request.body = read.drain(..length).collect();
        } else {
            let end = loop {
                match find(&read, b"0\r\n\r\n") {
                    Some(at) => break at + 5,
                    None => more(&mut stream, &mut read)?,
                }
            };
            // Kept with its chunks: tests look at the fact, not at the content.
            request.body = read.drain(..end).collect();
        }
        let (bytes, last) = match reply(&request) {
            Reply::Bytes(bytes) => (bytes, false),
            Reply::Last(bytes) => (bytes, true),
        };
        if slow.is_some() {
            request.body = Vec::new();
        }
        log.lock().unwrap().push(request);
        stream.write_all(&bytes).ok()?;
        if last {
            return None;
        }
    }
}

fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 64 << 10];
    let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
    read.extend_from_slice(&piece[..count]);
    Some(())
}
