//! The slots of shared memory that ranks of a node read each other's data from.

use fabriscope_units::Bytes;

/// What a slot holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// In all.
    pub length: u32,
    /// In the line that says that it is full.
    pub inline: u32,
}

impl From<&fabriscope_catalog::Slots> for Slots {
    fn from(part: &fabriscope_catalog::Slots) -> Slots {
        let bytes = Bytes::saturating_u32;
        Slots { length: bytes(*part.length).max(1), inline: bytes(*part.inline) }
    }
}

impl Slots {
    /// The bytes of each slot that `size` bytes take; nothing takes one.
    pub(crate) fn parts(self, size: u32) -> impl Iterator<Item = u32> {
        let whole = size.div_ceil(self.length).max(1);
        (0..whole).map(move |part| (size - part * self.length).min(self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pieces_take_several_slots() {
        let slots = Slots { length: 8192, inline: 48 };
        let parts = |size| slots.parts(size).collect::<Vec<u32>>();
        assert_eq!((parts(0), parts(8192)), (vec![0], vec![8192]));
        assert_eq!(parts(20_000), [8192, 8192, 3616]);
    }
}
