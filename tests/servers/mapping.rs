//! What `spinney setup` installs, on real servers: documents with either stamp get into an index that takes no unknown
//! field, and everything that readers are promised works on them: `collapse` by either name, with the number of
//! documents of each group, the look-up by root, the number of groups.

use std::path::Path;
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::wire::Request;
use crate::common::{self, SearchServer, Server, Spinney, on_each_server, unique_index};

const TEXTS: [&str; 3] = [
    "the harbour bridge was closed to traffic this morning after engineers found cracks in two of its piers",
    "the national orchestra will open its autumn season with a concert of works that nobody has heard before",
    "a goat that had been missing for a week was found in the lift of the town hall and given back to its owner",
];

/// How many documents have each text.
const COPIES: [usize; 3] = [4, 2, 1];

on_each_server!(either_stamp_in_the_mapping_of_setup);

async fn either_stamp_in_the_mapping_of_setup(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "map";
    let server = Server::new(&upstream);
    let base = unique_index(label);
    setup(&upstream, &base);
    for form in ["lean", "full"] {
        let index = format!("{base}-{form}");
        filled(&server, &index, form).await;
        promised(&server, &index).await;
        server.delete_index(&index).await;
    }
    // A form may change while there are documents: what the old one left does not outlive their next write.
    let index = format!("{base}-both");
    filled(&server, &index, "full").await;
    filled(&server, &index, "lean").await;
    promised(&server, &index).await;
    server.delete_index(&index).await;
    let path = format!("/_index_template/{base}");
    let (status, answer) = server.request(Method::DELETE, &path, None).await;
    assert!(status.is_success(), "{answer}");
}

