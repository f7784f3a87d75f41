//! Requests of one process that come at the same moment.

use std::pin::Pin;

use parking_lot::Condvar;
use spinney_text::method::Staged;

use super::*;
use crate::LocalFallback;
use crate::port::{BatchReply, Commit, NotPlaced};
use crate::shared::keys::{
    Extent, Key, KeySample, RedisFuture, RoundFailed, RoundFuture, ScanPosition, SyncEntries, SyncEntry, SyncPosition,
};
use crate::shared::layout::LEASE;
use crate::shared::memory::needs_memory;
use crate::text_fields::FieldRecord;

/// A memory whose round trips wait at a gate.
#[derive(Debug, Clone, Default)]
struct Gated(InMemoryRedis, Arc<Gate>);

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Round trips that may pass; `None`: all.
    may_pass: Option<usize>,
    waiting: usize,
    panics: bool,
    /// Another process is faster with every tree but this one.
    loses_all_but: Option<Root>,
    /// Another process is faster with the texts of all that join a tree of their bulk.
    loses_texts: bool,
    /// The node that has this root, or each, does not run its commands, and why.
    is_down: Option<(Option<Root>, RedisUnavailable)>,
    /// All is run, and nothing is answered.
    is_silent: bool,
}

impl Gated {
    fn closed() -> Gated {
        let gated = Gated::default();
        gated.let_pass(Some(0));
        gated
    }

    /// Lets so many round trips pass, or all.
    fn let_pass(&self, may_pass: Option<usize>) {
        self.1.state.lock().may_pass = may_pass;
        self.1.changed.notify_all();
    }

    fn set_away(&self, is_away: bool) {
        self.0.set_away(is_away.then_some("the cable is out"));
    }

    fn set_silent(&self, is_silent: bool) {
        self.1.state.lock().is_silent = is_silent;
    }

    /// Returns when a round trip waits that may not pass.
    fn wait_for_one(&self) {
        let mut state = self.1.state.lock();
        let nobody = |state: &mut State| state.waiting == 0 || state.may_pass != Some(0);
        self.1.changed.wait_while(&mut state, nobody);
    }

    fn pass(&self) {
        let mut state = self.1.state.lock();
        state.waiting += 1;
        self.1.changed.notify_all();
        let is_closed = |state: &mut State| state.may_pass == Some(0);
        self.1.changed.wait_while(&mut state, is_closed);
        state.waiting -= 1;
        state.may_pass = state.may_pass.map(|left| left - 1);
        let panics = std::mem::take(&mut state.panics);
        drop(state);
        assert!(!panics, "the test says so");
    }
}

impl RedisClient for Gated {
    fn run(&self, commands: Vec<Command>) -> RoundFuture {
        self.pass();
        let (is_down, is_silent) = {
            let state = self.1.state.lock();
            (state.is_down.clone(), state.is_silent)
        };
        if is_silent {
            drop(self.0.run(commands));
            let why = RedisUnavailable::of("it says nothing");
            return Box::pin(std::future::ready(Err(RoundFailed::of(why))));
        }
        if let Some((root, why)) = is_down {
            let is_run = |command: &Command| {
                let is_refused = !matches!(why.extent, Extent::Memory { .. }) || needs_memory(&command.what);
                root.is_some_and(|root| command.key.fingerprint != root.0) || !is_refused
            };
            let (run, not_run): (Vec<_>, Vec<_>) = (0..commands.len()).partition(|&at| is_run(&commands[at]));
            if !not_run.is_empty() {
                let has_pinned = |at: &usize| commands[*at].what.has_pinned(&self.0.run_one(&commands[*at]));
                let pinned = run.into_iter().filter(has_pinned).collect();
                return Box::pin(std::future::ready(Err(RoundFailed { why, not_run, pinned })));
            }
        }
        let (kept, loses_texts) = {
            let state = self.1.state.lock();
            (state.loses_all_but, state.loses_texts)
        };
        // Texts of joiners are claimed when their tree is confirmed.
        let loses_texts = loses_texts && commands.iter().any(|command| matches!(command.what, KeyOp::Confirm { .. }));
        let is_lost = |command: &Command| match &command.what {
            _ if command.key.kind != KeyKind::Node => false,
            KeyOp::Claim { value, .. } | KeyOp::Swap { value, .. } => {
                match NodeValue::<Founder>::is_root(value.len()) {
                    true => kept.is_some_and(|root| command.key.fingerprint != root.0),
                    false => loses_texts,
                }
            }
            _ => false,
        };
        let lost: Vec<bool> = commands.iter().map(is_lost).collect();
        let others = commands.into_iter().filter(|command| !is_lost(command));
        let replies = self.0.run(others.collect());
        Box::pin(async move {
            let mut replies = replies.await?.into_iter();
            let each = lost.into_iter().map(|is_lost| match is_lost {
                true => RedisReply::Number(0),
                false => replies.next().unwrap(),
            });
            Ok(each.collect())
        })
    }

