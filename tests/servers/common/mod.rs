//! The harness shared by all tests against real search servers: where the servers are ([`opensearch`],
//! [`elasticsearch`], [`opensearch_secure`]), a spinney process in front of one ([`Spinney`]), and what is needed to
//! look behind its back ([`Server`]: what is stored, read directly).
//!
//! ```ignore
//! let server = Server::new(&common::opensearch());
//! let index = common::unique_index("bulk");
//! let spinney = Spinney::start(&["--upstream", server.url(), "--index", "news-*", "--text-field", "content"]);
//! // … write to spinney.url …
//! server.refresh(&index).await;
//! let stored = server.documents(&index).await;
//! ```
//!
//! A test that fails prints the last log lines of the spinney processes that it owns.

pub mod cable;
pub mod fake;
pub mod flaky;
pub mod gate;
pub mod listening;
pub mod locks;
pub mod moved_clock;
pub mod search_servers;
// The benchmarks' own: the same numbers of the same seed.
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../../../benches/support/random.rs"]
pub mod random;
pub mod redis;
pub mod twin;
pub mod waiting;
pub mod wire;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::Instant;

use reqwest::{Method, StatusCode};
pub use search_servers::SearchServer;
use serde_json::{Value, json};
pub use waiting::{PATIENCE, Waiting, scratch, wait_until};
use waiting::{PAUSE, unique};

/// All fields that a stamp may have, with their default names, in the order in which they are written.
pub const STAMP_FIELDS: [&str; 6] =
    ["cluster_root", "cluster_key", "cluster_hash", "cluster_arrival", "cluster_proof", "cluster_first"];

/// How many of its last log lines a failed test shows of each spinney.
const LOG_LINES_SHOWN: usize = 200;

fn server_variable(name: &str) -> String {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => value.trim_end_matches('/').to_owned(),
        _ => panic!("{name} is not set: run scripts/test, which starts the servers"),
    }
}

/// URL of the OpenSearch 3.6 node, without a final slash.
pub fn opensearch() -> String {
    server_variable("SPINNEY_TEST_OPENSEARCH")
}

/// URL of the Elasticsearch node (7.17, or 8.19 and 9.5 in the profile `elasticsearch`), without a final slash.
pub fn elasticsearch() -> String {
    server_variable("SPINNEY_TEST_ELASTICSEARCH")
}

/// Makes a test for each kind of search server out of `async fn name(engine: SearchServer)`.
macro_rules! on_each_server {
    ($name:ident) => {
        mod $name {
            use super::{SearchServer, $name};

            #[tokio::test]
            async fn on_opensearch() {
                $name(SearchServer::OpenSearch).await;
            }

            #[tokio::test]
            async fn on_elasticsearch() {
                $name(SearchServer::Elasticsearch).await;
            }
        }
    };
}
pub(crate) use on_each_server;

/// The OpenSearch node with the security plugin.
pub struct Secure {
    /// `https://…`, without a final slash.
    pub url: String,
    /// The certificate authority that signed the node's certificate (PEM).
    pub ca: PathBuf,
}

/// The OpenSearch node that wants TLS and a user.
pub fn opensearch_secure() -> Secure {
    Secure {
        url: server_variable("SPINNEY_TEST_OPENSEARCH_SECURE"),
        ca: PathBuf::from(server_variable("SPINNEY_TEST_SECURE_CA")),
    }
}

/// An index name that no other test and no earlier run uses; it matches the pattern `news-*`.
pub fn unique_index(label: &str) -> String {
    format!("news-{label}-{}", unique())
}

/// An HTTP client that shows answers as they come over the wire: no decompression, no redirects, no proxy of the
/// environment. One per test: a client does not outlive the runtime that first used it.
pub fn http() -> reqwest::Client {
    http_builder().build().unwrap()
}

/// What [`http`] builds, for tests that add a certificate authority or default headers.
pub fn http_builder() -> reqwest::ClientBuilder {
    install_crypto();
    reqwest::Client::builder().no_gzip().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE)
}

