//! The placement rules with several fingerprints and a proof.

use std::collections::HashSet;

use super::*;
use crate::candidates::PriorClaim;

/// A proof that agrees with its own kind only, on the terms of most forests here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind(u8);

const NUMBERS: Refusal = Refusal::Numbers { same: 0, different: 1 };

impl Proof for Kind {
    /// Kinds this far apart agree.
    type Thresholds = u8;

    fn agrees(&self, root: &Self, _: usize, apart: u8) -> Result<(), Refusal> {
        if self.0.abs_diff(root.0) <= apart { Ok(()) } else { Err(NUMBERS) }
    }
}

fn place_kind(forest: &mut Forest<Kind>, kind: u8, fingerprints: &[u64], whole: u64, now: i64) -> Placement {
    place_given(forest, kind, fingerprints, (whole, now), None)
}

fn place_given(
    forest: &mut Forest<Kind>,
    kind: u8,
    fingerprints: &[u64],
    (whole, now): (u64, i64),
    given: Option<Root>,
) -> Placement {
    let fingerprints: Vec<_> = fingerprints.iter().copied().map(Fingerprint).collect();
    let query = FeatureQuery {
        fingerprints: &fingerprints,
        whole: Fingerprint(whole),
        known_by: &[],
        proof: &Kind(kind),
        take: fingerprints.len(),
        known_by_whole: false,
        more: &[],
        tokens: &[],
        learned: Default::default(),
        earlier: None,
    };
    let none = HashSet::new();
    forest.place_given(&query, Millis(now), given.map(|root| PriorClaim::by_dry_placement(root, &none)))
}

const A: u64 = 0xaaaa;
const B: u64 = 0xbbbb_0000 << 16;
const C: u64 = 0xcccc << 48;
const WHOLE: u64 = 0x0123_4567_89ab_cdef;

#[test]
fn the_first_fingerprint_founds_a_tree_and_the_others_join_it() {
    let mut forest = forest_of(3, NEVER);
    let placed = place_kind(&mut forest, 1, &[A, B], WHOLE, 1);
    assert_eq!((placed.root, placed.decision), (root(A), Decision::NewRoot));
    assert_eq!(rows(&forest), [(B, A, 1), (A, A, 1)]);
    // Near the leaf that is nowhere near its root.
    let joined = place_kind(&mut forest, 1, &[B ^ 1, C], !WHOLE, 2);
    assert_eq!(joined.root, root(A));
    assert_eq!(forest.tree(root(A)).unwrap().children, 3);
}

#[test]
fn a_refused_document_founds_a_tree_beside_the_one_it_is_near() {
    let mut forest = forest_of(3, NEVER);
    place_kind(&mut forest, 1, &[A, B], WHOLE, 1);
    let other = place_kind(&mut forest, 2, &[A, C, C ^ 1], !WHOLE, 2);
    assert_eq!(other.root, root(C));
    assert_eq!(other.refused, [(root(A), NUMBERS)]);
    // A keeps its node in the first tree; the hash of the text stands in for it.
    assert_eq!(forest.root_of(Fingerprint(A)), Some(root(A)));
    assert_eq!(forest.root_of(Fingerprint(!WHOLE)), Some(root(C)));
    assert_eq!(forest.root_of(Fingerprint(C ^ 1)), Some(root(C)));
    assert_eq!(forest.tree(root(A)).unwrap().arrival, Millis(1));
}

#[test]
fn a_document_that_its_first_fingerprints_lead_nowhere_is_looked_up_by_all() {
    let place = |first: &[u64]| {
        let mut forest = forest_of(3, NEVER);
        place_kind(&mut forest, 1, &[A], 1, 1);
        place_kind(&mut forest, 2, &[B], 2, 1);
        let first: Vec<_> = first.iter().copied().map(Fingerprint).collect();
        let more = [first.clone(), vec![Fingerprint(B ^ 1)]].concat();
        let query = FeatureQuery {
            fingerprints: &first,
            whole: Fingerprint(WHOLE),
            known_by: &[],
            proof: &Kind(2),
            take: 1,
            known_by_whole: false,
            more: &more,
            tokens: &[],
            learned: Default::default(),
            earlier: None,
        };
        let placed = forest.place(&query, Millis(2));
        (placed.root, placed.refused)
    };
    // All that it has is near a tree that refuses it.
    assert_eq!(place(&[A ^ 1]), (root(B), vec![(root(A), NUMBERS)]));
    // One of them is free, or none is near anything.
    assert_eq!(place(&[A ^ 1, C]), (root(C), vec![(root(A), NUMBERS)]));
    assert_eq!(place(&[C]), (root(C), vec![]));
}

