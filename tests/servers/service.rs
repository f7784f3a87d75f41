//! What spinney asks in its own name: by which way, and what it never tells.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use serde_json::json;

use crate::common::fake::{self, Fake, Reply};
use crate::common::wire::Request;
use crate::common::{Server, Spinney, http, unique_index};
use crate::restart::DataDir;
use crate::{overrides, restart};

fn cluster() -> Fake {
    Fake::start(|_| Reply::Bytes(fake::json(200, "", "{}")))
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = crate::common::spinney_command();
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

/// The exit code and the line of `spinney health`.
fn health(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = run(&[&["health"], arguments].concat(), variables);
    let line = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(line.matches('\n').count(), 1, "{line}");
    (output.status.code(), line.trim_end().to_owned())
}

#[test]
fn health_is_that_of_the_running_process() {
    let cluster = cluster();
    let mut spinney = Spinney::start(&["--upstream", &cluster.url, "--index", "news-*"]);
    let (url, address) = (spinney.url.clone(), spinney.address().to_owned());
    assert_eq!(health(&["--url", &url], &[]), (Some(0), format!("{url} is healthy")));
    // Found as serve finds it.
    let listen = ("SPINNEY_LISTEN", address.as_str());
    assert_eq!(health(&["--ready"], &[listen]), (Some(0), format!("{url} is ready")));
    let dir = crate::common::scratch("health");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("spinney.toml");
    std::fs::write(&file, format!("listen = '127.0.0.1:1'\nadmin_listen = '{address}'\n")).unwrap();
    assert_eq!(health(&["--config", file.to_str().unwrap()], &[]), (Some(0), format!("{url} is healthy")));
    std::fs::remove_dir_all(&dir).unwrap();

    let (code, line) = health(&[], &[("SPINNEY_LISTEN", "nowhere")]);
    assert_eq!(code, Some(1), "{line}");
    // One whose cluster is not there.
    let alone = Spinney::start(&["--upstream", "http://127.0.0.1:1", "--index", "news-*"]);
    assert_eq!(health(&["--url", &alone.url], &[]).0, Some(0));
    let not_ready = format!("spinney: {} is not ready: no cluster node could be reached: ", alone.url);
    let (code, line) = health(&["--url", &alone.url, "--ready"], &[]);
    assert!(code == Some(1) && line.starts_with(&not_ready), "{line}");
    assert_eq!(spinney.terminate(), Some(0));
    let (code, line) = health(&["--url", &url], &[]);
    assert_eq!(code, Some(1));
    assert!(line.starts_with(&format!("spinney: {url} is not healthy: ")), "{line}");
}

fn reload(url: &str) -> (Option<i32>, String) {
    let output = run(&["reload", "--url", url], &[]);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), said.trim_end().to_owned())
}

