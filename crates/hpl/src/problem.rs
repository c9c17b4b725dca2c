//! The system that is solved, and how it is dealt.

use crate::broadcast::Broadcast;
use crate::error::HplError;
use crate::grid::{Grid, Mapping};
use crate::swap::Swap;

/// A run of HPL: what stands in HPL.dat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Unknowns: N.
    pub unknowns: u64,
    /// Columns of a panel: NB.
    pub block: u32,
    /// P x Q.
    pub grid: Grid,
    /// In which order processes fill it; nothing: a rectangle on each node.
    pub mapping: Option<Mapping>,
    /// How panels are broadcast.
    pub broadcast: Broadcast,
    /// How rows change places.
    pub swap: Swap,
    /// Columns at which the recursion of a panel ends: NBMIN.
    pub least: u32,
    /// Whether the next panel is factored and sent during the update: DEPTH 1.
    pub look_ahead: bool,
}

impl Problem {
    /// With the usual choices for the rest.
    #[must_use]
    pub const fn new(unknowns: u64, block: u32, grid: Grid) -> Problem {
        let (broadcast, swap) = (Broadcast::RingModified, Swap::Long);
        Problem { unknowns, block, grid, mapping: None, broadcast, swap, least: 16, look_ahead: true }
    }
    /// # Errors
    /// Nothing to solve, panels wider than the matrix, more steps than a run can count.
    pub fn check(&self) -> Result<(), HplError> {
        if self.unknowns == 0 || self.unknowns > MOST_UNKNOWNS {
            return Err(HplError::Unknowns { unknowns: self.unknowns, most: MOST_UNKNOWNS });
        }
        if self.block == 0 || u64::from(self.block) > self.unknowns {
            return Err(HplError::Block { block: self.block, unknowns: self.unknowns });
        }
        if self.unknowns / u64::from(self.block) > MOST_STEPS {
            return Err(HplError::Steps { unknowns: self.unknowns, block: self.block, needed: self.unknowns.div_ceil(MOST_STEPS) });
        }
        if self.grid.processes() == 0 {
            return Err(HplError::Grid { rows: self.grid.rows, columns: self.grid.columns });
        }
        Ok(())
    }
    /// Operations that count: `2/3 N^3 + 3/2 N^2`.
    #[must_use]
    pub fn operations(&self) -> f64 {
        let n = self.unknowns as f64;
        2.0 / 3.0 * n * n * n + 1.5 * n * n
    }
}

/// The most unknowns whose matrix fills `share` (of 1) of so many bytes, in whole panels.
#[must_use]
pub fn unknowns(memory: f64, share: f64, block: u32) -> u64 {
    let most = (memory * share / WORD).sqrt() as u64;
    (most / u64::from(block.max(1)) * u64::from(block)).max(u64::from(block))
}

/// Bytes of a number of double precision.
pub(crate) const WORD: f64 = 8.0;
/// Basis: assumed, some thirty times the largest system that was ever solved.
const MOST_UNKNOWNS: u64 = 1_000_000_000;
/// Basis: assumed, a hundred times those of the largest machines.
const MOST_STEPS: u64 = 10_000_000;
