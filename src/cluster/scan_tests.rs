use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::super::sorted_pages::StoredHit;
use super::*;

/// A cluster that gives these answers, one a connection; the task ends with what it was asked: head and body.
async fn cluster(answers: Vec<(u16, Value)>) -> (Operator, JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut asked = Vec::new();
        for (status, answer) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let (head, length) = loop {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((head, _)) = text.split_once("\r\n\r\n") {
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    break (head.to_owned(), length.map_or(0, |length| length.parse().unwrap()));
                }
            };
            let mut body = request.split_off(head.len() + 4);
            while body.len() < length {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                body.extend_from_slice(&buffer[..read]);
            }
            let path = head.lines().next().unwrap().to_owned();
            asked.push((path, serde_json::from_slice(&body).unwrap_or_default()));
            let answer = answer.to_string();
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all((head + &answer).as_bytes()).await.unwrap();
        }
        asked
    });
    (Operator::new(&url, None).unwrap(), task)
}

fn wanted() -> ScanRequest {
    ScanRequest {
        indices: vec!["news-*".into()],
        names: StampNames::new("cluster_").unwrap(),
        fields: vec!["content".into()],
        since: None,
    }
}

fn overview(shards: u64, documents: u64) -> (u16, Value) {
    let answer = json!({
        "timed_out": false,
        "_shards": {"total": shards, "failed": 0},
        "hits": {"total": {"value": documents, "relation": "eq"}, "hits": []},
        "aggregations": {"last": {"value": if documents > 0 { json!(1.5e12) } else { Value::Null }}},
    });
    (200, answer)
}

/// A page of documents: arrival and id.
fn page(hits: &[(i64, &str)]) -> (u16, Value) {
    let hits = hits
        .iter()
        .map(|(arrival, id)| json!({"_index": "news-1", "_id": id, "_source": {"content": id}, "sort": [arrival, 7]}));
    let hits: Vec<Value> = hits.collect();
    (200, json!({"pit_id": "next", "timed_out": false, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}}))
}

fn ids(hits: Option<Vec<StoredHit>>) -> Vec<(String, Option<i64>)> {
    let hits = hits.unwrap_or_default().into_iter();
    hits.map(|hit| {
        let source: Value = serde_json::from_slice(&hit.source).unwrap();
        (source["content"].as_str().unwrap().to_owned(), hit.place)
    })
    .collect()
}

fn of(id: &str, arrival: i64) -> (String, Option<i64>) {
    (id.to_owned(), Some(arrival))
}

