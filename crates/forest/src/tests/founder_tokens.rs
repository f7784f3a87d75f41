//! Founder tokens goes with its tree.

use spinney_text::method::{Attributes, Method, Verified, Workspace};
use spinney_text::text::Fields;

use super::records::verified_within;
use super::*;
use crate::document::{DocumentTime, ForestDocument};
use crate::local::ForestState;
use crate::{Decision, Portions, Restoring};

const WINDOW: i64 = 1_000;

fn document(number: u64, at: i64) -> ForestDocument {
    let word = |n: u64| format!("{:x}", spinney_text::hash::mix64(number * 131 + n) >> 20);
    let words: Vec<String> = (0..60).map(word).collect();
    of_text(&words.join(" "), at)
}

fn of_text(text: &str, at: i64) -> ForestDocument {
    let fields = Fields { title: None, body: &[text] };
    ForestDocument {
        features: Method::Verified.read_with(&fields, Attributes::default(), &mut Workspace::default()),
        when: DocumentTime::At(Millis(at)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

fn state() -> ForestState<Verified> {
    verified_within(Some(Millis(WINDOW)))
}

/// Roots with founder tokens, oldest first.
fn kept(state: &ForestState<Verified>) -> Vec<Fingerprint> {
    state.forest().founder_tokens.roots().collect()
}

fn place(state: &mut ForestState<Verified>, number: u64, at: i64) -> Fingerprint {
    state.place(document(number, at)).placed.unwrap().root.0
}

fn copied(state: &ForestState<Verified>) -> ForestState<Verified> {
    let mut copied = Restoring::new(self::state());
    let (section, bytes) = state.begin_copy();
    copied.part(section, &bytes).unwrap();
    let mut portions = Portions::default();
    while let Some((section, bytes)) = state.next_portion(&mut portions, 0) {
        copied.part(section, &bytes).unwrap();
    }
    copied.finish()
}

#[test]
fn it_goes_when_its_tree_is_swept_up() {
    let mut state = state();
    let first: Vec<Fingerprint> = (0..40).map(|n| place(&mut state, n, 0)).collect();
    let second: Vec<Fingerprint> = (40..60).map(|n| place(&mut state, n, 500)).collect();
    assert_eq!(kept(&state), [first.clone(), second.clone()].concat());
    let bytes = state.forest().stats().founder_tokens.bytes;
    state.forest_mut().expire(Millis(WINDOW + 1), usize::MAX);
    assert_eq!(kept(&state), second);
    let left = state.forest().stats().founder_tokens.bytes;
    assert!(left < bytes / 2, "{left} of {bytes}");
    assert_eq!(kept(&copied(&state)), second);
    state.forest_mut().expire(Millis(3 * WINDOW), usize::MAX);
    assert_eq!(kept(&state), []);
    assert_eq!(state.forest().stats().founder_tokens.bytes, 0);
}

/// A root that founds again has the founder tokens of its new founder, or none, whether or not the old node was swept
/// up.
#[test]
fn it_goes_when_its_root_founds_again() {
    for sweeps in [false, true] {
        let mut state = state();
        let root = place(&mut state, 1, 0);
        let forest = state.forest_mut();
        let proof = *forest.proof(Root(root)).unwrap();
        forest.expire(Millis(2 * WINDOW), if sweeps { usize::MAX } else { 0 });
        let (fingerprint, added) = (root, Millis(2 * WINDOW));
        forest.commit(Change::AddRoot { fingerprint, added, proof });
        assert_eq!(kept(&state), []);
    }
}

#[test]
fn it_goes_when_its_root_becomes_a_leaf_or_is_withdrawn() {
    let mut state = state();
    let (first, second) = (place(&mut state, 1, 0), place(&mut state, 2, 900));
    let fingerprint = place(&mut state, 3, 900);
    assert_eq!(kept(&state).len(), 3);
    let forest = state.forest_mut();
    assert!(forest.commit(Change::Withdraw { fingerprint }));
    assert_eq!(kept(&state), [first, second]);
    let forest = state.forest_mut();
    forest.expire(Millis(WINDOW + 1), 0);
    let (fingerprint, root) = (first, Root(second));
    assert!(forest.commit(Change::AddLeaf { fingerprint, root }));
    assert_eq!(kept(&state), [second]);
}

/// A document that is accepted when its nodes have died already lives again with what its founder left.
#[test]
fn it_lives_again_with_its_root() {
    let mut state = state();
    let placed = state.place(document(1, 0)).placed.unwrap();
    let root = placed.root.0;
    let before = state.forest().founder_tokens.get(root).map(<[u16]>::to_vec);
    assert!(before.is_some());
    let forest = state.forest_mut();
    forest.expire(Millis(2 * WINDOW), 0);
    assert_eq!(forest.stats().nodes, 0);
    forest.arrive(&placed.ticket.unwrap().rollback, Millis(2 * WINDOW));
    assert_eq!(forest.root_of(root), Some(placed.root));
    let after = state.forest().founder_tokens.get(root).map(<[u16]>::to_vec);
    assert_eq!(after, before);
}

/// Earlier versions kept founder tokens of trees that were gone, and wrote it.
#[test]
fn what_has_no_tree_is_not_read() {
    let mut state = state();
    let roots: Vec<Fingerprint> = (0..3).map(|n| place(&mut state, n, 0)).collect();
    let founder_tokens = &mut state.forest_mut().founder_tokens;
    founder_tokens.put(Fingerprint(5), &[1, 2, 3].as_slice().into());
    assert_eq!(kept(&state).len(), 4);
    assert_eq!(kept(&copied(&state)), roots);
}

#[test]
fn what_has_none_loses_none() {
    let mut forest = forest_of::<()>(3, Some(Millis(WINDOW)));
    forest.record();
    super::place(&mut forest, 7, 0);
    forest.expire(Millis(2 * WINDOW), usize::MAX);
    assert_eq!(forest.stats().nodes, 0);
    let changes = forest.take_changes();
    assert!(!changes.iter().any(|change| matches!(change, Change::FounderTokens { .. })), "{changes:?}");
}

#[test]
fn a_text_that_its_fingerprints_lead_to_is_known_without_founder_tokens() {
    let place = |state: &mut ForestState<Verified>, text| state.place(of_text(text, 0)).placed.unwrap();
    let mut state = state();
    let founded = EDITIONS.map(|text| place(&mut state, text)).map(|placed| placed.root)[0];
    let first = place(&mut state, OF_ALL_FINGERPRINTS);
    assert_eq!((first.root, first.decision), (founded, Decision::Refreshed), "it was never placed before");
    state.forest_mut().set_founder_token_bytes(0);
    let again = place(&mut state, OF_ALL_FINGERPRINTS);
    assert_eq!((again.root, again.decision), (founded, Decision::Refreshed));
}
