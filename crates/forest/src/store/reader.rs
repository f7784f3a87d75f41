//! Verifying readers of segments and snapshots.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Lsn;
use super::error::StoreError;
use super::files::File;
use super::format::{
    BatchHead, BlockHead, END_SECTION, FileKind, LONGEST, RecordHead, SECTIONS, SnapshotEnd, is_sound,
};
use super::record_file::RecordFile;
use super::search::{Allowance, Anchors, Found, LINKED, Sought, UNLINKED, search};

/// Longest record that is searched for after an unreadable one, and most records that may be missing in between.
const LONGEST_SOUGHT: usize = 64 << 20;
const MOST_LOST: u64 = 8;

/// Reads the blocks of a snapshot.
#[derive(Debug)]
pub(super) struct SnapshotReader {
    source: RecordFile,
    blocks: u64,
    /// Of the block that was read last.
    head: Option<BlockHead>,
    /// Since a block did not read.
    anchors: Option<Anchors>,
    allowance: Allowance,
}

impl SnapshotReader {
    pub(super) fn open(
        path: PathBuf,
        file: Box<dyn File>,
        lsn: Lsn,
        identity: u64,
    ) -> Result<SnapshotReader, StoreError> {
        let source = RecordFile::open(path, file, (FileKind::Snapshot, lsn, identity))?;
        let allowance = Allowance::of_file(source.len());
        Ok(SnapshotReader { source, blocks: 0, head: None, anchors: None, allowance })
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.source.window.len
    }

    pub(super) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Bytes that were read.
    pub(super) fn offset(&self) -> u64 {
        self.source.window.offset
    }

    /// Returns the next block, and the trailer at the end.
    pub(super) fn advance(&mut self) -> Result<Option<SnapshotEnd>, StoreError> {
        let source = &mut self.source;
        let head = source.peek(BlockHead::LEN)?.and_then(BlockHead::decode);
        let Some(head) = head else {
            return Err(source.damaged("it ends without its last block"));
        };
        let is_possible = head.length as usize <= LONGEST;
        let seed = source.seed_of(self.blocks);
        let record = match is_possible {
            true => source.peek(head.whole())?,
            false => None,
        };
        if !record.is_some_and(|record| is_sound(record, seed)) {
            return Err(source.damaged("the checksum of a block"));
        }
        let record = record.and_then(|record| record.get(BlockHead::LEN..));
        let end = match head.section {
            END_SECTION => record.and_then(SnapshotEnd::decode),
            _ => None,
        };
        if head.section != END_SECTION {
            source.window.skip(head.whole());
            self.blocks += 1;
            self.head = Some(head);
            return Ok(None);
        }
        if end.is_none_or(|end| end.blocks != self.blocks) {
            return Err(source.damaged("its last block counts other blocks"));
        }
        source.window.skip(head.whole());
        if source.window.rest() > 0 {
            return Err(source.damaged("bytes behind its last block"));
        }
        self.head = None;
        Ok(end)
    }

    /// Where the bytes of the block that was read last begin.
    pub(super) fn begin(&self) -> u64 {
        let head = self.head.map_or(0, |head| u64::from(head.length));
        self.source.window.offset - head
    }

    /// Skips an unreadable block, and continues with the next readable one. Answers whether there is one; otherwise
    /// nothing more is to be had of the snapshot. All calls together read and check a few times the file's length.
    pub(super) fn resync(&mut self) -> Result<bool, StoreError> {
        self.head = None;
        let (from, damaged) = (self.source.window.offset, self.blocks);
        if let Some(at) = self.behind(from)? {
            self.source.window.seek(at);
            self.blocks += 1;
            return Ok(true);
        }
        let mut anchors = match self.anchors.take() {
            Some(anchors) => anchors,
            None => Anchors::find(&mut self.source, from, damaged)?,
        };
        // From here: what lies here may be a later block, if those before it are gone.
        let anchored = anchors.first_block(&mut self.source, from, damaged)?;
        self.anchors = Some(anchors);
        let next = match anchored {
            Some((_, number)) if number == damaged + 1 => anchored,
            // Others lie before it, which lead to one more that does not read.
            Some((at, _)) => self.search(from..at)?.or(anchored),
            None => self.search(from..self.len())?,
        };
        let Some((at, number)) = next else {
            self.source.window.seek(self.len());
            return Ok(false);
        };
        self.source.window.seek(at);
        self.blocks = number;
        Ok(true)
    }

