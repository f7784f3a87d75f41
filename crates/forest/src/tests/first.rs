//! Which document of a tree is the first one: of every forest, through its port.

use super::*;
use crate::DocumentHash;

fn of(subject: &Subject, number: usize, id: DocumentHash) -> ForestDocument {
    ForestDocument { id, ..document(subject.method, number, DocumentTime::At(Millis(1))) }
}

fn first(subject: &Subject, number: usize, id: DocumentHash) -> Option<bool> {
    let placed = place(subject, vec![of(subject, number, id)]);
    let first = placed[0].first;
    settle(subject, placed, ItemOutcome::Accepted);
    first
}

#[test]
fn who_founded_the_tree_is_first_however_often_it_comes() {
    let [a, b, elsewhere] = [("x", "1"), ("x", "2"), ("y", "1")].map(|(index, id)| DocumentHash::of(index, id));
    for subject in forests(Some(Millis(1_000_000))) {
        let placed = place(&subject, vec![of(&subject, 1, a), of(&subject, 1, b), of(&subject, 1, a)]);
        let firsts: Vec<_> = placed.iter().map(|placed| placed.first).collect();
        assert_eq!(firsts, [Some(true), Some(false), Some(true)], "{}", say(&subject));
        settle(&subject, placed, ItemOutcome::Accepted);
        assert_eq!(first(&subject, 1, b), Some(false), "{}", say(&subject));
        assert_eq!(first(&subject, 1, a), Some(true), "{}", say(&subject));
        assert_eq!(first(&subject, 1, elsewhere), Some(false), "{}", say(&subject));
        // As a reader of the index knows it.
        assert_eq!(first(&subject, 1, DocumentHash::of_byte(0, "1")), Some(true), "{}", say(&subject));
    }
}

#[test]
fn a_dry_placement_says_the_same() {
    let [a, b] = ["1", "2"].map(|id| DocumentHash::of("x", id));
    for subject in forests(None) {
        let dry = subject.port.dry_placement();
        let place = |ids: Vec<DocumentHash>| {
            let documents = ids.into_iter().map(|id| of(&subject, 1, id)).collect();
            let replies = block_on(dry.place(documents)).unwrap().replies.into_iter();
            replies.map(|reply| reply.placed.unwrap().first).collect::<Vec<_>>()
        };
        assert_eq!(place(vec![a, b]), [Some(true), Some(false)], "{}", say(&subject));
        assert_eq!(place(vec![b, a]), [Some(false), Some(true)], "{}", say(&subject));
    }
}

#[test]
fn nothing_is_known_of_a_founder_without_an_id() {
    let (none, a) = (DocumentHash::UNKNOWN, DocumentHash::of("x", "1"));
    for subject in forests(None) {
        let placed = place(&subject, vec![of(&subject, 1, none)]);
        let root = placed[0].root;
        assert_eq!(placed[0].first, Some(true), "{}", say(&subject));
        settle(&subject, placed, ItemOutcome::Accepted);
        assert_eq!(first(&subject, 1, none), None, "{}", say(&subject));
        assert_eq!(first(&subject, 1, a), None, "{}", say(&subject));
        let firsts = block_on(subject.port.firsts(vec![root, Root(Fingerprint(3))])).unwrap();
        assert_eq!(firsts, [none; 2], "{}", say(&subject));
    }
}

#[test]
fn a_tree_that_was_taken_back_has_another_first() {
    let [a, b] = ["1", "2"].map(|id| DocumentHash::of("x", id));
    for subject in forests(None) {
        let placed = place(&subject, vec![of(&subject, 1, a)]);
        settle(&subject, placed, ItemOutcome::Refused);
        assert_eq!(first(&subject, 1, b), Some(true), "{}", say(&subject));
        assert_eq!(first(&subject, 1, a), Some(false), "{}", say(&subject));
    }
}

#[test]
fn an_overridden_group_has_an_unknown_first() {
    let [a, b] = ["1", "2"].map(|id| DocumentHash::of("x", id));
    for subject in forests(None) {
        let placed = place(&subject, vec![of(&subject, 1, a), of(&subject, 2, b)]);
        let [winner, loser] = [placed[0].root, placed[1].root];
        settle(&subject, placed, ItemOutcome::Accepted);
        block_on(subject.port.add_override(Override::Merge { winner, losers: vec![loser] }, Vec::new())).unwrap();
        let firsts = block_on(subject.port.firsts(vec![loser, winner])).unwrap();
        assert_eq!(firsts, [b, a], "{}", say(&subject));
        assert_eq!(first(&subject, 1, a), Some(true), "{}", say(&subject));
        assert_eq!(first(&subject, 2, b), None, "{}", say(&subject));
    }
}

#[test]
fn the_next_document_fills_a_vacant_group() {
    let [a, b] = ["1", "2"].map(|id| DocumentHash::of("x", id));
    for subject in forests(None) {
        let placed = place(&subject, vec![of(&subject, 1, a)]);
        let root = placed[0].root;
        assert!(!placed[0].fills_vacancy, "{}", say(&subject));
        settle(&subject, placed, ItemOutcome::Accepted);
        let set = |first| {
            // One of them is no tree.
            let firsts = vec![(root, first), (Root(Fingerprint(3)), first)];
            block_on(subject.port.set_firsts(firsts)).unwrap();
            block_on(subject.port.firsts(vec![root, Root(Fingerprint(3))])).unwrap()
        };
        assert_eq!(set(DocumentHash::VACANT), [DocumentHash::VACANT, DocumentHash::UNKNOWN], "{}", say(&subject));
        let placed = place(&subject, vec![of(&subject, 1, b)]);
        assert_eq!((placed[0].first, placed[0].fills_vacancy), (Some(true), true), "{}", say(&subject));
        settle(&subject, placed, ItemOutcome::Accepted);
        assert_eq!(set(b), [b, DocumentHash::UNKNOWN], "{}", say(&subject));
        assert_eq!(first(&subject, 1, b), Some(true), "{}", say(&subject));
        assert_eq!(first(&subject, 1, a), Some(false), "{}", say(&subject));
    }
}
