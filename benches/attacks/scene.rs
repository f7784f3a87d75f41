//! A cluster, a spinney in front of it, and what is to be seen of the two.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::cases::INDEX;
use super::probes::credentials;
use super::requests::{Caller, pause};
use crate::support::http::Connection;
use crate::support::peers::{self, Proxy};

/// How long anything is waited for that should come soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where programs and files are.
#[derive(Debug, Clone)]
pub struct Home {
    pub spinney: PathBuf,
    pub work: PathBuf,
    /// The secured cluster and its certificate authority.
    pub upstream: String,
    pub authority: PathBuf,
}

/// What a spinney remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Nodes of all forests.
    pub nodes: i64,
    /// Sentences that have become boilerplate since the start.
    pub learned: i64,
}

/// A running spinney.
pub struct Spinney {
    pub proxy: Proxy,
    /// Where it answers probes.
    pub admin: String,
    log: PathBuf,
}

impl Spinney {
    /// Starts one in front of the secured cluster (`None`), or of a made-up one. `files`: how many it may open.
    pub async fn start(
        home: &Home,
        name: &str,
        upstream: Option<SocketAddr>,
        options: &[&str],
        files: Option<u32>,
    ) -> anyhow::Result<Spinney> {
        Self::start_for("open-*", home, name, upstream, options, files).await
    }

