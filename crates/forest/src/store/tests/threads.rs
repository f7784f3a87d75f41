//! The thread that writes, and the system's own files.

use std::sync::Arc;

use futures_executor::block_on;
use parking_lot::Mutex;

use super::*;
use crate::store::SnapshotError;

/// A directory of the system's, which is removed in the end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("spinney-store-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Four threads change and append under one lock and wait for the disk, while a fifth writes snapshots portion by
/// portion.
#[test]
fn threads_append_while_snapshots_are_written() {
    for (number, durability) in [
        Durability::Batch,
        Durability::Interval(Duration::ZERO),
        Durability::Interval(Duration::from_secs(3600)),
        Durability::None,
    ]
    .into_iter()
    .enumerate()
    {
        let scratch = Scratch::new(&format!("threads-{number}"));
        let mut expected = Map::new();
        // Twice, so that what one has left is what the other begins with.
        for round in 0..2 {
            let data_dir = DataDir::lock(&scratch.0).unwrap();
            let mut replay = Store::open(&data_dir, &identity(), durability).unwrap();
            assert_eq!(read(&mut replay).unwrap().map, expected);
            let store = replay.into_store().unwrap();
            let state = Mutex::new(expected.clone());
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (store, state) = (&store, &state);
                    scope.spawn(move || {
                        let mut random = SplitMix64(round * 10 + thread);
                        for _ in 0..100 {
                            let changes = Changes::random(&mut random);
                            store.wait_for_room().unwrap();
                            let mut map = state.lock();
                            changes.apply(&mut map);
                            let lsn = store.append(changes.encode());
                            drop(map);
                            block_on(store.durable(lsn)).unwrap();
                        }
                    });
                }
                scope.spawn(|| {
                    for _ in 0..10 {
                        let mut writer = store.begin_snapshot().unwrap();
                        for portion in 0..3 {
                            let map = state.lock();
                            let keys = map.iter().filter(|(key, _)| **key % 3 == portion);
                            let keys = keys.map(|(&key, &value)| (key, Some(value)));
                            let bytes = Changes(keys.collect()).encode();
                            drop(map);
                            writer.write(portion, &bytes).unwrap();
                        }
                        writer.finish().unwrap();
                    }
                });
            });
            expected = state.into_inner();
            store.close().unwrap();
        }
        let data_dir = DataDir::lock(&scratch.0).unwrap();
        let mut replay = Store::open(&data_dir, &identity(), durability).unwrap();
        let read = read(&mut replay).unwrap();
        assert_eq!(read.map, expected);
        assert!(replay.torn_end().is_none());
    }
}

/// Two handles of one process are told apart as two processes are.
#[test]
fn the_systems_lock_holds() {
    let scratch = Scratch::new("lock");
    let data_dir = DataDir::lock(&scratch.0).unwrap();
    let again = DataDir::lock(&scratch.0);
    assert!(matches!(again, Err(StoreError::Locked { .. })));
    drop(data_dir);
    DataDir::lock(&scratch.0).unwrap();
}

/// A disk that fails while everybody waits: all of them are told.
#[test]
fn all_who_wait_are_told_of_a_failure() {
    let disk = Disk::new(0);
    let mut replay = open(&disk, Durability::Batch).unwrap();
    read(&mut replay).unwrap();
    let store = Arc::new(replay.into_store().unwrap());
    let first = store.append(vec![0; 6]);
    block_on(store.durable(first)).unwrap();
    let mut snapshot = store.begin_snapshot().unwrap();
    // The new segment is there.
    let lsn = store.append(vec![0; 6]);
    block_on(store.durable(lsn)).unwrap();
    disk.set(crate::store::disk::Fault::FailsAt(1, std::io::ErrorKind::Other));
    let waiting: Vec<_> = (0..10).map(|_| store.append(vec![0; 6])).collect();
    let told: Vec<_> = waiting.iter().map(|&lsn| block_on(store.durable(lsn))).collect();
    // What was written before the fault may have gone with one that came later; the last has not.
    assert!(told.last().unwrap().is_err());
    assert!(matches!(block_on(store.durable(Lsn(99))), Err(StoreFailure::Io { .. })));
    assert!(matches!(store.wait_for_room(), Err(StoreFailure::Io { .. })));
    assert!(matches!(snapshot.write(0, b""), Err(SnapshotError::Failed(_))));
    assert!(matches!(store.begin_snapshot(), Err(SnapshotError::Failed(_))));
    let store = Arc::into_inner(store).unwrap();
    assert!(matches!(store.close(), Err(StoreFailure::Io { .. })));
}
