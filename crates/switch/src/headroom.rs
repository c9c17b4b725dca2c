//! The room that a lossless Ethernet port needs above its threshold.
//!
//! Source: IEEE 802.1Q-2022 annex N (from IEEE 802.1Qbb-2011 annex O): from the decision to pause until the last bit of what the
//! sender still sends has arrived pass two ways over the cable, a largest frame that is on the wire before the pause frame, the
//! pause frame, the reaction of the sender, and a largest frame of the priority that the sender has begun.
//! Modelled: all of these terms; the interfaces' and the sender's reaction are one parameter.
//! Not modelled: rounding up to the cells of a chip's memory.

use fabriscope_units::{Bytes, Rate, Span};

/// A pause frame with preamble and gap in bytes (standard).
pub const PAUSE_FRAME: Bytes = Bytes(84);

/// What the headroom of a port depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Rate of the link.
    pub rate: Rate,
    /// Propagation, one way.
    pub delay: Span,
    /// Largest frame of any priority on the wire.
    pub frame: Bytes,
    /// From the arrival of the pause frame until the sender obeys it, both interfaces included.
    pub response: Span,
}

/// The headroom of one priority: rate · (2 · delay + response) + 2 · frame + pause frame.
#[must_use]
pub fn headroom(line: &Line) -> Bytes {
    let round_trip = line.delay * 2 + line.response;
    let in_flight = (u128::from(line.rate.as_bps()) * u128::from(round_trip.as_ps())).div_ceil(8_000_000_000_000);
    Bytes(u64::try_from(in_flight).unwrap_or(u64::MAX).saturating_add(2 * line.frame.0 + PAUSE_FRAME.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annex_by_hand() {
        // 400 Gb/s, 100 m at 5 ns/m, frames of 4096 + 82 B, no reaction: 2 · 500 ns · 50 B/ns = 50,000 B, and 2 · 4178 + 84 B.
        let line = Line { rate: Rate::from_gbps(400), delay: Span::from_ns(500), frame: Bytes(4178), response: Span::ZERO };
        assert_eq!(headroom(&line), Bytes(50_000 + 8_356 + 84));
        // 10 Gb/s with 802.3's 60 quanta of 512 bit as the reaction add 3840 B.
        let slow = Line { rate: Rate::from_gbps(10), delay: Span::ZERO, frame: Bytes(1542), response: Span::from_ns(3072) };
        assert_eq!(headroom(&slow), Bytes(3840 + 3084 + 84));
    }
}
