//! AMG2023: conjugate gradients with one V-cycle of algebraic multigrid, on the Laplacian of seven points (problem 2).
//!
//! Source: LLNL, AMG2023 (its figures of merit are nonzeros of all matrices and interpolations over times); R. D. Falgout, U. M. Yang,
//! "hypre: a library of high performance preconditioners", ICCS 2002; U. M. Yang, "On long-range interpolation operators for aggressive
//! coarsening", Numer. Linear Algebra Appl. 17, 2010 (aggressive coarsening on the first level: rows and nonzeros of coarse levels).
//! Modelled: on each level a sweep of the smoother, the residual, restriction, interpolation and a sweep, each with the elements that it
//! needs of neighbours; blocks that shrink until some ranks have no rows; the coarsest level, which its ranks gather; vectors and dot
//! products of conjugate gradients. A product's messages go beside nothing: hypre's rows that need them are spread.
//! Not modelled: set-up; convergence: the number of iterations is given; coarse grids are regular, as those of a cube.

use std::sync::Arc;

use fabriscope_collectives::{Group, Kind};
use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::{DIRECTIONS, Grid, dims_create};
use crate::options::{conflict, options, three, value};
use crate::report::exponential;
use crate::step::{Collective, DOUBLE, Exchange, Merit, Program, Ran, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "amg";
pub(crate) const ABOUT: &str = "AMG2023: conjugate gradients with algebraic multigrid, halos of levels that get small";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "points", "x,y,z", "points of each rank (default 256,256,128)"),
    value('P', "grid", "x,y,z", "ranks in each direction (default: as MPI_Dims_create)"),
    value('\0', "solve-iterations", "count", "iterations until it converges, which the numbers decide (default 31)"),
];

/// The program on its ranks; the first direction is the slowest.
#[derive(Debug, Clone)]
struct Amg {
    points: [u64; 3],
    grid: Grid,
    solve: u64,
    levels: Arc<[Level]>,
}

/// A level.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Level {
    /// Rows of a rank in each direction; a share where not every rank has one.
    own: [f64; 3],
    /// Only every so manieth rank in a direction has rows.
    stride: [u32; 3],
    /// Nonzeros of a row of the matrix, and of the interpolation to it.
    nonzeros: f64,
    interpolation: f64,
    /// How many points away a row needs elements.
    reach: f64,
    /// Whether it needs them of diagonal neighbours.
    diagonal: bool,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut points, mut dims, mut solve) = ([256, 256, 128], None, SOLVE);
    for given in &parsed.options {
        match given.name {
            "points" => points = three(given, 4096)?,
            "grid" => dims = Some(three(given, 1 << 20)?.map(|ranks| ranks as u32)),
            "solve-iterations" => solve = arguments::number(given, 1, 100_000)?,
            _ => {}
        }
    }
    let ranks = layout.ranks();
    let [x, y, z] = dims.unwrap_or_else(|| dims_create(ranks));
    if u64::from(x) * u64::from(y) * u64::from(z) != u64::from(ranks) {
        let what = format!("a grid of {x} x {y} x {z} ranks, and the job has {ranks}");
        return Err(conflict(what, "let the product of -P be nodes times --ppn"));
    }
    points.reverse();
    let grid = Grid { dims: [z, y, x], periodic: false };
    Ok(Arc::new(Amg { points, grid, solve, levels: levels(points, grid).into() }))
}

/// The levels, until so few rows are left that they are solved directly.
fn levels(points: [u64; 3], grid: Grid) -> Vec<Level> {
    let mut own = points.map(|points| points as f64);
    let mut all = Vec::new();
    let total = |own: [f64; 3]| own.iter().zip(grid.dims).map(|(own, ranks)| (own * f64::from(ranks)).max(1.0)).product::<f64>();
    loop {
        let (nonzeros, reach, diagonal) = match all.len() {
            0 => (FINEST, 1.0, false),
            1 => (SECOND, 1.0, true),
            _ => (COARSE, COARSE_REACH, true),
        };
        let last = total(own) <= DIRECT;
        let stride = std::array::from_fn(|d: usize| ((1.0 / own[d]).round() as u32).clamp(1, grid.dims[d]));
        let interpolation = if last { 0.0 } else { INTERPOLATION };
        let rows = total(own);
        all.push(Level { own, stride, nonzeros: nonzeros.min(rows), interpolation, reach, diagonal });
        if last {
            return all;
        }
        let shrink = libm::cbrt(if all.len() == 1 { AGGRESSIVE } else { USUAL });
        // A direction of one point is not coarsened any more.
        own = std::array::from_fn(|d| (own[d] / shrink).max(1.0 / f64::from(grid.dims[d])));
    }
}

impl Level {
    /// Rows of a rank that has some.
    fn rows(&self) -> f64 {
        self.own.iter().map(|own| own.max(1.0)).product()
    }
    fn has(&self, at: [u32; 3]) -> bool {
        at.iter().zip(self.stride).all(|(at, stride)| at % stride == 0)
    }
}

