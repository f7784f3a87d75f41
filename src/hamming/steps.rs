//! How many slots, words and links an index looks at, counted for its tests alone.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts what was just looked at.
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
