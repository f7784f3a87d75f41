//! A forest that is copied while it changes, and put together again.

use proptest::prelude::*;
use spinney_text::method::{
    Attributes, Durable, LearnedText, Method, MethodKind, SHORT_TEXT_DISTANCE, Short, Similarity, Staged, Strict,
    TreeTally, Verified, Workspace,
};
use spinney_text::text::Fields;

use super::*;
use crate::document::{DocumentTime, ForestDocument};
use crate::local::{ForestState, StateChange};
use crate::overrides::Override;
use crate::port::{Commit, EarlierDocuments, ItemOutcome, Settlement};
use crate::save::{NODES, TREES};
use crate::{DocumentHash, LateMerges, Portions, Restoring};

pub(super) fn settings(k: Distance, window: Option<Millis>) -> Settings {
    Settings { k, window, key: HashKey::FIXED }
}

/// A document of a small world: some are reprints of others.
fn document(method: &Method, number: u64, at: i64, workspace: &mut Workspace) -> ForestDocument {
    let word = |n: u64| format!("{:x}", spinney_text::hash::mix64(number / 3 * 131 + n) >> 20);
    let mut words: Vec<String> = (0..match method {
        Method::Short(_) => 6,
        _ => 50,
    })
        .map(word)
        .collect();
    if number % 3 == 1 {
        words.truncate(words.len() - 1);
    }
    let footer = "All rights are reserved by the publisher of this page and by its many partners.";
    let text = format!("{}. {footer}", words.join(" "));
    let text = match method {
        Method::Short(_) => words.join(" "),
        _ => text,
    };
    let fields = Fields { title: None, body: &[&text] };
    ForestDocument {
        features: method.read_with(&fields, Attributes::default(), workspace),
        when: match number % 4 {
            0 => DocumentTime::Claimed(Millis(at)),
            _ => DocumentTime::At(Millis(at)),
        },
        title: Some((number % 5) as u32),
        // Every fifth one has no id.
        id: match number % 5 {
            0 => DocumentHash::UNKNOWN,
            _ => DocumentHash::of("x", &number.to_string()),
        },
        given: None,
    }
}

#[derive(Debug, Clone)]
enum Step {
    Place {
        number: u64,
        pause: i64,
    },
    Settle {
        outcome: u8,
    },
    Sweep,
    Evict,
    /// Somebody says that the trees of two nodes are one, or takes back what was said.
    Say {
        nodes: (usize, usize),
        back: Option<u64>,
    },
    /// Takes the next portion of the copy.
    Copy,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0u64..90, prop_oneof![8 => 0i64..15, 1 => 0i64..300]).prop_map(|(number, pause)| Step::Place { number, pause }),
        4 => (0u8..6).prop_map(|outcome| Step::Settle { outcome }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Evict),
        1 => (any::<(usize, usize)>(), prop_oneof![2 => Just(None), 1 => (0u64..9).prop_map(Some)])
            .prop_map(|(nodes, back)| Step::Say { nodes, back }),
        6 => Just(Step::Copy),
    ]
}

/// A state with its journal and the copy that is being made of it.
struct Run<F: MethodKind> {
    method: Method,
    state: ForestState<F>,
    journal: Vec<Vec<u8>>,
    parts: Vec<(u8, Vec<u8>)>,
    /// Where the journal stood when the copy was begun.
    from: usize,
    portions: Portions,
    copied: bool,
    at: i64,
    open: Vec<Settlement>,
    earlier: EarlierDocuments,
    workspace: Workspace,
}

impl<F: MethodKind> Run<F> {
    fn new(method: &str, state: ForestState<F>) -> Self {
        let mut run = Run {
            method: method.parse().unwrap(),
            state,
            journal: Vec::new(),
            parts: Vec::new(),
            from: 0,
            portions: Portions::default(),
            copied: false,
            at: 1_000,
            open: Vec::new(),
            earlier: EarlierDocuments::default(),
            workspace: Workspace::default(),
        };
        run.state.record();
        run
    }

    fn journal(&mut self) {
        let changes = self.state.take_changes();
        if !changes.is_empty() {
            let mut batch = Vec::new();
            for change in &changes {
                change.write(&mut batch);
            }
            let mut rest = batch.as_slice();
            for change in changes {
                let read = StateChange::<F::Proof>::read(&mut rest);
                assert_eq!(format!("{read:?}"), format!("{:?}", Some(change)));
            }
            self.journal.push(batch);
        }
    }

    fn begin_copy(&mut self) {
        self.parts = vec![self.state.begin_copy()];
        self.from = self.journal.len();
        (self.portions, self.copied) = (Portions::default(), false);
    }

