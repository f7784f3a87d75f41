use proptest::prelude::*;

use super::*;

/// The gaps as pairs of token rows.
fn gaps(old: &[u16], new: &[u16]) -> Vec<(Vec<u16>, Vec<u16>)> {
    let found = Alignment::of(old, new);
    found.gaps.iter().map(|gap| (old[gap.old.clone()].to_vec(), new[gap.new.clone()].to_vec())).collect()
}

fn row(from: u16, len: usize) -> Vec<u16> {
    (from..).take(len).collect()
}

#[test]
fn a_text_and_itself_have_no_gap() {
    let text = row(0, 50);
    let found = Alignment::of(&text, &text);
    assert!(found.gaps.is_empty());
    assert_eq!((found.old.count(0..50), found.new.count(0..50)), (50, 50));
}

#[test]
fn what_stands_in_one_place_is_a_gap_wherever_it_is() {
    let (head, middle, tail) = (row(0, 20), row(100, 20), row(200, 20));
    let with = |a: &[u16], b: &[u16], c: &[u16]| [a, &head, b, &middle, c].concat();
    assert_eq!(gaps(&with(&[7001], &[], &[]), &with(&[7002], &[], &[])), [(vec![7001], vec![7002])]);
    assert_eq!(gaps(&with(&[], &[7001], &[]), &with(&[], &[7002, 7003], &[])), [(vec![7001], vec![7002, 7003])]);
    assert_eq!(gaps(&with(&[], &[], &tail), &with(&[], &[], &[7002])), [(tail.clone(), vec![7002])]);
    assert_eq!(gaps(&with(&[], &[7001], &[]), &with(&[], &[], &[])), [(vec![7001], vec![])]);
    // Too far to be scanned: the next run is looked up.
    let far = row(7000, AHEAD + 1);
    assert_eq!(gaps(&with(&[], &far, &[]), &with(&[], &[7500], &[])), [(far.clone(), vec![7500])]);
    let far = row(7000, AHEAD);
    assert_eq!(gaps(&with(&[], &far, &[]), &with(&[], &[7500], &[])), [(far.clone(), vec![7500])]);
}

#[test]
fn a_part_that_was_moved_is_met() {
    let (first, second) = (row(0, 20), row(100, 20));
    let found = Alignment::of(&[&first[..], &second].concat(), &[&second[..], &first].concat());
    assert_eq!((found.old.count(0..40), found.new.count(0..40)), (40, 40));
}

#[test]
fn a_phrase_that_stands_elsewhere_was_not_moved() {
    let old = row(0, 200);
    let met = |before: &[u16], at: usize, len: usize| {
        let new = [before, &old[at..at + len], &[6_000]].concat();
        Alignment::of(&old, &new).new.count(before.len()..new.len())
    };
    for passed in [0, 10] {
        let before = row(5_000, passed);
        let near = NEAR + 2 * passed;
        let (in_place, far) = (RUN_OF_WORDS, MOVED - 1);
        assert_eq!(met(&before, near, in_place), in_place);
        // Each of its tokens that is passed brings its other ones one nearer.
        let beyond = near + 1 + far - RUN_OF_WORDS;
        assert_eq!([met(&before, beyond, far), met(&before, beyond, MOVED)], [0, MOVED]);
        assert_eq!(met(&before, beyond - 1, far), RUN_OF_WORDS);
    }
    // Before what the later text has passed.
    let before = &old[100..150];
    assert_eq!([met(before, 20, MOVED - 1), met(before, 20, MOVED)], [0, MOVED]);
}

#[test]
fn no_more_tokens_are_read_than_are_kept() {
    let long = row(0, MOST + 1);
    let found = Alignment::of(&long, &long);
    assert_eq!((found.old.count(0..MOST + 64), found.gaps.len()), (MOST, 0));
    assert!(found.old.has(MOST - 1) && !found.old.has(MOST));
}

