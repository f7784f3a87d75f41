//! The first document of each group in front of real servers: which flag a write gets, and that each group has one
//! again after whatever was done to its documents.

use std::collections::BTreeMap;
use std::fmt::Write;

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::twin::text;
use crate::common::wire::Request;
use crate::common::{SearchServer, Server, Spinney, Waiting, on_each_server, spinney_command, unique_index};

/// Indices of one forest, and a spinney in front of them.
struct Scene {
    server: Server,
    spinney: Spinney,
    base: String,
}

impl Scene {
    async fn new(search_server: &SearchServer, label: &str, more: &[&str]) -> Scene {
        let (upstream, base) = (search_server.url(), unique_index(label));
        let pattern = format!("{base}-*");
        let mut args = vec!["--upstream", &upstream, "--index", &pattern, "--text-field", "content"];
        args.extend(["--method", "longest"]);
        if !more.contains(&"--counts") {
            args.extend(["--counts", "on"]);
        }
        args.extend(more);
        let (server, spinney) = (Server::new(&upstream), Spinney::start(&args));
        let scene = Scene { server, spinney, base };
        for part in ["a", "b"] {
            scene.create(part, json!({})).await;
        }
        scene
    }

    fn index(&self, part: &str) -> String {
        format!("{}-{part}", self.base)
    }

    async fn create(&self, part: &str, settings: Value) {
        self.create_mapped(part, settings, |_| {}).await;
    }

    async fn create_mapped(&self, part: &str, settings: Value, change: impl FnOnce(&mut Value)) {
        let mut mappings = json!({"dynamic": false, "properties": {
            "content": {"type": "text"}, "media": {"type": "keyword"},
            "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
            "cluster_arrival": {"type": "date"}, "cluster_first": {"type": "boolean"},
        }});
        change(&mut mappings);
        let mut all = json!({"number_of_shards": 2, "number_of_replicas": 0});
        for (name, value) in settings.as_object().unwrap() {
            all[name] = value.clone();
        }
        self.server.create_index(&self.index(part), json!({"settings": all, "mappings": mappings})).await;
    }

    /// Writes one document of a text through spinney. Answers what became of it.
    fn write(&self, part: &str, id: Option<&str>, number: usize) -> Value {
        let index = self.index(part);
        let action = match id {
            Some(id) => json!({"index": {"_index": index, "_id": id}}),
            None => json!({"index": {"_index": index}}),
        };
        let source = json!({"content": text(number), "media": format!("m{}", number % 2), "vector": "v"});
        let answer = Request::bulk("/_bulk", format!("{action}\n{source}\n")).to(&self.spinney.url);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["items"][0]["index"].clone()
    }

    /// Sends a request past spinney, which must succeed.
    async fn direct(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.server.request(method, path, body).await;
        assert!(status.is_success(), "{path}: {answer}");
        answer
    }

    async fn delete(&self, part: &str, id: &str) {
        self.direct(Method::DELETE, &format!("/{}/_doc/{id}", self.index(part)), None).await;
    }

    /// The stored documents by group: whether each is first, by its index' last letter and its id.
    async fn groups(&self) -> BTreeMap<i64, BTreeMap<String, bool>> {
        let all = format!("{}-*", self.base);
        self.server.refresh(&all).await;
        let body = json!({"size": 10_000, "_source": ["cluster_key", "cluster_first"]});
        let found = self.direct(Method::POST, &format!("/{all}/_search"), Some(body)).await;
        let mut groups: BTreeMap<i64, BTreeMap<String, bool>> = BTreeMap::new();
        for hit in found["hits"]["hits"].as_array().unwrap() {
            let part = hit["_index"].as_str().unwrap().rsplit('-').next().unwrap();
            let name = format!("{part}/{}", hit["_id"].as_str().unwrap());
            let source = &hit["_source"];
            let key = source["cluster_key"].as_i64().unwrap();
            groups.entry(key).or_default().insert(name, source["cluster_first"] == true);
        }
        groups
    }

