//! Moving switches between two sides while less crosses.
//!
//! Passes over all switches: the move that helps most is made, even if it makes things worse, each switch once; then
//! everything after the best moment is undone. Sides may differ by the endpoints of one switch on the way.
//!
//! Source: C. Fiduccia and R. Mattheyses, "A linear-time heuristic for improving network partitions", DAC 1982, after
//! B. Kernighan and S. Lin, Bell System Technical Journal 49(2), 1970. Rates differ, so that an ordered set takes the
//! place of their buckets.

use std::collections::BTreeSet;

use super::Backbone;
use super::halves::gain;
use crate::graph::SwitchId;

/// Improves the sides of switches; at most `passes` times over all of them.
pub(super) fn refine(backbone: &Backbone, sides: &mut [bool], passes: u32) {
    for _ in 0..passes {
        if !pass(backbone, sides) {
            return;
        }
    }
}

/// One pass; whether less crosses after it.
fn pass(backbone: &Backbone, sides: &mut [bool]) -> bool {
    let switches = backbone.switches() as usize;
    let weight = |at: usize| i64::from(backbone.endpoints(SwitchId(at as u32)));
    let largest = (0..switches).map(weight).max().unwrap_or(0);
    // Endpoints on the second side less those on the first.
    let mut tilt: i64 = (0..switches).map(|at| if sides[at] { weight(at) } else { -weight(at) }).sum();
    let allowed = tilt.abs();
    let mut gains: Vec<i128> = (0..switches).map(|at| gain(backbone, sides, SwitchId(at as u32))).collect();
    // Switches that may still move, by side and by whether they have endpoints; the best one last.
    let mut open: [BTreeSet<(i128, u32)>; 4] = Default::default();
    let class = |at: usize, side: bool| 2 * usize::from(side) + usize::from(weight(at) > 0);
    for at in 0..switches {
        open[class(at, sides[at])].insert((gains[at], at as u32));
    }
    let (mut moves, mut sum, mut best, mut keep) = (Vec::new(), 0i128, 0i128, 0);
    loop {
        let fits = |class: usize| {
            let &(gain, at) = open[class].last()?;
            let change = 2 * weight(at as usize) * if class >= 2 { -1 } else { 1 };
            let next = tilt + change;
            (next.abs() <= 2 * largest || next.abs() < tilt.abs()).then_some((gain, at, change))
        };
        let Some((gained, at, change)) = (0..4).filter_map(fits).max_by_key(|&(gain, at, _)| (gain, std::cmp::Reverse(at))) else { break };
        let from = sides[at as usize];
        open[class(at as usize, from)].remove(&(gained, at));
        sides[at as usize] = !from;
        tilt += change;
        sum += gained;
        moves.push(at);
        gains[at as usize] = i128::MIN;
        for trunk in backbone.trunks(SwitchId(at)) {
            let to = trunk.to.index();
            if gains[to] != i128::MIN {
                let set = &mut open[class(to, sides[to])];
                set.remove(&(gains[to], to as u32));
                let twice = 2 * i128::from(trunk.rate.as_bps());
                gains[to] += if sides[to] == from { twice } else { -twice };
                set.insert((gains[to], to as u32));
            }
        }
        if sum > best && tilt.abs() <= allowed {
            (best, keep) = (sum, moves.len());
        }
        if moves.len() - keep > PATIENCE {
            break;
        }
    }
    moves[keep..].iter().for_each(|&at| sides[at as usize] = !sides[at as usize]);
    best > 0
}

/// Moves without a better moment after which a pass ends (assumed).
const PATIENCE: usize = 2000;
