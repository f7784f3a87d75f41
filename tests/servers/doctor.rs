//! `spinney doctor`: what is wrong, and what to do about it.

use std::os::unix::fs::DirBuilderExt as _;

use reqwest::Method;
use serde_json::json;

use crate::common::fake::{self, Fake, Reply};
use crate::common::redis::Redis;
use crate::common::{self, Server, unique_index};
use crate::restart::DataDir;

/// A directory as spinney makes it.
fn directory(label: &str) -> DataDir {
    let dir = DataDir::new(label);
    std::fs::DirBuilder::new().mode(0o700).create(dir.path()).unwrap();
    dir
}

/// Exit code and what is printed.
fn doctor(args: &[&str]) -> (Option<i32>, String) {
    let output = common::spinney_command().arg("doctor").args(args).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[tokio::test]
async fn a_healthy_patient() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("doctor");
    crate::backfill::create_mapped(&server, &index).await;
    let dir = directory("doctor");
    let data = dir.path().to_str().unwrap();
    let args = ["--upstream", &upstream, "--index", &index, "--text-field", "content", "--data-dir", data];
    let (code, said) = doctor(&args);
    assert_eq!(code, Some(0), "{said}");
    for expected in [
        "configuration: it is valid",
        "can be written",
        "its health is",
        "version 3.",
        "agrees",
        "are mapped",
        "points in time",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("->"), "nothing is to be mended: {said}");
    // It has left nothing.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    server.refresh(&index).await;
    assert!(server.documents(&index).await.is_empty());
    server.delete_index(&index).await;
}

#[tokio::test]
async fn what_is_wrong_and_what_to_do() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("ill");
    crate::backfill::create(&server, &index).await;
    let route = ["--index", &index, "--text-field", "content"];
    let dir = directory("ill");
    let data = ["--data-dir", dir.path().to_str().unwrap()];
    let with = |more: &[&str]| doctor(&[&["--upstream", &upstream][..], &route, more].concat());

    let (code, said) = with(&data);
    assert!(code == Some(1) && said.contains(&format!("spinney setup --existing --index '{index}'")), "{said}");
    let (code, said) = doctor(&[&["--upstream", "http://127.0.0.1:1"][..], &route, &data].concat());
    assert!(code == Some(1) && said.contains("ERROR cluster http://127.0.0.1:1"), "{code:?}: {said}");
    let (code, said) = doctor(
        &[&["--upstream", &upstream][..], &["--index", "news-none-*", "--text-field", "content"], &data].concat(),
    );
    assert!(code == Some(3) && said.contains("spinney setup --index 'news-none-*'"), "{code:?}: {said}");
    let (code, said) = doctor(&["--upstream", &upstream, "--similarity", "7"]);
    assert!(code == Some(2) || code == Some(1), "{code:?}: {said}");

    crate::backfill::map(&server, &index, "cluster_").await;
    let (code, said) = with(&[]);
    assert!(code == Some(3) && said.contains("a restart forgets all forests"), "{code:?}: {said}");
    let body = json!({"index.blocks.write": true});
    server.request(Method::PUT, &format!("/{index}/_settings"), Some(body)).await;
    let (code, said) = with(&data);
    assert!(code == Some(3) && said.contains("takes no writes (index.blocks.write)"), "{code:?}: {said}");
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let inside = file.join("data");
    let (code, said) = with(&["--data-dir", inside.to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("make it, and give it to the user"), "{code:?}: {said}");
    server.delete_index(&index).await;
}

/// Flags go over the file, and nobody is asked: there is no cluster, and no Redis.
#[test]
fn a_configuration_is_shown_or_refused() {
    let folder = common::scratch("validate");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("spinney.toml");
    let validate = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let output = common::spinney_command().args(["validate", "--config"]).arg(&file).args(more).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let text =
        "upstream = ['http://127.0.0.1:1']\nservice_url = 'http://u:secret@127.0.0.2:1'\n[[route]]\nindex = ['a']";
    let (code, shown) = validate(text, &["--grace", "90s"]);
    assert!(code == Some(0) && shown.contains("grace = \"90s\"") && !shown.contains("secret"), "{code:?}: {shown}");
    assert!(shown.contains("method = \"verified\"") && shown.contains("window = \"30d\""), "{shown}");
    assert_eq!(validate(&shown, &[]), (Some(0), shown));
    for (text, more, reason) in [
        ("", &["--log", "verbose"][..], "'verbose' is no level"),
        ("", &["--tls-cert", "/no/cert.pem", "--tls-key", "/no/key.pem"], "/no/cert.pem"),
        ("", &["--upstream-ca", "/no/ca.pem"], "/no/ca.pem"),
        ("budgt = '1mb'", &[], "is `budget` meant"),
        ("[[route]]\nindex = ['a']\n[[route]]\nindex = ['a']", &[], "route"),
    ] {
        let (code, said) = validate(text, more);
        assert!(code == Some(1) && said.contains(reason), "{text} {more:?}: {code:?}: {said}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Versions before 8 say by a member alone that they waited in vain.
#[test]
fn a_cluster_that_stays_red() {
    let red = r#"{"status":"red","timed_out":true}"#;
    for status in [200, 408] {
        let fake = Fake::start(move |got| match got.target() {
            "/_cluster/health?wait_for_status=yellow&timeout=5s" => Reply::Bytes(fake::json(status, "", red)),
            _ => Reply::Bytes(fake::json(404, "", "{}")),
        });
        let (code, said) = doctor(&["--upstream", &fake.url, "--index", "news-*", "--text-field", "content"]);
        assert!(code == Some(1) && said.contains("its health is red"), "{status}: {said}");
    }
}

#[tokio::test]
async fn a_redis_that_keeps_nothing() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("doctor-redis");
    crate::backfill::create_mapped(&server, &index).await;
    let redis = Redis::start();
    let url = redis.url();
    let args = ["--upstream", &upstream, "--index", &index, "--text-field", "content", "--forest-store"];
    let (code, said) = doctor(&[&args[..], &[&url]].concat());
    assert!(code == Some(3) && said.contains("it keeps nothing on disk"), "{code:?}: {said}");
    assert!(said.contains("Redis 1 of 1: version 7."), "{said}");
    drop(redis);
    let (code, said) = doctor(&[&args[..], &[&url]].concat());
    assert!(code == Some(1) && said.contains("ERROR Redis"), "{code:?}: {said}");
    server.delete_index(&index).await;
}

#[tokio::test]
async fn rights_that_the_service_user_lacks() {
    let secure = common::opensearch_secure();
    let service = secure.url.replace("https://", "https://reader:aspen-Hazel-2906@");
    let ca = secure.ca.to_str().unwrap();
    let args = ["--upstream", &secure.url, "--upstream-ca", ca, "--index", "open-*", "--text-field", "content"];
    let (code, said) = doctor(&[&args[..], &["--service-url", &service]].concat());
    assert!(code == Some(1) && said.contains("docs/security.md"), "{code:?}: {said}");
    assert!(!said.contains("aspen-Hazel"), "{said}");
    let (code, said) = doctor(&args);
    assert!(code == Some(1) && said.contains("give --service-url with user:password@"), "{code:?}: {said}");
}
