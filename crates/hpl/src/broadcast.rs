//! How a panel gets from the process that holds it to the others of its row.
//!
//! Source: HPL, "HPL Algorithm", panel broadcast: six variants.
//! Modelled: what the next column of processes waits for, as it factors the next panel; what a process sends and receives of each panel; how
//! long the last of the row waits where nothing hides it.
//! Not modelled: messages of panels that overtake each other.

use crate::machine::Path;

/// A variant of the broadcast: `BCAST` of HPL.dat, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// Around the ring.
    Ring,
    /// The same, and the next process passes nothing on.
    RingModified,
    /// Two rings of half the length.
    TwoRing,
    /// The same, and the next process passes nothing on.
    TwoRingModified,
    /// Spread in pieces, then rolled: twice the bytes whatever the length of the row.
    Long,
    /// The same after the next process has it.
    LongModified,
}

impl Broadcast {
    /// All, in the order of their numbers.
    pub const ALL: [Broadcast; 6] = [
        Broadcast::Ring,
        Broadcast::RingModified,
        Broadcast::TwoRing,
        Broadcast::TwoRingModified,
        Broadcast::Long,
        Broadcast::LongModified,
    ];

    /// Its number in HPL.dat.
    #[must_use]
    pub fn number(self) -> usize {
        Broadcast::ALL.iter().position(|variant| *variant == self).unwrap_or(0)
    }

    /// Seconds until the next of `row` processes has a panel of so many bytes and is free again.
    #[must_use]
    pub fn next(self, path: Path, row: u32, bytes: f64) -> f64 {
        let hop = path.seconds(bytes);
        match (self, row) {
            (_, 0 | 1) => 0.0,
            (_, 2) | (Broadcast::RingModified | Broadcast::TwoRingModified | Broadcast::LongModified, _) => hop,
            // It passes the panel on before it does anything else.
            (Broadcast::Ring | Broadcast::TwoRing, _) => 2.0 * hop,
            (Broadcast::Long, _) => self.whole(path, row, bytes),
        }
    }

    /// Seconds until the last of the row has it, if nothing hides it.
    #[must_use]
    pub fn whole(self, path: Path, row: u32, bytes: f64) -> f64 {
        let (row, hop) = (f64::from(row), path.seconds(bytes));
        if row < 2.0 {
            return 0.0;
        }
        match self {
            Broadcast::Ring => (row - 1.0) * hop,
            Broadcast::RingModified => (1.0 + (row - 2.0).max(0.0)) * hop,
            Broadcast::TwoRing | Broadcast::TwoRingModified => (row / 2.0).ceil() * hop,
            Broadcast::Long => spread_and_roll(path, row, bytes),
            Broadcast::LongModified => hop + spread_and_roll(path, (row - 1.0).max(1.0), bytes),
        }
    }
}

/// `(log2 Q + Q - 1) alpha + 2 beta M (Q - 1) / Q`.
fn spread_and_roll(path: Path, row: f64, bytes: f64) -> f64 {
    (libm::log2(row).ceil() + row - 1.0) * path.latency + 2.0 * path.per_byte * bytes * (row - 1.0) / row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A microsecond a message and 10 GB/s.
    const PATH: Path = Path { latency: 1e-6, per_byte: 1e-10 };

    #[test]
    fn the_next_of_a_ring_passes_on_unless_modified() {
        // 1 MB takes 101 us.
        assert!((Broadcast::Ring.next(PATH, 8, 1e6) - 202e-6).abs() < 1e-9);
        assert!((Broadcast::RingModified.next(PATH, 8, 1e6) - 101e-6).abs() < 1e-9);
        assert_eq!(Broadcast::Long.next(PATH, 1, 1e6), 0.0);
    }

    #[test]
    fn long_takes_twice_the_bytes_whatever_the_row() {
        // (3 + 7) us + 2 * 100 us * 7/8
        assert!((Broadcast::Long.whole(PATH, 8, 1e6) - 185e-6).abs() < 1e-9);
        assert!(Broadcast::Long.whole(PATH, 64, 1e6) < 270e-6);
        assert!(Broadcast::Ring.whole(PATH, 64, 1e6) > 6e-3);
        assert!(Broadcast::TwoRing.whole(PATH, 64, 1e6) < Broadcast::Ring.whole(PATH, 64, 1e6));
    }
}
