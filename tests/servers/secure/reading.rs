//! Readers see through spinney what the cluster shows them, and nothing else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ADMIN, READER, Scene, User, WRITER};
use crate::check::balance;
use crate::common::Waiting;

/// Whoever may not read an index learns nothing of it: neither its groups nor their number, and no title.
#[tokio::test]
async fn groups_are_for_those_who_may_search() {
    let scene = Scene::new("reading").await;
    for index in [&scene.open, &scene.closed] {
        for id in ["a", "b"] {
            let path = format!("/{index}/_doc/{id}?refresh=true");
            let source = json!({"content": super::text(7), "title": "hidden-title"}).to_string();
            let answer = scene.ask(false, Some(ADMIN), "PUT", &path, &source).await;
            assert!(answer.status.is_success(), "{}", answer.body);
        }
    }
    let body = json!({"sort": "similar_count"}).to_string();
    let groups = |index: &str| format!("/_spinney/{index}/_groups");
    let answer = scene.ask(false, Some(READER), "POST", &groups(&scene.open), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let page: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(page["total"], json!({"value": 1, "relation": "eq"}));
    assert_eq!(page["groups"][0]["similar_count"], 2);
    let root = page["groups"][0]["root"].as_str().unwrap().to_owned();
    for index in [&scene.closed[..], "closed-*", "*"] {
        for sort in ["similar_count", "matching_count", "_score", "title"] {
            let body = json!({"sort": sort}).to_string();
            let answer = scene.ask(false, Some(READER), "POST", &groups(index), &body).await;
            assert_eq!(answer.status, 403, "{index} {sort} {}", answer.body);
            assert!(!answer.body.contains("hidden-title") && !answer.body.contains(&root), "{}", answer.body);
        }
    }
    for path in [
        format!("/_spinney/{}/_similar/a", scene.closed),
        format!("/_spinney/{}/_roots/{root}", scene.closed),
        "/_spinney/closed-*/_similar/a".to_owned(),
    ] {
        let answer = scene.ask(false, Some(READER), "GET", &path, "").await;
        assert_eq!(answer.status, 403, "{path} {}", answer.body);
        assert!(!answer.body.contains("hidden-title"), "{}", answer.body);
        let nobody = scene.ask(false, None, "GET", &path, "").await;
        assert_eq!(nobody.status, 401, "{path} {}", nobody.body);
    }
    let path = format!("/_spinney/{}/_similar/a", scene.open);
    let answer = scene.ask(false, Some(READER), "GET", &path, "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let page: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(page["total"], 2);
    scene.end().await;
}

/// Documents: id, story, medium. Two media, of which some readers may see one.
const DOCUMENTS: [(&str, usize, &str); 9] = [
    ("a", 1, "public"),
    ("b", 1, "public"),
    ("c", 1, "secret"),
    ("d", 2, "secret"),
    ("e", 2, "secret"),
    ("f", 3, "public"),
    ("g", 3, "secret"),
    ("h", 4, "public"),
    ("i", 5, "secret"),
];

const PASSWORD: &str = "rowan-Alder-5521";

/// An open index with [`DOCUMENTS`], its groups counted by spinney in its own name, and a user who sees the public
/// documents of it alone.
struct Restricted {
    scene: Scene,
    user: User,
    /// The root of each document, by id.
    roots: BTreeMap<String, String>,
}

impl Restricted {
    async fn new(label: &str, how: &str) -> Restricted {
        let service_url = crate::common::opensearch_secure().url.replace("https://", "https://admin:admin@");
        let options = [
            "--counts",
            "on",
            "--service-url",
            &service_url,
            "--restricted-readers",
            how,
            "--title-field",
            "title",
            "--medium-field",
            "medium",
        ];
        let scene = Scene::with(label, &options).await;
        let admin = async |method: &str, path: &str, body: Value| {
            let answer = scene.ask(true, Some(ADMIN), method, path, &body.to_string()).await;
            assert!(answer.status.is_success(), "{path}: {}", answer.body);
        };
        let fields = json!({"properties": {
            "medium": {"type": "keyword"}, "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
            "cluster_arrival": {"type": "date"},
        }});
        let index = &scene.open;
        admin("PUT", &format!("/{index}/_mapping"), fields).await;
        let name = format!("only-public-{index}");
        let role = json!({"cluster_permissions": ["cluster_composite_ops_ro"], "index_permissions": [
            {"index_patterns": [index], "allowed_actions": ["read"], "dls": r#"{"term": {"medium": "public"}}"#},
            // Nothing of the whole index may come from here.
            {"index_patterns": [format!("spinney-roots-{index}")], "allowed_actions": ["read"]},
        ]});
        scene.make_user((&name, PASSWORD), role).await;
        for (id, story, medium) in DOCUMENTS {
            let source =
                json!({"content": super::text(story), "title": format!("{medium}-title-{id}"), "medium": medium});
            let path = format!("/{index}/_doc/{id}?refresh=true");
            let answer = scene.through(Some(ADMIN), "PUT", &path, &source.to_string()).await;
            assert!(answer.status.is_success(), "{}", answer.body);
        }
        let waiting = Waiting::until("all groups have been counted");
        loop {
            let counts = scene.stats().await["counts"].clone();
            if counts["entries_written"].as_u64() >= Some(3) && counts["lag_s"] == 0.0 {
                break;
            }
            waiting.pause().await;
        }
        admin("POST", &format!("/spinney-roots-{index}/_refresh"), json!({})).await;
        let found = scene.ask(true, Some(ADMIN), "GET", &format!("/{index}/_search"), "").await;
        let found: Value = serde_json::from_str(&found.body).unwrap();
        let hits = found["hits"]["hits"].as_array().unwrap().iter();
        let roots = hits.map(|hit| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&hit["_id"]), text(&hit["_source"]["cluster_root"]))
        });
        Restricted {
            roots: roots.collect(),
            // The scene ends with the process.
            user: Some((String::leak(name), PASSWORD)),
            scene,
        }
    }

    async fn groups(&self, user: User, question: Value) -> Value {
        let path = format!("/_spinney/{}/_groups", self.scene.open);
        let answer = self.scene.through(user, "POST", &path, &question.to_string()).await;
        assert_eq!(answer.status, 200, "{question}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    async fn end(self) {
        let Restricted { scene, user, .. } = self;
        let (name, _) = user.unwrap();
        scene.ask(true, Some(ADMIN), "DELETE", &format!("/spinney-roots-{}", scene.open), "").await;
        scene.remove_user(name).await;
        scene.end().await;
    }
}

/// The numbers of a page, by root.
fn numbers(page: &Value) -> BTreeMap<String, [u64; 3]> {
    let groups = page["groups"].as_array().unwrap().iter();
    let number = |group: &Value, name: &str| group[name].as_u64().unwrap();
    groups
        .map(|group| {
            let counts = ["similar_count", "matching_count", "media"];
            (group["root"].as_str().unwrap().to_owned(), counts.map(|name| number(group, name)))
        })
        .collect()
}

/// With rights on documents every number is the reader's own, whatever the index of roots says; nothing tells of the
/// others.
async fn numbers_are_those_of_the_documents_that_a_reader_may_see(how: &str) {
    let restricted = Restricted::new(&format!("dls-{how}"), how).await;
    let scene = &restricted.scene;
    let root = |id: &str| restricted.roots[id].clone();
    let own = BTreeMap::from([(root("a"), [2, 2, 1]), (root("f"), [1, 1, 1]), (root("h"), [1, 1, 1])]);
    let all = restricted.groups(Some(ADMIN), json!({"sort": "matching_count"})).await;
    assert_eq!(numbers(&all)[&root("a")], [3, 3, 2]);
    assert_eq!(numbers(&all).len(), 5);
    for sort in ["similar_count", "matching_count", "_score", "cluster_arrival"] {
        for direction in ["asc", "desc"] {
            for query in [json!({"match_all": {}}), json!({"exists": {"field": "title"}})] {
                let question = json!({"query": query, "sort": {sort: direction}});
                if how == "refuse" && sort == "similar_count" {
                    let path = format!("/_spinney/{}/_groups", scene.open);
                    let answer = scene.through(restricted.user, "POST", &path, &question.to_string()).await;
                    assert_eq!(answer.status, 403, "{}", answer.body);
                    continue;
                }
                let page = restricted.groups(restricted.user, question.clone()).await;
                assert_eq!(numbers(&page), own, "{how} {question}");
                assert!(!page.to_string().contains("secret"), "{page}");
                // The order and the number of groups are those of everybody only where nobody is said to be
                // restricted.
                if how != "none" {
                    let total = json!({"value": 3, "relation": "eq"});
                    assert_eq!(page["total"], total, "{how} {question}");
                }
            }
        }
    }
    for (id, status, total) in [("a", 200, 2), ("f", 200, 1), ("c", 404, 0), ("d", 404, 0)] {
        let paths = [
            format!("/_spinney/{}/_similar/{id}", scene.open),
            format!("/_spinney/{}/_roots/{}", scene.open, root(id)),
        ];
        for path in &paths {
            let answer = scene.through(restricted.user, "GET", path, "").await;
            // The group of what is hidden may have others that are not.
            if id == "c" && path.contains("_roots") {
                continue;
            }
            assert_eq!(answer.status, status, "{path}: {}", answer.body);
            assert!(!answer.body.contains("secret"), "{path}: {}", answer.body);
            if status == 200 {
                let page: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(page["total"], total);
                assert_eq!(page["forest"].is_null(), how != "none", "{page}");
            }
        }
    }
    // What a forest knows of all documents is not for those who see some.
    let open = &scene.open;
    for (method, endpoint, body) in [
        ("POST", "_check", json!({"content": super::text(7)})),
        ("GET", "_overrides", Value::Null),
        ("GET", "_merges", Value::Null),
        ("POST", "_merge", json!({"roots": [root("a"), root("f")]})),
        ("POST", "_split", json!({"ids": ["a"]})),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("/_spinney/{open}/{endpoint}");
        let answer = scene.through(restricted.user, method, &path, &body).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.body);
        assert!(answer.body.contains("document-level security"), "{path}: {}", answer.body);
    }
    // The web page says no more than that.
    for path in [
        format!("/{}", scene.open),
        format!("/{}?sort=similar&order=desc", scene.open),
        format!("/{}/article/a", scene.open),
        format!("/{}/article/c", scene.open),
        format!("/{}/group/{}", scene.open, root("a")),
        format!("/{}/group/{}", scene.open, root("d")),
        "/overview".to_owned(),
    ] {
        let path = format!("/_spinney/ui{path}");
        let answer = scene.through(restricted.user, "GET", &path, "").await;
        for hidden in ["secret", &root("d"), &root("i")] {
            // What was asked for may stand in the answer.
            let is_told = answer.body.contains(hidden) && !path.contains(hidden);
            assert!(!is_told, "{path}: {}", answer.body);
        }
    }
    restricted.end().await;
}

