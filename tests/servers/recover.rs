//! The forests come back from the index alone: by the command, at a start, and what a start has missed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::flaky::{Fault, Flaky};
use crate::common::wire::Request;
use crate::common::{self, SearchServer, Server, Spinney, on_each_server};
use crate::restart::{DataDir, arguments, document, foretold, send, stats, stored_roots};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinney"));
    command.arg("recover").args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SPINNEY_") {
            command.env_remove(name);
        }
    }
    command
}

/// Exit code, and all that is said.
fn recover(args: &[&str]) -> (Option<i32>, String) {
    let output = command(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The folder of the only forest.
fn folder(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.is_dir())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            std::fs::copy(&entry, &target).unwrap();
        }
    }
}

/// A document that is nearly this one, and was never sent.
fn reprint(n: usize) -> Value {
    let mut document = document(n);
    let content = document["content"].as_str().unwrap();
    let (text, _) = content.split_once(". Printed by").unwrap();
    document["content"] = json!(format!("{text}. Seen again in the Maple."));
    document
}

async fn check(client: &reqwest::Client, url: &str, index: &str, document: &Value) -> Value {
    let path = format!("{url}/_spinney/{index}/_check");
    let answer = client.post(path).json(document).send().await.unwrap();
    answer.json().await.unwrap()
}

/// What a spinney answers for documents that are nearly those of an index: their roots, by number.
type Near = BTreeMap<usize, String>;

async fn near(spinney: &Spinney, index: &str, numbers: impl Iterator<Item = usize>) -> Near {
    let (client, mut near) = (common::http(), Near::new());
    for n in numbers {
        let answer = check(&client, &spinney.url, index, &reprint(n)).await;
        near.insert(n, answer["root"].as_str().unwrap().to_owned());
    }
    near
}

/// Every stored document is known with its root, and what is nearly the same gets the root that it would have got
/// before.
async fn assert_as_before(server: &Server, spinney: &Spinney, index: &str, before: &Near) {
    assert_nearly_as_before(server, spinney, index, before, 0).await;
}

/// The same, but that so many of what is nearly the same may get another root: where a part of a forest did not read,
/// what its founders taught (how rare a word is, what house text is) is taught in another order.
async fn assert_nearly_as_before(server: &Server, spinney: &Spinney, index: &str, before: &Near, may_differ: usize) {
    let client = common::http();
    let roots = stored_roots(server, index).await;
    assert_eq!(roots.len(), before.len());
    let near = near(spinney, index, roots.keys().copied()).await;
    assert!(near.keys().eq(before.keys()));
    let others: Vec<_> = near.iter().filter(|(n, root)| before.get(n) != Some(root)).collect();
    assert!(others.len() <= may_differ, "{others:?}");
    for (&n, root) in &roots {
        assert_eq!(&foretold(&client, &spinney.url, index, n).await, root, "{n}");
    }
}

/// Sends so many documents through a spinney whose data directory is then lost.
async fn write(upstream: &str, index: &str, documents: usize, more: &[&str]) -> Near {
    let lost = DataDir::new("lost");
    let spinney = Spinney::start(&arguments(upstream, index, lost.path(), more));
    let numbers: Vec<usize> = (0..documents).collect();
    for numbers in numbers.chunks(25) {
        let stored = send(&common::http(), &spinney.url, index, numbers).await;
        assert_eq!(stored.as_deref(), Some(numbers));
    }
    near(&spinney, index, 0..documents).await
}

async fn recovers(upstream: &str, form: &str) {
    let (server, dir) = (Server::new(upstream), DataDir::new("recover"));
    let index = common::unique_index("recover");
    // Several shards: documents of one moment come in any order.
    let settings = json!({"settings": {"number_of_shards": 3}});
    server.create_index(&index, settings).await;
    let before = write(upstream, &index, 120, &["--stamp", form]).await;
    // Without usable text, and without a stamp.
    let spinney_of_none = DataDir::new("none");
    let spinney = Spinney::start(&arguments(upstream, &index, spinney_of_none.path(), &[]));
    let client = common::http();
    let empty = client.put(format!("{}/{index}/_doc/empty", spinney.url));
    empty.json(&json!({"content": "..."})).send().await.unwrap();
    drop(spinney);
    let foreign = client.put(format!("{upstream}/{index}/_doc/foreign"));
    foreign.json(&document(0)).send().await.unwrap();

    let args = arguments(upstream, &index, dir.path(), &[]);
    let (code, said) = recover(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(": 121 stamped documents"), "{said}");
    assert!(!dir.path().exists());

    let (code, said) = recover(&args);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains(
            "121 documents read, 120 placed, 0 of them in another tree than their stamp says, 1 without text"
        ),
        "{said}"
    );
    let (code, said) = recover(&args);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("already, and nothing was changed"), "{said}");

    let spinney = Spinney::start(&args);
    assert_as_before(&server, &spinney, &index, &before).await;
    server.delete_index(&index).await;
}

