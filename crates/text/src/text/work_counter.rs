//! Searches that count the bytes they look at ([`crate::work_counter`]). Outside of the tests everything here is the
//! plain search.

pub(super) use crate::work_counter::add;
#[cfg(test)]
pub(super) use crate::work_counter::count;

#[inline(always)]
fn searched(found: Option<usize>, bytes: &[u8]) -> Option<usize> {
    add(found.map_or(bytes.len(), |at| at + 1));
    found
}

/// `memchr::memchr`, counted.
#[inline]
pub(super) fn memchr(needle: u8, bytes: &[u8]) -> Option<usize> {
    searched(memchr::memchr(needle, bytes), bytes)
}

/// `memchr::memchr2`, counted.
#[inline]
pub(super) fn memchr2(one: u8, other: u8, bytes: &[u8]) -> Option<usize> {
    searched(memchr::memchr2(one, other, bytes), bytes)
}

/// `memchr::memmem::find`, counted.
#[inline]
pub(super) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    searched(memchr::memmem::find(bytes, needle), bytes)
}
