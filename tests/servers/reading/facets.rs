//! Facets of `_groups`: groups and documents by a field, against a naive computation over all documents.

use std::collections::{BTreeMap, HashSet};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, DAY, Doc, Docs, Query};
use crate::common::random::Random;
use crate::common::{SearchServer, Server, on_each_server, unique_index};

/// Groups and documents under a query by a value of each document.
fn naive(docs: &Docs, query: Query, value: impl Fn(&Doc) -> Option<String>) -> BTreeMap<String, (u64, u64)> {
    let mut groups: BTreeMap<String, HashSet<i64>> = BTreeMap::new();
    let mut documents: BTreeMap<String, u64> = BTreeMap::new();
    for doc in docs.values().filter(|doc| query.score(doc).is_some()) {
        if let (Some(key), Some(value)) = (doc.key, value(doc)) {
            groups.entry(value.clone()).or_default().insert(key);
            *documents.entry(value).or_default() += 1;
        }
    }
    documents.into_iter().map(|(value, n)| (value.clone(), (groups[&value].len() as u64, n))).collect()
}

fn buckets(facet: &Value) -> Vec<(String, (u64, u64))> {
    assert_eq!(facet["relation"], "eq", "{facet}");
    let buckets = facet["buckets"].as_array().unwrap().iter().map(|bucket| {
        let number = |name: &str| bucket[name].as_u64().unwrap();
        let key = bucket["key"].as_str().map_or_else(|| bucket["key"].to_string(), str::to_owned);
        (key, (number("groups"), number("documents")))
    });
    buckets.collect()
}

on_each_server!(buckets_have_their_groups);

async fn buckets_have_their_groups(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &[]);
    let reader = Server::new(&spinney.url);
    let mut random = Random::new(23);
    for shards in [1, 3] {
        let index = unique_index("facets");
        let docs = corpus::random_docs(&mut random);
        corpus::create(&server, &index, shards).await;
        corpus::store(&server, &index, &Docs::new(), &docs).await;
        let path = format!("/_spinney/{index}/_groups");
        for query in [Query::All, Query::Topic, Query::Scored] {
            let mut question = json!({
                "query": query.body(), "sort": random.pick(&["similar_count", "date", "matching_count"]), "size": 3,
                "facets": {
                    "media": {"terms": {"field": "medium"}},
                    "reads of 4": {"terms": {"field": "reads", "size": 4}},
                    "days": {"date_histogram": {"field": "date", "calendar_interval": "day"}},
                    "pairs": {"date_histogram": {"field": "date", "fixed_interval": "2d", "time_zone": "+08:00"}},
                },
            });
            let (status, page) = reader.request(Method::POST, &path, Some(question.clone())).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let facets = &page["facets"];
            let by_groups = |expected: BTreeMap<String, (u64, u64)>| {
                let mut expected: Vec<(String, (u64, u64))> = expected.into_iter().collect();
                expected.sort_by_key(|bucket| std::cmp::Reverse(bucket.1));
                expected
            };
            let numbers = |buckets: &[(String, (u64, u64))]| buckets.iter().map(|(_, of)| *of).collect::<Vec<_>>();
            let media = naive(&docs, query, |doc| Some(format!("m{}", doc.medium)));
            let found = buckets(&facets["media"]);
            assert_eq!(found.iter().cloned().collect::<BTreeMap<_, _>>(), media, "{question}");
            assert_eq!(numbers(&found), numbers(&by_groups(media)), "{question}");
            let reads = naive(&docs, query, |doc| doc.reads.map(|reads| reads.to_string()));
            let found = buckets(&facets["reads of 4"]);
            assert!(found.iter().all(|(key, of)| reads[key] == *of), "{found:?}");
            assert_eq!(numbers(&found), numbers(&by_groups(reads)[..4]), "{question}");
            let date = |millis: i64| spinney::time::format_date(spinney::time::Millis(millis));
            let days = naive(&docs, query, |doc| doc.date.map(|day| date(day * DAY)));
            assert_eq!(buckets(&facets["days"]), days.into_iter().collect::<Vec<_>>(), "{question}");
            // Documents of midnight UTC, in days that begin at 16:00 UTC.
            let pairs = naive(&docs, query, |doc| doc.date.map(|day| date(day / 2 * 2 * DAY - 8 * DAY / 24)));
            assert_eq!(buckets(&facets["pairs"]), pairs.into_iter().collect::<Vec<_>>(), "{question}");
            // Those of a first page hold for all.
            question["cursor"] = page["next"].clone();
            let (_, second) = reader.request(Method::POST, &path, Some(question)).await;
            assert!(second["facets"].is_null() && page["next"].is_string(), "{second}");
        }
        // The servers' own refusal.
        let question = json!({"facets": {"a": {"terms": {"field": "date", "size": 1}}, "b": {"date_histogram": {
            "field": "date", "calendar_interval": "moon"}}}});
        let (status, answer) = reader.request(Method::POST, &path, Some(question)).await;
        assert!(status == StatusCode::BAD_REQUEST && answer.to_string().contains("moon"), "{answer}");
        server.delete_index(&index).await;
    }
    // No index at all.
    let question = json!({"facets": {"media": {"terms": {"field": "medium"}}}});
    let (status, page) = reader.request(Method::POST, "/_spinney/news-nothing-*/_groups", Some(question)).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert_eq!(page["facets"], json!({"media": {"buckets": [], "relation": "eq"}}));
}
