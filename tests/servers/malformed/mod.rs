//! Bulks that are wrong in every way we could think of, and some hundred that nobody thought of: the server's word on
//! them is the same through spinney as it is without, what is stored is the same but for the stamps, what is refused
//! leaves nothing in the forest, and spinney lives on.
//!
//! One thing is left out of the comparison of answers, besides what `common/twin.rs` names: the columns of the JSON
//! parser's messages, because a stamp moves what is wrong to the right.

mod by_hand;
mod mutations;

use crate::common;
use crate::common::twin::{Twins, assert_same, without_columns};
use crate::common::wire::{Request, Wire};

/// Stands in ids for the number of the case, so that no case covers up what another one stored.
const CASE: u8 = b'#';

fn numbered(body: &[u8], case: usize) -> Vec<u8> {
    common::wire::replace(body, &[CASE], case.to_string().as_bytes())
}

/// Sends every body to both sides, on one connection each, and compares.
async fn same_answers(upstream: &str, label: &str, bodies: impl Iterator<Item = Vec<u8>>) {
    let twins = Twins::new(upstream, label).await;
    let mut wires = [&twins.direct, &twins.proxied].map(|side| Wire::connect(&side.url));
    let (mut refused, mut errors, mut nodes) = (0, 0, 0);
    for (case, body) in bodies.enumerate() {
        let body = numbered(&body, case);
        let request = Request::bulk("/@index/_bulk", &body);
        let before = nodes;
        let mut answers = Vec::new();
        for (side, wire) in [&twins.direct, &twins.proxied].into_iter().zip(&mut wires) {
            let mut answer = twins.without_traces(side.send(wire, &request));
            answer.body = without_columns(&answer.body);
            answers.push(answer);
        }
        let what = format!("case {case}: {}", request.describe());
        assert_same(&what, &answers[0], &answers[1]);
        nodes = twins.nodes();
        if answers[1].status != 200 {
            refused += 1;
            assert_eq!(nodes, before, "a refused bulk left nodes: {what}");
        }
        errors += usize::from(answers[1].text().contains("\"errors\":true"));
    }
    // Otherwise these bodies would not be what this test says.
    assert!(refused > 10 && errors > 10, "{refused} {errors}");
    let stored = twins.same_documents().await;
    assert!(stored.len() > 20, "{}", stored.len());
    let log = twins.end().await;
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn by_hand_on_opensearch() {
    let mut bodies = by_hand::bodies();
    bodies.extend(by_hand::deep_bodies());
    assert!(bodies.len() >= 300, "{}", bodies.len());
    same_answers(&common::opensearch(), "hand-os", bodies.into_iter()).await;
}

#[tokio::test]
async fn by_hand_on_elasticsearch() {
    let bodies = by_hand::bodies();
    same_answers(&common::elasticsearch(), "hand-es", bodies.into_iter()).await;
}

#[tokio::test]
async fn mutations_on_opensearch() {
    let bodies = mutations::bodies().take(1000);
    same_answers(&common::opensearch(), "mutated-os", bodies).await;
}

#[tokio::test]
async fn mutations_on_elasticsearch() {
    // Others than those before.
    let bodies = mutations::bodies().skip(1000).take(500);
    same_answers(&common::elasticsearch(), "mutated-es", bodies).await;
}
