//! The forests survive: a stop, kill -9 in the middle of bulks, and a restart with other settings or a damaged
//! directory is told in words.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use reqwest::Client;
use serde_json::{Value, json};

use crate::common::fake::{self, Fake, Reply};
use crate::common::{self, Server, Spinney, Waiting};

/// A folder that goes when the test does.
pub struct DataDir(PathBuf);

impl DataDir {
    pub fn new(label: &str) -> DataDir {
        DataDir(common::scratch(label))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The arguments of a route whose indices no other test writes to: what is indexed there is caught up at a start.
pub fn arguments<'a>(upstream: &'a str, indices: &'a str, dir: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let base = [
        "--upstream",
        upstream,
        "--index",
        indices,
        "--text-field",
        "content",
        "--title-field",
        "title",
        "--data-dir",
        dir.to_str().unwrap(),
    ];
    [&base[..], more].concat()
}

/// Document `n`: every third is a reprint of the one before with another end.
pub fn document(n: usize) -> Value {
    let story = if n % 3 == 2 { n - 1 } else { n };
    let word = |k: usize| format!("w{:x}", (story * 131 + k + 1).wrapping_mul(2_654_435_761) & 0xff_ffff);
    let words: Vec<String> = (0..60).map(word).collect();
    let sentences: Vec<String> = words.chunks(12).map(|words| words.join(" ")).collect();
    let title = format!("Report {} {}", word(70), word(71));
    // Names, not numbers: with another number it would be another report.
    let paper = ["Ash", "Elm", "Fir", "Oak", "Yew", "Lime", "Pine"][n % 7];
    json!({"title": title, "content": format!("{}. Printed by the {paper}.", sentences.join(". ")), "n": n})
}

/// Sends documents `from..to` as one bulk; the numbers of those that the cluster has stored, if an answer came.
pub async fn send(client: &Client, url: &str, index: &str, numbers: &[usize]) -> Option<Vec<usize>> {
    send_as(client, url, index, numbers, document).await
}

/// The same of other documents.
pub async fn send_as(
    client: &Client,
    url: &str,
    index: &str,
    numbers: &[usize],
    document: impl Fn(usize) -> Value,
) -> Option<Vec<usize>> {
    let line = |&n: &usize| {
        let action = json!({"index": {"_id": n.to_string()}});
        format!("{action}\n{}\n", document(n))
    };
    let body: String = numbers.iter().map(line).collect();
    let sent = client
        .post(format!("{url}/{index}/_bulk"))
        .header("content-type", "application/x-ndjson")
        .body(body)
        .send()
        .await;
    let answer: Value = sent.ok()?.json().await.ok()?;
    let items = answer["items"].as_array()?.iter().zip(numbers);
    let stored = items.filter(|(item, _)| item["index"]["status"].as_u64() < Some(300));
    Some(stored.map(|(_, &n)| n).collect())
}

/// The roots that spinney would give to these documents now.
pub async fn foretold(client: &Client, url: &str, index: &str, n: usize) -> String {
    foretold_of(client, url, index, &document(n)).await
}

/// The same of any document.
pub async fn foretold_of(client: &Client, url: &str, index: &str, document: &Value) -> String {
    let answer = check(client, url, index, document).await;
    let decision = &answer["decision"];
    assert_eq!(decision, "refreshed", "{document} is known: {answer}");
    answer["root"].as_str().unwrap().to_owned()
}

/// What spinney would do with a document.
pub async fn check(client: &Client, url: &str, index: &str, document: &Value) -> Value {
    let answer = client.post(format!("{url}/_spinney/{index}/_check")).json(document).send().await.unwrap();
    answer.json().await.unwrap()
}

/// The roots of what is stored, by number.
pub async fn stored_roots(server: &Server, index: &str) -> BTreeMap<usize, String> {
    server.refresh(index).await;
    let documents = server.documents(index).await;
    let roots = documents.into_values().filter_map(|source| {
        let root = source["cluster_root"].as_str()?.to_owned();
        Some((source["n"].as_u64()? as usize, root))
    });
    roots.collect()
}

