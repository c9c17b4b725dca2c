//! LAMMPS with ReaxFF: crystals of HNS, whose charges are equilibrated by conjugate gradients in every step.
//!
//! Source: A. P. Thompson et al., "LAMMPS", Comput. Phys. Commun. 271, 2022 (bricks of space, six messages for ghosts, one direction after
//! the other); H. M. Aktulga et al., "Parallel reactive molecular dynamics: Numerical methods and algorithmic techniques", Parallel
//! Computing 38, 2012 (charges: two systems by conjugate gradients, a sparse product with ghosts and two sums an iteration; bond orders of
//! ghosts as well); bench/HNS of LAMMPS (304 atoms in a cell, 11 A with the skin, lists built every 20 steps).
//! Modelled: the brick of each rank and the ghosts within the cutoff, pairs of atoms, messages of positions, charges, forces and elements of
//! vectors, migration and new lists. Not modelled: tilt of the cell, uneven density, output.

use std::sync::Arc;

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::{Grid, least_surface};
use crate::options::{conflict, options, three, value};
use crate::step::{Collective, DOUBLE, Exchange, Merit, Program, Ran, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "lammps-reax";
pub(crate) const ABOUT: &str = "LAMMPS with ReaxFF (HNS): ghosts, charges by conjugate gradients with two sums an iteration";
pub(crate) const OPTIONS: &[Opt] = options![
    value('\0', "cells", "x,y,z", "cells of 304 atoms in each direction (default 64,64,32)"),
    value('\0', "grid", "x,y,z", "ranks in each direction (default: bricks of the least surface)"),
    value('\0', "qeq-iterations", "count", "iterations of both systems of charges in a step (default 22)"),
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Lammps {
    cells: [u64; 3],
    grid: Grid,
    charges: u64,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut cells, mut charges, mut grid) = ([64, 64, 32], CHARGES, None);
    for given in &parsed.options {
        match given.name {
            "cells" => cells = three(given, 4096)?,
            "grid" => grid = Some(three(given, 1 << 20)?.map(|ranks| ranks as u32)),
            "qeq-iterations" => charges = arguments::number(given, 0, 10_000)?,
            _ => {}
        }
    }
    let ranks = layout.ranks();
    let dims = grid.unwrap_or_else(|| least_surface(box_of(cells), ranks));
    if dims.iter().map(|ranks| u64::from(*ranks)).product::<u64>() != u64::from(ranks) {
        let [x, y, z] = dims;
        let what = format!("a grid of {x} x {y} x {z} ranks, and the job has {ranks}");
        return Err(conflict(what, "let the product of --grid be nodes times --ppn"));
    }
    let this = Lammps { cells, grid: Grid { dims, periodic: true }, charges };
    for (side, ranks) in this.side().into_iter().zip(this.grid.dims) {
        if side < CUTOFF && ranks > 1 {
            let what = format!("bricks of {side:.1} A, and atoms see others {CUTOFF} A away");
            return Err(conflict(what, "use more --cells, or fewer ranks"));
        }
    }
    Ok(Arc::new(this))
}

/// The box in A.
fn box_of(cells: [u64; 3]) -> [f64; 3] {
    std::array::from_fn(|d| cells[d] as f64 * CELL[d])
}

impl Lammps {
    /// The sides of a brick in A.
    fn side(&self) -> [f64; 3] {
        let sides = box_of(self.cells);
        std::array::from_fn(|d| sides[d] / f64::from(self.grid.dims[d]))
    }
    /// Atoms in an A³.
    fn density() -> f64 {
        ATOMS / CELL.iter().product::<f64>()
    }
    fn local(&self) -> f64 {
        Lammps::density() * self.side().iter().product::<f64>()
    }
    /// Ghosts that come in each direction from either side: a slab as thick as the cutoff, with the ghosts that came before.
    fn ghosts(&self) -> [f64; 3] {
        let mut side = self.side();
        std::array::from_fn(|d| {
            let area = side.iter().enumerate().filter(|(other, _)| *other != d).map(|(_, side)| side).product::<f64>();
            side[d] += 2.0 * CUTOFF;
            Lammps::density() * area * CUTOFF
        })
    }
    fn all_ghosts(&self) -> f64 {
        self.ghosts().iter().map(|ghosts| 2.0 * ghosts).sum()
    }
    /// Pairs in the half list: those of local atoms once, and those with ghosts on both sides.
    fn pairs(&self) -> f64 {
        let neighbours = Lammps::density() * 4.0 / 3.0 * std::f64::consts::PI * CUTOFF.powi(3);
        // An atom at a distance d from a face has a cap of its sphere outside; over all atoms a face cuts π c⁴ / 4 of pairs' volume.
        let [a, b, c] = self.side();
        let area = 2.0 * (a * b + b * c + c * a);
        let outside = Lammps::density().powi(2) * area * std::f64::consts::PI * CUTOFF.powi(4) / 4.0;
        (self.local() * neighbours + outside) / 2.0
    }

    /// Ghosts with so many numbers of each: one direction after the other, both sides at once. Forces go the other way round.
    fn exchange(&self, rank: u32, numbers: u64, back: bool) -> Vec<Step> {
        let ghosts = self.ghosts();
        let of = |d: usize| {
            if self.grid.dims[d] < 2 {
                return None;
            }
            let bytes = Bytes((ghosts[d].round() as u64).max(1) * numbers * DOUBLE);
            let mut hop = [0; 3];
            hop[d] = -1;
            let down = self.grid.neighbour(rank, hop)?;
            hop[d] = 1;
            let up = self.grid.neighbour(rank, hop)?;
            let (sends, receives) = (vec![(down, bytes), (up, bytes)], vec![(up, bytes), (down, bytes)]);
            Some(Step::Exchange(Exchange { sends, receives, packed: Bytes(2 * bytes.0), ..Exchange::default() }))
        };
        let mut steps: Vec<Step> = (0..3).filter_map(of).collect();
        if back {
            steps.reverse();
        }
        steps
    }

    fn work(bytes: f64, flops: f64, footprint: f64) -> Step {
        Step::Work(Work { flops: flops as u64, bytes: Bytes(bytes as u64), footprint: Bytes(footprint as u64) })
    }
}

impl Program for Lammps {
    fn title(&self) -> String {
        let ([x, y, z], [i, j, k]) = (self.cells, self.grid.dims);
        let (local, ghosts) = (self.local(), self.all_ghosts());
        format!("LAMMPS, ReaxFF, HNS: {x} x {y} x {z} cells on {i} x {j} x {k} ranks, {local:.0} atoms and {ghosts:.0} ghosts each")
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let ranks = this.grid.ranks();
        let (pairs, atoms) = (this.pairs(), this.local() + this.all_ghosts());
        let sum = move |doubles| Step::Collective(Collective::all_reduce(rank, ranks, doubles));
        let near = pairs * NONBONDED.powi(3) / CUTOFF.powi(3);
        let matrix = near * ELEMENT as f64;
        // Positions; every so many steps atoms move on, and lists are made: on average a part of it in each step.
        let share = |bytes: f64| bytes / REBUILT as f64;
        let begin = this.exchange(rank, 3, false).into_iter().chain([Lammps::work(share(pairs * LISTED), 0.0, pairs * LISTED)]);
        let forces = Lammps::work(pairs * PAIR_BYTES + atoms * BOND_BYTES, pairs * PAIR_FLOPS + atoms * BOND_FLOPS, pairs * PAIR_BYTES);
        let back = this.exchange(rank, 3, true);
        // The matrix of charges, then both systems.
        let make = Lammps::work(matrix * 2.0, near * MAKE_FLOPS, matrix);
        let charges = (0..this.charges).flat_map(move |_| {
            let product = Lammps::work(matrix + atoms * 3.0 * DOUBLE as f64, near * 4.0, matrix);
            let vectors = Lammps::work(this.local() * 8.0 * DOUBLE as f64, this.local() * 8.0, matrix);
            let there = this.exchange(rank, 1, false);
            let back = this.exchange(rank, 1, true);
            there.into_iter().chain([product]).chain(back).chain([sum(1), vectors, sum(1)])
        });
        let known = this.exchange(rank, 1, false);
        Box::new(begin.chain([make]).chain(charges).chain(known).chain([sum(2), forces]).chain(back))
    }

    fn log(&self, ran: &Ran) -> String {
        let (steps, atoms) = (ran.iterations as f64, self.cells.iter().product::<u64>() as f64 * ATOMS);
        let nanoseconds = steps * STEP * 1e-6;
        let (per_day, hours) = (nanoseconds * 86_400.0 / ran.seconds, ran.seconds / 3600.0 / nanoseconds);
        let whole = ran.seconds as u64;
        let (clock, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
        format!(
            "Loop time of {:.6} on {} procs for {steps:.0} steps with {atoms:.0} atoms\n\n\
             Performance: {per_day:.3} ns/day, {hours:.3} hours/ns, {:.3} timesteps/s\n\
             Total wall time: {clock}:{minutes:02}:{seconds:02}\n",
            ran.seconds,
            ran.ranks * ran.threads,
            steps / ran.seconds,
        )
    }

    fn whole(&self) -> Whole {
        let atoms = self.cells.iter().product::<u64>() as f64 * ATOMS;
        Whole { iterations: RUN, merit: Some(Merit { name: "throughput", unit: "Matom-step/s", work: atoms / 1e6 }) }
    }
}

/// The cell in A, and its atoms. Basis: published, bench/HNS.
const CELL: [f64; 3] = [22.326, 11.1412, 13.778966];
const ATOMS: f64 = 304.0;
/// How far ghosts go, with the skin, and how far charges and pairs act (A). Basis: published, what LAMMPS prints; the force field.
const CUTOFF: f64 = 11.0;
const NONBONDED: f64 = 10.0;
/// A step (fs). Basis: published, bench/HNS.
const STEP: f64 = 0.1;
/// Steps until lists are made anew, and of the run. Basis: published, bench/HNS.
const REBUILT: u64 = 20;
const RUN: u64 = 100;
/// Iterations of conjugate gradients for both systems. Basis: assumed; LAMMPS does not print it at this tolerance (1e-6).
const CHARGES: u64 = 22;
/// An element of the matrix and its index. Basis: standard.
const ELEMENT: u64 = 12;
/// What a pair of the list takes: its place in the list, distance and vector (far neighbours of the force field); the same when it is made.
/// Basis: estimated from the records of Aktulga et al. 2012.
const PAIR_BYTES: f64 = 48.0;
const LISTED: f64 = 60.0;
/// What an atom takes, ghost or not, for bonds, angles, torsions and hydrogen bonds. Basis: estimated.
const BOND_BYTES: f64 = 6000.0;
/// Operations for a pair, its element of the matrix, and the bonds of an atom. Basis: estimated.
const PAIR_FLOPS: f64 = 120.0;
const MAKE_FLOPS: f64 = 30.0;
const BOND_FLOPS: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dims: [u32; 3]) -> Lammps {
        Lammps { cells: [64, 64, 32], grid: Grid { dims, periodic: true }, charges: 2 }
    }

    /// LAMMPS prints for 3072, 12288 and 24576 ranks: the grid, local atoms, ghosts and neighbours of a rank. The cell is taken without tilt.
    #[test]
    fn ghosts_and_pairs_are_those_of_lammps() {
        let printed = [
            (3072, [24, 16, 8], 12970.7, 24573.6, 3.89485e6),
            (12288, [32, 24, 16], 3242.67, 12107.8, 1.07025e6),
            (24576, [48, 32, 16], 1621.33, 8636.03, 562_784.0),
        ];
        for (ranks, dims, local, ghosts, pairs) in printed {
            let this = of(dims);
            assert_eq!(this.grid.ranks(), ranks);
            assert!((this.local() / local - 1.0).abs() < 0.001);
            assert!((this.all_ghosts() / ghosts - 1.0).abs() < 0.04, "{ranks}: {}", this.all_ghosts());
            assert!((this.pairs() / pairs - 1.0).abs() < 0.06, "{ranks}: {}", this.pairs());
        }
    }

    #[test]
    fn bricks_have_little_surface() {
        assert_eq!(least_surface([1.0; 3], 64), [4; 3]);
        assert_eq!(least_surface([2.0, 1.0, 1.0], 16), [4, 2, 2]);
    }

    /// Each iteration of the charges has six messages there, six back, and two sums.
    #[test]
    fn charges_are_halos_and_sums() {
        let count = |charges: u64, wanted: fn(&Step) -> bool| Lammps { charges, ..of([4; 3]) }.steps(5).filter(wanted).count();
        let (exchanges, sums) = (|step: &Step| matches!(step, Step::Exchange(_)), |step: &Step| matches!(step, Step::Collective(_)));
        assert_eq!(count(3, exchanges) - count(2, exchanges), 6);
        assert_eq!(count(3, sums) - count(2, sums), 2);
    }
}
