//! `spinney stamp` as its users run it: the sample's recorded groups, determinism, bulk bodies cut anywhere, counts and
//! exit codes, wrong input; and how the errors of every command read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

pub fn stamp(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spinney"))
        .arg("stamp")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A process that has ended early closes the pipe; its exit code says why.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

pub fn stamped(args: &[&str], input: &[u8]) -> Vec<u8> {
    let output = stamp(args, input);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What a process wrote to its standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn sample(file: &str) -> String {
    std::fs::read_to_string(format!("{}/scripts/sample/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

pub fn values(output: &[u8]) -> Vec<Value> {
    output
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn each_method_finds_the_groups_recorded_for_it() {
    let news = sample("news.ndjson");
    for (method, file) in
        [("verified", "verified"), ("longest", "longest"), ("full", "full"), ("sentences:3", "sentences-3")]
    {
        let output = stamped(&["--method", method, "--id-field", "id", "--title-field", "title"], news.as_bytes());
        let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for document in values(&output) {
            let root = document["cluster_root"].as_str().unwrap().to_owned();
            groups.entry(root).or_default().insert(document["id"].as_str().unwrap().to_owned());
        }
        let found: BTreeSet<BTreeSet<String>> = groups.into_values().filter(|set| set.len() > 1).collect();
        let recorded: BTreeSet<BTreeSet<String>> = sample(&format!("recorded/{file}.txt"))
            .lines()
            .map(|line| line.split(' ').map(str::to_owned).collect())
            .collect();
        assert_eq!(found, recorded, "{method}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_with_any_number_of_threads() {
    let news = sample("news.ndjson");
    let once = stamped(&["--threads", "1"], news.as_bytes());
    assert_eq!(once, stamped(&["--threads", "1"], news.as_bytes()));
    assert_eq!(once, stamped(&["--threads", "3"], news.as_bytes()));
}

#[test]
fn everything_but_the_stamp_stays_as_it_was() {
    let news = sample("news.ndjson");
    let output = String::from_utf8(stamped(&[], news.as_bytes())).unwrap();
    for (before, after) in news.lines().zip(output.lines()) {
        let end = before.strip_prefix('{').unwrap();
        let stamp = after.strip_suffix(end).expect("the original bytes follow the stamp");
        assert!(stamp.starts_with("{\"cluster_root\":\"") && stamp.ends_with(','));
    }
    assert_eq!(news.lines().count(), output.lines().count());
}

/// The input is processed in pieces of about 1 MiB: none of their borders may show.
#[test]
fn bulk_bodies_longer_than_a_piece() {
    let mut body = String::new();
    let mut documents = 0;
    while body.len() < 20 << 20 {
        let words: Vec<String> = (0..2000).map(|k| format!("w{}", (documents * 31 + k * 7) % 9973)).collect();
        body.push_str(&format!(
            "{}\n{}\n",
            json!({"index": {"_id": documents.to_string()}}),
            json!({"content": words.join(" "), "n": documents})
        ));
        body.push_str(&format!("{}\n", json!({"delete": {"_id": format!("old-{documents}")}})));
        documents += 1;
    }
    let lines = values(&stamped(&["--bulk"], body.as_bytes()));
    assert_eq!(lines.len(), documents * 3);
    for (at, item) in lines.chunks(3).enumerate() {
        assert_eq!(item[1]["n"], at);
        assert!(item[1]["cluster_root"].is_string());
        assert_eq!(item[2]["delete"]["_id"], format!("old-{at}"));
    }
}

#[test]
fn an_old_stamp_is_replaced_and_the_prefix_can_be_chosen() {
    let line = json!({"cluster_root": "x", "content": "a few words that say something"}).to_string();
    let again = values(&stamped(&[], line.as_bytes())).remove(0);
    assert_ne!(again["cluster_root"], "x");
    let mine = values(&stamped(&["--prefix", "twin_"], line.as_bytes())).remove(0);
    assert_eq!(mine["cluster_root"], "x");
    assert_eq!(mine["twin_root"], again["cluster_root"]);
}

#[test]
fn the_documents_own_dates_replay_an_archive() {
    let text = "the ferry company has cancelled all crossings because of the storm over the strait";
    let line = |day: u32| {
        format!(
            "{}\n",
            json!({"content": format!("{text} {}", "x".repeat(day as usize % 2)), "at": format!("2020-01-{day:02}")})
        )
    };
    let body: String = [1, 2, 9].into_iter().map(line).collect();
    let args = ["--method", "longest", "--clock", "field:at", "--window", "3d", "--stats"];
    let output = stamp(&args, body.as_bytes());
    let stats = said(&output);
    let stats: Value = serde_json::from_str(stats.lines().last().unwrap()).unwrap();
    // After nine days nothing of the first two is left.
    assert_eq!(stats["documents"], 3);
    assert_eq!(values(&output.stdout)[2]["cluster_arrival"], "2020-01-09T00:00:00.000Z");
    assert_eq!(stats["nodes"], 1);
}

#[test]
fn empty_and_wrong_input() {
    assert_eq!(stamped(&[], b""), b"");
    assert_eq!(stamped(&["--bulk"], b""), b"");
    assert_eq!(stamped(&[], b"not json\n\n[1]\n"), b"not json\n\n[1]\n");
    let wrong = stamp(&["--bulk"], b"{\"index\":[]}\n{}\n");
    assert_eq!(wrong.status.code(), Some(1));
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(error.starts_with("spinney: ") && error.contains("line"), "{error}");
    // 2: the value is none of this option; 1: it does not go with the others, or is out of range.
    for (args, code) in [
        (&["--method", "magic"], 2),
        (&["--k", "99"], 1),
        (&["--window", "soon"], 2),
        (&["--clock", "sundial"], 2),
        (&["--title-field", ""], 2),
    ] {
        let wrong = stamp(args, b"{}\n");
        assert_eq!(wrong.status.code(), Some(code), "{args:?}");
        let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(error.contains(args[0].trim_start_matches('-')), "{error}");
    }
    assert_eq!(stamp(&["--frobnicate"], b"").status.code(), Some(2));
}

#[test]
fn the_counts_are_the_last_line() {
    let body = "{\"content\":\"a few words\"}\n{\"content\":\"\"}\nnot json\n\n{\"other\":1}\n";
    let output = stamp(&[], body.as_bytes());
    let counts = "spinney: 3 documents stamped, 2 of them without text; 1 passed on as it came";
    assert_eq!(said(&output), format!("{counts}\n"));
    assert_eq!(output.status.code(), Some(0));
    // The same for programs, as JSON on a line of its own after it.
    let said = said(&stamp(&["--stats"], body.as_bytes()));
    let (first, stats) = said.trim_end().split_once('\n').unwrap();
    assert_eq!(first, counts);
    let stats: Value = serde_json::from_str(stats).unwrap();
    assert_eq!([&stats["documents"], &stats["stamped"], &stats["unstamped"]], [4, 3, 1]);
    // An update of something other than the text gets no stamp; a delete is not a document.
    let bulk = [
        json!({"index": {}}),
        json!({"content": "a few words"}),
        json!({"update": {"_id": "1"}}),
        json!({"doc": {"views": 7}}),
        json!({"delete": {"_id": "2"}}),
    ];
    let bulk: String = bulk.iter().map(|line| format!("{line}\n")).collect();
    let output = stamp(&["--bulk"], bulk.as_bytes());
    assert!(self::said(&output).ends_with("1 document stamped, 0 of them without text; 1 passed on as it came\n"));
}

#[test]
fn a_text_field_that_no_document_has_is_named() {
    let body = b"{\"content\":\"a few words\"}\n{\"lead\":\"x\"}\n";
    let warning = |field: &str, option: &str| {
        format!("spinney: warning: no document has the field '{field}': name the field that holds {option}\n")
    };
    let text = "the text with --text-field";
    let phash = warning("phash", "the fingerprint with --method field:NAME");
    for (args, warnings) in [
        (&["--text-field", "content,lead"][..], String::new()),
        (&["--text-field", "contents"], warning("contents", text)),
        (&["--text-field", "lead,a.b,c"], warning("a.b", text) + &warning("c", text)),
        (&["--method", "field:phash"], phash),
    ] {
        let output = stamp(args, body);
        let said = said(&output);
        let counts = said.strip_prefix(&warnings).expect(&said);
        assert!(counts.starts_with("spinney: 2 documents stamped, "), "{said}");
        assert_eq!(output.status.code(), Some(0));
        let strict = stamp(&[args, &["--strict"]].concat(), body);
        let code = if warnings.is_empty() { 0 } else { 3 };
        assert_eq!(strict.status.code(), Some(code), "{args:?}");
        assert_eq!(strict.stdout, output.stdout);
    }
    assert_eq!(said(&stamp(&[], b"\n")).lines().count(), 1);
    // What could be meant is said as well.
    let body = format!("{{\"body\":\"{}\",\"title\":\"a\"}}\n", "a text of some words ".repeat(9));
    let said = said(&stamp(&[], body.as_bytes()));
    assert!(said.contains("--text-field (one of these is meant, perhaps: body)\n"), "{said}");
}

#[test]
fn strict_refuses_documents_that_are_passed_on_unstamped() {
    let good = "{\"content\":\"a few words\"}\n";
    let code = |body: &str| stamp(&["--strict"], body.as_bytes()).status.code();
    assert_eq!(code(good), Some(0));
    assert_eq!(code(&format!("{good}not json\n")), Some(3));
    assert_eq!(code(""), Some(0));
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spinney"))
        .args(["stamp", "--strict"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    // More pieces than fit between reading and writing: the rest is not read, and may hold the text.
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all("{\"other\":\"x\"}\n".repeat(1 << 20).as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = said(&output);
    assert!(said.starts_with("spinney: ") && !said.contains("warning"), "{said}");
}

fn assert_each_once(said: &str, causes: &[&str]) {
    for cause in causes {
        assert_eq!(said.matches(cause).count(), 1, "{cause}: {said}");
    }
}

#[test]
fn an_error_tells_each_cause_once() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken = file("broken.toml", "listen 1");
    let missing = "No such file or directory (os error 2)";
    for (args, causes) in [
        (&["serve", "--config", "nowhere.toml"][..], &["the configuration file nowhere.toml", missing][..]),
        (&["serve", "--config", &broken], &["broken.toml is not valid", "TOML parse error at line 1, column 8"]),
        (&["serve", "--listen", "127.0.0.1:0", "--upstream-ca", "nowhere.pem"], &["nowhere.pem", missing]),
        (&["setup", "--upstream-ca", "nowhere.pem"], &["nowhere.pem", missing]),
        (&["stamp", "--boilerplate", "nowhere.txt"], &["the boilerplate file nowhere.txt", missing]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_spinney")).args(args).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert_each_once(&said(&output), causes);
    }
    let bulk = stamp(&["--bulk"], b"{\"index\":{}}\n{}\n{\"index\":[]}\n{}\n");
    assert_each_once(&said(&bulk), &["line 3 of the bulk body", "expected the metadata object"]);
}

#[test]
fn boilerplate_that_was_learned_can_be_looked_through_and_given_back() {
    let documents = sample("pairs.ndjson");
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (first, second) = (file("learned-first.txt"), file("learned-second.txt"));
    let title = ["--title-field", "title"];
    let report = |file: &str, more: &[&str]| -> BTreeSet<String> {
        let args = [&title, &["--boilerplate-report", file][..], more].concat();
        stamped(&args, documents.as_bytes());
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let learned = report(&first, &[]);
    assert!(
        learned.iter().any(|line| line.starts_with("版权声明"))
            && learned.iter().any(|line| line.starts_with("small craft should take care when crossing the bar")),
        "{learned:?}"
    );
    // What is known from the start is not learned again.
    let again = report(&second, &["--boilerplate", &first]);
    assert_eq!(again.intersection(&learned).count(), 0, "{again:?}");

    // Two notices of two sentences under the same footer, the first of that footer: alike until somebody says what it
    // is.
    let footer = "All texts and pictures in this newspaper are protected by law and may be copied or sold only by those who have asked the publisher in writing";
    let body: String = ["A goat has been found in the lift of the town hall.", "Choir practice begins at seven."]
        .map(|news| format!("{}\n", json!({"content": format!("{news} {footer}.")})))
        .concat();
    let roots = |args: &[&str]| -> BTreeSet<String> {
        let documents = values(&stamped(args, body.as_bytes()));
        let roots = documents.iter().map(|document| document["cluster_root"].as_str());
        roots.map(|root| root.unwrap().to_owned()).collect()
    };
    let list = file("footers.txt");
    std::fs::write(&list, format!("\n  {footer}.\n")).unwrap();
    let proof_alone = ["--founder-tokens-memory", "0"];
    assert_eq!(roots(&proof_alone).len(), 1);
    assert_eq!(roots(&[&proof_alone[..], &["--boilerplate", &list]].concat()).len(), 2);
    // So does an alignment check, which knows of no title here and sees two thirds of each text in the other.
    assert_eq!(roots(&[]).len(), 1);
    assert_eq!(roots(&["--boilerplate", &list]).len(), 2);

    for (args, reason) in [
        (["--boilerplate", "nowhere.txt", "--k", "3"], "nowhere.txt"),
        (["--boilerplate", &list, "--method", "full"], "boilerplate"),
    ] {
        let wrong = stamp(&args, b"{}\n");
        assert_eq!(wrong.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&wrong.stderr).contains(reason));
    }
}
