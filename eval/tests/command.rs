//! `spinney-eval` as its users run it: on the project's own sample, and with wrong input.

#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn sample(file: &str) -> String {
    format!("{}/../scripts/sample/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn eval(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinney-eval"));
    command.args(args).output().unwrap()
}

/// Options for the sample's documents, and some more.
fn of_sample(documents: &str, more: &[&str]) -> Output {
    let documents = sample(documents);
    let mut args = vec!["--documents", &documents, "--title-field", "title"];
    args.extend(more);
    let output = eval(&args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{more:?}: {error}");
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_recorded_groups_are_their_own_truth() {
    let groups = std::fs::read_to_string(sample("recorded/longest.txt")).unwrap();
    let clusters: String = groups
        .lines()
        .enumerate()
        .flat_map(|(at, group)| group.split(' ').map(move |id| format!("{id}\t{at}\n")))
        .collect();
    let file = temporary("recorded.tsv");
    std::fs::write(&file, &clusters).unwrap();
    let file = file.to_str().unwrap();
    let output = of_sample("news.ndjson", &["--clusters", file, "--method", "longest", "--json"]);
    let report = &lines(&output)[0];
    let figures = &report["on_clusters"];
    let documents = clusters.lines().count() as u64;
    assert_eq!(figures["pairs"], documents * (documents - 1) / 2);
    for figure in ["precision", "recall", "f1", "adjusted_rand"] {
        assert_eq!(figures[figure], 1.0, "{figure}");
    }
    assert_eq!(figures["worst_together"], serde_json::json!([]));
    let largest = groups.lines().map(|group| group.split(' ').count()).max();
    assert_eq!(report["largest"][0]["documents"].as_u64(), largest.map(|size| size as u64));
}

#[test]
fn figures_mistakes_and_clusters_are_shown() {
    let (pairs, groups) = (sample("pairs.tsv"), sample("groups.tsv"));
    let output = of_sample("pairs.ndjson", &["--pairs", &pairs, "--method", "full", "--show", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("method full, k 3: 703 documents in "), "{text}");
    assert!(text.contains("(466 pairs)"), "{text}");
    assert!(text.contains("wrongly apart: ") && text.contains("largest clusters"), "{text}");
    let output = of_sample("news.ndjson", &["--clusters", &groups]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("adjusted Rand index 0.9"), "{text}");
}

/// Three pages with one disclaimer and nothing else; `full` sees no titles, so it puts them together.
#[test]
fn short_texts_together_under_titles_that_share_nothing_are_shown() {
    const NOTHING: &str = "The views expressed here are those of their authors and not of this site.";
    let titles = ["Pier rebuilt", "Lido shut for repairs", "The pier will be rebuilt"];
    let pages = (1..)
        .zip(titles)
        .map(|(id, title)| serde_json::json!({"id": id, "title": title, "content": NOTHING}).to_string() + "\n");
    let (pages, clusters) = (pages.collect::<String>(), "1\ta\n2\tb\n3\ta\n");
    let files = [("unrelated.ndjson", pages.as_str()), ("unrelated.tsv", clusters)];
    let files = files.map(|(name, content)| {
        let path = temporary(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let mut args = vec!["--documents", &files[0], "--clusters", &files[1]];
    args.extend(["--method", "full"]);
    let untitled = &lines(&eval(&[args.as_slice(), &["--json"]].concat()))[0];
    assert!(untitled.get("unrelated_titles").is_none() && untitled["largest"][0].get("titles").is_none());
    args.extend(["--title-field", "title"]);
    let report = &lines(&eval(&[args.as_slice(), &["--json"]].concat()))[0];
    let unrelated = &report["unrelated_titles"];
    assert_eq!((&unrelated["letters"], &unrelated["pairs"]), (&200.into(), &2.into()));
    assert_eq!(unrelated["worst"][0]["one"]["id"], "1");
    assert_eq!(unrelated["worst"][0]["other"]["id"], "2");
    assert_eq!(report["largest"][0]["titles"], 3);
    let text = String::from_utf8(eval(&args).stdout).unwrap();
    for shown in [
        "texts of fewer than 200 letters put together under titles that share nothing: 2 pairs\n",
        "  3 documents, 3 titles\n",
    ] {
        assert!(text.contains(shown), "{text}");
    }
}

#[test]
fn a_sweep_tries_every_value_and_draws_it() {
    let pairs = sample("pairs.tsv");
    let plot = temporary("sweep.svg");
    let args = ["--pairs", &pairs, "--method", "full", "--sweep", "k=0..4", "--json", "--plot", plot.to_str().unwrap()];
    let reports = lines(&of_sample("pairs.ndjson", &args));
    let tried: Vec<&Value> = reports.iter().map(|report| &report["sweep"]["k"]).collect();
    assert_eq!(tried, ["0", "1", "2", "3", "4"]);
    let recall: Vec<f64> = reports.iter().map(|report| report["on_pairs"]["recall"].as_f64().unwrap()).collect();
    assert!(recall[0] < recall[4], "{recall:?}");
    let alone = of_sample("pairs.ndjson", &["--pairs", &pairs, "--method", "full", "--k", "2", "--json"]);
    assert_eq!(lines(&alone)[0]["on_pairs"]["recall"], recall[2]);
    let drawing = std::fs::read_to_string(plot).unwrap();
    assert_eq!(drawing.matches(" at k ").count(), 15);
    let table = of_sample("pairs.ndjson", &["--pairs", &pairs, "--sweep", "method"]);
    assert_eq!(String::from_utf8(table.stdout).unwrap().lines().count(), 5);
}

#[test]
fn a_sweep_over_the_similarity_trades_recall_for_precision() {
    let pairs = sample("pairs.tsv");
    let plot = temporary("similarity.svg");
    let sweep = |more: &[&str]| {
        let mut args = vec!["--pairs", &pairs, "--json"];
        args.extend(more);
        lines(&of_sample("pairs.ndjson", &args))
    };
    let reports = sweep(&["--sweep", "similarity=0.3..0.9/0.2", "--plot", plot.to_str().unwrap()]);
    let figure = |figure: &'static str| reports.iter().map(move |report| &report[figure]);
    assert_eq!(figure("similarity").collect::<Vec<_>>(), [0.3, 0.5, 0.7, 0.9]);
    let clusters: Vec<u64> = figure("clusters").filter_map(Value::as_u64).collect();
    assert!(clusters.is_sorted() && clusters[0] < clusters[3], "{clusters:?}");
    let [first, last] = [0, 3].map(|at| {
        let of = |name: &str| reports[at]["on_pairs"][name].as_f64().unwrap();
        (of("precision"), of("recall"))
    });
    assert!(first.0 < last.0 && first.1 > last.1, "{first:?} {last:?}");
    let drawing = std::fs::read_to_string(plot).unwrap();
    assert_eq!(drawing.matches(" at similarity ").count(), 12);
    // The default is the default, whether it is written or not.
    let without = |report: &Value| {
        let mut report = report.clone();
        report.as_object_mut().unwrap().remove("sweep");
        report
    };
    let default = sweep(&[]);
    assert_eq!(default[0]["similarity"], 0.43);
    assert_eq!(sweep(&["--similarity", "0.43"]), default);
    assert_eq!(without(&sweep(&["--sweep", "similarity=0.43"])[0]), default[0]);
}

#[test]
fn a_missed_pair_says_why() {
    let pairs = sample("pairs.tsv");
    let reasons = |more: &[&str]| -> Vec<String> {
        let mut args = vec!["--pairs", &pairs, "--json", "--show", "1000"];
        args.extend(more);
        let report = lines(&of_sample("pairs.ndjson", &args)).remove(0);
        let figures = &report["on_pairs"];
        let together = figures["worst_together"].as_array().unwrap();
        assert!(together.iter().all(|wrong| wrong.get("reason").is_none()));
        let apart = figures["worst_apart"].as_array().unwrap();
        let reason = |wrong: &Value| wrong["reason"].as_str().unwrap().to_owned();
        apart.iter().map(reason).collect()
    };
    let has = |reasons: &[String], begin: &str| reasons.iter().any(|r| r.starts_with(begin));
    let verified = reasons(&["--similarity", "0.9"]);
    assert!(has(&verified, "refused: proof: "), "{verified:?}");
    let longest = reasons(&["--method", "longest"]);
    assert!(has(&longest, "never compared") && !has(&longest, "refused"), "{longest:?}");
    let short = reasons(&["--method", "short"]);
    assert!(has(&short, "refused: radius: more than"), "{short:?}");
    let output = of_sample("pairs.ndjson", &["--pairs", &pairs, "--similarity", "0.9"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("method verified, k 0, similarity 0.9: "), "{text}");
    assert!(text.contains("; refused: part: "), "{text}");
}

#[test]
fn wrong_input_is_named() {
    let (documents, pairs) = (sample("pairs.ndjson"), sample("pairs.tsv"));
    let with = |more: &[&str]| {
        let mut args = vec!["--documents", &documents];
        args.extend(more);
        let output = eval(&args);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, _) = with(&[]);
    assert_eq!(code, Some(2));
    let brackets = temporary("brackets.ndjson");
    std::fs::write(&brackets, "[]\n").unwrap();
    for (documents, causes) in [
        ("nowhere.ndjson", &["cannot read nowhere.ndjson", "No such file or directory (os error 2)"][..]),
        (brackets.to_str().unwrap(), &["brackets.ndjson", "line 1 is not a document", "expected an object"]),
    ] {
        let output = eval(&["--documents", documents, "--pairs", &pairs]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(causes.iter().all(|cause| error.matches(cause).count() == 1), "{error}");
    }
    let (code, error) = with(&["--pairs", &pairs, "--similarity", "43"]);
    assert!(code == Some(2) && error.contains("must be a ratio from 0 "), "{error}");
    for (args, reason) in [
        (&["--pairs", "nowhere.tsv"][..], "cannot read nowhere.tsv"),
        (&["--pairs", &documents], "line 1 has 1 column, separated by tabs"),
        (&["--pairs", &pairs, "--id-field", "url"], "no line names documents"),
        (&["--pairs", &pairs, "--id-field", "nothing"], "no field `nothing`"),
        (&["--pairs", &pairs, "--sweep", "k=0..99"], "sweep: k=17: eval: k: 17 is out of range"),
        (
            &["--pairs", &pairs, "--sweep", "similarity", "--method", "full"],
            "sweep: similarity=0.30: eval: similarity: the method full does not compare whole texts",
        ),
        (&["--pairs", &pairs, "--sweep", "magic=1"], "sweep: 'magic' is not one of k, method, similarity, window"),
    ] {
        let (code, error) = with(args);
        assert_eq!(code, Some(1), "{args:?}");
        assert!(error.starts_with("spinney-eval: ") && error.contains(reason), "{error}");
    }
}

/// A folder with one collection of the set `press`: two copies, and another text.
fn folder(name: &str) -> String {
    let folder = temporary(name);
    std::fs::create_dir_all(&folder).unwrap();
    let text = |name: &str| (0..100).map(|at| format!("{name}{at}word ")).collect::<String>();
    let line = |id: &str, text: &str| serde_json::json!({"id": id, "title": "", "content": text}).to_string() + "\n";
    let documents = [line("a", &text("one")), line("b", &text("one")), line("c", &text("other"))].concat();
    std::fs::write(folder.join("press_tune.ndjson"), documents).unwrap();
    std::fs::write(folder.join("press_tune.pairs.tsv"), "a\tb\tdup\na\tc\ttemplate\n").unwrap();
    folder.to_str().unwrap().to_owned()
}

fn limits(name: &str, limits: &str) -> String {
    let file = temporary(name);
    std::fs::write(&file, format!("method = \"verified\"\nsets = [\"press\"]\nlimits = [{limits}]\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_arena_prints_a_figure_a_line_and_fails_where_a_limit_is_missed() {
    let folder = folder("arena");
    let dup =
        "{ set = \"press\", label = \"dup\", at_least = 1.0 }, { set = \"all\", figure = \"error\", at_most = 0 }";
    let held = limits("held.toml", dup);
    let missed = limits("missed.toml", &format!("{dup}, {{ set = \"press\", label = \"template\", at_least = 0.5 }}"));
    let arena = |more: &[&str]| eval(&[&["arena", "--data", &folder], more].concat());
    let output = arena(&["--limits", &held, "--peers", "--show", "1"]);
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let figures = lines(&output);
    for figure in &figures {
        let keys: Vec<&String> = figure.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["bench", "method", "set", "figure", "value"]);
        assert_eq!(figure["bench"], "eval");
    }
    for method in ["verified", "minhash:0.7", "minhash:0.5", "simhash:3"] {
        let dup = figures.iter().find(|figure| figure["method"] == method && figure["figure"] == "label dup").unwrap();
        assert_eq!((&dup["set"], &dup["value"]), (&"press_tune".into(), &1.0.into()), "{method}");
    }
    assert!(error.contains("limits: 2 held, 0 missed\n") && error.contains("press_tune"), "{error}");
    let output = arena(&["--limits", &missed]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("missed: press_tune: label template: 0.0000, at least 0.5 is wanted\n"), "{error}");
    // Neither is judged: a quick run, and what no limit is of.
    let quick = arena(&["--limits", &missed, "--quick", "--json"]);
    assert_eq!((quick.status.code(), quick.stderr.len()), (Some(0), 0));
    assert_eq!(arena(&["--limits", &missed, "--method", "longest"]).status.code(), Some(0));
}

#[test]
fn the_arena_names_what_is_wrong() {
    let folder = folder("arena-wrong");
    let unbounded = limits("unbounded.toml", "{ set = \"press\", label = \"dup\" }");
    for (args, code, reason) in [
        (&["--data", "nowhere"][..], 1, "cannot read nowhere: No such file"),
        (&["--data", &folder, "--set", "weibo"], 1, "contains no documents to score: X.ndjson or X.ndjson.xz of weibo"),
        (&["--data", &folder, "--method", "magic"], 1, "magic"),
        (&["--data", &folder, "--limits", "nowhere.toml"], 1, "cannot read nowhere.toml"),
        (&["--data", &folder, "--limits", &unbounded], 1, "unbounded.toml: limit 1: give a label or a figure"),
        (&["--set", "press"], 2, "--data"),
    ] {
        let output = eval(&[&["arena"], args].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(reason), "{error}");
    }
    let help = String::from_utf8(eval(&["arena", "--help"]).stdout).unwrap();
    for taught in
        ["Usage: spinney-eval arena", "X.pairs.tsv", "joins without the lead", "cross-validated", "Exit codes"]
    {
        assert!(help.contains(taught), "{help}");
    }
}

/// A twentieth of the page chrome, which is what runs without a folder.
#[test]
fn the_page_chrome_needs_no_folder() {
    let output = eval(&["arena", "--quick"]);
    let figures = lines(&output);
    let of = |name: &str| figures.iter().find(|figure| figure["figure"] == name).unwrap()["value"].as_f64().unwrap();
    assert!(figures.iter().all(|figure| figure["set"] == "page_chrome" && figure["method"] == "verified"));
    assert!(of("reprints") > 0.98 && of("other_title") < 0.1 && of("largest_tree") < 10.0, "{figures:?}");
    assert!(of("stream_nodes") > 0.0 && of("stream_time") > 0.0);
}
