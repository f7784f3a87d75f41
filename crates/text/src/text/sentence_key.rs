//! Sentences by a part of their hash.

/// The bits of a sentence's hash from here on are its tag; the lower ones choose its bucket.
pub(super) const TAG_SHIFT: u32 = 24;

/// The part of a sentence's hash that founder tokens keep: bits of its bucket and of its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SentenceKey(pub(crate) u32);

impl SentenceKey {
    /// The key of a sentence with this hash.
    pub(crate) fn of(hash: u64) -> SentenceKey {
        SentenceKey(((hash >> TAG_SHIFT) as u32) << 16 | hash as u32 & 0xFFFF)
    }
}
