//! Searches by vectors and by ranks: as a query groups are read under it, and everything else is refused with the way
//! to do without.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus;
use crate::common::{SearchServer, Server, on_each_server, unique_index};

on_each_server!(what_is_no_query_is_refused);

async fn what_is_no_query_is_refused(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("groups-ranks");
    corpus::create(&server, &index, 1).await;
    let hybrid = json!({"hybrid": {"queries": [{"match_all": {}}, {"term": {"topic": "t1"}}]}});
    for question in [
        json!({ "query": hybrid }),
        json!({"knn": {"field": "vector", "query_vector": [1, 2], "k": 3}}),
        json!({"query": {"match_all": {}}, "rank": {"rrf": {}}}),
        json!({"retriever": {"standard": {"query": {"match_all": {}}}}}),
    ] {
        let path = format!("/_spinney/{index}/_groups");
        let (status, answer) = reader.request(Method::POST, &path, Some(question.clone())).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{question} {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap();
        assert!(reason.contains(r#"{"term": {"cluster_first": true}}"#), "{reason}");
    }
    // Within another query it is for the server to refuse.
    let path = format!("/_spinney/{index}/_groups");
    let nested = json!({"query": {"bool": {"must": [hybrid]}}});
    let (status, answer) = reader.request(Method::POST, &path, Some(nested)).await;
    assert!(status == StatusCode::BAD_REQUEST && answer.to_string().contains("hybrid"), "{answer}");
    server.delete_index(&index).await;
}

/// Elasticsearch 8 and 9 take a k-NN search as a query: of its hits each group comes once, in every order.
#[tokio::test]
async fn groups_of_a_knn_query() {
    if SearchServer::Elasticsearch.expected().compatible_with == [7, 8, 9] {
        // Version 7 has none, and OpenSearch one with its plugin alone.
        return;
    }
    let upstream = SearchServer::Elasticsearch.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("groups-knn");
    let body = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": {
            "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "date": {"type": "date"},
            "reads": {"type": "integer"},
            "vector": {"type": "dense_vector", "dims": 2, "index": true, "similarity": "l2_norm"},
        }},
    });
    server.create_index(&index, body).await;
    let mut lines = Vec::new();
    for at in 0..40_i64 {
        // Groups of one to four.
        let key = at * 2 / 5 + at / 20;
        lines.push(json!({"index": {"_id": at.to_string()}}));
        lines.push(json!({
            "cluster_key": key, "cluster_root": corpus::root(key), "date": at, "reads": at, "vector": [at + 1, 1],
        }));
    }
    corpus::bulk(&server, &index, &lines).await;
    let knn = json!({"knn": {"field": "vector", "query_vector": [8, 1], "k": 15, "num_candidates": 15}});
    let body = json!({"query": knn, "size": 40, "_source": ["cluster_key"]});
    let (_, answer) = server.request(Method::POST, &format!("/{index}/_search"), Some(body)).await;
    let hits = answer["hits"]["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 15, "{answer}");
    let mut keys: Vec<i64> = hits.iter().map(|hit| hit["_source"]["cluster_key"].as_i64().unwrap()).collect();
    let mut seen = std::collections::HashSet::new();
    keys.retain(|&key| seen.insert(key));
    for sort in ["_score", "similar_count", "matching_count", "date"] {
        for order in ["desc", "asc"] {
            let question = json!({"query": knn, "sort": {sort: order}, "size": 3, "_source": false});
            let pages = super::groups::read_all(&reader, &index, &question).await;
            let groups: Vec<&Value> = pages.iter().flat_map(|page| page["groups"].as_array().unwrap()).collect();
            let mut found: Vec<i64> = groups.iter().map(|group| group["key"].as_i64().unwrap()).collect();
            let matching: u64 = groups.iter().map(|group| group["matching_count"].as_u64().unwrap()).sum();
            assert_eq!(matching, 15, "{question}");
            let mut expected = keys.clone();
            if sort != "_score" || order == "asc" {
                found.sort_unstable();
                expected.sort_unstable();
            }
            assert_eq!(found, expected, "{question}");
            assert_eq!(pages[0]["total"]["value"], keys.len(), "{question}");
        }
    }
    server.delete_index(&index).await;
}
