//! What people say to one of several processes that share a forest.

use super::*;
use crate::overrides::{Override, ResolvedDocument, Restamp, RestampPass};
use crate::shared::keys::{Command, KeyKind};

const ROOTS: u64 = 6;
const TEXTS: u64 = 8;
/// Longer than a process that is gone is waited for.
const LONG: i64 = 60_000;

fn root(number: u64) -> Root {
    Root(Fingerprint(number))
}

fn merge(winner: Root, loser: Root) -> Override {
    let losers = vec![loser];
    Override::Merge { winner, losers }
}

fn said(forest: &SharedForest<Verified>) -> Arc<Overrides> {
    block_on(forest.overrides()).unwrap()
}

fn say(forest: &SharedForest<Verified>, correction: Override, shown: Vec<Root>) -> u64 {
    block_on(forest.add_override(correction, shown)).unwrap().unwrap()
}

#[test]
fn what_was_said_to_one_is_obeyed_by_the_next_request_of_the_other() {
    let memory = InMemoryRedis::default();
    let [one, other] = [1, 2].map(|seed| process(&memory, seed));
    let of = |forest: &SharedForest<Verified>, number, version| {
        let placed = place(forest, vec![at(story(number, version), 1)]);
        let of = (placed[0].root, placed[0].answer);
        settle(forest, placed, ItemOutcome::Accepted);
        of
    };
    let (first, second) = (of(&one, 1, 0).0, of(&other, 2, 0).0);
    let merged = say(&other, merge(first, second), Vec::new());
    assert_eq!(of(&one, 2, 1), (second, first), "the trees are as they were");
    // What is rehearsed, and what is only asked for, too; through one that begins now as well.
    let beginner = process(&memory, 3);
    for forest in [&one, &other, &beginner] {
        let rehearsed = forest.dry_placement().place(vec![at(story(2, 3), 1)]);
        let rehearsed = block_on(rehearsed).unwrap().replies.remove(0);
        assert_eq!(rehearsed.placed.unwrap().answer, first);
        let check = block_on(forest.check(at(story(2, 4), 1))).unwrap().check.unwrap();
        assert_eq!((check.root, check.answer), (second, first));
        assert_eq!(check.resolved.answer, Some(first));
    }
    // A text of its own.
    let text = block_on(one.check(at(story(2, 0), 1))).unwrap().check.unwrap().resolved.text;
    let pin = Override::Pin { texts: vec![text], root: root(77) };
    let pinned = say(&one, pin.clone(), vec![second]);
    assert_eq!(of(&other, 2, 0), (second, root(77)));
    assert_eq!(of(&other, 2, 1), (second, first));
    let taken = block_on(other.undo_override(pinned)).unwrap();
    assert_eq!(taken, Some(pin));
    assert_eq!(block_on(one.undo_override(pinned)).unwrap(), None);
    assert_eq!(of(&one, 2, 0), (second, first));
    block_on(one.undo_override(merged)).unwrap().unwrap();
    assert_eq!(of(&other, 2, 0), (second, second));
}

#[test]
fn what_is_said_at_once_is_said_once() {
    const EACH: u64 = 12;
    let memory = InMemoryRedis::default();
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=3)
            .map(|seed| {
                let memory = &memory;
                scope.spawn(move || {
                    let forest = process(memory, seed);
                    let each = (0..EACH).map(|n| {
                        let correction = merge(root(1_000 * seed + n), root(1_000 * seed + n + 1));
                        let number = say(&forest, correction, Vec::new());
                        if n % 3 == 0 {
                            block_on(forest.undo_override(number)).unwrap().unwrap();
                        }
                        number
                    });
                    each.collect::<Vec<u64>>()
                })
            })
            .collect();
        let numbers = threads.into_iter().map(|thread| thread.join().unwrap());
        numbers.flatten().collect()
    });
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(distinct, (0..3 * EACH).collect());
    let overrides = said(&process(&memory, 9));
    assert_eq!(overrides.iter().count() as u64, 3 * EACH * 2 / 3);
    assert_eq!(overrides.unfinished().count() as u64, 3 * EACH);
}