#[test]
fn the_hash_of_the_text_founds_a_tree_where_no_fingerprint_can() {
    let mut forest = forest_of(3, NEVER);
    place_kind(&mut forest, 1, &[A], WHOLE, 1);
    let other = place_kind(&mut forest, 2, &[A ^ 1], !WHOLE, 2);
    assert_eq!((other.root, other.decision), (root(!WHOLE), Decision::NewRoot));
    let again = place_kind(&mut forest, 2, &[A ^ 1], !WHOLE, 3);
    assert_eq!((again.root, again.decision), (root(!WHOLE), Decision::Refreshed));
    assert_eq!(again.arrived, Some(Millis(2)));
    assert_eq!(forest.withdraw(&again.rollback) + forest.withdraw(&other.rollback), 1);
    assert_eq!(forest.root_of(Fingerprint(!WHOLE)), None);
}

#[test]
fn a_hash_that_is_too_near_to_a_root_is_hashed_again() {
    let mut forest = forest_of(3, NEVER);
    place_kind(&mut forest, 1, &[A], A, 1);
    let other = place_kind(&mut forest, 2, &[A ^ 2], A ^ 1, 2);
    assert_eq!(other.decision, Decision::NewRoot);
    assert!(other.root.0.distance(Fingerprint(A)) > Distance(3));
    let again = place_kind(&mut forest, 2, &[A ^ 2], A ^ 1, 3);
    assert_eq!((again.root, again.decision), (other.root, Decision::Refreshed));
    forest.withdraw(&again.rollback);
    forest.withdraw(&other.rollback);
    assert_eq!(forest.stats().nodes, 1);
}

#[test]
fn a_text_that_was_placed_is_known_even_when_its_proof_has_changed() {
    let mut forest = forest_of(3, NEVER);
    let first = place_kind(&mut forest, 1, &[A], WHOLE, 1);
    place_kind(&mut forest, 2, &[B], 7, 1);
    // One of its fingerprints stands elsewhere, so the hash of the text stands for the document.
    place_kind(&mut forest, 1, &[A ^ 1, B], !WHOLE, 1);
    let again = place_kind(&mut forest, 2, &[C], !WHOLE, 2);
    assert_eq!((again.root, again.decision), (first.root, Decision::Refreshed));
}

#[test]
fn a_document_stays_outside_where_every_place_for_its_root_is_taken() {
    let mut forest = forest_of(3, NEVER);
    // The hash of the text is too near to a root, and each further hash is one.
    let whole = WHOLE ^ 2;
    place_kind(&mut forest, 1, &[WHOLE], WHOLE, 1);
    let mut hash = Fingerprint(whole);
    for _ in 1..placement::ROOT_TRIES {
        hash = placement::rehashed(hash);
        place_kind(&mut forest, 1, &[hash.0], hash.0, 1);
    }
    let outside = place_kind(&mut forest, 2, &[WHOLE ^ 1], whole, 2);
    assert_eq!((outside.root, outside.decision), (root(whole), Decision::Outside));
    assert_eq!(forest.stats().nodes, placement::ROOT_TRIES);
    assert_eq!(forest.withdraw(&outside.rollback), 0);
}

#[test]
fn no_fingerprint_at_all_is_the_hash_of_the_text() {
    let mut forest = forest_of(3, NEVER);
    assert_eq!(place_kind(&mut forest, 1, &[], WHOLE, 1).root, root(WHOLE));
    let again = place_kind(&mut forest, 1, &[], WHOLE, 2);
    assert_eq!(again.decision, Decision::Refreshed);
}

