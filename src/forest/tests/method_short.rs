//! The method `short` over the real forest.

use crate::fingerprint::Fingerprint;
use crate::forest::{Decision, Forest, Placement, Settings};
use crate::method::{Query, Refusal, ShortText, TAKEN_SHORT, WIDE};
use crate::time::Millis;

fn place(forest: &mut Forest<ShortText>, print: u64, text: &str) -> Placement {
    let query = Query {
        fingerprints: &[Fingerprint(print)],
        whole: Fingerprint(xxhash_rust::xxh3::xxh3_64(text.as_bytes())),
        known_by: &[],
        proof: &ShortText::of_letters(text),
        take: TAKEN_SHORT,
    };
    forest.place(&query, Millis(0))
}

#[test]
fn a_text_near_another_text_is_found_by_its_own_reprints() {
    let mut forest = Forest::new(Settings {
        k: WIDE,
        window: None,
    })
    .unwrap();
    let ferry = place(&mut forest, 0b0, "ferrycancelledbecauseofstorm").root;
    let other = place(&mut forest, 0b1, "choirwinsthesingingcontest");
    assert_eq!(other.decision, Decision::NewRoot);
    let refusal = Refusal::Radius {
        letters: 28,
        allowed: 5,
    };
    assert_eq!(other.refused, [(ferry, refusal)]);
    let reprint = place(&mut forest, 0b11, "choirwinsthesongcontest");
    assert_eq!(reprint.root, other.root);
    assert_eq!(
        place(&mut forest, 0b101, "ferrycanceledbecauseofastorm").root,
        ferry
    );
    // What comes again has its root, and brings no node.
    let nodes = forest.stats().nodes;
    assert_eq!(
        place(&mut forest, 0b1, "choirwinsthesingingcontest").root,
        other.root
    );
    assert_eq!(forest.stats().nodes, nodes);
    assert!(
        ferry.0.distance(other.root.0) > WIDE,
        "roots stay further apart than k"
    );
    // Withdrawn, it leaves nothing behind but what others rest on.
    let alone = place(&mut forest, 0b111, "nothingofthiswaseverheard");
    assert_eq!(forest.withdraw(&alone.rollback), 2);
    assert_eq!(forest.stats().nodes, nodes);
}
