//! Searches for the next record after an unreadable one.
//!
//! A header is a few bytes without a mark of their own, so almost anywhere may be one, and its checksum covers up to
//! all that follows. What is checked is therefore bounded by a few lengths of the file, and what is most likely a
//! record is checked first: where one header leads to another, and best to the end of the file.
//!
//! Behind a damaged block of a snapshot the search tries first where its length leads; then the places whose lengths
//! lead to the last block ([`Anchors`]); then all others, those with six linked headers first, each with the next eight
//! block numbers. All of it reads and checks at most 40 lengths of the file (`tests/resync.rs`). What this does not
//! find is lost and reported.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::error::StoreError;
use super::format::{BlockHead, END_SECTION, LONGEST, RecordHead, SECTIONS, SnapshotEnd, is_sound};
use super::record_file::{AT_ONCE, RecordFile};

/// Lengths of the file that may be checked in vain.
const MOST_CHECKED: u64 = 8;
/// Bytes that are searched first: the next record is mostly near.
const FIRST_READ: usize = 4 << 10;
/// Consecutive headers that suffice as evidence of a record.
const MOST_LINKS: usize = 6;
/// Numbers of consecutive headers: of likely records, and of all others.
pub(super) const LINKED: RangeInclusive<usize> = MOST_LINKS..=MOST_LINKS;
pub(super) const UNLINKED: RangeInclusive<usize> = 0..=MOST_LINKS - 1;
/// Places that may lead to the last block. A snapshot has fewer blocks, and their memory is bounded.
const MOST_ANCHORS: usize = 1 << 20;

/// Remaining budget of bytes that are checked at offsets without a record.
#[derive(Debug)]
pub(super) struct Allowance(u64);

impl Allowance {
    pub(super) fn of_file(len: u64) -> Allowance {
        Allowance(len.saturating_mul(MOST_CHECKED))
    }

    /// Consumes bytes of the budget; false if fewer are left.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// Returns the cost of an offset that turned out to be a record.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.0 += bytes;
    }
}

/// The result of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<T> {
    /// The first record: its offset, and the result of its check.
    pub(super) record: Option<(u64, T)>,
    /// Whether everything that may be a record was checked.
    pub(super) is_complete: bool,
}

/// The criteria of a search.
pub(super) struct Sought<M, C> {
    /// Whether a header at this offset is plausible by itself, and after its predecessor if that is known.
    pub(super) may_be: M,
    /// Checks a whole record; returns its result if it is intact.
    pub(super) check: C,
    /// How many checksums of a record that takes at most.
    pub(super) checksums: u64,
}

/// A header that may be one.
struct Candidate<H> {
    links: usize,
    at: u64,
    head: H,
}

/// Finds the first record in `range` that is followed by a number of headers in [`LINKED`] or [`UNLINKED`].
///
/// # Errors
/// Those of reading.
pub(super) fn search<H: RecordHead, T>(
    source: &mut RecordFile,
    range: Range<u64>,
    allowance: &mut Allowance,
    followed_by: &RangeInclusive<usize>,
    sought: &Sought<impl Fn(u64, &H, Option<&H>) -> bool, impl Fn(&H, &[u8]) -> Option<T>>,
) -> Result<Found<T>, StoreError> {
    let len = source.len();
    let (mut at, mut step, mut is_complete) = (range.start, FIRST_READ, true);
    let (mut held, mut record) = (Vec::new(), Vec::new());
    while at < range.end {
        let count = (step as u64).min(len - at) as usize;
        if !allowance.take(count as u64) {
            return Ok(Found { record: None, is_complete: false });
        }
        source.read(at, count, &mut held)?;
        let mut candidates = Vec::new();
        for (bytes, from) in held.windows(H::LEN).zip(at..range.end) {
            if let Some(head) = H::decode(bytes).filter(|head| (sought.may_be)(from, head, None)) {
                let links = links(source, (at, &held), (from, head), allowance, &sought.may_be)?;
                if followed_by.contains(&links) {
                    candidates.push(Candidate { links, at: from, head });
                }
            }
        }
        candidates.sort_by_key(|candidate| (Reverse(candidate.links), candidate.at));
        let mut first = None;
        for Candidate { at, head, .. } in candidates {
            // One that leads to fewer may still come before.
            if first.as_ref().is_some_and(|(found, _)| *found <= at) {
                continue;
            }
            let cost = head.whole() as u64 * sought.checksums;
            if !allowance.take(cost) {
                is_complete = false;
                continue;
            }
            source.read(at, head.whole(), &mut record)?;
            if let Some(checked) = (sought.check)(&head, &record) {
                allowance.give_back(cost);
                first = Some((at, checked));
            }
        }
        if first.is_some() {
            // What was passed over is not read again.
            allowance.give_back(at - range.start);
            return Ok(Found { record: first, is_complete });
        }
        // The next part begins with what may be the first bytes of a header.
        let seen = (count + 1).saturating_sub(H::LEN);
        if seen == 0 {
            break;
        }
        at += seen as u64;
        step = (2 * step).min(AT_ONCE);
    }
    Ok(Found { record: None, is_complete })
}

