//! The access log: a line of JSON about each request, when the last byte of its response has been handed over. A thread
//! of its own writes them, and no request waits for it: lines that it does not get to are dropped, and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, USER_AGENT};
use hyper::{Request, Response};
use jiff::Timestamp;
use parking_lot::Mutex;
#[cfg(unix)]
use rustix::fs::OFlags;
use serde::Serialize;
use tracing::warn;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use super::loggable;
use crate::clock;
use crate::http::{Body, BoxError, ClientAddress};

/// Lines that may wait for the disk.
const WAITING: usize = 8_192;

/// Most bytes of a path, or a method, in a line.
const PATH_BYTES: usize = 1_024;

/// How long a stop waits until the lines are written.
const CLOSING: Duration = Duration::from_secs(2);

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
    path: PathBuf,
    lines: NonBlocking,
    dropped: ErrorCounter,
    failed: Arc<AtomicU64>,
    /// The file that is opened again, until the worker has it.
    next: Arc<Mutex<Option<File>>>,
    worker: Mutex<Option<WorkerGuard>>,
}

impl AccessLog {
    /// Appends to a file, which is created; `-`: standard output.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<AccessLog, AccessLogError> {
        let (next, failed) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let to: Box<dyn Write + Send> = match is_standard_output(path) {
            true => Box::new(io::stdout()),
            false => Box::new(append(path)?),
        };
        let lines = Lines {
            path: path.to_owned(),
            to,
            is_torn: false,
            fails: false,
            next: Arc::clone(&next),
            failed: failed.clone(),
        };
        let (lines, worker) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(WAITING)
            .thread_name("access-log")
            .finish(lines);
        let dropped = lines.error_counter();
        Ok(AccessLog { path: path.to_owned(), lines, dropped, failed, next, worker: Mutex::new(Some(worker)) })
    }

    /// Lines go to a file of that name from now on; another program may have renamed the one before.
    ///
    /// # Errors
    /// It cannot be opened: they go on in the old one.
    pub(crate) fn reopen(&self) -> Result<(), AccessLogError> {
        if !is_standard_output(&self.path) {
            *self.next.lock() = Some(append(&self.path)?);
            self.send(b"");
        }
        Ok(())
    }

    /// Lines that were not written.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.dropped_lines() as u64 + self.failed.load(Relaxed)
    }

    /// Writes what waits, as far as that is taken in time. Nothing is written afterwards.
    pub(crate) fn close(&self) {
        let Some(worker) = self.worker.lock().take() else { return };
        let (over, wait) = mpsc::channel();
        // The worker may wait for its reader for ever, and so does the end of its guard.
        std::thread::spawn(move || {
            drop(worker);
            over.send(())
        });
        let _ = wait.recv_timeout(CLOSING);
    }

    fn write(&self, line: &Line) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        self.send(&text);
    }

    fn send(&self, text: &[u8]) {
        // A closed or full channel counts the line as dropped.
        let _ = self.lines.clone().write(text);
    }

    /// A line that is written when this is dropped.
    pub(crate) fn begin(log: &Arc<AccessLog>, line: Line, began: Instant) -> Entry {
        Entry { log: log.clone(), line, began }
    }
}

/// A request whose line is not written yet.
pub(crate) struct Entry {
    log: Arc<AccessLog>,
    line: Line,
    began: Instant,
}

impl Entry {
    /// The same response, whose line is written when it has been sent or is given up.
    pub(crate) fn follow(mut self, response: Response<Body>) -> Response<Body> {
        self.line.status = Some(response.status().as_u16());
        response.map(|body| {
            let expected = body.size_hint().exact();
            Followed { body, entry: self, expected, ended: false }.boxed_unsync()
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.line.seconds = self.began.elapsed().as_secs_f64();
        self.log.write(&self.line);
    }
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

fn append(path: &Path) -> Result<File, AccessLogError> {
    let refused = |source| AccessLogError { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // To open a FIFO without a reader would block until there is one: it is refused.
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.open(path).map_err(refused)?;
    #[cfg(unix)]
    {
        // One that is read slowly holds up the worker alone.
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| refused(error.into()))?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|error| refused(error.into()))?;
    }
    Ok(file)
}

/// Where lines go. Whole ones come, and an empty one where there is a file after this one.
struct Lines {
    path: PathBuf,
    to: Box<dyn Write + Send>,
    /// The last line has no end.
    is_torn: bool,
    fails: bool,
    next: Arc<Mutex<Option<File>>>,
    failed: Arc<AtomicU64>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line).map(|()| line.len())
    }

    /// What cannot be written is counted: the thread that calls this would pass over it.
    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(file) = self.next.lock().take() {
            self.is_torn = false;
            self.to = Box::new(file);
        }
        if line.is_empty() {
            return Ok(());
        }
        let begin: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written = self.to.write_all(begin).and_then(|()| self.to.write_all(line)).and_then(|()| self.to.flush());
        self.is_torn = written.is_err();
        if let Err(error) = &written {
            self.failed.fetch_add(1, Relaxed);
            if !self.fails {
                warn!(path = %self.path.display(), %error, "the access log cannot be written");
            }
        }
        self.fails = written.is_err();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a line says; without the query, which may hold passwords.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// When the request came, RFC 3339.
    time: String,
    /// The request's id in the log.
    id: String,
    client: IpAddr,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    /// As the request's head says.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_bytes: Option<u64>,
    /// None where the client went before there was a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    response_bytes: u64,
    /// From the head of the request to the last byte of the response.
    seconds: f64,
    /// Whether the response broke off, or never began.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    aborted: bool,
}

