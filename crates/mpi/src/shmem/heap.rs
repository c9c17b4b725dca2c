//! The symmetric heap: the same offsets on every PE, because all allocate the same in the same order.
//!
//! Source: OpenSHMEM 1.5, §9.3 (`shmem_malloc`, `shmem_align`), §7 (SHMEM_SYMMETRIC_SIZE).
//! Modelled: alignment, and that the heap has an end.
//! Not modelled: `shmem_free` in another order than that of allocation: room comes back from the end alone.

use fabriscope_units::Bytes;

/// What is taken of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heap {
    size: u64,
    taken: u64,
}

/// Why an allocation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum HeapError {
    /// There is no room.
    #[error("the symmetric heap of {size} has {left} left, and {asked} are asked for")]
    #[diagnostic(help("set SHMEM_SYMMETRIC_SIZE: --symmetric-size {needed}"))]
    Full {
        /// The heap.
        size: Bytes,
        /// Of it free.
        left: Bytes,
        /// What is asked for.
        asked: Bytes,
        /// The smallest heap with room for it, in bytes.
        needed: u64,
    },
    /// Alignments are powers of two.
    #[error("an alignment of {0} bytes")]
    #[diagnostic(help("give a power of two"))]
    Alignment(u64),
}

impl Heap {
    /// An empty heap.
    #[must_use]
    pub fn new(size: Bytes) -> Heap {
        Heap { size: size.0, taken: 0 }
    }
    /// `shmem_align`: the offset of `bytes` at a multiple of `alignment`.
    ///
    /// # Errors
    /// An alignment that is no power of two; no room.
    pub fn allocate(&mut self, bytes: u64, alignment: u64) -> Result<u64, HeapError> {
        if !alignment.is_power_of_two() {
            return Err(HeapError::Alignment(alignment));
        }
        let offset = self.taken.next_multiple_of(alignment);
        let end = offset.saturating_add(bytes);
        if end > self.size {
            let left = Bytes(self.size - self.taken);
            return Err(HeapError::Full { size: Bytes(self.size), left, asked: Bytes(bytes), needed: end });
        }
        self.taken = end;
        Ok(offset)
    }
    /// Bytes of the heap.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn offsets_are_aligned_and_the_end_is_told() {
        let mut heap = Heap::new(Bytes(256));
        assert_eq!([heap.allocate(3, 8), heap.allocate(8, 64), heap.allocate(0, 1)], [Ok(0), Ok(64), Ok(72)]);
        assert_eq!(heap.allocate(8, 24), Err(HeapError::Alignment(24)));
        let error = heap.allocate(200, 8).unwrap_err();
        assert_eq!(error, HeapError::Full { size: Bytes(256), left: Bytes(184), asked: Bytes(200), needed: 272 });
        assert!(error.in_full().contains("--symmetric-size 272"), "{error}");
    }
}
