//! P3DFFT: three-dimensional FFTs, real to complex and back, on pencils.
//!
//! Source: D. Pekurovsky, "P3DFFT: a framework for parallel computations of Fourier transforms in three dimensions", SIAM J. Sci. Comput. 34,
//! 2012: a grid of ranks in two directions, transposition among rows, then among columns, by MPI_Alltoallv. K. Kandalla et al.,
//! "High-performance and scalable non-blocking all-to-all with collective offload on InfiniBand clusters: a study with parallel 3D FFT",
//! Comput. Sci. Res. Dev. 26, 2011; M. Bayatpour et al., "BluesMPI", ISC 2021: MPI_Ialltoall beside computation.
//! Modelled: a forward and a backward transform an iteration; on each rank FFTs along a pencil, blocks packed, exchanged, unpacked. Of
//! several fields, one is transposed while the next is transformed and packed: by workers on a DPU, or as far as the library gets while it
//! is called.
//! Not modelled: planning; STRIDE1 and other layouts in memory; blocks that differ by one point are as large as the largest.

use std::sync::Arc;

use fabriscope_collectives::{Group, Kind};
use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_tool::offload::{OFFLOAD, WORKERS};
use fabriscope_units::Bytes;

use crate::grid::dims_create;
use crate::options::{conflict, options, value};
use crate::step::{Begun, Collective, DOUBLE, Handed, Program, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "p3dfft";
pub(crate) const ABOUT: &str = "P3DFFT: FFTs in three dimensions on pencils, transposed among rows and columns of ranks";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "points", "count", "points in each direction (default 1024)"),
    value('\0', "rows", "count", "ranks of a row (default: as MPI_Dims_create, the smaller number)"),
    value('\0', "fields", "count", "fields, each transposed by MPI_Ialltoallv while the next is computed (default 1: MPI_Alltoallv)"),
    OFFLOAD,
    WORKERS,
];

/// The program on its ranks: those of a row follow each other.
#[derive(Debug, Clone, Copy)]
struct P3dFft {
    points: u64,
    row: u32,
    column: u32,
    fields: u32,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut points, mut row, mut fields) = (1024, None, 1);
    for given in &parsed.options {
        match given.name {
            "points" => points = arguments::number(given, 2, 1 << 16)?,
            "fields" => fields = arguments::number(given, 1, 1024)? as u32,
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
    Ok(Arc::new(P3dFft { points, row, column, fields }))
}

impl Program for P3dFft {
    fn title(&self) -> String {
        let fields = if self.fields > 1 { format!("{} fields of ", self.fields) } else { String::new() };
        format!("P3DFFT, {fields}{0} x {0} x {0} points on {1} x {2} ranks", self.points, self.row, self.column)
    }

    fn steps(&self, rank: u32) -> Steps {
        let (rows, columns) = (self.transposed(rank, true), self.transposed(rank, false));
        if self.fields > 1 {
            return Box::new(self.overlapped([&rows, &columns, &columns, &rows]).into_iter());
        }
        let (fft, pack) = (Step::Work(self.transforms()), Step::Work(self.packing()));
        let exchange = |operation: &Collective| [pack.clone(), Step::Collective(operation.clone()), pack.clone()];
        let forward: Vec<Step> =
            [fft.clone()].into_iter().chain(exchange(&rows)).chain([fft.clone()]).chain(exchange(&columns)).chain([fft.clone()]).collect();
        let backward: Vec<Step> =
            [fft.clone()].into_iter().chain(exchange(&columns)).chain([fft.clone()]).chain(exchange(&rows)).chain([fft]).collect();
        Box::new(forward.into_iter().chain(backward))
    }

    fn hands_over(&self) -> Handed {
        if self.fields > 1 { Handed::Collectives } else { Handed::Nothing }
    }

    fn whole(&self) -> Whole {
        Whole { iterations: RUN, merit: None }
    }
}

impl P3dFft {
    /// Transpositions one after the other, of each field; the next field is transformed and packed while one is exchanged. Of two transforms
    /// between the second and the third, there and back, both are in the direction of the columns' pencils.
    fn overlapped(&self, transpositions: [&Collective; 4]) -> Vec<Step> {
        let (fft, pack) = (Step::Work(self.transforms()), Step::Work(self.packing()));
        let mut steps = Vec::new();
        let mut open = false;
        for (number, operation) in transpositions.into_iter().enumerate() {
            for _ in 0..self.fields {
                steps.extend(std::iter::repeat_n(fft.clone(), if number == 2 { 2 } else { 1 }));
                steps.push(pack.clone());
                if std::mem::replace(&mut open, true) {
                    steps.extend([Step::Finish, pack.clone()]);
                }
                steps.push(Step::Begin(Begun::Collective(operation.clone())));
            }
        }
        steps.extend([Step::Finish, pack]);
        steps.extend(std::iter::repeat_n(fft, self.fields as usize));
        steps
    }
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
        let program = P3dFft { points: 512, row: 16, column: 32, fields: 1 };
        let own = 257 * 32 * 16 * 16;
        let sums: Vec<(u32, u32, u64)> = program
            .steps(37)
            .filter_map(|step| if let Step::Collective(c) = step { Some((c.group.rank(c.index), c.group.ranks(), c.size.0)) } else { None })
            .collect();
        assert_eq!(sums, [(37, 16, own / 16), (37, 32, own / 32), (37, 32, own / 32), (37, 16, own / 16)]);
    }

    /// Three fields are three times one: as many transforms, copies and exchanges each, in another order; one exchange at a time is
    /// outstanding, under which a field is transformed, and each ends before its field goes on.
    #[test]
    fn fields_overlap_and_do_as_much() {
        let of = |fields: u32| P3dFft { points: 512, row: 16, column: 32, fields }.steps(37).collect::<Vec<_>>();
        let (one, three) = (of(1), of(3));
        let computed = |steps: &[Step]| steps.iter().filter(|step| matches!(step, Step::Work(_))).count();
        assert_eq!(computed(&three), 3 * computed(&one));
        let sent = |steps: &[Step]| -> u64 {
            let bytes = |step: &Step| match step {
                Step::Collective(c) | Step::Begin(Begun::Collective(c)) => c.size.0 * u64::from(c.group.ranks()),
                _ => 0,
            };
            steps.iter().map(bytes).sum()
        };
        assert_eq!(sent(&three), 3 * sent(&one));
        let (mut outstanding, mut beside) = (0, 0);
        for step in &three {
            match step {
                Step::Begin(_) => outstanding += 1,
                Step::Finish => outstanding -= 1,
                Step::Work(work) if work.flops > 0 && outstanding > 0 => beside += 1,
                _ => {}
            }
            assert!((0..2).contains(&outstanding));
        }
        // Of 18 transforms the first has nothing to hide, and the last three come after the last exchange.
        assert_eq!((outstanding, beside), (0, 18 - 1 - 3));
    }
}
