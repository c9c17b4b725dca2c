//! Operations on a line of cores: trees whose subtrees are runs of neighbours, and rings.
//!
//! Source: Luczynski et al. (HPDC 2024), §5.

use super::{Algorithm, Flow, Hop, Payload, Plan, straight};
use crate::auto;
use crate::mesh::{Costs, Mesh};
use crate::simulate::simulate;

/// The parent of each core of a line; the first is the root.
pub(super) fn parents(algorithm: Algorithm, cores: u32, count: u64, costs: Costs) -> Vec<u32> {
    let all = 0..cores;
    match algorithm {
        Algorithm::Star => vec![0; cores as usize],
        // The lowest bit that is set is the step to the parent.
        Algorithm::Tree => all.map(|core| core & core.wrapping_sub(1)).collect(),
        Algorithm::TwoPhase => {
            let group = cores.isqrt().max(1);
            let parent = |core: u32| if core.is_multiple_of(group) { core.saturating_sub(group) } else { core - 1 };
            all.map(parent).collect()
        }
        Algorithm::Auto => best(cores, count, costs),
        Algorithm::Chain | Algorithm::Ring | Algorithm::Snake => all.map(|core| core.saturating_sub(1)).collect(),
    }
}

/// The best of all trees by the model, or one of the others where the simulation of a line says so.
fn best(cores: u32, count: u64, costs: Costs) -> Vec<u32> {
    let mesh = Mesh { columns: cores, rows: 1 };
    let line: Vec<u32> = (0..cores).collect();
    let others = [Algorithm::Star, Algorithm::Chain, Algorithm::Tree, Algorithm::TwoPhase];
    let trees = std::iter::once(auto::parents(cores, count, costs)).chain(others.map(|other| parents(other, cores, count, costs)));
    let timed = trees.map(|tree| {
        let mut plan = Plan::default();
        reduce(&mut plan, &line, &tree, (count, Payload::Sum), &[]);
        plan.close();
        (simulate(mesh, costs, &plan).cycles, tree)
    });
    timed.min_by_key(|(cycles, _)| *cycles).map(|(_, tree)| tree).unwrap_or_default()
}

/// Adds the streams of a sum at the first core of `line`, to which each core has its own elements and what came `before`, or that alone. All
/// that comes to the first core.
pub(super) fn reduce(plan: &mut Plan, line: &[u32], parents: &[u32], (count, payload): (u64, Payload), before: &[Vec<u32>]) -> Vec<u32> {
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); line.len()];
    for (core, parent) in parents.iter().enumerate().skip(1) {
        children[*parent as usize].push(core as u32);
    }
    // Behind each subtree its own stream: children before parents, the nearer of two before the other.
    let mut came: Vec<Vec<u32>> = (0..line.len()).map(|place| before.get(place).cloned().unwrap_or_default()).collect();
    let mut pending = vec![(0u32, 0usize)];
    while let Some((core, next)) = pending.pop() {
        if let Some(child) = children[core as usize].get(next) {
            pending.push((core, next + 1));
            pending.push((*child, 0));
        } else if core > 0 {
            let parent = parents[core as usize];
            let path: Vec<u32> = (parent..core).rev().map(|place| line[place as usize]).collect();
            let after = std::mem::take(&mut came[core as usize]);
            let from = line[core as usize];
            let number = plan.push(Flow { from, first: 0, count, payload, after, route: straight(&path) });
            came[parent as usize].push(number);
        }
    }
    std::mem::take(&mut came[0])
}

/// Adds the stream of what the first core of `line` has to all others. What comes to each.
pub(super) fn spread(plan: &mut Plan, line: &[u32], count: u64, payload: Payload, after: Vec<u32>) -> Option<u32> {
    let hop = |(place, to): (usize, &u32)| Hop { after: place as u32, to: *to, delivers: true };
    let route: Vec<Hop> = line.iter().skip(1).enumerate().map(hop).collect();
    (!route.is_empty()).then(|| plan.push(Flow { from: line[0], first: 0, count, payload, after, route }))
}

/// Adds the streams of an all-reduce in parts around a ring of the cores of `line`, whose last link is the way back to its first.
pub(super) fn ring(mesh: Mesh, plan: &mut Plan, line: &[u32], count: u64) {
    let cores = line.len();
    let part = |number: usize| (count * number as u64 / cores as u64, count * (number as u64 + 1) / cores as u64);
    // What came to each core in the round before.
    let mut came: Vec<Option<u32>> = vec![None; cores];
    for round in 0..2 * (cores - 1) {
        let mut next = came.clone();
        for core in 0..cores {
            // Part `core` in the first round, then what came: sums until it has been everywhere, copies from then on.
            let (first, end) = part((core + 2 * cores - round) % cores);
            let to = (core + 1) % cores;
            let payload = if round < cores { Payload::Sum } else { Payload::Copy };
            let route = straight(&mesh.path(line[core], line[to]));
            let after = came[core].into_iter().collect();
            next[to] = Some(plan.push(Flow { from: line[core], first, count: end - first, payload, after, route }));
        }
        came = next;
    }
}
