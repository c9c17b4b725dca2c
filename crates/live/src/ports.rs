//! Ports that go down and come back, as the faults of a run have it, and who is told.
//!
//! Modelled: the state that `ibv_query_port` shows, and `IBV_EVENT_PORT_ERR` and `IBV_EVENT_PORT_ACTIVE` at the moment when the cable of a port goes
//! or comes. Not modelled: the time until an adapter notices, and the training of a link that comes back.

use fabriscope_engine::{Cluster, Effect, FaultPlan};
use fabriscope_fabric::EndpointId;
use fabriscope_node::Process;
use fabriscope_units::Time;

use crate::world::{Descriptor, Key, Notice, Shared};

/// A port that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub at: Time,
    pub nic: usize,
    pub up: bool,
}

/// What happens to the ports of the hosts that are these nodes, in order.
pub(crate) fn changes(cluster: &Cluster, plan: Option<&FaultPlan>, seats: &[u32]) -> Vec<Vec<Change>> {
    seats.iter().map(|seat| of_node(cluster, plan, *seat)).collect()
}

fn of_node(cluster: &Cluster, plan: Option<&FaultPlan>, seat: u32) -> Vec<Change> {
    let mut changes = Vec::new();
    let own = cables_of(cluster, seat);
    for effect in plan.iter().flat_map(|plan| &plan.faults).map(|fault| &fault.effect) {
        let Effect::Down { cables, spans, .. } = effect else { continue };
        for (nic, _) in own.iter().copied().filter(|(_, cable)| cables.contains(cable)) {
            for (from, until) in spans {
                changes.push(Change { at: Time::ZERO + *from, nic, up: false });
                changes.extend(until.map(|until| Change { at: Time::ZERO + until, nic, up: true }));
            }
        }
    }
    changes.sort_unstable();
    changes
}

/// The cables of a node's adapters.
fn cables_of(cluster: &Cluster, seat: u32) -> Vec<(usize, u32)> {
    let graph = &cluster.fabric.graph;
    let endpoints = cluster.parts.endpoints_of(seat).unwrap_or_default();
    endpoints.enumerate().map(|(nic, endpoint)| (nic, graph.uplink(EndpointId(endpoint)).cable())).collect()
}

/// Carries out what is due on a host, and gives when the next is.
pub(crate) fn carry_out(shared: &Shared, process: &Process, node: u32, changes: &mut std::collections::VecDeque<Change>) -> Time {
    let now = process.now();
    while let Some(Change { nic, up, .. }) = changes.front().copied().filter(|change| change.at <= now) {
        changes.pop_front();
        let mut world = shared.world();
        if up {
            world.ports_down.remove(&(node, nic));
        } else {
            world.ports_down.insert((node, nic));
        }
        let knows = |what: &Descriptor| matches!(what, Descriptor::Device(of) if *of == nic);
        let programs = world.programs.iter_mut().filter(|program| program.node == node && program.descriptors.values().any(knows));
        programs.for_each(|program| program.events.push_back((nic, Notice::Port { up })));
        world.tell(process, Key::Device { node, nic }, now);
    }
    changes.front().map_or(Time::MAX, |change| change.at)
}