pub async fn stats(client: &Client, url: &str) -> Value {
    let stats = client.get(format!("{url}/_spinney/_stats")).send().await;
    stats.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn after_a_stop_everything_is_as_it_was() {
    let (upstream, dir) = (common::opensearch(), DataDir::new("stop"));
    let (server, client) = (Server::new(&upstream), common::http());
    for durability in ["batch", "interval", "none"] {
        // What the others have indexed would be caught up.
        let index = common::unique_index("stop");
        let dir = dir.path().join(durability);
        let start = || Spinney::start(&arguments(&upstream, &index, &dir, &["--durability", durability]));
        let mut spinney = start();
        let numbers: Vec<usize> = (0..60).collect();
        let stored = send(&client, &spinney.url, &index, &numbers).await;
        assert_eq!(stored, Some(numbers));
        let before = stats(&client, &spinney.url).await["forests"][&index].clone();
        assert!(before["nodes"].as_u64() > Some(60), "{before}");
        assert_eq!(spinney.terminate(), Some(0));

        let spinney = start();
        let after = stats(&client, &spinney.url).await["forests"][&index].clone();
        for figure in ["nodes", "roots"] {
            assert_eq!(before[figure], after[figure], "{durability}: {before} {after}");
        }
        for (n, root) in stored_roots(&server, &index).await {
            assert_eq!(foretold(&client, &spinney.url, &index, n).await, root);
        }
        server.delete_index(&index).await;
    }
}

/// Writers that send bulk after bulk until they are told to stop, and what the cluster has told them it stored.
async fn write_until_killed(
    url: &str,
    index: &str,
    next: &Arc<AtomicUsize>,
    kill_after: usize,
    kill: impl FnOnce(),
) -> Vec<usize> {
    // From here on the writers are known: their documents are placed before they are sent.
    let first = next.fetch_add(30, SeqCst);
    let numbers: Vec<usize> = (first..first + 30).collect();
    let mut acknowledged = send(&common::http(), url, index, &numbers).await.unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for _ in 0..4 {
        let (url, index, next) = (url.to_owned(), index.to_owned(), next.clone());
        let (answered, over) = (answered.clone(), over.clone());
        writers.push(tokio::spawn(async move {
            let (client, mut acknowledged) = (common::http(), Vec::new());
            while !over.load(SeqCst) {
                let first = next.fetch_add(30, SeqCst);
                let numbers: Vec<usize> = (first..first + 30).collect();
                match send(&client, &url, &index, &numbers).await {
                    Some(stored) => acknowledged.extend(stored),
                    None => break,
                }
                answered.fetch_add(1, SeqCst);
            }
            acknowledged
        }));
    }
    // In the middle of the bulks that come next.
    let waiting = Waiting::until("bulks are answered");
    while answered.load(SeqCst) < kill_after {
        waiting.pause().await;
    }
    kill();
    over.store(true, SeqCst);
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    acknowledged
}

/// `SPINNEY_TEST_KILLS` rounds, 3 without it; `scripts/crash` runs 200.
#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let rounds = std::env::var("SPINNEY_TEST_KILLS").ok();
    let rounds: usize = rounds.map_or(3, |rounds| rounds.parse().unwrap());
    let (upstream, dir) = (common::opensearch(), DataDir::new("kill"));
    let server = Server::new(&upstream);
    let client = common::http();
    let next = Arc::new(AtomicUsize::new(0));
    let (mut lost, mut checked) = (0, 0);
    let mut known: BTreeMap<usize, String> = BTreeMap::new();
    let base = common::unique_index("kill");
    let indices = format!("{base}-*");
    for round in 0..rounds {
        let index = format!("{base}-{round}");
        server.create_index(&index, json!({})).await;
        let mut spinney = Spinney::start(&arguments(&upstream, &indices, dir.path(), &[]));
        let url = spinney.url.clone();
        // From the first bulk, which nobody is known by, to one in full flight.
        let kill_after = round * 7 % 23;
        let acknowledged = write_until_killed(&url, &index, &next, kill_after, || spinney.kill9()).await;

        let spinney = Spinney::start(&arguments(&upstream, &indices, dir.path(), &[]));
        let roots = stored_roots(&server, &index).await;
        for n in acknowledged {
            let stored = &roots[&n];
            checked += 1;
            let now = foretold(&client, &spinney.url, &index, n).await;
            if now != *stored {
                eprintln!("document {n} of round {round} was stored with {stored} and is {now} now");
                lost += 1;
            }
            known.insert(n, stored.clone());
        }
        // What came in earlier lives is there too: a sample.
        let sample = known.iter().step_by(known.len() / 40 + 1);
        for (&n, root) in sample {
            checked += 1;
            lost += usize::from(&foretold(&client, &spinney.url, &index, n).await != root);
        }
        server.delete_index(&index).await;
        if rounds > 3 {
            eprintln!("round {} of {rounds}: {checked} documents checked, {lost} lost", round + 1);
        }
    }
    assert_eq!(lost, 0, "of {checked} documents");
    assert!(checked > 0);
}