    fn copy(&mut self) {
        let lsn = self.journal.len() as u64;
        // A few at a time: most portions of a small forest are empty.
        for _ in 0..600 {
            match self.state.next_portion(&mut self.portions, lsn) {
                Some(part) if part.1.is_empty() => {}
                Some(part) => self.parts.push(part),
                None => self.copied = true,
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Place { number, pause } => {
                self.at += pause;
                let document = document(&self.method, number, self.at, &mut self.workspace);
                let commit = match number % 7 {
                    0 => Commit::AtOnce,
                    _ => Commit::Provisional,
                };
                let reply = self.state.place_by(document, commit, &mut self.earlier);
                let placed = reply.placed.unwrap();
                if commit == Commit::Provisional {
                    self.open.extend(placed.settled(ItemOutcome::Accepted));
                }
            }
            Step::Settle { outcome } => {
                let mut batch = std::mem::take(&mut self.open);
                for settlement in &mut batch {
                    settlement.outcome = match outcome {
                        0 => ItemOutcome::Refused,
                        1 => ItemOutcome::Unknown,
                        _ => ItemOutcome::Accepted,
                    };
                }
                self.state.settle(batch, Millis(self.at));
                self.earlier = EarlierDocuments::default();
                self.state.forget_unknown(Millis(self.at + 60_000), 2);
            }
            Step::Sweep => {
                self.state.forest_mut().expire(Millis(self.at), 7);
            }
            Step::Evict => {
                let forest = self.state.forest_mut();
                forest.set_memory_limit(20_000);
            }
            Step::Say { nodes, back } => self.say(nodes, back),
            Step::Copy => self.copy(),
        }
        self.journal();
    }

    fn say(&mut self, nodes: (usize, usize), back: Option<u64>) {
        if let Some(number) = back {
            self.state.undo_override(number);
            if self.at % 2 == 0 {
                let unfinished = self.state.overrides().unfinished().take(1);
                let first = unfinished.map(|(number, restamp)| (number, restamp.clone()));
                let done = self.state.overrides().pass_for(first.collect());
                self.state.restamped(&done);
            }
            return;
        }
        let all = self.state.forest().nodes();
        let root = |at: usize| Some(all.get(at.checked_rem(all.len())?)?.root);
        if let Some((winner, loser)) = root(nodes.0).zip(root(nodes.1)) {
            let losers = vec![loser];
            let correction = Override::Merge { winner, losers };
            self.state.add_override(correction, &[]).unwrap();
        }
    }

    /// What a restart would find.
    fn restored(&self, empty: ForestState<F>) -> ForestState<F> {
        let mut restoring = Restoring::new(empty);
        for (section, bytes) in &self.parts {
            restoring.part(*section, bytes).unwrap();
        }
        for (lsn, batch) in (1..).zip(&self.journal).skip(self.from) {
            restoring.batch(lsn, batch).unwrap();
        }
        restoring.finish()
    }
}

pub(super) fn seen<F: MethodKind>(state: &ForestState<F>) -> (Vec<String>, ForestStats, String) {
    let forest = state.forest();
    let nodes = forest.nodes();
    // Debug, since not every proof can be compared.
    let rows = nodes.iter().map(|node| {
        let tree = forest.tree(node.root);
        let first = forest.first(node.root);
        format!("{} {} {:?} {} {tree:?} {first:?}", node.fingerprint, node.root, node.added, node.arrival.0)
    });
    let mut stats = forest.stats();
    stats.founder_tokens.evicted_total = 0;
    stats.founder_tokens.missing_total = 0;
    let stats =
        ForestStats { dead_nodes: 0, memory_bytes: 0, expired_total: 0, withdrawn_total: 0, evicted_total: 0, ..stats };
    (rows.collect(), stats, format!("{:?}", state.learned()))
}

fn run<F: MethodKind>(method: &str, make: impl Fn() -> ForestState<F>, before: &[Step], during: &[Step]) {
    let mut run = Run::new(method, make());
    for step in before {
        run.step(step);
    }
    run.begin_copy();
    for step in during {
        run.step(step);
    }
    while !run.copied {
        run.copy();
    }
    for step in before.iter().take(5) {
        run.step(step);
    }
    let mut restored = run.restored(make());
    // The clock alone is not kept.
    run.state.forest_mut().advance(Millis(run.at));
    restored.forest_mut().advance(Millis(run.at));
    assert_eq!(seen(&run.state), seen(&restored), "{method}");
    // In its order: who goes next when there is no room.
    let founder_tokens = |state: &ForestState<F>| -> Vec<(Fingerprint, Vec<u16>)> {
        let kept = &state.forest().founder_tokens;
        let row = |root| Some((root, kept.get(root)?.to_vec()));
        kept.roots().filter_map(row).collect()
    };
    assert_eq!(founder_tokens(&run.state), founder_tokens(&restored), "{method}");
    let forest = run.state.forest();
    for root in forest.founder_tokens.roots() {
        let entry = forest.index.get(root).unwrap();
        assert!(forest.is_root(root, roots::RootNumber(entry.root)));
    }
    assert_eq!(run.state.overrides(), restored.overrides(), "{method}");
    // From here on both go the same way, whatever lies in the index beside the living.
    run.open.clear();
    for step in before.iter().chain(during).take(40) {
        let Step::Place { number, pause } = *step else {
            continue;
        };
        run.at += pause;
        let place = |state: &mut ForestState<F>, workspace: &mut Workspace| {
            let document = document(&run.method, number, run.at, workspace);
            let placed = state.place(document).placed.unwrap();
            assert_eq!(placed.answer, state.overrides().group(placed.root));
            (placed.root, placed.decision)
        };
        let first = place(&mut run.state, &mut run.workspace);
        assert_eq!(first, place(&mut restored, &mut run.workspace), "{method}");
    }
    let swept = |state: &mut ForestState<F>| {
        let forest = state.forest_mut();
        forest.expire(Millis(run.at), usize::MAX);
        (forest.stats().nodes, forest.index.len(), forest.stats().roots)
    };
    assert_eq!(swept(&mut run.state), swept(&mut restored), "{method}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_copy_and_the_changes_since_make_the_same_state(
        before in prop::collection::vec(step(), 0..120),
        during in prop::collection::vec(step(), 0..120),
        window in prop_oneof![Just(None), Just(Some(Millis(200))), Just(Some(Millis(5_000)))],
        // That of a few trees, or of all.
        founder_tokens in prop_oneof![Just(None), Just(Some(1_000)), Just(Some(4_000))],
    ) {
        let strict = || ForestState::<Strict>::new(settings(Distance(3), window), (), ()).unwrap();
        run("longest", strict, &before, &during);
        let staged = || ForestState::<Staged>::new(settings(Distance(3), window), (), ()).unwrap();
        run("staged", staged, &before, &during);
        let short = || ForestState::<Short>::new(settings(SHORT_TEXT_DISTANCE, window), (), ()).unwrap();
        run("short", short, &before, &during);
        let verified = || {
            let settings = settings(Distance(0), window);
            let mut state = ForestState::<Verified>::new(settings, Similarity::default(), LearnedText::default()).unwrap();
            if let Some(bytes) = founder_tokens {
                state = state.with_founder_tokens(bytes);
            }
            state.set_late_merges(LateMerges::Apply);
            state
        };
        run("verified", verified, &before, &during);
    }

    #[test]
    fn any_bytes_are_refused_or_read(section in 0u8..8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let settings = settings(Distance(0), None);
        let state = ForestState::<Verified>::new(settings, Similarity::default(), LearnedText::default()).unwrap();
        let mut restoring = Restoring::new(state);
        let _ = restoring.part(section, &bytes);
        let _ = restoring.batch(1, &bytes);
        let _ = restoring.finish().forest().stats();
    }
}

/// The number of a tree says where it was, and not how much memory there is.
#[test]
fn the_highest_number_of_a_tree_takes_no_memory_for_those_below() {
    let mut trees = Vec::new();
    for number in [0, 7, u32::MAX - 3] {
        number.write(&mut trees);
        Fingerprint(u64::from(number)).write(&mut trees);
        5i64.write(&mut trees);
        TreeTally::default().write(&mut trees);
    }
    let mut nodes = Vec::new();
    for number in [0, 7, 1_030, u32::MAX - 3] {
        Fingerprint(u64::from(number)).write(&mut nodes);
        number.write(&mut nodes);
        0u32.write(&mut nodes);
    }
    let strict = || ForestState::<Strict>::new(settings(Distance(0), None), (), ()).unwrap();
    let mut restoring = Restoring::new(strict());
    restoring.part(TREES, &trees).unwrap();
    assert!(restoring.number_bytes() < 1 << 27, "{}", restoring.number_bytes());
    restoring.part(NODES, &nodes).unwrap();
    let stored: Vec<u64> = restoring.finish().forest().nodes().iter().map(|node| node.fingerprint.0).collect();
    assert_eq!(stored.len(), 3, "{stored:?}: a tree that is not there has no nodes");
}
