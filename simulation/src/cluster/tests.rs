use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::SimCluster;

/// A cluster, and requests to it at a time that is said.
struct World {
    cluster: SimCluster,
    now: i64,
}

impl World {
    fn new() -> World {
        World { cluster: SimCluster::new(), now: 0 }
    }

    /// Status and answer of a request; nothing may be refused for not being modelled.
    fn ask(&mut self, method: &str, target: &str, body: impl ToString) -> (u16, Value) {
        self.ask_with(method, target, body, &mut |_, _| None)
    }

    #[expect(clippy::needless_pass_by_value, reason = "bodies are written where they are sent")]
    fn ask_with(&mut self, method: &str, target: &str, body: impl ToString, refuse: super::Refuse<'_>) -> (u16, Value) {
        let answered = self.cluster.answer(self.now, method, target, body.to_string().as_bytes(), refuse);
        assert_eq!(self.cluster.unknown, Vec::<String>::new());
        (answered.status, serde_json::from_slice(&answered.body).unwrap_or_default())
    }

    /// Stores documents, visible to searches.
    fn fill(&mut self, index: &str, documents: impl IntoIterator<Item = (String, Value)>) {
        for (id, source) in documents {
            assert_eq!(self.ask("PUT", &format!("/{index}/_doc/{id}"), source).0, 201);
        }
        self.cluster.refresh(self.now);
    }

    fn ids(&mut self, target: &str, body: &Value) -> Vec<String> {
        let (status, answer) = self.ask("POST", target, body);
        assert_eq!(status, 200, "{answer}");
        ids(&answer)
    }
}