/// The limits and the log change, or nothing does; the command says which.
#[test]
fn a_running_spinney_reads_its_configuration_again() {
    let cluster = cluster();
    let [file, logs] = ["reload", "reload-logs"].map(crate::common::scratch);
    std::fs::create_dir(&logs).unwrap();
    let begin = format!(
        "upstream = ['{}']\nadmin_listen = '127.0.0.1:0'\naccess_log = '{}/access'\n",
        cluster.url,
        logs.display()
    );
    let write = |more: &str| {
        let route = "[[route]]\nindex = ['news-*']\n";
        std::fs::write(&file, format!("{begin}{more}{route}")).unwrap();
    };
    write("");
    let spinney = Spinney::start(&["--config", file.to_str().unwrap()]);
    let admin = spinney.admin_url();
    let budget = || Request::get("/_spinney/_stats").to(&admin).json()["budget"]["bytes"].clone();
    assert_eq!(reload(&admin), (Some(0), "nothing has changed".into()));
    write(
        "budget = '1MiB'\nclient_share = '1%'\nbody_timeout = '1s'\nupstream_timeout = 'none'\n\
           max_connections = 2\nidle_timeout = '1s'\ngrace = '1s'\nlog = 'spinney=debug'\n",
    );
    let all = "budget, client_share, body_timeout, upstream_timeout, max_connections, idle_timeout, grace, log";
    assert_eq!(reload(&admin), (Some(0), format!("changed: {all}")));
    assert_eq!(budget(), 1 << 20);
    let large = Request::bulk("/news-1/_bulk", " ".repeat(2 << 20));
    assert_eq!(large.to(&spinney.url).status, 413);
    for (more, reason) in [
        ("budget = '2MiB'\nsweep = '10m'\n", "only a restart changes sweep"),
        ("budget = '2MiB'\nlog = 'loud'\n", "'loud' is no level"),
        ("budget = 'much'\n", "use a whole number with KiB"),
        ("budget = '0'\n", "at least 1KiB"),
    ] {
        write(more);
        let (code, said) = reload(&admin);
        assert_eq!(code, Some(1));
        assert!(said.contains(reason) && said.contains("nothing changes"), "{said}");
        assert_eq!(budget(), 1 << 20, "{reason}");
    }
    std::fs::remove_dir_all(&logs).unwrap();
    write("budget = '2MiB'\n");
    let (code, said) = reload(&admin);
    assert!(code == Some(1) && said.contains("cannot write the access log"), "{said}");
    assert_eq!(budget(), 1 << 20);
    std::fs::create_dir(&logs).unwrap();
    let (code, said) = reload(&spinney.url);
    assert_eq!(code, Some(1));
    assert!(said.contains("at the address of --admin-listen alone"), "{said}");
    let of_a_page = Request::new("POST", "/_spinney/_reload").header("Origin", "http://other.example").to(&admin);
    assert_eq!(of_a_page.status, 403, "{}", of_a_page.text());
    // A file that does not come to its end, or not soon, keeps nobody waiting.
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let refused = |reason: &str| {
        let (code, said) = reload(&admin);
        assert!(code == Some(1) && said.contains(reason), "{said}");
        std::fs::remove_file(&file).unwrap();
    };
    refused("no regular file");
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    refused("no regular file");
    std::fs::write(&file, vec![b'#'; (16 << 20) + 1]).unwrap();
    refused("16 MiB");
    write("budget = '3MiB'\n");
    assert_eq!(reload(&admin).0, Some(0));
    assert_eq!(budget(), 3 << 20);
    std::fs::remove_file(file).unwrap();
    std::fs::remove_dir_all(logs).unwrap();
}