#[test]
fn who_is_there_is_told_and_who_is_gone_is_not_waited_for() {
    let memory = InMemoryRedis::default();
    let [first, second, third] = [1, 2, 3].map(|seed| process(&memory, seed));
    let acknowledged = |forest: &SharedForest<Verified>, change| {
        let obeyed = block_on(forest.acknowledge_overrides(change)).unwrap();
        (obeyed.is_first, obeyed.by_all)
    };
    assert_eq!(acknowledged(&first, 3), (true, 3));
    assert_eq!(acknowledged(&second, 2), (false, 2));
    assert_eq!(acknowledged(&first, 3), (true, 2));
    // It was never asked anything and places documents.
    settle(&third, place(&third, vec![at(story(1, 0), 1)]), ItemOutcome::Accepted);
    assert_eq!(acknowledged(&second, 4), (false, 0));
    assert_eq!(acknowledged(&third, 3), (false, 3));
    // It does not go back.
    assert_eq!(acknowledged(&first, 1), (true, 3));
    memory.advance(LONG);
    assert_eq!(acknowledged(&second, 4), (true, 4));
    assert_eq!(acknowledged(&first, 5), (false, 4));
}

/// The overrides that Redis has now.
fn value(memory: &InMemoryRedis) -> Option<(Key, Vec<u8>)> {
    memory.of_kind(KeyKind::Overrides).pop()
}

/// Redis holds this again: a replica has taken the master's place. Or nothing, as one that is empty.
fn back_to(memory: &InMemoryRedis, before: Option<(Key, Vec<u8>)>) {
    let what = match (before, value(memory)) {
        (Some((key, value)), _) => (key, KeyOp::Put { value, life: Lifetime::Endless }),
        (None, Some((key, value))) => (key, KeyOp::Remove { value }),
        (None, None) => return,
    };
    let (key, what) = what;
    block_on(memory.run(vec![Command { key, what }])).unwrap();
}

