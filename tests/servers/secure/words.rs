//! Who may say something about groups.

use serde_json::{Value, json};

use super::{READER, Scene, WRITER};
use crate::common::root_of;
use crate::common::twin::article;

pub async fn who_may_say_what() {
    let scene = Scene::new("words").await;
    let (open, closed) = (&scene.open, &scene.closed);
    for index in [open, closed] {
        let path = format!("/{index}/_bulk?refresh=true");
        let body = article("a", 1) + &article("b", 2);
        let answer = scene.through(Some(WRITER), "POST", &path, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    for index in [open, closed] {
        let documents = scene.server.documents(index).await;
        let root = |id: &str| root_of(&documents[id]).unwrap().to_owned();
        let merge = json!({"roots": [root("a"), root("b")]}).to_string();
        let pin = json!({"ids": ["a"], "root": root("b")}).to_string();
        let split = json!({"ids": ["a"]}).to_string();
        for user in [None, Some(("writer", "wrong")), Some(READER)] {
            for (method, path, body) in [
                ("POST", "_merge", &*merge),
                ("POST", "_pin", &pin),
                ("POST", "_split", &split),
                ("DELETE", "_overrides/0", ""),
            ] {
                let path = format!("/_spinney/{index}/{path}");
                let answer = scene.through(user, method, &path, body).await;
                let expected = if user == Some(READER) { 403 } else { 401 };
                assert_eq!(answer.status, expected, "{user:?} {path}: {}", answer.body);
            }
        }
        // Who may search sees what was said.
        let list = format!("/_spinney/{index}/_overrides");
        let answer = scene.through(Some(READER), "GET", &list, "").await;
        let expected = if index == open { 200 } else { 403 };
        assert_eq!(answer.status, expected, "{}", answer.body);
        let answer = scene.through(Some(WRITER), "GET", &list, "").await;
        let listed: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(listed["overrides"], json!([]), "{listed}");
    }
    // Asking has changed nothing, and who may write is heard.
    assert_eq!(scene.server.count(closed).await, 2);
    let documents = scene.server.documents(open).await;
    let root = |id: &str| root_of(&documents[id]).unwrap().to_owned();
    let merge = json!({"roots": [root("a"), root("b")]}).to_string();
    let path = format!("/_spinney/{open}/_merge");
    let answer = scene.through(Some(WRITER), "POST", &path, &merge).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let path = format!("/_spinney/{open}/_overrides/0");
    let answer = scene.through(Some(READER), "DELETE", &path, "").await;
    assert_eq!(answer.status, 403, "{}", answer.body);
    let answer = scene.through(Some(WRITER), "DELETE", &path, "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    scene.end().await;
}
