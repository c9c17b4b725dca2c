//! BSPMM: a product of block-sparse matrices by one-sided operations: get, compute, update.
//!
//! Source: the kernel of NWChem's coupled-cluster methods as it is studied for MPI's one-sided operations (M. Si et al., "Casper: an
//! asynchronous progress model for MPI RMA on many-core architectures", IPDPS 2015): each task gets two tiles, multiplies them, and adds
//! the result to a third; tasks are taken one after the other.
//! Modelled: tiles on ranks drawn evenly, as far before as behind, two gets that are flushed together, the product, a put of the result.
//! Not modelled: the counter that gives tasks out (they are dealt before), additions at the target: the update is a put of a tile.

use std::sync::Arc;

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::options::{options, value};
use crate::step::{Collective, DOUBLE, OneSided, Program, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "bspmm";
pub(crate) const ABOUT: &str = "BSPMM: product of block-sparse matrices by one-sided get, compute, update";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "tile", "count", "rows of a tile (default 128)"),
    value('\0', "tasks", "count", "products of two tiles of each rank in an iteration (default 16)"),
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Bspmm {
    tile: u64,
    tasks: u64,
    ranks: u32,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut tile, mut tasks) = (128, 16);
    for given in &parsed.options {
        match given.name {
            "tile" => tile = arguments::number(given, 1, 8192)?,
            "tasks" => tasks = arguments::number(given, 1, 1 << 20)?,
            _ => {}
        }
    }
    Ok(Arc::new(Bspmm { tile, tasks, ranks: layout.ranks() }))
}

impl Program for Bspmm {
    fn title(&self) -> String {
        format!("BSPMM, tiles of {0} x {0}, {1} products a rank on {2} ranks", self.tile, self.tasks, self.ranks)
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let tile = Bytes(self.tile * self.tile * DOUBLE);
        let task = move |task: u64| {
            let (before, behind) = this.owners(rank, task);
            let gets = OneSided { is_get: true, parts: vec![(before, tile), (behind, tile)] };
            let put = OneSided { is_get: false, parts: vec![(behind, tile)] };
            let product = Work { flops: 2 * this.tile.pow(3), bytes: Bytes(4 * tile.0), footprint: Bytes(3 * tile.0) };
            [Step::OneSided(gets), Step::Work(product), Step::OneSided(put)]
        };
        let end = Step::Collective(Collective::barrier(rank, self.ranks));
        Box::new((0..self.tasks).flat_map(task).chain([end]))
    }

    fn whole(&self) -> Whole {
        Whole { iterations: 1, merit: None }
    }
}

impl Bspmm {
    /// Whose tiles a task takes: two ranks as far before and behind, where there are others; by chance, but for all ranks alike, so that
    /// every rank is asked as often as it asks.
    fn owners(&self, rank: u32, task: u64) -> (u32, u32) {
        let mixed = task.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let ranks = u64::from(self.ranks.max(2));
        let far = 1 + mixed % (ranks - 1);
        let at = |place: u64| (place % u64::from(self.ranks.max(1))) as u32;
        (at(u64::from(rank) + ranks - far), at(u64::from(rank) + far))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of 128 x 128 doubles are 128 KiB; each task gets two and puts one, of other ranks, which are taken about equally often.
    #[test]
    fn tiles_are_of_other_ranks() {
        let program = Bspmm { tile: 128, tasks: 100, ranks: 8 };
        let mut taken = [0; 8];
        for step in program.steps(3) {
            let Step::OneSided(one_sided) = step else { continue };
            for (owner, bytes) in one_sided.parts {
                assert!(owner != 3 && bytes == Bytes(131_072));
                taken[owner as usize] += 1;
            }
        }
        assert_eq!(taken.iter().sum::<u32>(), 300);
        assert!(taken.iter().enumerate().all(|(rank, count)| rank == 3 || (20..70).contains(count)), "{taken:?}");
    }
}
