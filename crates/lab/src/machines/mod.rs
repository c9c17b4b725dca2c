//! The machines of the lists: what they are made of, what HPL reaches on them beside what was published, and what of it is the network.
//!
//! Source: the clusters of the catalogue that say what a list has of them (`[listed]`).
//! Modelled: HPL on the nodes and with the unknowns that the list names; on all nodes, and with nine tenths of the memory, where it names
//! none. Collectives on all nodes where they are asked for.
//! Not modelled: partitions that were left out of a cluster.

mod collectives;

use fabriscope_catalog::{Basis, Catalog, Cluster, Kind, Listed, ResolvedCluster, Topology};
use fabriscope_hpl::Options;
use fabriscope_units::{Bytes, Rate};
use rayon::prelude::*;

use crate::error::LabError;
use crate::hpl::{HplMachine, HplRun};

pub use collectives::{Collectives, collectives};

/// What is known and predicted of a machine.
#[derive(Debug, Clone)]
pub struct MachineRow {
    /// The cluster.
    pub name: String,
    /// One line on it.
    pub title: String,
    /// What a reader should know besides: above all what is assumed.
    pub notes: String,
    /// Nodes.
    pub nodes: u32,
    /// Adapters of a node, and which.
    pub nics: u32,
    /// Their part.
    pub nic: String,
    /// GPUs of a node.
    pub gpus: u32,
    /// Their part; that of the processors of nodes without.
    pub processor: String,
    /// The rate of an adapter.
    pub rate: Rate,
    /// The topology, by its name in files.
    pub topology: String,
    /// What the list says.
    pub listed: Listed,
    /// Nodes that HPL runs on.
    pub hpl_nodes: u32,
    /// Capacity between halves of the fabric, as a share of what a half sends.
    pub bisection: Option<f64>,
    /// HPL; or why it did not run.
    pub hpl: Result<HplRun, String>,
    /// Peak of the parts that took part, in operations per second.
    pub peak: Option<f64>,
    /// Numbers of the cluster and its parts that are assumed, and how HPL was sized.
    pub assumed: Vec<String>,
}

impl MachineRow {
    /// What HPL reaches, in operations per second.
    #[must_use]
    pub fn predicted(&self) -> Option<f64> {
        self.hpl.as_ref().ok().map(|run| run.times.rate())
    }
    /// What was published.
    #[must_use]
    pub fn published(&self) -> Option<f64> {
        self.listed.rmax.as_ref().map(|rate| rate.as_f64())
    }
    /// Predicted and published as shares of the peak that the list counts.
    #[must_use]
    pub fn of_peak(&self) -> Option<(f64, f64)> {
        let peak = self.listed.rpeak.as_ref()?.as_f64();
        Some((self.predicted()? / peak, self.published()? / peak))
    }
    /// By how many points of the peak the prediction is off: predicted less published.
    #[must_use]
    pub fn points_off(&self) -> Option<f64> {
        self.of_peak().map(|(predicted, published)| (predicted - published) * 100.0)
    }
}

/// The names of all machines of lists, in the order of what was published, the largest first; then those of which nothing was. Clusters
/// that rest on such a one with another library or placement are not counted twice.
#[must_use]
pub fn names(catalog: &Catalog) -> Vec<String> {
    let rate = |cluster: &Cluster| cluster.listed.as_ref().and_then(|listed| listed.rmax.as_ref().map(|rate| **rate));
    let says_it_itself = |name: &&str| catalog.text_of(Kind::Cluster, name).is_some_and(|text| text.contains("[listed]"));
    let clusters = catalog.names(Kind::Cluster).into_iter().filter(says_it_itself).filter_map(|name| catalog.cluster(name).ok());
    let mut found: Vec<_> = clusters.filter(|cluster| cluster.listed.is_some()).map(|cluster| (rate(cluster), &cluster.name)).collect();
    found.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    found.into_iter().map(|(_, name)| name.clone()).collect()
}

/// All of them.
///
/// # Errors
/// A cluster whose parts do not fit together.
pub fn all(catalog: &Catalog, seed: u64) -> Result<Vec<MachineRow>, LabError> {
    names(catalog).par_iter().map(|name| one(catalog, name, seed)).collect()
}

