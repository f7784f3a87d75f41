//! Notes of a response: what a reader has to know of its groups.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, DAY, Docs, Query};
use crate::common::random::Random;
use crate::common::wire::Request;
use crate::common::{self, Server, unique_index};

/// Scores change with what is written, so a list sorted by them may lose groups between two pages.
#[tokio::test]
async fn later_pages_by_score_say_that_scores_move() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("notes-score");
    corpus::create(&server, &index, 1).await;
    let docs = corpus::random_docs(&mut Random::new(4));
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    let path = format!("/_spinney/{index}/_groups");
    for (sort, query, is_noted) in [
        ("_score", Query::Scored, true),
        ("_score", Query::All, false),
        ("date", Query::Scored, false),
        ("matching_count", Query::Scored, false),
    ] {
        let mut question = json!({"query": query.body(), "sort": sort, "size": 5});
        for page_number in 1..4 {
            let (status, page) = reader.request(Method::POST, &path, Some(question.clone())).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let has_note = page["notes"].to_string().contains("scores move while documents are written");
            assert_eq!(has_note, is_noted && page_number > 1, "{sort} {query:?} {page_number}: {}", page["notes"]);
            question["cursor"] = page["next"].clone();
        }
    }
    server.delete_index(&index).await;
}

/// An alias that no route names is read as its indices are, where one route matches all of them; otherwise a note says
/// why there are no media.
#[tokio::test]
async fn an_alias_that_no_route_names() {
    for upstream in [common::opensearch(), common::elasticsearch()] {
        let server = Server::new(&upstream);
        let options = ["--medium-field", "medium", "--title-field", "title"];
        let spinney = corpus::start(&upstream, &options);
        let reader = Server::new(&spinney.url);
        let base = unique_index("notes-alias");
        let indices = [format!("{base}-a"), format!("{base}-b"), format!("other-{base}")];
        for (at, index) in indices.iter().enumerate() {
            corpus::create(&server, index, 1).await;
            let at = at as i64;
            let source = json!({"cluster_key": 9, "cluster_root": corpus::root(9), "date": at * DAY,
                "medium": format!("m{at}"), "title": "The harbour"});
            corpus::bulk(&server, index, &[json!({"index": {"_id": "1"}}), source]).await;
        }
        let [of_one_route, mixed] = ["one", "mixed"].map(|label| format!("alias-{base}-{label}"));
        for (alias, indices) in [(&of_one_route, &indices[..2]), (&mixed, &indices[1..])] {
            let path = format!("/{}/_alias/{alias}", indices.join(","));
            let (status, answer) = server.request(Method::PUT, &path, Some(json!({}))).await;
            assert!(status.is_success(), "{answer}");
        }
        let read = async |name: &str| {
            let path = format!("/_spinney/{name}/_groups");
            let (status, page) = reader.request(Method::POST, &path, Some(json!({}))).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let list = Request::json("GET", &format!("/_spinney/ui/{name}"), "").to(&spinney.url);
            (page, list.text())
        };
        let note = |name: &str| format!("no one route matches [{name}]");
        for name in [of_one_route.clone(), format!("alias-{base}-o*"), format!("{base}*")] {
            let (page, list) = read(&name).await;
            let group = &page["groups"][0];
            assert_eq!((&group["similar_count"], &group["media"]), (&json!(2), &json!(2)), "{name} {page}");
            assert_eq!(group["last"], "1970-01-02T00:00:00.000Z", "{name} {page}");
            assert_eq!(page["notes"], Value::Null, "{name} {page}");
            assert!(list.contains("The harbour") && !list.contains(&note(&name)), "{name} {list}");
        }
        for name in [mixed, indices[2].clone()] {
            let (page, list) = read(&name).await;
            assert_eq!(page["groups"][0]["media"], Value::Null, "{page}");
            assert!(page["notes"][0].as_str().is_some_and(|said| said.contains(&note(&name))), "{page}");
            assert!(list.contains(&note(&name)), "{list}");
        }
        for index in indices {
            server.delete_index(&index).await;
        }
    }
}
