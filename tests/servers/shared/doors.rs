//! A Redis that is reached by TLS, with a user and a password, and by way of Sentinels.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::locks::{LOGIN, Locks, RIGHTS};
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, wait_until};
use crate::restart::{foretold, send, stored_roots};

/// Two sidecars get the same documents at the same moment, and give them the same roots.
async fn is_shared(name: &str, redis: Redis) {
    let (upstream, ca) = (common::opensearch(), redis.ca().unwrap());
    let (server, client) = (Server::new(&upstream), common::http());
    let indices = format!("shared-doors-{name}-*");
    let [first, second] = ["a", "b"].map(|part| {
        let unique = common::unique_index(part);
        format!("shared-doors-{name}-{unique}")
    });
    let (url, ca) = (redis.url(), ca.to_str().unwrap());
    let base = ["--upstream", &upstream, "--index", &indices];
    let fields = ["--text-field", "content", "--title-field", "title"];
    let store = ["--forest-store", &url, "--forest-store-ca", ca];
    let args = [base, fields, store].concat();
    let sidecars = [(); 2].map(|()| Spinney::start(&args));
    for sidecar in &sidecars {
        let known = send(&client, &sidecar.url, &first, &[90_000]).await;
        assert_eq!(known, Some(vec![90_000]));
    }
    let numbers: Vec<usize> = (0..60).collect();
    let (one, other) = tokio::join!(
        send(&client, &sidecars[0].url, &first, &numbers),
        send(&client, &sidecars[1].url, &second, &numbers),
    );
    assert_eq!((one.unwrap().len(), other.unwrap().len()), (60, 60));
    let mut roots = stored_roots(&server, &first).await;
    roots.remove(&90_000);
    assert_eq!(stored_roots(&server, &second).await, roots);
    assert_eq!(roots.values().collect::<HashSet<_>>().len(), 40);
    for (n, sidecar) in [0, 59].into_iter().zip(&sidecars) {
        assert_eq!(foretold(&client, &sidecar.url, &first, n).await, roots[&n]);
    }
    let (done, said) = spinney(&["inspect", &url, "--forest-store-ca", ca]);
    assert!(done && said.contains("41 of them roots"), "{said}");
    // What a client says of itself Redis 7.0 does not want to know, from anybody.
    let denied = redis.denied();
    assert!(denied.iter().all(|what| what.starts_with("client")), "{denied:?}");
    for index in [&first, &second] {
        server.delete_index(index).await;
    }
}

#[tokio::test]
async fn a_redis_with_tls_and_users_keeps_a_forest() {
    is_shared("one", Redis::locked()).await;
}

#[tokio::test]
async fn a_cluster_with_tls_and_users_keeps_a_forest() {
    is_shared("cluster", Redis::locked_cluster(3)).await;
}

#[tokio::test]
async fn sentinels_with_tls_and_users_lead_to_a_forest() {
    let redis = Redis::behind_sentinels(Some(Locks::new()));
    is_shared("sentinels", redis).await;
}

