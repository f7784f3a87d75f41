//! Documents that the servers store and strict parsers do not read: they are in nobody's way.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::backfill::command;
use crate::common::twin::text;
use crate::common::wire::Request;
use crate::common::{self, SearchServer, Server, Spinney, on_each_server, root_of, unique_index};
use crate::overrides::{followed, say};
use crate::restart::{DataDir, arguments};

/// A text of its own, and a document with it as it is sent: half of an emoji, comments, a number beyond a double, a
/// byte order mark, a comment that takes the rest of an answer with it, and arrays inside one another.
fn documents() -> Vec<(&'static str, Vec<u8>)> {
    let said = |n: usize| format!("{} {}", text(9_000 + n), text(9_100 + n));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    vec![
        ("half", format!(r#"{{"content":"{} \ud83d","n":1}}"#, said(0)).into_bytes()),
        ("comments", format!(r#"{{"content":"{}" /* c */,"n":2 /* d */}}"#, said(1)).into_bytes()),
        ("large", format!(r#"{{"content":"{}","kept":{{"n":1e400}}}}"#, said(2)).into_bytes()),
        ("mark", format!("\u{FEFF}{{\"content\":\"{}\",\"n\":3}}", said(3)).into_bytes()),
        ("ends", format!(r#"{{"content":"{}","n":4}} // {{"#, said(4)).into_bytes()),
        ("deep", format!(r#"{{"content":"{}","kept":{{"a":{deep}}}}}"#, said(5)).into_bytes()),
        ("plain", format!(r#"{{"content":"{}","n":5}}"#, said(6)).into_bytes()),
    ]
}

async fn create(server: &Server, index: &str) {
    let body = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": {
            "content": {"type": "text"}, "n": {"type": "integer"}, "kept": {"type": "object", "enabled": false},
            "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
        }},
    });
    server.create_index(index, body).await;
}

/// The documents and a copy of each, so that there are groups of two, each by a request of its own.
fn write(url: &str, index: &str, copies: &[&str]) {
    for copy in copies {
        for (id, source) in documents() {
            let path = format!("/{index}/_doc/{id}{copy}");
            let answer = Request::json("PUT", &path, source).to(url);
            assert_eq!(answer.status, 201, "{id}: {}", answer.text());
        }
    }
}

fn read(url: &str, method: &str, path: &str, body: &str) -> Value {
    let answer = Request::json(method, path, body).to(url);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

on_each_server!(one_document_takes_nothing_from_the_others);

async fn one_document_takes_nothing_from_the_others(search_server: SearchServer) {
    let upstream = search_server.url();
    let (server, index, dir) = (Server::new(&upstream), unique_index("odd-read"), DataDir::new("odd-read"));
    create(&server, &index).await;
    let spinney = Spinney::start(&arguments(&upstream, &index, dir.path(), &["--counts", "off"]));
    let url = &spinney.url;
    write(url, &index, &["", "-2"]);
    server.refresh(&index).await;

    for source in ["true", "\"*\"", "[]", "[\"content\"]", "{\"excludes\":[\"n\"]}", "false"] {
        let body = format!(r#"{{"_source":{source},"size":20}}"#);
        let page = read(url, "POST", &format!("/_spinney/{index}/_groups"), &body);
        let groups = page["groups"].as_array().unwrap();
        assert_eq!(groups.len(), documents().len(), "{source}: {page}");
        for group in groups {
            assert_eq!(group["similar_count"], 2, "{source}: {group}");
            let shown = &group["representative"]["_source"];
            assert_eq!(shown["content"].is_string(), source != "false", "{source}: {group}");
        }
    }
    for (id, _) in documents() {
        let page = read(url, "GET", &format!("/_spinney/{index}/_similar/{id}"), "");
        assert_eq!(page["total"], 2, "{id}: {page}");
        let similarities = page["hits"].as_array().unwrap().iter().map(|hit| &hit["similarity"]);
        assert!(similarities.clone().all(|similarity| *similarity == 1.0), "{id}: {page}");
        let answer = Request::json("GET", &format!("/_spinney/ui/{index}/article/{id}"), "").to(url);
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
    }
    let list = Request::json("GET", &format!("/_spinney/ui/{index}"), "").to(url);
    assert_eq!(list.status, 200, "{}", list.text());

    let output = common::spinney_command().args(["verify", "--spinney-url", url]).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && said.contains("14 documents with a stamp"), "{said}");

    // What somebody says of such a document is done.
    let before = roots_now(&server, &index).await;
    let ids: Vec<&str> = documents().iter().map(|(id, _)| *id).collect();
    say(url, &format!("{index}/_split"), &json!({ "ids": ids }));
    followed(url, &index).await;
    let after = roots_now(&server, &index).await;
    for id in ids {
        assert_ne!(before[id], after[id], "{id}");
    }
    server.delete_index(&index).await;
}

/// The roots of all documents, by fields that the server writes.
async fn roots_now(server: &Server, index: &str) -> std::collections::BTreeMap<String, String> {
    server.refresh(index).await;
    let body = json!({"size": 100, "_source": ["cluster_*"]});
    let (status, answer) = server.request(Method::POST, &format!("/{index}/_search"), Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let hits = answer["hits"]["hits"].as_array().unwrap();
    let root = |hit: &Value| (hit["_id"].as_str().unwrap().to_owned(), root_of(&hit["_source"]).unwrap().to_owned());
    hits.iter().map(root).collect()
}

/// A document that has to be read whole is written back as it is, or named: then it is no other's end.
#[tokio::test]
async fn a_backfill_goes_on_behind_one() {
    let upstream = common::opensearch();
    let (server, index, dir) = (Server::new(&upstream), unique_index("odd-backfill"), DataDir::new("odd-backfill"));
    create(&server, &index).await;
    write(&upstream, &index, &[""]);
    let parts = [
        ("whole", format!(r#"{{"content":"{} \ud83d","kept":[{{"a":1}}]}}"#, text(9_200))),
        ("named", format!(r#"{{"content":"{}","kept":[{{"a":1}}]}} // {{"#, text(9_201))),
        ("behind", format!(r#"{{"content":"{}","kept":[{{"a":1}}]}}"#, text(9_202))),
    ];
    for (id, source) in parts {
        let answer = Request::json("PUT", &format!("/{index}/_doc/{id}"), source).to(&upstream);
        assert_eq!(answer.status, 201, "{id}: {}", answer.text());
    }
    server.refresh(&index).await;
    let fields = ["--text-field", "kept.a"];
    let spinney =
        Spinney::start(&arguments(&upstream, &index, dir.path(), &[&fields[..], &["--counts", "off"]].concat()));
    let output = command(&spinney.url, &[]).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("9 documents stamped, 1 failed; 1 have no stamp"), "{said}");
    assert!(said.contains(&format!("{index}/named: its stored source is more than JSON")), "{said}");
    server.delete_index(&index).await;
}
