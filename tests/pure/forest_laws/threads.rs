//! The placement ruless under eight threads.

use super::assert_laws;
use super::documents::{Document, splitmix, strict, verified};
use parking_lot::Mutex;
use spinney::fingerprint::Distance;
use spinney::forest::{Decision, Forest, Placement, Rollback, Root, Settings};
use spinney::hash::HashKey;
use spinney::method::Proof;
use spinney::time::Millis;
use std::thread;

/// Each thread places bulks of documents that the others place too, withdraws some of its placements later, and
/// answers the rest: the number of the document and its root.
fn work<P: Proof>(forest: &Mutex<Forest<P>>, document: fn(u64) -> Document<P>, thread: u64) -> Vec<(u64, Root)> {
    let mut kept = Vec::new();
    let mut failed = Vec::new();
    for bulk in 0..250_u64 {
        let seed = splitmix(thread * 1_000_000 + bulk);
        let numbers: Vec<u64> = (0..12).map(|i| splitmix(seed ^ i) % 2_000).collect();
        let documents: Vec<_> = numbers.iter().map(|&number| document(number)).collect();
        let now = |i: usize| Millis((bulk * 20 + seed % 100) as i64 - i as i64);
        let bulk_of = documents.iter().enumerate();
        // One lock for a whole bulk: nothing of another one comes in between.
        let mut locked = forest.lock();
        let placements: Vec<Placement> = bulk_of.map(|(i, document)| locked.place(&document.query(), now(i))).collect();
        drop(locked);
        for (number, placement) in numbers.into_iter().zip(placements) {
            assert_ne!(placement.decision, Decision::Outside);
            if splitmix(seed ^ number).is_multiple_of(3) {
                failed.push(placement.rollback);
            } else {
                kept.push((number, placement.root));
            }
        }
        if failed.len() > 60 {
            withdraw(forest, failed.drain(..40));
        }
        if bulk % 10 == 0 {
            forest.lock().expire(now(0), 50);
        }
    }
    withdraw(forest, failed);
    kept
}

fn withdraw<P: Proof>(forest: &Mutex<Forest<P>>, failed: impl IntoIterator<Item = Rollback>) {
    let mut locked = forest.lock();
    for rollback in failed {
        locked.withdraw(&rollback);
    }
}

fn eight_threads<P: Proof + Send>(document: fn(u64) -> Document<P>, window: Option<Millis>) {
    let settings = Settings { k: Distance(3), window, key: HashKey::FIXED };
    let forest = Mutex::new(Forest::new(settings).unwrap());
    let kept: Vec<(u64, Root)> = thread::scope(|scope| {
        let threads = [0, 1, 2, 3, 4, 5, 6, 7].map(|thread| {
            let forest = &forest;
            scope.spawn(move || work(forest, document, thread))
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut forest = forest.into_inner();
    assert_laws(&forest, settings);
    let stats = forest.stats();
    assert!(stats.withdrawn_total > 0);
    if window.is_some() {
        assert!(stats.expired_total > 0);
        return;
    }
    // Nothing expires: whoever placed a document, and whenever it comes again, it has one root.
    for (number, root) in kept {
        let document = document(number);
        let again = forest.place(&document.query(), Millis(0));
        assert_eq!((again.root, again.decision), (root, Decision::Refreshed));
    }
    let after = forest.stats();
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
