//! The page in a real browser: headless Chromium, driven by `tests/page/browser.js`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{editor, sample, start};
use crate::common::{self, Server, Spinney, unique_index, wait_until};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs one scenario of the script to its end and shows what it printed.
fn drive(scenario: &str, job: &serde_json::Value) {
    let modules = here(".cache/clients/page/node_modules");
    assert!(modules.is_dir(), "{} is not there: run scripts/test, which installs it", modules.display());
    let output = common::scratch("browser");
    let file = std::fs::File::create(&output).unwrap();
    let mut child = Command::new("node")
        .arg(here("tests/page/browser.js"))
        .args([scenario, &job.to_string()])
        .env("NODE_PATH", modules)
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .expect("node runs");
    let mut ended = None;
    wait_until("the browser has been through the page", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    let said = std::fs::read_to_string(&output).unwrap();
    std::fs::remove_file(&output).unwrap();
    eprintln!("{said}");
    assert!(ended.is_some_and(|status| status.success()), "{said}");
}

#[tokio::test]
async fn in_chromium() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-browser");
    let groups = sample::load(&server, &spinney, &index).await;
    let job = json!({
        "url": spinney.url, "index": index, "groups": groups, "neighbours": sample::WITH_NEIGHBOURS,
        "right_to_left": sample::RIGHT_TO_LEFT,
    });
    for scenario in ["reading", "keyboard", "plain", "figures"] {
        drive(scenario, &job);
    }
    server.delete_index(&index).await;
}

#[tokio::test]
async fn editing_in_chromium() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-editing");
    sample::create(&server, &index).await;
    editor::store(&server, &index, (0..2_000).map(editor::article)).await;
    let html = "<h2>The port</h2><p>of <b>Beirut</b> &amp; its ships</p><script>window.evil = 1</script>\
                <img src=x onerror=\"window.evil = 2\"><p>نص عربي</p>";
    let source = json!({
        "title": "إغلاق ميناء بيروت يومين بعد العاصفة", "content": html, "media": "صحيفة الشرق",
        "published_at": "2026-01-02T03:04:05Z",
    });
    sample::write(&spinney, &index, "html", &source);
    // A name of a medium without a blank.
    let source = json!({
        "title": "A long name", "content": "Gulls are counted on the roofs of the town every spring.",
        "media": "x".repeat(300), "published_at": "2026-01-02T03:04:05Z",
    });
    sample::write(&spinney, &index, "long", &source);
    server.refresh(&index).await;
    let job = json!({
        "url": spinney.url, "index": index, "middle": "m1000", "html": "html", "long": "long",
        "text": "The port\n\nof Beirut & its ships\n\nنص عربي",
    });
    drive("editing", &job);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn signing_in_in_chromium() {
    let secure = common::opensearch_secure();
    let ca = secure.ca.to_str().unwrap();
    let index = unique_index("page").replace("news-", "open-");
    let spinney = Spinney::start(&[
        "--upstream",
        &secure.url,
        "--upstream-ca",
        ca,
        "--index",
        &index,
        "--title-field",
        "title",
        "--medium-field",
        "media",
    ]);
    let source = json!({"title": "Harbour closed", "content": "The harbour was closed for two days.", "media": "Wire"});
    let client = common::http();
    let mapping = json!({"mappings": {"properties": {"media": {"type": "keyword"}}}});
    let made = client.put(format!("{}/{index}", spinney.url)).basic_auth("admin", Some("admin")).json(&mapping);
    assert!(made.send().await.unwrap().status().is_success());
    // A group of two: one alone has no files.
    let reprint = json!({"title": "Port shut", "content": source["content"], "media": "Gazette"});
    for (id, source) in [("a", source), ("b", reprint)] {
        let path = format!("{}/{index}/_doc/{id}?refresh=true", spinney.url);
        let write = client.put(path).basic_auth("admin", Some("admin")).json(&source);
        let written = write.send().await.unwrap();
        assert!(written.status().is_success(), "{}", written.text().await.unwrap());
    }
    let job = json!({
        "url": spinney.url, "index": index, "user": "reader", "password": "aspen-Hazel-2906", "title": "Harbour closed",
    });
    drive("signing", &job);
    let path = format!("{}/{index}", spinney.url);
    let removed = client.delete(path).basic_auth("admin", Some("admin")).send().await.unwrap();
    assert!(removed.status().is_success());
}