#[tokio::test]
async fn a_scan_survives_a_busy_cluster_and_a_lost_point_in_time() {
    let lost = json!({"error": {"reason": "No search context found for id [1]"}});
    let (operator, asked) = cluster(vec![
        overview(2, 4),
        (400, json!({"error": "no handler found"})),
        (200, json!({"pit_id": "one"})),
        page(&[(1, "a"), (2, "b")]),
        (404, lost),
        (200, json!({"pit_id": "two"})),
        (429, json!({"error": "too many requests"})),
        // What was read of the last arrival comes once more.
        page(&[(2, "b")]),
        page(&[(2, "c")]),
        // Behind the part of the time that was asked for.
        page(&[]),
        (200, json!({})),
    ])
    .await;
    let mut scan = wanted().pages(&operator, 2).await.unwrap().unwrap();
    assert_eq!(ids(scan.next().await.unwrap()), [of("a", 1), of("b", 2)]);
    assert_eq!(ids(scan.next().await.unwrap()), [of("c", 2)]);
    assert!(scan.next().await.unwrap().is_none());
    let asked = asked.await.unwrap();
    let paths: Vec<&str> = asked.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths[1], "POST /news-*/_pit?keep_alive=5m HTTP/1.1");
    let open = "POST /news-*/_search/point_in_time?keep_alive=5m&allow_partial_pit_creation=false HTTP/1.1";
    assert_eq!(paths[2], open);
    assert_eq!(paths[10], "DELETE /_search/point_in_time HTTP/1.1");
    let body = |at: usize| &asked[at].1;
    assert_eq!(body(3)["_source"], json!(["content", "cluster_root", "cluster_first"]));
    assert_eq!((&body(4)["search_after"], &body(4)["pit"]["id"]), (&json!([2, 7]), &json!("next")));
    let since = body(7).pointer("/query/bool/filter/1/range/cluster_arrival/gte");
    assert_eq!((since, body(7).get("search_after")), (Some(&json!(2)), None));
    let until = |at: usize| {
        body(at)
            .pointer("/query/bool/filter/1/range/cluster_arrival")
            .map(|range| (range["gte"].as_i64(), range["lte"].as_i64()))
    };
    assert_eq!(until(4), Some((Some(2), Some(10))));
    assert_eq!(until(9), Some((Some(11), None)));
    assert_eq!((&body(6)["size"], &body(7)["size"], &body(7)["pit"]["id"]), (&json!(2), &json!(1), &json!("two")));
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    // Nothing tells where to go on.
    let unsorted = json!({"pit_id": "one", "timed_out": false, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": [
        {"_index": "news-1", "_id": "a", "_source": {"content": "a"}, "sort": [i64::MIN, 7]},
    ]}});
    let lost = json!({"error": {"type": "search_context_missing_exception"}});
    let (operator, _) = cluster(vec![overview(1, 2), (200, json!({"id": "one"})), (200, unsorted), (404, lost)]).await;
    let mut scan = wanted().pages(&operator, 1).await.unwrap().unwrap();
    assert_eq!(ids(scan.next().await.unwrap()), [("a".to_owned(), None)]);
    assert!(matches!(scan.next().await, Err(ScanError::Lost)));

    let (operator, _) = cluster(vec![overview(1, 2), (200, json!({"id": "one"})), (403, json!("no"))]).await;
    let mut scan = wanted().pages(&operator, 1).await.unwrap().unwrap();
    let refused = scan.next().await.unwrap_err().to_string();
    assert!(refused.starts_with("the cluster answered 403 to POST /_search"), "{refused}");

    // No index, nothing to read.
    let (operator, _) = cluster(vec![overview(0, 0)]).await;
    assert!(wanted().pages(&operator, 1).await.unwrap().is_none());
}

/// An index may have an `index.max_result_window` below the usual one.
#[tokio::test]
async fn pages_are_no_larger_than_an_index_returns() {
    let too_large = || (400, json!({"error": {"reason": "Result window is too large, it must be at most [50]"}}));
    let (operator, asked) = cluster(vec![
        overview(1, 3),
        (200, json!({"id": "one"})),
        too_large(),
        too_large(),
        page(&[(1, "a"), (2, "b")]),
        (200, json!({})),
    ])
    .await;
    let mut scan = wanted().pages(&operator, 100).await.unwrap().unwrap();
    assert_eq!(ids(scan.next().await.unwrap()), [of("a", 1), of("b", 2)]);
    assert!(scan.next().await.unwrap().is_none());
    // Where not even one document is returned, nothing helps.
    let (operator, _) = cluster(vec![overview(1, 3), (200, json!({"id": "one"})), too_large()]).await;
    let mut scan = wanted().pages(&operator, 1).await.unwrap().unwrap();
    assert!(scan.next().await.unwrap_err().to_string().contains("Result window"));
    let asked = asked.await.unwrap();
    let sizes: Vec<&Value> = asked[2..5].iter().map(|(_, body)| &body["size"]).collect();
    assert_eq!(sizes, [&json!(100), &json!(50), &json!(25)]);
}

#[test]
fn names_in_paths() {
    let names = ["news-*", "a b", ".ds-x_1", "<now/d>"].map(str::to_owned);
    assert_eq!(path_of(&names), "news-*,a%20b,.ds-x_1,%3Cnow%2Fd%3E");
}

/// How an index fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Every request that names it is refused, with this status.
    Refuses(u16),
    /// Some of its shards do not answer.
    Shards,
}

/// The indices that a list of names, patterns and exclusions stands for.
fn matched<'i>(expression: &str, indices: &'i BTreeMap<String, Option<Fault>>) -> Vec<&'i str> {
    let names = percent_encoding::percent_decode_str(expression).decode_utf8_lossy();
    let mut matched: Vec<&str> = Vec::new();
    for name in names.split(',') {
        match name.strip_prefix('-') {
            Some(excluded) => matched.retain(|index| *index != excluded),
            None => {
                let fits = |index: &&str| match name.strip_suffix('*') {
                    Some(prefix) => index.starts_with(prefix),
                    None => *index == name,
                };
                matched.extend(indices.keys().map(String::as_str).filter(fits));
            }
        }
    }
    matched
}

