//! A shared forest that goes on in a local fallback while Redis is away.

use std::sync::Arc;

use futures_executor::block_on;
use spinney_text::method::{Attributes, LearnedText, Method, Similarity, Verified, Workspace};
use spinney_text::text::Fields;

use super::super::document::{DocumentTime, ForestDocument};
use super::super::port::{Batch, BatchReply, ForestPort, ItemOutcome, RootAssignment};
use super::super::shared::memory::InMemoryRedis;
use super::super::shared::{ForestSetup, SharedForest, SharedSettings};
use super::super::{Decision, LocalFallback};
use super::*;
use crate::local::{Executor, LocalForest};

struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

fn or_local(redis: &InMemoryRedis) -> LocalFallback {
    let settings = SharedSettings { window: None, max_tree: None, founder_token_bytes: 1 << 20 };
    let shared = SharedForest::<Verified>::new(
        ForestSetup {
            name: "test",
            identity: "a test",
            settings,
            thresholds: Similarity::default(),
            learned: LearnedText::default(),
        },
        Arc::new(Threads),
        Arc::new(redis.clone()),
        1,
    );
    let settings = Settings { k: Distance(0), window: None, key: HashKey::FIXED };
    let (similarity, learned) = (Similarity::default(), LearnedText::default());
    let alone = LocalForest::<Verified>::new("test", settings, similarity, learned, Arc::new(Threads)).unwrap();
    LocalFallback::new(Arc::new(shared), Arc::new(alone))
}

fn story(number: usize) -> ForestDocument {
    let word = |n: usize| format!("{:x}", (number * 101 + n + 1).wrapping_mul(0x9e37_79b9_7f4a));
    let words: Vec<String> = (0..60).map(word).collect();
    let text: Vec<String> = words.chunks(12).map(|words| words.join(" ")).collect();
    let fields = Fields { title: None, body: &[&text.join(". ")] };
    let method = Method::Verified;
    ForestDocument {
        features: method.read_with(&fields, Attributes::default(), &mut Workspace::default()),
        when: DocumentTime::At(Millis(1)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

fn stories(numbers: &[usize]) -> Vec<ForestDocument> {
    numbers.iter().map(|&number| story(number)).collect()
}

fn placed(placements: BatchReply) -> Vec<RootAssignment> {
    let replies = placements.replies.into_iter();
    replies.map(|reply| reply.placed.unwrap()).collect()
}

fn place(forest: &LocalFallback, numbers: &[usize]) -> Vec<RootAssignment> {
    let batch = Batch { documents: stories(numbers), ..Batch::default() };
    placed(block_on(forest.place(batch)).unwrap())
}

fn settle(forest: &LocalFallback, placed: Vec<RootAssignment>, outcome: ItemOutcome) -> u64 {
    let settlements = placed.into_iter().filter_map(|placed| placed.settled(outcome));
    let settled = block_on(forest.settle(settlements.collect(), Millis(1)));
    settled.unwrap().withdrawn
}

#[test]
fn what_comes_while_redis_is_away_is_placed_alone_and_marked() {
    let redis = InMemoryRedis::default();
    let forest = or_local(&redis);
    let before = place(&forest, &[1, 2]);
    let first = before[0].root;
    assert!(before.iter().all(|placed| !placed.is_local_fallback));
    settle(&forest, before, ItemOutcome::Accepted);
    let mut rehearsed_before = forest.dry_placement();
    let foreseen = placed(block_on(rehearsed_before.place(stories(&[1]))).unwrap());
    assert_eq!((foreseen[0].root, foreseen[0].is_local_fallback), (first, false));

    redis.set_away(Some("it was stopped"));
    assert_eq!(forest.unavailable(), None, "it can be written to");
    let alone = place(&forest, &[1, 3, 3]);
    assert!(alone.iter().all(|placed| placed.is_local_fallback));
    let decisions: Vec<Decision> = alone.iter().map(|placed| placed.decision).collect();
    // What came before is not known, and what comes now is.
    assert_eq!(decisions, [Decision::NewRoot, Decision::NewRoot, Decision::Refreshed]);
    let third = alone[1].root;
    assert_eq!(alone[2].root, third);
    settle(&forest, alone, ItemOutcome::Accepted);
    // A request that began before goes on, and so does one that begins now.
    rehearsed_before = match block_on(rehearsed_before.place(stories(&[3]))) {
        Ok(placements) => {
            let foreseen = placed(placements);
            assert_eq!((foreseen[0].root, foreseen[0].is_local_fallback), (third, true));
            forest.dry_placement()
        }
        Err(away) => panic!("{away:?}"),
    };
    let foreseen = placed(block_on(rehearsed_before.place(stories(&[3]))).unwrap());
    assert!(foreseen[0].is_local_fallback);
    let checked = block_on(forest.check(story(3))).unwrap().check.unwrap();
    assert_eq!(checked.root, third);
    assert!(block_on(forest.tree(third)).unwrap().is_some());
    // What is refused goes from where it stands.
    let refused = place(&forest, &[4]);
    assert!(settle(&forest, refused, ItemOutcome::Refused) > 0);
    assert_eq!(place(&forest, &[4])[0].decision, Decision::NewRoot);
    let unsettled = place(&forest, &[5]);

    redis.set_away(None);
    let nodes = redis.nodes();
    assert!(settle(&forest, unsettled, ItemOutcome::Refused) > 0, "it stood alone");
    assert_eq!(redis.nodes(), nodes, "and not there");
    let again = place(&forest, &[1, 3]);
    assert_eq!((again[0].root, again[0].is_local_fallback), (first, false));
    // It is stamped for the first time as far as all others know.
    assert_eq!((again[1].decision, again[1].is_local_fallback), (Decision::NewRoot, false));
}