impl Amg {
    /// Elements that a product needs of neighbours; nothing for ranks without rows.
    fn halo(&self, rank: u32, level: &Level) -> Option<Step> {
        if !level.has(self.grid.coordinates(rank)) {
            return None;
        }
        let mut neighbours = Vec::new();
        for step in DIRECTIONS {
            let far = step.iter().filter(|step| **step != 0).count();
            if far == 0 || (far > 1 && !level.diagonal) {
                continue;
            }
            let hop = std::array::from_fn(|d| step[d] * level.stride[d] as i32);
            let Some(other) = self.grid.neighbour(rank, hop) else { continue };
            let side = |d: usize| if step[d] == 0 { level.own[d].max(1.0) } else { level.reach.min(level.own[d].max(1.0)) };
            let elements = (0..3).map(side).product::<f64>().round() as u64;
            neighbours.push((other, Bytes(elements.max(1) * DOUBLE)));
        }
        (!neighbours.is_empty()).then(|| Step::Exchange(Exchange::with(neighbours)))
    }

    /// A pass over so many nonzeros and vectors of the level's rows.
    fn pass(&self, rank: u32, level: &Level, nonzeros: f64, vectors: u64) -> Option<Step> {
        if !level.has(self.grid.coordinates(rank)) {
            return None;
        }
        let rows = level.rows();
        let bytes = rows * (nonzeros * (DOUBLE + INDEX) as f64 + (vectors * DOUBLE + INDEX) as f64);
        let held = rows * (level.nonzeros * (DOUBLE + INDEX) as f64 + (VECTORS * DOUBLE) as f64);
        let flops = (rows * nonzeros * 2.0) as u64;
        Some(Step::Work(Work { flops, bytes: Bytes(bytes as u64), footprint: Bytes(held as u64) }))
    }

    /// Down: a sweep, the residual, restriction. Interpolation reaches as its level's matrix.
    fn down(&self, rank: u32, level: &Level) -> Vec<Step> {
        let sweep = [self.halo(rank, level), self.pass(rank, level, level.nonzeros, 3)];
        let residual = [self.halo(rank, level), self.pass(rank, level, level.nonzeros, 3)];
        let restrict = [self.pass(rank, level, level.interpolation, 2), self.halo(rank, level)];
        [sweep, residual, restrict].into_iter().flatten().flatten().collect()
    }

    /// Up: interpolation, a sweep.
    fn up(&self, rank: u32, level: &Level) -> Vec<Step> {
        let interpolate = [self.halo(rank, level), self.pass(rank, level, level.interpolation, 3)];
        let sweep = [self.halo(rank, level), self.pass(rank, level, level.nonzeros, 3)];
        [interpolate, sweep].into_iter().flatten().flatten().collect()
    }

    /// The coarsest level: every rank of it gets all rows and solves.
    fn coarsest(&self, rank: u32, level: &Level) -> Option<Step> {
        let [z, y, x] = self.grid.dims;
        let [k, j, i] = level.stride.map(|stride| stride as usize);
        let mut members = Vec::new();
        for at_z in (0..z).step_by(k) {
            for at_y in (0..y).step_by(j) {
                members.extend((0..x).step_by(i).map(|at_x| self.grid.rank([at_z, at_y, at_x])));
            }
        }
        let index = members.iter().position(|member| *member == rank)? as u32;
        if members.len() < 2 {
            return None;
        }
        let rows = level.rows().round() as u64;
        // A row of the dense matrix and its right-hand side.
        let size = Bytes(rows * (rows * members.len() as u64 + 1) * DOUBLE);
        let group = Group::new(members);
        Some(Step::Collective(Collective { operation: Kind::Allgather, group, index, root: 0, size, width: Bytes(DOUBLE) }))
    }

    /// Nonzeros of all matrices and interpolations.
    fn nonzeros(&self) -> f64 {
        let ranks = |level: &Level| level.stride.iter().zip(self.grid.dims).map(|(s, n)| f64::from(n.div_ceil(*s))).product::<f64>();
        self.levels.iter().map(|level| ranks(level) * level.rows() * (level.nonzeros + level.interpolation)).sum()
    }
}

impl Program for Amg {
    fn title(&self) -> String {
        let ([z, y, x], [k, j, i]) = (self.points, self.grid.dims);
        let levels = self.levels.len();
        format!("AMG2023, problem 2: {x} x {y} x {z} points on each of {i} x {j} x {k} ranks, {levels} levels")
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = Arc::new(self.clone());
        let ranks = this.grid.ranks();
        let last = this.levels.len() - 1;
        let sum = move || Step::Collective(Collective::all_reduce(rank, ranks, 1));
        let finest = this.levels[0];
        // s = A p, (s, p), x += a p, r -= a s, z = M r, (r, z), p = z + b p; and the norm of r.
        let product =
            [this.halo(rank, &finest), this.pass(rank, &finest, finest.nonzeros, 2), this.pass(rank, &finest, 0.0, 2), Some(sum())];
        let update = [this.pass(rank, &finest, 0.0, 6)];
        let (downwards, upwards, end) = (this.clone(), this.clone(), this.clone());
        let down = (0..last).flat_map(move |number| downwards.down(rank, &downwards.levels[number]));
        let coarsest = std::iter::once(()).filter_map(move |()| end.coarsest(rank, &end.levels[last]));
        let up = (0..last).rev().flat_map(move |number| upwards.up(rank, &upwards.levels[number]));
        let after = [
            this.pass(rank, &finest, 0.0, 2),
            Some(sum()),
            this.pass(rank, &finest, 0.0, 1),
            Some(sum()),
            this.pass(rank, &finest, 0.0, 3),
        ];
        Box::new(product.into_iter().chain(update).flatten().chain(down).chain(coarsest).chain(up).chain(after.into_iter().flatten()))
    }

