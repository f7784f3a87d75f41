//! Who may ask what would happen to a document.

use super::*;

/// A check tells what a search would: who may not search the index is told what the cluster tells of it, and no more.
#[tokio::test]
async fn who_may_check_what() {
    let scene = Scene::new("check").await;
    let source = format!("{{\"content\":\"{}\"}}", text(1));
    for index in [&scene.open, &scene.closed] {
        let path = format!("/{index}/_doc/a");
        let written = scene.through(Some(WRITER), "PUT", &path, &source).await;
        assert_eq!(written.status, 201, "{}", written.body);
    }
    // What does not exist is nobody's to search: it is no way to the forest of those that do.
    let next = format!("{}-next", scene.open);
    let closed_next = format!("{}-next", scene.closed);
    for (index, reads) in [(&scene.open, true), (&next, false), (&scene.closed, false), (&closed_next, false)] {
        let path = format!("/_spinney/{index}/_check");
        for user in [None, Some(("writer", "wrong")), Some(READER), Some(WRITER)] {
            let own = scene.through(user, "POST", &path, &source).await;
            let exists = !index.ends_with("-next");
            if exists && (user == Some(WRITER) || (reads && user == Some(READER))) {
                assert_eq!(own.status, 200, "{user:?} {index}: {}", own.body);
                assert!(own.body.contains("\"decision\":\"refreshed\""), "{}", own.body);
                continue;
            }
            let question = format!("/{index}/_count?terminate_after=1");
            let cluster = scene.ask(true, user, "GET", &question, "").await;
            assert_eq!(own, cluster, "{user:?} {index}");
            let status = own.status.as_u16();
            assert!(matches!(status, 401 | 403 | 404), "{user:?} {index}");
            assert!(!own.body.contains("decision"));
        }
    }
    scene.end().await;
}
