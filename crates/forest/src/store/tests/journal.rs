//! The queue, the writer and snapshots, a step at a time.

use std::io::ErrorKind;

use super::*;
use crate::store::disk::{Disk, Fault};
use crate::store::queue::{ROOM, SNAPSHOT_AFTER, Snapshots};
use crate::store::{SnapshotError, Status};

fn start(disk: &Disk, durability: Durability) -> Process {
    Process::start(disk, durability).unwrap().0
}

/// The operations of some work.
fn operations(disk: &Disk, work: impl FnOnce()) -> u64 {
    let before = disk.operations();
    work();
    disk.operations() - before
}

#[test]
fn batches_that_wait_share_a_write_and_a_sync() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    let lsns: Vec<Lsn> = (0..100).map(|_| process.store.append(vec![1; 6])).collect();
    assert_eq!(lsns[99], Lsn(100));
    assert!(process.is_durable(Lsn(1)).is_none());
    let waiting = process.store.durable(Lsn(100));
    assert_eq!(operations(&disk, || process.write()), 2);
    assert!(matches!(poll(waiting), Some(Ok(()))));
    assert!(matches!(process.is_durable(Lsn(1)), Some(Ok(()))));
    assert!(process.is_durable(Lsn(101)).is_none());
}

#[test]
fn an_interval_writes_at_once_and_syncs_when_it_is_over() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Interval(Duration::from_secs(60)));
    let now = process.now;
    process.store.append(vec![1; 6]);
    assert_eq!(operations(&disk, || assert!(process.writer.step_at(now))), 1);
    assert!(matches!(process.is_durable(Lsn(1)), Some(Ok(()))));
    let later = now + Duration::from_secs(59);
    assert!(!process.writer.step_at(later));
    process.store.append(vec![1; 6]);
    assert_eq!(operations(&disk, || assert!(process.writer.step_at(later))), 1);
    // From the first byte that is not synced, not from the last.
    let due = now + Duration::from_secs(60);
    assert_eq!(operations(&disk, || assert!(process.writer.step_at(due))), 1);
    assert!(!process.writer.step_at(due + Duration::from_secs(600)));
}

#[test]
fn none_gathers() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::None);
    let now = process.now;
    process.store.append(vec![1; 6]);
    assert!(matches!(process.is_durable(Lsn(1)), Some(Ok(()))));
    assert!(!process.writer.step_at(now));
    assert!(process.writer.step_at(now + Duration::from_secs(1)));
    process.store.append(vec![1; 300 << 10]);
    assert!(process.writer.step_at(now + Duration::from_secs(1)));
}

/// There is room until 64 MiB wait; what is with the writer still counts.
#[test]
fn there_is_room_when_it_is_written() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    while process.store.has_room() {
        process.store.append(vec![0; 1 << 20]);
    }
    let queued = process.store.status().queued as usize;
    assert!((ROOM..ROOM + (2 << 20)).contains(&queued));
    process.write();
    assert!(process.store.has_room());
    assert_eq!(process.store.status().queued, 0);
    // Nobody waits for a store that has failed.
    disk.set(Fault::FailsAt(1, ErrorKind::StorageFull));
    while process.store.has_room() {
        process.store.append(vec![0; 1 << 20]);
    }
    process.write();
    assert!(matches!(process.store.wait_for_room(), Err(StoreFailure::Io { .. })));
    let failure = process.store.failure().unwrap().to_string();
    assert!(failure.contains("write /data/news/journal-0000000000000001"), "{failure}");
}

#[test]
fn a_snapshot_takes_the_place_of_the_journal() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    for number in 0..5 {
        process.append(&Changes(vec![(number, Some(1))]));
    }
    process.write();
    process.begin_snapshot();
    process.write_portion();
    // Of a portion that is written, and of one that is not.
    process.append(&Changes(vec![(0, Some(2)), (1, Some(2)), (3, None)]));
    process.write();
    assert!(process.finish_snapshot());
    let status = process.store.status();
    assert!(status.snapshot > 0 && status.journal < 100, "{status:?}");
    let map = process.map.clone();
    drop(process);
    let names = ["identity", "journal-0000000000000006", "snapshot-0000000000000006"];
    assert_eq!(disk.paths(), names.map(at));
    let (_, read) = Process::start(&disk, Durability::Batch).unwrap();
    assert_eq!(read.map, map);
    assert_eq!(read.batches.len(), 1);
}

/// Two snapshots with nothing between them have the same name.
#[test]
fn a_snapshot_may_follow_one_at_once() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    for _ in 0..3 {
        process.begin_snapshot();
        assert!(matches!(process.store.begin_snapshot(), Err(SnapshotError::Running)));
        assert!(process.finish_snapshot());
    }
    process.append(&Changes(vec![(1, Some(1))]));
    process.write();
    let map = process.map.clone();
    drop(process);
    assert_eq!(Process::start(&disk, Durability::Batch).unwrap().1.map, map);
}