    /// The same with a route for these indexes.
    pub async fn start_for(
        indexes: &str,
        home: &Home,
        name: &str,
        upstream: Option<SocketAddr>,
        options: &[&str],
        files: Option<u32>,
    ) -> anyhow::Result<Spinney> {
        let mut command = match files {
            None => Command::new(&home.spinney),
            Some(files) => {
                let mut shell = Command::new("sh");
                let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
                shell.arg("-c").arg(script).arg(&home.spinney);
                shell
            }
        };
        command.args(["serve", "--index", indexes, "--text-field", "content"]);
        command.args(["--log-format", "json"]).args(options);
        match upstream {
            Some(made_up) => command.arg("--upstream").arg(format!("http://{made_up}")),
            None => command.args(["--upstream", &home.upstream, "--upstream-ca"]).arg(&home.authority),
        };
        let proxy = peers::serve(&mut command, &home.work, name).await?;
        let said = fs::read_to_string(home.work.join(format!("{name}.out")))?;
        let line = said.lines().find(|line| line.contains("answers probes on"));
        let admin = line.and_then(|line| line.rsplit("http://").next());
        Ok(Spinney {
            admin: admin.unwrap_or(&proxy.authority).to_owned(),
            proxy,
            log: home.work.join(format!("{name}.log")),
        })
    }

    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.proxy.authority.parse()?)
    }

    /// Asks as somebody and expects a 2xx.
    pub async fn ask(&self, caller: Caller, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let (status, answer) = self.answer(caller, method, path, body).await?;
        ensure!(status.is_success(), "{path} answered {status}: {answer}");
        Ok(answer)
    }

    async fn answer(
        &self,
        caller: Caller,
        method: Method,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let asked = async {
            let headers = credentials(caller);
            let mut connection = Connection::open_with(&self.proxy.authority, headers).await?;
            let body = match body {
                Value::Null => Bytes::new(),
                body => serde_json::to_vec(body)?.into(),
            };
            connection.request(method, path, "application/json", body).await
        };
        let answered = tokio::time::timeout(PATIENCE, asked).await;
        let (status, answer) = answered.with_context(|| format!("{path}: no answer"))??;
        Ok((status, serde_json::from_slice(&answer).unwrap_or_default()))
    }

    async fn stats(&self) -> anyhow::Result<Value> {
        let path = "/_spinney/_stats";
        let admin = Caller::Admin;
        self.ask(admin, Method::GET, path, &Value::Null).await
    }

    /// Whether a question is answered; why not is told.
    pub async fn answers(&self, caller: Caller, method: Method, path: &str, body: &Value) -> anyhow::Result<bool> {
        let (status, answer) = self.answer(caller, method, path, body).await?;
        // A page of a group leads to that of an article.
        let is_answered = status.is_success() || status.is_redirection();
        if !is_answered {
            eprintln!("{path} answered {status}: {answer}");
        }
        Ok(is_answered)
    }

    /// The root of a document.
    pub async fn root(&self, id: &str) -> anyhow::Result<String> {
        let path = format!("/{INDEX}/_doc/{id}");
        let document = self.ask(Caller::Admin, Method::GET, &path, &Value::Null).await?;
        let root = document["_source"]["cluster_root"].as_str();
        Ok(root.with_context(|| format!("a document has no root: {document}"))?.to_owned())
    }

    /// How many documents of an index have no stamp.
    pub async fn unstamped(&self, index: &str) -> anyhow::Result<u64> {
        self.ask(Caller::Admin, Method::POST, &format!("/{index}/_refresh"), &Value::Null).await?;
        let query = json!({"query": {"bool": {"must_not": {"exists": {"field": "cluster_root"}}}}});
        let counted = self.ask(Caller::Admin, Method::POST, &format!("/{index}/_count"), &query).await?;
        counted["count"].as_u64().with_context(|| format!("no count in {counted}"))
    }

    /// Whether `spinney verify` finds stamps as the forest has them; what it says is told otherwise.
    pub fn verifies(&self, home: &Home) -> anyhow::Result<bool> {
        let url = format!("http://admin:admin@{}", self.proxy.authority);
        let output = Command::new(&home.spinney).args(["verify", "--sample", "200", "--spinney-url", &url]).output()?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            eprintln!("verify ends with {}: {}", output.status, String::from_utf8_lossy(&said));
        }
        Ok(output.status.success())
    }

    /// Waits until no more requests are in flight than so many; false if there still are.
    pub async fn calms_down(&self, in_flight: u64) -> bool {
        let until = Instant::now() + PATIENCE / 2;
        while Instant::now() < until {
            let stats = self.stats().await.unwrap_or_default();
            let requests = stats["requests_in_flight"].as_u64();
            if requests.is_some_and(|requests| requests <= in_flight) {
                return true;
            }
            pause(Duration::from_millis(50)).await;
        }
        false
    }

    /// What it remembers.
    pub async fn memory(&self) -> anyhow::Result<Memory> {
        let stats = self.stats().await?;
        let Some(forests) = stats["forests"].as_object() else {
            bail!("no forests in {stats}");
        };
        let nodes = forests.values().filter_map(|forest| forest["nodes"].as_i64());
        Ok(Memory { nodes: nodes.sum(), learned: learned(&self.log)? })
    }

    /// Makes an index that costs the cluster little: what is measured is what stands before it.
    pub async fn create(&self, index: &str) -> anyhow::Result<()> {
        let definition = json!({
            "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"},
            "mappings": {"dynamic": false, "properties": {
                "cluster_root": {"type": "keyword"},
                "cluster_key": {"type": "long"},
                "cluster_arrival": {"type": "date"},
                "cluster_first": {"type": "boolean"},
            }},
        });
        let path = format!("/{index}");
        self.ask(Caller::Admin, Method::PUT, &path, &definition).await?;
        Ok(())
    }

    /// Removes an index, if it is there.
    pub async fn delete(&self, index: &str) -> anyhow::Result<()> {
        let path = format!("/{index}");
        self.answer(Caller::Admin, Method::DELETE, &path, &Value::Null).await?;
        Ok(())
    }
}

/// The sentences that the log says have become boilerplate.
fn learned(log: &Path) -> anyhow::Result<i64> {
    let log = fs::read_to_string(log)?;
    let lines = log.lines().filter(|line| line.contains("boilerplate"));
    let told = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(told.filter_map(|line| line["sentences"].as_i64()).sum())
}
