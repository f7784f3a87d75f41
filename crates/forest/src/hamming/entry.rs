//! The value that the index stores for a fingerprint.

use thiserror::Error;

/// Value stored with a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The number of the record of its root. [`u32::MAX`] is none: it marks empty places.
    pub root: u32,
    /// When it last arrived, in the forest's ticks.
    pub tick: u32,
}

impl Entry {
    /// Value of an empty slot.
    pub(super) const NONE: Entry = Entry { root: u32::MAX, tick: 0 };

    pub(super) fn is_none(self) -> bool {
        self.root == u32::MAX
    }
}

/// Error of an insertion: the index is full, or the root's number is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the index is full")]
pub struct Full;
