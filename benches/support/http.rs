//! One HTTP/1.1 connection with as little work per request as possible: the load shares its core with what it measures.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The `host:port` of a plain `http://` address.
pub fn authority(url: &str) -> anyhow::Result<&str> {
    let rest = url.strip_prefix("http://").with_context(|| format!("{url} is not a plain http:// address"))?;
    Ok(rest.trim_end_matches('/'))
}

pub struct Connection {
    requests: SendRequest<Full<Bytes>>,
    authority: String,
    /// Sent with every request.
    headers: HeaderMap,
}

impl Connection {
    /// Opens a connection to a `host:port`.
    pub async fn open(authority: &str) -> anyhow::Result<Self> {
        Self::open_with(authority, HeaderMap::new()).await
    }

    /// The same, with headers that every request has: credentials, for example.
    pub async fn open_with(authority: &str, headers: HeaderMap) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await.with_context(|| format!("cannot connect to {authority}"))?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with an error when the peer goes away; the request under way then reports it.
        tokio::spawn(connection);
        Ok(Self { requests, authority: authority.to_owned(), headers })
    }

    /// Sends a request and reads the whole answer.
    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, content_type)
            .body(Full::new(body))?;
        request.headers_mut().extend(self.headers.clone());
        self.requests.ready().await?;
        let response = self.requests.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends one bulk; the answer is not looked into, so that this costs nothing while the clock runs.
    pub async fn bulk(&mut self, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let (status, answer) = self.request(Method::POST, path, "application/x-ndjson", body).await?;
        ensure!(status == StatusCode::OK, "{path} answered {status}: {}", beginning(&answer));
        Ok(answer)
    }
}

/// Sends one request with a JSON body (or none, if it is null) on a connection of its own and expects a 2xx.
pub async fn json(authority: &str, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
    let mut connection = Connection::open(authority).await?;
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(serde_json::to_vec(body)?) };
    let (status, answer) = connection.request(method.clone(), path, "application/json", bytes).await?;
    if !status.is_success() {
        bail!("{method} {path} answered {status}: {}", beginning(&answer));
    }
    serde_json::from_slice(&answer).with_context(|| format!("{method} {path} did not answer with JSON"))
}

fn beginning(answer: &[u8]) -> String {
    String::from_utf8_lossy(&answer[..answer.len().min(500)]).into_owned()
}