/// reqwest is built without a provider of cryptography and cannot even make a plain client before one is installed.
/// [`http`] does it; tests that make clients of other crates call it themselves.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that somebody else installed one: fine as well.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// `spinney`, with nothing from the environment: every option can come from there, and a test means only those that it
/// names.
pub fn spinney_command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinney"));
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if ["SPINNEY_", "OTEL_"].iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
            command.env_remove(name);
        }
    }
    command
}

// --------------------------------------------------------------------------------------------------------------------

/// A spinney process in front of a server. It is killed when the value is dropped.
pub struct Spinney {
    /// Where it listens: `http://127.0.0.1:PORT` (or `https://…`), without a final slash.
    pub url: String,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// Ends with the log.
    logging: Option<thread::JoinHandle<()>>,
}

/// Why spinney did not come up.
#[derive(Debug)]
pub struct NotStarted {
    pub exit: Option<ExitStatus>,
    pub log: String,
}

impl Spinney {
    /// Starts `spinney serve` on a free port with these further arguments and waits until it listens.
    /// Panics with its log if it does not.
    pub fn start(args: &[&str]) -> Spinney {
        Self::start_at("127.0.0.1:0", args)
    }

    /// The same on a given address: for a spinney that takes the place of one that was killed.
    pub fn start_at(listen: &str, args: &[&str]) -> Spinney {
        Self::started(args, Self::try_start(listen, args))
    }

    /// As [`Spinney::start`], with these variables in its environment.
    pub fn start_with(variables: &[(&str, &str)], args: &[&str]) -> Spinney {
        Self::started(args, Self::try_start_with(variables, "127.0.0.1:0", args))
    }

    fn started(args: &[&str], result: Result<Spinney, NotStarted>) -> Spinney {
        match result {
            Ok(spinney) => spinney,
            Err(failure) => {
                panic!("spinney serve {args:?} did not start ({:?}), its log:\n{}", failure.exit, failure.log)
            }
        }
    }

    /// The same, for tests of arguments that must be refused.
    pub fn try_start(listen: &str, args: &[&str]) -> Result<Spinney, NotStarted> {
        Self::try_start_with(&[], listen, args)
    }

    fn try_start_with(variables: &[(&str, &str)], listen: &str, args: &[&str]) -> Result<Spinney, NotStarted> {
        let mut command = spinney_command();
        command.args(["serve", "--listen", listen]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Or the spinneys of all tests would count everybody's indices.
        if !args.iter().any(|arg| arg.starts_with("--counts")) {
            command.args(["--counts", "off"]);
        }
        let mut child = command.envs(variables.iter().copied()).spawn().expect("the spinney binary runs");

        let log = Arc::new(Mutex::new(Vec::new()));
        let logging = keep_lines(child.stderr.take().unwrap(), Arc::clone(&log));
        let ready = first_listening_url(child.stdout.take().unwrap());
        let mut spinney = Spinney { url: String::new(), child, log, logging: Some(logging) };
        match ready.recv_timeout(PATIENCE) {
            Ok(url) => {
                spinney.url = url;
                Ok(spinney)
            }
            Err(reason) => {
                // A closed stdout: it has ended or is about to.
                let exit = match reason {
                    RecvTimeoutError::Disconnected => spinney.wait(),
                    RecvTimeoutError::Timeout => None,
                };
                spinney.kill9();
                let log = spinney.whole_log();
                Err(NotStarted { exit, log })
            }
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// URL of the admin listener, which `--admin-listen 127.0.0.1:0` asks for.
    pub fn admin_url(&self) -> String {
        let line = self.log_line("the addresses", |line| line.contains("admin_address="));
        let (_, address) = line.split_once("admin_address=").unwrap();
        format!("http://{}", address.split(' ').next().unwrap())
    }

    /// `host:port` of [`Spinney::url`]: what [`Spinney::start_at`] takes.
    pub fn address(&self) -> &str {
        self.url.split_once("://").map_or("", |(_, rest)| rest)
    }

    /// The first line of its log (standard error) of which this holds, as soon as there is one. A line that was written
    /// before an answer may be read after it.
    pub fn log_line(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut found = None;
        wait_until(&format!("a line of the log: {what}"), || {
            let lines = self.log.lock().unwrap();
            found = lines.iter().find(|line| holds(line)).cloned();
            found.is_some()
        });
        found.unwrap()
    }

    /// Ends it with SIGTERM and gives its log from the first line to the last: for what must not be in it.
    pub fn end_and_log(mut self) -> String {
        assert_eq!(self.terminate(), Some(0));
        self.whole_log()
    }

    /// The log of a process that has ended.
    fn whole_log(&mut self) -> String {
        if let Some(logging) = self.logging.take() {
            logging.join().unwrap();
        }
        self.log.lock().unwrap().join("\n")
    }

    /// Ends it as a crash would: no clean-up of any kind.
    pub fn kill9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM without waiting.
    pub fn signal_term(&self) {
        self.signal("TERM");
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        // The shell's own `kill`: the standard library sends SIGKILL only, and not every system has /bin/kill.
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.pid())]).status().unwrap();
        assert!(sent.success(), "SIG{name} could not be sent");
    }