    /// Where the next block begins, if the length of the damaged one leads to it.
    fn behind(&mut self, from: u64) -> Result<Option<u64>, StoreError> {
        let seed = self.source.seed_of(self.blocks + 1);
        let Some(damaged) = self.head_at(from)? else {
            return Ok(None);
        };
        let at = from + damaged.whole() as u64;
        let Some(next) = self.head_at(at)?.filter(|next| at + next.whole() as u64 <= self.len()) else {
            return Ok(None);
        };
        let cost = next.whole() as u64;
        if !self.allowance.take(cost) {
            return Ok(None);
        }
        let mut record = Vec::new();
        self.source.read(at, next.whole(), &mut record)?;
        if !is_sound(&record, seed) {
            return Ok(None);
        }
        self.allowance.give_back(cost);
        Ok(Some(at))
    }

    /// The header of a block at this offset, if it is complete and its length is valid.
    fn head_at(&mut self, at: u64) -> Result<Option<BlockHead>, StoreError> {
        if self.len().saturating_sub(at) < BlockHead::LEN as u64 {
            return Ok(None);
        }
        let mut header = Vec::new();
        self.source.read(at, BlockHead::LEN, &mut header)?;
        Ok(BlockHead::decode(&header).filter(|head| head.length as usize <= LONGEST))
    }

    /// The first block in this range with a valid checksum, and its number.
    fn search(&mut self, range: Range<u64>) -> Result<Option<(u64, u64)>, StoreError> {
        let (len, salt, damaged) = (self.len(), self.source.salt, self.blocks);
        let may_be = |at: u64, head: &BlockHead, before: Option<&BlockHead>| {
            let end = at + head.whole() as u64;
            let is_last = head.section == END_SECTION;
            let is_any = head.section < SECTIONS && (head.length > 0 || before.is_some());
            head.length as usize <= LONGEST_SOUGHT && end <= len && (is_any || is_last && end == len)
        };
        let (mut next, mut end) = (None, range.end);
        // Mostly one is lost, and one checksum is less than eight.
        for (followed_by, checksums) in [(LINKED, 1), (LINKED, MOST_LOST), (UNLINKED, 1), (UNLINKED, MOST_LOST)] {
            let check = |_: &BlockHead, record: &[u8]| {
                let mut numbers = damaged + 1..=damaged + checksums;
                numbers.find(|number| is_sound(record, salt.wrapping_add(*number)))
            };
            let sought = Sought { may_be, check, checksums };
            let found = search(&mut self.source, range.start..end, &mut self.allowance, &followed_by, &sought)?;
            let Some((at, number)) = found.record else { continue };
            (next, end) = (found.record, at);
            if number == damaged + 1 {
                break;
            }
        }
        Ok(next)
    }

    /// Section and bytes of the block that was read last.
    pub(super) fn block(&self) -> Option<(u8, &[u8])> {
        let head = self.head?;
        let bytes = self.source.window.last(head.length as usize);
        Some((head.section, bytes))
    }
}

/// Reads the batches of a segment.
#[derive(Debug)]
pub(super) struct SegmentReader {
    source: RecordFile,
    first: Lsn,
    /// The LSN of the next batch.
    expected: Lsn,
    head: Option<BatchHead>,
    allowance: Allowance,
}

/// Next part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A batch, which is read.
    Batch,
    /// The end of the file.
    End,
    /// Something that is no batch.
    Torn,
}

impl SegmentReader {
    pub(super) fn open(
        path: PathBuf,
        file: Box<dyn File>,
        first: Lsn,
        identity: u64,
    ) -> Result<SegmentReader, StoreError> {
        let source = RecordFile::open(path, file, (FileKind::Segment, first, identity))?;
        let allowance = Allowance::of_file(source.len());
        Ok(SegmentReader { source, first, expected: first, head: None, allowance })
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.source.window.len
    }

    pub(super) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Bytes that were read.
    pub(super) fn offset(&self) -> u64 {
        self.source.window.offset
    }

    /// The lsn of the first batch.
    pub(super) fn first(&self) -> Lsn {
        self.first
    }

    /// The LSN of the next batch.
    pub(super) fn expected(&self) -> Lsn {
        self.expected
    }