#[tokio::test]
async fn what_does_not_fit_is_told_in_words() {
    let (upstream, dir) = (common::opensearch(), DataDir::new("words"));
    let mut first = Spinney::start(&arguments(&upstream, "news-words-*", dir.path(), &[]));
    // One process a directory.
    let second = Spinney::try_start("127.0.0.1:0", &arguments(&upstream, "news-words-*", dir.path(), &[]));
    let log = second.err().unwrap().log;
    assert!(log.contains("is in use by another process"), "{log}");
    let index = common::unique_index("words");
    assert_eq!(send(&common::http(), &first.url, &index, &[1]).await, Some(vec![1]));
    assert_eq!(first.terminate(), Some(0));
    Server::new(&upstream).delete_index(&index).await;

    let other = arguments(&upstream, "news-words-*", dir.path(), &["--method", "longest"]);
    let log = Spinney::try_start("127.0.0.1:0", &other).err().unwrap().log;
    assert!(log.contains("method: stored verified, configured longest"), "{log}");

    let forest = dir.path().join("news-words-%2a");
    let forest = if forest.exists() {
        forest
    } else {
        let mut folders = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        folders.find(|path| path.is_dir()).unwrap()
    };
    let journal = std::fs::read_dir(&forest)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("journal-"))
        .unwrap();
    std::fs::remove_file(journal).unwrap();
    let missing = Spinney::try_start("127.0.0.1:0", &arguments(&upstream, "news-words-*", dir.path(), &[]));
    let log = missing.err().unwrap().log;
    assert!(log.contains("missing"), "{log}");
}

/// What `spinney inspect` says and how it ends.
fn inspect(dir: &Path, more: &[&str]) -> (bool, String, String) {
    let inspected =
        std::process::Command::new(env!("CARGO_BIN_EXE_spinney")).arg("inspect").arg(dir).args(more).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (said, complained) = (text(inspected.stdout), text(inspected.stderr));
    (inspected.status.success(), said, complained)
}

#[tokio::test]
async fn inspect_shows_what_was_stored() {
    let (upstream, dir) = (common::opensearch(), DataDir::new("inspect"));
    let (index, client) = (common::unique_index("inspect"), common::http());
    let mut spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &[]));
    let numbers: Vec<usize> = (0..60).collect();
    assert!(send(&client, &spinney.url, &index, &numbers).await.is_some());
    // What follows from the answer of the cluster may still be written when the client has it.
    let waiting = Waiting::until("all is on the disk");
    let told = loop {
        let told = stats(&client, &spinney.url).await["forests"][&index].clone();
        if told["stored"]["waiting_batches"] == 0 {
            break told;
        }
        waiting.pause().await;
    };
    let stored = &told["stored"];
    assert!(stored["journal_bytes"].as_u64() > Some(1_000), "{told}");
    assert_eq!((&stored["waiting_batches"], &stored["failed"]), (&json!(0), &json!(false)), "{told}");

    let (done, _, complained) = inspect(dir.path(), &[]);
    assert!(!done && complained.contains("in use"), "{complained}");
    assert_eq!(spinney.terminate(), Some(0));

    let (done, said, complained) = inspect(dir.path(), &["--json", "--top", "3"]);
    assert!(done, "{complained}");
    let forest: Value = serde_json::from_str(said.trim()).unwrap();
    for figure in ["nodes", "roots"] {
        assert_eq!(forest[figure], told[figure], "{figure}: {forest} {told}");
    }
    assert_eq!((&forest["forest"], &forest["settings"]["method"]), (&json!(index), &json!("verified")));
    let sizes = forest["tree_sizes"].as_array().unwrap().iter();
    let trees: u64 = sizes.filter_map(|size| size["trees"].as_u64()).sum();
    assert_eq!(Some(trees), forest["roots"].as_u64());
    let largest: Vec<_> = forest["largest"].as_array().unwrap().iter().collect();
    assert_eq!(largest.len(), 3);
    assert!(largest.iter().all(|tree| tree["documents"] == 2), "{forest}");
    let (done, said, _) = inspect(dir.path(), &[]);
    assert!(done && said.starts_with(&format!("forest {index} (")) && said.contains("roots"), "{said}");

    let (done, _, complained) = inspect(&dir.path().join("none"), &[]);
    assert!(!done && complained.contains("no directory"), "{complained}");
}

