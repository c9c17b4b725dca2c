//! The best tree on a line by the model: what the paper calls auto-gen.
//!
//! Source: Luczynski et al. (HPDC 2024), §5: of all trees whose subtrees are runs of neighbours, the one with least energy for each depth and
//! contention, by dynamic programming: the last child of the root is at a distance i, so that
//! E(P, D, C) = min over i of E(i, D, C - 1) + E(P - i, D - 1, C) + i; then the least T over all D and C.
//! Modelled: depths up to [`DEPTHS`] and all that of chains, up to [`CHILDREN`] children; deeper trees with several children do not come out
//! better on the lines of a wafer.

use crate::mesh::Costs;

/// Parents of the cores of a line, the first of which is the root.
pub(crate) fn parents(cores: u32, count: u64, costs: Costs) -> Vec<u32> {
    let cores = cores as usize;
    let chain: Vec<u32> = (0..cores as u32).map(|core| core.saturating_sub(1)).collect();
    if cores <= 2 {
        return chain;
    }
    let search = Search::new(cores);
    let time = |energy: u64, depth: usize, children: usize| {
        let flowing = (count * energy).div_ceil(cores as u64 - 1) + (cores as u64 - 1) * costs.hop;
        flowing.max(count * children as u64) + (2 * costs.ramp + costs.add) * depth as u64
    };
    let best = (1..=search.depths)
        .flat_map(|depth| (1..=CHILDREN).map(move |children| (depth, children)))
        .filter_map(|(depth, children)| {
            let energy = search.energy[search.place(cores, depth, children)];
            (energy < NONE).then(|| (time(u64::from(energy), depth, children), depth, children))
        })
        .min();
    match best {
        Some((found, depth, children)) if found < time(cores as u64 - 1, cores - 1, 1) => {
            let mut parents = vec![0; cores];
            search.build((0, cores), depth, children, &mut parents);
            parents
        }
        _ => chain,
    }
}

struct Search {
    depths: usize,
    energy: Vec<u32>,
    split: Vec<u16>,
}

impl Search {
    fn new(cores: usize) -> Search {
        let depths = DEPTHS.min(cores - 1);
        let size = (cores + 1) * (depths + 1) * (CHILDREN + 1);
        let mut search = Search { depths, energy: vec![NONE; size], split: vec![0; size] };
        for depth in 0..=depths {
            for children in 0..=CHILDREN {
                let place = search.place(1, depth, children);
                search.energy[place] = 0;
            }
        }
        for line in 2..=cores {
            for depth in 1..=depths {
                for children in 1..=CHILDREN {
                    let (mut least, mut at) = (NONE, 0);
                    for first in 1..line {
                        let near = search.energy[search.place(first, depth, children - 1)];
                        let far = search.energy[search.place(line - first, depth - 1, children)];
                        let energy = near.saturating_add(far).saturating_add(first as u32);
                        if energy < least {
                            (least, at) = (energy, first);
                        }
                    }
                    let place = search.place(line, depth, children);
                    search.energy[place] = least;
                    search.split[place] = at as u16;
                }
            }
        }
        search
    }

    fn place(&self, line: usize, depth: usize, children: usize) -> usize {
        (line * (self.depths + 1) + depth) * (CHILDREN + 1) + children
    }

    /// Writes the parents of `length` cores from `first` on.
    fn build(&self, (first, length): (usize, usize), depth: usize, children: usize, parents: &mut [u32]) {
        if length <= 1 {
            return;
        }
        let split = usize::from(self.split[self.place(length, depth, children)]);
        parents[first + split] = first as u32;
        self.build((first, split), depth, children - 1, parents);
        self.build((first + split, length - split), depth - 1, children, parents);
    }
}

/// No such tree.
const NONE: u32 = u32::MAX;
/// Depths and numbers of children that are tried. Basis: assumed; two phases of 1,024 cores have a depth of 62, binary trees ten children.
const DEPTHS: usize = 64;
const CHILDREN: usize = 10;
