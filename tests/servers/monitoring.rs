//! The metrics pass a strict parser, and the dashboard shows them: all of them, and nothing that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::clients::driver::{installed, scripts};
use crate::common::fake::{self, Fake, Reply};
use crate::common::redis::Redis;
use crate::common::wire::Request;
use crate::common::{self, Spinney, twin, unique_index, wait_until};

/// The names of the samples of each family, as the parser of the Python client reads them.
fn parsed(metrics: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut parser = Command::new(installed("venv/bin/python"))
        .arg(scripts().join("metrics.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = parser.stdin.take().unwrap();
    input.write_all(metrics.as_bytes()).unwrap();
    drop(input);
    let output = parser.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{metrics}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Everything in the dashboard that looks like the name of a metric of ours, or of the process.
fn named_in_dashboard() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/grafana.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut names = BTreeSet::new();
    let mut values = vec![&dashboard];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(members) => values.extend(members.values()),
            Value::String(text) => {
                let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let ours = words.filter(|word| word.starts_with("spinney_") || word.starts_with("process_"));
                names.extend(ours.map(str::to_owned));
            }
            _ => {}
        }
    }
    names
}

#[tokio::test]
async fn the_dashboard_shows_every_metric() {
    let index = unique_index("metrics");
    let data_dir = common::scratch("metrics");
    let upstream = common::opensearch();
    let data = data_dir.to_string_lossy();
    // All that has metrics of its own. The name of a forest is a label, and may be anything.
    let forest = ["--forest", "new \"s\"\\ 新闻"];
    let mut args = vec!["--upstream", &upstream, "--index", &index];
    args.extend(["--text-field", "content", "--counts", "on", "--sweep", "1h", "--data-dir", &data]);
    args.extend(forest);
    let access_log = common::scratch("access-log");
    args.extend(["--access-log", access_log.to_str().unwrap()]);
    let spinney = Spinney::start(&args);
    // A forest is kept in one place.
    let redis = Redis::start();
    let url = redis.url();
    let sharing = Spinney::start(&[
        "--upstream",
        &upstream,
        "--index",
        &index,
        "--text-field",
        "content",
        "--forest-store",
        &url,
    ]);
    let path = format!("/{index}/_doc/a");
    let source = serde_json::json!({"content": twin::text(1)}).to_string();
    let written = Request::json("PUT", &path, source).to(&spinney.url);
    assert_eq!(written.status, 201, "{}", written.text());
    twin::stats(&spinney.url);

    let metrics = Request::get("/_spinney/_metrics").to(&spinney.url);
    assert_eq!(metrics.status, 200, "{}", metrics.text());
    let mut families = parsed(&metrics.text());
    let metrics = Request::get("/_spinney/_metrics").to(&sharing.url);
    families.extend(parsed(&metrics.text()));
    let samples: BTreeSet<&String> = families.values().flatten().collect();
    let shown = named_in_dashboard();
    let missing: Vec<_> = shown.iter().filter(|name| !samples.contains(name)).collect();
    assert!(missing.is_empty(), "in the dashboard, and no metric: {missing:?}");
    let hidden: Vec<_> =
        families.iter().filter(|(_, samples)| samples.is_disjoint(&shown)).map(|(family, _)| family).collect();
    assert!(hidden.is_empty(), "not in the dashboard: {hidden:?}");

    drop((spinney, sharing));
    let server = common::Server::new(&upstream);
    server.delete_index(&index).await;
    let roots = format!("/spinney-roots-{index}?ignore_unavailable=true");
    server.request(reqwest::Method::DELETE, &roots, None).await;
    fs::remove_dir_all(data_dir).unwrap();
    fs::remove_file(access_log).unwrap();
}

