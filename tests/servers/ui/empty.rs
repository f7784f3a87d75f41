//! Lists without entries: of an index that has no stamps yet, beside articles without a stamp, by fields that cannot be
//! filtered.

use serde_json::{Value, json};

use super::editor::{self, article};
use super::{get, links, sample, shown, start, start_for};
use crate::common::wire::Request;
use crate::common::{SearchServer, Server, on_each_server, unique_index};

/// Writes articles without a stamp.
fn store_unstamped(server: &Server, index: &str, number: usize, source: &Value) {
    let lines = (0..number).map(|at| format!("{}\n{source}\n", json!({"index": {"_id": format!("bare{at}")}})));
    let answer = Request::bulk(&format!("/{index}/_bulk?refresh=true"), lines.collect::<String>()).to(server.url());
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

on_each_server!(an_index_before_its_first_stamp_has_nothing_yet);

/// What a newcomer meets who looks before the backfill: no index maps the fields of a stamp.
async fn an_index_before_its_first_stamp_has_nothing_yet(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-before");
    let both = [format!("{index}-a"), format!("{index}-b")];
    for (name, shards) in both.iter().zip([1, 3]) {
        let properties = json!({"media": {"type": "keyword"}, "published_at": {"type": "date"}});
        let settings = json!({"number_of_shards": shards, "number_of_replicas": 0});
        server.create_index(name, json!({"settings": settings, "mappings": {"properties": properties}})).await;
        let source = json!({
            "title": "Hello", "content": "hello world", "media": "Wire", "published_at": "2026-01-02T03:04:05Z",
        });
        store_unstamped(&server, name, 1, &source);
    }
    for name in [&both[0], &both[1], &format!("{index}-*")] {
        for query in [
            "?sort=most",
            "?sort=newest",
            "?sort=relevance",
            "?q=hello",
            "?q=hello&sort=newest",
            "?q=hello&sort=fewest",
            "?q=nobodywrotethis",
            "?from=2026-01-01&medium=Wire",
            "?q=hello&facets=shown",
        ] {
            let page = shown(&spinney, &format!("/{name}{query}"));
            assert!(page.contains("Nothing here yet"), "{name}{query}: {page}");
            assert!(!page.contains("No article"), "{name}{query}: {page}");
        }
        let bare = shown(&spinney, &format!("/{name}?q=hello"));
        assert!(bare.contains("has no stamp") || bare.contains("2 more articles have no stamp"), "{bare}");
        let file = get(&spinney, &format!("/{name}?q=hello&format=json"));
        assert_eq!((file.status, file.json()["groups"].as_array().map(Vec::len)), (200, Some(0)), "{}", file.text());
        for sort in ["_score", "published_at"] {
            let asked = json!({"query": {"match": {"content": "hello"}}, "sort": sort}).to_string();
            let api = Request::json("POST", &format!("/_spinney/{name}/_groups"), &asked).to(&spinney.url);
            assert_eq!(api.status, 200, "{name} {sort}: {}", api.text());
            assert_eq!((&api.json()["groups"], &api.json()["next"]), (&json!([]), &Value::Null));
        }
    }
    let none = shown(&spinney, "/news-nothing-*?q=hello");
    assert!(none.contains("Nothing here yet"), "{none}");
    // The first stamp, in one of them.
    editor::store(&server, &both[0], (0..3).map(article)).await;
    for name in [&both[0], &format!("{index}-*")] {
        let page = shown(&spinney, &format!("/{name}?q=harbour&sort=newest"));
        assert!(page.contains("class=\"entry\""), "{name}: {page}");
        let page = shown(&spinney, &format!("/{name}?q=nobodywrotethis"));
        assert!(page.contains("Nothing fits"), "{name}: {page}");
    }
    for name in &both {
        server.delete_index(name).await;
    }
}

on_each_server!(articles_without_a_stamp_are_not_said_to_be_none);

async fn articles_without_a_stamp_are_not_said_to_be_none(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-bare");
    sample::create(&server, &index).await;
    editor::store(&server, &index, (0..10).map(article)).await;
    let source = json!({"title": "Bare", "content": "unstamped gulls", "media": "Bare Wire"});
    store_unstamped(&server, &index, 5, &source);
    for (query, said) in [
        ("q=unstamped", "No article with a stamp has the word “<bdi>unstamped</bdi>”"),
        ("q=unstamped+gulls", "No article with a stamp has the word “<bdi>gulls</bdi>”"),
        ("medium=Bare+Wire", "No article with a stamp is of the medium “<bdi>Bare Wire</bdi>”"),
    ] {
        let page = shown(&spinney, &format!("/{index}?{query}"));
        assert!(page.contains("5 more articles have no stamp") && page.contains(said), "{query}: {page}");
        for untrue in ["Nothing fits", "No article has", "No article that you may read"] {
            assert!(!page.contains(untrue), "{query}: {untrue} in {page}");
        }
        assert!(links(&page, "class=\"way\"").iter().all(|way| !way.contains("Bare")), "{query}: {page}");
    }
    let page = shown(&spinney, &format!("/{index}?q=nobodywrotethis"));
    assert!(page.contains("Nothing fits") && page.contains("No article has the word"), "{page}");
    server.delete_index(&index).await;
}

on_each_server!(a_filter_by_a_field_that_has_none_is_refused);

/// Such a filter finds nothing, whatever the documents are.
async fn a_filter_by_a_field_that_has_none_is_refused(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-mapped");
    let spinney = start_for(&upstream, "news-*", &["--language-field", "lang"]);
    let sound = json!({
        "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
        "media": {"type": "keyword"}, "lang": {"type": "keyword"}, "published_at": {"type": "date"},
    });
    let group = "group/00000000000000aa?format=json";
    for (name, field, mapped, said, queries) in [
        (
            "medium",
            "media",
            "text",
            "--medium-field media is mapped as text here",
            vec!["?q=harbour", "?medium=AP", "?q=harbour&medium=AP", "?medium=AP&format=csv"],
        ),
        ("language", "lang", "text", "--language-field lang is mapped as text here", vec!["?language=EN"]),
        (
            "time",
            "published_at",
            "keyword",
            "published_at",
            vec!["?q=harbour", "?within=30d", "?from=2030-01-01", "?within=30d&format=json", "?within=30d&medium=AP"],
        ),
    ] {
        let index = format!("{index}-{name}");
        let mut properties = sound.clone();
        properties[field] = json!({"type": mapped});
        server.create_index(&index, json!({"mappings": {"properties": properties}})).await;
        editor::store(&server, &index, (0..3).map(article)).await;
        for query in queries {
            let answer = get(&spinney, &format!("/{index}{query}"));
            assert_eq!(answer.status, 400, "{query}: {}", answer.text());
            assert!(answer.text().contains(said), "{query}: {}", answer.text());
        }
        if name == "medium" {
            let answer = get(&spinney, &format!("/{index}/{group}&in_medium=AP"));
            assert_eq!((answer.status, answer.text().contains(said)), (400, true), "{}", answer.text());
        }
        server.delete_index(&index).await;
    }
    // Where they are mapped well, nothing is found and that is all.
    server.create_index(&index, json!({"mappings": {"properties": sound}})).await;
    editor::store(&server, &index, (0..3).map(article)).await;
    for query in ["?medium=AP", "?language=EN", "?within=30d", "?from=2030-01-01&medium=AP&language=EN"] {
        let page = shown(&spinney, &format!("/{index}{query}"));
        assert!(page.contains("Nothing fits"), "{query}: {page}");
    }
    for filter in ["in_medium=AP", "in_from=1&in_to=2"] {
        let answer = get(&spinney, &format!("/{index}/{group}&{filter}"));
        assert_eq!(answer.status, 200, "{filter}: {}", answer.text());
    }
    server.delete_index(&index).await;
}
