//! A cluster that is asked again and again: its parts, its wired fabric, and the answers that it gave already.
//!
//! What costs on the way to an answer is kept: parts are resolved and the fabric is wired once; a time that depends on the question alone
//! is computed once. Runs of flows are not kept: their questions are long, and seldom the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_catalog::{Catalog, NodeGroup, ResolvedCluster};
use fabriscope_engine::Cluster as Wired;
use fabriscope_lab::bench::BenchRequest;
use fabriscope_units::Remedy;

use crate::engine::Engine;
use crate::status::{Failure, Status};

/// A cluster ready to be asked; `fabriscope_cluster` of the header.
pub struct Cluster {
    catalog: Arc<Catalog>,
    wired: Wired,
    answers: Mutex<BTreeMap<Question, u64>>,
}

/// What is asked of a benchmark: all that its answer depends on, beside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Question {
    /// The program.
    pub tool: &'static str,
    /// The value of its table, in µs.
    pub metric: &'static str,
    /// The size that stands beside it.
    pub size: u64,
    /// The two nodes, of a benchmark between two.
    pub ends: Option<[u32; 2]>,
    /// Nodes and ranks on each, of a job; all cores or GPUs, if 0.
    pub job: Option<(u32, u32)>,
    /// What carries it.
    pub engine: Engine,
}

impl Cluster {
    /// A cluster by what stands behind `--on`: `ri2`, `mine.toml`, `lab-16:4`.
    ///
    /// # Errors
    /// No such cluster, or a fault in its file.
    pub fn open(target: &str) -> Result<Cluster, Failure> {
        let catalog = fabriscope::embedded()?;
        Cluster::of(catalog, catalog.target(target)?)
    }

    /// A cluster from the text of a TOML file.
    ///
    /// # Errors
    /// A fault in the text.
    pub fn from_text(text: &str) -> Result<Cluster, Failure> {
        let catalog = fabriscope::embedded()?;
        Cluster::of(catalog, catalog.cluster_from_text("text of a cluster", text, None)?)
    }

    fn of(catalog: &Arc<Catalog>, parts: ResolvedCluster) -> Result<Cluster, Failure> {
        let wired = Wired::new(parts).map_err(|error| Failure { status: Status::Cluster, text: error.in_full() })?;
        Ok(Cluster { catalog: Arc::clone(catalog), wired, answers: Mutex::default() })
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> &ResolvedCluster {
        &self.wired.parts
    }

    /// Its parts and its fabric.
    pub(crate) fn wired(&self) -> &Wired {
        &self.wired
    }

    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.parts().nodes()
    }

    /// Cores of a node, which are the most ranks of MPI; of unlike nodes the fewest.
    #[must_use]
    pub fn cores_per_node(&self) -> u32 {
        self.fewest(|group| group.node.cpu.cores.saturating_mul(group.node.sockets))
    }

    /// GPUs of a node, which are the most ranks of NCCL; of unlike nodes the fewest.
    #[must_use]
    pub fn gpus_per_node(&self) -> u32 {
        self.fewest(|group| group.node.gpus)
    }

    /// Adapters of a node; of unlike nodes the fewest.
    #[must_use]
    pub fn adapters_per_node(&self) -> u32 {
        self.fewest(|group| group.node.nics)
    }

    fn fewest(&self, of: fn(&NodeGroup) -> u32) -> u32 {
        self.parts().groups.iter().map(of).min().unwrap_or(0)
    }

    /// Whether there is such a node.
    pub(crate) fn check_node(&self, node: u32) -> Result<(), Failure> {
        let (name, nodes) = (&self.parts().name, self.nodes());
        if node < nodes {
            return Ok(());
        }
        Err(Failure::argument(format!("there is no node {node}: {name} has {nodes}"), format!("give a node from 0 to {}", nodes - 1)))
    }

    /// The answer in picoseconds: as it was computed before, or by a run of the benchmark with `options`.
    pub(crate) fn answer(&self, question: Question, options: impl FnOnce() -> Result<Vec<String>, Failure>) -> Result<u64, Failure> {
        if let Some(known) = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&question) {
            return Ok(*known);
        }
        let picoseconds = self.run(question, options()?)?;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MOST_ANSWERS {
            answers.clear();
        }
        answers.insert(question, picoseconds);
        Ok(picoseconds)
    }

    fn run(&self, question: Question, options: Vec<String>) -> Result<u64, Failure> {
        let Question { tool, metric, size, ends, job, engine } = question;
        let nodes = job.map(|(nodes, _)| nodes);
        let per_node = job.map(|(_, ranks)| ranks).filter(|ranks| *ranks > 0);
        let request = BenchRequest { options, nodes, per_node, engine: engine.into(), ..BenchRequest::named(tool)? };
        let setup = request.set_up(&self.catalog, self.parts().clone())?;
        let setup = if let Some(ends) = ends { setup.on_nodes(ends.into()) } else { setup };
        let run = setup.run_on(Some(&self.wired))?;
        let point = run.printed.points.iter().find(|point| point.metric == metric);
        let point = point.ok_or_else(|| Failure { status: Status::Failed, text: format!("{tool} printed no {metric}") })?;
        if point.size.0 != size {
            let what = format!("{size} bytes do not divide among the ranks: {} would be moved", point.size.0);
            return Err(Failure::argument(what, "give a multiple of 4 bytes, of a reduce-scatter for each rank"));
        }
        Ok((point.value * PS_PER_US).round() as u64)
    }
}

/// 10⁶ ps.
const PS_PER_US: f64 = 1e6;
/// Answers that are kept. Basis: assumed; some megabytes.
const MOST_ANSWERS: usize = 65_536;
