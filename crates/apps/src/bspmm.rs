//! BSPMM: a product of block-sparse matrices by one-sided operations: get, compute, update.
//!
//! Source: the kernel of NWChem's coupled-cluster methods as it is studied for MPI's one-sided operations (M. Si et al., "Casper: an
//! asynchronous progress model for MPI RMA on many-core architectures", IPDPS 2015): each task gets two tiles, multiplies them, and adds
//! the result to a third; tasks are taken one after the other. "Use of BlueField-SmartNICs in Offloading One-Sided Communication
//! Primitives", poster, ISC 2025, and a tutorial at Hot Interconnects 2025: gets and puts by workers on a DPU, and products as well (naive
//! offload of computation).
//! Modelled: tiles on ranks drawn evenly, as far before as behind, two gets that are flushed together, the product, a put of the result;
//! tiles of the next products got while one is computed; who does it: the rank, or workers that also multiply, one task after the other.
//! Not modelled: the counter that gives tasks out (they are dealt before), additions at the target: the update is a put of a tile.

use std::sync::Arc;

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_tool::offload::{OFFLOAD, WORKERS};
use fabriscope_units::Bytes;

use crate::options::{DPU_COMPUTE_RATE, conflict, options, value};
use crate::step::{Begun, Collective, DOUBLE, Handed, OneSided, Product, Program, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "bspmm";
pub(crate) const ABOUT: &str = "BSPMM: product of block-sparse matrices by one-sided get, compute, update";
pub(crate) const OPTIONS: &[Opt] = options![
    value('n', "tile", "count", "rows of a tile (default 128)"),
    value('\0', "tasks", "count", "products of two tiles of each rank in an iteration (default 16)"),
    value('\0', "ahead", "count", "products whose tiles are got before one is computed (default 0)"),
    value('\0', "products", "host|dpu", "who multiplies: the ranks, or workers on the DPU that get and put by themselves (default host)"),
    DPU_COMPUTE_RATE,
    OFFLOAD,
    WORKERS,
];

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Bspmm {
    tile: u64,
    tasks: u64,
    ranks: u32,
    ahead: u64,
    /// Workers on the DPU multiply.
    handed: bool,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut tile, mut tasks, mut ahead, mut handed) = (128, 16, 0, false);
    for given in &parsed.options {
        match given.name {
            "tile" => tile = arguments::number(given, 1, 8192)?,
            "tasks" => tasks = arguments::number(given, 1, 1 << 20)?,
            "ahead" => ahead = arguments::number(given, 0, 64)?,
            "products" => {
                handed = match given.value.as_deref().unwrap_or_default() {
                    "host" => false,
                    "dpu" => true,
                    other => {
                        let (option, value) = (given.typed.clone(), other.to_owned());
                        return Err(UsageError::NotOneOf { option, value, known: "host, dpu" });
                    }
                }
            }
            _ => {}
        }
    }
    if handed && tasks > MOST_HANDED {
        let what = format!("{tasks} products of a rank handed over at once");
        return Err(conflict(what, &format!("use --tasks {MOST_HANDED} or less")));
    }
    Ok(Arc::new(Bspmm { tile, tasks, ranks: layout.ranks(), ahead, handed }))
}

impl Program for Bspmm {
    fn title(&self) -> String {
        format!("BSPMM, tiles of {0} x {0}, {1} products a rank on {2} ranks", self.tile, self.tasks, self.ranks)
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let gets = move |task: u64| OneSided { is_get: true, parts: this.task(rank, task).gets };
        let end = Step::Collective(Collective::barrier(rank, self.ranks));
        if self.handed {
            let all = (0..self.tasks).map(|task| this.task(rank, task)).collect();
            return Box::new([Step::Products(all), end].into_iter());
        }
        let begin = move |task: u64| (task < this.tasks).then(|| Step::Begin(Begun::OneSided(gets(task))));
        let task = move |task: u64| {
            let Product { work, put, .. } = this.task(rank, task);
            let (product, put) = (Step::Work(work), Step::OneSided(OneSided { is_get: false, parts: vec![put] }));
            match this.ahead {
                0 => vec![Step::OneSided(gets(task)), product, put],
                // Those of the product itself first, then those of one that comes later.
                ahead => [Step::Finish].into_iter().chain(begin(task + ahead)).chain([product, put]).collect(),
            }
        };
        let first = (0..this.ahead).filter_map(begin);
        Box::new(first.chain((0..self.tasks).flat_map(task)).chain([end]))
    }

    fn hands_over(&self) -> Handed {
        Handed::OneSided
    }

    fn whole(&self) -> Whole {
        Whole { iterations: 1, merit: None }
    }
}

impl Bspmm {
    /// A product of two tiles, and where its result goes.
    fn task(&self, rank: u32, task: u64) -> Product {
        let tile = Bytes(self.tile * self.tile * DOUBLE);
        let (before, behind) = self.owners(rank, task);
        let work = Work { flops: 2 * self.tile.pow(3), bytes: Bytes(4 * tile.0), footprint: Bytes(3 * tile.0) };
        Product { gets: vec![(before, tile), (behind, tile)], work, put: (behind, tile) }
    }

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

/// Products that a rank hands over at once. Basis: assumed; half of its queue for descriptors.
const MOST_HANDED: u64 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of 128 x 128 doubles are 128 KiB; each task gets two and puts one, of other ranks, which are taken about equally often.
    #[test]
    fn tiles_are_of_other_ranks() {
        let program = Bspmm { tile: 128, tasks: 100, ranks: 8, ahead: 0, handed: false };
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

    /// Ahead or not, and whoever multiplies: the same tiles of the same ranks, and the same work.
    #[test]
    fn tiles_are_the_same_whoever_gets_them() {
        let all = |ahead: u64, handed: bool| {
            let (mut parts, mut flops, mut outstanding) = (Vec::new(), 0, 0u64);
            for step in (Bspmm { tile: 64, tasks: 10, ranks: 8, ahead, handed }).steps(5) {
                match step {
                    Step::OneSided(one_sided) => parts.extend(one_sided.parts),
                    Step::Begin(Begun::OneSided(one_sided)) => {
                        outstanding += 1;
                        parts.extend(one_sided.parts);
                    }
                    Step::Finish => outstanding -= 1,
                    Step::Work(work) => flops += work.flops,
                    Step::Products(products) => products.into_iter().for_each(|product| {
                        parts.extend(product.gets.into_iter().chain([product.put]));
                        flops += product.work.flops;
                    }),
                    _ => {}
                }
                assert!(outstanding <= ahead);
            }
            assert_eq!(outstanding, 0);
            parts.sort_unstable();
            (parts, flops)
        };
        assert_eq!(all(0, false), all(3, false));
        assert_eq!(all(0, false), all(0, true));
    }
}