    fn enroll(&self, name: &str, identity: &str) -> RedisFuture<Result<u8, String>> {
        self.0.enroll(name, identity)
    }

    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> RedisFuture<()> {
        self.0.declare(name, identity, fields)
    }

    fn fields(&self, name: &str) -> RedisFuture<FieldRecord> {
        self.0.fields(name)
    }

    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> RedisFuture<Result<(), String>> {
        self.0.agree_on_fields(name, fields)
    }

    fn forests(&self) -> RedisFuture<Vec<(String, u8, String)>> {
        self.0.forests()
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> RedisFuture<(Vec<Key>, Option<ScanPosition>)> {
        self.0.keys(forest, place)
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> RedisFuture<SyncEntries> {
        self.0.sync_entries(forest, lesson, from)
    }

    fn remove_sync_entries(&self, forest: u8) -> RedisFuture<()> {
        self.0.remove_sync_entries(forest)
    }

    fn size(&self) -> RedisFuture<(usize, usize)> {
        self.0.size()
    }

    fn sample(&self, forest: u8, seed: u64) -> RedisFuture<KeySample> {
        self.0.sample(forest, seed)
    }

    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(job);
    }

    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.pause(time)
    }

    fn arrival(&self, said: Millis) -> Millis {
        self.0.arrival(said)
    }

    fn now(&self) -> Millis {
        self.0.now()
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn away(&self) -> Option<RedisUnavailable> {
        self.0.away()
    }
}

/// A process that places one turn after the other.
fn process_of(gated: &Gated) -> SharedForest<Verified> {
    let forest = process_on(gated.clone(), None, 1, LearnedText::default());
    forest.inner.turns.0.lock().most = 1;
    forest
}

fn bulk(stories: impl IntoIterator<Item = u64>) -> Batch {
    let stories = stories.into_iter();
    Batch { documents: stories.map(|number| at(story(number, 0), 1)).collect(), ..Batch::default() }
}

fn placed(answer: Result<BatchReply, NotPlaced<Batch>>) -> Vec<RootAssignment> {
    let replies = answer.unwrap().replies.into_iter();
    replies.map(|reply| reply.placed.unwrap()).collect()
}

fn roots(placed: &[RootAssignment]) -> Vec<Root> {
    placed.iter().map(|placed| placed.root).collect()
}

fn round_trips(forest: &SharedForest<Verified>) -> u64 {
    forest.inner.counters.rounds.load(Relaxed)
}

/// How often Redis is waited for to place a bulk of new stories.
fn alone() -> u64 {
    let forest = process_of(&Gated::default());
    place(&forest, bulk(0..4).documents);
    round_trips(&forest)
}

#[test]
fn bulks_that_come_at_once_are_placed_together() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let first = forest.place(bulk(0..4));
    gated.wait_for_one();
    // The same stories, in other orders, and others.
    let others = [[3, 2, 1, 0], [1, 9, 0, 8], [8, 3, 9, 2], [0, 1, 2, 3]];
    let others = others.map(|stories| forest.place(bulk(stories)));
    gated.let_pass(None);
    let first = roots(&placed(block_on(first)));
    let others = others.map(|answer| roots(&placed(block_on(answer))));
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 4);
    let [backwards, mixed, late, again] = others;
    assert_eq!(again, first);
    assert_eq!(backwards, [first[3], first[2], first[1], first[0]]);
    assert_eq!([mixed[0], mixed[2]], [first[1], first[0]]);
    assert_eq!(late, [mixed[3], first[3], mixed[1], first[2]]);
    // Two turns, though there were five bulks; nobody has waited for a tree of this process.
    assert_eq!(forest.inner.counters.conflicts.load(Relaxed), 0);
    let trips = round_trips(&forest);
    // What is known leads to roots that have to be read.
    assert!(trips <= 2 * alone() + 2, "{trips} round trips");
    check_laws(&gated.0);
}

