//! Points 6 and 7: the lines of a bulk, and the action lines among them.

use crate::common::fake::{Fake, Reply, json};
use crate::common::twin::{Twins, article, start, text};
use crate::common::wire::Request;
use crate::common::{SearchServer, on_each_server};

/// The number of the article of this letter.
fn number(letter: char) -> usize {
    letter as usize
}

/// A body with `A`, `B`, … for well-formed articles of that id.
fn body(pattern: &str) -> String {
    let mut body = String::new();
    for letter in pattern.chars() {
        if letter.is_ascii_uppercase() {
            body += &article(&letter.to_string(), number(letter));
        } else {
            body.push(letter);
        }
    }
    body
}

on_each_server!(point_06_lines);

async fn point_06_lines(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p06";
    let without_newline = |body: &str| body.trim_end_matches('\n').to_owned();
    let twins = Twins::new(&upstream, label).await;
    for (case, (bytes, status, stored)) in [
        (body("AB"), 200, 2),
        (without_newline(&body("AB")), 400, 0),
        (body("AB") + "{\"delete\":{\"_id\":\"A\"}}", 400, 0),
        (body("AB") + "  ", 400, 0),
        (body("AB").replace('\n', "\r\n"), 200, 2),
        (body("AB").replace('\n', "\r"), 400, 0),
        (body("AB").replace("}\n", "}\r\r\n"), 200, 2),
        (body("\n\nA\n \nB\t\n\r\n\n"), 200, 2),
        (body("// a comment\nA/* another */\nB"), 200, 2),
        (body("A") + "{\"index\":{\"_id\":\"x\"}}\n\n" + &body("B"), 200, 2),
        (body("A") + "{\"create\":{\"_id\":\"x\"}}\r\n\r\n" + &body("B"), 200, 2),
        (body("A") + "{\"index\":{\"_id\":\"x\"}}\n   \n" + &body("B"), 200, 2),
        (body("A") + "{\"update\":{\"_id\":\"x\"}}\n\n" + &body("B"), 400, 0),
        (body("AB") + "{\"index\":{\"_id\":\"x\"}}\n", 200, 2),
        ("{\"index\":{\"_id\":\"x\"}}\n".into(), 400, 0),
        ("\n".into(), 400, 0),
        ("\n\n\n".into(), 400, 0),
        (" \n".into(), 400, 0),
        (String::new(), 400, 0),
        (body("A") + "\0\n" + &body("B"), 400, 0),
        (body("A").replace('{', "  {").replace('}', "}  "), 200, 1),
        (body("A") + "{\"delete\":{\"_id\":\"A\"}}\n" + &body("B"), 200, 1),
        (body("A") + "{\"delete\":{\"_id\":\"A\"}}\n{\"content\":\"x\"}\n", 400, 0),
        ("\u{feff}".to_owned() + &body("A").replace("\n{", "\n\u{feff}{"), 200, 1),
    ]
    .into_iter()
    .enumerate()
    {
        twins.empty();
        let before = twins.nodes();
        // Texts of its own: a node of an earlier case would hide a missing one.
        let (mut bytes, mut texts) = (bytes, 0);
        for letter in ['A', 'B'] {
            let (same, own) = (text(number(letter)), text(number(letter) + 100 * case));
            texts += u64::from(bytes.contains(&same));
            bytes = bytes.replace(&same, &own);
        }
        let answer = twins.same(&Request::bulk("/@index/_bulk", &bytes));
        assert_eq!(answer.status, status, "{bytes:?}: {}", answer.text());
        let documents = twins.all_stamped().await;
        assert_eq!(documents.len(), stored, "{bytes:?}");
        // One node for each text, also of a document that is deleted again; a body that was refused leaves nothing.
        let placed = if status == 200 { texts } else { 0 };
        assert_eq!(twins.nodes() - before, placed, "{bytes:?}");
    }
    twins.end().await;
}

on_each_server!(point_06_unknown_actions);