/// A snapshot must not know of a batch that a power loss takes from the journal.
#[test]
fn a_snapshot_waits_for_the_journal() {
    for durability in [Durability::Interval(Duration::from_secs(900)), Durability::None] {
        let disk = Disk::new(0);
        let mut process = start(&disk, durability);
        process.begin_snapshot();
        let changes = Changes(vec![(0, Some(1)), (1, Some(1))]);
        process.append(&changes);
        process.write_portion();
        assert!(process.finish_snapshot());
        drop(process);
        disk.lose_power();
        let (_, read) = Process::start(&disk, durability).unwrap();
        assert_eq!(read.batches, vec![(Lsn(1), changes)]);
    }
}

/// A disk that has room for the journal and not for the snapshot: the journal goes on.
#[test]
fn a_snapshot_that_fails_leaves_the_journal_alone() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    process.append(&Changes(vec![(0, Some(1))]));
    process.write();
    let before = disk.paths();
    // The file of the snapshot, then the one of the segment: neither can be made, or can be written.
    let mut failed = 0;
    for at in 1..20 {
        disk.set(Fault::FailsAt(at, ErrorKind::StorageFull));
        process.begin_snapshot();
        let began = process.snapshot.is_some();
        process.write_portion();
        let installed = process.finish_snapshot();
        disk.set(Fault::None);
        if process.store.failure().is_some() {
            // The new segment has its name, or the old one was not synced: nobody knows what is on the disk.
            drop(process);
            disk.kill();
            process = start(&disk, Durability::Batch);
            continue;
        }
        failed += usize::from(!installed);
        assert!(installed || !began || !disk.paths().iter().any(|path| path.ends_with(".tmp")));
        let lsn = process.append(&Changes(vec![(at as u8 % KEYS, Some(at as u32))]));
        process.write();
        assert!(matches!(process.is_durable(lsn), Some(Ok(()))));
    }
    assert!(failed > 3, "{failed}");
    assert_ne!(disk.paths(), before);
    let map = process.map.clone();
    drop(process);
    assert_eq!(Process::start(&disk, Durability::Batch).unwrap().1.map, map);
}

#[test]
fn a_snapshot_is_worth_while_when_the_journal_has_grown() {
    let after = SNAPSHOT_AFTER;
    let mut snapshots = Snapshots::default();
    assert!(!snapshots.is_due(after));
    assert!(snapshots.is_due(after + 1));
    snapshots.running = true;
    assert!(!snapshots.is_due(after + 1), "one is being written");
    snapshots = Snapshots { begins: after, len: 10 * after, ..Snapshots::default() };
    assert!(!snapshots.is_due(6 * after), "not more than half of it");
    assert!(snapshots.is_due(6 * after + 1));
}

/// The queue counts what is written, in this life and in those before.
#[test]
fn the_journal_is_as_long_as_it_was_before_a_restart() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    let lengths = |process: &Process| {
        let Status { journal, snapshot, .. } = process.store.status();
        (journal, snapshot)
    };
    process.append(&Changes(vec![(0, Some(1))]));
    process.begin_snapshot();
    assert!(process.finish_snapshot());
    assert_eq!(lengths(&process).0, 0);
    process.append(&Changes(vec![(0, Some(2))]));
    process.write();
    let before = lengths(&process);
    assert!(before.0 > 0 && before.1 > 0);
    drop(process);
    let process = start(&disk, Durability::Batch);
    let header = crate::store::format::Header::LEN as u64;
    assert_eq!(lengths(&process), (before.0 + header, before.1));
}

/// A disk that is full stays full for a while.
#[test]
fn a_snapshot_that_failed_is_not_tried_again_at_once() {
    let disk = Disk::new(0);
    let mut process = start(&disk, Durability::Batch);
    process.append(&Changes(vec![(0, Some(1))]));
    process.begin_snapshot();
    process.snapshot = None;
    let queue = process.store.shared.queue();
    assert_eq!(queue.snapshot.not_before, queue.journal + SNAPSHOT_AFTER);
    assert!(!queue.snapshot.running);
}

#[test]
fn blocks_have_limits() {
    let disk = Disk::new(0);
    let process = start(&disk, Durability::Batch);
    let mut snapshot = process.store.begin_snapshot().unwrap();
    for section in [16, 255] {
        assert!(matches!(snapshot.write(section, b""), Err(SnapshotError::Block { .. })), "{section}");
    }
    snapshot.write(15, b"").unwrap();
    // Refused before they are read, so they take no memory.
    let too_long = vec![0; (1 << 30) + 1];
    assert!(matches!(snapshot.write(1, &too_long), Err(SnapshotError::Block { section: 1, .. })));
}

/// Who waits when the store goes is told.
#[test]
fn a_store_that_is_closed_says_so() {
    let disk = Disk::new(0);
    let mut replay = open(&disk, Durability::Batch).unwrap();
    assert!(replay.next().unwrap().is_none());
    let store = replay.into_store().unwrap();
    let snapshot = store.begin_snapshot().unwrap();
    let appended = store.append(vec![0; 6]);
    let (written, never) = (store.durable(appended), store.durable(Lsn(7)));
    store.close().unwrap();
    assert!(matches!(poll(written), Some(Ok(()))));
    assert!(matches!(poll(never), Some(Err(StoreFailure::Closed))));
    assert!(matches!(snapshot.finish(), Err(SnapshotError::Failed(StoreFailure::Closed))));
}
