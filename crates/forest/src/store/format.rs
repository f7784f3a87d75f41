//! The bytes of segments and snapshots. Numbers are little-endian; checksums are xxh3-64. Both begin alike:
//!
//! ```text
//! | magic 8 | format u32 | lsn u64 | identity u64 | salt u64 | checksum u64 |     44 bytes
//! ```
//!
//! `magic` is `spinneyJ` or `spinneyS`; `lsn` that of the name; `identity` the checksum of that file; `salt` the random
//! seed of all checksums that follow, against blocks of deleted files; `checksum` (seed 0) covers the 36 bytes before
//! it. Then come batches or blocks, with payloads of at most 2^30 bytes:
//!
//! ```text
//! | checksum u64 | length u32 | lsn u64 | synced u64 | payload |        of a segment: 28 bytes and the payload
//! | checksum u64 | length u32 | section u8 | bytes |                    of a snapshot: 13 bytes and the bytes
//! ```
//!
//! The checksum covers what follows it. `synced` is the last lsn known to be on the disk. The seed of a block is the
//! salt plus its number. Sections 0 to 15 are the caller's; the last block has section 255 and holds
//! `blocks u64 | end lsn u64`, and the journal must reach `end lsn`.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Lsn;

/// The format that is written, and the newest that is read.
pub(super) const FORMAT: u32 = 1;

/// Longest payload and longest block, in bytes: a damaged length must not allocate all memory.
pub(super) const LONGEST: usize = 1 << 30;

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Segment,
    Snapshot,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            FileKind::Segment => *b"spinneyJ",
            FileKind::Snapshot => *b"spinneyS",
        }
    }
}

/// How a segment and a snapshot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: FileKind,
    /// That of the file's name.
    pub(super) lsn: Lsn,
    /// The checksum of the identity that the file belongs to.
    pub(super) identity: u64,
    /// The seed of all checksums that follow.
    pub(super) salt: u64,
}

/// Why a header is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAHeader {
    Magic,
    Newer(u32),
    Checksum,
}

impl Header {
    pub(super) const LEN: usize = 44;

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Header::LEN);
        bytes.extend(self.kind.magic());
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.lsn.0.to_le_bytes());
        bytes.extend(self.identity.to_le_bytes());
        bytes.extend(self.salt.to_le_bytes());
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn decode(kind: FileKind, bytes: &[u8]) -> Result<Header, NotAHeader> {
        let Some((body, checksum)) = bytes.split_last_chunk::<8>() else {
            return Err(NotAHeader::Checksum);
        };
        let mut fields = Fields(body);
        if fields.take() != Some(kind.magic()) {
            return Err(NotAHeader::Magic);
        }
        // Read before the checksum, whose position depends on the format.
        let format = fields.u32().ok_or(NotAHeader::Checksum)?;
        if format > FORMAT {
            return Err(NotAHeader::Newer(format));
        }
        let sound = format == FORMAT && xxh3_64(body) == u64::from_le_bytes(*checksum);
        let read = || Some(Header { kind, lsn: Lsn(fields.u64()?), identity: fields.u64()?, salt: fields.u64()? });
        sound.then(read).flatten().ok_or(NotAHeader::Checksum)
    }
}

/// The header of a record.
pub(super) trait RecordHead: Copy {
    /// Its bytes.
    const LEN: usize;

    /// Of its first bytes.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// Bytes of the record, header and all.
    fn whole(&self) -> usize;
}

/// Header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHead {
    pub(super) checksum: u64,
    /// Of the payload, in bytes.
    pub(super) length: u32,
    pub(super) lsn: Lsn,
    /// The last batch that was known to be on the disk when this one was written.
    pub(super) synced: Lsn,
}

impl BatchHead {
    /// Appends a batch to `out`. The payload is at most [`LONGEST`].
    pub(super) fn encode(out: &mut Vec<u8>, salt: u64, lsn: Lsn, synced: Lsn, payload: &[u8]) {
        let at = out.len();
        out.extend([0; 8]);
        out.extend((payload.len() as u32).to_le_bytes());
        out.extend(lsn.0.to_le_bytes());
        out.extend(synced.0.to_le_bytes());
        out.extend(payload);
        seal(out, at, salt);
    }
}

