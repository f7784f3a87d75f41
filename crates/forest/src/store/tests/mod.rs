//! The store on a bad disk, against a map that is never stored.

mod crashes;
mod damage;
mod journal;
mod refusals;
mod resync;
mod threads;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use spinney_text::hash::SplitMix64;

use super::snapshot::SnapshotWriter;
use super::writer::JournalWriter;
use super::{DataDir, Durability, ForestIdentity, Lsn, Replay, Store, StoreError, StoreFailure, StoredRecord};
use crate::store::disk::Disk;

const DIR: &str = "/data";
const FOREST: &str = "/data/news";

fn identity() -> ForestIdentity {
    ForestIdentity::new("news").with("method", "verified").with("k", 3)
}

fn open(disk: &Disk, durability: Durability) -> Result<Replay, StoreError> {
    let data_dir = DataDir::lock_in(disk.files(), Path::new(DIR))?;
    Store::open(&data_dir, &identity(), durability)
}

/// A path in the forest's directory.
fn at(name: &str) -> std::path::PathBuf {
    Path::new(FOREST).join(name)
}

/// What a future answers now.
fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// The state that is stored: few keys, so that most batches write over others.
type Map = BTreeMap<u8, u32>;
const KEYS: u8 = 12;

/// Keys and what they are from now on, if they are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Changes(Vec<(u8, Option<u32>)>);

impl Changes {
    fn random(random: &mut SplitMix64) -> Changes {
        let count = 1 + random.next_u64() % 4;
        let change = |_| {
            let bits = random.next_u64();
            let value = (!bits.is_multiple_of(4)).then_some((bits >> 32) as u32);
            ((bits >> 8) as u8 % KEYS, value)
        };
        Changes((0..count).map(change).collect())
    }

