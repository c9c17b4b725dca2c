//! Operations on one element of four or eight bytes, as an adapter or a core carries them out.
//!
//! Source: as `atomic.rs`.

use fabriscope_verbs::Atomic;

use super::contents::Contents;

/// An operation on one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds; of nothing, it reads.
    Add(u64),
    /// Stores.
    Swap(u64),
    /// Stores `swap` where `compare` is.
    CompareSwap {
        /// What has to be there.
        compare: u64,
        /// What is stored.
        swap: u64,
    },
}

/// Bytes of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Four.
    Four,
    /// Eight.
    Eight,
}

impl Width {
    /// How many bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        if self == Width::Four { 4 } else { 8 }
    }
    pub(super) fn mask(self) -> u64 {
        if self == Width::Four { u64::from(u32::MAX) } else { u64::MAX }
    }
    /// Bits between the element at `addr` and the beginning of its word.
    pub(super) fn shift(self, addr: u64) -> u32 {
        (addr % 8 * 8) as u32
    }
}

impl AtomicOp {
    /// As a request: whether it adds, and its operands and masks for the element at `addr`.
    pub(super) fn request(self, addr: u64, width: Width) -> (bool, Atomic) {
        let (shift, mask) = (width.shift(addr), width.mask());
        let placed = |value: u64| (value & mask) << shift;
        let keep = !(mask << shift);
        match self {
            AtomicOp::Add(value) => (true, Atomic { compare_add: placed(value), swap: 0, ignore: 0, keep }),
            AtomicOp::Swap(value) => (false, Atomic { compare_add: 0, swap: placed(value), ignore: u64::MAX, keep }),
            AtomicOp::CompareSwap { compare, swap } => {
                (false, Atomic { compare_add: placed(compare), swap: placed(swap), ignore: keep, keep })
            }
        }
    }
    /// Changes the element at `addr`; gives what was there.
    pub(super) fn carry_out(self, contents: &Contents, addr: u64, width: Width) -> u64 {
        let (adds, atomic) = self.request(addr, width);
        let old = contents.word(addr & !7);
        contents.store(addr & !7, &atomic.apply(adds, old).to_ne_bytes());
        (old >> width.shift(addr)) & width.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_of_four_bytes_leaves_its_neighbour_alone() {
        let memory = Contents::default();
        memory.expose(64, 8);
        memory.store(64, &0x0000_0005_ffff_ffffu64.to_ne_bytes());
        // The lower one wraps to 0, the upper one stays 5.
        assert_eq!(AtomicOp::Add(1).carry_out(&memory, 64, Width::Four), 0xffff_ffff);
        assert_eq!(memory.word(64), 5 << 32);
        assert_eq!(AtomicOp::CompareSwap { compare: 5, swap: 9 }.carry_out(&memory, 68, Width::Four), 5);
        assert_eq!(AtomicOp::CompareSwap { compare: 5, swap: 1 }.carry_out(&memory, 68, Width::Four), 9);
        assert_eq!(AtomicOp::Swap(3).carry_out(&memory, 64, Width::Four), 0);
        assert_eq!(memory.word(64), 9 << 32 | 3);
        assert_eq!((AtomicOp::Swap(1).carry_out(&memory, 64, Width::Eight), memory.word(64)), (9 << 32 | 3, 1));
    }
}
