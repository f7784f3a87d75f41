//! How much a room looks at (bytes, slots, links), counted for tests alone: that work is bounded is asserted by counts and not
//! by clocks. Outside of the tests nothing is counted.
//!
//! A step is at most a wait for memory. Where there are many (a table is moved, swept or scanned) they lie behind each other and
//! take a few nanoseconds: **1,000,000 of those take less than 5 ms**. `scripts/bench forest` times each placement: its longest
//! (`place_max_us`) is that which moves a table of 262,144 nodes into many shards, 600,000 steps.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts what was just looked at.
#[inline(always)]
pub(crate) fn add(steps: usize) {
    #[cfg(test)]
    STEPS.with(|counted| counted.set(counted.get() + steps));
    #[cfg(not(test))]
    let _ = steps;
}

/// The steps that `work` takes.
#[cfg(test)]
pub(crate) fn count(work: impl FnOnce()) -> usize {
    let before = STEPS.with(std::cell::Cell::get);
    work();
    STEPS.with(std::cell::Cell::get) - before
}