/// One line for each request that is over, in the file that has the name at that time.
#[test]
fn requests_are_in_the_access_log() {
    let cluster = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{\"took\":1,\"errors\":false,\"items\":[]}")));
    let (path, old) = (common::scratch("access"), common::scratch("access-old"));
    let file = path.to_str().unwrap();
    let mut spinney = Spinney::start(&["--upstream", &cluster.url, "--index", "news-*", "--access-log", file]);
    let body = "{\"index\":{}}\n{\"content\":\"a b c\"}\n";
    let bulk = Request::bulk("/news-1/_bulk?token=Pa55wArd", body).header("X-Opaque-Id", "a \"b\"");
    assert_eq!(bulk.header("User-Agent", "crawler\n".trim_end()).to(&spinney.url).status, 200);
    assert_eq!(Request::new("HEAD", "/news-1").to(&spinney.url).status, 200);
    assert_eq!(Request::get(&format!("/_spinney/{}", "x".repeat(5_000))).to(&spinney.url).status, 404);
    let written = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        assert!(!text.contains("Pa55"), "{text}");
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    wait_until("the lines are there", || written(&path).len() == 3);
    fs::rename(&path, &old).unwrap();
    spinney.signal("HUP");
    spinney.log_line("of the signal", |line| line.contains("the configuration was read again"));
    assert_eq!(Request::get("/_spinney/_health").to(&spinney.url).status, 200);
    // What waits is written at the end.
    assert_eq!(spinney.terminate(), Some(0));
    let lines = [written(&old), written(&path)].concat();
    let of = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("status"), [200, 200, 404, 200]);
    assert_eq!(of("method"), ["POST", "HEAD", "GET", "GET"]);
    assert_eq!(of("path")[..2], ["/news-1/_bulk", "/news-1"]);
    assert_eq!(of("path")[2].as_str().unwrap().len(), 1_024);
    assert_eq!(lines[0]["id"], "a__b_");
    assert_eq!(lines[0]["user_agent"], "crawler");
    assert_eq!(lines[0]["request_bytes"], body.len());
    assert!(lines.iter().all(|line| line["client"] == "127.0.0.1" && line["aborted"].is_null()), "{lines:?}");
    assert!(lines[0]["response_bytes"].as_u64() > Some(0) && lines[0]["seconds"].as_f64() > Some(0.0), "{lines:?}");
    assert_eq!(written(&path).len(), 1);
    fs::remove_file(path).unwrap();
    fs::remove_file(old).unwrap();

    let refused = Spinney::try_start("127.0.0.1:0", &["--access-log", "/no/such/directory/log"]).err().unwrap();
    assert!(refused.log.contains("cannot write the access log /no/such/directory/log"), "{}", refused.log);
}

/// An alert about a cluster that is away needs the metrics of that time. Who gets them has got them before.
#[test]
fn metrics_are_there_when_the_cluster_is_not() {
    let how = Arc::new(Mutex::new(200));
    let shown = how.clone();
    let fake = Fake::in_any_health(move |request| {
        let status = *shown.lock().unwrap();
        // One who is known by these credentials may not see it.
        let is_refused = request.headers("authorization").first().is_some_and(|login| login.contains("bm9ib2R5"));
        Reply::Last(match status {
            0 => Vec::new(),
            200 if is_refused => fake::json(403, "", "{\"error\":\"no\"}"),
            200 => fake::json(200, "", "{\"cluster_name\":\"c\",\"status\":\"green\",\"number_of_nodes\":1}"),
            other => fake::json(other, "", "{\"error\":\"no\"}"),
        })
    });
    let spinney = Spinney::start(&[
        "--upstream",
        &fake.url,
        "--index",
        "news-*",
        "--counts",
        "off",
        "--admin-listen",
        "127.0.0.1:0",
    ]);
    let ask = |path: &str, login: Option<&str>| {
        let mut request = Request::new("GET", path);
        if let Some(login) = login {
            request = request.header("Authorization", login);
        }
        request.to(&spinney.url)
    };
    let admin = spinney.admin_url();
    const METRICS: &str = "/_spinney/_metrics";
    const NOBODY: &str = "Basic bm9ib2R5Og==";
    assert_eq!(ask(METRICS, None).status, 200);
    assert_eq!(ask(METRICS, Some(NOBODY)).status, 403);
    for away in [0, 503] {
        *how.lock().unwrap() = away;
        // The admin listener asks the cluster about nobody.
        let before = fake.received().len();
        for path in ["/metrics", METRICS, "/_spinney/_stats"] {
            assert_eq!(Request::get(path).to(&admin).status, 200, "{path}");
        }
        assert_eq!(fake.received().len(), before);
        let answer = ask(METRICS, None);
        assert_eq!(answer.status, 200, "{away}: {}", answer.text());
        assert!(answer.text().contains("spinney_upstream_"), "{}", answer.text());
        // Neither whom it has refused nor whom it has not seen, and nothing else.
        for (path, login) in [(METRICS, Some(NOBODY)), (METRICS, Some("Basic eA==")), ("/_spinney/_routes", None)] {
            assert!(ask(path, login).status >= 500, "{away} {path} {login:?}");
        }
    }
    // What it says once it is back counts.
    *how.lock().unwrap() = 401;
    assert_eq!(ask(METRICS, None).status, 401);
    *how.lock().unwrap() = 0;
    assert!(ask(METRICS, None).status >= 500);
}