/// A cluster with some indices of ten documents each.
fn cluster_with(indices: BTreeMap<String, Option<Fault>>) -> Operator {
    Operator::of_model(move |_, target, _| {
        let path = target.split('?').next().unwrap_or_default();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let expression = match *segments {
            ["_resolve", "index", expression] => expression,
            [expression, _] => expression,
            _ => return None,
        };
        let found = matched(expression, &indices);
        let faults: Vec<Fault> = found.iter().filter_map(|index| indices[*index]).collect();
        if segments[0] == "_resolve" {
            let open = found.iter().map(|index| json!({"name": index, "attributes": ["open"]}));
            return Some((200, json!({"indices": open.collect::<Vec<_>>()})));
        }
        for fault in &faults {
            if let Fault::Refuses(status) = fault {
                return Some((*status, json!({"error": "made up"})));
            }
        }
        let failed = faults.len();
        let answer = json!({
            "timed_out": false,
            "_shards": {"total": found.len(), "failed": failed},
            "hits": {"total": {"value": (found.len() - failed) * 10, "relation": "eq"}, "hits": []},
            "aggregations": {"last": {"value": null}},
        });
        Some((200, answer))
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    runtime.block_on(future)
}

proptest::proptest! {
    /// With any subset of the indices failing in any way, all others are read, and those that fail are named.
    #[test]
    fn an_index_that_fails_keeps_no_other_from_being_read(
        faults in proptest::collection::vec(proptest::option::of(0_usize..4), 1..6),
        by_name in proptest::bool::ANY,
    ) {
        let kinds = [Fault::Refuses(400), Fault::Refuses(403), Fault::Refuses(503), Fault::Shards];
        let indices = faults.iter().enumerate().map(|(at, fault)| {
            (format!("news-{at}"), fault.map(|fault| kinds[fault]))
        });
        let indices: BTreeMap<String, Option<Fault>> = indices.collect();
        let operator = cluster_with(indices.clone());
        let names = match by_name {
            true => indices.keys().cloned().chain(["news-none".to_owned()]).collect(),
            false => vec!["other-*".to_owned(), "news-*".to_owned()],
        };
        let wanted = ScanRequest { indices: names, ..wanted() };
        let sound: Vec<&String> = indices.iter().filter(|(_, fault)| fault.is_none()).map(|(name, _)| name).collect();
        let failing = || indices.iter().filter(|(_, fault)| fault.is_some()).map(|(name, _)| name);
        let found = match block_on(wanted.readable(&operator)) {
            // All of them may come back: then it is the cluster.
            Err(error) => {
                proptest::prop_assert!(sound.is_empty() && error.is_away(), "{error}");
                return Ok(());
            }
            Ok(found) => found,
        };
        proptest::prop_assert_eq!(found.overview.documents, sound.len() as u64 * 10);
        proptest::prop_assert_eq!(found.overview.has_index, !sound.is_empty());
        let unreadable: Vec<&String> = found.unreadable.iter().map(|it| &it.name).collect();
        proptest::prop_assert_eq!(unreadable, failing().collect::<Vec<_>>());
        // What is read then is exactly the others.
        let read = matched(&path_of(&found.indices), &indices);
        proptest::prop_assert_eq!(&read, &sound);
        let wanted = ScanRequest { indices: found.indices, ..wanted };
        let existing = block_on(wanted.existing(&operator)).unwrap();
        proptest::prop_assert_eq!(matched(&path_of(&existing), &indices), read);
        proptest::prop_assert!(existing.is_empty() == sound.is_empty());
    }
}

/// Neither a wrong password nor a cluster that is away is taken for the fault of one index.
#[tokio::test]
async fn an_error_of_the_whole_cluster_is_no_fault_of_an_index() {
    for status in [401, 429, 502, 504] {
        let indices = [("news-1".to_owned(), Some(Fault::Refuses(status)))];
        let operator = cluster_with(indices.into());
        let error = wanted().readable(&operator).await.unwrap_err();
        assert_eq!(error.is_away(), status != 401, "{error}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let away = Operator::new(&url, None).unwrap();
    assert!(wanted().readable(&away).await.unwrap_err().is_away());
}