/// How many headers follow one another from here, up to [`MOST_LINKS`], which those have that lead to the end of the
/// file. `part`: bytes that are in memory, and where they begin.
fn links<H: RecordHead>(
    source: &mut RecordFile,
    part: (u64, &[u8]),
    (mut at, mut head): (u64, H),
    allowance: &mut Allowance,
    may_be: &impl Fn(u64, &H, Option<&H>) -> bool,
) -> Result<usize, StoreError> {
    let (begin, held) = part;
    let mut read = Vec::new();
    for links in 0..MOST_LINKS {
        at += head.whole() as u64;
        if at == source.len() {
            return Ok(MOST_LINKS);
        }
        let from = (at - begin) as usize;
        let bytes = match held.get(from..from.saturating_add(H::LEN)) {
            Some(bytes) => bytes,
            None if source.len() - at < H::LEN as u64 || !allowance.take(H::LEN as u64) => return Ok(links),
            None => {
                source.read(at, H::LEN, &mut read)?;
                &read
            }
        };
        let Some(next) = H::decode(bytes).filter(|next| may_be(at, next, Some(&head))) else {
            return Ok(links);
        };
        head = next;
    }
    Ok(MOST_LINKS)
}

/// Where blocks of a snapshot may begin whose lengths lead exactly to its last block, with the numbers that they have
/// then. A place that is no block is rarely among them, since it must meet the header of a block to the byte.
#[derive(Debug)]
pub(super) struct Anchors {
    numbers: BTreeMap<u64, u64>,
    allowance: Allowance,
}

impl Anchors {
    /// Those from `from` on, by one pass over the file from its end; none if the last block does not read. `blocks`
    /// were read before.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn find(source: &mut RecordFile, from: u64, blocks: u64) -> Result<Anchors, StoreError> {
        let mut anchors = Anchors { numbers: BTreeMap::new(), allowance: Allowance::of_file(source.len()) };
        let numbers = &mut anchors.numbers;
        let last = source.len().saturating_sub((BlockHead::LEN + SnapshotEnd::LEN) as u64);
        let mut held = Vec::new();
        if let Some(end) = last_block(source, last)?.filter(|end| last >= from && end.blocks > blocks) {
            numbers.insert(last, end.blocks);
        }
        let mut end = last;
        while end > from && (1..MOST_ANCHORS).contains(&numbers.len()) {
            let begin = end.saturating_sub(AT_ONCE as u64).max(from);
            // The last block is longer than the header that the part may end with.
            source.read(begin, (end - begin) as usize + BlockHead::LEN - 1, &mut held)?;
            for (skipped, bytes) in held.windows(BlockHead::LEN).enumerate().rev() {
                let Some(head) = BlockHead::decode(bytes) else { continue };
                let at = begin + skipped as u64;
                let next = at + head.whole() as u64;
                if next > last || head.section >= SECTIONS || head.length as usize > LONGEST {
                    continue;
                }
                // A chain of more blocks than are missing leads from no block.
                if let Some(&number) = numbers.get(&next).filter(|number| **number > blocks + 1) {
                    numbers.insert(at, number - 1);
                }
            }
            end = begin;
        }
        Ok(anchors)
    }

    /// The first of them that is a block, and its number, which is above that of the damaged one.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn first_block(
        &mut self,
        source: &mut RecordFile,
        from: u64,
        damaged: u64,
    ) -> Result<Option<(u64, u64)>, StoreError> {
        let (mut header, mut record) = (Vec::new(), Vec::new());
        for (&at, &number) in self.numbers.range(from..).filter(|(_, number)| **number > damaged) {
            source.read(at, BlockHead::LEN, &mut header)?;
            let whole = BlockHead::decode(&header).map_or(0, |head| head.whole());
            if !self.allowance.take(whole as u64) {
                continue;
            }
            source.read(at, whole, &mut record)?;
            if is_sound(&record, source.seed_of(number)) {
                return Ok(Some((at, number)));
            }
        }
        Ok(None)
    }
}

/// The trailer of a snapshot, if it reads.
fn last_block(source: &mut RecordFile, at: u64) -> Result<Option<SnapshotEnd>, StoreError> {
    let mut record = Vec::new();
    let len = source.len() - at;
    source.read(at, len as usize, &mut record)?;
    let head = BlockHead::decode(&record);
    let is_last = head.is_some_and(|head| head.section == END_SECTION && head.whole() as u64 == len);
    let end = record.get(BlockHead::LEN..).and_then(SnapshotEnd::decode);
    Ok(end.filter(|end| is_last && is_sound(&record, source.seed_of(end.blocks))))
}
