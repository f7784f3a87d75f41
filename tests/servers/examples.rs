//! The examples of docs/reading.md, run as they stand there: only the address and the index are put in.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::clients::driver::installed;
use crate::common::twin::{self, text};
use crate::common::wire::Request;
use crate::common::{self, Server, Spinney, unique_index};

/// An example: the language that stands at its fence, and its text.
struct Example {
    language: String,
    text: String,
}

/// The fenced blocks of a page.
fn examples(page: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => examples.extend(open.take()),
            (Some(language), None) => {
                let language = language.to_owned();
                let text = String::new();
                open = Some(Example { language, text });
            }
            (None, Some(example)) => {
                example.text.push_str(line);
                example.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    examples
}

/// Those of docs/reading.md in one language.
fn of_reading(language: &str) -> Vec<Example> {
    let mut found = examples(&in_repository("docs/reading.md"));
    found.retain(|example| example.language == language);
    assert!(!found.is_empty(), "no example in {language}");
    found
}

fn in_repository(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// An index of two groups, one of two documents.
struct Scene {
    server: Server,
    spinney: Spinney,
    index: String,
}

impl Scene {
    async fn new(label: &str) -> Scene {
        let server = Server::new(&common::opensearch());
        let spinney = twin::start(server.url(), &[]);
        let index = unique_index(label);
        let body = json!({
            "settings": {"number_of_replicas": 0},
            "mappings": {"properties": {
                "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
                "cluster_arrival": {"type": "date"},
            }},
        });
        server.create_index(&index, body).await;
        for (id, number) in [("a17", 1), ("b", 1), ("c", 2)] {
            let content = format!("the harbour {}", text(number));
            let source = json!({"content": content, "title": id, "published_at": "2026-11-20"});
            let path = format!("/{index}/_doc/{id}");
            let written = Request::json("PUT", &path, source.to_string()).to(&spinney.url);
            assert_eq!(written.status, 201, "{}", written.text());
        }
        server.refresh(&index).await;
        Scene { server, spinney, index }
    }

    /// The example as a reader here would write it.
    fn adapted(&self, example: &Example) -> String {
        let text = example.text.replace("news-1", &self.index);
        text.replace("http://127.0.0.1:9201", &self.spinney.url)
    }

    /// What a program prints, which must succeed.
    fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> String {
        let output = Command::new(program.as_ref())
            .args(arguments)
            .env("SPINNEY", format!("{}/_spinney", self.spinney.url))
            .env("no_proxy", "*")
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", program.as_ref().display());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes an example to a file of this name, to be run from there.
    fn write(&self, name: &str, example: &Example) -> String {
        let folder = common::scratch("example");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name);
        fs::write(&file, self.adapted(example)).unwrap();
        file.to_string_lossy().into_owned()
    }

    async fn end(self) {
        self.server.delete_index(&self.index).await;
    }
}

/// Two lines: the size of each group, and a document of it.
fn assert_lists_the_groups(printed: &str) {
    let lines: Vec<&str> = printed.lines().collect();
    assert!(matches!(lines[..], ["2 a17" | "2 b", "1 c"]), "{printed:?}");
}

#[test]
fn every_example_has_a_test() {
    for example in examples(&in_repository("docs/reading.md")) {
        let language = &example.language[..];
        let known = ["sh", "json", "python", "js", "rust", "java"].contains(&language);
        assert!(known, "nobody runs the examples in '{language}'");
    }
}

#[tokio::test]
async fn curl() {
    let scene = Scene::new("curl").await;
    let found = of_reading("sh");
    assert_eq!(found.len(), 3);
    for example in found {
        let answer: Value = serde_json::from_str(&scene.run("sh", &["-c", &scene.adapted(&example)])).unwrap();
        let listed = answer.get("groups").or_else(|| answer.get("hits"));
        let listed = listed.and_then(Value::as_array);
        assert_eq!(listed.map(Vec::len), Some(2), "{answer}");
    }
    scene.end().await;
}

#[tokio::test]
async fn python() {
    let scene = Scene::new("python").await;
    for example in of_reading("python") {
        let code = scene.adapted(&example);
        assert_lists_the_groups(&scene.run(installed("venv/bin/python"), &["-c", &code]));
    }
    scene.end().await;
}

#[tokio::test]
async fn javascript() {
    let scene = Scene::new("javascript").await;
    for example in of_reading("js") {
        let file = scene.write("example.mjs", &example);
        assert_lists_the_groups(&scene.run("node", &[&file]));
        fs::remove_file(file).unwrap();
    }
    scene.end().await;
}

#[tokio::test]
async fn java() {
    // The search servers bring none along; they run on one that is here, which may be hidden.
    if Command::new("javac").arg("-version").output().is_err() {
        eprintln!("there is no JDK: the example in Java is not run");
        return;
    }
    let scene = Scene::new("java").await;
    for example in of_reading("java") {
        let file = scene.write("Groups.java", &example);
        let page: Value = serde_json::from_str(&scene.run("java", &[&file])).unwrap();
        assert_eq!(page["total"], json!({"value": 2, "relation": "eq"}));
        fs::remove_file(file).unwrap();
    }
    scene.end().await;
}

/// Cargo compiles the example in Rust, and it is the one of the page.
#[test]
fn rust() {
    let compiled = in_repository("examples/groups.rs");
    for example in of_reading("rust") {
        assert!(compiled.ends_with(&example.text), "examples/groups.rs is another one");
    }
}
