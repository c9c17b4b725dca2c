//! OpenSBLI: the compressible Taylor-Green vortex by finite differences of fourth order on a structured mesh.
//!
//! Source: C. T. Jacobs, S. P. Jammy, N. D. Sandham, "OpenSBLI: A framework for the automated derivation and parallel execution of finite
//! difference solvers on a range of computer architectures", J. Comput. Sci. 18, 2017 (equations, scheme, three-stage Runge-Kutta, periodic
//! cube); S. P. Jammy, C. T. Jacobs, N. D. Sandham, "Performance evaluation of explicit finite difference algorithms with varying amounts of
//! computational and memory intensity", J. Comput. Sci. 36, 2019 (which derivatives are stored: the variant SS stores those of the
//! velocities); I. Z. Reguly et al., "The OPS domain specific abstraction for multi-block structured grid computations", WOLFHPC 2014
//! (halos on demand, all arrays of a loop in one message, one direction after the other, wait before the loop).
//! Modelled: arrays that each loop reads and writes; faces two points deep of what stencils reach; the grid of ranks of MPI_Dims_create.
//! Not modelled: vectorisation and caches beyond the roofline, diagnostics between steps, which the benchmark leaves out.

use std::sync::Arc;

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::{Grid, block, dims_create};
use crate::options::{conflict, options, three, value};
use crate::step::{DOUBLE, Exchange, Program, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "opensbli";
pub(crate) const ABOUT: &str = "OpenSBLI's Taylor-Green vortex: finite differences on a structured mesh, halos of faces";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "points", "count", "points of the mesh in each direction (default 1024)"),
    value('\0', "mesh", "x,y,z", "the same, each direction by itself"),
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct OpenSbli {
    points: [u64; 3],
    grid: Grid,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let mut points = [1024; 3];
    for given in &parsed.options {
        match given.name {
            "points" => points = [arguments::number(given, 1, MOST)?; 3],
            "mesh" => points = three(given, MOST)?,
            _ => {}
        }
    }
    let grid = Grid { dims: dims_create(layout.ranks()), periodic: true };
    for (points, ranks) in points.into_iter().zip(grid.dims) {
        if points / u64::from(ranks) < DEPTH {
            let what = format!("{points} points for {ranks} ranks in a direction, and stencils reach {DEPTH} points");
            return Err(conflict(what, "use a larger mesh, or fewer ranks"));
        }
    }
    Ok(Arc::new(OpenSbli { points, grid }))
}

impl Program for OpenSbli {
    fn title(&self) -> String {
        let ([x, y, z], [i, j, k]) = (self.points, self.grid.dims);
        format!("OpenSBLI, Taylor-Green vortex, {x} x {y} x {z} points on {i} x {j} x {k} ranks")
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let save = Step::Work(this.work(rank, SAVE, 0));
        let stage = move |_: u32| {
            let conserved = this.halos(rank, CONSERVED);
            let primitives = [Step::Work(this.work(rank, PRIMITIVES, PRIMITIVE_FLOPS))];
            let between = this.halos(rank, PRIMITIVE);
            let gradients = [Step::Work(this.work(rank, GRADIENTS, GRADIENT_FLOPS))];
            let stored = this.halos(rank, GRADIENT);
            let residual = [Step::Work(this.work(rank, RESIDUAL, RESIDUAL_FLOPS)), Step::Work(this.work(rank, UPDATE, UPDATE_FLOPS))];
            conserved.into_iter().chain(primitives).chain(between).chain(gradients).chain(stored).chain(residual)
        };
        Box::new(std::iter::once(save).chain((0..STAGES).flat_map(stage)))
    }

    fn whole(&self) -> Whole {
        Whole { iterations: RUN, merit: None }
    }
}

impl OpenSbli {
    /// Points of a rank in each direction.
    fn own(&self, rank: u32) -> [u64; 3] {
        let at = self.grid.coordinates(rank);
        std::array::from_fn(|direction| block(self.points[direction], self.grid.dims[direction], at[direction]))
    }

    /// A loop over all points that moves so many arrays.
    fn work(&self, rank: u32, arrays: u64, flops: u64) -> Work {
        let points: u64 = self.own(rank).iter().product();
        Work { flops: points * flops, bytes: Bytes(points * arrays * DOUBLE), footprint: Bytes(points * HELD * DOUBLE) }
    }

