//! How many bytes the text work looks at, counted for its tests alone: that it is linear is asserted by counts and not by
//! clocks. Outside of the tests everything here is the plain search.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the bytes or characters that were just looked at.
#[inline(always)]
pub(super) fn add(steps: usize) {
    #[cfg(test)]
    STEPS.with(|counted| counted.set(counted.get() + steps));
    #[cfg(not(test))]
    let _ = steps;
}

/// The steps that `work` takes.
#[cfg(test)]
pub(super) fn count(work: impl FnOnce()) -> usize {
    let before = STEPS.with(std::cell::Cell::get);
    work();
    STEPS.with(std::cell::Cell::get) - before
}

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
