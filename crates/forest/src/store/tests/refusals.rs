//! Why a directory is not opened, each in words of its own.

use std::io::ErrorKind;

use spinney_text::fingerprint::FingerprintVersion;
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::store::disk::{Disk, Fault};
use crate::store::format::{FORMAT, FileKind, Header};
use crate::text_fields::FieldRecord;

/// Segments from 1, 3 and 5, with two batches each, and no snapshot.
fn segments() -> Disk {
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    for _ in 0..3 {
        for _ in 0..2 {
            process.append(&Changes(vec![(1, Some(1))]));
        }
        process.write();
        process.begin_snapshot();
        process.write();
        process.snapshot = None;
    }
    drop(process);
    let names = ["1", "3", "5", "7"].map(|lsn| at(&format!("journal-000000000000000{lsn}")));
    assert_eq!(disk.paths()[1..], names);
    disk
}

fn refusal(disk: &Disk) -> StoreError {
    let before: Vec<_> = disk.paths().iter().map(|path| disk.bytes(path)).collect();
    let opened = open(disk, Durability::Batch);
    let error = opened.and_then(|mut replay| read(&mut replay)).unwrap_err();
    let after: Vec<_> = disk.paths().iter().map(|path| disk.bytes(path)).collect();
    assert_eq!(before, after, "nothing is changed where something is wrong");
    error
}

fn journal(lsn: u64) -> std::path::PathBuf {
    at(&format!("journal-{}", Lsn(lsn)))
}

#[test]
fn a_directory_has_one_process_and_a_forest_one_store() {
    let disk = Disk::new(0);
    let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR)).unwrap();
    let error = DataDir::lock_in(disk.files(), Path::new(DIR)).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }));
    assert!(error.to_string().contains("/data is in use"), "{error}");
    let replay = Store::open(&data_dir, &identity(), Durability::Batch).unwrap();
    let again = Store::open(&data_dir, &identity(), Durability::Batch);
    assert!(matches!(again, Err(StoreError::OpenTwice { forest }) if forest == "news"));
    let other = ForestIdentity::new("other");
    Store::open(&data_dir, &other, Durability::Batch).unwrap();
    // The lock is there as long as anything uses the directory.
    drop(data_dir);
    assert!(DataDir::lock_in(disk.files(), Path::new(DIR)).is_err());
    drop(replay);
    DataDir::lock_in(disk.files(), Path::new(DIR)).unwrap();
}

/// The directory may lie in one that this user cannot list; all else that fails is told.
#[test]
fn a_directory_whose_parent_cannot_be_synced_is_taken() {
    let locked = |operation, kind| {
        let disk = Disk::new(0);
        disk.set(Fault::FailsAt(operation, kind));
        DataDir::lock_in(disk.files(), Path::new(DIR)).is_ok()
    };
    let [making, syncing] = [1, 2];
    assert!(locked(syncing, ErrorKind::PermissionDenied));
    assert!(!locked(syncing, ErrorKind::Other));
    assert!(!locked(making, ErrorKind::PermissionDenied));
    assert!(!locked(making, ErrorKind::Other));
}

#[test]
fn missing_files_are_told() {
    let disk = segments();
    disk.take(&journal(3));
    let error = refusal(&disk);
    assert!(matches!(error, StoreError::MissingSegment { first: Lsn(3), .. }), "{error}");
    let disk = segments();
    disk.take(&journal(1));
    let error = refusal(&disk);
    assert!(matches!(error, StoreError::MissingSnapshot { first: Lsn(3), .. }), "{error}");
    for lsn in [3, 5, 7] {
        disk.take(&journal(lsn));
    }
    let error = refusal(&disk);
    assert!(matches!(error, StoreError::MissingSegment { first: Lsn(1), .. }), "{error}");
    let disk = segments();
    disk.take(&at("identity"));
    let error = refusal(&disk);
    assert!(matches!(error, StoreError::MissingIdentity { .. }), "{error}");
    assert!(error.to_string().contains("move /data/news away and run spinney recover"), "{error}");
    // Of an empty one nothing else can be told, and nothing else helps.
    disk.put(&at("identity"), b"");
    let error = refusal(&disk);
    assert!(matches!(error, StoreError::BrokenIdentity { why: "it is empty", .. }), "{error}");
    assert!(error.to_string().contains("move /data/news away and run spinney recover"), "{error}");
}