    fn apply(&self, map: &mut Map) {
        for &(key, value) in &self.0 {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(key, value) in &self.0 {
            bytes.extend([key, u8::from(value.is_some())]);
            bytes.extend(value.unwrap_or(0).to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Changes {
        let change = |bytes: &[u8]| {
            let value = u32::from_le_bytes(bytes[2..6].try_into().unwrap());
            (bytes[0], (bytes[1] == 1).then_some(value))
        };
        assert!(bytes.len().is_multiple_of(6));
        Changes(bytes.chunks(6).map(change).collect())
    }
}

/// All that was read: the state, and the last batch.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    map: Map,
    last: Lsn,
    batches: Vec<(Lsn, Changes)>,
}

fn read(replay: &mut Replay) -> Result<Read, StoreError> {
    let mut read = Read { map: Map::new(), last: Lsn(0), batches: Vec::new() };
    while let Some(record) = replay.next()? {
        match record {
            StoredRecord::Block { section, bytes } => {
                assert!(read.batches.is_empty(), "blocks come first");
                for (key, value) in Changes::decode(bytes).0 {
                    assert_eq!(section, key % 3, "a portion holds what it held");
                    read.map.insert(key, value.unwrap());
                }
            }
            StoredRecord::Batch { lsn, payload } => {
                let changes = Changes::decode(payload);
                changes.apply(&mut read.map);
                read.batches.push((lsn, changes));
            }
        }
    }
    let progress = replay.progress();
    let torn = replay.torn_end().map_or(0, |torn| torn.bytes);
    assert_eq!(progress.done + torn, progress.total);
    Ok(read)
}

/// A process that keeps a map and stores it.
struct Process {
    store: Store,
    writer: JournalWriter,
    map: Map,
    snapshot: Option<(SnapshotWriter, u8)>,
    now: Instant,
}

impl Process {
    fn start(disk: &Disk, durability: Durability) -> Result<(Process, Read), StoreError> {
        let mut replay = open(disk, durability)?;
        let read = read(&mut replay)?;
        let (store, writer) = replay.into_parts(None)?;
        let process = Process { store, writer, map: read.map.clone(), snapshot: None, now: Instant::now() };
        // The next batch comes behind the last one.
        let last = process.store.status().appended;
        assert_eq!(read.batches.last().map_or(last, |(lsn, _)| *lsn), last);
        Ok((process, Read { last, ..read }))
    }

    fn append(&mut self, changes: &Changes) -> Lsn {
        changes.apply(&mut self.map);
        self.store.append(changes.encode())
    }

    /// Lets the writer do all that is due, some time later.
    fn write(&mut self) {
        self.now += Duration::from_secs(3);
        while self.writer.step_at(self.now) {}
    }

    fn is_durable(&self, lsn: Lsn) -> Option<Result<(), StoreFailure>> {
        poll(self.store.durable(lsn))
    }

    fn begin_snapshot(&mut self) {
        if self.snapshot.is_none() {
            self.snapshot = self.store.begin_snapshot().ok().map(|writer| (writer, 0));
        }
    }

    /// Writes the next of three portions.
    fn write_portion(&mut self) {
        let Some((writer, portion)) = &mut self.snapshot else {
            return;
        };
        let keys = self.map.iter().filter(|(key, _)| **key % 3 == *portion);
        let keys = keys.map(|(&key, &value)| (key, Some(value)));
        let bytes = Changes(keys.collect()).encode();
        let written = writer.write(*portion, &bytes);
        *portion += 1;
        if written.is_err() {
            self.snapshot = None;
        }
    }

    /// Writes what is missing and installs the snapshot. Answers whether it counts.
    fn finish_snapshot(&mut self) -> bool {
        while self.snapshot.as_ref().is_some_and(|(_, done)| *done < 3) {
            self.write_portion();
        }
        let Some((mut writer, _)) = self.snapshot.take() else {
            return false;
        };
        let sealed = writer.seal();
        self.write();
        writer.install(&sealed).is_ok()
    }
}

/// What happens to a process, by a seed.
#[derive(Debug, Clone)]
enum Step {
    Append(Changes),
    Write,
    Begin,
    Portion,
    Finish,
    Abandon,
}

fn script(seed: u64, steps: usize) -> Vec<Step> {
    let mut random = SplitMix64(seed);
    let step = |_| match random.next_u64() % 20 {
        0..9 => Step::Append(Changes::random(&mut random)),
        9..14 => Step::Write,
        14..16 => Step::Begin,
        16..18 => Step::Portion,
        18 => Step::Finish,
        _ => {
            if random.next_u64().is_multiple_of(4) {
                Step::Abandon
            } else {
                Step::Finish
            }
        }
    };
    (0..steps).map(step).collect()
}

impl Process {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Append(changes) => {
                self.append(changes);
            }
            Step::Write => self.write(),
            Step::Begin => self.begin_snapshot(),
            Step::Portion if self.snapshot.as_ref().is_some_and(|(_, done)| *done < 3) => {
                self.write_portion();
            }
            Step::Portion => {}
            Step::Finish => {
                self.finish_snapshot();
            }
            Step::Abandon => self.snapshot = None,
        }
    }
}

/// All batches that were ever appended and not lost; the state after each is known.
#[derive(Debug, Default)]
struct History(Vec<Changes>);

impl History {
    fn after(&self, lsn: Lsn) -> Map {
        let mut map = Map::new();
        for changes in &self.0[..lsn.0 as usize] {
            changes.apply(&mut map);
        }
        map
    }

    /// What was read is the state after a prefix of the history, which has at least this length. What is behind it is
    /// lost.
    fn check(&mut self, read: &Read, at_least: Lsn, context: &str) {
        assert!(read.last >= at_least, "{context}: {at_least} was durable, read up to {}", read.last);
        assert!(read.last.0 as usize <= self.0.len(), "{context}: more than was appended");
        for (lsn, changes) in &read.batches {
            assert_eq!(&self.0[lsn.0 as usize - 1], changes, "{context}: batch {lsn}");
        }
        assert_eq!(read.map, self.after(read.last), "{context}: the state at {}", read.last);
        self.0.truncate(read.last.0 as usize);
    }
}
