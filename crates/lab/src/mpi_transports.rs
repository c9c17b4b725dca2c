//! The transports of an MPI library beside each other: what queue pairs take when all ranks of a job are connected, and what messages take then.
//!
//! Source: `fabriscope_report::footprint` (memory and contexts), `mpi_random_lat` of `fabriscope_tools` (time).
//! Modelled: memory of queues and buffers in closed form; times of messages between partners that change, every packet simulated, with the
//! contexts that all connections of the job would have at the adapters.
//! Not modelled: as in both.

use fabriscope_catalog::{Catalog, FlowControl, MpiTransport, ResolvedCluster};
use fabriscope_engine::library;
use fabriscope_mpi::DC_INITIATORS;
use fabriscope_report::{Cell, Column, Footprint, Grid, Job, Outcome, Queues};
use fabriscope_tools::Tool;
use fabriscope_units::Bytes;

use crate::bench::{BenchEngine, BenchRequest, Stack};
use crate::error::LabError;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks on each.
    pub per_node: u32,
    /// Options of `mpi_random_lat`; without it memory alone is compared.
    pub measured: Option<Vec<String>>,
    /// Cores for one run.
    pub threads: usize,
    /// Seed of everything random.
    pub seed: u64,
}

/// What was measured of a transport.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    alone: f64,
    all: f64,
    /// Packets that waited for a context, of all messages.
    misses: f64,
}

/// Compares the transports of the library of `parts`.
///
/// # Errors
/// A library that says nothing of its queues; a job that does not fit the cluster; what a run refuses.
pub fn compare(catalog: &Catalog, parts: &ResolvedCluster, asked: &Comparison) -> Result<Outcome, LabError> {
    let Comparison { nodes, per_node, .. } = *asked;
    let unknown = || {
        let message = format!("the software of {} does not say what its connections take", parts.name);
        LabError::refused(message, "choose a cluster with software that has an [mpi.connections] table, such as mvapich2-2.3.7")
    };
    let (Some(found), Some(group)) = (library(parts), parts.uniform()) else { return Err(unknown()) };
    let own = group.software.mpi.as_ref().map_or(0, |mpi| *mpi.window);
    let queues = |q: fabriscope_engine::Queues| Queues { send: q.send, receives: q.receives, buffer: q.buffer };
    let job = Job {
        per_node,
        nodes,
        context: group.node.nic.contexts.as_ref().map_or(Bytes::ZERO, |contexts| contexts.size.value),
        send_entry: group.node.nic.wqe_size.value,
        connections: queues(found.queues),
        datagrams: found.datagrams.map(|datagrams| queues(datagrams.queues)),
    };
    let mut rows: Vec<(Footprint, Option<Sample>)> = Vec::new();
    for (word, transport) in MpiTransport::WORDS {
        // Datagrams that are lost would not be sent again.
        if transport == MpiTransport::Ud && (job.datagrams.is_none() || parts.flow_control == FlowControl::Lossy) {
            continue;
        }
        let sample = asked.measured.as_ref().map(|options| measure(catalog, parts, asked, (word, options))).transpose()?;
        rows.extend(job.of(word, (own, DC_INITIATORS)).map(|footprint| (footprint, sample)));
    }
    Ok(outcome(parts, asked, &rows))
}

fn measure(catalog: &Catalog, parts: &ResolvedCluster, asked: &Comparison, (word, options): (&str, &[String])) -> Result<Sample, LabError> {
    let request = BenchRequest {
        options: options.to_vec(),
        stack: Stack::parse(word)?,
        nodes: Some(asked.nodes),
        per_node: Some(asked.per_node),
        engine: BenchEngine::Packet,
        threads: asked.threads,
        seed: asked.seed,
        ..BenchRequest::new(Tool::Scattered)
    };
    let done = request.set_up(catalog, parts.clone())?.run()?;
    let value = |metric: &str| done.printed.points.iter().find(|point| point.metric == metric).map_or(0.0, |point| point.value);
    let stats = done.run.stats;
    let misses = stats.context_misses as f64 / stats.messages.max(1) as f64;
    Ok(Sample { alone: value("latency_alone"), all: value("latency"), misses })
}

fn outcome(parts: &ResolvedCluster, asked: &Comparison, rows: &[(Footprint, Option<Sample>)]) -> Outcome {
    let Comparison { nodes, per_node, .. } = *asked;
    let ranks = u64::from(nodes) * u64::from(per_node);
    let mut outcome = Outcome::new();
    let library = parts.uniform().map_or("", |group| group.software.name.as_str());
    outcome
        .set("cluster", parts.name.clone())
        .set("library", library)
        .set("nodes", nodes)
        .set("ranks_per_node", per_node)
        .set("ranks", ranks);
    outcome.note(format!(
        "MPI of {ranks} ranks, {per_node} on each of {nodes} nodes of {}, library {library}, all connected to all",
        parts.name
    ));
    let mut columns = vec![
        Column::words("transport", "transport"),
        Column::number("contexts per adapter", "contexts_per_adapter"),
        Column::number("process (MB)", "process_bytes").unit("B"),
        Column::number("node (MB)", "node_bytes").unit("B"),
    ];
    let measured = asked.measured.is_some();
    if measured {
        columns.extend([
            Column::number("alone (us)", "latency_alone_us").unit("us"),
            Column::number("all (us)", "latency_us").unit("us"),
            Column::number("misses per message", "context_misses_per_message"),
        ]);
    }
    let mut grid = Grid::new(columns);
    for (footprint, sample) in rows {
        let mut row = vec![
            Cell::word(footprint.transport),
            Cell::count(footprint.contexts_per_adapter),
            Cell::told(format!("{:.2}", footprint.process_bytes as f64 / 1e6), footprint.process_bytes),
            Cell::told(format!("{:.1}", footprint.node_bytes as f64 / 1e6), footprint.node_bytes),
        ];
        if measured {
            let sample = sample.unwrap_or_default();
            row.extend([Cell::number(sample.alone, 2), Cell::number(sample.all, 2), Cell::number(sample.misses, 2)]);
        }
        grid.push(row);
    }
    outcome.keyed_table("transports", grid);
    if let Some(contexts) = parts.uniform().and_then(|group| group.node.nic.contexts.as_ref()) {
        outcome.note(format!("the adapter holds {} contexts on the chip", *contexts.cached));
    }
    if measured {
        outcome.note("alone: one rank of each node sends to another partner each time; all: every rank does");
    } else {
        outcome.note("--measure adds the time of messages, every packet simulated");
    }
    outcome
}
