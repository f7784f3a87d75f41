//! Sentence keys: the part of a sentence's hash that founder tokens keep.

/// Lowest bit of the tag in a sentence's hash; lower bits choose the bucket of the boilerplate table.
pub(super) const TAG_SHIFT: u32 = 24;

/// The bucket of a sentence in 16 bits, and 16 bits of its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SentenceKey(pub(crate) u32);

impl SentenceKey {
    /// The key of a sentence with this hash.
    pub(crate) fn of(hash: u64) -> SentenceKey {
        SentenceKey(((hash >> TAG_SHIFT) as u32) << 16 | hash as u32 & 0xFFFF)
    }
}