#[test]
fn bulks_that_are_placed_together_decide_as_one_after_the_other() {
    let local = local();
    let gated = Gated::default();
    let forest = process_of(&gated);
    for round in 0..12_u64 {
        let bulks: Vec<Vec<(u64, u64)>> = (0..5)
            .map(|bulk| {
                let each = (0..6).map(|n| splitmix64(round * 100 + bulk * 10 + n));
                each.map(|random| (random % 60, random >> 32 & 3)).collect()
            })
            .collect();
        let documents = |bulk: &[(u64, u64)]| -> Vec<ForestDocument> {
            let each = bulk.iter();
            each.map(|&(number, version)| at(story(number, version), round as i64)).collect()
        };
        let one_by_one: Vec<Vec<RootAssignment>> = bulks.iter().map(|bulk| place(&local, documents(bulk))).collect();
        gated.let_pass(Some(0));
        let answers: Vec<_> = bulks
            .iter()
            .map(|bulk| {
                let documents = documents(bulk);
                forest.place(Batch { documents, ..Batch::default() })
            })
            .collect();
        gated.wait_for_one();
        gated.let_pass(None);
        let answers = answers.into_iter().map(|answer| placed(block_on(answer)));
        // All of them, before any is settled.
        let answers: Vec<Vec<RootAssignment>> = answers.collect();
        for (expected, found) in one_by_one.into_iter().zip(answers) {
            let told = |placed: &[RootAssignment]| -> Vec<(Root, Decision)> {
                placed.iter().map(|p| (p.root, p.decision)).collect()
            };
            assert_eq!(told(&found), told(&expected), "{round}");
            settle(&forest, found, ItemOutcome::Accepted);
            settle(&local, expected, ItemOutcome::Accepted);
        }
        check_laws(&gated.0);
    }
}

#[test]
fn a_bulk_that_nobody_waits_for_is_not_placed() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let first = forest.place(bulk([1]));
    gated.wait_for_one();
    let dropped = forest.place(bulk([2, 1]));
    let last = forest.place(bulk([3, 1]));
    drop(dropped);
    gated.let_pass(None);
    let first = placed(block_on(first));
    let last = placed(block_on(last));
    assert_eq!(first[0].root, last[1].root);
    assert_eq!(forest.inner.counters.documents.load(Relaxed), 3);
    check_laws(&gated.0);
}

#[test]
fn a_bulk_that_is_dropped_while_it_is_placed_takes_no_other_with_it() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let first = forest.place(bulk([1]));
    gated.wait_for_one();
    let dropped = forest.place(bulk([2, 3]));
    let kept = forest.place(bulk([3, 4]));
    // The turn of the first one, and the first look of the others.
    gated.let_pass(Some(alone() as usize + 1));
    let first = placed(block_on(first));
    gated.wait_for_one();
    drop(dropped);
    gated.let_pass(None);
    let kept = placed(block_on(kept));
    // The dropped one had founded the tree of story 3. Story 2 goes.
    let roots = || memory_roots(&gated.0);
    // Others see to that.
    wait_until(|| forest.inner.counters.withdrawn.load(Relaxed) > 0);
    assert_eq!(roots().len(), 3);
    assert!(roots().contains(&first[0].root) && roots().contains(&kept[0].root));
    check_laws(&gated.0);
    // It is not withdrawn twice either.
    settle(&forest, kept, ItemOutcome::Refused);
    assert_eq!(roots(), HashSet::from([first[0].root]));
}

