//! Hints to the memory system: fetch ahead, use large pages. They change speed, never results.
//!
//! The only unsafe code of the workspace outside bindings stands here.

#![allow(unsafe_code)]

/// Asks the processor to fetch the cache line at `place`, which will be used soon.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on the state of the program, whatever the address; this one is valid.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks the processor to fetch all cache lines of `place`, up to `LINES` of them.
#[inline(always)]
pub fn prefetch_lines<T, const LINES: usize>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; prefetching beyond the value would be harmless as well.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(place).cast::<i8>();
        for line in 0..LINES.min(size_of::<T>().div_ceil(64)) {
            _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(64 * line));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks the system to back `values` with large pages: large tables that are read at random miss the TLB otherwise.
pub fn large_pages<T>(values: &[T]) {
    #[cfg(target_os = "linux")]
    {
        const LARGE: usize = 2 << 20;
        let start = (values.as_ptr() as usize).next_multiple_of(LARGE);
        let end = (values.as_ptr() as usize + size_of_val(values)) / LARGE * LARGE;
        if start < end {
            // SAFETY: the range lies within memory that `values` borrows; the advice does not change its content.
            // A refusal is of no consequence.
            unsafe {
                libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing() {
        let values: Vec<u64> = (0..1 << 20).collect();
        large_pages(&values);
        prefetch(&values[17]);
        prefetch_lines::<[u64; 64], 8>(&[1; 64]);
        assert!(values.iter().copied().eq(0..1 << 20));
    }
}
