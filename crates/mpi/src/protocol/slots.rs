//! The slots of shared memory that ranks of a node read each other's data from.

use fabriscope_catalog::SlotParameters;

/// The bytes of each slot that `size` bytes take; nothing takes one.
pub fn parts_of_slots(slots: SlotParameters, size: u32) -> impl Iterator<Item = u32> {
    let length = slots.length.max(1);
    let whole = size.div_ceil(length).max(1);
    (0..whole).map(move |part| (size - part * length).min(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pieces_take_several_slots() {
        let slots = SlotParameters { length: 8192, inline: 48 };
        let parts = |size| parts_of_slots(slots, size).collect::<Vec<u32>>();
        assert_eq!((parts(0), parts(8192)), (vec![0], vec![8192]));
        assert_eq!(parts(20_000), [8192, 8192, 3616]);
    }
}
