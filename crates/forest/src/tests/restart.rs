//! What a start catches up with changes no root that the forest has answered, and moves no clock that would.

use std::collections::HashMap;

use proptest::prelude::*;
use spinney_text::method::{Method, MethodKind, SHORT_TEXT_DISTANCE, Short, Similarity, Staged, Strict, Verified};

use super::recovery::{Kept, Kind, document, for_all};
use super::*;
use crate::RecoveryPass;
use crate::document::{DocumentTime, ForestDocument};
use crate::local::{ForestState, StateChange};
use crate::port::{Commit, EarlierDocuments, ItemOutcome};
use crate::{Portions, Restoring};

/// What the cluster has done with a request when the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Accepted,
    Refused,
    /// It was told to nobody: the process ends before.
    Stored,
    /// As `Stored`, and the journal does not have it.
    Lost,
}

/// A request: its documents, the pause before it, how much older the documents' own dates are, and what became of it.
#[derive(Debug, Clone)]
struct Request {
    numbers: Vec<u64>,
    pause: i64,
    late: i64,
    fate: Fate,
}

/// A document of an older index: its number, which root stands there, and how long after the last one of the forest it
/// arrived.
#[derive(Debug, Clone, Copy)]
struct Older {
    number: u64,
    root: u8,
    later: i64,
}

/// How the process ends, and what is read after it.
#[derive(Debug, Clone)]
struct End {
    /// The documents' own dates are the time.
    is_dated: bool,
    /// Before so many requests a snapshot was begun.
    snapshot: usize,
    last: Fate,
    page: usize,
    order: Vec<u64>,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let numbers = prop::collection::vec(0u64..150, 1..12);
    let pause = prop_oneof![6 => 0i64..4, 1 => 0i64..60];
    let fate = prop_oneof![4 => Just(Fate::Accepted), 1 => Just(Fate::Refused)];
    let request = (numbers, pause, 0i64..50, fate);
    let request = request.prop_map(|(numbers, pause, late, fate)| Request { numbers, pause, late, fate });
    prop::collection::vec(request, 1..20)
}

fn older() -> impl Strategy<Value = Vec<Older>> {
    let later = prop_oneof![3 => -60i64..0, 2 => 0i64..60, 1 => 0i64..2_000];
    let older = (0u64..150, any::<u8>(), later);
    let older = older.prop_map(|(number, root, later)| Older { number, root, later });
    prop::collection::vec(older, 0..60)
}

fn end() -> impl Strategy<Value = End> {
    let last = prop_oneof![Just(Fate::Stored), Just(Fate::Lost), Just(Fate::Accepted)];
    let order = prop::collection::vec(any::<u64>(), 7);
    (any::<bool>(), 0usize..25, last, 1usize..40, order).prop_map(|(is_dated, snapshot, last, page, order)| End {
        is_dated,
        snapshot,
        last,
        page,
        order,
    })
}

/// What is left of a process.
struct Left {
    parts: Vec<(u8, Vec<u8>)>,
    journal: Vec<Vec<u8>>,
    /// What the index has of it.
    kept: Vec<Kept>,
    /// Documents that were acknowledged.
    told: Vec<u64>,
}

impl<F: MethodKind> Kind<F> {
    /// Requests to a forest until its process ends. Answers the forest as it was then.
    fn live(&self, requests: &[Request], end: &End) -> (ForestState<F>, Left) {
        let mut state = self.empty();
        state.record();
        let mut left = Left { parts: Vec::new(), journal: Vec::new(), kept: Vec::new(), told: Vec::new() };
        let mut now = 1_000_000;
        for (at, request) in requests.iter().enumerate() {
            if at == end.snapshot {
                left.parts.push(state.begin_copy());
                let mut portions = Portions::default();
                left.journal.clear();
                left.parts.extend(std::iter::from_fn(|| state.next_portion(&mut portions, 0)));
            }
            now += request.pause;
            let is_last = at + 1 == requests.len();
            let fate = if is_last { end.last } else { request.fate };
            let (mut earlier, mut settlements) = (EarlierDocuments::default(), Vec::new());
            for &number in &request.numbers {
                let when = match end.is_dated {
                    true => DocumentTime::Claimed(Millis(now - request.late)),
                    false => DocumentTime::At(Millis(now)),
                };
                let document = document(&self.method, number, when, None);
                let reply = state.place_by(document, Commit::Provisional, &mut earlier);
                let placed = reply.placed.unwrap();
                if fate != Fate::Refused {
                    left.kept.push(Kept { number, root: placed.root, arrival: placed.clock });
                }
                match fate {
                    Fate::Accepted => left.told.push(number),
                    Fate::Lost | Fate::Stored | Fate::Refused => {}
                }
                let outcome = match fate {
                    Fate::Refused => ItemOutcome::Refused,
                    _ => ItemOutcome::Accepted,
                };
                settlements.extend(placed.settled(outcome));
            }
            if matches!(fate, Fate::Accepted | Fate::Refused) {
                state.settle(settlements, Millis(now));
            }
            let changes = state.take_changes();
            if fate != Fate::Lost {
                left.journal.push(StateChange::batch(&changes).unwrap());
            }
        }
        (state, left)
    }