#[tokio::test]
async fn numbers_with_restricted_readers_exact() {
    numbers_are_those_of_the_documents_that_a_reader_may_see("exact").await;
}

#[tokio::test]
async fn numbers_with_restricted_readers_refuse() {
    numbers_are_those_of_the_documents_that_a_reader_may_see("refuse").await;
}

#[tokio::test]
async fn numbers_with_restricted_readers_none() {
    numbers_are_those_of_the_documents_that_a_reader_may_see("none").await;
}

/// Whoever may read the open index alone: pages, errors and counts of the closed one tell nothing, and docIds are not
/// for them.
#[tokio::test]
async fn pages_errors_and_docids_tell_nothing_of_a_closed_index() {
    let service_url = crate::common::opensearch_secure().url.replace("https://", "https://admin:admin@");
    let options = ["--counts", "on", "--service-url", &service_url, "--title-field", "title"];
    let scene = Scene::with("reading-closed", &options).await;
    let mut root = String::new();
    for id in ["a", "b"] {
        let path = format!("/{}/_doc/{id}?refresh=true", scene.closed);
        let source = json!({"content": super::text(7), "title": "hidden-title"}).to_string();
        let answer = scene.through(Some(ADMIN), "PUT", &path, &source).await;
        assert!(answer.status.is_success(), "{}", answer.body);
        let stored = scene.ask(true, Some(ADMIN), "GET", &path.replace("?refresh=true", ""), "").await;
        let stored: Value = serde_json::from_str(&stored.body).unwrap();
        root = stored["_source"]["cluster_root"].as_str().unwrap().to_owned();
    }
    let roots = format!("spinney-roots-{}", scene.closed);
    let waiting = Waiting::until("the group has an entry");
    let count = format!("/{roots}/_count");
    loop {
        let answer = scene.ask(true, Some(ADMIN), "GET", &count, "").await;
        if answer.body.contains("\"count\":1,") {
            break;
        }
        waiting.pause().await;
    }
    for user in [Some(READER), None] {
        for path in [
            format!("/_spinney/ui/{}", scene.closed),
            format!("/_spinney/ui/{}?q=hidden", scene.closed),
            format!("/_spinney/ui/{}/article/a", scene.closed),
            format!("/_spinney/ui/{}/group/{root}", scene.closed),
            "/_spinney/ui/closed-*".to_owned(),
            "/_spinney/ui/overview".to_owned(),
            format!("/_spinney/{roots}/_groups"),
            format!("/{roots}/_search"),
        ] {
            let answer = scene.through(user, "GET", &path, "").await;
            let status = answer.status.as_u16();
            assert!(matches!(status, 401 | 403), "{path}: {status} {}", answer.body);
            let told = answer.body.contains("hidden-title") || (!path.contains(&root) && answer.body.contains(&root));
            assert!(!told, "{path}: {}", answer.body);
        }
        let home = scene.through(user, "GET", "/_spinney/ui/", "").await;
        assert!(!home.body.contains(&scene.closed), "{}", home.body);
    }
    scene.ask(true, Some(ADMIN), "DELETE", &format!("/{roots}"), "").await;
    scene.end().await;
}

