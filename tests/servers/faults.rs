//! Things that break in the middle: spinney, a node, a connection. A client that retries ends with every document
//! stored once. (Refusals of the upstream, 429 and 503 among them, are met by the real clients in `clients.rs`.)

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::common::flaky::{Fault, Flaky};
use crate::common::{self, Server, Spinney, Waiting, twin};
use crate::overrides;
use crate::restart::{DataDir, arguments};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const BULKS: usize = 40;
const DOCUMENTS: usize = 50;
/// Different texts; every document has one of them.
const GROUPS: usize = 100;

const SPINNEY: [&str; 6] = ["--index", "news-*", "--text-field", "content", "--method", "longest"];

fn args<'a>(upstream: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--upstream", upstream], &SPINNEY[..], more].concat()
}

/// A text of group `g` that shares its longest sentence with the others of the group and nothing else.
fn text(group: usize, n: usize) -> String {
    let word = |k: usize| format!("w{:x}", (group * 31 + k).wrapping_mul(2_654_435_761) & 0xffff_ffff);
    let long: Vec<String> = (0..30).map(word).collect();
    format!("Note {n}. List {}. Seen by reader {n}.", long.join(" "))
}

fn bulk(number: usize) -> String {
    (0..DOCUMENTS)
        .map(|at| {
            let n = number * DOCUMENTS + at;
            let source = json!({"content": text(n % GROUPS, n), "group": n % GROUPS});
            format!("{}\n{source}\n", json!({"index": {"_id": n.to_string()}}))
        })
        .collect()
}

/// Sends one bulk until the cluster has taken all of it; whatever goes wrong is counted and tried again.
async fn send_until_stored(client: &Client, url: &str, index: &str, body: &str, failures: &AtomicUsize) {
    let waiting = Waiting::until("a bulk is stored");
    loop {
        let sent = client
            .post(format!("{url}/{index}/_bulk"))
            .header("content-type", "application/x-ndjson")
            .body(body.to_owned())
            .send()
            .await;
        let stored = if let Ok(response) = sent
            && response.status().is_success()
            && let Ok(answer) = response.json::<Value>().await
        {
            answer["errors"] == false
        } else {
            false
        };
        if stored {
            return;
        }
        failures.fetch_add(1, SeqCst);
        waiting.pause().await;
    }
}

/// A client that writes all bulks, over and over until it has met a failure: whatever breaks, breaks in the middle of
/// it.
struct Load {
    /// How many bulks were stored so far, and how many attempts failed.
    stored: Arc<AtomicUsize>,
    failures: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Load {
    fn start(url: &str, index: &str) -> Load {
        let (url, index) = (url.to_owned(), index.to_owned());
        let (stored, failures) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counted, failed) = (Arc::clone(&stored), Arc::clone(&failures));
        let task = tokio::spawn(async move {
            let client = common::http();
            while counted.load(SeqCst) < BULKS || failed.load(SeqCst) == 0 {
                let number = counted.load(SeqCst) % BULKS;
                send_until_stored(&client, &url, &index, &bulk(number), &failed).await;
                counted.fetch_add(1, SeqCst);
            }
        });
        Load { stored, failures, task }
    }

    async fn has_begun(&self) {
        let waiting = Waiting::until("some bulks are stored");
        while self.stored.load(SeqCst) < BULKS / 8 {
            waiting.pause().await;
        }
    }

    async fn has_failed(&self) {
        let waiting = Waiting::until("the client meets what broke");
        while self.failures.load(SeqCst) == 0 {
            waiting.pause().await;
        }
    }

    async fn end(self) {
        self.task.await.unwrap();
    }
}

/// Every document is there once, with a stamp. Returns the roots of each group.
async fn stored_roots(server: &Server, index: &str) -> Vec<std::collections::BTreeSet<String>> {
    server.refresh(index).await;
    let documents = server.documents(index).await;
    assert_eq!(documents.len(), BULKS * DOCUMENTS);
    let mut roots = vec![std::collections::BTreeSet::new(); GROUPS];
    for document in documents.values() {
        let group = document["group"].as_u64().unwrap() as usize;
        let root = document["cluster_root"].as_str().expect("every document has a root");
        roots[group].insert(root.to_owned());
    }
    roots
}