/// The snapshot may hold half of a batch that the journal has not.
#[test]
fn a_journal_that_is_too_short_is_told() {
    let disk = Disk::new(0);
    let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
    process.begin_snapshot();
    process.append(&Changes(vec![(0, Some(1)), (1, Some(1))]));
    assert!(process.finish_snapshot());
    drop(process);
    let path = journal(1);
    let bytes = disk.bytes(&path);
    disk.put(&path, &bytes[..bytes.len() - 1]);
    let error = refusal(&disk);
    assert!(matches!(error, StoreError::ShortJournal { reached: Lsn(0), needed: Lsn(1), .. }), "{error}");
}

/// Those of an earlier one are opened.
#[test]
fn fingerprints_of_a_newer_version_are_told() {
    let current = FingerprintVersion::CURRENT;
    let disk = Disk::new(0);
    let identity = |version| ForestIdentity::new("news").with(FingerprintVersion::SETTING, version);
    let open = || {
        let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR)).unwrap();
        Store::open(&data_dir, &identity(current), Durability::Batch).map(drop)
    };
    open().unwrap();
    let (newer, _) = identity(FingerprintVersion(current.0 + 1)).encode();
    disk.put(&at("identity"), newer.as_bytes());
    let error = open().unwrap_err();
    assert!(matches!(error, StoreError::NewerFingerprints { .. }), "{error}");
    assert!(error.to_string().contains("use the version that began it, or a newer one"), "{error}");
}

#[test]
fn other_settings_are_told_with_both_sides() {
    let disk = segments();
    let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR)).unwrap();
    let wanted = ForestIdentity::new("news").with("method", "full").with("window", "30d");
    let error = Store::open(&data_dir, &wanted, Durability::Batch).unwrap_err();
    let text = error.to_string();
    for part in [
        "method: stored verified, configured full",
        "k: stored 3, configured not set",
        "window: stored not set, configured 30d",
        "--data-dir",
        "start it with those",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// One that nothing was written to stops nobody who has made up their mind, whatever the power does to that.
#[test]
fn an_empty_forest_of_other_settings_begins_anew() {
    let [first, other] = ["verified", "full"].map(|method| ForestIdentity::new("news").with("method", method));
    let open = |disk: &Disk, identity: &ForestIdentity| {
        let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR))?;
        let open = || Store::open(&data_dir, identity, Durability::Batch);
        let mut replay = match open() {
            Err(StoreError::OtherIdentity { .. }) if data_dir.forget_unwritten("news")? => open()?,
            opened => opened?,
        };
        while replay.next()?.is_some() {}
        Ok::<_, StoreError>(replay.identity().clone())
    };
    for seed in 0..30 {
        let mut end = 1;
        loop {
            let disk = Disk::new(seed);
            assert_eq!(open(&disk, &first).unwrap(), first);
            disk.set(Fault::EndsAt(end));
            let opened = open(&disk, &other);
            disk.lose_power();
            assert_eq!(open(&disk, &other).unwrap(), other, "after {end} operations");
            if opened.is_ok() {
                break;
            }
            end += 1;
        }
        assert!(end > 5, "each step of it was the last once: {end}");
    }
    // Where the journal is missing or cut off, something was there; one byte behind its header is something.
    let disk = Disk::new(0);
    open(&disk, &first).unwrap();
    let header = disk.bytes(&journal(1));
    for left in [None, Some(&header[..header.len() - 1]), Some(&[&header[..], b"x"].concat())] {
        disk.take(&journal(1));
        if let Some(left) = left {
            disk.put(&journal(1), left);
        }
        assert!(matches!(open(&disk, &other), Err(StoreError::OtherIdentity { .. })), "{left:?}");
        disk.put(&journal(1), b"");
    }
}

