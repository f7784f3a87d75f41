//! What those leave behind whom the real security plugin refuses: nothing.

use super::*;
use crate::common::Waiting;
use crate::unverified::{Found, OPTIONS, after, before, has_learned, strange};

/// Bulks of unverified writers, if there are any, between the two of a writer.
async fn found(label: &str, strangers: &[User]) -> Found {
    let scene = Scene::with_method(label, "verified", &OPTIONS).await;
    let bulk = format!("/{}/_bulk?refresh=true", scene.open);
    let answer = scene.through(Some(WRITER), "POST", &bulk, &before()).await;
    assert!(answer.body.contains("\"errors\":false"), "{}", answer.body);
    let remembered = scene.nodes().await;
    for (user, index) in strangers.iter().flat_map(|user| [(*user, &scene.open), (*user, &scene.closed)]) {
        for query in ["", "?filter_path=took"] {
            let path = format!("/{index}/_bulk{query}");
            let bodies = strange();
            let direct = scene.ask(true, user, "POST", &path, &bodies[0]).await;
            for (number, body) in bodies.iter().enumerate() {
                let proxied = scene.ask(false, user, "POST", &path, body).await;
                assert!(number > 0 || direct == proxied, "{user:?} {path}");
            }
        }
        // Those who do not wait for the answer.
        for body in strange() {
            let path = format!("{}/{index}/_bulk?filter_path=took", scene.spinney.url);
            let mut request = scene.client.post(path).body(body);
            request = request.header("content-type", "application/x-ndjson");
            if let Some((name, password)) = user {
                request = request.basic_auth(name, Some(password));
            }
            // Dropped at some point before, in or after its answer.
            let _ = tokio::time::timeout(std::time::Duration::from_millis(5), request.send()).await;
        }
    }
    let waiting = Waiting::until("the strangers are gone");
    while scene.stats().await["requests_in_flight"] != 0 {
        waiting.pause().await;
    }
    let strange_nodes = scene.nodes().await.cast_signed() - remembered.cast_signed();
    let answer = scene.through(Some(WRITER), "POST", &bulk, &after()).await;
    assert!(answer.body.contains("\"errors\":false"), "{}", answer.body);
    let documents = scene.server.documents(&scene.open).await;
    assert_eq!(documents.len(), 4, "the strangers wrote nothing");
    let root = |id: &&str| root_of(&documents[*id]).unwrap().to_owned();
    let roots = ["first", "other", "reprint", "own"].iter().map(root);
    let roots = roots.collect();
    let nodes = scene.nodes().await;
    Found { roots, nodes, strange_nodes, learned: has_learned(&scene.end_and_log().await) }
}

#[tokio::test]
async fn whom_the_cluster_refuses_leaves_nothing() {
    let alone = found("alone", &[]).await;
    alone.assert_one_has_joined();
    let strangers = [None, Some(("writer", "wrong")), Some(READER)];
    assert_eq!(found("beset", &strangers).await, alone);
}