/// OpenSearch and Elasticsearch 8 refuse a request with an unknown action whole; Elasticsearch 7 passes over it and its
/// source.
async fn point_06_unknown_actions(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p06";
    let status = if search_server.expected().passes_over_unknown_actions { 200 } else { 400 };
    let twins = Twins::new(&upstream, label).await;
    let bad_day = article("C", 3).replace("\"n\":3", "\"day\":\"no day\"");
    for action in ["{\"upsert\":{}}", "{\"Index\":{\"_id\":\"x\"}}", "{\"\":{}}"] {
        let unknown = format!("{action}\n{{\"content\":\"{}\"}}\n", text(9));
        let bytes = body("A") + &unknown + &body("B") + &bad_day;
        let answer = twins.same(&Request::bulk("/@index/_bulk", bytes));
        assert_eq!(answer.status, status, "{action}: {}", answer.text());
        twins.same(&Request::bulk("/@index/_bulk", unknown));
    }
    let documents = twins.all_stamped().await;
    let stored = if status == 200 { 2 } else { 0 };
    assert_eq!(documents.len(), stored);
    // The items were matched past the one that has none: the refused document's node went.
    assert_eq!(twins.nodes(), stored as u64);
    twins.end().await;
}

const SOURCE: &str = "{\"content\":\"a harbour full of boats\"}";

on_each_server!(point_07_action_lines);

async fn point_07_action_lines(search_server: SearchServer) {
    let upstream = search_server.url();
    let label = "p07";
    let twins = Twins::new(&upstream, label).await;
    for action in [
        r#"{"index":{"_id":"a1","routing":"r","version":7,"version_type":"external"}}"#,
        r#"{"index":{"version_type":"external_gte","version":8,"_id":"a1","routing":"r"}}"#,
        r#"{"index":{"_id":"a1","routing":"r","version":8,"version_type":"external"}}"#,
        r#"{"index":{"_index":"@index","_id":"a2"}}"#,
        r#"{"\u0069ndex":{"\u005findex":"@index","_id":"a\u0033"}}"#,
        r#"{"index":{"_id":17}}"#,
        r#"{"index":{"_id":1.50}}"#,
        r#"{"index":{"_id":true}}"#,
        r#"{"index":{"_id":null}}"#,
        r#"{"index":{"_id":""}}"#,
        r#"{"index":{"_id":["a"]}}"#,
        r#"{"index":{"_id":{"a":1}}}"#,
        r#"{"index":{}}"#,
        r#"{"create":{}}"#,
        r#"{"create":{"_id":"c1"}}"#,
        r#"{"create":{"_id":"c1"}}"#,
        r#"{"index":{"_id":"c1","op_type":"create"}}"#,
        r#"{"index":{"_id":"c2","op_type":"create"}}"#,
        r#"{"index":{"_id":"c2","op_type":"CREATE"}}"#,
        r#"{"index":{"_id":"c2","op_type":"delete"}}"#,
        r#"{"create":{"_id":"c3","op_type":"index"}}"#,
        r#"{"index":{"_id":"s1","if_seq_no":0,"if_primary_term":1}}"#,
        r#"{"index":{"_id":"a2","if_seq_no":99,"if_primary_term":1}}"#,
        r#"{"index":{"_id":"p1","pipeline":"there-is-none"}}"#,
        r#"{"index":{"_id":"p2","pipeline":"_none"}}"#,
        r#"{"index":{"_id":"q1","require_alias":true}}"#,
        r#"{"index":{"_id":"q2","require_alias":"false"}}"#,
        r#"{"index":{"_id":"u1","no_such_key":1}}"#,
        r#"{"index":{"_id":"u2","no_such_key":null}}"#,
        r#"{"index":{"_id":"u3","_id":"u4"}}"#,
        r#"{"index":{"_id":"u5","_type":"_doc"}}"#,
        r#"{"index":{"_id":"u6","_type":"kind"}}"#,
        r#"{"index":{"_id":"u7","_routing":"x"}}"#,
        r#"{"index":{"_id":"u8","list_executed_pipelines":true}}"#,
        r#"{"index":{"_id":"u9","require_data_stream":false}}"#,
        r#"{"index":{"_id":"v1","dynamic_templates":{"n2":"x"}}}"#,
        r#"{"index":{"_id":"v2","version_type":"strange"}}"#,
        r#"{"index":{"_index":null,"_id":"w1"}}"#,
        r#"{"index":{"_index":"","_id":"w2"}}"#,
        r#"{"index":{"_index":"Not A Name","_id":"w3"}}"#,
        r#"{"index":{"_id":"x1"},"delete":{"_id":"a1"}}"#,
        r#"{"index":{"_id":"x2"}} garbage"#,
        r#"{"index":{"_id":"x3"}"#,
        r#"{"index":{"_id":"x4"},,,"#,
        r#"{"index":{"_id":"x5""#,
        r#"{"index":{"_id":"x6",}}"#,
        r#"{"index":null}"#,
        r#"{"index":"x"}"#,
        r#"{"index":[]}"#,
        r#"{"index":1}"#,
        r#"{}"#,
        r#"["index"]"#,
        r#"5"#,
        r#""index""#,
        r#"/* c */ {"index": /* d */ {"_id" : "y1" // }"#,
        "/* c */ {\"index\": /* { */ {\"_id\" : \"y2\" /* } */ } } // }",
        r#"{'index':{'_id':'z1'}}"#,
        r#"{index:{_id:"z2"}}"#,
        r#"# {"index":{"_id":"z3"}}"#,
    ] {
        let bytes = format!("{action}\n{SOURCE}\n{{\"delete\":{{\"_id\":\"none\"}}}}\n");
        twins.same(&Request::bulk("/@index/_bulk", bytes));
    }
    for action in [r#"{"delete":{}}"#, r#"{"delete":{"_id":"a2","version":1}}"#] {
        twins.same(&Request::bulk("/@index/_bulk", format!("{action}\n")));
    }
    let long_id = article(&"i".repeat(513), 1);
    assert_eq!(twins.same(&Request::bulk("/@index/_bulk", long_id)).status, 400);
    let no_index = Request::bulk("/_bulk", article("x", 1));
    assert_eq!(twins.same(&no_index).status, 400);
    let documents = twins.all_stamped().await;
    assert!(documents.len() > 15, "{}", documents.len());
    assert_eq!(twins.nodes(), 1, "one text, whatever the action line");
    twins.end().await;
}