    pub(super) fn salt(&self) -> u64 {
        self.source.salt
    }

    /// The file, to go on writing.
    pub(super) fn into_file(self) -> Box<dyn File> {
        self.source.window.file
    }

    /// Error for damage at the current position.
    pub(super) fn damaged(&self, what: &'static str) -> StoreError {
        self.source.damaged(what)
    }

    /// Reads the next batch.
    pub(super) fn advance(&mut self) -> Result<Next, StoreError> {
        self.head = None;
        let source = &mut self.source;
        if source.window.rest() == 0 {
            return Ok(Next::End);
        }
        let head = source.peek(BatchHead::LEN)?.and_then(BatchHead::decode);
        let Some(head) = head.filter(|head| head.length as usize <= LONGEST) else {
            return Ok(Next::Torn);
        };
        let salt = source.salt;
        let record = source.peek(head.whole())?;
        if !record.is_some_and(|record| is_sound(record, salt)) {
            return Ok(Next::Torn);
        }
        if head.lsn != self.expected || head.synced >= head.lsn {
            return Err(source.damaged("a batch that does not belong here"));
        }
        source.window.skip(head.whole());
        self.expected = head.lsn.next();
        self.head = Some(head);
        Ok(Next::Batch)
    }

    /// Number and payload of the batch that was read last.
    pub(super) fn batch(&self) -> Option<(Lsn, &[u8])> {
        let head = self.head?;
        let payload = self.source.window.last(head.length as usize);
        Some((head.lsn, payload))
    }

    /// Where the payload of the batch that was read last begins.
    pub(super) fn begin(&self) -> u64 {
        let head = self.head.map_or(0, |head| u64::from(head.length));
        self.source.window.offset - head
    }

    /// Skips unreadable bytes, and continues with the next readable batch or the end of the file. All calls together
    /// read and check a few times the file's length.
    pub(super) fn resync(&mut self) -> Result<(), StoreError> {
        let expected = self.expected;
        // Behind the one that does not read nothing lies before the next one.
        let found = self.find(|head| head.lsn >= expected, |lsn| lsn <= expected.next())?;
        match found.record {
            Some((at, lsn)) => {
                self.source.window.seek(at);
                self.expected = lsn;
            }
            None => self.source.window.seek(self.source.window.len),
        }
        Ok(())
    }

    /// Whether a later batch proves that the unreadable one was synced: then it is damaged, not torn.
    pub(super) fn is_vouched_for(&mut self) -> Result<bool, StoreError> {
        let expected = self.expected;
        let found = self.find(|head| expected < head.lsn && expected <= head.synced, |_| true)?;
        // What looks like so many batches that they cannot all be checked is not cut off.
        Ok(found.record.is_some() || !found.is_complete)
    }

    /// Finds the first intact batch after the read position that is accepted, or one that is `enough`; returns offset
    /// and number.
    fn find(
        &mut self,
        is_wanted: impl Fn(&BatchHead) -> bool,
        enough: impl Fn(Lsn) -> bool,
    ) -> Result<Found<Lsn>, StoreError> {
        let expected = self.expected;
        // Each takes at least its head.
        let most = self.source.window.rest() / BatchHead::LEN as u64;
        let (seed, len, from) = (self.source.salt, self.source.window.len, self.source.window.offset);
        let may_be = |at: u64, head: &BatchHead, before: Option<&BatchHead>| {
            let numbers = expected <= head.lsn && head.lsn.0 - expected.0 <= most && head.synced < head.lsn;
            let fits = head.length as usize <= LONGEST && head.whole() as u64 <= len - at;
            let follows = before.is_none_or(|before| head.lsn == before.lsn.next() && head.synced >= before.synced);
            numbers && fits && follows && is_wanted(head)
        };
        let check = |head: &BatchHead, record: &[u8]| is_sound(record, seed).then_some(head.lsn);
        let sought = Sought { may_be, check, checksums: 1 };
        let (mut next, mut end) = (Found { record: None, is_complete: true }, len);
        for followed_by in [LINKED, UNLINKED] {
            let found = search(&mut self.source, from..end, &mut self.allowance, &followed_by, &sought)?;
            next.is_complete &= found.is_complete;
            let Some((at, lsn)) = found.record else { continue };
            (next.record, end) = (found.record, at);
            if enough(lsn) {
                break;
            }
        }
        Ok(next)
    }
}