#[test]
fn what_redis_has_lost_is_said_again() {
    let memory = InMemoryRedis::default();
    let [one, other, third] = [1, 2, 3].map(|seed| process(&memory, seed));
    say(&one, merge(root(1), root(2)), Vec::new());
    said(&other);
    let before = value(&memory);
    say(&one, merge(root(3), root(4)), Vec::new());
    // A failover loses it; another one is told something before the first one asks again.
    back_to(&memory, before);
    say(&other, merge(root(5), root(6)), Vec::new());
    for forest in [&one, &other, &third, &one, &other] {
        said(forest);
    }
    let overrides = said(&one);
    for loser in [2, 4, 6] {
        assert_eq!(overrides.group(root(loser)), root(loser - 1));
    }
    assert_eq!((said(&other), said(&third)), (overrides.clone(), overrides.clone()));
    // An empty one gets all of it back, from whoever asks first, and one who knows nothing changes nothing by that.
    back_to(&memory, None);
    let beginner = process(&memory, 4);
    say(&beginner, merge(root(7), root(8)), Vec::new());
    for forest in [&third, &one, &other, &beginner, &third] {
        said(forest);
    }
    let again = said(&one);
    for loser in [2, 4, 6, 8] {
        assert_eq!(again.group(root(loser)), root(loser - 1), "{loser}");
    }
    for forest in [&other, &third, &beginner] {
        assert_eq!(said(forest), again);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Merge(usize, u64, u64),
    /// To a root, or to a new one.
    Pin(usize, u64, Option<u64>),
    Undo(usize, usize),
    /// A request looks; its document is stored some steps later.
    Look(usize, u64),
    Stored(usize),
    /// A process hears and tells.
    Tell(usize),
    /// Whoever it thinks has stored documents follow goes on with that.
    Follow(usize),
    /// A process is killed, and another one begins.
    Kill(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0usize..3;
    let step = prop_oneof![
        4 => (who(), 0..ROOTS, 0..ROOTS).prop_map(|(p, w, l)| Step::Merge(p, w, l)),
        2 => (who(), 0..TEXTS, prop::option::of(0..ROOTS)).prop_map(|(p, t, r)| Step::Pin(p, t, r)),
        3 => (who(), any::<usize>()).prop_map(|(p, which)| Step::Undo(p, which)),
        4 => (who(), 0..TEXTS).prop_map(|(p, text)| Step::Look(p, text)),
        4 => any::<usize>().prop_map(Step::Stored),
        8 => who().prop_map(Step::Tell),
        8 => who().prop_map(Step::Follow),
        1 => who().prop_map(Step::Kill),
    ];
    prop::collection::vec(step, 0..60)
}

/// A document on its way: of which process, its text, by which change of overrides it was looked at, and the root that
/// it got.
struct Flying {
    process: usize,
    text: u64,
    change: u64,
    shown: Root,
}

/// An override whose documents were gone through once.
struct Begun {
    overrides: Vec<(u64, Arc<Restamp>)>,
    change: u64,
}

struct One {
    forest: SharedForest<Verified>,
    begun: Option<Begun>,
    is_first: bool,
    by_all: u64,
}

/// Several processes, the documents of one index, and the overrides as one process would have them.
struct World {
    memory: InMemoryRedis,
    processes: Vec<One>,
    stored: Vec<Root>,
    flying: Vec<Flying>,
    model: Overrides,
    new: u64,
}

/// The forest knows where each text belongs.
fn tree_of(text: u64) -> Root {
    root(text % ROOTS)
}

impl World {
    fn new() -> World {
        let mut world = World {
            memory: InMemoryRedis::default(),
            processes: Vec::new(),
            stored: (0..TEXTS).map(tree_of).collect(),
            flying: Vec::new(),
            model: Overrides::default(),
            new: 100,
        };
        for _ in 0..3 {
            let one = world.begin();
            world.processes.push(one);
        }
        world
    }

    fn begin(&mut self) -> One {
        self.new += 1;
        One { forest: process(&self.memory, self.new), begun: None, is_first: false, by_all: 0 }
    }

    fn say(&mut self, who: usize, correction: Override, shown: &[Root]) {
        let number = say(&self.processes[who].forest, correction.clone(), shown.to_vec());
        let (expected, _) = self.model.add(correction, shown).unwrap();
        assert_eq!(number, expected);
    }

    fn tell(&mut self, who: usize) {
        let one = &mut self.processes[who];
        let change = block_on(one.forest.refresh_overrides()).unwrap();
        let own = self.flying.iter().filter(|flying| flying.process == who);
        // It waits for all that has looked before.
        let acknowledged = own.map(|flying| flying.change).min().unwrap_or(change);
        let obeyed = block_on(one.forest.acknowledge_overrides(acknowledged.min(change))).unwrap();
        (one.is_first, one.by_all) = (obeyed.is_first, obeyed.by_all);
    }

    fn pass(&mut self, who: usize, of: &[(u64, Arc<Restamp>)]) -> RestampPass {
        let overrides = said(&self.processes[who].forest);
        let pass = overrides.pass_for(of.to_vec());
        let sought = pass.sought(&overrides);
        for (text, shown) in (0..).zip(&mut self.stored) {
            if sought.contains(shown) {
                let resolved = pass.needs_texts().then(|| ResolvedDocument {
                    text: Fingerprint(text),
                    answer: Some(overrides.shown_root(Fingerprint(text), tree_of(text))),
                });
                *shown = pass.shows(&overrides, *shown, resolved);
            }
        }
        pass
    }

    fn follow(&mut self, who: usize) {
        let one = &mut self.processes[who];
        if !one.is_first {
            one.begun = None;
            return;
        }
        let overrides = said(&one.forest);
        let is_to_do = |begun: &Begun| {
            let is_to_do = |of: &(u64, Arc<Restamp>)| overrides.unfinished().any(|u| u == (of.0, &of.1));
            begun.overrides.iter().all(is_to_do)
        };
        match one.begun.take().filter(is_to_do) {
            None => {
                let unfinished = overrides.unfinished().take(2);
                let overrides: Vec<_> = unfinished.map(|(n, of)| (n, of.clone())).collect();
                if overrides.is_empty() {
                    return;
                }
                let change = block_on(one.forest.refresh_overrides()).unwrap();
                self.pass(who, &overrides);
                self.processes[who].begun = Some(Begun { overrides, change });
            }
            Some(begun) if one.by_all < begun.change => one.begun = Some(begun),
            Some(Begun { overrides, .. }) => {
                let pass = self.pass(who, &overrides);
                let done = self.processes[who].forest.restamped(pass.clone());
                block_on(done).unwrap();
                self.model.restamped(&pass);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Merge(who, winner, loser) => {
                self.say(who, merge(root(winner), root(loser)), &[]);
            }
            Step::Pin(who, text, to) => {
                self.new += 1;
                let correction =
                    Override::Pin { texts: vec![Fingerprint(text)], root: root(to.unwrap_or(1_000 + self.new)) };
                let answer = self.model.shown_root(Fingerprint(text), tree_of(text));
                let shown = [self.stored[text as usize], answer];
                self.say(who, correction, &shown);
            }
            Step::Undo(who, which) => {
                let numbers: Vec<u64> = self.model.iter().map(|(number, _)| number).collect();
                if let Some(at) = which.checked_rem(numbers.len()) {
                    let taken = self.processes[who].forest.undo_override(numbers[at]);
                    let expected = self.model.undo(numbers[at]).map(|(correction, _)| correction);
                    assert_eq!(block_on(taken).unwrap(), expected);
                }
            }
            Step::Look(who, text) => {
                let forest = &self.processes[who].forest;
                block_on(forest.inner.announce()).unwrap();
                let table = block_on(forest.inner.overrides()).unwrap();
                self.flying.push(Flying {
                    process: who,
                    text,
                    change: table.version(),
                    shown: table.overrides().shown_root(Fingerprint(text), tree_of(text)),
                });
            }
            Step::Stored(which) => {
                if let Some(at) = which.checked_rem(self.flying.len()) {
                    let Flying { text, shown, .. } = self.flying.swap_remove(at);
                    self.stored[text as usize] = shown;
                }
            }
            Step::Tell(who) => self.tell(who),
            Step::Follow(who) => self.follow(who),
            Step::Kill(who) => {
                // What it had sent comes before it is taken for gone, or never.
                for Flying { text, shown, .. } in self.flying.extract_if(.., |f| f.process == who) {
                    self.stored[text as usize] = shown;
                }
                self.processes[who] = self.begin();
                // The others tell of themselves all the while.
                for _ in 0..4 {
                    self.memory.advance(self.memory.now().0 + LONG / 15);
                    let others = (0..3).filter(|&other| other != who);
                    others.for_each(|other| self.tell(other));
                }
            }
        }
    }

    fn end(&mut self) {
        while !self.flying.is_empty() {
            self.step(&Step::Stored(0));
        }
        // Whoever is gone is not waited for.
        self.memory.advance(self.memory.now().0 + LONG);
        for _ in 0..4 * 60 {
            (0..3).for_each(|who| self.tell(who));
            (0..3).for_each(|who| self.follow(who));
            if said(&self.processes[0].forest).unfinished().next().is_none() {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is said to whom, and whoever dies in the middle: all know the same as one would, and when nothing is
    /// left to follow every stored document shows what it would show if it were written now.
    #[test]
    fn all_know_the_same_and_stored_documents_obey_in_the_end(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(&step);
        }
        world.end();
        for one in &world.processes {
            prop_assert_eq!(&*said(&one.forest), &world.model);
        }
        prop_assert_eq!(world.model.unfinished().count(), 0);
        for (text, shown) in (0..).zip(&world.stored) {
            let answer = world.model.shown_root(Fingerprint(text), tree_of(text));
            prop_assert_eq!(*shown, answer, "text {}", text);
        }
    }
}

/// Two texts that did not find each other though they agree, and others that agree with both: a few of the first or
/// the last words of the two are another story's.
fn torn(variant: u64) -> Features {
    const STORY: u64 = 156;
    let word = |at: u64| {
        let of = match variant {
            1 if (20..40).contains(&at) => 1_000_000 + STORY,
            2 if at >= 140 => 2_000_000 + STORY,
            _ => STORY,
        };
        let mut hash = (of * 1_000 + at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 32;
        format!("w{:x}", hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40)
    };
    let mut words: Vec<String> = (0..160).map(word).collect();
    words.extend((variant > 2).then(|| format!("more{variant}")));
    let fields = Fields { title: None, body: &[&words.join(" ")] };
    let method = Method::Verified;
    let features = method.read_with(&fields, Attributes::default(), &mut Workspace::default());
    features.unwrap()
}

fn accepted(forest: &SharedForest<Verified>, variant: u64) -> (Root, u64) {
    let placed = place(forest, vec![at(torn(variant), 1)]);
    let root = placed[0].root;
    (root, settle(forest, placed, ItemOutcome::Accepted).merged)
}

#[test]
fn trees_of_one_story_are_suggested_or_made_one() {
    let memory = InMemoryRedis::default();
    let [suggests, one, other] = [1, 2, 3].map(|seed| process(&memory, seed));
    let [one, other] = [one, other].map(|forest| forest.with_late_merges(LateMerges::Apply));
    let (first, _) = accepted(&one, 1);
    let (second, _) = accepted(&other, 2);
    assert_ne!(first, second);
    assert_eq!(accepted(&suggests, 3).1, 0);
    let listed = block_on(suggests.late_merges()).unwrap().suggestions;
    assert_eq!(listed.len(), 1);
    let pair = HashSet::from([listed[0].winner, listed[0].loser]);
    assert_eq!(pair, HashSet::from([first, second]));
    assert_eq!(block_on(suggests.stats()).unwrap().late_merges.suggested, 1);
    // One that is refused tells of nothing.
    let refused = place(&one, vec![at(torn(0), 1)]);
    assert_eq!(settle(&one, refused, ItemOutcome::Refused).merged, 0);
    assert_eq!(*said(&one), Overrides::default());
    // Both meet it at the same moment: it is said once.
    let placed = [(&one, 4), (&other, 5)].map(|(forest, variant)| {
        let placed = place(forest, vec![at(torn(variant), 1)]);
        assert_eq!(placed[0].ticket.as_ref().unwrap().others.len(), 1);
        (forest, placed)
    });
    let merged: u64 = std::thread::scope(|scope| {
        let settling =
            placed.map(|(forest, placed)| scope.spawn(move || settle(forest, placed, ItemOutcome::Accepted).merged));
        settling.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!(merged, 1);
    let overrides = said(&suggests);
    assert_eq!(overrides.group(first), overrides.group(second));
    assert_eq!((overrides.iter().count(), overrides.unfinished().count()), (1, 1));
    assert_eq!(block_on(suggests.late_merges()).unwrap().suggestions, []);
    // A person is stronger, whoever was told.
    block_on(suggests.undo_override(0)).unwrap().unwrap();
    assert_eq!((accepted(&one, 6).1, accepted(&other, 7).1), (0, 0));
    assert!(matches!(said(&one).get(0), Some(Override::Apart { .. })));
}

/// Corrections are never taken for absent: nothing is placed until they read again, and the error says how that comes
/// about.
#[test]
fn corrections_that_do_not_read_hold_documents_back() {
    let memory = InMemoryRedis::default();
    let one = process(&memory, 1);
    say(&one, merge(root(1), root(2)), Vec::new());
    let [(key, bytes)] = &*memory.of_kind(KeyKind::Overrides) else { panic!("one value has all of them") };
    let longer = [bytes, &[0][..]].concat();
    for unreadable in [&[7][..], &bytes[..bytes.len() - 1], &longer] {
        let memory = memory.copy();
        memory.overwrite(*key, unreadable);
        let other = process(&memory, 2);
        let batch = || Batch { documents: vec![at(story(1, 0), 1)], ..Batch::default() };
        let refused = block_on(other.place(batch())).unwrap_err().reason;
        assert!(matches!(refused, Unavailable::Unsupported { .. }), "{refused}");
        for part in ["\\x00W\"", "the version that wrote it", "delete that key"] {
            assert!(refused.to_string().contains(part), "{part}: {refused}");
        }
        memory.overwrite(*key, bytes);
        assert_eq!(block_on(other.place(batch())).unwrap().replies.len(), 1);
        assert_eq!(said(&other), said(&one));
    }
}
