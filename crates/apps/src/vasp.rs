//! VASP with a hybrid functional: exact exchange between orbitals of plane waves, on groups of ranks by k-point and by band.
//!
//! Source: J. Paier, R. Hirschl, M. Marsman, G. Kresse, "The Perdew–Burke–Ernzerhof exchange-correlation functional applied to the G2-1
//! test set using a plane-wave basis set", J. Chem. Phys. 122, 234102, 2005 (the exchange potential by FFTs of orbital pairs); the VASP wiki,
//! KPAR, NCORE, NBANDS, PRECFOCK, LMAXFOCK; hpc-uk/archer-benchmarks @f644ea4, CdTe_Hybrid, INCAR and heads of OUTCARs (the defaults here).
//! Modelled, of one occupied orbital that meets the bands of every group: its broadcast to all groups, for each band of a group two FFTs
//! over the ranks of the group with two transpositions each (MPI_Alltoallv), the sum over these ranks of what augmentation charges see
//! (MPI_Allreduce), computation in proportion to bands and grid. Bands are filled up to a multiple of the groups, which is computed as well.
//! Not modelled: the functional without exchange, diagonalisation by ScaLAPACK, densities, forces beyond two applications of the exchange.

use std::sync::Arc;

use fabriscope_collectives::{Group, Kind};
use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::options::{conflict, options, value};
use crate::step::{Collective, DOUBLE, Program, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "vasp";
pub(crate) const ABOUT: &str = "VASP's exact exchange: orbitals to all groups, FFTs and sums within a group of ranks";
pub(crate) const OPTIONS: &[Opt] = options![
    value('\0', "kpar", "groups", "groups of ranks with k-points of their own (default 2)"),
    value('\0', "ncore", "ranks", "ranks of a group that share bands (default 4)"),
    value('\0', "bands", "count", "bands, filled up to a multiple of the groups (default 640)"),
    value('\0', "occupied", "count", "those with electrons (default 588)"),
    value('\0', "grid", "points", "points of the grid of the exchange in each direction (default 48)"),
    value('\0', "kpoints", "count", "k-points (default 2)"),
    value('\0', "spinors", "count", "components of an orbital: 2 with spin-orbit coupling (default 2)"),
    value('\0', "ions", "count", "ions (default 65)"),
    value('\0', "applications", "count", "times that the exchange is applied in a run (default 8)"),
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Vasp {
    ranks: u32,
    kpar: u32,
    ncore: u32,
    bands: u64,
    occupied: u64,
    grid: u64,
    kpoints: u64,
    spinors: u64,
    ions: u64,
    applications: u64,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let mut this = Vasp { ranks: layout.ranks(), ..CDTE };
    for given in &parsed.options {
        let number = |most| arguments::number(given, 1, most);
        match given.name {
            "kpar" => this.kpar = number(MOST)? as u32,
            "ncore" => this.ncore = number(MOST)? as u32,
            "bands" => this.bands = number(MOST)?,
            "occupied" => this.occupied = number(MOST)?,
            "grid" => this.grid = number(1024)?,
            "kpoints" => this.kpoints = number(MOST)?,
            "spinors" => this.spinors = number(2)?,
            "ions" => this.ions = number(MOST)?,
            "applications" => this.applications = number(MOST)?,
            _ => {}
        }
    }
    if !this.ranks.is_multiple_of(this.kpar * this.ncore) {
        let what = format!("{} ranks in {} groups by k-point and groups of {} by band", this.ranks, this.kpar, this.ncore);
        return Err(conflict(what, "make --kpar times --ncore a divisor of the ranks"));
    }
    if this.occupied > this.bands {
        let what = format!("{} occupied of {} bands", this.occupied, this.bands);
        return Err(conflict(what, "use at least as many --bands as --occupied"));
    }
    Ok(Arc::new(this))
}

impl Program for Vasp {
    fn title(&self) -> String {
        let Vasp { kpar, ncore, grid, .. } = *self;
        let (all, each) = (self.all_bands(), self.own_bands());
        format!("VASP, exact exchange, grid {grid} x {grid} x {grid}, KPAR {kpar}, NCORE {ncore}: {all} bands, {each} to a group")
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let orbital = std::iter::once(Step::Collective(this.orbital(rank)));
        let pair = move |_: u64| {
            let transposition = Step::Collective(this.transposition(rank));
            let fft = [transposition.clone(), transposition];
            fft.clone().into_iter().chain([Step::Work(this.work())]).chain(fft)
        };
        let sum = std::iter::once(Step::Collective(this.augmentation(rank)));
        Box::new(orbital.chain((0..this.own_bands()).flat_map(pair)).chain(sum))
    }

    fn whole(&self) -> Whole {
        let turns = self.kpoints.div_ceil(u64::from(self.kpar));
        Whole { iterations: self.applications * self.occupied * self.kpoints * turns, merit: None }
    }

    fn filled_up(&self) -> f64 {
        self.all_bands() as f64 / self.bands as f64
    }

    fn meets(&self) -> u32 {
        self.ranks / self.kpar
    }
}

impl Vasp {
    /// Groups by band among the ranks of a k-point.
    fn groups(&self) -> u32 {
        self.ranks / self.kpar / self.ncore
    }
    fn own_bands(&self) -> u64 {
        self.bands.div_ceil(u64::from(self.groups()))
    }
    fn all_bands(&self) -> u64 {
        self.own_bands() * u64::from(self.groups())
    }
    /// The first rank of those that share the bands of `rank`.
    fn first(&self, rank: u32) -> u32 {
        rank / self.ncore * self.ncore
    }
    /// Bytes of a function on the grid that a rank holds.
    fn share(&self) -> u64 {
        (self.grid.pow(3) * COMPLEX).div_ceil(u64::from(self.ncore))
    }

    /// The orbital goes from its group to all others: each rank has its part of the grid from the rank at its place.
    fn orbital(&self, rank: u32) -> Collective {
        let of_kpoint = self.meets();
        let begin = rank / of_kpoint * of_kpoint + rank % self.ncore;
        Collective {
            operation: Kind::Bcast,
            group: Group::regular(begin, self.ncore, self.groups()),
            index: (rank - begin) / self.ncore,
            root: 0,
            size: Bytes(self.share() * self.spinors),
            width: Bytes(DOUBLE),
        }
    }

    /// Columns of the grid change their direction: each rank of the group has a block for each other.
    fn transposition(&self, rank: u32) -> Collective {
        let size = Bytes((self.share() / u64::from(self.ncore)).max(1));
        Collective { operation: Kind::Alltoallv, size, ..self.within(rank) }
    }

    /// What the augmentation charges of all bands of the group see of the potential.
    fn augmentation(&self, rank: u32) -> Collective {
        let size = Bytes(self.ions * MOMENTS * COMPLEX * self.own_bands());
        Collective { operation: Kind::Allreduce, size, ..self.within(rank) }
    }

    fn within(&self, rank: u32) -> Collective {
        let first = self.first(rank);
        let group = Group::regular(first, 1, self.ncore);
        Collective { operation: Kind::Barrier, group, index: rank - first, root: 0, size: Bytes::ZERO, width: Bytes(DOUBLE) }
    }

    /// A pair of orbitals: the product, two FFTs, the kernel, the potential on the orbital.
    fn work(&self) -> Work {
        let points = self.grid.pow(3).div_ceil(u64::from(self.ncore));
        let logarithm = u64::from(self.grid.pow(3).max(2).ilog2());
        Work {
            flops: points * (2 * FFT * logarithm + OTHER * self.spinors),
            bytes: Bytes(points * COMPLEX * (PASSES + 2 * self.spinors)),
            footprint: Bytes(self.occupied * self.spinors * self.share()),
        }
    }
}

/// CdTe with a vacancy, as the benchmark has it. Basis: published (INCAR and OUTCARs).
const CDTE: Vasp =
    Vasp { ranks: 1, kpar: 2, ncore: 4, bands: 640, occupied: 588, grid: 48, kpoints: 2, spinors: 2, ions: 65, applications: 8 };
/// A complex number of two doubles. Basis: standard.
const COMPLEX: u64 = 2 * DOUBLE;
/// Angular moments of augmentation charges up to LMAXFOCK = 4: (4 + 1)². Basis: published (the default of VASP).
const MOMENTS: u64 = 25;
/// Operations of an FFT for a point and a doubling of the points. Basis: standard (5 n log₂ n).
const FFT: u64 = 5;
/// Operations of products and sums for a point and a component. Basis: counted: two complex multiplications and an addition.
const OTHER: u64 = 14;
/// Times that a function on the grid is read or written for two FFTs and the kernel. Basis: counted: three directions, read and written, each.
const PASSES: u64 = 14;
/// Of any number on the command line. Basis: assumed.
const MOST: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn on(ranks: u32, ncore: u32) -> Vasp {
        Vasp { ranks, ncore, ..CDTE }
    }

    /// OUTCARs: 64 nodes of 128 ranks with NCORE 16 have 256 groups for each of two k-points and 768 bands, 16 nodes 64 groups and 640.
    #[test]
    fn bands_are_filled_up_to_a_multiple_of_the_groups() {
        let (large, small) = (on(8192, 16), on(2048, 16));
        assert_eq!((large.groups(), large.own_bands(), large.all_bands()), (256, 3, 768));
        assert_eq!((small.groups(), small.own_bands(), small.all_bands()), (64, 10, 640));
        assert!((large.filled_up() - 1.2).abs() < 1e-12 && (small.filled_up() - 1.0).abs() < 1e-12);
    }

    /// 48³ points of 16 bytes on 16 ranks: 110,592 bytes each, of which each other rank of the group has 6,912; both components go to
    /// the other groups.
    #[test]
    fn messages_are_parts_of_the_grid() {
        let this = on(2048, 16);
        assert_eq!((this.transposition(5).size, this.orbital(5).size), (Bytes(6912), Bytes(221_184)));
        assert_eq!(this.whole().iterations, 8 * 588 * 2);
    }

    /// Every rank finds itself in its groups, and those of one k-point do not reach into the other.
    #[test]
    fn ranks_are_in_their_groups() {
        let this = on(512, 4);
        for rank in 0..512 {
            for collective in [this.orbital(rank), this.transposition(rank), this.augmentation(rank)] {
                assert_eq!(collective.group.rank(collective.index), rank);
                assert!(collective.group.iter().all(|other| other / 256 == rank / 256));
            }
        }
    }
}