#[tokio::test]
async fn the_forest_is_what_the_index_says() {
    recovers(&common::opensearch(), "lean").await;
    recovers(&common::opensearch(), "full").await;
}

#[tokio::test]
async fn the_forest_is_what_the_index_says_on_elasticsearch() {
    recovers(&common::elasticsearch(), "lean").await;
    recovers(&common::elasticsearch(), "full").await;
}

#[tokio::test]
async fn every_clock_and_method() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    for more in [
        &["--clock", "none"][..],
        &["--clock", "field:published"],
        &["--window", "none", "--method", "longest"],
        &["--method", "short"],
        &["--method", "staged"],
        &["--max-tree", "2"],
    ] {
        let (dir, index) = (DataDir::new("clock"), common::unique_index("clock"));
        write(&upstream, &index, 60, more).await;
        let args = arguments(&upstream, &index, dir.path(), more);
        let (code, said) = recover(&args);
        assert_eq!(code, Some(0), "{more:?}: {said}");
        assert!(said.contains("60 placed, 0 of them in another tree"), "{more:?}: {said}");
        let spinney = Spinney::start(&args);
        let client = common::http();
        for (n, root) in stored_roots(&server, &index).await {
            let known = check(&client, &spinney.url, &index, &document(n)).await;
            assert_eq!(known["root"], json!(root), "{more:?}, {n}: {known}");
        }
        server.delete_index(&index).await;
    }
}

#[tokio::test]
async fn what_cannot_be_recovered_is_told_in_words() {
    let upstream = common::opensearch();
    let (server, dir) = (Server::new(&upstream), DataDir::new("words"));
    let index = common::unique_index("words");
    let args = arguments(&upstream, &index, dir.path(), &[]);
    let (code, said) = recover(&args);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("there is no open index {index} at http")), "{said}");
    let nowhere = arguments("http://127.0.0.1:1", &index, dir.path(), &[]);
    let (code, said) = recover(&nowhere);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot reach http://127.0.0.1:1"), "{said}");
    let (code, said) = recover(&["--upstream", &upstream, "--index", &index]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--data-dir"), "{said}");

    // An index without a stamp.
    server.create_index(&index, json!({})).await;
    let (code, said) = recover(&args);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("0 stamped documents"), "{said}");
    assert!(!dir.path().exists());

    // Other settings make another forest, which does not pass for the one that is wanted.
    write(&upstream, &index, 30, &[]).await;
    let other = arguments(&upstream, &index, dir.path(), &["--method", "longest"]);
    assert_eq!(recover(&other).0, Some(0));
    let refused = Spinney::try_start("127.0.0.1:0", &args).err().unwrap();
    assert!(refused.log.contains("method: stored longest, configured verified"), "{}", refused.log);
    server.delete_index(&index).await;
}

/// Ends it as a crash would, if it is not dropped by then.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_recovery_that_was_killed_is_begun_again() {
    let upstream = common::opensearch();
    let (server, dir) = (Server::new(&upstream), DataDir::new("killed"));
    let index = common::unique_index("killed");
    let before = write(&upstream, &index, 90, &[]).await;
    let args = arguments(&upstream, &index, dir.path(), &[]);
    // It would take an hour and a half.
    let slow = [&args[..], &["--rate", "1"]].concat();
    let mut child = Killed(command(&slow).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let said = child.0.stderr.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
    assert!(line.contains("90 stamped documents"), "{line}");
    drop(child);
    assert!(!dir.path().exists() || folder(dir.path()).is_none());
    // It was killed while it wrote.
    let (code, said) = recover(&args);
    assert_eq!(code, Some(0), "{said}");
    let whole = folder(dir.path()).unwrap();
    let aside = dir.path().join("RECOVERING");
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(&whole, aside.join(whole.file_name().unwrap())).unwrap();
    let (code, said) = recover(&args);
    assert_eq!(code, Some(0), "{said}");
    assert!(!aside.exists());
    let spinney = Spinney::start(&args);
    assert_as_before(&server, &spinney, &index, &before).await;
    server.delete_index(&index).await;
}

