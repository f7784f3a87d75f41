//! The access log: a line of JSON about each request, when the last byte of its response has been handed over. A thread
//! of its own writes them, and no request waits for it: lines that it does not get to are dropped, and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use serde::Serialize;
use tracing::warn;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use crate::http::{Body, BoxError};

/// Lines that may wait for the disk.
const WAITING: usize = 8_192;

/// Most bytes of a path in a line.
pub(crate) const PATH_BYTES: usize = 1_024;

/// The name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the access log {path}")]
pub(crate) struct AccessLogError {
    path: PathBuf,
    source: io::Error,
}

/// The access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    lines: NonBlocking,
    dropped: ErrorCounter,
    /// How often the file is to be opened again.
    wanted: Arc<AtomicUsize>,
    worker: Mutex<Option<WorkerGuard>>,
}

impl AccessLog {
    /// Appends to a file, which is created; `-`: standard output.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<AccessLog, AccessLogError> {
        let wanted = Arc::new(AtomicUsize::new(0));
        let (lines, worker) = match path.as_os_str() == STANDARD_OUTPUT {
            true => builder().finish(io::stdout()),
            false => {
                let file = append(path).map_err(|source| AccessLogError { path: path.to_owned(), source })?;
                builder().finish(Reopened { path: path.to_owned(), file, opened: 0, wanted: wanted.clone() })
            }
        };
        let dropped = lines.error_counter();
        Ok(AccessLog { lines, dropped, wanted, worker: Mutex::new(Some(worker)) })
    }

    /// The next line goes to a file of that name, which another program may have renamed meanwhile.
    pub(crate) fn reopen(&self) {
        self.wanted.fetch_add(1, Relaxed);
    }

    /// Lines that were not written.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.dropped_lines() as u64
    }

    /// Writes what waits. Nothing is written afterwards.
    pub(crate) fn close(&self) {
        self.worker.lock().take();
    }

    fn write(&self, line: &Line) {
        // A closed or full channel counts the line as dropped.
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let _ = self.lines.clone().write_all(&text);
    }

    /// The same response, whose line is written when it has been sent or is given up.
    pub(crate) fn follow(
        log: &Arc<AccessLog>,
        mut line: Line,
        began: Instant,
        response: Response<Body>,
    ) -> Response<Body> {
        line.status = response.status().as_u16();
        response.map(|body| {
            let expected = body.size_hint().exact();
            let log = log.clone();
            Followed { body, log, line, began, expected, ended: false }.boxed_unsync()
        })
    }
}

fn builder() -> NonBlockingBuilder {
    NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING).thread_name("access-log")
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// A file that is opened again on demand.
struct Reopened {
    path: PathBuf,
    file: File,
    opened: usize,
    wanted: Arc<AtomicUsize>,
}

impl Write for Reopened {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let wanted = self.wanted.load(Relaxed);
        if wanted != self.opened {
            self.opened = wanted;
            match append(&self.path) {
                Ok(file) => self.file = file,
                Err(error) => warn!(path = %self.path.display(), %error, "the access log goes on in the old file"),
            }
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What a line says; without the query, which may hold passwords.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// When the request came, RFC 3339.
    pub time: String,
    /// The request's id in the log.
    pub id: String,
    pub client: IpAddr,
    pub method: String,
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// As the request's head says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<u64>,
    pub status: u16,
    pub response_bytes: u64,
    /// From the head of the request to the last byte of the response.
    pub seconds: f64,
    /// Whether the response broke off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
}

/// A response's body that is followed to its end.
struct Followed {
    body: Body,
    log: Arc<AccessLog>,
    line: Line,
    began: Instant,
    expected: Option<u64>,
    ended: bool,
}

impl hyper::body::Body for Followed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.line.response_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Poll::Ready(None) => self.ended = true,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // The body of an answer to HEAD is never asked for.
        let is_whole = self.ended || self.expected == Some(self.line.response_bytes) || self.line.method == "HEAD";
        self.line.aborted = !is_whole && !self.body.is_end_stream();
        self.line.seconds = self.began.elapsed().as_secs_f64();
        self.log.write(&self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance;
    use crate::http::full;

    fn line(method: &str) -> Line {
        Line {
            time: "2026-01-01T00:00:00Z".into(),
            id: "a".into(),
            client: IpAddr::from([10, 0, 0, 1]),
            method: method.into(),
            path: "/news/_bulk".into(),
            user_agent: None,
            request_bytes: Some(7),
            status: 0,
            response_bytes: 0,
            seconds: 0.0,
            aborted: false,
        }
    }

    /// A file that goes with its test.
    fn scratch() -> PathBuf {
        std::env::temp_dir().join(format!("spinney-access-{:x}", chance::nonce()))
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    struct Endless;

    impl hyper::body::Body for Endless {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"ab")))))
        }
    }

    #[tokio::test]
    async fn a_line_is_written_when_a_response_is_over() {
        let path = scratch();
        let log = Arc::new(AccessLog::open(&path).unwrap());
        let follow = |method, body| AccessLog::follow(&log, line(method), Instant::now(), Response::new(body));
        let read = follow("POST", full("three")).into_body().collect().await.unwrap().to_bytes();
        assert_eq!(read, "three");
        drop(follow("HEAD", full("three")));
        drop(follow("GET", full("")));
        let mut broken = follow("GET", Endless.boxed_unsync()).into_body();
        assert!(broken.frame().await.unwrap().is_ok());
        drop(broken);
        log.close();
        let lines = lines(&path);
        let of = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("response_bytes"), [5, 0, 0, 2]);
        assert_eq!(of("aborted"), [().into(), ().into(), ().into(), serde_json::Value::Bool(true)]);
        assert_eq!(lines[0]["status"], 200);
        assert_eq!(lines[0]["client"], "10.0.0.1");
        assert_eq!(log.dropped(), 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_renamed_file_is_left_for_a_new_one() {
        let (path, old) = (scratch(), scratch());
        let log = AccessLog::open(&path).unwrap();
        log.write(&line("GET"));
        while lines(&path).is_empty() {
            std::thread::yield_now();
        }
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        log.write(&line("PUT"));
        log.close();
        let method = |path: &Path| lines(path).iter().map(|line| line["method"].clone()).collect::<Vec<_>>();
        assert_eq!((method(&old), method(&path)), (vec!["GET".into()], vec!["PUT".into()]));
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(old).unwrap();
        let refused = AccessLog::open(Path::new("/no/such/directory/log")).unwrap_err();
        assert_eq!(refused.to_string(), "cannot write the access log /no/such/directory/log");
    }
}
