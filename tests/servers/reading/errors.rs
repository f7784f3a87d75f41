//! What readers are told when something is wrong.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, Docs};
use crate::common::random::Random;
use crate::common::wire::Request;
use crate::common::{self, SearchServer, Server, Spinney, on_each_server, unique_index};

fn reason(answer: &Value) -> &str {
    answer["error"]["reason"].as_str().unwrap()
}

on_each_server!(what_the_cluster_refuses_is_its_own_answer);

async fn what_the_cluster_refuses_is_its_own_answer(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("groups-errors");
    let ask = async |index: &str, question: Value| {
        let path = format!("/_spinney/{index}/_groups");
        reader.request(Method::POST, &path, Some(question)).await
    };
    for sort in ["similar_count", "matching_count", "_score", "date"] {
        let (status, answer) = ask(&index, json!({"sort": sort})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
        assert_eq!(answer["error"]["type"], "index_not_found_exception");
        assert_eq!(answer["error"]["index"], index);
    }
    corpus::create(&server, &index, 2).await;
    let docs = corpus::random_docs(&mut Random::new(1));
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    let (status, answer) = ask(&index, json!({"sort": "nowhere"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    assert!(answer.to_string().contains("nowhere"), "{answer}");
    for sort in ["similar_count", "date"] {
        let (status, answer) = ask(&index, json!({"query": {"matsch": {}}, "sort": sort})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer.to_string().contains("matsch"), "{answer}");
    }
    // A pattern that fits no index is no error to the servers either.
    let (status, answer) = ask("news-nothing-*", json!({})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["groups"], json!([]));
    assert_eq!(answer["total"], json!({"value": 0, "relation": "eq"}));
    server.delete_index(&index).await;
}

#[tokio::test]
async fn a_pattern_takes_all_its_indices() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    let base = unique_index("groups-pattern");
    let mut all = Docs::new();
    for part in ["a", "b"] {
        let index = format!("{base}-{part}");
        corpus::create(&server, &index, 1).await;
        let docs = corpus::random_docs(&mut Random::new(u64::from(part.as_bytes()[0])));
        corpus::store(&server, &index, &Docs::new(), &docs).await;
        all.extend(docs.into_iter().map(|(id, doc)| (format!("{part}{id}"), doc)));
    }
    // One that nobody has stamped has no groups, and is in nobody's way.
    let unstamped = format!("{base}-c");
    let body = json!({"mappings": {"properties": {"date": {"type": "date"}}}});
    server.create_index(&unstamped, body).await;
    let lines = [json!({"index": {}}), json!({"date": 1, "topic": "t1"})];
    corpus::bulk(&server, &unstamped, &lines).await;
    let path = format!("/_spinney/{base}-*/_groups");
    for sort in ["similar_count", "matching_count", "_score", "date"] {
        for order in ["asc", "desc"] {
            let question = json!({"sort": {sort: order}, "size": 5});
            let pages = super::groups::read_all(&reader, &format!("{base}-*"), &question).await;
            let shown: usize = pages.iter().map(|page| page["groups"].as_array().unwrap().len()).sum();
            assert_eq!(shown, corpus::naive(&all, corpus::Query::All).len(), "{question}");
        }
    }
    let (status, page) = reader.request(Method::POST, &path, Some(json!({"size": 100}))).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let mut expected = corpus::naive(&all, corpus::Query::All);
    assert_eq!(page["total"]["value"], expected.len());
    corpus::sort(&mut expected, &all, corpus::Query::All, "similar_count", false);
    for (group, expected) in page["groups"].as_array().unwrap().iter().zip(&expected) {
        assert_eq!(group["key"], expected.key);
        assert_eq!(group["similar_count"], expected.similar);
    }
    for part in ["a", "b", "c"] {
        server.delete_index(&format!("{base}-{part}")).await;
    }
}

#[tokio::test]
async fn wrong_questions() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let index = unique_index("groups-wrong");
    corpus::create(&server, &index, 1).await;
    let docs = corpus::random_docs(&mut Random::new(2));
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    let path = format!("/_spinney/{index}/_groups");
    let ask = |method: &str, body: String| Request::json(method, &path, body).to(&spinney.url);
    let first = ask("POST", json!({"size": 5, "sort": "date"}).to_string());
    assert_eq!(first.status, 200, "{}", first.text());
    let cursor = first.json()["next"].as_str().unwrap().to_owned();
    let (head, tail) = cursor.split_at(12);
    let other = if head.ends_with('A') { 'B' } else { 'A' };
    let changed = format!("{}{other}{tail}", &head[..11]);
    for (body, expected) in [
        ("{".to_owned(), "the body is not understood"),
        ("[]".into(), "the body is not understood"),
        (json!({"from": 5}).to_string(), "unknown field `from`"),
        (json!({"size": 0}).to_string(), "[size] takes a number from 1 to 100, not 0"),
        (json!({"sort": ["a", "b"]}).to_string(), "[sort] takes"),
        (json!({"cursor": "nonsense", "sort": "date"}).to_string(), "[cursor] is not one"),
        (json!({"cursor": changed, "sort": "date"}).to_string(), "[cursor] is not one"),
        (json!({"cursor": cursor, "sort": "reads"}).to_string(), "[cursor] is not one"),
        (
            json!({"cursor": cursor, "sort": "date", "query": {"term": {"topic": "t1"}}}).to_string(),
            "[cursor] is not one",
        ),
    ] {
        let answer = ask("POST", body.clone());
        assert_eq!(answer.status, 400, "{body} {}", answer.text());
        let answer = answer.json();
        assert_eq!(answer["status"], 400);
        assert_eq!(answer["error"]["type"], "spinney_request_exception");
        assert!(reason(&answer).contains(expected), "{body}: {answer}");
    }
    // The size may change from page to page, and GET asks as POST does.
    let second = ask("GET", json!({"size": 3, "sort": "date", "cursor": cursor}).to_string());
    assert_eq!(second.json()["groups"].as_array().unwrap().len(), 3);
    let put = ask("PUT", "{}".into());
    assert_eq!(put.status, 405);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn restricted_readers_get_their_own_order_or_none() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let index = unique_index("groups-restricted");
    corpus::create(&server, &index, 1).await;
    let docs = corpus::random_docs(&mut Random::new(2));
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    // An index of roots that says something else: nobody may be told of it.
    let roots = format!("spinney-roots-{index}");
    let entry = json!({"cluster_key": 1, "cluster_root": corpus::root(1), "n": 99, "last": 1});
    corpus::bulk(&server, &roots, &[json!({"index": {"_id": "1"}}), entry]).await;
    let groups = corpus::naive(&docs, corpus::Query::All).len();
    let path = format!("/_spinney/{index}/_groups");
    for (how, status) in [("exact", 200), ("refuse", 403)] {
        let spinney = Spinney::start(&["--upstream", &upstream, "--index", "news-*", "--restricted-readers", how]);
        let answer = Request::json("POST", &path, "{}").to(&spinney.url);
        assert_eq!(answer.status, status, "{}", answer.text());
        if status == 200 {
            assert_eq!(answer.json()["total"], json!({"value": groups, "relation": "eq"}));
        } else {
            assert!(reason(&answer.json()).contains("--restricted-readers"));
        }
        let by_date = json!({"sort": "reads"}).to_string();
        let answer = Request::json("POST", &path, by_date).to(&spinney.url);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    server.delete_index(&roots).await;
    server.delete_index(&index).await;
}

/// A template that maps numeric ids as keywords maps the key as one, unless it knows better.
#[tokio::test]
async fn a_key_that_is_no_number_is_named() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    for mapped in ["keyword", "text"] {
        let index = unique_index("groups-key");
        let body = json!({"mappings": {"properties": {
            "cluster_key": {"type": mapped}, "cluster_root": {"type": "keyword"}, "date": {"type": "date"},
        }}});
        server.create_index(&index, body).await;
        let lines =
            [json!({"index": {"_id": "1"}}), json!({"date": 1, "cluster_key": 7, "cluster_root": "0000000000000007"})];
        corpus::bulk(&server, &index, &lines).await;
        for sort in ["similar_count", "matching_count", "_score", "date"] {
            let path = format!("/_spinney/{index}/_groups");
            let (status, answer) = reader.request(Method::POST, &path, Some(json!({"sort": sort}))).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{mapped} {sort}: {answer}");
            let expected = format!("index {index} maps cluster_key as {mapped}");
            assert!(reason(&answer).contains(&expected) && reason(&answer).contains("_reindex"), "{sort}: {answer}");
        }
        server.delete_index(&index).await;
    }
}

/// A rank by a field that is missing, or a text, ranks nothing: that is refused, as for a field that is compared.
#[tokio::test]
async fn a_rank_that_cannot_be() {
    for upstream in [common::opensearch(), common::elasticsearch()] {
        let server = Server::new(&upstream);
        let spinney = corpus::start(&upstream, &[]);
        let reader = Server::new(&spinney.url);
        let index = unique_index("groups-rank");
        let keyword = json!({"type": "keyword"});
        let properties = json!({
            "cluster_key": {"type": "long"}, "cluster_root": keyword, "date": {"type": "date"},
            "content": {"type": "text"},
            "medium": keyword, "at": {"properties": {"place": keyword}},
            "source": {"type": "text", "fields": {"keyword": keyword}},
        });
        server.create_index(&index, json!({"mappings": {"properties": properties}})).await;
        let lines = ["The Wire", "The Post"].map(|name| {
            let source = json!({
                "cluster_key": 9, "cluster_root": corpus::root(9), "date": 0, "content": name, "medium": name,
                "source": name, "at": {"place": name},
            });
            [json!({"index": {"_id": name}}), source]
        });
        corpus::bulk(&server, &index, &lines.concat()).await;
        let path = format!("/_spinney/{index}/_groups");
        let ask = async |representative: Value| {
            reader.request(Method::POST, &path, Some(json!({"representative": representative}))).await
        };
        for order in [["The Wire", "The Post"], ["The Post", "The Wire"]] {
            for field in ["medium", "source", "source.keyword", "at.place"] {
                let (status, page) = ask(json!({"rank": {"field": field, "order": order}})).await;
                assert_eq!(status, StatusCode::OK, "{field}: {page}");
                assert_eq!(page["groups"][0]["representative"]["_id"], order[0], "{field}: {page}");
            }
        }
        for (field, expected) in [
            ("nosuch", "[representative] ranks by nosuch, which none of these indices has"),
            ("at", "[representative] ranks by at, which none of these indices has"),
            (
                "content",
                "[representative] ranks by content, which is mapped as text here, and no keyword content.keyword",
            ),
        ] {
            let (status, answer) = ask(json!({"rank": {"field": field, "order": ["The Wire"]}})).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{field}: {answer}");
            assert_eq!(answer["error"]["type"], "spinney_request_exception", "{answer}");
            assert!(reason(&answer).starts_with(expected), "{answer}");
            let (status, answer) = ask(json!({ "field": field })).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{field}: {answer}");
        }
        server.delete_index(&index).await;
    }
}