// With threads for the client: what this test starts and ends is waited for in its own.
#[tokio::test(flavor = "multi_thread")]
async fn spinney_killed_in_the_middle_of_a_load() {
    let upstream = common::opensearch();
    let index = common::unique_index("kill9");
    let mut spinney = Spinney::start(&args(&upstream, &[]));
    let address = spinney.address().to_owned();
    let load = Load::start(&spinney.url, &index);
    load.has_begun().await;
    spinney.kill9();
    load.has_failed().await;
    let _again = Spinney::start_at(&address, &args(&upstream, &[]));
    load.end().await;
    let server = Server::new(&upstream);
    stored_roots(&server, &index).await;
    server.delete_index(&index).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_killed_in_the_middle_of_a_load_and_started_again() {
    let node = Node::start();
    let index = common::unique_index("node");
    let spinney = Spinney::start(&args(&node.url, &[]));
    let load = Load::start(&spinney.url, &index);
    load.has_begun().await;
    node.script("kill");
    load.has_failed().await;
    node.script("restart");
    load.end().await;
    // Nodes of unknown outcome stayed, so a retry found them: one root for each group.
    let server = Server::new(&node.url);
    for (group, roots) in stored_roots(&server, &index).await.iter().enumerate() {
        assert_eq!(roots.len(), 1, "group {group} has the roots {roots:?}");
    }
    indices_are_not_gone_where_there_is_no_cluster_manager(&node, &server).await;
    a_shard_that_is_away_is_not_passed_over(&server).await;
}

/// A node that is up and has no cluster manager resolves every name to nothing, with 200. Stored documents follow what
/// was said before.
async fn indices_are_not_gone_where_there_is_no_cluster_manager(node: &Node, server: &Server) {
    let index = common::unique_index("managerless");
    let dir = DataDir::new("managerless");
    let start = |more: &[&str]| Spinney::start(&arguments(&node.url, &index, dir.path(), more));
    // Its own requests reach nobody (with a path, no other node stands in for it): nothing follows yet.
    let mut spinney = start(&["--service-url", "http://127.0.0.1:1/away"]);
    overrides::bulk(&spinney.url, &index, [("a", overrides::article(0, 0)), ("b", overrides::article(1, 0))]);
    let before = overrides::roots(server, &index).await;
    overrides::say(&spinney.url, &format!("{index}/_merge"), &json!({"roots": [before["a"], before["b"]]}));
    assert!(spinney.terminate().is_some());
    node.script("kill");
    let asked = async {
        let (client, waiting) = (common::http(), Waiting::until("the node answers"));
        let resolved: Value = loop {
            match client.get(format!("{}/_resolve/index/{index}", node.url)).send().await {
                Ok(answer) if answer.status() == StatusCode::OK => break answer.json().await.unwrap(),
                _ => waiting.pause().await,
            }
        };
        assert_eq!(resolved, json!({"indices": [], "aliases": [], "data_streams": []}));
        let spinney = start(&["--admin-listen", "127.0.0.1:0"]);
        let restamping = || twin::stats_now(&spinney.admin_url())["restamping"].clone();
        let waiting = Waiting::until("restamping asks the node");
        while restamping()["errors"] == 0 {
            waiting.pause().await;
        }
        assert_eq!(restamping()["waiting"], 1);
    };
    node.without_cluster_manager(asked).await;
    let spinney = start(&[]);
    overrides::followed(&spinney.url, &index).await;
    let after = overrides::roots(server, &index).await;
    assert_eq!((&after["a"], &after["b"]), (&before["a"], &before["a"]));
}

/// OpenSearch opens a point in time of the shards that are there unless that is forbidden, as
/// `cluster/point_in_time.rs` does, and says of the others only that they were not successful. On the node of the test
/// above: a red cluster would be in the way of others.
async fn a_shard_that_is_away_is_not_passed_over(server: &Server) {
    let pattern = common::unique_index("away");
    let settings = json!({"number_of_shards": 1, "number_of_replicas": 0});
    server.create_index(&format!("{pattern}-there"), json!({ "settings": settings })).await;
    let mut nowhere = settings;
    nowhere["index.routing.allocation.require._name"] = "nobody".into();
    let path = format!("/{pattern}-away?wait_for_active_shards=0");
    let (status, answer) = server.request(Method::PUT, &path, Some(json!({ "settings": nowhere }))).await;
    assert!(status.is_success(), "{answer}");
    let shards = json!({"total": 2, "successful": 1, "skipped": 0, "failed": 0});
    let open = format!("/{pattern}-*/_search/point_in_time?keep_alive=1m");
    for path in
        [format!("{open}&allow_partial_pit_creation=true"), open.clone(), format!("/{pattern}-*/_search?size=0")]
    {
        let method = if path.contains("point_in_time") { Method::POST } else { Method::GET };
        let (status, answer) = server.request(method, &path, None).await;
        assert_eq!((status, &answer["_shards"]), (StatusCode::OK, &shards), "{path}: {answer}");
    }
    let path = format!("{open}&allow_partial_pit_creation=false");
    let (status, answer) = server.request(Method::POST, &path, None).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
}

/// A search server of this test's own, since it is killed.
struct Node {
    name: String,
    url: String,
    config: PathBuf,
}

impl Node {
    fn start() -> Node {
        let name = format!("test-fault-{}", std::process::id());
        let mut node = Node { url: String::new(), name, config: PathBuf::new() };
        let lines = run(&["start", "opensearch", "--instance", &node.name, "--heap", "512m", "--brief"]);
        let value = |name: &str| {
            let value = lines.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            value.trim_matches('\'').to_owned()
        };
        node.url = value("url=");
        let folder = Path::new(&value("log=")).ancestors().nth(2).unwrap().to_owned();
        node.config = folder.join("config/opensearch.yml");
        node
    }

    /// Starts the killed node again, and while `work` goes on it may be no cluster manager.
    async fn without_cluster_manager(&self, work: impl Future<Output = ()>) {
        let usual = std::fs::read_to_string(&self.config).unwrap();
        let alone = "discovery.seed_hosts: []\ndiscovery.initial_state_timeout: 1s\nnode.roles: [data]";
        let data_alone = usual.replace("discovery.type: single-node", alone);
        assert_ne!(data_alone, usual);
        std::fs::write(&self.config, data_alone).unwrap();
        // It never becomes ready.
        assert!(!script(&["restart", &self.name, "--timeout", "1"]).status.success());
        work.await;
        self.script("kill");
        std::fs::write(&self.config, usual).unwrap();
        self.script("restart");
    }

    fn script(&self, verb: &str) {
        run(&[verb, &self.name]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        run(&["stop", &self.name]);
    }
}

fn script(args: &[&str]) -> Output {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/search-server")).args(args).output().unwrap()
}

fn run(args: &[&str]) -> String {
    let output = script(args);
    if !output.status.success() && !std::thread::panicking() {
        panic!("search-server {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn client_gone_in_the_middle_of_a_body() {
    let upstream = common::opensearch();
    let index = common::unique_index("cut");
    let spinney = Spinney::start(&args(&upstream, &[]));
    let body = bulk(0);
    for cut in [0, 1, body.len() / 2, body.len() - 1] {
        let mut stream = TcpStream::connect(spinney.address()).await.unwrap();
        let head = format!(
            "POST /{index}/_bulk HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\ncontent-length: \
             {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body.as_bytes()[..cut]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // Half a request gets no answer, or one that says so; never one of success.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    }
    // Waits until the budget has come back.
    let stats = twin::stats(&spinney.url);
    assert_eq!(twin::nodes(&stats), 0, "nothing was placed: {stats}");
    let server = Server::new(&upstream);
    assert_eq!(server.count(&index).await, 0);

    let failures = AtomicUsize::default();
    send_until_stored(&common::http(), &spinney.url, &index, &body, &failures).await;
    assert_eq!(failures.into_inner(), 0);
    server.refresh(&index).await;
    assert_eq!(server.count(&index).await, DOCUMENTS as u64);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn documents_without_ids_are_never_sent_twice() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = common::unique_index("once");
    server.create_index(&index, json!({})).await;
    let flaky = Flaky::in_front_of(&upstream, 1, &[Fault::AnswerLost]);
    let spinney = Spinney::start(&args(&flaky.url, &[]));
    let body = format!("{{\"index\":{{}}}}\n{}\n", json!({"content": text(1, 1)}));
    let response = common::http()
        .post(format!("{}/{index}/_bulk", spinney.url))
        .header("content-type", "application/x-ndjson")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["status"], 502);
    assert!(answer["error"]["reason"].as_str().unwrap().contains("outcome is not known"), "{answer}");
    server.refresh(&index).await;
    assert_eq!(server.count(&index).await, 1, "stored once, and not sent again");
    server.delete_index(&index).await;
}

#[tokio::test]
async fn nothing_listens_upstream() {
    let spinney = Spinney::start(&args("http://127.0.0.1:1", &[]));
    for path in ["/", "/news-1/_bulk", "/_spinney/_stats"] {
        let request = if path.ends_with("_bulk") {
            common::http().post(format!("{}{path}", spinney.url)).header("content-type", "application/x-ndjson")
        } else {
            common::http().get(format!("{}{path}", spinney.url))
        };
        let response = request.header("x-opaque-id", "mine").body(bulk(0)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["x-opaque-id"], "mine");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["error"]["type"], "spinney_upstream_unreachable_exception");
    }
    let alive = common::http().get(format!("{}/_spinney/_health", spinney.url)).send().await.unwrap();
    assert_eq!(alive.status(), StatusCode::OK);
    let ready = common::http().get(format!("{}/_spinney/_ready", spinney.url)).send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_node_that_is_down_is_passed_over() {
    let upstream = common::opensearch();
    let spinney = Spinney::start(&args(&format!("http://127.0.0.1:1,{upstream}"), &[]));
    let index = common::unique_index("down");
    let (client, failures) = (common::http(), AtomicUsize::default());
    for number in 0..4 {
        assert_eq!(client.get(&spinney.url).send().await.unwrap().status(), StatusCode::OK);
        send_until_stored(&client, &spinney.url, &index, &bulk(number), &failures).await;
    }
    assert_eq!(failures.into_inner(), 0, "nothing of a request goes to a node that is down");
    Server::new(&upstream).delete_index(&index).await;
}

/// A supervisor that rotates logs sends SIGHUP, and a terminal that closes.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_in_the_middle_of_a_write_changes_nothing() {
    let upstream = common::opensearch();
    let index = common::unique_index("hangup");
    let server = Server::new(&upstream);
    let flaky = Flaky::in_front_of(&upstream, 1, &[Fault::Held]);
    let spinney = Spinney::start(&args(&flaky.url, &[]));
    let slow = tokio::spawn({
        let (client, url, index) = (common::http(), spinney.url.clone(), index.clone());
        async move {
            let request = client.post(format!("{url}/{index}/_bulk"));
            request.header("content-type", "application/x-ndjson").body(bulk(0)).send().await.unwrap().status()
        }
    });
    flaky.gate.wait_for(1);
    spinney.signal("HUP");
    spinney.log_line("of the signal", |line| line.contains("the configuration was read again"));
    flaky.gate.open();
    assert_eq!(slow.await.unwrap(), StatusCode::OK);
    assert_eq!(common::http().get(&spinney.url).send().await.unwrap().status(), StatusCode::OK);
    server.refresh(&index).await;
    assert_eq!(server.count(&index).await, DOCUMENTS as u64);
    server.delete_index(&index).await;
}

/// What may change while requests are served changes; of a file with anything else, nothing does.
#[test]
fn a_hangup_reads_the_configuration_again() {
    let folder = common::scratch("reload");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("spinney.toml");
    let write = |more: &str| {
        let text = format!("upstream = ['http://127.0.0.1:1']\n{more}[[route]]\nindex = ['a']\n");
        std::fs::write(&file, text).unwrap();
    };
    write("log = 'warn'\n");
    let spinney = Spinney::start(&["--config", file.to_str().unwrap()]);
    let refused = [
        ("log = 'info'\nbudget = '1mb'\nsweep = '10m'\n", "only a restart changes sweep"),
        ("log = 'info'\nthreads = 3\nstamp = 'full'\n", "only a restart changes threads, stamp"),
        ("log = 'loud'\n", "'loud' is no level"),
        ("log = 'info'\nnothing = 1\n", "is not valid"),
        ("log = 'info'\n[[route]]\nindex = ['b']\n", "only a restart changes the routes that are there"),
    ];
    for (more, reason) in refused {
        write(more);
        spinney.signal("HUP");
        spinney.log_line(reason, |line| line.contains("nothing changes") && line.contains(reason));
    }
    let asked = || common::wire::Request::bulk("/a/_bulk", "{\"index\":{}}\n{}\n").to(&spinney.url).status;
    assert_eq!(asked(), 503);
    write("log = 'info'\n");
    spinney.signal("HUP");
    spinney.log_line("at the new level", |line| line.contains("INFO") && line.contains("was read again"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_what_is_in_flight() {
    let upstream = common::opensearch();
    let index = common::unique_index("stop");
    let server = Server::new(&upstream);
    let flaky = Flaky::in_front_of(&upstream, 1, &[Fault::Held]);
    let mut spinney = Spinney::start(&args(&flaky.url, &[]));
    let (client, url) = (common::http(), spinney.url.clone());
    let slow = tokio::spawn({
        let (client, url, index) = (client.clone(), url.clone(), index.clone());
        async move {
            let request = client.post(format!("{url}/{index}/_bulk"));
            request.header("content-type", "application/x-ndjson").body(bulk(0)).send().await.unwrap().status()
        }
    });
    flaky.gate.wait_for(1);
    spinney.signal_term();
    let waiting = Waiting::until("new work is refused while the old ends");
    let refused = loop {
        match client.get(&url).send().await {
            Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => break answer,
            _ => waiting.pause().await,
        }
    };
    assert_eq!(refused.headers()["retry-after"], "1");
    flaky.gate.open();
    assert_eq!(slow.await.unwrap(), StatusCode::OK);
    let exit = spinney.wait().expect("it ends");
    assert_eq!(exit.code(), Some(0));
    server.refresh(&index).await;
    assert_eq!(server.count(&index).await, DOCUMENTS as u64);
    server.delete_index(&index).await;
}
