//! How much is read and checked to find the next record behind one that does not read: a few times the file, whatever
//! is in it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::files::File;
use super::super::format::{
    BatchHead, BlockHead, END_SECTION, FileKind, Header, RecordHead, SnapshotEnd,
    bytes_checked as checked_by_this_thread,
};
use super::super::reader::{Next, SegmentReader, SnapshotReader};
use super::*;

const IDENTITY: u64 = 7;
const SALT: u64 = 0x5a17;
/// What may be read and checked together, in lengths of the file.
const MOST: u64 = 40;

/// A file that counts what is read of it, and fails when that is too much.
#[derive(Debug)]
struct Counting {
    bytes: Vec<u8>,
    read: Arc<AtomicU64>,
}

impl File for Counting {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[(offset as usize).min(self.bytes.len())..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        let read = self.read.fetch_add(count as u64, Relaxed) + count as u64;
        match read > MOST * self.bytes.len() as u64 {
            true => Err(io::Error::other("more is read than that")),
            false => Ok(count),
        }
    }

    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        unreachable!("nothing is written")
    }

    fn sync(&mut self) -> io::Result<()> {
        unreachable!("nothing is written")
    }

    fn cut(&mut self, _: u64) -> io::Result<()> {
        unreachable!("nothing is written")
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

/// Reads with `read`, and answers with what it answers, if that took no more than it may.
fn counted<T>(bytes: &[u8], context: &str, read: impl FnOnce(Box<dyn File>) -> T) -> T {
    let counter = Arc::new(AtomicU64::new(0));
    let before = checked_by_this_thread();
    let answer = read(Box::new(Counting { bytes: bytes.to_vec(), read: counter.clone() }));
    let (read, checked) = (counter.load(Relaxed), checked_by_this_thread() - before);
    let times = (read + checked) / bytes.len() as u64;
    assert!(times <= MOST, "{context}: {read} bytes read and {checked} checked are {times} times the file");
    answer
}

/// Makes so many bytes.
type Content = fn(usize, &mut SplitMix64) -> Vec<u8>;

/// What a block or a batch may consist of.
const CONTENTS: [(&str, Content); 5] = [
    ("records", |len, random| {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            bytes.extend(random.next_u64().to_le_bytes());
            bytes.extend((random.next_u64() as u32 >> 12).to_le_bytes());
            bytes.extend((random.next_u64() as u32 >> 20).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }),
    ("anything", |len, random| (0..len).map(|_| random.next_u64() as u8).collect()),
    ("zeros", |len, _| vec![0; len]),
    // Each leads to another, at whatever distance.
    ("headers of blocks", |len, random| {
        let mut bytes = Vec::new();
        while bytes.len() + BlockHead::LEN <= len {
            bytes.extend(random.next_u64().to_le_bytes());
            bytes.extend(((random.next_u64() % 60_000) as u32 * BlockHead::LEN as u32).to_le_bytes());
            bytes.push(3);
        }
        bytes.resize(len, 0);
        bytes
    }),
    // As before, where batches stay that are of the right numbers.
    ("headers of batches", |len, random| {
        let mut bytes = Vec::new();
        while bytes.len() + BatchHead::LEN <= len {
            let number = 3 + bytes.len() as u64 / (len as u64 / 8 + 1);
            bytes.extend(random.next_u64().to_le_bytes());
            bytes.extend(((len / 8 / BatchHead::LEN) as u32 * BatchHead::LEN as u32).to_le_bytes());
            bytes.extend(number.to_le_bytes());
            bytes.extend((number - 1).to_le_bytes());
        }
        bytes.resize(len, 0);
        bytes
    }),
];

/// Bytes of a block; a multiple of the length of either header.
const LONG: usize = BlockHead::LEN * BatchHead::LEN * 1_500;

/// A snapshot of blocks of this content, and where they begin; the last is the trailer.
fn snapshot(blocks: usize, content: Content) -> (Vec<u8>, Vec<usize>) {
    let mut random = SplitMix64(3);
    let mut bytes = Header { kind: FileKind::Snapshot, lsn: Lsn::FIRST, identity: IDENTITY, salt: SALT }.encode();
    let mut begins = Vec::new();
    for number in 0..blocks as u64 {
        begins.push(bytes.len());
        let mut block = content(LONG, &mut random);
        block[..8].copy_from_slice(&number.to_le_bytes());
        BlockHead::encode(&mut bytes, SALT + number, 3, &block);
    }
    begins.push(bytes.len());
    let end = SnapshotEnd { blocks: blocks as u64, end: Lsn::FIRST };
    BlockHead::encode(&mut bytes, SALT + blocks as u64, END_SECTION, &end.encode());
    (bytes, begins)
}

/// The numbers of the blocks that read, and whether the trailer does.
fn salvage_snapshot(file: Box<dyn File>) -> (Vec<usize>, bool) {
    let mut reader = SnapshotReader::open(PathBuf::from("snapshot"), file, Lsn::FIRST, IDENTITY).unwrap();
    let mut read = Vec::new();
    loop {
        match reader.advance() {
            Ok(Some(_)) => return (read, true),
            Ok(None) => {
                let (_, block) = reader.block().unwrap();
                read.push(u64::from_le_bytes(block[..8].try_into().unwrap()) as usize);
            }
            Err(error) => {
                assert!(error.is_unreadable(), "{error}");
                if !reader.resync().unwrap() {
                    return (read, false);
                }
            }
        }
    }
}

/// The length of a block with another bit.
fn flip_length(bytes: &mut [u8], begin: usize, bit: usize) {
    bytes[begin + 8 + bit / 8] ^= 1 << (bit % 8);
}

const BITS: [usize; 2] = [0, 18];

#[test]
fn a_block_that_does_not_read_costs_no_other_and_a_few_times_the_file() {
    const BLOCKS: usize = 5;
    for (name, content) in CONTENTS {
        let (bytes, begins) = snapshot(BLOCKS, content);
        let whole: Vec<usize> = (0..BLOCKS).collect();
        assert_eq!(salvage_snapshot(Box::new(Counting { bytes: bytes.clone(), read: Arc::default() })), (whole, true));
        for damaged in [0, BLOCKS / 2, BLOCKS - 1, BLOCKS] {
            for bit in BITS {
                let context = format!("{name}, block {damaged}, bit {bit}");
                let mut bytes = bytes.clone();
                flip_length(&mut bytes, begins[damaged], bit);
                let (read, to_the_end) = counted(&bytes, &context, salvage_snapshot);
                let left: Vec<usize> = (0..BLOCKS).filter(|number| *number != damaged).collect();
                assert_eq!((read, to_the_end), (left, damaged != BLOCKS), "{context}");
            }
        }
    }
}

/// One that does not read hides where the others lead.
#[test]
fn blocks_between_two_that_do_not_read_are_found() {
    const BLOCKS: usize = 14;
    for (name, content) in [CONTENTS[0], CONTENTS[1]] {
        let (bytes, begins) = snapshot(BLOCKS, content);
        for (first, second) in [(1, 12), (3, 4), (5, BLOCKS)] {
            for bit in BITS {
                let context = format!("{name}, blocks {first} and {second}, bit {bit}");
                let mut bytes = bytes.clone();
                flip_length(&mut bytes, begins[first], bit);
                flip_length(&mut bytes, begins[second], bit);
                let (read, _) = counted(&bytes, &context, salvage_snapshot);
                let mut left: Vec<usize> = (0..BLOCKS).filter(|number| ![first, second].contains(number)).collect();
                if name == "records" && read != left {
                    // Too much there looks like a header: what lies between them is lost, and nothing else.
                    left.retain(|number| !(first..second).contains(number));
                }
                assert_eq!(read, left, "{context}");
            }
        }
        // Where the length stays, nothing has to be looked for.
        let mut bytes = bytes.clone();
        for damaged in (0..BLOCKS).step_by(2) {
            bytes[begins[damaged] + 100] ^= 1;
        }
        let (read, to_the_end) = counted(&bytes, name, salvage_snapshot);
        assert_eq!((read, to_the_end), ((1..BLOCKS).step_by(2).collect(), true), "{name}");
    }
}

/// However many are lost together.
#[test]
fn blocks_behind_a_long_gap_are_found() {
    const BLOCKS: usize = 14;
    let (mut bytes, begins) = snapshot(BLOCKS, CONTENTS[0].1);
    bytes[begins[1]..begins[12]].fill(0xa5);
    let (read, to_the_end) = counted(&bytes, "a gap", salvage_snapshot);
    assert_eq!((read, to_the_end), (vec![0, 12, 13], true));
}

/// A segment of batches of this content, and where they begin.
fn segment(batches: usize, content: Content) -> (Vec<u8>, Vec<usize>) {
    let mut random = SplitMix64(3);
    let mut bytes = Header { kind: FileKind::Segment, lsn: Lsn::FIRST, identity: IDENTITY, salt: SALT }.encode();
    let mut begins = Vec::new();
    for number in 1..=batches as u64 {
        begins.push(bytes.len());
        BatchHead::encode(&mut bytes, SALT, Lsn(number), Lsn(number - 1), &content(LONG, &mut random));
    }
    (bytes, begins)
}

/// The numbers of the batches that read, and whether damage was seen as such.
fn salvage_segment(file: Box<dyn File>) -> (Vec<usize>, bool) {
    let mut reader = SegmentReader::open(PathBuf::from("journal"), file, Lsn::FIRST, IDENTITY).unwrap();
    let (mut read, mut is_damage) = (Vec::new(), false);
    loop {
        match reader.advance() {
            Ok(Next::End) => return (read, is_damage),
            Ok(Next::Batch) => read.push(reader.batch().unwrap().0.0 as usize),
            Ok(Next::Torn) => {
                is_damage |= reader.is_vouched_for().unwrap();
                reader.resync().unwrap();
            }
            Err(error) => {
                assert!(error.is_unreadable(), "{error}");
                reader.resync().unwrap();
            }
        }
    }
}

/// Batches full of what looks like headers of later ones, on a disk that is a few batches behind.
#[test]
fn many_batches_that_do_not_read_cost_no_other() {
    const BATCHES: u64 = 240;
    let mut random = SplitMix64(5);
    let mut bytes = Header { kind: FileKind::Segment, lsn: Lsn::FIRST, identity: IDENTITY, salt: SALT }.encode();
    let mut begins = Vec::new();
    for number in 1..=BATCHES {
        let mut batch = Vec::new();
        while batch.len() < 8_000 {
            let lsn = number + 1 + random.next_u64() % 40;
            batch.extend(random.next_u64().to_le_bytes());
            batch.extend((random.next_u64() as u32 % 400_000).to_le_bytes());
            batch.extend(lsn.to_le_bytes());
            batch.extend((lsn - 1).to_le_bytes());
        }
        begins.push(bytes.len());
        BatchHead::encode(&mut bytes, SALT, Lsn(number), Lsn(number.saturating_sub(4)), &batch);
    }
    for every in [7, 20, 100] {
        let mut bytes = bytes.clone();
        let is_damaged = |number: usize| number % every == every / 2;
        for (_, &begin) in begins.iter().enumerate().filter(|(at, _)| is_damaged(at + 1)) {
            bytes[begin + BatchHead::LEN + 4_001] ^= 4;
        }
        let (read, is_damage) = counted(&bytes, "many", salvage_segment);
        let left: Vec<usize> = (1..=BATCHES as usize).filter(|&number| !is_damaged(number)).collect();
        assert!(read == left && is_damage, "{every}: {} of {}", read.len(), left.len());
    }
}

#[test]
fn a_batch_that_does_not_read_costs_a_few_times_the_file() {
    const BATCHES: usize = 5;
    for (name, content) in CONTENTS {
        let (bytes, begins) = segment(BATCHES, content);
        for damaged in [1, BATCHES / 2, BATCHES] {
            for bit in BITS {
                let context = format!("{name}, batch {damaged}, bit {bit}");
                let mut bytes = bytes.clone();
                flip_length(&mut bytes, begins[damaged - 1], bit);
                let (read, is_damage) = counted(&bytes, &context, salvage_segment);
                assert!(is_damage || damaged == BATCHES, "{context}: not a torn end");
                let left: Vec<usize> = (1..=BATCHES).filter(|number| *number != damaged).collect();
                // Forged numbers may use up all that may be checked: then the rest is lost, and told.
                let is_forged = name == "headers of batches";
                assert!(read == left || is_forged && left.starts_with(&read), "{context}: {read:?}");
            }
        }
    }
}