#[test]
fn a_document_comes_back_to_its_tree_whatever_grew_meanwhile() {
    let mut forest = forest_of(3, NEVER);
    // Both trees agree with the document; the first has more children and wins.
    place_kind(&mut forest, 1, &[A], 1 << 10, 1);
    place_kind(&mut forest, 1, &[A ^ 1], 1 << 11, 1);
    place_kind(&mut forest, 1, &[B], 1 << 12, 1);
    let first = place_kind(&mut forest, 1, &[B, A ^ 2, C], WHOLE, 2);
    assert_eq!((first.root, first.decision), (root(A), Decision::Joined { candidates: 2 }));
    assert_eq!(forest.root_of(Fingerprint(B)), Some(root(B)), "who has a node keeps it");
    for bit in 0..10 {
        place_kind(&mut forest, 1, &[B ^ 1 << bit], 1 << (40 + bit), 3);
    }
    assert!(forest.tree(root(B)).unwrap().children > forest.tree(root(A)).unwrap().children);
    let again = place_kind(&mut forest, 1, &[B, A ^ 2, C], WHOLE, 4);
    assert_eq!((again.root, again.decision), (root(A), Decision::Refreshed));
}

#[test]
fn check_says_what_place_would_do_and_changes_nothing() {
    let mut forest = forest_of(3, Some(Millis(100)));
    place_kind(&mut forest, 1, &[A], WHOLE, 1);
    place_kind(&mut forest, 2, &[B, A ^ 1], !WHOLE, 2);
    let before = (rows(&forest), forest.stats(), forest.clock());
    let fingerprints = [Fingerprint(A ^ 3), Fingerprint(B)];
    let query = FeatureQuery {
        fingerprints: &fingerprints,
        whole: Fingerprint(7),
        known_by: &[],
        proof: &Kind(2),
        take: 2,
        known_by_whole: false,
        more: &[],
        tokens: &[],
        learned: Default::default(),
        earlier: None,
    };
    let check = forest.check(&query, Millis(3));
    assert_eq!((check.root, check.decision), (root(B), Decision::Joined { candidates: 1 }));
    let verdicts: Vec<_> = check.trees.iter().map(|t| (t.root, t.verdict)).collect();
    assert_eq!(verdicts, [(root(A), Err(NUMBERS)), (root(B), Ok(()))]);
    let near = |fingerprint, distance, of| NearNode {
        fingerprint: Fingerprint(fingerprint),
        distance: Distance(distance),
        root: root(of),
    };
    assert_eq!(check.near, [vec![near(A, 2, A)], vec![near(B, 0, B)]]);
    assert_eq!(check.near[0], forest.near(Fingerprint(A ^ 3)));
    // Later than the clock: all would have expired.
    assert_eq!(forest.check(&query, Millis(1_000)).decision, Decision::NewRoot);
    assert_eq!((rows(&forest), forest.stats(), forest.clock()), before);
}

#[test]
fn a_forest_holds_proofs_against_its_own_terms() {
    let [mut strict, loose] = [(), ()].map(|()| forest_of::<Kind>(3, NEVER));
    let mut loose = loose.with_thresholds(1);
    for (forest, roots) in [(&mut strict, [A, B, C]), (&mut loose, [A, A, C])] {
        let placed = [(1, [A, A]), (2, [A ^ 1, B]), (3, [A ^ 2, C])]
            .map(|(kind, prints)| place_kind(forest, kind, &prints, prints[1] ^ WHOLE, 1).root);
        assert_eq!(placed, roots.map(root));
    }
}

#[test]
fn a_document_gets_the_root_again_that_it_was_given() {
    let mut forest = forest_of(3, NEVER);
    place_kind(&mut forest, 1, &[A], WHOLE, 1);
    // No proof would let it in; what it was given was decided when the forest knew less.
    let given = place_given(&mut forest, 2, &[B], (!WHOLE, 2), Some(root(A)));
    assert_eq!((given.root, given.decision), (root(A), Decision::Joined { candidates: 1 }));
    // Another fingerprint of its own than the first.
    let given = place_given(&mut forest, 3, &[!C, C], (C ^ 0xff, 3), Some(root(C)));
    assert_eq!((given.root, given.decision), (root(C), Decision::NewRoot));
    // Where its text is known elsewhere, that is where it is.
    let again = place_given(&mut forest, 3, &[!C, C], (C ^ 0xff, 4), Some(root(A)));
    assert_eq!((again.root, again.decision), (root(C), Decision::Refreshed));
    // It holds for one document.
    assert_eq!(place_kind(&mut forest, 4, &[A ^ 0xff00], 7, 5).root, root(A ^ 0xff00));
}
