//! What the product reads in the background understands the cluster's answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::SimCluster;
use crate::backfill::{RouteTable, discover};
use crate::cluster::operator::Operator;
use crate::cluster::sorted_pages::{Slice, SortField, SortedPages, SortedQuery};
use crate::engine::BackfillRoute;

/// A cluster with 450 documents in two indices, and an operator of it.
fn world(opensearch: bool) -> (Arc<Mutex<SimCluster>>, Operator) {
    let mut cluster = SimCluster::new();
    cluster.opensearch = opensearch;
    for n in 0..450 {
        let source = json!({"content": "text", "cluster_arrival": n / 2}).to_string();
        let target = format!("/news-{}/_doc/{n}", n % 2);
        assert_eq!(cluster.answer(0, "PUT", &target, source.as_bytes(), &mut |_, _| None).status, 201);
    }
    cluster.refresh(0);
    let cluster = Arc::new(Mutex::new(cluster));
    let of = cluster.clone();
    let operator = Operator::of_model(move |method, target, body| {
        let answered = of.lock().answer(0, method.as_str(), target, body, &mut |_, _| None);
        Some((answered.status, serde_json::from_slice(&answered.body).unwrap_or_default()))
    });
    (cluster, operator)
}

#[tokio::test(start_paused = true)]
async fn sorted_pages_have_each_document_once_though_the_point_in_time_is_lost() {
    for opensearch in [false, true] {
        let (cluster, operator) = world(opensearch);
        let query = SortedQuery {
            indices: "news-*".into(),
            query: json!({"match_all": {}}),
            order: SortField::Date("cluster_arrival".into()),
            since: None,
            fields: vec!["content".into()],
            slice: Slice::ALL,
        };
        let (mut pages, mut read) = (SortedPages::new(&operator, query, 70), BTreeSet::new());
        while let Some(hits) = pages.next().await.unwrap() {
            for hit in hits {
                assert_eq!(&*hit.source, b"{\"content\":\"text\"}");
                assert!(read.insert((hit.index, hit.id)));
            }
            if read.len() == 140 {
                cluster.lock().lose_points();
            }
        }
        pages.close().await;
        assert_eq!((read.len(), cluster.lock().points()), (450, 0));
        assert_eq!(cluster.lock().unknown, Vec::<String>::new());
    }
}

#[tokio::test]
async fn indices_of_a_route_are_discovered() {
    let (cluster, operator) = world(false);
    let route = BackfillRoute {
        index: vec!["news-*".into()],
        forest: "news".into(),
        method: "longest".into(),
        fields: vec!["content".into()],
        named: Vec::new(),
        clock: "arrival".into(),
        order: Some("cluster_arrival".into()),
    };
    let routes = RouteTable { prefix: "cluster_".into(), routes: vec![route] };
    let found = discover(&operator, &routes, None, None).await.unwrap();
    assert_eq!(found[0].indices, ["news-0", "news-1"]);
    assert_eq!(found[0].order, SortField::Date("cluster_arrival".into()));
    assert_eq!(found[0].count_unstamped(&operator).await.unwrap(), 450);
    assert_eq!(found[0].missing_fields(&operator).await.unwrap(), []);
    assert_eq!(found[0].blocked(&operator).await.unwrap(), None);
    assert_eq!(cluster.lock().unknown, Vec::<String>::new());
}
