//! The paper's model of a plan: depth, distance, energy, contention.
//!
//! Source: Luczynski et al. (HPDC 2024), §4: T = max(C, E / N + L) + (2 T_R + 1) D, phases one after the other.
//! Modelled: D streams that wait for each other, L links that such a chain passes, E wavelets times links, N links in use, C wavelets of the
//! core that receives or sends most; hops and sums of one cycle, as in the paper.

use crate::mesh::{Costs, Mesh};
use crate::plan::Plan;

/// The terms of the model, of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Streams that wait for each other.
    pub depth: u64,
    /// Links that such a chain passes at most.
    pub distance: u64,
    /// Wavelets times links.
    pub energy: u64,
    /// Links in use.
    pub links: u64,
    /// Wavelets that a core receives or sends at most.
    pub contention: u64,
}

impl Estimate {
    /// Cycles.
    #[must_use]
    pub fn cycles(&self, costs: Costs) -> u64 {
        let flowing = self.energy.div_ceil(self.links.max(1)) + self.distance * costs.hop;
        self.contention.max(flowing) + (2 * costs.ramp + costs.add) * self.depth
    }
}

/// What the model says of each phase of a plan.
#[must_use]
pub fn estimate(mesh: Mesh, plan: &Plan) -> Vec<Estimate> {
    let cores = mesh.cores() as usize;
    let mut found = Vec::with_capacity(plan.phases.len());
    let mut begin = 0usize;
    for end in &plan.phases {
        let end = *end as usize;
        let mut used = vec![false; mesh.links()];
        let (mut sent, mut received) = (vec![0u64; cores], vec![0u64; cores]);
        let mut chains: Vec<(u64, u64)> = Vec::with_capacity(end - begin);
        let mut of = Estimate::default();
        for flow in &plan.flows[begin..end] {
            let before = flow.after.iter().filter(|before| **before as usize >= begin).map(|before| chains[*before as usize - begin]);
            let (depth, distance) = before.fold((0, 0), |(depth, distance), other| (other.0.max(depth), other.1.max(distance)));
            let mut routers = vec![(flow.from, 0u64)];
            let mut farthest = 0;
            for hop in &flow.route {
                let (from, hops) = routers[hop.after as usize];
                used[mesh.link(from, hop.to) as usize] = true;
                if hop.delivers {
                    received[hop.to as usize] += flow.count;
                    farthest = farthest.max(hops + 1);
                }
                routers.push((hop.to, hops + 1));
            }
            sent[flow.from as usize] += flow.count;
            of.energy += flow.route.len() as u64 * flow.count;
            chains.push((depth + 1, distance + farthest));
            of.depth = of.depth.max(depth + 1);
            of.distance = of.distance.max(distance + farthest);
        }
        of.links = used.iter().filter(|used| **used).count() as u64;
        of.contention = sent.into_iter().chain(received).max().unwrap_or(0);
        found.push(of);
        begin = end;
    }
    found
}