/// The tree that a story would found.
fn root_of(forest: &SharedForest<Verified>, number: u64) -> Root {
    let check = block_on(forest.check(at(story(number, 0), 1))).unwrap();
    check.check.unwrap().root
}

/// All that waits to be taken back is.
fn forget_all(forest: &SharedForest<Verified>) {
    block_on(forest.forget_unknown(Millis(i64::MAX), usize::MAX)).unwrap();
}

#[test]
fn what_was_placed_of_a_bulk_that_fails_is_taken_back() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    gated.let_pass(None);
    let kept = root_of(&forest, 1);
    gated.let_pass(Some(0));
    gated.1.state.lock().loses_all_but = Some(kept);
    let answer = forest.place(bulk([1, 2]));
    // The first story has its tree; the second one is tried again and again.
    while forest.inner.counters.conflicts.load(Relaxed) < 2 {
        gated.wait_for_one();
        gated.let_pass(Some(1));
    }
    assert_eq!(memory_roots(&gated.0), HashSet::from([kept]));
    gated.set_away(true);
    gated.let_pass(None);
    let error = block_on(answer).unwrap_err();
    assert!(matches!(error.reason, Unavailable::Away { .. }), "{error:?}");
    // It is taken back when that can be done.
    wait_until(|| !forest.inner.unknown.lock().is_empty());
    gated.set_away(false);
    forget_all(&forest);
    assert_eq!(memory_roots(&gated.0), HashSet::new());
    check_laws(&gated.0);
}

#[test]
fn a_bulk_that_is_half_placed_when_redis_goes_is_placed_alone_whole() {
    let gated = Gated::default();
    let forest = Arc::new(process_of(&gated));
    let kept = root_of(&forest, 1);
    gated.let_pass(Some(0));
    gated.1.state.lock().loses_all_but = Some(kept);
    let or_local = LocalFallback::new(forest.clone(), Arc::new(local()));
    let answer = or_local.place(bulk([1, 2, 1, 3]));
    while forest.inner.counters.conflicts.load(Relaxed) < 4 {
        gated.wait_for_one();
        gated.let_pass(Some(1));
    }
    gated.set_away(true);
    gated.let_pass(None);
    let alone = placed(block_on(answer));
    assert!(alone.iter().all(|placed| placed.is_local_fallback));
    let [one, two, again, three] = roots(&alone)[..] else {
        panic!("{alone:?}");
    };
    assert_eq!(one, again);
    assert!(one != two && two != three && one != three);
    assert_eq!(one, kept, "the same law");
    wait_until(|| !forest.inner.unknown.lock().is_empty());
    gated.set_away(false);
    forget_all(&forest);
    assert_eq!(memory_roots(&gated.0), HashSet::new());
}

#[test]
fn a_bulk_that_others_are_always_faster_with_is_refused_and_leaves_nothing() {
    let gated = Gated::default();
    let forest = process_of(&gated);
    let kept = root_of(&forest, 1);
    gated.1.state.lock().loses_all_but = Some(kept);
    let error = block_on(forest.place(bulk([1, 2]))).unwrap_err();
    // Redis is there, and has room.
    assert!(matches!(error.reason, Unavailable::Overtaken { .. }), "{error:?}");
    wait_until(|| forest.inner.counters.withdrawn.load(Relaxed) > 0);
    gated.1.state.lock().loses_all_but = None;
    assert_eq!(memory_roots(&gated.0), HashSet::new());
    check_laws(&gated.0);
}