#[test]
fn newer_and_foreign_files_are_told() {
    // A newer format: everything behind the number may be another.
    for name in [journal(1), at("identity")] {
        let disk = segments();
        let mut bytes = disk.bytes(&name);
        if name.ends_with("identity") {
            let text = String::from_utf8(bytes).unwrap();
            bytes = text.replace("format = 1", "format = 2").into_bytes();
        } else {
            bytes[8] = FORMAT as u8 + 1;
        }
        disk.put(&name, &bytes);
        let error = refusal(&disk);
        assert!(matches!(error, StoreError::NewerFormat { found: 2, .. }), "{error}");
    }
    // From another directory, under a right name.
    let disk = segments();
    let header = Header { kind: FileKind::Segment, lsn: Lsn(3), identity: 1, salt: 2 };
    disk.put(&journal(3), &header.encode());
    assert!(matches!(refusal(&disk), StoreError::ForeignFile { .. }));
    // From this directory, under a wrong one.
    let disk = segments();
    disk.put(&journal(5), &disk.bytes(&journal(3)));
    assert!(matches!(refusal(&disk), StoreError::Damaged { offset: 0, .. }));
    // Empty, and something else altogether.
    let disk = segments();
    disk.put(&journal(7), b"");
    assert!(matches!(refusal(&disk), StoreError::EmptyFile { .. }));
    disk.put(&journal(7), &[b'x'; 100]);
    assert!(matches!(refusal(&disk), StoreError::Damaged { offset: 0, .. }));
    // A torn end in the middle: every segment was synced before the next was begun.
    let disk = segments();
    let bytes = disk.bytes(&journal(3));
    disk.put(&journal(3), &bytes[..bytes.len() - 1]);
    assert!(matches!(refusal(&disk), StoreError::Damaged { .. }));
    disk.put(&journal(3), &bytes[..Header::LEN]);
    assert!(matches!(refusal(&disk), StoreError::MissingSegment { first: Lsn(3), .. }));
}

#[test]
fn an_identity_is_read_as_it_was_written() {
    let identity = ForestIdentity::new("a = b\nchecksum = 1\n%")
        .with("forest", "another")
        .with("two words", " spaces ")
        .with("empty", "")
        .with("lines", "\r\n\u{85}é");
    let (text, checksum) = identity.encode();
    let path = Path::new("identity");
    let (read, found) = ForestIdentity::decode(path, text.as_bytes()).unwrap();
    assert_eq!((&read, found), (&identity, checksum));
    assert_eq!(read.differences(&identity), vec![]);
    assert_eq!(read.settings().nth(1), Some(("two_words", " spaces ")));
    let broken = ["", "spinney store\n", "spinney store\nformat = x\n", &text[..text.len() - 1]];
    for text in broken {
        ForestIdentity::decode(path, text.as_bytes()).unwrap_err();
    }
    // Checked in order, so that a missing line is named.
    let body = format!("spinney store\nformat = {FORMAT}\nversion = 1\nk = 3\n");
    let text = format!("{body}checksum = {:016x}\n", xxh3_64(body.as_bytes()));
    let error = ForestIdentity::decode(path, text.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("it names no forest"), "{error}");
}

/// Reading to the end is not optional: the state would be that of another time.
#[test]
fn a_store_is_read_to_its_end_first() {
    let disk = segments();
    let mut replay = open(&disk, Durability::Batch).unwrap();
    replay.next().unwrap();
    assert!(matches!(replay.into_store(), Err(StoreError::NotReplayed)));
}

/// What others put into the directory stays.
#[test]
fn unknown_files_are_left_alone() {
    let disk = segments();
    disk.put(&at("notes.tmp"), b"mine");
    disk.put(&at("journal-0000000000000009.tmp"), b"ours");
    Process::start(&disk, Durability::Batch).unwrap();
    assert!(disk.paths().contains(&at("notes.tmp")));
    assert!(!disk.paths().contains(&at("journal-0000000000000009.tmp")));
}

