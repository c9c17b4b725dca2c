//! How a panel gets from the process that holds it to the others of its row.
//!
//! Source: HPL, "HPL Algorithm", panel broadcast: six variants; HPL 2.3, HPL_bcast and HPL_pdupdate, for who moves a panel; MPICH,
//! MPI_Ibcast by a binomial tree, which MVAPICH2-DPU hands over to workers.
//! Modelled: what the next column of processes waits for, as it factors the next panel; what a process sends and receives of each panel; how
//! long the last of the row waits where nothing hides it; how long a core is at it that looks for panels between pieces of its update.
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

    /// Seconds that the core of a process spends on a panel of so many bytes, on average over the row, where it moves panels itself: it
    /// receives and sends them in calls that wait. A sender waits for a receiver that is at a piece of its update: half of it on average.
    #[must_use]
    pub fn held(self, path: Path, row: u32, bytes: f64, piece: f64) -> f64 {
        if row < 2 {
            return 0.0;
        }
        let others = f64::from(row - 1) / f64::from(row);
        match self {
            Broadcast::Ring | Broadcast::RingModified | Broadcast::TwoRing | Broadcast::TwoRingModified => {
                others * (2.0 * path.seconds(bytes) + piece / 2.0)
            }
            Broadcast::Long | Broadcast::LongModified => self.whole(path, row, bytes) + piece / 2.0,
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

/// Seconds until the next of `row` processes has a panel from a binomial tree, whose root sends to the farthest first and to it last.
#[must_use]
pub(crate) fn tree_next(path: Path, row: u32, bytes: f64) -> f64 {
    if row < 2 { 0.0 } else { path.latency + libm::log2(f64::from(row)).ceil() * path.per_byte * bytes }
}

/// Seconds until all of them have it.
#[must_use]
pub(crate) fn tree_whole(path: Path, row: u32, bytes: f64) -> f64 {
    if row < 2 { 0.0 } else { libm::log2(f64::from(row)).ceil() * path.seconds(bytes) }
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

    /// 8 processes: 7/8 of two hops of 101 us, and of half a piece of 40 us. A tree's root sends three times before the next has it.
    #[test]
    fn cores_that_move_panels_are_held() {
        assert!((Broadcast::RingModified.held(PATH, 8, 1e6, 40e-6) - 0.875 * 222e-6).abs() < 1e-9);
        assert_eq!(Broadcast::Ring.held(PATH, 1, 1e6, 40e-6), 0.0);
        assert!((tree_next(PATH, 8, 1e6) - 301e-6).abs() < 1e-9 && (tree_whole(PATH, 8, 1e6) - 303e-6).abs() < 1e-9);
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
