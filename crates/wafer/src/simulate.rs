//! When the streams of a plan are where.
//!
//! Modelled: one stream after the other in the order of the plan, which is the order in which routers are set: a link or a ramp takes the
//! next stream when the one before has passed. What a stream carries leaves its core element by element, as soon as the same element has come
//! with all streams of its phase that it waits for, and behind the last element of those of phases before. A router that copies a wavelet
//! sends it to all outputs in the same cycle.

use crate::mesh::{Costs, Mesh};
use crate::plan::{Flow, Plan};
use crate::sequence::Sequence;

/// What an operation took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Until the last element is in its place.
    pub cycles: u64,
    /// Wavelets and links that they passed, multiplied.
    pub energy: u64,
}

/// What is busy until when.
struct Busy {
    links: Vec<u64>,
    out: Vec<u64>,
    into: Vec<u64>,
}

/// Runs a plan.
#[must_use]
pub fn simulate(mesh: Mesh, costs: Costs, plan: &Plan) -> Outcome {
    let cores = mesh.cores() as usize;
    let mut busy = Busy { links: vec![0; mesh.links()], out: vec![0; cores], into: vec![0; cores] };
    let mut arrivals: Vec<Vec<(u32, Sequence)>> = Vec::with_capacity(plan.flows.len());
    let mut outcome = Outcome { cycles: 0, energy: 0 };
    let mut phases = plan.phases.iter().copied().peekable();
    let mut begin = 0;
    for (number, flow) in plan.flows.iter().enumerate() {
        while let Some(end) = phases.next_if(|end| *end as usize <= number) {
            begin = end;
        }
        let ready = ready((flow, begin), &arrivals, costs);
        let came = carry(mesh, costs, (flow, ready), &mut busy);
        outcome.energy += flow.route.len() as u64 * flow.count;
        let last = came.iter().map(|(_, sequence)| sequence.end()).max().unwrap_or(0);
        // The last element is in its place once it has been added, or written.
        outcome.cycles = outcome.cycles.max(last.saturating_sub(1) + costs.add);
        arrivals.push(came);
    }
    outcome
}

/// When elements of a stream of the phase that begins with stream `begin` may leave its core.
fn ready((flow, begin): (&Flow, u32), arrivals: &[Vec<(u32, Sequence)>], costs: Costs) -> Sequence {
    let mut ready: Option<Sequence> = None;
    for before in &flow.after {
        let came = &arrivals[*before as usize];
        let place = came.binary_search_by_key(&flow.from, |(core, _)| *core).expect("plans wait for what comes to their core");
        let there = came[place].1.clone().later(costs.add);
        let there = if *before < begin { Sequence::from(there.end().saturating_sub(1), flow.count) } else { there };
        ready = Some(match ready {
            Some(known) => known.latest(&there),
            None => there,
        });
    }
    ready.unwrap_or_else(|| Sequence::from(0, flow.count))
}

/// Along its route; when it comes to each of its cores, in the order of these.
fn carry(mesh: Mesh, costs: Costs, (flow, ready): (&Flow, Sequence), busy: &mut Busy) -> Vec<(u32, Sequence)> {
    let out = ready.through(busy.out[flow.from as usize]);
    busy.out[flow.from as usize] = out.end();
    // The hops behind each router of the route: 0 is that of the source.
    let mut behind: Vec<Vec<u32>> = vec![Vec::new(); flow.route.len() + 1];
    for (place, hop) in flow.route.iter().enumerate() {
        behind[hop.after as usize].push(place as u32);
    }
    let mut at: Vec<Sequence> = vec![Sequence::default(); flow.route.len() + 1];
    at[0] = out.later(costs.ramp);
    let mut came = Vec::new();
    for router in 0..at.len() {
        let arrived = router.checked_sub(1).map(|place| &flow.route[place]);
        let core = arrived.map_or(flow.from, |hop| hop.to);
        let delivers = arrived.is_some_and(|hop| hop.delivers);
        let links = || behind[router].iter().map(|place| mesh.link(core, flow.route[*place as usize].to) as usize);
        let ramp = if delivers { busy.into[core as usize] } else { 0 };
        let free = links().map(|link| busy.links[link]).fold(ramp, u64::max);
        let sent = std::mem::take(&mut at[router]).through(free);
        for link in links() {
            busy.links[link] = sent.end();
        }
        for place in &behind[router] {
            at[*place as usize + 1] = sent.clone().later(costs.hop);
        }
        if delivers {
            busy.into[core as usize] = sent.end();
            came.push((core, sent.later(costs.ramp)));
        }
    }
    came.sort_by_key(|(core, _)| *core);
    came
}
