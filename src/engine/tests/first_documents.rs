//! The first documents of a route say which of its fields are misnamed.

use super::*;
use crate::engine::field_sample::SAMPLE;

/// So many documents as a bulk of these operations.
fn articles(op: &str, count: u64) -> String {
    let article = |n: u64| {
        let source = json!({"title": format!("Headline number {n}"), "body": format!("{n} {LONG}. {OTHER}.")});
        let source = if op == "update" { json!({"doc": source, "doc_as_upsert": true}) } else { source };
        format!("{}\n{source}\n", json!({op: {"_id": n.to_string()}}))
    };
    (0..count).map(article).collect()
}

fn missing(engine: &Arc<Engine>) -> Vec<(String, u64, Vec<String>)> {
    let missing = engine.routes().missing_fields().into_iter();
    missing.map(|missing| (missing.field.name, missing.documents, missing.candidates)).collect()
}

#[test]
fn the_first_documents_name_the_fields_that_they_lack() {
    let engine = engine(&[route(json!({"time_field": "day"}))]);
    // Partial updates do not have all fields, and what the cluster may refuse is not looked at.
    let caller = RequestContext { caller: Some(3), ..call(0) };
    stamp(&engine, &articles("update", 5), Some("news-1"), call(0));
    stamp(&engine, &articles("index", 5), Some("news-1"), caller);
    stamp(&engine, &articles("index", 5), Some("logs-1"), call(0));
    assert_eq!(missing(&engine), []);
    engine.know_writer(3, Millis(0));
    stamp(&engine, &articles("index", 7), Some("news-1"), caller);
    let of = |documents| vec![("content".into(), documents, vec!["body".into()]), ("day".into(), documents, vec![])];
    assert_eq!(missing(&engine), of(7));
    stamp(&engine, &articles("create", 3 * SAMPLE), Some("news-1"), call(0));
    assert_eq!(missing(&engine), of(SAMPLE));
    // What comes later is no news.
    stamp(&engine, &index("1", &json!({"content": "x", "day": "2026-11-21"})), Some("news-1"), call(0));
    assert_eq!(missing(&engine), of(SAMPLE));
}

#[test]
fn a_document_with_the_fields_among_the_first_is_enough() {
    let engine = engine(&[route(json!({}))]);
    let body = articles("index", SAMPLE - 1) + &index("z", &json!({"content": "x"}));
    stamp(&engine, &body, Some("news-1"), call(0));
    assert_eq!(missing(&engine), []);
}

/// Also where the misspelt field leaves documents without any text.
#[test]
fn a_writer_is_known_by_documents_without_text() {
    let engine = engine(&[route(json!({}))]);
    let caller = RequestContext { caller: Some(3), ..call(0) };
    let body = index("1", &json!({ "body": LONG }));
    let (_, placed) = written(&body, stamp(&engine, &body, Some("news-1"), caller));
    wait(engine.settle(placed, Resolution::Status(403), Millis(0))).unwrap();
    stamp(&engine, &body, Some("news-1"), caller);
    assert_eq!(missing(&engine), [], "nobody has accepted anything");
    let (_, placed) = written(&body, stamp(&engine, &body, Some("news-1"), caller));
    wait(engine.settle(placed, Resolution::Status(200), Millis(0))).unwrap();
    stamp(&engine, &body.repeat(7), Some("news-1"), caller);
    assert_eq!(missing(&engine)[0], ("content".into(), 7, vec!["body".into()]));
}
