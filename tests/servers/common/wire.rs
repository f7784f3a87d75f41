//! Requests as bytes on a socket: what HTTP libraries would tidy up before it is sent, and answers as they came.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use memchr::memmem;

use super::PATIENCE;

/// One connection.
pub struct Wire {
    stream: TcpStream,
    /// What was read and belongs to a later answer.
    read: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names as they were spelled, in their order.
    pub headers: Vec<(String, String)>,
    /// Without its transfer coding, with its content coding.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of this name, in whatever case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let same = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.headers.iter().find(same).map(|(_, value)| value.as_str())
    }

    /// The body without a gzip coding.
    pub fn plain(&self) -> Vec<u8> {
        if self.header("content-encoding") != Some("gzip") {
            return self.body.clone();
        }
        let mut plain = Vec::new();
        MultiGzDecoder::new(&self.body[..]).read_to_end(&mut plain).unwrap();
        plain
    }

    /// The body as JSON; panics if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.plain()).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// The body for a message.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.plain()).into_owned()
    }
}

impl Wire {
    /// Connects to `http://host:port`.
    pub fn connect(url: &str) -> Wire {
        Wire::try_connect(url).unwrap()
    }

    /// The same where nobody may listen.
    pub fn try_connect(url: &str) -> io::Result<Wire> {
        let address = url.strip_prefix("http://").unwrap();
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Wire { stream, read: Vec::new() })
    }

    /// Sends bytes; panics if the other side has closed.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub fn end(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// The next answer, an interim one (1xx) too. `to_head`: it answers a HEAD and has no body. `None` if the other
    /// side closes without one.
    pub fn answer(&mut self, to_head: bool) -> Option<Answer> {
        let head_end = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at;
            }
            if !self.more() {
                assert!(self.read.is_empty(), "half a head: {:?}", self.read);
                return None;
            }
        };
        let head = String::from_utf8_lossy(&self.read[..head_end]).into_owned();
        self.read.drain(..head_end + 4);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let status: u16 = status.parse().unwrap();
        let headers = lines
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap();
                (name.to_owned(), value.trim().to_owned())
            })
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if !to_head && status >= 200 && status != 204 && status != 304 {
            answer.body = self.body(&answer);
        }
        Some(answer)
    }

    /// The next answer that is no interim one; panics if there is none.
    pub fn last_answer(&mut self, to_head: bool) -> Answer {
        loop {
            let answer = self.answer(to_head).expect("the other side closed without an answer");
            if answer.status >= 200 {
                return answer;
            }
        }
    }

    /// Waits until the other side closes; panics if it sends another byte.
    pub fn expect_close(&mut self) {
        assert!(self.read.is_empty() && !self.more(), "{:?}", self.read);
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        if answer.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            let mut body = Vec::new();
            loop {
                let size = self.line();
                let size = usize::from_str_radix(size.split(';').next().unwrap(), 16).unwrap();
                let chunk = self.take(size);
                body.extend_from_slice(&chunk);
                assert_eq!(self.line(), "", "a chunk ends with its line");
                if size == 0 {
                    return body;
                }
            }
        }
        if let Some(length) = answer.header("content-length") {
            return self.take(length.parse().unwrap());
        }
        while self.more() {}
        std::mem::take(&mut self.read)
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(at) = find(&self.read, b"\r\n") {
                let line = String::from_utf8_lossy(&self.read[..at]).into_owned();
                self.read.drain(..at + 2);
                return line;
            }
            assert!(self.more(), "the other side closed within a body");
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.read.len() < length {
            assert!(self.more(), "the other side closed within a body");
        }
        self.read.drain(..length).collect()
    }

    /// Reads some more; false at the end.
    fn more(&mut self) -> bool {
        let mut piece = [0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(read) => {
                self.read.extend_from_slice(&piece[..read]);
                read > 0
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

/// Where `needle` stands first.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memmem::find(haystack, needle)
}

/// Replaces every `from` by `to`.
pub fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// One gzip member.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

// --------------------------------------------------------------------------------------------------------------------

/// A request that is sent exactly as it says. `Host` is the only header that comes by itself.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: Vec<u8>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    coding: Coding,
    /// Split into chunks of this size; otherwise with a Content-Length.
    chunks: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Identity,
    Gzip,
    /// Two gzip members, cut in the middle.
    TwoMembers,
}

impl Request {
    pub fn new(method: &str, target: impl AsRef<[u8]>) -> Request {
        Request {
            method: method.into(),
            target: target.as_ref().into(),
            headers: Vec::new(),
            body: Vec::new(),
            coding: Coding::Identity,
            chunks: None,
        }
    }

    pub fn get(target: &str) -> Request {
        Request::new("GET", target)
    }

    /// The same with another method.
    pub fn method(mut self, method: &str) -> Request {
        self.method = method.into();
        self
    }

    /// A bulk to this path.
    pub fn bulk(target: &str, body: impl AsRef<[u8]>) -> Request {
        Request::new("POST", target).header("Content-Type", "application/x-ndjson").body(body)
    }

    /// A JSON body.
    pub fn json(method: &str, target: &str, body: impl AsRef<[u8]>) -> Request {
        Request::new(method, target).header("Content-Type", "application/json").body(body)
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Without the headers of this name that are there.
    pub fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Request {
        self.body = body.as_ref().into();
        self
    }

    /// The body as it was given.
    pub fn raw_body(&self) -> &[u8] {
        &self.body
    }

    pub fn gzipped(mut self) -> Request {
        self.coding = Coding::Gzip;
        self.header("Content-Encoding", "gzip")
    }

    pub fn gzipped_in_two(mut self) -> Request {
        self.coding = Coding::TwoMembers;
        self.header("Content-Encoding", "gzip")
    }

    pub fn chunked(mut self, size: usize) -> Request {
        self.chunks = Some(size);
        self.header("Transfer-Encoding", "chunked")
    }

    /// The same with a placeholder replaced in target and body.
    pub fn with(&self, placeholder: &str, value: &str) -> Request {
        let swap = |bytes: &[u8]| replace(bytes, placeholder.as_bytes(), value.as_bytes());
        Request { target: swap(&self.target), body: swap(&self.body), ..self.clone() }
    }

    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// For messages.
    pub fn describe(&self) -> String {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(2000)]);
        let target = String::from_utf8_lossy(&self.target);
        format!("{} {target} {:?} {body:?}", self.method, self.headers)
    }

    /// The bytes for the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let body = match self.coding {
            Coding::Identity => self.body.clone(),
            Coding::Gzip => gzip(&self.body),
            Coding::TwoMembers => {
                let (one, two) = self.body.split_at(self.body.len() / 2);
                [gzip(one), gzip(two)].concat()
            }
        };
        let mut bytes = format!("{} ", self.method).into_bytes();
        bytes.extend_from_slice(&self.target);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: search\r\n");
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let Some(size) = self.chunks else {
            let says = |name: &str| self.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
            if !(body.is_empty() && self.method == "GET" || self.method == "HEAD" || says("content-length")) {
                bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&body);
            return bytes;
        };
        bytes.extend_from_slice(b"\r\n");
        for chunk in body.chunks(size) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    /// Sends it on a connection and reads the answer.
    pub fn on(&self, wire: &mut Wire) -> Answer {
        wire.send(&self.bytes());
        wire.last_answer(self.method == "HEAD")
    }

    /// The same on a connection of its own.
    pub fn to(&self, url: &str) -> Answer {
        self.on(&mut Wire::connect(url))
    }
}