#[test]
fn what_was_refused_while_redis_was_away_is_taken_back_later() {
    let gated = Gated::default();
    let forest = process_of(&gated);
    let mut both = placed(block_on(forest.place(bulk([1, 2]))));
    let (refused, accepted) = (both.remove(1), both.remove(0));
    let accepted_root = accepted.root;
    gated.set_away(true);
    let settled = [accepted.settled(ItemOutcome::Accepted), refused.settled(ItemOutcome::Refused)]
        .into_iter()
        .flatten()
        .collect();
    block_on(forest.settle(settled, Millis(0))).unwrap_err();
    // And it is not lost by another try.
    block_on(forest.forget_unknown(Millis(0), 9)).unwrap_err();
    gated.set_away(false);
    forget_all(&forest);
    assert_eq!(memory_roots(&gated.0), HashSet::from([accepted_root]));
    check_laws(&gated.0);
}

#[test]
fn what_a_node_that_is_away_has_not_released_is_taken_back_later() {
    let gated = Gated::default();
    let forest = process_of(&gated);
    let refused = placed(block_on(forest.place(bulk([1, 2, 3, 2]))));
    let down = refused[1].root;
    gated.1.state.lock().is_down = Some((Some(down), RedisUnavailable::of("a node is away")));
    let settled = |placed: Vec<RootAssignment>| placed.into_iter().filter_map(|one| one.settled(ItemOutcome::Refused));
    block_on(forest.settle(settled(refused).collect(), Millis(0))).unwrap_err();
    assert_eq!(memory_roots(&gated.0), HashSet::from([down]));
    block_on(forest.forget_unknown(Millis(0), 9)).unwrap_err();
    gated.1.state.lock().is_down = None;
    forget_all(&forest);
    assert_eq!(memory_roots(&gated.0), HashSet::new());
    // Nothing is released twice: another process has a document there.
    let twice = placed(block_on(forest.place(bulk([4]))));
    let kept = placed(block_on(forest.place(bulk([4]))));
    gated.set_silent(true);
    block_on(forest.settle(settled(twice).collect(), Millis(0))).unwrap_err();
    gated.set_silent(false);
    forget_all(&forest);
    assert_eq!(memory_roots(&gated.0), HashSet::from([kept[0].root]));
}

/// Ends the round trip after so many of a bulk, in this way, and takes back what it has left.
fn ended_after(trips: u64, gated: &Gated, batch: Batch, end: impl Fn(&Gated), begin_again: impl Fn(&Gated)) {
    let error = error_after(trips, gated, batch, end, begin_again);
    assert!(matches!(error, Unavailable::Away { .. }), "{error:?}");
}

/// As [`ended_after`]; the error.
fn error_after(
    trips: u64,
    gated: &Gated,
    batch: Batch,
    end: impl Fn(&Gated),
    begin_again: impl Fn(&Gated),
) -> Unavailable {
    let forest = process_on(gated.clone(), None, 2, LearnedText::default());
    gated.let_pass(Some(trips as usize));
    let answer = forest.place(batch);
    gated.wait_for_one();
    end(gated);
    gated.let_pass(None);
    let error = block_on(answer).unwrap_err();
    begin_again(gated);
    forget_all(&forest);
    // A root that was not confirmed.
    gated.0.end_before(2 + LEASE.as_millis() as i64);
    error.reason
}

#[test]
fn a_bulk_that_fails_in_any_step_leaves_no_tree() {
    let trips = |gated: &Gated, batch: Batch| {
        let forest = process_of(gated);
        let placed = placed(block_on(forest.place(batch)));
        (round_trips(&forest), forest, placed)
    };
    let (founding, ..) = trips(&Gated::default(), bulk([1, 2, 1]));
    assert!(founding > 4, "look, claim, leaves, recheck and confirm");
    for after in 0..founding {
        let gated = Gated::default();
        ended_after(after, &gated, bulk([1, 2, 1]), |gated| gated.set_away(true), |gated| gated.set_away(false));
        assert_eq!(memory_roots(&gated.0), HashSet::new(), "away after {after}");
        ended_after(after, &gated, bulk([1, 2, 1]), |gated| gated.set_silent(true), |gated| gated.set_silent(false));
        assert_eq!(memory_roots(&gated.0), HashSet::new(), "silent after {after}");
    }
}

