//! Edits over an unchanged body.
//!
//! The inserted bytes of all edits lie in one arena; an edit is a small record of its offset in the body, how many
//! bytes it removes and where its bytes in the arena end. The stamped body is produced in chunks while it is sent, so
//! it never exists twice.

use bytes::Bytes;
use std::ops::Range;

use super::cut::Cut;
use super::selection::StampNames;
use super::stamp::{Stamp, write_stamp};

/// Why an edit was not taken. The splice stays as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// Edits must be in the order of the body.
    #[error("an edit at byte {offset} comes after one that ends at byte {end}; push edits in the order of the body")]
    Order {
        /// Where the edit begins.
        offset: usize,
        /// Where the one before ends.
        end: usize,
    },
    /// More bytes than an edit can count.
    #[error("the edits exceed 4 GiB; split the request")]
    TooLarge,
}

#[derive(Debug, Clone, Copy)]
struct Edit {
    offset: usize,
    removed: u32,
    /// Where this edit's bytes end in the arena; they begin where those of the edit before end.
    arena_end: u32,
}

impl Edit {
    fn end(&self) -> usize {
        self.offset.saturating_add(self.removed as usize)
    }
}

/// Edits over an original body, in its order.
#[derive(Debug, Clone, Default)]
pub struct Splice {
    edits: Vec<Edit>,
    arena: Vec<u8>,
}

impl Splice {
    /// Replaces `removed` bytes at `offset` by `inserted`.
    ///
    /// # Errors
    /// The offset lies before the end of the last edit, or the edits become too large.
    pub fn push(&mut self, offset: usize, removed: usize, inserted: &[u8]) -> Result<(), SpliceError> {
        let before = self.arena.len();
        self.arena.extend_from_slice(inserted);
        self.record(offset, removed).inspect_err(|_| self.arena.truncate(before))
    }

    /// Stamps a document that begins at byte `base` of the body.
    ///
    /// # Errors
    /// As [`Splice::push`]: the document lies before the end of the last edit, or the edits become too large.
    pub fn stamp(&mut self, base: usize, cut: &Cut, names: &StampNames, stamp: &Stamp<'_>) -> Result<(), SpliceError> {
        let (edits, bytes) = (self.edits.len(), self.arena.len());
        write_stamp(&mut self.arena, names, stamp);
        if cut.keeps_members {
            self.arena.push(b',');
        }
        let outcome = self.record(base.saturating_add(cut.insert_at), 0).and_then(|()| {
            cut.removals.iter().try_for_each(|range| self.record(base.saturating_add(range.start), range.len()))
        });
        if outcome.is_err() {
            self.edits.truncate(edits);
            self.arena.truncate(bytes);
        }
        outcome
    }

    /// Records the bytes added to the arena since the last edit as an edit.
    fn record(&mut self, offset: usize, removed: usize) -> Result<(), SpliceError> {
        let end = self.edits.last().map_or(0, Edit::end);
        if offset < end {
            return Err(SpliceError::Order { offset, end });
        }
        let removed = u32::try_from(removed).map_err(|_| SpliceError::TooLarge)?;
        let arena_end = u32::try_from(self.arena.len()).map_err(|_| SpliceError::TooLarge)?;
        self.edits.push(Edit { offset, removed, arena_end });
        Ok(())
    }

    /// Whether the body is forwarded unchanged.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The length in bytes of the edited body, from that of the original.
    pub fn len(&self, original_len: usize) -> usize {
        let removed = self.edits.iter().fold(0, |sum: usize, edit| {
            let inside = edit.end().min(original_len).saturating_sub(edit.offset);
            sum.saturating_add(inside)
        });
        original_len.saturating_sub(removed).saturating_add(self.arena.len())
    }

    /// The edited body in chunks of at most `target` bytes (1 at least), made one by one.
    pub fn chunks(self, original: Bytes, target: usize) -> Chunks {
        let remaining = self.len(original.len());
        Chunks { original, splice: self, pieces: Pieces::default(), current: None, target: target.max(1), remaining }
    }

    /// Appends the edited body whole: for small ones.
    pub fn write_to(&self, original: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.len(original.len()));
        let mut pieces = Pieces::default();
        while let Some(piece) = pieces.next(self, original.len()) {
            out.extend_from_slice(piece.of(self, original));
        }
    }
}

/// A stretch of the edited body: bytes of the original or of the arena.
#[derive(Debug, Clone)]
enum Piece {
    Original(Range<usize>),
    Inserted(Range<usize>),
}

impl Piece {
    fn of<'a>(&self, splice: &'a Splice, original: &'a [u8]) -> &'a [u8] {
        match self {
            Piece::Original(range) => original.get(range.clone()),
            Piece::Inserted(range) => splice.arena.get(range.clone()),
        }
        .unwrap_or_default()
    }

    fn range(&mut self) -> &mut Range<usize> {
        match self {
            Piece::Original(range) | Piece::Inserted(range) => range,
        }
    }
}

/// The pieces of the edited body in their order: how far the last one reached.
#[derive(Debug, Clone, Default)]
struct Pieces {
    edit: usize,
    original: usize,
    arena: usize,
}

impl Pieces {
    /// The next piece that is not empty.
    fn next(&mut self, splice: &Splice, original_len: usize) -> Option<Piece> {
        loop {
            let Some(edit) = splice.edits.get(self.edit) else {
                let rest = self.original..original_len;
                self.original = original_len;
                return (!rest.is_empty()).then_some(Piece::Original(rest));
            };
            let gap = self.original..edit.offset.min(original_len);
            if !gap.is_empty() {
                self.original = gap.end;
                return Some(Piece::Original(gap));
            }
            let inserted = self.arena..edit.arena_end as usize;
            self.original = self.original.max(edit.end().min(original_len));
            self.arena = inserted.end;
            self.edit += 1;
            if !inserted.is_empty() {
                return Some(Piece::Inserted(inserted));
            }
        }
    }
}

