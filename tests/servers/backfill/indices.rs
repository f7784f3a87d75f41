//! Indices of all kinds, and those that cannot be adopted as they are.

use reqwest::Method;
use serde_json::{Value, json};

use super::{arguments, backfill, create, document, groups, load};
use crate::common::{self, Server, Spinney, root_of, unique_index};

#[tokio::test]
async fn behind_an_alias_and_in_a_data_stream() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let base = unique_index("behind");
    let (alias, stream) = (format!("{base}-alias"), format!("{base}-stream"));
    let indices = ["1", "2"].map(|n| format!("hidden-{base}-{n}"));
    for (at, index) in indices.iter().enumerate() {
        create(&server, index).await;
        load(&upstream, index, at * 40..at * 40 + 40).await;
        let path = format!("/{index}/_alias/{alias}");
        let (status, answer) = server.request(Method::PUT, &path, None).await;
        assert!(status.is_success(), "{answer}");
    }
    let template =
        json!({"index_patterns": [stream], "data_stream": {"timestamp_field": {"name": "published"}}, "priority": 900});
    let path = format!("/_index_template/{base}");
    let (status, answer) = server.request(Method::PUT, &path, Some(template)).await;
    assert!(status.is_success(), "{answer}");
    for n in 80..110 {
        let path = format!("/{stream}/_create/{n}");
        let (status, answer) = server.request(Method::PUT, &path, Some(document(n))).await;
        assert!(status.is_success(), "{answer}");
    }
    let routed = format!("{alias},{stream}");
    let spinney = Spinney::start(&arguments(&upstream, &routed, &[]));
    let (code, said) = backfill(&spinney.url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("110 documents stamped; 0 have no stamp"), "{said}");
    for name in [&alias, &stream] {
        server.refresh(name).await;
        let documents = server.documents(name).await;
        assert_eq!(groups(&documents).len(), documents.len(), "{name}");
    }
    // Somebody else's index does not become the route's by being named so.
    let other = format!("hidden-{base}-other");
    create(&server, &other).await;
    load(&upstream, &other, 0..5).await;
    let lines = format!(
        "{}\n{}\n",
        json!({"update": {"_index": other, "_id": "1"}}),
        json!({"doc": {"content": "a b c d e f"}})
    );
    let sent = common::http()
        .post(format!("{}/_bulk", spinney.url))
        .header("content-type", "application/x-ndjson")
        .header("x-spinney-backfill", &alias);
    assert!(sent.body(lines).send().await.unwrap().status().is_success());
    let source = server.get(&other, "1").await.unwrap();
    assert_eq!(root_of(&source), None);

    let (status, answer) = server.request(Method::DELETE, &format!("/_data_stream/{stream}"), None).await;
    assert!(status.is_success(), "{answer}");
    server.request(Method::DELETE, &path_of_template(&base), None).await;
    for index in indices.iter().chain([&other]) {
        server.delete_index(index).await;
    }
}

fn path_of_template(base: &str) -> String {
    format!("/_index_template/{base}")
}

#[tokio::test]
async fn odd_sources_keep_all_that_they_have() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("odd");
    let mappings = json!({"properties": {"n": {"type": "integer"}}});
    let body = json!({"settings": {"number_of_shards": 2, "number_of_replicas": 0}, "mappings": mappings});
    server.create_index(&index, body).await;
    let text = |n: usize| document(n)["content"].clone();
    let sources = [
        (
            "objects",
            json!({"n": 1, "parts": [{"text": text(0), "page": 1}, {"text": text(1), "page": 2}], "other": [{"a": 1}]}),
        ),
        ("dotted", json!({"n": 2, "parts.text": text(2), "parts": {"page": 7}})),
        ("nested", json!({"n": 3, "parts": {"text": text(5), "page": 1.0e5}})),
        ("empty", json!({"n": 4})),
        ("null", json!({"n": 5, "parts": {"text": null, "page": 3}})),
        ("lists", json!({"n": 6, "parts": {"text": [text(7), [text(8)]]}})),
        ("stands [in] brackets {too}", json!({"n": 7, "parts": {"text": "[\n{\"text\": 1}]"}})),
    ];
    for (id, source) in &sources {
        let id = common_encoded(id);
        let path = format!("/{index}/_doc/{id}?routing=r%20{id}");
        let (status, answer) = server.request(Method::PUT, &path, Some(source.clone())).await;
        assert!(status.is_success(), "{answer}");
    }
    server.refresh(&index).await;
    let before = server.documents(&index).await;
    let args = ["--upstream", &upstream, "--index", &index, "--text-field", "parts.text", "--counts", "off"];
    let spinney = Spinney::start(&args);
    let (code, said) = backfill(&spinney.url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("7 documents stamped; 0 have no stamp"), "{said}");
    server.refresh(&index).await;
    let after = server.documents(&index).await;
    assert_eq!(after.len(), before.len());
    for (id, source) in &before {
        assert!(root_of(&after[id]).is_some(), "{id}");
        assert_eq!(&common::unstamped(&after[id]), source, "{id}");
    }
    // Their routing is what it was.
    for (id, _) in &sources {
        let id = common_encoded(id);
        let path = format!("/{index}/_doc/{id}?routing=r%20{id}");
        let (status, answer) = server.request(Method::GET, &path, None).await;
        assert!(status.is_success() && answer["_version"] == 2, "{answer}");
    }
    server.delete_index(&index).await;
}