/// Routes are added while documents are written, or nothing changes.
#[tokio::test(flavor = "multi_thread")]
async fn routes_are_added_to_a_running_spinney() {
    let upstream = crate::common::opensearch();
    let server = Server::new(&upstream);
    let (name, dir) = (unique_index("added"), DataDir::new("added"));
    let (old, new) = (format!("{name}-old"), format!("{name}-new"));
    for index in [&old, &new] {
        crate::backfill::create_mapped(&server, index).await;
    }
    let file = crate::common::scratch("added-routes");
    let route = |index: &str, more: &str| format!("[[route]]\nindex = ['{index}']\ntext_field = ['content']\n{more}");
    let write = |routes: &[String]| {
        let options =
            format!("upstream = ['{upstream}']\nadmin_listen = '127.0.0.1:0'\ndata_dir = '{}'\n", dir.path().display());
        std::fs::write(&file, options + &routes.concat()).unwrap();
    };
    let (first, second) = (route(&old, ""), route(&new, ""));
    let broken = route(&format!("{name}-broken"), "forest = 'broken'\n");
    std::fs::create_dir_all(dir.path().join("broken")).unwrap();
    std::fs::write(dir.path().join("broken/identity"), "of nothing").unwrap();
    write(std::slice::from_ref(&first));
    let args = ["--config", file.to_str().unwrap()];
    let mut spinney = Spinney::start(&args);
    let admin = spinney.admin_url();
    // Documents of both indices are written all the while.
    let (client, url) = (http(), spinney.url.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = {
        let (is_over, old, new) = (is_over.clone(), old.clone(), new.clone());
        tokio::spawn(async move {
            let mut number = 0;
            while !is_over.load(SeqCst) {
                for index in [&old, &new] {
                    let numbers: Vec<usize> = (number..number + 6).collect();
                    assert_eq!(restart::send(&client, &url, index, &numbers).await, Some(numbers));
                }
                number += 6;
            }
            number
        })
    };
    let forest = format!("forest = '{old}'\n");
    for (routes, reason) in [
        (vec![second.clone(), first.clone()], "only a restart changes the routes that are there"),
        (vec![route(&old, "window = '1d'\n")], "only a restart changes the routes that are there (route 1, "),
        (Vec::new(), "only a restart changes the routes that are there"),
        (
            vec![first.clone(), route(&new, &forest)],
            "only a restart changes which routes are of a forest that is there",
        ),
        (vec![first.clone(), route(&new, "method = 'none'\n")], "use verified, longest"),
        // The forest is made, with other settings than at last, when another one is refused.
        (vec![first.clone(), route(&new, "method = 'full'\n"), broken], "broken/identity does not read"),
    ] {
        write(&routes);
        let (code, said) = reload(&admin);
        assert!(code == Some(1) && said.contains(reason) && said.contains("nothing changes"), "{reason}: {said}");
    }
    let forests = || Request::get("/_spinney/_stats").to(&admin).json()["forests"].as_object().unwrap().len();
    assert_eq!(forests(), 1);
    write(&[first.clone(), second.clone()]);
    // Where few files may be open, fewer connections fit beside one more forest.
    let (code, said) = reload(&admin);
    assert!(code == Some(0) && said.starts_with("changed: ") && said.ends_with("routes"), "{said}");
    assert_eq!(forests(), 2);
    assert_eq!(reload(&admin), (Some(0), "nothing has changed".into()));
    // All that is sent from now on has a stamp.
    let documents = [("a", overrides::article(1, 1)), ("b", overrides::article(2, 2)), ("c", overrides::article(1, 3))];
    overrides::bulk(&spinney.url, &new, documents);
    is_over.store(true, SeqCst);
    assert!(writing.await.unwrap() > 0);
    server.refresh(&new).await;
    let stored = server.documents(&new).await;
    let root = |id: &str| stored[id]["cluster_root"].as_str().unwrap().to_owned();
    assert!(root("a") == root("c") && root("a") != root("b"));
    // What runs in the background has the route too, and the next start has its forest.
    overrides::say(&spinney.url, &format!("{new}/_merge"), &json!({"roots": [root("a"), root("b")]}));
    overrides::followed(&spinney.url, &new).await;
    assert_eq!(server.get(&new, "b").await.unwrap()["cluster_root"], root("a"));
    spinney.kill9();
    let spinney = Spinney::start(&args);
    overrides::bulk(&spinney.url, &new, [("d", overrides::article(2, 4))]);
    assert_eq!(server.get(&new, "d").await.unwrap()["cluster_root"], root("a"));
    server.delete_index(&old).await;
    server.delete_index(&new).await;
    std::fs::remove_file(file).unwrap();
}

/// As systemd is told with `Type=notify`.
#[cfg(target_os = "linux")]
#[test]
fn the_service_manager_learns_of_start_and_stop() {
    let path = std::env::temp_dir().join(format!("spinney-notify-{}", std::process::id()));
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let told = || {
        let mut state = [0; 64];
        let length = socket.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..length]).trim_end().to_owned()
    };
    let cluster = cluster();
    let notify = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let mut spinney = Spinney::start_with(&notify, &["--upstream", &cluster.url, "--index", "news-*"]);
    assert_eq!(told(), "READY=1");
    assert_eq!(health(&["--url", &spinney.url], &[]).0, Some(0));
    assert_eq!(spinney.terminate(), Some(0));
    assert_eq!(told(), "STOPPING=1");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_manual_has_a_page_of_each_command_and_shells_complete_them() {
    let help = String::from_utf8(run(&["--help"], &[]).stdout).unwrap();
    let listed = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let commands = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"serve") && commands.contains(&"health"), "{commands:?}");
    let dir = crate::common::scratch("man");
    std::fs::create_dir_all(&dir).unwrap();
    let secret = [("SPINNEY_SERVICE_URL", "http://svc:Pa55word@127.0.0.1:1")];
    assert!(run(&["man", dir.to_str().unwrap()], &secret).status.success());
    for command in commands.into_iter().filter(|&command| command != "help") {
        let page = std::fs::read_to_string(dir.join(format!("spinney-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH spinney-{command} 1")), "{command}");
        assert!(!page.contains("Pa55"), "{command}");
        for shell in ["bash", "zsh", "fish"] {
            let script = run(&["completions", shell], &secret).stdout;
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains(command) && !script.contains("Pa55"), "{shell}: {command}");
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
