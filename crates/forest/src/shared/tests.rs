mod dated;
mod full;
mod near;
mod overrides;
mod records;
mod search;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Barrier};

use futures_executor::block_on;
use proptest::prelude::*;
use spinney_text::fingerprint::Distance;
use spinney_text::hash::HashKey;
use spinney_text::method::{
    Attributes, Durable, Features, Founder, LearnedText, Method, Similarity, Strict, TallyEntry, TreeTally, Verified,
    VerifiedFeatures, Workspace,
};
use spinney_text::text::{Fields, Scratch};

use super::layout::{LeafValue, NodeValue, RootValue, read_founder_tokens, write_founder_tokens};
use super::memory::InMemoryRedis;
use super::*;
use crate::Decision;
use crate::document::DocumentTime;
use crate::port::{Batch, ItemOutcome, RootAssignment};
use crate::tests::{EDITIONS, OF_ALL_FINGERPRINTS};

struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

const WINDOW: i64 = 64_000;

/// One of several processes that share a Redis.
fn process(memory: &InMemoryRedis, seed: u64) -> SharedForest<Verified> {
    process_with(memory, seed, LearnedText::default())
}

fn process_with(memory: &InMemoryRedis, seed: u64, learned: LearnedText) -> SharedForest<Verified> {
    process_on(memory.clone(), None, seed, learned)
}

fn process_on(
    keys: impl RedisClient + 'static,
    max_tree: Option<u32>,
    seed: u64,
    learned: LearnedText,
) -> SharedForest<Verified> {
    let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree, founder_token_bytes: 1 << 20 };
    SharedForest::new(
        ForestSetup { name: "test", identity: "k=0", settings, thresholds: Similarity::default(), learned },
        Arc::new(Threads),
        Arc::new(keys),
        seed << 32,
    )
}

fn sentence(salt: u64) -> String {
    let word = |n: u64| format!("{:x}", splitmix64(salt.wrapping_mul(1_000) ^ n) >> 40);
    let words: Vec<String> = (0..14).map(word).collect();
    words.join(" ")
}

/// The text of a story, of which each version has another last sentence.
fn story(number: u64, version: u64) -> Features {
    let own = (0..6).map(|n| sentence(number * 100 + n + 1));
    let last = (version > 0).then(|| sentence(!(number * 100 + version)));
    let text: Vec<String> = own.chain(last).collect();
    of_text(&text.join(". "))
}

fn of_text(text: &str) -> Features {
    let fields = Fields { title: None, body: &[text] };
    Method::Verified.read_with(&fields, Attributes::default(), &mut Workspace::default()).unwrap()
}