    /// Waits until exactly these documents are first, one in each group.
    async fn until_first(&self, expected: &[&str]) {
        let waiting = Waiting::until(&format!("the first documents are {expected:?}"));
        loop {
            let groups = self.groups().await;
            let firsts = |group: &BTreeMap<String, bool>| group.values().filter(|first| **first).count();
            let all = groups.values().flatten().filter(|(_, first)| **first);
            let mut all: Vec<&str> = all.map(|(name, _)| &**name).collect();
            all.sort_unstable();
            if groups.values().all(|group| firsts(group) == 1) && all == expected {
                return;
            }
            waiting.pause().await;
        }
    }

    /// Waits until the forest remembers what is stored.
    async fn settled(&self) {
        let waiting = Waiting::until("nothing waits");
        while self.status()["waiting"] != 0 {
            waiting.pause().await;
        }
    }

    fn status(&self) -> Value {
        crate::common::twin::stats_now(&self.spinney.url)["firsts"].clone()
    }

    async fn end(self) {
        let all = self.direct(Method::GET, &format!("/{}-*/_settings", self.base), None).await;
        for index in all.as_object().unwrap().keys() {
            self.server.delete_index(index).await;
            // Where groups were counted, there is one.
            self.server.request(Method::DELETE, &format!("/spinney-roots-{index}"), None).await;
        }
    }
}

on_each_server!(each_group_has_one_first_document_again);

/// One after the other, in groups of their own: deleted, moved by another text, written past spinney, in an index that
/// takes no writes, merged.
async fn each_group_has_one_first_document_again(search_server: SearchServer) {
    let scene = Scene::new(&search_server, "first", &[]).await;
    // 1: its first is deleted. 2: it gets the text of another group. 3: a copy is written past spinney. 4: its first
    // is in an index that takes no writes. 5: nothing happens, and it is sent again.
    for number in 1..=5 {
        scene.write("a", Some(&format!("{number}1")), number);
        scene.write("b", Some(&format!("{number}2")), number);
        scene.write("a", Some(&format!("{number}3")), number);
    }
    let begin = ["a/11", "a/21", "a/31", "a/41", "a/51"];
    scene.until_first(&begin).await;
    assert_eq!(scene.status()["elected"], 0, "{}", scene.status());

    scene.delete("a", "11").await;
    scene.write("a", Some("21"), 5);
    let copied = scene.direct(Method::GET, &format!("/{}/_doc/31", scene.index("a")), None).await;
    let path = format!("/{}/_doc/34", scene.index("b"));
    scene.direct(Method::PUT, &path, Some(copied["_source"].clone())).await;
    scene.until_first(&["a/31", "a/41", "a/51", "b/12", "b/22"]).await;
    // The forest remembers it: sent again it stays, and the others are none.
    scene.settled().await;
    for (part, id, number) in [("b", "12", 1), ("a", "13", 1), ("a", "51", 5), ("a", "21", 5), ("b", "22", 2)] {
        scene.write(part, Some(id), number);
    }
    let groups = scene.groups().await;
    let first = |name: &str| groups.values().find_map(|group| group.get(name)).copied();
    assert_eq!(first("b/12"), Some(true), "{groups:?}");
    assert_eq!([first("a/13"), first("a/21"), first("a/51"), first("b/22")], [false, false, true, true].map(Some));

    // What cannot be cleared stays, and another is.
    let block = json!({"index.blocks.write": true});
    scene.direct(Method::PUT, &format!("/{}/_settings", scene.index("b")), Some(block)).await;
    let copied = scene.direct(Method::GET, &format!("/{}/_doc/22", scene.index("b")), None).await;
    let path = format!("/{}/_doc/20", scene.index("a"));
    let mut earlier = copied["_source"].clone();
    earlier["cluster_arrival"] = "2020-01-01T00:00:00.000Z".into();
    scene.direct(Method::PUT, &path, Some(earlier)).await;
    scene.delete("a", "41").await;
    // The earliest of group 4 is in the index that takes no writes: the next is elected.
    scene.until_first(&["a/31", "a/43", "a/51", "b/12", "b/22"]).await;
    let block = json!({"index.blocks.write": false});
    scene.direct(Method::PUT, &format!("/{}/_settings", scene.index("b")), Some(block)).await;
    scene.end().await;
}

on_each_server!(other_mappings_hold_nobody_up);

