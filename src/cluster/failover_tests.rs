//! Nodes that break, hang and come back. Time is paused: it goes by when nothing else can happen.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures_channel::mpsc::unbounded;
use http_body_util::StreamBody;
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::clock;
use crate::http::BoxError;

thread_local! {
    /// Whether the requests of this test are signed.
    static IS_SIGNED: Cell<bool> = const { Cell::new(false) };
}

const SECOND: Duration = Duration::from_secs(1);
const SETTLING: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(30);

/// What a node does with a request.
#[derive(Clone)]
enum Mode {
    Answers(u16),
    /// Reads it and closes the connection.
    Breaks,
    /// The same, of all but a HEAD.
    BreaksWrites,
    /// Closes the connection after the head.
    BreaksAtTheHead,
    Hangs,
    /// Answers 403 with a body and this date, and closes the connection.
    Refuses(&'static str, &'static str),
    /// The same once it has read the head.
    RefusesTheHead(&'static str, &'static str),
    /// Answers when so many requests have come.
    Together(Arc<Barrier>),
}

/// A node on a socket.
struct FakeNode {
    uri: Uri,
    mode: Arc<Mutex<Mode>>,
    /// Method, path, credentials and body of each request that was read.
    seen: Arc<Mutex<Vec<String>>>,
    /// How often what is in front of it has forgotten its connections.
    cuts: Arc<AtomicUsize>,
}

impl FakeNode {
    async fn start(mode: Mode) -> FakeNode {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let node = FakeNode { uri, mode: Arc::new(Mutex::new(mode)), seen: Arc::default(), cuts: Arc::default() };
        let (mode, seen, cuts) = (node.mode.clone(), node.seen.clone(), node.cuts.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, mode.clone(), seen.clone(), cuts.clone()));
            }
        });
        node
    }

    fn is_now(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }

    /// Requests but probes.
    fn requests(&self) -> usize {
        self.seen.lock().iter().filter(|line| !line.starts_with("HEAD")).count()
    }
}