fn ids(answer: &Value) -> Vec<String> {
    answer["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect()
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_document_is_realtime_by_its_id_and_found_when_it_is_refreshed() {
    let mut world = World::new();
    world.now = 100;
    assert_eq!(world.ask("PUT", "/news/_doc/a", json!({"n": 1})).0, 201);
    world.now = 200;
    assert_eq!(world.ask("PUT", "/news/_doc/b", json!({"n": 2})).0, 201);
    assert_eq!(world.ask("GET", "/news/_doc/b", "").1["_source"], json!({"n": 2}));
    let got = world.ask("POST", "/news/_mget?_source=false", json!({"ids": ["a", "c"]})).1;
    assert_eq!((&got["docs"][0]["found"], &got["docs"][1]["found"]), (&json!(true), &json!(false)));
    assert!(world.ids("/news/_search", &json!({})).is_empty());
    world.cluster.refresh(100);
    assert_eq!(world.ids("/news/_search", &json!({})), ["a"]);
    world.ask("POST", "/news/_refresh", "");
    assert_eq!(world.ids("/news/_search", &json!({})), ["a", "b"]);
    world.ask("DELETE", "/news/_doc/a", "");
    assert_eq!(world.ask("GET", "/news/_doc/a", "").0, 404);
    assert_eq!(world.ids("/news/_search", &json!({})), ["a", "b"]);
    world.ask("PUT", "/news/_doc/c?refresh=wait_for", json!({}));
    assert_eq!(world.ids("/news/_search", &json!({})), ["b", "c"]);
}

#[test]
fn a_write_over_another_state_than_was_read_is_a_conflict() {
    let mut world = World::new();
    world.fill("news", [("a".into(), json!({"n": 1}))]);
    let update = |seq_no: u64| {
        lines(&[
            json!({"update": {"_index": "news", "_id": "a", "if_seq_no": seq_no, "if_primary_term": 1}}),
            json!({"doc": {"m": 1}}),
        ])
    };
    let answer = world.ask("POST", "/_bulk", update(7)).1;
    assert_eq!(answer["items"][0]["update"]["status"], 409, "{answer}");
    assert_eq!(answer["items"][0]["update"]["error"]["type"], "version_conflict_engine_exception");
    let answer = world.ask("POST", "/_bulk", update(0)).1;
    let done = &answer["items"][0]["update"];
    assert_eq!((&done["status"], &done["_version"], &done["_seq_no"]), (&json!(200), &json!(2), &json!(1)));
    // The same once more changes nothing.
    let same = lines(&[json!({"update": {"_index": "news", "_id": "a"}}), json!({"doc": {"m": 1}})]);
    let answer = world.ask("POST", "/_bulk", same).1;
    assert_eq!((&answer["items"][0]["update"]["result"], &answer["errors"]), (&json!("noop"), &json!(false)));
    // Nor does a change to nothing of what was there before.
    let answer = world.ask("POST", "/_bulk", update(0)).1;
    assert_eq!(answer["items"][0]["update"]["status"], 409, "{answer}");
    assert_eq!(world.cluster.stored("news")["a"], (json!({"n": 1, "m": 1}), 1));
    assert_eq!(world.ask("PUT", "/news/_create/a", json!({})).0, 409);
    assert_eq!(
        world.ask("POST", "/news/_update/none", json!({"doc": {}})).1["error"]["type"],
        "document_missing_exception"
    );
}

#[test]
fn a_bulk_is_answered_item_by_item() {
    let mut world = World::new();
    let body = lines(&[
        json!({"index": {"_index": "news", "_id": "a"}}),
        json!({"n": 1}),
        json!({"create": {"_index": ".hidden", "_id": "a"}}),
        json!({}),
        json!({"index": {"_index": "news", "_id": "busy"}}),
        json!({}),
        json!({"delete": {"_index": "news", "_id": "none"}}),
        json!({"index": {"_index": "news"}}),
        json!({"n": "no number"}),
        json!({"update": {"_index": "news", "_id": "u"}}),
        json!({"doc": {"n": 3}, "doc_as_upsert": true}),
    ]);
    let (status, answer) = world.ask_with("POST", "/_bulk", &body, &mut |_, id| (id == "busy").then_some(429));
    let items = answer["items"].as_array().unwrap();
    let statuses: Vec<&Value> =
        items.iter().map(|item| &item.as_object().unwrap().values().next().unwrap()["status"]).collect();
    assert_eq!(
        (status, statuses),
        (200, vec![&json!(201), &json!(404), &json!(429), &json!(404), &json!(400), &json!(201)])
    );
    assert_eq!(
        items[0].to_string(),
        concat!(
            r#"{"index":{"_index":"news","_id":"a","_version":1,"result":"created","#,
            r#""_shards":{"total":1,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1,"status":201}}"#
        )
    );
    assert_eq!(world.cluster.stored("news").into_keys().collect::<Vec<_>>(), ["a", "u"]);
    let answer = world.ask("POST", "/_bulk?filter_path=errors,items.*.status", &body).1;
    assert_eq!(answer["items"][0], json!({"index": {"status": 200}}));
    assert_eq!(answer.as_object().unwrap().len(), 2);
}

#[test]
fn a_body_that_breaks_the_protocol_is_refused_as_a_whole() {
    let mut world = World::new();
    for body in ["", "\n", "{\"index\":{\"_index\":\"a\"}}\n{}", "{\"put\":{}}\n{}\n", "{\"index\":{}}\n{}\n"] {
        assert_eq!(world.ask("POST", "/_bulk", body).0, 400, "{body}");
    }
    let twice = "{\"index\":{\"_index\":\"news\",\"_id\":\"a\"}}\n{\"n\":1,\"n\":2}\n";
    let answer = world.ask("POST", "/_bulk", twice).1;
    assert_eq!(answer["items"][0]["index"]["status"], 400, "{answer}");
    assert!(world.cluster.stored("news").is_empty());
}

#[test]
fn a_point_in_time_stays_as_it_was_and_expires() {
    let mut world = World::new();
    world.fill("news", [("a".into(), json!({})), ("b".into(), json!({}))]);
    let (_, opened) = world.ask("POST", "/news/_pit?keep_alive=5m", "");
    world.ask("DELETE", "/news/_doc/a?refresh=true", "");
    let search = json!({"pit": {"id": opened["id"], "keep_alive": "5m"}});
    assert_eq!(world.ids("/_search", &search), ["a", "b"]);
    assert_eq!(world.ids("/news/_search", &json!({})), ["b"]);
    world.now += 299_999;
    assert_eq!(world.ids("/_search", &search), ["a", "b"]);
    world.ask("POST", "/news/_pit?keep_alive=1h", "");
    world.cluster.lose_points();
    let (_, opened) = world.ask("POST", "/news/_pit?keep_alive=5m", "");
    let search = json!({"pit": {"id": opened["id"], "keep_alive": "5m"}});
    assert_eq!(world.ids("/_search", &search), ["b"]);
    world.now += 300_000;
    let (status, lost) = world.ask("POST", "/_search", &search);
    assert_eq!((status, &lost["error"]["type"]), (404, &json!("search_context_missing_exception")));
    let (_, opened) = world.ask("POST", "/news/_pit?keep_alive=5m", "");
    assert_eq!(world.cluster.points(), 1);
    assert_eq!(world.ask("DELETE", "/_pit", json!({"id": opened["id"]})).0, 200);
    assert_eq!(world.cluster.points(), 0);
}

/// Documents of two indices, some without a date and some of the same.
fn dated() -> World {
    let mut world = World::new();
    for (index, from) in [("news-1", 0), ("news-2", 20)] {
        world.ask("PUT", &format!("/{index}"), json!({"mappings": {"properties": {"at": {"type": "date"}}}}));
        world.fill(
            index,
            (from..from + 20).map(|n| {
                let source = if n % 5 == 0 { json!({}) } else { json!({"at": n / 3}) };
                (format!("{n:02}"), source)
            }),
        );
    }
    world
}

#[test]
fn pages_and_slices_have_each_document_once() {
    let mut world = dated();
    let (_, opened) = world.ask("POST", "/news-*/_pit?keep_alive=5m", "");
    let mut all = BTreeSet::new();
    for slice in 0..3 {
        let mut after = Value::Null;
        loop {
            let mut body = json!({
                "size": 3, "pit": {"id": opened["id"]}, "slice": {"id": slice, "max": 3}, "track_total_hits": false,
                "sort": [{"at": {"order": "asc", "missing": "_first", "unmapped_type": "date"}}, {"_shard_doc": "asc"}],
            });
            if !after.is_null() {
                body["search_after"] = after.clone();
            }
            let answer = world.ask("POST", "/_search", &body).1;
            let hits = answer["hits"]["hits"].as_array().unwrap();
            let Some(last) = hits.last() else { break };
            for hit in hits {
                assert!(after.is_null() || after[0].as_i64() <= hit["sort"][0].as_i64(), "{hit}");
                assert!(all.insert(hit["_id"].to_string()), "{hit}");
            }
            after = last["sort"].clone();
        }
    }
    assert_eq!(all.len(), 40);
    let first = world.ask("POST", "/news-1/_search", json!({"size": 1, "sort": [{"at": {"missing": "_first"}}]})).1;
    assert_eq!(first["hits"]["hits"][0]["sort"], json!([i64::MIN]));
}

#[test]
fn queries_find_what_they_say() {
    let mut world = dated();
    world.fill(
        "other",
        [
            ("x".into(), json!({"a": {"b": ["one", "two"]}, "a.c": 7, "day": "2026-11-24T10:00:00Z"})),
            ("y".into(), json!({"a": {"b": "three"}, "day": "2026-11-25"})),
        ],
    );
    let mut found = |query: Value| world.ids("/*/_search", &json!({"query": query, "_source": false, "size": 3}));
    assert_eq!(found(json!({"term": {"a.b": "two"}})), ["x"]);
    assert_eq!(found(json!({"terms": {"a.b": ["two", "three"]}})), ["x", "y"]);
    assert_eq!(found(json!({"range": {"a.c": {"gte": 7, "lt": 8}}})), ["x"]);
    assert_eq!(found(json!({"range": {"day": {"gt": 1_795_514_400_000_i64, "format": "epoch_millis"}}})), ["y"]);
    assert_eq!(
        found(json!({"bool": {"filter": [{"exists": {"field": "a"}}], "must_not": [{"ids": {"values": ["x"]}}]}})),
        ["y"]
    );
    assert_eq!(found(json!({"bool": {"filter": [{"terms": {"_index": ["other"]}}, {"match_all": {}}]}})), ["x", "y"]);
    let nothing_or_y = json!({"bool": {"should": [{"term": {"a.b": "none"}}, {"term": {"_id": "y"}}]}});
    assert_eq!(found(nothing_or_y), ["y"]);
    assert_eq!(found(json!({"wildcard": {"a.b": "t*e"}})), ["y"]);
    assert_eq!(found(json!({"range": {"at": {"gte": 12, "lte": 12}}})), ["36", "37", "38"]);
    let answer =
        world.cluster.answer(0, "POST", "/other/_search", br#"{"query":{"match":{"a":"b"}}}"#, &mut |_, _| None);
    assert_eq!((answer.status, world.cluster.unknown.len()), (400, 1));
}

#[test]
fn sources_are_shown_in_part() {
    let mut world = World::new();
    world.fill("news", [("a".into(), json!({"a": {"b": 1, "c": 2}, "d.e": 3, "f": 4}))]);
    let mut shown = |wanted: Value| {
        let answer = world.ask("POST", "/news/_search", json!({ "_source": wanted })).1;
        answer["hits"]["hits"][0]["_source"].clone()
    };
    assert_eq!(shown(json!(["a.b", "d.e"])), json!({"a": {"b": 1}, "d.e": 3}));
    assert_eq!(shown(json!({"excludes": ["a.*", "f"]})), json!({"a": {}, "d.e": 3}));
    assert_eq!(shown(json!(false)), Value::Null);
    assert_eq!(world.ask("GET", "/news/_doc/a?_source_includes=f", "").1["_source"], json!({"f": 4}));
}

#[test]
fn the_later_count_of_a_roots_index_wins() {
    let mut world = World::new();
    assert_eq!(world.ask("PUT", "/spinney-roots-news", json!({})).0, 200);
    let again = world.ask("PUT", "/spinney-roots-news", json!({}));
    assert_eq!((again.0, &again.1["error"]["type"]), (400, &json!("resource_already_exists_exception")));
    let mut write = |op: &str, version: i64, n: u64| {
        let action = json!({op: {"_id": "7", "version": version, "version_type": "external_gte"}});
        let source = json!({"cluster_key": 7, "cluster_root": "0000000000000007", "n": n});
        let body = if op == "delete" { lines(&[action]) } else { lines(&[action, source]) };
        let answer = world.ask("POST", "/spinney-roots-news/_bulk?filter_path=items.*.status", body).1;
        answer["items"][0][op]["status"].as_u64().unwrap()
    };
    assert_eq!(write("index", 10, 2), 201);
    assert_eq!(write("index", 9, 3), 409);
    assert_eq!(write("index", 10, 4), 200);
    assert_eq!(write("delete", 12, 0), 200);
    // The version of the deleted entry counts.
    assert_eq!(write("index", 11, 5), 409);
    assert_eq!(write("delete", 12, 0), 404);
    assert_eq!(write("index", 13, 6), 201);
    world.cluster.refresh(0);
    let body = json!({
        "size": 10, "version": true, "sort": [{"cluster_key": "asc"}],
        "query": {"bool": {"filter": [{"range": {"cluster_key": {"gte": i64::MIN, "lte": i64::MAX}}}]}},
    });
    let answer = world.ask("POST", "/spinney-roots-news/_search", &body).1;
    let hit = &answer["hits"]["hits"][0];
    assert_eq!((&hit["_version"], &hit["_source"]["n"], &hit["sort"]), (&json!(13), &json!(6), &json!([7])));
    // Its mapping is strict, and no pattern finds it.
    assert_eq!(world.ask("PUT", "/spinney-roots-news/_doc/1", json!({"x": 1})).0, 400);
    assert_eq!(world.ids("/*/_search", &json!({})), Vec::<String>::new());
}

#[test]
fn groups_are_counted_with_their_latest_arrival() {
    let mut world = World::new();
    let documents = (0..10_i64).map(|n| {
        let key = if n < 9 { n % 3 - 1 } else { i64::MAX };
        (n.to_string(), json!({"cluster_key": key, "cluster_arrival": 1_000 * n, "medium": format!("m{}", n % 2)}))
    });
    world.fill("news", documents);
    let body = json!({"size": 0, "track_total_hits": true, "aggs": {"groups": {
        "terms": {"field": "cluster_key", "min_doc_count": 2, "size": 2},
        "aggs": {"last": {"max": {"field": "cluster_arrival"}}, "media": {"cardinality": {"field": "medium"}}},
    }}});
    let answer = world.ask("POST", "/news/_search", &body).1;
    assert_eq!(answer["hits"]["total"], json!({"value": 10, "relation": "eq"}));
    let groups = &answer["aggregations"]["groups"];
    assert_eq!((&groups["doc_count_error_upper_bound"], &groups["sum_other_doc_count"]), (&json!(0), &json!(3)));
    let told = |at: usize| {
        let bucket = &groups["buckets"][at];
        (
            bucket["key"].as_i64(),
            bucket["doc_count"].as_u64(),
            bucket["last"]["value"].as_f64(),
            bucket["media"]["value"].as_u64(),
        )
    };
    assert_eq!(told(0), (Some(-1), Some(3), Some(6_000.0), Some(2)));
    assert_eq!(told(1), (Some(0), Some(3), Some(7_000.0), Some(2)));
    let body = json!({
        "size": 9, "collapse": {"field": "cluster_key"},
        "sort": [{"cluster_arrival": {"order": "desc"}}], "_source": false,
    });
    assert_eq!(world.ids("/news/_search", &body), ["9", "8", "7", "6"]);
}

#[test]
fn names_stand_for_indices() {
    let mut world = World::new();
    for index in ["news-1", "news-2", "other", ".hidden"] {
        world.cluster.create_index(index);
    }
    assert_eq!(world.cluster.indices(), [".hidden", "news-1", "news-2", "other"]);
    world.ask("PUT", "/news-2/_alias/latest", "");
    let mut names = |expression: &str| {
        let answer = world.ask("GET", &format!("/{expression}/_settings?filter_path=*.settings.index.uuid"), "").1;
        answer.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("*"), "news-1 news-2 other");
    assert_eq!(names("news-*,-news-1"), "news-2");
    assert_eq!(names("latest,other"), "news-2 other");
    assert_eq!(names(".hid*"), ".hidden");
    assert_eq!(world.ask("GET", "/none/_settings", "").0, 404);
    assert_eq!(world.ask("GET", "/none/_settings?ignore_unavailable=true", "").0, 200);
    let resolved = world.ask("GET", "/_resolve/index/latest", "").1;
    assert_eq!((&resolved["indices"], &resolved["aliases"][0]["indices"]), (&json!([]), &json!("news-2")));
    assert_eq!(world.ask("GET", "/_alias/none", "").0, 404);
    assert_eq!(world.ask("POST", "/latest/_doc", json!({})).1["_index"], "news-2");
    let mapping = world.ask("GET", "/news-1/_mapping", "").1;
    assert_eq!(mapping["news-1"]["mappings"]["properties"]["cluster_key"], json!({"type": "long"}));
    world.ask("PUT", "/other/_settings", json!({"index.blocks.write": true}));
    assert_eq!(world.ask("PUT", "/other/_doc/1", json!({})).1["error"]["type"], "cluster_block_exception");
}

#[test]
fn what_is_not_modelled_is_named() {
    let mut cluster = SimCluster::new();
    let answer = cluster.answer(0, "GET", "/_cat/allocation?format=json", b"", &mut |_, _| None);
    let answered: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &answered["status"]), (400, &json!(400)));
    assert!(answered["error"]["reason"].as_str().unwrap().starts_with("no handler found for uri"), "{answered}");
    assert_eq!(cluster.unknown.len(), 1);
    // The product finds out which API points in time have.
    cluster.opensearch = true;
    cluster.create_index("news");
    assert_eq!(cluster.answer(0, "POST", "/news/_pit?keep_alive=1m", b"", &mut |_, _| None).status, 400);
    assert_eq!(
        cluster.answer(0, "POST", "/news/_search/point_in_time?keep_alive=1m", b"", &mut |_, _| None).status,
        200
    );
    assert_eq!(cluster.unknown.len(), 1);
}
