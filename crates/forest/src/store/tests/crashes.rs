//! Crashes at every operation there is, in every durability.

use std::io::ErrorKind;
use std::time::Duration;

use super::*;
use crate::store::disk::{Disk, Fault};

const MODES: [Durability; 3] = [Durability::Batch, Durability::Interval(Duration::from_secs(7)), Durability::None];

/// How a run ended.
#[derive(Debug)]
struct Run {
    /// The last batch that was told to be durable.
    told: Lsn,
    snapshots: usize,
    failed: bool,
    opened: bool,
}

/// Starts a process, checks what it reads, and lets it live until its script or the disk ends.
fn live(
    disk: &Disk,
    durability: Durability,
    script: &[Step],
    (history, at_least): (&mut History, Lsn),
    context: &str,
) -> Run {
    let mut run = Run { told: Lsn(0), snapshots: 0, failed: false, opened: false };
    let started = Process::start(disk, durability);
    let (mut process, read) = match started {
        Ok(started) => started,
        Err(StoreError::Io { .. }) => return run,
        Err(error) => panic!("{context}: {error}"),
    };
    run.opened = true;
    history.check(&read, at_least, context);
    run.told = read.last;
    for step in script {
        if let Step::Append(changes) = step {
            history.0.push(changes.clone());
        }
        let had = process.snapshot.is_some();
        process.take(step);
        run.snapshots += usize::from(matches!(step, Step::Finish) && had && !disk.has_ended());
        let last = process.store.status().appended;
        while run.told < last && matches!(process.is_durable(run.told.next()), Some(Ok(()))) {
            run.told = run.told.next();
        }
        if disk.has_ended() {
            break;
        }
        if let Some(failure) = process.store.failure() {
            assert!(matches!(failure, StoreFailure::Io { .. }), "{context}: {failure}");
            assert!(matches!(process.is_durable(last.next()), Some(Err(_))));
            run.failed = true;
            break;
        }
    }
    run
}

/// What must be there after a crash.
fn at_least(durability: Durability, power_lost: bool, told: Lsn) -> Lsn {
    match (durability, power_lost) {
        (Durability::Batch, _) | (Durability::Interval(_), false) => told,
        _ => Lsn(0),
    }
}

/// Scripts of a first and a second life, and the disk after the whole of the first.
fn lives(seed: u64, durability: Durability) -> (Vec<Step>, Vec<Step>, Disk) {
    let first = script(seed, 40);
    let second = script(seed ^ 0xabcd, 15);
    let whole = Disk::new(seed);
    live(&whole, durability, &first, (&mut History::default(), Lsn(0)), "whole");
    (first, second, whole)
}

/// A script, and the same with a crash at each operation; then another life with a crash somewhere, and a third.
fn crash_everywhere(seed: u64, durability: Durability, power: bool) -> (usize, usize) {
    let (first, second, whole) = lives(seed, durability);
    let (mut snapshots, mut lost) = (0, 0);
    for end in 1..=whole.operations() {
        let context = format!("seed {seed}, {durability:?}, power {power}, operation {end}");
        let disk = Disk::new(seed.wrapping_mul(31) + end);
        let crash = || {
            if power {
                disk.lose_power();
            } else {
                disk.kill();
            }
        };
        let mut history = History::default();
        disk.set(Fault::EndsAt(end));
        let run = live(&disk, durability, &first, (&mut history, Lsn(0)), &context);
        assert!(disk.has_ended(), "{context}");
        snapshots += run.snapshots;
        crash();
        // The next one crashes while it opens, or soon after.
        let appended = history.0.len();
        let needed = at_least(durability, power, run.told);
        disk.set(Fault::EndsAt(1 + end % 11));
        let again = live(&disk, durability, &second, (&mut history, needed), &context);
        lost += usize::from(again.opened && again.told.0 < appended as u64);
        let needed = if again.opened { at_least(durability, power, again.told) } else { needed };
        // Whatever the crashes before were, now the power is lost.
        disk.lose_power();
        let needed = match durability {
            Durability::Batch => needed,
            Durability::Interval(_) | Durability::None => Lsn(0),
        };
        disk.set(Fault::None);
        let run = live(&disk, durability, &second, (&mut history, needed), &context);
        assert!(run.opened && !run.failed, "{context}");
    }
    (snapshots, lost)
}

/// The one property: a prefix with everything durable in it, and the state that belongs to it.
#[test]
fn a_crash_at_any_operation_leaves_a_prefix_with_all_that_was_durable() {
    for durability in MODES {
        let (mut snapshots, mut lost) = (0, 0);
        for seed in 0..40 {
            let (more_snapshots, more_lost) = crash_everywhere(seed, durability, seed % 2 == 0);
            snapshots += more_snapshots;
            lost += more_lost;
        }
        // Else it would show nothing.
        assert!(snapshots > 100, "{durability:?}: {snapshots}");
        assert!(lost > 100, "{durability:?}: {lost}");
    }
}

/// A disk that says no once, or from then on that it is full: the store says so, stays as it is, and can be opened
/// again.
#[test]
fn an_error_at_any_operation_is_told_and_heals() {
    let (mut failed, mut went_on) = (0, 0);
    for seed in 0..25 {
        for durability in MODES {
            let (first, second, whole) = lives(seed, durability);
            for at in 1..=whole.operations() {
                for fault in [
                    Fault::FailsAt(at, ErrorKind::Other),
                    Fault::FailsAt(at, ErrorKind::StorageFull),
                    Fault::FullFrom(at),
                ] {
                    let context = format!("seed {seed}, {durability:?}, {fault:?}");
                    let disk = Disk::new(seed + at);
                    disk.set(fault);
                    let mut history = History::default();
                    let run = live(&disk, durability, &first, (&mut history, Lsn(0)), &context);
                    failed += usize::from(run.failed);
                    went_on += usize::from(run.opened && !run.failed);
                    // The system may have lost what a failed sync was to write, without saying so again.
                    disk.kill();
                    let needed = at_least(durability, run.failed, run.told);
                    let run = live(&disk, durability, &second, (&mut history, needed), &context);
                    assert!(run.opened && !run.failed, "{context}");
                    disk.lose_power();
                    let needed = at_least(durability, true, run.told);
                    let run = live(&disk, durability, &[], (&mut history, needed), &context);
                    assert!(run.opened, "{context}");
                }
            }
        }
    }
    assert!(failed > 1_000 && went_on > 1_000, "{failed} {went_on}");
}