    /// The halos of so many arrays, one direction after the other.
    fn halos(&self, rank: u32, arrays: u64) -> Vec<Step> {
        let own = self.own(rank);
        let points: u64 = own.iter().product();
        let of_direction = |direction: usize| {
            if self.grid.dims[direction] < 2 {
                return None;
            }
            let face = Bytes(points / own[direction].max(1) * DEPTH * arrays * DOUBLE);
            let mut step = [0; 3];
            let neighbour = |sign: i32, step: &mut [i32; 3]| {
                step[direction] = sign;
                self.grid.neighbour(rank, *step).map(|other| (other, face))
            };
            let (down, up) = (neighbour(-1, &mut step), neighbour(1, &mut step));
            // Two ranks in a direction send each other both faces: what one sends up comes from below.
            let sends = down.into_iter().chain(up).collect();
            let receives = up.into_iter().chain(down).collect();
            Some(Step::Exchange(Exchange { sends, receives, packed: Bytes(2 * face.0), ..Exchange::default() }))
        };
        (0..3).filter_map(of_direction).collect()
    }
}

/// Stages of the Runge-Kutta scheme. Basis: published (Jacobs et al. 2017, §3).
const STAGES: u32 = 3;
/// Points that a stencil of fourth order reaches. Basis: standard.
const DEPTH: u64 = 2;
/// Density, momenta, energy. Basis: published.
const CONSERVED: u64 = 5;
/// Velocities, pressure, temperature. Basis: published.
const PRIMITIVE: u64 = 5;
/// Derivatives of velocities in other directions than their own, of which stencils take derivatives again. Basis: published (SS).
const GRADIENT: u64 = 6;
/// Arrays that loops read and write for a point. Basis: counted from the equations: primitives from conserved (5 + 5), nine derivatives of
/// three velocities (3 + 9), residuals from all of them (5 + 5 + 9 + 5), the update of both copies (5 + 5 + 5 + 10), the copy (5 + 5).
const PRIMITIVES: u64 = 10;
const GRADIENTS: u64 = 12;
const RESIDUAL: u64 = 24;
const UPDATE: u64 = 25;
const SAVE: u64 = 10;
/// Arrays in memory: conserved, their copy, residuals, primitives, nine derivatives. Basis: counted.
const HELD: u64 = 29;
/// Operations for a point. Basis: estimated: five for a first derivative, seven for a second; 45 first ones in the split convective terms
/// with their products, 12 second and 6 mixed ones in the viscous terms.
const PRIMITIVE_FLOPS: u64 = 14;
const GRADIENT_FLOPS: u64 = 45;
const RESIDUAL_FLOPS: u64 = 560;
const UPDATE_FLOPS: u64 = 20;
/// Iterations of the benchmark. Basis: estimated; its times are given for one.
const RUN: u64 = 100;
/// Points in a direction. Basis: assumed.
const MOST: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranks: u32) -> OpenSbli {
        OpenSbli { points: [64; 3], grid: Grid { dims: dims_create(ranks), periodic: true } }
    }

    /// 8 ranks of 32 cubed points: faces of 32 · 32 points, two deep, of five arrays of doubles: 81,920 bytes.
    #[test]
    fn faces_are_as_large_as_their_area() {
        let steps: Vec<Step> = of(8).steps(3).collect();
        let Step::Exchange(first) = &steps[1] else { panic!("halos come first") };
        assert_eq!(first.sends.iter().map(|(_, bytes)| bytes.0).collect::<Vec<_>>(), [81_920; 2]);
        let exchanges = steps.iter().filter(|step| matches!(step, Step::Exchange(_))).count();
        assert_eq!(exchanges, 3 * 3 * 3);
    }

    /// What a rank sends to another, the other receives, in the same order.
    #[test]
    fn neighbours_agree() {
        for ranks in [2, 6, 8, 27] {
            let program = of(ranks);
            for rank in 0..ranks {
                for (place, step) in program.steps(rank).enumerate() {
                    let Step::Exchange(exchange) = step else { continue };
                    for (peer, _) in &exchange.sends {
                        let Some(Step::Exchange(theirs)) = program.steps(*peer).nth(place) else { panic!("both exchange") };
                        let to: Vec<Bytes> = exchange.sends.iter().filter(|(to, _)| to == peer).map(|(_, bytes)| *bytes).collect();
                        let from: Vec<Bytes> = theirs.receives.iter().filter(|(from, _)| *from == rank).map(|(_, bytes)| *bytes).collect();
                        assert_eq!(to, from);
                    }
                }
            }
        }
    }
}
