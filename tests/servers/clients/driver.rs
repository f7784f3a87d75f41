//! Runs a real client as a process of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common;

/// Far above what any run needs: a client that hangs must fail its test.
const PATIENCE: Duration = Duration::from_secs(600);

/// How many requests a parallel helper has in flight.
const CONCURRENCY: usize = 3;

/// One action for a client's helper: `body` is the document, or what an update sends, or nothing for a delete.
pub struct Action(Value);

impl Action {
    pub fn new(op: &str, id: &str, body: Option<Value>) -> Action {
        let mut action = json!({"op": op, "id": id});
        if let Some(body) = body {
            action["body"] = body;
        }
        Action(action)
    }

    pub fn update(id: &str, body: Value) -> Action {
        Action::new("update", id, Some(body))
    }
}

/// What the helper told its user.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Actions that succeeded.
    pub succeeded: usize,
    /// The items of the others, as the helper reports them.
    pub errors: Vec<Value>,
}

impl Outcome {
    /// All went well.
    pub fn success(actions: usize) -> Outcome {
        Outcome { succeeded: actions, errors: Vec::new() }
    }

    /// Comparable with the outcome in another index: its name and its UUID are taken out of the errors, and so are the
    /// columns of parsing errors, which a stamp moves.
    pub fn without(mut self, index: &str) -> Outcome {
        for error in &mut self.errors {
            let mut text = error.to_string().replace(index, "INDEX");
            if let Some(uuid) = find_index_uuid(error) {
                text = text.replace(&uuid, "UUID");
            }
            *error = serde_json::from_slice(&common::twin::without_columns(text.as_bytes())).unwrap();
        }
        self
    }
}

fn find_index_uuid(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => fields
            .get("index_uuid")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .or_else(|| fields.values().find_map(find_index_uuid)),
        Value::Array(values) => values.iter().find_map(find_index_uuid),
        _ => None,
    }
}

/// A client and one of its helpers.
#[derive(Clone)]
pub struct Driver {
    program: PathBuf,
    /// What the program is called with before the job.
    arguments: Vec<OsString>,
    /// Variables of its environment.
    variables: Vec<(&'static str, OsString)>,
    label: String,
    library: String,
    helper: &'static str,
    /// The class of the client's connections (elasticsearch-js).
    connection: Option<&'static str>,
    concurrency: usize,
    /// Documents of a request.
    chunk: usize,
    raise_on_error: bool,
}

/// The interpreter with the pinned packages.
pub fn python() -> PathBuf {
    cached("clients", "venv/bin/python")
}

impl Driver {
    fn new(program: PathBuf, library: &str, helper: &'static str) -> Driver {
        Driver {
            program,
            arguments: Vec::new(),
            variables: Vec::new(),
            label: format!("{library}-{}", helper.replace('_', "-")),
            library: library.to_owned(),
            helper,
            connection: None,
            concurrency: CONCURRENCY,
            chunk: 250,
            raise_on_error: true,
        }
    }

    /// `library` is `opensearch` or `elasticsearch`, `helper` the name of the helper.
    pub fn python(library: &'static str, helper: &'static str) -> Driver {
        Self::python_of("clients", library, helper)
    }

    fn python_of(environment: &str, library: &str, helper: &'static str) -> Driver {
        Driver {
            arguments: vec![scripts().join("drive.py").into()],
            variables: vec![("PYTHONDONTWRITEBYTECODE", "1".into())],
            ..Self::new(cached(environment, "venv/bin/python"), library, helper)
        }
    }

    /// opensearch-js. It never raises: it reports what it dropped.
    pub fn javascript() -> Driver {
        Self::javascript_of("clients", "opensearch")
    }

    fn javascript_of(environment: &str, library: &str) -> Driver {
        Driver {
            arguments: vec![scripts().join("drive.js").into()],
            variables: vec![("NODE_PATH", cached(environment, "node/node_modules").into())],
            label: format!("{library}-js"),
            raise_on_error: false,
            ..Self::new(PathBuf::from("node"), library, "bulk")
        }
    }

    /// elasticsearch-py of this major version.
    pub fn elasticsearch_py(major: u64, helper: &'static str) -> Driver {
        Self::python_of(&newer(major), &format!("elasticsearch-{major}"), helper)
    }

    /// elasticsearch-js of this major version, with this class of connections.
    pub fn elasticsearch_js(major: u64, connection: &'static str) -> Driver {
        let mut driver = Self::javascript_of(&newer(major), &format!("elasticsearch-{major}"));
        driver.label = format!("{}-{}", driver.label, connection.to_lowercase());
        driver.connection = Some(connection);
        driver
    }

    /// The `BulkIngester` of elasticsearch-java of this major version.
    pub fn elasticsearch_java(major: u64) -> Driver {
        let classes = cached(&newer(major), "java");
        let path = format!("{0}/*:{0}", classes.display());
        Driver {
            arguments: vec!["-cp".into(), path.into(), "Drive".into()],
            ..Self::new(PathBuf::from("java"), &format!("elasticsearch-{major}"), "java")
        }
    }