/// The same with a date of long ago.
fn dated(n: usize) -> Value {
    let mut document = document(n);
    document["published"] = json!(format!("2020-01-{:02}T08:00:00Z", n / 10 + 1));
    document
}

/// How the start is over, as `_stats` has it.
async fn caught_up(client: &Client, url: &str) -> Value {
    let waiting = Waiting::until("all that is indexed is read");
    loop {
        let stats = stats(client, url).await;
        let recovery = stats["recovery"].as_object().unwrap();
        let only = recovery.values().next().cloned().unwrap_or_default();
        if only["state"] == "done" {
            return only;
        }
        waiting.pause().await;
    }
}

/// Under the pattern stands an older index, which another method has stamped a moment ago, or years after the
/// documents' own dates.
#[tokio::test]
async fn an_index_of_another_method_changes_no_root() {
    let upstream = common::opensearch();
    let (server, client) = (Server::new(&upstream), common::http());
    let by_dates = ["--method", "verified", "--clock", "field:published", "--window", "60d"];
    let methods: [(&[&str], &[&str]); 2] =
        [(&["--method", "longest"], &by_dates), (&["--method", "verified"], &["--method", "full"])];
    for (number, (older, newer)) in methods.into_iter().enumerate() {
        let dir = DataDir::new(&format!("methods-{number}"));
        let base = common::unique_index(&format!("methods-{number}"));
        let (indices, old, new) = (format!("{base}-*"), format!("{base}-old"), format!("{base}-new"));
        let numbers: Vec<usize> = (0..200).collect();
        let mut first = Spinney::start(&arguments(&upstream, &indices, &dir.path().join("old"), older));
        // Some of them come again, and some near them.
        let past: Vec<usize> = (100..300).collect();
        let stored = send_as(&client, &first.url, &old, &past, dated).await;
        assert_eq!(stored, Some(past));
        assert_eq!(first.terminate(), Some(0));
        server.refresh(&old).await;

        let at = dir.path().join("new");
        let start = || Spinney::start(&arguments(&upstream, &indices, &at, newer));
        let mut spinney = start();
        spinney.log_line("a warning", |line| line.contains("stamped documents that the forest does not know"));
        for numbers in numbers.chunks(50) {
            let stored = send_as(&client, &spinney.url, &new, numbers, dated).await;
            assert_eq!(stored.as_deref(), Some(numbers));
        }
        let before = stored_roots(&server, &new).await;
        assert_eq!(before.len(), numbers.len());
        for kill in [true, false] {
            match kill {
                true => spinney.kill9(),
                false => assert_eq!(spinney.terminate(), Some(0)),
            }
            spinney = start();
            let found = caught_up(&client, &spinney.url).await;
            assert_eq!(found["caught_up"], 0, "{newer:?} {found}");
            // By arrival only what came in the last minute is read. A text that came again is known, and so may be one
            // near it.
            if newer == by_dates {
                assert!(matches!(found["foreign"].as_u64(), Some(99..=100)), "{found}");
                spinney.log_line("what is left out", |line| {
                    line.contains("documents of the index are left out") && line.contains("spinney recover")
                });
            }
            for n in numbers.iter().step_by(5) {
                let root = foretold_of(&client, &spinney.url, &new, &dated(*n)).await;
                assert_eq!(root, before[n], "{n}");
            }
            let again = send_as(&client, &spinney.url, &new, &numbers, dated).await;
            assert_eq!(again.as_deref(), Some(&*numbers));
            assert_eq!(stored_roots(&server, &new).await, before, "{newer:?}");
        }
        drop(spinney);
        for index in [&old, &new] {
            server.delete_index(index).await;
        }
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// An index whose searches are refused is named, and read when they are not any more; the others are caught up with.
#[tokio::test]
async fn an_index_that_cannot_be_read_keeps_no_other_from_being_caught_up_with() {
    let (upstream, dir) = (common::opensearch(), DataDir::new("unread"));
    let (server, client) = (Server::new(&upstream), common::http());
    let base = common::unique_index("unread");
    let (indices, sound, unread) = (format!("{base}-*"), format!("{base}-sound"), format!("{base}-blocked"));
    let (at, older) = (dir.path().join("forest"), dir.path().join("older"));
    let start = || Spinney::start(&arguments(&upstream, &indices, &at, &[]));
    let write = async |url: &str, index: &str, numbers: std::ops::Range<usize>| {
        let numbers: Vec<usize> = numbers.collect();
        let stored = send(&client, url, index, &numbers).await;
        assert_eq!(stored, Some(numbers));
    };
    let mut spinney = start();
    write(&spinney.url, &sound, 0..30).await;
    assert_eq!(spinney.terminate(), Some(0));
    copy(&at, &older);
    let mut spinney = start();
    write(&spinney.url, &sound, 30..60).await;
    write(&spinney.url, &unread, 60..90).await;
    assert_eq!(spinney.terminate(), Some(0));
    let mut roots = stored_roots(&server, &sound).await;
    roots.append(&mut stored_roots(&server, &unread).await);
    assert_eq!(roots.len(), 90);

    // The disk is lost and an older one put in its place, and one index may not be read.
    std::fs::remove_dir_all(&at).unwrap();
    copy(&older, &at);
    let settings = format!("/{unread}/_settings");
    let block = async |value: Value| {
        let body = json!({"index.blocks.read": value});
        let put = server.request(reqwest::Method::PUT, &settings, Some(body));
        assert_eq!(put.await.0, 200);
    };
    block(json!(true)).await;

    let spinney = start();
    let said = spinney.log_line("the index", |line| line.contains("an index cannot be read"));
    assert!(said.contains(&unread), "{said}");
    for n in (0..60).step_by(7) {
        assert_eq!(foretold(&client, &spinney.url, &sound, n).await, roots[&n]);
    }
    let stats = stats(&client, &spinney.url).await;
    let of_start = &stats["recovery"][&indices];
    assert_eq!(of_start["state"], "incomplete", "{of_start}");
    let why = of_start["unreadable"][&unread].as_str().unwrap();
    assert!(why.contains("403"), "{why}");

    block(Value::Null).await;
    let found = caught_up(&client, &spinney.url).await;
    assert!(found["unreadable"].is_null(), "{found}");
    for n in (60..90).step_by(7) {
        assert_eq!(foretold(&client, &spinney.url, &unread, n).await, roots[&n]);
    }
    drop(spinney);
    for index in [&sound, &unread] {
        server.delete_index(index).await;
    }
}

/// A bulk may be on its way for as long as its answer is waited for: what came so long before the last change that is
/// stored is caught up with, and nothing older is read.
#[tokio::test]
async fn what_was_on_its_way_for_minutes_is_caught_up_with() {
    let (upstream, dir) = (common::opensearch(), DataDir::new("on-its-way"));
    let (server, client) = (Server::new(&upstream), common::http());
    let index = common::unique_index("on-its-way");
    let (at, older) = (dir.path().join("forest"), dir.path().join("older"));
    let start = |more: &[&str]| Spinney::start(&arguments(&upstream, &index, &at, more));
    let write = async |spinney: &mut Spinney, numbers: std::ops::Range<usize>| {
        let numbers: Vec<usize> = numbers.collect();
        let stored = send(&client, &spinney.url, &index, &numbers).await;
        assert_eq!(stored, Some(numbers));
        assert_eq!(spinney.terminate(), Some(0));
    };
    write(&mut start(&[]), 0..30).await;
    copy(&at, &older);
    write(&mut start(&[]), 30..60).await;
    // As if half of them had arrived long before the last change that is in the older copy.
    server.refresh(&index).await;
    let arrived = epoch_millis();
    for n in (30..60).step_by(2) {
        let minutes = if n % 4 == 2 { 9 } else { 12 };
        let earlier = json!({"doc": {"cluster_arrival": arrived - minutes * 60_000}});
        let update = format!("/{index}/_update/{n}");
        assert_eq!(server.request(reqwest::Method::POST, &update, Some(earlier)).await.0, 200);
    }
    server.refresh(&index).await;
    for (timeout, expected) in [("1m", 15), ("10m", 15 + 8), ("none", 30)] {
        std::fs::remove_dir_all(&at).unwrap();
        copy(&older, &at);
        let spinney = start(&["--upstream-timeout", timeout]);
        let found = caught_up(&client, &spinney.url).await;
        assert_eq!(found["caught_up"], expected, "{timeout}: {found}");
    }
    server.delete_index(&index).await;
}

/// A window after the last document the clock of this machine shows what one that is wrong would show: the cluster's
/// decides, and nothing expires before it has.
#[tokio::test]
async fn a_clock_that_would_empty_the_forest_is_believed_with_the_clusters_alone() {
    let (upstream, dir) = (common::opensearch(), DataDir::new("clock"));
    let (server, client) = (Server::new(&upstream), common::http());
    let index = common::unique_index("clock");
    let nodes = async |spinney: &Spinney| stats(&client, &spinney.url).await["forests"][&index]["nodes"].as_u64();
    // Time goes on from the last arrival: the forest must not have expired by that before the cluster is asked again.
    let start = |upstream: &str| Spinney::start(&arguments(upstream, &index, dir.path(), &["--window", "20s"]));
    let mut spinney = start(&upstream);
    let numbers: Vec<usize> = (0..30).collect();
    assert_eq!(send(&client, &spinney.url, &index, &numbers).await, Some(numbers));
    let before = nodes(&spinney).await.unwrap();
    assert_eq!(spinney.terminate(), Some(0));
    let arrived = epoch_millis();
    let waiting = Waiting::until("the window is over");
    while epoch_millis() <= arrived + 20_000 {
        waiting.pause().await;
    }

    let (epoch, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (told, counted) = (epoch.clone(), asked.clone());
    let cluster = Fake::in_any_health(move |request| {
        let answer = match request.target().split_once('?') {
            Some(("/_cat/health", _)) => {
                counted.fetch_add(1, SeqCst);
                format!("[{{\"epoch\":\"{}\",\"status\":\"green\"}}]", told.load(SeqCst))
            }
            _ => fake::HEALTH.to_owned(),
        };
        Reply::Bytes(fake::json(200, "", &answer))
    });
    let spinney = start(&cluster.url);
    spinney.log_line("an error", |line| line.contains("is not believed") && line.contains("another time"));
    let waiting = Waiting::until("the cluster is asked again");
    while asked.load(SeqCst) < 2 {
        waiting.pause().await;
    }
    assert_eq!(nodes(&spinney).await, Some(before));
    epoch.store(epoch_millis() as usize / 1_000, SeqCst);
    spinney.log_line("that it is believed", |line| line.contains("agrees with the cluster's"));
    let waiting = Waiting::until("all has expired");
    while nodes(&spinney).await != Some(0) {
        waiting.pause().await;
    }
    server.delete_index(&index).await;
}

#[expect(clippy::disallowed_methods, reason = "arrivals are told by it")]
pub fn epoch_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_millis() as i64
}
