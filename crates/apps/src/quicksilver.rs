//! Quicksilver: particles that fly through a mesh by chance, cross into other ranks' domains, and are counted until none flies any more.
//!
//! Source: D. F. Richards et al., "Quicksilver: a proxy app for the Monte Carlo transport code Mercury", IEEE Cluster 2017: domains of a mesh,
//! segments that end at a facet, a collision or the end of a time step; particles that leave go to neighbours while others are tracked; a
//! test whether all are done is an all-reduce.
//! Modelled: rounds of tracking, messages of particles to six neighbours, the test; fewer and fewer particles fly after each round.
//! Not modelled: which particle goes where: shares are those of an even medium; uneven load; threads that race for tallies.

use std::sync::Arc;

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::{Grid, dims_create};
use crate::options::{options, value};
use crate::report::exponential;
use crate::step::{Collective, Exchange, Merit, Program, Ran, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "quicksilver";
pub(crate) const ABOUT: &str = "Quicksilver: Monte Carlo transport, particles to neighbours in rounds until all are done";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "particles", "count", "particles of each rank (default 40000)"),
    value('\0', "segments", "count", "segments of a particle in a time step (default 12)"),
    value('\0', "cells", "count", "cells of a rank in each direction (default 16)"),
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Quicksilver {
    particles: u64,
    segments: u64,
    cells: u64,
    grid: Grid,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut particles, mut segments, mut cells) = (40_000, 12, 16);
    for given in &parsed.options {
        match given.name {
            "particles" => particles = arguments::number(given, 1, 1 << 32)?,
            "segments" => segments = arguments::number(given, 1, 1 << 20)?,
            "cells" => cells = arguments::number(given, 1, 1 << 16)?,
            _ => {}
        }
    }
    Ok(Arc::new(Quicksilver { particles, segments, cells, grid: Grid { dims: dims_create(layout.ranks()), periodic: true } }))
}

impl Program for Quicksilver {
    fn title(&self) -> String {
        let [i, j, k] = self.grid.dims;
        format!("Quicksilver, {} particles and {} cubed cells a rank on {i} x {j} x {k} ranks", self.particles, self.cells)
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let done = Collective::all_reduce(rank, self.grid.ranks(), 1);
        let round = move |(flying, leaving): (u64, u64)| {
            let work = Step::Work(this.tracking(flying));
            let exchange = this.exchange(rank, leaving);
            [work].into_iter().chain(exchange).chain([Step::Collective(done.clone())])
        };
        Box::new(this.rounds().into_iter().flat_map(round))
    }

    fn log(&self, ran: &Ran) -> String {
        let merit = self.whole().merit.map_or(0.0, |merit| merit.work * ran.iterations as f64 / ran.seconds);
        format!("Figure Of Merit {:>24} [Num Segments / Cycle Tracking Time]\n", exponential(merit))
    }

    fn whole(&self) -> Whole {
        let segments = self.particles as f64 * self.segments as f64 * f64::from(self.grid.ranks());
        Whole { iterations: RUN, merit: Some(Merit { name: "Figure Of Merit", unit: "segments/s", work: segments }) }
    }
}

impl Quicksilver {
    /// Segments that are tracked in each round, and particles that leave a rank then. A segment ends in a facet of a cell as often as in
    /// its middle; of those cells that a particle passes one in `cells` lies at a side, in each of three directions.
    fn rounds(&self) -> Vec<(u64, u64)> {
        let mut left = self.particles.saturating_mul(self.segments);
        let mut all = Vec::new();
        if self.grid.ranks() == 1 {
            return vec![(left, 0)];
        }
        // Of so many segments one leaves: half end in a facet, three of whose six lead out of a side cell's row of `cells`.
        let until = 2 * self.cells;
        while left > 0 {
            let flying = left / self.segments.max(1);
            // Before it leaves a particle has so many segments here, or all that are left to it.
            let tracked = left.min(flying.max(1).saturating_mul(until.min(self.segments)));
            let leaving = tracked / until;
            all.push((tracked, leaving));
            left = leaving.saturating_mul(self.segments / 2);
        }
        all
    }

    fn tracking(&self, segments: u64) -> Work {
        let bytes = Bytes(segments * SEGMENT);
        Work { flops: segments * OPERATIONS, bytes, footprint: Bytes(self.cells.pow(3) * CELL + self.particles * PARTICLE) }
    }

    /// Particles to the six neighbours, a sixth to each.
    fn exchange(&self, rank: u32, leaving: u64) -> Option<Step> {
        let mut neighbours = Vec::new();
        for direction in 0..3 {
            for sign in [-1, 1] {
                let mut step = [0; 3];
                step[direction] = sign;
                let other = self.grid.neighbour(rank, step).filter(|other| *other != rank);
                neighbours.extend(other.map(|other| (other, Bytes((leaving / 6).max(1) * PARTICLE))));
            }
        }
        (leaving > 0 && !neighbours.is_empty()).then(|| {
            // In both directions of one pair messages are alike.
            Step::Exchange(Exchange::with(neighbours))
        })
    }
}

/// A particle in a message. Basis: published (Quicksilver's MC_Base_Particle: position, direction, velocity, weight, energy, age, numbers).
const PARTICLE: u64 = 160;
/// Memory that a segment touches: the particle, the cell with its facets, cross-sections of an energy group, a tally. Basis: estimated.
const SEGMENT: u64 = 1024;
/// Operations of a segment: distances to 24 facets of a cell, a random number, a reaction. Basis: estimated.
const OPERATIONS: u64 = 500;
/// A cell with its facets and tallies. Basis: estimated.
const CELL: u64 = 2048;
/// Time steps. Basis: published (the usual inputs have 10).
const RUN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each round has fewer particles than the one before, and every rank as many rounds: the last all-reduce finds none.
    #[test]
    fn rounds_come_to_an_end() {
        let program = Quicksilver { particles: 40_000, segments: 12, cells: 16, grid: Grid { dims: [4, 4, 4], periodic: true } };
        let rounds = program.rounds();
        assert_eq!(rounds[0], (480_000, 15_000));
        assert!(rounds.windows(2).all(|two| two[1].0 < two[0].0) && rounds.last().unwrap().1 * 6 < 32, "{rounds:?}");
        let sums = program.steps(5).filter(|step| matches!(step, Step::Collective(_))).count();
        assert_eq!(sums, rounds.len());
        // Smaller domains: more leave.
        let small = Quicksilver { cells: 4, ..program };
        assert!(small.rounds()[0].1 > rounds[0].1 && small.rounds().len() > rounds.len());
    }
}