/// One of them.
///
/// # Errors
/// No such cluster, one of which no list says anything, parts that do not fit together.
pub fn one(catalog: &Catalog, name: &str, seed: u64) -> Result<MachineRow, LabError> {
    let cluster = catalog.cluster(name)?;
    let Some(listed) = cluster.listed.clone() else {
        let help = "`fabriscope machines` lists those that have one; HPL runs on others, too: fabriscope bench hpl --on CLUSTER";
        return Err(LabError::refused(format!("`{name}` has no entry in a list of machines"), help));
    };
    let parts = resolved(catalog, &listed, name)?;
    let group = parts.sole();
    let node = &group.node;
    let hpl_nodes = listed.nodes.as_ref().map_or(parts.nodes(), |nodes| **nodes).min(parts.nodes());
    let found = HplMachine::new(&parts, seed).map(|machine| HplMachine { nodes: hpl_nodes, ..machine });
    let unknowns = listed.unknowns.as_ref().map(|unknowns| u64::from(**unknowns));
    let options = Options { unknowns, ..Options::default() };
    let hpl = match &found {
        Ok(machine) => machine.problem(&options).and_then(|problem| machine.run(&problem)).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let peak = found.as_ref().ok().map(|machine| machine.peak * f64::from(machine.machine.per_node) * f64::from(hpl_nodes));
    Ok(MachineRow {
        name: name.to_owned(),
        title: cluster.title.clone(),
        notes: cluster.notes.clone(),
        nodes: parts.nodes(),
        nics: node.nics,
        nic: node.nic.name.clone(),
        gpus: node.gpus,
        processor: node.gpu.as_ref().map_or_else(|| node.cpu.name.clone(), |gpu| gpu.name.clone()),
        rate: group.link.data_rate(),
        topology: topology(&parts.topology),
        hpl_nodes,
        bisection: found.as_ref().ok().and_then(|machine| machine.bisection),
        hpl,
        peak,
        assumed: assumed(&parts, &listed),
        listed,
    })
}

/// The nodes that the list speaks of.
fn resolved(catalog: &Catalog, listed: &Listed, name: &str) -> Result<ResolvedCluster, LabError> {
    let target = listed.group.as_ref().map_or_else(|| name.to_owned(), |group| format!("{name}:{group}"));
    Ok(catalog.target(&target)?)
}

/// What a topology is called in files.
fn topology(topology: &Topology) -> String {
    let value = serde_json::to_value(topology).unwrap_or_default();
    value.as_object().and_then(|table| table.keys().next().cloned()).unwrap_or_default()
}

/// What the prediction rests on that nobody published.
fn assumed(parts: &ResolvedCluster, listed: &Listed) -> Vec<String> {
    let mut found = Vec::new();
    let node = &parts.sole().node;
    let share = match &node.gpu {
        Some(gpu) => gpu.dgemm.as_ref().map(|dgemm| (gpu.name.as_str(), &dgemm.sustained)),
        None => node.cpu.dgemm.as_ref().map(|dgemm| (node.cpu.name.as_str(), &dgemm.sustained)),
    };
    if let Some((name, share)) = share {
        let from = if share.source.is_empty() { &share.note } else { &share.source };
        let how = match share.basis {
            Basis::Fitted => "fitted to",
            Basis::Assumed | Basis::Estimated => "assumed:",
            _ => "from",
        };
        found.push(format!("{name} keeps up {} of its peak in multiplications, {how} {from}", share.value));
    }
    if let Some(nodes) = &listed.nodes {
        found.push(format!("{} nodes took part: {}", **nodes, if nodes.note.is_empty() { &nodes.source } else { &nodes.note }));
    }
    if listed.unknowns.is_none() {
        found.push("the matrix fills nine tenths of the memory: the list names no size here".to_owned());
    }
    found
}

/// Sizes of collectives where none are named.
pub const SIZES: [Bytes; 2] = [Bytes(8), Bytes::from_mib(1)];
