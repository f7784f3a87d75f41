//! Notes of a response: what a reader has to know of its groups.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::corpus::{self, Docs, Query};
use crate::common::random::Random;
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
