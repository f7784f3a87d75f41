//! A small deterministic run of what the fuzz target `stored` does at length.

use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::local::{ForestState, StateChange};
use spinney::forest::overrides::Override;
use spinney::forest::{Portions, Root, Settings};
use spinney::hash::HashKey;
use spinney::method::{
    LearnedText, Method, MethodKind, SHORT_TEXT_DISTANCE, Short, Similarity, Staged, Strict, Verified, Workspace,
};
use spinney::text::Fields;
use spinney::time::Millis;

use crate::random::Random;
use crate::stored_check::{BATCH, check};

const BODIES: [&str; 4] = [
    "The harbour board met on Tuesday. Its 12 members agreed that the old lighthouse should be repaired before winter.",
    "The harbour board met on Tuesday. Its 14 members agreed that the old lighthouse should be repaired before winter.",
    "市图书馆新馆将于下周一正式开放。新馆位于滨江公园东侧，总建筑面积约三万平方米。",
    "Late again",
];

fn record(section: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(section);
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}

/// A copy of a forest and the changes since.
fn stored<F: MethodKind>(kind: u8, method: &str, mut state: ForestState<F>) -> Vec<u8> {
    let method: Method = method.parse().unwrap();
    let mut workspace = Workspace::default();
    let mut out = vec![kind];
    let mut roots = Vec::new();
    state.record();
    for (hour, body) in (1..).zip(BODIES) {
        let features = method.read(&Fields { title: Some("Notes"), body: &[body] }, &mut workspace);
        let when = DocumentTime::At(Millis(hour * 3_600_000));
        let placed =
            state.place(ForestDocument { features, when, title: Some(1), id: Default::default(), given: None }).placed;
        roots.extend(placed.map(|placed| placed.root));
        if hour == 2 {
            let (section, bytes) = state.begin_copy();
            record(section, &bytes, &mut out);
            let mut portions = Portions::default();
            while let Some((section, bytes)) = state.next_portion(&mut portions, 0) {
                record(section, &bytes, &mut out);
            }
            state.take_changes();
        }
    }
    if let [winner, .., loser] = roots[..] {
        state.add_override(Override::Merge { winner, losers: vec![loser] }, &[]).unwrap();
        state.add_override(Override::Pin { texts: vec![loser.0], root: winner }, &[loser]).unwrap();
        state.undo_override(0);
    }
    record(BATCH, &StateChange::batch(&state.take_changes()).unwrap(), &mut out);
    out
}

fn seeds() -> Vec<Vec<u8>> {
    let settings = |k| Settings { k, window: None, key: HashKey::FIXED };
    let verified = ForestState::<Verified>::new(settings(Distance(0)), Similarity::default(), LearnedText::default());
    vec![
        stored(0, "verified", verified.unwrap()),
        stored(1, "longest", ForestState::<Strict>::new(settings(Distance(3)), (), ()).unwrap()),
        stored(2, "staged", ForestState::<Staged>::new(settings(Distance(3)), (), ()).unwrap()),
        stored(3, "short:longest", ForestState::<Short>::new(settings(SHORT_TEXT_DISTANCE), (), ()).unwrap()),
    ]
}

#[test]
fn the_seeds_are_read() {
    for seed in seeds() {
        assert!(check(&seed) >= 6);
    }
}

/// What is left of a journal whose beginning does not read: nothing has told the time before a tree is founded.
#[test]
fn a_tree_without_a_time_is_counted() {
    let mut founds = vec![2];
    founds.extend(7_u64.to_le_bytes());
    founds.extend(0_i64.to_le_bytes());
    let mut data = vec![1];
    record(BATCH, &founds, &mut data);
    assert_eq!(check(&data), 1);
}

/// The word itself was in a part that does not read.
#[test]
fn a_restamp_without_its_override_is_kept() {
    let settings = Settings { k: Distance(3), window: None, key: HashKey::FIXED };
    let mut state = ForestState::<Strict>::new(settings, (), ()).unwrap();
    state.record();
    let [winner, loser] = [1, 2].map(|root| Root(Fingerprint(root)));
    state.add_override(Override::Merge { winner, losers: vec![loser] }, &[]).unwrap();
    let changes = state.take_changes();
    let mut data = vec![1];
    record(BATCH, &StateChange::batch(&changes[1..]).unwrap(), &mut data);
    assert_eq!((changes.len(), check(&data)), (2, 1));
}

/// Numbers as they mostly break something.
const NUMBERS: [[u8; 4]; 4] = [[0; 4], [0xFF; 4], [1, 0, 0, 0], [0xFF, 0xFF, 0xFF, 0x7F]];

#[test]
fn four_thousand_states_hold() {
    let seeds = seeds();
    let mut random = Random::new(20_260_203);
    let mut read = 0;
    for round in 0..4_000 {
        let mut data = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            let at = 1 + random.below(data.len() - 1);
            let length = random.below(24).min(data.len() - at);
            match random.below(4) {
                0 => drop(data.drain(at..at + length)),
                1 => {
                    let copied = data[at..at + length].to_vec();
                    let to = 1 + random.below(data.len());
                    data.splice(to..to, copied);
                }
                2 => data.iter_mut().skip(at).zip(random.pick(&NUMBERS)).for_each(|(byte, number)| *byte = number),
                _ => data[at] = random.next() as u8,
            }
        }
        read += check(&data);
    }
    assert!(read > 8_000, "{read}");
}
