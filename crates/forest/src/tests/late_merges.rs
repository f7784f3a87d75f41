//! Late merges over the real method: what docs/merges.md says of them.

use spinney_text::hash::mix64;
use spinney_text::method::{Features, LearnedText, Similarity, Verified, VerifiedFeatures};
use spinney_text::text::{Fields, Scratch};

use super::*;
use crate::document::{DocumentTime, ForestDocument};
use crate::local::{ForestState, StateChange};
use crate::overrides::Override;
use crate::port::{Commit, EarlierDocuments, ItemOutcome};

fn state(mode: LateMerges) -> ForestState<Verified> {
    let settings = Settings { k: Distance(0), window: Some(Millis(1_000)), key: HashKey::FIXED };
    let learned = LearnedText::default();
    let mut state = ForestState::new(settings, Similarity::default(), learned).unwrap();
    state.set_late_merges(mode);
    state
}

/// A text of 160 words that nobody else has; of its first or last ones `other` are another story's.
fn text(story: u64, variant: u64, other: u64) -> String {
    let word = |at: u64| {
        let is_other = match variant {
            1 => at < other,
            2 => at >= 160 - other,
            _ => false,
        };
        let of = if is_other { variant << 20 | story } else { story };
        format!("w{:x}", mix64(of << 16 | at) >> 40)
    };
    (0..160).map(word).collect::<Vec<_>>().join(" ")
}