fn common_encoded(id: &str) -> String {
    id.replace(' ', "%20").replace('[', "%5B").replace(']', "%5D").replace('{', "%7B").replace('}', "%7D")
}

#[tokio::test]
async fn what_cannot_be_adopted_is_told_before_anything_is_written() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("wrong");
    let spinney = Spinney::start(&arguments(&upstream, &index, &[]));
    let refused = |expected: &str, args: &[&str]| {
        let (code, said) = backfill(&spinney.url, args);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    refused(&format!("there is no open index {index} with a route"), &[]);
    refused("there is no open index nothing-of-that-name", &["--index", "nothing-of-that-name"]);
    refused("--query is no JSON", &["--query", "{"]);
    let nobody = backfill("http://127.0.0.1:1", &[]);
    assert!(nobody.0 == Some(1) && nobody.1.contains("cannot reach http://127.0.0.1:1"), "{}", nobody.1);
    let no_spinney = backfill(&upstream, &[]);
    assert!(no_spinney.0 == Some(1) && no_spinney.1.contains("is to say what its routes are"), "{}", no_spinney.1);

    for (mappings, expected) in [
        (json!({"properties": {"cluster_root": {"type": "text"}}}), "cluster_root is mapped as text"),
        (json!({"_source": {"excludes": ["content"]}}), "does not store the whole source"),
    ] {
        server.create_index(&index, json!({ "mappings": mappings })).await;
        load(&upstream, &index, 0..2).await;
        refused(expected, &[]);
        server.delete_index(&index).await;
    }
    create(&server, &index).await;
    load(&upstream, &index, 0..2).await;
    let path = format!("/{index}/_settings");
    let (status, _) = server.request(Method::PUT, &path, Some(json!({"index.blocks.write": true}))).await;
    assert!(status.is_success());
    refused("takes no writes (index.blocks.write)", &[]);
    let free = json!({"index.blocks.write": null});
    server.request(Method::PUT, &path, Some(free)).await;
    server.delete_index(&index).await;
}

#[tokio::test]
async fn documents_that_the_cluster_refuses_are_named() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("refused");
    // What was not mapped when it was written does not fit its mapping now.
    let mappings = json!({"dynamic": false, "properties": {"content": {"type": "text"}, "n": {"type": "integer"}}});
    server.create_index(&index, json!({ "mappings": mappings })).await;
    for n in 0..4 {
        let path = format!("/{index}/_doc/{n}");
        let when: Value = if n == 2 { json!("never") } else { json!(n) };
        let source = json!({"content": document(n)["content"], "n": n, "when": when});
        let (status, answer) = server.request(Method::PUT, &path, Some(source)).await;
        assert!(status.is_success(), "{answer}");
    }
    let path = format!("/{index}/_mapping");
    let later = json!({"properties": {"when": {"type": "long"}}});
    let (status, answer) = server.request(Method::PUT, &path, Some(later)).await;
    assert!(status.is_success(), "{answer}");
    let spinney = Spinney::start(&arguments(&upstream, &index, &[]));
    let (code, said) = backfill(&spinney.url, &[]);
    assert_eq!(code, Some(3), "{said}");
    for expected in
        ["3 documents stamped, 1 failed; 1 have no stamp", &format!("{index}/2: 400 "), "failed to parse field [when]"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    server.delete_index(&index).await;
}
