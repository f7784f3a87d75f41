//! The in-memory store is a model of Redis: the same random sequences of commands, on one server and on three masters
//! between which slots move, get the same replies, and leave the same keys with the same expiry.
//!
//! Time is the servers' own. The in-memory store follows their clock. What is kept for a short time is kept for long
//! enough that nothing of it ends between two steps at which time passes; where the machine was too slow for that, a
//! sequence is run again with more time.
//!
//! `SPINNEY_TEST_SEQUENCES=5000 cargo test --lib redis::tests::equivalence` runs so many sequences on each, others each
//! time; `PROPTEST_RNG_SEED` chooses them.

mod both;
mod kept;
mod scene;
mod sequences;

use std::cell::{Cell, RefCell};

use both::{Counts, Failure, compare};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use scene::Scene;
use sequences::{Sequence, sequences};

/// What is a short time at first, and at most: in milliseconds.
const SHORT: i64 = 64;
const MOST: i64 = 60_000;

/// Runs a sequence with as much time as it needs.
fn compare_in_time(
    scene: &Scene,
    sequence: &Sequence,
    short: &Cell<i64>,
    counts: &RefCell<Counts>,
) -> Result<(), String> {
    loop {
        match compare(scene, sequence, short.get(), &mut counts.borrow_mut()) {
            Ok(()) => return Ok(()),
            Err(Failure::Different(what)) => return Err(what),
            Err(Failure::TooSlow) if short.get() < MOST => short.set(2 * short.get()),
            Err(Failure::TooSlow) => return Err(format!("more than {MOST} ms are needed")),
        }
    }
}

fn check(masters: usize, cases: u32) -> Counts {
    let scene = Scene::new(masters);
    let (counts, short) = (RefCell::default(), Cell::new(SHORT));
    let kept = kept::sequences(scene.is_cluster).into_iter().filter_map(|(what, sequence)| {
        let difference = compare_in_time(&scene, &sequence, &short, &counts).err()?;
        Some(format!("{what}: {difference:.2000}"))
    });
    let differences: Vec<String> = kept.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let given = std::env::var("SPINNEY_TEST_SEQUENCES").ok();
    let cases = given.map_or(cases, |given| given.parse().expect("SPINNEY_TEST_SEQUENCES is a number"));
    let config = Config { cases, max_shrink_time: 60_000, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new(config).run(&sequences(scene.is_cluster), |sequence| {
        compare_in_time(&scene, &sequence, &short, &counts).map_err(TestCaseError::fail)
    });
    let counts = counts.into_inner();
    println!("{} sequences, {} commands: {:?}", counts.sequences, counts.commands, counts.replies);
    match found {
        Err(TestError::Fail(what, sequence)) => panic!("{what}\nafter {} runs, {sequence:?}", counts.sequences),
        found => found.unwrap(),
    }
    counts
}

#[test]
fn one_server() {
    check(1, 200);
}

#[test]
fn three_masters() {
    check(3, 100);
}
