//! What every release has left opens, with the roots that were given then.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use redis::Commands as _;
use serde_json::{Value, json};
use spinney::fingerprint::FingerprintVersion;

use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, root_of};
use crate::restart::{DataDir, check, foretold_of};

/// Documents that a release keeps.
const DOCUMENTS: usize = 60;

fn releases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

fn connect(redis: &Redis) -> redis::Connection {
    redis::Client::open(redis.url()).unwrap().get_connection().unwrap()
}

/// The documents with their stamps, of a file of lines.
fn documents(release: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(release.join("documents.ndjson")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn without_stamp(document: &Value) -> Value {
    let mut bare = document.clone();
    bare.as_object_mut().unwrap().retain(|name, _| !name.starts_with("cluster_"));
    bare
}

/// A spinney that has the same roots for these documents.
async fn assert_knows(spinney: &Spinney, index: &str, documents: &[Value]) {
    let client = common::http();
    let mut known = 0;
    for document in documents {
        let bare = without_stamp(document);
        if check(&client, &spinney.url, index, &bare).await["decision"] == "own_root" {
            continue;
        }
        let root = foretold_of(&client, &spinney.url, index, &bare).await;
        assert_eq!(Some(root.as_str()), root_of(document), "{bare}");
        known += 1;
    }
    assert!(known > DOCUMENTS / 2, "{known} documents with text");
}

/// The version of the fingerprints of a forest in a data directory.
fn fingerprints_in(data: &Path) -> FingerprintVersion {
    let mut entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let identity = entries.find_map(|forest| fs::read_to_string(forest.join("identity")).ok()).unwrap();
    let version = identity.lines().find_map(|line| line.strip_prefix("fingerprints = "));
    FingerprintVersion(version.unwrap().parse().unwrap())
}

/// Where the release made other fingerprints, which its directory says.
fn assert_says_of_earlier(spinney: &Spinney, data: &Path) {
    if fingerprints_in(data) < FingerprintVersion::CURRENT {
        let says = |line: &str| line.contains("WARN") && line.contains("reads some texts differently");
        spinney.log_line("the version of its fingerprints", says);
    }
}

#[tokio::test]
async fn what_every_release_has_left_opens() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let mut opened = 0;
    for release in fs::read_dir(releases()).unwrap().map(|entry| entry.unwrap().path()) {
        if !release.is_dir() {
            continue;
        }
        let config = release.join("serve.toml");
        let documents = documents(&release);
        let given = ["--upstream", &upstream, "--config", config.to_str().unwrap()];
        // The index is one of this test alone, and its name one of the route.
        let index = format!("kept-{}", common::unique_index("upgrade"));
        crate::backfill::create_mapped(&server, &index).await;
        let dir = DataDir::new("upgrade");
        copy(&release.join("data"), &dir.path().join("data"));
        let data = dir.path().join("data");
        let spinney = Spinney::start(&[&given[..], &["--data-dir", data.to_str().unwrap()]].concat());
        assert_knows(&spinney, &index, &documents).await;
        assert_says_of_earlier(&spinney, &data);
        drop(spinney);

        let redis = Redis::start();
        let mut connection = connect(&redis);
        for line in fs::read_to_string(release.join("redis.txt")).unwrap().lines() {
            let (key, value) = line.split_once(' ').unwrap();
            let restore = redis::cmd("RESTORE").arg(bytes(key)).arg(0).arg(bytes(value)).exec(&mut connection);
            restore.unwrap();
        }
        let spinney = Spinney::start(&[&given[..], &["--forest-store", &redis.url()]].concat());
        assert_knows(&spinney, &index, &documents).await;
        assert_says_of_earlier(&spinney, &data);
        drop(spinney);

        let lines = documents.iter().enumerate().map(|(n, document)| {
            let action = json!({"index": {"_index": index, "_id": n.to_string()}});
            format!("{action}\n{document}\n")
        });
        let sent = common::http().post(format!("{upstream}/_bulk?refresh=true"));
        let sent = sent.header("content-type", "application/x-ndjson").body(lines.collect::<String>()).send();
        let answer: Value = sent.await.unwrap().json().await.unwrap();
        assert_eq!(answer["errors"], false, "{answer}");
        let anew = dir.path().join("anew");
        let options = [&given[..], &["--data-dir", anew.to_str().unwrap(), "--recover-at-start"]].concat();
        let spinney = Spinney::start(&options);
        assert_knows(&spinney, &index, &documents).await;
        assert_eq!(fingerprints_in(&anew), FingerprintVersion::CURRENT);
        drop(spinney);
        server.delete_index(&index).await;
        opened += 1;
    }
    assert!(opened > 0);
}

/// Makes the folder of a release; `tests/upgrade/README.md` says how. The options are there before.
#[tokio::test]
#[ignore = "writes into the repository, once before a release"]
async fn keep() {
    let version = std::env::var("SPINNEY_KEEP_RELEASE").expect("SPINNEY_KEEP_RELEASE names the version");
    let release = releases().join(version);
    let config = release.join("serve.toml");
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let given = ["--upstream", &upstream, "--config", config.to_str().unwrap()];
    let dir = DataDir::new("keep");
    let (data, redis) = (dir.path().join("data"), Redis::start());
    let kept = [["--data-dir", data.to_str().unwrap()], ["--forest-store", &redis.url()]];
    let mut roots: Vec<Vec<Value>> = Vec::new();
    for kept in kept {
        crate::backfill::create_mapped(&server, "kept-1").await;
        let mut spinney = Spinney::start(&[&given[..], &kept].concat());
        crate::backfill::load(&spinney.url, "kept-1", 0..DOCUMENTS).await;
        assert_eq!(spinney.terminate(), Some(0));
        server.refresh("kept-1").await;
        roots.push(server.documents("kept-1").await.into_values().collect());
        server.delete_index("kept-1").await;
    }
    let bare = |documents: &[Value]| -> Vec<Value> {
        documents.iter().map(|document| json!([document["n"], document["cluster_root"]])).collect()
    };
    assert_eq!(bare(&roots[0]), bare(&roots[1]));
    copy(&data, &release.join("data"));
    let mut connection = connect(&redis);
    let mut keys: Vec<Vec<u8>> = connection.keys("*").unwrap();
    keys.sort();
    let mut dumped = String::new();
    for key in keys {
        let value: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
        let _ = writeln!(dumped, "{} {}", hex(&key), hex(&value));
    }
    fs::write(release.join("redis.txt"), dumped).unwrap();
    let lines: String = roots[0].iter().map(|document| format!("{document}\n")).collect();
    fs::write(release.join("documents.ndjson"), lines).unwrap();
}