    fn start(&self, left: &Left) -> ForestState<F> {
        let mut restoring = Restoring::new(self.empty());
        for (section, bytes) in &left.parts {
            restoring.part(*section, bytes).unwrap();
        }
        for (lsn, batch) in (1..).zip(&left.journal) {
            restoring.batch(lsn, batch).unwrap();
        }
        restoring.finish()
    }

    /// The root that a document gets at this time, if the forest knows it.
    fn known(&self, state: &mut ForestState<F>, number: u64, at: Millis) -> Option<Root> {
        let check = state.check(document(&self.method, number, DocumentTime::At(at), None));
        let check = check.check.unwrap();
        (check.decision == Decision::Refreshed).then_some(check.answer)
    }

    /// A fingerprint of a document.
    fn print_of(&self, number: u64, at: usize) -> Root {
        let mut features = document(&self.method, number, DocumentTime::Still, None).features;
        let features = features.as_mut().and_then(F::features).unwrap();
        let learned = &mut F::Learned::default();
        Root(F::ask(features, learned, &Default::default(), |query| {
            let prints = query.fingerprints;
            prints.get(at % prints.len()).copied().unwrap()
        }))
    }

    /// What stands in the indices besides.
    fn older(&self, older: &Older, before: &HashMap<u64, Root>, clock: Millis) -> Kept {
        Kept {
            number: older.number,
            root: match older.root {
                0..100 => foreign(older),
                100..128 => self.print_of(older.number, usize::from(older.root)),
                128..200 => {
                    let known = before.get(&u64::from(older.root - 128));
                    known.copied().unwrap_or_else(|| foreign(older))
                }
                _ => self.print_of(u64::from(older.root) - 200, 3),
            },
            arrival: Millis(clock.0 + older.later),
        }
    }

    fn check_a_restart(&self, requests: &[Request], older: &[Older], end: &End) {
        let (mut first, left) = self.live(requests, end);
        if end.last == Fate::Lost {
            // Nobody was told of what is lost, nor that a document has come again.
            first = self.start(&left);
        }
        let clock = first.forest().clock().max(Millis(1_000_000));
        // With dates of their own documents may be of any time; otherwise none is of a later one than now.
        let now = match end.is_dated {
            true => clock,
            false => Millis(clock.0 + 30),
        };
        let latest = if end.is_dated { Millis(i64::MAX) } else { now };
        let before: HashMap<u64, Root> =
            (0..150).filter_map(|number| Some((number, self.known(&mut first, number, now)?))).collect();
        let mut index: Vec<Kept> =
            older.iter().map(|older| self.older(older, &before, clock)).chain(left.kept.iter().copied()).collect();
        index.iter_mut().for_each(|kept| kept.arrival = kept.arrival.min(latest));
        let mut order = end.order.iter().cycle();
        index.sort_by_cached_key(|kept| (kept.arrival, order.next().copied()));

        let mut again = self.start(&left);
        again.record();
        let nodes: HashMap<u64, u64> = rows(again.forest())
            .into_iter()
            .filter(|&(_, _, arrival)| self.window.is_none_or(|window| arrival >= now.0 - window.0))
            .map(|(node, root, _)| (node, root))
            .collect();
        self.recover(&mut again, &index, RecoveryPass::of_the_missed(end.is_dated), end.page);
        let caught_up = StateChange::batch(&again.take_changes()).unwrap();
        let after: HashMap<u64, u64> = rows(again.forest()).into_iter().map(|(node, root, _)| (node, root)).collect();
        for (node, root) in nodes {
            assert_eq!(after.get(&node), Some(&root), "a node of {:?}", self.method);
        }
        // And the same after one more end.
        let journal = left.journal.iter().cloned().chain([caught_up]).collect();
        let told = left.told.clone();
        let mut third = self.start(&Left { journal, ..left });
        for (number, root) in told.iter().filter_map(|n| Some((*n, *before.get(n)?))) {
            for state in [&mut again, &mut third] {
                let is = self.known(state, number, now);
                assert_eq!(is, Some(root), "{number} by {:?}", self.method);
            }
        }
        for older in older.iter().filter(|older| older.root < 100) {
            assert!(!again.forest().has_tree(foreign(older)), "{older:?}");
        }
    }
}

