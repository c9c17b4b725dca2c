//! HPCG: conjugate gradients with a V-cycle of symmetric Gauss-Seidel sweeps on 27 points.
//!
//! Source: M. Heroux, J. Dongarra, P. Luszczek, "HPCG benchmark technical specification", SAND2013-8752, 2013, and J. Dongarra et al., "A new
//! metric for ranking high-performance computing systems", Natl. Sci. Rev. 3, 2016: operations that are counted, four levels, halos.
//! Modelled: on each level but the last a sweep, the residual, restriction, interpolation and a sweep; one sweep on the last; halos of 26
//! neighbours before each; three dot products and three vector updates of an iteration; the rating by the operations that HPCG counts.
//! Not modelled: set-up, validation, reorderings of vendors' versions, which change how much a sweep moves.

use std::sync::Arc;

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::{DIRECTIONS, Grid, dims_create};
use crate::options::{conflict, options, three, value};
use crate::step::{Collective, DOUBLE, Exchange, Merit, Program, Ran, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "hpcg";
pub(crate) const ABOUT: &str = "HPCG: conjugate gradients with multigrid of Gauss-Seidel sweeps on 27 points";
pub(crate) const OPTIONS: &[Opt] = options![value('n', "points", "x,y,z", "points of each rank, multiples of 8 (default 104,104,104)"),];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Hpcg {
    points: [u64; 3],
    grid: Grid,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let mut points = [104; 3];
    for given in parsed.options.iter().filter(|given| given.name == "points") {
        points = three(given, 4096)?;
    }
    if points.iter().any(|points| !points.is_multiple_of(COARSEN) || *points < 16) {
        let what = format!("{} x {} x {} points of a rank do not go through {LEVELS} levels", points[0], points[1], points[2]);
        return Err(conflict(what, "use multiples of 8, at least 16, such as -n 104,104,104"));
    }
    Ok(Arc::new(Hpcg { points, grid: Grid { dims: dims_create(layout.ranks()), periodic: false } }))
}

impl Program for Hpcg {
    fn title(&self) -> String {
        let ([x, y, z], [i, j, k]) = (self.points, self.grid.dims);
        format!("HPCG, {x} x {y} x {z} points a rank on {i} x {j} x {k} ranks")
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let (dot, update) = (Collective::all_reduce(rank, self.grid.ranks(), 1), Step::Work(this.vectors(3)));
        let down = (0..LEVELS - 1).flat_map(move |level| {
            let mut steps = this.halo(rank, level);
            steps.push(Step::Work(this.rows(level, SWEEP)));
            steps.extend(this.halo(rank, level));
            steps.push(Step::Work(this.rows(level, PRODUCT)));
            steps
        });
        let last = this.halo(rank, LEVELS - 1).into_iter().chain([Step::Work(this.rows(LEVELS - 1, SWEEP))]);
        let up = (0..LEVELS - 1).rev().flat_map(move |level| {
            let mut steps = this.halo(rank, level);
            steps.push(Step::Work(this.rows(level, SWEEP)));
            steps
        });
        // z = M r; rho = r z; p; q = A p; p q; x, r; r r.
        let sum = move |vectors: u64| [Step::Work(this.vectors(vectors)), Step::Collective(dot.clone())];
        let product = this.halo(rank, 0).into_iter().chain([Step::Work(this.rows(0, PRODUCT))]);
        Box::new(
            down.chain(last)
                .chain(up)
                .chain(sum(2))
                .chain([update.clone()])
                .chain(product)
                .chain(sum(2))
                .chain([update.clone(), update])
                .chain(sum(1)),
        )
    }

    fn log(&self, ran: &Ran) -> String {
        let rating = self.whole().merit.map_or(0.0, |merit| merit.work * ran.iterations as f64 / ran.seconds);
        format!(
            "Final Summary::HPCG result is VALID with a GFLOP/s rating of={rating:.4}\n\
             Final Summary::Results are valid but execution time (sec) is={:.4}\n",
            ran.seconds
        )
    }

    fn whole(&self) -> Whole {
        let ranks = f64::from(self.grid.ranks());
        let nonzeros = |level: u32| 27.0 * self.own(level).iter().product::<u64>() as f64;
        // As HPCG counts: a sweep is two products; coarse levels as well; six operations on vectors, two for each element.
        let cycle: f64 = (0..LEVELS - 1).map(|level| 10.0 * nonzeros(level)).sum::<f64>() + 4.0 * nonzeros(LEVELS - 1);
        let vectors = 12.0 * self.own(0).iter().product::<u64>() as f64;
        let work = (cycle + 2.0 * nonzeros(0) + vectors) * ranks / 1e9;
        Whole { iterations: RUN, merit: Some(Merit { name: "HPCG rating", unit: "GFLOP/s", work }) }
    }
}

impl Hpcg {
    /// Points of a rank on a level.
    fn own(&self, level: u32) -> [u64; 3] {
        self.points.map(|points| (points >> level).max(1))
    }

    /// So many passes over the matrix of a level, each with its vectors.
    fn rows(&self, level: u32, passes: u64) -> Work {
        let rows: u64 = self.own(level).iter().product();
        let pass = rows * (POINTS * (DOUBLE + INDEX) + 3 * DOUBLE);
        Work { flops: passes * rows * POINTS * 2, bytes: Bytes(passes * pass), footprint: Bytes(pass) }
    }

    /// An operation on so many vectors.
    fn vectors(&self, vectors: u64) -> Work {
        let bytes = self.points.iter().product::<u64>() * vectors * DOUBLE;
        Work { flops: 2 * bytes / DOUBLE / vectors.max(1), bytes: Bytes(bytes), footprint: Bytes(bytes) }
    }

    /// Elements of up to 26 neighbours.
    fn halo(&self, rank: u32, level: u32) -> Vec<Step> {
        let own = self.own(level);
        let mut neighbours = Vec::new();
        for step in DIRECTIONS {
            let Some(other) = self.grid.neighbour(rank, step).filter(|other| *other != rank) else { continue };
            let elements: u64 = (0..3).map(|d| if step[d] == 0 { own[d] } else { 1 }).product();
            neighbours.push((other, Bytes(elements * DOUBLE)));
        }
        if neighbours.is_empty() { Vec::new() } else { vec![Step::Exchange(Exchange::with(neighbours))] }
    }
}

/// Levels of the V-cycle. Basis: standard (HPCG).
const LEVELS: u32 = 4;
/// What points must be multiples of for them. Basis: standard (HPCG).
const COARSEN: u64 = 8;
/// Passes over the matrix: a symmetric sweep goes there and back. Basis: standard.
const SWEEP: u64 = 2;
const PRODUCT: u64 = 1;
/// Points of the stencil. Basis: standard.
const POINTS: u64 = 27;
/// Bytes of a column's index. Basis: standard (HPCG's local_int_t).
const INDEX: u64 = 4;
/// Iterations of a set. Basis: standard (HPCG).
const RUN: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranks: u32) -> Hpcg {
        Hpcg { points: [16; 3], grid: Grid { dims: dims_create(ranks), periodic: false } }
    }

    /// Three levels with three halos each, one on the last, one for the product of the iteration; three sums.
    #[test]
    fn an_iteration_has_eleven_halos_and_three_sums() {
        let steps: Vec<Step> = of(27).steps(13).collect();
        let halos: Vec<usize> =
            steps.iter().filter_map(|step| if let Step::Exchange(exchange) = step { Some(exchange.sends.len()) } else { None }).collect();
        assert_eq!((halos.len(), halos[0]), (11, 26));
        assert_eq!(steps.iter().filter(|step| matches!(step, Step::Collective(_))).count(), 3);
        // Corners of the grid have seven neighbours.
        let Some(Step::Exchange(corner)) = of(27).steps(0).next() else { panic!("halos come first") };
        assert_eq!(corner.sends.iter().map(|(_, bytes)| bytes.0).sum::<u64>(), 8 * (3 * 256 + 3 * 16 + 1));
    }

    /// 16 cubed points: 110,592 nonzeros; sweeps and residuals 10 times, an eighth and a 64th of it, four times a 512th; the product twice.
    #[test]
    fn operations_are_counted_as_hpcg_does() {
        let nonzeros = 27.0 * 4096.0;
        let all = nonzeros * (10.0 * (1.0 + 1.0 / 8.0 + 1.0 / 64.0) + 4.0 / 512.0 + 2.0) + 12.0 * 4096.0;
        let merit = of(1).whole().merit.unwrap();
        assert!((merit.work * 1e9 / all - 1.0).abs() < 1e-9, "{}", merit.work);
    }
}
