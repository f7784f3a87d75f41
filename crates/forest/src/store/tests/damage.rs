//! Flipped bits: told, or cut off at the end, and never a wrong value.

use super::super::format::{BatchHead, RecordHead};
use super::*;
use crate::store::disk::Disk;

/// A disk after a life with these batches, each written by itself, and a snapshot in the middle if wanted.
fn disk_with(batches: u64, snapshot_after: Option<u64>) -> (Disk, History) {
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    let mut random = SplitMix64(7);
    let mut history = History::default();
    for number in 1..=batches {
        let changes = Changes::random(&mut random);
        process.append(&changes);
        history.0.push(changes);
        process.write();
        if snapshot_after == Some(number) {
            process.begin_snapshot();
            assert!(process.finish_snapshot());
        }
    }
    drop(process);
    (disk, history)
}

#[test]
fn a_record_is_where_its_place_says() {
    let (disk, _) = disk_with(6, Some(4));
    let mut replay = open(&disk, Durability::Batch).unwrap();
    let mut records = [0, 0];
    while let Some(record) = replay.next().unwrap() {
        let (kind, bytes) = match record {
            StoredRecord::Block { bytes, .. } => (0, bytes.to_vec()),
            StoredRecord::Batch { payload, .. } => (1, payload.to_vec()),
        };
        records[kind] += 1;
        let (file, begin) = replay.place();
        assert!(disk.bytes(file)[begin as usize..].starts_with(&bytes), "{}: {begin}", file.display());
    }
    assert!(records[0] > 0 && records[1] == 2, "{records:?}");
}

#[test]
fn a_flipped_bit_is_told_or_cut_off() {
    let (disk, history) = disk_with(9, Some(4));
    let (mut told, mut cut) = (0, 0);
    let last = history.0.len() as u64;
    for path in disk.paths() {
        let bytes = disk.bytes(&path);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let disk = disk.copy();
            disk.put(&path, &flipped);
            let context = format!("{}, bit {bit}", path.display());
            let mut replay = match open(&disk, Durability::Batch) {
                Ok(replay) => replay,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    told += 1;
                    continue;
                }
            };
            match read(&mut replay) {
                Ok(read) => {
                    let torn = replay.torn_end().unwrap_or_else(|| panic!("{context}: unseen"));
                    assert_eq!(torn.file, path, "{context}");
                    let reached = read.batches.last().unwrap().0;
                    // Nothing vouches for the last batch alone.
                    assert_eq!(reached, Lsn(last - 1), "{context}");
                    assert_eq!(read.map, history.after(reached), "{context}");
                    cut += 1;
                }
                Err(error) => {
                    assert!(
                        matches!(
                            error,
                            StoreError::Damaged { .. }
                                | StoreError::ShortJournal { .. }
                                | StoreError::NewerFormat { .. }
                        ),
                        "{context}: {error}"
                    );
                    told += 1;
                }
            }
        }
    }
    assert!(told > 3_000 && cut > 200, "{told} {cut}");
}

/// A file that ends early is as good as one that was not written to its end.
#[test]
fn a_file_that_ends_early_is_told_or_cut_off() {
    let (disk, history) = disk_with(9, Some(4));
    for path in disk.paths() {
        let bytes = disk.bytes(&path);
        for len in 0..bytes.len() {
            let disk = disk.copy();
            disk.put(&path, &bytes[..len]);
            let opened = open(&disk, Durability::Batch);
            let read = opened.and_then(|mut replay| read(&mut replay));
            match read {
                Ok(read) => {
                    let reached = read.batches.last().map_or(Lsn(4), |(lsn, _)| *lsn);
                    assert_eq!(read.map, history.after(reached));
                    assert!(path.to_string_lossy().contains("journal"), "{}", path.display());
                }
                Err(StoreError::EmptyFile { file } | StoreError::BrokenIdentity { file, why: "it is empty" }) => {
                    assert!(len == 0 && file == path);
                }
                Err(_) => assert!(len > 0),
            }
        }
    }
}

