//! How rows change places within a column of processes before the update.
//!
//! Source: HPL, "HPL Algorithm", update, and "HPL Scalability Analysis": `(log2 P + P - 1) alpha + 3 beta NB n / Q` for long swaps,
//! `log2 P (alpha + beta NB n / Q)` for binary exchange.
//! Modelled: these. Not modelled: rows that stay where they are.

use crate::machine::Path;

/// A variant of the swap: `SWAP` of HPL.dat, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Each with each at distances that double.
    BinaryExchange,
    /// Spread, then rolled.
    Long,
    /// Binary exchange up to so many columns, long above.
    Mix(u32),
}

impl Swap {
    /// Its number in HPL.dat.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Swap::BinaryExchange => 0,
            Swap::Long => 1,
            Swap::Mix(_) => 2,
        }
    }

    /// Seconds for a block of rows of so many local columns and bytes among `column` processes.
    #[must_use]
    pub fn seconds(self, path: Path, column: u32, columns: f64, bytes: f64) -> f64 {
        if column < 2 {
            return 0.0;
        }
        let doubled = libm::log2(f64::from(column)).ceil();
        match self {
            Swap::Mix(threshold) if columns <= f64::from(threshold) => Swap::BinaryExchange.seconds(path, column, columns, bytes),
            Swap::BinaryExchange => doubled * path.seconds(bytes),
            Swap::Long | Swap::Mix(_) => (doubled + f64::from(column) - 1.0) * path.latency + LONG * path.per_byte * bytes,
        }
    }
}

/// How often the bytes of a block of rows pass a process in long swaps. Basis: published, HPL Scalability Analysis.
const LONG: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_swaps_win_with_many_columns_and_lose_with_few() {
        let path = Path { latency: 2e-6, per_byte: 1e-10 };
        // 16 processes: 4 (2 us + 100 us) against 19 * 2 us + 300 us.
        assert!((Swap::BinaryExchange.seconds(path, 16, 1000.0, 1e6) - 408e-6).abs() < 1e-9);
        assert!((Swap::Long.seconds(path, 16, 1000.0, 1e6) - 338e-6).abs() < 1e-9);
        assert_eq!(Swap::Mix(2000).seconds(path, 16, 1000.0, 1e6), Swap::BinaryExchange.seconds(path, 16, 1000.0, 1e6));
        assert!(Swap::Long.seconds(path, 16, 1.0, 1e3) > Swap::BinaryExchange.seconds(path, 16, 1.0, 1e3));
        assert_eq!(Swap::Long.seconds(path, 1, 1.0, 1e6), 0.0);
    }
}
