//! The least capacity between two halves of the endpoints, as far as trying finds it.
//!
//! Finding the least of all halves is NP-hard (Garey, Johnson and Stockmeyer 1976). Tried are the halves that the
//! topology proposes (order of its leaves, groups, each dimension), those of a search from the edge of the fabric, and
//! some drawn at random, each improved by moving switches. The value is an upper bound of the bisection; on
//! the regular topologies it is the known one: a full tree 1, k-ary n-cubes 2 kⁿ⁻¹ cables, hypercubes 2ᵈ⁻¹, full meshes (n/2)².
//! Where no more than ten switches have endpoints, all halves are tried and the value is the bisection itself.

use fabriscope_units::Rate;

use super::Backbone;
use super::halves::{Cut, Halves};
use super::refine::refine;
use super::sample::sample;
use crate::graph::SwitchId;
use crate::topology::{Coordinates, Fabric};

/// What lies between the two halves of the endpoints that least separates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bisection {
    /// Cables between them.
    pub cables: u64,
    /// What these carry in one direction.
    pub rate: Rate,
    /// That as a share of what half of the endpoints send together.
    pub share: f64,
    /// Halves that were tried.
    pub tried: u32,
    /// Whether these were all.
    pub exact: bool,
}

/// Tries halves and gives the least; none where there are no two endpoints on switches.
#[must_use]
pub fn bisection(fabric: &Fabric, backbone: &Backbone) -> Option<Bisection> {
    let endpoints: u32 = backbone.leaves().iter().map(|&leaf| backbone.endpoints(leaf)).sum();
    if endpoints < 2 {
        return None;
    }
    let mut least: Option<(f64, Cut)> = None;
    let mut tried = 0;
    let mut look = |halves: &Halves| {
        tried += 1;
        let (cut, sides) = halves.cut(backbone);
        let share = cut.rate.as_bps() as f64 / halves.demand(backbone).as_bps() as f64;
        if least.is_none_or(|(best, _)| share < best) {
            least = Some((share, cut));
        }
        (share, sides)
    };
    let exact = backbone.leaves().len() <= FEW_LEAVES;
    if exact {
        every(backbone, |halves| drop(look(halves)));
        return least.map(|(share, cut)| Bisection { cables: cut.cables, rate: cut.rate, share, tried, exact });
    }
    let mut starts: Vec<(f64, Vec<bool>)> = orders(fabric, backbone).iter().map(|order| look(&Halves::of_order(backbone, order))).collect();
    // Improving takes longer than looking: on large fabrics it is done for the best ones only.
    starts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let work = backbone.trunk_ends().max(1);
    starts.truncate((MOST_ENDS / work).clamp(1, starts.len()));
    for (_, mut sides) in starts {
        refine(backbone, &mut sides, PASSES);
        look(&Halves::of_sides(backbone, &sides));
    }
    least.map(|(share, cut)| Bisection { cables: cut.cables, rate: cut.rate, share, tried, exact })
}

/// All halves of which at most one switch is cut through.
fn every(backbone: &Backbone, mut visit: impl FnMut(&Halves)) {
    let leaves = backbone.leaves();
    let all: u32 = leaves.iter().map(|&leaf| backbone.endpoints(leaf)).sum();
    for set in 0u32..1 << leaves.len() {
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..leaves.len()).partition(|leaf| set >> leaf & 1 == 1);
        let weight: u32 = inside.iter().map(|&leaf| backbone.endpoints(leaves[leaf])).sum();
        if weight > all / 2 {
            continue;
        }
        // The rest of the half comes from one of the others; where there is none, it does not matter which stands first.
        for &next in outside.iter().take(if weight == all / 2 { 1 } else { outside.len() }) {
            if weight + backbone.endpoints(leaves[next]) > all / 2 {
                let others = outside.iter().filter(|&&leaf| leaf != next);
                let order: Vec<SwitchId> = inside.iter().chain([&next]).chain(others).map(|&leaf| leaves[leaf]).collect();
                visit(&Halves::of_order(backbone, &order));
            }
        }
    }
}

/// Orders of switches whose halves are tried.
fn orders(fabric: &Fabric, backbone: &Backbone) -> Vec<Vec<SwitchId>> {
    let leaves = || backbone.leaves().to_vec();
    let mut orders = vec![leaves()];
    match &fabric.coordinates {
        Coordinates::Dragonfly(groups) => {
            let mut across = leaves();
            across.sort_by_key(|&leaf| (groups.position(leaf), groups.group(leaf)));
            orders.push(across);
        }
        Coordinates::Grid(grid) => {
            for axis in 0..grid.dimensions().len() {
                let mut along = leaves();
                along.sort_by_key(|&leaf| grid.coordinate(leaf, axis));
                orders.push(along);
            }
        }
        _ => {}
    }
    orders.push(from_the_edge(backbone));
    let count = backbone.leaves().len() as u32;
    for draw in 0..DRAWS.min(count) {
        let mut drawn = vec![false; count as usize];
        sample(count / 2, count, RANDOM + draw).into_iter().for_each(|index| drawn[index as usize] = true);
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|&index| !drawn[index as usize]);
        orders.push(order.into_iter().map(|index| backbone.leaves()[index as usize]).collect());
    }
    orders
}

/// Leaves in the order of a search that starts at one that is far from the others.
fn from_the_edge(backbone: &Backbone) -> Vec<SwitchId> {
    let search = |start: SwitchId| {
        let mut seen = vec![false; backbone.switches() as usize];
        let mut order = vec![start];
        seen[start.index()] = true;
        let mut done = 0;
        while let Some(&at) = order.get(done) {
            done += 1;
            for trunk in backbone.trunks(at) {
                if !std::mem::replace(&mut seen[trunk.to.index()], true) {
                    order.push(trunk.to);
                }
            }
        }
        order.retain(|&at| backbone.endpoints(at) > 0);
        order.extend(backbone.leaves().iter().filter(|leaf| !seen[leaf.index()]));
        order
    };
    let Some(&first) = backbone.leaves().first() else { return Vec::new() };
    let far = search(first).last().copied().unwrap_or(first);
    search(far)
}

/// Switches with endpoints of which all halves are tried: some thousands.
const FEW_LEAVES: usize = 10;
/// Halves drawn at random.
const DRAWS: u32 = 4;
/// Passes over all switches that improve a start.
const PASSES: u32 = 16;
/// Trunk ends of all starts that are improved, about: a second or two.
const MOST_ENDS: usize = 1 << 20;
/// Sets these samples apart from others.
const RANDOM: u32 = 16;