fn record(line: &str) -> FieldRecord {
    FieldRecord::decode(&format!("format = 1\n{line}\n")).unwrap()
}

/// Old or new, whenever the process ends, and never in the way of the forest.
#[test]
fn the_record_of_fields_is_old_or_new_after_any_crash() {
    let [old, new] = [record("news-* text_field=content"), record("news-* text_field=content title_field=title")];
    let fields = |disk: &Disk, write: Option<&FieldRecord>| {
        let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR))?;
        write.map_or(Ok(()), |record| data_dir.record_fields("news", record))?;
        data_dir.fields("news")
    };
    let mut after = [0; 2];
    for seed in 0..20 {
        let filled = || {
            let disk = Disk::new(seed);
            let (mut process, _) = Process::start(&disk, Durability::Batch).unwrap();
            process.append(&Changes(vec![(1, Some(1))]));
            process.write();
            drop(process);
            assert!(fields(&disk, None).unwrap().is_empty(), "of a directory that has none");
            assert_eq!(fields(&disk, Some(&old)).unwrap(), old);
            disk.set(Fault::None);
            disk
        };
        let disk = filled();
        assert_eq!(fields(&disk, Some(&new)).unwrap(), new);
        let all = disk.operations();
        disk.set(Fault::None);
        fields(&disk, Some(&new)).unwrap();
        assert_eq!(all - disk.operations(), WRITING, "the same record is not written again");
        for end in 1..=all {
            let disk = filled();
            disk.set(Fault::EndsAt(end));
            let _ = fields(&disk, Some(&new));
            assert!(disk.has_ended());
            disk.lose_power();
            disk.set(Fault::None);
            let known = fields(&disk, None).unwrap();
            assert!(known == old || known == new, "{known:?}");
            after[usize::from(known == new)] += 1;
            let (process, read) = Process::start(&disk, Durability::Batch).unwrap();
            assert_eq!(read.last, Lsn(1));
            drop(process);
            assert!(!disk.paths().contains(&at("fields.tmp")), "what was left of the attempt is gone");
        }
    }
    assert!(after.iter().all(|&times| times > 10), "{after:?}");
}

/// Operations of a file that is replaced: it is made, written, synced and renamed, and its directory is synced.
const WRITING: u64 = 5;

#[test]
fn a_record_of_fields_that_does_not_read_is_told() {
    let disk = Disk::new(0);
    drop(Process::start(&disk, Durability::Batch).unwrap());
    let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR)).unwrap();
    data_dir.record_fields("news", &record("news-* text_field=content")).unwrap();
    let whole = disk.bytes(&at("fields"));
    let error_of = |bytes: Vec<u8>| {
        disk.put(&at("fields"), &bytes);
        data_dir.fields("news").unwrap_err()
    };
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        let error = error_of(bytes);
        // Another number of the format is one of them.
        assert!(matches!(error, StoreError::BrokenFields { .. } | StoreError::NewerFormat { .. }), "{place}: {error}");
        let error = error_of(whole[..place].to_vec());
        assert!(matches!(error, StoreError::BrokenFields { .. }), "{place}: {error}");
        assert!(error.to_string().contains("/data/news/fields does not read"), "{error}");
    }
    let newer = String::from_utf8(whole).unwrap().replace("format = 1", "format = 2");
    assert!(matches!(error_of(newer.into_bytes()), StoreError::NewerFormat { found: 2, .. }));
}

/// Also where an error is shown without its causes.
#[test]
fn what_the_system_refuses_is_told_with_its_reason() {
    let dir = std::env::temp_dir().join(format!("spinney-reason-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("news/fields")).unwrap();
    let error = DataDir::fields_in(&dir, "news").unwrap_err().to_string();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(error.contains("news/fields: Is a directory"), "{error}");
}
