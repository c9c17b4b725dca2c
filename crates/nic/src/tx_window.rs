//! What is between the fetch from memory and the wire: packets are fetched ahead of their turn, up to a window.
//!
//! Modelled: bytes that were fetched and whose tail has not left; the same by service level where these have lanes of their own, so
//! that a level that waits for credits does not stop the others. Not modelled: how the buffer is divided into blocks.

use std::collections::VecDeque;

use fabriscope_prefetch::prefetch;
use fabriscope_units::{Bytes, Time};

/// Service levels (standard: four bits).
pub const LEVELS: usize = 16;
/// Where bytes and service level of a departure stand: a packet has fewer than 2¹⁶ bytes.
const LEVEL_SHIFT: u32 = 16;
const SIZE: u32 = (1 << LEVEL_SHIFT) - 1;

/// Packets between fetch and wire.
#[derive(Debug, Clone)]
pub struct TxWindow {
    limit: Bytes,
    held: Bytes,
    /// What is held by service level, where these have lanes of their own.
    held_at: Option<Box<[Bytes; LEVELS]>>,
    /// When the tails of packets leave, oldest first.
    departures: VecDeque<Departure>,
}

/// A packet whose tail leaves at a known time: its size, and the service level above it.
#[derive(Debug, Clone, Copy)]
struct Departure {
    tail: Time,
    what: u32,
}

impl TxWindow {
    /// An empty window.
    #[must_use]
    pub fn new(limit: Bytes) -> TxWindow {
        TxWindow { limit, held: Bytes::ZERO, held_at: None, departures: VecDeque::with_capacity(16) }
    }

    /// Service levels have lanes of their own: each has a window of its own.
    pub fn separate_levels(&mut self) {
        self.held_at = Some(Box::default());
    }

    /// Changes what may be held.
    pub fn set_limit(&mut self, limit: Bytes) {
        self.limit = limit;
    }

    /// Whether another packet may be fetched at `now`; changes when packets leave.
    #[inline]
    #[must_use]
    pub fn has_room(&mut self, now: Time) -> bool {
        while let Some(&Departure { tail, what }) = self.departures.front()
            && tail <= now
        {
            let amount = Bytes(u64::from(what & SIZE));
            self.held -= amount;
            if let Some(at) = &mut self.held_at {
                at[(what >> LEVEL_SHIFT) as usize] -= amount;
            }
            self.departures.pop_front();
        }
        !self.is_full()
    }

    /// Whether it was full when [`TxWindow::has_room`] looked last, and since.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.held >= self.limit
    }

    /// The service levels that have no room, a bit each; those whose `lane` is the same share its room.
    #[must_use]
    pub fn closed_levels(&self, lane: impl Fn(u32) -> u32) -> u16 {
        let Some(at) = &self.held_at else { return 0 };
        let held = |of: u32| (0..LEVELS as u32).filter(|sl| lane(*sl) == of).map(|sl| at[sl as usize]).sum::<Bytes>();
        (0..LEVELS as u32).filter(|sl| held(lane(*sl)) >= self.limit).fold(0, |closed, sl| closed | 1 << sl)
    }

    /// A packet of `amount` was fetched.
    #[inline]
    pub fn hold(&mut self, amount: Bytes, sl: u8) {
        self.held += amount;
        if let Some(at) = &mut self.held_at {
            at[usize::from(sl & 15)] += amount;
        }
    }

    /// A packet of `amount`, less than 64 KiB, that is held leaves with its tail at `tail`; tails come in their order.
    #[inline]
    pub fn handle_departure(&mut self, tail: Time, amount: Bytes, sl: u32) {
        self.departures.push_back(Departure { tail, what: amount.0 as u32 | (sl & 15) << LEVEL_SHIFT });
    }

    /// When the oldest packet leaves; `None` while that is not known.
    #[inline]
    #[must_use]
    pub fn poll_departure(&self) -> Option<Time> {
        self.departures.front().map(|departure| departure.tail)
    }

    /// Fetches what lies behind pointers. Speed only.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if let Some(departure) = self.departures.front() {
            prefetch(departure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes(4096);

    #[test]
    fn a_full_window_opens_when_the_oldest_packet_has_left() {
        let mut window = TxWindow::new(PACKET * 2);
        let at = Time::from_ps;
        for _ in 0..2 {
            assert!(window.has_room(at(0)));
            window.hold(PACKET, 0);
        }
        assert!(!window.has_room(at(100)) && window.poll_departure().is_none(), "nobody knows when");
        window.handle_departure(at(200), PACKET, 0);
        window.handle_departure(at(300), PACKET, 0);
        assert_eq!(window.poll_departure(), Some(at(200)));
        assert!(!window.has_room(at(199)));
        assert!(window.has_room(at(200)) && window.poll_departure() == Some(at(300)));
    }

    #[test]
    fn levels_on_one_lane_share_its_room() {
        let mut window = TxWindow::new(PACKET * 2);
        window.separate_levels();
        window.hold(PACKET, 3);
        window.hold(PACKET, 4);
        assert!(window.is_full());
        assert_eq!(window.closed_levels(|sl| sl), 0, "each has a window of its own");
        // Levels 0 to 7 on one lane, the others on another.
        assert_eq!(window.closed_levels(|sl| sl / 8), 0x00FF);
        window.handle_departure(Time::from_ps(5), PACKET, 4);
        assert!(window.has_room(Time::from_ps(5)));
        assert_eq!(window.closed_levels(|sl| sl / 8), 0);
        assert_eq!(TxWindow::new(Bytes::ZERO).closed_levels(|sl| sl), 0, "one window for all: no level is closed by itself");
    }
}
