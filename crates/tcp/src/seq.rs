//! Sequence numbers: 32 bits that wrap, and the stream positions that they stand for.
//!
//! Source: RFC 9293 §3.4.
//! Modelled: a position counts from the SYN, which has position 0, and never wraps.

/// A sequence number as it stands in a header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// The number of stream position `position` where the SYN has number `initial`.
    #[must_use]
    pub const fn of(initial: Seq, position: u64) -> Seq {
        Seq(initial.0.wrapping_add(position as u32))
    }
    /// The stream position nearest to `near` that has this number; `None` for one before the SYN.
    #[must_use]
    pub fn position(self, initial: Seq, near: u64) -> Option<u64> {
        let distance = self.0.wrapping_sub(initial.0).wrapping_sub(near as u32) as i32;
        near.checked_add_signed(i64::from(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_on_where_numbers_wrap() {
        let initial = Seq(u32::MAX - 2);
        for position in [0, 1, 5, u64::from(u32::MAX), 1 << 32, (1 << 40) + 7] {
            let seq = Seq::of(initial, position);
            for near in [position.saturating_sub(1 << 30), position, position + (1 << 30)] {
                assert_eq!(seq.position(initial, near), Some(position));
            }
        }
        assert_eq!(Seq(u32::MAX - 3).position(initial, 0), None);
    }
}