#[tokio::test]
async fn a_start_without_a_stored_forest_says_so_or_recovers() {
    let upstream = common::opensearch();
    let (server, dir) = (Server::new(&upstream), DataDir::new("start"));
    let index = common::unique_index("start");
    let before = write(&upstream, &index, 60, &[]).await;
    server.refresh(&index).await;
    let args = arguments(&upstream, &index, dir.path(), &[]);
    let mut spinney = Spinney::start(&args);
    let warned = spinney.log_line("a warning", |line| line.contains("spinney recover --upstream"));
    assert!(warned.contains("documents=60"), "{warned}");
    let shown = stats(&common::http(), &spinney.url).await["recovery"][&index].clone();
    assert_eq!((&shown["state"], &shown["unknown_in_index"]), (&json!("empty"), &json!(60)));
    assert_eq!(spinney.terminate(), Some(0));

    // Nothing was written into what the start has made.
    let at_start = [&args[..], &["--recover-at-start"]].concat();
    let mut spinney = Spinney::start(&at_start);
    assert_as_before(&server, &spinney, &index, &before).await;
    assert_eq!(spinney.terminate(), Some(0));
    // And once more with what is stored now.
    let spinney = Spinney::start(&at_start);
    assert_as_before(&server, &spinney, &index, &before).await;
    server.delete_index(&index).await;
}

/// Adds a route to a running spinney that was started with this file and an admin listener.
fn add_route(spinney: &Spinney, file: &Path, index: &str) {
    let route = format!("[[route]]\nindex = ['{index}']\ntext_field = ['content']\ntitle_field = 'title'\n");
    std::fs::write(file, route).unwrap();
    let answer = Request::new("POST", "/_spinney/_reload").to(&spinney.admin_url());
    assert_eq!(answer.text(), r#"{"changed":["routes"]}"#);
}

async fn catches_up(upstream: &str) {
    let (server, dir) = (Server::new(upstream), DataDir::new("late"));
    let index = common::unique_index("late");
    let (client, kept, of_added) = (common::http(), DataDir::new("kept"), DataDir::new("kept-of-added"));
    let args = arguments(upstream, &index, dir.path(), &["--durability", "none"]);
    let mut spinney = Spinney::start(&args);
    let early: Vec<usize> = (0..30).collect();
    assert!(send(&client, &spinney.url, &index, &early).await.is_some());
    assert_eq!(spinney.terminate(), Some(0));
    copy(dir.path(), kept.path());
    copy(dir.path(), of_added.path());
    let mut spinney = Spinney::start(&args);
    let late: Vec<usize> = (30..90).collect();
    assert_eq!(send(&client, &spinney.url, &index, &late).await, Some(late));
    let before = near(&spinney, &index, 0..90).await;
    spinney.kill9();

    // As if nothing of the second life had been written.
    let args = arguments(upstream, &index, kept.path(), &[]);
    let mut spinney = Spinney::start(&args);
    let shown = stats(&client, &spinney.url).await["recovery"][&index].clone();
    assert_eq!(shown["state"], "done", "{shown}");
    assert_eq!(
        (&shown["caught_up"], &shown["known"], &shown["elsewhere"]),
        (&json!(60), &json!(30), &json!(0)),
        "{shown}"
    );
    assert_as_before(&server, &spinney, &index, &before).await;
    assert_eq!(spinney.terminate(), Some(0));
    // That is stored like all else.
    let spinney = Spinney::start(&args);
    let shown = stats(&client, &spinney.url).await["recovery"][&index].clone();
    assert_eq!((&shown["caught_up"], &shown["known"]), (&json!(0), &json!(90)), "{shown}");

    // A route that is added stamps nothing before that, either.
    let (file, other) = (common::scratch("late"), format!("{index}-other"));
    std::fs::write(&file, "").unwrap();
    let more = ["--config", file.to_str().unwrap(), "--admin-listen", "127.0.0.1:0"];
    let spinney = Spinney::start(&arguments(upstream, &other, of_added.path(), &more));
    add_route(&spinney, &file, &index);
    let shown = stats(&client, &spinney.url).await["recovery"][&index].clone();
    assert_eq!((&shown["state"], &shown["caught_up"]), (&json!("done"), &json!(60)), "{shown}");
    assert_as_before(&server, &spinney, &index, &before).await;
    std::fs::remove_file(file).unwrap();
    server.delete_index(&index).await;
}

on_each_server!(what_was_indexed_and_not_stored_is_caught_up);

async fn what_was_indexed_and_not_stored_is_caught_up(search_server: SearchServer) {
    catches_up(&search_server.url()).await;
}

/// The answer to a bulk is lost, and nobody sends it again: what is stored of it is known all the same, also if a route
/// is added before that was found out.
async fn looks_for_what_nobody_told_of(upstream: &str, more: &[&str]) {
    let (server, dir) = (Server::new(upstream), DataDir::new("unanswered"));
    let index = common::unique_index("unanswered");
    let (client, flaky) = (common::http(), Flaky::in_front_of(upstream, 2, &[Fault::AnswerLost]));
    let file = common::scratch("unanswered");
    std::fs::write(&file, "").unwrap();
    let reloaded = ["--config", file.to_str().unwrap(), "--admin-listen", "127.0.0.1:0"];
    let spinney = Spinney::start(&arguments(&flaky.url, &index, dir.path(), &[&reloaded, more].concat()));
    // From then on the writer is known.
    let first: Vec<usize> = (0..10).collect();
    assert_eq!(send(&client, &spinney.url, &index, &first).await, Some(first));
    let second: Vec<usize> = (10..40).collect();
    assert_eq!(send(&client, &spinney.url, &index, &second).await, None);
    add_route(&spinney, &file, &format!("{index}-other"));
    std::fs::remove_file(file).unwrap();
    let told = spinney.log_line("that documents are stored", |line| line.contains("of which the cluster had not told"));
    assert!(told.contains("caught_up=30"), "{told}");
    let shown = stats(&client, &spinney.url).await["recovery"][&index]["indeterminate"].clone();
    assert_eq!((&shown["caught_up"], &shown["elsewhere"]), (&json!(30), &json!(0)), "{shown}");
    for (n, root) in stored_roots(&server, &index).await {
        assert_eq!(foretold(&client, &spinney.url, &index, n).await, root, "{n}");
    }
    server.delete_index(&index).await;
}

#[tokio::test]
async fn what_is_stored_without_an_answer_is_looked_for() {
    looks_for_what_nobody_told_of(&common::opensearch(), &[]).await;
}

#[tokio::test]
async fn what_is_stored_without_an_answer_is_looked_for_on_elasticsearch() {
    let more = ["--window", "30d"];
    looks_for_what_nobody_told_of(&common::elasticsearch(), &more).await;
}

#[tokio::test]
async fn a_start_does_not_wait_for_a_cluster_that_is_away() {
    let upstream = common::opensearch();
    let (server, dir) = (Server::new(&upstream), DataDir::new("away"));
    let index = common::unique_index("away");
    let mut spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &[]));
    let numbers: Vec<usize> = (0..10).collect();
    assert!(send(&common::http(), &spinney.url, &index, &numbers).await.is_some());
    assert_eq!(spinney.terminate(), Some(0));
    let away = arguments("http://127.0.0.1:1", &index, dir.path(), &[]);
    let spinney = Spinney::start(&away);
    spinney.log_line("a warning", |line| line.contains("as soon as the cluster lets it be read"));
    server.delete_index(&index).await;
}

