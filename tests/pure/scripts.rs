//! The scripts: each says what it does, each is a part of `scripts/test --all`, and what runs the parts says which of
//! them failed or were not run.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder of a test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("spinney-scripts-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The programs in a folder of the repository, by their paths from its root.
fn programs(dir: &str) -> BTreeSet<String> {
    let files = fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let programs = files.filter(|path| path.is_file() && path.metadata().unwrap().permissions().mode() & 0o111 != 0);
    programs.map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()).collect()
}

/// Help is printed by itself: nothing is built, installed or started for it.
#[test]
fn every_script_says_what_it_does() {
    let traps = folder("help");
    for tool in ["cargo", "rustup", "mvn", "npm", "node", "java", "go", "curl", "apt-get", "redis-server"] {
        let path = traps.join(tool);
        fs::write(&path, format!("#!/bin/sh\necho {tool} was called >&2\nexit 9\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", traps.display(), std::env::var("PATH").unwrap());
    for script in programs("scripts").union(&programs("scripts/lib")) {
        for working_directory in [root(), &traps] {
            let output = Command::new(root().join(script))
                .arg("--help")
                .current_dir(working_directory)
                .env("PATH", &path)
                .output()
                .unwrap();
            let [printed, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
            assert!(output.status.success() && said.is_empty(), "{script}: {} {said}", output.status);
            let name = script.rsplit('/').next().unwrap();
            assert!(printed.contains(name), "{script} --help: {printed}");
        }
    }
    fs::remove_dir_all(traps).unwrap();
}

#[test]
fn every_script_is_a_part() {
    let parts = fs::read_to_string(root().join("scripts/lib/parts")).unwrap();
    let parts = parts.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap());
    let (names, commands): (Vec<&str>, Vec<&str>) = parts.unzip();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "two parts have one name");
    for script in programs("scripts") {
        let name = script.trim_start_matches("scripts/");
        let is_about =
            |part: &&str| part.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        assert!(names.iter().any(is_about), "{script} has no part in scripts/lib/parts");
    }
    for test in programs("scripts/lib").iter().filter(|path| path.contains("/test-")) {
        // scripts/lib/lint runs this one.
        let is_run = test == "scripts/lib/test-peers" || commands.iter().any(|command| command.contains(test.as_str()));
        assert!(is_run, "no part runs {test}");
    }
}

/// Runs parts of a table; what has passed is in a file of the folder.
fn run(folder: &Path, table: &str, options: &[&str]) -> Output {
    fs::write(folder.join("table"), table).unwrap();
    Command::new(root().join("scripts/lib/run-parts"))
        .args([folder.join("table"), folder.join("record")])
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The exit code, and the lines of the table that is printed in the end, without their times.
fn outcome(output: &Output) -> (Option<i32>, Vec<String>) {
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, table) = said.split_once("== parts\n").unwrap_or_else(|| panic!("no table: {said}"));
    let without_time = |line: &str| line.split_once(" s  ").unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ");
    (output.status.code(), table.lines().map(without_time).collect())
}

#[test]
fn parts_run_in_order_and_a_failure_does_not_end_the_run() {
    let folder = folder("order");
    let table = "# a comment\none echo 1 >>ran\ntwo echo 2 >>ran; echo why; exit 3\nthree echo 3 >>ran\n";
    let output = run(&folder, table, &[]);
    assert_eq!(outcome(&output), (Some(1), vec!["passed one".into(), "failed (3) two".into(), "passed three".into()]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("why"));
    assert_eq!(fs::read_to_string(folder.join("ran")).unwrap(), "1\n2\n3\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_run_goes_on_from_a_part() {
    let folder = folder("from");
    let table = |two: &str| format!("one echo 1 >>ran\ntwo echo 2 >>ran; {two}\nthree echo 3 >>ran\n");
    run(&folder, &table("false"), &[]);
    // What came before and has passed counts; what comes after and has passed is not run again.
    let output = run(&folder, &table("true"), &["--from", "two"]);
    let before = |part: &str| format!("passed before {part}");
    assert_eq!(outcome(&output), (Some(0), vec![before("one"), "passed two".into(), before("three")]));
    assert_eq!(fs::read_to_string(folder.join("ran")).unwrap(), "1\n2\n3\n2\n");
    // A part that is named is run, and what it came to before is forgotten.
    let output = run(&folder, &table("false"), &["--from", "two"]);
    assert_eq!(outcome(&output), (Some(1), vec![before("one"), "failed (1) two".into(), before("three")]));
    let output = run(&folder, &table("true"), &["--from", "three"]);
    assert_eq!(outcome(&output), (Some(1), vec![before("one"), "not run two".into(), "passed three".into()]));
    // A run from the beginning forgets everything.
    assert_eq!(outcome(&run(&folder, "one true\n", &[])).0, Some(0));
    let output = run(&folder, &table("true"), &["--from", "three"]);
    assert_eq!(outcome(&output), (Some(1), vec![before("one"), "not run two".into(), "passed three".into()]));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_run_that_is_ended_says_what_was_not_run() {
    let folder = folder("ended");
    // The part ends what runs it, and then waits for ever: it must be ended, too.
    let table = "one true\ntwo echo $$ >pid; kill -TERM $PPID; exec tail -f /dev/null\nthree true\n";
    let output = run(&folder, table, &[]);
    let not_run = |part: &str| format!("not run {part}");
    assert_eq!(outcome(&output), (Some(143), vec!["passed one".into(), not_run("two"), not_run("three")]));
    let pid = fs::read_to_string(folder.join("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "part two goes on");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn parts_are_listed_and_others_refused() {
    let folder = folder("list");
    let output = run(&folder, "# a comment\none true\ntwo false\n", &["--list"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one true\ntwo false\n");
    assert!(output.status.success());
    let output = run(&folder, "one touch ran\n", &["--from", "none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!folder.join("ran").exists());
    fs::remove_dir_all(folder).unwrap();
}