/// The stamps apart, the cluster gets the bytes of the client; where nothing is stamped it gets nothing else.
#[tokio::test]
async fn point_07_action_lines_are_never_touched() {
    let fake = Fake::start(|_| Reply::Bytes(json(200, "", "{}")));
    let spinney = start(&fake.url, &[]);
    let mut expected = String::new();
    let mut sent = String::new();
    for (action, stamped) in [
        (r#"{"index":{"_index":"news-a","_id":"1"}}"#, true),
        (r#" {"create" : {"_id":"2", "_index":"news-a"}} // } "#, true),
        (r#"{"index":{"_index":"n\u0065ws-b","_id":17,"routing":"\/"}},,,"#, true),
        (r#"{"index":{"_index":"other","_id":"3"}}"#, false),
        (r#"{"index":{"_id":"4","pipeline":"p","dynamic_templates":{"a":"b"}}}"#, true),
    ] {
        sent += &format!("{action}\n{SOURCE}\n");
        let source = if stamped { SOURCE.replacen('{', "{STAMP,", 1) } else { SOURCE.into() };
        expected += &format!("{action}\n{source}\n");
    }
    sent += "\n{\"delete\":{\"_index\":\"news-a\",\"_id\":\"5\"}}\r\n";
    expected += "\n{\"delete\":{\"_index\":\"news-a\",\"_id\":\"5\"}}\r\n";
    let answer = Request::bulk("/news-c/_bulk", &sent).to(&spinney.url);
    assert_eq!(answer.status, 200);
    let got = String::from_utf8(fake.last().body).unwrap();
    let mut unstamped = String::new();
    for line in got.split_inclusive('\n') {
        match line.split_once("{\"cluster_root\":") {
            None => unstamped += line,
            Some((before, behind)) => {
                let (_, rest) = behind.split_once(",\"content\"").unwrap();
                unstamped += &format!("{before}{{STAMP,\"content\"{rest}");
            }
        }
    }
    assert_eq!(unstamped, expected);
}
