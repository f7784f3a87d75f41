//! What stands in the engine: all that documents bring is read again, and what is no such value counts as absent.

use super::*;
use crate::forest::tests::records::{Written, written};
use crate::method::{FounderTokens, Short, Staged};

/// Values that somebody else has put in the place of nodes and of evidence: each counts as absent, and documents go on.
#[test]
fn values_that_do_not_read_count_as_absent() {
    let memory = Memory::default();
    let first = process(&memory, 1);
    let placed = place(&first, vec![at(story(1, 0), 0), at(story(2, 0), 0)]);
    let roots: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
    settle(&first, placed, Outcome::Accepted);
    let keys = memory.nodes();
    let evidence = memory.of_kind(Kind::Evidence);
    assert!(keys.len() > 4 && evidence.len() == 2);
    for bytes in [&[][..], &[7], &[200; 60], &[1; 12]] {
        let memory = memory.copy();
        for (key, ..) in &keys {
            if key.fingerprint != roots[1].0 {
                memory.overwrite(*key, bytes);
            }
        }
        for (key, _) in &evidence {
            memory.overwrite(*key, &bytes[..bytes.len().min(2)]);
        }
        let second = process(&memory, 2);
        let placed = place(&second, vec![at(story(1, 0), 0), at(story(2, 0), 0)]);
        let again: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
        settle(&second, placed, Outcome::Accepted);
        assert_eq!(again[0], roots[0], "it founds the same tree");
        let stats = block_on(Port::stats(&second)).unwrap().shared.unwrap();
        assert!(stats.unreadable > 0 || bytes.len() == 12, "{bytes:?}");
        // From then on others find it.
        let third = process(&memory, 3);
        let placed = place(&third, vec![at(story(1, 1), 0), at(story(2, 1), 0)]);
        let joined: Vec<Root> = placed.iter().map(|placed| placed.root).collect();
        assert_eq!(joined, again);
    }
}

/// Places all of them, one request each, and holds that every value is read as what was written.
fn law<F: Family>(
    method: &str,
    thresholds: <F::Proof as Proof>::Thresholds,
    documents: &[Written],
    is_dated: bool,
) where
    F::Learned: Default,
{
    let memory = Memory::default();
    let start = || {
        let settings = SharedSettings {
            window: Some(Millis(WINDOW)),
            max_tree: None,
            evidence_bytes: 1 << 30,
        };
        Shared::<F>::new(
            ("test", "k=0"),
            settings,
            thresholds,
            F::Learned::default(),
            Arc::new(Threads),
            Arc::new(memory.clone()),
            1 << 32,
        )
    };
    let forest = start();
    let forest = if is_dated { forest.dated() } else { forest };
    let method: Method = method.parse().unwrap();
    let mut workspace = Workspace::default();
    for document in documents {
        let document = document.document(&method, &mut workspace);
        if document.features.is_none() {
            continue;
        }
        let batch = Batch {
            documents: vec![document],
            ..Batch::default()
        };
        let replies = block_on(forest.place(batch)).unwrap().replies;
        let placed = replies.into_iter().filter_map(|reply| reply.placed);
        settle(&forest, placed.collect(), Outcome::Accepted);
    }
    for (key, bytes, _) in memory.nodes() {
        let again = match Node::<F::Proof>::read(&bytes) {
            Some(Node::Leaf(leaf)) => leaf.bytes(),
            Some(Node::Root(root)) => root.bytes(),
            None => panic!("{method}: {key:?} {bytes:?}"),
        };
        assert_eq!(again, bytes, "{method}: {key:?}");
    }
    for (key, bytes) in memory.of_kind(Kind::Evidence) {
        let (token, words) = read_evidence(&bytes).unwrap();
        assert_eq!(write_evidence(token, &words), bytes, "{method}: {key:?}");
        assert!(words.len() <= FounderTokens::MOST && !words.is_empty());
    }
    let reader = start();
    let [heard, taught] = [&reader, &forest].map(|forest| {
        block_on(forest.inner.hear()).unwrap();
        F::portions(&forest.inner.learned.lock())
    });
    assert_eq!(heard, taught, "{method}: what founders have taught");
    let stats = block_on(Port::stats(&forest)).unwrap().shared.unwrap();
    assert_eq!(stats.unreadable, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_documents_bring_is_read_from_the_engine(
        documents in prop::collection::vec(written(), 1..6),
        is_dated: bool,
    ) {
        law::<Verified>("verified", Similarity::default(), &documents, is_dated);
        law::<Staged>("staged", (), &documents, is_dated);
        law::<Strict>("longest", (), &documents, is_dated);
        law::<Short>("short", (), &documents, is_dated);
    }
}
