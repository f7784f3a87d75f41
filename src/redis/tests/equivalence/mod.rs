//! The in-memory Redis is a model of Redis: the same random sequences of commands, on one server and on three masters
//! between which slots move, get the same replies, and leave the same keys with the same expiry.
//!
//! Time is the servers' own, and the in-memory Redis follows their clock. Nothing of a sequence ends by itself but what
//! is over when it is put; a step at which time passes ends what is kept for a short time.
//!
//! `SPINNEY_TEST_SEQUENCES=5000 cargo test --lib redis::tests::equivalence` runs so many sequences on each, others each
//! time; `PROPTEST_RNG_SEED` chooses them.

mod both;
mod kept;
mod planted;
mod scene;
mod sequences;

use std::cell::RefCell;

use both::{Counts, Failure, compare};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use scene::Scene;
use sequences::{Sequence, sequences};

/// How often a sequence is run where Redis does not answer in time.
const TRIES: usize = 20;

fn difference(scene: &Scene, sequence: &Sequence, counts: &mut Counts) -> Result<(), String> {
    for _ in 0..TRIES {
        match compare(scene, sequence, counts) {
            Ok(()) => return Ok(()),
            Err(Failure::Different(what)) => return Err(what),
            Err(Failure::TooSlow) => {}
        }
    }
    Err(format!("no answer in time, {TRIES} times"))
}

fn check(masters: usize, cases: u32) -> Counts {
    let scene = Scene::new(masters);
    let counts = RefCell::<Counts>::default();
    let kept = kept::sequences(scene.is_cluster).into_iter().filter_map(|(what, sequence)| {
        let difference = difference(&scene, &sequence, &mut counts.borrow_mut()).err()?;
        Some(format!("{what}: {difference:.2000}"))
    });
    let differences: Vec<String> = kept.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let given = std::env::var("SPINNEY_TEST_SEQUENCES").ok();
    let cases = given.map_or(cases, |given| given.parse().expect("SPINNEY_TEST_SEQUENCES is a number"));
    let config = Config { cases, max_shrink_time: 30_000, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new(config).run(&sequences(scene.is_cluster), |sequence| {
        difference(&scene, &sequence, &mut counts.borrow_mut()).map_err(TestCaseError::fail)
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
