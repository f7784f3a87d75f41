//! Readers see through spinney what the cluster shows them, and nothing else.

use serde_json::{Value, json};

use super::{ADMIN, READER, Scene};

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
    let answer = scene
        .ask(false, Some(READER), "POST", &groups(&scene.open), &body)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let page: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(page["total"], json!({"value": 1, "relation": "eq"}));
    assert_eq!(page["groups"][0]["similar_count"], 2);
    let root = page["groups"][0]["root"].as_str().unwrap().to_owned();
    for index in [&scene.closed[..], "closed-*", "*"] {
        for sort in ["similar_count", "matching_count", "_score", "title"] {
            let body = json!({"sort": sort}).to_string();
            let answer = scene
                .ask(false, Some(READER), "POST", &groups(index), &body)
                .await;
            assert_eq!(answer.status, 403, "{index} {sort} {}", answer.body);
            assert!(
                !answer.body.contains("hidden-title") && !answer.body.contains(&root),
                "{}",
                answer.body
            );
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
