//! A made-up cluster for what a real one does not do on demand. It takes what the honest writer sends, and answers
//! everybody else in the way that the request's own `way` parameter names.

use std::io::Write as _;
use std::net::SocketAddr;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::requests::Caller;

/// The ways in which a write can fail.
pub const WAYS: [&str; 8] = ["401", "302", "408", "503", "items", "deflate", "close", "early"];

const HEALTH: &str =
    r#"{"cluster_name":"made up","status":"green","timed_out":false,"number_of_nodes":1,"number_of_data_nodes":1}"#;

/// Serves on a free port until the runtime ends.
pub async fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(address)
}

/// Answers until the other side, or an answer, closes.
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut read = Vec::new();
    loop {
        let end = loop {
            match memchr::memmem::find(&read, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => more(&mut stream, &mut read).await?,
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end);
        let way = way(&head);
        if way == Some("early") {
            return stream.write_all(&answer(401, "connection: close\r\n", b"{\"status\":401}")).await;
        }
        let length = header(&head, "content-length").and_then(|length| length.parse().ok());
        while read.len() < length.unwrap_or(0) {
            more(&mut stream, &mut read).await?;
        }
        let body: Vec<u8> = read.drain(..length.unwrap_or(0)).collect();
        let (items, failed) = (items(&body, 201), items(&body, 403));
        let bytes = match way {
            None if head.starts_with("POST") => answer(200, "", items.as_bytes()),
            None => answer(200, "", HEALTH.as_bytes()),
            Some("302") => answer(302, "location: /elsewhere\r\n", b""),
            Some("close") => return Ok(()),
            Some("items") if !head.contains("items") && head.contains("filter_path") => {
                answer(200, "", b"{\"took\":1}")
            }
            Some("deflate") if header(&head, "accept-encoding").is_some_and(|v| v.contains("deflate")) => {
                answer(200, "content-encoding: deflate\r\n", &deflate(&failed))
            }
            Some("items" | "deflate") => answer(200, "", failed.as_bytes()),
            Some(status) => answer(status.parse().unwrap_or(500), "", b"{\"status\":0}"),
        };
        stream.write_all(&bytes).await?;
    }
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> std::io::Result<()> {
    match stream.read_buf(read).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// How a request of somebody else than the writer is answered.
fn way(head: &str) -> Option<&'static str> {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let is_writer = header(head, "authorization") == Caller::Writer.authorization();
    WAYS.into_iter().find(|way| !is_writer && target.contains(&format!("way={way}")))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

/// The answer to a bulk whose every document fares alike.
fn items(body: &[u8], status: u16) -> String {
    let count = memchr::memchr_iter(b'\n', body).count() / 2;
    let item = format!("{{\"index\":{{\"status\":{status}}}}}");
    let errors = status > 299;
    format!("{{\"took\":1,\"errors\":{errors},\"items\":[{}]}}", vec![item; count].join(","))
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Made Up\r\ncontent-type: application/json; charset=UTF-8\r\n{headers}content-length: \
         {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn deflate(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    // Nothing fails in memory.
    let _ = encoder.write_all(text.as_bytes());
    encoder.finish().unwrap_or_default()
}
