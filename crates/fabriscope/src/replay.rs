//! What traces take on a cluster: their records as a schedule, in both engines.
//!
//! Modelled: messages of the verbs between ranks, each with a core and, where there are enough, an adapter of its own; collectives by one usual
//! algorithm each: all-reduce by recursive doubling up to 64 KiB and around a ring above, all-gather and reduce-scatter around rings,
//! all-to-all pairwise, the rest by binomial trees. Computation as the trace has it, scaled, or left out.
//! Not modelled: the algorithms and costs of the library that ran, blocks of unequal lengths (they count as equal), streams that compute
//! meanwhile where a trace does not say so.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_collectives::{Algorithm, Call as Collective, Kind, add_rounds};
use fabriscope_engine::{Cluster, Connections, Engine, Job, Placement, RunOptions, Work};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_schedule::{After, Builder, OpId, OpKind};
use fabriscope_traces::{Call, LowerOptions, Lowering, Operation, Trace, lower};
use fabriscope_units::{Bytes, Remedy, Span, Time};

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;

/// What traces take on a cluster: a row for each trace, with the time by packets and by flows.
///
/// # Errors
/// No such cluster, ranks that are missing or disagree, collectives without a length, more ranks than cores, what an engine refuses.
pub fn replay(given: Option<&Catalog>, traces: &[Trace], cluster: impl Into<OnCluster>, options: LowerOptions) -> Result<Grid, Error> {
    let parts = cluster.into().resolve_alike(catalog(given)?)?;
    let mut grid = Grid::new([
        Column::words("trace", "trace"),
        Column::number("ranks", "ranks"),
        Column::number("messages", "messages"),
        Column::number("collectives", "collectives"),
        Column::number("packets us", "packet_us"),
        Column::number("flows us", "flow_us"),
        Column::number("flows off %", "flow_off_percent"),
    ]);
    for trace in traces {
        grid.push(row(&parts, trace, &options)?);
    }
    Ok(grid)
}

fn row(parts: &ResolvedCluster, trace: &Trace, options: &LowerOptions) -> Result<[Cell; 7], Error> {
    let refused = |message: String, help: &str| Error::Replay { trace: trace.name.clone(), message, help: help.to_owned() };
    let lowered = lower(trace, options, &mut Usual).map_err(|error| {
        refused(error.in_full(), "see what was read of it: fabriscope trace FILE; --ranks N extends the trace of one rank")
    })?;
    let cluster = Cluster::new(parts.clone()).map_err(|error| refused(error.to_string(), "look at the topology: fabriscope topo"))?;
    let adapters = parts.endpoints().max(1);
    let each = trace.world.div_ceil(adapters);
    let schedule = std::sync::Arc::new(lowered.schedule);
    let end = |engine: &dyn Engine| {
        let work = Work::Schedule(std::sync::Arc::clone(&schedule));
        let job = Job { placement: Placement::PerAdapter(each), connections: Connections::default(), work };
        let run = engine.run(&cluster, job, &RunOptions::default(), 1);
        run.map(|run| run.end.since(Time::ZERO)).map_err(|error| refused(error.in_full(), "take a cluster with more nodes"))
    };
    let (packets, flows): (Span, Span) = (end(&PacketEngine)?, end(&FlowEngine)?);
    let off = if packets > Span::ZERO { 100.0 * (flows.as_s_f64() / packets.as_s_f64() - 1.0) } else { 0.0 };
    Ok([
        Cell::word(trace.name.clone()),
        Cell::count(trace.world as usize),
        Cell::count(lowered.messages as usize),
        Cell::count(lowered.collectives as usize),
        Cell::number(packets.as_us_f64(), 3),
        Cell::number(flows.as_us_f64(), 3),
        Cell::number(off, 2),
    ])
}

/// One usual algorithm for each collective.
struct Usual;

impl Lowering for Usual {
    fn collective(&mut self, builder: &mut Builder, call: &Call<'_>) -> Result<Vec<OpId>, String> {
        let ranks = call.members.len() as u32;
        let block = Bytes(call.bytes.0.div_ceil(u64::from(ranks.max(1))));
        let (operation, name, size) = match call.collective.operation {
            Operation::AllReduce if call.bytes <= SHORT => (Kind::Allreduce, "recursive_doubling", call.bytes),
            Operation::AllReduce => (Kind::Allreduce, "ring", call.bytes),
            Operation::Reduce => (Kind::Reduce, "k_nomial", call.bytes),
            Operation::AllGather | Operation::AllGatherV => (Kind::Allgather, "ring", block),
            Operation::Gather | Operation::GatherV => (Kind::Gather, "binomial", call.bytes),
            Operation::Scatter | Operation::ScatterV => (Kind::Scatter, "binomial", block),
            Operation::Broadcast => (Kind::Bcast, "binomial", call.bytes),
            Operation::AllToAll | Operation::AllToAllV => (Kind::Alltoall, "pairwise", block),
            Operation::ReduceScatter | Operation::ReduceScatterV => (Kind::ReduceScatterBlock, "ring", block),
            Operation::Barrier => (Kind::Barrier, "dissemination", Bytes::ZERO),
            other => return Err(format!("nothing here makes messages of {other}")),
        };
        let algorithm = Algorithm::named(operation, name).map_err(|error| error.in_full())?;
        let root = call.collective.root.unwrap_or(0);
        let as_one = Collective { operation, ranks, per_node: 1, root, size, width: Bytes(1) };
        let (members, tag) = (call.members, call.tag);
        let of_members = |kind| match kind {
            OpKind::Send { to, bytes, .. } => OpKind::Send { to: members[to as usize], bytes, tag },
            OpKind::Recv { from, bytes, .. } => OpKind::Recv { from: members[from as usize], bytes, tag },
            other => other,
        };
        let mut ends = Vec::with_capacity(call.members.len());
        for (index, rank) in (0..).zip(call.members) {
            let before = call.entry.get(index as usize).map(|entry| After::End(*entry)).into_iter().collect();
            let rounds = algorithm.rounds(&as_one, index).map(|round| round.operations().map(of_members).collect());
            let before = add_rounds(builder, *rank, rounds, before);
            ends.push(builder.op_after(*rank, OpKind::Compute { span: Span::ZERO }, &before));
        }
        Ok(ends)
    }
}

/// Up to here latency counts more than bytes. Basis: assumed, as libraries have it.
const SHORT: Bytes = Bytes::from_kib(64);
