//! What spinney asks in its own name: by which way, and what it never tells.

use std::process::{Command, Output};

use crate::common::Spinney;
use crate::common::fake::{self, Fake, Reply};

fn cluster() -> Fake {
    Fake::start(|_| Reply::Bytes(fake::json(200, "", "{}")))
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinney"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SPINNEY_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn no_proxy_of_the_environment_gets_what_is_meant_for_the_cluster() {
    let (cluster, proxy) = (cluster(), cluster());
    let url = cluster.url.replace("http://", "http://svc:Pa55word@");
    let names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let variables = names.map(|name| (name, proxy.url.as_str()));
    run(&["setup", "--upstream", &url], &variables);
    assert!(proxy.received().is_empty());
    let got = cluster.last();
    assert_eq!(got.headers("authorization"), ["Basic c3ZjOlBhNTV3b3Jk"]);
}

/// Passwords with signs that a URL cannot have, or in an option that takes none: what is said of it repeats no part of
/// them.
#[test]
fn no_message_repeats_credentials() {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--index", "news-*"];
    for (option, variable) in [
        ("--service-url", "SPINNEY_SERVICE_URL"),
        ("--upstream", "SPINNEY_UPSTREAM"),
        ("--forest-store", "SPINNEY_FOREST_STORE"),
    ] {
        let scheme = if option == "--forest-store" { "redis" } else { "http" };
        // Each is refused, or spinney would go on to serve.
        for (secret, end) in [
            ("Pa55#wArd", ""),
            ("Pa55/wArd", ""),
            ("Pa55?wArd", ""),
            ("Pa55%wArd", ""),
            ("Pa55,wArd", "?z"),
            ("Pa55wArd", "?z"),
        ] {
            let url = format!("{scheme}://svc:{secret}@127.0.0.1:1/x/y{end}");
            let said = |output: Output| {
                let both = [output.stdout, output.stderr].concat();
                String::from_utf8_lossy(&both).into_owned()
            };
            let output = run(&[&serve[..], &[option, &url]].concat(), &[]);
            assert_eq!(output.status.code().map(|code| code > 0), Some(true), "{option}");
            let by_option = said(output);
            assert!(!by_option.is_empty());
            let by_variable = said(run(&["serve", "--help"], &[(variable, &url)]));
            for text in [by_option, by_variable] {
                assert!(!text.contains("Pa55") && !text.contains("wArd"), "{option}: {text}");
            }
        }
    }
}

/// The node of `--service-url` is away: those of `--upstream` are asked.
#[tokio::test]
async fn another_node_stands_in_for_that_of_the_service_url() {
    let cluster = cluster();
    let spinney = Spinney::start(&[
        "--upstream",
        &cluster.url,
        "--service-url",
        "http://svc:Pa55word@127.0.0.1:1",
        "--index",
        "news-*",
        "--counts",
        "on",
    ]);
    let waiting = crate::common::Waiting::until("the cluster is asked in spinney's own name");
    let is_own = |request: &fake::Received| !request.headers("authorization").is_empty();
    while !cluster.received().iter().any(is_own) {
        waiting.pause().await;
    }
    assert!(!spinney.end_and_log().contains("Pa55"));
}

/// A file of options that does not read: what is said of it repeats no value.
#[test]
fn no_fault_of_a_file_repeats_credentials() {
    let dir = crate::common::scratch("file-fault");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("spinney.toml");
    for text in [
        "upstream = 'http://svc:Pa55wArd@127.0.0.1:1'",
        "service_url = 'http://svc:Pa55wArd@127.0.0.1:1",
        "service-url = 'http://svc:Pa55wArd@127.0.0.1:1'",
        "forest_store = 'redis://svc:Pa55wArd@127.0.0.1:1' x",
    ] {
        std::fs::write(&file, text).unwrap();
        for command in ["serve", "recover"] {
            let output = run(&[command, "--config", file.to_str().unwrap()], &[]);
            assert!(!output.status.success());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("Pa55") && !said.contains("wArd"), "{command}: {said}");
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
