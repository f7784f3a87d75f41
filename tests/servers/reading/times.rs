//! Times are those that the cluster reads, whatever formats a mapping has.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, TIME};
use crate::common::wire::Request;
use crate::common::{SearchServer, Server, on_each_server, unique_index};

on_each_server!(the_times_of_other_mappings);

async fn the_times_of_other_mappings(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--title-field", "title"]);
    let reader = Server::new(&spinney.url);
    let (day, hour) = ("2026-11-01T00:00:00.000Z", "2026-11-02T01:00:00.000Z");
    for (mapping, values, expected) in [
        (json!({"type": "date"}), [json!("2026-11-01"), json!(1_793_581_200_000_i64)], [day, hour]),
        (json!({"type": "date", "format": "epoch_second"}), [json!(1_793_491_200), json!("1793581200")], [day, hour]),
        (
            json!({"type": "date", "format": "yyyyMMdd||dd/MM/yyyy"}),
            [json!("20261101"), json!("02/11/2026")],
            [day, "2026-11-02T00:00:00.000Z"],
        ),
        (
            json!({"type": "date_nanos"}),
            [json!("2026-11-01T00:00:00.123456789Z"), json!("2026-11-01T00:00:00.124Z")],
            ["2026-11-01T00:00:00.123Z", "2026-11-01T00:00:00.124Z"],
        ),
        (json!({"type": "long"}), [json!(1_793_491_200_000_i64), json!(1_793_581_200_000_i64)], [day, hour]),
    ] {
        let index = unique_index("times");
        let properties = json!({
            "cluster_key": {"type": "long"}, "cluster_root": {"type": "keyword"}, (TIME): mapping,
            "title": {"type": "text"},
        });
        server.create_index(&index, json!({"mappings": {"properties": properties}})).await;
        let document = |id: &str, time: Option<&Value>| {
            let mut source = json!({"cluster_key": 9, "cluster_root": corpus::root(9), "title": id});
            if let Some(time) = time {
                source[TIME] = time.clone();
            }
            [json!({"index": {"_id": id}}), source]
        };
        let [first, last] = &values;
        let lines = [document("b", Some(last)), document("a", Some(first)), document("c", None)].concat();
        corpus::bulk(&server, &index, &lines).await;

        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/_spinney/{index}/_roots/{}?size=1&cursor={cursor}", corpus::root(9));
            let (status, page) = reader.request(Method::GET, &path, None).await;
            assert_eq!(status, StatusCode::OK, "{mapping}: {page}");
            found.push((page["hits"][0]["_id"].clone(), page["hits"][0]["time"].clone()));
            match page["next"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        let all = [("a", json!(expected[0])), ("b", json!(expected[1])), ("c", Value::Null)];
        assert_eq!(found, all.map(|(id, time)| (json!(id), time)), "{mapping}");

        let path = format!("/_spinney/{index}/_groups");
        let (status, page) = reader.request(Method::POST, &path, Some(json!({}))).await;
        assert_eq!(status, StatusCode::OK, "{mapping}: {page}");
        let group = &page["groups"][0];
        assert_eq!([&group["first"], &group["last"]], expected, "{mapping}");
        // Sorted by date a group is shown by its newest document.
        let list = Request::json("GET", &format!("/_spinney/ui/{index}?sort=newest"), "").to(&spinney.url);
        let shown = format!("<time datetime=\"{}\">", expected[1]);
        assert!(list.status == 200 && list.text().contains(&shown), "{mapping}: {shown} {}", list.text());
        server.delete_index(&index).await;
    }
}