/// A root that no method here gives.
fn foreign(older: &Older) -> Root {
    let seed = older.number << 8 | u64::from(older.root);
    Root(Fingerprint(spinney_text::hash::mix64(seed) ^ 0x5a5a))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_restart_changes_no_root(
        requests in requests(),
        older in older(),
        end in end(),
        window in prop::option::of(30i64..300),
    ) {
        for_all!(window.map(Millis), |kind| kind.check_a_restart(&requests, &older, &end));
    }
}

fn verified(window: Option<Millis>) -> Kind<Verified> {
    Kind { method: Method::Verified, k: Distance(0), window, thresholds: Similarity::default() }
}

fn accepted(numbers: &[u64]) -> Request {
    Request { numbers: numbers.to_vec(), pause: 10, late: 0, fate: Fate::Accepted }
}

/// By TERM, and nothing is lost.
const BY_TERM: End = End { is_dated: true, snapshot: 0, last: Fate::Accepted, page: 1, order: Vec::new() };

/// A document that is stored moves the clock as far as nothing dies that the directory has, and not a millisecond
/// further.
#[test]
fn a_late_arrival_expires_nothing() {
    let kind = verified(Some(Millis(1_000)));
    let (_, left) = kind.live(&[accepted(&[0]), accepted(&[6]), accepted(&[12])], &BY_TERM);
    let oldest = left.kept[0].arrival;
    for (arrival, clock) in [(1_000, 1_000), (1_001, 1_000), (90_000_000, 1_000), (500, 500)] {
        let mut state = kind.start(&left);
        let stored = Kept { number: 30, root: kind.print_of(30, 0), arrival: Millis(oldest.0 + arrival) };
        let found = kind.recover(&mut state, &[stored], RecoveryPass::of_the_missed(true), 1);
        assert_eq!(found.placed, 1);
        assert_eq!(state.forest().clock(), Millis(oldest.0 + clock));
        for kept in left.kept.iter().chain([&stored]) {
            let at = state.forest().clock();
            assert_eq!(kind.known(&mut state, kept.number, at), Some(kept.root));
        }
    }
}

/// What the directory has as a leaf is no root, whatever is stored.
#[test]
fn a_stored_root_displaces_no_leaf_of_the_directory() {
    let kind = verified(NEVER);
    let (_, left) = kind.live(&[accepted(&[0])], &BY_TERM);
    let root = left.kept[0].root;
    let leaves = kind.start(&left);
    let leaves = rows(leaves.forest()).into_iter().map(|(node, _, _)| node);
    let leaves: Vec<u64> = leaves.filter(|&node| node != root.0.0).collect();
    assert!(!leaves.is_empty());
    for leaf in leaves {
        let mut state = kind.start(&left);
        let own = Root(Fingerprint(leaf));
        let stored = Kept { number: 1, root: own, arrival: left.kept[0].arrival };
        kind.recover(&mut state, &[stored], RecoveryPass::of_the_missed(false), 1);
        let nodes = rows(state.forest());
        let is = nodes.iter().find(|&&(node, _, _)| node == leaf);
        assert_eq!(is.map(|&(_, root, _)| root), Some(root.0.0));
    }
}

/// Of the documents of one moment the founder of a tree may be read last, also where they are more than are taken at
/// once. It is waited for until the moment is over, by as many as are taken at once.
#[test]
fn a_founder_is_waited_for_through_its_moment() {
    let kind = Kind::<Strict> { method: "field:phash".parse().unwrap(), k: Distance(3), window: NEVER, thresholds: () };
    let root = kind.print_of(0, 0);
    let (moment, next) = (DocumentTime::At(Millis(5)), DocumentTime::At(Millis(6)));
    let of = |number, when| document(&kind.method, number, when, Some(root));
    let without_text = |when| ForestDocument { features: None, ..of(1, when) };
    let group = RecoveryPass::GROUP;
    for (followers, others, founder, foreign) in
        [(1, 2 * group, moment, 0), (1, 2 * group, next, 1), (group, group, moment, 0), (group + 1, group, moment, 1)]
    {
        let mut documents = vec![of(1, moment); followers];
        documents.extend(vec![without_text(moment); others]);
        documents.push(of(0, founder));
        let (mut state, mut recovery) = (kind.empty(), RecoveryPass::of_the_missed(false));
        let mut documents = documents.into_iter();
        while let Some(group) = recovery.next_group(&mut documents, true) {
            state.recover(group, &mut recovery);
        }
        let found = recovery.recovered();
        assert_eq!(found.foreign, foreign, "{found:?}");
        assert_eq!(found.without_text, others as u64);
        assert_eq!(found.documents, found.placed + found.known + others as u64 + foreign);
        assert!(state.forest().has_tree(root));
    }
}
