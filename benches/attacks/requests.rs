//! Requests as bytes, and those who send them: an attacker keeps to no library's manners.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The longest that an attacker waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Before the next attempt, when a connection was refused or closed at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// No credentials: 401.
    Nobody,
    /// A password that is not the user's: 401.
    WrongPassword,
    /// A user who may read the index and not write it: 403 for each item.
    Reader,
    /// Who may write.
    Writer,
    /// Who may do everything.
    Admin,
}

impl Caller {
    /// The value of the header `Authorization`, for the users of `scripts/search-server`.
    pub fn authorization(self) -> Option<&'static str> {
        match self {
            Caller::Nobody => None,
            Caller::WrongPassword => Some("Basic d3JpdGVyOndyb25n"),
            Caller::Reader => Some("Basic cmVhZGVyOmFzcGVuLUhhemVsLTI5MDY="),
            Caller::Writer => Some("Basic d3JpdGVyOnNwcnVjZS1MYXJjaC0wNDE3"),
            Caller::Admin => Some("Basic YWRtaW46YWRtaW4="),
        }
    }
}

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    head: Bytes,
    body: Bytes,
    /// Its sender leaves so long after it was sent.
    leaves: Option<Duration>,
}

impl Request {
    /// A bulk. `headers`: further ones, each with its line end.
    pub fn bulk(caller: Caller, path: &str, headers: &str, body: impl Into<Bytes>) -> Request {
        Self::bulk_of("application/x-ndjson", caller, path, headers, body)
    }

    /// The same of another media type.
    pub fn bulk_of(kind: &str, caller: Caller, path: &str, headers: &str, body: impl Into<Bytes>) -> Request {
        let body = body.into();
        let authorization = caller.authorization().map_or(String::new(), |value| format!("Authorization: {value}\r\n"));
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: search\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             {authorization}{headers}Content-Length: {length}\r\n\r\n"
        );
        Request { head: head.into(), body, leaves: None }
    }

    /// The same of a sender who does not wait for the answer.
    pub fn leaving(self, after: Duration) -> Request {
        Request { leaves: Some(after), ..self }
    }

    /// Sends it on a connection of its own and reads whatever comes back. Answers whether anything did.
    async fn send(&self, to: SocketAddr, from: IpAddr) -> bool {
        let Ok(stream) = connect(to, from).await else {
            return false;
        };
        let (mut read, mut write) = stream.into_split();
        let sending = async {
            write.write_all(&self.head).await?;
            write.write_all(&self.body).await
        };
        if let Some(after) = self.leaves {
            let _ = sending.await;
            let _ = tokio::time::timeout(after, read.readable()).await;
            return true;
        }
        let mut answer = Vec::new();
        // An early answer comes while the body is still on its way.
        let both = async { tokio::join!(sending, read.read_to_end(&mut answer)) };
        let _ = tokio::time::timeout(PATIENCE, both).await;
        !answer.is_empty()
    }
}

/// One who attacks until it is dropped.
#[derive(Debug, Clone)]
pub enum Attacker {
    /// Sends one request after the other, round and round.
    Sends(Arc<[Request]>),
    /// Announces a body of so many bytes and sends it byte by byte, forever.
    Trickles(usize),
    /// Connects and says nothing.
    IsSilent,
    /// Sends so many bytes of a head that does not end.
    BeginsHead(usize),
}

impl Attacker {
    /// The nth attacker: each few have an address of their own.
    pub async fn attack(self, to: SocketAddr, number: usize) {
        let from = IpAddr::from([127, 0, 0, 2 + (number % 4) as u8]);
        let mut turn = number;
        loop {
            let went_well = match &self {
                Attacker::Sends(requests) => {
                    let request = &requests[turn % requests.len()];
                    request.send(to, from).await
                }
                Attacker::Trickles(length) => trickle(to, from, *length).await.is_ok(),
                Attacker::IsSilent => stay(to, from, b"").await.is_ok(),
                Attacker::BeginsHead(bytes) => stay(to, from, &head(*bytes)).await.is_ok(),
            };
            turn += 1;
            if !went_well {
                pause(PAUSE).await;
            }
        }
    }
}

/// Sends each of these once and waits for each answer.
pub async fn send_all(requests: &[Request], to: SocketAddr) {
    for request in requests {
        request.send(to, IpAddr::from([127, 0, 0, 2])).await;
    }
}

async fn connect(to: SocketAddr, from: IpAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

/// A body that begins and never ends. Ends with an error when the other side has closed.
async fn trickle(to: SocketAddr, from: IpAddr, length: usize) -> std::io::Result<()> {
    let head = format!(
        "POST /open-x/_bulk HTTP/1.1\r\nHost: search\r\nContent-Type: application/x-ndjson\r\nContent-Length: \
         {length}\r\n\r\n"
    );
    let mut stream = connect(to, from).await?;
    stream.write_all(head.as_bytes()).await?;
    let mut answer = [0; 512];
    loop {
        stream.write_all(b" ").await?;
        // Whoever has answered wants no more of it.
        let answered = tokio::time::timeout(Duration::from_millis(250), stream.read(&mut answer));
        if answered.await.is_ok() {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
    }
}

/// The beginning of a request, without the end of its head.
fn head(bytes: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: search\r\nX-Long: ".to_vec();
    head.resize(bytes, b'a');
    head
}

/// Says something and keeps a connection open until the other side closes it.
async fn stay(to: SocketAddr, from: IpAddr, begin: &[u8]) -> std::io::Result<()> {
    let mut stream = connect(to, from).await?;
    stream.write_all(begin).await?;
    stream.read_to_end(&mut Vec::new()).await?;
    Err(std::io::ErrorKind::ConnectionReset.into())
}

/// A short wait between two attempts.
pub async fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the pace of a client that tries again, or looks again and again")]
    tokio::time::sleep(time).await;
}
