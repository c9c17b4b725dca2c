//! An operation in slices.
//!
//! Source: HCL, collective_states.cpp: `calcMaxSliceCounts`, `getNumSlices`: as many slices as the part of an accelerator has of the size
//! that is set, as even as they can be.

use fabriscope_units::Bytes;

/// The slices of an operation: what each accelerator has of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    part: u64,
    count: u64,
}

impl Slices {
    /// Those of a part of `part` for each accelerator, none above `most`.
    #[must_use]
    pub fn of(part: Bytes, most: Bytes) -> Slices {
        Slices { part: part.0, count: part.0.div_ceil(most.0.max(1)).max(1) }
    }
    /// How many there are.
    #[must_use]
    pub fn count(self) -> u64 {
        self.count
    }
    /// The bytes of one for each accelerator.
    #[must_use]
    pub fn bytes(self, number: u64) -> Bytes {
        let until = |number: u64| (u128::from(self.part) * u128::from(number) / u128::from(self.count)) as u64;
        Bytes(until(number + 1) - until(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 MiB of eight accelerators are 4 MiB for each: eight slices of 512 KiB. One byte more is a ninth slice, all even.
    #[test]
    fn slices_are_even() {
        let whole = Slices::of(Bytes::from_mib(4), Bytes::from_kib(512));
        assert_eq!((whole.count(), whole.bytes(7)), (8, Bytes::from_kib(512)));
        let more = Slices::of(Bytes((4 << 20) + 1), Bytes::from_kib(512));
        assert_eq!((more.count(), more.bytes(0), more.bytes(8)), (9, Bytes(466_033), Bytes(466_034)));
        assert_eq!((0..9).map(|number| more.bytes(number).0).sum::<u64>(), (4 << 20) + 1);
    }
}