#[test]
fn runs_of_characters_are_longer() {
    let character = |n: u16| CHARACTER | n;
    let text: Vec<u16> = (0..RUN_OF_CHARACTERS as u16).map(character).collect();
    let met = |len: usize| Alignment::of(&[&[9000], &text[..len]].concat(), &text[..len]).new.count(0..len);
    assert_eq!([met(RUN_OF_CHARACTERS - 1), met(RUN_OF_CHARACTERS)], [0, RUN_OF_CHARACTERS]);
    let words = row(0, RUN_OF_WORDS);
    let met = |len: usize| Alignment::of(&[&[9000], &words[..len]].concat(), &words[..len]).new.count(0..len);
    assert_eq!([met(RUN_OF_WORDS - 1), met(RUN_OF_WORDS)], [0, RUN_OF_WORDS]);
}

proptest! {
    #[test]
    fn the_nearest_place_ahead_is_found(
        old in prop::collection::vec(0u16..3, 0..14),
        new in prop::collection::vec(0u16..3, 0..14),
    ) {
        let skipped = (0..=AHEAD).flat_map(|more| (0..=AHEAD).map(move |less| (more, less)));
        let mut places: Vec<(usize, usize)> = skipped.collect();
        places.sort_by_key(|&(more, less)| (more + less, more));
        let agree = |&&(more, less): &&(usize, usize)| {
            let (Some(a), Some(b)) = (old.get(less..), new.get(more..)) else { return false };
            let both = a.len().min(b.len()).min(2);
            more + less > 0 && a[..both] == b[..both] && (both == 2 || both == 1 && a.len() == b.len())
        };
        prop_assert_eq!(ahead(&old, &new), places.iter().find(agree).copied());
    }

    #[test]
    fn runs_are_as_long_as_token_by_token(
        one in prop::collection::vec(0u16..2, 0..60),
        other in prop::collection::vec(0u16..2, 0..60),
    ) {
        let alike = one.iter().zip(&other).take_while(|(one, other)| one == other);
        prop_assert_eq!(in_common(&one, &other), alike.count());
        prop_assert_eq!(in_common(&one, &one), one.len());
    }

    #[test]
    fn ranges_are_marked_and_counted_bit_by_bit(from in 0usize..200, len in 0usize..200, at in 0usize..300) {
        let mut bits = TokenBits::new();
        bits.mark(from..from + len);
        prop_assert_eq!(bits.has(at), (from..from + len).contains(&at));
        prop_assert_eq!(bits.count(0..at), (0..at).filter(|&at| bits.has(at)).count());
        prop_assert_eq!(bits.count(at..400), (at..400).filter(|&at| bits.has(at)).count());
    }

    #[test]
    fn what_needs_no_table_is_what_the_table_says(
        body in prop::collection::vec(0u16..3, 0..60),
        other in prop::collection::vec(0u16..3, 0..60),
    ) {
        for run in [&body, &other].into_iter().filter_map(|body| run_at(body, 0)) {
            let mut walk = Walk { old: &body, new: &other, table: None, found: Alignment::empty() };
            prop_assert_eq!(walk.find(run, 0), RunTable::new(&body).find(run, 0));
        }
    }

    /// Whatever the tokens are: no token is met that the other text has not, and what is not met stands in a gap.
    #[test]
    fn tokens_are_met_or_stand_in_gaps(
        old in prop::collection::vec(prop_oneof![0u16..6, 0x4000u16..0x4004, 0x8400u16..0x8403], 0..120),
        new in prop::collection::vec(prop_oneof![0u16..6, 0x4000u16..0x4004, 0x8400u16..0x8403], 0..120),
    ) {
        let found = Alignment::of(&old, &new);
        for (at, token) in old.iter().enumerate() {
            prop_assert!(!found.old.has(at) || new.contains(token));
        }
        let mut behind = 0;
        for gap in &found.gaps {
            prop_assert!(gap.new.start >= behind && gap.new.end <= new.len() && gap.old.end <= old.len());
            behind = gap.new.end;
        }
        for (at, token) in new.iter().enumerate() {
            prop_assert!(!found.new.has(at) || old.contains(token));
            prop_assert!(found.new.has(at) || found.gaps.iter().any(|gap| gap.new.contains(&at)), "{}", at);
        }
    }
}