/// The edited body as an iterator of chunks. Long stretches without an edit are slices of the original, everything else
/// is copied together.
#[derive(Debug, Clone)]
pub struct Chunks {
    original: Bytes,
    splice: Splice,
    pieces: Pieces,
    current: Option<Piece>,
    target: usize,
    remaining: usize,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while chunk.len() < self.target {
            let piece = self.current.take().or_else(|| self.pieces.next(&self.splice, self.original.len()));
            let Some(mut piece) = piece else { break };
            if chunk.is_empty()
                && let Piece::Original(range) = &mut piece
                && range.len() >= self.target
            {
                let end = range.start + self.target;
                let slice = self.original.slice(range.start..end);
                range.start = end;
                self.current = (range.start < range.end).then_some(piece);
                self.remaining = self.remaining.saturating_sub(slice.len());
                return Some(slice);
            }
            if chunk.capacity() == 0 {
                chunk.reserve_exact(self.target.min(self.remaining));
            }
            let room = self.target - chunk.len();
            let bytes = piece.of(&self.splice, &self.original);
            let taken = bytes.len().min(room);
            chunk.extend(bytes.iter().take(taken));
            let range = piece.range();
            range.start += taken;
            self.current = (range.start < range.end).then_some(piece);
        }
        self.remaining = self.remaining.saturating_sub(chunk.len());
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(splice: &Splice, original: &str) -> String {
        let mut out = Vec::new();
        splice.write_to(original.as_bytes(), &mut out);
        assert_eq!(out.len(), splice.len(original.len()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn edits_insert_and_remove_in_order() {
        let mut splice = Splice::default();
        assert!(splice.is_empty());
        assert_eq!(whole(&splice, "abc"), "abc");
        splice.push(0, 0, b"<").unwrap();
        splice.push(0, 1, b"A").unwrap();
        splice.push(1, 0, b"-").unwrap();
        splice.push(2, 1, b"").unwrap();
        splice.push(4, 0, b">").unwrap();
        assert!(!splice.is_empty());
        assert_eq!(whole(&splice, "abcd"), "<A-bd>");
    }

    #[test]
    fn an_edit_out_of_order_changes_nothing() {
        let mut splice = Splice::default();
        splice.push(3, 2, b"xy").unwrap();
        assert_eq!(splice.push(4, 0, b"no"), Err(SpliceError::Order { offset: 4, end: 5 }));
        let names = StampNames::new("c_").unwrap();
        let stamp = Stamp { root: 1, is_local_fallback: false, hashes: &[], arrival: None, proof: None, first: None };
        let backwards = Cut { insert_at: 8, keeps_members: false, removals: vec![9..10, 8..9] };
        assert_eq!(splice.stamp(0, &backwards, &names, &stamp), Err(SpliceError::Order { offset: 8, end: 10 }));
        splice.push(5, 0, b"z").unwrap();
        assert_eq!(whole(&splice, "abcdefgh"), "abcxyzfgh");
    }

    #[test]
    fn edits_beyond_the_body_remove_nothing() {
        let mut splice = Splice::default();
        splice.push(2, 10, b"!").unwrap();
        splice.push(20, 5, b"?").unwrap();
        splice.push(usize::MAX, 9, b"").unwrap();
        assert_eq!(whole(&splice, "abc"), "ab!?");
        assert_eq!(whole(&splice, ""), "!?");
    }

    #[test]
    fn a_stamp_replaces_the_old_one() {
        let names = StampNames::new("c_").unwrap();
        let stamp = Stamp { root: 255, is_local_fallback: false, hashes: &[], arrival: None, proof: None, first: None };
        let mut splice = Splice::default();
        let cut = Cut { insert_at: 1, keeps_members: true, removals: vec![1..11, 11..12] };
        splice.stamp(2, &cut, &names, &stamp).unwrap();
        let cut = Cut { insert_at: 1, keeps_members: false, removals: vec![] };
        splice.stamp(21, &cut, &names, &stamp).unwrap();
        assert_eq!(
            whole(&splice, "--{\"c_key\":12,\"a\":1}\n{}"),
            "--{\"c_root\":\"00000000000000ff\",\"c_key\":255,\"a\":1}\n{\"c_root\":\"00000000000000ff\",\"c_key\":255}"
        );
    }

    #[test]
    fn chunks_are_bounded_and_share_long_stretches() {
        let original = Bytes::from((0..=255u8).cycle().take(10_000).collect::<Vec<_>>());
        let mut splice = Splice::default();
        splice.push(5, 3, b"inserted").unwrap();
        splice.push(9_000, 0, &[7; 300]).unwrap();
        let mut expected = Vec::new();
        splice.write_to(&original, &mut expected);
        for target in [0, 1, 7, 100, 1_000, 20_000] {
            let chunks = splice.clone().chunks(original.clone(), target);
            let chunks: Vec<Bytes> = chunks.collect();
            assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= target.max(1)));
            assert_eq!(chunks.concat(), expected, "{target}");
        }
        let body = original.as_ptr_range();
        let mut chunks = splice.chunks(original.clone(), 1_000);
        let shared = chunks.by_ref().filter(|chunk| body.contains(&chunk.as_ptr())).count();
        assert_eq!(shared, 8);
        assert!(chunks.next().is_none());
    }
}