/// Two copies of a story.
fn near() -> Batch {
    Batch { documents: vec![at(story(1, 1), 1), at(story(1, 0), 1)], ..Batch::default() }
}

/// A joiner that has lost the hash of its text begins again, and the last step releases its use.
#[test]
fn a_bulk_that_fails_in_its_last_step_releases_each_use_once() {
    let forest = process_of(&Gated::default());
    placed(block_on(forest.place(near())));
    let last = round_trips(&forest);
    let losing = || {
        let gated = Gated::default();
        gated.1.state.lock().loses_texts = true;
        gated
    };
    let gated = losing();
    ended_after(last, &gated, near(), |gated| gated.set_away(true), |gated| gated.set_away(false));
    assert_eq!(memory_roots(&gated.0), HashSet::new(), "a release that was not run is sent later");
    let gated = losing();
    ended_after(last, &gated, near(), |gated| gated.set_silent(true), |gated| gated.set_silent(false));
    assert_eq!(memory_roots(&gated.0), HashSet::new(), "nor is the use of the founder forgotten");
    let gated = losing();
    let joined_and_silent = |gated: &Gated| {
        let other = process_of(&Gated(gated.0.clone(), Arc::default()));
        settle(&other, placed(block_on(other.place(bulk([1])))), ItemOutcome::Accepted);
        assert_eq!(memory_roots(&gated.0).len(), 1, "it has joined the tree");
        gated.set_silent(true);
    };
    ended_after(last, &gated, near(), joined_and_silent, |gated| gated.set_silent(false));
    assert_eq!(memory_roots(&gated.0).len(), 1, "a release that was run is not sent again");
}

/// What joins a tree and fails may have lost its pin to the same failover: it releases nothing.
#[test]
fn a_bulk_that_fails_takes_no_root_of_an_accepted_document() {
    let founded = |gated: &Gated| {
        let founder = process_of(gated);
        let founded = placed(block_on(founder.place(bulk([1]))));
        let root = founded[0].root;
        settle(&founder, founded, ItemOutcome::Accepted);
        root
    };
    let gated = Gated::default();
    founded(&gated);
    let joiner = process_of(&gated);
    placed(block_on(joiner.place(near())));
    let joining = round_trips(&joiner);
    assert!(joining > 3, "look, pin, leaves and recheck");
    // The second of two masters, the other one of which has no memory.
    let extent = Extent::Memory { is_all_there: false };
    let full = RedisUnavailable { extent, ..RedisUnavailable::of("the master is gone") };
    for (after, is_full) in (0..joining).flat_map(|after| [(after, false), (after, true)]) {
        let gated = Gated::default();
        let root = founded(&gated);
        let replicated = gated.0.nodes();
        let end = |gated: &Gated| match is_full {
            true => gated.1.state.lock().is_down = Some((None, full.clone())),
            false => gated.set_away(true),
        };
        let error = error_after(after, &gated, near(), end, |gated| {
            // A replica takes over that has nothing of the round.
            for (key, ..) in gated.0.nodes() {
                match replicated.iter().find(|(known, ..)| *known == key) {
                    Some((_, bytes, _)) => gated.0.overwrite(key, bytes),
                    None => gated.0.remove(&key),
                }
            }
            gated.1.state.lock().is_down = None;
            gated.set_away(false);
        });
        match is_full {
            true => assert!(matches!(error, Unavailable::Full { is_all_there: false, .. }), "{error:?}"),
            false => assert!(matches!(error, Unavailable::Away { .. }), "{error:?}"),
        }
        assert_eq!(memory_roots(&gated.0), HashSet::from([root]), "after {after}, full: {is_full}");
    }
}

