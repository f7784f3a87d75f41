//! What stands in Redis: all that documents bring is read again, and what is no such value counts as absent.

use spinney_text::fingerprint::Distance;
use spinney_text::method::{FounderTokens, Lesson, Short, Staged};

use super::*;
use crate::shared::layout::{living_names, read_bucket};
use crate::shared::lsh_buckets::LshBuckets;
use crate::tests::records::{Written, written};

/// Values that somebody else has put in the place of nodes and of founder tokens: each counts as absent, and documents
/// go on.
#[test]
fn values_that_do_not_read_count_as_absent() {
    let memory = InMemoryRedis::default();
    let first = process(&memory, 1);
    let placed = place(&first, vec![at(story(1, 0), 0), at(story(2, 0), 0)]);
    let roots: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
    settle(&first, placed, ItemOutcome::Accepted);
    let keys = memory.nodes();
    let founder_tokens = memory.of_kind(KeyKind::FounderTokens);
    assert!(keys.len() > 4 && founder_tokens.len() == 2);
    for bytes in [&[][..], &[7], &[200; 60], &[1; 12]] {
        let memory = memory.copy();
        for (key, ..) in &keys {
            if key.fingerprint != roots[1].0 {
                memory.overwrite(*key, bytes);
            }
        }
        for (key, _) in &founder_tokens {
            memory.overwrite(*key, &bytes[..bytes.len().min(2)]);
        }
        let second = process(&memory, 2);
        let placed = place(&second, vec![at(story(1, 0), 0), at(story(2, 0), 0)]);
        let again: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
        settle(&second, placed, ItemOutcome::Accepted);
        assert_eq!(again[0], roots[0], "it founds the same tree");
        let stats = block_on(ForestPort::stats(&second)).unwrap().shared.unwrap();
        assert!(stats.unreadable > 0 || bytes.len() == 12, "{bytes:?}");
        // From then on others find it.
        let third = process(&memory, 3);
        let placed = place(&third, vec![at(story(1, 1), 0), at(story(2, 1), 0)]);
        let joined: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
        assert_eq!(joined, again);
    }
}