/// Batches of one write vouch for nobody of the same write; those of a later one do.
#[test]
fn only_what_was_synced_can_be_damaged() {
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    let changes = Changes(vec![(1, Some(2))]);
    let append = |process: &mut Process, count: usize| {
        for _ in 0..count {
            process.append(&changes);
        }
        process.write();
    };
    append(&mut process, 2);
    append(&mut process, 3);
    drop(process);
    let path = at("journal-0000000000000001");
    let bytes = disk.bytes(&path);
    let batch = changes.encode().len() + BatchHead::LEN;
    for number in 1..=5 {
        let mut damaged = bytes.clone();
        let offset = 44 + (number - 1) * batch;
        damaged[offset + 30] ^= 1;
        let disk = disk.copy();
        disk.put(&path, &damaged);
        let mut replay = open(&disk, Durability::Batch).unwrap();
        match read(&mut replay) {
            Ok(read) => {
                assert!(number > 2, "{number}");
                assert_eq!(read.batches.len(), number - 1);
                let torn = replay.torn_end().unwrap();
                assert_eq!((torn.offset, torn.bytes), (offset as u64, ((6 - number) * batch) as u64));
            }
            Err(StoreError::Damaged { offset: found, .. }) => {
                assert!(number <= 2, "{number}");
                assert_eq!(found, offset as u64);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Blocks that change places are as wrong as blocks that change.
#[test]
fn blocks_stay_in_their_places() {
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    let mut snapshot = process.store.begin_snapshot().unwrap();
    for key in [0, 3] {
        let block = Changes(vec![(key, Some(1))]).encode();
        snapshot.write(0, &block).unwrap();
    }
    let sealed = snapshot.seal();
    process.write();
    snapshot.install(&sealed).unwrap();
    drop(process);
    let path = at("snapshot-0000000000000001");
    let mut bytes = disk.bytes(&path);
    let block = 13 + 6;
    bytes[44..44 + 2 * block].rotate_left(block);
    disk.put(&path, &bytes);
    let mut replay = open(&disk, Durability::Batch).unwrap();
    assert!(matches!(replay.next(), Err(StoreError::Damaged { offset: 44, .. })));
}

/// A document may hold what looks like a batch: without the salt of the file it is none.
#[test]
fn a_batch_in_a_payload_is_none() {
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    let mut forged = Vec::new();
    BatchHead::encode(&mut forged, 0, Lsn(3), Lsn(2), b"");
    process.store.append(vec![0; 6]);
    process.write();
    process.store.append(forged);
    process.write();
    drop(process);
    let path = at("journal-0000000000000001");
    let mut bytes = disk.bytes(&path);
    let len = bytes.len();
    bytes.truncate(len - 1);
    disk.put(&path, &bytes);
    // Not even where its payload is long enough for all of it.
    bytes[44 + 28 + 6] ^= 1;
    disk.put(&path, &bytes);
    let mut replay = open(&disk, Durability::Batch).unwrap();
    assert!(matches!(replay.next(), Ok(Some(StoredRecord::Batch { lsn: Lsn(1), .. }))));
    assert!(matches!(replay.next(), Ok(None)));
    assert!(replay.torn_end().is_some());
}

/// Batches by their numbers, and what was passed over.
type Salvaged = (Vec<(u64, Vec<u8>)>, Replay);

/// All that reads, in its order, however little that is.
fn salvage(disk: &Disk) -> Result<Salvaged, StoreError> {
    let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR))?;
    let mut replay = Store::salvage(&data_dir, &identity())?;
    let mut records = Vec::new();
    while let Some(record) = replay.next()? {
        records.push(match record {
            StoredRecord::Block { section, bytes } => ((u64::from(section) + 1) << 32, bytes.to_vec()),
            StoredRecord::Batch { lsn, payload } => (lsn.0, payload.to_vec()),
        });
    }
    Ok((records, replay))
}

/// Whatever byte is damaged costs its record, or its file if it is in the header, and nothing else.
#[test]
fn one_record_that_does_not_read_costs_no_other() {
    let (disk, _) = disk_with(9, Some(4));
    let (all, replay) = salvage(&disk).unwrap();
    assert_eq!(replay.gaps(), []);
    drop(replay);
    let (mut passed_over, mut files) = (0, 0);
    for path in disk.paths() {
        let bytes = disk.bytes(&path);
        let is_journal = path.to_string_lossy().contains("journal");
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            let disk = disk.copy();
            disk.put(&path, &flipped);
            let context = format!("{}, byte {at}", path.display());
            let Ok((read, replay)) = salvage(&disk) else {
                // Whose files these are is not known, or what reads them.
                assert!(path.ends_with("identity") || at < 44, "{context}");
                continue;
            };
            let lost: Vec<_> = all.iter().filter(|one| !read.contains(one)).collect();
            assert!(read.iter().all(|one| all.contains(one)), "{context}");
            let is_told = !replay.gaps().is_empty() || replay.torn_end().is_some();
            assert!(is_told, "{context}");
            match at < 44 {
                // Only its file.
                true => {
                    let of_file = |lsn: u64| (lsn < 1 << 32) == is_journal;
                    assert!(lost.iter().all(|(lsn, _)| of_file(*lsn)), "{context}");
                    files += 1;
                }
                false => {
                    assert!(lost.len() <= 1, "{context}: {lost:?}");
                    passed_over += lost.len();
                }
            }
            for gap in replay.gaps() {
                assert!(!gap.what.is_empty());
            }
            assert!(matches!(replay.into_store(), Err(StoreError::NotReplayed)));
        }
    }
    assert!(passed_over > 200 && files > 60, "{passed_over} {files}");
}

/// As a file system leaves it that has lost an extent and closed the gap.
#[test]
fn blocks_that_are_not_there_cost_no_other() {
    const BLOCKS: u8 = 5;
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    let mut snapshot = process.store.begin_snapshot().unwrap();
    for number in 0..BLOCKS {
        snapshot.write(0, &[number; 6]).unwrap();
    }
    let sealed = snapshot.seal();
    process.write();
    snapshot.install(&sealed).unwrap();
    drop(process);
    let path = at("snapshot-0000000000000001");
    let bytes = disk.bytes(&path);
    let block = 13 + 6;
    for first in 0..BLOCKS {
        for end in first + 1..=BLOCKS {
            let disk = disk.copy();
            let mut short = bytes.clone();
            short.drain(44 + block * usize::from(first)..44 + block * usize::from(end));
            disk.put(&path, &short);
            let (read, replay) = salvage(&disk).unwrap();
            let read: Vec<u8> = read.iter().map(|(_, bytes)| bytes[0]).collect();
            let left: Vec<u8> = (0..first).chain(end..BLOCKS).collect();
            assert_eq!(read, left, "without {first}..{end}");
            assert!(!replay.gaps().is_empty());
        }
    }
}

/// A batch in the place of which nothing can be written that is read again.
#[test]
fn what_is_refused_is_never_durable_and_all_before_it_is() {
    for durability in [Durability::Batch, Durability::Interval(Duration::from_secs(1)), Durability::None] {
        let disk = Disk::new(0);
        let (mut process, _) = Process::start(&disk, durability).unwrap();
        let changes = Changes(vec![(1, Some(2))]);
        let before = process.append(&changes);
        let refused = process.store.refuse("it is of no kind");
        let after = process.append(&Changes(vec![(1, Some(3))]));
        assert_eq!((refused, after), (before.next(), before.next().next()));
        for lsn in [refused, after] {
            let told = process.is_durable(lsn).unwrap().unwrap_err();
            assert!(told.to_string().contains("it is of no kind"), "{told}");
        }
        assert!(process.store.failure().is_some());
        process.write();
        assert!(matches!(process.is_durable(before), Some(Ok(()))));
        assert!(process.is_durable(refused).unwrap().is_err());
        drop(process);
        let (_, read) = Process::start(&disk, durability).unwrap();
        assert_eq!(read.batches, [(before, changes)]);
    }
}