/// A Redis that has no memory is there, and so is what a round has pinned.
#[test]
fn a_bulk_that_ends_for_want_of_memory_keeps_no_tree_that_it_has_joined() {
    // The second story is founded, at a node that may be full alone.
    let joining = || Batch { documents: vec![at(story(1, 1), 1), at(story(2, 0), 1)], ..Batch::default() };
    let begun = |loses_texts| {
        let gated = Gated::default();
        let founder = process_of(&gated);
        let founded = placed(block_on(founder.place(bulk([1]))));
        gated.1.state.lock().loses_texts = loses_texts;
        (process_on(gated.clone(), None, 2, LearnedText::default()), gated, founder, founded)
    };
    let (joiner, _, _, founded) = begun(false);
    let joined = roots(&placed(block_on(joiner.place(joining()))));
    assert_eq!(joined[0], founded[0].root);
    let why = RedisUnavailable::full("there is no memory for it");
    let each =
        (0..round_trips(&joiner)).flat_map(|after| [(after, None), (after, Some((Some(joined[1]), why.clone())))]);
    for (after, full) in each {
        for loses_texts in [false, true] {
            let (joiner, gated, founder, founded) = begun(loses_texts);
            gated.let_pass(Some(after as usize));
            let answer = joiner.place(joining());
            gated.wait_for_one();
            let set_full = |is_full: bool| match &full {
                None => gated.0.set_full(is_full),
                Some(node) => gated.1.state.lock().is_down = is_full.then(|| node.clone()),
            };
            set_full(true);
            gated.let_pass(None);
            match block_on(answer) {
                Err(error) => assert!(matches!(error.reason, Unavailable::Full { .. }), "{error:?}"),
                answer => drop(settle(&joiner, placed(answer), ItemOutcome::Refused)),
            }
            set_full(false);
            forget_all(&joiner);
            settle(&founder, founded, ItemOutcome::Refused);
            gated.0.end_before(2 + LEASE.as_millis() as i64);
            let left = memory_roots(&gated.0);
            assert_eq!(left, HashSet::new(), "after {after}, {full:?}, loses texts: {loses_texts}");
        }
    }
}

fn memory_roots(memory: &InMemoryRedis) -> HashSet<Root> {
    let nodes = memory.nodes().into_iter();
    let roots = nodes.filter(|(_, bytes, _)| NodeValue::<Founder>::is_root(bytes.len()));
    roots.map(|(key, ..)| Root(key.fingerprint)).collect()
}

#[test]
fn an_error_is_that_of_all_who_were_placed_together_and_of_nobody_else() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let first = forest.place(bulk([1]));
    gated.wait_for_one();
    let together = [2, 3].map(|story| forest.place(bulk([story])));
    gated.let_pass(Some(alone() as usize));
    block_on(first).unwrap();
    gated.wait_for_one();
    gated.set_away(true);
    gated.let_pass(None);
    for answer in together {
        let error = block_on(answer).unwrap_err();
        assert!(matches!(error.reason, Unavailable::Away { .. }), "{error:?}");
    }
    gated.set_away(false);
    block_on(forest.place(bulk([4]))).unwrap();
    check_laws(&gated.0);
}

#[test]
fn a_panic_ends_those_that_it_is_about_and_the_others_go_on() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let first = forest.place(bulk([1]));
    gated.wait_for_one();
    let next = forest.place(bulk([2]));
    gated.1.state.lock().panics = true;
    gated.let_pass(None);
    let error = block_on(first).unwrap_err();
    assert!(matches!(error.reason, Unavailable::Panicked(_)), "{error:?}");
    block_on(next).unwrap();
    check_laws(&gated.0);
}

#[test]
fn documents_that_count_at_once_teach_for_each_bulk() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let owned =
        |number| Batch { documents: vec![at(with_footer(number), 1)], commit: Commit::AtOnce, ..Batch::default() };
    let first = forest.place(owned(1));
    gated.wait_for_one();
    let others = [2, 3, 4].map(|number| forest.place(owned(number)));
    gated.let_pass(None);
    block_on(first).unwrap();
    for answer in others {
        block_on(answer).unwrap();
    }
    let reply = block_on(forest.check(at(with_footer(9), 1)));
    // As after four bulks, one after the other.
    assert_eq!(reply.unwrap().check.unwrap().boilerplate.len(), 1);
}