/// The page of an article shows groups near it of which its reader is shown a document: not those in an index that he
/// may not search, and not those of which he may read no document.
#[tokio::test]
async fn neighbours_are_those_of_which_the_reader_sees_a_document() {
    let options = ["--title-field", "title", "--medium-field", "medium"];
    let scene = Scene::with_method("neighbours", "verified", &options).await;
    let (open, closed) = (&scene.open, &scene.closed);
    let user = (&*String::leak(format!("only-public-{open}")), PASSWORD);
    let fields = json!({"properties": {
        "medium": {"type": "keyword"}, "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
        "cluster_arrival": {"type": "date"},
    }});
    let role = json!({"cluster_permissions": ["cluster_composite_ops_ro"], "index_permissions": [
        {"index_patterns": [open], "allowed_actions": ["read"], "dls": r#"{"term": {"medium": "public"}}"#},
    ]});
    scene.make_user(user, role).await;
    for path in [open, closed].map(|index| format!("/{index}/_mapping")) {
        let answer = scene.ask(true, Some(ADMIN), "PUT", &path, &fields.to_string()).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
    }
    let mut roots = Vec::new();
    for (index, id, medium) in
        [(open, "a", "public"), (open, "b", "public"), (open, "c", "secret"), (closed, "d", "public")]
    {
        let mut source = balance(4 + 13 * roots.len() as u32);
        source["title"] = format!("title-of-{id}").into();
        source["medium"] = medium.into();
        let path = format!("/{index}/_doc/{id}?refresh=true");
        let source = source.to_string();
        let answer = scene.through(Some(WRITER), "PUT", &path, &source).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let stored = &scene.server.documents(index).await[id];
        roots.push(stored["cluster_root"].as_str().unwrap().to_owned());
    }
    // The forest knows all of them as neighbours.
    let path = format!("/_spinney/{open}/_check");
    let asked = balance(4).to_string();
    let told = scene.through(Some(WRITER), "POST", &path, &asked).await;
    let told: Value = serde_json::from_str(&told.body).unwrap();
    let trees = told["trees"].as_array().unwrap();
    let refused = trees.iter().filter(|tree| tree["agrees"] == false);
    let refused: Vec<&Value> = refused.map(|tree| &tree["root"]).collect();
    for root in &roots[1..] {
        assert!(refused.contains(&&json!(root)), "{told}");
    }
    let page = format!("/_spinney/ui/{open}/article/a");
    for (reader, shown) in [(Some(WRITER), &["b", "c"][..]), (Some(READER), &["b", "c"]), (Some(user), &["b"])] {
        let answer = scene.through(reader, "GET", &page, "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        for (id, root) in ["b", "c", "d"].iter().zip(&roots[1..]) {
            let is_shown = shown.contains(id);
            let told = format!("{reader:?} {id}: {}", answer.body);
            assert_eq!(answer.body.contains(&format!("title-of-{id}")), is_shown, "{told}");
            assert_eq!(answer.body.contains(root), is_shown, "{told}");
        }
    }
    scene.remove_user(user.0).await;
    scene.end().await;
}

/// A docId is for those who see the cluster's health and the index, and nobody else's question leaves anything.
#[tokio::test]
async fn docids_are_for_those_whom_the_cluster_lets_ask() {
    let scene = Scene::with_method(
        "docid",
        "staged",
        &[
            "--url-field",
            "url",
            "--title-field",
            "title",
            "--text-field",
            "content",
            "--index",
            "closed-docid",
            "--docid-endpoint",
            "closed-docid",
        ],
    )
    .await;
    let article = "json=%7B%22url%22%3A%22http%3A%2F%2Fa.example%2F1%22%2C%22title%22%3A%22A%20title%22%2C%22content%22%3A%22Some%20words%20of%20it%22%7D";
    let path = format!("/docId/getDocId?{article}");
    for (user, status) in [(None, 401), (Some(READER), 403)] {
        let answer = scene.through(user, "GET", &path, "").await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(!answer.body.contains("docId"), "{}", answer.body);
    }
    assert_eq!(scene.nodes().await, 0);
    for expected in ["good", "repeat"] {
        let answer = scene.through(Some(WRITER), "GET", &path, "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(said["filterStatus"], expected);
    }
    scene.end().await;
}