    fn log(&self, ran: &Ran) -> String {
        let merit = self.whole().merit.map_or(0.0, |merit| merit.work * ran.iterations as f64 / ran.seconds);
        format!("FOM_Solve: nnz_AP * iterations / Solve Phase Time: {}\n", exponential(merit))
    }

    fn whole(&self) -> Whole {
        let work = self.nonzeros() / self.solve as f64;
        Whole { iterations: self.solve, merit: Some(Merit { name: "fom_solve", unit: "1/s", work }) }
    }
}

/// Nonzeros of a row on the first level. Basis: standard, seven points.
const FINEST: f64 = 7.0;
/// Those of the second and of coarser ones. Basis: estimated from tables of three-dimensional Laplacians in Yang 2010.
const SECOND: f64 = 25.0;
const COARSE: f64 = 50.0;
/// Points that rows of coarser levels reach. Basis: estimated: 50 points are between cubes of 3 and of 5.
const COARSE_REACH: f64 = 1.5;
/// Nonzeros of a row of an interpolation. Basis: published, hypre's default of four at most.
const INTERPOLATION: f64 = 4.0;
/// Rows for one of the next level, where coarsening is aggressive and where not. Basis: estimated from the same tables; together with the
/// nonzeros they give 1.77 times the nonzeros of the matrix, where AMG2023 prints 1.72 (4.147e11 of 4096 x 4096 x 2048 points).
const AGGRESSIVE: f64 = 24.0;
const USUAL: f64 = 8.0;
/// Rows that are solved directly. Basis: published, hypre's default of the coarsest size.
const DIRECT: f64 = 9.0;
/// Vectors of a level. Basis: counted: solution, right-hand side, residual.
const VECTORS: u64 = 3;
/// An index. Basis: published; hypre with integers of 64 bits, as the runs were.
const INDEX: u64 = 8;
/// Iterations of a solve. Basis: measured, what the program prints for 4096 x 4096 x 1024 points.
const SOLVE: u64 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    fn amg(dims: [u32; 3]) -> Amg {
        let (points, grid) = ([128, 256, 256], Grid { dims, periodic: false });
        Amg { points, grid, solve: 31, levels: levels(points, grid).into() }
    }

    /// What the program prints on 16 x 16 x 16 ranks: 1.2402e10 · 33.4395 s nonzeros.
    #[test]
    fn nonzeros_are_near_those_that_are_printed() {
        let nonzeros = amg([16; 3]).nonzeros();
        assert!((nonzeros / 4.1472e11 - 1.0).abs() < 0.05, "{nonzeros:e}");
    }

    /// Faces on the first level: 256 · 256, 128 · 256 elements of 8 bytes; an inner rank has six neighbours there and 26 below.
    #[test]
    fn levels_shrink_and_their_halos_with_them() {
        let amg = amg([4; 3]);
        let inner = amg.grid.rank([1, 1, 1]);
        let halo = |level: usize| match amg.halo(inner, &amg.levels[level]) {
            Some(Step::Exchange(exchange)) => exchange.sends.iter().map(|(_, bytes)| bytes.0).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        let (first, second, third) = (halo(0), halo(1), halo(2));
        assert_eq!((first.len(), second.len(), third.len()), (6, 26, 26));
        assert_eq!(first.iter().max(), Some(&(256 * 256 * 8)));
        assert!(second.iter().max() < first.iter().max() && third.iter().max() < second.iter().max());
        // On the last level few ranks have rows.
        let last = amg.levels.last().unwrap();
        let have = (0..64).filter(|rank| last.has(amg.grid.coordinates(*rank))).count();
        assert!(have <= 9, "{have}");
    }

    #[test]
    fn neighbours_agree_on_every_level() {
        let amg = amg([5, 3, 2]);
        for level in amg.levels.iter() {
            for rank in 0..30 {
                let Some(Step::Exchange(exchange)) = amg.halo(rank, level) else { continue };
                for (peer, bytes) in exchange.sends {
                    let Some(Step::Exchange(theirs)) = amg.halo(peer, level) else { panic!("{peer} has no rows") };
                    assert!(theirs.receives.contains(&(rank, bytes)));
                }
            }
        }
    }
}