#[test]
fn bulks_of_few_processes_that_come_at_once_get_one_root() {
    let memory = InMemoryRedis::default();
    let processes = [1, 2].map(|seed| process(&memory, seed));
    // Three writers at each of two processes.
    let roots = race(
        6,
        4,
        |seed| SharedForest { inner: processes[seed as usize % 2].inner.clone() },
        |number, _| at(story(number, 0), 1),
    );
    assert!(roots.iter().all(|roots| roots.len() == 1), "{roots:?}");
    check_laws(&memory);
}

#[test]
fn no_more_documents_than_a_few_thousand_are_placed_together() {
    let gated = Gated::closed();
    let forest = process_of(&gated);
    let none = |count: usize| Batch {
        documents: vec![
            ForestDocument {
                features: None,
                when: DocumentTime::Still,
                title: None,
                id: Default::default(),
                given: None
            };
            count
        ],
        ..Batch::default()
    };
    let first = forest.place(bulk([1]));
    gated.wait_for_one();
    let sizes = [1, 600, 300, 99, 10_000, 400];
    let answers = sizes.map(|size| forest.place(none(size)));
    let mut turns = Vec::new();
    {
        let mut waiting = forest.inner.turns.0.lock();
        while let Some(requests) = waiting.next() {
            turns.push(requests.len());
        }
        waiting.busy = 1;
    }
    assert_eq!(turns, [4, 1, 1]);
    drop(answers);
    gated.let_pass(None);
    block_on(first).unwrap();
}

fn staged_process(keys: impl RedisClient + 'static, seed: u64) -> SharedForest<Staged> {
    let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree: Some(1), founder_token_bytes: 0 };
    SharedForest::new(
        ForestSetup { name: "test", identity: "staged", settings, thresholds: (), learned: () },
        Arc::new(Threads),
        Arc::new(keys),
        seed << 32,
    )
}

fn published(url: &str) -> Batch {
    let fields = Fields { title: Some("Harbour wall of Oskar repaired"), body: &["All of it holds again."] };
    let attributes = Attributes { url: Some(url), ..Attributes::default() };
    let method: Method = "staged".parse().unwrap();
    let features = method.read_with(&fields, attributes, &mut Workspace::default()).unwrap();
    Batch { documents: vec![at(features, 0)], ..Batch::default() }
}

/// Title and content go to the tree of the faster one, which is full then, and the address alone does not say whose
/// text it is.
#[test]
fn a_founder_that_loses_leaves_to_a_full_tree_is_known_again() {
    const URLS: [&str; 2] = ["https://one.example/", "https://two.example/"];
    let alone = staged_process(InMemoryRedis::default(), 1);
    placed(block_on(alone.place(published(URLS[0]))));
    let trips = alone.inner.counters.rounds.load(Relaxed);
    let mut lost = 0;
    for trip in 1..trips as usize {
        let gated = Gated::default();
        gated.let_pass(Some(trip));
        let (slower, faster) = (staged_process(gated.clone(), 1), staged_process(gated.0.clone(), 2));
        let first = slower.place(published(URLS[0]));
        gated.wait_for_one();
        let second = placed(block_on(faster.place(published(URLS[1]))));
        gated.let_pass(None);
        let first = placed(block_on(first));
        lost += usize::from(gated.0.nodes().len() == 5);
        for (url, placed_first) in URLS.into_iter().zip([first, second]) {
            let root = placed_first[0].root;
            settle(&slower, placed_first, ItemOutcome::Accepted);
            let again = placed(block_on(slower.place(published(url))));
            assert_eq!((again[0].root, again[0].decision), (root, Decision::Refreshed), "{url} after {trip} trips");
        }
    }
    assert!(lost > 0, "nothing was lost in {trips} trips");
}
