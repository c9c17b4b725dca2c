//! `osu_allreduce` and `osu_alltoall` on all nodes of a machine, as flows: ranks that do the same are one.
//!
//! Source: the algorithms that the cluster's MPI library takes for so many ranks and bytes, as `osu_allreduce` and `osu_alltoall` would run.
//! Modelled: one call, at the costs of the verbs; by shortest paths where the fabric routes by the state
//! of queues, which fluids have not. Not modelled: what the library and the cores do beside the messages.

use std::sync::Arc;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_collectives::{Algorithm, Call};
use fabriscope_engine::{Cluster, Demand, Engine, Folding, Job, Placement, RoundsWork, RunOptions, Service, Work};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_fabric::Routing;
use fabriscope_fabric::routing::{Route, Router};
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::Tool;
use fabriscope_tools::collective::stepwise;
use fabriscope_units::{Bytes, Span, Time};

use super::{resolved, topology};
use crate::error::LabError;
use crate::launch::LaunchError;
use crate::memory::Memory;
use crate::traffic::{over, refused};

/// What a collective takes on a machine.
#[derive(Debug, Clone)]
pub struct Collectives {
    /// The benchmark.
    pub tool: &'static str,
    /// Bytes of a call: the buffer, or the block for each rank.
    pub size: Bytes,
    /// Ranks.
    pub ranks: u32,
    /// How it is carried out.
    pub algorithm: String,
    /// What it takes; or why that is not known.
    pub time: Result<Span, String>,
}

/// Both of them, with each size, one rank for each adapter of all nodes.
///
/// # Errors
/// No such cluster, parts that do not fit together.
pub fn collectives(catalog: &Catalog, name: &str, sizes: &[Bytes], seed: u64) -> Result<Vec<Collectives>, LabError> {
    let cluster = catalog.cluster(name)?;
    let parts = match &cluster.listed {
        Some(listed) => resolved(catalog, listed, name)?,
        None => catalog.target(name)?,
    };
    let mut wired = Cluster::new(parts).map_err(LaunchError::from)?;
    let follows = |routing: &Routing| Router::new(&wired.fabric, *routing).is_ok_and(|router| router.oblivious());
    if let Some(routing) = [wired.parts.routing, Routing::Minimal, Routing::Spray].into_iter().find(follows) {
        wired.parts.routing = routing;
    }
    let parts = wired.parts.clone();
    let mut found = Vec::new();
    for tool in TOOLS {
        for size in sizes {
            found.push(one(&parts, &wired, tool, *size, seed)?);
        }
    }
    Ok(found)
}

fn one(parts: &ResolvedCluster, cluster: &Cluster, tool: &'static str, size: Bytes, seed: u64) -> Result<Collectives, LabError> {
    let layout = Layout { nodes: parts.nodes(), per_node: parts.sole().node.nics };
    let target = Target::common(parts, layout, Binding::default()).map_err(LaunchError::from)?;
    let options: Vec<String> = ["-m", &format!("{0}:{0}", size.0), "-i", "1", "-x", "0"].map(str::to_owned).to_vec();
    let Tool::Collective(benchmark) = Tool::by_name(tool).map_err(LaunchError::from)? else {
        return Err(LabError::refused(format!("{tool} is no collective benchmark"), "use osu_allreduce or osu_alltoall"));
    };
    let data = stepwise(benchmark, &options, &target).map_err(LaunchError::from)?;
    let row = data.map_err(|what| LabError::refused(format!("no rounds of {what}"), "use another size"))?.rows.into_iter().next();
    let Some(row) = row else {
        return Err(LabError::refused(format!("{tool} has no row of {size}"), "use --sizes of at least 4 bytes"));
    };
    let (call, algorithm) = (row.call, row.algorithm);
    let time = run(parts, cluster, (&call, &algorithm), seed);
    Ok(Collectives { tool, size, ranks: layout.ranks(), algorithm: algorithm.to_string(), time })
}

fn run(parts: &ResolvedCluster, cluster: &Cluster, (call, algorithm): (&Call, &Algorithm), seed: u64) -> Result<Span, String> {
    if algorithm.is_in_network() {
        return Err("switches carry it out, and messages of ranks are followed here".to_owned());
    }
    let messages = u64::from(call.ranks) * algorithm.peers(call, 0).len() as u64;
    if messages > MOST_MESSAGES {
        return Err(format!("{messages} messages on a {}: more than are followed here", topology(&parts.topology)));
    }
    let work = RoundsWork { program: Arc::new((*call, algorithm.clone())), folding: Folding::Auto };
    let (placement, connections, options) = (Placement::PerNode(call.per_node), over(parts, Service::default()), RunOptions::default());
    let demand = Demand::Rounds { work: &work, placement: &placement, connections: &connections, options: &options };
    let told = |error| refused(error).to_string();
    let need = FlowEngine.memory(cluster, &demand).map_err(told)?;
    Memory::default().fits(need)?;
    let job = Job { placement, connections, work: Work::Rounds(work) };
    let run = FlowEngine.run(cluster, job, &options, seed).map_err(told)?;
    Ok(run.end - Time::ZERO)
}

/// The benchmarks.
const TOOLS: [&str; 2] = ["osu_allreduce", "osu_alltoall"];
/// Messages that are followed at most, where ranks that do the same could not be found. Basis: assumed; about a minute.
const MOST_MESSAGES: u64 = 250_000;
