//! P3DFFT: three-dimensional FFTs, real to complex and back, on pencils.
//!
//! Source: D. Pekurovsky, "P3DFFT: a framework for parallel computations of Fourier transforms in three dimensions", SIAM J. Sci. Comput. 34,
//! 2012: a grid of ranks in two directions, transposition among rows, then among columns, by MPI_Alltoallv.
//! Modelled: a forward and a backward transform an iteration; on each rank FFTs along a pencil, blocks packed, exchanged, unpacked.
//! Not modelled: planning; STRIDE1 and other layouts in memory; blocks that differ by one point are as large as the largest.

use std::sync::Arc;

use fabriscope_collectives::{Group, Kind};
use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::dims_create;
use crate::options::{conflict, options, value};
use crate::step::{Collective, DOUBLE, Program, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "p3dfft";
pub(crate) const ABOUT: &str = "P3DFFT: FFTs in three dimensions on pencils, transposed among rows and columns of ranks";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "points", "count", "points in each direction (default 1024)"),
    value('\0', "rows", "count", "ranks of a row (default: as MPI_Dims_create, the smaller number)"),
];

/// The program on its ranks: those of a row follow each other.
#[derive(Debug, Clone, Copy)]
struct P3dFft {
    points: u64,
    row: u32,
    column: u32,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut points, mut row) = (1024, None);
    for given in &parsed.options {
        match given.name {
            "points" => points = arguments::number(given, 2, 1 << 16)?,
            "rows" => row = Some(arguments::number(given, 1, 1 << 24)? as u32),
            _ => {}
        }
    }
    let ranks = layout.ranks();
    let row = row.unwrap_or_else(|| dims_create::<2>(ranks)[1]);
    if !ranks.is_multiple_of(row) {
        return Err(conflict(format!("rows of {row} ranks, and the job has {ranks}"), "let --rows divide nodes times --ppn"));
    }
    let column = ranks / row;
    if u64::from(row.max(column)) > points / 2 {
        let what = format!("{points} points in a direction for {} ranks", row.max(column));
        return Err(conflict(what, "use more points, or a grid of ranks nearer to a square (--rows)"));
    }
    Ok(Arc::new(P3dFft { points, row, column }))
}

impl Program for P3dFft {
    fn title(&self) -> String {
        format!("P3DFFT, {0} x {0} x {0} points on {1} x {2} ranks", self.points, self.row, self.column)
    }

    fn steps(&self, rank: u32) -> Steps {
        let (rows, columns) = (self.transposed(rank, true), self.transposed(rank, false));
        let (fft, pack) = (Step::Work(self.transforms()), Step::Work(self.packing()));
        let exchange = |operation: &Collective| [pack.clone(), Step::Collective(operation.clone()), pack.clone()];
        let forward: Vec<Step> =
            [fft.clone()].into_iter().chain(exchange(&rows)).chain([fft.clone()]).chain(exchange(&columns)).chain([fft.clone()]).collect();
        let backward: Vec<Step> =
            [fft.clone()].into_iter().chain(exchange(&columns)).chain([fft.clone()]).chain(exchange(&rows)).chain([fft]).collect();
        Box::new(forward.into_iter().chain(backward))
    }

    fn whole(&self) -> Whole {
        Whole { iterations: RUN, merit: None }
    }
}

impl P3dFft {
    /// Complex numbers of a rank: the transform of real ones has half of them and one more.
    fn own(&self) -> u64 {
        let half = self.points / 2 + 1;
        half * self.points.div_ceil(self.row.into()) * self.points.div_ceil(self.column.into())
    }

    /// FFTs along all pencils of a rank, in one direction: 5 n log2 n operations each, data there and back once.
    fn transforms(&self) -> Work {
        let (own, n) = (self.own(), self.points);
        let log = u64::from(u64::BITS - n.leading_zeros() - 1);
        let bytes = Bytes(2 * own * COMPLEX);
        Work { flops: 5 * own * log, bytes, footprint: Bytes(own * COMPLEX) }
    }
    fn packing(&self) -> Work {
        let bytes = Bytes(2 * self.own() * COMPLEX);
        Work { flops: 0, bytes, footprint: bytes }
    }

    /// All blocks among the ranks of a row, or of a column.
    fn transposed(&self, rank: u32, row: bool) -> Collective {
        let (group, index, members) = if row {
            (Group::regular(rank / self.row * self.row, 1, self.row), rank % self.row, self.row)
        } else {
            (Group::regular(rank % self.row, self.row, self.column), rank / self.row, self.column)
        };
        let size = Bytes((self.own() * COMPLEX).div_ceil(members.into()));
        Collective { operation: Kind::Alltoallv, group, index, root: 0, size, width: Bytes(DOUBLE) }
    }
}

/// Two doubles. Basis: standard.
const COMPLEX: u64 = 2 * DOUBLE;
/// Transforms there and back of the test program. Basis: assumed.
const RUN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 points on 16 x 32 ranks: 257 x 32 x 16 complex numbers each, in 16 blocks of a row and 32 of a column.
    #[test]
    fn blocks_are_shares_of_a_pencil() {
        let program = P3dFft { points: 512, row: 16, column: 32 };
        let own = 257 * 32 * 16 * 16;
        let sums: Vec<(u32, u32, u64)> = program
            .steps(37)
            .filter_map(|step| if let Step::Collective(c) = step { Some((c.group.rank(c.index), c.group.ranks(), c.size.0)) } else { None })
            .collect();
        assert_eq!(sums, [(37, 16, own / 16), (37, 32, own / 32), (37, 32, own / 32), (37, 16, own / 16)]);
    }
}
