//! The laws under eight threads.

use crate::assert_laws;
use crate::documents::{Document, splitmix, strict, verified};
use spinney::fingerprint::Distance;
use spinney::forest::{Decision, Forest, Millis, Proof, Root, Settings, SharedForest};
use std::thread;

/// Each thread places bulks of documents that the others place too, withdraws some of its placements later, and
/// answers the rest: the number of the document and its root.
fn work<P: Proof>(
    forest: &SharedForest<P>,
    document: fn(u64) -> Document<P>,
    thread: u64,
) -> Vec<(u64, Root)> {
    let mut kept = Vec::new();
    let mut failed = Vec::new();
    for bulk in 0..250_u64 {
        let seed = splitmix(thread * 1_000_000 + bulk);
        let numbers: Vec<u64> = (0..12).map(|i| splitmix(seed ^ i) % 2_000).collect();
        let documents: Vec<_> = numbers.iter().map(|&number| document(number)).collect();
        let now = |i: usize| Millis((bulk * 20 + seed % 100) as i64 - i as i64);
        let bulk_of = documents.iter().enumerate();
        let placements = forest.place_all(bulk_of.map(|(i, document)| (document.sketch(), now(i))));
        for (number, placement) in numbers.into_iter().zip(placements) {
            assert_ne!(placement.decision, Decision::Outside);
            if splitmix(seed ^ number).is_multiple_of(3) {
                failed.push(placement.ticket);
            } else {
                kept.push((number, placement.root));
            }
        }
        if failed.len() > 60 {
            forest.withdraw_all(failed.drain(..40));
        }
        if bulk % 10 == 0 {
            forest.expire(now(0), 50);
        }
    }
    forest.withdraw_all(failed);
    kept
}

fn eight_threads<P: Proof + Send>(document: fn(u64) -> Document<P>, window: Option<Millis>) {
    let settings = Settings {
        k: Distance(3),
        window,
    };
    let forest = SharedForest::new(Forest::new(settings).unwrap());
    let kept: Vec<(u64, Root)> = thread::scope(|scope| {
        let threads = [0, 1, 2, 3, 4, 5, 6, 7].map(|thread| {
            let forest = &forest;
            scope.spawn(move || work(forest, document, thread))
        });
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    forest.read(|forest| assert_laws(forest, settings));
    let stats = forest.read(|forest| forest.stats());
    assert!(stats.withdrawn_total > 0);
    if window.is_some() {
        assert!(stats.expired_total > 0);
        return;
    }
    // Nothing expires: whoever placed a document, and whenever it comes again, it has one root.
    for (number, root) in kept {
        let document = document(number);
        let again = forest.place_all([(document.sketch(), Millis(0))]).remove(0);
        assert_eq!((again.root, again.decision), (root, Decision::Refreshed));
    }
    let after = forest.read(|forest| forest.stats());
    assert_eq!((after.nodes, after.roots), (stats.nodes, stats.roots));
}

#[test]
fn strict_law_under_eight_threads() {
    eight_threads(strict, None);
    eight_threads(strict, Some(Millis(300)));
}

#[test]
fn verified_law_under_eight_threads() {
    eight_threads(verified, None);
    eight_threads(verified, Some(Millis(300)));
}
