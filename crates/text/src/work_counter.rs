//! Counts work (bytes, slots, links) for tests: bounds of work are asserted by counts, not by clocks. Compiled out
//! otherwise.
//!
//! **5 ms are 180,000 steps** at the least: as the tests are built, on a machine that did other work as well, a table
//! swept from end to end took 8 to 11 ns a place, and one of 282,000 nodes that was moved into many shards 27 ns a node
//! at best, which had to get its memory from the system. What it is in a release build `scripts/bench forest` says
//! (`place_max_us`).

#[cfg(any(test, feature = "count-work"))]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts what was just looked at.
#[inline(always)]
pub fn add(steps: usize) {
    #[cfg(any(test, feature = "count-work"))]
    STEPS.with(|counted| counted.set(counted.get() + steps));
    #[cfg(not(any(test, feature = "count-work")))]
    let _ = steps;
}

/// The steps that `work` takes.
#[cfg(any(test, feature = "count-work"))]
pub fn count(work: impl FnOnce()) -> usize {
    let before = STEPS.with(std::cell::Cell::get);
    work();
    STEPS.with(std::cell::Cell::get) - before
}