/// An index that excludes fields from its source loses none of them, and one with another field of the flag's name is
/// left out.
async fn other_mappings_hold_nobody_up(search_server: SearchServer) {
    let scene = Scene::new(&search_server, "mappings", &[]).await;
    scene
        .create_mapped("partial", json!({}), |mappings| {
            mappings["_source"] = json!({"excludes": ["vector"]});
            mappings["properties"]["vector"] = json!({"type": "keyword"});
        })
        .await;
    scene
        .create_mapped("other", json!({}), |mappings| {
            mappings["properties"]["cluster_first"] = json!({"type": "long"});
        })
        .await;
    for (part, id, number) in [("a", "1", 1), ("b", "2", 1), ("partial", "3", 2), ("partial", "4", 2)] {
        assert_eq!(scene.write(part, Some(id), number)["result"], "created");
    }
    scene.delete("a", "1").await;
    scene.delete("partial", "3").await;
    let waiting = Waiting::until("another document is first, and all have been searched since");
    let mut since = None;
    loop {
        let is_first = scene.groups().await.values().any(|group| group.get("b/2") == Some(&true));
        let scans = scene.status()["scans"].as_u64().unwrap();
        if is_first && scans >= *since.get_or_insert(scans) + 2 {
            break;
        }
        waiting.pause().await;
    }
    let has_vector = json!({"query": {"exists": {"field": "vector"}}});
    let path = format!("/{}/_count", scene.index("partial"));
    assert_eq!(scene.direct(Method::POST, &path, Some(has_vector)).await["count"], 1);
    let left_out = scene.status()["left_out"].to_string();
    assert!(left_out.contains(&scene.index("other")), "{left_out}");
    scene.end().await;
}

on_each_server!(an_id_in_several_indices_means_several_documents);

/// Through an alias that is rolled over, and in indices that are named: none of them becomes first by being sent again.
async fn an_id_in_several_indices_means_several_documents(search_server: SearchServer) {
    let scene = Scene::new(&search_server, "ids", &[]).await;
    let alias = scene.index("alias");
    let switch = async |part: &str| {
        let remove = json!({"remove": {"index": scene.index("*"), "alias": alias}});
        let add = json!({"add": {"index": scene.index(part), "alias": alias}});
        let actions = match part {
            "a" => json!({"actions": [add]}),
            _ => json!({"actions": [remove, add]}),
        };
        scene.direct(Method::POST, "/_aliases", Some(actions)).await;
    };
    switch("a").await;
    let send = || (1..=5).for_each(|number| drop(scene.write("alias", Some(&number.to_string()), number)));
    send();
    let first: Vec<String> = (1..=5).map(|number| format!("a/{number}")).collect();
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    scene.until_first(&first).await;
    switch("b").await;
    // Nobody knows of the first one that it goes elsewhere.
    send();
    scene.until_first(&first).await;
    scene.settled().await;
    for _ in 0..3 {
        send();
        let groups = scene.groups().await;
        let all = groups.values().flatten().filter(|(_, first)| **first).map(|(name, _)| &**name);
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>(), first.iter().copied().collect());
    }
    scene.end().await;
}