impl RecordHead for BatchHead {
    const LEN: usize = 28;

    fn decode(bytes: &[u8]) -> Option<BatchHead> {
        let mut fields = Fields(bytes);
        Some(BatchHead {
            checksum: fields.u64()?,
            length: fields.u32()?,
            lsn: Lsn(fields.u64()?),
            synced: Lsn(fields.u64()?),
        })
    }

    fn whole(&self) -> usize {
        BatchHead::LEN + self.length as usize
    }
}

/// Header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) checksum: u64,
    /// Of the bytes.
    pub(super) length: u32,
    pub(super) section: u8,
}

/// The section of the last block of a snapshot.
pub(super) const END_SECTION: u8 = 255;

/// Upper limit of section numbers, so that few byte sequences look like a block header.
pub(super) const SECTIONS: u8 = 16;

impl BlockHead {
    /// Appends a block to `out`; `seed` is that of its place. The bytes are at most [`LONGEST`].
    pub(super) fn encode(out: &mut Vec<u8>, seed: u64, section: u8, bytes: &[u8]) {
        let at = out.len();
        out.extend([0; 8]);
        out.extend((bytes.len() as u32).to_le_bytes());
        out.push(section);
        out.extend(bytes);
        seal(out, at, seed);
    }
}

impl RecordHead for BlockHead {
    const LEN: usize = 13;

    fn decode(bytes: &[u8]) -> Option<BlockHead> {
        let mut fields = Fields(bytes);
        Some(BlockHead { checksum: fields.u64()?, length: fields.u32()?, section: fields.take::<1>()?[0] })
    }

    fn whole(&self) -> usize {
        BlockHead::LEN + self.length as usize
    }
}

/// Content of the last block of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SnapshotEnd {
    /// The number of blocks before it.
    pub(super) blocks: u64,
    /// The last batch whose effects the snapshot may hold.
    pub(super) end: Lsn,
}

impl SnapshotEnd {
    pub(super) const LEN: usize = 16;

    pub(super) fn encode(&self) -> Vec<u8> {
        [self.blocks.to_le_bytes(), self.end.0.to_le_bytes()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<SnapshotEnd> {
        let mut fields = Fields(bytes);
        let end = SnapshotEnd { blocks: fields.u64()?, end: Lsn(fields.u64()?) };
        fields.0.is_empty().then_some(end)
    }
}

/// Whether the checksum of a batch or block is correct.
pub(super) fn is_sound(record: &[u8], seed: u64) -> bool {
    #[cfg(test)]
    CHECKED.with(|checked| checked.set(checked.get() + record.len() as u64));
    record.split_first_chunk::<8>().is_some_and(|(sum, rest)| u64::from_le_bytes(*sum) == xxh3_64_with_seed(rest, seed))
}

#[cfg(test)]
thread_local! {
    static CHECKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Bytes whose checksums this thread has computed, to compare with those of a file.
#[cfg(test)]
pub(super) fn bytes_checked() -> u64 {
    CHECKED.with(std::cell::Cell::get)
}

/// Writes the checksum of the bytes from `at + 8` on into the eight bytes at `at`.
fn seal(out: &mut [u8], at: usize, seed: u64) {
    let record = out.get_mut(at..).unwrap_or_default();
    if let Some((sum, rest)) = record.split_first_chunk_mut::<8>() {
        *sum = xxh3_64_with_seed(rest, seed).to_le_bytes();
    }
}

/// Reads numbers from the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

pub(super) const SNAPSHOT: &str = "snapshot-";
pub(super) const JOURNAL: &str = "journal-";

/// Names of files by their first lsn.
pub(super) mod file_name_of {
    use super::{JOURNAL, Lsn, SNAPSHOT};

    pub(in crate::store) fn journal(first: Lsn) -> String {
        format!("{JOURNAL}{first}")
    }

    pub(in crate::store) fn snapshot(lsn: Lsn) -> String {
        format!("{SNAPSHOT}{lsn}")
    }
}
