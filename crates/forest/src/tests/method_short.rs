//! The method `short` over the real forest.

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::{HashKey, SplitMix64};
use spinney_text::method::{CANDIDATES, COMPARED, FeatureQuery, Refusal, SHORT_TEXT_DISTANCE, ShortText, TAKEN_SHORT};

use crate::time::Millis;
use crate::{Decision, Forest, Placement, Settings};

fn place(forest: &mut Forest<ShortText>, print: u64, text: &str) -> Placement {
    let query = FeatureQuery {
        fingerprints: &[Fingerprint(print)],
        whole: Fingerprint(xxhash_rust::xxh3::xxh3_64(text.as_bytes())),
        known_by: &[],
        proof: &ShortText::kept(text),
        take: TAKEN_SHORT,
        known_by_whole: false,
        more: &[],
        tokens: &[],
        learned: Default::default(),
        earlier: None,
    };
    forest.place(&query, Millis(0))
}

#[test]
fn a_text_near_another_text_is_found_by_its_own_reprints() {
    let mut forest = Forest::new(Settings { k: SHORT_TEXT_DISTANCE, window: None, key: HashKey::FIXED }).unwrap();
    let ferry = place(&mut forest, 0b0, "ferrycancelledbecauseofstorm").root;
    let other = place(&mut forest, 0b1, "choirwinsthesingingcontest");
    assert_eq!(other.decision, Decision::NewRoot);
    let refusal = Refusal::Radius { letters: 28, allowed: 5 };
    assert_eq!(other.refused, [(ferry, refusal)]);
    let reprint = place(&mut forest, 0b11, "choirwinsthesongcontest");
    assert_eq!(reprint.root, other.root);
    assert_eq!(place(&mut forest, 0b101, "ferrycanceledbecauseofastorm").root, ferry);
    // What comes again has its root, and brings no node.
    let nodes = forest.stats().nodes;
    assert_eq!(place(&mut forest, 0b1, "choirwinsthesingingcontest").root, other.root);
    assert_eq!(forest.stats().nodes, nodes);
    assert!(ferry.0.distance(other.root.0) > SHORT_TEXT_DISTANCE, "roots stay further apart than k");
    // Withdrawn, it leaves nothing behind but what others rest on.
    let alone = place(&mut forest, 0b111, "nothingofthiswaseverheard");
    assert_eq!(forest.withdraw(&alone.rollback), 2);
    assert_eq!(forest.stats().nodes, nodes);
}

/// A bulk of short texts that are all near each other and alike to none.
#[test]
fn a_crowd_costs_each_text_a_bounded_number_of_comparisons() {
    let crowd = |key: HashKey| {
        let mut forest = Forest::new(Settings { k: SHORT_TEXT_DISTANCE, window: None, key }).unwrap();
        let mut random = SplitMix64(7);
        let mut answers = Vec::new();
        for _ in 0..600 {
            // Five bits each: no two are more than ten apart.
            let print = (0..5).fold(0, |bits, _| bits | 1 << (random.next_u64() % 64));
            let letters = (0..30).map(|_| char::from(b'a' + (random.next_u64() % 26) as u8));
            let text: String = letters.collect();
            let before = COMPARED.get();
            let placed = place(&mut forest, print, &text);
            let compared = COMPARED.get() - before;
            assert!(
                compared <= 3 * CANDIDATES,
                "{compared} comparisons with {} nodes in the forest",
                forest.stats().nodes
            );
            // What came before is found by its own nodes, whoever crowds around it.
            let before = COMPARED.get();
            assert_eq!(place(&mut forest, print, &text).root, placed.root);
            assert!(COMPARED.get() - before <= 1);
            answers.push((placed.root, placed.decision, placed.refused));
        }
        answers
    };
    assert_eq!(crowd(HashKey::FIXED), crowd(HashKey::new(3, 5)));
}

/// Where many fingerprints share a half, the tables go through a map whose order hangs on the secret.
#[test]
fn no_answer_depends_on_the_secret() {
    let answers = |key: HashKey| {
        let mut forest = Forest::new(Settings { k: Distance(3), window: None, key }).unwrap();
        let mut random = SplitMix64(9);
        let mut answers = Vec::new();
        for _ in 0..1_200 {
            let print = (0xfeed << 32) | (random.next_u64() % 2_048);
            let letters = (0..10).map(|_| char::from(b'a' + (random.next_u64() % 3) as u8));
            let placed = place(&mut forest, print, &letters.collect::<String>());
            answers.push((placed.root, placed.decision, placed.refused, placed.rollback));
        }
        assert!(forest.stats().nodes > 1_000);
        answers
    };
    let fixed = answers(HashKey::FIXED);
    assert!(fixed.iter().any(|(.., refused, _)| refused.len() == CANDIDATES));
    for secret in 0..4 {
        assert!(answers(HashKey::FIXED.derived(secret)) == fixed, "{secret}");
    }
}