fn at(features: Features, now: i64) -> ForestDocument {
    ForestDocument {
        features: Some(features),
        when: DocumentTime::At(Millis(now)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

fn place(forest: &dyn ForestPort, documents: Vec<ForestDocument>) -> Vec<RootAssignment> {
    let batch = Batch { documents, ..Batch::default() };
    let replies = block_on(forest.place(batch)).unwrap().replies;
    replies.into_iter().map(|reply| reply.placed.unwrap()).collect()
}

fn settle(forest: &dyn ForestPort, placed: Vec<RootAssignment>, outcome: ItemOutcome) -> SettleReport {
    let settled = placed.into_iter().filter_map(|placed| placed.settled(outcome));
    let batch = settled.collect();
    block_on(forest.settle(batch, Millis(0))).unwrap()
}

/// Returns when it is so, which others see to.
fn wait_until(is_so: impl Fn() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(std::time::Instant::now() < until, "it is not so");
        std::thread::yield_now();
    }
}

/// Every node is a root or leads to one, whatever it took to get there.
fn check_laws(memory: &InMemoryRedis) {
    check_laws_of::<Founder>(memory);
}

fn check_laws_of<P: Durable>(memory: &InMemoryRedis) {
    let nodes = memory.nodes();
    let read: BTreeMap<Fingerprint, NodeValue<P>> =
        nodes.iter().map(|(key, bytes, _)| (key.fingerprint, NodeValue::read(bytes).unwrap())).collect();
    let until: BTreeMap<Fingerprint, Option<i64>> =
        nodes.iter().map(|(key, _, until)| (key.fingerprint, *until)).collect();
    for (fingerprint, node) in &read {
        match node {
            NodeValue::Root(root) => {
                assert!(root.is_confirmed, "a root is left that nobody confirms");
            }
            NodeValue::Leaf(leaf) => {
                let Some(NodeValue::Root(root)) = read.get(&leaf.root.0) else {
                    panic!("{fingerprint} leads to nothing");
                };
                assert_eq!(root.token, leaf.token, "{fingerprint} is dead");
                assert!(until[&leaf.root.0] > until[fingerprint], "a root goes before a leaf");
            }
        }
    }
}

/// Stories of a round of [`race`].
const STORIES: u64 = 24;

/// Sends the same stories to all processes at once, in another order to each, and gives the roots of each story.
/// `document` is what a process gets of a story.
fn race<P: ForestPort>(
    processes: u64,
    rounds: u64,
    process: impl Fn(u64) -> P + Sync,
    document: impl Fn(u64, u64) -> ForestDocument + Sync,
) -> Vec<HashSet<Root>> {
    let barrier = Barrier::new(processes as usize);
    let mut roots: Vec<HashSet<Root>> = (0..rounds * STORIES).map(|_| HashSet::new()).collect();
    let (barrier, process, document) = (&barrier, &process, &document);
    let found: Vec<Vec<(u64, Root)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processes)
            .map(|number| {
                scope.spawn(move || {
                    let forest = process(number + 1);
                    let mut found = Vec::new();
                    for round in 0..rounds {
                        let mut stories: Vec<u64> = (round * STORIES..(round + 1) * STORIES).collect();
                        stories.sort_by_key(|story| splitmix64(story ^ number << 32));
                        let documents = stories.iter().map(|&story| document(story, number));
                        let documents = documents.collect();
                        barrier.wait();
                        let placed = place(&forest, documents);
                        let named = stories.iter().zip(&placed);
                        found.extend(named.map(|(&story, placed)| (story, placed.root)));
                        settle(&forest, placed, ItemOutcome::Accepted);
                    }
                    found
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (story, root) in found.into_iter().flatten() {
        roots[story as usize].insert(root);
    }
    roots
}

/// The same of texts, each process with a version of its own.
fn race_of_texts(memory: &InMemoryRedis, processes: u64, version: impl Fn(u64) -> u64 + Sync) -> Vec<HashSet<Root>> {
    race(processes, 6, |seed| process(memory, seed), |number, process| at(story(number, version(process)), 1))
}

/// A forest of this process alone, to be compared with.
fn local() -> crate::local::LocalForest<Verified> {
    local_with(LearnedText::default())
}

fn local_with(learned: LearnedText) -> crate::local::LocalForest<Verified> {
    let settings = crate::Settings { k: Distance(0), window: Some(Millis(WINDOW)), key: HashKey::FIXED };
    crate::local::LocalForest::new("test", settings, Similarity::default(), learned, Arc::new(Threads)).unwrap()
}

#[test]
fn a_document_gets_the_root_again_that_it_was_given() {
    let memory = InMemoryRedis::default();
    let (shared, local) = (process(&memory, 1), local());
    for forest in [&shared as &dyn ForestPort, &local] {
        let first = place(forest, vec![at(story(1, 0), 0)]);
        let root = first[0].root;
        settle(forest, first, ItemOutcome::Accepted);
        let given = |number, root| {
            let placed = place(forest, vec![ForestDocument { given: Some(root), ..at(story(number, 0), 1) }]);
            let found = (placed[0].root, placed[0].decision);
            settle(forest, placed, ItemOutcome::Accepted);
            found
        };
        // A tree that its text would not join, and a root that is nobody's.
        assert_eq!(given(2, root), (root, Decision::Joined { candidates: 1 }));
        let free = Root(Fingerprint(7));
        assert_eq!(given(3, free), (free, Decision::NewRoot));
        // Where its text is known, that is where it is.
        assert_eq!(given(3, root), (free, Decision::Refreshed));
    }
}

/// The document whose tree kept it from this root has been refused since.
#[test]
fn a_root_that_a_document_was_given_is_no_leaf_of_another_one_of_its_request() {
    let memory = InMemoryRedis::default();
    let (shared, local) = (process(&memory, 1), local());
    let mut features = story(1, 0);
    let own = Verified::ask(
        Verified::features(&mut features).unwrap(),
        &mut LearnedText::default(),
        &Default::default(),
        |query| Root(query.fingerprints[0]),
    );
    let free = Root(Fingerprint(7));
    for forest in [&shared as &dyn ForestPort, &local] {
        let documents =
            [(1, free), (2, own)].map(|(number, root)| ForestDocument { given: Some(root), ..at(story(number, 0), 0) });
        let replies = block_on(forest.place(Batch::of_accepted(documents.into()))).unwrap().replies;
        let roots: Vec<Root> = replies.iter().map(|reply| reply.placed.as_ref().unwrap().root).collect();
        assert_eq!(roots, [free, own]);
        for (number, root) in [(1, free), (2, own)] {
            let again = place(forest, vec![at(story(number, 0), 1)]);
            assert_eq!((again[0].root, again[0].decision), (root, Decision::Refreshed));
        }
    }
}

/// Its text has founded a tree that lives on without it, under a fingerprint by which texts are not known again:
/// without their boilerplate, they offer more. By now another tree is the better one.
#[test]
fn a_document_joins_the_tree_that_the_rules_say_though_its_text_has_founded_another() {
    let memory = InMemoryRedis::default();
    let boilerplate = [sentence(101), sentence(102), sentence(103)];
    let learned = || LearnedText::seeded(boilerplate.iter().map(String::as_str));
    let mut features = story(1, 0);
    let offered =
        Verified::ask(Verified::features(&mut features).unwrap(), &mut learned(), &Default::default(), |query| {
            let mut offered = query.fingerprints.iter().copied();
            offered.find(|offered| !query.known_by.contains(offered))
        });
    let first = Root(offered.unwrap());
    let (shared, local) = (process_with(&memory, 1, learned()), local_with(learned()));
    let found = [&shared as &dyn ForestPort, &local].map(|forest| {
        let add = |number, version, now, given| {
            let placed = place(forest, vec![ForestDocument { given, ..at(story(number, version), now) }]);
            let found = (placed[0].root, placed[0].decision);
            settle(forest, placed, ItemOutcome::Accepted);
            found
        };
        assert_eq!(add(1, 0, 0, Some(first)), (first, Decision::NewRoot));
        // Keeps the root, and nothing else of its text.
        add(3, 0, WINDOW * 3 / 4, Some(first));
        let second = Root(Fingerprint(7));
        assert_eq!(add(1, 9, WINDOW * 11 / 10, Some(second)), (second, Decision::NewRoot));
        for number in 4..8 {
            add(number, 0, WINDOW * 11 / 10, Some(second));
        }
        let (root, decision) = add(1, 0, WINDOW * 12 / 10, None);
        assert_eq!((root, decision), (second, Decision::Joined { candidates: 2 }));
        root
    });
    assert_eq!(found[0], found[1]);
}

#[test]
fn copies_that_come_at_once_get_one_root() {
    for processes in [2, 3] {
        let memory = InMemoryRedis::default();
        let roots = race_of_texts(&memory, processes, |_| 0);
        assert!(roots.iter().all(|roots| roots.len() == 1), "{processes}: {roots:?}");
        let all: BTreeSet<Root> = roots.into_iter().flatten().collect();
        assert_eq!(all.len(), 6 * 24);
        check_laws(&memory);
    }
}

#[test]
fn versions_that_come_at_once_get_one_root() {
    let memory = InMemoryRedis::default();
    let roots = race_of_texts(&memory, 3, |process| process);
    let split = roots.iter().filter(|roots| roots.len() > 1).count();
    // Two versions of which only one sees the other stay apart, as they would in some order in one forest.
    assert!(split * 20 <= roots.len(), "{split} of {}", roots.len());
    check_laws(&memory);
}

#[test]
fn a_shared_forest_decides_as_a_local_one() {
    let local = local();
    let memory = InMemoryRedis::default();
    let processes = [1, 2, 3].map(|seed| process(&memory, seed));
    let (mut local_roots, mut shared_roots) = (Vec::new(), Vec::new());
    for bulk in 0..40_u64 {
        let numbers: Vec<(u64, u64)> =
            (0..12).map(|n| splitmix64(bulk * 100 + n)).map(|random| (random % 90, random >> 32 & 3)).collect();
        let documents = || -> Vec<ForestDocument> {
            let each = numbers.iter();
            each.map(|&(number, version)| at(story(number, version), bulk as i64)).collect()
        };
        let placed = place(&local, documents());
        local_roots.extend(placed.iter().map(|placed| placed.root));
        settle(&local, placed, ItemOutcome::Accepted);
        let forest = &processes[splitmix64(bulk) as usize % 3];
        let placed = place(forest, documents());
        shared_roots.extend(placed.iter().map(|placed| placed.root));
        settle(forest, placed, ItemOutcome::Accepted);
    }
    assert_eq!(shared_roots, local_roots);
    assert!(local_roots.len() > 2 * local_roots.iter().collect::<HashSet<_>>().len());
    check_laws(&memory);
}

#[test]
fn a_tree_lives_a_window_from_its_last_document() {
    let memory = InMemoryRedis::default();
    let forest = process(&memory, 1);
    let first = place(&forest, vec![at(story(1, 0), 0)]);
    let root = first[0].root;
    settle(&forest, first, ItemOutcome::Accepted);
    for (now, decision) in [
        (WINDOW - 10, Decision::Refreshed),
        (2 * WINDOW - 20, Decision::Refreshed),
        // Nodes live a few steps longer than they have to.
        (3 * WINDOW + WINDOW / 8, Decision::NewRoot),
    ] {
        let again = place(&forest, vec![at(story(1, 0), now)]);
        assert_eq!((again[0].root, again[0].decision), (root, decision), "{now}");
        settle(&forest, again, ItemOutcome::Accepted);
        check_laws(&memory);
    }
    memory.advance(5 * WINDOW);
    assert!(memory.nodes().is_empty());
}

#[test]
fn what_a_crash_leaves_is_taken_over() {
    let memory = InMemoryRedis::default();
    let (dead, forest) = (process(&memory, 1), process(&memory, 2));
    // A founder that ends between its claims and its confirmation.
    let inner = dead.inner.clone();
    let work = inner.arrivals(vec![at(story(1, 0), 0)], &Default::default());
    let claimed = block_on(async {
        let round = inner
            .decide(work, vec![Default::default()], Default::default(), false)
            .await
            .map_err(|(error, _)| error)?;
        inner.claim_and_crash(&round).await
    });
    claimed.unwrap();
    let left = memory.nodes().len();
    assert!(left > 1);
    // Nobody confirms it: whoever needs its place takes it.
    let placed = place(&forest, vec![at(story(1, 0), 1)]);
    assert_eq!(placed[0].decision, Decision::NewRoot);
    assert_eq!(memory.nodes().len(), left);
    check_laws(&memory);
}

#[test]
fn redis_that_is_away_is_said_to_be() {
    let memory = InMemoryRedis::default();
    let forest = process(&memory, 1);
    memory.set_away(Some("the cable is out"));
    let batch = || Batch { documents: vec![at(story(1, 0), 0)], ..Batch::default() };
    let away = Unavailable::Away { forest: "test".into(), reason: "the cable is out".into() };
    assert_eq!(block_on(forest.place(batch())).unwrap_err().reason, away);
    assert_eq!(forest.unavailable(), Some(away.clone()));
    assert_eq!(block_on(forest.stats()).unwrap_err(), away);
    memory.set_away(None);
    assert_eq!(forest.unavailable(), None);
    assert_eq!(block_on(forest.place(batch())).unwrap().replies.len(), 1);
    let other = SharedForest::<Strict>::new(
        ForestSetup {
            name: "test",
            identity: "k=0 method=sentences:1",
            settings: SharedSettings { window: None, max_tree: None, founder_token_bytes: 0 },
            thresholds: (),
            learned: (),
        },
        Arc::new(Threads),
        Arc::new(memory),
        1,
    );
    let refused = block_on(other.stats()).unwrap_err();
    let expected = other_settings("k=0", "k=0 method=sentences:1");
    assert!(matches!(&refused, Unavailable::Unsupported { reason, .. } if *reason == expected), "{refused}");
    assert_eq!(block_on(other.check_settings()).unwrap_err().to_string(), refused.to_string());
}

#[test]
fn accepted_documents_are_counted() {
    let memory = InMemoryRedis::default();
    let forest = process(&memory, 1);
    let first = place(&forest, vec![at(story(1, 0), 0)]);
    let root = first[0].root;
    settle(&forest, first, ItemOutcome::Accepted);
    let tree = |forest: &SharedForest<Verified>| block_on(forest.tree(root)).unwrap().unwrap();
    assert_eq!((tree(&forest).documents, tree(&forest).titles), (1, 0));
    for title in 0..3 {
        let mut copy = at(story(1, 0), 1);
        copy.title = Some(title * 7 + 1);
        let placed = place(&forest, vec![copy]);
        settle(&forest, placed, ItemOutcome::Accepted);
    }
    let refused = place(&forest, vec![at(story(1, 0), 2)]);
    settle(&forest, refused, ItemOutcome::Refused);
    assert_eq!((tree(&forest).documents, tree(&forest).titles), (4, 3));
}

fn founder(text: &str, whole: u64) -> Founder {
    let mut features = VerifiedFeatures::new();
    features.read(&mut Scratch::new(), &Fields { title: None, body: &[text] });
    let mut bytes = Vec::new();
    whole.write(&mut bytes);
    let proof = features.proof().to_bytes();
    bytes.push(proof.len() as u8);
    bytes.extend(proof);
    Founder::read(&mut bytes.as_slice()).unwrap()
}

#[test]
fn a_text_that_its_fingerprints_lead_to_is_known_without_founder_tokens() {
    let read = |text| at(of_text(text), 1);
    for in_one_bulk in [false, true] {
        let memory = InMemoryRedis::default();
        let (one, other) = (process(&memory, 1), process(&memory, 2));
        let texts = EDITIONS.into_iter().chain([OF_ALL_FINGERPRINTS]).map(read);
        let mut placed: Vec<RootAssignment> = match in_one_bulk {
            true => place(&one, texts.collect()),
            false => texts.flat_map(|text| place(&one, vec![text])).collect(),
        };
        let last = placed.pop().unwrap();
        assert_eq!((last.root, last.decision), (placed[0].root, Decision::Refreshed), "it was never placed before");
        settle(&one, vec![last], ItemOutcome::Accepted);
        for (key, _) in memory.of_kind(KeyKind::FounderTokens) {
            memory.remove(&key);
        }
        let again = place(&other, vec![read(OF_ALL_FINGERPRINTS)]);
        assert_eq!((again[0].root, again[0].decision), (placed[0].root, Decision::Refreshed), "{in_one_bulk}");
        check_laws(&memory);
    }
}

proptest! {
    #[test]
    fn nodes_are_told_by_their_values(
        root in any::<u64>(),
        token in 1u32..1 << 24,
        added in -(1i64 << 47)..1 << 47,
        numbers in any::<[u16; 5]>(),
        whole_step in any::<u32>(),
        [confirmed, is_dated] in any::<[bool; 2]>(),
        tally in prop::option::of((any::<u32>(), 1u8..4)),
        first in prop_oneof![Just(0), any::<u32>()],
        text in "[a-z0-9 ]{0,200}",
        words in prop::collection::vec(any::<u16>(), 0..40),
    ) {
        let token = FoundingToken(token);
        let leaf = NodeValue::<Founder>::Leaf(LeafValue {
            root: Root(Fingerprint(root)),
            token,
            step: if is_dated { whole_step } else { whole_step & 0xFF },
            is_dated,
        });
        let NodeValue::Leaf(value) = &leaf else { unreachable!() };
        prop_assert_eq!(value.bytes().len(), if is_dated { 15 } else { 12 });
        prop_assert_eq!(NodeValue::read(&value.bytes()), Some(leaf));
        let [_, uses, nonce, children, before] = numbers;
        let tally = tally.map(|(title, sign)| {
            let mut tally = TreeTally::of_founder();
            tally.add(TallyEntry { title: Some(title), sign });
            tally
        });
        let value = RootValue {
            first: DocumentHash(first),
            is_confirmed: confirmed,
            token,
            added: Millis(added),
            step: if is_dated { whole_step } else { whole_step & 0xFFFF },
            is_dated,
            uses,
            nonce,
            children,
            before,
            tally: tally.filter(|_| confirmed),
            proof: founder(&text, root),
        };
        prop_assert_eq!(NodeValue::read(&value.bytes()), Some(NodeValue::Root(value)));
        let founder_tokens = write_founder_tokens(token, &words);
        prop_assert_eq!(read_founder_tokens(&founder_tokens), Some((token, words.as_slice().into())));
    }

    #[test]
    fn any_bytes_are_a_node_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = NodeValue::<Founder>::read(&bytes);
        let _ = NodeValue::<()>::read(&bytes);
        let _ = read_founder_tokens(&bytes);
    }

    /// Roots live longer than their leaves, by two steps at least; both at least a window.
    #[test]
    fn lives_are_ordered(window in 1i64..1 << 40, now in 0i64..1 << 44, later in 0i64..1 << 30) {
        let calendar = Calendar::new(Some(Millis(window)));
        let length = (window + 63) / 64;
        let until = |now, is_root| match calendar.life(Millis(now), is_root) {
            Lifetime::Until(at) => at.0,
            other => panic!("{other:?}"),
        };
        prop_assert!(until(now, false) >= now + window);
        prop_assert!(until(now, true) >= until(now, false) + 2 * length);
        // One that is not due to be refreshed lives long enough, too.
        let later = now + later % length;
        if calendar.step(Millis(later)) == calendar.step(Millis(now)) {
            prop_assert!(until(now, true) > until(later, false));
        }
        let begun = calendar.begun(calendar.step(Millis(now)), Millis(now));
        prop_assert!(begun.0 <= now && now - begun.0 < length);
    }
}

/// A story with a sentence that others have too.
fn with_footer(number: u64) -> Features {
    let word = |n: u64| format!("{:x}", splitmix64(number.wrapping_mul(1_000) ^ n) >> 40);
    let words: Vec<String> = (0..70).map(word).collect();
    let mut text: Vec<String> = words.chunks(14).map(|words| words.join(" ")).collect();
    text.push("All rights reserved by the house that has sent this to you".into());
    let fields = Fields { title: None, body: &[&text.join(".\n\n")] };
    let method = Method::Verified;
    let features = method.read_with(&fields, Attributes::default(), &mut Workspace::default());
    features.unwrap()
}

#[test]
fn what_one_process_learns_the_others_hear() {
    let memory = InMemoryRedis::default();
    let [one, other] = [1, 2].map(|seed| process(&memory, seed));
    let excluded = |forest: &SharedForest<Verified>, number| {
        let reply = block_on(forest.check(at(with_footer(number), 5)));
        reply.unwrap().check.unwrap().boilerplate
    };
    // The fourth founder makes it boilerplate, whoever has taught it to whom.
    let mut learned = 0;
    for (number, forest) in [(1, &one), (2, &other), (3, &one)] {
        let placed = place(forest, vec![at(with_footer(number), 1)]);
        learned += settle(forest, placed, ItemOutcome::Accepted).learned;
    }
    // One that is refused teaches nobody.
    let placed = place(&one, vec![at(with_footer(4), 1)]);
    settle(&one, placed, ItemOutcome::Refused);
    assert_eq!((learned, excluded(&other, 9).len()), (0, 0));
    let placed = place(&other, vec![at(with_footer(5), 1)]);
    learned += settle(&other, placed, ItemOutcome::Accepted).learned;
    assert_eq!(learned, 1);
    // Also to one that was there from the start, to one that begins now, and to one that only places.
    let beginner = process(&memory, 3);
    for forest in [&one, &other, &beginner] {
        assert_eq!(excluded(forest, 9).len(), 1);
    }
    let tables = [&one, &other, &beginner].map(|forest| format!("{:?}", forest.inner.learned.lock()));
    assert!(tables[0] == tables[1] && tables[1] == tables[2]);
    let late = process(&memory, 4);
    let placed = place(&late, vec![at(with_footer(6), 1)]);
    assert!(placed[0].ticket.as_ref().unwrap().rollback.node_count() > 1);
    assert_eq!(format!("{:?}", late.inner.learned.lock()), tables[0]);
}

/// A log is kept for a window after the last founder, and trees that are joined live longer.
#[test]
fn what_was_learned_outlives_a_log_that_is_over() {
    let memory = InMemoryRedis::default();
    let forest = process(&memory, 1);
    let learned = || format!("{:?}", forest.inner.learned.lock());
    for number in 1..=4 {
        settle(&forest, place(&forest, vec![at(with_footer(number), 1)]), ItemOutcome::Accepted);
    }
    let before = learned();
    for (now, founder) in [(WINDOW * 2 / 3, 4), (WINDOW * 4 / 3, 4), (WINDOW * 4 / 3, 5)] {
        memory.advance(now);
        settle(&forest, place(&forest, vec![at(with_footer(founder), now)]), ItemOutcome::Accepted);
        assert_eq!(learned() == before, founder == 4, "at {now}");
    }
    let placed = place(&forest, vec![at(with_footer(6), WINDOW * 4 / 3)]);
    assert!(placed[0].ticket.as_ref().unwrap().rollback.node_count() > 1);
    let reply = block_on(forest.check(at(with_footer(7), WINDOW * 4 / 3))).unwrap();
    assert_eq!(reply.check.unwrap().boilerplate.len(), 1);
}

/// The documents of a lost forest teach again when they come again: each counts once, in whichever process, and however
/// often all is lost.
#[test]
fn what_was_learned_is_lost_with_the_forest() {
    let memory = InMemoryRedis::default();
    let [one, other] = [1, 2].map(|seed| process(&memory, seed));
    let footer = |forest: &SharedForest<Verified>| {
        let reply = block_on(forest.check(at(with_footer(9), 5)));
        reply.unwrap().check.unwrap().boilerplate.len()
    };
    for _ in 0..5 {
        let mut roots = Vec::new();
        for (number, forest) in [(1, &one), (2, &other), (3, &one)] {
            let placed = place(forest, vec![at(with_footer(number), 1)]);
            roots.push(placed[0].root);
            settle(forest, placed, ItemOutcome::Accepted);
        }
        assert_eq!(roots, [1, 2, 3].map(|number| place(&other, vec![at(with_footer(number), 1)])[0].root));
        assert_eq!((footer(&one), footer(&other)), (0, 0), "three documents have it, and not four");
        for key in memory.values().iter().map(|(key, ..)| *key) {
            memory.remove(&key);
        }
        block_on(memory.remove_sync_entries(block_on(one.inner.number()).unwrap())).unwrap();
    }
}