/// Places all of them, one request each, and holds that every value is read as what was written.
fn law<F: MethodKind>(method: &str, thresholds: <F::Proof as Proof>::Thresholds, documents: &[Written], is_dated: bool)
where
    F::Learned: Default,
{
    let memory = InMemoryRedis::default();
    let start = || {
        let settings = SharedSettings { window: Some(Millis(WINDOW)), max_tree: None, founder_token_bytes: 1 << 30 };
        SharedForest::<F>::new(
            ForestSetup { name: "test", identity: "k=0", settings, thresholds, learned: F::Learned::default() },
            Arc::new(Threads),
            Arc::new(memory.clone()),
            1 << 32,
        )
    };
    let forest = start();
    let forest = if is_dated { forest.dated() } else { forest };
    // It reads all lessons: their log ends when a window goes by without one.
    let reader = start();
    let method: Method = method.parse().unwrap();
    let mut workspace = Workspace::default();
    for document in documents {
        let document = document.document(&method, &mut workspace);
        if document.features.is_none() {
            continue;
        }
        let batch = Batch { documents: vec![document], ..Batch::default() };
        let replies = block_on(forest.place(batch)).unwrap().replies;
        let placed = replies.into_iter().filter_map(|reply| reply.placed);
        settle(&forest, placed.collect(), ItemOutcome::Accepted);
        block_on(reader.inner.refresh_boilerplate()).unwrap();
    }
    for (key, bytes, _) in memory.nodes() {
        let again = match NodeValue::<F::Proof>::read(&bytes) {
            Some(NodeValue::Leaf(leaf)) => leaf.bytes(),
            Some(NodeValue::Root(root)) => root.bytes(),
            None => panic!("{method}: {key:?} {bytes:?}"),
        };
        assert_eq!(again, bytes, "{method}: {key:?}");
    }
    for (key, bytes) in memory.of_kind(KeyKind::FounderTokens) {
        let (token, words) = read_founder_tokens(&bytes).unwrap();
        assert_eq!(write_founder_tokens(token, &words), bytes, "{method}: {key:?}");
        assert!(words.len() <= FounderTokens::MOST && !words.is_empty());
    }
    let [heard, taught] = [&reader, &forest].map(|forest| {
        block_on(forest.inner.refresh_boilerplate()).unwrap();
        F::portions(&forest.inner.learned.lock())
    });
    assert_eq!(heard, taught, "{method}: what founders have taught");
    let stats = block_on(ForestPort::stats(&forest)).unwrap().shared.unwrap();
    assert_eq!(stats.unreadable, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_documents_bring_is_read_from_redis(
        documents in prop::collection::vec(written(), 1..6),
        is_dated: bool,
    ) {
        law::<Verified>("verified", Similarity::default(), &documents, is_dated);
        law::<Staged>("staged", (), &documents, is_dated);
        law::<Strict>("longest", (), &documents, is_dated);
        law::<Short>("short", (), &documents, is_dated);
    }
}

/// A document of so many sentences that nobody else has, but for as many that all of them have.
fn sentences(number: u64, own: usize, common: usize) -> ForestDocument {
    let sentence = |salt: u64| {
        let word = |n: u64| format!("{:x}", splitmix64(salt.wrapping_mul(1_000) ^ n) >> 36);
        (0..4).map(word).collect::<Vec<_>>().join(" ") + ". "
    };
    let own = (0..own as u64).map(|n| sentence(number << 32 | n));
    let common = (0..common as u64).map(|n| sentence(u64::MAX - n));
    let text: String = common.chain(own).collect();
    let fields = Fields { title: None, body: &[&text] };
    let method = Method::Verified;
    let features = method.read_with(&fields, Attributes::default(), &mut Workspace::default());
    at(features.unwrap(), 1)
}

fn lesson_of(document: ForestDocument) -> Lesson {
    Verified::lesson(Verified::features(&mut document.features.unwrap()).unwrap())
}

/// What founders of the largest text, and of as many documents as one request may teach with, are heard to say is what
/// they said: by a process that learns it from their lessons alone, and by one that is told by a forest of its own what
/// that has learned.
#[test]
fn lessons_are_heard_as_they_were_taught() {
    let memory = InMemoryRedis::default();
    let (teacher, reader) = (process(&memory, 1), process(&memory, 2));
    let mut told = LearnedText::default();
    let mut tell = |lessons: Vec<Lesson>| {
        Verified::learn(&mut told, &Lesson::of_request(lessons, 1_000).unwrap_or_default());
        Verified::portions(&told)
    };
    let heard = |forest: &SharedForest<Verified>| {
        block_on(forest.inner.refresh_boilerplate()).unwrap();
        Verified::portions(&forest.inner.learned.lock())
    };
    let mut longest = 0;
    for (number, len) in (1..).zip([1, 20, 1_023, 1_024, 1_025, 2_000]) {
        let lessons = vec![lesson_of(sentences(number, len, 2))];
        let placed = place(&teacher, vec![sentences(number, len, 2)]);
        longest = longest.max(lessons[0].sentences.len());
        settle(&teacher, placed, ItemOutcome::Accepted);
        let expected = tell(lessons);
        assert!(heard(&reader) == expected, "{len}");
        assert!(heard(&teacher) == expected, "{len}");
    }
    assert_eq!(longest, 1_024, "the limit is reached");
    for (from, founders) in [(1 << 8, 999), (2 << 16, 1_000), (3 << 16, 1_001)] {
        let lesson = lesson_of(sentences(from, 9, 2));
        // As if so many had come, each with a sentence more.
        let lessons = (0..founders).map(|n| {
            let sentences = [&lesson.sentences[..], &[splitmix64(from ^ n << 40)]].concat();
            Lesson { sentences, ..lesson.clone() }
        });
        let lessons: Vec<Lesson> = lessons.collect();
        block_on(teacher.inner.publish_lessons(lessons.clone())).unwrap();
        assert!(heard(&reader) == tell(lessons), "{founders}");
    }
    let portions = heard(&reader);
    assert!(portions.len() > 3);
    let other = InMemoryRedis::default();
    let (told, start_sync) = (process(&other, 1), process(&other, 2));
    block_on(told.inner.teach_all(portions.clone())).unwrap();
    assert!(heard(&start_sync) == portions);
}

/// Names that documents leave in one bucket, far from each other, from an empty bucket on and over all steps that its
/// bytes can tell: each is read as long as it lives, and what is left over when the others go is what lives.
#[test]
fn buckets_are_read_as_documents_have_filled_them() {
    let memory = InMemoryRedis::default();
    let forest = near::process(&memory, 1);
    let blocks = LshBuckets::new(SharedDistance::new(Distance(3)).unwrap());
    // They have the lowest blocks in common, and differ in many of the other bits.
    let name = |n: u64| splitmix64(n) << 30 | 0x5A5A;
    let bucket = blocks.buckets(Fingerprint(name(0))).next().unwrap();
    let value = || {
        let mut buckets = memory.of_kind(KeyKind::Bucket).into_iter();
        let found = buckets.find(|(key, _)| key.fingerprint == bucket);
        found.map_or_else(Vec::new, |(_, bytes)| bytes)
    };
    assert_eq!(read_bucket(&value()), Some(vec![]));
    let step = WINDOW / layout::STEPS;
    let mut written: Vec<(Fingerprint, i64)> = Vec::new();
    for n in 0..300 {
        let own = blocks.buckets(Fingerprint(name(n))).next().unwrap();
        assert_eq!(own, bucket);
        memory.advance(n as i64 * step);
        let placed = place(&forest, vec![near::document(name(n), n as i64 * step)]);
        written.push((placed[0].root.0, n as i64));
        settle(&forest, placed, ItemOutcome::Accepted);
        written.retain(|&(_, at)| n as i64 - at < 68);
        let names: Vec<Fingerprint> = written.iter().map(|&(name, _)| name).collect();
        assert_eq!(read_bucket(&value()).as_ref(), Some(&names), "{n}");
        let whole = value();
        for later in [0, 1, 67, 68, 191, 192, 255] {
            let now = n as i64 + later;
            let left = living_names(&whole, now as u8).unwrap_or_else(|| whole.clone());
            let lives = |at: i64| !(68..=191).contains(&((now - at) % 256));
            let names = written.iter().filter(|&&(_, at)| lives(at));
            let names: Vec<Fingerprint> = names.map(|&(name, _)| name).collect();
            assert_eq!(read_bucket(&left), Some(names), "{n} {later}");
        }
    }
}

/// What somebody else has put in the place of a bucket is counted, and counts as absent.
#[test]
fn buckets_that_do_not_read_count_as_absent() {
    for bytes in [&[7][..], &[200; 8], &[1; 10], &[9; 17]] {
        let memory = InMemoryRedis::default();
        let first = near::process(&memory, 1);
        let placed = place(&first, vec![near::document(0x00FF_00FF_00FF_00FF, 0)]);
        let root = placed[0].root;
        settle(&first, placed, ItemOutcome::Accepted);
        for (key, _) in memory.of_kind(KeyKind::Bucket) {
            memory.overwrite(key, bytes);
        }
        let second = near::process(&memory, 2);
        let placed = place(&second, vec![near::document(0x00FF_00FF_00FF_00FE, 0)]);
        let own = placed[0].root;
        assert_ne!(own, root, "what led there is gone");
        settle(&second, placed, ItemOutcome::Accepted);
        let stats = block_on(ForestPort::stats(&second)).unwrap().shared.unwrap();
        assert!(stats.unreadable > 0, "{bytes:?}");
        // From then on others find it.
        let third = near::process(&memory, 3);
        let placed = place(&third, vec![near::document(0x00FF_00FF_00FF_00FE ^ 1 << 40, 0)]);
        assert_eq!(placed[0].root, own);
    }
}
