//! `GET /_spinney/{index}/_similar/{id}` and `_roots/{root}`: the documents of one group.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, DAY};
use crate::common::random::Random;
use crate::common::{self, SearchServer, Server, on_each_server, root_of, unique_index};

async fn get(reader: &Server, path: &str) -> (StatusCode, Value) {
    reader.request(Method::GET, path, None).await
}

/// All documents of a group, page by page.
async fn read_all(reader: &Server, path: &str, size: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("{path}?size={size}&cursor={cursor}&_source=title");
        let (status, page) = get(reader, &path).await;
        assert_eq!(status, StatusCode::OK, "{path} {page}");
        let hits = page["hits"].as_array().unwrap();
        all.extend(hits.iter().cloned());
        assert_eq!(
            hits.iter().filter(|hit| hit["is_representative"] == true).count(),
            usize::from(cursor.is_empty()),
            "{page}"
        );
        match page["next"].as_str() {
            None => return all,
            Some(next) => next.clone_into(&mut cursor),
        }
        assert_eq!(hits.len(), size, "{page}");
    }
}

on_each_server!(every_document_once_in_the_order_of_time);

async fn every_document_once_in_the_order_of_time(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("members");
    corpus::create(&server, &index, 5).await;
    let mut random = Random::new(5);
    let mut expected = BTreeMap::new();
    let mut lines = Vec::new();
    for number in 0..130 {
        let id = format!("d{number}");
        // Few days, and some without any: ties all over.
        let date = (!random.percent(10)).then(|| random.below(4) as i64 * DAY);
        let mut source = json!({"cluster_key": 9, "cluster_root": corpus::root(9), "title": id, "medium": "m"});
        if let Some(date) = date {
            source["date"] = date.into();
        }
        lines.extend([json!({"index": {"_id": id}}), source]);
        expected.insert(id, date);
    }
    lines.extend([json!({"index": {"_id": "other"}}), json!({"cluster_key": 8, "cluster_root": corpus::root(8)})]);
    corpus::bulk(&server, &index, &lines).await;
    for path in [format!("/_spinney/{index}/_roots/{}", corpus::root(9)), format!("/_spinney/{index}/_similar/d7")] {
        for size in [1, 7, 100] {
            let all = read_all(&reader, &path, size).await;
            let found: BTreeMap<String, Option<i64>> = all
                .iter()
                .map(|hit| {
                    let time = hit["time"].as_str().map(|t| spinney::time::parse_date(t).unwrap().0);
                    (hit["_id"].as_str().unwrap().to_owned(), time)
                })
                .collect();
            assert_eq!(all.len(), expected.len(), "{path} {size}");
            assert_eq!(found, expected);
            let times: Vec<i64> =
                all.iter().map(|hit| found[hit["_id"].as_str().unwrap()].unwrap_or(i64::MAX)).collect();
            assert!(times.is_sorted(), "{times:?}");
            for hit in &all {
                assert_eq!(hit["_source"], json!({"title": hit["_id"]}));
                assert_eq!(hit["medium"], "m");
            }
        }
    }
    for (path, status) in [
        (format!("/_spinney/{index}/_similar/nobody"), 404),
        (format!("/_spinney/{index}/_roots/{}", corpus::root(77)), 404),
        (format!("/_spinney/{index}/_roots/xyz"), 400),
        (format!("/_spinney/{index}/_roots/{}?size=0", corpus::root(9)), 400),
        (format!("/_spinney/{index}/_roots/{}?cursor=AAAA", corpus::root(9)), 400),
        (format!("/_spinney/{index}-none/_similar/d1"), 404),
        (format!("/_spinney/{index}-none/_roots/{}", corpus::root(9)), 404),
    ] {
        let (answered, answer) = get(&reader, &path).await;
        assert_eq!(answered.as_u16(), status, "{path} {answer}");
    }
    let (_, missing) = get(&reader, &format!("/_spinney/{index}/_similar/nobody")).await;
    let (_, direct) = get(&server, &format!("/{index}/_doc/nobody")).await;
    assert_eq!(missing, direct);
    // A pattern finds the document by its id.
    let (status, page) = get(&reader, &format!("/_spinney/{index}*/_similar/other")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert_eq!(page["total"], 1);
    server.delete_index(&index).await;
}

const STORY: &str = "The harbour of the old town was closed at noon on Tuesday because of the storm that had come up over night, \
    and no ship left before the evening; fishermen pulled their boats on land, the ferry company sent its passengers home, \
    and the coast guard warned everybody to stay away from the outer wall, which waves had broken through two winters ago.";
const OTHER: &str = "A committee of scientists from four universities has published a report on the use of water in the dry \
    provinces of the south, in which it asks farmers to plant fewer almond trees and cities to mend the pipes that lose a third \
    of what is pumped through them before anybody has drunk a glass of it.";

#[tokio::test]
async fn what_moved_is_elsewhere_and_what_was_deleted_is_gone() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("members-moved");
    corpus::create(&server, &index, 2).await;
    let put = async |id: &str, text: &str, date: i64| {
        let path = format!("/{index}/_doc/{id}?refresh=true");
        let source = json!({"content": text, "date": date * DAY, "medium": id});
        let (status, answer) = reader.request(Method::PUT, &path, Some(source)).await;
        assert!(status.is_success(), "{answer}");
    };
    put("first", STORY, 1).await;
    put("copy", STORY, 2).await;
    put("longer", &format!("{STORY} More to follow."), 3).await;
    let path = |id: &str| format!("/_spinney/{index}/_similar/{id}");
    let (status, page) = get(&reader, &path("copy")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let told: Vec<(&str, f64)> = page["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| (hit["_id"].as_str().unwrap(), hit["similarity"].as_f64().unwrap()))
        .collect();
    assert_eq!(told[..2], [("first", 1.0), ("copy", 1.0)]);
    assert!(told[2].0 == "longer" && told[2].1 > 0.8 && told[2].1 < 1.0, "{told:?}");
    let root = root_of(&server.get(&index, "first").await.unwrap()).unwrap().to_owned();
    assert_eq!(page["root"], root);
    assert_eq!(page["total"], 3);
    assert_eq!(page["forest"]["documents"], 3);
    assert_eq!(page["forest"]["name"], "news-*");

    put("copy", OTHER, 2).await;
    let (_, moved) = get(&reader, &path("copy")).await;
    assert_ne!(moved["root"], root);
    assert_eq!(moved["total"], 1);
    let deleted = reader.request(Method::DELETE, &format!("/{index}/_doc/longer?refresh=true"), None).await;
    assert_eq!(deleted.0, StatusCode::OK);
    let (status, gone) = get(&reader, &path("longer")).await;
    assert_eq!((status, &gone["found"]), (StatusCode::NOT_FOUND, &json!(false)));
    let (_, left) = get(&reader, &format!("/_spinney/{index}/_roots/{root}")).await;
    assert_eq!(left["total"], 1);
    assert_eq!(left["hits"][0]["_id"], "first");
    server.delete_index(&index).await;
}

/// An alias before two indices, and a data stream: no document can be read by its id there, and a search finds it.
#[tokio::test]
async fn a_document_behind_an_alias_and_in_a_data_stream() {
    for upstream in [common::opensearch(), common::elasticsearch()] {
        let server = Server::new(&upstream);
        let spinney = corpus::start(&upstream, &[]);
        let reader = Server::new(&spinney.url);
        let base = unique_index("members-behind");
        let (alias, stream) = (format!("{base}-alias"), format!("{base}-stream"));
        let ask = async |method: Method, path: &str, body: Option<Value>| {
            let (status, answer) = server.request(method, path, body).await;
            assert!(status.is_success(), "{path}: {answer}");
        };
        let mut made = vec![format!("/{base}-a,{base}-b")];
        let mut names = vec![&alias];
        // The other one is without x-pack, and so without these.
        if upstream == common::opensearch() {
            let template = json!({"index_patterns": [stream], "data_stream": {}, "priority": 900, "template": {
                "settings": {"number_of_replicas": 0},
                "mappings": {"properties": {"cluster_key": {"type": "long"}, "date": {"type": "date"}}},
            }});
            let path = format!("/_index_template/{base}");
            ask(Method::PUT, &path, Some(template)).await;
            made.extend([path, format!("/_data_stream/{stream}")]);
            names.push(&stream);
        }
        let source = json!({"cluster_key": 9, "cluster_root": corpus::root(9), "date": 0, "@timestamp": 0});
        for id in ["a", "b"] {
            let index = format!("{base}-{id}");
            corpus::create(&server, &index, 1).await;
            let path = format!("/{index}/_alias/{alias}");
            ask(Method::PUT, &path, Some(json!({}))).await;
            for name in [&index].into_iter().chain(names.iter().copied().skip(1)) {
                let path = format!("/{name}/_create/{id}?refresh=true");
                ask(Method::PUT, &path, Some(source.clone())).await;
            }
        }
        for name in names {
            for id in ["a", "b"] {
                let path = format!("/_spinney/{name}/_similar/{id}");
                let (status, page) = get(&reader, &path).await;
                assert_eq!(status, StatusCode::OK, "{page}");
                assert_eq!(page["root"], corpus::root(9), "{page}");
                assert_eq!(page["total"], 2, "{page}");
            }
            let (status, page) = get(&reader, &format!("/_spinney/{name}/_similar/nobody")).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{page}");
            let reason = page["error"]["reason"].as_str().unwrap();
            assert!(reason.contains("[nobody]"), "{reason}");
        }
        for path in made.iter().rev() {
            ask(Method::DELETE, path, None).await;
        }
    }
}

/// What the servers map by themselves is a text with a keyword beside it: that is counted. A text alone cannot be, and
/// the answer says so.
#[tokio::test]
async fn a_medium_that_is_mapped_as_text() {
    for upstream in [common::opensearch(), common::elasticsearch()] {
        let server = Server::new(&upstream);
        let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
        let reader = Server::new(&spinney.url);
        let base = unique_index("members-medium");
        let stamp = json!({"cluster_key": {"type": "long"}, "date": {"type": "date"}});
        for (label, mapping, can_be_counted) in
            [("beside", json!(null), true), ("alone", json!({"type": "text"}), false)]
        {
            let index = format!("{base}-{label}");
            let mut properties = stamp.clone();
            if !mapping.is_null() {
                properties["medium"] = mapping;
            }
            let body = json!({"settings": {"number_of_replicas": 0}, "mappings": {"properties": properties}});
            server.create_index(&index, body).await;
            let lines = ["The Wire", "The Post"].map(|medium| {
                let source = json!({"cluster_key": 9, "cluster_root": corpus::root(9), "date": 0, "medium": medium});
                [json!({"index": {"_id": medium}}), source]
            });
            corpus::bulk(&server, &index, &lines.concat()).await;
            let groups = format!("/_spinney/{index}/_groups");
            let groups = reader.request(Method::POST, &groups, Some(json!({}))).await;
            let similar = get(&reader, &format!("/_spinney/{index}/_similar/The%20Wire")).await;
            if can_be_counted {
                assert_eq!(groups.1["groups"][0]["media"], 2, "{}", groups.1);
                let hits = similar.1["hits"].as_array().unwrap();
                let mut media: Vec<&str> = hits.iter().map(|hit| hit["medium"].as_str().unwrap()).collect();
                media.sort_unstable();
                assert_eq!(media, ["The Post", "The Wire"]);
            } else {
                for (status, answer) in [groups, similar] {
                    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
                    let reason = answer["error"]["reason"].as_str().unwrap();
                    assert!(reason.contains("--medium-field medium is mapped as text"), "{reason}");
                }
            }
            server.delete_index(&index).await;
        }
    }
}