/// Whether the server has the usual processors of ingest pipelines; the Elasticsearch of the tests is without modules.
async fn has_processors(search_server: &SearchServer) -> bool {
    let server = Server::new(&search_server.url());
    let (_, nodes) = server.request(Method::GET, "/_nodes/ingest", None).await;
    nodes.to_string().contains(r#"{"type":"drop"}"#)
}

on_each_server!(a_pipeline_keeps_the_first_of_each_group);

/// Copies are dropped by the server, and when the first one is deleted the next copy is stored.
async fn a_pipeline_keeps_the_first_of_each_group(search_server: SearchServer) {
    if !has_processors(&search_server).await {
        return;
    }
    let scene = Scene::new(&search_server, "drops", &[]).await;
    let name = scene.index("only-first");
    let drop = json!({"processors": [{"drop": {"if": "ctx.cluster_first == false"}}]});
    scene.direct(Method::PUT, &format!("/_ingest/pipeline/{name}"), Some(drop)).await;
    scene.create("c", json!({"default_pipeline": name})).await;
    assert_eq!(scene.write("c", Some("1"), 1)["result"], "created");
    for id in ["2", "3"] {
        assert_eq!(scene.write("c", Some(id), 1)["result"], "noop");
    }
    assert_eq!(scene.write("c", Some("1"), 1)["result"], "updated");
    assert_eq!(scene.write("c", None, 1)["result"], "noop");
    assert_eq!(scene.write("c", Some("9"), 2)["result"], "created");
    scene.until_first(&["c/1", "c/9"]).await;
    scene.delete("c", "9").await;
    // Nothing of the group is stored: the first copy that comes then finds that out, and a later one is stored.
    let waiting = Waiting::until("a copy is stored");
    while scene.write("c", Some("8"), 2)["result"] == "noop" {
        waiting.pause().await;
    }
    assert_eq!(scene.write("c", Some("7"), 2)["result"], "noop");
    scene.until_first(&["c/1", "c/8"]).await;
    scene.direct(Method::DELETE, &format!("/_ingest/pipeline/{name}"), None).await.to_string();
    scene.end().await;
}

on_each_server!(an_index_of_before_there_was_the_field);

/// Its groups stay as they are until a backfill; then each has one first document.
async fn an_index_of_before_there_was_the_field(search_server: SearchServer) {
    let scene = Scene::new(&search_server, "older", &["--counts", "off"]).await;
    for number in 1..=40 {
        for id in 0..=number % 4 {
            scene.write(if id % 2 == 0 { "a" } else { "b" }, Some(&format!("{number}-{id}")), number);
        }
    }
    let all = format!("{}-*", scene.base);
    scene.server.refresh(&all).await;
    let body = json!({"size": 1_000});
    let found = scene.direct(Method::POST, &format!("/{all}/_search"), Some(body)).await;
    let mut lines = String::new();
    for hit in found["hits"]["hits"].as_array().unwrap() {
        let mut source = hit["_source"].clone();
        source.as_object_mut().unwrap().remove("cluster_first").unwrap();
        let _ = writeln!(lines, "{}", json!({"index": {"_index": hit["_index"], "_id": hit["_id"]}}));
        let _ = writeln!(lines, "{source}");
    }
    assert_eq!(Request::bulk("/_bulk?refresh=true", lines).to(scene.server.url()).json()["errors"], false);
    let run = |command: &str| {
        let done = spinney_command().args([command, "--spinney-url", &scene.spinney.url]).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
    };
    let says = run("verify");
    assert!(says.contains("100 documents have a stamp that does not say"), "{says}");
    let says = run("backfill");
    assert!(says.contains("100 documents say now whether they are the first of their group; 0 do not"), "{says}");
    let groups = scene.groups().await;
    assert_eq!(groups.len(), 40);
    for group in groups.values() {
        let firsts: Vec<&String> = group.iter().filter(|(_, first)| **first).map(|(name, _)| name).collect();
        assert!(matches!(&firsts[..], [one] if one.ends_with("-0")), "{group:?}");
    }
    let says = run("backfill");
    assert!(!says.contains("documents say now"), "{says}");
    scene.end().await;
}

/// A request of docs/recipes/one-of-each-story.md.
struct RecipeRequest {
    method: Method,
    path: String,
    body: Value,
}

/// All of them, about the indices of a scene.
fn recipes(scene: &Scene) -> Vec<RecipeRequest> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recipes/one-of-each-story.md");
    let page = std::fs::read_to_string(page).unwrap().replace("news-1", &scene.index("a"));
    let blocks = page.split("```http\n").skip(1).map(|block| block.split("```").next().unwrap());
    let request = |block: &str| {
        let (line, body) = block.split_once('\n').unwrap();
        let (method, path) = line.split_once(' ').unwrap();
        RecipeRequest {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            body: serde_json::from_str(body).unwrap(),
        }
    };
    blocks.map(request).collect()
}

on_each_server!(the_recipes_do_what_they_say);