fn spinney(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spinney")).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn who_is_not_let_in_is_told_what_to_do() {
    let (redis, others) = (Redis::locked(), Locks::new());
    let (ca, others_ca) = (redis.ca().unwrap(), others.ca());
    let inspected = |url: &str, ca: Option<&Path>| {
        let mut args = vec!["inspect", url];
        args.extend(ca.map(|_| "--forest-store-ca"));
        args.extend(ca.and_then(Path::to_str));
        spinney(&args)
    };
    let url = redis.url();
    assert!(inspected(&url, Some(&ca)).0);
    let login = "write user and password into the URL of the forest store";
    let wrong = url.replace("word", "words");
    let by_name = url.replace("127.0.0.1", "localhost");
    let plain = format!("rediss://{LOGIN}127.0.0.1:{}", redis.plain_port());
    let no_tls = format!("redis://{LOGIN}127.0.0.1:{}", redis.port());
    for (url, ca, expected) in [
        (&wrong, Some(&ca), login),
        (&url.replace("spinney", "nobody"), Some(&ca), login),
        (&url.replace(LOGIN, ""), Some(&ca), login),
        (&url, None, "give the authority that signed it with --forest-store-ca"),
        (&url, Some(&others_ca), "give the authority that signed it with --forest-store-ca"),
        (&by_name, Some(&ca), "it has to name the host of the URL"),
        (&plain, Some(&ca), "begin the URL with redis://"),
        (&no_tls, None, "begin the URL with rediss://"),
        (&url, Some(&ca.with_file_name("none.pem")), "none.pem: No such file"),
        (&url, Some(&ca.with_file_name("node.key")), "node.key: it holds no certificate"),
    ] {
        let (done, said) = inspected(url, ca.map(|ca| &**ca));
        assert!(!done && said.contains(expected), "{url} {ca:?}: {said}");
        assert!(!said.contains("p@ss") && !said.contains("p%40ss"), "{said}");
    }
    // A sidecar starts all the same, and its log says it before anybody has written.
    let upstream = common::opensearch();
    let ca = ca.to_str().unwrap();
    let store = ["--forest-store", &wrong, "--forest-store-ca", ca];
    let base = ["--upstream", &upstream, "--index", "shared-refused-*"];
    let sidecar = Spinney::start(&[base, store].concat());
    let line = sidecar.log_line("the user is not let in", |line| line.contains(login));
    assert!(line.contains("writes are refused"), "{line}");
    // Who may do too little is told what.
    redis.command(&format!("ACL SETUSER spinney on >p@ss/word {RIGHTS} -hgetall").replace('\n', " "));
    wait_until("the keys are not told", || {
        let (done, said) = inspected(&url, Some(Path::new(ca)));
        !done && said.contains("may not do what spinney does there") && said.contains("hgetall")
    });
}

/// What the documentation tells operators is what the tests run with.
#[test]
fn the_rights_are_written_down() {
    let text = std::fs::read_to_string(in_repository("docs/shared-forest.md")).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let rights: Vec<&str> = RIGHTS.split_whitespace().collect();
    assert!(words.windows(rights.len()).any(|words| words == rights));
    // And all that the functions do.
    let functions = std::fs::read_to_string(in_repository("src/redis/functions.lua")).unwrap();
    for call in functions.split("redis.call('").skip(1) {
        let command = format!("+{}", call.split('\'').next().unwrap().to_lowercase());
        // The right to a subcommand alone: `+xinfo|stream`.
        let subcommand = call.split('\'').nth(2).map(|name| format!("{command}|{}", name.to_lowercase()));
        let has = |right: &str| rights.contains(&right);
        assert!(has(&command) || subcommand.is_some_and(|right| has(&right)), "{command}");
    }
}

/// `scripts/redis-cluster` with an instance of this test's own, which goes with it.
struct Script(String);

impl Script {
    fn run(&self, command: &str, options: &[&str]) -> String {
        let output = Command::new(in_repository("scripts/redis-cluster"))
            .args([command, &self.0])
            .args(options)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.run("stop", &[]);
    }
}

/// What operators try it with.
#[test]
fn the_script_starts_such_a_redis_and_leaves_nothing() {
    let script = Script(format!("test-{}", std::process::id()));
    let said = script.run("start", &["--sentinel", "--tls", "--user"]);
    let value = |name: &str| {
        let mut values = said.lines().filter_map(|line| line.split_once('='));
        let found = values.find(|(key, _)| *key == name);
        found.expect("the script tells it").1
    };
    let (url, ca) = (value("url"), value("ca"));
    assert!(url.starts_with("rediss+sentinel://spinney:"), "{url}");
    let (done, said) = spinney(&["inspect", url, "--forest-store-ca", ca]);
    assert!(done && said.contains("the forest store has no forest"), "{said}");
    let (pids, folder) = (value("pid"), in_repository(".cache/redis").join(&script.0));
    assert!(pids.split(',').count() == 5 && folder.exists());
    drop(script);
    // One that nobody has waited for yet has ended, too.
    let alive = |pid: &&str| {
        let asked = Command::new("ps").args(["-o", "stat=", "-p", pid]).output();
        let state = String::from_utf8(asked.unwrap().stdout).unwrap();
        !state.trim().is_empty() && !state.starts_with('Z')
    };
    assert_eq!(pids.split(',').find(alive), None);
    assert!(!folder.exists());
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