    /// Sends SIGTERM and waits: the exit code, or `None` if a signal ended it. Panics if it does not end.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal_term();
        match self.wait() {
            Some(status) => status.code(),
            None => panic!("spinney did not end within {PATIENCE:?} of SIGTERM"),
        }
    }

    /// Waits for its end; `None`: it still runs after [`PATIENCE`].
    pub fn wait(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "between two looks: the standard library waits for a child for ever or not at all"
            )]
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Spinney {
    fn drop(&mut self) {
        self.kill9();
        if thread::panicking() {
            let log = self.log.lock().unwrap();
            let shown = &log[log.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("the log of spinney at {}:\n{}", self.url, shown.join("\n"));
        }
    }
}

/// Reads and keeps lines for as long as there are any (a full pipe would stop the process).
fn keep_lines(from: impl Read + Send + 'static, to: Arc<Mutex<Vec<String>>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut lines = BufReader::new(from).split(b'\n');
        while let Some(Ok(line)) = lines.next() {
            let line = String::from_utf8_lossy(&line).into_owned();
            to.lock().unwrap().push(line);
        }
    })
}

/// The URL of the line that says that spinney listens. The channel closes without one when standard output does.
fn first_listening_url(stdout: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (found, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut found = Some(found);
        let mut lines = BufReader::new(stdout).lines();
        while let Some(Ok(line)) = lines.next() {
            if let Some(url) = line.strip_prefix("spinney is listening on ")
                && let Some(found) = found.take()
            {
                let _ = found.send(url.trim().trim_end_matches('/').to_owned());
            }
        }
    });
    receiver
}

// --------------------------------------------------------------------------------------------------------------------

/// The search server itself (or whatever speaks its protocol at a URL), asked directly.
pub struct Server {
    url: String,
    client: reqwest::Client,
}

impl Server {
    pub fn new(url: &str) -> Server {
        Self::with_client(url, http())
    }

    /// With a client that knows a certificate authority or carries credentials ([`http_builder`]).
    pub fn with_client(url: &str, client: reqwest::Client) -> Server {
        Server { url: url.trim_end_matches('/').to_owned(), client }
    }

    /// Without a final slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a JSON request and returns status and JSON answer, whatever the status. `path` begins with `/`.
    pub async fn request(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let bytes = response.bytes().await.unwrap();
        let answer = serde_json::from_slice(&bytes)
            .unwrap_or_else(|error| panic!("{path}: {error} in the answer {}", String::from_utf8_lossy(&bytes)));
        (status, answer)
    }