/// Only here: the Elasticsearch that tests run has no module for data streams.
#[tokio::test]
async fn a_template_that_would_be_refused_is_known_before_anything_is_installed() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let base = unique_index("streams");
    let [theirs, stream] = [format!("/_index_template/{base}-theirs"), format!("/_data_stream/{base}-a")];
    let template = json!({"index_patterns": [format!("{base}-*")], "data_stream": {}, "priority": 0});
    for (path, body) in [(&theirs, Some(template)), (&stream, None)] {
        let (status, answer) = server.request(Method::PUT, path, body).await;
        assert!(status.is_success(), "{answer}");
    }
    let ours = format!("/_index_template/{base}");

    let refused = run_setup(&upstream, &base, &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    for word in ["nothing was installed", "--data-stream", &*format!("{base}-a")] {
        assert!(said.contains(word), "{said}");
    }
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let (status, _) = server.request(Method::GET, &ours, None).await;
    assert_eq!(status, 404);

    // The ways out that the message names: theirs would be shadowed, and maps the stamp once it is composed of it.
    let lower = run_setup(&upstream, &base, &["--priority", "0", "--data-stream"]);
    assert_eq!(lower.status.code(), Some(1), "{lower:?}");
    let shadows = run_setup(&upstream, &base, &["--data-stream"]);
    let said = String::from_utf8_lossy(&shadows.stderr);
    assert!(shadows.status.code() == Some(1) && said.contains(r#""composed_of": ["spinney-stamp"]"#), "{said}");
    let component = common::spinney_command().args(["setup", "--upstream", &upstream]).output().unwrap();
    assert!(component.status.success(), "{component:?}");
    let template = json!({
        "index_patterns": [format!("{base}-*")], "data_stream": {}, "priority": 0, "composed_of": ["spinney-stamp"],
    });
    let (status, answer) = server.request(Method::PUT, &theirs, Some(template)).await;
    assert!(status.is_success(), "{answer}");
    let needless = run_setup(&upstream, &base, &["--data-stream"]);
    let said = String::from_utf8_lossy(&needless.stdout);
    assert!(
        needless.status.success() && said.contains(&format!("{base}-theirs gives new indices the stamp")),
        "{said}"
    );
    let (status, _) = server.request(Method::GET, &ours, None).await;
    assert_eq!(status, 404);
    for path in [&stream, &theirs] {
        let (status, answer) = server.request(Method::DELETE, path, None).await;
        assert!(status.is_success(), "{path}: {answer}");
    }
}

on_each_server!(a_second_setup_takes_nothing_from_the_first);

/// Neither from its patterns nor, with another prefix, from its fields; and none from a template of the user's own.
async fn a_second_setup_takes_nothing_from_the_first(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let (first, second) = (unique_index("first"), unique_index("second"));
    let run = |base: &str, more: &[&str]| {
        let pattern = format!("{base}-*");
        let args = ["setup", "--upstream", &upstream, "--index", &pattern];
        common::spinney_command().args(args).args(more).output().unwrap()
    };
    for (base, more) in [(&first, &[][..]), (&second, &[]), (&first, &[]), (&first, &["--prefix", "green_"])] {
        let output = run(base, more);
        assert!(output.status.success(), "{output:?}");
    }
    let doctor = |base: &str| {
        let index = format!("{base}-*");
        let args = ["doctor", "--upstream", &upstream, "--text-field", "content", "--index", &index];
        let output = common::spinney_command().args(args).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (base, types) in [(&first, json!(["keyword", "keyword"])), (&second, json!(["keyword", null]))] {
        let index = format!("{base}-1");
        let (status, answer) = server.request(Method::PUT, &format!("/{index}"), None).await;
        assert!(status.is_success(), "{answer}");
        let (_, mapping) = server.request(Method::GET, &format!("/{index}/_mapping"), None).await;
        let fields = &mapping[&index]["mappings"]["properties"];
        assert_eq!(json!([fields["cluster_root"]["type"], fields["green_root"]["type"]]), types, "{mapping}");
        let said = doctor(base);
        assert!(said.contains(&format!("the next index of {base}-* maps the stamp")), "{said}");
        server.delete_index(&index).await;
    }

    // One of the user's own, before and behind, and a legacy one: nothing is put, and the way out works.
    let own = unique_index("own");
    let theirs = format!("/_index_template/{own}-theirs");
    let legacy = format!("/_template/{own}-legacy");
    let strict = json!({"mappings": {"dynamic": "strict", "properties": {"tag": {"type": "keyword"}}}});
    for priority in [0, 200] {
        let mut body = json!({"index_patterns": [format!("{own}-*")], "priority": priority, "template": strict});
        let (status, answer) = server.request(Method::PUT, &theirs, Some(body.clone())).await;
        assert!(status.is_success(), "{answer}");
        let refused = run(&own, &[]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains(r#""composed_of": ["spinney-stamp"]"#), "{said}");
        let said = doctor(&own);
        assert!(said.contains(&format!("gets the index template {own}-theirs")), "{said}");
        body["composed_of"] = json!(["spinney-stamp"]);
        let (status, answer) = server.request(Method::PUT, &theirs, Some(body)).await;
        assert!(status.is_success(), "{answer}");
        let taken = run(&own, &[]);
        assert!(taken.status.success(), "{taken:?}");
        let said = doctor(&own);
        assert!(said.contains(&format!("the next index of {own}-* maps the stamp")), "{said}");
    }
    server.request(Method::DELETE, &theirs, None).await;
    let said = doctor(&own);
    assert!(said.contains(&format!("spinney setup --index '{own}-*'")), "{said}");
    let body = json!({"index_patterns": [format!("{own}-*")], "mappings": strict["mappings"]});
    let (status, answer) = server.request(Method::PUT, &legacy, Some(body)).await;
    assert!(status.is_success(), "{answer}");
    let refused = run(&own, &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("legacy"), "{said}");
    for path in [legacy, format!("/_index_template/spinney-{first}"), format!("/_index_template/spinney-{second}")] {
        let (status, answer) = server.request(Method::DELETE, &path, None).await;
        assert!(status.is_success(), "{path}: {answer}");
    }
}

/// Runs `spinney setup` for indices that begin with `base`.
fn setup(upstream: &str, base: &str) {
    let output = run_setup(upstream, base, &[]);
    assert!(output.status.success(), "{output:?}");
}

fn run_setup(upstream: &str, base: &str, more: &[&str]) -> Output {
    let pattern = format!("{base}-*");
    Command::new(env!("CARGO_BIN_EXE_spinney"))
        .args(["setup", "--upstream", upstream, "--index", &pattern])
        .args(["--name", base])
        .args(more)
        .output()
        .unwrap()
}

/// Writes the documents through a spinney: in bulk, one by one, and by partial updates.
async fn filled(server: &Server, index: &str, form: &str) {
    let strict = json!({
        "settings": {"number_of_shards": 2, "number_of_replicas": 0},
        "mappings": {"dynamic": "strict", "properties": {"content": {"type": "text"}}},
    });
    // The second form finds the index of the first.
    let (status, answer) = server.request(Method::PUT, &format!("/{index}"), Some(strict)).await;
    let reason = &answer["error"]["type"];
    assert!(status.is_success() || reason == "resource_already_exists_exception", "{answer}");
    let spinney = Spinney::start(&["--upstream", server.url(), "--index", "news-*", "--stamp", form]);
    let written = |method: &str, path: String, body: String| {
        let answer = Request::json(method, &path, body).to(&spinney.url);
        assert!(answer.status < 300, "{path}: {}", answer.text());
        answer.json()
    };
    let mut bulk = String::new();
    for (n, (text, copies)) in TEXTS.iter().zip(COPIES).enumerate() {
        for copy in 0..copies {
            let action = json!({"index": {"_id": format!("{copy}-{n}")}});
            bulk += &format!("{action}\n{}\n", json!({ "content": text }));
        }
    }
    let answer = Request::bulk(&format!("/{index}/_bulk"), bulk).to(&spinney.url).json();
    assert_eq!(answer["errors"], false, "{answer}");
    // The last copy of the first text by a single write, the first of the second by an update, with stamps of their
    // own.
    let [first, second, _] = TEXTS;
    let old = json!({
        "cluster_root": "0123456789abcdef", "cluster_hash": ["0"], "content": first, "cluster_proof": "0",
    });
    written("PUT", format!("/{index}/_doc/3-0"), old.to_string());
    let update = json!({"doc": {"cluster_key": 1, "content": second}});
    written("POST", format!("/{index}/_update/0-1"), update.to_string());
    server.refresh(index).await;
    for (id, source) in server.documents(index).await {
        let fields: Vec<&str> = source.as_object().unwrap().keys().map(|k| &**k).collect();
        assert_ne!(source["cluster_proof"], "0", "{id}: {source}");
        for field in ["cluster_root", "cluster_key", "cluster_arrival"] {
            assert!(fields.contains(&field), "{id}: {source}");
        }
        for field in ["cluster_hash", "cluster_proof"] {
            assert_eq!(fields.contains(&field), form == "full", "{id}: {source}");
        }
    }
}

/// What readers are promised.
async fn promised(server: &Server, index: &str) {
    let search = |body: Value| async move {
        let path = format!("/{index}/_search");
        let (status, answer) = server.request(Method::POST, &path, Some(body.clone())).await;
        assert!(status.is_success(), "{body}: {answer}");
        answer
    };
    let roots = server.documents(index).await;
    let root_of_text = |text: &str| {
        let mut with = roots.values().filter(|source| source["content"] == text);
        common::root_of(with.next().unwrap()).unwrap().to_owned()
    };
    for field in ["cluster_root", "cluster_key"] {
        let grouped = search(json!({
            "size": 10,
            "collapse": {"field": field, "inner_hits": {"name": "similar", "size": 0}},
            "aggs": {"groups": {"cardinality": {"field": field}}, "largest": {"terms": {"field": field}}},
        }))
        .await;
        let hits = grouped["hits"]["hits"].as_array().unwrap();
        let mut counts: Vec<(usize, u64)> = hits
            .iter()
            .map(|hit| {
                let text = &hit["_source"]["content"];
                let text = TEXTS.iter().position(|known| text == known).unwrap();
                let similar = &hit["inner_hits"]["similar"]["hits"]["total"]["value"];
                (text, similar.as_u64().unwrap())
            })
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [(0, 4), (1, 2), (2, 1)], "{field}: {grouped}");
        let aggregations = &grouped["aggregations"];
        assert_eq!(aggregations["groups"]["value"], 3, "{field}");
        assert_eq!(aggregations["largest"]["buckets"][0]["doc_count"], 4);
        let all = search(json!({"query": {"exists": {"field": field}}})).await;
        assert_eq!(all["hits"]["total"]["value"], 7, "{field}");
    }
    for (text, copies) in TEXTS.iter().zip(COPIES) {
        let root = root_of_text(text);
        let key = u64::from_str_radix(&root, 16).unwrap().cast_signed();
        for by in [json!({"cluster_root": root}), json!({"cluster_key": key})] {
            let found = search(json!({
                "query": {"bool": {"filter": [{"term": by}, {"range": {"cluster_arrival": {"gte": "2001-01-01"}}}]}},
                "sort": [{"cluster_arrival": "asc"}],
            }))
            .await;
            assert_eq!(found["hits"]["total"]["value"], copies, "{by}");
        }
    }
    // The queries that are ready to use; a root has to be put into one of them.
    for (file, hits) in [("grouped", 3), ("group-count", 0), ("largest-groups", 0), ("similar", 4), ("unstamped", 0)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("mappings/queries/{file}.json"));
        let query = std::fs::read_to_string(path).unwrap();
        let query = query.replace("0123456789abcdef", &root_of_text(TEXTS[0]));
        let answer = search(serde_json::from_str(&query).unwrap()).await;
        let found = answer["hits"]["hits"].as_array().unwrap().len();
        assert_eq!(found, hits, "{file}: {answer}");
    }
}
