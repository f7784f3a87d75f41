//! The store from the outside: files of every format that there ever was are opened, for ever.

use std::fs;
use std::path::{Path, PathBuf};

use futures_executor::block_on;
use spinney::store::{DataDir, Durability, ForestIdentity, Lsn, Replay, Store, StoredRecord};

/// Made by `write_the_files_of_this_format` when the format was new, and not again.
const VERSION_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pure/store_v1");

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("spinney-pure-store-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn identity() -> ForestIdentity {
    let named = ForestIdentity::new("News");
    named.with("method", "verified").with("k", 3)
}

fn open(dir: &Path) -> Replay {
    let data_dir = DataDir::lock(dir).unwrap();
    Store::open(&data_dir, &identity(), Durability::Batch).unwrap()
}

/// Everything that is stored, in a line each.
fn lines(replay: &mut Replay) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(record) = replay.next().unwrap() {
        lines.push(match record {
            StoredRecord::Block { section, bytes } => {
                format!("{section} {}", String::from_utf8_lossy(bytes))
            }
            StoredRecord::Batch { lsn, payload } => {
                format!("{lsn} {}", String::from_utf8_lossy(payload))
            }
        });
    }
    lines
}

/// A life with two snapshots, the second of which is not finished.
fn live(store: &Store) {
    for number in 1..=3 {
        store.append(format!("batch {number}").into_bytes());
    }
    let mut snapshot = store.begin_snapshot().unwrap();
    snapshot.write(0, b"first block").unwrap();
    store.append(b"batch 4".to_vec());
    snapshot.write(7, b"").unwrap();
    snapshot.write(7, &[b'x'; 300]).unwrap();
    snapshot.finish().unwrap();
    store.append(b"batch 5".to_vec());
    let unfinished = store.begin_snapshot().unwrap();
    let last = store.append(b"batch 6".to_vec());
    block_on(store.durable(last)).unwrap();
    drop(unfinished);
}

fn expected() -> Vec<String> {
    let blocks = ["0 first block".to_owned(), "7 ".to_owned(), format!("7 {}", "x".repeat(300))];
    let batches = (4..=6).map(|number| format!("{} batch {number}", Lsn(number)));
    blocks.into_iter().chain(batches).collect()
}

#[test]
fn files_of_version_1_are_read_and_written_on() {
    let scratch = Scratch::new("v1");
    for forest in fs::read_dir(VERSION_1).unwrap() {
        let forest = forest.unwrap();
        let to = scratch.0.join(forest.file_name());
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(forest.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    let mut replay = open(&scratch.0);
    assert_eq!(lines(&mut replay), expected());
    assert!(replay.torn_end().is_none());
    let store = replay.into_store().unwrap();
    assert_eq!(store.append(b"batch 7".to_vec()), Lsn(7));
    store.close().unwrap();
    drop(store);
    let mut stored = expected();
    stored.push("0000000000000007 batch 7".into());
    assert_eq!(lines(&mut open(&scratch.0)), stored);
}

/// What is written today is read as what was written then.
#[test]
fn what_is_written_is_read() {
    let scratch = Scratch::new("written");
    let mut replay = open(&scratch.0);
    assert_eq!(lines(&mut replay), Vec::<String>::new());
    let store = replay.into_store().unwrap();
    live(&store);
    store.close().unwrap();
    drop(store);
    assert_eq!(lines(&mut open(&scratch.0)), expected());
    // The name that stands in the fixture.
    let forest = scratch.0.join("%4eews");
    assert!(forest.join("identity").is_file());
}

/// `cargo test --test pure write_the_files -- --ignored` makes the files of a new format. Those that there are stay as
/// they are.
#[test]
#[ignore = "only for a new format"]
fn write_the_files_of_this_format() {
    let dir = Path::new(VERSION_1);
    if dir.exists() {
        return;
    }
    let mut replay = open(dir);
    assert!(replay.next().unwrap().is_none());
    let store = replay.into_store().unwrap();
    live(&store);
    store.close().unwrap();
    drop(store);
    fs::remove_file(dir.join("LOCK")).unwrap();
}
