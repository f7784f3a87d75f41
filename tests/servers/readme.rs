//! The shell blocks of both READMEs and of the pages that continue them, run as they are: only addresses and names of
//! indices are the test's own, and `spinney serve` is a spinney that the test stops again. What begins with `scripts/`
//! is not run again: `scripts/test` is what runs this, and with `--all` it runs every script.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::Method;

use crate::common::wire::Request;
use crate::common::{self, Server, Spinney, unique_index};

/// The commands of all shell blocks of a page, one a line: lines that go on are joined, comments are left out.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for block in page.split("\n```sh\n").skip(1) {
        let block = block.split("\n```").next().unwrap();
        let mut open = String::new();
        for line in block.replace("\\\n", " ").lines() {
            let code = line.split("  # ").next().unwrap().trim();
            if code.starts_with('#') {
                continue;
            }
            open += code;
            // What stands between quotes may go on.
            if open.matches('\'').count() % 2 == 1 {
                open.push('\n');
            } else {
                found.push(std::mem::take(&mut open));
            }
        }
        assert!(open.is_empty(), "a quote is not closed: {open}");
    }
    found.retain(|command| !command.is_empty());
    found
}

/// The text of a page, or of what stands below one of its headings: `page#Heading`.
fn section(root: &Path, page: &str) -> String {
    let (path, heading) = page.split_once('#').unwrap_or((page, ""));
    let text = fs::read_to_string(root.join(path)).unwrap();
    if heading.is_empty() {
        return text;
    }
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    below.split("\n## ").next().unwrap().to_owned()
}

async fn as_it_stands(pages: &[&str]) {
    let page = pages[0];
    let server = Server::new(&common::opensearch());
    let base = unique_index("readme");
    let index = format!("{base}-1");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = common::scratch("readme");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("articles.ndjson"), "{\"content\": \"closed\"}\n").unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_spinney")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut spinney: Option<Spinney> = None;
    let mut run = 0;
    let texts = pages.iter().map(|page| section(root, page));
    for command in texts.flat_map(|text| commands(&text)) {
        let mut adapted = command
            .replace("http://10.0.0.5:9200", server.url())
            .replace("news-*", &format!("{base}-*"))
            .replace("news-1", &index);
        if let Some(script) = command.strip_prefix("scripts/") {
            let name = script.split(' ').next().unwrap();
            assert!(root.join("scripts").join(name).is_file(), "{page}: {command}");
            continue;
        }
        if command.starts_with("git clone <repository>") {
            continue;
        }
        run += 1;
        if let Some(arguments) = adapted.strip_prefix("spinney serve ") {
            let arguments = arguments.replace("--listen 0.0.0.0:9201", "").replace('\'', "");
            let arguments: Vec<&str> = arguments.split_whitespace().collect();
            let started = Spinney::start(&arguments);
            for id in ["a", "b"] {
                let source = "{\"title\": \"harbour\", \"content\": \"the harbour 港口 was closed this morning\"}";
                let path = format!("/{index}/_doc/{id}?refresh=true");
                let written = Request::json("PUT", &path, source).to(&started.url);
                assert_eq!(written.status, 201, "{}", written.text());
            }
            spinney = Some(started);
            continue;
        }
        if let Some(spinney) = &spinney {
            adapted = adapted.replace("localhost:9201", spinney.url.trim_start_matches("http://"));
        }
        if adapted.starts_with("curl ") {
            adapted = adapted.replacen("curl ", "curl --silent --show-error --fail-with-body ", 1);
        }
        let output = Command::new("sh")
            .args(["-c", &adapted])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("no_proxy", "*")
            .output()
            .unwrap();
        let [printed, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{page}: {adapted}\n{printed}\n{said}");
        if adapted.contains("_groups") {
            assert!(printed.contains("\"similar_count\": 2"), "{printed}");
        }
    }
    assert!(run > 4, "{page} shows fewer commands than there were");
    let stamped = fs::read_to_string(folder.join("stamped.ndjson")).unwrap();
    assert!(stamped.contains("cluster_root"), "{stamped}");
    fs::remove_dir_all(folder).unwrap();
    server.delete_index(&index).await;
    let (status, answer) = server.request(Method::DELETE, &format!("/_index_template/spinney-{base}"), None).await;
    assert!(status.is_success(), "{answer}");
}

/// One after the other: the template that they install has one name.
#[tokio::test]
async fn the_shell_blocks_do_what_they_show() {
    as_it_stands(&["README.md", "docs/merges.md", "docs/adopting.md#Files without a cluster"]).await;
    as_it_stands(&["README.zh-CN.md", "docs/guide.zh-CN.md"]).await;
}
