//! Flows at given times between nodes: when each is over.
//!
//! Modelled: each flow is an RDMA write over the reliable connection of its two adapters, as in `[workload.flows]` of a lab; it is over when
//! its sender has the completion. Flows between the same two adapters in the same direction share a connection, and go one after the
//! other. Everything that such a workload has: queues, credits or pauses, congestion control, the routing of the cluster.
//! Not modelled: flows within a node, flows that wait for others (the caller knows when these are over, and asks again).

use fabriscope_engine::{Connections, Demand, Job, RunOptions, Watch};
use fabriscope_lab::engines;
use fabriscope_lab::memory::Memory;
use fabriscope_lab::traffic::{order, over, refused};
use fabriscope_report::question::LARGEST_MESSAGE;
use fabriscope_traffic::flows::{Flow as Write, at_their_times};
use fabriscope_units::{Bytes, Remedy, Span, Time};
use fabriscope_wire::Service;

use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::status::{Failure, Status};

/// A flow; `fabriscope_flow` of the header, field by field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    /// The node that sends.
    pub from: u32,
    /// The node that receives.
    pub to: u32,
    /// Which adapter of the sender.
    pub from_adapter: u32,
    /// Which adapter of the receiver.
    pub to_adapter: u32,
    /// Payload.
    pub bytes: u64,
    /// When it begins, in picoseconds.
    pub start_ps: u64,
}

/// In which order receivers take the packets of a connection; `fabriscope_order` of the header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Order {
    /// As the cluster's adapters do.
    #[default]
    AdapterOrder = 0,
    /// As they come, whatever the adapters.
    AnyOrder = 1,
}

impl Order {
    /// Every order, in the order of the codes.
    pub const ALL: [Order; 2] = [Order::AdapterOrder, Order::AnyOrder];
}

/// When each flow is over, in picoseconds on the clock of the starts.
///
/// # Errors
/// A flow that cannot be, what the engine does not do, a run that does not end.
pub fn completions(cluster: &Cluster, flows: &[Flow], engine: Engine, taken: Order, seed: u64) -> Result<Vec<u64>, Failure> {
    if flows.is_empty() {
        return Ok(Vec::new());
    }
    let writes = flows.iter().enumerate().map(|(number, flow)| write(cluster, number, flow)).collect::<Result<Vec<Write>, _>>()?;
    let wired = cluster.wired();
    let (parts, routing) = (&wired.parts, wired.parts.routing);
    let any_order = taken == Order::AnyOrder || parts.takes_any_order();
    if routing.reorders() && !any_order && engine != Engine::Flow {
        let name = &parts.name;
        let what = format!("the routing `{routing}` of {name} sends packets of a flow over several paths; its adapters want them in order");
        return Err(Failure::refused(what, "give FABRISCOPE_ANY_ORDER, or a cluster with another routing"));
    }
    let connections = Connections { order: order(any_order), ..over(parts, Service::default()) };
    let (schedule, places) =
        at_their_times(wired.ranks(), &writes).map_err(|error| Failure::refused(error.in_full(), "give fewer flows"))?;
    let mut first = vec![0usize];
    for rank in 0..schedule.ranks() {
        first.push(first[rank as usize] + schedule.kinds(rank).len());
    }
    let options = RunOptions { op_times: Watch::On, ..RunOptions::default() };
    let chosen = engines::engine(engine.into());
    let count = writes.len() as u64;
    let need = chosen.memory(wired, &Demand::Messages { messages: count, pairs: count }).map_err(refused)?;
    Memory::default().allow(need, "give fewer flows at a time, a smaller cluster, or a machine with more memory")?;
    let run = chosen.run(wired, Job::schedule(schedule, connections), &options, seed).map_err(refused)?;
    let over = |&(rank, op): &(u32, u32)| {
        let times = run.ops.get(first[rank as usize] + op as usize);
        times.map(|times| (times.ended - Time::ZERO).as_ps())
    };
    let lost = || Failure { status: Status::Failed, text: "the run says nothing of a flow".to_owned() };
    places.iter().map(over).collect::<Option<Vec<u64>>>().ok_or_else(lost)
}

/// A flow as the write of an adapter.
fn write(cluster: &Cluster, number: usize, flow: &Flow) -> Result<Write, Failure> {
    let of_flow = |failure: Failure| Failure { text: format!("flow {number}: {}", failure.text), ..failure };
    let end = |node: u32, adapter: u32| {
        cluster.check_node(node)?;
        let adapters = cluster.parts().endpoints_of(node).unwrap_or_default();
        let has = adapters.end - adapters.start;
        if adapter < has {
            return Ok(adapters.start + adapter);
        }
        let help = format!("give an adapter from 0 to {}", has.saturating_sub(1));
        Err(Failure::argument(format!("there is no adapter {adapter} at node {node}: it has {has}"), help))
    };
    let Flow { from, to, from_adapter, to_adapter, bytes, start_ps } = *flow;
    let (sender, receiver) = (end(from, from_adapter).map_err(of_flow)?, end(to, to_adapter).map_err(of_flow)?);
    if from == to {
        let help = "give two nodes: what stays within a node does not reach the fabric";
        return Err(of_flow(Failure::argument(format!("from node {from} to itself"), help)));
    }
    if bytes == 0 || bytes > LARGEST_MESSAGE {
        let help = format!("give 1 to {LARGEST_MESSAGE} bytes, and more as several flows");
        return Err(of_flow(Failure::argument(format!("{bytes} bytes cannot be sent"), help)));
    }
    if start_ps > LATEST_PS {
        let help = format!("give a start of at most {LATEST_PS} ps, which are {} days", LATEST_PS / PS_PER_DAY);
        return Err(of_flow(Failure::argument(format!("it starts at {start_ps} ps"), help)));
    }
    Ok(Write { from: sender, to: receiver, bytes: Bytes(bytes), at: Span::from_ps(start_ps), incast: false })
}

/// The latest start: half of the range of the clock, so that what happens afterwards is on it. 2⁶³ ps.
const LATEST_PS: u64 = 1 << 63;
/// 86,400 s.
const PS_PER_DAY: u64 = 86_400_000_000_000_000;
