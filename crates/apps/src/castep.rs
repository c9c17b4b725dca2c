//! CASTEP: density functional theory in plane waves, on ranks by k-point, by band and by G-vector.
//!
//! Source: S. J. Clark et al., "First principles methods using CASTEP", Z. Kristallogr. 220, 2005; M. C. Payne et al., "Iterative
//! minimization techniques for ab initio total-energy calculations", Rev. Mod. Phys. 64, 1992 (conjugate gradients by band, FFTs,
//! orthogonality); hpc-uk/archer-benchmarks @f644ea4, heads of CASTEP's outputs for polyA20-no-wat (the defaults here).
//! Modelled, of a block of bands in a step of the minimiser: two FFTs of each band over the ranks that share its G-vectors, on pencils with
//! two transpositions each (MPI_Alltoallv), its products with all bands, their sum over these ranks (MPI_Allreduce); between groups by band
//! the block goes to all (MPI_Bcast). K-points are dealt out to groups, which do not talk to each other within a step.
//! Not modelled: projectors, densities and their mixing, diagonalisation of the subspace, set-up, output; the sphere of plane waves within
//! its cube is taken to lie evenly on all ranks.

use std::sync::Arc;

use fabriscope_collectives::{Group, Kind};
use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::dims_create;
use crate::options::{conflict, options, three, value};
use crate::step::{Collective, DOUBLE, Program, Ran, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "castep";
pub(crate) const ABOUT: &str = "CASTEP: plane waves by k-point, band and G-vector; all-to-all of FFTs, sums of overlaps";
pub(crate) const OPTIONS: &[Opt] = options![
    value('\0', "kpoints", "count", "k-points (default 1)"),
    value('\0', "kpoint-groups", "count", "groups of ranks with k-points of their own (default 1)"),
    value('\0', "band-groups", "count", "groups of these with bands of their own (default 1)"),
    value('\0', "bands", "count", "bands (default 2423)"),
    value('\0', "gvectors", "count", "plane waves of a band (default 22776000)"),
    value('\0', "grid", "x,y,z", "points of the grid of the FFTs (default 625,840,480)"),
    value('\0', "block", "bands", "bands that are worked on together (default 128)"),
    value('\0', "scf-cycles", "count", "cycles until it converges, which the numbers decide (default 10)"),
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Castep {
    ranks: u32,
    kpoints: u64,
    by_kpoint: u32,
    by_band: u32,
    bands: u64,
    waves: u64,
    grid: [u64; 3],
    block: u64,
    cycles: u64,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let mut this = Castep { ranks: layout.ranks(), ..DNA };
    for given in &parsed.options {
        let number = |most| arguments::number(given, 1, most);
        match given.name {
            "kpoints" => this.kpoints = number(MOST)?,
            "kpoint-groups" => this.by_kpoint = number(MOST)? as u32,
            "band-groups" => this.by_band = number(MOST)? as u32,
            "bands" => this.bands = number(MOST)?,
            "gvectors" => this.waves = number(1 << 40)?,
            "grid" => this.grid = three(given, 1 << 16)?,
            "block" => this.block = number(MOST)?,
            "scf-cycles" => this.cycles = number(MOST)?,
            _ => {}
        }
    }
    this.block = this.block.min(this.own_bands());
    if !this.ranks.is_multiple_of(this.by_kpoint * this.by_band) {
        let what = format!("{} ranks in {} groups by k-point and {} by band", this.ranks, this.by_kpoint, this.by_band);
        return Err(conflict(what, "make --kpoint-groups times --band-groups a divisor of the ranks"));
    }
    let [rows, columns] = this.pencils();
    if u64::from(rows) > this.grid[0] || u64::from(columns) > this.grid[1] {
        let what = format!("a grid of {} x {} columns on {rows} x {columns} ranks", this.grid[0], this.grid[1]);
        return Err(conflict(what, "use fewer ranks, or more groups by k-point or band"));
    }
    Ok(Arc::new(this))
}

impl Program for Castep {
    fn title(&self) -> String {
        let Castep { kpoints, by_kpoint, by_band, bands, waves, grid: [x, y, z], .. } = *self;
        let members = self.members();
        format!(
            "CASTEP, {kpoints} k-points ({by_kpoint}-way), {bands} bands ({by_band}-way), {waves} G-vectors ({members}-way), \
             grid {x} x {y} x {z}"
        )
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let [rows, columns] = [true, false].map(|row| Step::Collective(this.transposed(rank, row)));
        let fft = Step::Work(this.transforms());
        let there = [fft.clone(), rows.clone(), fft.clone(), columns.clone(), fft.clone()];
        let back = [fft.clone(), columns, fft.clone(), rows, fft];
        let spread = (this.by_band > 1).then(|| Step::Collective(this.spread(rank)));
        let ends = [Step::Work(this.overlaps()), Step::Collective(this.sum(rank))];
        Box::new(spread.into_iter().chain(there).chain(back).chain(ends))
    }

    fn whole(&self) -> Whole {
        let turns = self.kpoints.div_ceil(u64::from(self.by_kpoint));
        Whole { iterations: self.cycles * MINIMISER * turns * self.own_bands().div_ceil(self.block.max(1)), merit: None }
    }

    fn log(&self, ran: &Ran) -> String {
        let Castep { by_kpoint, by_band, .. } = *self;
        let (members, seconds) = (self.members(), ran.seconds);
        let mut text = format!("Calculation parallelised over {} processes.\n", ran.ranks);
        text += &format!("Data is distributed by G-vector({members}-way) band({by_band}-way) k-point({by_kpoint}-way)\n");
        text += &format!("Initialisation time = {:>10.2} s\nCalculation time    = {seconds:>10.2} s\n", 0.0);
        text += &format!("Finalisation time   = {:>10.2} s\nTotal time          = {seconds:>10.2} s\n", 0.0);
        text
    }
}

impl Castep {
    /// Ranks that share the G-vectors of a band.
    fn members(&self) -> u32 {
        (self.ranks / self.by_kpoint.max(1) / self.by_band.max(1)).max(1)
    }
    fn own_bands(&self) -> u64 {
        self.bands.div_ceil(self.by_band.into())
    }
    fn pencils(&self) -> [u32; 2] {
        dims_create(self.members())
    }
    /// Points of the grid that a rank has of the bands of a block.
    fn points(&self) -> u64 {
        let ([rows, columns], [x, y, z]) = (self.pencils(), self.grid);
        self.block * z * x.div_ceil(rows.into()) * y.div_ceil(columns.into())
    }
    fn own_waves(&self) -> u64 {
        self.waves.div_ceil(self.members().into())
    }

    fn transposed(&self, rank: u32, row: bool) -> Collective {
        let ([_, columns], members) = (self.pencils(), self.members());
        let (first, own) = (rank / members * members, rank % members);
        let (group, index) = if row {
            (Group::regular(first + own / columns * columns, 1, columns), own % columns)
        } else {
            (Group::regular(first + own % columns, columns, members / columns), own / columns)
        };
        // The sphere is narrower than the cube before the transforms: half of the columns have no waves.
        let size = Bytes((self.points() * COMPLEX / 2).div_ceil(group.ranks().into()));
        Collective { operation: Kind::Alltoallv, group, index, root: 0, size, width: Bytes(DOUBLE) }
    }

    /// The products of a block with all bands of the group, over all waves.
    fn sum(&self, rank: u32) -> Collective {
        let members = self.members();
        let first = rank / members * members;
        let size = Bytes(self.block * self.bands * COMPLEX);
        Collective {
            operation: Kind::Allreduce,
            group: Group::regular(first, 1, members),
            index: rank - first,
            root: 0,
            size,
            width: Bytes(DOUBLE),
        }
    }

    /// A block goes from its group to those with other bands.
    fn spread(&self, rank: u32) -> Collective {
        let members = self.members();
        let of_kpoint = members * self.by_band;
        let begin = rank / of_kpoint * of_kpoint + rank % members;
        let group = Group::regular(begin, members, self.by_band);
        let size = Bytes(self.block * self.own_waves() * COMPLEX);
        Collective { operation: Kind::Bcast, group, index: (rank - begin) / members, root: 0, size, width: Bytes(DOUBLE) }
    }

    /// One direction of the FFTs of a block.
    fn transforms(&self) -> Work {
        let points = self.points();
        let logarithm = u64::from(self.grid[2].max(2).ilog2());
        Work {
            flops: FFT * points * logarithm,
            bytes: Bytes(2 * points * COMPLEX),
            footprint: Bytes(self.own_bands() * self.own_waves() * COMPLEX),
        }
    }
    /// Products of a block with all bands there and back: matrices, whose operands come from memory once for a block.
    fn overlaps(&self) -> Work {
        let (own, bands) = (self.own_waves(), self.bands);
        Work {
            flops: 2 * 8 * own * self.block * bands,
            bytes: Bytes(2 * own * (bands + self.block) * COMPLEX),
            footprint: Bytes(self.own_bands() * own * COMPLEX),
        }
    }
}

/// A strand of DNA in vacuum. Basis: published (heads of outputs: one k-point, 2,423 bands, ten cycles); plane waves from the cut-off of
/// 1,000 eV and the volume of the cell, the grid from 1.75 times its radius, filled up to small factors. The block is assumed.
const DNA: Castep = Castep {
    ranks: 1,
    kpoints: 1,
    by_kpoint: 1,
    by_band: 1,
    bands: 2423,
    waves: 22_776_000,
    grid: [625, 840, 480],
    block: 128,
    cycles: 10,
};
/// A complex number of two doubles. Basis: standard.
const COMPLEX: u64 = 2 * DOUBLE;
/// Steps of the minimiser in a cycle: one of steepest descent and four of conjugate gradients. Basis: published, heads of outputs.
const MINIMISER: u64 = 5;
/// Operations of an FFT for a point and a doubling of the points. Basis: standard (5 n log₂ n).
const FFT: u64 = 5;
/// Of any number on the command line. Basis: assumed.
const MOST: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    /// V k³ / 6 π², with k = sqrt(2 m E) / hbar = 16.20 / A at 1,000 eV, in 317,274 A³; 2 * 1.75 k L / 2 π points on a side.
    #[test]
    fn the_defaults_follow_from_the_cell() {
        let k = 0.512_317 * 1000.0_f64.sqrt();
        let waves = 317_274.05 * k.powi(3) / (6.0 * std::f64::consts::PI.powi(2));
        assert!((waves / DNA.waves as f64 - 1.0).abs() < 0.01, "{waves}");
        for (side, points) in [66.977, 91.022, 52.043].into_iter().zip(DNA.grid) {
            let least = 2.0 * 1.75 * k * side / (2.0 * std::f64::consts::PI);
            assert!(points as f64 >= least && (points as f64) < 1.05 * least, "{least} {points}");
        }
    }

    /// Every rank finds itself in its groups, and those of one band group do not reach into another but for the block.
    #[test]
    fn ranks_are_in_their_groups() {
        let this = Castep { ranks: 64, kpoints: 2, by_kpoint: 2, by_band: 2, ..DNA };
        for rank in 0..64 {
            for (collective, reach) in
                [(this.transposed(rank, true), 16), (this.transposed(rank, false), 16), (this.sum(rank), 16), (this.spread(rank), 32)]
            {
                assert_eq!(collective.group.rank(collective.index), rank);
                assert!(collective.group.iter().all(|other| other / reach == rank / reach));
            }
        }
    }

    /// 2,423 bands in blocks of 128 are 19 blocks; five steps, ten cycles.
    #[test]
    fn blocks_make_a_run() {
        assert_eq!(DNA.whole().iterations, 19 * 5 * 10);
    }
}
