//! What the language has no safe words for: to ask for memory before it is read.

/// Begins to bring the cache line in which a value begins into the cache, and waits for nothing. The oracle of it is to do
/// nothing: no answer depends on it, which `prefetching_changes_nothing` holds it to.
#[inline(always)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(
        unsafe_code,
        reason = "an intrinsic that takes a pointer, here always that of a value"
    )]
    // SAFETY: every x86-64 has the instruction, and it changes and faults at nothing, whatever the pointer.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