    /// The `BulkIndexer` of go-elasticsearch of this major version.
    pub fn elasticsearch_go(major: u64) -> Driver {
        Self::new(cached("newer-clients", "drive-go"), &format!("elasticsearch-{major}"), "go")
    }

    /// The `BulkIndexer` of opensearch-go.
    pub fn opensearch_go() -> Driver {
        Self::new(cached("newer-clients", "drive-go"), "opensearch", "go")
    }

    /// With `raise_on_error=False`: failed items are collected instead. The Python helpers retry rejected items (429)
    /// only then: otherwise the first rejection is raised, whatever `max_retries` says.
    pub fn collecting_errors(mut self) -> Driver {
        self.raise_on_error = false;
        self
    }

    /// For actions that depend on the ones before: the parallel helpers send one request at a time too.
    pub fn one_at_a_time(mut self) -> Driver {
        self.concurrency = 1;
        self
    }

    pub fn in_chunks_of(mut self, documents: usize) -> Driver {
        self.chunk = documents;
        self
    }

    /// Fit for the name of an index.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Runs to the end. Panics with what the client says if it fails or hangs.
    pub async fn run(&self, url: &str, index: &str, actions: &[Action]) -> Outcome {
        self.spawn(url, index, actions, None, || ()).await.unwrap_or_else(|| panic!("{}: no outcome", self.label))
    }

    /// Runs until the helper has taken so many actions, where it gets no more, and kills the client as `kill -9` does
    /// once `ready` returns.
    pub async fn run_and_kill_at(
        &self,
        taken: usize,
        url: &str,
        index: &str,
        actions: &[Action],
        ready: impl FnOnce() + Send + 'static,
    ) {
        let outcome = self.spawn(url, index, actions, Some(taken), ready).await;
        assert_eq!(outcome, None, "{} ended before it was killed", self.label);
    }

    async fn spawn(
        &self,
        url: &str,
        index: &str,
        actions: &[Action],
        stop_at: Option<usize>,
        ready: impl FnOnce() + Send + 'static,
    ) -> Option<Outcome> {
        let file = common::scratch(&self.label);
        write_actions(&file, actions);
        let job = json!({
            "url": url,
            "index": index,
            "actions": file,
            "library": self.library,
            "helper": self.helper,
            "connection": self.connection,
            "concurrency": self.concurrency,
            "chunk": self.chunk,
            "raise_on_error": self.raise_on_error,
            "stop_at": stop_at,
        });
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(job.to_string()).envs(self.variables.iter().cloned());
        let label = self.label.clone();
        let outcome = tokio::task::spawn_blocking(move || watch(command, &label, ready))
            .await
            .unwrap_or_else(|failed| panic::resume_unwind(failed.into_panic()));
        fs::remove_file(file).unwrap();
        outcome
    }
}

pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/clients")
}

/// What `scripts/clients-env` has installed for every run of the tests.
pub fn installed(what: &str) -> PathBuf {
    cached("clients", what)
}

/// The environment of the clients of Elasticsearch of this major version.
fn newer(major: u64) -> String {
    format!("newer-clients/elasticsearch-{major}")
}

fn cached(environment: &str, what: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache").join(environment).join(what);
    let option = if environment.starts_with("newer") { " --all" } else { "" };
    assert!(
        path.exists(),
        "{} is missing: run scripts/test{option}, which installs the clients (or scripts/clients-env{option} alone)",
        path.display()
    );
    path
}

fn write_actions(file: &Path, actions: &[Action]) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut out = BufWriter::new(File::create(file).unwrap());
    for Action(action) in actions {
        writeln!(out, "{action}").unwrap();
    }
    out.flush().unwrap();
}

/// Follows a driver's standard output to its outcome, or to the point where it is killed (`None`).
fn watch(mut command: Command, label: &str, ready: impl FnOnce()) -> Option<Outcome> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{label}: {command:?} does not run: {error}"));
    let mut stderr = child.stderr.take().unwrap();
    let said = thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (line_read, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if line_read.send(line).is_err() {
                break;
            }
        }
    });

    let deadline = Instant::now() + PATIENCE;
    let mut outcome = None;
    let mut progress = String::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if line == "stopped" => {
                ready();
                child.kill().unwrap();
                child.wait().unwrap();
                return outcome;
            }
            Ok(line) if line.starts_with("read ") => progress = line,
            Ok(line) => outcome = Some(parse_outcome(&line)),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let said = said.join().unwrap();
                panic!("{label} did not end within {PATIENCE:?} ({progress}); it said:\n{said}");
            }
        }
    }
    let status = child.wait().unwrap();
    let said = said.join().unwrap();
    assert!(status.success(), "{label} failed with {status} ({progress}); it said:\n{said}");
    outcome
}

fn parse_outcome(line: &str) -> Outcome {
    let mut outcome: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in the outcome {line}"));
    let Value::Array(errors) = outcome["errors"].take() else {
        panic!("no errors in {line}");
    };
    Outcome { succeeded: usize::try_from(outcome["succeeded"].as_u64().unwrap()).unwrap(), errors }
}