/// In the middle of a journal bytes are damaged: a start says so, and the command, or a start that may, goes on with
/// the rest and with the index.
#[tokio::test]
async fn a_part_that_does_not_read_costs_no_other() {
    let upstream = common::opensearch();
    let (server, dir) = (Server::new(&upstream), DataDir::new("part"));
    let other = DataDir::new("part-at-start");
    let index = common::unique_index("part");
    let args = arguments(&upstream, &index, dir.path(), &[]);
    let mut spinney = Spinney::start(&args);
    let numbers: Vec<usize> = (0..100).collect();
    for numbers in numbers.chunks(10) {
        let stored = send(&common::http(), &spinney.url, &index, numbers).await;
        assert_eq!(stored.as_deref(), Some(numbers));
    }
    let before = near(&spinney, &index, 0..100).await;
    assert_eq!(spinney.terminate(), Some(0));
    server.refresh(&index).await;

    let journal = folder(dir.path()).unwrap().join("journal-0000000000000001");
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xA5);
    std::fs::write(&journal, bytes).unwrap();
    copy(dir.path(), other.path());
    let refused = Spinney::try_start("127.0.0.1:0", &args).err().unwrap().log;
    for part in ["journal-0000000000000001", "at byte", "--on-unreadable recover"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let (code, said) = recover(&args);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a part did not read; 100 documents read"), "{said}");
    let mut spinney = Spinney::start(&args);
    assert_nearly_as_before(&server, &spinney, &index, &before, 3).await;
    assert_eq!(spinney.terminate(), Some(0));

    let may = ["--on-unreadable", "recover"];
    let at_start = arguments(&upstream, &index, other.path(), &may);
    let mut spinney = Spinney::start(&at_start);
    let known =
        spinney.log_line("what the index has", |line| line.contains("of which a part did not read, is known now"));
    assert!(known.contains("read=100"), "{known}");
    assert_nearly_as_before(&server, &spinney, &index, &before, 3).await;
    assert_eq!(spinney.terminate(), Some(0));
    server.delete_index(&index).await;
}
