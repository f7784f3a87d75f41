//! Memory hints that need `unsafe`. They affect no result, so the oracle of each is a no-op, which is also the
//! fallback of other systems.

use std::mem::MaybeUninit;

/// Prefetches the first cache line of a value, without waiting.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "an intrinsic that takes a pointer, here always that of a value")]
    // SAFETY: every x86-64 has the instruction, and it changes nothing and faults at nothing, whatever the pointer.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Requests huge pages for this memory: random reads of a table with small pages miss the TLB. Linux gives them where
/// it is set to (`madvise` or `always` in `/sys/kernel/mm/transparent_hugepage/enabled`).
pub(super) fn ask_for_large_pages<T>(places: &mut [MaybeUninit<T>]) {
    const LARGE: usize = 2 << 20;
    let bytes = size_of_val(places);
    if bytes < 2 * LARGE {
        return;
    }
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "a system call about memory that is our own")]
    {
        let start = places.as_mut_ptr().cast::<u8>();
        let before = start.align_offset(LARGE);
        let len = bytes.saturating_sub(before) / LARGE * LARGE;
        // SAFETY: from the first large page's boundary on, `len` bytes are within the places, so the pointer and the
        // range are. The advice changes no byte, and what it answers is of no use: without it the pages are small.
        unsafe {
            libc::madvise(start.wrapping_add(before).cast(), len, libc::MADV_HUGEPAGE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing() {
        let mut places: Vec<u64> = Vec::with_capacity(1 << 20);
        ask_for_large_pages(places.spare_capacity_mut());
        places.resize(1 << 20, 7);
        places.iter().step_by(100).for_each(prefetch);
        assert!(places.iter().all(|&place| place == 7));
        let mut few = vec![3_u8; 100];
        ask_for_large_pages(few.spare_capacity_mut());
        few.reserve_exact(5_000);
        ask_for_large_pages(few.spare_capacity_mut());
        assert_eq!(few, [3; 100]);
    }
}