impl Line {
    /// Of a request before it is answered. `id`: the one in the log.
    pub(crate) fn of<B>(request: &Request<B>, id: &str) -> Line {
        let cut = |text: &str| text.get(..text.floor_char_boundary(PATH_BYTES)).unwrap_or_default().to_owned();
        let header = |name| request.headers().get(name);
        Line {
            time: format!("{:.3}", Timestamp::from_millisecond(clock::system().0).unwrap_or_default()),
            id: id.to_owned(),
            client: ClientAddress::of(request.extensions()).0,
            method: cut(request.method().as_str()),
            path: cut(request.uri().path()),
            user_agent: header(USER_AGENT).map(loggable),
            request_bytes: header(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()),
            status: None,
            response_bytes: 0,
            seconds: 0.0,
            aborted: true,
        }
    }
}

/// A response's body that is followed to its end.
struct Followed {
    body: Body,
    entry: Entry,
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
                self.entry.line.response_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
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
        let line = &mut self.entry.line;
        // The body of an answer to HEAD is never asked for.
        let is_whole = self.ended || self.expected == Some(line.response_bytes) || line.method == "HEAD";
        line.aborted = !is_whole && !self.body.is_end_stream();
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
            status: None,
            response_bytes: 0,
            seconds: 0.0,
            aborted: true,
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
        let begin = |method| AccessLog::begin(&log, line(method), Instant::now());
        let follow = |method, body| begin(method).follow(Response::new(body));
        let read = follow("POST", full("three")).into_body().collect().await.unwrap().to_bytes();
        assert_eq!(read, "three");
        drop(follow("HEAD", full("three")));
        drop(follow("GET", full("")));
        let mut broken = follow("GET", Endless.boxed_unsync()).into_body();
        assert!(broken.frame().await.unwrap().is_ok());
        drop(broken);
        // Its client did not wait.
        drop(begin("PUT"));
        log.close();
        let lines = lines(&path);
        let of = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("response_bytes"), [5, 0, 0, 2, 0]);
        let (whole, aborted) = (serde_json::Value::Null, serde_json::Value::Bool(true));
        assert_eq!(of("aborted"), [whole.clone(), whole.clone(), whole.clone(), aborted.clone(), aborted]);
        assert_eq!(of("status")[3..], [200.into(), whole]);
        assert_eq!(lines[0]["status"], 200);
        assert_eq!(lines[0]["client"], "10.0.0.1");
        assert_eq!(log.dropped(), 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let log = AccessLog::open(Path::new("/dev/full")).unwrap();
        for _ in 0..3 {
            log.write(&line("GET"));
        }
        log.close();
        assert_eq!(log.dropped(), 3);
    }

    /// A writer that takes half a line when it is full.
    struct Small(Arc<Mutex<Vec<u8>>>, bool);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = if self.1 { bytes.len() / 2 } else { bytes.len() };
            self.0.lock().extend(&bytes[..fits]);
            match std::mem::replace(&mut self.1, false) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(fits),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_behind_half_a_line_is_a_line_of_its_own() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut lines = Lines {
            path: STANDARD_OUTPUT.into(),
            to: Box::new(Small(written.clone(), true)),
            is_torn: false,
            fails: false,
            next: Arc::default(),
            failed: Arc::default(),
        };
        lines.write_all(b"{abc}\n").unwrap();
        lines.write_all(b"{def}\n").unwrap();
        assert_eq!(*written.lock(), b"{ab\n{def}\n");
        assert_eq!(lines.failed.load(Relaxed), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_that_nobody_reads_is_refused_at_once() {
        use rustix::fs::{CWD, FileType, Mode};
        let path = scratch();
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let refused = AccessLog::open(&path).unwrap_err();
        assert_eq!(refused.source.raw_os_error(), Some(rustix::io::Errno::NXIO.raw_os_error()));
        // One that is read is a file like any other: a line that is longer than the pipe waits for its reader.
        let read = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path).unwrap()
        });
        let log = loop {
            match AccessLog::open(&path) {
                Ok(log) => break log,
                Err(_) => std::thread::yield_now(),
            }
        };
        let long = [vec![b'a'; 1 << 20], vec![b'\n']].concat();
        log.send(&long);
        log.close();
        drop(log);
        assert_eq!(read.join().unwrap(), long);
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
        log.reopen().unwrap();
        // Also where nobody asks for anything.
        while !path.exists() {
            std::thread::yield_now();
        }
        log.write(&line("PUT"));
        log.close();
        let method = |path: &Path| lines(path).iter().map(|line| line["method"].clone()).collect::<Vec<_>>();
        assert_eq!((method(&old), method(&path)), (vec!["GET".into()], vec!["PUT".into()]));
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(old).unwrap();
        let refused = AccessLog::open(Path::new("/no/such/directory/log")).unwrap_err();
        assert_eq!(refused.to_string(), "cannot write the access log /no/such/directory/log");
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_is_said_and_the_old_one_goes_on() {
        let directory = scratch();
        std::fs::create_dir(&directory).unwrap();
        let (path, old) = (directory.join("log"), scratch());
        let log = AccessLog::open(&path).unwrap();
        std::fs::rename(&directory, &old).unwrap();
        assert_eq!(log.reopen().unwrap_err().to_string(), format!("cannot write the access log {}", path.display()));
        log.write(&line("GET"));
        log.close();
        assert_eq!(lines(&old.join("log")).len(), 1);
        std::fs::remove_dir_all(old).unwrap();
    }
}