    /// The same, and panics unless the status is 2xx.
    async fn must(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.request(method, path, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// Makes an index with these settings and mappings.
    pub async fn create_index(&self, index: &str, body: Value) {
        self.must(Method::PUT, &format!("/{index}"), Some(body)).await;
    }

    /// Removes an index; tests do it at their end, since a node allows only so many shards.
    pub async fn delete_index(&self, index: &str) {
        self.must(Method::DELETE, &format!("/{index}"), None).await;
    }

    /// Makes everything that was written visible to searches.
    pub async fn refresh(&self, index: &str) {
        self.must(Method::POST, &format!("/{index}/_refresh"), None).await;
    }

    /// The number of documents that searches see; 0 if there is no such index.
    pub async fn count(&self, index: &str) -> u64 {
        let path = format!("/{index}/_count?ignore_unavailable=true");
        let answer = self.must(Method::GET, &path, None).await;
        answer["count"].as_u64().unwrap()
    }

    /// The source of one document, without the need of a refresh; `None` if there is no such document.
    pub async fn get(&self, index: &str, id: &str) -> Option<Value> {
        let path = format!("/{index}/_doc/{id}");
        let (_, mut answer) = self.request(Method::GET, &path, None).await;
        (answer["found"] == true).then(|| answer["_source"].take())
    }

    /// The sources of all documents that searches see, by id.
    pub async fn documents(&self, index: &str) -> BTreeMap<String, Value> {
        let path = format!("/{index}/_search?scroll=1m");
        let query = json!({"size": 5000, "sort": ["_doc"], "query": {"match_all": {}}});
        let mut page = self.must(Method::POST, &path, Some(query)).await;
        let mut documents = BTreeMap::new();
        loop {
            let scroll = page["_scroll_id"].take();
            let Value::Array(hits) = page["hits"]["hits"].take() else {
                panic!("no hits in {page}");
            };
            if hits.is_empty() {
                let body = json!({ "scroll_id": scroll });
                self.must(Method::DELETE, "/_search/scroll", Some(body)).await;
                return documents;
            }
            for mut hit in hits {
                let id = hit["_id"].as_str().unwrap().to_owned();
                let twice = documents.insert(id, hit["_source"].take());
                assert!(twice.is_none(), "the id {} was found twice", hit["_id"]);
            }
            let body = json!({ "scroll": "1m", "scroll_id": scroll });
            page = self.must(Method::POST, "/_search/scroll", Some(body)).await;
        }
    }
}

// --------------------------------------------------------------------------------------------------------------------

/// The root that a stored document carries, if it carries one; panics if it is not 16 lower-case hex digits or does not
/// agree with `cluster_key`.
pub fn root_of(source: &Value) -> Option<&str> {
    let root = source.get("cluster_root")?;
    let hex =
        root.as_str().filter(|hex| hex.len() == 16 && hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')));
    let Some(hex) = hex else {
        panic!("cluster_root is not 16 lower-case hex digits: {root}");
    };
    let signed = u64::from_str_radix(hex, 16).unwrap().cast_signed();
    assert_eq!(source["cluster_key"].as_i64(), Some(signed), "cluster_key of {hex} is {}", source["cluster_key"]);
    Some(hex)
}

/// The document as its writer sent it: without the fields of the stamp.
pub fn unstamped(source: &Value) -> Value {
    let mut source = source.clone();
    if let Some(fields) = source.as_object_mut() {
        for field in STAMP_FIELDS {
            fields.shift_remove(field);
        }
    }
    source
}

/// Asserts that both indices hold the same documents under the same ids, but for the stamps.
pub fn assert_same_documents(direct: &BTreeMap<String, Value>, proxied: &BTreeMap<String, Value>) {
    let ids = |documents: &BTreeMap<String, Value>| documents.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ids(direct), ids(proxied), "the ids differ");
    for (id, source) in direct {
        let (direct, proxied) = (unstamped(source), unstamped(&proxied[id]));
        if direct == proxied {
            continue;
        }
        if let (Some(direct), Some(proxied)) = (direct.as_object(), proxied.as_object()) {
            for (field, value) in direct {
                assert_eq!(Some(value), proxied.get(field), "{field} of document {id}");
            }
        }
        panic!("document {id} is {direct} in one, {proxied} in the other");
    }
}