/// docs/recipes/one-of-each-story.md, request by request.
async fn the_recipes_do_what_they_say(search_server: SearchServer) {
    let scene = Scene::new(&search_server, "recipes", &[]).await;
    let index = scene.index("a");
    let requests = recipes(&scene);
    let [list, facets, alias, knn, first_only, apart, marked, growing, grown] = &requests[..] else {
        panic!("{} requests", requests.len());
    };
    let run = async |request: &RecipeRequest| {
        scene.direct(request.method.clone(), &request.path, Some(request.body.clone())).await
    };
    assert_eq!(scene.write("a", Some("0"), 0)["result"], "created");
    if has_processors(&search_server).await {
        copies_in_pipelines(&scene, [first_only, apart, marked]).await;
    }
    // 30 documents of 3 stories in the index of the page: one story has 25 of them.
    for id in 2..28 {
        scene.write("a", Some(&id.to_string()), if id < 26 { 7 } else { 8 });
    }
    scene.write("a", Some("28"), 8);
    scene.server.refresh(&index).await;
    let mut listed = list.body.clone();
    listed["query"]["bool"]["must"] = json!([{"match_all": {}}]);
    let path = &list.path;
    let found = scene.direct(Method::POST, path, Some(listed)).await;
    assert_eq!(found["hits"]["total"]["value"], 3, "{found}");
    assert_eq!(run(list).await["hits"]["total"]["value"], 0);
    let found = run(facets).await["aggregations"].clone();
    let buckets = |of: &Value| of["buckets"].as_array().unwrap().clone();
    let stories = |of: &Value| buckets(of).iter().map(|bucket| bucket["doc_count"].as_u64().unwrap()).sum::<u64>();
    assert_eq!([stories(&found["media"]), stories(&found["days"])], [3, 3], "{found}");
    run(alias).await;
    let count = scene.direct(Method::GET, &format!("/stories-{index}/_count"), None).await;
    assert_eq!(count["count"], 3);
    let found = buckets(&run(grown).await["aggregations"]["stories"]);
    assert!(matches!(&found[..], [one] if one["doc_count"] == 24), "{found:?}");
    let waiting = Waiting::until("the story has been counted");
    let counted = loop {
        let (status, found) =
            scene.server.request(growing.method.clone(), &growing.path, Some(growing.body.clone())).await;
        match found["hits"]["hits"].as_array() {
            Some(hits) if status.is_success() && !hits.is_empty() => break hits.clone(),
            _ => waiting.pause().await,
        }
    };
    assert!(matches!(&counted[..], [one] if one["_source"]["n"] == 24), "{counted:?}");
    if matches!(search_server.expected().compatible_with, [7, 8] | [8, 9]) {
        nearest(&scene, knn).await;
    }
    scene.end().await;
}

/// A copy in each pipeline of its own index, of a story that is in none of them.
async fn copies_in_pipelines(scene: &Scene, pipelines: [&RecipeRequest; 3]) {
    for (part, pipeline) in ["first-only", "copies-apart", "marked"].into_iter().zip(pipelines) {
        scene.direct(pipeline.method.clone(), &pipeline.path, Some(pipeline.body.clone())).await;
        let name = pipeline.path.rsplit('/').next().unwrap();
        scene.create(part, json!({"default_pipeline": name})).await;
    }
    assert_eq!(scene.write("first-only", Some("1"), 0)["result"], "noop");
    let copies = format!("copies-{}", scene.index("copies-apart"));
    assert_eq!(scene.write("copies-apart", Some("1"), 0)["_index"], copies);
    scene.write("marked", Some("1"), 0);
    scene.write("marked", Some("2"), 1);
    let mark = async |id: &str| scene.server.get(&scene.index("marked"), id).await.unwrap()["is_copy"].clone();
    assert_eq!([mark("1").await, mark("2").await], [true.into(), Value::Null]);
    scene.server.delete_index(&copies).await;
}

/// Of ten documents that are near, five are copies.
async fn nearest(scene: &Scene, knn: &RecipeRequest) {
    let body = json!({"mappings": {"properties": {
        "cluster_first": {"type": "boolean"}, "cluster_key": {"type": "long"},
        "vector": {"type": "dense_vector", "dims": 2, "index": true, "similarity": "l2_norm"},
    }}});
    let index = scene.index("vectors");
    scene.server.create_index(&index, body).await;
    for id in 0..10 {
        let source = json!({"cluster_key": id / 2, "cluster_first": id % 2 == 0, "vector": [1 + id, 2]});
        scene.direct(Method::PUT, &format!("/{index}/_doc/{id}"), Some(source)).await;
    }
    scene.server.refresh(&index).await;
    let found = scene.direct(Method::POST, &format!("/{index}/_search"), Some(knn.body.clone())).await;
    assert_eq!(found["hits"]["hits"].as_array().unwrap().len(), 5, "{found}");
}