fn document(text: &str, at: i64) -> ForestDocument {
    let mut features = VerifiedFeatures::new();
    let fields = Fields { title: None, body: &[text] };
    assert!(features.read(&mut Scratch::new(), &fields));
    ForestDocument {
        features: Some(Features::Verified(Box::new(features))),
        when: DocumentTime::At(Millis(at)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

/// Places a document that is accepted; answers its tree, and what it shows.
fn place(state: &mut ForestState<Verified>, text: &str, at: i64) -> (Root, Root) {
    let placed = place_unsettled(state, text, at);
    let of = (placed.root, placed.answer);
    state.settle(placed.settled(ItemOutcome::Accepted).into_iter().collect(), Millis(at));
    of
}

fn place_unsettled(state: &mut ForestState<Verified>, text: &str, at: i64) -> crate::port::RootAssignment {
    let reply = state.place_by(document(text, at), Commit::Provisional, &mut EarlierDocuments::default());
    reply.placed.unwrap()
}

/// Two variants of a story that did not find each other though their roots agree, and a third that agrees with both;
/// each with the root that it founds.
struct Scene {
    texts: [String; 3],
    roots: [Root; 2],
}

fn scenes() -> impl Iterator<Item = Scene> {
    (1u64..5_000).filter_map(|story| {
        // Few pairs that are so like each other do not find each other.
        let texts = [1, 2, 0].map(|variant| text(story, variant, 16 + 4 * (story % 4)));
        let mut state = state(LateMerges::Suggest);
        let [first, second, _] = [0, 1, 2].map(|at| place(&mut state, &texts[at], 0).0);
        let late = state.late_merges();
        let is_met = first != second && late.suggestions.len() == 1;
        is_met.then_some(Scene { texts, roots: [first, second] })
    })
}

#[test]
fn trees_that_a_document_agrees_with_are_suggested_or_merged() {
    let scenes: Vec<Scene> = scenes().take(3).collect();
    assert_eq!(scenes.len(), 3);
    for scene in scenes {
        let [a, b, between] = &scene.texts;
        let mut suggesting = state(LateMerges::Suggest);
        let mut applying = state(LateMerges::Apply);
        applying.record();
        let mut off = state(LateMerges::Off);
        for state in [&mut suggesting, &mut applying, &mut off] {
            assert_eq!(place(state, a, 0).0, scene.roots[0]);
            assert_eq!(place(state, b, 0).0, scene.roots[1]);
            // Nothing that was refused counts.
            let refused = place_unsettled(state, between, 0);
            state.settle(refused.settled(ItemOutcome::Refused).into_iter().collect(), Millis(0));
            assert_eq!(state.late_merges(), LateMergeLog::default());
            let (tree, shown) = place(state, between, 0);
            assert_eq!(tree, shown, "what comes later is as it is placed");
        }
        assert_eq!(off.late_merges(), LateMergeLog::default());
        let [suggestion] = suggesting.late_merges().suggestions[..] else { panic!("{:?}", suggesting.late_merges()) };
        let mut pair = [suggestion.winner, suggestion.loser];
        pair.sort_unstable();
        let mut roots = scene.roots;
        roots.sort_unstable();
        assert_eq!(pair, roots);
        assert_eq!(suggesting.overrides().iter().count(), 0);
        // A person says it: nothing is left to suggest.
        suggesting.add_override(Override::Merge { winner: suggestion.winner, losers: vec![suggestion.loser] }, &[]);
        assert_eq!(suggesting.late_merges().suggestions, []);

        let winner = suggestion.winner;
        let loser = suggestion.loser;
        assert_eq!(applying.overrides().get(0), Some(&Override::LateMerge { winner, loser }));
        assert_eq!(applying.late_merges().applied, 1);
        for text in &scene.texts {
            assert_eq!(place(&mut applying, text, 1).1, winner);
        }
        let unfinished = applying.overrides().unfinished();
        let unfinished: Vec<_> = unfinished.map(|(n, of)| (n, of.clone())).collect();
        assert_eq!(unfinished.len(), 1);
        let pass = applying.overrides().pass_for(unfinished);
        assert_eq!(pass.sought(applying.overrides()), [loser]);

        // Taken back by a person, it is not said again, and nothing is suggested.
        applying.undo_override(0).unwrap();
        let [first, second, _] = [a, b, between].map(|text| place(&mut applying, text, 2).1);
        assert_eq!([first, second], scene.roots);
        let apart = (first.min(second), first.max(second));
        assert_eq!(applying.overrides().kept_apart().collect::<Vec<_>>(), [apart]);
        assert_eq!(applying.late_merges().suggestions, []);
        // That was a word, too.
        applying.undo_override(0).unwrap();
        // A text that is known meets nobody.
        place(&mut applying, between, 3);
        assert_eq!(applying.overrides().group(loser), loser);
        place(&mut applying, &format!("{between} more"), 3);
        assert_eq!(applying.overrides().group(loser), winner);

        // From the journal, as bytes.
        let mut replayed = state(LateMerges::Apply);
        for change in applying.take_changes() {
            let mut bytes = Vec::new();
            change.write(&mut bytes);
            let read = StateChange::read(&mut &bytes[..]).unwrap();
            assert_eq!(read, change);
            replayed.apply(&read);
        }
        assert_eq!(replayed.overrides(), applying.overrides());
    }
}

#[test]
fn who_was_pinned_brings_nobody_together() {
    let scene = scenes().next().unwrap();
    let [a, b, between] = &scene.texts;
    let mut state = state(LateMerges::Apply);
    place(&mut state, a, 0);
    place(&mut state, b, 0);
    let resolved = state.check(document(between, 0)).check.unwrap().resolved;
    let correction = Override::Pin { texts: vec![resolved.text], root: root(7) };
    state.add_override(correction, &[]);
    assert_eq!(place(&mut state, between, 0).1, root(7));
    assert_eq!(state.overrides().iter().count(), 1);
}

#[test]
fn every_tree_of_both_groups_must_agree() {
    let scene = scenes().next().unwrap();
    let [a, b, between] = &scene.texts;
    let mut state = state(LateMerges::Apply);
    let stranger = place(&mut state, &text(1 << 19, 0, 0), 0).0;
    place(&mut state, a, 0);
    place(&mut state, b, 0);
    // A person has put something quite different to one of the two.
    let correction = Override::Merge { winner: scene.roots[1], losers: vec![stranger] };
    state.add_override(correction, &[]);
    place(&mut state, between, 0);
    assert_eq!(state.overrides().iter().count(), 1);
    assert_eq!(state.late_merges().suggestions, []);
}

#[test]
fn late_merges_of_trees_that_are_gone_make_room() {
    let scene = scenes().next().unwrap();
    let mut state = state(LateMerges::Apply);
    for text in &scene.texts {
        place(&mut state, text, 0);
    }
    assert_eq!(state.late_merges().applied, 1);
    let unfinished = state.overrides().unfinished();
    let unfinished = unfinished.map(|(n, of)| (n, of.clone())).collect();
    let done = state.overrides().pass_for(unfinished);
    let is_alive = |state: &ForestState<Verified>| {
        let alive = |root: Root| state.forest().tree(root).is_some();
        state.overrides().outlived(alive)
    };
    assert_eq!(is_alive(&state), Vec::<u64>::new(), "its trees live");
    place(&mut state, &text(1 << 19, 0, 0), 5_000);
    assert_eq!(is_alive(&state), Vec::<u64>::new(), "stored documents do not obey yet");
    state.restamped(&done);
    assert_eq!(is_alive(&state), [0]);
}
