//! Points 8 and 9: updates, and the JSON of documents.

use std::time::SystemTime;

use reqwest::Method;
use serde_json::json;

use crate::common::twin::{Twins, article, text};
use crate::common::wire::Request;
use crate::common::{self, SearchServer, on_each_server, root_of};

fn update(id: &str, body: &str) -> String {
    format!("{{\"update\":{{\"_id\":\"{id}\"}}}}\n{body}\n")
}

on_each_server!(point_08_updates);

async fn point_08_updates(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p08";
    let twins = Twins::new(&upstream, label).await;
    let (one, two) = (text(1), text(2));
    for (body, status) in [
        (format!(r#"{{"doc":{{"content":"{two}"}}}}"#), 200),
        (format!(r#"{{"doc":{{"content":"{one}","n":2}},"detect_noop":false}}"#), 200),
        (format!(r#"{{"\u0064oc":{{"content":"{two}"}}}}"#), 200),
        (format!(r#"{{"doc":{{"content":"{two}"}},"doc_as_upsert":true}}"#), 200),
        (format!(r#"{{"doc_as_upsert":"true","doc":{{"content":"{two}"}}}}"#), 200),
        (format!(r#"{{"upsert":{{"content":"{one}"}},"doc":{{"content":"{two}"}}}}"#), 200),
        (format!(r#"{{"doc":{{"content":"{two}"}},"upsert":{{"content":"{one}"}}}}"#), 200),
        (format!(r#"{{"doc":{{"n":9}},"upsert":{{"content":"{one}"}}}}"#), 200),
        (r#"{"doc":{"n":9}}"#.into(), 200),
        (r#"{"doc":{}}"#.into(), 200),
        (format!(r#"{{"doc":{{"content":"{two}"}}}} garbage"#), 200),
        (format!(r#"{{"doc":{{"content":"{two}"}}}}{{"doc":{{"n":5}}}}"#), 200),
        (format!(r#"/* c */ {{"doc": /* {{ */ {{"content":"{two}"}}}} // }}"#), 200),
        (format!(r#"{{"doc":{{"content":"{two}","day":"no day"}}}}"#), 200),
        (format!(r#"{{"doc":{{"content":"{two}"}}"#), 400),
        (format!(r#"{{"doc":{{"content":"{two}","content":"{two}"}}}}"#), 400),
        (format!(r#"{{"doc":{{"content":"{two}"}},"doc":{{"n":1}}}}"#), 400),
        (format!(r#"{{"doc":{{"content":"{two}"}},"script":"x"}}"#), 400),
        (format!(r#"{{"content":"{two}"}}"#), 400),
        (r#"{"doc":null}"#.into(), 400),
        (r#"{"doc":"x"}"#.into(), 400),
        (r#"{"doc":[]}"#.into(), 400),
        (r#"{"upsert":null,"doc":{}}"#.into(), 400),
        (format!(r#"{{"upsert":{{"content":"{two}"}}}}"#), 400),
        (r#"{}"#.into(), 400),
        (r#"{"doc":{},"no_such_key":null}"#.into(), 400),
    ] {
        twins.empty();
        twins.same(&Request::bulk("/@index/_bulk", article("old", 1)));
        // Of a document that is there, one that is not, and one that is good in the same bulk.
        let bytes = update("old", &body) + &update("new", &body) + &article("good", 3);
        let answer = twins.same_but_columns(&Request::bulk("/@index/_bulk", bytes));
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        for id in ["old", "new"] {
            let path = format!("/@index/_update/{id}");
            twins.same_but_columns(&Request::json("POST", &path, &body));
        }
        let documents = twins.same_documents().await;
        assert_eq!(documents.len() > 1, status == 200, "{body}");
        for (id, source) in documents.iter().filter(|(_, source)| source.get("content").is_some()) {
            assert!(root_of(source).is_some(), "{id} has no stamp: {body}");
        }
    }
    twins.end().await;
}

/// A root that follows the text: a partial update with another text changes the stamp, one without a text leaves it.
#[tokio::test]
async fn point_08_the_stamp_follows_the_text() {
    let twins = Twins::new(&common::opensearch(), "p08").await;
    twins.same(&Request::bulk("/@index/_bulk", article("a", 1) + &article("b", 2)));
    let before = twins.same_documents().await;
    let bytes = update("a", &format!(r#"{{"doc":{{"content":"{}"}}}}"#, text(2))) + &update("b", r#"{"doc":{"n":7}}"#);
    twins.same(&Request::bulk("/@index/_bulk", bytes));
    let after = twins.same_documents().await;
    assert_eq!(root_of(&after["a"]), root_of(&before["b"]));
    assert_eq!(after["b"]["cluster_arrival"], before["b"]["cluster_arrival"]);
    assert_eq!(root_of(&after["b"]), root_of(&before["b"]));
    assert_eq!(after["b"]["n"], 7);
    twins.end().await;
}

on_each_server!(point_08_noops_stay_noops);

/// The same update twice is no news the second time, also when it came at another time.
async fn point_08_noops_stay_noops(search_server: SearchServer) {
    let methods: &[&str] = match search_server {
        SearchServer::OpenSearch => &["longest", "verified"],
        SearchServer::Elasticsearch => &["longest"],
    };
    for method in methods {
        let twins = Twins::with(&search_server.url(), "p08", &["--method", method]).await;
        twins.same(&Request::bulk("/@index/_bulk", article("a", 1) + &article("e", 1)));
        let doc = format!(r#"{{"doc":{{"content":"{}","n":1}}}}"#, text(2));
        let empty = r#"{"doc":{"content":"","n":1}}"#;
        let bytes = update("a", &doc) + &update("e", empty);
        let bulk = Request::bulk("/@index/_bulk", bytes);
        let single = Request::json("POST", "/@index/_update/a", &doc);
        for expected in ["updated", "noop", "noop"] {
            let answer = twins.same(&bulk).json();
            for item in [0, 1] {
                let result = &answer["items"][item]["update"]["result"];
                assert_eq!(result, expected, "{answer}");
            }
            // A stamp with a time of its own would differ from the last one once the clock has gone on.
            #[expect(clippy::disallowed_methods, reason = "the clock that stamps are made by")]
            let now = SystemTime::now();
            let gone_on = || now.elapsed().is_ok_and(|gone| gone.as_millis() > 1);
            common::wait_until("the clock goes on", gone_on);
        }
        assert_eq!(twins.same(&single).json()["result"], "noop");
        twins.same_documents().await;
        twins.end().await;
    }
}

/// Scripts see the stamp of the stored document and leave it; an `upsert` beside a script is stamped.
#[tokio::test]
async fn point_08_scripts() {
    let twins = Twins::new(&common::opensearch(), "p08").await;
    twins.same(&Request::bulk("/@index/_bulk", article("a", 1)));
    let before = twins.same_documents().await;
    let script = format!(
        r#"{{"script":{{"source":"ctx._source.n = params.n","params":{{"n":42}}}},"upsert":{{"content":"{}"}}}}"#,
        text(5)
    );
    let scripted =
        format!(r#"{{"scripted_upsert":true,"script":"ctx._source.n = 43","upsert":{{"content":"{}"}}}}"#, text(6));
    let missing = r#"{"script":"ctx._source.n = 44"}"#;
    let bytes = update("a", &script)
        + &update("b", &script)
        + &update("c", &scripted)
        + &update("d", missing)
        + &update("a", r#"{"script":"this is no script"}"#);
    let answer = twins.same(&Request::bulk("/@index/_bulk", bytes));
    assert_eq!(answer.status, 200, "{}", answer.text());
    twins.same(&Request::json("POST", "/@index/_update/b", &script));
    let after = twins.same_documents().await;
    assert_eq!(after.len(), 3);
    assert_eq!(after["a"]["n"], 42);
    assert_eq!(root_of(&after["a"]), root_of(&before["a"]));
    assert_eq!(after["a"]["cluster_arrival"], before["a"]["cluster_arrival"]);
    assert!(root_of(&after["b"]).is_some() && root_of(&after["c"]).is_some());
    assert_eq!(after["b"]["n"], 42);
    assert_eq!(after["c"]["n"], 43);
    twins.end().await;
}

on_each_server!(point_09_all_other_bytes_stay);

/// Every other byte of a document stays as it came.
async fn point_09_all_other_bytes_stay(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p09";
    let twins = Twins::new(&upstream, label).await;
    let mut stored = 0;
    for (n, source) in [
        r#"{"content":"a b c"}"#,
        r#"   {  "content"  :  "a b c"  }   "#,
        r#"{}"#,
        r#"{ }"#,
        r#"{"raw":{"n":12345678901234567890123456789.000,"e":1E+400,"z":-0.0,"f":1.50}}"#,
        r#"{"content":"\u0061\/\"\\\b\f\n\r\t\ud83d\ude00"}"#,
        r#"{"content":"\ud800 alone","n":1}"#,
        r#"{"content":"\u0000"}"#,
        r#"{"content":"ä 中文 😀 \u4e2d"}"#,
        r#"{"content":/* { " */"a b c"/* } */} // }"#,
        r#"{/* first */"content":"a b c" /* last */ }/**/"#,
        r#"{"raw":{"a.b":1,"a":{"b":2}},"content":["a b c","d e f"]}"#,
        r#"{"raw":[{"k":1},{"k":2}],"content":null}"#,
        r#"{"raw":{"deep":[[[[[[[[{"x":[]}]]]]]]]]},"content":17}"#,
        r#"{"content":"a b c","raw":{"cluster_root":"inside","cluster_key":1}}"#,
        "\u{feff}{\"content\":\"a b c\"}",
        "{\"content\":\"a\u{7f}b\"}",
        "{\"content\":\t\"a b c\"\r}",
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = format!("{{\"index\":{{\"_id\":\"b{n}\"}}}}\n{source}\n");
        let answer = twins.same(&Request::bulk("/@index/_bulk", bytes));
        let answer = answer.json();
        assert_eq!(answer["errors"], false, "{source}: {answer}");
        let path = format!("/@index/_doc/s{n}");
        assert_eq!(twins.same(&Request::json("PUT", &path, source)).status, 201);
        stored += 2;
    }
    let documents = twins.same_documents().await;
    assert_eq!(documents.len(), stored);
    for (id, source) in &documents {
        assert!(root_of(source).is_some(), "{id} has no stamp");
    }
    twins.end().await;
}

on_each_server!(point_09_sources_that_are_refused);

/// What a server refuses in one document, it refuses through spinney, in the same words, and stores the others.
async fn point_09_sources_that_are_refused(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p09";
    let twins = Twins::new(&upstream, label).await;
    let mut placed = 0;
    let after_a_comment = r#"/* first */{"content":"a b c"}"#;
    let refused_after_a_comment = !search_server.expected().takes_comments_before_documents;
    if !refused_after_a_comment {
        // Stored with its stamp, though the server cannot give it back.
        let request = Request::json("PUT", "/@index/_doc/a?refresh=true", after_a_comment);
        assert_eq!(twins.same(&request).status, 201);
        let path = format!("/{}/_count", twins.proxied.index);
        let query = json!({"query": {"exists": {"field": "cluster_root"}}});
        let (_, found) = twins.server.request(Method::POST, &path, Some(query)).await;
        assert_eq!(found["count"], 1);
        twins.empty();
        // An earlier document's node is no refused one's.
        placed = twins.nodes();
    }
    for source in refused_after_a_comment.then_some(after_a_comment).into_iter().chain([
        r#"// }"#,
        r#"{"content":"a b c" // }"#,
        r#"{"content":"a b c","content":"a b c"}"#,
        r#"{"content":"a b c","c\u006fntent":"d"}"#,
        r#"{"content":"a b c","raw":{"a":1,"a":2}}"#,
        r#"{"content":"a b c"}{"content":"a b c"}"#,
        r#"{"content":"a b c"},"#,
        r#"{"content":"a b c"}]"#,
        r#"{"content":"a b c",}"#,
        r#"{content:"a b c"}"#,
        r#"{'content':'a b c'}"#,
        r#"{"content":"a b c","n":NaN}"#,
        r#"{"content":"a b c","n":01}"#,
        r#"{"content":"a b c","n":.5}"#,
        r#"{"content":"a \x b"}"#,
        r#"{"content":"a \u12 b"}"#,
        r#"{"content":"a b c"#,
        r#"{"content":"a b c""#,
        r#"["content"]"#,
        r#""content""#,
        r#"null"#,
        r#"{"content":"a b c","":1}"#,
        r#"{"content":"a b c","_id":"x"}"#,
        r#"{"content":"a b c","day":"no day"}"#,
        r#"{"content":{"a":"b c"}}"#,
        "{\"content\":\"a\tb\"}",
        "{\"content\"\u{a0}:\"a b c\"}",
        // A stamp that is doubled is refused as the client wrote it; none is repaired by taking it out.
        r#"{"content":"a b c","cluster_root":"00","cluster_root":"00"}"#,
        r#"{"content":"a b c","cluster_key":[1,}"#,
    ]) {
        twins.empty();
        let bad = format!("{{\"index\":{{\"_id\":\"bad\"}}}}\n{source}\n");
        let bytes = article("a", 1) + &bad + &article("b", 2);
        let answer = twins.same_but_columns(&Request::bulk("/@index/_bulk", bytes)).json();
        assert_eq!(answer["errors"], true, "{source}: {answer}");
        let single = Request::json("PUT", "/@index/_doc/bad", source);
        assert_eq!(twins.same_but_columns(&single).status, 400, "{source}");
        let documents = twins.same_documents().await;
        assert_eq!(documents.len(), 2, "{source}");
        assert_eq!(twins.nodes() - placed, 2, "the refused document left a node: {source}");
    }
    twins.end().await;
}

on_each_server!(point_09_stamps_are_replaced);

/// A stamp that a document brings along is replaced, however its name is written.
async fn point_09_stamps_are_replaced(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p09";
    let twins = Twins::new(&upstream, label).await;
    twins.same(&Request::bulk("/@index/_bulk", article("a", 1)));
    let content = text(1);
    let old = r#""cluster_root":"0123456789abcdef","cluster_key":81985529216486895,"cluster_hash":["0123456789abcdef"],"cluster_arrival":"2001-01-01T00:00:00.000Z""#;
    let escaped = old.replace("\"cluster_", "\"\\u0063luster\\u005F");
    for (id, source) in [
        ("first", format!("{{{old},\"content\":\"{content}\"}}")),
        ("last", format!("{{\"content\":\"{content}\" , {old}}}")),
        ("escaped", format!("{{{escaped},\"content\":\"{content}\"}}")),
        ("split", format!("{{\"cluster_root\":\"x\",\"content\":\"{content}\",\"cluster_\\u006bey\":7}}")),
        ("none", format!("{{ {old} }}")),
        ("null", format!("{{\"cluster_root\":null,\"content\":\"{content}\"}}")),
    ] {
        let action = format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{source}\n");
        let through = twins.proxied.request(&Request::bulk("/@index/_bulk?refresh=true", action));
        let answer = through.to(&twins.proxied.url).json();
        assert_eq!(answer["errors"], false, "{source}: {answer}");
    }
    let documents = twins.server.documents(&twins.proxied.index).await;
    let root = root_of(&documents["a"]).unwrap();
    for (id, source) in &documents {
        let own = root_of(source).unwrap();
        // Without a text it has a root of its own, but never the one that it brought.
        assert_eq!(own == root, id != "none", "{id}: {source}");
        assert_ne!(own, "0123456789abcdef");
        assert_ne!(source["cluster_arrival"], "2001-01-01T00:00:00.000Z", "{id}");
        let path = format!("/{}/_source/{id}", twins.proxied.index);
        let stored = Request::get(&path).to(&twins.direct.url).body;
        let stored = String::from_utf8(stored).unwrap();
        assert_eq!(
            stored.matches("luster").count(),
            source.as_object().unwrap().len() - usize::from(id != "none") - usize::from(id == "a"),
            "{stored}"
        );
    }
    // Reachable under its name, whatever it was written like.
    let query = json!({"query": {"term": {"cluster_root": root}}});
    let path = format!("/{}/_count", twins.proxied.index);
    let (_, found) = twins.server.request(Method::POST, &path, Some(query)).await;
    assert_eq!(found["count"], 6);
    twins.end().await;
}