async fn serve(mut stream: TcpStream, mode: Arc<Mutex<Mode>>, seen: Arc<Mutex<Vec<String>>>, cuts: Arc<AtomicUsize>) {
    let made = cuts.load(SeqCst);
    loop {
        let mut read = Vec::new();
        let (head, length) = loop {
            let Ok(1..) = stream.read_buf(&mut read).await else { return };
            let text = String::from_utf8_lossy(&read);
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                break (head.to_owned(), length.map_or(0, |length| length.parse().unwrap()));
            }
        };
        let now = mode.lock().clone();
        if cuts.load(SeqCst) > made || matches!(now, Mode::BreaksAtTheHead) {
            return;
        }
        if let Mode::RefusesTheHead(date, body) = now {
            seen.lock().push("the head".to_owned());
            // What is behind it has changed its mind by the next one.
            *mode.lock() = Mode::Breaks;
            return refuse(&mut stream, date, body).await;
        }
        let is_chunked = head.contains("transfer-encoding: chunked");
        while read.len() < head.len() + 4 + length || is_chunked && !read.ends_with(b"0\r\n\r\n") {
            let Ok(1..) = stream.read_buf(&mut read).await else { return };
        }
        let target = head.split(" HTTP/").next().unwrap();
        let credentials = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("-");
        // Whose they are: the caller's own, or those that spinney signs with for everybody.
        let credentials = match credentials.split_once("=AKIDEXAMPLE/") {
            Some(("AWS4-HMAC-SHA256 Credential", _)) => "mine",
            _ => credentials,
        };
        seen.lock().push(format!("{target} {credentials} {}", String::from_utf8_lossy(&read[head.len() + 4..])));
        let status = match now {
            Mode::Answers(status) => status,
            Mode::BreaksWrites if target.starts_with("HEAD") => 200,
            Mode::Breaks | Mode::BreaksWrites | Mode::BreaksAtTheHead => return,
            Mode::Hangs => std::future::pending().await,
            Mode::Refuses(date, body) => return refuse(&mut stream, date, body).await,
            Mode::RefusesTheHead(..) => unreachable!("it has refused"),
            Mode::Together(barrier) => {
                barrier.wait().await;
                200
            }
        };
        let answer = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

async fn refuse(stream: &mut TcpStream, date: &str, body: &str) {
    let length = body.len();
    let answer = format!("HTTP/1.1 403 Forbidden\r\ndate: {date}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

fn client(nodes: &[&FakeNode]) -> Client {
    let uris: Vec<Uri> = nodes.iter().map(|node| node.uri.clone()).collect();
    Client::new(&uris, None, None, signer().as_ref(), Some(LIMIT)).unwrap()
}

fn signer() -> Option<Arc<Signer>> {
    #[cfg(feature = "aws")]
    if IS_SIGNED.get() {
        return Some(Signer::of_key());
    }
    None
}

fn request(method: Method, path: &str, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("authorization", "mine");
    request.header("content-length", body.len()).body(full(body.to_owned())).unwrap()
}

/// Sends a write, and lets everything go on that it has left behind.
async fn write(client: &Client) -> Result<u16, ClusterError> {
    let answer = client.forward(request(Method::POST, "/news-1/_bulk", "a write")).await;
    settle().await;
    answer.map(|answer| answer.status().as_u16())
}

async fn read(client: &Client) -> Result<u16, ClusterError> {
    let answer = client.relay(request(Method::GET, "/news-1/_search", "")).await;
    settle().await;
    answer.map(|answer| answer.status().as_u16())
}

#[expect(clippy::disallowed_methods, reason = "the clock is paused: this waits until nothing else can happen")]
async fn settle() {
    tokio::time::sleep(SETTLING).await;
}

/// How many of so many writes fail.
async fn failures(client: &Client, writes: usize) -> usize {
    let mut failures = 0;
    for _ in 0..writes {
        failures += usize::from(write(client).await.is_err());
    }
    failures
}

#[tokio::test(start_paused = true)]
async fn a_node_that_breaks_connections_is_passed_over() {
    let (bad, good) = (FakeNode::start(Mode::Breaks).await, FakeNode::start(Mode::Answers(200)).await);
    let client = client(&[&bad, &good]);
    assert_eq!(failures(&client, 6).await, 1);
    assert_eq!((bad.requests(), good.requests()), (1, 5), "no write is sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_passed_over() {
    let (bad, good) = (FakeNode::start(Mode::Hangs).await, FakeNode::start(Mode::Answers(200)).await);
    let client = client(&[&bad, &good]);
    assert_eq!(write(&client).await, Err(ClusterError::TimedOut(LIMIT)));
    assert_eq!(failures(&client, 5).await, 0);
    assert_eq!((bad.requests(), good.requests()), (1, 5), "no write is sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_found_out_before_the_time_of_a_write_is_up() {
    let (bad, good) = (FakeNode::start(Mode::Hangs).await, FakeNode::start(Mode::Answers(200)).await);
    let client = Arc::new(client(&[&bad, &good]));
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { write(&waiting).await });
    settle().await;
    let seen = || bad.seen.lock().len();
    tokio::time::advance(failover::PATIENCE - 3 * SETTLING).await;
    settle().await;
    assert_eq!(seen(), 1, "it may still answer in time");
    tokio::time::advance(2 * SETTLING).await;
    settle().await;
    assert_eq!(seen(), 2, "a probe");
    tokio::time::advance(nodes::PROBE_TIMEOUT).await;
    assert_eq!(failures(&client, 6).await, 0);
    assert_eq!(bad.requests(), 1);
    assert!(!waiting.is_finished(), "its outcome may still come");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_no_failure() {
    let (slow, good) = (FakeNode::start(Mode::Answers(200)).await, FakeNode::start(Mode::Answers(200)).await);
    let client = Arc::new(client(&[&slow, &good]));
    slow.is_now(Mode::Together(Arc::new(Barrier::new(2))));
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { read(&waiting).await });
    settle().await;
    slow.is_now(Mode::Answers(200));
    tokio::time::advance(LIMIT * 100).await;
    assert_eq!(failures(&client, 6).await, 0);
    assert_eq!((slow.requests(), good.requests()), (4, 3), "it is in use");
    assert!(!waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_probes_alone_is_passed_over() {
    let (bad, good) = (FakeNode::start(Mode::BreaksWrites).await, FakeNode::start(Mode::Answers(200)).await);
    let client = client(&[&bad, &good]);
    assert_eq!(failures(&client, 12).await, 3);
    assert_eq!((bad.requests(), good.requests()), (3, 9), "no write is sent twice");
    // The probe after the ejection is answered; then one more failure is enough.
    tokio::time::advance(outlier::FIRST_EJECTION).await;
    assert_eq!(failures(&client, 12).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_any_status_is_no_failure() {
    for status in [400, 429, 500, 502, 503, 504] {
        let nodes = [FakeNode::start(Mode::Answers(status)).await, FakeNode::start(Mode::Answers(200)).await];
        let client = client(&[&nodes[0], &nodes[1]]);
        for at in 0..12 {
            assert_eq!(write(&client).await, Ok(if at % 2 == 0 { status } else { 200 }));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_is_answered_by_another_node() {
    for mode in [Mode::Breaks, Mode::BreaksWrites, Mode::Hangs] {
        let (bad, good) = (FakeNode::start(mode).await, FakeNode::start(Mode::Answers(200)).await);
        let client = client(&[&bad, &good]);
        for _ in 0..6 {
            assert_eq!(read(&client).await, Ok(200));
        }
        bad.is_now(Mode::Breaks);
        // What changes nothing is repeated with its body.
        let query = serde_json::json!({"size": 0});
        for _ in 0..2 {
            let asked = client.ask_as(&HeaderMap::new(), Method::POST, "/news-1/_search", Some(&query), SMALL).await;
            assert_eq!(asked.unwrap().status(), 200);
        }
        assert!(good.seen.lock().last().unwrap().ends_with(r#"{"size":0}"#));
    }
}

const SMALL: usize = 1 << 10;

#[tokio::test(start_paused = true)]
async fn a_read_is_tried_on_one_other_node() {
    let nodes = [(); 3].map(|()| FakeNode::start(Mode::Breaks));
    let [a, b, c] = nodes;
    let (a, b, c) = (a.await, b.await, c.await);
    let client = client(&[&a, &b, &c]);
    assert!(matches!(read(&client).await, Err(ClusterError::Broken(_))));
    assert_eq!([&a, &b, &c].map(FakeNode::requests), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_with_a_search_is_sent_once() {
    for path in ["/_search/scroll/abc", "/_search/%73croll?scroll_id=abc", "/_sql?source=x"] {
        let (bad, good) = (FakeNode::start(Mode::Breaks).await, FakeNode::start(Mode::Answers(200)).await);
        let client = client(&[&bad, &good]);
        let answer = client.relay(request(Method::GET, path, "")).await;
        assert!(matches!(answer, Err(ClusterError::Broken(_))), "{path}");
        assert_eq!(good.requests(), 0, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_goes_to_the_next_node_when_one_cannot_be_reached() {
    let (gone, good) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), FakeNode::start(Mode::Answers(200)).await);
    let uris = [format!("http://{}", gone.local_addr().unwrap()).parse().unwrap(), good.uri.clone()];
    drop(gone);
    let client = Client::new(&uris, None, None, signer().as_ref(), Some(LIMIT)).unwrap();
    assert_eq!(failures(&client, 6).await, 0);
    assert_eq!(good.requests(), 6);
    assert!(good.seen.lock().iter().all(|line| line.ends_with(" a write")), "whole");
}

/// A client that has sent no byte of its body yet: what has seen the head alone cannot have acted on it.
#[tokio::test(start_paused = true)]
async fn a_body_that_was_not_sent_goes_to_the_next_node() {
    let (bad, good) = (FakeNode::start(Mode::BreaksAtTheHead).await, FakeNode::start(Mode::Answers(200)).await);
    let client = client(&[&bad, &good]);
    let (sender, frames) = unbounded::<Result<Frame<Bytes>, BoxError>>();
    let mut request =
        request(Method::POST, "/news-1/_update_by_query", "").map(|_| StreamBody::new(frames).boxed_unsync());
    request.headers_mut().remove("content-length");
    let relayed = tokio::spawn(async move { client.relay(request).await.map(|answer| answer.status()) });
    settle().await;
    sender.unbounded_send(Ok(Frame::data(Bytes::from_static(b"late")))).unwrap();
    drop(sender);
    assert_eq!(relayed.await.unwrap().unwrap(), 200);
    let seen = good.seen.lock().pop().unwrap();
    assert!(seen.contains("late"), "{seen}");
}

/// So many connections at once, of which nothing is sent on any.
async fn idle_connections(client: &Arc<Client>, node: &FakeNode, connections: usize) {
    node.is_now(Mode::Together(Arc::new(Barrier::new(connections))));
    let mut writes = JoinSet::new();
    for _ in 0..connections {
        let client = client.clone();
        writes.spawn(async move { write(&client).await });
    }
    while let Some(written) = writes.join_next().await {
        assert_eq!(written.unwrap(), Ok(200));
    }
    node.is_now(Mode::Answers(200));
}

#[tokio::test(start_paused = true)]
async fn connections_that_were_forgotten_cost_one_write() {
    let node = FakeNode::start(Mode::Answers(200)).await;
    let client = Arc::new(client(&[&node]));
    idle_connections(&client, &node, 14).await;
    let before = node.requests();
    node.cuts.fetch_add(1, SeqCst);
    assert!(matches!(write(&client).await, Err(ClusterError::Broken(_))), "its outcome is not known");
    assert_eq!(failures(&client, 13).await, 0);
    assert_eq!(node.requests(), before + 13, "no write is sent twice");
}

/// Behind one address there may be many nodes.
#[tokio::test(start_paused = true)]
async fn reads_on_forgotten_connections_go_to_others() {
    let node = FakeNode::start(Mode::Answers(200)).await;
    let client = Arc::new(client(&[&node]));
    idle_connections(&client, &node, 14).await;
    node.cuts.fetch_add(1, SeqCst);
    assert_eq!(read(&client).await, Ok(200));
    assert_eq!(failures(&client, 13).await, 0, "it has closed the others");
    // Where nothing listens, that is said at once.
    node.is_now(Mode::Breaks);
    assert!(matches!(read(&client).await, Err(ClusterError::Broken(_))));
    assert_eq!(node.requests(), 14 + 1 + 13 + 2, "twice at most");
}

/// Two things at once that break are one event: of two nodes, the one behind the load balancer stays in use.
#[tokio::test(start_paused = true)]
async fn connections_that_were_forgotten_eject_no_node() {
    let nodes = [FakeNode::start(Mode::Answers(200)).await, FakeNode::start(Mode::Answers(200)).await];
    let client = Arc::new(client(&[&nodes[0], &nodes[1]]));
    let barrier = Arc::new(Barrier::new(14));
    for node in &nodes {
        node.is_now(Mode::Together(barrier.clone()));
    }
    let mut writes = JoinSet::new();
    for _ in 0..14 {
        let client = client.clone();
        writes.spawn(async move { write(&client).await });
    }
    writes.join_all().await;
    for node in &nodes {
        node.is_now(Mode::Answers(200));
    }
    nodes[0].cuts.fetch_add(1, SeqCst);
    let before = nodes[0].requests();
    let mut writes = JoinSet::new();
    for _ in 0..14 {
        let client = client.clone();
        writes.spawn(async move { write(&client).await.is_err() });
    }
    assert_eq!(writes.join_all().await.into_iter().filter(|&failed| failed).count(), 7);
    assert_eq!(failures(&client, 6).await, 0);
    assert_eq!(nodes[0].requests(), before + 3, "it is in use");
}

#[tokio::test(start_paused = true)]
async fn a_node_comes_back_when_it_answers_a_probe() {
    let (bad, good) = (FakeNode::start(Mode::Breaks).await, FakeNode::start(Mode::Answers(200)).await);
    let client = client(&[&bad, &good]);
    assert_eq!(failures(&client, 2).await, 1);
    let seen = |node: &FakeNode| node.seen.lock().len();
    let before = seen(&bad);
    // Its time is up, and it breaks the probe; then that is twice as long.
    tokio::time::advance(outlier::FIRST_EJECTION).await;
    assert_eq!(failures(&client, 6).await, 0);
    assert_eq!(seen(&bad), before + 1);
    bad.is_now(Mode::Answers(503));
    tokio::time::advance(outlier::FIRST_EJECTION * 2).await;
    assert_eq!(failures(&client, 6).await, 0);
    assert_eq!(seen(&bad), before + 2, "what is behind it does not answer");
    bad.is_now(Mode::Answers(401));
    tokio::time::advance(outlier::FIRST_EJECTION * 4).await;
    assert_eq!(write(&client).await, Ok(200), "the probe is not waited for");
    assert_eq!(bad.seen.lock().last().unwrap(), "HEAD / mine ");
    let requests = bad.requests();
    for _ in 0..6 {
        write(&client).await.unwrap();
    }
    assert_eq!(bad.requests(), requests + 3);
}

#[tokio::test(start_paused = true)]
async fn the_last_node_is_not_passed_over() {
    let nodes = [FakeNode::start(Mode::Breaks).await, FakeNode::start(Mode::Breaks).await];
    let client = client(&[&nodes[0], &nodes[1]]);
    assert_eq!(failures(&client, 6).await, 6);
    assert_eq!(nodes.each_ref().map(FakeNode::requests), [3, 3]);
    nodes[1].is_now(Mode::Answers(200));
    // An answer says as much as a probe.
    assert_eq!(failures(&client, 6).await, 1);

    let only = FakeNode::start(Mode::Breaks).await;
    let client = self::client(&[&only]);
    assert_eq!(failures(&client, 6).await, 6);
    only.is_now(Mode::Answers(200));
    assert_eq!(failures(&client, 6).await, 0);
    assert!(only.seen.lock().iter().all(|line| line.starts_with("POST")), "one node is never probed");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_ready_when_one_node_answers() {
    let ping = async |modes: &[Mode]| {
        let mut nodes = Vec::new();
        for mode in modes {
            nodes.push(FakeNode::start(mode.clone()).await);
        }
        let client = client(&nodes.iter().collect::<Vec<_>>());
        let began = Instant::now();
        // Twice: with each node in turn.
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(client.ping(&HeaderMap::new(), "/", SMALL).await.map(|status| status.as_u16()).ok());
        }
        (answers, began.elapsed().as_secs())
    };
    let (up, busy) = (Mode::Answers(401), Mode::Answers(503));
    assert_eq!(ping(&[up.clone(), up.clone()]).await, (vec![Some(401); 2], 0));
    let waited = nodes::PROBE_TIMEOUT.as_secs();
    assert_eq!(ping(&[Mode::Hangs, up.clone()]).await, (vec![Some(401); 2], waited));
    assert_eq!(ping(&[Mode::Breaks, up.clone()]).await, (vec![Some(401); 2], 0));
    assert_eq!(ping(&[busy.clone(), up.clone()]).await, (vec![Some(401); 2], 0));
    assert_eq!(ping(&[busy.clone(), busy.clone()]).await, (vec![Some(503); 2], 0));
    assert_eq!(ping(&[Mode::Hangs, Mode::Hangs]).await, (vec![None; 2], 4 * waited));
    assert_eq!(ping(&[Mode::Hangs]).await, (vec![None; 2], 2 * LIMIT.as_secs()), "it has its time");
}

#[tokio::test]
async fn connections_are_kept_alive_by_tcp() {
    use rustix::net::sockopt;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let stream = tower_service::Service::<Uri>::call(&mut tcp(), uri).await.unwrap();
    let socket = stream.inner();
    assert!(sockopt::socket_keepalive(socket).unwrap());
    assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), 15 * SECOND);
    assert_eq!(sockopt::tcp_keepintvl(socket).unwrap(), 5 * SECOND);
    assert_eq!(sockopt::tcp_keepcnt(socket).unwrap(), 3);
}

const LONG_AGO: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
const OF_SERVICE: &str = "{\"message\":\"Signature expired: x\\nThe Canonical String: SECRET\"}";
const OF_CLUSTER: &str = "{\"error\":{\"type\":\"security_exception\"},\"status\":403}";

/// A refusal is the caller's, unless it is about what spinney has signed.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_from_that_of_the_service() {
    for (body, is_clusters) in [(OF_CLUSTER, true), ("", true), ("<html>403</html>", true), (OF_SERVICE, false)] {
        let node = FakeNode::start(Mode::Refuses(LONG_AGO, body)).await;
        let client = client(&[&node]);
        let answer = write(&client).await;
        match answer {
            Ok(status) => assert!(status == 403 && (is_clusters || !IS_SIGNED.get()), "{body}"),
            Err(ClusterError::NotAdmitted(reason)) => {
                assert!(IS_SIGNED.get() && !is_clusters && !reason.contains("SECRET"), "{body}: {reason}");
            }
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(node.requests(), 1, "a date that nobody believes is no reason to send it again");
    }
}

/// A body that was on its way, or that was not asked for yet, is not taken for one that was never sent.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_signed_again_is_sent_once_to_where_it_may_be_read() {
    let soon = jiff::Timestamp::from_millisecond(clock::system().0 + 3_600_000).unwrap();
    let soon: &'static str = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string().leak();
    for refuses in [Mode::Refuses(soon, OF_SERVICE), Mode::RefusesTheHead(soon, OF_SERVICE)] {
        let (node, other) = (FakeNode::start(refuses.clone()).await, FakeNode::start(Mode::Answers(200)).await);
        let is_early = matches!(refuses, Mode::RefusesTheHead(..));
        let client = client(&[&node, &other]);
        let answer = write(&client).await;
        if !IS_SIGNED.get() {
            assert_eq!((answer, node.requests()), (Ok(403), 1));
            continue;
        }
        match is_early {
            // It breaks then, with the body read.
            true => assert!(matches!(answer, Err(ClusterError::Broken(_))), "{answer:?}"),
            false => assert!(matches!(answer, Err(ClusterError::NotAdmitted(_))), "{answer:?}"),
        }
        let seen = node.seen.lock().clone();
        let writes: Vec<_> = seen.iter().filter(|line| line.starts_with("POST") || *line == "the head").collect();
        assert_eq!(writes.len(), 2, "{seen:?}");
        assert!(writes[1].ends_with(" mine a write"), "{seen:?}");
        assert_eq!(other.requests(), 0, "it may have been read");
    }
}

/// The same with requests that are signed, whose bodies are there before they are sent.
#[cfg(feature = "aws")]
mod signed {
    macro_rules! signed {
        ($($test:ident)+) => {
            $(#[test]
            fn $test() {
                super::IS_SIGNED.set(true);
                super::$test();
            })+
        };
    }

    signed! {
        a_node_that_breaks_connections_is_passed_over
        a_node_that_hangs_is_passed_over
        a_node_that_hangs_is_found_out_before_the_time_of_a_write_is_up
        a_slow_answer_is_no_failure
        a_node_that_answers_probes_alone_is_passed_over
        an_answer_of_any_status_is_no_failure
        a_read_is_answered_by_another_node
        a_read_is_tried_on_one_other_node
        what_goes_on_with_a_search_is_sent_once
        a_write_goes_to_the_next_node_when_one_cannot_be_reached
        connections_that_were_forgotten_cost_one_write
        reads_on_forgotten_connections_go_to_others
        connections_that_were_forgotten_eject_no_node
        a_node_comes_back_when_it_answers_a_probe
        the_last_node_is_not_passed_over
        a_cluster_is_ready_when_one_node_answers
        connections_are_kept_alive_by_tcp
        a_refusal_is_told_from_that_of_the_service
        a_write_that_is_signed_again_is_sent_once_to_where_it_may_be_read
    }
}
